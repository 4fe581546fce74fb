"""Writes the figures that `bench/costs.py` left in ``docs/costs-compared.json``, for the docs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cog
from page_words import words_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

FILE = Path(__file__).parents[1] / "docs" / "costs-compared.json"
PAGE = "costs-compared"
PARTS = {
    "projections": "projections of attention",
    "attention": "products in attention",
    "ffn": "feed-forward",
    "head.lm": "head",
    "embeddings": "embeddings",
}
NOTHING = "–"


def figures() -> dict[str, Any]:
    """Return all figures, as the script wrote them."""
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def off(flops: int, exact: int) -> str:
    """Return a difference in percent, with its sign; 0 only if there is none.

    Example:
        >>> off(1_170, 1_000), off(999, 1_000), off(1_000, 1_000), off(100_001, 100_000)
        ('+17.0%', '-0.10%', '0', '+0.001%')
    """
    if flops == exact:
        return "0"
    percent = 100 * (flops / exact - 1)
    digits = next((digits for digits in (1, 2, 3) if abs(percent) >= 10 ** (1 - digits)), 4)
    return f"{percent:+.{digits}f}%"


def tools(attention: str, names: Sequence[str], lang: str) -> None:
    """Write a row for each model: how far each tool is off, with this attention."""
    say = words_of(PAGE, lang)
    rows = []
    for model in figures()["models"]:
        cells = [_of_tool(model, f"{name} {attention}".strip()) for name in names]
        rows.append((_name(model), f"{model['tokens']:,}", f"{model['flops']:,}", *cells))
    _table((say("model"), say("tokens"), "FLOPs", *names), rows)


def formulas(lang: str) -> None:
    """Write a row for each model: how far each formula and llm-analysis are off."""
    models = figures()["models"]
    names = list(models[0]["formulas"])
    rows = []
    for model in models:
        cells = []
        for name in names:
            parts = model["formulas"][name]
            cells.append(off(sum(parts.values()), model["flops"]) if parts else NOTHING)
        rows.append((_name(model), *cells, _of_tool(model, "llm-analysis")))
    _table((words_of(PAGE, lang)("model"), *names, "llm-analysis"), rows)


def parts(name: str, lang: str) -> None:
    """Write a row for each formula: how far it is off in each part of a model, in FLOPs."""
    say = words_of(PAGE, lang)
    (model,) = (model for model in figures()["models"] if model["model"] == name)
    exact = model["parts"]
    counts = {formula: of for formula, of in model["formulas"].items() if formula != "2·N"}
    rows = [("weighbridge", *(_trillions(exact.get(part, 0)) for part in PARTS))]
    for formula, counted in counts.items():
        cells = (_trillions(counted.get(part, 0) - exact.get(part, 0), "+") for part in PARTS)
        rows.append((formula, *cells))
    analysed = model["tools"]["llm-analysis"]["operators"]
    together = exact["projections"] + exact["attention"]
    rows.append(
        (
            "llm-analysis",
            _trillions(analysed["matmul of attention"] - together, "+"),
            say("in the one before"),
            _trillions(analysed["matmul of feed-forward"] - exact["ffn"], "+"),
            _trillions(analysed["matmul of head"] - exact["head.lm"], "+"),
            "0",
        )
    )
    _table(("", *map(say, PARTS.values())), rows)


def on_the_cpu(lang: str) -> None:
    """Write how small models count on the CPU and on the meta device."""
    names = ("model", "tool", "attention", "on the CPU", "on the meta device")
    rows = []
    for check in figures()["checks"]:
        if "with a rule" in check["tool"]:  # for experts, which these models do not have
            continue
        cells = (_of_check(check[device], check["exact"]) for device in ("cpu", "meta"))
        name, _, attention = check["tool"].rpartition(" ")
        rows.append((check["family"], name, attention, *cells))
    _table(tuple(map(words_of(PAGE, lang), names)), rows)


def versions() -> None:
    """Write the versions of the tools."""
    cog.outl(", ".join(f"{name} {number}" for name, number in figures()["versions"].items()) + ".")


def _name(model: Mapping[str, Any]) -> str:
    return f"`{model['model'].rpartition('/')[2]}`"


def _of_tool(model: Mapping[str, Any], tool: str) -> str:
    return _of_check(model["tools"].get(tool, {}), model["flops"])


def _of_check(counted: Mapping[str, Any], exact: int) -> str:
    if "flops" in counted:
        return off(counted["flops"], exact)
    return NOTHING


def _trillions(flops: int, sign: str = "") -> str:
    return f"{flops / 1e12:{sign}.3f} T" if flops else "0"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    for row in (header, (":--", *(["--:"] * (len(header) - 1))), *rows):
        cog.outl("| " + " | ".join(row) + " |")
