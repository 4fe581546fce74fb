"""Chooses the language of the program."""

from __future__ import annotations

from weighbridge.data import LANGUAGES
from weighbridge.lean_typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_OWN = "WEIGHBRIDGE_LANG"
_LOCALE = ("LC_ALL", "LC_MESSAGES", "LANG")  # the first one that is set decides, as in POSIX


def language(words: Sequence[str], environment: Mapping[str, str]) -> str:
    """Return the language of ``--lang``, otherwise of the environment, otherwise English.

    ``WEIGHBRIDGE_LANG`` takes precedence over the locale. An unknown language is refused in
    ``--lang``; in the environment it means English.

    Example:
        >>> language(["bert", "--lang", "zh"], {}), language([], {"LANG": "zh_CN.UTF-8"})
        ('zh', 'zh')
        >>> language([], {"WEIGHBRIDGE_LANG": "en", "LANG": "zh_CN.UTF-8"})
        'en'
    """
    given = [*words, ""]
    for place, word in enumerate(words):
        name, equals, value = word.partition("=")
        if not equals:
            value = given[place + 1]
        if name == "--lang" and value in LANGUAGES:
            return value
    for name in (_OWN, *_LOCALE):
        locale = environment.get(name)
        if locale:
            return _named(locale)
    return LANGUAGES[0]


def _named(locale: str) -> str:
    """Return the language of a locale such as ``zh_CN.UTF-8``."""
    for lang in LANGUAGES:
        if locale.lower().startswith(lang):
            return lang
    return LANGUAGES[0]
