"""The words of answers: data, with one file per language."""

from __future__ import annotations

from weighbridge import data
from weighbridge.data import LANGUAGES
from weighbridge.errors import UsageError


def words(lang: str) -> dict[str, str]:
    """Return the words of tables and notes in a language.

    Raises:
        UsageError: there are no words in this language.

    Example:
        >>> words("zh")["total"]
        '合计'
    """
    if lang not in LANGUAGES:
        raise UsageError(
            "no such language", values={"lang": lang}, hint=f"use one of {', '.join(LANGUAGES)}"
        )
    return data.read_toml(f"words/{lang}.toml")


def label(name: str, lang: str) -> str:
    """Return the name of a component or role in a language; other names stay unchanged.

    Example:
        >>> label("attention", "zh"), label("encoder.layer.0", "en")
        ('自注意力', 'encoder.layer.0')
    """
    roles = data.read_toml("facts/roles.toml")
    known: dict[str, str] = roles["components"].get(name) or roles["roles"].get(name) or {}
    return known.get(lang, name)
