"""The counting conventions, each with an example and its source: `weighbridge conventions`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weighbridge import data, units
from weighbridge.answers.answer import Answer
from weighbridge.counting.conventions import table
from weighbridge.render.document import Document, Notes, Together
from weighbridge.render.words import words

if TYPE_CHECKING:
    from collections.abc import Mapping

    from weighbridge.render.document import Block


class Conventions(Answer):
    """The counting conventions that `reconcile` tries.

    Example:
        >>> print(Conventions().text().splitlines()[2])
        pooler  leaves out
    """

    keys_are_data = True

    def to_dict(self) -> dict[str, Any]:
        """Return the facts of each convention by its name, ready for JSON."""
        return dict(table())

    def document(self, lang: str = "en") -> Document:
        """Return each convention: its meaning, an example and its source."""
        texts = {**words(lang), **data.read_toml(f"words/reconcile.{lang}.toml")}
        entries: list[Block] = []
        for name, entry in table().items():
            kind = texts[f"kind_{entry['kind']}"]
            entries.append(Notes((f"{name}  {kind}",)))
            entries.append(Notes(_sentences(entry, lang, texts), level=1))
        return Document((Notes((texts["rules"],)), Together(tuple(entries))), lang)


_FILLED_IN = ("tensors", "multiple", "padded", "rank", "targets")
"""The braces of a sentence whose values depend on the model."""


def _sentences(entry: Mapping[str, Any], lang: str, texts: Mapping[str, str]) -> tuple[str, ...]:
    says = entry["says"][lang].format(**dict.fromkeys(_FILLED_IN, texts["any"]))
    if isinstance(entry["example"], dict):
        example = entry["example"][lang]
    else:
        model, class_name, number = entry["example"]
        names = {"model": model, "class": class_name, "number": units.count(number)}
        example = texts["example_of"].format(**names)
    return (
        says,
        texts["example"].format(example=example),
        texts["source"].format(source=entry["source"][lang]),
    )
