"""What `train` says about the collectives of a step, and the bound that follows from them."""

from __future__ import annotations

import json

import pytest

from weighbridge.answers.train import TrainingFit, train

LLAMA = "meta-llama/Llama-3.1-8B"


def on(devices: str, model: str = LLAMA, **options: int) -> TrainingFit:
    return train(model, on=devices, batch=64, sequence=512, **options)


def test_collectives_are_in_the_json_of_a_division_and_of_no_other() -> None:
    listed = json.loads(json.dumps(on("8xH100", zero=3).to_dict()))["collectives"]
    layers = [one for one in listed if one["of"] == "layers"]
    assert [one["count"] for one in layers] == [32, 32, 32]
    assert all(one["total_bytes"] == one["count"] * one["bytes"] for one in listed)
    assert on("H100").to_dict()["collectives"] == []


@pytest.mark.parametrize("options", [{"zero": 3}, {"zero": 2}, {"zero": 0}, {"tp": 8}])
def test_the_bound_is_no_more_than_what_really_goes_over_the_link(options: dict[str, int]) -> None:
    fit = on("8xH100", **options)
    link = fit.devices.device.link
    assert link
    sent = 0.0
    for one in fit.collectives():
        times = 2 if one.kind == "all_reduce" else 1
        sent += times * one.total_bytes * (one.ranks - 1) / one.ranks
    assert 0 < fit.bound.links <= sent / link


def test_what_stands_outside_the_layers_is_gathered_once_for_the_bound() -> None:
    # 32 layers of 218,112,000 parameters and 1,050,677,248 others, 2 bytes each; a layer may stay.
    layers, others = 32 * 218112000, 1050677248
    moved = 2 * (3 * layers - 218112000 + 2 * others)
    fit = on("8xH100", zero=3)
    assert fit.bound.links == pytest.approx(moved * 7 / 8 / (fit.devices.device.link or 0))


def test_an_expert_with_one_copy_needs_no_sum() -> None:
    with_copies = on("8xH100", "Qwen/Qwen3-30B-A3B", zero=3)
    without = on("8xH100", "Qwen/Qwen3-30B-A3B", zero=3, ep=8)
    assert without.bound.links < with_copies.bound.links / 5
    assert {one.over for one in without.collectives()} == {"copies", "experts"}
