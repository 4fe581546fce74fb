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
from weighbridge.derive.probing.subject import Knob
from weighbridge.derive.probing.symbolic import Trace, lift, tracing
from weighbridge.derive.running.address import family_of, split
from weighbridge.errors import ModelError, UsageError, WeighbridgeError, nearest, printable, shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

_LEFT_ALONE = re.compile(
    r"pretrained|download"
)  # turned, such a flag may fetch what nobody asked for
_LONGEST_REASON = 300  # characters of another's exception
_ATTENTION = (
    "attn_implementation",
    "attention_implementation",
    "attention",
)  # fields that choose an implementation
_NOT_THEIRS = (
    "<",
    os.path.dirname(torch.__file__),
    os.path.dirname(weighbridge.__file__),
    importlib.__path__[0],
)
_EMPTY = inspect.Parameter.empty


class Made(NamedTuple):
    """A config, and what it was given, by dotted name."""

    config: Any
    said: dict[str, Any]


class OwnSubject:
    """A torch module of the user's, named as ``package.module:Class``, and its config, named likewise.

    The config is a dataclass, a pydantic model, a plain class, or an object or dict that holds the
    defaults. Where none is named, it is what the constructor's one parameter is annotated with;
    where that is no config, the constructor's own keyword arguments are the fields. The folder at
    hand is looked into first, as ``python -m`` does.

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
        >>> linear.family, linear.base_class, linear.fields(linear.config({"out_features": 5}))["out_features"]
        ('linear', 'Linear', 5)
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
        found = annotated_config(kind) if config is None else _found(config)
        self._packages = _packages(module.partition(":")[0], kind, found)
        self._has_config = found is not None
        self._form = self._form_of(found)
        self._parameter: dict[str, str | None] = {}
        self._check_given()
        self._first = self._checked(self.base_class)
        with self._remembering_code():
            for form in [self._form, *[form for _, form in self._form.places()]]:
                _ = form.carries  # which is to be found out here

    # What it is

    @property
    def command(self) -> str:
        """The command that derives it."""
        config = [] if self._config_address is None else ["--config", self._config_address]
        family = [] if self.family == family_of(self._address, None) else ["--family", self.family]
        return " ".join(["weighbridge derive", self._address, *config, *family])

    @property
    def reference(self) -> str:
        """What the blueprint is held against: the module itself, and the torch that builds it."""
        return f"{self._address} under torch {torch.__version__.partition('+')[0]}"

    @property
    def source(self) -> str:
        """What the blueprint is derived from."""
        form = self._form
        named = (
            f"{form.kind.__module__}:{form.kind.__qualname__}"
            if isinstance(form, Objects)
            else self._config_address
        )
        return ", ".join(filter(None, [self._address, named]))

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
        """Fields to be held at their defaults: none that can be told."""
        return []

    @property
    def taken(self) -> dict[str, Any]:
        """Names, of no field, that the config takes all the same: none that can be told."""
        return {}

    @property
    def words(self) -> dict[str, dict[str, str]]:
        """The words that older names have for the texts of a field: none that can be told."""
        return {}

    @property
    def optional(self) -> dict[str, str]:
        """Sub-configs that are null by default and can be given: none that can be told."""
        return {}

    @property
    def older_words(self) -> dict[str, str]:
        """Words that older configs have in lists of texts: none that can be told."""
        return {}

    @property
    def together(self) -> list[dict[str, Any]]:
        """Fields that can be turned together only: none that can be told."""
        return []

    def aliases(self, fields: Iterable[str]) -> dict[str, str]:  # noqa: ARG002
        """Return other spellings of fields: none that can be told."""
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
        """Return the other classes that take this config: those that are asked for by name alone."""
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

    def config(self, changes: Mapping[str, Any]) -> Made:
        """Return the config that says no more than this, and what the user gave."""
        said = {**self._given, **changes}
        with _quiet():
            return Made(self._form.make(said), said)

    def fields(self, config: Made) -> dict[str, Any]:
        """Return the value of every field by dotted name, remembering nothing."""
        with _quiet():
            return dict(self._form.fields(config.config, config.said))

    def fields_of_given(self) -> dict[str, Any]:
        """Return what the fields of sub-configs are where those are given: what they are by default."""
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

    def remembered(self, probe: probes.Probe) -> tuple[dict[str, Any], Trace]:
        """Return a probe's fields as its config makes them of values that remember, and what that asked."""
        said = {
            name: lift(probe.fields[name], ("name", name))
            for name, _ in self._form.annotations()
            if name in probe.fields and (name in probe.changes or self.stated.get(name) is not None)
        }
        with tracing() as trace, self._remembering_code():
            try:
                config = self._form.make(said)
            except Exception:  # code that does not bear such values is asked without
                return dict(probe.fields), trace
        return {**probe.fields, **dict(_walked(self._form, config, ""))}, trace

    # Its classes

    def attend(self, made: Made, attention: str) -> Made:
        """Return a config with this implementation of attention, where one of its fields chooses it.

        Raises:
            UsageError: none does, and another than eager is asked for.
        """
        field = next((name for name in _ATTENTION if name in self._form.settings), None)
        if field is None:
            if attention == "eager":
                return made
            hint = f"let its config have one: {' or '.join(_ATTENTION)}"
            raise UsageError("no field chooses an attention", where=self._address, hint=hint)
        return self.config({**made.said, field: attention})

    def build(self, class_name: str, made: Made) -> nn.Module:
        """Build a class on a config, with values."""
        with _quiet():
            return self._built(class_name, made.config)

    def probe(
        self, class_name: str, changes: Mapping[str, Any], *, labels: bool = True
    ) -> probes.Probe:
        """Build a class on the config of these changes, and once more of values that remember.

        Where the code does not bear such values, or builds something else of them, it is taken as
        built without.

        Raises:
            Exception: whatever the code raises on a config that it refuses.
        """
        made = self.config(changes)
        fields = self.fields(made)
        with _quiet():
            plain = probes.take(
                lambda: self._built(class_name, made.config), changes, fields, labels=False
            )
        if not labels:
            return plain
        with self._remembering_code():
            try:
                labelled = probes.take(
                    lambda: self._built(class_name, self._remembering(made)), changes, fields
                )
            except Exception:  # a type that is asked for by name, a function in C
                return plain
        return labelled if labelled.outline == plain.outline else plain

    def _remembering(self, made: Made) -> Any:
        """Return a config whose values remember the fields that they are."""
        fields = self.fields(made)
        traced = None
        with contextlib.suppress(Exception):
            said = {**self._form.stated, **made.said}
            traced = self._form.make(
                {
                    name: lift(value, ("name", name))
                    for name, value in said.items()
                    if value is not None
                }
            )
        return self._form.remember(self._form.make(made.said), traced, fields)

    @contextlib.contextmanager
    def _remembering_code(self) -> Iterator[None]:
        """Let the user's code compute with what remembers; outside the block it is as it was."""
        with probes.standing_in(*self._packages), _quiet():
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
        if class_name not in self._class:
            self._class[class_name] = _torch_class(
                f"{self._address.partition(':')[0]}:{class_name}"
            )
        if class_name not in self._parameter:
            kind, address = (
                self._class[class_name],
                f"{self._address.partition(':')[0]}:{class_name}",
            )
            self._parameter[class_name] = (
                _parameter_for(kind, self._form, address) if self._has_config else None
            )
        return self._class[class_name]

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
            hint = "build it once yourself on these defaults; here it is built on torch's meta device, without values"
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
                hint = (
                    f"did you mean {' or '.join(near)}?"
                    if near
                    else f"it has {', '.join(known[:24]) or 'none'}"
                )
                raise UsageError(
                    f"{self._form.name} has no field {shorten(name, str)}", where=where, hint=hint
                )
        missing = [name for name in self._form.required() if name not in self._given]
        if missing:
            needed = f"{self._form.name} has no default for {', '.join(missing)}"
            besides = "" if self._has_config else ", or name the config that it takes with --config"
            by_hand = " ".join(f"--set {name}=…" for name in missing)
            raise UsageError(needed, where=where, hint=f"give {by_hand}{besides}")

    def _is_own(self, kind: type) -> bool:
        return f"{kind.__module__}.".startswith(self._packages)

    def _is_own_object(self, value: Any) -> bool:
        return self._is_own(type(value))


