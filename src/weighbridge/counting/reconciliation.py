"""Finds the ways of counting under which a model gives a published number, or says that none does, and what is nearest.

The search is over all conventions at once: every class of the family, what is left out of it in
every combination, what is counted besides, and what is counted in place of it. A way is one only if
none of its conventions can be spared.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from fractions import Fraction
from functools import cached_property
from itertools import combinations, product
from math import ceil, floor
from typing import TYPE_CHECKING, Any, NamedTuple
from unicodedata import normalize

from weighbridge.counting.conventions import (
    WITH,
    WITHOUT,
    count,
    formula,
    letters,
    lora,
    padded,
    rows_of,
    rows_of_checkpoint,
    table,
)
from weighbridge.errors import UsageError
from weighbridge.ledger.ledger import bind
from weighbridge.units import stored_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from weighbridge.counting.conventions import Row, Rows
    from weighbridge.models.find import Model
    from weighbridge.readers import Found

# Numbers as people write them


class Number(NamedTuple):
    """A published number: the value, half of its last digit that counts, and its unit, ``"B"`` for bytes.

    ``loose`` is half of the last digit that is not a zero: "340M" may be rounded to tens of
    millions.
    """

    text: str
    value: Fraction
    half: Fraction
    loose: Fraction
    is_bytes: bool = False
    scales: tuple[int, ...] = (1,)

    @property
    def is_exact(self) -> bool:
        """Whether it is given to the last digit."""
        return self.half < 1 and not self.is_bytes


_SUFFIXES = {
    "": 1,
    "k": 10**3,
    "thousand": 10**3,
    "m": 10**6,
    "mn": 10**6,
    "million": 10**6,
    "b": 10**9,
    "bn": 10**9,
    "billion": 10**9,
    "t": 10**12,
    "trillion": 10**12,
    "万": 10**4,
    "百万": 10**6,
    "千万": 10**7,
    "亿": 10**8,
    "十亿": 10**9,
    "万亿": 10**12,
}
# What people write MB they mean as 10^6 or as 2^20; with an i only the second.
_BYTES = {
    "bytes": (1,),
    "字节": (1,),
    "kb": (10**3, 2**10),
    "mb": (10**6, 2**20),
    "gb": (10**9, 2**30),
    "tb": (10**12, 2**40),
    "kib": (2**10,),
    "mib": (2**20,),
    "gib": (2**30,),
    "tib": (2**40,),
}
_MOST_DIGITS = 30
_NUMBER = re.compile(r"[~≈约]?\s*([0-9]{1,3}(?:[,_ ][0-9]{3})+|[0-9]+)(\.[0-9]+)?\s*([^\W\d_]*)")


def number(text: str | int) -> Number:
    """Read a number as people write it.

    Raises:
        UsageError: it is no number, or has an unknown unit, or too many digits.

    Example:
        >>> number("108,808,704").value, number("110M").half, number("1.1亿").half
        (Fraction(108808704, 1), Fraction(500000, 1), Fraction(5000000, 1))
        >>> number("413.18 MB").scales
        (1000000, 1048576)
    """
    text = str(text).strip()
    found = _NUMBER.fullmatch(normalize("NFKC", text)) if len(text) <= 4 * _MOST_DIGITS else None
    hint = "write it as 108808704, 108,808,704, 110M, 0.11B, 1.1亿 or 418MiB"
    if not found:
        raise UsageError("is no number", where=_cut(text), hint=hint)
    digits, decimals, unit = re.sub(r"\D", "", found[1]), (found[2] or "")[1:], found[3].lower()
    if len(digits + decimals) > _MOST_DIGITS:
        raise UsageError(f"has more than {_MOST_DIGITS} digits", where=_cut(text), hint=hint)
    if unit not in _SUFFIXES and unit not in _BYTES:
        raise UsageError(
            "has a unit that nobody knows", where=_cut(text), values={"unit": found[3]}, hint=hint
        )
    value, step = (
        Fraction(int(digits + decimals), 10 ** len(decimals)),
        Fraction(1, 10 ** len(decimals)),
    )
    zeros = 0 if decimals or unit in _BYTES else len(digits) - len(digits.rstrip("0"))
    scales = _BYTES.get(unit, (_SUFFIXES.get(unit, 1),))
    half = step * scales[0] / 2
    return Number(text, value * scales[0], half, half * 10**zeros, unit in _BYTES, scales)


def _cut(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:40]}…"


# Ways of counting


class Step(NamedTuple):
    """One convention of a way: its name, what is particular in it, the tensors that it concerns, what it changes."""

    convention: str
    values: tuple[tuple[str, Any], ...]
    tensors: int
    change: int


class Way(NamedTuple):
    """A way of counting: a class of the model, what is counted otherwise, and what it comes to.

    ``total`` are the class's unique parameters; ``steps`` change it to ``parameters``. Of a number
    of bytes, ``bytes`` are those that are meant, of a ``dtype``, read in units of ``scale``.
    ``rounding`` is 0 where the number is met to its last digit, 1 where only to its last digit that
    is not a zero.
    """

    class_name: str
    total: int
    steps: tuple[Step, ...]
    parameters: int
    rounding: int = 0
    bytes: int | None = None
    dtype: str = ""
    scale: int = 1

    @property
    def key(self) -> tuple[object, ...]:
        """What makes it the same way of another model: the class and the conventions, whatever they come to."""
        steps = tuple((step.convention, *step.values) for step in self.steps if step.convention)
        plain = tuple(
            (name, *(value for value in rest if value[0] not in _OWN)) for name, *rest in steps
        )
        return self.class_name, plain, self.dtype, self.scale


_OWN = ("padded",)  # what is particular in a model, not in the way


class Near(NamedTuple):
    """A way that does not give a number: what it lacks of it, and what that is equal to, if it is equal to anything."""

    way: Way
    gap: int
    gap_is: tuple[tuple[str, dict[str, Any]], ...]


class Reconciliation(NamedTuple):
    """What is found of a number: the ways that give it, simplest first; the nearest where none does."""

    number: Number
    matches: tuple[Way, ...]
    nearest: tuple[Near, ...]


def reconcile(model: Model, wanted: Number, classes: Sequence[str] | None = None) -> Reconciliation:
    """Find the ways of counting under which a model gives a number, or rounds to it.

    Where none does, the nearest of no, one and two conventions are told, those first whose gap is
    equal to something.

    Example:
        >>> from weighbridge.models.find import find
        >>> found = reconcile(find("bert-base-uncased"), number("108,808,704"))
        >>> [(step.convention, step.change) for step in found.matches[0].steps]
        [('linear_biases', -82944), ('pooler', -590592)]
        >>> reconcile(find("bert-base-uncased"), number(109_418_952)).matches
        ()
    """
    blueprint = model.blueprint
    subjects = [
        (name, rows_of(bind(blueprint, name, model.fields))) for name in _names(model, classes)
    ]
    return _reconciled(_distinct(subjects), wanted, (model.named_class, blueprint.base_class))


def reconcile_checkpoint(found: Found, wanted: Number) -> Reconciliation:
    """Find the ways of counting under which what a checkpoint holds gives a number.

    Example:
        >>> from weighbridge.ledger.rows import Row
        >>> from weighbridge.readers import Found
        >>> row = Row("pooler.dense.weight", (3, 3), "F32", "", (), 9, 9)
        >>> found = Found("a.pt", "PyTorch", (row,), {}, ("a.pt",), 0, {}, {}, (), None)
        >>> reconcile_checkpoint(found, number(9)).matches[0].class_name
        'a.pt'
    """
    return _reconciled([(found.path, rows_of_checkpoint(found))], wanted, (found.path, found.path))


def _reconciled(
    subjects: Sequence[tuple[str, Rows]], wanted: Number, usual: tuple[str, str]
) -> Reconciliation:
    """Search the ways of several classes; ``usual`` are the one that is named and the base class."""
    found, near = list[Way](), list[Near]()
    for name, rows in subjects:
        of_class = _Count(rows, name, usual[1])
        found += of_class.matching(wanted)
        if not found:
            near += of_class.nearest(wanted)
    if not found:
        return Reconciliation(wanted, (), tuple(_told(near, wanted)))
    order = {name: at for at, name in enumerate(table())}
    base = {way.parameters for way in found if way.class_name == usual[1]}
    plain = [way for way in found if way.parameters not in base or not _has(way, "heads")]
    return Reconciliation(
        wanted, tuple(sorted(plain, key=lambda way: _simplicity(way, wanted, usual, order))), ()
    )


def _has(way: Way, convention: str) -> bool:
    return any(step.convention == convention for step in way.steps)


def _told(near: Sequence[Near], wanted: Number) -> Iterator[Near]:
    """Yield the nearest of each number of conventions, and before them those whose gap is equal to something."""
    told = set[int]()
    for each in sorted(
        near, key=lambda each: (not each.gap_is, len(each.way.steps), _far(each.way, wanted))
    ):
        if each.gap_is and not told:
            told.add(len(each.way.steps))
            yield each
    for steps in range(_NEAR + 1):
        of_as_many = [each for each in near if len(each.way.steps) == steps]
        if of_as_many and steps not in told:
            yield min(of_as_many, key=lambda each: _far(each.way, wanted))


def _names(model: Model, classes: Sequence[str] | None) -> Iterable[str]:
    """Return the classes to look at, the base class and the one that the config names first."""
    blueprint = model.blueprint
    return classes or dict.fromkeys(
        (blueprint.base_class, model.named_class, *blueprint.class_names)
    )


def _distinct(subjects: Iterable[tuple[str, Rows]]) -> list[tuple[str, Rows]]:
    """Return the classes that differ in what they hold."""
    seen: dict[tuple[object, ...], tuple[str, Rows]] = {}
    for name, rows in subjects:
        seen.setdefault(
            (count(rows), tuple(sorted(row.elements for row in rows if row.tied))), (name, rows)
        )
    return list(seen.values())


def _simplicity(
    way: Way, wanted: Number, usual: tuple[str, str], order: dict[str, int]
) -> tuple[object, ...]:
    """Return what ways are ranked by: few conventions first, then how near, then a class that is not far-fetched."""
    of_class = usual.index(way.class_name) if way.class_name in usual else len(usual)
    free = way.bytes is not None  # what takes bytes is counted so, buffers too
    steps = [step for step in way.steps if not (free and step.convention == "buffers")]
    odd = (
        way.rounding
        + len(steps)
        + (way.dtype not in ("", "F32"))
        + sum(step.change > 0 for step in steps) / 4
    )
    ranks = tuple(order[step.convention] for step in steps)
    distance = 0 if wanted.is_exact else _far(way, wanted)
    return odd, max(ranks, default=0), distance, of_class, ranks


def _far(way: Way, wanted: Number) -> Fraction:
    if way.bytes is None:
        return abs(way.parameters - wanted.value)
    return abs(Fraction(way.bytes, way.scale) - wanted.value / wanted.scales[0])


class _Count:
    """All ways of counting one class: every subset of what can be left out, by what it comes to."""

    def __init__(self, rows: Rows, class_name: str, base_class: str) -> None:
        self.rows, self.class_name, self.base_class = rows, class_name, base_class
        self.total = count(self.rows)
        self.counted = [row for row in self.rows if not row.tied and not row.buffer]
        hit = {name: {row.at for row in choose(self.rows)} for name, choose in WITHOUT.items()}
        real = {row.at for row in self.counted if row.elements}
        self.without = [name for name, rows in hit.items() if rows & real and not real <= rows]
        self.hit = [hit[name] for name in self.without]
        self.masks = [self._mask(row) for row in self.rows]
        self.subsets = list(self._subsets())
        self.totals = sorted(self._totals(), key=lambda found: found[1])

    def _mask(self, row: Row) -> int:
        return sum(1 << at for at, rows in enumerate(self.hit) if row.at in rows)

    def _sums(self, elements: Mapping[int, int]) -> list[int]:
        """Return what is left of so many elements a row, for every subset of what is left out."""
        size = 1 << len(self.without)
        left = [0] * size
        for at, number_of in elements.items():
            left[self.masks[at]] += number_of
        for bit in (
            1 << at for at in range(len(self.without))
        ):  # of all that stays: the subsets of the complement
            for mask in range(size):
                if mask & bit:
                    left[mask] += left[mask ^ bit]
        return [left[size - 1 - mask] for mask in range(size)]

    def _subsets(self) -> Iterator[int]:
        """Yield the subsets in which nothing can be spared, small ones first."""
        alone = {self.masks[row.at] for row in self.counted if row.elements}
        for mask in sorted(range(1 << len(self.without)), key=int.bit_count):
            bits = [1 << at for at in range(len(self.without)) if mask >> at & 1]
            if all(any(each & mask == bit for each in alone) for bit in bits):
                yield mask

    def _totals(self) -> Iterator[tuple[int, int, tuple[Step, ...]]]:
        """Yield what every way comes to: the subset that is left out, the sum, and the steps besides."""
        plain = self._sums({row.at: row.elements for row in self.counted})
        besides = list(self._besides())
        some = [each for size in range(len(besides) + 1) for each in combinations(besides, size)]
        changes = [
            (*base, *beside)
            for base in ((), *((one,) for one in self._otherwise()))
            for beside in some
        ]
        for mask in self.subsets:
            for of_all in changes:
                steps = tuple(of_mask[mask] for of_mask in of_all)
                if all(step.change for step in steps):
                    yield mask, plain[mask] + sum(step.change for step in steps), steps

    def _besides(self) -> Iterator[list[Step]]:
        """Yield what may be counted besides: a step for every subset of what is left out, which is not counted so."""
        for name, choose in WITH.items():
            rows = [row for row in choose(self.rows) if row.elements]
            if rows:
                yield self._steps(name, (), {row.at: row.elements for row in rows})

    def _otherwise(self) -> Iterator[list[Step]]:
        """Yield what may be counted otherwise, one at a time: a padded vocabulary, or active experts alone."""
        seen, size = set[tuple[int, ...]](), letters(self.rows).get("V", 0)
        for multiple in table()["padded_vocabulary"]["multiples"]:
            of_row = padded(self.rows, multiple)
            more = {row.at: of_row[row.at] for row in self.counted if row.at in of_row}
            if more and tuple(more.values()) not in seen:
                seen.add(tuple(more.values()))
                values = (("multiple", multiple), ("padded", size + -size % multiple))
                yield self._steps("padded_vocabulary", values, more)
        words = {
            row.at: row.words - row.elements
            for row in self.counted
            if row.words not in (0, row.elements)
        }
        if words:
            yield self._steps("stored_words", (), words)
        fewer = {
            row.at: row.active - row.elements for row in self.counted if row.active != row.elements
        }
        if fewer:
            yield self._steps("active", (), fewer)

    def _steps(
        self, name: str, values: tuple[tuple[str, Any], ...], changes: Mapping[int, int]
    ) -> list[Step]:
        """Return what a convention changes, for every subset of what is left out."""
        tensors = self._sums({at: self.rows[at].places for at in changes})
        return [
            Step(name, values, *each) for each in zip(tensors, self._sums(changes), strict=True)
        ]

    def way(self, mask: int, sum_of: int, steps: tuple[Step, ...], **more: Any) -> Way:
        """Return a way with each of its steps."""
        return Way(self.class_name, self.total, (*self._left_out(mask), *steps), sum_of, **more)

    def _left_out(self, mask: int) -> Iterator[Step]:
        """Yield what is left out, each tensor once: with the part that it is in, before what runs through all parts."""
        names = [at for at in range(len(self.without)) if mask >> at & 1]
        taken, found = set[int](), {}
        for at in sorted(names, key=lambda at: self.without[at] in _THROUGHOUT):
            rows = [row for row in self.counted if row.at in self.hit[at] and row.at not in taken]
            taken |= {row.at for row in rows}
            change = -sum(row.elements for row in rows)
            found[at] = Step(self.without[at], (), sum(row.places for row in rows), change)
        yield from (
            found[at] for at in sorted(names, key=lambda at: self.without[at] not in _THROUGHOUT)
        )

    def _instead(self) -> Iterator[Way]:
        """Yield what is counted in place of the parameters: formulas, what LoRA trains.

        No head changes them.
        """
        if self.class_name != self.base_class:
            return
        for name, entry in table().items():
            if entry["kind"] == "instead" and (value := formula(self.rows, entry["formula"])):
                yield self._in_place(name, (), value)
            elif entry["kind"] == "lora":
                for rank in entry["ranks"]:
                    for target, of in entry["targets"].items():
                        if value := lora(self.rows, rank, of["roles"]):
                            yield self._in_place(name, (("rank", rank), ("targets", target)), value)

    def _in_place(self, name: str, values: tuple[tuple[str, Any], ...], value: int) -> Way:
        return Way(self.class_name, self.total, (Step(name, values, 0, value - self.total),), value)

    def matching(self, wanted: Number) -> Iterator[Way]:
        """Yield the ways that give a number, or round to it; none of whose conventions can be spared."""
        if wanted.is_bytes:
            yield from self._matching_bytes(wanted)
            return
        for rounding, half in enumerate(dict.fromkeys((wanted.half, wanted.loose))):
            found = list(self._within(wanted.value - half, wanted.value + half))
            if found:
                yield from (way._replace(rounding=rounding) for way in found)
                return

    def _within(self, low: Fraction, high: Fraction) -> Iterator[Way]:
        least, most = ceil(low), floor(high) if high != floor(high) else floor(high) - 1
        if low == high:
            least = most = floor(low)
        found: list[frozenset[str]] = []
        first = bisect_left(self.totals, least, key=lambda found: found[1])
        last = bisect_right(self.totals, most, key=lambda found: found[1])
        hits = sorted(self.totals[first:last], key=lambda hit: hit[0].bit_count() + len(hit[2]))
        for mask, sum_of, steps in hits:
            left_out = (name for at, name in enumerate(self.without) if mask >> at & 1)
            names = frozenset((*left_out, *map(_named, steps)))
            if not any(spared <= names for spared in found):
                found.append(names)
                yield self.way(mask, sum_of, steps)
        yield from (way for way in self._instead() if least <= way.parameters <= most)

    def _matching_bytes(self, wanted: Number) -> Iterator[Way]:
        buffers = [row for row in self.rows if row.buffer]
        elements = sum(row.elements for row in buffers)
        beside = Step("buffers", (), len(buffers), elements)
        written, half = wanted.value / wanted.scales[0], wanted.half / wanted.scales[0]
        for scale, dtype, more in product(
            wanted.scales, _DTYPES, dict.fromkeys((0, stored_bytes(elements, "I64")))
        ):
            width = stored_bytes(1, dtype)
            low, high = ((written + sign * half) * scale - more for sign in (-1, 1))
            for way in self._within(low / width, high / width):
                if not _has(way, "buffers"):  # they have a dtype of their own
                    steps = (*way.steps, beside) if more else way.steps
                    taken = way.parameters * width + more
                    yield way._replace(steps=steps, bytes=taken, dtype=dtype, scale=scale)

    def nearest(self, wanted: Number) -> Iterator[Near]:
        """Yield ways of few conventions that do not give a number, with the gap and what it is equal to."""
        if wanted.is_bytes:
            for scale in wanted.scales:
                for dtype in _DTYPES:
                    taken = stored_bytes(self.total, dtype)
                    way = Way(
                        self.class_name,
                        self.total,
                        (),
                        self.total,
                        bytes=taken,
                        dtype=dtype,
                        scale=scale,
                    )
                    yield Near(way, round(wanted.value / wanted.scales[0] * scale) - taken, ())
            return
        for mask, sum_of, steps in self.totals:
            if mask.bit_count() + len(steps) <= _NEAR:
                gap = round(wanted.value) - sum_of
                yield Near(
                    self.way(mask, sum_of, steps), gap, tuple(self._equal(gap, sum_of, wanted))
                )

    def _equal(self, gap: int, total: int, wanted: Number) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield what a gap is equal to: a term once or twice, of one place or all, or a slip in the digits."""
        for name, times, whole in self.terms.get(abs(gap), ()):
            more = "more" if gap > 0 else "less"
            yield f"{'term' if whole else 'place'}_{more}", {"name": name, "times": times}
        stated, true = str(round(wanted.value)), str(total)
        wrong = [
            at
            for at, (ours, theirs) in enumerate(zip(stated, true, strict=False))
            if ours != theirs
        ]
        if wanted.is_exact and len(stated) == len(true):
            if len(wrong) == 1:
                yield (
                    "digit",
                    {
                        "place": len(true) - wrong[0],
                        "stated": stated[wrong[0]],
                        "true": true[wrong[0]],
                    },
                )
            if (
                wrong[1:] == [wrong[0] + 1]
                and stated[wrong[0]] + stated[wrong[1]] == true[wrong[1]] + true[wrong[0]]
            ):
                yield "swapped", {"digits": stated[wrong[0] : wrong[1] + 1]}

    @cached_property
    def terms(self) -> dict[int, list[tuple[str, int, bool]]]:
        """What a gap may be equal to: the elements of a tensor, once or twice, in all places or in one."""
        found: dict[int, list[tuple[str, int, bool]]] = {}
        for row in self.counted:
            for times in (1, 2):
                found.setdefault(times * row.elements, []).append((row.name, times, True))
                if row.places > 1:
                    found.setdefault(times * row.elements // row.places, []).append(
                        (row.name, times, False)
                    )
        return found


