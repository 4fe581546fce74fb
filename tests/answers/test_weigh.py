"""The class that is weighed, the row of its base class, and active parameters."""

from __future__ import annotations

from typing import Any

import pytest

from weighbridge import data
from weighbridge.answers.explain import Article
from weighbridge.answers.formula import ClosedForm
from weighbridge.answers.tree import tree
from weighbridge.answers.weigh import Weighing, weigh
from weighbridge.blueprint.schema import load
from weighbridge.errors import ConfigError
from weighbridge.units import count

LLAMA = {"model_type": "llama", "architectures": ["LlamaForCausalLM"]}
MIXTRAL = {"model_type": "mixtral", "architectures": ["MixtralForCausalLM"]}


def named(family: str, class_name: str, **fields: Any) -> dict[str, Any]:
    return {"model_type": family, "architectures": [class_name], **fields}


def article(weighing: Weighing, lang: str = "en") -> str:
    return Article(weighing).text(lang)


# Which class


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (LLAMA, "LlamaForCausalLM"),
        (named("gpt2", "GPT2LMHeadModel"), "GPT2LMHeadModel"),
        (named("t5", "T5ForConditionalGeneration"), "T5ForConditionalGeneration"),
        (named("marian", "MarianMTModel"), "MarianMTModel"),
        (named("idefics", "IdeficsForVisionText2Text"), "IdeficsForVisionText2Text"),
        (named("bert", "BertLMHeadModel", is_decoder=True), "BertLMHeadModel"),
        # No class, or one that does not generate
        (named("llama", "LlamaForSequenceClassification", num_labels=2), "LlamaModel"),
        (named("llama", "LlamaModel"), "LlamaModel"),
        (named("bert", "BertForMaskedLM"), "BertModel"),
        (named("wav2vec2", "Wav2Vec2ForCTC"), "Wav2Vec2Model"),
        (named("llama", "GPT2LMHeadModel"), "LlamaModel"),
        ({"model_type": "llama"}, "LlamaModel"),
        ("llama", "LlamaModel"),
        ("bert-base-chinese", "BertModel"),
    ],
    ids=str,
)
def test_a_generative_class_that_the_config_names_is_weighed_and_else_the_base_class(
    model: Any, expected: str
) -> None:
    assert weigh(model).class_name == expected


def test_a_class_that_is_asked_for_is_weighed_whatever_the_config_names() -> None:
    assert weigh(LLAMA, "LlamaModel").class_name == "LlamaModel"
    assert weigh("llama", "LlamaForCausalLM").class_name == "LlamaForCausalLM"


def test_every_answer_is_of_the_same_class() -> None:
    shown = [
        weigh(LLAMA).to_dict(),
        ClosedForm(weigh(LLAMA)).to_dict(),
        tree(LLAMA).to_dict(),
    ]
    assert {answer["class"] for answer in shown} == {"LlamaForCausalLM"}
    assert "6,738,415,616 parameters" in article(weigh(LLAMA)).splitlines()[0]


# The base class in the table of another class


def test_the_base_class_is_a_line_of_its_own_before_the_total() -> None:
    *_, head, _, base, total = weigh(LLAMA).text().split("\n\n", maxsplit=1)[0].splitlines()
    assert head.split() == ["LM", "head", "V·H", "131,072,000", "1.9%"]
    assert base.split() == ["base", "model", "(LlamaModel)", "6,607,343,616", "98.1%"]
    assert total.split() == ["total", "6,738,415,616", "100.0%"]


@pytest.mark.parametrize(
    ("family", "class_name"),
    [
        ("gpt2", "GPT2LMHeadModel"),
        ("gemma", "GemmaForCausalLM"),
        ("t5", "T5ForConditionalGeneration"),
        ("whisper", "WhisperForConditionalGeneration"),
    ],
)
def test_a_tied_head_is_shown_and_the_base_model_is_all_there_is(
    family: str, class_name: str
) -> None:
    weighing = weigh(named(family, class_name))
    assert weighing.base_parameters == weighing.parameters == weigh(family).parameters
    lines = weighing.text().splitlines()
    assert [line.split() for line in lines if line.startswith("LM head")] == [
        ["LM", "head", "tied", "0", "0.0%"]
    ]


def test_the_base_model_is_part_of_a_model_made_of_several() -> None:
    llava = weigh(named("llava", "LlavaForConditionalGeneration"))
    assert llava.base_parameters == weigh("llava").parameters
    assert llava.parameters - weigh("llava").parameters == llava.by("component")["head.lm"]


@pytest.mark.parametrize(
    ("family", "class_name"),
    [
        ("bert", "BertLMHeadModel"),  # has no pooler
        ("bart", "BartForCausalLM"),  # has no encoder
        ("blip", "BlipForConditionalGeneration"),  # has another decoder
        ("instructblip", "InstructBlipForConditionalGeneration"),  # under other names
        ("llama", "LlamaModel"),
        ("llama", "LlamaForSequenceClassification"),
    ],
)
def test_only_a_generative_class_with_its_whole_base_has_a_line_for_it(
    family: str, class_name: str
) -> None:
    weighing = weigh(family, class_name)
    assert weighing.base_parameters is None
    assert "base model (" not in weighing.text() + article(weighing)


