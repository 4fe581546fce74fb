"""A blueprint: a model's state dict, with shapes as expressions over its config.

Its law is in `law.py`.
"""

from __future__ import annotations

from functools import cache, cached_property
from itertools import chain
from types import MappingProxyType

from weighbridge import data
from weighbridge.algebra.expr import PARSED, evaluate, names_in, parse, parse_all
from weighbridge.blueprint import classify
from weighbridge.blueprint.guards import COUNT_BUILT, VIA_TRANSFORMERS
from weighbridge.blueprint.paths import above, indices_in, is_index, is_under, joined_path
from weighbridge.blueprint.roles import role_of
from weighbridge.errors import ModelError, either, nearest, shorten
from weighbridge.lean_typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from weighbridge.algebra.expr import Tree

    Raw = Mapping[str, Any]

FORMAT = 2
# In place of a value: treat the config as if it lacked the field, which follows from others.
LEFT_OUT = "null"
LARGEST_SIZE = 2**31 - 1  # of one dimension
MOST_LAYERS = 10_000
MOST_PLACES = 100_000  # of one tensor: layers times experts


class Tie(NamedTuple):
    """A tied tensor: the name of the tensor it shares, and the condition under which it does.

    ``at`` gives the first index in the target's name, if it is not that of the tensor itself.
    """

    to: str
    when: Tree | None
    at: Tree | None = None


class Active(NamedTuple):
    """The number of experts that a token uses.

    The index ``over`` counts all experts; if it is empty, the first dim does.
    """

    number: Tree
    over: str


class Template(NamedTuple):
    """One tensor, or the same tensor in every layer: ``name`` holds ``{i}`` for the layer's index.

    ``repeat`` lists the indices in the name, outermost first. ``varies`` lists those on which its
    shape, its tie, its existence or the count of another index depends. All of ``when`` must hold.
    A buffer has a ``dtype``.
    """

    name: str
    dims: tuple[str, ...]
    role: str
    repeat: tuple[str, ...] = ()
    varies: frozenset[str] = frozenset()
    when: tuple[Tree, ...] = ()
    tie: Tie | None = None
    active: Active | None = None
    dtype: str = ""

    @property
    def conditions(self) -> tuple[Tree, ...]:
        """The conditions under which the tensor exists, and then the condition of its tie."""
        if self.tie and self.tie.when:
            return (*self.when, self.tie.when)
        return self.when


class Stored(NamedTuple):
    """A stored tensor: its name in files, and its dims, or None for those of the class."""

    name: str
    dims: tuple[str, ...] | None


