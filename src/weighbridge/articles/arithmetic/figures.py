"""The figures of an article: as stated, with all slips corrected, and the share of each slip.

Letters and words have the meaning that the article has given them so far, or else gives them later.
A number that depends on a slip is recognised where it is used again.
"""

from __future__ import annotations

from contextlib import contextmanager
from fractions import Fraction
from itertools import chain, count
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge.algebra.expr import names_in
from weighbridge.algebra.polynomial import Polynomial
from weighbridge.articles.arithmetic.expressions import LEAVES, PHRASE
from weighbridge.articles.text.exact import (
    Number,
    UnreadableError,
    constant,
    evaluate_exactly,
    number_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from weighbridge.algebra.expr import Tree
    from weighbridge.articles.arithmetic.grammar import Side, Statement

    Pick = Callable[["Figure"], Polynomial]

LEAST_KNOWN = 1000  # smaller numbers, such as 12, have many meanings and are not recognised again
MOST_FOLLOWED = 24  # slips whose share in a figure is calculated; each takes an evaluation
MOST_ROUNDED = 64  # numbers in one calculation; each takes an evaluation
_LONGEST_CHAIN = 16  # of definitions that depend on one another; bounds the recursion
NONE = Fraction(0)
NOTHING_GIVEN: Mapping[str, Any] = MappingProxyType({})


class Follow(NamedTuple):
    """A figure that depends on a slip: as stated, with all slips corrected, and the share of it."""

    line: int
    text: str
    stated: str
    mended: str
    shift: Fraction


class Slip:
    """A step that is wrong: its kind, its line, the stated value and the correct one.

    ``correct`` is the value of the step as written, ``mended`` its value with all earlier slips
    corrected as well, and ``shift`` is the error of this step alone. ``written`` is what the line
    has in place of the correct value, as it is read. The kinds are ``arithmetic``;
    ``letters``; ``formula``, where ``about`` is the component, ``correct`` its formula with biases
    and ``mended`` the one without; and ``missing``, the same for a formula that lacks a part.
    """

    def __init__(self, kind: str, line: int, text: str, stated: str, correct: str) -> None:
        self.kind = kind
        self.line = line
        self.text = text
        self.stated = stated
        self.correct = correct
        self.mended, self.about = correct, ""
        self.written = stated
        self.shift: Fraction | None = None
        self.follows: list[Follow] = []


class Figure(NamedTuple):
    """A value as stated, with all slips corrected, and the share of each slip in it."""

    stated: Polynomial
    mended: Polynomial
    shares: Mapping[Slip, Fraction]
    line: int

    @classmethod
    def of(cls, value: Polynomial, line: int = 0) -> Figure:
        """Return a figure that depends on no slip."""
        return cls(value, value, {}, line)

    @property
    def is_off(self) -> bool:
        """Whether the figure depends on a slip."""
        return self.stated != self.mended or bool(self.shares)

    @property
    def number(self) -> Fraction | None:
        """The stated value, if it is a number."""
        return number_of(self.stated)


def as_stated(figure: Figure) -> Polynomial:
    """Return the stated value of a figure."""
    return figure.stated


def as_mended(figure: Figure) -> Polynomial:
    """Return the value of a figure with all slips corrected."""
    return figure.mended


class Figures:
    """The meanings of letters, words and numbers, in the part of the article read so far."""

    def __init__(
        self,
        statements: Iterable[Statement],
        given: Mapping[str, Fraction] = NOTHING_GIVEN,
        assumed: Mapping[str, Sequence[Fraction]] = NOTHING_GIVEN,
    ) -> None:
        """Begin with the numbers that are ``given`` to names.

        ``assumed`` are numbers that a name may stand for, as far as the article does not say.
        """
        self.named: dict[str, Figure] = {}
        for name, value in given.items():
            self.named[name] = Figure.of(constant(value))
        self.off: dict[Fraction, Figure] = {}
        """Figures that depend on a slip, by their stated numbers."""
        self._assumed = assumed
        self._supposed: Mapping[str, Figure] = {}
        self._values_of_phrases: dict[str, set[Fraction | None]] = {}
        self._later: dict[str, Tree] = {}
        self._numbers: dict[str, list[Fraction]] = {}
        for name, value in given.items():
            self._numbers[name] = [value]
        for statement in statements:
            for name, tree in _definitions(statement):
                self._later.setdefault(name, tree)
                if tree[0] == "value":
                    self._numbers.setdefault(name, []).append(tree[1].value)

    def possible_numbers(self, name: str) -> list[Fraction]:
        """Return all numbers that a name is given in the article, or may stand for."""
        numbers = [*self._numbers.get(name, ()), *self._assumed.get(name.strip(), ())]
        return list(dict.fromkeys(numbers))

    def has_meaning(self, name: str) -> bool:
        """Return whether the article says what a name stands for."""
        return self.meaning(name) is not None or bool(self.possible_numbers(name))

    def numbers_of_names(self) -> frozenset[Fraction]:
        """Return all numbers that the article gives to names."""
        return frozenset(chain.from_iterable(self._numbers.values()))

    @contextmanager
    def supposing(self, names: Mapping[str, Fraction]) -> Iterator[None]:
        """Give names other numbers for a while."""
        before = self._supposed
        self._supposed = {name: Figure.of(constant(value)) for name, value in names.items()}
        try:
            yield
        finally:
            self._supposed = before

    def meaning(self, name: str, depth: int = 0) -> Figure | None:
        """Return the figure that a name, or the last words of a phrase, stands for."""
        if name in self._supposed:
            return self._supposed[name]
        if name.startswith(PHRASE):
            words = name.split()
            phrases = (PHRASE + " ".join(words[start:]) for start in range(len(words)))
            return next((self.named[phrase] for phrase in phrases if phrase in self.named), None)
        if name in self.named or name not in self._later or depth > _LONGEST_CHAIN:
            return self.named.get(name)

        def inner(other: str) -> Polynomial:
            if other == name:
                return _letter(other)
            return _stated_or_letter(self.meaning(other, depth + 1), other)

        try:
            value = evaluate_exactly(
                self._later[name], inner, lambda number: constant(number.value)
            )
        except UnreadableError:
            return None
        if name in value.fields():
            return None
        return Figure.of(value)

    def define(self, name: str, figure: Figure) -> None:
        """Assign a figure to a name; letters do not replace a number."""
        before = self.named.get(name)
        loses = before is not None and before.number is not None and figure.number is None
        if not loses and name not in figure.stated.fields():
            self.named[name] = figure
            if name.startswith(PHRASE):
                self._values_of_phrases.setdefault(name, set()).add(figure.number)

    def is_doubtful(self, name: str) -> bool:
        """Return whether words may stand for another number than the one that they have here.

        Only words that the article has used for one number, and in full, are beyond doubt.
        """
        return name.startswith(PHRASE) and len(self._values_of_phrases.get(name, ())) != 1

    def value(self, tree: Tree, pick: Pick) -> Polynomial:
        """Return the value of a tree, with the value of each figure in it as ``pick`` returns it.

        Raises:
            UnreadableError: the tree has no value, or words in it have no meaning.
        """

        def name(letter: str) -> Polynomial:
            figure = self.meaning(letter)
            return pick(figure) if figure else _letter(letter)

        def value(number: Number) -> Polynomial:
            if number.rounded or number.value not in self.off:
                return constant(number.value)
            return pick(self.off[number.value])

        return evaluate_exactly(tree, name, value)

    def in_letters(self, tree: Tree) -> Polynomial:
        """Return the value of a tree with its letters kept as letters."""

        def name(letter: str) -> Polynomial:
            if not letter.startswith(PHRASE):
                return _letter(letter)
            return _stated_or_letter(self.meaning(letter), letter)

        return evaluate_exactly(tree, name, lambda number: constant(number.value))

    def calculated(self, tree: Tree, line: int) -> Figure:
        """Return the figure of a tree: its value, and the share of each slip in it."""
        used = [figure for name in names_in(tree) if (figure := self.meaning(name))]
        used += [self.off[number.value] for number in numbers_in(tree) if number.value in self.off]
        stated = self.value(tree, as_stated)
        if not any(figure.is_off for figure in used):
            return Figure.of(stated, line)
        mended = self.value(tree, as_mended)
        slips = list(dict.fromkeys(slip for figure in used for slip in figure.shares))
        shares = {}
        for slip in slips[:MOST_FOLLOWED]:
            share = number_of(self.value(tree, _with(slip)) - mended)
            if share:
                shares[slip] = share
        return Figure(stated, mended, shares, line)

    def slack(self, tree: Tree, *, is_rough: bool = False) -> Fraction:
        """Return how far a tree's value may be off because of rounded numbers in it.

        With ``is_rough``, whole numbers times a power of ten are rounded too.
        """
        numbers = list(numbers_in(tree))
        rounds = [number.is_rough if is_rough else number.rounded for number in numbers]
        if len(numbers) == 1 or not any(rounds):
            return NONE
        if sum(rounds) > MOST_ROUNDED:
            raise UnreadableError("too_long")
        middle = number_of(self.value(tree, as_stated)) or NONE
        slack = NONE
        for position, number in enumerate(numbers):
            if rounds[position]:
                moved = _replaced(
                    tree, position, number._replace(value=number.value + number.place / 2)
                )
                slack += abs((number_of(self.value(moved, as_stated)) or NONE) - middle)
        return slack


def numbers_in(tree: Tree) -> Iterator[Number]:
    """Yield the numbers of a tree, from left to right."""
    ahead = [tree]
    while ahead:
        tree = ahead.pop()
        if not tree:
            continue
        kind, *operands = tree
        if kind == "value":
            yield operands[0]
        elif kind != "name":
            ahead += reversed(operands)


def _replaced(tree: Tree, position: int, number: Number) -> Tree:
    """Return a tree in which one number is replaced."""
    numbers = count()

    def replace(tree: Tree) -> Tree:
        kind, *operands = tree
        if kind == "value" and next(numbers) == position:
            return (kind, number)
        if kind in LEAVES:
            return tree
        return (kind, *map(replace, operands))

    return replace(tree)


def _with(slip: Slip) -> Pick:
    """Return a function for the value of a figure with all slips but this one corrected."""
    return lambda figure: figure.mended + constant(figure.shares.get(slip, NONE))


def _stated_or_letter(figure: Figure | None, name: str) -> Polynomial:
    return figure.stated if figure else _letter(name)


def _letter(name: str) -> Polynomial:
    if name.startswith(PHRASE):
        raise UnreadableError("unknown", name.strip())
    return Polynomial.of(name)


def _definitions(statement: Statement) -> Iterator[tuple[str, Tree]]:
    trees = [side.tree for side in statement.sides if side.tree is not None]
    values = [tree for tree in trees if tree[0] != "name"]
    if values:
        yield from ((tree[1], values[-1]) for tree in trees if tree[0] == "name")


def is_name(side: Side) -> bool:
    """Return whether a side is a letter, or words that stand for a number."""
    return side.tree is not None and side.tree[0] == "name"


def literal(side: Side) -> Number | None:
    """Return the number of a side that consists only of a number; None for any other side."""
    return literal_of(side.tree or ())


def literal_of(tree: Tree) -> Number | None:
    """Return the number of a tree that is only a number."""
    if not tree or tree[0] != "value":
        return None
    number: Number = tree[1]
    return number
