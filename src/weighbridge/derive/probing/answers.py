"""Configs in which each comparison of sizes that code makes has either answer, near its threshold.

Sizes drawn at random seldom lie beyond a threshold that the defaults are far from, such as a window
that is larger than the image.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weighbridge.algebra.rewrite import LEAVES
from weighbridge.derive.probing.chance import draw_changes
from weighbridge.derive.probing.earlier_probes import is_accepted
from weighbridge.derive.probing.questions import answer_to, flipping, names_a_round

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from weighbridge.algebra.expr import Tree
    from weighbridge.derive.probing.state import Changes, Exploration

MOST_TRIED = 160  # configs
TIMES = 3  # each comparison is turned, in configs that are drawn at random
CHANCE = 0.3  # of turning each other field in such a config


def answers_turned(exploration: Exploration) -> Iterator[Changes]:
    """Yield configs that the code accepts, each drawn at random but for a size that was turned.

    With that size, one comparison that the code was seen to make has the other answer.
    """
    comparisons = [*dict.fromkeys(filter(_compares_sizes, exploration.asked()))]
    of_class = exploration.subject, exploration.class_name
    for tree in (comparisons * TIMES)[:MOST_TRIED]:
        changes = draw_changes(exploration, CHANCE)
        turned = [*_turned(exploration, changes, tree)]
        if turned and is_accepted(*of_class, chosen := exploration.random.choice(turned)):
            yield chosen


def _compares_sizes(tree: Tree) -> bool:
    return _has_order(tree) and not names_a_round(tree)


def _has_order(tree: Tree) -> bool:
    kind, *operands = tree
    if kind in LEAVES:
        return False
    return kind in ("<", "<=", ">", ">=") or any(
        _has_order(operand) for operand in operands if isinstance(operand, tuple)
    )


def _turned(exploration: Exploration, changes: Changes, tree: Tree) -> Iterator[Changes]:
    """Yield the changes with one size at which a comparison has the other answer."""
    fields = _fields_with(exploration, changes)
    if answer_to(tree, fields) is None:
        return
    settable = exploration.knobs.keys() - exploration.fixed.keys()
    for path, value in flipping(tree, fields, settable):
        if type(value) is type(fields[path]) is int and value > 0:
            yield {**changes, path: value}


def _fields_with(exploration: Exploration, changes: Changes) -> Mapping[str, Any]:
    try:
        return exploration.subject.fields(exploration.subject.config(changes))
    except Exception:  # whatever a config class raises is its way to refuse
        return {}
