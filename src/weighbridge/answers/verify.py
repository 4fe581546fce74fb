"""A verification: what a checkpoint holds against what its model must have, and the ways to show it."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING, Any

from weighbridge import data, readers, units
from weighbridge.answers.weigh import Weighing
from weighbridge.blueprint.roles import component_of
from weighbridge.errors import UsageError, printable, shorten
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
from weighbridge.models.find import Model, find
from weighbridge.render.table import COLUMNS, Table, text, width, wrap
from weighbridge.render.words import label, words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from weighbridge.readers import Found, Watch
    from weighbridge.readers.module import Module

MOST_LINES = 24
"""How many groups of one kind a text lists."""
_LONGEST_NAME = 120
_FEW = 4  # tensors of a group that are told one by one
_UNKNOWN = "other"  # the role of what no table knows


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
) -> Verification | Changes:
    """Hold a checkpoint against its model, or against another checkpoint, tensor by tensor.

    No weights are read.

    Left to itself, it takes the class that has the fewest differences that matter: among equals the
    one that the config names, then the base class. A buffer, an old name, a prefix that all names
    lack or share, a tied tensor that is stored, the names of another format, tensors that are fused
    or split, a packed weight, and a dtype that is not the config's are noted and do no harm. A
    dtype that is asked for matters.

    Args:
        model: as for `weigh`: the checkpoint's own folder, if a ``config.json`` lies in it. Or what
            it is to be held against: another checkpoint's file, its folder if that has no
            ``config.json``, or a module of PyTorch.
        checkpoint: as for `inspect`; or a module of PyTorch.
        class_name: the class to hold it against; the one that fits best when left out.
        fields: config fields to replace.
        dtype: the dtype that every weight must have; any floating-point one when left out.
        strict: refuse a config with a field that nobody knows.
        blueprint: as for `weigh`.
        watch: as for `inspect`.

    Raises:
        ModelError: there is no such model, family, file or class.
        ConfigError: the config cannot be read, or describes no buildable model.
        CheckpointError: the checkpoint cannot be read, or is damaged.
        UsageError: what is said of a model does not go with two checkpoints.

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
        given = {
            "class": class_name,
            "fields": fields or None,
            "strict": strict or None,
            "blueprint": blueprint,
        }
        said = {name: value for name, value in given.items() if value is not None}
        if said:
            hint = "leave that out, or give the config of the model in place of the first"
            raise UsageError(
                "two checkpoints are held against each other, and have no config",
                values=said,
                hint=hint,
            )
        before, after = (readers.read(each, watch) for each in (model, checkpoint))
        wanted = ExpectedDtype(units.dtype(dtype), asked=True) if dtype else None
        return Changes(before, after, compare_checkpoints(before, after, wanted))
    described: Any = model  # and no module; `find` refuses what is nothing that it knows
    found_model = find(described, fields, strict=strict, blueprint=blueprint)
    wanted = _dtype(dtype, found_model)
    found = readers.read(checkpoint, watch)
    return Verification(found_model, found, choose(found_model, found, class_name, wanted), wanted)


def _dtype(asked: str | None, model: Model) -> ExpectedDtype | None:
    """Return the dtype that the checkpoint should have: as asked for, or as the config says, if it says one."""
    if asked:
        return ExpectedDtype(units.dtype(asked), asked=True)
    return ExpectedDtype(model.stated_dtype, asked=False) if model.stated_dtype else None