class Blueprint:
    """A family's tensors as expressions, not yet bound to a config.

    ``where`` is the file that it was read from; empty for a blueprint of this package.

    Example:
        >>> bert = load("bert")
        >>> bert.base_class, len(bert.class_names)
        ('BertModel', 9)
        >>> bert.templates("BertModel")[0].dims
        ('vocab_size', 'hidden_size')
    """

    def __init__(self, raw: Raw, where: str = "") -> None:
        self._raw, self.where = raw, where
        self.family: str = raw["family"]
        self.source: str = raw["source"]
        self.proof: Raw = raw["proof"]
        self.base_class: str = raw["class"]
        self.class_names: tuple[str, ...] = (self.base_class, *raw.get("classes", {}))
        self.defaults: Raw = {name: frozen(value) for name, value in raw["defaults"].items()}
        self.inert: frozenset[str] = frozenset(raw.get("inert", ()))
        self.nullable: frozenset[str] = frozenset(raw.get("nullable", ()))
        """The fields for which null is a value in its own right."""
        self.zero: frozenset[str] = frozenset(raw.get("zero", ()))
        """The sizes that may be 0."""
        self.given: Raw = {name: frozen(value) for name, value in raw.get("given", {}).items()}
        """The values, other than the defaults, of fields that a sub-config leaves out.

        ``LEFT_OUT`` marks a field that follows from other fields.
        """
        self.configs: Mapping[str, str] = raw.get("configs", {})
        """The paths of the sub-configs, and the ``model_type`` with which each was proved."""
        self.aliases: Mapping[str, str] = raw.get("aliases", {})
        """Other spellings of fields."""
        self.late: frozenset[str] = frozenset(raw.get("late", ()))
        """Aliases that are read after other fields were computed from the field."""
        self.flat: frozenset[str] = frozenset(raw.get("flat", ()))
        """Aliases of fields in a sub-config that are read only where the config lacks that."""
        self.values: Mapping[str, list[str]] = raw.get("values", {})
        """The texts for which a field was proved.

        Another text in a field that decides is refused; in an inert field it gives a note.
        """
        self.spelled: Mapping[str, Mapping[str, str]] = raw.get("spelled", {})
        """Other spellings of the texts of a field; ``LEFT_OUT`` for one that means no text."""
        self.separators: Mapping[str, str] = raw.get("separators", {})
        """The text between the items, where a config may give a list of texts as one text."""
        self.computed: dict[str, Tree] = parse_all(raw.get("computed", {}))
        self.require: dict[str, Tree] = {text: parse(text) for text in raw.get("require", ())}
        self.guards: Mapping[str, str] = raw.get("guards", {})
        """Conditions that a config must satisfy, each with the line of code that it excludes."""
        self.repeat: dict[str, Tree] = parse_all(raw.get("repeat", {}))
        self.dims: dict[str, Tree] = {dim: parse(dim) for dim in all_dims(raw)}
        self.at_defaults = _at_defaults(self.defaults, self.computed)
        """The value of every field under an empty config."""
        self.fields = frozenset(self.defaults) | frozenset(self.computed)
        """The fields that decide anything."""
        self._templates: dict[tuple[str, str, bool], tuple[Template, ...]] = {}
        self._indices: dict[int, tuple[Tree, tuple[str, ...]]] = {}

    @property
    def tried(self) -> Mapping[str, list[str]]:
        """The kinds of values that each field was tried with; empty for models of transformers."""
        tried: Mapping[str, list[str]] = self._raw.get("tried", {})
        return tried

    @property
    def stated(self) -> Sequence[str]:
        """The fields that a config must state: the class's own defaults are not those here."""
        stated: Sequence[str] = self._raw.get("stated", ())
        return stated

    @property
    def is_of_transformers(self) -> bool:
        """Whether it describes a model of transformers."""
        return self.source.startswith("transformers ")

    @property
    def instead(self) -> str:
        """How to count a config that this blueprint does not cover, for a message."""
        if self.is_of_transformers:
            return VIA_TRANSFORMERS
        return COUNT_BUILT

    @cached_property
    def replacing(self) -> dict[str, str]:
        """Objects that a config may have in place of a sub-config, which then does not count."""
        return {alias: name for alias, name in self.aliases.items() if name in self.configs}

    @cached_property
    def kinds(self) -> dict[str, type]:
        """The type of each field: of its default, or of its computed value at the defaults."""
        return classify.field_kinds(self._raw["defaults"], self.at_defaults)

    @cached_property
    def sizes(self) -> frozenset[str]:
        """The fields that are sizes: positive integers.

        A field with a negative default is none: -1 stands for "not given", and decides a branch.
        """
        sizes = classify.size_fields([*self.dims.values(), *self.repeat.values()], self.kinds)
        return frozenset(name for name in sizes if not _is_negative(self.defaults.get(name)))

    @cached_property
    def zero_dims(self) -> frozenset[str]:
        """The dims of tensors that may be 0."""
        dims = self.dims.items()
        return frozenset(dim for dim, tree in dims if classify.may_be_zero(tree, self.zero))

    @cached_property
    def never_null(self) -> frozenset[str]:
        """The fields that null does not leave out."""
        either = self.sizes | classify.flag_fields(self.kinds)
        return either - self.computed.keys() - self.nullable

    @cached_property
    def repeats(self) -> frozenset[str]:
        """The fields that give the number of layers."""
        indices = frozenset(chain.from_iterable(map(indices_in, all_names(self._raw))))
        return classify.layer_fields(self.repeat, indices)

    @cached_property
    def deciding(self) -> frozenset[str]:
        """The fields that decide which tensors exist or are shared."""
        return classify.all_names_in(map(parse, _conditions(self._raw)))

    @property
    def raw(self) -> Raw:
        """The blueprint as its file holds it."""
        return self._raw

    @property
    def composed(self) -> Mapping[str, str]:
        """The sub-configs that come from the blueprint of another family, and that family."""
        families: Mapping[str, str] = self._raw.get("composed", {})
        return families

    @property
    def beyond(self) -> Sequence[str]:
        """Names in configs that are not fields, but change the reference in undescribed ways."""
        names: Sequence[str] = self._raw.get("beyond", ())
        return names

    @property
    def counts(self) -> frozenset[str]:
        """The fields that are themselves a number of layers."""
        return frozenset(tree[1] for tree in self.repeat.values() if tree[0] == "name")

    def indices_of(self, tree: Tree) -> tuple[str, ...]:
        """Return the indices that an expression depends on."""
        known = self._indices.get(id(tree))
        if known is None:  # with the tree, so that no other one gets its identity
            used = tuple(self.repeat.keys() & names_in(tree))
            known = self._indices[id(tree)] = (tree, used)
        return known[1]

    def templates(self, class_name: str, *, stored: bool = False) -> tuple[Template, ...]:
        """Return a class's tensors in checkpoint order, or the tensors stored in their place.

        Raises:
            ModelError: the family has no such class.
        """
        return self._found(class_name, "tensors", stored=stored)

    def buffers(self, class_name: str, *, stored: bool = False) -> tuple[Template, ...]:
        """Return the tensors of a class that are not parameters but are in some checkpoints."""
        return self._found(class_name, "buffers", stored=stored)

    def is_stored_otherwise(self, class_name: str) -> bool:
        """Whether files store other tensors than those of the class, or use other names."""
        of_class = self._class(class_name)
        return "stored" in of_class or ("stored" in self._raw and _has_base(of_class))

    def renamed(self, class_name: str) -> dict[str, str]:
        """Return the paths in older files of a class, with their current names."""
        of_class = self._class(class_name)
        prefix, renamed = of_class.get("prefix", ""), dict[str, str]()
        if _has_base(of_class):
            for old, new in self._raw.get("renamed", {}).items():
                renamed[joined_path(prefix, old)] = joined_path(prefix, new)
        return {**renamed, **of_class.get("renamed", {})}

    def _found(self, class_name: str, kind: str, *, stored: bool) -> tuple[Template, ...]:
        of_class, key = self._class(class_name), (class_name, kind, stored)
        if key not in self._templates:
            read = stored_of if stored else templates_of
            self._templates[key] = tuple(read(self._raw, of_class, kind))
        return self._templates[key]

    def modules(self, class_name: str) -> dict[str, str]:
        """Return the class of each module that can hold tensors, by its path with ``{i}``."""
        raw, prefix = self._class(class_name), self.prefix(class_name)
        modules = {"": class_name}
        if prefix:
            modules[prefix[:-1]] = self.base_class
        if _has_base(raw):
            modules |= {prefix + path: kind for path, kind in self._raw.get("modules", {}).items()}
        modules.update(raw.get("modules", {}))
        return modules

    def sources(self, class_name: str) -> dict[str, str]:
        """Return the name of the class's tensor that each stored tensor holds, or a part of it.

        Example:
            >>> sources = load("mixtral").sources("MixtralModel")
            >>> sources["layers.{i}.block_sparse_moe.gate.weight"]
            'layers.{i}.mlp.gate.weight'
        """
        of_class, sources = self._class(class_name), dict[str, str]()
        for template in self.templates(class_name):
            for tensor in stored_as(template.name, self._raw, of_class):
                sources.setdefault(tensor.name, template.name)
        return sources

    def class_guards(self, class_name: str) -> Mapping[str, str]:
        """Return the guards of a task class, beyond those of the family."""
        guards: Mapping[str, str] = self._class(class_name).get("guards", {})
        return guards

    def prefix(self, class_name: str) -> str:
        """Return the prefix of the base class's names in this class: ``"bert."``, or nothing."""
        prefix = self._class(class_name).get("prefix", "")
        return f"{prefix}." if prefix else ""

    def _class(self, class_name: str) -> Raw:
        if class_name == self.base_class:
            return {}
        known: Raw | None = self._raw.get("classes", {}).get(class_name)
        if known is None:
            near = nearest(self.class_names, str(class_name)) or self.class_names
            raise ModelError(
                f"{self.family} has no class {shorten(class_name)}",
                hint=f"did you mean {either(near)}?",
            )
        return known


