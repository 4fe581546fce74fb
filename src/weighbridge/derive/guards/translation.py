"""Translates tests of reference code into expressions over config fields."""

from __future__ import annotations

import ast
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from weighbridge.algebra.rewrite import FALSE, NULL, TRUE, ZERO, joined, leaves, negated
from weighbridge.derive.guards.watching import UNKNOWN, value_in_frame
from weighbridge.derive.probing.symbolic import Symbolic, SymbolicFlag, plain_value, without_counts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType

    from weighbridge.algebra.expr import Tree

_EMPTY_VALUES: Tree = ("list", NULL, FALSE, ("value", ""))  # 0 equals false
_DEEPEST = 6  # variables that a test is traced back through
_PLACE = "_weighbridge_path"  # the attribute in which a config keeps its dotted path
_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Is: "==",
    ast.IsNot: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.In: "in",
    ast.NotIn: "not in",
}
_ARITHMETIC: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
}
_SAME_FUNCTIONS = ("len", "max", "min", "int", "abs", "sum")


class UntranslatableError(Exception):
    """A test that no expression over config fields gives."""


class Translator:
    """Translates the expressions of one frame.

    Args:
        frame: the call of a function that evaluates them.
        function: the function's syntax tree, which says what its variables are assigned.
        places: the dotted paths, each with a final dot, of the configs of a class.
        is_field: whether a dotted path is a field of the config.
    """

    def __init__(
        self,
        frame: FrameType,
        function: ast.AST | None,
        places: Callable[[Any], Sequence[str]],
        is_field: Callable[[str], bool],
    ) -> None:
        self.frame, self.function = frame, function
        self.places, self.is_field = places, is_field
        self.fields: dict[str, None] = {}
        """The fields met so far, also in tests that could not be translated."""

    def condition(self, node: ast.expr, depth: int = 0) -> Tree:
        """Return a test as a condition.

        Raises:
            UntranslatableError: it is about something else than config fields.
        """
        if isinstance(node, ast.BoolOp):
            kind = "and" if isinstance(node.op, ast.And) else "or"
            return _connected(kind, [self.condition(part, depth) for part in node.values])
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return _opposite(self.condition(node.operand, depth))
        if isinstance(node, ast.Compare):
            return self._comparison(node, depth)
        if isinstance(node, ast.Call):
            return self._answer(node, depth)
        return self._truth(node, depth)

    def _answer(self, node: ast.Call, depth: int) -> Tree:
        """Return the condition that a call returns what counts as true."""
        name = _function_name(node)
        if name == "hasattr":
            return self._presence(node)
        if name == "bool" and len(node.args) == 1:
            return self.condition(node.args[0], depth)
        if name == "isinstance":
            return self._kind_check(node)
        return self._truth(node, depth)

    def _comparison(self, node: ast.Compare, depth: int) -> Tree:
        operands = [node.left, *node.comparators]
        parts: list[Tree] = []
        for operator, left, right in zip(node.ops, operands, operands[1:], strict=False):
            kind = _COMPARISONS[type(operator)]
            if kind in ("in", "not in") and _is_keywords(right):
                present = ("!=", self._keyword(left), NULL)
                parts.append(present if kind == "in" else _opposite(present))
                continue
            parts.append((kind, self.value(left, depth), self.value(right, depth)))
        return _connected("and", [_folded(part) for part in parts])

    def _presence(self, node: ast.Call) -> Tree:
        """Return the condition that a config has an attribute."""
        holder, name = node.args
        path = self._path(holder, value_in_frame(name, self.frame))
        if path is None:
            return self._constant(node)
        self.fields.setdefault(path)
        return TRUE if self.is_field(path) else ("!=", ("name", path), NULL)

    def _kind_check(self, node: ast.Call) -> Tree:
        """Return the answer of a type check: a field keeps the type of its default."""
        self.value(node.args[0])
        return ("value", bool(value_in_frame(node, self.frame)))

    def _truth(self, node: ast.expr, depth: int) -> Tree:
        """Return the condition that a value counts as true."""
        tree = self.value(node, depth)
        if tree[0] in ("and", "or", "not", "==", "!=", "<", "<=", ">", ">=", "in", "not in"):
            return tree
        value = value_in_frame(node, self.frame)
        if value is UNKNOWN:
            if tree[0] != "name":
                raise UntranslatableError(ast.unparse(node))
            value = None  # the config has no such attribute
        is_flag = isinstance(value, bool | SymbolicFlag)
        value = plain_value(value)
        if tree[0] == "value":
            return ("value", bool(value))
        if is_flag:
            return tree
        if isinstance(value, int | float):
            return ("!=", tree, ZERO)
        if isinstance(value, str):
            return ("not in", tree, ("list", NULL, ("value", "")))
        if isinstance(value, list):
            return ("!=", ("len", tree), ZERO)
        return ("not in", tree, _EMPTY_VALUES)

    def value(self, node: ast.expr, depth: int = 0) -> Tree:
        """Return an expression that gives the value of a part of a test.

        Raises:
            UntranslatableError: it is not computed from config fields and constants alone.
        """
        if isinstance(node, ast.Constant):
            return ("value", node.value)
        if isinstance(node, ast.NamedExpr):
            node = node.value
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            return ("list", *[self.value(item, depth) for item in node.elts])
        if isinstance(node, ast.Compare | ast.BoolOp) or _is_negation(node):
            return self.condition(node, depth)
        remembered = self._remembered(node)
        if remembered is not None:
            return self._unabridged(node, depth) or remembered
        if isinstance(node, ast.IfExp):
            test = self.condition(node.test, depth)
            return _choice(test, self.value(node.body, depth), self.value(node.orelse, depth))
        if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
            operands = self.value(node.left, depth), self.value(node.right, depth)
            return _folded((_ARITHMETIC[type(node.op)], *operands))
        if isinstance(node, ast.Call):
            return self._call(node, depth)
        return self._variable(node, depth)

    def note_fields(self, node: ast.expr) -> None:
        """Note the fields that a test names, even if it cannot be translated."""
        for part in ast.walk(node):
            if isinstance(part, ast.Attribute | ast.Name | ast.Call):
                with suppress(UntranslatableError, AttributeError, IndexError, TypeError):
                    self.value(part)

    def rounds(self, node: ast.expr) -> Tree:
        """Return the condition that a loop over this has at least one round.

        Raises:
            UntranslatableError: it is about something else than config fields.
        """
        if not isinstance(node, ast.Call):
            return self._truth(node, 0)
        name = _function_name(node)
        if name == "range":
            bounds = [self.value(bound) for bound in node.args]
            if len(bounds) == 1:
                return _folded((">", bounds[0], ZERO))
            return _folded((">", bounds[1], bounds[0]))
        if name in ("enumerate", "zip", "reversed"):
            return _connected("and", [self.rounds(argument) for argument in node.args])
        return self._truth(node, 0)

    def _call(self, node: ast.Call, depth: int) -> Tree:
        name = _function_name(node)
        if name == "getattr":
            path = self._path(node.args[0], value_in_frame(node.args[1], self.frame))
            if path is not None:
                self.fields.setdefault(path)
                return ("name", path)
        if name == "bool" and len(node.args) == 1:
            return self.condition(node.args[0], depth)
        if name in _SAME_FUNCTIONS:
            return _folded((name, *[self.value(argument, depth) for argument in node.args]))
        if isinstance(node.func, ast.Attribute) and _is_keywords(node.func.value):
            return self._keyword(node.args[0])
        return self._constant(node)

    def _keyword(self, name: ast.expr) -> Tree:
        """Return the field that a config class reads as a keyword."""
        text = value_in_frame(name, self.frame)
        places = self.places(self.frame.f_locals.get("self"))
        if not isinstance(text, str) or not places:
            raise UntranslatableError(ast.unparse(name))
        path = places[0] + plain_value(text)
        self.fields.setdefault(path)
        return ("name", path)

    def _variable(self, node: ast.expr, depth: int) -> Tree:
        """Return the field that an attribute is, or what a variable was assigned, if clear."""
        if isinstance(node, ast.Attribute):
            path = self._path(node.value, node.attr)
            if path is not None:
                self.fields.setdefault(path)
                return ("name", path)
        if depth < _DEEPEST and self.function is not None:
            assigned = _assignments(self.function, ast.unparse(node), node.lineno)
            if len(assigned) == 1 and assigned[0] is not node:
                return self.value(assigned[0], depth + 1)
            if assigned:
                raise UntranslatableError(ast.unparse(node))
        return self._constant(node)

    def _unabridged(self, node: ast.expr, depth: int) -> Tree | None:
        """Return what a variable was assigned if that is a choice.

        The value of ``a and b`` remembers only one of the two.
        """
        if not isinstance(node, ast.Name | ast.Attribute) or self.function is None:
            return None
        assigned = _assignments(self.function, ast.unparse(node), node.lineno)
        if len(assigned) != 1 or not isinstance(assigned[0], ast.BoolOp | ast.IfExp):
            return None
        try:
            return self.value(assigned[0], depth + 1) if depth < _DEEPEST else None
        except UntranslatableError:
            return None

    def _constant(self, node: ast.expr) -> Tree:
        """Return a value that no field decides."""
        tree = self._remembered(node)
        if tree is not None:
            return tree
        for part in ast.iter_child_nodes(node):
            if isinstance(part, ast.expr):
                self._check_constant(part)
        value = plain_value(value_in_frame(node, self.frame))
        if isinstance(value, list):
            items = value
            if all(isinstance(item, bool | int | float | str) for item in items):
                return ("list", *[("value", item) for item in items])
        if value is None or isinstance(value, bool | int | float | str):
            return ("value", value)
        raise UntranslatableError(ast.unparse(node))

    def _check_constant(self, node: ast.expr) -> None:
        """Refuse an expression with a field in it, whose value remembers the field no longer."""
        for part in ast.walk(node):
            is_field = isinstance(part, ast.Attribute) and self._path(part.value, part.attr)
            if isinstance(part, ast.expr) and (is_field or self._remembered(part) is not None):
                raise UntranslatableError(ast.unparse(node))

    def _remembered(self, node: ast.expr) -> Tree | None:
        value = value_in_frame(node, self.frame)
        if isinstance(value, Symbolic):
            for leaf in leaves(value.tree):
                if leaf[0] == "name":
                    self.fields.setdefault(leaf[1])
            return without_counts(value.tree)
        return None

    def _path(self, holder: ast.expr, name: Any) -> str | None:
        """Return the dotted path of an attribute of a config; None for other objects."""
        config = value_in_frame(holder, self.frame)
        if config is UNKNOWN or not isinstance(name, str):
            return None
        place = vars(config).get(_PLACE) if hasattr(config, "__dict__") else None
        if place is None:
            places = self.places(config)
            if not places:
                return None
            place = places[0]
        renamed = getattr(type(config), "attribute_map", {})
        return f"{place}{renamed.get(name, name)}"


