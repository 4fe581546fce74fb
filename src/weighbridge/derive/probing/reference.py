"""The model types of transformers: their configs, which of a config's fields can be turned, and their classes."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import importlib
import inspect
import itertools
import re
import sys
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any
from unittest import mock

import torch

from weighbridge import data
from weighbridge.derive.probing import extras  # noqa: F401  # before transformers: afterwards it is too late

# isort: split
import transformers
from transformers import configuration_utils
from transformers.configuration_utils import PreTrainedConfig
from transformers.models.auto import AutoConfig, configuration_auto, modeling_auto

from weighbridge.derive.probing import probe as probes
from weighbridge.derive.probing.candidates import KEYWORD_ANNOTATION
from weighbridge.derive.probing.reversal import Files, files_of
from weighbridge.derive.probing.subject import Knob
from weighbridge.derive.probing.symbolic import Trace, lift, plain, tracing
from weighbridge.errors import ModelError, nearest, shorten

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping

    from torch import nn

_LONG = 200  # items, more than any config has layers by default
_UNUSUAL = (  # two values of each kind, which no config has by default
    (2304, 4608),
    (True, False),
    (0.2304, 0.4608),
    ("gelu", "relu"),
    ([2304, 1], [4608, 2]),
    ([0.0, 0.1], [0.0, 0.2]),
)
_NO_FIELDS = (_TOGETHER, _PINNED, _BEYOND) = ("together", "pinned", "beyond")  # of starts.toml
_TAKEN = re.compile(r"kwargs\.(?:pop|get)\(\s*['\"](\w+)['\"](?:,\s*([^()]*)\))?")
# Names for what decides no tensor, for what older files say beside what says the same, and for
# dicts.
_NO_SIZE = re.compile(
    r"theta|rope_(scaling|param|local)|rotary|base_freq|dtype|model_type|is_causal|_token_id"
)
_SAID_TWICE = re.compile(r"backbone|_dict$|out_features$")
_OBJECT = re.compile(r"(config|setting)s?$")
_ABSTRACT = re.compile(
    r"Pre[Tt]rained(\w*)Model$"
)  # a class that others are built on, with no tensors of its own
_GENERIC = frozenset(field.name for field in dataclasses.fields(PreTrainedConfig))
_LABELS = ("id2label", "label2id")


class Subject:
    """A model type of transformers as something to derive.

    Example:
        >>> bert = Subject("bert")
        >>> bert.base_class, bert.fields(bert.config({"hidden_size": 24}))["hidden_size"]
        ('BertModel', 24)
    """

    def __init__(self, family: str) -> None:
        check_family(family)
        self.family = family
        self.config_class: type[PreTrainedConfig] = configuration_auto.CONFIG_MAPPING[family]
        named = modeling_auto.MODEL_MAPPING_NAMES[family]
        self.base_class: str = named if isinstance(named, str) else named[0]
        self._class = {self.base_class: _class_of(family, self.base_class)}
        self._module = importlib.import_module(self._class[self.base_class].__module__)
        self._saved_as_it_is: set[str] = set()

    @property
    def start(self) -> dict[str, Any]:
        """What a config must say for the base class to be built at all, or to be small enough."""
        return {
            name: value
            for name, value in _starts().get(self.family, {}).items()
            if name not in _NO_FIELDS
        }

    @property
    def together(self) -> list[dict[str, Any]]:
        """Fields that can be turned together only, with values that go together."""
        return list(_starts().get(self.family, {}).get(_TOGETHER, []))

    @property
    def pinned(self) -> list[str]:
        """Fields to be held at their defaults: what they decide is no arithmetic."""
        return list(_starts().get(self.family, {}).get(_PINNED, []))

    @property
    def _untried(self) -> list[str]:
        """Names taken, of no field, of which no value is tried."""
        return list(_starts().get(self.family, {}).get(_BEYOND, []))

    @property
    def reference(self) -> str:
        """The package and version that the blueprint is held against."""
        return f"transformers {transformers.__version__}"

    def prefix(self, class_name: str) -> str:
        """Return the name that a class has for the base model in it."""
        return str(getattr(self._class[class_name], "base_model_prefix", ""))

    @property
    def source(self) -> str:
        """What the blueprint is derived from."""
        modeling = self._module.__name__.rpartition(".")[2]
        return (
            f"transformers {transformers.__version__}: {self.config_class.__name__}, {modeling}.py"
        )

    def aliases(self, fields: Iterable[str]) -> dict[str, str]:
        """Other spellings of fields that the config class reads, at every level."""
        older = {
            old: hit[0]
            for old, hits in self._handed_on.items()
            if len(hit := [*filter(set(fields).__contains__, hits)]) == 1
        }
        rewritten = {old: name for old, (name, _) in self._rewritten.items()}
        return {**dict(_aliases(self.config({}), "")), **older, **rewritten, **self._flat(fields)}

    def task_classes(self) -> list[str]:
        """Return the other public classes that take this config, in the order of the modeling file."""
        found = {}
        for name in getattr(self._module, "__all__", []):
            kind = getattr(self._module, name, None)
            if inspect.isclass(kind) and getattr(kind, "config_class", None) is self.config_class:
                found[name] = kind
        for table in dir(modeling_auto):
            names = getattr(modeling_auto, table)
            if (
                table.startswith("MODEL_")
                and table.endswith("_MAPPING_NAMES")
                and self.family in names
            ):
                listed = names[self.family]
                for name in [listed] if isinstance(listed, str) else listed:
                    with contextlib.suppress(AttributeError, ImportError, ModuleNotFoundError):
                        found.setdefault(name, getattr(transformers, name))
        self._class |= found
        return [name for name in found if name != self.base_class and not _ABSTRACT.search(name)]

    def check_class(self, class_name: str) -> None:
        """See that there is such a task class.

        Raises:
            ModelError: there is none.
        """
        known = self.task_classes()
        if class_name not in known:
            near = nearest(known, class_name) or known[:6]
            hint = f"did you mean {' or '.join(near)}?" if near else "leave --class out"
            raise ModelError(f"{self.family} has no class {shorten(class_name, str)}", hint=hint)

    def config(self, changes: Mapping[str, Any]) -> PreTrainedConfig:
        """Return the config of a JSON file that says no more than these fields, by dotted path."""
        config = self._made(self.nested(changes))
        for name, value in self.unlisted.items():
            if value is not None:
                vars(config).setdefault(name, value)
        for path, value in self.taken.items():
            place, _, name = path.rpartition(".")
            if (holder := _inside(config, place)) is not None:
                vars(holder).setdefault(name, changes.get(path, value))
        return config

    @cached_property
    def unlisted(self) -> dict[str, bool | None]:
        """Fields that the model's code asks for though the config class has none: `getattr(config, "name", False)`.

        The value is what the code takes in place of one that is absent; None where that is not
        always the same flag.
        """
        code = inspect.getsource(self._module)
        asked = re.findall(r"getattr\((?:self\.)?config, ['\"](\w+)['\"], ([^()]*)", code)
        known = {
            *dir(self.config_class),
            *vars(self.config_class()),
            *self.config_class.attribute_map,
        }
        defaults: dict[str, set[str]] = {}
        for name, value in asked:
            if name not in known and not name.startswith("_"):
                defaults.setdefault(name, set()).add(value)
        flags = {"True": True, "False": False}
        return {name: flags.get(" or ".join(values)) for name, values in defaults.items()}

    def _made(self, said: dict[str, Any]) -> PreTrainedConfig:
        made: Any = self.config_class
        config: PreTrainedConfig = made(**said)
        return config

    def nested(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Return changes as a JSON file has them: sub-configs as objects that say what model they are of."""
        given = {path: self._named(path) for path in self.optional if changes.get(path) is not None}
        top = {path: value for path, value in changes.items() if "." not in path} | given
        below: dict[str, dict[str, Any]] = {}
        for path, value in changes.items():
            place, _, name = path.rpartition(".")
            if (
                place and changes.get(place.partition(".")[0], {}) is not None
            ):  # what is null has no fields
                below.setdefault(place, {})[name] = value
        for place, values in sorted(below.items()):
            here = top
            for depth, piece in enumerate(place.split(".")):
                at = ".".join(place.split(".")[: depth + 1])
                here = here.setdefault(piece, self._named(at))
            here.update(values)
        return top

    def _named(self, place: str) -> dict[str, Any]:
        model_type = self.sub_configs.get(place)
        return {"model_type": model_type} if model_type else {}

    @cached_property
    def sub_configs(self) -> dict[str, str]:
        """The model type of each sub-config, by dotted path; ``""`` where it has none."""
        return dict(_sub_configs(self._with_all, ""))

    @cached_property
    def optional(self) -> dict[str, str]:
        """The sub-configs that are null by default, and the model type of each, if it is one alone."""
        return {
            name: kind.model_type for name, kind in self._null_by_default if kind is not AutoConfig
        }

    @cached_property
    def _null_by_default(self) -> list[tuple[str, Any]]:
        config = self.config_class()
        return [
            (name, spec.config_class)
            for name, spec in config.sub_configs_defaults.items()
            if vars(config).get(name, config) is None
        ]

    @cached_property
    def _with_all(self) -> PreTrainedConfig:
        """The config with every sub-config that can be given."""
        made: Any = self.config_class
        config: PreTrainedConfig = made(
            **{name: {"model_type": kind} for name, kind in self.optional.items()}
        )
        return config

    @property
    def older_words(self) -> dict[str, str]:
        """Words that older configs have for kinds of layers, with what they are now."""
        return dict(getattr(configuration_utils, "_LEGACY_LAYER_TYPE_REMAP", {}))

    @cached_property
    def stated(self) -> dict[str, Any]:
        """What each field is by default where its class says so, before any is worked out."""
        return {
            **self.unlisted,
            **self.taken,
            **dict.fromkeys(self.optional),
            **dict(_stated(self._with_all, "")),
        }

    def _flat(self, fields: Iterable[str]) -> dict[str, str]:
        """Return fields of sub-configs that are read from the top of a config too, as older files have them."""
        found: dict[str, str] = {}
        usual = self.fields(self.config(self.start))
        for name in fields:
            place, _, last = name.rpartition(".")
            value: Any = usual.get(name)
            if place not in self.sub_configs or last in usual or type(value) not in (int, bool):
                continue
            other = not value if isinstance(value, bool) else 2 * value
            with contextlib.suppress(Exception):
                if self.fields(self.config({**self.start, last: other})).get(name) == other:
                    found[last] = name
        return found

    @cached_property
    def taken(self) -> dict[str, Any]:
        """Names, of no field, that a config class takes out of what a file says besides: `kwargs.pop("name", 4)`.

        The value is what it takes for one that is absent; None where that is no constant. Names
        whose value becomes a field's are none of them.
        """
        free = [name for name, kind in self._null_by_default if kind is AutoConfig]
        return dict.fromkeys(free) | {
            path: default
            for path, default in self._popped.items()
            if not self._handed_on.get(path)
            and path not in self._rewritten
            and not _NO_SIZE.search(path)
            and not _SAID_TWICE.search(path)
            and not self._is_property(path)
        }

    def _is_property(self, path: str) -> bool:
        place, _, name = path.rpartition(".")
        return hasattr(type(_inside(self._made(self.nested(self.start)), place)), name)

    @cached_property
    def _popped(self) -> dict[str, Any]:
        """Names that config classes take out of what a file says besides, with what stands for one that is absent."""
        config = self._made(self.nested(self.start))
        found: dict[str, Any] = {}
        for place in ("", *self.sub_configs):
            holder = _inside(config, place)
            if holder is not None:
                known = {*type(holder).attribute_map, *_GENERIC}
                known |= {name for name, value in vars(holder).items() if type(value) is not int}
                known |= {field.name for field in dataclasses.fields(type(holder))}
                asked = _asked_besides(type(holder))
                found |= {
                    f"{place}.{name}".strip("."): value
                    for name, value in asked.items()
                    if name not in known
                }
        return found

    @cached_property
    def _handed_on(self) -> dict[str, list[str]]:
        """The fields that become what a file says under an older name, by that: `kwargs.pop("n_embed", None)`."""
        found: dict[str, list[str]] = {}
        in_code = _TAKEN.findall(inspect.getsource(sys.modules[self.config_class.__module__]))
        for old in sorted({*[name for name, _ in in_code], *self._popped} - self._usual.keys()):
            for pair in _UNUSUAL:
                with contextlib.suppress(Exception):
                    made = [
                        self.fields(self._made(self.nested({**self.start, old: value})))
                        for value in pair
                    ]
                    hits = [
                        name
                        for name in made[0]
                        if name != old
                        and all(
                            _same(each.get(name), value)
                            for each, value in zip(made, pair, strict=True)
                        )
                    ]
                    if hits:
                        found[old] = hits
                        break
        return found

    @cached_property
    def _usual(self) -> dict[str, Any]:
        return self.fields(self._made(self.nested(self.start)))

    @cached_property
    def _rewritten(self) -> dict[str, tuple[str, dict[str, str]]]:
        """The field, a list of texts, that an older name is turned into, and its words for them, by that name.

        ``"M-*"``, or ``[0, 4, 128]``, and a table in the code that says what each is.
        """
        found: dict[str, tuple[str, dict[str, str]]] = {}
        lists = {
            name: value for name, value in self._usual.items() if isinstance(value, list) and value
        }
        tables = _tables_of_texts(inspect.getsource(sys.modules[self.config_class.__module__]))
        for old, table, length in itertools.product(
            self._popped, tables, dict.fromkeys([_LONG, *map(len, lists.values())])
        ):
            said = list(itertools.islice(itertools.cycle(table), length))
            one_by_one = all(isinstance(word, str) and len(word) == 1 for word in table)
            with contextlib.suppress(Exception):
                made = self.fields(
                    self._made(
                        self.nested(
                            {**self.start, old: "".join(map(str, said)) if one_by_one else said}
                        )
                    )
                )
                expected = [table[word] for word in said]
                for name, usual in lists.items():
                    if (
                        len(made[name]) >= len(table)
                        and usual != made[name] == expected[: len(made[name])]
                    ):
                        found.setdefault(
                            old, (name, {str(word): text for word, text in table.items()})
                        )
        return found

    @property
    def words(self) -> dict[str, dict[str, str]]:
        """The words that older names have for the texts of a field, by that field."""
        found: dict[str, dict[str, str]] = {}
        for name, words in self._rewritten.values():
            found.setdefault(name, {}).update(words)
        return found

    def fields_of_given(self) -> dict[str, Any]:
        """Return what the fields of sub-configs are where those are given but say nothing."""
        given: dict[str, Any] = {}
        for place in self.sub_configs:
            if "." not in place:
                with contextlib.suppress(Exception):
                    given |= {
                        name: value
                        for name, value in self.fields(
                            self._made({place: self._named(place)})
                        ).items()
                        if name.startswith(f"{place}.")
                    }
        return given

    def remembered(self, probe: probes.Probe) -> tuple[dict[str, Any], Trace]:
        """Return a probe's fields as its config class makes them of values that remember, and what it asked."""
        said = {
            name: lift(
                value if name in probe.changes else self._before(name, value), ("name", name)
            )
            for name, value in probe.fields.items()
            if name in probe.changes
            or (self.stated.get(name) is not None and not isinstance(value, dict))
        }
        said |= dict.fromkeys(name for name, value in probe.changes.items() if value is None)
        probes.install_stand_ins("transformers.models.")
        with tracing() as trace, _any_type():
            try:
                config = self.config(said)
            except Exception:  # code that does not bear such values is asked without
                return dict(probe.fields), trace
        return dict(_walked(config, "")), trace

    def _before(self, name: str, value: Any) -> Any:
        """Return a field's value before the config class worked on it: what it states, if that is of another kind."""
        stated = self.stated[name]
        return value if isinstance(value, type(stated)) else stated

    def knobs(self, changes: Mapping[str, Any]) -> list[Knob]:
        """Return every field that a config may set, with the value that it has here."""
        config = self.config(changes)
        return [
            *[knob for knob in _knobs(config, "") if knob.path not in self.optional],
            *[
                Knob(place, None if vars(config).get(place) is None else {}, "dict | None")
                for place in self.optional
            ],
            *[
                Knob(name, value, "bool" if value is not None else "int | None")
                for name, value in self.unlisted.items()
            ],
            *[
                Knob(
                    path,
                    changes.get(path, value),
                    KEYWORD_ANNOTATION if value is None else type(value).__name__,
                )
                for path, value in self.taken.items()
                if not _OBJECT.search(path) and path not in self._untried
            ],
        ]

    def fields(self, config: PreTrainedConfig) -> dict[str, Any]:
        """Return the value of every field by dotted path, remembering nothing."""
        given: dict[str, Any] = {
            place: {} for place in self.optional if vars(config).get(place) is not None
        }
        return {**dict.fromkeys(self.unlisted), **dict(_flat(config, "")), **given}

    def build(self, class_name: str, config: PreTrainedConfig) -> nn.Module:
        """Build a class on a config."""
        module: nn.Module = self._class[class_name](config)
        return module

    def attend(self, config: PreTrainedConfig, attention: str) -> PreTrainedConfig:
        """Return a config with this implementation of attention; a class that lacks it refuses to be built."""
        config._attn_implementation = attention
        return config

    def probe(
        self, class_name: str, changes: Mapping[str, Any], *, labels: bool = True
    ) -> probes.Probe:
        """Run the reference code of a class on the config of these changes.

        Raises:
            Exception: whatever the reference code raises on a config that it refuses.
        """
        config = self.config(changes)
        fields = self.fields(config)
        if labels:
            config = self._with_taken(config, changes, fields)
            _remember(config, "", self._asked_by_identity)
            probes.install_stand_ins(
                "transformers.models.", "transformers.modeling_layers", "transformers.pytorch_utils"
            )
        with _labels_remembered():
            return probes.take(
                lambda: self.build(class_name, config), changes, fields, labels=labels
            )

    def _with_taken(
        self, config: PreTrainedConfig, changes: Mapping[str, Any], fields: Mapping[str, Any]
    ) -> PreTrainedConfig:
        """Return a config that was made of names taken whose values remember; the same one where it bears none."""
        said = {
            path: lift(fields[path], ("name", path))
            for path in self.taken
            if fields.get(path) is not None
        }
        if said:
            with contextlib.suppress(Exception), _any_type():
                made = self.config({**changes, **said})
                return made if plain(self.fields(made)) == fields else config
        return config

    def in_files(self, class_name: str, changes: Mapping[str, Any]) -> Files | None:
        """Build a class on the config of these changes, and return what files hold of it, where that is otherwise.

        Raises:
            Exception: whatever the reference code raises where it cannot turn back what it does
                when it loads.
        """
        if class_name in self._saved_as_it_is:
            return None
        with torch.device("meta"):
            found = files_of(self.build(class_name, self.config(changes)))
        if found is None:
            self._saved_as_it_is.add(class_name)
        return found

    def files(self) -> set[str]:
        """Return the files of model code that have been loaded."""
        return {
            module.__file__
            for name, module in list(sys.modules.items())
            if name.startswith("transformers.models.") and ".modeling_" in name and module.__file__
        }

    @cached_property
    def code(self) -> str:
        """The text of the modules that hold the model and its config."""
        modules = {self.config_class.__module__, self._module.__name__}
        return "\n".join(inspect.getsource(sys.modules[module]) for module in sorted(modules))

    @cached_property
    def _asked_by_identity(self) -> frozenset[str]:
        """Fields that the code asks for by identity: `config.gating is True`, which no value that remembers is."""
        return frozenset(re.findall(r"\bconfig\.(\w+) is (?:not )?(?:True|False)\b", self.code))

    @property
    def command(self) -> str:
        """The command that derives it."""
        return f"weighbridge derive {self.family}"

    @property
    def config_name(self) -> str:
        """The name of the class that has the defaults."""
        return self.config_class.__name__


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


