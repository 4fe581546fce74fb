"""The predictions of a model for texts: `weighbridge run`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge import data, units
from weighbridge.answers.answer import Answer
from weighbridge.errors import printable
from weighbridge.render.document import Document, Notes, Title, Together
from weighbridge.render.table import Table
from weighbridge.render.words import words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from weighbridge.render.document import Block

_FIRST = 6  # numbers shown of an embedding


class TextAnswer(NamedTuple):
    """What a model predicts for one text.

    ``results`` holds the output of its class, ready for JSON: ``masks``, ``classes``, ``value``,
    ``tokens``, ``span``, ``choice``, ``follows`` or ``embedding``. ``tokens`` is the number of
    tokens in the text.
    """

    text: str
    second: str | None
    tokens: int
    results: dict[str, Any]
    notes: tuple[str, ...] = ()


class TextAnswers(NamedTuple):
    """The answers for texts, in order, and the model that gave them.

    ``pool`` is the pooling of the embeddings, if there are any. ``alike`` has the cosine of every
    two embeddings, if there are only a few.
    """

    where: str
    class_name: str
    parameters: int
    pool: str | None
    answers: tuple[TextAnswer, ...]
    alike: tuple[tuple[float, ...], ...]
    notes: tuple[str, ...]


class Running(Answer):
    """The answer of `weighbridge run`: the predictions of a model for texts."""

    def __init__(self, run: TextAnswers) -> None:
        self.run = run

    @property
    def notes(self) -> list[str]:
        """Notes for the user on the run and on each text."""
        notes = list(self.run.notes)
        for number, answer in enumerate(self.run.answers, 1):
            notes += [f"text {number}: {note}" for note in answer.notes]
        return notes

    def to_dict(self) -> dict[str, Any]:
        """Return everything, ready for JSON."""
        answers = [{**answer._asdict(), **answer.results} for answer in self.run.answers]
        for answer in answers:
            del answer["results"]
        return {**self.run._asdict(), "answers": answers}

    def document(self, lang: str = "en") -> Document:
        """Return the predictions for each text, and the similarities between the texts."""
        run, texts = self.run, _run_words(lang)
        heading = texts["heading"].format(
            parameters=units.count(run.parameters),
            where=printable(run.where),
            **{"class": run.class_name},
        )
        blocks: list[Block] = [Title(heading)]
        for number, answer in enumerate(run.answers, 1):
            title = _title(answer, texts)
            if len(run.answers) > 1:
                title = texts["numbered"].format(number=number, text=title)
            blocks.append(Together((Notes((title,)), *_blocks(answer, run, texts))))
        if run.alike:
            blocks.append(_alike(run.alike, texts))
        return Document(tuple(blocks), lang)


def _title(answer: TextAnswer, texts: Mapping[str, str]) -> str:
    text = printable(answer.text)
    if answer.second is None:
        return text
    return texts["pair"].format(text=text, second=printable(answer.second))


def _blocks(answer: TextAnswer, run: TextAnswers, texts: Mapping[str, str]) -> Iterator[Block]:
    for name, show in _SHOWN.items():
        if name in answer.results:
            yield from show(answer.results[name], run, texts)


def _masks(
    masks: Sequence[Mapping[str, Any]], run: TextAnswers, texts: Mapping[str, str]
) -> Iterator[Block]:
    if not masks:
        yield Title(texts["no_mask"], wraps=False)
    key = "candidates"
    if run.class_name == "BertLMHeadModel":
        key = "goes_on"
    for mask in masks:
        shares = [(word["token"], word["probability"]) for word in mask["candidates"]]
        yield _shares(texts[key].format(place=mask["place"]), shares, texts)


def _shares(header: str, shares: Sequence[tuple[str, float]], texts: Mapping[str, str]) -> Table:
    rows = tuple((printable(name), units.percent(share)) for name, share in shares)
    return Table((header, texts["probability"]), rows, "<>")


def _classes(
    classes: Sequence[Mapping[str, Any]], _: TextAnswers, texts: Mapping[str, str]
) -> Iterator[Block]:
    shares = [(entry["label"], entry["probability"]) for entry in classes]
    yield _shares(texts["class"], shares, texts)


def _tokens(
    tokens: Sequence[Mapping[str, Any]], _: TextAnswers, texts: Mapping[str, str]
) -> Iterator[Block]:
    rows = []
    for token in tokens:
        share = units.percent(token["probability"])
        rows.append((token["token"], printable(token["label"]), share))
    yield Table((texts["token"], texts["class"], texts["probability"]), tuple(rows), "<<>")


def _value(value: Any, _: TextAnswers, texts: Mapping[str, str]) -> Iterator[Block]:
    values = value
    if not isinstance(value, list):
        values = [value]
    numbers = texts["comma"].join(units.fixed(number, 4) for number in values)
    yield Notes((texts["value"].format(value=numbers),))


def _choice(share: float, _: TextAnswers, texts: Mapping[str, str]) -> Iterator[Block]:
    yield Title(f"{texts['choice']}{texts['colon']}{units.percent(share)}", wraps=False)


def _follows(share: float, _: TextAnswers, texts: Mapping[str, str]) -> Iterator[Block]:
    yield Notes((texts["follows"].format(probability=units.percent(share)),))


def _span(span: Mapping[str, Any], _: TextAnswers, texts: Mapping[str, str]) -> Iterator[Block]:
    shown = {"answer": printable(span["answer"]), "probability": units.percent(span["probability"])}
    yield Notes((texts["span"].format(**{**span, **shown}),))


def _embedding(
    numbers: Sequence[float], run: TextAnswers, texts: Mapping[str, str]
) -> Iterator[Block]:
    first = texts["comma"].join(units.fixed(number, 4) for number in numbers[:_FIRST])
    pool, size = texts[str(run.pool)], units.count(len(numbers))
    yield Notes((texts["embedding"].format(pool=pool, size=size, first=first),))


_SHOWN: dict[str, Callable[[Any, TextAnswers, Mapping[str, str]], Iterator[Block]]] = {
    "masks": _masks,
    "classes": _classes,
    "value": _value,
    "tokens": _tokens,
    "span": _span,
    "choice": _choice,
    "follows": _follows,
    "embedding": _embedding,
}
"""The functions that show each kind of result."""


def _alike(alike: Sequence[Sequence[float]], texts: Mapping[str, str]) -> Table:
    """Return a table with the cosine of every two texts, which are named by number."""
    rows = []
    for number, row in enumerate(alike, 1):
        rows.append((str(number), *(units.fixed(cosine, 3) for cosine in row)))
    header = (texts["alike"], *(str(number) for number in range(1, len(alike) + 1)))
    return Table(header, tuple(rows), "<" + ">" * len(alike))


def _run_words(lang: str) -> dict[str, str]:
    return {**words(lang), **data.read_toml(f"words/run.{lang}.toml")}
