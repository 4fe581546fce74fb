"""The waist: every model and every checkpoint becomes rows of one kind, and every answer is a fold over them."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge.algebra.expr import Tree, evaluate, names_in, parse, source
from weighbridge.algebra.polynomial import Polynomial
from weighbridge.blueprint.roles import component_of
from weighbridge.blueprint.schema import LARGEST_SIZE, MOST_LAYERS, MOST_PLACES, Template, measured
from weighbridge.errors import ExpressionError, UsageError, nearest
from weighbridge.ledger.letters import Letters
from weighbridge.ledger.places import ONE, Places, every
from weighbridge.units import stored_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from weighbridge.blueprint.schema import Blueprint
    from weighbridge.ledger.places import Place

    _Form = tuple[tuple[int, ...], bool]  # a shape, and whether it is tied

LARGEST_TOTAL = 2**63 - 1  # that an array of 64 bits can hold
GROUPINGS = ("component", "role", "layer", "tensor")


class Row(NamedTuple):
    """One tensor, expected or found.

    ``count`` is the number of its elements; ``parameters`` is what it adds to the unique parameters
    of its class: the same, or 0 for a tied tensor (``tied_to`` names the row that holds the weight)
    and for a buffer. A header does not tell a buffer from a parameter; of a quantised weight,
    ``parameters`` are the elements that it stands for.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    role: str
    dims: tuple[str, ...]
    count: int  # type: ignore[assignment]  # the word that users know; a tuple's own count() is not missed
    parameters: int
    tied_to: str | None = None

    @property
    def bytes(self) -> int:
        """What its elements take where they are stored: nothing, if it is another tensor."""
        return 0 if self.tied_to else stored_bytes(self.count, self.dtype)


class Entry(NamedTuple):
    """A template bound to numbers: one row, or the same row in each of the places ``indices``.

    They are held as ranges where the tensor stands in every layer, so that an entry's cost does not
    grow with them. ``part`` says that they are not all those in which the tensor has this shape,
    but those of one layer.
    """

    template: Template
    shape: tuple[int, ...]
    indices: Places
    tied: bool
    part: bool = False

    @property
    def parameters(self) -> int:
        """What its rows add to the unique parameters."""
        return 0 if self.tied else prod(self.shape) * len(self.indices)

    def name(self, place: Place) -> str:
        """Return the name of the tensor in this place: ``(3, 7)`` are the values of its indices, outermost first."""
        return self._in(self.template.name, place)

    def tied_to(self, place: Place) -> str | None:
        """Return the name of the tensor that this one is in this place, if it is another one."""
        tie = self.template.tie if self.tied else None
        return self._in(tie.to, place) if tie else None

    def bound(self, place: Place) -> dict[str, int]:
        """Return the values of its indices in this place, by their names."""
        return dict(zip(self.template.repeat, place, strict=True))

    def _in(self, name: str, place: Place) -> str:
        for index, value in zip(self.template.repeat, place, strict=True):
            name = name.replace(f"{{{index}}}", str(value))
        return name


class Line(NamedTuple):
    """A group of entries under one name: a component, a role, a layer or a tensor."""

    name: str
    entries: tuple[Entry, ...]

    @property
    def parameters(self) -> int:
        """The unique parameters of the group."""
        return sum(entry.parameters for entry in self.entries)

    @property
    def tied(self) -> int:
        """The elements of the group that are shared with another tensor, and so counted there."""
        return sum(prod(entry.shape) * len(entry.indices) for entry in self.entries if entry.tied)


