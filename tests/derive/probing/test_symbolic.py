"""Values that remember: they equal plain values, know their expressions, and note questions."""

from __future__ import annotations

import copy
import math
import pickle
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from weighbridge.algebra.rewrite import compiled
from weighbridge.derive.probing.stand_ins import (
    MATH,
    STAND_INS,
    dtypes_in_modules,
    install,
    install_stand_ins,
    uninstall,
)
from weighbridge.derive.probing.symbolic import (
    LARGEST,
    MOST_NOTED,
    MOST_ROUNDS,
    Symbolic,
    SymbolicFlag,
    lift,
    node_count,
    plain_value,
    tracing,
    tree_of,
    without_counts,
)
from weighbridge.derive.write import expression

if TYPE_CHECKING:
    from collections.abc import Callable

    from weighbridge.algebra.expr import Tree

FUNCTIONS: dict[str, Any] = {
    "math": math,
    "floor": math.floor,
    "ceil": math.ceil,
    "trunc": math.trunc,
}
FIELDS: dict[str, Any] = {
    "a": 12,
    "b": 5,
    "x": 2.5,
    "on": True,
    "off": False,
    "act": "gelu",
    "empty": "",
    "sizes": [3, 1, 4],
    "more": [2, 7],
    "kinds": ["full", "slide"],
    "none": [],
    "pair": (8, 9),
}


def remembered(**fields: Any) -> dict[str, Any]:
    """Return fields that remember their names, and the stand-ins, as reference code finds them."""
    return {
        **STAND_INS,
        "math": MATH,
        **{name: lift(value, ("name", name)) for name, value in fields.items()},
    }


def run(code: str) -> Any:
    """Return the value of a Python expression over fields that remember."""
    return eval(code, {**FUNCTIONS, **remembered(**FIELDS)})  # noqa: S307  # code of this file


def texts(trees: dict[Tree, None]) -> list[str]:
    """Return noted expressions as texts, their counters as i, j, ... in order of appearance."""
    sites: dict[str, int] = {}

    def named(tree: Tree) -> Tree:
        if tree[0] == "loop":
            return ("index", sites.setdefault(tree[1], len(sites)))
        return tree if tree[0] in ("name", "value") else (tree[0], *map(named, tree[1:]))

    return [expression(named(tree), "ijk") for tree in trees]


REMEMBERED = {
    "a + b": "a + b",
    "a - 1": "a - 1",
    "1 - a": "1 - a",
    "2 * a": "2 * a",
    "a / b": "a / b",
    "a // b": "a // b",
    "100 // a": "100 // a",
    "a % b": "a % b",
    "2 ** b": "2 ** b",
    "-a": "-a",
    "abs(b - a)": "abs(b - a)",
    "round(x * b)": "round(x * b)",
    "int(x * a)": "int(x * a)",
    "int(a)": "a",
    "int(on)": "1 if on else 0",
    "on + a": "(1 if on else 0) + a",
    "a + True": "a + 1",
    "math.floor(x)": "floor(x)",
    "math.ceil(a / b)": "ceil(a / b)",
    "floor(x)": "floor(x)",
    "ceil(x)": "ceil(x)",
    "trunc(x)": "int(x)",
    "math.sqrt(a)": "sqrt(a)",
    "math.log2(a)": "log2(a)",
    "math.prod([a, b, 2])": "1 * a * b * 2",
    "math.prod(pair)": "1 * pair[0] * pair[1]",
    "max(a, b)": "max(a, b)",
    "min(b, 3)": "min(b, 3)",
    "max([a, b, 20])": "max(max(a, b), 20)",
    "max(sizes)": "max(sizes)",
    "min(pair)": "min(pair)",
    "len(sizes)": "len(sizes)",
    "sum(sizes)": "sum(sizes) + 0",
    "sum([a, b])": "0 + a + b",
    "sizes[1]": "sizes[1]",
    "sizes[-1]": "sizes[-1]",
    "pair[0] * 2": "pair[0] * 2",
    "(sizes + [7])[2]": "sizes[2]",
    "(pair + (7,))[1]": "pair[1]",
    "sizes[1:][0]": "sizes[1:][0]",
    "(pair[1:] + (7,))[0]": "pair[1:][0]",
    "(pair[::2] + (7,))[0]": "pair[0]",
    "(('x', 'y') * b)[3]": '["x", "y"][3 % 2]',
    "(a * ['x', 'y', 2])[-1]": '["x", "y", 2][-1 % 3]',
    "(kinds * b)[2]": "kinds[2 % len(kinds)]",
    "len(('x', 'y') * b)": "2 * b",
    "len(kinds * b)": "len(kinds) * b",
    "a == 12": "a == 12",
    "a != b": "a != b",
    "a < b": "a < b",
    "3 < a": "a > 3",
    "a >= b": "a >= b",
    "act == 'gelu'": 'act == "gelu"',
    "act != 'relu'": 'act != "relu"',
    "bool(a)": "a != 0",
    "bool(on)": "on",
    "a": "a",
    "x": "x",
    "act": "act",
}


