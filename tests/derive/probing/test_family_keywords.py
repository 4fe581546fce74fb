"""Keywords that a config class reads: fields, older names of fields, or neither."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from weighbridge.algebra.rewrite import field_names
from weighbridge.blueprint.schema import load
from weighbridge.derive.probing.probe import quick_building
from weighbridge.derive.probing.reference import FamilySubject
from weighbridge.derive.prove import prove_class
from weighbridge.errors import ConfigError
from weighbridge.models.find import find

if TYPE_CHECKING:
    from weighbridge.algebra.expr import Tree


@pytest.mark.parametrize(
    ("family", "taken"),
    [
        ("qwen3_next", {"full_attention_interval": 4}),
        ("axk1", {"first_k_dense_replace": 1, "moe_layer_freq": 1}),
        (
            "gemma4",
            {"text_config.global_head_dim": 512, "text_config.num_global_key_value_heads": None},
        ),
        ("deberta", {"pooler_hidden_size": None}),
        ("kimi_linear", {"first_k_dense_replace": 1, "linear_attn_config": None}),
        ("deepseek_v4", {"num_hash_layers": None, "qk_rope_head_dim": None}),
        ("bloom", {}),  # n_embed is another name of hidden_size
        ("lfm2", {}),  # tie_embedding, a flag, is another name of tie_word_embeddings
        ("bart", {}),  # num_labels is a property
        ("t5", {}),  # tie_word_embeddings is a field
        ("clip", {}),  # text_config_dict repeats text_config
        ("bert", {}),
    ],
)
def test_a_keyword_that_does_not_become_a_field_can_be_turned(
    family: str, taken: dict[str, Any]
) -> None:
    assert FamilySubject(family).taken == taken


@pytest.mark.parametrize(
    ("family", "older"),
    [
        ("bloom", {"n_embed": "hidden_size"}),
        ("lfm2", {"block_ff_dim": "intermediate_size", "tie_embedding": "tie_word_embeddings"}),
        ("nemotron_h", {"mamba_dt_limit": "time_step_limit", "mamba_dt_min": "time_step_min"}),
        ("deepseek_v4", {"compress_ratios": "layer_types"}),
        ("nemotron_h", {"hybrid_override_pattern": "layers_block_type"}),
        ("nemotron_h", {"mtp_hybrid_override_pattern": "mtp_layers_block_type"}),
        ("detr", {"backbone": "backbone_config.backbone"}),
        ("step3p7", {"vision_config.width": "vision_config.hidden_size"}),
    ],
)
def test_a_keyword_whose_value_becomes_a_field_s_is_another_name_of_it(
    family: str, older: dict[str, str]
) -> None:
    subject = FamilySubject(family)
    found = subject.aliases([*subject.fields(subject.config({}))])
    assert {old: found.get(old) for old in older} == older


@pytest.mark.parametrize(
    ("family", "words"),
    [
        (
            "nemotron_h",
            {
                name: {"M": "linear_attention", "E": "moe", "*": "full_attention", "-": "mlp"}
                for name in ("layers_block_type", "mtp_layers_block_type")
            },
        ),
        (
            "deepseek_v4",
            {
                "layer_types": {
                    "0": "sliding_attention",
                    "4": "compressed_sparse_attention",
                    "128": "heavily_compressed_attention",
                }
            },
        ),
        ("qwen3_next", {}),
    ],
)
def test_the_words_of_an_older_name_are_those_of_a_table_in_the_code(
    family: str, words: dict[str, dict[str, str]]
) -> None:
    assert FamilySubject(family).words == words


# Sub-configs that are null by default


def test_a_sub_config_that_is_null_by_default_can_be_turned_if_its_model_type_is_fixed() -> None:
    assert FamilySubject("gemma4").optional == {
        "vision_config": "gemma4_vision",
        "audio_config": "gemma4_audio",
    }
    assert FamilySubject("dpt").optional == {}
    assert "backbone_config" in FamilySubject("dpt").taken
    assert FamilySubject("bert").optional == FamilySubject("clip").optional == {}


def test_a_null_sub_config_is_a_field_without_fields_of_its_own() -> None:
    subject = FamilySubject("gemma4")
    changes = {
        "vision_config": {},
        "vision_config.hidden_size": 64,
        "audio_config": None,
        "audio_config.hidden_size": 8,
    }
    assert subject.nested(changes) == {
        "vision_config": {"hidden_size": 64},
        "audio_config": None,
    }
    fields = subject.fields(subject.config(changes))
    assert (
        fields["vision_config"],
        fields["audio_config"],
        fields["vision_config.hidden_size"],
    ) == ({}, None, 64)
    assert "audio_config.hidden_size" not in fields
    assert subject.fields(subject.config({}))["vision_config"] is None
    knobs = {knob.path: knob.value for knob in subject.knobs(changes)}
    assert (knobs["vision_config"], knobs["audio_config"], knobs["vision_config.hidden_size"]) == (
        {},
        None,
        64,
    )
    assert {
        "vision_config",
        "vision_config.head_dim",
        "audio_config.hidden_size",
    } <= subject.stated.keys()
    assert subject.sub_configs.keys() >= {"text_config", "vision_config", "audio_config"}


@pytest.fixture(scope="module")
def gemma() -> FamilySubject:
    return FamilySubject("gemma4_text")


def test_a_keyword_is_a_field_with_the_default_of_its_read(
    gemma: FamilySubject,
) -> None:
    usual, other = (
        gemma.fields(gemma.config(changes)) for changes in ({}, {"global_head_dim": 64})
    )
    assert (usual["global_head_dim"], other["global_head_dim"]) == (512, 64)
    assert {knob.path: knob.value for knob in gemma.knobs({"global_head_dim": 64})}[
        "global_head_dim"
    ] == 64
    assert gemma.stated["global_head_dim"] == 512


def test_values_computed_from_a_keyword_remember_it(gemma: FamilySubject) -> None:
    with quick_building():
        probe = gemma.probe("Gemma4TextModel", {"num_hidden_layers": 6})
    used: list[Tree] = [tree for tensor in probe.tensors.values() for tree in tensor.dims]
    assert "global_head_dim" in {name for tree in used for name in field_names(tree)}
    plain = gemma.probe("Gemma4TextModel", {"num_hidden_layers": 6}, labels=False)
    assert plain.outline == probe.outline


def test_no_value_is_tried_for_dicts_and_excluded_keywords() -> None:
    for family, untried in (
        ("kimi_linear", {"linear_attn_config"}),
        ("step3p7", {"text_config.moe_layers_enum", "text_config.moe_layer_freq"}),
    ):
        subject = FamilySubject(family)
        assert untried <= subject.taken.keys()
        assert not untried & {knob.path for knob in subject.knobs({})}


def test_a_name_that_is_never_tried_is_refused() -> None:
    message = "sets backbone_kwargs, which the blueprint of omdet-turbo does not cover"
    with pytest.raises(ConfigError, match=message):
        find({"model_type": "omdet-turbo", "backbone_kwargs": {"out_indices": [1]}})


def test_a_sub_config_whose_model_type_is_free_is_refused() -> None:
    changes = {
        "model_type": "embedding_gemma2",
        "vision_config": {"model_type": "clip_vision_model"},
    }
    with pytest.raises(ConfigError, match="covers only gemma4_vision as its vision_config"):
        find(changes)


@pytest.mark.parametrize(
    ("family", "changes"),
    [
        ("qwen3_next", {"full_attention_interval": 2}),
        ("axk1", {"first_k_dense_replace": 2, "moe_layer_freq": 2, "num_hidden_layers": 5}),
        (
            "gemma4_text",
            {"global_head_dim": 64, "num_global_key_value_heads": 2, "attention_k_eq_v": True},
        ),
        ("gemma4_text", {"global_head_dim": 64, "num_global_key_value_heads": 2}),
        (
            "deepseek_v4",
            {
                "compress_ratios": [128, 128, 4, 128, 0, 4],
                "num_hidden_layers": 4,
                "num_hash_layers": 1,
            },
        ),
        ("nemotron_h", {"hybrid_override_pattern": "M-M*E"}),
        ("deberta", {"pooler_hidden_size": 96}),
        ("lfm2", {"tie_embedding": False}),
        ("gemma4", {"vision_config": {}}),
        ("gemma4", {"audio_config": {}, "audio_config.num_hidden_layers": 2}),
        (
            "gemma4",
            {
                "vision_config": {},
                "vision_config.hidden_size": 96,
                "text_config.global_head_dim": 64,
            },
        ),
    ],
)
def test_a_config_with_such_a_keyword_weighs_what_the_reference_counts(
    family: str, changes: dict[str, Any]
) -> None:
    subject, blueprint = FamilySubject(family), load(family)
    subject.task_classes()
    for class_name in blueprint.class_names:
        for config in (changes, {}):
            found = prove_class(blueprint, subject, class_name, [config])
            assert found == (class_name, 1, [], [config])


@pytest.mark.parametrize(
    ("family", "replaced"),
    [
        ("clip", {"text_config_dict": "text_config", "vision_config_dict": "vision_config"}),
        ("bridgetower", {}),  # reads both and uses neither
        ("bert", {}),
    ],
)
def test_an_object_may_stand_for_a_sub_config(family: str, replaced: dict[str, str]) -> None:
    aliases = FamilySubject(family).aliases(())
    assert {name: place for name, place in aliases.items() if name.endswith("_dict")} == replaced


def test_a_sub_config_that_is_null_has_no_fields() -> None:
    subject = FamilySubject("gemma4_unified")
    tie = "vision_config.tie_word_embeddings"
    assert tie not in subject.fields(subject.config({}))
    assert tie in subject.fields(subject.config({"vision_config": {}}))


def test_an_optional_sub_config_of_any_type_is_given_with_its_usual_type() -> None:
    subject = FamilySubject("embedding_gemma2")
    towers = {"vision_config": "gemma4_vision", "audio_config": "gemma4_audio"}
    assert subject.optional == towers
    nested = subject.nested({"vision_config": {}, "vision_config.hidden_size": 64})
    assert nested == {"vision_config": {"model_type": "gemma4_vision", "hidden_size": 64}}
