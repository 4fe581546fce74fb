"""Which kernels torch takes for attention on CUDA."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from torch.nn.attention import SDPBackend, sdpa_kernel

if TYPE_CHECKING:
    from collections.abc import Iterator

_BEST_FIRST = {
    "flash": [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH],
    "math": [SDPBackend.MATH],
}


@contextmanager
def kernels_on_cuda(attention: str) -> Iterator[None]:
    """Run with the kernels of a profile's attention, whatever the device would prefer.

    On Hopper and on Blackwell torch prefers those of cuDNN, with which nothing was recorded.

    Example:
        >>> import torch
        >>> with kernels_on_cuda("math"):
        ...     torch.backends.cuda.math_sdp_enabled(), torch.backends.cuda.flash_sdp_enabled()
        (True, False)
    """
    chosen = _BEST_FIRST.get(attention)
    with sdpa_kernel(chosen) if chosen else nullcontext():
        yield
