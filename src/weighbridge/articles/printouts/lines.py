"""The parts of printouts of models: their modules, and the numbers on their lines."""

from __future__ import annotations

import re
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from weighbridge import data
from weighbridge.articles.tables.cells import plain_number
from weighbridge.articles.text.lines import Stretch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from weighbridge.articles.tables.cells import CellNumber
    from weighbridge.articles.text.lines import ArticleLine

MOST_LINES = 5_000  # of a printout; a longer one is cut into several
LONGEST_LINE = 1_000  # characters of a line of a printout

SUMMARY, TREE, LISTING, CALL = "summary", "tree", "listing", "call"
"""A table of layers with counts; ``print(model)``; names with shapes; a call that counts."""


class PrintedModule(NamedTuple):
    """A line of a printout.

    ``kind`` is the class, ``name`` the path in the model, and ``times`` how often it stands there.
    ``arguments`` has the numbers in its brackets, by their names or positions, ``count`` its number
    of parameters, and ``shape`` the shape that the line states. ``indices`` and ``settings`` are
    numbers that count nothing.
    """

    line: int
    depth: int
    kind: str
    name: str
    times: int = 1
    arguments: Mapping[str, CellNumber] = {}
    parameters: CellNumber | None = None
    shape: tuple[CellNumber, ...] = ()
    indices: tuple[CellNumber, ...] = ()
    settings: tuple[CellNumber, ...] = ()
    columns: Mapping[str, CellNumber] = {}


class Printout(NamedTuple):
    """A printout: its form, the class of its root, its lines, its modules and its totals.

    ``sizes`` are the sizes that it states, by the field of a config.
    """

    form: str
    class_name: str
    lines: range
    modules: tuple[PrintedModule, ...]
    totals: Mapping[str, tuple[CellNumber, ...]]
    sizes: Mapping[str, int]


def printout_words() -> dict[str, Any]:
    """Return what the modules and lines of printouts mean."""
    return data.read_toml("facts/printout_terms.toml")


def integers(line: ArticleLine, start: int, end: int) -> tuple[CellNumber, ...]:
    """Return the runs of digits in a part of a line.

    Example:
        >>> from weighbridge.articles.text.lines import ArticleLine
        >>> [number.at.start for number in integers(ArticleLine(1, "(512,768)"), 0, 9)]
        [1, 5]
    """
    numbers = []
    for match in re.finditer(r"\d+", line.text[start:end]):
        at = Stretch(line.number, start + match.start(), start + match.end())
        numbers.append(plain_number(match[0], at))
    return tuple(numbers)


def tensors_of(kind: str) -> dict[str, list[str]]:
    """Return the tensors of a class of modules, each with the arguments that give its shape."""
    modules: dict[str, dict[str, list[str]]] = printout_words()["modules"]
    if kind.endswith("RMSNorm"):
        return modules["RMSNorm"]
    return modules.get(kind, {})


def _is_layer(kind: str, ends: tuple[str, ...]) -> bool:
    is_other = kind.endswith(("InputLayer", "MainLayer"))
    return kind.endswith(ends) and kind not in ends and not is_other


def layers_among(modules: Sequence[PrintedModule]) -> dict[str, int]:
    """Return the number of layers: the modules of the outermost class of layers, in one stack."""
    ends = tuple(printout_words()["layers"]["ends"])
    layers = [module for module in modules if _is_layer(module.kind, ends)]
    if not layers:
        return {}
    outermost = min(layers, key=attrgetter("depth"))
    number = 0
    for module in modules[modules.index(outermost) :]:
        if module.depth < outermost.depth:
            break  # a decoder has a stack of its own
        if module.depth == outermost.depth and module.kind == outermost.kind:
            number += module.times
    return {"num_hidden_layers": number}
