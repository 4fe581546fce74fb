"""Fields that model code reads and no config class declares can be turned, at every level."""

from __future__ import annotations

from typing import Any

import pytest

from weighbridge.derive.probing.reference import FamilySubject
from weighbridge.derive.probing.unlisted_fields import model_code


@pytest.mark.parametrize(
    ("family", "path", "default"),
    [
        ("qwen2", "head_dim", None),
        ("internvl", "text_config.head_dim", None),  # the code of qwen2 reads it
        ("parakeet_ctc", "encoder_config.head_dim", None),  # a class of parakeet's own code
        ("chameleon", "vq_config.beta", 0.25),
        ("encoder-decoder", "decoder.cross_attention_hidden_size", None),
        ("deberta", "talking_head", False),
    ],
)
def test_a_field_that_the_code_reads_and_no_class_declares(
    family: str, path: str, default: Any
) -> None:
    subject = FamilySubject(family)
    assert subject.unlisted[path] == default
    assert path in [knob.path for knob in subject.knobs({})]


def test_a_declared_field_is_not_among_them() -> None:
    assert "text_config.head_dim" not in FamilySubject("mistral3").unlisted  # mistral declares it


@pytest.mark.parametrize("family", ["paddleocr_vl", "hunyuan_vl"])
def test_a_name_that_the_config_class_hands_down_is_another_name(family: str) -> None:
    subject = FamilySubject(family)
    assert "head_dim" not in subject.unlisted
    assert subject.aliases(subject.fields(subject.config({})))["head_dim"] == "text_config.head_dim"


def test_a_config_class_may_have_no_model_code_beside_it() -> None:
    assert model_code("transformers.models.pp_chart2table.configuration_pp_chart2table") == ""
    assert "class BertModel" in model_code("transformers.models.bert.configuration_bert")


def test_a_sub_config_keeps_such_a_field() -> None:
    subject = FamilySubject("internvl")
    path = "text_config.head_dim"
    assert subject.fields(subject.config({}))[path] is None
    assert subject.fields(subject.config({path: 24}))[path] == 24