class Ledger:
    """What a class of a model holds under one config.

    Example:
        >>> from weighbridge.blueprint.schema import load
        >>> bert = load("bert")
        >>> ledger = bind(bert, "BertModel", {**bert.defaults, "num_labels": 2})
        >>> ledger.parameters
        109482240
        >>> ledger.rows[0].name, ledger.rows[0].shape
        ('embeddings.word_embeddings.weight', (30522, 768))
    """

    def __init__(
        self,
        blueprint: Blueprint,
        class_name: str,
        fields: Mapping[str, Any],
        entries: tuple[Entry, ...],
        dtype: str,
        *,
        is_stored: bool = False,
    ) -> None:
        self.blueprint, self.class_name, self.fields = blueprint, class_name, fields
        self.entries, self.dtype = entries, dtype
        self.is_stored = is_stored
        """Whether it is what files hold, where that is not what the class itself has."""

    def __repr__(self) -> str:
        return f"<Ledger of {self.class_name}: {self.parameters} parameters>"

    @property
    def parameters(self) -> int:
        """The unique parameters: what ``sum(p.numel() for p in model.parameters())`` gives."""
        return sum(
            [prod(entry.shape) * len(entry.indices) for entry in self.entries if not entry.tied]
        )

    @property
    def active(self) -> int:
        """The unique parameters that one token passes through: of experts, those of as many as it is sent to."""
        return sum(self.active_of(entry) for entry in self.entries if not entry.tied)

    @property
    def has_experts(self) -> bool:
        """Whether a token passes through some of its tensors only in part."""
        return any(entry.template.active for entry in self.entries)

    @property
    def tied(self) -> int:
        """The elements that are shared with another tensor, and so counted there."""
        return Line("", self.entries).tied

    @property
    def rows(self) -> list[Row]:
        """Every tensor in checkpoint order, layer by layer."""
        return [self._row(entry, place) for entry, place in _in_order(self.entries)]

    @property
    def tensors(self) -> int:
        """How many tensors there are, tied ones too."""
        return sum(len(entry.indices) for entry in self.entries)

    @cached_property
    def stored(self) -> Ledger:
        """The same parameters as files hold them: one tensor for each expert, say, where the class has all in one."""
        if self.is_stored or not self.blueprint.is_stored_otherwise(self.class_name):
            return self
        return bind(self.blueprint, self.class_name, self.fields, self.dtype, stored=True)

    @property
    def stored_rows(self) -> list[Row]:
        """Every tensor as files hold it: what ``save_pretrained`` writes."""
        return self.stored.rows

    def by(self, grouping: str) -> list[Line]:
        """Return the entries in groups, in the order of their first tensor.

        Args:
            grouping: ``"component"``, ``"role"``, ``"layer"`` or ``"tensor"``.

        Raises:
            UsageError: there is no such grouping.

        Example:
            >>> from weighbridge.blueprint.schema import load
            >>> bert = load("bert")
            >>> lines = bind(bert, "BertModel", {**bert.defaults, "num_labels": 2}).by("component")
            >>> [(line.name, line.parameters) for line in lines if line.name in ("pooler", "attention")]
            [('attention', 28348416), ('pooler', 590592)]
        """
        if grouping not in GROUPINGS:
            raise UsageError(
                "cannot group so",
                values={"by": grouping},
                hint=f"group by {', '.join(GROUPINGS[:-1])} or tensor",
            )
        groups: dict[str, list[Entry]] = {}
        for name, entry in self._named(grouping):
            groups.setdefault(name, []).append(entry)
        return [Line(name, tuple(entries)) for name, entries in groups.items()]

    def formula(self, **fields: Any) -> Any:
        """Return the total as a formula, or its value where some fields are other numbers than the config's.

        With no field, every size is a letter and the result a `Polynomial`. With fields, the others
        keep the config's values, and the result is of the kind given: an integer, or an array of
        one total an element. It is the same fold over the same expressions each time; conditions
        and lists keep what the config says.

        Raises:
            UsageError: a field is no size, or decides which tensors exist; or the family's
                requirements do not hold.

        Example:
            >>> from weighbridge.blueprint.schema import load
            >>> bert = load("bert")
            >>> ledger = bind(bert, "BertForMultipleChoice", {**bert.defaults, "num_labels": 2})
            >>> ledger.formula(num_hidden_layers=24)
            194537473
            >>> import numpy
            >>> ledger.formula(num_hidden_layers=numpy.array([12, 24]))
            array([109483009, 194537473])
            >>> ledger.formula() == ledger.formula_of(ledger.by("role"))
            True
        """
        if not fields:
            return self.formula_of([Line("", self.entries)])
        self._check_sizes(fields)
        fields = {name: _widened(value) for name, value in fields.items()}
        self._check_rules(fields)
        return self._total_at(fields)

    def active_formula(self) -> Polynomial:
        """Return `active` as a formula.

        Example:
            >>> from weighbridge.blueprint.schema import load
            >>> bert = load("bert")
            >>> ledger = bind(bert, "BertModel", {**bert.defaults, "num_labels": 2})
            >>> ledger.active_formula() == ledger.formula()
            True
        """
        return self.formula_of([Line("", self.entries)], active=True)

    def _check_sizes(self, fields: Mapping[str, Any]) -> None:
        """Refuse fields for which the same tensors at other sizes are not the answer."""
        blueprint = self.blueprint
        varies = any(entry.template.varies for entry in self.entries)
        sizes = (
            blueprint.sizes - blueprint.deciding - (blueprint.repeats if varies else frozenset())
        )
        for name in fields:
            if name not in blueprint.fields:
                near = nearest(sizes, name) or sorted(sizes)
                raise UsageError(
                    f"{blueprint.family} has no field {name}",
                    hint=f"did you mean {' or '.join(near)}?",
                )
            if name not in sizes:
                hint = "weigh the config with that value"
                raise UsageError(
                    f"{name} decides more than sizes, so a formula cannot replace it", hint=hint
                )
        for name, tree in blueprint.computed.items():
            if name not in fields and not fields.keys().isdisjoint(names_in(tree)):
                raise UsageError(
                    f"{name} follows from a field that is replaced", hint=f"give {name} too"
                )
        if not all(map(_is_whole, fields.values())):
            raise UsageError(
                "a formula takes integers, or arrays of them",
                values=fields,
                hint="round them first",
            )

    def _check_rules(self, fields: Mapping[str, Any]) -> None:
        """Refuse values that the family does not allow, and arrays whose totals do not fit one."""
        bound = {**self.fields, **fields}
        least = {name: f"{name} >= {0 if name in self.blueprint.zero else 1}" for name in fields}
        rules = {rule: parse(rule) for rule in least.values()} | self.blueprint.require
        for rule, tree in rules.items():
            holds = evaluate(tree, bound)
            if not (holds.all() if hasattr(holds, "all") else holds):
                values = {name: bound[name] for name in names_in(tree)}
                hint = "replace other fields too"
                raise UsageError(
                    f"a {self.blueprint.family} needs {rule}", values=values, hint=hint
                )
        most = {
            name: int(value.max()) if _is_array(value) else value for name, value in fields.items()
        }
        if any(map(_is_array, fields.values())) and self._total_at(most) > LARGEST_TOTAL:
            raise UsageError(
                "the total does not fit an array's 64 bits", values=most, hint="use smaller sizes"
            )

    def _total_at(self, fields: Mapping[str, Any]) -> Any:
        bound = {**self.fields, **fields}
        return sum(_total(entry, self.blueprint, bound) for entry in self.entries if not entry.tied)

    def formula_of(self, lines: Iterable[Line], *, active: bool = False) -> Polynomial:
        """Return the formula in letters of some groups together, or of what is active of them."""
        by_template: dict[str, list[Entry]] = {}
        for line in lines:
            for entry in line.entries:
                if not entry.tied:
                    by_template.setdefault(entry.template.name, []).append(entry)
        return sum(
            (self._in_letters(entries, active=active) for entries in by_template.values()),
            Polynomial({}),
        )

    def _in_letters(self, entries: Sequence[Entry], *, active: bool) -> Polynomial:
        """Return the formula of entries of one template: by the count of its layers, if they are all there."""
        template, letters = entries[0].template, self.letters
        places = sum(len(entry.indices) for entry in entries)
        if not any(entry.part for entry in entries) and places == self._places[template.name]:
            whole = letters.every(template, active=active)
            if whole is not None:
                return whole
        total = Polynomial({})
        for entry in entries:
            if active and template.active:
                total += self.active_of(entry)
                continue
            for number, indices in _spread(entry, self.blueprint):
                dims = [letters.of(self.blueprint.dims[dim], indices) for dim in template.dims]
                total += prod(dims, start=Polynomial({(): number}))
        return total

    @cached_property
    def letters(self) -> Letters:
        """The blueprint's expressions in letters, under this config."""
        return Letters(self.blueprint, self.fields)

    @cached_property
    def _places(self) -> Counter[str]:
        """In how many places each template stands untied."""
        places = Counter[str]()
        for entry in self.entries:
            places[entry.template.name] += 0 if entry.tied else len(entry.indices)
        return places

    def buffers(self) -> list[Row]:
        """Return the tensors that are no parameters, but that some checkpoints store."""
        binding = _Binding(self.blueprint, self.fields)
        buffers = self.blueprint.buffers(self.class_name, stored=self.is_stored)
        entries = [entry for template in buffers for entry in binding.entries(template)]
        return [self._row(entry, place) for entry, place in _in_order(entries)]

    def active_of(self, entry: Entry) -> int:
        """Return the elements of an entry that one token meets."""
        experts = entry.template.active
        if experts is None:
            return entry.parameters
        repeat, places, shape = entry.template.repeat, entry.indices, entry.shape
        if experts.over:
            at = repeat.index(experts.over)
            repeat, places = (*repeat[:at], *repeat[at + 1 :]), places.without(at)
        else:
            shape = shape[1:]
        if _uses(experts.number, repeat):
            bound = ({**self.fields, **dict(zip(repeat, place, strict=True))} for place in places)
            return prod(shape) * sum(_size(experts.number, fields, 0) for fields in bound)
        return prod(shape) * len(places) * _size(experts.number, self.fields, 0)

    def _row(self, entry: Entry, place: Place) -> Row:
        template, count = entry.template, prod(entry.shape)
        shared = 0 if entry.tied or template.dtype else count
        dtype, to = template.dtype or self.dtype, entry.tied_to(place)
        return Row(
            entry.name(place), entry.shape, dtype, template.role, template.dims, count, shared, to
        )

    def _named(self, grouping: str) -> Iterator[tuple[str, Entry]]:
        if grouping == "component":
            yield from ((component_of(entry.template.role), entry) for entry in self.entries)
        elif grouping == "role":
            yield from ((entry.template.role, entry) for entry in self.entries)
        elif grouping == "layer":
            prefix = self.blueprint.prefix(self.class_name)
            yield from ((_layer(entry, prefix), entry) for entry in _by_layer(self.entries))
        else:
            for entry, place in _in_order(self.entries):
                yield entry.name(place), entry._replace(indices=_alone(place), part=True)


