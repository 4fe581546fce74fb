"""The text of an article: of a file, from standard input or at an address, up to a limit."""

from __future__ import annotations

import os
import re
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge.errors import ArticleError
from weighbridge.readers.rules import is_remote, without_secrets
from weighbridge.readers.stores import open_file, read_on

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST_BYTES = 2 * 2**20  # of a file
LONGEST_PAGE_BYTES = 5 * 2**20  # of a web page, most of which is no text
_MOST_SECONDS = 30  # for a page; each of its pieces may take the reader's timeout
_CHARSET = re.compile(rb"""charset\s*=\s*["']?\s*([A-Za-z0-9_-]{1,40})""", re.IGNORECASE)
_HEAD_BYTES = 4096  # where a page says which encoding it has
_SUBSETS_OF_GB18030 = ("gb2312", "gbk")
_PAGE = re.compile(r"\s*(?:\ufeff)?\s*(?:<!doctype html|<html|<head|<body)", re.IGNORECASE)


class Source(NamedTuple):
    """An article: where it is from, its text and encoding, and whether it is HTML."""

    where: str
    text: str
    encoding: str
    html: bool


def read_article(where: str | os.PathLike[str]) -> Source:
    """Return the article at a path, at an address, or, for ``-``, on standard input.

    Raises:
        ArticleError: it is too long, empty, or no text.
        CheckpointError: there is no such file, or it cannot be had.
    """
    path = os.fspath(where)
    if path == "-":
        import sys  # noqa: PLC0415

        return decoded(sys.stdin.buffer.read(LONGEST_BYTES + 1), "standard input")
    if path.lower().startswith(("http://", "https://")):
        return decoded(_page(path), without_secrets(path), most=LONGEST_PAGE_BYTES)
    with open_file(path if is_remote(path) else os.path.expanduser(path)) as file:
        raw = read_on(file, LONGEST_BYTES + 1)
    return decoded(raw, path)


def decoded(raw: bytes, where: str, most: int = LONGEST_BYTES) -> Source:
    r"""Return the article that bytes are.

    The encoding is UTF-8, or the one that the text names, or GB 18030, as in older Chinese pages.

    Example:
        >>> decoded("参数量".encode("gb18030"), "a.txt")
        Source(where='a.txt', text='参数量', encoding='gb18030', html=False)
    """
    if len(raw) > most:
        raise ArticleError(
            f"an article may have at most {most:,} bytes",
            where=where,
            hint="cut out the part that calculates",
        )
    if not raw.strip():
        raise ArticleError("the article is empty", where=where, hint="give one that has text")
    if b"\0" in raw and not raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ArticleError(
            "this is no text: it has bytes of 0",
            where=where,
            values={"byte": raw.index(b"\0")},
            hint="give plain text, Markdown or HTML; of a PDF or an office file save the text",
        )
    for encoding in _encodings(raw):
        try:
            text = raw.decode(encoding)
        except (UnicodeDecodeError, LookupError):
            continue
        is_html = bool(_PAGE.match(text)) or where.lower().endswith((".html", ".htm"))
        return Source(where, text, encoding, is_html)
    raise ArticleError(
        "the text is neither UTF-8 nor GB 18030",
        where=where,
        hint="save it as UTF-8, or give plain text",
    )


def _encodings(raw: bytes) -> Iterator[str]:
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        yield "utf-16"
        return
    yield "utf-8-sig" if raw.startswith(b"\xef\xbb\xbf") else "utf-8"
    declared = _CHARSET.search(raw[:_HEAD_BYTES])
    if declared:
        name = declared[1].decode().lower()
        yield "gb18030" if name in _SUBSETS_OF_GB18030 else name
    yield "gb18030"


def _page(address: str) -> bytes:
    """Fetch a web page: so many bytes, in so much time."""
    from weighbridge.readers.stores import web  # noqa: PLC0415
    from weighbridge.readers.stores.remote import imported  # noqa: PLC0415

    http: Any = imported("httpx2", address)
    options = {
        "timeout": web.TIMEOUT_SECONDS,
        "follow_redirects": True,
        "headers": {"Accept": "text/html, text/*"},
    }
    try:
        with http.stream("GET", address, **options) as answer:
            if answer.status_code != 200:
                raise web.by_status(answer.status_code, address)
            return _taken(answer, address)
    except (http.InvalidURL, http.UnsupportedProtocol, http.TooManyRedirects) as error:
        raise web.ADDRESS.broken(address, reason=str(error)) from None
    except http.TransportError as error:
        raise web.lost(error, address, tries=1) from None


def _taken(answer: Any, address: str) -> bytes:
    time = import_module("time")
    latest, taken = time.monotonic() + _MOST_SECONDS, bytearray()
    for piece in answer.iter_bytes():
        taken += piece
        if len(taken) > LONGEST_PAGE_BYTES:
            break
        if time.monotonic() > latest:
            raise ArticleError(
                "the page came too slowly",
                where=without_secrets(address),
                hint="save it, and give the file",
            )
    return bytes(taken)
