"""What a run will weigh, told before it starts; and what it did weigh.

The parameters and their bytes are the ledger's. What a text of so many tokens costs is found by running the model
itself on three short ones: the operations that PyTorch counts, and the bytes that it keeps for the backward pass, are
polynomials of the second degree in the number of tokens, which three values settle. A batch costs what its texts cost.

This is the seam for a prediction from recorded operations: what takes the place of `Costs` needs no more than `flops`
and `saved_bytes` of texts of so many tokens.
"""

from __future__ import annotations

import contextlib
import resource
import sys
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.flop_counter import FlopCounterMode

from weighbridge.ledger import bind
from weighbridge.units import stored_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torch import Tensor, nn

    from weighbridge.models import Model
    from weighbridge.torch.finetuning.plan import Plan

_LENGTHS = (4, 8, 12)  # tokens of the texts that are tried
_WEIGHTS = 4  # of each parameter: itself, its gradient, and two moments of AdamW


class Cost(NamedTuple):
    """What one forward and backward pass takes: the FLOPs of its matrix products, and the bytes kept between them."""

    flops: int
    saved_bytes: int


class Costs:
    """What texts of so many tokens cost a model, forward and backward."""

    def __init__(self, model: nn.Module) -> None:
        self._tried = [(length, measured(model, [length])) for length in _LENGTHS]
        self._known: dict[int, Cost] = {}

    def of(self, lengths: Iterable[int]) -> Cost:
        """Return what texts of these lengths cost together."""
        found = [self._of_one(length) for length in lengths]
        return Cost(sum(cost.flops for cost in found), sum(cost.saved_bytes for cost in found))

    def _of_one(self, length: int) -> Cost:
        if length not in self._known:
            points = [at for at, _ in self._tried]
            shares = [_share(points, at, length) for at in points]
            tried = [cost for _, cost in self._tried]
            self._known[length] = Cost(
                *(round(sum(share * cost[of] for share, cost in zip(shares, tried, strict=True))) for of in range(2))
            )
        return self._known[length]


def _share(points: Sequence[int], at: int, length: int) -> Fraction:
    """Return how much of the value at one point is in that at a length: Lagrange's polynomial."""
    share = Fraction(1)
    for other in points:
        if other != at:
            share *= Fraction(length - other, at - other)
    return share


def measured(model: nn.Module, lengths: Sequence[int]) -> Cost:
    """Run a model forward and backward on texts of so many tokens; count its FLOPs, and the bytes that it keeps.

    No weight changes, and no gradient stays.
    """
    device = next(model.parameters()).device
    longest, ids = max(lengths), torch.zeros(len(lengths), max(lengths), dtype=torch.long, device=device)
    mask = torch.tensor([[1] * length + [0] * (longest - length) for length in lengths], device=device)
    own = {tensor.untyped_storage().data_ptr() for tensor in (*model.parameters(), *model.buffers())}
    kept: dict[int, torch.UntypedStorage] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage
        return tensor

    was_training = model.training
    with torch.random.fork_rng(devices=[]), FlopCounterMode(display=False) as counter:
        with saved_tensors_hooks(keep, lambda tensor: tensor):
            loss = model.train()(ids, mask, ids * 0, labels=ids[:, 0]).loss
        saved = sum(storage.nbytes() for storage in kept.values())
        loss.backward()
    model.zero_grad(set_to_none=True)
    model.train(was_training)
    return Cost(int(counter.get_total_flops()), saved)


class Prediction(NamedTuple):
    """What a run will weigh. Memory is that of one process, at its heaviest piece."""

    parameters: int
    weight_bytes: int
    memory_bytes: int
    piece_flops: int
    run_flops: int
    run_tokens: int


def predict(
    model: Model, class_name: str, built: nn.Module, lengths: Sequence[int], plan: Plan
) -> tuple[Prediction, list[int]]:
    """Predict a run on texts of so many tokens; also return the lengths of the heaviest piece."""
    parameters = bind(model.blueprint, class_name, model.fields).parameters
    weight_bytes = stored_bytes(parameters, "F32")
    costs = Costs(built)
    flops = tokens = 0
    heaviest, most = [lengths[0]], Cost(0, 0)
    for step in range(plan.steps):
        for piece in range(plan.pieces):
            these = [lengths[row] for row in plan.piece(step, piece)]
            cost = costs.of(these)
            flops, tokens = flops + cost.flops, tokens + sum(these)
            if cost.saved_bytes > most.saved_bytes:
                heaviest, most = these, cost
    memory = _WEIGHTS * weight_bytes + most.saved_bytes
    return Prediction(parameters, weight_bytes, memory, most.flops, flops, tokens), heaviest


class Peak:
    """The most memory of the device that was in use since; or the most resident memory, above what it was before.

    ``held_bytes`` of what was resident before count as well: the weights, which are there already.
    """

    def __init__(self, device: torch.device, held_bytes: int) -> None:
        self._device = device
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w") as file:
            file.write("5")  # Linux: forget the peak so far
        self._before = 0 if device.type == "cuda" else _resident() - held_bytes

    @property
    def bytes(self) -> int:
        """The peak so far."""
        if self._device.type == "cuda":
            return torch.cuda.max_memory_allocated(self._device)
        return _most_resident() - self._before


def _resident() -> int:
    return _status("VmRSS") or _most_resident()


def _most_resident() -> int:
    unit = 1 if sys.platform == "darwin" else 1024
    return _status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _status(name: str) -> int:
    """Return what Linux says of this process, in bytes; 0 elsewhere."""
    with contextlib.suppress(OSError), open("/proc/self/status", encoding="ascii") as file:
        return next((int(line.split()[1]) * 1024 for line in file if line.startswith(name)), 0)
    return 0


def measure(model: nn.Module, heaviest: Sequence[int], peak: Peak) -> dict[str, Any]:
    """Return what the prediction is held against."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    memory = peak.bytes
    return {
        "parameters": sum(parameter.numel() for parameter in parameters),
        "weight_bytes": sum(parameter.numel() * parameter.element_size() for parameter in parameters),
        "memory_bytes": memory,
        "piece_flops": measured(model, heaviest).flops,
    }