def bind(
    blueprint: Blueprint,
    class_name: str,
    fields: Mapping[str, Any],
    dtype: str = "F32",
    *,
    stored: bool = False,
) -> Ledger:
    """Return the ledger of a class, or of what files hold of it, where every field of the blueprint has a value.

    The cost does not depend on the number of layers, unless a tensor's shape or presence depends on
    its layer.

    Raises:
        ModelError: the family has no such class.
        ExpressionError: a field is missing, or an expression has no value.
    """
    binding = _Binding(blueprint, fields)
    templates = blueprint.templates(class_name, stored=stored)
    entries = [entry for template in templates for entry in binding.entries(template)]
    return Ledger(blueprint, class_name, fields, tuple(entries), dtype, is_stored=stored)


def _is_whole(value: Any) -> bool:
    """Whether a value is an integer or an array of integers, of at least one."""
    return type(value) is int or (
        getattr(getattr(value, "dtype", None), "kind", "") in ("i", "u") and value.size > 0
    )


def _is_array(value: Any) -> bool:
    return hasattr(value, "dtype")


def _widened(value: Any) -> Any:
    """Return an array in 64 bits, where its own may be too few for a product."""
    return value.astype("int64") if _is_array(value) else value


class _Binding:
    """A blueprint's expressions at the values of a config, each worked out once for the indices that it uses."""

    def __init__(self, blueprint: Blueprint, fields: Mapping[str, Any]) -> None:
        self.blueprint, self.fields = blueprint, dict(fields)
        self._sizes: dict[str, int] = {}
        self._truths: dict[Tree, bool] = {}
        self._every: dict[tuple[str, ...], Places] = {}
        self._standing: dict[tuple[object, ...], dict[_Form, Places]] = {}
        self._rounds = 0

    def entries(self, template: Template) -> Iterator[Entry]:
        """Yield an entry for each shape that a template has over the places it stands in."""
        if template.active and self.fields.get(source(template.active.number), 0) is None:
            template = template._replace(
                active=None
            )  # a config that does not say how many experts are active
        if not template.varies:
            if not template.when or all(map(self.holds, template.when)):
                places = self._every.get(template.repeat) or self.every(template)
                if places:
                    yield Entry(template, self.shape(template), places, self.is_tied(template))
        else:
            key = (
                template.repeat,
                template.dims,
                template.when,
                template.tie and template.tie.when,
            )
            if key not in self._standing:
                self._rounds = 0
                self._standing[key] = self.standing(template, template.repeat)
            found = self._standing[key]
            _check_places(sum(map(len, found.values())), template)
            yield from (
                Entry(template, shape, places, tied) for (shape, tied), places in found.items()
            )

    def standing(self, template: Template, repeat: tuple[str, ...]) -> dict[_Form, Places]:
        """Return each shape of a template, and whether it is tied, with where it is so over these indices."""
        if not repeat:
            return (
                {(self.shape(template), self.is_tied(template)): ONE}
                if all(map(self.holds, template.when))
                else {}
            )
        index, *inner = repeat
        layers = self.layers(index)
        found: dict[_Form, dict[Places, list[int]]] = {}
        if index not in template.varies:
            stood = self.standing(template, tuple(inner)) if layers else {}
            return {form: Places(((layers, inside),)) for form, inside in stood.items()}
        for value in layers:
            self.fields[index], self._rounds = value, self._rounds + 1
            _check_places(self._rounds, template)
            for form, inside in self.standing(template, tuple(inner)).items():
                found.setdefault(form, {}).setdefault(inside, []).append(value)
        self.fields.pop(index, None)
        return {
            form: Places(
                tuple((_values(layers, values), inside) for inside, values in blocks.items())
            )
            for form, blocks in found.items()
        }

    def every(self, template: Template) -> Places:
        """Return all the places that a template's indices have."""
        if template.repeat not in self._every:
            self._every[template.repeat] = places = every(*map(self.layers, template.repeat))
            _check_places(len(places), template)
        return self._every[template.repeat]

    def layers(self, index: str) -> range:
        return range(_size(self.blueprint.repeat[index], self.fields, 0, MOST_LAYERS))

    def shape(self, template: Template) -> tuple[int, ...]:
        sizes = self._sizes
        return tuple([sizes[dim] if dim in sizes else self.size(dim) for dim in template.dims])

    def size(self, dim: str) -> int:
        tree = self.blueprint.dims[dim]
        size = _size(
            tree, self.fields, 0 if self.blueprint.zero.intersection(measured(tree)) else 1
        )
        if not _uses(tree, self.blueprint.repeat):
            self._sizes[dim] = size
        return size

    def holds(self, condition: Tree) -> bool:
        if condition in self._truths:
            return self._truths[condition]
        truth = bool(evaluate(condition, self.fields))
        if not _uses(condition, self.blueprint.repeat):
            self._truths[condition] = truth
        return truth

    def is_tied(self, template: Template) -> bool:
        tie = template.tie
        return tie is not None and (tie.when is None or self.holds(tie.when))


