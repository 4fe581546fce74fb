"""A blueprint: a model's state dict with its shapes as expressions over its config. Its law is in `law.py`."""

from __future__ import annotations

from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge import data
from weighbridge.errors import ModelError, nearest, shorten
from weighbridge.expr import Tree, evaluate, names_in, parse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Raw = Mapping[str, Any]

FORMAT = 1
LARGEST_SIZE = 2**31 - 1  # of one dimension
MOST_LAYERS = 10_000


class Tie(NamedTuple):
    """A tensor that is another one: the name it shares, and the condition on which it does."""

    to: str
    when: Tree | None


class Template(NamedTuple):
    """One tensor, or the same tensor of every layer: ``name`` holds ``{i}`` where the layer's index goes.

    ``varies`` says that its shape, or whether it exists, depends on that index.
    """

    name: str
    dims: tuple[str, ...]
    role: str
    repeat: str = ""
    varies: bool = False
    when: Tree | None = None
    tie: Tie | None = None


class Buffer(NamedTuple):
    """A tensor that is no parameter, but that some checkpoints store."""

    name: str
    dtype: str
    dims: tuple[str, ...]


class Blueprint:
    """A family's tensors as expressions, bound to no config yet.

    Example:
        >>> bert = load("bert")
        >>> bert.base_class, len(bert.class_names)
        ('BertModel', 9)
        >>> bert.templates("BertModel")[0].dims
        ('vocab_size', 'hidden_size')
    """

    def __init__(self, raw: Raw) -> None:
        self._raw = raw
        self.family: str = raw["family"]
        self.source: str = raw["source"]
        self.proof: Raw = raw["proof"]
        self.base_class: str = raw["class"]
        self.class_names: tuple[str, ...] = (self.base_class, *raw.get("classes", {}))
        self.defaults: Raw = {name: frozen(value) for name, value in raw["defaults"].items()}
        self.inert: frozenset[str] = frozenset(raw.get("inert", ()))
        self.computed: dict[str, Tree] = {name: parse(text) for name, text in raw.get("computed", {}).items()}
        self.require: dict[str, Tree] = {text: parse(text) for text in raw.get("require", ())}
        self.repeat: dict[str, Tree] = {index: parse(text) for index, text in raw.get("repeat", {}).items()}
        self.dims: dict[str, Tree] = {dim: parse(dim) for dims in _all_dims(raw) for dim in dims}
        self.repeats = frozenset(name for tree in self.repeat.values() for name in names_in(tree))
        """The fields that say how many layers there are."""
        self.at_defaults = _at_defaults(self.defaults, self.computed)
        """The value of every field of a config that says nothing."""
        self.kinds = {name: type(raw["defaults"].get(name, value)) for name, value in self.at_defaults.items()}
        """What a field's value must be: what its default is, or what it comes to at the defaults."""
        in_dims = (name for tree in self.dims.values() for name in names_in(tree))
        lists = (name for name, kind in self.kinds.items() if kind in (list, dict))
        self.sizes = (self.repeats | frozenset(in_dims)) - frozenset(self.repeat) - frozenset(lists)
        """The fields that are sizes, and so positive integers."""
        flags = (name for name, kind in self.kinds.items() if kind is bool)
        self.never_null = (self.sizes | frozenset(flags)) - frozenset(self.computed)
        """The fields for which null is not a way to leave them out."""
        self.only: Raw = raw.get("only", {})
        """Inert fields that are so at one value alone."""
        self.fields = frozenset(self.defaults) | frozenset(self.computed)
        """The fields that decide anything."""
        conditions = [*raw.get("when", {}).values(), *_tie_conditions(raw)]
        self.deciding = frozenset(name for text in conditions for name in names_in(parse(text)))
        """The fields that decide which tensors exist, or are shared."""
        self._templates: dict[str, tuple[Template, ...]] = {}

    def templates(self, class_name: str) -> tuple[Template, ...]:
        """Return a class's tensors in checkpoint order.

        Raises:
            ModelError: the family has no such class.
        """
        if class_name not in self._templates:
            self._templates[class_name] = tuple(templates_of(self._raw, self._class(class_name)))
        return self._templates[class_name]

    def buffers(self, class_name: str) -> list[Buffer]:
        """Return the tensors of a class that are no parameters."""
        prefix = self.prefix(class_name)
        words = {prefix + name: text.split() for name, text in self._raw.get("buffers", {}).items()}
        return [Buffer(name, dtype, tuple(dims)) for name, (dtype, *dims) in words.items()]

    def modules(self, class_name: str) -> dict[str, str]:
        """Return the class of each module that can hold tensors, by its path with ``{i}`` for a layer's index."""
        raw, prefix = self._class(class_name), self.prefix(class_name)
        modules = {"": class_name}
        if prefix:
            modules[prefix[:-1]] = self.base_class
        modules |= {prefix + path: kind for path, kind in self._raw.get("modules", {}).items()}
        modules.update(raw.get("modules", {}))
        return modules

    def prefix(self, class_name: str) -> str:
        """Return what stands before the base class's names in this class's: ``"bert."``, or nothing."""
        prefix = self._class(class_name).get("prefix", "")
        return f"{prefix}." if prefix else ""

    def _class(self, class_name: str) -> Raw:
        if class_name == self.base_class:
            return {}
        known: Raw | None = self._raw.get("classes", {}).get(class_name)
        if known is None:
            near = nearest(self.class_names, str(class_name)) or self.class_names
            raise ModelError(
                f"{self.family} has no class {shorten(class_name)}", hint=f"did you mean {' or '.join(near)}?"
            )
        return known


