"""The model types of transformers: their configs, their fields and their classes."""

from __future__ import annotations

import contextlib
import copy
import importlib
import inspect
import re
import sys
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import torch

from weighbridge import data
from weighbridge.derive.probing import extras  # must precede transformers

# isort: split
import transformers
from transformers import configuration_utils
from transformers.models.auto import AutoConfig, configuration_auto, modeling_auto

from weighbridge.derive.probing import probe as probes
from weighbridge.derive.probing.auto_parts import recorded_parts
from weighbridge.derive.probing.candidates import KEYWORD_ANNOTATION
from weighbridge.derive.probing.family_configs import (
    config_at,
    config_knobs,
    held_values,
    other_spellings,
    plain_fields,
    prepare_configs,
    remember_fields,
    stated_defaults,
    sub_config_types,
    values_of_any_type,
)
from weighbridge.derive.probing.family_keywords import FamilyKeywords
from weighbridge.derive.probing.reversal import Files, saved_files_of
from weighbridge.derive.probing.stand_ins import install_stand_ins
from weighbridge.derive.probing.subject import Knob
from weighbridge.derive.probing.symbolic import SymbolicTrace, lift, plain_value, tracing
from weighbridge.derive.probing.unlisted_fields import model_code, read_below, read_unlisted
from weighbridge.errors import ModelError, either, nearest, shorten

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from torch import nn
    from transformers.configuration_utils import PreTrainedConfig

_UNUSUAL_SIZE = 7936  # an even number, which rotary embeddings need, that no default is

# Keys of starts.toml that are not fields: groups of fields that are turned together, fields that
# keep their defaults, and keywords that are never tried.
_NOT_FIELDS = (_TOGETHER, _PINNED, _BEYOND, _REQUIRED) = ("together", "pinned", "beyond", "require")
_OBJECT = re.compile(r"(config|setting)s?$")  # names of keywords that take a dict
# An abstract class, with no tensors of its own.
_ABSTRACT = re.compile(r"Pre[Tt]rained(\w*)Model$")
_TYPE_COMPARED = re.compile(r"model_type\W[^\n]*(?:==|!=|\bin\b)([^\n]*)")
_QUOTED = re.compile(r"['\"]([\w-]+)['\"]")
_LABEL_COUNT = "num_labels"  # a property, which configs may set nevertheless
_TIE = "tie_word_embeddings"
_BASE_CLASSES = modeling_auto.MODEL_MAPPING_NAMES
_TASK_TABLE = re.compile(r"MODEL_\w+_MAPPING_NAMES")
_MOST_SUGGESTED = 6  # classes to list in a hint if no name is similar


