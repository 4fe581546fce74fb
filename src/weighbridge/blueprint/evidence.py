"""The evidence for each family's blueprint: what it was derived from, its proof, its classes."""

from __future__ import annotations

import re
from functools import cache

from weighbridge import data
from weighbridge.blueprint.schema import families
from weighbridge.lean_typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

_CLASS = re.compile(r"^\[classes\.(\w+)\]$", re.MULTILINE)


@cache
def evidence() -> dict[str, dict[str, Any]]:
    """Return each family's classes, source, proof on unseen configs and holes, sorted by family.

    They are shared: do not change them.

    Example:
        >>> bert = evidence()["bert"]
        >>> bert["classes"][0], bert["configs"] > 16
        ('BertModel', True)
    """
    return data.read_prepared("evidence") or read_evidence()


def read_evidence() -> dict[str, dict[str, Any]]:
    """Return the evidence from the blueprints' files, of which only the heads are parsed."""
    return {family: _of(data.read_text(f"blueprints/{family}.toml")) for family in families()}


def _of(text: str) -> dict[str, Any]:
    import tomllib  # noqa: PLC0415  # a wheel does not need it

    head = tomllib.loads(text[: text.index("\n[defaults]")])
    proof = head["proof"]
    return {
        "classes": [head["class"], *_CLASS.findall(text)],
        "source": head["source"],
        "by": proof["by"],
        "configs": proof["configs"],
        "holes": proof.get("holes", []),
    }
