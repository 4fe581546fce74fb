"""Estimates of the time of a training step, beside its bound, and why some have none."""

from __future__ import annotations

from weighbridge.answers.estimating import width_of
from weighbridge.costs.bounds import peak_of
from weighbridge.costs.devices import known_devices
from weighbridge.costs.estimates import is_sixteen_bits
from weighbridge.costs.optimizers import precision_called
from weighbridge.costs.parallel import bubble
from weighbridge.costs.training_estimates import (
    StepWork,
    TrainingCalibration,
    hidden_bytes,
    training_calibration,
)
from weighbridge.lean_typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import Any

    from weighbridge.answers.train import TrainingFit

_OF_A_PASS = 3  # forward, and the two products of the backward pass


class TrainingEstimate(NamedTuple):
    """What a step takes by the calibrated estimate; None where such a step was not scored.

    ``reason`` is the name of a sentence that says why it is missing; "" if it is not.
    """

    calibration: TrainingCalibration
    seconds: float | None
    tokens_per_second: float | None
    model_flops_utilisation: float | None
    hours: float | None
    money: float | None
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return everything, ready for JSON."""
        return {
            "step_seconds": self.seconds,
            "tokens_per_second": self.tokens_per_second,
            "model_flops_utilisation": self.model_flops_utilisation,
            "hours": self.hours,
            "money": self.money,
            "missing": self.reason or None,
            "date": self.calibration.date,
            "rows": self.calibration.rows,
            "left_out": {
                name: score._asdict() for name, score in self.calibration.left_out.items()
            },
        }


def training_estimate(training: TrainingFit) -> TrainingEstimate:
    """Return the estimate of a step, if such steps were scored."""
    rates = training_calibration()
    reason = _why_unscored(training, rates)
    if reason:
        return TrainingEstimate(rates, None, None, None, None, None, reason)
    device, bound = training.devices.device, training.bound.seconds
    _, peak = peak_of(device, precision_called(training.setting.precision).compute)
    seconds = max(rates.seconds(work_of_step(training), peak, device.bandwidth), bound)
    times = seconds / bound
    hours = None if training.hours is None else training.hours * times
    money = None if training.money is None else training.money * times
    return TrainingEstimate(
        rates,
        seconds,
        training.tokens_per_second / times,
        training.model_flops_utilisation / times,
        hours,
        money,
    )


def _why_unscored(training: TrainingFit, rates: TrainingCalibration) -> str:
    """Return why no step like this was scored, or nothing."""
    device, setting = training.devices.device, training.setting
    division = training.trainer.division
    is_known = device == known_devices().get(device.name) and device.name in rates.scored
    is_dense = bool(division.stack) and not division.has_other_stacks and not division.experts
    tokens = setting.micro_batch * setting.sequence
    for is_so, reason in (
        (not is_known, "train_device"),
        (not is_sixteen_bits(precision_called(setting.precision).compute), "train_dtype"),
        (setting.lora is not None, "train_adapter"),
        (not is_dense or not training.found.has("step"), "train_model"),
        (not rates.least_devices <= training.devices.number <= rates.most_devices, "train_devices"),
        (tokens < rates.least_tokens, "train_tokens"),
        (setting.sequence > rates.most_sequence, "train_sequence"),
    ):
        if is_so:
            return reason
    return ""


def work_of_step(training: TrainingFit) -> StepWork:
    """Return what each device does in a step."""
    setting, plan = training.setting, training.setting.plan
    layers = training.trainer.division.layers
    again = setting.checkpointing == "full"
    passes = _OF_A_PASS + (setting.checkpointing != "none")
    attention = training.attention_flops * passes
    waiting = bubble(plan, setting.micro_batches) / plan.world
    states = hidden_bytes(
        setting.batch * setting.sequence * layers * plan.tensor,
        width_of(training.found),
        plan.tensor,
        sequence_parallel=plan.sequence_parallel,
    )
    return StepWork(
        (training.step_flops - attention) * waiting,
        attention / 2 * waiting,  # a causal model needs half of it
        states * (1 + again / _OF_A_PASS) * waiting,
        training.links.one_after_another,
        sum(training.fullest.states.values()),
        layers / plan.pipeline * setting.micro_batches * waiting * plan.world,
    )
