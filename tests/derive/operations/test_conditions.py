"""Conditions of operations: found where their module is, if five questions have to be joined."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from weighbridge.algebra.expr import evaluate, parse
from weighbridge.derive.operations.drafting import Drafting
from weighbridge.errors import ModelError

FLAGS = ("of_module", "wide", "alone", "whole", "long")
ENVIRONMENTS = [
    dict(zip(FLAGS, values, strict=True)) for values in itertools.product((False, True), repeat=5)
]
EVERYWHERE = np.ones(len(ENVIRONMENTS), dtype=bool)


@pytest.fixture
def drafting(monkeypatch: pytest.MonkeyPatch) -> Drafting:
    questions = [(parse(flag), 3.0) for flag in FLAGS]
    monkeypatch.setattr(Drafting, "_asked_at", lambda *_: (questions, ENVIRONMENTS))
    return Drafting.__new__(Drafting)


def where(*flags: str) -> Any:
    return np.array([all(environment[flag] for flag in flags) for environment in ENVIRONMENTS])


def test_a_condition_of_five_questions_is_found_where_the_module_is(drafting: Drafting) -> None:
    wanted, somewhere = where(*FLAGS), where("of_module")
    found = drafting._condition("saved attn", "batch", [], wanted, somewhere)
    condition = parse(found.removeprefix(" if "))
    assert [bool(evaluate(condition, names)) for names in ENVIRONMENTS] == list(wanted)


def test_it_is_not_sought_there_if_the_module_is_everywhere(drafting: Drafting) -> None:
    with pytest.raises(ModelError, match="no condition was found for saved attn: batch, which"):
        drafting._condition("saved attn", "batch", [], where(*FLAGS), EVERYWHERE)


def test_what_one_search_finds_does_not_name_the_module(drafting: Drafting) -> None:
    wanted, somewhere = where("wide", "alone"), where("of_module")
    found = drafting._condition("saved attn", "batch", [], wanted, somewhere)
    assert found == " if wide and alone"
