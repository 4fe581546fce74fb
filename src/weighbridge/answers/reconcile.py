"""A reconciliation: the ways of counting that give a published number, told in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge import data, readers, units
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
from weighbridge.render.table import wrap
from weighbridge.render.words import words

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping

    from weighbridge.models.find import Model
    from weighbridge.readers import Found

MOST_SHOWN = 8
"""How many ways a text tells."""


def reconcile(
    model: str | os.PathLike[str] | Mapping[str, Any] | None,
    stated: str | int,
    *,
    fields: Mapping[str, Any] | None = None,
    blueprint: str | os.PathLike[str] | None = None,
) -> Reconciled:
    """Tell under which ways of counting a model gives a published number, or rounds to it; without a model, which do.

    Args:
        model: as for `weigh`; a checkpoint, as for `inspect`, to count what it holds; None to
            search the catalogue.
        stated: the number, as people write it: 108808704, ``"110M"``, ``"1.1亿"``, ``"418MiB"``.
        fields: config fields to replace.
        blueprint: as for `weigh`.

    Raises:
        UsageError: it is no number.
        ModelError: there is no such model, family or file.
        ConfigError: the config cannot be read, or describes no buildable model.

    Example:
        >>> found = reconcile("bert-base-uncased", "108,808,704")
        >>> print(found.text().splitlines()[3].strip())
        BertModel, without the 72 biases of linear layers (-82,944) and without the
        >>> found.status, reconcile("bert-base-uncased", 109_418_952).status
        (0, 1)
    """
    wanted = read_number(stated)
    if model is None:
        return Reconciled(wanted, tuple(_of_catalogue(wanted)), None)
    if readers.is_checkpoint(model):
        held = readers.read(model)
        return Reconciled(wanted, (Told(held.path, reconcile_checkpoint(held, wanted)),), held)
    described: Any = model  # and no module; `find` refuses what is nothing that it knows
    found = find(described, fields, blueprint=blueprint)
    return Reconciled(wanted, (Told(found.where, reconcile_model(found, wanted)),), found)


class Told(NamedTuple):
    """What is found of one model."""

    where: str
    found: Reconciliation


def _of_catalogue(wanted: PublishedNumber) -> Iterator[Told]:
    """Yield the released models that give a number, those of one shape once, under the first's name."""
    seen = set[object]()
    for name in released():
        model = find(name)
        shape = (
            model.blueprint.family,
            model.named_class,
            tuple(sorted(map(str, model.fields.items()))),
        )
        if shape not in seen:
            seen.add(shape)
            classes = tuple(dict.fromkeys((model.named_class, model.blueprint.base_class)))
            found = reconcile_model(model, wanted, classes)
            simple = tuple(way for way in found.matches if len(way.steps) <= _SIMPLE)
            if simple:
                yield Told(name, found._replace(matches=simple))


_SIMPLE = 2  # conventions of a way that is told of a model that nobody named


class Reconciled:
    """What `reconcile` returns."""

    def __init__(
        self, wanted: PublishedNumber, told: tuple[Told, ...], model: Model | Found | None
    ) -> None:
        self.number, self.model = wanted, model
        self.told = (
            tuple(sorted(told, key=lambda each: len(each.found.matches[0].steps)))
            if model is None
            else told
        )
        self.matches: tuple[Way, ...] = tuple(
            way for each in self.told for way in each.found.matches
        )
        """The ways that give the number, simplest first."""

    def __repr__(self) -> str:
        return self.text()

    @property
    def of_model(self) -> Model | None:
        """The model, where one is named, and not a checkpoint."""
        return None if self.model is None or isinstance(self.model, readers.Found) else self.model

    @property
    def notes(self) -> list[str]:
        """What the user should know of how the model's config was read."""
        if self.of_model is None:
            return []
        return self.of_model.notes

    @property
    def status(self) -> int:
        """0 if some way gives the number, 1 if none does: the exit status of the command."""
        return int(not self.matches)

    def to_dict(self) -> dict[str, Any]:
        """Return everything, ready for JSON."""
        return {
            "number": self.number.text,
            "value": float(self.number.value)
            if self.number.value.denominator > 1
            else int(self.number.value),
            "is_bytes": self.number.is_bytes,
            "model": self.told[0].where if self.model else None,
            "status": self.status,
            "matches": [
                {"model": each.where, **_way_to_dict(way)}
                for each in self.told
                for way in each.found.matches
            ],
            "nearest": [_near_to_dict(near) for each in self.told for near in each.found.nearest],
        }

    def text(self, lang: str = "en") -> str:
        """Write it for a terminal: what fits, or what is nearest."""
        said = Said(lang)
        if self.model is None:
            return self._anywhere(said)
        (told,) = self.told
        names = {
            "number": printable(self.number.text),
            "model": told.where,
            "count": units.count(len(self.matches)),
        }
        if not self.matches:
            lines = [wrap(said["none"].format(**names)), "", said["nearest"]]
            return "\n".join(
                [*lines, *(said.wrapped(said.near(near)) for near in told.found.nearest)]
            )
        key = "found_many" if len(self.matches) > 1 else "found"
        lines = [wrap(said[key].format(**names)), ""]
        lines += [said.wrapped(said.way(way)) for way in self.matches[:MOST_SHOWN]]
        if len(self.matches) > MOST_SHOWN:
            lines.append(said["more"].format(count=len(self.matches) - MOST_SHOWN))
        first = self.matches[0]
        if first.steps and first.steps[0].tensors and first.bytes is None:
            lines += ["", wrap(said.sum(first))]
        return "\n".join(lines)

    def _anywhere(self, said: Said) -> str:
        names = {"number": printable(self.number.text)}
        if not self.told:
            return wrap(said["none_somewhere"].format(**names))
        lines = [wrap(said["found_somewhere"].format(**names)), ""]
        for each in self.told[:MOST_SHOWN]:
            lines.append(wrap(each.where))
            lines += [said.wrapped(said.way(way)) for way in each.found.matches[:2]]
        if len(self.told) > MOST_SHOWN:
            lines.append(said["more"].format(count=len(self.told) - MOST_SHOWN))
        return "\n".join(lines)


