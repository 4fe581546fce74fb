"""How many micro-batches a stage of a pipeline holds: torch's schedules, in processes on gloo.

Run as a program with a file, the stages, micro-batches and chunks, it prints a JSON line for each
schedule and rank.
"""

from __future__ import annotations

import json
import sys
import weakref
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch import nn
from torch.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
)

_ROWS, _WIDTH = 2, 16  # of one micro-batch


class Sizes(NamedTuple):
    """The sizes of a pipeline. Without ``chunks`` nothing is interleaved."""

    stages: int
    micro_batches: int
    chunks: int

    @property
    def schedules(self) -> tuple[str, ...]:
        """The schedules that are run."""
        return ("1f1b", "gpipe", *(("interleaved",) if self.chunks else ()))


class _Kept:
    """What autograd keeps of a tensor; it lives as long as the graph."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor


class Counter:
    """Counts the saved bytes that are alive, and the most that ever were."""

    def __init__(self, modules: list[nn.Module]) -> None:
        self._weights = {
            weight.untyped_storage()._cdata for module in modules for weight in module.parameters()
        }
        self.now = self.most = 0

    def keep(self, tensor: torch.Tensor) -> Any:
        """Count a tensor until it is dropped."""
        if tensor.untyped_storage()._cdata in self._weights:
            return tensor
        kept, size = _Kept(tensor), tensor.numel() * tensor.element_size()
        self.now += size
        self.most = max(self.most, self.now)
        weakref.finalize(kept, self._drop, size)
        return kept

    def _drop(self, size: int) -> None:
        self.now -= size


def _schedule(name: str, rank: int, sizes: Sizes) -> tuple[Any, list[nn.Module]]:
    def loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return (outputs - targets).sum()  # saves nothing

    # An activation saves its output once, so that one stage of a micro-batch is one tensor.
    chunks = sizes.chunks if name == "interleaved" else 1
    modules: list[nn.Module] = [nn.Linear(_WIDTH, _WIDTH, bias=False) for _ in range(chunks)]
    stages = [
        PipelineStage(module, rank + sizes.stages * at, sizes.stages * chunks, torch.device("cpu"))
        for at, module in enumerate(modules)
    ]
    if name == "interleaved":
        return ScheduleInterleaved1F1B(stages, sizes.micro_batches, loss_fn=loss), modules
    kind = {"1f1b": Schedule1F1B, "gpipe": ScheduleGPipe}[name]
    return kind(stages[0], sizes.micro_batches, loss_fn=loss), modules


def _work(rank: int, file: str, sizes: Sizes) -> None:
    torch.set_num_threads(1)
    store = dist.FileStore(file, sizes.stages)
    dist.init_process_group("gloo", rank=rank, world_size=sizes.stages, store=store)
    inputs = torch.randn(_ROWS * sizes.micro_batches, _WIDTH)
    for name in sizes.schedules:
        schedule, modules = _schedule(name, rank, sizes)
        counter = Counter(modules)
        given = [inputs] if rank == 0 else []
        target = {"target": inputs} if rank == sizes.stages - 1 else {}
        with torch.autograd.graph.saved_tensors_hooks(
            counter.keep, lambda kept: kept.tensor if isinstance(kept, _Kept) else kept
        ):
            schedule.step(*given, **target)
        of_one = _ROWS * _WIDTH * 4
        sys.stdout.write(json.dumps([name, rank, counter.most / of_one]) + "\n")
        sys.stdout.flush()
    dist.destroy_process_group()


if __name__ == "__main__":
    given = Sizes(*map(int, sys.argv[2:]))
    torch.multiprocessing.spawn(_work, args=(sys.argv[1], given), nprocs=given.stages)
