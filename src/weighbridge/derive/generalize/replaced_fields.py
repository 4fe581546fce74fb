"""Fields that expressions need not name, because the code replaces them with computed values."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge.algebra.rewrite import LEAVES, NULL, field_names, negated, replaced, simplified
from weighbridge.derive.generalize.config_defaults import respelled
from weighbridge.derive.generalize.field_values import field_expression
from weighbridge.derive.generalize.ordinals import kinds
from weighbridge.derive.probing.symbolic import node_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from weighbridge.algebra.expr import Tree
    from weighbridge.derive.generalize.draft import Draft
    from weighbridge.derive.generalize.ordinals import NumberedKind
    from weighbridge.derive.probing.probe import Probe
    from weighbridge.derive.probing.subject import Subject

_FAR = 2  # a size times this, plus 1, is unlike every value that a class computes


class _NullChoice(NamedTuple):
    """A choice that depends on whether a field is null."""

    field: str
    if_null: Tree
    otherwise: Tree


def settle(drafts: Sequence[Draft]) -> dict[str, Tree]:
    """Turn ``d if d != null else h // a`` into ``d`` in dims; return ``h // a`` for ``d``.

    This is done for fields that the code always replaces with the same expression when null.
    """
    dims: list[Tree] = []
    asked: set[str] = set()
    for draft in drafts:
        dims.extend(_dims(draft))
        asked |= _names_outside_dims(draft)
    named = set[str]().union(*map(field_names, dims))
    settled: dict[str, Tree] = {}
    for name in sorted(named - asked):
        replacements: set[Tree | None] = set()
        for dim in dims:
            replacements.update(_replacements(dim, name))
        replacement = replacements.pop()
        if not replacements and replacement is not None:
            settled[name] = replacement
    if settled:
        for draft in drafts:
            _rewrite_dims(draft, lambda dim: _settled(dim, settled))
    return settled


def count_layers(drafts: Sequence[Draft], probes: Sequence[Probe]) -> None:
    """Replace the lengths of lists of layer numbers, which the class computes, by counts."""
    all_fields = [probe.fields for probe in probes]
    changed = set[str]().union(*[probe.changes.keys() for probe in probes])
    counts: dict[Tree, Tree] = {}
    for name in sorted(_fields_in(drafts) - changed):
        kind = _kind_numbered(name, all_fields)
        if kind is not None:
            counts["len", ("name", name)] = kind.number
    if counts:
        _rewrite(drafts, lambda tree: _with_counts(tree, counts))


def _kind_numbered(name: str, all_fields: Sequence[Mapping[str, Any]]) -> NumberedKind | None:
    """Return the kind whose layers' numbers a field lists in every config."""
    values = [fields.get(name) for fields in all_fields]
    if not all(isinstance(value, list) for value in values) or not any(values):
        return None
    for kind in reversed(kinds(all_fields)):
        if values == [kind.places(fields) for fields in all_fields]:
            return kind
    return None


def _with_counts(tree: Tree, counts: Mapping[Tree, Tree]) -> Tree:
    if tree in counts:
        return counts[tree]
    if tree[0] in LEAVES:
        return tree
    operands = list(tree[1:])
    for position, operand in enumerate(operands):
        if isinstance(operand, tuple):
            operands[position] = _with_counts(operand, counts)
    return (tree[0], *operands)


def overruled(subject: Subject, drafts: Sequence[Draft], probes: Sequence[Probe]) -> set[str]:
    """Replace fields that the config class always computes with their expressions.

    Returns:
        These fields.
    """
    replacements: dict[str, Tree] = {}
    changed = _changed_by_class(probes)
    changed |= _never_kept(subject, drafts, probes) | _not_always_kept(subject, probes)
    spelled = respelled(subject, probes)
    for name in sorted(changed):
        last = _last_item(name, probes, subject.older_words)
        if last:
            _rewrite(drafts, partial(_with_last, name=name, last=last))
        elif name not in spelled:
            tree = _always_computed(subject, name, probes)
            if tree is not None:
                replacements[name] = tree
    if replacements:
        _replace_in(drafts, replacements, _float_fields(probes))
    return set(replacements)


def _always_computed(subject: Subject, name: str, probes: Sequence[Probe]) -> Tree | None:
    """Return what a field's value always is; the field's name means its value in the config."""
    with_field = [probe for probe in probes if name in probe.fields]
    tree = field_expression(subject, name, with_field)
    if isinstance(subject.stated.get(name), bool | int):
        # the class may replace some values of the field and keep others
        with_own = field_expression(subject, name, with_field, from_config=True)
        if with_own is not None and (tree is None or node_count(with_own) < node_count(tree)):
            return with_own
    if tree is not None and name in field_names(tree):
        return None
    return tree


