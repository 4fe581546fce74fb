"""The files of a model: their size as the config says that they are packed, and what they add."""

from __future__ import annotations

from functools import cached_property

from weighbridge import units
from weighbridge.costs.quantization import (
    Quantization,
    UncoveredError,
    elements_bytes,
    stored_elements,
    weights_of,
)
from weighbridge.lean_typing import TYPE_CHECKING
from weighbridge.render.words import words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from weighbridge.costs.prediction import PredictionLayers
    from weighbridge.costs.quantization import FileWeight, Packing
    from weighbridge.ledger.ledger import Ledger
    from weighbridge.models.find import Model
    from weighbridge.models.quantization import UnreadQuantization

PREDICTION_FIELDS = ("num_nextn_predict_layers", "mtp_num_hidden_layers")
"""The fields of `facts/prediction_layers.toml`, which is not read if a config has none of them."""

_QUANTISED = ("quantization_config", "compression_config")


class StoredFiles:
    """The files of a model, in the dtype that its config states and packed as it says.

    ``named`` is the ledger of the class that the config names. With a ``dtype_is`` of ``"asked
    for"`` the question is about files in that dtype, so nothing is packed.
    """

    def __init__(self, model: Model, named: Ledger, dtype: str, dtype_is: str) -> None:
        self.model, self.named, self.dtype, self.dtype_is = model, named, dtype, dtype_is

    @cached_property
    def quantization(self) -> Quantization | UnreadQuantization | None:
        """How the files are quantised; None if they are not."""
        return None if self.dtype_is == "asked for" else _quantization_of(self.model)

    @cached_property
    def prediction_layers(self) -> PredictionLayers | None:
        """The layers for multi-token prediction that files hold and the class drops."""
        given = self.model.given
        if not any(name.rpartition(".")[2] in PREDICTION_FIELDS for name in given):
            return None
        from weighbridge.costs.prediction import prediction_layers  # noqa: PLC0415  # rare

        quantization = self.quantization
        if not isinstance(quantization, Quantization):
            quantization = None
        return prediction_layers(self.named, given, quantization)

    def elements(self, ledger: Ledger) -> dict[str, int]:
        """Return the elements of a class by dtype, among them scales and zeros.

        Raises:
            UncoveredError: it is not known how the files are packed.
        """
        if self.quantization is None:
            return {self.dtype: ledger.parameters}
        blueprint, prefix = self.model.blueprint, ""
        if ledger.class_name == blueprint.base_class:
            prefix = blueprint.prefix(self.named.class_name)
        if not isinstance(self.quantization, Quantization):
            raise UncoveredError(self.quantization.reason)
        return self._packed(weights_of(ledger, self.quantization, prefix))

    def _packed(self, weights: Iterable[FileWeight]) -> dict[str, int]:
        if not isinstance(self.quantization, Quantization):
            return {self.dtype: sum(weight.elements for weight in weights)}
        dtype = self.dtype
        if self.dtype_is == "assumed":
            dtype = self.quantization.rest
        return stored_elements(weights, self.quantization, dtype)

    def size(self, ledger: Ledger) -> int | None:
        """Return the bytes of a class; None if it is not known how the files are packed."""
        try:
            return elements_bytes(self.elements(ledger))
        except UncoveredError:
            return None

    @property
    def whole_size(self) -> int | None:
        """The bytes of a checkpoint of the class that the config names, with what that drops.

        None if it is not known what the files hold, or in which dtype.
        """
        size, layers = self.size(self.named), self.prediction_layers
        is_assumed = self.dtype_is == "assumed" and self.quantization is None
        if size is None or is_assumed:
            return None
        if layers is None:
            return size
        if layers.weights is None:
            return None
        try:
            return size + elements_bytes(self._packed(layers.weights))
        except UncoveredError:
            return None

    @property
    def is_exact(self) -> bool:
        """Whether the files hold just what was counted."""
        if not isinstance(self.quantization, Quantization):
            return True
        return self.quantization.is_exact

    def notes(self, ledger: Ledger) -> Iterator[str]:
        """Yield why the size of a class is not known, and what files hold that it drops."""
        where, quantization = self.model.where, self.quantization
        if quantization is not None:
            try:
                self.elements(ledger)
            except UncoveredError as error:
                what = f"the files are quantised ({quantization.method}), their size is unknown"
                yield f"{where}: {what}: {error}."
        layers = self.prediction_layers
        if layers is None:
            return
        stated = f"{layers.field} = {layers.number}"
        if layers.parameters is None:
            what = "a checkpoint may hold layers for multi-token prediction, which are not counted"
            yield f"{where}: {what} ({stated})."
            return
        held = f"a checkpoint also holds {units.count(layers.parameters)} parameters"
        what = f"{held} for multi-token prediction ({stated}), which {self.named.class_name} drops"
        if self.whole_size is None:
            yield f"{where}: {what}."
        else:
            yield f"{where}: {what}; with them it takes {units.size(self.whole_size)}."

    def form(self, lang: str = "en") -> str:
        """Return the name of what the elements are stored as: a dtype, or what packs them."""
        if not isinstance(self.quantization, Quantization):
            return self.dtype
        labels = [_packing_text(packing, lang) for packing in self.quantization.packings]
        return words(lang)["and"].join(dict.fromkeys(labels))

    def size_text(self, ledger: Ledger, lang: str) -> str:
        """Describe the size of a class, and how its elements are stored."""
        texts, quantization, size = words(lang), self.quantization, self.size(ledger)
        if quantization is None:
            key = _STORED.get(self.dtype_is, "stored")
            return texts[key].format(size=units.size(size or 0), dtype=self.dtype)
        if size is None or not isinstance(quantization, Quantization):
            return texts["stored_unread"].format(method=quantization.method)
        key = "stored_packed_about"
        if quantization.is_exact:
            key = "stored_packed"
        return texts[key].format(size=units.size(size), packing=self.form(lang))

    def to_dict(self, ledger: Ledger) -> dict[str, Any]:
        """Return what is packed, and the layers that the class drops, ready for JSON."""
        found: dict[str, Any] = {}
        if self.quantization is not None:
            found["quantization"] = {
                "method": self.quantization.method,
                **self._packing_dict(ledger),
            }
        layers = self.prediction_layers
        if layers is not None:
            found["prediction_layers"] = {
                "field": layers.field,
                "layers": layers.number,
                "parameters": layers.parameters,
                "checkpoint_bytes": self.whole_size,
            }
        return found

    def _packing_dict(self, ledger: Ledger) -> dict[str, Any]:
        try:
            elements = self.elements(ledger)
        except UncoveredError as error:
            return {"reason": str(error)}
        labels = []
        if isinstance(self.quantization, Quantization):
            packings = self.quantization.packings
            labels = [{"name": packing.label, "bits": packing.bits} for packing in packings]
        return {"packings": labels, "elements": elements, "exact": self.is_exact}


def _is_about_packing(field: str) -> bool:
    """Whether a field of a config, or one inside it, says how its files are quantised."""
    return not frozenset(field.split(".")).isdisjoint(_QUANTISED)


def _quantization_of(model: Model) -> Quantization | UnreadQuantization | None:
    if not any(map(_is_about_packing, model.given)):
        return None
    from weighbridge.models.quantization import quantization_of  # noqa: PLC0415  # most are not

    return quantization_of(model.config)


def dtype_beside_packed(model: Model) -> str | None:
    """Return the dtype of what quantised files do not pack; None if nothing says it."""
    quantization = _quantization_of(model)
    return quantization.rest if isinstance(quantization, Quantization) else None


_STORED = {"assumed": "stored_assumed"}
"""The key of the words for an assumed dtype."""


def _packing_text(packing: Packing, lang: str) -> str:
    """Name a packing, with the bits of an element if its name does not say them."""
    if packing.bits is None:
        return packing.label
    return words(lang)["at_bits"].format(name=packing.label, bits=packing.bits)
