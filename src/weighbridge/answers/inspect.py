"""An inspection: the content of a checkpoint, read from its headers."""

from __future__ import annotations

import os
import re
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge import data, readers, units
from weighbridge.answers import adapter as adapters
from weighbridge.answers.answer import TabularAnswer
from weighbridge.answers.data_table import INTEGER, Column, DataTable
from weighbridge.blueprint.roles import component_of, role_of
from weighbridge.errors import UsageError, printable, shorten
from weighbridge.readers.adapter import adapter_in
from weighbridge.readers.numbering import note_on_part
from weighbridge.readers.packing import unexplained
from weighbridge.readers.paths import are_slices, left_out_of, paths_in_brief
from weighbridge.readers.sentence import models_in, transformer_alone
from weighbridge.readers.severity import INNOCUOUS
from weighbridge.readers.wrappers import named_wrappers
from weighbridge.render.document import Aside, Document, Notes, Title, Together
from weighbridge.render.table import Table
from weighbridge.render.words import label, words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from weighbridge.ledger.rows import Row
    from weighbridge.readers import StoredCheckpoint, Watch
    from weighbridge.render.document import Block

GROUPINGS = ("component", "role", "layer", "dtype", "tensor")
_LAYER = re.compile(r"^(?:.*?\.)?\d+(?=\.)")
"""Matches the path of the outermost module with an index."""
_MOST_SHOWN = 12  # entries of the metadata that a text shows
_LONGEST_VALUE = 60
_FIRST = 3  # tensors of integers that a text names


