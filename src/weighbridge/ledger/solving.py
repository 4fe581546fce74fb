"""All sizes of a class whose parameters are within bounds, found by solving for one size.

The parameters of a class are a sum of products (`ledger.whole`). For one layout of widths and
heads, only two sizes are left: the number of layers, and the size that is solved for. The sum is
linear in the latter, so that the bounds on the total are bounds on it: it is not searched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge.algebra.expr import evaluate, names_in
from weighbridge.errors import ExpressionError, ModelError
from weighbridge.ledger.whole import Following, Summand, terms_by_component

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from weighbridge.algebra.expr import Tree
    from weighbridge.ledger.ledger import Ledger


class Solved(NamedTuple):
    """The values of the free size within the bounds, for one layout and number of layers.

    The total is ``rest + slope * size`` for each size of ``sizes``.
    """

    layout: Mapping[str, int]
    layers: int
    rest: int
    slope: int
    sizes: range


class _Product(NamedTuple):
    """A summand, taken apart: powers of the layers and of the free size, and other factors.

    ``fixed`` depend on the layout only, ``layered`` on the layers too.
    """

    coefficient: int
    layer_power: int
    free_power: int
    fixed: tuple[tuple[Tree, int], ...]
    layered: tuple[tuple[Tree, int], ...]
    conditions: tuple[Tree, ...]


class _Rules(NamedTuple):
    """A family's rules: about the layout alone, with the layers, and with the free size."""

    of_layout: list[Tree]
    of_layers: list[Tree]
    of_free: list[Tree]


