"""Folds what was recorded into programs that do not depend on how many layers a model has.

Steps that nothing returned depends on are left out. Calls of the items of a list, one after
another, become a loop over the blueprint's index; other steps that repeat, as in a loop over time,
become a loop without one.
"""

from __future__ import annotations

from difflib import SequenceMatcher
from itertools import chain, pairwise
from typing import TYPE_CHECKING, NamedTuple

from weighbridge.blueprint.paths import indices_in
from weighbridge.derive.flows.recording import MODULE, ROOT, SELF, UNKNOWN, Ref
from weighbridge.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from weighbridge.derive.flows.recording import Program, RecordedStep
    from weighbridge.derive.operations.module_paths import ModulePaths

_LEAST_TURNS = 3  # of a loop without an index: two equal steps are often no loop
_LONGEST_TURN = 60  # steps in one turn of such a loop
_MOST_STEPS = 3000  # of a program; a longer one is not folded in reasonable time


class Arg(NamedTuple):
    """An argument: a value, and the value that takes its place as soon as a loop has given it."""

    first: Ref | None
    again: Ref | None = None


Args = tuple[tuple[str, Arg], ...]
"""The arguments of a step by name, in order."""


class Case(NamedTuple):
    """One way in which a step of a loop is called, and the places at which it is."""

    arguments: Args
    places: frozenset[int]


class FoldedStep(NamedTuple):
    """A step: its number, what is called, and its cases; outside a loop it has one."""

    number: int
    kind: str
    called: str
    cases: tuple[Case, ...]
    at: int | None = None  # the index of the item of a list that is called
    is_partial: bool = False  # whether some turns of the loop leave it out

    @property
    def signature(self) -> object:
        """What must agree for two steps to be the same one in two turns of a loop."""
        return (self.kind, self.called)


class FoldedLoop(NamedTuple):
    """Steps that are repeated: for each value of a letter, or without a letter over time."""

    letter: str
    steps: tuple[FoldedStep | FoldedLoop, ...]

    @property
    def signature(self) -> object:
        """What must agree for two loops to be the same one in two turns of an outer loop."""
        return (self.letter, *[step.signature for step in self.steps])


Item = FoldedStep | FoldedLoop


class Folded(NamedTuple):
    """A program whose loops are folded."""

    items: tuple[Item, ...]
    returned: tuple[Ref, ...]


class Folder:
    """Folds the programs of one class."""

    def __init__(self, paths: ModulePaths) -> None:
        self._paths = paths

    def folded(self, program: Program, path: str) -> Folded:
        """Return a program without unused steps and with its loops folded.

        Raises:
            ModelError: it is too long.
        """
        steps = _used(program)
        if len(steps) > _MOST_STEPS:
            raise ModelError(f"{path}: more than {_MOST_STEPS} steps")
        items: list[Item] = [self._step(step, path) for step in steps]
        places = _Places(len(program.steps))
        items, places = _without_turns(items, places)
        for letter in dict.fromkeys(_loop_letters(items)):
            items = _over_letter(items, letter, places)
        returned = [places.moved(ref) for ref in program.returned if ref.source != UNKNOWN]
        return Folded(tuple(items), tuple(dict.fromkeys(returned)))

    def template(self, path: str) -> tuple[str, tuple[int, ...]]:
        """Return a path with letters for indices, and the indices."""
        return self._paths.template(path)

    def _step(self, step: RecordedStep, path: str) -> FoldedStep:
        called, index = step.called, None
        if step.kind == MODULE:
            called, index = self._called(called, path)
        arguments = tuple((name, Arg(ref)) for name, ref in step.arguments.items())
        case = Case(arguments, frozenset([0 if index is None else index]))
        return FoldedStep(step.number, step.kind, called, (case,), index)

    def _called(self, called: str, path: str) -> tuple[str, int | None]:
        """Return the name of a called module, with a letter for the index of an item of a list."""
        if called.startswith(ROOT):
            return ROOT + self.template(called.removeprefix(ROOT))[0], None
        whole = ".".join(filter(None, (path, called.removeprefix(SELF))))
        template, indices = self.template(whole)
        above, above_indices = self.template(path)
        begin = f"{above}." if above else ""
        own = indices[len(above_indices) :]
        if not template.startswith(begin) or len(own) > 1:
            return called, None
        return SELF + template[len(begin) :], own[0] if own else None


