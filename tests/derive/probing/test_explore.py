"""The configs that teach: which fields are turned, alone and together, which are not, and what is required of them."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import weighbridge
from weighbridge.derive.derivation import Derived, derive, learn
from weighbridge.derive.probing.explore import Explorer
from weighbridge.derive.probing.own import OwnSubject
from weighbridge.derive.probing.probe import quick_building
from weighbridge.derive.write import expression
from weighbridge.errors import WeighbridgeError

if TYPE_CHECKING:
    from pathlib import Path

    from weighbridge.derive.derivation import Learned

torch.set_num_threads(1)


@dataclass
class ChoicesConfig:
    width: int = 32
    heads: int = 4
    kv: int | None = 2
    layers: int = 6
    wide: bool = False
    gated: bool = False
    act: str = "plain"
    version: str = "v1"
    rounds: int = 2
    near: int = 3
    vocab: int = 1000
    dropout: float = 0.1
    verbose: bool = False


class Choices(nn.Module):
    """Takes some fields with others only, and some with one value only."""

    def __init__(self, config: ChoicesConfig) -> None:
        super().__init__()
        if config.width % config.heads:
            raise ValueError("heads must divide width")
        kv = config.heads if config.kv is None else config.kv
        if config.heads % kv != 0:
            raise ValueError("kv must divide heads")
        if config.gated and not config.wide:
            raise ValueError("gated is for wide ones")
        if config.version != "v1" or config.rounds != 2:
            raise ValueError("no such version")
        self.embed = nn.Embedding(config.vocab, config.width)
        if config.near > config.vocab or config.near > 9 * config.vocab:
            self.far_away = True
        if config.near > config.layers:
            self.far = nn.Linear(config.width, 1)
        self.layers = nn.ModuleList(
            nn.Linear(config.width, (config.heads + 2 * kv) * 4) for _ in range(config.layers)
        )
        if config.wide:
            self.wide = nn.Linear(config.width, 4 * config.width)
        if config.gated:
            self.gate = nn.Linear(config.width, config.width, bias=False)
        if config.act == "glu":
            self.up = nn.Linear(config.width, 2)


@dataclass
class ListsConfig:
    num_stages: int = 3
    widths: list[int] = field(default_factory=lambda: [8, 12, 16])
    kinds: list[str] = field(default_factory=lambda: ["full", "slide", "full"])


class Lists(nn.Module):
    """Takes lists that are all of the length that another field says."""

    def __init__(self, config: ListsConfig) -> None:
        super().__init__()
        if not config.num_stages == len(config.widths) == len(config.kinds):
            raise ValueError("a width and a kind a stage")
        self.stages = nn.ModuleList()
        for width, kind in zip(config.widths, config.kinds, strict=True):
            self.stages.append(nn.Linear(width, width, bias=kind == "full"))
            if kind == "conv":
                self.stages[-1].more = nn.Linear(width, 1)


def next_prime(number: int) -> int:
    number += 1
    while any(number % divisor == 0 for divisor in range(2, number)):
        number += 1
    return number


def scattered(number: int) -> int:
    """Return what no expression of a few fields is; what is made of a text has forgotten where it came from."""
    total = 0
    for at in range(number):
        total += 1 + at * at % 7
    return int(str(total))


@dataclass
class PrimesConfig:
    buckets: int = 20
    width: int = 16
    depth: int = 2
    bias: bool = True


class Primes(nn.Module):
    """Has a table as long as the next prime."""

    def __init__(self, config: PrimesConfig) -> None:
        super().__init__()
        self.table = nn.Embedding(next_prime(config.buckets), config.width)
        self.layers = nn.ModuleList(
            nn.Linear(config.width, 3, bias=config.bias) for _ in range(config.depth)
        )


class Scattered(nn.Module):
    """Has a table whose length is no arithmetic of the field that a loop runs up to."""

    def __init__(self, config: PrimesConfig) -> None:
        super().__init__()
        self.table = nn.Embedding(scattered(config.buckets), config.width)
        self.layers = nn.ModuleList(
            nn.Linear(config.width, 3, bias=config.bias) for _ in range(config.depth)
        )


class ManyPrimes(nn.Module):
    """Has as many parts as the next prime, of a field that would be made less for a small model."""

    def __init__(self, config: PrimesConfig) -> None:
        super().__init__()
        self.parts = nn.ModuleList(
            nn.Linear(config.width, 3, bias=config.bias) for _ in range(scattered(config.buckets))
        )
        self.layers = nn.ModuleList(nn.Linear(config.width, 2) for _ in range(config.depth))


CONFIGS = {
    "Choices": ChoicesConfig,
    "Lists": ListsConfig,
    "Primes": PrimesConfig,
    "Scattered": PrimesConfig,
    "ManyPrimes": PrimesConfig,
}


def subject(name: str) -> OwnSubject:
    return OwnSubject(f"{__name__}:{name}", f"{__name__}:{CONFIGS[name].__name__}")


def explored(name: str, seed: int = 0) -> Explorer:
    explorer = Explorer(subject(name), name, seed)
    with quick_building():
        explorer.explore({})
    return explorer


@cache
def found(name: str) -> Explorer:
    """Return an explorer that no test changes."""
    return explored(name)


@cache
def learned(name: str) -> Learned:
    return learn(subject(name), name)


@cache
def derived(name: str) -> Derived:
    return derive(subject(name))


# Fields that are turned


def test_each_field_is_turned_and_those_that_change_a_tensor_are_told() -> None:
    explorer = found("Choices")
    assert explorer.active == {"width", "heads", "kv", "layers", "wide", "act", "near", "vocab"}
    assert explorer.turns.keys() == {*explorer.active, "dropout", "verbose"}, (
        "these are taken, and change nothing"
    )
    assert explorer.turns["wide"].values == [True]
    assert "glu" in explorer.turns["act"].values, "the code compares it with that"
    assert None in explorer.turns["kv"].values, "its annotation says that it may be"
    assert 3 not in explorer.turns["heads"].values, "it was refused"


def test_a_field_that_is_refused_alone_is_turned_with_the_flag_that_it_needs() -> None:
    explorer = found("Choices")
    assert explorer.together == [{"gated": True, "wide": True}]
    assert "gated" not in explorer.turns
    assert any("gate.weight" in probe.tensors for probe in explorer.probes)


def test_lists_of_one_length_are_turned_together_with_the_field_that_counts_them() -> None:
    assert found("Lists").groups == [
        {"num_stages": 2, "widths": [8, 12], "kinds": ["full", "slide"]}
    ]
    assert any(probe.fields["num_stages"] == 2 for probe in found("Lists").probes)


def test_the_items_of_a_list_of_texts_are_those_that_the_code_asks_for() -> None:
    explorer = found("Lists")
    assert explorer.alphabets == {"kinds": ["conv", "full", "slide"]}
    assert any("stages.0.more.weight" in probe.tensors for probe in explorer.probes)


def test_fields_never_taken_otherwise_are_fixed() -> None:
    assert found("Choices").fixed == {"version": "v1", "rounds": 2}
    assert found("Lists").fixed == {}


def test_a_class_with_fixed_fields_is_derived_for_these_values_alone(tmp_path: Path) -> None:
    path = tmp_path / "choices.toml"
    path.write_text(derived("Choices").text, encoding="utf-8")
    assert (derived("Choices").exact, derived("Choices").holes) == (True, [])
    assert weighbridge.weigh(path, fields={"version": "v1", "width": 8}).parameters == parameters(
        "Choices", width=8
    )


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("version", "v2", "was held against the reference with version as 'v1' alone"),
        ("rounds", 3, "needs rounds == 2 (rounds = 3)"),
        ("heads", 5, "needs width % heads == 0 (width = 32, heads = 5)"),
        ("kv", 3, "needs kv == null or heads % kv == 0"),
        ("gated", True, "needs wide or not gated"),
    ],
)
def test_what_the_reference_refuses_is_refused_by_the_blueprint(
    field: str, value: Any, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "choices.toml"
    path.write_text(derived("Choices").text, encoding="utf-8")
    with pytest.raises(WeighbridgeError) as caught:
        weighbridge.weigh(path, fields={field: value})
    assert said in str(caught.value)


def parameters(name: str, **fields: Any) -> int:
    """Return how many parameters a module has that is built by hand."""
    kind: Any = globals()[name]
    with torch.device("meta"):
        built: nn.Module = kind(CONFIGS[name](**fields))
    return sum(parameter.numel() for parameter in built.parameters())


def test_many_layers_are_made_less_and_the_default_is_looked_at_too() -> None:
    explorer = found("Choices")
    assert explorer.base == {"layers": 4}
    assert [(probe.changes, probe.fields["layers"]) for probe in explorer.probes[:2]] == [
        ({"layers": 4}, 4),
        ({}, 6),
    ]
    assert explorer.shrunk == [], "its name says that it counts layers"


def test_what_was_kept_is_told_apart_by_its_tensors() -> None:
    explorer = found("Choices")
    outlines = [repr(probe.outline) for probe in explorer.probes]
    assert len(outlines) > len(set(outlines)) > 10
    assert not any(map(explorer.is_new, explorer.probes))
    with quick_building():
        seen, new = (explorer.subject.probe("Choices", {"width": width}) for width in (64, 4096))
    assert not explorer.is_new(seen._replace(tensors=explorer.probes[0].tensors))
    assert explorer.is_new(new)


# What is required


def test_questions_that_are_always_answered_alike_are_required_if_configs_that_break_them_are_refused() -> (
    None
):
    explorer = explored("Choices")
    with quick_building():
        required = [expression(tree) for tree in explorer.requirements({"wide", "gated"})]
        without = [expression(tree) for tree in explorer.requirements({"wide"})]
    assert required == ["width % heads == 0", "kv == null or heads % kv == 0", "wide or not gated"]
    assert without == required[:-1], "what names a field that nothing needs is not required"
    asked = {expression(tree) for probe in explorer.probes for tree in probe.trace.asked}
    assert "near > layers" in asked, "it is answered both ways"
    assert {"near > vocab", "near > 9 * vocab"} <= asked, (
        "always answered alike, and yet nothing else is refused"
    )


# Chance


def test_the_same_seed_draws_the_same_configs() -> None:
    one, again, other = (explored("Choices", seed) for seed in (0, 0, 1))
    drawn = [[explorer.draw(0.5) for _ in range(20)] for explorer in (one, again, other)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert len(set(map(repr, drawn[0]))) > 15


def test_configs_that_were_not_seen_are_drawn_of_what_is_turned() -> None:
    explorer = explored("Choices")
    known = [dict(probe.changes) for probe in explorer.probes]
    unseen = explorer.unseen(20)
    assert len(unseen) > 60
    assert not [changes for changes in unseen if changes in known]
    assert {path for changes in unseen for path in changes} == {*explorer.turns, "gated"}
    assert all(changes.get("wide") for changes in unseen if changes.get("gated"))
    probe = explorer.sample()
    assert probe is not None
    assert probe.fields["width"] % probe.fields["heads"] == 0


def test_a_config_that_is_refused_is_counted_with_its_reason() -> None:
    explorer = explored("Choices")
    tried, refused = explorer.tried, explorer.refused
    assert explorer.try_out({"version": "v2"}) is None
    assert explorer.error == "ValueError: no such version"
    assert (explorer.tried, explorer.refused) == (tried + 1, refused + 1)
    explorer.most_tried = 2 * explorer.tried
    assert explorer.left == 0.5


# Fields that are pinned


def test_a_pinned_field_keeps_its_default() -> None:
    explorer = explored("Choices")
    with quick_building():
        explorer.pin("width")
        assert {probe.fields["width"] for probe in explorer.probes} == {32}
        assert "width" not in explorer.active | explorer.turns.keys()
        assert {changes.get("width", 32) for changes in explorer.unseen(10)} == {32}
        assert explorer.try_out({"width": 64}) is None
        assert explorer.try_out({"width": 32, "heads": 2}) is not None
    assert explorer.fixed == {"version": "v1", "rounds": 2, "width": 32}


def test_what_is_turned_with_a_pinned_field_is_not_turned_any_more() -> None:
    choices, lists = explored("Choices"), explored("Lists")
    choices.pin("wide")
    lists.pin("kinds")
    assert (choices.together, lists.groups, lists.alphabets) == ([], [], {})


def test_some_more_configs_are_tried_after_a_field_is_pinned() -> None:
    explorer = explored("Lists")
    explorer.most_tried = explorer.tried
    assert explorer.left <= 0
    explorer.pin("kinds")
    assert explorer.left > 0


def test_what_loops_run_up_to_is_pinned_sooner_than_what_is_only_asked() -> None:
    with quick_building():
        primes, choices = explored("Primes"), explored("Choices")
    assert primes.pinnable == ["buckets", "depth", "bias"]
    assert "layers" not in choices.pinnable, "it was made less, and so is not at its default"
    assert {"width", "heads"} <= set(choices.pinnable)
    assert {probe.fields["buckets"] for probe in primes.without("buckets")} == {20}
    assert 0 < len(primes.without("buckets")) < len(primes.probes)


@pytest.mark.parametrize("name", ["Primes", "Scattered", "ManyPrimes"])
def test_a_field_that_a_dim_is_no_arithmetic_of_is_pinned_and_the_others_are_free(
    name: str, tmp_path: Path
) -> None:
    of, done = learned(name), derived(name)
    assert (list(of.explorer.pinned), of.holes, of.draft.unknown) == (["buckets"], [], [])
    assert all(of.draft.gives(probe) for probe in of.probes)
    assert (done.exact, done.holes) == (True, ["buckets has one value only"])
    raw = tomllib.loads(done.text)
    assert (raw["require"], raw["proof"]["holes"]) == (["buckets == 20"], done.holes)
    path = tmp_path / "primes.toml"
    path.write_text(done.text, encoding="utf-8")
    for fields in ({}, {"buckets": 20}, {"width": 9, "depth": 5, "bias": False}):
        assert weighbridge.weigh(path, fields=fields).parameters == parameters(name, **fields)
    with pytest.raises(WeighbridgeError) as caught:
        weighbridge.weigh(path, fields={"buckets": 24})
    assert str(caught.value).endswith(
        f"a {raw['family']} needs buckets == 20 (buckets = 24). Change one of them."
    )


def test_a_class_that_is_arithmetic_has_nothing_pinned() -> None:
    of = learned("Choices")
    assert (list(of.explorer.pinned), of.holes, of.missed) == ([], [], [])
    assert all(of.draft.gives(probe) for probe in of.probes)


def test_a_class_learned_after_another_begins_with_what_was_learned_of_it() -> None:
    before = explored("Primes")
    before.pin("buckets")
    after = Explorer(subject("Primes"), "Primes")
    with quick_building():
        after.explore({}, like=before)
    assert (list(after.pinned), after.base, after.turns) == (["buckets"], before.base, before.turns)
    assert after.active >= before.active
    assert {probe.fields["buckets"] for probe in after.probes} == {20}
