"""Writes the tables of docs/reference/modules.md: which Python `weighbridge derive` understands.

The lines are those of `modules.toml` beside it, each with a class that a test derives.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

MODULES = Path(__file__).resolve().parent.parent / "docs" / "reference" / "modules.toml"


def lines(kind: str) -> list[dict[str, Any]]:
    """Return the lines of a kind, ``understood``, ``kept`` or ``refused``, in the page's order."""
    return list(tomllib.loads(MODULES.read_text(encoding="utf-8"))[kind])


def table(kind: str) -> str:
    """Return the lines of a kind as a Markdown table."""
    columns = ["What", "For example"]
    if kind != "understood":
        columns.append("What you can do")
    rows = [columns, ["---"] * len(columns)]
    for line in lines(kind):
        cells = [line["says"], f"`{line['example']}`", line.get("instead", "")]
        rows.append([cell.replace("|", r"\|") for cell in cells[: len(columns)]])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