def _function_name(node: ast.Call) -> str:
    """Return the name of the function that is called; empty for methods."""
    if isinstance(node.func, ast.Name):
        return node.func.id
    return ""


def _is_negation(node: ast.expr) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)


def _is_keywords(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "kwargs"


def _assignments(function: ast.AST, name: str, before: int) -> list[ast.expr]:
    """Return the values that a function assigns to a variable above a line."""
    values: list[ast.expr] = []
    for node in ast.walk(function):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.lineno < before:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if node.value is not None and name in map(ast.unparse, targets):
                values.append(node.value)
    return values


def _opposite(tree: Tree) -> Tree:
    if tree[0] == "value":
        return ("value", not tree[1])
    return negated(tree)


def _connected(kind: str, conditions: Sequence[Tree]) -> Tree:
    """Return conditions joined by ``and`` or ``or``, without those that are constant."""
    absorbing = FALSE if kind == "and" else TRUE
    kept: list[Tree] = []
    for tree in conditions:
        if tree[0] == "value" and tree == absorbing:
            return absorbing
        if tree[0] != "value":
            kept.append(tree)
    if not kept:
        return _opposite(absorbing)
    if kind == "and":  # what counts as true is not null
        kept = [tree for tree in kept if _null_test_implied_by(tree) not in kept]
    return joined(kind, kept)


def _null_test_implied_by(tree: Tree) -> Tree | None:
    """Return the condition that makes ``x != null`` superfluous."""
    if tree[0] == "!=" and tree[2] == NULL:
        return ("not in", tree[1], _EMPTY_VALUES)
    return None


def _choice(test: Tree, then: Tree, otherwise: Tree) -> Tree:
    if test[0] == "value":
        return then if test[1] else otherwise
    return ("if", test, then, otherwise)


def _folded(tree: Tree) -> Tree:
    """Return the value of an expression without fields; other expressions unchanged."""
    from weighbridge.algebra.rewrite import compiled  # noqa: PLC0415

    if any(leaf[0] != "value" for leaf in leaves(tree)):
        return tree
    try:
        value = compiled(tree)({})
    except Exception:  # it has no value, so it stays an expression
        raise UntranslatableError(repr(tree)) from None
    return ("value", value) if not isinstance(value, list) else tree
