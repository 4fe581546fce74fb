"""Messages in another language: errors, hints, notes and help, translated by what they say.

The English of a message stands where it is raised. ``words/messages/ROOM.zh.toml`` gives its
Chinese, with a name in braces for each value that the code puts in:

    "there is no blueprint for the model_type {family}" = "没有 model_type {family} 的蓝图"

A name that begins with ``word`` stands for one word, with ``list`` for words between commas, and
any other name for any text.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from weighbridge import data
from weighbridge.render.words import words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from weighbridge.errors import WeighbridgeError

_ENGLISH = data.LANGUAGES[0]


def error_message(error: WeighbridgeError, lang: str) -> str:
    """Return what an error says, in a language.

    Example:
        >>> from weighbridge.errors import ConfigError
        >>> error = ConfigError("is not UTF-8 text", where="config.json")
        >>> error_message(error, "en"), error_message(error, "zh")
        ('config.json: is not UTF-8 text.', 'config.json：不是 UTF-8 文本。')
    """
    if lang == _ENGLISH:
        return str(error)
    texts = words(lang)
    message = in_language(error.what, lang)
    if error.where:
        where = in_language(error.shown_where, lang)
        message = texts["error_where"].format(where=where, what=message)
    if error.values:
        pairs = []
        for name, value in error.shown_values.items():
            named = {"name": in_language(name, lang), "value": in_language(value, lang)}
            pairs.append(texts["error_value"].format(**named))
        message += texts["error_values"].format(values=texts["comma"].join(pairs))
    return "".join(map(_as_sentence, filter(None, (message, in_language(error.hint, lang)))))


def _as_sentence(text: str) -> str:
    """Return a Chinese text with its full stop, unless it ends as a sentence already."""
    if text.endswith(("。", "？", "！", "?")):
        return text
    return f"{text}。"


def in_language(text: str, lang: str) -> str:
    """Return a message in a language; one without a translation stays as it is.

    Example:
        >>> in_language("is longer than 512 bytes", "zh")
        '超过 512 字节'
    """
    if lang == _ENGLISH:
        return text
    translated = translation(text, lang)
    if translated is None:
        return text
    return translated


def translation(text: str, lang: str) -> str | None:
    """Return a message in a language, or None where it has no translation.

    A message may be several joined by ``; ``, or begin with a place or the name of a rule.
    """
    whole = _translation_of_whole(text, lang)
    if whole is not None:
        return whole
    parts = text.split("; ")
    for end in range(1, len(parts)):  # a message may hold a semicolon itself
        first, rest = "; ".join(parts[:end]), "; ".join(parts[end:])
        heads, tails = _translation_of_whole(first, lang), translation(rest, lang)
        if heads is not None and tails is not None:
            return f"{heads}；{tails}"
    place, colon, rest = text.partition(": ")
    if colon:
        translated = translation(rest, lang)
        if translated is not None:
            return f"{in_language(place, lang)}：{translated}"
    return None


def _translation_of_whole(text: str, lang: str) -> str | None:
    """Return the translation of a message that is one; a full stop at its end stays one."""
    if text.endswith(".") and not text.endswith(".."):
        translated = _translation_of_whole(text[:-1], lang)
        if translated is None:
            return None
        return _as_sentence(translated)
    messages = _messages(lang)
    if text in messages:
        return messages[text]
    for template in _templates(lang):
        values = template.values_in(text)
        if values is not None:
            shown = {name: in_language(value, lang) for name, value in values.items()}
            return template.translation.format_map(shown)
    return None


class _Template(NamedTuple):
    """A message with values in it: the text between them, what matches it, its translation."""

    literals: tuple[str, ...]
    pattern: str
    translation: str

    def values_in(self, text: str) -> Mapping[str, str] | None:
        """Return the values that the message has in a text; None where the text is another one."""
        if not all(literal in text for literal in self.literals):
            return None
        match = re.fullmatch(self.pattern, text, re.DOTALL)
        if match is None:
            return None
        return match.groupdict()


@cache
def _messages(lang: str) -> Mapping[str, str]:
    """Return every message of the package in a language, by its English."""
    messages: dict[str, str] = {}
    suffix = f".{lang}.toml"
    for room in data.names("words/messages", suffix):
        messages |= data.read_toml(f"words/messages/{room}{suffix}")
    return messages


@cache
def _templates(lang: str) -> list[_Template]:
    """Return the messages with values in them, those with the most text of their own first."""
    templates = [
        _template(english, translated)
        for english, translated in _messages(lang).items()
        if _PLACE.search(english)
    ]
    return sorted(templates, key=lambda template: -sum(map(len, template.literals)))


_PLACE = re.compile(r"\{(\w+)\}")


def _template(english: str, translated: str) -> _Template:
    pieces = _PLACE.split(english)
    literals = tuple(filter(None, pieces[::2]))
    return _Template(literals, "".join(_pattern(pieces)), translated)


_VALUES = {"word": r"\S+", "list": r"\S+(?:, \S+)*"}
"""What the value of a name may be, by the beginning of the name."""


def _pattern(pieces: list[str]) -> Iterator[str]:
    """Yield a regular expression's parts: text and names of values take turns in the pieces."""
    seen = set[str]()
    for number, piece in enumerate(pieces):
        if number % 2 == 0:
            yield re.escape(piece)
        elif piece in seen:
            yield f"(?P={piece})"
        else:
            seen.add(piece)
            values = next((_VALUES[kind] for kind in _VALUES if piece.startswith(kind)), ".*?")
            yield f"(?P<{piece}>{values})"
