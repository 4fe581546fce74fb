"""An inspection: what a checkpoint holds, told from its headers alone, and the ways to show it."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge import data, readers, units
from weighbridge.answers.answer import Shown
from weighbridge.blueprint.roles import component_of, role_of
from weighbridge.errors import UsageError, printable, shorten
from weighbridge.render.document import Document, Notes, Title, Together, write
from weighbridge.render.table import Table, csv
from weighbridge.render.words import label, words

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from weighbridge.ledger.rows import Row
    from weighbridge.readers import Found, Watch

GROUPINGS = ("component", "role", "layer", "dtype", "tensor")
_LAYER = re.compile(
    r"^(?:.*?\.)?\d+(?=\.)"
)  # the path of the outermost module that is one of several
_MOST_SHOWN = 12  # entries of the metadata that a text has
_LONGEST_VALUE = 60


def inspect(path: str | os.PathLike[str], watch: Watch | None = None) -> Inspection:
    """Tell what a checkpoint holds: its tensors, their shapes, dtypes, roles and bytes.

    No weights are read.

    Args:
        path: a checkpoint file, a pattern of several, the index of several, or a folder with
            either; or the address of one that is elsewhere: ``https://…``,
            ``hf://org/name@revision``, ``s3://…``.
        watch: is told of each file elsewhere that is done, as so many of so many.

    Raises:
        CheckpointError: there is nothing to read, or it breaks a rule of its format.

    Example:
        >>> import os, tempfile
        >>> header = b'{"pooler.dense.bias":{"dtype":"BF16","shape":[3],"data_offsets":[0,6]}}'
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        ...         _ = file.write(len(header).to_bytes(8, "little") + header + bytes(6))
        ...     found = inspect(folder)
        >>> found.parameters, found.bytes, found.by("component")["pooler"].tensors
        (3, 6, 1)
    """
    return Inspection(readers.read(path, watch))


class Weight(NamedTuple):
    """What some tensors weigh: how many they are, the parameters that they stand for, and what is stored of them.

    ``elements`` are those in the files, where a scale is one and several packed parameters are too,
    and ``bytes`` what they take.
    """

    tensors: int
    parameters: int
    elements: int
    bytes: int


class Inspection(Shown):
    """What `inspect` returns.

    ``parameters`` are logical: of a type or a tensor that packs them, those that it stands for; a
    scale is none. A header does not tell buffers from parameters, so that they count too.
    """

    def __init__(self, found: Found) -> None:
        self.found = found
        own = {row.name: found.called.get(row.name, row.name) for row in found.rows if not row.role}
        beside = list(own.values())
        self.rows: tuple[Row, ...] = tuple(
            row._replace(role=role_of(own[row.name], beside)) if row.name in own else row
            for row in found.rows
        )
        self.total = _weight(self.rows)
        self.parameters, self.bytes = self.total.parameters, self.total.bytes

    def by(self, grouping: str) -> dict[str, Weight]:
        """Return what stands in one ``"component"``, ``"role"``, ``"layer"``, ``"dtype"`` or ``"tensor"`` weighs.

        Raises:
            UsageError: there is no such grouping.
        """
        if grouping not in GROUPINGS:
            hint = f"group by {', '.join(GROUPINGS[:-1])} or {GROUPINGS[-1]}"
            raise UsageError("cannot group so", values={"by": grouping}, hint=hint)
        groups: dict[str, list[Row]] = {}
        for row in self.rows:
            name = self.found.called.get(row.name, row.name) if grouping == "layer" else row.name
            groups.setdefault(_KEYS[grouping](row._replace(name=name)), []).append(row)
        return {name: _weight(rows) for name, rows in groups.items()}

    @property
    def evidence(self) -> dict[str, Any]:
        """How it is known: from which headers."""
        return {
            "files": list(self.found.files),
            "header_bytes": self.found.header_bytes,
            "data": "not read",
        }

    def to_dict(self, by: str = "component") -> dict[str, Any]:  # noqa: ARG002  # asked as a weighing is
        """Return everything, ready for JSON, whatever the text would be grouped by."""
        return {
            "checkpoint": self.found.path,
            "format": self.found.format,
            **self.total._asdict(),
            **{
                f"{grouping}s": {
                    name: weight._asdict() for name, weight in self.by(grouping).items()
                }
                for grouping in GROUPINGS[:-1]
            },
            "rows": [{**row._asdict(), "bytes": row.bytes} for row in self.rows],
            "packed": {name: of._asdict() for name, of in self.found.packed.items()},
            "metadata": self.found.metadata,
            "evidence": self.evidence,
        }

    def csv(self, by: str = "component") -> str:
        """Write the groups as CSV, or every tensor with its shape, dtype and role: one line each, and no total."""
        if by == "tensor":
            header = ("tensor", "role", "dtype", "shape", "parameters", "bytes")
            shown = [
                (row.name, row.role, row.dtype, _shape(row), row.parameters, row.bytes)
                for row in self.rows
            ]
            return csv([header, *shown])
        return csv(
            [(by, *Weight._fields), *((name, *weight) for name, weight in self.by(by).items())]
        )

    def table(self, by: str = "component", lang: str = "en") -> Table:
        """Return the groups as a table: name, tensors, parameters, share, bytes; and the total."""
        said = _words(lang)
        if by == "tensor":
            of_each = tuple(
                (printable(row.name), row.dtype, _shape(row) or "1", units.count(row.count))
                for row in self.rows
            )
            totals = (said["total"], "", "", units.count(self.parameters))
            return Table(
                (said["tensor"], said["dtype"], said["shape"], said["parameters"]),
                (*of_each, totals),
                "<<<>",
                1,
            )
        heading: tuple[str, ...] = (
            said[by],
            said["tensors"],
            said["parameters"],
            said["share"],
            said["bytes"],
        )
        rows: list[tuple[str, ...]] = [
            (label(printable(name), lang), *_cells(weight, self.total))
            for name, weight in [*self.by(by).items(), (said["total"], self.total)]
        ]
        return Table(heading, tuple(rows), "<>>>>", 1)

    def document(self, lang: str = "en", by: str = "component") -> Document:
        """Return the inspection as a document, its groups in a table."""
        title = Title(f"{printable(self.found.path)} · {self.found.format}")
        notes = Notes(tuple(self._notes(lang)))
        return Document((Together((title, self.table(by, lang))), notes), lang)

    def text(self, by: str = "component", lang: str = "en") -> str:
        """Write the inspection for a terminal."""
        return write(self.document(lang, by), "text")

    def markdown(self, by: str = "component", lang: str = "en") -> str:
        """Write the inspection in Markdown."""
        return write(self.document(lang, by), "markdown")

    def _packed(self, said: Mapping[str, str]) -> Iterator[str]:
        """Say which weights stand packed, in which way, and what they stand for."""
        ways = Counter(
            (of.packing, _bits(of.bits))
            for of in self.found.packed.values()
            if of.elements is not None
        )
        if ways:
            named = said["and"].join(
                said["way" if bits else "way_of_many"].format(
                    name=name, bits=bits, tensors=units.count(tensors)
                )
                for (name, bits), tensors in ways.most_common()
            )
            elements, parameters = units.count(self.total.elements), units.count(self.parameters)
            yield said["packed"].format(ways=named, elements=elements, parameters=parameters)
        unknown = Counter(of.packing for of in self.found.packed.values() if of.elements is None)
        for name, tensors in unknown.items():
            yield said["unknown_bits"].format(name=name, tensors=units.count(tensors))

    def _notes(self, lang: str) -> Iterable[str]:
        said = _words(lang)
        dtypes = sorted(self.by("dtype").items(), key=lambda item: -item[1].parameters)
        yield said["dtypes"].format(
            dtypes=said["and"].join(
                said["of_dtype"].format(
                    dtype=name, tensors=units.count(weight.tensors), size=units.size(weight.bytes)
                )
                for name, weight in dtypes
            )
        )
        yield from self._packed(said)
        shared = {row.name: row.tied_to for row in self.rows if row.tied_to}
        if shared:
            pairs = [
                said["pair"].format(name=printable(name), target=printable(to))
                for name, to in shared.items()
            ]
            left = (
                said["and_more"].format(count=len(pairs) - _MOST_SHOWN)
                if len(pairs) > _MOST_SHOWN
                else ""
            )
            yield said["shared"].format(pairs=said["and"].join(pairs[:_MOST_SHOWN]) + left)
        if self.found.metadata:
            entries = list(self.found.metadata.items())
            shown = said["and"].join(
                f"{shorten(key, str, _LONGEST_VALUE)} = {shorten(value, str, _LONGEST_VALUE)}"
                for key, value in entries[:_MOST_SHOWN]
            )
            more = len(entries) - _MOST_SHOWN
            yield said["metadata"].format(shown=shown) + (
                said["more"].format(count=more) if more > 0 else ""
            )
        files = units.count(len(self.found.files))
        yield said["evidence"].format(files=files, bytes=units.count(self.found.header_bytes))


def _bits(bits: float | None) -> str:
    return units.number(round(bits, 1)).removesuffix(".0") if bits else ""


def _weight(rows: Iterable[Row]) -> Weight:
    found = list(rows)
    elements = sum(row.count for row in found if not row.tied_to)
    return Weight(
        len(found), sum(row.parameters for row in found), elements, sum(row.bytes for row in found)
    )


def _cells(weight: Weight, whole: Weight) -> tuple[str, str, str, str]:
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
    """Return the path of the layer that a tensor is in, or of the module that holds it outside of all."""
    found = _LAYER.match(row.name)
    return found[0] if found else row.name.rpartition(".")[0] or row.name


_KEYS: dict[str, Callable[[Row], str]] = {
    "component": lambda row: component_of(row.role),
    "role": lambda row: row.role,
    "layer": _layer,
    "dtype": lambda row: row.dtype,
    "tensor": lambda row: row.name,
}


def _words(lang: str) -> dict[str, str]:
    """Return the words of an inspection in a language, those of all tables among them."""
    return {**words(lang), **data.read_toml(f"words/inspect.{lang}.toml")}
