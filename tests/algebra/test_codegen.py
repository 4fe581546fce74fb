"""Generated code: every language gives the same value as the evaluator."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import pytest
import sqlite
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from weighbridge.algebra.codegen import (
    SQL_WORDS,
    TEXT,
    code,
    identifiers,
    is_portable,
    meaning_in,
    python_literal,
    sql_literal,
)
from weighbridge.algebra.expr import NUMBERS, SOURCE, evaluate, fold, is_number, parse, show
from weighbridge.algebra.polynomial import floored
from weighbridge.errors import ExpressionError

if TYPE_CHECKING:
    from weighbridge.algebra.expr import Tree

unhurried = settings(deadline=None)

# Random expressions by the kind of their value

INTEGERS, FRACTIONS, FLAGS, LISTS = ("a", "b", "c"), ("x", "y"), ("p",), ("sizes", "depths")
COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
values = st.fixed_dictionaries(
    {
        **{name: st.integers(0, 12) for name in INTEGERS},
        **{name: st.sampled_from([0.5, 1.0, 1.25, 2.7]) for name in FRACTIONS},
        **{name: st.booleans() for name in FLAGS},
        **{name: st.lists(st.integers(0, 9), min_size=1, max_size=4) for name in LISTS},
    }
)


def leaf(names: tuple[str, ...], literals: st.SearchStrategy[Any]) -> st.SearchStrategy[Tree]:
    return st.sampled_from([("name", name) for name in names]) | literals.map(
        lambda value: ("value", value)
    )


def operation(kinds: str, *operands: st.SearchStrategy[Any]) -> st.SearchStrategy[Tree]:
    return st.tuples(st.sampled_from(kinds.split()), *operands)


def integers(depth: int, *, lists: bool) -> st.SearchStrategy[Tree]:
    whole = leaf(INTEGERS, st.integers(0, 12))
    if not depth:
        return whole
    inside = integers(depth - 1, lists=lists)
    fraction = fractions(depth - 1, lists=lists)
    operations = (
        whole
        | operation("+ - * // % max min", inside, inside)
        | operation("neg abs", inside)
        | operation("**", inside, st.integers(0, 3).map(lambda power: ("value", power)))
        | operation("int floor ceil round", fraction)
        | operation("max min", inside, inside, inside)
        | operation("if", truths(depth - 1, lists=lists), inside, inside)
    )
    if not lists:
        return operations
    items = sequences(depth - 1)
    rounds = st.integers(0, 4).map(lambda number: ("value", number))
    looped = st.tuples(st.sampled_from(COMPARISONS), st.just(("name", "i")), inside)
    return (
        operations
        | operation("sum len max min", items)
        | operation("[]", items, st.integers(0, 2).map(lambda at: ("value", at)))
        | operation("count", st.just("i"), rounds, looped)
    )


def sequences(depth: int) -> st.SearchStrategy[Tree]:
    inside = integers(max(depth - 1, 0), lists=depth > 1)
    rounds = st.integers(1, 4).map(lambda number: ("value", number))
    added = st.tuples(st.just("+"), st.just(("name", "i")), inside)
    limit = st.sampled_from([("value", None), ("value", 1), ("neg", ("value", 1))])
    named = leaf(LISTS, st.nothing())
    return (
        named
        | st.lists(inside, min_size=1, max_size=3).map(lambda items: ("list", *items))
        | operation("for", st.just("i"), rounds, added)
        | operation("[:]", named, limit, limit)
    )


def fractions(depth: int, *, lists: bool) -> st.SearchStrategy[Tree]:
    fraction = leaf(FRACTIONS, st.sampled_from([0.25, 1.5, 3.0]))
    if not depth:
        return fraction
    inside, whole = fractions(depth - 1, lists=lists), integers(depth - 1, lists=lists)
    return (
        fraction
        | operation("/", whole, whole)
        | operation("+ - * /", inside, inside)
        | operation("* +", whole, inside)
        | operation("neg", inside)
        | operation("sqrt log2", whole)
    )


def truths(depth: int, *, lists: bool) -> st.SearchStrategy[Tree]:
    number = integers(depth, lists=lists)
    compared = st.tuples(st.sampled_from(COMPARISONS), number, number)
    if not depth:
        return compared
    inside = truths(depth - 1, lists=lists)
    truth = compared | operation("or and", inside, inside) | operation("not", inside)
    if not lists:
        return truth
    member = st.tuples(st.sampled_from(["in", "not in"]), number, sequences(depth - 1))
    return truth | member | leaf(FLAGS, st.booleans())


def valued(tree: Tree, bound: dict[str, Any], meaning: Any = NUMBERS) -> Any:
    """Return the value of a tree; draw again if it has none."""
    try:
        return evaluate(tree, bound, meaning)
    except ExpressionError:
        assume(False)


@unhurried
@given(integers(3, lists=True) | fractions(2, lists=True) | truths(2, lists=True), values)
def test_python_agrees_with_the_evaluator(tree: Tree, bound: dict[str, Any]) -> None:
    expected = valued(tree, bound)
    written = code(tree, "python", lambda name: f"{name}_")
    names = {f"{name}_": value for name, value in bound.items()} | {"math": math}
    in_python = re.sub(r"\bi_\b", "i", written)
    value = eval(in_python, names)  # noqa: S307  # our own text
    assert (value, type(value)) == (expected, type(expected))


# SQL has no negative remainders, and its integers have 64 bits


def nowhere_negative(kind: str) -> Any:
    def operate(*operands: Any) -> Any:
        if kind in ("//", "%", "int") and min(operands) < 0:
            raise ValueError("SQL divides towards zero")
        value = NUMBERS[kind](*operands)
        if abs(value) > 2**50:
            raise ValueError("SQL has 64 bits")
        return value

    return operate


_IN_SQL = {kind: nowhere_negative(kind) for kind in meaning_in("sql")} | {
    kind: NUMBERS[kind] for kind in ("if",)
}


@unhurried
@given(integers(3, lists=False) | truths(2, lists=False), values)
def test_sql_agrees_with_the_evaluator(tree: Tree, bound: dict[str, Any]) -> None:
    columns = {name: value for name, value in bound.items() if is_number(value)}
    assume(is_portable(tree, columns))
    expected = valued(tree, columns, _IN_SQL)
    names = ", ".join(f"{python_literal(value)} AS {name}" for name, value in columns.items())
    query = f"SELECT {code(tree, 'sql', str)} FROM (SELECT {names})"  # noqa: S608  # our own text
    ((value,),) = sqlite.rows(query)
    assert value == expected
    assert type(value) is int or isinstance(expected, float)


_LARGER = "CASE WHEN a >= b THEN a ELSE b END"
_HALF = "CAST(a AS DOUBLE PRECISION) / 2"
_CAST = f"CAST({_HALF} AS BIGINT)"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a // b", "CAST((a - a % b) / b AS BIGINT)"),
        ("a / b", "CAST(a AS DOUBLE PRECISION) / b"),
        ("(a + b) / (a * b)", "CAST(a + b AS DOUBLE PRECISION) / (a * b)"),
        ("(a + 1) ** 3", "(a + 1) * (a + 1) * (a + 1)"),
        ("a ** 1", "a"),
        ("a != b and not a == b", "a <> b and not a = b"),
        ("a if a >= b else b", "CASE WHEN a >= b THEN a ELSE b END"),
        (
            "max(a, b, c)",
            f"CASE WHEN {_LARGER} >= c THEN {_LARGER} ELSE c END",
        ),
        ("min(a, b)", "CASE WHEN a <= b THEN a ELSE b END"),
        *[
            (
                f"{kind}(a / 2) * 3",
                f"({_CAST} - CASE WHEN {_CAST} > {_HALF} THEN 1 ELSE 0 END) * 3",
            )
            for kind in ("int", "floor")
        ],
        (
            "ceil(x)",
            "(CAST(x AS BIGINT) + CASE WHEN CAST(x AS BIGINT) < x THEN 1 ELSE 0 END)",
        ),
        ("-a + 1.5", "-a + 1.5"),
        ("-(-a) - -b", "-(-a) - -b"),
        ("-(a + b)", "-(a + b)"),
    ],
)
def test_sql_text(text: str, written: str) -> None:
    assert code(parse(text), "sql", str) == written


@pytest.mark.parametrize(
    ("text", "is_so"),
    [
        *[(text, True) for text in ("a", "x", "3 + 1.5", "a % b", "a // (b + 1)", "a / b + x")],
        *[(text, True) for text in ("int(x) % b", "floor(x) // 2", "ceil(x) % 2", "a ** 16")],
        *[(text, False) for text in ("a % x", "x // b", "a // 1.5", "a // (b / 2)", "1 + x % 2")],
        *[(text, False) for text in ("a ** 17", "a ** 0", "a ** b", "a ** -1", "sqrt(a)")],
        *[(text, False) for text in ("sizes[0]", "len(sizes)", "p", "a if p else b", "true")],
        *[(text, False) for text in ("a == null", "'x' == 'x'", "count(i < 2 for i in range(a))")],
        *[
            (text, False)
            for text in ("-(x % 2)", "int(x % 2) % b", "round(x)", "abs(a)", "log2(a)")
        ],
    ],
)
def test_what_sql_cannot_express_is_not_portable(text: str, is_so: bool) -> None:
    bound = {"a": 7, "b": 2, "x": 2.5, "p": True, "sizes": [1]}
    assert is_portable(parse(text), bound) is is_so


# LaTeX, read back by a reader that does not know how it was written

_LATEX_TOKEN = re.compile(
    r"\s*(\d+(?:\.\d+)?(?:e[-+]?\d+)?|\\operatorname\{\w+\}|\\mathit\{\w+\}|\\text\{ \w+ \}"
    r"|\\textstyle\\sum|\\[a-z]+|\\[,#{}]|[a-z]|\S)"
)
_LOOSEST_FIRST = (
    {r"\lor": "or"},
    {r"\land": "and"},
    {
        "=": "==",
        r"\ne": "!=",
        "<": "<",
        r"\le": "<=",
        ">": ">",
        r"\ge": ">=",
        r"\in": "in",
        r"\notin": "not in",
    },
    {"+": "+", "-": "-"},
    {r"\times": "*", r"\,": "*", "/": "/", r"\bmod": "%"},
)


class LatexReader:
    """A reader of LaTeX, as mathematicians write it, that builds the tree."""

    def __init__(self, text: str) -> None:
        self.tokens = _LATEX_TOKEN.findall(text)

    def ahead(self, *tokens: str) -> bool:
        return self.tokens[: len(tokens)] == list(tokens)

    def take(self, *tokens: str) -> str:
        assert not tokens or self.ahead(*tokens), (tokens, self.tokens)
        taken = self.tokens[: max(len(tokens), 1)]
        del self.tokens[: len(taken)]
        return taken[-1]

    def whole(self) -> Tree:
        tree = self.level(0)
        assert not self.tokens, self.tokens
        return tree

    def level(self, loosest: int) -> Tree:
        if loosest == 2 and self.ahead(r"\lnot"):
            self.take()
            return ("not", self.level(2))
        if loosest == len(_LOOSEST_FIRST):
            return self.power()
        if loosest == len(_LOOSEST_FIRST) - 1 and self.ahead("-"):
            self.take()
            return ("neg", self.level(loosest))
        tree = self.level(loosest + 1)
        while self.tokens:
            if self.tokens[0] in _LOOSEST_FIRST[loosest]:
                tree = (
                    _LOOSEST_FIRST[loosest][self.take()],
                    tree,
                    self.level(loosest + 1),
                )
            elif loosest == len(_LOOSEST_FIRST) - 1 and re.match(r"[a-z(]", self.tokens[0]):
                tree = ("*", tree, self.power())  # a coefficient before its letter
            else:
                break
        return tree

    def power(self) -> Tree:
        base = self.atom()
        while self.tokens and self.tokens[0] in ("^", "_", "["):
            if self.ahead("["):
                self.take()
                base = self.item(base)
                continue
            kind = {"^": "**", "_": "[]"}[self.take()]
            self.take("{")
            base = (kind, base, self.level(0))
            self.take("}")
        return base

    def item(self, container: Tree) -> Tree:
        limits = [("value", None), ("value", None)]
        position, is_part = 0, False
        while not self.ahead("]"):
            if self.ahead(":"):
                self.take()
                position, is_part = 1, True
            elif self.ahead("n", "u", "l", "l"):
                self.take("n", "u", "l", "l")
            else:
                limits[position] = self.level(0)
        self.take("]")
        if is_part:
            return ("[:]", container, *limits)
        return ("[]", container, limits[0])

    def items(self, end: str) -> list[Tree]:
        items = []
        while not self.ahead(end):
            items.append(self.level(0))
            if self.ahead(","):
                self.take()
        self.take(end)
        return items

    def inside(self, end: str) -> Tree:
        (tree,) = self.items(end)
        return tree

    def range(self) -> tuple[str, Tree]:
        self.take("0", r"\le")
        index = self.take()
        self.take("<")
        return index, self.level(3)

    def bracketed(self) -> Tree:
        tree = self.level(0)
        if self.ahead(r"\text{ if }"):
            self.take()
            condition = self.level(0)
            self.take(r"\text{ else }")
            tree = ("if", condition, tree, self.level(0))
        self.take(")")
        if self.ahead("_", "{", "0"):
            self.take("_", "{")
            index, rounds = self.range()
            self.take("}")
            return ("for", index, rounds, tree)
        return tree

    def atom(self) -> Tree:
        token = self.take()
        if token[0].isdigit():
            return ("value", float(token) if "." in token or "e" in token else int(token))
        if named := re.fullmatch(r"\\operatorname\{(\w+)\}", token):
            self.take("(")
            return (named[1], *self.items(")"))
        if constant := re.fullmatch(r"\\mathit\{(true|false)\}", token):
            return ("value", constant[1] == "true")
        if named := re.fullmatch(r"\\mathit\{(\w+)\}|([a-z])", token):
            return ("name", named[1] or named[2])
        if token == r"\#":
            self.take(r"\{")
            index, rounds = self.range()
            self.take(r"\mid")
            return ("count", index, rounds, self.inside(r"\}"))
        if token == r"\textstyle\sum":
            return ("sum", self.power())
        if token == r"\sqrt":
            self.take("{")
            return ("sqrt", self.inside("}"))
        closed = {r"\lfloor": ("floor", r"\rfloor"), r"\lceil": ("ceil", r"\rceil")}
        if token in closed:
            kind, end = closed[token]
            return (kind, self.inside(end))
        if token == "[":
            return ("list", *self.items("]"))
        assert token == "(", (token, self.tokens)
        return self.bracketed()


def latex(tree: Tree) -> str:
    def name(leaf: str) -> str:
        return leaf if len(leaf) == 1 else rf"\mathit{{{leaf}}}"

    def literal(value: Any) -> str:
        if isinstance(value, bool):
            return name(str(value).lower())
        return "null" if value is None else str(value)

    return show(tree, name, meaning_in("latex"), literal)


@unhurried
@given(integers(3, lists=True) | fractions(2, lists=True) | truths(2, lists=True), values)
def test_latex_agrees_with_the_evaluator(tree: Tree, bound: dict[str, Any]) -> None:
    tree = floored(tree)  # a fraction bar drops no remainder
    expected = valued(tree, bound)
    written = latex(tree)
    read = LatexReader(written).whole()
    value = evaluate(read, bound)
    if isinstance(expected, float):
        assert math.isclose(value, expected, rel_tol=1e-9, abs_tol=1e-9), written
    else:
        assert value == expected, written


# As people write it


@pytest.mark.parametrize(
    ("tree", "unicode", "in_latex", "html"),
    [
        ("a*b", "a·b", r"a\,b", "a·b"),
        ("3*a", "3a", "3a", "3a"),
        ("3*width", "3·width", r"3\,width", "3·width"),
        ("3*4", "3×4", r"3 \times 4", "3×4"),
        ("3*(a + b)", "3·(a + b)", r"3\,(a + b)", "3·(a + b)"),
        ("3*(a + b)**2", "3×(a + b)²", r"3 \times (a + b)^{2}", "3×(a + b)<sup>2</sup>"),
        ("a*3", "a·3", r"a\,3", "a·3"),
        ("x1*a", "x1·a", r"x1\,a", "x1·a"),
        ("x_1*a", "x_1·a", r"x_1\,a", "x_1·a"),
        ("3*(a/b)", "3(a/b)", "3(a/b)", "3(a/b)"),
        ("a/b - a//b", "a/b - a/b", "a/b - a/b", "a/b - a/b"),
        ("a % b", "a mod b", r"a \bmod b", "a mod b"),
        ("(-a) % b", "(-a) mod b", r"(-a) \bmod b", "(-a) mod b"),
        ("-(a % b)", "-a mod b", r"-a \bmod b", "-a mod b"),
        ("a**12", "a¹²", "a^{12}", "a<sup>12</sup>"),
        ("a**b", "a^b", "a^{b}", "a<sup>b</sup>"),
        ("(a + b)**2", "(a + b)²", "(a + b)^{2}", "(a + b)<sup>2</sup>"),
        ("-(a*b)", "-a·b", r"-a\,b", "-a·b"),
        ("-(a + b)", "-(a + b)", "-(a + b)", "-(a + b)"),
        ("(-a)**2", "(-a)²", "(-a)^{2}", "(-a)<sup>2</sup>"),
        ("floor(a/b)", "⌊a/b⌋", r"\lfloor a/b \rfloor", "⌊a/b⌋"),
        ("ceil(a/b)", "⌈a/b⌉", r"\lceil a/b \rceil", "⌈a/b⌉"),
        ("sqrt(a)", "sqrt(a)", r"\sqrt{a}", "sqrt(a)"),
        ("max(a, 2)", "max(a, 2)", r"\operatorname{max}(a, 2)", "max(a, 2)"),
        ("a < b", "a < b", "a < b", "a &lt; b"),
        ("a <= b", "a <= b", r"a \le b", "a &lt;= b"),
        ("a > b", "a > b", "a > b", "a &gt; b"),
        ("a >= b", "a >= b", r"a \ge b", "a &gt;= b"),
        ("not a == b", "not a == b", r"\lnot a = b", "not a == b"),
        ("a != 1 and a in s", "a != 1 and a in s", r"a \ne 1 \land a \in s", "a != 1 and a in s"),
        ("a or b not in s", "a or b not in s", r"a \lor b \notin s", "a or b not in s"),
        (
            "a if c else b",
            "a if c else b",
            r"(a \text{ if } c \text{ else } b)",
            "a if c else b",
        ),
        (
            "sum([i for i in range(n)]) * a",
            "sum([i for i in range(n)])·a",
            r"\textstyle\sum (i)_{0 \le i < n}\,a",
            "sum([i for i in range(n)])·a",
        ),
        (
            "count(i < 2 for i in range(n))",
            "count(i < 2 for i in range(n))",
            r"\#\{0 \le i < n \mid i < 2\}",
            "count(i &lt; 2 for i in range(n))",
        ),
        ("s[0][1]", "s[0][1]", "s[0][1]", "s[0][1]"),
        ("s[1:]", "s[1:]", "s[1:]", "s[1:]"),
        *[(f"{kind}(a)", f"{kind}(a)", rf"\operatorname{{{kind}}}(a)", f"{kind}(a)")
          for kind in ("abs", "int", "len", "log2", "round", "min")],
    ],
)  # fmt: skip
def test_a_formula_in_each_notation(tree: str, unicode: str, in_latex: str, html: str) -> None:
    parsed = parse(tree)
    assert show(parsed, str, TEXT) == unicode
    assert show(parsed, str, meaning_in("latex")) == in_latex
    assert show(parsed, str, meaning_in("html")) == html


@pytest.mark.parametrize(
    ("text", "name", "written"),
    [
        ("2 * h", r"<i>H</i>", "2<i>H</i>"),
        ("2 * h", "β", "2β"),
        ("2 * h", "H_{0}", "2H_{0}"),
        ("2 * h", "H²", "2H²"),
        ("2 * h", "H_t", "2·H_t"),
        ("1000 * h", "x1", "1000·x1"),
    ],
)
def test_only_a_single_letter_runs_on_from_its_coefficient(
    text: str, name: str, written: str
) -> None:
    assert show(parse(text), lambda _: name, TEXT) == written


def test_digits_in_groups_are_one_number() -> None:
    written = show(parse("a * 2"), lambda _: "1,024", TEXT, lambda _: "2")
    assert written == "1,024×2"


def test_a_subscript_never_follows_a_subscript() -> None:
    written = show(parse("s[i][0]"), lambda name: rf"\mathit{{{name}}}", meaning_in("latex"))
    assert written == r"\mathit{s}_{\mathit{i}}[0]"


# Identifiers and literals


@given(
    st.lists(st.sampled_from(["a.b", "a_b", "A_B", "a_b_", "in", "IN", "In_", "x"]), unique=True)
)
def test_identifiers_differ_in_any_case(fields: list[str]) -> None:
    identifier_of = identifiers(fields, ["in"])
    assert list(identifier_of) == fields
    assert len({name.lower() for name in identifier_of.values()} | {"in"}) == len(fields) + 1
    assert all(name.isidentifier() for name in identifier_of.values())


def test_an_identifier_that_is_free_is_the_field() -> None:
    assert identifiers(["width", "a.b.c"], ["order"]) == {"width": "width", "a.b.c": "a_b_c"}
    assert identifiers(["Order", "order"], ["ORDER"]) == {"Order": "Order_", "order": "order__"}
    assert {"order", "group", "select", "config", "using"} <= SQL_WORDS


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (3, "3"),
        (True, "True"),
        (None, "None"),
        ("it's", '"it\'s"'),
        ((1, (2, "b")), "[1, [2, 'b']]"),
        ({"a": (1,), "b": {}}, "{'a': [1], 'b': {}}"),
    ],
)
def test_a_literal_of_python(value: Any, written: str) -> None:
    assert python_literal(value) == written


def test_a_literal_of_sql_is_a_number() -> None:
    assert (sql_literal(3), sql_literal(2.5)) == ("3", "2.5")
    for value in (True, "x", None):
        with pytest.raises(KeyError):
            sql_literal(value)


def test_python_writes_every_operator() -> None:
    operators = {*SOURCE}
    for language in ("python", "text", "latex", "html"):
        assert {*meaning_in(language)} == operators == {*NUMBERS}
    assert {*meaning_in("sql")} < operators
    assert code(parse("count(i > 1 for i in range(3))"), "python", str) == (
        "sum(i > 1 for i in range(3))"
    )
    assert code(parse("sqrt(a) + log2(b) + null"), "python", str) == (
        "math.sqrt(a) + math.log2(b) + None"
    )
    assert fold(parse("ceil(a)"), str, str, {"ceil": meaning_in("python")["ceil"]}) == (
        "math.ceil(a)"
    )


def test_a_sum_is_bracketed_under_a_power_and_a_name_stands_apart_from_its_coefficient() -> None:
    assert show(parse("sum(x) ** 2"), str, meaning_in("latex")) == r"(\textstyle\sum x)^{2}"
    assert show(parse("3 * ab ** n"), str, meaning_in("text")) == "3·ab^n"
    assert show(parse("3 * a ** n"), str, meaning_in("text")) == "3a^n"
