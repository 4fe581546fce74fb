"""A verification: the tensors of a checkpoint compared with those of its model."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING, Any

from weighbridge import data, readers, units
from weighbridge.answers.adapter import Fitting
from weighbridge.answers.answer import TabularAnswer
from weighbridge.answers.data_table import INTEGER, TRUTH, Column, DataTable
from weighbridge.answers.weigh import Weighing
from weighbridge.blueprint.roles import component_of
from weighbridge.errors import UsageError, printable, shorten
from weighbridge.ledger.ledger import bind
from weighbridge.matching.comparison import (
    KINDS,
    Choice,
    Comparison,
    Difference,
    ExpectedDtype,
    Group,
    choose,
    compare_checkpoints,
    group,
    named_class,
)
from weighbridge.matching.pairing import of_checkpoint, of_ledger
from weighbridge.models.find import Model, find
from weighbridge.readers.adapter import adapter_in
from weighbridge.readers.folders import check_family_possible
from weighbridge.render.document import Aside, Document, Notes, Parts, Title, Together
from weighbridge.render.table import Table
from weighbridge.render.words import label, words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from weighbridge.matching.pairing import Expected
    from weighbridge.readers import StoredCheckpoint, Watch
    from weighbridge.readers.module import Module
    from weighbridge.render.document import Block

MOST_LINES = 24
"""The number of groups of one kind that a text lists."""
_LONGEST_NAME = 120
_FEW = 4  # tensors of a group that are listed by name
_UNKNOWN = "other"  # the role of tensors with unknown names


def verify(  # noqa: PLR0913  # each is a word of its own for the user
    model: str | os.PathLike[str] | Mapping[str, Any] | Module,
    checkpoint: str | os.PathLike[str] | Module,
    class_name: str | None = None,
    *,
    fields: Mapping[str, Any] | None = None,
    dtype: str | None = None,
    strict: bool = False,
    blueprint: str | os.PathLike[str] | None = None,
    watch: Watch | None = None,
) -> Verification | Changes | Fitting:
    """Compare a checkpoint with its model, or with another checkpoint, tensor by tensor.

    Only headers are read, no weights.

    Without ``class_name``, it uses the class with the fewest differences that matter; among equals
    the one that the config names, then the base class. Some differences do not matter and are only
    notes: a buffer, an old name, a prefix that all names lack or share, a stored tied tensor, the
    names of another format, fused or split tensors, a packed weight, and a dtype other than the
    config's. A dtype other than ``dtype`` matters.

    If the checkpoint is an adapter, as PEFT writes them, it is held against its base: every matrix
    must have the sizes of the weight that it adapts, and its halves one rank. The answer is then a
    `Fitting`.

    Args:
        model: as for `weigh`; the checkpoint's own folder, if it has a ``config.json``; or, to
            compare two checkpoints, another checkpoint's file, its folder if that has no
            ``config.json``, or a module of PyTorch.
        checkpoint: as for `inspect`; or a module of PyTorch.
        class_name: the class to compare with; by default the one that fits best.
        fields: config fields to replace.
        dtype: the dtype that every weight must have; by default any floating-point one.
        strict: refuse a config with an unknown field.
        blueprint: as for `weigh`.
        watch: as for `inspect`.

    Raises:
        ModelError: there is no such model, family, file or class.
        ConfigError: the config cannot be read, or describes no buildable model.
        CheckpointError: the checkpoint cannot be read, or is damaged.
        UsageError: an option for models was given with two checkpoints.

    Example:
        >>> import tempfile
        >>> header = b'{"pooler.dense.bias":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "model.safetensors")
        ...     with open(path, "wb") as file:
        ...         _ = file.write(len(header).to_bytes(8, "little") + header + bytes(8))
        ...     verification = verify("bert-base-chinese", folder, "BertModel")
        ...     print(verify(path, folder).status)
        0
        >>> verification.status, len(verification.differences)
        (1, 199)
        >>> verification.differences[-1].name, verification.differences[-1].found_shape
        ('pooler.dense.bias', (2,))
    """
    if readers.is_checkpoint(model):
        _refuse_config(class_name, fields, strict, blueprint)
        before = readers.read(model, watch)
        after = readers.read(checkpoint, watch)
        adapter = adapter_in(after)
        if adapter and not adapter_in(before):
            return Fitting(before.path, [of_checkpoint(before)], after, adapter)
        wanted = None
        if dtype:
            wanted = ExpectedDtype(units.dtype(dtype), asked=True)
        return Changes(before, after, compare_checkpoints(before, after, wanted))
    described: Any = model  # not a module; `find` refuses other objects
    known_model = find(described, fields, strict=strict, blueprint=blueprint)
    wanted = _wanted_dtype(dtype, known_model)
    stored = readers.read(checkpoint, watch)
    adapter = adapter_in(stored)
    if adapter:
        return Fitting(known_model.where, _bases(known_model, class_name), stored, adapter)
    if blueprint is None and known_model.blueprint.is_of_transformers:
        check_family_possible(checkpoint)
    choice = choose(known_model, stored, class_name, wanted)
    return Verification(known_model, stored, choice, wanted)


def _bases(model: Model, class_name: str | None) -> list[Expected]:
    """Return the tensors of the classes that an adapter may be for: in memory, and as stored.

    An adapter has the names of modules, of a class that its config does not name.
    """
    names = [class_name or named_class(model) or "", model.blueprint.base_class]
    if class_name is None:
        names += model.blueprint.class_names
    bases = []
    for name in dict.fromkeys(filter(None, names)):
        ledger = bind(model.blueprint, name, model.fields)
        bases += [of_ledger(ledger), of_ledger(ledger.stored)]
    return bases


def _refuse_config(
    class_name: str | None,
    fields: Mapping[str, Any] | None,
    strict: bool,  # noqa: FBT001  # it is passed on as it came
    blueprint: str | os.PathLike[str] | None,
) -> None:
    """Refuse options that need a config if two checkpoints are compared, which have none."""
    asked = {
        "class": class_name,
        "fields": fields or None,
        "strict": strict or None,
        "blueprint": blueprint,
    }
    values = {name: value for name, value in asked.items() if value is not None}
    if values:
        raise UsageError(
            "two checkpoints are compared, so there is no config",
            values=values,
            hint="drop that option, or give a model instead of the first checkpoint",
        )


def _wanted_dtype(asked: str | None, model: Model) -> ExpectedDtype | None:
    """Return the dtype that the checkpoint should have: the requested one, else the config's."""
    if asked:
        return ExpectedDtype(units.dtype(asked), asked=True)
    if model.stated_dtype:
        return ExpectedDtype(model.stated_dtype, asked=False)
    return None


