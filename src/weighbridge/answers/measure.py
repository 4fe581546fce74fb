"""A measurement: each quantity as predicted and measured, with their ratio, on one line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weighbridge import data, units
from weighbridge.answers.answer import Answer
from weighbridge.render.document import Document, Notes, Title, Together
from weighbridge.render.table import Table
from weighbridge.render.words import words

if TYPE_CHECKING:
    from collections.abc import Mapping

    from weighbridge.costs.costs import Measurement, Quantity


class Measuring(Answer):
    """A measurement and the ways to show it.

    Example:
        >>> from weighbridge.costs.costs import Measurement, Quantity
        >>> run = {"batch": 4, "dtype": "F32", "training": True}
        >>> parameters = (Quantity("parameters", 100, 100),)
        >>> measuring = Measuring(Measurement("bert", "bert", "BertModel", run, parameters, (), ()))
        >>> print(measuring.text())
        bert · BertModel · batch 4, dtype F32, training
        quantity    predicted  measured   ratio
        parameters        100       100  1.0000
        >>> measuring.to_dict()["parameters"]
        {'predicted': 100, 'measured': 100, 'ratio': 1.0}
    """

    def __init__(self, measurement: Measurement) -> None:
        self.measurement = measurement

    @property
    def status(self) -> int:
        """The exit status: 1 if a count differs from its prediction."""
        return int(bool(self.measurement.differing))

    def to_dict(self) -> dict[str, Any]:
        """Return everything, ready for JSON: each quantity under its name."""
        measurement, quantities = self.measurement, {}
        for quantity in measurement.quantities:
            quantities[quantity.name] = {
                "predicted": quantity.predicted,
                "measured": quantity.measured,
                "ratio": quantity.ratio,
            }
        return {
            "model": measurement.model,
            "family": measurement.family,
            "class": measurement.class_name,
            "run": measurement.run,
            **quantities,
            "differing": measurement.differing,
            "notes": self._sentences("en"),
        }

    def document(self, lang: str = "en") -> Document:
        """Return the measurement as a document, with a row for each quantity."""
        texts, measurement = _measure_words(lang), self.measurement
        settings = [
            f"{texts[name]} {value}"
            for name, value in measurement.run.items()
            if name != "training"
        ]
        mode = "evaluation"
        if measurement.run.get("training"):
            mode = "training"
        heading = texts["heading"].format(
            model=measurement.model,
            class_name=measurement.class_name,
            run=texts["and"].join([*settings, texts[mode]]),
        )
        header = (texts["quantity"], texts["predicted"], texts["measured"], texts["ratio"])
        rows = [_cells(quantity, texts) for quantity in measurement.quantities]
        notes = self._sentences(lang)
        if measurement.differing:
            names = texts["and"].join(texts[name] for name in measurement.differing)
            notes.insert(0, texts["differing"].format(names=names))
        table = Table(header, tuple(rows), "<>>>")
        return Document((Together((Title(heading), table)), Notes(tuple(notes))), lang)

    def _sentences(self, lang: str) -> list[str]:
        texts = _measure_words(lang)
        return [texts[note.key].format(**note.values) for note in self.measurement.notes]


def _cells(quantity: Quantity, texts: Mapping[str, str]) -> tuple[str, str, str, str]:
    none = texts["none"]
    predicted, measured = _figure(quantity.predicted, none), _figure(quantity.measured, none)
    ratio = none
    if quantity.ratio is not None:
        ratio = units.fixed(quantity.ratio, 4)
    return texts[quantity.name], predicted, measured, ratio


def _figure(value: float | None, none: str) -> str:
    if value is None:
        return none
    if isinstance(value, int):
        return units.count(value)
    return units.fixed(value, 4)


def _measure_words(lang: str) -> dict[str, str]:
    """Return the words of a measurement in a language, including those of all tables."""
    return {**words(lang), **data.read_toml(f"words/measure.{lang}.toml")}
