"""A config as transformers saves it is read without a note."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from weighbridge import weigh

if TYPE_CHECKING:
    from pathlib import Path

transformers = pytest.importorskip("transformers")

FAMILIES = (
    "albert bart bert blip clip deberta-v2 deepseek_v3 detr distilbert electra gemma3 gpt2 gpt_oss"
    " llama llava mistral mixtral modernbert olmo2 opt phi3 qwen2 qwen2_vl qwen3 qwen3_moe roberta"
    " siglip swin t5 vit wav2vec2 whisper xlm-roberta"
)


@pytest.mark.parametrize("is_full", [False, True])
@pytest.mark.parametrize("family", FAMILIES.split())
def test_no_note_is_made_on_what_saving_writes(family: str, is_full: bool, tmp_path: Path) -> None:
    config = transformers.AutoConfig.for_model(family)
    if is_full:
        (tmp_path / "config.json").write_text(config.to_json_string(use_diff=False))
    else:
        config.save_pretrained(tmp_path)
    weighing = weigh(tmp_path, strict=True)
    predicted = [note for note in weighing.notes if "multi-token prediction" in note]
    assert weighing.notes == predicted
    assert len(predicted) == (family == "deepseek_v3")  # whose checkpoints hold such a layer
    stated = json.loads((tmp_path / "config.json").read_text())
    assert stated["model_type"] == family