class _Held:
    """A checkpoint held against something: what both kinds of verification say of it, and how."""

    def __init__(self, found: Found, comparison: Comparison, names: Mapping[str, str]) -> None:
        self.found, self.comparison = found, comparison
        self.differences: tuple[Difference, ...] = comparison.differences
        """What differs, and what deserves a note: ``matters`` tells which."""
        self._names = {**names, "checkpoint": printable(found.path)}

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        from html import escape  # noqa: PLC0415

        return f"<pre>{escape(self.text())}</pre>"

    @property
    def status(self) -> int:
        """0 if the checkpoint holds what it should, 1 if a difference matters: the exit status of the command."""
        return int(self.comparison.failures > 0)

    @property
    def evidence(self) -> dict[str, Any]:
        """How the checkpoint is known: by the headers that were read."""
        return {"checkpoint": _read(self.found)}

    def to_dict(self) -> dict[str, Any]:
        """Return everything, every difference on its own, ready for JSON."""
        compared, dtypes = self.comparison, Counter(row.dtype for row in self.found.rows)
        return {
            "checkpoint": self.found.path,
            "status": self.status,
            "parameters": {"expected": compared.expected.parameters, "found": compared.parameters},
            "tensors": {
                "expected": compared.expected.needed,
                "found": len(compared.stored),
                "stored": len(self.found.rows),
            },
            "dtype": {"found": dict(dtypes.most_common())},
            "bytes": self._bytes(),
            "counts": dict(Counter(difference.kind for difference in self.differences)),
            "differences": [
                {**found._asdict(), "matters": found.matters} for found in self.differences
            ],
            "shared": compared.shared,
            "files": list(self.found.files),
            "header_bytes": self.found.header_bytes,
            "evidence": self.evidence,
        }

    def text(self, lang: str = "en") -> str:
        """Write the verification for a terminal: the verdict, the differences in groups, the totals, the evidence."""
        said = _Words(lang)
        blocks = [
            "\n".join((wrap(self._heading(said)), wrap(self._verdict(said)))),
            *self.blocks(lang),
            text(self._totals(said)),
            "\n".join(map(wrap, self._notes(said))),
        ]
        return "\n\n".join(block for block in blocks if block)

    def _heading(self, said: _Words) -> str:
        raise NotImplementedError

    def _verdict(self, said: _Words) -> str:
        raise NotImplementedError

    def blocks(self, lang: str = "en") -> list[str]:
        """Say what differs, and what deserves a note: a block of lines for each kind that there is."""
        said = _Words(lang)
        return ["\n".join(lines) for kind in KINDS if (lines := [*self._kind_lines(kind, said)])]

    def _bytes(self) -> int:
        return sum(row.bytes for row in self.found.rows)

    def _kind_lines(self, kind: str, said: _Words) -> Iterator[str]:
        """Say what there is of one kind, a line each group."""
        differences = [difference for difference in self.differences if difference.kind == kind]
        if not differences:
            return
        groups, of_tensors = group(differences), bool(differences[0].role)
        heading = said.told("kinds", differences[0], self._names)
        if not of_tensors:
            yield wrap(heading)
            return
        yield wrap(said("kind", kind=heading, told=said.count("tensor", len(differences))))
        for found in groups[:MOST_LINES]:
            yield _in_lines(said.parts(found))
        left = sum(len(found.differences) for found in groups[MOST_LINES:])
        if left:
            yield f"  {said('more', tensors=said.count('tensor', left))}"

    def _totals(self, said: _Words) -> Table:
        compared = self.comparison
        expected = units.count(compared.expected.parameters), units.count(compared.expected.needed)
        found = units.count(compared.parameters), units.count(len(compared.stored))
        rows = ((said("expected"), *expected), (said("found"), *found))
        return Table(("", said("parameters"), said("stored_tensors")), rows, "<>>")

    def _notes(self, said: _Words) -> Iterator[str]:
        compared, found = self.comparison, self.found
        if compared.shared:
            pairs = (
                said("pair", name=name, target=target) for name, target in compared.shared.items()
            )
            yield said("shared", pairs=said("then").join(pairs))
        dtypes = Counter(row.dtype for row in found.rows).most_common()
        kinds = (
            said("dtype", tensors=said.count("tensor", number), dtype=dtype)
            for dtype, number in dtypes
        )
        yield said("data", size=units.size(self._bytes()), dtypes=said.and_(kinds))
        yield from self._known(said)
        yield _how_read(found, said)

    def _known(self, said: _Words) -> Iterator[str]:
        """Say how it is known what is expected."""
        raise NotImplementedError