def families() -> list[str]:
    """Return the families that have a blueprint.

    Example:
        >>> "bert" in families()
        True
    """
    return list(data.names("blueprints", ".toml"))


def is_family(name: str) -> bool:
    """Whether a family with this name has a blueprint."""
    return data.has("blueprints", f"{name}.toml")


@cache
def load(family: str) -> Blueprint:
    """Return a family's blueprint from this package; the tests check each against the law.

    Raises:
        ModelError: there is none.
    """
    if not is_family(family):
        raise ModelError(
            f"there is no blueprint for the family {shorten(family, str)}",
            hint=known_families(family),
        )
    return _read(family)


def library_names(library: str) -> tuple[str, ...]:
    """Return the names of the blueprints of a library whose configs name a class.

    A class has several, such as ``"AutoencoderKL-4"``, if none covers all of its configs.

    Example:
        >>> "FluxTransformer2DModel" in library_names("diffusers")
        True
    """
    return data.names(f"blueprints/{library}", ".toml")


@cache
def load_of(library: str, name: str) -> Blueprint:
    """Return one of the blueprints of a library, by its name in `library_names`.

    Example:
        >>> load_of("diffusers", "FluxTransformer2DModel").base_class
        'FluxTransformer2DModel'
    """
    return _read(f"{library}/{name}")


