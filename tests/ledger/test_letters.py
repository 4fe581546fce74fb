"""Models whose layers nest and differ: rows as a program builds them, formulas of their totals."""

from __future__ import annotations

import sys
from math import prod
from typing import Any

import pytest
from drawn import BLUEPRINTS, bases, bound, experts, ledgers
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up import ALL, EXPERTS, PROOF, SHARED, STAGES, blueprint

from weighbridge.algebra.expr import source
from weighbridge.algebra.polynomial import Polynomial
from weighbridge.blueprint.law import check
from weighbridge.blueprint.schema import MOST_PLACES, Blueprint
from weighbridge.errors import ExpressionError, UsageError
from weighbridge.ledger.ledger import GROUPINGS, Ledger, bind
from weighbridge.ledger.rows import RowGroup

unhurried = settings(deadline=None)


@pytest.mark.parametrize("family", ALL)
def test_the_made_up_blueprints_keep_the_law(family: str) -> None:
    check(ALL[family][0])


@unhurried
@given(bases)
def test_rows_are_those_of_a_program_in_its_order(ledger: Ledger) -> None:
    rows = ALL[ledger.blueprint.family][1](dict(ledger.fields))
    assert [(row.name, row.shape) for row in ledger.rows] == list(rows)


@unhurried
@given(ledgers)
def test_the_total_is_the_sum_of_the_rows_and_of_every_grouping(ledger: Ledger) -> None:
    assert ledger.parameters == sum(row.parameters for row in ledger.rows)
    for grouping in GROUPINGS:
        assert sum(line.parameters for line in ledger.by(grouping)) == ledger.parameters
    assert [line.name for line in ledger.by("tensor")] == [row.name for row in ledger.rows]


@unhurried
@given(ledgers)
def test_a_formula_gives_the_total(ledger: Ledger) -> None:
    assert ledger.formula()(**ledger.fields) == ledger.parameters
    assert ledger.active_formula()(**ledger.fields) == ledger.active
    for grouping in GROUPINGS:
        for line in ledger.by(grouping):
            assert ledger.formula_of([line])(**ledger.fields) == line.parameters
            assert ledger.formula_of([line], active=True)(**ledger.fields) <= line.parameters * 4
    for entry in ledger.entries:
        assert ledger.formula_of([RowGroup("", (entry,))])(**ledger.fields) == entry.parameters


@unhurried
@given(ledgers, st.integers(1, 9))
def test_a_formula_in_numbers_is_the_total_of_such_a_model(ledger: Ledger, width: int) -> None:
    other = bind(ledger.blueprint, ledger.class_name, {**ledger.fields, "width": width})
    assert ledger.formula(width=width) == other.parameters


@unhurried
@given(ledgers)
def test_a_tied_row_points_to_one_that_counts(ledger: Ledger) -> None:
    rows = {row.name: row for row in ledger.rows}
    for row in rows.values():
        if row.tied_to:
            assert rows[row.tied_to].tied_to is None
            assert rows[row.tied_to].shape == row.shape


@unhurried
@given(experts)
def test_the_active_parameters_leave_out_the_experts_that_a_token_does_not_pass(
    fields: dict[str, Any],
) -> None:
    ledger = bound("experts", fields)
    idle = fields["experts"] - fields["experts_per_token"]
    per_expert = sum(
        prod(row.shape) // fields["experts"] if "fused" in row.name else row.count
        for row in ledger.rows
        if "fused" in row.name or ".experts.0." in row.name
    )
    assert ledger.active == ledger.parameters - idle * per_expert


def text(ledger: Ledger, name: str) -> str:
    """Return the formula of the tensor of one template."""
    line = next(
        line
        for line in ledger.by("role")
        if any(entry.template.name == name for entry in line.entries)
    )
    entries = tuple(entry for entry in line.entries if entry.template.name == name)
    return source(ledger.formula_of([line._replace(entries=entries)]).tree())


