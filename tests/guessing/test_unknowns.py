"""Expressions turned round: what is said to follow must be so, on the dims of every shipped blueprint."""

from __future__ import annotations

import random

import pytest

from weighbridge.algebra.expr import evaluate, names_in, parse
from weighbridge.blueprint import schema as blueprint
from weighbridge.errors import ExpressionError
from weighbridge.guessing.unknowns import Impossible, Open, cells_in, implied, is_open, partly, same

FAMILIES = random.Random(0).sample(blueprint.families(), 120)  # noqa: S311


@pytest.mark.parametrize("family", FAMILIES)
def test_what_follows_of_a_dim_is_the_field_that_was_hidden(family: str) -> None:
    of = blueprint.load(family)
    for tree in of.dims.values():
        try:
            size = evaluate(tree, of.at_defaults)
        except ExpressionError:
            continue  # it has an index
        for hidden in set(names_in(tree)):
            known = {(name,): value for name, value in of.at_defaults.items() if name != hidden}
            left = partly(tree, {}, known)
            assert not is_open(left) or {cell[0] for cell in cells_in(left)} <= {hidden}
            for cell, value, sure in implied(left, size):
                if sure and len(cell) == 1:
                    assert same(value, of.at_defaults[hidden]), (tree, hidden)


@pytest.mark.parametrize(
    ("text", "target", "follows"),
    [
        ("x + 3", 10, {("x",): 7}),
        ("3 - x", 1, {("x",): 2}),
        ("x * 4", 12, {("x",): 3}),
        ("x / 4", 3, {("x",): 12}),
        ("x ** 2", 49, {("x",): 7}),
        ("2 ** x", 8, {("x",): 3}),
        ("max(x, 3)", 8, {("x",): 8}),
        ("sqrt(x)", 3, {("x",): 9}),
        ("log2(x)", 3, {("x",): 8}),
        ("x == null", True, {("x",): None}),
        ("x != 'full'", False, {("x",): "full"}),
        ("not x", True, {("x",): False}),
        ("x and y", True, {("x",): True, ("y",): True}),
        ("x or y", False, {("x",): False, ("y",): False}),
        ("4 if x else 5", 5, {("x",): False}),
        ("x[2]", 6, {("x", 2): 6}),
        ("x[1:][2]", 6, {("x", 3): 6}),
        ("len(x)", 6, {("x", "len"): 6}),
        ("3 in x", True, {("x", "in", 3): True}),
        ("3 not in x", True, {("x", "in", 3): False}),
    ],
)
def test_what_must_follow_follows(
    text: str, target: object, follows: dict[tuple[object, ...], object]
) -> None:
    left = partly(parse(text), {}, {})
    assert {cell: value for cell, value, sure in implied(left, target) if sure} == follows


@pytest.mark.parametrize(
    ("text", "target"), [("x * 4", 10), ("x * 0", 1), ("x ** 2", 50), ("4 if x else 5", 6)]
)
def test_what_cannot_be_is_impossible(text: str, target: int) -> None:
    with pytest.raises(Impossible):
        list(implied(partly(parse(text), {}, {}), target))


@pytest.mark.parametrize("text", ["x // 2", "x % 4", "x > 3", "x * y", "int(x)", "x + y"])
def test_what_has_several_answers_is_never_sure(text: str) -> None:
    left = partly(parse(text), {}, {})
    assert isinstance(left, Open)
    assert not [cell for cell, _, sure in implied(left, 4) if sure]