def _read(place: str) -> Blueprint:
    """Return the blueprint at a place in the folder of blueprints."""
    PARSED.update(data.read_prepared(f"{place}.trees") or {})
    return Blueprint(data.read_toml(f"blueprints/{place}.toml"))


def parsed_expressions(family: str) -> dict[str, Tree]:
    """Return the expressions of a shipped blueprint, parsed, by their text.

    A name of a library's blueprint begins with the library: ``"diffusers/AutoencoderKL"``.

    Example:
        >>> parsed_expressions("bert")["num_hidden_layers"]
        ('name', 'num_hidden_layers')
    """
    known = dict(PARSED)
    PARSED.clear()
    blueprint = Blueprint(data.read_toml(f"blueprints/{family}.toml"))
    for class_name in blueprint.class_names:
        blueprint.templates(class_name)
    trees = dict(PARSED)
    PARSED.update(known)
    return trees


def known_families(family: str) -> str:
    """Return the hint for a family without a blueprint: how many have one, and similar names.

    For a model type of transformers it begins with the reason.

    Example:
        >>> known_families("bertt").partition("one, ")[2]
        'such as bert or ibert; `weighbridge families` lists them'
    """
    reason = ""
    for stated, uncovered in data.read_toml("facts/uncovered.toml").items():
        if family in uncovered:
            reason = f"{stated}; "
    known = families()
    many = f"{len(known)} families have"
    if len(known) == 1:
        many = "1 family has"
    nearby = ""
    if near := nearest(known, family):
        nearby = f", such as {either(near)}"
    return f"{reason}{many} one{nearby}; `weighbridge families` lists them"


def templates_of(raw: Raw, of_class: Raw, kind: str = "tensors") -> Iterator[Template]:
    """Yield the tensors of a class in checkpoint order.

    ``of_class`` is the class's section, empty for the base class. ``kind`` is ``"tensors"``, or
    ``"buffers"`` for tensors that are not parameters.
    """
    prefix = f"{of_class['prefix']}." if "prefix" in of_class else ""
    ties = {name: parse_ties(text) for name, text in of_class.get("ties", {}).items()}
    if _has_base(of_class):
        without = frozenset(of_class.get("without", ()))
        ties = {
            prefix + name: tuple(tie._replace(to=prefix + tie.to) for tie in parse_ties(text))
            for name, text in raw.get("ties", {}).items()
        } | ties
        for name in raw.get(kind, {}):
            if without.isdisjoint(above(name)):
                yield from _templates(raw.get("repeat", {}), raw, (kind, prefix, name), ties)
    for name in of_class.get(kind, {}):
        yield from _templates(raw.get("repeat", {}), of_class, (kind, "", name), ties)


