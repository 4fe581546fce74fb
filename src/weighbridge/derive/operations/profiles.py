"""Profiles: the kernels with which a class runs, by device and by implementation of attention.

The kernels of the CPU run for real. Those of CUDA run on the meta device: it computes no values,
so it needs no accelerator, but it keeps for the backward pass what the kernels of CUDA keep.
"""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional
from transformers import PreTrainedModel, masking_utils
from transformers.integrations import moe

from weighbridge.derive.operations.known_values import KnownValues
from weighbridge.derive.operations.workload import RECORDED_DTYPES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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


@contextmanager
def kernels_of(profile: KernelProfile, *, asks_for_values: bool = False) -> Iterator[None]:
    """Run with the kernels of a profile, of which the meta device has no other than these.

    Code that asks for values of tensors gets those that are known there, too.
    """
    if profile.device != "cuda":
        yield
        return
    replaced: list[_Replacement] = [(functional, "dropout", _fused_dropout), *_VALUELESS]
    if profile.attention == "flash":
        replaced.append((functional, "scaled_dot_product_attention", _fused_attention))
    if asks_for_values:
        replaced.append((PreTrainedModel, "warn_if_padding_and_no_attention_mask", _no_warning))
    with _replacing(replaced), KnownValues() if asks_for_values else nullcontext():
        yield


@contextmanager
def without_values() -> Iterator[None]:
    """Build and run classes of transformers on tensors that have no values, such as fake ones."""
    with _replacing([*_VALUELESS, (PreTrainedModel, "initialize_weights", _as_they_are)]):
        yield


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


def _has_grouped_kernel(given: torch.Tensor, *_: Any) -> bool:
    """The meta device multiplies groups in BF16 only; the other implementation saves the same."""
    return given.dtype == torch.bfloat16


def _unchecked(*_: Any) -> None:
    """Whether as many tokens stand for images as images have is checked on the CPU only."""


def _no_warning(*_: Any) -> None:
    """It warns of padding tokens only, and would look at values by a list of indices."""


def _as_they_are(_: PreTrainedModel) -> None:
    """Leave weights without values; some initializations would look at them."""


_VALUELESS: list[_Replacement] = [
    (masking_utils, "find_packed_sequence_indices", _one_sequence),
    (moe, "_can_use_grouped_mm", _has_grouped_kernel),
    (torch, "_check_tensor_all_with", _unchecked),
]


def _fused_dropout(
    given: torch.Tensor,
    p: float = 0.5,
    training: bool = True,  # noqa: FBT001, FBT002  # as in torch
    inplace: bool = False,  # noqa: ARG001, FBT001, FBT002
) -> torch.Tensor:
    """Dropout as on CUDA, which keeps a mask of one byte for each element."""
    if not training or p == 0:
        return given
    dropped: torch.Tensor = torch.native_dropout(given, p, True)[0]  # noqa: FBT003
    return dropped


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

    Source: `sdp_utils.cpp` of torch: flash attention takes no mask, and a head of at most 256.
    """
    if attn_mask is None and query.shape[-1] == value.shape[-1] <= 256:
        return torch.ops.aten._scaled_dot_product_flash_attention(
            query, key, value, dropout_p, is_causal, return_debug_mask=False, scale=scale
        )[0]
    if enable_gqa:
        repeats = query.shape[-3] // key.shape[-3]
        key, value = (given.repeat_interleave(repeats, -3) for given in (key, value))
    bias = attn_mask
    if bias is not None:
        if bias.dtype == torch.bool:
            bias = torch.zeros_like(bias, dtype=query.dtype).masked_fill_(~bias, float("-inf"))
        bias = bias.expand(*query.shape[:-1], key.shape[-2])
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
