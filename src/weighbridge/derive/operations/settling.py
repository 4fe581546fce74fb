"""Writes the values of held fields into operations, which then need no such field."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weighbridge.algebra.expr import names_in, parse, substitute
from weighbridge.blueprint.operations import ALL_KINDS, COMPUTE, split_condition
from weighbridge.blueprint.schema import split_dims
from weighbridge.derive.write import dim, expression
from weighbridge.units import DTYPE_BITS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from weighbridge.algebra.expr import Tree

_NO_NAMES = {"x", COMPUTE, *DTYPE_BITS}
"""The words of a text that are no expressions: a dtype, and what stands after rounds."""


def settle_held(raw: dict[str, Any]) -> None:
    """Put the values of held fields in place of their names, and drop these from the fields.

    A field that may have one of several values stays.
    """
    held = {name: value for name, value in raw["held"].items() if not isinstance(value, list)}
    settling = _Settling(held)
    raw["repeat"] = {letter: settling.expression(text) for letter, text in raw["repeat"].items()}
    for table in raw.keys() & {"computed", "images"}:
        raw[table] = {name: settling.expression(text) for name, text in raw[table].items()}
    raw["fields"] = {name: default for name, default in raw["fields"].items() if name not in held}
    for section in (raw, *raw.get("classes", {}).values()):
        for kind in section.keys() & {*ALL_KINDS}:
            by_path = section[kind].items()
            section[kind] = {path: [*map(settling.text, texts)] for path, texts in by_path}


def names_in_text(text: str) -> set[str]:
    """Return the names in a text of a file.

    Example:
        >>> sorted(names_in_text("past x F32 batch*width if training"))
        ['batch', 'past', 'training', 'width']
    """
    shape, condition = split_condition(text)
    expressions = [word for word in split_dims(shape) if word not in _NO_NAMES]
    expressions += [condition] if condition else []
    return {name for source in expressions for name in names_in(parse(source))}


class _Settling:
    """Puts values in place of some names."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def expression(self, text: str) -> str:
        """Return an expression with the values."""
        return expression(self._tree(text))

    def text(self, text: str) -> str:
        """Return a text of a file with the values.

        Example:
            >>> _Settling({"expand": 2}).text("F32 batch*(expand*width+1) if batch > expand")
            'F32 batch*(2*width+1) if batch > 2'
        """
        if self._values.keys().isdisjoint(names_in_text(text)):
            return text
        shape, condition = split_condition(text)
        words = [word if word in _NO_NAMES else dim(self._tree(word)) for word in split_dims(shape)]
        return " ".join(words) + (f" if {self.expression(condition)}" if condition else "")

    def _tree(self, text: str) -> Tree:
        return substitute(parse(text), self._value)

    def _value(self, name: str) -> Tree:
        return ("value", self._values[name]) if name in self._values else ("name", name)
