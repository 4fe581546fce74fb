"""Compares what weighbridge counts with what transformers counts."""

from __future__ import annotations

import json
import os
import re
import shlex
from typing import TYPE_CHECKING, Any, NamedTuple

from time_limit import time_limit

import weighbridge as wb
from attacking import reference
from attacking.trees import copied
from weighbridge.blueprint import law, schema

if TYPE_CHECKING:
    from collections.abc import Mapping

    from attacking.trees import Config

EXACT = "exact"
REFUSED = "refused"
REFUSED_BY_BOTH = "refused by both"
ONLY_OURS = "counted by weighbridge alone"
SKIPPED = "took too long"
WRONG = "WRONG"
OUTCOMES = (EXACT, REFUSED, REFUSED_BY_BOTH, ONLY_OURS, SKIPPED, WRONG)

SECONDS_PER_CLASS = 20
_LONGEST_REASON = 110


class Verdict(NamedTuple):
    """The outcome for a class of a config: both counts, and the reason of a refusal."""

    class_name: str
    outcome: str
    reference: int | None = None
    ours: int | None = None
    reason: str = ""


class Scale:
    """Weighs configs with the shipped blueprints, or with those in a folder."""

    is_limited = True
    """Whether its processes may take little memory: drivers of a device reserve much more."""

    def __init__(self, folder: str | None = None) -> None:
        self._folder = folder
        self._blueprints: dict[str, Any] = {}

    def classes(self, family: str) -> tuple[str, ...]:
        """Return the classes that a family's blueprint has."""
        return tuple(self._blueprint(family).class_names)

    def weigh(self, config: Config, class_name: str) -> Any:
        """Return the weighing of a class."""
        if self._folder is None:
            return wb.weigh(copied(config), class_name)
        blueprint = self._blueprint(config["model_type"])
        return wb.weigh(copied(config), class_name, blueprint=lambda *_: blueprint)

    def judged(self, config: Config, class_name: str) -> Verdict:
        """Compare the counts of a class."""
        return verdict(config, class_name, self)

    def command(self, config: Config, class_name: str) -> str:
        """Return a command line that anyone can type."""
        text = json.dumps({"model_type": config["model_type"], **config}, ensure_ascii=False)
        return f"weighbridge weigh - --class {class_name} <<< {shlex.quote(text)}"

    def _blueprint(self, family: str) -> Any:
        if family not in self._blueprints:
            path = os.path.join(self._folder or "", f"{family}.toml")
            if self._folder is not None and os.path.exists(path):
                self._blueprints[family] = law.read_blueprint(path)
            else:
                self._blueprints[family] = schema.load(family)
        return self._blueprints[family]


def verdict(config: Config, class_name: str, scale: Scale) -> Verdict:
    """Compare the counts of a class; totals that agree by accident differ in their shapes."""
    try:
        with time_limit(SECONDS_PER_CLASS):
            truth = reference.count(config, class_name)
    except reference.RefusedByReferenceError as error:
        return _without_truth(config, class_name, scale, str(error))
    except (TimeoutError, MemoryError):
        return Verdict(class_name, SKIPPED)
    try:
        with time_limit(SECONDS_PER_CLASS):
            weighing = scale.weigh(config, class_name)
    except wb.WeighbridgeError as error:
        return Verdict(class_name, REFUSED, truth.total, reason=reason_of(error))
    except Exception as error:  # a traceback is not a refusal
        return Verdict(class_name, WRONG, truth.total, reason=f"{type(error).__name__}: {error}")
    ours = weighing.parameters
    shapes = sorted(tuple(row.shape) for row in weighing.rows if not row.tied_to)
    if ours != truth.total:
        return Verdict(class_name, WRONG, truth.total, ours)
    if tuple(shapes) != truth.shapes:
        return Verdict(class_name, WRONG, truth.total, ours, "the totals agree, the shapes do not")
    return Verdict(class_name, EXACT, truth.total, ours)


def _without_truth(config: Config, class_name: str, scale: Scale, refusal: str) -> Verdict:
    try:
        ours = scale.weigh(config, class_name).parameters
    except wb.WeighbridgeError:
        return Verdict(class_name, REFUSED_BY_BOTH, reason=refusal)
    except Exception as error:  # a traceback is not a refusal
        return Verdict(class_name, WRONG, reason=f"{type(error).__name__}: {error}")
    return Verdict(class_name, ONLY_OURS, ours=ours, reason=refusal)


def reason_of(error: Exception) -> str:
    """Return what a refusal says, without the numbers of this config."""
    text = str(error).removeprefix("the config: ")
    text = re.sub(r"\[[^\]]*\]", "[…]", text.partition(". ")[0]).removesuffix(".")
    return re.sub(r"(?<![\w.])-?\d+", "N", text)[:_LONGEST_REASON]


def task_classes(classes: Mapping[str, Any] | tuple[str, ...]) -> list[str]:
    """Return the classes that have labels, judging by their names."""
    return [name for name in classes if re.search(r"Classif|Answering|Choice|Detection|CTC", name)]
