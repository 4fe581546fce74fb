"""Recognises the weights that quantised tensors pack, and the scales beside them.

`facts/packings.toml` describes how each library packs weights. Names, dtypes and shapes identify a
packing; if they do not determine the bits of an element, the config beside the checkpoint does.
"""

from __future__ import annotations

import os
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge import data
from weighbridge.algebra.expr import evaluate, parse
from weighbridge.errors import CheckpointError, ExpressionError
from weighbridge.readers.rules import ELEMENTS_LIMIT
from weighbridge.readers.stores import read_object

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from weighbridge.algebra.expr import Tree
    from weighbridge.ledger.rows import Row

    Rows = Mapping[str, Row]

_PARTS = {"scales": "scale", "zeros": "zero", "indices": "index", "tables": "table"}
_ABSENT = ("missing", "404-not-found")
_CONFIGS = ("config.json", "quantize_config.json")


class Packed(NamedTuple):
    """A weight that is packed into a tensor: its name and shape, and the tensors beside it.

    ``shape`` is None if the headers determine only the number of elements. ``elements`` and
    ``bits`` are None if they do not determine that either.
    """

    packing: str
    name: str
    shape: tuple[int, ...] | None
    elements: int | None
    bits: float | None
    beside: tuple[str, ...]


class _Packing(NamedTuple):
    """An entry of `facts/packings.toml`, which explains the fields."""

    name: str
    weight: str
    dtypes: frozenset[str]
    needs: tuple[str, ...]
    any: tuple[str, ...]
    lacks: tuple[str, ...]
    holds: Tree
    shape: tuple[Tree, ...]
    elements: Tree | None
    bits: Tree
    roles: dict[str, str]
    called: str

    def fits(self, row: Row, rows: Rows) -> bool:
        """Return whether a tensor and those beside it are what this packing writes."""
        if row.dtype not in self.dtypes or not row.name.endswith(self.weight):
            return False
        base = self.base(row.name)
        return (
            all(base + ending in rows for ending in self.needs)
            and (not self.any or any(base + ending in rows for ending in self.any))
            and not any(base + ending in rows for ending in self.lacks)
        )

    def base(self, name: str) -> str:
        return name.removesuffix(self.weight)

    def rows_beside(self, row: Row, rows: Rows) -> Iterator[tuple[Row, str]]:
        """Yield the tensors that belong to a packed one, such as scales, each with its role."""
        base = self.base(row.name)
        for ending, role in self.roles.items():
            if base + ending in rows:
                yield rows[base + ending], role


def unpack(rows: Rows, folder: str) -> tuple[dict[str, Row], dict[str, Packed]]:
    """Return rows that count unpacked weights, and the packed weights by their stored names.

    Scales, zeros, indices and tables get roles of their own, and add nothing to the parameters. If
    shapes do not determine the bits of an element, they are read from the config in ``folder``.

    Raises:
        CheckpointError: the config is needed, but cannot be read.

    Example:
        >>> from weighbridge.ledger.rows import Row
        >>> shapes = {"up.qweight": (512, 64), "up.qzeros": (32, 8), "up.scales": (32, 64)}
        >>> sizes = {name: prod(shape) for name, shape in shapes.items()}
        >>> rows = {
        ...     name: Row(name, shapes[name], "I32", "", (), size, size)
        ...     for name, size in sizes.items()
        ... }
        >>> found, packed = unpack(rows, "")
        >>> packed["up.qweight"].packing, packed["up.qweight"].name, packed["up.qweight"].shape
        ('GPTQ', 'up.weight', (64, 4096))
        >>> [(row.count, row.parameters, row.role) for row in found.values()]
        [(32768, 262144, ''), (256, 0, 'quantization.zero'), (2048, 0, 'quantization.scale')]
    """
    unpacked, packed, bits = dict(rows), dict[str, Packed](), _Bits(folder)
    for row in _likely(rows):
        match = _match(row, rows, bits)
        if match is None:
            continue
        packing, weight = match
        packed[row.name] = weight
        for beside, role in packing.rows_beside(row, rows):
            unpacked[beside.name] = beside._replace(role=role, parameters=0)
        if weight.elements is not None:
            unpacked[row.name] = row._replace(role="", parameters=weight.elements)
    return unpacked, packed


def _match(row: Row, rows: Rows, bits: _Bits) -> tuple[_Packing, Packed] | None:
    """Return the first packing that a tensor fits, and the weight that it packs."""
    for packing in _packings():
        if packing.fits(row, rows):
            weight = _packed(row, packing, rows, bits)
            if weight is not None:
                return packing, weight
    return None