class Verification(_Held):
    """What `verify` returns of a model and a checkpoint."""

    def __init__(
        self, model: Model, found: Found, choice: Choice, dtype: ExpectedDtype | None
    ) -> None:
        self.model, self.choice, self.dtype = model, choice, dtype
        self.class_name: str = choice.class_name
        self.weighing = Weighing(model, self.class_name)
        super().__init__(found, choice.comparison, {"model": model.where, "class": self.class_name})

    @property
    def notes(self) -> list[str]:
        """What the user should know of how the config was read."""
        return self.model.notes

    @property
    def evidence(self) -> dict[str, Any]:
        """How both sides are known: the model's as for `weigh`, the checkpoint's by the headers that were read."""
        return {**self.weighing.evidence, **super().evidence}

    def to_dict(self) -> dict[str, Any]:
        """Return everything, every difference on its own, ready for JSON."""
        choice, told = self.choice, super().to_dict()
        return {
            "model": self.model.where,
            "family": self.model.blueprint.family,
            "class": self.class_name,
            "class_why": choice.why,
            "class_named": named_class(self.model),
            "class_failures": choice.failures,
            **told,
            "dtype": {
                "expected": self.dtype.name if self.dtype else None,
                "asked": bool(self.dtype and self.dtype.asked),
                **told["dtype"],
            },
            "config": self.model.values,
            "notes": self.model.notes,
        }

    def _heading(self, said: _Words) -> str:
        return said("heading", self._names)

    def _verdict(self, said: _Words) -> str:
        failures = self.comparison.failures
        key = "differs" if failures else "agrees"
        return said(key, self._names, differences=said.count("difference", failures))

    def _known(self, said: _Words) -> Iterator[str]:
        yield from self._class_notes(said)
        yield from self.weighing.known(said.lang)

    def _class_notes(self, said: _Words) -> Iterator[str]:
        """Say which class was taken, why, and what became of the one that the config names."""
        choice, named = self.choice, named_class(self.model)
        yield said.of("why", choice.why).format(**{"class": self.class_name})
        equals = [
            name
            for name, failures in choice.failures.items()
            if failures == self.comparison.failures
        ]
        if choice.why == "fits" and len(equals) > 1:
            yield said(
                "equals", classes=said.and_(name for name in equals if name != self.class_name)
            )
        agreeing = [
            name
            for name, failures in choice.failures.items()
            if not failures and self.comparison.failures
        ]
        if agreeing:
            yield said("would_agree", {"class": agreeing[0]})
        if choice.failures.get(named or "", 0) > self.comparison.failures:
            many = said.count("difference", choice.failures[named or ""])
            yield said("config_names", {"class": named}, differences=many)


class Changes(_Held):
    """What `verify` returns of two checkpoints: what became of the first in the second."""

    def __init__(self, before: Found, after: Found, comparison: Comparison) -> None:
        self.before = before
        super().__init__(
            after, comparison, {"model": printable(before.path), "class": printable(before.path)}
        )

    @property
    def evidence(self) -> dict[str, Any]:
        """How both checkpoints are known: by the headers that were read."""
        return {"before": _read(self.before), **super().evidence}

    def to_dict(self) -> dict[str, Any]:
        """Return everything, every difference on its own, ready for JSON."""
        return {"before": self.before.path, **super().to_dict()}

    def _heading(self, said: _Words) -> str:
        return said("heading_of_two", self._names)

    def _verdict(self, said: _Words) -> str:
        failures = self.comparison.failures
        return said(
            "changed" if failures else "same", differences=said.count("difference", failures)
        )

    def _known(self, said: _Words) -> Iterator[str]:
        yield _how_read(self.before, said)


def _read(found: Found) -> dict[str, Any]:
    return {"files": list(found.files), "header_bytes": found.header_bytes, "data": "not read"}


def _how_read(found: Found, said: _Words) -> str:
    """Say how a checkpoint is known."""
    if not found.files:
        return said("in_memory", module=printable(found.path))
    files = said.count("file", len(found.files))
    return said("checkpoint", files=files, bytes=units.count(found.header_bytes))


