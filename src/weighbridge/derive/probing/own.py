"""A user's own torch module as a subject of derivation: its class, and its config if it has one.

The user's code is run.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import os
import re
import sys
import traceback
import warnings
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import nn
from torch.nn.parameter import is_lazy
from torch.overrides import TorchFunctionMode

import weighbridge
from weighbridge.derive.probing import probe as probes
from weighbridge.derive.probing.own_configs import (
    Form,
    Objects,
    annotated_config,
    arguments_of,
    form_of,
    made_parts,
    part_of,
)
from weighbridge.derive.probing.own_declarations import hints_of
from weighbridge.derive.probing.own_keywords import GATHERED
from weighbridge.derive.probing.stand_ins import standing_in
from weighbridge.derive.probing.subject import Knob
from weighbridge.derive.probing.symbolic import SymbolicTrace, lift, tracing
from weighbridge.derive.running.address import REMOTE, family_of, split
from weighbridge.errors import (
    ModelError,
    UsageError,
    WeighbridgeError,
    either,
    nearest,
    printable,
    shorten,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

# Names of fields that are never turned: such a flag may start a download.
_NEVER_TURNED = re.compile(r"pretrained|download|^weights$")
_LONGEST_REASON = 300  # characters of the exception's text
# Fields that select an implementation of attention.
_ATTENTION = ("attn_implementation", "attention_implementation", "attention")
# Parameters of constructors that are a whole config, and no field.
_NAMES_OF_CONFIGS = frozenset(("args", "cfg", "conf", "config", "hparams", "opt", "options"))
_MOST_FIELDS_LISTED = 24  # in a hint
_MOST_CLASSES_LISTED = 6  # in a hint
# Folders of code in a traceback that is not the user's.
_NOT_USER_CODE = (
    "<",
    os.path.dirname(torch.__file__),
    os.path.dirname(weighbridge.__file__),
    importlib.__path__[0],
)
_EMPTY = inspect.Parameter.empty
# Annotations of parameters that a class or a function is passed to, and no module.
_WANTS_CLASS = re.compile(r"\b(Callable|Type|type)\b")


class GivenConfig(NamedTuple):
    """A config, and the values that it was given, by dotted name."""

    config: Any
    given: dict[str, Any]


class OwnSubject:
    """A user's torch module, given as ``package.module:Class``, and its config.

    Instead of a class it may be a function that returns a module: ``package.module:resnet50``. A
    parameter that is a module itself is given likewise, and its arguments under its name:
    ``{"encoder": "package.module:Encoder", "encoder.depth": 2}``.

    The config is given likewise: a dataclass, a pydantic model, a plain class, or an object or dict
    that holds the defaults. By default it is the annotation of the constructor's only parameter; if
    that is not a config, the constructor's keyword arguments are the fields. The current folder is
    searched first, as ``python -m`` does.

    Args:
        module: the class, as ``package.module:Class``.
        config: its config, as ``package.module:Config``.
        fields: values for the config; required for fields without a default.
        family: the name of the blueprint; by default the class's name in snake_case.

    Raises:
        UsageError: an address is malformed, the class is not a torch module, or a field without a
            default is not given.
        ModelError: importing or building raised; the message has the exception's type and text.

    Example:
        >>> linear = OwnSubject("torch.nn:Linear", None, {"in_features": 8, "out_features": 4})
        >>> linear.family, linear.base_class
        ('linear', 'Linear')
        >>> linear.fields(linear.config({"out_features": 5}))["out_features"]
        5
    """

    def __init__(
        self,
        module: str,
        config: str | None = None,
        fields: Mapping[str, Any] | None = None,
        family: str | None = None,
    ) -> None:
        self.family = family_of(module, family)
        self._address, self._config_address = module, config
        self._given = dict(fields or {})
        kind = _maker(module)
        self.base_class: str = kind.__name__
        self._class: dict[str, Callable[..., nn.Module]] = {self.base_class: kind}
        named_config = annotated_config(kind) if config is None else _at_address(config)
        self._packages = _packages(module.partition(":")[0], kind, named_config)
        self._has_config = named_config is not None
        self._form = self._form_of(named_config)
        self._parts: dict[str, str] = {}
        """The addresses of the modules that parameters are given, by dotted name."""
        self._add_parts(self._form)
        self._parameter: dict[str, str | None] = {}
        self._check_given()
        self._first = self._first_built()
        with self._remembering_code():
            for form in [self._form, *[form for _, form in self._form.places()]]:
                _ = form.carries  # computed here and cached: it needs code that remembers

    # Its identity

    @property
    def command(self) -> str:
        """The command that derives the blueprint."""
        words = ["weighbridge derive", self._address]
        if self._config_address is not None:
            words += ["--config", self._config_address]
        if self.family != family_of(self._address, None):
            words += ["--family", self.family]
        for name, address in self._parts.items():
            words.append(f"--set {name}={address}")
        return " ".join(words)

    @property
    def reference(self) -> str:
        """What the blueprint is proved against: the module, and the torch that builds it."""
        return f"{self._address} under torch {torch.__version__.partition('+')[0]}"

    @property
    def source(self) -> str:
        """What the blueprint is derived from."""
        config_address = self._config_address
        if isinstance(self._form, Objects):
            kind = self._form.kind
            config_address = f"{kind.__module__}:{kind.__qualname__}"
        return ", ".join(filter(None, [self._address, config_address, *self._parts.values()]))

    @property
    def config_name(self) -> str:
        """The name of the class or object that has the defaults."""
        return self._form.name

    @property
    def start(self) -> dict[str, Any]:
        """Empty: the values that the user gave count as defaults."""
        return {}

    @property
    def pinned(self) -> list[str]:
        """Empty: no field is known that must keep its default."""
        return []

    @property
    def required(self) -> list[str]:
        """Empty: no condition is known beside those that the code asks."""
        return []

    @property
    def is_explored_for_equals(self) -> bool:
        """True: the code of strangers asks anything."""
        return True

    @property
    def taken(self) -> dict[str, Any]:
        """Empty: the config accepts its fields only."""
        return {}

    @property
    def words(self) -> dict[str, dict[str, str]]:
        """Empty: there are no older files with other words."""
        return {}

    @property
    def optional(self) -> dict[str, str]:
        """Empty: no sub-configs are known that are null by default."""
        return {}

    @property
    def older_types(self) -> dict[str, dict[str, str]]:
        """Empty: no sub-config has a model type."""
        return {}

    @property
    def older_words(self) -> dict[str, str]:
        """Empty: there are no older configs with other words."""
        return {}

    @property
    def together(self) -> list[dict[str, Any]]:
        """Empty: no fields are known that can only be turned together."""
        return []

    def aliases(self, fields: Iterable[str]) -> dict[str, str]:  # noqa: ARG002
        """Return nothing: no other names of fields are known."""
        return {}

    @cached_property
    def sub_configs(self) -> dict[str, str]:
        """The dotted name of each config inside the config; these have no model type."""
        return {place: "" for place, _ in self._form.places()}

    @cached_property
    def stated(self) -> dict[str, Any]:
        """The default of each field, before the config computes anything."""
        return {**self._form.stated, **self._given}

    @cached_property
    def code(self) -> str:
        """The text of the modules that hold the model, its parts and its config."""
        kinds = {type(part) for part in self._first.modules()}
        kinds |= {
            form.kind
            for _, form in [("", self._form), *self._form.places()]
            if isinstance(form, Objects)
        }
        texts = []
        for name in sorted({kind.__module__ for kind in kinds if self._is_own(kind)}):
            with contextlib.suppress(OSError, TypeError, KeyError):
                texts.append(inspect.getsource(sys.modules[name]))
        return "\n".join(texts)

    def parts(self, *_: object) -> dict[str, tuple[str, str]]:
        """Return nothing: no part is a model of any type."""
        return {}

    def probe_values(self, class_name: str, values: Mapping[str, Any]) -> probes.Probe:
        """Build a class on the config with the values of a JSON file."""
        return self.probe(class_name, values, labels=False)

    def in_files(self, class_name: str, changes: Mapping[str, Any]) -> None:
        """Return nothing: torch saves the module's own tensors."""

    def files(self) -> set[str]:
        """Return the files of the user's code that have been loaded."""
        return {
            vars(module)["__file__"]
            for name, module in list(sys.modules.items())
            if f"{name}.".startswith(self._packages) and vars(module).get("__file__")
        }

    def task_classes(self) -> list[str]:
        """Return nothing: other classes are derived only if the user names them."""
        return []

    def takes_other_config(self, class_name: str) -> bool:  # noqa: ARG002  # other subjects may
        """Return False: a user names the classes that take the config."""
        return False

    def check_class(self, class_name: str) -> None:
        """Check that the module has this class, and that it can be built on the same config.

        Raises:
            WeighbridgeError: the class does not exist, or cannot be built.
        """
        self._checked(class_name)

    def prefix(self, class_name: str) -> str:
        """Return the name of the attribute in which another class holds the base model."""
        built = self._checked(class_name)
        base = self._class[self.base_class]
        return next(
            (name for name, part in built.named_modules() if type(part) is base and name), ""
        )

    # Its configs

    def config(self, changes: Mapping[str, Any]) -> GivenConfig:
        """Return the config with these changes and the values that the user gave."""
        given = {**self._given, **changes}
        with _quiet():
            return GivenConfig(self._form.make(given), given)

    def fields(self, config: GivenConfig) -> dict[str, Any]:
        """Return the plain value of every field by dotted name."""
        with _quiet():
            return dict(self._form.fields(config.config, config.given))

    def fields_of_given(self) -> dict[str, Any]:
        """Return nothing: a sub-config has the same defaults whether it is given or not."""
        return {}

    def knobs(self, changes: Mapping[str, Any]) -> list[Knob]:
        """Return every field that can be set, with its value under these changes."""
        fields = self.fields(self.config(changes))
        return [
            Knob(path, fields[path], annotation)
            for path, annotation in self._form.annotations()
            if path in fields and not _NEVER_TURNED.search(path)
        ]

    def nested(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Return changes as nested objects, as in a JSON file."""
        top: dict[str, Any] = {}
        for path, value in changes.items():
            *above, name = path.split(".")
            here = top
            for piece in above:
                here = here.setdefault(piece, {})
            here[name] = value
        return top

    def remembered(self, probe: probes.Probe) -> tuple[dict[str, Any], SymbolicTrace]:
        """Return a probe's fields, computed from values that remember, and their trace."""
        given = {
            name: lift(probe.fields[name], ("name", name))
            for name, _ in self._form.annotations()
            if name in probe.fields and (name in probe.changes or self.stated.get(name) is not None)
        }
        with tracing() as trace, self._remembering_code():
            try:
                config = self._form.make(given)
            except Exception:  # code that refuses such values runs on plain values
                return dict(probe.fields), trace
        return {**probe.fields, **dict(_held_values(self._form, config, ""))}, trace

    # Its classes

    def attend(self, config: GivenConfig, attention: str) -> GivenConfig:
        """Return a config with this implementation of attention, if a field selects it.

        Raises:
            UsageError: no field does, and the implementation is not eager.
        """
        field = next((name for name in _ATTENTION if name in self._form.settings), None)
        if field is None:
            if attention == "eager":
                return config
            hint = f"give its config one of these fields: {', '.join(_ATTENTION)}"
            raise UsageError(
                "no config field selects the attention implementation",
                where=self._address,
                hint=hint,
            )
        return self.config({**config.given, field: attention})

    def build(self, class_name: str, config: GivenConfig) -> nn.Module:
        """Build a class on a config, with weights."""
        with _quiet():
            return self._built(class_name, config.config)

    def probe(
        self, class_name: str, changes: Mapping[str, Any], *, labels: bool = True
    ) -> probes.Probe:
        """Build a class on the config with these changes, and again with values that remember.

        If the code fails on such values, or builds something else from them, the plain build is
        returned.

        Raises:
            Exception: whatever the code raises on a config that it refuses.
        """
        config = self.config(changes)
        fields = self.fields(config)
        with _quiet():
            plain = probes.take(
                lambda: self._built(class_name, config.config), changes, fields, labels=False
            )
        if not labels:
            return plain
        with self._remembering_code():
            try:
                labelled = probes.take(
                    lambda: self._built(class_name, self._remembering(config)),
                    changes,
                    fields,
                    rounds_apart=True,
                )
            except Exception:  # the code compares types by name, or calls a function in C
                return plain
        return labelled if labelled.outline == plain.outline else plain

    def _remembering(self, config: GivenConfig) -> Any:
        """Return a config whose values remember their fields."""
        fields = self.fields(config)
        traced = None
        with contextlib.suppress(Exception):
            remembering = {
                name: lift(value, ("name", name))
                for name, value in {**self._form.stated, **config.given}.items()
                if value is not None
            }
            traced = self._form.make(remembering)
        return self._form.remember(self._form.make(config.given), traced, fields)

    @contextlib.contextmanager
    def _remembering_code(self) -> Iterator[None]:
        """Let the user's code compute with values that remember, inside the block only."""
        with standing_in(*self._packages), _quiet():
            yield

    def _built(self, class_name: str, config: Any) -> nn.Module:
        kind = self._class_named(class_name)
        with _Readable():
            try:
                parameter = self._parameter[class_name]
                if parameter is None:
                    return kind(**made_parts(config))
                return kind(**{parameter: config}) if parameter else kind(config)
            except SystemExit as error:
                raise RuntimeError(f"it exited Python: {error}") from None

    def _class_named(self, class_name: str) -> Callable[..., nn.Module]:
        address = f"{self._address.partition(':')[0]}:{class_name}"
        if class_name not in self._class:
            self._class[class_name] = _maker(address)
        kind = self._class[class_name]
        if class_name not in self._parameter:
            parameter = _parameter_for(kind, self._form, address) if self._has_config else None
            self._parameter[class_name] = parameter
        return kind

    def _first_built(self) -> nn.Module:
        """Return the base class built on its default config.

        Lists that were given become tuples if the code refuses lists: JSON has no tuples.
        """
        try:
            return self._checked(self.base_class)
        except ModelError:
            lists = {name for name, value in self._given.items() if isinstance(value, list)}
            if not lists:
                raise
            before = set(self._form.tuples)
            self._form.tuples |= lists
            try:
                return self._checked(self.base_class)
            except ModelError:
                self._form.tuples = before
        return self._checked(self.base_class)

    def _checked(self, class_name: str) -> nn.Module:
        """Return a class built on its default config.

        Raises:
            UsageError: a factory returned something else than a module.
            ModelError: building raised, the module holds no parameters, or it is a lazy one.
        """
        where = self._address if class_name == self.base_class else class_name
        try:
            with probes.quick_building(), _quiet(), torch.device("meta"):
                built = self._built(class_name, self.config({}).config)
        except WeighbridgeError:
            raise
        except Exception as error:  # whatever the user's own code raises
            hint = (
                "try to build it with these defaults on torch's meta device, "
                "as weighbridge does here"
            )
            raise ModelError(
                f"building it raised {_reason(error)}", where=where, hint=hint
            ) from None
        if not isinstance(built, nn.Module):
            hint = "name a subclass of torch.nn.Module, or a function that returns a module"
            raise UsageError(
                "does not return a torch.nn.Module",
                where=where,
                values={"found": type(built).__name__},
                hint=hint,
            )
        if lazy := [name for name, part in built.named_parameters() if is_lazy(part)]:
            raise ModelError(
                f"{lazy[0]} has no shape before the module first runs",
                where=where,
                hint="give its size in place of the lazy module",
            )
        if not any(True for _ in built.parameters()):
            raise ModelError(
                "holds no parameters", where=where, hint="name the class that holds them"
            )
        return built

    # The user's input

    def _form_of(self, config: Any) -> Form:
        if not self._has_config:
            kind = self._class[self.base_class]
            return arguments_of(kind, self._is_own_object, self._given)
        form = form_of(config, self._is_own_object)
        if form is None or (isinstance(config, type) and issubclass(config, nn.Module)):
            hint = "give a dataclass, a pydantic model, a class with attributes, or a dict"
            where = self._config_address or self._address
            raise UsageError("is not a config", where=where, values={"found": config}, hint=hint)
        return form

    def _add_parts(self, form: Form, above: str = "") -> None:
        """Add the modules that parameters are given as addresses, with their own arguments.

        A parameter that wants a class rather than a module gets the class itself.
        """
        for name, setting in list(form.settings.items()):
            address = self._given.get(above + name)
            if not isinstance(address, str) or not _is_address(address) or name in form.stated:
                continue
            function = _at_address(address)
            del self._given[above + name]
            self._packages = tuple(
                sorted({*self._packages, *_packages(function.__module__, function, None)})
            )
            prefix = f"{above}{name}."
            given = {
                path.removeprefix(prefix): value
                for path, value in self._given.items()
                if path.startswith(prefix)
            }
            wants_class = _WANTS_CLASS.search(setting.annotation) or callable(setting.default)
            if not given and wants_class:
                form.settings[name] = setting._replace(default=function)
                continue
            part = part_of(function, self._is_own_object, given)
            form.with_part(name, part)
            self._parts[above + name] = address
            self._add_parts(part, prefix)

    def _check_given(self) -> None:
        """Check that the given fields exist, and that all fields without a default are given.

        Raises:
            UsageError: a field does not exist, or is missing.
        """
        where = self._config_address or self._address
        known = [name for name, _ in self._form.annotations()]
        for name in self._given:
            if name not in known:
                near = nearest(known, name)
                hint = f"its fields: {', '.join(known[:_MOST_FIELDS_LISTED])}"
                if not known:
                    hint = "it has no fields"
                if near:
                    hint = f"did you mean {either(near)}?"
                raise UsageError(
                    f"{self._form.name} has no field {shorten(name, str)}", where=where, hint=hint
                )
        missing = [name for name in self._form.required() if name not in self._given]
        if missing:
            raise self._lack_of(missing)

    def _lack_of(self, missing: list[str]) -> UsageError:
        """Return the error for fields that have no default and were not given."""
        where = self._config_address or self._address
        needed = f"{self._form.name} has no default for {', '.join(missing)}"
        hint = "give " + " ".join(f"--set {name}=…" for name in missing)
        if modules := [name for name in missing if self._takes_module(name)]:
            name = modules[0]
            hint = (
                f"give a module by its address, --set {name}=package.module:Class, "
                f"and its arguments as --set {name}.NAME=…"
            )
        elif _NAMES_OF_CONFIGS.issuperset(missing):
            module, _ = split(self._address)
            hint = f"name its config with --config {module}:NAME, a class, an object or a dict"
        elif not self._has_config:
            hint += ", or name its config with --config"
        return UsageError(needed, where=where, hint=hint)

    def _takes_module(self, name: str) -> bool:
        """Whether a parameter without a default is annotated as a module."""
        hint = hints_of(self._class[self.base_class]).get(name)
        return isinstance(hint, type) and issubclass(hint, nn.Module)

    def _is_own(self, kind: type) -> bool:
        return f"{kind.__module__}.".startswith(self._packages)

    def _is_own_object(self, value: Any) -> bool:
        return self._is_own(type(value))


def _import_hint(name: str, error: BaseException) -> str:
    """Return what to do about a module whose import raised."""
    if not name.startswith(f"{REMOTE}."):
        return f"make sure that `python -c 'import {name}'` works"
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    if missing and not missing.startswith(f"{REMOTE}."):
        return f"install the package that brings {missing}"
    return "the folder may lack a file, or its code may need other versions of what it imports"


def _at_address(address: str) -> Any:
    """Return the object at an address; the current folder is searched first.

    Raises:
        UsageError: it is not an address.
        ModelError: the module or the name in it does not exist, or importing the module raised.
    """
    name, path = split(address)
    here = os.getcwd()
    if here not in sys.path and not name.startswith(f"{REMOTE}."):
        sys.path.insert(0, here)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            member: Any = importlib.import_module(name)
    except (Exception, SystemExit) as error:  # whatever the user's own code raises
        if (
            isinstance(error, ModuleNotFoundError)
            and error.name
            and f"{name}.".startswith(f"{error.name}.")
        ):
            hint = f"run this in the folder where `python -c 'import {name}'` works"
            raise ModelError(f"there is no module {error.name}", where=address, hint=hint) from None
        raise ModelError(
            f"importing {name} raised {_reason(error)}",
            where=address,
            hint=_import_hint(name, error),
        ) from None
    for piece in path.split("."):
        if not hasattr(member, piece):
            near = nearest(_classes_in(member), piece)
            hint = f"did you mean {either(near)}?" if near else "check what the module defines"
            raise ModelError(f"{name} has no attribute {piece}", where=address, hint=hint)
        member = getattr(member, piece)
    return member


def _maker(address: str) -> Callable[..., nn.Module]:
    """Return the class of a module, or the function that returns one."""
    kind = _at_address(address)
    if inspect.isfunction(kind) or (isinstance(kind, type) and issubclass(kind, nn.Module)):
        return kind
    module = sys.modules[address.partition(":")[0]]
    known = [name for name in _classes_in(module) if _is_torch_class(getattr(module, name))]
    hint = "name a subclass of torch.nn.Module, or a function that returns a module"
    if known:
        hint += f": {', '.join(known[:_MOST_CLASSES_LISTED])}"
    raise UsageError(
        "is not a torch.nn.Module class", where=address, values={"found": kind}, hint=hint
    )


def _is_address(value: str) -> bool:
    try:
        split(value)
    except UsageError:
        return False
    return True


def _classes_in(module: Any) -> list[str]:
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and not inspect.ismodule(value)
    ]


