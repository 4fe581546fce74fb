"""Predict the counts of a step from the recorded operations of its class."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weighbridge.answers.recorded import recorded_dtype
from weighbridge.blueprint import operations
from weighbridge.costs import costs
from weighbridge.costs.costs import Note
from weighbridge.costs.profiles import OF_FORMAT_1, PROFILES, nearest_profile
from weighbridge.errors import ModelError, shorten

if TYPE_CHECKING:
    from typing import Any

    from weighbridge.blueprint.operations import Operation, Operations
    from weighbridge.derive.operations.workload import Workload
    from weighbridge.ledger.ledger import Ledger
    from weighbridge.models.find import Model

EXACT = (
    "parameters",
    "weight_bytes",
    "forward_matmul_flops",
    "backward_matmul_flops",
    "saved_for_backward_bytes",
)
"""The quantities that are counts: a prediction must be equal to the measurement."""
_PROFILES = {
    ("cpu", "eager"): "cpu-eager",
    ("cpu", "sdpa"): "cpu",
    ("cuda", "eager"): "cuda-eager",
    ("cuda", "sdpa"): "cuda-flash",
}
"""The profile of a run, by device and by implementation of attention."""


def usual_class(model: Model, *, ours: bool) -> str:
    """Return the class to run if the user names none.

    If the config names none either, and the default class was not recorded, it is the one that was.

    Example:
        >>> from weighbridge.models.find import find
        >>> usual_class(find("llama"), ours=False), usual_class(find("bert"), ours=False)
        ('LlamaForCausalLM', 'BertModel')
    """
    name = _file_of(model, ours=ours)
    if name in operations.available() and not model.config.get("architectures"):
        known = operations.load_operations(name)
        if model.default_class not in known.class_names:
            return known.base_class
    return model.default_class


def _file_of(model: Model, *, ours: bool) -> str:
    """Return the name of the file of operations for a model."""
    family = model.blueprint.family
    if ours:
        return f"{family}.ours"
    return family


def known_operations(
    model: Model, class_name: str, *, ours: bool
) -> tuple[Operations | None, Note]:
    """Return the operations that are valid for a model, or None, with a note either way.

    Example:
        >>> from weighbridge.models.find import find
        >>> known_operations(find("llama"), "LlamaForSequenceClassification", ours=False)[1].key
        'no_class'
    """
    name = _file_of(model, ours=ours)
    if name not in operations.available():
        return None, Note("no_operations", {"family": name})
    known = operations.load_operations(name)
    if class_name not in known.class_names:
        return None, Note("no_class", {"family": name, "class_name": class_name})
    if unheld := known.unheld(model.as_read):
        of = ", ".join(f"{field} = {shorten(value)}" for field, value in unheld.items())
        return None, Note("held", {"family": name, "fields": of})
    return known, Note(
        "evidence",
        {"source": known.source, "kernels": known.kernels, "runs": str(known.proof["runs"])},
    )


def predicted_by_name(
    ledger: Ledger, model: Model, known: Operations | None, run: Workload
) -> dict[str, Any]:
    """Return the prediction of each count, None where there is none.

    FLOPs are those of eager attention; what is saved depends on the kernels of the run.

    Example:
        >>> from weighbridge.derive.operations.workload import Workload
        >>> from weighbridge.ledger.ledger import bind
        >>> from weighbridge.models.find import find
        >>> llama = find("llama")
        >>> ledger = bind(llama.blueprint, "LlamaForCausalLM", llama.fields, "BF16")
        >>> known, _ = known_operations(llama, "LlamaForCausalLM", ours=False)
        >>> run = Workload("LlamaForCausalLM", {}, 1, 2048, dtype="BF16", training=False)
        >>> predicted_by_name(ledger, llama, known, run)["forward_matmul_flops"]
        29261612187648
    """
    predicted: dict[str, Any] = {
        **dict.fromkeys(EXACT),
        "parameters": ledger.parameters,
        "weight_bytes": costs.weight_bytes(ledger.rows),
    }
    if known is None:
        return predicted
    forward = _bound(known, model, run._replace(attention="eager"), "forward")
    if forward is not None:
        predicted["forward_matmul_flops"] = costs.matmul_flops(forward)
    backward = _bound(known, model, run._replace(attention="eager"), "backward")
    if run.training and backward is not None:
        predicted["backward_matmul_flops"] = costs.matmul_flops(backward)
    saved = _bound(known, model, run, "saved")
    if saved is not None:
        predicted["saved_for_backward_bytes"] = costs.saved_for_backward_bytes(saved, run.dtype)
    return predicted


def _bound(known: Operations, model: Model, run: Workload, kind: str) -> list[Operation] | None:
    """Return the operations of a kind, or None if they were not recorded for such a run.

    For CUDA those of the nearest kernels are taken: what they save is an estimate.
    """
    wanted, recorded = (
        _PROFILES[run.device, run.attention],
        known.proof.get("profiles", OF_FORMAT_1),
    )
    profile = nearest_profile(wanted, recorded, recorded_dtype(run.dtype))
    if profile is None or (run.device == "cpu" and profile != wanted):
        return None
    kernels = {**PROFILES[profile].names, "dtype": recorded_dtype(run.dtype)}
    names = known.names({**model.given, **model.fields}, **{**run.names, **kernels})
    try:
        known.check_sizes(run.class_name, kind, names)
    except ModelError:
        return None
    return known.bind(run.class_name, kind, names)
