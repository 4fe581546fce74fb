"""The branches of reference code: each test, what it leads to, and the tests around it.

A branch is entered by `if`, `elif`, `else`, a conditional expression, a filter, a loop that may
have no rounds, or by the absence of an early return.
"""

from __future__ import annotations

import ast
import os
import re
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Calls that print, check, or fill tensors with values.
_HARMLESS_CALLS = re.compile(
    r"^(logger|logging|warnings|deepspeed|torch\.manual_seed|print|setattr|"
    r"(self|super\(\))\.(_?init_\w*|_?reset_parameters|post_init|register_buffer|"
    r"standardize_rope_params|validate\w*)|init)\b"
)
# Names whose values decide how a model runs, and none of its tensors.
_HARMLESS_NAMES = re.compile(
    r"drop(_?out|_path|_prob)|_attn_implementation|attn_implementation|dtype|"
    r"gradient_checkpointing|(^|\.|_)(act|activation)(_fn|_func|_function)?$|is_causal|"
    r"(^|_)eps(ilon)?$|scal(e|ing)$|"
    r"softmax|loss|cache|mask|rope_|_token_id$|initializer|^logger|scaler$|_std$"
)
# Functions that no constructor needs, or that only fill tensors with values.
SKIPPED_FUNCTIONS = re.compile(
    r"^(\w*rope\w*|forward|_init_weights|init_weights|_?initialize_\w*|<lambda>)$"
)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_LONGEST_TEXT = 100  # characters of a line that are shown

Position = tuple[int, int, int, int]
Outer = tuple[tuple[ast.expr, bool], ...]


class Test(NamedTuple):
    """An expression whose truth chooses between two branches."""

    file: str
    position: Position
    node: ast.expr
    kind: str
    """How the answer shows: ``"if"`` or ``"for"`` by the next line, ``"value"`` by evaluation."""
    body: range = range(0)
    """The lines that run if the test is true."""

    @property
    def key(self) -> tuple[str, Position]:
        """What identifies the test."""
        return self.file, self.position


class CodeBranch(NamedTuple):
    """The code that runs only if a test has this truth."""

    test: Test
    truth: bool
    method: str
    text: str
    """Its first line that may decide a tensor."""
    outer: Outer
    """The tests around it in its function, with the truth of each, outermost first."""
    lines: range
    """From its first line to its last."""
    attributes: frozenset[str] | None
    """The attributes of `self` that it changes; None if it may do anything else too."""

    def __str__(self) -> str:
        return f"{os.path.basename(self.test.file)}: {self.method}: `{self.text}`"


@dataclass
class FileBranches:
    """The tests of a file by their first line, and its branches that may decide a tensor."""

    tests: dict[int, list[Test]] = field(default_factory=dict)
    branches: list[CodeBranch] = field(default_factory=list)
    around: dict[int, Outer] = field(default_factory=dict)
    """The tests around each line, in its function."""
    functions: dict[int, ast.FunctionDef] = field(default_factory=dict)
    """The functions by their first line, which may be that of a decorator."""


@cache
def branches_of(file: str) -> FileBranches:
    """Return the tests and branches of a source file."""
    with open(file, encoding="utf-8") as source:
        text = source.read()
    reader = _Reader(file, text.split("\n"))
    reader.read(ast.parse(text).body, "")
    return reader.result


