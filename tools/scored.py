"""Writes what `bench/scoreboard.py` left in ``docs/scoreboard.json``, for the docs.

An answer is right if it is the truth that ``bench/scoreboard.toml`` names for its counter. One that
is wrong is held against the other truths, and against what `costs-compared.json` has of FLOPs.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from page_words import words_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

PAGE = "scoreboard"
ROOT = Path(__file__).parents[1]
FILE = ROOT / "docs" / "scoreboard.json"
RUNS = ROOT / "docs" / "costs-compared.json"
LISTED = ROOT / "bench" / "scoreboard.toml"
FLOAT32_BYTES = 4
OTHER_TRUTHS = {
    "by every name": "tied weights by each of their names",
    "trained": "trained alone",
    "saved": "with buffers",
    "base": "the base class",
}
FLOPS = {
    "FlopCounterMode": ("FlopCounterMode eager", "FlopCounterMode sdpa"),
    "fvcore": ("fvcore eager", "fvcore sdpa"),
    "calflops": ("calflops eager", "calflops sdpa"),
    "ptflops": ("ptflops eager", "ptflops sdpa"),
    "llm-analysis": ("llm-analysis",),
}
FLOPS_TRUTH = ("FlopCounterMode with a rule eager", "FlopCounterMode eager")
NEAR = 0.01
VERDICTS = ("right", "within 1%", "further off", "refused", "worst")
NOTHING = "–"


class Score(NamedTuple):
    """One answer beside the truth; ``counted`` is None for one that was refused."""

    model: dict[str, Any]
    counted: float | None
    exact: int
    seconds: float | None
    mib: float | None
    refused: str

    @property
    def right(self) -> bool:
        """Whether the answer is the truth, to the last digit."""
        return self.counted == self.exact

    @property
    def off(self) -> float:
        """How far a wrong answer is off, as a part of the truth."""
        return 0.0 if self.counted is None else self.counted / self.exact - 1

    @property
    def reason(self) -> str:
        """What a wrong answer counted: the name of the other truth that it is, if it is one."""
        for key, words in OTHER_TRUTHS.items():
            if self.counted == self.model["truth"][key]:
                return words
        return "something else"


@cache
def figures() -> dict[str, Any]:
    """Return all answers, as the script wrote them."""
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


@cache
def _list() -> dict[str, Any]:
    return tomllib.loads(LISTED.read_text(encoding="utf-8"))


def listed() -> dict[str, Any]:
    """Return the counters that are listed, by name."""
    found: dict[str, Any] = _list()["counters"]
    return found


def basket_listed() -> dict[str, list[str]]:
    """Return the names of the basket's models, by kind."""
    found: dict[str, list[str]] = _list()["models"]
    return found


@cache
def runs() -> list[dict[str, Any]]:
    """Return the runs of which `bench/costs.py` counted the FLOPs."""
    found: list[dict[str, Any]] = json.loads(RUNS.read_text(encoding="utf-8"))["models"]
    return found


def scores(name: str) -> list[Score]:
    """Return a counter's answers, in the order of the basket."""
    counts = listed()[name]["counts"]
    answers = figures()["counters"][name]["answers"]
    found = []
    for model in figures()["models"]:
        answer = answers[model["model"]]
        known = (answer.get(key) for key in ("seconds", "mib"))
        refused = answer.get("refused", "")
        found.append(
            Score(model, answer.get("counted"), model["truth"][counts], *known, refused=refused)
        )
    return found


# What the page says


SIZE = "{models} models of {types} classes: {kinds}. The truth is by {base}."
MEASURED = "Measured with {cores} cores, {rest}."


def size(lang: str) -> str:
    """Write how large the basket is, and what made the truth."""
    say = words_of(PAGE, lang)
    models = figures()["models"]
    kinds = Counter(model["kind"] for model in models)
    said = _counted(kinds, say)
    types = len({model["truth"]["class"] for model in models})
    base = say(" and ").join(f"{name} {number}" for name, number in figures()["base"].items())
    lines = [say(SIZE).format(models=len(models), types=types, kinds=said, base=base)]
    for measured in sorted({counter["measured"] for counter in figures()["counters"].values()}):
        cores, _, rest = measured.partition(" cores, ")
        lines.append(say(MEASURED).format(cores=cores, rest=rest))
    return "\n".join(lines)


SENTENCES = {
    "en": "Models counted to the last digit on the [scoreboard](docs/scoreboard.md), of {models}: "
    "{told}.",
    "zh": "[计分板](docs/scoreboard.zh-CN.md)上 {models} 个模型，各工具算得一个不差的个数："
    "{told}。",
}


def in_short(lang: str) -> str:
    """Return a sentence with how many answers of each counter are right, for the README.

    Counters without any are left out: most of them say that they estimate.
    """
    right = {name: sum(score.right for score in scores(name)) for name in counters()}
    ranked = sorted(right.items(), key=lambda pair: -pair[1])
    told = ", ".join(f"{name} {count}" for name, count in ranked if count)
    return SENTENCES[lang].format(models=len(figures()["models"]), told=told)


def parameters(lang: str) -> str:
    """Write a row for each counter: right, wrong, refused, how far off, seconds and memory."""
    say, rows = words_of(PAGE, lang), []
    for name, counter in figures()["counters"].items():
        found = scores(name)
        wrong = [score for score in found if score.counted is not None and not score.right]
        near = sum(abs(score.off) < NEAR for score in wrong)
        worst = max((score.off for score in wrong), key=abs, default=None)
        rows.append(
            (
                f"{name} {counter['version']}",
                listed()[name]["given"][lang],
                *map(str, (sum(score.right for score in found), near, len(wrong) - near)),
                str(sum(score.counted is None for score in found)),
                NOTHING if worst is None else _percent(worst),
                _middle(score.seconds for score in found if score.counted is not None),
                f"{counter['import_seconds']:.1f}",
                _middle((score.mib for score in found if score.counted is not None), ",.0f"),
            )
        )
    header = (*VERDICTS, "seconds", "to import")
    return _table((*map(say, ("counter", "given", *header)), "MiB"), rows)


