"""Profiles: the kernels that a class runs with, by device and by implementation of attention.

Which tensors are saved for the backward pass depends on the kernels. A file of operations has
conditions on ``device`` and ``attention``; a profile gives both a value.
"""

from __future__ import annotations

from weighbridge.errors import UsageError
from weighbridge.lean_typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable


class KernelProfile(NamedTuple):
    """A device, the kernels of attention, and the dtypes that these kernels take.

    ``instead`` names the profiles that are nearest, for a family that was not recorded with it.
    """

    device: str
    attention: str
    dtypes: tuple[str, ...] = ("F32", "BF16", "F16")
    instead: tuple[str, ...] = ()

    @property
    def names(self) -> dict[str, str]:
        """The values of the names that a condition of a file of operations may use."""
        return {"device": self.device, "attention": self.attention}


PROFILES = {
    "cpu": KernelProfile("cpu", "sdpa", instead=("cpu-eager", "cuda-eager")),
    "cpu-eager": KernelProfile("cpu", "eager", instead=("cuda-eager",)),
    "cuda-eager": KernelProfile("cuda", "eager", instead=("cpu-eager",)),
    "cuda-math": KernelProfile("cuda", "math", instead=("cuda-eager", "cpu", "cpu-eager")),
    "cuda-flash": KernelProfile(
        "cuda", "flash", ("BF16", "F16"), ("cuda-math", "cuda-eager", "cpu", "cpu-eager")
    ),
}
"""The profiles by name. CUDA's flash attention has no F32."""

USUAL = "cuda-flash"
"""The profile of a run that names none."""
OF_FORMAT_1 = ("cpu", "cpu-eager")
"""The profiles of a file of operations that names none: the first format knew only the CPU."""


def profile_called(name: str) -> KernelProfile:
    """Return the profile with a name.

    Raises:
        UsageError: there is none.

    Example:
        >>> profile_called("cuda-math").names
        {'device': 'cuda', 'attention': 'math'}
    """
    if name not in PROFILES:
        raise UsageError(
            "there is no such profile",
            values={"profile": name},
            hint=f"use one of {', '.join(PROFILES)}",
        )
    return PROFILES[name]


def nearest_profile(name: str, recorded: Iterable[str], dtype: str) -> str | None:
    """Return the first of a profile and those instead of it that was recorded and takes a dtype.

    Example:
        >>> nearest_profile("cuda-flash", ["cpu", "cuda-eager"], "BF16")
        'cuda-eager'
        >>> nearest_profile("cuda-flash", ["cuda-flash", "cuda-math"], "F32")
        'cuda-math'
    """
    known = set(recorded)
    for candidate in (name, *profile_called(name).instead):
        if candidate in known and dtype in PROFILES[candidate].dtypes:
            return candidate
    return None
