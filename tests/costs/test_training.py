"""The memory of training, held against closed forms of papers."""

import pytest

from weighbridge.answers.train import train
from weighbridge.costs.megatron import (
    MegatronShape,
    activations,
    kept_bytes,
    layer_activations,
    padded_vocabulary,
)
from weighbridge.costs.parallel import ParallelPlan, in_flight
from weighbridge.costs.training import RankMemory

# ZeRO: Rajbhandari et al., 2020, https://arxiv.org/abs/1910.02054, figure 1

PARAMETERS, COPIES = 7.5e9, 64
FIGURE_1 = {0: 120, 1: 31.4, 2: 16.6, 3: 1.9}  # GB = 10^9 bytes
EVEN = {"vocab_size": 50304, "n_embd": 1024, "n_layer": 4, "n_head": 16}  # divisible by 64


def states_of(precision: str, zero: int) -> tuple[RankMemory, int]:
    fit = train(
        "gpt2",
        fields=EVEN,
        on=f"{COPIES}xA100-80GB",
        batch=COPIES,
        sequence=128,
        precision=precision,
        zero=zero,
    )
    return fit.worst, fit.found.weighing.parameters


@pytest.mark.parametrize(("zero", "expected"), FIGURE_1.items())
def test_states_are_those_of_figure_1(zero: int, expected: float) -> None:
    memory, parameters = states_of("master", zero)
    held = sum(memory.states.values()) * PARAMETERS / parameters / 1e9
    assert round(held, 1) == expected


@pytest.mark.parametrize(
    ("precision", "zero", "expected"),
    [
        ("megatron", 0, 18),
        ("megatron", 1, 6 + 12 / COPIES),
        ("megatron-fp16", 0, 20),
        ("megatron-fp16", 1, 4 + 16 / COPIES),
    ],
)
def test_bytes_of_a_parameter_are_those_of_megatron(
    precision: str, zero: int, expected: float
) -> None:
    # docs/user-guide/features/dist_optimizer.md of Megatron-LM, the table of theoretical bytes
    memory, parameters = states_of(precision, zero)
    assert sum(memory.states.values()) / parameters == pytest.approx(expected, rel=1e-4)


# Activations: Korthikanti et al., 2022, https://arxiv.org/abs/2205.05198, equations 2 and 4 for the
# first stage, with the interleaved schedule: L (1 + (p - 1) / (p m)) layers

MODELS = {  # layers, hidden, heads, stages; table 3
    "175B": (96, 12288, 96, 8),
    "530B": (105, 20480, 128, 35),
}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("selective", [False, True])
def test_activations_of_the_first_stage_are_those_of_the_paper(
    model: str, parallel: bool, selective: bool
) -> None:
    layers, hidden, heads, stages = MODELS[model]
    tokens, ways, pieces = 2048, 8, 3
    scores = 0 if selective else 5 * heads * tokens / hidden
    of_element = (34 + scores) / ways if parallel else 10 + (24 + scores) / ways
    in_flight_layers = layers * (1 + (stages - 1) / (stages * pieces))
    expected = tokens * hidden * of_element * in_flight_layers
    shape = MegatronShape(
        layers, hidden, heads, heads, 4 * hidden, 51200, tokens, 1, fused=selective
    )
    plan = ParallelPlan(
        ways, stages, schedule="interleaved", chunks=pieces, sequence_parallel=parallel
    )
    on_stage = layers // stages * in_flight(plan, 0, 10 * stages)
    assert layer_activations(shape, plan) * on_stage == pytest.approx(expected, rel=1e-9)
    flying = in_flight(plan, 0, 10 * stages)
    of_embedding = tokens * hidden * flying / (ways if parallel else 1)  # a mask; section 4.3
    held = activations(shape, plan, 0, 10 * stages)
    assert held == pytest.approx(expected + of_embedding, rel=1e-9)


# What Megatron-LM keeps besides

SHAPE = MegatronShape(12, 512, 8, 8, 2048, 50304, 1024, 4)
MIB = 2**20


def test_the_vocabulary_is_padded_for_all_ranks() -> None:
    assert [padded_vocabulary(50257, ways) for ways in (1, 2, 4, 8)] == [
        50304,
        50432,
        50688,
        51200,
    ]


def test_workspaces_depend_on_the_device_and_on_the_setting() -> None:
    one = ParallelPlan()
    assert kept_bytes(SHAPE, one, 0, "A100", deterministic=True) == 68 * MIB
    assert kept_bytes(SHAPE, one, 0, "H100", deterministic=True) == 96 * MIB + 1024
    assert kept_bytes(SHAPE, one, 0, "A100") == 4 * MIB + 2 * 8320 * 1024
    assert kept_bytes(SHAPE, one, 0, "A100", engine=False) == 64 * MIB + 2 * 8320 * 1024


def test_each_piece_of_a_later_stage_keeps_its_input_and_the_gradient() -> None:
    plan = ParallelPlan(pipeline=4, schedule="interleaved", chunks=3)
    without = kept_bytes(SHAPE, ParallelPlan(), 0, "A100")
    of_one = 2 * 2 * 4 * 1024 * 512
    assert kept_bytes(SHAPE, plan, 3, "A100") - without == 3 * of_one
    assert kept_bytes(SHAPE, plan, 0, "A100") - without == 2 * of_one


def test_more_micro_batches_in_a_row_are_more_in_flight() -> None:
    plan = ParallelPlan(pipeline=4, schedule="interleaved", chunks=3)
    usual = activations(SHAPE, plan, 3, 10)
    assert activations(SHAPE, plan, 3, 10, group=4) == usual
    more = activations(SHAPE, plan, 3, 10, group=5) - usual
    assert more == 2 * layer_activations(SHAPE, plan)


def test_a_deferred_gradient_of_the_head_keeps_its_factors() -> None:
    one = ParallelPlan()
    more = activations(SHAPE, one, 0, 8, deferred=2) - activations(SHAPE, one, 0, 8)
    assert more == 2 * 2 * 4 * 1024 * (50304 + 512)


def test_with_checkpointing_layers_keep_their_inputs() -> None:
    one = ParallelPlan()
    saved = activations(SHAPE, one, 0, 8) - activations(SHAPE, one, 0, 8, again=True)
    sent = 2 * 4 * 1024 * 512
    assert saved == 11 * layer_activations(SHAPE, one) - 12 * sent
