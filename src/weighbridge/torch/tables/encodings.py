"""From the bytes of a file to its text: a byte order mark, UTF-8, UTF-16 or GB18030.

Other encodings cannot be told from one another by a few bytes, so they have to be named.
"""

from __future__ import annotations

import codecs
import unicodedata
from encodings.aliases import aliases
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from weighbridge.errors import UsageError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator

UTF8 = "utf-8"
GB18030 = "gb18030"
_MARKS = (
    (codecs.BOM_UTF8, UTF8),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_WIDER = {"gb2312": GB18030, "gbk": GB18030}
"""Files with these names often have more letters, and GB18030 reads all of them alike.

The Encoding Standard of WHATWG, section 4.2, maps the names in the same way.
"""
_SAMPLE = 20_000  # letters: enough to be sure, and few enough to be quick
_COMMON_SHARE = 0.9  # common letters: over 99% of Chinese texts, at most 65% of misread ones
_KOREAN_LAST = 0xC8  # the first bytes of Hangul in EUC-KR are B0 to C8
_ENOUGH = 20  # Chinese letters that would not all begin with B0 to C8


class Decoded(NamedTuple):
    """The text of a file, without its byte order mark, and how it was encoded.

    A byte that does not fit the encoding is a lone surrogate, U+DC80 to U+DCFF.
    """

    text: str
    encoding: str
    has_mark: bool = False


def decode(raw: bytes, encoding: str | None = None, where: str = "") -> Decoded:
    r"""Return the text of a file.

    Args:
        raw: the bytes of the file.
        encoding: a name that Python knows; without one, the encoding is found out. What is neither
            marked nor UTF-16 nor GB18030 counts as UTF-8.
        where: the path of the file, for messages.

    Raises:
        UsageError: there is no such encoding, or the file is not in it.

    Example:
        >>> decode("文本,标签\n很好,正面\n".encode("gb18030")).encoding
        'gb18030'
        >>> decode("text\nwell\n".encode("utf-16"))
        Decoded(text='text\nwell\n', encoding='utf-16-le', has_mark=True)
    """
    stated = next(((mark, name) for mark, name in _MARKS if raw.startswith(mark)), None)
    if encoding is not None:
        encoding = checked_encoding(encoding)
        if stated and stated[1].startswith(encoding):
            encoding = stated[1]
    elif stated:
        encoding = stated[1]
    else:
        encoding = _encoding_of(raw)
    has_mark = stated is not None and stated[1] == encoding
    if stated and has_mark:
        raw = raw[len(stated[0]) :]
    try:
        return Decoded(raw.decode(encoding, "surrogateescape"), encoding, has_mark)
    except UnicodeError as error:
        values = {"encoding": encoding, "reason": getattr(error, "reason", str(error))}
        raise UsageError(
            "the file is not in this encoding",
            where=where,
            values=values,
            hint="name another one with --encoding",
        ) from None


def checked_encoding(name: str) -> str:
    """Return Python's name of an encoding.

    Raises:
        UsageError: there is no such encoding.

    Example:
        >>> checked_encoding("GBK"), checked_encoding("Windows-1252")
        ('gb18030', 'cp1252')
    """
    try:
        codec = codecs.lookup(name)
        " ".encode(codec.name)  # refuses codecs that do not make bytes of text
    except (LookupError, UnicodeError, ValueError):
        hint = "use for example utf-8, gb18030, utf-16, big5 or cp1252"
        near = nearest(sorted({*aliases, *aliases.values()}), name, most=1)
        if near:
            hint = f"did you mean {near[0]}?"
        values = {"encoding": name}
        raise UsageError("there is no such encoding", values=values, hint=hint) from None
    return _WIDER.get(codec.name, codec.name)


def _encoding_of(raw: bytes) -> str:
    """Return the encoding of bytes without a mark."""
    for name in ("utf-16-le", "utf-16-be"):
        if _is_utf16(raw, name):
            return name
    if not _is_utf8(raw) and _is_gb18030(raw):
        return GB18030
    return UTF8


def _is_utf8(raw: bytes) -> bool:
    """Whether the bytes are UTF-8, perhaps with a few that are not."""
    try:
        raw.decode(UTF8)
    except UnicodeDecodeError:
        text = raw.decode(UTF8, "surrogateescape")
        broken = sum("\udc80" <= letter <= "\udcff" for letter in text)
        return 2 * broken < sum(letter > "\x7f" for letter in text)
    return True


def _is_utf16(raw: bytes, name: str) -> bool:
    """Whether the bytes are lines of assigned letters in UTF-16."""
    try:
        text = raw.decode(name)
    except UnicodeDecodeError:
        return False
    if "\n" not in text and "\r" not in text:
        return False
    return all(unicodedata.category(letter) not in {"Cn", "Co"} for letter in text[:_SAMPLE]) and (
        "\0" not in text
    )


def _is_gb18030(raw: bytes) -> bool:
    """Whether the bytes are Chinese in GB18030: nearly all its letters are common ones.

    Big5, Shift JIS and the encodings of Western languages give rare letters instead. Korean gives
    common ones, but only of the first half.
    """
    text = raw.decode(GB18030, "surrogateescape")
    pairs = list(islice(_pairs(text), _SAMPLE))
    hanzi = [pair for pair in pairs if pair and 0xB0 <= pair[0] <= 0xD7]
    common = len(hanzi) + sum(1 for pair in pairs if pair and pair[0] in {0xA1, 0xA3})
    if not hanzi or common < _COMMON_SHARE * len(pairs):
        return False
    return len(hanzi) < _ENOUGH or any(pair[0] > _KOREAN_LAST for pair in hanzi)


def _pairs(text: str) -> Iterator[bytes]:
    """Yield the two bytes of each letter beyond ASCII in GB 2312; none if it has no such letter."""
    for letter in text:
        if letter > "\x7f":
            yield letter.encode("gb2312", "ignore")