def _values(layers: range, values: list[int]) -> Sequence[int]:
    return layers if len(values) == len(layers) else tuple(values)


def _check_places(places: int, template: Template) -> None:
    if places > MOST_PLACES:
        raise ExpressionError(f"stands in more than {MOST_PLACES:,} places", where=template.name)


def _size(tree: Tree, fields: Mapping[str, Any], least: int = 1, most: int = LARGEST_SIZE) -> int:
    size = evaluate(tree, fields)
    if type(size) is not int or not least <= size <= most:
        bound = {name: fields[name] for name in names_in(tree)}
        raise ExpressionError(
            f"comes to {size!r}, no integer from {least} to {most}",
            where=source(tree),
            values=bound,
        )
    return size


def _uses(tree: Tree, indices: Iterable[str]) -> bool:
    return not set(names_in(tree)).isdisjoint(indices)


def _total(entry: Entry, blueprint: Blueprint, bound: Mapping[str, Any]) -> Any:
    """Return the elements of an entry where fields have these values, integers or arrays."""
    template, total = entry.template, 0
    if not template.varies and not entry.part:
        counts = [evaluate(blueprint.repeat[index], bound) for index in template.repeat]
        return prod([*counts, *(evaluate(blueprint.dims[dim], bound) for dim in template.dims)])
    for number, indices in _spread(entry, blueprint):
        here = {**bound, **indices}
        total = total + prod(
            [evaluate(blueprint.dims[dim], here) for dim in template.dims], start=number
        )
    return total


