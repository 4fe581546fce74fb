"""The code of a formula gives the total of `weigh`, or refuses: inside its region and beyond."""

from __future__ import annotations

import contextlib
import random
import re
from typing import TYPE_CHECKING, Any

import pytest
import sqlite
from made_up import blueprint

from weighbridge.algebra.expr import parse, source
from weighbridge.algebra.settle import settled
from weighbridge.answers.formula import ClosedForm
from weighbridge.answers.weigh import Weighing, weigh
from weighbridge.blueprint.schema import Blueprint, families
from weighbridge.errors import WeighbridgeError
from weighbridge.ledger.region import region_of
from weighbridge.models.find import bound, thawed

if TYPE_CHECKING:
    from collections.abc import Callable

    from weighbridge.models.find import Described

EVERY = 9  # a ninth of the families are more than sixty
DRAWS = 6
OF_LIBRARIES = (  # tensors with other numbers of dims under a condition, and layers in lists
    {"architecture": "convnext_atto", "pretrained_cfg": {}},
    {"architecture": "convnext_tiny", "pretrained_cfg": {}},
    {"architecture": "vit_tiny_patch16_224", "pretrained_cfg": {}},
    {"architecture": "mixer_b16_224", "pretrained_cfg": {}},
    {"_class_name": "FluxTransformer2DModel"},
)
MOST_LAYERS, LARGEST = 40, 10**7
COLUMN = re.compile(r"CAST\((\S+) AS (BIGINT|DOUBLE PRECISION)\) AS (\w+)")


def python_of(weighing: Weighing) -> Callable[..., Any]:
    found: dict[str, Any] = {}
    exec(ClosedForm(weighing).text(code="python"), found)  # noqa: S102  # it is code to run
    function: Callable[..., Any] = found["parameters"]
    return function


def answer(query: str, row: dict[str, int]) -> int | None:
    """Return what SQLite gives for other values of some columns."""

    def replaced(column: re.Match[str]) -> str:
        value, kind, name = column.groups()
        return f"CAST({row.get(name, value)} AS {kind}) AS {name}"

    total: int | None
    ((total, *_),) = sqlite.rows(COLUMN.sub(replaced, query))
    return total


def total_at(model: Described, fields: dict[str, Any]) -> int | None:
    try:
        return weigh(model, fields=fields).parameters
    except WeighbridgeError:
        return None


