"""Reads the initializers of an ONNX model: its weights.

A model is a Protocol Buffers message: a sequence of fields, each with its number, its kind and its
value, which may be a message again. Data is skipped by its length. The fields are defined in
https://github.com/onnx/onnx (``onnx/onnx.proto``). Data in other files is not read; only the sizes
of these files are checked.
"""

from __future__ import annotations

import os
from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from weighbridge.blueprint.roles import role_of
from weighbridge.readers.header import Header, found_row
from weighbridge.readers.onnx_graph import (
    SIZED,
    GraphNode,
    is_nameless,
    names_of_weights,
    packed_weights,
    roles_beside,
)
from weighbridge.readers.rules import FETCH, REWRITE, Rule, elements
from weighbridge.readers.stores import open_file, read_exactly, size_of
from weighbridge.readers.stores.disk import inside
from weighbridge.units import stored_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from weighbridge.ledger.rows import Row
    from weighbridge.readers.header import Packed

MOST_DIMS = 64
MOST_FIELDS = 400_000
LONGEST_TEXTS = 20_000_000  # bytes, of all texts together
MOST_NODES = 100_000  # of a graph that are searched for the names of its matrices
_PIECE = 1 << 12
_LONGEST_TEXT = 1 << 16

MESSAGE = Rule(
    "onnx-message",
    "an ONNX model must be a message of fields, each inside the field that contains it",
    FETCH,
)
LIMIT = Rule(
    "onnx-limit",
    f"a model may have at most {MOST_FIELDS:,} fields and {LONGEST_TEXTS:,} bytes of texts",
    FETCH,
)
GRAPH = Rule("onnx-graph", "an ONNX model must have a graph", FETCH)
TEXT = Rule("onnx-text", f"a text must be UTF-8, of at most {_LONGEST_TEXT:,} bytes", REWRITE)
TYPE = Rule(
    "onnx-type",
    "an initializer must hold numbers, of a type that ONNX supports",
    "update weighbridge",
)
SHAPE = Rule(
    "onnx-shape",
    f"an initializer must have at most {MOST_DIMS} dims, none negative, "
    "and fewer than 2^63 elements",
    REWRITE,
)
SIZE = Rule("onnx-size", "the length of an initializer's data must match its shape and type", FETCH)
TWICE = Rule("onnx-twice", "an initializer's name may occur only once", REWRITE)
PATH = Rule(
    "onnx-path",
    "external data must be in a file inside the model's folder",
    "do not trust this checkpoint",
)
MISSING = Rule(
    "onnx-missing", "the file with the external data does not exist", "fetch the missing file"
)
BEYOND = Rule("onnx-beyond", "external data must lie inside its file", FETCH)

# Source: TensorProto.DataType of onnx/onnx.proto.
_TYPES = {
    1: "F32",
    2: "U8",
    3: "I8",
    4: "U16",
    5: "I16",
    6: "I32",
    7: "I64",
    9: "BOOL",
    10: "F16",
    11: "F64",
    12: "U32",
    13: "U64",
    14: "C64",
    15: "C128",
    16: "BF16",
    17: "F8_E4M3",
    18: "F8_E4M3FNUZ",
    19: "F8_E5M2",
    20: "F8_E5M2FNUZ",
    21: "U4",
    22: "I4",
    23: "F4",
    24: "F8_E8M0",
    25: "U2",
    26: "I2",
    27: "F6_E2M3",
    28: "F6_E3M2",
}

# The numbers of the fields.
_GRAPH, _METADATA = 7, 14  # of a model
_NODE, _INITIALIZER = 1, 5  # of a graph
_INPUT, _OUTPUT, _NODE_NAME, _OPERATION, _ATTRIBUTE = 1, 2, 3, 4, 5  # of a node
_ATTRIBUTE_NAME, _ATTRIBUTE_INTEGER = 1, 3  # of an attribute
_DIMS, _DATA_TYPE, _NAME, _RAW, _EXTERNAL, _LOCATION = 1, 2, 8, 9, 13, 14  # of a tensor
_KEY, _VALUE = 1, 2  # of a pair of texts
_OF_THE_GRAPH = ("I64", "I32", "BOOL")
_QUANTISED = ("I8", "U8", "I4", "U4", "I2", "U2", "I16", "U16", "I32")
_VARINT, _FIXED_64, _BYTES, _FIXED_32 = 0, 1, 2, 5  # kinds of values


