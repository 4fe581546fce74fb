"""Measures how dense the code of the package is, room by room, and lists what exceeds a limit.

``python tools/density.py`` prints a table, then each breach with its file and line. ``--check``
exits with 1 if there is a breach, ``--room ROOM`` looks at one room only (``readers``, ``expr.py``)
and applies the limits of the package to it, ``--worst N`` lists the N functions with the highest
cognitive complexity. The following is counted in the ``.py`` files of ``src/weighbridge``:

- Lines: all lines that are not blank, including comments and docstrings. All rates and shares refer
  to these lines.
- Nested comprehensions: comprehensions (or generator expressions) that contain another one, at any
  depth, or have more than one ``for``. Of three nested ones, the outer two count.
- Conditional expressions: each ``a if b else c``.
- Lines over 100 columns: lines of any kind. Chinese characters take two columns, as in ruff.
- Comments: lines with a comment for the reader, alone or after code. ``# noqa``, ``# type:``,
  ``# fmt:`` and the like are for tools.
- Length of a function: every line from ``def`` to its end, including blank lines and comments, but
  without its docstring and decorators. An inner function counts in both functions.
- Cognitive complexity: the value that complexipy computes. This is SonarSource's measure, plus each
  ``for`` and ``if`` of a comprehension, with more weight when it is nested. An inner function
  counts in the outer one only. Comments cannot switch it off.
- Class names: the names that ``class`` defines, at any depth.
- Function names: the names that ``def`` defines at the top level of a module, without methods.
  ``[tool.weighbridge.density.meanings]`` in pyproject.toml lists, by folder, the names that mean
  the same in all modules of the folder. Such a folder counts as one module.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
import tomllib
import unicodedata
from collections import defaultdict
from dataclasses import dataclass
from typing import NamedTuple

import complexipy
from size import PACKAGE, ROOT, docstring_lines, node_lines, python_files, room_of


class Limit(NamedTuple):
    """The highest value that is allowed, its unit, and why it is not higher."""

    most: int
    unit: str
    reason: str

    def breach(self, name: str, value: float) -> str:
        """Return the message for a value over the limit."""
        return f"{name}: {value:,g} {self.unit}, limit {self.most}"


NESTED = Limit(2, "per 1,000 lines", "two loops with well-named variables read more easily")
CONDITIONALS = Limit(15, "per 1,000 lines", "each hides a branch inside an expression")
COLUMNS = Limit(100, "columns", "two files fit side by side on a screen")
COMPLEXITY = Limit(15, "cognitive complexity", "SonarSource's own limit for a function")
LENGTH = Limit(50, "lines", "a function fits on one screen")
CLASS_MODULES = Limit(1, "modules", "one class name, one meaning")
PUBLIC_MODULES = Limit(1, "modules", "one function name, one meaning")
PRIVATE_MODULES = Limit(
    3, "modules", "beyond, a name is too vague, or its function should be shared"
)
# Participles do not name what a class holds.
FORBIDDEN_CLASSES = {"Told", "Filed", "Filled", "Made", "Wish"}

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_TO_A_TOOL = re.compile(r"#\s*(noqa|type:|fmt:|ruff:|mypy:|pragma:)")


class Function(NamedTuple):
    """A function or method, its place, and its length without its docstring."""

    place: str
    name: str
    length: int


class Complexity(NamedTuple):
    """The cognitive complexity of an outermost function or a method, and its place."""

    place: str
    name: str
    score: int


class Definition(NamedTuple):
    """A class, or a function at the top level of a module."""

    place: str
    name: str
    module: str


class Breach(NamedTuple):
    """A place where a limit is exceeded."""

    place: str
    message: str


@dataclass(frozen=True)
class Density:
    """The counts of one file. A place is ``file:line``."""

    module: str
    lines: int
    nested: list[str]
    conditionals: list[str]
    long_lines: list[tuple[str, int]]  # with their columns
    comments: list[str]
    functions: list[Function]
    complexities: list[Complexity]
    classes: list[Definition]
    top_functions: list[Definition]


def is_nested(node: ast.AST) -> bool:
    """Return whether a node is a comprehension with another one inside or more than one ``for``."""
    if not isinstance(node, _COMPREHENSIONS):
        return False
    inside = [inner for inner in ast.walk(node) if isinstance(inner, _COMPREHENSIONS)]
    return len(inside) > 1 or len(node.generators) > 1  # `inside` includes the node itself


def columns(line: str) -> int:
    """Return the width of a line in columns."""
    return len(line) + sum(unicodedata.east_asian_width(character) in "WF" for character in line)


def comment_lines(text: str) -> list[int]:
    """Return the line numbers of comments for the reader."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    comments = [token for token in tokens if token.type == tokenize.COMMENT]
    return [token.start[0] for token in comments if not _TO_A_TOOL.match(token.string)]


