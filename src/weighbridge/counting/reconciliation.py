"""Finds the ways of counting under which a model has a published number of parameters.

The search covers all combinations of conventions: each class of the family, what is left out, what
is counted in addition, and what is counted instead. A way is listed only if it needs all of its
conventions. If no way gives the number, the nearest ones are returned.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from fractions import Fraction
from functools import cached_property
from itertools import chain, combinations, product
from math import ceil, floor
from typing import TYPE_CHECKING, Any, NamedTuple
from unicodedata import normalize

from weighbridge.counting.conventions import (
    BESIDE,
    BUFFERS,
    WITH,
    WITHOUT,
    formula_letters,
    formula_value,
    lora_parameters,
    padded,
    rows_of,
    rows_of_checkpoint,
    table,
    unique_parameters,
)
from weighbridge.counting.parts import parts_of
from weighbridge.counting.plausibility import (
    MOST_STEPS,
    chance_limit,
    improbability,
    neighbourhood,
)
from weighbridge.errors import UsageError
from weighbridge.ledger.ledger import bind
from weighbridge.units import stored_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from weighbridge.counting.conventions import CountedRow, Rows
    from weighbridge.counting.parts import PartIndex, PartName
    from weighbridge.ledger.ledger import Ledger
    from weighbridge.models.find import Model
    from weighbridge.readers import StoredCheckpoint

# Published numbers as people write them


ROUNDED, CUT_OFF, TO_ZEROS = range(3)
"""How a way gives a number: all its digits, cut off instead of rounded, or rounded to its zeros."""


class PublishedNumber(NamedTuple):
    """A published number: its value, and how far it may be rounded.

    ``half`` is half a unit of the last digit, and ``loose`` half a unit of the last digit other
    than 0: "340M" may be rounded to tens of millions. ``cut`` is the unit of the last digit if the
    digits after it may have been cut off instead of rounded, and 0 otherwise. A number of bytes is
    read in each of the ``scales``.
    """

    text: str
    value: Fraction
    half: Fraction
    loose: Fraction
    is_bytes: bool = False
    scales: tuple[int, ...] = (1,)
    cut: Fraction = Fraction(0)

    @property
    def is_exact(self) -> bool:
        """Whether the number is not rounded."""
        return self.half < 1 and not self.is_bytes

    @property
    def windows(self) -> Iterator[tuple[int, Fraction, Fraction]]:
        """The kinds of rounding, each with the lowest total and the end of those that fit."""
        yield ROUNDED, self.value - self.half, self.value + self.half
        if self.cut:
            yield CUT_OFF, self.value + self.half, self.value + self.cut
        if self.loose > self.half:
            yield TO_ZEROS, self.value - self.loose, self.value + self.loose


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
# MB may mean 10^6 or 2^20 bytes, but MiB only the latter.
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


_HINT = "write it as 108808704, 108,808,704, 110M, 0.11B, 1.1亿 or 418MiB"
_MOST_SHOWN = 40  # characters of a text in an error message


def read_number(text: str | int) -> PublishedNumber:
    """Read a number as people write it.

    Raises:
        UsageError: the text is not a number, has an unknown unit, or has too many digits.

    Example:
        >>> read_number("108,808,704").value, read_number("110M").half, read_number("1.1亿").half
        (Fraction(108808704, 1), Fraction(500000, 1), Fraction(5000000, 1))
        >>> read_number("413.18 MB").scales
        (1000000, 1048576)
    """
    text = str(text).strip()
    parts = None
    if len(text) <= 4 * _MOST_DIGITS:
        parts = _NUMBER.fullmatch(normalize("NFKC", text))
    if not parts:
        raise UsageError("is not a number", where=_shortened(text), hint=_HINT)
    digits, decimals, unit = re.sub(r"\D", "", parts[1]), (parts[2] or "")[1:], parts[3].lower()
    if len(digits + decimals) > _MOST_DIGITS:
        message = f"has more than {_MOST_DIGITS} digits"
        raise UsageError(message, where=_shortened(text), hint=_HINT)
    if unit not in _SUFFIXES and unit not in _BYTES:
        message, values = "has an unknown unit", {"unit": parts[3]}
        raise UsageError(message, where=_shortened(text), values=values, hint=_HINT)
    value = Fraction(int(digits + decimals), 10 ** len(decimals))
    scales = _BYTES.get(unit, (_SUFFIXES.get(unit, 1),))
    half = Fraction(1, 10 ** len(decimals)) * scales[0] / 2
    loose, cut = half, Fraction(0)
    if unit not in _BYTES:
        if not decimals:
            loose = half * 10 ** _rounded_zeros(digits, is_whole=not unit)
        if unit:
            cut = 2 * half
    return PublishedNumber(text, value * scales[0], half, loose, unit in _BYTES, scales, cut)


_MOST_DIGITS_OF_ROUNDED = 5  # 108,310,000 may be rounded; 268,435,456,000 is a product
_LEAST_ZEROS_OF_ROUNDED = 3  # people round to thousands or more


def _rounded_zeros(digits: str, *, is_whole: bool) -> int:
    """Return the number of trailing zeros that may come from rounding.

    A number with all its digits has many other digits, or ends in a few zeros by chance.
    """
    significant = digits.rstrip("0")
    zeros = len(digits) - len(significant)
    if is_whole and zeros < _LEAST_ZEROS_OF_ROUNDED:
        return 0
    if is_whole and len(significant) > _MOST_DIGITS_OF_ROUNDED:
        return 0
    return zeros


def _shortened(text: str) -> str:
    if len(text) <= _MOST_SHOWN:
        return text
    return f"{text[:_MOST_SHOWN]}…"


# Ways of counting


class CountingStep(NamedTuple):
    """One convention of a way: its name, its values, its number of tensors, and its change."""

    convention: str
    values: tuple[tuple[str, Any], ...]
    tensors: int
    change: int


class Way(NamedTuple):
    """A way of counting: a class of the model, and the conventions of its count.

    ``total`` is the number of the class's unique parameters, and ``steps`` change it to
    ``parameters``. For a number of bytes, ``bytes`` is the size in a ``dtype``, read in units of
    ``scale``. ``rounding`` is `ROUNDED`, `CUT_OFF` or `TO_ZEROS`. ``perhaps`` marks a way that may
    give the number by chance, and ``known`` one that the number is known to count.
    """

    class_name: str
    total: int
    steps: tuple[CountingStep, ...]
    parameters: int
    rounding: int = 0
    bytes: int | None = None
    dtype: str = ""
    scale: int = 1
    perhaps: bool = False
    known: bool = False

    @property
    def is_total(self) -> bool:
        """Whether it counts a class as it is: all parameters, or all that one token uses."""
        steps = self.steps
        if self.bytes is not None:  # a file's size includes its buffers
            steps = steps_of_parameters(steps)
        return not steps or [step.convention for step in steps] == ["active"]

    @property
    def is_sum(self) -> bool:
        """Whether it counts the total with tensors left out or added."""
        return bool(self.steps and self.steps[0].tensors) and self.bytes is None

    @property
    def key(self) -> tuple[object, ...]:
        """The class and the conventions without their numbers: the same way for every model."""
        steps: list[tuple[Any, ...]] = []
        for step in self.steps:
            if step.convention:
                values = [value for value in step.values if value[0] not in _VALUES_OF_A_MODEL]
                steps.append((step.convention, *values))
        return self.class_name, tuple(steps), self.dtype, self.scale


_VALUES_OF_A_MODEL = ("padded",)


def steps_of_parameters(steps: tuple[CountingStep, ...]) -> tuple[CountingStep, ...]:
    """Return the steps that do not count buffers."""
    return tuple(step for step in steps if step.convention != "buffers")


class Near(NamedTuple):
    """A way that does not give a number, the gap to it, and what the gap equals."""

    way: Way
    gap: int
    gap_is: tuple[tuple[str, dict[str, Any]], ...]


class PartOfClass(NamedTuple):
    """A part of a class that has a number of parameters, or rounds to it."""

    class_name: str
    name: PartName
    perhaps: bool = False


class Reconciliation(NamedTuple):
    """The ways and the parts that give a number, the most plausible first.

    If none is plausible, the nearest ways are given too.
    """

    number: PublishedNumber
    matches: tuple[Way, ...]
    nearest: tuple[Near, ...]
    parts: tuple[PartOfClass, ...] = ()

    @property
    def fits(self) -> bool:
        """Whether a way or a part gives the number, and not perhaps by chance."""
        is_chance = [way.perhaps for way in self.matches]
        is_chance += [part.perhaps for part in self.parts]
        return not all(is_chance)


def reconcile_model(
    model: Model, wanted: PublishedNumber, classes: Sequence[str] | None = None
) -> Reconciliation:
    """Find the ways of counting and the parts that give a number, or round to it.

    If none does, the nearest ways with zero, one and two conventions are returned. A way whose gap
    can be explained comes first.

    Example:
        >>> from weighbridge.models.find import find
        >>> model = find("bert-base-uncased")
        >>> found = reconcile_model(model, read_number("108,808,704"))
        >>> [(step.convention, step.change) for step in found.matches[0].steps]
        [('linear_biases', -82944), ('pooler', -590592)]
        >>> [part.name.text() for part in reconcile_model(model, read_number(590_592)).parts][0]
        'pooler'
        >>> reconcile_model(model, read_number(109_418_952)).matches
        ()
    """
    return search_of(model, classes).find(wanted)


def search_of(model: Model, classes: Sequence[str] | None = None) -> Search:
    """Return the search for the numbers of a model, in all classes of its family or in some."""
    blueprint = model.blueprint
    # The base class and the one in the config come first.
    names = classes or dict.fromkeys(
        (blueprint.base_class, model.named_class, *blueprint.class_names)
    )
    ledgers = {name: bind(blueprint, name, model.fields) for name in names}
    subjects = _distinct((name, rows_of(ledger, model.given)) for name, ledger in ledgers.items())
    usual = (model.named_class, blueprint.base_class)
    return Search(subjects, usual, [ledgers[name] for name, _ in subjects])


def reconcile_simply(model: Model, wanted: PublishedNumber) -> tuple[Way, ...]:
    """Return the plausible ways of counting the usual classes, with at most two conventions.

    Example:
        >>> from weighbridge.models.find import find
        >>> ways = reconcile_simply(find("bert-base-uncased"), read_number("108,891,648"))
        >>> [step.convention for step in ways[0].steps]
        ['pooler']
    """
    usual = (model.named_class, model.blueprint.base_class)
    subjects = [
        (name, rows_of(bind(model.blueprint, name, model.fields), model.given))
        for name in dict.fromkeys(usual)
    ]
    search = Search(_distinct(subjects), usual, most_steps=_SIMPLE)
    return tuple(way for way in search.likely(wanted).matches if not way.perhaps)


_SIMPLE = 2  # more conventions give almost any number for almost any model


def reconcile_checkpoint(found: StoredCheckpoint, wanted: PublishedNumber) -> Reconciliation:
    """Find the ways of counting under which a checkpoint gives a number.

    Example:
        >>> from weighbridge.ledger.rows import Row
        >>> from weighbridge.readers import StoredCheckpoint
        >>> row = Row("pooler.dense.weight", (3, 3), "F32", "", (), 9, 9)
        >>> found = StoredCheckpoint("a.pt", "PyTorch", (row,), {}, ("a.pt",), 0, {}, {}, (), None)
        >>> reconcile_checkpoint(found, read_number(9)).matches[0].class_name
        'a.pt'
    """
    subjects = [(found.path, rows_of_checkpoint(found))]
    return Search(subjects, (found.path, found.path)).find(wanted)


class Search:
    """The ways of counting several classes, and their parts, in which numbers are looked up.

    ``usual`` are the named class and the base class. Parts need ``ledgers``.
    """

    def __init__(
        self,
        subjects: Iterable[tuple[str, Rows]],
        usual: tuple[str, str],
        ledgers: Sequence[Ledger] = (),
        most_steps: int | None = None,
    ) -> None:
        self.usual, self.ledgers = usual, ledgers
        self.counts = [_Count(rows, name, usual[1], most_steps) for name, rows in subjects]

    @cached_property
    def indexes(self) -> list[tuple[str, PartIndex]]:
        """The parts of each class."""
        return [(ledger.class_name, parts_of(ledger)) for ledger in self.ledgers]

    def find(self, wanted: PublishedNumber) -> Reconciliation:
        """Return what gives a number, or the nearest ways if it is nothing plausible."""
        reconciliation = self.likely(wanted)
        if reconciliation.fits:
            return reconciliation
        candidates = chain.from_iterable(count.nearest(wanted) for count in self.counts)
        near = [candidate for candidate in candidates if candidate.gap]
        return reconciliation._replace(nearest=tuple(_nearest(near, wanted)))

    def likely(self, wanted: PublishedNumber) -> Reconciliation:
        """Return the ways and the parts that give a number, without the nearest ones."""
        parts = tuple(self._parts(wanted))
        is_part = any(not part.perhaps for part in parts)
        ways = tuple(self._ways(wanted, is_part=is_part))
        if ways:
            # A path in the state dict says less than a way of counting.
            parts = tuple(part for part in parts if part.name.part != "module")
        return Reconciliation(wanted, ways, (), parts)

    def _parts(self, wanted: PublishedNumber) -> Iterator[PartOfClass]:
        """Yield the parts of classes that give a number, or round to it, each once."""
        if wanted.is_bytes:
            return
        known = set[str]()
        least = ceil(wanted.value - wanted.half)
        most = ceil(wanted.value + wanted.half) - 1
        for class_name, index in self.indexes:
            for name in index.within(least, most):
                text = name.text()
                if name.part != "model" and text not in known:
                    known.add(text)
                    yield PartOfClass(class_name, name, perhaps=not wanted.is_exact)

    def _ways(self, wanted: PublishedNumber, *, is_part: bool) -> Iterator[Way]:
        """Yield the ways, the most plausible first, and mark those that may fit by chance.

        What a method trains is only taken if nothing simpler has the number: no way, and no part.
        """
        ways = self._ways_in_order(wanted)
        exact = [way for way in ways if wanted.is_exact and not way.rounding]
        limit = self._limit(int(wanted.value), exact)
        plausible = [way for way in exact if not _trains(way) and _is_plausible(way, limit)]
        if not plausible and not is_part:
            plausible = list(filter(_trains, exact))
        for way in ways:
            yield way._replace(perhaps=not way.is_total and way not in plausible)

    def _ways_in_order(self, wanted: PublishedNumber) -> list[Way]:
        """Return the ways that give a number, the most plausible first."""
        ways = list(chain.from_iterable(count.matching(wanted) for count in self.counts))
        headless = {way.parameters for way in ways if not _has(way, "heads")}
        # A class without its heads is the base class.
        distinct = [way for way in ways if way.parameters not in headless or not _has(way, "heads")]
        order = {name: at for at, name in enumerate(table())}
        distinct.sort(key=lambda way: _implausibility(way, wanted, self.usual, order))
        return distinct

    def _limit(self, number: int, exact: Sequence[Way]) -> float:
        """Return the improbability from which the ways that give a number may do so by chance."""
        if not exact or any(way.is_total for way in exact):
            return 0.0
        improbabilities: dict[int, float] = {}
        for count in self.counts:
            for total, bits in count.near(*neighbourhood(number)):
                improbabilities[total] = min(bits, improbabilities.get(total, bits))
        return chance_limit(number, improbabilities)


def _is_plausible(way: Way, limit: float) -> bool:
    if way.is_total:
        return True
    return len(way.steps) <= MOST_STEPS and improbability(map(_convention, way.steps)) < limit


def _trains(way: Way) -> bool:
    """Whether a way counts what a method of fine-tuning trains."""
    return any(table()[step.convention]["kind"] == "lora" for step in way.steps)


def _convention(step: CountingStep) -> str:
    return step.convention


def _has(way: Way, convention: str) -> bool:
    return any(step.convention == convention for step in way.steps)


def _has_buffers(way: Way) -> bool:
    """Return whether a way counts tensors that need not have the dtype of the parameters."""
    return any(step.convention in BUFFERS for step in way.steps)


def _nearest(near: Sequence[Near], wanted: PublishedNumber) -> Iterator[Near]:
    """Yield the nearest way for each number of conventions, first one with an explained gap."""
    explained = [candidate for candidate in near if candidate.gap_is]
    explained_steps = None
    if explained:
        first = min(
            explained,
            key=lambda candidate: (len(candidate.way.steps), _distance(candidate.way, wanted)),
        )
        explained_steps = len(first.way.steps)
        yield first
    for steps in range(_NEAR + 1):
        of_as_many = [candidate for candidate in near if len(candidate.way.steps) == steps]
        if of_as_many and steps != explained_steps:
            yield min(of_as_many, key=lambda candidate: _distance(candidate.way, wanted))


def _distinct(subjects: Iterable[tuple[str, Rows]]) -> list[tuple[str, Rows]]:
    """Return the first of all classes with the same parameters."""
    distinct: dict[tuple[object, ...], tuple[str, Rows]] = {}
    for name, rows in subjects:
        tied = tuple(sorted(row.elements for row in rows if row.tied))
        distinct.setdefault((unique_parameters(rows), tied), (name, rows))
    return list(distinct.values())


def _implausibility(
    way: Way, wanted: PublishedNumber, usual: tuple[str, str], order: dict[str, int]
) -> tuple[object, ...]:
    """Return a sort key: plausible ways first, then near ones, then those of a usual class."""
    class_rank = len(usual)
    if way.class_name in usual:
        class_rank = usual.index(way.class_name)
    steps = way.steps
    if way.bytes is not None:  # a file's size includes its buffers
        steps = steps_of_parameters(steps)
    bits = improbability(map(_convention, steps))
    if way.is_total:
        bits = 0.0
    bits += way.rounding + (way.dtype not in ("", "F32"))
    ranks = tuple(sorted(order[step.convention] for step in steps))
    distance = Fraction(0)
    if not wanted.is_exact:
        distance = _distance(way, wanted)
    if way.is_total:
        return bits, distance, class_rank, ranks
    return bits, class_rank, distance, ranks


def _distance(way: Way, wanted: PublishedNumber) -> Fraction:
    if way.bytes is None:
        return abs(way.parameters - wanted.value)
    return abs(Fraction(way.bytes, way.scale) - wanted.value / wanted.scales[0])


class _Count:
    """All ways of counting one class: each subset of what may be left out, with its total.

    A subset is an integer with a bit for each name in ``without``.
    """

    def __init__(
        self, rows: Rows, class_name: str, base_class: str, most_steps: int | None = None
    ) -> None:
        self.rows, self.class_name, self.base_class = rows, class_name, base_class
        self.most_left_out = most_steps or len(WITHOUT)
        self.most_steps = most_steps or _LONGEST_CHAIN
        self.total = unique_parameters(self.rows)
        self.counted = [row for row in self.rows if not row.tied and not row.buffer]
        real = {row.at for row in self.counted if row.elements}
        self.without: list[str] = []
        self.hit: list[set[int]] = []
        for name, choose in WITHOUT.items():
            chosen = {row.at for row in choose(self.rows)}
            if chosen & real and not real <= chosen:
                self.without.append(name)
                self.hit.append(chosen)
        self.masks = [self._mask(row) for row in self.rows]
        self.subsets = list(self._subsets())
        self.totals = sorted(self._totals(), key=lambda total: total[1])

    def _mask(self, row: CountedRow) -> int:
        return sum(1 << at for at, rows in enumerate(self.hit) if row.at in rows)

    def _sums(self, elements: Mapping[int, int]) -> list[int]:
        """Return the sum of the remaining elements, for every subset that is left out."""
        size = 1 << len(self.without)
        sums = [0] * size
        for at, row_elements in elements.items():
            sums[self.masks[at]] += row_elements
        # The remaining rows are those whose mask is a subset of the complement: sum over subsets.
        for bit in (1 << at for at in range(len(self.without))):
            for mask in range(size):
                if mask & bit:
                    sums[mask] += sums[mask ^ bit]
        return sums[::-1]

    def _subsets(self) -> Iterator[int]:
        """Yield the subsets that need all of their members, small ones first."""
        row_masks = {self.masks[row.at] for row in self.counted if row.elements}
        for mask in sorted(range(1 << len(self.without)), key=int.bit_count):
            if mask.bit_count() > self.most_left_out:
                return
            bits = {1 << at for at in range(len(self.without)) if mask >> at & 1}
            # A member is needed if a row is left out because of it alone.
            if bits <= {row_mask & mask for row_mask in row_masks}:
                yield mask

    def _totals(self) -> Iterator[tuple[int, int, tuple[CountingStep, ...]]]:
        """Yield the subset that is left out, the total, and the other steps, of every way."""
        plain = self._sums({row.at: row.elements for row in self.counted})
        for mask, steps_by_mask in product(self.subsets, list(self._changes())):
            if steps_by_mask and mask.bit_count() + len(steps_by_mask) > self.most_steps:
                continue
            steps = tuple([of_mask[mask] for of_mask in steps_by_mask])
            changes = [step.change for step in steps]
            if all(changes):
                yield mask, plain[mask] + sum(changes), steps

    def _changes(self) -> Iterator[tuple[list[CountingStep], ...]]:
        """Yield all combinations of what may be counted differently and in addition."""
        added = list(_combined(self._additions()))
        yield from added
        for base, steps in product(self._otherwise(), added):
            names = {base[0].convention, *[step[0].convention for step in steps]}
            if "active" not in names or names.isdisjoint(BESIDE):
                yield base, *steps

    def _additions(self) -> dict[frozenset[int], list[CountingStep]]:
        """Return what may be counted in addition, as a step for every subset that is left out.

        Two conventions that count the same rows are one: the first.
        """
        additions: dict[frozenset[int], list[CountingStep]] = {}
        for name, choose in WITH.items():
            elements = {row.at: row.elements for row in choose(self.rows) if row.elements}
            rows = frozenset(elements)
            if rows and rows not in additions:
                additions[rows] = self._steps(name, (), elements)
        return additions

    def _otherwise(self) -> Iterator[list[CountingStep]]:
        """Yield what may be counted differently: a padded vocabulary, or active experts only."""
        seen, size = set[tuple[int, ...]](), formula_letters(self.rows).get("V", 0)
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
    ) -> list[CountingStep]:
        """Return the step of a convention for every subset that is left out."""
        tensors = self._sums({at: self.rows[at].places for at in changes})
        return [
            CountingStep(name, values, tensor_count, change)
            for tensor_count, change in zip(tensors, self._sums(changes), strict=True)
        ]

    def way(self, mask: int, sum_of: int, steps: tuple[CountingStep, ...], **more: Any) -> Way:
        """Return a way with each of its steps."""
        return Way(self.class_name, self.total, (*self._left_out(mask), *steps), sum_of, **more)

    def _left_out(self, mask: int) -> Iterator[CountingStep]:
        """Yield what is left out, with each tensor only once.

        If two conventions leave out a tensor, it belongs to the one that leaves out a part of the
        model, not to the one that applies to all parts.
        """
        members = [at for at in range(len(self.without)) if mask >> at & 1]
        taken, steps = set[int](), dict[int, CountingStep]()
        for at in sorted(members, key=lambda at: self.without[at] in _THROUGHOUT):
            rows = [row for row in self.counted if row.at in self.hit[at] and row.at not in taken]
            taken |= {row.at for row in rows}
            change = -sum(row.elements for row in rows)
            tensors = sum(row.places for row in rows)
            steps[at] = CountingStep(self.without[at], (), tensors, change)
        for at in sorted(members, key=lambda at: self.without[at] not in _THROUGHOUT):
            yield steps[at]

    def _instead(self) -> Iterator[Way]:
        """Yield what is counted instead of parameters: formulas, and what LoRA trains.

        Heads do not change these, so only the base class has them.
        """
        if self.class_name != self.base_class:
            return
        for name, entry in table().items():
            if entry["kind"] == "instead":
                yield from self._in_place(name, (), formula_value(self.rows, entry))
            elif entry["kind"] == "lora":
                yield from self._lora(name, entry)

    def _lora(self, name: str, entry: Mapping[str, Any]) -> Iterator[Way]:
        for rank in entry["ranks"]:
            for target, facts in entry["targets"].items():
                trained = lora_parameters(self.rows, rank, facts["roles"])
                yield from self._in_place(name, (("rank", rank), ("targets", target)), trained)

    def _in_place(
        self, name: str, values: tuple[tuple[str, Any], ...], counted: int | None
    ) -> Iterator[Way]:
        if counted:
            step = CountingStep(name, values, 0, counted - self.total)
            yield Way(self.class_name, self.total, (step,), counted)

    def matching(self, wanted: PublishedNumber) -> Iterator[Way]:
        """Yield the ways that give a number or round to it, and need all of their conventions."""
        if wanted.is_bytes:
            yield from self._matching_bytes(wanted)
            return
        seen = set[tuple[CountingStep, ...]]()
        for rounding, low, high in wanted.windows:
            # A rounding to fewer digits says little about more than the totals.
            for way in self._within(low, high, totals_only=bool(seen)):
                if way.steps not in seen:
                    seen.add(way.steps)
                    yield way._replace(rounding=rounding)

    def _within(self, low: Fraction, high: Fraction, *, totals_only: bool = False) -> Iterator[Way]:
        """Yield the ways with a total from ``low`` to below ``high``, or equal to both."""
        least, most = ceil(low), ceil(high) - 1
        if low == high:
            least = most = floor(low)
        smaller: list[frozenset[str]] = []
        hits = self._between(least, most)
        if totals_only:
            hits = [hit for hit in hits if not hit[0]]
        hits.sort(key=lambda hit: hit[0].bit_count() + len(hit[2]))
        for mask, sum_of, steps in hits:
            names = frozenset((*self._names(mask), *map(_name_of, steps)))
            if not any(fewer <= names for fewer in smaller):
                smaller.append(names)
                way = self.way(mask, sum_of, steps)
                if way.is_total or not totals_only:
                    yield way
        if not totals_only:
            yield from (way for way in self._instead() if least <= way.parameters <= most)

    def _between(self, least: int, most: int) -> list[tuple[int, int, tuple[CountingStep, ...]]]:
        first = bisect_left(self.totals, least, key=lambda total: total[1])
        last = bisect_right(self.totals, most, key=lambda total: total[1])
        return self.totals[first:last]

    def _names(self, mask: int) -> Iterator[str]:
        """Yield the names of what a mask leaves out."""
        return (name for at, name in enumerate(self.without) if mask >> at & 1)

    def near(self, least: int, most: int) -> Iterator[tuple[int, float]]:
        """Yield the totals in a range that people may count, each with its improbability."""
        bits_of_mask: dict[int, float] = {}
        for mask, sum_of, steps in self._between(least, most):
            if mask.bit_count() + len(steps) <= MOST_STEPS:
                if mask not in bits_of_mask:
                    bits_of_mask[mask] = improbability(self._names(mask))
                yield sum_of, bits_of_mask[mask] + improbability(map(_convention, steps))

    def _matching_bytes(self, wanted: PublishedNumber) -> Iterator[Way]:
        beside = self._buffers()
        written, half = wanted.value / wanted.scales[0], wanted.half / wanted.scales[0]
        for scale, dtype, more in product(
            wanted.scales, _DTYPES, dict.fromkeys((0, stored_bytes(beside.change, "I64")))
        ):
            width = stored_bytes(1, dtype)
            low, high = ((written + sign * half) * scale - more for sign in (-1, 1))
            for way in self._within(low / width, high / width):
                if not _has_buffers(way):
                    steps = way.steps
                    if more:
                        steps = (*steps, beside)
                    taken = way.parameters * width + more
                    yield way._replace(steps=steps, bytes=taken, dtype=dtype, scale=scale)

    def _buffers(self) -> CountingStep:
        """Return the step that counts all buffers of the class."""
        buffers = [row for row in self.rows if row.buffer and not row.beside]
        return CountingStep("buffers", (), len(buffers), sum(row.elements for row in buffers))

    def nearest(self, wanted: PublishedNumber) -> Iterator[Near]:
        """Yield ways with few conventions that do not give a number, with the gaps to it."""
        if wanted.is_bytes:
            for scale, dtype in product(wanted.scales, _DTYPES):
                taken = stored_bytes(self.total, dtype)
                way = Way(self.class_name, self.total, (), self.total)
                way = way._replace(bytes=taken, dtype=dtype, scale=scale)
                yield Near(way, round(wanted.value / wanted.scales[0] * scale) - taken, ())
            return
        for mask, sum_of, steps in self.totals:
            if mask.bit_count() + len(steps) <= _NEAR:
                gap = round(wanted.value) - sum_of
                explanations = tuple(self._equal(gap, sum_of, wanted))
                yield Near(self.way(mask, sum_of, steps), gap, explanations)

    def _equal(
        self, gap: int, total: int, wanted: PublishedNumber
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield what a gap equals: a tensor once or twice, or an error in the digits."""
        direction = "less"
        if gap > 0:
            direction = "more"
        for name, times, is_whole in self.terms.get(abs(gap), ()):
            kind = "place"
            if is_whole:
                kind = "term"
            yield f"{kind}_{direction}", {"name": name, "times": times}
        if wanted.is_exact:
            yield from _slips(str(round(wanted.value)), str(total))

    @cached_property
    def terms(self) -> dict[int, list[tuple[str, int, bool]]]:
        """The tensors by their number of elements: once or twice, in all places or in one."""
        terms: dict[int, list[tuple[str, int, bool]]] = {}
        for row in self.counted:
            for times in (1, 2):
                elements = times * row.elements
                terms.setdefault(elements, []).append((row.name, times, True))
                if row.places > 1:
                    terms.setdefault(elements // row.places, []).append((row.name, times, False))
        return terms


def _combined(
    additions: Mapping[frozenset[int], list[CountingStep]],
) -> Iterator[tuple[list[CountingStep], ...]]:
    """Yield the steps of conventions that count different rows, none of them first."""
    for size in range(_LONGEST_CHAIN + 1):
        for chosen in combinations(additions, size):
            if len(frozenset[int]().union(*chosen)) == sum(map(len, chosen)):
                yield tuple([additions[rows] for rows in chosen])


def _slips(stated: str, true: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the error that explains a stated number: a wrong digit, or two swapped ones."""
    if len(stated) != len(true):
        return
    wrong = [at for at in range(len(true)) if stated[at] != true[at]]
    if len(wrong) == 1:
        at = wrong[0]
        yield "digit", {"place": len(true) - at, "stated": stated[at], "true": true[at]}
    if len(wrong) == 2 and wrong[1] == wrong[0] + 1:
        first, end = wrong[0], wrong[0] + 2
        if stated[first:end] == true[first:end][::-1]:
            yield "swapped", {"digits": stated[first:end]}


_LONGEST_CHAIN = 3  # conventions of a way that adds tensors; more would explain any number
_THROUGHOUT = ("linear_biases", "norms")
_DTYPES = ("F32", "F16", "I8")
_NEAR = 2  # conventions of a way that does not give the number; more would explain any number


def _name_of(step: CountingStep) -> str:
    if step.values:
        return f"{step.convention} {step.values}"
    return step.convention


# Tables of published numbers


class TableRow(NamedTuple):
    """A row of a table: a name, its number, and the ways that give it, or the model's problem."""

    name: str
    number: PublishedNumber
    ways: tuple[Way, ...]
    problem: str = ""


class TableFit(NamedTuple):
    """The way that fits the most rows of a table, the rows that it fits, and the others."""

    rows: tuple[TableRow, ...]
    way: Way | None
    fitting: tuple[TableRow, ...]
    slips: tuple[TableRow, ...]


def fit(rows: Iterable[TableRow]) -> TableFit:
    """Find the way of counting that gives the numbers of the most rows.

    Of ways that fit the same number of rows, the one with the fewest conventions is taken.
    """
    all_rows = tuple(rows)
    by_key: dict[tuple[object, ...], list[tuple[TableRow, Way]]] = {}
    for row in all_rows:
        for key, way in {way.key: way for way in reversed(row.ways)}.items():
            by_key.setdefault(key, []).append((row, way))
    if not by_key:
        return TableFit(all_rows, None, (), all_rows)
    best = max(by_key.values(), key=_fitness)
    fitting = tuple(row for row, _ in best)
    slips = tuple(row for row in all_rows if row not in fitting)
    return TableFit(all_rows, best[0][1], fitting, slips)


def _fitness(rows: Sequence[tuple[TableRow, Way]]) -> tuple[int, int, int]:
    _, way = rows[0]
    return len(rows), -len(way.steps), -way.rounding