@pytest.mark.parametrize("code", REMEMBERED)
def test_a_value_equals_the_plain_one_and_its_expression_gives_it(code: str) -> None:
    found, usual = run(code), eval(code, {**FUNCTIONS, **FIELDS})  # noqa: S307
    assert (plain_value(found), type(plain_value(found))) == (usual, type(usual))
    assert isinstance(found, Symbolic)
    assert compiled(tree_of(found))(FIELDS) == usual
    if "1:]" not in code:  # expressions of blueprints have no slices, though code may
        assert expression(tree_of(found)) == REMEMBERED[code]


FORGOTTEN = {
    "a == None": False,
    "a != None": True,
    "act == 3": False,
    "act != 3": True,
    "3 in range(a)": True,
    "round(x, 1)": 2.5,
    "act.upper()": "GELU",
    "b * [0]": [0] * 5,
    "'ab' * b": "ababababab",
    "max(1, 2)": 2,
    "max(['b', 'a'], key=len)": "b",
    "min([], default=4)": 4,
    "len('abc')": 3,
    "sum([1, 2], 3)": 6,
    "int('12', 5)": 7,
    "bool([])": False,
    "math.gcd(12, 18)": 6,
    "math.sqrt(9)": 3.0,
    "math.pi": math.pi,
}


@pytest.mark.parametrize("code", FORGOTTEN)
def test_a_value_that_cannot_remember_is_plain(code: str) -> None:
    found = run(code)
    assert (found, isinstance(found, Symbolic)) == (FORGOTTEN[code], False)


def test_arithmetic_with_other_types_is_refused_as_in_python() -> None:
    for code in ("a + 'text'", "a < None", "sizes + 3"):
        with pytest.raises(TypeError):
            run(code)


