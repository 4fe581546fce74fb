"""Documents on a terminal: lines that fit, styles, bars, and tables that are too wide."""

import re
from collections.abc import Iterator

import pytest
from hostile import HOSTILE
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from weighbridge.answers.formula import ClosedForm
from weighbridge.answers.inspect import GROUPINGS, inspect
from weighbridge.answers.tree import Tree
from weighbridge.answers.weigh import weigh
from weighbridge.blueprint import schema
from weighbridge.render.bars import bar
from weighbridge.render.document import Aside, Document, Notes, Paragraph, Title, WideTable, write
from weighbridge.render.table import COLUMNS, DIM, PLAIN, Screen, Table, styled, width
from weighbridge.render.table import text as text_of_table
from weighbridge.render.terminal import as_text

LANGS = st.sampled_from(["en", "zh"])
NAMES = st.text("abc词", min_size=1, max_size=20)


def square(names: list[str]) -> Table:
    """Return a table whose cell in row ``i`` and column ``j`` is ``i.j``."""
    rows = []
    for row, name in enumerate(names):
        cells = (f"{row}.{column}" for column in range(len(names)))
        rows.append((name, *cells))
    return Table(("", *names), tuple(rows), "<" + ">" * len(names))


def text_of(names: list[str]) -> str:
    return write(Document((WideTable(square(names)),)), "text")


@given(st.lists(NAMES, min_size=1, max_size=40))
def test_a_wide_table_has_every_cell_once_in_lines_that_fit(names: list[str]) -> None:
    text = text_of(names)
    cells = sorted(re.findall(r"\d+\.\d+", text))
    places = range(len(names))
    assert cells == sorted(f"{row}.{column}" for row in places for column in places)
    assert max(map(width, text.splitlines())) <= COLUMNS


def test_its_slices_each_have_the_first_column() -> None:
    names = [f"name{number}" for number in range(30)]
    slices = text_of(names).split("\n\n")
    assert len(slices) == 4
    for part in slices:
        assert [line.split()[0] for line in part.splitlines()[1:]] == names


@pytest.mark.parametrize(
    ("name", "shown"), [("twelve_chars", "twelve_chars"), ("thirteen_char", "thirteen_ch…")]
)
def test_a_long_name_is_cut(name: str, shown: str) -> None:
    header, row = text_of([name]).splitlines()
    assert header.split() == [shown]
    assert row.split() == [shown, "0.0"]


# Lines fit the screen


def too_wide(text: str, columns: int) -> list[str]:
    """Return the lines wider than the screen, except those with a name too long for any line.

    A name may have a deep indent before it and other text after it.
    """
    lines = [line for line in text.splitlines() if width(line) > columns]
    return [line for line in lines if max(map(width, re.split(r"[ ·]", line))) < columns - 24]


def documents_of(family: str, lang: str) -> Iterator[Document]:
    weighing = weigh(family)
    for grouping in ("component", "role", "layer"):
        yield weighing.document(lang, grouping)
    yield Tree(weighing).document(lang)
    yield ClosedForm(weighing).document(lang, "component")


@given(st.sampled_from(schema.families()), LANGS, st.integers(80, 120))
@settings(deadline=None, max_examples=30, phases=(Phase.reuse, Phase.generate))
def test_every_line_about_a_family_fits_the_screen(family: str, lang: str, columns: int) -> None:
    for document in documents_of(family, lang):
        plain = as_text(document, Screen(columns))
        assert too_wide(plain, columns) == []
        shown = as_text(document, Screen(columns, is_styled=True, has_bars=True))
        assert too_wide(re.sub(r"\x1b\[\d+m", "", shown), columns) == []


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("columns", [80, 100, 120])
@pytest.mark.parametrize("grouping", GROUPINGS)
def test_every_line_about_a_checkpoint_fits_the_screen(
    grouping: str, columns: int, lang: str
) -> None:
    document = inspect(str(HOSTILE / "sound.safetensors")).document(lang, grouping)
    assert too_wide(as_text(document, Screen(columns, has_bars=True)), columns) == []


def test_a_tree_exceeds_80_columns_only_if_a_line_does() -> None:
    document = Tree(weigh("bert-base-chinese")).document()
    assert as_text(document, Screen(120)).splitlines()[1] == as_text(document).splitlines()[1]


@given(LANGS)
def test_a_document_without_a_screen_has_80_plain_columns(lang: str) -> None:
    document = weigh("bert-base-chinese").document(lang)
    assert write(document, "text") == as_text(document, PLAIN) == as_text(document, Screen(80))


# Styles and bars


def test_only_asides_are_dimmed() -> None:
    document = Document((Notes(("first", Aside("second"))), Paragraph(Aside("third"))))
    shown = as_text(document, Screen(80, is_styled=True))
    assert shown == f"first\n{styled('second', DIM)}\n\n{styled('third', DIM)}"
    assert as_text(document) == "first\nsecond\n\nthird"


def test_a_style_ends_with_its_line() -> None:
    shown = as_text(Document((Title("one two"),)), Screen(6, is_styled=True))
    assert shown == "\x1b[1mone\x1b[0m\n\x1b[1m  two\x1b[0m"


@given(st.floats(0, 1), st.integers(1, 30))
def test_a_bar_is_as_long_as_its_fraction(fraction: float, longest: int) -> None:
    drawn = bar(fraction, longest)
    eighths = sum(" ▏▎▍▌▋▊▉█".index(block) for block in drawn)
    assert eighths == round(8 * fraction * longest)
    assert len(drawn) <= longest


@pytest.mark.parametrize(("columns", "bars"), [(18, False), (19, True), (80, True)])
def test_bars_are_drawn_where_there_is_room(columns: int, bars: bool) -> None:
    table = Table(("part", "share"), (("词", "75%"), ("b", "25%")), "<>", 0, (0.75, 0.25), 1)
    shown = text_of_table(table, Screen(columns, has_bars=True))
    assert ("█" in shown) == bars
    assert max(map(width, shown.splitlines())) <= columns


def test_bars_stand_beside_the_share_and_not_beside_totals() -> None:
    table = Table(
        ("a", "share", "b"),
        (("x", "90%", "1"), ("y", "10%", "2"), ("total", "100%", "3")),
        *("<>>", 1, (0.9, 0.1), 1),
    )
    assert text_of_table(table, Screen(23, has_bars=True)).splitlines() == [
        "a      share          b",
        "x        90%  ██████  1",
        "y        10%  ▋       2",
        "-----------------------",
        "total   100%          3",
    ]


def test_shares_of_nothing_have_no_bars() -> None:
    table = Table(("a", "share"), (("x", "-"),), "<>", 0, (0.0,), 1)
    assert text_of_table(table, Screen(80, has_bars=True)) == text_of_table(table)