def _templates(
    counted: Raw, section: Raw, place: tuple[str, str, str], ties: Mapping[str, tuple[Tie, ...]]
) -> Iterator[Template]:
    """Yield a tensor of a section: for each of its ties, under the conditions that choose it."""
    _, prefix, own = place
    *chosen, last = ties.get(prefix + own, (None,))
    for dims, of_rank in _shapes(section, place):
        otherwise = of_rank
        for tie in chosen:
            if tie is not None and tie.when is not None:
                when = (*otherwise, tie.when)
                yield _template(counted, section, place, dims, tie._replace(when=None), when)
                otherwise = (*otherwise, ("not", tie.when))
        yield _template(counted, section, place, dims, last, otherwise)


def _shapes(
    section: Raw, place: tuple[str, str, str]
) -> Iterator[tuple[tuple[str, ...], tuple[Tree, ...]]]:
    """Yield the dims that a tensor may have, each with the conditions under which it has them."""
    kind, _, own = place
    otherwise: tuple[Tree, ...] = ()
    if kind == "tensors" and own in section.get("ranks", {}):
        for dims, condition in parse_ranks(section["ranks"][own]):
            when = parse(condition)
            yield dims, (*otherwise, when)
            otherwise = (*otherwise, ("not", when))
    yield split_dims(section[kind][own]), otherwise


def _template(
    counted: Raw,
    section: Raw,
    place: tuple[str, str, str],
    dims: tuple[str, ...],
    tie: Tie | None,
    chosen_when: tuple[Tree, ...],
) -> Template:
    """Return a tensor of a section, given its kind, its name there, and the class's prefix.

    ``chosen_when`` are the conditions under which it has these dims and this tie, not others.
    """
    kind, prefix, own = place
    name, paths, dtype = prefix + own, _modules_around(section, own), ""
    if kind == "buffers":
        dtype, *rest = dims
        dims = tuple(rest)
    conditions, experts = section.get("when", {}), section.get("active", {})
    when = tuple([parse(conditions[path]) for path in paths if path in conditions])
    when, repeat = (*when, *chosen_when), indices_in(name)
    counts = [parse(counted[index]) for index in repeat]
    decide = [*map(parse, dims), *when, *counts]
    if tie:
        decide += filter(None, (tie.when, tie.at))
    return Template(
        name=name,
        dims=dims,
        role="buffer" if dtype else role_of(own, section[kind]),
        repeat=repeat,
        varies=_varying(repeat, decide),
        when=when,
        tie=tie,
        active=next((_active(path, experts[path]) for path in paths if path in experts), None),
        dtype=dtype,
    )


def _modules_around(section: Raw, own: str) -> list[str]:
    """Return the paths whose conditions a tensor has: those above it, and its own.

    Where a path above it is the name of a tensor in other configs, its condition is that tensor's.
    """
    tensors, buffers = section.get("tensors", {}), section.get("buffers", {})
    return [path for path in above(own) if path == own or not (path in tensors or path in buffers)]


def _varying(repeat: tuple[str, ...], decide: Iterable[Tree]) -> frozenset[str]:
    """Return the indices on which the expressions that define a tensor depend."""
    if not repeat:
        return _NO_INDICES
    return classify.all_names_in(decide).intersection(repeat)


_NO_INDICES: frozenset[str] = frozenset()


def _active(path: str, text: str) -> Active:
    last = path.rpartition(".")[2]
    if is_index(last):
        return Active(parse(text), last[1:-1])
    return Active(parse(text), "")


def _has_base(of_class: Raw) -> bool:
    return of_class.get("base", True) is not False


def stored_of(raw: Raw, of_class: Raw, kind: str = "tensors") -> Iterator[Template]:
    """Yield the tensors that files store for a class: the same parameters in other tensors.

    A stored tensor that holds several of the class's takes the position of the first of them.
    """
    templates = list(templates_of(raw, of_class, kind))
    stored = {template.name: stored_as(template.name, raw, of_class) for template in templates}
    beside = [tensor.name for tensor in chain.from_iterable(stored.values())]
    first_held: dict[str, str] = {}
    for template in templates:
        ties = _targets(template.tie.to, stored) if template.tie else []
        for at, tensor in enumerate(stored[template.name]):
            if first_held.setdefault(tensor.name, template.name) == template.name:
                tie = template.tie and template.tie._replace(to=ties[min(at, len(ties) - 1)])
                yield _in_file(template._replace(tie=tie), tensor, raw, beside)


