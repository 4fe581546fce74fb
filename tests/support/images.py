"""Reads the pictures that a page embeds, without a library for pictures."""

from __future__ import annotations

import base64
import struct
import zlib


def rgba(picture: str) -> list[list[tuple[int, ...]]]:
    """Return the pixels of a PNG in a data URL, row by row, from its bytes alone."""
    raw = base64.b64decode(picture.partition(",")[2])
    width, height, depth, kind = struct.unpack(">IIBB", raw[16:26])
    assert (depth, kind) == (8, 6)
    at, packed = 8, b""
    while at < len(raw):
        (length,) = struct.unpack(">I", raw[at : at + 4])
        packed += raw[at + 8 : at + 8 + length] if raw[at + 4 : at + 8] == b"IDAT" else b""
        at += length + 12
    lines = zlib.decompress(packed)
    rows = [lines[row * (4 * width + 1) + 1 : (row + 1) * (4 * width + 1)] for row in range(height)]
    return [[tuple(row[at : at + 4]) for at in range(0, len(row), 4)] for row in rows]