def _is_torch_class(value: Any) -> bool:
    return (
        isinstance(value, type)
        and issubclass(value, nn.Module)
        and not value.__module__.startswith("torch.")
    )


def _reason(error: BaseException) -> str:
    """Return an exception's type, its text, and the line of the user's code that raised it."""
    text = printable(" ".join(str(error).split()))
    if len(text) > _LONGEST_REASON:
        text = f"{text[: _LONGEST_REASON - 3]}..."
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(_NOT_USER_CODE)
    ]
    reason = f"{type(error).__name__}: {text}".removesuffix(": ").removesuffix(".")
    if frames:
        reason += f" ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})"
    return reason


def _packages(module: str, kind: Any, config: Any) -> tuple[str, ...]:
    """Return the prefixes of the user's own modules; never all of torch or of this package."""
    at_home = config if isinstance(config, type) else type(config)
    named = {module, kind.__module__, at_home.__module__} - {"builtins"}
    tops = {name.partition(".")[0] for name in named}
    own = {*(tops - {"torch", "weighbridge"}), kind.__module__}
    if "weighbridge" in tops:
        own.add(module)
    return tuple(sorted(f"{name}." for name in own))


def _parameter_for(kind: Callable[..., Any], form: Form, where: str) -> str | None:
    """Return the parameter for the config: ``""`` by position, None if each field has its own.

    Raises:
        UsageError: the constructor takes no config, or needs more than a config.
    """
    parameters = [
        parameter
        for parameter in inspect.signature(kind).parameters.values()
        if parameter.kind not in GATHERED
    ]
    needed = [parameter.name for parameter in parameters if parameter.default is _EMPTY]
    known = [parameter.name for parameter in parameters if parameter.name in form.settings]
    if not isinstance(form, Objects) and known and set(needed) <= set(known):
        return None
    if not parameters:
        hint = "leave out --config, or name the class that takes a config"
        raise UsageError(
            f"the constructor of {kind.__name__} takes no config", where=where, hint=hint
        )
    usual = {*needed, parameters[0].name} & set(_USUAL)
    chosen = next((parameter for parameter in parameters if parameter.name in usual), parameters[0])
    others = [name for name in needed if name != chosen.name]
    if others:
        hint = "derive a class that takes only a config, such as a short subclass"
        raise UsageError(
            f"the constructor of {kind.__name__} needs {', '.join(others)} besides {chosen.name}",
            where=where,
            hint=hint,
        )
    return "" if chosen.kind is chosen.POSITIONAL_ONLY else chosen.name


