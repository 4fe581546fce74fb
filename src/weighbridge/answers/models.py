"""The models that weighbridge knows by name: `weighbridge models`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weighbridge.answers.answer import TabularAnswer
from weighbridge.answers.data_table import INTEGER, Column, DataTable
from weighbridge.errors import UsageError
from weighbridge.models.catalogue import released
from weighbridge.render.document import Document
from weighbridge.render.table import Table
from weighbridge.render.words import words
from weighbridge.units import count

if TYPE_CHECKING:
    from collections.abc import Mapping


class ReleasedModels(TabularAnswer):
    """The released models whose name contains this text.

    Raises:
        UsageError: there is no such model.

    Example:
        >>> print(ReleasedModels("bert-base-chinese"))
        model                           parameters
        google-bert/bert-base-chinese  102,267,648
    """

    keys_are_data = True

    groupings = ("model",)

    def __init__(self, part: str = "") -> None:
        self.models: dict[str, Mapping[str, Any]] = {}
        for name, entry in released().items():
            if part.lower() in name.lower():
                self.models[name] = entry
        if not self.models:
            raise UsageError(
                "no model has this in its name",
                values={"part": part},
                hint="leave it out to list all models",
            )

    def to_dict(self) -> dict[str, Any]:
        """Return the config, the parameters and the source of each, ready for JSON."""
        return dict(self.models)

    def _data_table(self, by: str) -> DataTable:
        """Return a row for each model."""
        rows = []
        for name, entry in self.models.items():
            rows.append((name, entry["parameters"], entry["source"]))
        return DataTable((Column(by), Column("parameters", INTEGER), Column("source")), rows)

    def document(self, lang: str = "en") -> Document:
        """Return the models in a table; models with experts have active parameters too."""
        texts, figures = words(lang), ["parameters"]
        if any("active" in entry for entry in self.models.values()):
            figures.append("active")
        rows = []
        for name, entry in self.models.items():
            counts = [count(entry[figure]) if figure in entry else "" for figure in figures]
            rows.append((name, *counts))
        header = (texts["model"], *(texts[figure] for figure in figures))
        return Document((Table(header, tuple(rows), "<>>"[: len(header)]),), lang)
