"""Articles about parts that BERT lacks: roles select the sentences, dims give the shapes."""

import re
from typing import Any

import pytest
from arithmetic import chains, integers, value_of
from made_up import blueprint

from weighbridge import data
from weighbridge.answers.explain import Article, explain
from weighbridge.answers.sentences import Narrator
from weighbridge.answers.weigh import Weighing, weigh
from weighbridge.blueprint.schema import Blueprint
from weighbridge.data import LANGUAGES
from weighbridge.models.find import find

SIZES = {
    "vocab_size": 50,
    "hidden_size": 8,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 12,
}
EXPERTS = blueprint(
    "made_up_experts",
    defaults={
        **SIZES,
        "num_key_value_heads": 2,
        "head_dim": 3,
        "num_experts": 6,
        "num_experts_per_tok": 2,
    },
    repeat={"i": "num_hidden_layers"},
    tensors={
        "embed_tokens.weight": "vocab_size hidden_size",
        "layers.{i}.self_attn.q_proj.weight": "num_attention_heads*head_dim hidden_size",
        "layers.{i}.self_attn.k_proj.weight": "num_key_value_heads*head_dim hidden_size",
        "layers.{i}.self_attn.v_proj.weight": "num_key_value_heads*head_dim hidden_size",
        "layers.{i}.self_attn.o_proj.weight": "hidden_size num_attention_heads*head_dim",
        "layers.{i}.input_layernorm.weight": "hidden_size",
        "layers.{i}.post_attention_layernorm.weight": "hidden_size",
        "layers.{i}.mlp.gate.weight": "num_experts hidden_size",
        "layers.{i}.mlp.experts.gate_up_proj": "num_experts 2*intermediate_size hidden_size",
        "layers.{i}.mlp.experts.down_proj": "num_experts hidden_size intermediate_size",
        "norm.weight": "hidden_size",
    },
    active={"layers.{i}.mlp.experts": "num_experts_per_tok"},
    classes={
        "Head": {
            "prefix": "model",
            "tensors": {"lm_head.weight": "vocab_size hidden_size"},
            "ties": {"lm_head.weight": "model.embed_tokens.weight"},
            "modules": {"lm_head": "Linear"},
        }
    },
)
LATENT = blueprint(
    "made_up_latent",
    defaults={
        **SIZES,
        "kv_lora_rank": 5,
        "qk_rope_head_dim": 2,
        "qk_nope_head_dim": 3,
        "v_head_dim": 3,
    },
    repeat={"i": "num_hidden_layers"},
    tensors={
        "embed_tokens.weight": "vocab_size hidden_size",
        "layers.{i}.self_attn.q_proj.weight": (
            "num_attention_heads*(qk_nope_head_dim+qk_rope_head_dim) hidden_size"
        ),
        "layers.{i}.self_attn.kv_a_proj_with_mqa.weight": (
            "kv_lora_rank+qk_rope_head_dim hidden_size"
        ),
        "layers.{i}.self_attn.kv_a_layernorm.weight": "kv_lora_rank",
        "layers.{i}.self_attn.kv_b_proj.weight": (
            "num_attention_heads*(qk_nope_head_dim+v_head_dim) kv_lora_rank"
        ),
        "layers.{i}.self_attn.o_proj.weight": "hidden_size num_attention_heads*v_head_dim",
        "layers.{i}.mlp.gate_proj.weight": "intermediate_size hidden_size",
        "layers.{i}.mlp.up_proj.weight": "intermediate_size hidden_size",
        "layers.{i}.mlp.down_proj.weight": "hidden_size intermediate_size",
    },
)
TWO = blueprint(
    "made_up_two",
    defaults={**SIZES, "encoder_layers": 3, "decoder_layers": 2, "max_position_embeddings": 9},
    repeat={"i": "encoder_layers", "j": "decoder_layers"},
    tensors={
        "shared.weight": "vocab_size hidden_size",
        "encoder.embed_tokens.weight": "vocab_size hidden_size",
        **{
            f"encoder.layers.{{i}}.self_attn.{part}_proj.weight": "hidden_size hidden_size"
            for part in ("q", "k", "v")
        },
        "encoder.layers.{i}.self_attn.out_proj.weight": "hidden_size hidden_size",
        "encoder.layers.{i}.fc1.weight": "intermediate_size hidden_size",
        "encoder.layers.{i}.fc2.weight": "hidden_size intermediate_size",
        "decoder.embed_tokens.weight": "vocab_size hidden_size",
        "decoder.embed_positions.weight": "max_position_embeddings hidden_size",
        **{
            f"decoder.layers.{{j}}.encoder_attn.{part}_proj.weight": "hidden_size hidden_size"
            for part in ("q", "k", "v")
        },
        "decoder.layers.{j}.encoder_attn.out_proj.weight": "hidden_size hidden_size",
    },
    ties={
        "encoder.embed_tokens.weight": "shared.weight",
        "decoder.embed_tokens.weight": "shared.weight",
    },
)
STATE = blueprint(
    "made_up_state",
    defaults={
        "vocab_size": 50,
        "hidden_size": 8,
        "num_hidden_layers": 3,
        "state_size": 4,
        "inner": 16,
        "conv_kernel": 4,
    },
    repeat={"i": "num_hidden_layers"},
    tensors={
        "embeddings.weight": "vocab_size hidden_size",
        "layers.{i}.norm.weight": "hidden_size",
        "layers.{i}.mixer.A_log": "inner state_size",
        "layers.{i}.mixer.D": "inner",
        "layers.{i}.mixer.conv1d.weight": "inner 1 conv_kernel",
        "layers.{i}.mixer.in_proj.weight": "2*inner hidden_size",
        "layers.{i}.mixer.x_proj.weight": "2*state_size+1 inner",
        "layers.{i}.mixer.dt_proj.weight": "inner 1",
        "layers.{i}.mixer.out_proj.weight": "hidden_size inner",
    },
)
EYES = blueprint(
    "made_up_eyes",
    defaults={
        "text_config.hidden_size": 8,
        "text_config.num_hidden_layers": 2,
        "text_config.vocab_size": 50,
        "vision_config.hidden_size": 6,
        "vision_config.num_hidden_layers": 3,
        "vision_config.patch_size": 4,
        "vision_config.num_channels": 3,
    },
    configs={"text_config": "", "vision_config": ""},
    repeat={"i": "vision_config.num_hidden_layers", "j": "text_config.num_hidden_layers"},
    tensors={
        "vision_tower.embeddings.patch_embedding.weight": (
            "vision_config.hidden_size vision_config.num_channels"
            " vision_config.patch_size vision_config.patch_size"
        ),
        "vision_tower.layers.{i}.attn.qkv.weight": (
            "3*vision_config.hidden_size vision_config.hidden_size"
        ),
        "vision_tower.layers.{i}.attn.proj.weight": (
            "vision_config.hidden_size vision_config.hidden_size"
        ),
        "multi_modal_projector.linear_1.weight": (
            "text_config.hidden_size vision_config.hidden_size"
        ),
        "language_model.embed_tokens.weight": "text_config.vocab_size text_config.hidden_size",
        "language_model.layers.{j}.mlp.fc1.weight": (
            "4*text_config.hidden_size text_config.hidden_size"
        ),
        "language_model.layers.{j}.mlp.fc2.weight": (
            "text_config.hidden_size 4*text_config.hidden_size"
        ),
    },
)
ALL = {raw["family"]: raw for raw in (EXPERTS, LATENT, TWO, STATE, EYES)}


