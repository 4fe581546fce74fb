"""Recognises the weights that quantised tensors pack, and the scales beside them.

`facts/packings.toml` describes how each library packs weights. Names, dtypes and shapes identify a
packing; if they do not determine the shape or the bits of an element, the metadata of the header or
the config beside the checkpoint does.
"""

from __future__ import annotations

import os
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge import data
from weighbridge.algebra.expr import evaluate, names_in, parse
from weighbridge.errors import CheckpointError, ExpressionError
from weighbridge.readers.header import Packed
from weighbridge.readers.rules import ELEMENTS_LIMIT, parse_object
from weighbridge.readers.stores import read_object

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from weighbridge.algebra.expr import Tree
    from weighbridge.ledger.rows import Row

    Rows = Mapping[str, Row]

_PARTS = {"scales": "scale", "zeros": "zero", "indices": "index", "tables": "table"}
_ABSENT = ("missing", "404-not-found")
_CONFIGS = ("config.json", "quantize_config.json")
_STATED = {"bits": 32, "group_size": 1 << 20}  # what rules may take from a config, and the largest
_INTEGERS = ("U8", "I8", "U16", "I16", "U32", "I32", "U64", "I64", "U4", "I4", "U2", "I2")
_COUNTERS = ("position_ids", "token_type_ids", "num_batches_tracked", "relative_position_index")
_NEGLIGIBLE = 1000  # integers are, if they take less than this part of the bytes
_LONGEST_STATEMENT = 10_000  # characters of the metadata about one tensor


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
    types: frozenset[str]
    of_config: frozenset[str]

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

    def weight_name(self, name: str) -> str:
        """Return the name of the weight that a tensor packs."""
        base = self.base(name)
        if self.types:
            path, dot, last = base.rpartition(".")
            base = path + dot + last.removeprefix("_")
        return base + self.called

    def rows_beside(self, row: Row, rows: Rows) -> Iterator[tuple[Row, str]]:
        """Yield the tensors that belong to a packed one, such as scales, each with its role."""
        base = self.base(row.name)
        for ending, role in self.roles.items():
            if base + ending in rows:
                yield rows[base + ending], role


