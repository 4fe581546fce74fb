"""The law of a blueprint file: a table of rules, each with one error. It is data's own type check, and knows no family.

Each rule looks at a raw blueprint, as TOML gives it, and yields what breaks it; its docstring is the rule's text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weighbridge import data
from weighbridge.blueprint import FORMAT, LARGEST_SIZE, Blueprint, Template, is_under, role_of, templates_of
from weighbridge.errors import BlueprintError, ExpressionError
from weighbridge.expr import evaluate, names_in, parse
from weighbridge.units import DTYPE_BITS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from weighbridge.blueprint import Raw


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
_TABLES = {*_TEXT_TABLES, "defaults", "only", "classes", "proof"}
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
    """Every field with a default is in some expression, and no inert one is; only an inert one has an only value."""
    used = {name for _, text, _ in _all_expressions(raw) for name in names_in(parse(text))}
    yield from (f"{name} is in no expression" for name in raw["defaults"] if name not in used)
    yield from (f"{name} decides something" for name in raw.get("inert", ()) if name in used)
    yield from (f"{name} is not inert" for name in raw.get("only", {}) if name not in raw.get("inert", ()))


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
        if not any(is_under(name, path) for name in names):
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
        yield from (
            f"{class_name}: {name} is no tensor of it" for name in of_class.get("ties", {}) if name not in templates
        )
        for template in templates.values():
            to = templates.get(template.tie.to) if template.tie else None
            if template.tie and not to:
                yield f"{class_name}: {template.tie.to} is no tensor of it"
            elif to and to.tie:
                yield f"{class_name}: {to.name} is tied itself"
            elif to and (to.dims, to.repeat or template.repeat) != (template.dims, template.repeat):
                yield f"{class_name}: {template.name} and {to.name} have different dims or layers"


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
        yield from (f"{path} holds no tensor" for path in paths if not any(is_under(name, path) for name in names))


def _defaults_hold(raw: Raw) -> Iterator[str]:
    """At the defaults, requirements and conditions are true or false, requirements true, and sizes sizes."""
    fields = dict(raw["defaults"])
    for name, text in raw.get("computed", {}).items():
        fields.setdefault(name, evaluate(parse(text), fields))
    first = {**fields, **dict.fromkeys(raw.get("repeat", {}), 0)}
    for place, text, _ in _all_expressions(raw):
        value = evaluate(parse(text), first)
        if place == "require" and value is not True:
            yield f"{text} is false of the defaults"
        elif place.startswith(("when.", "ties.")) and type(value) is not bool:
            yield f"{text} is neither true nor false of the defaults, but {value!r}"
        elif place.startswith("repeat.") and value != 0 and not _is_size(value):
            yield f"{text} is a number of layers, and {value!r} is none"
    for name in Blueprint(raw).sizes:
        if not _is_size(fields[name]):
            yield f"{name} is a size, and {fields[name]} is none"


def _is_size(value: Any) -> bool:
    return type(value) is int and 1 <= value <= LARGEST_SIZE


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
    return list(templates_of(raw, raw.get("classes", {}).get(class_name, {})))
