"""Opens files: on this disk, on the web, on the Hub, or in a cloud store."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, BinaryIO

from weighbridge.errors import CheckpointError
from weighbridge.readers.rules import (
    CHANGED,
    CONFIG_LIMIT,
    LONGEST_CONFIG_BYTES,
    is_remote,
    parse_json,
    parse_object,
)
from weighbridge.readers.stores import disk
from weighbridge.readers.wrong_file import START_BYTES, wrong_file

if TYPE_CHECKING:
    from weighbridge.readers.stores.remote import Store


def open_file(path: str) -> BinaryIO:
    """Open a file without a buffer, so that only the requested bytes are read.

    Of a remote file, only ranges are fetched. A local file must be a regular file: weighbridge
    never waits for a pipe.

    Raises:
        CheckpointError: the file does not exist, is not a regular file, or may not be opened, or
            is remote and a `wrong_file`; of a local file, no byte is read here.
    """
    file = open_text(path)
    if is_remote(path):
        error = wrong_file(path, file.read(START_BYTES))  # these bytes came when it was opened
        if error:
            raise error
        file.seek(0)
    return file


def open_text(path: str) -> BinaryIO:
    """Open a file as `open_file` does, also if it is a page.

    Raises:
        CheckpointError: the file does not exist, is not a regular file, or may not be opened.
    """
    if is_remote(path):
        file: BinaryIO = store_of(path).open(path)
        return file
    return disk.open_regular(path)


def explained_error(error: CheckpointError) -> CheckpointError:
    """Return the error for what lies in the place of a local file that broke a rule.

    It is the same error if nothing does.
    """
    try:
        with disk.open_regular(error.where) as file:
            return wrong_file(error.where, file.read(START_BYTES)) or error
    except (CheckpointError, OSError):
        return error


def store_of(address: str) -> Store:
    """Return the store for addresses of this kind; fsspec if there is no other.

    Raises:
        CheckpointError: this Python runs in a browser.
    """
    from weighbridge.readers.stores import cloud, hub, web  # noqa: PLC0415  # most files are here
    from weighbridge.readers.stores.remote import refuse_in_browser  # noqa: PLC0415

    refuse_in_browser(address)
    stores = {"http": web.STORE, "https": web.STORE, "hf": hub.STORE}
    return stores.get(address.partition("://")[0].lower(), cloud.STORE)


def size_of(file: BinaryIO) -> int:
    """Return the size of an open file in bytes, according to the file system or the server."""
    if hasattr(file, "size"):
        return int(file.size)
    return os.fstat(file.fileno()).st_size


def read_at(file: BinaryIO, offset: int, length: int) -> bytes:
    """Return ``length`` bytes at an offset, or fewer if the file ends."""
    length = min(length, max(0, size_of(file) - offset))
    if not length:
        return b""
    file.seek(offset)
    return read_on(file, length)


def read_exactly(file: BinaryIO, offset: int, length: int, path: str) -> bytes:
    """Return ``length`` bytes at an offset, all inside the file when it was opened.

    Raises:
        CheckpointError: the file has become shorter since it was opened.
    """
    raw = read_at(file, offset, length)
    if len(raw) < length:
        raise CHANGED.broken(path, bytes_before=offset + length, bytes_now=offset + len(raw))
    return raw


def read_on(file: BinaryIO, length: int) -> bytes:
    """Return ``length`` bytes at the current position, or fewer if the file ends.

    A single call of ``read`` may return fewer.
    """
    pieces = []
    while length > 0 and (piece := file.read(length)):
        pieces.append(piece)
        length -= len(piece)
    return b"".join(pieces)


def read_object(path: str) -> dict[str, Any]:
    """Return the JSON object in a config file.

    Raises:
        CheckpointError: the file breaks the rule ``config-limit`` or one of those of
            `parse_object`.
    """
    return parse_object(_read_config(path), path)


def read_json(path: str) -> Any:
    """Return the JSON in a config file that may be a list, such as modules.json.

    Raises:
        CheckpointError: the file breaks the rule ``config-limit`` or one of those of `parse_json`.
    """
    return parse_json(_read_config(path), path)


def _read_config(path: str) -> bytes:
    with open_file(path) as file:
        if size_of(file) > LONGEST_CONFIG_BYTES:
            raise CONFIG_LIMIT.broken(path, config_bytes=size_of(file))
        raw = read_on(file, LONGEST_CONFIG_BYTES)
    if error := wrong_file(path, raw[:START_BYTES]):
        raise error
    return raw
