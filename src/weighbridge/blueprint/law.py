"""The law of a blueprint file: a table of rules, each with one error.

It type-checks the data and knows no family.

A user's file is also read here, and checked against the law before anything else sees it.

Each rule takes a raw blueprint, as parsed from TOML, and yields its breaches; the docstring is the
text of the rule.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from itertools import chain
from math import prod
from typing import TYPE_CHECKING, Any

from weighbridge import data
from weighbridge.algebra.expr import evaluate, names_in, parse, parse_at, source
from weighbridge.blueprint.bind import each_place, indices_used
from weighbridge.blueprint.classify import all_names_in
from weighbridge.blueprint.paths import indices_in, is_under
from weighbridge.blueprint.roles import role_of
from weighbridge.blueprint.schema import (
    FORMAT,
    LARGEST_SIZE,
    MOST_PLACES,
    Blueprint,
    Template,
    all_names,
    parse_ranks,
    sections,
    split_dims,
    stored_as,
    stored_texts,
    templates_of,
    tie_expressions,
)
from weighbridge.errors import BlueprintError, ExpressionError, printable, shorten
from weighbridge.nesting import parse_toml
from weighbridge.units import DTYPE_BITS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from weighbridge.algebra.expr import Tree
    from weighbridge.blueprint.schema import Raw, Stored


LONGEST_BLUEPRINT = 2 * 2**20  # bytes; 20 times the longest one that is shipped


def read_blueprint(path: str | os.PathLike[str]) -> Blueprint:
    """Return the blueprint in a user's file.

    Raises:
        BlueprintError: the file cannot be read, is too long, is not TOML, contains unprintable
            text, or breaks the law.

    Example:
        >>> read_blueprint(os.path.join(data.ROOT, "blueprints", "bert.toml")).base_class
        'BertModel'
    """
    path = os.fspath(path)
    where = printable(path)
    try:
        raw = parse_toml(_text_of(path))
        unshown = next((text for text in _all_texts(raw) if not text.isprintable()), None)
        if unshown is not None:
            raise BlueprintError("contains unprintable text", values={"found": unshown})
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
            raise BlueprintError("is not a regular file")
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
    """Yield every text in a file, including keys."""
    if isinstance(found, str):
        yield found
    elif isinstance(found, dict | list):
        inside = (*found, *found.values()) if isinstance(found, dict) else found
        for value in inside:
            yield from _all_texts(value)


def check(raw: Raw, where: str = "") -> None:
    """Check a blueprint, as read from its file, against the law.

    Raises:
        BlueprintError: a rule is broken; the message begins with the rule's name.

    Example:
        >>> check({**data.read_toml("blueprints/bert.toml"), "format": 0})
        Traceback (most recent call last):
        weighbridge.errors.BlueprintError: format: this version reads format 2, not 0.
    """
    hold(raw, LAW, where)


def hold(raw: Raw, law: Mapping[str, Callable[[Raw], Iterator[str]]], where: str = "") -> None:
    """Check a file against the rules of its kind, each of which yields its breaches.

    A rule relies on those before it.

    Raises:
        BlueprintError: a rule is broken; the message begins with the rule's name.
    """
    for name, rule in law.items():
        try:
            breach = next(rule(raw), None)
        except ExpressionError as error:
            what = ": ".join(filter(None, (name, error.shown_where, error.what)))
            raise BlueprintError(what, where=where, values=error.values, hint=error.hint) from None
        if breach:
            raise BlueprintError(f"{name}: {breach}", where=where)


_TEXTS = ("family", "source", "class")
_LISTS = ("require", "inert", "nullable", "zero", "beyond", "late", "flat", "stated")
_LISTS_BY_FIELD = ("values", "tried")
_OF_A_CLASS = (
    *("guards", "tensors", "ranks", "when", "ties", "buffers", "active", "renamed", "modules"),
    "parts",
)
_TEXT_TABLES = ("computed", "repeat", "configs", "aliases", "separators", *_OF_A_CLASS)
_TABLES = {*_TEXT_TABLES, "defaults", "given", *_LISTS_BY_FIELD, "spelled", "classes"}
_TABLES |= {"proof", "stored"}
_KEYS = {*_TABLES, *_TEXTS, *_LISTS, "format"}
_REQUIRED = {"format", "family", "source", "class", "defaults", "tensors", "proof"}
_CLASS_KEYS = {"prefix", "base", "without", "stored", *_OF_A_CLASS}
_PROOF_KEYS = {"by", "against", "configs"}
_PROOF_OPTIONS = {"adversarial", "holes", "parts"}


def _keys(raw: Raw) -> Iterator[str]:
    """Every required key is present, and no key is unknown."""
    yield from (f"{key} is missing" for key in sorted(_REQUIRED - set(raw)))
    yield from (f"{key} is unknown" for key in sorted(set(raw) - _KEYS))
    for name, of_class in raw.get("classes", {}).items():
        yield from (
            f"classes.{name}.{key} is unknown" for key in sorted(set(of_class) - _CLASS_KEYS)
        )
    if set(raw["proof"]) - _PROOF_OPTIONS != _PROOF_KEYS:
        keys, options = ", ".join(sorted(_PROOF_KEYS)), ", ".join(sorted(_PROOF_OPTIONS))
        yield f"proof must have {keys}, and may have {options}"


def _format(raw: Raw) -> Iterator[str]:
    """The format is one that this version reads."""
    if raw["format"] != FORMAT:
        yield f"this version reads format {FORMAT}, not {raw['format']}"


def _types(raw: Raw) -> Iterator[str]:
    """Texts, lists of texts, and tables have the right types."""
    yield from (f"{key} must be text" for key in _TEXTS if not isinstance(raw.get(key, ""), str))
    yield from (
        f"{key} must be a table"
        for key in sorted(_TABLES)
        if not isinstance(raw.get(key, {}), dict)
    )
    yield from (
        f"{key} must be a list of texts" for key in _LISTS if not _is_texts(raw.get(key, []))
    )
    for name, words in raw.get("spelled", {}).items():
        if not isinstance(words, dict) or not _is_texts([*words.values()]):
            yield f"spelled.{name} must be a table of texts"
    yield from (
        f"{key}.{name} must be a list of texts"
        for key in _LISTS_BY_FIELD
        for name, values in raw.get(key, {}).items()
        if not _is_texts(values)
    )
    if isinstance(proof := raw.get("proof", {}), dict) and not _is_texts(proof.get("holes", [])):
        yield "proof.holes must be a list of texts"
    if isinstance(proof, dict) and type(proof.get("adversarial", 0)) is not int:
        yield "proof.adversarial must be an integer"
    for place, section in sections(raw).items():
        if not isinstance(section, dict):
            yield f"{place[:-1]} must be a table"
        else:
            yield from _section_types(place, section)


def _section_types(place: str, section: Raw) -> Iterator[str]:
    for key in _TEXT_TABLES:
        table = section.get(key, {})
        if not isinstance(table, dict) or not _is_texts([*table.values()]):
            yield f"{place}{key} must be a table of texts"
    stored = section.get("stored", {})
    if not isinstance(stored, dict) or not all(
        texts and _is_texts(texts) for texts in stored.values()
    ):
        yield f"{place}stored must be a table of lists of texts"
    if not isinstance(section.get("base", True), bool):
        yield f"{place}base must be true or false"
    if not isinstance(section.get("prefix", ""), str):
        yield f"{place}prefix must be text"
    if not _is_texts(section.get("without", [])):
        yield f"{place}without must be a list of texts"


def _is_texts(found: Any) -> bool:
    return isinstance(found, list) and all(isinstance(text, str) for text in found)


def _expressions(raw: Raw) -> Iterator[str]:
    """Every expression can be parsed."""
    for place, text, _ in all_expressions(raw):
        parse_at(place, text)
    return iter(())  # a breach is an error of the parser's


def _names(raw: Raw) -> Iterator[str]:
    """A name in an expression is a field with a default, a computed field, or an index."""
    known = _fields(raw)
    for place, text, indices in all_expressions(raw):
        unknown = sorted(set(names_in(parse(text))) - known - indices)
        yield from (f"{place}: {name} has no default" for name in unknown)
    yield from (f"repeat.{index} is a field" for index in raw.get("repeat", {}) if index in known)


def _known(raw: Raw) -> Iterator[str]:
    """Every field that is named decides something or is inert; sub-configs are in `configs`."""
    known = _fields(raw)
    either = known.union(raw.get("inert", ()))
    for part in ("nullable", "zero", "stated"):
        yield from (f"{part}: {name} is not a field" for name in _part(raw, part) - known)
    types = {f"{path}.model_type" for path in raw.get("configs", {})}
    spelled = either | types
    yield from (
        f"spelled: {name} is not a field" for name in raw.get("spelled", {}) if name not in spelled
    )
    for part in (*_LISTS_BY_FIELD, "separators"):
        yield from (
            f"{part}: {name} is not a field" for name in raw.get(part, {}) if name not in either
        )
    yield from (
        f"aliases: {name} is not a field"
        for name in raw.get("aliases", {}).values()
        if name not in either and name not in raw.get("configs", {})
    )
    yield from (
        f"aliases: {name} is itself a field" for name in raw.get("aliases", {}) if name in either
    )
    for part in ("late", "flat"):
        yield from (
            f"{part}: {name} is not an alias"
            for name in raw.get(part, ())
            if name not in raw.get("aliases", {})
        )
    yield from (f"beyond: {name} is a field" for name in raw.get("beyond", ()) if name in either)
    yield from (
        f"given: {name} is not a field" for name in raw.get("given", {}) if name not in known
    )
    paths = raw.get("configs", {})
    dotted = (name for name in (*sorted(either), *raw.get("aliases", {}), *paths) if "." in name)
    yield from (
        f"{name} is not in any sub-config"
        for name in dotted
        if name.rpartition(".")[0] not in paths
    )


def _used(raw: Raw) -> Iterator[str]:
    """Every field with a default is used in an expression, and no inert field is."""
    used = all_names_in(parse(text) for _, text, _ in all_expressions(raw))
    yield from (
        f"{name} is not used in any expression" for name in raw["defaults"] if name not in used
    )
    yield from (
        f"{name} is inert, but an expression uses it"
        for name in raw.get("inert", ())
        if name in used
    )


def _placeholder(piece: str) -> str:
    """Return the placeholder that a piece consists of or has after a stem: `bias_l{i}_reverse`."""
    stem, brace, rest = piece.partition("{")
    index, end, ending = rest.partition("}")
    is_named = not stem or _PIECE.fullmatch(stem)
    if not is_named or (ending and not (stem and _PIECE.fullmatch(ending))):
        return piece
    return f"{brace}{index}{end}"


def _paths(raw: Raw) -> Iterator[str]:
    """Names are dotted paths; indices differ, and each count uses only those to its left."""
    counts = {index: set(names_in(parse(text))) for index, text in raw.get("repeat", {}).items()}
    placeholders = sorted(f"{{{index}}}" for index in counts)
    for name in [*all_names(raw), *_all_stored(raw)]:
        if not all(_is_piece(piece, placeholders) for piece in name.split(".")):
            yield f"{name} is not a dotted path with {' or '.join(placeholders) or 'no index'}"
        else:
            yield from _index_breaches(name, counts)
    for section in sections(raw).values():
        for old, new in section.get("renamed", {}).items():
            pieces = (*old.split("."), *filter(None, new.split(".")))
            if not all(map(_PIECE.fullmatch, pieces)):
                yield f"{old}, now {new}, is not a dotted path without indices"


def _is_piece(piece: str, placeholders: Sequence[str]) -> bool:
    return _PIECE.fullmatch(piece) is not None or _placeholder(piece) in placeholders


def _index_breaches(name: str, counts: Mapping[str, set[str]]) -> Iterator[str]:
    """Yield the faults in a name's indices; ``counts`` has the names in the count of each."""
    indices = indices_in(name)
    for position, index in enumerate(indices):
        left = indices[:position]
        if index in left:
            yield f"{name} has {{{index}}} twice"
        for other in sorted(counts[index].intersection(counts).difference(left)):
            yield f"{name}: the number of {{{index}}} needs {{{other}}} to its left"


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
        for name in section.get("ranks", {}).keys() - section.get("tensors", {}).keys():
            yield f"{name} has other dims, but is not among the tensors"
        yield from _leading_nowhere(
            section.get("without", ()), [*raw["tensors"], *raw.get("buffers", {})]
        )


