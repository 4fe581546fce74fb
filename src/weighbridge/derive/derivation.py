"""Derives a family: explores its classes, generalizes, fills in its config, writes the blueprint and proves it."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge.algebra.expr import names_in, parse
from weighbridge.algebra.rewrite import NULL, field_names
from weighbridge.blueprint import law
from weighbridge.blueprint.paths import above
from weighbridge.blueprint.roles import role_of
from weighbridge.blueprint.schema import FORMAT, Blueprint
from weighbridge.derive import prove, write
from weighbridge.derive.generalize.config_defaults import fill, respelled
from weighbridge.derive.generalize.draft import Draft, predicted
from weighbridge.derive.generalize.generalize import generalize
from weighbridge.derive.generalize.replaced_fields import overruled, settle
from weighbridge.derive.probing.aiming import aim
from weighbridge.derive.probing.chance import sample, unseen
from weighbridge.derive.probing.explore import explore
from weighbridge.derive.probing.probe import quick_building
from weighbridge.derive.probing.requirements import requirements
from weighbridge.derive.probing.state import begin
from weighbridge.derive.probing.symbolic import tree_of
from weighbridge.derive.probing.unreached import Runs, UnreachedLine
from weighbridge.derive.saved.saved_names import learn_saved
from weighbridge.derive.saved.saved_sections import add_saved, forget_saved
from weighbridge.derive.write import Letters, expression, fields_in, section
from weighbridge.errors import BlueprintError

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable, Mapping, Sequence

    from weighbridge.algebra.expr import Tree
    from weighbridge.derive.generalize.config_defaults import FieldOrigins
    from weighbridge.derive.probing.probe import Probe
    from weighbridge.derive.probing.state import Exploration
    from weighbridge.derive.probing.subject import Subject
    from weighbridge.derive.prove import Difference
    from weighbridge.derive.saved.saved_names import SavedNames

IN_A_ROW = 20  # random configs that a draft must give before it is believed
IN_A_ROW_AFTER = 8  # and that of a class which is explored after another of the same config
_PATIENCE = 6  # drafts in a row that leave the same thing unknown
_MOST_PINNABLE = 24  # fields that may be held at their defaults


class Learned(NamedTuple):
    """A class as it was learned: the draft, the probes it gives back, and what is left to say of it."""

    class_name: str
    draft: Draft
    exploration: Exploration
    runs: Runs
    holes: list[str]
    """What is known to be wrong."""
    missed: list[str]
    """Lines of code that no config executed."""

    @property
    def probes(self) -> list[Probe]:
        """The configs that it was learned from."""
        return self.exploration.probes


def learn(
    subject: Subject, class_name: str, *, like: Learned | None = None, seed: int = 0
) -> Learned:
    """Explore a class, after another or anew, and generalize until a draft gives many random configs in a row.

    Raises:
        Exception: whatever the reference code raises where its default config cannot be built.
    """
    runs = like.runs if like else Runs(subject)
    exploration = begin(subject, class_name, seed, pinned=subject.pinned)
    with quick_building():
        learned = _learned(exploration, runs, like)
        for path in exploration.shrunk if learned.draft.unknown and not like else ():
            other = begin(subject, class_name, seed, pinned=[*subject.pinned, path])
            again = _learned(other, runs)
            if not again.draft.unknown:
                return again
    return learned


def _learned(exploration: Exploration, runs: Runs, like: Learned | None = None) -> Learned:
    """Return what an exploration finds; where it is not enough, with some fields held at their defaults."""
    wanted = IN_A_ROW_AFTER if like else IN_A_ROW
    explore(exploration, like.exploration if like else None)
    missed = _complete(exploration, runs, most=4 if like else None)
    draft, in_a_row = _believed(exploration, wanted)
    while draft.unknown and not like and (path := _in_the_way(exploration, draft)):
        exploration.pin(path)
        draft, in_a_row = _believed(exploration, wanted)
    holes = _unknown(exploration, draft)
    if in_a_row < wanted and not holes:
        holes.append(f"{exploration.class_name}: no draft gave {wanted} random configs in a row")
    return Learned(
        exploration.class_name, draft, exploration, runs, holes, [str(line) for line in missed]
    )


def _unknown(exploration: Exploration, draft: Draft) -> list[str]:
    return [f"{exploration.class_name}: {unknown} was not found" for unknown in draft.unknown]


def _believed(exploration: Exploration, wanted: int) -> tuple[Draft, int]:
    """Return a draft that so many random configs in a row did not contradict, or the best there is, and how many."""
    draft = generalize(exploration.probes)
    in_a_row = stuck = 0
    while in_a_row < wanted and stuck < _PATIENCE and exploration.budget.share_left > 0:
        probe = sample(exploration)
        if probe is None:
            break
        if draft.gives(probe):
            in_a_row += 1
            continue
        in_a_row, before = 0, draft.unknown
        exploration.keep(probe)
        draft = generalize(exploration.probes)
        stuck = stuck + 1 if before and draft.unknown == before else 0
    return draft, in_a_row


def _in_the_way(exploration: Exploration, draft: Draft) -> str | None:
    """Return the field that, held at its default, leaves fewer things unknown than any other; None where none helps."""
    best, fewest = None, len(draft.unknown)
    for path in exploration.pinnable[:_MOST_PINNABLE]:
        unknown = len(generalize(exploration.without(path)).unknown)
        if unknown < fewest:
            best, fewest = path, unknown
        if not unknown:
            break
    return best


def _complete(exploration: Exploration, runs: Runs, most: int | None) -> list[UnreachedLine]:
    """Aim at the lines of code that no config has executed, until none is left or nothing helps; return the rest."""
    tried: list[Any] = []
    missed: list[UnreachedLine] = []
    for _ in range(3):
        small = [
            probe.changes
            for probe in exploration.probes
            if exploration.findings.base.items() <= probe.changes.items()
        ]
        before, missed = missed, runs.never_run(exploration.class_name, [*small[:most], *tried])
        if not missed or [str(line) for line in missed] == [str(line) for line in before]:
            break
        tried = aim(exploration, missed)
    return missed


def blueprint(
    subject: Subject, base: Learned, tasks: Sequence[Learned], filed: Mapping[str, SavedNames]
) -> dict[str, Any]:
    """Return the blueprint of a family, as its file holds it; its proof is still to come."""
    kin = {task.class_name: _kinship(subject, base, task) for task in tasks}
    drafts = [base.draft, *[task.draft for task in tasks]]
    probes = [probe for learned in (base, *tasks) for probe in learned.probes]
    never_kept = overruled(subject, drafts, probes)
    implied = settle(drafts)
    letters = Letters(knob.path for knob in subject.knobs({}))
    tables: dict[str, Any] = section(base.draft, letters)
    tables["modules"] = _modules(base, letters, base.draft.tensors)
    active = _active(base, letters, base.draft.tensors)
    used, classes = (
        [
            *fields_in(base.draft),
            *[name for tree in active.values() for name in sorted(field_names(tree))],
        ],
        {},
    )
    for task in tasks:
        part, own = kin[task.class_name]
        classes[task.class_name] = {
            **part,
            **section(task.draft, letters, own),
            "modules": _modules(task, letters, own),
        }
        used += fields_in(task.draft, own)
        if "base" in part:
            own_active = _active(task, letters, own)
            classes[task.class_name]["active"] = {
                path: expression(tree) for path, tree in own_active.items()
            }
            used += [name for tree in own_active.values() for name in sorted(field_names(tree))]
    tables |= {"repeat": letters.counts, "classes": classes}
    used += add_saved(
        tables, filed, {learned.class_name: learned.draft for learned in (base, *tasks)}, letters
    )
    used += [
        name
        for count in letters.counts.values()
        for name in names_in(parse(count))
        if name not in letters.counts
    ]
    required = requirements(base.exploration, used)
    required += [
        ("==", ("name", path), tree_of(value)) for path, value in base.exploration.fixed.items()
    ]
    used += [name for tree in (*required, *implied.values()) for name in sorted(field_names(tree))]
    filled = fill(subject, used, probes, implied, never_kept)
    raw = {
        "format": FORMAT,
        "family": subject.family,
        "source": subject.source,
        "class": base.class_name,
        "require": [expression(tree) for tree in required],
        **_config(subject, filled, probes, base.exploration.findings.turned),
        "proof": {
            "by": subject.command,
            "against": subject.reference,
            "configs": 0,
            "holes": filled.unknown,
        },
        **tables,
        "active": {path: expression(tree) for path, tree in active.items()},
        "classes": {
            name: {key: value for key, value in part.items() if value != {}}
            for name, part in classes.items()
        },
    }
    return {
        key: value
        for key, value in raw.items()
        if value or key in ("tensors", "defaults", "classes")
    }


def _config(
    subject: Subject, filled: FieldOrigins, probes: Sequence[Probe], turned: Container[str]
) -> dict[str, Any]:
    """Return what a blueprint says of its family's config."""
    fields = {**filled.defaults, **filled.computed}
    knobs = [
        knob.path
        for knob in subject.knobs({**subject.start, **{place: {} for place in subject.optional}})
    ]
    beyond = sorted(path for path in subject.taken if path not in fields and path not in turned)
    words = [subject.words, respelled(subject, probes)]
    zero = {name for probe in probes for name, value in probe.fields.items() if _holds_zero(value)}
    return {
        "inert": sorted(set(knobs) - fields.keys() - set(beyond)),
        "nullable": sorted(
            name for name in filled.nullable if filled.computed.get(name, NULL) == NULL
        ),
        "zero": sorted(zero & fields.keys()),
        "beyond": beyond,
        "values": _values(fields, probes),
        "spelled": {
            name: {**words[0].get(name, {}), **words[1].get(name, {})}
            for name in sorted({*words[0], *words[1]})
            if name in fields
        },
        "defaults": {name: filled.defaults[name] for name in _as_declared(filled.defaults, knobs)},
        "given": filled.given,
        "configs": {**subject.sub_configs, **_dicts(subject, fields)},
        "aliases": _aliases(subject, {*fields, *knobs}.difference(beyond)),
        "computed": {name: expression(tree) for name, tree in _in_order(filled.computed)},
    }


