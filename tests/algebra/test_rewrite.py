"""Derivation evaluates, simplifies and negates expressions."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weighbridge.algebra.expr import MOST_BITS, MOST_ROUNDS, evaluate, parse, source
from weighbridge.algebra.rewrite import (
    NULL,
    ONE,
    ZERO,
    compiled,
    field_names,
    is_whole,
    joined,
    leaves,
    negated,
    replaced,
    simplified,
)
from weighbridge.errors import ExpressionError

if TYPE_CHECKING:
    from weighbridge.algebra.expr import Tree

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
    "a ** 1": "a",
    "a / 1": "a",
    "0 + a": "a",
    "1 + a": "1 + a",
    "0 * a": "0 * a",
    "a * 0": "a * 0",
    "a + 1": "a + 1",
    "a - 1": "a - 1",
    "1 - a": "1 - a",
    "0 - a": "0 - a",
    "1 // a": "1 // a",
    "1 / a": "1 / a",
    "1 ** a": "1 ** a",
    "0 ** a": "0 ** a",
    "a - 1 + 1": "a - 1 + 1",
    "a + b + 1 + 1": "a + b + 2",
    "a + 1.5 + 1": "a + 1.5 + 1",
    "a + 1 + 1.5": "a + 1 + 1.5",
    "a + 1 + b": "a + 1 + b",
    "7 // 2 + a": "3 + a",
    "2 ** 3 * a": "8 * a",
    "5 - 2 + a": "3 + a",
    "4 / 2 + a": "4 / 2 + a",
    "7 % 4 + a": "7 % 4 + a",
    "1 // 0 if a < 0 else a": "1 // 0 if a < 0 else a",
    "(0 - 8) ** 0.5 if a < 0 else a": "-8 ** 0.5 if a < 0 else a",
    "'x' + 'y' == 'xy' if a < 0 else a": '"x" + "y" == "xy" if a < 0 else a',
    "9 ** 9999 if a < 0 else a": "9 ** 9999 if a < 0 else a",
    "round(a)": "a",
    "floor(a + b)": "a + b",
    "ceil(a - b)": "a - b",
    "round(a / b)": "round(a / b)",
    "abs(int(a / 2))": "abs(a // 2)",
    "int(a * 0.5)": "int(a * 0.5)",
    "int(a * 0.5 / b)": "int(a * 0.5 / b)",
    "int(a / 0.5)": "int(a / 0.5)",
    "int(sqrt(a))": "int(sqrt(a))",
    "not (a > 2 and b < 3)": "a <= 2 or b >= 3",
    "(1 if a > 2 else 0) != 0": "a > 2",
    "(1 if a > 2 else 0) == 0": "(1 if a > 2 else 0) == 0",
    "(1 if a > 2 else 0) != 1": "(1 if a > 2 else 0) != 1",
    "(1 if a > 2 else 0) > 0": "(1 if a > 2 else 0) > 0",
    "a // b * b != a": "a % b != 0",
    "a // b * b > a": "a // b * b > a",
    "a // b * b == b": "a // b * b == b",
    "a // b * a == a": "a // b * a == a",
    "a // b + b == a": "a // b + b == a",
    "['x', 'y'][a % 2] == 'y'": "a % 2 == 1",
    "['x', 'y'][a % 2] != 'y'": "a % 2 != 1",
    "['x', 'y', 'x'][a % 3] == 'x'": "a % 3 in [0, 2]",
    "['x', 'y', 'x'][a % 3] != 'x'": "a % 3 not in [0, 2]",
    "['x', 'x'][a % 2] == 'x'": "true",
    "['x', 'y'][a % 2] == 'z'": "false",
    "['x', 'y'][a % 1] == 'x'": '["x", "y"][a % 1] == "x"',
    "['x', 'y'][a // 9] == 'x'": '["x", "y"][a // 9] == "x"',
    "[a, 2][a % 2] == 2": "[a, 2][a % 2] == 2",
    "['x', 'y'][a % 2] == a": '["x", "y"][a % 2] == a',
    "len([a + 1 + 1])": "len([a + 2])",
    "len([])": "len([])",
    "sum([i * 1 for i in range(a + 1 + 1)])": "sum([i for i in range(a + 2)])",
    "sum([index * 1 for index in range(a)])": "sum([index for index in range(a)])",
}


def values(tree: Any) -> list[Any]:
    return [compiled(tree)({"a": a, "b": b}) for a, b in product(range(1, 9), repeat=2)]


@pytest.mark.parametrize("text", SHORTER)
def test_a_tree_is_simplified_to_one_of_the_same_value(text: str) -> None:
    tree = parse(text)
    found = simplified(tree)
    assert source(found) == SHORTER[text]
    assert values(found) == values(tree)


@pytest.mark.parametrize(
    "text", ["a < b", "a == b and b > 2", "a <= 2 or not b != 3", "a in [1, 2]", "not (a > b)"]
)
def test_the_opposite_of_a_condition_is_true_where_it_is_not(text: str) -> None:
    tree = parse(text)
    assert [bool(value) for value in values(negated(tree))] == [not value for value in values(tree)]


@pytest.mark.parametrize(
    ("text", "opposite"),
    [
        *[("a < b", "a >= b"), ("a <= b", "a > b"), ("a == b", "a != b"), ("a in s", "a not in s")],
        *[("a >= b", "a < b"), ("a > b", "a <= b"), ("a != b", "a == b"), ("a not in s", "a in s")],
        *[("not a", "a"), ("a", "not a"), ("a and b", "not a or not b"), ("a[0]", "not a[0]")],
        ("a or b > 2 and c", "not a and (b <= 2 or not c)"),
    ],
)
def test_a_condition_has_this_opposite(text: str, opposite: str) -> None:
    assert source(negated(parse(text))) == opposite


# One evaluator

BOUND = {"a": 2, "b": 0, "p": True, "word": "x", "sizes": [3, 5], "i": 7, "nothing": None}
literals = st.sampled_from([0, 1, 2, 3, 2.5, True, False, None, "x", MOST_ROUNDS + 1])
atoms = st.sampled_from([("name", name) for name in (*BOUND, "missing")]) | st.builds(
    lambda value: ("value", value), literals
)
_TWO = ["or", "and", "==", "!=", "<", "<=", ">", ">=", "in", "+", "-", "*", "/", "//", "%"]
_TWO += ["**", "max", "min", "[]", "not in"]
_ONE = ["not", "neg", "len", "sum", "max", "min", "abs", "int", "round", "floor", "ceil", "sqrt"]
_ONE += ["log2"]


def grow(inside: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    return (
        st.tuples(st.sampled_from(_TWO), inside, inside)
        | st.tuples(st.sampled_from(_ONE), inside)
        | st.tuples(st.sampled_from(["if", "[:]", "max"]), inside, inside, inside)
        | st.lists(inside, max_size=3).map(lambda items: ("list", *items))
        | st.tuples(st.sampled_from(["for", "count"]), st.just("i"), inside, inside)
    )


trees = st.recursive(atoms, grow, max_leaves=8)


@settings(deadline=None)
@given(trees)
def test_what_is_compiled_agrees_with_the_evaluator(tree: Tree) -> None:
    """Both give the same value and type, or none."""
    try:
        expected = evaluate(tree, BOUND)
    except ExpressionError:
        with pytest.raises((ArithmeticError, LookupError, TypeError, ValueError)):
            compiled(tree)(BOUND)
    else:
        value = compiled(tree)(BOUND)
        assert (repr(value), type(value)) == (repr(expected), type(expected))


@pytest.mark.parametrize(("outer", "is_bounded"), [(10, False), (60, True)])
def test_the_rounds_of_nested_loops_are_multiplied(outer: int, *, is_bounded: bool) -> None:
    tree = parse(f"[len([i * j for j in range(200)]) for i in range({outer})]")
    if is_bounded:
        with pytest.raises(OverflowError):
            compiled(tree)({})
    else:
        assert compiled(tree)({}) == evaluate(tree, {}) == [200] * outer


def test_true_and_1_are_compiled_apart() -> None:
    assert compiled(("value", 1))({}) == 1
    assert compiled(("value", True))({}) is True
    assert compiled(("not", ("value", False)))({}) is True
    with pytest.raises(TypeError):
        compiled(("not", ("value", 0)))({})


@pytest.mark.parametrize("text", ["2 and 3", "not 2", "1 if 2 else 3", "'x' * 2", "'x' + 'y'"])
def test_what_is_compiled_is_as_strict(text: str) -> None:
    with pytest.raises(TypeError):
        compiled(parse(text))({})


@pytest.mark.parametrize("text", [f"2 ** {MOST_BITS}", f"[0 for i in range({MOST_ROUNDS + 1})]"])
def test_what_is_compiled_has_the_same_bounds(text: str) -> None:
    with pytest.raises(OverflowError):
        compiled(parse(text))({})


def test_a_loop_is_compiled() -> None:
    assert (
        compiled(parse("count(i > 0 for i in range(n)) + sum([i for i in range(3)])"))({"n": 4})
        == 6
    )


def test_a_tree_is_compiled_once() -> None:
    assert compiled(parse("a + 1")) is compiled(parse("a + 1"))


# Leaves that only derivation uses

GROWN = ("+", ("*", ("name", "a"), ("index", 1)), ("-", ("loop", "site", 3), ("value", 2)))


def test_an_index_is_a_name_and_a_counter_is_its_value() -> None:
    assert compiled(GROWN)({"a": 5, "@1": 2}) == 11


def test_the_leaves_of_a_tree_are_all_replaced() -> None:
    assert list(leaves(GROWN)) == [
        ("name", "a"),
        ("index", 1),
        ("loop", "site", 3),
        ("value", 2),
    ]
    assert replaced(GROWN, lambda _: ONE) == ("+", ("*", ONE, ONE), ("-", ONE, ONE))
    looped = parse("[i * a for i in range(n)]")
    assert list(leaves(looped)) == [("name", "n"), ("name", "i"), ("name", "a")]
    assert replaced(looped, lambda leaf: leaf) == looped
    assert list(leaves(("list",))) == []


def test_the_fields_of_a_tree_are_its_names() -> None:
    assert field_names(GROWN) == {"a"}
    assert field_names(parse("[i * a for i in range(n)]")) == {"a", "n"}
    assert field_names(("index", 0)) == field_names(("loop", "site", 3)) == set()


def test_conditions_are_joined_once_each() -> None:
    a, b, c = map(parse, "abc")
    assert joined("and", [a]) == a
    assert joined("or", [a, b, a, c]) == ("or", ("or", a, b), c)


@pytest.mark.parametrize(
    ("tree", "whole"),
    [
        *[(("value", 3), True), (("value", 3.0), False), (("value", True), False), (NULL, False)],
        *[(("name", "a"), True), (("index", 0), True), (("loop", "site", 3), True)],
        *[(parse(f"{kind}(x / 2)"), True) for kind in ("int", "floor", "ceil")],
        *[(parse(f"{kind}(x)"), False) for kind in ("sqrt", "log2", "abs", "round", "sum")],
        *[(parse(f"a {kind} b"), True) for kind in ("+", "-", "*", "//", "%")],
        *[(parse(f"a {kind} 0.5"), False) for kind in ("+", "-", "*", "//", "%")],
        *[(parse(f"a {kind} b"), False) for kind in ("/", "**", "<", "and")],
        *[(parse(text), True) for text in ("-a", "len(a)", "max(a, b, 3)", "min(a, 1)")],
        *[(parse(text), False) for text in ("-(a / b)", "max(a, b, 0.5)", "a if a > 2 else b")],
    ],
)
def test_a_tree_is_surely_an_integer(tree: Tree, whole: bool) -> None:
    assert is_whole(tree) is whole


def test_a_field_that_is_a_fraction_is_made_an_integer() -> None:
    floats = frozenset({"ratio"})
    for text in ("int(ratio)", "int(a * ratio)", "int(a / ratio)", "int(int(ratio) / a)"):
        assert simplified(parse(text), floats) == parse(text)
    assert simplified(parse("int(a / b)"), floats) == parse("a // b")


def test_simplification_continues_in_its_results() -> None:
    assert simplified(parse("int((a + 1 + 1) / 1)")) == parse("a + 2")
    assert simplified(("neg", ("value", 3))) == ("value", -3)
    assert simplified(ZERO) == ZERO
