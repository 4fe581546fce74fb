"""What a step with experts takes does not depend on the routing: real runs at both ends of it.

The router's choice is replaced: all tokens go to the same experts, or each expert gets as many.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers

import weighbridge as wb
from weighbridge.derive.operations.recording import Matmul, Recording, record

torch.set_num_threads(1)

BATCH, SEQUENCE, EXPERTS, CHOSEN = 2, 12, 6, 2
SIZES = {
    "vocab_size": 60,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "intermediate_size": 32,
    "num_experts_per_tok": CHOSEN,
}
OF_EXPERTS = {
    "mixtral": {"num_local_experts": EXPERTS},
    "qwen3_moe": {"num_experts": EXPERTS, "moe_intermediate_size": 40, "norm_topk_prob": True},
    "olmoe": {"num_experts": EXPERTS},
}


def same(tokens: int) -> torch.Tensor:
    """All tokens choose the first experts, so that the others have none."""
    return torch.arange(CHOSEN).repeat(tokens, 1)


def spread(tokens: int) -> torch.Tensor:
    """Each expert is chosen as often."""
    return torch.arange(tokens * CHOSEN).reshape(tokens, CHOSEN) % EXPERTS


def routed(module: torch.nn.Module, choice: Any) -> list[torch.Tensor]:
    """Replace what routers choose, and return the list that will have what was chosen."""
    chosen: list[torch.Tensor] = []

    def replace(_: Any, __: Any, output: Any) -> Any:
        logits, weights, experts = output
        experts = experts.copy_(choice(len(experts)))
        chosen.append(experts.clone())
        return logits, weights, experts

    for name, part in module.named_modules():
        if name.endswith("mlp.gate"):
            part.register_forward_hook(replace)
    return chosen


def recorded(family: str, implementation: str, choice: Any) -> Recording:
    """Train a small class in BF16 on the CPU, and record its step."""
    config = transformers.AutoConfig.for_model(family, **SIZES, **OF_EXPERTS[family])
    config._attn_implementation, config._experts_implementation = "eager", implementation
    name = wb.cost({"model_type": family, **SIZES, **OF_EXPERTS[family]}).found.class_name
    usual = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        module = getattr(transformers, name)(config).train()
    finally:
        torch.set_default_dtype(usual)
    chosen = routed(module, choice)
    tokens = torch.zeros(BATCH, SEQUENCE, dtype=torch.long)
    found = record(module, {"input_ids": tokens, "labels": tokens.clone(), "use_cache": False})
    rows = torch.cat(chosen).flatten().bincount(minlength=EXPERTS)
    assert len(chosen) == SIZES["num_hidden_layers"]
    assert (rows.min() == rows.max()) is not (choice is same)
    return found


def flops(products: list[Matmul]) -> int:
    return sum(2 * part.batch * part.rows * part.inner * part.columns for part in products)


@pytest.mark.parametrize("choice", [same, spread])
@pytest.mark.parametrize("family", OF_EXPERTS)
def test_a_step_takes_what_is_predicted_at_both_ends_of_routing(family: str, choice: Any) -> None:
    cost = wb.cost(
        {"model_type": family, **SIZES, **OF_EXPERTS[family]},
        batch=BATCH,
        sequence=SEQUENCE,
        train=True,
        profile="cuda-eager",
        dtype="bf16",
    )
    found = recorded(family, "grouped_mm", choice)
    assert flops(found.forward) == cost.forward_matmul_flops
    assert flops(found.backward) == cost.backward_matmul_flops
    assert found.saved_bytes == cost.saved_for_backward_bytes


@pytest.mark.parametrize("family", OF_EXPERTS)
def test_experts_one_by_one_save_as_much_at_both_ends(family: str) -> None:
    one, other = (recorded(family, "eager", choice) for choice in (same, spread))
    assert len(one.saved) < len(other.saved)  # a tensor for each expert that is used
    assert one.saved_bytes == other.saved_bytes
    assert flops(one.forward) == flops(other.forward)
    assert flops(one.backward) == flops(other.backward)
