"""Configs of timm: the counts of `tests/data/timm.json`, which timm itself built.

`tools/timm_models.py examples` writes that file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import timm_models
from diffusers_classes import shapes_hash

import weighbridge as wb
from weighbridge.blueprint import schema
from weighbridge.cli import main
from weighbridge.errors import ConfigError, ModelError
from weighbridge.models import timm_configs
from weighbridge.models.find import find

EXAMPLES: list[dict[str, Any]] = json.loads(
    Path(__file__).parents[1].joinpath("data/timm.json").read_text()
)
NAMED: dict[str, list[Any]] = json.loads(
    Path(__file__).parents[1].joinpath("data/timm_names.json").read_text()
)
NAMES = schema.library_names("timm")
CLASSES = sorted({name.partition("-")[0] for name in NAMES})
WRITTEN = [example for example in EXAMPLES if "num_features" in example["config"]]
DATA = Path(schema.__file__).parents[1] / "data"
VIT = "vit_base_patch16_224"


def config(architecture: str = VIT, **fields: Any) -> dict[str, Any]:
    return {"architecture": architecture, "pretrained_cfg": {}, **fields}


def test_the_blueprints_are_those_that_the_tool_derives() -> None:
    assert {*NAMES} == timm_models.listed().keys()


def test_every_architecture_has_an_example() -> None:
    named = {example["config"]["architecture"] for example in EXAMPLES}
    assert named == timm_configs.architectures().keys()
    assert {about["class"] for about in timm_configs.architectures().values()} == {*CLASSES}


@pytest.mark.parametrize("class_name", CLASSES)
def test_a_config_is_counted_as_timm_builds_it(class_name: str) -> None:
    exact = 0
    for example in EXAMPLES:
        if timm_configs.architecture_class(example["config"]) != class_name:
            continue
        weighing = wb.weigh(example["config"])
        shapes = {row.name: (tuple(row.shape), row.tied_to) for row in weighing.rows}
        assert weighing.parameters == example["parameters"], example["config"]
        assert shapes_hash(shapes) == example["hash"], example["config"]
        exact += 1
    assert exact


@pytest.mark.parametrize("example", WRITTEN, ids=lambda example: example["config"]["architecture"])
def test_a_folder_that_timm_wrote_is_weighed(
    example: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(example["config"]))
    assert main(["weigh", str(tmp_path), "--json", "--strict"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["parameters"] == example["parameters"]
    assert not answer["notes"]


def test_what_a_config_states_comes_before_what_its_architecture_gives() -> None:
    assert find(config()).fields["depth"] == 12
    assert find(config(model_args={"depth": 3})).fields["depth"] == 3
    assert find(config(), {"depth": 5}).fields["depth"] == 5
    assert find(config(), {"num_classes": 5}).fields["num_classes"] == 5
    assert find(config(), {"architecture": "vit_large_patch16_224"}).fields["depth"] == 24


def test_a_blueprint_that_is_given_reads_the_config_as_it_is(tmp_path: Path) -> None:
    own = tmp_path / "mine.toml"
    own.write_text((DATA / "blueprints/timm/VisionTransformer.toml").read_text())
    mine = config("mine", depth=3)
    assert find(mine, blueprint=own).fields["depth"] == 3
    with pytest.raises(ModelError, match="timm architecture mine"):
        find(mine)


def test_a_field_of_timm_means_nothing_to_other_families() -> None:
    assert find({"model_type": "bert", "architecture": "x"}).unaccounted == ("architecture",)
    assert find(config()).unaccounted == ()


def test_what_follows_from_the_weights_is_as_in_timm() -> None:
    weights = {"num_classes": 21, "input_size": [1, 384, 384]}
    fields = find(config(pretrained_cfg=weights)).fields
    assert (fields["num_classes"], fields["in_chans"], fields["img_size"]) == (21, 1, 224)
    fields = find(config(pretrained_cfg={**weights, "fixed_input_size": True})).fields
    assert fields["img_size"] == 384
    any_size = {"pretrained_cfg": {**weights, "fixed_input_size": True}, "num_classes": 4}
    fields = find(config(**any_size, model_args={"dynamic_img_size": True})).fields
    assert (fields["img_size"], fields["num_classes"]) == (224, 4)


@pytest.mark.parametrize(
    ("fields", "hint"),
    [
        ({"num_classes": "many"}, "timm writes a number there"),
        ({"model_args": [3]}, "timm writes an object there"),
        ({"pretrained_cfg": {"input_size": [3, 224]}}, "channels, height and width"),
        ({"pretrained_cfg": {"input_size": 224}}, "channels, height and width"),
        ({"model_args": {"model_type": "bert"}}, "timm writes arguments of the class there"),
        ({"model_args": {"architecture": "mixer_b16_224"}}, "arguments of the class"),
        ({"model_args": {"depth": "deep"}}, ""),
        ({"model_args": {"deepth": 3}}, ""),
    ],
)
def test_a_value_that_timm_would_not_take_is_refused(fields: dict[str, Any], hint: str) -> None:
    with pytest.raises(ConfigError) as refused:
        wb.weigh(config(**fields), strict=True)
    assert hint in refused.value.hint


def test_a_model_is_found_by_its_name_in_timm() -> None:
    for name, (parameters, true_hash) in NAMED.items():
        weighing = wb.weigh(f"timm/{name}")
        shapes = {row.name: (tuple(row.shape), row.tied_to) for row in weighing.rows}
        assert weighing.parameters == parameters, name
        assert shapes_hash(shapes) == true_hash, name
        assert wb.weigh(name).parameters == parameters
    architectures = {name.partition(".")[0] for name in NAMED}
    assert architectures == timm_configs.architectures().keys()


def test_without_a_tag_it_has_the_weights_that_timm_chooses() -> None:
    chosen = NAMED["mixer_l16_224.goog_in21k_ft_in1k"][0]
    other = NAMED["mixer_l16_224.goog_in21k"][0]
    assert wb.weigh("mixer_l16_224").parameters == chosen != other
    assert wb.weigh(VIT, fields={"num_classes": 7}).parameters == 85_804_039


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("convnext_atto.d3_in1k", "no such weights of convnext_atto. Name one of its tags, such"),
        ("timm/resnet50.a1_in1k", "`weighbridge inspect hf://timm/resnet50.a1_in1k` counts"),
        ("timm/none", "there is no blueprint for the timm architecture none"),
    ],
)
def test_a_name_that_timm_lacks_or_no_blueprint_covers_is_refused(name: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        wb.weigh(name)


def test_an_architecture_without_a_blueprint_is_refused_with_similar_ones() -> None:
    with pytest.raises(ModelError, match=r"timm architecture vit_base_patch16_223.*such as vit_"):
        wb.weigh(config("vit_base_patch16_223"))


@pytest.mark.parametrize("architecture", ["convnext_tiny", "convnext_atto", VIT, "mixer_b16_224"])
@pytest.mark.parametrize("by", ["component", "role"])
def test_its_formulas_have_the_values_of_its_tensors(architecture: str, by: str) -> None:
    written = wb.formula(config(architecture)).to_dict(by=by)  # refuses formulas that differ
    assert written["parameters"]["value"] == wb.weigh(config(architecture)).parameters


def test_a_convolution_is_not_packed_or_adapted_as_a_linear_module() -> None:
    linear, convolutions = config("convnext_tiny"), config("convnext_atto")
    assert adapted(linear) == {"fc1", "fc2", "fc"}
    assert adapted(convolutions) == {"fc"}  # with conv_mlp
    assert packed(linear) == 2 * sum((3, 3, 9, 3)) + 1
    assert packed(convolutions) == 1


def packed(of: dict[str, Any]) -> int:
    """Return the number of weights that a file in FP8 packs, each with its scales."""
    (in_fp8,) = (
        each for each in wb.quantize(of, "fp8").to_dict()["types"] if each["name"] == "FP8"
    )
    return int(in_fp8["tensors"]) // 2


def adapted(of: dict[str, Any]) -> set[str]:
    """Return the ends of the modules that an adapter of all linear modules has."""
    return {group["target"] for group in wb.lora(of, targets="all-linear").to_dict()["groups"]}


@pytest.mark.parametrize(
    "other",
    [
        {"architecture": VIT},
        {"architecture": VIT, "pretrained_cfg": [3]},
        {"architecture": VIT, "pretrained_cfg": {}, "model_type": "mine"},
        {"architecture": [VIT], "pretrained_cfg": {}},
    ],
)
def test_what_timm_does_not_write_is_not_counted(other: dict[str, Any]) -> None:
    with pytest.raises((ConfigError, ModelError), match=r"model_type|is a timm model"):
        wb.weigh(other)
