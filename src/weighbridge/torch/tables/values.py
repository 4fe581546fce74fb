"""The values of a record: texts and labels that can be used, and notes on how they were read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from weighbridge.torch.tables.encodings import UTF8
from weighbridge.torch.tables.table import BrokenError

if TYPE_CHECKING:
    from collections.abc import Iterator


def checked_value(record: dict[str, Any], column: str, of: str, encoding: str = UTF8) -> str:
    """Return a value of a record, checked to be usable.

    Raises:
        BrokenError: it is missing, empty, not text, or not in the encoding.
    """
    if column not in record:
        raise BrokenError("a field is missing", field=column)
    value = record[column]
    if of == "label" and isinstance(value, bool | int):
        value = json.dumps(value)
    if not isinstance(value, str):
        raise BrokenError(f"the {of} is not text", found=value)
    if "\0" in value:
        raise BrokenError(f"the {of} contains a NUL", found=ascii(value))
    if any("\ud800" <= letter <= "\udfff" for letter in value):
        hint = "name the encoding of the file with --encoding"
        raise BrokenError(f"the {of} is not {encoding.upper()}", hint, found=ascii(value))
    if not value.strip():
        raise BrokenError(f"the {of} is empty")
    if of == "label":
        return value.strip()
    return value


def notes_on_form(path: str, encoding: str, *, has_header: bool) -> Iterator[str]:
    """Yield notes on what was found out about a file: its encoding, and that it has no header."""
    if encoding != UTF8:
        yield f"{path}: read as {encoding.upper()}"
    if not has_header:
        yield f"{path}: the first line is a record, not a header, and columns are numbered"