def inspect(path: str | os.PathLike[str], watch: Watch | None = None) -> Inspection:
    """List the tensors of a checkpoint with their shapes, dtypes, roles and bytes.

    Only headers are read, no weights.

    Args:
        path: a checkpoint file, a pattern or index for several, or a folder with
            either; or the address of a remote one: ``https://…``, ``hf://org/name@revision``,
            ``s3://…``.
        watch: called after each remote file, with the number of files read and of all files.

    Raises:
        CheckpointError: there is nothing to read, or it breaks a rule of its format, or the path
            means several checkpoints; `inspect_all` lists these.

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


def inspect_all(
    path: str | os.PathLike[str], watch: Watch | None = None
) -> Inspection | Inspections:
    """List the tensors of a checkpoint or, if a path means several, each with its total.

    Args:
        path: as for `inspect`, or the folder of a pipeline of diffusers or of a model of
            sentence-transformers, which are several models.
        watch: as for `inspect`.

    Raises:
        CheckpointError: there is nothing to read, or a file breaks a rule of its format.

    Example:
        >>> import os, tempfile
        >>> header = b'{"pooler.dense.bias":{"dtype":"BF16","shape":[3],"data_offsets":[0,6]}}'
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for name in ("first.safetensors", "second.safetensors"):
        ...         with open(os.path.join(folder, name), "wb") as file:
        ...             _ = file.write(len(header).to_bytes(8, "little") + header + bytes(6))
        ...     inspections = inspect_all(folder)
        >>> inspections.names
        ['first.safetensors', 'second.safetensors']
        >>> [inspection.parameters for inspection in inspections.inspections]
        [3, 3]
    """
    if pipeline := _pipeline(path):
        inspections = [Inspection(readers.read(place, watch)) for place in pipeline]
        return Inspections(printable(os.fspath(path)), inspections)
    checkpoints = readers.read_all(path, watch)
    files = [file for checkpoint in checkpoints for file in checkpoint.files]
    left_out = left_out_of(path, files)
    if len(checkpoints) == 1:
        return Inspection(checkpoints[0], left_out)
    inspections = [Inspection(checkpoint) for checkpoint in checkpoints]
    return Inspections(printable(os.fspath(path)), inspections, left_out)


def _pipeline(path: object) -> list[str]:
    """Return the folders of the models in a pipeline of diffusers; none for other paths."""
    if not isinstance(path, str | os.PathLike):
        return []
    folder = os.fspath(path)
    described = models_in(folder)
    if described is None or transformer_alone(described):
        return []
    return [os.path.join(folder, one.path) for one in described.components.values()]


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
    A header does not mark buffers, so buffers count as parameters. ``unexplained`` are the tensors
    of integers that no known packing explains; each of their numbers counts as one parameter.
    ``adapter`` is what PEFT has trained, if the checkpoint is an adapter, or else None.
    """

    groupings = GROUPINGS

    def __init__(self, checkpoint: StoredCheckpoint, left_out: Sequence[str] = ()) -> None:
        self.checkpoint, self.left_out = checkpoint, left_out
        self.rows: tuple[Row, ...] = _with_roles(checkpoint)
        self.total = _sum_of(self.rows)
        self.unexplained = unexplained(self.rows, checkpoint.packed)
        self.adapter = adapter_in(checkpoint)
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
                name = self.checkpoint.own_name(name)
            groups.setdefault(_KEYS[grouping](row._replace(name=name)), []).append(row)
        return {name: _sum_of(rows) for name, rows in groups.items()}

    @property
    def notes(self) -> list[str]:
        """The other files of the checkpoint, and other checkpoints, that were not read."""
        return [*note_on_part(self.checkpoint.files), *_notes_on(self.left_out)]

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
            "wrappers": list(self.checkpoint.wrappers),
            "packed": {name: weight._asdict() for name, weight in self.checkpoint.packed.items()},
            "unexplained": [row.name for row in self.unexplained],
            "adapter": self.adapter and adapters.described(self.adapter),
            "metadata": self.checkpoint.metadata,
            "pickle": dict.fromkeys(self.checkpoint.named, INNOCUOUS),
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
                number = units.count(_shown_elements(row))
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
        if self.adapter:
            yield adapters.sentence(self.adapter, lang)
        yield self._dtypes(texts)
        yield from self._packed(texts)
        yield from self._training(texts, lang)
        if self.unexplained:
            yield self._unexplained(texts)
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
        yield from self._duplicates(texts)
        yield from self._absent(texts)
        if self.checkpoint.metadata:
            yield self._metadata(texts)
        if self.checkpoint.named:
            shown = [printable(name) for name in self.checkpoint.named]
            yield Aside(texts["pickle"].format(names=texts["and"].join(shown)))
        files = units.count(len(self.checkpoint.files))
        size = units.count(self.checkpoint.header_bytes)
        yield Aside(texts["evidence"].format(files=files, bytes=size))

    def _dtypes(self, texts: Mapping[str, str]) -> str:
        """List the number of tensors of each dtype, the dtype with the most parameters first."""
        if not self.rows:
            return texts["no_tensors"]
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

    def _training(self, texts: Mapping[str, str], lang: str) -> Iterator[str]:
        """Name the wrappers of trainers, and the size of what is not of the model."""
        if self.checkpoint.wrappers:
            wrappers = texts["and"].join(named_wrappers(self.checkpoint.wrappers))
            yield texts["wrapped"].format(wrappers=printable(wrappers))
        parts = []
        for role, weight in self.by("role").items():
            if role.startswith("training."):
                size = units.size(weight.bytes)
                parts.append(texts["part"].format(name=label(role, lang), size=size))
        if parts:
            yield texts["training"].format(parts=texts["and"].join(parts))
        of_model = [row for row in self.rows if not row.role.startswith("training.")]
        empty = sum(not row.count for row in of_model)
        if 2 * empty > len(of_model):
            numbers = {"empty": units.count(empty), "tensors": units.count(len(of_model))}
            yield texts["empty"].format(**numbers)

    def _duplicates(self, texts: Mapping[str, str]) -> Iterator[str]:
        """List the tensors that several files hold, of which only the first is counted."""
        names = list(self.checkpoint.duplicates)
        if names:
            yield texts["twice"].format(
                count=units.count(len(names)), names=_first_names(names, texts)
            )

    def _absent(self, texts: Mapping[str, str]) -> Iterator[str]:
        """List the tensors that the index names and no file holds."""
        held = {row.name for row in self.rows}
        names = [name for name in self.checkpoint.absent if name not in held]
        if names:
            yield texts["absent"].format(
                count=units.count(len(names)), names=_first_names(names, texts)
            )

    def _unexplained(self, texts: Mapping[str, str]) -> str:
        """Say how many bytes are integers of an unknown meaning, and where they are."""
        names = [printable(row.name) for row in self.unexplained[:_FIRST]]
        if len(self.unexplained) > _FIRST:
            names.append("…")
        return texts["unexplained"].format(
            tensors=units.count(len(self.unexplained)),
            share=units.share(sum(row.bytes for row in self.unexplained), self.bytes),
            names=texts["and"].join(names),
        )

    def _metadata(self, texts: Mapping[str, str]) -> str:
        entries = []
        for key, value in list(self.checkpoint.metadata.items())[:_MOST_SHOWN]:
            shown = [shorten(part, str, _LONGEST_VALUE) for part in (key, value)]
            entries.append(" = ".join(shown))
        sentence = texts["metadata"].format(shown=texts["and"].join(entries))
        if len(self.checkpoint.metadata) > _MOST_SHOWN:
            sentence += texts["more"].format(count=len(self.checkpoint.metadata) - _MOST_SHOWN)
        return sentence