class Compared(TabularAnswer):
    """The base of both kinds of verification: a checkpoint compared with something."""

    groupings = ("difference",)

    def __init__(
        self, checkpoint: StoredCheckpoint, comparison: Comparison, names: Mapping[str, str]
    ) -> None:
        self.checkpoint, self.comparison = checkpoint, comparison
        self.differences: tuple[Difference, ...] = comparison.differences
        """The differences; one with ``matters`` false is only a note."""
        self._names = {**names, "checkpoint": printable(checkpoint.path)}

    @property
    def status(self) -> int:
        """0 if the checkpoint matches, 1 if a difference matters."""
        return int(self.comparison.failures > 0)

    @property
    def evidence(self) -> dict[str, Any]:
        """The headers of the checkpoint that were read."""
        return {"checkpoint": _headers(self.checkpoint)}

    def to_dict(self) -> dict[str, Any]:
        """Return everything, including every difference, ready for JSON."""
        compared, dtypes = self.comparison, Counter(row.dtype for row in self.checkpoint.rows)
        differences = [
            {**difference._asdict(), "matters": difference.matters}
            for difference in self.differences
        ]
        return {
            "checkpoint": self.checkpoint.path,
            "status": self.status,
            "parameters": {"expected": compared.expected.parameters, "found": compared.parameters},
            "tensors": {
                "expected": compared.expected.needed,
                "found": len(compared.stored),
                "stored": len(self.checkpoint.rows),
            },
            "dtype": {"found": dict(dtypes.most_common())},
            "bytes": self._bytes(),
            "counts": dict(Counter(difference.kind for difference in self.differences)),
            "differences": differences,
            "shared": compared.shared,
            "files": list(self.checkpoint.files),
            "header_bytes": self.checkpoint.header_bytes,
            "evidence": self.evidence,
        }

    def _data_table(self, _: str) -> DataTable:
        """Return a row for each difference."""
        rows = []
        for difference in self.differences:
            expected = (_as_list(difference.expected_shape), difference.expected_dtype)
            stored = (_as_list(difference.found_shape), difference.found_dtype)
            names = (difference.kind, difference.name, difference.stored_as, difference.role)
            about = [printable(str(part)) for part in difference.about]
            rows.append((*names, *expected, *stored, about, difference.matters))
        return DataTable(_COLUMNS, rows)

    def document(self, lang: str = "en", *, evidence: bool = False) -> Document:
        """Return the verdict, the differences in groups, the totals and their evidence.

        ``evidence`` gives the evidence in full.
        """
        texts = VerifyWords(lang)
        verdict = Together((Title(self._heading(texts)), Notes((self._verdict(texts),))))
        notes = Notes(tuple(self._sentences(texts, evidence=evidence)))
        return Document((verdict, *self.blocks(lang), self._totals(texts), notes), lang)

    def _heading(self, texts: VerifyWords) -> str:
        raise NotImplementedError

    def _verdict(self, texts: VerifyWords) -> str:
        raise NotImplementedError

    def blocks(self, lang: str = "en") -> list[Block]:
        """Return the differences and the notes, a block for each kind."""
        texts = VerifyWords(lang)
        blocks: list[Block] = []
        for kind in KINDS:
            differences = [difference for difference in self.differences if difference.kind == kind]
            if differences:
                blocks.append(self._block(differences, texts))
        return blocks

    def _bytes(self) -> int:
        return sum(row.bytes for row in self.checkpoint.rows)

    def _block(self, differences: list[Difference], texts: VerifyWords) -> Block:
        """Return the differences of one kind, a line for each group."""
        heading = texts.about("kinds", differences[0], self._names)
        if not differences[0].role:  # a difference that is not about tensors
            return Notes((heading,))
        groups, number = group(differences), texts.count("tensor", len(differences))
        lines = Parts(tuple(texts.parts(tensor_group) for tensor_group in groups[:MOST_LINES]))
        not_listed = sum(len(tensor_group.differences) for tensor_group in groups[MOST_LINES:])
        more = Notes(())
        if not_listed:
            more = Notes((texts("more", tensors=texts.count("tensor", not_listed)),), level=1)
        title = Notes((texts("kind", kind=heading, tensors=number),))
        return Together((title, lines, more))

    def _totals(self, texts: VerifyWords) -> Table:
        compared = self.comparison
        expected = units.count(compared.expected.parameters), units.count(compared.expected.needed)
        stored = units.count(compared.parameters), units.count(len(compared.stored))
        rows = ((texts("expected"), *expected), (texts("found"), *stored))
        return Table(("", texts("parameters"), texts("stored_tensors")), rows, "<>>")

    def _sentences(self, texts: VerifyWords, *, evidence: bool) -> Iterator[str]:
        compared, checkpoint = self.comparison, self.checkpoint
        if compared.shared:
            pairs = [
                texts("pair", name=name, target=target) for name, target in compared.shared.items()
            ]
            yield texts("shared", pairs=texts("then").join(pairs))
        kinds = []
        for dtype, number in Counter(row.dtype for row in checkpoint.rows).most_common():
            kinds.append(texts("dtype", tensors=texts.count("tensor", number), dtype=dtype))
        if kinds:
            yield texts("data", size=units.size(self._bytes()), dtypes=texts.and_(kinds))
        else:
            yield texts("no_tensors")
        yield from self._known(texts, evidence=evidence)
        yield Aside(self._how_read(texts))

    def _how_read(self, texts: VerifyWords) -> str:
        """Say which parts of the checkpoint were read."""
        return _how_read(texts, self.checkpoint)

    def _known(self, texts: VerifyWords, *, evidence: bool) -> Iterator[str]:
        """Yield the sentences about the source of the expected tensors."""
        raise NotImplementedError


