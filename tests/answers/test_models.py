"""The list of released models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weighbridge.answers import models
from weighbridge.answers.models import ReleasedModels

if TYPE_CHECKING:
    import pytest

DENSE: dict[str, Any] = {"family": "llama", "parameters": 7000, "source": "somewhere"}
EXPERTS: dict[str, Any] = {**DENSE, "family": "mixtral", "active": 2000}


def test_active_parameters_have_a_column_where_a_listed_model_has_experts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(models, "released", lambda: {"a/dense": DENSE, "a/experts": EXPERTS})
    listed = ReleasedModels()
    assert [line.split() for line in listed.text().splitlines()] == [
        ["model", "parameters", "active", "per", "token"],
        ["a/dense", "7,000"],
        ["a/experts", "7,000", "2,000"],
    ]
    assert listed.to_dict()["a/experts"]["active"] == 2000
    assert ReleasedModels("dense").text().splitlines()[0].split() == ["model", "parameters"]
