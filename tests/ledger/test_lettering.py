"""Formulas as people read them: letters, names for loops, differences of layers, order."""

from __future__ import annotations

from typing import Any

import pytest
from drawn import bound, ledgers
from hypothesis import given, settings
from made_up import blueprint

from weighbridge.algebra.expr import parse
from weighbridge.algebra.polynomial import Polynomial
from weighbridge.blueprint.schema import Blueprint, load
from weighbridge.ledger.ledger import Ledger, bind
from weighbridge.ledger.lettering import Lettering, Size, is_number


def one(text: str, fields: dict[str, Any], **parts: Any) -> tuple[Ledger, Lettering]:
    raw = blueprint("one", defaults=fields, tensors={"a.{i}.w": text}, **parts)
    ledger = bind(Blueprint(raw), "Base", fields)
    return ledger, Lettering(ledger)


def test_the_layers_after_the_first_ones_are_a_difference() -> None:
    fields = {"hidden_size": 3, "num_hidden_layers": 5, "first_k_dense_replace": 2}
    ledger, written = one(
        "hidden_size",
        fields,
        repeat={"i": "num_hidden_layers"},
        when={"a.{i}": "i >= first_k_dense_replace"},
    )
    formula = ledger.formula()
    letters = {field: written.letters.get(field, field) for field in fields}
    first, layers = letters["first_k_dense_replace"], letters["num_hidden_layers"]
    assert written.text(formula) == f"({layers} - {first})·{letters['hidden_size']}"
    assert written.fields(formula) == ("(num_hidden_layers - first_k_dense_replace) * hidden_size")
    assert written.parts == {}
    assert [size.field for size in written.sizes([formula])] == sorted(
        fields, key=list(written.letters).index
    )


def test_a_loop_has_one_name_however_often_it_stands() -> None:
    fields = {"hidden_size": 3, "num_hidden_layers": 4, "kinds": ["full", "none", "full", "full"]}
    ledger, written = one(
        "hidden_size",
        fields,
        repeat={"i": "num_hidden_layers"},
        when={"a.{i}": 'kinds[i] == "full"'},
    )
    formula = ledger.formula()
    assert written.text(formula) == written.text(formula) == "H·n_1"
    assert list(written.parts) == ["n_1"]
    assert written.value("n_1") == 3
    assert written.part("n_1") == 'count(kinds[i] == "full" for i in range(L))'
    assert written.decided() == {"kinds": ["full", "none", "full", "full"]}


def test_two_loops_have_two_names() -> None:
    ledger = bound("stages", {})
    written = Lettering(ledger)
    written.text(ledger.formula())
    assert list(written.parts) == [f"n_{number + 1}" for number in range(len(written.parts))]
    assert len(written.parts) > 1
    assert len({str(tree) for tree in written.parts.values()}) == len(written.parts)


def test_sizes_are_the_numbers_that_formulas_name() -> None:
    bert = load("bert")
    ledger = bind(bert, "BertModel", {**bert.defaults, "num_labels": 2})
    sizes = Lettering(ledger).sizes([ledger.formula()])
    assert sizes[0] == Size("V", "vocab_size", 30522)
    assert {size.field for size in sizes} == {
        *("vocab_size", "hidden_size", "num_hidden_layers", "intermediate_size"),
        *("type_vocab_size", "max_position_embeddings"),
    }
    assert Lettering(ledger).sizes([]) == []
    assert sizes[0].meaning("en") == "vocabulary size"
    assert Size("x", "unheard_of", 3).meaning("en") == ""
    assert Size("H_v", "vision_config.hidden_size", 3).meaning("en") == (
        "hidden size (vision_config)"
    )


def test_a_number_without_a_letter_keeps_the_name_of_its_field() -> None:
    fields = {"hidden_size": 3, "num_hidden_layers": 2, "oddity": 5}
    ledger, written = one("hidden_size oddity", fields, repeat={"i": "num_hidden_layers"})
    sizes = written.sizes([ledger.formula()])
    assert [size.letter for size in sizes] == ["L", "H", "oddity"]
    assert [size.field for size in sizes] == ["num_hidden_layers", "hidden_size", "oddity"]


