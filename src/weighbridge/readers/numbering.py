"""Reads the numbering of files that are one checkpoint: ``NAME-00001-of-00002.SUFFIX``."""

from __future__ import annotations

import os
import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

from weighbridge import data
from weighbridge.readers.rules import Rule, without_secrets

if TYPE_CHECKING:
    from collections.abc import Sequence

_NUMBERED = re.compile(r"([A-Za-z]*)[-_. ]?(\d+)-of-(\d+)")
_MOST_LOOKED_FOR = 10_000  # files; the number of all is text, and may be any

SHARD_MISSING = Rule(
    "shard-missing",
    "by their names, more files belong to the checkpoint than are there",
    "fetch the missing files; a file that is given by its own path is read alone",
)


class Numbering(NamedTuple):
    """The numbering in a file's name: its number, that of all files, and the text around it."""

    before: str
    digits: str
    number: int
    most: int
    after: str

    @property
    def pattern(self) -> str:
        """A pattern for the names of all files."""
        return f"{self.before}*{self.after}"

    def name_of(self, number: int) -> str:
        """Return the name of another file of the checkpoint."""
        width = len(self.digits) if self.digits.startswith("0") else 0
        return f"{self.before}{number:0{width}}{self.after}"


def numbering_of(name: str) -> Numbering | None:
    """Return the numbering in a file's name; None if there is none, or if it counts other things.

    Example:
        >>> found = numbering_of("model-00001-of-00002.safetensors")
        >>> found.number, found.most, found.name_of(2)
        (1, 2, 'model-00002-of-00002.safetensors')
        >>> numbering_of("model-epoch-1-of-3.safetensors"), numbering_of("model.safetensors")
        (None, None)
    """
    found = _NUMBERED.search(name)
    if not found or found[1].lower() in data.read_toml("facts/wrappers.toml")["counted"]:
        return None
    before, after = name[: found.start(2)], name[found.end(2) :]
    return Numbering(before, found[2], int(found[2]), int(found[3]), after)


def missing_in(files: Sequence[str], meant: str = "*") -> str:
    """Return the name of the first missing file, according to the numbering of the others.

    It is empty if none is missing. ``meant`` is a pattern that the name must match. Files are
    counted from 1 or, if there is a file 0, from 0.

    Example:
        >>> missing_in(["model-00001-of-00002.bin"]), missing_in(["model-00001-of-00001.bin"])
        ('model-00002-of-00002.bin', '')
    """
    found = [numbering_of(os.path.basename(without_secrets(file))) for file in files]
    here = {numbering.number for numbering in found if numbering}
    first = found[0]
    if first is None or max(here) > first.most:
        return ""
    start = 0 if 0 in here else 1
    for number in range(start, start + min(first.most, _MOST_LOOKED_FOR)):
        name = first.name_of(number)
        if number not in here and fnmatchcase(name, meant):
            return name
    return ""


def note_on_part(files: Sequence[str]) -> list[str]:
    """Return a note if this is one of several files of a checkpoint, by its name; else nothing.

    Example:
        >>> note_on_part(["model-00001-of-00002.safetensors"])
        ['by its name, this is file 1 of 2 of a checkpoint: the others were not read']
        >>> note_on_part(["model-00001-of-00001.safetensors"])
        []
    """
    found = numbering_of(os.path.basename(files[0])) if len(files) == 1 else None
    if not found or found.most < 2:
        return []
    part = f"file {found.number:,} of {found.most:,}"
    return [f"by its name, this is {part} of a checkpoint: the others were not read"]