@pytest.mark.parametrize(
    ("family", "name", "formula"),
    [
        ("experts", "layers.{i}.mlp.dense.weight", "first_dense * hidden * width"),
        (
            "experts",
            "layers.{i}.mlp.router.weight",
            "experts * layers * width - experts * first_dense * width",
        ),
        (
            "experts",
            "layers.{i}.mlp.experts.{e}.up.weight",
            "experts * hidden * layers * width - experts * first_dense * hidden * width",
        ),
        ("experts", "layers.{i}.sink", 'count(kinds[i] == "full" for i in range(layers)) * width'),
        (
            "stages",
            "stages.{j}.blocks.{k}.table",
            "8 * sum([depths[j] for j in range(len(depths))]) * window ** 2",
        ),
        ("stages", "stages.{j}.bias", "3 * width"),
        (
            "stages",
            "stages.{j}.blocks.{k}.shift.weight",
            (
                "sum([count(k % 2 == shift for k in range(depths[j])) "
                "for j in range(len(depths))]) * width"
            ),
        ),
        (
            "stages",
            "stages.{j}.down.weight",
            (
                "sum([width * 2 ** (j + 1) * (width * 2 ** j) if j < len(depths) - 1 else 0 "
                "for j in range(len(depths))])"
            ),
        ),
        ("shared", "blocks.{i}.parts.{g}.w", "groups * width"),
        ("shared", "encoder.{i}.b", "sum([max(i, width) for i in range(layers)])"),
        ("shared", "encoder.{i}.w", "layers * width ** 2"),
    ],
)
def test_a_formula_says_in_how_many_layers_a_tensor_stands(
    family: str, name: str, formula: str
) -> None:
    found = text(bound(family, {}), name)
    assert found == formula or formula in found


CLOSED = {
    "i < part": "7 * part",
    "i <= part": "7 * part + 7",
    "i > part": "7 * layers - 7 * part - 7",
    "i >= part": "7 * layers - 7 * part",
    "i == part": "7",
    "i != part": "7 * layers - 7",
    "not i == part": "7 * layers - 7",
    "not i <= part": "7 * layers - 7 * part - 7",
}


@pytest.mark.parametrize("condition", CLOSED)
@pytest.mark.parametrize("part", [-1, 0, 3, 4, 5])
def test_the_layers_before_and_after_one_are_counted_without_a_loop(
    condition: str, part: int
) -> None:
    raw = blueprint(
        "part",
        defaults={"layers": 4, "part": part},
        repeat={"i": "layers"},
        tensors={"a.{i}.w": "7"},
        when={"a.{i}": condition},
    )
    ledger = bind(Blueprint(raw), "Base", raw["defaults"])
    assert ledger.formula()(**ledger.fields) == ledger.parameters
    if 0 <= part < 4 and ledger.parameters:
        assert source(ledger.formula().tree()) == CLOSED[condition]


@pytest.mark.parametrize(
    ("condition", "formula"),
    [
        ("i < part", "7 * part"),
        ("i >= part", "7 * layers - 7 * part"),
        ("i <= part", "7 * count(i <= part for i in range(layers))"),
        ("i > part", None),
        ("not i >= part", "7 * part"),
        ("i == part", None),
        ("i != part", "7 * count(i != part for i in range(layers))"),
    ],
)
def test_a_count_up_to_all_layers_is_closed_where_the_bound_is_outside(
    condition: str, formula: str | None
) -> None:
    raw = blueprint(
        "part",
        defaults={"layers": 4, "part": 4},
        repeat={"i": "layers"},
        tensors={"a.{i}.w": "7", "b.{i}.w": "7"},
        when={"a.{i}": condition},
    )
    ledger = bind(Blueprint(raw), "Base", raw["defaults"])
    groups = [RowGroup("a", (entry,)) for entry in ledger.entries if entry.template.when]
    formulas = [source(ledger.formula_of([group]).tree()) for group in groups]
    assert formulas == ([formula] if formula and ledger.tensors > 4 else [])