def _leading_nowhere(paths: Iterable[str], names: Iterable[str]) -> Iterator[str]:
    names = list(names)
    for path in paths:
        if not any(is_under(name, path) for name in names):
            yield f"there is no tensor under {path}"


def _unique(raw: Raw) -> Iterator[str]:
    """No class has two tensors with the same name, unless they differ in their rank or tie."""
    for class_name in (raw["class"], *raw.get("classes", {})):
        earlier: dict[str, Template] = {}
        for template in _class_templates(raw, class_name, "tensors", "buffers"):
            other = earlier.setdefault(template.name, template)
            if other is not template and not _excludes(template, other.when):
                yield f"{class_name} has {template.name} twice"


def _excludes(template: Template, conditions: Sequence[Tree]) -> bool:
    """Whether a tensor exists only where one of these conditions is false."""
    return any(("not", condition) in template.when for condition in conditions)


def _ties(raw: Raw) -> Iterator[str]:
    """The target of a tie is an untied tensor of the same class, with the same dims."""
    for class_name in (raw["class"], *raw.get("classes", {})):
        of_kind = _class_templates(raw, class_name, "tensors")
        every = list(of_kind)
        names = {template.name for template in every}
        of_class = raw.get("classes", {}).get(class_name, raw)
        for name in of_class.get("ties", {}):
            if name not in names:
                yield f"{class_name}: {name} is not a tensor of the class"
        for template in every:
            if template.tie and (breach := _tie_breach(template, template.tie.to, every)):
                yield f"{class_name}: {breach}"


