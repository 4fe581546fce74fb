"""What derivation does to expressions: the same value with less in it, and the opposite of a condition."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from weighbridge.algebra.expr import parse
from weighbridge.algebra.rewrite import compiled, negated, simplified
from weighbridge.derive.write import expression

SHORTER = {
    "a + 1 + 1 + 1": "a + 3",
    "a + b + 2": "a + b + 2",
    "2 + a + 3": "2 + a + 3",
    "a * 1": "a",
    "1 * a + 0": "a",
    "a // 1 - 0": "a",
    "2 * 3 + a": "6 + a",
    "int(a / b)": "a // b",
    "int(a * b)": "a * b",
    "floor(a / 2)": "a // 2",
    "ceil(a / 2)": "ceil(a / 2)",
    "not a < b": "a >= b",
    "a // b * b == a": "a % b == 0",
    "(b if a > 2 else a) + 1": "(b if a > 2 else a) + 1",
}


def values(tree: Any) -> list[Any]:
    return [compiled(tree)({"a": a, "b": b}) for a, b in product(range(1, 9), repeat=2)]


@pytest.mark.parametrize("text", SHORTER)
def test_a_tree_is_simplified_to_one_of_the_same_value(text: str) -> None:
    tree = parse(text)
    found = simplified(tree)
    assert expression(found) == SHORTER[text]
    assert values(found) == values(tree)


@pytest.mark.parametrize(
    "text", ["a < b", "a == b and b > 2", "a <= 2 or not b != 3", "a in [1, 2]", "not (a > b)"]
)
def test_the_opposite_of_a_condition_is_true_where_it_is_not(text: str) -> None:
    tree = parse(text)
    assert [bool(value) for value in values(negated(tree))] == [not value for value in values(tree)]
