"""What a model says of texts, and the ways to show it: `weighbridge run`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge import data, units
from weighbridge.errors import printable
from weighbridge.render.table import Table, text, wrap
from weighbridge.render.words import words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

_FIRST = 6  # numbers of an embedding that a text has


class Answer(NamedTuple):
    """What a model says of one text.

    ``found`` holds what its kind of class gives, ready for JSON: ``masks``, ``classes``, ``value``,
    ``tokens``, ``span``, ``choices``, ``follows`` or ``embedding``. ``tokens`` counts those of the
    text.
    """

    text: str
    second: str | None
    tokens: int
    found: dict[str, Any]
    notes: tuple[str, ...] = ()


class Run(NamedTuple):
    """The answers to texts, in their order, and what gave them.

    ``pool`` is how embeddings were made, if any were, and ``alike`` the cosine of each two of a
    few.
    """

    where: str
    class_name: str
    parameters: int
    pool: str | None
    answers: tuple[Answer, ...]
    alike: tuple[tuple[float, ...], ...]
    notes: tuple[str, ...]


class Running:
    """What a model says of texts, and the ways to show it."""

    status = 0

    def __init__(self, run: Run) -> None:
        self.run = run

    @property
    def notes(self) -> list[str]:
        """What the user should know of the run, and of each text."""
        notes = list(self.run.notes)
        for number, answer in enumerate(self.run.answers, 1):
            notes += [f"text {number}: {note}" for note in answer.notes]
        return notes

    def to_dict(self) -> dict[str, Any]:
        """Return everything, ready for JSON."""
        return to_dict(self.run)

    def text(self, lang: str = "en") -> str:
        """Write what a model says of texts for a terminal."""
        return report(self.run, lang)


def to_dict(run: Run) -> dict[str, Any]:
    """Return everything, ready for JSON."""
    answers = [{**answer._asdict(), **answer.found} for answer in run.answers]
    for answer in answers:
        del answer["found"]
    return {**run._asdict(), "answers": answers}


def report(run: Run, lang: str = "en") -> str:
    """Write what a model says of texts for a terminal."""
    said = _words(lang)
    heading = said["heading"].format(
        parameters=units.count(run.parameters),
        where=printable(run.where),
        **{"class": run.class_name},
    )
    parts = [wrap(heading)]
    for number, answer in enumerate(run.answers, 1):
        lines = [
            wrap(_title(answer, number if len(run.answers) > 1 else 0, said)),
            *_lines(answer, run, said),
        ]
        parts.append("\n".join(lines))
    if run.alike:
        parts.append(text(_alike(run.alike, said)))
    return "\n\n".join(parts)


def _title(answer: Answer, number: int, said: Mapping[str, str]) -> str:
    whole = printable(answer.text)
    if answer.second is not None:
        whole = said["pair"].format(text=whole, second=printable(answer.second))
    return said["numbered"].format(number=number, text=whole) if number else whole


def _lines(answer: Answer, run: Run, said: Mapping[str, str]) -> Iterator[str]:
    for name, show in _SHOWN.items():
        if name in answer.found:
            yield from show(answer.found[name], run, said)


def _masks(masks: Sequence[Mapping[str, Any]], run: Run, said: Mapping[str, str]) -> Iterator[str]:
    if not masks:
        yield said["no_mask"]
    for mask in masks:
        head = said["goes_on" if run.class_name == "BertLMHeadModel" else "candidates"].format(
            place=mask["place"]
        )
        yield _shares(
            head, [(word["token"], word["probability"]) for word in mask["candidates"]], said
        )


def _shares(head: str, pairs: Sequence[tuple[str, float]], said: Mapping[str, str]) -> str:
    rows = tuple((printable(name), units.percent(share)) for name, share in pairs)
    return text(Table((head, said["probability"]), rows, "<>"))


def _classes(
    classes: Sequence[Mapping[str, Any]], _: Run, said: Mapping[str, str]
) -> Iterator[str]:
    yield _shares(said["class"], [(each["label"], each["probability"]) for each in classes], said)


def _tokens(tokens: Sequence[Mapping[str, Any]], _: Run, said: Mapping[str, str]) -> Iterator[str]:
    rows = tuple(
        (of["token"], printable(of["label"]), units.percent(of["probability"])) for of in tokens
    )
    yield text(Table((said["token"], said["class"], said["probability"]), rows, "<<>"))


def _value(value: Any, _: Run, said: Mapping[str, str]) -> Iterator[str]:
    values = value if isinstance(value, list) else [value]
    yield wrap(said["value"].format(value=said["comma"].join(units.fixed(of, 4) for of in values)))


def _choice(share: float, _: Run, said: Mapping[str, str]) -> Iterator[str]:
    yield f"{said['choice']}{said['colon']}{units.percent(share)}"


def _follows(share: float, _: Run, said: Mapping[str, str]) -> Iterator[str]:
    yield wrap(said["follows"].format(probability=units.percent(share)))


def _span(span: Mapping[str, Any], _: Run, said: Mapping[str, str]) -> Iterator[str]:
    shown = {
        **span,
        "answer": printable(span["answer"]),
        "probability": units.percent(span["probability"]),
    }
    yield wrap(said["span"].format(**shown))


def _embedding(numbers: Sequence[float], run: Run, said: Mapping[str, str]) -> Iterator[str]:
    first = said["comma"].join(units.fixed(number, 4) for number in numbers[:_FIRST])
    pool = said[str(run.pool)]
    yield wrap(said["embedding"].format(pool=pool, size=units.count(len(numbers)), first=first))


_SHOWN: dict[str, Callable[[Any, Run, Mapping[str, str]], Iterator[str]]] = {
    "masks": _masks,
    "classes": _classes,
    "value": _value,
    "tokens": _tokens,
    "span": _span,
    "choice": _choice,
    "follows": _follows,
    "embedding": _embedding,
}
"""How each thing is shown that a class can give."""


def _alike(alike: Sequence[Sequence[float]], said: Mapping[str, str]) -> Table:
    """Return a table of how alike each two texts are, by their numbers."""
    numbers = [str(number) for number in range(1, len(alike) + 1)]
    rows = tuple(
        (number, *(units.fixed(of, 3) for of in row))
        for number, row in zip(numbers, alike, strict=True)
    )
    return Table((said["alike"], *numbers), rows, "<" + ">" * len(alike))


def _words(lang: str) -> dict[str, str]:
    return {**words(lang), **data.read_toml(f"words/run.{lang}.toml")}
