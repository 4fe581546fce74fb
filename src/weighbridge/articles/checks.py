"""Checks an article's statements with exact arithmetic, and follows each slip to its effects."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, NamedTuple

from weighbridge import units
from weighbridge.algebra.expr import names_in
from weighbridge.articles import components, terms
from weighbridge.articles.components import StatedFormula
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

MOST_STATEMENTS = 10_000  # together with MOST_WRITTEN, it bounds the time for an article
MOST_WRITTEN = 200_000  # characters of all arithmetic that is checked
_LEAST_WRITTEN = 8  # characters that even a short side counts as, because reading it takes time
LONGEST_SHOWN = 1000  # characters of a line
_NEAR = 10  # numbers that differ by more than a tenth are not meant to be equal
_MOST_SUMMED = 64  # figures in one sum; every number is compared with that many sums


class Total(NamedTuple):
    """The article's total, as stated and with all slips corrected, and the sizes of its model.

    If the article calls nothing a total, ``called`` is false, and this is its largest figure.
    """

    line: int
    text: str
    stated: Fraction
    mended: Fraction
    sizes: Mapping[str, int]
    called: bool


class Findings(NamedTuple):
    """The results of an article's checks; ``checked`` is the number of steps checked."""

    slips: tuple[Slip, ...]
    unread: tuple[Unread, ...]
    checked: int
    total: Total | None


class _Result(NamedTuple):
    """The number at the end of a statement: its figure, its spelling, and the words before it."""

    figure: Figure
    number: Number
    label: str


