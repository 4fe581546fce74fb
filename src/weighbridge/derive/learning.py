"""Learns one class: explores its configs and generalizes, until a draft predicts new configs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge.derive.generalize.generalize import generalize, leaves_unknown
from weighbridge.derive.generalize.truths import Truths
from weighbridge.derive.probing.aiming import aim
from weighbridge.derive.probing.chance import sample
from weighbridge.derive.probing.explore import explore_configs
from weighbridge.derive.probing.narrowing import narrow
from weighbridge.derive.probing.probe import quick_building
from weighbridge.derive.probing.state import begin
from weighbridge.derive.probing.unreached import Runs, UnreachedLine

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from weighbridge.derive.generalize.draft import Draft
    from weighbridge.derive.probing.probe import Probe
    from weighbridge.derive.probing.state import Exploration
    from weighbridge.derive.probing.subject import Subject

IN_A_ROW = 20  # random configs that a draft must predict before it is believed
IN_A_ROW_OF_STRANGERS = 40  # the same for code that nobody else has looked at
IN_A_ROW_AFTER = 8  # the same for a class explored after another with the same config
_PATIENCE = 6  # drafts in a row that leave the same parts unknown
_PATIENCE_WITH_STRANGERS = 3  # less, since their flags are pinned together
_DRAWN_PER_DRAFT = 6  # configs that are drawn once a draft is wrong, before the next draft
_MOST_PINNABLE = 24  # fields that are tried at their defaults
_ROUNDS = 3  # rounds of aiming at lines of code that no config has executed
_SMALL_AFTER = 4  # small configs that are run again for a class explored after another
_LONGEST_REASON = 100  # characters of the reason why a class could not be built


class Learned(NamedTuple):
    """What was learned of a class: its draft, its probes, and what is still wrong or missing."""

    class_name: str
    draft: Draft
    exploration: Exploration
    runs: Runs
    holes: list[str]
    """The parts of the class that the draft does not give."""
    missed: list[str]
    """The lines of code that no config executed."""

    @property
    def probes(self) -> list[Probe]:
        """The configs that the class was learned from."""
        return self.exploration.probes


def learn_class(
    subject: Subject, class_name: str, *, like: Learned | None = None, seed: int = 0
) -> Learned:
    """Learn a class, either from the start or after another class with the same config.

    If the draft of a first class leaves parts unknown, each field that was made smaller is pinned
    to its default in turn. The first draft that then leaves nothing unknown is returned.

    Raises:
        Exception: whatever the reference code raises if its default config cannot be built.
    """
    runs = like.runs if like else Runs(subject)
    exploration = begin(subject, class_name, seed, pinned=subject.pinned)
    with quick_building():
        learned = _explored(exploration, runs, like)
        if like is not None or not learned.draft.unknown:
            return learned
        for path in exploration.shrunk:
            pinned = begin(subject, class_name, seed, pinned=[*subject.pinned, path])
            learned_pinned = _explored(pinned, runs)
            if not learned_pinned.draft.unknown:
                return learned_pinned
    return learned


def learn_tasks(
    subject: Subject, base: Learned, class_names: Iterable[str], seed: int
) -> tuple[list[Learned], list[str]]:
    """Return the task classes that could be learned, and the holes of the others."""
    tasks: list[Learned] = []
    holes: list[str] = []
    for class_name in class_names:
        try:
            task = learn_class(subject, class_name, like=base, seed=seed)
        except Exception as error:  # a class that cannot be built must not stop the others
            if subject.takes_other_config(class_name):
                continue
            reason = f"{type(error).__name__}: {str(error).strip()[:_LONGEST_REASON]}"
            holes.append(f"{class_name} could not be built: {reason}")
            continue
        holes += task.holes
        if not task.holes:
            tasks.append(task)
    return tasks, holes


def correct_base(base: Learned, tasks: Sequence[Learned]) -> Learned:
    """Return the base class, which now also learned from the configs of its task classes."""
    configs: dict[str, Mapping[str, Any]] = {}
    for task in tasks:
        for probe in task.probes:
            configs[repr(probe.changes)] = probe.changes
    mispredicted = []
    with quick_building():
        for changes in configs.values():
            base_probe = base.exploration.try_out(changes)
            if base_probe is not None and not base.draft.gives(base_probe):
                mispredicted.append(base_probe)
    if not mispredicted:
        return base
    for base_probe in mispredicted:
        base.exploration.keep(base_probe)
    return base._replace(draft=generalize(base.probes))


def learn_more(learned: Learned, configs: Iterable[Mapping[str, Any]]) -> Learned:
    """Return a class that also learned from these configs, which its blueprint got wrong."""
    exploration = learned.exploration
    with quick_building():
        for changes in configs:
            probe = exploration.try_out(changes)
            if probe is not None:
                _learn_from(exploration, learned.draft, probe)
        draft = generalize(exploration.probes)
        while draft.unknown and (paths := _to_pin(exploration, draft)):
            exploration.pin_all(paths)
            draft = generalize(exploration.probes)
    return learned._replace(draft=draft, holes=_holes_of(exploration, draft))


def _explored(exploration: Exploration, runs: Runs, like: Learned | None = None) -> Learned:
    """Explore and generalize a class; pin fields if the draft is incomplete without it."""
    if like is None:
        wanted_in_a_row, most_small = IN_A_ROW, None
        if exploration.subject.is_explored_for_equals:
            wanted_in_a_row = IN_A_ROW_OF_STRANGERS
        explore_configs(exploration)
    else:
        wanted_in_a_row, most_small = IN_A_ROW_AFTER, _SMALL_AFTER
        explore_configs(exploration, like.exploration)
    missed = _run_missed_lines(exploration, runs, most_small)
    draft, in_a_row = _believed_draft(exploration, wanted_in_a_row)
    while draft.unknown and like is None and (paths := _to_pin(exploration, draft)):
        exploration.pin_all(paths)
        draft, in_a_row = _believed_draft(exploration, wanted_in_a_row)
    class_name, holes = exploration.class_name, _holes_of(exploration, draft)
    if in_a_row < wanted_in_a_row and not holes:
        holes.append(f"{class_name}: no draft predicted {wanted_in_a_row} random configs in a row")
    return Learned(class_name, draft, exploration, runs, holes, [str(line) for line in missed])


def _holes_of(exploration: Exploration, draft: Draft) -> list[str]:
    return [f"{exploration.class_name}: {unknown} was not found" for unknown in draft.unknown]


def _believed_draft(exploration: Exploration, wanted_in_a_row: int) -> tuple[Draft, int]:
    """Return the best draft, and how many random configs in a row it predicted."""
    truths = Truths()
    patience = _PATIENCE
    if exploration.subject.is_explored_for_equals:
        patience = _PATIENCE_WITH_STRANGERS
    draft = generalize(exploration.probes, truths=truths)
    in_a_row = without_progress = 0
    while (
        in_a_row < wanted_in_a_row
        and without_progress < patience
        and exploration.budget.share_left > 0
    ):
        probe = sample(exploration)
        if probe is None:
            break
        if draft.gives(probe):
            in_a_row += 1
            continue
        in_a_row, unknown_before = 0, draft.unknown
        for wrong in [probe, *_wrong_likewise(exploration, draft)]:
            _learn_from(exploration, draft, wrong)
        draft = generalize(exploration.probes, truths=truths)
        if unknown_before and draft.unknown == unknown_before:
            without_progress += 1
        else:
            without_progress = 0
    return draft, in_a_row


def _wrong_likewise(exploration: Exploration, draft: Draft) -> list[Probe]:
    """Return more configs that a draft of a stranger's code gets wrong: a new draft takes long."""
    if not exploration.subject.is_explored_for_equals or draft.unknown:
        return []
    drawn = [sample(exploration) for _ in range(_DRAWN_PER_DRAFT)]
    return [probe for probe in drawn if probe is not None and not draft.gives(probe)]


