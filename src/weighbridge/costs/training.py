"""The memory of a training step on each rank: a maximum over moments.

At each moment a rank holds its parameters, gradients and the states of its optimizer, the
activations of the micro-batches in flight, what ZeRO gathers, and what single operations need. What
the allocator, CUDA and NCCL take is not in it.
"""

from __future__ import annotations

from math import ceil, prod

from weighbridge.costs.parallel import EVERYTHING, Rank, in_flight, stage_layers
from weighbridge.lean_typing import TYPE_CHECKING, NamedTuple
from weighbridge.units import stored_bytes

if TYPE_CHECKING:
    from weighbridge.costs.activations import Held
    from weighbridge.costs.adapting import Adapting
    from weighbridge.costs.optimizers import Optimizer, Precision
    from weighbridge.costs.parallel import ParallelDivision, ParallelPlan

_OPTIMIZER, _GRADIENTS = 1, 2  # the stages of ZeRO that divide these

KINDS = ("parameters", "gradients", "optimizer", "activations", "gathered", "transient")
"""What the bytes of a moment are, in the order in which they are listed."""
MOMENTS = ("loss", "backward", "step")
"""The end of the forward pass, the start of the first layer's backward pass, the optimizer."""


class Moment(NamedTuple):
    """A moment of a step, and what a rank holds then, by kind, in bytes."""

    name: str
    held: dict[str, int]

    @property
    def bytes(self) -> int:
        """The bytes of all kinds."""
        return sum(self.held.values())


class RankMemory(NamedTuple):
    """What a rank holds at each moment; ``ranks`` others hold no more."""

    rank: Rank
    number: int
    ranks: int
    moments: tuple[Moment, ...]

    @property
    def peak(self) -> Moment:
        """The moment at which it holds most; of equal ones the first."""
        return max(self.moments, key=lambda moment: moment.bytes)

    @property
    def states(self) -> dict[str, int]:
        """Its parameters, gradients and states, which are the same at every step's end."""
        held = self.moments[-1].held
        return {name: held[name] for name in KINDS[:3]}


class TrainingStep(NamedTuple):
    """What all ranks of a step have in common.

    ``saved`` is what a micro-batch leaves for the backward pass, ``again`` what a layer holds while
    it is computed again, and ``outputs`` the largest outputs of products. ``adapter`` is what is
    trained in place of the model, which is frozen then. ``of_loss`` is the largest tensor that the
    loss saves.
    """

    plan: ParallelPlan
    precision: Precision
    optimizer: Optimizer
    micro_batches: int
    saved: Held
    again: int
    outputs: Held
    adapter: Adapting | None = None
    of_loss: int = 0


def rank_memory(
    division: ParallelDivision, step: TrainingStep, rank: Rank, ranks: int = 1
) -> RankMemory:
    """Return what a rank holds at each moment of a step that is not the first."""
    plan, precision = step.plan, step.precision
    states = _states(division, step, rank)
    gathered = _gathered(division, step, rank)
    activations = _activations(division, step, rank)
    transient = max(2 * _largest_output(step, rank), _gradients_of_loss(step, rank))
    updated = _updated_bytes(division, step, rank)
    keeps_gradients = step.micro_batches > 1 or precision.gradients != precision.parameters
    first = {**states, "gradients": states["gradients"] if keeps_gradients else 0}
    moments = (
        Moment(
            "loss",
            {**first, "activations": activations, "gathered": gathered, "transient": transient},
        ),
        Moment(
            "backward",
            {
                **states,
                "activations": _of_one_layer(step),
                "gathered": gathered + _whole_gradients(division, step, rank),
                "transient": 2 * step.outputs.by_layer[0],
            },
        ),
        Moment(
            "step",
            {
                **states,
                "activations": 0,
                "gathered": 0,
                "transient": step.optimizer.temporaries * updated,
            },
        ),
    )
    return RankMemory(rank, rank.number(plan), ranks, moments)


def _updated_bytes(division: ParallelDivision, step: TrainingStep, rank: Rank) -> int:
    """Return the bytes of what the optimizer updates on a rank."""
    plan, is_divided = step.plan, step.plan.zero >= _OPTIMIZER
    if step.adapter is not None:
        elements = step.adapter.elements(plan.copies if is_divided else 1)
        return stored_bytes(elements, step.adapter.dtype)
    count = division.shard_elements if is_divided else division.whole_elements
    return stored_bytes(count(plan.ways, rank), step.precision.updated)


def _states(division: ParallelDivision, step: TrainingStep, rank: Rank) -> dict[str, int]:
    """Return the bytes of parameters, gradients and states, as ZeRO divides them."""
    if step.adapter is not None:
        return _states_of_adapter(division, step, step.adapter, rank)
    key = (step.plan.ways, step.plan.zero, step.precision.name, step.optimizer.name, rank)
    if key not in division.states:
        division.states[key] = _computed_states(division, step, rank)
    return division.states[key]