def _spread(entry: Entry, blueprint: Blueprint) -> Iterator[tuple[int, dict[str, int]]]:
    """Yield the values of the indices that the dims of an entry use, with the number of places where they are so."""
    template = entry.template
    used = [
        (position, index)
        for position, index in enumerate(template.repeat)
        if index in template.varies
        and any(index in names_in(blueprint.dims[dim]) for dim in template.dims)
    ]
    places: Iterable[Place] = entry.indices if used else ()
    spread = Counter(
        tuple((index, place[position]) for position, index in used) for place in places
    )
    yield from (
        ((number, dict(indices)) for indices, number in spread.items())
        if used
        else ((len(entry.indices), {}),)
    )


def _alone(place: Place) -> Places:
    places = ONE
    for value in reversed(place):
        places = Places.at(value, places)
    return places


def _layer(entry: Entry, prefix: str) -> str:
    """Return the path of the layer that a tensor is in, or of its first module, the base's prefix aside."""
    name = entry.template.name
    if entry.template.repeat:
        return f"{name.partition('{')[0]}{entry.indices.outermost[0]}"
    below = name.removeprefix(prefix)
    return name[: len(name) - len(below)] + below.partition(".")[0]


def _stems(name: str) -> list[str]:
    """Return the pieces of a name down to each of its indices: ``["stages.", ".blocks."]``."""
    return [piece.rpartition("}")[2] for piece in name.split("{")[:-1]]


