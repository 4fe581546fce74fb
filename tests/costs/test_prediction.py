"""Layers for multi-token prediction, which checkpoints hold and classes drop."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

import pytest

from weighbridge.answers.stored import PREDICTION_FIELDS
from weighbridge.answers.weigh import weigh
from weighbridge.blueprint.schema import load
from weighbridge.costs.prediction import prediction_fields
from weighbridge.data import read_toml
from weighbridge.render.messages import in_language

REAL = Path(__file__).parents[1] / "data" / "real"
DEEPSEEK: dict[str, Any] = {
    "model_type": "deepseek_v3",
    "architectures": ["DeepseekV3ForCausalLM"],
    "dtype": "bfloat16",
    "num_hidden_layers": 5,
    "first_k_dense_replace": 3,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "n_group": 2,
    "topk_group": 1,
}


def deepseek(layers: object, **fields: Any) -> Any:
    return weigh({**DEEPSEEK, **fields, "num_nextn_predict_layers": layers})


def test_a_layer_is_like_the_last_one_with_its_own_embeddings_and_head() -> None:
    weighing = deepseek(1)
    layers = weighing.files.prediction_layers
    last = sum(row.count for row in weighing.stored_rows if row.name.startswith("model.layers.4."))
    hidden, words = weighing.model.fields["hidden_size"], weighing.model.fields["vocab_size"]
    assert layers.parameters == last + 2 * words * hidden + 2 * hidden**2 + 3 * hidden
    assert f"{layers.parameters:,} parameters for multi-token prediction" in weighing.notes[-1]
    assert "(num_nextn_predict_layers = 1)" in weighing.notes[-1]
    assert weighing.to_dict()["prediction_layers"] == {
        "field": "num_nextn_predict_layers",
        "layers": 1,
        "parameters": layers.parameters,
        "checkpoint_bytes": weighing.bytes + 2 * layers.parameters,
    }


def test_each_layer_counts() -> None:
    one, three = (deepseek(number).files.prediction_layers for number in (1, 3))
    assert three.parameters == 3 * one.parameters
    names = [weight.paths[0] for weight in three.weights]
    for layer in (5, 6, 7):
        assert any(name.startswith(f"model.layers.{layer}.mlp") for name in names)
    assert not any(".layers.4." in name for name in names)


def test_layers_of_a_list_of_their_own_share_the_projection() -> None:
    text = {"num_hidden_layers": 4, "mtp_num_hidden_layers": 2, "hidden_size": 256}
    config = {"model_type": "qwen3_5", "text_config": text, "dtype": "bfloat16"}
    layers = weigh(config).files.prediction_layers
    assert layers.number == 2
    shared = [weight for weight in layers.weights if weight.paths[0].startswith("mtp.fc")]
    assert [prod(weight.shape) for weight in shared] == [2 * 256**2]
    paths = [weight.paths[0] for weight in layers.weights]
    assert any(path.startswith("mtp.layers.0.") for path in paths)
    assert any(path.startswith("mtp.layers.1.") for path in paths)


@pytest.mark.parametrize("number", [0, None, True, "1", 10**6, -1])
def test_a_config_without_such_layers_has_no_note(number: object) -> None:
    weighing = deepseek(number)
    assert weighing.files.prediction_layers is None
    assert not any("multi-token" in note for note in weighing.notes)


def test_a_family_whose_layers_are_not_known_gets_no_number() -> None:
    weighing = weigh(str(REAL / "nvidia__NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16.json"))
    assert weighing.files.prediction_layers.parameters is None
    assert weighing.files.whole_size is None
    assert "which are not counted (num_nextn_predict_layers = 1)" in " ".join(weighing.notes)


def test_the_base_class_has_the_same_note() -> None:
    config = {**DEEPSEEK, "num_nextn_predict_layers": 1}
    notes = [weigh(config, name).notes[-1] for name in ("DeepseekV3Model", None)]
    assert len(set(notes)) == 1


def test_the_families_have_blueprints_with_the_sizes_that_the_rules_name() -> None:
    for rule in read_toml("facts/prediction_layers.toml").values():
        for family in rule["families"]:
            fields = {name.rpartition(".")[2] for name in load(family).fields}
            assert {"hidden_size", "vocab_size"} <= fields


def test_notes_are_translated() -> None:
    for note in (
        *deepseek(1).notes,
        *weigh(
            {
                "model_type": "llama",
                "num_nextn_predict_layers": 1,
                "quantization_config": {"quant_method": "x"},
            }
        ).notes,
    ):
        translated = in_language(note, "zh")
        assert "multi-token" not in translated
        assert "quantised" not in translated
        assert "rule" not in translated


def test_the_fields_are_explained() -> None:
    reasons = read_toml("facts/fields.toml")["any"]
    assert set(prediction_fields()) <= set(reasons)
    assert prediction_fields() == PREDICTION_FIELDS