def _last_item(name: str, probes: Sequence[Probe], older_words: Mapping[str, str]) -> str | None:
    """Return the text that the class puts at the end of a list, whatever a config has there."""
    last_items: set[str] = set()
    is_replaced = False
    for probe in probes:
        written, read = probe.changes.get(name), probe.fields.get(name)
        if not isinstance(written, list) or not isinstance(read, list) or not read:
            continue
        words = [older_words.get(word, word) for word in written if isinstance(word, str)]
        if words[:-1] != read[:-1] or not isinstance(read[-1], str):
            return None
        last_items.add(read[-1])
        is_replaced |= words[-1] != read[-1]
    return last_items.pop() if is_replaced and len(last_items) == 1 else None


def _with_last(tree: Tree, name: str, last: str) -> Tree:
    """Return a condition in which the last item of a list counts as this text."""
    if tree[0] in LEAVES:
        return tree
    if tree[0] in ("==", "!=") and tree[1][:2] == ("[]", ("name", name)) and tree[2][0] == "value":
        at_end: Tree = ("==", tree[1][2], ("-", ("len", ("name", name)), ("value", 1)))
        if (tree[2][1] == last) == (tree[0] == "=="):
            return ("or", at_end, tree)
        return ("and", negated(at_end), tree)
    operands = [
        _with_last(operand, name, last) if isinstance(operand, tuple) else operand
        for operand in tree[1:]
    ]
    return (tree[0], *operands)


def _replace_in(
    drafts: Iterable[Draft], replacements: Mapping[str, Tree], floats: frozenset[str]
) -> None:
    """Replace fields in drafts with these expressions."""

    def rewritten(tree: Tree) -> Tree:
        return replaced(tree, lambda leaf: _replacement(leaf, replacements))

    for draft in drafts:
        _rewrite_dims(draft, lambda dim: simplified(rewritten(dim), floats))
        _rewrite_others(draft, rewritten)


def _rewrite(drafts: Iterable[Draft], rewrite: Callable[[Tree], Tree]) -> None:
    """Rewrite every expression of drafts."""
    for draft in drafts:
        _rewrite_dims(draft, rewrite)
        _rewrite_others(draft, rewrite)


def _rewrite_others(draft: Draft, rewritten: Callable[[Tree], Tree]) -> None:
    """Rewrite the expressions of a draft that are not dims."""
    for key, tensor in draft.tensors.items():
        ties = tuple(
            tie._replace(condition=rewritten(tie.condition), at=tie.at and rewritten(tie.at))
            for tie in tensor.ties
        )
        ranks = [rank._replace(condition=rewritten(rank.condition)) for rank in tensor.ranks]
        draft.tensors[key] = tensor._replace(ties=ties, ranks=tuple(ranks))
    draft.conditions = {path: tree and rewritten(tree) for path, tree in draft.conditions.items()}
    draft.repeats = {path: tree and rewritten(tree) for path, tree in draft.repeats.items()}


def _changed_by_class(probes: Sequence[Probe]) -> set[str]:
    """Return the fields whose value differed from the config's in some probe."""
    changed: set[str] = set()
    for probe in probes:
        for name, written in probe.changes.items():
            read = probe.fields.get(name)
            if written is not None and read is not None and not _are_equal(written, read):
                changed.add(name)
    return changed


def _never_kept(subject: Subject, drafts: Sequence[Draft], probes: Sequence[Probe]) -> set[str]:
    """Return the sizes and flags in drafts that no config sets: the class replaces its value."""
    tried = {name for probe in probes for name in probe.changes}
    usual = subject.fields(subject.config(subject.start))
    never_kept: set[str] = set()
    for name in _fields_in(drafts) - tried:
        value = usual.get(name)
        if isinstance(value, int) and not _is_kept(subject, name, _unlike(value)):
            never_kept.add(name)
    return never_kept


def _not_always_kept(subject: Subject, probes: Sequence[Probe]) -> set[str]:
    """Return the flags and sizes whose stated default the class replaces even if it is given."""
    replaced_defaults: dict[str, Probe] = {}
    for probe in probes:
        for name, value in probe.fields.items():
            stated = subject.stated.get(name)
            if isinstance(stated, bool | int) and name not in probe.changes and value != stated:
                replaced_defaults.setdefault(name, probe)
    return {
        name
        for name, probe in replaced_defaults.items()
        if not _is_kept(subject, name, subject.stated[name], probe.changes)
    }


