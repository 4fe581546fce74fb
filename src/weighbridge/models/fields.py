"""Binds the fields of a blueprint to the values of a config, and checks each."""

from __future__ import annotations

from weighbridge import data
from weighbridge.algebra.expr import evaluate, names_in
from weighbridge.blueprint import schema as blueprints
from weighbridge.blueprint.classify import KIND_NAMES, kind_name
from weighbridge.blueprint.guards import check_guards
from weighbridge.blueprint.schema import LEFT_OUT
from weighbridge.errors import ConfigError, ExpressionError, either, shorten
from weighbridge.lean_typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from weighbridge.algebra.expr import Tree
    from weighbridge.blueprint.schema import Blueprint

    Config = Mapping[str, Any]

_MOST_TEXTS = 6  # characters of a field in a message

_KINDS: dict[type, str] = {
    bool: "true or false",
    dict: "an object",
    float: "a number",
    int: "an integer",
    list: f"a list of at most {blueprints.MOST_LAYERS} items",
    str: "text",
}


def flattened(
    config: Config, blueprint: Blueprint, where: str, parent: str = ""
) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a config and their values; those of sub-configs have dotted names.

    A sub-config comes before its fields, as an empty object, or as null.

    Raises:
        ConfigError: a field's name is not text, a sub-config is not an object, or a field is not in
            the sub-config that it belongs to.
    """
    replacing = _replacing_objects(config, blueprint, parent)
    for name, value in config.items():
        if not isinstance(name, str):
            raise ConfigError(
                "the name of a field must be text", where=where, values={"found": name}
            )
        path = f"{parent}{name}"
        if path in replacing.values():
            continue
        path = replacing.get(path, path)
        if "." in name and path in blueprint.fields:
            what, hint = f"{path} belongs to a sub-config", f"give it inside {_parent(path)}"
            raise ConfigError(what, where=where, values={name: value}, hint=hint)
        if path not in blueprint.configs or value is None:
            yield path, value
        elif hasattr(value, "keys"):
            _check_family(path, value.get("model_type"), blueprint, where)
            yield path, {}
            yield from flattened(value, blueprint, where, f"{path}.")
        else:
            what, hint = f"{path} must be an object", "give its fields, or remove it"
            raise ConfigError(what, where=where, values={path: value}, hint=hint)


def _replacing_objects(config: Config, blueprint: Blueprint, parent: str) -> dict[str, str]:
    """Return the objects of a config that replace a sub-config beside them, by dotted path."""
    return {
        alias: path
        for alias, path in blueprint.replacing.items()
        if alias.startswith(parent) and config.get(alias.removeprefix(parent)) is not None
    }


def bind_fields(
    given: Config, blueprint: Blueprint, where: str, set_by_hand: frozenset[str]
) -> dict[str, Any]:
    """Return a value for every field of a blueprint.

    ``given`` is a flattened config; a field that is ``set_by_hand`` overrides its other names.

    Raises:
        ConfigError: the blueprint was not proved for the model of this config.
    """
    stated, stated_late = _stated_fields(given, blueprint, where, set_by_hand)
    _check_beyond(given, blueprint, where)
    if blueprint.tried:
        _check_tried(given, blueprint, where)
    _check_stated(given, blueprint, where)
    fields = _defaults(given, blueprint)
    for name, value in stated.items():
        if value is None and name in blueprint.computed:
            fields.pop(name, None)
        elif value is not None or name in blueprint.nullable or name in blueprint.never_null:
            fields[name] = _checked_value(name, value, blueprint, where)
    for name, tree in blueprint.computed.items():
        if name not in fields:
            value = _evaluated(name, tree, fields, where)
            if value is not None:
                value = _checked_value(name, value, blueprint, where)
            fields[name] = value
    for name, value in stated_late.items():
        fields[name] = _checked_value(name, value, blueprint, where)
    _check_requirements(fields, blueprint, where)
    if blueprint.guards:
        check_guards(blueprint.guards, fields, blueprint.family, where, blueprint.instead)
    return fields


def computed_fields(
    given: Config, blueprint: Blueprint, where: str, set_by_hand: frozenset[str]
) -> dict[str, Tree]:
    """Return the expressions of the fields that a config leaves to be computed, in their order."""
    stated, stated_late = _stated_fields(given, blueprint, where, set_by_hand)
    assumed = _defaults(given, blueprint)
    computed = {}
    for name, tree in blueprint.computed.items():
        is_given = (
            name in assumed
            or name in stated_late
            or not stated_late.keys().isdisjoint(names_in(tree))
        )
        if name in stated:
            is_given = stated[name] is not None
        if not is_given:
            computed[name] = tree
    return computed


def is_accounted(name: str, value: Any, blueprint: Blueprint) -> bool:
    """Return whether a field's value is accounted for: whether its effect is known."""
    facts = data.read_toml("facts/fields.toml")
    name = blueprint.aliases.get(name, name)
    if name in blueprint.fields or name in blueprint.configs:
        return True
    last = name.rpartition(".")[2]
    is_other = last in facts["only"] and value not in (facts["only"][last], None)
    is_known = name in blueprint.inert or last in facts["any"] or ending_of(last)
    if is_known and not is_other and not _unproved(name, value, blueprint):
        return True
    return _is_written_on_saving(name, value, blueprint.family)


