"""A law that every blueprint keeps: a linear layer's bias is as long as its weight's first dim."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from weighbridge.algebra.expr import evaluate, names_in, parse
from weighbridge.blueprint import schema as blueprint
from weighbridge.errors import ExpressionError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from weighbridge.algebra.expr import Tree
    from weighbridge.blueprint.schema import Blueprint

VALUES = [0, 0, 1, 2, 4, 8, True, False, None, ["sparse", "sliding_attention"]]
DRAWS = 300


def pairs(of: Blueprint) -> Iterator[tuple[str, Tree, Tree]]:
    """Yield the first dim of each weight and of its bias, where they are written differently."""
    for class_name in of.class_names:
        modules = of.modules(class_name)
        dims = {template.name: template.dims for template in of.templates(class_name)}
        for name, of_bias in dims.items():
            module = name.removesuffix(".bias")
            of_weight = dims.get(f"{module}.weight", of_bias)
            if modules.get(module) == "Linear" and of_weight[0] != of_bias[0]:
                yield f"{class_name}: {name}", parse(of_weight[0]), parse(of_bias[0])


def value(tree: Tree, fields: Mapping[str, Any]) -> Any:
    """Return the value of an expression, or None if it has none with these fields."""
    try:
        return evaluate(tree, fields)
    except ExpressionError:
        return None


@pytest.mark.sampled
@pytest.mark.parametrize("family", blueprint.families())
def test_a_bias_is_as_long_as_its_weights_first_dim(family: str) -> None:
    of, dice = blueprint.load(family), random.Random(family)  # noqa: S311
    for name, of_weight, of_bias in pairs(of):
        unknown = sorted({*names_in(of_weight), *names_in(of_bias)})
        rules = [rule for rule in of.require.values() if {*names_in(rule)} <= {*unknown}]
        for _ in range(DRAWS):
            fields = {field: dice.choice(VALUES) for field in unknown}
            expected, found = value(of_weight, fields), value(of_bias, fields)
            if None not in (expected, found) and all(value(rule, fields) for rule in rules):
                assert found == expected, (name, fields)
