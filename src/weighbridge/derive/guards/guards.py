"""Finds guards: the conditions under which a config stays on code that some probe reached."""

from __future__ import annotations

import sys
from collections import Counter
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import nn

from weighbridge.algebra.rewrite import (
    NULL,
    TRUE,
    ZERO,
    compiled,
    field_names,
    joined,
    leaves,
    negated,
    replaced,
    simplified,
)
from weighbridge.derive.guards.branches import branches_of
from weighbridge.derive.guards.forcing import changes_nothing
from weighbridge.derive.guards.places import config_files, places_by_type
from weighbridge.derive.guards.translation import Translator, UntranslatableError
from weighbridge.derive.probing.probe import quick_building

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from types import FrameType

    from weighbridge.algebra.expr import Tree
    from weighbridge.derive.guards.branches import CodeBranch, Outer, Test
    from weighbridge.derive.learning import Learned
    from weighbridge.derive.probing.probe import Probe
    from weighbridge.derive.probing.subject import Subject

MOST_MEETINGS = 24  # times that one test is translated in a run: layers ask the same again
MOST_REFUTING = 3  # probes that are watched because a guard would refuse them
MOST_ROUNDS_TRIED = 64  # rounds of a loop that may take a branch that no field decides
MOST_CALLERS = 6  # functions up the call stack whose tests are looked at
MOST_PINNED_VALUES = 6  # values to which an untranslatable test may pin a field
UNKNOWN_LENGTH: Tree = ("loop", "")
_LETTERS = "ijklmnopqrstuvwxyz"


class Meeting(NamedTuple):
    """A test as translated in one frame: its condition, and what the frame runs under."""

    condition: Tree | None
    outer: tuple[Tree, ...]
    callers: tuple[Tree, ...]
    fields: tuple[str, ...]


class GuardedBranch(NamedTuple):
    """A branch that no probe took, the classes that have it, and the rules that exclude it."""

    branch: CodeBranch
    class_names: tuple[str, ...]
    rules: tuple[Tree, ...]


def find_guards(
    subject: Subject, learned: Sequence[Learned], used_fields: Iterable[str]
) -> list[GuardedBranch]:
    """Return the branches that no probe of a family took and that may decide a tensor.

    Args:
        subject: the code that was learned.
        learned: its classes, the base class first.
        used_fields: the fields that decide something, as far as probes show.
    """
    search = _GuardSearch(subject, learned, used_fields)
    with quick_building():
        return list(search.guarded())


