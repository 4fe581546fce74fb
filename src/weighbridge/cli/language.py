"""Which language the program speaks."""

from __future__ import annotations

from weighbridge.data import LANGUAGES
from weighbridge.lean_typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_OWN = "WEIGHBRIDGE_LANG"
_LOCALE = ("LC_ALL", "LC_MESSAGES", "LANG")  # the first that is set decides, as POSIX has it


def language(words: Sequence[str], environment: Mapping[str, str]) -> str:
    """Return the language that ``--lang`` names; else the environment's; else English.

    ``WEIGHBRIDGE_LANG`` comes before the locale. A language that weighbridge does not speak is
    refused as the value of ``--lang``, and is English in the environment.

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
        spoken = environment.get(name)
        if spoken:
            return _named(spoken)
    return LANGUAGES[0]


def _named(locale: str) -> str:
    """Return the language of a locale such as ``zh_CN.UTF-8``."""
    for lang in LANGUAGES:
        if locale.lower().startswith(lang):
            return lang
    return LANGUAGES[0]
