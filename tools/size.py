"""Prints how large the project is. This is a report, never a gate.

It counts lines by room, and measures the length of functions and the size of wheels.

``python tools/size.py [FOLDER]``: FOLDER holds the wheel; the default is ``dist``. A line of code
holds more than white space, a comment or a docstring. The length of a function is its lines of
code, including its signature.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
import zipfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "weighbridge"
LONG = 30  # lines
_NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def node_lines(node: ast.stmt) -> set[int]:
    """Return the numbers of the lines of a statement, without its decorators."""
    return set(range(node.lineno, (node.end_lineno or 0) + 1))


def docstring_lines(node: ast.AST) -> set[int]:
    """Return the line numbers of a node's docstring; empty if it has none."""
    if not isinstance(node, _DOCUMENTED) or ast.get_docstring(node, clean=False) is None:
        return set()
    return node_lines(node.body[0])


def code_lines(text: str) -> set[int]:
    """Return the numbers of the lines that hold code in a Python text."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    code = {
        line
        for token in tokens
        if token.type not in _NO_CODE
        for line in range(token.start[0], token.end[0] + 1)
    }
    for node in ast.walk(ast.parse(text)):
        code -= docstring_lines(node)
    return code


def functions(path: Path) -> list[tuple[int, str]]:
    """Return the lines of code and the place of every function of a file."""
    text = path.read_text(encoding="utf-8")
    code = code_lines(text)
    return [
        (len(code & node_lines(node)), f"{path.relative_to(ROOT)}:{node.name}")
        for node in ast.walk(ast.parse(text))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]


def room_of(path: Path) -> str:
    """Return the top-level folder (``readers/``) or module (``expr.py``) that holds a file."""
    top = path.relative_to(PACKAGE).parts[0]
    return top if top.endswith(".py") else f"{top}/"


def python_files(folder: Path) -> list[Path]:
    """Return the Python files below a folder, in order."""
    return sorted(folder.rglob("*.py")) if folder.exists() else []


def count_code(paths: list[Path]) -> int:
    """Return the number of lines of code in some files."""
    return sum(len(code_lines(path.read_text(encoding="utf-8"))) for path in paths)


def count_text(folder: Path, *suffixes: str) -> int:
    """Return the number of non-empty lines in the files with these suffixes below a folder."""
    paths = (path for path in sorted(folder.rglob("*")) if path.suffix in suffixes)
    return sum(
        bool(line.strip())
        for path in paths
        for line in path.read_text(encoding="utf-8").splitlines()
    )


def print_rooms() -> None:
    """Print the lines of each room and folder, and the lines of tests per line of source."""
    rooms: Counter[str] = Counter()
    for path in python_files(PACKAGE):
        rooms[room_of(path)] += count_code([path])
    for room, lines in rooms.most_common():
        print(f"{lines:>7,}  src  {room}")
    source, tests = rooms.total(), count_code(python_files(ROOT / "tests"))
    print(f"{source:>7,}  src in total, plus {count_text(PACKAGE, '.toml'):,} lines of data")
    print(f"{tests:>7,}  tests: {tests / source:.2f} per line of source")
    for folder in ("bench", "tools"):
        print(f"{count_code(python_files(ROOT / folder)):>7,}  {folder}")
    pages = sum(
        bool(line.strip())
        for page in ROOT.glob("*.md")
        for line in page.read_text("utf-8").splitlines()
    )
    print(f"{count_text(ROOT / 'docs', '.md') + pages:>7,}  docs: lines of Markdown")


def print_functions() -> None:
    """Print the lengths of the package's functions."""
    found = sorted(function for path in python_files(PACKAGE) for function in functions(path))
    short = sum(length < LONG for length, _ in found)
    at = {
        percent: found[min(len(found) - 1, len(found) * percent // 100)][0]
        for percent in (50, 90, 99)
    }
    print(f"{len(found):,} functions, {100 * short / len(found):.1f}% under {LONG} lines of code")
    print(
        f"half have at most {at[50]} lines, 90% at most {at[90]}, "
        f"99% at most {at[99]}; the longest:"
    )
    for length, place in reversed(found[-3:]):
        print(f"{length:>7,}  {place}")


def print_wheels(folder: Path) -> None:
    """Print the size of each wheel in a folder, packed and unpacked, in bytes."""
    for wheel in sorted(folder.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            unpacked = sum(member.file_size for member in archive.infolist())
        print(f"{wheel.stat().st_size:,} bytes: {wheel.name}, {unpacked:,} bytes unpacked")


def main() -> None:
    """Print the report."""
    print_rooms()
    print_functions()
    print_wheels(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist")


if __name__ == "__main__":
    main()
