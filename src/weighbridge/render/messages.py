"""Translates messages: errors, hints, notes and help, looked up by their English text.

The English message is in the code that raises it. ``words/messages/ROOM.zh.toml`` gives its
Chinese, with a name in braces for each value that the code puts in:

    "there is no blueprint for the model_type {family}" = "没有 model_type {family} 的蓝图"

A name that begins with ``word`` stands for one word, and with ``list`` for words between commas or
"or". ``key`` and ``field`` stand for a name in a file, which stays as it is, and any other name for
any text. After ``--`` stands the name of an option, which stays too.
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
    """Return the text of an error in a language.

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
    """Return a Chinese text with a full stop, unless it already ends as a sentence."""
    if text.endswith(("。", "？", "！", "?")):
        return text
    return f"{text}。"


def in_language(text: str, lang: str) -> str:
    """Return a message in a language; without a translation it stays English.

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
    """Return a message in a language, or None without a translation.

    A message may consist of several joined by ``; ``, or begin with a place or a rule's name.
    """
    whole = _translation_of_whole(text, lang)
    if whole is not None:
        return whole
    parts = text.split("; ")
    for end in range(1, len(parts)):  # a message may contain a semicolon
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
    """Return the translation of a single message, with a full stop if it has one."""
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
            shown = {name: _value(name, values[name], lang) for name in values}
            shown |= {name: values[name] for name in template.kept & values.keys()}
            return template.translation.format_map(shown)
    return None


def _value(name: str, value: str, lang: str) -> str:
    """Return a value in a language: a list with the language's own commas, a message translated."""
    if not name.startswith(_LIST) or value.endswith(" more"):
        return in_language(value, lang)
    texts = words(lang)
    *others, last = _SEPARATORS.split(value)
    if others and " or " in value:
        return texts["or"].format(others=texts["and"].join(others), last=last)
    return texts["and"].join([*others, last])


class _Template(NamedTuple):
    """A message with values: the text between them, a pattern, and the translation.

    ``kept`` are the names of values that stay as they are: names of options, keys and fields.
    """

    literals: tuple[str, ...]
    pattern: str
    translation: str
    kept: frozenset[str]

    def values_in(self, text: str) -> Mapping[str, str] | None:
        """Return the values that a text has for this message; None for another message."""
        if not all(literal in text for literal in self.literals):
            return None
        match = re.fullmatch(self.pattern, text, re.DOTALL)
        if match is None:
            return None
        return match.groupdict()


@cache
def _messages(lang: str) -> Mapping[str, str]:
    """Return every message of the package in a language, by its English text."""
    messages: dict[str, str] = {}
    suffix = f".{lang}.toml"
    for room in data.names("words/messages", suffix):
        messages |= data.read_toml(f"words/messages/{room}{suffix}")
    return messages


@cache
def _templates(lang: str) -> list[_Template]:
    """Return the messages with values, those with the most fixed text first."""
    templates = [
        _template(english, translated)
        for english, translated in _messages(lang).items()
        if _PLACE.search(english)
    ]
    return sorted(templates, key=lambda template: -sum(map(len, template.literals)))


_PLACE = re.compile(r"\{(\w+)\}")
_OPTION = re.compile(r"--\{(\w+)\}")
_KEPT = ("key", "field")


def _template(english: str, translated: str) -> _Template:
    pieces = _PLACE.split(english)
    literals = tuple(filter(None, pieces[::2]))
    kept = frozenset((*_OPTION.findall(english), *_KEPT))
    return _Template(literals, "".join(_pattern(pieces)), translated, kept)


_LIST = "list"
_SEPARATORS = re.compile(r", | or ")
_NAME = r"(?:(?!: ).)*?"
_VALUES = {
    "word": r"\S+",
    _LIST: r"\S+(?:(?:,| or) \S+)*(?: (?:and|or one of) \d+ more)?",
    **dict.fromkeys(_KEPT, _NAME),
}
"""What the value of a name may be, by the beginning of the name."""


def _pattern(pieces: list[str]) -> Iterator[str]:
    """Yield parts of a regular expression; text and names of values alternate in pieces."""
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
