"""Values that remember: a number, text, flag or list with the expression that computed it.

Reference code runs unchanged on such values: ``config.hidden_size // config.num_attention_heads``
is 64 and remembers ``hidden_size // num_attention_heads``. A `SymbolicTrace` keeps the questions
that the code asks meanwhile (``i < first_k_dense_replace``) and the bounds of its loops. A loop's
counter is a separate kind of node, ``("loop", site, 3)``: only when all names are known is it clear
which index of a tensor's name it is.
"""

from __future__ import annotations

import builtins
import itertools
import math
import operator
import sys
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from weighbridge.algebra.rewrite import field_names, leaves, replaced, simplified

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from weighbridge.algebra.expr import Tree

# Nodes of the largest expression. No shape needs more; a sum over a loop would grow without end.
LARGEST = 60
# Expressions of one kind in a trace: some models ask the same questions again for every layer.
MOST_NOTED = 4000
# Operations in one run. No model needs more, except to fill tables of positions in Python.
MOST_OPERATIONS = 500_000
# Rounds of a loop whose counters remember. No model has so many layers: it is a table of positions.
MOST_ROUNDS = 1000


class TooManyOperationsError(Exception):
    """A run that would take minutes: a config far larger than its neighbours."""


class SymbolicTrace:
    """What a run of reference code asked and computed, as the keys of dicts, which keep the order.

    ``asked`` holds conditions, ``bounds`` the lengths of loops, ``computed`` intermediate integers.
    ``loops`` has the length of each loop by its site. ``rounds_apart`` is set for the code of
    strangers: then the rounds of one loop in an expression are told apart, and plain numbers may
    stand for rounds.
    """

    def __init__(self, *, rounds_apart: bool = False) -> None:
        self.rounds_apart = rounds_apart
        self.asked: dict[Tree, None] = {}
        self.bounds: dict[Tree, None] = {}
        self.computed: dict[Tree, None] = {}
        self.loops: dict[str, Tree] = {}
        self._operations = 0

    def count_operation(self) -> None:
        """Count one operation on values that remember.

        Raises:
            TooManyOperationsError: a run has more than any model needs.
        """
        self._operations += 1
        if self._operations > MOST_OPERATIONS:
            raise TooManyOperationsError

    def note(self, kind: dict[Tree, None], tree: Tree) -> None:
        """Keep an expression, with loop counters in place of their values."""
        if len(kind) < MOST_NOTED:
            if self.rounds_apart:
                tree = with_rounds_apart(tree)
            kind[without_counts(tree)] = None

    # What many drafts ask for, once the run has ended.

    @cached_property
    def questions(self) -> list[Tree]:
        """The conditions that were asked, simplified."""
        return [*map(simplified, self.asked)]

    @cached_property
    def shorter_bounds(self) -> list[Tree]:
        """The lengths of loops, simplified."""
        return [*map(simplified, self.bounds)]

    @cached_property
    def shorter_computed(self) -> list[Tree]:
        """The intermediate integers, simplified."""
        return [*map(simplified, self.computed)]

    @cached_property
    def fields_asked(self) -> frozenset[str]:
        """The fields that conditions name."""
        return fields_in_any(self.asked)

    @cached_property
    def fields_in_bounds(self) -> frozenset[str]:
        """The fields that the lengths of loops name."""
        return fields_in_any(self.bounds)


_traces: list[SymbolicTrace] = []


@contextmanager
def tracing(*, rounds_apart: bool = False) -> Iterator[SymbolicTrace]:
    """Record what the code asks and computes inside the block."""
    trace = SymbolicTrace(rounds_apart=rounds_apart)
    _traces.append(trace)
    try:
        yield trace
    finally:
        _traces.remove(trace)


def is_tracing() -> bool:
    """Whether what code asks and computes is recorded now."""
    return bool(_traces)


def without_counts(tree: Tree) -> Tree:
    """Return a tree whose loop counters have no values: ``("loop", site)``."""
    if tree[0] == "loop":
        return tree[:2]
    if tree[0] in ("name", "value"):
        return tree
    return (tree[0], *[without_counts(part) if type(part) is tuple else part for part in tree[1:]])