class _Reader:
    """Walks through the functions of a file."""

    def __init__(self, file: str, lines: Sequence[str]) -> None:
        self.file, self.lines = file, lines
        self.result = FileBranches()
        self.method = ""

    def read(self, body: Sequence[ast.stmt], above: str) -> None:
        """Read the functions of a module or class."""
        for node in body:
            if isinstance(node, ast.ClassDef):
                self.read(node.body, f"{above}{node.name}.")
            elif isinstance(node, ast.FunctionDef) and not SKIPPED_FUNCTIONS.match(node.name):
                self.method = above + node.name
                decorators = [decorator.lineno for decorator in node.decorator_list]
                self.result.functions[min([node.lineno, *decorators])] = node
                self.block(node.body, ())

    def block(self, statements: Sequence[ast.stmt], outer: Outer) -> None:
        """Read statements that run under these tests."""
        for position, statement in enumerate(statements):
            for line in _lines_of(statement):
                self.result.around.setdefault(line, outer)
            if isinstance(statement, ast.If):
                rest = statements[position + 1 :]
                outer = self.choice(statement, rest, outer)
            elif isinstance(statement, ast.For):
                self.loop(statement, outer)
            elif isinstance(statement, ast.With | ast.While):
                self.block(statement.body, outer)
            elif isinstance(statement, ast.Try):
                self.block([*statement.body, *statement.orelse, *statement.finalbody], outer)
            elif not isinstance(statement, ast.FunctionDef | ast.ClassDef | ast.Raise):
                self.expressions(statement, outer)

    def choice(self, statement: ast.If, rest: Sequence[ast.stmt], outer: Outer) -> Outer:
        """Read an `if`; return the tests around the statements after it."""
        body, orelse = statement.body, statement.orelse
        for line in _lines_of(*body):
            self.result.around[line] = (*outer, (statement.test, True))
        for line in _lines_of(*orelse):
            self.result.around[line] = (*outer, (statement.test, False))
        test = self.test(statement.test, "if", _span(body))
        # after a return, the statements below belong to the other branch alone
        below = list(rest) if _leaves(body) or _leaves(orelse) else []
        if not _refuses(body):
            self.branch(test, outer, [*body, *below], truth=True)
        if not _refuses(orelse):
            self.branch(test, outer, [*orelse, *below], truth=False)
        self.expressions(statement.test, outer)
        self.block(body, (*outer, (statement.test, True)))
        self.block(orelse, (*outer, (statement.test, False)))
        if _returns(body):
            return (*outer, (statement.test, False))
        return outer

    def loop(self, statement: ast.For, outer: Outer) -> None:
        """Read a loop: its body is a branch that no rounds leave out."""
        test = self.test(statement.iter, "for", _span(statement.body))
        self.branch(test, outer, statement.body, truth=True)
        self.block(statement.body, outer)

    def expressions(self, node: ast.AST, outer: Outer) -> None:
        """Read the tests inside a statement or expression."""
        if isinstance(node, ast.stmt) and not _may_decide(node):
            return
        for part in ast.walk(node):
            if isinstance(part, ast.IfExp):
                test = self.test(part.test, "value")
                self.branch(test, outer, [part.body], truth=True, inside=node)
                self.branch(test, outer, [part.orelse], truth=False, inside=node)
            elif isinstance(part, _COMPREHENSIONS):
                for generator in part.generators:
                    for condition in generator.ifs:
                        test = self.test(condition, "filter")
                        self.branch(test, outer, [part], truth=True, inside=node)
                        self.branch(test, outer, [part], truth=False, inside=node)

    def test(self, node: ast.expr, kind: str, body: range = range(0)) -> Test:
        """Note a test under its first line."""
        position = (
            node.lineno,
            node.col_offset,
            node.end_lineno or node.lineno,
            node.end_col_offset or 0,
        )
        test = Test(self.file, position, node, kind, body)
        tests = self.result.tests.setdefault(node.lineno, [])
        if test.key not in [known.key for known in tests]:
            tests.append(test)
        return test

    def branch(
        self,
        test: Test,
        outer: Outer,
        content: Sequence[ast.AST],
        *,
        truth: bool,
        inside: ast.AST | None = None,
    ) -> None:
        """Note a branch if something in it may decide a tensor."""
        parts = list(_deciding(content))
        if parts:
            line = (inside or parts[0]).lineno  # type: ignore[attr-defined]
            attributes = _changed_attributes([inside] if inside else parts)
            text = self.lines[line - 1].strip()[:_LONGEST_TEXT]
            lines = _span([*content, *([inside] if inside else [])])
            self.result.branches.append(
                CodeBranch(test, truth, self.method, text, outer, lines, attributes)
            )


def _lines_of(*nodes: Any) -> Iterator[int]:
    for node in nodes:
        yield from range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _span(body: Sequence[ast.AST]) -> range:
    lines = list(_lines_of(*body))
    return range(min(lines, default=0), max(lines, default=-1) + 1)


def _leaves(body: Sequence[ast.stmt]) -> bool:
    """Whether statements end the function or the round of the loop."""
    return bool(body) and isinstance(body[-1], ast.Return | ast.Continue | ast.Break | ast.Raise)


def _returns(body: Sequence[ast.stmt]) -> bool:
    return _leaves(body) and not _refuses(body)


def _refuses(body: Sequence[ast.stmt]) -> bool:
    """Whether statements only raise an exception."""
    return bool(body) and isinstance(body[-1], ast.Raise)


def _deciding(content: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """Yield the parts of a branch that may decide a tensor."""
    for node in content:
        if isinstance(node, ast.expr):
            yield node
        elif isinstance(node, ast.If):
            for body in (node.body, node.orelse):
                if not _refuses(body):
                    yield from _deciding(body)
        elif isinstance(node, ast.For | ast.With | ast.While | ast.Try):
            yield from _deciding(node.body)
        elif _may_decide(node):
            yield node


def _changed_attributes(statements: Sequence[ast.AST]) -> frozenset[str] | None:
    """Return the attributes of `self` that statements change; None if they may do more."""
    attributes: set[str] = set()
    for statement in statements:
        targets: list[ast.expr] = []
        if isinstance(statement, ast.Assign):
            targets = statement.targets
        elif isinstance(statement, ast.AugAssign | ast.AnnAssign):
            targets = [statement.target]
        elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            targets = [statement.value.func]
        names = [re.match(r"self\.(\w+)", ast.unparse(target)) for target in targets]
        if not names or None in names:
            return None
        attributes.update(name[1] for name in names if name)
    return frozenset(attributes)


def _may_decide(node: ast.AST) -> bool:
    """Whether a simple statement may decide a tensor."""
    if isinstance(node, ast.Expr):
        if not isinstance(node.value, ast.Call):
            return False
        text = ast.unparse(node.value.func)
        return not (_HARMLESS_CALLS.match(text) or _HARMLESS_NAMES.search(text))
    if isinstance(node, ast.Return):
        return node.value is not None
    if isinstance(node, ast.Assign):
        return not all(_is_harmless(target) for target in node.targets)
    if isinstance(node, ast.AugAssign | ast.AnnAssign):
        return node.value is not None and not _is_harmless(node.target)
    return isinstance(node, ast.Delete | ast.Continue | ast.Break)


def _is_harmless(target: ast.expr) -> bool:
    return _HARMLESS_NAMES.search(ast.unparse(target)) is not None
