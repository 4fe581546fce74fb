"""Compare predictions with a real run of a class that is built with random weights."""

from __future__ import annotations

import os
import statistics
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.utils.flop_counter import FlopCounterMode

from weighbridge import units
from weighbridge.blueprint import operations
from weighbridge.costs import costs
from weighbridge.costs.costs import Measurement, Note, Quantity
from weighbridge.derive.operations.recording import Recorder, loss_of
from weighbridge.derive.operations.workload import (
    DTYPES,
    Workload,
    built,
    check_inputs,
    inputs,
    sizes_of,
)
from weighbridge.derive.running.runs import reference
from weighbridge.errors import ModelError, UsageError, WeighbridgeError, shorten
from weighbridge.ledger.ledger import bind
from weighbridge.models import find as models
from weighbridge.torch.live import Live

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import nn

    from weighbridge.derive.probing.subject import Subject
    from weighbridge.ledger.ledger import Ledger
    from weighbridge.models.find import Model

EXACT = (
    "parameters",
    "weight_bytes",
    "forward_matmul_flops",
    "backward_matmul_flops",
    "saved_for_backward_bytes",
)
OURS = {"bert": "weighbridge.torch.bert:BertModel"}
"""The runnable classes of this package, by family: module and base class."""

_STEPS = 3  # timed steps; an odd number, so that the median is one of them
_RATE_SIZE = {"cpu": 2048, "cuda": 8192}
"""The size of the square matrices that measure a machine's rate: enough to keep it busy."""
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
    dtype: str = "F32"
    device: str = "cpu"
    ours: bool = False
    force: bool = False


