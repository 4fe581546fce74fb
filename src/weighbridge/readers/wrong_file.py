"""Recognises what lies in the place of a file: a pointer of Git LFS, or a page of HTML.

A clone without Git LFS has small texts in place of weights, and a download from the wrong address
gives a page. The sources are https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md and
https://mimesniff.spec.whatwg.org.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from weighbridge.readers.rules import Rule

if TYPE_CHECKING:
    from weighbridge.errors import CheckpointError

START_BYTES = 256
"""The bytes at the start of a file that show what it is."""

_POINTER = b"version https://git-lfs.github.com/spec/"
_POINTS_TO = re.compile(rb"\nsize ([0-9]{1,19})\n")
_PAGE = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*<(?:!doctype html|(?:html|head|body)[\s>])", re.IGNORECASE
)

LFS_POINTER = Rule(
    "lfs-pointer",
    "this is a pointer of Git LFS in place of the file",
    "run `git lfs pull` in its folder, or download the file itself",
)
PAGE = Rule(
    "html-page",
    "this is a page of HTML in place of the file",
    "download the file itself, from the link behind the download button",
)


def wrong_file(path: str, start: bytes) -> CheckpointError | None:
    r"""Return the error for what lies in the place of a file; None if this may be the file itself.

    Example:
        >>> print(wrong_file("a.bin", b"<!DOCTYPE html>\n<html>"))
        a.bin: html-page: this is a page of HTML in place of the file. Download the file itself,
        from the link behind the download button.
        >>> wrong_file("a.bin", b"PK\x03\x04")
    """
    if start.startswith(_POINTER):
        size = _POINTS_TO.search(start)
        return LFS_POINTER.broken(path, **({"points_to_bytes": int(size[1])} if size else {}))
    return PAGE.broken(path) if _PAGE.match(start) else None