def measure(text: str, file: str, module: str) -> Density:
    """Count everything in the text of one file.

    Args:
        text: the source code.
        file: its path, with which places begin.
        module: its path in the package, such as ``readers/npz.py``.
    """
    tree = ast.parse(text)
    nodes = list(ast.walk(tree))
    lines = text.splitlines()
    functions = [node for node in nodes if isinstance(node, _FUNCTIONS)]
    classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
    top_functions = [node for node in tree.body if isinstance(node, _FUNCTIONS)]
    scored = complexipy.code_complexity(text, no_ignore=True, with_plans=False).functions
    return Density(
        module=module,
        lines=sum(bool(line.strip()) for line in lines),
        nested=[f"{file}:{node.lineno}" for node in nodes if is_nested(node)],
        conditionals=[f"{file}:{node.lineno}" for node in nodes if isinstance(node, ast.IfExp)],
        long_lines=[
            (f"{file}:{number}", columns(line))
            for number, line in enumerate(lines, 1)
            if columns(line) > COLUMNS.most
        ],
        comments=[f"{file}:{line}" for line in comment_lines(text)],
        functions=[
            Function(
                f"{file}:{node.lineno}", node.name, len(node_lines(node) - docstring_lines(node))
            )
            for node in functions
        ],
        complexities=[
            Complexity(
                f"{file}:{function.line_start}",
                function.name.replace("::", "."),
                function.complexity,
            )
            for function in scored
        ],
        classes=[Definition(f"{file}:{node.lineno}", node.name, module) for node in classes],
        top_functions=[
            Definition(f"{file}:{node.lineno}", node.name, module) for node in top_functions
        ],
    )


def measure_package() -> dict[str, list[Density]]:
    """Return the counts of each file of the package, by room."""
    rooms: dict[str, list[Density]] = defaultdict(list)
    for path in python_files(PACKAGE):
        file, module = path.relative_to(ROOT).as_posix(), path.relative_to(PACKAGE).as_posix()
        rooms[room_of(path)].append(measure(path.read_text(encoding="utf-8"), file, module))
    return dict(rooms)


def rate(places: list[str], lines: int) -> float:
    """Return the number of places per 1,000 lines."""
    return 1000 * len(places) / max(lines, 1)


def rate_breaches(densities: list[Density]) -> list[Breach]:
    """Return all places of constructs that are too frequent in these files taken together."""
    lines = sum(density.lines for density in densities)
    nested = [place for density in densities for place in density.nested]
    conditionals = [place for density in densities for place in density.conditionals]
    breaches = []
    for name, places, limit in (
        ("nested comprehension", nested, NESTED),
        ("conditional expression", conditionals, CONDITIONALS),
    ):
        frequency = rate(places, lines)
        if frequency > limit.most:
            message = limit.breach(name, round(frequency, 2))
            breaches += [Breach(place, message) for place in places]
    return breaches


def own_breaches(density: Density) -> list[Breach]:
    """Return the breaches of one file that do not depend on other files."""
    breaches = [Breach(place, COLUMNS.breach("line", width)) for place, width in density.long_lines]
    for place, name, score in density.complexities:
        if score > COMPLEXITY.most:
            breaches.append(Breach(place, COMPLEXITY.breach(name, score)))
    for place, name, length in density.functions:
        if length > LENGTH.most:
            breaches.append(Breach(place, LENGTH.breach(name, length)))
    for place, name, _ in density.classes:
        if name in FORBIDDEN_CLASSES:
            breaches.append(Breach(place, f"class {name}: the name does not say what it holds"))
    return breaches


