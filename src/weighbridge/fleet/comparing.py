"""Compares layouts with configs and guesses their models: once each, not once a checkpoint.

The checkpoints of a fleet have few layouts (names and shapes), because most are fine-tuned from
others. A guess takes a thousand times as long as reading a header.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from weighbridge import readers
from weighbridge.answers.guess import Guessed, guess
from weighbridge.answers.inspect import Inspection
from weighbridge.answers.weigh import weigh
from weighbridge.errors import WeighbridgeError, printable
from weighbridge.fleet.columns import SCHEMA
from weighbridge.fleet.reasons import reason_of
from weighbridge.fleet.rows import CONFIG_REASON
from weighbridge.matching.comparison import choose
from weighbridge.models.find import find
from weighbridge.readers.stores import read_object

if TYPE_CHECKING:
    from collections.abc import Mapping

    from weighbridge.fleet.listing import ListedCheckpoint

_LONGEST_MESSAGE = 500
_MOST_FITTING = 12
_COMPARED = {"file", "index", "split"}
# The fields of a config that hold a size, under the names that families give it.
_FIELDS = {
    "layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "depth"),
    "hidden": ("hidden_size", "n_embd", "d_model", "dim", "embed_dim"),
    "vocab": ("vocab_size",),
}


class Comparisons:
    """The comparisons of a scan: a layout and a config are compared once, a config weighed once."""

    def __init__(self) -> None:
        self._agreeing: dict[tuple[str, str], bool | None] = {}
        self._weighed: dict[str, dict[str, Any]] = {}

    @property
    def count(self) -> int:
        """The number of layouts that were compared with a config."""
        return len(self._agreeing)

    def complete(self, row: dict[str, Any], one: ListedCheckpoint) -> None:
        """Fill in what a row's config comes to, and whether the checkpoint agrees with it."""
        digest = row.get("config_sha")
        if not digest or row.get("config_message"):
            return
        if digest not in self._weighed:
            self._weighed[digest] = _weighed(one.config, row.get("architectures"))
        row.update(self._weighed[digest])
        if row["status"] != "ok" or row["kind"] not in _COMPARED or row["packing"]:
            return
        pair = (row["layout"], digest)
        if pair not in self._agreeing:
            self._agreeing[pair] = _agrees(row, one)
        row["agrees"] = self._agreeing[pair]


def _weighed(config: str, architectures: Any) -> dict[str, Any]:
    """Return the parameters of the class that a config names, or why it has none."""
    try:
        content = read_object(config)
        weighed = weigh(content)
    except WeighbridgeError as error:
        message = printable(str(error))[:_LONGEST_MESSAGE]
        return {"config_message": message, CONFIG_REASON: reason_of(error)}
    except Exception as error:
        return {"config_message": f"{type(error).__name__}: {error}"[:_LONGEST_MESSAGE]}
    named = next(iter(architectures or []), "")
    return {"config_parameters": weighed.classes.get(named, weighed.parameters)}


def _agrees(row: Mapping[str, Any], one: ListedCheckpoint) -> bool | None:
    """Return whether a checkpoint is what its config says; None if that cannot be compared."""
    if row.get("config_parameters") is None:
        return None
    try:
        for stored in readers.read_group(one.group):
            if row["path"] in {stored.path, one.path}:
                return not choose(find(one.config), stored).comparison.failures
    except Exception:
        return None
    return None


def layout_row(layout: str, path: str) -> dict[str, Any]:
    """Return the row of a layout, given a checkpoint that has it."""
    begun = time.perf_counter()
    row: dict[str, Any] = {"layout": layout, "schema": SCHEMA}
    try:
        row |= _components_of(path)
        row |= _guessed(guess(path))
    except WeighbridgeError as error:
        row["message"] = printable(str(error))[:_LONGEST_MESSAGE]
    except Exception as error:
        row["message"] = f"{type(error).__name__}: {error}"[:_LONGEST_MESSAGE]
    row["seconds"] = time.perf_counter() - begun
    return row


def _components_of(path: str) -> dict[str, Any]:
    components = Inspection(readers.read(path)).by("component")
    return {"components": [(name, weight.parameters) for name, weight in components.items()]}


def _guessed(guessed: Guessed) -> dict[str, Any]:
    best = guessed.best
    if best is None:
        return {"exact": False}
    row: dict[str, Any] = {"family": best.family, "class": best.class_name}
    row["exact"] = best.is_exact
    equals = [f"{other.class_name} ({other.family})" for other in guessed.guess.exact[1:]]
    row["also_fits"] = equals[:_MOST_FITTING]
    config = best.config
    for column, names in _FIELDS.items():
        sizes = [config[name] for name in names if type(config.get(name)) is int]
        row[column] = sizes[0] if sizes else None
    row["guessed_config"] = json.dumps(config)
    if best.is_exact:
        row["active"] = _active(best.config, best.class_name)
    return row


def _active(config: Mapping[str, Any], class_name: str) -> int | None:
    try:
        weighed = weigh(config, class_name)
    except WeighbridgeError:
        return None
    return weighed.ledger.active
