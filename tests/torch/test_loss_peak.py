"""The gradients of a loss, which are the largest tensors of a step, held against torch's."""

from __future__ import annotations

import weakref
from typing import Any

import pytest

import weighbridge as wb

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402  # needs torch
from torch.utils._pytree import tree_leaves  # noqa: E402

pytestmark = pytest.mark.torch


class Live(TorchDispatchMode):
    """Adds up the bytes of all storages that operations make, while they live."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: dict[int, int] = {}
        self.most = 0

    def __torch_dispatch__(self, call: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = call(*args, **(kwargs or {}))
        for tensor in tree_leaves(given):
            if isinstance(tensor, torch.Tensor):
                self.add(tensor.untyped_storage())
        self.most = max(self.most, sum(self.sizes.values()))
        return given

    def add(self, storage: Any) -> None:
        key = storage._cdata  # what is the same for all views
        if key not in self.sizes:
            self.sizes[key] = storage.nbytes()
            weakref.finalize(storage, self.sizes.pop, key, None)


SIZES = {
    "vocab_size": 8000,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}


@pytest.mark.parametrize(("dtype", "precision"), [("bfloat16", "bf16"), ("float32", "fp32")])
def test_a_step_peaks_at_the_gradients_of_the_loss(dtype: str, precision: str) -> None:
    batch, sequence = 32, 16  # short, so that it does not matter which kernel saves scores
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES))
    model = model.to(getattr(torch, dtype)).train()
    words = torch.randint(0, SIZES["vocab_size"], (batch, sequence))
    with Live() as live:
        loss = model(input_ids=words, labels=words.clone()).loss
        loss.backward()
    found = wb.train(
        {"model_type": "llama", **SIZES},
        "LlamaForCausalLM",
        on="H100",
        batch=batch,
        sequence=sequence,
        precision=precision,
    )
    held = found.worst.moments[0].held
    ours = held["activations"] + held["transient"]
    assert ours == pytest.approx(live.most, rel=0.03)


def test_tensor_parallel_ranks_make_one_more_of_them() -> None:
    from torch.distributed.tensor.parallel import loss as of_torch

    rows, columns = 64, 1000
    logarithms = torch.randn(rows, columns).log_softmax(-1)
    with Live() as live:
        # The last lines of `_nll_loss_and_log_softmax_backward`, which needs ranks.
        assert "(grad_input + torch.exp(x)) * grad_output" in source_of(of_torch)
        zeros = torch.zeros_like(logarithms)
        (zeros + torch.exp(logarithms)) * torch.ones(rows, 1)
    one = logarithms.nbytes
    assert 3 * one <= live.most < 3.01 * one


def source_of(module: Any) -> str:
    import inspect

    return inspect.getsource(module)
