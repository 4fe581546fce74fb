"""Finds printouts of models in an article, and reads them into modules.

``print(model)`` writes a tree of modules, a loop over ``named_parameters()`` a list of shapes, and
``num_parameters()`` a number. `summaries` reads the tables of torchinfo and Keras.
"""

from __future__ import annotations

import re
from operator import itemgetter
from typing import TYPE_CHECKING

from weighbridge.articles.printouts.lines import (
    CALL,
    LISTING,
    LONGEST_LINE,
    MOST_LINES,
    TREE,
    PrintedModule,
    Printout,
    integers,
    layers_among,
    printout_words,
    tensors_of,
)
from weighbridge.articles.printouts.summaries import read_summary
from weighbridge.articles.tables.cells import numbers_within, plain_number
from weighbridge.articles.text.lines import Stretch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from weighbridge.articles.tables.cells import CellNumber
    from weighbridge.articles.text.lines import ArticleLine


def read_printouts(lines: Sequence[ArticleLine]) -> list[Printout]:
    """Return the printouts in an article, in their order.

    Example:
        >>> from weighbridge.articles.text.lines import ArticleLine
        >>> text = "GPT2Model(;  (wte): Embedding(50257, 768);  (wpe): Embedding(1024, 768);)"
        >>> lines = [ArticleLine(n, line) for n, line in enumerate(text.split(";"), start=1)]
        >>> (printout,) = read_printouts(lines)
        >>> printout.class_name, printout.lines, dict(printout.sizes)["vocab_size"]
        ('GPT2Model', range(1, 5), 50257)
    """
    printouts, position = [], 0
    while position < len(lines):
        for read in (_read_tree, read_summary, _read_listing, _read_call):
            printout, length = read(lines, position)
            if printout:
                printouts.append(printout)
                position += length
                break
        else:
            position += 1
    return printouts


# Trees of modules

_DEEPEST = 40  # modules in one another
_ROOT = re.compile(r"\s*(?:>>>\s*)?(?P<kind>[A-Z]\w*)\(\s*$")
_MODULE = re.compile(
    r"\s*\((?P<name>[\w.-]{1,100})\):\s*(?:(?P<times>\d{1,4})\s*[x×]\s*)?(?P<kind>[A-Za-z_]\w*)\("
)
_CLOSING = re.compile(r"\s*\)+\s*$")
_ARGUMENT = re.compile(
    r"(?:(?P<key>[A-Za-z_]\w*)\s*=\s*)?(?P<number>\d+(?:\.\d+)?(?:e[+-]?\d+)?)(?![\w.])"
)


def _read_tree(lines: Sequence[ArticleLine], start: int) -> tuple[Printout | None, int]:
    """Read what ``print(model)`` writes; the brackets say which module contains which."""
    root = _ROOT.match(lines[start].text)
    if not root or len(lines) <= start + 1 or not _MODULE.match(lines[start + 1].text):
        return None, 0
    tree = _Tree()
    end = start + 1
    for line in lines[start + 1 : start + MOST_LINES]:
        if not tree.takes(line):
            break
        end += 1
        if tree.is_closed:
            break
    sizes = _sizes(tree.modules)
    numbers = range(lines[start].number, lines[end - 1].number + 1)
    return Printout(TREE, root["kind"], numbers, tuple(tree.modules), {}, sizes), end - start


class _Tree:
    """A tree of modules, read line by line."""

    def __init__(self) -> None:
        self.modules: list[PrintedModule] = []
        self.is_closed = False
        self._path: list[str] = []

    def takes(self, line: ArticleLine) -> bool:
        """Read a line; return whether it belongs to the tree."""
        module = _MODULE.match(line.text)
        if module:
            self.modules.append(_module(line, module, self._path))
            if line.text.rstrip().endswith("("):
                self._path.append(module["name"])
            return len(self._path) <= _DEEPEST
        if not _CLOSING.match(line.text):
            return not line.text.strip() or line.text.strip().startswith("(")
        if self._path:
            self._path.pop()
        else:
            self.is_closed = True
        return True


def _module(line: ArticleLine, module: re.Match[str], path: Sequence[str]) -> PrintedModule:
    """Return the module of a line of ``print(model)``."""
    arguments: dict[str, CellNumber] = {}
    settings: list[CellNumber] = []
    is_known = bool(tensors_of(module["kind"]))
    for position, argument in enumerate(_ARGUMENT.finditer(line.text, module.end())):
        key, number = argument["key"] or str(position), _written(line, argument, "number")
        if is_known and argument["number"].isdigit() and key not in ("padding_idx", "eps", "p"):
            arguments[key] = number
        else:
            settings.append(number)
    times = 1
    if module["times"]:
        arguments["times"] = _written(line, module, "times")
        times = int(module["times"])
    return PrintedModule(
        line.number,
        len(path) + 1,
        module["kind"],
        ".".join((*path, module["name"])),
        times,
        arguments,
        indices=integers(line, module.start("name"), module.end("name")),
        settings=tuple(settings),
    )


