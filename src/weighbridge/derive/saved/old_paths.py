"""The paths in older files, with their current names."""

from __future__ import annotations

import re
from itertools import takewhile
from typing import TYPE_CHECKING

from weighbridge.blueprint.paths import above, is_under, joined_path

if TYPE_CHECKING:
    from collections.abc import Mapping

DIGITS = re.compile(r"\d+")


def old_paths(older: Mapping[str, str]) -> dict[str, str]:
    """Return the common paths of these old names, with their current names.

    Example:
        >>> old_paths({"tower.old.norm.bias": "tower.norm.bias", "tower.old.embed": "tower.embed"})
        {'tower.old': 'tower'}
    """
    names = dict({DIGITS.sub("0", old): (old, name) for old, name in older.items()}.values())
    paths: dict[str, str] = {}
    for old in names:
        path, new_path = _shortest_renamed(old, names)
        pieces_under = [other.split(".")[:-1] for other in names if is_under(other, path)]
        columns = zip(*pieces_under, strict=False)
        shared = takewhile(lambda pieces: len(set(pieces)) == 1, columns)
        deeper = ".".join(pieces[0] for pieces in shared)[len(path) + 1 :]
        paths[joined_path(path, deeper)] = joined_path(new_path, deeper)
    return paths


def _shortest_renamed(old: str, names: Mapping[str, str]) -> tuple[str, str]:
    """Return the shortest path above a name that has a single new name, with that name."""
    for path in above(old):
        new_path = _new_path(path, names)
        if new_path is not None:
            return path, new_path
    return old, names[old]


def _new_path(path: str, names: Mapping[str, str]) -> str | None:
    """Return the new name of an old path, if it is the same for all names under the path."""
    new_paths: set[str] = set()
    for old, name in names.items():
        if is_under(old, path):
            below = old[len(path) :]
            if not f".{name}".endswith(below):
                return None
            new_paths.add(f".{name}".removesuffix(below)[1:])
    if len(new_paths) != 1:
        return None
    return new_paths.pop()
