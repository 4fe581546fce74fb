"""Fits the calibrated estimate of time, and scores it on what it was not fitted to.

    python tools/estimate.py

The rows are those of ``tests/data/serving_latency.tsv``: what NVIDIA published for TensorRT-LLM. Of
a setting that was measured with several versions the newest counts. It writes
``facts/estimate.toml`` and ``docs/estimate.md``. Needs numpy.
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
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
import measured

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
PULL = 0.15  # how much a rate that rows do not determine is held near its start
GENERATIONS = {
    "A100-80GB": "Ampere",
    "L40S": "Ada",
    "H100": "Hopper",
    "H200": "Hopper",
    "B200": "Blackwell",
    "GB200": "Blackwell",
    "RTXPRO6000-Server": "Blackwell, RTX",
}

LEAST = {
    "F16": (0.7, "of the peak of F16 and BF16"),
    "F8": (0.6, "of the peak of F8"),
    "F4": (0.45, "of the peak of F4"),
    "attention": (0.4, "of that peak by attention over a prompt"),
    "weights": (0.8, "of the bandwidth by reading weights"),
    "cache": (0.7, "of the bandwidth by reading the cache"),
    "links": (0.6, "of the links by sums of hidden states"),
}
"""Terms that are least times: the share of the peak where a fit starts, and what it is of."""
COUNTS = {
    "states": (8.0, "times that hidden states are read or written in a layer"),
    "layers": (15e-6, "seconds of a layer, besides"),
    "passes": (2e-3, "seconds of a pass, besides"),
    "sequences": (5e-6, "seconds of a sequence in a pass, besides"),
    "sums": (12e-6, "seconds of a sum over links, besides"),
}
"""Other terms: the rate where a fit starts, and what it is."""
NAMES = (*LEAST, *COUNTS)


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
    """Return the sum of the terms of some passes, in the order of `NAMES`."""
    total = dict.fromkeys(NAMES, 0.0)
    for times, work in parts:
        for name, value in terms(work, setting_of(serving)).items():
            total[name] += times * value
    return tuple(total.values())


# The fit


def starts() -> np.ndarray[Any, Any]:
    """Return the rates where a fit starts, as `rates_of` reads them."""
    shares = [np.log(1 / share - 1) for share, _ in LEAST.values()]
    return np.array([*shares, *(np.log(rate) for rate, _ in COUNTS.values())])


def rates_of(place: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the rates: of least times 1 and more, of counts more than 0."""
    rates: np.ndarray[Any, Any] = np.exp(place)
    rates[: len(LEAST)] += 1
    return rates


def fitted(some: Sequence[Row]) -> np.ndarray[Any, Any]:
    """Return the rates that fit some rows: Huber's loss of the logarithms, by Gauss and Newton."""
    table, measured_logs = np.array([row.terms for row in some]), _logs(some)
    start = place = starts()
    damping, cost = 1.0, _cost(start, table, measured_logs)
    for _ in range(100):
        rates = rates_of(place)
        predicted = table @ rates
        off = np.log(predicted) - measured_logs
        slopes = table * np.exp(place) / predicted[:, None]
        weights = 1 / np.maximum(np.abs(off), _NEAR)
        curve = slopes.T @ (weights[:, None] * slopes) + 2 * PULL * np.eye(len(place))
        down = slopes.T @ (weights * off) + 2 * PULL * (place - start)
        step = np.linalg.solve(curve + damping * np.diag(np.diag(curve)), -down)
        tried = place + np.clip(step, -1, 1)
        lower = _cost(tried, table, measured_logs)
        if lower >= cost:
            damping *= 4
            continue
        place, damping = tried, max(damping / 3, 1e-4)
        if cost - lower < _SETTLED:
            break
        cost = lower
    return rates_of(place)


_NEAR = 0.1  # logarithms that are off by less count quadratically
_SETTLED = 1e-9


def _cost(
    place: np.ndarray[Any, Any], table: np.ndarray[Any, Any], logs: np.ndarray[Any, Any]
) -> float:
    off = np.abs(np.log(table @ rates_of(place)) - logs)
    huber = np.where(off < _NEAR, off * off / (2 * _NEAR), off - _NEAR / 2)
    return float(huber.sum() + PULL * ((place - starts()) ** 2).sum())


def _logs(some: Sequence[Row]) -> np.ndarray[Any, Any]:
    return np.log([row.seconds for row in some])


def ratios(some: Sequence[Row], rates: np.ndarray[Any, Any]) -> list[float]:
    """Return the estimates of rows as parts of what was measured."""
    return [float(np.dot(row.terms, rates) / row.seconds) for row in some]


def left_out(some: Sequence[Row], of: Callable[[Row], str]) -> list[tuple[Row, float]]:
    """Return the ratio of each row by a fit without any row of its model, or device."""
    found: list[tuple[Row, float]] = []
    for name in sorted({of(row) for row in some}):
        rest = [row for row in some if of(row) != name]
        tested = [row for row in some if of(row) == name]
        found += zip(tested, ratios(tested, fitted(rest)), strict=True)
    return found


def score(some: Iterable[float]) -> Score:
    """Return how far ratios are off: the number, the median and the 90th percentile."""
    off = sorted(abs(ratio - 1) for ratio in some)
    return Score(len(off), median(off), off[min(len(off) - 1, int(0.9 * len(off)))])


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
    rates = {name: float(f"{rate:.3g}") for name, rate in zip(NAMES, fitted(some), strict=True)}
    return Outcome(some, rates, {name: left_out(some, of) for name, of in FOLDS.items()})


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
        *(f"{name} = {_score_text(one)}" for name, one in found.scores.items()),
        "",
        "[limits]",
        f"ranks = {sorted({row.ranks for row in found.rows})}",
        *(f"{name} = {size}" for name, size in _limits(found.rows).items()),
        "",
        "[scored]",
    ]
    counts = Counter((row.device, row.dtype) for row in found.rows)
    for device in sorted({row.device for row in found.rows}):
        dtypes = [dtype for dtype in LEAST if counts[device, dtype] >= FEWEST]
        if dtypes:
            lines.append(f"{device} = {dtypes}".replace("'", '"'))
    return "\n".join(lines) + "\n"


def _score_text(one: Score) -> str:
    return f"{{ rows = {one.rows}, median = {one.median:.3f}, p90 = {one.p90:.3f} }}"


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
    shares = [(f"{1 / found.rates[name]:.2f}", text) for name, (_, text) in LEAST.items()]
    counts = [(f"{found.rates[name]:.3g}", text) for name, (_, text) in COUNTS.items()]
    parts = [_INTRO.format(rows=len(found.rows)), measured.markdown(head, lines), _MEANING]
    parts += [measured.markdown(("rate", "what it is"), [*shares, *counts]), _LIMITS]
    for name in ("model", "device", "generation"):
        parts += [f"## By {name} left out\n", _fold_table(name, found.folds[name])]
    parts += ["## By kind of measurement\n", _kinds(found), _OTHERS, _others_table(found)]
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
sequences in a step than were measured; pipelines; longer contexts. Training is not estimated.
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
    PAGE.write_text(page(outcome()), encoding="utf-8")
    sys.stdout.write(f"{FACTS.relative_to(measured.ROOT)}\n{PAGE.relative_to(measured.ROOT)}\n")
