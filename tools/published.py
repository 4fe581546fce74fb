"""Reconciles the totals that catalogues publish, listed in `tests/data/published.tsv`.

``python tools/published.py`` prints each row that is not a plain total, the share of rows that are
reconciled, and the rows that are not, with the reasons. `tests/data/published.toml` says which
model a row is, and by which conventions it is counted.
"""

from __future__ import annotations

import csv
import tomllib
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import weighbridge as wb
from weighbridge.answers.reconcile import verdict
from weighbridge.models.catalogue import full_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from weighbridge.answers.reconcile import Reconciled

DATA = Path(__file__).parents[1] / "tests" / "data"


class PublishedTotal(NamedTuple):
    """A published total, with the model that it is said to be of, and its source.

    ``key`` is the model, followed by the number if the model has several rows.
    """

    key: str
    model: str
    number: str
    unit: str
    source: str


class Outcome(NamedTuple):
    """A published total, the reconciliation of its model, and the conventions that it should need.

    ``reconciled`` is None if the model cannot be weighed.
    """

    total: PublishedTotal
    reconciled: Reconciled | None
    expected: tuple[str, ...]
    because: str

    @property
    def conventions(self) -> tuple[str, ...] | None:
        """The conventions of the first way; None if no way gives the number, except by chance."""
        if self.reconciled is None or not self.reconciled.matches:
            return None
        first = self.reconciled.matches[0]
        if first.perhaps:
            return None
        return tuple(step.convention for step in first.steps)

    @property
    def is_reconciled(self) -> bool:
        """Whether the first way is the one that the source shows."""
        return self.conventions == self.expected and not self.because


def totals() -> list[PublishedTotal]:
    """Return all rows of the table."""
    with (DATA / "published.tsv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    times = Counter(row["model"] for row in rows)
    listed = []
    for row in rows:
        key = row["model"]
        if times[key] > 1:
            key = f"{key} {row['claimed']}"
        listed.append(PublishedTotal(key, row["model"], row["claimed"], row["unit"], row["source"]))
    return listed


def facts() -> dict[str, Any]:
    """Return what is known about the rows."""
    return tomllib.loads((DATA / "published.toml").read_text(encoding="utf-8"))


def outcomes() -> Iterator[Outcome]:
    """Reconcile every row whose model can be weighed."""
    known = facts()
    sizes = {row: entry for entry in known["sizes"] for row in entry["rows"]}
    reasons = {row: entry for entry in known["reason"] for row in entry["rows"]}
    unweighed = {row: entry["because"] for entry in known["unweighed"] for row in entry["rows"]}
    catalogue = full_names()
    for total in totals():
        if total.key in unweighed:
            yield Outcome(total, None, (), unweighed[total.key])
            continue
        model = known["names"].get(total.model, total.model)
        fields: Mapping[str, Any] = {}
        if total.model in sizes:
            model, fields = sizes[total.model]["model"], sizes[total.model]["fields"]
        elif model.lower() not in catalogue and model not in wb.families():
            raise SystemExit(f"{total.key}: the catalogue has no {model}")
        expected = tuple(reasons.get(total.key, {}).get("conventions", ()))
        because = known["unreconciled"].get(total.key, "")
        yield Outcome(total, wb.reconcile(model, total.number, fields=fields), expected, because)


def share(results: list[Outcome]) -> tuple[int, int]:
    """Return the number of rows that are reconciled, and of those that can be weighed."""
    weighed = [outcome for outcome in results if outcome.reconciled]
    return sum(outcome.is_reconciled for outcome in weighed), len(weighed)


def in_words(lang: str = "en") -> None:
    """Write the share in one sentence, for the docs."""
    import cog  # noqa: PLC0415

    results = list(outcomes())
    reconciled, weighed = share(results)
    cog.outl(
        _SHARE[lang].format(
            rows=len(results), weighed=weighed, reconciled=reconciled, share=reconciled / weighed
        )
    )


_SHARE = {
    "en": (
        "Of {rows} totals that keras-hub, llmfit and model cards publish "
        "(`tests/data/published.tsv`), {weighed} are of models that weighbridge can weigh.\n"
        "`reconcile` explains {reconciled} of them ({share:.0%}), each in a way that the code or "
        "the files of its publisher show. `python tools/published.py` lists them,\n"
        "and says why the others are not explained."
    ),
    "zh": (
        "keras-hub、llmfit 和各模型卡片发布的 {rows} 个总参数量（`tests/data/published.tsv`）中，"
        "有 {weighed} 个属于 weighbridge 能计量的模型；\n"
        "`reconcile` 能解释其中 {reconciled} 个（{share:.0%}），"
        "口径均可在发布方的代码或文件中查到。\n"
        "`python tools/published.py` 逐一列出，并说明其余各项为何未能解释。"
    ),
}


def main() -> None:
    """Print the rows that need a convention, the share, and the rows that are not reconciled."""
    results = list(outcomes())
    for outcome in results:
        if outcome.reconciled and outcome.conventions:
            print(f"{outcome.total.key}: {outcome.total.number}: {verdict(outcome.reconciled)}")
    reconciled, weighed = share(results)
    print(f"\n{reconciled} of {weighed} rows that can be weighed: {reconciled / weighed:.1%}")
    print("\nNot reconciled:")
    for outcome in results:
        if outcome.reconciled and not outcome.is_reconciled:
            because = outcome.because or f"expected {outcome.expected}"
            print(f"  {outcome.total.key} {outcome.total.number}: {because}")
    print(f"\nNot weighed: {len(results) - weighed} rows")
    for because, rows in Counter(o.because for o in results if not o.reconciled).items():
        print(f"  {rows}: {because}")


if __name__ == "__main__":
    main()
