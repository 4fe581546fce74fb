"""Compare predictions with a real run of a class that is built with random weights."""

from __future__ import annotations

import os
import statistics
import time
import warnings
from contextlib import nullcontext
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.utils.flop_counter import FlopCounterMode, flop_registry

from weighbridge import units
from weighbridge.costs.costs import Measurement, Note, Quantity
from weighbridge.costs.profiles import PROFILES, USUAL, nearest_profile
from weighbridge.derive.operations.kernels import kernels_on_cuda
from weighbridge.derive.operations.products import RULES, products_of
from weighbridge.derive.operations.recording import Recorder, loss_of
from weighbridge.derive.operations.workload import (
    DTYPES,
    Workload,
    built_in_dtype,
    check_inputs,
    inputs,
    keywords_of,
    sizes_of,
)
from weighbridge.derive.running.runs import reference
from weighbridge.errors import ModelError, UsageError, WeighbridgeError, shorten
from weighbridge.ledger.ledger import bind
from weighbridge.models import find as models
from weighbridge.torch.predictions import EXACT, known_operations, predicted_by_name, usual_class
from weighbridge.torch.rehearsal import live_peak_bytes, rehearsed_peak_bytes, run_step

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from torch import nn

    from weighbridge.blueprint.operations import Operations
    from weighbridge.derive.probing.subject import Subject
    from weighbridge.models.find import Model

OURS = {"bert": "weighbridge.torch.bert:BertModel"}
"""The runnable classes of this package, by family: module and base class."""

_STEPS = 3  # timed steps; an odd number, so that the median is one of them
_RATE_SIZE = {"cpu": 2048, "cuda": 8192}
"""The largest size of the square matrices that measure a machine's rate: it keeps it busy."""
_FIRST_RATE_SIZE = 256
_LONG_SECONDS = 0.1  # of a product that is long enough to measure a rate
_ASSUMED_DTYPE = "F32"  # PyTorch's own
_LARGEST = 2**20  # the largest batch or sequence; more is a mistake
_POSITIONS = ("max_position_embeddings", "n_positions", "n_ctx")
_LABEL_NAMES, _LABEL_COUNT = "id2label", "num_labels"


class MeasureRequest(NamedTuple):
    """What to measure, and how: see `weighbridge measure --help`."""

    model: str
    class_name: str | None = None
    fields: Mapping[str, Any] = {}
    blueprint: str | None = None
    batch: int = 1
    sequence: int = 128
    train: bool = False
    attention: str = "eager"
    dtype: str | None = None
    device: str = "cpu"
    ours: bool = False
    force: bool = False


def measure(request: MeasureRequest, say: Callable[[str], None] = lambda _: None) -> Measurement:
    """Predict the costs of a class, then build it, run it and measure them.

    Without training the class runs in evaluation mode and without a backward pass. Gradients are
    still enabled, so that everything a backward pass needs is saved, and no cache is filled. FLOPs
    are counted with eager attention, because other kernels hide theirs. Without a dtype it is the
    config's own.

    Raises:
        UsageError: a size, a field, the dtype or the device makes no sense, or a package is not
            installed.
        ModelError: there is no such model or class, it does not fit into free memory, or its code
            raised an error.
        ConfigError: the config does not describe a model.

    Example:
        >>> tiny = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1}
        >>> measurement = measure(MeasureRequest("bert", fields=tiny, batch=2, sequence=8))
        >>> quantities = [quantity for quantity in measurement.quantities if quantity.measured]
        >>> [quantity.ratio for quantity in quantities if quantity.name in EXACT]
        [1.0, 1.0, 1.0, 1.0]
    """
    _check_request(request)
    model = models.find(request.model, request.fields, blueprint=request.blueprint)
    class_name = request.class_name or usual_class(model, ours=request.ours)
    dtype, notes = _dtype_of_step(request, model)
    ledger = bind(model.blueprint, class_name, model.fields, dtype)
    _check_positions(request, model)
    known, note = known_operations(model, class_name, ours=request.ours)
    run = Workload(
        class_name,
        _changes(model, request, known),
        request.batch,
        request.sequence,
        2,
        request.attention,
        dtype,
        request.train,
        target=request.sequence,
        device=request.device,
    )
    predicted = predicted_by_name(ledger, model, known, run)
    notes.append(note)
    if not request.force:
        _check_weights(predicted["weight_bytes"], run)
    subject = _subject(model, request)
    say("rehearsing the step")
    with _kernels(run):
        predicted["peak_bytes"], note = _rehearsed(subject, run, model, ours=request.ours)
        notes.append(note)
        if not request.force:
            _check_peak(predicted["peak_bytes"], run)
        measured, rate = _measured_safely(subject, run, model, request.device, say)
    predicted["step_seconds"] = _predicted_seconds(predicted, rate, training=request.train)
    names = (*EXACT, "peak_bytes", "step_seconds")
    quantities = tuple(Quantity(name, predicted.get(name), measured.get(name)) for name in names)
    notes.append(Note("rate", {"rate": units.short(round(rate)), "steps": str(_STEPS)}))
    exact: tuple[str, ...] = EXACT
    if request.device != "cpu":
        exact = EXACT[:-1]
        if known is not None:
            notes.append(Note("kernels", {"kernels": known.kernels}))
        if run.attention == "sdpa":
            notes.append(Note("chosen", {"profile": _fused_profile(run)}))
    settings = _settings(run, request.device)
    return Measurement(
        model.where, model.blueprint.family, class_name, settings, quantities, exact, tuple(notes)
    )


