"""Sweeps: every row is what weighing gives, or what weighing refuses has no row."""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING

import pytest
import sqlite
import sweeps

import weighbridge as wb
from weighbridge.blueprint.schema import families, load
from weighbridge.fleet import sweep_columns, sweep_query
from weighbridge.fleet.axes import Axis, axes_of, axis, parse_axis
from weighbridge.fleet.sweep import Sweep, sweep
from weighbridge.fleet.sweep_columns import Asked

duckdb = pytest.importorskip("duckdb")
if TYPE_CHECKING:
    from pathlib import Path

SAMPLE = 30


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "drawn_family" in metafunc.fixturenames:
        drawn = random.Random(metafunc.config.option.seed)  # noqa: S311
        metafunc.parametrize("drawn_family", drawn.sample(families(), SAMPLE))


def test_drawn_rows_of_a_family_are_what_weighing_gives(drawn_family: str, seed: str) -> None:
    outcome = sweeps.held(drawn_family, seed, rows=12)
    assert outcome.kind != "wrong", outcome.reason
    if outcome.kind == "refused":
        assert " needs " in outcome.reason or "no integer" in outcome.reason


ZAMBA = Axis("hidden_size", (1024, 2560))
GRIDS = {
    "deepseek_v3": {"first_k_dense_replace": (0, 3, 9, 70), "num_hidden_layers": (1, 5, 61)},
    "qwen3_next": {"num_hidden_layers": (3, 8, 9), "full_attention_interval": (1, 3, 50)},
    "bert": {"hidden_size": range(760, 790, 2), "num_attention_heads": (8, 12, 16)},
    "opt": {"num_attention_heads": (0, 12, 16), "hidden_size": (768, 1024)},
    "llama": {"num_attention_heads": (7, 16, 32), "num_key_value_heads": (1, 8, 16)},
    "mixtral": {"num_local_experts": (1, 8), "num_experts_per_tok": (1, 2, 9)},
    "jamba": {
        "attn_layer_period": (2, 8),
        "attn_layer_offset": (1, 4),
        "num_hidden_layers": (4, 9),
    },
}


def test_long_loops_are_computed_in_tables() -> None:
    """Counts of zamba2 have loops over 54 x 54 x 54 layers."""
    swept = Sweep(Asked("zamba2", None, {}, None, ()), [ZAMBA], [], 1)
    swept.hold(swept.variants[0], [{"hidden_size": size} for size in ZAMBA.values])
    assert (swept.held, swept.refused) == (2, 0)


def test_loops_that_take_too_long_refuse_a_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep_query, "MOST_ROUNDS", 100)
    monkeypatch.setattr(sweep_query, "_MOST_ROUNDS", 100)
    with pytest.raises(wb.WeighbridgeError, match="takes too long to compute for these axes"):
        Sweep(Asked("zamba2", None, {}, None, ()), [ZAMBA], [], 1)


@pytest.mark.parametrize("family", GRIDS)
def test_every_row_of_a_grid_is_weighed(family: str) -> None:
    grid = GRIDS[family]
    swept = sweep(family, grid, limit=1000)
    rows = {tuple(row[name] for name in grid): row for row in swept.records()}
    configs = 0
    for values in itertools.product(*grid.values()):
        fields = dict(zip(grid, values, strict=True))
        try:
            weighing = wb.weigh(family, fields=fields)
        except wb.WeighbridgeError:
            assert values not in rows
            continue
        configs += 1
        assert rows[values]["parameters"] == weighing.parameters
        assert rows[values].get("active", weighing.ledger.active) == weighing.ledger.active
    assert swept.configs == configs
    assert swept.points == len(list(itertools.product(*grid.values())))


RUNS = {
    "LlamaForCausalLM": {
        "num_attention_heads": (8, 16),
        "num_key_value_heads": (4, 8),
        "num_hidden_layers": (1, 3),
    },
    "MixtralForCausalLM": {"num_experts_per_tok": (1, 2), "num_hidden_layers": (1, 2)},
    "Gemma3ForCausalLM": {"num_hidden_layers": (1, 7, 13), "sliding_window": (64, 100, 512)},
    "DeepseekV3ForCausalLM": {"num_hidden_layers": (4, 6), "first_k_dense_replace": (1, 3)},
}
FAMILY_OF = {
    "LlamaForCausalLM": "llama",
    "MixtralForCausalLM": "mixtral",
    "Gemma3ForCausalLM": "gemma3_text",
    "DeepseekV3ForCausalLM": "deepseek_v3",
}


