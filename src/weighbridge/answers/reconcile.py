"""A reconciliation: the ways of counting that give a published number, in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge import data, readers, units
from weighbridge.answers.answer import Answer
from weighbridge.counting.conventions import table as conventions
from weighbridge.counting.parts import texts_of
from weighbridge.counting.plausibility import improbability
from weighbridge.counting.published import known_claims
from weighbridge.counting.reconciliation import (
    CUT_OFF,
    TO_ZEROS,
    CountingStep,
    Near,
    PartOfClass,
    PublishedNumber,
    Reconciliation,
    Way,
    read_number,
    reconcile_checkpoint,
    reconcile_model,
    reconcile_simply,
)
from weighbridge.errors import printable
from weighbridge.models.catalogue import released
from weighbridge.models.find import find
from weighbridge.render.document import NOTHING, Document, Notes, Together
from weighbridge.render.words import words

if TYPE_CHECKING:
    import os
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from weighbridge.counting.published import KnownClaim
    from weighbridge.models.find import Model
    from weighbridge.readers import StoredCheckpoint
    from weighbridge.render.document import Block

    Reading = Way | tuple[PartOfClass, ...]

MOST_SHOWN = 8
"""The number of ways that a text shows."""


def reconcile(
    model: str | os.PathLike[str] | Mapping[str, Any] | None,
    stated: str | int,
    *,
    fields: Mapping[str, Any] | None = None,
    blueprint: str | os.PathLike[str] | None = None,
) -> Reconciled:
    """Find what a published number counts in a model: a total, or a part, exactly or rounded.

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
        >>> reconciled = reconcile("bert-base-uncased", "108,891,648")
        >>> print(reconciled.text().splitlines()[2].strip())
        BertModel, without the pooler (-590,592)
        >>> reconciled.status, reconcile("bert-base-uncased", 109_418_952).status
        (0, 1)
        >>> reconcile("bert-base-uncased", 589_824).parts[0].name.text()
        'pooler weight'
    """
    wanted = read_number(stated)
    if model is None:
        claims = tuple(known_claims(wanted))
        return Reconciled(wanted, _of_catalogue(wanted), None, claims)
    if readers.is_checkpoint(model):
        checkpoint = readers.read(model)
        ways = ReconciledModel(checkpoint.path, reconcile_checkpoint(checkpoint, wanted))
        return Reconciled(wanted, (ways,), checkpoint)
    described: Any = model  # not a module; `find` refuses other objects
    known_model = find(described, fields, blueprint=blueprint)
    claims = tuple(known_claims(wanted, known_model))
    reconciliation = _as_claimed(reconcile_model(known_model, wanted), claims)
    ways = ReconciledModel(known_model.where, reconciliation)
    return Reconciled(wanted, (ways,), known_model, claims)


def _as_claimed(reconciliation: Reconciliation, claims: Sequence[KnownClaim]) -> Reconciliation:
    """Return a reconciliation whose first ways are those that the number is known to count."""
    known, others = list[Way](), list[Way]()
    for way in reconciliation.matches:
        if any(claim.is_counted_by(way) for claim in claims):
            known.append(way._replace(perhaps=False, known=True))
        else:
            others.append(way)
    return reconciliation._replace(matches=(*known, *others))


class ReconciledModel(NamedTuple):
    """A model with the ways of counting that give the number, or the nearest ways.

    ``same`` names all released models with its sizes, itself first, if it is from the catalogue.
    """

    where: str
    ways: Reconciliation
    same: Sequence[str] = ()


def _of_catalogue(wanted: PublishedNumber) -> tuple[ReconciledModel, ...]:
    """Return the released models that give a number, the most plausible ways first.

    Models whose recorded total is the number are taken alone: more complicated ways of other models
    say nothing then. Models with the same shapes are listed once, under the name of the first.
    """
    catalogue = released()
    recorded = {name: _recorded(entry) for name, entry in catalogue.items()}
    as_they_are = [name for name, totals in recorded.items() if _gives(totals, wanted)]
    candidates = as_they_are or [
        name for name, totals in recorded.items() if _may_give(totals, wanted)
    ]
    names_of_shapes: dict[object, list[str]] = {}
    models = []
    for name in candidates:
        model = find(name)
        shape = (
            model.blueprint.family,
            model.named_class,
            tuple(sorted(map(str, model.fields.items()))),
        )
        same = names_of_shapes.setdefault(shape, [])
        same.append(name)
        if len(same) == 1:
            ways = reconcile_simply(model, wanted)
            if ways:
                models.append(ReconciledModel(name, Reconciliation(wanted, ways, ()), same))
    models.sort(key=_implausibility_of_first)
    if models and models[0].ways.matches[0].is_total:
        models = [model for model in models if model.ways.matches[0].is_total]
    return tuple(models)


def _recorded(entry: Mapping[str, Any]) -> list[int]:
    """Return the totals that the catalogue records for a model."""
    return [entry[name] for name in ("parameters", "base_parameters") if name in entry]


def _gives(totals: Iterable[int], wanted: PublishedNumber) -> bool:
    """Whether a total is the number, or rounds to it."""
    return any(low <= total < end for total in totals for _, low, end in wanted.windows)


_MOST_ADDED = 2.5  # all that people count in addition; tied weights at most double a total
_LEAST_KEPT = 0.01  # what remains of a small model without its embeddings, or of many experts


def _may_give(totals: Sequence[int], wanted: PublishedNumber) -> bool:
    """Whether a way of counting may turn one of the totals into the number."""
    if wanted.is_bytes:
        return True
    return min(totals) * _LEAST_KEPT <= wanted.value <= max(totals) * _MOST_ADDED


def _implausibility_of_first(model: ReconciledModel) -> tuple[int, float]:
    first = model.ways.matches[0]
    return first.rounding, _improbability(first)


def _has_rank(way: Way, ranks: Container[int]) -> bool:
    """Whether a way trains nothing of another rank of LoRA."""
    stated = (dict(step.values).get("rank") for step in way.steps)
    return all(rank is None or rank in ranks for rank in stated)


class Reconciled(Answer):
    """What `reconcile` returns."""

    def __init__(
        self,
        wanted: PublishedNumber,
        models: tuple[ReconciledModel, ...],
        model: Model | StoredCheckpoint | None,
        claims: Sequence[KnownClaim] = (),
    ) -> None:
        self.number, self.models, self.model = wanted, models, model
        self.claims = tuple(claims)
        """What is known about the number from its publication."""
        matches, parts = list[Way](), list[PartOfClass]()
        for reconciled in models:
            matches += reconciled.ways.matches
            parts += reconciled.ways.parts
        self.matches: tuple[Way, ...] = tuple(matches)
        """The ways that give the number, the most plausible first."""
        self.parts: tuple[PartOfClass, ...] = tuple(parts)
        """The parts of the model that have the number, the most plausible first."""

    def of_ranks(self, ranks: Container[int]) -> Reconciled:
        """Return what remains where the ranks of LoRA are known."""
        kept = []
        for model in self.models:
            matches = tuple(way for way in model.ways.matches if _has_rank(way, ranks))
            kept.append(model._replace(ways=model.ways._replace(matches=matches)))
        return Reconciled(self.number, tuple(kept), self.model, self.claims)

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
    def verdict(self) -> str:
        """``"fits"``, ``"perhaps"`` if it may be chance that a way gives it, or ``"none"``."""
        if any(reconciled.ways.fits for reconciled in self.models):
            return "fits"
        if self.matches or self.parts:
            return "perhaps"
        return "none"

    @property
    def status(self) -> int:
        """0 if the number fits, 1 if it does not or may by chance: the command's exit status."""
        return int(self.verdict != "fits")

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
            "verdict": self.verdict,
            "known": [_claim_to_dict(claim) for claim in self.claims],
            "matches": matches,
            "parts": [_part_to_dict(part) for part in self.parts],
            "nearest": nearest,
        }

    def document(self, lang: str = "en") -> Document:
        """Return what is known, and the ways and parts that fit, or the nearest ones."""
        texts = ReconcileWords(lang)
        number = printable(self.number.text)
        known = Notes(tuple(texts.claim(claim, number) for claim in self.claims))
        if self.model is None:
            return Document((known, *self._anywhere(texts)), lang)
        (reconciled,) = self.models
        if self.verdict == "fits":
            return Document((known, *self._fitting(texts, reconciled)), lang)
        return Document((known, *self._not_fitting(texts, reconciled)), lang)

    def _fitting(self, texts: ReconcileWords, reconciled: ReconciledModel) -> Iterator[Block]:
        readings = _readings(reconciled.ways, perhaps=False)
        names = {
            "number": printable(self.number.text),
            "model": reconciled.where,
            "count": units.count(len(readings)),
        }
        key = "found_many"
        if len(readings) == 1:
            key = "found"
            if not isinstance(readings[0], Way):
                key = "found_part"
        yield Notes((texts[key].format(**names),))
        shown = Notes(tuple(map(texts.reading, readings[:MOST_SHOWN])), level=1)
        yield Together((shown, _more(len(readings), texts)))
        first = readings[0]
        if isinstance(first, Way) and first.is_sum:
            yield Notes((texts.sum(first),))

    def _not_fitting(self, texts: ReconcileWords, reconciled: ReconciledModel) -> Iterator[Block]:
        number = printable(self.number.text)
        names = {"number": number, "model": reconciled.where}
        readings = _readings(reconciled.ways, perhaps=True)
        key = "none"
        if readings and not self.number.is_exact:
            key = "none_rounds"
        elif readings:
            key = "none_likely"
        yield Notes((texts[key].format(**names),))
        if readings:
            different = _first_of_each_kind(readings)
            shown = Notes(tuple(map(texts.reading, different[:_MOST_CHANCES])), level=1)
            yield Together((Notes((texts["perhaps"],)), shown))
        if reconciled.ways.nearest and (self.number.is_exact or not readings):
            nearest = Notes(tuple(map(texts.near, reconciled.ways.nearest)), level=1)
            yield Together((Notes((texts["nearest"],)), nearest))
        stated = "".join(number.split())
        yield Notes((texts["elsewhere"].format(stated=stated),))

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
_MOST_CHANCES = 4  # ways that a text shows if all of them may fit by chance


