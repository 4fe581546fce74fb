"""Reads a model that is in memory: the config of transformers, its model, or any torch module.

Nothing is imported: an object is known by what it has.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from weighbridge.blueprint.schema import FORMAT, Blueprint
from weighbridge.errors import UsageError
from weighbridge.readers.module import Module, read
from weighbridge.units import is_dtype

if TYPE_CHECKING:
    from collections.abc import Mapping

    from weighbridge.ledger.rows import Row


@runtime_checkable
class ConfigObject(Protocol):
    """What is asked of a config: what a config of transformers has."""

    model_type: str

    def to_dict(self) -> dict[str, Any]:
        """Return its fields, as in a config.json."""


def config_from(model: object) -> Mapping[str, Any] | None:
    """Return the config that an object is, or that a model of transformers has; None of others.

    A model's config names the model's own class.
    """
    if isinstance(model, ConfigObject) and not isinstance(model, type):
        return model.to_dict()
    config = getattr(model, "config", None)
    if isinstance(model, Module) and isinstance(config, ConfigObject):
        return {**config.to_dict(), "architectures": [type(model).__name__]}
    return None


def parameters_in(module: Module) -> int:
    """Return how many parameters a module has, each tensor counted once."""
    return sum(row.parameters for row in read(module).rows)


def blueprint_of(module: Module) -> Blueprint:
    """Return the tensors of a module as a blueprint without letters: their sizes are numbers.

    Raises:
        UsageError: a tensor's name has a brace, which stands for an index in a blueprint.
    """
    class_name = type(module).__name__
    tensors: dict[str, str] = {}
    buffers: dict[str, str] = {}
    ties: dict[str, str] = {}
    for row in read(module).rows:
        if "{" in row.name or "}" in row.name:
            what, hint = "the name of a tensor has a brace", "rename it"
            raise UsageError(what, where=class_name, values={"tensor": row.name}, hint=hint)
        sizes = " ".join(map(str, row.shape))
        if row.tied_to is not None:
            ties[row.name] = row.tied_to
        if row.tied_to is None and row.count != row.parameters:
            buffers[row.name] = f"{row.dtype} {sizes}".rstrip()
        else:
            tensors[row.name] = sizes
    return Blueprint(
        {
            "format": FORMAT,
            "family": class_name,
            "source": "the module in memory",
            "class": class_name,
            "proof": {},
            "defaults": {},
            "tensors": tensors,
            "ties": ties,
            "modules": {},
            "buffers": buffers,
        }
    )


def stated_by(module: Module) -> dict[str, Any]:
    """Return what a module says as a config does: the dtype that most of its parameters have."""
    dtypes = Counter(_dtypes(read(module).rows))
    if not dtypes:
        return {}
    return {"dtype": dtypes.most_common(1)[0][0]}


def _dtypes(rows: tuple[Row, ...]) -> list[str]:
    return [row.dtype for row in rows if row.parameters and is_dtype(row.dtype)]
