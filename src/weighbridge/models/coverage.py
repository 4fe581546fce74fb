"""What a blueprint covers: fields held at one value, and holes that a config touches."""

from __future__ import annotations

from weighbridge import data
from weighbridge.algebra.expr import evaluate, names_in
from weighbridge.errors import ConfigError, shorten
from weighbridge.lean_typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from weighbridge.blueprint.schema import Blueprint

    Config = Mapping[str, Any]

_HELD = "only one value of "
"""The beginning of a hole about a field that is held at its default."""

_UNBUILT = " could not be built"

_STAGES = "out_features"
"""The field of a backbone's config that chooses stages by name."""

_OFF: tuple[object, ...] = (None, False, 0, "", (), {})
"""Values by which a config leaves a feature off."""


def held_fields(blueprint: Blueprint) -> dict[str, Any]:
    """Return the fields of which a blueprint covers one value only, with that value."""
    held: dict[str, Any] = {}
    for tree in blueprint.require.values():
        if tree[0] == "==" and tree[1][0] == "name" and not [*names_in(tree[2])]:
            held[tree[1][1]] = evaluate(tree[2], {})
    for name, texts in blueprint.values.items():
        if len(texts) == 1 and name in blueprint.fields:
            held.setdefault(name, texts[0])
    for hole in blueprint.proof.get("holes", ()):
        name = _held_in(hole)
        if name in blueprint.fields:
            held.setdefault(name, blueprint.at_defaults[name])
    return held


def _held_in(hole: str) -> str:
    """Return the field that a hole says is held; nothing for other holes."""
    if not hole.startswith(_HELD):
        return ""
    return hole.removeprefix(_HELD).partition(" ")[0]


def deciding_holes(given: Config, fields: Config, blueprint: Blueprint) -> Iterator[str]:
    """Yield a statement for each hole of the blueprint that a config touches.

    A hole is touched if the config sets a field that it names to a value that was not covered. A
    line of code behind a guard is not: the config would be refused.
    """
    guarded = set(blueprint.guards.values())
    for class_name in blueprint.class_names:
        guarded.update(blueprint.class_guards(class_name).values())
    for hole in blueprint.proof.get("holes", ()):
        if hole in guarded:
            continue
        touched = _touched(hole, given, fields, blueprint)
        if touched:
            values = ", ".join(f"{name} = {shorten(given[name])}" for name in touched)
            what = f"the blueprint has a hole, and this config may concern it ({values})"
            yield f"{what}: {hole}"


def check_holes(given: Config, fields: Config, blueprint: Blueprint, where: str) -> None:
    """Refuse a config that a hole of its blueprint may concern.

    Raises:
        ConfigError: it sets a field that a hole names to a value that was not covered.
    """
    for what in deciding_holes(given, fields, blueprint):
        raise ConfigError(what, where=where, hint="change them, or drop --strict")


def stages_chosen(given: Config, blueprint: Blueprint, class_name: str) -> Iterator[str]:
    """Yield a statement for each field that chooses stages, if their effect was not proved."""
    if _STAGES in blueprint.fields or _STAGES in blueprint.inert:
        return
    for name in data.read_toml("facts/saved.toml")["backbone"]:
        if name in given:
            stated = f"{name} = {shorten(given[name])}"
            what = f"the blueprint covers {class_name} only at its default stages"
            yield f"{what}, and the config sets {stated}"


def _touched(hole: str, given: Config, fields: Config, blueprint: Blueprint) -> list[str]:
    """Return the fields that a hole names, and that the config sets to what was not covered."""
    if _UNBUILT in hole:
        return []  # it is about a class, and a note says if the config names it
    held, words, explained = _held_in(hole), frozenset(_words_in(hole)), _explained()
    touched = []
    for spelling, value in given.items():
        name = blueprint.aliases.get(spelling, spelling)
        last = name.rpartition(".")[2]
        if name == held:
            if _is_uncovered(name, fields, blueprint):
                touched.append(spelling)
        elif name in blueprint.fields or name in blueprint.configs or last in explained:
            continue  # the proof changed it, or its effect is known
        elif last in words and value not in _OFF:
            touched.append(spelling)
    return touched


def _is_uncovered(name: str, fields: Config, blueprint: Blueprint) -> bool:
    """Whether a field that is held has another value, and no rule refuses that."""
    if name not in fields or any(name in names_in(rule) for rule in blueprint.require.values()):
        return False
    covered = (blueprint.at_defaults.get(name), blueprint.given.get(name))
    return fields[name] not in covered


def _explained() -> frozenset[str]:
    """Return the fields that are known to change no shape."""
    facts = data.read_toml("facts/fields.toml")
    return frozenset(facts["any"]) | frozenset(facts["reasons"])


def _words_in(hole: str) -> Iterator[str]:
    """Yield the names of attributes in the code that a hole quotes: ``config.name``."""
    for piece in hole.split("onfig.")[1:]:
        name = ""
        for character in piece:
            if not (character.isalnum() or character == "_"):
                break
            name += character
        yield name
