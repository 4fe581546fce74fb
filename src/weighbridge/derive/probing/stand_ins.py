"""Stand-ins for Python's built-in functions, for use in reference code: their results remember."""

from __future__ import annotations

import ast
import builtins
import inspect
import itertools
import math
import sys
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from weighbridge.derive.probing.symbolic import (
    MOST_ROUNDS,
    Forgetful,
    SymbolicFlag,
    SymbolicFloat,
    SymbolicInt,
    SymbolicNumber,
    SymbolicSequence,
    calling_site,
    forgetful_items,
    is_numeric,
    is_tracing,
    length_tree,
    lift,
    note_bound,
    numeric_tree,
    plain_value,
    tree_of,
    walk,
    with_factor,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Mapping
    from types import ModuleType

    from weighbridge.algebra.expr import Tree

_REMEMBERING_MATH = ("sqrt", "log2", "floor", "ceil")  # functions that compute shapes
_NAMES_OF_MODULES = ("math", "np", "numpy")


class _Like(type):
    """Makes isinstance and issubclass treat a stand-in like the type it stands for."""

    kind: type

    def __instancecheck__(cls, value: Any) -> bool:
        if cls.kind is bool:
            return isinstance(value, bool | SymbolicFlag)
        return isinstance(value, cls.kind)

    def __subclasscheck__(cls, kind: type) -> bool:
        return issubclass(kind, cls.kind)


class _Int(metaclass=_Like):
    kind = int

    def __new__(cls, value: Any = 0, *rest: Any) -> Any:
        value = with_factor(value)
        if isinstance(value, SymbolicFlag):
            return lift(int(plain_value(value)), numeric_tree(value))
        if isinstance(value, SymbolicInt):
            return value
        if isinstance(value, SymbolicFloat):
            return value.__trunc__()
        return int(value, *rest)


class _Bool(metaclass=_Like):
    kind = bool

    def __new__(cls, value: Any = 0) -> Any:
        if isinstance(value, SymbolicFlag):
            return value
        if isinstance(value, SymbolicNumber):
            return SymbolicFlag(plain_value(value) != 0, ("!=", value.tree, ("value", 0)))
        return bool(value)


def _extreme(kind: str, of_plain: Callable[..., Any]) -> Callable[..., Any]:
    def choose(*values: Any, **options: Any) -> Any:
        if len(values) == 1 and isinstance(values[0], SymbolicSequence) and not options:
            return lift(
                of_plain(plain_value(list(forgetful_items(values[0])))), (kind, values[0].tree)
            )
        compared = list(values[0]) if len(values) == 1 else list(values)
        if (
            options
            or not any(isinstance(value, SymbolicNumber) for value in compared)
            or not all(map(is_numeric, compared))
        ):
            return of_plain(compared, **options)
        tree = tree_of(compared[0])
        for value in compared[1:]:
            tree = (kind, tree, tree_of(value))
        return lift(of_plain(plain_value(compared)), tree)

    return choose


def _len(values: Any) -> Any:
    length = len(values)
    if isinstance(values, SymbolicSequence):
        return lift(length, length_tree(values.tree))
    return length


def _sum(values: Any, start: Any = 0) -> Any:
    if isinstance(values, SymbolicSequence):
        return lift(sum(plain_value(list(forgetful_items(values)))), ("sum", values.tree)) + start
    total = start
    for value in values:
        total = total + value
    return total


def _plain_integer(value: Any) -> int:
    return int(plain_value(value))


class _Range:
    """A range whose counters remember that they count, and whose bound is noted.

    Where nothing is recorded it is Python's own: stand-ins stay in the modules of transformers, and
    some of these fill tables of millions of numbers in Python.
    """

    def __new__(cls, *bounds: Any) -> Any:
        return super().__new__(cls) if is_tracing() else range(*map(_plain_integer, bounds))

    def __init__(self, *bounds: Any) -> None:
        self.range, self.site = (
            range(*map(_plain_integer, bounds)),
            calling_site(),
        )
        trees = [tree_of(bound) for bound in bounds]
        self.start: Tree = ("value", 0)
        self.step: Tree = ("value", 1)
        if len(trees) == 1:
            stop = trees[0]
        else:
            self.start, stop, self.step = (*trees, self.step)[:3]
        length: Tree = ("-", stop, self.start)
        if self.step != ("value", 1):
            towards = "-" if self.range.step > 0 else "+"
            length = ("//", (towards, ("+", length, self.step), ("value", 1)), self.step)
        note_bound(length, self.site)

    def _counter(self, at: int) -> Any:
        counter: Tree = ("loop", self.site, at)
        if self.step != ("value", 1):
            counter = ("*", counter, self.step)
        if self.start != ("value", 0):
            counter = ("+", self.start, counter)
        return lift(self.range[at], counter)

    def __iter__(self) -> Iterator[Any]:
        counters = (self._counter(at) for at in range(min(len(self.range), MOST_ROUNDS)))
        return itertools.chain(counters, map(Forgetful, self.range[MOST_ROUNDS:]))

    def __reversed__(self) -> Iterator[Any]:
        return (self._counter(at) for at in reversed(range(len(self.range))))

    def __len__(self) -> int:
        return len(self.range)

    def __contains__(self, value: Any) -> bool:
        return plain_value(value) in self.range

    def __getitem__(self, at: Any) -> Any:
        item_or_range = self.range[at]
        if isinstance(item_or_range, int):
            return self._counter(at % len(self.range))
        return item_or_range


def _enumerate(values: Any, start: int = 0) -> Iterator[tuple[Any, Any]]:
    if not is_tracing():
        return enumerate(values, start)
    return _enumerated(values, start, calling_site())


def _enumerated(values: Any, start: int, site: str) -> Iterator[tuple[Any, Any]]:
    for at, item in enumerate(walk(values, site)):
        counter = ("loop", site, at)
        tree = ("+", counter, tree_of(start)) if start else counter
        yield lift(at + start, tree), item


class _Zip:
    """A zip that notes how many rounds it has, as far as the lengths are known."""

    def __new__(cls, *sequences: Any, strict: bool = False) -> Any:
        return super().__new__(cls) if is_tracing() else zip(*sequences, strict=strict)

    def __init__(self, *sequences: Any, strict: bool = False) -> None:
        site = calling_site()
        lengths: list[Tree] = [
            length_tree(values.tree) for values in sequences if isinstance(values, SymbolicSequence)
        ]
        lengths += [
            values.length for values in sequences if isinstance(values, _Zip) and values.length
        ]
        self.length: Tree | None = None
        if len(lengths) == 1:
            self.length = lengths[0]
        elif lengths:
            self.length = ("min", *lengths)
            note_bound(self.length, site)
        self._items = builtins.zip(*[walk(values, site) for values in sequences], strict=strict)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return self._items

    def __next__(self) -> tuple[Any, ...]:
        return next(self._items)


class _Functions:
    """A module such as ``math``; the results of its functions that compute shapes remember."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module

    def __getattr__(self, name: str) -> Any:
        function = getattr(self.module, name)
        if name not in _REMEMBERING_MATH:
            return function

        def remembering(value: Any, *options: Any) -> Any:
            if not isinstance(value, SymbolicNumber) or options:
                return function(value, *options)
            return lift(getattr(math, name)(plain_value(value)), (name, value.tree))

        return remembering

    @staticmethod
    def prod(values: Any, start: Any = 1, **options: Any) -> Any:
        if options or not isinstance(values, list | tuple):
            return np.prod(values, **options)
        for index in range(len(values)):  # iterating would make each item the one of any round
            start = start * values[index]
        return start


STAND_INS: dict[str, Any] = {
    "int": _Int,
    "bool": _Bool,
    "max": _extreme("max", max),
    "min": _extreme("min", min),
    "len": _len,
    "sum": _sum,
    "range": _Range,
    "enumerate": _enumerate,
    "zip": _Zip,
}
MATH, NUMPY = _Functions(math), _Functions(np)
MODULES = (MATH, NUMPY)


def install(namespace: dict[str, Any], without: Container[str] = ()) -> None:
    """Put the stand-ins where a module's code looks for Python's built-in functions.

    If the module defines a function of the same name, that function stays.
    """
    for name, stand_in in STAND_INS.items():
        if name not in without:
            namespace.setdefault(name, stand_in)
    for functions in MODULES:
        for name in _NAMES_OF_MODULES:
            if namespace.get(name) is functions.module:
                namespace[name] = functions


def uninstall(namespace: dict[str, Any]) -> None:
    """Remove the stand-ins."""
    for name, stand_in in STAND_INS.items():
        if namespace.get(name) is stand_in:
            del namespace[name]
    for functions in MODULES:
        for name in _NAMES_OF_MODULES:
            if namespace.get(name) is functions:
                namespace[name] = functions.module


def install_stand_ins(*prefixes: str) -> None:
    """Let the modules of these packages compute with values that remember."""
    if len(sys.modules) == len(_looked_at):
        return
    for name in sys.modules.keys() - _looked_at:
        _looked_at.add(name)
        module = sys.modules[name]
        if module is not None and name.startswith(prefixes):
            install(module.__dict__, without=_as_dtypes(name))
            if ".configuration_" in name:
                _remember_fractions(name, module.__dict__)


def _remember_fractions(module: str, namespace: Mapping[str, Any]) -> None:
    """Let the fractions in the code of a module's config classes remember that they are constants.

    Python computes ``0.75 * size`` as the method of the float, which knows no values that remember.
    """
    for kind in list(namespace.values()):
        method = vars(kind).get("__post_init__") if inspect.isclass(kind) else None
        if method is None or kind.__module__ != module:
            continue
        function = inspect.unwrap(method)
        constants = tuple(map(_with_memory, function.__code__.co_consts))
        function.__code__ = function.__code__.replace(co_consts=constants)


def _with_memory(constant: Any) -> Any:
    return SymbolicFloat(constant, ("value", constant)) if type(constant) is float else constant


_looked_at: set[str] = set()  # names of modules


@contextmanager
def standing_in(*prefixes: str) -> Iterator[None]:
    """Let the modules of these packages compute with values that remember inside the block.

    A prefix ``package.`` includes the package itself.
    """
    modules = {
        name: module
        for name, module in sys.modules.copy().items()
        if f"{name}.".startswith(prefixes)
    }
    for name, module in modules.items():
        install(module.__dict__, without=_as_dtypes(name))
    try:
        yield
    finally:
        for module in modules.values():
            uninstall(module.__dict__)


@cache
def _as_dtypes(module: str) -> set[str]:
    """Return the Python types that a module passes to torch as dtypes: these need no stand-in.

    Classes without bases are not torch modules, but caches, for example: no model contains them.
    """
    try:
        code = inspect.getsource(sys.modules[module])
    except (OSError, TypeError):
        return set()
    return dtypes_in_modules(code)


def dtypes_in_modules(code: str) -> set[str]:
    """Return the types that code passes to torch as dtypes, outside classes without bases."""
    names = _dtypes_in(code)
    if not names:
        return names
    modules = ast.parse(code)
    modules.body = [part for part in modules.body if not _has_no_bases(part)]
    return _dtypes_in(ast.unparse(modules))


def _dtypes_in(code: str) -> set[str]:
    return {name for name in ("bool", "int") if f"dtype={name}" in code or f".to({name})" in code}


def _has_no_bases(part: ast.stmt) -> bool:
    return isinstance(part, ast.ClassDef) and not part.bases
