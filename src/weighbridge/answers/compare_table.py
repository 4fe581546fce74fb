"""A comparison as tables: components, figures, fields, and components by fields."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weighbridge import data, units
from weighbridge.errors import shorten
from weighbridge.ledger.symbols import letters_of
from weighbridge.models.find import thawed
from weighbridge.render.document import Aside, Document, Notes, Title, Together, WideTable
from weighbridge.render.messages import in_language
from weighbridge.render.table import COLUMNS, Table, line_width, widths_of
from weighbridge.render.words import label, words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from weighbridge.answers.bridge import Bridge
    from weighbridge.answers.compare import SideBySide
    from weighbridge.ledger.field_shares import FieldShares, Player
    from weighbridge.render.document import Block

_TWO = 2
_NARROW = 14  # columns of a screen in which names can be wrapped and still be read
_MOST_NAMES = 12  # fields that a sentence lists
_LONGEST_VALUE = 24  # characters
_ABSENT = "-"


def comparison_document(comparison: SideBySide, lang: str) -> Document:
    """Return a comparison: what is compared, its components, figures and fields, and notes."""
    texts = {**words(lang), **data.read_toml(f"words/compare.{lang}.toml")}
    blocks: list[Block] = [Notes(tuple(_subjects(comparison)))]
    components = _components(comparison, texts, lang)
    figures = _figures(comparison, texts)
    blocks += [_on_a_screen(components)]
    if figures.rows:
        blocks += [_on_a_screen(figures)]
    for at in range(1, len(comparison.sides)):
        blocks += _field_blocks(comparison, at, texts, lang)
    blocks.append(Notes(tuple(_notes(comparison, texts, lang))))
    return Document(tuple(blocks), lang)


def _on_a_screen(table: Table) -> Block:
    """Return a table as it is if its numbers fit on a screen, or else in several parts."""
    first, *numbers = widths_of(table)
    if line_width([min(first, _NARROW), *numbers]) <= COLUMNS:
        return table
    return WideTable(table)


def _subjects(comparison: SideBySide) -> Iterator[str]:
    for letter, side in zip(comparison.letters, comparison.sides, strict=True):
        subject = f"{letter} = {side.name} · {side.class_name} · {side.dtype}"
        if comparison.changed is not None and letter != comparison.letters[0]:
            changed = [f"{name} = {shorten(v)}" for name, v in comparison.changed.items()]
            subject += f" · {', '.join(changed)}"
        yield subject


def _components(comparison: SideBySide, texts: Mapping[str, str], lang: str) -> Table:
    rows = []
    for name in comparison.components:
        counts = [side.components.get(name, 0) for side in comparison.sides]
        rows.append((label(name, lang), *_cells(counts)))
    rows.append((texts["total"], *_cells([side.parameters for side in comparison.sides])))
    return _model_columns(texts["component"], rows, comparison, totals=1)


def _figures(comparison: SideBySide, texts: Mapping[str, str]) -> Table:
    """Return the figures that are known of a model; active parameters only where experts are."""
    has_experts = any(side.weighing and side.weighing.active for side in comparison.sides)
    rows = []
    for name in ("active", "bytes", "cache_bytes", "forward_flops"):
        values = [side.figures[name] for side in comparison.sides]
        if all(value is None for value in values) or (name == "active" and not has_experts):
            continue
        title = texts[name].format(tokens=units.count(comparison.sequence))
        rows.append((title, *_cells(values)))
    return _model_columns(texts["figure"], rows, comparison)


def _cells(values: Sequence[int | None]) -> list[str]:
    """Return a cell for each value, and the difference of two."""
    cells = [_ABSENT if value is None else units.count(value) for value in values]
    if len(values) == _TWO:
        before, after = values
        if before is None or after is None:
            cells.append(_ABSENT)
        else:
            cells.append(units.signed(after - before))
    return cells


def _model_columns(
    first: str, rows: Sequence[tuple[str, ...]], comparison: SideBySide, totals: int = 0
) -> Table:
    header = [first, *comparison.letters]
    if len(comparison.sides) == _TWO:
        header.append("B - A")
    align = "<" + ">" * (len(header) - 1)
    return Table(tuple(header), tuple(rows), align, totals)


def _field_blocks(
    comparison: SideBySide, at: int, texts: Mapping[str, str], lang: str
) -> Iterator[Block]:
    """Yield what each field is worth between the first model and another."""
    shares, bridge = comparison.shares[at - 1], comparison.bridges[at - 1]
    letters = {"first": comparison.letters[0], "other": comparison.letters[at]}
    if bridge is not None:
        shares = bridge.shares
    if shares is None or not shares.by_player:
        return
    heading = texts["by_field"].format(**letters)
    if bridge is not None:
        other = comparison.sides[at]
        heading = texts["by_steps"].format(class_name=other.class_name, **letters)
    table = _field_table(shares, bridge, letters, texts)
    yield Together((Title(heading), table))
    if len(comparison.sides) == _TWO and len(shares.by_player) > 1:
        yield _on_a_screen(_matrix(shares, texts, lang))


def _field_table(
    shares: FieldShares,
    bridge: Bridge | None,
    letters: Mapping[str, str],
    texts: Mapping[str, str],
) -> Table:
    header = (texts["field"], *letters.values(), texts["share_of_field"], texts["alone"])
    rows, difference = [], shares.difference
    alone = shares.difference
    if bridge is not None:
        difference += bridge.step
        alone += bridge.step
        step = units.signed(bridge.step)
        rows.append((texts["step"], _ABSENT, _ABSENT, step, step))
    for player, share in shares.rounded_by_player.items():
        before, after = (
            _values(fields, player, texts) for fields in (shares.ends.before, shares.ends.after)
        )
        alone_of_field = units.signed(shares.alone[player])
        rows.append((_titled(player, shares), before, after, units.signed(share), alone_of_field))
    together = units.signed(shares.alone[None])
    rows.append((texts["together"], "", "", _ABSENT, together))
    rows.append((texts["total"], "", "", units.signed(difference), units.signed(alone)))
    return Table(header, tuple(rows), "<>>>>", 1)


def _titled(player: Player, shares: FieldShares) -> str:
    """Return the fields of a player, each with its letter, by which the next table names it."""
    known = letters_of(shares.ends.blueprint)
    names = [f"{name} ({known[name]})" if name in known else name for name in player]
    return " + ".join(names)


def _values(fields: Mapping[str, Any], player: Player, texts: Mapping[str, str]) -> str:
    return " + ".join(_value_cell(thawed(fields.get(name)), texts) for name in player)


def _value_cell(value: Any, texts: Mapping[str, str]) -> str:
    if isinstance(value, list):
        return texts["items"].format(number=units.count(len(value)))
    if isinstance(value, int) and not isinstance(value, bool):
        return units.count(value)
    return shorten(value, longest=_LONGEST_VALUE)


def _matrix(shares: FieldShares, texts: Mapping[str, str], lang: str) -> Table:
    """Return the share of each field in each component; the sums are exact both ways."""
    known = letters_of(shares.ends.blueprint)
    players = list(shares.rounded_by_player)
    rows: list[tuple[str, ...]] = []
    for component in dict.fromkeys(name for name, _ in shares.cells):
        cells = [shares.rounded_cells.get((component, player), 0) for player in players]
        shown = [units.signed(cell) if cell else _ABSENT for cell in cells]
        rows.append((label(component, lang), *shown, units.signed(sum(cells))))
    sums = map(units.signed, shares.rounded_by_player.values())
    rows.append((texts["total"], *sums, units.signed(shares.difference)))
    names = ["+".join(known.get(name, name) for name in player) for player in players]
    header = (texts["component"], *names, texts["sum"])
    return Table(header, tuple(rows), "<" + ">" * (len(header) - 1), 1)


def _notes(comparison: SideBySide, texts: Mapping[str, str], lang: str) -> Iterator[str]:
    if not comparison.differs:
        yield texts["same"]
    has_shares = any(shares and shares.by_player for shares in comparison.shares)
    if has_shares or any(comparison.bridges):
        yield texts["about_shares"]
    for at in range(1, len(comparison.sides)):
        letters = {"first": comparison.letters[0], "other": comparison.letters[at]}
        shares, bridge = comparison.shares[at - 1], comparison.bridges[at - 1]
        if bridge is not None:
            yield from _about_step(bridge, letters, texts, lang)
        elif shares is None:
            yield texts[_why_no_fields(comparison, at)].format(**letters)
        else:
            yield from _about_others(comparison, at, texts)
    yield from _missing(comparison, texts, lang)


def _about_others(comparison: SideBySide, at: int, texts: Mapping[str, str]) -> Iterator[str]:
    """Yield the fields that differ and change no parameter."""
    shares, other = comparison.shares[at - 1], comparison.sides[at]
    letters = {"first": comparison.letters[0], "other": comparison.letters[at]}
    names = []
    for name in shares.without_effect if shares else ():
        player = (name,)
        before, after = (
            _values(fields, player, texts) for fields in (comparison.sides[0].fields, other.fields)
        )
        names.append(f"{name} ({before}, {after})")
    if names:
        yield texts["no_effect"].format(fields=_enumerated(names, texts), **letters)
    others = list(comparison.other_fields(other))
    if others:
        yield texts["in_no_formula"].format(fields=_enumerated(others, texts), **letters)


def _about_step(
    bridge: Bridge, letters: Mapping[str, str], texts: Mapping[str, str], lang: str
) -> Iterator[str]:
    parts = [
        f"{label(name, lang)} {units.signed(count)}"
        for name, count in bridge.step_by_component.items()
    ]
    if parts:
        yield texts["about_step"].format(parts=_enumerated(parts, texts), **letters)
    else:
        yield texts["empty_step"].format(**letters)


def _why_no_fields(comparison: SideBySide, at: int) -> str:
    first, other = comparison.sides[0].weighing, comparison.sides[at].weighing
    if first is None or other is None:
        return "no_config"
    if first.model.blueprint.family != other.model.blueprint.family:
        return "no_bridge"
    if first.class_name != other.class_name:
        return "other_class"
    return "no_closed_form"


def _enumerated(names: Sequence[str], texts: Mapping[str, str]) -> str:
    listed = texts["and"].join(names[:_MOST_NAMES])
    more = len(names) - _MOST_NAMES
    if more > 0:
        listed = texts["names_and_more"].format(names=listed, more=more)
    return listed


def _missing(comparison: SideBySide, texts: Mapping[str, str], lang: str) -> Iterator[str]:
    """Yield which figures are not known of which models, and why; one line for each reason."""
    places: dict[tuple[str, str], list[str]] = {}
    for letter, side in zip(comparison.letters, comparison.sides, strict=True):
        for name, reason in side.missing.items():
            places.setdefault((name, reason), []).append(letter)
    for (name, reason), letters in places.items():
        yield Aside(
            texts["missing"].format(
                letters=texts["and"].join(letters),
                figure=texts[f"of_{name}"],
                reason=in_language(reason, lang),
            )
        )
