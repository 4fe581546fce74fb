"""Flows are recorded anew on configs that they were not derived from."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

from weighbridge import data
from weighbridge.blueprint import schema
from weighbridge.blueprint.flows import FamilyFlow, flow_families, load_flow
from weighbridge.derive.flows.flowing import FlowDeriver, difference
from weighbridge.derive.flows.recording import record_flow
from weighbridge.derive.running.runs import reference

if TYPE_CHECKING:
    from weighbridge.derive.flows.observing import FlowObservation

torch.set_num_threads(1)

SEED = 20261125
SAMPLE = ("bert", *sorted(random.Random(SEED).sample(sorted(flow_families()), 3)))  # noqa: S311


def unseen(family: str) -> FlowObservation:
    """Return a run of a random config, with the fields turned that the proof names."""
    flow, known = load_flow(family), schema.load(family)
    deriver = FlowDeriver(reference().FamilySubject(family), known, SEED)
    deriver.observed(deriver.draws.usual())
    for path in flow.proof["varied"]:
        deriver.flags[path] = deriver.draws.values(path)
    return deriver._random(1)[0]


@pytest.mark.parametrize("family", SAMPLE)
def test_a_run_of_an_unseen_config_does_the_steps_of_the_flow(family: str) -> None:
    assert difference(load_flow(family), unseen(family)) == ""


def test_a_wrong_flow_differs() -> None:
    raw = dict(data.read_toml("flows/bert.toml"))
    steps = [line.replace("v2 = self.output(v1, v0)", "v2 = v1 + v0") for line in layer_of(raw)]
    raw["flow"] = {**raw["flow"], "encoder.layer.{i}": steps}
    found = difference(FamilyFlow(raw), unseen("bert"))
    assert found.startswith("encoder.layer.{i} at {'i': 0}: ")


def layer_of(raw: dict[str, Any]) -> list[str]:
    lines: list[str] = raw["flow"]["encoder.layer.{i}"]
    return lines


class Residual(nn.Module):
    """A module that adds a parameter of its own and what it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Parameter(torch.ones(4))
        self.inner = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.inner((x + self.token).view(-1, 4))
        return x + y


def test_a_parameter_that_is_added_is_recorded() -> None:
    flow = record_flow(Residual(), {"x": torch.ones(2, 4)})
    (program,) = flow.modules[""]
    steps = [
        (step.called, [ref.source for ref in step.arguments.values()]) for step in program.steps
    ]
    assert steps == [("+", ["x", "self.token"]), ("self.inner", [0]), ("+", ["x", 1])]