_COLUMNS = (
    Column("difference"),
    Column("tensor"),
    Column("stored_as"),
    Column("role"),
    Column("expected_shape", INTEGER, joined_by="x"),
    Column("expected_dtype"),
    Column("found_shape", INTEGER, joined_by="x"),
    Column("found_dtype"),
    Column("about", joined_by=" "),
    Column("matters", TRUTH),
)


def _as_list(shape: tuple[int, ...] | None) -> list[int] | None:
    if shape is None:
        return None
    return list(shape)


class Verification(Compared):
    """What `verify` returns for a model and a checkpoint."""

    def __init__(
        self,
        model: Model,
        checkpoint: StoredCheckpoint,
        choice: Choice,
        dtype: ExpectedDtype | None,
    ) -> None:
        self.model, self.choice, self.dtype = model, choice, dtype
        self.class_name: str = choice.class_name
        self.weighing = Weighing(model, self.class_name)
        names = {"model": model.where, "class": self.class_name}
        super().__init__(checkpoint, choice.comparison, names)

    @property
    def notes(self) -> list[str]:
        """Notes on how the config was read."""
        return self.model.notes

    @property
    def evidence(self) -> dict[str, Any]:
        """The sources of both sides: the model as for `weigh`, the checkpoint from its headers."""
        return {**self.weighing.evidence, **super().evidence}

    def to_dict(self) -> dict[str, Any]:
        """Return everything, including every difference, ready for JSON."""
        choice, compared = self.choice, super().to_dict()
        return {
            "model": self.model.where,
            "family": self.model.blueprint.family,
            "class": self.class_name,
            "class_why": choice.why,
            "class_named": named_class(self.model),
            "class_failures": choice.failures,
            **compared,
            "dtype": {
                "expected": self.dtype and self.dtype.name,
                "asked": bool(self.dtype and self.dtype.asked),
                **compared["dtype"],
            },
            "config": self.model.values,
            "notes": self.model.notes,
        }

    def _heading(self, texts: VerifyWords) -> str:
        return texts("heading", self._names)

    def _verdict(self, texts: VerifyWords) -> str:
        failures = self.comparison.failures
        key = "agrees"
        if failures:
            key = "differs"
        return texts(key, self._names, differences=texts.count("difference", failures))

    def _known(self, texts: VerifyWords, *, evidence: bool) -> Iterator[str]:
        yield from self._class_sentences(texts)
        yield from self.weighing.known(texts.lang, evidence=evidence)

    def _class_sentences(self, texts: VerifyWords) -> Iterator[str]:
        """Name the class that was used, the reason, and how well the config's own class fits."""
        choice, config_class = self.choice, named_class(self.model) or ""
        least = self.comparison.failures
        yield texts.of("why", choice.why).format(**{"class": self.class_name})
        equals = [name for name, failures in choice.failures.items() if failures == least]
        if choice.why == "fits" and len(equals) > 1:
            others = [name for name in equals if name != self.class_name]
            yield texts("equals", classes=texts.and_(others))
        agreeing = [name for name, failures in choice.failures.items() if not failures]
        if least and agreeing:
            yield texts("would_agree", {"class": agreeing[0]})
        failures = choice.failures.get(config_class, 0)
        if failures > least:
            differences = texts.count("difference", failures)
            yield texts("config_names", {"class": config_class}, differences=differences)


