"""Schedules of a pipeline: what each stage does when, if all passes forward take equally long.

1F1B: https://arxiv.org/abs/2006.09503; GPipe: https://arxiv.org/abs/1811.06965; interleaved 1F1B:
https://arxiv.org/abs/2104.04473, section 2.2. `tests/costs/test_schedule.py` holds the order of
the passes against torch's.
"""

from __future__ import annotations

from weighbridge.lean_typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from weighbridge.costs.parallel import ParallelPlan

FORWARD_TICKS = 1
BACKWARD_TICKS = 2  # two products for each one of the forward pass


class StagePass(NamedTuple):
    """One pass of a micro-batch through a piece of layers on a stage."""

    is_backward: bool
    micro_batch: int
    chunk: int = 0


class TimedPass(NamedTuple):
    """A pass with its start and its end, in ticks."""

    work: StagePass
    start: int
    end: int


def stage_order(plan: ParallelPlan, stage: int, micro_batches: int) -> list[StagePass]:
    """Return the passes of a stage in their order.

    An interleaved schedule takes as many micro-batches at a time as there are stages.

    Example:
        >>> from weighbridge.costs.parallel import ParallelPlan
        >>> order = stage_order(ParallelPlan(pipeline=2), 0, 3)
        >>> ["FB"[work.is_backward] + str(work.micro_batch) for work in order]
        ['F0', 'F1', 'B0', 'F2', 'B1', 'B2']
    """
    chunks = plan.chunks if plan.schedule == "interleaved" else 1
    total = micro_batches * chunks
    forward = [_nth(plan.pipeline, chunks, at, is_backward=False) for at in range(total)]
    backward = [_nth(plan.pipeline, chunks, at, is_backward=True) for at in range(total)]
    ahead = _passes_ahead(plan, stage, total, chunks)
    order = forward[:ahead]
    for at in range(total - ahead):
        order += [forward[ahead + at], backward[at]]
    return order + backward[total - ahead :]


def _passes_ahead(plan: ParallelPlan, stage: int, total: int, chunks: int) -> int:
    """Return how many passes forward come before the first that a pass backward follows."""
    after = plan.pipeline - stage - 1
    if plan.schedule == "gpipe":
        return total
    if chunks == 1:
        return min(after, total)
    return min(2 * after + (chunks - 1) * plan.pipeline, total)


def _nth(stages: int, chunks: int, at: int, *, is_backward: bool) -> StagePass:
    """Return the pass that a stage makes as its ``at``-th in one direction."""
    if chunks == 1:
        return StagePass(is_backward, at)
    chunk = at // stages % chunks
    micro_batch = at // (stages * chunks) * stages + at % stages
    return StagePass(is_backward, micro_batch, chunks - 1 - chunk if is_backward else chunk)


def timeline(
    plan: ParallelPlan, micro_batches: int, backward: int = BACKWARD_TICKS
) -> list[list[TimedPass]]:
    """Return the passes of each stage, each as early as its stage and its inputs allow.

    Args:
        plan: the stages, the schedule and its chunks.
        micro_batches: those of a step.
        backward: the ticks of a pass backward; one forward takes one tick.

    Example:
        >>> from weighbridge.costs.parallel import ParallelPlan
        >>> stages = timeline(ParallelPlan(pipeline=4), 8)
        >>> max(timed.end for stage in stages for timed in stage) == (8 + 4 - 1) * (1 + 2)
        True
    """
    orders = [stage_order(plan, stage, micro_batches) for stage in range(plan.pipeline)]
    ends: dict[tuple[int, StagePass], int] = {}
    timed: list[list[TimedPass]] = [[] for _ in orders]
    while any(len(done) < len(order) for done, order in zip(timed, orders, strict=True)):
        for stage, order in enumerate(orders):
            _advance(plan, stage, order, timed[stage], ends, backward)
    return timed


def _advance(  # what a stage needs to know of the others
    plan: ParallelPlan,
    stage: int,
    order: list[StagePass],
    done: list[TimedPass],
    ends: dict[tuple[int, StagePass], int],
    backward: int,
) -> None:
    """Add the passes of a stage whose inputs are there."""
    while len(done) < len(order):
        work = order[len(done)]
        before = _input_of(plan, stage, work)
        if before is not None and before not in ends:
            return
        free = done[-1].end if done else 0
        start = max(free, ends[before]) if before else free
        end = start + (backward if work.is_backward else FORWARD_TICKS)
        done.append(TimedPass(work, start, end))
        ends[stage, work] = end


def _input_of(plan: ParallelPlan, stage: int, work: StagePass) -> tuple[int, StagePass] | None:
    """Return the pass whose result a pass needs; None for the first piece of layers, forward."""
    last = plan.pipeline - 1
    chunks = plan.chunks if plan.schedule == "interleaved" else 1
    if work.is_backward:
        if stage < last:
            return stage + 1, work
        if work.chunk < chunks - 1:
            return 0, work._replace(chunk=work.chunk + 1)
        return stage, work._replace(is_backward=False)
    if stage > 0:
        return stage - 1, work
    if work.chunk > 0:
        return last, work._replace(chunk=work.chunk - 1)
    return None