def _way_to_dict(way: Way) -> dict[str, Any]:
    return {
        "class": way.class_name,
        "total": way.total,
        "parameters": way.parameters,
        "steps": [
            {
                "convention": step.convention,
                **dict(step.values),
                "tensors": step.tensors,
                "change": step.change,
            }
            for step in way.steps
        ],
        "rounded_to_zeros": bool(way.rounding),
        **(
            {"bytes": way.bytes, "dtype": way.dtype, "unit_bytes": way.scale}
            if way.bytes is not None
            else {}
        ),
    }


def _near_to_dict(near: Near) -> dict[str, Any]:
    return {
        **_way_to_dict(near.way),
        "gap": near.gap,
        "gap_is": [{"what": what, **of} for what, of in near.gap_is],
    }


class Said(dict[str, str]):
    """The words of a reconciliation in one language."""

    def __init__(self, lang: str) -> None:
        super().__init__({**words(lang), **data.read_toml(f"words/reconcile.{lang}.toml")})
        self.lang = lang

    def wrapped(self, sentence: str) -> str:
        """Indent a sentence, in lines of a terminal."""
        return "\n".join(f"  {line}" for line in wrap(sentence, 78).split("\n"))

    def way(self, way: Way) -> str:
        """Say a way in one sentence."""
        if way.steps and not way.steps[0].tensors:
            return self["instead"].format(
                says=self.says(way.steps[0]), parameters=units.count(way.parameters)
            )
        steps = self["and"].join(self.step(step) for step in way.steps)
        if not steps:
            sentence = self["all"].format(
                **{"class": way.class_name, "total": units.count(way.total)}
            )
        else:
            sentence = self["way"].format(**{"class": way.class_name, "steps": steps})
        notes = [self["rounded"]] if way.rounding else []
        if way.bytes is not None:
            written = {
                "parameters": units.count(way.parameters),
                "dtype": way.dtype,
                "bytes": units.count(way.bytes),
                "size": units.fixed(way.bytes / way.scale, 4),
                "scale": units.count(way.scale),
            }
            notes.append(self["bytes"].format(**written))
        return self["between"].join((sentence, *notes))

    def step(self, step: CountingStep) -> str:
        """Say one convention with what it changes."""
        return self["step"].format(says=self.says(step), change=_signed(step.change))

    def says(self, step: CountingStep) -> str:
        """Say one convention."""
        entry, values = conventions()[step.convention], dict(step.values)
        if "targets" in values:
            values["targets"] = entry["targets"][values["targets"]][self.lang]
        shown = {
            name: units.count(value) if name == "padded" else value
            for name, value in values.items()
        }
        said: str = entry["says"][self.lang].format(tensors=units.count(step.tensors), **shown)
        return said

    def sum(self, way: Way) -> str:
        """Write how a way comes to its number."""
        terms = "".join(
            f" {'-' if step.change < 0 else '+'} {units.count(abs(step.change))}"
            for step in way.steps
        )
        total, parameters = units.count(way.total), units.count(way.parameters)
        return self["total"].format(
            **{
                "class": way.class_name,
                "total": total,
                "sum": f"{total}{terms}",
                "parameters": parameters,
            }
        )

    def near(self, near: Near) -> str:
        """Say of a way that does not fit how far off it is, and what that is equal to."""
        way, gap = near.way, _signed(near.gap)
        if way.bytes is not None:
            taken = units.count(way.bytes)
            values = {"class": way.class_name, "dtype": way.dtype, "bytes": taken, "gap": gap}
            return self["near_bytes"].format(**values)
        of_way = self.way(way)
        said = self["near"].format(
            count=len(way.steps), way=of_way, parameters=units.count(way.parameters), gap=gap
        )
        reasons = [self.reason(what, of) for what, of in near.gap_is[:3]]
        return (
            f"{said}{self['comma']}{self['gap']} {self['between'].join(reasons)}"
            if reasons
            else said
        )

    def reason(self, what: str, of: Mapping[str, Any]) -> str:
        """Say what a gap is equal to."""
        times = {1: self["once"], 2: self["twice"]}.get(of.get("times", 0), "")
        return self[what].format(**{**of, "times": times})


def _signed(change: int) -> str:
    return f"{'+' if change > 0 else '-' if change < 0 else ''}{units.count(abs(change))}"


def verdict(found: Reconciled, lang: str = "en") -> str:
    """Say in one sentence what a number counts: the simplest way that gives it, or that none does.

    Example:
        >>> verdict(reconcile("bert-base-uncased", "108,891,648"))
        'BertModel, without the pooler (-590,592)'
        >>> verdict(reconcile("bert-base-uncased", 109_418_952))
        'no way of counting'
    """
    said = Said(lang)
    return said.way(found.matches[0]) if found.matches else said["nothing"]
