"""`RunCost.sweep`: each element of a sweep is what `cost` gives at that size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weighbridge as wb
from weighbridge.errors import UsageError

BATCHES = np.array([[1], [2], [8]])
# sequences of one token, and around the windows of both models with some
SEQUENCES = np.array([1, 2, 127, 128, 129, 4095, 4096, 4097, 8192])
MODELS = ("meta-llama/Llama-3.1-8B", "openai/gpt-oss-20b", "google/gemma-2-9b")
BERT = "bert-base-uncased"


def equal_at_each(swept: dict[str, Any], model: str, **run: Any) -> None:
    """Hold each element against the cost of one run; ``run`` has arrays and single values."""
    arrays = {name: value for name, value in run.items() if isinstance(value, np.ndarray)}
    others = {name: value for name, value in run.items() if name not in arrays}
    shape = np.broadcast_shapes(*(value.shape for value in arrays.values()))
    spread = {name: np.broadcast_to(value, shape) for name, value in arrays.items()}
    for place in np.ndindex(shape):
        sizes = {name: int(value[place]) for name, value in spread.items()}
        figures = wb.cost(model, **others, **sizes).figures
        for name, value in swept.items():
            assert np.broadcast_to(value, shape)[place] == figures[name], (name, sizes)


@pytest.mark.parametrize("model", MODELS)
def test_a_sweep_of_training(model: str) -> None:
    swept = wb.cost(model, sequence=64, train=True).sweep(batch=BATCHES, sequence=SEQUENCES[1:])
    assert {"forward_matmul_flops", "saved_for_backward_bytes", "checkpointed_bytes"} <= set(swept)
    equal_at_each(swept, model, batch=BATCHES, sequence=SEQUENCES[1:], train=True)


@pytest.mark.parametrize("model", MODELS)
def test_a_sweep_of_the_cache_with_windows(model: str) -> None:
    swept = wb.cost(model, batch=3, sequence=64).sweep(sequence=SEQUENCES)
    assert len(set(swept["cache_bytes"].tolist())) > 5
    equal_at_each(swept, model, batch=3, sequence=SEQUENCES)


@pytest.mark.parametrize("model", MODELS)
def test_a_sweep_of_steps(model: str) -> None:
    step = wb.cost(model, past=10, decode=True)
    swept = step.sweep(batch=BATCHES, past=SEQUENCES)
    assert "cache_bytes" in swept
    equal_at_each(swept, model, batch=BATCHES, past=SEQUENCES, decode=True)


def test_single_sizes_give_integers() -> None:
    swept = wb.cost(BERT, train=True).sweep(batch=4, sequence=512)
    figures = wb.cost(BERT, batch=4, sequence=512, train=True).figures
    assert all(type(value) is int and value == figures[name] for name, value in swept.items())


def test_integers_beyond_64_bits_are_exact() -> None:
    model, batches = "meta-llama/Llama-3.1-405B", np.array([1, 1024])
    swept = wb.cost(model, sequence=131072).sweep(batch=batches)
    equal_at_each(swept, model, batch=batches, sequence=131072)
    assert swept["forward_matmul_flops"][1] > 2**63


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"past": np.array([1])}, "the run has no past"),
        ({"batch": np.array([0, 1])}, "--batch must be a positive integer"),
        ({"batch": np.array([0.5])}, "--batch must be a positive integer"),
        ({"sequence": np.array([512, 513])}, "longer than the positions"),
        ({"batch": np.array([1, 2]), "sequence": np.array([1, 2, 3])}, "do not fit together"),
    ],
)
def test_what_a_sweep_refuses(sizes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        wb.cost(BERT).sweep(**sizes)
