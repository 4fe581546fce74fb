"""The schedules of pipelines: their order as in torch, their length and what they hold."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

from weighbridge.costs.parallel import ParallelPlan, bubble, in_flight
from weighbridge.costs.schedule import StagePass, stage_order, timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

PASSES = {"FORWARD": False, "FULL_BACKWARD": True}


def plans() -> Iterator[tuple[ParallelPlan, int]]:
    kinds = (("1f1b", 1), ("gpipe", 1), ("interleaved", 2), ("interleaved", 3))
    for stages, micro_batches, (schedule, chunks) in itertools.product(
        (1, 2, 3, 4, 8), (1, 2, 5, 8, 24), kinds
    ):
        if schedule != "interleaved" or micro_batches % stages == 0:
            plan = ParallelPlan(pipeline=stages, schedule=schedule, chunks=chunks)
            yield plan, micro_batches


def interleaved_in_torch(stages: int, chunks: int, stage: int, micro_batches: int) -> list[Any]:
    from torch.distributed.pipelining import ScheduleInterleaved1F1B

    # Only its sizes are needed to ask for the order, not modules or processes.
    schedule = ScheduleInterleaved1F1B.__new__(ScheduleInterleaved1F1B)
    schedule._n_microbatches = micro_batches
    schedule.pp_group_size, schedule.n_local_stages = stages, chunks
    schedule.number_of_rounds = max(1, micro_batches // stages)
    schedule.microbatches_per_round = micro_batches // schedule.number_of_rounds
    return [one for one in schedule._calculate_single_rank_operations(stage) if one is not None]


@pytest.mark.torch
@pytest.mark.parametrize(("stages", "chunks", "micro_batches"), [(4, 2, 8), (4, 3, 4), (2, 4, 12)])
def test_an_interleaved_stage_does_what_torch_s_does(
    stages: int, chunks: int, micro_batches: int
) -> None:
    pytest.importorskip("torch")
    plan = ParallelPlan(pipeline=stages, schedule="interleaved", chunks=chunks)
    for stage in range(stages):
        theirs = [
            StagePass(
                PASSES[one.computation_type.name],
                one.microbatch_index,
                (one.stage_index - stage) // stages,
            )
            for one in interleaved_in_torch(stages, chunks, stage, micro_batches)
        ]
        assert stage_order(plan, stage, micro_batches) == theirs


def test_a_schedule_is_as_long_as_its_bubble_says() -> None:
    for plan, micro_batches in plans():
        for backward in (1, 2, 3):
            stages = timeline(plan, micro_batches, backward)
            end = max(timed.end for stage in stages for timed in stage)
            ideal = micro_batches * plan.chunks * (1 + backward)
            assert end == pytest.approx(ideal * bubble(plan, micro_batches)), plan


def test_stages_hold_as_many_passes_as_are_in_flight() -> None:
    for plan, micro_batches in plans():
        for stage, passes in enumerate(timeline(plan, micro_batches)):
            changes = [-1 if timed.work.is_backward else 1 for timed in passes]
            most = max(itertools.accumulate(changes))
            assert most == in_flight(plan, stage, micro_batches) * plan.chunks, (plan, stage)


def test_no_pass_starts_before_its_inputs_or_with_another() -> None:
    for plan, micro_batches in plans():
        stages = timeline(plan, micro_batches)
        ends = {
            (number, timed.work): timed.end
            for number, passes in enumerate(stages)
            for timed in passes
        }
        assert len(ends) == 2 * plan.pipeline * micro_batches * plan.chunks
        for number, passes in enumerate(stages):
            for before, after in itertools.pairwise(passes):
                assert before.end <= after.start
            for timed in passes:
                work = timed.work
                if work.is_backward:
                    assert ends[number, work._replace(is_backward=False)] <= timed.start
                elif number:
                    assert ends[number - 1, work] <= timed.start