def test_an_expression_that_grows_too_large_is_forgotten() -> None:
    values: list[Any] = [run("a")]
    for _ in range(LARGEST // 2):
        values.append(values[-1] + 1)
    assert values == list(range(12, 12 + len(values)))
    assert [node_count(value.tree) for value in values[:-1]] == list(range(1, LARGEST + 1, 2))
    assert not isinstance(values[-1], Symbolic)


@pytest.mark.parametrize(
    ("value", "tree"),
    [
        (3, ("value", 3)),
        ("text", ("value", "text")),
        (None, ("value", None)),
        ([1, (2, "x")], ("list", ("value", 1), ("list", ("value", 2), ("value", "x")))),
        (np.int64(7), ("value", 7)),
        ([lift(4, ("name", "a")), 5], ("list", ("name", "a"), ("value", 5))),
    ],
)
def test_a_plain_value_is_its_own_expression(value: Any, tree: Tree) -> None:
    found = tree_of(value)
    assert found == tree
    assert type(found[-1]) is type(tree[-1]), "NumPy's numbers become Python's"


def test_null_and_objects_are_lifted_to_themselves() -> None:
    something = object()
    assert lift(None, ("name", "a")) is None
    assert lift(something, ("name", "a")) is something


def test_a_value_that_is_lifted_again_forgets_its_expression() -> None:
    assert lift(run("a + b"), ("name", "c")).tree == ("name", "c")


@pytest.mark.parametrize(
    ("name", "kind"), [("on", bool), ("a", int), ("x", float), ("act", str), ("sizes", list)]
)
def test_plain_value_reaches_into_every_container(name: str, kind: type) -> None:
    value = run(name)
    assert type(plain_value(value)) is kind
    found = plain_value({value if kind is str else "key": [value, (value,)]})
    ((inside, (again,)),) = found.values()
    assert type(inside) is type(again) is kind
    assert [type(key) for key in found] == [str]
    assert [type(item) for item in plain_value(run("sizes"))] == [int, int, int]


@pytest.mark.parametrize("name", FIELDS)
def test_a_copy_remembers_and_a_pickle_does_not(name: str) -> None:
    value = run(name)
    assert copy.deepcopy({"key": value})["key"].tree == copy.copy(value).tree == ("name", name)
    back = pickle.loads(pickle.dumps(value))  # noqa: S301
    assert (back, isinstance(back, Symbolic)) == (plain_value(value), False)


def test_a_deep_copy_of_a_list_is_another_list() -> None:
    sizes = run("sizes")
    copy.deepcopy(sizes).append(5)
    assert list.__len__(sizes) == 3


def test_a_flag_looks_like_a_bool_and_passes_for_one() -> None:
    flag = run("a > b")
    assert isinstance(flag, SymbolicFlag)
    assert (str(flag), repr(flag), f"{flag}") == ("True", "True", "True")
    assert isinstance(flag, STAND_INS["bool"])
    assert not isinstance(run("a"), STAND_INS["bool"])


def test_values_go_where_plain_ones_go() -> None:
    assert {12: "twelve", 2.5: "half", "gelu": "act"}[run("a")] == "twelve"
    assert {run("x"), run("act"), run("pair")} == {2.5, "gelu", (8, 9)}
    assert [0] * run("b") == [0] * 5
    assert isinstance(run("a"), STAND_INS["int"])
    assert issubclass(bool, STAND_INS["int"])
    assert not isinstance("a", STAND_INS["int"])


# Questions

ASKED: dict[str, list[str]] = {
    "1 if a > b else 2": ["a > b"],
    "1 if a else 2": ["a != 0"],
    "1 if x else 2": ["x != 0"],
    "1 if act else 2": ['act != ""'],
    "not empty": ['empty != ""'],
    "1 if sizes else 2": ["len(sizes) != 0"],
    "not none": ["len(none) != 0"],
    "not on": ["on"],
    "1 if a > 100 or b == 5 else 2": ["a > 100", "b == 5"],
    "off and a > 3": ["off"],
    "3 in sizes": ["3 in sizes"],
    "b in sizes": ["b in sizes"],
    "act in ('relu', 'gelu')": ['act == "relu"', 'act == "gelu"'],
    "'el' in act": ['"el" in act'],
    "[i for i in range(3) if i < b]": ["i < b"],
    "[k for k in kinds if k == 'full']": ['kinds[i] == "full"'],
    "[i for i, s in enumerate(sizes) if i % 2 == s]": ["i % 2 == sizes[i]"],
    "a > b": [],
    "bool(a)": [],
    "a + b": [],
}


@pytest.mark.parametrize("code", ASKED)
def test_questions_are_noted_once_and_in_order(code: str) -> None:
    with tracing() as trace:
        found = run(code)
    assert plain_value(found) == eval(code, dict(FIELDS))  # noqa: S307
    assert texts(trace.asked) == ASKED[code]


def test_questions_are_noted_in_all_open_blocks_and_nowhere_else() -> None:
    with tracing() as outer:
        with tracing() as inner:
            bool(run("a > 1"))
        bool(run("a > 2"))
    bool(run("a > 3"))
    assert texts(inner.asked) == ["a > 1"]
    assert texts(outer.asked) == ["a > 1", "a > 2"]


def test_a_block_that_raises_is_closed() -> None:
    with pytest.raises(KeyError), tracing() as trace:
        raise KeyError
    bool(run("a > 1"))
    assert not trace.asked


def test_intermediate_integers_are_noted_and_other_numbers_are_not() -> None:
    a, b, x = run("a"), run("b"), run("x")
    with tracing() as trace:
        (a + b) * 2
        x * 2
    assert texts(trace.computed) == ["a + b", "(a + b) * 2"]


def test_a_trace_has_a_largest_size() -> None:
    a = run("a")
    with tracing() as trace:
        for number in range(MOST_NOTED + 5):
            a + number
    assert len(trace.computed) == MOST_NOTED


def test_a_question_of_every_round_is_one_question() -> None:
    with tracing() as trace:
        run("[1 if i < b else 0 for i in range(a)]")
    assert [tree[0] for tree in trace.asked] == ["<"]
    ((_, counter, field),) = trace.asked
    assert (counter[0], len(counter), field) == ("loop", 2, ("name", "b"))
    assert without_counts(("+", ("loop", "here", 4), ("value", 1))) == (
        "+",
        ("loop", "here"),
        ("value", 1),
    )


# Loops

BOUNDS: dict[str, list[str]] = {
    "[i for i in range(a)]": ["a - 0"],
    "[i for i in range(a - 2)]": ["a - 2 - 0"],
    "[i for i in range(2, a)]": ["a - 2"],
    "[i for i in range(0, a, b)]": ["(a - 0 + b - 1) // b"],
    "[i for i in range(b, a, 3)]": ["(a - b + 3 - 1) // 3"],
    "[i for i in range(a, 0, -1)]": ["(0 - a + -1 + 1) // -1"],
    "[i for i in range(a, b, -3)]": ["(b - a + -3 + 1) // -3"],
    "[i for i in reversed(range(a))]": ["a - 0"],
    "[s for s in sizes]": ["len(sizes)"],
    "[s for s in pair]": ["len(pair)"],
    "[i for i, s in enumerate(sizes)]": ["len(sizes)"],
    "[i + j for i in range(b) for j in range(a)]": ["b - 0", "a - 0"],
    "[s for s in zip(sizes)]": ["len(sizes)"],
    "list(zip(sizes, more))": ["min(len(sizes), len(more))", "len(sizes)", "len(more)"],
    "list(zip(sizes, [1, 2]))": ["len(sizes)"],
    "list(zip([1, 2], 'ab'))": [],
    "[s for s in ('x', 'y') * b]": ["2 * b"],
    "list(zip(['x', 'y', 'x'] * b, 'abc' * 9))": ["3 * b"],
    "[s for s in ('x', 'x') * b]": [],
    "[s for s in ((1, 2), (3, 4)) * b]": [],
    "list(zip(zip(sizes, more), pair))": [
        "min(len(sizes), len(more))",
        "min(len(pair), min(len(sizes), len(more)))",
        "len(sizes)",
        "len(more)",
        "len(pair)",
    ],
    "list(zip(zip(sizes, 'ab'), pair))": ["min(len(pair), len(sizes))", "len(sizes)", "len(pair)"],
    "list(zip(zip('ab', 'cd'), pair))": ["len(pair)"],
    "list(zip(zip(sizes, more), zip(pair, kinds)))": [
        "min(len(sizes), len(more))",
        "min(len(pair), len(kinds))",
        "min(min(len(sizes), len(more)), min(len(pair), len(kinds)))",
        "len(sizes)",
        "len(more)",
        "len(pair)",
        "len(kinds)",
    ],
}
PARTLY_KNOWN = {
    "[i + j for i in range(b) for j in range(a)]",
    "list(zip(sizes, [1, 2]))",
    "list(zip([1, 2], 'ab'))",
    "[s for s in ('x', 'x') * b]",
    "[s for s in ((1, 2), (3, 4)) * b]",
}


@pytest.mark.parametrize("code", BOUNDS)
def test_the_bounds_of_loops_are_noted(code: str) -> None:
    with tracing() as trace:
        found = run(code)
    assert texts(trace.bounds) == BOUNDS[code]
    rounds = len(eval(code, dict(FIELDS)))  # noqa: S307
    assert len(found) == rounds
    if code not in PARTLY_KNOWN:
        assert rounds in [compiled(tree)(FIELDS) for tree in trace.bounds]


@pytest.mark.parametrize(
    ("lengths", "inside"),
    [(("sizes",), "len(sizes)"), (("sizes", "more"), "min(len(sizes), len(more))"), ((), None)],
)
def test_a_zip_knows_its_length_as_far_as_those_of_its_lists_are_known(
    lengths: tuple[str, ...], inside: str | None
) -> None:
    with tracing():
        zipped = STAND_INS["zip"](*[run(name) for name in lengths], [1, 2, 3])
        around = STAND_INS["zip"](zipped, "abc")
    assert (zipped.length and expression(zipped.length)) == inside
    assert around.length == zipped.length
    assert next(around)[1] == "a"


def test_a_strict_zip_of_lists_of_different_lengths_is_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        run("list(zip(sizes, more, strict=True))")


COUNTERS: dict[str, list[str]] = {
    "list(range(3))": ["0*", "1*", "2*"],
    "list(range(2, 5))": ["2 + 0*", "2 + 1*", "2 + 2*"],
    "list(range(b, 8))": ["b + 0*", "b + 1*", "b + 2*"],
    "list(range(0, 6, 3))": ["0* * 3", "1* * 3"],
    "list(reversed(range(3)))": ["2*", "1*", "0*"],
    "[range(5)[2], range(5)[-1]]": ["2*", "4*"],
    "list(sizes)": ["sizes[0*]", "sizes[1*]", "sizes[2*]"],
    "[i for i, s in enumerate(sizes)]": ["0*", "1*", "2*"],
    "[i for i, s in enumerate(more, 3)]": ["0* + 3", "1* + 3"],
    "[s for i, s in enumerate(more)]": ["more[0*]", "more[1*]"],
    "[s for s, t in zip(sizes, more)]": ["sizes[0*]", "sizes[1*]"],
    "[t for s, t in zip('abc', more)]": ["more[0*]", "more[1*]"],
}


@pytest.mark.parametrize("code", COUNTERS)
def test_a_counter_knows_which_round_it_is(code: str) -> None:
    """Counters are shown as the number of their round with a star."""

    def shown(tree: Tree) -> str:
        kind, *operands = tree
        if kind in ("name", "value", "loop"):
            return f"{operands[-1]}{'*' * (kind == 'loop')}"
        one, other = map(shown, operands)
        return f"{one}[{other}]" if kind == "[]" else f"{one} {kind} {other}"

    with tracing():
        found = list(run(code))
    usual = eval(code, dict(FIELDS))  # noqa: S307
    assert [plain_value(value) for value in found] == usual
    assert [shown(tree_of(value)) for value in found] == COUNTERS[code]


@pytest.mark.parametrize(
    "item", ["i + x", "x * i", "b - i", "i > b", "b < i", "x >= i", "i == x", "b // i"]
)
def test_the_rounds_of_a_table_of_positions_forget(item: str) -> None:
    code = f"[{item} for i in range(1, {MOST_ROUNDS + 10})]"
    with tracing():
        found = run(code)
    assert plain_value(found) == eval(code, dict(FIELDS))  # noqa: S307
    assert all(isinstance(value, Symbolic) for value in found[:MOST_ROUNDS])
    assert len(found[MOST_ROUNDS:]) == 9
    assert not any(isinstance(value, Symbolic) for value in found[MOST_ROUNDS:])


def test_loops_of_two_lines_have_counters_of_their_own() -> None:
    namespace: dict[str, Any] = {}
    install(namespace)
    code = "def f():\n    for i in range(2):\n        for j in range(2):\n            yield i, j\n"
    exec(code, namespace)  # noqa: S102
    with tracing():
        sites = {(i.tree[1], j.tree[1]) for i, j in namespace["f"]()}
    assert len(sites) == 1
    assert len({site for pair in sites for site in pair}) == 2


def test_a_range_behaves_as_one() -> None:
    with tracing():
        made = STAND_INS["range"](2, 9, 3)
    assert (len(made), 5 in made, 6 in made) == (3, True, False)
    assert made[0:2] == range(2, 8, 3)
    with pytest.raises(IndexError):
        made[3]


def test_loops_are_python_s_own_where_nothing_is_recorded() -> None:
    """Stand-ins stay in the modules of transformers, which may run in the same process later."""
    assert run("range(1, b)") == range(1, 5)
    assert type(run("list(range(b))")[-1]) is int
    assert {type(at) for at, _ in run("enumerate(sizes)")} == {int}
    assert list(run("zip(range(2), more)")) == [(0, 2), (1, 7)]


# Inside reference code

NAMES = ["int", "bool", "max", "min", "len", "sum", "range", "enumerate", "zip"]


def test_the_stand_ins_are_installed_and_removed() -> None:
    namespace: dict[str, Any] = {"math": math, "own": 1}
    install(namespace)
    assert sorted(namespace) == sorted(["math", "own", *NAMES])
    assert namespace["math"] is MATH
    uninstall(namespace)
    assert namespace == {"math": math, "own": 1}


def test_fractions_in_the_code_of_a_config_class_remember_that_they_are_constants() -> None:
    code = """
class Config:
    def __post_init__(self):
        self.size = int(0.75 * self.width)
"""
    module: Any = ModuleType("models.configuration_made_up")
    sys.modules[module.__name__] = module
    exec(code, module.__dict__)  # noqa: S102
    install_stand_ins("models.")
    config = module.Config()
    config.width = lift(16, ("name", "width"))
    config.__post_init__()
    del sys.modules[module.__name__]
    assert (config.size, expression(tree_of(config.size))) == (12, "int(0.75 * width)")


def test_types_that_code_passes_to_torch_have_no_stand_in_unless_no_module_does() -> None:
    assert dtypes_in_modules("class Layer(Module):\n    zeros = torch.zeros(2, dtype=int)") == {
        "int"
    }
    assert dtypes_in_modules("class Cache:\n    zeros = torch.zeros(2, dtype=int)") == set()
    assert dtypes_in_modules("zeros = ones.to(bool)") == {"bool"}


def test_a_function_that_the_module_defines_itself_is_kept() -> None:
    def own(values: Any) -> int:
        return 0

    namespace: dict[str, Any] = {"len": own, "math": "no module"}
    install(namespace, without={"int"})
    assert namespace["len"] is own
    assert namespace["math"] == "no module"
    assert "int" not in namespace
    assert "bool" in namespace
    uninstall(namespace)
    assert namespace == {"len": own, "math": "no module"}


def test_code_gives_the_same_results_on_plain_values() -> None:
    code = """
def f(n, sizes):
    total = sum(len(str(i)) for i in range(n)) + max(sizes) - min(3, n)
    for i, (a, b) in enumerate(zip(sizes, range(1, n)), 1):
        total += int(a / b) * i + bool(i % 2)
    return total, math.ceil(n / 3), isinstance(n, int), isinstance(True, bool), int()
"""
    namespaces: list[dict[str, Any]] = [{"math": math}, {"math": math}]
    install(namespaces[1])
    answers = []
    for namespace in namespaces:
        exec(code, namespace)  # noqa: S102
        called: Callable[..., Any] = namespace["f"]
        answers.append(called(11, [5, 2, 8, 1]))
    assert answers[0] == answers[1]


def test_a_number_of_an_array_is_written_as_a_number() -> None:
    number = np.arange(5).sum()
    assert [tree_of(number), tree_of(torch.tensor(10))] == [("value", 10), ("value", 10)]
    assert type(tree_of(torch.tensor(10))[1]) is int


def test_a_default_that_is_a_tuple_can_be_added_to_a_list_as_the_list_of_a_file() -> None:
    sizes = lift((3, 4), ("name", "sizes"))
    added = [lift(2, ("name", "first"))] + sizes  # noqa: RUF005
    assert [expression(tree_of(size)) for size in added] == ["first", "sizes[0]", "sizes[1]"]
    assert (1,) + sizes == (1, 3, 4)  # noqa: RUF005
