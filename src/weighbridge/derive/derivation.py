"""Derives a family: learns its classes, assembles its blueprint and proves it.

The passes that a blueprint goes through are listed in `passes`.
"""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge.blueprint.schema import Blueprint
from weighbridge.derive.alias_proof import refuse_wrong_aliases, replacing_configs
from weighbridge.derive.assembly import assemble
from weighbridge.derive.guards.guards import find_guards
from weighbridge.derive.guards.sections import NO_GUARDS, Guards, without_rules, written_guards
from weighbridge.derive.learning import Learned, correct_base, learn_class, learn_more, learn_tasks
from weighbridge.derive.parts import with_parts
from weighbridge.derive.passes import TO_BE_LAWFUL, TO_BE_PROVED, CandidateBlueprint, run_passes
from weighbridge.derive.probing.answers import answers_turned
from weighbridge.derive.probing.chance import unseen
from weighbridge.derive.probing.meetings import meeting_choices
from weighbridge.derive.probing.probe import quick_building
from weighbridge.derive.prove import agreeing, prove_class
from weighbridge.derive.saved.saved_names import learn_saved
from weighbridge.derive.toml_text import blueprint_text
from weighbridge.derive.zero_proof import allow_zeros

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from weighbridge.derive.probing.subject import Subject

UNSEEN = 24  # unseen random configs that a base class must predict
UNSEEN_OF_STRANGERS = 72  # the same for code that nobody else has looked at
UNSEEN_AFTER = 8  # the same for each task class
ATTEMPTS = 6  # each attempt learns from the mismatches of the one before
ATTEMPTS_OF_STRANGERS = 10  # more, since more configs prove them
MOST_LOOKED_AT = 40  # configs of the proof in which the branches that code takes are watched
_PINNED = 3  # the last attempts, in which a field that mismatches have in common is pinned
_MOST_MISMATCHES = 3  # mismatches of the base class that are reported


class Derived(NamedTuple):
    """The text of a blueprint's file, whether its base class is proved, and what it lacks."""

    text: str
    exact: bool
    holes: list[str]


def derive(subject: Subject, *, classes: Sequence[str] | None = None, seed: int = 0) -> Derived:
    """Return a family's blueprint, learned, assembled and proved on configs not seen before.

    Derivation learns from the configs that prove a blueprint wrong, and proves the next blueprint
    on new configs. A task class that cannot be built or proved is left out, and a hole names it.

    Args:
        subject: the code to derive it from.
        classes: the task classes to derive; all of them when left out.
        seed: the seed of the random configs.

    Raises:
        Exception: whatever the reference code raises where its base class cannot be built.
    """
    with quick_building():  # once, since it takes time to begin and to end
        base = learn_class(subject, subject.base_class, seed=seed)
        if classes is None:
            classes = subject.task_classes()
        tasks, unbuilt = learn_tasks(subject, base, classes, seed)
        learned = [correct_base(base, tasks), *tasks]
    attempts = _most_attempts(subject)
    for attempt in range(1, attempts + 1):
        candidate = run_passes(_assembled(subject, learned, unbuilt), TO_BE_LAWFUL)
        if faults := [*learned[0].holes, *candidate.raw["proof"]["holes"]]:
            holes = [*faults, *candidate.holes]
            return Derived(_file_text(subject, candidate), exact=False, holes=holes)
        candidate = _with_proof(candidate, subject, learned)
        if not candidate.mismatches or attempt == attempts:
            break
        if attempt > attempts - _PINNED:
            if subject.is_explored_for_equals and not _has_wrong_tensors(candidate):
                break  # wrong buffers are left out; a pinned field would be refused
            _pin_mismatched(learned, candidate)
        learned = [_corrected(one_class, candidate) for one_class in learned]
    candidate, guards = _with_guards(subject, learned, unbuilt, candidate)
    candidate = refuse_wrong_aliases(candidate, subject)
    candidate = allow_zeros(run_passes(candidate, TO_BE_PROVED), subject, learned)
    return _finished(subject, learned, candidate, guards)


def _assembled(
    subject: Subject,
    learned: Sequence[Learned],
    unbuilt: Iterable[str],
    guards: Guards = NO_GUARDS,
) -> CandidateBlueprint:
    """Return the blueprint of the classes as learned so far."""
    base, *tasks = learned
    in_files = {}
    holes = list(unbuilt)
    with quick_building():
        for one_class in learned:
            name = one_class.class_name
            in_files[name] = learn_saved(subject, name, one_class.draft, one_class.probes)
            holes += in_files[name].holes
    return CandidateBlueprint(assemble(subject, base, tasks, in_files, guards), tuple(holes))


