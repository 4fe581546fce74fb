"""Finds what transformers writes to files in place of a module's tensors.

Its own code runs on the meta device to show this.
"""

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
    """A tensor in a file: its shape, and the names of the module's tensors that it is made of."""

    shape: tuple[int, ...]
    of: tuple[str, ...]


class Files(NamedTuple):
    """The tensors that files hold for a module, and the current names of those in older files."""

    tensors: dict[str, InFile]
    older: dict[str, str]


def saved_files_of(module: nn.Module) -> Files | None:
    """Return what `save_pretrained` writes for a module; None if it writes the module's tensors.

    The module is on the meta device.

    Raises:
        Exception: whatever the reference raises if it cannot revert the conversion that it applies
            when it loads a file.
    """
    conversions = get_model_conversion_mapping(module, add_legacy=False)  # type: ignore[arg-type]
    if not conversions:
        return None
    tensors = _reverted(module)
    older: dict[str, str] = {}
    if any(isinstance(conversion, PrefixChange) for conversion in conversions):
        # as if the module had been loaded from a file
        module._weight_conversions = conversions  # type: ignore[assignment]
        names_now = _names_by_sources(tensors)
        for sources, names in _names_by_sources(_reverted(module)).items():
            older |= {
                name: name_now
                for name, name_now in zip(names, names_now[sources], strict=True)
                if name not in tensors
            }
    return Files(tensors, older)


def _reverted(module: nn.Module) -> dict[str, InFile]:
    tensors = {
        name: torch.empty(tensor.shape, device="meta")
        for name, tensor in module.state_dict().items()
    }
    for name, tensor in tensors.items():
        tensor._weighbridge_of = {name: None}  # type: ignore[attr-defined]
    with _SourceKeeper():
        in_file = revert_weight_conversion(module, tensors)  # type: ignore[arg-type]
    return {
        name: InFile(tuple(tensor.shape), tuple(_sources(tensor)))
        for name, tensor in in_file.items()
    }


def _names_by_sources(tensors: dict[str, InFile]) -> dict[tuple[str, ...], list[str]]:
    names: dict[tuple[str, ...], list[str]] = {}
    for name, tensor in tensors.items():
        names.setdefault(tensor.of, []).append(name)
    return names


class _SourceKeeper(TorchFunctionMode):
    """Keeps on every tensor the names of its source tensors, as the keys of a dict."""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        sources: dict[str, None] = {}
        for tensor in _tensors_in([args, kwargs]):
            sources |= _sources(tensor)
        if sources:
            for tensor in _tensors_in(result):
                tensor._weighbridge_of = sources  # type: ignore[attr-defined]
        return result


def _sources(tensor: torch.Tensor) -> dict[str, None]:
    return getattr(tensor, "_weighbridge_of", {})


def _tensors_in(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        yield from _tensors_in(list(value.values()))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _tensors_in(item)
