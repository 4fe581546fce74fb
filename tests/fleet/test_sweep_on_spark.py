"""The query of a sweep in Spark's dialect, run by a local Spark: the same rows as DuckDB's."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from weighbridge.fleet.sweep import sweep

pytest.importorskip("duckdb")
spark_sql = pytest.importorskip("pyspark.sql")
if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java"),
    # Its client is older than the Python and the pandas that it runs on here.
    pytest.mark.filterwarnings("default"),
]
SWEEPS: dict[str, dict[str, Any]] = {
    "llama": {
        "hidden_size": range(512, 2049, 512),
        "num_attention_heads": [8, 16],
        "tie_word_embeddings": [True, False],
    },
    "qwen3_next": {"num_hidden_layers": range(4, 13), "full_attention_interval": [1, 3, 4]},
    "bert": {"hidden_size": range(760, 800, 8), "num_attention_heads": [4, 8, 12]},
}


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    """Start Spark in this process, with one thread."""
    builder = spark_sql.SparkSession.builder.master("local[1]").appName("sweep")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "1",
    }.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.mark.sampled("src/weighbridge/fleet")
@pytest.mark.parametrize("family", SWEEPS)
def test_spark_gives_the_rows_of_duckdb(family: str, spark: Any) -> None:
    swept = sweep(family, SWEEPS[family], limit=1000)
    rows = [tuple(row) for row in spark.sql(swept.sql("spark").rstrip(";")).collect()]
    assert sorted(rows) == sorted(tuple(record.values()) for record in swept.records())
    assert len(rows) == swept.configs > 8


def test_totals_beyond_64_bits_are_exact_in_spark(spark: Any) -> None:
    fields = {"hidden_size": 2**30, "intermediate_size": 2**31 - 8, "num_attention_heads": 1}
    swept = sweep("bert", {"vocab_size": [2**31 - 9]}, fields=fields, columns=["parameters"])
    (row,) = spark.sql(swept.sql("spark").rstrip(";")).collect()
    assert int(row["parameters"]) == swept.records()[0]["parameters"] > 2**63