def check_statements(items: Iterable[Statement | Unread], lines: Sequence[str]) -> Findings:
    """Check the statements of an article.

    ``lines`` are the article's lines, for the words around a formula and to show a slip.
    """
    unread: list[Unread] = []
    statements: list[Statement] = []
    written_so_far = 0
    for item in items:
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
            unread.append(
                Unread(statement.line, _statement_text(statement), error.why, error.about)
            )
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
        self.sizes: dict[str, Figure] = {}
        """Letters and words that the article equates with a number, without a calculation."""
        self._formulas: list[StatedFormula] = []
        self._components: dict[int, str] = {}

    def read(self, statement: Statement) -> None:
        """Check a statement, and remember its figure."""
        values = [side for side in statement.sides if side.tree is not None and not is_name(side)]
        names = [side for side in statement.sides if is_name(side)]
        for side in reversed(values):
            self._look_at_formula(side)
        if not values:
            return
        figure = None
        for left, right in pairwise(values):
            sign = statement.relations[statement.sides.index(right) - 1]
            if self._may_be_equal(left, right, sign):
                figure = self._compare(left, right, sign, statement)
            else:
                figure = self._alone(right, statement, named=False)
        if figure is None:
            figure = self._alone(values[-1], statement, named=bool(names))
        if len(statement.sides) > 1:
            is_size = len(values) == 1 and literal(values[0]) is not None
            self._remember(statement, names, figure, is_size=is_size)

    def _remember(
        self, statement: Statement, names: Sequence[Side], figure: Figure, *, is_size: bool
    ) -> None:
        """Assign the figure of a statement to its names, or else to its words."""
        labels = [side.tree[1] for side in names if side.tree]
        if not names:
            phrases = [statement.label]
            if statement.sides[0].tree is None:
                phrases.append(statement.sides[0].text)
            labels = [PHRASE + " ".join(text.lower().split()) for text in phrases if text]
        for label in labels:
            self.figures.define(label, figure)
            if is_size:
                self.sizes.setdefault(label, figure)

    # A step

    def _compare(self, left: Side, right: Side, sign: str, statement: Statement) -> Figure:
        """Compare two sides, and return the figure of the right one.

        If one side is a number, it is taken as the right one; of two numbers, the more rounded one.
        """
        left_number, right_number = literal(left), literal(right)
        if left_number and (right_number is None or left_number.place > right_number.place):
            left, right = right, left
        figure = self._calculated(left)
        if literal(right):
            return self._against_number(figure, left, right, sign, statement.label)
        right_figure = self._calculated(right)
        self._against_formula(figure, right_figure, left, right, sign)
        return right_figure

    def _may_be_equal(self, left: Side, right: Side, sign: str) -> bool:
        """Return whether two sides are meant to be equal.

        They are if there is a sign between them. If there are words, the left side must be a
        calculation or close to the right one: "12 layers, about 110M" does not equate 12 and 110M.
        """
        if sign not in WEAK and not (left.words_after and literal(left)):
            return True
        left_value, right_value = self._calculated(left).number, self._calculated(right).number
        if left_value is None or right_value is None:
            left_names, right_names = (
                set(names_in(left.tree or ())),
                set(names_in(right.tree or ())),
            )
            return not left.words_after and left_names >= right_names
        if literal(left):
            return _is_near(left_value, right_value) and literal(right) is not None
        is_half_to_double = abs(left_value) <= 2 * abs(right_value) <= 4 * abs(left_value)
        if sign in WEAK and not is_half_to_double:
            raise UnreadableError("unclear")
        return True

    def _calculated(self, side: Side) -> Figure:
        return self.figures.calculated(side.tree or (), side.line)

    def _against_number(
        self, figure: Figure, left: Side, right: Side, sign: str, label: str
    ) -> Figure:
        """Compare the figure of the left side with the number on the right."""
        number, is_rounded = literal(right), sign in APPROXIMATE
        if number is None or figure.number is None:
            raise UnreadableError("unknown", ", ".join(sorted(figure.stated.fields())))
        self.checked += 1
        slack = self.figures.slack(left.tree) if left.tree else NONE
        fits = number.fits(figure.number, rounded=is_rounded, slack=slack)
        if not fits:
            figure = self._meant(figure, left, right, number)
            fits = number.fits(figure.number or NONE, rounded=is_rounded, slack=slack)
        exact, mended = figure.number or NONE, number_of(figure.mended)
        if not fits and mended is not None and (is_rounded or number.rounded):
            fits = number.fits(mended, rounded=True)  # it rounds the correct value
        shares = dict(figure.shares)
        if not fits:
            slip = self._slip("arithmetic", right, number.text, number_text(exact))
            slip.shift, slip.mended = number.value - exact, number_text(mended)
            shares[slip] = slip.shift
        is_near = fits and number.value != exact
        stated = figure.stated if is_near else constant(number.value)
        result = Figure(stated, figure.mended, shares, right.line)
        self._follow(figure, number, right, rounded=is_rounded)
        if result.is_off and not number.rounded and abs(number.value) >= LEAST_KNOWN:
            self.figures.off[number.value] = result
        self.results.append(_Result(result, number, label))
        return result

    def _meant(self, figure: Figure, left: Side, right: Side, number: Number) -> Figure:
        """Return another figure that the left side may mean, if it equals the number.

        This is the figure times a number among the words before it or, if the left side is itself a
        number, a sum of the figures before it.
        """
        candidates = list(_repeated(figure, left.before))
        if literal(left):
            candidates += self._sums(right.line)
        for candidate in candidates:
            if candidate.number == number.value:
                return candidate
        return figure

    def _against_formula(
        self, left_figure: Figure, right_figure: Figure, left: Side, right: Side, sign: str
    ) -> None:
        """Compare two calculated sides, by their letters or else by their values."""
        left_letters = self.figures.in_letters(left.tree or ())
        right_letters = self.figures.in_letters(right.tree or ())
        if left_letters != right_letters and left_figure.stated != right_figure.stated:
            _refuse_to_compare(left_figure, right_figure, sign)
            exact, stated = left_figure.number, right_figure.number
            correct = formula_text(left_letters)
            if right_letters.fields():
                slip = self._slip("letters", right, formula_text(right_letters), correct)
            else:
                if exact is not None:
                    correct = number_text(exact)
                slip = self._slip("arithmetic", right, right.text, correct)
            if exact is not None and stated is not None:
                slip.shift = stated - exact
        self.checked += 1

    def _slip(self, kind: str, side: Side, stated: str, correct: str) -> Slip:
        slip = Slip(kind, side.line, self.line(side.line), stated, correct)
        self.slips.append(slip)
        return slip

    def _follow(self, figure: Figure, number: Number, side: Side, *, rounded: bool = False) -> None:
        """Add a number to the effects of the slips in its figure.

        If the number is rounded so much that the slips do not change it, they have no effect on it.
        """
        mended = number_of(figure.mended)
        if mended is None or number.fits(mended, rounded=rounded):
            return
        for slip, share in figure.shares.items():
            text = self.line(side.line)
            follow = Follow(side.line, text, number.text, number_text(mended), share)
            slip.follows.append(follow)

    def line(self, line: int) -> str:
        """Return a line of the article."""
        if not 0 < line <= len(self.lines):
            return ""
        text = self.lines[line - 1].strip()
        if len(text) > LONGEST_SHOWN:
            return f"{text[:LONGEST_SHOWN]}…"
        return text

    # A figure without a calculation

    def _alone(self, side: Side, statement: Statement, *, named: bool) -> Figure:
        """Read a figure that is not compared with anything.

        It is called a sum of the figures before it, or repeats one of them, or is new.
        """
        number = literal(side)
        if number is None:
            return self._calculated(side)
        words = terms.facts()
        if not named and terms.mentions(statement.label, words["sums"]["words"]):
            figure = self._sum(side, number, statement.label)
            if figure:
                return figure
        again = self.figures.off.get(number.value)
        if again:
            self._follow(again, number, side)
            return again
        figure = Figure.of(constant(number.value), side.line)
        if number.value >= LEAST_KNOWN and terms.mentions(
            statement.label, words["totals"]["words"]
        ):
            self.results.append(_Result(figure, number, statement.label))
        return figure

    def _sum(self, side: Side, number: Number, label: str) -> Figure | None:
        """Check a figure that is called a sum: compare it with the nearest sum of earlier ones."""
        sums = self._sums(side.line)
        if not sums:
            return None
        nearest = min(sums, key=lambda figure: abs((figure.number or NONE) - number.value))
        if not _is_near(number.value, nearest.number or NONE):
            raise UnreadableError("sum_of_what")
        return self._against_number(nearest, Side(None, side.line, ""), side, "=", label)

    def _sums(self, line: int) -> list[Figure]:
        """Return the sums of the last results: of the last two, the last three, and so on."""
        figures = [
            result.figure
            for result in self.results[-_MOST_SUMMED:]
            if result.figure.number is not None
        ]
        sums = accumulate(reversed(figures), lambda total, figure: _added(total, figure, line))
        return list(sums)[1:]

    # A formula of a component

    def _look_at_formula(self, side: Side) -> None:
        if side.tree is None or side.tree[0] in ("value", "name"):
            return
        if side.line not in self._components:
            self._components[side.line] = components.component_on_line(self.lines, side.line)
        component = self._components[side.line]
        value = self.figures.in_letters(side.tree)
        added_values = tuple(self.figures.in_letters(tree) for tree in components.added(side.tree))
        self._formulas.append(StatedFormula(side.line, side.text, component, value, added_values))
        wrong = components.miscounted(value, component)
        self.checked += wrong is not None or components.is_right(value, component)
        is_known = any(slip.line == side.line and slip.kind == "formula" for slip in self.slips)
        if wrong and not is_known:
            with_biases, without_biases = wrong
            slip = self._slip("formula", side, formula_text(value), formula_text(with_biases))
            slip.mended, slip.about = formula_text(without_biases), component

    def look_for_what_is_missing(self) -> None:
        """Look for a derivation of attention that leaves out the output projection."""
        missing = components.missing_output(self._formulas, self.lines)
        if missing is None:
            return
        attention, letter = missing
        with_biases, without_biases = components.rights("attention", letter)[1]
        side = Side(None, attention.line, attention.text)
        stated, correct = formula_text(attention.value), formula_text(with_biases)
        slip = self._slip("missing", side, stated, correct)
        slip.mended, slip.about = formula_text(without_biases), "attention"


