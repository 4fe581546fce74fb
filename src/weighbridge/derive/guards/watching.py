"""Watches reference code run: which way each of its tests went, over all configs of a family."""

from __future__ import annotations

import ast
from functools import cache
from typing import TYPE_CHECKING, Any

from weighbridge.derive.guards.branches import SKIPPED_FUNCTIONS, branches_of
from weighbridge.derive.probing.symbolic import plain_value

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from types import CodeType, FrameType

    from weighbridge.derive.guards.branches import Test

    Key = tuple[str, tuple[int, int, int, int]]

_COMPREHENSION_FRAMES = ("<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>")
_PURE_FUNCTIONS = (
    *("abs", "all", "any", "bool", "float", "getattr", "hasattr", "int", "isinstance"),
    *("issubclass", "len", "list", "max", "min", "range", "set", "sorted", "str", "sum"),
    *("tuple", "type"),
)
_PURE_METHODS = (
    *("endswith", "get", "items", "keys", "lower", "split", "startswith", "upper", "values"),
)
_EVALUATED = (
    ast.Name,
    ast.Attribute,
    ast.Constant,
    ast.Compare,
    ast.BoolOp,
    ast.UnaryOp,
    ast.BinOp,
    ast.Subscript,
    ast.Slice,
    ast.Tuple,
    ast.List,
    ast.Set,
    ast.IfExp,
    ast.expr_context,
    ast.boolop,
    ast.unaryop,
    ast.operator,
    ast.cmpop,
    ast.keyword,
)


class Watch:
    """The answers that tests gave so far, and where each was first met."""

    def __init__(self) -> None:
        self.answers: dict[Key, set[bool]] = {}
        self.met_in: dict[Key, dict[str, Mapping[str, Any]]] = {}
        """The classes whose code meets a test, each with the changes of the first such config."""

    def tracer(
        self,
        class_name: str,
        changes: Mapping[str, Any],
        files: Collection[str],
        at_test: Callable[[Test, FrameType], None] | None = None,
    ) -> Callable[[FrameType, str, Any], Any]:
        """Return a trace function that records answers.

        Args:
            class_name: the class that will be built.
            changes: the config that it will be built on.
            files: the source files of the reference code.
            at_test: called before each test is evaluated.
        """
        skipped: dict[CodeType, bool] = {}

        def answer(test: Test, truth: bool) -> None:  # noqa: FBT001
            self.answers.setdefault(test.key, set()).add(truth)
            self.met_in.setdefault(test.key, {}).setdefault(class_name, changes)

        def called(frame: FrameType, _event: str, _argument: Any) -> Any:
            code = frame.f_code
            if code not in skipped:
                is_code = code.co_filename in files
                skipped[code] = not is_code or bool(SKIPPED_FUNCTIONS.match(code.co_name))
            if skipped[code]:
                return None
            return _Frame(answer, at_test, code).stepped

        return called


class _Frame:
    """One call of a function of the reference code, watched line by line."""

    def __init__(
        self,
        answer: Callable[[Test, bool], None],
        at_test: Callable[[Test, FrameType], None] | None,
        code: CodeType,
    ) -> None:
        self.answer, self.at_test = answer, at_test
        self.tests = branches_of(code.co_filename).tests
        self.is_comprehension = code.co_name in _COMPREHENSION_FRAMES
        self.pending: list[Test] = []

    def stepped(self, frame: FrameType, event: str, _argument: Any) -> Any:
        """Note what the last line answered, and the tests of the next."""
        if event == "exception":
            self.pending.clear()
        elif event in ("line", "return"):
            line = frame.f_lineno if event == "line" else 0
            if self.pending:
                self._settle(line)
            if line in self.tests:
                self._meet(self.tests[line], frame)
        return self.stepped

    def _settle(self, line: int) -> None:
        """Answer the tests whose outcome the next line shows."""
        waiting: list[Test] = []
        for test in self.pending:
            first, _, last, _ = test.position
            if first <= line <= last and line not in test.body:
                waiting.append(test)  # the test has several lines
            else:
                self.answer(test, line in test.body)
        self.pending = waiting

    def _meet(self, tests: list[Test], frame: FrameType) -> None:
        for test in tests:
            if (test.kind == "filter") != self.is_comprehension:
                continue
            if self.at_test is not None:
                self.at_test(test, frame)
            if test.kind in ("if", "for"):
                self.pending.append(test)
                continue
            value = value_in_frame(test.node, frame)
            if value is not UNKNOWN:
                self.answer(test, bool(plain_value(value)))


class _Unknown:
    """The value of an expression that cannot be evaluated without effects."""


UNKNOWN = _Unknown()


def value_in_frame(node: ast.expr, frame: FrameType) -> Any:
    """Return the value of an expression in a frame; ``UNKNOWN`` if that might have effects."""
    code = _compiled(node)
    if code is None:
        return UNKNOWN
    try:
        return eval(code, frame.f_globals, frame.f_locals)  # noqa: S307  # the reference's own code
    except Exception:  # whatever the expression raises, it has no value here
        return UNKNOWN


@cache
def _compiled(node: ast.expr) -> CodeType | None:
    if not all(_is_pure(part) for part in ast.walk(node)):
        return None
    return compile(ast.Expression(node), "<test>", "eval")


def _is_pure(part: ast.AST) -> bool:
    if isinstance(part, ast.Call):
        function = part.func
        if isinstance(function, ast.Attribute):
            return function.attr in _PURE_METHODS
        if not isinstance(function, ast.Name):
            return False
        is_question = function.id.startswith("is_") and not part.args
        return is_question or function.id in _PURE_FUNCTIONS
    return isinstance(part, _EVALUATED)
