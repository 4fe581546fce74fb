"""Compares what weighbridge says a run costs with what torch counts while the class runs."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

from time_limit import time_limit

import weighbridge as wb
from attacking import reference, running
from attacking.running import RunCosts, RunSizes
from attacking.trees import copied, leaves, replace
from attacking.verdicts import (
    EXACT,
    ONLY_OURS,
    REFUSED,
    REFUSED_BY_BOTH,
    SECONDS_PER_CLASS,
    SKIPPED,
    WRONG,
    Scale,
    Verdict,
    reason_of,
)
from weighbridge.blueprint import operations
from weighbridge.costs.profiles import PROFILES
from weighbridge.errors import ModelError

if TYPE_CHECKING:
    from attacking.trees import Config

RUNS = (RunSizes(batch=1, sequence=37, past=150), RunSizes(batch=3, sequence=130, past=20))
"""The runs of each config: one sequence and several, short and long ones."""
MOST_WEIGHT_BYTES = 2 << 30  # of a class that runs on a device, beside others


class CostScale(Scale):
    """Computes the costs of runs with the shipped operations.

    It is refused or wrong by its quantities: the first that differs is a verdict's number. On the
    meta device no dropout is on, because it keeps other masks than CUDA does.
    """

    def __init__(self, profile: str = "cuda-eager", device: str = "meta") -> None:
        super().__init__()
        self.profile = profile
        self.device = device
        self.is_limited = device == "meta"

    def classes(self, family: str) -> tuple[str, ...]:
        """Return the class whose operations were recorded."""
        return (operations.load_operations(family).base_class,)

    def judged(self, config: Config, class_name: str) -> Verdict:
        """Compare the FLOPs, saved bytes and cache of each run."""
        if self.device == "meta":
            config = without_dropouts(config)
        elif self._is_too_large(config, class_name):
            return Verdict(class_name, SKIPPED)
        verdict = Verdict(class_name, EXACT)
        for sizes in RUNS:
            verdict = self._run(config, class_name, sizes)
            if verdict.outcome != EXACT:
                return verdict
        return verdict

    def _run(self, config: Config, class_name: str, sizes: RunSizes) -> Verdict:
        try:
            with time_limit(SECONDS_PER_CLASS):
                truth = running.run_costs(
                    config, class_name, sizes, PROFILES[self.profile].attention, self.device
                )
        except reference.RefusedByReferenceError as error:
            if "OutOfMemory" in str(error):
                return Verdict(class_name, SKIPPED)
            return self._without_truth(config, class_name, sizes, str(error))
        except (TimeoutError, MemoryError):
            return Verdict(class_name, SKIPPED)
        try:
            with time_limit(SECONDS_PER_CLASS):
                ours = self.costs(config, class_name, sizes)
        except wb.WeighbridgeError as error:
            return Verdict(class_name, REFUSED, truth.forward_flops, reason=reason_of(error))
        except Exception as error:  # a traceback is not a refusal
            reason = f"{type(error).__name__}: {error}"
            return Verdict(class_name, WRONG, truth.forward_flops, reason=reason)
        for name, expected, computed in zip(truth._fields, truth, ours, strict=True):
            if expected is not None and expected != computed:
                return Verdict(class_name, WRONG, expected, computed, f"{name} of {sizes}")
        return Verdict(class_name, EXACT, truth.saved_bytes, ours.saved_bytes)

    def _is_too_large(self, config: Config, class_name: str) -> bool:
        try:
            weighed = wb.weigh(copied(config), class_name)
        except wb.WeighbridgeError:
            return False  # it is refused with its reason, where transformers runs it
        return 2 * weighed.parameters > MOST_WEIGHT_BYTES

    def _without_truth(
        self, config: Config, class_name: str, sizes: RunSizes, refusal: str
    ) -> Verdict:
        try:
            ours = self.costs(config, class_name, sizes)
        except wb.WeighbridgeError:
            return Verdict(class_name, REFUSED_BY_BOTH, reason=refusal)
        except Exception as error:  # a traceback is not a refusal
            return Verdict(class_name, WRONG, reason=f"{type(error).__name__}: {error}")
        return Verdict(class_name, ONLY_OURS, ours=ours.forward_flops, reason=refusal)

    def costs(self, config: Config, class_name: str, sizes: RunSizes) -> RunCosts:
        """Return what weighbridge says of a run.

        Raises:
            WeighbridgeError: it refuses the config, or the run.
        """

        def cost(**run: Any) -> Any:
            return wb.cost(
                copied(config),
                class_name,
                batch=sizes.batch,
                profile=self.profile,
                dtype="bf16",
                **run,
            )

        trained = cost(sequence=sizes.sequence, train=True)
        if trained.run.profile != self.profile:
            raise ModelError("it was not recorded with this profile")
        prefilled = stepped = None
        if trained.found.has("step"):
            prefilled = cost(sequence=sizes.past).cache_bytes
            lengths = {"sequence": sizes.past} if trained.found.uses("target") else {}
            stepped = cost(past=sizes.past, decode=True, **lengths).cache_bytes
        return RunCosts(
            trained.forward_matmul_flops, trained.saved_for_backward_bytes, prefilled, stepped
        )

    def command(self, config: Config, class_name: str) -> str:
        """Return a command line that anyone can type."""
        text = json.dumps({"model_type": config["model_type"], **config}, ensure_ascii=False)
        run = f"--train --profile {self.profile} --dtype bf16"
        return f"weighbridge cost - --class {class_name} {run} <<< {shlex.quote(text)}"


def without_dropouts(config: Config) -> Config:
    """Return a config in which no dropout is on: meta tensors keep other masks than CUDA's."""
    changed = copied(config)
    model_type = config["model_type"]
    full = reference.written({"model_type": model_type}, in_full=True)
    for path, value in [*leaves(full), *leaves(config)]:
        if "drop" in path[-1] and type(value) is float:
            replace(changed, path, 0.0)
    return changed