def test_all_conditions_on_a_layer_are_in_its_count() -> None:
    raw = blueprint(
        "both",
        defaults={"layers": 8, "part": 2, "width": 3},
        repeat={"i": "layers"},
        tensors={"a.{i}.w": "7", "b.{i}.w": "width+i"},
        when={
            "a.{i}": "i >= part",
            "a.{i}.w": "i % 2 == 0",
            "b.{i}": "i >= part",
            "b.{i}.w": "i % 2 == 0",
        },
    )
    ledger = bind(Blueprint(raw), "Base", raw["defaults"])
    assert text(ledger, "a.{i}.w") == ("7 * count(i >= part and i % 2 == 0 for i in range(layers))")
    assert text(ledger, "b.{i}.w") == (
        "sum([width + i if i >= part and i % 2 == 0 else 0 for i in range(layers)])"
    )
    assert ledger.formula()(**ledger.fields) == ledger.parameters == 3 * 7 + (5 + 7 + 9)


def test_a_layer_alone_is_in_letters_too() -> None:
    raw = blueprint(
        "grows",
        defaults={"layers": 3, "width": 2, "sizes": [5, 6, 7]},
        repeat={"i": "layers"},
        tensors={"a.{i}.w": "width+i sizes[i]"},
    )
    ledger = bind(Blueprint(raw), "Base", raw["defaults"])
    formulas = [source(ledger.formula_of([group]).tree()) for group in ledger.by("layer")]
    assert formulas == ["5 * width", "6 * width + 6", "7 * width + 14"]


def test_a_count_that_the_config_does_not_allow_is_not_closed() -> None:
    ledger = bound("experts", {"first_dense": 9})
    assert "count(i < first_dense for i in range(layers))" in text(
        ledger, "layers.{i}.mlp.dense.weight"
    )


def test_a_count_of_layers_up_to_a_fraction_is_not_closed() -> None:
    raw = blueprint(
        "part",
        defaults={"layers": 4, "part": 1.5},
        repeat={"i": "layers"},
        tensors={"a.{i}.w": "7"},
        when={"a.{i}": "i < part"},
    )
    ledger = bind(Blueprint(raw), "Base", raw["defaults"])
    assert ledger.formula()(**ledger.fields) == ledger.parameters == 14


def test_active_parameters_have_a_formula() -> None:
    ledger = bound("experts", {})
    formula = source(ledger.active_formula().tree())
    assert "experts_per_token" in formula
    assert "experts_per_token" not in source(ledger.formula().tree())


@pytest.mark.parametrize("family", ["experts", "stages"])
def test_a_template_has_a_formula_of_all_its_elements_or_of_the_active_ones(family: str) -> None:
    ledger = bound(family, {})
    for template in {entry.template.name: entry.template for entry in ledger.entries}.values():
        entries = [entry for entry in ledger.entries if entry.template == template]
        every = ledger.letters.every(template)
        active = ledger.letters.every(template, active=True)
        assert isinstance(every, Polynomial)
        assert isinstance(active, Polynomial)
        assert every(**ledger.fields) == sum(entry.parameters for entry in entries)
        assert active(**ledger.fields) == sum(map(ledger.active_of, entries))


def test_a_layer_of_a_nested_model_is_its_outermost() -> None:
    assert [line.name for line in bound("stages", {}).by("layer")] == [
        "scale",
        *map("stages.{}".format, range(3)),
        "head",
    ]
    assert [line.name for line in bound("experts", {}, "Head").by("layer")][:2] == [
        "model.embed",
        "model.layers.0",
    ]


