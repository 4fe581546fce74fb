"""Finds a model from a user's argument: a blueprint with a value for each of its fields.

The argument is a name, a path, an address, ``-``, a family or a config. There are four steps, each
a function below: `_config_of` looks up the config, `_replaced` sets fields by hand, a `Reading`
returns the blueprint for the config, and `_bind` combines the two.
"""

from __future__ import annotations

import os
from functools import partial

from weighbridge import data, units
from weighbridge.blueprint import schema as blueprints
from weighbridge.blueprint.paths import above
from weighbridge.errors import (
    ConfigError,
    ModelError,
    UsageError,
    WeighbridgeError,
    either,
    nearest,
    printable,
    shorten,
)
from weighbridge.lean_typing import TYPE_CHECKING, NamedTuple
from weighbridge.models import catalogue
from weighbridge.models.fields import (
    bind_fields,
    computed_fields,
    ending_of,
    flattened,
    is_accounted,
    may_be_alone,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any, TypeGuard

    from weighbridge.algebra.expr import Tree
    from weighbridge.blueprint.schema import Blueprint
    from weighbridge.models.in_memory import ConfigObject
    from weighbridge.readers.module import Module

    Config = Mapping[str, Any]
    Described = str | os.PathLike[str] | Config | ConfigObject | Module
    Reading = Callable[[Config, str], Blueprint]

ORIGINS = ("catalogue", "defaults", "file", "given", "memory", "module", "stdin", "timm")
"""The possible origins of a config."""

_MOST_FIELDS = 24  # of a family, in a message
_MOST_UNKNOWN = 8  # fields in a message

_RELEASED_REASONS = {
    "untied_head": "its output head is a tensor of its own, which transformers ties to the "
    "embeddings",
}
"""The reasons for a released checkpoint to differ from the count of transformers."""


class NamedConfig(NamedTuple):
    """The config of a user's argument: its place, its origin in `ORIGINS`, and its source.

    ``entry`` is the entry of the catalogue, or None for a config from elsewhere.
    """

    where: str
    origin: str
    source: str
    config: Config
    entry: Config | None = None


class Model(NamedTuple):
    """A blueprint with a checked value for every field that it needs.

    ``where`` is its name, ``origin`` one of `ORIGINS`, ``entry`` the catalogue's entry and
    ``source`` the source of its config. ``config`` is the given config, and ``given`` the same with
    dotted names for the fields of sub-configs. ``fields`` are the values for the blueprint's
    expressions. ``named_class`` is the class that the config names, by default the base class.
    ``unaccounted`` are the fields of the config without a known effect, and ``set_by_hand`` those
    that the user replaced.
    """

    where: str
    origin: str
    source: str
    config: Config
    entry: Config | None
    given: Config
    blueprint: Blueprint
    fields: dict[str, Any]
    named_class: str
    unaccounted: tuple[str, ...]
    set_by_hand: tuple[str, ...]

    @property
    def default_class(self) -> str:
        """The class that is weighed by default.

        It is the class of a model in memory, or the class that the config names if it is
        generative, otherwise the base class.

        Example:
            >>> find({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]}).default_class
            'GPT2LMHeadModel'
            >>> find("bert-base-chinese").named_class, find("bert-base-chinese").default_class
            ('BertForMaskedLM', 'BertModel')
        """
        if is_generative(self.named_class) or self.origin == "memory":
            return self.named_class
        return self.blueprint.base_class

    def class_called(self, name: str) -> str:
        """Return the class of the blueprint with a name, whatever its capitals and underscores.

        A name without such a class is returned as it is.
        """
        if name in self.blueprint.class_names or not isinstance(name, str):
            return name
        from weighbridge.models.classes import same_class  # noqa: PLC0415  # most are exact

        return same_class(name, self.blueprint) or name

    @property
    def computed(self) -> dict[str, Tree]:
        """The expressions of the fields that this config leaves to be computed from others."""
        set_by_hand = frozenset(self.set_by_hand)
        return computed_fields(self.given, self.blueprint, self.where, set_by_hand)

    @property
    def as_read(self) -> dict[str, Any]:
        """The values that code reads: all that the config gives, and every field that matters."""
        return {**self.given, **self.fields, **self._alone}

    @property
    def _alone(self) -> dict[str, Any]:
        """The only items of lists that stay alone, unless the config has a list."""
        return {
            name: items[0]
            for name, items in self.fields.items()
            if may_be_alone(name) and len(items) == 1 and not isinstance(self.given.get(name), list)
        }

    @property
    def values(self) -> dict[str, Any]:
        """The value of every field that matters, as a copy that is ready for JSON."""
        written = {**self.fields, **self._alone}
        return {name: thawed(written[name]) for name in sorted(written)}

    @property
    def stated_dtype(self) -> str | None:
        """The dtype of the elements, if the config states one and it is known."""
        stated = _stated_dtype(self.config)
        if isinstance(stated, str) and units.is_dtype(stated):
            return units.dtype(stated)
        return None

    @property
    def notes(self) -> list[str]:
        """Notes for the user on this config, a sentence each."""
        return list(_model_notes(self))

    @property
    def accounts(self) -> dict[str, str]:
        """Whether each field of the config matters: ``"used"``, a reason why not, or unaccounted.

        Example:
            >>> accounts = find("bert", {"hidden_act": "relu", "hidden_size": 24}).accounts
            >>> accounts["hidden_size"], accounts["hidden_act"]
            ('used', 'changes no shape: an activation function has no parameters')
        """
        return {name: _account(self, name) for name in self.given}


def find(
    model: Described,
    fields: Config | None = None,
    *,
    strict: bool = False,
    blueprint: str | os.PathLike[str] | Reading | None = None,
    class_name: str | None = None,
) -> Model:
    """Return the model of a user's argument.

    Args:
        model: a name in the catalogue, with or without its organisation; the path of a
            ``config.json`` or of a folder with one, local or at an address
            (``hf://org/name``); ``"-"`` for a config on standard input; a family; a blueprint's
            ``.toml`` file, for its defaults; the config itself, as a mapping or as an object of
            transformers; or a module of PyTorch.
        fields: fields of the config to replace; ``"text_config.hidden_size"`` is in a sub-config.
        strict: refuse a config with a field without a known effect, or one that a hole may concern.
        blueprint: the file of a blueprint to read the config with, instead of a shipped one; or a
            function that returns a blueprint for a config and its place.
        class_name: the class that is meant, if it is not the one that the config names.

    Raises:
        ModelError: there is no such model, family or file.
        ConfigError: the config cannot be read, or describes no buildable model.
        CheckpointError: there is nothing at the address, or it cannot be read.
        BlueprintError: the blueprint cannot be read, or breaks the law of its format.
        UsageError: the family has no such field to replace, or ``model`` has another type.

    Example:
        >>> find("bert-base-chinese").fields["vocab_size"]
        21128
        >>> find({"model_type": "bert", "hidden_size": 770})
        Traceback (most recent call last):
        weighbridge.errors.ConfigError: the config: a model of type bert needs
        hidden_size % num_attention_heads == 0 (hidden_size = 770, num_attention_heads = 12).
        Change one of them.
    """
    named, reading = _config_and_reading(model, blueprint)
    if fields is not None and not hasattr(fields, "keys"):
        raise UsageError(
            "fields must be a mapping from field names to values", values={"fields": fields}
        )
    if fields:
        fields = {name: _plain_number(value) for name, value in fields.items()}
    if blueprint is None and "pretrained_cfg" in named.config:
        named = _with_arguments(named, fields or {})
    if fields:
        named = named._replace(config=_replaced(named.config, fields, named.where))
    named, read_with = _part_meant(named, reading(named.config, named.where), class_name)
    found = _bind(named, read_with, frozenset(fields or ()))
    if fields:
        _refuse_unknown(found, fields)
    if strict:
        _check_strictly(found)
    return found


def _with_arguments(named: NamedConfig, fields: Config) -> NamedConfig:
    """Return a config of timm with the arguments that its architecture, or another one, gives."""
    from weighbridge.models import timm_configs  # noqa: PLC0415  # most are of transformers

    if not timm_configs.is_of_timm(named.config):
        return named
    stated = {name: fields[name] for name in fields if name == timm_configs.NAME}
    config = timm_configs.with_arguments({**named.config, **stated}, named.where)
    return named._replace(config=config)


def _check_strictly(model: Model) -> None:
    """Refuse a config with anything that could decide more than the blueprint covers."""
    if model.unaccounted:
        what = f"has {_field_list(model, model.unaccounted)}"
        raise ConfigError(what, where=model.where, hint="remove them, or drop --strict")
    from weighbridge.models.coverage import check_holes  # noqa: PLC0415  # most are not strict

    check_holes(model.given, model.fields, model.blueprint, model.where)


def _plain_number(value: Any) -> Any:
    """Return NumPy's numbers, and those like them, as Python's own."""
    if hasattr(value, "item") and getattr(value, "shape", None) == ():
        return value.item()
    return value


def is_generative(class_name: str) -> bool:
    """Whether a class generates text, speech or images, judging by the end of its name.

    Example:
        >>> is_generative("LlamaForCausalLM"), is_generative("LlamaForSequenceClassification")
        (True, False)
    """
    endings = data.read_toml("facts/fields.toml")["architectures"]["generative"]
    return class_name.endswith(tuple(endings))


def bound(config: Config, blueprint: Blueprint, where: str) -> Model:
    """Return the model of a config and a blueprint, even if they name different families.

    Raises:
        ConfigError: the blueprint was not proved for the model of this config.
    """
    return _bind(NamedConfig(where, "given", "", config), blueprint, frozenset())


def _bind(named: NamedConfig, blueprint: Blueprint, set_by_hand: frozenset[str]) -> Model:
    if blueprint.configs:
        from weighbridge.models.parts import with_other_parts  # noqa: PLC0415  # most have none

        blueprint = with_other_parts(blueprint, named.config, named.where)
    given = dict(flattened(named.config, blueprint, named.where))
    if any(name.endswith("per_layer_config") for name in given):
        from weighbridge.models.layer_overrides import without_overrides  # noqa: PLC0415  # rare

        given = without_overrides(given, blueprint)
    if blueprint.family in data.read_toml("facts/unpacked.toml"):
        from weighbridge.models.unpacked import unpacked  # noqa: PLC0415  # rare, too

        given = unpacked(given, blueprint, named.where, set_by_hand)
    return Model(
        *named,
        given=given,
        blueprint=blueprint,
        fields=bind_fields(given, blueprint, named.where, set_by_hand),
        named_class=_named_class(named.config, blueprint),
        unaccounted=tuple(
            name for name, value in given.items() if not is_accounted(name, value, blueprint)
        ),
        set_by_hand=tuple(sorted(set_by_hand)),
    )


def _stated_class(config: Config) -> str | None:
    """Return the first class that a config names."""
    architectures = config.get("architectures")
    if isinstance(architectures, list) and architectures and isinstance(architectures[0], str):
        return architectures[0]
    return None


def _named_class(config: Config, blueprint: Blueprint) -> str:
    stated = _stated_class(config)
    if stated is None:
        return blueprint.base_class
    if stated in blueprint.class_names:
        return stated
    from weighbridge.models import classes  # noqa: PLC0415  # most are named as in transformers

    known = classes.class_for(stated, blueprint, classes.generative_endings())
    return known or blueprint.base_class


def _part_meant(
    named: NamedConfig, blueprint: Blueprint, class_name: str | None
) -> tuple[NamedConfig, Blueprint]:
    """Return the config and blueprint of the text model inside, if only it has the class meant."""
    wanted = class_name or _stated_class(named.config)
    if wanted is None or wanted in blueprint.class_names:
        return named, blueprint
    from weighbridge.models.classes import text_model  # noqa: PLC0415  # most are named directly

    inside = text_model(wanted, named.config, blueprint)
    if inside is None:
        return named, blueprint
    return named._replace(config=inside.config), inside.blueprint


# The config, and the blueprint to read it with


def _config_and_reading(
    model: object, blueprint: str | os.PathLike[str] | Reading | None
) -> tuple[NamedConfig, Reading]:
    if _is_module(model) and blueprint is None:
        return _module(model)
    if callable(blueprint):
        return _config_of(model), blueprint
    if blueprint is None and not _is_blueprint(model):
        return _config_of(model), _shipped
    own = _own_blueprint(model if blueprint is None else blueprint)
    reading = partial(_checked_family, own)
    if blueprint is None:
        return NamedConfig(own.where, "defaults", "", {}), reading
    return _config_of(model), reading


def _is_module(model: object) -> TypeGuard[Module]:
    is_instance = not isinstance(model, type)
    return is_instance and hasattr(model, "named_parameters") and hasattr(model, "state_dict")


def _is_blueprint(model: object) -> bool:
    return isinstance(model, str | os.PathLike) and os.fspath(model).endswith(".toml")


def _own_blueprint(path: object) -> Blueprint:
    """Return the blueprint in a user's file."""
    if not isinstance(path, str | os.PathLike):
        hint = "give the path of a .toml file"
        raise UsageError("blueprint must be a path", values={"blueprint": path}, hint=hint)
    from weighbridge.blueprint import law  # noqa: PLC0415

    return law.read_blueprint(os.path.expanduser(path))


def _checked_family(blueprint: Blueprint, config: Config, where: str) -> Blueprint:
    """Return a user's blueprint if a config has its family or names no family."""
    if config.get("model_type") not in (None, blueprint.family):
        raise ConfigError(
            f"belongs to another family than {blueprint.where}",
            where=where,
            values={"model_type": config["model_type"], "family": blueprint.family},
            hint="remove model_type from the config if it belongs to that family anyway",
        )
    return blueprint


def _shipped(config: Config, where: str) -> Blueprint:
    """Return the blueprint of the family that a config names."""
    family = config.get("model_type")
    is_known = isinstance(family, str) and blueprints.is_family(family)
    if not is_known:
        of_library = _of_library(config, where)
        if of_library is not None:
            return of_library
        _explain_config(config, where)
    if family is None:
        hint = f"name its family with --set model_type={_likely_family(config)}"
        raise ConfigError("names no model_type", where=where, hint=hint)
    if not is_known:
        what = f"there is no blueprint for the model_type {shorten(family)}"
        via = "count it with --via transformers, if transformers is installed"
        hint = f"{blueprints.known_families(str(family))}; {via}"
        raise ModelError(what, where=where, hint=hint)
    return blueprints.load(family)


def _of_library(config: Config, where: str) -> Blueprint | None:
    """Return the blueprint of the class of another library that a config names."""
    from weighbridge.models.libraries import blueprint_for  # noqa: PLC0415  # most have a family

    return blueprint_for(config, where)


def _explain_config(config: Config, where: str) -> None:
    """Refuse a config that is known to belong to another library or format, and name it."""
    from weighbridge.readers.folders import explained_config  # noqa: PLC0415  # most have a family

    explanation = explained_config(config, where)
    if explanation is not None:
        raise ModelError(explanation.what, where=where, hint=explanation.hint)


def _likely_family(config: Config) -> str:
    """Return the most used family with the class in a config, or else a placeholder."""
    architectures = config.get("architectures")
    if isinstance(architectures, list) and architectures:
        from weighbridge.blueprint.evidence import evidence  # noqa: PLC0415  # to explain an error

        families = [
            family
            for family, known in evidence().items()
            if architectures[0] in known["classes"][1:]
        ]
        releases = catalogue.releases_by_family()
        if families:
            return max(families, key=lambda family: (len(releases.get(family, ())), -len(family)))
    return "FAMILY; `weighbridge families` lists them"


def _config_of(model: object) -> NamedConfig:
    """Return the config that a user named or passed."""
    if isinstance(model, str | os.PathLike):
        named = _looked_up(os.fspath(model))
        return named._replace(where=printable(named.where))
    config = None
    if _is_in_memory(model):
        from weighbridge.models.in_memory import config_from  # noqa: PLC0415  # most are names

        config = config_from(model)
    if config is None:
        try:
            config = dict(model)  # type: ignore[call-overload]
        except (TypeError, ValueError):
            what = "weigh() takes a name, a path, a config or a torch module"
            hint = "give a config as a dict or as a transformers config object"
            raise UsageError(what, values={"model": model}, hint=hint) from None
    return NamedConfig("the config", "given", "", config)


def _is_in_memory(model: object) -> bool:
    """Whether an object may be a config object or a module, which have more than mappings."""
    return hasattr(model, "to_dict") or hasattr(model, "named_parameters")


def _module(model: Module) -> tuple[NamedConfig, Reading]:
    """Return the config of a module and its reading: by its family, or else by its tensors.

    The blueprint of its family is used only if it gives the same number of parameters.
    """
    from weighbridge.ledger.ledger import bind  # noqa: PLC0415
    from weighbridge.models import in_memory  # noqa: PLC0415

    class_name = type(model).__name__
    config = in_memory.config_from(model)
    if config is not None and blueprints.is_family(str(config["model_type"])):
        named = NamedConfig(class_name, "memory", "", config)
        try:
            found = _bind(named, _shipped(config, class_name), frozenset())
            total = bind(found.blueprint, class_name, found.fields).parameters
        except WeighbridgeError:
            total = None
        if total == in_memory.parameters_in(model):
            return named, _shipped
    own = in_memory.blueprint_of(model)
    return NamedConfig(class_name, "module", "", in_memory.stated_by(model)), lambda *_: own


def _looked_up(name: str) -> NamedConfig:
    if name == "-":
        from weighbridge.models.config import read_stdin  # noqa: PLC0415  # most need no config

        return NamedConfig("standard input", "stdin", "", read_stdin())
    if "://" in name:
        return _at_address(name)
    path = _path_of(name)
    if path is not None:
        from weighbridge.models.config import read_config  # noqa: PLC0415

        return NamedConfig(path, "file", "", read_config(path))
    if blueprints.is_family(name):
        return NamedConfig(name, "defaults", "", {"model_type": name})
    if "." in name.partition("/")[0] and "/" in name:
        page = _at_page(f"https://{name}")
        if page is not None:
            return page
    from weighbridge.models import timm_configs  # noqa: PLC0415  # most are of transformers

    of_timm = timm_configs.config_named(name)
    if of_timm is not None:
        return NamedConfig(name, "timm", "", of_timm)
    try:
        return _released(*catalogue.look_up(name))
    except ModelError:
        if os.path.isdir(name):
            what, hint = "the folder holds no config.json", "name the file itself"
            raise ModelError(what, where=name, hint=hint) from None
        raise


def _released(full_name: str, entry: Mapping[str, Any]) -> NamedConfig:
    config = catalogue.entry_config(entry)
    return NamedConfig(full_name, "catalogue", entry["source"], config, entry)


def _at_address(address: str) -> NamedConfig:
    page = _at_page(address)
    if page is not None:
        return page
    from weighbridge.models.config import read_address  # noqa: PLC0415

    where, config = read_address(address)
    return NamedConfig(where, "file", "", config)


def _at_page(address: str) -> NamedConfig | None:
    """Return the config of the model with a page at an address; None for other addresses.

    The catalogue takes precedence if the page shows the current version of the model.
    """
    from weighbridge.readers.stores.pages import page_at  # noqa: PLC0415  # most are names

    page = page_at(address)
    if page is None:
        return None
    if page.is_model:
        known = catalogue.entry_of(page.repository)
        if known is not None:
            return _released(*known)
    return _at_address(page.config_address)


def _path_of(name: str) -> str | None:
    """Return the path of a config if a name is such a path, or looks like one."""
    path = name
    if "\0" not in name:
        path = os.path.expanduser(name)
    if os.path.isdir(path):
        path = _config_in(path)
    looks_like_path = name.endswith((".json", os.sep)) or name.startswith((".", os.sep, "~"))
    if os.path.exists(path) or looks_like_path:
        return path
    return None


def _config_in(folder: str) -> str:
    """Return the path of the config in a folder, whether it exists or not.

    Raises:
        ModelError: the folder contains something else.
    """
    path = os.path.join(folder, "config.json")
    if os.path.exists(path):
        return path
    from weighbridge.readers.folders import explained_folder, transformer_in  # noqa: PLC0415

    folder = folder.rstrip(os.sep) or folder
    try:
        names = os.listdir(folder)
    except OSError:
        names = []
    explanation = explained_folder(folder, names)
    if explanation is not None:
        raise ModelError(explanation.what, where=folder, hint=explanation.hint)
    transformer = transformer_in(folder, names)
    if transformer is not None:
        return os.path.join(folder, transformer, "config.json")
    from weighbridge.readers.formats import FORMATS  # noqa: PLC0415

    if any(name.endswith(tuple(FORMATS)) for name in names):
        hint = f"`weighbridge guess {folder}` finds the model from its checkpoint"
        raise ModelError("the folder holds no config.json", where=folder, hint=hint)
    return path


def _replaced(config: Config, fields: Config, where: str) -> Config:
    """Return a copy of a config with other values for some fields."""
    replaced = dict(config)
    for name, value in fields.items():
        inside = replaced
        parents, last = [], name
        if isinstance(name, str):
            *parents, last = name.split(".")
        for parent in parents:
            sub_config = inside.get(parent)
            if sub_config is not None and not hasattr(sub_config, "keys"):
                values = {parent: sub_config, name: value}
                raise UsageError(f"{parent} has no fields", where=where, values=values)
            inside[parent] = inside = dict(sub_config or {})
        inside[last] = value
    return replaced


def _refuse_unknown(model: Model, fields: Config) -> None:
    """Refuse a field set by hand without a known effect, which is probably a mistake."""
    for name in model.unaccounted:
        set_by_hand = any(name in above(path) or path in above(name) for path in fields)
        if set_by_hand and name not in model.blueprint.inert:
            known = sorted(model.blueprint.fields)
            near = nearest(known, name)
            hint = f"it has {_listing(known)}"
            if not known:
                hint = "it has no fields"
            if near:
                hint = f"did you mean {either(near)}?"
            what = f"{model.blueprint.family} has no field {shorten(name, str)}"
            raise UsageError(what, hint=hint)


def _listing(names: list[str]) -> str:
    listing = ", ".join(names[:_MOST_FIELDS])
    if len(names) > _MOST_FIELDS:
        listing += f" and {len(names) - _MOST_FIELDS} more"
    return listing


# Notes on a model


def thawed(value: Any) -> Any:
    """Return a value of a field as a copy that is ready for JSON."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if hasattr(value, "keys"):
        return dict(value)
    return list(value)


def _stated_dtype(config: Config) -> Any:
    stated = config.get("dtype", config.get("torch_dtype"))
    if stated == "auto":
        return None
    return stated


_AT_EVERY_LEVEL = ("tie_word_embeddings",)
"""Fields that transformers reads in a config and in each of its sub-configs, as different ties."""

_MISSPELLING = "unaccounted: likely a misspelling of "


def _account(model: Model, spelling: str) -> str:
    blueprint = model.blueprint
    name = blueprint.aliases.get(spelling, spelling)
    if name in blueprint.fields or name in blueprint.configs:
        return "used"
    if spelling not in model.unaccounted:
        facts, last = data.read_toml("facts/fields.toml"), name.rpartition(".")[2]
        unexplained = "it changed no tensor when the blueprint was proved"
        stated = facts["reasons"].get(last) or facts["any"].get(last) or ending_of(last)
        return f"changes no shape: {stated or unexplained}"
    if name in blueprint.inert:
        return "unaccounted: the blueprint does not cover this value"
    likely = _called_otherwise(name, blueprint)
    likely = likely or nearest([*blueprint.fields, *blueprint.aliases], name, most=1)
    if likely and name.rpartition(".")[2] not in _AT_EVERY_LEVEL:
        return f"{_MISSPELLING}{likely[0]}"
    return "unaccounted"


def _called_otherwise(name: str, blueprint: Blueprint) -> list[str]:
    """Return the fields of a blueprint that other families call by this name."""
    parent, dot, last = name.rpartition(".")
    for size in data.read_toml("facts/article_terms.toml")["sizes"].values():
        if last in size["configs"]:
            names = (f"{parent}{dot}{other}" for other in size["configs"])
            if found := [other for other in names if other in blueprint.fields]:
                return found
    return []


def _model_notes(model: Model) -> Iterator[str]:
    stated = _stated_dtype(model.config)
    if stated is not None and model.stated_dtype is None:
        what = f"unknown dtype {shorten(stated)}"
        yield f"{model.where}: {what}; sizes in bytes are for the default dtype."
    misspelt = dict(_misspelt_fields(model))
    for name, meant in misspelt.items():
        yield f"{model.where}: unknown field {_stated_field(model, name)}; did you mean {meant}?"
    ignored = [name for name in model.unaccounted if name not in misspelt]
    if ignored:
        yield f"{model.where}: {_field_list(model, ignored)}."
    yield from _part_notes(model)
    yield from _release_notes(model)
    yield from _class_notes(model)
    if model.blueprint.proof.get("holes"):
        from weighbridge.models.coverage import deciding_holes  # noqa: PLC0415  # most have none

        for hole in deciding_holes(model.given, model.fields, model.blueprint):
            yield f"{model.where}: {hole}."


def _class_notes(model: Model) -> Iterator[str]:
    """Yield the class that a config names, if it is not in the blueprint."""
    stated = _stated_class(model.config)
    if stated is None or model.class_called(stated) in model.blueprint.class_names:
        return
    if model.named_class != model.blueprint.base_class:
        what = f"transformers has no class {shorten(stated)} for a {model.blueprint.family}"
        yield f"{model.where}: {what}; it builds {model.named_class}."
        return
    known = ", ".join(model.blueprint.class_names)
    what = f"the blueprint does not have the class {shorten(stated)}"
    yield f"{model.where}: {what}; it has {known}."


def _part_notes(model: Model) -> Iterator[str]:
    """Yield which parts come from the blueprint of another family, and whether that was tried."""
    blueprint = model.blueprint
    for path, family in blueprint.composed.items():
        what = f"{path} is weighed by the blueprint of {family}"
        tried = f"derivation did not try the two together for {blueprint.family}"
        for text in blueprint.proof.get("parts", ()):
            place, _, families = text.partition(": ")
            if place == path and family in families.split(", "):
                tried = f"derivation tried the two together for {blueprint.family}"
        yield f"{model.where}: {what} ({tried})."


def _release_notes(model: Model) -> Iterator[str]:
    """Yield the count of a released checkpoint, if transformers counts differently."""
    entry = model.entry or {}
    if "released_reason" in entry and model.config == catalogue.entry_config(entry):
        released = units.count(entry["released_parameters"])
        what = f"the released checkpoint holds {released} parameters"
        yield f"{model.where}: {what}; {_RELEASED_REASONS[entry['released_reason']]}."


def _misspelt_fields(model: Model) -> Iterator[tuple[str, str]]:
    """Yield each field that looks misspelled, with the field that it resembles."""
    for spelling in model.unaccounted[:_MOST_UNKNOWN]:
        account = _account(model, spelling)
        meant = account.removeprefix(_MISSPELLING)
        if meant != account and meant not in model.given:
            yield spelling, meant


def _field_list(model: Model, names: Sequence[str]) -> str:
    shown = ", ".join(_stated_field(model, name) for name in names[:_MOST_UNKNOWN])
    more = len(names) - _MOST_UNKNOWN
    if more > 0:
        return f"ignored fields, with no known effect: {shown} and {more} more"
    return f"ignored fields, with no known effect: {shown}"


def _stated_field(model: Model, name: str) -> str:
    return f"{shorten(name, str)} = {shorten(model.given[name])}"
