"""The declarations of a user's classes: constructor parameters, their defaults and types."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import typing
from enum import Enum
from typing import Any

MISSING = dataclasses.MISSING


def is_declared(kind: Any) -> bool:
    """Whether a class declares its fields: a dataclass or a pydantic model."""
    return isinstance(kind, type) and (
        dataclasses.is_dataclass(kind) or hasattr(kind, "__pydantic_fields__")
    )


def enumeration_of(default: Any, hint: Any) -> type[Enum] | None:
    """Return the enumeration that a parameter's default or type is of; None if there is none."""
    if isinstance(default, Enum):
        return type(default)
    for kind in (hint, *typing.get_args(hint)):
        if isinstance(kind, type) and issubclass(kind, Enum):
            return kind
    return None


def default_of(kind: type, name: str, default: Any) -> Any:
    """Return a parameter's default; call its factory if it has one."""
    if dataclasses.is_dataclass(kind):
        for field in dataclasses.fields(kind):
            if field.name == name and field.default_factory is not MISSING:
                return field.default_factory()
    fields = getattr(kind, "__pydantic_fields__", {})
    if name in fields:
        if fields[name].is_required():
            return MISSING
        return fields[name].get_default(call_default_factory=True)
    return MISSING if default is inspect.Parameter.empty else default


def keys_of(kind: type) -> dict[str, str]:
    """Return the fields of a pydantic model by the names under which they are given."""
    fields = getattr(kind, "__pydantic_fields__", {})
    keys = {name: field.validation_alias or field.alias or name for name, field in fields.items()}
    return {key: name for name, key in keys.items() if isinstance(key, str)}


def hints_of(kind: Any) -> dict[str, Any]:
    """Return the types of parameters, as far as they can be resolved."""
    hints: dict[str, Any] = {}
    for annotated in (kind, getattr(kind, "__init__", None)):
        with contextlib.suppress(Exception):
            hints |= typing.get_type_hints(annotated)
    return hints


def annotations_in(kind: type) -> dict[str, str]:
    """Return a class's own annotations, as text."""
    annotations = vars(kind).get("__annotations__", {})
    return {name: annotation_text(annotation) for name, annotation in annotations.items()}


def annotation_text(annotation: Any) -> str:
    """Return an annotation as text; empty if there is none."""
    if annotation is inspect.Parameter.empty:
        return ""
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)