def with_rounds_apart(tree: Tree) -> Tree:
    """Return a tree in which earlier rounds of a loop are written as so many rounds before.

    Code takes the width of the round before into the next one: ``widths[i] != widths[i - 1]``.

    Example:
        >>> with_rounds_apart(("!=", ("loop", "site", 3), ("loop", "site", 2)))
        ('!=', ('loop', 'site', 3), ('-', ('loop', 'site', 3), ('value', 1)))
    """
    counters = {leaf for leaf in leaves(tree) if leaf[0] == "loop"}
    latest = {counter[1]: counter for counter in sorted(counters, key=lambda leaf: leaf[2])}
    if len(latest) == len(counters):
        return tree

    def before(leaf: Tree) -> Tree:
        if leaf not in counters or leaf == latest[leaf[1]]:
            return leaf
        last = latest[leaf[1]]
        return ("-", last, ("value", last[2] - leaf[2]))

    return replaced(tree, before)


def fields_in_any(trees: Iterable[Tree]) -> frozenset[str]:
    """Return the fields that any of these expressions names."""
    return frozenset[str]().union(*map(field_names, trees))


def node_count(tree: Tree) -> int:
    """Return the number of nodes."""
    if tree[0] in ("name", "value", "loop"):
        return 1
    return 1 + sum(node_count(operand) for operand in tree[1:] if type(operand) is tuple)


_ARRAYS = ("numpy", "torch")  # packages whose numbers are arrays of one item


def tree_of(value: Any) -> Tree:
    """Return the expression that a value remembers, or a plain value as an expression."""
    if isinstance(value, Symbolic):
        return value.tree
    if isinstance(value, list | tuple):
        return ("list", *[tree_of(item) for item in value])
    return ("value", value.item() if type(value).__module__ in _ARRAYS else value)


def plain_value(value: Any) -> Any:
    """Return a value as a plain value, which remembers nothing."""
    if isinstance(value, SymbolicFlag):
        return builtins.bool(int.__int__(value))
    if isinstance(value, SymbolicInt):
        return int.__int__(value)
    if isinstance(value, SymbolicFloat):
        return float.__float__(value)
    if isinstance(value, SymbolicText):
        return str.__str__(value)
    if isinstance(value, dict):
        return {plain_value(key): plain_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_value(item) for item in value]
    return value


def lift(value: Any, tree: Tree) -> Any:
    """Return a value that remembers this expression; unchanged if it cannot, such as None."""
    if isinstance(value, Symbolic):
        value = plain_value(value)
    if value is None or node_count(tree) > LARGEST:
        return value
    if isinstance(value, bool):
        return SymbolicFlag(value, tree)
    if isinstance(value, int):
        for trace in _traces:
            trace.note(trace.computed, tree)
    kinds: dict[type, Any] = {int: SymbolicInt, float: SymbolicFloat, str: SymbolicText}
    if type(value) in kinds:
        return kinds[type(value)](value, tree)
    if type(value) is list:
        return SymbolicList(_lifted_items(value, tree), tree)
    if type(value) is tuple:
        return SymbolicTuple(_lifted_items(value, tree), tree)
    return value


def _lifted_items(values: Sequence[Any], tree: Tree) -> list[Any]:
    return [lift(item, item_tree(tree, ("value", at))) for at, item in enumerate(values)]


def item_tree(tree: Tree, at: Tree) -> Tree:
    """Return the expression of one item of a list; of a loop it is that of the round."""
    if tree[0] == "for":
        _, index, _, body = tree
        return replaced(body, lambda leaf: at if leaf == ("name", index) else leaf)
    return ("[]", tree, at)


def length_tree(tree: Tree) -> Tree:
    """Return the expression of a list's length."""
    return tree[2] if tree[0] == "for" else ("len", tree)


_ROUND = "_at"  # the index of a loop in an expression, which no field is called
_REPEATABLE = (type(None), bool, int, float, str)


def repeated(pattern: Any, times: Any) -> Any:
    """Return a list or tuple over and over, with items that remember.

    `NotImplemented` leaves it to Python: a pattern of the same item, or of objects.
    """
    if not isinstance(pattern, SymbolicSequence) and not _is_pattern(pattern):
        return NotImplemented
    tree = tree_of(pattern)
    length = tree_of(len(pattern)) if tree[0] == "list" else length_tree(tree)
    item = item_tree(tree, ("%", ("name", _ROUND), length))
    items = plain_value(list(forgetful_items(pattern))) * plain_value(times)
    kind = tuple if isinstance(pattern, tuple) else list
    return lift(kind(items), ("for", _ROUND, ("*", length, numeric_tree(times)), item))


