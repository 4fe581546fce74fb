"""A blueprint: a model's state dict with its shapes as expressions over its config, and the law of such a file."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge import data
from weighbridge.errors import BlueprintError, ExpressionError, ModelError
from weighbridge.expr import Tree, evaluate, names_in, parse
from weighbridge.units import DTYPE_BITS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

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
        self.defaults: Raw = raw["defaults"]
        self.inert: frozenset[str] = frozenset(raw.get("inert", ()))
        self.computed: dict[str, Tree] = {name: parse(text) for name, text in raw.get("computed", {}).items()}
        self.require: dict[str, Tree] = {text: parse(text) for text in raw.get("require", ())}
        self.repeat: dict[str, Tree] = {index: parse(text) for index, text in raw.get("repeat", {}).items()}
        self.dims: dict[str, Tree] = {dim: parse(dim) for dims in _all_dims(raw) for dim in dims}
        varying = self.repeat.keys()
        self.fixed_dims = {dim: tree for dim, tree in self.dims.items() if varying.isdisjoint(names_in(tree))}
        """The dims that are the same in every layer."""
        self.repeats = frozenset(name for tree in self.repeat.values() for name in names_in(tree))
        """The fields that say how many layers there are."""
        in_dims = (name for tree in self.dims.values() for name in names_in(tree))
        lists = (name for name, default in self.defaults.items() if isinstance(default, (list, dict)))
        self.sizes = (self.repeats | frozenset(in_dims)) - frozenset(self.repeat) - frozenset(lists)
        """The fields that are sizes, and so positive integers."""
        flags = (name for name, default in self.defaults.items() if isinstance(default, bool))
        self.never_null = (self.sizes | frozenset(flags)) - frozenset(self.computed)
        """The fields for which null is not a way to leave them out."""
        self.fields = frozenset(self.defaults) | frozenset(self.computed)
        """The fields that decide anything."""
        self._templates: dict[str, tuple[Template, ...]] = {}

    def templates(self, class_name: str) -> tuple[Template, ...]:
        """Return a class's tensors in checkpoint order.

        Raises:
            ModelError: the family has no such class.
        """
        if class_name not in self._templates:
            self._templates[class_name] = tuple(_templates(self._raw, self._class(class_name)))
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
            raise ModelError(
                f"{self.family} has no class {class_name}", hint=f"use one of {', '.join(self.class_names)}"
            )
        return known


def families() -> list[str]:
    """Return the families that have a blueprint.

    Example:
        >>> "bert" in families()
        True
    """
    return data.names("blueprints", ".toml")


@cache
def load(family: str) -> Blueprint:
    """Return a family's blueprint, shipped with this package. The law of each is held by the tests.

    Raises:
        ModelError: there is none.
    """
    if family not in families():
        raise ModelError(f"no blueprint for the family {family}", hint=f"there is one for {', '.join(families())}")
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


def _templates(raw: Raw, of_class: Raw) -> Iterator[Template]:
    prefix = f"{of_class['prefix']}." if "prefix" in of_class else ""
    without = tuple(f"{path}." for path in of_class.get("without", ()))
    conditions = raw.get("when", {})
    ties = {name: _tie(text) for name, text in of_class.get("ties", raw.get("ties", {})).items()}
    base = {name: dims for name, dims in raw["tensors"].items() if not name.startswith(without or "\0")}
    for name, dims in [*base.items(), *of_class.get("tensors", {}).items()]:
        condition = next((text for path, text in conditions.items() if f"{name}.".startswith(f"{path}.")), "")
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


def _tie(text: str) -> Tie:
    to, _, condition = text.partition(" if ")
    return Tie(to, parse(condition) if condition else None)


def _all_dims(raw: Raw) -> Iterator[list[str]]:
    for section in (raw, *raw.get("classes", {}).values()):
        for dims in section.get("tensors", {}).values():
            yield dims.split()
    for text in raw.get("buffers", {}).values():
        yield text.split()[1:]


# The law. Each rule looks at a raw blueprint and yields what breaks it; its docstring is the rule's text.


def check(raw: Raw, where: str = "") -> None:
    """Hold a blueprint, as read from its file, against the law.

    Raises:
        BlueprintError: a rule is broken; the message begins with the rule's name.

    Example:
        >>> check({**data.read_toml("blueprints/bert.toml"), "format": 0})
        Traceback (most recent call last):
        weighbridge.errors.BlueprintError: format: this version reads format 1, not 0.
    """
    for name, rule in LAW.items():
        try:
            breach = next(rule(raw), None)
        except ExpressionError as error:
            breach = str(error).removesuffix(".")
        if breach:
            raise BlueprintError(f"{name}: {breach}", where=where)


_TEXTS = ("family", "source", "class")
_LISTS = ("require", "inert")
_TEXT_TABLES = ("computed", "repeat", "tensors", "ties", "when", "buffers", "modules")
_TABLES = {*_TEXT_TABLES, "defaults", "classes", "proof"}
_KEYS = {*_TABLES, *_TEXTS, *_LISTS, "format"}
_REQUIRED = {"format", "family", "source", "class", "defaults", "tensors", "proof"}
_CLASS_KEYS = {"prefix", "without", "tensors", "ties", "modules"}
_PROOF_KEYS = {"by", "against", "configs"}


def _keys(raw: Raw) -> Iterator[str]:
    """No part is missing, and none is unknown."""
    yield from (f"{key} is missing" for key in sorted(_REQUIRED - set(raw)))
    yield from (f"{key} is unknown" for key in sorted(set(raw) - _KEYS))
    for name, of_class in raw.get("classes", {}).items():
        yield from (f"classes.{name}.{key} is unknown" for key in sorted(set(of_class) - _CLASS_KEYS))
    if set(raw["proof"]) != _PROOF_KEYS:
        yield f"proof has {', '.join(sorted(_PROOF_KEYS))}, no more and no less"


def _format(raw: Raw) -> Iterator[str]:
    """The format is one that this version reads."""
    if raw["format"] != FORMAT:
        yield f"this version reads format {FORMAT}, not {raw['format']}"


def _types(raw: Raw) -> Iterator[str]:
    """Texts are texts, lists list texts, tables are tables."""
    yield from (f"{key} is text" for key in _TEXTS if not isinstance(raw.get(key, ""), str))
    yield from (f"{key} is a table" for key in sorted(_TABLES) if not isinstance(raw.get(key, {}), dict))
    yield from (f"{key} lists texts" for key in _LISTS if not _is_texts(raw.get(key, [])))
    sections = {"": raw} | {f"classes.{name}.": of_class for name, of_class in raw.get("classes", {}).items()}
    for place, section in sections.items():
        if not isinstance(section, dict):
            yield f"{place[:-1]} is a table"
        else:
            yield from _section_types(place, section)


def _section_types(place: str, section: Raw) -> Iterator[str]:
    for key in _TEXT_TABLES:
        table = section.get(key, {})
        if not isinstance(table, dict) or not _is_texts([*table.values()]):
            yield f"{place}{key} holds texts"
    if not isinstance(section.get("prefix", ""), str):
        yield f"{place}prefix is text"
    if not _is_texts(section.get("without", [])):
        yield f"{place}without lists texts"


def _is_texts(found: Any) -> bool:
    return isinstance(found, list) and all(isinstance(text, str) for text in found)


def _expressions(raw: Raw) -> Iterator[str]:
    """Every expression can be read."""
    for place, text, _ in _all_expressions(raw):
        try:
            parse(text)
        except ExpressionError as error:
            yield f"{place}: {error}"


def _names(raw: Raw) -> Iterator[str]:
    """Every name in an expression is a field with a default, a computed field, or the index of its path."""
    known = set(raw["defaults"]) | set(raw.get("computed", {}))
    for place, text, indices in _all_expressions(raw):
        unknown = sorted(set(names_in(parse(text))) - known - indices)
        yield from (f"{place}: {name} has no default" for name in unknown)


def _used(raw: Raw) -> Iterator[str]:
    """Every field with a default is in some expression, and no inert one is."""
    used = {name for _, text, _ in _all_expressions(raw) for name in names_in(parse(text))}
    yield from (f"{name} is in no expression" for name in raw["defaults"] if name not in used)
    yield from (f"{name} decides something" for name in raw.get("inert", ()) if name in used)


def _paths(raw: Raw) -> Iterator[str]:
    """A tensor's name is a dotted path with at most one index."""
    placeholders = {f"{{{index}}}" for index in raw.get("repeat", {})}
    for name in _tensor_names(raw):
        pieces = name.split(".")
        if not all(piece.isidentifier() or piece.isdigit() or piece in placeholders for piece in pieces):
            yield f"{name} is not a dotted path with {' or '.join(sorted(placeholders)) or 'no index'}"
        if sum(piece in placeholders for piece in pieces) > 1:
            yield f"{name} has more than one index"