_THROUGHOUT = ("linear_biases", "norms")
_DTYPES = ("F32", "F16", "I8")
_NEAR = 2  # conventions of a way that is only near


def _named(step: Step) -> str:
    return f"{step.convention} {step.values}" if step.values else step.convention


# Tables of published numbers


class TableRow(NamedTuple):
    """A row of a table: what it names, its model, where that can be built, the number, and the ways that give it."""

    name: str
    number: Number
    ways: tuple[Way, ...]
    problem: str = ""


class TableFit(NamedTuple):
    """What is found of a table: the one way that fits most rows, and those that it does not fit."""

    rows: tuple[TableRow, ...]
    way: Way | None
    fitting: tuple[TableRow, ...]
    slips: tuple[TableRow, ...]


def fit(rows: Iterable[TableRow]) -> TableFit:
    """Find the one way of counting that gives the numbers of all rows, or of the most, and the rows that it does not.

    Of ways that fit as many, the one with the fewest conventions is taken.
    """
    told = tuple(rows)
    by_key: dict[tuple[object, ...], list[tuple[TableRow, Way]]] = {}
    for row in told:
        for key, way in {way.key: way for way in reversed(row.ways)}.items():
            by_key.setdefault(key, []).append((row, way))
    if not by_key:
        return TableFit(told, None, (), told)
    best = max(
        by_key.values(),
        key=lambda found: (len(found), -len(found[0][1].steps), -found[0][1].rounding),
    )
    fitting = tuple(row for row, _ in best)
    return TableFit(told, best[0][1], fitting, tuple(row for row in told if row not in fitting))