def _inside(config: Any, place: str) -> PreTrainedConfig | None:
    """Return the sub-config at a dotted path; None where there is none."""
    for piece in place.split(".") if place else ():
        config = vars(config).get(piece)
        if not isinstance(config, PreTrainedConfig):
            return None
    return config  # type: ignore[no-any-return]


def _asked_besides(kind: type) -> dict[str, Any]:
    """Return the names that a config class and those that it is built on take out of their keyword arguments."""
    defaults: dict[str, set[str]] = {}
    for each in kind.__mro__:
        if each.__module__.startswith("transformers.models."):
            for name, default in _TAKEN.findall(inspect.getsource(each)):
                defaults.setdefault(name, set()).add(default)
    return {name: _constant(" or ".join(texts)) for name, texts in defaults.items()}


def _constant(text: str) -> bool | int | float | str | None:
    """Return the value of a literal; None for what is no flag, number or text."""
    with contextlib.suppress(ValueError, SyntaxError):
        value = ast.literal_eval(text.strip())
        return value if isinstance(value, bool | int | float | str) else None
    return None


def _tables_of_texts(code: str) -> list[dict[str | int, str]]:
    """Return the dicts of code whose keys are words or numbers and whose values are texts."""
    found: list[dict[str | int, str]] = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Dict) and len(node.keys) > 1:
            with contextlib.suppress(ValueError):
                table = ast.literal_eval(node)
                if all(
                    isinstance(word, str | int) and isinstance(text, str)
                    for word, text in table.items()
                ):
                    found.append(table)
    return found


