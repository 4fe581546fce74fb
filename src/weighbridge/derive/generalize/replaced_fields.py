"""Fields that expressions need not name, because the code replaces them with computed values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge.algebra.rewrite import LEAVES, NULL, field_names, replaced, simplified
from weighbridge.derive.generalize.config_defaults import respelled
from weighbridge.derive.generalize.field_values import field_expression

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from weighbridge.algebra.expr import Tree
    from weighbridge.derive.generalize.draft import Draft
    from weighbridge.derive.probing.probe import Probe
    from weighbridge.derive.probing.subject import Subject


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


def overruled(subject: Subject, drafts: Sequence[Draft], probes: Sequence[Probe]) -> set[str]:
    """Replace fields that the config class always computes with their expressions.

    Returns:
        These fields.
    """
    replacements: dict[str, Tree] = {}
    for name in sorted(_changed_by_class(probes) - respelled(subject, probes).keys()):
        with_field = [probe for probe in probes if name in probe.fields]
        tree = field_expression(subject, name, with_field)
        if tree is not None and name not in field_names(tree):
            replacements[name] = tree
    if replacements:
        floats = _float_fields(probes)
        for draft in drafts:
            _replace_in(draft, replacements, floats)
    return set(replacements)


def _replace_in(draft: Draft, replacements: Mapping[str, Tree], floats: frozenset[str]) -> None:
    """Replace fields in a draft with these expressions."""

    def rewritten(tree: Tree) -> Tree:
        return replaced(tree, lambda leaf: _replacement(leaf, replacements))

    _rewrite_dims(draft, lambda dim: simplified(rewritten(dim), floats))
    for key, tensor in draft.tensors.items():
        ties = tuple((target, rewritten(condition)) for target, condition in tensor.ties)
        draft.tensors[key] = tensor._replace(ties=ties)
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


def _rewrite_dims(draft: Draft, rewrite: Callable[[Tree], Tree]) -> None:
    for key, tensor in draft.tensors.items():
        if tensor.dims is not None:
            draft.tensors[key] = tensor._replace(dims=tuple(map(rewrite, tensor.dims)))


def _names_outside_dims(draft: Draft) -> set[str]:
    """Return the fields in conditions, module counts and ties."""
    trees = [*draft.conditions.values(), *draft.repeats.values()]
    for tensor in draft.tensors.values():
        trees += [condition for _, condition in tensor.ties]
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
