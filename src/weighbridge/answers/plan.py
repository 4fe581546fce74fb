"""Plans for a cluster: all that fit, the best of them, and why the others lose."""

from __future__ import annotations

from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge.answers.answer import TabularAnswer
from weighbridge.answers.cache import with_cache
from weighbridge.answers.fitting import context_allowance, usable_bytes
from weighbridge.answers.recorded import check_size, recorded
from weighbridge.answers.serve import service_for
from weighbridge.answers.serve_plan import ServiceSearch
from weighbridge.answers.train import (
    CHECKPOINTING,
    Trainer,
    TrainingBudget,
    TrainingFit,
    TrainingSetting,
)
from weighbridge.costs.devices import devices_on
from weighbridge.costs.optimizers import precision_called
from weighbridge.costs.parallel import ParallelPlan
from weighbridge.errors import UsageError

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping

    from weighbridge.answers.data_table import DataTable
    from weighbridge.answers.recorded import RecordedModel
    from weighbridge.costs.devices import Devices
    from weighbridge.models.find import Described
    from weighbridge.render.document import Document

_MOST_TENSOR = 8  # ranks, where a device does not say how many a node has
_MOST_STAGES = 64
_LONG = 32768  # tokens of a sequence from which context parallelism is tried
_CONTEXT = (1, 2, 4, 8, 16)
_ZERO = (1, 2, 3)


class Tried(NamedTuple):
    """A plan that was tried: its setting, the least seconds of a step, and the fullest rank.

    ``over_bytes`` is what that rank lacks; 0 or less if the plan fits. ``limit`` names what limits
    its time.
    """

    setting: TrainingSetting
    seconds: float
    limit: str
    peak_bytes: int
    over_bytes: int
    rank: int
    moment: str

    @property
    def fits(self) -> bool:
        """Whether every rank fits on its device."""
        return self.over_bytes <= 0


def plan(  # noqa: PLR0913  # each is a word of its own for the user
    model: Described,
    class_name: str | None = None,
    *,
    on: str,
    batch: int,
    sequence: int | None = None,
    serve: bool = False,
    context: int | None = None,
    weights: str | None = None,
    cache: str | None = None,
    optimizer: str = "adamw",
    precision: str = "master",
    profile: str | None = None,
    reserve: str | None = None,
    device_file: str | os.PathLike[str] | None = None,
    fields: Mapping[str, Any] | None = None,
) -> PlanSearch | ServiceSearch:
    """Search the plans for training a model on a cluster, or for serving it.

    It tries each way of dividing the model that its heads, layers and experts allow, each stage of
    ZeRO, micro-batch and kind of checkpointing.

    Args:
        model: as for `weigh`.
        class_name: as for `weigh`; its operations must be recorded.
        on: the devices, such as ``"512xH100"``.
        batch: the sequences of a step, or those that are served at once, over all devices.
        sequence: the tokens of each sequence that is trained on.
        serve: whether the model is served, not trained.
        context: the tokens of each sequence that is served.
        weights: the dtype of the weights, as for `serve`.
        cache: the dtype of the cache, as for `serve`.
        optimizer: as for `train`.
        precision: as for `train`.
        profile: the kernels, as for `cost`.
        reserve: what is kept free on each device, as for `train`.
        device_file: a file of one's own devices.
        fields: config fields to replace.

    Raises:
        UsageError: a size or a name makes no sense.
        ModelError: there is no such model, or no operations are recorded that hold for it.
        ConfigError: the config cannot be read, or describes no buildable model.

    Example:
        >>> plans = plan("meta-llama/Llama-3.1-8B", on="8xH100", batch=64, sequence=4096)
        >>> plans.status, plans.best.setting.plan.world
        (0, 8)
    """
    check_size("batch", batch)
    devices = devices_on(on, device_file)
    if serve:
        if context is None:
            raise UsageError("a plan for serving needs --context", hint="add --context with N")
        of_class = with_cache(model, class_name, fields=fields)
        service = service_for(of_class, context, batch, weights, cache)
        return ServiceSearch(of_class, devices, service, context_allowance(reserve))
    if sequence is None:
        raise UsageError("a plan for training needs --seq", hint="add --seq with N, or --serve")
    check_size("seq", sequence)
    dtype = precision_called(precision).compute
    found = recorded(model, class_name, fields=fields, dtype=dtype)
    first = TrainingSetting(
        batch, 1, sequence, optimizer, precision, "none", profile, ParallelPlan()
    )
    return PlanSearch(found, devices, first, context_allowance(reserve))


