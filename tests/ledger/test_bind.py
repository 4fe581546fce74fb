"""Templates bound to integers: their places, shapes and ties, and the limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up import blueprint

from weighbridge.algebra.expr import parse
from weighbridge.blueprint.schema import MOST_LAYERS, MOST_PLACES, Blueprint
from weighbridge.errors import ExpressionError
from weighbridge.ledger import bind
from weighbridge.ledger.bind import Binder, Product, limit_places, product_of

if TYPE_CHECKING:
    from weighbridge.ledger.rows import Entry


def bound(fields: dict[str, Any], **parts: Any) -> list[Entry]:
    """Return the entries of a made-up blueprint of one tensor."""
    family = Blueprint(blueprint("one", defaults=fields, **parts))
    (template,) = family.templates("Base")
    return list(Binder(family, fields).entries(template))


def in_layers(layers: int, shape: str = "width", **parts: Any) -> list[Entry]:
    fields = {"layers": layers, "width": 4, "part": 2}
    return bound(fields, repeat={"i": "layers"}, tensors={"a.{i}.w": f"({shape})"}, **parts)


def places(entries: list[Entry]) -> dict[tuple[Any, bool], list[tuple[int, ...]]]:
    return {(entry.shape, entry.tied): list(entry.indices) for entry in entries}


@pytest.mark.parametrize("layers", [1, 2, MOST_LAYERS])
def test_a_tensor_that_is_alike_in_every_layer_is_one_entry(layers: int) -> None:
    (entry,) = in_layers(layers)
    assert (entry.shape, entry.tied, entry.part, len(entry.indices)) == ((4,), False, False, layers)
    assert entry.indices.outermost == range(layers)


def test_a_condition_is_of_the_index_that_is_bound() -> None:
    fields = {"layers": 3, "width": 4}
    raw = blueprint("one", defaults=fields, repeat={"i": "layers"}, tensors={"a.{i}.w": "width"})
    binder = Binder(Blueprint(raw), fields)
    condition = parse("i > 0 and width == 4")
    with pytest.raises(ExpressionError, match="no field named i"):
        binder.holds(condition)
    for index in (0, 1, 0, 2):
        binder.values["i"] = index
        assert binder.holds(condition) is (index > 0)


def test_without_layers_there_is_no_entry() -> None:
    assert in_layers(0) == []
    assert in_layers(0, "width + i") == []


@pytest.mark.parametrize("shape", ["width", "width + i"])
@pytest.mark.parametrize("layers", [-1, MOST_LAYERS + 1])
def test_a_number_of_layers_has_bounds(layers: int, shape: str) -> None:
    with pytest.raises(ExpressionError, match=f"not an integer from 0 to {MOST_LAYERS}"):
        in_layers(layers, shape)


def test_layers_of_one_shape_are_one_entry_and_their_values_a_range_only_if_all() -> None:
    entries = in_layers(5, "width + i % 2")
    assert places(entries) == {((4,), False): [(0,), (2,), (4,)], ((5,), False): [(1,), (3,)]}
    assert entries[0].indices.outermost == (0, 2, 4)
    (whole,) = in_layers(5, "max(i, width)")
    assert whole.indices.outermost == range(5)


def test_a_condition_on_a_layer_leaves_out_layers() -> None:
    assert places(in_layers(4, when={"a.{i}": "i >= part"})) == {((4,), False): [(2,), (3,)]}
    assert in_layers(4, when={"a.{i}": "i > 9"}) == []


def test_a_condition_on_no_layer_decides_before_the_count() -> None:
    fields = {"experts": None, "width": 4}
    parts: dict[str, Any] = {"repeat": {"e": "experts"}, "tensors": {"a.{e}.w": "width"}}
    assert bound(fields, when={"a.{e}": "experts != null"}, **parts) == []
    with pytest.raises(ExpressionError, match="gives None, not an integer from 0"):
        bound(fields, **parts)
    assert bound({**fields, "experts": 2}, when={"a.{e}": "experts != null"}, **parts)


def test_every_condition_has_to_hold() -> None:
    for second in ("width > 1", "width > 9"):
        entries = in_layers(3, when={"a": "width > 3", "a.{i}": second})
        assert len(entries) == (second == "width > 1")


def test_a_size_may_be_zero_only_where_the_blueprint_says_so() -> None:
    parts: dict[str, Any] = {"tensors": {"w": "width width"}, "repeat": {}}
    (entry,) = bound({"width": 0}, zero=["width"], **parts)
    assert entry.shape == (0, 0)
    with pytest.raises(ExpressionError, match="width: gives 0, not an integer from 1"):
        bound({"width": 0}, **parts)
    with pytest.raises(ExpressionError, match="not an integer from 0"):
        bound({"width": -1}, zero=["width"], **parts)


@pytest.mark.parametrize(
    ("to", "tied"),
    [
        ("b.{i}.w", [True] * 3),
        ("b.{i}.w if width > 9", [False] * 3),
        ("b.{i}.w if i > 0", [0, 1, 1]),
    ],
)
def test_a_tie_holds_where_its_condition_does(to: str, tied: list[bool]) -> None:
    fields = {"layers": 3, "width": 4}
    tensors = {"b.{i}.w": "width", "a.{i}.w": "width"}
    raw = blueprint(
        "ties", defaults=fields, repeat={"i": "layers"}, tensors=tensors, ties={"a.{i}.w": to}
    )
    family = Blueprint(raw)
    entries = list(Binder(family, fields).entries(family.templates("Base")[1]))
    found = {place: entry.tied for entry in entries for place in entry.indices}
    assert [found[(layer,)] for layer in range(3)] == tied
    for entry in entries:
        assert entry.tied_to((1,)) == ("b.1.w" if entry.tied else None)


def test_a_tie_may_give_the_first_index_of_its_target() -> None:
    fields = {"layers": 5, "width": 4}
    raw = blueprint(
        "ties",
        defaults=fields,
        repeat={"i": "layers"},
        tensors={"a.{i}.w": "width"},
        ties={"a.{i}.w": "a.{i}.w at i % 2 if i >= 2"},
    )
    family = Blueprint(raw)
    entries = list(Binder(family, fields).entries(family.templates("Base")[0]))
    targets = {place: entry.tied_to(place) for entry in entries for place in entry.indices}
    assert [targets[(layer,)] for layer in range(5)] == [None, None, "a.0.w", "a.1.w", "a.0.w"]


def test_experts_whose_active_number_is_null_all_count() -> None:
    for number, is_active in ((None, False), (2, True)):
        fields = {"experts": 4, "top": number, "width": 3}
        (entry,) = bound(
            fields,
            repeat={"e": "experts"},
            tensors={"x.{e}.w": "width"},
            active={"x.{e}": "top"},
        )
        assert (entry.template.active is not None) is is_active


def nested(outer: int, inner: int, shape: str) -> list[Entry]:
    fields = {"outer": outer, "inner": inner}
    repeat = {"i": "outer", "j": "inner"}
    return bound(fields, repeat=repeat, tensors={"a.{i}.{j}.w": f"({shape})"})


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["1", "1 + i", "1 + j", "1 + i + j"])
def test_the_number_of_places_of_a_tensor_is_limited(shape: str) -> None:
    outer = 250
    inner = MOST_PLACES // outer
    assert outer * inner == MOST_PLACES
    if shape in ("1", "1 + i", "1 + j"):
        assert sum(len(entry.indices) for entry in nested(outer, inner, shape)) == MOST_PLACES
    with pytest.raises(ExpressionError, match=f"has more than {MOST_PLACES:,} places"):
        nested(outer, inner + 1, shape)


@pytest.mark.slow
def test_as_many_values_of_varying_indices_are_bound_as_there_may_be_places() -> None:
    outer, inner = 10, 9_999
    assert outer + outer * inner == MOST_PLACES
    assert sum(len(entry.indices) for entry in nested(outer, inner, "1 + (i + j) % 2")) == 99_990


def test_a_lower_limit_of_places_is_kept_to_the_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bind, "MOST_PLACES", 20)
    refusal = r"^a\.{i}\.{j}\.w: has more than 20 places"
    for shape in ("1", "1 + i", "1 + j"):
        assert sum(len(entry.indices) for entry in nested(4, 5, shape)) == 20
        with pytest.raises(ExpressionError, match=refusal):
            nested(3, 7, shape)
    outer, inner = 4, 4
    assert outer + outer * inner == 20
    assert sum(len(entry.indices) for entry in nested(outer, inner, "1 + i + j")) == 16
    with pytest.raises(ExpressionError, match=refusal):
        nested(3, 6, "1 + i + j")


def test_the_limit_of_places_names_the_tensor() -> None:
    family = Blueprint(blueprint("w", defaults={"width": 1}, tensors={"w": "width"}))
    (template,) = family.templates("Base")
    limit_places(MOST_PLACES, template)
    with pytest.raises(ExpressionError, match=r"^w: has more than 100,000 places"):
        limit_places(MOST_PLACES + 1, template)


@given(st.integers(0, 4), st.lists(st.integers(0, 3), min_size=4, max_size=4), st.integers(1, 3))
def test_every_place_has_the_shape_that_its_expressions_come_to(
    outer: int, depths: list[int], part: int
) -> None:
    fields = {"outer": outer, "depths": depths, "part": part}
    entries = bound(
        fields,
        repeat={"i": "outer", "j": "depths[i]"},
        tensors={"a.{i}.{j}.w": "1+i//part"},
        when={"a.{i}.{j}": "j != part"},
    )
    expected = {
        (i, j): (1 + i // part,) for i in range(outer) for j in range(depths[i]) if j != part
    }
    assert {place: entry.shape for entry in entries for place in entry.indices} == expected
    assert len({(entry.shape, entry.tied) for entry in entries}) == len(entries)


def test_two_tensors_with_the_same_expressions_stand_in_the_same_places() -> None:
    fields = {"layers": 4, "width": 2}
    raw = blueprint(
        "two",
        defaults=fields,
        repeat={"i": "layers"},
        tensors={"a.{i}.w": "width+i", "a.{i}.v": "width+i", "a.{i}.u": "width-i"},
        when={"a.{i}": "i < 2"},
    )
    family = Blueprint(raw)
    binder = Binder(family, fields)
    a, b, c = (list(binder.entries(template)) for template in family.templates("Base"))
    assert places(a) == places(b) == {((2,), False): [(0,)], ((3,), False): [(1,)]}
    assert places(c) == {((2,), False): [(0,)], ((1,), False): [(1,)]}
    assert [entry.name((1,)) for entry in b] == ["a.1.v", "a.1.v"]


def test_two_tensors_that_differ_in_their_tie_alone_are_bound_apart() -> None:
    fields = {"layers": 3, "width": 2}
    raw = blueprint(
        "ties",
        defaults=fields,
        repeat={"i": "layers"},
        tensors={f"{name}.{{i}}.w": "width+i" for name in "abc"},
        ties={"b.{i}.w": "a.{i}.w if i > 0"},
    )
    family = Blueprint(raw)
    binder = Binder(family, fields)
    tied = {
        entry.name(place): entry.tied
        for template in family.templates("Base")
        for entry in binder.entries(template)
        for place in entry.indices
    }
    assert [name for name, is_tied in tied.items() if is_tied] == ["b.1.w", "b.2.w"]
    assert len(tied) == 9


def test_a_product_has_a_loop_for_each_index_that_varies_and_a_factor_for_the_others() -> None:
    repeat = {name: ("name", count) for name, count in (("i", "a"), ("j", "b"), ("k", "c"))}
    dims = [("name", "width")]
    assert product_of(repeat, dims, ()) == Product({}, [*repeat.values(), *dims])
    assert product_of(repeat, dims, {"j"}) == Product(
        {"j": ("name", "b")}, [("name", "a"), ("name", "c"), *dims]
    )
    assert list(product_of(repeat, dims, {"i", "k"}).loops) == ["i", "k"]
