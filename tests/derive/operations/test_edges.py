"""An edge at which nothing differs is known for one, in each dtype."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from weighbridge.derive.operations import drafting as module
from weighbridge.derive.operations.drafting import Drafting
from weighbridge.derive.operations.runs import TRAIN, RunMode

BF16, F32 = RunMode(TRAIN, "cpu", "BF16"), RunMode(TRAIN, "cpu", "F32")
EDGE = (("sequence", 2),)
ACTIVATION, STATISTICS = ("saved norm", "batch", ()), ("saved norm", "F32 sequence", ())


def recorded(setting: RunMode) -> list[tuple[str, str, tuple[int, ...]]]:
    """What a run saves: an activation in the dtype of the model, and statistics in F32."""
    dtype = "compute" if setting.dtype == "BF16" else "F32"
    path, dims, indices = ACTIVATION
    return [(path, f"{dtype} {dims}", indices), STATISTICS]


@pytest.fixture
def drafting(monkeypatch: pytest.MonkeyPatch) -> Drafting:
    class Reading:
        def __init__(self, _: Any, setting: RunMode, runs: list[Any], *__: Any, **___: Any) -> None:
            self._found = Counter(runs[0])

        def found(self) -> Counter[Any]:
            return self._found

    monkeypatch.setattr(module, "Reading", Reading)
    drafting = Drafting.__new__(Drafting)
    drafting.draws, drafting.family = [None, None], SimpleNamespace(usual={})  # type: ignore[assignment, list-item]
    drafting._memory = None  # type: ignore[assignment]
    monkeypatch.setattr(drafting, "_run", lambda _, setting: recorded(setting))
    monkeypatch.setattr(drafting, "_teaches", lambda _: False)
    return drafting


def counted(drafting: Drafting) -> dict[RunMode, Any]:
    counts: dict[RunMode, Any] = {}
    for setting in (BF16, F32):
        counts[setting] = drafting._texts_of(setting, counts)
    return counts


def test_what_stays_f32_is_told_at_an_edge_too(drafting: Drafting) -> None:
    counts = counted(drafting)
    assert counts[F32] == counts[BF16]
    assert drafting._alike(EDGE, [()], [BF16, F32], counts) == ()


@pytest.mark.parametrize("differs", [BF16, F32], ids=["BF16", "F32"])
def test_an_edge_differs_if_one_dtype_does(
    drafting: Drafting, monkeypatch: pytest.MonkeyPatch, differs: RunMode
) -> None:
    counts = counted(drafting)

    def run(_: Any, setting: RunMode) -> list[Any]:
        return recorded(setting) * (2 if setting.dtype == differs.dtype else 1)

    monkeypatch.setattr(drafting, "_run", run)
    assert drafting._alike(EDGE, [()], [BF16, F32], counts) is None
