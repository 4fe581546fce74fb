"""Several models in a folder, weighed or verified one by one.

The ``model_index.json`` of a pipeline of diffusers names the library and the class of each
component, the ``modules.json`` of sentence-transformers those of each module. Models of
transformers have blueprints by family, the others by class.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from weighbridge import data, units
from weighbridge.answers.answer import Answer, TabularAnswer
from weighbridge.answers.data_table import INTEGER, Column, DataTable
from weighbridge.answers.sentence_encoder import encoder_class
from weighbridge.answers.verify import Compared, Verification, verify
from weighbridge.answers.weigh import weigh
from weighbridge.blueprint import schema
from weighbridge.errors import ModelError, UsageError, WeighbridgeError, printable, shorten
from weighbridge.models.libraries import class_of
from weighbridge.readers import sentence
from weighbridge.readers.folders import PIPELINE
from weighbridge.render.document import Document, Notes, Title, Together
from weighbridge.render.table import Table
from weighbridge.render.words import words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from weighbridge.answers.adapter import Fitting
    from weighbridge.answers.weigh import Weighing
    from weighbridge.models.find import Model
    from weighbridge.readers import Watch
    from weighbridge.readers.folders import Component, FolderOfModels
    from weighbridge.render.document import Block


def weigh_pipeline(
    folder: str | os.PathLike[str], *, dtype: str | None = None, strict: bool = False
) -> PipelineWeighing:
    """Weigh all models of a folder: those that its ``model_index.json`` or ``modules.json`` names.

    Schedulers, tokenizers, processors and pooling have no parameters and are left out. A component
    that cannot be weighed is listed with the reason, and the total is without it.

    Args:
        folder: a local folder with a ``model_index.json``, as diffusers saves it, or with a
            ``modules.json``, as sentence-transformers saves it.
        dtype: as for `weigh`, for each component.
        strict: as for `weigh`; it also refuses a pipeline with a component that is not weighed.

    Raises:
        ModelError: the folder has no such file, or it names no component.
        CheckpointError: that file is broken, or names a component without a folder.
        WeighbridgeError: no component can be weighed, or it is strict, and one cannot be.
    """
    path = os.fspath(folder)
    described = _described(path)
    weighings: dict[str, Weighing] = {}
    errors: dict[str, WeighbridgeError] = {}
    asked: dict[str, Any] = {"dtype": dtype, "strict": strict}
    for name, component in described.components.items():
        try:
            weighings[name] = _weighed(os.path.join(path, component.path), component, asked)
        except WeighbridgeError as error:
            if strict:
                raise
            errors[name] = error
    if not weighings:
        raise next(iter(errors.values()))
    reasons = {name: str(error) for name, error in errors.items()}
    return PipelineWeighing(path, described, weighings, reasons)


def _weighed(place: str, component: Component, asked: Mapping[str, Any]) -> Weighing:
    """Weigh a component as the class that its library builds."""
    class_name, given = _class_and_blueprint(place, component)
    weighing = weigh(place, class_name, **given, **asked)
    if component.library == "diffusers":
        _check_class(weighing.model, component.class_name)
    return weighing


def _class_and_blueprint(place: str, component: Component) -> tuple[str | None, dict[str, Any]]:
    """Return the class to weigh a component as, and the blueprint if its config names none."""
    library, class_name = component.library, component.class_name
    if library == "transformers":
        return class_name, {}
    if library == "diffusers":
        return None, {}
    if library == sentence.LIBRARY and class_name in sentence.TRANSFORMERS:
        return encoder_class(place, component), {}
    if library == sentence.LIBRARY and class_name in schema.library_names(library):
        return None, {"blueprint": lambda *_: schema.load_of(library, class_name)}
    what = f"{shorten(class_name, str)} is in no library that weighbridge has blueprints for"
    hint = f"`weighbridge inspect {place}` counts its checkpoint"
    raise ModelError(what, where=place, hint=hint)


def _check_class(model: Model, class_name: str) -> None:
    """Refuse a component whose config names another class than the pipeline does.

    diffusers builds the class that the pipeline names, whatever the config says.
    """
    if class_of({**model.config, "_class_name": class_name}) != class_of(model.config):
        values = {"model_index": class_name, "config": model.config.get("_class_name")}
        hint = f"mend {PIPELINE} or the config.json, or download the pipeline again"
        what = f"{PIPELINE} names another class than the component's config.json"
        raise ModelError(what, where=model.where, values=values, hint=hint)


class PipelineWeighing(TabularAnswer):
    """What `weigh_pipeline` returns.

    ``weighings`` has the `Weighing` of each component by name, and ``unweighed`` the reason for
    each component that was not weighed. ``parameters`` is the total of the weighed ones.
    """

    groupings = ("component",)

    def __init__(
        self,
        path: str,
        described: FolderOfModels,
        weighings: dict[str, Weighing],
        reasons: dict[str, str],
    ) -> None:
        self.path, self.class_name = path, described.class_name
        self.places = {
            name: os.path.join(path, component.path) if component.path else path
            for name, component in described.components.items()
        }
        """The folder of each component."""
        self.weighings, self.unweighed = weighings, reasons
        self.parameters: int = sum(weighing.parameters for weighing in weighings.values())

    @property
    def bytes(self) -> int | None:
        """The size of all weighed components; None if the size of one is not known."""
        sizes = [weighing.bytes for weighing in self.weighings.values()]
        known = [size for size in sizes if size is not None]
        return sum(known) if len(known) == len(sizes) else None

    @property
    def status(self) -> int:
        """0 if all components were weighed, otherwise 1."""
        return int(bool(self.unweighed))

    @property
    def notes(self) -> list[str]:
        """The notes of the components, and why some were not weighed."""
        notes = [note for weighing in self.weighings.values() for note in weighing.notes]
        return [*notes, *self.unweighed.values()]

    def to_dict(self, by: str = "component") -> dict[str, Any]:
        """Return the components with their totals, ready for JSON."""
        self._check(by)
        models = [
            {
                "component": name,
                "class": weighing.class_name,
                "parameters": weighing.parameters,
                "dtype": weighing.ledger.dtype,
                "bytes": weighing.bytes,
                "formula": str(weighing.formula()),
            }
            for name, weighing in self.weighings.items()
        ]
        return {
            "model": self.path,
            "class": self.class_name,
            "parameters": self.parameters,
            "bytes": self.bytes,
            "components": {name: one.parameters for name, one in self.weighings.items()},
            "models": models,
            "unweighed": self.unweighed,
            "notes": self.notes,
        }

    def document(
        self, lang: str = "en", by: str = "component", *, evidence: bool = False
    ) -> Document:
        """Return a table of the components with the total.

        ``evidence`` adds all sources of the numbers, by component.
        """
        self._check(by)
        title = Title(f"{printable(self.path)} · {printable(self.class_name)}", wraps=False)
        blocks: list[Block] = [Together((title, self._table(lang))), Notes(tuple(self._said(lang)))]
        if evidence:
            for name, weighing in self.weighings.items():
                known = weighing.known(lang, evidence=True)
                blocks.append(Together((Title(name), Notes(tuple(known)))))
        return Document(tuple(blocks), lang)

    def _check(self, by: str) -> None:
        if by not in self.groupings:
            hint = f"`weighbridge weigh {self._first} --by {by}` weighs one component"
            raise UsageError("a pipeline is weighed by component", values={"by": by}, hint=hint)

    def _table(self, lang: str) -> Table:
        texts, rows, shares = _pipeline_words(lang), list[tuple[str, ...]](), list[float]()
        for name, weighing in self.weighings.items():
            count, size = units.count(weighing.parameters), _size(weighing.bytes)
            share = units.share(weighing.parameters, self.parameters)
            rows.append((name, weighing.class_name, count, share, size))
            shares.append(units.fraction(weighing.parameters, self.parameters))
        whole = units.share(self.parameters, self.parameters)
        rows.append((texts["total"], "", units.count(self.parameters), whole, _size(self.bytes)))
        header = tuple(texts[key] for key in ("component", "class", "parameters", "share", "bytes"))
        return Table(header, tuple(rows), "<<>>>", 1, tuple(shares), 3)

    def _said(self, lang: str) -> Iterator[str]:
        texts = _pipeline_words(lang)
        if self.unweighed:
            yield texts["without"].format(names=words(lang)["and"].join(self.unweighed))
        yield texts["more"].format(component=self._first)

    @property
    def _first(self) -> str:
        """The first component, in the words that weigh it alone."""
        name, weighing = next(iter(self.weighings.items()))
        return f"{printable(self.places[name])} --class {weighing.class_name}"

    def _data_table(self, by: str) -> DataTable:
        rows = [
            (name, weighing.class_name, weighing.parameters, weighing.bytes)
            for name, weighing in self.weighings.items()
        ]
        numbers = (Column("parameters", INTEGER), Column("bytes", INTEGER))
        return DataTable((Column(by), Column("class"), *numbers), rows)


def verify_pipeline(
    model: str | os.PathLike[str],
    checkpoint: str | os.PathLike[str],
    *,
    dtype: str | None = None,
    strict: bool = False,
    watch: Watch | None = None,
) -> PipelineVerification:
    """Verify the checkpoint of each component of a folder of models against its config.

    Args:
        model: a local folder as for `weigh_pipeline`, with a config for each component.
        checkpoint: the folder with the checkpoints of the components, which may be the same.
        dtype: as for `verify`, for each component.
        strict: as for `verify`.
        watch: as for `verify`.

    Raises:
        ModelError: the folder is no folder of several models, or a component has no blueprint.
        CheckpointError: as for `weigh_pipeline`; or the checkpoint of a component is missing, or
            cannot be read.
    """
    path, stored = os.fspath(model), os.fspath(checkpoint)
    verifications: dict[str, Compared | Fitting] = {}
    asked: dict[str, Any] = {"dtype": dtype, "strict": strict, "watch": watch}
    for name, component in _described(path).components.items():
        place, within = (os.path.join(whole, component.path) for whole in (path, stored))
        named, given = _class_and_blueprint(place, component)
        answer = verify(place, within, named, **given, **asked)
        if component.library == "diffusers" and isinstance(answer, Verification):
            _check_class(answer.model, component.class_name)
        verifications[name] = answer
    return PipelineVerification(path, stored, verifications)


class PipelineVerification(Answer):
    """What `verify_pipeline` returns: ``verifications`` has the answer for each component."""

    def __init__(
        self, path: str, checkpoint: str, verifications: dict[str, Compared | Fitting]
    ) -> None:
        self.path, self.checkpoint, self.verifications = path, checkpoint, verifications

    @property
    def status(self) -> int:
        """0 if all checkpoints match, otherwise 1."""
        return max(answer.status for answer in self.verifications.values())

    @property
    def notes(self) -> list[str]:
        """The notes of all components."""
        return [note for answer in self.verifications.values() for note in answer.notes]

    def to_dict(self) -> dict[str, Any]:
        """Return the answer for each component, ready for JSON."""
        answers = {name: answer.to_dict() for name, answer in self.verifications.items()}
        return {
            "pipeline": self.path,
            "checkpoint": self.checkpoint,
            "status": self.status,
            "components": answers,
        }

    def document(self, lang: str = "en", *, evidence: bool = False) -> Document:
        """Return the verdicts of all components, one after the other."""
        blocks: list[Block] = []
        for answer in self.verifications.values():
            if isinstance(answer, Compared):
                blocks += answer.document(lang, evidence=evidence).blocks
            else:
                blocks += answer.document(lang).blocks
        return Document(tuple(blocks), lang)


def _described(path: str) -> FolderOfModels:
    """Return what a folder says about its models, checked to have some."""
    described = sentence.models_in(path)
    hint = "give the folder of a pipeline, as diffusers saves it"
    if described is None:
        raise ModelError(f"the folder has no {PIPELINE}", where=path, hint=hint)
    if not described.components:
        what = f"{PIPELINE} or modules.json names no component that has parameters"
        raise ModelError(what, where=path, hint=hint)
    return described


def _pipeline_words(lang: str) -> dict[str, str]:
    return data.read_toml(f"words/pipeline.{lang}.toml")


def _size(size: int | None) -> str:
    return "" if size is None else units.size(size)
