"""What an expression's result implies for its unknown names: laws first, then each operator."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weighbridge.algebra.expr import evaluate, names_in, parse
from weighbridge.blueprint import schema as blueprint
from weighbridge.errors import ExpressionError
from weighbridge.guessing import unknowns
from weighbridge.guessing.unknowns import Impossible, Open, cells_in, implied, is_open, partly, same

if TYPE_CHECKING:
    from collections.abc import Mapping

    from weighbridge.guessing.unknowns import Cell

FAMILIES = random.Random(0).sample(blueprint.families(), 40)  # noqa: S311
LAWS = settings(max_examples=60, deadline=None, derandomize=True, database=None)


def cell(*path: Any) -> Open:
    return Open("cell", path)


def partial(
    text: str, known: Mapping[Cell, Any] | None = None, indices: Mapping[str, int] | None = None
) -> Any:
    return partly(parse(text), indices or {}, known or {})


def implications(text: str, target: Any) -> list[tuple[str, Any, bool]]:
    """Return what a result implies, with each cell as text: ``x`` or ``x.len``."""
    consequences = implied(partial(text), target)
    return [(".".join(map(str, path)), value, sure) for path, value, sure in consequences]


def certain(text: str, target: Any) -> dict[str, Any]:
    return {name: value for name, value, sure in implications(text, target) if sure}


# Laws

POSITIVE = st.integers(1, 60)
TRUTHS = st.booleans()

# Operators that map no two values of x to the same result, with operands for x and the constant c.
EXACT = {
    "x + c": (POSITIVE, POSITIVE),
    "c + x": (POSITIVE, POSITIVE),
    "x - c": (POSITIVE, POSITIVE),
    "c - x": (POSITIVE, POSITIVE),
    "x * c": (POSITIVE, POSITIVE),
    "c * x": (POSITIVE, POSITIVE),
    "x * x": (POSITIVE, POSITIVE),
    "x / c": (POSITIVE, st.sampled_from([1, 2, 4, 8])),  # fractions that a float holds
    "c / x": (st.just(4), st.sampled_from([1, 2, 4, 8])),
    "x ** c": (st.integers(1, 9), st.integers(1, 5)),
    "c ** x": (st.integers(0, 9), st.integers(2, 5)),
    "-x": (POSITIVE, POSITIVE),
    "not x": (TRUTHS, TRUTHS),
    "x == c": (TRUTHS, TRUTHS),
    "x != c": (TRUTHS, TRUTHS),
    "c == x": (TRUTHS, TRUTHS),
    "sqrt(x)": (st.sampled_from([1, 4, 9, 25, 144]), POSITIVE),
    "log2(x)": (st.sampled_from([1, 2, 4, 1024]), POSITIVE),
    "3 * (x + c) - c": (POSITIVE, POSITIVE),
    "2 ** (x + 1) + c": (st.integers(0, 9), POSITIVE),
}
# Operators whose result does not determine x.
LOSSY = {
    "x // c": (POSITIVE, POSITIVE),
    "c // x": (POSITIVE, POSITIVE),
    "x % c": (POSITIVE, POSITIVE),
    "c % x": (POSITIVE, POSITIVE),
    "max(x, c)": (POSITIVE, POSITIVE),
    "min(x, c)": (POSITIVE, POSITIVE),
    "max(c, x)": (POSITIVE, POSITIVE),
    "x > c": (POSITIVE, POSITIVE),
    "x >= c": (POSITIVE, POSITIVE),
    "x < c": (POSITIVE, POSITIVE),
    "x <= c": (POSITIVE, POSITIVE),
    "c < x": (POSITIVE, POSITIVE),
    "x == c": (POSITIVE, POSITIVE),
    "x != c": (POSITIVE, POSITIVE),
    "x and c": (TRUTHS, TRUTHS),
    "c or x": (TRUTHS, TRUTHS),
    "x or c": (TRUTHS, TRUTHS),
    "7 if x else c": (TRUTHS, POSITIVE),
    "int(x)": (POSITIVE, POSITIVE),
    "round(x)": (POSITIVE, POSITIVE),
    "floor(x)": (POSITIVE, POSITIVE),
    "ceil(x)": (POSITIVE, POSITIVE),
    "x in [c]": (POSITIVE, POSITIVE),
    "x in [c, 7]": (POSITIVE, POSITIVE),
}


@pytest.mark.parametrize("text", EXACT)
@given(data=st.data())
@LAWS
def test_an_exact_operator_yields_the_hidden_value(text: str, data: st.DataObject) -> None:
    hidden, constant = (data.draw(strategy) for strategy in EXACT[text])
    target = evaluate(parse(text), {"x": hidden, "c": constant})
    consequences = list(implied(partial(text, {("c",): constant}), target))
    assert any(path == ("x",) and same(value, hidden) for path, value, _ in consequences)
    assert all(same(value, hidden) for _, value, sure in consequences if sure)


@pytest.mark.parametrize("text", LOSSY)
@given(data=st.data())
@LAWS
def test_a_lossy_operator_yields_a_value_with_the_same_result(
    text: str, data: st.DataObject
) -> None:
    hidden, constant = (data.draw(strategy) for strategy in LOSSY[text])
    target = evaluate(parse(text), {"x": hidden, "c": constant})
    piece = partial(text, {("c",): constant})
    if not is_open(piece):
        assert same(piece, target)  # such as `true or x`
        return
    values = [value for path, value, _ in implied(piece, target) if path == ("x",)]
    said = [value for path, value, sure in implied(piece, target) if sure and path == ("x",)]
    assert all(same(value, hidden) for value in said)
    results = [
        evaluate(parse(text), {"x": value, "c": constant})
        for value in values
        if not (value == 0 and text.endswith(("// x", "% x")))  # no size is 0
    ]
    assert determines_nothing(text, target, constant) or any(
        same(result, target) for result in results
    )


def determines_nothing(text: str, target: Any, constant: Any) -> bool:
    """Return whether any value gives the result, so that there is nothing to list."""
    if text in ("x and c", "x or c"):
        return target is constant is (text == "x or c")  # the constant settles it
    if text.startswith("x in"):
        return not target
    return text in ("c // x", "c % x") and target in (0, constant)


@given(left=POSITIVE, right=POSITIVE)
@LAWS
def test_a_product_of_two_unknowns_lists_both_factors(left: int, right: int) -> None:
    consequences = list(implied(partial("x * y"), left * right))
    assert (("x",), left, False) in consequences
    assert (("y",), right, False) in consequences


@given(number=st.integers(1, 5_000))
@LAWS
def test_divisors_are_the_smallest_ones_in_order(number: int) -> None:
    divisors = [value for value in range(1, number + 1) if number % value == 0]
    assert [value for path, value, _ in implied(partial("x * y"), number) if path == ("x",)] == (
        divisors[:200]
    )


@given(dividend=POSITIVE, divisor=st.integers(1, 12))
@LAWS
def test_a_divisor_is_among_those_of_its_quotient_or_remainder(dividend: int, divisor: int) -> None:
    remainder, quotient = dividend % divisor, dividend // divisor
    listed = [value for _, value, _ in implied(partial(f"{dividend} % x"), remainder)]
    assert divisor in listed or dividend == remainder
    lowest = [v for v in range(1, 61) if dividend // v == quotient]
    bounds = [value for _, value, _ in implied(partial(f"{dividend} // x"), quotient)]
    assert not quotient or bounds == [lowest[-1], lowest[0]]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_dim_implies_the_field_that_was_hidden(family: str) -> None:
    of = blueprint.load(family)
    for tree in of.dims.values():
        try:
            size = evaluate(tree, of.at_defaults)
        except ExpressionError:
            continue  # it has an index
        for hidden in set(names_in(tree)):
            known = {(name,): value for name, value in of.at_defaults.items() if name != hidden}
            piece = partly(tree, {}, known)
            assert not is_open(piece) or {path[0] for path in cells_in(piece)} <= {hidden}
            for path, value, sure in implied(piece, size):
                if sure and len(path) == 1:
                    assert same(value, of.at_defaults[hidden]), (tree, hidden)


# Each operator: all that it implies, in order


@pytest.mark.parametrize(
    ("text", "target", "consequences"),
    [
        ("x", 5, [("x", 5, True)]),
        ("x + 3", 10, [("x", 7, True)]),
        ("3 + x", 10, [("x", 7, True)]),
        ("x + y", 10, []),
        ("x - 3", 10, [("x", 13, True)]),
        ("3 - x", 1, [("x", 2, True)]),
        ("x - y", 10, []),
        ("x * 4", 12, [("x", 3, True)]),
        ("4 * x", 12, [("x", 3, True)]),
        ("x * 0", 0, []),
        ("0 * x", 0, []),
        ("x * x", 49, [("x", 7, True)]),
        ("x * y", 0, []),
        ("x * y", -6, []),
        ("x * y", 1.5, []),
        ("x * y", 1, [("x", 1, False), ("y", 1, False)]),
        ("x * y", 3, [("x", 1, False), ("y", 1, False), ("x", 3, False), ("y", 3, False)]),
        ("x * 0.4", 1, [("x", 2.5, False), ("x", 2, False)]),
        ("x * 4", 6.0, [("x", 1.5, False), ("x", 2, False)]),
        ("0.5 * x", 3.5, [("x", 7.0, False), ("x", 7, False)]),
        ("x // 4", 3, [("x", 12, False), ("x", 15, False)]),
        ("x // 4", 0, [("x", 0, False), ("x", 3, False)]),
        ("x // 1", 3, [("x", 3, True), ("x", 3, True)]),
        ("x // 0", 3, []),
        ("x // y", 3, []),
        ("12 // x", 3, [("x", 4, False), ("x", 4, False)]),
        ("20 // x", 3, [("x", 6, False), ("x", 6, False)]),
        ("20 // x", 1, [("x", 20, False), ("x", 11, False)]),
        ("20 // x", 0, []),
        ("x / 4", 3, [("x", 12, True)]),
        ("x / 4", 0.5, [("x", 2, True)]),
        ("x / 4", 0.3, [("x", 1.2, True)]),
        ("12 / x", 3, [("x", 4, True)]),
        ("1 / x", 0.5, [("x", 2, True)]),
        ("12 / x", 0, []),
        ("x / y", 3, []),
        ("x ** 2", 49, [("x", 7, True)]),
        ("x ** 1", 49, [("x", 49, True)]),
        ("x ** 3", 1, [("x", 1, True)]),
        ("x ** 0", 1, []),
        ("x ** 0.5", 3, []),
        ("x ** 2", 0, []),
        ("x ** 2", -4, []),
        ("x ** 2", 2.25, []),
        ("x ** y", 8, []),
        ("2 ** x", 8, [("x", 3, True)]),
        ("2 ** x", 1, [("x", 0, True)]),
        ("3 ** x", 81, [("x", 4, True)]),
        ("1 ** x", 1, []),
        ("0.5 ** x", 4, []),
        ("2.0 ** x", 8, []),
        ("10 % x", 4, [("x", 1, False), ("x", 2, False), ("x", 3, False), ("x", 6, False)]),
        ("4 % x", 4, []),
        ("1 % x", 3, [("x", 1, False), ("x", 2, False)]),
        ("2.5 % x", 0.5, []),
        ("x % 4", 3, [("x", 3, False)]),
        ("x % y", 3, []),
        ("max(x, 3)", 8, [("x", 8, True), ("x", 8, False)]),
        ("max(3, x)", 8, [("x", 8, True), ("x", 8, False)]),
        ("max(x, 3)", 3, [("x", 3, False)]),
        ("max(x, y)", 3, [("x", 3, False), ("y", 3, False)]),
        ("max(x, y, 2)", 3, [("x", 3, False), ("y", 3, False)]),
        ("max(x, 1, 2)", 3, [("x", 3, True), ("x", 3, False)]),
        ("max(x, 1, 3)", 3, [("x", 3, False)]),
        ("max(x)", 3, [("x", 3, False)]),
        ("min(x, 3)", 2, [("x", 2, True), ("x", 2, False)]),
        ("min(x, 3)", 3, [("x", 3, False)]),
        ("4 if x else 5", 4, [("x", True, True)]),
        ("4 if x else 5", 5, [("x", False, True)]),
        ("4 if x else 4", 4, [("x", True, False), ("x", False, False)]),
        ("y if x else 5", 4, [("x", True, True), ("y", 4, True)]),
        ("5 if x else y", 4, [("x", False, True), ("y", 4, True)]),
        (
            "y if x else z",
            4,
            [("x", True, False), ("x", False, False), ("y", 4, False), ("z", 4, False)],
        ),
        ("y if x else 4", 4, [("x", True, False), ("x", False, False), ("y", 4, False)]),
        ("4 if x else y", 4, [("x", True, False), ("x", False, False), ("y", 4, False)]),
        ("x and y", True, [("x", True, True), ("y", True, True)]),
        ("x and y", False, [("x", False, False), ("y", False, False)]),
        ("x and true", False, [("x", False, True)]),
        ("x and false", False, []),
        ("x and true", True, [("x", True, True)]),
        ("x or y", False, [("x", False, True), ("y", False, True)]),
        ("x or y", True, [("x", True, False), ("y", True, False)]),
        ("x or false", True, [("x", True, True)]),
        ("x or true", True, []),
        ("x or false", False, [("x", False, True)]),
        ("not x", True, [("x", False, True)]),
        ("not x", False, [("x", True, True)]),
        ("x == null", True, [("x", None, True)]),
        ("null == x", True, [("x", None, True)]),
        ("x == null", False, []),
        ("x == 'full'", False, []),
        ("x == true", False, [("x", False, True)]),
        ("x == false", False, [("x", True, True)]),
        ("x == 3", True, [("x", 3, True)]),
        ("x == 3", False, [("x", 4, False), ("x", 2, False), ("x", 5, False)]),
        ("3 == x", False, [("x", 4, False), ("x", 2, False), ("x", 5, False)]),
        ("x == y", True, []),
        ("x != 'full'", False, [("x", "full", True)]),
        ("x != 3", True, [("x", 4, False), ("x", 2, False), ("x", 5, False)]),
        ("x != true", True, [("x", False, True)]),
        ("x > 3", True, [("x", 3, False), ("x", 4, False), ("x", 2, False)]),
        ("3 > x", True, [("x", 3, False), ("x", 4, False), ("x", 2, False)]),
        ("x >= 3", False, [("x", 3, False), ("x", 4, False), ("x", 2, False)]),
        ("x < 3", True, [("x", 3, False), ("x", 4, False), ("x", 2, False)]),
        ("x <= 3", True, [("x", 3, False), ("x", 4, False), ("x", 2, False)]),
        ("x > 3.5", True, []),
        ("x > y", True, []),
        ("x in [4]", True, [("x", 4, True)]),
        ("x in [4, 6]", True, [("x", 4, False), ("x", 6, False)]),
        ("x in [4, 6]", False, []),
        ("4 in [x, 5]", True, []),
        ("x in [y]", True, []),
        ("-x", 3, [("x", -3, True)]),
        ("sqrt(x)", 3, [("x", 9, True)]),
        ("log2(x)", 3, [("x", 8, True)]),
        ("log2(x)", 0, [("x", 1, True)]),
        ("log2(x)", 63, [("x", 2**63, True)]),
        ("log2(x)", 64, [("x", 0, True)]),
        ("log2(x)", -1, [("x", 0, True)]),
        ("int(x)", 3, [("x", 3, False)]),
        ("round(x)", 3, [("x", 3, False)]),
        ("floor(x)", 3, [("x", 3, False)]),
        ("ceil(x)", 3, [("x", 3, False)]),
        ("abs(x)", 3, []),
        ("x[2]", 6, [("x.2", 6, True)]),
        ("x[y]", 6, []),
        ("x[1:][2]", 6, [("x.3", 6, True)]),
        ("len(x)", 6, [("x.len", 6, True)]),
        ("3 in x", True, [("x.in.3", True, True)]),
        ("3 not in x", True, [("x.in.3", False, True)]),
        ("len(x[1:])", 6, [("x.len", 7, True)]),
    ],
)
def test_all_that_a_result_implies(
    text: str, target: object, consequences: list[tuple[str, object, bool]]
) -> None:
    implications_now = implications(text, target)
    assert implications_now == consequences
    kinds = [(type(value), sure) for _, value, sure in implications_now]
    assert kinds == [(type(value), sure) for _, value, sure in consequences]  # true is not 1


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("x * 4", 10),
        ("4 * x", 10),
        ("x * 0", 1),
        ("0 * x", 1),
        ("x ** 2", 50),
        ("x * x", 50),
        ("2 ** x", 9),
        ("4 if x else 5", 6),
        ("true if x else 5", 1),
        ("(x * 4) + 1", 8),
        ("-(x * 4)", 10),
    ],
)
def test_a_result_that_no_value_gives_is_impossible(text: str, target: int) -> None:
    with pytest.raises(Impossible):
        list(implied(partial(text), target))


def test_a_mere_possibility_is_not_a_contradiction() -> None:
    assert implications("(x * 4) // 3", 2) == [("x", 2, False)]  # x * 4 is 6 or 8
    assert implications("(x * 4) if y else z", 6) == [
        ("y", True, False),
        ("y", False, False),
        ("z", 6, False),
    ]


def test_certainty_ends_at_the_first_maybe() -> None:
    assert implications("(x + 1) * 2", 8) == [("x", 3, True)]
    assert implications("(x + 1) // 2", 3) == [("x", 5, False), ("x", 6, False)]
    assert list(implied(cell("x"), 3, sure=False)) == [(("x",), 3, False)]
    assert list(implied(partial("x + 1"), 3, sure=False)) == [(("x",), 2, False)]


@pytest.mark.parametrize(
    ("text", "target"),
    [("x + 3", "full"), ("x * 0.1", None), ("-x", "full"), ("log2(x)", None), ("x + 3", [1])],
)
def test_a_target_of_another_kind_implies_nothing(text: str, target: object) -> None:
    assert implications(text, target) == []


def test_a_target_beyond_all_numbers_implies_nothing() -> None:
    assert implications("x / 0.5", 10**400) == []
    assert implications("x * 0.5", 10**400) == []


@pytest.mark.parametrize("value", [3, None, "text", [3], [cell("x")], Open("unclear", ())])
def test_only_an_open_operator_implies_something(value: object) -> None:
    assert list(implied(value, 3)) == []


def test_divisors_have_bounds() -> None:
    highly_composite = 1_102_701_600  # 1,440 divisors
    values = [value for path, value, _ in implied(partial("x * y"), highly_composite)]
    assert len(values) == 2 * 200
    largest = 2**31 - 1  # a prime
    assert {value for _, value, _ in implied(partial("x * y"), largest)} == {1, largest}
    assert implications("x * y", 2**31) == []


# Parts of lists


@pytest.mark.parametrize(
    ("text", "known", "value"),
    [
        ("x[2]", {("x", 2): 6}, 6),
        ("x[2]", {("x",): [1, 2, 3]}, 3),
        ("x[2]", {}, cell("x", 2)),
        ("x[0][1]", {}, cell("x", 0, 1)),
        ("x[0][1]", {("x", 0): (4, 5)}, 5),
        ("x[-1]", {}, Open("last", (cell("x", "len"),))),
        ("x[-1]", {("x", "len"): 3}, cell("x", 2)),
        ("x[-2]", {("x", "len"): 3}, cell("x", 1)),
        ("x[-1]", {("x", "len"): 3, ("x", 2): 9}, 9),
        ("x[1:][2]", {("x", 3): 7}, 7),
        ("x[1:][0]", {}, cell("x", 1)),
        ("x[:][2]", {}, cell("x", 2)),
        ("x[1:][-1]", {}, Open("last", (Open("-", (cell("x", "len"), 1)),))),
        ("x[1:][-1]", {("x", "len"): 4}, cell("x", 3)),
        (
            "x[2:][1:][0]",
            {},
            Open("[]", (Open("[:]", (Open("slice", (cell("x"), 2)), 1, None)), 0)),
        ),
        ("x[:2]", {}, Open("[:]", (cell("x"), None, 2))),
        ("x[-2:]", {}, Open("[:]", (cell("x"), -2, None))),
        ("x[0:]", {}, Open("slice", (cell("x"), 0))),
        ("x[:]", {}, Open("slice", (cell("x"), 0))),
        ("(x + y)[1:]", {}, Open("[:]", (Open("+", (cell("x"), cell("y"))), 1, None))),
        ("x[1:]", {("x",): [1, 2, 3]}, [2, 3]),
        ("(x + y)[1]", {}, Open("[]", (Open("+", (cell("x"), cell("y"))), 1))),
        ("x[y]", {}, Open("[]", (cell("x"), cell("y")))),
        ("x[y]", {("x",): [1, 2]}, Open("[]", ([1, 2], cell("y")))),
        ("x[y]", {("y",): 1}, cell("x", 1)),
        ("x['k']", {}, cell("x", "k")),
        ("len(x)", {}, cell("x", "len")),
        ("len(x)", {("x", "len"): 5}, 5),
        ("len(x)", {("x",): [1, 2]}, 2),
        ("len(x[1:])", {("x", "len"): 5}, 4),
        ("len(x[2:])", {}, Open("-", (cell("x", "len"), 2))),
        ("len(x + y)", {}, Open("len", (Open("+", (cell("x"), cell("y"))),))),
        ("3 in x", {}, cell("x", "in", 3)),
        ("3 in x", {("x", "in", 3): True}, True),
        ("3 in x", {("x",): [3]}, True),
        ("3 not in x", {("x",): [3]}, False),
        ("3 not in x", {("x", "in", 3): False}, True),
        ("3 not in x", {}, Open("not", (cell("x", "in", 3),))),
        ("y in x", {}, Open("in", (cell("y"), cell("x")))),
        ("3 in (x + y)", {}, Open("in", (3, Open("+", (cell("x"), cell("y")))))),
        ("[x, 2]", {}, [cell("x"), 2]),
        ("[x, 2]", {("x",): 1}, [1, 2]),
        ("sum(x)", {}, Open("sum", (cell("x"),))),
        ("sum(x)", {("x",): [1, 2, 4]}, 7),
        ("sum([x, 2])", {}, Open("+", (Open("+", (0, cell("x"))), 2))),
        ("[i * 2 for i in range(x)]", {}, Open("for", (cell("x"),))),
        ("[i * 2 for i in range(x)]", {("x",): 3}, [0, 2, 4]),
        ("[y[i] for i in range(2)]", {("y", 1): 5}, [cell("y", 0), 5]),
        ("count(y[i] == 1 for i in range(x))", {}, Open("count", (Open("for", (cell("x"),)),))),
        (
            "count(y[i] == 1 for i in range(2))",
            {("y", 0): 1, ("y", 1): 2},
            1,
        ),
        (
            "count(y[i] for i in range(2))",
            {("y", 0): True},
            Open("count", ([True, cell("y", 1)],)),
        ),
        ("[x, 1][1]", {}, 1),
        ("abs(x)", {}, Open("abs", (cell("x"),))),
        ("abs(x)", {("x",): -2}, 2),
    ],
)
def test_known_parts_are_evaluated(text: str, known: dict[Cell, Any], value: Any) -> None:
    partial_value = partial(text, known)
    assert partial_value == value
    assert type(partial_value) is type(value)


@pytest.mark.parametrize(
    ("text", "known", "value"),
    [
        ("x == null", {("x", "given"): True}, False),
        ("null == x", {("x", "given"): True}, False),
        ("x != null", {("x", "given"): True}, True),
        ("null != x", {("x", "given"): True}, True),
        ("x == null", {}, Open("==", (cell("x"), None))),
        ("null == x", {}, Open("==", (None, cell("x")))),
        ("x != null", {}, Open("!=", (cell("x"), None))),
        ("x == 3", {("x", "given"): True}, Open("==", (cell("x"), 3))),
        ("3 == x", {("x", "given"): True}, Open("==", (3, cell("x")))),
        ("x == null", {("y", "given"): True}, Open("==", (cell("x"), None))),
        ("x[1] == null", {("x", "given"): True}, False),
        ("x == null", {("x",): None}, True),
        ("x == null", {("x",): 3}, False),
        ("x != null", {("x",): None}, False),
        ("x != 3", {("x",): 3}, False),
        ("x != 3", {("x",): 4}, True),
    ],
)
def test_a_list_with_a_known_item_is_not_null(
    text: str, known: dict[Cell, Any], value: object
) -> None:
    partial_value = partial(text, known)
    assert partial_value == value
    assert type(partial_value) is type(value)


def test_an_index_comes_before_a_field_of_its_name() -> None:
    assert partial("x", {("x",): 7}, {"x": 3}) == 3
    assert partial("depths[i] * 2", {("depths", 1): 4}, {"i": 1}) == 8
    assert partial("depths[i]", {}, {"i": 1}) == cell("depths", 1)


def test_a_known_null_is_known() -> None:
    assert partial("x", {("x",): None}) is None
    assert partial("x[0]", {("x", 0): None}) is None


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("x // 0", {("x",): 3}),
        ("x[3]", {("x",): [1]}),
        ("x + 1", {("x",): "full"}),
        ("sqrt(x)", {("x",): -1}),
        ("x['k']", {("x",): {}}),
        ("len(x)", {("x",): 3}),
    ],
)
def test_known_values_without_a_result_are_impossible(text: str, known: dict[Cell, Any]) -> None:
    with pytest.raises(Impossible):
        partial(text, known)


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("y + x // 0", {("x",): 3}),
        ("[x, y][5]", {("x",): 3}),
        ("y + x['k']", {("x",): {}}),
        ("y + len(x)", {("x",): 3}),
        ("y + sqrt(x)", {("x",): -1}),
        ("y + 2.0 ** x", {("x",): 10**9}),
    ],
)
def test_with_an_unknown_name_it_is_only_unclear(text: str, known: dict[Cell, Any]) -> None:
    assert partial(text, known) == Open("unclear", ())


# The cells of a piece


@pytest.mark.parametrize(
    ("text", "cells"),
    [
        ("x", [("x",)]),
        ("3 * x", [("x",)]),
        ("x * y + x", [("x",), ("y",), ("x",)]),
        ("[x, [2, y]]", [("x",), ("y",)]),
        ("x[2] + len(y)", [("x", 2), ("y", "len")]),
        ("3", []),
    ],
)
def test_a_piece_waits_for_its_cells(text: str, cells: list[Cell]) -> None:
    piece = partial(text)
    assert list(cells_in(piece)) == cells
    assert is_open(piece) is bool(cells)


@pytest.mark.parametrize("value", [3, None, [], [3], [[3]], (cell("x"),), "cell"])
def test_a_complete_value_is_not_open(value: object) -> None:
    assert not is_open(value)
    assert list(cells_in(value)) == []


@pytest.mark.parametrize("value", [cell("x"), [cell("x")], [3, [cell("x")]]])
def test_an_incomplete_value_is_open(value: object) -> None:
    assert is_open(value)


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        (3, 3, True),
        (3, 4, False),
        (3, 3.0, True),
        (1, True, False),
        (True, 1, False),
        (True, True, True),
        (True, False, False),
        (0, False, False),
        ([1, 2], (1, 2), True),
        ((1, 2), [1, 2], True),
        ([1], [2], False),
        ([1], 1, False),
        (1, [1], False),
        (None, None, True),
        (None, 0, False),
    ],
)
def test_same_distinguishes_booleans_from_numbers(
    one: object, other: object, is_same: bool
) -> None:
    assert same(one, other) is is_same


def test_every_operator_that_has_an_inverse_is_tested_above() -> None:
    kinds = {parse(text)[0] for text in (*EXACT, *LOSSY)}
    assert unknowns._INVERSES.keys() <= kinds
