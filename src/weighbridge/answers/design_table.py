"""Designs as tables: their sizes, and beside them what published rules say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weighbridge import data, units
from weighbridge.render.document import Aside, Document, Notes, Title, Together
from weighbridge.render.table import Table
from weighbridge.render.words import words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from weighbridge.answers.design import Design, DesignSearch

_ABSENT = "-"
_SMALL = 10**9  # parameters, below which MobileLLM's advice is shown


def design_document(search: DesignSearch, lang: str) -> Document:
    """Return the designs: sizes, rules, what was searched, and the sources of the rules."""
    texts = {**words(lang), **data.read_toml(f"words/design.{lang}.toml")}
    heading = texts["heading"].format(
        class_name=search.weighing.class_name,
        like=search.weighing.model.where,
        budget=units.count(search.budget),
    )
    blocks = [Together((Title(heading), _table_of_sizes(search, texts)))] if search.designs else []
    if search.designs:
        blocks.append(Together((_table_of_rules(search, texts),)))
    notes = Notes(tuple(_search_notes(search, texts)))
    sources = Notes(tuple(_sources(search, texts, lang)))
    return Document((*blocks, notes, sources), lang)


def _table_of_sizes(search: DesignSearch, texts: Mapping[str, str]) -> Table:
    header = ("#", "L", "H", "A", "A_kv", "D", "F", texts["parameters"], texts["distance"])
    rows = []
    for at, each in enumerate(search.designs, 1):
        sizes = each.layers, each.width, each.heads, each.kv_heads, each.head_size, each.size
        off = units.signed(each.parameters - search.budget)
        rows.append((str(at), *map(_size_cell, sizes), units.count(each.parameters), off))
    return Table(header, tuple(rows), ">" * len(header))


def _size_cell(size: int) -> str:
    return units.count(size) if size else _ABSENT


def _table_of_rules(search: DesignSearch, texts: Mapping[str, str]) -> Table:
    names = ["ratio", "aspect", "threshold", "fitted_depth", "alignment"]
    names += ["tokens", "bytes", "kv_bytes_per_token"]
    if search.limits.devices is not None:
        names.append("largest_batch")
    header = ("#", *(texts[name] for name in names))
    rows = []
    for at, each in enumerate(search.designs, 1):
        rows.append((str(at), *_rule_cells(search, each, names)))
    return Table(header, tuple(rows), ">" * len(header))


def _rule_cells(search: DesignSearch, each: Design, names: list[str]) -> Iterator[str]:
    columns = search.columns(each)
    for name in names:
        value = columns[name]
        if value is None:
            yield _ABSENT
        elif name == "bytes":
            yield units.size(value)
        elif name == "tokens":
            yield units.short(value)
        else:
            yield f"{value:,}"


def _search_notes(search: DesignSearch, texts: Mapping[str, str]) -> Iterator[str]:
    space, roles = search.space, search.roles
    if not search.designs:
        yield texts["none"].format(budget=units.count(search.budget))
    chosen = {"L": roles.layers, "H": roles.width, "A": roles.heads, "A_kv": roles.kv_heads}
    chosen |= {"D": roles.head_size, "F": roles.free}
    legend = texts["and"].join(f"{letter} = {name}" for letter, name in chosen.items() if name)
    yield Aside(f"{texts['where']} {legend}")
    yield texts["number"].format(
        number=units.count(search.number),
        least=units.count(space.least),
        most=units.count(space.most),
        field=roles.free,
    )
    yield texts["space"].format(
        layers=_range(space.layers),
        head_sizes=texts["and"].join(map(str, space.head_sizes)),
        multiple=units.count(space.multiple_of),
        ratios=f"{space.ratios[0]:g} … {space.ratios[1]:g}",
    )
    if search.limits.bytes is not None:
        size, tokens = units.size(search.limits.bytes), units.count(search.limits.context)
        yield texts["fits"].format(size=size, tokens=tokens)
    if search.limits.devices is not None:
        tokens = units.count(search.limits.context)
        yield texts["served"].format(devices=search.limits.devices, tokens=tokens)
    if search.designs:
        yield texts[f"by_{search.order}"]
        yield Aside(texts["weighed"])


def _range(sizes: tuple[int, ...]) -> str:
    if len(sizes) == 1:
        return str(sizes[0])
    return f"{sizes[0]} … {sizes[-1]}"


def _sources(search: DesignSearch, texts: Mapping[str, str], lang: str) -> Iterator[str]:
    """Yield each rule with its source."""
    if not search.designs:
        return
    yield texts["rules"]
    for name, rule in data.read_toml("facts/design_rules.toml").items():
        if name == "deep_and_thin" and search.budget >= _SMALL:
            continue
        parts = {"name": texts.get(name, ""), "rule": rule[lang], "source": rule["source"]}
        yield texts["rule" if parts["name"] else "advice"].format(**parts)
