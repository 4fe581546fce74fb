"""Conditions of operations: found where their module is, if five questions have to be joined."""

from __future__ import annotations

import itertools
from collections import Counter
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from weighbridge.algebra.expr import evaluate, parse
from weighbridge.derive.operations import costing
from weighbridge.derive.operations.drafting import Drafting
from weighbridge.derive.operations.runs import TRAIN, RunMode
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


def test_a_condition_may_differ_between_dtypes(monkeypatch: pytest.MonkeyPatch) -> None:
    environments = [
        {**names, "dtype": dtype} for names in ENVIRONMENTS for dtype in ("F32", "BF16")
    ]
    questions = [(parse(flag), 3.0) for flag in (*FLAGS, "dtype == 'F32'")]
    monkeypatch.setattr(Drafting, "_asked_at", lambda *_: (questions, environments))
    wide = [names["dtype"] == "F32" for names in environments]
    is_one = [all(names[flag] for flag in FLAGS[1:]) for names in environments]
    for_wide = [
        names["of_module"] and not one for names, one in zip(environments, is_one, strict=True)
    ]
    wanted = np.array(
        [
            one if is_wide else names["of_module"] and names["whole"] != names["long"]
            for names, one, is_wide in zip(environments, for_wide, wide, strict=True)
        ]
    )
    somewhere = np.array([names["of_module"] for names in environments])
    drafting = Drafting.__new__(Drafting)
    found = drafting._condition("saved attn", "batch", [], wanted, somewhere)
    condition = parse(found.removeprefix(" if "))
    assert [bool(evaluate(condition, names)) for names in environments] == list(wanted)


def test_it_is_not_sought_there_if_the_module_is_everywhere(drafting: Drafting) -> None:
    with pytest.raises(ModelError, match="no condition was found for saved attn: batch, which"):
        drafting._condition("saved attn", "batch", [], where(*FLAGS), EVERYWHERE)


def test_what_one_search_finds_does_not_name_the_module(drafting: Drafting) -> None:
    wanted, somewhere = where("wide", "alone"), where("of_module")
    found = drafting._condition("saved attn", "batch", [], wanted, somewhere)
    assert found == " if wide and alone"


@pytest.fixture
def two_ways(monkeypatch: pytest.MonkeyPatch) -> dict[RunMode, Any]:
    usual = RunMode(TRAIN, "cpu", "BF16")
    counts = {usual: Counter(), usual._replace(changes=(("key_heads", 1),)): Counter()}
    monkeypatch.setattr(Drafting, "counted", lambda *_: counts)
    return counts


def drafting_of_heads() -> Drafting:
    drafting = Drafting.__new__(Drafting)
    drafting.family = SimpleNamespace(key_heads={"key_heads": "heads"})  # type: ignore[assignment]
    drafting.holes, drafting.knows_one_head = [], True
    return drafting


def test_runs_with_one_head_are_left_out_if_no_condition_holds_there(
    monkeypatch: pytest.MonkeyPatch, two_ways: dict[RunMode, Any]
) -> None:
    def conditioned(_: Drafting, counts: dict[RunMode, Any]) -> dict[str, list[str]]:
        if len(counts) > 1:
            raise ModelError("no condition was found")
        return {"saved attn": ["batch"]}

    monkeypatch.setattr(Drafting, "_conditioned", conditioned)
    drafting = drafting_of_heads()
    assert drafting._of_profile("cpu") == {"saved attn": ["batch"]}
    assert drafting.holes == ["cpu, with one head of keys: no condition was found"]
    assert not drafting.knows_one_head


@pytest.mark.parametrize("knows", [True, False])
def test_only_what_runs_with_one_head_were_found_from_is_proved_for_one(
    monkeypatch: pytest.MonkeyPatch, *, knows: bool
) -> None:
    class Proof:
        def __init__(self, *_: Any) -> None:
            pass

        of_profile = staticmethod(lambda *_: None)
        with_ones = staticmethod(lambda *_: [])

    monkeypatch.setattr(costing, "Proof", Proof)
    monkeypatch.setattr(costing, "operations_text", lambda _: "")
    drafting = SimpleNamespace(profiles=["cpu"], nullable=[], knows_one_head=knows)
    draws: Any = SimpleNamespace(lone_heads={"key_heads": "heads"})
    drafts = {"Model": costing.ClassDraft(draws, drafting, {})}  # type: ignore[arg-type]
    assert costing._proved(drafts, {}) == (["cpu"], ["key_heads"] if knows else [], [])


def test_a_profile_without_conditions_for_several_heads_is_not_given(
    monkeypatch: pytest.MonkeyPatch, two_ways: dict[RunMode, Any]
) -> None:
    def conditioned(_: Drafting, counts: dict[RunMode, Any]) -> dict[str, list[str]]:
        raise ModelError("no condition was found")

    monkeypatch.setattr(Drafting, "_conditioned", conditioned)
    drafting = drafting_of_heads()
    with pytest.raises(ModelError, match="no condition was found"):
        drafting._of_profile("cpu")
    assert drafting.holes == []
