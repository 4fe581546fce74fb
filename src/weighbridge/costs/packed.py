"""The tensors of files that a method such as AWQ packs, one by one, packed or as they are."""

from __future__ import annotations

from math import prod

from weighbridge import units
from weighbridge.blueprint.roles import component_of
from weighbridge.costs.quantization import REST, UncoveredError, weights_of_entries
from weighbridge.errors import ExpressionError
from weighbridge.lean_typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weighbridge.costs.quantization import FileWeight, Packing, Quantization
    from weighbridge.ledger.ledger import Ledger
    from weighbridge.ledger.rows import Entry


class StoredTensor(NamedTuple):
    """A tensor of a file.

    ``type`` is the type of a GGUF tensor, the name of a packing, or a dtype; ``dtype`` is that of
    the file. ``parameters`` are the elements of the model that it holds: all of a packed weight are
    in its first tensor, and scales hold none. ``instead_of`` is the type that does not fit its
    rows, if another was taken for that reason.
    """

    name: str
    type: str
    dtype: str
    shape: tuple[int, ...]
    parameters: int
    component: str
    instead_of: str | None = None

    @property
    def bytes(self) -> int:
        """The bytes of its data."""
        return units.stored_bytes(prod(self.shape), self.dtype)


def packed_tensors(
    ledger: Ledger, quantization: Quantization, dtype: str
) -> Iterator[StoredTensor]:
    """Yield the tensors of the files of a class, in the order of its templates.

    ``dtype`` is that of the tensors that are not packed.

    Raises:
        UncoveredError: the rules do not cover the shape of a weight.

    Example:
        >>> from weighbridge.ledger.ledger import bind
        >>> from weighbridge.models.find import find
        >>> from weighbridge.models.quantization import quantization_of
        >>> llama = find("llama")
        >>> ledger = bind(llama.blueprint, "LlamaModel", llama.fields)
        >>> awq = quantization_of({"quantization_config": {"quant_method": "awq"}})
        >>> tensors = list(packed_tensors(ledger, awq, "BF16"))
        >>> tensors[1].name, tensors[1].type, tensors[1].dtype, tensors[1].shape
        ('layers.0.self_attn.q_proj.qweight', 'AWQ, 4 bits', 'I32', (4096, 512))
    """
    for entry in ledger.stored.entries:
        if entry.tied:
            continue
        weight = next(weights_of_entries([entry], ledger, quantization))
        packing = quantization.packing_of(weight)
        if packing is None:
            yield from _whole_tensors(entry, entry.template.dtype or dtype)
        else:
            yield from _packed_weights(entry, weight, packing, dtype)


def _whole_tensors(entry: Entry, dtype: str) -> Iterator[StoredTensor]:
    component, parameters = component_of(entry.template.role), prod(entry.shape)
    for place in entry.indices:
        yield StoredTensor(entry.name(place), dtype, dtype, entry.shape, parameters, component)


def _packed_weights(
    entry: Entry, weight: FileWeight, packing: Packing, dtype: str
) -> Iterator[StoredTensor]:
    try:
        stored = list(packing.stored(weight))
    except ExpressionError:
        raise UncoveredError("the rule does not cover the shape of a weight") from None
    label, component = packing_name(packing), component_of(entry.template.role)
    for place in entry.indices:
        path, parameters = entry.name(place).removesuffix(".weight"), prod(entry.shape)
        for ending, stored_dtype, shape in stored:
            own_dtype = dtype if stored_dtype == REST else stored_dtype
            yield StoredTensor(path + ending, label, own_dtype, shape, parameters, component)
            parameters = 0


def packing_name(packing: Packing) -> str:
    """Return the name of a packing, with its bits if the name does not say them."""
    if packing.bits is None:
        return packing.label
    return f"{packing.label}, {packing.bits} bits"
