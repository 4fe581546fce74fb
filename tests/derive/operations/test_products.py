"""The products of operators, against counts of multiplications made without the rules."""

from __future__ import annotations

import gc
from math import prod
from typing import Any

import pytest
import torch
from torch.nn import functional

from weighbridge.derive.operations.products import products_of
from weighbridge.derive.operations.recording import Recorder, record
from weighbridge.errors import ModelError


def flops(products: list[Any]) -> int:
    return sum(2 * prod(product[1:]) for product in products)


def multiplications(convolve: Any, *tensors: torch.Tensor) -> int:
    """Count the terms of all sums: a convolution of ones has each sum's number of terms."""
    return int(convolve(*map(torch.ones_like, tensors)).sum())


@pytest.mark.parametrize(
    ("channels", "outputs", "kernel", "stride", "groups"),
    [(4, 6, 3, 1, 1), (4, 6, 3, 2, 2), (6, 6, 5, 1, 6), (3, 8, 1, 1, 1)],
)
def test_a_convolution_has_a_term_for_each_multiplication(
    channels: int, outputs: int, kernel: int, stride: int, groups: int
) -> None:
    given = torch.randn(2, channels, 13)
    module = torch.nn.Conv1d(channels, outputs, kernel, stride, groups=groups, bias=False)
    terms = multiplications(
        lambda x, weight: functional.conv1d(x, weight, stride=stride, groups=groups),
        given,
        module.weight,
    )
    found = record(module, {"input": given.requires_grad_()})
    assert flops(found.forward) == 2 * terms
    assert flops(found.backward) == 2 * 2 * terms  # for the input, and for the weight


def test_a_transposed_convolution_of_an_image() -> None:
    module = torch.nn.ConvTranspose2d(4, 6, 3, stride=2, groups=2, bias=False)
    given = torch.randn(2, 4, 5, 7)
    terms = multiplications(
        lambda x, weight: functional.conv_transpose2d(x, weight, stride=2, groups=2),
        given,
        module.weight,
    )
    assert flops(record(module, {"input": given}).forward) == 2 * terms


def test_a_grouped_product_has_each_row_once() -> None:
    rows, experts = torch.randn(12, 8, dtype=torch.bfloat16), 3
    weight = torch.nn.Parameter(torch.randn(experts, 8, 16, dtype=torch.bfloat16))
    ends = torch.tensor([4, 4, 12], dtype=torch.int32)

    class Experts(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = weight

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return functional.grouped_mm(x, self.weight, offs=ends) ** 2

    found = record(Experts(), {"x": rows.requires_grad_()})
    assert flops(found.forward) == 2 * 12 * 8 * 16
    assert flops(found.backward) == 2 * 2 * 12 * 8 * 16


def test_an_operator_without_a_rule_fails_with_its_name() -> None:
    class Distance(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cdist(x, x).sum()

    with (
        pytest.raises(ModelError, match=r"aten::_?cdist_forward multiplies, and has no rule"),
        Recorder(module := Distance()).running(),
    ):
        module(torch.randn(3, 4))


def test_an_operator_of_an_unknown_package_fails_with_its_name() -> None:
    @torch.library.custom_op("weighbridge_tests::scan", mutates_args=())
    def scan(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    with pytest.raises(ModelError, match="weighbridge_tests::scan multiplies, and has no rule"):
        products_of(torch.ops.weighbridge_tests.scan, (torch.ones(2),), {})


def test_attention_kernels_have_the_products_of_the_mathematics() -> None:
    query, key, value = (torch.randn(2, 3, 5, 8, requires_grad=True) for _ in range(3))

    class Attention(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return functional.scaled_dot_product_attention(x, key, value)

    found = record(Attention(), {"x": query})
    assert flops(found.forward) == 2 * (2 * 2 * 3 * 5 * 5 * 8)
    assert flops(found.backward) == 2 * flops(found.forward)


def tensors() -> int:
    gc.collect()
    return sum(type(item) is torch.Tensor for item in gc.get_objects())


def test_a_run_forward_leaves_nothing_behind() -> None:
    # Softmax saves its own result: a graph that is never run backward must not keep itself alive.
    given = torch.ones(2, 3, requires_grad=True)
    before = tensors()
    with Recorder(torch.nn.Identity()).running():
        functional.softmax(given, -1)
    assert tensors() == before
