"""A user's own torch module as something to derive: its class, and its config if it has one.

Their code is run.
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
from torch.overrides import TorchFunctionMode

import weighbridge
from weighbridge.derive.probing import probe as probes
from weighbridge.derive.probing.own_configs import (
    Form,
    Objects,
    annotated_config,
    arguments_of,
    form_of,
)
from weighbridge.derive.probing.own_declarations import GATHERED
from weighbridge.derive.probing.stand_ins import standing_in
from weighbridge.derive.probing.subject import Knob
from weighbridge.derive.probing.symbolic import SymbolicTrace, lift, tracing
from weighbridge.derive.running.address import family_of, split
from weighbridge.errors import ModelError, UsageError, WeighbridgeError, nearest, printable, shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

# Names of fields that are not turned: such a flag may download what nobody asked for.
_LEFT_ALONE = re.compile(r"pretrained|download")
_LONGEST_REASON = 300  # characters of another's exception
# Fields that choose an implementation of attention.
_ATTENTION = ("attn_implementation", "attention_implementation", "attention")
_MOST_FIELDS_LISTED = 24  # in a hint
_MOST_CLASSES_LISTED = 6  # in a hint
# Where files of frames in a traceback are that are not the user's.
_NOT_THEIRS = (
    "<",
    os.path.dirname(torch.__file__),
    os.path.dirname(weighbridge.__file__),
    importlib.__path__[0],
)
_EMPTY = inspect.Parameter.empty


class GivenConfig(NamedTuple):
    """A config, and what it was given, by dotted name."""

    config: Any
    given: dict[str, Any]


class OwnSubject:
    """A torch module of the user's, named as ``package.module:Class``, and its config.

    The config is named likewise: a dataclass, a pydantic model, a plain class, or an object or dict
    that holds the defaults. Where none is named, it is what the constructor's one parameter is
    annotated with; where that is no config, the constructor's own keyword arguments are the fields.
    The current folder is searched first, as ``python -m`` does.

    Args:
        module: the class, as ``package.module:Class``.
        config: its config, as ``package.module:Config``.
        fields: what the config is given besides; needed for what has no default.
        family: the name of the blueprint; the class's own in snake_case when left out.

    Raises:
        UsageError: an address is none, the class is no torch module, or a field that has no default
            is not given.
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
        kind = _torch_class(module)
        self.base_class: str = kind.__name__
        self._class: dict[str, type[nn.Module]] = {self.base_class: kind}
        named_config = annotated_config(kind) if config is None else _at_address(config)
        self._packages = _packages(module.partition(":")[0], kind, named_config)
        self._has_config = named_config is not None
        self._form = self._form_of(named_config)
        self._parameter: dict[str, str | None] = {}
        self._check_given()
        self._first = self._checked(self.base_class)
        with self._remembering_code():
            for form in [self._form, *[form for _, form in self._form.places()]]:
                _ = form.carries  # found out here and kept: it needs code that remembers

    # What it is

    @property
    def command(self) -> str:
        """The command that derives it."""
        words = ["weighbridge derive", self._address]
        if self._config_address is not None:
            words += ["--config", self._config_address]
        if self.family != family_of(self._address, None):
            words += ["--family", self.family]
        return " ".join(words)

    @property
    def reference(self) -> str:
        """What the blueprint is held against: the module itself, and the torch that builds it."""
        return f"{self._address} under torch {torch.__version__.partition('+')[0]}"

    @property
    def source(self) -> str:
        """What the blueprint is derived from."""
        config_address = self._config_address
        if isinstance(self._form, Objects):
            kind = self._form.kind
            config_address = f"{kind.__module__}:{kind.__qualname__}"
        return ", ".join(filter(None, [self._address, config_address]))

    @property
    def config_name(self) -> str:
        """The name of what has the defaults."""
        return self._form.name

    @property
    def start(self) -> dict[str, Any]:
        """What a config must say: nothing, for what the user gave counts as a default."""
        return {}

    @property
    def pinned(self) -> list[str]:
        """Fields to be held at their defaults: none is known."""
        return []

    @property
    def taken(self) -> dict[str, Any]:
        """Names, of no field, that the config takes all the same: none is known."""
        return {}

    @property
    def words(self) -> dict[str, dict[str, str]]:
        """The words that older names have for the texts of a field: none is known."""
        return {}

    @property
    def optional(self) -> dict[str, str]:
        """Sub-configs that are null by default and can be given: none is known."""
        return {}

    @property
    def older_words(self) -> dict[str, str]:
        """Words that older configs have in lists of texts: none is known."""
        return {}

    @property
    def together(self) -> list[dict[str, Any]]:
        """Fields that can be turned together only: none is known."""
        return []

    def aliases(self, fields: Iterable[str]) -> dict[str, str]:  # noqa: ARG002
        """Return other spellings of fields: none is known."""
        return {}

    @cached_property
    def sub_configs(self) -> dict[str, str]:
        """The dotted name of each config inside the config; none says what model it is of."""
        return {place: "" for place, _ in self._form.places()}

    @cached_property
    def stated(self) -> dict[str, Any]:
        """What each field is by default, before any is worked out."""
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

    def in_files(self, class_name: str, changes: Mapping[str, Any]) -> None:
        """Return nothing: what torch saves is what the module holds."""

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

    def check_class(self, class_name: str) -> None:
        """See that the module has such a class, and that it can be built on the same config.

        Raises:
            WeighbridgeError: it has not, or it cannot.
        """
        self._checked(class_name)

    def prefix(self, class_name: str) -> str:
        """Return the name that another class of the same module has for the base model in it."""
        built = self._checked(class_name)
        base = self._class[self.base_class]
        return next(
            (name for name, part in built.named_modules() if type(part) is base and name), ""
        )

    # Its configs

    def config(self, changes: Mapping[str, Any]) -> GivenConfig:
        """Return the config that says no more than this, and what the user gave."""
        given = {**self._given, **changes}
        with _quiet():
            return GivenConfig(self._form.make(given), given)

    def fields(self, config: GivenConfig) -> dict[str, Any]:
        """Return the value of every field by dotted name, remembering nothing."""
        with _quiet():
            return dict(self._form.fields(config.config, config.given))

    def fields_of_given(self) -> dict[str, Any]:
        """Return nothing: sub-configs have their defaults where those are given."""
        return {}

    def knobs(self, changes: Mapping[str, Any]) -> list[Knob]:
        """Return every field that can be set, with the value that it has here."""
        fields = self.fields(self.config(changes))
        return [
            Knob(path, fields[path], annotation)
            for path, annotation in self._form.annotations()
            if path in fields and not _LEFT_ALONE.search(path)
        ]

    def nested(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Return changes as a JSON file has them: sub-configs as objects."""
        top: dict[str, Any] = {}
        for path, value in changes.items():
            *above, name = path.split(".")
            here = top
            for piece in above:
                here = here.setdefault(piece, {})
            here[name] = value
        return top

    def remembered(self, probe: probes.Probe) -> tuple[dict[str, Any], SymbolicTrace]:
        """Return a probe's fields as made of values that remember, and their trace."""
        given = {
            name: lift(probe.fields[name], ("name", name))
            for name, _ in self._form.annotations()
            if name in probe.fields and (name in probe.changes or self.stated.get(name) is not None)
        }
        with tracing() as trace, self._remembering_code():
            try:
                config = self._form.make(given)
            except Exception:  # code that does not bear such values is asked without
                return dict(probe.fields), trace
        return {**probe.fields, **dict(_held_values(self._form, config, ""))}, trace

    # Its classes

    def attend(self, config: GivenConfig, attention: str) -> GivenConfig:
        """Return a config with this implementation of attention, if a field chooses it.

        Raises:
            UsageError: none does, and another than eager is asked for.
        """
        field = next((name for name in _ATTENTION if name in self._form.settings), None)
        if field is None:
            if attention == "eager":
                return config
            hint = f"let its config have one: {' or '.join(_ATTENTION)}"
            raise UsageError("no field chooses an attention", where=self._address, hint=hint)
        return self.config({**config.given, field: attention})

    def build(self, class_name: str, config: GivenConfig) -> nn.Module:
        """Build a class on a config, with values."""
        with _quiet():
            return self._built(class_name, config.config)

    def probe(
        self, class_name: str, changes: Mapping[str, Any], *, labels: bool = True
    ) -> probes.Probe:
        """Build a class on the config of these changes, and once more of values that remember.

        Where the code does not bear such values, or builds something else of them, it is taken as
        built without.

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
                    lambda: self._built(class_name, self._remembering(config)), changes, fields
                )
            except Exception:  # a type that is asked for by name, a function in C
                return plain
        return labelled if labelled.outline == plain.outline else plain

    def _remembering(self, config: GivenConfig) -> Any:
        """Return a config whose values remember the fields that they are."""
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
        """Let the user's code compute with what remembers; outside the block it is as it was."""
        with standing_in(*self._packages), _quiet():
            yield

    def _built(self, class_name: str, config: Any) -> nn.Module:
        kind = self._class_named(class_name)
        with _Readable():
            try:
                parameter = self._parameter[class_name]
                if parameter is None:
                    return kind(**config)
                return kind(**{parameter: config}) if parameter else kind(config)
            except SystemExit as error:
                raise RuntimeError(f"it ended Python: {error}") from None

    def _class_named(self, class_name: str) -> type[nn.Module]:
        address = f"{self._address.partition(':')[0]}:{class_name}"
        if class_name not in self._class:
            self._class[class_name] = _torch_class(address)
        kind = self._class[class_name]
        if class_name not in self._parameter:
            parameter = _parameter_for(kind, self._form, address) if self._has_config else None
            self._parameter[class_name] = parameter
        return kind

    def _checked(self, class_name: str) -> nn.Module:
        """Return a class built on its default config.

        Raises:
            ModelError: building raised, or what was built holds no parameters.
        """
        where = self._address if class_name == self.base_class else class_name
        try:
            with probes.quick_building(), _quiet(), torch.device("meta"):
                built = self._built(class_name, self.config({}).config)
        except WeighbridgeError:
            raise
        except Exception as error:  # whatever the user's own code raises
            hint = (
                "build it once yourself on these defaults; "
                "here it is built on torch's meta device, without values"
            )
            raise ModelError(
                f"building it raised {_reason(error)}", where=where, hint=hint
            ) from None
        if not any(True for _ in built.parameters()):
            raise ModelError(
                "holds no parameters", where=where, hint="name the class that holds them"
            )
        return built

    # How it was named

    def _form_of(self, config: Any) -> Form:
        if not self._has_config:
            return arguments_of(self._class[self.base_class], self._is_own_object)
        form = form_of(config, self._is_own_object)
        if form is None or (isinstance(config, type) and issubclass(config, nn.Module)):
            hint = "give a dataclass, a pydantic model, a class with attributes, or a dict"
            where = self._config_address or self._address
            raise UsageError("is no config", where=where, values={"found": config}, hint=hint)
        return form

    def _check_given(self) -> None:
        """Refuse fields that there are not, and the lack of those that have no default.

        Raises:
            UsageError: either.
        """
        where = self._config_address or self._address
        known = [name for name, _ in self._form.annotations()]
        for name in self._given:
            if name not in known:
                near = nearest(known, name)
                hint = f"it has {', '.join(known[:_MOST_FIELDS_LISTED]) or 'none'}"
                if near:
                    hint = f"did you mean {' or '.join(near)}?"
                raise UsageError(
                    f"{self._form.name} has no field {shorten(name, str)}", where=where, hint=hint
                )
        missing = [name for name in self._form.required() if name not in self._given]
        if missing:
            needed = f"{self._form.name} has no default for {', '.join(missing)}"
            hint = "give " + " ".join(f"--set {name}=…" for name in missing)
            if not self._has_config:
                hint += ", or name the config that it takes with --config"
            raise UsageError(needed, where=where, hint=hint)

    def _is_own(self, kind: type) -> bool:
        return f"{kind.__module__}.".startswith(self._packages)

    def _is_own_object(self, value: Any) -> bool:
        return self._is_own(type(value))


def _at_address(address: str) -> Any:
    """Return what stands at an address, the folder at hand looked into first.

    Raises:
        UsageError: it is no address.
        ModelError: there is no such module or nothing of that name in it, or importing it raised.
    """
    name, path = split(address)
    here = os.getcwd()
    if here not in sys.path:
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
        hint = f"see that `python -c 'import {name}'` works"
        raise ModelError(
            f"importing {name} raised {_reason(error)}", where=address, hint=hint
        ) from None
    for piece in path.split("."):
        if not hasattr(member, piece):
            near = nearest(_classes_in(member), piece)
            hint = f"did you mean {' or '.join(near)}?" if near else "see what the module defines"
            raise ModelError(f"{name} has no {piece}", where=address, hint=hint)
        member = getattr(member, piece)
    return member


def _torch_class(address: str) -> type[nn.Module]:
    kind = _at_address(address)
    if not isinstance(kind, type) or not issubclass(kind, nn.Module):
        module = sys.modules[address.partition(":")[0]]
        known = [name for name in _classes_in(module) if _is_torch_class(getattr(module, name))]
        hint = "name a class that is one"
        if known:
            hint += f": {', '.join(known[:_MOST_CLASSES_LISTED])}"
        raise UsageError(
            "is no torch.nn.Module class", where=address, values={"found": kind}, hint=hint
        )
    return kind


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
    """Return an exception's type, its text, and where in the user's code it was raised."""
    text = printable(" ".join(str(error).split()))
    if len(text) > _LONGEST_REASON:
        text = f"{text[: _LONGEST_REASON - 3]}..."
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(_NOT_THEIRS)
    ]
    reason = f"{type(error).__name__}: {text}".removesuffix(": ").removesuffix(".")
    if frames:
        reason += f", at {os.path.basename(frames[-1].filename)}:{frames[-1].lineno}"
    return reason