def _class_of(family: str, name: str) -> Any:
    """Return a model class by its name; transformers does not offer all of them at its top."""
    found = getattr(transformers, name, None)
    if found is None:
        package = configuration_auto.model_type_to_module_name(family)
        found = getattr(
            importlib.import_module(f"transformers.models.{package}.modeling_{package}"), name
        )
    return found


@cache
def _starts() -> dict[str, dict[str, Any]]:
    return data.read_toml("facts/starts.toml")


@cache
def families() -> tuple[str, ...]:
    """Return every model type that has a base class, in the order of transformers' own table."""
    return tuple(modeling_auto.MODEL_MAPPING_NAMES)


def check_family(family: str) -> None:
    """See that there is such a model type.

    Raises:
        ModelError: there is none.
    """
    if family not in families():
        near = nearest(families(), family)
        hint = (
            f"did you mean {' or '.join(near)}?"
            if near
            else "give a model type, or module:Class of your own"
        )
        what = f"transformers {transformers.__version__} has no model type {shorten(family, str)}"
        raise ModelError(what, hint=hint)


def _sub_configs(config: PreTrainedConfig, above: str) -> Iterator[tuple[str, str]]:
    for name, value in vars(config).items():
        if isinstance(value, PreTrainedConfig) and not name.startswith("_"):
            spec = config.sub_configs_defaults.get(name)
            free = spec is None or spec.config_class is AutoConfig
            yield above + name, (value.model_type or "") if free else ""
            yield from _sub_configs(value, f"{above}{name}.")