def _computed_states(division: ParallelDivision, step: TrainingStep, rank: Rank) -> dict[str, int]:
    plan, precision = step.plan, step.precision
    whole = division.whole_elements(plan.ways, rank)
    shard = division.shard_elements(plan.ways, rank) if plan.zero else whole
    parameters = shard if plan.zero == EVERYTHING else whole
    gradients = shard if plan.zero >= _GRADIENTS else whole
    optimizer = _state_bytes(division, step, rank)
    if precision.master:
        optimizer += stored_bytes(shard, precision.master)
    if precision.main_gradients:
        optimizer += stored_bytes(shard, precision.main_gradients)
    return {
        "parameters": stored_bytes(parameters, precision.parameters),
        "gradients": stored_bytes(gradients, precision.gradients),
        "optimizer": optimizer,
    }


def _states_of_adapter(
    division: ParallelDivision, step: TrainingStep, adapter: Adapting, rank: Rank
) -> dict[str, int]:
    """Return the bytes of a frozen model and its adapter, and of the adapter's states."""
    plan = step.plan
    base = ceil(division.elements(plan, rank) * adapter.bits / 8)
    whole, shard = adapter.elements(), adapter.elements(plan.copies)
    parameters, gradients, updated = (
        stored_bytes(shard if plan.zero >= stage else whole, adapter.dtype)
        for stage in (EVERYTHING, _GRADIENTS, _OPTIMIZER)
    )
    share = updated / stored_bytes(whole, adapter.dtype)
    states = sum(step.optimizer.state_bytes(shape, adapter.dtype) for shape in adapter.shapes)
    shared = step.optimizer.shared_bytes(prod(shape) for shape in adapter.shapes)
    return {
        "parameters": base + parameters,
        "gradients": gradients,
        "optimizer": ceil(states * share) + shared,
    }


def _state_bytes(division: ParallelDivision, step: TrainingStep, rank: Rank) -> int:
    plan, total, sizes = step.plan, 0, set()
    for part in division.parts(plan, rank):
        size = prod(part.shape)
        if plan.zero >= _OPTIMIZER:
            size = part.shard(plan.copy_of(part, rank)) // part.times
        sizes.add(size)
        one = step.optimizer.state_bytes(
            part.shape, step.precision.updated, size=size, in_layer=bool(part.layers)
        )
        total += one * part.times
    return total + step.optimizer.shared_bytes(sizes)


def _gathered(division: ParallelDivision, step: TrainingStep, rank: Rank) -> int:
    """Return the bytes of parameters that a rank holds besides its own while it computes."""
    precision = step.precision
    if step.plan.zero == EVERYTHING and step.plan.copies > 1:
        return stored_bytes(
            sum(division.gathered_elements(step.plan.ways, rank)), precision.gathered
        )
    if precision.cast:
        return stored_bytes(division.whole_elements(step.plan.ways, rank), precision.cast)
    return 0


def _whole_gradients(division: ParallelDivision, step: TrainingStep, rank: Rank) -> int:
    """Return the bytes of a layer's gradients before they are divided."""
    if step.plan.zero < _GRADIENTS or step.plan.copies == 1 or step.adapter is not None:
        return 0
    _, layer = division.gathered_elements(step.plan.ways, rank)
    return stored_bytes(layer, step.precision.gathered)


def _activations(division: ParallelDivision, step: TrainingStep, rank: Rank) -> int:
    """Return the bytes of the micro-batches in flight, and of a layer that is computed again."""
    plan, saved = step.plan, step.saved
    flying = in_flight(plan, rank.stage, step.micro_batches)
    layers = stage_layers(division.layers, plan.pipeline, plan.chunks)[rank.stage]
    of_layer = saved.by_layer
    held = sum([of_layer.get(layer, 0) for layer in layers])
    if rank.stage == 0:
        held += saved.first
    total = ceil(held * flying)
    if rank.stage == plan.pipeline - 1:
        total += saved.last
    return total + step.again


def _gradients_of_loss(step: TrainingStep, rank: Rank) -> int:
    """Return the bytes of gradients as large as what the loss saves, and in the same dtype.

    One is that of the chosen logarithms, most of it 0, and one that of the logits (torch's
    `nll_loss_backward`, `_log_softmax_backward_data`). Tensor-parallel ranks compute both at once,
    with one more (torch/distributed/tensor/parallel/loss.py, `_nll_loss_and_log_softmax_backward`).
    """
    if rank.stage < step.plan.pipeline - 1:
        return 0
    return step.of_loss * (2 if step.plan.tensor == 1 else 3)


def _of_one_layer(step: TrainingStep) -> int:
    return max(step.again, max(step.saved.by_layer.values(), default=0))


def _largest_output(step: TrainingStep, rank: Rank) -> int:
    """Return the bytes of the largest output of a product on a rank."""
    sizes = [step.outputs.by_layer[0]]
    if rank.stage == 0:
        sizes.append(step.outputs.first)
    if rank.stage == step.plan.pipeline - 1:
        sizes.append(step.outputs.last)
    return max(sizes)