class PlanSearch(TabularAnswer):
    """What `plan` returns.

    Example:
        >>> plans = plan("meta-llama/Llama-3.1-8B", on="8xL4", batch=16, sequence=1024)
        >>> len(plans.tried) > len(plans.fitting) > len(plans.pareto) > 0
        True
    """

    groupings = ("plan",)

    def __init__(
        self, found: RecordedModel, devices: Devices, first: TrainingSetting, allowance: int
    ) -> None:
        self.found, self.devices, self.first, self.allowance = found, devices, first, allowance
        self.trainer = Trainer(found)

    @property
    def status(self) -> int:
        """0 if some plan fits, 1 if none does."""
        return 0 if self.fitting else 1

    @property
    def notes(self) -> list[str]:
        """Notes on how the config was read, and on the kernels."""
        return self.trainer.run(self.first, self.first.sequence).notes

    @cached_property
    def tried(self) -> list[Tried]:
        """Every plan, in the order of the search."""
        return [self._try(setting) for setting in self._settings()]

    @cached_property
    def fitting(self) -> list[Tried]:
        """The plans that fit, the fastest first; of equally fast ones the smallest."""
        fitting = [tried for tried in self.tried if tried.fits]
        return sorted(fitting, key=lambda tried: (tried.seconds, tried.peak_bytes))

    @property
    def best(self) -> Tried:
        """The fastest plan that fits.

        Raises:
            UsageError: none fits.
        """
        if not self.fitting:
            raise UsageError("no plan fits", hint="give more devices, or another --optimizer")
        return self.fitting[0]

    @cached_property
    def pareto(self) -> list[Tried]:
        """The plans that fit and are either faster or smaller than any other."""
        front: list[Tried] = []
        for tried in self.fitting:
            if not front or tried.peak_bytes < front[-1].peak_bytes:
                front.append(tried)
        return front

    @cached_property
    def nearest(self) -> list[Tried]:
        """The plans that do not fit, those that lack least first."""
        return sorted(
            (tried for tried in self.tried if not tried.fits), key=lambda tried: tried.over_bytes
        )

    def _settings(self) -> Iterator[TrainingSetting]:
        for ways in self._ways():
            stages = _ZERO if ways.copies > 1 else (0,)
            of_copy = self.first.batch // ways.data
            sizes = [size for size in _powers(of_copy) if of_copy % size == 0]
            for size, zero, kind in product(sizes, stages, self._checkpointing()):
                plan = ways._replace(zero=zero)
                yield self.first._replace(micro_batch=size, checkpointing=kind, plan=plan)

    def _checkpointing(self) -> tuple[str, ...]:
        if self.found.has("checkpointed"):
            return CHECKPOINTING
        return CHECKPOINTING[:1]

    def _ways(self) -> Iterator[ParallelPlan]:
        """Yield the ways of dividing the model over all devices."""
        world, division = self.devices.number, self.trainer.division
        node = min(world, max(self.devices.device.node, _MOST_TENSOR))
        most_stages = min(_MOST_STAGES, division.layers)
        contexts = _CONTEXT if self.first.sequence >= _LONG else _CONTEXT[:1]
        for tensor, context in product(_divisors_to(world, node), contexts):
            for stages in _divisors_to(world // tensor, most_stages):
                rest = world // (tensor * stages)
                for expert in _divisors_to(division.experts or 1, rest):
                    sizes = (tensor, stages, context, expert, rest // context)
                    ways = ParallelPlan(*sizes, sequence_parallel=tensor > 1)
                    if ways.world == world and self._allows(ways):
                        yield ways

    def _allows(self, ways: ParallelPlan) -> bool:
        """Whether the model and the batch can be divided so."""
        if self.first.batch % ways.data:
            return False
        try:
            self.trainer.division.check(ways)
        except UsageError:
            return False
        return True

    def _try(self, setting: TrainingSetting) -> Tried:
        whole = self.trainer.run(setting, setting.sequence)
        training = TrainingFit(
            whole, self.devices, setting, TrainingBudget(self.allowance), self.trainer
        )
        bound, worst = training.bound, training.fullest
        peak = worst.peak
        most = usable_bytes(self.devices.device) - self.allowance
        return Tried(
            setting,
            bound.seconds,
            bound.limit,
            peak.bytes,
            peak.bytes - most,
            worst.number,
            peak.name,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything, ready for JSON: the plans that fit, and the nearest that do not."""
        return {
            "model": self.found.weighing.model.where,
            "family": self.found.known.family,
            "class": self.found.class_name,
            "on": {"devices": self.devices.number, "device": self.devices.device.name},
            "batch": self.first.batch,
            "sequence": self.first.sequence,
            "tried": len(self.tried),
            "fits": bool(self.fitting),
            "fitting": len(self.fitting),
            "best": _tried_dict(self.best) if self.fitting else None,
            "pareto": [_tried_dict(tried) for tried in self.pareto],
            "plans": [_tried_dict(tried) for tried in (*self.fitting, *self.nearest)],
            "notes": self.notes,
            "evidence": self.found.evidence,
        }

    def document(self, lang: str = "en") -> Document:
        """Return the best plans, those on the Pareto front, and why the others lose."""
        from weighbridge.answers import plan_table  # noqa: PLC0415  # JSON does without

        return plan_table.plan_document(self, lang)

    def _data_table(self, _: str) -> DataTable:
        from weighbridge.answers.data_table import (  # noqa: PLC0415  # a terminal does without
            INTEGER,
            TEXT,
            TRUTH,
            Column,
            DataTable,
        )

        rows = [_flat(tried) for tried in (*self.fitting, *self.nearest)]
        types = {bool: TRUTH, int: INTEGER, str: TEXT}
        columns = tuple(Column(name, types[type(value)]) for name, value in rows[0].items())
        return DataTable(columns, [tuple(row.values()) for row in rows])


def _tried_dict(tried: Tried) -> dict[str, Any]:
    setting = tried.setting
    return {
        "plan": setting.plan._asdict(),
        "micro_batch": setting.micro_batch,
        "checkpointing": setting.checkpointing,
        "fits": tried.fits,
        "seconds": tried.seconds,
        "limit": tried.limit,
        "peak_bytes": tried.peak_bytes,
        "over_bytes": tried.over_bytes,
        "rank": tried.rank,
        "moment": tried.moment,
    }


def _flat(tried: Tried) -> dict[str, Any]:
    """Return a plan as a row: its options, its time in microseconds and its bytes."""
    setting, ways = tried.setting, tried.setting.plan
    return {
        "options": options_of(setting),
        "fits": tried.fits,
        "tensor_ranks": ways.tensor,
        "pipeline_ranks": ways.pipeline,
        "context_ranks": ways.context,
        "expert_ranks": ways.expert,
        "data_ranks": ways.data,
        "step_microseconds": round(tried.seconds * 10**6),
        "peak_bytes": tried.peak_bytes,
        "over_bytes": tried.over_bytes,
        "fullest_number": tried.rank,
        "moment": tried.moment,
    }


def options_of(setting: TrainingSetting) -> str:
    """Return the options of `train` that stand for a setting.

    Example:
        >>> ways = ParallelPlan(tensor=2, zero=1)
        >>> options_of(TrainingSetting(8, 1, 64, "adamw", "master", "full", None, ways))
        '--tp 2 --zero 1 --micro-batch 1 --checkpointing full'
    """
    ways = setting.plan
    sizes = {"tp": ways.tensor, "pp": ways.pipeline, "cp": ways.context, "ep": ways.expert}
    options = [f"--{name} {size}" for name, size in sizes.items() if size > 1]
    if ways.zero:
        options.append(f"--zero {ways.zero}")
    options.append(f"--micro-batch {setting.micro_batch}")
    if setting.checkpointing != "none":
        options.append(f"--checkpointing {setting.checkpointing}")
    if ways.sequence_parallel:
        options.append("--sequence-parallel")
    return " ".join(options)


def _powers(most: int) -> Iterable[int]:
    """Yield the powers of two up to a size."""
    size = 1
    while size <= most:
        yield size
        size *= 2


def _divisors_to(number: int, most: int) -> list[int]:
    """Return the divisors of a number up to a size.

    Example:
        >>> _divisors_to(512, 8)
        [1, 2, 4, 8]
    """
    return [size for size in range(1, min(number, most) + 1) if number % size == 0]
