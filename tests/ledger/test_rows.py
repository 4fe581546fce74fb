"""Rows, the entries that stand for them, groups of entries, and the order of a checkpoint."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weighbridge.algebra.expr import parse
from weighbridge.blueprint.paths import indices_in
from weighbridge.blueprint.schema import Template, Tie
from weighbridge.ledger.places import ONE, Places, every
from weighbridge.ledger.rows import (
    Entry,
    Row,
    RowGroup,
    by_layer,
    in_checkpoint_order,
    layer_path,
)


def entry(name: str, *counts: int, shape: tuple[int, ...] = (2, 3), tied: bool = False) -> Entry:
    tie = Tie(name.replace("w", "v"), parse("true"))
    template = Template(name, ("a", "b"), "role", indices_in(name), tie=tie)
    return Entry(template, shape, every(*map(range, counts)), tied)


def order(*entries: Entry) -> list[str]:
    return [member.name(place) for member, place in in_checkpoint_order(entries)]


def test_a_row_takes_what_its_dtype_says_and_nothing_where_it_is_another() -> None:
    row = Row("w", (3, 2), "F32", "role", ("a", "b"), 6, 6)
    assert row.bytes == 24
    assert row._replace(dtype="BF16").bytes == 12
    assert row._replace(tied_to="v").bytes == 0


def test_an_entry_counts_each_of_its_places_once_and_none_if_it_is_tied() -> None:
    assert entry("w").parameters == 6
    assert entry("a.{i}.{j}.w", 4, 5).parameters == 120
    assert entry("a.{i}.w", 4, tied=True).parameters == 0
    assert entry("w", shape=()).parameters == 1


def test_an_entry_is_named_by_its_place() -> None:
    member = entry("a.{i}.b.{j}.w", 4, 5, tied=True)
    assert member.name((3, 1)) == "a.3.b.1.w"
    assert member.tied_to((3, 1)) == "a.3.b.1.v"
    assert member.bound((3, 1)) == {"i": 3, "j": 1}
    assert member._replace(tied=False).tied_to((3, 1)) is None
    untied = member._replace(template=member.template._replace(tie=None))
    assert untied.tied_to((3, 1)) is None
    with pytest.raises(ValueError, match="zip"):
        member.name((3,))
    with pytest.raises(ValueError, match="zip"):
        member.bound((3,))


def test_a_group_adds_up_what_is_tied_and_what_is_not() -> None:
    group = RowGroup("g", (entry("w"), entry("a.{i}.w", 4), entry("b.{i}.w", 5, tied=True)))
    assert (group.parameters, group.tied) == (6 + 24, 30)
    assert RowGroup("g", ()).parameters == RowGroup("g", ()).tied == 0


@pytest.mark.parametrize(
    ("name", "prefix", "path"),
    [
        ("embeddings.words.w", "", "embeddings"),
        ("bert.embeddings.words.w", "bert.", "bert.embeddings"),
        ("classifier.w", "bert.", "classifier"),
        ("scale", "bert.", "scale"),
        ("bert.scale", "bert.", "bert.scale"),
    ],
)
def test_what_is_in_no_layer_is_in_its_first_module(name: str, prefix: str, path: str) -> None:
    assert layer_path(entry(name), prefix) == path


def test_a_layer_is_the_outermost() -> None:
    member = entry("bert.layer.{i}.experts.{j}.w", 4, 5)
    member = member._replace(indices=Places.at(2, every(range(5))))
    assert layer_path(member, "bert.") == "bert.layer.2"


def test_layers_under_one_path_stand_together_and_others_apart() -> None:
    assert order(entry("a.{i}.w", 2), entry("a.{i}.v", 2)) == ["a.0.w", "a.0.v", "a.1.w", "a.1.v"]
    assert order(entry("a.{i}.w", 2), entry("b.{i}.w", 2)) == ["a.0.w", "a.1.w", "b.0.w", "b.1.w"]
    assert order(entry("a.{i}.w", 2), entry("w"), entry("a.{i}.v", 2)) == [
        *("a.0.w", "a.1.w", "w", "a.0.v", "a.1.v")
    ]
    assert order(entry("w"), entry("v"), entry("a.{i}.w", 1)) == ["w", "v", "a.0.w"]
    assert order() == []


def test_layers_inside_of_layers_stand_in_order() -> None:
    assert order(
        entry("a.{i}.first.w", 2), entry("a.{i}.b.{j}.w", 2, 2), entry("a.{i}.b.{j}.v", 2, 1)
    ) == [
        *("a.0.first.w", "a.0.b.0.w", "a.0.b.0.v", "a.0.b.1.w"),
        *("a.1.first.w", "a.1.b.0.w", "a.1.b.0.v", "a.1.b.1.w"),
    ]


def test_layers_under_one_path_stand_together_whatever_their_indices_are_called() -> None:
    assert order(entry("a.{i}.b.{k}.w", 1, 2), entry("a.{j}.b.{l}.v", 1, 2)) == [
        *("a.0.b.0.w", "a.0.b.0.v", "a.0.b.1.w", "a.0.b.1.v")
    ]


def test_layers_that_a_tensor_leaves_out_are_left_out() -> None:
    sparse = entry("a.{i}.w", 1)._replace(indices=Places((((3, 1), ONE),)))
    assert order(sparse, entry("a.{i}.v", 3)) == ["a.0.v", "a.1.w", "a.1.v", "a.2.v", "a.3.w"]


@given(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3))
def test_by_layer_cuts_without_loss(layers: int, others: int, experts: int) -> None:
    entries = [
        entry("w"),
        entry("a.{i}.w", layers),
        entry("a.{i}.e.{j}.w", layers, experts),
        entry("b.{i}.w", others, shape=(1, 1)),
    ]
    pieces = list(by_layer(entries))
    assert sum(piece.parameters for piece in pieces) == sum(whole.parameters for whole in entries)
    assert all(piece.part is bool(piece.template.repeat) for piece in pieces)
    assert order(*pieces) == order(*entries)
    for piece in pieces[1:]:
        assert len(piece.indices.outermost) == 1
