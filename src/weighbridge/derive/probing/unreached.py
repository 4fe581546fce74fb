"""Code that no probe reached: lines of ``__init__`` methods that could decide a tensor.

Agreement on unseen configs says nothing about code that no config reached. Such code is reported as
a hole.
"""

from __future__ import annotations

import ast
import os
import re
import sys
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge.derive.guards.places import config_files
from weighbridge.derive.guards.watching import Watch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from types import CodeType, FrameType

    from weighbridge.derive.probing.subject import Subject


_LONGEST_TEXT = 100  # characters of a line that are shown


class UnreachedLine(NamedTuple):
    """A line of reference code that was never executed."""

    file: str
    number: int
    method: str
    text: str
    tests: tuple[str, ...]
    """The conditions around the line."""
    near: Mapping[str, Any] = {}
    """A config that executes the line's method."""

    def __str__(self) -> str:
        return f"{os.path.basename(self.file)}: {self.method}: `{self.text}`"


class Runs:
    """The lines of a family's code that were executed, over all classes and configs."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self._ran: dict[CodeType, set[int]] = {}
        self._near: dict[CodeType, Mapping[str, Any]] = {}
        self._looked_at: set[str] = set()
        self.watch = Watch()
        """Which way the tests of the code went."""
        self._config_files = config_files(subject)

    def never_run(
        self, class_name: str, configs: Iterable[Mapping[str, Any]]
    ) -> list[UnreachedLine]:
        """Return the lines of a class's ``__init__`` methods that no config executes.

        The configs of earlier calls count too.
        """
        for changes in configs:
            self.look(class_name, changes)
        missed: list[UnreachedLine] = []
        for code, ran in self._ran.items():
            missed += [line._replace(near=self._near[code]) for line in _missed(code, ran)]
        return sorted(missed, key=lambda line: (line.file, line.number))

    def look(self, class_name: str, changes: Mapping[str, Any]) -> None:
        """Run a config, unless it was run before, and note the lines and tests that it meets."""
        key = f"{class_name} {sorted(changes.items(), key=str)}"
        if key in self._looked_at:
            return
        self._looked_at.add(key)
        files = self.subject.files()
        watched = self.watch.tracer(class_name, changes, {*files, *self._config_files})

        def called(frame: FrameType, event: str, argument: Any) -> Any:
            code = frame.f_code
            watch_step = watched(frame, event, argument)
            if code.co_name != "__init__" or code.co_filename not in files:
                return watch_step
            lines = self._ran.setdefault(code, set())
            self._near.setdefault(code, changes)

            def stepped(frame: FrameType, event: str, argument: Any) -> Any:
                lines.add(frame.f_lineno)
                if watch_step is not None:
                    watch_step(frame, event, argument)
                return stepped

            return stepped

        before = sys.gettrace()
        sys.settrace(called)
        try:
            self.subject.probe(class_name, changes, labels=False)
        except Exception:  # noqa: S110  # a config that is refused still runs lines
            pass
        finally:
            sys.settrace(before)

    def look_without_sub_configs(self, class_name: str) -> None:
        """Make configs that lack a sub-config that all probes give, and note the tests they meet.

        The sub-config is then as its class makes it, or made of the fields at the top, whose names
        are aliases of its fields; both are learned elsewhere.
        """
        start = self.subject.start
        for place in self.subject.sub_configs:
            inside = f"{place}."
            changes = {
                path: value
                for path, value in start.items()
                if path != place and not path.startswith(inside)
            }
            before = sys.gettrace()
            sys.settrace(self.watch.tracer(class_name, changes, self._config_files))
            try:
                self.subject.config(changes)
            except Exception:  # noqa: S110  # a config that is refused still runs lines
                pass
            finally:
                sys.settrace(before)


def _missed(code: CodeType, ran: set[int]) -> Iterator[UnreachedLine]:
    source = _source(code.co_filename)
    for statement, method, tests in _statements(code.co_filename).get(code.co_firstlineno, ()):
        lines = range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)
        if not ran.intersection(lines) and any(
            line in lines for _, _, line in code.co_lines() if line
        ):
            yield UnreachedLine(
                code.co_filename,
                statement.lineno,
                method,
                source[statement.lineno - 1].strip()[:_LONGEST_TEXT],
                tests,
            )


@cache
def _source(path: str) -> list[str]:
    with open(path, encoding="utf-8") as file:
        return file.read().split("\n")


@cache
def _statements(path: str) -> dict[int, list[tuple[ast.stmt, str, tuple[str, ...]]]]:
    """Return the statements of each ``__init__`` that can decide a tensor, by its first line.

    Each statement comes with the name of its method and the conditions around it.
    """
    statements = {}
    for kind, method in _init_methods(path):
        first_line = min([method.lineno, *[node.lineno for node in method.decorator_list]])
        name = f"{kind.name}.__init__"
        statements[first_line] = [
            (node, name, tests) for node, tests in _under(method, ()) if _decides(node)
        ]
    return statements


def _init_methods(path: str) -> Iterator[tuple[ast.ClassDef, ast.FunctionDef]]:
    for kind in ast.walk(ast.parse("\n".join(_source(path)))):
        if isinstance(kind, ast.ClassDef):
            for method in kind.body:
                if isinstance(method, ast.FunctionDef) and method.name == "__init__":
                    yield kind, method


def _under(node: ast.AST, tests: tuple[str, ...]) -> Iterator[tuple[ast.stmt, tuple[str, ...]]]:
    """Yield the simple statements inside a node, each with the conditions around it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _SIMPLE):
            yield child, tests
        if isinstance(child, ast.If):
            yield from _under(child, (*tests, ast.unparse(child.test)))
        elif isinstance(child, ast.stmt):
            yield from _under(child, tests)


_SIMPLE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr)
# Calls that print, or fill tensors with values.
_MESSAGE_CALLS = re.compile(
    r"^(logger|warnings|logging|self\.(_?init_\w*|post_init|register_buffer)|deepspeed\.)"
)


def _decides(node: ast.stmt) -> bool:
    """Whether a statement can decide a tensor: it creates something, and is not just a message."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Call) and not _MESSAGE_CALLS.match(
            ast.unparse(node.value)
        )
    value = getattr(node, "value", None)
    return value is not None and any(
        isinstance(part, ast.Call | ast.BinOp | ast.IfExp) for part in ast.walk(value)
    )
