"""Checks an article's statements with exact arithmetic, and follows each slip to its effects."""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge.algebra.expr import names_in
from weighbridge.articles.arithmetic import components
from weighbridge.articles.arithmetic.byte_counts import (
    bytes_in_unit,
    counts_bytes,
    in_plain_bytes,
    may_be_bytes,
)
from weighbridge.articles.arithmetic.components import StatedFormula
from weighbridge.articles.arithmetic.expressions import PHRASE
from weighbridge.articles.arithmetic.figures import (
    LEAST_KNOWN,
    NONE,
    Figure,
    Figures,
    Follow,
    Slip,
    is_name,
    literal,
    literal_of,
    numbers_in,
)
from weighbridge.articles.arithmetic.grammar import (
    AFTER_COMMA,
    APPROXIMATE,
    WEAK,
    Side,
    Statement,
    Unread,
)
from weighbridge.articles.arithmetic.readings import MOST_READINGS, readings
from weighbridge.articles.text import terms
from weighbridge.articles.text.exact import (
    Number,
    UnreadableError,
    constant,
    number_of,
    number_text,
)
from weighbridge.articles.text.lines import (
    FOLLOWS,
    KNOWN,
    RIGHT,
    SLIP,
    STRENGTH,
    UNREAD,
    NumberVerdict,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from weighbridge.algebra.expr import Tree
    from weighbridge.algebra.polynomial import Polynomial
    from weighbridge.articles.arithmetic.readings import StepReading
    from weighbridge.articles.text.lines import Stretch

MOST_STATEMENTS = 10_000  # together with MOST_WRITTEN, it bounds the time for an article
MOST_WRITTEN = 200_000  # characters of all arithmetic that is checked
_LEAST_WRITTEN = 8  # characters that even a short side counts as, because reading it takes time
LONGEST_SHOWN = 1000  # characters of a line
_CLEAR = 100  # numbers that differ by more than this factor are hardly meant to be equal
_LOOSE = Fraction(3, 2)  # units of the last digit by which a rough number may be off
_LOOSELY_EQUAL = 500  # numbers that differ by less than 1 in 500 are "about" equal
_CALLED_WRONG = re.compile(
    r"\b(?:wrong(?:ly)?|incorrect(?:ly)?|mistakes?|mistakenly|errors?|typos?|erroneous(?:ly)?)\b"
    r"|错误|错的|写错|算错|误写|误以为|误认为|笔误|误差",
    re.IGNORECASE,
)
"""Words by which an article quotes a number that is not right."""
_DENIED = re.compile(rf"{_CALLED_WRONG.pattern}|\bis not\b|不是|并非", re.IGNORECASE)
_SENTENCE_END = re.compile(r"(?<=[。；！？])|(?<=[.;!?])\s")
_COUNTED = re.compile(r"\b(\w{1,40})\s?[-+*/]=")
"""A name whose value a program changes."""
_DOTTED = re.compile(r"\d{1,3}\.\d{3}")
"""A number that may have a dot between thousands, if others beside it have one too."""
_MOST_JOINED = 2  # digits of the number of a list or a note that may stand at the end of a result
_LEAST_PART = 16  # a size whose multiples may be a part that a sum has and the text does not list
_RANGE = 3  # tokens: two numbers and the dash between them
_NEAR = 10  # numbers that differ by more than a tenth are not meant to be equal
_MOST_SUMMED = 64  # figures in one sum; every number is compared with that many sums


class Total(NamedTuple):
    """The article's total, as stated and with all slips corrected, and the sizes of its model.

    If the article calls nothing a total, ``called`` is false, and this is its largest figure.
    ``checked`` says whether anything in the article gives it, a calculation or rows of a table.
    """

    line: int
    text: str
    stated: Fraction
    mended: Fraction
    sizes: Mapping[str, int]
    called: bool
    checked: bool = True


class KnownSizes(NamedTuple):
    """The sizes that an article states, by the names that stand for them.

    ``given`` are the numbers that it gives to letters. ``assumed`` are the numbers that a letter or
    words may stand for, as far as the article does not say: every model's hidden size for H.
    ``fields`` are the sizes of its own model, ``foreign`` the numbers that are another's, and
    ``settled`` those of which something else, such as a table, says whether they are right.
    ``totals`` are the counts of the model's classes.
    """

    given: Mapping[str, Fraction]
    assumed: Mapping[str, Sequence[Fraction]]
    fields: Mapping[str, int]
    foreign: frozenset[Stretch]
    settled: frozenset[Stretch]
    totals: frozenset[int] = frozenset()

    def numbers(self) -> frozenset[Fraction]:
        """Return all sizes."""
        return frozenset({*self.given.values(), *chain.from_iterable(self.assumed.values())})


NO_SIZES = KnownSizes({}, {}, {}, frozenset(), frozenset())


class ValuedFormula(NamedTuple):
    """A formula in letters that an article states, the numbers in it, and its value."""

    line: int
    text: str
    numbers: tuple[Number, ...]
    value: Fraction


class Findings(NamedTuple):
    """The results of an article's checks; ``checked`` is the number of steps checked.

    ``marks`` has a verdict for each number that is part of a statement, and ``results`` the line of
    each number that was calculated. ``formulas`` are all formulas in letters, with their values.
    """

    slips: tuple[Slip, ...]
    unread: tuple[Unread, ...]
    checked: int
    total: Total | None
    marks: Mapping[Stretch, NumberVerdict]
    results: Mapping[Fraction, int]
    formulas: Sequence[ValuedFormula]


class _Result(NamedTuple):
    """The number at the end of a statement: its figure, its spelling, and the words before it.

    ``calculated`` says whether it stands after a calculation; a number alone may be a total too.
    """

    figure: Figure
    number: Number
    label: str
    calculated: bool = True


def check_statements(
    items: Iterable[Statement | Unread], lines: Sequence[str], sizes: KnownSizes = NO_SIZES
) -> Findings:
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
    checking = _Checking(statements, lines, sizes)
    for statement in statements:
        checking.read(statement)
    checking.look_for_what_is_missing()
    slips = sorted(checking.slips, key=lambda slip: slip.line)
    unread = sorted([*unread, *checking.unread], key=lambda item: item.line)
    results = {result.number.value: result.figure.line for result in reversed(checking.results)}
    total = _total(checking)
    return Findings(
        tuple(slips),
        tuple(unread),
        checking.checked,
        total,
        checking.marks,
        results,
        checking.valued_formulas,
    )


class _Checking:
    def __init__(
        self, statements: Sequence[Statement], lines: Sequence[str], sizes: KnownSizes
    ) -> None:
        self.lines, self.figures = lines, Figures(statements, sizes.given, sizes.assumed)
        self.known = sizes
        self._sizes = sizes.numbers() | self.figures.numbers_of_names()
        self.slips: list[Slip] = []
        self.marks: dict[Stretch, NumberVerdict] = {}
        self.unread: list[Unread] = []
        self.checked = 0
        self.results: list[_Result] = []
        self._refused: set[Stretch | None] = set()
        self._counted = set(chain.from_iterable(map(_COUNTED.findall, lines)))
        self._formulas: list[StatedFormula] = []
        self._components: dict[int, str] = {}
        self.valued_formulas: list[ValuedFormula] = []

    def read(self, statement: Statement) -> None:
        """Check a statement, and remember its figure; what cannot be read is reported."""
        values = [side for side in statement.sides if side.tree is not None and not is_name(side)]
        names = [side for side in statement.sides if is_name(side)]
        for side in reversed(values):
            self._attempt(statement, self._look_at_formula, side)
        figure: Figure | None = None
        if len(values) == 1:
            alone = self._alone_with_name if names else self._alone
            figure = self._attempt(statement, alone, values[0], statement)
        elif values:
            figure = self._check_chain(statement, values)
        if figure and len(statement.sides) > 1:
            self._remember(statement, names, figure)

    def _check_chain(self, statement: Statement, values: Sequence[Side]) -> Figure | None:
        """Check each step of a chain; a side that cannot be read is left out of it."""
        figure: Figure | None = None
        before = values[0]
        for side in values[1:]:
            sign = statement.relations[statement.sides.index(side) - 1]
            step = self._attempt(statement, self._step, before, side, sign, statement)
            figure = step or figure
            if step or self._has_value(side):
                before = side
        return figure

    def _attempt(
        self, statement: Statement, check: Callable[..., Figure | None], *sides: Any
    ) -> Figure | None:
        """Return the figure of a check; report the statement as unread if it cannot be read."""
        try:
            return check(*sides)
        except UnreadableError as error:
            if check == self._step and (stated := literal(sides[1])):
                self._refused.add(stated.at)
            text = _statement_text(statement)
            if not any(item.line == statement.line and item.text == text for item in self.unread):
                self.unread.append(Unread(statement.line, text, error.why, error.about))
            for side in statement.sides:
                self._mark(side.tree, UNREAD, error.why, about=error.about)
            return None

    def _has_value(self, side: Side) -> bool:
        """Return whether a side can be compared with the next one."""
        try:
            self._calculated(side)
        except UnreadableError:
            return False
        return True

    def _step(self, left: Side, right: Side, sign: str, statement: Statement) -> Figure:
        """Check a step from one side to the next."""
        if self._may_be_equal(left, right, sign):
            return self._compare(left, right, sign, statement)
        return self._alone(right, statement)

    def _mark(self, tree: Tree | None, verdict: str, reason: str, **values: str) -> None:
        """Give a verdict to the numbers of a tree; a stronger verdict before stands."""
        for number in numbers_in(tree or ()):
            if number.at is None or (verdict == RIGHT and number.at in self._refused):
                continue
            before = self.marks.get(number.at)
            if before is None or STRENGTH[before.verdict] < STRENGTH[verdict]:
                mark = NumberVerdict(number.at, number.text, verdict, reason, values)
                self.marks[number.at] = mark

    def _remember(self, statement: Statement, names: Sequence[Side], figure: Figure) -> None:
        """Assign the figure of a statement to its names, or else to its words."""
        numbers = [number for side in statement.sides for number in numbers_in(side.tree or ())]
        if any(number.at in self.known.foreign for number in numbers):
            return
        labels = [side.tree[1] for side in names if side.tree]
        if not names:
            phrases = [statement.label]
            if statement.sides[0].tree is None:
                phrases.append(statement.sides[0].text)
            labels = [PHRASE + " ".join(text.lower().split()) for text in phrases if text]
        for label in labels:
            self.figures.define(label, figure)

    # A step

    def _compare(self, left: Side, right: Side, sign: str, statement: Statement) -> Figure:
        """Compare two sides, and return the figure of the right one.

        If one side is a number, it is taken as the right one; of two numbers, the more rounded one.
        """
        left_number, right_number = literal(left), literal(right)
        if left_number and (right_number is None or _is_rougher(left_number, right_number)):
            left, right = right, left
        number = literal(right)
        if number:
            return self._against_number(left, right, sign, number, statement.label)
        return self._against_formula(left, right, sign)

    def _may_be_equal(self, left: Side, right: Side, sign: str) -> bool:
        """Return whether two sides are meant to be equal.

        They are if there is a sign between them. If there are words, the left side must be a
        calculation or close to the right one: "12 layers, about 110M" does not equate 12 and 110M.
        Two calculations, and what a comma parts, must be close: "patches of 16×16, 共 14×14".
        """
        if sign not in WEAK and not (left.words_after and literal(left)):
            return True
        left_figure, right_figure = self._calculated(left), self._calculated(right)
        left_value, right_value = left_figure.number, right_figure.number
        is_calculated = literal(left) is None and literal(right) is None
        if sign in AFTER_COMMA and is_calculated:
            return left_figure.stated == right_figure.stated
        if left_value is None or right_value is None:
            names_before, names_after = (names_in(side.tree or ()) for side in (left, right))
            return not left.words_after and set(names_before) >= set(names_after)
        if literal(left):
            return _is_near(left_value, right_value) and literal(right) is not None
        return sign not in WEAK or _may_be_said(
            left_value, right_value, sign, is_calculated=is_calculated
        )

    def _calculated(self, side: Side) -> Figure:
        return self.figures.calculated(side.tree or (), side.line)

    def _against_number(
        self, left: Side, right: Side, sign: str, number: Number, label: str
    ) -> Figure:
        """Compare the left side, in each way in which it may be read, with a number."""
        is_rounded = sign in APPROXIMATE
        left = in_plain_bytes(left, number)
        figure, fits = self._read_charitably(left, right, number, is_rounded=is_rounded)
        if not fits:
            self._refuse_to_claim(figure, left, right, sign)
        if fits:
            self._mark(left.tree, RIGHT, "calculation")
        else:
            self._mark(left.tree, KNOWN, "step")
        self._mark_effects(left.tree)
        return self._settled(figure, right, number, label, fits=fits, is_rounded=is_rounded)

    def _settled(
        self,
        figure: Figure,
        right: Side,
        number: Number,
        label: str,
        *,
        fits: bool,
        is_rounded: bool = False,
    ) -> Figure:
        """Record a number that is right or a slip, and return its figure."""
        self.checked += 1
        if figure.is_off and number_of(figure.mended) == number.value:
            figure = Figure.of(figure.mended, right.line)  # right in spite of an earlier slip
        elif not figure.is_off and number.is_whole_of(figure.number or NONE):
            figure = Figure.of(constant(number.value), right.line)
        exact, mended = figure.number or NONE, number_of(figure.mended)
        shares = dict(figure.shares)
        if fits:
            self._mark(right.tree, RIGHT, "result")
        else:
            slip = self._slip("arithmetic", right, number.text, number_text(exact))
            slip.shift, slip.mended = number.value - exact, number_text(mended)
            shares[slip] = slip.shift
            self._mark(right.tree, SLIP, "slip", correct=number_text(exact))
        is_near = fits and number.value != exact
        stated = figure.stated if is_near else constant(number.value)
        result = Figure(stated, figure.mended, shares, right.line)
        self._follow(figure, number, right, rounded=is_rounded)
        if result.is_off and not number.rounded and abs(number.value) >= LEAST_KNOWN:
            self.figures.off[number.value] = result
        self.results.append(_Result(result, number, label))
        return result

    def _mark_effects(self, tree: Tree | None) -> None:
        """Mark the numbers of a calculation that depend on a slip."""
        for number in numbers_in(tree or ()):
            figure = self.figures.off.get(number.value)
            if figure and not number.rounded:
                mended = number_text(number_of(figure.mended))
                self._mark(("value", number), FOLLOWS, "follows", mended=mended)

    def _read_charitably(
        self, left: Side, right: Side, number: Number, *, is_rounded: bool
    ) -> tuple[Figure, bool]:
        """Return the first figure of the left side that fits a number; else the one as written.

        The figure may also be repeated as often as the words before it say or, if the left side is
        itself a number, be a sum of the figures before it.

        Raises:
            UnreadableError: nothing fits, and the side as it is written has no value.
        """
        as_written: Figure | None = None
        reason = UnreadableError("not_read")
        for reading in self._bounded(readings(left, right, self.figures, self._sizes)):
            figure, slack = self._read_left(reading, left, number)
            if isinstance(figure, UnreadableError):
                reason = figure if not reading.names else reason
                continue
            as_written = as_written or figure
            for candidate in self._meant(figure, left, right, number):
                if _may_be_written(candidate, number, slack, is_rounded=is_rounded):
                    return candidate, True
        if as_written is None:
            raise reason
        return as_written, False

    def _bounded(self, ways: Iterable[StepReading]) -> Iterator[StepReading]:
        """Yield readings, up to a limit.

        Raises:
            UnreadableError: there are more.
        """
        for count, reading in enumerate(ways):
            if count == MOST_READINGS:
                raise UnreadableError("too_many_readings")
            yield reading

    def _read_left(
        self, reading: StepReading, left: Side, number: Number
    ) -> tuple[Figure | UnreadableError, Fraction]:
        """Return the figure of a reading's left side, and how far rounding may move it.

        ``number`` is its result. Where that is rounded, 2 × 10¹² may be rounded as well.
        """
        try:
            with self.figures.supposing(reading.names):
                figure = self.figures.calculated(reading.left, left.line)
                return figure, self.figures.slack(reading.left, is_rough=number.is_rough)
        except UnreadableError as error:
            return error, NONE

    def _refuse_to_claim(self, figure: Figure, left: Side, right: Side, sign: str) -> None:
        """Refuse to call a number a slip unless everything in the step is known and clear.

        Raises:
            UnreadableError: it is not a slip beyond doubt.
        """
        exact, number = figure.number, literal(right)
        if number is None:
            raise UnreadableError("not_read")
        if number.at in self.known.settled:
            raise UnreadableError("table")
        if exact is None:
            raise UnreadableError("unknown", ", ".join(sorted(figure.stated.fields())))
        for name in names_in(left.tree or ()):
            if self.figures.is_doubtful(name):
                raise UnreadableError("unclear")
        is_converted = bool(number.byte_scales) and counts_bytes(left)
        may_round = sign in APPROXIMATE and _is_near(exact, number.value)
        if literal(left) and not (is_converted or may_round):
            raise UnreadableError("two_numbers")
        _refuse_cut_off(left)
        _refuse_doubt(left, right)
        _refuse_joined_digits(exact, number)
        self._refuse_unclear_line(left, right)
        _refuse_unlikely(exact, number.value, left.text, sign)
        if exact * 1000 == number.value * 1024:  # 128,000 for 128 × 1,024
            raise UnreadableError("loose")
        loose = max(_LOOSE * number.shown_place, abs(exact) / _LOOSELY_EQUAL)
        if sign in APPROXIMATE and abs(exact - number.value) <= loose:
            raise UnreadableError("loose")

    def _refuse_unclear_line(self, left: Side, right: Side) -> None:
        """Refuse to claim a slip that the article quotes as one, or that may not be one.

        Raises:
            UnreadableError: the line says that something is wrong, the next line goes on with a
                plus, or a letter has several values, as in a program with x += 1.
        """
        if _is_called_wrong(self.line(right.line), right.text):
            raise UnreadableError("quoted")
        if self.line(right.line + 1).startswith("+"):
            raise UnreadableError("begins_where")
        names = {*names_in(left.tree or ()), *names_in(right.tree or ())}
        counted = sorted(names & self._counted)
        if counted:
            raise UnreadableError("unknown", ", ".join(counted))

    def _meant(self, figure: Figure, left: Side, right: Side, number: Number) -> list[Figure]:
        """Return the figures that the left side may mean; it may count the unit of the number."""
        candidates = [figure, *_repeated(figure, (before.value for before in left.before))]
        if number.byte_scales:
            candidates += _repeated(figure, (bytes_in_unit(number),))
        if literal(left):
            candidates += self._sums(right.line)
        return candidates

    def _against_formula(self, left: Side, right: Side, sign: str) -> Figure:
        """Compare two calculated sides, by their letters or else by their values."""
        as_written: tuple[Figure, Figure] | None = None
        for reading in self._bounded(readings(left, right, self.figures, self._sizes)):
            try:
                with self.figures.supposing(reading.names):
                    left_figure = self.figures.calculated(reading.left, left.line)
                    right_figure = self.figures.calculated(reading.right, right.line)
            except UnreadableError:
                if as_written is None and not reading.names:
                    raise
                continue
            as_written = as_written or (left_figure, right_figure)
            if _are_written_equal(left_figure, right_figure, reading) or (
                self._are_equal_in_letters(reading)
            ):
                self.checked += 1
                self._mark(left.tree, RIGHT, "calculation")
                self._mark(right.tree, RIGHT, "calculation")
                return right_figure
        if as_written is None:
            raise UnreadableError("not_read")
        self._claim_formula(*as_written, left, right, sign)
        return as_written[1]

    def _are_equal_in_letters(self, reading: StepReading) -> bool:
        """Return whether the sides are equal whatever the sizes are, or where F is 4H."""
        left = self.figures.in_letters(reading.left)
        right = self.figures.in_letters(reading.right)
        return left == right or components.with_usual_sizes(left - right) == constant(0)

    def _claim_formula(
        self, left_figure: Figure, right_figure: Figure, left: Side, right: Side, sign: str
    ) -> None:
        """Report two sides that differ as a slip.

        Raises:
            UnreadableError: their letters are not all known, or they are said to be nearly equal.
        """
        left_letters = self.figures.in_letters(left.tree or ())
        right_letters = self.figures.in_letters(right.tree or ())
        exact, stated = left_figure.number, right_figure.number
        written_left, written_right = (
            set(names_in(left.tree or ())),
            set(names_in(right.tree or ())),
        )
        unknown = left_figure.stated.fields() | right_figure.stated.fields()
        is_algebra = bool(written_right) and written_right <= written_left
        if unknown and not is_algebra:
            raise UnreadableError("unknown", ", ".join(sorted(unknown)))
        if sign in APPROXIMATE:
            raise UnreadableError("nearly")
        _refuse_cut_off(left)
        _refuse_doubt(left, right)
        self._refuse_unclear_line(left, right)
        if exact is not None and stated is not None:
            _refuse_unlikely(exact, stated, left.text, sign)
        correct = formula_text(left_letters)
        if right_letters.fields():
            slip = self._slip("letters", right, formula_text(right_letters), correct)
        else:
            correct = number_text(exact)
            slip = self._slip("arithmetic", right, right.text, correct)
        if exact is not None and stated is not None:
            slip.shift = stated - exact
        self.checked += 1
        self._mark(right.tree, SLIP, "slip", correct=correct)

    def _slip(self, kind: str, side: Side, stated: str, correct: str) -> Slip:
        slip = Slip(kind, side.line, self.line(side.line), stated, correct)
        slip.written = side.text
        self.slips.append(slip)
        return slip

    def _follow(self, figure: Figure, number: Number, side: Side, *, rounded: bool = False) -> None:
        """Add a number to the effects of the slips in its figure.

        If the number is rounded so much that the slips do not change it, they have no effect on it.
        """
        mended = number_of(figure.mended)
        if mended is None or not figure.is_off or number.fits(mended, rounded=rounded):
            return
        self._mark(side.tree, FOLLOWS, "follows", mended=number_text(mended))
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

    def _alone_with_name(self, side: Side, statement: Statement) -> Figure:
        """Read a figure that is only given to a name."""
        return self._alone(side, statement, named=True)

    def _alone(self, side: Side, statement: Statement, *, named: bool = False) -> Figure:
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
        if _overlaps(number.at, self.known.settled):
            return figure
        if number.value >= LEAST_KNOWN and terms.mentions(
            statement.label, words["totals"]["words"]
        ):
            self.results.append(_Result(figure, number, statement.label, calculated=False))
        return figure

    def _sum(self, side: Side, number: Number, label: str) -> Figure | None:
        """Check a figure that is called a sum: compare it with the sums of earlier ones.

        Which of them are meant is a guess. A number is only a slip if it is close to one of these
        sums, and a part that is not listed, such as biases, can't explain the difference.

        Raises:
            UnreadableError: it is none of the sums, and not a slip beyond doubt.
        """
        sums = self._sums(side.line)
        if not sums:
            return None
        for figure in sums:
            if _may_be_written(figure, number, NONE):
                return self._settled(figure, side, number, label, fits=True)
        if number.at in self.known.settled:
            return None
        nearest = min(sums, key=lambda figure: abs((figure.number or NONE) - number.value))
        off = number.value - (nearest.number or NONE)
        large_sizes = [size for size in self._sizes if size >= _LEAST_PART]
        is_part = any(off % size == 0 for size in large_sizes)
        if (
            number.rounded
            or not large_sizes
            or is_part
            or not _is_near(number.value, nearest.number or NONE)
        ):
            raise UnreadableError("sum_of_what")
        return self._settled(nearest, side, number, label, fits=False)

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
        self._value_formula(side, side.tree)
        value = self.figures.in_letters(side.tree)
        added_values = tuple(self.figures.in_letters(tree) for tree in components.added(side.tree))
        self._formulas.append(StatedFormula(side.line, side.text, component, value, added_values))
        wrong = components.miscounted(value, component)
        self.checked += wrong is not None or components.is_right(value, component)
        is_known = any(slip.line == side.line and slip.kind == "formula" for slip in self.slips)
        is_denied = _DENIED.search(self.line(side.line))
        if wrong and not is_known and not is_denied:
            with_biases, without_biases = wrong
            slip = self._slip("formula", side, formula_text(value), formula_text(with_biases))
            slip.mended, slip.about = formula_text(without_biases), component
            self._mark(side.tree, KNOWN, "step")

    def _value_formula(self, side: Side, tree: Tree) -> None:
        """Remember a formula with letters, and its value in the sizes that the article states."""
        names = names_in(tree)
        assumed = {}
        for name in names:
            if self.figures.meaning(name) is None:
                assumed[name] = next(iter(self.figures.possible_numbers(name)), NONE)
        if not names or not all(assumed.values()):
            return
        with self.figures.supposing(assumed):
            value = self.figures.calculated(tree, side.line).number
        if value is not None:
            formula = ValuedFormula(side.line, side.text, tuple(numbers_in(tree)), value)
            self.valued_formulas.append(formula)

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


def _may_be_written(
    figure: Figure, number: Number, slack: Fraction, *, is_rounded: bool = False
) -> bool:
    """Return whether a number may be written for a figure, as it is stated or as it is mended."""
    exact, mended = figure.number, number_of(figure.mended)
    if exact is None:
        return False
    if number.byte_scales:
        return may_be_bytes(exact, number)
    if number.fits(exact, rounded=is_rounded, slack=slack):
        return True
    if mended is None:
        return False
    return number.fits(mended, rounded=is_rounded or number.rounded)


def _is_rougher(left: Number, right: Number) -> bool:
    """Return whether the first of two numbers is the more rounded one; 2 × 10³ may be exact."""
    return left.place > right.place and (left.rounded or not left.is_power)


def _are_written_equal(left: Figure, right: Figure, reading: StepReading) -> bool:
    """Return whether two sides have one value, or the right one is the left one, rounded.

    It may be in a reading with a power put back: 1.74 × 10¹¹ for 1.74 × 1011.
    """
    number = literal_of(reading.right)
    rounds = number is not None and number.is_power and _may_be_written(left, number, NONE)
    return rounds or left.stated == right.stated


def _overlaps(at: Stretch | None, settled: Iterable[Stretch]) -> bool:
    """Return whether a number stands within a stretch of which something else decides."""
    return at is not None and any(
        at.line == other.line and at.start < other.end and other.start < at.end for other in settled
    )


def _is_called_wrong(line: str, number: str) -> bool:
    """Return whether the sentence of a line in which a number stands says that it is wrong."""
    sentences = _SENTENCE_END.split(line)
    around = [sentence for sentence in sentences if number in sentence]
    return any(_CALLED_WRONG.search(sentence) for sentence in around or sentences)


def _refuse_doubt(left: Side, right: Side) -> None:
    """Refuse to call a step wrong if what stands beside its numbers may belong to them.

    Raises:
        UnreadableError: a number is in doubt, or words and numbers stand before the right one.
    """
    for side in (left, right):
        if any(token.doubt and token.number for token in side.part[side.first : side.last]):
            raise UnreadableError("grouping")
    numbers = [*numbers_in(left.tree or ()), *numbers_in(right.tree or ())]
    dotted = [number for number in numbers if _DOTTED.fullmatch(number.text)]
    if len(dotted) > 1:  # 50.000 + 257 = 50.257
        raise UnreadableError("grouping")
    if right.before:  # 150% of 80,000
        raise UnreadableError("begins_where")


def _refuse_joined_digits(exact: Fraction, number: Number) -> None:
    """Refuse to call a result wrong if the number of a list or a note may stand at its end.

    Raises:
        UnreadableError: the result without its last digits, or with others before it, is right.
    """
    digits, expected = re.sub(r"\D", "", number.text), str(abs(exact))
    joined = len(digits) - len(expected)
    if joined < 0 and expected.endswith(digits):  # 32, 768
        raise UnreadableError("grouping")
    if 0 < joined <= _MOST_JOINED and expected.isdigit() and digits.startswith(expected):
        raise UnreadableError("joined_digits")


def _refuse_unlikely(exact: Fraction, stated: Fraction, calculation: str, sign: str) -> None:
    """Refuse to call a step wrong whose sides are hardly meant to be equal.

    Raises:
        UnreadableError: they are far apart, or a small power may be the exclusive or of a program.
    """
    smallest, largest = sorted((abs(exact), abs(stated)))
    if largest > _CLEAR * smallest:
        raise UnreadableError("unclear" if sign in WEAK else "far_apart")
    if largest < LEAST_KNOWN and "^" in calculation:
        raise UnreadableError("exclusive_or")


def _refuse_cut_off(left: Side) -> None:
    """Refuse to call a step wrong if its left side may begin before the tokens that were read.

    Raises:
        UnreadableError: an operand is beside it.
    """
    if left.first and left.part[left.first - 1].kind in ("number", "name", "close"):
        raise UnreadableError("begins_where")
    read = left.part[left.first : left.last]
    texts = [token.text for token in read]
    if len(read) == _RANGE and texts[1] == "-" and read[1].tight and read[2].tight:
        raise UnreadableError("unclear")  # layers 1-2


def _may_be_said(left: Fraction, right: Fraction, sign: str, *, is_calculated: bool) -> bool:
    """Return whether words may say that a calculation gives a number, or another calculation.

    Raises:
        UnreadableError: the number is far from it.
    """
    is_half_to_double = abs(left) <= 2 * abs(right) <= 4 * abs(left)
    if not is_half_to_double and not is_calculated:
        raise UnreadableError("unclear")
    return _is_near(left, right) or not (is_calculated or sign in AFTER_COMMA)


def _is_near(value: Fraction, other: Fraction) -> bool:
    return abs(value - other) * _NEAR <= abs(value)


def _total(checking: _Checking) -> Total | None:
    """Return the figure that the article calls its total, or else its largest.

    Of several, a count of the article's own model comes first.
    """
    results = [result for result in checking.results if number_of(result.figure.mended) is not None]
    words, parts = (terms.facts()["totals"][kind] for kind in ("words", "parts"))
    called = [
        result
        for result in results
        if terms.mentions(result.label, words) and not terms.mentions(result.label, parts)
    ]
    if not results:
        return None
    likely = called or results
    owned = [result for result in likely if result.number.value in checking.known.totals]
    likeliest = max(owned or likely, key=_likelihood)
    figure = likeliest.figure
    stated, mended = _stated_and_mended(figure, likeliest.number)
    return Total(
        figure.line,
        checking.line(figure.line),
        stated=stated,
        mended=mended,
        sizes=checking.known.fields,
        called=bool(called),
        checked=likeliest.calculated,
    )


def _stated_and_mended(figure: Figure, number: Number) -> tuple[Fraction, Fraction]:
    """Return a total as stated and with all slips corrected; of a rounded number, its figure."""
    if figure.number and number.is_rough:
        return figure.number, number_of(figure.mended) or NONE
    if not figure.is_off:
        return number.value, number.value
    return number.value, number_of(figure.mended) or NONE


def _likelihood(result: _Result) -> tuple[bool, Fraction, bool]:
    return (not result.number.is_rough, result.number.value, result.calculated)


def _added(left: Figure, right: Figure, line: int) -> Figure:
    shares = {
        slip: left.shares.get(slip, NONE) + right.shares.get(slip, NONE)
        for slip in {**left.shares, **right.shares}
    }
    return Figure(left.stated + right.stated, left.mended + right.mended, shares, line)


def _repeated(figure: Figure, factors: Iterable[Fraction]) -> Iterator[Figure]:
    """Yield a figure times each factor: 3 matrices with 768×64 = 147,456."""
    for factor in factors:
        by = constant(factor)
        shares = {slip: share * factor for slip, share in figure.shares.items()}
        yield Figure(figure.stated * by, figure.mended * by, shares, figure.line)


def _statement_text(statement: Statement) -> str:
    text = statement.sides[0].text
    for relation, side in zip(statement.relations, statement.sides[1:], strict=True):
        text += f" {relation} {side.text}"
    return text.strip().replace(" , ", ", ")


def formula_text(value: Polynomial) -> str:
    """Write a formula in its own letters."""
    exact = number_of(value)
    if exact is not None:
        return number_text(exact)
    order = sorted(value.fields(), key=lambda letter: (terms.rank_of(letter), letter))
    return value.text({letter: letter for letter in order})
