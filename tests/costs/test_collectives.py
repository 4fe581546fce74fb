"""The collectives of a step, counted in torch on a fake process group."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from weighbridge.answers.weigh import weigh
from weighbridge.costs.collectives import BACKWARD, FORWARD, Collective, Pass, collectives
from weighbridge.costs.optimizers import precision_called
from weighbridge.costs.parallel import ParallelDivision, ParallelPlan

if TYPE_CHECKING:
    from collections.abc import Iterable

# transformers' plans want whole heads on each of 64 ranks; the vocabulary is not divisible.
LLAMA = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 3,
    "head_dim": 6,
    "num_attention_heads": 64,
    "num_key_value_heads": 64,
    "vocab_size": 101,
}
MIXTRAL = {**LLAMA, "num_local_experts": 64, "num_experts_per_tok": 2}
QWEN3_MOE = {
    **LLAMA,
    "num_experts": 64,
    "moe_intermediate_size": 64,
    "num_experts_per_tok": 3,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [1],
}
GPT2 = {"n_embd": 36, "n_layer": 3, "n_head": 4, "vocab_size": 77, "n_positions": 19}
MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "llama": ("llama", "LlamaForCausalLM", LLAMA),
    "gpt2": ("gpt2", "GPT2LMHeadModel", GPT2),
    "mixtral": ("mixtral", "MixtralForCausalLM", MIXTRAL),
    "qwen3_moe": ("qwen3_moe", "Qwen3MoeForCausalLM", QWEN3_MOE),
}
LAYERS = {"gpt2": "transformer.h"} | dict.fromkeys(
    ("llama", "mixtral", "qwen3_moe"), "model.layers"
)
WORLDS = (2, 4, 8, 64)
SIZES = (2, 5)
TOKENS = 10


def division_of(family: str) -> ParallelDivision:
    model_type, class_name, fields = MODELS[family]
    return ParallelDivision(weigh({"model_type": model_type, **fields}, class_name).ledger)


def by_direction(found: Iterable[Collective]) -> tuple[Counter[Any], Counter[Any]]:
    """Return the calls of the forward and of the backward pass, as torch's are counted."""
    counts: dict[str, Counter[Any]] = {FORWARD: Counter(), BACKWARD: Counter()}
    for one in found:
        counts[one.direction][one.kind, one.bytes] += one.count
    return counts[FORWARD], counts[BACKWARD]


@pytest.mark.torch
@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("family", MODELS)
def test_fsdp2_calls_these_collectives(family: str, *, checkpointing: bool) -> None:
    pytest.importorskip("torch")
    from counted_collectives import fully_sharded_calls

    division = division_of(family)
    step = Pass(5, 1, precision_called("fsdp"), checkpointing)
    for world in WORLDS:
        ours = by_direction(collectives(division, ParallelPlan(data=world, zero=3), step))
        theirs = fully_sharded_calls(
            MODELS[family], LAYERS[family], world, checkpointing=checkpointing
        )
        assert ours == theirs, world


@pytest.mark.torch
@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("family", ["llama", "mixtral", "qwen3_moe"])
def test_tensor_parallel_plans_call_these_collectives(family: str, *, checkpointing: bool) -> None:
    pytest.importorskip("torch")
    from counted_collectives import tensor_parallel_calls

    division = division_of(family)
    for precision in ("fp32", "bf16"):
        step = Pass(TOKENS, 1, precision_called(precision), checkpointing)
        for world in WORLDS if precision == "fp32" else (2,):
            ours = by_direction(collectives(division, ParallelPlan(tensor=world), step))
            theirs = tensor_parallel_calls(
                MODELS[family],
                world,
                SIZES,
                checkpointing=checkpointing,
                precision=precision,
            )
            assert ours == theirs, (precision, world)


@pytest.mark.torch
@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("family", ["mixtral", "qwen3_moe"])
def test_expert_parallel_plans_call_these_collectives(family: str, *, checkpointing: bool) -> None:
    pytest.importorskip("torch")
    from counted_collectives import expert_parallel_calls

    division = division_of(family)
    step = Pass(TOKENS, 1, precision_called("fp32"), checkpointing)
    for world in WORLDS:
        plan = ParallelPlan(data=world, expert=world)
        ours = by_direction(
            one for one in collectives(division, plan, step) if one.over == "experts"
        )
        theirs = expert_parallel_calls(MODELS[family], world, SIZES, checkpointing=checkpointing)
        assert ours == theirs, world


def test_no_least_is_more_than_what_is_sent() -> None:
    division = division_of("qwen3_moe")
    for plan in (
        ParallelPlan(tensor=8),
        ParallelPlan(data=8),
        ParallelPlan(data=8, zero=1),
        ParallelPlan(data=8, zero=2),
        ParallelPlan(data=8, zero=3),
        ParallelPlan(data=8, expert=4, zero=3),
        ParallelPlan(tensor=2, data=4, pipeline=3, zero=3),
    ):
        for micro_batches in (1, 3):
            step = Pass(TOKENS, micro_batches, precision_called("fsdp"), recomputes=True)
            found = collectives(division, plan, step)
            assert found
            for one in found:
                assert 0 <= one.least <= one.total_bytes, one


def test_copies_of_each_expert_are_fewer_than_those_of_other_weights() -> None:
    division = division_of("qwen3_moe")
    step = Pass(TOKENS, 1, precision_called("fp32"))
    ranks = {
        expert: {
            one.ranks
            for one in collectives(division, ParallelPlan(data=8, expert=expert, zero=3), step)
            if one.over == "copies"
        }
        for expert in (1, 4, 8)
    }
    assert ranks == {1: {8}, 4: {8, 2}, 8: {8}}


def test_the_stages_of_a_pipeline_together_call_what_one_stage_would() -> None:
    division = division_of("llama")
    step = Pass(TOKENS, 1, precision_called("fp32"))
    whole = by_direction(collectives(division, ParallelPlan(tensor=4), step))[1]
    parts: Counter[Any] = Counter()
    for stage in range(3):
        plan = ParallelPlan(tensor=4, pipeline=3)
        parts += by_direction(collectives(division, plan, step, stage))[1]
    assert parts == whole