def test_buffers_stand_in_layers_where_their_conditions_hold() -> None:
    found = [
        (row.name, row.shape, row.dtype, row.parameters)
        for row in bound("experts", {}, "Head").buffers()
    ]
    assert found == [
        *((f"model.layers.{i}.mlp.router.bias", (4,), "F32", 0) for i in range(2, 5)),
        *((f"aux.{i}.seen", (5,), "I64", 0) for i in range(0, 5, 2)),
    ]
    assert len(bound("stages", {}).buffers()) == 6


def test_a_class_without_a_base_has_what_it_lists_alone() -> None:
    ledger = bound("experts", {}, "Alone")
    assert [row.name for row in ledger.rows] == [f"own.{i}.w" for i in range(5)]
    assert ledger.buffers() == []
    assert BLUEPRINTS["experts"].modules("Alone") == {"": "Alone", "own.{i}": "Own"}


def test_a_tie_may_hold_in_some_layers_alone() -> None:
    ledger = bound("shared", {"layers": 2, "groups": 1})
    ties = {row.name: row.tied_to for row in ledger.rows if row.tied_to}
    assert ties == {
        "decoder.0.w": "encoder.0.w",
        "decoder.1.w": "encoder.1.w",
        "blocks.1.parts.0.w": "blocks.0.parts.0.w",
    }
    assert bound("shared", {"share": False}).tied == bound("shared", {}).tied - 3 * 16


def test_a_field_that_decides_the_layers_of_a_tensor_cannot_change_in_a_formula() -> None:
    for name in ("layers", "first_dense"):
        with pytest.raises(UsageError, match=f"{name} decides more than sizes"):
            bound("experts", {}).formula(**{name: 3})


def test_a_size_of_zero_is_weighed_only_where_it_was_proved() -> None:
    none = bound("experts", {"shared": 0}).parameters
    assert none < bound("experts", {}).parameters
    assert bound("experts", {}).formula(shared=0) == none
    with pytest.raises(UsageError, match="needs width >= 1"):
        bound("experts", {}).formula(width=0)
    with pytest.raises(ExpressionError, match="hidden: gives 0, not an integer from 1"):
        bound("experts", {"hidden": 0})


