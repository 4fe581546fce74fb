"""What the graph of an ONNX model reveals about its tensors: their names, and what they pack.

Exporters store the transposed matrix of a linear layer under a name without a meaning, and
quantisers store integers with scales and zeros. `facts/onnx.toml` lists the operations that take
quantised tensors.
"""

from __future__ import annotations

import re
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from weighbridge import data
from weighbridge.blueprint.roles import role_of
from weighbridge.readers.header import Packed
from weighbridge.units import stored_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from weighbridge.ledger.rows import Row

SIZED = ("MatMulNBits", "GatherBlockQuantized")
"""The operations whose attributes determine the shape of a weight."""

_MATRIX = 2  # dims
_ON_THE_WAY = (
    "Cast",
    "DequantizeLinear",
    "QuantizeLinear",
    "Mul",
    "Transpose",
    "MatMul",
    "MatMulInteger",
    "MatMulNBits",
    "QLinearMatMul",
    "Identity",
    "Add",
    "QLinearAdd",
)
_ADDITIONS = ("Add", "QLinearAdd")
_LONGEST_WAY = 8  # operations
_WEIGHTS = ("I2", "U2", "I4", "U4", "I8", "U8", "I16", "U16")
_BIASES = ("I32",)
_PARTS = {"scales": "scale", "zeros": "zero", "indices": "index"}
_OWN_ENDING = re.compile(r"(_Transposed)?(_DQ)?(_Q[248]|_quantized|_q)$")
_LAST_ENDING = re.compile(r"(_Q[248]|_quantized|_q)$")
_TURNED = re.compile(r"_Transposed_quantized$")
_ENDINGS_BESIDE = {
    "_scale": "quantization.scale",
    "_scales": "quantization.scale",
    "_zero_point": "quantization.zero",
    "_zero_points": "quantization.zero",
}
_USUAL_BITS = 4
_BYTE = 8  # bits


class GraphNode(NamedTuple):
    """An operation of the graph: its inputs, its output, its name, its type and its integers."""

    inputs: tuple[str, ...]
    output: str
    name: str
    operation: str
    integers: Mapping[str, int]


# Packed weights


def packed_weights(nodes: Iterable[GraphNode], rows: Mapping[str, Row]) -> dict[str, Packed]:
    """Return the initializers that are quantised weights, by the operations that take them.

    Example:
        >>> from weighbridge.ledger.rows import Row
        >>> rows = {
        ...     "up_Q4": Row("up_Q4", (3, 2, 16), "U8", "", (), 96, 96),
        ...     "up_scales": Row("up_scales", (3, 2), "F32", "", (), 6, 6),
        ... }
        >>> node = GraphNode(("x", "up_Q4", "up_scales"), "y", "", "MatMulNBits", {"K": 60, "N": 3})
        >>> packed_weights([node], rows)["up_Q4"].shape
        (60, 3)
    """
    found: dict[str, Packed] = {}
    for node in nodes:
        places = _operand_positions(node)
        beside = tuple(name for part in _PARTS for name in _at(node, places.get(part, ()), rows))
        for part, dtypes in (("weights", _WEIGHTS), ("biases", _BIASES)):
            for name in _at(node, places.get(part, ()), rows):
                row = rows[name]
                if row.dtype in dtypes and row.shape:
                    found.setdefault(name, _packed(row, node, beside))
    return found


def roles_beside(
    nodes: Iterable[GraphNode], rows: Mapping[str, Row], packed: Iterable[str]
) -> dict[str, str]:
    """Return the roles of the scales, zeros and indices of quantised tensors, by their names.

    Where an operation does not take them, as `MatMulInteger` takes no scales, their names show
    which weights they belong to.
    """
    roles: dict[str, str] = {}
    for name in packed:
        base = _LAST_ENDING.sub("", name)
        for ending, role in _ENDINGS_BESIDE.items():
            if base + ending in rows:
                roles[base + ending] = role
    for node in nodes:
        places = _operand_positions(node)
        for part, role in _PARTS.items():
            for name in _at(node, places.get(part, ()), rows):
                roles[name] = f"quantization.{role}"
    return roles


def _operand_positions(node: GraphNode) -> Mapping[str, Sequence[int]]:
    operations: Mapping[str, Mapping[str, Sequence[int]]]
    operations = data.read_toml("facts/onnx.toml")["operations"]
    return operations.get(node.operation, {})


