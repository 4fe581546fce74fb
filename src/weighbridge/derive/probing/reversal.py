"""What transformers writes to files in place of a module's tensors, told by running its own code on the meta device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.overrides import TorchFunctionMode
from transformers.conversion_mapping import get_model_conversion_mapping
from transformers.core_model_loading import PrefixChange, revert_weight_conversion

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import nn


class InFile(NamedTuple):
    """A tensor of a file: its shape, and the names of the module's tensors that it is made of."""

    shape: tuple[int, ...]
    of: tuple[str, ...]


class Files(NamedTuple):
    """What files hold of a module, and the names that older files have for it, where they are others."""

    tensors: dict[str, InFile]
    older: dict[str, str]


def files_of(module: nn.Module) -> Files | None:
    """Return what `save_pretrained` writes of a module on the meta device; None where it is the module's own tensors.

    Raises:
        Exception: whatever the reference raises where it cannot turn back what it does when it
            loads.
    """
    conversions = get_model_conversion_mapping(module, add_legacy=False)  # type: ignore[arg-type]
    if not conversions:
        return None
    tensors = _reverted(module)
    older: dict[str, str] = {}
    if any(isinstance(conversion, PrefixChange) for conversion in conversions):
        module._weight_conversions = conversions  # type: ignore[assignment]  # as if it had been loaded from a file
        now = _by_what_they_are_of(tensors)
        for of, names in _by_what_they_are_of(_reverted(module)).items():
            older |= {
                old: name for old, name in zip(names, now[of], strict=True) if old not in tensors
            }
    return Files(tensors, older)


def _reverted(module: nn.Module) -> dict[str, InFile]:
    held = {
        name: torch.empty(tensor.shape, device="meta")
        for name, tensor in module.state_dict().items()
    }
    for name, tensor in held.items():
        tensor._weighbridge_of = {name: None}  # type: ignore[attr-defined]
    with _Trail():
        found = revert_weight_conversion(module, held)  # type: ignore[arg-type]
    return {name: InFile(tuple(tensor.shape), tuple(_of(tensor))) for name, tensor in found.items()}


def _by_what_they_are_of(tensors: dict[str, InFile]) -> dict[tuple[str, ...], list[str]]:
    names: dict[tuple[str, ...], list[str]] = {}
    for name, tensor in tensors.items():
        names.setdefault(tensor.of, []).append(name)
    return names


class _Trail(TorchFunctionMode):
    """Keeps on every tensor which ones it was made of."""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        made = function(*args, **(kwargs or {}))
        of = {name: None for tensor in _tensors([args, kwargs]) for name in _of(tensor)}
        for tensor in _tensors(made) if of else ():
            tensor._weighbridge_of = of  # type: ignore[attr-defined]
        return made


def _of(tensor: torch.Tensor) -> dict[str, None]:
    return getattr(tensor, "_weighbridge_of", {})


def _tensors(found: Any) -> Iterator[torch.Tensor]:
    if isinstance(found, torch.Tensor):
        yield found
    elif isinstance(found, list | tuple | dict):
        for each in found.values() if isinstance(found, dict) else found:
            yield from _tensors(each)