def shared_names(
    definitions: list[Definition], limit: Limit, meanings: dict[str, dict[str, str]]
) -> list[Breach]:
    """Return the definitions whose name occurs in more modules than the limit.

    Args:
        definitions: classes or functions of the whole package.
        limit: the most modules.
        meanings: by folder, the names that mean the same in all its modules, and what they mean.
    """
    by_name: dict[str, list[Definition]] = defaultdict(list)
    for definition in definitions:
        by_name[definition.name].append(definition)
    breaches = []
    for name, namesakes in by_name.items():
        folders = [folder for folder, names in meanings.items() if name in names]
        modules = set()
        for _, _, module in namesakes:
            modules.add(
                next((folder for folder in folders if module.startswith(f"{folder}/")), module)
            )
        if len(modules) > limit.most:
            message = f"{limit.breach(name, len(modules))} ({', '.join(sorted(modules))})"
            breaches += [Breach(place, message) for place, _, _ in namesakes]
    return breaches


def name_breaches(densities: list[Density], meanings: dict[str, dict[str, str]]) -> list[Breach]:
    """Return the names of classes and functions that occur in too many modules."""
    classes = [definition for density in densities for definition in density.classes]
    functions = [definition for density in densities for definition in density.top_functions]
    private = [function for function in functions if function.name.startswith("_")]
    public = [function for function in functions if not function.name.startswith("_")]
    return [
        *shared_names(classes, CLASS_MODULES, meanings),
        *shared_names(public, PUBLIC_MODULES, meanings),
        *shared_names(private, PRIVATE_MODULES, meanings),
    ]


def table_row(name: str, densities: list[Density]) -> str:
    """Return a row of the table: the figures of some files."""
    lines = sum(density.lines for density in densities)
    nested = [place for density in densities for place in density.nested]
    conditionals = [place for density in densities for place in density.conditionals]
    long_lines = sum(len(density.long_lines) for density in densities)
    comments = sum(len(density.comments) for density in densities)
    longest = max(
        (function.length for density in densities for function in density.functions), default=0
    )
    hardest = max(
        (function.score for density in densities for function in density.complexities), default=0
    )
    return (
        f"{name:<20}{lines:>7,}{rate(nested, lines):>8.1f}"
        f"{rate(conditionals, lines):>13.1f}{long_lines:>8,}"
        f"{comments / max(lines, 1):>10.1%}{longest:>9}{hardest:>12}"
    )


def print_table(rooms: dict[str, list[Density]]) -> None:
    """Print the figures of each room and of all rooms."""
    print("room                  lines  nested  conditional    over  comments  longest     highest")
    print(
        "                             /1,000       /1,000     100            function  complexity"
    )
    for room in sorted(rooms):
        print(table_row(room, rooms[room]))
    print(table_row("total", [density for densities in rooms.values() for density in densities]))


def print_worst(densities: list[Density], number: int) -> None:
    """Print the functions with the highest cognitive complexity."""
    complexities = [function for density in densities for function in density.complexities]
    for place, name, score in sorted(complexities, key=lambda function: -function.score)[:number]:
        print(f"{score:>4}  {place} {name}")


def allowed_meanings() -> dict[str, dict[str, str]]:
    """Return, by folder, the names that mean the same in all its modules, and what they mean."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return project["tool"]["weighbridge"]["density"]["meanings"]


def main() -> int:
    """Print the table and the breaches; return the exit status."""
    parser = argparse.ArgumentParser(description="Measure how dense the code is.")
    parser.add_argument("--check", action="store_true", help="exit with 1 if there is a breach")
    parser.add_argument(
        "--room", help="look at one room only: a folder or module of src/weighbridge"
    )
    parser.add_argument(
        "--worst", type=int, default=0, metavar="N", help="list the N most complex functions"
    )
    options = parser.parse_args()
    package = measure_package()
    rooms = package
    if options.room:
        rooms = {
            room: densities
            for room, densities in package.items()
            if room.rstrip("/") == options.room.rstrip("/")
        }
        if not rooms:
            rooms_known = ", ".join(sorted(package))
            parser.error(f"there is no room {options.room}; the rooms are {rooms_known}")
    densities = [density for room in rooms.values() for density in room]
    modules = {f"{PACKAGE.relative_to(ROOT).as_posix()}/{density.module}" for density in densities}

    everywhere = name_breaches(
        [density for room in package.values() for density in room], allowed_meanings()
    )
    breaches = rate_breaches(densities)
    breaches += [breach for density in densities for breach in own_breaches(density)]
    breaches += [breach for breach in everywhere if breach.place.rpartition(":")[0] in modules]

    print_table(rooms)
    print_worst(densities, options.worst)
    for place, message in breaches:
        print(f"{place}: {message}")
    print(f"breaches: {len(breaches):,}")
    return int(options.check and bool(breaches))


if __name__ == "__main__":
    sys.exit(main())
