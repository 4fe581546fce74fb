"""What optimizers keep, held against the states of torch's own."""

from __future__ import annotations

import json
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from weighbridge import weigh
from weighbridge.answers.train import train
from weighbridge.costs.activations import Held
from weighbridge.costs.optimizers import optimizer_called, precision_called
from weighbridge.costs.parallel import ParallelDivision, ParallelPlan, Rank
from weighbridge.costs.training import TrainingStep, rank_memory
from weighbridge.data import read_toml
from weighbridge.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

SHAPES = [(64, 32), (32,), (7, 5, 3), (100, 64), (1, 9)]


def kept_bytes(optimizer: Any, parameters: list[Any]) -> int:
    """Return the bytes of an optimizer's states after a step."""
    import torch

    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    return sum(
        value.untyped_storage().nbytes()
        for state in optimizer.state.values()
        for value in state.values()
        if torch.is_tensor(value)
    )


def made(name: str) -> Callable[[list[Any]], Any]:
    from torch import optim

    kinds: dict[str, Callable[[list[Any]], Any]] = {
        "adamw": optim.AdamW,
        "adam": optim.Adam,
        "sgd": lambda parameters: optim.SGD(parameters, lr=0.1),
        "sgd-momentum": lambda parameters: optim.SGD(parameters, lr=0.1, momentum=0.9),
        "adafactor": optim.Adafactor,
    }
    return kinds[name]


@pytest.mark.torch
@pytest.mark.parametrize("name", ["adamw", "adam", "sgd", "sgd-momentum", "adafactor"])
@pytest.mark.parametrize("dtype", ["F32", "BF16"])
def test_states_are_those_of_torch(name: str, dtype: str) -> None:
    torch = pytest.importorskip("torch")
    of_torch = {"F32": torch.float32, "BF16": torch.bfloat16}[dtype]
    parameters = [torch.nn.Parameter(torch.ones(shape, dtype=of_torch)) for shape in SHAPES]
    ours = sum(optimizer_called(name).state_bytes(shape, dtype) for shape in SHAPES)
    assert ours == kept_bytes(made(name)(parameters), parameters)


@pytest.mark.torch
def test_muon_keeps_one_momentum_of_matrices_and_adamw_the_rest() -> None:
    torch = pytest.importorskip("torch")
    matrices = [(64, 32), (10, 32)]
    parameters = [torch.nn.Parameter(torch.ones(shape)) for shape in matrices]
    muon = optimizer_called("muon")
    ours = sum(muon.state_bytes(shape, "F32") for shape in matrices)
    assert ours == kept_bytes(torch.optim.Muon(parameters), parameters)
    adamw = optimizer_called("adamw").state_bytes((100, 64), "F32")
    assert muon.state_bytes((100, 64), "F32", in_layer=False) == adamw


def test_a_divided_parameter_keeps_the_states_of_its_rest() -> None:
    adamw = optimizer_called("adamw")
    assert adamw.state_bytes((64, 32), "F32", size=16 * 32) == 2 * 4 * 16 * 32 + 4
    assert adamw.state_bytes((64, 32), "F32", size=0) == 4  # the number of its step
    assert optimizer_called("sgd-momentum").state_bytes((64, 32), "F32", size=0) == 0


def test_eight_bits_keep_small_parameters_whole() -> None:
    eight = optimizer_called("adamw-8bit")
    assert eight.state_bytes((63, 65), "F32") == 2 * 4 * 63 * 65
    assert eight.state_bytes((64, 64), "F32") == 2 * 64 * 64 + 2 * 4 * (4096 // 256)


STATES = json.loads(
    (Path(__file__).parents[1] / "data" / "optimizer_states.json").read_text(encoding="utf-8")
)
WIDTHS = {"uint8": 1, "float32": 4}


def stored(states: Iterable[dict[str, Any]]) -> int:
    """Return the bytes of some tensors; a storage that several have counts once."""
    storages = {state["storage"]: WIDTHS[state["dtype"]] * prod(state["shape"]) for state in states}
    return sum(storages.values())


@pytest.mark.parametrize("name", STATES["optimizers"])
def test_states_in_eight_bits_are_those_of_bitsandbytes(name: str) -> None:
    optimizer, parameters = optimizer_called(name), STATES["optimizers"][name]
    for first in range(len(parameters)):
        some = parameters[first:]
        shapes = [tuple(parameter["shape"]) for parameter in some]
        ours = sum(optimizer.state_bytes(shape, "F32") for shape in shapes)
        ours += optimizer.shared_bytes(prod(shape) for shape in shapes)
        assert ours == stored(
            state for parameter in some for state in parameter["states"].values()
        ), shapes


@pytest.mark.parametrize("zero", [0, 1, 3])
def test_a_rank_keeps_the_maps_of_eight_bits_once(zero: int) -> None:
    division = ParallelDivision(weigh("gpt2").ledger)
    plan = ParallelPlan(data=2, zero=zero)
    nothing = Held({0: 0}, 0, 0)
    optimizer = optimizer_called("adamw-8bit")
    step = TrainingStep(plan, precision_called("fp32"), optimizer, 1, nothing, 0, nothing)
    rank = Rank()
    elements = [part.shard(0) if zero else part.elements for part in division.parts(plan, rank)]
    counts = [part.times for part in division.parts(plan, rank)]
    alone = [
        times * optimizer.state_bytes((size // times,), "F32")
        for size, times in zip(elements, counts, strict=True)
    ]
    assert rank_memory(division, step, rank).states["optimizer"] == sum(alone) + 2 * 256 * 4


@pytest.mark.parametrize(("rank", "shared"), [(8, 2 * 256 * 4), (1, 0)])
def test_an_adapter_shares_its_maps_too(rank: int, shared: int) -> None:
    """Of rank 1, no matrix of GPT-2's adapter has the 4,096 elements of 8 bits."""
    setting = f"r={rank},targets=c_attn"
    fit = train("gpt2", on="H100", batch=1, sequence=8, lora=setting, optimizer="adamw-8bit")
    optimizer, shapes = optimizer_called("adamw-8bit"), [(rank, 768), (2304, rank)]
    alone = 12 * sum(optimizer.state_bytes(shape, "F32") for shape in shapes)
    assert fit.worst.states["optimizer"] == alone + shared


def test_sixteen_and_eighteen_bytes_a_parameter() -> None:
    for name, expected in (("master", 16), ("megatron", 18), ("fp32", 16), ("bf16", 8)):
        precision = precision_called(name)
        bits = {"F32": 4, "BF16": 2}
        kept = optimizer_called("adamw").state_bytes((1024, 1024), precision.updated) - 4
        whole = bits[precision.parameters] + bits[precision.gradients] + kept // 1024**2
        if precision.master:
            whole += bits[precision.master]
        assert whole == expected, name


def test_every_entry_has_a_source() -> None:
    for file in ("optimizers", "precisions", "engines"):
        for name, entry in read_toml(f"facts/{file}.toml").items():
            assert entry["source"], (file, name)


@pytest.mark.parametrize("called", [optimizer_called, precision_called])
def test_an_unknown_name_is_refused_with_the_known_ones(called: Any) -> None:
    with pytest.raises(UsageError, match="Use one of"):
        called("nothing")
