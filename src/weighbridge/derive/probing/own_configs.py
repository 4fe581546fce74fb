"""The configs of a user's own modules: how each kind of them is made, read, and made to remember.

A config is a dataclass, a pydantic model, a plain class, a dict, or no more than a constructor's
arguments. What stands in a config inside a config goes by its dotted name. A config may work out
more than it was given: ``dim // heads``. What it works out remembers that, where it was made of
values that remember.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import inspect
import re
import typing
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge.derive.probing.symbolic import Symbolic, lift, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

MISSING = dataclasses.MISSING
_UNSAYABLE = {
    "and",
    "or",
    "not",
    "if",
    "else",
    "for",
    "in",
    "null",
    "true",
    "false",
}  # what no expression can name
_SCALARS = (type(None), bool, int, float, str)


class Setting(NamedTuple):
    """Something that a config can be given: its default, `MISSING` where it has none; or the config inside it."""

    default: Any
    annotation: str = ""
    below: Form | None = None


class Form:
    """A kind of config. This one is of a constructor's arguments, kept as a dict.

    Example:
        >>> form = Form("Model", {"width": Setting(8), "rope": Setting(None, below=Items("rope", {"base": 10}))})
        >>> form.make({"rope.base": 20})
        {'width': 8, 'rope': {'base': 20}}
        >>> form.stated
        {'width': 8, 'rope.base': 10}
    """

    def __init__(self, name: str, settings: dict[str, Setting]) -> None:
        self.name = name
        self.settings = {
            known: setting for known, setting in settings.items() if _is_sayable(known)
        }

    def make(self, values: Mapping[str, Any]) -> Any:
        """Return a config that is given these values, by dotted name, and no others.

        Raises:
            Exception: whatever the config's own code raises.
        """
        own: dict[str, Any] = {}
        below: dict[str, dict[str, Any]] = {}
        for path, value in values.items():
            name, _, rest = path.partition(".")
            if rest:
                below.setdefault(name, {})[rest] = value
            else:
                own[name] = tuple(value) if type(value) is list and self._is_tuple(name) else value
        for name, setting in self.settings.items():
            if setting.below is not None:
                own[name] = setting.below.make(below.get(name, {}))
        return self._made(own)

    def _is_tuple(self, name: str) -> bool:
        return name in self.settings and isinstance(self.settings[name].default, tuple)

    def _made(self, values: dict[str, Any]) -> Any:
        defaults = {
            name: setting.default
            for name, setting in self.settings.items()
            if setting.default is not MISSING
        }
        return {**{name: _unshared(value) for name, value in defaults.items()}, **values}

    def held(self, config: Any) -> dict[str, Any]:
        """Return what a config holds: what it was given, by its own names, and what it worked out."""
        return {name: value for name, value in dict(config).items() if isinstance(name, str)}

    def put(self, config: Any, values: dict[str, Any]) -> Any:
        """Return a config with these values in place of those that it holds."""
        for name, value in values.items():
            config[name] = value
        return config

    @property
    def carries(self) -> bool:
        """Whether what a config works out remembers what it was made of."""
        return True

    @cached_property
    def stated(self) -> dict[str, Any]:
        """The default of everything that can be given, before anything is worked out; nothing that has none."""
        stated: dict[str, Any] = {}
        for name, setting in self.settings.items():
            if setting.below is not None:
                stated |= {f"{name}.{path}": value for path, value in setting.below.stated.items()}
            elif setting.default is not MISSING and _is_data(setting.default):
                stated[name] = plain(setting.default)
        return stated

    def required(self, above: str = "") -> Iterator[str]:
        """Yield the dotted name of everything that has no default."""
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
        """Yield the dotted name of everything that can be given, as data, with its annotation."""
        for name, setting in self.settings.items():
            if setting.below is not None:
                yield from setting.below.annotations(f"{above}{name}.")
            elif setting.default is MISSING or _is_data(setting.default):
                yield above + name, setting.annotation

    def fields(
        self, config: Any, said: Mapping[str, Any], above: str = ""
    ) -> Iterator[tuple[str, Any]]:
        """Yield the fields of a config that was given what is ``said``: what can be given, and lists worked out.

        What was given, or is so by default, is the field even where the config keeps something else
        under its name; null is not: it is often a way to ask for what is worked out.
        """
        held = self.held(config)
        for name, setting in self.settings.items():
            path = above + name
            if setting.below is not None:
                if name in held and held[name] is not None:
                    yield from setting.below.fields(held[name], said, f"{path}.")
                continue
            value = said.get(path, setting.default)
            if value is None or value is MISSING:
                value = held.get(name)
            if _is_data(value):
                yield path, plain(value)
        for name, value in held.items():
            if self._is_worked_out(name, value):
                yield above + name, plain(value)

    def _is_worked_out(self, name: str, value: Any) -> bool:
        """Whether a value that was not given goes by its own name, because its expression is lost, as a list's is."""
        lost = isinstance(value, list | tuple) or not self.carries
        return (
            name not in self.settings
            and _is_sayable(name)
            and lost
            and bool(value)
            and _is_data(value)
        )

    def remember(self, config: Any, traced: Any, fields: Mapping[str, Any], above: str = "") -> Any:
        """Return a config with its values replaced by such that remember their field.

        ``traced`` is the same config, made of values that remember: what is worked out is taken
        from there.
        """
        values: dict[str, Any] = {}
        followed = {} if traced is None else self.held(traced)
        for name, value in self.held(config).items():
            below = self.settings[name].below if name in self.settings else None
            if below is not None and value is not None:
                values[name] = below.remember(value, followed.get(name), fields, f"{above}{name}.")
            elif (
                _is_data(value)
                and (above + name) in fields
                and plain(value) == fields[above + name]
            ):
                values[name] = lift(value, ("name", above + name))
            elif isinstance(followed.get(name), Symbolic) and plain(followed[name]) == plain(value):
                values[name] = followed[name]
            elif _is_object(value) and type(value) is type(followed.get(name)):
                carry(value, followed[name])
        return self.put(config, values)