def _is_pattern(items: Any) -> bool:
    is_plain = type(items) in (list, tuple) and all(type(item) in _REPEATABLE for item in items)
    return is_plain and len(set(map(repr, items))) > 1


def note_question(tree: Tree) -> None:
    """Add a question to every open trace."""
    for trace in _traces:
        trace.note(trace.asked, tree)


def note_bound(tree: Tree, site: str = "") -> None:
    """Add the length of a loop to every open trace."""
    for trace in _traces:
        trace.note(trace.bounds, tree)
        trace.loops[site] = tree


class Forgetful(int):
    """A number whose results are plain, also those with values that remember."""


class Symbolic:
    """The base of values that remember their expression, in ``tree``."""

    tree: Tree

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        value = plain_value(self)
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


def is_numeric(value: Any) -> bool:
    """Whether arithmetic accepts a value."""
    return isinstance(value, int | float)


def numeric_tree(value: Any) -> Tree:
    """Return the tree of a number; a flag counts as 0 or 1, as in arithmetic."""
    if isinstance(value, SymbolicFlag):
        return ("if", value.tree, ("value", 1), ("value", 0))
    if isinstance(value, bool):
        return ("value", int(value))
    return tree_of(value)


def with_factor(number: Any, up: int = 2) -> Any:
    """Return a fraction with the product that computed it, if the calling code shows which.

    Python computes ``0.9 * size`` without asking the size, so the product forgets it. It is the
    product of a constant of the calling function and of one of its variables.
    """
    if type(number) is not float:
        return number
    frame = sys._getframe(up)
    factors = [factor for factor in frame.f_code.co_consts if type(factor) is float]
    sizes = [value for value in frame.f_locals.values() if isinstance(value, SymbolicInt)]
    for factor, size in itertools.product(factors, sizes):
        if factor * plain_value(size) == number:
            return SymbolicFloat(number, ("*", ("value", factor), numeric_tree(size)))
    return number


def _arithmetic(
    kind: str, of_plain: Callable[[Any, Any], Any], *, reflected: bool
) -> Callable[[Any, Any], Any]:
    def operate(self: Any, other: Any) -> Any:
        if kind == "*" and isinstance(other, list | tuple):
            return repeated(other, self)
        if not is_numeric(other):
            return NotImplemented
        if _traces:
            _traces[-1].count_operation()
        left, right = (other, self) if reflected else (self, other)
        result = of_plain(plain_value(left), plain_value(right))
        if type(other) is Forgetful:
            return result
        return lift(result, (kind, numeric_tree(left), numeric_tree(right)))

    return operate


