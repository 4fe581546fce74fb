"""Each comparison of sizes is answered both ways, though hardly any random draw does so."""

from __future__ import annotations

import pytest
from hard_to_explore import explored
from own_models import strangers
from torch import nn

from weighbridge.algebra.expr import parse
from weighbridge.derive.probing.answers import answers_turned
from weighbridge.derive.probing.chance import unseen
from weighbridge.derive.probing.explore import explore_configs
from weighbridge.derive.probing.own import OwnSubject
from weighbridge.derive.probing.probe import quick_building
from weighbridge.derive.probing.questions import answer_to
from weighbridge.derive.probing.state import Changes, Exploration, Turn, begin
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
    """Also where no random draw has a window as large as the image."""
    learned = scales.findings
    scales.findings = learned.copied()
    for field, values in {"image": [237], "patch": [5], "window": [8]}.items():
        scales.findings.turns[field] = Turn(learned.turns[field].value, values, free=False)
    configs = list(answers_turned(scales))
    drawn = unseen(scales, 24)
    scales.findings = learned
    assert {*answers(scales, IS_WIDER, drawn)} == {False}
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


class Limited(nn.Module):
    """Refuses widths that its code compares with a limit."""

    def __init__(self, width: int = 32, out: int = 8) -> None:
        super().__init__()
        if width > 40:
            raise ValueError("width is at most 40")
        self.layer = nn.Linear(width, out, bias=width > out)


def test_what_the_code_refuses_is_left_out() -> None:
    exploration = begin(OwnSubject(f"{__name__}:Limited"), "Limited")
    with quick_building():
        explore_configs(exploration)
    assert parse("width > 40") in exploration.asked()
    configs = list(answers_turned(exploration))
    assert False in answers(exploration, "width > out", configs)
    assert {*answers(exploration, "width > 40", configs)} == {False}


def test_they_do_not_count_as_configs_that_were_learned_from() -> None:
    exploration = explored("Choices")
    tried, probes = exploration.budget.tried, len(exploration.probes)
    configs = list(answers_turned(exploration))
    assert {True, False} <= {*answers(exploration, "near > layers", configs)}
    assert (exploration.budget.tried, len(exploration.probes)) == (tried, probes)