def _dicts(subject: Subject, fields: Iterable[str]) -> dict[str, str]:
    """Return the paths of the dicts, no sub-configs, that these fields are in."""
    places = {place for name in fields for place in above(name) if place != name}
    return dict.fromkeys(sorted(places - subject.sub_configs.keys()), "")


def _aliases(subject: Subject, known: Collection[str]) -> dict[str, str]:
    """Return every other name under which a config may hold one of these fields."""
    return {
        alias: name
        for alias, name in subject.aliases(sorted(known)).items()
        if name in known and alias not in known
    }


def _holds_zero(value: Any) -> bool:
    items = value if isinstance(value, list) else [value]
    return any(type(item) is int and item == 0 for item in items)


def _kinship(subject: Subject, base: Learned, task: Learned) -> tuple[dict[str, Any], list[str]]:
    """Return how a class is built on the base, as its part of a blueprint says it, and the templates of its own."""
    prefix = subject.prefix(task.class_name)
    for inside in dict.fromkeys((f"{prefix}." if prefix else "", "")):
        differs = _differs(base, task, inside)
        if differs is not None:
            without, own = differs
            part = {"prefix": inside[:-1], "without": without}
            return {key: value for key, value in part.items() if value}, [
                name for name in task.draft.tensors if name in own
            ]
    return {"base": False}, list(task.draft.tensors)