def test_a_difference_is_of_a_number_of_layers_and_a_field_to_the_first_power() -> None:
    fields = {"hidden_size": 3, "num_hidden_layers": 5, "first": 2, "second": 4}
    _, written = one("hidden_size", fields, repeat={"i": "num_hidden_layers"})
    layers, width, first, second = map(
        Polynomial.of, ("num_hidden_layers", "hidden_size", "first", "second")
    )
    half = Polynomial.whole(parse("first // second"))
    for formula, is_joined in (
        (layers * width - first * width, True),
        (2 * (layers * width) - 2 * (first * width), True),
        (layers * width - first * second, False),
        (layers * width - 2 * (first * width), False),
        (layers * width - first * first * width, False),
        (layers * width - half * width, False),
        (first * width - second * width, False),
        (layers * layers - layers * first, False),
        (layers * layers * width - layers * first * width, False),
    ):
        named = written.named(formula)
        assert (named != formula) is is_joined, formula
        assert ("num_hidden_layers - first" in str(named.terms)) is is_joined
        assert named(**fields) == formula(**fields)
    assert written.parts == {}


def test_only_a_loop_gets_a_name() -> None:
    fields = {"hidden_size": 3, "num_hidden_layers": 5, "first": 2}
    _, written = one("hidden_size", fields, repeat={"i": "num_hidden_layers"})
    quotient = Polynomial.whole(parse("hidden_size // first"))
    nested = Polynomial.whole(parse("sum([hidden_size + i for i in range(first)]) // first"))
    assert written.named(quotient) == quotient
    assert written.parts == {}
    assert written.named(nested) == Polynomial.of("n_1")
    assert list(written.parts) == ["n_1"]


def test_a_tree_is_in_letters_or_in_fields() -> None:
    bert = load("bert")
    ledger = bind(bert, "BertModel", {**bert.defaults, "num_labels": 2})
    written, formula = Lettering(ledger), ledger.formula_of(ledger.by("role")[:1])
    assert written.tree(formula) == ("*", ("name", "V"), ("name", "H"))
    assert written.tree(formula, letters=False) == (
        *("*", ("name", "vocab_size"), ("name", "hidden_size")),
    )


@pytest.mark.parametrize(
    ("value", "is_one"), [(1, True), (1.5, True), (True, False), (None, False), ("1", False)]
)
def test_a_flag_is_not_a_number(value: Any, *, is_one: bool) -> None:
    assert is_number(value) is is_one


@settings(deadline=None)
@given(ledgers)
def test_a_named_formula_gives_the_total(ledger: Ledger) -> None:
    written = Lettering(ledger)
    named = written.named(ledger.formula())
    parts = {name: written.value(name) for name in written.parts}
    assert named(**ledger.fields, **parts) == ledger.parameters


COUNTED = [
    ('kinds[i] == "full_attention"', "full-attention layers", "full-attention 的层数"),
    (
        'kinds[i] != "full_attention"',
        "layers other than full-attention",
        "非 full-attention 的层数",
    ),
    (
        "i % first == 0",
        "layers i where i mod first == 0",
        "满足 i mod first == 0 的层数（i 为序号）",
    ),
]


@pytest.mark.parametrize(("condition", "english", "chinese"), COUNTED)
def test_a_count_of_layers_is_explained_in_words(
    condition: str, english: str, chinese: str
) -> None:
    fields = {"hidden_size": 3, "num_hidden_layers": 5, "first": 2, "kinds": ["x"] * 5}
    _, written = one("hidden_size", fields, repeat={"i": "num_hidden_layers"})
    count = f"count({condition} for i in range(num_hidden_layers))"
    written.named(Polynomial.whole(parse(count)))
    assert written.part_meaning("n_1", "en") == english
    assert written.part_meaning("n_1", "zh") == chinese


@pytest.mark.parametrize(
    "loop",
    ["sum([i for i in range(num_hidden_layers)])", "count(i > 1 for i in range(first))"],
)
def test_any_other_loop_stays_an_expression(loop: str) -> None:
    fields = {"hidden_size": 3, "num_hidden_layers": 5, "first": 2}
    _, written = one("hidden_size", fields, repeat={"i": "num_hidden_layers"})
    written.named(Polynomial.whole(parse(loop)))
    assert written.part_meaning("n_1", "en") == written.part("n_1")
