"""Checkpoints that tests make: safetensors files that are all header, their data a hole in the file."""

import json
from collections.abc import Mapping
from math import prod
from pathlib import Path

from weighbridge.units import stored_bytes

Tensors = Mapping[str, tuple[str, tuple[int, ...]]]  # dtype and shape by name


def write(path: Path, tensors: Tensors, metadata: Mapping[str, str] | None = None) -> Path:
    """Write a safetensors file of these tensors whose data takes no room on the disk."""
    header: dict[str, object] = {"__metadata__": metadata} if metadata else {}
    end = 0
    for name, (dtype, shape) in tensors.items():
        begin, end = end, end + stored_bytes(prod(shape), dtype)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + end)
    return path
