"""Values that remember where they came from: a number, text, flag or list with the expression that gave it.

Reference code is run as it is, on such values: ``config.hidden_size // config.num_attention_heads``
is 64 and knows to be ``hidden_size // num_attention_heads``. What the code asks on its way (``i <
first_k_dense_replace``) is written down in a `Trace`; so are the bounds of its loops. The counter
of a loop is a node of its own, ``("loop", site, 3)``: which index of a tensor's name it is shows
only when all names are known.
"""

from __future__ import annotations

import builtins
import math
import operator
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator

    from weighbridge.algebra.expr import Tree

LARGEST = 60  # nodes of an expression that is still told apart from a plain number
MOST_NOTED = 4000  # expressions of one kind that one trace keeps


class Trace:
    """What a run of reference code asked and computed, in order: keys of dicts, for their order.

    ``asked`` are conditions, ``bounds`` the numbers that loops ran up to, ``computed`` integers on
    the way.
    """

    def __init__(self) -> None:
        self.asked: dict[Tree, None] = {}
        self.bounds: dict[Tree, None] = {}
        self.computed: dict[Tree, None] = {}

    def note(self, kind: dict[Tree, None], tree: Tree) -> None:
        """Keep an expression, its loop counters as counters."""
        if len(kind) < MOST_NOTED:
            kind[counted(tree)] = None


_traces: list[Trace] = []


@contextmanager
def tracing() -> Iterator[Trace]:
    """Write down what symbolic values are asked inside the block."""
    trace = Trace()
    _traces.append(trace)
    try:
        yield trace
    finally:
        _traces.remove(trace)


def counted(tree: Tree) -> Tree:
    """Return a tree with each counter in place of the value it had: ``("loop", site)``."""
    if tree[0] == "loop":
        return tree[:2]
    if tree[0] in ("name", "value"):
        return tree
    return (tree[0], *[counted(operand) for operand in tree[1:]])


def size(tree: Tree) -> int:
    """Return the number of nodes."""
    if tree[0] in ("name", "value", "loop"):
        return 1
    return 1 + sum(size(operand) for operand in tree[1:])


def tree_of(value: Any) -> Tree:
    """Return the expression that a value remembers, or the value itself as one."""
    if isinstance(value, Symbolic):
        return value.tree
    if isinstance(value, list | tuple):
        return ("list", *[tree_of(item) for item in value])
    return ("value", value.item() if type(value).__module__ == "numpy" else value)


