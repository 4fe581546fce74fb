"""Reads the text of an article from a file, standard input or an address, up to a limit."""

from __future__ import annotations

import os
import re
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge.errors import ArticleError
from weighbridge.readers.rules import is_remote, without_secrets
from weighbridge.readers.stores import open_text, read_on

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST_BYTES = 2 * 2**20  # of a file
LONGEST_PAGE_BYTES = 5 * 2**20  # of a web page, which is mostly markup
_MOST_SECONDS = 30  # for a page; each piece also has the timeout of web files
_CHARSET = re.compile(rb"""charset\s*=\s*["']?\s*([A-Za-z0-9_-]{1,40})""", re.IGNORECASE)
_HEAD_BYTES = 4096  # at the start of a page, which state its encoding
_SUBSETS_OF_GB18030 = ("gb2312", "gbk")
_PAGE = re.compile(r"\s*(?:\ufeff)?\s*(?:<!doctype html|<html|<head|<body)", re.IGNORECASE)


class Source(NamedTuple):
    """An article: its origin, its text and encoding, and whether it is HTML."""

    where: str
    text: str
    encoding: str
    html: bool


def read_article(where: str | os.PathLike[str]) -> Source:
    """Return the article at a path or an address or, for ``-``, from standard input.

    Raises:
        ArticleError: the article is too long, empty, or not text.
        CheckpointError: there is no such file, or it cannot be read.
    """
    path = os.fspath(where)
    if path == "-":
        import sys  # noqa: PLC0415

        return decoded(sys.stdin.buffer.read(LONGEST_BYTES + 1), "standard input")
    if path.lower().startswith(("http://", "https://")):
        return decoded(_page(path), without_secrets(path), most=LONGEST_PAGE_BYTES)
    with open_text(path if is_remote(path) else os.path.expanduser(path)) as file:
        raw = read_on(file, LONGEST_BYTES + 1)
    return decoded(raw, path)


def decoded(raw: bytes, where: str, most: int = LONGEST_BYTES) -> Source:
    r"""Decode the bytes of an article.

    The encoding is UTF-8, the one that the text names, or GB 18030, as in older Chinese pages.

    Example:
        >>> decoded("参数量".encode("gb18030"), "a.txt")
        Source(where='a.txt', text='参数量', encoding='gb18030', html=False)
    """
    if len(raw) > most:
        raise ArticleError(
            f"an article may have at most {most:,} bytes",
            where=where,
            hint="give only the part with the calculations",
        )
    if not raw.strip():
        raise ArticleError("the article is empty", where=where, hint="give an article with text")
    if b"\0" in raw and not raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ArticleError(
            "this is not text: it contains a zero byte",
            where=where,
            values={"byte": raw.index(b"\0")},
            hint="give plain text, Markdown or HTML, for example the text of a PDF",
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
    """Fetch a web page, within limits of bytes and time."""
    from weighbridge.readers.stores import web  # noqa: PLC0415
    from weighbridge.readers.stores.redirects import streamed  # noqa: PLC0415
    from weighbridge.readers.stores.remote import imported  # noqa: PLC0415

    http: Any = imported("httpx2", address)
    headers = {"Accept": "text/html, text/*"}
    try:
        with (
            http.Client() as client,
            streamed(client, address, address, headers, web.TIMEOUT_SECONDS) as answer,
        ):
            if answer.status_code != 200:
                raise web.by_status(answer.status_code, address)
            return _taken(answer, address)
    except (http.InvalidURL, http.UnsupportedProtocol) as error:
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
                "the page took too long to load",
                where=without_secrets(address),
                hint="save the page, and give the path of the file",
            )
    return bytes(taken)
