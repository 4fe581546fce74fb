"""Reads listed checkpoints, one row each. A row depends on the files alone, wherever it is read.

`rows` is what an engine runs: from what is listed to Arrow batches. It never raises: what cannot be
read is a row that says why.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from functools import lru_cache
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import weighbridge
from weighbridge import readers
from weighbridge.errors import CheckpointError, printable
from weighbridge.fleet.columns import SCHEMA, checkpoint_schema, package
from weighbridge.fleet.listing import CONFIG
from weighbridge.fleet.reasons import ReasonError, reason_of
from weighbridge.readers.adapter import adapter_in
from weighbridge.readers.folders import FOREIGN
from weighbridge.readers.foreign import FOREIGN_FORMAT
from weighbridge.readers.formats import FORMAT
from weighbridge.readers.rules import LONGEST_CONFIG_BYTES, is_remote, parse_object, without_secrets
from weighbridge.readers.stores import open_file, read_on, size_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from weighbridge.fleet.listing import ListedCheckpoint, StoredFile
    from weighbridge.readers import StoredCheckpoint

BATCH_ROWS = 1000
_READ_AT_ONCE = 8  # checkpoints of a store elsewhere: what takes long there is waiting

_LONGEST_MESSAGE = 500
_LONGEST_METADATA = 4096  # characters of JSON
_LONGEST_VALUE = 200
_SAME_CONFIGS = 256  # texts of configs that are parsed once

_UNREAD = {FOREIGN_FORMAT.name, FOREIGN.name, FORMAT.name, "mixed-formats"}
_TRUNCATED = {
    "truncated",
    "too-short",
    "header-cut",
    "gguf-cut",
    "gguf-short",
    "gguf-count",
    "pickle-cut",
    "zip-end",
    "torch-storage",
    "flax-cut",
    "npz-size",
    "onnx-beyond",
    "tf-beyond",
    "tf-footer",
}
"""The rules that a file breaks if its end is missing."""
_DIED = "worker-died"
REASON, CONFIG_REASON = "reason", "config_reason"
"""Keys of rows that are not columns: the messages in parts, which can be translated."""


def rows(listed: Iterable[ListedCheckpoint]) -> Iterator[Any]:
    """Yield the rows of listed checkpoints as Arrow record batches, in the order of the list.

    This is the contract of an engine: it may cut the list anywhere, and run the pieces in any
    order, on any machine that can read the files, as often as it likes.
    """
    pyarrow = package("pyarrow")
    rest = iter(listed)
    while chunk := list(islice(rest, BATCH_ROWS)):
        yield pyarrow.RecordBatch.from_pylist(row_dicts(chunk), schema=checkpoint_schema())


def row_dicts(listed: Iterable[ListedCheckpoint]) -> list[dict[str, Any]]:
    """Return the rows of listed checkpoints as dicts, in order; those of a store elsewhere at once.

    Files with similar names may turn out to be several checkpoints, with a row each.
    """
    waiting = list(listed)
    if not waiting or not all(is_remote(one.path) for one in waiting):
        read = [_rows_of(one) for one in waiting]
    else:
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415  # most are here

        with ThreadPoolExecutor(_READ_AT_ONCE) as pool:
            read = list(pool.map(_rows_of, waiting))
    return [row for found in read for row in found]


def died_row(one: ListedCheckpoint) -> dict[str, Any]:
    """Return the row of a checkpoint whose reading ended the process."""
    what = "the process that read it ended"
    return {**_empty_row(one), "status": "crashed", "rule": _DIED, "message": what}


def _rows_of(one: ListedCheckpoint) -> list[dict[str, Any]]:
    begun = time.perf_counter()
    try:
        found = _filled_rows(one)
    except CheckpointError as error:
        if not one.is_whole and len(one.files) > 1 and one.kind != "parallel":
            return _rows_of_each(one)
        found = [{**_empty_row(one), **_refused(error)}]
    except Exception as error:
        message = f"{type(error).__name__}: {error}"[:_LONGEST_MESSAGE]
        crashed = {"status": "crashed", "rule": type(error).__name__, "message": printable(message)}
        found = [{**_empty_row(one), **crashed}]
    seconds = (time.perf_counter() - begun) / len(found)
    for row in found:
        row["seconds"] = seconds
    return found


def _rows_of_each(one: ListedCheckpoint) -> list[dict[str, Any]]:
    """Return a row for each file of a group: one that is broken does not hide the others."""
    found = [row for file in one.files for row in _rows_of(_alone(one, file))]
    for row in found:
        row["listed_as"] = without_secrets(one.path)
    return found


def _alone(one: ListedCheckpoint, file: StoredFile) -> ListedCheckpoint:
    """Return one file of several with similar names, as a checkpoint of its own."""
    return one._replace(path=file.name, kind="file", is_whole=True, files=(file,))


def _refused(error: CheckpointError) -> dict[str, Any]:
    return {
        "status": "unread" if error.rule in _UNREAD else "refused",
        "rule": error.rule,
        "message": printable(str(error))[:_LONGEST_MESSAGE],
        "truncated": error.rule in _TRUNCATED,
        REASON: reason_of(error),
    }


def _filled_rows(one: ListedCheckpoint) -> list[dict[str, Any]]:
    found = readers.read_group(one.group)
    if len(found) == 1:
        return [_row_of(one, found[0])]
    if one.kind == "parallel":
        return [_row_of_slices(one, found)]
    by_name = {file.name: file for file in one.files}
    made = []
    for checkpoint in found:
        alone = _alone(one, by_name[checkpoint.files[0]])
        made.append({**_row_of(alone, checkpoint), "listed_as": without_secrets(one.path)})
    return made


def _empty_row(one: ListedCheckpoint) -> dict[str, Any]:
    path = without_secrets(one.path)
    places = [file for file in one.files if file.inode and not file.inode.startswith("#")]
    inodes = {file.inode: file.allocated_bytes or 0 for file in places}
    times = [file.mtime_ns for file in one.files if file.mtime_ns]
    return {
        "path": path,
        "folder": os.path.dirname(path),
        "listed_as": path,
        "kind": one.kind,
        "files": len(one.files),
        "file_bytes": sum(file.file_bytes for file in one.files),
        "allocated_bytes": sum(inodes.values()) if places else None,
        "inode": list(inodes.items()),
        "stamp": one.stamp,
        "mtime": max(times) // 1000 if times else None,  # microseconds
        "status": "ok",
        "truncated": False,
        "scanned_at": int(time.time() * 1e6),
        "weighbridge": weighbridge.__version__,
        "schema": SCHEMA,
    }


def _row_of(one: ListedCheckpoint, found: StoredCheckpoint) -> dict[str, Any]:
    adapter = adapter_in(found)
    kind = "adapter" if adapter else one.kind
    config = _NO_CONFIG
    if one.config and kind != "state":
        config = _config_at(one.config)
    contents = _contents(found)
    if kind == "state":
        contents |= {"parameters": None, "bits_per_weight": None}
    said = _said_of_itself(found.metadata)
    if adapter:
        said["base_model"] = adapter.base or said["base_model"]
    return {
        **_empty_row(one),
        **contents,
        "kind": kind,
        "format": found.format,
        "header_bytes": found.header_bytes,
        "duplicates": len(found.duplicates),
        "absent": len(found.absent),
        "unlisted": len(found.unlisted),
        "stated_bytes": found.stated_bytes,
        **config._asdict(),
        **said,
        "pickle_globals": list(found.named),
        "metadata": _metadata_json(found.metadata),
    }


def _contents(found: StoredCheckpoint) -> dict[str, Any]:
    """Return what the rows of a checkpoint come to: counts, dtypes, packing, and digests."""
    of_dtype: dict[str, list[int]] = {}
    shapes, dtypes = sha256(), sha256()
    elements = 0
    for row in sorted(found.rows):
        entry = of_dtype.setdefault(row.dtype, [0, 0, 0])
        entry[0] += 1
        entry[1] += row.parameters
        entry[2] += row.bytes
        if not row.tied_to:
            elements += row.count
        line = f"{row.name}{row.shape}"
        shapes.update(line.encode())
        dtypes.update(f"{line}{row.dtype}".encode())
    by_bytes = sorted(of_dtype.items(), key=lambda item: (-item[1][2], item[0]))
    parameters = sum(entry[1] for entry in of_dtype.values())
    stored = sum(entry[2] for entry in of_dtype.values())
    names = ("tensors", "parameters", "bytes")
    packings = Counter(weight.packing for weight in found.packed.values())
    return {
        "tensors": len(found.rows),
        "parameters": parameters,
        "elements": elements,
        "bytes": stored,
        "dtypes": [(name, dict(zip(names, entry, strict=True))) for name, entry in by_bytes],
        "packing": max(sorted(packings), key=lambda name: packings[name]) if packings else None,
        "bits_per_weight": 8 * stored / parameters if parameters else None,
        "layout": shapes.hexdigest()[:16],
        "signature": dtypes.hexdigest()[:16],
    }


def _row_of_slices(one: ListedCheckpoint, found: list[StoredCheckpoint]) -> dict[str, Any]:
    """Return one row for the slices of a model, whose names are the same in each file.

    Which dim of a tensor was sliced is in no header. In Meta's layout, which has a params.json,
    matrices are sliced and vectors are copies; elsewhere the parameters are left open.
    """
    whole = found[0]._replace(
        rows=tuple(row for checkpoint in found for row in checkpoint.rows),
        header_bytes=sum(checkpoint.header_bytes for checkpoint in found),
    )
    row = _row_of(one, whole)
    row["tensors"] = len({row.name for checkpoint in found for row in checkpoint.rows})
    row["parameters"] = row["bits_per_weight"] = None
    if not is_remote(one.path) and os.path.exists(f"{os.path.dirname(one.path)}/params.json"):
        of_all = sum(row.parameters for row in whole.rows)
        copies = [checkpoint.rows for checkpoint in found[1:]]
        vectors = sum(row.parameters for rows in copies for row in rows if len(row.shape) == 1)
        row["parameters"] = of_all - vectors
        row["bits_per_weight"] = 8 * row["bytes"] / row["parameters"]
    return row


# What is said beside and inside


class _Config(NamedTuple):
    config_sha: str | None
    model_type: str | None
    architectures: list[str] | None
    config_message: str | None
    config_reason: ReasonError | None = None


_NO_CONFIG = _Config(None, None, None, None)


def _config_at(path: str) -> _Config:
    """Return what a config.json says; of one that cannot be read, why."""
    try:
        with open_file(path) as file:
            raw = read_on(file, min(size_of(file), LONGEST_CONFIG_BYTES + 1))
    except CheckpointError as error:
        return _Config(None, None, None, *_message_and_reason(error))
    except OSError as error:
        return _NO_CONFIG._replace(config_message=printable(str(error))[:_LONGEST_MESSAGE])
    return _parsed_config(raw)


def _message_and_reason(error: CheckpointError) -> tuple[str, ReasonError]:
    return printable(str(error))[:_LONGEST_MESSAGE], reason_of(error)


@lru_cache(_SAME_CONFIGS)
def _parsed_config(raw: bytes) -> _Config:
    digest = sha256(raw).hexdigest()[:16]
    try:
        content = parse_object(raw, CONFIG)
    except CheckpointError as error:
        return _Config(digest, None, None, *_message_and_reason(error))
    family, classes = content.get("model_type"), content.get("architectures")
    if not isinstance(classes, list):
        classes = []
    named = [printable(name) for name in classes if isinstance(name, str)]
    return _Config(digest, printable(family) if isinstance(family, str) else None, named, None)


# The keys under which files name themselves: GGUF's, those of Stability's modelspec, and kohya's.
_KEYS = {
    "base_model": (
        "general.base_model.0.repo_url",
        "general.base_model.0.name",
        "base_model",
        "ss_sd_model_name",
    ),
    "licence": ("general.license", "modelspec.license", "license"),
    "name": ("general.name", "modelspec.title", "ss_output_name", "name"),
}


def _said_of_itself(metadata: Mapping[str, str]) -> dict[str, str | None]:
    stated: dict[str, str | None] = {}
    for column, keys in _KEYS.items():
        values = [metadata[key] for key in keys if metadata.get(key)]
        stated[column] = printable(str(values[0]))[:_LONGEST_VALUE] if values else None
    return stated


def _metadata_json(metadata: Mapping[str, str]) -> str | None:
    """Return the metadata as JSON; entries that would make it too long are left out."""
    kept: dict[str, str] = {}
    length = 2
    for key, value in metadata.items():
        entry = {str(key)[:_LONGEST_VALUE]: str(value)[:_LONGEST_VALUE]}
        length += len(json.dumps(entry))
        if length > _LONGEST_METADATA:
            break
        kept |= entry
    return json.dumps(kept) if kept else None