def other_size(value: int, dice: random.Random) -> int:
    return dice.choice([value * 2, value // 2, value + 1, max(value - 1, 0), dice.randint(0, 8)])


def explicit(weighing: Weighing) -> dict[str, Any]:
    """Return every field that is not computed: a sub-config with one field has other defaults."""
    fields = weighing.ledger.fields
    computed = weighing.model.computed
    return {name: deep(fields[name]) for name in fields if name not in computed}


def deep(value: Any) -> Any:
    value = thawed(value)
    if isinstance(value, list):
        return [deep(item) for item in value]
    return value


@pytest.mark.parametrize("model", [*families()[::EVERY], *OF_LIBRARIES], ids=str)
def test_the_code_agrees_with_weigh_or_refuses(model: Described) -> None:
    weighing = weigh(model, fields=explicit(weigh(model)))
    at, repeats = weighing.ledger.fields, weighing.model.blueprint.repeats
    function, query = python_of(weighing), ClosedForm(weighing).text(code="sql")
    columns = {name for _, _, name in COLUMN.findall(query)}
    assert function() == answer(query, {}) == weighing.parameters
    dice = random.Random(str(model))  # noqa: S311
    names = {name.replace(".", "_"): name for name in at if type(at[name]) is int}
    known = [name for name in names if name in columns]
    for _ in range(DRAWS):
        row = {}
        for name in dice.sample(known, min(len(known), dice.choice([1, 1, 2, 4]))):
            most = MOST_LAYERS if names[name] in repeats else LARGEST
            row[name] = min(other_size(at[names[name]], dice), most)
        changed = {names[name]: size for name, size in row.items()}
        with contextlib.suppress(ValueError):
            assert function(**row) == total_at(model, {**explicit(weighing), **changed}), row
        # A row of a table has every number, and the lists of this config.
        stated = {name: deep(value) for name, value in at.items() if value is not None}
        lists_and_columns = {
            name: value
            for name, value in stated.items()
            if isinstance(value, list) or name.replace(".", "_") in columns
        }
        total = answer(query, row)
        if total is not None:
            everything = {**explicit(weighing), **lists_and_columns, **changed}
            assert total == total_at(model, everything), row


def test_more_dense_layers_than_layers_are_refused() -> None:
    weighing = weigh("deepseek_v3")
    function, query = python_of(weighing), ClosedForm(weighing).text(code="sql")
    with pytest.raises(ValueError, match="first_k_dense_replace <= num_hidden_layers"):
        function(first_k_dense_replace=99)
    assert answer(query, {"first_k_dense_replace": 99}) is None
    fewer = weigh("deepseek_v3", fields={"first_k_dense_replace": 1}).parameters
    assert function(first_k_dense_replace=1) == answer(query, {"first_k_dense_replace": 1}) == fewer


def test_a_rule_of_the_family_is_checked_and_named() -> None:
    weighing = weigh("bert")
    with pytest.raises(ValueError, match="hidden_size % num_attention_heads == 0"):
        python_of(weighing)(hidden_size=770)
    assert answer(ClosedForm(weighing).text(code="sql"), {"hidden_size": 770}) is None
    for lang in ("en", "zh"):
        for code in ("text", "latex"):
            written = " ".join(ClosedForm(weighing).text(lang, code=code).split())
            assert "hidden_size % num_attention_heads == 0" in written.replace("% ", "% ", 1)
    assert "hidden_size % num_attention_heads == 0" in ClosedForm(weighing).to_dict()["region"]


def test_an_array_is_refused_if_one_element_is_outside() -> None:
    numpy = pytest.importorskip("numpy")
    function = python_of(weigh("bert"))
    totals = function(hidden_size=numpy.array([768, 780]))
    assert totals.tolist() == [weigh("bert").parameters, function(hidden_size=780)]
    with pytest.raises(ValueError, match="hidden_size % num_attention_heads"):
        function(hidden_size=numpy.array([768, 770]))


def test_a_computed_field_follows_the_other_sizes_if_it_is_left_out() -> None:
    function = python_of(weigh("llama"))
    assert function(hidden_size=8192) == weigh("llama", fields={"hidden_size": 8192}).parameters
    with_heads = weigh("llama", fields={"hidden_size": 8192, "head_dim": 64}).parameters
    assert function(hidden_size=8192, head_dim=64) == with_heads
    layers = python_of(weigh("qwen3_next"))
    for count in (12, 50):
        expected = weigh("qwen3_next", fields={"num_hidden_layers": count}).parameters
        assert layers(num_hidden_layers=count) == expected


def test_a_stated_list_is_fixed_and_the_layers_must_not_outrun_it() -> None:
    kinds = ["linear_attention", "full_attention"] * 4
    weighing = weigh({"model_type": "qwen3_next", "num_hidden_layers": 8, "layer_types": kinds})
    function = python_of(weighing)
    assert function() == weighing.parameters
    with pytest.raises(ValueError, match="num_hidden_layers <= 8"):
        function(num_hidden_layers=9)
    query = ClosedForm(weighing).text(code="sql")
    assert answer(query, {"num_hidden_layers": 7}) is None  # its loop is a number in SQL
    assert "num_hidden_layers == 8" in " ".join(query.split())


CONDITIONAL = blueprint(
    "conditional",
    defaults={"width": 12, "depth": 4, "rank": 3, "first": 1, "gated": True},
    require=["width % 2 == 0"],
    repeat={"i": "depth"},
    tensors={
        "low": "rank width",
        "cut": "width-rank",
        "layers.{i}.a": "width",
        "layers.{i}.b": "width 2",
        "gate": "width",
        "head": "width rank",
    },
    when={
        "low": "rank < 5",
        "layers.{i}.a": "i < first",
        "layers.{i}.b": "i >= first and width > 6",
        "gate": "gated",
    },
    ties={"head": "low if rank == 2"},
    modules={"layers.{i}": "Layer"},
    zero=["first"],
)


@pytest.mark.parametrize("first", [0, 1, 4])
def test_every_condition_on_a_tensor_is_a_rule(first: int) -> None:
    found = Blueprint(CONDITIONAL)
    at = {"first": first}
    weighing = Weighing(bound(at, found, "conditional"), "Base")
    function, query = python_of(weighing), ClosedForm(weighing).text(code="sql")
    agreed = 0
    for width in (2, 6, 8, 12):
        for depth in (1, 4, 5):
            for rank in (2, 3, 8, 12):
                for others in (0, 1, 5):
                    sizes = {"width": width, "depth": depth, "rank": rank, "first": others}
                    try:
                        total = Weighing(bound(sizes, found, "conditional"), "Base").parameters
                    except WeighbridgeError:
                        total = None
                    try:
                        assert function(**sizes) == total
                        agreed += 1
                    except ValueError:
                        pass
                    assert answer(query, sizes) in (None, total)
    assert agreed


def test_a_rule_is_settled_by_what_is_fixed() -> None:
    rule = parse("gated and (width > 3 or rank == null) and len(kinds) == depth")
    constants = {"gated": True, "kinds": ("a", "b")}
    assert source(settled(rule, constants)) == "width > 3 and 2 == depth"
    assert settled(parse("not gated"), constants) == ("value", False)


def test_all_rules_hold_at_the_config_itself() -> None:
    for family in families()[4::40]:
        ledger = weigh(family).ledger
        ledger.formula()
        for rule in region_of(ledger).rules:
            assert parse(source(rule)) is not None
            assert rule != ("value", False)