def _reached(raw: Raw) -> Iterator[str]:
    """Every path under `when` and `without` leads to a tensor."""
    names = list(_tensor_names(raw))
    removed = {path for of_class in raw.get("classes", {}).values() for path in of_class.get("without", ())}
    for path in (*raw.get("when", {}), *removed):
        if not any(f"{name}.".startswith(f"{path}.") for name in names):
            yield f"no tensor stands under {path}"


def _unique(raw: Raw) -> Iterator[str]:
    """No class has two tensors of one name."""
    for class_name in (raw["class"], *raw.get("classes", {})):
        names = [template.name for template in _class_templates(raw, class_name)]
        yield from (f"{class_name} has {name} twice" for name in names if names.count(name) > 1)


def _ties(raw: Raw) -> Iterator[str]:
    """A tied tensor and the one it shares are tensors of the class with the same dims, and the second is untied."""
    for class_name in (raw["class"], *raw.get("classes", {})):
        templates = {template.name: template for template in _class_templates(raw, class_name)}
        of_class = raw.get("classes", {}).get(class_name, raw)
        for name, text in of_class.get("ties", {}).items():
            to = _tie(text).to
            if name not in templates or to not in templates:
                yield f"{class_name}: {name if name not in templates else to} is no tensor of it"
            elif templates[to].tie:
                yield f"{class_name}: {to} is tied itself"
            elif templates[to].dims != templates[name].dims:
                yield f"{class_name}: {name} and {to} have different dims"