class _Field(NamedTuple):
    """A field of a message: its number, and an integer or the range of its bytes."""

    number: int
    value: int
    begin: int = 0
    end: int = 0


class _Initializer(NamedTuple):
    """An initializer as the model describes it."""

    name: str
    kind: int
    shape: tuple[int, ...]
    raw_bytes: int | None
    outside: dict[str, str]


def recognise(start: bytes) -> bool:
    r"""Return whether a file's first 9 bytes look like ONNX: a small version in the first field.

    Example:
        >>> recognise(b"\x08\x07\x12\x07pytorch"[:9]), recognise(b"GGUF\x03\x00\x00\x00\x00")
        (True, False)
    """
    return (
        start[:1] == b"\x08"
        and start[1:2] < b"\x40"
        and start[2:3] in (b"\x12", b"\x1a", b"\x22", b"\x3a", b"\x42")
    )


def read(path: str) -> Header:
    """Return the initializers of a model's graph, in order.

    Among them are sizes, indices and single numbers of the computation, which become constants.
    Exporters also store the transposed matrix of a linear layer under a name without a meaning;
    ``called`` then has the name of the weight, which follows from the graph. ``packed`` are the
    initializers that the graph takes as quantised weights.

    Raises:
        CheckpointError: the file breaks a rule of the format; the message starts with the rule's
            name.
    """
    with open_file(path) as file:
        reader = _OnnxReader(file, path)
        graphs, metadata = _graphs(reader)
        rows, operations = _initializers(reader, graphs)
        nodes = list(_nodes(reader, operations, rows))
        packed = packed_weights(nodes, rows)
        rows = _with_parts(rows, packed, roles_beside(nodes, rows, packed))
        nameless = {name for name, row in rows.items() if is_nameless(row, packed.get(name))}
        called = names_of_weights(nameless, nodes, rows, packed)
        header_bytes = reader.read
    return Header(tuple(rows.values()), metadata, header_bytes, called, packed=packed)


def _nodes(
    reader: _OnnxReader, operations: Iterable[_Field], rows: Mapping[str, Row]
) -> Iterator[GraphNode]:
    """Yield the operations of the graph, if the tensors alone do not explain themselves."""
    if any(row.dtype in _QUANTISED or is_nameless(row, None) for row in rows.values()):
        for field in operations:
            yield reader.node(field)


def _with_parts(
    rows: Mapping[str, Row], packed: Mapping[str, Packed], roles: Mapping[str, str]
) -> dict[str, Row]:
    """Return rows that count unpacked weights, and no scales, zeros or indices."""
    counted = dict(rows)
    for name, role in roles.items():
        counted[name] = rows[name]._replace(role=role, parameters=0)
    for name, weight in packed.items():
        parameters = rows[name].count if weight.elements is None else weight.elements
        counted[name] = rows[name]._replace(role="", parameters=parameters)
    return counted


def _graphs(reader: _OnnxReader) -> tuple[list[_Field], dict[str, str]]:
    """Return the graphs of a model, which must have at least one, and its metadata."""
    graphs, metadata = [], dict[str, str]()
    for field in reader.fields(0, reader.file_bytes):
        if field.number == _GRAPH:
            graphs.append(field)
        elif field.number == _METADATA:
            metadata.update([reader.pair(field)])
    if not graphs:
        raise GRAPH.broken(reader.path, file_bytes=reader.file_bytes)
    return graphs, metadata


