"""A blueprint's tensors under the values of a config: the integer meaning of `blueprint.bind`."""

from __future__ import annotations

from weighbridge.algebra.expr import evaluate, source
from weighbridge.blueprint.bind import bound_size, fold_indices
from weighbridge.blueprint.schema import MOST_LAYERS, MOST_PLACES, Template
from weighbridge.errors import ExpressionError
from weighbridge.lean_typing import TYPE_CHECKING, NamedTuple
from weighbridge.ledger.places import ONE, Places, every
from weighbridge.ledger.rows import Entry

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from typing import Any

    from weighbridge.algebra.expr import Tree
    from weighbridge.blueprint.schema import Blueprint

    # a shape, whether it is tied, and the first index of the tensor that it is tied to
    Form = tuple[tuple[int, ...], bool, int | None]
    PlacesByForm = dict[Form, Places]


class Binder:
    """A blueprint's expressions under a config, each evaluated once per value of its indices.

    Example:
        >>> from weighbridge.blueprint.schema import load
        >>> bert = load("bert")
        >>> (words, *_) = Binder(bert, bert.defaults).entries(bert.templates("BertModel")[0])
        >>> words.shape, words.tied, len(words.indices)
        ((30522, 768), False, 1)
    """

    def __init__(self, blueprint: Blueprint, fields: Mapping[str, Any]) -> None:
        self.blueprint, self.values = blueprint, dict(fields)
        self._sizes: dict[str, int] = {}
        self._truths: dict[tuple[object, ...], bool] = {}
        """Whether conditions hold, by their identities, which the blueprint keeps alive."""
        self._standing: dict[tuple[object, ...], PlacesByForm] = {}
        self._combinations: dict[tuple[str, ...], Places] = {}
        self._targets: dict[tuple[Tree, int], int] = {}

    def entries(self, template: Template) -> Iterator[Entry]:
        """Yield an entry for each shape that a template takes across its places.

        Raises:
            ExpressionError: an expression has no value, or there are too many places.
        """
        if template.active and self.values.get(source(template.active.number), 0) is None:
            # The config does not say how many experts are active, so all of them count.
            template = template._replace(active=None)
        if template.varies:
            for (shape, tied, at), places in self._places_by_form(template).items():
                yield Entry(_tied_at(template, at), shape, places, tied)
        elif all(map(self.holds, template.when)):
            # The conditions come first: they may rule out a count without a value (no experts).
            places = self._everywhere(template)
            if places:
                yield Entry(template, self.shape(template), places, self.is_tied(template))

    def _places_by_form(self, template: Template) -> PlacesByForm:
        tie = template.tie and template.tie[1:]
        key = (template.repeat, template.dims, tuple(map(id, template.when)), tie)
        if key not in self._standing:
            meaning = _Standing(self, template)
            self._standing[key] = fold_indices(template.repeat, template.varies, meaning)
        places_by_form = self._standing[key]
        limit_places(sum(map(len, places_by_form.values())), template)
        return places_by_form

    def _everywhere(self, template: Template) -> Places:
        """Return all combinations of a template's indices; no index may depend on another."""
        if template.repeat not in self._combinations:
            places = every(*map(self.layers, template.repeat))
            limit_places(len(places), template)
            self._combinations[template.repeat] = places
        return self._combinations[template.repeat]

    def layers(self, index: str) -> range:
        """Return the values of an index; the indices outside it must be bound."""
        return range(bound_size(self.blueprint.repeat[index], self.values, 0, MOST_LAYERS))

    def shape(self, template: Template) -> tuple[int, ...]:
        """Return the sizes of a tensor; its indices must be bound."""
        sizes = self._sizes
        return tuple([sizes[dim] if dim in sizes else self._size(dim) for dim in template.dims])

    def _size(self, dim: str) -> int:
        tree = self.blueprint.dims[dim]
        size = bound_size(tree, self.values, least=0 if dim in self.blueprint.zero_dims else 1)
        if not self.blueprint.indices_of(tree):
            self._sizes[dim] = size
        return size

    def holds(self, condition: Tree) -> bool:
        """Whether a condition is true; its indices must be bound."""
        indices = self.blueprint.indices_of(condition)
        key = (id(condition), *map(self.values.get, indices))
        truth = self._truths.get(key)
        if truth is None:
            truth = self._truths[key] = bool(evaluate(condition, self.values))
        return truth

    def is_tied(self, template: Template) -> bool:
        """Whether a tensor is tied to another one; its indices must be bound."""
        tie = template.tie
        return tie is not None and (tie.when is None or self.holds(tie.when))

    def target_index(self, template: Template) -> int | None:
        """Return the first index in the name of the tensor that a tied tensor shares.

        None if it is that of the tensor itself; the indices must be bound.
        """
        if template.tie is None or template.tie.at is None:
            return None
        outermost = template.repeat[0]
        key = (template.tie.at, self.values[outermost])
        if key not in self._targets:
            self._targets[key] = bound_size(template.tie.at, self.values, 0, MOST_LAYERS)
        return self._targets[key]


