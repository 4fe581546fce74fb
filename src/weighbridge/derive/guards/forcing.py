"""Forces a branch that no config takes, to see whether it decides a tensor."""

from __future__ import annotations

import ast
import copy
import sys
from contextlib import contextmanager
from types import FunctionType
from typing import TYPE_CHECKING, Any

from weighbridge.derive.guards.branches import branches_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import CodeType

    from weighbridge.derive.guards.branches import CodeBranch
    from weighbridge.derive.probing.subject import Subject


def changes_nothing(
    subject: Subject, class_name: str, changes: Mapping[str, Any], branch: CodeBranch
) -> bool:
    """Whether a class has the same tensors on a config if the code is made to take a branch.

    False if that cannot be seen: the code may fail in the branch.
    """
    if branch.test.kind == "for":
        return False
    try:
        usual = subject.probe(class_name, changes, labels=False)
        with _forced(branch):
            forced = subject.probe(class_name, changes, labels=False)
    except Exception:  # the code fails there, or cannot be compiled on its own
        return False
    return usual.outline == forced.outline


@contextmanager
def _forced(branch: CodeBranch) -> Iterator[None]:
    """Let a test have the truth of a branch inside the block."""
    function = _function_of(branch)
    usual = function.__code__
    function.__code__ = _compiled(branch, usual)
    try:
        yield
    finally:
        function.__code__ = usual


def _function_of(branch: CodeBranch) -> FunctionType:
    """Return the function that a branch belongs to.

    Raises:
        LookupError: it cannot be reached by its name.
    """
    for module in list(sys.modules.values()):
        if getattr(module, "__file__", None) == branch.test.file:
            found: Any = module
            for name in branch.method.split("."):
                found = vars(found)[name]
            while hasattr(found, "__wrapped__"):
                found = found.__wrapped__
            if isinstance(found, FunctionType) and found.__code__.co_filename == branch.test.file:
                return found
    raise LookupError(branch.method)


def _compiled(branch: CodeBranch, usual: CodeType) -> CodeType:
    """Return the code of a branch's function in which its test is a constant.

    Raises:
        LookupError: the function cannot be compiled alone.
    """
    node = copy.deepcopy(branches_of(branch.test.file).functions[usual.co_firstlineno])
    node.decorator_list = []
    node.returns = None
    changed = _Forcing(branch).visit(node)
    *above, _ = branch.method.split(".")
    for name in reversed(above):
        changed = ast.ClassDef(name=name, bases=[], keywords=[], body=[changed], decorator_list=[])
    module = ast.fix_missing_locations(ast.Module(body=[changed], type_ignores=[]))
    code = compile(module, branch.test.file, "exec", dont_inherit=True)
    for name in branch.method.split("."):
        code = next(
            constant
            for constant in code.co_consts
            if hasattr(constant, "co_name") and constant.co_name == name
        )
    if code.co_freevars != usual.co_freevars:
        raise LookupError(branch.method)
    return code


class _Forcing(ast.NodeTransformer):
    """Replaces one test by a constant."""

    def __init__(self, branch: CodeBranch) -> None:
        self.position, self.truth = branch.test.position, branch.truth

    def visit(self, node: ast.AST) -> Any:
        """Return the node, or the constant in its place."""
        position = tuple(
            getattr(node, name, None)
            for name in ("lineno", "col_offset", "end_lineno", "end_col_offset")
        )
        if isinstance(node, ast.expr) and position == self.position:
            return ast.copy_location(ast.Constant(self.truth), node)
        return self.generic_visit(node)