def _found(address: str) -> Any:
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
            found: Any = importlib.import_module(name)
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
        if not hasattr(found, piece):
            near = nearest(_classes_in(found), piece)
            hint = f"did you mean {' or '.join(near)}?" if near else "see what the module defines"
            raise ModelError(f"{name} has no {piece}", where=address, hint=hint)
        found = getattr(found, piece)
    return found


def _torch_class(address: str) -> type[nn.Module]:
    found = _found(address)
    if not isinstance(found, type) or not issubclass(found, nn.Module):
        module = _found_module(address)
        known = [name for name in _classes_in(module) if _is_torch_class(getattr(module, name))]
        hint = (
            f"name a class that is one: {', '.join(known[:6])}"
            if known
            else "name a class that is one"
        )
        raise UsageError(
            "is no torch.nn.Module class", where=address, values={"found": found}, hint=hint
        )
    return found


def _found_module(address: str) -> Any:
    return sys.modules[address.partition(":")[0]]


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
    text = text if len(text) <= _LONGEST_REASON else f"{text[: _LONGEST_REASON - 3]}..."
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(_NOT_THEIRS)
    ]
    place = f", at {os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}: {text}".removesuffix(": ").removesuffix(".") + place


def _packages(module: str, kind: type, config: Any) -> tuple[str, ...]:
    """Return the prefixes of the user's own modules: of the packages that were named, never torch or this one whole."""
    at_home = config if isinstance(config, type) else type(config)
    named = {module, kind.__module__, at_home.__module__} - {"builtins"}
    tops = {name.partition(".")[0] for name in named} - {"torch", "weighbridge"}
    return tuple(sorted(f"{name}." for name in {*tops, kind.__module__}))


