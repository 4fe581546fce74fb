"""From what a user names to what a ledger needs: "bert-base-chinese", a path, "-", a family or a config -> a Model."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge import data, units
from weighbridge.algebra.expr import evaluate, names_in
from weighbridge.blueprint import schema as blueprints
from weighbridge.blueprint.paths import above
from weighbridge.blueprint.schema import LEFT_OUT
from weighbridge.errors import (
    ConfigError,
    ExpressionError,
    ModelError,
    UsageError,
    nearest,
    printable,
    shorten,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from weighbridge.algebra.expr import Tree
    from weighbridge.blueprint.schema import Blueprint

    Config = Mapping[str, Any]
    Reading = Callable[[Config, str], Blueprint]

LONGEST_CONFIG = (
    2 * 2**20
)  # bytes; published ones have a few thousand, and each can take thirty in memory
ORIGINS = ("catalogue", "defaults", "file", "given", "stdin")
"""Where a config may come from."""

_MOST_SHOWN = 6  # names of a suggestion
_MOST_FIELDS = 24  # of a family, in a message
_CATALOGUE = "facts/models.toml"


class Model(NamedTuple):
    """A blueprint with every field that it needs bound to a checked value.

    ``where`` names it, ``origin`` is one of `ORIGINS`, ``source`` says where the catalogue has the
    config from. ``config`` is what was given, and ``given`` the same with the fields of sub-configs
    under dotted names; ``fields`` is what the blueprint's expressions see, ``named_class`` the
    class that the config names (the base class where it names none), ``unaccounted`` the fields of
    the config that nobody knows.
    """

    where: str
    origin: str
    source: str
    config: Config
    given: Config
    blueprint: Blueprint
    fields: dict[str, Any]
    named_class: str
    unaccounted: tuple[str, ...]

    @property
    def values(self) -> dict[str, Any]:
        """The value of every field that matters, by name, ready for JSON and the caller's own."""
        return {name: _thawed(self.fields[name]) for name in sorted(self.fields)}

    @property
    def stated_dtype(self) -> str | None:
        """How the config says that elements are stored, if it says so and it is a dtype."""
        stated = _stated_dtype(self.config)
        return units.dtype(stated) if isinstance(stated, str) and units.is_dtype(stated) else None

    @property
    def notes(self) -> list[str]:
        """What the user should know of this config, a sentence each."""
        return list(_notes(self))

    @property
    def accounts(self) -> dict[str, str]:
        """Why each field of the config does or does not matter: ``"used"``, the reason it changes no shape, or unknown.

        Example:
            >>> accounts = find("bert", {"hidden_act": "relu", "hidden_size": 24}).accounts
            >>> accounts["hidden_size"], accounts["hidden_act"]
            ('used', 'changes no shape: an activation function has no parameters')
        """
        return {name: _account(self, name) for name in self.given}


def find(
    model: str | os.PathLike[str] | Config,
    fields: Config | None = None,
    *,
    strict: bool = False,
    blueprint: str | os.PathLike[str] | Reading | None = None,
) -> Model:
    """Return the model that a user means.

    Args:
        model: a name in the catalogue, with or without its organisation; the path of a
            ``config.json`` or of a folder that holds one, here or at an address
            (``hf://org/name``); ``"-"`` for a config on standard input; a family; a blueprint's
            ``.toml`` file, for its defaults; or the config itself.
        fields: fields of the config to replace; ``"text_config.hidden_size"`` is one of a
            sub-config.
        strict: refuse a config with a field that nobody knows.
        blueprint: the file of a blueprint to read the config by, in place of a shipped one; or what
            makes one of a config and where it is from.

    Raises:
        ModelError: there is no such model, family or file.
        ConfigError: the config cannot be read, or describes no buildable model.
        CheckpointError: there is nothing at the address, or it cannot be read.
        BlueprintError: the blueprint cannot be read, or breaks the law of its format.
        UsageError: a field to replace is none of the family's, or what is given is no model.

    Example:
        >>> find("bert-base-chinese").fields["vocab_size"]
        21128
        >>> find({"model_type": "bert", "hidden_size": 770})
        Traceback (most recent call last):
        weighbridge.errors.ConfigError: the config: a bert needs hidden_size % num_attention_heads == 0
        (hidden_size = 770, num_attention_heads = 12). Change one of them.
    """
    making = blueprint if callable(blueprint) else None
    own = (
        None
        if making
        else _own_blueprint(model if blueprint is None else blueprint, given=blueprint is not None)
    )
    if own is not None and blueprint is None:
        where, origin, source, config = _of_blueprint(own)
    else:
        where, origin, source, config = _open(model)
        where = printable(where)
    if fields is not None and not hasattr(fields, "keys"):
        raise UsageError("fields is a mapping from a field to its value", values={"fields": fields})
    if fields:
        config = _replaced(config, fields, where)
    if making:
        read_by = making(config, where)
    else:
        read_by = _blueprint(config, where) if own is None else _of_family(own, config, where)
    found = _bind(config, read_by, where, frozenset(fields or ()))._replace(
        origin=origin, source=source
    )
    if fields:
        _refuse_unknown(found, fields)
    if strict and found.unaccounted:
        raise ConfigError(
            _unknown_fields(found), where=where, hint="take them out, or leave --strict out"
        )
    return found


