"""Exploring configs: which fields are turned, alone and together, and which are not."""

from __future__ import annotations

import tomllib
from functools import cache
from typing import TYPE_CHECKING, Any

import hard_to_explore
import pytest
import torch
from hard_to_explore import CONFIGS, explored, explored_once, subject
from torch import nn

import weighbridge
from weighbridge.derive.derivation import Derived, derive
from weighbridge.derive.learning import learn_class
from weighbridge.derive.probing.explore import explore_configs
from weighbridge.derive.probing.probe import quick_building
from weighbridge.derive.probing.state import begin
from weighbridge.errors import WeighbridgeError

if TYPE_CHECKING:
    from pathlib import Path

    from weighbridge.derive.learning import Learned

torch.set_num_threads(1)


@cache
def learned(name: str) -> Learned:
    return learn_class(subject(name), name)


@cache
def derived(name: str) -> Derived:
    return derive(subject(name))


# Fields that are turned


def test_each_field_is_turned_and_those_that_change_a_tensor_are_active() -> None:
    exploration = explored_once("Choices")
    assert exploration.findings.active == {
        "width",
        "heads",
        "kv",
        "layers",
        "wide",
        "act",
        "near",
        "vocab",
    }
    assert exploration.findings.turns.keys() == {
        *exploration.findings.active,
        "dropout",
        "verbose",
    }, "these are accepted, and change nothing"
    assert exploration.findings.turns["wide"].values == [True]
    assert "glu" in exploration.findings.turns["act"].values, "the code compares it with that"
    assert None in exploration.findings.turns["kv"].values, "its annotation says that it may be"
    assert 3 not in exploration.findings.turns["heads"].values, "it was refused"


def test_a_field_that_is_refused_alone_is_turned_with_the_flag_that_it_needs() -> None:
    exploration = explored_once("Choices")
    assert exploration.findings.together == [{"gated": True, "wide": True}]
    assert "gated" not in exploration.findings.turns
    assert any("gate.weight" in probe.tensors for probe in exploration.probes)


def test_the_number_of_layers_is_reduced_with_the_lists_that_follow_it() -> None:
    exploration = explored_once("OnlyKinds")
    assert exploration.findings.base == {"kinds": ["slide", "full"] * 2}
    assert {"kinds": ["slide", "full", "slide"]} in exploration.findings.groups
    kinds = explored_once("Kinds").findings
    assert kinds.base == {"layers": 4, "kinds": ["slide", "full"] * 2, "shown": [3, 0]}
    assert {len(probe.tensors) for probe in explored_once("OnlyKinds").probes} > {6, 16}


def test_a_text_is_turned_with_a_number_for_another_field_that_its_refusal_names() -> None:
    together = explored("Named").findings.together
    assert together
    assert all(changes.keys() == {"kind", "inner"} for changes in together)


def test_lists_of_one_length_are_turned_together_with_the_field_that_counts_them() -> None:
    assert explored_once("Lists").findings.groups == [
        {"num_stages": 2, "widths": [8, 12], "kinds": ["full", "slide"]},
        {"num_stages": 4, "widths": [8, 12, 16, 16], "kinds": ["full", "slide", "full", "full"]},
    ]
    assert any(probe.fields["num_stages"] == 2 for probe in explored_once("Lists").probes)


def test_the_items_of_a_list_of_texts_are_those_that_the_code_asks_for() -> None:
    exploration = explored_once("Lists")
    assert exploration.findings.alphabets == {"kinds": ["conv", "full", "slide"]}
    assert any("stages.0.more.weight" in probe.tensors for probe in exploration.probes)


def test_fields_without_another_accepted_value_are_fixed() -> None:
    assert explored_once("Choices").fixed == {"version": "v1", "rounds": 2}
    assert explored_once("Lists").fixed == {}


