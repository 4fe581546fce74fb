"""Assembles the blueprint of a family from its learned classes, as its file holds it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge.algebra.expr import names_in, parse
from weighbridge.algebra.rewrite import field_names
from weighbridge.blueprint.roles import role_of
from weighbridge.blueprint.schema import FORMAT
from weighbridge.derive.config_tables import config_tables
from weighbridge.derive.generalize.config_defaults import fill
from weighbridge.derive.generalize.draft import Draft
from weighbridge.derive.generalize.replaced_fields import count_layers, overruled, settle
from weighbridge.derive.guards.sections import NO_GUARDS, add_guards
from weighbridge.derive.kinship import kinship_of
from weighbridge.derive.lengths import length_rules
from weighbridge.derive.probing.requirements import requirements
from weighbridge.derive.probing.symbolic import tree_of
from weighbridge.derive.saved.saved_sections import add_saved
from weighbridge.derive.write import IndexLetters, expression, fields_in, section

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from weighbridge.algebra.expr import Tree
    from weighbridge.derive.guards.sections import Guards
    from weighbridge.derive.learning import Learned
    from weighbridge.derive.probing.subject import Subject
    from weighbridge.derive.saved.saved_names import SavedNames

_ALWAYS_WRITTEN = ("tensors", "defaults", "classes")


class _ClassTables(NamedTuple):
    """The tables of one class, and the fields that its expressions name."""

    tables: dict[str, Any]
    fields: list[str]


def assemble(
    subject: Subject,
    base: Learned,
    tasks: Sequence[Learned],
    in_files: Mapping[str, SavedNames],
    guards: Guards = NO_GUARDS,
) -> dict[str, Any]:
    """Return the blueprint of a family, as its file holds it, without its proof.

    Args:
        subject: the code that the blueprint is derived from.
        base: the base class.
        tasks: the task classes.
        in_files: what files hold for each class, the base class first.
        guards: the conditions that keep a config off code that no probe reached.
    """
    base, *tasks = map(_with_own_draft, (base, *tasks))  # the drafts are changed below
    kinships = [kinship_of(subject, base, task) for task in tasks]
    drafts = {learned.class_name: learned.draft for learned in (base, *tasks)}
    probes = [probe for learned in (base, *tasks) for probe in learned.probes]
    every_draft = [base.draft, *[task.draft for task in tasks]]
    count_layers(every_draft, probes)
    never_kept = overruled(subject, every_draft, probes)
    implied = settle(every_draft)
    letters = IndexLetters(knob.path for knob in subject.knobs({}))
    tables, used = _class_tables(base, letters, None)
    classes = {}
    for task, kinship in zip(tasks, kinships, strict=True):
        own = _class_tables(task, letters, kinship.added, has_active=not kinship.on_base)
        classes[task.class_name] = {**kinship.entries, **own.tables}
        used += own.fields
    tables |= {"repeat": letters.counts, "classes": classes}
    used += add_guards(tables, base.class_name, guards)
    used += add_saved(tables, in_files, drafts, letters)
    used += _fields_in_counts(letters.counts)
    required = _requirements(base, used)
    used += [name for tree in (*required, *implied.values()) for name in sorted(field_names(tree))]
    stated, only_stated = _stated_rules(subject, used)
    used += sorted(only_stated)
    undeclared = guards.undeclared | only_stated
    filled = fill(subject, used, probes, implied, never_kept, undeclared)
    proof = {"by": subject.command, "against": subject.reference, "configs": 0}
    raw = {
        "format": FORMAT,
        "family": subject.family,
        "source": subject.source,
        "class": base.class_name,
        "require": list(map(expression, [*required, *stated])),
        **config_tables(subject, filled, probes, base.exploration.findings),
        "proof": {**proof, "holes": filled.unknown},
        **tables,
        "classes": {name: _without_empty(part) for name, part in classes.items()},
    }
    raw["require"] += length_rules(raw, probes, of_stranger=subject.is_explored_for_equals)
    return {key: value for key, value in raw.items() if value or key in _ALWAYS_WRITTEN}


def _with_own_draft(learned: Learned) -> Learned:
    """Return a class with a copy of its draft."""
    draft = learned.draft
    return learned._replace(
        draft=Draft(
            dict(draft.repeats), dict(draft.tensors), dict(draft.buffers), dict(draft.conditions)
        )
    )


def _without_empty(part: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in part.items() if value != {}}


def _class_tables(
    learned: Learned,
    letters: IndexLetters,
    templates: list[str] | None,
    *,
    has_active: bool = True,
) -> _ClassTables:
    """Return the tables of a class with these tensors, or with all its tensors for None.

    The order of the calls decides which index gets which letter.
    """
    draft = learned.draft
    fields = fields_in(draft, templates)
    tables: dict[str, Any] = section(draft, letters, templates)
    if templates is None:
        templates = list(draft.tensors)
    tables["modules"] = _modules(learned, letters, templates)
    if has_active:
        active = _active_experts(learned, letters, templates)
        tables["active"] = {path: expression(tree) for path, tree in active.items()}
        for tree in active.values():
            fields += sorted(field_names(tree))
    return _ClassTables(tables, fields)


def _fields_in_counts(counts: Mapping[str, str]) -> list[str]:
    """Return the fields that say how often indices repeat."""
    fields: list[str] = []
    for count in counts.values():
        fields += [name for name in names_in(parse(count)) if name not in counts]
    return fields


def _requirements(base: Learned, used: list[str]) -> list[Tree]:
    """Return what a config must satisfy: the code's own conditions, and the fixed fields."""
    required = requirements(base.exploration, used)
    for path, value in base.exploration.fixed.items():
        required.append(("==", ("name", path), tree_of(value)))
    return required


