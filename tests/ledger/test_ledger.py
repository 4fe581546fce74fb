"""The waist: however rows are summed, grouped or written as a formula, the total is one number."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up import blueprint as blueprint_of

from weighbridge import data
from weighbridge.blueprint import schema as blueprint
from weighbridge.blueprint.roles import component_of
from weighbridge.blueprint.schema import Blueprint
from weighbridge.errors import ExpressionError, ModelError, UsageError
from weighbridge.ledger.ledger import GROUPINGS, Ledger, bind

BERT = blueprint.load("bert")
unhurried = settings(deadline=None)
SIZES = sorted(BERT.sizes)


def fields(**given_fields: Any) -> dict[str, Any]:
    return {**BERT.defaults, "num_labels": 2, **given_fields}


@st.composite
def configs(draw: st.DrawFn) -> dict[str, Any]:
    """Return fields of a valid bert of any size."""
    sizes = {name: draw(st.integers(1, 5000)) for name in SIZES}
    heads, decoder = draw(st.integers(1, 16)), draw(st.booleans())
    return fields(
        **sizes
        | {
            "num_hidden_layers": draw(st.integers(1, 12)),
            "num_attention_heads": heads,
            "hidden_size": heads * draw(st.integers(1, 128)),
            "is_decoder": decoder,
            "add_cross_attention": decoder and draw(st.booleans()),
            "tie_word_embeddings": draw(st.booleans()),
        }
    )


ledgers = st.builds(bind, st.just(BERT), st.sampled_from(BERT.class_names), configs())


def swept(ledger: Ledger) -> dict[str, list[int]]:
    """Return three values for each size, divisible by the heads; the first is the ledger's own."""
    own = {name: ledger.fields[name] for name in SIZES}
    return {
        name: [size, 2 * size, size * (3 if name != "num_attention_heads" else 1)]
        for name, size in own.items()
    }


@unhurried
@given(ledgers)
def test_the_total_is_the_sum_of_its_rows(ledger: Ledger) -> None:
    assert ledger.parameters == sum(row.parameters for row in ledger.rows)


@unhurried
@given(ledgers)
def test_a_row_counts_its_elements_and_adds_them_once(ledger: Ledger) -> None:
    for row in ledger.rows:
        assert row.count == prod(row.shape)
        assert row.parameters == (0 if row.tied_to else row.count)


@unhurried
@given(ledgers, st.sampled_from(GROUPINGS))
def test_every_grouping_adds_up_to_the_total(ledger: Ledger, grouping: str) -> None:
    lines = ledger.by(grouping)
    assert sum(line.parameters for line in lines) == ledger.parameters
    assert sum(line.parameters + line.tied for line in lines) == sum(
        row.count for row in ledger.rows
    )
    assert len({line.name for line in lines}) == len(lines)


@unhurried
@given(ledgers)
def test_a_group_holds_the_rows_that_its_name_says(ledger: Ledger) -> None:
    rows = ledger.rows
    assert [line.name for line in ledger.by("tensor")] == [row.name for row in rows]
    for grouping, name_of in (
        ("role", lambda row: row.role),
        ("component", lambda row: component_of(row.role)),
    ):
        expected: dict[str, int] = {}
        for row in rows:
            expected[name_of(row)] = expected.get(name_of(row), 0) + row.parameters
        assert {line.name: line.parameters for line in ledger.by(grouping)} == expected


@unhurried
@given(ledgers)
def test_the_formula_at_the_config_is_the_total(ledger: Ledger) -> None:
    assert ledger.formula()(**ledger.fields) == ledger.parameters


@unhurried
@given(ledgers)
def test_the_formula_with_the_fields_as_integers_is_the_total_of_such_a_model(
    ledger: Ledger,
) -> None:
    for values in zip(*swept(ledger).values(), strict=True):
        other = dict(zip(SIZES, values, strict=True))
        expected = bind(BERT, ledger.class_name, {**ledger.fields, **other}).parameters
        assert ledger.formula(**other) == expected
        assert ledger.formula()(**{**ledger.fields, **other}) == expected


@unhurried
@given(ledgers)
def test_a_sweep_over_arrays_is_the_same_model_by_model(ledger: Ledger) -> None:
    sweep = swept(ledger)
    totals = ledger.formula(**{name: np.array(values) for name, values in sweep.items()})
    each = [
        ledger.formula(**dict(zip(sweep, values, strict=True)))
        for values in zip(*sweep.values(), strict=True)
    ]
    assert totals.tolist() == each
    assert totals[0] == ledger.parameters