def _differs(base: Learned, task: Learned, inside: str) -> tuple[list[str], set[str]] | None:
    """Return the paths of the base that a class lacks and the templates it adds; None where it is no such class."""
    absent: dict[str, bool] = {}
    own: dict[str, bool] = {}
    for probe in task.probes:
        shapes, ties = predicted(base.draft, probe.fields)
        expected = {inside + name: shape for name, shape in shapes.items()}
        for name, shape in expected.items():
            template = base.draft.template(name[len(inside) :])
            missing = name not in probe.tensors
            if absent.setdefault(template, missing) != missing:
                return None
            if not missing:
                tied = ties.get(name[len(inside) :])
                if probe.tensors[name].shape != shape or probe.tensors[name].tied_to != (
                    tied and inside + tied
                ):
                    return None
        for name in probe.tensors:
            template = task.draft.template(name)
            if own.setdefault(template, name not in expected) != (name not in expected):
                return None
    if not absent or all(absent.values()):
        return None
    gone = {template for template, missing in absent.items() if missing}
    return _shortest(gone, set(base.draft.tensors)), {
        template for template, new in own.items() if new
    }


def _shortest(gone: set[str], every: set[str]) -> list[str]:
    """Return the fewest paths that these templates and no others stand under."""
    paths: list[str] = []
    for template in sorted(gone):
        pieces = template.split(".")
        for depth in range(1, len(pieces) + 1):
            path = ".".join(pieces[:depth])
            if {name for name in every if f"{name}.".startswith(f"{path}.")} <= gone:
                if path not in paths:
                    paths.append(path)
                break
    return paths