def article(raw: dict[str, Any], lang: str = "en", class_name: str = "Base", **fields: int) -> str:
    """Return an article on one line, so that line breaks do not hide a sentence."""
    return " ".join(written(raw, lang, class_name, **fields).split())


def written(raw: dict[str, Any], lang: str = "en", class_name: str = "Base", **fields: int) -> str:
    return Article(weighed(raw, class_name, **fields)).text(lang=lang)


def weighed(raw: dict[str, Any], class_name: str = "Base", **fields: int) -> Weighing:
    found = find("bert")._replace(
        blueprint=Blueprint(raw),
        fields={**raw["defaults"], **fields},
        where="made up",
        config={},
        given={},
        named_class=raw["class"],
    )
    return Weighing(found, class_name)


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("family", ALL)
def test_every_chain_holds_and_the_last_is_the_total(family: str, lang: str) -> None:
    found = list(chains(written(ALL[family], lang)))
    assert len(found) > 3
    for parts in found:
        assert len({value_of(part) for part in parts}) == 1, parts
    assert value_of(found[-1][-1]) == weighed(ALL[family]).parameters


@pytest.mark.parametrize("family", ALL)
def test_both_languages_give_the_same_numbers(family: str) -> None:
    english, chinese = (article(ALL[family], lang) for lang in LANGUAGES)
    assert [n for n in integers(english) if n > 24] == [n for n in integers(chinese) if n > 24]


