"""The layers of a ledger from top to bottom; alike ones that follow on each other are one run."""

from __future__ import annotations

from math import prod

from weighbridge.blueprint.roles import component_of
from weighbridge.lean_typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from weighbridge.ledger.ledger import Ledger
    from weighbridge.ledger.rows import Entry


class TensorCell(NamedTuple):
    """A tensor of one layer: its name inside the layer, its entry, and its parameters there."""

    tensor: str
    entry: Entry
    each: int


class LayerRun(NamedTuple):
    """Layers that follow on each other and are alike: path, first index, their number, cells."""

    path: str
    first: int | None
    many: int
    cells: tuple[TensorCell, ...]

    @property
    def components(self) -> dict[str, int]:
        """The parameters of each component in one layer, in the order of their first tensors."""
        components: dict[str, int] = {}
        for cell in self.cells:
            name = component_of(cell.entry.template.role)
            components[name] = components.get(name, 0) + cell.each
        return components

    @property
    def each(self) -> int:
        """The parameters of one layer."""
        return sum(cell.each for cell in self.cells)


def runs_of(ledger: Ledger) -> list[LayerRun]:
    """Return the runs of a ledger, from top to bottom.

    Example:
        >>> from weighbridge.blueprint.schema import load
        >>> from weighbridge.ledger.ledger import bind
        >>> bert = load("bert")
        >>> ledger = bind(bert, "BertModel", bert.defaults)
        >>> [(run.path, run.many, run.each) for run in runs_of(ledger)]
        [('embeddings', 1, 23837184), ('encoder.layer', 12, 7087872), ('pooler', 1, 590592)]
    """
    runs: list[LayerRun] = []
    for path, rows in _rows_by_path(ledger).items():
        for index in sorted(rows, key=lambda index: -1 if index is None else index):
            cells = tuple(rows[index])
            last = runs[-1] if runs else None
            if last and last.path == path and _likeness(last.cells) == _likeness(cells):
                runs[-1] = last._replace(many=last.many + 1)
            else:
                runs.append(LayerRun(path, index, 1, cells))
    return runs


def _rows_by_path(ledger: Ledger) -> dict[str, dict[int | None, list[TensorCell]]]:
    prefix = ledger.blueprint.prefix(ledger.class_name)
    rows: dict[str, dict[int | None, list[TensorCell]]] = {}
    for entry in ledger.entries:
        name, size = entry.template.name, 0 if entry.tied else prod(entry.shape)
        if entry.template.repeat:
            path, _, rest = name.partition(".{")
            tensor = rest.partition("}.")[2]
            for index, inside in entry.indices.items():
                layers = rows.setdefault(path, {})
                layers.setdefault(index, []).append(TensorCell(tensor, entry, size * len(inside)))
            continue
        below = name.removeprefix(prefix)
        path = name.removesuffix(below) + below.partition(".")[0]
        tensor = name[len(path) + 1 :] or name
        rows.setdefault(path, {}).setdefault(None, []).append(TensorCell(tensor, entry, size))
    return rows


def _likeness(cells: tuple[TensorCell, ...]) -> list[tuple[object, ...]]:
    return [(cell.tensor, cell.entry.shape, cell.entry.tied, cell.each) for cell in cells]
