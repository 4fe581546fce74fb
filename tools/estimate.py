"""Fits the calibrated estimate of time, and scores it on what it was not fitted to.

    python tools/estimate.py

The rows are those of ``tests/data/serving_latency.tsv``: what NVIDIA published for TensorRT-LLM. Of
a setting that was measured with several versions the newest counts. It writes
``facts/estimate.toml`` and ``facts/estimate_training.toml`` (``tools/estimate_training.py``);
``tools/estimate_page.py`` has the tables of ``docs/estimate.md``. Needs numpy.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from datetime import UTC, datetime
from functools import cache
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

sys.path.insert(0, str(Path(__file__).parent))
import estimate_training
import measured
from calibrate import Rates, score

from weighbridge.answers.estimating import is_plain, prompt_work, setting_of, step_work
from weighbridge.costs.estimates import PassWork, Score, rate_name, terms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from weighbridge.answers.serve import Serving

FACTS = measured.ROOT / "src" / "weighbridge" / "data" / "facts" / "estimate.toml"
SOURCE = "TensorRT-LLM"
VERSIONS = ("138f96d4", "66ef1df4", "00f37686", "03e27c7d")  # commits of the tables, oldest first
MOST_RESIDENT = 2048  # sequences: TensorRT-LLM's default for --max_batch_size
CHUNK = 8192  # tokens of a pass: TensorRT-LLM's default for --max_num_tokens
FEWEST = 10  # rows of a device and a dtype, for an estimate to be printed
GENERATIONS = {
    "A100-80GB": "Ampere",
    "L40S": "Ada",
    "H100": "Hopper",
    "H200": "Hopper",
    "B200": "Blackwell",
    "GB200": "Blackwell",
    "RTXPRO6000-Server": "Blackwell, RTX",
}

RATES = Rates(
    least={
        "F16": (0.7, "of the peak of F16 and BF16"),
        "F8": (0.6, "of the peak of F8"),
        "F4": (0.45, "of the peak of F4"),
        "attention": (0.4, "of that peak by attention over a prompt"),
        "weights": (0.8, "of the bandwidth by reading weights"),
        "cache": (0.7, "of the bandwidth by reading the cache"),
        "links": (0.6, "of the links by sums of hidden states"),
    },
    counts={
        "states": (8.0, "times that hidden states are read or written in a layer"),
        "layers": (15e-6, "more seconds for each layer"),
        "passes": (2e-3, "more seconds for each pass"),
        "sequences": (5e-6, "more seconds for each sequence in a pass"),
        "sums": (12e-6, "more seconds for each sum over links"),
    },
)


class Row(NamedTuple):
    """A measurement: of which model and device, and the sum of the terms of its passes."""

    model: str
    device: str
    dtype: str
    ranks: int
    batch: int
    tokens: int
    kind: str
    seconds: float
    terms: tuple[float, ...]

    @property
    def generation(self) -> str:
        """The generation of the device, whose members are near siblings."""
        return GENERATIONS[self.device]


# From measurements to terms


def rows() -> list[Row]:
    """Return the newest measurement of each setting of a dense model."""
    newest: dict[tuple[str, ...], dict[str, str]] = {}
    for row in sorted(measured.table("serving_latency.tsv"), key=_version):
        names = ("model", "device", "devices", "dtype", "input_tokens", "output_tokens")
        newest[tuple(row[name] for name in names)] = row
    found = (_row(row) for row in newest.values() if not measured.not_served(row))
    return [row for row in found if row is not None]


def _version(row: dict[str, str]) -> int:
    return next(at for at, commit in enumerate(VERSIONS) if commit in row["source"])


def _row(row: dict[str, str]) -> Row | None:
    given, taken = int(row["input_tokens"]), int(row["output_tokens"])
    number = int(row["devices"])
    on = (row["model"], f"{number}x{row['device']}")
    serving = measured.service(*on, given + taken, 1, row["dtype"])
    if not is_plain(serving):
        return None
    value = float(row["value"])
    if row["unit"] == "ms":
        kind, batch, seconds = "first token", 1, value / 1000
        parts = [(1.0, prompt_work(measured.service(*on, given, 1, row["dtype"])))]
    else:
        rate = value * (number if "for each" in row["unit"] else 1)
        kind = "static batch" if row["batch"] else "full load"
        batch = int(row["batch"] or min(MOST_RESIDENT, max(1, serving.largest_batch)))
        passes = static_passes if row["batch"] else mixed_pass
        parts = passes(on, given, taken, batch, row["dtype"])
        seconds = batch * (taken if row["batch"] else 1) / rate
    return Row(
        row["model"],
        row["device"],
        rate_name(serving.peak_dtype),
        number,
        batch,
        given + taken,
        kind,
        seconds,
        summed(parts, serving),
    )


def static_passes(
    on: tuple[str, str], given: int, taken: int, batch: int, dtype: str
) -> list[tuple[float, PassWork]]:
    """Return the passes of a batch that starts and ends together, and how often each is made."""
    prompt = prompt_work(measured.service(*on, given, 1, dtype))
    pieces = ceil(batch * given / CHUNK)
    share = batch / pieces
    part = PassWork(
        given * share,
        share,
        prompt.flops * share,
        prompt.attention_flops * share,
        prompt.weight_bytes,
        0,
    )
    step = step_work(measured.service(*on, given + taken // 2, batch, dtype), batch)
    return [(pieces, part), (taken - 1, step)]


def mixed_pass(
    on: tuple[str, str], given: int, taken: int, batch: int, dtype: str
) -> list[tuple[float, PassWork]]:
    """Return a pass of a server at full load: a step of the batch, and prompts of those after."""
    prompt = prompt_work(measured.service(*on, given, 1, dtype))
    step = step_work(measured.service(*on, given + taken // 2, batch, dtype), batch)
    share = batch / taken
    mixed = PassWork(
        batch + share * given,
        batch,
        step.flops + share * prompt.flops,
        share * prompt.attention_flops,
        step.weight_bytes,
        step.cache_bytes,
    )
    return [(1.0, mixed)]


def summed(parts: Iterable[tuple[float, PassWork]], serving: Serving) -> tuple[float, ...]:
    """Return the sum of the terms of some passes, in the order of `RATES.names`."""
    total = dict.fromkeys(RATES.names, 0.0)
    for times, work in parts:
        for name, value in terms(work, setting_of(serving)).items():
            total[name] += times * value
    return tuple(total.values())


FOLDS: dict[str, Callable[[Row], str]] = {
    "model": lambda row: row.model,
    "device": lambda row: row.device,
    "generation": lambda row: row.generation,
}


# What others measured with other engines


def other_engines() -> list[tuple[str, tuple[float, ...], float]]:
    """Return the settings of steps of other sources, with the terms summed, and their seconds."""
    found = []
    for row in measured.table("costs_measured.tsv"):
        sizes = re.search(r"ISL(\d+) OSL(\d+) batch(\d+) TP(\d+)", row["setup"])
        if row["kind"] != "serve-latency" or row["quantity"] != "TPOT" or sizes is None:
            continue
        given, taken, batch, ranks = map(int, sizes.groups())
        dtype = measured.dtype_of(row["setup"])
        device = row["device"].partition("_")[0].upper()
        on = (row["model"].removesuffix("-Instruct"), f"{ranks}x{device}")
        serving = measured.service(*on, given + taken, 1, dtype)
        if is_plain(serving):
            work = summed(mixed_pass(on, given, taken, batch, dtype), serving)
            name = f"{row['model']}, {row['setup']}, {device}, {dtype}"
            found.append((name, work, float(row["value"]) / 1000))
    return found


# What is written


class Outcome(NamedTuple):
    """A fit to all rows, and its scores on what was left out."""

    rows: list[Row]
    rates: dict[str, float]
    folds: dict[str, list[tuple[Row, float]]]

    @property
    def scores(self) -> dict[str, Score]:
        """The score of each way of leaving out, and of the fit itself."""
        return {name: score(ratio for _, ratio in fold) for name, fold in self.folds.items()}


@cache
def outcome() -> Outcome:
    """Fit to all rows, and to all but those of each model, device and generation."""
    some = rows()
    rates = {
        name: float(f"{rate:.3g}")
        for name, rate in zip(RATES.names, RATES.fitted(some), strict=True)
    }
    return Outcome(some, rates, {name: RATES.left_out(some, of) for name, of in FOLDS.items()})


def facts(found: Outcome, date: str) -> str:
    """Return the text of `facts/estimate.toml`."""
    lines = [
        f"# The calibrated estimate of time: {estimate_training.WRITTEN}",
        f'date = "{date}"',
        f'source = "{SOURCE}"',
        f"rows = {len(found.rows)}",
        "",
        "[rates]",
        *(f"{name} = {rate!r}" for name, rate in found.rates.items()),
        "",
        "[left_out]",
        *(f"{name} = {estimate_training.score_text(one)}" for name, one in found.scores.items()),
        "",
        "[limits]",
        f"ranks = {sorted({row.ranks for row in found.rows})}",
        *(f"{name} = {size}" for name, size in _limits(found.rows).items()),
        "",
        "[scored]",
    ]
    counts = Counter((row.device, row.dtype) for row in found.rows)
    for device in sorted({row.device for row in found.rows}):
        dtypes = [dtype for dtype in RATES.least if counts[device, dtype] >= FEWEST]
        if dtypes:
            lines.append(f"{device} = {dtypes}".replace("'", '"'))
    return "\n".join(lines) + "\n"


def _limits(some: Sequence[Row]) -> dict[str, int]:
    batches = [row.batch for row in some if row.kind != "first token"]
    tokens = [row.tokens for row in some]
    return {
        "least_batch": min(batches),
        "most_batch": max(batches),
        "most_context": max(tokens),
    }


if __name__ == "__main__":
    today = datetime.now(UTC).date().isoformat()
    FACTS.write_text(facts(outcome(), today), encoding="utf-8")
    of_training = estimate_training.facts(estimate_training.outcome(), today)
    estimate_training.FACTS.write_text(of_training, encoding="utf-8")
    for written in (FACTS, estimate_training.FACTS):
        sys.stdout.write(f"{written.relative_to(measured.ROOT)}\n")
