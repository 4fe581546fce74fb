"""The figures of an article: what it states them to be, what they are with all slips mended, and who is to blame.

Letters and words stand for what the article says that they do, by what was said before, or else by
what is said later. A number that rests on a slip is known again where it is used.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from weighbridge.algebra.expr import names_in
from weighbridge.algebra.polynomial import Polynomial
from weighbridge.articles.exact import Number, UnreadableError, constant, evaluate, number_of
from weighbridge.articles.expressions import PHRASE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from weighbridge.algebra.expr import Tree
    from weighbridge.articles.grammar import Side, Statement

    Pick = Callable[["Figure"], Polynomial]

LEAST_KNOWN = 1000  # a figure below this is not known again by its number alone
MOST_FOLLOWED = 24  # slips whose share in one figure is told
MOST_ROUNDED = 64  # numbers of one calculation
_LONGEST_CHAIN = 16  # of definitions that rest on one another
NONE = Fraction(0)


class Follow(NamedTuple):
    """A figure that rests on a slip: as it is stated, as it is with all slips mended, and this slip's share in it."""

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
        self.kind, self.line, self.text, self.stated, self.correct = (
            kind,
            line,
            text,
            stated,
            correct,
        )
        self.mended, self.about = correct, ""
        self.shift: Fraction | None = None
        self.follows: list[Follow] = []


class Figure(NamedTuple):
    """What something comes to as the article states it, with all slips mended, and what each slip adds to that."""

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
    """What the letters, the words and the numbers of an article stand for, as far as it has been read."""

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
            figure = self.named_so(other, depth + 1) if other != name else None
            return figure.stated if figure else _letter(other)

        try:
            value = evaluate(self._later[name], inner, lambda number: constant(number.value))
        except UnreadableError:
            return None
        return None if name in value.fields() else Figure.of(value)

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

        def name(said: str) -> Polynomial:
            figure = self.named_so(said)
            return pick(figure) if figure else _letter(said)

        def value(number: Number) -> Polynomial:
            figure = None if number.rounded else self.off.get(number.value)
            return pick(figure) if figure else constant(number.value)

        return evaluate(tree, name, value)

    def in_letters(self, tree: Tree) -> Polynomial:
        """Return what a tree comes to with its letters left as they are."""

        def name(said: str) -> Polynomial:
            figure = self.named_so(said) if said.startswith(PHRASE) else None
            return figure.stated if figure else _letter(said)

        return evaluate(tree, name, lambda number: constant(number.value))

    def calculated(self, tree: Tree, line: int) -> Figure:
        """Return what a tree comes to as stated and as mended, and the share of every slip that it rests on."""
        resting = [figure for name in names_in(tree) if (figure := self.named_so(name))]
        resting += [
            self.off[number.value] for number in numbers_in(tree) if number.value in self.off
        ]
        stated = self.value(tree, as_stated)
        if not any(figure.is_off for figure in resting):
            return Figure.of(stated, line)
        mended = self.value(tree, as_mended)
        slips = list(dict.fromkeys(slip for figure in resting for slip in figure.shares))
        shares = {
            slip: number_of(self.value(tree, _with(slip)) - mended)
            for slip in slips[:MOST_FOLLOWED]
        }
        return Figure(
            stated, mended, {slip: share for slip, share in shares.items() if share}, line
        )

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
    numbers = iter(range(10**9))

    def replace(tree: Tree) -> Tree:
        kind, *operands = tree
        if kind == "value":
            return (kind, number) if next(numbers) == position else tree
        return tree if kind == "name" else (kind, *map(replace, operands))

    return replace(tree)


def _with(slip: Slip) -> Pick:
    """Return what takes a figure with all slips mended but this one."""
    return lambda figure: figure.mended + constant(figure.shares.get(slip, NONE))


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
    return side.tree[1] if side.tree is not None and side.tree[0] == "value" else None