def weighed(**fields: int) -> tuple[int, Ledger]:
    """Return how many functions were called to weigh a model with its formula, and the ledger."""
    calls = 0

    def count(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        ledger = bound("experts", fields)
        assert ledger.formula()(**ledger.fields) == ledger.parameters
    finally:
        sys.setprofile(None)
    return calls, ledger


def test_the_work_of_weighing_does_not_grow_with_the_experts() -> None:
    weighed(layers=94, experts=4)  # parsing happens once and does not count
    few_calls, few = weighed(layers=94, experts=8)
    many_calls, many = weighed(layers=94, experts=128)
    assert many.tensors > 10 * few.tensors
    assert many_calls < 1.1 * few_calls
    assert len(many.entries) == 8


@pytest.mark.sampled("src/weighbridge/ledger", "src/weighbridge/algebra")
@pytest.mark.slow
@pytest.mark.parametrize("dim", ["1", "i+j+1", "max(i,1)"])
def test_a_tensor_stands_in_a_bounded_number_of_places(dim: str) -> None:
    raw = blueprint(
        "many",
        proof=PROOF,
        defaults={"outer": 2, "inner": 2},
        repeat={"i": "outer", "j": "inner"},
        tensors={"a.{i}.{j}.w": dim},
    )
    many = Blueprint(raw)
    assert len(bind(many, "Base", {"outer": 10, "inner": 10}).rows) == 100
    for fields in (
        {"outer": 10_000, "inner": 11},
        {"outer": 11, "inner": 10_000},
        dict.fromkeys(("outer", "inner"), 10_000),
    ):
        with pytest.raises(ExpressionError, match=f"has more than {MOST_PLACES:,} places"):
            bind(many, "Base", fields)


def test_a_sum_of_too_many_rounds_is_written_layer_by_layer() -> None:
    raw = blueprint(
        "long",
        defaults={"layers": 101, "width": 3},
        repeat={"i": "layers"},
        tensors={"b.{i}.w": "(sum([i for j in range(100)]) + width)"},
    )
    ledger = bind(Blueprint(raw), "Base", raw["defaults"])
    assert source(ledger.formula().tree()) == f"101 * width + {100 * sum(range(101))}"
    assert ledger.formula()(**ledger.fields) == ledger.parameters


def test_a_formula_that_cannot_be_written_is_in_numbers() -> None:
    raw = blueprint(
        "long",
        defaults={"outer": 2, "inner": 2},
        repeat={"i": "outer", "j": "inner"},
        tensors={"b.{i}.{j}.w": "i+j+1"},
    )
    long = bind(Blueprint(raw), "Base", {"outer": 200, "inner": 100})
    assert long.formula() == long.parameters


@pytest.mark.parametrize("raw", [STAGES, EXPERTS, SHARED])
def test_every_entry_says_in_which_places_it_stands(raw: dict[str, Any]) -> None:
    ledger = bound(raw["family"], {})
    for entry in ledger.entries:
        assert len(entry.indices) == len(list(entry.indices)) == len(set(entry.indices))
        assert list(entry.indices) == sorted(entry.indices)
        assert all(len(place) == len(entry.template.repeat) for place in entry.indices)


PER_LAYER = blueprint(
    "per_layer",
    defaults={"width": 3, "layers": 3, "experts": 4, "top": [1, 2, 4]},
    repeat={"i": "layers", "e": "experts"},
    tensors={
        "layers.{i}.split.{e}.w": "width",
        "layers.{i}.fused.w": "experts 2",
        "dense.w": "width",
    },
    active={"layers.{i}.split.{e}": "top[i]", "layers.{i}.fused": "top[i]"},
)


def test_each_layer_may_have_a_number_of_active_experts_of_its_own() -> None:
    """No shipped family counts active experts by layer, but a user's blueprint may."""
    check(PER_LAYER)
    ledger = bind(Blueprint(PER_LAYER), "Base", PER_LAYER["defaults"])
    split, fused, dense = ledger.entries
    assert [ledger.active_of(entry) for entry in (split, fused, dense)] == [7 * 3, 7 * 2, 3]
    assert ledger.active == 21 + 14 + 3
    assert ledger.active_formula()(**ledger.fields) == ledger.active
    layers = {group.name: group for group in ledger.by("layer")}
    for layer, top in enumerate(PER_LAYER["defaults"]["top"]):
        formula = ledger.formula_of([layers[f"layers.{layer}"]], active=True)
        assert formula(**ledger.fields) == top * (3 + 2)
    together = ledger.formula_of(ledger.by("layer"), active=True)
    assert together(**ledger.fields) == ledger.active


@pytest.mark.parametrize("number", [-1, 1.5])
def test_a_number_of_active_experts_is_not_negative(number: float) -> None:
    ledger = bound("experts", {"experts_per_token": number})
    with pytest.raises(ExpressionError, match="not an integer from 0"):
        _ = ledger.active
    assert bound("experts", {"experts_per_token": 0}).active > 0


def test_only_a_ledger_with_experts_says_so() -> None:
    assert bound("experts", {}).has_experts
    assert not bound("shared", {}).has_experts
    assert not bound("experts", {"experts_per_token": None}, "Alone").has_experts


def test_a_number_of_layers_may_be_replaced_where_nothing_varies() -> None:
    raw = blueprint(
        "plain",
        defaults={"width": 2, "layers": 3},
        repeat={"i": "layers"},
        tensors={"a.{i}.w": "width width", "b.w": "width"},
    )
    ledger = bind(Blueprint(raw), "Base", raw["defaults"])
    assert ledger.formula(layers=5, width=1) == 6
    assert ledger.tensors == 4
    assert ledger.stored is ledger
    assert ledger.stored_rows == ledger.rows