def bound(config: Config, blueprint: Blueprint, where: str) -> Model:
    """Return a config read by a blueprint that is given, whatever family either names.

    Raises:
        ConfigError: the config describes no model that the blueprint was proved for.
    """
    return _bind(config, blueprint, where, frozenset())


def released() -> dict[str, dict[str, Any]]:
    """Return the catalogue: for each released model its family, class, config, parameters of the base class, source.

    It is the caller's own: changing it changes no answer.

    Example:
        >>> released()["google-bert/bert-base-chinese"]["parameters"]
        102267648
    """
    from copy import deepcopy  # noqa: PLC0415

    return deepcopy(data.read_toml(_CATALOGUE))


def _replaced(config: Config, fields: Config, where: str) -> Config:
    """Return a config with other values of some fields; the one that was given stays as it is."""
    replaced = dict(config)
    for name, value in fields.items():
        inside = replaced
        *path, last = name.split(".") if isinstance(name, str) else (name,)
        for piece in path:
            found = inside.get(piece)
            if found is not None and not hasattr(found, "keys"):
                raise UsageError(
                    f"{piece} holds no fields", where=where, values={piece: found, name: value}
                )
            inside[piece] = inside = dict(found or {})
        inside[last] = value
    return replaced


# Where a config comes from


def _open(model: object) -> tuple[str, str, str, Config]:
    """Return where a config is, its origin and source, and the config, whatever way it was given."""
    if isinstance(model, dict):
        return "the config", "given", "", dict(model)
    if isinstance(model, str | os.PathLike):
        return _read(os.fspath(model))
    try:
        return "the config", "given", "", dict(model)  # type: ignore[call-overload]
    except (TypeError, ValueError):
        hint = "give a name, a path, or a config as a mapping"
        raise UsageError("a model is no such thing", values={"model": model}, hint=hint) from None


def _read(model: str) -> tuple[str, str, str, Config]:
    """Return where a config was found, its origin and source, and the config."""
    if model == "-":
        import sys  # noqa: PLC0415

        config = parse(sys.stdin.buffer.read(LONGEST_CONFIG + 1), "standard input")
        return "standard input", "stdin", "", config
    if "://" in model:
        return _from_elsewhere(model)
    path = model if "\0" in model else os.path.expanduser(model)
    path = os.path.join(path, "config.json") if os.path.isdir(path) else path
    looks_like_path = model.endswith((".json", os.sep)) or model.startswith((".", os.sep, "~"))
    if os.path.exists(path) or looks_like_path:
        return path, "file", "", parse(_bytes(path), path)
    if model in blueprints.families():
        return model, "defaults", "", {"model_type": model}
    try:
        return _from_catalogue(model)
    except ModelError:
        if os.path.isdir(model):
            raise ModelError(
                "the folder holds no config.json", where=model, hint="name the file itself"
            ) from None
        raise


def _from_elsewhere(address: str) -> tuple[str, str, str, Config]:
    """Return the config at an address, or that of the folder or the repository at it."""
    from weighbridge.readers.rules import without_secrets  # noqa: PLC0415  # most are here
    from weighbridge.readers.stores import open_file, read_on  # noqa: PLC0415

    path = (
        address
        if without_secrets(address).endswith(".json")
        else f"{address.rstrip('/')}/config.json"
    )
    with open_file(path) as file:
        return (
            without_secrets(path),
            "file",
            "",
            parse(read_on(file, LONGEST_CONFIG + 1), without_secrets(path)),
        )