@unhurried
@given(ledgers, st.sampled_from(GROUPINGS))
def test_the_formulas_of_the_groups_add_up_to_the_formula(ledger: Ledger, grouping: str) -> None:
    """Components and roles add up for any config, layers and tensors for this one."""
    lines = ledger.by(grouping)
    if grouping in ("component", "role"):
        assert ledger.formula_of(lines) == ledger.formula()
    for line in lines[:20]:
        assert ledger.formula_of([line])(**ledger.fields) == line.parameters
    assert ledger.formula_of(lines)(**ledger.fields) == ledger.parameters


@unhurried
@given(ledgers)
def test_a_tied_row_points_to_a_row_that_counts_and_has_its_shape(ledger: Ledger) -> None:
    rows = {row.name: row for row in ledger.rows}
    for row in rows.values():
        if row.tied_to:
            assert rows[row.tied_to].tied_to is None
            assert rows[row.tied_to].shape == row.shape


@unhurried
@given(ledgers)
def test_names_are_unique(ledger: Ledger) -> None:
    names = [row.name for row in (*ledger.rows, *ledger.buffers())]
    assert len(set(names)) == len(names)


@unhurried
@given(ledgers)
def test_layers_stand_in_order_and_each_whole(ledger: Ledger) -> None:
    seen = [
        int(row.name.partition("encoder.layer.")[2].partition(".")[0])
        for row in ledger.rows
        if ".layer." in row.name
    ]
    a_layer = len(seen) // ledger.fields["num_hidden_layers"]
    assert seen == [
        index for index in range(ledger.fields["num_hidden_layers"]) for _ in range(a_layer)
    ]


@unhurried
@given(ledgers)
def test_ties_change_the_parameters_and_no_row(ledger: Ledger) -> None:
    untied = bind(BERT, ledger.class_name, {**ledger.fields, "tie_word_embeddings": False})
    assert [row[:6] for row in untied.rows] == [row[:6] for row in ledger.rows]
    assert untied.parameters == sum(row.count for row in ledger.rows)


@pytest.mark.parametrize("class_name", BERT.class_names)
def test_the_work_does_not_grow_with_the_layers(class_name: str) -> None:
    shallow, deep = (
        bind(BERT, class_name, fields(num_hidden_layers=layers)) for layers in (2, 2000)
    )
    assert len(deep.entries) == len(shallow.entries)
    assert all(
        isinstance(values, range) for entry in deep.entries for values, _ in entry.indices.blocks
    )
    a_layer = bind(BERT, class_name, fields(num_hidden_layers=3)).parameters - shallow.parameters
    assert deep.parameters == shallow.parameters + 1998 * a_layer


def test_the_formula_of_a_layer_is_of_it_alone_even_if_there_is_no_other() -> None:
    ledger = bind(BERT, "BertModel", fields(num_hidden_layers=1))
    assert "num_hidden_layers" in ledger.formula().fields()
    for group in (*ledger.by("layer"), *ledger.by("tensor")):
        assert "num_hidden_layers" not in ledger.formula_of([group]).fields()