def _readings(reconciliation: Reconciliation, *, perhaps: bool) -> list[Reading]:
    """Return the ways, and the parts with one name except for the role, the most plausible first.

    ``perhaps`` selects those that may fit by chance.
    """
    alike: dict[object, list[PartOfClass]] = {}
    for part in reconciliation.parts:
        if part.perhaps == perhaps:
            key = (part.class_name, part.name._replace(part="", path="", tensors=0))
            alike.setdefault(key, []).append(part)
    readings: list[Reading] = [way for way in reconciliation.matches if way.perhaps == perhaps]
    readings += map(tuple, alike.values())
    readings.sort(key=_implausibility_of_reading)
    return readings


def _first_of_each_kind(readings: Sequence[Reading]) -> list[Reading]:
    """Return the first reading with each set of conventions, whatever its class."""
    first: dict[object, Reading] = {}
    for reading in readings:
        key: object = reading
        if isinstance(reading, Way):
            key = tuple(step.convention for step in reading.steps)
        first.setdefault(key, reading)
    return list(first.values())


def _implausibility_of_reading(reading: Reading) -> float:
    if isinstance(reading, Way):
        if reading.known:
            return -1.0
        return _improbability(reading)
    return reading[0].name.rank


def _improbability(way: Way) -> float:
    """Return the improbability of a way; that of a total as it is, is 0."""
    if way.is_total:
        return 0.0
    return improbability(step.convention for step in way.steps)


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
        "rounded_to_zeros": way.rounding == TO_ZEROS,
        "cut_off": way.rounding == CUT_OFF,
        "perhaps_chance": way.perhaps,
        **size,
    }