def _is_near(value: Fraction, other: Fraction) -> bool:
    return abs(value - other) * _NEAR <= abs(value)


def _refuse_to_compare(left: Figure, right: Figure, sign: str) -> None:
    """Refuse two formulas whose letters are not all known, or that are said to be nearly equal.

    Raises:
        UnreadableError: always, except for formulas that must be equal.
    """
    left_letters, right_letters = left.stated.fields(), right.stated.fields()
    if not (left_letters <= right_letters or right_letters <= left_letters):
        raise UnreadableError("unknown", ", ".join(sorted(left_letters ^ right_letters)))
    if sign in APPROXIMATE:
        raise UnreadableError("nearly")


def _total(checking: _Checking) -> Total | None:
    """Return the figure that the article calls its total, or else its largest."""
    results = [result for result in checking.results if number_of(result.figure.mended) is not None]
    words, parts = (terms.facts()["totals"][kind] for kind in ("words", "parts"))
    called = [
        result
        for result in results
        if terms.mentions(result.label, words) and not terms.mentions(result.label, parts)
    ]
    if not results:
        return None
    figure, number, _ = max(
        called or results, key=lambda result: (not result.number.rounded, result.number.value)
    )
    return Total(
        figure.line,
        checking.line(figure.line),
        stated=number.value,
        mended=number_of(figure.mended) or NONE,
        sizes=_model_sizes(checking),
        called=bool(called),
    )


