"""One run of a class: what it computes, what it saves, and what its cache holds."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from weighbridge.costs.profiles import PROFILES
from weighbridge.derive.operations.profiles import implementation, kernels_of, recorded_on
from weighbridge.derive.operations.recording import Recorder, loss_of
from weighbridge.derive.operations.workload import DTYPES, Workload, check_inputs, inputs
from weighbridge.derive.write import DTYPES as DTYPE_NAMES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from torch import nn

    from weighbridge.costs.profiles import KernelProfile
    from weighbridge.derive.operations.draws import RunDraw
    from weighbridge.derive.operations.recording import Matmul, Recording, Saved
    from weighbridge.derive.probing.subject import Subject

TRAIN, CHECKPOINT, CACHE = "train", "checkpoint", "cache"
"""The kinds of runs: forward and backward; the same with checkpointing; a prefill and a step."""
_CACHES = ("past_key_values", "cache_params")


class RecordedItem(NamedTuple):
    """One product or tensor of one run: its module, and its dtype and numbers."""

    path: str
    dtype: str
    numbers: tuple[int, ...]


RecordedByKind = dict[str, list[RecordedItem]]


class RunMode(NamedTuple):
    """How a draw is run."""

    mode: str
    profile: str
    dtype: str
    training: bool = True
    dropouts: tuple[tuple[str, float | None], ...] = ()
    edge: tuple[tuple[str, int], ...] = ()
    """Sizes of the run that differ from those of the draw."""

    @property
    def names(self) -> dict[str, Any]:
        """The values that conditions may name besides sizes."""
        profile = PROFILES[self.profile]
        names = {"dtype": self.dtype, "training": self.training, **profile.names}
        return {**names, **dict(self.dropouts)}


def recorded_run(
    subject: Subject, class_name: str, draw: RunDraw, setting: RunMode
) -> RecordedByKind:
    """Run a class on a draw, and return what was recorded, by kind.

    Raises:
        Exception: whatever the code raises.
    """
    profile = PROFILES[setting.profile]
    usual = dict(setting.dropouts)
    changes = {**draw.changes, **usual}
    sizes = {**draw.run, **dict(setting.edge)}
    length = sizes["past"] if setting.mode == CACHE else sizes["sequence"]
    workload = Workload(
        class_name,
        changes,
        sizes["batch"],
        length,
        sizes["choices"],
        implementation(profile),
        setting.dtype,
        setting.training,
    )
    with warnings.catch_warnings(), kernels_of(profile):
        warnings.simplefilter("ignore")
        module = built_on(subject, workload, profile)
        given = inputs(workload, draw.fields, recorded_on(profile))
        if setting.mode == CACHE:
            return _cached(module, given)
        check_inputs(module, given, class_name)
        if setting.mode == CHECKPOINT:
            module.gradient_checkpointing_enable()  # type: ignore[operator]
        recording = _trained(module, given)
    if setting.mode == CHECKPOINT:
        return {
            "checkpointed": _tensors(recording.saved),
            "recomputed": _products(recording.recomputed),
        }
    return {
        "forward": _products(recording.forward),
        "backward": _products(recording.backward),
        "saved": _tensors(recording.saved),
    }


def built_on(subject: Subject, workload: Workload, profile: KernelProfile) -> nn.Module:
    """Build the class of a workload on the device that a profile is recorded on."""
    config = subject.attend(subject.config(workload.changes), workload.attention)
    with torch.device(recorded_on(profile)), _default_dtype(DTYPES[workload.dtype]):
        module = subject.build(workload.class_name, config)
    return module.train(workload.training)


@contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    usual = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(usual)


def _trained(module: nn.Module, given: Mapping[str, torch.Tensor]) -> Recording:
    keywords: dict[str, Any] = dict(given)
    if getattr(module.config, "use_cache", None):
        keywords["use_cache"] = False
    recorder = Recorder(module)
    with recorder.running():
        loss = loss_of(module(**keywords))
    with recorder.returning():
        loss.backward()  # type: ignore[no-untyped-call]
    return recorder.recording


def _cached(module: nn.Module, given: Mapping[str, torch.Tensor]) -> RecordedByKind:
    """Record what the cache holds after a prefill and after one more step, and that step."""
    keywords = {name: tensor for name, tensor in given.items() if name != "labels"}
    held = _storages(module)
    with torch.no_grad():
        outputs = module(**keywords, use_cache=True)
        name = next((name for name in _CACHES if getattr(outputs, name, None) is not None), None)
        if name is None:
            return {}
        cache = getattr(outputs, name)
        prefilled = list(_held_by(cache, "cache", set(held)))
        recorder = Recorder(module)
        token = {"input_ids": given["input_ids"][:, :1], name: cache}
        with recorder.running():
            module(**token, use_cache=True)
    stepped = list(_held_by(cache, "cache", set(held)))
    step = _products(recorder.recording.forward)
    return {"step": step, "prefilled": prefilled, "stepped": stepped}


def _storages(module: nn.Module) -> set[int]:
    tensors = [*module.parameters(), *module.buffers()]
    return {tensor.untyped_storage()._cdata for tensor in tensors}


def _held_by(value: Any, path: str, seen: set[int]) -> Iterator[RecordedItem]:
    """Yield each storage that an object holds, with the path of its first tensor."""
    if isinstance(value, torch.Tensor):
        storage = value.untyped_storage()
        if storage._cdata in seen or not storage.nbytes():
            return
        seen.add(storage._cdata)
        elements = storage.nbytes() // value.element_size()
        yield RecordedItem(path, DTYPE_NAMES[str(value.dtype).removeprefix("torch.")], (elements,))
        return
    if isinstance(value, dict):
        items: Iterable[tuple[Any, Any]] = value.items()
    elif isinstance(value, list | tuple):
        items = enumerate(value)
    elif hasattr(value, "__dict__"):
        items = vars(value).items()
    else:
        return
    for key, item in items:
        yield from _held_by(item, f"{path}.{key}".replace("cache.layers.", "cache."), seen)


def _products(matmuls: Iterable[Matmul]) -> list[RecordedItem]:
    return [RecordedItem(matmul.path, "", tuple(matmul[1:])) for matmul in matmuls]


def _tensors(saved: Iterable[Saved]) -> list[RecordedItem]:
    """Return saved tensors with their number of elements: where a size is 1, dims are ambiguous."""
    return [
        RecordedItem(tensor.path, DTYPE_NAMES[tensor.dtype], (prod(tensor.dims),))
        for tensor in saved
    ]
