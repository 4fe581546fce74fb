"""Prints the rooms of the package for the docs: the order that import-linter holds, and what each room says of itself.

The order is written once, in ``pyproject.toml``; a room's purpose is the first line of its docstring.
"""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "weighbridge"


def layers() -> list[list[str]]:
    """Return the rooms from the top down; rooms of one layer do not import each other."""
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
    """Return the rooms as a Markdown table, a line for each, the rooms of one layer together."""
    lines = ["| room | holds |", "| :-- | :-- |"]
    for layer in layers():
        for room in layer:
            shown = f"{room}/" if (PACKAGE / room).is_dir() else f"{room}.py"
            beside = [other for other in layer if other != room]
            independent = f" (beside {', '.join(f'`{other}`' for other in beside)})" if beside else ""
            lines.append(f"| `{shown}`{independent} | {purpose(room)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