def _likely(rows: Rows) -> list[Row]:
    """Return the rows with a dtype that weights are packed into; most checkpoints have none."""
    dtypes = frozenset[str]().union(*(packing.dtypes for packing in _packings()))
    return [row for row in rows.values() if row.dtype in dtypes]


def _packed(row: Row, packing: _Packing, rows: Rows, bits: _Bits) -> Packed | None:
    """Return the weight that a tensor holds under a packing; None if it does not fit."""
    base = packing.base(row.name)
    beside = tuple(base + ending for ending in packing.roles if base + ending in rows)
    endings = {packing.weight, *packing.needs, *packing.any}
    shapes: dict[str, Any] = {
        ending.lstrip("._") or "weight": rows[base + ending].shape
        for ending in endings
        if base + ending in rows
    }
    name = base + packing.called
    if packing.bits == ("name", "bits"):
        stated = bits.of(base)
        if stated is None:
            return Packed(packing.name, name, None, None, None, beside)
        shapes["bits"] = stated
    try:
        if evaluate(packing.holds, shapes) is not True:
            return None
        shape = tuple(_flat(evaluate(tree, shapes) for tree in packing.shape))
        elements = evaluate(packing.elements, shapes) if packing.elements else prod(shape)
        width = evaluate(packing.bits, shapes)
    except ExpressionError:
        return None
    if not 0 <= elements < ELEMENTS_LIMIT:
        return None
    return Packed(packing.name, name, None if packing.elements else shape, elements, width, beside)


def _flat(values: Iterable[Any]) -> Iterator[int]:
    for value in values:
        if isinstance(value, tuple):
            yield from value
        else:
            yield value


@cache
def _packings() -> tuple[_Packing, ...]:
    return tuple(
        _packing(name, entry) for name, entry in data.read_toml("facts/packings.toml").items()
    )


def _packing(name: str, entry: Mapping[str, Any]) -> _Packing:
    return _Packing(
        name,
        entry["weight"],
        frozenset(entry["dtypes"]),
        needs=tuple(entry.get("needs", ())),
        any=tuple(entry.get("any", ())),
        lacks=tuple(entry.get("lacks", ())),
        holds=parse(entry.get("if", "true")),
        shape=tuple(map(parse, entry.get("shape", "").split())),
        elements=parse(entry["elements"]) if "elements" in entry else None,
        bits=parse(entry.get("bits", "null")),
        roles=_roles(entry),
        called=entry.get("as", ".weight"),
    )


def _roles(entry: Mapping[str, Any]) -> dict[str, str]:
    """Return the role of each tensor beside a packed one, by the ending of its name."""
    return {
        ending: f"quantization.{role}"
        for part, role in _PARTS.items()
        for ending in entry.get(part, ())
    }


class _Bits:
    """The bits of an element, from the config beside a checkpoint, which is read when needed."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._quantization: dict[str, Any] | None = None

    def of(self, path: str) -> int | None:
        """Return the bits of a module, which may have its own; None if the config has no bits."""
        if self._quantization is None:
            self._quantization = _quantization(self.folder)
        own_entry = self._quantization.get(path)
        bits = (own_entry if isinstance(own_entry, dict) else self._quantization).get("bits")
        return bits if type(bits) is int and 1 <= bits <= 32 else None


def _quantization(folder: str) -> dict[str, Any]:
    """Return the quantisation in a folder's config, as transformers, MLX or AutoGPTQ write it."""
    for name in _CONFIGS:
        config = _config_at(os.path.join(folder, name))
        if config:
            entry = config.get("quantization") or config.get("quantization_config") or config
            if isinstance(entry, dict) and (bits := entry.get("bits", _of_groups(entry))):
                return {**entry, "bits": bits}
    return {}


def _of_groups(quantization: Mapping[str, Any]) -> int | None:
    """Return the bits of the groups of compressed-tensors, if all agree."""
    groups = quantization.get("config_groups")
    of_groups = groups.values() if isinstance(groups, dict) else ()
    weights = [group.get("weights") for group in of_groups if isinstance(group, dict)]
    bits = {str(weight.get("num_bits")) for weight in weights if isinstance(weight, dict)}
    return int(*bits) if len(bits) == 1 and all(map(str.isdecimal, bits)) else None


def _config_at(path: str) -> dict[str, Any]:
    """Return the content of a config, empty if there is no config."""
    try:
        return read_object(path)
    except CheckpointError as error:
        if error.rule in _ABSENT:
            return {}
        raise