def plain(value: Any) -> Any:
    """Return a value that remembers nothing."""
    if isinstance(value, SymbolicFlag):
        return builtins.bool(int.__int__(value))
    if isinstance(value, SymbolicInt):
        return int.__int__(value)
    if isinstance(value, SymbolicFloat):
        return float.__float__(value)
    if isinstance(value, SymbolicText):
        return str.__str__(value)
    if isinstance(value, dict):
        return {plain(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def lift(value: Any, tree: Tree) -> Any:
    """Return a value that remembers this expression; what cannot, None for one, is returned as it is."""
    if isinstance(value, Symbolic):
        value = plain(value)
    if value is None or size(tree) > LARGEST:
        return value
    if isinstance(value, bool):
        return SymbolicFlag(value, tree)
    if isinstance(value, int):
        for trace in _traces:
            trace.note(trace.computed, tree)
    kinds: dict[type, Any] = {int: SymbolicInt, float: SymbolicFloat, str: SymbolicText}
    if type(value) in kinds:
        return kinds[type(value)](value, tree)
    if type(value) in (list, tuple):
        items = [lift(item, ("[]", tree, ("value", at))) for at, item in enumerate(value)]
        return (SymbolicList if type(value) is list else SymbolicTuple)(items, tree)
    return value


def _asked(tree: Tree) -> None:
    for trace in _traces:
        trace.note(trace.asked, tree)


def _bounded(tree: Tree) -> None:
    for trace in _traces:
        trace.note(trace.bounds, tree)


class Symbolic:
    """The mark of a value that remembers its expression in ``tree``."""

    tree: Tree

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        value = plain(self)
        return (type(value), (value,))


_ARITHMETIC = {
    "+": ("add", operator.add),
    "-": ("sub", operator.sub),
    "*": ("mul", operator.mul),
    "/": ("truediv", operator.truediv),
    "//": ("floordiv", operator.floordiv),
    "%": ("mod", operator.mod),
    "**": ("pow", operator.pow),
}
_COMPARISONS = {
    "<": ("lt", operator.lt),
    "<=": ("le", operator.le),
    ">": ("gt", operator.gt),
    ">=": ("ge", operator.ge),
    "==": ("eq", operator.eq),
    "!=": ("ne", operator.ne),
}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float)


def _numeric_tree(value: Any) -> Tree:
    """Return a flag as the number that arithmetic takes it for."""
    if isinstance(value, SymbolicFlag):
        return ("if", value.tree, ("value", 1), ("value", 0))
    return ("value", int(value)) if isinstance(value, bool) else tree_of(value)


def _arithmetic(
    kind: str, of_plain: Callable[[Any, Any], Any], *, reflected: bool
) -> Callable[[Any, Any], Any]:
    def operate(self: Any, other: Any) -> Any:
        if not _is_number(other):
            return NotImplemented
        left, right = (other, self) if reflected else (self, other)
        return lift(
            of_plain(plain(left), plain(right)), (kind, _numeric_tree(left), _numeric_tree(right))
        )

    return operate


def _comparison(kind: str, of_plain: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def compare(self: Any, other: Any) -> Any:
        if not isinstance(other, int | float | str):
            return of_plain(plain(self), other) if kind in ("==", "!=") else NotImplemented
        return SymbolicFlag(
            bool(of_plain(plain(self), plain(other))), (kind, tree_of(self), tree_of(other))
        )

    return compare


class _Number(Symbolic):
    def __neg__(self) -> Any:
        return lift(-plain(self), ("neg", tree_of(self)))

    def __abs__(self) -> Any:
        return lift(abs(plain(self)), ("abs", tree_of(self)))

    def __floor__(self) -> Any:
        return lift(math.floor(plain(self)), ("floor", tree_of(self)))

    def __ceil__(self) -> Any:
        return lift(math.ceil(plain(self)), ("ceil", tree_of(self)))

    def __trunc__(self) -> Any:
        return lift(int(plain(self)), ("int", tree_of(self)))

    def __round__(self, digits: int | None = None) -> Any:
        return (
            round(plain(self), digits)
            if digits
            else lift(round(plain(self)), ("round", tree_of(self)))
        )

    def __bool__(self) -> bool:
        _asked(("!=", self.tree, ("value", 0)))
        return bool(plain(self))


for _kind, (_name, _operate) in _ARITHMETIC.items():
    setattr(_Number, f"__{_name}__", _arithmetic(_kind, _operate, reflected=False))
    setattr(_Number, f"__r{_name}__", _arithmetic(_kind, _operate, reflected=True))
for _kind, (_name, _operate) in _COMPARISONS.items():
    setattr(_Number, f"__{_name}__", _comparison(_kind, _operate))


class SymbolicInt(_Number, int):  # type: ignore[misc]  # it rounds as numbers do
    """An integer that remembers."""

    def __new__(cls, value: int, tree: Tree) -> Self:
        """Return the value with its expression."""
        made = int.__new__(cls, value)
        made.tree = tree
        return made

    __hash__ = int.__hash__


class SymbolicFlag(SymbolicInt):
    """True or false, as 1 or 0, for bool has no subclasses; that it is looked at is a question of the code."""

    def __bool__(self) -> bool:
        _asked(self.tree)
        return int.__int__(self) != 0

    __hash__ = int.__hash__

    def __str__(self) -> str:
        return str(plain(self))

    __repr__ = __str__


class SymbolicFloat(_Number, float):  # type: ignore[misc]
    """A float that remembers."""

    def __new__(cls, value: float, tree: Tree) -> Self:
        """Return the value with its expression."""
        made = float.__new__(cls, value)
        made.tree = tree
        return made

    __hash__ = float.__hash__


class SymbolicText(Symbolic, str):  # noqa: SLOT000
    """A text that remembers."""

    def __new__(cls, value: str, tree: Tree) -> Self:
        """Return the value with its expression."""
        made = str.__new__(cls, value)
        made.tree = tree
        return made

    __hash__ = str.__hash__

    def __eq__(self, other: object) -> Any:
        if not isinstance(other, str):
            return False
        return SymbolicFlag(str.__eq__(self, other), ("==", self.tree, tree_of(other)))

    def __ne__(self, other: object) -> Any:
        if not isinstance(other, str):
            return True
        return SymbolicFlag(str.__ne__(self, other), ("!=", self.tree, tree_of(other)))

    def __contains__(self, part: object) -> bool:
        found = part in plain(self)
        _asked(("in", tree_of(part), self.tree))
        return bool(found)

    def __bool__(self) -> bool:
        _asked(("!=", self.tree, ("value", "")))
        return len(plain(self)) > 0


class _Sequence(Symbolic):
    def __iter__(self) -> Iterator[Any]:
        yield from _walk(self, _site())

    def __getitem__(self, at: Any) -> Any:
        items = list(_items(self))
        if isinstance(at, slice):
            bounds = [tree_of(bound) for bound in (at.start, at.stop)]
            kind = tuple if isinstance(self, tuple) else list
            return (
                lift(kind(map(plain, items[at])), ("[:]", self.tree, *bounds))
                if not at.step
                else kind(items[at])
            )
        return lift(items[at], ("[]", self.tree, tree_of(at)))

    def __contains__(self, item: object) -> bool:
        found = plain(item) in plain(list(_items(self)))
        _asked(("in", tree_of(item), self.tree))
        return found

    def __bool__(self) -> bool:
        _asked(("!=", ("len", self.tree), ("value", 0)))
        return any(True for _ in _items(self))


class SymbolicList(_Sequence, list[Any]):
    """A list that remembers, of items that do."""

    def __init__(self, items: list[Any], tree: Tree) -> None:
        super().__init__(items)
        self.tree = tree

    __hash__ = None

    def __deepcopy__(self, memo: Any) -> Any:
        return SymbolicList(list(_items(self)), self.tree)


class SymbolicTuple(_Sequence, tuple[Any, ...]):  # noqa: SLOT001
    """A tuple that remembers, of items that do."""

    def __new__(cls, items: list[Any], tree: Tree) -> Self:
        """Return the value with its expression."""
        made = tuple.__new__(cls, items)
        made.tree = tree
        return made

    def __init__(self, items: list[Any], tree: Tree) -> None:
        pass

    __hash__ = tuple.__hash__


def _items(sequence: Any) -> Iterator[Any]:
    return list.__iter__(sequence) if isinstance(sequence, list) else tuple.__iter__(sequence)


def _site(up: int = 2) -> str:
    """Return the place in the reference code that called."""
    frame = sys._getframe(up)
    return f"{frame.f_code.co_filename}:{frame.f_code.co_name}:{frame.f_lineno}"


def _walk(values: Any, site: str) -> Iterator[Any]:
    """Yield items; those of a list that remembers as the item at the loop's counter."""
    if not isinstance(values, _Sequence):
        yield from values
        return
    _bounded(("len", values.tree))
    for at, item in enumerate(_items(values)):
        yield lift(item, ("[]", values.tree, ("loop", site, at)))


# What stands in for Python's own functions in the globals of reference code, so that they forget
# nothing.


class _Like(type):
    """Makes a stand-in for a type pass for it in isinstance and issubclass."""

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
        if isinstance(value, SymbolicFlag):
            return lift(int(plain(value)), _numeric_tree(value))
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
        if isinstance(value, _Number):
            return SymbolicFlag(plain(value) != 0, ("!=", value.tree, ("value", 0)))
        return bool(value)


def _extreme(kind: str, of_plain: Callable[..., Any]) -> Callable[..., Any]:
    def choose(*values: Any, **options: Any) -> Any:
        if len(values) == 1 and isinstance(values[0], _Sequence) and not options:
            return lift(of_plain(plain(list(_items(values[0])))), (kind, values[0].tree))
        compared = list(values[0]) if len(values) == 1 else list(values)
        if (
            options
            or not any(isinstance(value, _Number) for value in compared)
            or not all(map(_is_number, compared))
        ):
            return of_plain(compared, **options)
        tree = tree_of(compared[0])
        for value in compared[1:]:
            tree = (kind, tree, tree_of(value))
        return lift(of_plain(plain(compared)), tree)

    return choose


def _len(values: Any) -> Any:
    length = len(values)
    return lift(length, ("len", values.tree)) if isinstance(values, _Sequence) else length


def _sum(values: Any, start: Any = 0) -> Any:
    if isinstance(values, _Sequence):
        return lift(sum(plain(list(_items(values)))), ("sum", values.tree)) + start
    total = start
    for value in values:
        total = total + value
    return total


class _Range:
    """A range whose counters know that they count, and whose bound is written down."""

    def __init__(self, *bounds: Any) -> None:
        self.range, self.site = range(*[int(plain(bound)) for bound in bounds]), _site()
        self.start = tree_of(bounds[0]) if len(bounds) > 1 else ("value", 0)
        self.step = tree_of(bounds[2]) if len(bounds) > 2 else ("value", 1)
        length = ("-", tree_of(bounds[min(1, len(bounds) - 1)]), self.start)
        if self.step != ("value", 1):
            towards = "-" if self.range.step > 0 else "+"
            length = ("//", (towards, ("+", length, self.step), ("value", 1)), self.step)
        _bounded(length)

    def _counter(self, at: int) -> Any:
        counter: Tree = ("loop", self.site, at)
        if self.step != ("value", 1):
            counter = ("*", counter, self.step)
        return lift(
            self.range[at], ("+", self.start, counter) if self.start != ("value", 0) else counter
        )

    def __iter__(self) -> Iterator[Any]:
        return (self._counter(at) for at in range(len(self.range)))

    def __reversed__(self) -> Iterator[Any]:
        return (self._counter(at) for at in reversed(range(len(self.range))))

    def __len__(self) -> int:
        return len(self.range)

    def __contains__(self, value: Any) -> bool:
        return plain(value) in self.range

    def __getitem__(self, at: Any) -> Any:
        found = self.range[at]
        return self._counter(at % len(self.range)) if isinstance(found, int) else found


def _enumerate(values: Any, start: int = 0) -> Iterator[tuple[Any, Any]]:
    return _numbered(values, start, _site())


def _numbered(values: Any, start: int, site: str) -> Iterator[tuple[Any, Any]]:
    for at, item in enumerate(_walk(values, site)):
        counter = ("loop", site, at)
        yield lift(at + start, ("+", counter, tree_of(start)) if start else counter), item


class _Zip:
    """A zip that writes down how often it can be asked for the next items, as far as the lengths are known."""

    def __init__(self, *sequences: Any, strict: bool = False) -> None:
        site = _site()
        lengths: list[Tree] = [
            ("len", values.tree) for values in sequences if isinstance(values, _Sequence)
        ]
        lengths += [
            values.length for values in sequences if isinstance(values, _Zip) and values.length
        ]
        self.length: Tree | None = (
            ("min", *lengths) if len(lengths) > 1 else lengths[0] if lengths else None
        )
        if len(lengths) > 1:
            _bounded(("min", *lengths))
        self._items = builtins.zip(*[_walk(values, site) for values in sequences], strict=strict)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return self._items

    def __next__(self) -> tuple[Any, ...]:
        return next(self._items)


class _Math:
    """The module ``math``, of which the functions that shapes are made with remember."""

    def __getattr__(self, name: str) -> Any:
        function = getattr(math, name)
        if name not in ("sqrt", "log2", "floor", "ceil"):
            return function
        return lambda value: (
            lift(function(plain(value)), (name, value.tree))
            if isinstance(value, Symbolic)
            else function(value)
        )

    @staticmethod
    def prod(values: Any, start: Any = 1) -> Any:
        for value in values:
            start = start * value
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
MATH = _Math()


def install(namespace: dict[str, Any], without: Container[str] = ()) -> None:
    """Put the stand-ins where a module's code looks for Python's own functions, unless it has its own."""
    for name, stand_in in STAND_INS.items():
        if name not in without:
            namespace.setdefault(name, stand_in)
    if namespace.get("math") is math:
        namespace["math"] = MATH


def uninstall(namespace: dict[str, Any]) -> None:
    """Take the stand-ins out again."""
    for name, stand_in in STAND_INS.items():
        if namespace.get(name) is stand_in:
            del namespace[name]
    if namespace.get("math") is MATH:
        namespace["math"] = math