def _kernels(run: Workload) -> AbstractContextManager[None]:
    """Return a context in which CUDA takes the kernels of attention that are predicted."""
    if run.device != "cuda" or run.attention != "sdpa":
        return nullcontext()
    return kernels_on_cuda(PROFILES[_fused_profile(run)].attention)


def _fused_profile(run: Workload) -> str:
    """Return the profile of scaled dot-product attention on CUDA."""
    return str(nearest_profile(USUAL, PROFILES, run.dtype))


def _dtype_of_step(request: MeasureRequest, model: Model) -> tuple[str, list[Note]]:
    """Return the dtype to run in, with a note on its origin unless the user gave it.

    Raises:
        UsageError: torch does not train in the dtype.
    """
    dtype = request.dtype or model.stated_dtype or _ASSUMED_DTYPE
    if dtype not in DTYPES:
        raise UsageError(
            "a class cannot be run in this dtype",
            where=model.where,
            values={"dtype": dtype},
            hint="add --dtype with float32, bfloat16 or float16",
        )
    if request.dtype:
        return dtype, []
    origin = "assumed_dtype"
    if model.stated_dtype:
        origin = "stated_dtype"
    return dtype, [Note(origin, {"dtype": dtype})]


def _rehearsed(
    subject: Subject, run: Workload, model: Model, *, ours: bool
) -> tuple[int | None, Note]:
    """Return the peak in a rehearsal, or None, with a note either way."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            peak = rehearsed_peak_bytes(subject, run, model.fields, run.device, ours=ours)
    except Exception as error:  # whatever the code raises
        return None, Note("no_rehearsal", {"reason": _raised_by(error)})
    return peak, Note("rehearsal", {})


def _raised_by(error: Exception) -> str:
    return shorten(" ".join(f"{type(error).__name__}: {error}".split()), str, 300).rstrip(".")


def _measured_safely(
    subject: Subject, run: Workload, model: Model, device: str, say: Callable[[str], None]
) -> tuple[dict[str, Any], float]:
    """Return the result of `_measured`; an error in the model's code becomes a ModelError."""
    try:
        return _measured(subject, run, model, device, say)
    except WeighbridgeError:
        raise
    except Exception as error:  # whatever the code raises
        raise ModelError(
            f"running it raised {_raised_by(error)}",
            where=run.class_name,
            hint="check that the class runs on its own",
        ) from None


def _predicted_seconds(
    predicted: Mapping[str, Any], rate: float, *, training: bool
) -> float | None:
    flops = [predicted["forward_matmul_flops"]]
    if training:
        flops.append(predicted["backward_matmul_flops"])
    if None in flops:
        return None
    seconds: float = sum(flops) / rate
    return seconds


