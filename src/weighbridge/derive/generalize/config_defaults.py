"""How the reference fills in a config: defaults, computed fields, spellings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge.algebra.rewrite import NULL, field_names
from weighbridge.blueprint.schema import LEFT_OUT
from weighbridge.derive.generalize.field_values import default_expression, field_expression
from weighbridge.derive.generalize.places import value_at

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from weighbridge.algebra.expr import Tree
    from weighbridge.derive.probing.probe import Probe
    from weighbridge.derive.probing.subject import Subject


class FieldOrigins(NamedTuple):
    """The values of fields that a config leaves out."""

    defaults: dict[str, Any]
    given: dict[str, Any]
    """Other defaults, for sub-configs that are given without the field."""
    computed: dict[str, Tree]
    nullable: set[str]
    unknown: list[str]


class _Shown(NamedTuple):
    """What probes and the config class itself show about a config's fields."""

    subject: Subject
    probes: Sequence[Probe]
    default: Mapping[str, Any]
    given: Mapping[str, Any]


def fill(
    subject: Subject,
    used: Iterable[str],
    probes: Sequence[Probe],
    implied: Mapping[str, Tree],
    never_kept: Container[str] = (),
    undeclared: Container[str] = (),
) -> FieldOrigins:
    """Return where the used fields come from, and the fields that these need.

    Args:
        subject: the code that the config belongs to.
        used: the fields that the blueprint uses.
        probes: configs that show the values of fields.
        implied: the values that the model uses for null fields, from `settle`.
        never_kept: the fields that the config class always replaces, from `overruled`.
        undeclared: attributes that the code reads and no config class has.
    """
    shown = _Shown(subject, probes, _defaults(subject), subject.fields_of_given())
    origins = FieldOrigins({}, {}, {}, set(), [])
    waiting, seen = list(dict.fromkeys(used)), set[str]()
    while waiting:
        name = waiting.pop(0)
        if name in seen:
            continue
        seen.add(name)
        if name in undeclared:
            origins.computed[name] = NULL
            origins.nullable.add(name)
            continue
        if name in never_kept and subject.stated.get(name) is not None:
            # an expression that names the field means the config's value, not the class's
            origins.defaults[name] = subject.stated[name]
            tree = None
        else:
            tree = _add_origin(origins, shown, name, implied)
        if tree is not None:
            origins.computed[name] = tree
            waiting.extend(sorted(field_names(tree)))
        if tree == NULL or any(_stays_null(probe, name) for probe in probes):
            origins.nullable.add(name)
    return origins


def _defaults(subject: Subject) -> dict[str, Any]:
    """Return the default of every field, including those of optional sub-configs."""
    with_all = {**subject.start, **{place: {} for place in subject.optional}}
    return {
        **subject.fields(subject.config(with_all)),
        **subject.fields(subject.config(subject.start)),
    }


def _stays_null(probe: Probe, name: str) -> bool:
    return name in probe.changes and name in probe.fields and probe.fields[name] is None


def _add_origin(
    origins: FieldOrigins, shown: _Shown, name: str, implied: Mapping[str, Tree]
) -> Tree | None:
    """Add a field's default, if it has one; return the expression that computes it, if any."""
    default, given = shown.default.get(name), shown.given.get(name)
    rule = _rule(shown, name)
    tree = implied.get(name, rule)
    if tree is not None:
        if rule is None and default is not None:
            origins.defaults[name] = default
        elif _is_assumed(shown, name, tree):
            origins.defaults[name], origins.given[name] = default, LEFT_OUT
        return tree
    if default is None:
        origins.unknown.append(f"the default of {name} is not known")
        return None
    origins.defaults[name] = default
    if given is not None and given != default:
        origins.given[name] = given
    return _if_null(shown, name)


def _is_assumed(shown: _Shown, name: str, tree: Tree) -> bool:
    """Whether a field is computed only if its sub-config is given, and otherwise fixed."""
    default, given = shown.default.get(name), shown.given.get(name)
    if type(default) is not int or type(given) is not int:
        return False
    return bool(default != value_at(tree, shown.default) and given == value_at(tree, shown.given))


