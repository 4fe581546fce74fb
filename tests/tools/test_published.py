"""The share of published totals that `reconcile` explains, and the totals that it does not."""

import importlib.util
import sys
from pathlib import Path

import pytest

import weighbridge as wb

ROOT = Path(__file__).parents[2]
_SPEC = importlib.util.spec_from_file_location("published", ROOT / "tools" / "published.py")
published = importlib.util.module_from_spec(_SPEC)
sys.modules["published"] = published
_SPEC.loader.exec_module(published)

LEAST_SHARE = 0.9


@pytest.fixture(scope="module")
def results():
    return list(published.outcomes())


def test_each_fact_is_about_a_row_and_no_row_has_two() -> None:
    totals, facts = published.totals(), published.facts()
    keys = [total.key for total in totals]
    assert len(keys) == 330
    numbers = {(total.key, total.number) for total in totals}
    assert len(numbers) == len(set(keys)), "a key is one number, which two sources may give"
    listed = [*facts["unreconciled"]]
    for kind in ("reason", "unweighed"):
        for entry in facts[kind]:
            listed += entry["rows"]
    assert sorted(listed) == sorted(set(listed))
    assert set(listed) <= set(keys)
    models = [*facts["names"], *[row for entry in facts["sizes"] for row in entry["rows"]]]
    assert sorted(models) == sorted(set(models))
    assert set(models) <= {total.model for total in totals}
    assert all(entry["source"] for entry in facts["sizes"])
    assert all(entry["shown_by"] for entry in facts["reason"])


def test_most_published_totals_are_reconciled_in_the_way_that_the_source_shows(results) -> None:
    wrong = {
        outcome.total.key: (outcome.conventions, outcome.expected)
        for outcome in results
        if outcome.reconciled and not outcome.because and not outcome.is_reconciled
    }
    assert wrong == {}
    reconciled, weighed = published.share(results)
    assert reconciled / weighed >= LEAST_SHARE
    assert weighed >= 270


def test_no_way_gives_the_totals_that_are_listed_as_not_reconciled(results) -> None:
    unreconciled = {
        outcome.total.key
        for outcome in results
        if outcome.reconciled and outcome.conventions is None
    }
    assert unreconciled == set(published.facts()["unreconciled"])


def test_a_rounded_total_is_that_of_a_class_as_it_is(results) -> None:
    for outcome in results:
        if outcome.is_reconciled and outcome.reconciled.matches[0].rounding:
            assert outcome.conventions == ()


@pytest.mark.slow
def test_most_totals_of_another_catalogue_are_reconciled() -> None:
    lines = (ROOT / "tests" / "data" / "llmfit.tsv").read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines[1:]]
    explained = [model for model, claimed in rows if wb.reconcile(model, claimed).status == 0]
    assert len(rows) > 400
    assert len(explained) / len(rows) >= LEAST_SHARE


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_share_is_written_in_words(lang, results, monkeypatch: pytest.MonkeyPatch) -> None:
    cog = type(sys)("cog")
    lines: list[str] = []
    cog.outl = lines.append
    monkeypatch.setitem(sys.modules, "cog", cog)
    monkeypatch.setattr(published, "outcomes", lambda: results)
    published.in_words(lang)
    reconciled, weighed = published.share(results)
    assert f" {reconciled} " in lines[0]
    assert f"{reconciled / weighed:.0%}" in lines[0]
