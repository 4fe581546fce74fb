"""The law of a blueprint file: a table of rules, each with one error.

It is data's own type check, and knows no family.

A file of the user's is read here too, and held against the law before anything else sees it.

Each rule looks at a raw blueprint, as TOML gives it, and yields what breaks it; its docstring is
the rule's text.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from math import prod
from typing import TYPE_CHECKING, Any

from weighbridge import data
from weighbridge.algebra.expr import Tree, evaluate, names_in, parse, source
from weighbridge.blueprint.bind import each_place
from weighbridge.blueprint.paths import indices_in, is_under
from weighbridge.blueprint.roles import role_of
from weighbridge.blueprint.schema import (
    FORMAT,
    LARGEST_SIZE,
    MOST_PLACES,
    Blueprint,
    Template,
    all_names,
    sections,
    split_dims,
    stored_as,
    stored_texts,
    templates_of,
)
from weighbridge.errors import BlueprintError, ExpressionError, printable, shorten
from weighbridge.units import DTYPE_BITS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from weighbridge.blueprint.schema import Raw, Stored


LONGEST_BLUEPRINT = 2 * 2**20  # bytes; the longest that is shipped has a twentieth


def read(path: str | os.PathLike[str]) -> Blueprint:
    """Return the blueprint in a file of the user's.

    Raises:
        BlueprintError: the file cannot be read, is too long, is no TOML, holds what cannot be
            shown, or breaks the law.

    Example:
        >>> read(os.path.join(data.ROOT, "blueprints", "bert.toml")).base_class
        'BertModel'
    """
    import tomllib  # noqa: PLC0415

    path = os.fspath(path)
    where = printable(path)
    try:
        raw = tomllib.loads(_text_of(path))
        unshown = next((text for text in _all_texts(raw) if not text.isprintable()), None)
        if unshown is not None:
            raise BlueprintError("holds text that cannot be shown", values={"found": unshown})
    except BlueprintError as error:
        raise BlueprintError(error.what, where=where, values=error.values, hint=_HINT) from None
    except UnicodeDecodeError:
        raise BlueprintError("is not UTF-8 text", where=where, hint=_HINT) from None
    except RecursionError:
        raise BlueprintError("is nested too deeply", where=where, hint=_HINT) from None
    except ValueError as error:
        raise BlueprintError(
            f"is not TOML: {shorten(str(error), str, 100)}", where=where, hint=_HINT
        ) from None
    check(raw, where)
    return Blueprint(raw, where)


_HINT = "`weighbridge derive` writes blueprints"


def _text_of(path: str) -> str:
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            raise BlueprintError("is no regular file")
        with open(path, "rb") as file:
            text = file.read(LONGEST_BLUEPRINT + 1)
    except (OSError, ValueError) as error:
        raise BlueprintError(
            f"cannot be read: {getattr(error, 'strerror', None) or error}"
        ) from None
    if len(text) > LONGEST_BLUEPRINT:
        raise BlueprintError(f"is longer than {LONGEST_BLUEPRINT} bytes")
    return text.decode()


def _all_texts(found: Any) -> Iterator[str]:
    """Yield every text in a file, keys too."""
    if isinstance(found, str):
        yield found
    elif isinstance(found, dict | list):
        for inside in (*found, *found.values()) if isinstance(found, dict) else found:
            yield from _all_texts(inside)


def check(raw: Raw, where: str = "") -> None:
    """Hold a blueprint, as read from its file, against the law.

    Raises:
        BlueprintError: a rule is broken; the message begins with the rule's name.

    Example:
        >>> check({**data.read_toml("blueprints/bert.toml"), "format": 0})
        Traceback (most recent call last):
        weighbridge.errors.BlueprintError: format: this version reads format 2, not 0.
    """
    hold(raw, LAW, where)


def hold(raw: Raw, law: Mapping[str, Callable[[Raw], Iterator[str]]], where: str = "") -> None:
    """Hold a file against the rules of its kind, each trusting those before it; a rule yields how it is broken.

    Raises:
        BlueprintError: a rule is broken; the message begins with the rule's name.
    """
    for name, rule in law.items():
        try:
            breach = next(rule(raw), None)
        except ExpressionError as error:
            breach = str(error).removesuffix(".")
        if breach:
            raise BlueprintError(f"{name}: {breach}", where=where)


_TEXTS = ("family", "source", "class")
_LISTS = ("require", "inert", "nullable", "zero", "beyond")
_OF_A_CLASS = ("tensors", "when", "ties", "buffers", "active", "renamed", "modules")
_TEXT_TABLES = ("computed", "repeat", "configs", "aliases", *_OF_A_CLASS)
_TABLES = {*_TEXT_TABLES, "defaults", "given", "values", "spelled", "classes", "proof", "stored"}
_KEYS = {*_TABLES, *_TEXTS, *_LISTS, "format"}
_REQUIRED = {"format", "family", "source", "class", "defaults", "tensors", "proof"}
_CLASS_KEYS = {"prefix", "base", "without", "stored", *_OF_A_CLASS}
_PROOF_KEYS = {"by", "against", "configs"}


def _keys(raw: Raw) -> Iterator[str]:
    """No part is missing, and none is unknown."""
    yield from (f"{key} is missing" for key in sorted(_REQUIRED - set(raw)))
    yield from (f"{key} is unknown" for key in sorted(set(raw) - _KEYS))
    for name, of_class in raw.get("classes", {}).items():
        yield from (
            f"classes.{name}.{key} is unknown" for key in sorted(set(of_class) - _CLASS_KEYS)
        )
    if set(raw["proof"]) - {"holes"} != _PROOF_KEYS:
        yield f"proof has {', '.join(sorted(_PROOF_KEYS))}, and may have holes"


def _format(raw: Raw) -> Iterator[str]:
    """The format is one that this version reads."""
    if raw["format"] != FORMAT:
        yield f"this version reads format {FORMAT}, not {raw['format']}"


def _types(raw: Raw) -> Iterator[str]:
    """Texts are texts, lists list texts, tables are tables."""
    yield from (f"{key} is text" for key in _TEXTS if not isinstance(raw.get(key, ""), str))
    yield from (
        f"{key} is a table" for key in sorted(_TABLES) if not isinstance(raw.get(key, {}), dict)
    )
    yield from (f"{key} lists texts" for key in _LISTS if not _is_texts(raw.get(key, [])))
    for name, words in raw.get("spelled", {}).items():
        if not isinstance(words, dict) or not _is_texts([*words.values()]):
            yield f"spelled.{name} is a table of texts"
    yield from (
        f"values.{name} lists texts"
        for name, values in raw.get("values", {}).items()
        if not _is_texts(values)
    )
    if isinstance(proof := raw.get("proof", {}), dict) and not _is_texts(proof.get("holes", [])):
        yield "proof.holes lists texts"
    for place, section in sections(raw).items():
        if not isinstance(section, dict):
            yield f"{place[:-1]} is a table"
        else:
            yield from _section_types(place, section)


def _section_types(place: str, section: Raw) -> Iterator[str]:
    for key in _TEXT_TABLES:
        table = section.get(key, {})
        if not isinstance(table, dict) or not _is_texts([*table.values()]):
            yield f"{place}{key} holds texts"
    stored = section.get("stored", {})
    if not isinstance(stored, dict) or not all(
        texts and _is_texts(texts) for texts in stored.values()
    ):
        yield f"{place}stored holds lists of texts"
    if not isinstance(section.get("base", True), bool):
        yield f"{place}base is true or false"
    if not isinstance(section.get("prefix", ""), str):
        yield f"{place}prefix is text"
    if not _is_texts(section.get("without", [])):
        yield f"{place}without lists texts"


def _is_texts(found: Any) -> bool:
    return isinstance(found, list) and all(isinstance(text, str) for text in found)


def _expressions(raw: Raw) -> Iterator[str]:
    """Every expression can be read."""
    for place, text, _ in all_expressions(raw):
        try:
            parse(text)
        except ExpressionError as error:
            yield f"{place}: {error}"


def _names(raw: Raw) -> Iterator[str]:
    """Every name in an expression is a field with a default, a computed field, or an index of its path."""
    known = _fields(raw)
    for place, text, indices in all_expressions(raw):
        unknown = sorted(set(names_in(parse(text))) - known - indices)
        yield from (f"{place}: {name} has no default" for name in unknown)
    yield from (f"repeat.{index} is a field" for index in raw.get("repeat", {}) if index in known)


def _known(raw: Raw) -> Iterator[str]:
    """Whatever speaks of a field names one that decides or is inert, and of a sub-config one of `configs`."""
    known = _fields(raw)
    either = known.union(raw.get("inert", ()))
    yield from (
        f"{part}: {name} is no field"
        for part in ("nullable", "zero")
        for name in _part(raw, part) - known
    )
    yield from (
        f"spelled: {name} is no field" for name in raw.get("spelled", {}) if name not in either
    )
    yield from (
        f"values: {name} is no field" for name in raw.get("values", {}) if name not in either
    )
    yield from (
        f"aliases: {name} is no field"
        for name in raw.get("aliases", {}).values()
        if name not in either
    )
    yield from (
        f"aliases: {name} is a field itself" for name in raw.get("aliases", {}) if name in either
    )
    yield from (f"beyond: {name} is a field" for name in raw.get("beyond", ()) if name in either)
    yield from (f"given: {name} is no field" for name in raw.get("given", {}) if name not in known)
    paths = raw.get("configs", {})
    dotted = (name for name in (*sorted(either), *raw.get("aliases", {}), *paths) if "." in name)
    yield from (
        f"{name} is in no sub-config" for name in dotted if name.rpartition(".")[0] not in paths
    )


def _used(raw: Raw) -> Iterator[str]:
    """Every field with a default is in some expression, and no inert one is."""
    used = {name for _, text, _ in all_expressions(raw) for name in names_in(parse(text))}
    yield from (f"{name} is in no expression" for name in raw["defaults"] if name not in used)
    yield from (f"{name} decides something" for name in raw.get("inert", ()) if name in used)


def _placeholder(piece: str) -> str:
    """Return the placeholder that a piece ends in: all of it, or what follows its stem, as in `expert_{i}`."""
    stem, brace, index = piece.partition("{")
    return f"{brace}{index}" if not stem or _PIECE.fullmatch(stem) else piece


def _paths(raw: Raw) -> Iterator[str]:
    """A name is a dotted path; its indices differ, and what counts one uses only those that stand to its left."""
    counts = {index: set(names_in(parse(text))) for index, text in raw.get("repeat", {}).items()}
    placeholders = {f"{{{index}}}" for index in counts}
    for name in [*all_names(raw), *_all_stored(raw)]:
        if not all(
            _PIECE.fullmatch(piece) or _placeholder(piece) in placeholders
            for piece in name.split(".")
        ):
            yield f"{name} is not a dotted path with {' or '.join(sorted(placeholders)) or 'no index'}"
            continue
        indices = indices_in(name)
        for position, index in enumerate(indices):
            if index in indices[:position]:
                yield f"{name} has {{{index}}} twice"
            right = counts[index].intersection(counts).difference(indices[:position])
            yield from (
                f"{name}: the number of {{{index}}} needs {{{other}}} to its left"
                for other in sorted(right)
            )
    for old, new in (
        pair for section in sections(raw).values() for pair in section.get("renamed", {}).items()
    ):
        if not all(map(_PIECE.fullmatch, (*old.split("."), *filter(None, new.split("."))))):
            yield f"{old}, now {new}, is not a dotted path without indices"


_PIECE = re.compile(r"[\w-]+")


def _all_stored(raw: Raw) -> Iterator[str]:
    for section in sections(raw).values():
        yield from section.get("stored", {})
        yield from (text.partition(":")[0] for text in stored_texts(section))


def _reached(raw: Raw) -> Iterator[str]:
    """Every path under `when`, `active` and `without` leads to a tensor or a buffer."""
    for section in sections(raw).values():
        names = [*section.get("tensors", {}), *section.get("buffers", {})]
        paths = [*section.get("when", {}), *section.get("active", {})]
        yield from _leading_nowhere(paths, names)
        yield from _leading_nowhere(
            section.get("without", ()), [*raw["tensors"], *raw.get("buffers", {})]
        )


def _leading_nowhere(paths: Iterable[str], names: Iterable[str]) -> Iterator[str]:
    yield from (
        f"no tensor stands under {path}"
        for path in paths
        if not any(is_under(name, path) for name in names)
    )


def _unique(raw: Raw) -> Iterator[str]:
    """No class has two tensors of one name."""
    for class_name in (raw["class"], *raw.get("classes", {})):
        names = [
            template.name for template in _class_templates(raw, class_name, "tensors", "buffers")
        ]
        yield from (
            f"{class_name} has {name} twice" for name, times in Counter(names).items() if times > 1
        )


def _ties(raw: Raw) -> Iterator[str]:
    """A tied tensor and the one it shares are tensors of the class with the same dims, and the second is untied."""
    for class_name in (raw["class"], *raw.get("classes", {})):
        templates = {
            template.name: template for template in _class_templates(raw, class_name, "tensors")
        }
        of_class = raw.get("classes", {}).get(class_name, raw)
        yield from (
            f"{class_name}: {name} is no tensor of it"
            for name in of_class.get("ties", {})
            if name not in templates
        )
        for template in templates.values():
            if template.tie:
                breach = _tie_breach(template, template.tie.to, templates)
                yield from [f"{class_name}: {breach}"] if breach else ()


def _tie_breach(template: Template, to: str, templates: Mapping[str, Template]) -> str:
    target, literals = _resolve(to, templates)
    if target is None:
        return f"{to} is no tensor of it"
    if target.tie and _may_be_tied(target.tie.when, literals):
        return f"{to} is tied itself"
    if len(target.dims) != len(template.dims) or not set(indices_in(to)) <= set(template.repeat):
        return f"{template.name} and {to} have different dims or layers"
    return ""


def _resolve(to: str, templates: Mapping[str, Template]) -> tuple[Template | None, dict[str, int]]:
    """Return the template of a name in which numbers may stand for indices, and those numbers."""
    if to in templates:
        return templates[to], {}
    pieces = to.split(".")
    for template in templates.values():
        pairs = list(zip(template.name.split("."), pieces, strict=False))
        literals = {
            own[1:-1]: int(said) for own, said in pairs if own.startswith("{") and said.isdecimal()
        }
        if template.name.count(".") == len(pieces) - 1 and all(
            own == said or own[1:-1] in literals for own, said in pairs
        ):
            return template, literals
    return None, {}


def _may_be_tied(condition: Tree | None, literals: Mapping[str, int]) -> bool:
    """Whether a tensor may be tied: not if the numbers that stand in its name rule it out."""
    if condition is None or not set(names_in(condition)) <= set(literals):
        return True
    return bool(evaluate(condition, literals))


def _experts(raw: Raw) -> Iterator[str]:
    """A tensor of experts that no index counts has a first dim, which does."""
    for class_name in (raw["class"], *raw.get("classes", {})):
        for template in _class_templates(raw, class_name, "tensors"):
            if template.active and not template.active.over and not template.dims:
                yield f"{class_name}: {template.name} has no dims"


def _dtypes(raw: Raw) -> Iterator[str]:
    """A buffer begins with a known dtype."""
    for place, section in sections(raw).items():
        for name, text in section.get("buffers", {}).items():
            if (text.split() or [""])[0] not in DTYPE_BITS:
                yield f"{place}buffers.{name} begins with no dtype"


def _roles(raw: Raw) -> Iterator[str]:
    """Every tensor has a role in `facts/roles.toml`, or is of role `other`."""
    known = {*data.read_toml("facts/roles.toml")["roles"], "other"}
    names = (name for section in sections(raw).values() for name in section.get("tensors", {}))
    yield from (
        f"facts/roles.toml has none for {name}" for name in names if role_of(name) not in known
    )


def _modules(raw: Raw) -> Iterator[str]:
    """Every module that holds a tensor has a class, and every path that has one holds a tensor or a buffer."""
    for section in sections(raw).values():
        paths, names = section.get("modules", {}), section.get("tensors", {})
        parents = {name.rpartition(".")[0] for name in names}
        yield from (f"{path} has no class" for path in sorted(parents - set(paths) - {""}))
        held = [*names, *section.get("buffers", {})]
        yield from (
            f"{path} holds no tensor"
            for path in paths
            if not any(is_under(name, path) for name in held)
        )


def _defaults_hold(raw: Raw) -> Iterator[str]:
    """At the defaults, requirements and conditions are true or false, requirements true, and sizes sizes."""
    fields = dict(raw["defaults"])
    for name, text in raw.get("computed", {}).items():
        fields.setdefault(name, evaluate(parse(text), fields))
    for text in raw.get("require", ()):
        if evaluate(parse(text), fields) is not True:
            yield f"{text} is false of the defaults"
    for class_name in (raw["class"], *raw.get("classes", {})):
        for template in _class_templates(raw, class_name, "tensors", "buffers"):
            yield from _first_breach(template, raw, fields)
    blueprint = Blueprint(raw)
    for name in blueprint.sizes:
        if fields[name] is not None and not _is_size(
            fields[name], 0 if name in blueprint.zero else 1
        ):
            yield f"{name} is a size, and {fields[name]} is none"


def _stored(raw: Raw) -> Iterator[str]:
    """What files hold in place of tensors has, at the defaults, as many elements, and its names are all different."""
    fields = Blueprint(raw).at_defaults
    for class_name in (raw["class"], *raw.get("classes", {})):
        of_class = raw.get("classes", {}).get(class_name, {})
        templates = {
            template.name: template
            for template in _class_templates(raw, class_name, "tensors", "buffers")
        }
        yield from _leading_nowhere((of_class or raw).get("stored", {}), templates)
        found = {name: stored_as(name, raw, of_class) for name in templates}
        for names in _together(found):
            texts = {tensor for name in names for tensor in found[name]}
            dims = {tensor.name: tensor.dims for tensor in texts if tensor.dims is not None}
            if len(dims) == len(texts):
                yield from _other_elements([templates[name] for name in names], dims, raw, fields)
            elif len(names) + len(texts) > 2:
                yield f"{class_name}: {' and '.join(names[:2])} are stored under names that are not all different"


def _together(found: Mapping[str, Sequence[Stored]]) -> list[list[str]]:
    """Return the names of tensors in groups of those that files hold in the same ones."""
    groups: dict[str, dict[str, None]] = {}
    for name, stored in found.items():
        largest = {name: None}
        for group in [groups[tensor.name] for tensor in stored if tensor.name in groups]:
            group, largest = sorted((group, largest), key=len)  # noqa: PLW2901
            largest |= group
        groups |= {tensor.name: largest for member in largest for tensor in found[member]}
    order = {name: at for at, name in enumerate(found)}
    once = {id(group): group for group in groups.values()}
    return [sorted(group, key=lambda name: order[name]) for group in once.values()]


def _other_elements(
    templates: Sequence[Template],
    stored: Mapping[str, tuple[str, ...]],
    raw: Raw,
    fields: Mapping[str, Any],
) -> Iterator[str]:
    """Yield what is wrong with what files hold in place of tensors, in the first place where these are."""
    tensors = [(template.name, template.dims) for template in templates]
    indices = [set(indices_in(name)) for name in (*dict(tensors), *stored)]
    shared = indices[0].intersection(*indices)
    deciding = {name for tree in templates[0].when for name in names_in(tree)}
    if lost := sorted(deciding & indices[0] - shared):
        yield f"whether {templates[0].name} exists depends on {{{lost[0]}}}, which what files hold does not have"
    for place in _places(templates[0].repeat, raw, fields):
        if all(evaluate(condition, {**fields, **place}) is True for condition in templates[0].when):
            here = {**fields, **{index: place[index] for index in shared}}
            held = sum(_elements(name, dims, raw, here) for name, dims in tensors)
            found = sum(_elements(name, dims, raw, here) for name, dims in stored.items())
            if held != found:
                yield f"files hold {found} elements in place of the {held} of {templates[0].name}"
            return


def _elements(name: str, dims: tuple[str, ...], raw: Raw, fields: Mapping[str, Any]) -> int:
    """Return the elements of a tensor in all places of those of its indices that have no value yet."""
    free = [index for index in indices_in(name) if index not in fields]
    return sum(
        prod(_at_least_0(parse(dim), {**fields, **place}) for dim in dims)
        for place in _places(free, raw, fields)
    )


def _places(repeat: Sequence[str], raw: Raw, fields: Mapping[str, Any]) -> list[dict[str, int]]:
    """Return the values of these indices in every place."""
    layers_so_far = Counter[str]()

    def count(index: str, values: Mapping[str, Any]) -> int:
        tree = parse(raw["repeat"][index])
        layers = _at_least_0(tree, values)
        layers_so_far[index] += layers
        if layers_so_far[index] > MOST_PLACES:
            raise ExpressionError(f"comes to more than {MOST_PLACES:,} places", where=source(tree))
        return layers

    def indices(values: Mapping[str, Any]) -> dict[str, int]:
        return {index: values[index] for index in repeat}

    return [indices(values) for values in each_place(repeat, fields, count)]


def _at_least_0(tree: Tree, fields: Mapping[str, Any]) -> int:
    size = evaluate(tree, fields)
    if not _is_size(size, 0):
        raise ExpressionError(f"comes to {size!r}, which is no size", where=source(tree))
    return int(size)


def _first_breach(template: Template, raw: Raw, fields: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with a tensor in its first layer, if the defaults have one."""
    here = dict(fields)
    for index in template.repeat:
        text = raw["repeat"][index]
        layers = evaluate(parse(text), here)
        if not _is_size(layers, 0):
            yield f"{text} is a number of layers, and {layers!r} is none"
        if layers == 0:
            return
        here[index] = 0
    conditions = [
        *template.when,
        *([template.tie.when] if template.tie and template.tie.when else []),
    ]
    truths = [evaluate(condition, here) for condition in conditions]
    for condition, truth in zip(conditions, truths, strict=True):
        if type(truth) is not bool:
            yield f"{source(condition)} is neither true nor false of the defaults, but {truth!r}"
    if False not in truths[: len(template.when)]:
        for tree in map(parse, template.dims):
            evaluate(tree, here)
        number = evaluate(template.active.number, here) if template.active else None
        if template.active and number is not None and not _is_size(number, 0):
            yield f"{source(template.active.number)} is a number of experts, and {number!r} is none"