def _initializers(
    reader: _OnnxReader, graphs: Iterable[_Field]
) -> tuple[dict[str, Row], list[_Field]]:
    """Return the rows of the initializers in some graphs, and the messages of their operations."""
    rows: dict[str, Row] = {}
    operations: list[_Field] = []
    for graph in graphs:
        for field in reader.fields(graph.begin, graph.end):
            if field.number == _NODE and len(operations) < MOST_NODES:
                operations.append(field)
            elif field.number == _INITIALIZER:
                tensor = reader.tensor(field)
                if tensor.name in rows:
                    raise TWICE.broken(reader.path, tensor=tensor.name)
                rows[tensor.name] = _initializer_row(tensor, reader.path)
    return rows, operations


class _OnnxReader:
    """Walks through messages field by field, and reads only the bytes that are needed."""

    def __init__(self, file: BinaryIO, path: str) -> None:
        self._file, self.path = file, path
        self.file_bytes = size_of(file)
        self.read = self._fields = self._text_bytes = 0
        self._piece, self._before = b"", 0

    def _byte(self, at: int, end: int) -> int:
        if at >= end:
            raise MESSAGE.broken(self.path, at=at, ends=end)
        if not 0 <= at - self._before < len(self._piece):
            length = min(_PIECE, self.file_bytes - at)
            self._piece, self._before = read_exactly(self._file, at, length, self.path), at
            self.read += len(self._piece)
        return self._piece[at - self._before]

    def _varint(self, at: int, end: int) -> tuple[int, int]:
        """Return an integer with 7 bits in each byte, and the offset after it."""
        byte = self._byte(at, end)
        if byte < 0x80:
            return byte, at + 1
        value = shift = 0
        while True:
            byte = self._byte(at, end)
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, at
            shift += 7
            if shift > 63:
                raise MESSAGE.broken(self.path, at=at, problem="an integer has more than 64 bits")

    def fields(self, at: int, end: int) -> Iterator[_Field]:
        """Yield the fields of the message in a range of bytes."""
        while at < end:
            self._fields += 1
            if self._fields > MOST_FIELDS:
                raise LIMIT.broken(self.path, at=at, file_bytes=self.file_bytes)
            tag, at = self._varint(at, end)
            number, kind = tag >> 3, tag & 7
            if kind == _VARINT:
                value, at = self._varint(at, end)
                yield _Field(number, value)
                continue
            if kind == _BYTES:
                length, at = self._varint(at, end)
            elif kind in (_FIXED_64, _FIXED_32):
                length = 8 if kind == _FIXED_64 else 4
            else:
                raise MESSAGE.broken(self.path, at=at, kind=kind)
            if length > end - at:
                raise MESSAGE.broken(self.path, at=at, bytes=length, ends=end)
            yield _Field(number, 0, at, at + length)
            at += length

    def text(self, field: _Field) -> str:
        """Return the text of a field."""
        length = field.end - field.begin
        if length > _LONGEST_TEXT:
            raise TEXT.broken(self.path, bytes=length)
        self._text_bytes += length
        if self._text_bytes > LONGEST_TEXTS:
            raise LIMIT.broken(self.path, text_bytes=self._text_bytes)
        at = field.begin - self._before
        inside_piece = 0 <= at <= len(self._piece) - length
        raw = (
            self._piece[at : at + length]
            if inside_piece
            else read_exactly(self._file, field.begin, length, self.path)
        )
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise TEXT.broken(self.path, found=raw) from None

    def pair(self, field: _Field) -> tuple[str, str]:
        """Return a key and its value."""
        texts = {
            part.number: self.text(part)
            for part in self.fields(field.begin, field.end)
            if part.number in (_KEY, _VALUE)
        }
        return texts.get(_KEY, ""), texts.get(_VALUE, "")

    def _numbers(self, field: _Field) -> Iterator[int]:
        """Yield the integers of a field, which may hold several."""
        if not field.end:
            yield field.value
        at = field.begin
        while at < field.end:
            value, at = self._varint(at, field.end)
            yield value

    def node(self, message: _Field) -> GraphNode:
        """Return the operation that a message describes."""
        inputs, attributes, texts = list[str](), list[_Field](), dict[int, str]()
        for field in self.fields(message.begin, message.end):
            if field.number == _INPUT:
                inputs.append(self.text(field))
            elif field.number in (_OUTPUT, _NODE_NAME, _OPERATION):
                texts.setdefault(field.number, self.text(field))
            elif field.number == _ATTRIBUTE:
                attributes.append(field)
        output, name, operation = (
            texts.get(number, "") for number in (_OUTPUT, _NODE_NAME, _OPERATION)
        )
        integers: dict[str, int] = {}
        if operation in SIZED:
            integers = dict(map(self._integer, attributes))
        return GraphNode(tuple(inputs), output, name, operation, integers)

    def _integer(self, attribute: _Field) -> tuple[str, int]:
        """Return the name of an attribute and its integer, 0 if it has none."""
        name, value = "", 0
        for field in self.fields(attribute.begin, attribute.end):
            if field.number == _ATTRIBUTE_NAME:
                name = self.text(field)
            elif field.number == _ATTRIBUTE_INTEGER:
                value = field.value
        return name, value

    def tensor(self, message: _Field) -> _Initializer:
        """Return the tensor that a message describes."""
        name, kind, raw_bytes, is_external = "", 0, None, False
        shape, outside = list[int](), dict[str, str]()
        for field in self.fields(message.begin, message.end):
            if field.number == _NAME:
                name = self.text(field)
            elif field.number == _DATA_TYPE:
                kind = field.value
            elif field.number == _DIMS:
                shape += islice(self._numbers(field), MOST_DIMS + 1 - len(shape))
                if len(shape) > MOST_DIMS:
                    raise SHAPE.broken(self.path, tensor=name, dims=len(shape))
            elif field.number == _RAW:
                raw_bytes = field.end - field.begin
            elif field.number == _EXTERNAL:
                outside.update([self.pair(field)])
            elif field.number == _LOCATION:
                is_external = field.value == 1
        if not is_external:
            outside = {}
        return _Initializer(name, kind, tuple(shape), raw_bytes, outside)


