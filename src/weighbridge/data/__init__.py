"""The package's own data, and its loaders: blueprints, operations, facts and words.

TOML is the only source. A wheel also holds each table compiled, in ``compiled/``, because parsing
TOML takes longer than weighing a model. A checkout has no such folder and parses the TOML.
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
PREPARED = "prepared"  # a folder inside: results computed from the data

LANGUAGES = ("en", "zh")
"""The languages of `words/`; the first one is the default."""


@cache
def is_compiled() -> bool:
    """Whether this is a wheel's copy of the data, which holds every table compiled."""
    return os.path.isdir(_place(COMPILED))


@cache
def read_text(path: str) -> str:
    """Return the text of a data file; ``path`` is relative to this folder, with ``/``."""
    with open(_place(path), encoding="utf-8") as file:
        return file.read()


@cache
def read_toml(path: str) -> dict[str, Any]:
    """Return a TOML data file as nested dicts, in file order. They are shared: do not change them.

    Example:
        >>> read_toml("facts/fields.toml")["any"]["problem_type"]
        'chooses the loss'
    """
    if is_compiled():
        table: dict[str, Any] = loaded(f"{COMPILED}/{path}")
        return table
    import tomllib  # noqa: PLC0415  # a wheel does not need it

    return tomllib.loads(read_text(path))


def read_prepared(name: str, start: int = 0, length: int = -1) -> Any:
    """Return a result that a wheel holds precomputed from its data; None in a checkout.

    The names are ``FAMILY.trees``, for the parsed expressions of a blueprint; ``roles``, for the
    patterns of tensor names; and those of the catalogue's files. ``start`` and ``length`` select a
    part of a file, in bytes.
    """
    if is_compiled():
        return loaded(f"{COMPILED}/{PREPARED}/{name}", start, length)
    return None


def has(folder: str, file: str) -> bool:
    """Whether a data folder directly holds a file with this name."""
    return os.path.basename(file) == file and os.path.isfile(_place(f"{folder}/{file}"))


@cache
def names(folder: str, suffix: str) -> tuple[str, ...]:
    """Return the sorted names of the files in a data folder, without their suffix."""
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
    """Return a table in the format of a wheel, Python's own `marshal`.

    Every Python since 3.4 reads this version of the format.
    """
    import marshal  # noqa: PLC0415  # only needed to build a wheel

    return marshal.dumps(table, _MARSHAL)


def loaded(path: str, start: int = 0, length: int = -1) -> Any:
    """Return one of the package's own compiled tables: all of a file, or a part of it."""
    import marshal  # noqa: PLC0415  # built in

    with open(_place(path), "rb") as file:
        file.seek(start)
        return marshal.loads(file.read(length))  # noqa: S302  # our own file


_MARSHAL = 4  # the version of the format, readable since Python 3.4
