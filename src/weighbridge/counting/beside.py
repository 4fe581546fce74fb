"""The tensors that people count besides those of a class.

Old files store causal masks and rotary frequencies. Checkpoints hold layers that the class does not
build. Ports add a pooler, or drop rows of a table. `facts/conventions.toml` lists these tensors for
each family; a tensor with fewer than 0 elements stands for rows that are dropped.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge import data
from weighbridge.algebra.expr import evaluate, parse
from weighbridge.errors import ExpressionError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from weighbridge.ledger.ledger import Ledger


class TensorBeside(NamedTuple):
    """A tensor in all its ``places``, and the only convention that counts it.

    If a convention leaves out the tensors of its ``role``, it leaves out this one too.
    """

    convention: str
    role: str
    elements: int
    places: int


def tensors_beside(ledger: Ledger, given: Mapping[str, Any]) -> Iterator[TensorBeside]:
    """Yield the tensors that people count besides those of a class.

    Args:
        ledger: the tensors of the class.
        given: the config as it was given. It has fields that change no shape of the class, such as
            the number of positions of a model with rotary positions.

    Example:
        >>> from weighbridge.ledger.ledger import bind
        >>> from weighbridge.models.find import find
        >>> model = find("gpt2")
        >>> list(tensors_beside(bind(model.blueprint, "GPT2Model", model.fields), {}))
        [TensorBeside(convention='causal_masks', role='', elements=1048576, places=12)]
    """
    sizes = {name: size for name, size in given.items() if isinstance(size, (int, float))}
    for name, entry in data.read_toml("facts/conventions.toml").items():
        for facts in entry.get("families", {}).get(ledger.blueprint.family, ()):
            values = {**facts.get("defaults", {}), **sizes, **ledger.fields}
            try:
                tensor = _tensor(name, facts, values)
            except (ExpressionError, OverflowError, ValueError):
                # The config does not state a size, or it is infinite.
                continue
            if "layer" in facts:
                elements = tensor.elements + _layer_elements(ledger, facts["layer"])
                tensor = tensor._replace(elements=elements)
            if tensor.places > 0:
                yield tensor


def _tensor(convention: str, facts: Mapping[str, Any], values: Mapping[str, Any]) -> TensorBeside:
    """Return the tensor that the facts describe for a config."""
    elements = int(evaluate(parse(facts["elements"]), values))
    places = int(evaluate(parse(facts.get("places", "1")), values))
    return TensorBeside(convention, facts.get("role", ""), elements, places)


_DECODER_LAYER = re.compile(r"(?:.*\.)?layers\.\d+")  # not a block of a vision tower


def _layer_elements(ledger: Ledger, which: str) -> int:
    """Return the elements of the last or the largest decoder layer, with its buffers."""
    layers = [group for group in ledger.by("layer") if _DECODER_LAYER.fullmatch(group.name)]
    layer = layers[-1]
    if which == "largest":
        layer = max(layers, key=lambda group: group.parameters)
    buffers = [row.count for row in ledger.buffers() if row.name.startswith(f"{layer.name}.")]
    return layer.parameters + sum(buffers)
