"""What a rank really holds: transformers' models, divided by torch on a fake process group.

A fake group computes nothing and sends nothing, so one process can be any rank of any world.
"""

from __future__ import annotations

from contextlib import contextmanager
from math import prod
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
import transformers
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Shard, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def rank_of(number: int, world: int) -> Iterator[None]:
    """Be one rank of a world for a while."""
    dist.init_process_group("fake", rank=number, world_size=world, store=FakeStore())
    try:
        yield
    finally:
        dist.destroy_process_group()


def model_on_meta(model_type: str, class_name: str, fields: dict[str, Any]) -> Any:
    """Return a model of transformers without memory."""
    config = transformers.CONFIG_MAPPING[model_type](**fields)
    with torch.device("meta"):
        return getattr(transformers, class_name)(config)


def held_elements(model: Any) -> dict[str, int]:
    """Return the elements of each parameter that this rank holds."""
    return {
        name: (tensor.to_local() if hasattr(tensor, "to_local") else tensor).numel()
        for name, tensor in model.named_parameters()
    }


def fully_sharded(
    model_type: str, class_name: str, fields: dict[str, Any], layers: str, rank: int, world: int
) -> dict[str, int]:
    """Return what a rank holds of each parameter with FSDP2, each layer a group of its own."""
    with rank_of(rank, world):
        model = model_on_meta(model_type, class_name, fields)
        mesh = init_device_mesh("cpu", (world,))
        for layer in model.get_submodule(layers):
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
        return held_elements(model)


def tensor_parallel(
    model_type: str, class_name: str, fields: dict[str, Any], rank: int, world: int
) -> dict[str, int]:
    """Return what a rank holds of each parameter by transformers' own plan."""
    from transformers.distributed import DistributedConfig
    from transformers.distributed.tensor_parallel import apply_tensor_parallelism

    with rank_of(rank, world):
        mesh = init_device_mesh("cpu", (world,), mesh_dim_names=("tp",))
        model = model_on_meta(model_type, class_name, fields)
        plans = model._resolve_parallel_plans(DistributedConfig(tp_size=world))
        apply_tensor_parallelism(model, mesh, plans[0])
        return held_elements(model)


def sharded_both_ways(
    model_type: str,
    class_name: str,
    fields: dict[str, Any],
    layers: str,
    ranks: tuple[int, int],
    sizes: tuple[int, int],
) -> dict[str, int]:
    """Return what a rank holds with tensor parallelism inside FSDP2.

    ``ranks`` and ``sizes`` are those of the copies and of tensor parallelism.
    """
    from transformers.distributed import DistributedConfig
    from transformers.distributed.tensor_parallel import apply_tensor_parallelism

    with rank_of(ranks[0] * sizes[1] + ranks[1], sizes[0] * sizes[1]):
        mesh = init_device_mesh("cpu", sizes, mesh_dim_names=("dp", "tp"))
        model = model_on_meta(model_type, class_name, fields)
        plans = model._resolve_parallel_plans(DistributedConfig(tp_size=sizes[1]))
        apply_tensor_parallelism(model, mesh["tp"], plans[0])
        for layer in model.get_submodule(layers):
            fully_shard(layer, mesh=mesh["dp"])
        fully_shard(model, mesh=mesh["dp"])
        return held_elements(model)


def gathered_by_group(
    model_type: str, class_name: str, fields: dict[str, Any], layers: str, world: int
) -> dict[str, int]:
    """Return how many elements FSDP2 gathers for each layer, and, with no name, for the rest."""
    with rank_of(0, world):
        model = model_on_meta(model_type, class_name, fields)
        mesh = init_device_mesh("cpu", (world,))
        modules = dict(model.get_submodule(layers).named_children())
        for layer in modules.values():
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
        found = {}
        for name, module in {"": model, **modules}.items():
            group = module._get_fsdp_state()._fsdp_param_group
            sizes = (entry.padded_sharded_param_size.numel() for entry in group.fsdp_params)
            found[name] = world * sum(sizes)
        return found


def expert_parallel(
    model_type: str,
    class_name: str,
    fields: dict[str, Any],
    layers: str,
    rank: int,
    sizes: tuple[int, int],
) -> dict[str, int]:
    """Return what a rank holds by transformers' own plans, and FSDP2 over the ranks that are left.

    ``sizes`` are the copies of an expert and the ways of expert parallelism. Experts are divided
    over the copies that hold the same ones, all else over all copies.
    """
    from transformers.distributed import DistributedConfig
    from transformers.distributed.expert_parallel import apply_expert_parallelism

    copies, experts = sizes
    with rank_of(rank, copies * experts):
        mesh = init_device_mesh("cpu", (*sizes, 1), mesh_dim_names=("copies", "ep", "tp"))
        dense = mesh["copies", "ep"]._flatten("dense")
        model = model_on_meta(model_type, class_name, fields)
        config = DistributedConfig(ep_size=experts, fsdp_size=copies * experts)
        _, plan, _ = model._resolve_parallel_plans(config)
        apply_expert_parallelism(model, mesh["ep"], mesh["tp"], plan)
        for layer in model.get_submodule(layers):
            fully_shard(layer.mlp.experts, mesh=mesh["copies"])
            fully_shard(layer, mesh=dense)
        fully_shard(model, mesh=dense)
        return held_elements(model)