def _parameter_for(kind: type, form: Form, where: str) -> str | None:
    """Return the parameter that takes the config, ``""`` where it goes by its place, None where it is spread.

    Raises:
        UsageError: the constructor takes none, or needs more than a config.
    """
    taken = [
        found
        for found in inspect.signature(kind).parameters.values()
        if found.kind not in _GATHERED
    ]
    needed = [found.name for found in taken if found.default is _EMPTY]
    known = [found.name for found in taken if found.name in form.settings]
    if not isinstance(form, Objects) and known and set(needed) <= set(known):
        return None
    if not taken:
        hint = "leave --config out, or name the class that takes it"
        raise UsageError(f"{kind.__name__} takes no config", where=where, hint=hint)
    chosen = next(
        (
            found
            for found in taken
            if found.name in _USUAL and found.name in [*needed, taken[0].name]
        ),
        taken[0],
    )
    others = [name for name in needed if name != chosen.name]
    if others:
        hint = "derive a class that takes a config alone; a subclass of one line will do"
        raise UsageError(
            f"{kind.__name__} needs {', '.join(others)} besides {chosen.name}",
            where=where,
            hint=hint,
        )
    return "" if chosen.kind is chosen.POSITIONAL_ONLY else chosen.name


_GATHERED = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_USUAL = ("config", "cfg", "conf", "args", "params", "hparams")


def _walked(form: Form, config: Any, above: str) -> Iterator[tuple[str, Any]]:
    """Yield what a config and those inside it hold, by dotted name."""
    for name, value in form.held(config).items():
        below = form.settings[name].below if name in form.settings else None
        if below is None:
            yield above + name, value
        elif value is not None:
            yield from _walked(below, value, f"{above}{name}.")


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Let what is built again and again print nothing."""
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class _Readable(TorchFunctionMode):
    """Makes ramps, of which code reads single numbers, where numbers can be read: the meta device has none."""

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if getattr(function, "__name__", "") == "linspace":
            kwargs.setdefault("device", "cpu")
        return function(*args, **kwargs)
