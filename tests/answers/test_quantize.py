"""The file that `weighbridge quantize` describes: its totals, its forms and its refusals."""

from __future__ import annotations

import json
from typing import Any

import pytest

import weighbridge as wb
from weighbridge.answers.quantize import QuantizedFiles, QuantizedGguf, quantized_bytes, targets
from weighbridge.cli import main

LLAMA = "meta-llama/Llama-3.1-8B"

# The bytes of the tensors of releases, by model.safetensors.index.json or by the headers.
RELEASED = {
    # https://huggingface.co/mlx-community/Llama-3.1-8B-Instruct-4bit
    ("mlx-4bit", LLAMA): 4_517_404_672,
    # https://huggingface.co/openai/gpt-oss-20b: 1,804,459,584 of BF16 and 10,152,345,600 of U8
    ("mxfp4", "openai/gpt-oss-20b"): 2 * 1_804_459_584 + 10_152_345_600,
}


@pytest.mark.parametrize(("to", "model"), RELEASED)
def test_a_release_has_these_bytes(to: str, model: str) -> None:
    assert wb.quantize(model, to).tensor_bytes == RELEASED[to, model]


@pytest.mark.parametrize("to", ["awq", "gptq", "nf4", "int8", "fp8"])
def test_a_method_takes_the_bytes_of_a_config_with_its_settings(to: str) -> None:
    found = wb.quantize(LLAMA, to)
    assert isinstance(found, QuantizedFiles)
    settings = {"quantization_config": dict(found.settings)}
    assert found.tensor_bytes == wb.weigh(LLAMA, fields=settings).bytes
    kinds = {group.name: group.parameters for group in found.by("type")}
    layers = 32 * (2 * 4096 * 4096 + 2 * 1024 * 4096 + 3 * 14336 * 4096)
    assert kinds == {next(iter(kinds)): layers, "BF16": 8_030_261_248 - layers}


def test_awq_packs_a_matrix_into_words_zeros_and_scales() -> None:
    found = {tensor.name: tensor for tensor in wb.quantize(LLAMA, "awq").tensors}
    path = "model.layers.3.mlp.down_proj"
    assert found[f"{path}.qweight"][2:4] == ("I32", (14336, 4096 // 8))
    assert found[f"{path}.qzeros"].shape == (14336 // 128, 4096 // 8)
    assert found[f"{path}.scales"][2:5] == ("F16", (14336 // 128, 4096), 0)
    assert found["lm_head.weight"].type == "BF16"


@pytest.mark.parametrize("to", targets())
def test_the_bytes_are_those_of_the_tensors(to: str) -> None:
    model = "openai/gpt-oss-20b" if to == "mxfp4" else "Qwen/Qwen2.5-7B"
    found = wb.quantize(model, to)
    stated = found.to_dict()
    assert stated["tensor_bytes"] == sum(tensor["bytes"] for tensor in stated["tensors"])
    assert stated["parameters"] == sum(group["parameters"] for group in stated["components"])
    assert stated["file_bytes"] >= stated["tensor_bytes"]
    assert quantized_bytes(model, to) == found.tensor_bytes
    assert quantized_bytes(found.weighing, to) == found.tensor_bytes


def test_an_importance_matrix_saves_bits_in_iq4_xs() -> None:
    with_it, without = wb.quantize(LLAMA, "iq4_xs", imatrix=True), wb.quantize(LLAMA, "iq4_xs")
    assert isinstance(with_it, QuantizedGguf)
    assert with_it.tensor_bytes < without.tensor_bytes
    assert [group.tensors for group in with_it.by("type")] != [
        group.tensors for group in without.by("type")
    ]


def test_the_output_is_q6_k_and_a_tied_embedding_too() -> None:
    untied = {t.name: t.type for t in wb.quantize(LLAMA, "q4_k_m").tensors}
    assert (untied["output.weight"], untied["token_embd.weight"]) == ("Q6_K", "Q4_K")
    tied = {t.name: t.type for t in wb.quantize("meta-llama/Llama-3.2-1B", "q4_k_m").tensors}
    assert tied["token_embd.weight"] == "Q6_K"
    assert "output.weight" not in tied


def test_the_rotary_factors_depend_on_the_config() -> None:
    config: dict[str, Any] = {"model_type": "llama", "architectures": ["LlamaForCausalLM"]}
    names = {t.name for t in wb.quantize(config, "q8_0").tensors}
    scaled = {**config, "rope_parameters": {"rope_type": "llama3"}}
    assert {t.name for t in wb.quantize(scaled, "q8_0").tensors} - names == {"rope_freqs.weight"}
    phi = {t.name: t.shape for t in wb.quantize("microsoft/Phi-3.5-mini-instruct", "q8_0").tensors}
    assert phi["rope_factors_long.weight"] == phi["rope_factors_short.weight"] == (48,)


REFUSED = {
    ("bert", "q4_0"): "names of bert's tensors in GGUF are not known",
    ("llama", "q4_k"): "",  # a spelling of q4_k_m
    ("llama", "q4_k_x"): "no such quantisation",
    ("llama", "mxfp4"): "packs none of its weights",
    ("mixtral", "mlx-4bit"): "chooses other bits for the router",
    ("no-such-model", "q4_0"): "no-such-model",
}


@pytest.mark.parametrize(("model", "to"), REFUSED)
def test_what_cannot_be_is_refused_with_the_reason(
    model: str, to: str, capsys: pytest.CaptureFixture[str]
) -> None:
    reason = REFUSED[model, to]
    status = main(["quantize", model, "--to", to])
    out, err = capsys.readouterr()
    assert status == (2 if reason else 0)
    assert reason in err
    assert bool(out) == (not reason)


def test_weights_of_no_known_kind_are_named_as_serve_takes_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = ["serve", "llama", "--on", "H100", "--context", "8", "--weights", "q9"]
    assert main(command) == 2
    assert "no such quantisation (weights = 'q9')" in capsys.readouterr().err


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("by", ["type", "component", "tensor"])
def test_every_form_is_printed(by: str, lang: str, capsys: pytest.CaptureFixture[str]) -> None:
    line = ["quantize", "google/gemma-3-1b-it", "--to", "q4_k_m", "--by", by, "--lang", lang]
    for form in ([], ["--markdown"], ["--csv"], ["--json"]):
        assert main([*line, *form]) == 0
        out = capsys.readouterr().out
        assert "Q5_0" in out
        if form == ["--json"]:
            assert json.loads(out)["file_bytes"] > 799_000_000
    assert main(line) == 0
    out = capsys.readouterr().out
    assert ("instead of" if lang == "en" else "代替") in out