def _packages(module: str, kind: type, config: Any) -> tuple[str, ...]:
    """Return the prefixes of the user's own modules: never all of torch or of this package."""
    at_home = config if isinstance(config, type) else type(config)
    named = {module, kind.__module__, at_home.__module__} - {"builtins"}
    tops = {name.partition(".")[0] for name in named} - {"torch", "weighbridge"}
    return tuple(sorted(f"{name}." for name in {*tops, kind.__module__}))


def _parameter_for(kind: type, form: Form, where: str) -> str | None:
    """Return the parameter that takes the config: ``""`` by position, None for one each field.

    Raises:
        UsageError: the constructor takes none, or needs more than a config.
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
        hint = "leave --config out, or name the class that takes it"
        raise UsageError(f"{kind.__name__} takes no config", where=where, hint=hint)
    usual = {*needed, parameters[0].name} & set(_USUAL)
    chosen = next((parameter for parameter in parameters if parameter.name in usual), parameters[0])
    others = [name for name in needed if name != chosen.name]
    if others:
        hint = "derive a class that takes a config alone; a subclass of one line will do"
        raise UsageError(
            f"{kind.__name__} needs {', '.join(others)} besides {chosen.name}",
            where=where,
            hint=hint,
        )
    return "" if chosen.kind is chosen.POSITIONAL_ONLY else chosen.name


_USUAL = ("config", "cfg", "conf", "args", "params", "hparams")


def _held_values(form: Form, config: Any, above: str) -> Iterator[tuple[str, Any]]:
    """Yield what a config and those inside it hold, by dotted name."""
    for name, value in form.held(config).items():
        below = form.settings[name].below if name in form.settings else None
        if below is None:
            yield above + name, value
        elif value is not None:
            yield from _held_values(below, value, f"{above}{name}.")


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Let what is built again and again print nothing."""
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class _Readable(TorchFunctionMode):
    """Makes ramps on the CPU: code reads single numbers of them, and the meta device has none."""

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if getattr(function, "__name__", "") == "linspace":
            kwargs.setdefault("device", "cpu")
        return function(*args, **kwargs)
