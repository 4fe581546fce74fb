"""A fitting: the tensors of an adapter, held against those of its base model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge import data, units
from weighbridge.answers.answer import TabularAnswer
from weighbridge.answers.data_table import INTEGER, TRUTH, Column, DataTable
from weighbridge.errors import printable, shorten
from weighbridge.ledger.adapter_forms import parameter_form
from weighbridge.matching.pairing import has_only_elements, match, shift
from weighbridge.readers.adapter import shapes_for
from weighbridge.render.document import Aside, Document, Notes, Title, Together
from weighbridge.render.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from weighbridge.ledger.rows import Row
    from weighbridge.matching.pairing import Expected
    from weighbridge.readers import StoredCheckpoint
    from weighbridge.readers.adapter import Adapter, AdapterTensor
    from weighbridge.render.document import Block

_MOST_LINES = 24  # tensors of a kind that a text lists
_LONGEST_NAME = 120
_MOST_NAMES = 12  # modules that a sentence names
_EXPERTS = 3  # dims of a parameter that holds all experts
_MATRIX = 2  # dims

KINDS = {"no_base": True, "shape": True, "half": True, "new_module": False, "unchecked": False}
"""Each kind of difference between an adapter and its base, and whether it matters."""
_NO_NAME = ("no_base", "new_module")


class Misfit(NamedTuple):
    """One tensor of an adapter that does not fit its base, or that cannot be checked.

    ``kind`` is one of `KINDS`: the base has no such module, another shape is expected, the other
    half of the pair is missing, the base lacks a module that the adapter stores whole, or the
    tensor's form is unknown.
    """

    kind: str
    name: str
    of: str
    expected_shape: tuple[int, ...] | None
    found_shape: tuple[int, ...]

    @property
    def matters(self) -> bool:
        """Whether the adapter cannot be put on its base."""
        return KINDS[self.kind]


class Fitting(TabularAnswer):
    """What `verify` returns for an adapter: which of its tensors fit the base model.

    ``differences`` are the `Misfit`s.
    """

    groupings = ("difference",)

    def __init__(
        self,
        base: str,
        candidates: Sequence[Expected],
        checkpoint: StoredCheckpoint,
        adapter: Adapter,
    ) -> None:
        self.base, self.checkpoint, self.adapter = printable(base), checkpoint, adapter
        answers = [tuple(_misfits(adapter, expected)) for expected in candidates]
        self.differences: tuple[Misfit, ...] = min(answers, key=_distance)

    @property
    def status(self) -> int:
        """0 if the adapter fits, 1 if a difference matters."""
        return int(_failures(self.differences) > 0)

    def to_dict(self) -> dict[str, Any]:
        """Return everything, including every difference, ready for JSON."""
        return {
            "base": self.base,
            "checkpoint": self.checkpoint.path,
            "status": self.status,
            "adapter": described(self.adapter),
            "differences": [
                {**misfit._asdict(), "matters": misfit.matters} for misfit in self.differences
            ],
            "files": list(self.checkpoint.files),
            "header_bytes": self.checkpoint.header_bytes,
        }

    def _data_table(self, _: str) -> DataTable:
        """Return a row for each difference."""
        columns = (
            *(Column("difference"), Column("tensor"), Column("of")),
            *(Column(name, INTEGER, joined_by="x") for name in ("expected_shape", "found_shape")),
            Column("matters", TRUTH),
        )
        rows = []
        for misfit in self.differences:
            expected = None if misfit.expected_shape is None else list(misfit.expected_shape)
            names = (misfit.kind, misfit.name, misfit.of)
            rows.append((*names, expected, list(misfit.found_shape), misfit.matters))
        return DataTable(columns, rows)

    def document(
        self,
        lang: str = "en",
        *,
        evidence: bool = False,  # noqa: ARG002  # headers are all there is
    ) -> Document:
        """Return the verdict, the tensors that do not fit, and what the adapter is."""
        texts = data.read_toml(f"words/adapter.{lang}.toml")
        heading = texts["heading"].format(base=self.base, adapter=printable(self.checkpoint.path))
        failures = _failures(self.differences)
        checked = len(self.adapter.parts) - len(self.differences) + failures
        verdict = texts["fits"].format(tensors=units.count(checked))
        if failures:
            verdict = texts["misfits"].format(tensors=units.count(failures))
        elif not checked:
            verdict = texts["unknown"]
        bytes_read = units.count(self.checkpoint.header_bytes)
        notes = Notes(
            (sentence(self.adapter, lang), Aside(texts["evidence"].format(bytes=bytes_read)))
        )
        title = Together((Title(heading), Notes((verdict,))))
        return Document((title, *self._blocks(texts), notes), lang)

    def _blocks(self, texts: Mapping[str, Any]) -> Iterator[Block]:
        """Yield the differences, a block for each kind."""
        for kind in KINDS:
            misfits = [misfit for misfit in self.differences if misfit.kind == kind]
            if not misfits:
                continue
            lines = [_line(misfit) for misfit in misfits[:_MOST_LINES]]
            header = (texts["tensor"], texts["expected"], texts["found"])
            heading = Notes((texts["kinds"][kind].format(tensors=units.count(len(misfits))),))
            more = Notes(())
            if len(misfits) > _MOST_LINES:
                rest = units.count(len(misfits) - _MOST_LINES)
                more = Notes((texts["more"].format(tensors=rest),), level=1)
            yield Together((heading, Table(header, tuple(lines), "<<<"), more))


def described(adapter: Adapter) -> dict[str, Any]:
    """Return what an adapter is, ready for JSON."""
    return {
        "kind": adapter.kind,
        "ranks": list(adapter.ranks),
        "modules": list(adapter.modules),
        "targets": list(adapter.targets),
        "saved": list(adapter.saved),
        "base": adapter.base,
        "trainable": adapter.trainable,
    }


def sentence(adapter: Adapter, lang: str) -> str:
    """Say what an adapter is: its kind, its ranks, its modules, and how much it trains."""
    texts = data.read_toml(f"words/adapter.{lang}.toml")
    kind = texts["names"].get(adapter.kind) or shorten(adapter.kind, str, _LONGEST_NAME)
    said: str = texts["kind"].format(kind=kind, trainable=units.count(adapter.trainable))
    if adapter.ranks:
        ranks = texts["and"].join(map(units.count, adapter.ranks))
        said = texts["kind_of_rank"].format(
            kind=kind, rank=ranks, trainable=units.count(adapter.trainable)
        )
    if adapter.modules:
        modules = units.count(len(adapter.modules))
        said += texts["modules"].format(modules=modules, targets=_few_names(adapter.targets, texts))
    if adapter.saved:
        said += texts["saved"].format(modules=_few_names(adapter.saved, texts))
    if adapter.base:
        said += texts["of_base"].format(base=shorten(adapter.base, str, _LONGEST_NAME))
    return said


def _few_names(names: Sequence[str], texts: Mapping[str, Any]) -> str:
    shown = [shorten(name, str, _LONGEST_NAME) for name in names[:_MOST_NAMES]]
    if len(names) > _MOST_NAMES:
        shown.append("…")
    separator: str = texts["and"]
    return separator.join(shown)


def _line(misfit: Misfit) -> tuple[str, str, str]:
    expected = str(list(misfit.expected_shape)) if misfit.expected_shape is not None else ""
    return shorten(misfit.name, str, _LONGEST_NAME), expected, str(list(misfit.found_shape))


def _failures(misfits: Sequence[Misfit]) -> int:
    return sum(misfit.matters for misfit in misfits)


def _distance(misfits: Sequence[Misfit]) -> tuple[int, int]:
    """Return how far a class is from the base that an adapter needs: first by names."""
    return sum(misfit.kind in _NO_NAME for misfit in misfits), _failures(misfits)


# Holding an adapter against its base


def _misfits(adapter: Adapter, expected: Expected) -> Iterator[Misfit]:
    """Yield the tensors that do not fit, in the order of the file."""
    known = {**expected.rows, **expected.buffers}
    paths = [_whole_name(part) for part in adapter.parts]
    moved = shift(expected, known, paths, anywhere=not expected.prefixes)
    by_ending = {(part.path, part.form.ending): part for part in adapter.parts if part.form}
    for part, path in zip(adapter.parts, paths, strict=True):
        name = match(path, known, expected.paths, moved).name
        if part.form is None:
            yield from _whole(part, name, expected)
            continue
        joined = by_ending.get((part.path, part.form.joined))
        if part.form.joined and joined is None:
            yield Misfit("half", part.row.name, name, None, part.row.shape)
        else:
            yield from _adapted(part, name, joined, (adapter, expected))


def _whole_name(part: AdapterTensor) -> str:
    """Return the name of the tensor of the base that a tensor belongs to."""
    if part.form is None:
        return part.path
    return f"{part.path}.weight"


def _whole(part: AdapterTensor, name: str, expected: Expected) -> Iterator[Misfit]:
    """Yield a tensor that is stored whole, if the base has another shape or none."""
    row, base = part.row, expected.rows.get(name)
    if base is None:
        kind = "new_module" if part.path.endswith((".weight", ".bias")) else "unchecked"
        yield Misfit(kind, row.name, name, None, row.shape)
    elif row.shape != base.shape:
        yield Misfit("shape", row.name, name, base.shape, row.shape)


def _adapted(
    part: AdapterTensor, name: str, joined: AdapterTensor | None, sides: tuple[Adapter, Expected]
) -> Iterator[Misfit]:
    """Yield a tensor of a known form, if it does not fit the weight of its module."""
    adapter, expected = sides
    row, weight = part.row, expected.rows.get(name)
    if weight is not None and has_only_elements(weight):
        yield from _by_elements(part, name, weight, joined)
        return
    if weight is not None:
        candidates = shapes_for(part, _outputs_first(weight.shape, adapter), joined)
    else:
        candidates = list(_of_experts(part, name, joined, sides))
    if not candidates:
        yield Misfit("no_base", row.name, name, None, row.shape)
    elif row.shape not in candidates:
        yield Misfit("shape", row.name, name, candidates[0], row.shape)


def _by_elements(
    part: AdapterTensor, name: str, weight: Row, joined: AdapterTensor | None
) -> Iterator[Misfit]:
    """Yield a tensor whose sizes contradict the number of elements of a packed weight.

    Outputs and inputs are only known together: those of both halves of a pair.
    """
    row = part.row
    sizes = len(row.shape) == _MATRIX and joined and len(joined.row.shape) == _MATRIX
    if sizes and joined and row.shape[0] * joined.row.shape[1] != weight.parameters:
        yield Misfit("shape", row.name, name, None, row.shape)


def _outputs_first(shape: tuple[int, ...], adapter: Adapter) -> tuple[int, ...]:
    if adapter.is_turned and len(shape) == _MATRIX:
        return shape[::-1]
    return shape


def _of_experts(
    part: AdapterTensor, name: str, joined: AdapterTensor | None, sides: tuple[Adapter, Expected]
) -> Iterator[tuple[int, ...]]:
    """Yield the shapes for the parameters of experts that the adapter's config names."""
    form = parameter_form(part.form) if part.form else None
    if form is None:
        return
    adapter, expected = sides
    module = name.removesuffix("weight")
    for target in adapter.parameters_targeted:
        weight = expected.rows.get(module + target.rpartition(".")[2])
        if weight is not None and len(weight.shape) == _EXPERTS:
            yield from shapes_for(part._replace(form=form), weight.shape, joined)