def _settings(run: Workload, device: str) -> dict[str, Any]:
    """Return the settings of the run, as the measurement reports them."""
    return {
        **{name: getattr(run, name) for name in sizes_of(run.class_name)},
        "attention": run.attention,
        "dtype": run.dtype,
        "training": run.training,
        "device": device,
        "torch": torch.__version__,
    }


# Refusals


def _check_request(request: MeasureRequest) -> None:
    for name, size in (("--batch", request.batch), ("--seq", request.sequence)):
        if not 1 <= size <= _LARGEST:
            hint = f"give 1 to {_LARGEST:,}"
            raise UsageError(
                f"{name} must be a positive integer", values={name.strip("-"): size}, hint=hint
            )
    if request.device not in ("cpu", "cuda"):
        raise UsageError(
            "no such device", values={"device": request.device}, hint="give cpu or cuda"
        )
    if request.device == "cuda" and not torch.cuda.is_available():
        raise UsageError(
            "torch finds no CUDA device",
            values={"device": request.device},
            hint="drop --device",
        )


def _check_positions(request: MeasureRequest, model: Model) -> None:
    """Refuse a sequence that is longer than the learned positions."""
    for name in _POSITIONS:
        most = model.fields.get(name)
        if type(most) is int and request.sequence > most:
            values = {"seq": request.sequence, name: most}
            raise UsageError(
                "the sequence is longer than the positions of the model",
                values=values,
                hint=f"give --seq {most} or less",
            )


def _check_weights(weight_bytes: int, run: Workload) -> None:
    """Refuse a run whose weights, and in training their gradients, fill more than free memory."""
    needed = {"weights": weight_bytes}
    what = "the weights alone do not fit into free memory"
    if run.training:
        needed["gradients"] = weight_bytes
        what = "the weights and their gradients alone do not fit into free memory"
    hint = "set fewer layers with --set, or run it anyway with --force"
    if run.dtype == "F32":
        hint = "use --dtype bfloat16, set fewer layers with --set, or run it anyway with --force"
    _check_fits(what, needed, run, hint)


def _check_peak(peak_bytes: int | None, run: Workload) -> None:
    """Refuse a run whose predicted peak is more than free memory."""
    hint = "reduce --batch or --seq, or run it anyway with --force"
    _check_fits("does not fit into free memory", {"needed": peak_bytes or 0}, run, hint)


def _check_fits(what: str, needed: Mapping[str, int], run: Workload, hint: str) -> None:
    free = _free_bytes(run.device)
    if free is not None and sum(needed.values()) > free:
        values = {name: units.size(taken) for name, taken in {**needed, "free": free}.items()}
        raise ModelError(what, where=run.class_name, values=values, hint=hint)


