"""Puts back operators that were lost when a page was copied: ``768768123`` is 768*768/12*3.

Some copies of pages have lost every ``=``, ``*``, ``+`` and ``/``. If the sizes of the model are
known, the digits of a calculation can only be cut in few ways (`_cuttings`). Which operators stood
between them follows from its value: one that the text states behind it, or one that the model has
(`_Search`). Only ``+``, ``*`` and a division by the number of heads are tried: with a minus, too
many values can be reached by chance.

Readings that are the same polynomial of the sizes are one reading. A calculation is restored only
if all its readings are one, or the others are much less likely. So what is restored is right or
not restored; it is never a slip.
"""

from __future__ import annotations

import re
from itertools import pairwise, product
from typing import TYPE_CHECKING, NamedTuple

from weighbridge.articles.text.allowance import Allowance

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

_SMALL_COUNTS = (2, 3, 4)  # matrices, layers and norms that articles count besides the sizes
_LONGEST_RUN = 120  # characters; the longest known has 62
_MOST_CUTTINGS = 12
_MOST_STEPS = 50_000
"""The bound of the search in one line, a tenth of a second; the longest known run takes 5,000."""
_MOST_STEPS_IN_ALL = 200_000  # of the searches in all lines; the longest article takes 15,000


class Restored(NamedTuple):
    """A calculation whose operators were lost: ``line[start:end]``, and how it reads.

    ``name`` is that of the value among the known ones, or "" if the line states it: ``stated`` has
    the columns of that number. If the search met its bound, ``cut`` is true, nothing is restored,
    and ``text`` is empty.
    """

    start: int
    end: int
    text: str
    value: int
    name: str
    stated: tuple[int, int] | None
    cut: bool = False


def restore(
    line_text: str,
    sizes: Collection[int],
    heads: int | None,
    known: Mapping[int, str],
    allowance: Allowance | None = None,
) -> list[Restored]:
    """Return the calculations of a line whose operators were lost and can be put back.

    A line with an operator has lost none, so nothing in it is restored.

    Args:
        line_text: the line.
        sizes: the sizes of the model that the article states, and results that it has by then.
        heads: the number of attention heads, the only size that divides.
        known: values that the model has, such as the weights of a layer, with their names. They
            are what a calculation may come to that has no value beside it.
        allowance: the steps that are left for all lines of the article (`allowance_for_restoring`).

    Example:
        >>> restore("embedding参数(305225122)768", [30522, 512, 2, 768], 12, {23835648: "all"})
        [Restored(start=11, end=25, text='(30522+512+2)*768', value=23835648, name='all',
                  stated=None, cut=False)]
    """
    if _OPERATOR.search(line_text):
        return []
    several = frozenset(size for size in sizes if size > 1)
    allowance = allowance or allowance_for_restoring()
    search = _Search(heads, allowance.lend(_MOST_STEPS))
    article = _Article(line_text, several, known, search)
    restored = []
    for runs in _lists_of_runs(line_text):
        try:
            restored += _restored_list(article, runs) or _restored_each(article, runs)
        except _TooLong:
            restored += [_cut(run) for run in runs]
    allowance.take_back(search.steps_left)
    return restored


def allowance_for_restoring() -> Allowance:
    """Return the steps that the search may take in all lines of an article."""
    return Allowance(_MOST_STEPS_IN_ALL)


class _Article(NamedTuple):
    """A line, and what is known when it is read."""

    line: str
    sizes: frozenset[int]
    known: Mapping[int, str]
    search: _Search


_OPERATOR = re.compile(r"[*×·=+^]")

# The digits of a calculation


class _Run(NamedTuple):
    """Digits and brackets without anything between them: their columns, and their text."""

    start: int
    end: int
    text: str


_DIGITS_AND_BRACKETS = re.compile(r"(?<!\d\.)(?<!\d)[\d()（）]{4,}(?!\.\d)")
_HEADING = re.compile(r"(?<=.)\(\d{1,2}\)$")
"""The number of the next heading, which sticks to the run."""
_BETWEEN_RUNS = re.compile(r"[,，、;；]\s?|和|\s?and\s")


