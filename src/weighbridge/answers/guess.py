"""A guess: the likeliest model of a checkpoint without a config, and the sure fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weighbridge import data, readers, units
from weighbridge.answers.answer import Answer
from weighbridge.answers.verify import Verification
from weighbridge.errors import CheckpointError, ModelError, printable, shorten
from weighbridge.guessing import guess as guessing
from weighbridge.matching.comparison import Choice
from weighbridge.matching.pairing import in_module, translated
from weighbridge.readers.folders import check_family_possible
from weighbridge.readers.numbering import note_on_part
from weighbridge.render.document import Aside, Document, Notes, Title, Together
from weighbridge.render.table import Table
from weighbridge.render.words import words

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator

    from weighbridge.guessing.guess import Candidate, Guess

_MOST_SHOWN = 12  # numbers of fields, values and candidates that a list shows
_LONGEST_VALUE = 30


def guess(checkpoint: str | os.PathLike[str]) -> Guessed:
    """Find the family, class and config of a checkpoint from the names and shapes in its headers.

    A field that the headers determine is sure; a field that they leave open is free: no tensor
    shows how many attention heads a BERT has. A guess is exact if the checkpoint has every tensor
    of the guessed class in its shape, and no others. Often several families fit exactly; the answer
    lists all of them, the likeliest first.

    Args:
        checkpoint: a checkpoint file, the index of several files, or a folder with either.

    Raises:
        CheckpointError: there is nothing to read, a file breaks a rule of its format, or no file
            holds a tensor.

    Example:
        >>> import os, tempfile
        >>> header = b'{"bert.pooler.dense.bias":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        ...         _ = file.write(len(header).to_bytes(8, "little") + header + bytes(8))
        ...     guessed = guess(folder)
        >>> guessed.status, guessed.best.family, guessed.best.sure
        (1, 'bert', {'hidden_size': 2})
    """
    check_family_possible(checkpoint)
    stored = translated(readers.read(checkpoint))
    if not stored.rows:
        raise CheckpointError(
            "holds no tensors", where=stored.path, hint="give a checkpoint with weights"
        )
    guessed = guessing.guess_model(stored)
    inner = in_module(stored)
    if inner is not None and not guessed.exact:
        guessed_inside = guessing.guess_model(inner)
        guessed = guessed_inside if guessed_inside.exact else guessed
    return Guessed(guessed)


class Guessed(Answer):
    """What `guess` returns."""

    def __init__(self, guess: Guess) -> None:
        self.guess, self.checkpoint = guess, guess.found
        self.candidates: tuple[Candidate, ...] = guess.candidates
        """The candidates, the likeliest first."""

    @property
    def best(self) -> Candidate | None:
        """The likeliest candidate, or the nearest if none is exact; None without candidates."""
        return next(iter(self.candidates), None)

    @property
    def status(self) -> int:
        """0 if something fits exactly, 1 if nothing does: the exit status of the command."""
        return int(not self.guess.exact)

    @property
    def notes(self) -> list[str]:
        """That the checkpoint has more files, by the name of the one that was read."""
        return note_on_part(self.checkpoint.files)

    @property
    def config(self) -> dict[str, Any]:
        """The config of the likeliest candidate, as in a config.json.

        Raises:
            ModelError: no family has tensors with these names.
        """
        if self.best is None:
            hint = "`weighbridge inspect` lists what it holds"
            raise ModelError(
                "no family has tensors of these names", where=self.checkpoint.path, hint=hint
            )
        return self.best.config

    def to_dict(self) -> dict[str, Any]:
        """Return everything, ready for JSON."""
        best, free, evidence = self.best, None, None
        differences: list[dict[str, Any]] = []
        if best:
            free = {name: field._asdict() for name, field in best.free.items()}
            evidence = self.verification.evidence
            differences = [
                {**difference._asdict(), "matters": difference.matters}
                for difference in best.comparison.differences
            ]
        return {
            "checkpoint": self.checkpoint.path,
            "format": self.checkpoint.format,
            "status": self.status,
            "family": best and best.family,
            "class": best and best.class_name,
            "config": best and best.config,
            "sure": best and best.sure,
            "free": free,
            "exact": [_in_brief(candidate) for candidate in self.guess.exact],
            "nearest": [
                {**_in_brief(candidate), "failures": candidate.comparison.failures}
                for candidate in self.candidates
            ],
            "differences": differences,
            "files": list(self.checkpoint.files),
            "header_bytes": self.checkpoint.header_bytes,
            "evidence": evidence,
        }

    @property
    def verification(self) -> Verification:
        """The comparison of the checkpoint with the guessed config, as `verify` makes it."""
        best = self.candidates[0]
        choice = Choice(
            best.comparison, best.class_name, "fits", {best.class_name: best.comparison.failures}
        )
        return Verification(best.model, self.checkpoint, choice, None)

    def document(self, lang: str = "en", *, evidence: bool = False) -> Document:
        """Return the guess: the model, its sure and free fields, and other candidates that fit.

        ``evidence`` adds all sources of the family's tensors.
        """
        texts = _guess_words(lang)
        title = Title(f"{printable(self.checkpoint.path)} · {self.checkpoint.format}")
        if self.best is None:
            return Document((Together((title, Notes((texts["nothing"],)))),), lang)
        verdict = texts["exact"]
        if self.status:
            verdict = texts["near"]
        verdict = verdict.format(
            **{"class": self.best.class_name, "family": self.best.family},
            differences=units.count(self.best.comparison.failures),
        )
        blocks = (Together((title, Notes((verdict,)))),)
        differences = self.verification.blocks(lang)
        sure = [(name, _as_json(value)) for name, value in self.best.sure.items()]
        tables = [Table((texts["sure"], texts["value"]), tuple(sure), "<<")]
        free = []
        for name, field in self.best.free.items():
            why = texts[field.why].format(field=field.after)
            free.append((name, _as_json(field.value), why))
        if free:
            header = (texts["free"], texts["value"], texts["why"])
            tables.append(Table(header, tuple(free), "<<<"))
        notes = Notes(tuple(self._sentences(texts, lang, evidence=evidence)))
        return Document((*blocks, *differences, *tables, notes), lang)

    def _sentences(self, texts: dict[str, str], lang: str, *, evidence: bool) -> Iterator[str]:
        for name, field in self.candidates[0].free.items():
            if field.others:
                values = _first(map(_as_json, _sorted_numbers(field.others)), texts)
                yield texts["others"].format(field=name, values=values)
        others = [f"{equal.class_name} ({equal.family})" for equal in self.guess.exact[1:]]
        if others:
            yield texts["equals"].format(classes=_first(others, texts))
        known = self.verification.weighing.known(lang, evidence=evidence)
        if evidence:
            known = known[:-1]  # the last is about the config, which was guessed
        yield from known
        files = units.count(len(self.checkpoint.files))
        size = units.count(self.checkpoint.header_bytes)
        yield Aside(texts["evidence"].format(files=files, bytes=size))


def _in_brief(candidate: Candidate) -> dict[str, str]:
    return {"family": candidate.family, "class": candidate.class_name}


def _sorted_numbers(values: tuple[Any, ...]) -> list[Any]:
    """Return numbers in order, other values as they are."""
    if all(type(value) in (int, float) for value in values):
        return sorted(values)
    return list(values)


def _first(items: Iterable[str], texts: dict[str, str]) -> str:
    """Return a list in one line; only the first items of a long one."""
    listed = list(items)
    line = texts["and"].join(listed[:_MOST_SHOWN])
    if len(listed) > _MOST_SHOWN:
        line += texts["more"].format(count=units.count(len(listed) - _MOST_SHOWN))
    return line


def _as_json(value: Any) -> str:
    """Write a field's value in JSON; only the beginning of a long list."""
    import json  # noqa: PLC0415  # a name from the catalogue is answered without it

    return shorten(json.dumps(value, ensure_ascii=False), str, _LONGEST_VALUE)


def _guess_words(lang: str) -> dict[str, str]:
    """Return the words of a guess in a language, including those of all tables."""
    return {**words(lang), **data.read_toml(f"words/guess.{lang}.toml")}
