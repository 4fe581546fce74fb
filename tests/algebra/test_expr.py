"""Expressions: text and tree agree, values agree with Python, and everything else is refused."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weighbridge.algebra.expr import (
    DEEPEST,
    LONGEST,
    MOST_BITS,
    MOST_ROUNDS,
    PRECEDENCE,
    Shown,
    evaluate,
    infix,
    is_number,
    names_in,
    parse,
    prefix,
    source,
    substitute,
)
from weighbridge.errors import ExpressionError

if TYPE_CHECKING:
    from weighbridge.algebra.expr import Tree

unhurried = settings(deadline=None)

NAMES = ("a", "b", "hidden_size", "text_config.depth", "_x1", "neg", "len", "not_", "aé1")
COMPARISONS = ("==", "!=", "<", "<=", ">", ">=", "in", "not in")
BINARY = ("or", "and", *COMPARISONS, "+", "-", "*", "/", "//", "%", "**", "max", "min", "[]")
UNARY = (
    "not",
    "neg",
    "len",
    "sum",
    "max",
    "min",
    "abs",
    "int",
    "round",
    "floor",
    "ceil",
    "sqrt",
    "log2",
)
LIMITS = st.just(("value", None))

names = st.sampled_from([("name", name) for name in NAMES])
numbers = st.builds(
    lambda n: ("value", n), st.integers(0, 10**20) | st.floats(0, allow_infinity=False)
)
texts = st.text(st.characters(exclude_characters="\\", exclude_categories=["Cs"]), max_size=8)
one_quote = texts.filter(lambda text: "'" not in text or '"' not in text)
literals = numbers | st.builds(
    lambda value: ("value", value), one_quote | st.sampled_from([True, False, None])
)


def grow(inside: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    """Return trees with one more operator."""
    return (
        st.tuples(st.sampled_from(BINARY), inside, inside)
        | st.tuples(st.sampled_from(UNARY), inside)
        | st.tuples(st.sampled_from(("if", "max", "min")), inside, inside, inside)
        | st.tuples(st.just("[:]"), inside, inside | LIMITS, inside | LIMITS)
        | st.lists(inside, max_size=3).map(lambda items: ("list", *items))
        | st.tuples(st.sampled_from(("for", "count")), st.sampled_from(("i", "b")), inside, inside)
    )


trees = st.recursive(names | literals, grow, max_leaves=10)


@unhurried
@given(trees)
def test_a_tree_is_read_back_from_its_text(tree: Tree) -> None:
    assert parse(source(tree)) == tree


@unhurried
@given(trees)
def test_a_text_has_its_names_in_order(tree: Tree) -> None:
    assert list(names_in(parse(source(tree)))) == list(leaves(tree))


def leaves(tree: Tree) -> list[str]:
    if tree[0] in ("name", "value"):
        return [tree[1]] if tree[0] == "name" else []
    if tree[0] in ("for", "count"):
        return leaves(tree[2]) + [name for name in leaves(tree[3]) if name != tree[1]]
    return [name for operand in tree[1:] for name in leaves(operand)]


@unhurried
@given(trees)
def test_a_tree_whose_names_stand_for_themselves_is_itself(tree: Tree) -> None:
    assert substitute(tree, lambda name: ("name", name)) == tree
    assert set(names_in(substitute(tree, lambda _: ("value", 1)))) == set()


@unhurried
@given(trees)
def test_a_text_has_no_parentheses_that_it_could_do_without(tree: Tree) -> None:
    text = source(tree)
    for at, end in pairs(text):
        without = f"{text[:at]} {text[at + 1 : end]} {text[end + 1 :]}"
        assert not reads_as(without, tree), without


@pytest.mark.parametrize(
    "text",
    [
        "2 ** -x",
        "2 ** -x * y",
        "-x ** -y",
        "(-x) ** 2",
        "(2 ** x) ** y",
        "a if b else c if d else e",
        "(a if b else c) + 1",
    ],
)
def test_a_text_is_written_as_it_was_read(text: str) -> None:
    assert source(parse(text)) == text


def pairs(text: str) -> list[tuple[int, int]]:
    """Return the positions of each pair of parentheses that is not a call or inside a text."""
    found: list[tuple[int, int]] = []
    opened: list[int] = []
    quote = ""
    for at, character in enumerate(text):
        if quote or character in "\"'":
            quote = "" if character == quote else quote or character
        elif character == "(":
            opened.append(at)
        elif character == ")":
            found.append((opened.pop(), at))
    return [
        (at, end) for at, end in found if not text[:at].endswith((*UNARY[2:], "count", "range"))
    ]


def reads_as(text: str, tree: Tree) -> bool:
    try:
        return parse(text) == tree
    except ExpressionError:
        return False


@unhurried
@given(trees, st.sampled_from([" ", "  ", "\t", "\n"]))
def test_space_between_words_means_nothing(tree: Tree, space: str) -> None:
    spaced = [f"({space}", f"{space})", f"[{space}", f"{space}]", f",{space}", f"+{space}"]
    text = source(tree)
    if not any(quote in text for quote in "\"'") and "e+" not in text:
        for word in spaced:
            text = text.replace(word.strip(), word)
        assert parse(f"{space}{text}{space}") == tree


# Meaning: trees of numbers that have a value, and conditions on them.

BOUND = ("a", "b", "c")


def counts(depth: int) -> st.SearchStrategy[Tree]:
    leaf = st.sampled_from([("name", name) for name in BOUND]) | st.builds(
        lambda n: ("value", n), st.integers(0, 9)
    )
    if not depth:
        return leaf
    inside, two = counts(depth - 1), st.just(("value", 2))
    return (
        leaf
        | st.tuples(st.sampled_from(("+", "-", "*", "//", "%", "max", "min")), inside, inside)
        | st.tuples(st.sampled_from(("neg", "abs")), inside)
        | st.tuples(st.just("**"), inside, two)
        | st.tuples(
            st.sampled_from(("int", "floor", "ceil", "round")),
            st.tuples(st.just("/"), inside, inside),
        )
        | st.tuples(st.just("max"), inside, inside, inside)
        | st.tuples(st.just("if"), st.tuples(st.just("<"), inside, inside), inside, inside)
    )


def truths(depth: int) -> st.SearchStrategy[Tree]:
    compared = st.tuples(st.sampled_from(COMPARISONS[:-2]), counts(depth), counts(depth))
    if not depth:
        return compared
    inside = truths(depth - 1)
    return (
        compared
        | st.tuples(st.sampled_from(("or", "and")), inside, inside)
        | st.tuples(st.just("not"), inside)
    )


values = st.fixed_dictionaries({name: st.integers(-20, 20) for name in BOUND})


BUILTINS = {
    of.__name__: of
    for of in (max, min, len, abs, int, round, math.floor, math.ceil, math.sqrt, sum, range)
}


def valued(tree: Tree, bound: dict[str, Any]) -> Any:
    """Return the value of a tree, or `"none"` if it has no value."""
    try:
        return evaluate(tree, bound)
    except ExpressionError:
        return "none"


def in_python(tree: Tree, bound: dict[str, Any]) -> Any:
    try:
        return eval(source(tree), {"__builtins__": BUILTINS}, bound)  # noqa: S307  # our text
    except ZeroDivisionError:
        return "none"


@unhurried
@given(counts(3) | truths(2), values)
def test_a_value_equals_that_of_python(tree: Tree, bound: dict[str, int]) -> None:
    assert valued(tree, bound) == in_python(tree, bound)


@unhurried
@given(counts(3) | truths(2), st.lists(values, min_size=1, max_size=5))
def test_arrays_are_integers_side_by_side(tree: Tree, rows: list[dict[str, int]]) -> None:
    each = [valued(tree, row) for row in rows]
    if "none" not in each:
        columns = {name: np.array([row[name] for row in rows]) for name in BOUND}
        with np.errstate(all="ignore"):  # an if over arrays evaluates both sides
            assert np.broadcast_to(valued(tree, columns), len(rows)).tolist() == each


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2 + 3 * 4", 14),
        ("-2 ** 2", -4),
        ("(-2) ** 2", 4),
        ("7 // 2 * 2", 6),
        ("7 - 2 - 1", 4),
        ("-7 // 2", -4),
        ("-7 % 3", 2),
        ("not 1 == 2 and true", True),
        ("false and 1 // 0 == 1 or true", True),
        ("true or 1 // 0 == 1", True),
        ("kinds[1] == 'slow'", True),
        ("kinds[n - 1]", "slow"),
        ("'slow' in kinds and not 'fast' in kinds[1]", True),
        ("len(kinds) == n", True),
        ("max(n, 3) - min(n, 3)", 1),
        ("config.depth + n", 9),
        ("nothing == null", True),
        ("2 ** 0 + 2 ** 8", 257),
        ("('quick')[0]", "q"),
        ("٣ + 1", 4),
        ("7 / n", 3.5),
        ("int(7 / n) + floor(-0.5) + ceil(1.2) + round(2.5)", 6),
        ("int(config.depth * 2.5e0)", 17),
        ("sqrt(16) + log2(8) + abs(-n)", 9.0),
        ("2 ** -n", 0.25),
        ("2 ** 0.5 * 2 ** 0.5 > 2", True),
        ("4 ** (1 / n)", 2.0),
        ("n if n > 5 else 5 if n > 4 else 4", 4),
        ("nothing if nothing != null else 3", 3),
        ("1 if true else 1 // 0", 1),
        ("[i * n for i in range(3)]", [0, 2, 4]),
        ("[[i + j for j in range(i)] for i in range(3)]", [[], [1], [2, 3]]),
        ("[i for i in range(n)][i]", [1][0]),
        ("sum([n for n in range(n + n)]) + n", 8),
        (
            (
                "count(kind == 'slow' for i in range(n)) if false"
                " else count(kinds[i] == 'slow' for i in range(n))"
            ),
            1,
        ),
        ("['full' if (i + 1) % 2 == 0 else 'slow' for i in range(n)] == ['slow', 'full']", True),
        ("kinds == ['quick', 'slow'] and frozen == kinds and frozen != ['quick']", True),
        (
            (
                "kinds[:1] + 0 == 1 if false"
                " else kinds[1:] == ['slow'] and kinds[:] == kinds and 'word'[1:-1] == 'or'"
            ),
            True,
        ),
        ("len([]) + sum([]) + len([1, [2, 3]])", 2),
        ("max([3, n]) + min(n, 3, 1) + max(1, n, 0)", 6),
        ("'fast' not in kinds and n not in [1, 3]", True),
        ("scaling['factor'] + len(scaling)", 3),
    ],
)
def test_an_expression_has_this_value(text: str, value: object) -> None:
    bound: dict[str, Any] = {
        "kinds": ["quick", "slow"],
        "n": 2,
        "config.depth": 7,
        "nothing": None,
        "i": 1,
    }
    bound |= {"frozen": ("quick", "slow"), "scaling": {"factor": 2}}
    assert evaluate(parse(text), bound) == value


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("width + 1", r"width \+ 1: no field named width"),
        ("n // zero", r"n // zero: has no value: .* \(n = 5, zero = 0\)"),
        ("n % (zero * 2)", "has no value"),
        ("kinds[5]", r"kinds\[5\]: has no value: list index out of range \(kinds = a list of 1\)"),
        ("kinds + n", "has no value"),
        ("n[0]", "has no value"),
        ("len(n)", "has no value"),
        ("1 in n", "has no value"),
        ("kinds < n", "has no value"),
        ("n == 5 and word", "has no value"),
        ("nothing < n", "has no value"),
        ("nothing + n", "has no value"),
        ("n / zero", "has no value: division by zero"),
        ("zero ** -1", "has no value"),
        ("(-n) ** 0.5", "has no value: a negative number has no such power"),
        ("sqrt(-n)", "has no value"),
        ("log2(zero)", "has no value"),
        ("int(word)", "has no value: arithmetic takes numbers"),
        ("int(huge * huge)", "has no value: "),
        ("max([])", "has no value"),
        ("sum(word)", "has no value: arithmetic takes numbers"),
        ("n if n else 2", "has no value: and, or, not and if take true or false"),
        (
            "count(i for i in range(n))",
            "has no value: and, or, not and if take true or false",
        ),
        ("[i for i in range(1.5)]", "has no value: range takes one integer"),
        ("[i for i in range(n)] + i", "no field named i"),
        ("scaling['kind']", r"has no value: there is no 'kind' \(scaling = an object of 1\)"),
    ],
)
def test_an_expression_without_a_value_says_why(text: str, said: str) -> None:
    bound: dict[str, Any] = {
        "n": 5,
        "zero": 0,
        "kinds": ["quick"],
        "word": "w",
        "nothing": None,
        "huge": 1e200,
    }
    with pytest.raises(ExpressionError, match=said):
        evaluate(parse(text), {**bound, "scaling": {"factor": 1}})


@pytest.mark.parametrize(
    "text",
    [
        "n and i % s == 0",
        "i % s == 0 and n",
        "n or i == 0",
        "i == 1 or n",
        "not n",
        "word or true",
        "not null",
    ],
)
@pytest.mark.parametrize("number", [6, 0, np.int64(6), np.array([6, 0])])
def test_only_what_is_true_or_false_is_joined(text: str, number: object) -> None:
    with pytest.raises(
        ExpressionError, match="take true or false: write a comparison, such as n > 0 and …"
    ):
        evaluate(parse(text), {"n": number, "i": 4, "s": 2, "word": "w"})


def test_flags_of_numpy_are_joined_as_pythons_are() -> None:
    yes, either = np.bool_(1), np.array([True, False])
    for text in ("a and b", "b and a", "not (not a or not b)"):
        assert evaluate(parse(text), {"a": yes, "b": either}).tolist() == [True, False]
        assert evaluate(parse(text), {"a": True, "b": yes}) == True  # noqa: E712  # of either kind


@pytest.mark.parametrize(
    "text", ["word + word", "n * word", "word * n", "percent % n", "kinds * n", "kinds + kinds"]
)
def test_arithmetic_is_of_numbers(text: str) -> None:
    for kinds in (["quick"], ("quick",)):
        with pytest.raises(ExpressionError, match="has no value: arithmetic takes numbers"):
            evaluate(parse(text), {"n": 5, "word": "w", "percent": "%9d", "kinds": kinds})


@pytest.mark.parametrize(
    "text",
    [
        "(" * 30 + "9" + "**8)" * 30,
        "(" * 30 + "-9" + "**8)" * 30,
        "9" * 300 + "**4*" + "9" * 300,
        "9" * 400 + "*" + "a" * 500,
        "'a' * 100000000",
        "'%100000000d' % 1",
        "2 ** 10 ** 10",
        "9 ** 99999999",
        "9 ** (9 ** 9)",
        "[0 for i in range(10001)]",
        "[[0 for j in range(101)] for i in range(100)]",
        "sum([count(true for j in range(i)) for i in range(10000)])",
        "count(count(j > 0 for j in range(200)) > 0 for i in range(200))",
    ],
)
def test_no_value_explodes(text: str) -> None:
    bounds = (
        "arithmetic takes numbers",
        "an integer has at most 4096",
        "a loop has at most 10,000",
    )
    message = f"has no value: ({'|'.join(bounds)})|powers do not chain"
    with pytest.raises(ExpressionError, match=message):
        evaluate(parse(text), {"a" * 500: 10**1000})


def test_a_value_has_a_maximum_of_bits() -> None:
    half = 2 ** (MOST_BITS // 2) - 1
    eighth = 2 ** (MOST_BITS // 8) - 1
    assert evaluate(parse("a * a"), {"a": half}) == half * half
    assert evaluate(parse("a ** 8"), {"a": eighth}) == eighth**8
    assert (
        len(evaluate(parse(f"[[0 for j in range(100)] for i in range({MOST_ROUNDS // 100})]"), {}))
        == 100
    )
    for text, most in (("a * a", half), ("a ** 8", eighth)):
        with pytest.raises(ExpressionError, match="an integer has at most 4096 bits"):
            evaluate(parse(text), {"a": most + 1})


def test_operators_mean_what_the_table_says() -> None:
    written = {"+": "({} plus {})".format, "*": "({} times {})".format}
    assert evaluate(parse("2 + a * b"), {"a": "A", "b": "B"}, written) == "(2 plus (A times B))"


# Refusals


@unhurried
@given(st.text(max_size=50))
def test_any_text_is_an_expression_or_refused(text: str) -> None:
    assert is_read_or_refused(text)


words = [
    *NAMES,
    *(kind for kind in PRECEDENCE if kind not in ("neg", "[]")),
    *("else", "for", "range", "count", "sum", ":", "1.5"),
    "0",
    "7",
    "12",
    *"()[],",
    "'x'",
    "true",
    "null",
]


@settings(deadline=None, max_examples=1000)
@given(st.lists(st.sampled_from(words), max_size=14).map(" ".join))
def test_any_words_in_any_order_are_an_expression_or_refused(text: str) -> None:
    assert is_read_or_refused(text)


def is_read_or_refused(text: str) -> bool:
    """Whether a text was parsed and survives a round trip, or was refused in one line."""
    try:
        tree = parse(text)
    except ExpressionError as error:
        return str(error).isprintable()
    return parse(source(tree)) == tree


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "expected a name or a number, found the end"),
        ("  ", "expected a name or a number, found the end"),
        ("a +", "expected a name or a number, found the end"),
        ("+ a", r"did not expect '\+'"),
        ("a b", "did not expect 'b'"),
        ("a not b", "did not expect 'not'"),
        ("a == not b", "did not expect 'not'"),
        ("-not a", "did not expect 'not'"),
        ("a neg b", "did not expect 'neg'"),
        ("3x", "did not expect 'x'"),
        ("a if b if c else d else e", "expected else, found if"),
        ("or", "did not expect 'or'"),
        ("a or", "found the end"),
        ("()", r"did not expect '\)'"),
        ("(a", r"expected \), found the end"),
        ("a)", r"did not expect '\)'"),
        ("(a]", r"expected \), found \]"),
        ("a[1", r"expected \], found the end"),
        ("a[]", r"did not expect '\]'"),
        ("a[1, 2]", r"expected \], found ,"),
        ("a[1:2:3]", r"expected \], found :"),
        ("[1, 2", r"expected \], found the end"),
        ("[i for i in n]", r"expected range, found n"),
        ("[i for a.b in range(n)]", r"did not expect 'a\.b'"),
        ("[i for 1 in range(n)]", r"did not expect '1'"),
        ("[i for if in range(n)]", r"did not expect 'if'"),
        ("[i for i in range(n) if i]", r"expected \], found if"),
        ("[i, j for i in range(n)]", r"expected \], found for"),
        ("count(i)", r"expected for, found \)"),
        ("sum(i for i in range(n))", r"expected \), found for"),
        ("range(3)", r"did not expect '\('"),
        ("a if b", "expected else, found the end"),
        ("1 + a if b", "expected else, found the end"),
        ("a == b not in c", "comparisons do not chain"),
        ("1e999", "a number must be finite"),
        ("a, b", "did not expect ','"),
        (".5", r"cannot be read, starting at '\.5'"),
        ("a.", r"cannot be read, starting at '\.'"),
        ("a = b", "cannot be read, starting at ' = b'"),
        ("a; b", "cannot be read, starting at '; b'"),
        ("{a}", "cannot be read, starting at '{a}'"),
        ("'a", 'cannot be read, starting at "\'a"'),
        (r"'a\n'", "cannot be read, starting at"),
        ("a < b < c", "comparisons do not chain"),
        ("a == b in c", "comparisons do not chain"),
        ("a == (b < c) == d", "comparisons do not chain"),
        ("9**9**9", "powers do not chain"),
        ("len()", r"did not expect '\)'"),
        ("len(a, b)", r"len takes at most 1 argument\(s\), found 2"),
        ("max(a,)", r"did not expect '\)'"),
        ("exit(0)", r"did not expect '\('"),
        ("__import__('os')", r"did not expect '\('"),
        ("lambda: 0", "did not expect ':'"),
    ],
)
def test_a_text_that_is_not_an_expression_is_refused_where_it_goes_wrong(
    text: str, said: str
) -> None:
    with pytest.raises(ExpressionError, match=said):
        parse(text)


def test_an_expression_has_a_longest_length() -> None:
    longest = "+".join(["a"] * (LONGEST // 2))
    assert len(longest) == LONGEST - 1
    assert evaluate(parse(longest), {"a": 1}) == LONGEST // 2
    assert len(list(names_in(parse(longest)))) == LONGEST // 2
    assert source(parse(longest)) == " + ".join(["a"] * (LONGEST // 2))
    with pytest.raises(
        ExpressionError, match=r"an expression has at most 2000 characters \(characters = 2001\)"
    ):
        parse(longest + "+a")
    assert parse(source(parse(longest)))


@pytest.mark.parametrize(
    ("begun", "inside", "ended"),
    [
        *[("(", "a", ")"), ("-", "a", ""), ("not ", "a", ""), ("a[", "0", "]"), ("len(", "a", ")")],
        *[("[", "a", "]"), ("[", "a", " for i in range(2)]"), ("a if a else ", "a", "")],
    ],
)
def test_an_expression_has_a_deepest_nesting(begun: str, inside: str, ended: str) -> None:
    def nested(times: int) -> str:
        return begun * times + inside + ended * times

    assert parse(nested(DEEPEST - 1))
    with pytest.raises(ExpressionError, match="an expression has at most 40 nested operators"):
        parse(nested(DEEPEST))


def test_brackets_side_by_side_are_not_deep() -> None:
    assert parse("+".join(["(a)"] * (2 * DEEPEST)))


def test_a_text_is_parsed_once() -> None:
    assert parse("a + 1") is parse("a + 1")


# Bounds: exactly at the bound, and one beyond it


def test_a_product_has_a_maximum_of_bits() -> None:
    half = 2 ** (MOST_BITS // 2 - 1)
    assert evaluate(parse("a * b"), {"a": half, "b": half}) == half * half
    assert evaluate(parse("a * b"), {"a": half, "b": half * 2 - 1})
    with pytest.raises(ExpressionError, match="an integer has at most 4096 bits"):
        evaluate(parse("a * b"), {"a": 2 * half, "b": half})
    assert evaluate(parse("a * 1.5"), {"a": 2**1000}) == 2**1000 * 1.5
    assert evaluate(parse("a * b"), {"a": 2**4094, "b": 1}) == 2**4094


def test_a_power_has_a_maximum_of_bits() -> None:
    assert evaluate(parse(f"a ** {MOST_BITS}"), {"a": 1}) == 1
    assert evaluate(parse(f"a ** {MOST_BITS // 2}"), {"a": 2}) == 2 ** (MOST_BITS // 2)
    for text in (f"1 ** {MOST_BITS + 1}", f"2 ** {MOST_BITS // 2 + 1}"):
        with pytest.raises(ExpressionError, match="an integer has at most 4096 bits"):
            evaluate(parse(text), {})
    assert evaluate(parse("1.5 ** 100"), {}) == 1.5**100
    assert evaluate(parse("(-8) ** 3"), {}) == -512


def test_a_loop_has_a_maximum_of_rounds() -> None:
    assert len(evaluate(parse(f"[0 for i in range({MOST_ROUNDS})]"), {})) == MOST_ROUNDS
    with pytest.raises(
        ExpressionError, match="a loop has at most 10,000 rounds, including those of"
    ):
        evaluate(parse(f"[0 for i in range({MOST_ROUNDS + 1})]"), {})
    nested = "[[0 for j in range(m)] for i in range(n)]"
    assert len(evaluate(parse(nested), {"n": 3, "m": MOST_ROUNDS // 3})) == 3
    with pytest.raises(ExpressionError, match="a loop has at most 10,000 rounds"):
        evaluate(parse(nested), {"n": 3, "m": MOST_ROUNDS // 3 + 1})
    assert evaluate(parse("[0 for i in range(0)]"), {}) == []
    assert evaluate(parse("[0 for i in range(-1)]"), {}) == []
    assert evaluate(parse(nested), {"n": 0, "m": 0}) == []


def test_spaces_do_not_make_an_expression_long() -> None:
    text = "+".join(["a"] * (LONGEST // 2)) + "1"
    assert len(text) == LONGEST
    assert len(list(names_in(parse(f" {text} ")))) == LONGEST // 2


def test_the_number_of_arguments_is_bounded_like_the_depth() -> None:
    assert evaluate(parse(f"max({', '.join(['1'] * DEEPEST)})"), {}) == 1
    with pytest.raises(ExpressionError, match=r"max takes at most 40 argument\(s\), found 41"):
        parse(f"max({', '.join(['1'] * (DEEPEST + 1))})")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a +", "a +: expected a name or a number, found the end."),
        ("(a]", "(a]: expected ), found ]."),
        ("2 ** 3 ** 4", "2 ** 3 ** 4: powers do not chain."),
        ("a < b == c", "a < b == c: comparisons do not chain."),
        ("1e400", "1e400: a number must be finite."),
        ("a $ bcdefghijk", "a $ bcdefghijk: cannot be read, starting at ' $ bcdefgh'."),
    ],
)
def test_a_refusal_has_these_words(text: str, message: str) -> None:
    with pytest.raises(ExpressionError) as error:
        parse(text)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("word + 1", "arithmetic takes numbers, not texts or lists"),
        ("1 + word", "arithmetic takes numbers, not texts or lists"),
        ("1 % scaling", "arithmetic takes numbers, not texts or lists"),
        ("floor(word)", "arithmetic takes numbers, not texts or lists"),
        ("(0 - 8) ** 0.5", "a negative number has no such power"),
        ("[i for i in range(true)]", "range takes one integer"),
        ("1 and true", "and, or, not and if take true or false: write a comparison"),
    ],
)
def test_a_value_is_refused_with_these_words(text: str, message: str) -> None:
    with pytest.raises(ExpressionError, match=f"has no value: {message}"):
        evaluate(parse(text), {"word": "w", "scaling": {"a": 1}})


def test_operators_work_on_arrays_element_by_element() -> None:
    bound = {"a": np.array([1, 6, 5]), "b": np.array([4, 2, 5]), "x": np.array([0.5, -1.5, 2.5])}
    for text, expected in {
        "max(a, b)": [4, 6, 5],
        "min(a, b)": [1, 2, 5],
        "max(a, b, 5)": [5, 6, 5],
        "min(a, 3)": [1, 3, 3],
        "a if a > b else b": [4, 6, 5],
        "int(x)": [0, -1, 2],
        "floor(x)": [0, -2, 2],
        "ceil(x)": [1, -1, 3],
        "round(x)": [0, -2, 2],
        "sqrt(b * b)": [4.0, 2.0, 5.0],
        "abs(x)": [0.5, 1.5, 2.5],
        "a == b": [False, False, True],
        "a != b": [True, True, False],
        "not a == b": [True, True, False],
        "a > 2 or b > 2": [True, True, True],
        "a > 2 and b > 2": [False, False, True],
    }.items():
        value = evaluate(parse(text), bound)
        assert value.tolist() == expected, text
        if text.startswith(("int", "floor", "ceil", "round")):
            assert value.dtype == np.int64
    with pytest.raises(ExpressionError, match="this takes one number, not an array"):
        evaluate(parse("log2(a)"), bound)
    assert evaluate(parse("log2(n) + sqrt(n)"), {"n": np.int64(16)}) == 8.0


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *[("false or false", False), ("false or true", True), ("true and false", False)],
        *[("true and true", True), ("not true", False), ("not false", True)],
        *[("3 < 3", False), ("3 <= 3", True), ("3 > 3", False), ("3 >= 3", True), ("3 == 3", True)],
        *[("3 != 3", False), ("[1] == [1]", True), ("[1] != [1]", False), ("[1] != [2]", True)],
        *[("[1] == 1", False), ("1 == [1]", False), ("1 != [1]", True), ("null == null", True)],
        *[("1 in [1]", True), ("2 in [1]", False), ("1 not in [1]", False), ("2 not in [1]", True)],
        *[("min([4, 2])", 2), ("max([4, 2])", 4), ("min(4, 2)", 2), ("max(4, 2)", 4)],
        *[("7 - 2", 5), ("7 % 4", 3), ("-(-3)", 3), ("abs(-2)", 2), ("sum([1, 2, 3])", 6)],
        *[("[5, 6, 7][1:]", [6, 7]), ("[5, 6, 7][:1]", [5]), ("[5, 6, 7][1:2]", [6])],
        *[("int(-1.5)", -1), ("floor(-1.5)", -2), ("ceil(-1.5)", -1), ("round(-1.5)", -2)],
        *[("log2(8)", 3.0), ("sqrt(9)", 3.0), ("9 ** 0.5", 3.0), ("1 / 2", 0.5), ("7 // 2", 3)],
        *[("count(i > 1 for i in range(4))", 2), ("[i for i in range(2)]", [0, 1]), ("[]", [])],
        *[("1.5e1", 15.0), ("2e-1", 0.2), ("007", 7)],
    ],
)
def test_each_operator_has_its_value_and_its_type(text: str, value: object) -> None:
    result = evaluate(parse(text), {})
    assert (result, type(result)) == (value, type(value))


def test_only_the_operands_searched_give_names() -> None:
    tree = parse("sizes[i] + width if flag else depths[j]")
    assert list(names_in(tree)) == ["flag", "sizes", "i", "width", "depths", "j"]
    assert list(names_in(tree, {"[]": slice(1)})) == ["flag", "sizes", "width", "depths"]
    assert list(names_in(parse("[i for i in range(i)]"))) == ["i"]


@pytest.mark.parametrize(
    ("value", "written"),
    [
        *[(True, "true"), (False, "false"), (None, "null"), (1, "1"), (0, "0"), (1.5, "1.5")],
        *[("it's", '"it\'s"'), ('"', "'\"'"), ("", '""')],
    ],
)
def test_the_text_of_a_literal(value: object, written: str) -> None:
    assert source(("value", value)) == written


@pytest.mark.parametrize(
    ("value", "so"), [(1, True), (1.5, True), (True, False), ("1", False), (None, False)]
)
def test_a_number_is_not_a_truth_value(value: object, so: bool) -> None:
    assert is_number(value) is so


def test_a_loop_of_one_round_leaves_all_rounds_to_the_loop_inside() -> None:
    text = f"[count(j >= 0 for j in range({MOST_ROUNDS})) for i in range(1)]"
    assert evaluate(parse(text), {}) == [MOST_ROUNDS]


def test_the_rounds_of_a_loop_in_a_range_are_limited_by_the_loops_around_it() -> None:
    text = "[len([k for k in range(count(j < 0 for j in range(size)))]) for i in range(100)]"
    assert evaluate(parse(text), {"size": MOST_ROUNDS // 100}) == [0] * 100
    with pytest.raises(ExpressionError, match="a loop has at most"):
        evaluate(parse(text), {"size": MOST_ROUNDS // 100 + 1})


def test_the_maximum_of_one_array_is_that_of_its_items() -> None:
    assert evaluate(parse("max(x)"), {"x": np.array([1, 5, 2])}) == 5
    assert evaluate(parse("min(x)"), {"x": np.array([3, 1, 2])}) == 1


def test_an_operator_may_have_brackets_of_its_own() -> None:
    loose = Shown("a + b", PRECEDENCE["+"])
    assert infix("*", "{} * {}", "[{}]")(loose, loose) == "[a + b] * [a + b]"
    assert prefix("neg", "-{}", "[{}]")(loose) == "-[a + b]"
