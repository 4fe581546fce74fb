"""The collectives that torch really starts, counted while a model trains on a fake process group.

A fake group sends nothing, so one process can be any rank of any world; values are meaningless, but
which collectives are called, and the bytes of their tensors, are those of a real run.
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
import transformers
from fake_ranks import rank_of
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.utils._python_dispatch import TorchDispatchMode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Described = tuple[str, str, dict[str, Any]]
"""The type of a model, its class, and the fields of its config."""
KINDS = {
    "all_reduce": "all_reduce",
    "allreduce_": "all_reduce",
    "all_gather_into_tensor": "all_gather",
    "_allgather_base_": "all_gather",
    "reduce_scatter_tensor": "reduce_scatter",
    "_reduce_scatter_base_": "reduce_scatter",
    "all_to_all_single": "all_to_all",
    "alltoall_base_": "all_to_all",
}
"""The names of torch's operations, of both namespaces."""
NOT_SENT = {"wait_tensor", "_wrap_tensor_autograd"}


class CollectiveCounter(TorchDispatchMode):
    """Counts collectives by kind and by the bytes of the whole tensor.

    The whole tensor is what an all-gather returns and what the others are given.
    """

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[tuple[str, int]] = Counter()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        found = func(*args, **(kwargs or {}))
        namespace, _, name = func._schema.name.partition("::")
        if namespace in {"c10d", "_c10d_functional"} and name not in NOT_SENT:
            kind = KINDS[name]  # an operation that is not known is an error
            tensors = (
                tensors_of(found)
                if (namespace, kind) == ("_c10d_functional", "all_gather")
                else tensors_of(args)
            )
            if kind in {"all_gather", "reduce_scatter"}:
                tensors = [max(tensors, key=torch.Tensor.numel)]
            elif kind == "all_to_all":
                tensors = tensors[-1:]
            sizes = [tensor.numel() * tensor.element_size() for tensor in tensors]
            self.calls[kind, sum(sizes)] += 1
        return found


def tensors_of(value: Any) -> list[torch.Tensor]:
    """Return the tensors in an argument."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for one in value for tensor in tensors_of(one)]
    return []


def model_on_cpu(described: Described, *, checkpointing: bool = False) -> Any:
    """Return a small model of transformers with memory, for training."""
    model_type, class_name, fields = described
    config = transformers.CONFIG_MAPPING[model_type](**fields)
    config.use_cache = False
    config._experts_implementation = "eager"  # others want sizes that tiny models do not have
    model = getattr(transformers, class_name)(config).train()
    if checkpointing:
        model.activation_checkpointing_enable()
    return model


def counted(model: Any, batch: int, sequence: int) -> tuple[Counter[Any], Counter[Any]]:
    """Return the collectives of a forward and of a backward pass."""
    ids = torch.zeros((batch, sequence), dtype=torch.long)
    with CollectiveCounter() as forward:
        loss = model(input_ids=ids, labels=ids).loss
    with CollectiveCounter() as backward:
        loss.backward()
    return forward.calls, backward.calls


def fully_sharded_calls(
    described: Described,
    layers: str,
    world: int,
    *,
    checkpointing: bool = False,
) -> tuple[Counter[Any], Counter[Any]]:
    """Return the collectives of a step with FSDP2, each layer a group of its own.

    Parameters are gathered in BF16 and gradients reduced in F32. The first step, in which FSDP2
    learns the order of the groups, is not the one that is returned.
    """
    with rank_of(0, world):
        model = model_on_cpu(described, checkpointing=checkpointing)
        mesh = init_device_mesh("cpu", (world,))
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        for layer in model.get_submodule(layers):
            fully_shard(layer, mesh=mesh, mp_policy=policy)
        fully_shard(model, mesh=mesh, mp_policy=policy)
        counted(model, 1, 5)
        return counted(model, 1, 5)


def tensor_parallel_calls(
    described: Described,
    world: int,
    sizes: tuple[int, int],
    *,
    checkpointing: bool = False,
    precision: str = "fp32",
) -> tuple[Counter[Any], Counter[Any]]:
    """Return the collectives of a step with transformers' own plan of tensor parallelism.

    ``sizes`` are the batch and the sequence.
    """
    from transformers.distributed import DistributedConfig
    from transformers.distributed.tensor_parallel import apply_tensor_parallelism

    with rank_of(0, world):
        mesh = init_device_mesh("cpu", (world,), mesh_dim_names=("tp",))
        model = model_on_cpu(described, checkpointing=checkpointing)
        if precision == "bf16":
            model = model.to(torch.bfloat16)
        plans = model._resolve_parallel_plans(DistributedConfig(tp_size=world))
        apply_tensor_parallelism(model, mesh, plans[0])
        return counted(model, *sizes)


def expert_parallel_calls(
    described: Described,
    world: int,
    sizes: tuple[int, int],
    *,
    checkpointing: bool = False,
) -> tuple[Counter[Any], Counter[Any]]:
    """Return the collectives of a step with transformers' own plan of expert parallelism."""
    from transformers.distributed import DistributedConfig, expert_parallel

    with rank_of(0, world), returning_what_was_sent():
        mesh = init_device_mesh("cpu", (world, 1), mesh_dim_names=("ep", "tp"))
        model = model_on_cpu(described, checkpointing=checkpointing)
        plans = model._resolve_parallel_plans(DistributedConfig(ep_size=world, fsdp_size=world))
        expert_parallel.apply_expert_parallelism(model, mesh["ep"], mesh["tp"], plans[1])
        return counted(model, *sizes)


@contextmanager
def returning_what_was_sent() -> Iterator[None]:
    """Let each rank be sent as many tokens as it sends.

    How many the others send is in a message that a fake group does not bring.
    """
    from transformers.distributed import expert_parallel

    really_sent = expert_parallel.all_to_all_single

    def sent_and_returned(received: torch.Tensor, sent: torch.Tensor, **options: Any) -> None:
        really_sent(received, sent, **options)
        received.copy_(sent)

    expert_parallel.all_to_all_single = sent_and_returned
    try:
        yield
    finally:
        expert_parallel.all_to_all_single = really_sent