def test_tied_tensors_are_counted_where_they_are_stored() -> None:
    ledger = bind(BERT, "BertForPreTraining", fields())
    assert {row.name: row.tied_to for row in ledger.rows if row.tied_to} == {
        "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    }
    assert {line.name: (line.parameters, line.tied) for line in ledger.by("role") if line.tied} == {
        "head.mlm.decoder": (0, 30522 * 768 + 30522)
    }


def test_buffers_are_rows_that_add_no_parameters() -> None:
    buffers = bind(BERT, "BertForMaskedLM", fields(max_position_embeddings=40)).buffers()
    assert [(row.name, row.shape, row.dtype, row.count, row.parameters) for row in buffers] == [
        ("bert.embeddings.position_ids", (1, 40), "I64", 40, 0),
        ("bert.embeddings.token_type_ids", (1, 40), "I64", 40, 0),
    ]


def test_a_row_has_the_role_and_the_dims_of_its_template() -> None:
    words = bind(BERT, "BertModel", fields()).rows[0]
    assert (words.role, words.dims) == ("embedding.token", ("vocab_size", "hidden_size"))


def test_a_ledger_is_of_the_class_and_in_single_precision_unless_it_says_otherwise() -> None:
    ledger = bind(BERT, "BertModel", fields())
    assert {row.dtype for row in ledger.rows} == {ledger.dtype} == {"F32"}
    assert not ledger.is_stored
    assert not Ledger(BERT, "BertModel", fields(), ledger.entries, "F32").is_stored


def test_rows_are_of_the_dtype_that_they_were_bound_in() -> None:
    assert {row.dtype for row in bind(BERT, "BertModel", fields(), "BF16").rows} == {"BF16"}


def test_the_first_lines_of_each_grouping() -> None:
    ledger = bind(BERT, "BertModel", fields())
    assert [line.name for line in ledger.by("layer")][:3] == [
        "embeddings",
        "encoder.layer.0",
        "encoder.layer.1",
    ]
    assert ledger.by("layer")[1].parameters == 7_087_872
    assert [line.name for line in ledger.by("component")][:2] == [
        "embedding.token",
        "embedding.position",
    ]


def test_an_unknown_grouping_is_refused_with_those_there_are() -> None:
    with pytest.raises(
        UsageError,
        match=r"no such grouping \(by = 'colour'\)\. Group by component, role, layer or tensor",
    ):
        bind(BERT, "BertModel", fields()).by("colour")


def test_an_unknown_class_is_refused_with_those_there_are() -> None:
    with pytest.raises(
        ModelError, match=r"bert has no class 'BertForPoetry'\. Did you mean BertModel, "
    ):
        bind(BERT, "BertForPoetry", fields())


def test_a_missing_field_is_named() -> None:
    with pytest.raises(ExpressionError, match="no field named num_labels"):
        bind(BERT, "BertForSequenceClassification", dict(BERT.defaults))


DECIDES = (
    "decides more than sizes, so a formula cannot give it another value. "
    "Weigh the config with that value."
)
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a slip": (
        {"vocab_sze": 5},
        "bert has no field vocab_sze. Did you mean vocab_size or type_vocab_size?",
    ),
    "no field": (
        {"zzzzzz": 5},
        (
            "bert has no field zzzzzz. Did you mean hidden_size, intermediate_size, "
            "max_position_embeddings, num_attention_heads, num_hidden_layers, num_labels, "
            "type_vocab_size or vocab_size?"
        ),
    ),
    "a tie": (
        {"tie_word_embeddings": False},
        f"tie_word_embeddings {DECIDES}",
    ),
    "a condition": (
        {"add_cross_attention": True},
        f"add_cross_attention {DECIDES}",
    ),
    "a list": (
        {"id2label": {"0": "a"}},
        f"id2label {DECIDES}",
    ),
    "heads that do not divide": (
        {"hidden_size": 770},
        (
            "a model of type bert needs hidden_size % num_attention_heads == 0 "
            "(hidden_size = 770, num_attention_heads = 12). Change the values so that this holds."
        ),
    ),
    "a negative size": (
        {"hidden_size": -768},
        (
            "a model of type bert needs hidden_size >= 1 (hidden_size = -768). "
            "Change the values so that this holds."
        ),
    ),
    "one of many": (
        {"hidden_size": np.array([768, 770])},
        (
            "a model of type bert needs hidden_size % num_attention_heads == 0 "
            "(hidden_size = array([768, 770]), num_attention_heads = 12). "
            "Change the values so that this holds."
        ),
    ),
    "text": (
        {"vocab_size": "x"},
        "a formula takes integers, or arrays of them (vocab_size = 'x'). Round them first.",
    ),
    "nothing": (
        {"vocab_size": np.array([], dtype=int)},
        (
            "a formula takes integers, or arrays of them "
            "(vocab_size = array([], dtype=int64)). Round them first."
        ),
    ),
    "a fraction": (
        {"vocab_size": np.array([1.5])},
        (
            "a formula takes integers, or arrays of them "
            "(vocab_size = array([1.5])). Round them first."
        ),
    ),
    "more than 64 bits": (
        {"vocab_size": np.array([2**62])},
        (
            "the total does not fit into 64 bits "
            "(vocab_size = 4611686018427387904). Use smaller sizes."
        ),
    ),
    "one that is not positive": (
        {"vocab_size": np.array([1, 0])},
        (
            "a model of type bert needs vocab_size >= 1 (vocab_size = array([1, 0])). "
            "Change the values so that this holds."
        ),
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_formula_refuses_values_that_are_not_sizes_of_the_same_model(case: str) -> None:
    replaced, message = REFUSED[case]
    with pytest.raises(UsageError) as caught:
        bind(BERT, "BertForMaskedLM", fields()).formula(**replaced)
    assert str(caught.value) == message


def test_what_follows_from_a_replaced_field_is_replaced_too() -> None:
    raw = blueprint_of(
        "follows",
        defaults={"width": 2},
        computed={"double": "2 * width"},
        tensors={"w": "double width"},
    )
    ledger = bind(Blueprint(raw), "Base", {"width": 2, "double": 4})
    with pytest.raises(UsageError) as caught:
        ledger.formula(width=3)
    assert (
        str(caught.value)
        == "double is computed from a field that has another value. Give double too."
    )
    assert ledger.formula(width=3, double=6) == 18
    assert ledger.formula(double=5) == 10


def test_totals_up_to_the_largest_that_64_bits_hold_fit_an_array() -> None:
    raw = blueprint_of("one", defaults={"width": 2}, tensors={"w": "width", "v": "1"})
    ledger = bind(Blueprint(raw), "Base", {"width": 2})
    largest = 2**63 - 1
    assert ledger.formula(width=np.array([1, largest - 1])).tolist() == [2, largest]
    with pytest.raises(UsageError, match="does not fit into 64 bits"):
        ledger.formula(width=np.array([largest, 1]))
    assert ledger.formula(width=largest) == 2**63


def test_files_may_hold_the_parameters_in_other_tensors() -> None:
    raw = blueprint_of(
        "stored",
        defaults={"width": 3, "experts": 2, "layers": 2},
        repeat={"i": "layers", "e": "experts"},
        tensors={"layers.{i}.fused": "experts width"},
        buffers={"layers.{i}.seen": "I64 width"},
        stored={
            "layers.{i}.fused": ["layers.{i}.experts.{e}.w: width"],
            "layers.{i}.seen": ["layers.{i}.was_seen"],
        },
    )
    ledger = bind(Blueprint(raw), "Base", raw["defaults"], "BF16")
    stored = ledger.stored
    assert (ledger.is_stored, stored.is_stored) == (False, True)
    assert stored.stored is stored
    assert stored.parameters == ledger.parameters == 12
    assert [row.name for row in ledger.rows] == ["layers.0.fused", "layers.1.fused"]
    expected = [f"layers.{i}.experts.{e}.w" for i in range(2) for e in range(2)]
    assert [row.name for row in ledger.stored_rows] == expected
    assert {row.dtype for row in ledger.stored_rows} == {"BF16"}
    assert [row.name for row in ledger.buffers()] == ["layers.0.seen", "layers.1.seen"]
    assert [row.name for row in stored.buffers()] == ["layers.0.was_seen", "layers.1.was_seen"]


def test_a_narrow_array_is_widened_before_it_is_multiplied() -> None:
    ledger = bind(BERT, "BertModel", fields(num_attention_heads=1))
    wide = ledger.formula(hidden_size=70_000)
    assert ledger.formula(hidden_size=np.array([70_000], dtype=np.int32)).tolist() == [wide]
    assert ledger.formula(vocab_size=np.array([200], dtype=np.uint8)).tolist() == [
        ledger.formula(vocab_size=200)
    ]


TIED = {
    **data.read_toml("blueprints/bert.toml"),
    "require": [],
    "defaults": {"size": 4, "depth": 2, "shared": True},
    "computed": {},
    "repeat": {"i": "depth"},
    "tensors": {
        "embeddings.word_embeddings.weight": "size size",
        "layer.{i}.attention.self.query.weight": "size size",
        "layer.{i}.attention.self.key.weight": "size size",
        "pooler.dense.weight": "size size",
    },
    "ties": {
        "pooler.dense.weight": "embeddings.word_embeddings.weight if shared",
        "layer.{i}.attention.self.key.weight": "layer.{i}.attention.self.query.weight",
    },
    "when": {},
    "buffers": {},
    "modules": {},
    "values": {},
    "inert": [],
    "classes": {
        "Head": {
            "prefix": "base",
            "tensors": {"classifier.weight": "size size"},
            "ties": {"classifier.weight": "base.embeddings.word_embeddings.weight"},
        },
        "Bare": {"prefix": "base", "without": ["pooler"]},
    },
}


@pytest.mark.parametrize(
    ("class_name", "prefix"), [("BertModel", ""), ("Head", "base."), ("Bare", "base.")]
)
def test_a_tie_of_the_base_holds_under_a_prefix_and_in_every_layer(
    class_name: str, prefix: str
) -> None:
    ledger = bind(Blueprint(TIED), class_name, TIED["defaults"])
    ties = {row.name: row.tied_to for row in ledger.rows if row.tied_to}
    expected = {
        f"{attention}.key.weight": f"{attention}.query.weight"
        for attention in (f"{prefix}layer.{i}.attention.self" for i in range(2))
    }
    if class_name != "Bare":
        expected[f"{prefix}pooler.dense.weight"] = f"{prefix}embeddings.word_embeddings.weight"
    if class_name == "Head":
        expected["classifier.weight"] = "base.embeddings.word_embeddings.weight"
    assert ties == expected
    assert ledger.parameters == 16 * 3
    assert ledger.tied == 16 * len(expected)
    assert set(expected.values()) <= {row.name for row in ledger.rows}


def test_the_modules_outside_of_layers_are_distinct_under_a_prefix() -> None:
    lines = [
        line.name for line in bind(BERT, "BertForSequenceClassification", fields()).by("layer")
    ]
    assert [name for name in lines if "layer" not in name] == [
        "bert.embeddings",
        "bert.pooler",
        "classifier",
    ]


def test_a_ledger_shows_its_class_and_its_parameters() -> None:
    assert repr(bind(BERT, "BertModel", fields())) == "<Ledger of BertModel: 109482240 parameters>"
