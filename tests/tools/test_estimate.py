"""The estimate of time: its fit, its scores on what was left out, and the files that hold them."""

from __future__ import annotations

import importlib.util
import random
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from weighbridge.costs.estimates import calibration
from weighbridge.costs.training_estimates import training_calibration

if TYPE_CHECKING:
    from types import ModuleType

numpy = pytest.importorskip("numpy")
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def estimate() -> ModuleType:
    sys.path.insert(0, str(ROOT / "tools"))
    spec = importlib.util.spec_from_file_location("estimate", ROOT / "tools" / "estimate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["estimate"] = module
    spec.loader.exec_module(module)
    return module


def test_the_files_are_those_of_today(estimate: ModuleType) -> None:
    found, shipped = estimate.outcome(), estimate.FACTS.read_text(encoding="utf-8")
    assert estimate.facts(found, calibration().date) == shipped
    training = estimate.estimate_training
    shipped = training.FACTS.read_text(encoding="utf-8")
    assert training.facts(training.outcome(), training_calibration().date) == shipped


@pytest.mark.parametrize(("lang", "name"), [("en", "estimate.md"), ("zh", "estimate.zh-CN.md")])
def test_the_pages_have_the_figures_of_today(estimate: ModuleType, lang: str, name: str) -> None:
    import estimate_page as made

    page = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert str(len(estimate.outcome().rows)) in page
    tables = [made.kinds_table(lang), made.others_table(lang)]
    for fit in (made.serving(), made.training()):
        tables += [made.scores_table(fit, lang), made.rates_table(fit, lang)]
        tables += [made.fold_table(fit, of, lang) for of in fit.folds]
    assert len(tables) == 13
    assert all(table in page for table in tables)


def test_what_was_left_out_is_near(estimate: ModuleType) -> None:
    scores = estimate.outcome().scores
    assert scores["model"].rows >= 197
    assert scores["model"].median <= 0.08
    assert scores["model"].p90 <= 0.22
    assert scores["device"].median <= 0.07
    assert scores["generation"].median <= 0.125
    assert scores["generation"].p90 <= 0.25


def test_trainings_that_were_left_out_are_near(estimate: ModuleType) -> None:
    scores = estimate.estimate_training.outcome().scores
    assert scores["model"].rows >= 43
    assert scores["model"].median <= 0.135
    assert scores["model"].p90 <= 0.28
    assert scores["device"].median <= 0.17
    assert scores["device"].p90 <= 0.37
    assert scores["source"].median <= 0.22


@pytest.mark.parametrize("name", ["model", "device", "generation"])
def test_a_fit_sees_nothing_of_what_it_is_scored_on(
    estimate: ModuleType, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    of, really_fitted = estimate.FOLDS[name], estimate.RATES.fitted
    seen: list[set[str]] = []

    def fitted(rows: list[object]) -> object:
        seen.append({of(row) for row in rows})
        return really_fitted(rows)

    rows = estimate.outcome().rows  # fits by itself, before fits are watched
    monkeypatch.setattr(estimate.RATES, "fitted", fitted)
    fold = estimate.RATES.left_out(rows, of)
    names = sorted({of(row) for row in rows})
    assert [set(names) - rest for rest in seen] == [{one} for one in names]
    assert sorted(row for row, _ in fold) == sorted(rows)


def test_a_fit_finds_the_rates_that_made_the_rows(estimate: ModuleType) -> None:
    draw = random.Random(5)  # noqa: S311  # no secret
    true = numpy.array([1.4, 1.6, 2.2, 2.5, 1.3, 1.2, 1.8, 7.0, 2e-5, 1e-3, 6e-6, 1.5e-5])
    rows = []
    for number in range(400):
        # Each row is mostly one term, as a small or a large batch would be.
        shares = [0.1 * draw.random() for _ in true]
        shares[number % len(true)] *= 200
        terms = tuple(share / rate for share, rate in zip(shares, true, strict=True))
        seconds = float(numpy.dot(terms, true))
        rows.append(estimate.Row("", "H100", "F8", 1, 1, 1, "", seconds, terms))
    assert estimate.RATES.fitted(rows) == pytest.approx(true, rel=0.02)


def test_no_share_is_more_than_all_of_it(estimate: ModuleType) -> None:
    rates = calibration().rates
    assert all(rates[name] >= 1 for name in estimate.RATES.least)
    rates = training_calibration().rates
    assert all(rates[name] >= 1 for name in estimate.estimate_training.RATES.least)


def test_the_newest_of_several_versions_counts(estimate: ModuleType) -> None:
    rows = [row for row in estimate.outcome().rows if row.kind == "static batch"]
    assert rows
    seen = [(row.model, row.device, row.ranks, row.dtype, row.tokens) for row in rows]
    newest = (ROOT / "tests" / "data" / "serving_latency.tsv").read_text(encoding="utf-8")
    old = r"Llama-2-7b-hf\tH100\t1\t1\tF8\t\d+\t128\t2048\toutput throughput\t(\d+)"
    values = [int(value) for value in re.findall(old, newest)]
    assert len(values) == 2
    both = [row for row in rows if row.model.endswith("Llama-2-7b-hf") and row.device == "H100"]
    rates = [row.batch * 2048 / row.seconds for row in both if row.tokens == 2176]
    assert any(rate == pytest.approx(values[-1]) for rate in rates)
    assert not any(rate == pytest.approx(values[0]) for rate in rates)
    assert len(seen) >= 30
