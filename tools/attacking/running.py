"""Runs classes of transformers, and counts what torch does: on the meta device, or on CUDA itself.

FLOPs are those of torch's own counter, saved bytes those of the storages that autograd keeps, and
the bytes of a cache those of the storages below it.
"""

from __future__ import annotations

import contextlib
import inspect
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest import mock

import torch
import transformers
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from transformers import PreTrainedConfig

from attacking import reference

if TYPE_CHECKING:
    from collections.abc import Iterator

    from attacking.trees import Config


KERNELS = {
    "flash": [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH],
    "math": [SDPBackend.MATH],
}
"""The kernels of attention, best first. Some devices would prefer cuDNN's, which are no profile."""


class RunSizes(NamedTuple):
    """The sizes of a run: sequences, tokens in each, and those in the cache before a step."""

    batch: int
    sequence: int
    past: int


class RunCosts(NamedTuple):
    """What a run takes; None where there is no cache, or where kernels hide their products."""

    forward_flops: int | None
    saved_bytes: int
    prefilled_bytes: int | None
    stepped_bytes: int | None


def run_costs(
    config: Config,
    class_name: str,
    sizes: RunSizes,
    attention: str = "eager",
    device: str = "meta",
) -> RunCosts:
    """Return what a training step, a prefill and a step of one more token take, in BF16.

    The kernels of attention are those of a profile; the meta device has those of eager attention
    only. A decoder reads as many tokens as its encoder.

    Raises:
        RefusedByReferenceError: transformers does not build the class, or its code does not run.
    """
    object_of_config = reference.built_config({**config, "return_dict": True})
    is_meta = device == "meta"
    with (
        reference.quiet(),
        reference.as_refusals(),
        _without_looking() if is_meta else contextlib.nullcontext(),
        sdpa_kernel(KERNELS[attention]) if attention in KERNELS else contextlib.nullcontext(),
        torch.device(device),
    ):
        with reference.without_values() if is_meta else contextlib.nullcontext():
            model = _built(object_of_config, class_name, config["model_type"], attention)
        flops, saved = _trained(model.train(), sizes, is_counted=attention == "eager")
        prefilled, stepped = _cached(model.eval(), sizes)
    return RunCosts(flops, saved, prefilled, stepped)


def _built(object_of_config: Any, class_name: str, model_type: str, attention: str) -> Any:
    implementation = "eager" if attention == "eager" else "sdpa"
    usual = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)  # of buffers and masks, too
    try:
        return reference.class_called(class_name, model_type)._from_config(
            object_of_config, dtype=torch.bfloat16, attn_implementation=implementation
        )
    finally:
        torch.set_default_dtype(usual)


@contextlib.contextmanager
def _without_looking() -> Iterator[None]:
    """Let no code ask for the values of a batch, which meta tensors lack."""
    module, name = transformers.masking_utils, "find_packed_sequence_indices"
    warning = "warn_if_padding_and_no_attention_mask"
    with (
        mock.patch.object(module, name, return_value=None),
        mock.patch.object(transformers.PreTrainedModel, warning, return_value=None),
    ):
        yield


def _trained(model: Any, sizes: RunSizes, *, is_counted: bool) -> tuple[int | None, int]:
    held = storages([*model.parameters(), *model.buffers()])
    saved: dict[int, Any] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in held:
            saved[storage._cdata] = storage  # kept, so that no other one gets its address
        return tensor

    given = _inputs(model, sizes.batch, sizes.sequence, with_labels=True)
    if hasattr(model.config, "use_cache"):
        given["use_cache"] = False
    counter = FlopCounterMode(display=False, custom_mapping=COUNTED)
    with (
        counter if is_counted else contextlib.nullcontext(),
        torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
    ):
        model(**given)
    flops = counter.get_total_flops() if is_counted else None
    return flops, sum(storage.nbytes() for storage in saved.values())


def _grouped(rows: Any, weights: Any, *_: Any, **__: Any) -> int:
    """Return the FLOPs of products of groups of rows, each with a weight of its own."""
    return int(2 * rows[-2] * rows[-1] * weights[-1])


def _solved(matrix: Any, given: Any, *_: Any, left: bool = True, **__: Any) -> int:
    """Return the FLOPs of a triangular system: two for each element beside the diagonal and column.

    torch's own counter has no rule for it.
    """
    rows, columns = matrix[-1], given[-1 if left else -2]
    return int(prod(given[:-2]) * rows * (rows - 1) * columns)


COUNTED = {
    torch.ops.aten._grouped_mm: _grouped,
    torch.ops.aten.linalg_solve_triangular: _solved,
}
_CACHES = ("past_key_values", "cache_params")


def _cached(model: Any, sizes: RunSizes) -> tuple[int | None, int | None]:
    if not model.can_generate():
        return None, None
    held = storages([*model.parameters(), *model.buffers()])

    def bytes_of(cache: Any) -> int:
        own = storages(cache)
        return sum(own[storage] for storage in own.keys() - held.keys())

    given = _inputs(model, sizes.batch, sizes.past, with_labels=False)
    with torch.no_grad():
        outputs = model(**given, use_cache=True)
        name = next((name for name in _CACHES if getattr(outputs, name, None) is not None), None)
        if name is None:
            return None, None
        cache = getattr(outputs, name)
        prefilled = bytes_of(cache)
        token = {_read_last(model): given[_read_last(model)][:, :1]}
        if model.config.is_encoder_decoder:
            token["encoder_outputs"] = (outputs.encoder_last_hidden_state,)
        model(**token, **{name: cache}, use_cache=True)
    return prefilled, bytes_of(cache)


def _read_last(model: Any) -> str:
    return "decoder_input_ids" if model.config.is_encoder_decoder else "input_ids"


def _inputs(model: Any, batch: int, tokens: int, *, with_labels: bool) -> dict[str, Any]:
    """Return what a class reads: texts, sounds or images, and what a decoder reads."""
    config = model.config
    takes = inspect.signature(model.forward).parameters
    text = torch.zeros(batch, tokens, dtype=torch.long)
    given: dict[str, Any] = {}
    if "input_ids" in takes:
        given["input_ids"] = text
    if "input_features" in takes:
        length = 2 * config.max_source_positions
        given["input_features"] = torch.zeros(
            batch, config.num_mel_bins, length, dtype=torch.bfloat16
        )
    if config.is_encoder_decoder:
        given["decoder_input_ids"] = text.clone()
    seen = getattr(config, "vision_config", config)
    if "pixel_values" in takes and not hasattr(config, "image_token_index"):
        shape = (batch, seen.num_channels, seen.image_size, seen.image_size)
        given["pixel_values"] = torch.zeros(shape, dtype=torch.bfloat16)
    if with_labels and "labels" in takes:
        is_of_tokens = "input_ids" in takes or config.is_encoder_decoder
        given["labels"] = torch.zeros(text.shape if is_of_tokens else batch, dtype=torch.long)
    return given


def storages(value: Any, found: dict[int, int] | None = None) -> dict[int, int]:
    """Return the bytes of each storage below a value."""
    found = {} if found is None else found
    if isinstance(value, torch.Tensor):
        storage = value.untyped_storage()
        found[storage._cdata] = storage.nbytes()
    elif isinstance(value, dict):
        for item in value.values():
            storages(item, found)
    elif isinstance(value, list | tuple):
        for item in value:
            storages(item, found)
    elif hasattr(value, "__dict__") and not isinstance(value, type | PreTrainedConfig):
        storages(vars(value), found)
    return found
