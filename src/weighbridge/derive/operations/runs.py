"""One run of a class: what it computes, what it saves, and what its cache holds."""

from __future__ import annotations

import re
import warnings
from contextlib import nullcontext
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from weighbridge import data
from weighbridge.costs.profiles import PROFILES
from weighbridge.derive.operations.profiles import (
    implementation,
    kernels_of,
    of_any_weights,
    recorded_on,
)
from weighbridge.derive.operations.recording import Recorder, loss_of
from weighbridge.derive.operations.workload import (
    Workload,
    built_in_dtype,
    check_inputs,
    inputs,
    keywords_of,
)
from weighbridge.derive.write import DTYPES as DTYPE_NAMES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

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


class SameAs(NamedTuple):
    """The value of a field that is that of another field, whatever it is in a draw."""

    field: str


class RunMode(NamedTuple):
    """How a draw is run."""

    mode: str
    profile: str
    dtype: str
    training: bool = True
    changes: tuple[tuple[str, Any], ...] = ()
    """Fields that differ from those of the draw, such as dropouts; a value may be a `SameAs`."""
    edge: tuple[tuple[str, int], ...] = ()
    """Sizes of the run that differ from those of the draw."""

    def fields(self, draw: RunDraw) -> dict[str, Any]:
        """Return the changed fields of a draw, as a config has them."""
        return {name: _in_config(value, draw) for name, value in dict(self.changes).items()}

    def names(self, draw: RunDraw) -> dict[str, Any]:
        """Return the values that conditions may name besides sizes."""
        profile = PROFILES[self.profile]
        names = {"dtype": self.dtype, "training": self.training, **profile.names}
        return {**names, **self.fields(draw)}


class RunNeeds(NamedTuple):
    """What is needed of a run, besides the tensors that it saves.

    Without ``values``, the CPU need not compute any; without ``products``, there is no backward
    pass.
    """

    values: bool = True
    products: bool = True


def _in_config(value: Any, draw: RunDraw) -> Any:
    if isinstance(value, SameAs):
        return draw.fields[value.field]
    return list(value) if isinstance(value, tuple) else value


def recorded_run(
    subject: Subject,
    class_name: str,
    draw: RunDraw,
    setting: RunMode,
    *,
    needs: RunNeeds | None = None,
    built: Callable[[Subject, Workload, KernelProfile], nn.Module] | None = None,
) -> RecordedByKind:
    """Run a class on a draw, and return what was recorded, by kind.

    Everything is needed by default. ``built`` returns the module, if `built_on` is not to build
    it.

    Raises:
        Exception: whatever the code raises.
    """
    profile = PROFILES[setting.profile]
    computes, products = needs or RunNeeds()
    changes = {**draw.changes, **setting.fields(draw)}
    sizes = {**draw.run, **dict(setting.edge)}
    run: dict[str, Any] = {name: size for name, size in sizes.items() if name in Workload._fields}
    run |= {"attention": implementation(profile), "dtype": setting.dtype}
    workload = Workload(class_name, changes, training=setting.training, **run)
    device = recorded_on(profile)
    computes = computes or device != "cpu"
    asks = subject.family in asking_for_values()
    with warnings.catch_warnings(), kernels_of(profile, asks_for_values=asks):
        warnings.simplefilter("ignore")
        with nullcontext() if computes else of_any_weights():
            module = (built or built_on)(subject, workload, profile)
        if setting.mode == CACHE:
            if not _has_cache(module):
                return {}
            given = inputs(workload, draw.fields, device, part="prefill")
            return _cached(module, given, computes=computes)
        given = inputs(workload, draw.fields, device)
        check_inputs(module, given, class_name)
        if setting.mode == CHECKPOINT:
            module.gradient_checkpointing_enable()  # type: ignore[operator]
        recorder = Recorder(module, computes=computes)
        products = products and shows_products(profile)
        recording = _trained(recorder, given, is_whole=products)
    before, after = ("saved", "backward")
    if setting.mode == CHECKPOINT:
        before, after = ("checkpointed", "recomputed")
    found = {before: _tensors(recording.saved)}
    if products:
        found[after] = _products(getattr(recording, after))
        if setting.mode == TRAIN:
            found["forward"] = _products(recording.forward)
    return found


