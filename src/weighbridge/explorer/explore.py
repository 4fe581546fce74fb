"""The answer `explore`: a page in which a model can be seen and its sizes turned."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path

from weighbridge.answers.answer import Answer
from weighbridge.answers.weigh import weigh
from weighbridge.errors import ModelError, UsageError
from weighbridge.explorer.contract import contract
from weighbridge.explorer.page import page
from weighbridge.files import write_whole
from weighbridge.lean_typing import TYPE_CHECKING
from weighbridge.render.document import Document, Lines

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from weighbridge.answers.weigh import Weighing
    from weighbridge.models.find import Described


def explore(
    model: Described,
    other: Described | None = None,
    *,
    class_name: str | None = None,
    fields: Mapping[str, Any] | None = None,
    dtype: str | None = None,
    strict: bool = False,
) -> ExplorerPage:
    """Make a page in which a model can be seen, and its sizes turned; two are shown side by side.

    Args:
        model: as for `weigh`.
        other: a second model.
        class_name: as for `weigh`, for ``model``.
        fields: config fields to replace in ``model``.
        dtype: as for `weigh`.
        strict: as for `weigh`.

    Raises:
        ModelError: there is no such model, or it is a module without a blueprint.
        ConfigError: the config cannot be read, or describes no buildable model.

    Example:
        >>> made = explore("bert-base-chinese")
        >>> made.to_dict()["contracts"][0]["held"]["parameters"]
        '102267648'
        >>> made.html_page().startswith("<!DOCTYPE html>")
        True
    """
    weighings = [weigh(model, class_name, fields=fields, dtype=dtype, strict=strict)]
    if other is not None:
        weighings.append(weigh(other, dtype=dtype, strict=strict))
    for weighing in weighings:
        if weighing.model.origin == "module":
            raise ModelError(
                "a module without a blueprint has no sizes to turn",
                where=weighing.model.where,
                hint="`weighbridge weigh` lists its tensors",
            )
    return ExplorerPage(weighings)


class ExplorerPage(Answer):
    """What `explore` returns: `html_page` is the page, and `to_dict` what it holds."""

    def __init__(self, weighings: list[Weighing]) -> None:
        self.weighings = weighings
        self.path = ""

    @property
    def notes(self) -> list[str]:
        """Notes on how the configs were read."""
        return [note for weighing in self.weighings for note in weighing.notes]

    @cached_property
    def contracts(self) -> list[dict[str, Any]]:
        """What the page holds of each model."""
        return [contract(weighing) for weighing in self.weighings]

    def to_dict(self) -> dict[str, Any]:
        """Return the contracts."""
        return {"contracts": self.contracts}

    def html_page(self, lang: str | None = None) -> str:
        """Return the page; it needs no network and no server."""
        return page(self.weighings, self.contracts, self.lang if lang is None else lang)

    def save(self, path: str | os.PathLike[str], lang: str | None = None) -> Path:
        """Write the page to a file and return its path.

        Raises:
            UsageError: the file's name does not end in .html, or it cannot be written.
        """
        if not os.fspath(path).endswith((".html", ".htm")):
            raise UsageError(
                "the page is HTML",
                values={"output": os.fspath(path)},
                hint="give a file that ends in .html",
            )
        target = Path(path)
        write_whole(target, self.html_page(lang))
        return target

    def document(self, lang: str = "en") -> Document:
        """Return the path of the page that was written; ``lang`` has no effect."""
        return Document((Lines(self.path),), lang)