class _Left(NamedTuple):
    """What is left of an entry inside a layer: the pieces of its name from there on, and its places there."""

    entry: Entry
    stems: Sequence[str]
    places: Places


def _runs(left: Sequence[_Left]) -> Iterator[tuple[list[_Left], bool]]:
    """Cut what follows on each other into runs of layers under one path, and what has no further index."""
    start = 0
    while start < len(left):
        end = start + 1
        while (
            end < len(left) and left[start].stems and left[end].stems[:1] == left[start].stems[:1]
        ):
            end += 1
        yield list(left[start:end]), bool(left[start].stems)
        start = end


def _layers(run: Iterable[_Left]) -> Iterator[tuple[int, list[_Left]]]:
    """Yield each layer of a run with what is in it."""
    layers: dict[int, list[_Left]] = {}
    for entry, stems, places in run:
        for values, inside in places.blocks:
            left = _Left(entry, stems[1:], inside)
            for value in values:
                layers.setdefault(value, []).append(left)
    for value in sorted(layers):
        yield value, layers[value]


def _begun(entries: Iterable[Entry]) -> list[_Left]:
    return [_Left(entry, _stems(entry.template.name), entry.indices) for entry in entries]


def _by_layer(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Yield entries cut into outermost layers, all of layer 0, then all of layer 1, and so on."""
    for run, repeats in _runs(_begun(entries)):
        if repeats:
            for value, inside in _layers(run):
                yield from (
                    left.entry._replace(indices=Places.at(value, left.places), part=True)
                    for left in inside
                )
        else:
            yield run[0].entry


def _in_order(entries: Iterable[Entry]) -> Iterator[tuple[Entry, Place]]:
    """Yield entries with their places in checkpoint order: all of layer 0, then all of layer 1, and so on inside."""
    return _ordered(_begun(entries), ())


def _ordered(left: Sequence[_Left], above: Place) -> Iterator[tuple[Entry, Place]]:
    for run, repeats in _runs(left):
        if repeats:
            for value, inside in _layers(run):
                yield from _ordered(inside, (*above, value))
        else:
            yield run[0].entry, above