def _modules(learned: Learned, letters: Letters, templates: Iterable[str]) -> dict[str, str]:
    """Return the classes of the modules that hold these tensors, by path, from the outside in."""
    kinds: dict[str, dict[str, None]] = {}
    for probe in learned.probes:
        for path, kind in probe.modules.items():
            kinds.setdefault(learned.draft.template(path), {})[kind] = None
    found: dict[str, str] = {}
    for template in templates:
        pieces = template.split(".")
        for depth in range(1, len(pieces)):
            path = ".".join(pieces[:depth])
            found[letters.named(learned.draft, path)] = " | ".join(kinds.get(path, {"?": None}))
    return found


def _active(learned: Learned, letters: Letters, templates: Iterable[str]) -> dict[str, Tree]:
    """Return how many of the experts in a module one token passes through, by the module's path with its letters."""
    draft = learned.draft
    chosen = {
        draft.template(path): tree
        for probe in learned.probes
        for path, tree in probe.chosen.items()
    }
    found: dict[str, Tree] = {}
    for template in templates:
        if not role_of(template).startswith("expert.") or not chosen:
            continue
        pieces = template.split(".")
        at = max((at for at, piece in enumerate(pieces) if "expert" in piece), default=-1)
        if at < 0:
            continue
        while at + 1 < len(pieces) - 1 and pieces[at + 1].startswith("{"):
            at += 1
        path = ".".join(pieces[: at + 1])
        nearest = max(chosen, key=lambda other: _shared(other.split("."), pieces))
        found[letters.named(draft, path)] = chosen[nearest]
    return found


def _shared(one: Sequence[str], other: Sequence[str]) -> int:
    """Return how many pieces two paths begin with alike."""
    return next(
        (at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]),
        len(one),
    )


def _as_declared(fields: Iterable[str], knobs: Sequence[str]) -> list[str]:
    """Return fields in the order in which the config class declares them, others last."""
    rank = {name: at for at, name in enumerate(knobs)}
    return sorted(fields, key=lambda name: (rank.get(name, len(rank)), name))


def _values(fields: Iterable[str], probes: Sequence[Probe]) -> dict[str, list[Any]]:
    """Return the texts that each field of texts was seen with."""
    seen: dict[str, set[str]] = {}
    for probe in probes:
        for name in fields:
            value = probe.fields.get(name)
            texts = [value] if isinstance(value, str) else value if isinstance(value, list) else []
            if texts and all(isinstance(text, str) for text in texts):
                seen.setdefault(name, set()).update(texts)
    return {name: sorted(texts) for name, texts in sorted(seen.items())}


def _in_order(computed: dict[str, Tree]) -> list[tuple[str, Tree]]:
    """Return computed fields so that each stands after those that it needs."""
    done: dict[str, Tree] = {}
    waiting = dict(computed)
    while waiting:
        ready = [
            name
            for name, tree in waiting.items()
            if not field_names(tree) & (waiting.keys() - {name})
        ]
        for name in ready or list(waiting):
            done[name] = waiting.pop(name)
    return list(done.items())


