"""What a run of fine-tuning will weigh, and what it gave: how good, how heavy, and the ways to show it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weighbridge import data, units
from weighbridge.errors import printable, shorten
from weighbridge.render.table import COLUMNS, Table, text, width, wrap
from weighbridge.render.words import words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_MOST_CLASSES = 8  # of a confusion matrix in 80 columns
_LONGEST_LABEL = 24


def forecast(predicted: Mapping[str, Any], run: Mapping[str, Any], lang: str = "en") -> str:
    """Write what a run is, and what it will weigh, for a terminal."""
    said = _words(lang)
    rows = tuple((said[name], _shown(predicted, of, write, said)) for name, of, write in _WEIGHED)
    table = Table((said["what"], said["predicted"]), rows, "<>")
    return "\n".join([said["forecast"], *map(wrap, _told(run, said)), text(table)])


def evaluated(step: int, steps: int, found: Mapping[str, Any], lang: str = "en") -> str:
    """Write in a line what an evaluation found."""
    shown = {
        name: units.fixed(found[name], 3) for name in ("training_loss", "loss", "accuracy", "f1")
    }
    return _words(lang)["evaluated"].format(
        step=units.count(step), steps=units.count(steps), **shown
    )


def _told(run: Mapping[str, Any], said: Mapping[str, str]) -> Iterator[str]:
    yield said["run"].format(
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
        yield said["pieces"].format(
            pieces=units.count(run["pieces"]), processes=units.count(run["processes"])
        )


class Finetuned:
    """What `weighbridge finetune` gives, from the same JSON that its folder holds."""

    def __init__(self, result: Mapping[str, Any]) -> None:
        self.result = dict(result)

    def to_dict(self) -> dict[str, Any]:
        """Return everything, ready for JSON."""
        return self.result

    def text(self, lang: str = "en") -> str:
        """Write what came of it for a terminal."""
        said, found, run = _words(lang), self.result["scores"], self.result["run"]
        labels = run["labels"]
        heading = said["accuracy"].format(
            accuracy=units.fixed(found["accuracy"], 3), texts=units.count(found["texts"])
        )
        matrix = [text(self._confusion(said))] if len(labels) <= _MOST_CLASSES else []
        blocks = [
            heading,
            text(self._classes(said)),
            *matrix,
            text(self._history(said)),
            text(self._weighed(said)),
        ]
        return "\n\n".join([*blocks, "\n".join(map(wrap, self._notes(said)))])

    def _classes(self, said: Mapping[str, str]) -> Table:
        found = self.result["scores"]
        rows = [
            (_label(name), *_three(of), units.count(of["texts"]))
            for name, of in found["classes"].items()
        ]
        mean = (said["mean"], *_three(found), units.count(found["texts"]))
        header = tuple(said[name] for name in ("class_name", "precision", "recall", "f1", "texts"))
        return Table(header, (*rows, mean), "<>>>>", 1)

    def _confusion(self, said: Mapping[str, str]) -> Table:
        names = self.result["run"]["labels"]
        room = (COLUMNS - _LONGEST_LABEL) // len(names) - 2
        short = [_label(name, room) for name in names]
        rows = zip(map(_label, names), self.result["scores"]["confusion"], strict=True)
        header = (f"{said['truth']} \\ {said['confusion']}", *short)
        return Table(
            header,
            tuple((name, *map(units.count, row)) for name, row in rows),
            "<" + ">" * len(names),
        )

    def _history(self, said: Mapping[str, str]) -> Table:
        header = (
            *(said[f"history_{name}"] for name in ("step", "training", "loss", "accuracy")),
            said["f1"],
        )
        rows = tuple(
            (
                units.count(entry["step"]),
                *(
                    units.fixed(entry[name], 3)
                    for name in ("training_loss", "loss", "accuracy", "f1")
                ),
            )
            for entry in self.result["history"]
        )
        return Table(header, rows, ">>>>>")

    def _weighed(self, said: Mapping[str, str]) -> Table:
        predicted, measured = self.result["predicted"], self.result["measured"]
        rows = [
            (
                said[name],
                _shown(predicted, of, write, said),
                _shown(measured, of, write, said),
                units.fixed(measured[of] / predicted[of], 2)
                if of in measured and predicted[of]
                else "",
            )
            for name, of, write in _WEIGHED
        ]
        header = tuple(said[name] for name in ("what", "predicted", "measured", "ratio"))
        return Table(header, tuple(rows), "<>>>")

    def _notes(self, said: Mapping[str, str]) -> Iterator[str]:
        run, measured = self.result["run"], self.result["measured"]
        if len(run["labels"]) > _MOST_CLASSES:
            yield said["many"].format(classes=units.count(len(run["labels"])))
        yield said["memory"]
        yield said["took"].format(
            steps=units.count(measured["steps"]),
            planned=units.count(run["steps"]),
            minutes=units.fixed(measured["seconds"] / 60, 1),
            **{name: run[name] for name in ("device", "precision")},
            threads=units.count(run["threads"]),
        )
        if measured["steps"] < run["steps"]:
            yield said["over"]
        step, evaluations = (
            units.count(self.result["kept_step"]),
            units.count(len(self.result["history"])),
        )
        yield said["chosen" if self.result["is_chosen"] else "last"].format(
            step=step, evaluations=evaluations
        )
        yield said["out"].format(out=printable(run["out"]))


def _three(found: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(units.fixed(found[name], 3) for name in ("precision", "recall", "f1"))


def _label(name: str, columns: int = _LONGEST_LABEL) -> str:
    """Write the name of a class in so many columns."""
    return next(
        cut
        for letters in range(columns, 3, -1)
        if width(cut := shorten(name, str, letters)) <= columns
    )


def _shown(
    values: Mapping[str, Any],
    name: str,
    write: Callable[[Any, Mapping[str, str]], str],
    said: Mapping[str, str],
) -> str:
    """Write a value; nothing where there is none."""
    return "" if values.get(name) is None else write(values[name], said)


def _flops(number: int, said: Mapping[str, str]) -> str:
    return said["flops"].format(count=units.short(number))


_WEIGHED: tuple[tuple[str, str, Callable[[Any, Mapping[str, str]], str]], ...] = (
    ("trained_parameters", "parameters", lambda number, _: units.count(number)),
    ("weight_bytes", "weight_bytes", lambda number, _: units.size(number)),
    ("memory_bytes", "memory_bytes", lambda number, _: units.size(number)),
    ("piece_flops", "piece_flops", _flops),
    ("run_flops", "run_flops", _flops),
    ("run_tokens", "run_tokens", lambda number, _: units.count(number)),
)


def _words(lang: str) -> dict[str, str]:
    """Return the words of fine-tuning in a language, those of all tables among them."""
    return {**words(lang), **data.read_toml(f"words/finetune.{lang}.toml")}
