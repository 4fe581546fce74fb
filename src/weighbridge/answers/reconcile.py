"""A reconciliation: the ways of counting that give a published number, in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge import data, readers, units
from weighbridge.answers.answer import Answer
from weighbridge.counting.conventions import table as conventions
from weighbridge.counting.reconciliation import (
    CountingStep,
    Near,
    PublishedNumber,
    Reconciliation,
    Way,
    read_number,
    reconcile_checkpoint,
    reconcile_model,
)
from weighbridge.errors import printable
from weighbridge.models.catalogue import released
from weighbridge.models.find import find
from weighbridge.render.document import NOTHING, Document, Notes, Together
from weighbridge.render.words import words

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from weighbridge.models.find import Model
    from weighbridge.readers import StoredCheckpoint
    from weighbridge.render.document import Block

MOST_SHOWN = 8
"""The number of ways that a text shows."""


def reconcile(
    model: str | os.PathLike[str] | Mapping[str, Any] | None,
    stated: str | int,
    *,
    fields: Mapping[str, Any] | None = None,
    blueprint: str | os.PathLike[str] | None = None,
) -> Reconciled:
    """Find the ways of counting under which a model gives a published number, or rounds to it.

    Args:
        model: as for `weigh`; or a checkpoint as for `inspect`, to count its tensors; or None to
            search the catalogue.
        stated: the number in any common notation: 108808704, ``"110M"``, ``"1.1亿"``, ``"418MiB"``.
        fields: config fields to replace.
        blueprint: as for `weigh`.

    Raises:
        UsageError: ``stated`` is not a number.
        ModelError: there is no such model, family or file.
        ConfigError: the config cannot be read, or describes no buildable model.

    Example:
        >>> reconciled = reconcile("bert-base-uncased", "108,808,704")
        >>> print(reconciled.text().splitlines()[3].strip())
        BertModel, without the 72 biases of linear layers (-82,944) and without the
        >>> reconciled.status, reconcile("bert-base-uncased", 109_418_952).status
        (0, 1)
    """
    wanted = read_number(stated)
    if model is None:
        return Reconciled(wanted, _of_catalogue(wanted), None)
    if readers.is_checkpoint(model):
        checkpoint = readers.read(model)
        ways = ReconciledModel(checkpoint.path, reconcile_checkpoint(checkpoint, wanted))
        return Reconciled(wanted, (ways,), checkpoint)
    described: Any = model  # not a module; `find` refuses other objects
    known_model = find(described, fields, blueprint=blueprint)
    ways = ReconciledModel(known_model.where, reconcile_model(known_model, wanted))
    return Reconciled(wanted, (ways,), known_model)


class ReconciledModel(NamedTuple):
    """A model with the ways of counting that give the number, or the nearest ways.

    ``same`` names all released models with its sizes, itself first, if it is from the catalogue.
    """

    where: str
    ways: Reconciliation
    same: Sequence[str] = ()


def _of_catalogue(wanted: PublishedNumber) -> tuple[ReconciledModel, ...]:
    """Return the released models that give a number, the simplest ways first.

    Models with the same shapes are listed once, under the name of the first.
    """
    names_of_shapes: dict[object, list[str]] = {}
    models = []
    for name in released():
        model = find(name)
        shape = (
            model.blueprint.family,
            model.named_class,
            tuple(sorted(map(str, model.fields.items()))),
        )
        same = names_of_shapes.setdefault(shape, [])
        same.append(name)
        if len(same) == 1:
            classes = tuple(dict.fromkeys((model.named_class, model.blueprint.base_class)))
            ways = reconcile_model(model, wanted, classes)
            simple = tuple(way for way in ways.matches if len(way.steps) <= _SIMPLE)
            if simple:
                models.append(ReconciledModel(name, ways._replace(matches=simple), same))
    models.sort(key=_length_of_first)
    return tuple(models)


def _length_of_first(model: ReconciledModel) -> int:
    return len(model.ways.matches[0].steps)


_SIMPLE = 2  # more conventions give almost any number for almost any model


class Reconciled(Answer):
    """What `reconcile` returns."""

    def __init__(
        self,
        wanted: PublishedNumber,
        models: tuple[ReconciledModel, ...],
        model: Model | StoredCheckpoint | None,
    ) -> None:
        self.number, self.models, self.model = wanted, models, model
        matches: list[Way] = []
        for reconciled in models:
            matches += reconciled.ways.matches
        self.matches: tuple[Way, ...] = tuple(matches)
        """The ways that give the number, simplest first."""

    @property
    def of_model(self) -> Model | None:
        """The model, if one was named, and not a checkpoint."""
        if isinstance(self.model, readers.StoredCheckpoint):
            return None
        return self.model

    @property
    def notes(self) -> list[str]:
        """Notes on how the model's config was read."""
        if self.of_model is None:
            return []
        return self.of_model.notes

    @property
    def status(self) -> int:
        """0 if some way gives the number, 1 if none does: the exit status of the command."""
        return int(not self.matches)

    def to_dict(self) -> dict[str, Any]:
        """Return everything, ready for JSON."""
        value, model = float(self.number.value), None
        if self.number.value.denominator == 1:
            value = int(self.number.value)
        if self.model:
            model = self.models[0].where
        matches, nearest = [], []
        for reconciled in self.models:
            for way in reconciled.ways.matches:
                match = _way_to_dict(way)
                matches.append({"model": reconciled.where, **_same_sizes(reconciled), **match})
            nearest += [_near_to_dict(near) for near in reconciled.ways.nearest]
        return {
            "number": self.number.text,
            "value": value,
            "is_bytes": self.number.is_bytes,
            "model": model,
            "status": self.status,
            "matches": matches,
            "nearest": nearest,
        }

    def document(self, lang: str = "en") -> Document:
        """Return the ways that fit, or the nearest ones."""
        texts = ReconcileWords(lang)
        if self.model is None:
            return Document(self._anywhere(texts), lang)
        (reconciled,) = self.models
        names = {
            "number": printable(self.number.text),
            "model": reconciled.where,
            "count": units.count(len(self.matches)),
        }
        if not self.matches:
            nearest = Notes(tuple(map(texts.near, reconciled.ways.nearest)), level=1)
            verdict = Notes((texts["none"].format(**names),))
            closest = Together((Notes((texts["nearest"],)), nearest))
            stated = "".join(names["number"].split())
            elsewhere = Notes((texts["elsewhere"].format(stated=stated),))
            return Document((verdict, closest, elsewhere), lang)
        key = "found"
        if len(self.matches) > 1:
            key = "found_many"
        ways = Notes(tuple(map(texts.way, self.matches[:MOST_SHOWN])), level=1)
        more = _more(len(self.matches), texts)
        first, total = self.matches[0], NOTHING
        if first.steps and first.steps[0].tensors and first.bytes is None:
            total = Notes((texts.sum(first),))
        return Document((Notes((texts[key].format(**names),)), Together((ways, more)), total), lang)

    def _anywhere(self, texts: ReconcileWords) -> tuple[Block, ...]:
        names = {"number": printable(self.number.text)}
        if not self.models:
            return (Notes((texts["none_somewhere"].format(**names),)),)
        blocks: list[Block] = []
        for reconciled in self.models[:MOST_SHOWN]:
            ways = map(texts.way, reconciled.ways.matches[:_MOST_OF_EACH])
            title = reconciled.where
            others = len(reconciled.same) - 1
            if others:
                title = texts["same_sizes"].format(model=title, count=units.count(others))
            blocks += [Notes((title,)), Notes(tuple(ways), level=1)]
        blocks.append(_more(len(self.models), texts))
        verdict = Notes((texts["found_somewhere"].format(**names),))
        return (verdict, Together(tuple(blocks)))


