"""The package's own data: blueprints, operations, facts and words, and what loads them.

TOML is the only source. A wheel also holds each table compiled, in ``compiled/``, because reading
TOML takes longer than weighing a model; a checkout has no such folder and reads the TOML.
"""

from __future__ import annotations

import os
from functools import cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

ROOT = os.path.dirname(os.path.abspath(__file__))
COMPILED = "compiled"

LANGUAGES = ("en", "zh")
"""The languages that `words/` is written in, the first where none is asked for."""


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
    try:
        with open(_place(f"{COMPILED}/{path}"), "rb") as file:
            return loaded(file.read())
    except FileNotFoundError:
        import tomllib  # noqa: PLC0415  # a wheel does without

        return tomllib.loads(read_text(path))


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
        yield from (f"{inside}/{file}" for file in sorted(files) if file.endswith(".toml"))


def compiled(path: str) -> bytes:
    """Return the tables of a TOML data file, compiled as a wheel holds them.

    The format is Python's own `marshal`, in a version that every Python since 3.4 reads.
    """
    import marshal  # noqa: PLC0415  # only as a wheel is built

    return marshal.dumps(read_toml(path), _MARSHAL)


def loaded(content: bytes) -> dict[str, Any]:
    """Return the tables that were compiled to these bytes, which the package itself holds."""
    import marshal  # noqa: PLC0415  # built in

    tables: dict[str, Any] = marshal.loads(content)  # noqa: S302  # no file of anybody else
    return tables


_MARSHAL = 4  # the version of the format: since Python 3.4
