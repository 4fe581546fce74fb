"""The map of a ledger: its layers from top to bottom, with the parameters of each component."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weighbridge.ledger.layer_runs import runs_of
from weighbridge.render.document import LayerMap, MapPart, MapRow
from weighbridge.render.words import label, words
from weighbridge.units import count

if TYPE_CHECKING:
    from weighbridge.ledger.ledger import Ledger


def layer_map(ledger: Ledger, lang: str) -> LayerMap:
    """Return the map of a ledger in a language.

    Example:
        >>> from weighbridge.answers.weigh import weigh
        >>> block = layer_map(weigh("bert-base-chinese").ledger, "en")
        >>> [(row.path, row.layers, row.each) for row in block.rows]
        [('embeddings', 1, 16622592), ('encoder.layer', 12, 7087872), ('pooler', 1, 590592)]
    """
    rows = []
    for run in runs_of(ledger):
        parts = [MapPart(name, label(name, lang), each) for name, each in run.components.items()]
        rows.append(MapRow(run.path, run.many, tuple(parts)))
    title = f"{ledger.class_name}: {count(ledger.parameters)}"
    return LayerMap(title, words(lang)["layer_map"], tuple(rows))