def _learn_from(exploration: Exploration, draft: Draft, probe: Probe) -> None:
    """Keep a probe; of a stranger's code, also those near it that show why the draft is wrong.

    A draft that leaves parts unknown is wrong everywhere.
    """
    if not exploration.subject.is_explored_for_equals or draft.unknown or draft.gives(probe):
        exploration.keep(probe)
        return
    for near in narrow(exploration, draft, probe):
        exploration.keep(near)
    exploration.budget.extend_after_narrowing()


def _to_pin(exploration: Exploration, draft: Draft) -> list[str]:
    """Return the fields to pin next; none if that does not help.

    A stranger's code may have many flags, which only together leave nothing unknown.
    """
    if exploration.subject.is_explored_for_equals and (held := _Holding(exploration).found()):
        return held
    path = _most_helpful_pin(exploration, draft)
    return [] if path is None else [path]


def _most_helpful_pin(exploration: Exploration, draft: Draft) -> str | None:
    """Return the field that leaves the fewest parts unknown when it is pinned to its default.

    None if no field leaves fewer parts unknown than the draft does.
    """
    best, fewest = None, len(draft.unknown)
    for path in exploration.pinnable[:_MOST_PINNABLE]:
        unknown = len(generalize(exploration.without(path)).unknown)
        if unknown < fewest:
            best, fewest = path, unknown
        if not unknown:
            break
    return best