@pytest.mark.parametrize("class_name", RUNS)
def test_flops_cache_and_memory_are_those_of_cost_and_cache(class_name: str) -> None:
    family, grid = FAMILY_OF[class_name], RUNS[class_name]
    columns = ("forward_matmul_flops", "cache_bytes", "memory_bytes")
    swept = sweep(
        family, grid, class_name, columns=columns, batch=2, sequence=90, context=300, limit=100
    )
    for row in swept.records():
        fields = {name: row[name] for name in grid}
        cost = wb.cost(family, class_name, fields=fields, batch=2, sequence=90)
        cache = wb.cache(family, class_name, fields=fields, batch=2, context=300)
        weights = wb.weigh(family, class_name, fields=fields).parameters * 4
        assert row["forward_matmul_flops"] == cost.figures["forward_matmul_flops"]
        assert row["cache_bytes"] == cache.cache_bytes
        assert row["memory_bytes"] == weights + cache.cache_bytes
    assert swept.configs == swept.points > 3


def test_a_family_without_operations_has_no_columns_about_runs() -> None:
    with pytest.raises(wb.WeighbridgeError, match="a run of this config is not known"):
        sweep("resnet", {"embedding_size": [32, 64]}, columns=["cache_bytes"])


def test_a_wrong_formula_is_refused_before_anything_is_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def one_more(weighing: wb.Weighing) -> int:
        return weighing.parameters + (weighing.ledger.fields["num_hidden_layers"] > 11)

    monkeypatch.setitem(sweep_columns._VALUES, "parameters", one_more)
    with pytest.raises(wb.WeighbridgeError, match="differ from what `weighbridge weigh` gives"):
        sweep("bert", {"num_hidden_layers": range(1, 13)})
    sweep("bert", {"num_hidden_layers": range(1, 12)})


def test_flags_texts_and_nulls_are_variants() -> None:
    grid = {"hidden_size": [512, 1024], "tie_word_embeddings": [True, False]}
    swept = sweep("llama", grid, "LlamaForCausalLM")
    for row in swept.records():
        fields = {**row, "tie_word_embeddings": row["tie_word_embeddings"] == "true"}
        chosen = {name: fields[name] for name in grid}
        expected = wb.weigh("llama", "LlamaForCausalLM", fields=chosen).parameters
        assert row["parameters"] == expected
    assert swept.configs == 4


def test_conditions_choose_rows_and_orders_sort_them() -> None:
    grid = {"hidden_size": range(512, 4097, 512), "num_hidden_layers": range(4, 33, 4)}
    swept = sweep("llama", grid, where="parameters < 1000000000 and hidden_size % 1024 == 0")
    expected = sum(
        wb.weigh("llama", fields={"hidden_size": width, "num_hidden_layers": depth}).parameters
        < 1_000_000_000
        for width in range(1024, 4097, 1024)
        for depth in grid["num_hidden_layers"]
    )
    assert swept.configs == expected > 0
    largest = sweep("llama", grid, order="parameters:desc", limit=3).records()
    assert largest[0]["hidden_size"] == 4096
    totals = [row["parameters"] for row in largest]
    assert totals == sorted(totals, reverse=True)


