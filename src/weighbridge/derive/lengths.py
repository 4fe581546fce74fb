"""Rules on the lists whose items shape tensors one by one: their length, if no config varied it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weighbridge.algebra.expr import parse
from weighbridge.blueprint.law import all_expressions
from weighbridge.blueprint.schema import all_dims

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from weighbridge.algebra.expr import Tree
    from weighbridge.derive.probing.probe import Probe


def length_rules(
    raw: Mapping[str, Any], probes: Sequence[Probe], *, of_stranger: bool = False
) -> list[str]:
    """Return the rules on the lengths of lists, as expressions.

    A longer list may build more tensors. If the blueprint names every item and nothing else of a
    list, and all probes had lists of one length, nothing shows what another length does. The code
    of a stranger is held to this whatever else the blueprint asks of the list.
    """
    items: dict[str, set[int]] = {}
    otherwise: set[str] = set()
    texts = [text for _, text, _ in all_expressions(raw)]
    for text in (*texts, *all_dims(raw)):
        _note_uses(parse(text), items, otherwise)
    rules = []
    for path in sorted(items.keys() | otherwise if of_stranger else items.keys() - otherwise):
        length = _only_length(path, probes)
        named = {index % length for index in items.get(path, ())} if length else set()
        if length and (of_stranger or {*range(length)} <= named):
            rules.append(f"len({path}) == {length}")
    return rules


def _only_length(path: str, probes: Sequence[Probe]) -> int:
    """Return the length of a list in all probes; 0 if they differ, or if it is no list."""
    values = [probe.fields.get(path) for probe in probes]
    lengths = {len(value) for value in values if isinstance(value, list | tuple)}
    return lengths.pop() if len(lengths) == 1 else 0


def _note_uses(tree: Tree, items: dict[str, set[int]], otherwise: set[str]) -> None:
    """Note the items that a tree takes by a constant index, and the names of its other uses."""
    if tree[0] == "[]" and tree[1][0] == "name" and (index := _constant(tree[2])) is not None:
        items.setdefault(tree[1][1], set()).add(index)
    elif tree[0] == "name":
        otherwise.add(tree[1])
    else:
        for operand in tree[1:]:
            if isinstance(operand, tuple):
                _note_uses(operand, items, otherwise)


def _constant(index: Tree) -> int | None:
    """Return an index that is the same integer in every config; None for another one.

    Example:
        >>> _constant(("neg", ("value", 1))), _constant(("name", "i"))
        (-1, None)
    """
    if index[0] == "neg" and index[1][0] == "value":
        return -int(index[1][1])
    return index[1] if index[0] == "value" and type(index[1]) is int else None