def _free_bytes(device: str) -> int | None:
    """Return the memory available without swapping; None if the system does not report it."""
    if device == "cuda":
        free: int = torch.cuda.mem_get_info()[0]
        return free
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            return next(
                int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable:")
            )
    except (OSError, StopIteration, ValueError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


# Measurements


def _subject(model: Model, request: MeasureRequest) -> Subject:
    """Return the builder of the model: transformers, or this package's own class."""
    family = model.blueprint.family
    if not request.ours:
        found: Subject = reference().FamilySubject(family)
        found.task_classes()  # this registers them
        return found
    if family not in OURS:
        raise ModelError(
            "this package has no class of its own for it", where=family, hint="drop --ours"
        )
    from weighbridge.derive.probing.own import OwnSubject  # noqa: PLC0415

    return OwnSubject(OURS[family], family=family)


def _changes(model: Model, request: MeasureRequest, known: Operations | None) -> dict[str, Any]:
    """Return the values in the config of fields that a class is built from or run by.

    A config has the names of its labels; our own classes take their number.
    """
    names = {*model.blueprint.fields, *model.blueprint.inert}
    if known is not None:
        names |= {*known.fields, *known.computed, *known.held}
    changes = {name: value for name, value in model.given.items() if name in names}
    if request.ours and _LABEL_NAMES in changes:
        del changes[_LABEL_NAMES]
        changes[_LABEL_COUNT] = model.fields[_LABEL_COUNT]
    return changes


def _measured(
    subject: Subject, run: Workload, model: Model, device: str, say: Callable[[str], None]
) -> tuple[dict[str, Any], float]:
    """Return the measured quantities by name, and the machine's rate in FLOPs per second."""
    torch.manual_seed(0)
    given = inputs(run, model.fields, device)
    say("counting FLOPs")
    found: dict[str, Any] = dict(
        _flops(built_in_dtype(subject, run._replace(attention="eager"), device), given, run)
    )
    say("measuring memory")
    module = built_in_dtype(subject, run, device)
    check_inputs(module, given, run.class_name)
    own = list(module.parameters())
    found["parameters"] = sum(parameter.numel() for parameter in own)
    found["weight_bytes"] = sum(parameter.numel() * parameter.element_size() for parameter in own)
    recorder = Recorder(module)
    with recorder.running():
        loss_of(module(**keywords_of(module, given)))
    found["saved_for_backward_bytes"] = recorder.recording.saved_bytes
    del recorder
    found["peak_bytes"] = _peak_bytes(module, given, run, device)
    say("timing steps")
    found["step_seconds"] = _median_seconds(
        lambda: run_step(module, given, training=run.training), device
    )
    return found, _matmul_rate(run.dtype, device)


def _flops(module: nn.Module, given: Mapping[str, torch.Tensor], run: Workload) -> dict[str, int]:
    """Return the count of torch's FLOP counter for the forward and, in training, backward pass."""
    with FlopCounterMode(display=False, custom_mapping=_COUNTED_HERE) as forward:
        loss = loss_of(module(**keywords_of(module, given)))
    found = {"forward_matmul_flops": forward.get_total_flops()}
    if run.training:
        with FlopCounterMode(display=False, custom_mapping=_COUNTED_HERE) as backward:
            loss.backward()  # type: ignore[no-untyped-call]
        found["backward_matmul_flops"] = backward.get_total_flops()
    return found


def _counted_here(packet: Any) -> Callable[..., int]:
    """Return a function that counts the FLOPs of an operator by its rule in `products.py`."""

    def count(*arguments: Any, out_val: object = None, **keywords: Any) -> int:
        del out_val  # torch's counter gives it to every function
        return 2 * sum(prod(factors) for factors in products_of(packet, arguments, keywords))

    count._get_raw = True  # type: ignore[attr-defined]  # it takes tensors, not their shapes
    return count


def _counts_of_products() -> dict[Any, Callable[..., int]]:
    """Return the counts of the operators that torch's counter counts wrongly or as 0."""
    aten = torch.ops.aten
    packets = [getattr(aten, name) for name in RULES if hasattr(aten, name)]
    wrong = [aten.convolution_backward]  # of groups
    missing = [packet for packet in packets if packet not in flop_registry]
    return {packet: _counted_here(packet) for packet in (*wrong, *missing)}


_COUNTED_HERE = _counts_of_products()


def _peak_bytes(
    module: nn.Module, given: Mapping[str, torch.Tensor], run: Workload, device: str
) -> int:
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        run_step(module, given, training=run.training)
        return int(torch.cuda.max_memory_allocated())
    return live_peak_bytes(module, given, training=run.training)


def _median_seconds(step: Callable[[], object], device: str) -> float:
    """Return the duration of a step: the median of several, after a warm-up step."""
    step()
    return statistics.median(_seconds(step, device) for _ in range(_STEPS))


def _seconds(step: Callable[[], object], device: str) -> float:
    if device == "cuda":
        torch.cuda.synchronize()
    began = time.perf_counter()
    step()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - began


def _matmul_rate(dtype: str, device: str) -> float:
    """Return the FLOPs per second of a large square matrix product, the best of several runs.

    The size is doubled until a product takes long enough: a CPU may be slow in a short dtype.
    """
    largest = _RATE_SIZE[device]
    size = min(largest, _FIRST_RATE_SIZE)
    while (best := _product_seconds(size, dtype, device)) < _LONG_SECONDS and size < largest:
        size *= 2
    rate: float = 2 * size**3 / best
    return rate


def _product_seconds(size: int, dtype: str, device: str) -> float:
    left, right = (torch.randn(size, size, device=device).to(DTYPES[dtype]) for _ in range(2))
    torch.mm(left, right)
    return min(_seconds(lambda: torch.mm(left, right), device) for _ in range(_STEPS))
