"""Objects that a config class takes apart: read as the reference reads them."""

from __future__ import annotations

import random
from typing import Any

import pytest

from weighbridge import weigh
from weighbridge.errors import ConfigError
from weighbridge.models.find import find

OBJECT = "linear_attn_config"
FOUR = {"full_attn_layers": [4, 2], "kda_layers": [1, 3]}
TYPES = ["linear_attention", "full_attention"] * 2


def config_of(packed: Any, **fields: Any) -> dict[str, Any]:
    return {"model_type": "kimi_linear", "num_hidden_layers": 4, OBJECT: packed, **fields}


@pytest.mark.parametrize("number", range(8))
def test_an_object_means_what_the_reference_takes_from_it(number: int, seed: str) -> None:
    transformers = pytest.importorskip("transformers")
    dice = random.Random(f"{seed} {number}")  # noqa: S311
    layers = [*range(1, dice.randint(2, 9))]
    full = sorted(dice.sample(layers, dice.randint(0, len(layers))))
    sizes = {name: dice.randint(1, 9) for name in ("head_dim", "num_heads")}
    packed = {
        "full_attn_layers": full,
        "kda_layers": [layer for layer in layers if layer not in full],
        **dict(dice.sample([*sizes.items()], dice.randint(0, 2))),
    }
    small = {"hidden_size": 8, "num_hidden_layers": len(layers), "num_experts": 3, "vocab_size": 9}
    stated = {**small, "linear_num_heads": 7, "pad_token_id": 0}
    config = transformers.AutoConfig.for_model("kimi_linear", **stated, **{OBJECT: packed})
    assert [*find(config_of(packed, **stated)).fields["layer_types"]] == config.layer_types
    torch = pytest.importorskip("torch")
    with torch.device("meta"):
        reference = transformers.AutoModelForCausalLM.from_config(config)
    assert weigh(config_of(packed, **stated), class_name="KimiLinearForCausalLM").parameters == sum(
        tensor.numel() for tensor in reference.parameters()
    )


def test_an_object_has_priority_over_fields_and_stated_types_over_its_layers() -> None:
    other = {"full_attn_layers": [1], "kda_layers": []}
    expected = weigh(config_of(None, layer_types=TYPES, linear_num_heads=8)).parameters
    of_layers = config_of({**FOUR, "num_heads": 8}, linear_num_heads=4)
    of_types = config_of({**other, "num_heads": 8}, layer_types=TYPES)
    assert weigh(of_layers).parameters == weigh(of_types).parameters == expected


def test_a_config_that_the_reference_saved_again_is_read_the_same() -> None:
    transformers = pytest.importorskip("transformers")
    given = config_of({**FOUR, "num_heads": 8}, pad_token_id=0)
    saved = transformers.AutoConfig.for_model(**given).to_dict()
    assert saved[OBJECT]
    assert saved["layer_types"]
    assert weigh(saved).parameters == weigh(given).parameters
    assert not any(OBJECT in note for note in weigh(saved).notes)


def test_what_is_set_by_hand_has_priority_over_an_object() -> None:
    given = config_of({**FOUR, "num_heads": 8})
    for fields in ({"linear_num_heads": 4}, {"layer_types": ["linear_attention"] * 4}):
        stated = config_of(None, **{"layer_types": TYPES, "linear_num_heads": 8, **fields})
        assert weigh(given, fields=fields).parameters == weigh(stated).parameters


def test_keys_that_do_nothing_are_told() -> None:
    found = weigh(config_of({**FOUR, "gate": 1}))
    assert any("linear_attn_config.gate = 1" in note for note in found.notes)
    assert found.parameters == weigh(config_of(FOUR)).parameters
    assert weigh(config_of(FOUR, layer_types=TYPES)).notes == []
    one_list = weigh(config_of({"kda_layers": [1, 2, 3]}))
    assert any("linear_attn_config.kda_layers" in note for note in one_list.notes)
    with pytest.raises(ConfigError, match=r"linear_attn_config\.gate"):
        weigh(config_of({"gate": 1}), strict=True)


@pytest.mark.parametrize(
    ("packed", "message"),
    [
        ({**FOUR, "kda_layers": [1]}, "must list each layer once, from 1 to num_hidden_layers"),
        ({**FOUR, "kda_layers": [1, 3, 5]}, "must list each layer once"),
        ({**FOUR, "kda_layers": [0, 3]}, "must list each layer once"),
        ({**FOUR, "kda_layers": [1, 2]}, "must list each layer once"),
        ({**FOUR, "kda_layers": 3}, "kda_layers must list layers, counted from 1"),
        ({**FOUR, "kda_layers": [True, 3]}, "kda_layers must list layers"),
        ({"head_dim": "wide"}, "linear_head_dim must be"),
        ([1, 2], "covers only configs with linear_attn_config in"),
    ],
)
def test_an_object_that_means_nothing_is_refused(packed: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        weigh(config_of(packed))
    assert message in str(caught.value)
