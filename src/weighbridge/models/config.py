"""Reads a config: a JSON object in a file, at an address or on standard input."""

from __future__ import annotations

import os

from weighbridge.errors import CheckpointError, ConfigError, ModelError, shorten
from weighbridge.lean_typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

LONGEST_CONFIG = 2 * 2**20
"""In bytes: published configs have a few thousand, and one byte can take thirty in memory."""

_CONFIG = "config.json"
_LONGEST_REASON = 100  # characters of a parser's message


def read_stdin() -> Mapping[str, Any]:
    """Return the config on standard input.

    Raises:
        ConfigError: as for `parse_config`.
    """
    import sys  # noqa: PLC0415

    return parse_config(sys.stdin.buffer.read(LONGEST_CONFIG + 1), "standard input")


def read_address(address: str) -> tuple[str, Mapping[str, Any]]:
    """Return the config at an address, or in its folder or repository, with its own address.

    Raises:
        CheckpointError: there is nothing at the address, or it cannot be read.
        ConfigError: as for `parse_config`.
    """
    # Most configs are local files.
    from weighbridge.readers.rules import MISSING, without_secrets  # noqa: PLC0415
    from weighbridge.readers.stores import open_file, read_on  # noqa: PLC0415
    from weighbridge.readers.stores.web import NOT_FOUND  # noqa: PLC0415

    folder = ""
    if not without_secrets(address).endswith(".json"):
        folder = address.rstrip("/")
        address = f"{folder}/{_CONFIG}"
    where = without_secrets(address)
    try:
        with open_file(address) as file:
            return where, parse_config(read_on(file, LONGEST_CONFIG + 1), where)
    except CheckpointError as error:
        if folder and error.rule in (NOT_FOUND.name, MISSING.name):
            _explain_folder(folder)
        raise


def _explain_folder(folder: str) -> None:
    """Refuse a folder at an address if it is known to be something other than a model."""
    from weighbridge.readers.folders import explained_folder  # noqa: PLC0415
    from weighbridge.readers.stores import store_of  # noqa: PLC0415
    from weighbridge.readers.stores.remote import RemoteFolder  # noqa: PLC0415

    listed = store_of(folder).folder(folder)
    if isinstance(listed, RemoteFolder):
        explanation = explained_folder(folder, listed.names)
        if explanation is not None:
            raise ModelError(explanation.what, where=folder, hint=explanation.hint)


def read_config(path: str) -> Mapping[str, Any]:
    """Return the config in a file on the disk.

    Raises:
        ConfigError: it is not a regular file or cannot be read, or as for `parse_config`.
    """
    in_folder = os.path.isdir(os.path.dirname(path) or ".")
    if in_folder and os.path.exists(path) and not os.path.isfile(path):
        hint = "give the path of a config.json, or - for standard input"
        raise ConfigError("is not a regular file", where=path, hint=hint)
    try:
        with open(path, "rb") as file:
            text = file.read(LONGEST_CONFIG + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        hint = "give the path of a config.json or of a folder that holds one"
        raise ConfigError(f"cannot be read: {reason}", where=path, hint=hint) from None
    try:
        return parse_config(text, path)
    except ConfigError:
        from weighbridge.readers import is_checkpoint  # noqa: PLC0415  # most configs are fine

        if not is_checkpoint(path):
            raise
        hint = (
            f"`weighbridge inspect {path}` lists what it holds; "
            f"`weighbridge guess {path}` infers its config"
        )
        raise ConfigError("is a checkpoint, not a config", where=path, hint=hint) from None


def parse_config(text: bytes, where: str) -> Mapping[str, Any]:
    """Return a config from the bytes of a JSON file.

    Raises:
        ConfigError: it is too long, not JSON, too deep or not an object, or has a field twice with
            different values.

    Example:
        >>> parse_config(b'{"hidden_size": 128}', "config.json")
        {'hidden_size': 128}
    """
    import json  # noqa: PLC0415  # a name from the catalogue is answered without it

    from weighbridge.readers.rules import is_too_deep  # noqa: PLC0415

    hint = "a config is a JSON object such as transformers writes to config.json"
    if len(text) > LONGEST_CONFIG:
        raise ConfigError(f"is longer than {LONGEST_CONFIG} bytes", where=where, hint=hint)
    if is_too_deep(text):
        raise ConfigError("is nested too deeply", where=where, hint=hint)
    try:
        config = json.loads(text.decode("utf-8-sig"), object_pairs_hook=_json_object)
    except UnicodeDecodeError:
        raise ConfigError("is not UTF-8 text", where=where, hint=hint) from None
    except ConfigError as error:
        hint = "keep one of the two"
        raise ConfigError(error.what, where=where, values=error.values, hint=hint) from None
    except ValueError as error:
        _explain_text(text, where)
        what = f"is not JSON: {shorten(str(error), str, _LONGEST_REASON)}"
        if "digits" in str(error):
            what = "holds an integer of too many digits"
        raise ConfigError(what, where=where, hint=hint) from None
    if not isinstance(config, dict):
        raise ConfigError("is not a JSON object", where=where, values={"found": config}, hint=hint)
    return config


def _explain_text(text: bytes, where: str) -> None:
    """Refuse a text that lies in the place of a config: a pointer of Git LFS, or a page."""
    from weighbridge.readers.wrong_file import START_BYTES, wrong_file  # noqa: PLC0415

    found = wrong_file(where, text[:START_BYTES])
    if found:
        what = found.what.partition(": ")[2]
        raise ConfigError(what, where=where, values=found.values, hint=found.hint) from None


def _json_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        for name, value in pairs:
            if value != fields[name]:
                values = {"first": value, "then": fields[name]}
                raise ConfigError(f"gives {shorten(name)} twice", values=values)
    return fields
