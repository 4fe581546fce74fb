"""The output for a terminal, with its width, styles and bars, and for a pipe."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from itertools import chain

import pytest
from terminals import on_terminal

from weighbridge.answers.weigh import weigh
from weighbridge.cli import screen
from weighbridge.render.bars import BLOCKS
from weighbridge.render.table import PLAIN, Screen, width

WEIGH = ("weigh", "bert-base-chinese")
ESCAPE = re.compile(r"\x1b\[\d+m")
BAR = re.compile(f"[{BLOCKS}]")


def without_styles(text: str) -> str:
    return ESCAPE.sub("", text)


def piped(*arguments: str, **environment: str) -> bytes:
    command = (sys.executable, "-m", "weighbridge", *arguments)
    own = {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, check=True, env=own).stdout


@pytest.mark.parametrize("columns", [60, 80, 100, 120])
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_lines_are_as_wide_as_the_terminal(columns: int, lang: str) -> None:
    shown = on_terminal(*WEIGH, "--lang", lang, columns=columns)
    lines = without_styles(shown.out).splitlines()
    assert shown.err == ""
    assert columns - 12 < max(map(width, lines)) <= columns


def test_a_terminal_of_200_columns_shows_120_and_one_of_20_shows_40() -> None:
    assert without_styles(on_terminal(*WEIGH, columns=200).out) == without_styles(
        on_terminal(*WEIGH, columns=120).out
    )
    assert on_terminal(*WEIGH, columns=20) == on_terminal(*WEIGH, columns=40)


def test_the_environment_may_state_the_columns_of_a_terminal() -> None:
    assert on_terminal(*WEIGH, columns=120, COLUMNS="90") == on_terminal(*WEIGH, columns=90)
    for unstated in ("", "0", "wide"):
        assert on_terminal(*WEIGH, columns=90, COLUMNS=unstated) == on_terminal(*WEIGH, columns=90)


def test_a_terminal_of_unknown_width_has_80_columns() -> None:
    assert on_terminal(*WEIGH, columns=0) == on_terminal(*WEIGH, columns=80)


def test_a_pipe_gets_80_plain_columns_whatever_the_environment_states() -> None:
    text = weigh("bert-base-chinese").text()
    for stated in ("40", "120"):
        assert piped(*WEIGH, COLUMNS=stated, PYTHONUTF8="1").decode() == f"{text}\n"


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"NO_COLOR": "0"}, {"TERM": "dumb"}])
def test_a_terminal_without_styles_gets_what_a_pipe_gets(environment: dict[str, str]) -> None:
    for arguments in (WEIGH, ("tree", "bert-base-chinese"), ("explain", "bert-base-chinese")):
        shown = on_terminal(*arguments, **environment)
        assert shown.out == piped(*arguments, PYTHONUTF8="1").decode()


def test_an_empty_no_color_leaves_styles() -> None:
    assert ESCAPE.search(on_terminal(*WEIGH, NO_COLOR="").out)


def test_the_title_and_totals_are_bold_and_asides_are_dimmed() -> None:
    lines = on_terminal(*WEIGH).out.splitlines()
    bold = [line for line in lines if line.startswith("\x1b[1m")]
    dimmed = [line for line in lines if line.startswith("\x1b[2m")]
    assert [without_styles(line).split()[0] for line in bold] == [
        "google-bert/bert-base-chinese",
        "total",
    ]
    assert "where V = 21,128" in dimmed[0]
    assert "BertForMaskedLM" not in "".join(dimmed)
    for line in chain(bold, dimmed):
        assert line.endswith("\x1b[0m")
        assert len(ESCAPE.findall(line)) == 2


@pytest.mark.parametrize("command", ["tree", "explain", "formula", "weigh --by tensor"])
def test_styles_change_no_text(command: str) -> None:
    arguments = (*command.split(), "bert-base-chinese")
    styled, plain = on_terminal(*arguments).out, on_terminal(*arguments, NO_COLOR="1").out
    assert styled != plain
    assert without_styles(styled) == plain


def test_bars_stand_beside_the_shares_that_they_show() -> None:
    lines = without_styles(on_terminal(*WEIGH, columns=100).out).splitlines()
    drawn = {}
    for line in lines[2:11]:
        share, bar = re.search(rf"([\d.<]+%)(?:  ([{BLOCKS}]+))?$", line).groups(default="")
        drawn[share] = len(bar)
    assert drawn == {"15.9%": 7, "0.4%": 1, "<0.1%": 0, "27.7%": 12, "55.4%": 24, "0.6%": 1}
    assert not any(map(BAR.search, lines[11:]))


@pytest.mark.parametrize(
    ("arguments", "columns"),
    [
        ((*WEIGH, "--by", "tensor"), 120),
        ((*WEIGH, "--markdown"), 120),
        ((*WEIGH, "--json"), 120),
        ((*WEIGH, "--csv"), 120),
        (("formula", "bert-base-chinese", "--format", "python"), 120),
        (WEIGH, 60),
    ],
)
def test_there_are_no_bars_without_shares_or_room_or_in_data(
    arguments: tuple[str, ...], columns: int
) -> None:
    assert not BAR.search(on_terminal(*arguments, columns=columns).out)


@pytest.mark.parametrize("form", ["--json", "--csv", "--markdown"])
def test_data_is_the_same_on_a_terminal(form: str) -> None:
    shown = on_terminal(*WEIGH, form, columns=120).out.replace("\r", "")
    assert shown.encode() == piped(*WEIGH, form).replace(b"\r", b"")


@pytest.mark.parametrize(
    ("encoding", "has_bars"),
    [("utf-8", True), ("gb18030", True), ("latin-1", False), ("ascii", False), ("nonsense", False)],
)
def test_bars_are_left_out_where_they_cannot_be_written(encoding: str, has_bars: bool) -> None:
    class Terminal:
        def __init__(self) -> None:
            self.encoding = encoding

        def isatty(self) -> bool:
            return True

        def fileno(self) -> int:
            return -1

    assert screen.screen_of(Terminal()) == Screen(80, is_styled=True, has_bars=has_bars)


def test_a_latin_1_terminal_is_styled_without_bars() -> None:
    shown = on_terminal("weigh", "bert-tiny", PYTHONIOENCODING="latin-1", PYTHONUTF8="0").out
    assert "\x1b[1m" in shown
    assert "\\u2588" not in shown


def test_a_stream_that_is_not_a_terminal_is_plain() -> None:
    assert screen.screen_of(None) == PLAIN


@pytest.mark.parametrize("columns", [80, 100])
def test_help_is_as_wide_as_the_terminal(columns: int) -> None:
    lines = on_terminal("weigh", "--help", columns=columns).out.splitlines()
    assert columns - 12 < max(map(width, lines)) <= columns


def test_notes_and_errors_fit_a_terminal_and_are_one_line_elsewhere() -> None:
    arguments = ("weigh", "bert", "--set", "hidden_size=770")
    shown = on_terminal(*arguments, columns=50)
    assert shown.status == 2
    lines = shown.err.splitlines()
    assert len(lines) > 1
    assert max(map(width, lines)) <= 50
    assert "\x1b" not in shown.err
    command = (sys.executable, "-m", "weighbridge", *arguments)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr.count("\n") == 1
    assert done.stderr.split() == shown.err.split()
