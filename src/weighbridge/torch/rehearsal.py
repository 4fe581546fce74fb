"""Predict the peak of a step by a rehearsal: the same step on tensors without values.

The rehearsal runs the code of the class with torch's fake tensors: they have shapes, dtypes and
storages, which are born and die as in a real run, but neither values nor memory. They say that they
are on the device, so that the code and torch choose the same kernels. So no arithmetic is done, and
a model that does not fit into memory can be rehearsed.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from torch._subclasses.fake_tensor import FakeTensorMode

from weighbridge.derive.operations.recording import loss_of
from weighbridge.derive.operations.workload import built_in_dtype, inputs, keywords_of
from weighbridge.torch.live import Live

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager
    from typing import Any

    import torch
    from torch import nn

    from weighbridge.derive.operations.workload import Buildable, Workload


def run_step(module: nn.Module, given: Mapping[str, torch.Tensor], *, training: bool) -> None:
    """Run a forward pass and, in training, a backward pass, whose gradients are dropped."""
    loss = loss_of(module(**keywords_of(module, given)))
    if training:
        loss.backward()  # type: ignore[no-untyped-call]
        module.zero_grad(set_to_none=True)


def live_peak_bytes(module: nn.Module, given: Mapping[str, torch.Tensor], *, training: bool) -> int:
    """Return the most bytes that storages take between two operators of a step.

    Parameters, buffers and inputs are included. What an operator allocates while it runs is not.

    Example:
        >>> import torch
        >>> linear = torch.nn.Linear(10, 10)  # 440 bytes
        >>> live_peak_bytes(linear, {"input": torch.ones(1, 10)}, training=False)
        524
    """
    live = Live([*module.parameters(), *module.buffers(), *given.values()])
    with live:
        run_step(module, given, training=training)
    return live.peak_bytes


def rehearsed_peak_bytes(
    subject: Buildable, run: Workload, fields: Mapping[str, Any], device: str, *, ours: bool
) -> int:
    """Return what `live_peak_bytes` would measure, without memory for the model.

    Raises:
        Exception: the code of the class asks for the value of a tensor, or refuses the config.

    Example:
        >>> from weighbridge.derive.operations.workload import Workload
        >>> from weighbridge.derive.probing.own import OwnSubject
        >>> bert = OwnSubject("weighbridge.torch.bert:BertModel")
        >>> run = Workload("BertModel", {}, batch=1, sequence=128, training=False)
        >>> rehearsed_peak_bytes(bert, run, {"vocab_size": 30522}, "cpu", ours=True)
        523691008
    """
    with FakeTensorMode(), _valueless(ours=ours):
        module = built_in_dtype(subject, run, device)
        return live_peak_bytes(module, inputs(run, fields, device), training=run.training)


def _valueless(*, ours: bool) -> AbstractContextManager[None]:
    """Return a context in which the code of transformers does not ask for values of masks."""
    if ours:
        return nullcontext()
    from weighbridge.derive.operations.profiles import without_values  # noqa: PLC0415

    return without_values()
