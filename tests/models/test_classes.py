"""The class that a config names: transformers chooses by model type, not by this text."""

from __future__ import annotations

import pytest

from weighbridge import weigh
from weighbridge.errors import ModelError


@pytest.mark.parametrize(
    ("config", "class_name", "family"),
    [
        ({"model_type": "phimoe"}, "PhiMoEForCausalLM", "phimoe"),
        ({"model_type": "qwen3_5"}, "Qwen3_5ForCausalLM", "qwen3_5_text"),
        ({"model_type": "qwen3_5_moe"}, "Qwen3_5MoeForCausalLM", "qwen3_5_moe_text"),
        ({"model_type": "llama4"}, "Llama4ForCausalLM", "llama4_text"),
    ],
)
def test_a_released_name_is_the_class_that_transformers_builds(
    config: dict[str, str], class_name: str, family: str
) -> None:
    named = weigh({**config, "architectures": [class_name]})
    assert (named.class_name.lower(), named.model.blueprint.family) == (class_name.lower(), family)
    assert named.notes == []
    assert weigh(config, class_name).parameters == named.parameters


def test_a_class_of_the_text_model_takes_its_sub_config() -> None:
    text = {"hidden_size": 1024, "num_hidden_layers": 4}
    config = {"model_type": "qwen3_5", "dtype": "bfloat16", "text_config": text}
    inside = weigh(config, "Qwen3_5ForCausalLM")
    assert (
        inside.parameters
        == weigh({"model_type": "qwen3_5_text", **text}, "Qwen3_5ForCausalLM").parameters
    )
    assert inside.ledger.dtype == "BF16"
    assert weigh(config, "Qwen3_5Model").model.blueprint.family == "qwen3_5"


def test_a_class_that_transformers_is_without_is_the_one_that_it_builds_and_a_note_says_so() -> (
    None
):
    config = {"model_type": "step3p7", "architectures": ["Step3p7FlashForCausalLM"]}
    weighing = weigh(config)
    assert weighing.class_name == "Step3p7ForConditionalGeneration"
    (note,) = weighing.notes
    assert "has no class 'Step3p7FlashForCausalLM'" in note


def test_a_class_of_another_family_is_not_replaced() -> None:
    config = {"model_type": "step3p7", "architectures": ["LlamaForCausalLM"]}
    assert weigh(config).class_name == "Step3p7Model"


def test_a_class_that_could_not_be_derived_is_not_replaced() -> None:
    assert weigh({"model_type": "udop", "architectures": ["UdopForConditionalGeneration"]}).notes
    with pytest.raises(ModelError, match="has no class"):
        weigh("udop", "UdopForConditionalGeneration")