class Changes(Compared):
    """What `verify` returns for two checkpoints: how the second differs from the first."""

    def __init__(
        self, before: StoredCheckpoint, after: StoredCheckpoint, comparison: Comparison
    ) -> None:
        self.before = before
        super().__init__(
            after, comparison, {"model": printable(before.path), "class": printable(before.path)}
        )

    @property
    def evidence(self) -> dict[str, Any]:
        """The headers of both checkpoints that were read."""
        return {"before": _headers(self.before), **super().evidence}

    def to_dict(self) -> dict[str, Any]:
        """Return everything, including every difference, ready for JSON."""
        return {"before": self.before.path, **super().to_dict()}

    def _heading(self, texts: VerifyWords) -> str:
        return texts("heading_of_two", self._names)

    def _verdict(self, texts: VerifyWords) -> str:
        failures = self.comparison.failures
        key = "same"
        if failures:
            key = "changed"
        return texts(key, differences=texts.count("difference", failures))

    def _known(
        self,
        texts: VerifyWords,
        *,
        evidence: bool,  # noqa: ARG002  # two headers are all there is
    ) -> Iterator[str]:
        if not self._are_files:
            yield _how_read(texts, self.before)

    def _how_read(self, texts: VerifyWords) -> str:
        """Say which parts of both checkpoints were read, in one sentence if both are files."""
        if not self._are_files:
            return super()._how_read(texts)
        return _how_read(texts, self.before, self.checkpoint)

    @property
    def _are_files(self) -> bool:
        return bool(self.before.files and self.checkpoint.files)


def _headers(checkpoint: StoredCheckpoint) -> dict[str, Any]:
    return {
        "files": list(checkpoint.files),
        "header_bytes": checkpoint.header_bytes,
        "data": "not read",
    }


