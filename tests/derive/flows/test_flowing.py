"""Flows are recorded anew on configs that they were not derived from."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

from weighbridge import data
from weighbridge.blueprint import schema
from weighbridge.blueprint.flows import FamilyFlow, flow_families, load_flow
from weighbridge.derive.flows import flowing
from weighbridge.derive.flows.flowing import FlowDeriver, difference
from weighbridge.derive.flows.recording import record_flow
from weighbridge.derive.running.runs import reference

if TYPE_CHECKING:
    from weighbridge.derive.flows.observing import FlowObservation

torch.set_num_threads(1)

SEED = 20261125
ONE_IN = 8  # families; which ones does not change when others are added


def is_drawn(family: str) -> bool:
    """Whether a family is in the sample, by its name alone."""
    return sha256(f"{SEED} {family}".encode()).digest()[0] % ONE_IN == 0


SAMPLE = ("bert", *filter(is_drawn, flow_families()))


def unseen(family: str) -> FlowObservation:
    """Return a run of a random config, with the fields turned that the proof names."""
    flow, known = load_flow(family), schema.load(family)
    deriver = FlowDeriver(reference().FamilySubject(family), known, SEED)
    deriver._first()
    for path in flow.proof["varied"]:
        deriver.flags[path] = deriver.draws.values(path)
    return deriver._random(1)[0]


@pytest.mark.sampled("src/weighbridge/derive/flows", "src/weighbridge/blueprint/flows")
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


A, B, C = ("a", frozenset({0, 2})), ("b", frozenset({1})), ("c", frozenset({0, 1, 2}))
OUTSIDE = ("x", frozenset())


@pytest.mark.parametrize(
    ("expected", "found", "difference_found"),
    [
        ([A, B, C], [B, A, C], ""),
        ([OUTSIDE, A, B], [OUTSIDE, B, A], ""),
        ([A, C], [C, A], "c instead of a in turn 0"),
        ([OUTSIDE, A], [A, OUTSIDE], "a instead of x in turn 0"),
        ([A, B], [A], "0 steps instead of 1 in turn 1"),
        ([OUTSIDE], [OUTSIDE, OUTSIDE], "2 steps instead of 1"),
    ],
)
def test_the_order_of_steps_counts_within_a_turn(
    expected: list[Any], found: list[Any], difference_found: str
) -> None:
    assert flowing._difference_in_turns(expected, found) == difference_found


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
