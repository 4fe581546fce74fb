"""Sizes of some layers, as transformers saves them: read like the fields that they come from."""

from __future__ import annotations

import json

import pytest

from weighbridge import weigh
from weighbridge.errors import ConfigError

transformers = pytest.importorskip("transformers")

SAVED = [
    ("gemma4_text", {"global_head_dim": 128, "num_hidden_layers": 7}),
    ("gemma4_text", {"num_global_key_value_heads": 2, "attention_k_eq_v": True}),
    ("gemma4_unified_text", {"num_hidden_layers": 6}),
    ("embedding_gemma2_text", {"num_global_key_value_heads": 2}),
    ("embedding_gemma2_text", {"num_global_key_value_heads": 4}),
    ("neomme", {"num_hidden_layers": 8}),
    ("gemma4", {}),
]


@pytest.mark.parametrize(("family", "fields"), SAVED)
def test_a_saved_config_is_the_config_that_it_was_saved_from(
    family: str, fields: dict[str, int]
) -> None:
    config = transformers.AutoConfig.for_model(family, **fields)
    saved = json.loads(config.to_json_string())
    assert "per_layer_config" in json.dumps(saved)
    assert "global_head_dim" not in saved
    assert weigh(saved).parameters == weigh({"model_type": family, **fields}).parameters


@pytest.mark.parametrize(
    "overrides",
    [
        {"0": {"head_dim": 512}},
        {"05": {"head_dim": 512}},
        {"05": {"intermediate_size": 8}, "11": {"intermediate_size": 8}},
        {"05": {"head_dim": 512}, "11": {"head_dim": 64}},
        {},
        {"5": 512, "11": 512},
    ],
)
def test_overrides_that_mean_something_else_are_refused(overrides: dict[str, object]) -> None:
    kinds = (["sliding_attention"] * 5 + ["full_attention"]) * 2
    config = {"model_type": "gemma4_text", "num_hidden_layers": 12, "layer_types": kinds}
    assert weigh({**config, "per_layer_config": {"5": {"head_dim": 512}, "11": {"head_dim": 512}}})
    with pytest.raises(ConfigError, match="per_layer_config"):
        weigh({**config, "per_layer_config": overrides})
