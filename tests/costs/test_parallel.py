"""How a model is divided, held against torch: FSDP2, tensor parallel and pipelines."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from math import prod
from pathlib import Path
from typing import Any

import pytest

from weighbridge.answers.weigh import weigh
from weighbridge.costs.activations import Held
from weighbridge.costs.optimizers import optimizer_called, precision_called
from weighbridge.costs.parallel import (
    ParallelDivision,
    ParallelPlan,
    Rank,
    in_flight,
    piece,
    stage_layers,
)
from weighbridge.costs.training import TrainingStep, rank_memory
from weighbridge.errors import UsageError

LLAMA = {
    "hidden_size": 48,
    "intermediate_size": 88,
    "num_hidden_layers": 3,
    "head_dim": 6,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "vocab_size": 101,
}
GPT2 = {"n_embd": 36, "n_layer": 3, "n_head": 4, "vocab_size": 77, "n_positions": 19}
MIXTRAL = {**LLAMA, "num_local_experts": 5, "num_experts_per_tok": 2}
QWEN3_MOE = {
    **LLAMA,
    "num_experts": 6,
    "moe_intermediate_size": 20,
    "num_experts_per_tok": 2,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
}
FAMILIES = {
    "llama": ("LlamaForCausalLM", LLAMA, "model.layers"),
    "gpt2": ("GPT2LMHeadModel", GPT2, "transformer.h"),
    "mixtral": ("MixtralForCausalLM", MIXTRAL, "model.layers"),
    "qwen3_moe": ("Qwen3MoeForCausalLM", QWEN3_MOE, "model.layers"),
}
WORLDS = (2, 3, 8, 64, 1024)


def division_of(family: str) -> ParallelDivision:
    class_name, fields, _ = FAMILIES[family]
    return ParallelDivision(weigh({"model_type": family, **fields}, class_name).ledger)


def held(division: ParallelDivision, plan: ParallelPlan, rank: Rank) -> dict[str, int]:
    """Return the elements of each tensor that a rank of ours holds."""
    found = {}
    for part in division.parts(plan, rank):
        size = prod(part.shape)
        if plan.zero:
            size = part.shard(plan.copy_of(part, rank)) // part.times
        for layer in part.layers or (0,):
            found[part.name.replace("{i}", str(layer))] = size
    return found


def some_ranks(world: int) -> list[int]:
    return sorted({0, 1, world // 2, world - 1})


@pytest.mark.sampled("src/weighbridge/costs")
@pytest.mark.torch
@pytest.mark.parametrize("family", FAMILIES)
def test_fully_sharded_ranks_hold_what_fsdp2_gives_them(family: str) -> None:
    pytest.importorskip("torch")
    from fake_ranks import fully_sharded

    division = division_of(family)
    for world in WORLDS:
        for rank in some_ranks(world):
            ours = held(division, ParallelPlan(data=world, zero=3), Rank(copy=rank))
            assert ours == fully_sharded(family, *FAMILIES[family], rank, world), (world, rank)


@pytest.mark.torch
@pytest.mark.parametrize("family", ["llama", "mixtral", "qwen3_moe"])
def test_tensor_parallel_ranks_hold_what_transformers_plans_give_them(family: str) -> None:
    pytest.importorskip("torch")
    from fake_ranks import sharded_both_ways, tensor_parallel

    class_name, fields, layers = FAMILIES[family]
    division = division_of(family)
    for world in (2, 4):
        for rank in range(world):
            ours = held(division, ParallelPlan(tensor=world), Rank(tensor=rank))
            theirs = tensor_parallel(family, class_name, fields, rank, world)
            assert ours == theirs, (world, rank)
    for copies, tensor in ((3, 4), (16, 2)):
        for copy, at in itertools.product((0, copies - 1), (0, tensor - 1)):
            plan = ParallelPlan(tensor=tensor, data=copies, zero=3)
            ours = held(division, plan, Rank(tensor=at, copy=copy))
            theirs = sharded_both_ways(
                family, class_name, fields, layers, (copy, at), (copies, tensor)
            )
            assert ours == theirs, (copies, tensor, copy, at)


@pytest.mark.torch
@pytest.mark.parametrize("family", ["mixtral", "qwen3_moe"])
def test_expert_parallel_ranks_hold_what_transformers_plans_give_them(family: str) -> None:
    pytest.importorskip("torch")
    from fake_ranks import expert_parallel

    class_name, fields, layers = FAMILIES[family]
    fields = {**fields, "num_local_experts" if family == "mixtral" else "num_experts": 12}
    division = ParallelDivision(weigh({"model_type": family, **fields}, class_name).ledger)
    for copies, experts in ((1, 2), (3, 3), (1, 6), (5, 2), (16, 4)):
        plan = ParallelPlan(data=copies * experts, expert=experts, zero=3)
        division.check(plan)
        for rank in some_ranks(plan.world):
            ours = held(division, plan, Rank(copy=rank))
            theirs = expert_parallel(family, class_name, fields, layers, rank, (copies, experts))
            assert ours == theirs, (copies, experts, rank)


def with_twelve_experts(family: str) -> dict[str, Any]:
    _, fields, _ = FAMILIES[family]
    return {**fields, "num_local_experts" if family == "mixtral" else "num_experts": 12}


def states_of(division: ParallelDivision, plan: ParallelPlan, rank: Rank) -> dict[str, int]:
    """Return the bytes of parameters, gradients and AdamW's states on a rank, all in F32."""
    nothing = Held({0: 0}, 0, 0)
    optimizer = optimizer_called("adamw")
    step = TrainingStep(plan, precision_called("fp32"), optimizer, 1, nothing, 0, nothing)
    return rank_memory(division, step, rank).states


