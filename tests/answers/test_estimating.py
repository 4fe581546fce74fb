"""Estimates of time beside the bounds of a service, and where there are none."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

import weighbridge as wb
from weighbridge.answers.estimating import step_work
from weighbridge.cli import main
from weighbridge.costs.estimates import PassSetting, PassWork, calibration, terms

if TYPE_CHECKING:
    from pathlib import Path

EIGHT = {"weights": "fp8", "cache": "fp8"}


def served(model: str = "meta-llama/Llama-3.1-8B", **settings: Any) -> Any:
    return wb.serve(model, **{"on": "H100", "context": 2048, "batch": 64, **EIGHT, **settings})


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({}, ""),
        ({"on": "A100-80GB", "weights": "bf16", "cache": "bf16"}, ""),
        ({"on": "B200", "weights": "nvfp4"}, ""),
        ({"on": "4xH100", "tp": 2}, ""),
        ({"weights": "bf16"}, "device"),
        ({"on": "B200"}, "device"),
        ({"on": "V100-32GB", "weights": "f16", "cache": "f16"}, "device"),
        ({"on": "A100-80GB", "weights": "q4_k_m", "cache": "bf16"}, "weights"),
        ({"model": "Qwen/Qwen3-30B-A3B"}, "model"),
        ({"on": "4xH100", "pp": 2}, "division"),
        ({"context": 40_000}, "context"),
        ({"batch": 8}, "batch"),
        ({"batch": 4096}, "batch"),
        ({"on": "8xH100", "tp": 1}, "batch"),
    ],
)
def test_there_is_an_estimate_only_where_one_was_scored(
    settings: dict[str, Any], reason: str
) -> None:
    found = served(**settings).estimates
    assert found.reason == reason
    assert (found.prefill_seconds is None) == (reason not in {"", "batch"})
    assert (found.step_seconds is None) == bool(reason)


def test_a_device_of_one_s_own_has_no_estimate(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text("[H100]\nmemory_bytes = 85899345920\nbandwidth = 9e12\npeaks = { F8 = 4e15 }\n")
    assert served(device_file=file).estimates.reason == "device"


def test_an_estimate_is_never_faster_than_the_bound() -> None:
    for batch, context in itertools.product((16, 256, 2048), (128, 2048, 30_000)):
        for model in ("meta-llama/Llama-3.1-8B", "tiiuae/falcon-7b", "Qwen/Qwen3-32B"):
            weights = {"weights": "bf16", "cache": "bf16"}
            found = served(
                model, on="A100-80GB", batch=batch, context=min(context, 2048), **weights
            )
            assert found.estimates.step_seconds >= found.step_bound.seconds
            assert found.estimates.prefill_seconds >= found.prefill_bound.seconds


def test_an_estimate_grows_with_the_batch_and_the_context() -> None:
    by_batch = [served(batch=batch).estimates.step_seconds for batch in (16, 64, 256)]
    by_context = [served(context=size).estimates.step_seconds for size in (128, 2048, 16384)]
    assert by_batch == sorted(set(by_batch))
    assert by_context == sorted(set(by_context))


def test_the_terms_of_a_divided_step_by_hand() -> None:
    """Llama-3.1-8B on two H100: 8,192 hidden bytes a token, 64 sums, half of the cache."""
    service = served(on="2xH100", context=1024)
    work = step_work(service, 64)
    setting = PassSetting("F8", 1979e12, 3.35e12, 450e9, 2, 32, 4096)
    assert work.cache_bytes == 64 * 1024 * 32 * 2 * 8 * 128 // 2
    assert work.flops == pytest.approx(64 * 2 * (8_030_261_248 - 128256 * 4096) / 2, rel=1e-3)
    found = terms(work, setting)
    assert found["sums"] == 64
    assert found["links"] == pytest.approx(64 * (64 * 8192) / 450e9)  # a ring of two sends it once
    assert found["states"] == pytest.approx(32 * 64 * 8192 / 3.35e12)
    rates = calibration()
    by_hand = sum(rates.rates[name] * value for name, value in found.items())
    assert service.estimates.step_seconds == pytest.approx(by_hand, rel=1e-4)


def test_one_device_sends_nothing() -> None:
    found = terms(PassWork(1, 1, 1, 0, 1, 1), PassSetting("F8", 1, 1, None, 1, 32, 64))
    assert found["sums"] == found["links"] == 0


def test_the_answer_says_how_far_it_is_off(capsys: pytest.CaptureFixture[str]) -> None:
    words = "serve meta-llama/Llama-3.1-8B --on H100 --context 2048 --batch 64 --weights fp8"
    assert main([*words.split(), "--cache", "fp8"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    rates = calibration()
    assert f"The estimate is of {rates.date}" in text
    assert f"{rates.left_out['model'].median:.1%} in the median" in text
    answer = served().to_dict()["estimate"]
    assert answer["step_seconds"] > 0
    assert answer["left_out"]["generation"]["p90"] == rates.left_out["generation"].p90


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_why_there_is_no_estimate_is_said(lang: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = f"serve gpt2 --on V100-32GB --context 512 --lang {lang}"
    assert main(words.split()) == 0
    said = {"en": "There is no estimate of time: none", "zh": "没有时间估计"}[lang]
    assert said in " ".join(capsys.readouterr().out.split())
