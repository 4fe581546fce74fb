"""Estimates of the time of a training step beside its bound, and where there are none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import weighbridge as wb
from weighbridge.answers.estimating_training import work_of_step
from weighbridge.cli import main
from weighbridge.costs.training_estimates import training_calibration

if TYPE_CHECKING:
    from pathlib import Path


def trained(model: str = "meta-llama/Llama-3.1-8B", **settings: Any) -> Any:
    usual = {"on": "8xA100-80GB", "batch": 8, "sequence": 2048, "zero": 3}
    return wb.train(model, **{**usual, **settings})


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({}, ""),
        ({"on": "32xH100", "batch": 32, "tp": 4, "pp": 2}, ""),
        ({"on": "8xB200"}, "train_device"),
        ({"precision": "fp32"}, "train_dtype"),
        ({"lora": "r=8,targets=q,v"}, "train_adapter"),
        ({"model": "Qwen/Qwen3-30B-A3B"}, "train_model"),
        ({"model": "google-bert/bert-base-uncased", "sequence": 512}, "train_model"),
        ({"on": "A100-80GB"}, "train_devices"),
        ({"sequence": 1024}, "train_tokens"),
        ({"sequence": 1024, "batch": 16}, ""),
        ({"sequence": 131_073}, "train_sequence"),
    ],
)
def test_there_is_an_estimate_only_where_one_was_scored(
    settings: dict[str, Any], reason: str
) -> None:
    found = trained(**settings).estimate
    assert found.reason == reason
    assert (found.seconds is None) == bool(reason)


def test_a_device_of_one_s_own_has_no_estimate(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text("[H100]\nmemory_bytes = 85899345920\nbandwidth = 9e12\npeaks.BF16 = 4e15\n")
    assert trained(on="8xH100", device_file=file).estimate.reason == "train_device"


def test_the_work_of_a_step_by_hand() -> None:
    """GPT-2 small on 8 devices without a pipeline: products, attention, hidden states, states."""
    fit = trained("gpt2", batch=64, sequence=1024, checkpointing="full", zero=1)
    work = work_of_step(fit)
    tokens, width, layers = 64 * 1024 // 8, 768, 12
    attention = 4 * tokens * 1024 * width * layers  # scores and values, forward
    matrices = 2 * tokens * (layers * 12 * width**2)
    head = 2 * tokens * 50257 * width
    assert work.attention_flops == pytest.approx(attention / 2 * 4)
    assert work.flops == pytest.approx(4 * matrices + 3 * head, rel=1e-6)
    assert work.state_bytes == pytest.approx(tokens * width * layers * 2 * 4 / 3)
    assert work.updated_bytes == sum(fit.ranks[0].states.values())
    assert work.layers == layers
    rates = training_calibration()
    peak, bandwidth = 312e12, fit.devices.device.bandwidth
    by_hand = (
        rates.rates["products"] * work.flops / peak
        + rates.rates["attention"] * work.attention_flops / peak
        + rates.rates["states"] * work.state_bytes / bandwidth
        + rates.rates["links"] * work.link_seconds
        + rates.rates["update"] * work.updated_bytes / bandwidth
        + rates.rates["layers"] * layers
    )
    assert fit.estimate.seconds == pytest.approx(by_hand)
    assert fit.estimate.seconds > fit.bound.seconds
    assert fit.estimate.tokens_per_second == pytest.approx(64 * 1024 / by_hand)


def test_a_pipeline_waits_and_sequence_parallelism_divides() -> None:
    settings = {"on": "8xA100-80GB", "batch": 8, "micro_batch": 1, "zero": 0}
    one = work_of_step(trained(**settings))
    piped = work_of_step(trained(**settings, pp=8))
    assert piped.flops == pytest.approx(one.flops * (8 + 7) / 8)
    whole, divided = (
        work_of_step(trained(**settings, tp=8, sequence_parallel=is_divided))
        for is_divided in (False, True)
    )
    assert divided.state_bytes == pytest.approx(one.state_bytes)
    assert whole.state_bytes == pytest.approx(one.state_bytes * (10 * 8 + 24) / 34)


def test_tensor_parallel_ranks_in_a_node_use_its_links_whatever_the_context() -> None:
    short, long = (
        trained(on="128xH100", tp=8, cp=parts, sequence=2048 * parts, batch=16 // parts)
        for parts in (1, 16)
    )
    assert long.links.tensor == pytest.approx(short.links.tensor)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_answer_says_how_far_it_is_off(lang: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = f"train gpt2 --on 8xH100 --batch 64 --seq 1024 --tokens 1T --price 2 --lang {lang}"
    assert main(words.split()) == 0
    text = " ".join(capsys.readouterr().out.split())
    rates = training_calibration()
    assert rates.date in text
    assert f"{rates.left_out['device'].p90:.1%}" in text
    found = trained("gpt2", batch=64, sequence=1024, tokens="1T", price=2)
    answer = found.to_dict()["estimate"]
    assert answer["hours"] == pytest.approx(1e12 / found.estimate.tokens_per_second / 3600)
    assert answer["money"] == pytest.approx(answer["hours"] * 8 * 2)
    assert answer["missing"] is None


@pytest.mark.parametrize(("lang", "said"), [("en", "only the training"), ("zh", "只检验过稠密")])
def test_why_there_is_no_estimate_is_said(
    lang: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = f"train Qwen/Qwen3-30B-A3B --on 64xH100 --batch 64 --seq 2048 --zero 3 --lang {lang}"
    main(words.split())
    assert said in "".join(capsys.readouterr().out.replace("\n  ", " ").splitlines())