def unpack(
    rows: Rows,
    folder: str,
    metadata: Mapping[str, str] | None = None,
    marked: Mapping[str, Packed] | None = None,
) -> tuple[dict[str, Row], dict[str, Packed]]:
    """Return rows that count unpacked weights, and the packed weights by their stored names.

    Scales, zeros, indices and tables get roles of their own, and add nothing to the parameters. If
    shapes do not determine the bits of an element, they are read from the config in ``folder``.
    Some libraries state the type of each tensor in the ``metadata`` of the header. The ``marked``
    weights are those that the format itself marks as packed; their rows are already counted.

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
    unpacked, packed = dict(rows), dict(marked or {})
    sources = _Sources(folder, metadata or {})
    for row in _likely(rows):
        if row.name in packed or row.role.startswith("quantization."):
            continue
        match = _match(row, rows, sources)
        if match is None:
            continue
        packing, weight = match
        packed[row.name] = weight
        for beside, role in packing.rows_beside(row, rows):
            unpacked[beside.name] = beside._replace(role=role, parameters=0)
        if weight.elements is not None:
            unpacked[row.name] = row._replace(role="", parameters=weight.elements)
    return unpacked, packed


def unexplained(rows: Iterable[Row], packed: Mapping[str, Packed]) -> list[Row]:
    """Return the tensors of integers that no packing explains, if they are not negligible.

    They may be weights that an unknown library has packed, or buffers, such as masks. Positions and
    counters are left out, and if all take less than a thousandth of the bytes, the list is empty.

    Example:
        >>> from weighbridge.ledger.rows import Row
        >>> def row(name, dtype, count):
        ...     return Row(name, (count,), dtype, "", (), count, count)
        >>> rows = [row("up.codes", "I16", 500), row("norm.weight", "F32", 10)]
        >>> [row.name for row in unexplained(rows, {})]
        ['up.codes']
        >>> unexplained([row("position_ids", "I64", 512), row("norm.weight", "F32", 10)], {})
        []
    """
    rows = list(rows)
    integers = [
        row
        for row in rows
        if row.dtype in _INTEGERS and row.parameters and row.name not in packed
        if not row.name.endswith(_COUNTERS)
    ]
    integer_bytes = sum(row.bytes for row in integers)
    if not integers or integer_bytes * _NEGLIGIBLE < sum(row.bytes for row in rows):
        return []
    return integers


def _match(row: Row, rows: Rows, sources: _Sources) -> tuple[_Packing, Packed] | None:
    """Return the first packing that a tensor fits, and the weight that it packs."""
    for packing in _packings():
        if packing.fits(row, rows):
            weight = _packed(row, packing, rows, sources)
            if weight is not None:
                return packing, weight
    return None


def _likely(rows: Rows) -> list[Row]:
    """Return the rows with a dtype that weights are packed into; most checkpoints have none."""
    dtypes = frozenset[str]().union(*(packing.dtypes for packing in _packings()))
    return [row for row in rows.values() if row.dtype in dtypes]


def _packed(row: Row, packing: _Packing, rows: Rows, sources: _Sources) -> Packed | None:
    """Return the weight that a tensor holds under a packing; None if it does not fit."""
    base, name = packing.base(row.name), packing.weight_name(row.name)
    known: dict[str, Any] = {
        ending.lstrip("._") or "weight": rows[base + ending].shape
        for ending in (packing.weight, *packing.needs, *packing.any)
        if base + ending in rows
    }
    if packing.types:
        statement = sources.statement(name)
        if str(statement.get("_type")) not in packing.types:
            return None
        known["stated"] = _stated_shape(statement)
    beside = tuple(base + ending for ending in packing.roles if base + ending in rows)
    weight = Packed(packing.name, name, None, None, None, beside)
    if packing.of_config:
        known.update(sources.of_config(base))
    missing = packing.of_config - known.keys()
    try:
        if missing.isdisjoint(names_in(packing.holds)) and not _holds(packing, known):
            return None
        if missing:
            return weight
        return _unpacked(weight, packing, known)
    except ExpressionError:
        return None


def _holds(packing: _Packing, known: Mapping[str, Any]) -> bool:
    return evaluate(packing.holds, known) is True


def _unpacked(weight: Packed, packing: _Packing, known: Mapping[str, Any]) -> Packed | None:
    """Return a weight with its shape, elements and bits; None if they are impossible."""
    shape = tuple(_flat(evaluate(tree, known) for tree in packing.shape))
    elements = evaluate(packing.elements, known) if packing.elements else prod(shape)
    if any(size < 0 for size in shape) or not 0 <= elements < ELEMENTS_LIMIT:
        return None
    return weight._replace(
        shape=None if packing.elements else shape,
        elements=elements,
        bits=evaluate(packing.bits, known),
    )


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
    shape = tuple(map(parse, entry.get("shape", "").split()))
    elements = parse(entry["elements"]) if "elements" in entry else None
    bits = parse(entry.get("bits", "null"))
    holds = parse(entry.get("if", "true"))
    trees = [tree for tree in (holds, *shape, elements, bits) if tree is not None]
    names = {name for tree in trees for name in names_in(tree)}
    return _Packing(
        name,
        entry["weight"],
        frozenset(entry["dtypes"]),
        needs=tuple(entry.get("needs", ())),
        any=tuple(entry.get("any", ())),
        lacks=tuple(entry.get("lacks", ())),
        holds=holds,
        shape=shape,
        elements=elements,
        bits=bits,
        roles=_roles(entry),
        called=entry.get("as", ".weight"),
        types=frozenset(entry.get("types", ())),
        of_config=frozenset(names.intersection(_STATED)),
    )


def _roles(entry: Mapping[str, Any]) -> dict[str, str]:
    """Return the role of each tensor beside a packed one, by the ending of its name."""
    return {
        ending: f"quantization.{role}"
        for part, role in _PARTS.items()
        for ending in entry.get(part, ())
    }


class _Sources:
    """What is known beside names and shapes: the metadata, and the config of the folder.

    The config is read when it is needed.
    """

    def __init__(self, folder: str, metadata: Mapping[str, str]) -> None:
        self.folder, self.metadata = folder, metadata
        self._quantization: dict[str, Any] | None = None

    def of_config(self, path: str) -> dict[str, int]:
        """Return the bits and the group size of a module, which may have its own."""
        if self._quantization is None:
            self._quantization = _quantization(self.folder)
        own_entry = self._quantization.get(path)
        entry = own_entry if isinstance(own_entry, dict) else self._quantization
        values = {name: entry.get(name) for name in _STATED}
        return {
            name: value
            for name, value in values.items()
            if type(value) is int and 1 <= value <= _STATED[name]
        }

    def statement(self, name: str) -> dict[str, Any]:
        """Return what the metadata says about a tensor, as torchao writes it; empty if nothing."""
        text = self.metadata.get(name, "")
        if not text.startswith("{") or len(text) > _LONGEST_STATEMENT:
            return {}
        try:
            return parse_object(text.encode(), name)
        except CheckpointError:
            return {}


def _stated_shape(statement: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the shape in a statement of the metadata; empty if there is none."""
    about = statement.get("_data")
    shape = about.get("shape") if isinstance(about, dict) else None
    if isinstance(shape, list) and all(type(size) is int for size in shape):
        return tuple(shape)
    return ()


def _quantization(folder: str) -> dict[str, Any]:
    """Return the quantisation in a folder's config, as the libraries write it.

    The bits and the group size have the names that transformers, MLX and AutoGPTQ give them.
    """
    for name in _CONFIGS:
        config = _config_at(os.path.join(folder, name))
        entry = config.get("quantization") or config.get("quantization_config") or config
        if isinstance(entry, dict) and (stated := _bits_and_group(entry)):
            return {**entry, **stated}
    return {}


def _bits_and_group(quantization: Mapping[str, Any]) -> dict[str, Any]:
    """Return the bits and the group size of a quantisation, by the usual names."""
    if "bits" in quantization:
        return {name: quantization[name] for name in _STATED if name in quantization}
    groups = quantization.get("config_groups")
    if isinstance(groups, dict):
        return _of_groups(groups.values())
    of_hqq = quantization.get("quant_config")
    if isinstance(of_hqq, dict):
        weights = of_hqq.get("weight_quant_params")
        return _renamed(weights, bits="nbits", group_size="group_size")
    return {}


def _renamed(entry: object, **names: str) -> dict[str, Any]:
    if not isinstance(entry, dict):
        return {}
    return {ours: entry[theirs] for ours, theirs in names.items() if theirs in entry}


def _of_groups(groups: Iterable[object]) -> dict[str, Any]:
    """Return what all groups of compressed-tensors agree on."""
    weights = [group.get("weights") for group in groups if isinstance(group, dict)]
    stated = [_renamed(entry, bits="num_bits", group_size="group_size") for entry in weights]
    return {
        name: stated[0][name]
        for name in _STATED
        if stated and all(name in entry and entry[name] == stated[0].get(name) for entry in stated)
    }


def _config_at(path: str) -> dict[str, Any]:
    """Return the content of a config, empty if there is no config."""
    try:
        return read_object(path)
    except CheckpointError as error:
        if error.rule in _ABSENT:
            return {}
        raise