def _how_read(texts: VerifyWords, *checkpoints: StoredCheckpoint) -> str:
    """Say which parts of checkpoints were read: of one in memory, or of files."""
    files = [file for checkpoint in checkpoints for file in checkpoint.files]
    if not files:
        return texts("in_memory", module=printable(checkpoints[0].path))
    header_bytes = sum(checkpoint.header_bytes for checkpoint in checkpoints)
    number = texts.count("file", len(files))
    return texts("checkpoint", files=number, bytes=units.count(header_bytes))


class VerifyWords:
    """The words of a verification in one language, including those of all tables."""

    def __init__(self, lang: str) -> None:
        self.lang, self.table = lang, words(lang)
        self._texts: dict[str, Any] = data.read_toml(f"words/verify.{lang}.toml")

    def __call__(self, key: str, /, names: Mapping[str, Any] | None = None, **values: Any) -> str:
        """Return a text with values in its braces."""
        text: str = self._texts[key]
        return text.format(**{**(names or {}), **values})

    def of(self, section: str, key: str) -> str:
        """Return a text of a section with its braces as they are; empty if there is none."""
        text: str = self._texts[section].get(key, "")
        return text

    def count(self, noun: str, number: int) -> str:
        """Return a number of things."""
        if number == 1 and self.of("one", noun):
            return self.of("one", noun)
        return self.of("many", noun).format(count=units.count(number))

    def and_(self, things: Iterable[str]) -> str:
        """Return a list of things in one line."""
        return self("and").join(things)

    def about(
        self, section: str, difference: Difference, names: Mapping[str, str] | None = None
    ) -> str:
        """Return a text of a section about a difference, with values in its braces."""
        about = [_in_brief(part) for part in difference.about]
        fields = {name: _in_brief(value) for name, value in difference._asdict().items()}
        values = {**fields, "about": self.and_(about), **(names or {})}
        return self.of(section, difference.kind).format(*about, **values)

    def parts(self, tensor_group: Group) -> tuple[str, ...]:
        """Describe a group: the place of its tensors, their names, and the difference."""
        detail = self.about("details", tensor_group.differences[0])
        if not tensor_group.place:
            number = self.count("tensor", len(tensor_group.differences))
            return (self("kind", kind=detail, tensors=number),)
        return (
            shorten(tensor_group.place, str, _LONGEST_NAME),
            self._members(tensor_group),
            detail,
        )

    def _members(self, tensor_group: Group) -> str:
        """Name the tensors of a group in one module by their roles."""
        members = tensor_group.differences[: tensor_group.each]
        if len(members) == 1:
            return _common_shape(tensor_group)
        if len(members) <= _FEW:
            return self._endings(members)
        roles = dict.fromkeys(component_of(tensor.role or _UNKNOWN) for tensor in members)
        named = self.and_(label(role, self.lang) for role in roles if role != _UNKNOWN)
        number = self.count("tensor", len(members))
        if not named:
            return number
        key = "each"
        if len(members) == len(tensor_group.differences):
            key = "all"
        return self(key, roles=named, tensors=number)

    def _endings(self, members: Iterable[Difference]) -> str:
        """Name tensors of one module by role and by their names inside the module."""
        endings: dict[str, list[str]] = {}
        for difference in members:
            ending = difference.name.rpartition(".")[2]
            endings.setdefault(difference.role or _UNKNOWN, []).append(ending)
        named, unknown = [], ""
        for role, of_role in endings.items():
            listed = shorten(self.and_(of_role), str, _LONGEST_NAME)
            if role == _UNKNOWN:
                unknown = listed
            else:
                named.append(self("role", role=label(role, self.lang), endings=listed))
        return self.and_(filter(None, (*named, unknown)))


def _common_shape(tensor_group: Group) -> str:
    """Write the shape of a group's tensors, if all have one and the kind does not name it."""
    shapes = {tensor.expected_shape or tensor.found_shape for tensor in tensor_group.differences}
    if len(shapes) == 1 and not KINDS[tensor_group.kind].alike:
        return _in_brief(shapes.pop())
    return ""


_MOST_SIZES = 8  # dims of a shape; no real tensor has more


def _in_brief(value: object) -> str:
    """Write a shape in brackets, a count in groups, and a name or the end of a path on a line."""
    if isinstance(value, tuple):
        if len(value) <= _MOST_SIZES:
            return str(list(value))
        return f"[{value[0]}, … {len(value)} …]"
    if isinstance(value, int):
        return units.count(value)
    return shorten(os.path.basename(str(value)), str, _LONGEST_NAME)
