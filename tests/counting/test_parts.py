"""The numbers of a model's parts: against independent formulas, for several families."""

import pytest

from weighbridge.blueprint.schema import families
from weighbridge.counting.layers import divide
from weighbridge.counting.parts import PartName, parts_of
from weighbridge.ledger.ledger import Ledger, bind
from weighbridge.models.find import find


def ledger_of(name: str, class_name: str = "", **fields: object) -> Ledger:
    model = find(name, fields or None)
    return bind(model.blueprint, class_name or model.blueprint.base_class, model.fields)


def texts(name: str, number: int, class_name: str = "", lang: str = "en") -> list[str]:
    return [part.text(lang) for part in parts_of(ledger_of(name, class_name)).named(number)]


H, F, V, P, A = 768, 3072, 30_522, 512, 12
NORM = 2 * H
PROJECTION = H * H + H
FEED_FORWARD = 2 * H * F + F + H
LAYER = 4 * PROJECTION + FEED_FORWARD + 2 * NORM


@pytest.mark.parametrize(
    ("number", "first"),
    [
        (H * H, "pooler weight"),
        (PROJECTION, "pooler"),
        (4 * H * H, "attention of one layer, without biases"),
        (4 * PROJECTION, "attention of one layer"),
        (4 * PROJECTION + NORM, "attention with its norm of one layer"),
        (3 * PROJECTION, "attention query, key and value of one layer"),
        (FEED_FORWARD, "feed-forward of one layer"),
        (2 * H * F, "feed-forward of one layer, without biases"),
        (F * H + H, "feed-forward down of one layer"),
        (LAYER, "one layer"),
        (12 * LAYER, "all 12 layers"),
        (4 * H * H + 2 * H * F, "matrices of one layer"),
        (12 * (4 * H * H + 2 * H * F), "matrices of all 12 layers"),
        (12 * 4 * PROJECTION, "attention of all 12 layers"),
        (12 * FEED_FORWARD, "feed-forward of all 12 layers"),
        ((V + P + 2) * H + NORM, "embeddings"),
        ((V + P + 2) * H, "embeddings, without norms"),
        (V * H, "token embedding"),
        (P * H, "position embedding"),
        (2 * NORM, "norms of one layer"),
        (25 * NORM, "norms of the whole model"),
        (4 * H + F + H, "biases of one layer"),
        (3 * H * (H // A), "attention query, key and value, share of one head, without biases"),
        (4 * H * (H // A) + 3 * (H // A), "attention, share of one head"),
        ((V + P + 2) * H + NORM + 12 * LAYER + PROJECTION, "the whole model"),
    ],
)
def test_the_parts_of_bert_base_have_the_numbers_of_the_formulas(number: int, first: str) -> None:
    assert texts("bert-base-uncased", number)[0] == first


def test_all_readings_of_a_number_are_given_the_most_likely_first() -> None:
    assert texts("bert-base-uncased", H * H) == [
        "pooler weight",
        "attention query weight of one layer",
        "attention key weight of one layer",
        "attention value weight of one layer",
        "attention output weight of one layer",
    ]
    assert texts("bert-base-uncased", 4 * H * H)[1:] == [
        "feed-forward up weight of one layer",
        "feed-forward down weight of one layer",
    ]
    assert texts("bert-base-uncased", H * H + 1) == []
    assert "attention norm bias of one layer" in texts("bert-base-uncased", H)
    assert "attention query weights of all 12 layers" in texts("bert-base-uncased", 12 * H * H)
    assert "attention biases of one layer" in texts("bert-base-uncased", 4 * H)


@pytest.mark.parametrize(
    ("model", "class_name", "number", "first"),
    [
        ("bert-base-chinese", "BertModel", (21_128 + 512 + 2) * 768 + 1536, "embeddings"),
        ("meta-llama/Llama-2-7b-hf", "LlamaForCausalLM", 32_000 * 4096, "token embedding"),
        ("meta-llama/Llama-2-7b-hf", "LlamaForCausalLM", 4 * 4096**2, "attention of one layer"),
        (
            "meta-llama/Llama-2-7b-hf",
            "LlamaForCausalLM",
            3 * 4096 * 11_008,
            "feed-forward of one layer",
        ),
        (
            "meta-llama/Llama-2-7b-hf",
            "LlamaForCausalLM",
            4 * 4096**2 + 3 * 4096 * 11_008 + 2 * 4096,
            "one layer",
        ),
        (
            "meta-llama/Llama-2-7b-hf",
            "LlamaForCausalLM",
            2 * 32_000 * 4096,
            "token embedding and LM head",
        ),
        ("mistralai/Mixtral-8x7B-v0.1", "", 3 * 4096 * 14_336, "one expert"),
        ("mistralai/Mixtral-8x7B-v0.1", "", 8 * 3 * 4096 * 14_336, "experts of one layer"),
        (
            "mistralai/Mixtral-8x7B-v0.1",
            "",
            2 * 3 * 4096 * 14_336,
            "experts of one layer, active per token",
        ),
        ("mistralai/Mixtral-8x7B-v0.1", "", 8 * 4096, "router of one layer"),
        ("mistralai/Mixtral-8x7B-v0.1", "", 4096 * 14_336, "expert gate of one expert"),
        (
            "mistralai/Mixtral-8x7B-v0.1",
            "MixtralForCausalLM",
            12_879_925_248,
            "the whole model, active per token",
        ),
        ("t5-small", "", 6 * 3 * 1_048_576 + 256 + 12 * 512 + 512, "module `encoder`"),
        ("t5-small", "", 2 * 512 * 2048, "feed-forward of one layer"),
        ("t5-small", "", 4 * 512 * 512, "cross-attention of one layer"),
        ("t5-small", "", 4 * 512 * 512 + 256, "attention of layer 0"),
        ("gpt2", "", 768 * 2304, "attention query, key and value weight of one layer"),
        ("gpt2", "", 768 * 768 + 768, "attention query of one layer"),
        ("gpt2", "", 4 * (768 * 768 + 768), "attention of one layer"),
        ("deepseek-ai/DeepSeek-V3", "", 3 * 7168 * 2048, "one expert"),
        ("deepseek-ai/DeepSeek-V3", "", 256 * 3 * 7168 * 2048, "experts of one layer"),
        ("deepseek-ai/DeepSeek-V3", "", 58 * 256 * 7168, "router of the 58 layers with it"),
    ],
)
def test_the_parts_of_other_families_have_the_numbers_of_the_formulas(
    model: str, class_name: str, number: int, first: str
) -> None:
    assert first in texts(model, number, class_name)[:2]


def test_layers_that_differ_are_told_apart() -> None:
    parts = parts_of(ledger_of("deepseek-ai/DeepSeek-V3"))
    layers = [name for number in parts.numbers for name in parts.named(number)]
    single = {name.which for name in layers if name.part == "layer" and not name.only}
    assert {"0–2", "3–60"} <= single
    norms = [name for name in layers if (name.part, name.layers) == ("attention.norm", 1)]
    assert [name.which for name in norms] == [""]


def test_a_layer_is_a_block_of_a_stage_and_not_half_a_block() -> None:
    swin = parts_of(ledger_of("microsoft/swin-tiny-patch4-window7-224"))
    blocks = {
        (name.which, name.layers, name.of_layers)
        for number in swin.numbers
        for name in swin.named(number)
        if name.part == "layer"
    }
    assert blocks == {
        ("0.0–0.1", 1, 12),
        ("1.0–1.1", 1, 12),
        ("2.0–2.5", 1, 12),
        ("3.0–3.1", 1, 12),
        ("", 12, 12),
    }
    # In this class an index numbers attention and feed-forward apart.
    encoder = parts_of(ledger_of("t5-small", "T5EncoderModel"))
    assert "one layer (layers 1–5)" in [name.text() for name in encoder.named(3_146_752)]


def test_a_part_of_both_stacks_names_no_stack() -> None:
    parts = parts_of(ledger_of("t5-small"))
    (shared,) = [name for name in parts.named(2 * 512 * 2048) if name.part == "ffn"]
    assert shared.stack == ""
    layers = {name.stack for name in parts.named(4 * 262_144 + 2 * 1_048_576 + 1024)}
    assert layers == {"encoder.block"}


# fun_asr_nano_encoder has nothing outside its layers, and some models have a list of heads.
@pytest.mark.parametrize("family", ["fun_asr_nano_encoder", "mobilevitv2", "cvt", *families()[::7]])
def test_every_family_has_a_total_and_words_for_all_its_parts(family: str) -> None:
    ledger = ledger_of(family)
    parts = parts_of(ledger)
    assert parts.named(ledger.parameters)[0].part == "model"
    for number in parts.numbers:
        for name in parts.named(number):
            assert name.parameters == number
            assert 0 < name.layers <= name.of_layers or name.layers == 0
            for lang in ("en", "zh"):
                text = name.text(lang)
                assert text.strip(" ,，")
                assert "{" not in text


def test_the_tensors_divided_are_those_of_the_ledger() -> None:
    for family in families()[::11]:
        ledger = ledger_of(family)
        outside, kinds = divide(ledger)
        total = sum(tensor.elements * count for tensor, count in outside if not tensor.tied)
        for kind in kinds:
            of_layer = sum(item.elements * count for item, count in kind.contents if not item.tied)
            total += len(kind.layers) * of_layer
        assert total == ledger.parameters


def test_the_work_does_not_grow_with_the_number_of_experts() -> None:
    few = divide(ledger_of("deepseek_v3", n_routed_experts=8, n_group=1, topk_group=1))
    many = divide(ledger_of("deepseek_v3"))
    sizes = [[len(kind.contents) for kind in division.kinds] for division in (few, many)]
    assert sizes[0] == sizes[1]


def test_a_part_is_ready_for_json_and_found_in_a_range() -> None:
    parts = parts_of(ledger_of("bert-base-uncased"))
    assert [name.text() for name in parts.within(LAYER - 10, LAYER + 10)] == ["one layer"]
    assert parts.named(LAYER)[0].to_dict() == {
        "part": "layer",
        "parameters": LAYER,
        "tensors": 16,
        "layers": 1,
        "of_layers": 12,
        "stack": "",
        "which": "",
        "without": [],
        "only": "",
        "per": "",
        "tied": False,
        "path": "",
    }
    assert PartName("attention.query", 1, 1, 1, 12, only="weight").text("zh") == (
        "一层的自注意力查询 Q 权重"
    )