def _stated_rules(subject: Subject, used: list[str]) -> tuple[list[Tree], set[str]]:
    """Return the rules that are stated beside the code, and the fields that only these use."""
    rules = [parse(condition) for condition in subject.required]
    names = {name for rule in rules for name in field_names(rule)}
    return rules, names.difference(used)


def _modules(learned: Learned, letters: IndexLetters, templates: Iterable[str]) -> dict[str, str]:
    """Return the classes of the modules that hold these tensors, by path, from the outside in."""
    kinds_at: dict[str, dict[str, None]] = {}
    for probe in learned.probes:
        for path, kind in probe.modules.items():
            kinds_at.setdefault(learned.draft.template(path), {})[kind] = None
    modules: dict[str, str] = {}
    for template in templates:
        pieces = template.split(".")
        for depth in range(1, len(pieces)):
            path = ".".join(pieces[:depth])
            kinds = kinds_at.get(path, {"?": None})
            modules[letters.named(learned.draft, path)] = " | ".join(kinds)
    return modules


def _active_experts(
    learned: Learned, letters: IndexLetters, templates: Iterable[str]
) -> dict[str, Tree]:
    """Return how many experts of a module each token is routed to, by the module's path."""
    draft = learned.draft
    chosen: dict[str, Tree] = {}
    for probe in learned.probes:
        for router, tree in probe.chosen.items():
            chosen[draft.template(router)] = tree
    active: dict[str, Tree] = {}
    for template in templates:
        if not chosen or not role_of(template).startswith("expert."):
            continue
        if experts := _path_of_experts(template):
            pieces = template.split(".")
            nearest = max(chosen, key=lambda router: _shared_depth(router.split("."), pieces))
            active[letters.named(draft, experts)] = chosen[nearest]
    return active


def _path_of_experts(template: str) -> str | None:
    """Return the path of the experts that a tensor belongs to, with their indices."""
    pieces = template.split(".")
    depths = [depth for depth, piece in enumerate(pieces, 1) if "expert" in piece]
    if not depths:
        return None
    depth = depths[-1]
    while depth < len(pieces) - 1 and pieces[depth].startswith("{"):
        depth += 1
    return ".".join(pieces[:depth])


def _shared_depth(path: Sequence[str], other: Sequence[str]) -> int:
    """Return how many leading pieces two paths have in common."""
    for depth, (piece, other_piece) in enumerate(zip(path, other, strict=False)):
        if piece != other_piece:
            return depth
    return len(path)
