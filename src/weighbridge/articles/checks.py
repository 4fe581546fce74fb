"""What an article's statements come to: each is held against exact arithmetic, and each slip followed to its ends."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, NamedTuple

from weighbridge import units
from weighbridge.algebra.expr import names_in
from weighbridge.articles import components, terms
from weighbridge.articles.components import Formula
from weighbridge.articles.exact import Number, UnreadableError, constant, number_of
from weighbridge.articles.expressions import PHRASE
from weighbridge.articles.figures import (
    LEAST_KNOWN,
    NONE,
    Figure,
    Figures,
    Follow,
    Slip,
    is_name,
    literal,
)
from weighbridge.articles.grammar import APPROXIMATE, WEAK, Side, Statement, Unread

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from fractions import Fraction

    from weighbridge.algebra.polynomial import Polynomial

MOST_STATEMENTS = 10_000
MOST_WRITTEN = 200_000  # characters of all arithmetic that is checked
_LEAST_WRITTEN = 8  # that a side counts for, however short
LONGEST_SHOWN = 1000  # characters of a line
_FARTHEST = 10  # of its value a figure that is called a sum may be off by one part in so many, or another sum is meant
_MOST_SUMMED = 64  # figures of one sum


class Total(NamedTuple):
    """The article's total: where it stands, as stated and as mended, and the sizes that the article gives its model.

    It is what the article calls so, or else, where nothing is ``called`` so, its largest figure.
    """

    line: int
    text: str
    stated: Fraction
    mended: Fraction
    sizes: Mapping[str, int]
    called: bool


class Findings(NamedTuple):
    """What was found in an article: slips, what was not read, how many steps were checked, the total."""

    slips: tuple[Slip, ...]
    unread: tuple[Unread, ...]
    checked: int
    total: Total | None


class _Result(NamedTuple):
    """A number that a statement ends with: what it comes to, how it is written, the words before it."""

    figure: Figure
    number: Number
    label: str


def check(found: Iterable[Statement | Unread], lines: Sequence[str]) -> Findings:
    """Check what an article states.

    ``lines`` are its own: the words around a formula, and what a slip shows.
    """
    unread: list[Unread] = []
    statements: list[Statement] = []
    written_so_far = 0
    for item in found:
        if isinstance(item, Unread):
            unread.append(item)
        elif len(statements) < MOST_STATEMENTS and written_so_far < MOST_WRITTEN:
            statements.append(item)
            written_so_far += sum(len(side.text) + _LEAST_WRITTEN for side in item.sides)
        else:
            unread.append(Unread(item.line, item.sides[-1].text, "too_many"))
            break
    checking = _Checking(statements, lines)
    for statement in statements:
        try:
            checking.read(statement)
        except UnreadableError as error:
            unread.append(Unread(statement.line, _written(statement), error.why, error.about))
    checking.look_for_what_is_missing()
    slips = sorted(checking.slips, key=lambda slip: slip.line)
    unread = sorted([*unread, *checking.unread], key=lambda item: item.line)
    return Findings(tuple(slips), tuple(unread), checking.checked, _total(checking))


class _Checking:
    def __init__(self, statements: Sequence[Statement], lines: Sequence[str]) -> None:
        self.lines, self.figures = lines, Figures(statements)
        self.slips: list[Slip] = []
        self.unread: list[Unread] = []
        self.checked = 0
        self.results: list[_Result] = []
        self.sizes: dict[
            str, Figure
        ] = {}  # what names, and words, are said to be without any calculation
        self._formulas: list[Formula] = []
        self._components: dict[int, str] = {}

    def read(self, statement: Statement) -> None:
        """Check a statement, and remember what it says."""
        told = [side for side in statement.sides if side.tree is not None and not is_name(side)]
        names = [side for side in statement.sides if is_name(side)]
        for side in reversed(told):
            self._look_at_formula(side)
        figure = None
        for left, right in pairwise(told):
            sign = statement.relations[statement.sides.index(right) - 1]
            said = (
                self._compare(left, right, sign, statement)
                if self._may_be_equal(left, right, sign)
                else None
            )
            figure = said or self._alone(right, statement, named=False)
        if not told:
            return
        if figure is None:
            figure = self._alone(told[-1], statement, named=bool(names))
        if len(statement.sides) > 1:
            self._remember(
                statement, names, figure, plain=literal(told[-1]) is not None and len(told) == 1
            )

    def _remember(
        self, statement: Statement, names: Sequence[Side], figure: Figure, *, plain: bool
    ) -> None:
        labels = [side.tree[1] for side in names if side.tree]
        if not names:
            first = statement.sides[0].text if statement.sides[0].tree is None else ""
            labels = [
                PHRASE + " ".join(said.lower().split()) for said in (statement.label, first) if said
            ]
        for label in labels:
            self.figures.define(label, figure)
            if plain:
                self.sizes.setdefault(label, figure)

    # A step

    def _compare(self, left: Side, right: Side, sign: str, statement: Statement) -> Figure:
        """Hold two sides against each other, and return what the right one comes to."""
        one, other = literal(left), literal(right)
        if one and (other is None or one.place > other.place):
            left, right = right, left
        figure = self._calculated(left)
        if literal(right):
            return self._against_number(figure, left, right, sign, statement.label)
        against = self._calculated(right)
        self._against_formula(figure, against, left, right, sign)
        return against

    def _may_be_equal(self, left: Side, right: Side, sign: str) -> bool:
        """Whether two sides are held to be equal: always by a sign, and by words only if what is left is calculated.

        "12 layers, about 110M" says that of no two numbers.
        """
        if sign not in WEAK and not (left.words_behind and (literal(left))):
            return True
        one, other = self._calculated(left).number, self._calculated(right).number
        if one is None or other is None:
            here, there = (set(names_in(side.tree or ())) for side in (left, right))
            return not left.words_behind and here >= there
        near = abs(one - other) * _FARTHEST <= abs(one)
        if literal(left):
            return near and literal(right) is not None
        if sign in WEAK and not abs(one) <= 2 * abs(other) <= 4 * abs(one):
            raise UnreadableError("unclear")
        return True

    def _calculated(self, side: Side) -> Figure:
        return self.figures.calculated(side.tree or (), side.line)

    def _against_number(
        self, figure: Figure, left: Side, right: Side, sign: str, label: str
    ) -> Figure:
        number, exact, rounded = literal(right), figure.number, sign in APPROXIMATE
        if number is None or exact is None:
            raise UnreadableError("unknown", ", ".join(sorted(figure.stated.fields())))
        self.checked += 1
        slack = self.figures.slack(left.tree) if left.tree else NONE
        if not number.fits(exact, rounded=rounded, slack=slack):
            meant = [
                *_repeated(figure, left.before),
                *(self._sums(right.line) if literal(left) else ()),
            ]
            figure = next((each for each in meant if each.number == number.value), figure)
            exact = figure.number or NONE
        shares, mended = dict(figure.shares), number_of(figure.mended)
        is_rough = (
            rounded or number.rounded
        ) and mended is not None  # it may be the rounding of what is right
        fits = number.fits(exact, rounded=rounded, slack=slack) or (
            is_rough and number.fits(mended or NONE, rounded=True)
        )
        if not fits:
            slip = self._slip("arithmetic", right, number.text, written(exact))
            slip.shift, slip.mended = number.value - exact, written(mended)
            shares[slip] = slip.shift
        stated = figure.stated if fits and number.value != exact else constant(number.value)
        result = Figure(stated, figure.mended, shares, right.line)
        self._follow(figure, number, right, rounded=rounded)
        if result.is_off and not number.rounded and abs(number.value) >= LEAST_KNOWN:
            self.figures.off[number.value] = result
        self.results.append(_Result(result, number, label))
        return result

    def _against_formula(
        self, figure: Figure, against: Figure, left: Side, right: Side, sign: str
    ) -> None:
        letters, others = (self.figures.in_letters(side.tree or ()) for side in (left, right))
        exact, stated = figure.number, against.number
        if letters != others and figure.stated != against.stated:
            here, there = figure.stated.fields(), against.stated.fields()
            if not (here <= there or there <= here):
                raise UnreadableError("unknown", ", ".join(sorted(here ^ there)))
            if sign in APPROXIMATE:
                raise UnreadableError("nearly")
            correct = (
                written(exact) if exact is not None and not others.fields() else formula(letters)
            )
            slip = self._slip(
                "letters" if others.fields() else "arithmetic",
                right,
                formula(others) if others.fields() else right.text,
                correct,
            )
            slip.shift = stated - exact if exact is not None and stated is not None else None
        self.checked += 1

    def _slip(self, kind: str, side: Side, stated: str, correct: str) -> Slip:
        slip = Slip(kind, side.line, self.line(side.line), stated, correct)
        self.slips.append(slip)
        return slip

    def _follow(self, figure: Figure, number: Number, side: Side, *, rounded: bool = False) -> None:
        """Note of each slip that this figure rests on it, unless it is written so roughly that nothing changes."""
        mended = number_of(figure.mended)
        if mended is not None and not number.fits(mended, rounded=rounded):
            for slip, share in figure.shares.items():
                slip.follows.append(
                    Follow(side.line, self.line(side.line), number.text, written(mended), share)
                )

    def line(self, line: int) -> str:
        """Return a line of the article."""
        text = self.lines[line - 1].strip() if 0 < line <= len(self.lines) else ""
        return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"

    # A figure that is not calculated where it stands

    def _alone(self, side: Side, statement: Statement, *, named: bool) -> Figure:
        """Read a figure that nothing is held against: a sum of those before it, one of them again, or a size."""
        number = literal(side)
        if number is None:
            return self._calculated(side)
        words = terms.facts()
        if not named and terms.said(statement.label, words["sums"]["words"]):
            figure = self._sum(side, number, statement.label)
            if figure:
                return figure
        again = self.figures.off.get(number.value)
        if again:
            self._follow(again, number, side)
            return again
        figure = Figure.of(constant(number.value), side.line)
        if number.value >= LEAST_KNOWN and terms.said(statement.label, words["totals"]["words"]):
            self.results.append(_Result(figure, number, statement.label))
        return figure

    def _sum(self, side: Side, number: Number, label: str) -> Figure | None:
        """Check a figure that is called the sum of those before it, of as many as come nearest."""
        sums = self._sums(side.line)
        if not sums:
            return None
        nearest = min(sums, key=lambda figure: abs((figure.number or NONE) - number.value))
        if abs((nearest.number or NONE) - number.value) * _FARTHEST > abs(number.value):
            raise UnreadableError("sum_of_what")
        return self._against_number(nearest, Side(None, side.line, ""), side, "=", label)

    def _sums(self, line: int) -> list[Figure]:
        """Return the sums of the last results: of the last two, the last three, and so on."""
        figures = [
            result.figure
            for result in self.results[-_MOST_SUMMED:]
            if result.figure.number is not None
        ]
        sums = accumulate(reversed(figures), lambda added, figure: _added(added, figure, line))
        return list(sums)[1:]

    # A formula of a component

    def _look_at_formula(self, side: Side) -> None:
        if side.tree is None or side.tree[0] in ("value", "name"):
            return
        if side.line not in self._components:
            self._components[side.line] = components.component_of(self.lines, side.line)
        component = self._components[side.line]
        value = self.figures.in_letters(side.tree)
        parts = tuple(self.figures.in_letters(tree) for tree in components.added(side.tree))
        self._formulas.append(Formula(side.line, side.text, component, value, parts))
        wrong = components.miscounted(value, component)
        self.checked += wrong is not None or components.is_right(value, component)
        told = any(slip.line == side.line and slip.kind == "formula" for slip in self.slips)
        if wrong and not told:
            slip = self._slip("formula", side, formula(value), formula(wrong[0]))
            slip.mended, slip.about = formula(wrong[1]), component

    def look_for_what_is_missing(self) -> None:
        """Tell of an output projection that a derivation of attention leaves out."""
        found = components.missing_output(self._formulas, self.lines)
        if found:
            attention, letter = found
            with_biases, without = components.rights("attention", letter)[1]
            side = Side(None, attention.line, attention.text)
            slip = self._slip("missing", side, formula(attention.value), formula(with_biases))
            slip.mended, slip.about = formula(without), "attention"


def _total(checking: _Checking) -> Total | None:
    """Return the figure that the article calls its total, or else its largest, and the sizes of the model it is of."""
    results = [result for result in checking.results if number_of(result.figure.mended) is not None]
    words, parts = (terms.facts()["totals"][kind] for kind in ("words", "parts"))
    called = [
        each
        for each in results
        if terms.said(each.label, words) and not terms.said(each.label, parts)
    ]
    if not results:
        return None
    figure, number, _ = max(
        called or results, key=lambda result: (not result.number.rounded, result.number.value)
    )
    mended = number_of(figure.mended) or NONE
    return Total(
        figure.line,
        checking.line(figure.line),
        number.value,
        mended,
        _sizes(checking),
        bool(called),
    )


def _sizes(checking: _Checking) -> dict[str, int]:
    """Return the sizes that an article gives its model, by the fields of a config."""
    sizes: dict[str, int] = {}
    for field, known in terms.facts()["sizes"].items():
        for name, figure in checking.sizes.items():
            named = (
                terms.said(name, known["words"])
                if name.startswith(PHRASE)
                else name in known["letters"]
            )
            value = figure.number
            if named and value is not None and value.denominator == 1:
                sizes.setdefault(field, int(value))
    return sizes


def _added(one: Figure, other: Figure, line: int) -> Figure:
    shares = {
        slip: one.shares.get(slip, NONE) + other.shares.get(slip, NONE)
        for slip in {**one.shares, **other.shares}
    }
    return Figure(one.stated + other.stated, one.mended + other.mended, shares, line)


def _repeated(figure: Figure, numbers: Sequence[Number]) -> Iterator[Figure]:
    """Yield a figure as often as the words before it may say: 3 matrices of 768×64 = 147,456."""
    for number in numbers:
        factor = constant(number.value)
        shares = {slip: share * number.value for slip, share in figure.shares.items()}
        yield Figure(figure.stated * factor, figure.mended * factor, shares, figure.line)


def _written(statement: Statement) -> str:
    signs = (f" {sign} " for sign in (*statement.relations, ""))
    return "".join(
        side.text + sign for side, sign in zip(statement.sides, signs, strict=False)
    ).strip()


def written(value: Fraction | None) -> str:
    """Write an exact number: a count in groups of three, or a fraction.

    Example:
        >>> from fractions import Fraction
        >>> written(Fraction(2359296)), written(Fraction(7, 2))
        ('2,359,296', '7/2')
    """
    if value is None:
        return ""
    whole = units.count(value.numerator)
    return whole if value.denominator == 1 else f"{whole}/{units.count(value.denominator)}"


def formula(value: Polynomial) -> str:
    """Write a formula in its own letters."""
    exact = number_of(value)
    order = sorted(value.fields(), key=lambda letter: (terms.rank_of(letter), letter))
    return written(exact) if exact is not None else value.text({name: name for name in order})
