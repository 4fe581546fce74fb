"""Plans for a cluster as tables: the fastest, the Pareto front, and why the others lose."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weighbridge import data, units
from weighbridge.answers.plan import options_of
from weighbridge.render.document import Aside, Document, Notes, Title, Together
from weighbridge.render.table import Table
from weighbridge.render.words import words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from weighbridge.answers.plan import PlanSearch, Tried
    from weighbridge.render.document import Block

_MOST_SHOWN = 8


def plan_document(plans: PlanSearch, lang: str) -> Document:
    """Return the plans that no other beats, the next ones, and why the others lose."""
    texts = {**words(lang), **data.read_toml(f"words/fitting.{lang}.toml")}
    blocks: list[Block] = [Title(_plan_heading(plans, texts), wraps=True)]
    if plans.fitting:
        title = Notes((texts["front"],))
        blocks.append(Together((title, _table(plans.pareto[:_MOST_SHOWN], texts))))
        first = f"weighbridge train {_quoted(plans)} {options_of(plans.best.setting)}"
        blocks.append(Notes((texts["best"].format(command=first),)))
    blocks.append(Notes(tuple(_losers(plans, texts))))
    notes = [texts["counted"], Aside(texts["evidence"].format(**plans.found.evidence))]
    blocks.append(Notes(tuple(notes)))
    return Document(tuple(blocks), lang)


def _quoted(plans: PlanSearch) -> str:
    """Return the options that all plans have in common."""
    first, devices = plans.first, plans.devices
    model = plans.found.weighing.model.where
    on = f"{devices.number}x{devices.device.name}"
    shared = f"{model} --on {on} --batch {first.batch} --seq {first.sequence}"
    if (first.optimizer, first.precision) != ("adamw", "master"):
        shared += f" --optimizer {first.optimizer} --precision {first.precision}"
    return shared


def _plan_heading(plans: PlanSearch, texts: Mapping[str, str]) -> str:
    first, devices = plans.first, plans.devices
    parts = (
        texts["on"].format(number=devices.number, device=devices.device.name),
        texts["batch"].format(size=units.count(first.batch)),
        texts["sequence"].format(size=units.count(first.sequence)),
        f"{first.optimizer}/{first.precision}",
        texts["tried"].format(
            tried=units.count(len(plans.tried)), fitting=units.count(len(plans.fitting))
        ),
    )
    return texts["heading"].format(
        model=plans.found.weighing.model.where,
        class_name=plans.found.class_name,
        setting=texts["comma"].join(parts),
    )


def _table(shown: Sequence[Tried], texts: Mapping[str, str]) -> Table:
    """Return a row for each plan: how it divides the model, its time and its memory."""
    rows = []
    for tried in shown:
        setting, ways = tried.setting, tried.setting.plan
        rows.append(
            (
                *map(str, (ways.tensor, ways.pipeline, ways.context, ways.expert, ways.data)),
                str(ways.zero),
                str(setting.micro_batch),
                texts[f"again_{setting.checkpointing}"],
                f"{units.measured(tried.seconds)} s",
                units.size(tried.peak_bytes),
            )
        )
    header = ("tp", "pp", "cp", "ep", "dp", "ZeRO", *(texts[name] for name in _NAMED))
    return Table(header, tuple(rows), ">>>>>>><>>", 0)


_NAMED = ("micro", "again", "at_least_short", "peak")


def _losers(plans: PlanSearch, texts: Mapping[str, str]) -> Iterator[str]:
    """Yield why plans lose: those that fit, by their time, and those that do not, by memory."""
    front = set(map(id, plans.pareto))
    slower = [tried for tried in plans.fitting if id(tried) not in front]
    for tried in slower[:_FEW]:
        yield texts["slower"].format(
            options=options_of(tried.setting),
            seconds=units.measured(tried.seconds),
            more=units.percent(tried.seconds / plans.best.seconds - 1),
            peak=units.size(tried.peak_bytes),
        )
    for tried in plans.nearest[:_FEW]:
        yield texts["over"].format(
            options=options_of(tried.setting),
            rank=tried.rank,
            moment=texts[f"at_{tried.moment}"],
            over=units.size(tried.over_bytes),
        )
    others = len(plans.tried) - len(plans.pareto) - min(_FEW, len(slower))
    others -= min(_FEW, len(plans.nearest))
    if others > 0:
        yield texts["others"].format(number=units.count(others))


_FEW = 3