class Inspections(TabularAnswer):
    """What `inspect_all` returns for several checkpoints: they are listed, and not added up.

    ``names`` are their paths, without the folders that all of them share.
    """

    groupings = GROUPINGS

    def __init__(
        self, path: str, inspections: Sequence[Inspection], left_out: Sequence[str] = ()
    ) -> None:
        self.path, self.left_out = path, left_out
        self.inspections = tuple(inspections)
        paths = [inspection.checkpoint.path for inspection in inspections]
        self.names = [printable(name) for name in paths_in_brief(paths)]
        self.is_sliced = are_slices(paths)

    @property
    def notes(self) -> list[str]:
        """The other checkpoints in the folder, which were not read."""
        return _notes_on(self.left_out)

    def to_dict(self, by: str = "component") -> dict[str, Any]:
        """Return everything about each checkpoint, ready for JSON."""
        checkpoints = [inspection.to_dict(by) for inspection in self.inspections]
        return {"path": self.path, "checkpoints": checkpoints}

    def _data_table(self, by: str) -> DataTable:
        """Return the rows of each checkpoint's own table, with its path before them."""
        rows: list[tuple[Any, ...]] = []
        for inspection in self.inspections:
            table = inspection.data_table(by)
            rows += [(inspection.checkpoint.path, *row) for row in table.rows]
        return DataTable((Column("checkpoint"), *table.columns), rows)

    def table(self, lang: str = "en") -> Table:
        """Return a row for each checkpoint: its name, tensors, parameters and bytes."""
        texts, rows = _inspect_words(lang), []
        for name, inspection in zip(self.names, self.inspections, strict=True):
            total = inspection.total
            numbers = (units.count(total.tensors), units.count(total.parameters))
            rows.append((name, *numbers, units.size(total.bytes)))
        columns = ("checkpoint", "tensors", "parameters", "bytes")
        return Table(tuple(texts[column] for column in columns), tuple(rows), "<>>>")

    def document(self, lang: str = "en", by: str = "component") -> Document:
        """Return the list and, if they are grouped otherwise than by component, their tables."""
        texts = _inspect_words(lang)
        values = {"path": self.path, "count": units.count(len(self.inspections))}
        title = Title(texts["several"].format(**values))
        blocks: list[Block] = [Together((title, self.table(lang)))]
        if by != GROUPINGS[0]:
            for name, inspection in zip(self.names, self.inspections, strict=True):
                blocks.append(Together((Title(name), inspection.table(by, lang))))
        blocks.append(Notes((texts["sliced" if self.is_sliced else "choose"].format(**values),)))
        return Document(tuple(blocks), lang)


def _first_names(names: Sequence[str], texts: Mapping[str, str]) -> str:
    """Return names in one line; only the first of many."""
    listed = texts["and"].join(map(printable, names[:_MOST_SHOWN]))
    if len(names) > _MOST_SHOWN:
        listed += texts["and_more"].format(count=len(names) - _MOST_SHOWN)
    return listed


def _notes_on(left_out: Sequence[str]) -> list[str]:
    if not left_out:
        return []
    names = ", ".join(map(printable, left_out[:_FIRST]))
    if len(left_out) > _FIRST:
        names += ", …"
    return [f"the folder also holds {len(left_out)} checkpoints that were not read: {names}"]


def _with_roles(checkpoint: StoredCheckpoint) -> tuple[Row, ...]:
    """Return the rows of a checkpoint, each with a role from its header or its name."""
    names = {}
    for row in checkpoint.rows:
        if not row.role:
            names[row.name] = checkpoint.own_name(row.name)
    all_names, rows = list(names.values()), []
    for row in checkpoint.rows:
        if row.name in names:
            rows.append(row._replace(role=role_of(names[row.name], all_names)))
        else:
            rows.append(row)
    return tuple(rows)


def _shown_elements(row: Row) -> int:
    """Return the elements of a tensor; none if they are of the training and not of the model."""
    if row.role.startswith("training."):
        return 0
    return row.count


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