def families() -> list[str]:
    """Return the families that have a blueprint.

    Example:
        >>> "bert" in families()
        True
    """
    return list(data.names("blueprints", ".toml"))


@cache
def load(family: str) -> Blueprint:
    """Return a family's blueprint, shipped with this package. The law of each is held by the tests.

    Raises:
        ModelError: there is none.
    """
    if family not in families():
        near = nearest(families(), family) or families()
        raise ModelError(f"no blueprint for the family {family}", hint=f"there is one for {', '.join(near[:9])}")
    return Blueprint(data.read_toml(f"blueprints/{family}.toml"))


def role_of(name: str) -> str:
    """Return what a tensor of this name is for, or ``"other"``.

    Example:
        >>> role_of("encoder.layer.0.attention.self.query.weight")
        'attention.query'
    """
    dotted = f".{name}."
    patterns: dict[str, str] = data.read_toml("facts/roles.toml")["names"]
    return next((role for pieces, role in patterns.items() if f".{pieces}." in dotted), "other")


@cache
def component_of(role: str) -> str:
    """Return the component that a summary puts a role under.

    Example:
        >>> component_of("attention.query"), component_of("attention.norm")
        ('attention', 'attention.norm')
    """
    components = data.read_toml("facts/roles.toml")["components"]
    fitting = [name for name in components if f"{role}.".startswith(f"{name}.")]
    return max(fitting, key=len, default=role)


def templates_of(raw: Raw, of_class: Raw) -> Iterator[Template]:
    """Yield the tensors of a class whose section is ``of_class``, empty for the base class, in checkpoint order."""
    prefix = f"{of_class['prefix']}." if "prefix" in of_class else ""
    without, conditions = of_class.get("without", ()), raw.get("when", {})
    ties = {prefix + name: parse_tie(prefix + text) for name, text in raw.get("ties", {}).items()}
    ties |= {name: parse_tie(text) for name, text in of_class.get("ties", {}).items()}
    base = {name: dims for name, dims in raw["tensors"].items() if not any(is_under(name, path) for path in without)}
    for name, dims in [*base.items(), *of_class.get("tensors", {}).items()]:
        condition = next((text for path, text in conditions.items() if is_under(name, path)), "")
        repeat = next((index for index in raw.get("repeat", {}) if f"{{{index}}}" in name), "")
        deciding = [parse(text) for text in (*dims.split(), condition) if text]
        whole_name = prefix + name if name in base else name
        yield Template(
            name=whole_name,
            dims=tuple(dims.split()),
            role=role_of(name),
            repeat=repeat,
            varies=any(repeat in names_in(tree) for tree in deciding),
            when=parse(condition) if condition else None,
            tie=ties.get(whole_name),
        )


def is_under(name: str, path: str) -> bool:
    """Whether a tensor is this one, or in the module of this path.

    Example:
        >>> is_under("pooler.dense.weight", "pooler"), is_under("pooler.dense.weight", "pool")
        (True, False)
    """
    return f"{name}.".startswith(f"{path}.")


def _tie_conditions(raw: Raw) -> Iterator[str]:
    for section in (raw, *raw.get("classes", {}).values()):
        yield from (text.partition(" if ")[2] for text in section.get("ties", {}).values() if " if " in text)


def _at_defaults(defaults: Raw, computed: Mapping[str, Tree]) -> dict[str, Any]:
    values = dict(defaults)
    for name, tree in computed.items():
        values.setdefault(name, evaluate(tree, values))
    return values


def frozen(value: Any) -> Any:
    """Return a value that nobody who holds it, or what it was made from, can change for others."""
    if isinstance(value, dict):
        return MappingProxyType(dict(value))
    return tuple(value) if isinstance(value, list) else value


def parse_tie(text: str) -> Tie:
    """Read ``"target"`` or ``"target if condition"``."""
    to, _, condition = text.partition(" if ")
    return Tie(to, parse(condition) if condition else None)


def _all_dims(raw: Raw) -> Iterator[list[str]]:
    for section in (raw, *raw.get("classes", {}).values()):
        for dims in section.get("tensors", {}).values():
            yield dims.split()
    for text in raw.get("buffers", {}).values():
        yield text.split()[1:]
