"""Configs of diffusers: the counts of `tests/data/diffusers.json`, which the library itself built.

`tools/diffusers_classes.py examples` writes that file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from diffusers_classes import shapes_hash

import weighbridge as wb
from weighbridge import data
from weighbridge.blueprint import law, schema
from weighbridge.cli import main
from weighbridge.errors import ConfigError, ModelError
from weighbridge.models.find import find

EXAMPLES: list[dict[str, Any]] = json.loads(
    Path(__file__).parents[1].joinpath("data/diffusers.json").read_text()
)
NAMES = schema.library_names("diffusers")


@pytest.mark.parametrize(
    ("library", "name"),
    [
        (library, name)
        for library in ("diffusers", "timm")
        for name in schema.library_names(library)
    ],
)
def test_a_blueprint_keeps_the_law(library: str, name: str) -> None:
    raw = data.read_toml(f"blueprints/{library}/{name}.toml")
    law.check(raw, name)
    assert raw["family"] == raw["class"] == name.partition("-")[0]


def test_every_class_has_examples() -> None:
    found = {find(example["config"]).blueprint.family for example in EXAMPLES}
    assert found == {name.partition("-")[0] for name in NAMES}


@pytest.mark.parametrize("name", sorted({name.partition("-")[0] for name in NAMES}))
def test_a_config_is_counted_as_the_library_builds_it(name: str) -> None:
    for example in EXAMPLES:
        if example["config"]["_class_name"] == name:
            weighing = wb.weigh(example["config"])
            shapes = {row.name: (tuple(row.shape), row.tied_to) for row in weighing.rows}
            assert weighing.parameters == example["parameters"], example["config"]
            assert shapes_hash(shapes) == example["hash"], example["config"]


def test_a_folder_of_the_library_is_weighed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = [example for example in EXAMPLES if "_diffusers_version" in example["config"]]
    assert written
    for example in written:
        (tmp_path / "config.json").write_text(json.dumps(example["config"]))
        assert main(["weigh", str(tmp_path), "--json"]) == 0
        answer = json.loads(capsys.readouterr().out)
        assert answer["parameters"] == example["parameters"]
        assert not answer["notes"]


def test_an_old_name_of_a_class_is_the_new_one() -> None:
    config = {"_class_name": "Transformer2DModel", "_diffusers_version": "0.27.0"}
    named = {**config, "norm_type": "ada_norm_zero"}
    assert find(named).blueprint.family == "DiTTransformer2DModel"
    with pytest.raises(ModelError, match="is a diffusers model"):
        find({**config, "norm_type": ["ada_norm_zero"]})


def test_a_class_without_a_blueprint_is_refused_with_the_command_that_derives_it() -> None:
    with pytest.raises(ModelError, match="`weighbridge derive diffusers:NoModel2D`"):
        find({"_class_name": "NoModel2D", "_diffusers_version": "0.42.1"})


def test_a_config_that_no_blueprint_of_the_class_covers_is_refused() -> None:
    with pytest.raises(ConfigError, match="no blueprint of AutoencoderKL covers this config"):
        find({"_class_name": "AutoencoderKL", "block_out_channels": [64, 64], "use_quant_conv": 3})


def test_a_field_that_the_config_leaves_out_has_the_default_of_the_class() -> None:
    raw = data.read_toml("blueprints/diffusers/AutoencoderKL-4.toml")
    given = {name: raw["defaults"][name] for name in raw["stated"]}
    whole = {"_class_name": "AutoencoderKL", **given}
    assert len(find(whole).fields["down_block_types"]) == len(given["down_block_types"])
    for name in given:
        with pytest.raises(ConfigError, match=f"is for configs that state {name}"):
            find({field: value for field, value in whole.items() if field != name})