class _Holding:
    """The search for the fields that leave nothing unknown if all are pinned to their defaults.

    Several flags may each add layers, so that no single one helps. All are held at first, then let
    go again as long as nothing becomes unknown: first those of the module itself, then those of its
    parts, each in the order in which a constructor names them. The last ones are the rarest.
    """

    def __init__(self, exploration: Exploration) -> None:
        self._exploration = exploration
        order = {path: number for number, path in enumerate(exploration.knobs)}
        self._held = sorted(exploration.pinnable, key=lambda path: (path.count("."), order[path]))
        self._known_with: dict[tuple[str, ...], bool] = {}

    def found(self) -> list[str]:
        """Return the fields; none if holding all of them does not help."""
        if not self._held or not self._is_known_with(self._held):
            return []
        self._let_go_by_halves(list(self._held))  # with none held, something is unknown
        return self._held

    def _let_go(self, paths: list[str]) -> None:
        """Let go of as many of these fields as possible, all at once if that is possible."""
        fewer = [path for path in self._held if path not in paths]
        if self._is_known_with(fewer):
            self._held = fewer
        elif len(paths) > 1:
            self._let_go_by_halves(paths)

    def _let_go_by_halves(self, paths: list[str]) -> None:
        middle = len(paths) // 2
        self._let_go(paths[:middle])
        self._let_go(paths[middle:])

    def _is_known_with(self, held: list[str]) -> bool:
        key = tuple(held)
        if key not in self._known_with:
            self._known_with[key] = not leaves_unknown(self._exploration.without_all(held))
        return self._known_with[key]


def _run_missed_lines(
    exploration: Exploration, runs: Runs, most_small: int | None
) -> list[UnreachedLine]:
    """Aim configs at the lines that no config has executed; return the lines still missed."""
    base_config = exploration.findings.base.items()
    aimed: list[Any] = []
    missed: list[UnreachedLine] = []
    for _ in range(_ROUNDS):
        changes = (probe.changes for probe in exploration.probes)
        small = [config for config in changes if base_config <= config.items()]
        missed_before = [str(line) for line in missed]
        missed = runs.never_run(exploration.class_name, [*small[:most_small], *aimed])
        if not missed or [str(line) for line in missed] == missed_before:
            break
        aimed = aim(exploration, missed)
    return missed
