"""The tool that compares two versions: its command lines, and its report on their answers."""

import importlib.util
import re
import shutil
import sys
from pathlib import Path

import pytest

from weighbridge import __version__
from weighbridge.cli import main as weighbridge

ROOT = Path(__file__).resolve()
while not (ROOT / "pyproject.toml").exists():
    ROOT = ROOT.parent
_SPEC = importlib.util.spec_from_file_location("same", ROOT / "tools" / "same.py")
same = importlib.util.module_from_spec(_SPEC)
sys.modules["same"] = same
_SPEC.loader.exec_module(same)

needs_git = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a checkout")
VERSION = f'__version__ = "{__version__}"'


@pytest.fixture(scope="module")
def lines() -> list[str]:
    inputs = same.find_inputs(ROOT / "tests", ROOT / "no" / "such" / "folder")
    return same.command_lines(inputs, with_torch=True)


@pytest.fixture
def altered(tmp_path: Path) -> Path:
    """Return a checkout like this one except for its version."""
    tree = tmp_path / "altered"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src", tree / "src", ignore=ignored)
    (path,) = [path for path in tree.rglob("*.py") if VERSION in path.read_text("utf-8")]
    path.write_text(path.read_text("utf-8").replace(VERSION, '__version__ = "altered"'))
    return tree


def compare(tmp_path: Path, before: object, after: object, only: str, *more: str) -> int:
    options = ("--no-torch", "--cache", str(tmp_path / "cache"), f"--only={only}", *more)
    return same.main([str(before), str(after), *options])


# The command lines


def test_there_are_enough_command_lines_and_all_differ(lines: list[str]) -> None:
    assert len(lines) >= 300
    assert len(set(lines)) == len(lines)
    assert not [line for line in lines if re.search(r"\{\w", line)]