@cache
def asking_for_values() -> list[str]:
    """Return the families whose code asks for the values of tensors."""
    families: list[str] = data.read_toml("facts/running.toml")["asks_for_values"]
    return families


def shows_products(profile: KernelProfile) -> bool:
    """Whether products are recorded: the kernels of other attention hide some, or repeat them."""
    return profile.attention == "eager"


def built_on(subject: Subject, workload: Workload, profile: KernelProfile) -> nn.Module:
    """Build the class of a workload on the device that a profile is recorded on."""
    return built_in_dtype(subject, workload, recorded_on(profile))


def _trained(recorder: Recorder, given: Mapping[str, torch.Tensor], *, is_whole: bool) -> Recording:
    """Run a module forward, and backward if the whole run is asked for."""
    module = recorder.module
    with recorder.running():
        loss = loss_of(module(**keywords_of(module, given)))
    if is_whole:
        with recorder.returning():
            loss.backward()  # type: ignore[no-untyped-call]
    return recorder.recording


def _cached(
    module: nn.Module, given: Mapping[str, torch.Tensor], *, computes: bool
) -> RecordedByKind:
    """Record what the cache holds after a prefill and after one more step, and that step."""
    held = _storages(module)
    with torch.no_grad():
        with Recorder(module, computes=computes).running():  # known results are not computed again
            outputs = module(**given, use_cache=True)
        name = next((name for name in _CACHES if getattr(outputs, name, None) is not None), None)
        if name is None:
            return {}
        cache = getattr(outputs, name)
        prefilled = list(_held_by(cache, "cache", set(held)))
        recorder = Recorder(module, computes=computes)
        with recorder.running():
            module(**_token(given, outputs), **{name: cache}, use_cache=True)
    stepped = list(_held_by(cache, "cache", set(held)))
    step = _products(recorder.recording.forward)
    return {"step": step, "prefilled": prefilled, "stepped": stepped}


def _has_cache(module: nn.Module) -> bool:
    return bool(getattr(module, "can_generate", bool)())


def _token(given: Mapping[str, torch.Tensor], outputs: Any) -> dict[str, Any]:
    """Return the inputs of one more token."""
    encoded = getattr(outputs, "encoder_last_hidden_state", None)
    if encoded is None:
        return {"input_ids": given["input_ids"][:, -1:]}
    token = given["decoder_input_ids"][:, :1]
    return {"decoder_input_ids": token, "encoder_outputs": (encoded,)}


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
        yield from _held_by(item, _shortened(f"{path}.{key}"), seen)


def _shortened(path: str) -> str:
    """Return the path of a tensor in a cache that begins with its layer.

    Example:
        >>> _shortened("cache.layers.0.keys")
        'cache.0.keys'
        >>> _shortened("cache.cross_attention_cache.layers.0.keys")
        'cache.0.cross_attention_cache.keys'
    """
    path = path.replace("cache.self_attention_cache.", "cache.")
    return re.sub(r"^cache\.(\w+\.)?layers\.(\d+)\.", r"cache.\2.\1", path)


def _products(matmuls: Iterable[Matmul]) -> list[RecordedItem]:
    return [RecordedItem(matmul.path, "", tuple(matmul[1:])) for matmul in matmuls]


def _tensors(saved: Iterable[Saved]) -> list[RecordedItem]:
    """Return saved tensors with their number of elements: where a size is 1, dims are ambiguous."""
    return [
        RecordedItem(tensor.path, DTYPE_NAMES[tensor.dtype], (prod(tensor.dims),))
        for tensor in saved
    ]
