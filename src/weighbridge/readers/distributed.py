"""Reads the ``.metadata`` of a folder that `torch.distributed.checkpoint` has written.

The file is a pickle that lists all tensors with their shapes and dtypes, whichever ranks saved
them. It is read as data, as those of PyTorch files are. The format is that of
``torch/distributed/checkpoint/metadata.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weighbridge.readers import pickled
from weighbridge.readers.header import Header, found_row
from weighbridge.readers.pickled import Called, Global
from weighbridge.readers.rules import FETCH, Rule, check_text, elements, is_size
from weighbridge.readers.stores import open_file, read_at, size_of
from weighbridge.readers.wrappers import contents_of
from weighbridge.units import NAMES

if TYPE_CHECKING:
    from weighbridge.ledger.rows import Row

SUFFIX = ".metadata"
DATA_SUFFIX = ".distcp"
LONGEST_BYTES = 100_000_000
MOST_DIMS = 64

METADATA = Rule(
    "distcp-metadata",
    "a .metadata file must list tensors, each with its dtype and its shape, "
    f"and have at most {LONGEST_BYTES:,} bytes",
    FETCH,
)

_HOME = "torch.distributed.checkpoint"
_TENSOR = f"{_HOME}.metadata.TensorStorageMetadata"
_CLASSES = (
    "Metadata",
    "TensorStorageMetadata",
    "BytesStorageMetadata",
    "TensorProperties",
    "ChunkStorageMetadata",
    "MetadataIndex",
    "StorageMeta",
    "_MEM_FORMAT_ENCODING",
)
_KNOWN = {
    *(f"{_HOME}.metadata.{name}" for name in _CLASSES),
    f"{_HOME}.filesystem._StorageInfo",
    "torch.distributed._shard.sharded_tensor.metadata.TensorProperties",
    "torch.distributed._shard.sharded_tensor.metadata.MEM_FORMAT_ENCODING",
    "torch.Size",
    "torch.serialization._get_layout",
    "collections.OrderedDict",
    "pathlib.PosixPath",
    "pathlib._local.PosixPath",
    "pathlib.WindowsPath",
    *(f"torch.{name}" for name in NAMES),
}


def recognise(start: bytes) -> bool:  # noqa: ARG001
    r"""Return False: the first 9 bytes are those of any pickle, so only the name counts.

    Example:
        >>> recognise(b"\x80\x04\x95\x00\x00\x00\x00\x00\x00")
        False
    """
    return False


def read(path: str) -> Header:
    """Return each tensor that a ``.metadata`` file lists, in its order.

    Raises:
        CheckpointError: the file breaks a rule of the format; the message starts with the rule's
            name.
    """
    with open_file(path) as file:
        size = size_of(file)
        if size > LONGEST_BYTES:
            raise METADATA.broken(path, bytes=size)
        raw = read_at(file, 0, size)
    content, _ = pickled.unpickled(raw, path, known=_KNOWN, keys=Called)
    listed = _field(content, "state_dict_metadata")
    if not isinstance(listed, dict):
        raise METADATA.broken(path, state_dict_metadata=listed)
    names = [str(name) for name, entry in listed.items() if _path_of(entry) == _TENSOR]
    check_text(names, path)
    contents = contents_of(_keys_to(names, _field(content, "planner_data")))
    rows = []
    for name in names:
        row = _row(name, listed[name], path)
        role = contents.roles.get(name, "")
        rows.append(row._replace(role=role, parameters=0) if role else row)
    return Header(tuple(rows), {}, len(raw), within=contents.within)


def _row(name: str, entry: Any, path: str) -> Row:
    dtype, shape = _dtype(_field(entry, "properties")), _sizes(_field(entry, "size"))
    count = elements(shape) if shape is not None else None
    if dtype is None or shape is None or count is None:
        raise METADATA.broken(path, tensor=name, dtype=dtype, shape=shape)
    return found_row(name, shape, dtype, count)


def _keys_to(names: list[str], planned: Any) -> dict[str, tuple[str, ...]]:
    """Return the keys that led to each tensor; a name without them is a single key."""
    paths = {}
    for name in names:
        keys = planned.get(name) if isinstance(planned, dict) else None
        paths[name] = tuple(map(str, keys)) if isinstance(keys, tuple) and keys else (name,)
    return paths


def _field(made: Any, name: str) -> Any:
    """Return a field of an object that the pickle would build; None if it has no such field."""
    state = made.state if isinstance(made, Called) else None
    return state.get(name) if isinstance(state, dict) else None


def _path_of(made: Any) -> str:
    """Return the module and name of the class of an object that the pickle would build."""
    what = made.what if isinstance(made, Called) else None
    return what.path if isinstance(what, Global) else ""


def _dtype(properties: Any) -> str | None:
    """Return the dtype in the properties of a tensor, whose state is a tuple or a dict."""
    state = properties.state if isinstance(properties, Called) else None
    values = tuple(state.values()) if isinstance(state, dict) else state
    if not isinstance(values, tuple):
        return None
    for value in values:
        if isinstance(value, Global) and value.name in NAMES:
            return NAMES[value.name]
    return None


def _sizes(size: Any) -> tuple[int, ...] | None:
    """Return the sizes in a call of `torch.Size`."""
    arguments = size.arguments if isinstance(size, Called) else None
    if not isinstance(arguments, tuple) or len(arguments) != 1:
        return None
    sizes = arguments[0]
    if not isinstance(sizes, tuple | list) or len(sizes) > MOST_DIMS:
        return None
    return tuple(sizes) if all(map(is_size, sizes)) else None
