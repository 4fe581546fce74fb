"""Profiles: the kernels with which a class runs, by device and by implementation of attention.

The kernels of the CPU run for real. Those of CUDA run on the meta device: it computes no values,
so it needs no accelerator, but it keeps for the backward pass what the kernels of CUDA keep.
"""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional
from torch.utils._pytree import tree_map_only
from transformers import PreTrainedModel, masking_utils
from transformers.integrations import moe

from weighbridge.derive.operations.known_values import KnownValues
from weighbridge.derive.operations.workload import RECORDED_DTYPES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from weighbridge.costs.profiles import KernelProfile

    _Replacement = tuple[Any, str, Any]
    """A module, the name of a function in it, and the function to take instead."""


def implementation(profile: KernelProfile) -> str:
    """Return the name of a profile's attention in transformers."""
    return "eager" if profile.attention == "eager" else "sdpa"


def recorded_on(profile: KernelProfile) -> str:
    """Return the device of torch on which a profile is recorded."""
    return "meta" if profile.device == "cuda" else "cpu"


def recorded_dtypes(profile: KernelProfile) -> list[str]:
    """Return the dtypes in which a profile is recorded."""
    return [dtype for dtype in RECORDED_DTYPES if dtype in profile.dtypes]


_usual_attention = functional.scaled_dot_product_attention
_ALIGNED = 8  # elements of a bias in BF16 or F16, of which each row must begin at a multiple


@contextmanager
def kernels_of(profile: KernelProfile, *, asks_for_values: bool = False) -> Iterator[None]:
    """Run with the kernels of a profile, of which the meta device has no other than these.

    Code that asks for values of tensors gets those that are known there, too.
    """
    if profile.device != "cuda":
        yield
        return
    replaced = [*_VALUELESS]
    if profile.attention == "flash":
        replaced.append((functional, "scaled_dot_product_attention", _fused_attention))
    if asks_for_values:
        replaced.append((PreTrainedModel, "warn_if_padding_and_no_attention_mask", _no_warning))
        replaced.append((torch, "tensor", _by_way_of_the_cpu))
    values = KnownValues() if asks_for_values else nullcontext()
    with _replacing(replaced), _dropping_as_cuda(), values:
        yield


@contextmanager
def without_values() -> Iterator[None]:
    """Build and run classes of transformers on tensors that have no values, such as fake ones."""
    with _replacing([*_VALUELESS, (PreTrainedModel, "initialize_weights", _as_they_are)]):
        yield


@contextmanager
def of_any_weights() -> Iterator[None]:
    """Build modules on the CPU whose weights are all alike: to draw them would take long."""
    with _replacing([(torch.Tensor, name, _alike) for name in ("normal_", "uniform_")]):
        yield