def _tie_breach(template: Template, to: str, every: Sequence[Template]) -> str:
    rank = len(template.dims)
    by_rank = sorted(every, key=lambda other: len(other.dims) == rank)
    templates = {other.name: other for other in by_rank}  # of a name, the one of this rank
    target, literals = _resolve(to, templates)
    if target is None:
        return f"{to} is not a tensor of the class"
    is_other_place = template.tie is not None and template.tie.at is not None
    if target.tie and not is_other_place and _may_be_tied(target.tie.when, literals):
        conditions = [target.tie.when] if target.tie.when else []
        if not _excludes(template, conditions):
            return f"{to} is itself tied"
    if len(target.dims) != len(template.dims) or not set(indices_in(to)) <= set(template.repeat):
        return f"{template.name} and {to} have different dims or layers"
    return ""


def _resolve(to: str, templates: Mapping[str, Template]) -> tuple[Template | None, dict[str, int]]:
    """Return the template of a name that may hold numbers for indices, and those numbers."""
    if to in templates:
        return templates[to], {}
    pieces = to.split(".")
    for template in templates.values():
        placeholders = template.name.split(".")
        literals, is_same = dict[str, int](), len(pieces) == len(placeholders)
        for piece, placeholder in zip(pieces, placeholders, strict=False):
            if placeholder.startswith("{") and piece.isdecimal():
                literals[placeholder[1:-1]] = int(piece)
            else:
                is_same = is_same and piece == placeholder
        if is_same:
            return template, literals
    return None, {}