def _tied_at(template: Template, index: int | None) -> Template:
    """Return a template whose tie names a tensor with this first index."""
    if template.tie is None or index is None:
        return template
    to = template.tie.to.replace(f"{{{template.repeat[0]}}}", str(index))
    return template._replace(tie=template.tie._replace(to=to))


class _Standing:
    """The meaning of indices in a ledger: the places of a tensor, as ranges, for each form."""

    def __init__(self, binder: Binder, template: Template) -> None:
        self.binder, self.template = binder, template
        self.visits = 0
        """The number of values that varying indices have been bound to so far."""

    def here(self) -> PlacesByForm:
        binder, template = self.binder, self.template
        if not all(map(binder.holds, template.when)):
            return {}
        is_tied = binder.is_tied(template)
        index = binder.target_index(template) if is_tied else None
        return {(binder.shape(template), is_tied, index): ONE}

    def alike(self, index: str, inside: Callable[[], PlacesByForm]) -> PlacesByForm:
        layers = self.binder.layers(index)
        if not layers:
            return {}
        return {form: Places(((layers, places),)) for form, places in inside().items()}

    def each(self, index: str, inside: Callable[[], PlacesByForm]) -> PlacesByForm:
        layers = self.binder.layers(index)
        values_by_places: dict[Form, dict[Places, list[int]]] = {}
        for value in layers:
            self.visits += 1
            limit_places(self.visits, self.template)
            self.binder.values[index] = value
            for form, places in inside().items():
                values_by_places.setdefault(form, {}).setdefault(places, []).append(value)
        self.binder.values.pop(index, None)
        return {form: _blocks(layers, values) for form, values in values_by_places.items()}


def _blocks(layers: range, values_by_places: Mapping[Places, list[int]]) -> Places:
    """Return places grouped by equal values inside an index; one range if all values agree."""
    blocks = []
    for places, values in values_by_places.items():
        is_whole = len(values) == len(layers)
        blocks.append((layers if is_whole else tuple(values), places))
    return Places(tuple(blocks))


def limit_places(places: int, template: Template) -> None:
    """Refuse a tensor with more places than a ledger can iterate over.

    Raises:
        ExpressionError: there are more than `MOST_PLACES`.
    """
    if places > MOST_PLACES:
        raise ExpressionError(f"has more than {MOST_PLACES:,} places", where=template.name)


class Product(NamedTuple):
    """The number of elements of a tensor in all its places, as a product of expressions.

    ``loops`` maps each index that a factor or condition depends on to its number of repetitions.
    """

    loops: dict[str, Tree]
    factors: list[Tree]


def product_of(repeat: Mapping[str, Tree], dims: list[Tree], varies: Collection[str]) -> Product:
    """Return the product of a tensor, given the repetitions of its indices, outermost first.

    Example:
        >>> repeat = {"i": ("name", "layers"), "e": ("name", "experts")}
        >>> product_of(repeat, [("name", "width")], varies={"i"})
        Product(loops={'i': ('name', 'layers')}, factors=[('name', 'experts'), ('name', 'width')])
    """
    return fold_indices(list(repeat), varies, _AsProduct(repeat, dims))


class _AsProduct:
    """The meaning of indices in expressions: a factor, or a loop if something depends on them."""

    def __init__(self, repeat: Mapping[str, Tree], dims: list[Tree]) -> None:
        self.repeat, self.dims = repeat, dims

    def here(self) -> Product:
        return Product({}, self.dims)

    def alike(self, index: str, inside: Callable[[], Product]) -> Product:
        loops, factors = inside()
        return Product(loops, [self.repeat[index], *factors])

    def each(self, index: str, inside: Callable[[], Product]) -> Product:
        loops, factors = inside()
        return Product({index: self.repeat[index], **loops}, factors)
