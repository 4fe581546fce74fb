"""The configs of a user's own modules: how each kind is built, read, and made to remember.

A config is a dataclass, a pydantic model, a plain class, a dict, or just the arguments of a
constructor. The fields of a config inside a config have dotted names. A config may compute values
that it was not given: ``dim // heads``. Computed from values that remember, these remember too.
"""

from __future__ import annotations

import contextlib
import copy
import enum
import inspect
import re
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import nn

from weighbridge.derive.probing.own_declarations import (
    MISSING,
    annotation_text,
    annotations_in,
    default_of,
    enumeration_of,
    hints_of,
    is_declared,
    keys_of,
)
from weighbridge.derive.probing.own_keywords import (
    GATHERED,
    accepted_parameters,
    gathers_keywords,
)
from weighbridge.derive.probing.symbolic import (
    Symbolic,
    lift,
    note_question,
    plain_value,
    tree_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

# Words that cannot be names in an expression.
_RESERVED = {"and", "or", "not", "if", "else", "for", "in", "null", "true", "false"}
_SCALARS = (type(None), bool, int, float, str)


class Setting(NamedTuple):
    """A value that a config accepts: its default, or `MISSING`, or the config inside it.

    Members of an enumeration are fields by their names.
    """

    default: Any
    annotation: str = ""
    below: Form | None = None
    enumeration: type[enum.Enum] | None = None


class Form:
    """A kind of config. This base kind is a constructor's arguments, kept as a dict.

    Example:
        >>> rope = Setting(None, below=Items("rope", {"base": 10}))
        >>> form = Form("Model", {"width": Setting(8), "rope": rope})
        >>> form.make({"rope.base": 20})
        {'width': 8, 'rope': {'base': 20}}
        >>> form.stated
        {'width': 8, 'rope.base': 10}
    """

    def __init__(self, name: str, settings: dict[str, Setting]) -> None:
        self.name = name
        self.settings = {
            known: setting for known, setting in settings.items() if _can_be_named(known)
        }
        self.tuples: set[str] = set()
        """The names whose lists become tuples, beside those with a tuple as default."""

    def make(self, values: Mapping[str, Any]) -> Any:
        """Return a config with these values, by dotted name, and defaults elsewhere.

        Raises:
            Exception: whatever the config's own code raises.
        """
        values_here: dict[str, Any] = {}
        below: dict[str, dict[str, Any]] = {}
        for path, value in values.items():
            name, _, rest = path.partition(".")
            if rest:
                below.setdefault(name, {})[rest] = value
            elif type(value) is list and self._is_tuple(name):
                values_here[name] = tuple(value)
            else:
                values_here[name] = value
        for name, setting in self.settings.items():
            if setting.below is not None:
                values_here[name] = setting.below.make(below.get(name, {}))
        return self._build(values_here)

    def _is_tuple(self, name: str) -> bool:
        if name in self.tuples:
            return True
        return name in self.settings and isinstance(self.settings[name].default, tuple)

    def _build(self, values: dict[str, Any]) -> Any:
        defaults = {
            name: setting.default
            for name, setting in self.settings.items()
            if setting.default is not MISSING
        }
        built = {**{name: _unshared(value) for name, value in defaults.items()}, **values}
        return self._with_members(built)

    def _with_members(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return values with the members of enumerations that they name.

        A member remembers no field, so the question which one it is counts as asked here.
        """
        with_members = dict(values)
        for name, value in values.items():
            enumeration = self.settings.get(name, _NO_SETTING).enumeration
            text = plain_value(value)
            if enumeration is None or not isinstance(text, str):
                continue
            if isinstance(value, Symbolic):
                for member in enumeration:
                    note_question(("==", tree_of(value), ("value", member.name)))
            with_members[name] = enumeration[text]
        return with_members

    def held(self, config: Any) -> dict[str, Any]:
        """Return what a config holds by name: the given values and the computed ones."""
        return {name: value for name, value in dict(config).items() if isinstance(name, str)}

    def put(self, config: Any, values: dict[str, Any]) -> Any:
        """Return a config with these values in place of its own."""
        for name, value in values.items():
            config[name] = value
        return config

    @property
    def carries(self) -> bool:
        """Whether the values that a config computes remember what they were computed from."""
        return True

    @cached_property
    def stated(self) -> dict[str, Any]:
        """The default of each value that can be given, before the config computes anything."""
        stated: dict[str, Any] = {}
        for name, setting in self.settings.items():
            if setting.below is not None:
                stated |= {f"{name}.{path}": value for path, value in setting.below.stated.items()}
            elif setting.default is not MISSING and _is_data(setting.default):
                stated[name] = plain_value(setting.default)
        return stated

    def with_part(self, name: str, part: Form) -> None:
        """Let another form make the value of a parameter."""
        self.settings[name] = Setting(MISSING, "", part)
        self.__dict__.pop("stated", None)

    def required(self, above: str = "") -> Iterator[str]:
        """Yield the dotted name of each value without a default."""
        for name, setting in self.settings.items():
            if setting.below is not None:
                yield from setting.below.required(f"{above}{name}.")
            elif setting.default is MISSING:
                yield above + name

    def places(self, above: str = "") -> Iterator[tuple[str, Form]]:
        """Yield the dotted name and the kind of each config inside this one."""
        for name, setting in self.settings.items():
            if setting.below is not None:
                yield above + name, setting.below
                yield from setting.below.places(f"{above}{name}.")

    def annotations(self, above: str = "") -> Iterator[tuple[str, str]]:
        """Yield the dotted name and the annotation of each value that can be given as data."""
        for name, setting in self.settings.items():
            if setting.below is not None:
                yield from setting.below.annotations(f"{above}{name}.")
            elif setting.default is MISSING or _is_data(setting.default):
                yield above + name, setting.annotation

    def fields(
        self, config: Any, given: Mapping[str, Any], above: str = ""
    ) -> Iterator[tuple[str, Any]]:
        """Yield the fields of a config: the values that can be given, and computed lists.

        A given value or a default is the field's value, even if the config keeps something else
        under that name. Null is an exception: it often asks for a computed value.
        """
        held = self.held(config)
        for name, setting in self.settings.items():
            path = above + name
            if setting.below is not None:
                if name in held and held[name] is not None:
                    yield from setting.below.fields(held[name], given, f"{path}.")
                continue
            value = given.get(path, setting.default)
            if value is None or value is MISSING:
                value = held.get(name)
            if _is_data(value):
                yield path, plain_value(value)
        for name, value in held.items():
            if self._is_worked_out(name, value):
                yield above + name, plain_value(value)

    def _is_worked_out(self, name: str, value: Any) -> bool:
        """Whether a computed value counts as a field, because its expression is lost.

        The expression of a list is always lost.
        """
        lost = isinstance(value, list | tuple) or not self.carries
        return (
            name not in self.settings
            and _can_be_named(name)
            and lost
            and bool(value)
            and _is_data(value)
        )

    def remember(self, config: Any, traced: Any, fields: Mapping[str, Any], above: str = "") -> Any:
        """Return a config whose values remember their fields.

        ``traced`` is the same config built from values that remember: computed values come from it.
        """
        values: dict[str, Any] = {}
        traced_values: dict[str, Any] = {}
        if traced is not None:
            traced_values = self.held(traced)
        for name, value in self.held(config).items():
            below = self.settings.get(name, _NO_SETTING).below
            if below is not None and value is not None:
                values[name] = below.remember(
                    value, traced_values.get(name), fields, f"{above}{name}."
                )
            elif (
                _is_data(value)
                and (above + name) in fields
                and plain_value(value) == fields[above + name]
            ):
                values[name] = lift(value, ("name", above + name))
            elif _remembers(traced_values.get(name), value):
                values[name] = traced_values[name]
            elif _is_object(value) and type(value) is type(traced_values.get(name)):
                carry(value, traced_values[name])
        return self.put(config, values)


_NO_SETTING = Setting(MISSING)


def _remembers(traced: Any, value: Any) -> bool:
    return isinstance(traced, Symbolic) and plain_value(traced) == plain_value(value)


class Call:
    """A part that a constructor takes: what makes it, with which arguments.

    It is made when the module is, so that its tensors are the module's own.
    """

    def __init__(self, function: Callable[..., Any], arguments: dict[str, Any]) -> None:
        self.function, self.arguments = function, arguments

    def __call__(self) -> Any:
        """Make the part."""
        return self.function(**made_parts(self.arguments))


def made_parts(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a constructor, with its parts made.

    Example:
        >>> made_parts({"width": 8, "inner": Call(dict, {"depth": 2})})
        {'width': 8, 'inner': {'depth': 2}}
    """
    return {
        name: value() if isinstance(value, Call) else value for name, value in arguments.items()
    }


class Calls(Form):
    """The arguments of a part that a constructor takes, such as a layer or a backbone."""

    def __init__(
        self, function: Callable[..., Any], settings: dict[str, Setting], name: str
    ) -> None:
        self.function = function
        super().__init__(name, settings)

    def _build(self, values: dict[str, Any]) -> Any:
        return Call(self.function, super()._build(values))

    def held(self, config: Any) -> dict[str, Any]:
        """Return the arguments of a part by name."""
        return dict(config.arguments)

    def put(self, config: Any, values: dict[str, Any]) -> Any:
        """Return the part with these arguments in place of its own."""
        config.arguments.update(values)
        return config


class Items(Form):
    """A dict as a config: it accepts the keys that it holds.

    The config around it may make an object of it, as ``self.text = TextConfig(**text)`` does.
    """

    def __init__(
        self, name: str, example: Mapping[str, Any], is_own: Callable[[Any], bool] | None = None
    ) -> None:
        self._example = example
        super().__init__(
            name,
            {
                key: _setting(value, "", is_own)
                for key, value in dict(example).items()
                if isinstance(key, str)
            },
        )

    def _build(self, values: dict[str, Any]) -> Any:
        return self.put(copy.deepcopy(self._example), values)

    def held(self, config: Any) -> dict[str, Any]:
        """Return the items by key, or the attributes of the object that was made of them."""
        return _attributes(config) if _is_object(config) else super().held(config)

    def put(self, config: Any, values: dict[str, Any]) -> Any:
        """Return the dict, or the object made of it, with these values in place of its own."""
        return (
            _with_attributes(config, values) if _is_object(config) else super().put(config, values)
        )


class Objects(Form):
    """A class as a config: a dataclass, a pydantic model, a named tuple, or a plain class.

    It accepts the parameters of its constructor. A plain class also accepts its class attributes,
    and, if its constructor has no parameters, the attributes that the constructor sets. ``example``
    is an object of the class whose values are the defaults; ``is_own`` tells which objects are
    configs because their class is the user's own.

    Example:
        >>> import dataclasses
        >>> @dataclasses.dataclass
        ... class Config:
        ...     dim: int = 8
        ...     heads: int | None = None
        >>> form = Objects(Config)
        >>> form.make({"dim": 16}), form.stated
        (Config(dim=16, heads=None), {'dim': 8, 'heads': None})
    """

    def __init__(
        self, kind: type, example: Any = None, is_own: Callable[[Any], bool] | None = None
    ) -> None:
        self.kind, self._example = kind, example
        parameters = accepted_parameters(kind)
        self._any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
        self._keys = keys_of(kind)
        hints = hints_of(kind)
        settings = {}
        for parameter in parameters:
            if parameter.kind not in GATHERED:
                name = self._keys.get(parameter.name, parameter.name)
                settings[name] = _setting(
                    default_of(kind, name, parameter.default),
                    annotation_text(parameter.annotation),
                    is_own,
                    hints.get(name),
                )
        self._parameters = set(settings)
        self._pinned: dict[str, Any] = {}
        super().__init__(kind.__name__, settings)
        self._add_attributes(is_own)
        if example is not None:
            self._pin(self.held(example), is_own)

    def _add_attributes(self, is_own: Callable[[Any], bool] | None) -> None:
        """Add the attributes that can be set and are not parameters."""
        if is_declared(self.kind):
            return
        attributes: dict[str, Any] = {}
        for above in reversed(self.kind.__mro__[:-1]):
            attributes |= {
                name: value for name, value in vars(above).items() if not _is_code(value)
            }
        if not self._parameters:
            example = self._example
            if example is None:
                with contextlib.suppress(Exception):
                    example = self.kind()
            attributes |= _attributes(example)
        hints: dict[str, str] = {}
        for above in reversed(self.kind.__mro__):
            hints |= annotations_in(above)
        for name, value in attributes.items():
            if name not in self.settings and _can_be_named(name):
                self.settings[name] = _setting(value, hints.get(name, ""), is_own)

    def meet(self, saved: Mapping[str, Any]) -> None:
        """Use the values of a saved config as defaults, and add those that the class only keeps.

        The model may read what the class takes as keywords without a name.
        """
        for name, value in saved.items():
            is_new = name not in self.settings and _can_be_named(name) and _is_data(value)
            if is_new and (self._any or self._keeps(name, value)):
                self.settings[name] = Setting(value)
                self._pinned[name] = value
        self._pin(saved, None)

    def _keeps(self, name: str, value: Any) -> bool:
        """Whether the class keeps a keyword that its constructor does not name."""
        try:
            return _same(getattr(self.kind(**{name: value}), name), value)
        except Exception:  # whatever the class's own code raises
            return False

    def _pin(self, held: Mapping[str, Any], is_own: Callable[[Any], bool] | None) -> None:
        """Use the values that an object holds as defaults, except those that it computed."""
        for name in self._parameters & held.keys() & self.settings.keys():
            setting = self.settings[name]
            if setting.below is not None or _form_of(held[name], is_own) is not None:
                self.settings[name] = _setting(held[name], setting.annotation, is_own)
            elif not _same(_by_name(held[name], setting), setting.default):
                self._pinned[name] = _by_name(held[name], setting)
        for name in [name for name in self._pinned if self.settings[name].default is None]:
            others = {other: value for other, value in self._pinned.items() if other != name}
            with contextlib.suppress(Exception):
                if _same(self.held(self._built(others)).get(name), held[name]):
                    self._pinned = others
        for name, value in self._pinned.items():
            self.settings[name] = self.settings[name]._replace(default=value)

    def _build(self, values: dict[str, Any]) -> Any:
        values = {**self._pinned, **values}
        if self._example is not None and not self._parameters:
            return self.put(copy.deepcopy(self._example), values)
        config = self._built(
            {name: value for name, value in values.items() if name in self._parameters or self._any}
        )
        held = self.held(config)
        return self.put(
            config,
            {
                name: value
                for name, value in values.items()
                if name not in self._parameters and held.get(name, MISSING) is not value
            },
        )

    def _built(self, values: dict[str, Any]) -> Any:
        spelled = {name: key for key, name in self._keys.items()}
        given = self._with_members(values)
        return self.kind(**{spelled.get(name, name): value for name, value in given.items()})

    def held(self, config: Any) -> dict[str, Any]:
        """Return the attributes of a config by name, including those of its class."""
        settings = {name: getattr(config, name) for name in self.settings if hasattr(config, name)}
        return {**settings, **_attributes(config)}

    def put(self, config: Any, values: dict[str, Any]) -> Any:
        """Return a config with these attributes, even if its class forbids setting them."""
        if isinstance(config, tuple) and hasattr(config, "_replace"):
            return config._replace(
                **{name: value for name, value in values.items() if name in self._parameters}
            )
        return _with_attributes(config, values)

    @cached_property
    def carries(self) -> bool:
        """Whether the class accepts values that remember, and keeps them."""
        given = {
            name: lift(value, ("name", name))
            for name, value in self.stated.items()
            if "." not in name
        }
        try:
            held = self.held(
                self.make({name: value for name, value in given.items() if value is not None})
            )
        except Exception:  # whatever the class's own code raises
            return False
        return all(
            isinstance(held[name], Symbolic)
            for name, value in given.items()
            if _is_kept(held, name, value)
        )


def _with_attributes(config: Any, values: Mapping[str, Any]) -> Any:
    """Return an object with these attributes, but for its properties, even if it forbids that."""
    for name, value in values.items():
        if not isinstance(getattr(type(config), name, None), property):
            object.__setattr__(config, name, value)
    return config


def _unshared(default: Any) -> Any:
    """Return a copy of a default that may be changed in place."""
    return copy.deepcopy(default) if isinstance(default, list | dict) else default


def _is_kept(held: Mapping[str, Any], name: str, value: Any) -> bool:
    return isinstance(value, Symbolic) and name in held and _is_data(plain_value(held[name]))


def form_of(config: Any, is_own: Callable[[Any], bool]) -> Form | None:
    """Return the kind of config that a class, a dict or an object is; None if it is not one."""
    if isinstance(config, type):
        return Objects(config, is_own=is_own)
    return _form_of(config, is_own, anything=True)


def annotated_config(kind: Callable[..., Any]) -> type | None:
    """Return the config class in the annotation of a constructor's only parameter.

    Example:
        >>> import dataclasses
        >>> @dataclasses.dataclass
        ... class Config:
        ...     dim: int = 8
        >>> class Model:
        ...     def __init__(self, config: Config) -> None: ...
        >>> annotated_config(Model) is Config, annotated_config(Config)
        (True, None)
    """
    taken = [
        parameter
        for parameter in accepted_parameters(kind)
        if parameter.default is parameter.empty and parameter.kind not in GATHERED
    ]
    hint = hints_of(kind).get(taken[0].name) if len(taken) == 1 else None
    if isinstance(hint, type) and issubclass(hint, (nn.Module, enum.Enum)):
        return None
    if is_declared(hint) or (
        isinstance(hint, type) and hint.__module__.partition(".")[0] not in _NO_CONFIGS
    ):
        return hint
    return None


_NO_CONFIGS = ("builtins", "torch", "typing", "collections")


def arguments_of(
    function: Callable[..., Any],
    is_own: Callable[[Any], bool],
    given: Mapping[str, Any] | None = None,
) -> Form:
    """Return the arguments of a constructor or a factory as a kind of config.

    A function that gathers any keywords also accepts the given ones.
    """
    return Form(function.__name__, _arguments(function, is_own, given or {}))


def part_of(
    function: Callable[..., Any],
    is_own: Callable[[Any], bool],
    given: Mapping[str, Any] | None = None,
) -> Form:
    """Return the arguments of a function that makes a part, likewise."""
    settings = _arguments(function, is_own, given or {})
    return Calls(function, settings, function.__name__)


def _arguments(
    function: Callable[..., Any], is_own: Callable[[Any], bool], given: Mapping[str, Any]
) -> dict[str, Setting]:
    hints = hints_of(function)
    settings = {
        parameter.name: _setting(
            parameter.default,
            annotation_text(parameter.annotation),
            is_own,
            hints.get(parameter.name),
        )
        for parameter in accepted_parameters(function)
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }
    gathered: dict[str, Setting] = {}
    if gathers_keywords(function):
        for name, value in given.items():
            if "." not in name and name not in settings:
                gathered[name] = _setting(value, "", is_own)
    return {**gathered, **settings}  # what is given by name is the likeliest to be set


def carry(config: Any, traced: Any) -> None:
    """Let a computed object remember what its traced copy remembers."""
    for name, value in _attributes(traced).items():
        if _remembers(value, getattr(config, name, None)):
            object.__setattr__(config, name, value)


def _setting(
    default: Any, annotation: str, is_own: Callable[[Any], bool] | None, hint: Any = None
) -> Setting:
    """Return the setting of a parameter, with its config if its default or type is a config."""
    if default is inspect.Parameter.empty:
        default = MISSING
    enumeration = enumeration_of(default, hint)
    if enumeration is not None:
        names = ", ".join(repr(member.name) for member in enumeration)
        optional = " | None" if default is None or "None" in annotation else ""
        name = default.name if isinstance(default, enum.Enum) else default
        return Setting(name, f"Literal[{names}]{optional}", None, enumeration)
    below = _form_of(default, is_own)
    if default is MISSING and is_declared(hint):
        below = Objects(hint, is_own=is_own)
    if default is None and not annotation:
        annotation = "int | str | None"  # no annotation: assume the usual types
    if "Optional" in annotation:
        annotation = f"{annotation} | None"
    return Setting(default, annotation, below)


def _form_of(
    value: Any, is_own: Callable[[Any], bool] | None, *, anything: bool = False
) -> Form | None:
    """Return the kind of config that an object is, or None."""
    if isinstance(value, dict):
        has_names = any(isinstance(key, str) and _can_be_named(key) for key in value)
        return Items("the dict", value, is_own) if has_names or anything else None
    if is_declared(type(value)):
        return Objects(type(value), value, is_own)
    is_config = _is_object(value) and (anything or (is_own is not None and is_own(value)))
    return Objects(type(value), value, is_own) if is_config else None


def _by_name(value: Any, setting: Setting) -> Any:
    """Return the name of an enumeration's member, and any other value as it is."""
    is_member = setting.enumeration is not None and isinstance(value, setting.enumeration)
    return value.name if is_member else value


def _is_object(value: Any) -> bool:
    """Whether a value is a plain object with attributes."""
    return (
        hasattr(value, "__dict__")
        and not isinstance(value, type)
        and not callable(value)
        and not _is_data(value)
    )


def _is_data(value: Any) -> bool:
    """Whether a field can have this value: null, a flag, a number, a text, or a list of these."""
    if isinstance(value, list | tuple):
        return isinstance(value, Symbolic) or (
            type(value) in (list, tuple) and all(map(_is_data, value))
        )
    return type(value) in _SCALARS or isinstance(value, Symbolic)


def _can_be_named(name: str) -> bool:
    """Whether this can be a name in an expression."""
    return re.fullmatch(r"[A-Za-z]\w*", name) is not None and name not in _RESERVED


def _is_code(value: Any) -> bool:
    return callable(value) or hasattr(value, "__get__") or isinstance(value, type)


def _attributes(config: Any) -> dict[str, Any]:
    """Return the attributes of an object, including private ones."""
    slots = [name for kind in type(config).__mro__ for name in _slots(kind)]
    in_slots = {name: getattr(config, name) for name in slots if hasattr(config, name)}
    return {
        name: value
        for name, value in {**in_slots, **getattr(config, "__dict__", {})}.items()
        if name[:2] != "__"
    }


def _slots(kind: type) -> tuple[str, ...]:
    slots = vars(kind).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _same(one: Any, other: Any) -> bool:
    try:
        return type(one) is type(other) and bool(one == other)
    except Exception:  # values that cannot be compared are not the same
        return False