def _stated(config: PreTrainedConfig, above: str) -> Iterator[tuple[str, Any]]:
    for field in dataclasses.fields(type(config)):
        value = vars(config).get(field.name)
        name = above + type(config).attribute_map.get(field.name, field.name)
        if isinstance(value, PreTrainedConfig):
            yield from _stated(value, f"{above}{field.name}.")
        elif field.default is not dataclasses.MISSING:
            yield name, field.default
        elif field.default_factory is not dataclasses.MISSING:
            yield name, field.default_factory()


def _walked(config: PreTrainedConfig, above: str) -> Iterator[tuple[str, Any]]:
    for name, value in vars(config).items():
        if isinstance(value, PreTrainedConfig):
            yield from _walked(value, f"{above}{name}.")
        else:
            yield above + name, value


def _aliases(config: PreTrainedConfig, above: str) -> Iterator[tuple[str, str]]:
    for alias, name in type(config).attribute_map.items():
        yield above + alias, above + name
    for name, value in vars(config).items():
        if isinstance(value, PreTrainedConfig) and not name.startswith("_"):
            yield from _aliases(value, f"{above}{name}.")


def _knobs(config: PreTrainedConfig, above: str) -> Iterator[Knob]:
    for field in dataclasses.fields(type(config)):
        name = type(config).attribute_map.get(field.name, field.name)
        value = vars(config).get(name)
        if isinstance(value, PreTrainedConfig):
            yield from _knobs(value, f"{above}{name}.")
        elif not name.startswith("_") and name not in _GENERIC:
            yield Knob(
                above + name, value if isinstance(value, tuple) else plain(value), str(field.type)
            )


