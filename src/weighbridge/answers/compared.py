"""One side of a comparison: a model or a checkpoint, with the figures that are known of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge.answers.cache import cache
from weighbridge.answers.cost import cost
from weighbridge.answers.weigh import Weighing, weigh
from weighbridge.errors import WeighbridgeError, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from weighbridge.models.find import Described

FIGURES = ("parameters", "active", "bytes", "cache_bytes", "forward_flops")
"""What is compared besides the components."""

_NO_CONFIG = "a checkpoint has no config"


class ComparedModel(NamedTuple):
    """A model or a checkpoint in a comparison.

    ``class_name`` is the class of a model, or the format of a checkpoint. ``figures`` has a value
    for each of `FIGURES`, or None, and then ``missing`` has the reason.
    """

    name: str
    class_name: str
    components: dict[str, int]
    figures: dict[str, int | None]
    missing: dict[str, str]
    dtype: str
    weighing: Weighing | None
    notes: list[str]

    @property
    def parameters(self) -> int:
        """The unique parameters; of a checkpoint those that it holds."""
        return self.figures["parameters"] or 0

    @property
    def fields(self) -> Mapping[str, Any]:
        """The resolved fields of a model's config; none of a checkpoint."""
        return self.weighing.ledger.fields if self.weighing else {}

    def counted(self) -> dict[str, int]:
        """Return the components that have parameters."""
        return {name: count for name, count in self.components.items() if count}

    def to_dict(self) -> dict[str, Any]:
        """Return everything, ready for JSON."""
        family = self.weighing.model.blueprint.family if self.weighing else None
        return {
            "name": self.name,
            "kind": "model" if self.weighing else "checkpoint",
            "family": family,
            "class": self.class_name,
            "dtype": self.dtype,
            **self.figures,
            "missing": self.missing,
            "components": self.components,
        }


def compared_model(
    model: Described | Weighing, class_name: str | None, sequence: int, dtype: str | None
) -> ComparedModel:
    """Return a side of a comparison.

    Raises:
        WeighbridgeError: it cannot be read.
    """
    if isinstance(model, str) or hasattr(model, "__fspath__"):
        from weighbridge import readers  # noqa: PLC0415  # most models are names

        if readers.is_checkpoint(model):
            return _of_checkpoint(str(model))
    if not isinstance(model, Weighing):
        model = weigh(model, class_name, dtype=dtype)
    return _of_model(model, sequence)


def _of_checkpoint(path: str) -> ComparedModel:
    from weighbridge.answers.inspect import inspect  # noqa: PLC0415  # most are models

    inspection = inspect(path)
    components = {
        name: weight.parameters
        for name, weight in inspection.by("component").items()
        if not name.startswith("training")
    }
    figures: dict[str, int | None] = dict.fromkeys(FIGURES)
    figures["parameters"] = sum(components.values())
    figures["bytes"] = inspection.bytes
    missing = {name: _NO_CONFIG for name, value in figures.items() if value is None}
    dtypes = " + ".join(inspection.by("dtype"))
    name = printable(inspection.checkpoint.path)
    return ComparedModel(
        name, inspection.checkpoint.format, components, figures, missing, dtypes, None, []
    )


def _of_model(weighing: Weighing, sequence: int) -> ComparedModel:
    figures: dict[str, int | None] = dict.fromkeys(FIGURES)
    missing: dict[str, str] = {}
    figures["parameters"] = weighing.parameters
    figures["active"] = weighing.active
    if weighing.active is None:
        figures["active"] = weighing.parameters
    figures["bytes"] = weighing.bytes
    if weighing.bytes is None:
        missing["bytes"] = "the bytes of this quantisation are not known"
    config, class_name = weighing.model.config, weighing.class_name

    def cached() -> int:
        return cache(config, class_name, context=sequence, dtype=None).cache_bytes

    def computed() -> int | None:
        return cost(config, class_name, sequence=sequence).forward_matmul_flops

    for name, figure in (("cache_bytes", cached), ("forward_flops", computed)):
        figures[name], reason = _figure_or_reason(figure)
        if reason:
            missing[name] = reason
    components = weighing.by("component")
    notes = weighing.notes
    name, dtype = weighing.model.where, weighing.ledger.dtype
    return ComparedModel(name, class_name, components, figures, missing, dtype, weighing, notes)


def _figure_or_reason(figure: Callable[[], int | None]) -> tuple[int | None, str]:
    try:
        return figure(), ""
    except WeighbridgeError as error:
        return None, error.what
