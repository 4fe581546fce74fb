"""Reads the code of transformers for the values that it compares config fields with."""

from __future__ import annotations

import ast
import functools
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_LARGEST_THRESHOLD = 64  # larger constants are sizes, such as a hidden size in a conversion table


class SourceFacts(NamedTuple):
    """What the code of a family says about config fields, by the last part of their names.

    ``texts`` and ``numbers`` are the constants that a field is compared with, ``types`` the
    annotations of fields, ``tested`` the fields that are used as conditions, and ``unlisted`` the
    names that code reads with ``getattr`` or from keywords, with their defaults. ``reads`` are all
    attributes that model code reads, and ``is_composed`` says whether a sub-config may be of any
    model type.
    """

    texts: dict[str, list[str]]
    numbers: dict[str, list[int]]
    types: dict[str, str]
    tested: frozenset[str]
    unlisted: dict[str, Any]
    reads: frozenset[str]
    is_composed: bool


def facts_of(folders: Iterable[Path]) -> SourceFacts:
    """Return the facts of the configuration and modelling files in these folders."""
    scan = _Scan()
    for folder in folders:
        for file in sorted(folder.glob("configuration_*.py")):
            scan.read(_parsed(file), is_model=False)
        for file in sorted(folder.glob("modeling_*.py")):
            scan.read(_parsed(file), is_model=True)
    return SourceFacts(
        texts={name: sorted(values) for name, values in sorted(scan.texts.items())},
        numbers={name: sorted(values) for name, values in sorted(scan.numbers.items())},
        types=scan.types,
        tested=frozenset(scan.tested),
        unlisted=dict(sorted(scan.unlisted.items())),
        reads=frozenset(scan.reads),
        is_composed=scan.is_composed,
    )


@functools.cache
def _parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


class _Scan:
    """Collects facts from syntax trees."""

    def __init__(self) -> None:
        self.texts: defaultdict[str, set[str]] = defaultdict(set)
        self.numbers: defaultdict[str, set[int]] = defaultdict(set)
        self.types: dict[str, str] = {}
        self.tested: set[str] = set()
        self.unlisted: dict[str, Any] = {}
        self.reads: set[str] = set()
        self.is_composed = False

    def read(self, module: ast.Module, *, is_model: bool) -> None:
        """Add the facts of a module."""
        tables = dict(_tables(module))
        sources = _sources_of_names(module)
        for node in ast.walk(module):
            if isinstance(node, ast.Compare):
                self._comparison(node, sources)
            elif isinstance(node, ast.Subscript):
                self._lookup(node, tables, sources)
            elif isinstance(node, ast.Call):
                self._keyword(node)
            elif isinstance(node, ast.AnnAssign) and not is_model:
                self._annotation(node)
            elif isinstance(node, ast.If | ast.IfExp):
                self._condition(node.test, sources)
            elif isinstance(node, ast.Attribute) and is_model:
                self.reads.add(node.attr)
            if isinstance(node, ast.Name) and node.id in {"CONFIG_MAPPING", "AutoConfig"}:
                self.is_composed = True

    def _comparison(self, node: ast.Compare, sources: dict[str, set[str]]) -> None:
        sides = [node.left, *node.comparators]
        names = sorted(set().union(*(_names(side, sources) for side in sides)))
        for value in (value for side in sides for value in _constants(side)):
            for name in names:
                self._add_value(name, value)

    def _add_value(self, name: str, value: object) -> None:
        if isinstance(value, str):
            self.texts[name].add(value)
        elif type(value) is int and 0 <= value <= _LARGEST_THRESHOLD:
            self.numbers[name].add(value)

    def _lookup(
        self, node: ast.Subscript, tables: dict[str, list[str]], sources: dict[str, set[str]]
    ) -> None:
        if isinstance(node.value, ast.Name) and node.value.id in tables:
            for name in _names(node.slice, sources):
                self.texts[name].update(tables[node.value.id])

    def _keyword(self, node: ast.Call) -> None:
        arguments = list(node.args)
        if isinstance(node.func, ast.Name) and node.func.id in {"getattr", "hasattr"}:
            arguments = arguments[1:]
        elif not _reads_keywords(node.func):
            return
        match arguments:
            case [ast.Constant(value=str(name)), ast.Constant(value=default)]:
                self.unlisted[name] = default
            case [ast.Constant(value=str(name)), *_]:
                self.unlisted.setdefault(name, None)

    def _annotation(self, node: ast.AnnAssign) -> None:
        name = ast.unparse(node.target)
        self.types.setdefault(name, ast.unparse(node.annotation))
        for part in ast.walk(node.annotation):
            if isinstance(part, ast.Subscript) and ast.unparse(part.value) == "Literal":
                for value in _constants(part.slice):
                    self._add_value(name, value)

    def _condition(self, test: ast.expr, sources: dict[str, set[str]]) -> None:
        match test:
            case ast.UnaryOp(operand=operand):
                self._condition(operand, sources)
            case ast.BoolOp(values=values):
                for value in values:
                    self._condition(value, sources)
            case ast.Attribute() | ast.Name():
                self.tested.update(_names(test, sources))


def _reads_keywords(function: ast.expr) -> bool:
    return (
        isinstance(function, ast.Attribute)
        and function.attr in {"get", "pop"}
        and isinstance(function.value, ast.Name)
        and function.value.id == "kwargs"
    )


def _tables(module: ast.Module) -> Iterator[tuple[str, list[str]]]:
    """Yield the dictionaries of a module that have texts as keys."""
    for node in module.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Dict(keys=keys)):
                texts = [key.value for key in keys if isinstance(key, ast.Constant)]
                yield name, [text for text in texts if isinstance(text, str)]


def _sources_of_names(module: ast.Module) -> dict[str, set[str]]:
    """Return the attributes that each variable was assigned from, anywhere in the module."""
    sources: defaultdict[str, set[str]] = defaultdict(set)
    for node in ast.walk(module):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                sources[name] |= _direct_names(value)
            case ast.For(target=ast.Name(id=name), iter=value):
                sources[name] |= _direct_names(value)
            case ast.comprehension(target=ast.Name(id=name), iter=value):
                sources[name] |= _direct_names(value)
    return sources


def _direct_names(node: ast.expr) -> set[str]:
    """Return the attributes that an expression takes its value from, but not those of calls."""
    match node:
        case ast.Attribute(attr=name):
            return {name}
        case ast.Subscript(value=value):
            return _direct_names(value)
        case ast.IfExp(body=body, orelse=orelse):
            return _direct_names(body) | _direct_names(orelse)
        case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=str(name)), *_]):
            return {name}
        case ast.Call(func=ast.Name(id="len" | "set" | "enumerate"), args=[argument, *_]):
            return _direct_names(argument)
    return set()


def _names(node: ast.expr, sources: dict[str, set[str]]) -> set[str]:
    if isinstance(node, ast.Name):
        return {node.id, *sources.get(node.id, ())}
    if isinstance(node, ast.BinOp) and not isinstance(node.op, ast.Mod):  # a remainder is no size
        return _names(node.left, sources) | _names(node.right, sources)
    return _direct_names(node)


def _constants(node: ast.expr) -> Iterator[object]:
    match node:
        case ast.Constant(value=value):
            yield value
        case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
            for item in items:
                yield from _constants(item)