def _corrected(base: Learned, tasks: Sequence[Learned]) -> Learned:
    """Return the base class with what its task classes' configs taught of it."""
    wrong = []
    with quick_building():
        for changes in {
            repr(probe.changes): probe.changes for task in tasks for probe in task.probes
        }.values():
            probe = base.exploration.try_out(changes)
            if probe is not None and not base.draft.gives(probe):
                wrong.append(probe)
    for probe in wrong:
        base.exploration.keep(probe)
    return base._replace(draft=generalize(base.probes)) if wrong else base


UNSEEN = (
    24  # random configs, none of them learned from, that the written base class is held against
)
UNSEEN_AFTER = 8  # and each task class
ATTEMPTS = 6  # times that a blueprint is written; each but the first has learned from where the one before was wrong


class Derived(NamedTuple):
    """A blueprint as the text of its file, whether its base class gave every unseen config, and what is missing."""

    text: str
    exact: bool
    holes: list[str]


def derive(subject: Subject, *, classes: Sequence[str] | None = None, seed: int = 0) -> Derived:
    """Return a family's blueprint: learned, written, and then held against the reference on configs not seen before.

    What such a config shows to be wrong is learned from, and the blueprint is held on others. A
    task class that the reference does not build here, or that does not hold, is left out and said
    to be.

    Raises:
        Exception: whatever the reference code raises where its base class cannot be built.
    """
    base = learn(subject, subject.base_class, seed=seed)
    tasks, unbuilt = _tasks(subject, base, classes, seed)
    base = _corrected(base, tasks)
    for attempt in range(ATTEMPTS):
        filed = {
            each.class_name: learn_saved(subject, each.class_name, each.draft, each.probes)
            for each in (base, *tasks)
        }
        raw = blueprint(subject, base, tasks, filed)
        holes = [
            *unbuilt,
            *[hole for found in filed.values() for hole in found.holes],
            *_outlaws(raw),
        ]
        if raw["proof"]["holes"] or base.holes:
            return Derived(
                _text(subject, raw),
                exact=False,
                holes=[*base.holes, *raw["proof"]["holes"], *holes],
            )
        wrong = _prove(subject, raw, [base, *tasks])
        if not wrong or attempt == ATTEMPTS - 1:
            break
        base, *tasks = [
            _taught(learned, wrong.get(learned.class_name, ())) for learned in (base, *tasks)
        ]
    beside = [
        each for differences in wrong.values() for each in differences if each.of != "tensors"
    ]
    if in_files := [each.text for each in beside if each.of == "files"]:
        forget_saved(raw)
        holes.append(f"what files hold was not found: {in_files[0]}")
    if buffers := {name: each.text for each in beside for name in each.names}:
        _forget_buffers(raw, buffers)
        holes += list(dict.fromkeys(buffers.values()))[:1]
    wrong = {
        name: kept
        for name, found in wrong.items()
        if (kept := [each for each in found if each not in beside])
    }
    for class_name in wrong.keys() & raw["classes"].keys():
        del raw["classes"][class_name]
        holes.append(f"{class_name}: {wrong[class_name][0].text}")
    _forget_unused(raw)
    differences = [difference.text for difference in wrong.get(base.class_name, ())]
    missed = [f"{path} has one value only" for path in base.exploration.findings.pinned]
    missed += [line for learned in (base, *tasks) for line in learned.missed]
    raw["proof"]["holes"] = list(dict.fromkeys([*holes, *missed]))
    return Derived(
        _text(subject, raw), exact=not differences, holes=[*differences[:3], *raw["proof"]["holes"]]
    )


def _taught(learned: Learned, differences: Iterable[Difference]) -> Learned:
    """Return a class learned anew with the configs that its blueprint did not give."""
    exploration = learned.exploration
    with quick_building():
        for difference in differences:
            probe = exploration.try_out(difference.changes)
            if probe is not None:
                exploration.keep(probe)
        draft = generalize(exploration.probes)
        while draft.unknown and (path := _in_the_way(exploration, draft)):
            exploration.pin(path)
            draft = generalize(exploration.probes)
    return learned._replace(draft=draft, holes=_unknown(exploration, draft))


