"""The keywords that a constructor or a factory takes as ``**kwargs`` and passes on to others."""

from __future__ import annotations

import ast
import inspect
import textwrap
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

GATHERED = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)  # *args, **kwargs
_MOST_CALLS = 6  # functions that pass keywords on to one another
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_READERS = ("get", "pop")  # methods of the dict of keywords that name one


class _Passed(NamedTuple):
    """A call that passes the keywords on: the function, and which parameters it gives itself."""

    function: Any
    owner: type | None
    positional: int
    named: frozenset[str]


def accepted_parameters(function: Any) -> list[inspect.Parameter]:
    """Return a callable's parameters, and those that it only passes on.

    If it gathers keywords and passes them on to another function of known name, or to the
    constructor of a base class, that one's parameters are accepted too, unless the call gives them.
    So are keywords that it reads by name: ``kwargs.pop("width", 8)``. An empty list is returned if
    the callable has no signature.

    Example:
        >>> import torch
        >>> [parameter.name for parameter in accepted_parameters(torch.nn.LSTM)][2:5]
        ['input_size', 'hidden_size', 'num_layers']
    """
    return list(_accepted(function, None, _MOST_CALLS).values())


def gathers_keywords(function: Any) -> bool:
    """Whether a callable takes any keyword."""
    return any(
        parameter.kind is parameter.VAR_KEYWORD for parameter in _signature(function).values()
    )


def _accepted(function: Any, owner: type | None, calls: int) -> dict[str, inspect.Parameter]:
    """Return parameters by name; ``owner`` is the class whose ``__init__`` this is."""
    parameters = _signature(function)
    gathered = [name for name, one in parameters.items() if one.kind is one.VAR_KEYWORD]
    if not gathered or not calls:
        return parameters
    code, owner = _constructor(function, owner)
    tree = _tree_of(code)
    if tree is None:
        return parameters
    accepted = dict(parameters)
    for passed in _passed(tree, gathered[0], code, owner):
        theirs = _accepted(passed.function, passed.owner, calls - 1)
        for at, (name, parameter) in enumerate(theirs.items()):
            is_given = at < passed.positional or name in passed.named
            if parameter.kind in _BY_NAME and not is_given:
                accepted.setdefault(name, parameter.replace(kind=parameter.KEYWORD_ONLY))
    for name, default in _read_by_name(tree, gathered[0]):
        keyword = inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
        accepted.setdefault(name, keyword)
    return accepted


def _signature(function: Any) -> dict[str, inspect.Parameter]:
    try:
        return dict(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return {}


def _constructor(function: Any, owner: type | None) -> tuple[Any, type | None]:
    """Return the function whose code runs, and the class that it is the constructor of."""
    if not isinstance(function, type):
        return inspect.unwrap(function), owner
    defining = next((kind for kind in function.__mro__ if "__init__" in vars(kind)), function)
    return inspect.unwrap(vars(defining).get("__init__", function)), defining


def _tree_of(code: Any) -> ast.AST | None:
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(code)))
    except (OSError, TypeError, SyntaxError):
        return None


def _passed(tree: ast.AST, keywords: str, code: Any, owner: type | None) -> Iterator[_Passed]:
    """Yield the calls in a function that get its keywords, as far as what they call is known."""
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call) or not _gets(call, keywords):
            continue
        function, next_owner, is_bound = _called(call.func, code, owner)
        if function is None:
            continue
        plain = [argument for argument in call.args if not isinstance(argument, ast.Starred)]
        named = frozenset(keyword.arg for keyword in call.keywords if keyword.arg)
        yield _Passed(function, next_owner, len(plain) + is_bound, named)


def _gets(call: ast.Call, keywords: str) -> bool:
    return any(
        keyword.arg is None and isinstance(keyword.value, ast.Name) and keyword.value.id == keywords
        for keyword in call.keywords
    )


def _called(function: ast.expr, code: Any, owner: type | None) -> tuple[Any, type | None, int]:
    """Return what is called, the class whose constructor it is, and 1 if ``self`` is implied."""
    if owner is not None and _is_super(function):
        for kind in owner.__mro__[owner.__mro__.index(owner) + 1 :]:
            if "__init__" in vars(kind):
                return vars(kind)["__init__"], kind, 1
        return None, None, 0
    value = _named_value(function, getattr(code, "__globals__", {}))
    return (value, None, 0) if callable(value) else (None, None, 0)


def _is_super(function: ast.expr) -> bool:
    return (
        isinstance(function, ast.Attribute)
        and function.attr == "__init__"
        and isinstance(function.value, ast.Call)
        and isinstance(function.value.func, ast.Name)
        and function.value.func.id == "super"
    )


def _named_value(node: ast.expr, names: dict[str, Any]) -> Any:
    """Return the value of a name, or of an attribute of one; None if it is not known."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute):
        return getattr(_named_value(node.value, names), node.attr, None)
    return None


def _read_by_name(tree: ast.AST, keywords: str) -> Iterator[tuple[str, Any]]:
    """Yield the keywords that a function reads with a constant default."""
    for call in ast.walk(tree):
        if (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Attribute)
            and call.func.attr in _READERS
            and isinstance(call.func.value, ast.Name)
            and call.func.value.id == keywords
            and len(call.args) == len(("name", "default"))
            and all(isinstance(argument, ast.Constant) for argument in call.args)
        ):
            name, default = (argument.value for argument in call.args)  # type: ignore[attr-defined]
            if isinstance(name, str):
                yield name, default
