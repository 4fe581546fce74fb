"""Every two choices meet in some config, unless the code refuses them together."""

from __future__ import annotations

import itertools
from typing import Any

from hard_to_explore import explored
from torch import nn

from weighbridge.derive.probing.explore import explore_configs
from weighbridge.derive.probing.meetings import meeting_choices
from weighbridge.derive.probing.own import OwnSubject
from weighbridge.derive.probing.probe import quick_building
from weighbridge.derive.probing.state import begin

# The choices of the module, and what it refuses: `gated` without `wide`.
CHOICES: dict[str, list[Any]] = {
    "kv": [2, None],
    "wide": [False, True],
    "gated": [False, True],
    "act": ["plain", "glu"],
    "verbose": [False, True],
}


def test_every_two_choices_meet_that_the_code_accepts() -> None:
    configs = list(meeting_choices(explored("Choices")))
    met = {
        pair
        for config in configs
        for pair in itertools.combinations(
            ((field, config.get(field, values[0])) for field, values in CHOICES.items()), 2
        )
    }
    possible = {
        pair
        for one, other in itertools.combinations(CHOICES, 2)
        for pair in itertools.product(
            ((one, value) for value in CHOICES[one]), ((other, value) for value in CHOICES[other])
        )
    }
    assert possible - met == {(("wide", False), ("gated", True))}
    assert len(configs) < len(possible) / 2


def test_configs_in_which_choices_meet_are_the_same_each_time() -> None:
    one, other = (list(meeting_choices(explored("Choices"))) for _ in range(2))
    assert one == other


def test_they_do_not_count_as_configs_that_were_learned_from() -> None:
    exploration = explored("Choices")
    tried, probes = exploration.budget.tried, len(exploration.probes)
    assert list(meeting_choices(exploration))
    assert (exploration.budget.tried, len(exploration.probes)) == (tried, probes)


class Refusing(nn.Module):
    """Has flags of which it refuses two together."""

    def __init__(
        self, *, width: int = 8, one: bool = False, two: bool = False, three: bool = False
    ) -> None:
        super().__init__()
        if one and two:
            raise ValueError("one or two")
        self.layer = nn.Linear(width, 1 + one + 2 * two + 4 * three)


def test_what_the_code_refuses_is_left_out() -> None:
    exploration = begin(OwnSubject(f"{__name__}:Refusing"), "Refusing")
    with quick_building():
        explore_configs(exploration)
    configs = list(meeting_choices(exploration))
    assert all(exploration.try_out(config) is not None for config in configs)
    flags = [{name for name, value in config.items() if value is True} for config in configs]
    assert {"one", "three"} in flags
    assert {"two", "three"} in flags
