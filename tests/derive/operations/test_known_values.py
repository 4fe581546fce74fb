"""Values on the meta device, against the same code on the CPU."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest
import torch

from weighbridge.blueprint import schema
from weighbridge.derive.operations.costing import main_class
from weighbridge.derive.operations.draws import Draws
from weighbridge.derive.operations.known_values import KnownValues
from weighbridge.derive.operations.runs import RunMode, asking_for_values, recorded_run
from weighbridge.derive.probing.reference import FamilySubject

if TYPE_CHECKING:
    from collections.abc import Callable

QUESTIONS: dict[str, Callable[[torch.Tensor], object]] = {
    "item": lambda given: given.sum().item(),
    "bool": lambda given: bool((given > 4).all()),
    "list": lambda given: (given * 2 - 1).tolist(),
    "nonzero": lambda given: given.nonzero().shape,
    "masked": lambda given: given.masked_select(given > 3).shape,
    "view": lambda given: int(given[1:].max()),
    "written": lambda given: given.clone().fill_(7)[0].item(),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_has_the_answer_of_the_cpu(name: str) -> None:
    given, question = torch.tensor([3, 0, 5, 4]), QUESTIONS[name]
    with KnownValues():
        answer = question(given.to("meta"))
    assert answer == question(given)


def test_chance_is_not_known() -> None:
    with KnownValues(), pytest.raises((RuntimeError, NotImplementedError)):
        torch.rand(3, device="meta").sum().item()


def test_what_something_unknown_is_written_to_is_forgotten() -> None:
    with KnownValues():
        known = torch.zeros(3, device="meta")
        assert known.sum().item() == 0
        known.copy_(torch.rand(3, device="meta"))
        with pytest.raises((RuntimeError, NotImplementedError)):
            known.sum().item()


@pytest.mark.parametrize("family", asking_for_values())
def test_a_class_that_asks_does_on_meta_what_it_does_on_the_cpu(family: str, seed: str) -> None:
    subject, blueprint = FamilySubject(family), schema.load(family)
    subject.task_classes()
    class_name = main_class(blueprint)
    subject.check_class(class_name)
    (draw,) = Draws(subject, blueprint).alike(random.Random(seed), 1)  # noqa: S311
    on_meta, on_cpu = (
        recorded_run(subject, class_name, draw, RunMode("train", profile, "F32"))
        for profile in ("cuda-eager", "cpu-eager")
    )
    for kind in ("forward", "backward"):
        assert Counter(on_meta[kind]) == Counter(on_cpu[kind])
        assert on_meta[kind]