def _is_written_on_saving(name: str, value: Any, family: str) -> bool:
    """Whether transformers writes a field on saving, and this value of it changes no tensor."""
    saved = data.read_toml("facts/saved.toml")
    if name in saved["backbone"] or name in saved["inert"].get(family, ()):
        return True
    covered = saved["at"].get(family, {})
    return name in covered and covered[name] == (LEFT_OUT if value is None else value)


# Values that a config states


def _check_family(path: str, family: object, blueprint: Blueprint, where: str) -> None:
    proved = blueprint.configs[path]
    known = (None, proved, *blueprint.spelled.get(f"{path}.model_type", ()))
    if family not in known and proved:
        what = f"the blueprint of {blueprint.family} covers only {proved} as its {path}"
        values = {f"{path}.model_type": family}
        raise ConfigError(what, where=where, values=values, hint=blueprint.instead)


def _stated_fields(
    given: Config, blueprint: Blueprint, where: str, set_by_hand: frozenset[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the values that a config states for the blueprint's fields, under their own names.

    The second dict has those that count only after fields were computed. Fields set by hand take
    precedence. Null under one name leaves the value to the other name, unless the blueprint has
    null as a value of its own.
    """
    stated: dict[str, Any] = {}
    spellings: dict[str, str] = {}
    for spelling in sorted(given, key=lambda name: name not in set_by_hand):
        name = blueprint.aliases.get(spelling, spelling)
        if (
            name not in blueprint.fields
            or spellings.get(name) in set_by_hand
            # the reference reads it only where the sub-config is absent
            or (spelling in blueprint.flat and given.get(_parent(name)) is not None)
        ):
            continue
        value = _in_blueprint_words(name, given[spelling], blueprint)
        if name in stated and stated[name] != value:
            if name in blueprint.nullable or None not in (value, stated[name]):
                values = {spellings[name]: given[spellings[name]], spelling: given[spelling]}
                hint = "keep one of the two"
                raise ConfigError(f"gives {name} twice", where=where, values=values, hint=hint)
            if value is None:
                continue
        stated[name], spellings[name] = value, spelling
    stated_late = _taken_late(stated, spellings, blueprint)
    return stated, stated_late


def _taken_late(
    stated: dict[str, Any], spellings: Mapping[str, str], blueprint: Blueprint
) -> dict[str, Any]:
    """Take out the values under names that count only after fields were computed."""
    late = [name for name in stated if spellings[name] in blueprint.late]
    return {name: stated.pop(name) for name in late if stated[name] is not None}


def _in_blueprint_words(name: str, value: Any, blueprint: Blueprint) -> Any:
    """Return a field's value with the texts of the blueprint.

    A config may write a list as a text: with a letter for each item, ``"M-*"``, or with items
    that are separated, ``"c2p|p2c"``, or its only item without the list.
    """
    if blueprint.kinds.get(name) is list and type(value) is int and may_be_alone(name):
        value = [value]
    if isinstance(value, str) and name in blueprint.separators:
        value = value.split(blueprint.separators[name])
    words = blueprint.spelled.get(name, {})
    if words and isinstance(value, str) and blueprint.kinds[name] in (list, tuple):
        value = list(value)
    return _translated(value, words)


def ending_of(name: str) -> str:
    """Return why a name changes no tensor, by its ending; nothing for other names.

    Example:
        >>> ending_of("eoa_token_id"), ending_of("tokens")
        ('the id of a token', '')
    """
    endings: dict[str, str] = data.read_toml("facts/fields.toml")["endings"]
    return next((endings[end] for end in endings if name.endswith(end)), "")


def may_be_alone(name: str) -> bool:
    """Whether a field is a list of which a config may write the only item."""
    return name.rpartition(".")[2] in data.read_toml("facts/fields.toml")["alone"]


def _translated(value: Any, words: Mapping[str, str]) -> Any:
    """Replace a text, or each text of a list; ``LEFT_OUT`` stands for null."""
    if isinstance(value, list | tuple):
        if not words:
            return value
        return [_translated(item, words) for item in value]
    if not isinstance(value, str | int) or str(value) not in words:
        return value
    word = words[str(value)]
    if word == LEFT_OUT:
        return None
    return word


def _check_beyond(given: Config, blueprint: Blueprint, where: str) -> None:
    """Refuse a field that the reference handles in a way unknown to the blueprint."""
    anywhere = data.read_toml("facts/fields.toml")["beyond"]
    for name, value in given.items():
        if value is not None and (name in blueprint.beyond or name.rpartition(".")[2] in anywhere):
            what = f"sets {name}, which the blueprint of {blueprint.family} does not cover"
            raise ConfigError(what, where=where, values={name: value}, hint=blueprint.instead)


def _check_stated(given: Config, blueprint: Blueprint, where: str) -> None:
    """Refuse a config without a field that has another default in the class."""
    missing = [name for name in blueprint.stated if name not in given]
    if missing:
        what = f"this blueprint of {blueprint.family} is for configs that state {missing[0]}"
        raise ConfigError(what, where=where, hint=blueprint.instead)


def _check_tried(given: Config, blueprint: Blueprint, where: str) -> None:
    """Refuse a value of a kind that a field was not tried with, such as a dict for a number."""
    for name, value in given.items():
        kinds = blueprint.tried.get(name)
        is_left_out = value is None and name not in blueprint.fields
        if kinds is None or is_left_out or kind_name(value) in kinds:
            continue
        kind = _NAMED_KINDS[kind_name(value)]
        what = f"{name} was not tried with {kind} when {blueprint.family} was derived"
        raise ConfigError(what, where=where, values={name: value}, hint=blueprint.instead)


_NAMED_KINDS = {
    "null": "null",
    "flag": "true or false",
    "number": "a number",
    "text": "text",
    "list": "a list",
    "object": "an object",
}


def _defaults(given: Config, blueprint: Blueprint) -> dict[str, Any]:
    """Return the values of the fields that a config leaves out.

    The default of a field in a sub-config depends on whether the config has that sub-config.
    """
    objects = {path for path in blueprint.configs if given.get(path) is not None}
    assumed = {name: value for name, value in blueprint.given.items() if _parent(name) in objects}
    defaults = {**blueprint.defaults, **assumed}
    return {name: value for name, value in defaults.items() if assumed.get(name) != LEFT_OUT}


def _parent(name: str) -> str:
    """Return the path of a field's sub-config."""
    return name.rpartition(".")[0]


# Checks of values


def _check_requirements(fields: Config, blueprint: Blueprint, where: str) -> None:
    for requirement, tree in blueprint.require.items():
        if _evaluated("a requirement", tree, fields, where) is not True:
            what = f"a model of type {blueprint.family} needs {requirement}"
            values = {name: fields[name] for name in dict.fromkeys(names_in(tree))}
            raise ConfigError(what, where=where, values=values, hint="change one of them")


def _evaluated(name: str, tree: Tree, fields: Config, where: str) -> Any:
    try:
        return evaluate(tree, fields)
    except ExpressionError as error:
        what = f"{name} is computed from other fields, but {error.where} {error.what}"
        hint = "change one of them"
        raise ConfigError(what, where=where, values=error.values, hint=hint) from None


def _checked_value(name: str, value: Any, blueprint: Blueprint, where: str) -> Any:
    """Return a field's value if it has the right kind and the blueprint was proved for it."""
    if value is None and name in blueprint.nullable:
        return None
    if name in blueprint.sizes:
        _check_size(name, value, blueprint, where)
    elif not _fits(value, kind := blueprint.kinds[name]) and not _is_second_kind(
        value, kind, blueprint.tried.get(name, ())
    ):
        raise _misfit(name, value, _KINDS.get(kind, f"a {kind.__name__}"), where)
    unproved = _unproved(name, value, blueprint)
    if unproved:
        proved = _alternatives(blueprint.values[name])
        what = f"the blueprint of {blueprint.family} covers {name} only as {proved}"
        hint = f"correct {name}, or {blueprint.instead}"
        raise ConfigError(what, where=where, values={name: unproved[0]}, hint=hint)
    return blueprints.frozen(value)


def _is_second_kind(value: Any, kind: type, tried: Iterable[str]) -> bool:
    """Whether a value is of a kind that was tried beside the default's: a number for "auto"."""
    named = kind_name(value)
    return named in tried and named != KIND_NAMES.get(kind)


def _check_size(name: str, value: Any, blueprint: Blueprint, where: str) -> None:
    least, most = 1, blueprints.LARGEST_SIZE
    if name in blueprint.zero:
        least = 0
    if name in blueprint.counts:
        most = blueprints.MOST_LAYERS
    if type(value) is not int or not least <= value <= most:
        raise _misfit(name, value, f"an integer from {least} to {most}", where)


def _misfit(name: str, value: Any, wanted: str, where: str) -> ConfigError:
    what, hint = f"{name} must be {wanted}", f"correct {name}"
    return ConfigError(what, where=where, values={name: value}, hint=hint)


def _fits(value: Any, kind: type) -> bool:
    """Return whether a value has a field's kind.

    A field that is null by default has no kind and accepts any JSON value.
    """
    if kind is float:
        return type(value) in (int, float) and abs(value) < float("inf")
    if kind is type(None):
        return type(value) in (*_KINDS, tuple)
    if kind is list:
        return type(value) in (list, tuple) and len(value) <= blueprints.MOST_LAYERS
    return type(value) is kind


def _unproved(name: str, value: Any, blueprint: Blueprint) -> list[Any]:
    """Return the texts of a field, or of its items, for which there is no proof."""
    if name not in blueprint.values:
        return []
    if kind_name(value) == "number" and "number" in blueprint.tried.get(name, ()):
        return []
    items = (value,)
    if isinstance(value, list | tuple):
        items = tuple(value)
    return [item for item in items if item is not None and item not in blueprint.values[name]]


def _alternatives(texts: list[str]) -> str:
    shown = [shorten(text) for text in texts[:_MOST_TEXTS]]
    more = len(texts) - len(shown)
    if more:
        return f"{', '.join(shown)} or one of {more} more"
    return either(shown)
