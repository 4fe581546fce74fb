"""Lower bounds on time: no step is faster, however good the code is.

A device cannot compute faster than its peak without sparsity, read its memory faster than its
bandwidth, or send faster than its links. Attention with a causal mask needs only half of its
products, so the bound counts half of them.
"""

from __future__ import annotations

from weighbridge.errors import UsageError
from weighbridge.lean_typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from weighbridge.costs.devices import Device

_PEAKS = {
    "F32": ("TF32", "F32"),
    "BF16": ("BF16", "F16"),
    "F16": ("F16", "BF16"),
    "F8_E4M3": ("F8", "BF16", "F16"),
    "F8_E5M2": ("F8", "BF16", "F16"),
    "F4": ("F4", "F8", "BF16", "F16"),
    "I8": ("I8", "BF16", "F16"),
}
"""The peaks that products in a dtype may reach, the fitting one first."""


class Bound(NamedTuple):
    """The least seconds of each thing that a step has to do; they may overlap."""

    compute: float
    memory: float = 0.0
    links: float = 0.0

    @property
    def seconds(self) -> float:
        """The least seconds of the step."""
        return max(self)

    @property
    def limit(self) -> str:
        """The name of what limits it."""
        return max(self._fields, key=lambda name: getattr(self, name))


def peak_of(device: Device, dtype: str) -> tuple[str, float]:
    """Return the fastest that a device multiplies in a dtype, in FLOP/s, and whose peak this is.

    Raises:
        UsageError: no fitting peak is known.

    Example:
        >>> from weighbridge.costs.devices import device_called
        >>> peak_of(device_called("L4"), "BF16")
        ('BF16', 121000000000000.0)
    """
    for name in _PEAKS.get(dtype, (dtype, "BF16", "F16", "F32")):
        if name in device.peaks:
            return name, device.peaks[name]
    known = ", ".join(device.peaks)
    raise UsageError(
        "the device has no peak for this dtype",
        values={"device": device.name, "dtype": dtype},
        hint=f"use a dtype with one of {known}, or --device-file with its peak",
    )


def ring_bytes(size: float, ranks: int, *, reduce: bool) -> float:
    """Return the bytes that each rank sends to gather a tensor over a ring, or to sum one.

    A gather sends every part but one's own; a sum (all-reduce) does so twice. No algorithm sends
    less: Patarasuk and Yuan, 2009, https://doi.org/10.1016/j.jpdc.2008.09.002.

    Example:
        >>> ring_bytes(800, 8, reduce=True), ring_bytes(800, 8, reduce=False)
        (1400.0, 700.0)
    """
    return (2 if reduce else 1) * size * (ranks - 1) / ranks