def _initializer_row(tensor: _Initializer, path: str) -> Row:
    if tensor.kind not in _TYPES:
        raise TYPE.broken(path, tensor=tensor.name, type=tensor.kind)
    dtype, count = _TYPES[tensor.kind], elements(tensor.shape)
    if count is None:
        raise SHAPE.broken(path, tensor=tensor.name, shape=tensor.shape)
    taken = stored_bytes(count, dtype)
    if tensor.raw_bytes is not None and tensor.raw_bytes != taken:
        raise SIZE.broken(path, tensor=tensor.name, bytes=tensor.raw_bytes, expected_bytes=taken)
    if tensor.outside:
        _check_outside(tensor, taken, path)
    row = found_row(tensor.name, tensor.shape, dtype, count)
    if dtype in _OF_THE_GRAPH or (not tensor.shape and role_of(tensor.name) == "other"):
        return row._replace(role="constant", parameters=0)
    return row


def _check_outside(tensor: _Initializer, taken: int, path: str) -> None:
    """Check that external data is complete, in a file inside the model's folder."""
    place: dict[str, Any] = {key: tensor.outside.get(key, "0") for key in ("offset", "length")}
    if not all(
        number.isascii() and number.isdigit() and len(number) <= 20 for number in place.values()
    ):
        raise BEYOND.broken(path, tensor=tensor.name, **place)
    offset, length = int(place["offset"]), int(place["length"]) or taken
    other = inside(os.path.dirname(path), tensor.outside.get("location", ""), path, PATH, MISSING)
    with open_file(other) as file:
        if length != taken or offset + length > size_of(file):
            raise BEYOND.broken(
                path,
                tensor=tensor.name,
                data_file=other,
                begins=offset,
                bytes=length,
                expected_bytes=taken,
            )
