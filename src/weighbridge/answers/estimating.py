"""Estimates of the time of a service, beside its bounds, and why some have none."""

from __future__ import annotations

from weighbridge.costs.devices import known_devices
from weighbridge.costs.estimates import PassSetting, PassWork, calibration, is_sixteen_bits
from weighbridge.lean_typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import Any

    from weighbridge.answers.recorded import RecordedModel
    from weighbridge.answers.serve import Serving
    from weighbridge.costs.estimates import Calibration

_WHOLE_BITS = 16
_OF_ATTENTION = ("keys", "values", "_sliding_window_tensor")
_WIDTHS = ("hidden_size", "n_embd", "d_model")


class Estimates(NamedTuple):
    """What a step and a prompt take by the calibrated estimate; None where it is not scored.

    ``reason`` is the name of a sentence that says why something is missing; "" if nothing is.
    """

    calibration: Calibration
    step_seconds: float | None
    prefill_seconds: float | None
    tokens_per_second: float | None
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return everything, ready for JSON."""
        return {
            "step_seconds": self.step_seconds,
            "prefill_seconds": self.prefill_seconds,
            "tokens_per_second": self.tokens_per_second,
            "missing": self.reason or None,
            "date": self.calibration.date,
            "rows": self.calibration.rows,
            "left_out": {
                name: score._asdict() for name, score in self.calibration.left_out.items()
            },
        }


def estimates_of(serving: Serving) -> Estimates:
    """Return the estimates of a service, as far as such services were scored."""
    rates = calibration()
    reason = _why_unscored(serving, rates)
    if reason:
        return Estimates(rates, None, None, None, reason)
    setting = setting_of(serving)
    prompt = rates.seconds(prompt_work(serving), setting)
    prefill = max(prompt, serving.prefill_bound.seconds)
    batch = serving.service.batch_of_copy
    if not rates.least_batch <= batch <= rates.most_batch:
        return Estimates(rates, None, prefill, None, "batch")
    step = max(rates.seconds(step_work(serving, batch), setting), serving.step_bound.seconds)
    return Estimates(rates, step, prefill, serving.service.batch / step)


def _why_unscored(serving: Serving, rates: Calibration) -> str:
    """Return why neither a step nor a prompt was scored."""
    device, plan = serving.devices.device, serving.service.plan
    if device != known_devices().get(device.name):
        return "device"
    if not rates.covers(device.name, serving.peak_dtype):
        return "device"
    if is_sixteen_bits(serving.peak_dtype) and serving.weight_bits != _WHOLE_BITS:
        return "weights"
    if not is_plain(serving):
        return "model"
    if plan.pipeline > 1 or plan.tensor not in rates.ranks or plan.tensor > device.node:
        return "division"
    if serving.service.context > rates.most_context:
        return "context"
    return ""


def is_plain(serving: Serving) -> bool:
    """Whether a model is a dense decoder, the only kind that was scored.

    It has one list of layers, no experts, and a cache of keys and values.
    """
    division = serving.server.division
    is_one_list = bool(division.stack) and not division.has_other_stacks
    return is_one_list and not (division.experts or division.has_latent or _has_states(serving))


def _has_states(serving: Serving) -> bool:
    kept = serving.found.bind("stepped", serving.cache_names())
    return not all(tensor.path.endswith(_OF_ATTENTION) for tensor in kept)


def setting_of(serving: Serving) -> PassSetting:
    """Return what runs the passes of a service."""
    device, division = serving.devices.device, serving.server.division
    return PassSetting(
        serving.peak_dtype,
        serving.peak,
        device.bandwidth,
        device.link,
        serving.service.plan.tensor,
        division.layers,
        width_of(serving.found),
    )


def width_of(found: RecordedModel) -> int:
    """Return the width of the hidden states."""
    fields = found.weighing.ledger.fields
    return next((fields[name] for name in _WIDTHS if name in fields), 0)


def prompt_work(serving: Serving) -> PassWork:
    """Return what each device does for the prompt of one sequence, of the whole context."""
    flops, of_attention = serving.prompt_flops
    ranks, context = serving.service.plan.tensor, serving.service.context
    weights = serving.read_weight_bytes
    return PassWork(context, 1, flops / ranks, of_attention / ranks, weights, 0)


def step_work(serving: Serving, batch: int) -> PassWork:
    """Return what each device does for a step that gives each sequence of a batch a token."""
    flops = serving.step_flops / serving.service.plan.tensor
    weights = serving.step_weight_bytes
    return PassWork(batch, batch, flops, 0, weights, serving.memory.cache)