class Solver:
    """Solves the total of a class for one size.

    ``computed`` are the expressions of fields that follow from others, unless the layout has them.

    Example:
        >>> from weighbridge.answers.weigh import weigh
        >>> ledger = weigh("bert-base-uncased").ledger
        >>> solver = Solver(ledger, {}, "num_hidden_layers", "intermediate_size", ["hidden_size"])
        >>> [found] = solver.solve([{"hidden_size": 768}], [12], 109_000_000, 110_000_000, 1024)
        >>> found.sizes, found.rest + found.slope * 3072
        (range(3072, 3101, 1024), 109482240)
    """

    def __init__(
        self,
        ledger: Ledger,
        computed: Mapping[str, Tree],
        layers: str,
        free: str,
        layout: Sequence[str],
    ) -> None:
        self.ledger, self.layers, self.free = ledger, layers, free
        axes = {*layout, layers, free}
        self.computed = {name: tree for name, tree in computed.items() if name not in axes}
        self.following = Following(ledger.blueprint, ledger.fields)
        self._values: dict[tuple[Any, ...], Any] = {}
        self._sources: dict[Tree, tuple[str, ...]] = {}
        terms = terms_by_component(ledger.blueprint, ledger.class_name, ledger.fields)
        self.products = [self._apart(term) for of_one in terms.values() for term in of_one]
        self.rules = self._rules_by_what_they_need()

    def sources(self, tree: Tree) -> tuple[str, ...]:
        """Return the fields that an expression depends on, through those that follow."""
        if tree not in self._sources:
            found, ahead = set[str](), [*names_in(tree)]
            while ahead:
                name = ahead.pop()
                if name in self.computed:
                    ahead += names_in(self.computed[name])
                elif name in self.following.trees:
                    ahead += names_in(self.following.trees[name])
                else:
                    found.add(name)
            self._sources[tree] = tuple(sorted(found & self.ledger.fields.keys()))
        return self._sources[tree]

    def _apart(self, term: Summand) -> _Product:
        powers = {self.layers: 0, self.free: 0}
        fixed: list[tuple[Tree, int]] = []
        layered: list[tuple[Tree, int]] = []
        for tree, power in term.factors:
            if tree[0] == "name" and tree[1] in powers:
                powers[tree[1]] += power
                continue
            sources = self.sources(tree)
            if self.free in sources:
                raise self._not_linear()
            (layered if self.layers in sources else fixed).append((tree, power))
        if powers[self.free] not in (0, 1) or powers[self.layers] < 0:
            raise self._not_linear()
        if any(self.free in self.sources(tree) for tree in term.conditions):
            raise self._not_linear()
        return _Product(
            term.coefficient,
            powers[self.layers],
            powers[self.free],
            tuple(fixed),
            tuple(layered),
            term.conditions,
        )

    def _not_linear(self) -> ModelError:
        return ModelError(
            f"the parameters of {self.ledger.class_name} are not linear in {self.free}",
            hint="solve for another size with --solve-for",
        )

    def _rules_by_what_they_need(self) -> _Rules:
        """Return the family's rules: about the layout, with layers, and with the free size."""
        of_layout: list[Tree] = []
        of_layers: list[Tree] = []
        of_free: list[Tree] = []
        for tree in self.ledger.blueprint.require.values():
            sources = self.sources(tree)
            if self.free in sources:
                of_free.append(tree)
            elif self.layers in sources:
                of_layers.append(tree)
            else:
                of_layout.append(tree)
        return _Rules(of_layout, of_layers, of_free)

    def _of(self, tree: Tree, fields: Mapping[str, Any]) -> Any:
        """Return the value of an expression; it is kept by what it depends on."""
        if tree[0] == "name" and tree[1] in fields and tree[1] not in self.computed:
            return fields[tree[1]]
        key = (tree, *(fields[name] for name in self.sources(tree)))
        if key not in self._values:
            self._values[key] = evaluate(tree, self._with_computed(tree, fields))
        return self._values[key]

    def _with_computed(self, tree: Tree, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        needed = set[str]()
        ahead = [*names_in(tree)]
        while ahead:
            name = ahead.pop()
            follows = self.computed.get(name) or self.following.trees.get(name)
            if follows is not None and name not in needed:
                needed.add(name)
                ahead += names_in(follows)
        if not needed:
            return fields
        values = dict(fields)
        for name in self.ledger.blueprint.computed:
            if name in needed:
                follows = self.computed.get(name) or self.following.trees[name]
                value = evaluate(follows, values)
                values[name] = tuple(value) if isinstance(value, list) else value
        return values

    def _holds(self, rules: Iterable[Tree], fields: Mapping[str, Any]) -> bool:
        try:
            return all(self._of(rule, fields) is True for rule in rules)
        except ExpressionError:
            return False

    def solve(
        self,
        layouts: Iterable[Mapping[str, int]],
        layers: Sequence[int],
        least: int,
        most: int,
        multiple_of: int,
    ) -> Iterator[Solved]:
        """Yield the sizes of each layout and number of layers, where there are any.

        A total is from ``least`` to ``most``, and a size a multiple of ``multiple_of``.
        """
        for layout in layouts:
            fields = {**self.ledger.fields, **layout}
            if not self._holds(self.rules.of_layout, fields):
                continue
            for solved in self._of_layout(fields, layers, (least, most), multiple_of):
                found = solved._replace(layout=layout)
                if self.rules.of_free:
                    yield from self._allowed(found, fields)
                else:
                    yield found

    def _of_layout(
        self,
        fields: dict[str, Any],
        layers: Sequence[int],
        bounds: tuple[int, int],
        multiple_of: int,
    ) -> Iterator[Solved]:
        table, layered = self._reduced(fields)
        is_plain = not layered and not self.rules.of_layers
        for number in layers:
            rest, slope = _at(table, number)
            if not is_plain:
                fields[self.layers] = number
                if not self._holds(self.rules.of_layers, fields):
                    continue
                more_rest, more_slope = self._layered(layered, fields, number)
                rest, slope = rest + more_rest, slope + more_slope
            sizes = _sizes_within(rest, slope, bounds, multiple_of)
            if sizes:
                yield Solved({}, number, rest, slope, sizes)

    def _allowed(self, found: Solved, fields: dict[str, Any]) -> Iterator[Solved]:
        """Yield the sizes one by one that the family's rules on them allow."""
        for size in found.sizes:
            values = {**fields, self.layers: found.layers, self.free: size}
            if self._holds(self.rules.of_free, values):
                yield found._replace(sizes=range(size, size + 1))

    def _reduced(
        self, fields: Mapping[str, Any]
    ) -> tuple[dict[tuple[int, int], int], list[tuple[int, _Product]]]:
        """Return the coefficients by the powers of layers and free size, and the other products."""
        table: dict[tuple[int, int], int] = {}
        layered = []
        for product in self.products:
            needs_layers = product.layered or any(
                self.layers in self.sources(tree) for tree in product.conditions
            )
            if not needs_layers and not all(self._of(c, fields) for c in product.conditions):
                continue
            value = self._multiplied(product.coefficient, product.fixed, fields)
            if needs_layers:
                layered.append((value, product))
                continue
            powers = (product.layer_power, product.free_power)
            table[powers] = table.get(powers, 0) + value
        return table, layered

    def _multiplied(
        self, value: int, factors: Iterable[tuple[Tree, int]], fields: Mapping[str, Any]
    ) -> int:
        below = 1
        for tree, power in factors:
            factor = self._of(tree, fields)
            if power > 0:
                value *= factor**power
            else:
                below *= factor**-power
        return value // below

    def _layered(
        self, products: Iterable[tuple[int, _Product]], fields: Mapping[str, Any], number: int
    ) -> tuple[int, int]:
        """Return what products add that depend on the layers in another way than by a power."""
        added = [0, 0]
        for value, product in products:
            if all(self._of(condition, fields) for condition in product.conditions):
                whole = self._multiplied(value, product.layered, fields)
                added[product.free_power] += whole * number**product.layer_power
        return added[0], added[1]


def _at(table: Mapping[tuple[int, int], int], layers: int) -> tuple[int, int]:
    """Return the rest and the slope of a total for a number of layers."""
    sums = [0, 0]
    for (layer_power, free_power), value in table.items():
        sums[free_power] += value * layers**layer_power
    return sums[0], sums[1]


def _sizes_within(rest: int, slope: int, bounds: tuple[int, int], multiple_of: int) -> range:
    """Return the multiples with which the total is within bounds; none if none changes it."""
    least, most = bounds
    if slope <= 0 or rest + slope * multiple_of > most:
        return range(0)
    first = max(multiple_of, -((rest - least) // slope))
    first = -(-first // multiple_of) * multiple_of
    last = (most - rest) // slope
    return range(first, last + 1, multiple_of)
