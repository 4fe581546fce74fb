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

if TYPE_CHECKING:
    from attacking.trees import Config

RUNS = (RunSizes(batch=1, sequence=37, past=150), RunSizes(batch=3, sequence=130, past=20))
"""The runs of each config: one sequence and several, short and long ones."""


class CostScale(Scale):
    """Computes the costs of runs with the shipped operations.

    It is refused or wrong by its quantities: the first that differs is a verdict's number.
    """

    def classes(self, family: str) -> tuple[str, ...]:
        """Return the class whose operations were recorded."""
        return (operations.load_operations(family).base_class,)

    def judged(self, config: Config, class_name: str) -> Verdict:
        """Compare the FLOPs, saved bytes and cache of each run."""
        config = without_dropouts(config)
        verdict = Verdict(class_name, EXACT)
        for sizes in RUNS:
            verdict = self._run(config, class_name, sizes)
            if verdict.outcome != EXACT:
                return verdict
        return verdict

    def _run(self, config: Config, class_name: str, sizes: RunSizes) -> Verdict:
        try:
            with time_limit(SECONDS_PER_CLASS):
                truth = running.run_costs(config, class_name, sizes)
        except reference.RefusedByReferenceError as error:
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
            if expected != computed:
                return Verdict(class_name, WRONG, expected, computed, f"{name} of {sizes}")
        return Verdict(class_name, EXACT, truth.forward_flops, ours.forward_flops)

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
                profile="cuda-eager",
                dtype="bf16",
                **run,
            )

        trained = cost(sequence=sizes.sequence, train=True)
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
        run = "--train --profile cuda-eager --dtype bf16"
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
