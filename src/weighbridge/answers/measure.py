"""A measurement, written: what was predicted, what was measured, and their ratio on one line each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weighbridge import data, units
from weighbridge.render.table import Table, text, wrap
from weighbridge.render.words import words

if TYPE_CHECKING:
    from weighbridge.costs.costs import Measurement, Quantity


class Measuring:
    """A measurement and the ways to show it.

    Example:
        >>> from weighbridge.costs.costs import Measurement, Note, Quantity
        >>> run = {"batch": 4, "dtype": "F32", "training": True}
        >>> found = Measurement("bert", "bert", "BertModel", run, (Quantity("parameters", 100, 100),), (), ())
        >>> print(Measuring(found).text())
        bert · BertModel · batch 4, dtype F32, training
        quantity    predicted  measured   ratio
        parameters        100       100  1.0000
        >>> Measuring(found).to_dict()["parameters"]
        {'predicted': 100, 'measured': 100, 'ratio': 1.0}
    """

    def __init__(self, found: Measurement) -> None:
        self.found = found
        self.status = 1 if found.differing else 0
        """The exit status: 1 where a count is not as it was predicted."""

    def to_dict(self) -> dict[str, Any]:
        """Return everything, ready for JSON: each quantity under its name."""
        found = self.found
        return {
            "model": found.model,
            "family": found.family,
            "class": found.class_name,
            "run": found.run,
            **{
                each.name: {
                    "predicted": each.predicted,
                    "measured": each.measured,
                    "ratio": each.ratio,
                }
                for each in found.quantities
            },
            "differing": found.differing,
            "notes": [self._said("en", note.key, **note.values) for note in found.notes],
        }

    def text(self, lang: str = "en") -> str:
        """Write the measurement for a terminal."""
        said, found = _words(lang), self.found
        training = said["training" if found.run.get("training") else "evaluation"]
        run = [f"{name} {value}" for name, value in found.run.items() if name != "training"]
        heading = self._said(
            lang,
            "heading",
            model=found.model,
            class_name=found.class_name,
            run=said["and"].join([*run, training]),
        )
        header = (said["quantity"], said["predicted"], said["measured"], said["ratio"])
        table = Table(
            header, tuple(_cells(each, said["none"]) for each in found.quantities), "<>>>"
        )
        notes = [self._said(lang, note.key, **note.values) for note in found.notes]
        if found.differing:
            notes.insert(0, self._said(lang, "differing", names=said["and"].join(found.differing)))
        return "\n".join([wrap(heading), text(table), *([""] if notes else []), *map(wrap, notes)])

    @staticmethod
    def _said(lang: str, key: str, **values: str) -> str:
        return _words(lang)[key].format(**values)


def _cells(each: Quantity, none: str) -> tuple[str, str, str, str]:
    ratio = none if each.ratio is None else units.fixed(each.ratio, 4)
    return each.name, _number(each.predicted, none), _number(each.measured, none), ratio


def _number(value: float | None, none: str) -> str:
    if value is None:
        return none
    return units.count(value) if isinstance(value, int) else units.fixed(value, 4)


def _words(lang: str) -> dict[str, str]:
    """Return the words of a measurement in a language, those of all tables among them."""
    return {**words(lang), **data.read_toml(f"words/measure.{lang}.toml")}
