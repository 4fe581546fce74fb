"""The paths of a class's modules, with the blueprint's letters for indices."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weighbridge.blueprint.schema import Blueprint


class ModulePaths:
    """The paths of the modules of one class."""

    def __init__(self, blueprint: Blueprint, class_name: str) -> None:
        self._known: set[str] = set()
        for path in blueprint.modules(class_name):
            pieces = path.split(".")
            for depth in range(1, len(pieces) + 1):
                self._known.add(".".join(pieces[:depth]))

    def template(self, path: str) -> tuple[str, tuple[int, ...]]:
        """Return a path with letters for indices, and the indices."""
        template, indices = "", list[int]()
        for piece in path.split("."):
            with_piece = f"{template}.{piece}".strip(".")
            item = self._item_of(template) if piece.isdecimal() else None
            if item is not None and with_piece not in self._known:
                indices.append(int(piece))
                template = item
            else:
                template = with_piece
        return template, tuple(indices)

    def _item_of(self, path: str) -> str | None:
        """Return the path of the modules in a list, with the letter of their index."""
        for known in self._known:
            place, _, last = known.rpartition(".")
            if place == path and re.fullmatch(r"\{\w+\}", last):
                return known
        return None