def _flat(config: PreTrainedConfig, above: str) -> Iterator[tuple[str, Any]]:
    for name, value in vars(config).items():
        if name.startswith("_") and name != "_sliding_window_pattern":
            continue
        if isinstance(value, PreTrainedConfig):
            yield from _flat(value, f"{above}{name}.")
        elif name in _LABELS:
            yield above + name, {str(key): item for key, item in (value or {}).items()}
        elif isinstance(value, dict):
            yield from _flat_dict(value, f"{above}{name}.")
        elif value is None or isinstance(value, bool | int | float | str | list | tuple):
            yield above + name, plain(value)
    with contextlib.suppress(Exception):
        yield above + "num_labels", int(config.num_labels)  # type: ignore[arg-type]


def _flat_dict(values: Mapping[Any, Any], above: str) -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if not isinstance(name, str):
            continue
        if isinstance(value, dict):
            yield from _flat_dict(value, f"{above}{name}.")
        elif value is None or isinstance(value, bool | int | float | str | list | tuple):
            yield above + name, plain(value)


def _remember(config: PreTrainedConfig, above: str, by_identity: Container[str]) -> None:
    """Let every value of a config remember its field, but for flags that are asked for by identity."""
    vars(config)["_weighbridge_path"] = above
    for name, value in vars(config).items():
        if name.startswith("_") or name in _LABELS or name.endswith("dtype"):
            continue
        if isinstance(value, PreTrainedConfig):
            _remember(value, f"{above}{name}.", by_identity)
        elif isinstance(value, bool) and name in by_identity:
            continue
        elif isinstance(value, dict):
            vars(config)[name] = _remembering(value, f"{above}{name}.")
        else:
            vars(config)[name] = lift(value, ("name", above + name))


def _remembering(values: Mapping[Any, Any], above: str) -> dict[Any, Any]:
    return {
        name: _remembering(value, f"{above}{name}.")
        if isinstance(value, dict)
        else lift(value, ("name", f"{above}{name}"))
        if isinstance(name, str) and name.isidentifier()
        else value
        for name, value in values.items()
    }


@contextlib.contextmanager
def _labels_remembered() -> Iterator[None]:
    """Let ``config.num_labels``, a property, remember its field."""
    counted: Any = PreTrainedConfig.num_labels

    def num_labels(self: PreTrainedConfig) -> Any:
        path = vars(self).get("_weighbridge_path")
        number = counted.fget(self)
        return number if path is None else lift(number, ("name", f"{path}num_labels"))

    with (
        mock.patch.object(PreTrainedConfig, "num_labels", property(num_labels, counted.fset)),
        _any_type(),
    ):
        yield


def _nothing(*_: object) -> None:
    pass


def _any_type() -> contextlib.AbstractContextManager[Any]:
    """Let configs take values that remember where their class wants Python's own types."""
    return mock.patch("huggingface_hub.dataclasses.type_validator", new=_nothing)
