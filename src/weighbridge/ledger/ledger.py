"""The waist: every model becomes rows of one kind, and every answer is a fold over rows."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from itertools import chain
from math import prod

from weighbridge.algebra.expr import evaluate, names_in, parse
from weighbridge.algebra.polynomial import Polynomial
from weighbridge.blueprint.bind import bound_size, indices_used
from weighbridge.blueprint.guards import check_guards
from weighbridge.blueprint.roles import component_of
from weighbridge.errors import UsageError, either, nearest
from weighbridge.lean_typing import TYPE_CHECKING
from weighbridge.ledger.bind import Binder, product_of
from weighbridge.ledger.letters import Letters
from weighbridge.ledger.places import Places
from weighbridge.ledger.rows import Entry, Row, RowGroup, by_layer, in_checkpoint_order, layer_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from weighbridge.algebra.expr import Tree
    from weighbridge.blueprint.schema import Blueprint, Template
    from weighbridge.ledger.places import Place

LARGEST_TOTAL = 2**63 - 1  # the largest value in a 64-bit array
GROUPINGS = ("component", "role", "layer", "tensor")


class Ledger:
    """The tensors of a model class under one config.

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
        """Whether it lists the tensors of files, which differ from those of the class."""

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
        """The unique parameters that one token uses; only the active experts count."""
        return sum(self.active_of(entry) for entry in self.entries if not entry.tied)

    @property
    def has_experts(self) -> bool:
        """Whether a token uses only a part of some tensors."""
        return any(entry.template.active for entry in self.entries)

    def routed_fields(self) -> dict[str, Any]:
        """Return the fields that say how many experts a token is routed to, with their values."""
        numbers = [entry.template.active.number for entry in self.entries if entry.template.active]
        names = dict.fromkeys(name for number in numbers for name in names_in(number))
        return {name: self.fields[name] for name in names if name in self.fields}

    def contains(self, base: Ledger) -> bool:
        """Whether each tensor of the base class is one of this class, of one shape and tie.

        Then the base class's parameters are a part of this class's.

        Example:
            >>> from weighbridge.blueprint.schema import load
            >>> bert = load("bert")
            >>> fields = {**bert.defaults, "num_labels": 2}
            >>> base = bind(bert, "BertModel", fields)
            >>> bind(bert, "BertForSequenceClassification", fields).contains(base)
            True
            >>> bind(bert, "BertForMaskedLM", fields).contains(base)  # it has no pooler
            False
        """
        prefix = self.blueprint.prefix(self.class_name)
        tensors = {
            (entry.template.name, entry.shape, entry.indices, entry.tied) for entry in self.entries
        }
        of_base = {
            (prefix + entry.template.name, entry.shape, entry.indices, entry.tied)
            for entry in base.entries
        }
        return of_base <= tensors

    @property
    def tied(self) -> int:
        """The number of elements that are shared with another tensor, and counted there."""
        return RowGroup("", self.entries).tied

    @property
    def rows(self) -> list[Row]:
        """Every tensor in checkpoint order, layer by layer."""
        return [self._row(entry, place) for entry, place in in_checkpoint_order(self.entries)]

    @property
    def tensors(self) -> int:
        """The number of tensors, including tied ones."""
        return sum(len(entry.indices) for entry in self.entries)

    @cached_property
    def stored(self) -> Ledger:
        """The same parameters as they are stored in files: for example one tensor per expert."""
        if self.is_stored or not self.blueprint.is_stored_otherwise(self.class_name):
            return self
        return bind(self.blueprint, self.class_name, self.fields, self.dtype, stored=True)

    @property
    def stored_rows(self) -> list[Row]:
        """Every tensor as it is stored in files: what ``save_pretrained`` writes."""
        return self.stored.rows

    def by(self, grouping: str) -> list[RowGroup]:
        """Return the entries in groups, in the order of their first tensor.

        Args:
            grouping: ``"component"``, ``"role"``, ``"layer"`` or ``"tensor"``.

        Raises:
            UsageError: there is no such grouping.

        Example:
            >>> from weighbridge.blueprint.schema import load
            >>> bert = load("bert")
            >>> components = bind(bert, "BertModel", dict(bert.defaults)).by("component")
            >>> {component.name: component.parameters for component in components}["pooler"]
            590592
        """
        if grouping not in GROUPINGS:
            raise UsageError(
                "there is no such grouping",
                values={"by": grouping},
                hint=f"group by {', '.join(GROUPINGS[:-1])} or tensor",
            )
        entries_by_name: dict[str, list[Entry]] = {}
        for name, entry in self._named(grouping):
            entries_by_name.setdefault(name, []).append(entry)
        return [RowGroup(name, tuple(entries)) for name, entries in entries_by_name.items()]

    def formula(self, **fields: Any) -> Any:
        """Return the total as a formula, or its value for other values of some fields.

        Without fields, every size is a letter and the result is a `Polynomial`. With fields, the
        other fields keep the config's values, and the result is an integer, or an array with one
        total per element. Both evaluate the same expressions; conditions and lists keep the
        config's values.

        Raises:
            UsageError: a field is not a size, or decides which tensors exist; arrays have
                shapes that do not fit together; or the family's requirements do not hold.

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
            return self.formula_of([RowGroup("", self.entries)])
        self._check_sizes(fields)
        fields = {name: _widened(value) for name, value in fields.items()}
        try:
            self._check_rules(fields)
            return self._total_at(fields)
        except ValueError as error:  # NumPy's, for arrays that it cannot combine
            raise arrays_misfit(fields) from error

    def active_formula(self) -> Polynomial:
        """Return `active` as a formula.

        Example:
            >>> from weighbridge.blueprint.schema import load
            >>> bert = load("bert")
            >>> ledger = bind(bert, "BertModel", {**bert.defaults, "num_labels": 2})
            >>> ledger.active_formula() == ledger.formula()
            True
        """
        return self.formula_of([RowGroup("", self.entries)], active=True)

    def _check_sizes(self, fields: Mapping[str, Any]) -> None:
        """Refuse fields that do more than change the sizes of the same tensors."""
        blueprint = self.blueprint
        varies = any(entry.template.varies for entry in self.entries)
        sizes = blueprint.sizes - blueprint.deciding
        if varies:
            sizes -= blueprint.repeats
        for name in fields:
            if name not in blueprint.fields:
                near = nearest(sizes, name) or sorted(sizes)
                raise UsageError(
                    f"{blueprint.family} has no field {name}",
                    hint=f"did you mean {either(near)}?",
                )
            if name not in sizes:
                hint = "weigh the config with that value"
                raise UsageError(
                    f"{name} decides more than sizes, so a formula cannot give it another value",
                    hint=hint,
                )
        for name, tree in blueprint.computed.items():
            if name not in fields and not fields.keys().isdisjoint(names_in(tree)):
                raise UsageError(
                    f"{name} is computed from a field that has another value",
                    hint=f"give {name} too",
                )
        if not all(map(_is_whole, fields.values())):
            raise UsageError(
                "a formula takes integers, or arrays of them",
                values=fields,
                hint="round them first",
            )

    def _check_rules(self, fields: Mapping[str, Any]) -> None:
        """Refuse values that the family does not allow, and totals that do not fit in an array."""
        bound = {**self.fields, **fields}
        least = {name: f"{name} >= {0 if name in self.blueprint.zero else 1}" for name in fields}
        rules = {rule: parse(rule) for rule in least.values()} | self.blueprint.require
        instead = self.blueprint.instead
        check_guards(self.blueprint.guards, bound, self.blueprint.family, hint=instead)
        guards = self.blueprint.class_guards(self.class_name)
        check_guards(guards, bound, self.class_name, hint=instead)
        for rule, tree in rules.items():
            holds = evaluate(tree, bound)
            if not (holds.all() if hasattr(holds, "all") else holds):
                values = {name: bound[name] for name in names_in(tree)}
                hint = "change the values so that this holds"
                raise UsageError(
                    f"a model of type {self.blueprint.family} needs {rule}",
                    values=values,
                    hint=hint,
                )
        most = {
            name: int(value.max()) if _is_array(value) else value for name, value in fields.items()
        }
        if any(map(_is_array, fields.values())) and self._total_at(most) > LARGEST_TOTAL:
            raise UsageError(
                "the total does not fit into 64 bits", values=most, hint="use smaller sizes"
            )

    def _total_at(self, fields: Mapping[str, Any]) -> Any:
        """Return the total for other integers, or arrays, in some fields."""
        values = {**self.fields, **fields}
        return sum(self._elements_at(values, entry) for entry in self.entries if not entry.tied)

    def _elements_at(self, values: Mapping[str, Any], entry: Entry) -> Any:
        template, dims = entry.template, self._dims(entry.template)
        repeat = {index: self.blueprint.repeat[index] for index in template.repeat}
        if not template.varies:
            factors = product_of(repeat, dims, template.varies).factors
            return prod([evaluate(factor, values) for factor in factors])
        elements = 0
        for number, indices in _spread(entry.indices, template.repeat, dims):
            sizes = [evaluate(dim, {**values, **indices}) for dim in dims]
            elements = elements + prod(sizes, start=number)
        return elements

    def _dims(self, template: Template) -> list[Tree]:
        return [self.blueprint.dims[dim] for dim in template.dims]

    def formula_of(self, groups: Iterable[RowGroup], *, active: bool = False) -> Polynomial:
        """Return the formula in letters for some groups together, or for their active part."""
        by_template: dict[object, list[Entry]] = {}
        for group in groups:
            for entry in group.entries:
                if not entry.tied:
                    by_template.setdefault(_identity(entry.template), []).append(entry)
        formula = Polynomial({})
        for entries in by_template.values():
            formula += self._in_letters(entries, active=active)
        return formula

    def _in_letters(self, entries: Sequence[Entry], *, active: bool) -> Polynomial:
        """Return the formula of a template's entries; over a count of layers if none is missing."""
        template = entries[0].template
        places = sum(len(entry.indices) for entry in entries)
        is_whole = not any(entry.part for entry in entries)
        if is_whole and places == self.untied_places(template):
            formula = self.letters.every(template, active=active)
            if formula is not None:
                return formula
        total, dims = Polynomial({}), self._dims(template)
        self.letters.freeze(template, active=active and template.active is not None)
        for entry in entries:
            if active and template.active:
                total += self.active_of(entry)
                continue
            for number, indices in _spread(entry.indices, template.repeat, dims):
                sizes = [self.letters.of(dim, indices) for dim in dims]
                total += prod(sizes, start=Polynomial({(): number}))
        return total

    @cached_property
    def letters(self) -> Letters:
        """The blueprint's expressions in letters, under this config."""
        return Letters(self.blueprint, self.fields)

    @cached_property
    def _untied_places(self) -> Counter[object]:
        """The number of places in which each template exists and is not tied."""
        places = Counter[object]()
        for entry in self.entries:
            if not entry.tied:
                places[_identity(entry.template)] += len(entry.indices)
        return places

    def untied_places(self, template: Template) -> int:
        """Return the number of places in which a template exists and is not tied."""
        return self._untied_places[_identity(template)]

    def buffers(self) -> list[Row]:
        """Return the tensors that are not parameters but are stored in some checkpoints."""
        binder = Binder(self.blueprint, self.fields)
        buffers = self.blueprint.buffers(self.class_name, stored=self.is_stored)
        entries = list(chain.from_iterable(map(binder.entries, buffers)))
        return [self._row(entry, place) for entry, place in in_checkpoint_order(entries)]

    def active_of(self, entry: Entry) -> int:
        """Return the number of elements of an entry that one token uses."""
        experts = entry.template.active
        if experts is None:
            return entry.parameters
        repeat, places, shape = list(entry.template.repeat), entry.indices, entry.shape
        if experts.over:
            position = repeat.index(experts.over)
            del repeat[position]
            places = places.without(position)
        else:
            shape = shape[1:]
        active = 0
        for number, indices in _spread(places, repeat, [experts.number]):
            active += number * bound_size(experts.number, {**self.fields, **indices}, least=0)
        return prod(shape) * active

    def _row(self, entry: Entry, place: Place) -> Row:
        template, count = entry.template, prod(entry.shape)
        shared = 0 if entry.tied or template.dtype else count
        dtype, to = template.dtype or self.dtype, entry.tied_to(place)
        return Row(
            entry.name(place), entry.shape, dtype, template.role, template.dims, count, shared, to
        )

    def _named(self, grouping: str) -> Iterator[tuple[str, Entry]]:
        """Yield entries with the names of their groups; an entry in several groups is split."""
        if grouping == "component":
            yield from ((component_of(entry.template.role), entry) for entry in self.entries)
        elif grouping == "role":
            yield from ((entry.template.role, entry) for entry in self.entries)
        elif grouping == "layer":
            prefix = self.blueprint.prefix(self.class_name)
            yield from ((layer_path(entry, prefix), entry) for entry in by_layer(self.entries))
        else:
            for entry, place in in_checkpoint_order(self.entries):
                yield entry.name(place), entry._replace(indices=Places.of(place), part=True)


