"""What a run takes in closed form: FLOPs, saved bytes and cache bytes, as text or code that runs.

The formulas are in the sizes of the config and of the run. The dtype, the kernels, and whether the
run is training are fixed; they are named beside the formulas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from weighbridge import data, units
from weighbridge.answers.cache import Cache, dtype_of_cache, with_cache
from weighbridge.answers.cost import Run, RunCost, kernels_of_run, usual_tokens
from weighbridge.answers.cost_formula import CONTEXT, RUN_LETTERS, FormulaWriter
from weighbridge.answers.formula import ClosedForm, Formulas, NamedFormula
from weighbridge.answers.recorded import recorded
from weighbridge.costs.figures import BYTES, FLOPS
from weighbridge.errors import UsageError
from weighbridge.render.document import Aside

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from weighbridge.answers.formula import RunAsked
    from weighbridge.answers.recorded import RecordedModel
    from weighbridge.ledger.lettering import Size
    from weighbridge.models.find import Described


class _RunQuantity(NamedTuple):
    """A quantity with the kind of its operations, its name in JSON, and its value."""

    kind: str
    name: str
    value: int


class _Subject(NamedTuple):
    """What formulas of a run are about: the quantities, the values of names, and the dtype."""

    found: RecordedModel
    asked: RunAsked
    counted: tuple[_RunQuantity, ...]
    names: dict[str, Any]
    dtype: str
    run: Mapping[str, Any]
    notes: tuple[str, ...]


def run_formula(
    model: Described,
    class_name: str | None,
    asked: RunAsked,
    *,
    lang: str | None,
    dtype: str | None,
    **of_model: Any,
) -> RunClosedForm:
    """Return the formulas of what a run takes; the arguments are those of `formula`."""
    if of_model.pop("blueprint") is not None:
        raise UsageError(
            "operations are recorded for the blueprints of this package only",
            values={"of": asked.of},
            hint="drop --blueprint and --via, or --of",
        )
    if asked.of != "cache":
        found = recorded(model, class_name, dtype=dtype, **of_model)
        return RunClosedForm(_of_run(found, asked), lang)
    if asked.profile is not None or asked.train:
        raise UsageError(
            "a cache depends neither on the kernels nor on training",
            values={"of": asked.of},
            hint="drop --profile and --train",
        )
    return RunClosedForm(_of_cache(with_cache(model, class_name, **of_model), asked, dtype), lang)


def _of_run(found: RecordedModel, asked: RunAsked) -> _Subject:
    """Return the FLOPs of a run, or the bytes that it saves."""
    is_trained = asked.train or asked.of == "saved"
    dtype, profile, notes = kernels_of_run(found, asked.profile, training=is_trained)
    tokens = usual_tokens(found)
    past = None
    if asked.of == "flops" and found.has("step"):
        past = max(tokens - 1, 1)
    run = Run(1, tokens, None, past, profile, dtype, is_trained)
    cost = RunCost(found, run, notes)
    names = FLOPS
    if asked.of == "saved":
        names = BYTES
    counted = []
    for kind, name in names.items():
        value = cost.figures[name]
        if kind in cost.operations and value is not None:
            counted.append(_RunQuantity(kind, name, value))
    stated = {"profile": profile, "dtype": dtype, "training": run.training}
    return _Subject(found, asked, tuple(counted), cost.names, dtype, stated, tuple(cost.notes))


def _of_cache(found: RecordedModel, asked: RunAsked, dtype: str | None) -> _Subject:
    """Return the bytes of a cache."""
    held = dtype_of_cache(found, dtype)
    if units.DTYPES[held].elements > 1:
        raise UsageError(
            "a formula of bytes needs a dtype of whole bytes",
            values={"dtype": held},
            hint="use --dtype with fp8 or a wider one; `weighbridge cache` takes any",
        )
    context = usual_tokens(found)
    cache = Cache(found, context, 1, held)
    names = {**cache.names(context, 1), "context": context}
    counted = (_RunQuantity("stepped", "cache_bytes", cache.cache_bytes),)
    return _Subject(found, asked, counted, names, held, {"dtype": held}, tuple(cache.notes))


class RunClosedForm(ClosedForm):
    """The formulas of what a run takes; `formula` returns them if asked for ``of``.

    Example:
        >>> from weighbridge.answers.formula import formula
        >>> flops = formula("bert-base-chinese", of="flops")
        >>> flops.to_dict()["forward_matmul_flops"]["letters"]
        'L·(8b·s·H² + 4b·s²·H + 4b·s·H·F) + 2b·H²'
    """

    def __init__(self, subject: _Subject, lang: str | None = None) -> None:
        super().__init__(subject.found.weighing, lang)
        self._subject = subject

    @property
    def notes(self) -> list[str]:
        """Notes on how the config was read, and on the kernels."""
        return list(self._subject.notes)

    def _written(self, by: str, names: str | None, lang: str, **_: bool) -> Formulas:
        if by != "total":
            raise UsageError(
                "the formulas of a run are totals",
                values={"of": self._subject.asked.of, "by": by},
                hint="drop --by; `weighbridge explain MODEL --costs` derives each component",
            )
        return _RunFormulas(self._subject, names, lang)


class _RunFormulas(Formulas):
    """The formulas of a run, each checked against its figure."""

    counted = "operations"

    def __init__(self, subject: _Subject, names: str | None, lang: str) -> None:
        self._subject, instead = subject, {}
        if subject.asked.of == "cache":
            instead = CONTEXT
        writer = FormulaWriter(
            subject.found, subject.names, subject.dtype, free=True, instead=instead
        )
        super().__init__(subject.found.weighing, writer.lettering, "total", names, lang)
        self.computed = subject.found.computed
        self._words = data.read_toml(f"words/cost.{lang}.toml")
        for kind, name, value in subject.counted:
            title = self._words[f"of_{name}"]
            written = writer.bytes_of
            if kind in FLOPS:
                written = writer.flops_of
            self.totals.append(NamedFormula(name, title, written(kind), value))
        self.check()

    def meaning(self, size: Size) -> str:
        """Return the meaning of a size of the config or of the run."""
        if size.field in RUN_LETTERS:
            text: str = self._words[f"letter_{size.field}"]
            return text
        return super().meaning(size)

    def agreement(self) -> Iterator[str]:
        """Yield what the formulas agree with."""
        command = "cost"
        if self._subject.asked.of == "cache":
            command = "cache"
        yield self.texts["agrees_run"].format(command=f"weighbridge {command}")
        yield self.texts[f"counts_{self._subject.asked.of}"]

    def remarks(self) -> Iterator[str]:
        """Yield the settings of the run that are no variables."""
        run, texts = self._subject.run, self.texts
        if "profile" not in run:
            yield texts["settings_cache"].format(**run)
            return
        mode = texts["inference"]
        if run["training"]:
            mode = self._words["training"]
        yield texts["settings"].format(profile=run["profile"], dtype=run["dtype"], mode=mode)

    def known(self) -> Iterator[str]:
        """Yield how the operations were recorded and checked."""
        yield Aside(self._words["evidence"].format(**self._subject.found.evidence))

    def to_dict(self) -> dict[str, Any]:
        """Return everything, ready for JSON."""
        subject = self._subject
        return {
            **super().to_dict(),
            "of": subject.asked.of,
            "run": dict(subject.run),
            "notes": list(subject.notes),
            "evidence": subject.found.evidence,
        }