def test_a_class_with_fixed_fields_is_derived_for_these_values_only(tmp_path: Path) -> None:
    path = tmp_path / "choices.toml"
    path.write_text(derived("Choices").text, encoding="utf-8")
    assert (derived("Choices").exact, derived("Choices").holes) == (
        True,
        [f"only one value of {path} is covered" for path in ("version", "rounds")],
    )
    assert weighbridge.weigh(path, fields={"version": "v1", "width": 8}).parameters == parameters(
        "Choices", width=8
    )


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("version", "v2", "covers version only as 'v1'"),
        ("rounds", 3, "needs rounds == 2 (rounds = 3)"),
        ("heads", 5, "needs width % heads == 0 (width = 32, heads = 5)"),
        ("kv", 3, "needs kv == null or heads % kv == 0"),
        ("gated", True, "needs wide or not gated"),
    ],
)
def test_what_the_reference_refuses_is_refused_by_the_blueprint(
    field: str, value: Any, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "choices.toml"
    path.write_text(derived("Choices").text, encoding="utf-8")
    with pytest.raises(WeighbridgeError) as caught:
        weighbridge.weigh(path, fields={field: value})
    assert message in str(caught.value)


def parameters(name: str, **fields: Any) -> int:
    """Return how many parameters a module built by hand has."""
    kind: Any = getattr(hard_to_explore, name)
    with torch.device("meta"):
        built: nn.Module = kind(CONFIGS[name](**fields))
    return sum(parameter.numel() for parameter in built.parameters())


def test_many_layers_are_reduced_and_the_default_is_probed_too() -> None:
    exploration = explored_once("Choices")
    assert exploration.findings.base == {"layers": 4}
    assert [(probe.changes, probe.fields["layers"]) for probe in exploration.probes[:2]] == [
        ({"layers": 4}, 4),
        ({}, 6),
    ]
    assert exploration.shrunk == [], "by its name it counts layers"


@pytest.mark.parametrize("name", ["Primes", "Scattered", "ManyPrimes"])
def test_a_field_that_gives_a_dim_without_arithmetic_is_pinned_and_the_others_are_free(
    name: str, tmp_path: Path
) -> None:
    of, done = learned(name), derived(name)
    assert (list(of.exploration.findings.pinned), of.holes, of.draft.unknown) == (
        ["buckets"],
        [],
        [],
    )
    assert all(of.draft.gives(probe) for probe in of.probes)
    assert (done.exact, done.holes) == (True, ["only one value of buckets is covered"])
    raw = tomllib.loads(done.text)
    assert (raw["require"], raw["proof"]["holes"]) == (["buckets == 20"], done.holes)
    path = tmp_path / "primes.toml"
    path.write_text(done.text, encoding="utf-8")
    for fields in ({}, {"buckets": 20}, {"width": 9, "depth": 5, "bias": False}):
        assert weighbridge.weigh(path, fields=fields).parameters == parameters(name, **fields)
    with pytest.raises(WeighbridgeError) as caught:
        weighbridge.weigh(path, fields={"buckets": 24})
    assert str(caught.value).endswith(
        f"a model of type {raw['family']} needs buckets == 20 (buckets = 24). Change one of them."
    )


def test_a_class_with_arithmetic_dims_has_no_pinned_fields() -> None:
    of = learned("Choices")
    assert (list(of.exploration.findings.pinned), of.holes, of.missed) == ([], [], [])
    assert all(of.draft.gives(probe) for probe in of.probes)


def test_a_class_learned_after_another_begins_with_its_findings() -> None:
    before = explored("Primes")
    before.pin("buckets")
    after = begin(subject("Primes"), "Primes")
    with quick_building():
        explore_configs(after, before)
    assert (list(after.findings.pinned), after.findings.base, after.findings.turns) == (
        ["buckets"],
        before.findings.base,
        before.findings.turns,
    )
    assert after.findings.active >= before.findings.active
    assert {probe.fields["buckets"] for probe in after.probes} == {20}