def test_a_sentence_has_the_same_sizes_and_shapes_in_both_languages() -> None:
    for english, chinese in zip(*map(sentences, LANGUAGES), strict=True):
        marks = [
            set(re.findall(r"\{[^}]*\}|\$[^$]*\$", sentence.pop("text")))
            for sentence in (english, chinese)
        ]
        assert marks[0] == marks[1], english
        assert english == chinese, "their conditions are the same"


def sentences(lang: str) -> list[dict[str, Any]]:
    """Return a copy of every sentence that can have conditions."""
    texts = data.read_toml(f"words/explain.{lang}.toml")
    found = [
        *texts["pitfall"],
        *texts["uncounted"],
        *(sentence for section in texts["section"] for sentence in section["say"]),
    ]
    return [
        dict(sentence)
        for sentence in [
            *found,
            *(s for name in texts["component"] for s in texts["component"][name]),
        ]
    ]


def test_a_mixture_of_experts_has_a_total_and_active_parameters() -> None:
    text, weighing = article(EXPERTS), weighed(EXPERTS)
    assert f"so it passes through {weighing.ledger.active:,} parameters" in text
    assert (
        "gives each of the E experts a score, and the K = 2 experts with the highest scores" in text
    )
    assert "gate and up together E × 2F × H, down E × H × F" in text
    assert "each key-value head serves A/A_kv = 2 query heads" in text
    assert "only through the experts it is sent to, which have 3L·K·H·F = 1,728." in text
    together = "A heads together have A·D = 12 numbers, and H = 8."
    assert together in text
    assert "so it passes through" not in article(EXPERTS, num_experts_per_tok=6)


def test_key_and_value_of_as_many_heads_as_the_query_are_not_called_fewer() -> None:
    text = article(EXPERTS, num_key_value_heads=4)
    assert "grouped-query" not in text
    assert "Query, key and value are linear maps: A·D × H, A_kv·D × H and A_kv·D × H." in text


def test_a_tied_output_is_shown_and_not_counted_again() -> None:
    text = article(EXPERTS, class_name="Head")
    assert "Its weight is tied: it is the token embedding itself" in text
    assert "is the token embedding. Counting it twice makes the total 400 too high." in text
    assert "lm_head.weight V × H (shared)" in text


def test_latent_attention_is_explained_by_compression_and_expansion() -> None:
    text = article(LATENT)
    assert "One matrix, (R_kv + D_r) × H, compresses each token into R_kv numbers" in text
    assert "The query has no bottleneck: (A·D_n + A·D_r) × H." in text
    assert "Three matrices, not two: gate and up, F × H each" in text


def test_an_encoder_and_a_decoder_have_their_own_sections_and_letters() -> None:
    text = article(TWO)
    for heading in ("Encoder: layers", "Decoder: embeddings", "Decoder: layers"):
        assert heading in text
    assert "The L_e layers are alike" in text
    assert "The L_d layers are alike" in text
    assert "In a tensor name, {j} is the layer number, from 0 to 1." in text
    assert text.count("This is the same table again, so it is not counted a second time.") == 2


def test_one_part_alone_is_the_model() -> None:
    assert "Encoder" not in article(STATE)
    assert "Encoder:" not in article(
        {**TWO, "tensors": {n: d for n, d in TWO["tensors"].items() if n.startswith("encoder")}}
    )


def test_a_state_space_model_is_explained_without_attention() -> None:
    text = article(STATE)
    assert "The input projection, 2·inner × H, produces two streams" in text
    assert "The decay rates of the state" in text
    assert "rotation" not in text


def test_a_vision_model_has_parts_with_different_letters() -> None:
    text = article(EYES)
    assert "Vision encoder: embeddings" in text
    assert "Language model: layers" in text
    assert "Its shape is outputs × channels × patch sides: H_v × c × p × p" in text
    assert "The L_v layers are alike" in text
    assert "Query, key and value share one matrix, 3·H_v × H_v" in text
    assert "up, 4·H_t × H_t, and down again, H_t × 4·H_t" in text