def _may_be_tied(condition: Tree | None, literals: Mapping[str, int]) -> bool:
    """Whether a tensor may be tied: the numbers in its name may rule that out."""
    if condition is None or not set(names_in(condition)) <= set(literals):
        return True
    return bool(evaluate(condition, literals))


def _experts(raw: Raw) -> Iterator[str]:
    """A tensor of experts has an index that counts them, or a first dim that does."""
    for class_name in (raw["class"], *raw.get("classes", {})):
        for template in _class_templates(raw, class_name, "tensors"):
            if template.active and not template.active.over and not template.dims:
                yield f"{class_name}: {template.name} has no dims"


def _dtypes(raw: Raw) -> Iterator[str]:
    """A buffer begins with a known dtype."""
    for place, section in sections(raw).items():
        for name, text in section.get("buffers", {}).items():
            if (text.split() or [""])[0] not in DTYPE_BITS:
                yield f"{place}buffers.{name} does not begin with a dtype"


def _roles(raw: Raw) -> Iterator[str]:
    """Every tensor has a role from `facts/roles.toml`, or the role `other`."""
    known = {*data.read_toml("facts/roles.toml")["roles"], "other"}
    names = (name for section in sections(raw).values() for name in section.get("tensors", {}))
    yield from (
        f"facts/roles.toml has no role for {name}" for name in names if role_of(name) not in known
    )