def _unlike(value: int) -> int:
    """Return a flag or a size that no class computes where it computes this one."""
    return not value if isinstance(value, bool) else _FAR * value + 1


def _is_kept(
    subject: Subject, name: str, value: int, near: Mapping[str, Any] | None = None
) -> bool:
    """Whether the config class leaves a field as a config has it, or refuses it."""
    try:
        fields = subject.fields(subject.config({**(near or subject.start), name: value}))
    except Exception:  # whatever the class raises is its way to refuse
        return True
    return bool(fields.get(name) == value)


def _are_equal(one: Any, other: Any) -> bool:
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return list(one) == list(other)
    return bool(one == other)


def _float_fields(probes: Sequence[Probe]) -> frozenset[str]:
    floats: set[str] = set()
    for probe in probes:
        floats |= {name for name, value in probe.fields.items() if isinstance(value, float)}
    return frozenset(floats)


def _replacement(leaf: Tree, replacements: Mapping[str, Tree]) -> Tree:
    if leaf[0] == "name":
        return replacements.get(leaf[1], leaf)
    return leaf


def _dims(draft: Draft) -> Iterator[Tree]:
    for tensor in draft.tensors.values():
        yield from tensor.dims or ()
        for rank in tensor.ranks:
            yield from rank.dims


def _rewrite_dims(draft: Draft, rewrite: Callable[[Tree], Tree]) -> None:
    for key, tensor in draft.tensors.items():
        if tensor.dims is not None:
            ranks = [rank._replace(dims=tuple(map(rewrite, rank.dims))) for rank in tensor.ranks]
            dims = tuple(map(rewrite, tensor.dims))
            draft.tensors[key] = tensor._replace(dims=dims, ranks=tuple(ranks))


def _fields_in(drafts: Iterable[Draft]) -> set[str]:
    """Return the fields in all expressions of drafts."""
    named: set[str] = set()
    for draft in drafts:
        named |= _names_outside_dims(draft).union(*map(field_names, _dims(draft)))
    return named


def _names_outside_dims(draft: Draft) -> set[str]:
    """Return the fields in conditions, module counts and ties."""
    trees = [*draft.conditions.values(), *draft.repeats.values()]
    for tensor in draft.tensors.values():
        for tie in tensor.ties:
            trees += tie.trees
        trees += [rank.condition for rank in tensor.ranks]
    named: set[str] = set()
    for tree in trees:
        if tree is not None:
            named |= field_names(tree)
    return named


def _null_choice(tree: Tree) -> _NullChoice | None:
    """Return a tree as a choice that depends on whether a field is null; None if it is not one."""
    if tree[0] != "if":
        return None
    (kind, *operands), then, otherwise = tree[1:]
    if kind not in ("==", "!=") or operands[0][0] != "name" or operands[1] != NULL:
        return None
    field = operands[0][1]
    if kind == "==":
        return _NullChoice(field, then, otherwise)
    return _NullChoice(field, otherwise, then)


def _replacements(tree: Tree, name: str) -> Iterator[Tree | None]:
    """Yield what replaces a field when it is null; None where no choice guards the field."""
    choice = _null_choice(tree)
    if choice is not None and choice.field == name:
        yield _substituted(choice.otherwise, choice.if_null, name)
    elif tree == ("name", name):
        yield None
    elif tree[0] not in LEAVES:
        for operand in tree[1:]:
            if not isinstance(operand, str):
                yield from _replacements(operand, name)


def _substituted(pattern: Tree, tree: Tree, name: str) -> Tree | None:
    """Return the part of a tree where the pattern has the field, if they otherwise agree."""
    if pattern == ("name", name):
        return tree
    if pattern[0] != tree[0] or pattern[0] in LEAVES or len(pattern) != len(tree):
        return None
    substitutes: set[Tree | None] = set()
    for part, other in zip(pattern[1:], tree[1:], strict=True):
        if part != other:
            substitutes.add(_substituted(part, other, name))
    if len(substitutes) != 1:
        return None
    return substitutes.pop()


def _settled(tree: Tree, settled: Mapping[str, Tree]) -> Tree:
    """Return a tree without the choices that depend on whether a settled field is null."""
    choice = _null_choice(tree)
    if choice is not None and choice.field in settled:
        return _settled(choice.otherwise, settled)
    if tree[0] in LEAVES:
        return tree
    operands = list(tree[1:])
    for position, operand in enumerate(operands):
        if not isinstance(operand, str):
            operands[position] = _settled(operand, settled)
    return (tree[0], *operands)
