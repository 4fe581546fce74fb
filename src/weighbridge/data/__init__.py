"""The package's own data, and its loaders: blueprints, operations, facts and words.

TOML is the only source. A wheel also holds each table compiled, in ``compiled/``, because parsing
TOML takes longer than weighing a model. A checkout has no such folder and parses the TOML.

The package may be inside a zip file, as on Spark's workers. Its files are then read by the loader
of the package, and its folders listed by `importlib.resources`, which takes longer to import than
weighing a model. Files in a folder are opened directly.

The site's archive holds the tables of families in compressed blocks, one after another by name. A
block is unpacked when one of its tables is read, because all of them take 12 MB.
"""

from __future__ import annotations

import os
from functools import cache, lru_cache

from weighbridge.lean_typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable
    from typing import Any

ROOT = os.path.dirname(os.path.abspath(__file__))
COMPILED = "compiled"
PREPARED = "prepared"  # a folder inside: results computed from the data
BLOCKS = "blocks"  # a folder inside, in an archive: compressed tables of families

LANGUAGES = ("en", "zh")
"""The languages of `words/`; the first one is the default."""


@cache
def is_compiled() -> bool:
    """Whether this is a wheel's copy of the data, which holds every table compiled."""
    if _is_in_folder():
        return os.path.isdir(_place(COMPILED))
    return bool(_resource(COMPILED).is_dir())


@cache
def read_text(path: str) -> str:
    """Return the text of a data file; ``path`` is relative to this folder, with ``/``."""
    if not _is_in_folder():
        return _loaded_bytes(path).decode()
    with open(_place(path), encoding="utf-8") as file:
        return file.read()


def read_bytes(path: str) -> bytes:
    """Return the bytes of a data file."""
    if not _is_in_folder():
        return _loaded_bytes(path)
    with open(_place(path), "rb") as file:
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

    The names are ``FAMILY.trees``, for the parsed expressions of a blueprint; ``evidence``, for
    what is known of each; ``roles``, for the patterns of tensor names; and those of the catalogue's
    files. ``start`` and ``length`` select a part of a file, in bytes.
    """
    if is_compiled():
        return loaded(f"{COMPILED}/{PREPARED}/{name}", start, length)
    return None


@lru_cache(maxsize=1024)  # of names that people give
def has(folder: str, file: str) -> bool:
    """Whether a data folder directly holds a file with this name."""
    if os.path.basename(file) != file:
        return False
    if not _is_in_folder():
        return bool(_resource(f"{folder}/{file}").is_file())
    return os.path.isfile(_place(f"{folder}/{file}"))


@cache
def names(folder: str, suffix: str) -> tuple[str, ...]:
    """Return the sorted names of the files in a data folder, without their suffix."""
    if _is_in_folder():
        files = os.listdir(_place(folder))
    else:
        files = [file.name for file in _resource(folder).iterdir()]
    return tuple(sorted(file.removesuffix(suffix) for file in files if file.endswith(suffix)))


@cache
def _is_in_folder() -> bool:
    """Whether the data lies in a folder, not inside a zip file."""
    return os.path.isdir(ROOT)


def _place(path: str) -> str:
    return os.path.join(ROOT, *path.split("/"))


def table_family(path: str) -> str:
    """Return the family of a compiled table that an archive may hold in a block; "" for others.

    Example:
        >>> table_family("compiled/operations/bert.ours.toml")
        'bert'
        >>> table_family("compiled/facts/roles.toml")
        ''
    """
    top, _, inside = path.partition("/")
    kind, _, name = inside.partition("/")
    is_of_family = kind in _OF_FAMILIES or name.endswith(".trees")
    return name.split(".")[0] if top == COMPILED and is_of_family else ""


_OF_FAMILIES = ("blueprints", "flows", "operations")


def _loaded_bytes(path: str) -> bytes:
    """Return the content of a data file that is not in a folder."""
    family = table_family(path)
    if family and _first_families():
        from bisect import bisect  # noqa: PLC0415  # only needed inside a site's archive

        return _block(bisect(_first_families(), family) - 1)[path]
    return _archived(path)


@cache
def _first_families() -> tuple[str, ...]:
    """Return the first family of each block; () in an archive without blocks."""
    import marshal  # noqa: PLC0415  # built in

    try:
        packed = _archived(f"{COMPILED}/{BLOCKS}/first")
    except OSError:
        return ()
    first: tuple[str, ...] = marshal.loads(packed)  # noqa: S302  # our own file
    return first


@lru_cache(maxsize=2)
def _block(number: int) -> dict[str, bytes]:
    """Return the tables of one block by their paths."""
    import lzma  # noqa: PLC0415  # only needed inside a site's archive
    import marshal  # noqa: PLC0415  # built in

    packed = _archived(f"{COMPILED}/{BLOCKS}/{number}.xz")
    tables: dict[str, bytes] = marshal.loads(lzma.decompress(packed))  # noqa: S302  # our own file
    return tables


def _archived(path: str) -> bytes:
    """Return the content of a file of the zip file that the package is in.

    The loader knows its zip file by the path in `sys.path`, as it stands there: Spark's workers
    have one with a dot in it.
    """
    place = os.path.join(os.path.dirname(__file__), *path.split("/"))
    return __spec__.loader.get_data(place)  # type: ignore[union-attr,no-any-return]


def _resource(path: str) -> Traversable:
    """Return a data file or folder wherever the package is."""
    from importlib.resources import files  # noqa: PLC0415  # only needed inside a zip file

    return files(__name__).joinpath(*path.split("/"))


def toml_paths() -> Iterator[str]:
    """Yield the path of every TOML data file; they must lie in a folder."""
    for folder, _, files in os.walk(ROOT):
        inside = os.path.relpath(folder, ROOT).replace(os.sep, "/")
        if not inside.startswith(COMPILED):
            yield from (f"{inside}/{file}" for file in sorted(files) if file.endswith(".toml"))


def marshalled(table: Any) -> bytes:
    """Return a table in the format of a wheel, Python's own `marshal`.

    Every Python since 3.4 reads this version of the format. It writes an object that is used again
    as a reference, so what it writes depends on what else the process holds. A table that has been
    read back shares nothing with the process but names, and is also smaller.
    """
    import marshal  # noqa: PLC0415  # only needed to build a wheel

    once = marshal.loads(marshal.dumps(table, _MARSHAL))  # noqa: S302  # what was just written
    return marshal.dumps(once, _MARSHAL)


def loaded(path: str, start: int = 0, length: int = -1) -> Any:
    """Return one of the package's own compiled tables: all of a file, or a part of it."""
    import marshal  # noqa: PLC0415  # built in

    if _is_in_folder():
        with open(_place(path), "rb") as file:
            file.seek(start)
            raw = file.read(length)
    else:
        content = _loaded_bytes(path)
        raw = content[start:] if length < 0 else content[start : start + length]
    return marshal.loads(raw)  # noqa: S302  # our own file


_MARSHAL = 4  # the version of the format, readable since Python 3.4