def _modules(raw: Raw) -> Iterator[str]:
    """Every module with a tensor has a class, and every path with a class has a tensor."""
    for section in sections(raw).values():
        paths, names = section.get("modules", {}), section.get("tensors", {})
        parents = {name.rpartition(".")[0] for name in names}
        yield from (f"{path} has no class" for path in sorted(parents - set(paths) - {""}))
        held = [*names, *section.get("buffers", {})]
        for path in paths:
            if not any(is_under(name, path) for name in held):
                yield f"{path} holds no tensor"


def _defaults_hold(raw: Raw) -> Iterator[str]:
    """At the defaults, requirements and guards hold, conditions have truths, sizes are integers."""
    fields = dict(raw["defaults"])
    for name, text in raw.get("computed", {}).items():
        fields.setdefault(name, evaluate(parse(text), fields))
    guards = chain.from_iterable(section.get("guards", {}) for section in sections(raw).values())
    for text in (*raw.get("require", ()), *guards):
        if evaluate(parse(text), fields) is not True:
            yield f"{text} is false for the defaults"
    for class_name in (raw["class"], *raw.get("classes", {})):
        for template in _class_templates(raw, class_name, "tensors", "buffers"):
            yield from _first_breach(template, raw, fields)
    blueprint = Blueprint(raw)
    for name in blueprint.sizes:
        least = 0 if name in blueprint.zero else 1
        if fields[name] is not None and not _is_size(fields[name], least):
            yield f"{name} is a size, but its default is {fields[name]}"


def _stored(raw: Raw) -> Iterator[str]:
    """Stored tensors have as many elements, at the defaults, and names that all differ."""
    fields = Blueprint(raw).at_defaults
    for class_name in (raw["class"], *raw.get("classes", {})):
        yield from _stored_breaches(class_name, raw, fields)


def _stored_breaches(class_name: str, raw: Raw, fields: Mapping[str, Any]) -> Iterator[str]:
    of_class = raw.get("classes", {}).get(class_name, {})
    of_kinds = _class_templates(raw, class_name, "tensors", "buffers")
    templates = {template.name: template for template in of_kinds}
    yield from _leading_nowhere((of_class or raw).get("stored", {}), templates)
    stored = {name: stored_as(name, raw, of_class) for name in templates}
    for names in _together(stored):
        tensors = set(chain.from_iterable(stored[name] for name in names))
        dims = {tensor.name: tensor.dims for tensor in tensors if tensor.dims is not None}
        if len(dims) == len(tensors):
            together = [templates[name] for name in names]
            yield from _other_elements(together, dims, raw, fields)
        elif len(names) + len(tensors) > _A_NAME_ALONE:
            yield f"{class_name}: {_ALIKE.format(' and '.join(names[:2]))}"