@pytest.mark.torch
@pytest.mark.parametrize("family", ["mixtral", "qwen3_moe"])
def test_experts_and_tensors_are_divided_as_torch_divides_them(family: str) -> None:
    pytest.importorskip("torch")
    from fake_ranks import expert_and_tensor_parallel

    class_name, _, layers = FAMILIES[family]
    fields = with_twelve_experts(family)
    division = ParallelDivision(weigh({"model_type": family, **fields}, class_name).ledger)
    for sizes in ((1, 2, 2), (3, 2, 4), (5, 4, 2)):
        copies, experts, tensors = sizes
        plan = ParallelPlan(tensor=tensors, data=copies * experts, expert=experts, zero=3)
        division.check(plan)
        for ranks in ((0, 0, 0), (copies - 1, experts - 1, tensors - 1)):
            copy, expert, at = ranks
            rank = Rank(tensor=at, copy=copy * experts + expert)
            theirs, states = expert_and_tensor_parallel(
                (family, class_name, fields), layers, ranks, sizes
            )
            assert held(division, plan, rank) == theirs, (sizes, ranks)
            assert states_of(division, plan, rank)["optimizer"] == states, (sizes, ranks)


@pytest.mark.torch
@pytest.mark.parametrize("family", ["mixtral", "qwen3_moe"])
def test_a_step_with_experts_leaves_what_torch_leaves(family: str) -> None:
    pytest.importorskip("torch")
    from fake_ranks import trained_with_experts

    class_name, _, layers = FAMILIES[family]
    fields = with_twelve_experts(family)
    division = ParallelDivision(weigh({"model_type": family, **fields}, class_name).ledger)
    for copies, experts in ((1, 2), (3, 3), (16, 4)):
        plan = ParallelPlan(data=copies * experts, expert=experts, zero=3)
        for rank in (0, plan.world - 1):
            described = (family, class_name, fields)
            theirs = trained_with_experts(described, layers, rank, (copies, experts))
            assert states_of(division, plan, Rank(copy=rank)) == theirs, (copies, experts, rank)


@pytest.mark.torch
@pytest.mark.parametrize("family", FAMILIES)
def test_what_fsdp2_gathers_at_once_is_padded(family: str) -> None:
    pytest.importorskip("torch")
    from fake_ranks import gathered_by_group

    division = division_of(family)
    for world in (2, 7, 64):
        outside, layer = division.gathered_elements(ParallelPlan(data=world), Rank())
        groups = gathered_by_group(family, *FAMILIES[family], world)
        assert (outside, layer) == (groups[""], max(groups[name] for name in groups if name))


@pytest.mark.sampled("src/weighbridge/costs")
@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(4, 8, 2), (3, 7, 0)])
def test_stages_hold_as_many_micro_batches_as_torch_s_schedules(
    tmp_path: Path, sizes: tuple[int, int, int]
) -> None:
    pytest.importorskip("torch")
    import pipeline_ranks

    program, of_torch = Path(pipeline_ranks.__file__), pipeline_ranks.Sizes(*sizes)
    run = subprocess.run(
        [sys.executable, "-W", "ignore", program, tmp_path / "store", *map(str, sizes)],
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    counted = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("[")]
    assert len(counted) == len(of_torch.schedules) * of_torch.stages
    for schedule, rank, pieces in counted:
        chunks = of_torch.chunks if schedule == "interleaved" else 1
        plan = ParallelPlan(pipeline=of_torch.stages, schedule=schedule, chunks=chunks)
        assert in_flight(plan, rank, of_torch.micro_batches) * chunks == pieces


def test_the_ranks_of_a_plan_together_hold_each_parameter_once() -> None:
    division = division_of("mixtral")
    whole = division.ledger.parameters
    for plan in (
        ParallelPlan(data=7, zero=3),
        ParallelPlan(pipeline=3),
        ParallelPlan(data=4, pipeline=2, zero=3),
        ParallelPlan(data=10, expert=5, zero=3),
        ParallelPlan(data=5, expert=5, context=2, zero=3),
    ):
        ranks = [
            Rank(copy=copy, stage=stage)
            for copy in range(plan.copies if plan.zero else 1)
            for stage in range(plan.pipeline)
        ]
        assert sum(division.elements(plan, rank) for rank in ranks) == whole, plan


def test_layers_go_to_stages_once_and_in_order() -> None:
    for layers, stages, chunks in itertools.product((7, 8, 61, 126), (1, 2, 4, 5), (1, 2)):
        if stages * chunks <= layers:
            found = stage_layers(layers, stages, chunks)
            assert sorted(itertools.chain(*found)) == list(range(layers))
            assert max(map(len, found)) - min(map(len, found)) <= chunks


@pytest.mark.parametrize("size", [1, 5, 97, 1024])
def test_pieces_add_up_and_are_those_of_torch_chunk(size: int) -> None:
    for parts in (1, 2, 3, 8, 1024):
        pieces = [piece(size, parts, at) for at in range(parts)]
        assert sum(pieces) == size
        assert sorted(pieces, reverse=True) == pieces


def test_keys_and_values_with_few_heads_are_copied() -> None:
    division = division_of("llama")
    ours = held(division, ParallelPlan(tensor=8), Rank(tensor=5))
    assert ours["model.layers.0.self_attn.k_proj.weight"] == 6 * 48
    assert ours["model.layers.0.self_attn.q_proj.weight"] == 6 * 48


def test_a_plan_that_does_not_divide_the_model_is_refused() -> None:
    division = division_of("mixtral")
    wrong: list[dict[str, Any]] = [
        {"tensor": 3},
        {"pipeline": 4},
        {"data": 3, "expert": 3},
        {"data": 3, "expert": 5},
    ]
    for sizes in wrong:
        with pytest.raises(UsageError):
            division.check(ParallelPlan(**sizes))
