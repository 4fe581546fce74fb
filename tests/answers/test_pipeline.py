"""Pipelines of diffusers: folders with several models, weighed, inspected and verified."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from checkpoints import write

import weighbridge as wb
from weighbridge.answers.inspect import Inspections, inspect_all
from weighbridge.answers.pipeline import verify_pipeline, weigh_pipeline
from weighbridge.cli import main
from weighbridge.errors import ModelError

# FLUX.1-dev; the counts are of the modules that diffusers 0.42.1 and transformers 5.23.0 build.
CONFIGS = {
    "text_encoder": {
        "model_type": "clip_text_model",
        "hidden_size": 768,
        "intermediate_size": 3072,
        "num_attention_heads": 12,
    },
    "text_encoder_2": {
        "model_type": "t5",
        "d_model": 4096,
        "d_kv": 64,
        "d_ff": 10240,
        "num_layers": 24,
        "num_heads": 64,
        "feed_forward_proj": "gated-gelu",
    },
    "transformer": {"_class_name": "FluxTransformer2DModel", "guidance_embeds": True},
}
COUNTS = {
    "text_encoder": 123_060_480,
    "text_encoder_2": 4_762_310_656,
    "transformer": 11_901_408_320,
}
INDEX = {
    "_class_name": "FluxPipeline",
    "_diffusers_version": "0.42.1",
    "image_encoder": [None, None],
    "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"],
    "text_encoder": ["transformers", "CLIPTextModel"],
    "text_encoder_2": ["transformers", "T5EncoderModel"],
    "tokenizer": ["transformers", "CLIPTokenizer"],
    "transformer": ["diffusers", "FluxTransformer2DModel"],
}


@pytest.fixture
def pipeline(tmp_path: Path) -> str:
    for name, config in CONFIGS.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps(config))
    (tmp_path / "model_index.json").write_text(json.dumps(INDEX))
    return str(tmp_path)


def test_all_models_are_weighed(pipeline: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["weigh", pipeline, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["components"] == COUNTS
    assert answer["parameters"] == sum(COUNTS.values())
    assert not answer["unweighed"]
    for lang in ("en", "zh"):
        assert "16,786,779,456" in weigh_pipeline(pipeline).text(lang)


def test_a_model_without_a_blueprint_is_named_and_not_in_the_total(
    pipeline: str, tmp_path: Path
) -> None:
    config = {"_class_name": "NoModel2D", "_diffusers_version": "0.42.1"}
    (tmp_path / "transformer" / "config.json").write_text(json.dumps(config))
    weighing = weigh_pipeline(pipeline)
    assert weighing.status == 1
    assert weighing.parameters == COUNTS["text_encoder"] + COUNTS["text_encoder_2"]
    assert "derive diffusers:NoModel2D" in weighing.unweighed["transformer"]
    with pytest.raises(ModelError, match="is a diffusers model"):
        weigh_pipeline(pipeline, strict=True)


def test_checkpoints_are_inspected_and_verified_one_by_one(pipeline: str, tmp_path: Path) -> None:
    index = {"_class_name": "OnlyFlux", "transformer": INDEX["transformer"]}
    (tmp_path / "model_index.json").write_text(json.dumps(index))
    sizes = {"num_layers": 1, "num_single_layers": 1}
    config = {**CONFIGS["transformer"], **sizes}
    (tmp_path / "transformer" / "config.json").write_text(json.dumps(config))
    rows = {row.name: ("F32", row.shape) for row in wb.weigh(config).rows}
    weights = tmp_path / "transformer" / "diffusion_pytorch_model.safetensors"
    write(weights, rows)
    inspections = inspect_all(pipeline)
    assert isinstance(inspections, Inspections)
    (inspection,) = inspections.inspections
    assert inspection.parameters == wb.weigh(config).parameters
    assert verify_pipeline(pipeline, pipeline).status == 0
    rows.pop("proj_out.bias")
    write(weights, rows)
    assert main(["verify", pipeline, pipeline, "--json"]) == 1


PAIR = ["diffusers", "FluxTransformer2DModel"]
BROKEN = {
    "{": "model_index.json: json: the text must be valid JSON",
    "[]": "model_index.json: object: the JSON must be a single object",
    '{"transformer": ["diffusers", 5]}': "a list of its library and its class",
    '{"transformer": ["diffusers"]}': "a list of its library and its class",
    '{"../transformer": ["diffusers", "FluxTransformer2DModel"]}': "has a plain name",
    '{"prior": ["diffusers", "FluxTransformer2DModel"]}': "names a component that the folder lacks",
    '{"scale": 0.5, "ids": [1, 2], "vae": [null, null]}': "names no component that has parameters",
    '{"transformer": ["diffusers", "NoModel2D"]}': "names another class than the component's",
    '{"transformer": ["elsewhere", "Model"]}': "is in no library",
    '{"text_encoder": ["transformers", "NoModel"]}': "has no class 'NoModel'",
}


@pytest.mark.parametrize(("text", "said"), BROKEN.items())
def test_a_broken_index_is_told_in_one_message(
    text: str, said: str, pipeline: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "model_index.json").write_text(text)
    for command in (["weigh", pipeline], ["verify", pipeline, pipeline]):
        assert main(command) == 2
        message = capsys.readouterr().err
        assert message.count("\n") == 1
        if command[0] == "weigh":
            assert said in message
    assert main(["--lang", "zh", "weigh", pipeline]) == 2
    assert said not in capsys.readouterr().err


def test_the_advice_names_the_folder(pipeline: str) -> None:
    said = " ".join(weigh_pipeline(pipeline).text().split())
    assert f"`weighbridge weigh {pipeline}/text_encoder --class CLIPTextModel` gives" in said


def test_a_pipeline_that_diffusers_saved_is_counted_as_diffusers_counts_it() -> None:
    saved = str(Path(__file__).parents[1] / "data" / "pipeline")
    counted = {name: one.parameters for name, one in weigh_pipeline(saved).weighings.items()}
    assert counted == {"transformer": 3_832, "vae": 2_685}
    assert verify_pipeline(saved, saved).status == 0
