"""What others measured: how near predictions are, and that no bound on time is beaten."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def measured() -> ModuleType:
    spec = importlib.util.spec_from_file_location("measured", ROOT / "tools" / "measured.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["measured"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def outcomes(measured: ModuleType) -> Any:
    return measured.outcomes()


def of(outcomes: Any, quantity: str) -> list[Any]:
    rows, _ = outcomes
    return [row for row in rows if row.quantity == quantity]


def test_what_megatron_keeps_between_steps(measured: ModuleType, outcomes: Any) -> None:
    told = measured.summary(of(outcomes, "kept"))
    assert told.number >= 270
    assert told.near >= 0.944
    assert told.close >= 0.97
    assert told.median <= 0.0055
    assert told.most <= 0.066


def test_the_most_that_megatron_holds(measured: ModuleType, outcomes: Any) -> None:
    told = measured.summary(of(outcomes, "most"))
    assert told.number >= 155
    assert told.close >= 0.987
    assert told.rough == 1
    assert told.median <= 0.019
    nearest = measured.summary(of(outcomes, "most, nearest kernel"))
    assert nearest.number >= 115
    assert nearest.close >= 0.93


def test_a_run_without_a_pipeline_is_exact_to_a_few_kilobytes(outcomes: Any) -> None:
    name = "gpt/gpt3_mcore_te_tp1_pp1_dist_optimizer_no_mmap_bin_files"
    rows = [row for row in of(outcomes, "kept") if row.name == name and "a100" in row.where]
    assert len(rows) >= 2
    assert all(abs(row.predicted - row.measured) < 2**17 for row in rows)


def test_workspaces_on_blackwell_depend_on_the_image(measured: ModuleType, outcomes: Any) -> None:
    """Without a setting, files of 26.02 and older have 8.125 MiB for each handle, newer 32 MiB."""
    settings = {(row["case"], row["golden"]): row for row in measured.table("megatron.tsv")}
    near: dict[bool, list[float]] = {False: [], True: []}
    for row in of(outcomes, "kept"):
        setting = settings[row.name, row.where]
        if "gb200" in row.where and not setting["cublas"] and not row.reason:
            near[setting["image"] >= "26.04"].append(row.off)
    assert {is_new: len(some) for is_new, some in near.items()} == {False: 8, True: 9}
    assert max(near[True] + near[False]) <= 0.02


def test_peaks_of_adapters_are_near(outcomes: Any) -> None:
    _, others = outcomes
    adapters = [row for row in others["torch"] if "r=" in row.name and not row.reason]
    assert len(adapters) == 4
    assert sorted(row.off for row in adapters)[2] <= 0.025
    assert max(row.off for row in adapters) <= 0.095


def test_peaks_of_torchtitan_are_near(outcomes: Any) -> None:
    _, others = outcomes
    rows = [row for row in others["torch"] if "FSDP32" in row.name]
    assert len(rows) == 2
    assert max(row.off for row in rows) <= 0.137


def test_tokens_in_a_cache(outcomes: Any) -> None:
    _, others = outcomes
    told = {row.name.partition(",")[0]: row for row in others["caches"] if not row.reason}
    assert told["Qwen3-14B"].predicted == told["Qwen3-14B"].measured
    assert all(row.off < 0.012 for row in told.values())


def test_nothing_is_faster_than_a_bound(outcomes: Any) -> None:
    _, others = outcomes
    bounds = [row for row in others["bounds"] if not row.reason]
    assert len(bounds) >= 366
    assert max(row.ratio for row in bounds) <= 1
    assert max(row.ratio for row in bounds) > 0.6  # else the test could not tell a wrong peak


def test_every_row_without_a_prediction_has_a_reason(outcomes: Any) -> None:
    rows, others = outcomes
    for row in [*rows, *(row for part in others.values() for row in part)]:
        assert row.reason or row.predicted > 0


PAGES = [("en", "measured-by-others.md"), ("zh", "measured-by-others.zh-CN.md")]


@pytest.mark.parametrize(("lang", "name"), PAGES)
@pytest.mark.usefixtures("measured")
def test_the_pages_have_the_figures_of_today(lang: str, name: str) -> None:
    import measured_page as made

    page = (ROOT / "docs" / name).read_text(encoding="utf-8")
    tables = [made.summary_table(lang), made.megatron_table(lang), made.bounds_table(lang)]
    tables += [made.megatron_tests(lang), made.megatron_tests(lang, above=made.measured.CLOSE)]
    tables += [made.rows_table(part, lang) for part in ("torch", "caches")]
    tables += [made.left_out_table(part, lang) for part in ("megatron", "bounds")]
    assert made.faster_than_bounds(lang) in page
    assert all(table in page for table in tables)