_ALIKE = "{} are stored under names that are not all different"
_A_NAME_ALONE = 2  # one tensor of the class and one of a file: at most their names differ


def _together(stored_by_name: Mapping[str, Sequence[Stored]]) -> list[list[str]]:
    """Return the names of tensors, grouped by the stored tensors that they share."""
    groups: dict[str, dict[str, None]] = {}
    for name, stored in stored_by_name.items():
        largest = {name: None}
        for other in [groups[tensor.name] for tensor in stored if tensor.name in groups]:
            smaller, largest = sorted((other, largest), key=len)
            largest |= smaller
        for tensor in chain.from_iterable(stored_by_name[member] for member in largest):
            groups[tensor.name] = largest
    positions = {name: position for position, name in enumerate(stored_by_name)}
    once = {id(group): group for group in groups.values()}
    return [sorted(group, key=positions.__getitem__) for group in once.values()]


def _other_elements(
    templates: Sequence[Template],
    stored: Mapping[str, tuple[str, ...]],
    raw: Raw,
    fields: Mapping[str, Any],
) -> Iterator[str]:
    """Yield how stored elements differ from those of the tensors, in their first place."""
    first = templates[0]
    dims_by_name = {template.name: template.dims for template in templates}
    indices = [set(indices_in(name)) for name in (*dims_by_name, *stored)]
    shared = indices[0].intersection(*indices)
    if lost := sorted(indices_used(indices[0] - shared, first.when)):
        index = f"{{{lost[0]}}}"
        yield f"whether {first.name} exists depends on {index}, which its stored tensors lack"
    for place in _places(first.repeat, raw, fields):
        values = {**fields, **place}
        if all(evaluate(condition, values) is True for condition in first.when):
            here = {**fields, **{index: place[index] for index in shared}}
            expected = _elements(dims_by_name, raw, here)
            held = _elements(stored, raw, here)
            if expected != held:
                yield f"{held} elements are stored in place of {expected}, from {first.name} on"
            return


def _elements(
    dims_by_name: Mapping[str, tuple[str, ...]], raw: Raw, fields: Mapping[str, Any]
) -> int:
    """Return the number of elements of tensors, over all indices without a value."""
    elements = 0
    for name, dims in dims_by_name.items():
        free = [index for index in indices_in(name) if index not in fields]
        for place in _places(free, raw, fields):
            values = {**fields, **place}
            elements += prod([_at_least_0(parse(dim), values) for dim in dims])
    return elements


def _places(repeat: Sequence[str], raw: Raw, fields: Mapping[str, Any]) -> list[dict[str, int]]:
    """Return the values of these indices in every place."""
    layers_so_far = Counter[str]()

    def count(index: str, values: Mapping[str, Any]) -> int:
        tree = parse(raw["repeat"][index])
        layers = _at_least_0(tree, values)
        layers_so_far[index] += layers
        if layers_so_far[index] > MOST_PLACES:
            raise ExpressionError(f"gives more than {MOST_PLACES:,} places", where=source(tree))
        return layers

    def indices(values: Mapping[str, Any]) -> dict[str, int]:
        return {index: values[index] for index in repeat}

    return [indices(values) for values in each_place(repeat, fields, count)]


def _at_least_0(tree: Tree, fields: Mapping[str, Any]) -> int:
    size = evaluate(tree, fields)
    if not _is_size(size, 0):
        raise ExpressionError(f"gives {size!r}, which is not a size", where=source(tree))
    return int(size)


