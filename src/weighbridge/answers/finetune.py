"""Fine-tuning: the predicted and measured costs of a run, and the quality of its result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weighbridge import data, units
from weighbridge.answers.answer import Answer
from weighbridge.errors import printable, shorten
from weighbridge.render.document import Document, Notes, Title, Together, write
from weighbridge.render.table import COLUMNS, Table, width
from weighbridge.render.words import words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from weighbridge.render.document import Block

_MOST_CLASSES = 8  # classes of a confusion matrix that fit into 80 columns
_LONGEST_LABEL = 24


def forecast(predicted: Mapping[str, Any], run: Mapping[str, Any], lang: str = "en") -> str:
    """Describe a run and its predicted costs, for a terminal."""
    texts = finetune_words(lang)
    rows = []
    for name, field, show in _WEIGHED:
        rows.append((texts[name], _weight(predicted, field, show, texts)))
    table = Table((texts["what"], texts["predicted"]), tuple(rows), "<>")
    heading = Title(texts["forecast"], wraps=False)
    blocks = Together((heading, Notes(tuple(_described(run, texts))), table))
    return write(Document((blocks,), lang), "text")


def evaluated(step: int, steps: int, scores: Mapping[str, Any], lang: str = "en") -> str:
    """Write the scores of an evaluation on one line."""
    names = ("training_loss", "loss", "accuracy", "f1")
    shown = {name: units.fixed(scores[name], 3) for name in names}
    return finetune_words(lang)["evaluated"].format(
        step=units.count(step), steps=units.count(steps), **shown
    )


def _described(run: Mapping[str, Any], texts: Mapping[str, str]) -> Iterator[str]:
    yield texts["run"].format(
        start=printable(run["start"]),
        training=units.count(run["training_texts"]),
        held_out=units.count(run["held_out_texts"]),
        classes=units.count(len(run["labels"])),
        steps=units.count(run["steps"]),
        batch=units.count(run["batch"]),
        device=run["device"],
        precision=run["precision"],
    )
    if run["pieces"] > 1:
        yield texts["pieces"].format(
            pieces=units.count(run["pieces"]), processes=units.count(run["processes"])
        )


class Finetuned(Answer):
    """The answer of `weighbridge finetune`, which is also the JSON in its folder."""

    def __init__(self, result: Mapping[str, Any]) -> None:
        self.result = dict(result)

    def to_dict(self) -> dict[str, Any]:
        """Return everything, ready for JSON."""
        return self.result

    def document(self, lang: str = "en") -> Document:
        """Return the result: the scores, the history, and the costs of the run."""
        texts = finetune_words(lang)
        blocks = [*self.score_blocks(texts), self.history(texts), weighed_table(self.result, texts)]
        return Document((*blocks, Notes(tuple(self._sentences(texts)))), lang)

    def score_blocks(self, texts: Mapping[str, str]) -> Iterator[Block]:
        """Yield the accuracy beside that of the majority, and the scores of the classes."""
        scores, majority = self.result["scores"], self.result["scores"]["majority"]
        heading = texts["accuracy"].format(
            accuracy=units.fixed(scores["accuracy"], 3), texts=units.count(scores["texts"])
        )
        beside = texts["majority"].format(
            label=_label(majority["label"]), share=units.fixed(majority["share"], 3)
        )
        yield Together((Title(heading, wraps=False), Notes((beside,))))
        yield self._classes(texts)
        absent = sum(not of["texts"] for of in scores["classes"].values())
        if absent:
            total = len(scores["classes"])
            counts = {"present": units.count(total - absent), "classes": units.count(total)}
            yield Notes((texts["mean_of_present"].format(**counts),))
        if len(self._labels) <= _MOST_CLASSES:
            yield self._confusion(texts)

    @property
    def _labels(self) -> list[str]:
        labels: list[str] = self.result["run"]["labels"]
        return labels

    def _classes(self, texts: Mapping[str, str]) -> Table:
        scores, rows = self.result["scores"], []
        for name, class_scores in scores["classes"].items():
            texts_of_class = units.count(class_scores["texts"])
            rows.append((_label(name), *_three(class_scores), texts_of_class))
        rows.append((texts["mean"], *_three(scores), units.count(scores["texts"])))
        columns = ("class_name", "precision", "recall", "f1", "texts")
        return Table(tuple(texts[name] for name in columns), tuple(rows), "<>>>>", 1)

    def _confusion(self, texts: Mapping[str, str]) -> Table:
        labels = self._labels
        room = (COLUMNS - _LONGEST_LABEL) // len(labels) - 2
        header = [f"{texts['truth']} \\ {texts['confusion']}"]
        header += [_label(name, room) for name in labels]
        rows = []
        for name, numbers in zip(labels, self.result["scores"]["confusion"], strict=True):
            rows.append((_label(name), *map(units.count, numbers)))
        return Table(tuple(header), tuple(rows), "<" + ">" * len(labels))

    def history(self, texts: Mapping[str, str]) -> Table:
        """Return the scores after each epoch."""
        header = [texts[f"history_{name}"] for name in ("step", "training", "loss", "accuracy")]
        rows = []
        for entry in self.result["history"]:
            numbers = (entry["training_loss"], entry["loss"], entry["accuracy"], entry["f1"])
            rows.append((units.count(entry["step"]), *(units.fixed(value, 3) for value in numbers)))
        return Table((*header, texts["f1"]), tuple(rows), ">>>>>")

    def kept_weights(self, texts: Mapping[str, str]) -> str:
        """Return the sentence on which weights were kept, and whether the held-out texts chose."""
        key = "chosen" if self.result["is_chosen"] else "last"
        return texts[key].format(
            step=units.count(self.result["kept_step"]),
            evaluations=units.count(len(self.result["history"])),
        )

    def _sentences(self, texts: Mapping[str, str]) -> Iterator[str]:
        run, measured = self.result["run"], self.result["measured"]
        if len(self._labels) > _MOST_CLASSES:
            yield texts["many"].format(classes=units.count(len(self._labels)))
        yield texts["memory"]
        yield texts["took"].format(
            steps=units.count(measured["steps"]),
            planned=units.count(run["steps"]),
            minutes=units.fixed(measured["seconds"] / 60, 1),
            device=run["device"],
            precision=run["precision"],
            threads=units.count(run["threads"]),
        )
        if measured["steps"] < run["steps"]:
            yield texts["over"]
        yield self.kept_weights(texts)
        yield texts["out"].format(out=printable(run["out"]))


def weighed_table(result: Mapping[str, Any], texts: Mapping[str, str]) -> Table:
    """Return the predicted and measured costs of a run."""
    predicted, measured = result["predicted"], result["measured"]
    rows = []
    for name, field, show in _WEIGHED:
        ratio = ""
        if field in measured and predicted[field]:
            ratio = units.fixed(measured[field] / predicted[field], 2)
        weights = [_weight(values, field, show, texts) for values in (predicted, measured)]
        rows.append((texts[name], *weights, ratio))
    header = (texts["what"], texts["predicted"], texts["measured"], texts["ratio"])
    return Table(header, tuple(rows), "<>>>")


def _three(scores: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(units.fixed(scores[name], 3) for name in ("precision", "recall", "f1"))


def _label(name: str, columns: int = _LONGEST_LABEL) -> str:
    """Write the name of a class, cut to a number of terminal columns."""
    letters = columns
    while width(shortened := shorten(name, str, letters)) > columns and letters > 1:
        letters -= 1
    return shortened


def _weight(
    values: Mapping[str, Any],
    field: str,
    show: Callable[[Any, Mapping[str, str]], str],
    texts: Mapping[str, str],
) -> str:
    """Write a value; empty if there is none."""
    if values.get(field) is None:
        return ""
    return show(values[field], texts)


def _flops(number: int, texts: Mapping[str, str]) -> str:
    return texts["flops"].format(count=units.short(number))


_WEIGHED: tuple[tuple[str, str, Callable[[Any, Mapping[str, str]], str]], ...] = (
    ("trained_parameters", "parameters", lambda number, _: units.count(number)),
    ("weight_bytes", "weight_bytes", lambda number, _: units.size(number)),
    ("memory_bytes", "memory_bytes", lambda number, _: units.size(number)),
    ("piece_flops", "piece_flops", _flops),
    ("run_flops", "run_flops", _flops),
    ("run_tokens", "run_tokens", lambda number, _: units.count(number)),
)


def finetune_words(lang: str) -> dict[str, str]:
    """Return the words of fine-tuning in a language, including those of all tables."""
    return {**words(lang), **data.read_toml(f"words/finetune.{lang}.toml")}