def measure(request: MeasureRequest, say: Callable[[str], None] = lambda _: None) -> Measurement:
    """Predict the costs of a class, then build it, run it and measure them.

    Without training the class runs in evaluation mode and without a backward pass. Gradients are
    still enabled, so that everything a backward pass needs is saved. FLOPs are counted with eager
    attention, because other kernels hide theirs.

    Raises:
        UsageError: a size, a field or the device makes no sense, or a package is not installed.
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
    class_name = request.class_name or model.default_class
    ledger = bind(model.blueprint, class_name, model.fields, request.dtype)
    _check_positions(request, model)
    run = Workload(
        class_name,
        _changes(model, request),
        request.batch,
        request.sequence,
        2,
        request.attention,
        request.dtype,
        request.train,
    )
    predicted, notes = _predicted(request, model, ledger, run)
    if not request.force:
        _check_memory(predicted, request, class_name)
    measured, rate = _measured_safely(_subject(model, request), run, model, request.device, say)
    predicted["step_seconds"] = _predicted_seconds(predicted, rate, training=request.train)
    names = (*EXACT, "peak_bytes", "step_seconds")
    quantities = tuple(Quantity(name, predicted.get(name), measured.get(name)) for name in names)
    notes.append(Note("rate", {"rate": units.short(round(rate)), "steps": str(_STEPS)}))
    exact = EXACT if request.device == "cpu" else EXACT[:-1]
    settings = _settings(run, request.device)
    return Measurement(
        model.where, model.blueprint.family, class_name, settings, quantities, exact, tuple(notes)
    )


def _measured_safely(
    subject: Subject, run: Workload, model: Model, device: str, say: Callable[[str], None]
) -> tuple[dict[str, Any], float]:
    """Return the result of `_measured`; an error in the model's code becomes a ModelError."""
    try:
        return _measured(subject, run, model, device, say)
    except WeighbridgeError:
        raise
    except Exception as error:  # whatever the code raises
        reason = shorten(" ".join(f"{type(error).__name__}: {error}".split()), str, 300).rstrip(".")
        raise ModelError(
            f"running it raised {reason}",
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


def _check_memory(predicted: Mapping[str, Any], request: MeasureRequest, class_name: str) -> None:
    """Refuse a run that does not fit into free memory."""
    copies = 1 + request.train  # training also has gradients
    needed = predicted["peak_bytes"] or copies * predicted["weight_bytes"]
    if request.device == "cuda":
        free: int | None = torch.cuda.mem_get_info()[0]
    else:
        free = _free_bytes()
    if free is not None and needed > free:
        values = {"needed": units.size(needed), "free": units.size(free)}
        hint = "reduce --batch or --seq, or run it anyway with --force"
        raise ModelError(
            "does not fit into free memory", where=class_name, values=values, hint=hint
        )


def _free_bytes() -> int | None:
    """Return the memory available without swapping; None if the system does not report it."""
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


# Predictions


def _predicted(
    request: MeasureRequest, model: Model, ledger: Ledger, run: Workload
) -> tuple[dict[str, Any], list[Note]]:
    """Return the predictions by name, None for a missing one, and notes on them."""
    rows = [*ledger.rows, *ledger.buffers()]
    predicted: dict[str, Any] = {
        "parameters": ledger.parameters,
        "weight_bytes": costs.weight_bytes(ledger.rows),
        **dict.fromkeys((*EXACT[2:], "peak_bytes")),
    }
    known, note = _operations(request, model, run.class_name)
    if known is None:
        return predicted, [note]
    names = known.names({**model.given, **model.fields}, **run.names)
    operations_of = {kind: known.bind(run.class_name, kind, names) for kind in operations.KINDS}
    predicted["forward_matmul_flops"] = costs.matmul_flops(operations_of["forward"])
    if request.train:
        predicted["backward_matmul_flops"] = costs.matmul_flops(operations_of["backward"])
    predicted["saved_for_backward_bytes"] = costs.saved_for_backward_bytes(
        operations_of["saved"], run.dtype
    )
    predicted["peak_bytes"] = costs.peak_bytes(
        rows, operations_of["saved"], operations_of["forward"], run.dtype, training=request.train
    )
    notes = [note]
    if request.device != "cpu":
        notes.append(Note("kernels", {"kernels": known.kernels}))
    return predicted, notes


def _operations(
    request: MeasureRequest, model: Model, class_name: str
) -> tuple[operations.Operations | None, Note]:
    """Return the operations that are valid for a model, or None, with a note either way."""
    name = f"{model.blueprint.family}.ours" if request.ours else model.blueprint.family
    if name not in operations.available():
        return None, Note("no_operations", {"family": name})
    known = operations.load_operations(name)
    if class_name not in known.class_names:
        return None, Note("no_class", {"family": name, "class_name": class_name})
    if unheld := known.unheld({**model.given, **model.fields}):
        of = ", ".join(f"{field} = {shorten(value)}" for field, value in unheld.items())
        return None, Note("held", {"family": name, "fields": of})
    return known, Note(
        "evidence",
        {"source": known.source, "kernels": known.kernels, "runs": str(known.proof["runs"])},
    )


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


def _changes(model: Model, request: MeasureRequest) -> dict[str, Any]:
    """Return the values in the config of fields that a class is built from.

    A config has the names of its labels; our own classes take their number.
    """
    known = model.blueprint.fields | model.blueprint.inert
    changes = {name: value for name, value in model.given.items() if name in known}
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
        _flops(built(subject, run._replace(attention="eager"), device), given, run)
    )
    say("measuring memory")
    module = built(subject, run, device)
    check_inputs(module, given, run.class_name)
    own = list(module.parameters())
    found["parameters"] = sum(parameter.numel() for parameter in own)
    found["weight_bytes"] = sum(parameter.numel() * parameter.element_size() for parameter in own)
    recorder = Recorder(module)
    with recorder.running():
        loss_of(module(**given))
    found["saved_for_backward_bytes"] = recorder.recording.saved_bytes
    del recorder
    found["peak_bytes"] = _peak_bytes(module, given, run, device)
    say("timing steps")
    found["step_seconds"] = _median_seconds(lambda: _step(module, given, run), device)
    return found, _matmul_rate(run.dtype, device)


def _step(module: nn.Module, given: Mapping[str, torch.Tensor], run: Workload) -> None:
    loss = loss_of(module(**given))
    if run.training:
        loss.backward()  # type: ignore[no-untyped-call]
        module.zero_grad(set_to_none=True)


def _flops(module: nn.Module, given: Mapping[str, torch.Tensor], run: Workload) -> dict[str, int]:
    """Return the count of torch's FLOP counter for the forward and, in training, backward pass."""
    with FlopCounterMode(display=False) as forward:
        loss = loss_of(module(**given))
    found = {"forward_matmul_flops": forward.get_total_flops()}
    if run.training:
        with FlopCounterMode(display=False) as backward:
            loss.backward()  # type: ignore[no-untyped-call]
        found["backward_matmul_flops"] = backward.get_total_flops()
    return found


def _peak_bytes(
    module: nn.Module, given: Mapping[str, torch.Tensor], run: Workload, device: str
) -> int:
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        _step(module, given, run)
        return int(torch.cuda.max_memory_allocated())
    live = Live([*module.parameters(), *module.buffers(), *given.values()])
    with live:
        _step(module, given, run)
    return live.peak_bytes


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
    """Return the FLOPs per second of a large square matrix product, the best of several runs."""
    size = _RATE_SIZE[device]
    left, right = (torch.randn(size, size, device=device).to(DTYPES[dtype]) for _ in range(2))
    torch.mm(left, right)
    best = min(_seconds(lambda: torch.mm(left, right), device) for _ in range(_STEPS))
    return 2 * size**3 / best
