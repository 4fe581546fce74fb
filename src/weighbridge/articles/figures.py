"""The figures of an article: as stated, with all slips mended, and what share each slip has.

Letters and words stand for what the article says that they do, by what was said before, or else by
what is said later. A number that rests on a slip is known again where it is used.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from weighbridge.algebra.expr import names_in
from weighbridge.algebra.polynomial import Polynomial
from weighbridge.articles.exact import (
    Number,
    UnreadableError,
    constant,
    evaluate_exactly,
    number_of,
)
from weighbridge.articles.expressions import LEAVES, PHRASE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from weighbridge.algebra.expr import Tree
    from weighbridge.articles.grammar import Side, Statement

    Pick = Callable[["Figure"], Polynomial]

LEAST_KNOWN = 1000  # smaller numbers, as 12, stand for many things and are not known again
MOST_FOLLOWED = 24  # slips whose share in one figure is worked out; each takes an evaluation
MOST_ROUNDED = 64  # numbers of one calculation; each takes an evaluation
_LONGEST_CHAIN = 16  # of definitions that rest on one another; bounds the recursion
NONE = Fraction(0)


class Follow(NamedTuple):
    """A figure that rests on a slip: as stated, with all slips mended, and this slip's share."""

    line: int
    text: str
    stated: str
    mended: str
    shift: Fraction


class Slip:
    """A step that is wrong: its kind, its line, what it states and what is right.

    ``correct`` is what the step comes to as it is written, ``mended`` what it comes to with the
    slips before it mended too, and ``shift`` by how much this step alone is off. Kinds are
    ``arithmetic``; ``letters``; ``formula``, where ``about`` is the component, ``correct`` its
    formula with biases and ``mended`` the one without; and ``missing``, the same of what leaves out
    a part.
    """

    def __init__(self, kind: str, line: int, text: str, stated: str, correct: str) -> None:
        self.kind = kind
        self.line = line
        self.text = text
        self.stated = stated
        self.correct = correct
        self.mended, self.about = correct, ""
        self.shift: Fraction | None = None
        self.follows: list[Follow] = []


class Figure(NamedTuple):
    """A value as the article states it, with all slips mended, and what each slip adds to it."""

    stated: Polynomial
    mended: Polynomial
    shares: Mapping[Slip, Fraction]
    line: int

    @classmethod
    def of(cls, value: Polynomial, line: int = 0) -> Figure:
        """Return a figure that rests on no slip."""
        return cls(value, value, {}, line)

    @property
    def is_off(self) -> bool:
        """Whether it rests on a slip."""
        return self.stated != self.mended or bool(self.shares)

    @property
    def number(self) -> Fraction | None:
        """What it is stated to be, if that is a number."""
        return number_of(self.stated)


def as_stated(figure: Figure) -> Polynomial:
    """Take a figure as the article states it."""
    return figure.stated


def as_mended(figure: Figure) -> Polynomial:
    """Take a figure with all slips mended."""
    return figure.mended


class Figures:
    """What letters, words and numbers stand for, as far as the article has been read."""

    def __init__(self, statements: Iterable[Statement]) -> None:
        self.named: dict[str, Figure] = {}
        self.off: dict[Fraction, Figure] = {}
        """Figures that rest on a slip, by the numbers that they are stated as."""
        self._later: dict[str, Tree] = {}
        for statement in statements:
            for name, tree in _definitions(statement):
                self._later.setdefault(name, tree)

    def named_so(self, name: str, depth: int = 0) -> Figure | None:
        """Return what a name, or the last of some words, stands for."""
        if name.startswith(PHRASE):
            words = name.split()
            phrases = (PHRASE + " ".join(words[start:]) for start in range(len(words)))
            return next((self.named[phrase] for phrase in phrases if phrase in self.named), None)
        if name in self.named or name not in self._later or depth > _LONGEST_CHAIN:
            return self.named.get(name)

        def inner(other: str) -> Polynomial:
            if other == name:
                return _letter(other)
            return _stated_or_letter(self.named_so(other, depth + 1), other)

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
        """Let a name stand for a figure; a number that it stands for gives way to no letters."""
        before = self.named.get(name)
        loses = before is not None and before.number is not None and figure.number is None
        if not loses and name not in figure.stated.fields():
            self.named[name] = figure

    def value(self, tree: Tree, pick: Pick) -> Polynomial:
        """Return what a tree comes to, each figure in it taken as ``pick`` takes it.

        Raises:
            UnreadableError: it has no value, or some words in it stand for nothing.
        """

        def name(letter: str) -> Polynomial:
            figure = self.named_so(letter)
            return pick(figure) if figure else _letter(letter)

        def value(number: Number) -> Polynomial:
            if number.rounded or number.value not in self.off:
                return constant(number.value)
            return pick(self.off[number.value])

        return evaluate_exactly(tree, name, value)

    def in_letters(self, tree: Tree) -> Polynomial:
        """Return what a tree comes to with its letters left as they are."""

        def name(letter: str) -> Polynomial:
            if not letter.startswith(PHRASE):
                return _letter(letter)
            return _stated_or_letter(self.named_so(letter), letter)

        return evaluate_exactly(tree, name, lambda number: constant(number.value))

    def calculated(self, tree: Tree, line: int) -> Figure:
        """Return the figure of a tree: what it comes to, and the share of each slip in it."""
        used = [figure for name in names_in(tree) if (figure := self.named_so(name))]
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

    def slack(self, tree: Tree) -> Fraction:
        """Return how far off a tree's value may be because numbers in it are rounded."""
        numbers = list(numbers_in(tree))
        rounded = sum(number.rounded for number in numbers)
        if len(numbers) == 1 or not rounded:
            return NONE
        if rounded > MOST_ROUNDED:
            raise UnreadableError("too_long")
        middle = number_of(self.value(tree, as_stated)) or NONE
        slack = NONE
        for position, number in enumerate(numbers):
            if number.rounded:
                moved = _replaced(
                    tree, position, number._replace(value=number.value + number.place / 2)
                )
                slack += abs((number_of(self.value(moved, as_stated)) or NONE) - middle)
        return slack


def numbers_in(tree: Tree) -> Iterator[Number]:
    """Yield the numbers of a tree, from left to right."""
    ahead = [tree]
    while ahead:
        kind, *operands = ahead.pop()
        if kind == "value":
            yield operands[0]
        elif kind != "name":
            ahead += reversed(operands)


def _replaced(tree: Tree, position: int, number: Number) -> Tree:
    """Return a tree with another number in place of one of its own."""
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
    """Return what takes a figure with all slips mended but this one."""
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
    """Whether a side is a letter, or words that stand for a number."""
    return side.tree is not None and side.tree[0] == "name"


def literal(side: Side) -> Number | None:
    """Return the number that a side is, if it is nothing but one."""
    if side.tree is None or side.tree[0] != "value":
        return None
    number: Number = side.tree[1]
    return number