def _bytes(path: str) -> bytes:
    if (
        os.path.isdir(os.path.dirname(path) or ".")
        and os.path.exists(path)
        and not os.path.isfile(path)
    ):
        raise ConfigError(
            "is no regular file",
            where=path,
            hint="give the path of a config.json, or - for standard input",
        )
    try:
        with open(path, "rb") as file:
            return file.read(LONGEST_CONFIG + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(
            f"cannot be read: {reason}",
            where=path,
            hint="give the path of a config.json or of a folder that holds one",
        ) from None


def parse(text: bytes, where: str) -> Config:
    """Return a config from the bytes of a JSON file.

    Raises:
        ConfigError: it is too long, no JSON, too deep, no object, or says one field twice with
            different values.

    Example:
        >>> parse(b'{"hidden_size": 128}', "config.json")
        {'hidden_size': 128}
    """
    import json  # noqa: PLC0415  # a name from the catalogue is answered without it

    hint = "a config is a JSON object such as transformers writes to config.json"
    if len(text) > LONGEST_CONFIG:
        raise ConfigError(f"is longer than {LONGEST_CONFIG} bytes", where=where, hint=hint)
    try:
        found = json.loads(text.decode("utf-8-sig"), object_pairs_hook=_object)
    except RecursionError:
        raise ConfigError("is nested too deeply", where=where, hint=hint) from None
    except UnicodeDecodeError:
        raise ConfigError("is not UTF-8 text", where=where, hint=hint) from None
    except ConfigError as error:
        raise ConfigError(
            error.what, where=where, values=error.values, hint="keep one of the two"
        ) from None
    except ValueError as error:
        if "digits" in str(error):
            raise ConfigError(
                "holds an integer of too many digits", where=where, hint=hint
            ) from None
        raise ConfigError(
            f"is not JSON: {shorten(str(error), str, 100)}", where=where, hint=hint
        ) from None
    if not isinstance(found, dict):
        raise ConfigError("is not a JSON object", where=where, values={"found": found}, hint=hint)
    return found


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        for name, value in pairs:
            if value != found[name]:
                raise ConfigError(
                    f"says {shorten(name)} twice", values={"first": value, "then": found[name]}
                )
    return found


def _from_catalogue(name: str) -> tuple[str, str, str, Config]:
    full_name, entry = _entry(name)
    config = {**entry["config"], "model_type": entry["family"], "architectures": [entry["class"]]}
    return full_name, "catalogue", entry["source"], config


def _entry(name: str) -> tuple[str, dict[str, Any]]:
    """Find a released model by its full name, its name without the organisation, an alias, or their beginning."""
    found = _cut_out(name)
    if found:
        return found
    catalogue = data.read_toml(_CATALOGUE)
    by_name = {
        alias.lower(): full for full in catalogue for alias in _names_of(full, catalogue[full])
    }
    full_name = by_name.get(name.lower())
    begun = sorted(
        {full for alias, full in by_name.items() if name and alias.startswith(name.lower())},
        key=len,
    )
    if full_name is None and len(begun) == 1:
        full_name = begun[0]
    if full_name:
        return full_name, catalogue[full_name]
    near = begun[:_MOST_SHOWN] or nearest(by_name, name) or nearest(blueprints.families(), name)
    shown = list(dict.fromkeys(by_name.get(alias, alias) for alias in near))
    more = f" or one of {len(begun) - len(near)} more" if len(begun) > len(near) else ""
    raise ModelError(
        f"{'several models begin' if begun else 'no model, family or file is named'} so",
        where=shorten(name),
        hint=f"did you mean {', '.join(shown)}{more}?"
        if shown
        else "`weighbridge models` lists the names; a config.json can be given by its path",
    )


def _names_of(full_name: str, entry: Mapping[str, Any]) -> Iterator[str]:
    yield full_name
    yield full_name.rpartition("/")[2]
    yield from entry.get("aliases", ())


def _cut_out(name: str) -> tuple[str, dict[str, Any]] | None:
    """Read one model's table alone: a catalogue has many, and each begins with its name on a line of its own."""
    text = data.read_text(_CATALOGUE)
    at = text.find(f'["{name}"]\n' if "/" in name else f'/{name}"]\n')
    start = text.rfind("\n", 0, at) + 1
    if (
        not name or at < 0 or "\n" in name or text[start] != "["
    ):  # another line may end as a header does
        return None
    import tomllib  # noqa: PLC0415

    ((full_name, entry),) = tomllib.loads(
        text[start : text.find("\n\n", start) + 1 or None]
    ).items()
    return full_name, entry


# What a config says


def _blueprint(config: Config, where: str) -> Blueprint:
    family = config.get("model_type")
    known = blueprints.families()
    if family is None:
        raise ConfigError(
            "names no model_type",
            where=where,
            hint=f"say which it is, for example --set model_type={known[0]}",
        )
    if not isinstance(family, str) or family not in known:
        raise ModelError(
            f"there is no blueprint for the model_type {shorten(family)}",
            where=where,
            hint=f"{blueprints.known_families(str(family))}; --via transformers counts it with transformers itself, "
            "if that is installed",
        )
    return blueprints.load(family)


def _own_blueprint(path: object, *, given: bool) -> Blueprint | None:
    """Return the blueprint in a file of the user's; None where a model is none, and so may be anything else."""
    if not isinstance(path, str | os.PathLike):
        if given:
            raise UsageError(
                "a blueprint is a path",
                values={"blueprint": path},
                hint="give the path of a .toml file",
            )
        return None
    if not given and not os.fspath(path).endswith(".toml"):
        return None
    from weighbridge.blueprint import law  # noqa: PLC0415

    return law.read(os.path.expanduser(path))


def _of_blueprint(blueprint: Blueprint) -> tuple[str, str, str, Config]:
    """Return what `_open` does, for the config of a user's blueprint that says nothing."""
    return blueprint.where, "defaults", "", {}


def _of_family(blueprint: Blueprint, config: Config, where: str) -> Blueprint:
    """Return a blueprint if a config is of its family, or says no family."""
    if config.get("model_type") not in (None, blueprint.family):
        raise ConfigError(
            f"is of another family than {blueprint.where}",
            where=where,
            values={"model_type": config["model_type"], "family": blueprint.family},
            hint="take model_type out of the config if it is of that family all the same",
        )
    return blueprint


def _bind(config: Config, blueprint: Blueprint, where: str, by_hand: frozenset[str]) -> Model:
    given = dict(_flat(config, blueprint, where))
    said = _said(given, blueprint, where, by_hand)
    _check_beyond(given, blueprint, where)
    objects = {path for path in blueprint.configs if given.get(path) is not None}
    assumed = {name: of for name, of in blueprint.given.items() if _above(name) in objects}
    follow = [name for name, of in assumed.items() if of == LEFT_OUT]
    fields = {
        name: of for name, of in {**blueprint.defaults, **assumed}.items() if name not in follow
    }
    for name, value in said.items():
        if value is None and name in blueprint.computed:
            fields.pop(name, None)
        elif value is not None or name in blueprint.nullable or name in blueprint.never_null:
            fields[name] = _checked(name, value, blueprint, where)
    for name, tree in blueprint.computed.items():
        if name not in fields:
            value = _evaluated(name, tree, fields, where)
            fields[name] = None if value is None else _checked(name, value, blueprint, where)
    for rule, tree in blueprint.require.items():
        if _evaluated("a requirement", tree, fields, where) is not True:
            raise ConfigError(
                f"a {blueprint.family} needs {rule}",
                where=where,
                values={name: fields[name] for name in dict.fromkeys(names_in(tree))},
                hint="change one of them",
            )
    unaccounted = tuple(
        name for name, value in given.items() if not _is_accounted(name, value, blueprint)
    )
    return Model(
        where,
        "given",
        "",
        config,
        given,
        blueprint,
        fields,
        _named_class(config, blueprint),
        unaccounted,
    )


def _check_beyond(given: Config, blueprint: Blueprint, where: str) -> None:
    """See that a config says nothing that the reference reads in a way that the blueprint does not know."""
    anywhere = data.read_toml("facts/fields.toml")["beyond"]
    for name, value in given.items():
        if value is not None and (name in blueprint.beyond or name.rpartition(".")[2] in anywhere):
            what = f"says {name}, which the reference reads, and the blueprint of {blueprint.family} does not"
            hint = "count this one with --via transformers, if that is installed"
            raise ConfigError(what, where=where, values={name: value}, hint=hint)


def _in_words(name: str, value: Any, blueprint: Blueprint) -> Any:
    """Return a field's value in the blueprint's own words; a list may be spelled as a text, a letter an item: "M-*"."""
    words = blueprint.spelled.get(name, {})
    one_by_one = words and isinstance(value, str) and blueprint.kinds[name] in (list, tuple)
    return _respelled(list(value) if one_by_one else value, words)


def _respelled(value: Any, words: Mapping[str, str]) -> Any:
    """Return a text, or a list of them, in the words that the blueprint has for it; ``LEFT_OUT`` stands for none."""
    if isinstance(value, list | tuple):
        return [_respelled(item, words) for item in value] if words else value
    word = words.get(str(value), value) if isinstance(value, str | int) else value
    return None if word == LEFT_OUT and word is not value else word


def _evaluated(name: str, tree: Tree, fields: Config, where: str) -> Any:
    try:
        return evaluate(tree, fields)
    except ExpressionError as error:
        what = f"{name} follows from other fields, and {error.where} {error.what}"
        raise ConfigError(
            what, where=where, values=error.values, hint="change one of them"
        ) from None


def _above(name: str) -> str:
    """Return the path of the sub-config that a field is in."""
    return name.rpartition(".")[0]


def _flat(
    config: Config, blueprint: Blueprint, where: str, above: str = ""
) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a config and its value, those of its sub-configs under dotted names.

    A sub-config that is null is left out; one that is given stands before its fields, as an empty
    object.
    """
    for name, value in config.items():
        if not isinstance(name, str):
            raise ConfigError("a field's name is text", where=where, values={"found": name})
        path = f"{above}{name}"
        if "." in name and path in blueprint.fields:
            hint = f"give it inside {_above(path)}"
            raise ConfigError(
                f"{path} is the field of a sub-config", where=where, values={name: value}, hint=hint
            )
        if path not in blueprint.configs or value is None:
            yield path, value
        elif hasattr(value, "keys"):
            _check_family(path, value.get("model_type"), blueprint, where)
            yield path, {}
            yield from _flat(value, blueprint, where, f"{path}.")
        else:
            raise ConfigError(
                f"{path} must be an object",
                where=where,
                values={path: value},
                hint="give its fields, or leave it out",
            )


def _check_family(path: str, family: object, blueprint: Blueprint, where: str) -> None:
    proved = blueprint.configs[path]
    if family not in (None, proved) and proved:
        raise ConfigError(
            f"a {blueprint.family} was held against the reference with a {proved} as its {path} alone",
            where=where,
            values={f"{path}.model_type": family},
            hint="count this one with --via transformers, if that is installed",
        )


def _said(
    given: Config, blueprint: Blueprint, where: str, by_hand: frozenset[str]
) -> dict[str, Any]:
    """Return what a config says of the blueprint's fields, under their own names; what is set by hand goes first."""
    said: dict[str, Any] = {}
    by: dict[str, str] = {}
    for spelled in sorted(given, key=lambda name: name not in by_hand):
        name = blueprint.aliases.get(spelled, spelled)
        if name not in blueprint.fields or by.get(name) in by_hand:
            continue
        value = _in_words(name, given[spelled], blueprint)
        if name in said and said[name] != value:
            values = {by[name]: given[by[name]], spelled: given[spelled]}
            raise ConfigError(
                f"says {name} twice", where=where, values=values, hint="keep one of the two"
            )
        said[name], by[name] = value, spelled
    return said


def _is_accounted(name: str, value: Any, blueprint: Blueprint) -> bool:
    facts = data.read_toml("facts/fields.toml")
    name = blueprint.aliases.get(name, name)
    if name in blueprint.fields or name in blueprint.configs:
        return True
    last = name.rpartition(".")[2]
    if last in facts["only"] and value not in (facts["only"][last], None):
        return False
    if _unproved(name, value, blueprint):
        return False
    return name in blueprint.inert or last in facts["any"]


def _unproved(name: str, value: Any, blueprint: Blueprint) -> list[Any]:
    """Return the texts of a field, itself or its items, at which it was not proved."""
    if name not in blueprint.values:
        return []
    items = value if isinstance(value, list | tuple) else (value,)
    return [item for item in items if item is not None and item not in blueprint.values[name]]


_KINDS: dict[type, str] = {
    bool: "true or false",
    dict: "an object",
    float: "a number",
    int: "an integer",
    list: f"a list of at most {blueprints.MOST_LAYERS} items",
    str: "text",
}


def _checked(name: str, value: Any, blueprint: Blueprint, where: str) -> Any:
    """Return a field's value if it is of the kind that the field asks for, and one that it was proved at."""
    if value is None and name in blueprint.nullable:
        return None
    if name in blueprint.sizes:
        least = 0 if name in blueprint.zero else 1
        most = blueprints.MOST_LAYERS if name in blueprint.counts else blueprints.LARGEST_SIZE
        fits, wanted = (
            type(value) is int and least <= value <= most,
            f"an integer from {least} to {most}",
        )
    else:
        kind = blueprint.kinds[name]
        fits, wanted = _fits(value, kind), _KINDS.get(kind, f"a {kind.__name__}")
    if not fits:
        raise ConfigError(
            f"{name} must be {wanted}", where=where, values={name: value}, hint=f"correct {name}"
        )
    if _unproved(name, value, blueprint):
        proved = _either(blueprint.values[name])
        raise ConfigError(
            f"a {blueprint.family} was held against the reference with {name} as {proved} alone",
            where=where,
            values={name: _unproved(name, value, blueprint)[0]},
            hint=f"correct {name}, or count with --via transformers, if that is installed",
        )
    return blueprints.frozen(value)


def _fits(value: Any, kind: type) -> bool:
    """Whether a value is of a field's kind; of none, where the field is null by default, whatever JSON has will do."""
    if kind is float:
        return type(value) in (int, float) and abs(value) < float("inf")
    if kind is type(None):
        return type(value) in (*_KINDS, tuple)
    if kind is list:
        return type(value) in (list, tuple) and len(value) <= blueprints.MOST_LAYERS
    return type(value) is kind


def _either(texts: list[str]) -> str:
    shown = [shorten(text) for text in texts[:_MOST_SHOWN]]
    more = len(texts) - len(shown)
    return f"{', '.join(shown)} or one of {more} more" if more else " or ".join(shown)


def _thawed(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return dict(value) if hasattr(value, "keys") else list(value)


def _named_class(config: Config, blueprint: Blueprint) -> str:
    architectures = config.get("architectures")
    first = architectures[0] if isinstance(architectures, list) and architectures else None
    return (
        first if isinstance(first, str) and first in blueprint.class_names else blueprint.base_class
    )


def _account(model: Model, spelled: str) -> str:
    blueprint = model.blueprint
    name = blueprint.aliases.get(spelled, spelled)
    if name in blueprint.fields or name in blueprint.configs:
        return "used"
    if spelled not in model.unaccounted:
        facts, last = data.read_toml("facts/fields.toml"), name.rpartition(".")[2]
        unexplained = "it changed no tensor when the blueprint was proved"
        return f"changes no shape: {facts['reasons'].get(last) or facts['any'].get(last) or unexplained}"
    if name in blueprint.inert:
        return "unaccounted: of another value than the blueprint was proved for"
    likely = nearest([*blueprint.fields, *blueprint.aliases], name, most=1)
    return f"unaccounted: likely a misspelling of {likely[0]}" if likely else "unaccounted"


def _stated_dtype(config: Config) -> Any:
    stated = config.get("dtype", config.get("torch_dtype"))
    return None if stated == "auto" else stated


def _notes(model: Model) -> Iterator[str]:
    stated = _stated_dtype(model.config)
    if stated is not None and model.stated_dtype is None:
        yield f"{model.where}: nobody knows the dtype {shorten(stated)}; sizes in bytes are as if it said none."
    if model.unaccounted:
        yield f"{model.where}: {_unknown_fields(model)}; the count leaves it out."
    named = model.config.get("architectures")
    if isinstance(named, list) and named and named[0] not in model.blueprint.class_names:
        known = ", ".join(model.blueprint.class_names)
        yield f"{model.where}: names the class {shorten(named[0])}, which the blueprint does not have; it has {known}."


def _unknown_fields(model: Model) -> str:
    shown = []
    for name in model.unaccounted[:8]:
        account = _account(model, name).removeprefix("unaccounted").removeprefix(": ")
        shown.append(
            f"{shorten(name, str)} = {shorten(model.given[name])}{f' ({account})' if account else ''}"
        )
    more = len(model.unaccounted) - len(shown)
    return f"nobody knows what to make of {', '.join(shown)}{f' and {more} more' if more else ''}"


def _refuse_unknown(model: Model, fields: Config) -> None:
    """A field that a user sets by hand must mean something: a slip there is an error, not a note."""
    for name in model.unaccounted:
        set_by_hand = any(path in fields for path in above(name))
        if set_by_hand and name not in model.blueprint.inert:
            known = sorted(model.blueprint.fields)
            near = nearest(known, name)
            raise UsageError(
                f"{model.blueprint.family} has no field {shorten(name, str)}",
                hint=f"did you mean {' or '.join(near)}?" if near else f"it has {_among(known)}",
            )


def _among(names: list[str]) -> str:
    shown = ", ".join(names[:_MOST_FIELDS])
    return f"{shown} and {len(names) - _MOST_FIELDS} more" if len(names) > _MOST_FIELDS else shown
