"""What is covered: each family with a blueprint and how it is known, `weighbridge families`."""

from __future__ import annotations

import re
import tomllib
from typing import Any, NamedTuple

from weighbridge import data
from weighbridge.answers.answer import TabularAnswer
from weighbridge.answers.data_table import INTEGER, Column, DataTable
from weighbridge.blueprint.schema import families, known_families
from weighbridge.errors import UsageError
from weighbridge.render.document import Document, Notes
from weighbridge.render.table import Table

_CLASS = re.compile(r"^\[classes\.(\w+)\]$", re.MULTILINE)


class Covered(NamedTuple):
    """A family with its evidence: its source, the unseen configs that it held on, its holes."""

    family: str
    classes: tuple[str, ...]
    source: str
    by: str
    configs: int
    holes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON holds it."""
        return {**self._asdict(), "classes": list(self.classes), "holes": list(self.holes)}


def covered(family: str) -> Covered:
    """Return a family's evidence; of its file no more is read than says so.

    Example:
        >>> bert = covered("bert")
        >>> bert.classes[0], bert.configs > 16
        ('BertModel', True)
    """
    whole = data.read_text(f"blueprints/{family}.toml")
    head = tomllib.loads(whole[: whole.index("\n[defaults]")])
    proof = head["proof"]
    classes = (head["class"], *_CLASS.findall(whole))
    return Covered(
        family,
        classes,
        head["source"],
        proof["by"],
        proof["configs"],
        tuple(proof.get("holes", ())),
    )


def coverage(part: str = "") -> list[Covered]:
    """Return the families that have this in their name, all with none.

    Raises:
        UsageError: none has.
    """
    names = [name for name in families() if part.lower() in name]
    if not names:
        raise UsageError(
            "no family has that in its name", values={"part": part}, hint=known_families(part)
        )
    return [covered(name) for name in names]


_SUMMARY = (
    "{families} families, {classes} classes. Each blueprint was derived by running the reference "
    "code, and then gave every parameter's name, shape and tie of so many random configs that it "
    "was not learned from. A hole is a class that could not be built, code that no config reached, "
    "or a field that must have its default, as what it decides was not told: `weighbridge families "
    "NAME` lists them."
)


class Families(TabularAnswer):
    """The families that have this in their name: a line each, and all of one that is named whole.

    Raises:
        UsageError: none has.
    """

    groupings = ("family",)

    def __init__(self, part: str = "") -> None:
        self.part, self.families = part, coverage(part)

    def to_dict(self) -> list[dict[str, Any]]:
        """Return the families with their evidence, ready for JSON."""
        return [family.to_dict() for family in self.families]

    def _data_table(self, _: str) -> DataTable:
        """Return a row for each family."""
        return DataTable(_COLUMNS, [tuple(family.to_dict().values()) for family in self.families])

    def document(self, lang: str = "en") -> Document:
        """Return the families; what is said of them is in English."""
        alone = [family for family in self.families if family.family == self.part]
        if len(self.families) == 1:
            alone = self.families
        if alone:
            return Document((Notes(_sentences(alone[0])),), lang)
        rows, classes = [], 0
        for family in self.families:
            numbers = len(family.classes), family.configs, len(family.holes) or ""
            rows.append((family.family, *map(str, numbers)))
            classes += len(family.classes)
        table = Table(("family", "classes", "unseen configs", "holes"), tuple(rows), "<>>>")
        summary = _SUMMARY.format(families=len(self.families), classes=classes)
        return Document((table, Notes((summary,))), lang)


_COLUMNS = (
    Column("family"),
    Column("classes", joined_by=" "),
    Column("source"),
    Column("by"),
    Column("configs", INTEGER),
    Column("holes", joined_by="; "),
)
"""A column for each field of `Covered`."""


def _sentences(covered: Covered) -> tuple[str, ...]:
    holes = "Holes: none is known."
    if covered.holes:
        holes = f"Holes: {len(covered.holes)}."
    return (
        f"{covered.family}: {covered.source}",
        f"Derived by `{covered.by}`, and held on {covered.configs} unseen configs.",
        f"Classes: {', '.join(covered.classes)}.",
        holes,
        *(f"- {hole}" for hole in covered.holes),
    )