class _Words:
    """The words of a verification in one language, and the words of tables that it shares with a weighing."""

    def __init__(self, lang: str) -> None:
        self.lang, self.table = lang, words(lang)
        self._said: dict[str, Any] = data.read_toml(f"words/verify.{lang}.toml")

    def __call__(self, key: str, /, given: Mapping[str, Any] | None = None, **values: Any) -> str:
        """Return a text with its braces filled in."""
        found: str = self._said[key]
        return found.format(**{**(given or {}), **values})

    def of(self, section: str, key: str) -> str:
        """Return a text of a section as it stands, or nothing."""
        found: str = self._said[section].get(key, "")
        return found

    def count(self, noun: str, number: int) -> str:
        """Return a number of things."""
        one = self.of("one", noun) if number == 1 else ""
        return one or self.of("many", noun).format(count=units.count(number))

    def and_(self, things: Iterable[str]) -> str:
        """Return a list of things in one line."""
        return self("and").join(things)

    def told(self, section: str, found: Difference, given: Mapping[str, str] | None = None) -> str:
        """Return a text of a section that is about a difference, with its braces filled in."""
        about = [_shown(part) for part in found.about]
        fields = {name: _shown(value) for name, value in found._asdict().items()}
        return self.of(section, found.kind).format(
            *about, **{**fields, "about": self.and_(about), **(given or {})}
        )

    def parts(self, found: Group) -> list[str]:
        """Say of a group where its tensors stand, which they are, and what is the matter with them."""
        detail = self.told("details", found.differences[0])
        if not found.place:
            return [self("kind", kind=detail, told=self.count("tensor", len(found.differences)))]
        return [shorten(found.place, str, _LONGEST_NAME), self._members(found), detail]

    def _members(self, found: Group) -> str:
        """Name the tensors of a group that stand in one place, by what they are for."""
        here = found.differences[: found.each]
        if len(here) == 1:
            shapes = {
                difference.expected_shape or difference.found_shape
                for difference in found.differences
            }
            return _shown(shapes.pop()) if len(shapes) == 1 and not KINDS[found.kind].alike else ""
        if len(here) <= _FEW:
            return self._endings(here)
        roles = dict.fromkeys(component_of(difference.role or _UNKNOWN) for difference in here)
        named = self.and_(label(role, self.lang) for role in roles if role != _UNKNOWN)
        every = self.count("tensor", len(here))
        form = "all" if len(here) == len(found.differences) else "each"
        return self(form, roles=named, tensors=every) if named else every

    def _endings(self, here: Iterable[Difference]) -> str:
        by_role: dict[str, list[str]] = {}
        for difference in here:
            by_role.setdefault(difference.role or _UNKNOWN, []).append(
                difference.name.rpartition(".")[2]
            )
        endings = {
            role: shorten(self.and_(found), str, _LONGEST_NAME) for role, found in by_role.items()
        }
        unknown = endings.pop(_UNKNOWN, "")
        named = [
            self("role", role=label(role, self.lang), endings=ending)
            for role, ending in endings.items()
        ]
        return self.and_(filter(None, (*named, unknown)))


_MOST_SIZES = 8  # of a shape; more than any real tensor has


def _shown(value: object) -> str:
    """Write a shape in brackets, a number of bytes in groups, and a name or the end of a path on one line."""
    if isinstance(value, tuple):
        return str(list(value)) if len(value) <= _MOST_SIZES else f"[{value[0]}, … {len(value)} …]"
    return (
        units.count(value)
        if isinstance(value, int)
        else shorten(os.path.basename(str(value)), str, _LONGEST_NAME)
    )


def _in_lines(parts: Iterable[str]) -> str:
    """Put parts on one line, two spaces apart, or what does not fit there on further ones."""
    lines = [""]
    for part in filter(None, parts):
        if lines[-1] and width(f"{lines[-1]}  {part}") > COLUMNS:
            lines.append("    ")
        lines[-1] += f"  {part}"
    return "\n".join(wrap(line, indent="      ") for line in lines)
