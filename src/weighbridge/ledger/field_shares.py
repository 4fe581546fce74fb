"""What each field that differs between two configs of a class is worth, exactly.

The parameters of each component are a sum of products over the class's tensors (`ledger.whole`).
Each product is a game of the few fields in it that differ, and `algebra.shares` shares it. No mixed
config is built, so that none has to be one that the family allows: heads need not divide a size
that belongs to the other config. Numbers count as they are resolved; lists that follow from other
fields follow again. Where a mixed expression has no value, such as a list that is too short for the
layers of the other config, its fields change together, as one player.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property

from weighbridge.algebra.expr import evaluate, is_number
from weighbridge.algebra.shares import NOTHING, Share, rounded, shapley
from weighbridge.errors import ExpressionError
from weighbridge.lean_typing import TYPE_CHECKING, NamedTuple
from weighbridge.ledger.whole import Following, Summand, terms_by_component

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from weighbridge.algebra.expr import Tree
    from weighbridge.blueprint.schema import Blueprint

    Player = tuple[str, ...]
    Cell = tuple[str, Player]

_MOST_PLAYERS = 14  # in one product: twice as many cost four times the memory


class Ends(NamedTuple):
    """Two configs of one class: its blueprint, and the resolved fields of both."""

    blueprint: Blueprint
    class_name: str
    before: Mapping[str, Any]
    after: Mapping[str, Any]

    @property
    def differing(self) -> list[str]:
        """The fields of the blueprint that have other values, in its order."""
        return [
            name for name in self.before if not _is_same(self.before[name], self.after.get(name))
        ]


def _is_same(left: object, right: object) -> bool:
    """Whether values are equal, and true is not 1."""
    return type(left) is type(right) and left == right


class FieldShares:
    """The share of each player in each component's difference.

    A player is a tuple of fields, nearly always of one.

    Example:
        >>> from weighbridge.answers.weigh import weigh
        >>> small, large = weigh("bert-base-uncased").ledger, weigh("bert-large-uncased").ledger
        >>> ends = Ends(small.blueprint, "BertModel", small.fields, large.fields)
        >>> shares = FieldShares(ends)
        >>> {name: str(share.value) for (name,), share in shares.by_player.items()}["hidden_size"]
        '75030784'
    """

    def __init__(self, ends: Ends) -> None:
        self.ends = ends
        self.before: dict[str, int] = {}
        """The parameters of each component under the first config."""
        self.after: dict[str, int] = {}
        """The parameters of each component under the second config."""
        terms = terms_by_component(ends.blueprint, ends.class_name, ends.before, _open_fields(ends))
        following = Following(ends.blueprint, ends.before, ends.after)
        joined: list[Player] = [(name,) for name in ends.differing]
        while True:
            game = _Game(ends, following, joined)
            try:
                self.cells = self._shared(terms, game)
                break
            except _NoValueError as found:
                joined = _as_one_player(joined, found.fields, ends)

    def _shared(self, terms: Mapping[str, list[Summand]], game: _Game) -> dict[Cell, Share]:
        cells: dict[Cell, Share] = {}
        everyone = frozenset(game.players)
        for component, of_component in terms.items():
            start, end = Fraction(0), Fraction(0)
            for term in of_component:
                start += game.value(term, frozenset())
                end += game.value(term, everyone)
                for player, share in game.shares(term).items():
                    place = (component, player)
                    cells[place] = cells.get(place, NOTHING) + share
            self.before[component], self.after[component] = int(start), int(end)
        return {place: share for place, share in cells.items() if share != NOTHING}

    @property
    def difference(self) -> int:
        """The difference of the totals, which all shares add up to."""
        return sum(self.after.values()) - sum(self.before.values())

    @cached_property
    def by_player(self) -> dict[Player, Share]:
        """The share of each player in the difference of the totals, the largest first."""
        totals: dict[Player, Share] = {}
        for (_, player), share in self.cells.items():
            totals[player] = totals.get(player, NOTHING) + share
        return dict(sorted(totals.items(), key=lambda item: (-abs(item[1].value), item[0])))

    @cached_property
    def rounded_cells(self) -> dict[Cell, int]:
        """The shares in integers that add up in both directions."""
        return rounded({place: share.value for place, share in self.cells.items()})

    @cached_property
    def rounded_by_player(self) -> dict[Player, int]:
        """The share of each player in integers that add up to the difference."""
        totals = dict.fromkeys(self.by_player, 0)
        for (_, player), value in self.rounded_cells.items():
            totals[player] += value
        return totals

    @cached_property
    def alone(self) -> dict[Player | None, int]:
        """What each player changes alone; under None what only several change together."""
        cells: dict[tuple[str, Player | None], Fraction] = {
            ("", player): share.alone for player, share in self.by_player.items()
        }
        cells["", None] = self.difference - sum(cells.values(), Fraction(0))
        return {player: value for (_, player), value in rounded(cells).items()}

    @property
    def without_effect(self) -> list[str]:
        """The fields of the blueprint that differ and change no parameter."""
        worth = {name for player in self.by_player for name in player}
        return [name for name in self.ends.differing if name not in worth]


def _open_fields(ends: Ends) -> list[str]:
    """Return the fields that must stay names: those that differ, and are not a number in both."""
    return [
        name
        for name in ends.differing
        if not (is_number(ends.before[name]) and is_number(ends.after.get(name)))
    ]


class _NoValueError(Exception):
    """An expression has no value where only some of these fields have changed."""

    def __init__(self, fields: Iterable[str]) -> None:
        super().__init__()
        self.fields = frozenset(fields)


def _as_one_player(players: list[Player], fields: frozenset[str], ends: Ends) -> list[Player]:
    """Return the players, with those of some fields made one.

    Raises:
        ExpressionError: they are one already, so that an expression has no value under one of the
            two configs themselves.
    """
    one = [name for player in players if not fields.isdisjoint(player) for name in player]
    others = [player for player in players if fields.isdisjoint(player)]
    if len(others) + 1 >= len(players):
        what = "has no closed form for both configs"
        raise ExpressionError(what, where=ends.class_name, values=dict.fromkeys(one, None))
    return [*others, tuple(one)]


class _Game:
    """The values of products where some players have changed; each expression is kept."""

    def __init__(self, ends: Ends, following: Following, players: list[Player]) -> None:
        self.ends, self.following, self.players = ends, following, players
        self.player_of = {name: player for player in players for name in player}
        self._players: dict[Tree, frozenset[Player]] = {}
        self._values: dict[tuple[Tree, frozenset[Player]], Any] = {}

    def players_in(self, tree: Tree) -> frozenset[Player]:
        """Return the players that an expression depends on."""
        if tree not in self._players:
            sources = self.following.sources(tree)
            found = [self.player_of[name] for name in sources if name in self.player_of]
            self._players[tree] = frozenset(found)
        return self._players[tree]

    def shares(self, term: Summand) -> dict[Player, Share]:
        """Return the shares of a term's players.

        Raises:
            ExpressionError: it has too many players.
        """
        trees = [*term.conditions, *(tree for tree, _ in term.factors)]
        involved = frozenset[object]().union(*map(self.players_in, trees))
        players = [player for player in self.players if player in involved]
        if len(players) > _MOST_PLAYERS:
            raise ExpressionError(
                "too many fields differ in one product", values={"fields": len(players)}
            )
        if not players:
            return {}
        return shapley(players, lambda changed: self.value(term, changed))

    def value(self, term: Summand, changed: frozenset[Player]) -> Fraction | int:
        """Return the value of a term where these players have changed."""
        for condition in term.conditions:
            holds = self._of(condition, changed)
            if holds is None:
                raise _NoValueError(self._fields_in(condition))
            if not holds:
                return 0
        return self._product(term, changed)

    def _product(self, term: Summand, changed: frozenset[Player]) -> Fraction | int:
        """Return the product of a term; without layers, sizes need no value."""
        values = [self._of(tree, changed) for tree, _ in term.factors]
        if 0 in values and min(power for _, power in term.factors) > 0:
            return 0
        product: Fraction | int = term.coefficient
        for (tree, power), value in zip(term.factors, values, strict=True):
            if value is None or (power < 0 and not value):
                raise _NoValueError(self._fields_of_factor(tree, term))
            product *= value**power if power > 0 else Fraction(value) ** power
        return product

    def _fields_of_factor(self, tree: Tree, term: Summand) -> set[str]:
        """Return the fields of a factor without a value.

        A size that is null in one config, such as a number of experts, has a value only where the
        term's conditions hold. So a single such field changes together with those of them.
        """
        fields = self._fields_in(tree)
        if len(self.players_in(tree)) == 1:
            for condition in term.conditions:
                fields |= self._fields_in(condition)
        return fields

    def _of(self, tree: Tree, changed: frozenset[Player]) -> Any:
        """Return the value of an expression, or None if it has none."""
        key = (tree, changed & self.players_in(tree))
        if key not in self._values:
            fields = dict(self.ends.before)
            for player in key[1]:
                fields.update((name, self.ends.after[name]) for name in player)
            try:
                self._values[key] = evaluate(tree, self.following.at(fields, tree))
            except ExpressionError:
                self._values[key] = None
        return self._values[key]

    def _fields_in(self, tree: Tree) -> set[str]:
        return {name for player in self.players_in(tree) for name in player}