class FamilySubject:
    """A model type of transformers as something to derive.

    Example:
        >>> bert = FamilySubject("bert")
        >>> bert.base_class, bert.fields(bert.config({"hidden_size": 24}))["hidden_size"]
        ('BertModel', 24)
    """

    def __init__(self, family: str) -> None:
        check_family(family)
        self.family = family
        self.config_class: type[PreTrainedConfig] = configuration_auto.CONFIG_MAPPING[family]
        listed = _class_of(family, listed_classes()[family])
        self._module = importlib.import_module(listed.__module__)
        base = self._class_of_whole(listed)
        self.base_class: str = base.__name__
        self._classes = {self.base_class: base}
        self._saved_as_it_is: set[str] = set()
        self._keywords = FamilyKeywords(self)

    # Its identity

    @property
    def command(self) -> str:
        """The command that derives the blueprint."""
        return f"weighbridge derive {self.family}"

    @property
    def reference(self) -> str:
        """The package and version that the blueprint is proved against."""
        return f"transformers {transformers.__version__}"

    @property
    def source(self) -> str:
        """What the blueprint is derived from."""
        modeling = self._module.__name__.rpartition(".")[2]
        return f"{self.reference}: {self.config_name}, {modeling}.py"

    @property
    def config_name(self) -> str:
        """The name of the class that has the defaults."""
        return self.config_class.__name__

    @cached_property
    def code(self) -> str:
        """The text of the modules that hold the model and its config."""
        modules = {self.config_class.__module__, self._module.__name__}
        return "\n".join(inspect.getsource(sys.modules[module]) for module in sorted(modules))

    def files(self) -> set[str]:
        """Return the files of model code that have been loaded."""
        return {
            module.__file__
            for name, module in list(sys.modules.items())
            if name.startswith("transformers.models.") and ".modeling_" in name and module.__file__
        }

    # Facts that cannot be derived, from starts.toml

    @property
    def start(self) -> dict[str, Any]:
        """The changes without which the base class cannot be built, or is too large."""
        stated = _starts().get(self.family, {})
        return {name: value for name, value in stated.items() if name not in _NOT_FIELDS}

    @property
    def together(self) -> list[dict[str, Any]]:
        """Groups of fields that can only be turned together, with values that fit together."""
        return list(_starts().get(self.family, {}).get(_TOGETHER, []))

    @property
    def pinned(self) -> list[str]:
        """Fields to keep at their defaults: no arithmetic expresses what they decide."""
        return list(_starts().get(self.family, {}).get(_PINNED, []))

    @property
    def required(self) -> list[str]:
        """Conditions between fields that no question of the code shows, as expressions."""
        return list(_starts().get(self.family, {}).get(_REQUIRED, []))

    @property
    def is_explored_for_equals(self) -> bool:
        """False: trouble is looked for apart, and an adversary attacks each family."""
        return False

    @property
    def _untried(self) -> list[str]:
        """Keywords that are not fields and are never tried."""
        return list(_starts().get(self.family, {}).get(_BEYOND, []))

    # Its classes

    def prefix(self, class_name: str) -> str:
        """Return the name of the attribute in which a class holds the base model."""
        return str(getattr(self._classes[class_name], "base_model_prefix", ""))

    def _class_of_whole(self, listed: Any) -> Any:
        """Return the class that is listed as the base, if it takes the config.

        Some listed classes take only a sub-config: a decoder, for example. Then the first public
        class that takes the whole config is the base.
        """
        classes = self._public_classes()
        if listed.config_class is self.config_class or not classes:
            return listed
        return next(iter(classes.values()))

    def _public_classes(self) -> dict[str, Any]:
        """Return the public classes of the model file that take this config, by name."""
        classes: dict[str, Any] = {}
        for name in getattr(self._module, "__all__", []):
            kind = getattr(self._module, name, None)
            takes_config = getattr(kind, "config_class", None) is self.config_class
            if inspect.isclass(kind) and takes_config and not _ABSTRACT.search(name):
                classes[name] = kind
        return classes

    def task_classes(self) -> list[str]:
        """Return the other public classes that take this config; those of the model file first."""
        classes = self._public_classes()
        for name in self._listed_classes():
            with contextlib.suppress(AttributeError, ImportError, ModuleNotFoundError):
                classes.setdefault(name, getattr(transformers, name))
        self._classes |= classes
        return [name for name in classes if name != self.base_class and not _ABSTRACT.search(name)]

    def takes_other_config(self, class_name: str) -> bool:
        """Whether a class names another config class: that of a sub-config, or of another type."""
        named = getattr(self._classes.get(class_name), "config_class", None) or self.config_class
        return not (issubclass(named, self.config_class) or issubclass(self.config_class, named))

    def _listed_classes(self) -> Iterator[str]:
        """Yield the classes of this model type in transformers' own tables of tasks."""
        for table in dir(modeling_auto):
            if table.startswith("MODEL_") and table.endswith("_MAPPING_NAMES"):
                yield from _as_list(getattr(modeling_auto, table).get(self.family, []))

    def check_class(self, class_name: str) -> None:
        """Check that this task class exists.

        Raises:
            ModelError: it does not.
        """
        known = self.task_classes()
        if class_name not in known:
            near = nearest(known, class_name)
            hint = "leave out --class"
            if near:
                hint = f"did you mean {either(near)}?"
            elif known:
                hint = f"its classes include {', '.join(known[:_MOST_SUGGESTED])}"
            raise ModelError(f"{self.family} has no class {shorten(class_name, str)}", hint=hint)

    # Its configs

    def config(self, changes: Mapping[str, Any]) -> PreTrainedConfig:
        """Return the config of a JSON file with only these fields, given by dotted path."""
        config = self.bare_config(self.nested(changes))
        assumed = {path: value for path, value in self.unlisted.items() if value is not None}
        assumed |= {path: changes.get(path, value) for path, value in self.taken.items()}
        for path, value in assumed.items():
            place, _, name = path.rpartition(".")
            holder = config_at(config, place)
            if holder is not None:
                vars(holder).setdefault(name, value)
        return config

    def bare_config(self, values: Mapping[str, Any]) -> PreTrainedConfig:
        """Return the config that the class itself makes from the values of a JSON file."""
        config_class: Any = self.config_class
        config: PreTrainedConfig = config_class(**values)
        return config

    def nested(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Return changes as in a JSON file: sub-configs are objects that name their model type."""
        changes = copy.deepcopy(
            dict(changes)
        )  # some config classes change the lists they are given
        top = {path: value for path, value in changes.items() if "." not in path}
        for place in self.optional:
            if changes.get(place) is not None:
                top[place] = self._typed(place)
        below: dict[str, dict[str, Any]] = {}
        for path, value in changes.items():
            place, _, name = path.rpartition(".")
            is_below_null = changes.get(place.partition(".")[0], {}) is None
            if place and not is_below_null:
                below.setdefault(place, {})[name] = value
        for place, values in sorted(below.items()):
            holder = top
            path = ""
            for name in place.split("."):
                path = f"{path}.{name}".removeprefix(".")
                holder = holder.setdefault(name, self._typed(path))
            holder.update(values)
        return top

    def _typed(self, place: str) -> dict[str, Any]:
        """Return a sub-config with only its model type, if it has one."""
        model_type = self.sub_configs.get(place)
        return {"model_type": model_type} if model_type else {}

    def attend(self, config: PreTrainedConfig, attention: str) -> PreTrainedConfig:
        """Return a config with this attention; a class without it then refuses to be built."""
        config._attn_implementation = attention
        return config

    @cached_property
    def sub_configs(self) -> dict[str, str]:
        """The model type of each sub-config, by dotted path; ``""`` if it has none."""
        return dict(sub_config_types(self._with_all))

    @cached_property
    def optional(self) -> dict[str, str]:
        """The sub-configs that are null by default and need not name a model type, with theirs."""
        return {
            name: model_type
            for name, config_class in self.null_by_default
            if (model_type := self._type_of_empty(name, config_class))
        }

    def _type_of_empty(self, name: str, config_class: Any) -> str:
        """Return the model type of a sub-config that a config gives as an empty object."""
        if config_class is not AutoConfig:
            return str(config_class.model_type)
        with contextlib.suppress(Exception):  # the config class refuses an object without a type
            return str(vars(self.bare_config({name: {}}))[name].model_type)
        return ""

    @cached_property
    def null_by_default(self) -> list[tuple[str, Any]]:
        """The sub-configs that are null by default, and the class of each."""
        config = self.config_class()
        return [
            (name, spec.config_class)
            for name, spec in config.sub_configs_defaults.items()
            if vars(config).get(name, config) is None
        ]

    @cached_property
    def _with_all(self) -> PreTrainedConfig:
        """The config with every sub-config that can be given."""
        return self.bare_config(
            {name: {"model_type": model_type} for name, model_type in self.optional.items()}
        )

    # Its fields

    def fields(self, config: PreTrainedConfig) -> dict[str, Any]:
        """Return the plain value of every field by dotted path."""
        given: dict[str, Any] = {
            place: {} for place in self.optional if vars(config).get(place) is not None
        }
        nulls = self.optional.keys() - given.keys()
        unlisted: dict[str, Any] = {
            path: None for path in self.unlisted if path.rpartition(".")[0] not in nulls
        }
        return {**unlisted, **dict(plain_fields(config)), **given}

    def fields_of_given(self) -> dict[str, Any]:
        """Return the fields of sub-configs when those are given as empty objects."""
        given: dict[str, Any] = {}
        for place in self.sub_configs:
            if "." not in place:
                with contextlib.suppress(Exception):
                    fields = self.fields(self.bare_config({place: self._typed(place)}))
                    given |= {
                        path: value
                        for path, value in fields.items()
                        if path.startswith(f"{place}.")
                    }
        return given

    def knobs(self, changes: Mapping[str, Any]) -> list[Knob]:
        """Return every field that a config may set, with its value under these changes."""
        config = self.config(changes)
        knobs = [knob for knob in config_knobs(config) if knob.path not in self.optional]
        for place in self.optional:
            is_null = vars(config).get(place) is None
            knobs.append(Knob(place, None if is_null else {}, "dict | None"))
        for name, value in self.unlisted.items():
            annotation = "int | None" if value is None else type(value).__name__
            knobs.append(Knob(name, value, annotation))
        with contextlib.suppress(Exception):  # some configs have no labels
            count = int(config.num_labels)  # type: ignore[arg-type]
            knobs.append(Knob(_LABEL_COUNT, count, "int"))
        for path, value in self.taken.items():
            if not _OBJECT.search(path) and path not in self._untried:
                annotation = KEYWORD_ANNOTATION if value is None else type(value).__name__
                knobs.append(Knob(path, changes.get(path, value), annotation))
        return knobs

    @cached_property
    def unlisted(self) -> dict[str, bool | float | str | None]:
        """Fields that the code reads and no class has: `getattr(config, "name", False)`.

        The value is the one that the code uses if the field is absent; None if that is not always
        the same constant.
        """
        config, code = self._with_all, inspect.getsource(self._module)
        read = read_unlisted(code, self.config_class()).items()
        fields = {name: value for name, value in read if not self._hands_down(name)}
        fields |= dict.fromkeys(read_below(code, config, self.sub_configs))
        for place in self.sub_configs:
            inner = config_at(config, place)
            if inner is not None:
                for name, value in read_unlisted(model_code(type(inner).__module__), inner).items():
                    fields.setdefault(f"{place}.{name}", value)
        return {**fields, **dict.fromkeys(self._undeclared_ties, False)}  # as transformers reads it

    def _hands_down(self, name: str) -> bool:
        """Whether the config class gives a value at the top to a sub-config's field."""
        with contextlib.suppress(Exception):  # the config class refuses this value
            config = self.bare_config({name: _UNUSUAL_SIZE})
            inner = [config_at(config, place) for place in self.sub_configs]
            return any(vars(held).get(name) == _UNUSUAL_SIZE for held in inner if held is not None)
        return False

    @cached_property
    def _undeclared_ties(self) -> list[str]:
        """The ties that transformers reads in every config, where no class declares them."""
        config = self._with_all
        ties: list[str] = []
        for place in ("", *self.sub_configs):
            holder = config_at(config, place)
            if holder is not None and not hasattr(holder, _TIE):
                ties.append(f"{place}.{_TIE}".removeprefix("."))
        return ties

    @property
    def taken(self) -> dict[str, Any]:
        """Keywords that a config class reads and that are not fields: `kwargs.pop("name", 4)`.

        The value is the one that the class uses if the keyword is absent; None if that is not a
        constant. Other names for fields are left out.
        """
        return {**dict.fromkeys(self._untried), **self._keywords.taken}

    @cached_property
    def stated(self) -> dict[str, Any]:
        """The defaults that the config class states, before it computes other fields."""
        return {
            **self.unlisted,
            **self.taken,
            **dict.fromkeys(self.optional),
            **dict(stated_defaults(self._with_all)),
        }

    @cached_property
    def _compared_by_identity(self) -> frozenset[str]:
        """Fields that the code compares by identity: `config.gating is True`.

        A value that remembers is never identical to True.
        """
        return frozenset(re.findall(r"\bconfig\.(\w+) is (?:not )?(?:True|False)\b", self.code))

    # Other spellings

    def aliases(self, fields: Iterable[str]) -> dict[str, str]:
        """Return other names of fields that the config class accepts, at every level."""
        known = set(fields)
        older = {}
        for name, following in self._keywords.older_names.items():
            declared = [path for path in following if path in known]
            if len(declared) == 1:
                older[name] = declared[0]
        for name, (field, _) in self._keywords.older_lists.items():
            older[name] = field
        older |= self._keywords.replacing
        return {**dict(other_spellings(self.config({}))), **older, **self._read_from_top(fields)}

    def _read_from_top(self, fields: Iterable[str]) -> dict[str, str]:
        """Return fields of sub-configs that are also read at the top level, as in older files."""
        names = {path: path for path in fields}
        names |= {alias: path for alias, path in other_spellings(self.config({})) if path in names}
        usual = self.fields(self.config(self.start))
        spellings: dict[str, str] = {}
        for spelling, path in names.items():
            place, _, name = spelling.rpartition(".")
            value: Any = usual.get(path)
            if place not in self.sub_configs or name in usual or type(value) not in (int, bool):
                continue
            other = not value if isinstance(value, bool) else 2 * value
            for start in (self.start, self._flat_start):
                with contextlib.suppress(Exception):
                    if self.fields(self.config({**start, name: other})).get(path) == other:
                        spellings[name] = path
        return spellings

    @property
    def _flat_start(self) -> dict[str, Any]:
        """The start with the fields of sub-configs at the top, as in files without sub-configs."""
        return {path.rpartition(".")[2]: value for path, value in self.start.items()}

    @property
    def words(self) -> dict[str, dict[str, str]]:
        """By field, the words that older files use for its texts."""
        words: dict[str, dict[str, str]] = {}
        for path, texts in self._keywords.older_lists.values():
            words.setdefault(path, {}).update(texts)
        return words

    @cached_property
    def older_types(self) -> dict[str, dict[str, str]]:
        """By sub-config, the model types that the config class takes for its own default type."""
        types: dict[str, dict[str, str]] = {}
        compared = " ".join(_TYPE_COMPARED.findall(inspect.getsource(self.config_class)))
        for place, model_type in self.sub_configs.items():
            for other in dict.fromkeys(_QUOTED.findall(compared)):
                if other == model_type or not model_type or "." in place:
                    continue
                with contextlib.suppress(Exception):
                    config = self.bare_config({place: {"model_type": other}})
                    if getattr(config_at(config, place), "model_type", "") == model_type:
                        types.setdefault(f"{place}.model_type", {})[other] = model_type
        return types

    @property
    def older_words(self) -> dict[str, str]:
        """Words that older configs use for kinds of layers, with the current words."""
        return dict(getattr(configuration_utils, "_LEGACY_LAYER_TYPE_REMAP", {}))

    # Its modules

    def build(self, class_name: str, config: PreTrainedConfig) -> nn.Module:
        """Build a class on a config."""
        module: nn.Module = self._classes[class_name](config)
        return module

    def parts(self, class_name: str, values: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
        """Return the parts of a class that come from an auto class, by their module's path.

        Each has the path of its sub-config and the name of the auto class. Only sub-configs of any
        model type count. ``values`` are those of a JSON file.

        Raises:
            Exception: whatever the reference code raises on a config that it refuses.
        """
        config = self.bare_config(values)
        places = {id(config_at(config, place)): place for place in self.sub_configs}
        with probes.quick_building(), recorded_parts() as recorded, torch.device("meta"):
            module = self.build(class_name, config)
        paths = {id(inside): path for path, inside in module.named_modules()}
        parts = {}
        for part in recorded:
            place, path = places.get(id(part.config), ""), paths.get(id(part.module), "")
            if path and self.sub_configs.get(place):
                parts[path] = (place, part.auto_class)
        return parts

    def probe_values(self, class_name: str, values: Mapping[str, Any]) -> probes.Probe:
        """Build a class on the config with the values of a JSON file.

        Raises:
            Exception: whatever the reference code raises on a config that it refuses.
        """
        config = self.bare_config(values)
        with probes.quick_building():
            return probes.take(lambda: self.build(class_name, config), {}, {}, labels=False)

    def probe(
        self, class_name: str, changes: Mapping[str, Any], *, labels: bool = True
    ) -> probes.Probe:
        """Run the reference code of a class on the config with these changes.

        Raises:
            Exception: whatever the reference code raises on a config that it refuses.
        """
        config = self.config(changes)
        fields = self.fields(config)
        if labels:
            config = self._with_taken(config, changes, fields)
            remember_fields(config, "", self._compared_by_identity)
            install_stand_ins(
                "transformers.models.", "transformers.modeling_layers", "transformers.pytorch_utils"
            )
        prepare_configs()
        with values_of_any_type():
            return probes.take(
                lambda: self.build(class_name, config), changes, fields, labels=labels
            )

    def _with_taken(
        self, config: PreTrainedConfig, changes: Mapping[str, Any], fields: Mapping[str, Any]
    ) -> PreTrainedConfig:
        """Return a config made from keywords whose values remember; unchanged without keywords."""
        given = {
            path: lift(fields[path], ("name", path))
            for path in self.taken
            if fields.get(path) is not None
        }
        if given:
            with contextlib.suppress(Exception), values_of_any_type():
                remembering = self.config({**changes, **given})
                if plain_value(self.fields(remembering)) == fields:
                    return remembering
        return config

    def remembered(self, probe: probes.Probe) -> tuple[dict[str, Any], SymbolicTrace]:
        """Return a probe's fields, computed from values that remember, and their trace."""
        given: dict[str, Any] = {}
        for path, value in probe.fields.items():
            is_stated = self.stated.get(path) is not None and not isinstance(value, dict)
            if path in probe.changes:
                given[path] = lift(value, ("name", path))
            elif is_stated:
                given[path] = lift(self._before_work(path, value), ("name", path))
        given |= dict.fromkeys(path for path, value in probe.changes.items() if value is None)
        install_stand_ins("transformers.models.")
        with tracing() as trace, values_of_any_type():
            try:
                config = self.config(given)
            except Exception:  # code that refuses such values runs on plain values
                return dict(probe.fields), trace
        return dict(held_values(config)), trace

    def _before_work(self, path: str, value: Any) -> Any:
        """Return a field's value before the config class converted it.

        This is the default that the class states, if its type differs from the value's.
        """
        stated = self.stated[path]
        return value if isinstance(value, type(stated)) else stated

    def in_files(self, class_name: str, changes: Mapping[str, Any]) -> Files | None:
        """Return what files hold for a class on this config; None if the module's own tensors.

        Raises:
            Exception: whatever the reference code raises if it cannot revert the conversion that it
                applies when it loads a file.
        """
        if class_name in self._saved_as_it_is:
            return None
        with torch.device("meta"):
            files = saved_files_of(self.build(class_name, self.config(changes)))
        if files is None:
            self._saved_as_it_is.add(class_name)
        return files


def _class_of(family: str, name: str) -> Any:
    """Return a model class by its name; transformers does not export all of them."""
    package = configuration_auto.model_type_to_module_name(family)
    path = f"transformers.models.{package}.modeling_{package}"
    with contextlib.suppress(AttributeError):  # a class without a package it needs is a dummy
        path = getattr(transformers, name).__module__
    module = extras.without_packages(lambda: importlib.import_module(path))
    return getattr(module, name)


def _as_list(names: Any) -> list[str]:
    """Return an entry of transformers' tables, one name or several, as a list."""
    return [names] if isinstance(names, str) else list(names)


@cache
def _starts() -> dict[str, dict[str, Any]]:
    return data.read_toml("facts/starts.toml")


@cache
def listed_classes() -> dict[str, str]:
    """Return the class of each model type in transformers' tables: the base class, if there is one.

    The others have only classes for tasks, such as `VisionEncoderDecoderModel`.
    """
    classes = {family: _as_list(names)[0] for family, names in _BASE_CLASSES.items()}
    for table in dir(modeling_auto):
        if _TASK_TABLE.fullmatch(table):
            for family, names in getattr(modeling_auto, table).items():
                classes.setdefault(family, _as_list(names)[0])
    return classes


@cache
def model_types() -> tuple[str, ...]:
    """Return every model type that has a class, in the order of transformers' own tables."""
    return tuple(listed_classes())


def check_family(family: str) -> None:
    """Check that this model type exists.

    Raises:
        ModelError: it does not.
    """
    if family not in model_types():
        near = nearest(model_types(), family)
        hint = "give a model type, or a class of your own as package.module:Class"
        if near:
            hint = f"did you mean {either(near)}?"
        problem = (
            f"transformers {transformers.__version__} has no model type {shorten(family, str)}"
        )
        raise ModelError(problem, hint=hint)
