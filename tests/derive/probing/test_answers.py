"""Each comparison of sizes is answered both ways, though hardly any random draw does so."""

from __future__ import annotations

import pytest
from hard_to_explore import explored
from own_models import strangers

from weighbridge.algebra.expr import parse
from weighbridge.derive.probing.answers import answers_turned
from weighbridge.derive.probing.explore import explore_configs
from weighbridge.derive.probing.own import OwnSubject
from weighbridge.derive.probing.probe import quick_building
from weighbridge.derive.probing.questions import answer_to
from weighbridge.derive.probing.state import Changes, Exploration, begin
from weighbridge.derive.probing.trouble import _answered_alike

IS_WIDER = "(image // patch + 1 - 1) // 1 <= window"


@pytest.fixture(scope="module")
def scales() -> Exploration:
    """Return what is known of a module whose window is much smaller than its images."""
    exploration = begin(OwnSubject(f"{strangers.__name__}:Scales"), "Scales")
    with quick_building():
        explore_configs(exploration)
    return exploration


def answers(exploration: Exploration, question: str, configs: list[Changes]) -> list[bool | None]:
    """Return the answer to a question for each config."""
    tree, subject = parse(question), exploration.subject
    return [answer_to(tree, subject.fields(subject.config(config))) for config in configs]


def test_each_comparison_is_answered_both_ways(scales: Exploration) -> None:
    configs = list(answers_turned(scales))
    for stage in range(6):
        scale = 2 ** max(stage - 1, 0)
        side = f"(image // patch + {scale} - 1) // {scale}"
        question = f"({side} + 1) // 2 <= window" if stage else f"{side} <= window"
        assert parse(question) in scales.asked()
        assert {True, False} <= {*answers(scales, question, configs)}


def test_sizes_of_zero_answer_nothing(scales: Exploration) -> None:
    """An image of 0 pixels is smaller than the window; the code is asked with others, too."""
    alike = {tree for tree, _ in _answered_alike(scales)}
    assert parse(IS_WIDER) not in alike
    wider = [probe for probe in scales.probes if answer_to(parse(IS_WIDER), probe.fields)]
    assert any(probe.fields["image"] and probe.fields["window"] for probe in wider)


def test_the_code_accepts_them_and_they_count_for_nothing() -> None:
    exploration = explored("Choices")
    tried, probes = exploration.budget.tried, len(exploration.probes)
    configs = list(answers_turned(exploration))
    assert {True, False} <= {*answers(exploration, "near > layers", configs)}
    assert (exploration.budget.tried, len(exploration.probes)) == (tried, probes)
    assert all(exploration.try_out(config) is not None for config in configs)