def _first_breach(template: Template, raw: Raw, fields: Mapping[str, Any]) -> Iterator[str]:
    """Yield the faults of a tensor in its first layer, if the defaults have one."""
    here = dict(fields)
    for index in template.repeat:
        text = raw["repeat"][index]
        layers = evaluate(parse(text), here)
        if not _is_size(layers, 0):
            yield f"{text} is a number of layers, but gives {layers!r}"
        if layers == 0:
            return
        here[index] = 0
    conditions = template.conditions
    truths = [evaluate(condition, here) for condition in conditions]
    for condition, truth in zip(conditions, truths, strict=True):
        if type(truth) is not bool:
            yield f"{source(condition)} is a condition, but gives {truth!r} for the defaults"
    if False in truths[: len(template.when)]:
        return
    for tree in map(parse, template.dims):
        evaluate(tree, here)
    if template.active:
        tree = template.active.number
        number = evaluate(tree, here)
        if number is not None and not _is_size(number, 0):
            yield f"{source(tree)} is a number of experts, but gives {number!r}"


def _is_size(value: Any, least: int = 1) -> bool:
    return type(value) is int and least <= value <= LARGEST_SIZE


def _model_parts(raw: Raw) -> Iterator[str]:
    """A part is a module with tensors, and its sub-config has a model type."""
    configs = raw.get("configs", {})
    for place, section in sections(raw).items():
        held = [*section.get("tensors", {}), *section.get("buffers", {})]
        for module, text in section.get("parts", {}).items():
            if not any(is_under(name, module) for name in held):
                yield f"{place}parts: there is no tensor under {module}"
            if not text or not configs.get(text.split()[0]):
                yield f"{place}parts: {module} has no sub-config with a model type"
    tried = raw["proof"].get("parts", [])
    if not _is_texts(tried):
        yield "proof.parts must be a list of texts"


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
    "parts": _model_parts,
}
"""The rules of a blueprint file by name; each relies on those before it."""


def _fields(raw: Raw) -> set[str]:
    return {*raw["defaults"], *raw.get("computed", {})}


def _part(raw: Raw, part: str) -> set[str]:
    return set(raw.get(part, ()))


def all_expressions(raw: Raw) -> Iterator[tuple[str, str, set[str]]]:
    """Yield the place and text of every expression, with the indices that it may use."""
    repeat = set(raw.get("repeat", {}))
    for name, text in raw.get("computed", {}).items():
        yield f"computed.{name}", text, set()
    for index, text in raw.get("repeat", {}).items():
        yield f"repeat.{index}", text, repeat - {index}
    for text in raw.get("require", ()):
        yield "require", text, set()
    for place, section in sections(raw).items():
        yield from _section_expressions(place, section)


def _section_expressions(place: str, section: Raw) -> Iterator[tuple[str, str, set[str]]]:
    for text in section.get("guards", {}):
        yield f"{place}guards", text, set()
    for part in ("when", "active"):
        for path, text in section.get(part, {}).items():
            yield f"{place}{part}.{path}", text, _own(path)
    for name, dim in _section_dims(section):
        yield name, dim, _own(name)
    for name, text in section.get("ranks", {}).items():
        for _, condition in parse_ranks(text):
            yield f"{place}ranks.{name}", condition, _own(name)
    for name, text in section.get("ties", {}).items():
        for part in tie_expressions(text):
            yield f"{place}ties.{name}", part, _own(name)


def _section_dims(section: Raw) -> Iterator[tuple[str, str]]:
    """Yield the names of a section's tensors, buffers and stored tensors with each dim."""
    for name, text in section.get("tensors", {}).items():
        yield from ((name, dim) for dim in split_dims(text))
    for name, text in section.get("ranks", {}).items():
        for shape, _ in parse_ranks(text):
            yield from ((name, dim) for dim in shape)
    for name, text in section.get("buffers", {}).items():
        yield from ((name, dim) for dim in split_dims(text)[1:])
    for text in stored_texts(section):
        name, _, dims = text.partition(":")
        yield from ((name, dim) for dim in split_dims(dims))


def _own(path: str) -> set[str]:
    return set(indices_in(path))


def _class_templates(raw: Raw, class_name: str, *kinds: str) -> list[Template]:
    of_class = raw.get("classes", {}).get(class_name, {})
    return list(chain.from_iterable(templates_of(raw, of_class, kind) for kind in kinds))