def bind(
    blueprint: Blueprint,
    class_name: str,
    fields: Mapping[str, Any],
    dtype: str = "F32",
    *,
    stored: bool = False,
) -> Ledger:
    """Return the ledger of a class, or of its files, given a value for every field.

    The cost does not depend on the number of layers, unless the shape or presence of a tensor
    depends on its layer.

    Raises:
        ModelError: the family has no such class.
        ConfigError: a guard of the class does not hold.
        ExpressionError: a field is missing, or an expression has no value.
    """
    binder = Binder(blueprint, fields)
    templates = blueprint.templates(class_name, stored=stored)
    guards = blueprint.class_guards(class_name)
    if guards:
        check_guards(guards, fields, class_name, hint=blueprint.instead)
    entries = tuple(chain.from_iterable(map(binder.entries, templates)))
    return Ledger(blueprint, class_name, fields, entries, dtype, is_stored=stored)


def _identity(template: Template) -> object:
    """Return what tells a template from the others of its class, bound or not.

    Binding changes the target of its tie, and whether its experts are active in part. Templates of
    one name exist under different conditions, or have different dims.
    """
    return template.name, template.dims, template.when


def _is_whole(value: Any) -> bool:
    """Whether a value is an integer, or an array of integers that is not empty."""
    return type(value) is int or (
        getattr(getattr(value, "dtype", None), "kind", "") in ("i", "u") and value.size > 0
    )


def _is_array(value: Any) -> bool:
    return hasattr(value, "dtype")


def arrays_misfit(values: Mapping[str, Any]) -> UsageError:
    """Return the error of arrays that NumPy cannot combine, with their shapes."""
    return UsageError(
        "the arrays have shapes that do not fit together",
        values={
            name: "×".join(map(str, value.shape))
            for name, value in values.items()
            if _is_array(value)
        },
        hint="give arrays whose shapes NumPy can broadcast together",
    )


def _widened(value: Any) -> Any:
    """Return an array with 64 bits per element, since products may need more than its own."""
    return value.astype("int64") if _is_array(value) else value


def _spread(
    places: Places, repeat: Sequence[str], trees: Sequence[Tree]
) -> Iterator[tuple[int, dict[str, int]]]:
    """Yield the values of the indices that expressions use, and the number of places with them."""
    depended_on = indices_used(repeat, trees)
    used = [position for position, index in enumerate(repeat) if index in depended_on]
    if not used:
        yield len(places), {}
        return
    spread = Counter(tuple(place[position] for position in used) for place in places)
    names = [repeat[position] for position in used]
    for values, number in spread.items():
        yield number, dict(zip(names, values, strict=True))