def _comparison(kind: str, of_plain: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def compare(self: Any, other: Any) -> Any:
        if type(other) is Forgetful:
            return of_plain(plain_value(self), other)
        if not isinstance(other, int | float | str):
            if kind not in ("==", "!="):
                return NotImplemented
            return of_plain(plain_value(self), other)
        return SymbolicFlag(
            bool(of_plain(plain_value(self), plain_value(other))),
            (kind, tree_of(self), tree_of(with_factor(other))),
        )

    return compare


class SymbolicNumber(Symbolic):
    """Arithmetic and comparisons for numbers that remember."""

    def __neg__(self) -> Any:
        return lift(-plain_value(self), ("neg", tree_of(self)))

    def __abs__(self) -> Any:
        return lift(abs(plain_value(self)), ("abs", tree_of(self)))

    def __floor__(self) -> Any:
        return lift(math.floor(plain_value(self)), ("floor", tree_of(self)))

    def __ceil__(self) -> Any:
        return lift(math.ceil(plain_value(self)), ("ceil", tree_of(self)))

    def __trunc__(self) -> Any:
        return lift(int(plain_value(self)), ("int", tree_of(self)))

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __round__(self, digits: int | None = None) -> Any:
        if digits:
            return round(plain_value(self), digits)
        return lift(round(plain_value(self)), ("round", tree_of(self)))

    def __bool__(self) -> bool:
        note_question(("!=", self.tree, ("value", 0)))
        return bool(plain_value(self))


for _kind, (_name, _operate) in _ARITHMETIC.items():
    setattr(SymbolicNumber, f"__{_name}__", _arithmetic(_kind, _operate, reflected=False))
    setattr(SymbolicNumber, f"__r{_name}__", _arithmetic(_kind, _operate, reflected=True))
for _kind, (_name, _operate) in _COMPARISONS.items():
    setattr(SymbolicNumber, f"__{_name}__", _comparison(_kind, _operate))


class SymbolicInt(SymbolicNumber, int):  # type: ignore[misc]  # rounding differs
    """An integer that remembers."""

    def __new__(cls, value: int, tree: Tree) -> Self:
        """Return the value with its expression."""
        made = int.__new__(cls, value)
        made.tree = tree
        return made

    __hash__ = int.__hash__


class SymbolicFlag(SymbolicInt):
    """True or false, as 1 or 0, since bool cannot be subclassed. Testing it is a question."""

    def __bool__(self) -> bool:
        note_question(self.tree)
        return int.__int__(self) != 0

    __hash__ = int.__hash__

    def __str__(self) -> str:
        return str(plain_value(self))

    __repr__ = __str__


class SymbolicFloat(SymbolicNumber, float):  # type: ignore[misc]
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
        found = part in plain_value(self)
        note_question(("in", tree_of(part), self.tree))
        return bool(found)

    def __bool__(self) -> bool:
        note_question(("!=", self.tree, ("value", "")))
        return len(plain_value(self)) > 0


class SymbolicSequence(Symbolic):
    """The common parts of lists and tuples that remember."""

    def __iter__(self) -> Iterator[Any]:
        yield from walk(self, calling_site())

    def __getitem__(self, at: Any) -> Any:
        items = list(forgetful_items(self))
        if isinstance(at, slice):
            kind = tuple if isinstance(self, tuple) else list
            if at.step:
                return kind(items[at])
            bounds = [tree_of(bound) for bound in (at.start, at.stop)]
            return lift(kind(map(plain_value, items[at])), ("[:]", self.tree, *bounds))
        return lift(items[at], item_tree(self.tree, tree_of(at)))

    def __contains__(self, item: object) -> bool:
        found = plain_value(item) in plain_value(list(forgetful_items(self)))
        note_question(("in", tree_of(item), self.tree))
        return found

    def __bool__(self) -> bool:
        note_question(("!=", length_tree(self.tree), ("value", 0)))
        return any(True for _ in forgetful_items(self))


class SymbolicList(SymbolicSequence, list[Any]):
    """A list that remembers, with items that remember."""

    def __init__(self, items: list[Any], tree: Tree) -> None:
        super().__init__(items)
        self.tree = tree

    __hash__ = None

    def __deepcopy__(self, memo: Any) -> Any:
        return SymbolicList(list(forgetful_items(self)), self.tree)


class SymbolicTuple(SymbolicSequence, tuple[Any, ...]):  # noqa: SLOT001
    """A tuple that remembers, with items that remember."""

    def __new__(cls, items: list[Any], tree: Tree) -> Self:
        """Return the value with its expression."""
        made = tuple.__new__(cls, items)
        made.tree = tree
        return made

    def __init__(self, items: list[Any], tree: Tree) -> None:
        pass

    def __radd__(self, other: Any) -> Any:
        """Return a list with the items added, as code does with the list in a file's config."""
        if not isinstance(other, list):
            return NotImplemented
        return [*forgetful_items(other), *forgetful_items(self)]

    __hash__ = tuple.__hash__


def forgetful_items(sequence: Any) -> Iterator[Any]:
    """Iterate over a list or tuple as Python does, without a loop counter in its items."""
    if isinstance(sequence, list):
        return list.__iter__(sequence)
    return tuple.__iter__(sequence)


def calling_site(up: int = 2) -> str:
    """Return the place of the call in the reference code."""
    frame = sys._getframe(up)
    return f"{frame.f_code.co_filename}:{frame.f_code.co_name}:{frame.f_lineno}"


def walk(values: Any, site: str) -> Iterator[Any]:
    """Yield items; an item of a list that remembers is the one at the loop's counter."""
    if not isinstance(values, SymbolicSequence):
        yield from values
        return
    note_bound(length_tree(values.tree), site)
    for at, item in enumerate(forgetful_items(values)):
        yield lift(item, item_tree(values.tree, ("loop", site, at)))