def test_a_sentence_about_sizes_that_a_model_lacks_is_left_out() -> None:
    narrator = Narrator(weighed(STATE).ledger)
    assert narrator.can_fill("$H$ and $gamma$, $=H*state_size$")
    assert not narrator.can_fill("$A$")
    assert not narrator.can_fill("$=unheard_of$")
    assert not narrator.holds("A < H")
    assert narrator.holds("H < V")


def test_one_of_several_exclusive_sentences_is_written() -> None:
    weighing = weighed(STATE)
    narrator, entries = Narrator(weighing.ledger), weighing.ledger.entries
    sentences = [
        {"text": "a", "has": ["attention"]},
        {"else": True, "text": "b", "name": "first"},
        {"else": True, "text": "c"},
        {"text": "d", "unless": ["first"]},
        {"text": "e {shape[ssm.d]}", "lacks": ["attention"]},
        {"text": "f {shape[ssm]}"},
    ]
    assert list(narrator.narrate(sentences, entries, entries)) == ["b", "e $inner$"]


ROLES = (
    "has",
    "lacks",
    "same",
    "is",
    "kernels",
    "kind",
    "several",
    "single",
    "transposed",
    "of",
    "absent",
)
"""The conditions that name roles."""


def test_the_conditions_of_sentences_exist() -> None:
    facts = data.read_toml("facts/roles.toml")
    known = {"", *facts["roles"], *facts["components"]}
    known |= {role[: dot.start()] for role in facts["roles"] for dot in re.finditer(r"\.", role)}
    keys = {
        "text",
        "else",
        "name",
        "unless",
        "has",
        "lacks",
        "same",
        "is",
        "kernels",
        "kind",
        "knows",
        "inert",
        "unset",
        "several",
        "single",
        "transposed",
        "once",
        "where",
        "tied",
        "active",
    }
    for sentence in sentences("en"):
        asked = [role for key in ROLES for role in sentence.get(key, ())]
        asked += re.findall(r"\{shape\[([^\]]*)\]\}", sentence["text"])
        assert {role.partition(" ")[0] for role in asked} <= known, sentence
        assert sentence.keys() <= keys | {"of", "absent", "norms"}
    in_sections = [
        name
        for section in data.read_toml("words/explain.en.toml")["section"]
        for name in section["components"]
    ]
    of_checkpoints = {"quantization", "constant", "training"}  # only checkpoints have these
    assert sorted(in_sections) == sorted(set(facts["components"]) - of_checkpoints)


TOLD_OF = {
    "Heads do not multiply the count: A heads split the 3H outputs": [
        "gpt2",
        "bloom",
        "openai-gpt",
    ],
    "Heads do not multiply the count: A heads of D numbers": ["llama", "mistral", "t5"],
    "is set independently of the hidden size": [
        *("gemma", "gemma2", "glm4_moe", "gpt_oss", "mt5", "qwen3_next"),
    ],
    "(grouped-query attention)": ["mistral", "mixtral", "gemma2", "glm4_moe"],
    "(multi-query attention)": ["falcon"],
    "Keys and values are latent": ["deepseek_v2", "deepseek_v3"],
    "its class is called Conv1D": ["gpt2", "openai-gpt"],
    "The norms are RMSNorm": ["llama", "mixtral", "deepseek_v3", "gemma2", "qwen3_next", "phi3"],
    "(rotary position embedding, RoPE)": ["llama", "falcon", "gpt_neox", "gptj", "deepseek_v3"],
    "Positions are learned, not computed": ["bert", "gpt2", "roberta", "distilbert"],
    "The table is filled with sines and cosines": ["marian", "pegasus", "roformer"],
    "all use the same tensors": ["albert"],
    "There is more than one set of maps": ["longformer", "perceiver"],
    "applied to the vector of the first token": ["bert", "roberta", "longformer"],
    "Three matrices, not two": ["llama", "mt5", "gemma", "deepseek_v3"],
    "experts with the highest scores are used": ["mixtral", "deepseek_v3", "gpt_oss"],
    "Mean pooling. The average": ["bert", "llama", "t5"],
    "divides it by √d_k": ["bert", "llama", "vit", "deepseek_v3"],
    "no parameters for positions here": ["bloom", "mpt", "jamba"],
}
"""Families whose articles contain a sentence."""
ONLY_THERE = (
    "Heads do not multiply the count: A heads split the 3H outputs",
    "is set independently of the hidden size",
    "(multi-query attention)",
    "Keys and values are latent",
    "its class is called Conv1D",
    "The table is filled with sines and cosines",
    "all use the same tensors",
    "There is more than one set of maps",
    "no parameters for positions here",
)
"""The sentences that no other of these families has."""
FAMILIES = sorted(
    {family for families in TOLD_OF.values() for family in families}
    | {"convnext", "mamba", "rwkv", "swin", "wav2vec2", "whisper", "xlnet"}
)


