"""The formats that can be read: each has one file in this folder and one line in this table."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from weighbridge.readers import (
    distributed,
    flax,
    gguf,
    keras,
    npz,
    onnx,
    pytorch,
    safetensors,
    tensorflow,
)
from weighbridge.readers.foreign import START_BYTES, check_readable
from weighbridge.readers.rules import Rule, without_secrets
from weighbridge.readers.stores import open_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from weighbridge.readers.header import Header


class FileFormat(NamedTuple):
    """A format: its name, its reader, and whether the first 9 bytes of a file look like it.

    ``parts`` returns all files of a split checkpoint, given the path and the header of any one.
    ``row_name`` returns the row's name for a name in an index.
    """

    name: str
    read: Callable[[str], Header]
    recognise: Callable[[bytes], bool]
    parts: Callable[[str, Header], list[str]] | None = None
    row_name: Callable[[str], str] = str


FORMATS = {
    ".safetensors": FileFormat("safetensors", safetensors.read, safetensors.recognise),
    ".gguf": FileFormat("GGUF", gguf.read, gguf.recognise, gguf.parts),
    ".bin": FileFormat("PyTorch", pytorch.read, pytorch.recognise),
    ".pt": FileFormat("PyTorch", pytorch.read, pytorch.recognise),
    ".pth": FileFormat("PyTorch", pytorch.read, pytorch.recognise),
    ".ckpt": FileFormat("PyTorch", pytorch.read, pytorch.recognise),
    ".onnx": FileFormat("ONNX", onnx.read, onnx.recognise),
    ".npz": FileFormat("NumPy", npz.read, npz.recognise),
    ".index": FileFormat("TensorFlow", tensorflow.read, tensorflow.recognise),
    ".msgpack": FileFormat("Flax", flax.read, flax.recognise, row_name=flax.dotted_name),
    distributed.SUFFIX: FileFormat("torch.distributed", distributed.read, distributed.recognise),
    ".h5": FileFormat("HDF5", keras.read, keras.recognise),
    ".hdf5": FileFormat("HDF5", keras.read, keras.recognise),
    ".keras": FileFormat("Keras", keras.read, keras.recognise),
}
"""The formats by file suffix."""

READ_SUFFIXES = ", ".join(FORMATS)
INDEX_SUFFIX = ".index.json"  # after the suffix of the format
_RECOGNISED_BYTES = 9  # enough to distinguish the formats

FORMAT = Rule(
    "format",
    f"only {READ_SUFFIXES} can be read so far",
    "give a file with one of these suffixes, its index, or a folder that contains one",
)


def format_of(path: str) -> FileFormat:
    """Return the format of a file, by its suffix or else by its first bytes.

    Raises:
        CheckpointError: no format with a reader has this suffix or begins with these bytes.
    """
    for suffix, file_format in FORMATS.items():
        if without_secrets(path).endswith(suffix):
            return file_format
    with open_file(path) as file:
        start = file.read(START_BYTES)
    check_readable(path, start)
    for file_format in FORMATS.values():
        if file_format.recognise(start[:_RECOGNISED_BYTES]):
            return file_format
    raise FORMAT.broken(path, starts_with=start[:_RECOGNISED_BYTES])


def format_of_index(path: str) -> FileFormat | None:
    """Return the format of the shards of an index; None if the path is not that of an index."""
    for suffix, file_format in FORMATS.items():
        if without_secrets(path).endswith(suffix + INDEX_SUFFIX):
            return file_format
    return None
