"""What is thrown at weighbridge: each thrower throws, and what fails is counted as that."""

from __future__ import annotations

import time
from typing import Any

import pytest
import robustness

import weighbridge as wb
from weighbridge.errors import ArticleError

FEW = {"times": 1}


def outcomes(by: str, share: float = 1.0) -> list[str]:
    return [outcome for outcome, _ in getattr(robustness, by)(FEW, share)]


@pytest.mark.parametrize("by", ["damaged_files", "damaged_articles"])
def test_nothing_fails_and_the_same_is_thrown_again(by: str) -> None:
    thrown = outcomes(by)
    assert len(thrown) >= len(robustness.fuzz.NAMES)
    assert robustness.FAILED not in thrown
    assert outcomes(by) == thrown


def test_hostile_files_are_refused_by_the_command() -> None:
    assert set(outcomes("hostile_files", share=0.01)) <= {robustness.ANSWERED, robustness.REFUSED}


@pytest.mark.parametrize(
    ("fault", "outcome"),
    [
        (ArticleError("a message"), robustness.REFUSED),
        (ValueError("no message"), robustness.FAILED),
        (RecursionError(), robustness.FAILED),
        (ArticleError("long" * 1000), robustness.FAILED),
    ],
)
def test_an_error_that_is_no_message_fails(
    monkeypatch: pytest.MonkeyPatch, fault: Exception, outcome: str
) -> None:
    def audit(**_: Any) -> None:
        raise fault

    monkeypatch.setattr(wb, "audit", audit)
    assert set(outcomes("damaged_articles")) == {outcome}


def test_what_takes_too_long_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(robustness, "MOST_SECONDS", 1)
    assert robustness._of_call(lambda: time.sleep(3)) == robustness.FAILED


def test_a_traceback_of_a_command_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: str, **__: Any) -> Any:
        return robustness.subprocess.CompletedProcess([], 2, "", "Traceback (most recent call")

    monkeypatch.setattr(robustness, "_run", run)
    assert set(outcomes("hostile_files", share=0.01)) == {robustness.FAILED}


def test_every_thrower_is_there_and_was_thrown() -> None:
    listed = robustness.described()
    assert all(hasattr(robustness, one["by"]) for one in listed)
    assert all(f"**{one['title']}.**" in robustness.table("en") for one in listed)
