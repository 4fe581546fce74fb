"""The columns of a scan: of the checkpoints, of their layouts, and of what is listed to be read.

``SCHEMA`` is the number of this version. A row of another version is read again.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from weighbridge.errors import UsageError

SCHEMA = 1

_TEXT, _INTEGER, _NUMBER, _TRUTH = "string", "int64", "float64", "bool"
_TEXTS, _BYTES_BY_KEY, _WEIGHTS, _TIME = "texts", "bytes_by_key", "weights", "time"

CHECKPOINTS = {
    # Where it is
    "path": _TEXT,
    "folder": _TEXT,
    "listed_as": _TEXT,  # the path of the files that were listed together
    "kind": _TEXT,  # file, index, split, partial, parallel, adapter or state
    "format": _TEXT,
    "files": _INTEGER,
    "file_bytes": _INTEGER,
    "allocated_bytes": _INTEGER,  # on this disk, without holes
    "inode": _BYTES_BY_KEY,  # each file on this disk, and its allocated bytes
    "stamp": _TEXT,  # a digest of the names, sizes and times of the files and their configs
    "mtime": _TIME,
    # What came of reading it
    "status": _TEXT,  # ok, refused, unread or crashed
    "rule": _TEXT,
    "message": _TEXT,
    # What it holds
    "tensors": _INTEGER,
    "parameters": _INTEGER,  # null where the headers do not determine them
    "elements": _INTEGER,
    "bytes": _INTEGER,
    "header_bytes": _INTEGER,
    "dtypes": _WEIGHTS,
    "packing": _TEXT,
    "bits_per_weight": _NUMBER,
    "layout": _TEXT,  # a digest of names and shapes
    "signature": _TEXT,  # a digest of names, shapes and dtypes
    "duplicates": _INTEGER,
    "absent": _INTEGER,
    "unlisted": _INTEGER,
    "stated_bytes": _INTEGER,
    "truncated": _TRUTH,
    # The config.json beside it
    "config_sha": _TEXT,
    "model_type": _TEXT,
    "architectures": _TEXTS,
    "config_parameters": _INTEGER,
    "config_message": _TEXT,
    "agrees": _TRUTH,  # null without a config, and where it cannot be compared
    # What it says about itself
    "base_model": _TEXT,
    "licence": _TEXT,
    "name": _TEXT,
    "pickle_globals": _TEXTS,
    "metadata": _TEXT,  # JSON
    # The scan
    "seconds": _NUMBER,
    "scanned_at": _TIME,
    "weighbridge": _TEXT,
    "schema": _INTEGER,
}

LAYOUTS = {
    "layout": _TEXT,
    "family": _TEXT,
    "class": _TEXT,
    "exact": _TRUTH,
    "also_fits": _TEXTS,
    "layers": _INTEGER,
    "hidden": _INTEGER,
    "vocab": _INTEGER,
    "components": _BYTES_BY_KEY,  # the parameters of each
    "active": _INTEGER,  # parameters that act on one token
    "guessed_config": _TEXT,  # JSON
    "message": _TEXT,  # why there is no guess
    "seconds": _NUMBER,
    "schema": _INTEGER,
}

VOLATILE = ("seconds", "scanned_at")
"""The columns in which two scans of the same files differ."""


def checkpoint_schema() -> Any:
    """Return the Arrow schema of the checkpoints."""
    return _schema(tuple(CHECKPOINTS.items()))


def layout_schema() -> Any:
    """Return the Arrow schema of the layouts."""
    return _schema(tuple(LAYOUTS.items()))


def listing_schema() -> Any:
    """Return the Arrow schema of what is listed to be read: what a worker elsewhere is given."""
    pa = package("pyarrow")
    names = ("name", "file_bytes", "allocated_bytes", "mtime_ns", "inode")
    types = (pa.string(), pa.int64(), pa.int64(), pa.int64(), pa.string())
    file = pa.struct(list(zip(names, types, strict=True)))
    fields = (("path", pa.string()), ("kind", pa.string()), ("is_whole", pa.bool_()))
    others = (("files", pa.list_(file)), ("config", pa.string()), ("stamp", pa.string()))
    return pa.schema([*fields, *others])


@cache
def _schema(columns: tuple[tuple[str, str], ...]) -> Any:
    pa = package("pyarrow")
    weights = [(name, pa.int64()) for name in ("tensors", "parameters", "bytes")]
    types = {
        _TEXTS: pa.list_(pa.string()),
        _BYTES_BY_KEY: pa.map_(pa.string(), pa.int64()),
        _WEIGHTS: pa.map_(pa.string(), pa.struct(weights)),
        _TIME: pa.timestamp("us", tz="UTC"),
    }
    fields = []
    for name, type_name in columns:
        fields.append((name, types.get(type_name) or pa.type_for_alias(type_name)))
    return pa.schema(fields)


def package(name: str, extra: str = "fleet") -> Any:
    """Import and return a package of an extra.

    Raises:
        UsageError: it is not installed.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name.partition(".")[0]:
            raise
        raise UsageError(
            f"a scan needs the package {name.partition('.')[0]}, which is not installed",
            hint=f"run pip install 'weighbridge[{extra}]'",
        ) from None