def _dtypes(raw: Raw) -> Iterator[str]:
    """A buffer begins with a known dtype."""
    for name, text in raw.get("buffers", {}).items():
        if (text.split() or [""])[0] not in DTYPE_BITS:
            yield f"buffers.{name} begins with no dtype"


def _roles(raw: Raw) -> Iterator[str]:
    """Every tensor has a role in `facts/roles.toml`."""
    known = data.read_toml("facts/roles.toml")["roles"]
    yield from (f"facts/roles.toml has none for {name}" for name in _tensor_names(raw) if role_of(name) not in known)


def _modules(raw: Raw) -> Iterator[str]:
    """Every module that holds a tensor has a class, and no other path has."""
    for section in (raw, *raw.get("classes", {}).values()):
        paths, names = section.get("modules", {}), section.get("tensors", {})
        parents = {name.rpartition(".")[0] for name in names}
        yield from (f"{path} has no class" for path in sorted(parents - set(paths) - {""}))
        yield from (f"{path} holds no tensor" for path in paths if not any(n.startswith(f"{path}.") for n in names))


def _defaults_hold(raw: Raw) -> Iterator[str]:
    """The defaults keep the requirements, and the sizes among them are sizes."""
    fields = dict(raw["defaults"])
    for name, text in raw.get("computed", {}).items():
        fields.setdefault(name, evaluate(parse(text), fields))
    for text in raw.get("require", ()):
        if evaluate(parse(text), fields) is not True:
            yield f"{text} is false of the defaults"
    for name in Blueprint(raw).sizes:
        if type(fields[name]) is not int or not 1 <= fields[name] <= LARGEST_SIZE:
            yield f"{name} is a size, and {fields[name]} is none"


LAW: dict[str, Callable[[Raw], Iterator[str]]] = {
    "types": _types,
    "keys": _keys,
    "format": _format,
    "expressions": _expressions,
    "names": _names,
    "fields are used": _used,
    "paths": _paths,
    "paths lead somewhere": _reached,
    "names are unique": _unique,
    "ties": _ties,
    "dtypes": _dtypes,
    "roles": _roles,
    "modules": _modules,
    "defaults hold": _defaults_hold,
}
"""The rules of a blueprint file by name, each trusting those before it."""


def _all_expressions(raw: Raw) -> Iterator[tuple[str, str, set[str]]]:
    """Yield the place and text of every expression, with the indices that it may use."""
    for section in ("computed", "repeat"):
        yield from ((f"{section}.{name}", text, set()) for name, text in raw.get(section, {}).items())
    yield from (("require", text, set()) for text in raw.get("require", ()))
    yield from ((f"when.{path}", text, _indices(raw, path)) for path, text in raw.get("when", {}).items())
    for section in (raw, *raw.get("classes", {}).values()):
        for name, dims in section.get("tensors", {}).items():
            yield from ((name, dim, _indices(raw, name)) for dim in dims.split())
        for name, text in section.get("ties", {}).items():
            if " if " in text:
                yield f"ties.{name}", text.partition(" if ")[2], set()
    for name, text in raw.get("buffers", {}).items():
        yield from ((name, dim, set()) for dim in text.split()[1:])


def _indices(raw: Raw, path: str) -> set[str]:
    return {index for index in raw.get("repeat", {}) if f"{{{index}}}" in path}


def _tensor_names(raw: Raw) -> Iterator[str]:
    yield from raw["tensors"]
    for of_class in raw.get("classes", {}).values():
        yield from of_class.get("tensors", {})


def _class_templates(raw: Raw, class_name: str) -> list[Template]:
    return list(_templates(raw, raw.get("classes", {}).get(class_name, {})))