_USUAL = ("config", "cfg", "conf", "args", "params", "hparams")


def _held_values(form: Form, config: Any, above: str) -> Iterator[tuple[str, Any]]:
    """Yield what a config and the configs inside it hold, by dotted name."""
    for name, value in form.held(config).items():
        below = form.settings[name].below if name in form.settings else None
        if below is None:
            yield above + name, value
        elif value is not None:
            yield from _held_values(below, value, f"{above}{name}.")


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence code that runs repeatedly."""
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class _Readable(TorchFunctionMode):
    """Creates linspace tensors on the CPU: code reads their values; the meta device has none.

    Tensors on the meta device stay there when code moves them to another device.
    """

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(function, "__name__", "")
        if name == "linspace":
            kwargs.setdefault("device", "cpu")
        elif name in _MOVES and args and getattr(args[0], "is_meta", False):
            args, kwargs = _unmoved(name, args, kwargs)
            if not args[1:] and not kwargs:
                return args[0]
        return function(*args, **kwargs)


_MOVES = frozenset(("to", "cpu", "cuda"))


def _unmoved(
    name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a call that moves a tensor, without the device."""
    if name != "to":
        return args[:1], {}
    kept = [argument for argument in args[1:] if not isinstance(argument, str | torch.device)]
    return (args[0], *kept), {key: value for key, value in kwargs.items() if key != "device"}