def _model_sizes(checking: _Checking) -> dict[str, int]:
    """Return the sizes that an article gives its model, by the fields of a config."""
    sizes: dict[str, int] = {}
    for field, field_names in terms.facts()["sizes"].items():
        for name, figure in checking.sizes.items():
            value = figure.number
            if value is None or value.denominator != 1:
                continue
            if _is_one_of(name, field_names):
                sizes.setdefault(field, int(value))
    return sizes


def _is_one_of(name: str, field_names: Mapping[str, list[str]]) -> bool:
    if name.startswith(PHRASE):
        return terms.mentions(name, field_names["words"])
    return name in field_names["letters"]


def _added(left: Figure, right: Figure, line: int) -> Figure:
    shares = {
        slip: left.shares.get(slip, NONE) + right.shares.get(slip, NONE)
        for slip in {**left.shares, **right.shares}
    }
    return Figure(left.stated + right.stated, left.mended + right.mended, shares, line)


def _repeated(figure: Figure, numbers: Sequence[Number]) -> Iterator[Figure]:
    """Yield a figure times each number in the words before it: 3 matrices with 768×64 = 147,456."""
    for number in numbers:
        factor = constant(number.value)
        shares = {slip: share * number.value for slip, share in figure.shares.items()}
        yield Figure(figure.stated * factor, figure.mended * factor, shares, figure.line)


def _statement_text(statement: Statement) -> str:
    text = statement.sides[0].text
    for relation, side in zip(statement.relations, statement.sides[1:], strict=True):
        text += f" {relation} {side.text}"
    return text.strip()


def number_text(value: Fraction | None) -> str:
    """Write an exact number: an integer with digits in groups of three, or a fraction.

    Example:
        >>> from fractions import Fraction
        >>> number_text(Fraction(2359296)), number_text(Fraction(7, 2))
        ('2,359,296', '7/2')
    """
    if value is None:
        return ""
    if value.denominator == 1:
        return units.count(value.numerator)
    return f"{units.count(value.numerator)}/{units.count(value.denominator)}"


def formula_text(value: Polynomial) -> str:
    """Write a formula in its own letters."""
    exact = number_of(value)
    if exact is not None:
        return number_text(exact)
    order = sorted(value.fields(), key=lambda letter: (terms.rank_of(letter), letter))
    return value.text({letter: letter for letter in order})
