"""The supported families with their evidence: `weighbridge families`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge import data
from weighbridge.answers.answer import TabularAnswer
from weighbridge.answers.data_table import INTEGER, Column, DataTable
from weighbridge.blueprint.evidence import evidence
from weighbridge.blueprint.schema import families, known_families
from weighbridge.errors import UsageError
from weighbridge.render.document import Document, Notes
from weighbridge.render.messages import in_language
from weighbridge.render.table import Table
from weighbridge.render.words import words

if TYPE_CHECKING:
    from collections.abc import Iterator


class Covered(NamedTuple):
    """A family with its evidence: its source, its proof on unseen configs, its holes."""

    family: str
    classes: tuple[str, ...]
    source: str
    by: str
    configs: int
    holes: tuple[str, ...]

    @classmethod
    def of(cls, family: str) -> Covered:
        """Return the evidence of a family that has a blueprint.

        Example:
            >>> bert = Covered.of("bert")
            >>> bert.classes[0], bert.configs > 16
            ('BertModel', True)
        """
        found = evidence()[family]
        return cls(
            family,
            tuple(found["classes"]),
            found["source"],
            found["by"],
            found["configs"],
            tuple(found["holes"]),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the evidence, ready for JSON."""
        return {**self._asdict(), "classes": list(self.classes), "holes": list(self.holes)}


def coverage(part: str = "") -> list[Covered]:
    """Return the families whose name contains this text.

    Raises:
        UsageError: there is no such family.
    """
    names = [name for name in families() if part.lower() in name]
    if not names:
        raise UsageError(
            "no family has this in its name", values={"part": part}, hint=known_families(part)
        )
    return [Covered.of(name) for name in names]


class Families(TabularAnswer):
    """The families whose name contains this text, or one family with its classes and holes.

    Raises:
        UsageError: there is no such family.
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
        """Return the families in a table; for a full name, its classes and holes too."""
        texts = _words(lang)
        alone = [family for family in self.families if family.family == self.part]
        if len(self.families) == 1:
            alone = self.families
        if alone:
            return Document((Notes(tuple(_sentences(alone[0], lang))),), lang)
        rows, classes = [], 0
        for family in self.families:
            numbers = len(family.classes), family.configs, len(family.holes) or ""
            rows.append((family.family, *map(str, numbers)))
            classes += len(family.classes)
        header = (texts["family"], texts["classes"], texts["configs"], texts["holes"])
        summary = texts["summary"].format(families=len(self.families), classes=classes)
        table = Table(header, tuple(rows), "<>>>")
        notes = [summary]
        if not self.part:
            notes += _uncovered(lang)
        return Document((table, Notes(tuple(notes))), lang)


_COLUMNS = (
    Column("family"),
    Column("classes", joined_by=" "),
    Column("source"),
    Column("by"),
    Column("configs", INTEGER),
    Column("holes", joined_by="; "),
)
"""A column for each field of `Covered`."""


def _sentences(covered: Covered, lang: str) -> Iterator[str]:
    """Yield the evidence for a family, and its holes."""
    texts = _words(lang)
    yield texts["source"].format(family=covered.family, source=covered.source)
    yield texts["derived"].format(by=covered.by, configs=covered.configs)
    yield texts["class_names"].format(names=texts["comma"].join(covered.classes))
    if not covered.holes:
        yield texts["no_holes"]
        return
    yield texts["some_holes"].format(count=len(covered.holes))
    for hole in covered.holes:
        yield texts["hole"].format(hole=in_language(hole, lang))


def _uncovered(lang: str) -> Iterator[str]:
    """Yield the model types of transformers without a blueprint, by the reason."""
    texts = _words(lang)
    for reason, model_types in data.read_toml("facts/uncovered.toml").items():
        names = texts["comma"].join(model_types)
        yield texts["uncovered"].format(reason=in_language(reason, lang), families=names)


def _words(lang: str) -> dict[str, str]:
    return {**words(lang), **data.read_toml(f"words/families.{lang}.toml")}