def expert_and_tensor_parallel(
    described: tuple[str, str, dict[str, Any]],
    layers: str,
    ranks: tuple[int, int, int],
    sizes: tuple[int, int, int],
) -> tuple[dict[str, int], int]:
    """Return what a rank holds of a model divided both ways inside FSDP2, and bytes of states.

    ``ranks`` and ``sizes`` are those of the copies of an expert, of expert and of tensor
    parallelism. Transformers' plan divides all but the experts; experts are divided as torchtitan's
    ExpertTensorParallel does it: by number, then by the outputs or inputs of each. The states are
    those of AdamW after a step.
    """
    from transformers.distributed import DistributedConfig
    from transformers.distributed.tensor_parallel import apply_tensor_parallelism

    (copy, expert, at), (_, experts, tensors) = ranks, sizes
    with rank_of((copy * experts + expert) * tensors + at, prod(sizes)):
        mesh = init_device_mesh("cpu", sizes, mesh_dim_names=("copies", "ep", "tp"))
        dense = mesh["copies", "ep"]._flatten("dense")
        model = model_with_zeros(described)
        plan = model._resolve_parallel_plans(DistributedConfig(tp_size=tensors))[0]
        is_dense = {name: how for name, how in plan.items() if ".experts" not in name}
        apply_tensor_parallelism(model, mesh["tp"], is_dense)
        for layer in model.get_submodule(layers):
            divide_experts(layer.mlp.experts, mesh["ep", "tp"])
            fully_shard(layer.mlp.experts, mesh=mesh["copies"])
            fully_shard(layer, mesh=dense)
        fully_shard(model, mesh=dense)
        return held_elements(model), adamw_bytes(model)


def model_with_zeros(described: tuple[str, str, dict[str, Any]]) -> Any:
    """Return a small model of transformers with memory."""
    model_type, class_name, fields = described
    return model_on_meta(model_type, class_name, fields).to_empty(device="cpu")


def divide_experts(experts: Any, mesh: Any) -> None:
    """Divide the matrices of experts over a mesh of expert and tensor parallelism."""
    for name, inputs_or_outputs in (("gate_up_proj", 1), ("down_proj", 2)):
        places = [Shard(0), Shard(inputs_or_outputs)]
        weight = distribute_tensor(getattr(experts, name).data, mesh, places, src_data_rank=None)
        setattr(experts, name, torch.nn.Parameter(weight))


def adamw_bytes(model: Any) -> int:
    """Return the bytes of AdamW's states on this rank after a step."""
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    for weight in model.parameters():
        if weight.grad is None:
            weight.grad = torch.zeros_like(weight)
    optimizer.step()
    states = [value for state in optimizer.state.values() for value in state.values()]
    return sum(local_bytes(state) for state in states)


def local_bytes(tensor: Any) -> int:
    """Return the bytes of a tensor that this rank holds."""
    local = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return int(local.numel() * local.element_size())


def trained_with_experts(
    described: tuple[str, str, dict[str, Any]], layers: str, rank: int, sizes: tuple[int, int]
) -> dict[str, int]:
    """Return the bytes of parameters, gradients and AdamW's states after a step on a rank.

    Experts are divided by transformers' own plan, and what is left by FSDP2, as `expert_parallel`
    does it; ``sizes`` are the same.
    """
    from counted_collectives import model_on_cpu, returning_what_was_sent
    from transformers.distributed import DistributedConfig
    from transformers.distributed.expert_parallel import apply_expert_parallelism

    copies, experts = sizes
    with rank_of(rank, copies * experts), returning_what_was_sent():
        mesh = init_device_mesh("cpu", (*sizes, 1), mesh_dim_names=("copies", "ep", "tp"))
        dense = mesh["copies", "ep"]._flatten("dense")
        model = model_on_cpu(described)
        config = DistributedConfig(ep_size=experts, fsdp_size=copies * experts)
        plan = model._resolve_parallel_plans(config)[1]
        apply_expert_parallelism(model, mesh["ep"], mesh["tp"], plan)
        for layer in model.get_submodule(layers):
            fully_shard(layer.mlp.experts, mesh=mesh["copies"])
            fully_shard(layer, mesh=dense)
        fully_shard(model, mesh=dense)
        ids = torch.zeros((1, 5), dtype=torch.long)
        model(input_ids=ids, labels=ids).loss.backward()
        weights = list(model.parameters())
        gradients = [weight.grad for weight in weights]
        assert all(gradient is not None for gradient in gradients)
        return {
            "parameters": sum(local_bytes(weight) for weight in weights),
            "gradients": sum(local_bytes(gradient) for gradient in gradients),
            "optimizer": adamw_bytes(model),
        }
