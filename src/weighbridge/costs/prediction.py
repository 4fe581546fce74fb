"""The layers for multi-token prediction, which checkpoints hold and classes drop."""

from __future__ import annotations

from itertools import chain

from weighbridge import data
from weighbridge.algebra.expr import evaluate, parse
from weighbridge.blueprint.schema import split_dims
from weighbridge.costs.quantization import FileWeight, weights_of_entries
from weighbridge.errors import ExpressionError
from weighbridge.lean_typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from weighbridge.costs.quantization import Quantization
    from weighbridge.ledger.ledger import Ledger
    from weighbridge.ledger.rows import Entry, RowGroup

_MOST_LAYERS = 100
"""A config with more layers for prediction is not a model's."""


class PredictionLayers(NamedTuple):
    """The layers for multi-token prediction of a config: the field, and how many there are.

    ``weights`` are their tensors; None if the form of the family's layers is not known.
    """

    field: str
    number: int
    weights: tuple[FileWeight, ...] | None

    @property
    def parameters(self) -> int | None:
        """The parameters that a checkpoint holds in addition to those of the class."""
        if self.weights is None:
            return None
        return sum(weight.elements for weight in self.weights)


def prediction_layers(
    ledger: Ledger, given: Mapping[str, Any], quantization: Quantization | None = None
) -> PredictionLayers | None:
    """Return the layers for multi-token prediction that a config asks for; None if it does not.

    ``given`` has the fields of the config, those of sub-configs with dotted names. How many tensors
    the layers have follows from the last layer of the ledger.

    Example:
        >>> from weighbridge.blueprint.schema import load
        >>> from weighbridge.ledger.ledger import bind
        >>> glm = load("glm4_moe")
        >>> ledger = bind(glm, "Glm4MoeForCausalLM", {**glm.at_defaults, "num_labels": 2})
        >>> prediction_layers(ledger, {"num_nextn_predict_layers": 1}).parameters > 10**9
        True
    """
    for name in prediction_fields():
        for spelling, number in given.items():
            if spelling.rpartition(".")[2] != name or spelling in ledger.blueprint.fields:
                continue
            if type(number) is int and 0 < number <= _MOST_LAYERS:
                weights = _weights(ledger, spelling, number, quantization)
                return PredictionLayers(spelling, number, weights)
    return None


def prediction_fields() -> tuple[str, ...]:
    """Return the fields that give a number of layers for multi-token prediction."""
    rules = data.read_toml("facts/prediction_layers.toml").values()
    return tuple(dict.fromkeys(rule["field"] for rule in rules))


def _weights(
    ledger: Ledger, spelling: str, number: int, quantization: Quantization | None
) -> tuple[FileWeight, ...] | None:
    """Return the tensors of the layers, if their form is known."""
    parent, _, field = spelling.rpartition(".")
    rule = _rule_for(ledger.blueprint.family, field)
    last = _last_layer(ledger)
    if rule is None or last is None:
        return None
    stack, _, layer = last.name.rpartition(".")
    try:
        return tuple(
            chain(
                *(
                    _layer(ledger, last, f"{rule.get('path', stack)}.{place}", quantization)
                    for place in _layer_numbers(rule, int(layer), number)
                ),
                _others(rule.get("each", ()), ledger, parent, number),
                _others(rule.get("once", ()), ledger, parent, 1),
            )
        )
    except ExpressionError:  # a size has another name in this family
        return None


def _layer_numbers(rule: Mapping[str, Any], last: int, number: int) -> range:
    """Return the indices of the layers: after the last one, or from 0 in a list of their own."""
    first = 0 if "path" in rule else last + 1
    return range(first, first + number)


def _rule_for(family: str, field: str) -> Mapping[str, Any] | None:
    rules: Mapping[str, Mapping[str, Any]] = data.read_toml("facts/prediction_layers.toml")
    for rule in rules.values():
        if rule["field"] == field and family in rule["families"]:
            return rule
    return None


def _last_layer(ledger: Ledger) -> RowGroup | None:
    """Return the last layer of the largest stack of layers, as files hold it."""
    last_of_stack: dict[str, RowGroup] = {}
    for group in ledger.stored.by("layer"):
        stack, _, layer = group.name.rpartition(".")
        if layer.isdecimal():
            last_of_stack[stack] = group
    return max(last_of_stack.values(), key=lambda group: group.parameters, default=None)


def _layer(
    ledger: Ledger, last: RowGroup, path: str, quantization: Quantization | None
) -> Iterator[FileWeight]:
    """Yield the tensors of a layer like the last one, under another path."""
    entries: Iterable[Entry] = [entry for entry in last.entries if not entry.tied]
    for weight in weights_of_entries(entries, ledger, quantization):
        paths = tuple(_moved(name, last.name, path) for name in weight.paths)
        yield weight._replace(paths=paths, is_head=False, is_in_layer=True)


def _moved(name: str, old: str, new: str) -> str:
    """Return the path of a module under another layer, if it stands in this one."""
    return new + name.removeprefix(old) if name.startswith(f"{old}.") else name


def _others(texts: Iterable[str], ledger: Ledger, parent: str, number: int) -> Iterator[FileWeight]:
    """Yield the tensors beside those of a layer, which files keep unpacked."""
    fields = {
        name.removeprefix(f"{parent}.") if parent else name: value
        for name, value in ledger.fields.items()
    }
    for text in texts:
        name, _, dims = text.partition(": ")
        shape = tuple(evaluate(parse(dim), fields) for dim in split_dims(dims))
        yield FileWeight((name.removesuffix(".weight"),), shape, number=number)