class _GuardSearch:
    """The search for the guards of one family."""

    def __init__(
        self, subject: Subject, learned: Sequence[Learned], used_fields: Iterable[str]
    ) -> None:
        self.subject, self.runs = subject, learned[0].runs
        self.watch = self.runs.watch
        self.used = {path.rpartition(".")[2] for path in used_fields}
        self.base = learned[0].class_name
        self.probes = {one_class.class_name: one_class.probes for one_class in learned}
        self.known = set(learned[0].probes[0].fields)
        self.places = places_by_type(subject)
        self.loops: dict[str, Tree] = {}
        self.config_files = config_files(subject) - subject.files()
        self.files = {*subject.files(), *self.config_files}

    def guarded(self) -> Iterator[GuardedBranch]:
        """Yield each branch that no probe took, with its rules, if any."""
        self.runs.look_without_sub_configs(self.base)
        missed = self.missed()
        meetings = self.meetings(missed)
        for branch in missed:
            met = meetings.get((branch.test.key, branch.truth), [])
            met = [meeting for meeting in met if not self.is_settled(meeting.condition)]
            if not met and (branch.test.key, branch.truth) in meetings:
                continue  # no field decides it
            # where values remember nothing, the same test is translated elsewhere
            met = [meeting for meeting in met if meeting.condition or meeting.fields] or met
            rules = self.rules(branch, met)
            if self.is_reached(branch) or self.is_harmless(branch):
                continue
            if rules and all(self.is_enforced(branch, rule) for rule in rules):
                continue
            yield GuardedBranch(branch, self.classes_with(branch), rules)

    def missed(self) -> list[CodeBranch]:
        """Return the branches whose test was only ever answered the other way."""
        branches: list[CodeBranch] = []
        for file in sorted({file for file, _ in self.watch.answers}):
            for branch in branches_of(file).branches:
                answers = self.watch.answers.get(branch.test.key)
                is_missed = answers is not None and branch.truth not in answers
                if is_missed and not self.is_idle(branch):
                    branches.append(branch)
        return branches

    def is_idle(self, branch: CodeBranch) -> bool:
        """Whether a branch only sets fields of a config that decide nothing."""
        if branch.test.file not in self.config_files or branch.attributes is None:
            return False
        return not branch.attributes & self.used

    def is_reached(self, branch: CodeBranch) -> bool:
        return branch.truth in self.watch.answers[branch.test.key]

    def is_settled(self, condition: Tree | None) -> bool:
        """Whether no field decides a condition; of loop counters, the first few are tried."""
        if condition is None or field_names(condition):
            return False
        sites = {leaf[1] for leaf in leaves(condition) if leaf[0] == "loop"}
        if not sites:
            return True
        site = sites.pop()
        if sites:
            return False
        condition = _with_index(condition, site, "count")
        return not any(compiled(condition)({"count": at}) for at in range(MOST_ROUNDS_TRIED))

    def classes_with(self, branch: CodeBranch) -> tuple[str, ...]:
        """Return the base class if it has a branch, else the classes that have it."""
        met_in = self.watch.met_in[branch.test.key]
        if self.base in met_in:
            return (self.base,)
        return tuple(name for name in met_in if name in self.probes)

    def is_harmless(self, branch: CodeBranch) -> bool:
        """Whether forcing a branch changes no tensor."""
        class_name, changes = self.where_met(branch)
        return changes_nothing(self.subject, class_name, changes, branch)

    def is_enforced(self, branch: CodeBranch, rule: Tree) -> bool:
        """Whether the code refuses what a rule excludes: a null that the config class forbids."""
        if rule[0] != "!=" or rule[1][0] != "name" or rule[2] != NULL:
            return False
        class_name, changes = self.where_met(branch)
        try:
            self.subject.probe(class_name, {**changes, rule[1][1]: None}, labels=False)
        except Exception:  # whatever the code raises on a config that it refuses
            return True
        return False

    def where_met(self, branch: CodeBranch) -> tuple[str, Mapping[str, Any]]:
        """Return a class and a config that meet the test of a branch."""
        met_in = self.watch.met_in[branch.test.key]
        return next(iter(met_in.items()))

    # The tests as conditions

    def meetings(self, missed: Iterable[CodeBranch]) -> dict[tuple[Any, bool], list[Meeting]]:
        """Run configs that meet these tests again, and translate the tests there."""
        by_config: dict[str, tuple[str, Mapping[str, Any], list[CodeBranch]]] = {}
        for branch in missed:
            class_name, changes = self.where_met(branch)
            key = f"{class_name} {sorted(changes.items(), key=str)}"
            by_config.setdefault(key, (class_name, changes, []))[2].append(branch)
        meetings: dict[tuple[Any, bool], list[Meeting]] = {}
        for class_name, changes, branches in by_config.values():
            self.meet(class_name, changes, branches, meetings)
        return meetings

    def meet(
        self,
        class_name: str,
        changes: Mapping[str, Any],
        branches: Iterable[CodeBranch],
        meetings: dict[tuple[Any, bool], list[Meeting]],
    ) -> None:
        """Translate the tests of these branches in one run."""
        wanted: dict[Any, list[CodeBranch]] = {}
        for branch in branches:
            wanted.setdefault(branch.test.key, []).append(branch)
        times = Counter[Any]()

        def at_test(test: Test, frame: FrameType) -> None:
            times[test.key] += 1
            if times[test.key] > MOST_MEETINGS:
                return
            for branch in wanted.get(test.key, ()):
                meeting = self.meeting(branch, frame)
                known = meetings.setdefault((test.key, branch.truth), [])
                if meeting not in known:
                    known.append(meeting)

        tracer = self.watch.tracer(class_name, changes, self.files, at_test)
        before = sys.gettrace()
        sys.settrace(tracer)
        try:
            probe = self.subject.probe(class_name, changes)
        except Exception:  # a config that is refused still met tests
            return
        finally:
            sys.settrace(before)
        self.loops |= probe.trace.loops

    def meeting(self, branch: CodeBranch, frame: FrameType) -> Meeting:
        """Translate one test in one frame."""
        translator = self.translator(frame)
        try:
            condition = self.condition(translator, branch)
        except (UntranslatableError, AttributeError, IndexError, TypeError, ValueError):
            condition = None
            translator.note_fields(branch.test.node)
        fields = tuple(translator.fields)
        outer = self.context(translator, branch.outer)
        if condition is not None and self.is_in_config(frame):
            condition = self.settled(condition)
        callers: list[Tree] = []
        caller = frame.f_back
        while caller is not None and len(callers) < MOST_CALLERS:
            if caller.f_code.co_filename in self.files:
                around = branches_of(caller.f_code.co_filename).around.get(caller.f_lineno, ())
                callers += self.context(self.translator(caller), around)
            caller = caller.f_back
        return Meeting(condition, tuple(outer), tuple(callers), fields)

    def translator(self, frame: FrameType) -> Translator:
        functions = branches_of(frame.f_code.co_filename).functions
        function = functions.get(frame.f_code.co_firstlineno)
        return Translator(frame, function, self.places_of, self.known.__contains__)

    def condition(self, translator: Translator, branch: CodeBranch) -> Tree:
        """Return the condition under which a branch is taken."""
        node = branch.test.node
        if branch.test.kind == "for":
            return translator.rounds(node)
        condition = translator.condition(node)
        if branch.truth:
            return condition
        return negated(condition) if condition[0] != "value" else ("value", not condition[1])

    def context(self, translator: Translator, outer: Outer) -> list[Tree]:
        """Return the conditions of the tests around a line, as far as they can be translated."""
        context: list[Tree] = []
        for node, truth in outer:
            try:
                condition = translator.condition(node)
            except (UntranslatableError, AttributeError, IndexError, TypeError, ValueError):
                continue  # without it the rule refuses more
            if condition[0] == "value":
                continue
            if not truth:
                condition = negated(condition)
            if self.is_in_config(translator.frame):
                condition = self.settled(condition)
            if condition != TRUE:
                context.append(condition)
        return context

    def is_in_config(self, frame: FrameType) -> bool:
        """Whether a frame is a method of a config, which may not have computed all fields yet."""
        return bool(self.places_of(frame.f_locals.get("self")))

    def settled(self, condition: Tree) -> Tree:
        """Return a condition without what a config class asks before it computes the field.

        A rule is about the values that the class leaves. Without a part the rule refuses more.
        """
        if condition[0] in ("and", "or"):
            parts = [self.settled(part) for part in condition[1:]]
            if condition[0] == "or" and TRUE in parts:
                return TRUE
            parts = [part for part in parts if part != TRUE]
            return joined(condition[0], parts) if parts else TRUE
        return condition if self.computed.isdisjoint(field_names(condition)) else TRUE

    @cached_property
    def computed(self) -> frozenset[str]:
        """The fields to which a config class gave another value than a config stated."""
        stated = self.subject.stated
        computed: set[str] = set()
        for probe in self.all_probes():
            given = {**stated, **probe.changes}
            for path, value in probe.fields.items():
                if path not in given or value != given[path]:
                    computed.add(path)
        return frozenset(computed)

    def places_of(self, config: Any) -> Sequence[str]:
        """Return the dotted paths of a config, each with a final dot."""
        if type(config) in self.places:
            return self.places[type(config)]
        if not hasattr(config, "__dict__") or isinstance(config, nn.Module):
            return ()
        for name, value in vars(config).items():
            tree = getattr(value, "tree", None)
            if tree and tree[0] == "name" and f".{tree[1]}".endswith(f".{name}"):
                return (tree[1].removesuffix(name),)
        return ()

    # From conditions to rules

    def rules(self, branch: CodeBranch, met: Sequence[Meeting]) -> tuple[Tree, ...]:
        """Return the rules that exclude a branch; none if no rule does."""
        rules: dict[Tree, None] = {}
        for meeting in met:
            rule = None
            if meeting.condition is not None:
                rule = self.rule(branch, meeting)
            if rule is not None:
                rules.setdefault(rule)
                continue
            pins = self.pins(meeting.fields)
            if not pins:
                return ()
            rules.update(dict.fromkeys(pins))
        return tuple(rules)

    def rule(self, branch: CodeBranch, meeting: Meeting) -> Tree | None:
        """Return the rule that excludes a branch in one frame and holds on all probes."""
        narrow = [*meeting.outer, meeting.condition]
        for parts in (narrow, [*meeting.callers, *narrow]):
            rule = self.excluding(parts)
            if rule is None:
                continue
            refuted = self.refuting(branch, rule)
            if not refuted or self.is_reached(branch):
                return rule
        return None

    def excluding(self, parts: Sequence[Tree | None]) -> Tree | None:
        """Return the rule that these conditions never hold together, in any round of a loop."""
        taken = simplified(joined("and", [part for part in parts if part is not None]))
        sites = list(dict.fromkeys(leaf[1] for leaf in leaves(taken) if leaf[0] == "loop"))
        rule = negated(taken)
        for letter, site in zip(self.letters(), sites, strict=False):
            length = simplified(self.loops.get(site, UNKNOWN_LENGTH))
            if any(leaf[0] == "loop" for leaf in leaves(length)):
                return None
            rounds = ("count", letter, length, _with_index(taken, site, letter))
            taken = (">", rounds, ZERO)
            rule = ("==", rounds, ZERO)
        return rule

    def letters(self) -> list[str]:
        return [letter for letter in _LETTERS if letter not in self.known]

    def refuting(self, branch: CodeBranch, rule: Tree) -> bool:
        """Whether a rule is false on some probe; a few such probes are watched."""
        times = 0
        for class_name in self.classes_with(branch):
            for probe in self.probes[class_name]:
                if self.holds(rule, probe):
                    continue
                self.runs.look(class_name, probe.changes)
                times += 1
                if self.is_reached(branch) or times == MOST_REFUTING:
                    return True
        return times > 0

    def holds(self, rule: Tree, probe: Probe) -> bool:
        names = field_names(rule)
        try:
            return compiled(rule)({name: probe.fields.get(name) for name in names}) is True
        except (ArithmeticError, IndexError, KeyError, TypeError, ValueError):
            return False

    def pins(self, fields: Sequence[str]) -> list[Tree]:
        """Return the rule that these fields have values as on some probe; none if too many.

        Where some of them had one value on all probes, only those are pinned: the others took many
        values without reaching the branch. A sub-config as a whole cannot be pinned: configs give
        its fields.
        """
        if any(path in self.subject.sub_configs for path in fields):
            return []
        fields = [path for path in fields if self.is_constant(path)] or fields
        combinations: dict[str, list[Any]] = {}
        for probe in self.all_probes():
            values = [probe.fields.get(path) for path in fields]
            combinations.setdefault(repr(values), values)
        all_values = list(chain.from_iterable(combinations.values()))
        if len(combinations) > MOST_PINNED_VALUES or not fields:
            return []
        if not all(value is None or isinstance(value, bool | str) for value in all_values):
            return []
        are_flags = all(isinstance(value, bool) for value in all_values)
        if are_flags and len(combinations) == 2 ** len(fields):
            return []  # every combination was probed, so something else decides
        names: list[Tree] = [("name", path) for path in fields]
        options = [list(map(_literal, combinations[key])) for key in sorted(combinations)]
        if len(names) == 1:
            return [("in", names[0], ("list", *[option[0] for option in options]))]
        return [("in", ("list", *names), ("list", *[("list", *option) for option in options]))]

    def is_constant(self, path: str) -> bool:
        """Whether a field had the same value on all probes."""
        return len({repr(probe.fields.get(path)) for probe in self.all_probes()}) == 1

    def all_probes(self) -> Iterator[Probe]:
        for probes in self.probes.values():
            yield from probes


def _literal(value: Any) -> Tree:
    return ("value", value)


def _with_index(tree: Tree, site: str, letter: str) -> Tree:
    """Return a tree with an index in place of a loop's counter."""

    def resolve(leaf: Tree) -> Tree:
        return ("name", letter) if leaf[:2] == ("loop", site) else leaf

    return replaced(tree, resolve)