def _if_null(shown: _Shown, name: str) -> Tree | None:
    """Return what the reference puts in place of a null for a field that has a default."""
    nulled = [probe for probe in shown.probes if probe.changes.get(name, name) is None]
    filled_in = [probe for probe in nulled if probe.fields.get(name) is not None]
    if not filled_in or len(filled_in) < len(nulled):
        return None
    return field_expression(shown.subject, name, filled_in)


def _rule(shown: _Shown, name: str) -> Tree | None:
    """Return how a field follows from others; None if it has a default of its own."""
    place, _, last = name.rpartition(".")
    labels = name.removesuffix("num_labels") + "id2label"
    if last == "num_labels" and labels in shown.default:
        return ("len", ("name", labels))
    if last == "id2label":
        return None
    if name in shown.subject.optional:
        return NULL
    free = [probe for probe in shown.probes if name not in probe.changes and name in probe.fields]
    values = [probe.fields[name] for probe in free]
    if _has_own_value(shown, name, place, free) or _replaces_null(shown, name, values):
        return None
    if not values:
        return None
    if all(value is None for value in values):
        return NULL
    if all(value == [] for value in values):
        return ("list",)
    return default_expression(shown.subject, name, free)


def _has_own_value(shown: _Shown, name: str, place: str, free: Iterable[Probe]) -> bool:
    """Whether a field has a default that no other field changes.

    The default may depend on whether the sub-config is given.
    """
    if shown.subject.stated.get(name) is None:
        return False
    if_given: list[Any] = []
    if_absent: list[Any] = []
    for probe in free:
        is_given = any(path.startswith(f"{place}.") for path in probe.changes)
        (if_given if is_given else if_absent).append(probe.fields[name])
    return _are_alike(if_given) and _are_alike(if_absent)


def _replaces_null(shown: _Shown, name: str, values: Sequence[Any]) -> bool:
    """Whether a field has its default whenever it is left out, and another value when null."""
    default = shown.default.get(name)
    if default is None or not all(_is_identical(value, default) for value in values):
        return False
    nulled = [probe for probe in shown.probes if probe.changes.get(name, name) is None]
    return not all(_is_identical(probe.fields.get(name), default) for probe in nulled)


def _are_alike(values: Sequence[Any]) -> bool:
    return all(_is_identical(value, values[0]) for value in values)


def _is_identical(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


def respelled(subject: Subject, probes: Sequence[Probe]) -> dict[str, dict[str, str]]:
    """Return the texts that the config class reads as other texts, by field.

    ``LEFT_OUT`` stands for a text in place of which the class computes a value.
    """
    meanings, ambiguous = _meanings_of_texts(subject, probes)
    others: dict[str, dict[str, str]] = {}
    for name in sorted(meanings):
        changed = {text: meaning for text, meaning in meanings[name].items() if text != meaning}
        if name in ambiguous:  # the class also replaces texts by their places
            changed = dict(changed.items() & subject.older_words.items())
        if changed:
            others[name] = dict(sorted(changed.items()))
    return others


def _meanings_of_texts(
    subject: Subject, probes: Sequence[Probe]
) -> tuple[dict[str, dict[str, str]], set[str]]:
    """Return what the class reads each text as, by field, and the fields with two such readings."""
    meanings: dict[str, dict[str, str]] = {}
    ambiguous: set[str] = set()
    for probe in probes:
        for name, text in _texts_left_out(subject, probe):
            meanings.setdefault(name, {})[text] = LEFT_OUT
        for name, text, meaning in _texts_read(probe):
            if meanings.setdefault(name, {}).setdefault(text, meaning) != meaning:
                ambiguous.add(name)
    return meanings, ambiguous


def _texts_left_out(subject: Subject, probe: Probe) -> Iterator[tuple[str, str]]:
    """Yield each field with a text in place of which the class computed a value."""
    for name, read in probe.fields.items():
        written = probe.changes.get(name, subject.stated.get(name))
        if isinstance(written, str) and not isinstance(read, str) and read is not None:
            yield name, written


def _texts_read(probe: Probe) -> Iterator[tuple[str, str, str]]:
    """Yield each field with a text of the config, and the text that the class reads it as."""
    for name, written in probe.changes.items():
        for text, meaning in zip(_texts(written), _texts(probe.fields.get(name)), strict=False):
            yield name, text, meaning


def _texts(value: Any) -> list[str]:
    items = list(value) if isinstance(value, list | tuple) else [value]
    if all(isinstance(item, str) for item in items):
        return items
    return []