def _tasks(
    subject: Subject, base: Learned, classes: Sequence[str] | None, seed: int
) -> tuple[list[Learned], list[str]]:
    tasks, holes = [], []
    for class_name in subject.task_classes() if classes is None else classes:
        try:
            task = learn(subject, class_name, like=base, seed=seed)
        except (
            Exception
        ) as error:  # a class that cannot be built here is a hole, and the others are not
            holes.append(
                f"{class_name} was not built: {type(error).__name__}: {str(error).strip()[:100]}"
            )
            continue
        holes += task.holes
        tasks += [] if task.holes else [task]
    return tasks, holes


def _outlaws(raw: dict[str, Any]) -> list[str]:
    """Take the classes out that break the law of blueprints, and say what each broke; the base's breach is a hole."""
    _forget_unused(raw)
    found: list[str] = []
    while True:
        try:
            law.check(raw)
        except BlueprintError as error:
            breach = str(error)
        else:
            return found
        culprit = next((name for name in raw["classes"] if name in breach), None) or _culprit(raw)
        if culprit is None and forget_saved(raw):
            found.append(breach)
            continue
        if culprit is None:
            raw["proof"]["holes"].append(breach)
            return found
        del raw["classes"][culprit]
        _forget_unused(raw)
        found.append(f"{culprit}: {breach}")


def _culprit(raw: dict[str, Any]) -> str | None:
    """Return a class without which a blueprint is lawful, if there is one."""
    classes: list[str] = list(raw["classes"])
    for name in classes:
        rest = {
            **raw,
            "classes": {other: part for other, part in raw["classes"].items() if other != name},
        }
        try:
            _forget_unused(rest)
            law.check(rest)
        except BlueprintError:
            continue
        return name
    return None


def _forget_buffers(raw: dict[str, Any], wrong: Iterable[str]) -> None:
    """Take the buffers out that stand under these names in some class, and the conditions of what is empty then."""
    for part in (raw, *raw["classes"].values()):
        for path in list(part.get("buffers", ())):
            pattern = r"\d+".join(map(re.escape, re.split(r"\{\w\}", path)))
            if any(re.fullmatch(rf"(.*\.)?{pattern}", name) for name in wrong):
                del part["buffers"][path]
                part.get("stored", {}).pop(path, None)
                left = [*part.get("tensors", ()), *part["buffers"]]
                for empty in [
                    place for place in part.get("when", ()) if f"{path}.".startswith(f"{place}.")
                ]:
                    if not any(f"{name}.".startswith(f"{empty}.") for name in left):
                        del part["when"][empty]


def _forget_unused(raw: dict[str, Any]) -> None:
    """Take the fields out that no expression names any more; they change nothing then."""
    while True:
        used = {name for _, text, _ in law.all_expressions(raw) for name in names_in(parse(text))}
        unused = [name for name in (*raw["defaults"], *raw.get("computed", {})) if name not in used]
        if not unused:
            return
        for key in ("defaults", "computed", "values", "spelled", "given"):
            if key in raw:
                raw[key] = {name: value for name, value in raw[key].items() if name not in unused}
        for key in ("nullable", "zero"):
            if key in raw:
                raw[key] = [name for name in raw[key] if name not in unused]
        raw["inert"] = sorted({*raw.get("inert", ()), *unused})


def _prove(
    subject: Subject, raw: dict[str, Any], learned: Sequence[Learned]
) -> dict[str, list[Difference]]:
    """Hold the classes on configs that they were not learned from; return where they differ, by class."""
    written = Blueprint(_reread(raw))
    wrong = {}
    for each in learned:
        if each.class_name not in written.class_names:
            continue
        count = UNSEEN if each is learned[0] else UNSEEN_AFTER
        configs = [dict(subject.start), *unseen(each.exploration, count)]
        found = prove.held(written, subject, each.class_name, configs, most=count + 1)
        if each is learned[0]:
            raw["proof"]["configs"] = found.configs - 1
        if found.differences:
            wrong[each.class_name] = found.differences
    return wrong


def _reread(raw: dict[str, Any]) -> dict[str, Any]:
    return tomllib.loads(write.toml(raw, ""))


def _text(subject: Subject, raw: dict[str, Any]) -> str:
    return write.toml(raw, subject.config_name)