_MOST_OF_EACH = 2  # ways that a text shows for a model from the catalogue


def _same_sizes(reconciled: ReconciledModel) -> dict[str, Any]:
    """Return the names of the released models with the same sizes, ready for JSON."""
    if not reconciled.same:
        return {}
    return {"models": list(reconciled.same)}


def _more(number: int, texts: ReconcileWords) -> Notes:
    """Return the number of items that a list leaves out, in words."""
    if number <= MOST_SHOWN:
        return NOTHING
    return Notes((texts["more"].format(count=number - MOST_SHOWN),))


def _way_to_dict(way: Way) -> dict[str, Any]:
    steps = []
    for step in way.steps:
        counted = {"tensors": step.tensors, "change": step.change}
        steps.append({"convention": step.convention, **dict(step.values), **counted})
    size = {}
    if way.bytes is not None:
        size = {"bytes": way.bytes, "dtype": way.dtype, "unit_bytes": way.scale}
    return {
        "class": way.class_name,
        "total": way.total,
        "parameters": way.parameters,
        "steps": steps,
        "rounded_to_zeros": bool(way.rounding),
        **size,
    }


def _near_to_dict(near: Near) -> dict[str, Any]:
    gap_is = [{"what": what, **values} for what, values in near.gap_is]
    return {**_way_to_dict(near.way), "gap": near.gap, "gap_is": gap_is}


