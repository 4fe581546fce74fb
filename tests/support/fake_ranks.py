"""What a rank really holds: transformers' models, divided by torch on a fake process group.

A fake group computes nothing and sends nothing, so one process can be any rank of any world.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
import transformers
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
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