def _with_proof(
    candidate: CandidateBlueprint, subject: Subject, learned: Sequence[Learned]
) -> CandidateBlueprint:
    """Return a candidate with its mismatches on configs that its classes were not learned from."""
    blueprint = _read_back(candidate)
    proof = dict(candidate.raw["proof"])
    mismatches = {}
    agreed: Sequence[Mapping[str, Any]] = ()
    with quick_building():
        for one_class in learned:
            name = one_class.class_name
            if name not in blueprint.class_names:
                continue
            is_base = one_class is learned[0]
            count = _number_unseen(subject) if is_base else UNSEEN_AFTER
            configs = [dict(subject.start)]
            if subject.is_explored_for_equals:
                configs += meeting_choices(one_class.exploration)
                configs += answers_turned(one_class.exploration)
            most = len(configs) + count
            configs += unseen(one_class.exploration, count)
            result = prove_class(blueprint, subject, name, configs, most=most)
            if is_base:
                proof["configs"] = result.configs - 1  # the first one is the default
                agreed = result.agreed
            if result.mismatches:
                mismatches[name] = result.mismatches
    raw = {**candidate.raw, "proof": proof}
    return candidate._replace(raw=raw, mismatches=mismatches, agreed=agreed)


def _most_attempts(subject: Subject) -> int:
    return ATTEMPTS_OF_STRANGERS if subject.is_explored_for_equals else ATTEMPTS


def _number_unseen(subject: Subject) -> int:
    return UNSEEN_OF_STRANGERS if subject.is_explored_for_equals else UNSEEN


def _read_back(candidate: CandidateBlueprint) -> Blueprint:
    return Blueprint(tomllib.loads(blueprint_text(candidate.raw, "")))


def _with_guards(
    subject: Subject,
    learned: Sequence[Learned],
    unbuilt: Iterable[str],
    candidate: CandidateBlueprint,
) -> tuple[CandidateBlueprint, Guards]:
    """Return a proved candidate with guards against the code that no probe reached."""
    fields = (*candidate.raw["defaults"], *candidate.raw.get("computed", {}))
    for changes in replacing_configs(_read_back(candidate), subject):
        learned[0].runs.look(learned[0].class_name, changes)
    branches = find_guards(subject, learned, fields)
    if branches and subject.is_explored_for_equals:  # few configs are kept: look at others, too
        for proved in candidate.agreed[:MOST_LOOKED_AT]:
            learned[0].runs.look(learned[0].class_name, proved)
        branches = find_guards(subject, learned, fields)
    known = learned[0].probes[0].fields
    guards = written_guards(branches, known, candidate.raw.get("aliases", {}))
    if not guards.by_class:
        return candidate, guards
    guarded = run_passes(_assembled(subject, learned, unbuilt, guards), TO_BE_LAWFUL)
    if reasons := guarded.raw["proof"]["holes"]:
        return candidate, without_rules(guards, reasons)
    proof = candidate.raw["proof"]
    return candidate._replace(raw={**guarded.raw, "proof": proof}, holes=guarded.holes), guards


def _has_wrong_tensors(candidate: CandidateBlueprint) -> bool:
    return any(
        mismatch.part == "tensors"
        for mismatches in candidate.mismatches.values()
        for mismatch in mismatches
    )


def _pin_mismatched(learned: Sequence[Learned], candidate: CandidateBlueprint) -> None:
    """Pin the field to its default that most mismatches of the base class change."""
    base = learned[0].exploration
    mismatches = candidate.mismatches.get(base.class_name, ())
    counts: dict[str, int] = {}
    for mismatch in mismatches:
        for path in mismatch.changes.keys() - base.findings.base.keys() - base.start.keys():
            is_pinnable = base.probes[0].fields.get(path) is not None
            if is_pinnable and path in base.knobs and path not in base.findings.pinned:
                counts[path] = counts.get(path, 0) + 1
    probes = [probe.changes for probe in base.probes]

    def suspicion(path: str) -> tuple[float, str]:
        """Return how much more often mismatches change a field than other configs do."""
        usual = sum(path in changes for changes in probes) / len(probes)
        return counts[path] / len(mismatches) - usual, path

    if counts:
        path = max(counts, key=suspicion)
        for one_class in learned:
            one_class.exploration.pin(path)


def _corrected(learned: Learned, candidate: CandidateBlueprint) -> Learned:
    """Return a class that also learned from the configs that a blueprint got wrong."""
    mismatches = candidate.mismatches.get(learned.class_name, ())
    return learn_more(learned, [mismatch.changes for mismatch in mismatches])


def _finished(
    subject: Subject, learned: Sequence[Learned], candidate: CandidateBlueprint, guards: Guards
) -> Derived:
    """Return a blueprint after all passes, with its holes in its proof."""
    base = learned[0]
    mismatches = candidate.mismatches.get(base.class_name, ())
    wrong = [mismatch.text for mismatch in mismatches if mismatch.part == "tensors"]
    holes = list(candidate.holes)
    holes += [f"only one value of {path} is covered" for path in base.exploration.fixed]
    holes += guards.holes
    holes = list(dict.fromkeys(holes))
    proof: dict[str, Any] = {
        **candidate.raw["proof"],
        "adversarial": agreeing(_read_back(candidate), subject, base.class_name, base.probes),
        "holes": holes,
    }
    proved = with_parts(candidate.with_raw({**candidate.raw, "proof": proof}), subject)
    holes += [hole for hole in proved.holes if hole not in holes]
    proved = proved.with_raw({**proved.raw, "proof": {**proved.raw["proof"], "holes": holes}})
    text = _file_text(subject, proved)
    return Derived(text, exact=not wrong, holes=[*wrong[:_MOST_MISMATCHES], *holes])


def _file_text(subject: Subject, candidate: CandidateBlueprint) -> str:
    return blueprint_text(candidate.raw, subject.config_name)