class Items(Form):
    """A dict as a config: what it holds is what it can be given."""

    def __init__(
        self, name: str, like: Mapping[str, Any], own: Callable[[Any], bool] | None = None
    ) -> None:
        self._like = like
        super().__init__(
            name,
            {
                key: _setting(value, "", own)
                for key, value in dict(like).items()
                if isinstance(key, str)
            },
        )

    def _made(self, values: dict[str, Any]) -> Any:
        return self.put(copy.deepcopy(self._like), values)


class Objects(Form):
    """A class as a config: a dataclass, a pydantic model, a named tuple, or any class with attributes.

    What it can be given are the parameters of its constructor; for a plain class also its own
    attributes, and where the constructor has no parameters, those that it sets. ``like`` is an
    object of the class whose values are the defaults, and ``own`` says which objects are configs
    because their class is the user's.

    Example:
        >>> @dataclasses.dataclass
        ... class Config:
        ...     dim: int = 8
        ...     heads: int | None = None
        >>> form = Objects(Config)
        >>> form.make({"dim": 16}), form.stated
        (Config(dim=16, heads=None), {'dim': 8, 'heads': None})
    """

    def __init__(
        self, kind: type, like: Any = None, own: Callable[[Any], bool] | None = None
    ) -> None:
        self.kind, self._like = kind, like
        parameters = _parameters(kind)
        self._any = any(found.kind is found.VAR_KEYWORD for found in parameters)
        self._keys = _keys_of(kind)
        hints = _hints(kind)
        settings = {}
        for found in parameters:
            if found.kind not in _GATHERED:
                name = self._keys.get(found.name, found.name)
                settings[name] = _setting(
                    _default(kind, name, found.default),
                    _text_of(found.annotation),
                    own,
                    hints.get(name),
                )
        self._parameters = set(settings)
        self._pinned: dict[str, Any] = {}
        super().__init__(kind.__name__, settings)
        self._add_attributes(own)
        if like is not None:
            self._pin(like, own)

    def _add_attributes(self, own: Callable[[Any], bool] | None) -> None:
        """Add what is no parameter but can be set."""
        if _is_declared(self.kind):
            return
        found: dict[str, Any] = {}
        for above in reversed(self.kind.__mro__[:-1]):
            found |= {name: value for name, value in vars(above).items() if not _is_code(value)}
        if not self._parameters:
            like = self._like
            if like is None:
                with contextlib.suppress(Exception):
                    like = self.kind()
            found |= _attributes(like)
        hints = {
            name: text
            for above in reversed(self.kind.__mro__)
            for name, text in _own_annotations(above)
        }
        for name, value in found.items():
            if name not in self.settings and _is_sayable(name):
                self.settings[name] = _setting(value, hints.get(name, ""), own)

    def _pin(self, like: Any, own: Callable[[Any], bool] | None) -> None:
        """Take the values of an object for the defaults; what it may only have worked out is left to be worked out."""
        held = self.held(like)
        for name in self._parameters & held.keys() & self.settings.keys():
            setting = self.settings[name]
            if setting.below is not None or _form_of(held[name], own) is not None:
                self.settings[name] = _setting(held[name], setting.annotation, own)
            elif not _same(held[name], setting.default):
                self._pinned[name] = held[name]
        for name in [name for name in self._pinned if self.settings[name].default is None]:
            others = {other: value for other, value in self._pinned.items() if other != name}
            with contextlib.suppress(Exception):
                if _same(self.held(self._built(others)).get(name), held[name]):
                    self._pinned = others
        for name, value in self._pinned.items():
            self.settings[name] = self.settings[name]._replace(default=value)

    def _made(self, values: dict[str, Any]) -> Any:
        values = {**self._pinned, **values}
        if self._like is not None and not self._parameters:
            return self.put(copy.deepcopy(self._like), values)
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
        return self.kind(**{spelled.get(name, name): value for name, value in values.items()})

    def held(self, config: Any) -> dict[str, Any]:
        """Return the attributes of a config by name, its class's own among them."""
        found = {name: getattr(config, name) for name in self.settings if hasattr(config, name)}
        return {**found, **_attributes(config)}

    def put(self, config: Any, values: dict[str, Any]) -> Any:
        """Return a config with these attributes, whatever its class thinks of setting them."""
        if isinstance(config, tuple) and hasattr(config, "_replace"):
            return config._replace(
                **{name: value for name, value in values.items() if name in self._parameters}
            )
        for name, value in values.items():
            if not isinstance(getattr(type(config), name, None), property):
                object.__setattr__(config, name, value)
        return config

    @cached_property
    def carries(self) -> bool:
        """Whether the class bears values that remember, and keeps them."""
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


