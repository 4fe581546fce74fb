"""Writes guards as the tables of a blueprint, and as holes of its proof."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge.algebra.expr import LONGEST, parse
from weighbridge.algebra.rewrite import field_names
from weighbridge.derive.write import expression
from weighbridge.errors import ExpressionError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from weighbridge.derive.guards.guards import GuardedBranch


_GUARDED, _UNGUARDED = " is guarded", " is not guarded"


class Guards(NamedTuple):
    """The guards of each class, as the text of the rule and of the line that it excludes."""

    by_class: Mapping[str, Mapping[str, str]]
    fields: tuple[str, ...]
    """The fields that the rules name."""
    undeclared: frozenset[str]
    """Those of them that no config class has."""
    holes: tuple[str, ...]
    """The lines that no probe reached, and whether a guard excludes each."""


NO_GUARDS = Guards({}, (), frozenset(), ())


def written_guards(
    branches: Iterable[GuardedBranch], known: Collection[str], aliases: Collection[str]
) -> Guards:
    """Return guards as texts.

    Args:
        branches: the branches that no probe took.
        known: the fields of the config.
        aliases: other names of fields, which the blueprint already reads.
    """
    by_class: dict[str, dict[str, str]] = {}
    fields: dict[str, None] = {}
    holes: dict[str, None] = {}
    for branch, class_names, rules in branches:
        names = set[str]().union(*map(field_names, rules))
        if not names.isdisjoint(aliases):
            continue  # the code reads the other name, as the blueprint does
        texts = [expression(rule) for rule in rules]
        if not texts or not all(map(_is_short, texts)):
            holes.setdefault(f"{branch}{_UNGUARDED}")
            continue
        holes.setdefault(f"{branch}{_GUARDED}")
        for class_name in class_names:
            guards = by_class.setdefault(class_name, {})
            for text in texts:
                guards.setdefault(text, str(branch))
        fields |= dict.fromkeys(sorted(names))
    undeclared = frozenset(name for name in fields if name not in known)
    return Guards(by_class, tuple(fields), undeclared, tuple(holes))


def _is_short(text: str) -> bool:
    """Whether an expression can be read back."""
    try:
        parse(text)
    except ExpressionError:
        return False
    return len(text) <= LONGEST


def add_guards(tables: dict[str, Any], base_class: str, guards: Guards) -> list[str]:
    """Add guards to the tables of a blueprint; return the fields that they name."""
    for class_name, texts in guards.by_class.items():
        if class_name == base_class:
            tables["guards"] = dict(texts)
        elif class_name in tables["classes"]:
            tables["classes"][class_name]["guards"] = dict(texts)
    return list(guards.fields)


def without_rules(guards: Guards, reasons: Iterable[str]) -> Guards:
    """Return guards of which none could be written, for these reasons."""
    holes = [f"the guards were left out: {reason}" for reason in reasons]
    holes += [hole.replace(_GUARDED, _UNGUARDED) for hole in guards.holes]
    return NO_GUARDS._replace(holes=tuple(holes))