def _targets(to: str, stored: Mapping[str, Sequence[Stored]]) -> list[str]:
    """Return the stored names of a shared tensor; its name may hold numbers for indices."""
    if to in stored:
        return [tensor.name for tensor in stored[to]]
    for name, tensors in stored.items():
        numbers = _numbers_in(to, name)
        if numbers is not None:
            return [_with_numbers(tensor.name, numbers) for tensor in tensors]
    return [to]


def _numbers_in(name: str, pattern: str) -> dict[str, str] | None:
    """Return the numbers in a name for the indices of a pattern; None if they do not match."""
    pieces, expected = name.split("."), pattern.split(".")
    if len(pieces) != len(expected):
        return None
    numbers = {}
    for piece, placeholder in zip(pieces, expected, strict=True):
        if piece != placeholder:
            if not is_index(placeholder):
                return None
            numbers[placeholder[1:-1]] = piece
    return numbers


def _with_numbers(name: str, numbers: Mapping[str, str]) -> str:
    for index, number in numbers.items():
        name = name.replace(f"{{{index}}}", number)
    return name


def _in_file(template: Template, stored: Stored, raw: Raw, beside: Iterable[str]) -> Template:
    """Return a stored tensor as a template of its own."""
    if stored.dims is None:
        return template._replace(name=stored.name)
    repeat, role = indices_in(stored.name), role_of(stored.name, beside)
    counts = [parse(raw["repeat"][index]) for index in repeat]
    own, active = [index for index in repeat if index not in template.repeat], template.active
    return template._replace(
        name=stored.name,
        dims=stored.dims,
        role=template.role if template.dtype or role == "other" else role,
        repeat=repeat,
        varies=_varying(repeat, [*map(parse, stored.dims), *template.conditions, *counts]),
        active=active._replace(over=own[0]) if active and own and not active.over else active,
    )


def stored_as(name: str, raw: Raw, of_class: Raw) -> list[Stored]:
    """Return the tensors that files store for a class's tensor; by default its own name.

    An entry of the class overrides one of the base class, and an entry for the whole name overrides
    one for a path above it.
    """
    sections = [("", of_class)]
    if _has_base(of_class):
        sections.append((of_class.get("prefix", ""), raw))
    for prefix, section in sections:
        if not prefix or is_under(name, prefix):
            own = name.removeprefix(f"{prefix}." if prefix else "")
            path = _stored_path(own, section)
            if path is not None:
                below = own[len(path) + 1 :]
                return [_stored(prefix, text, below) for text in section["stored"][path]]
    return [Stored(name, None)]


def _stored_path(name: str, section: Raw) -> str | None:
    """Return the longest path of a tensor that has an entry under `stored`."""
    stored = section.get("stored", {})
    return max((path for path in above(name) if path in stored), key=len, default=None)


def _stored(above_it: str, text: str, below: str) -> Stored:
    name, colon, dims = text.partition(":")
    return Stored(joined_path(above_it, name, below), split_dims(dims) if colon else None)


@cache
def split_dims(text: str) -> tuple[str, ...]:
    """Return the dims of a tensor, split at spaces outside brackets.

    Example:
        >>> split_dims("(2*width if is_gated else width) hidden_size")
        ('(2*width if is_gated else width)', 'hidden_size')
    """
    if "(" not in text and "[" not in text:
        return tuple(text.split())
    dims, depth, quote = [""], 0, ""
    for character in text:
        if character in _QUOTES and quote in ("", character):
            quote = character.removeprefix(quote)
        elif not quote:
            depth += _DEEPER.get(character, 0)
        if character.isspace() and not (depth or quote):
            dims.append("")
        else:
            dims[-1] += character
    return tuple(filter(None, dims))


_QUOTES = "\"'"
_DEEPER = {"(": 1, "[": 1, ")": -1, "]": -1}


