"""The languages that reports are written in: data, one file a language."""

from __future__ import annotations

from typing import Any

from weighbridge import data
from weighbridge.errors import UsageError

LANGUAGES = ("en", "zh")


def words(lang: str) -> dict[str, str]:
    """Return the words of tables and notes in a language.

    Raises:
        UsageError: weighbridge does not speak it.

    Example:
        >>> words("zh")["total"]
        '合计'
    """
    if lang not in LANGUAGES:
        raise UsageError("no such language", values={"lang": lang}, hint=f"use one of {', '.join(LANGUAGES)}")
    return data.read_toml(f"report/words/{lang}.toml")


def label(name: str, lang: str) -> str:
    """Return the name of a component or a role in a language; a name that is neither stays as it is.

    Example:
        >>> label("attention", "zh"), label("encoder.layer.0", "en")
        ('自注意力', 'encoder.layer.0')
    """
    roles = data.read_toml("facts/roles.toml")
    known: dict[str, str] = roles["components"].get(name) or roles["roles"].get(name) or {}
    return known.get(lang, name)


def letters() -> dict[str, str]:
    """Return the letter of each config field, in the order that a term's factors stand in."""
    return {field: symbol["letter"] for field, symbol in data.read_toml("facts/symbols.toml").items()}


def meaning_of(field: str, lang: str) -> str:
    """Return what a config field counts, in a language."""
    symbol: dict[str, Any] = data.read_toml("facts/symbols.toml").get(field, {})
    return str(symbol.get(lang, field))