class ReconcileWords(dict[str, str]):
    """The words of a reconciliation in one language."""

    def __init__(self, lang: str) -> None:
        super().__init__({**words(lang), **data.read_toml(f"words/reconcile.{lang}.toml")})
        self.lang = lang

    def way(self, way: Way) -> str:
        """Describe a way in one sentence."""
        if way.steps and not way.steps[0].tensors:
            parameters = units.count(way.parameters)
            return self["instead"].format(says=self.convention(way.steps[0]), parameters=parameters)
        steps = self["and"].join(map(self.step, way.steps))
        if steps:
            sentence = self["way"].format(**{"class": way.class_name, "steps": steps})
        else:
            total = units.count(way.total)
            sentence = self["all"].format(**{"class": way.class_name, "total": total})
        sentences = [sentence]
        if way.rounding:
            sentences.append(self["rounded"])
        if way.bytes is not None:
            written = {
                "parameters": units.count(way.parameters),
                "dtype": way.dtype,
                "bytes": units.count(way.bytes),
                "size": units.fixed(way.bytes / way.scale, 4),
                "scale": units.count(way.scale),
            }
            sentences.append(self["bytes"].format(**written))
        return self["between"].join(sentences)

    def step(self, step: CountingStep) -> str:
        """Describe one convention and how much it changes the number."""
        return self["step"].format(says=self.convention(step), change=_change(step.change))

    def convention(self, step: CountingStep) -> str:
        """Describe one convention."""
        entry, values = conventions()[step.convention], dict(step.values)
        if "targets" in values:
            values["targets"] = entry["targets"][values["targets"]][self.lang]
        if "padded" in values:
            values["padded"] = units.count(values["padded"])
        sentence: str = entry["says"][self.lang]
        return sentence.format(tensors=units.count(step.tensors), **values)

    def sum(self, way: Way) -> str:
        """Write the sum that gives the number of a way."""
        terms = total = units.count(way.total)
        for step in way.steps:
            sign = "+"
            if step.change < 0:
                sign = "-"
            terms += f" {sign} {units.count(abs(step.change))}"
        names = {"class": way.class_name, "total": total, "sum": terms}
        return self["total"].format(**names, parameters=units.count(way.parameters))

    def near(self, near: Near) -> str:
        """Describe how far off a way is, and what explains the difference."""
        way, direction = near.way, "too_many"
        if near.gap > 0:
            direction = "too_few"
        gap = self[direction].format(count=units.count(abs(near.gap)))
        if way.bytes is not None:
            taken = units.count(way.bytes)
            values = {"class": way.class_name, "dtype": way.dtype, "bytes": taken, "gap": gap}
            return self["near_bytes"].format(**values)
        key = "near_all"
        if way.steps:
            key = "near"
        parameters = units.count(way.parameters)
        values = {"way": self.way(way), "parameters": parameters, "gap": gap}
        sentence = self[key].format(count=len(way.steps), **values)
        reasons = [self.reason(what, values) for what, values in near.gap_is[:_MOST_REASONS]]
        if not reasons:
            return sentence
        explanation = self["gap"].format(reasons=self["between"].join(reasons))
        return f"{sentence}{self['comma']}{explanation}"

    def reason(self, what: str, values: Mapping[str, Any]) -> str:
        """Explain a gap."""
        times = {1: self["once"], 2: self["twice"]}.get(values.get("times", 0), "")
        return self[what].format(**{**values, "times": times})


_MOST_REASONS = 3


def _change(change: int) -> str:
    """Write a change with its sign; 0 has no sign."""
    if change == 0:
        return units.count(0)
    sign = "+"
    if change < 0:
        sign = "-"
    return f"{sign}{units.count(abs(change))}"


def verdict(reconciled: Reconciled, lang: str = "en") -> str:
    """Say in one sentence what a number counts: the simplest way, or that there is none.

    Example:
        >>> verdict(reconcile("bert-base-uncased", "108,891,648"))
        'BertModel, without the pooler (-590,592)'
        >>> verdict(reconcile("bert-base-uncased", 109_418_952))
        'no way of counting'
    """
    texts = ReconcileWords(lang)
    if not reconciled.matches:
        return texts["nothing"]
    return texts.way(reconciled.matches[0])