def _lists_of_runs(line: str) -> Iterator[list[_Run]]:
    """Yield the runs of a line; those with only a comma between them together."""
    runs: list[_Run] = []
    for matched in _DIGITS_AND_BRACKETS.finditer(line):
        run = _trimmed(matched.start(), matched[0].replace("（", "(").replace("）", ")"))
        if not run:
            continue
        if runs and not _BETWEEN_RUNS.fullmatch(line[runs[-1].end : run.start]):
            yield runs
            runs = []
        runs.append(run)
    if runs:
        yield runs


def _trimmed(start: int, text: str) -> _Run | None:
    """Return a run without brackets of the text around it; None if its brackets do not match."""
    start += len(text) - len(text.lstrip(")"))
    text = text.lstrip(")").rstrip("(")
    text = _HEADING.sub("", text)
    surplus = text.count("(") - text.count(")")
    if surplus > 0 and text.startswith("("):
        start, text = start + 1, text[1:]
    if surplus < 0 and text.endswith(")"):
        text = text[:-1]
    if not _CALCULATION.fullmatch(text):
        return None
    return _Run(start, start + len(text), text)


_CALCULATION = re.compile(r"(?:\d+|\(\d+\))+")
"""Brackets are not nested: no article that lost its operators had such."""


def _cuttings(text: str, sizes: frozenset[int]) -> list[tuple[float, _Sequence]]:
    """Return the ways to cut a calculation into operands, with their costs, the cheapest first."""
    cuttings: list[tuple[float, _Sequence]] = [(0.0, ())]
    for part in re.findall(r"\d+|\(\d+\)", text):
        numbers = _numbers(part.strip("()"), sizes)
        longer = []
        for cost, sequence in cuttings:
            for cost_of_part, operands in numbers:
                items: _Sequence = operands
                if part.startswith("("):
                    items = (operands,)
                longer.append((cost + cost_of_part, (*sequence, *items)))
        cuttings = sorted(longer, key=_cost_first)[:_MOST_CUTTINGS]
    return cuttings


_Numbers = tuple[int, ...]
_Item = int | _Numbers  # an operand, or those in a pair of brackets
_Sequence = tuple[_Item, ...]


def _numbers(digits: str, sizes: frozenset[int]) -> list[tuple[float, _Numbers]]:
    """Return the cheapest ways to cut digits into sizes and small counts.

    Each operand costs 1 if it is a size, so the fewest and longest operands come first.
    """
    costs = {str(count): 1.5 for count in _SMALL_COUNTS} | {str(size): 1.0 for size in sizes}
    by_end: list[list[tuple[float, _Numbers]]] = [[(0.0, ())]]
    for end in range(1, len(digits) + 1):
        ways = []
        for operand, cost in costs.items():
            start = end - len(operand)
            if start >= 0 and digits.startswith(operand, start):
                ways += [(cost + before, (*way, int(operand))) for before, way in by_end[start]]
        by_end.append(sorted(ways, key=_cost_first)[:_MOST_CUTTINGS])
    return by_end[-1]


def _cost_first(way: tuple[float, object]) -> float:
    return way[0]


# The operators