def test_no_row_left_is_status_1() -> None:
    swept = sweep("bert", {"num_hidden_layers": [1, 2]}, where="parameters < 5")
    assert (swept.configs, swept.status, swept.records()) == (0, 1, [])
    assert "0 of them" in swept.text()


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_all_rows_are_written(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"it's{suffix}"
    swept = sweep("bert", {"num_hidden_layers": range(1, 100)}, order="num_hidden_layers")
    swept.write(path)
    rows = duckdb.execute(
        "SELECT * FROM read_parquet(?)" if suffix == ".parquet" else "SELECT * FROM read_csv(?)",
        [str(path)],
    ).fetchall()
    assert len(rows) == 99
    assert rows[11][:2] == (12, wb.weigh("bert").parameters)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_a_query_is_complete() -> None:
    swept = sweep("qwen3_next", {"num_hidden_layers": [4, 9], "full_attention_interval": [2, 4]})
    text = swept.sql()
    rows = duckdb.execute(text).fetchall()
    found = {row[:2]: row[2] for row in rows}
    assert len(found) == 4
    for (layers, interval), parameters in found.items():
        fields = {"num_hidden_layers": layers, "full_attention_interval": interval}
        assert wb.weigh("qwen3_next", fields=fields).parameters == parameters


def test_totals_beyond_64_bits_are_exact() -> None:
    fields = {"hidden_size": 2**30, "intermediate_size": 2**31 - 8, "num_attention_heads": 1}
    swept = sweep("bert", {"vocab_size": [2**31 - 9, 2**31 - 1]}, fields=fields)
    (first, _) = swept.records()
    expected = wb.weigh("bert", fields={**fields, "vocab_size": 2**31 - 9}).parameters
    assert first["parameters"] == expected > 2**63


REFUSED = {
    "an axis that decides nothing": (["hidden_act=1..2"], "is no integer|decides nothing"),
    "an unknown axis": (["hiden_size=1..2"], "Did you mean hidden_size"),
    "a word": (["hidden_size"], "--grid takes FIELD=VALUES"),
    "an empty range": (["hidden_size=9..8"], "has no values"),
    "a step of zero": (["hidden_size=8..9:0"], "has no values"),
    "twice": (["hidden_size=8..9", "hidden_size=3"], "given twice"),
    "too large": (["hidden_size=1..99999999999"], "out of range"),
    "no config": (["hidden_size=769,770"], "hidden_size % num_attention_heads == 0"),
    "nothing": ([], "at least one axis"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_grid_is_refused_with_the_reason(case: str) -> None:
    grid, reason = REFUSED[case]
    with pytest.raises(wb.WeighbridgeError, match=reason):
        sweep("bert", grid)


@pytest.mark.parametrize(
    ("choice", "reason"),
    [
        ({"where": "parameters <"}, "cannot be read"),
        ({"where": "layers < 3"}, "no column layers"),
        ({"where": "len(parameters) < 3"}, "operator that SQL lacks"),
        ({"order": "parameters:down"}, "unknown order"),
        ({"order": "size"}, "no column size"),
        ({"columns": ["params"]}, "Use parameters"),
        ({"limit": 0}, "at least one row"),
    ],
)
def test_a_choice_is_refused_with_the_reason(choice: dict[str, object], reason: str) -> None:
    with pytest.raises(wb.WeighbridgeError, match=reason):
        sweep("bert", {"num_hidden_layers": [1, 2]}, **choice)


def test_a_query_runs_elsewhere_where_it_is_plain() -> None:
    """SQLite knows neither ranges nor LEAST, but it computes the same formula."""
    swept = sweep("bert", {"num_hidden_layers": [3, 4]})
    (variant,) = swept.variants
    text = variant.query.text(points="SELECT 3 AS num_hidden_layers UNION ALL SELECT 4")
    assert [row[:2] for row in sqlite.rows(text)] == [
        (layers, wb.weigh("bert", fields={"num_hidden_layers": layers}).parameters)
        for layers in (3, 4)
    ]


def test_axes_are_read_as_typed() -> None:
    assert parse_axis("a=8..96").values == range(8, 97)
    assert parse_axis("a=1024..8191:1024").values[-1] == 7168
    assert parse_axis("a=1,null,true,gelu").values == (1, None, True, "gelu")
    assert axis("a", [1, 1, 2]).values == (1, 2)
    assert str(parse_axis("a=8..96:8")) == "8..96:8"
    assert [one.field for one in axes_of({"a": [1], "b": [2]})] == ["a", "b"]
    assert load("bert").family == "bert"


def test_every_point_of_a_small_grid_is_weighed_once(tmp_path: Path) -> None:
    swept = sweep("gpt2", {"n_embd": (96, 120), "n_layer": (2, 3, 4)})
    assert swept.held + swept.refused == swept.points == 6
    assert "-o FILE.parquet" in swept.text()
    swept.write(tmp_path / "a.csv")
    assert f"All rows are in {tmp_path / 'a.csv'}" in " ".join(swept.text().split())
