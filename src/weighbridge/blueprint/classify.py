"""Classify the fields of a blueprint: sizes, flags, counts of layers, and deciding fields."""

from __future__ import annotations

from weighbridge.algebra.expr import names_in
from weighbridge.lean_typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from typing import Any

    from weighbridge.algebra.expr import Tree

    Kinds = Mapping[str, type]

_NOT_IN_A_SIZE = dict.fromkeys(("==", "!=", "<", "<=", ">", ">=", "in", "not in"), slice(0))
_NOT_IN_A_SIZE |= {"[]": slice(1), "[:]": slice(1)}
"""The operands that contribute to a size, by operator; the index of an item only selects."""
_ROUNDED = dict.fromkeys(("int", "round", "floor", "ceil"), slice(0))
_OF_LISTS = dict.fromkeys(("[]", "[:]", "len", "sum"), slice(0))
_WHOLE = {**_NOT_IN_A_SIZE, **_ROUNDED, **_OF_LISTS}
"""The same without rounded operands, which may not be integers, and without lists."""


def size_names(tree: Tree) -> Iterator[str]:
    """Yield the names that contribute to a size, without names that only select a branch or item.

    Example:
        >>> from weighbridge.algebra.expr import parse
        >>> list(size_names(parse("(2*width if layers > 1 else width) + sizes[first]")))
        ['width', 'width', 'sizes']
    """
    return names_in(tree, _NOT_IN_A_SIZE)


def gives_zero(tree: Tree) -> bool:
    """Return whether a size is 0 in a branch, as in ``1 if has_token else 0``.

    Example:
        >>> from weighbridge.algebra.expr import parse
        >>> gives_zero(parse("1 if has_token else 0")), gives_zero(parse("width - 0"))
        (True, False)
    """
    if tree[0] == "if":
        return any(map(gives_zero, tree[2:]))
    return tree == ("value", 0)


def may_be_zero(tree: Tree, zero: frozenset[str]) -> bool:
    """Return whether a size may be 0: a branch gives that, or a field that may be 0 is in it.

    Example:
        >>> from weighbridge.algebra.expr import parse
        >>> may_be_zero(parse("width + extra"), frozenset({"extra"}))
        True
    """
    return gives_zero(tree) or not zero.isdisjoint(size_names(tree))


def field_kinds(defaults: Mapping[str, Any], at_defaults: Mapping[str, Any]) -> dict[str, type]:
    """Return the type of each field: of its default, or of its computed value at the defaults."""
    return {name: type(defaults.get(name, value)) for name, value in at_defaults.items()}


def size_fields(shapes: Collection[Tree], kinds: Kinds) -> frozenset[str]:
    """Return the fields that are sizes, given the expressions of dims and counts.

    A field whose default is null is a size if some expression uses it as a number without rounding.
    """
    measured, whole = set[str](), set[str]()
    for tree in shapes:
        measured.update(size_names(tree))
        whole.update(names_in(tree, _WHOLE))
    of_integers = {name for name in measured if kinds.get(name) is int}
    of_null = {name for name in measured & whole if kinds.get(name) is type(None)}
    return frozenset(of_integers | of_null)


KIND_NAMES: dict[type, str] = {
    type(None): "null",
    bool: "flag",
    int: "number",
    float: "number",
    str: "text",
    list: "list",
    tuple: "list",
}
"""The kinds of values of a field by their types; any other value is an object."""


def kind_name(value: Any) -> str:
    """Return the kind of a field's value.

    Example:
        >>> kind_name(8), kind_name((8, 16)), kind_name({"size": 8})
        ('number', 'list', 'object')
    """
    return KIND_NAMES.get(type(value), "object")


def flag_fields(kinds: Kinds) -> frozenset[str]:
    """Return the fields that are true or false."""
    return frozenset(name for name, kind in kinds.items() if kind is bool)


def layer_fields(repeat: Mapping[str, Tree], indices: Collection[str]) -> frozenset[str]:
    """Return the fields that count the repetitions of indices in tensor names."""
    counting = all_names_in(tree for index, tree in repeat.items() if index in indices)
    return counting - repeat.keys()


def all_names_in(trees: Iterable[Tree]) -> frozenset[str]:
    """Return the names in any of these expressions."""
    return frozenset().union(*map(names_in, trees))
