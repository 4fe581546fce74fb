"""Prints the rooms of the package for the docs: the order of imports, and the purpose of each.

The order comes from ``pyproject.toml``, where import-linter reads it too; a room's purpose is the
first line of its docstring.
"""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "weighbridge"


def layers() -> list[list[str]]:
    """Return the rooms from the top down; rooms in one layer do not import each other."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    (layered,) = (contract for contract in contracts if contract["type"] == "layers")
    return [layer.split(" | ") for layer in layered["layers"]]


def purpose(room: str) -> str:
    """Return the first line of a room's docstring, without the full stop."""
    module = PACKAGE / room / "__init__.py"
    if not module.exists():
        module = PACKAGE / f"{room}.py"
    docstring = ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or ""
    return docstring.partition("\n")[0].removesuffix(".")


def table() -> str:
    """Return the rooms as a Markdown table, the lowest layer first."""
    lines = ["| layer | room | holds |", "| --: | :-- | :-- |"]
    for number, layer in enumerate(reversed(layers())):
        for room in layer:
            shown = f"{room}/" if (PACKAGE / room).is_dir() else f"{room}.py"
            lines.append(f"| {number} | `{shown}` | {purpose(room)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
