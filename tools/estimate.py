"""Fits the calibrated estimate of time, and scores it on what it was not fitted to.

    python tools/estimate.py

The rows are those of ``tests/data/serving_latency.tsv``: what NVIDIA published for TensorRT-LLM. Of
a setting that was measured with several versions the newest counts. It writes
``facts/estimate.toml``, ``facts/estimate_training.toml`` (``tools/estimate_training.py``) and
``docs/estimate.md``. Needs numpy.
"""

# ruff: noqa: E501  # paragraphs of the page, as long as those of other pages

from __future__ import annotations

import re
import sys
from collections import Counter
from datetime import UTC, datetime
from functools import cache
from math import ceil
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
import estimate_training
import measured
from calibrate import Rates, ratios, score

from weighbridge.answers.estimating import is_plain, prompt_work, setting_of, step_work
from weighbridge.costs.estimates import PassWork, Score, rate_name, terms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from weighbridge.answers.serve import Serving

FACTS = measured.ROOT / "src" / "weighbridge" / "data" / "facts" / "estimate.toml"
PAGE = measured.ROOT / "docs" / "estimate.md"
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
        "layers": (15e-6, "seconds of a layer, besides"),
        "passes": (2e-3, "seconds of a pass, besides"),
        "sequences": (5e-6, "seconds of a sequence in a pass, besides"),
        "sums": (12e-6, "seconds of a sum over links, besides"),
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
    """Return a pass of a server at full load: a step of the batch, and prompts of its successors."""
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
        "# The calibrated estimate of time: written by tools/estimate.py. docs/estimate.md explains it.",
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


def page(found: Outcome) -> str:
    """Return the page as Markdown."""
    fit = score(ratios(found.rows, np.array(list(found.rates.values()))))
    scores = {"nothing": fit, **found.scores}
    lines = [
        (name, str(one.rows), f"{one.median:.1%}", f"{one.p90:.1%}") for name, one in scores.items()
    ]
    head = ("left out of the fit", "rows", "median", "p90")
    shares = [(f"{1 / found.rates[name]:.2f}", text) for name, (_, text) in RATES.least.items()]
    counts = [(f"{found.rates[name]:.3g}", text) for name, (_, text) in RATES.counts.items()]
    parts = [_INTRO.format(rows=len(found.rows)), measured.markdown(head, lines), _MEANING]
    parts += [measured.markdown(("rate", "what it is"), [*shares, *counts]), _LIMITS]
    for name in ("model", "device", "generation"):
        parts += [f"## By {name} left out\n", _fold_table(name, found.folds[name])]
    parts += ["## By kind of measurement\n", _kinds(found), _OTHERS, _others_table(found)]
    parts.append(estimate_training.section(estimate_training.outcome()))
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


_INTRO = """# The estimate of time

`weighbridge serve` prints a *bound* on time, which nothing beats, and for services like those that were measured an *estimate* beside it.
The estimate is fitted to {rows} measurements that NVIDIA published for dense models on TensorRT-LLM. It is scored on what a fit did not
see: each model, each device and each generation of devices is left out in turn, the rates are fitted to the rest, and the rows that were
left out are estimated. Numbers are how far the estimate is off, as a part of what was measured. All numbers on this page are computed by
`python tools/estimate.py`, and a test holds them.
"""

_MEANING = """H100 and H200, or B200 and GB200, are near siblings, so leaving out a generation says more than leaving out a device. The two dtypes
of 16 bits were measured on A100 alone, and those of 4 bits on Blackwell alone: without them, a fit keeps the rate where it started.

## What is fitted

A pass takes the sum of these terms. The first are shares of what a device can do at most; no share may exceed 1.
"""

_LIMITS = """A rate that rows do not determine stays near the value where the fit starts, which `tools/estimate.py` lists. A server at full load is
taken to hold as many sequences as fit, and at most 2,048, which is TensorRT-LLM's default; each of its passes has a token of each sequence,
and prompts of those that follow.

There is no estimate for what was not scored on 10 rows at least: other devices, or other dtypes on them; models with experts, latent attention or states; fewer
sequences in a step than were measured; pipelines; longer contexts.
"""

_OTHERS = """## Other engines

What other sources measured with other engines, and few sequences: rates are those above, and nothing is fitted to these rows. Time is that of
a step, in which prompts of other sequences are computed too. Engines that compute prompts apart from steps are faster than that.
"""


def _fold_table(name: str, fold: Sequence[tuple[Row, float]]) -> str:
    groups: dict[str, list[float]] = {}
    for row, ratio in fold:
        groups.setdefault(FOLDS[name](row), []).append(ratio)
    return measured.markdown(_HEAD, [_group(group, some) for group, some in groups.items()])


_HEAD = ("", "rows", "median off", "p90", "estimate as a part of what was measured")


def _group(name: str, some: Sequence[float]) -> tuple[str, ...]:
    one = score(some)
    spread = f"{min(some):.2f} to {max(some):.2f}, median {median(some):.2f}"
    return (name, str(one.rows), f"{one.median:.1%}", f"{one.p90:.1%}", spread)


def _kinds(found: Outcome) -> str:
    lines = []
    for kind in sorted({row.kind for row in found.rows}):
        some = [ratio for row, ratio in found.folds["model"] if row.kind == kind]
        lines.append(_group(kind, some))
    return measured.markdown(_HEAD, lines)


def _others_table(found: Outcome) -> str:
    rates = np.array(list(found.rates.values()))
    lines = []
    for name, work, seconds in other_engines():
        estimate = float(np.dot(work, rates))
        lines.append((name, f"{estimate:.4f}", f"{seconds:.4f}", f"{estimate / seconds:.2f}"))
    return measured.markdown(("setting", "estimate, s", "measured, s", "ratio"), lines)


if __name__ == "__main__":
    today = datetime.now(UTC).date().isoformat()
    FACTS.write_text(facts(outcome(), today), encoding="utf-8")
    of_training = estimate_training.facts(estimate_training.outcome(), today)
    estimate_training.FACTS.write_text(of_training, encoding="utf-8")
    PAGE.write_text(page(outcome()), encoding="utf-8")
    for written in (FACTS, estimate_training.FACTS, PAGE):
        sys.stdout.write(f"{written.relative_to(measured.ROOT)}\n")