def _is_size(value: Any, least: int = 1) -> bool:
    return type(value) is int and least <= value <= LARGEST_SIZE


LAW: dict[str, Callable[[Raw], Iterator[str]]] = {
    "types": _types,
    "keys": _keys,
    "format": _format,
    "expressions": _expressions,
    "names": _names,
    "fields are known": _known,
    "fields are used": _used,
    "paths": _paths,
    "paths lead somewhere": _reached,
    "dtypes": _dtypes,
    "names are unique": _unique,
    "ties": _ties,
    "experts": _experts,
    "roles": _roles,
    "modules": _modules,
    "defaults hold": _defaults_hold,
    "stored": _stored,
}
"""The rules of a blueprint file by name, each trusting those before it."""


def _fields(raw: Raw) -> set[str]:
    return {*raw["defaults"], *raw.get("computed", {})}


def _part(raw: Raw, part: str) -> set[str]:
    return set(raw.get(part, ()))


def all_expressions(raw: Raw) -> Iterator[tuple[str, str, set[str]]]:
    """Yield the place and text of every expression of a blueprint, with the indices that it may use."""
    repeat = set(raw.get("repeat", {}))
    yield from ((f"computed.{name}", text, set()) for name, text in raw.get("computed", {}).items())
    yield from (
        (f"repeat.{index}", text, repeat - {index}) for index, text in raw.get("repeat", {}).items()
    )
    yield from (("require", text, set()) for text in raw.get("require", ()))
    for place, section in sections(raw).items():
        for part in ("when", "active"):
            yield from (
                (f"{place}{part}.{path}", text, _own(path))
                for path, text in section.get(part, {}).items()
            )
        for name, text in section.get("tensors", {}).items():
            yield from ((name, dim, _own(name)) for dim in split_dims(text))
        for name, text in section.get("buffers", {}).items():
            yield from ((name, dim, _own(name)) for dim in split_dims(text)[1:])
        for name, _, dims in (text.partition(":") for text in stored_texts(section)):
            yield from ((name, dim, _own(name)) for dim in split_dims(dims))
        for name, text in section.get("ties", {}).items():
            if " if " in text:
                yield f"{place}ties.{name}", text.partition(" if ")[2], _own(name)


def _own(path: str) -> set[str]:
    return set(indices_in(path))


def _class_templates(raw: Raw, class_name: str, *kinds: str) -> list[Template]:
    of_class = raw.get("classes", {}).get(class_name, {})
    return [template for kind in kinds for template in templates_of(raw, of_class, kind)]