def _alike(weight: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
    return weight.fill_(0.01)


@contextmanager
def _replacing(replaced: Iterable[_Replacement]) -> Iterator[None]:
    replaced = list(replaced)
    usual = [(module, name, getattr(module, name)) for module, name, _ in replaced]
    try:
        for module, name, function in replaced:
            setattr(module, name, function)
        yield
    finally:
        for module, name, function in usual:
            setattr(module, name, function)


def _one_sequence(_: torch.Tensor) -> None:
    """Each item of a batch is one sequence; the code would look at values, which meta lacks."""


def _unchecked(*_: Any) -> None:
    """Whether as many tokens stand for images as images have is checked on the CPU only."""


def _no_warning(*_: Any) -> None:
    """It warns of padding tokens only, and would look at values by a list of indices."""


_usual_tensor = torch.tensor


def _by_way_of_the_cpu(values: Any, *, device: Any = None, **settings: Any) -> torch.Tensor:
    """A tensor of given numbers, whose values are known wherever it is made."""
    values = tree_map_only(torch.Tensor, torch.Tensor.tolist, values)
    return _usual_tensor(values, device="cpu", **settings).to(device)


def _as_they_are(_: PreTrainedModel) -> None:
    """Leave weights without values; some initializations would look at them."""


@contextmanager
def _dropping_as_cuda() -> Iterator[None]:
    """Drop as CUDA does, in attention too: it keeps a mask of one byte for each element."""
    library: Any = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
    library.impl("dropout", _fused_dropout, "AutogradMeta")
    try:
        yield
    finally:
        library._destroy()


def _fused_dropout(given: torch.Tensor, p: float, train: bool) -> torch.Tensor:  # noqa: FBT001
    if not train or p == 0:
        return given
    dropped: torch.Tensor = torch.native_dropout(given, p, True)[0]  # noqa: FBT003
    return dropped


class _Grouped(torch.autograd.Function):
    """Products of groups, of which CUDA keeps where each one ends, in each dtype.

    The meta device has the operator for BF16 only.
    """

    @staticmethod
    def forward(ctx: Any, given: torch.Tensor, weight: torch.Tensor, offs: torch.Tensor) -> Any:
        ctx.save_for_backward(given, weight, offs)
        return torch.ops.transformers.grouped_mm_fallback(given, weight, offs)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        backward = torch.ops.transformers.grouped_mm_fallback_backward
        return (*backward(*ctx.saved_tensors, gradient), None)


def _grouped(
    input: torch.Tensor,  # noqa: A002  # the name that transformers gives it
    weight: torch.Tensor,
    offs: torch.Tensor,
) -> torch.Tensor:
    if weight.dtype == torch.bfloat16:
        return functional.grouped_mm(input.to(weight.dtype), weight, offs=offs)
    apply: Callable[..., torch.Tensor] = _Grouped.apply
    return apply(input.to(weight.dtype), weight, offs)


_VALUELESS: list[_Replacement] = [
    (moe, "_grouped_mm", _grouped),
    (masking_utils, "find_packed_sequence_indices", _one_sequence),
    (torch, "_check_tensor_all_with", _unchecked),
]


def _fused_attention(  # noqa: PLR0913, PLR0917  # torch's own signature
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,  # noqa: FBT001, FBT002
    scale: float | None = None,
    enable_gqa: bool = False,  # noqa: FBT001, FBT002
) -> Any:
    """Attention by the kernel that torch chooses on CUDA: flash, or memory-efficient with a mask.

    Source: `sdp_utils.cpp` of torch: flash attention takes no mask, and a head of at most 256;
    neither takes key heads that are to be repeated for each query head, but flash where this is
    said. They are left to the mathematical form.
    """
    is_flash = attn_mask is None and query.shape[-1] == value.shape[-1] <= 256
    if query.shape[-3] != key.shape[-3] and not (is_flash and enable_gqa):
        return _usual_attention(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )
    if is_flash:
        return torch.ops.aten._scaled_dot_product_flash_attention(
            query, key, value, dropout_p, is_causal, return_debug_mask=False, scale=scale
        )[0]
    bias = attn_mask
    if bias is not None:
        if bias.dtype == torch.bool:
            bias = torch.zeros_like(bias, dtype=query.dtype).masked_fill_(~bias, float("-inf"))
        bias = _with_padded_rows(bias).expand(*query.shape[:-1], key.shape[-2])
    return torch.ops.aten._scaled_dot_product_efficient_attention(
        query,
        key,
        value,
        bias,
        True,  # noqa: FBT003  # it keeps the statistics of softmax
        dropout_p,
        is_causal,
        scale=scale,
    )[0]


def _with_padded_rows(bias: torch.Tensor) -> torch.Tensor:
    """Return a bias whose rows begin where the memory-efficient kernel can read them."""
    if not any(stride % _ALIGNED for stride in bias.stride()[:-1]) and bias.stride(-1) == 1:
        return bias
    columns = bias.shape[-1]
    return functional.pad(bias, (0, _ALIGNED - columns % _ALIGNED))[..., :columns]
