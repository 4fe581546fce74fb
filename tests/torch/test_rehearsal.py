"""A rehearsal predicts the peak of a step: for six families, at drawn shapes, trained and not."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

from weighbridge.derive.operations.workload import Workload, built_in_dtype, inputs
from weighbridge.derive.running.runs import reference
from weighbridge.models.find import find
from weighbridge.torch.rehearsal import live_peak_bytes, rehearsed_peak_bytes

torch.set_num_threads(1)

WITHIN = 0.03  # of the measured peak
SHAPES = 8
CLASSES = {
    "bert": "BertForMaskedLM",
    "gpt2": "GPT2LMHeadModel",
    "llama": "LlamaForCausalLM",
    "mixtral": "MixtralForCausalLM",
    "t5": "T5ForConditionalGeneration",
    "vit": "ViTForImageClassification",
}


def drawn(family: str, number: int) -> dict[str, Any]:
    """A small config: in some draws the weights take most of the memory, in others the tensors."""
    dice = random.Random(f"{family} {number}")  # noqa: S311
    heads, head_size = dice.choice([2, 3, 4]), dice.choice([8, 16, 24])
    hidden, inner, layers = heads * head_size, 8 * dice.randint(4, 24), dice.randint(1, 2)
    vocabulary, tied = dice.randint(20, 900), {"tie_word_embeddings": number % 2 == 0}
    usual = {
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
    }
    key_value = {"num_key_value_heads": dice.choice([1, heads]), "vocab_size": vocabulary}
    experts = {"num_local_experts": dice.randint(2, 5), "num_experts_per_tok": 2}
    return {
        "bert": {**usual, "vocab_size": vocabulary, **tied},
        "gpt2": {"n_embd": hidden, "n_head": heads, "n_layer": layers, "vocab_size": vocabulary}
        | tied,
        "llama": {**usual, **key_value, **tied},
        "mixtral": {**usual, **key_value, **experts, **tied},
        "t5": {
            "d_model": hidden,
            "d_kv": head_size,
            "d_ff": inner,
            "num_layers": 1,
            "num_heads": heads,
            "vocab_size": vocabulary,
        }
        | tied,
        "vit": {**usual, "image_size": 4 * dice.randint(3, 8), "patch_size": 4},
    }[family]


@pytest.mark.sampled(
    "src/weighbridge/torch", "src/weighbridge/costs", "src/weighbridge/answers/measure"
)
@pytest.mark.parametrize("training", [False, True], ids=["forward", "training"])
@pytest.mark.parametrize("family", CLASSES)
def test_the_peak_is_predicted_within_3_percent(family: str, *, training: bool) -> None:
    subject = reference().FamilySubject(family)
    subject.task_classes()
    ratios = []
    for number in range(SHAPES):
        changes, dice = drawn(family, number), random.Random(number)  # noqa: S311
        fields = find(family, changes).fields
        run = Workload(CLASSES[family], changes, dice.randint(1, 5), dice.randint(2, 90))
        run = run._replace(
            attention=("eager", "sdpa")[number // 2 % 2],
            dtype=("F32", "BF16")[number // 4],
            training=training,
            target=dice.randint(2, 90),
        )
        predicted = rehearsed_peak_bytes(subject, run, fields, "cpu", ours=False)
        module = built_in_dtype(subject, run, "cpu")
        measured = live_peak_bytes(module, inputs(run, fields), training=training)
        ratios.append(predicted / measured)
    assert ratios == pytest.approx([1] * SHAPES, abs=WITHIN)