def _unshared(default: Any) -> Any:
    """Return a default that its users may change."""
    return copy.deepcopy(default) if isinstance(default, list | dict) else default


def _is_kept(held: Mapping[str, Any], name: str, value: Any) -> bool:
    return isinstance(value, Symbolic) and name in held and _is_data(plain(held[name]))


def form_of(config: Any, own: Callable[[Any], bool]) -> Form | None:
    """Return the kind of config that a class, a dict or an object is; None for what is no config."""
    if isinstance(config, type):
        return Objects(config, own=own)
    return _form_of(config, own, anything=True)


def annotated_config(kind: type) -> type | None:
    """Return the class that a constructor's one parameter is annotated with, if that is one of configs.

    Example:
        >>> @dataclasses.dataclass
        ... class Config:
        ...     dim: int = 8
        >>> class Model:
        ...     def __init__(self, config: Config) -> None: ...
        >>> annotated_config(Model) is Config, annotated_config(Config)
        (True, None)
    """
    taken = [
        found
        for found in _parameters(kind)
        if found.default is found.empty and found.kind not in _GATHERED
    ]
    hint = _hints(kind).get(taken[0].name) if len(taken) == 1 else None
    if _is_declared(hint) or (
        isinstance(hint, type) and hint.__module__.partition(".")[0] not in _NO_CONFIGS
    ):
        return hint
    return None


_GATHERED = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
_NO_CONFIGS = ("builtins", "torch", "typing", "collections")


def arguments_of(kind: type, own: Callable[[Any], bool]) -> Form:
    """Return a constructor's arguments as a kind of config."""
    hints = _hints(kind)
    return Form(
        kind.__name__,
        {
            found.name: _setting(
                found.default, _text_of(found.annotation), own, hints.get(found.name)
            )
            for found in _parameters(kind)
            if found.kind in (found.POSITIONAL_OR_KEYWORD, found.KEYWORD_ONLY)
        },
    )


def carry(config: Any, traced: Any) -> None:
    """Let an object that was worked out remember what the same one, made of values that remember, does."""
    for name, value in _attributes(traced).items():
        if isinstance(value, Symbolic) and plain(value) == plain(getattr(config, name, None)):
            object.__setattr__(config, name, value)


