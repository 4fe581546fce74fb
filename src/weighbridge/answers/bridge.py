"""From a model of one family to a model of another: a step between families, then fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge.algebra.expr import evaluate, is_number
from weighbridge.errors import ExpressionError
from weighbridge.ledger.field_shares import Ends, FieldShares
from weighbridge.ledger.whole import Following, terms_by_component

if TYPE_CHECKING:
    from weighbridge.answers.weigh import Weighing


class Bridge(NamedTuple):
    """The first model's sizes in the second model's class, and the shares from there.

    ``step`` is what the change of family and class is worth, with the first model's sizes.
    """

    step_by_component: dict[str, int]
    shares: FieldShares

    @property
    def step(self) -> int:
        """The difference of the totals in this step."""
        return sum(self.step_by_component.values())


def bridge_between(before: Weighing, after: Weighing) -> Bridge | None:
    """Return the bridge between two models.

    None if their sizes do not correspond: if a number in the formula of one class is no field of
    the other family.

    Example:
        >>> from weighbridge.answers.weigh import weigh
        >>> bridge = bridge_between(weigh("Qwen/Qwen2.5-7B"), weigh("mistralai/Mistral-7B-v0.1"))
        >>> bridge.step, bridge.shares.rounded_by_player[("num_hidden_layers",)] > 0
        (-129024, True)
    """
    blueprint, class_name = after.ledger.blueprint, after.class_name
    fields = _moved(before, after)
    if fields is None:
        return None
    try:
        shares = FieldShares(Ends(blueprint, class_name, fields, after.ledger.fields))
    except ExpressionError:
        return None
    of_second = {name: count for name, count in shares.after.items() if count}
    if of_second != {name: count for name, count in after.by("component").items() if count}:
        return None
    components, step = before.by("component"), {}
    for name in dict.fromkeys([*components, *shares.before]):
        changed = shares.before.get(name, 0) - components.get(name, 0)
        if changed:
            step[name] = changed
    return Bridge(step, shares)


def _moved(before: Weighing, after: Weighing) -> dict[str, Any] | None:
    """Return the fields of the second model with the sizes of the first."""
    ours, theirs = before.ledger.fields, after.ledger.fields
    if not _sizes_counted(before) <= theirs.keys():
        return None
    computed = after.ledger.blueprint.computed
    own = _sizes_counted(after) - ours.keys()
    if not own <= computed.keys():
        return None
    both = ours.keys() & theirs.keys()
    alike = {name: ours[name] for name in both if type(ours[name]) is type(theirs[name])}
    fields = {**theirs, **alike}
    for name, tree in computed.items():
        if name in own or isinstance(theirs.get(name), tuple):
            try:
                value = evaluate(tree, fields)
            except ExpressionError:
                return None
            fields[name] = tuple(value) if isinstance(value, list) else value
    return fields


def _sizes_counted(weighing: Weighing) -> set[str]:
    """Return the numbers on which the parameters of a class depend."""
    blueprint, fields = weighing.ledger.blueprint, weighing.ledger.fields
    following = Following(blueprint, fields)
    names = set[str]()
    for terms in terms_by_component(blueprint, weighing.class_name, fields).values():
        for term in terms:
            for tree in (*term.conditions, *(tree for tree, _ in term.factors)):
                names |= following.sources(tree)
    return {name for name in names if is_number(fields.get(name))}