def parse_ranks(text: str) -> list[tuple[tuple[str, ...], str]]:
    """Read the dims that a tensor has under a condition, separated by ``"; "``.

    Example:
        >>> parse_ranks("width (2*width if gated else width) 1 if conv; 1 if scaled")
        [(('width', '(2*width if gated else width)', '1'), 'conv'), (('1',), 'scaled')]
    """
    ranks = []
    for shape in text.split("; "):
        dims: tuple[str, ...] = ()
        words = split_dims(shape)
        if _IF in words:
            dims = words[: words.index(_IF)]
        ranks.append((dims, " ".join(words[len(dims) + 1 :])))
    return ranks


_IF = "if"


def _conditions(raw: Raw) -> Iterator[str]:
    for section in sections(raw).values():
        yield from section.get("when", {}).values()
        for text in section.get("ranks", {}).values():
            yield from (condition for _, condition in parse_ranks(text))
        for text in section.get("ties", {}).values():
            yield from tie_expressions(text)


def sections(raw: Raw) -> dict[str, Raw]:
    """Return the parts of a file that hold tensors, by the prefix of their keys in messages."""
    of_classes = raw.get("classes", {}).items()
    return {"": raw, **{f"classes.{name}.": of_class for name, of_class in of_classes}}


def stored_texts(section: Raw) -> Iterator[str]:
    """Yield the entries for stored tensors: names, and dims if they differ."""
    for texts in section.get("stored", {}).values():
        yield from texts


def all_names(raw: Raw) -> Iterator[str]:
    """Yield the name of every tensor and buffer, as written in the file."""
    for section in sections(raw).values():
        yield from section.get("tensors", {})
        yield from section.get("buffers", {})


def _at_defaults(defaults: Raw, computed: Mapping[str, Tree]) -> dict[str, Any]:
    values = dict(defaults)
    for name, tree in computed.items():
        values.setdefault(name, evaluate(tree, values))
    return values


def frozen(value: Any) -> Any:
    """Return an immutable copy of a value, so that no holder can change it for others.

    The keys of an object are texts, as in a file: `{4900: 256}` is read as `{"4900": 256}`.
    """
    if isinstance(value, dict):
        return MappingProxyType({str(key): item for key, item in value.items()})
    if isinstance(value, list):
        return tuple(value)
    return value


def parse_ties(text: str) -> tuple[Tie, ...]:
    """Read the ties of a tensor, separated by ``"; "``: the first whose condition holds counts."""
    return tuple(map(parse_tie, text.split("; ")))


def rewritten_ties(text: str, rename: Callable[[str], str], rewrite: Callable[[str], str]) -> str:
    """Return the text of ties with other names of the targets, and other expressions."""
    ties: list[str] = []
    for tie in text.split("; "):
        target, if_, condition = tie.partition(" if ")
        to, at, index = target.partition(" at ")
        expressions = [rewrite(part) if part else "" for part in (index, condition)]
        ties.append(f"{rename(to)}{at}{expressions[0]}{if_}{expressions[1]}")
    return "; ".join(ties)


def parse_tie(text: str) -> Tie:
    """Read ``"target"``, ``"target if condition"`` or ``"target at index if condition"``."""
    target, _, condition = text.partition(" if ")
    to, _, index = target.partition(" at ")
    return Tie(to, parse(condition) if condition else None, parse(index) if index else None)


def tie_expressions(text: str) -> list[str]:
    """Return the expressions of the text of ties: the target's first index, and the condition."""
    expressions: list[str] = []
    for tie in text.split("; "):
        target, _, condition = tie.partition(" if ")
        expressions += [part for part in (target.partition(" at ")[2], condition) if part]
    return expressions


def all_dims(raw: Raw) -> Iterator[str]:
    """Yield the dims of every tensor and buffer."""
    for section in sections(raw).values():
        for text in section.get("tensors", {}).values():
            yield from split_dims(text)
        for text in section.get("ranks", {}).values():
            yield from chain.from_iterable(dims for dims, _ in parse_ranks(text))
        for text in stored_texts(section):
            yield from split_dims(text.partition(":")[2])
        for text in section.get("buffers", {}).values():
            yield from split_dims(text)[1:]


def _is_negative(default: Any) -> bool:
    return type(default) is int and default < 0
