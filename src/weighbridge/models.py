"""From what a user names to what a ledger needs: "bert-base-chinese", a path, "-", a family or a config -> a Model."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge import blueprint as blueprints
from weighbridge import data, units
from weighbridge.errors import ConfigError, ModelError, UsageError, nearest, printable, shorten
from weighbridge.expr import evaluate, names_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from weighbridge.blueprint import Blueprint

    Config = Mapping[str, Any]

LONGEST_CONFIG = 2 * 2**20  # bytes; published ones have a few thousand, and each can take thirty in memory
ORIGINS = ("catalogue", "defaults", "file", "given", "stdin")
"""Where a config may come from."""

_MOST_SHOWN = 6  # names of a suggestion
_CATALOGUE = "facts/models.toml"


class Model(NamedTuple):
    """A blueprint with every field that it needs bound to a checked value.

    ``where`` names it, ``origin`` is one of `ORIGINS`, ``source`` says where the catalogue has the config from.
    ``config`` is what was given, ``fields`` what the blueprint's expressions see, ``named_class`` the class that the
    config names (the base class where it names none), ``unaccounted`` the fields of the config that nobody knows.
    """

    where: str
    origin: str
    source: str
    config: Config
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
        return {name: _account(self, name) for name in self.config}


def find(model: str | os.PathLike[str] | Config, fields: Config | None = None, *, strict: bool = False) -> Model:
    """Return the model that a user means.

    Args:
        model: a name in the catalogue, with or without its organisation; the path of a ``config.json`` or of a folder
            that holds one; ``"-"`` for a config on standard input; a family; or the config itself.
        fields: fields of the config to replace.
        strict: refuse a config with a field that nobody knows.

    Raises:
        ModelError: there is no such model, family or file.
        ConfigError: the config cannot be read, or describes no buildable model.
        UsageError: a field to replace is none of the family's, or what is given is no model.

    Example:
        >>> find("bert-base-chinese").fields["vocab_size"]
        21128
        >>> find({"model_type": "bert", "hidden_size": 770})
        Traceback (most recent call last):
        weighbridge.errors.ConfigError: the config: a bert needs hidden_size % num_attention_heads == 0
        (hidden_size = 770, num_attention_heads = 12). Change one of them.
    """
    where, origin, source, config = _open(model)
    where = printable(where)
    if fields is not None and not hasattr(fields, "keys"):
        raise UsageError("fields is a mapping from a field to its value", values={"fields": fields})
    if fields:
        config = {**config, **fields}
    blueprint = _blueprint(config, where)
    found = _bind(config, blueprint, where)._replace(origin=origin, source=source)
    if fields:
        _refuse_unknown(found, fields)
    if strict and found.unaccounted:
        raise ConfigError(_unknown_fields(found), where=where, hint="take them out, or leave --strict out")
    return found


def released() -> dict[str, dict[str, Any]]:
    """Return the catalogue: for each released model its family, class, config, parameters of the base class, source.

    It is the caller's own: changing it changes no answer.

    Example:
        >>> released()["google-bert/bert-base-chinese"]["parameters"]
        102267648
    """
    from copy import deepcopy  # noqa: PLC0415

    return deepcopy(data.read_toml(_CATALOGUE))


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
            raise ModelError("the folder holds no config.json", where=model, hint="name the file itself") from None
        raise


def _bytes(path: str) -> bytes:
    if os.path.isdir(os.path.dirname(path) or ".") and os.path.exists(path) and not os.path.isfile(path):
        raise ConfigError(
            "is no regular file", where=path, hint="give the path of a config.json, or - for standard input"
        )
    try:
        with open(path, "rb") as file:
            return file.read(LONGEST_CONFIG + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(
            f"cannot be read: {reason}", where=path, hint="give the path of a config.json or of a folder that holds one"
        ) from None


def parse(text: bytes, where: str) -> Config:
    """Return a config from the bytes of a JSON file.

    Raises:
        ConfigError: it is too long, no JSON, too deep, no object, or says one field twice with different values.

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
        raise ConfigError(error.what, where=where, values=error.values, hint="keep one of the two") from None
    except ValueError as error:
        if "digits" in str(error):
            raise ConfigError("holds an integer of too many digits", where=where, hint=hint) from None
        raise ConfigError(f"is not JSON: {shorten(str(error), str, 100)}", where=where, hint=hint) from None
    if not isinstance(found, dict):
        raise ConfigError("is not a JSON object", where=where, values={"found": found}, hint=hint)
    return found


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        for name, value in pairs:
            if value != found[name]:
                raise ConfigError(f"says {shorten(name)} twice", values={"first": value, "then": found[name]})
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
    by_name = {alias.lower(): full for full in catalogue for alias in _names_of(full, catalogue[full])}
    full_name = by_name.get(name.lower())
    begun = sorted({full for alias, full in by_name.items() if name and alias.startswith(name.lower())}, key=len)
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
    if not name or at < 0 or "\n" in name or text[start] != "[":  # another line may end as a header does
        return None
    import tomllib  # noqa: PLC0415

    ((full_name, entry),) = tomllib.loads(text[start : text.find("\n\n", start) + 1 or None]).items()
    return full_name, entry