def test_the_line_of_a_base_class_is_its_own_count_and_at_most_the_total() -> None:
    for family in ("llama", "gpt2", "mixtral", "bart", "llava", "whisper", "qwen2_vl", "pegasus"):
        for class_name in load(family).class_names:
            weighing = weigh(family, class_name)
            if weighing.base_parameters is not None:
                assert weighing.base_parameters == weigh(family).parameters
                assert weighing.base_parameters <= weighing.parameters


# Active parameters

GATED = 3  # matrices of a gated feed-forward network
EXPERTS = {
    "mixtral": ("MixtralForCausalLM", {}, GATED * 4096 * 14336, 32 * (8 - 2)),
    "deepseek_v3": ("DeepseekV3ForCausalLM", {}, GATED * 7168 * 2048, (61 - 3) * (256 - 8)),
    "gpt_oss": (
        "GptOssForCausalLM",
        {},
        2880 * 5760 + 5760 + 2880 * 2880 + 2880,  # with biases
        36 * (128 - 4),
    ),
    "qwen3_moe": (
        "Qwen3MoeForCausalLM",
        {"num_hidden_layers": 48, "num_key_value_heads": 4, "head_dim": 128},
        GATED * 2048 * 768,
        48 * (128 - 8),
    ),
    "jamba": ("JambaForCausalLM", {}, GATED * 4096 * 14336, 32 // 2 * (16 - 2)),
    "granitemoe": ("GraniteMoeForCausalLM", {}, GATED * 4096 * 11008, 32 * (8 - 2)),
}
"""By family: class, fields other than defaults, size of an expert, experts that a token skips."""


@pytest.mark.parametrize("family", EXPERTS)
def test_the_experts_that_a_token_is_not_sent_to_are_not_active(family: str) -> None:
    class_name, fields, expert, not_active = EXPERTS[family]
    weighing = weigh(named(family, class_name, **fields))
    assert weighing.active == weighing.parameters - not_active * expert


def test_the_active_parameters_of_mixtral_are_the_sum_of_its_layers() -> None:
    expert = 3 * 4096 * 14336
    attention = 2 * 4096 * 4096 + 2 * 4096 * 1024
    router, norms = 8 * 4096, 2 * 4096
    embedding = head = 32000 * 4096
    weighing = weigh(MIXTRAL)
    for experts, value in ((8, 46_702_792_704), (2, 12_879_925_248)):
        layer = attention + experts * expert + router + norms
        assert embedding + 32 * layer + 4096 + head == value
    assert (weighing.parameters, weighing.active) == (46_702_792_704, 12_879_925_248)
    assert weighing.active_by_class == {
        "MixtralModel": 12_879_925_248 - head,
        "MixtralForCausalLM": 12_879_925_248,
    }


def places_of_active(weighing: Weighing, lang: str) -> dict[str, str]:
    """Return the text of every answer about a weighing."""
    return {
        "weigh": weighing.text(lang=lang),
        "by tensor": weighing.text(lang=lang, by="tensor"),
        "formula": ClosedForm(weighing).text(lang=lang),
        "tree": tree(weighing.model.config).text(lang=lang),
        "explain": article(weighing, lang),
    }


@pytest.mark.parametrize("lang", data.LANGUAGES)
def test_every_answer_says_how_many_are_active_where_there_are_experts(lang: str) -> None:
    weighing = weigh(MIXTRAL)
    for where, text in places_of_active(weighing, lang).items():
        assert "12,879,925,248" in text, where
        assert "46,571,720,704" in text, where  # the base model
    assert weighing.to_dict()["active"] == weighing.active
    assert weighing.to_dict()["active_by_class"] == weighing.active_by_class
    assert tree(MIXTRAL).to_dict()["active"] == weighing.active
    assert ClosedForm(weighing).to_dict()["active"]["value"] == weighing.active
    classes = [line for line in weighing.text(lang=lang).splitlines() if "MixtralModel" in line]
    assert count(12_879_925_248 - 32000 * 4096) in classes[-1]


@pytest.mark.parametrize("lang", data.LANGUAGES)
def test_without_experts_no_answer_mentions_active_parameters(lang: str) -> None:
    weighing = weigh(LLAMA)
    assert weighing.active is None
    assert weighing.active_by_class == {}
    word = {"en": "active", "zh": "激活参数"}[lang]
    for where, text in places_of_active(weighing, lang).items():
        assert word not in text, where
    for answer in (weighing.to_dict(), tree(LLAMA).to_dict(), ClosedForm(weighing).to_dict()):
        assert not {"active", "active_by_class"} & answer.keys()


@pytest.mark.parametrize("family", ["mixtral", "deepseek_v3", "gpt_oss"])
def test_more_experts_a_token_than_there_are_is_refused(family: str) -> None:
    experts = weigh(family).model.fields
    number = next(
        experts[name] for name in ("num_local_experts", "n_routed_experts") if name in experts
    )
    every = weigh(family, fields={"num_experts_per_tok": number})
    assert every.active == every.parameters
    with pytest.raises(ConfigError, match=rf"num_experts_per_tok = {number + 1}"):
        _ = weigh(family, fields={"num_experts_per_tok": number + 1}).active
