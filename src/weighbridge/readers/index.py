"""Reads the index of a checkpoint that is split into shards: which file holds which tensor.

An index is JSON: ``{"metadata": {"total_size": bytes}, "weight_map": {tensor name: file name}}``.
The file names are not trusted, so none may lead out of the index's folder.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from weighbridge.errors import CheckpointError
from weighbridge.readers.rules import FETCH, REWRITE, Rule, check_text, is_size, parse_object
from weighbridge.readers.stores import open_file, size_of
from weighbridge.readers.stores.disk import inside

LONGEST_INDEX_BYTES = 40_000_000  # 200,000 tensors take about 25 MB

INDEX_LIMIT = Rule("index-limit", f"an index may have at most {LONGEST_INDEX_BYTES:,} bytes", FETCH)
WEIGHT_MAP = Rule(
    "weight-map",
    "an index must have weight_map, an object that maps tensor names to file names",
    REWRITE,
)
TOTAL_SIZE = Rule(
    "total-size", "the index's metadata.total_size must be a number of bytes", REWRITE
)
SHARD_PATH = Rule(
    "shard-path",
    "a shard must have a plain path inside the folder of its index",
    "do not trust this checkpoint",
)
SHARD_MISSING = Rule(
    "shard-missing", "the index names a file that does not exist", "fetch the missing file"
)


class Index(NamedTuple):
    """An index: the stated bytes of all tensors, the shard of each tensor, and their paths."""

    total_bytes: int | None
    weight_map: dict[str, str]
    shards: dict[str, str]
    index_bytes: int

    def paths(self) -> dict[str, str]:
        """Return the path of the shard in which the index lists each tensor."""
        files = map(self.shards.__getitem__, self.weight_map.values())
        return dict(zip(self.weight_map, files, strict=True))


def read(path: str) -> Index:
    """Return an index, with its shards in the order of their names; the shards are not opened.

    Raises:
        CheckpointError: the index breaks a rule, or names a file that does not exist or lies
            outside its folder.

    Example:
        >>> import os, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     open(os.path.join(folder, "a.safetensors"), "w").close()
        ...     path = os.path.join(folder, "model.safetensors.index.json")
        ...     with open(path, "w") as file:
        ...         _ = file.write('{"metadata": {"total_size": 8}, ')
        ...         _ = file.write('"weight_map": {"pooler.bias": "a.safetensors"}}')
        ...     index = read(path)
        >>> index.total_bytes, index.weight_map, list(index.shards)
        (8, {'pooler.bias': 'a.safetensors'}, ['a.safetensors'])
    """
    content, index_bytes = _content(path)
    weight_map = _weight_map(content.get("weight_map"), path)
    folder = os.path.dirname(path)
    shards = {
        shard: inside(folder, shard, path, SHARD_PATH, SHARD_MISSING)
        for shard in sorted(set(weight_map.values()))
    }
    return Index(_total(content.get("metadata"), path), weight_map, shards, index_bytes)


def names_in_index(path: str) -> set[str]:
    """Return the names of the files in an index, whether they exist or not; none if it is broken.

    What is wrong with a broken index, `read` says.
    """
    try:
        return set(_weight_map(_content(path)[0].get("weight_map"), path).values())
    except CheckpointError:
        return set()


def _content(path: str) -> tuple[dict[str, Any], int]:
    """Return the JSON object in an index, and its bytes."""
    with open_file(path) as file:
        index_bytes = size_of(file)
        if index_bytes > LONGEST_INDEX_BYTES:
            raise INDEX_LIMIT.broken(path, index_bytes=index_bytes)
        raw = file.read(index_bytes)
    return parse_object(raw, path), len(raw)


def _weight_map(found: Any, path: str) -> dict[str, str]:
    if not isinstance(found, dict) or not found:
        raise WEIGHT_MAP.broken(path, weight_map=found)
    if set(map(type, found.values())) != {str}:
        name = next(name for name, shard in found.items() if not isinstance(shard, str))
        raise WEIGHT_MAP.broken(path, tensor=name, file=found[name])
    check_text([*found, *set(found.values())], path)
    return found


def _total(metadata: Any, path: str) -> int | None:
    """Return ``metadata.total_size``, which may be absent; some writers write it as ``8.0``."""
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    if isinstance(total, float) and total.is_integer():
        total = int(total)
    if total is not None and not is_size(total):
        raise TOTAL_SIZE.broken(path, total_size=total)
    return total
