"""Tensors made quickly on the meta device are those that torch makes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

from weighbridge.derive.probing.labels import Labels, label_of
from weighbridge.derive.probing.quick_tensors import QuickTensors
from weighbridge.derive.probing.symbolic import SymbolicInt

if TYPE_CHECKING:
    from collections.abc import Callable


def kind(tensor: torch.Tensor) -> tuple[Any, ...]:
    """Return everything that a tensor on the meta device has."""
    is_recorded = tensor.requires_grad
    return tensor.shape, tensor.stride(), tensor.dtype, tensor.device, is_recorded, tensor.is_leaf


CALLS: list[Callable[[], torch.Tensor]] = [
    lambda: torch.ones(2, 3),
    lambda: torch.zeros((2, 3), dtype=torch.int32),
    lambda: torch.randn(size=(4, 1), requires_grad=True),
    lambda: torch.rand(3, dtype=torch.float64),
    lambda: torch.empty(3, device="cpu"),
    lambda: torch.ones(3, 2, device="cpu"),
    lambda: torch.arange(7),
    lambda: torch.arange(1, 8, 3),
    lambda: torch.arange(8, 1, -3),
    lambda: torch.arange(0, 8, 2, dtype=torch.float32),
    lambda: torch.arange(0.5, 3),
    lambda: torch.arange(end=4),
    lambda: torch.linspace(0, 1, 5),
    lambda: 10000.0 ** (torch.arange(0, 8, 2, dtype=torch.int64).float() / 8),
    lambda: torch.ones(3, 1) * torch.ones(4).to(torch.float16),
    lambda: torch.ones(4, 3) + 1,
    lambda: torch.ones(3, 4).t() + 1,
    lambda: torch.ones(3, dtype=torch.int64) / 2,
    lambda: torch.ones(3, dtype=torch.int64) * 2.0,
    lambda: torch.ones(3) < 1,
    lambda: nn.Parameter(torch.ones(3)) * 2,
    lambda: torch.norm_except_dim(torch.ones(4, 5), 2, 0),
    lambda: torch.cat([torch.ones(2, 3), torch.ones(4, 3)]),
    lambda: torch.ones(2, 3).mul_(2.0).add_(1, alpha=2).clamp_(min=0, max=1.5),
    lambda: torch.ones(2, 3).add_(torch.ones(3)),
    lambda: torch.ones(2, 3).t().fill_(2),
    lambda: torch.ones(2, requires_grad=True).exp().mul_(2),
    lambda: nn.Parameter(torch.ones(2)).data.zero_().sub_(1),
]


@pytest.mark.parametrize("call", CALLS)
def test_a_tensor_is_what_torch_makes(call: Callable[[], torch.Tensor]) -> None:
    with torch.device("meta"):
        usual = kind(call())
        for _ in range(2):  # the second result is like the first one
            with QuickTensors():
                quick = call()
            assert kind(quick) == usual
            with Labels():
                labelled = call()
            assert kind(labelled) == usual


REFUSED: list[Callable[[], torch.Tensor]] = [
    lambda: torch.ones(2, -1),
    lambda: torch.arange(3, 1),
    lambda: torch.ones(2, requires_grad=True).mul_(2),
    lambda: torch.ones(2, dtype=torch.int64).div_(2),
    lambda: torch.ones(2).add_(torch.ones(3)),
]


@pytest.mark.parametrize("call", REFUSED)
def test_what_torch_refuses_is_refused(call: Callable[[], torch.Tensor]) -> None:
    with torch.device("meta"), QuickTensors():
        torch.ones(2).mul_(2)
        torch.ones(2).div_(2)
        for _ in range(2):
            with pytest.raises(RuntimeError):
                call()


def test_a_tensor_is_changed_in_place() -> None:
    with torch.device("meta"), QuickTensors(), torch.no_grad():
        weight = nn.Parameter(torch.ones(2))
        for _ in range(2):
            assert weight.mul_(2.0) is weight


def test_results_are_tensors_of_their_own() -> None:
    with torch.device("meta"), QuickTensors():
        sizes = torch.ones(3)
        first, second = sizes + 1, sizes + 1
        same = sizes.float(), sizes.float()
    assert first is not second
    assert same == (sizes, sizes)


def test_a_label_passes_through_functions() -> None:
    width = SymbolicInt(8, ("name", "width"))
    with torch.device("meta"), Labels():
        for _ in range(2):
            result = torch.ones(width) * 2
            assert label_of(result) == (("name", "width"),)


def test_a_mode_of_the_model_is_not_passed_by() -> None:
    with torch.device("meta"), QuickTensors(), torch.device("cpu"):
        assert torch.ones(3).device.type == "cpu"
        assert (torch.ones(3) * 2).device.type == "cpu"