def _written(line: ArticleLine, match: re.Match[str], group: str) -> CellNumber:
    return plain_number(match[group], Stretch(line.number, *match.span(group)))


# Listings and calls

_LISTED = re.compile(
    r"\s*[\"'(]*(?P<name>[A-Za-z_]\w*(?:\.\w+)+)[\"']*[\s:,|→>=-]+"
    r"(?:torch\.Size\(\s*)?[\[(](?P<shape>\d+(?:\s*,\s*\d+)*),?\s*[\])]\)?"
    r"[\s:,|=]*(?P<count>\d{1,3}(?:,\d{3})+|\d+)?\s*\)?\s*$"
)
_CALL = re.compile(r"num_parameters\(|numel\(\)\s*for\s|count_params\(")
_RESULT_COUNT = r"(?P<count>\d{1,3}(?:,\d{3})+|\d{4,20})\s*$"
_RESULT = re.compile(rf"\s*(?:(?:Out\s*\[\d*\]|输出)\s*:\s*)?{_RESULT_COUNT}")
_RESULT_BEHIND = re.compile(rf"(?:#|=>|->|→|//)\s*{_RESULT_COUNT}")


def _read_listing(lines: Sequence[ArticleLine], start: int) -> tuple[Printout | None, int]:
    """Read names with shapes, as a loop over ``named_parameters()`` prints them."""
    modules: list[PrintedModule] = []
    end = start
    if not _LISTED.match(lines[start].text[:LONGEST_LINE]):
        return None, 0
    for line in lines[start : start + MOST_LINES]:
        listed = _LISTED.match(line.text[:LONGEST_LINE])
        if listed is None and line.text.strip():
            break
        end += 1
        if listed:
            modules.append(_listed_tensor(line, listed))
    if len(modules) <= 1:
        return None, 0
    numbers = range(lines[start].number, lines[end - 1].number + 1)
    return Printout(
        LISTING, "", numbers, tuple(modules), {}, _sizes_of_shapes(modules)
    ), end - start


def _listed_tensor(line: ArticleLine, listed: re.Match[str]) -> PrintedModule:
    count = None
    if listed["count"]:
        at = Stretch(line.number, *listed.span("count"))
        count = next(numbers_within(line.text, at), None)
    return PrintedModule(
        line.number,
        0,
        "",
        listed["name"],
        parameters=count,
        shape=integers(line, *listed.span("shape")),
        indices=integers(line, *listed.span("name")),
    )


def _read_call(lines: Sequence[ArticleLine], start: int) -> tuple[Printout | None, int]:
    """Read a call that counts parameters, with its result behind it or on the next line."""
    text = lines[start].text[:LONGEST_LINE]
    if not _CALL.search(text):
        return None, 0
    length, result = 1, _RESULT_BEHIND.search(text)
    if result is None and start + 1 < len(lines):
        length, result = 2, _RESULT.match(lines[start + 1].text[:LONGEST_LINE])
    if result is None:
        return None, 0
    line = lines[start + length - 1]
    at = Stretch(line.number, *result.span("count"))
    totals = {"total": tuple(numbers_within(line.text, at))}
    numbers = range(lines[start].number, line.number + 1)
    return Printout(CALL, "", numbers, (), totals, {}), length


# Sizes

_LAYER_NUMBER = re.compile(r"\.(?:layers?|h|block)\.(\d+)\.")
_CHOICES: dict[str, Callable[[Sequence[int]], int]] = {
    "first": itemgetter(0),
    "last": itemgetter(-1),
    "largest": max,
}


def _sizes(modules: Sequence[PrintedModule]) -> dict[str, int]:
    """Return the sizes that the arguments of modules state."""
    weights = []
    for module in modules:
        numbers = _weight_shape(module)
        if numbers:
            weights.append((module.name, numbers))
    return _sizes_by_name(weights) | layers_among(modules)


def _weight_shape(module: PrintedModule) -> tuple[int, ...]:
    keys = tensors_of(module.kind).get("weight", [])
    return tuple(int(module.arguments[key].value) for key in keys if key in module.arguments)


def _sizes_by_name(weights: Iterable[tuple[str, tuple[int, ...]]]) -> dict[str, int]:
    """Return the sizes in the shapes of weights, by the names of their modules."""
    sizes: dict[str, int] = {}
    fields = printout_words()["sizes"]
    for name, shape in weights:
        for field, size in fields.items():
            if name.endswith(tuple(size["modules"])):
                sizes.setdefault(field, _CHOICES[size["dimension"]](shape))
    return sizes


def _sizes_of_shapes(modules: Sequence[PrintedModule]) -> dict[str, int]:
    """Return the sizes in a listing of shapes."""
    weights, numbers = [], []
    for module in modules:
        numbers += list(map(int, _LAYER_NUMBER.findall(module.name)))
        if module.name.endswith(".weight") and module.shape:
            shape = tuple(int(number.value) for number in module.shape)
            weights.append((module.name.removesuffix(".weight"), shape))
    sizes = _sizes_by_name(weights)
    if numbers:
        sizes["num_hidden_layers"] = max(numbers) + 1
    return sizes