def _setting(
    default: Any, annotation: str, own: Callable[[Any], bool] | None, hint: Any = None
) -> Setting:
    """Return the setting of a default; of none, if its type is one of a config, that of the config inside."""
    if default is inspect.Parameter.empty:
        default = MISSING
    below = (
        Objects(hint, own=own)
        if default is MISSING and _is_declared(hint)
        else _form_of(default, own)
    )
    if default is None and not annotation:
        annotation = "int | str | None"  # nothing says what it may be
    return Setting(
        default, f"{annotation} | None" if "Optional" in annotation else annotation, below
    )


def _form_of(
    value: Any, own: Callable[[Any], bool] | None, *, anything: bool = False
) -> Form | None:
    """Return the kind of config that an object is, or None."""
    if isinstance(value, dict):
        fits = bool(value) and any(isinstance(key, str) and _is_sayable(key) for key in value)
        return Items("the dict", value, own) if fits or anything else None
    if _is_declared(type(value)):
        return Objects(type(value), value, own)
    is_config = _is_object(value) and (anything or (own is not None and own(value)))
    return Objects(type(value), value, own) if is_config else None


def _is_declared(kind: Any) -> bool:
    """Whether a class declares its fields: a dataclass or a pydantic model."""
    return isinstance(kind, type) and (
        dataclasses.is_dataclass(kind) or hasattr(kind, "__pydantic_fields__")
    )


def _is_object(value: Any) -> bool:
    """Whether a value is an object with attributes, and no more than that."""
    return (
        hasattr(value, "__dict__")
        and not isinstance(value, type)
        and not callable(value)
        and not _is_data(value)
    )


def _is_data(value: Any) -> bool:
    """Whether a value is one that a field can have: null, a flag, a number, a text, or a list of such."""
    if isinstance(value, list | tuple):
        return isinstance(value, Symbolic) or (
            type(value) in (list, tuple) and all(map(_is_data, value))
        )
    return type(value) in _SCALARS or isinstance(value, Symbolic)


def _is_sayable(name: str) -> bool:
    """Whether an expression can name it."""
    return re.fullmatch(r"[A-Za-z]\w*", name) is not None and name not in _UNSAYABLE


def _is_code(value: Any) -> bool:
    return callable(value) or hasattr(value, "__get__") or isinstance(value, type)


def _attributes(config: Any) -> dict[str, Any]:
    """Return what an object itself holds, what is private to it too."""
    slots = [name for kind in type(config).__mro__ for name in _slots(kind)]
    found = {name: getattr(config, name) for name in slots if hasattr(config, name)}
    return {
        name: value
        for name, value in {**found, **getattr(config, "__dict__", {})}.items()
        if name[:2] != "__"
    }


def _slots(kind: type) -> tuple[str, ...]:
    slots = vars(kind).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _same(one: Any, other: Any) -> bool:
    try:
        return type(one) is type(other) and bool(one == other)
    except Exception:  # what cannot be compared is not the same
        return False


def _parameters(kind: type) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(kind).parameters.values())
    except (TypeError, ValueError):
        return []


def _default(kind: type, name: str, default: Any) -> Any:
    """Return a parameter's default, made where a factory makes it."""
    if dataclasses.is_dataclass(kind):
        for field in dataclasses.fields(kind):
            if field.name == name and field.default_factory is not MISSING:
                return field.default_factory()
    fields = getattr(kind, "__pydantic_fields__", {})
    if name in fields:
        return (
            MISSING
            if fields[name].is_required()
            else fields[name].get_default(call_default_factory=True)
        )
    return MISSING if default is inspect.Parameter.empty else default


def _keys_of(kind: type) -> dict[str, str]:
    """Return the fields of a pydantic model that are given under another name, by that name."""
    fields = getattr(kind, "__pydantic_fields__", {})
    keys = {name: field.validation_alias or field.alias or name for name, field in fields.items()}
    return {key: name for name, key in keys.items() if isinstance(key, str)}


def _hints(kind: type) -> dict[str, Any]:
    """Return the types of parameters, where they can be worked out."""
    hints: dict[str, Any] = {}
    for annotated in (kind, kind.__init__):  # type: ignore[misc]  # of the class itself, which is what is looked at
        with contextlib.suppress(Exception):
            hints |= typing.get_type_hints(annotated)
    return hints


def _own_annotations(kind: type) -> Iterator[tuple[str, str]]:
    yield from (
        (name, _text_of(found)) for name, found in vars(kind).get("__annotations__", {}).items()
    )


def _text_of(annotation: Any) -> str:
    if annotation is inspect.Parameter.empty:
        return ""
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)
