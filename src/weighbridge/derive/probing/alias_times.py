"""Finds when a config class reads the other name of a field: with the field, later, or not at all.

Transformers sets most other names after the class has computed fields from the field itself, and
reads older names of a sub-config's fields only in files without that sub-config.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from weighbridge.derive.probing.subject import Subject


def late_aliases(subject: Subject, aliases: Mapping[str, str]) -> list[str]:
    """Return the aliases that are read after other fields were computed from the field."""
    usual = subject.fields(subject.config(subject.start))
    late: list[str] = []
    for alias, name in sorted(aliases.items()):
        for value in unlike_values(usual.get(name)):
            with suppress(Exception):  # the reference code refuses this value
                at_once = subject.fields(subject.config({**subject.start, name: value}))
                afterwards = subject.fields(subject.config({**subject.start, alias: value}))
                if at_once != afterwards and afterwards.get(name) == value:
                    late.append(alias)
                break
    return late


def flat_aliases(subject: Subject, aliases: Mapping[str, str], places: Iterable[str]) -> list[str]:
    """Return the aliases of fields in sub-configs that are read only in configs without these."""
    known = set(places)
    usual = subject.fields(subject.config(subject.start))
    flat: list[str] = []
    for alias, name in sorted(aliases.items()):
        place = name.rpartition(".")[0]
        if place not in known or alias.rpartition(".")[0] == place:
            continue
        for value in unlike_values(usual.get(name)):
            with suppress(Exception):  # the reference code refuses this value
                with_both = subject.fields(
                    subject.config({**subject.start, place: {}, alias: value})
                )
                if with_both.get(name) != value:
                    flat.append(alias)
                break
    return flat


def unlike_values(value: Any) -> list[Any]:
    """Return values to try in place of one; none if it is not a number or a flag."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [2 * value + 2, value + 1]
    return []
