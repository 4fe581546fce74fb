"""What is covered: each family with a blueprint and how it is known, `weighbridge families`."""

from __future__ import annotations

import re
import tomllib
from typing import Any, NamedTuple

from weighbridge import data
from weighbridge.blueprint.schema import families, known_families
from weighbridge.errors import UsageError
from weighbridge.render.table import Table, text, wrap

_CLASS = re.compile(r"^\[classes\.(\w+)\]$", re.MULTILINE)


class Covered(NamedTuple):
    """A family with its evidence: what it was derived from, on how many unseen configs it held, its holes."""

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


def listed(part: str = "") -> list[Covered]:
    """Return the families that have this in their name, all with none.

    Raises:
        UsageError: none has.
    """
    found = [family for family in families() if part.lower() in family]
    if not found:
        raise UsageError(
            "no family has that in its name", values={"part": part}, hint=known_families(part)
        )
    return [covered(family) for family in found]


def report(part: str = "") -> str:
    """Return the families as text: a line each, and all of one that is named whole."""
    found = listed(part)
    exact = [one for one in found if one.family == part]
    if exact or len(found) == 1:
        return _told((exact or found)[0])
    rows = tuple(
        (one.family, str(len(one.classes)), str(one.configs), str(len(one.holes) or ""))
        for one in found
    )
    table = text(Table(("family", "classes", "unseen configs", "holes"), rows, "<>>>"))
    return f"{table}\n\n{wrap(_SUMMARY.format(families=len(found), classes=sum(len(one.classes) for one in found)))}"


_SUMMARY = (
    "{families} families, {classes} classes. Each blueprint was derived by running the reference code, and then gave "
    "every parameter's name, shape and tie of so many random configs that it was not learned from. A hole is a class "
    "that could not be built, code that no config reached, or a field that must have its default, as what it decides "
    "was not told: `weighbridge families NAME` lists them."
)


def _told(one: Covered) -> str:
    lines = [
        f"{one.family}: {one.source}",
        f"Derived by `{one.by}`, and held on {one.configs} unseen configs.",
        f"Classes: {', '.join(one.classes)}.",
    ]
    lines += [f"Holes: {len(one.holes)}." if one.holes else "Holes: none is known."]
    return "\n".join(wrap(line) for line in [*lines, *[f"- {hole}" for hole in one.holes]])
