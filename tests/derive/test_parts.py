"""The parts of a family that may be models of any type, and the trials of other types."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any

from weighbridge import data
from weighbridge.derive import parts
from weighbridge.derive.parts import with_parts
from weighbridge.derive.passes import CandidateBlueprint
from weighbridge.derive.probing.reference import FamilySubject
from weighbridge.derive.toml_text import blueprint_text

if TYPE_CHECKING:
    import pytest


def candidate(family: str) -> CandidateBlueprint:
    raw: dict[str, Any] = dict(data.read_toml(f"blueprints/{family}.toml"))
    raw.pop("parts", None)
    raw["proof"] = {key: value for key, value in raw["proof"].items() if key != "parts"}
    return CandidateBlueprint({"classes": {}, **raw})


def test_the_parts_that_an_auto_class_builds() -> None:
    found = FamilySubject("llava").parts("LlavaModel", {})
    assert found == {
        "vision_tower": ("vision_config", "AutoModel"),
        "language_model": ("text_config", "AutoModel"),
    }


def test_other_families_are_tried_as_a_part() -> None:
    subject = FamilySubject("fuyu")
    subject.task_classes()
    derived = with_parts(candidate("fuyu"), subject)
    assert derived.raw["parts"] == {"language_model": "text_config"}
    assert derived.raw["proof"]["parts"] == ["text_config: qwen2, gpt2"]
    assert derived.holes == ()
    text = blueprint_text(derived.raw, "FuyuConfig")
    assert tomllib.loads(text)["parts"] == {"language_model": "text_config"}


def test_a_part_that_another_family_changes_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "_first_other_tensor", lambda *_: "norm.weight is None, not 8")
    derived = with_parts(candidate("fuyu"), FamilySubject("fuyu"))
    assert "parts" not in derived.raw
    difference = "with qwen2, norm.weight is None, not 8"
    assert derived.holes == (f"text_config of another model type is not covered: {difference}",)


def test_older_model_types_of_a_sub_config() -> None:
    older = FamilySubject("kimi_k25").older_types
    assert older == {"text_config.model_type": {"kimi_k2": "deepseek_v3"}}


def test_a_model_type_without_a_base_class() -> None:
    assert FamilySubject("encoder-decoder").base_class == "EncoderDecoderModel"


def test_fields_that_only_the_outer_code_reads_of_a_sub_config() -> None:
    assert "decoder.cross_attention_hidden_size" in FamilySubject("encoder-decoder").unlisted
