"""The package's own data: blueprints, operations, facts and words, and what loads them.

TOML is the only source. A wheel also holds each table compiled, in ``compiled/``, because reading
TOML takes longer than weighing a model; a checkout has no such folder and reads the TOML.
"""

from __future__ import annotations

import os
from functools import cache

from weighbridge.lean_typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

ROOT = os.path.dirname(os.path.abspath(__file__))
COMPILED = "compiled"
PREPARED = "prepared"  # in there: what was worked out of the data as well

LANGUAGES = ("en", "zh")
"""The languages that `words/` is written in, the first where none is asked for."""


@cache
def is_compiled() -> bool:
    """Whether this is a wheel's copy of the data, which holds every table compiled."""
    return os.path.isdir(_place(COMPILED))


@cache
def read_text(path: str) -> str:
    """Return a data file's text; ``path`` is relative to this folder, its parts joined by ``/``."""
    with open(_place(path), encoding="utf-8") as file:
        return file.read()


@cache
def read_toml(path: str) -> dict[str, Any]:
    """Return a TOML data file as nested dicts, in the file's order. Shared: do not change it.

    Example:
        >>> read_toml("facts/fields.toml")["any"]["problem_type"]
        'chooses the loss'
    """
    if is_compiled():
        table: dict[str, Any] = loaded(f"{COMPILED}/{path}")
        return table
    import tomllib  # noqa: PLC0415  # a wheel does without

    return tomllib.loads(read_text(path))


def read_prepared(name: str, start: int = 0, length: int = -1) -> Any:
    """Return what a wheel holds worked out of its data, or nothing in a checkout.

    There are ``FAMILY.trees``, the parsed expressions of a blueprint; ``roles``, the patterns of
    tensor names; and the files of the catalogue. ``start`` and ``length`` are of a part of a file,
    in bytes.
    """
    if is_compiled():
        return loaded(f"{COMPILED}/{PREPARED}/{name}", start, length)
    return None


def has(folder: str, file: str) -> bool:
    """Whether a data folder holds a file of this name, itself and not somewhere else."""
    return os.path.basename(file) == file and os.path.isfile(_place(f"{folder}/{file}"))


@cache
def names(folder: str, suffix: str) -> tuple[str, ...]:
    """Return the names, without suffix and sorted, of the files of a data folder."""
    files = os.listdir(_place(folder))
    return tuple(sorted(file.removesuffix(suffix) for file in files if file.endswith(suffix)))


def _place(path: str) -> str:
    return os.path.join(ROOT, *path.split("/"))


def toml_paths() -> Iterator[str]:
    """Yield the path of every TOML data file."""
    for folder, _, files in os.walk(ROOT):
        inside = os.path.relpath(folder, ROOT).replace(os.sep, "/")
        if not inside.startswith(COMPILED):
            yield from (f"{inside}/{file}" for file in sorted(files) if file.endswith(".toml"))


def marshalled(table: Any) -> bytes:
    """Return a table as a wheel holds it, in Python's own `marshal`.

    The version of the format is one that every Python since 3.4 reads.
    """
    import marshal  # noqa: PLC0415  # only as a wheel is built

    return marshal.dumps(table, _MARSHAL)


def loaded(path: str, start: int = 0, length: int = -1) -> Any:
    """Return a compiled table of the package's own, or the one in a part of a file."""
    import marshal  # noqa: PLC0415  # built in

    with open(_place(path), "rb") as file:
        file.seek(start)
        return marshal.loads(file.read(length))  # noqa: S302  # nobody else's file


_MARSHAL = 4  # the version of the format: since Python 3.4