def _used(program: Program) -> list[RecordedStep]:
    """Return the steps that what is returned depends on; all if nothing is known of that."""
    wanted = {ref.source for ref in program.returned}
    if wanted <= {UNKNOWN}:
        return list(program.steps)
    kept = []
    for step in reversed(program.steps):
        if step.number in wanted:
            kept.append(step)
            wanted.update(ref.source for ref in step.arguments.values())
    return kept[::-1]


def _loop_letters(items: Iterable[Item]) -> Iterator[str]:
    for item in items:
        if isinstance(item, FoldedLoop):
            yield from _loop_letters(item.steps)
        elif item.at is not None:
            yield from list(indices_in(item.called))[-1:]


def _index_of(item: Item, letter: str) -> int | None:
    """Return the value of a letter in an item; None if it does not have the letter."""
    if isinstance(item, FoldedLoop):
        values = {_index_of(step, letter) for step in item.steps} - {None}
        return next(iter(values)) if len(values) == 1 else None
    if item.at is not None and list(indices_in(item.called))[-1:] == [letter]:
        return item.at
    return None


# Loops without an index


def _without_turns(items: list[Item], places: _Places) -> tuple[list[Item], _Places]:
    """Fold steps that repeat with the same arguments, but for those of the turn before."""
    signatures = [(item.signature, _index_of_step(item)) for item in items]
    kept: list[Item] = []
    at = 0
    while at < len(items):
        folded = None
        period = _period(signatures, at)
        while period and folded is None:
            turns = _turns(signatures, at, period)
            run = items[at : at + turns * period]
            folded = _as_loop(
                [run[begin : begin + period] for begin in _begins(run, period)], places
            )
            if folded is None:
                period = _period(signatures, at, period + 1)
        if folded is None:
            kept.append(_with_moved(items[at], places))
            at += 1
        else:
            loop, places = folded
            kept.append(loop)
            at += _turns(signatures, at, period) * period
    return kept, places


def _begins(run: Sequence[Item], period: int) -> range:
    return range(0, len(run), period)


def _as_loop(
    bodies: Sequence[Sequence[Item]], places: _Places
) -> tuple[FoldedLoop, _Places] | None:
    """Return turns as a loop, and what their steps are then; None if they are no loop."""
    trial = places.copied()
    merged = _merged_turns(bodies, range(len(bodies)), trial)
    if all(map(_is_plain, merged)) and _is_carried(merged):
        return FoldedLoop("", tuple(map(_at_one_place, merged))), trial
    return None


def _index_of_step(item: Item) -> int | None:
    return None if isinstance(item, FoldedLoop) else item.at