def _at(node: GraphNode, positions: Iterable[int], rows: Mapping[str, Row]) -> Iterator[str]:
    """Yield the initializers among some inputs of an operation."""
    for position in positions:
        if position < len(node.inputs) and node.inputs[position] in rows:
            yield node.inputs[position]


def _packed(row: Row, node: GraphNode, beside: tuple[str, ...]) -> Packed:
    packing, name = f"{node.operation} of ONNX", _OWN_ENDING.sub("", row.name)
    stored_bits = stored_bytes(_BYTE, row.dtype)  # eight elements take as many bytes
    shape, bits = row.shape, stored_bits
    if node.operation in SIZED:
        bits = node.integers.get("bits", _USUAL_BITS)
        shape = _unpacked_shape(row, node, bits)
    elements = prod(shape)
    if not 0 < elements * bits <= row.count * stored_bits:  # the attributes contradict the data
        return Packed(packing, name, None, None, None, beside)
    return Packed(packing, name, shape, elements, bits, beside)


def _unpacked_shape(row: Row, node: GraphNode, bits: int) -> tuple[int, ...]:
    """Return the shape of a weight that lies in bytes, by the attributes of its operation."""
    if {"K", "N"} <= node.integers.keys():
        return node.integers["K"], node.integers["N"]
    if row.dtype == "U8" and bits in (2, 4):
        return (*row.shape[:-1], row.shape[-1] * (_BYTE // bits))
    return row.shape


# Names


def is_nameless(row: Row, packed: Packed | None) -> bool:
    """Return whether a tensor is a matrix whose name does not say what it is for."""
    name, shape = row.name, row.shape
    if packed and packed.shape is not None:
        name, shape = packed.name, packed.shape
    return len(shape) == _MATRIX and role_of(name) == "other"


def names_of_weights(
    nameless: AbstractSet[str],
    nodes: Iterable[GraphNode],
    rows: Mapping[str, Row],
    packed: Mapping[str, Packed],
) -> dict[str, str]:
    """Return the names of the weights that nameless matrices are.

    The name follows from the bias that is added to the matrix product, or else from the name of the
    operation, which is the path of its module.
    """
    graph = _Graph(nodes, rows, packed)
    found = {name: packed[name].name for name in packed if _TURNED.search(name)}
    # A matrix comes before its scales.
    taken = {*graph.own_names.values(), *found.values()}
    for name in sorted(nameless - found.keys(), key=lambda name: -rows[name].count):
        called = graph.weight(name)
        if called and called not in taken:
            found[name] = called
            taken.add(called)
    return found


class _Graph:
    """The operations that take each tensor, and the names of the initializers without packing."""

    def __init__(
        self, nodes: Iterable[GraphNode], rows: Mapping[str, Row], packed: Mapping[str, Packed]
    ) -> None:
        self.own_names = {name: name for name in rows}
        self.own_names.update({name: weight.name for name, weight in packed.items()})
        self._takers: dict[str, list[GraphNode]] = {}
        for node in nodes:
            for name in node.inputs:
                self._takers.setdefault(name, []).append(node)
            if node.operation == "DequantizeLinear" and node.inputs[:1]:
                source = self.own_names.get(node.inputs[0])
                if source:
                    self.own_names[node.output] = source

    def weight(self, name: str) -> str | None:
        """Follow a matrix to the addition of a bias, and return the weight's name."""
        by_path = None
        for _ in range(_LONGEST_WAY):
            nodes = self._takers.get(name, ())
            if len(nodes) != 1 or nodes[0].operation not in _ON_THE_WAY:
                return by_path
            node = nodes[0]
            if node.operation in _ADDITIONS:
                return self._weight_of_bias(node) or by_path
            if "/" in node.name and "MatMul" in node.operation:
                path = node.name.strip("/").split("/")[:-1]
                by_path = f"{'.'.join(path)}.weight"
            name = node.output
        return by_path

    def _weight_of_bias(self, addition: GraphNode) -> str | None:
        """Return the name of the weight whose bias is added; None unless there is exactly one."""
        own_names = [self.own_names.get(name, "") for name in addition.inputs]
        biases = [name for name in own_names if name.endswith(".bias")]
        if len(biases) != 1:
            return None
        return f"{biases[0].removesuffix('bias')}weight"
