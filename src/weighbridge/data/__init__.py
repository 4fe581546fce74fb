"""Reads the package's own data files: blueprints, facts, words. Each is read once a process."""

from __future__ import annotations

import os
import tomllib
from functools import cache
from typing import Any

ROOT = os.path.dirname(os.path.abspath(__file__))

LANGUAGES = ("en", "zh")
"""The languages that `words/` is written in, the first where none is asked for."""


@cache
def read_text(path: str) -> str:
    """Return a data file's text; ``path`` is relative to this folder, with ``/`` between its parts."""
    with open(os.path.join(ROOT, *path.split("/")), encoding="utf-8") as file:
        return file.read()


@cache
def read_toml(path: str) -> dict[str, Any]:
    """Return a TOML data file as nested dicts, in the file's order. Shared: do not change it.

    Example:
        >>> read_toml("facts/fields.toml")["any"]["problem_type"]
        'chooses the loss'
    """
    return tomllib.loads(read_text(path))


@cache
def names(folder: str, suffix: str) -> tuple[str, ...]:
    """Return the names, without suffix and sorted, of the files of a data folder."""
    found = os.listdir(os.path.join(ROOT, *folder.split("/")))
    return tuple(sorted(name.removesuffix(suffix) for name in found if name.endswith(suffix)))