def _period(signatures: Sequence[object], at: int, least: int = 1) -> int:
    """Return the least period with which what follows repeats often enough; 0 if there is none."""
    longest = min(_LONGEST_TURN, (len(signatures) - at) // _LEAST_TURNS)
    for period in range(least, longest + 1):
        if signatures[at] != signatures[at + period]:
            continue
        if _turns(signatures, at, period) >= _LEAST_TURNS:
            return period
    return 0


def _turns(signatures: Sequence[object], at: int, period: int) -> int:
    first = signatures[at : at + period]
    turns = 1
    while signatures[at + turns * period : at + (turns + 1) * period] == first:
        turns += 1
    return turns


def _is_plain(item: Item) -> bool:
    """Whether a step is called in the same way in every turn."""
    if isinstance(item, FoldedLoop):
        return all(map(_is_plain, item.steps))
    return len(item.cases) == 1 and not item.is_partial


def _is_carried(items: Iterable[Item]) -> bool:
    """Whether some turn uses a result of the one before."""
    for item in items:
        if isinstance(item, FoldedLoop):
            if _is_carried(item.steps):
                return True
        elif any(arg.again for case in item.cases for _, arg in case.arguments):
            return True
    return False


def _at_one_place(item: Item) -> Item:
    if isinstance(item, FoldedLoop):
        return item
    place = frozenset([0 if item.at is None else item.at])
    return item._replace(cases=(item.cases[0]._replace(places=place),))


# Loops over an index


def _over_letter(items: list[Item], letter: str, places: _Places) -> list[Item]:
    """Fold the calls of the items of one list into loops."""
    kept: list[Item] = []
    rest = items
    while True:
        turns = _first_turns(rest, letter)
        if not turns:
            return [*kept, *[_with_moved(item, places) for item in rest]]
        start, stop, bodies = _bodies(rest, turns)
        kept += [_with_moved(item, places) for item in rest[:start]]
        merged = _merged_turns([body for _, body in bodies], [index for index, _ in bodies], places)
        kept.append(FoldedLoop(letter, tuple(merged)))
        rest = rest[stop:]


class _Turn(NamedTuple):
    """One turn of a loop: the index, and the first and last position of its calls."""

    value: int
    first: int
    last: int


def _first_turns(items: Sequence[Item], letter: str) -> list[_Turn]:
    """Return the turns of the first loop over a letter; it ends where an index comes again."""
    turns: list[_Turn] = []
    for at, item in enumerate(items):
        if isinstance(item, FoldedLoop) and item.letter == letter:
            continue
        index = _index_of(item, letter)
        if index is None:
            continue
        if turns and turns[-1].value == index:
            turns[-1] = turns[-1]._replace(last=at)
        elif any(turn.value == index for turn in turns):
            break
        else:
            turns.append(_Turn(index, at, at))
    return turns


def _bodies(
    items: Sequence[Item], turns: Sequence[_Turn]
) -> tuple[int, int, list[tuple[int, list[Item]]]]:
    """Return where a loop starts and stops, and the items of each turn.

    Steps between the calls of two turns belong to the end of a turn as far as they follow the last
    turn, too; the others belong to the beginning of the next turn.
    """
    signatures = [item.signature for item in items]
    last = turns[-1].last
    gaps = [signatures[turn.last + 1 : after.first] for turn, after in pairwise(turns)]
    tail = len(signatures) if gaps else 0
    after_loop = signatures[last + 1 :]
    for gap in gaps:
        tail = min(tail, _common(gap, after_loop))
    heads = [gap[tail:] for gap in gaps]
    head = 0
    if heads and all(one == heads[0] for one in heads):
        before = signatures[: turns[0].first]
        while head < len(heads[0]) and before[: len(before) - head][-1:] == [heads[0][-1 - head]]:
            head += 1
        if head < len(heads[0]):
            head = 0
    bodies = []
    for at, turn in enumerate(turns):
        begin = turns[at - 1].last + 1 + tail if at else turn.first - head
        bodies.append((turn.value, list(items[begin : turn.last + 1 + tail])))
    return turns[0].first - head, last + 1 + tail, bodies


def _common(one: Sequence[object], other: Sequence[object]) -> int:
    length = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        length += 1
    return length


# Turns as one


class _Places:
    """What the steps that were recorded are in the folded program."""

    def __init__(self, next_number: int) -> None:
        self._next = next_number
        self._moved: dict[int, Ref] = {}

    def copied(self) -> _Places:
        """Return a copy, for an attempt."""
        copy = _Places(self._next)
        copy._moved = dict(self._moved)
        return copy

    def new(self) -> int:
        """Return the number of a new step, which stands for a step of every turn."""
        self._next += 1
        return self._next

    def put(self, number: int, ref: Ref) -> None:
        self._moved[number] = ref

    def moved(self, ref: Ref) -> Ref:
        """Return a value after loops were folded."""
        while isinstance(ref.source, int) and ref.source in self._moved:
            found = self._moved[ref.source]
            part = ref.part.removeprefix(OLDER)
            if found.part or ref.part.startswith(OLDER):
                part = OLDER + part
            ref = Ref(found.source, part)
        return ref


OLDER = "*"
"""Begins the part of a value that is not only that of the last turn of a loop."""


def _merged_turns(
    bodies: Sequence[Sequence[Item]], indices: Sequence[int], places: _Places
) -> list[Item]:
    """Return the items of all turns as those of one.

    ``places`` then says for each step of a turn which step of the merged loop it is.
    """
    aligned = _turns_aligned(bodies)
    turn_of: dict[int, tuple[int, int]] = {}
    for slot in aligned:
        numbers = [places.new() for _ in _steps_in(slot[min(slot)])]
        for turn, item in slot.items():
            for step, number in zip(_steps_in(item), numbers, strict=True):
                turn_of[step.number] = (number, turn)
    last = len(bodies) - 1
    merger = _Merger(indices, turn_of, places)
    merged = [merger.one(slot) for slot in aligned]
    for number, (new, turn) in turn_of.items():
        places.put(number, Ref(new, "" if turn == last else OLDER))
    return merged


def _steps_in(item: Item) -> Iterator[FoldedStep]:
    if isinstance(item, FoldedLoop):
        for inner in item.steps:
            yield from _steps_in(inner)
    else:
        yield item


def _turns_aligned(bodies: Sequence[Sequence[Item]]) -> list[dict[int, Item]]:
    """Return for each step of the merged turn the item of each turn that has it."""
    slots: list[dict[int, Item]] = []
    for turn, body in enumerate(bodies):
        slots = _with_turn(slots, [{turn: item} for item in body])
    return slots


def _with_turn(
    slots: Sequence[dict[int, Item]], own: Sequence[dict[int, Item]]
) -> list[dict[int, Item]]:
    known = [slot[min(slot)].signature for slot in slots]
    new = [slot[min(slot)].signature for slot in own]
    longer: list[dict[int, Item]] = []
    matcher = SequenceMatcher(None, known, new, autojunk=False)
    for tag, start, stop, own_start, own_stop in matcher.get_opcodes():
        here, more = slots[start:stop], own[own_start:own_stop]
        if tag == "equal":
            longer += [slot | item for slot, item in zip(here, more, strict=True)]
        else:
            longer += [*here, *more]
    return longer


class _Merger(NamedTuple):
    """Merges the items of the turns of a loop.

    ``indices`` has the index of each turn, and ``turn_of`` the new number and the turn of each
    step.
    """

    indices: Sequence[int]
    turn_of: Mapping[int, tuple[int, int]]
    places: _Places

    def one(self, slot: Mapping[int, Item]) -> Item:
        """Return the items of several turns at one slot as one item."""
        first = slot[min(slot)]
        if isinstance(first, FoldedLoop):
            return first._replace(steps=tuple(self._inside(slot, len(first.steps))))
        by_turn: dict[int, dict[str, Arg]] = {}
        for turn, item in slot.items():
            named = item.cases[0].arguments  # type: ignore[union-attr]
            by_turn[turn] = {name: self._in_turn(arg, turn) for name, arg in named}
        is_partial = first.is_partial or len(slot) < len(self.indices)
        number = self.turn_of[first.number][0]
        return first._replace(number=number, cases=self._cases(by_turn), is_partial=is_partial)

    def _inside(self, slot: Mapping[int, Item], count: int) -> Iterator[Item]:
        loops = {turn: item for turn, item in slot.items() if isinstance(item, FoldedLoop)}
        for at in range(count):
            yield self.one({turn: loop.steps[at] for turn, loop in loops.items()})

    def _cases(self, by_turn: Mapping[int, dict[str, Arg]]) -> tuple[Case, ...]:
        """Return the ways in which a step is called, each with the turns in which it is."""
        names = dict.fromkeys(chain.from_iterable(by_turn.values()))
        for name in names:
            _combine(name, by_turn)
        groups: dict[Args, set[int]] = {}
        for turn, arguments in by_turn.items():
            in_order = tuple((name, arguments[name]) for name in names if name in arguments)
            groups.setdefault(in_order, set()).add(self.indices[turn])
        return tuple(Case(arguments, frozenset(group)) for arguments, group in groups.items())

    def _in_turn(self, arg: Arg, turn: int) -> Arg:
        """Return an argument in which steps of an earlier turn take the place of another value."""
        first, again = arg
        if first is not None and first.source in self.turn_of:
            number, of_turn = self.turn_of[first.source]  # type: ignore[index]
            if of_turn < turn:
                return Arg(None, Ref(number, first.part))
            first = Ref(number, first.part)
        elif first is not None:
            first = self.places.moved(first)
        if again is not None and again.source in self.turn_of:
            again = Ref(self.turn_of[again.source][0], again.part)  # type: ignore[index]
        return Arg(first, again)


def _combine(name: str, resolved: Mapping[int, dict[str, Arg]]) -> None:
    """Let an argument be the same in all turns, if only the first one takes it from outside."""
    start = min(resolved)
    later = {arguments.get(name) for turn, arguments in resolved.items() if turn != start}
    if len(later) != 1:
        return
    again = next(iter(later))
    first = resolved[start].get(name, Arg(None))
    if again is None or again == first or again.again is None or again.first is not None:
        return
    if first.again not in (None, again.again):
        return
    for arguments in resolved.values():
        arguments[name] = Arg(first.first, again.again)


def _with_moved(item: Item, places: _Places) -> Item:
    if isinstance(item, FoldedLoop):
        return item._replace(steps=tuple(_with_moved(step, places) for step in item.steps))
    cases = []
    for case in item.cases:
        arguments = []
        for name, arg in case.arguments:
            first = None if arg.first is None else places.moved(arg.first)
            again = None if arg.again is None else places.moved(arg.again)
            arguments.append((name, Arg(first, again)))
        cases.append(case._replace(arguments=tuple(arguments)))
    return item._replace(cases=tuple(cases))
