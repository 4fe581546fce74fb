"""Expressions and values as JSON, for a page that computes with them.

A tree is as in `algebra.expr`, shorter: a text is a name; an integer, true, false and null stand
for themselves; a list is an operator with its operands. JSON has one kind of number and one kind
of text, so ``["'", "text"]`` is a text, ``["f", 0.5]`` a float, and ``["n", "123"]`` an integer
that a double cannot hold. ``["tuple", …]`` and ``["dict", [key, value], …]`` are values of fields.
"""

from __future__ import annotations

from weighbridge.lean_typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from weighbridge.algebra.expr import Tree

LARGEST_EXACT = 2**53 - 1
"""The largest integer that a double and all its neighbours hold exactly."""


class TreeTable:
    """The expressions of a page, each once, and the number of each.

    Example:
        >>> from weighbridge.algebra.expr import parse
        >>> table = TreeTable()
        >>> table.number(parse("2 * width")), table.number(parse("width")), table.trees
        (0, 1, [['*', 2, 'width'], 'width'])
    """

    def __init__(self) -> None:
        self.trees: list[Any] = []
        self._numbers: dict[str, int] = {}

    def number(self, tree: Tree) -> int:
        """Return the number of an expression, adding it if it is new."""
        key = repr(tree)  # in Python ("value", 1) equals ("value", True)
        if key not in self._numbers:
            self._numbers[key] = len(self.trees)
            self.trees.append(tree_json(tree))
        return self._numbers[key]


def tree_json(tree: Tree) -> Any:
    """Return an expression as JSON.

    Example:
        >>> from weighbridge.algebra.expr import parse
        >>> tree_json(parse('kinds[i] == "full" or ratio > 0.5'))
        ['or', ['==', ['[]', 'kinds', 'i'], ["'", 'full']], ['>', 'ratio', ['f', 0.5]]]
    """
    kind, *operands = tree
    if kind == "name":
        return operands[0]
    if kind == "value":
        return value_json(operands[0])
    if kind in ("for", "count"):
        index, rounds, body = operands
        return [kind, index, tree_json(rounds), tree_json(body)]
    return [kind, *map(tree_json, operands)]


def value_json(value: Any) -> Any:
    """Return the value of a field or a literal as JSON.

    Example:
        >>> value_json((1, 2.0, "a")), value_json(2**60)
        (['tuple', 1, ['f', 2.0], ["'", 'a']], ['n', '1152921504606846976'])
    """
    if isinstance(value, str):
        return ["'", value]
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) <= LARGEST_EXACT else ["n", str(value)]
    if isinstance(value, float):
        return ["f", value]
    if hasattr(value, "keys"):
        return ["dict", *([str(key), value_json(value[key])] for key in value)]
    kind = "tuple" if isinstance(value, tuple) else "list"
    return [kind, *map(value_json, value)]
