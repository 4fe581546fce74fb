"""A guess: what a checkpoint without a config may be, what is sure of it and what is not, and the ways to show it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weighbridge import data, readers, units
from weighbridge.answers.verify import Verification
from weighbridge.errors import CheckpointError, ModelError, printable, shorten
from weighbridge.guessing import guess as guessing
from weighbridge.matching.comparison import Choice
from weighbridge.matching.pairing import translated
from weighbridge.render.table import Table, text, wrap
from weighbridge.render.words import words

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator

    from weighbridge.guessing.guess import Candidate, Free, Guess

_MOST_SHOWN = 12  # fields of a list, other values, other candidates
_LONGEST_VALUE = 30


def guess(checkpoint: str | os.PathLike[str]) -> Guessed:
    """Tell which family, class and config a checkpoint is of, from its headers alone: names and shapes.

    What the headers determine is told as sure, what they leave open as free, with the value that
    was taken: of how many attention heads a BERT has, no tensor tells. A guess is exact if the
    checkpoint then holds every tensor of the class in its shape, and no other. Often more than one
    family fits exactly; all of them are told, the likeliest first.

    Args:
        checkpoint: a checkpoint file, the index of several, or a folder with either.

    Raises:
        CheckpointError: there is nothing to read, it breaks a rule of its format, or it holds no
            tensor.

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
    found = translated(readers.read(checkpoint))
    if not found.rows:
        raise CheckpointError(
            "holds no tensor", where=found.path, hint="give a checkpoint that holds some"
        )
    return Guessed(guessing.guess_model(found))


class Guessed:
    """What `guess` returns."""

    def __init__(self, found: Guess) -> None:
        self.guess, self.found = found, found.found
        self.candidates: tuple[Candidate, ...] = found.candidates
        """What it may be, the likeliest first."""

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        from html import escape  # noqa: PLC0415

        return f"<pre>{escape(self.text())}</pre>"

    @property
    def best(self) -> Candidate | None:
        """The likeliest candidate, or the nearest where none is exact; nothing where no family has such names."""
        return self.candidates[0] if self.candidates else None

    @property
    def status(self) -> int:
        """0 if something fits exactly, 1 if nothing does: the exit status of the command."""
        return int(not self.guess.exact)

    @property
    def config(self) -> dict[str, Any]:
        """The config of the likeliest candidate, as a config.json has it.

        Raises:
            ModelError: no family has tensors of such names.
        """
        if self.best is None:
            hint = "`weighbridge inspect` tells what it holds"
            raise ModelError(
                "no family has tensors of these names", where=self.found.path, hint=hint
            )
        return self.best.config

    def to_dict(self) -> dict[str, Any]:
        """Return everything, ready for JSON."""
        best = self.best
        return {
            "checkpoint": self.found.path,
            "format": self.found.format,
            "status": self.status,
            "family": best and best.family,
            "class": best and best.class_name,
            "config": best and best.config,
            "sure": best and best.sure,
            "free": best and {name: free._asdict() for name, free in best.free.items()},
            "exact": [_named(candidate) for candidate in self.guess.exact],
            "nearest": [
                {**_named(candidate), "failures": candidate.comparison.failures}
                for candidate in self.candidates
            ],
            "differences": [
                {**found._asdict(), "matters": found.matters}
                for found in (best.comparison.differences if best else ())
            ],
            "files": list(self.found.files),
            "header_bytes": self.found.header_bytes,
            "evidence": self.verification.evidence if best else None,
        }

    @property
    def verification(self) -> Verification:
        """The checkpoint held against the config that was guessed, as `verify` holds it against one that is given."""
        best = self.candidates[0]
        choice = Choice(
            best.comparison, best.class_name, "fits", {best.class_name: best.comparison.failures}
        )
        return Verification(best.model, self.found, choice, None)

    def text(self, lang: str = "en") -> str:
        """Write the guess for a terminal: what it is, what is sure of it, what is not, and what else fits."""
        said = _words(lang)
        heading = wrap(f"{printable(self.found.path)} · {self.found.format}")
        if self.best is None:
            return "\n".join([heading, wrap(said["nothing"])])
        names = {"class": self.best.class_name, "family": self.best.family}
        verdict = said["near" if self.status else "exact"].format(
            **names, differences=units.count(self.best.comparison.failures)
        )
        blocks = [
            "\n".join([heading, wrap(verdict)]),
            *(self.verification.blocks(lang) if self.best.comparison.differences else ()),
            text(self._sure(said)),
            text(self._free(said)) if self.best.free else "",
            "\n".join(map(wrap, self._notes(said, lang))),
        ]
        return "\n\n".join(filter(None, blocks))

    def _sure(self, said: dict[str, str]) -> Table:
        rows = tuple((name, _shown(value)) for name, value in self.candidates[0].sure.items())
        return Table((said["sure"], said["value"]), rows, "<<")

    def _free(self, said: dict[str, str]) -> Table:
        rows = tuple(
            (name, _shown(free.value), _why(free, said))
            for name, free in self.candidates[0].free.items()
        )
        return Table((said["free"], said["value"], said["why"]), rows, "<<<")

    def _notes(self, said: dict[str, str], lang: str) -> Iterator[str]:
        for name, free in self.candidates[0].free.items():
            if free.others:
                yield said["others"].format(
                    field=name, values=_listed(map(_shown, _sorted(free.others)), said)
                )
        others = [f"{each.class_name} ({each.family})" for each in self.guess.exact[1:]]
        if others:
            yield said["equals"].format(classes=_listed(others, said))
        yield from self.verification.weighing.known(lang)[:1]
        files = units.count(len(self.found.files))
        yield said["evidence"].format(files=files, bytes=units.count(self.found.header_bytes))


def _named(candidate: Candidate) -> dict[str, str]:
    return {"family": candidate.family, "class": candidate.class_name}


def _why(free: Free, said: dict[str, str]) -> str:
    return said[free.why].format(field=free.after)


def _sorted(values: tuple[Any, ...]) -> list[Any]:
    """Return numbers in order, other values as they are."""
    return sorted(values) if all(type(value) in (int, float) for value in values) else list(values)


def _listed(things: Iterable[str], said: dict[str, str]) -> str:
    """Return a list in one line, the first few of a long one."""
    shown = list(things)
    left = len(shown) - _MOST_SHOWN
    return said["and"].join(shown[:_MOST_SHOWN]) + (
        said["more"].format(count=units.count(left)) if left > 0 else ""
    )


def _shown(value: Any) -> str:
    """Write a field's value as JSON has it; a long list by its beginning."""
    import json  # noqa: PLC0415  # a name from the catalogue is answered without it

    return shorten(json.dumps(value, ensure_ascii=False), str, _LONGEST_VALUE)


def _words(lang: str) -> dict[str, str]:
    """Return the words of a guess in a language, those of all tables among them."""
    return {**words(lang), **data.read_toml(f"words/guess.{lang}.toml")}
