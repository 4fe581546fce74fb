"""What is known from an earlier call is what torch computes again."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from weighbridge.derive.probing.known_results import computed, dispatched, with_zeros, zeros


class _Dispatched(TorchDispatchMode):
    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return dispatched(function, args, kwargs or {})


class _WithZeros(TorchDispatchMode):
    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return with_zeros(function, args, kwargs or {})


def _kind(tensor: torch.Tensor) -> tuple[Any, ...]:
    storage = tensor.untyped_storage().nbytes()
    return tensor.shape, tensor.stride(), tensor.dtype, storage, tensor.requires_grad


_CALLS = [
    lambda x: x + 1,
    lambda x: x.t() + 1,
    lambda x: x.to(torch.float64) * x,
    lambda x: x @ x.t(),
    lambda x: torch.softmax(x.t(), -1, dtype=torch.float16),
    lambda x: torch.cat([x, x], dim=1),
    lambda x: x.sum(0, keepdim=True).expand(4, 6) * 2,
    lambda x: torch.nn.functional.layer_norm(x, (6,)),
    lambda x: x.masked_fill(x > 0, 2.0),
    lambda x: x.topk(2).values,
    lambda x: torch.nn.functional.dropout(x, 0.5),
    lambda x: torch.nn.functional.scaled_dot_product_attention(x[None], x[None], x[None]),
]


@pytest.mark.parametrize("call", _CALLS)
def test_a_known_result_is_what_torch_computes(call: Any) -> None:
    given = torch.ones(4, 6, device="meta", requires_grad=True)
    usual = call(given)
    for _ in range(2):
        with _Dispatched():
            found = call(given)
            (grad,) = torch.autograd.grad(found.sum(), given, allow_unused=True)
        assert _kind(found) == _kind(usual)
        assert grad is None or grad.shape == given.shape


@pytest.mark.parametrize(
    "share", [lambda x: x.view(6, 4), lambda x: torch.ops.aten._unsafe_view(x, [24]), torch.t]
)
def test_what_shares_a_storage_shares_it_again(share: Any) -> None:
    given = torch.ones(4, 6, device="meta")
    with _Dispatched():
        shared = [share(given) for _ in range(3)]
    storages = {tensor.untyped_storage()._cdata for tensor in (given, *shared)}
    assert len(storages) == 1


def test_a_known_result_has_a_storage_of_its_own() -> None:
    given = torch.ones(4, 6, device="meta")
    with _Dispatched():
        results = [given * 2 for _ in range(3)]
    assert len({tensor.untyped_storage()._cdata for tensor in (given, *results)}) == 4


@pytest.mark.parametrize(
    "call",
    [
        lambda x: torch.native_dropout(x, 0.5, True),
        lambda x: torch.native_layer_norm(x, [6], None, None, 1e-5),
        lambda x: torch.ops.aten.topk(x, 2),
        lambda x: torch.ops.aten.split_with_sizes(x, [2, 4], 1),
        torch.ops.aten.aminmax,
    ],
)
def test_known_results_are_as_many_tensors_as_torch_computes(call: Any) -> None:
    given = torch.ones(4, 6, device="meta")
    usual = call(given)
    with _Dispatched():
        later = [call(given) for _ in range(3)]
    for found in later:
        assert type(found) is type(usual)
        assert list(map(_kind, found)) == list(map(_kind, usual))
    shared = {tensor.untyped_storage()._cdata for tensor in usual}
    per_call = [{tensor.untyped_storage()._cdata for tensor in found} for found in later]
    assert {len(storages) for storages in per_call} == {len(shared)}


def test_a_result_that_is_left_out_is_known_too() -> None:
    calls: list[torch.Tensor] = []

    def halves(given: torch.Tensor) -> tuple[torch.Tensor, None, torch.Tensor]:
        calls.append(given)
        return given.new_empty(2, 6), None, given.new_empty(2, 6)

    given = torch.ones(4, 6, device="meta")
    for _ in range(3):
        first, second, third = computed(halves, (given,), {})
        assert first.shape == third.shape == (2, 6)
        assert second is None
    assert len(calls) == 1


def test_an_operator_leaves_out_what_is_not_asked_for() -> None:
    given = torch.ones(4, 6, device="meta")
    ones = torch.ones(4, 1, device="meta")
    backward = torch.ops.aten.native_layer_norm_backward
    with _Dispatched():
        later = [
            backward(given, given, [6], ones, ones, None, None, [True, False, False])
            for _ in range(3)
        ]
    assert [(of.shape, *left_out) for of, *left_out in later] == [((4, 6), None, None)] * 3


def test_a_mode_below_sees_every_call() -> None:
    seen: list[Any] = []

    class Seeing(TorchDispatchMode):
        def __torch_dispatch__(
            self, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append(function)
            return function(*args, **(kwargs or {}))

    given = torch.ones(4, 6, device="meta")
    with Seeing(), _Dispatched():
        for _ in range(3):
            given.exp()
    assert seen == [torch.ops.aten.exp.default] * 3


def test_values_of_real_tensors_are_computed() -> None:
    with _Dispatched():
        for number in (1.0, 2.0):
            assert (torch.full((2,), number, device="meta") * 2).is_meta
            assert (torch.full((2,), number) * 2).tolist() == [2 * number] * 2


@pytest.mark.parametrize("call", _CALLS)
def test_zeros_are_shaped_and_kept_as_what_torch_computes(call: Any) -> None:
    usual = call(torch.ones(4, 6, requires_grad=True))
    for _ in range(3):
        given = torch.ones(4, 6, requires_grad=True)
        with _WithZeros():
            found = call(given)
            torch.autograd.grad(found.sum(), given, allow_unused=True)
        assert _kind(found) == _kind(usual)


def test_what_code_asks_for_is_computed_among_zeros() -> None:
    for numbers in ([3.0, 5.0, 4.0], [7.0, 0.0, 9.0]):
        given = torch.tensor(numbers)
        with _WithZeros():
            flags, best = given > 4, given.topk(1).indices
            chosen, doubled = given[flags], given * 2
        assert flags.tolist() == [number > 4 for number in numbers]
        assert best.item() == numbers.index(max(numbers))
        assert chosen.tolist() == [number for number in numbers if number > 4]
    assert doubled.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    "make",
    [
        lambda like: torch.ones(like.shape),
        lambda like: torch.full(like.shape, 1.0),
        torch.ones_like,
        lambda like: like.new_ones(like.shape),
    ],
)
def test_a_mask_of_ones_is_all_ones_among_zeros(make: Any) -> None:
    like = torch.zeros(2, 3)
    for _ in range(3):
        with _WithZeros():
            mask = make(like)
            assert mask.all()


@pytest.mark.parametrize("rows", [3, 1_000])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_zeros_are_zeros_of_their_own_however_many(rows: int, dtype: torch.dtype) -> None:
    columnwise, plain = torch.empty(512, rows, dtype=dtype).t(), torch.empty(rows, 512, dtype=dtype)
    for usual, stride in ((columnwise, columnwise.stride()), (plain, ())):
        first, second = (zeros((rows, 512), dtype, stride) for _ in range(2))
        assert _kind(first) == _kind(second) == _kind(usual)
        assert first.is_cpu
        assert not first._is_view()
        first.fill_(1)
        assert first.sum(dtype=torch.float64) == rows * 512
        assert second.count_nonzero() == 0
