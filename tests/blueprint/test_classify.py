"""The kinds of a blueprint's fields: sizes, flags, counts of layers."""

from __future__ import annotations

import pytest

from weighbridge.algebra.expr import parse
from weighbridge.blueprint import classify
from weighbridge.blueprint.schema import load


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("2*width", {"width"}),
        ("width if layers > 1 else depth", {"width", "depth"}),
        ("sizes[first]", {"sizes"}),
        ("sum(sizes[first:last])", {"sizes"}),
        ("width if kind in kinds else 1", {"width"}),
        ("int(width * ratio)", {"width", "ratio"}),
    ],
)
def test_a_size_is_made_of_what_does_not_only_choose(text: str, names: set[str]) -> None:
    assert set(classify.size_names(parse(text))) == names


def test_a_field_that_is_null_is_a_size_if_it_is_taken_as_it_is() -> None:
    kinds = {"width": int, "ratio": float, "rank": type(None), "scale": type(None), "flag": bool}
    shapes = [parse("width"), parse("rank"), parse("int(width * ratio * scale)"), parse("free")]
    assert classify.size_fields(shapes, kinds) == {"width", "rank"}
    assert classify.flag_fields(kinds) == {"flag"}


def test_a_kind_is_that_of_the_default_or_of_the_computed_value() -> None:
    kinds = classify.field_kinds({"sizes": [1]}, {"sizes": (1,), "heads": 3})
    assert kinds == {"sizes": list, "heads": int}


def test_layers_are_counted_by_the_indices_that_names_have() -> None:
    repeat = {"i": parse("layers"), "j": parse("depths[i]"), "k": parse("unseen")}
    assert classify.layer_fields(repeat, {"i", "j"}) == {"layers", "depths"}


def test_the_fields_of_bert() -> None:
    bert = load("bert")
    assert {"hidden_size", "num_hidden_layers", "vocab_size"} <= bert.sizes
    assert bert.repeats == {"num_hidden_layers"}
    assert "tie_word_embeddings" in bert.deciding
    assert "hidden_size" not in bert.deciding
    assert {"hidden_size", "is_decoder"} <= bert.never_null
