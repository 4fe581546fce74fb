"""The cost of a run as tables: its totals, and the figures of each group."""

from __future__ import annotations

from weighbridge import data, units
from weighbridge.costs.attribution import LAYER_INPUTS, OUTPUTS
from weighbridge.lean_typing import TYPE_CHECKING
from weighbridge.render.document import Aside, Definitions, Document, Notes, Title, Together
from weighbridge.render.table import Table
from weighbridge.render.words import label, words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from weighbridge.answers.cost import CostGroup, RunCost
    from weighbridge.render.document import Block

_OF_KINDS = {
    "forward": ("forward_matmul_flops", "forward_attention_flops", "moved_bytes"),
    "backward": ("backward_matmul_flops", "", ""),
    "recomputed": ("recomputed_flops", "", ""),
    "step": ("step_matmul_flops", "step_attention_flops", "step_moved_bytes"),
}
"""The figures of each kind of products: all FLOPs, those of attention, and the bytes moved."""
_BYTES_OF_KINDS = {"saved": "saved_for_backward_bytes", "checkpointed": "checkpointed_bytes"}
_NOT_SHOWN = "backward_moved_bytes"  # JSON and CSV have it
_MOST_COLUMNS = 6  # of figures: more do not fit into 80 columns

Row = tuple[str, str, str]


def document(cost: RunCost, lang: str, by: str, *, formula: bool = False) -> Document:
    """Return the totals of a run, with formulas if asked, and the figures of its groups."""
    texts = {**words(lang), **data.read_toml(f"words/cost.{lang}.toml")}
    title = Title(_run_heading(cost, texts), wraps=True)
    header = (texts["quantity"], texts["exact"], texts["short"])
    totals = Table(header, tuple(_totals(cost, texts)), "<>>")
    notes = [texts["counted"]]
    if cost.figures["checkpointed_bytes"] is not None and by != "operation":
        notes.append(texts["again"])
    notes.append(Aside(texts["evidence"].format(**cost.found.evidence)))
    table = _groups(cost.groups(by), by, texts, lang)
    formulas = _formulas(cost, texts, lang) if formula else ()
    return Document((Together((title, totals)), *formulas, table, Notes(tuple(notes))), lang)


def _formulas(cost: RunCost, texts: Mapping[str, str], lang: str) -> tuple[Block, ...]:
    """Return the totals in letters, and what each letter stands for."""
    from weighbridge.answers.cost_formula import CostFormulas  # noqa: PLC0415  # few ask for them

    found = CostFormulas(cost)
    items = [f"{texts[f'of_{name}']} = {text}" for name, text in found.texts.items()]
    legend = [
        texts["legend"].format(
            letter=letter, value=value, meaning=texts.get(f"letter_{meaning}", meaning)
        )
        for letter, value, meaning in found.legend(lang)
    ]
    where = Notes((f"{texts['where']} {texts['comma'].join(legend)}", texts["conditions"]))
    return Definitions(tuple(items)), where


def _run_heading(cost: RunCost, texts: Mapping[str, str]) -> str:
    run = cost.run
    settings = [texts["batch"].format(size=units.count(run.batch))]
    if run.sequence is not None and cost.found.uses("sequence"):
        settings.append(texts["sequence"].format(size=units.count(run.sequence)))
    if cost.found.uses("target"):
        settings.append(texts["target"].format(size=units.count(cost.names["target"])))
    if run.images is not None:
        settings.append(texts["images"].format(size=units.count(run.images)))
    if run.patches is not None:
        settings.append(texts["patches"].format(size=units.count(run.patches)))
    if run.past is not None:
        settings.append(texts["past"].format(size=units.count(run.past)))
    settings += [run.dtype, run.profile]
    if run.training:
        settings.append(texts["training"])
    return texts["heading"].format(
        model=cost.found.weighing.model.where,
        class_name=cost.found.class_name,
        run=texts["comma"].join(settings),
    )


def _totals(cost: RunCost, texts: Mapping[str, str]) -> Iterator[Row]:
    """Yield the quantities that the run concerns, exactly and in short."""
    figures = cost.figures
    for kind in _OF_KINDS:
        yield from _of_kind(cost, kind, texts)
    for kind, name in _BYTES_OF_KINDS.items():
        yield from _bytes(texts[kind], figures[name])
    of_cache = "cache_step"
    if cost.run.past is None:
        of_cache = "cache_sequence"
    yield from _bytes(texts[of_cache], figures["cache_bytes"])
    yield from _bytes(texts["weights"], cost.weight_bytes)


def _of_kind(cost: RunCost, kind: str, texts: Mapping[str, str]) -> Iterator[Row]:
    """Yield the FLOPs of a kind of products, their parts, and the bytes that they move."""
    all_flops, of_attention, moved = (cost.figures.get(name) for name in _OF_KINDS[kind])
    if all_flops is None:
        return
    yield _flops(texts[kind], all_flops)
    if of_attention is None or not moved:
        return
    yield _flops(texts["of_attention"], of_attention)
    yield _flops(texts["of_others"], all_flops - of_attention)
    if cost.found.uses("sequence") and not cost.found.uses("target"):
        tokens = cost.run.batch
        if kind == "forward":
            tokens *= cost.run.sequence or 1
        yield _flops(texts["per_token"], round(all_flops / tokens))
    yield from _bytes(texts["moved"], moved)
    yield texts["intensity"], units.fixed(all_flops / moved, 2), ""


def _flops(name: str, flops: int) -> Row:
    return name, units.count(flops), units.short(flops)


def _bytes(name: str, size: int | None) -> Iterator[Row]:
    if size is not None:
        yield name, units.count(size), units.size(size)


def _groups(groups: list[CostGroup], by: str, texts: Mapping[str, str], lang: str) -> Table:
    """Return a row for each group, with figures of three digits, and the share of its FLOPs."""
    names = [name for name in groups[0].figures if name != _NOT_SHOWN]
    if len(names) > _MOST_COLUMNS:
        names = [name for name in names if not name.endswith("moved_bytes")]
    counted = next(name for name in names if name.endswith("flops"))
    whole = sum(group.figures[counted] for group in groups)
    rows, shares = [], []
    for group in groups:
        flops = group.figures[counted]
        cells = [_figure_cell(name, group.figures[name]) for name in names]
        title = _group_title(group.name, by, texts, lang)
        share = units.share(flops, flops and whole)
        rows.append((title, *cells, share))
        shares.append(units.fraction(flops, whole))
    header = (texts[by], *(texts[name] for name in names), texts["share"])
    align = "<" + ">" * (len(header) - 1)
    return Table(header, tuple(rows), align, 0, tuple(shares), len(header) - 1)


def _group_title(name: str, by: str, texts: Mapping[str, str], lang: str) -> str:
    if by == "operation":
        kind, _, shape = name.partition(" ")
        return f"{texts[_OF_KINDS[kind][0]]} {shape.replace('x', '×')}"
    if name in (OUTPUTS, LAYER_INPUTS):
        return texts[name]
    return label(name, lang)


def _figure_cell(name: str, value: int) -> str:
    if not value:
        return "-"
    if name.endswith("bytes"):
        return units.size(value)
    if name == "products":
        return units.count(value)
    return units.short(value)