class _Sum(NamedTuple):
    """A calculation under way: the sum of the terms before the last one, and the last one.

    Each has a mark too, its value modulo a prime where each size has a random value. Calculations
    with the same mark are the same polynomial of the sizes.
    """

    value: int
    term: int
    mark: int
    term_mark: int

    @property
    def total_mark(self) -> int:
        return (self.mark + self.term_mark) % _PRIME

    def joined(self, sign: str, value: int, mark: int) -> _Sum:
        """Return the calculation with one more operand."""
        if sign == "+":
            return _Sum(self.value + self.term, value, self.total_mark, mark)
        if sign == "*":
            return _Sum(self.value, self.term * value, self.mark, self.term_mark * mark % _PRIME)
        inverse = pow(mark, -1, _PRIME)
        return _Sum(self.value, self.term // value, self.mark, self.term_mark * inverse % _PRIME)

    def missing(self, sign: str, total: int) -> int:
        """Return the operand with which the calculation comes to a total; 0 if there is none."""
        if sign == "+":
            return total - self.value - self.term
        factor, rest = divmod(total - self.value, self.term)
        if rest:
            return 0
        return factor


class _Written(NamedTuple):
    """The cheapest text of a calculation."""

    cost: float
    text: str


class _Solution(NamedTuple):
    """A calculation that comes to a target."""

    cost: float
    text: str
    value: int
    mark: int

    @property
    def is_of_products(self) -> bool:
        """Whether the first term is more than a size, as those of parameters are: not 768+2."""
        return not _BARE_FIRST_TERM.match(self.text)

    def plus(self, other: _Solution) -> _Solution:
        """Return the sum of two calculations."""
        text = " + ".join(filter(None, (self.text, _spaced(other.text))))
        mark = hash((self.mark, other.mark))
        return _Solution(self.cost + other.cost, text, self.value + other.value, mark)


_BARE_FIRST_TERM = re.compile(r"\d+\+")
_PRIME = 2**61 - 1
_COSTS = {"*": 1.0, "/": 1.0, "+": 1.6}  # parameters are products more often than sums
_CLEAR = 1.2  # the lead in cost with which one polynomial is taken before others


class _TooLong(Exception):  # noqa: N818  # it is caught here, and never an error of the user
    """The search is at its bound."""


_Operands = dict[tuple[int, int], _Written]
"""What can stand at one place: values and marks, with their texts."""


class _Search:
    """The calculations that operands can be, up to a limit, in a bounded number of steps."""

    def __init__(self, heads: int | None, steps: int) -> None:
        self.heads = heads
        self.limit = 0
        self.steps_left = steps

    def all_up_to(self, sequence: _Sequence, limit: int) -> list[_Solution]:
        """Return the cheapest calculation of each polynomial up to a value."""
        self.limit = limit * (self.heads or 1)  # a division may follow
        totals = _totals(self._sums(sequence))
        solutions = [_Solution(*written, *total) for total, written in totals.items()]
        return [solution for solution in solutions if solution.is_of_products]

    def solutions(self, sequence: _Sequence, targets: Collection[int]) -> list[_Solution]:
        """Return the cheapest calculation of each polynomial that comes to a target."""
        if len(sequence) > 1 and isinstance(sequence[-1], tuple):
            return self._with_last_bracket(sequence, targets)
        solutions = self.all_up_to(sequence, max(targets))
        return [solution for solution in solutions if solution.value in targets]

    def _with_last_bracket(self, sequence: _Sequence, targets: Collection[int]) -> list[_Solution]:
        """Look up, for all that can be before the last bracket, the value it must have."""
        self.limit = max(targets) * (self.heads or 1)
        *_, before, last = sequence
        by_value: dict[int, list[tuple[int, _Written]]] = {}
        for (value, mark), written in self._operands(last).items():
            by_value.setdefault(value, []).append((mark, written))
        solutions: dict[tuple[int, int], _Solution] = {}
        for begun, (cost, text) in self._sums(sequence[:-1]).items():
            for target in targets:
                for sign in self._signs(before, last):
                    for mark, bracket in by_value.get(begun.missing(sign, target), ()):
                        self._step()
                        total_mark = begun.joined(sign, 0, mark).total_mark
                        solution = _Solution(
                            cost + _COSTS[sign] + bracket.cost,
                            text + sign + bracket.text,
                            target,
                            total_mark,
                        )
                        key = (target, total_mark)
                        solutions[key] = min(solution, solutions.get(key, solution))
        return [solution for solution in solutions.values() if solution.is_of_products]

    def _sums(self, sequence: _Sequence) -> dict[_Sum, _Written]:
        """Return all calculations with the operands of a sequence."""
        sums: dict[_Sum, _Written] = {}
        for (value, mark), written in self._operands(sequence[0]).items():
            sums[_Sum(0, value, 0, mark)] = written
        for before, item in pairwise(sequence):
            sums = self._longer(sums, before, item)
        return sums

    def _longer(
        self, sums: dict[_Sum, _Written], before: _Item, item: _Item
    ) -> dict[_Sum, _Written]:
        """Put one more operand behind each calculation, with each operator."""
        longer: dict[_Sum, _Written] = {}
        operands = self._operands(item)
        signs = self._signs(before, item)
        for (begun, written), ((value, mark), operand) in product(sums.items(), operands.items()):
            for sign in signs:
                self._step()
                joined = begun.joined(sign, value, mark)
                if joined.value + joined.term > self.limit:
                    continue
                cost = written.cost + _COSTS[sign] + operand.cost
                if joined not in longer or cost < longer[joined].cost:
                    longer[joined] = _Written(cost, written.text + sign + operand.text)
        return longer

    def _operands(self, item: _Item) -> _Operands:
        if isinstance(item, int):
            return {(item, _mark(item)): _Written(0.0, str(item))}
        operands = {}
        for total, (cost, text) in _totals(self._sums(item)).items():
            operands[total] = _Written(cost, f"({text})")
        return operands

    def _signs(self, before: _Item, item: _Item) -> str:
        """Return the operators that can stand between two operands."""
        if item == self.heads and _is_multiple(before, item):
            return "*+/"
        return "*+"

    def _step(self) -> None:
        self.steps_left -= 1
        if self.steps_left < 0:
            raise _TooLong


def _is_multiple(item: _Item, divisor: int) -> bool:
    return isinstance(item, int) and item > divisor and item % divisor == 0


def _totals(sums: dict[_Sum, _Written]) -> _Operands:
    """Return the values of calculations with their marks, and the cheapest text of each."""
    totals: _Operands = {}
    for calculation, written in sums.items():
        total = (calculation.value + calculation.term, calculation.total_mark)
        totals[total] = min(written, totals.get(total, written))
    return totals


def _mark(operand: int) -> int:
    """Return a random value for a size, always the same."""
    return hash((operand, operand)) % _PRIME or 1


# The value


class _Numeral(NamedTuple):
    """A number in the text: its columns, and the values that it may round."""

    start: int
    end: int
    low: float
    high: float


_BEHIND = re.compile(
    r"[^\d;；!！?？()]{0,12}?(?P<digits>\d[\d,]{0,19})(?!\d)"
    r"(?:[.。](?P<decimals>\d{1,6}))?\s?(?P<unit>[KMB万亿]?)"
)
_UNITS = {"": 1, "K": 10**3, "万": 10**4, "M": 10**6, "亿": 10**8, "B": 10**9}
_FEWEST_DIGITS = 5  # of a stated value; one of fewer digits is soon reached by chance
_LONGEST_VALUE = 12  # digits
_FEWEST_DIGITS_ALONE = 6  # of a calculation without a stated value; 2412 may be a year
_MOST_OPERANDS_OF_ROUNDED = 6  # with more, some reading comes near any number


def _restored_each(article: _Article, runs: list[_Run]) -> list[Restored]:
    """Return the calculations of runs that can be put back."""
    restored = []
    for run in runs:
        if len(run.text) > _LONGEST_RUN:
            restored.append(_cut(run))
        elif not run.text.isdigit() or int(run.text) not in article.sizes | article.known.keys():
            restored += _with_stated_value(article, run) or _with_known_value(article, run)
    return restored


def _cut(run: _Run) -> Restored:
    return Restored(run.start, run.end, "", 0, "", None, cut=True)


def _with_stated_value(article: _Article, run: _Run) -> list[Restored]:
    """Restore a run whose value follows it, as the last digits of the run or the next number."""
    stated: dict[_Solution, tuple[int, int]] = {}
    for length in _lengths_of_value(article, run):
        value = int(run.text[-length:])
        for solution in _solutions(article, run.text[:-length], [value]):
            stated[solution] = (run.end - length, run.end)
    numeral = _number_behind(article.line, run.end)
    if numeral and numeral.low == numeral.high:
        for solution in _solutions(article, run.text, [int(numeral.low)]):
            stated[solution] = (numeral.start, numeral.end)
    chosen = _clearest(stated)
    if not chosen:
        return []
    start, end = stated[chosen]
    text = _spaced(chosen.text)
    return [Restored(run.start, min(start, run.end), text, chosen.value, "", (start, end))]


def _lengths_of_value(article: _Article, run: _Run) -> Iterator[int]:
    """Yield how many of the last digits of a run may be its value.

    A value of a few digits is soon reached by chance, so it must be one that the model has.
    """
    for length in range(2, min(len(run.text), _LONGEST_VALUE)):
        value = run.text[-length:]
        if not value.isdigit():
            return
        is_known = int(value) in article.sizes or int(value) in article.known
        if value[0] != "0" and (is_known or length >= _FEWEST_DIGITS):
            yield length


def _with_known_value(article: _Article, run: _Run) -> list[Restored]:
    """Restore a run that comes to a value of the model."""
    targets = article.known.keys() - article.sizes
    if len(run.text) < _FEWEST_DIGITS_ALONE or not targets:
        return []
    chosen = _clearest(_solutions(article, run.text, targets))
    if not chosen:
        return []
    name = article.known[chosen.value]
    return [Restored(run.start, run.end, _spaced(chosen.text), chosen.value, name, None)]


def _restored_list(article: _Article, runs: list[_Run]) -> list[Restored]:
    """Return the sum of a list of calculations, if it rounds to a number behind the list."""
    numeral = _number_behind(article.line, runs[-1].end)
    cuttings = [_cuttings(run.text[:_LONGEST_RUN], article.sizes)[:1] for run in runs]
    operands = sum(len(sequence) for ways in cuttings for _, sequence in ways)
    is_short = all(cuttings) and operands <= _MOST_OPERANDS_OF_ROUNDED
    if len(runs) == 1 or not is_short or not numeral or numeral.low == numeral.high:
        return []
    sums = [_Solution(0.0, "", 0, 0)]
    for [(_, sequence)] in cuttings:
        parts = article.search.all_up_to(sequence, int(numeral.high))
        sums = [begun.plus(part) for begun, part in product(sums, parts)]
    chosen = _clearest([total for total in sums if numeral.low <= total.value <= numeral.high])
    if not chosen:
        return []
    start, end = runs[0].start, runs[-1].end
    return [Restored(start, end, chosen.text, chosen.value, "", (numeral.start, numeral.end))]


def _number_behind(line: str, column: int) -> _Numeral | None:
    """Return the next number behind a column, if it may be the value of what is before it."""
    matched = _BEHIND.match(line, column)
    if not matched:
        return None
    digits, decimals = matched["digits"].replace(",", ""), matched["decimals"] or ""
    if matched["unit"] or decimals:
        step = _UNITS[matched["unit"]] / 10 ** len(decimals)
        value = int(digits + decimals) * step
        return _Numeral(matched.start("digits"), matched.end(), value - step / 2, value + step / 2)
    if len(digits) < _FEWEST_DIGITS:
        return None
    return _Numeral(matched.start("digits"), matched.end(), int(digits), int(digits))


def _solutions(article: _Article, text: str, targets: Collection[int]) -> list[_Solution]:
    """Return the calculations with the digits of a text that come to one of the targets."""
    solutions = []
    for cost, sequence in _cuttings(text, article.sizes):
        if len(sequence) > 1 or isinstance(sequence[0], tuple):
            found = article.search.solutions(sequence, targets)
            solutions += [solution._replace(cost=solution.cost + cost) for solution in found]
    return solutions


def _clearest(solutions: Iterable[_Solution]) -> _Solution | None:
    """Return the cheapest solution, if none of another polynomial is nearly as cheap."""
    ranked = sorted(solutions)
    if not ranked:
        return None
    best = ranked[0]
    for rival in ranked[1:]:
        is_other = (rival.value, rival.mark) != (best.value, best.mark)
        if is_other and rival.cost < best.cost + _CLEAR:
            return None
    return best


def _spaced(text: str) -> str:
    """Return a calculation with blanks around each + of a sum of products."""
    brackets = _BRACKET.findall(text)
    outside = _with_blanks(_BRACKET.sub("()", text))
    for bracket in brackets:
        outside = outside.replace("()", f"({_with_blanks(bracket[1:-1])})", 1)
    return outside


_BRACKET = re.compile(r"\([^()]+\)")


def _with_blanks(total: str) -> str:
    is_of_products = "*" in total or "/" in total
    return total.replace("+", " + ") if is_of_products else total