def test_every_command_of_the_help_occurs(
    lines: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        weighbridge(["--help"])
    commands = re.findall(r"^    ([a-z-]+)(?:  |$)", capsys.readouterr().out, re.MULTILINE)
    assert "weigh" in commands
    assert tuple(commands) == same.WORDS["command"]
    for command in commands:
        assert f"{command} --help" in lines
        assert sum(line.startswith(f"{command} ") for line in lines) > 2, command


@pytest.mark.parametrize("option", ["--lang en", "--lang zh", "--json", "--csv", "--markdown"])
def test_languages_and_formats_occur_often(lines: list[str], option: str) -> None:
    assert sum(option in line for line in lines) >= 20


@pytest.mark.parametrize("folder", ["real", "configs", "hostile", "corpus", "articles", "bad"])
def test_files_of_every_kind_are_read(lines: list[str], folder: str) -> None:
    assert sum(f"{folder}/" in line for line in lines) >= 20


def test_a_table_makes_every_combination_in_order() -> None:
    values = {"a": ("1", "2", "3"), "b": ("", "--x")}
    made = list(same.expand("# words\n\nsay {a:2} {b} {out}", values))
    assert [re.sub("out/[0-9a-f]{6}", "OUT", line) for line in made] == [
        "say 1 OUT",
        "say 1 --x OUT",
        "say 3 OUT",
        "say 3 --x OUT",
    ]
    assert len(set(made)) == 4


# Two versions


@pytest.mark.slow
@needs_git
def test_a_version_answers_as_itself(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    only = "conventions --lang,--version,weigh bad/z,inspect hostile/onnx-text"
    assert compare(tmp_path, "HEAD", "HEAD", only) == 0
    assert re.match(r"(\d+) of \1 command lines have the same answer\.\n$", capsys.readouterr().out)


def test_cached_answers_are_not_asked_for_again(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def answer(line: str, *_: object) -> same.Answer:
        asked.append(line)
        return found(f"{line}\udcff", status="timeout" if line == "slow" else 0, file="text")

    monkeypatch.setattr(same, "answer", answer)
    tree, cache = same.Tree("BEFORE", tmp_path, "0123abc"), tmp_path / "cache" / "answers.json.gz"
    first = same.answers(["a", "slow"], tree, tmp_path, 1, cache)
    second = same.answers(["a", "b", "slow"], tree, tmp_path, 1, cache)
    assert asked == ["a", "slow", "b", "slow"]
    assert second["a"] == first["a"]
    assert list(second) == ["a", "b", "slow"]


@pytest.mark.slow
def test_a_word_that_differs_is_shown(
    tmp_path: Path,
    altered: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert compare(tmp_path, ROOT, altered, "--vers") == 1
    out = capsys.readouterr().out
    assert re.match("[12] of [23] command lines", out)
    assert "\ndifferent: weighbridge --version\n" in out
    assert f"-weighbridge {__version__}\n" in out
    assert "+weighbridge altered\n" in out


def test_an_expected_difference_is_not_a_failure(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(same, "find_inputs", lambda *_: {"bad/a.json": b""})
    for word in ("one", "other"):
        package = tmp_path / word / "src" / "weighbridge"
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        (package / "__main__.py").write_text(f"print({word!r})")
    trees, expected = (tmp_path / "one", tmp_path / "other"), tmp_path / "expected"
    expected.write_text("# the version was altered\n--v*n\n\n--verso*\n")
    assert compare(tmp_path, *trees, "--vers", "--expected", str(expected)) == 0
    assert "\nas expected: weighbridge --version\n" in capsys.readouterr().out
    expected.write_text("--version\n")
    assert compare(tmp_path, *trees, "--vers", "--expected", str(expected)) == 1
    expected.write_text("--vers*\n")
    assert compare(tmp_path, trees[0], trees[0], "--vers", "--expected", str(expected)) == 2


def test_a_command_line_must_not_write_among_the_inputs(tmp_path: Path) -> None:
    inputs = {"bad/a.json": b"", "real/b.json": b"{}"}
    same.lay_out(inputs, tmp_path)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "c.toml").touch()
    same.check_untouched(inputs, tmp_path)
    (tmp_path / "real" / "c.toml").touch()
    with pytest.raises(same.CannotRunError, match=r"real/c\.toml"):
        same.check_untouched(inputs, tmp_path)


def test_an_unknown_revision_cannot_be_compared(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert compare(tmp_path, "no-such-revision", ROOT, "--version") == 2
    assert "no-such-revision" in capsys.readouterr().err


# The report


def found(stdout: str = "", stderr: str = "", status: int | str = 0, **files: str) -> object:
    return same.Answer(status, stdout, stderr, files, 0.0)


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        (found("a\n"), found("a\n"), []),
        (found("a"), found("a\n"), ["stdout"]),
        (found(stderr="a"), found(stderr="b"), ["stderr"]),
        (found(status=0), found(status=1), ["exit status: 0 before, 1 after"]),
        (found(x="1"), found(x="2"), ["x before"]),
        (found(x=""), found(), ["x: written by one version only"]),
        (found(status="timeout"), found(status="timeout"), ["BEFORE: ran", "AFTER: ran"]),
    ],
)
def test_differences_are_named(before: object, after: object, shown: list[str]) -> None:
    text = "\n".join(same.differences("weigh bert", before, after))
    assert bool(text) == bool(shown)
    for part in shown:
        assert part in text


def test_a_traceback_is_wrong_even_on_both_sides() -> None:
    failed = found(stderr="Traceback (most recent call last):\n  ...\nKeyError: 1", status=1)
    text = "\n".join(same.differences("weigh bert", failed, failed))
    assert "BEFORE: a traceback: KeyError: 1" in text
    assert "AFTER: a traceback: KeyError: 1" in text


def test_a_long_difference_is_cut() -> None:
    before, after = found("a\n" * 100), found("b\n" * 100)
    shown = same.differences("weigh bert", before, after)
    assert len(shown) == same.LONGEST_DIFF + 1
    assert re.fullmatch(r"… \d+ more lines", shown[-1])


def test_measurements_may_differ_where_they_are_listed_and_nowhere_else() -> None:
    first, second = "step_seconds   0.0006  0.0032  5.1", "step_seconds 0.0106  0.0132  1.2"
    assert same.differences("measure bert", found(first), found(second)) == []
    assert same.differences("weigh bert", found(first), found(second)) != []
    other = found("peak_bytes 12"), found("peak_bytes 13")
    assert same.differences("measure bert", *other) != []


def test_an_expected_difference_that_does_not_occur_is_an_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    different = {"weigh a": ["stdout"]}
    assert same.report(different, ["weigh a", "tree a"], ["weigh *"], complete=True) == 0
    assert same.report(different, ["weigh a", "tree a"], ["weigh *", "tree *"], complete=False) == 2
    assert "expected a difference, but found none: tree *" in capsys.readouterr().out
    assert same.report(different, ["weigh a"], ["weigh *", "explain *"], complete=False) == 0
    assert same.report(different, ["weigh a"], ["weigh *", "explain *"], complete=True) == 2
