"""An inspection: the content of a checkpoint, read from its headers."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge import data, readers, units
from weighbridge.answers.answer import TabularAnswer
from weighbridge.answers.data_table import INTEGER, Column, DataTable
from weighbridge.blueprint.roles import component_of, role_of
from weighbridge.errors import UsageError, printable, shorten
from weighbridge.render.document import Aside, Document, Notes, Title, Together
from weighbridge.render.table import Table
from weighbridge.render.words import label, words

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from weighbridge.ledger.rows import Row
    from weighbridge.readers import StoredCheckpoint, Watch

GROUPINGS = ("component", "role", "layer", "dtype", "tensor")
_LAYER = re.compile(r"^(?:.*?\.)?\d+(?=\.)")
"""Matches the path of the outermost module with an index."""
_MOST_SHOWN = 12  # entries of the metadata that a text shows
_LONGEST_VALUE = 60


def inspect(path: str | os.PathLike[str], watch: Watch | None = None) -> Inspection:
    """List the tensors of a checkpoint with their shapes, dtypes, roles and bytes.

    Only headers are read, no weights.

    Args:
        path: a checkpoint file, a pattern or index for several, or a folder with
            either; or the address of a remote one: ``https://…``, ``hf://org/name@revision``,
            ``s3://…``.
        watch: called after each remote file, with the number of files read and of all files.

    Raises:
        CheckpointError: there is nothing to read, or it breaks a rule of its format.

    Example:
        >>> import os, tempfile
        >>> header = b'{"pooler.dense.bias":{"dtype":"BF16","shape":[3],"data_offsets":[0,6]}}'
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        ...         _ = file.write(len(header).to_bytes(8, "little") + header + bytes(6))
        ...     inspection = inspect(folder)
        >>> inspection.parameters, inspection.bytes, inspection.by("component")["pooler"].tensors
        (3, 6, 1)
    """
    return Inspection(readers.read(path, watch))


class Weight(NamedTuple):
    """The count of some tensors: their number, their parameters, and their stored size.

    ``elements`` counts the numbers in the files: a scale is one number, and several packed
    parameters together are one. ``bytes`` is the size of these numbers.
    """

    tensors: int
    parameters: int
    elements: int
    bytes: int


class Inspection(TabularAnswer):
    """What `inspect` returns.

    ``parameters`` is a logical count: packed parameters count one by one, and scales do not count.
    A header does not mark buffers, so buffers count as parameters.
    """

    groupings = GROUPINGS

    def __init__(self, checkpoint: StoredCheckpoint) -> None:
        self.checkpoint = checkpoint
        self.rows: tuple[Row, ...] = _with_roles(checkpoint)
        self.total = _sum_of(self.rows)
        self.parameters, self.bytes = self.total.parameters, self.total.bytes

    def by(self, grouping: str) -> dict[str, Weight]:
        """Return the count of each group.

        A group is a ``"component"``, a ``"role"``, a ``"layer"``, a ``"dtype"`` or a ``"tensor"``.

        Raises:
            UsageError: there is no such grouping.
        """
        if grouping not in GROUPINGS:
            hint = f"group by {', '.join(GROUPINGS[:-1])} or {GROUPINGS[-1]}"
            raise UsageError("unknown grouping", values={"by": grouping}, hint=hint)
        groups: dict[str, list[Row]] = {}
        for row in self.rows:
            name = row.name
            if grouping == "layer":
                name = self.checkpoint.called.get(name, name)
            groups.setdefault(_KEYS[grouping](row._replace(name=name)), []).append(row)
        return {name: _sum_of(rows) for name, rows in groups.items()}

    @property
    def evidence(self) -> dict[str, Any]:
        """The headers that the answer was read from."""
        return {
            "files": list(self.checkpoint.files),
            "header_bytes": self.checkpoint.header_bytes,
            "data": "not read",
        }

    def to_dict(
        self,
        by: str = "component",  # noqa: ARG002  # it is asked as a weighing is
    ) -> dict[str, Any]:
        """Return everything, ready for JSON, whatever the grouping of the text."""
        groups = {}
        for grouping in GROUPINGS[:-1]:
            weights = self.by(grouping).items()
            groups[f"{grouping}s"] = {name: weight._asdict() for name, weight in weights}
        return {
            "checkpoint": self.checkpoint.path,
            "format": self.checkpoint.format,
            **self.total._asdict(),
            **groups,
            "rows": [{**row._asdict(), "bytes": row.bytes} for row in self.rows],
            "packed": {name: weight._asdict() for name, weight in self.checkpoint.packed.items()},
            "metadata": self.checkpoint.metadata,
            "evidence": self.evidence,
        }

    def _data_table(self, by: str) -> DataTable:
        """Return a row for each group, or for every tensor."""
        rows: list[tuple[Any, ...]] = []
        if by == "tensor":
            for row in self.rows:
                sizes = (list(row.shape), row.parameters, row.bytes)
                rows.append((row.name, row.role, row.dtype, *sizes))
            shape = Column("shape", INTEGER, joined_by="×")
            numbers = (Column("parameters", INTEGER), Column("bytes", INTEGER))
            texts = (Column(by), Column("role"), Column("dtype"))
            return DataTable((*texts, shape, *numbers), rows)
        for name, weight in self.by(by).items():
            rows.append((name, *weight))
        columns = [Column(name, INTEGER) for name in Weight._fields]
        return DataTable((Column(by), *columns), rows)

    def table(self, by: str = "component", lang: str = "en") -> Table:
        """Return the groups as a table: name, tensors, parameters, share, bytes; and the total."""
        texts = _inspect_words(lang)
        rows: list[tuple[str, ...]] = []
        if by == "tensor":
            for row in self.rows:
                number = units.count(row.count)
                rows.append((printable(row.name), row.dtype, _shape(row) or "1", number))
            rows.append((texts["total"], "", "", units.count(self.parameters)))
            header = (texts["tensor"], texts["dtype"], texts["shape"], texts["parameters"])
            return Table(header, tuple(rows), "<<<>", 1)
        groups, shares = self.by(by), []
        for name, weight in groups.items():
            rows.append((label(printable(name), lang), *_figures(weight, self.total)))
            shares.append(units.fraction(weight.parameters, self.parameters))
        rows.append((texts["total"], *_figures(self.total, self.total)))
        columns = (by, "tensors", "parameters", "share", "bytes")
        names = tuple(texts[column] for column in columns)
        return Table(names, tuple(rows), "<>>>>", 1, tuple(shares), columns.index("share"))

    def document(self, lang: str = "en", by: str = "component") -> Document:
        """Return the inspection as a document, its groups in a table."""
        title = Title(f"{printable(self.checkpoint.path)} · {self.checkpoint.format}")
        notes = Notes(tuple(self._sentences(lang)))
        return Document((Together((title, self.table(by, lang))), notes), lang)

    def _sentences(self, lang: str) -> Iterator[str]:
        texts = _inspect_words(lang)
        yield self._dtypes(texts)
        yield from self._packed(texts)
        pairs = []
        for row in self.rows:
            if row.tied_to:
                names = {"name": printable(row.name), "target": printable(row.tied_to)}
                pairs.append(texts["pair"].format(**names))
        if pairs:
            listed = texts["and"].join(pairs[:_MOST_SHOWN])
            if len(pairs) > _MOST_SHOWN:
                listed += texts["and_more"].format(count=len(pairs) - _MOST_SHOWN)
            yield texts["shared"].format(pairs=listed)
        if self.checkpoint.metadata:
            yield self._metadata(texts)
        files = units.count(len(self.checkpoint.files))
        size = units.count(self.checkpoint.header_bytes)
        yield Aside(texts["evidence"].format(files=files, bytes=size))

    def _dtypes(self, texts: Mapping[str, str]) -> str:
        """List the number of tensors of each dtype, the dtype with the most parameters first."""
        dtypes = []
        for name, weight in sorted(self.by("dtype").items(), key=lambda item: -item[1].parameters):
            tensors, size = units.count(weight.tensors), units.size(weight.bytes)
            dtypes.append(texts["of_dtype"].format(dtype=name, tensors=tensors, size=size))
        return texts["dtypes"].format(dtypes=texts["and"].join(dtypes))

    def _packed(self, texts: Mapping[str, str]) -> Iterator[str]:
        """List the packed weights, their packing, and the number of parameters they represent."""
        ways, unknown = Counter[tuple[str, str]](), Counter[str]()
        for packed in self.checkpoint.packed.values():
            if packed.elements is None:
                unknown[packed.packing] += 1
            else:
                ways[packed.packing, _bits(packed.bits)] += 1
        named = []
        for (name, bits), tensors in ways.most_common():
            key = "way_of_many"
            if bits:
                key = "way"
            named.append(texts[key].format(name=name, bits=bits, tensors=units.count(tensors)))
        if named:
            elements, parameters = units.count(self.total.elements), units.count(self.parameters)
            listed = texts["and"].join(named)
            yield texts["packed"].format(ways=listed, elements=elements, parameters=parameters)
        for name, tensors in unknown.items():
            yield texts["unknown_bits"].format(name=name, tensors=units.count(tensors))

    def _metadata(self, texts: Mapping[str, str]) -> str:
        entries = []
        for key, value in list(self.checkpoint.metadata.items())[:_MOST_SHOWN]:
            shown = [shorten(part, str, _LONGEST_VALUE) for part in (key, value)]
            entries.append(" = ".join(shown))
        sentence = texts["metadata"].format(shown=texts["and"].join(entries))
        if len(self.checkpoint.metadata) > _MOST_SHOWN:
            sentence += texts["more"].format(count=len(self.checkpoint.metadata) - _MOST_SHOWN)
        return sentence


def _with_roles(checkpoint: StoredCheckpoint) -> tuple[Row, ...]:
    """Return the rows of a checkpoint, each with a role from its header or its name."""
    names = {}
    for row in checkpoint.rows:
        if not row.role:
            names[row.name] = checkpoint.called.get(row.name, row.name)
    all_names, rows = list(names.values()), []
    for row in checkpoint.rows:
        if row.name in names:
            rows.append(row._replace(role=role_of(names[row.name], all_names)))
        else:
            rows.append(row)
    return tuple(rows)


def _bits(bits: float | None) -> str:
    if not bits:
        return ""
    return units.number(round(bits, 1)).removesuffix(".0")


def _sum_of(rows: Iterable[Row]) -> Weight:
    tensors = parameters = elements = size = 0
    for row in rows:
        tensors += 1
        parameters += row.parameters
        size += row.bytes
        if not row.tied_to:
            elements += row.count
    return Weight(tensors, parameters, elements, size)


def _figures(weight: Weight, whole: Weight) -> tuple[str, str, str, str]:
    share = units.share(weight.parameters, whole.parameters)
    return (
        units.count(weight.tensors),
        units.count(weight.parameters),
        share,
        units.size(weight.bytes),
    )


def _shape(row: Row) -> str:
    return "×".join(map(str, row.shape))


def _layer(row: Row) -> str:
    """Return the path of a tensor's layer, or else of its module."""
    layer = _LAYER.match(row.name)
    if layer:
        return layer[0]
    return row.name.rpartition(".")[0] or row.name


_KEYS: dict[str, Callable[[Row], str]] = {
    "component": lambda row: component_of(row.role),
    "role": lambda row: row.role,
    "layer": _layer,
    "dtype": lambda row: row.dtype,
    "tensor": lambda row: row.name,
}


def _inspect_words(lang: str) -> dict[str, str]:
    """Return the words of an inspection in a language, including those of all tables."""
    return {**words(lang), **data.read_toml(f"words/inspect.{lang}.toml")}
