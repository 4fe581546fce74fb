"""The labels that a classifier gave the texts of a table: `weighbridge run --csv`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weighbridge import data, units
from weighbridge.answers.answer import Answer
from weighbridge.errors import printable
from weighbridge.render.document import Document, Notes, Title
from weighbridge.render.table import Table
from weighbridge.render.words import words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Labelled(Answer):
    """The answer of `weighbridge run --csv`: how many texts got each label, and where they are."""

    def __init__(self, result: Mapping[str, Any], notes: Sequence[str]) -> None:
        self.result, self._notes = dict(result), list(notes)

    @property
    def notes(self) -> list[str]:
        """Notes for the user on the table and the checkpoint."""
        return self._notes

    def to_dict(self) -> dict[str, Any]:
        """Return everything, ready for JSON."""
        return {**self.result, "notes": self._notes}

    def document(self, lang: str = "en") -> Document:
        """Return the number of texts with each label, their share, and the mean of their scores."""
        result, texts = self.result, {**words(lang), **data.read_toml(f"words/run.{lang}.toml")}
        rows = []
        for label, count in result["labels"].items():
            mean = result["mean_scores"].get(label)
            shown = "" if mean is None else units.fixed(mean, 3)
            share = units.share(count, result["texts"])
            rows.append((printable(label), units.count(count), share, shown))
        names = ("class", "labelled_texts", "labelled_share", "mean_score")
        table = Table(tuple(texts[name] for name in names), tuple(rows), "<>>>")
        heading = texts["labelled"].format(texts=units.count(result["texts"]))
        label, score = result["added"]
        where = texts["labelled_in"].format(
            output=printable(result["output"]),
            rows=units.count(result["rows"]),
            label=label,
            score=score,
        )
        return Document((Title(heading, wraps=False), table, Notes((where,))), lang)