def _part_to_dict(part: PartOfClass) -> dict[str, Any]:
    return {"class": part.class_name, **part.name.to_dict(), "perhaps_chance": part.perhaps}


def _claim_to_dict(claim: KnownClaim) -> dict[str, Any]:
    values = {**claim._asdict(), "conventions": list(claim.conventions)}
    for name in ("says", "source", "because"):
        values[name] = dict(values[name])
    values["class"] = values.pop("class_name") or None
    return values


def _near_to_dict(near: Near) -> dict[str, Any]:
    gap_is = [{"what": what, **values} for what, values in near.gap_is]
    return {**_way_to_dict(near.way), "gap": near.gap, "gap_is": gap_is}


class ReconcileWords(dict[str, str]):
    """The words of a reconciliation in one language."""

    def __init__(self, lang: str) -> None:
        super().__init__({**words(lang), **data.read_toml(f"words/reconcile.{lang}.toml")})
        self.lang = lang

    def claim(self, claim: KnownClaim, number: str) -> str:
        """Say what is known about a published number."""
        names = {
            "number": number,
            "model": claim.model,
            "says": claim.says[self.lang],
            "source": claim.source[self.lang],
        }
        sentence = self["claim"].format(**names)
        if claim.class_name:
            return sentence
        if not claim.because:
            return sentence + self["claim_none"]
        return sentence + self["claim_because"].format(because=claim.because[self.lang])

    def reading(self, reading: Reading) -> str:
        """Describe a way, or parts that have the same number, in one sentence."""
        if isinstance(reading, Way):
            return self.way(reading)
        first = reading[0]
        names = {
            "class": first.class_name,
            "part": texts_of([part.name for part in reading], self.lang),
            "count": units.count(first.name.parameters),
        }
        key = "part"
        if first.perhaps:
            key = "rounded_part"
        return self[key].format(**names)

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
        sentences, gives = [sentence], units.count(way.parameters)
        if way.perhaps and way.steps and way.bytes is None:
            sentences[0] = self["perhaps_gives"].format(way=sentence, parameters=gives)
        if way.rounding == CUT_OFF:
            sentences.append(self["cut_off"])
        if way.rounding == TO_ZEROS:
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
    """Say in one sentence what a number counts: the most plausible reading, or that there is none.

    Example:
        >>> verdict(reconcile("bert-base-uncased", "108,891,648"))
        'BertModel, without the pooler (-590,592)'
        >>> verdict(reconcile("bert-base-uncased", 109_418_952))
        'no way of counting'
    """
    texts = ReconcileWords(lang)
    for perhaps in (False, True):
        for model in reconciled.models:
            readings = _readings(model.ways, perhaps=perhaps)
            if readings:
                sentence = texts.reading(readings[0])
                if perhaps:
                    sentence = texts["by_chance"].format(way=sentence)
                return sentence
    return texts["nothing"]
