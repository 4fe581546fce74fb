"""Reads a model in memory: a config or model of transformers, or any torch module.

Nothing is imported: objects are recognised by their attributes.
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
    """The interface of a config object of transformers."""

    model_type: str

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, as in a config.json."""


def config_from(model: object) -> Mapping[str, Any] | None:
    """Return a config object, or the config of a model of transformers; None for others.

    The config of a model names the class of the model.
    """
    if isinstance(model, ConfigObject) and not isinstance(model, type):
        return model.to_dict()
    config = getattr(model, "config", None)
    if isinstance(model, Module) and isinstance(config, ConfigObject):
        return {**config.to_dict(), "architectures": [type(model).__name__]}
    return None


def parameters_in(module: Module) -> int:
    """Return the number of parameters of a module, counting each tensor once."""
    return sum(row.parameters for row in read(module).rows)


def blueprint_of(module: Module) -> Blueprint:
    """Return the tensors of a module as a blueprint whose sizes are numbers.

    Raises:
        UsageError: a tensor's name has a brace, which marks an index in a blueprint.
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
    """Return a config for a module: the dtype of most of its parameters."""
    dtypes = Counter(_dtypes(read(module).rows))
    if not dtypes:
        return {}
    return {"dtype": dtypes.most_common(1)[0][0]}


def _dtypes(rows: tuple[Row, ...]) -> list[str]:
    return [row.dtype for row in rows if row.parameters and is_dtype(row.dtype)]