@pytest.fixture(scope="module")
def articles() -> dict[str, str]:
    return {family: " ".join(explain(family).text().split()) for family in FAMILIES}


def test_a_sentence_is_in_the_articles_of_the_families_with_its_tensors(
    articles: dict[str, str],
) -> None:
    for sentence, families in TOLD_OF.items():
        for family in families:
            assert sentence in articles[family], (sentence, family)
    for words in ONLY_THERE:
        told = [family for family in articles if words in articles[family]]
        assert told == sorted(TOLD_OF[words]), words


def test_sentences_about_attention_are_not_told_of_models_without_it(
    articles: dict[str, str],
) -> None:
    for family in ("convnext", "mamba", "rwkv"):
        for words in ("Heads do not multiply", "W_O", "√d_k", "Mean pooling", "rotary"):
            assert words not in articles[family], (family, words)


def test_an_alibi_model_has_no_rotary_positions() -> None:
    assert "RoPE" in " ".join(explain("falcon").text().split())
    text = " ".join(explain("falcon", fields={"alibi": True}).text().split())
    assert "RoPE" not in text
    assert "no parameters for positions here" in text


def test_both_languages_tell_the_same_of_every_family() -> None:
    for family in FAMILIES:
        english, chinese = (explain(family).text(lang=lang) for lang in LANGUAGES)
        large = [[n for n in integers(text) if n > 24] for text in (english, chinese)]
        assert large[0] == large[1], family


def test_conditions_of_shapes_and_counts() -> None:
    weighing = weighed(TWO)
    narrator, entries = Narrator(weighing.ledger), weighing.ledger.entries
    decoder = [entry for entry in entries if entry.template.name.startswith("decoder")]
    encoder = [entry for entry in entries if entry.template.name.startswith("encoder")]

    def holds(around: Any, **sentence: Any) -> bool:
        return narrator.is_true(sentence, around, around)

    assert holds(encoder, single=["attention.query"])
    assert not holds(decoder, single=["attention.query"])
    assert holds(entries, several=["embedding.token"])
    assert not holds(encoder, several=["embedding.token", "attention.query"])
    assert holds(encoder, transposed=["ffn.up", "ffn.down"])
    assert not holds(encoder, transposed=["ffn.up", "attention.query"])
    assert not holds(decoder, transposed=["ffn.up", "ffn.down"])
    assert holds(encoder, **{"is": {"ffn.up": ["H F", "F H"]}})
    assert not holds(encoder, **{"is": {"ffn.up": ["H F", "H H"]}})


def test_conditions_of_configs_and_modules() -> None:
    weighing = weigh("bert")
    config = {"a.flag": True, "kind": "round", "off": False}
    narrator, entries = Narrator(weighing.ledger, config), weighing.ledger.entries

    def holds(**sentence: Any) -> bool:
        return narrator.is_true(sentence, entries, entries)

    assert holds(kind={"pooler": "Pooler"})
    assert holds(kind={"embedding.norm": "LayerNorm", "attention.query": "Attention"})
    assert not holds(kind={"attention.norm": "RMSNorm"})
    assert not holds(kind={"router": "Linear"}), "there is none"
    assert holds(knows=["unheard_of", "hidden_size"])
    assert holds(knows=["hidden_act"]), "an inert field is known"
    assert not holds(knows=["unheard_of"])
    assert holds(inert=["hidden_act"])
    assert not holds(inert=["hidden_act", "hidden_size"])
    assert holds(unset=["off", "unheard_of", "kind=square"])
    for statement in ("flag", "kind=round", "kind"):
        assert not holds(unset=[statement])


def test_a_sentence_for_one_place_is_written_once() -> None:
    weighing = weighed(STATE)
    narrator, entries = Narrator(weighing.ledger), weighing.ledger.entries
    sentences = [{"text": "a", "once": True}, {"text": "b"}]
    assert list(narrator.narrate(sentences, entries, entries)) == ["a", "b"]
    assert list(narrator.narrate(sentences, entries, entries)) == ["b"]