def claims(lang: str) -> str:
    """Write what each counter says that it counts, what its wrong answers are, and why."""
    say, lines = words_of(PAGE, lang), []
    for name in figures()["counters"]:
        about = listed()[name]
        wrong = [score for score in scores(name) if score.counted is not None and not score.right]
        reasons = dict(Counter(score.reason for score in wrong).most_common())
        line = say("- **{name}.** {claim}.").format(name=name, claim=about["claim"][lang])
        if reasons and about["counts"] != "base bytes":
            line += say(" Wrong answers: {reasons}.").format(reasons=_counted(reasons, say))
        if "why" in about:
            line += say(" {why}.").format(why=about["why"][lang])
        lines.append(line)
    return "\n".join(lines)


def _counted(counts: Mapping[str, int], say: Callable[[str], str]) -> str:
    """Return names with how often each occurs, in a line."""
    one = say("{name} {count}")
    return say(", ").join(one.format(name=say(name), count=count) for name, count in counts.items())


def refusals(lang: str) -> str:
    """Write what was refused, in the words that most models got, names left out."""
    header = ("counter", "models", "what it said")
    rows = []
    for name in figures()["counters"]:
        reasons = Counter(_kind(score.refused) for score in scores(name) if score.refused)
        rows += [(name, str(count), f"`{reason}`") for reason, count in reasons.most_common()]
    return _table(tuple(map(words_of(PAGE, lang), header)), rows)


def _kind(reason: str) -> str:
    """Return the first sentence of an error, without names, which differ from model to model.

    Example:
        >>> _kind("KeyError: 'bert'"), _kind("ValueError: BertForMaskedLM is unknown. Known: A, B")
        ('KeyError: …', 'ValueError: … is unknown')
    """
    without = re.sub(
        r"'[^' ]+'|\b\w+(LM|Model|Generation|Classification|CTC|Training)\b", "…", reason
    )
    return without.partition(". ")[0].replace("`", "'").replace("|", "/")


def models(names: Sequence[str], lang: str) -> str:
    """Write a row for each model: the truth, and how far each of some counters is off."""
    columns = {name: scores(name) for name in names}
    rows = []
    for index, model in enumerate(figures()["models"]):
        cells = (_cell(columns[name][index]) for name in names)
        rows.append((f"`{_short(model['model'])}`", f"{model['truth']['parameters']:,}", *cells))
    return _table((*map(words_of(PAGE, lang), ("model", "parameters")), *names), rows)


def counters() -> list[str]:
    """Return the names of all counters that the file has."""
    return list(figures()["counters"])


def flops(lang: str) -> str:
    """Write a row for each counter of FLOPs and attention, against torch's own counter.

    The truth is torch's FlopCounterMode with eager attention, given a rule for the product of
    experts that it lacks; so weighbridge is held against it, too.
    """
    rows = [("weighbridge", "", *_of_runs([(run["flops"], _flops_truth(run)) for run in runs()]))]
    for name, titles in FLOPS.items():
        for title in titles:
            pairs = [(run["tools"][title].get("flops"), _flops_truth(run)) for run in runs()]
            rows.append((name, title.removeprefix(name).strip(), *_of_runs(pairs)))
    header = ("counter", "attention", *VERDICTS)
    return _table(tuple(map(words_of(PAGE, lang), header)), rows)


def _of_runs(pairs: Sequence[tuple[int | None, int]]) -> tuple[str, ...]:
    offs = [counted / exact - 1 for counted, exact in pairs if counted is not None]
    right = sum(counted == exact for counted, exact in pairs)
    near = sum(abs(off) < NEAR for off in offs) - right
    worst = max(offs, key=abs)
    told = (right, near, len(offs) - right - near, len(pairs) - len(offs))
    return (*map(str, told), _percent(worst) if worst else NOTHING)


def _flops_truth(run: dict[str, Any]) -> int:
    counted = (run["tools"][title] for title in FLOPS_TRUTH if title in run["tools"])
    flops: int = next(counted)["flops"]
    return flops


def _cell(score: Score) -> str:
    if score.counted is None:
        return NOTHING
    return "0" if score.right else _percent(score.off)


def _percent(off: float) -> str:
    """Return a part as a percentage that is never 0.

    Example:
        >>> _percent(0.25), _percent(-0.00001), _percent(12), _percent(1e-9)
        ('+25.0%', '-0.001%', '+1200%', '+1e-07%')
    """
    percent = 100 * off
    if abs(percent) < 0.0005:
        return f"{percent:+.0e}%"
    digits = next((digits for digits in (0, 1, 2) if abs(percent) >= 10 ** (2 - digits)), 3)
    return f"{percent:+.{digits}f}%"


def _middle(values: Iterable[float | None], form: str = ".2f") -> str:
    known = [value for value in values if value is not None]
    return format(median(known), form) if known else NOTHING


def _short(name: str) -> str:
    return name.rpartition("/")[2]


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    whole = (header, (":--", *(["--:"] * (len(header) - 1))), *rows)
    return "\n".join("| " + " | ".join(row) + " |" for row in whole)