# What a config says


def _blueprint(config: Config, where: str) -> Blueprint:
    family = config.get("model_type")
    known = blueprints.families()
    if family is None:
        raise ConfigError(
            "names no model_type", where=where, hint=f"say which it is, for example --set model_type={known[0]}"
        )
    if not isinstance(family, str) or family not in known:
        raise ModelError(
            f"there is no blueprint for the model_type {shorten(family)}",
            where=where,
            hint=f"weighbridge has blueprints for: {', '.join(known)}",
        )
    return blueprints.load(family)


def _bind(config: Config, blueprint: Blueprint, where: str) -> Model:
    fields = dict(blueprint.defaults)
    unaccounted = []
    for name, value in config.items():
        if name not in blueprint.fields:
            if not isinstance(name, str):
                raise ConfigError("a field's name is text", where=where, values={"found": name})
            if not _is_accounted(name, value, blueprint):
                unaccounted.append(name)
        elif value is not None or name in blueprint.never_null:
            fields[name] = _checked(name, value, blueprint, where)
    for name, tree in blueprint.computed.items():
        if name not in fields:
            fields[name] = _checked(name, evaluate(tree, fields), blueprint, where)
    for rule, tree in blueprint.require.items():
        if evaluate(tree, fields) is not True:
            raise ConfigError(
                f"a {blueprint.family} needs {rule}",
                where=where,
                values={name: fields[name] for name in dict.fromkeys(names_in(tree))},
                hint="change one of them",
            )
    named = _named_class(config, blueprint)
    return Model(where, "given", "", config, blueprint, fields, named, tuple(unaccounted))


def _is_accounted(name: str, value: Any, blueprint: Blueprint) -> bool:
    facts = data.read_toml("facts/fields.toml")
    only = {**facts["only"], **blueprint.only}
    if name in only and value not in (only[name], None):
        return False
    return name in blueprint.inert or name in facts["any"]


_KINDS: dict[type, str] = {
    bool: "true or false",
    dict: "an object",
    float: "a number with a point",
    int: "an integer",
    list: "a list",
    str: "text",
}


def _checked(name: str, value: Any, blueprint: Blueprint, where: str) -> Any:
    """Return a field's value if it is of the kind that the field asks for."""
    if name in blueprint.sizes:
        most = blueprints.MOST_LAYERS if name in blueprint.repeats else blueprints.LARGEST_SIZE
        if type(value) is int and 1 <= value <= most:
            return value
        wanted = f"an integer from 1 to {most}"
    else:
        kind = blueprint.kinds[name]
        if type(value) is kind:
            return blueprints.frozen(value)
        wanted = _KINDS.get(kind, f"a {kind.__name__}")
    raise ConfigError(f"{name} must be {wanted}", where=where, values={name: value}, hint=f"correct {name}")


def _thawed(value: Any) -> Any:
    if isinstance(value, bool | int | float | str):
        return value
    return dict(value) if hasattr(value, "keys") else list(value)


def _named_class(config: Config, blueprint: Blueprint) -> str:
    architectures = config.get("architectures")
    first = architectures[0] if isinstance(architectures, list) and architectures else None
    return first if isinstance(first, str) and first in blueprint.class_names else blueprint.base_class


def _account(model: Model, name: str) -> str:
    if name in model.blueprint.fields:
        return "used"
    if name not in model.unaccounted:
        facts = data.read_toml("facts/fields.toml")
        unexplained = "it changed no tensor when the blueprint was proved"
        return f"changes no shape: {facts['reasons'].get(name) or facts['any'].get(name) or unexplained}"
    if name in model.blueprint.inert:
        return "unaccounted: of another value than the blueprint was proved for"
    likely = nearest(model.blueprint.fields, name, most=1)
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
        shown.append(f"{shorten(name, str)} = {shorten(model.config[name])}{f' ({account})' if account else ''}")
    more = len(model.unaccounted) - len(shown)
    return f"nobody knows what to make of {', '.join(shown)}{f' and {more} more' if more else ''}"


def _refuse_unknown(model: Model, fields: Config) -> None:
    """A field that a user sets by hand must mean something: a slip there is an error, not a note."""
    for name in model.unaccounted:
        if name in fields and name not in model.blueprint.inert:
            known = sorted(model.blueprint.fields)
            near = nearest(known, name)
            raise UsageError(
                f"{model.blueprint.family} has no field {shorten(name, str)}",
                hint=f"did you mean {' or '.join(near)}?" if near else f"it has {', '.join(known)}",
            )
