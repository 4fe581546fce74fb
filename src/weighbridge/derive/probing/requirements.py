"""The rules that a config must satisfy for the reference code to accept it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weighbridge.algebra.rewrite import (
    NULL,
    ZERO,
    field_names,
    joined,
    leaves,
    negated,
    simplified,
)
from weighbridge.derive.probing.questions import answer_to
from weighbridge.derive.probing.strategies import has_other_ranks

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping
    from typing import Any

    from weighbridge.algebra.expr import Tree
    from weighbridge.derive.probing.state import Exploration

MOST_BREAKING = 3  # values of one field that break a rule; each costs a probe
SIZES_OF_KERNELS = range(1, 4)  # the length of a list with a size for each dim of a kernel
FAR = 16  # this multiple of a field's value, or of another's, is enough to break a bound


def requirements(exploration: Exploration, fields: Container[str]) -> list[Tree]:
    """Return the rules of a class; rules on flags only for these fields.

    A question becomes a rule if all probes gave the same answer, and configs that give the other
    answer are refused.
    """
    return [
        *_enforced_answers(exploration),
        *_needed_flags(exploration, fields),
        *_fixed_lengths(exploration, fields),
    ]


def _fixed_lengths(exploration: Exploration, fields: Container[str]) -> Iterator[Tree]:
    """Yield the lengths of the lists with which the code would give a tensor more dims."""
    for path, knob in exploration.knobs.items():
        sizes = exploration.value_in_base(knob)
        if not isinstance(sizes, list | tuple) or path not in fields:
            continue
        longer = type(sizes)([*sizes, *sizes[-1:]])
        if len(sizes) in SIZES_OF_KERNELS and all(type(size) is int for size in sizes):
            probe = exploration.try_change(path, longer)
            if probe is not None and has_other_ranks(probe, exploration.probes[0], longer):
                yield ("==", ("len", ("name", path)), ("value", len(sizes)))


def _enforced_answers(exploration: Exploration) -> Iterator[Tree]:
    yielded: set[Tree] = set()
    for tree in _questions(exploration):
        if not _is_about_two_fields(tree, exploration):
            continue
        answer = _only_answer(tree, exploration)
        if answer is None:
            continue
        rule = simplified(tree if answer else negated(tree))
        if rule not in yielded and _is_enforced(exploration, rule):
            yielded.add(rule)
            yield joined("or", [*_nulls(exploration, rule), rule])


def _questions(exploration: Exploration) -> list[Tree]:
    """Return what the code asked, also about negative numbers, each question once."""
    asked = dict.fromkeys(simplified(tree) for tree in exploration.asked())
    return list(dict.fromkeys([*asked, *_asked_below_zero(exploration, asked)]))


def _asked_below_zero(exploration: Exploration, asked: Iterable[Tree]) -> Iterator[Tree]:
    """Yield what the code asks when a field that it compares with 0 is negative."""
    compared = {
        tree[1][1]
        for tree in asked
        if tree[0] in ("<", ">") and tree[1][0] == "name" and tree[2] == ZERO
    }
    for path in sorted(compared & exploration.knobs.keys()):
        if type(exploration.knobs[path].value) is int:
            probe = exploration.try_change(path, -1)
            if probe is not None:
                yield from probe.trace.questions


def _is_about_two_fields(tree: Tree, exploration: Exploration) -> bool:
    """Whether a question names two fields and no loop counter."""
    paths = field_names(tree)
    return (
        len(paths) == 2
        and paths <= exploration.knobs.keys()
        and not any(leaf[0] == "loop" for leaf in leaves(tree))
    )


def _only_answer(tree: Tree, exploration: Exploration) -> bool | None:
    """Return the answer that all probes give to a question; None if they differ."""
    answers = {answer_to(tree, probe.fields) for probe in exploration.probes} - {None}
    return answers.pop() if len(answers) == 1 else None


def _nulls(exploration: Exploration, rule: Tree) -> list[Tree]:
    """Return the conditions under which a rule does not apply: one of its fields is null."""
    return [
        ("==", ("name", path), NULL)
        for path in sorted(field_names(rule))
        if any(probe.fields.get(path) is None for probe in exploration.probes)
    ]


def _is_enforced(exploration: Exploration, rule: Tree) -> bool:
    """Whether the code refuses configs that break a rule."""
    base = exploration.findings.base
    fields = exploration.subject.fields(exploration.subject.config(base))
    is_broken = False
    for path in sorted(field_names(rule) & exploration.knobs.keys()):
        if type(fields.get(path)) is not int:
            continue
        for value in _breaking(rule, path, fields):
            if value < 0 and _is_refused(exploration, path, -1):
                continue  # negative numbers are refused, whatever the rule
            is_broken = True
            if not _is_refused(exploration, path, value):
                return False
    return is_broken


def _is_refused(exploration: Exploration, path: str, value: int) -> bool:
    changes = {**exploration.findings.base, path: value}
    return exploration.try_out(changes, labels=False) is None


def _breaking(rule: Tree, path: str, fields: Mapping[str, Any]) -> list[int]:
    """Return a few values of one field that break a rule, with the other fields unchanged."""
    value = fields[path]
    sizes = [fields[other] for other in field_names(rule) if type(fields.get(other)) is int]
    tries = [value + 1]
    for size in sizes:
        tries += [size, size + 1]
    tries.append(FAR * value)
    tries += [FAR * size + 1 for size in sizes]
    tries += [-size - 1 for size in sizes]
    breaking = [
        other for other in dict.fromkeys(tries) if answer_to(rule, {**fields, path: other}) is False
    ]
    return breaking[:MOST_BREAKING]


def _needed_flags(exploration: Exploration, fields: Container[str]) -> Iterator[Tree]:
    """Yield the rules for flags that are accepted only together with another flag."""
    for both in exploration.findings.together:
        (path, value), (needed_path, needed_value) = both.items()
        if isinstance(value, bool) and isinstance(needed_value, bool) and path in fields:
            yield ("or", _is_flag(needed_path, needed_value), _is_flag(path, not value))


def _is_flag(path: str, value: bool) -> Tree:  # noqa: FBT001
    return ("name", path) if value else ("not", ("name", path))
