"""Training on devices: the memory of each rank by moment, FLOPs, and a bound on time."""

from __future__ import annotations

from functools import cached_property
from itertools import combinations
from math import ceil

from weighbridge.answers.answer import TabularAnswer
from weighbridge.answers.cost import Run, RunCost, cost, kernels_of_run
from weighbridge.answers.fitting import (
    Change,
    context_allowance,
    drawn_as,
    large_number,
    save_svg,
    that_fit,
    usable_bytes,
)
from weighbridge.answers.recorded import check_size
from weighbridge.costs.activations import Held, Modules
from weighbridge.costs.adapting import adapting
from weighbridge.costs.bounds import Bound, peak_of
from weighbridge.costs.collectives import COPIES, TENSOR, Pass, collectives
from weighbridge.costs.devices import devices_on
from weighbridge.costs.lora import lora_tensors
from weighbridge.costs.lora_settings import parse_lora
from weighbridge.costs.optimizers import optimizer_called, precision_called
from weighbridge.costs.parallel import (
    EVERYTHING,
    SCHEDULES,
    ParallelDivision,
    ParallelPlan,
    Rank,
    bubble,
    ranks_of,
)
from weighbridge.costs.profiles import PROFILES
from weighbridge.costs.training import KINDS, RankMemory, TrainingStep, rank_memory
from weighbridge.errors import UsageError, either
from weighbridge.lean_typing import TYPE_CHECKING, NamedTuple
from weighbridge.units import DTYPE_BITS

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping
    from pathlib import Path
    from typing import Any

    from weighbridge.answers.data_table import DataTable
    from weighbridge.answers.estimating_training import TrainingEstimate
    from weighbridge.answers.recorded import RecordedModel
    from weighbridge.costs.adapting import Adapting
    from weighbridge.costs.collectives import Collective
    from weighbridge.costs.devices import Devices
    from weighbridge.models.find import Described
    from weighbridge.render.document import Document

CHECKPOINTING = ("none", "full", "selective")
ZERO = (0, 1, 2, 3)
_MOST_LISTED = 1024  # ranks of which each is listed; of larger worlds those that differ


class TrainingSetting(NamedTuple):
    """How a model is trained: sizes, the optimizer and dtypes by name, and the division.

    ``batch`` is that of a step, over all devices; ``micro_batch`` that of one pass on one copy of
    the model. ``checkpointing`` is ``"none"``, ``"full"`` or ``"selective"``. ``lora`` are the
    settings of an adapter, if only that is trained, and ``is_quantised`` says whether the model is
    in NF4 then.
    """

    batch: int
    micro_batch: int
    sequence: int
    optimizer: str
    precision: str
    checkpointing: str
    profile: str | None
    plan: ParallelPlan
    lora: str | None = None
    is_quantised: bool = False

    @property
    def micro_batches(self) -> int:
        """The passes of each copy of the model in a step."""
        return self.batch // (self.plan.data * self.micro_batch)


def train(  # noqa: PLR0913  # each is a word of its own for the user
    model: Described,
    class_name: str | None = None,
    *,
    on: str,
    batch: int,
    sequence: int,
    micro_batch: int | None = None,
    optimizer: str = "adamw",
    precision: str = "master",
    checkpointing: str = "none",
    zero: int = 0,
    tp: int = 1,
    pp: int = 1,
    cp: int = 1,
    ep: int = 1,
    schedule: str = "1f1b",
    chunks: int = 1,
    sequence_parallel: bool = False,
    lora: str | None = None,
    qlora: bool = False,
    profile: str | None = None,
    tokens: str | None = None,
    price: float | None = None,
    reserve: str | None = None,
    device_file: str | os.PathLike[str] | None = None,
    fields: Mapping[str, Any] | None = None,
) -> TrainingFit:
    """Compute whether training a model fits on devices, and the least time that a step takes.

    Args:
        model: as for `weigh`.
        class_name: as for `weigh`; its operations must be recorded.
        on: the devices, such as ``"8xH100"``.
        batch: the sequences of a step, over all devices.
        sequence: the tokens of each sequence.
        micro_batch: the sequences of one pass; by default all that a copy of the model gets, or 1
            in a pipeline.
        optimizer: a name in `facts/optimizers.toml`: ``"adamw"``, ``"adamw-8bit"``, ``"muon"``…
        precision: a name in `facts/precisions.toml`: ``"master"``, ``"megatron"``, ``"bf16"``…
        checkpointing: ``"none"``, ``"full"`` (of each layer), or ``"selective"`` (of attention).
        zero: the stage of ZeRO, 0 to 3; 3 is what FSDP does.
        tp: the ranks of tensor parallelism.
        pp: the stages of the pipeline.
        cp: the ranks of context parallelism.
        ep: the ranks of expert parallelism.
        schedule: of the pipeline: ``"1f1b"``, ``"gpipe"`` or ``"interleaved"``.
        chunks: the pieces of layers on each stage of an interleaved pipeline.
        sequence_parallel: whether tensor-parallel ranks divide norms and residuals too.
        lora: the settings of an adapter, such as ``"r=16,targets=q,v"``, as for `lora`; only it is
            trained then.
        qlora: whether the frozen model is in NF4; the adapter is then of rank 8 unless ``lora``
            says otherwise.
        profile: the kernels, as for `cost`.
        tokens: the tokens of the whole training, such as ``"15T"``, for its hours.
        price: the price of a device for an hour, for its cost.
        reserve: what is kept free on each device for what is not predicted; 1 GiB by default.
        device_file: a file of one's own devices.
        fields: config fields to replace.

    Raises:
        UsageError: a size or a name makes no sense, or the model cannot be divided so.
        ModelError: there is no such model, or no operations are recorded that hold for it.
        ConfigError: the config cannot be read, or describes no buildable model.

    Example:
        >>> eight = train("meta-llama/Llama-3.1-8B", on="8xH100", batch=8, sequence=4096, zero=3)
        >>> eight.fits, eight.worst.peak.name
        (True, 'loss')
    """
    if price is not None and price < 0:
        raise UsageError("--price is negative", values={"price": price}, hint="give 0 or more")
    if price is not None and tokens is None:
        raise UsageError("--price needs --tokens", hint="add --tokens, or drop --price")
    check_size("micro-batch", 1 if micro_batch is None else micro_batch)
    devices = devices_on(on, device_file)
    setting = TrainingSetting(
        *(batch, micro_batch or 0, sequence, optimizer, precision, checkpointing, profile),
        ParallelPlan(tp, pp, cp, ep, 1, zero, schedule, chunks, sequence_parallel),
        "r=8" if qlora and lora is None else lora,
        qlora,
    )
    setting = _checked(setting, devices)
    of_pass: dict[str, Any] = {"batch": setting.micro_batch, "sequence": sequence, "train": True}
    dtype = precision_called(precision).compute
    whole = cost(model, class_name, **of_pass, profile=profile, dtype=dtype, fields=fields)
    of_whole = large_number(tokens, "tokens") if tokens is not None else None
    budget = TrainingBudget(context_allowance(reserve), of_whole, price)
    return TrainingFit(whole, devices, setting, budget)


def _checked(setting: TrainingSetting, devices: Devices) -> TrainingSetting:
    """Return a setting with as many copies as there are devices for, and a micro-batch.

    A micro-batch of 0 is the usual one.

    Raises:
        UsageError: a size or a name makes no sense, or sizes do not divide.
    """
    ways = setting.plan
    sizes = {"batch": setting.batch, "seq": setting.sequence}
    sizes |= {"tp": ways.tensor, "pp": ways.pipeline, "cp": ways.context, "ep": ways.expert}
    sizes["chunks"] = ways.chunks
    for name, size in sizes.items():
        check_size(name, size)
    _check_choice("checkpointing", setting.checkpointing, CHECKPOINTING)
    _check_choice("schedule", ways.schedule, SCHEDULES)
    _check_choice("zero", ways.zero, ZERO)
    if setting.lora is not None:
        _check_whole(tp=ways.tensor, pp=ways.pipeline, ep=ways.expert)
    plan = _plan(devices, ways)
    usual = 1 if plan.pipeline > 1 else max(1, setting.batch // plan.data)
    micro_batch = setting.micro_batch or usual
    _check_batch(setting.batch, micro_batch, plan)
    return setting._replace(plan=plan, micro_batch=micro_batch)


def _check_whole(**sizes: int) -> None:
    if any(size > 1 for size in sizes.values()):
        raise UsageError(
            "an adapter is trained on whole copies of the model",
            values=sizes,
            hint="drop --tp, --pp and --ep, or --lora",
        )


def _check_choice(name: str, value: object, known: tuple[object, ...]) -> None:
    if value not in known:
        raise UsageError(
            f"there is no such --{name}",
            values={name: value},
            hint=f"use {either(map(str, known))}",
        )


def _plan(devices: Devices, plan: ParallelPlan) -> ParallelPlan:
    """Return a plan with as many copies of the model as there are devices for."""
    of_copy = plan.tensor * plan.pipeline * plan.context
    if devices.number % of_copy:
        raise UsageError(
            "the devices do not divide into copies of the model",
            values={
                "devices": devices.number,
                "tp": plan.tensor,
                "pp": plan.pipeline,
                "cp": plan.context,
            },
            hint="give sizes whose product divides the number of devices",
        )
    return plan._replace(data=devices.number // of_copy)


def _check_batch(batch: int, micro_batch: int, plan: ParallelPlan) -> None:
    if batch % (plan.data * micro_batch):
        raise UsageError(
            "the batch does not divide into micro-batches for each copy of the model",
            values={"batch": batch, "dp": plan.data, "micro_batch": micro_batch},
            hint=f"give --batch a multiple of {plan.data * micro_batch}",
        )
    if plan.schedule == "interleaved" and (batch // (plan.data * micro_batch)) % plan.pipeline:
        raise UsageError(
            "an interleaved schedule needs a multiple of the stages as micro-batches",
            values={"micro_batches": batch // (plan.data * micro_batch), "pp": plan.pipeline},
            hint="give another --batch or --micro-batch",
        )


class TrainingBudget(NamedTuple):
    """What is given for a training: memory kept free on each device, tokens, a price for an hour.

    ``tokens`` are those of the whole training, ``price`` is that of one device.
    """

    allowance: int
    tokens: int | None = None
    price: float | None = None


class Trainer:
    """The steps of one model on one cluster in different settings; what they share is kept."""

    def __init__(self, found: RecordedModel) -> None:
        self.found = found
        self.division = ParallelDivision(found.weighing.ledger)
        self.modules = Modules(found.weighing.ledger, self.division.stack)
        self._runs: dict[Any, RunCost] = {}
        self._held: dict[Any, tuple[Held, int, Held, int]] = {}
        self._adapters: dict[tuple[str, bool], Adapting] = {}
        self.link_seconds: dict[tuple[ParallelPlan, Pass], float] = {}
        """The least seconds that a rank sends in a step, by what they depend on."""

    def run(self, setting: TrainingSetting, sequence: int) -> RunCost:
        """Return the cost of one micro-batch with so many tokens in each sequence."""
        dtype = precision_called(setting.precision).compute
        key = (setting.micro_batch, sequence, setting.profile, dtype)
        if key not in self._runs:
            _, profile, notes = kernels_of_run(self.found, setting.profile, training=True)
            run = Run(setting.micro_batch, sequence, None, None, profile, dtype, training=True)
            self._runs[key] = RunCost(self.found, run, notes)
        return self._runs[key]

    def step(self, setting: TrainingSetting) -> TrainingStep:
        """Return what all ranks of a setting have in common."""
        plan, precision = setting.plan, precision_called(setting.precision)
        # Context parallelism gives each rank a part of the tokens.
        sequence = ceil(setting.sequence / plan.context)
        run, adapter = self.run(setting, sequence), self.adapter(setting)
        ways = (plan.tensor, plan.sequence_parallel, setting.checkpointing)
        key = (id(run), ways, setting.lora)
        if key not in self._held:
            tokens = setting.micro_batch * sequence
            of_loss = self.modules.of_loss(run.operations["saved"], plan, run.run.dtype)
            self._held[key] = (*self._activations(run, setting, adapter, tokens), of_loss)
        optimizer, passes = optimizer_called(setting.optimizer), setting.micro_batches
        saved, again, outputs, of_loss = self._held[key]
        return TrainingStep(
            plan, precision, optimizer, passes, saved, again, outputs, adapter, of_loss
        )

    def adapter(self, setting: TrainingSetting) -> Adapting | None:
        """Return the adapter that is trained in place of the model, if one is asked for."""
        if setting.lora is None:
            return None
        if (setting.lora, setting.is_quantised) not in self._adapters:
            self._adapters[setting.lora, setting.is_quantised] = self._adapting(setting)
        return self._adapters[setting.lora, setting.is_quantised]

    def _adapting(self, setting: TrainingSetting) -> Adapting:
        from weighbridge.answers.quantize import quantized_bytes  # noqa: PLC0415  # few ask for it

        weighing = self.found.weighing
        adapter = lora_tensors(weighing.ledger, parse_lora(setting.lora or ""))
        bits = float(DTYPE_BITS[precision_called(setting.precision).parameters])
        if setting.is_quantised:
            bits = 8 * quantized_bytes(weighing, "nf4") / weighing.parameters
        return adapting(adapter, self.modules, bits)

    def _activations(
        self, run: RunCost, setting: TrainingSetting, adapter: Adapting | None, tokens: int
    ) -> tuple[Held, int, Held]:
        """Return what a micro-batch saves, what a layer holds again, and the largest outputs."""
        modules, dtype, operations = self.modules, run.run.dtype, run.operations
        plan, checkpointing = setting.plan, setting.checkpointing
        has_scores = PROFILES[run.run.profile].attention in ("eager", "math")
        outputs = modules.largest_output(operations["forward"], plan, dtype, with_core=has_scores)
        saved = operations["saved"]
        added: dict[str, int] = {}
        if adapter is not None:
            saved = [tensor for tensor in saved if adapter.keeps(modules, tensor.path)]
            added = adapter.added_bytes(tokens, dtype)
        whole = modules.held(saved, plan, dtype).with_more(added)
        most = max(whole.by_layer.values(), default=0)
        if checkpointing == "none":
            return whole, 0, outputs
        if checkpointing == "selective":
            kept = modules.held(saved, plan, dtype, without_core=True).with_more(added)
            return kept, most - max(kept.by_layer.values(), default=0), outputs
        if "checkpointed" not in operations:
            raise UsageError(
                f"checkpointing was not recorded for {self.found.class_name}",
                values={"checkpointing": checkpointing},
                hint="drop --checkpointing",
            )
        return modules.held(operations["checkpointed"], plan, dtype), most, outputs


class LinkSeconds(NamedTuple):
    """The least seconds that a rank sends in a step.

    ``tensor`` is for tensor-parallel ranks; ``node`` and ``network`` for copies of the model, in a
    node and between nodes, which go on at once.
    """

    tensor: float
    node: float
    network: float

    @property
    def one_after_another(self) -> float:
        """The seconds if copies wait until tensor-parallel ranks have sent."""
        return self.tensor + max(self.node, self.network)


class TrainingFit(TabularAnswer):
    """What `train` returns.

    Example:
        >>> one = train("gpt2", on="L4", batch=8, sequence=1024, checkpointing="full")
        >>> one.status, len(one.ranks), one.worst.peak.name
        (0, 1, 'loss')
    """

    groupings = ("ranks", "moment")

    def __init__(
        self,
        whole: RunCost,
        devices: Devices,
        setting: TrainingSetting,
        budget: TrainingBudget,
        trainer: Trainer | None = None,
    ) -> None:
        self.whole, self.devices, self.setting, self.budget = whole, devices, setting, budget
        self.trainer = trainer or Trainer(whole.found)
        if trainer is None:
            self.trainer.division.check(setting.plan)
        self._step = self.trainer.step(setting)

    @property
    def found(self) -> RecordedModel:
        """The model and its operations."""
        return self.whole.found

    @property
    def status(self) -> int:
        """0 if the training fits on the devices, 1 if not."""
        return 0 if self.fits else 1

    @property
    def notes(self) -> list[str]:
        """Notes on how the config was read, and on the kernels."""
        return self.whole.notes

    @cached_property
    def differing(self) -> list[RankMemory]:
        """The memory of the ranks that may differ."""
        return [
            rank_memory(self.trainer.division, self._step, rank, number)
            for rank, number in ranks_of(self.setting.plan)
        ]

    @cached_property
    def ranks(self) -> list[RankMemory]:
        """The memory of each rank, by number; in a large world only of those that may differ."""
        plan = self.setting.plan
        if plan.world > _MOST_LISTED:
            return sorted(self.differing, key=lambda memory: memory.number)
        places = [
            Rank(tensor, copy, stage)
            for stage in range(plan.pipeline)
            for copy in range(plan.copies)
            for tensor in range(plan.tensor)
        ]
        return [rank_memory(self.trainer.division, self._step, rank) for rank in places]

    @cached_property
    def worst(self) -> RankMemory:
        """The rank that holds most at some moment; of equal ones the first."""
        return max(self.differing, key=lambda memory: memory.peak.bytes)

    @cached_property
    def fullest(self) -> RankMemory:
        """The rank that holds most: the first of the outer stages, or of that with most parameters.

        The first ranks of a stage have the largest pieces, and early stages most micro-batches.
        """
        division = self.trainer.division
        ranks = [Rank(stage=stage) for stage in self._outer_stages]
        memories = [rank_memory(division, self._step, rank) for rank in ranks]
        return max(memories, key=lambda memory: memory.peak.bytes)

    @cached_property
    def _outer_stages(self) -> list[int]:
        """The first stage, that with most parameters, and the last."""
        plan = self.setting.plan
        heaviest = self.trainer.division.heaviest_stage(plan.ways)
        return sorted({0, heaviest, plan.pipeline - 1})

    @property
    def peak_bytes(self) -> int:
        """The most that any rank holds at any moment, without the allowance."""
        return self.worst.peak.bytes

    @property
    def usable_bytes(self) -> int:
        """The memory of a device."""
        return usable_bytes(self.devices.device)

    @property
    def left_bytes(self) -> int:
        """What is left for the worst rank, the allowance taken off; negative if it does not fit."""
        return self.usable_bytes - self.budget.allowance - self.peak_bytes

    @property
    def fits(self) -> bool:
        """Whether every rank fits on its device."""
        return self.left_bytes >= 0

    @cached_property
    def step_flops(self) -> int:
        """The FLOPs of a step on all devices, those computed again included."""
        figures = self.whole.figures
        flops = self.model_flops // self._passes
        if self.setting.checkpointing == "full":
            flops += figures["recomputed_flops"] or 0
        if self.setting.checkpointing == "selective":
            flops += figures["forward_attention_flops"] or 0
        return flops * self._passes

    @property
    def model_flops(self) -> int:
        """The FLOPs of a step that the model needs: nothing is computed again."""
        figures = self.whole.figures
        forward = figures["forward_matmul_flops"] or 0
        backward = figures["backward_matmul_flops"] or 0
        if self.setting.lora is not None:
            # Frozen matrices have no gradients: these are as many products as the forward pass has.
            backward -= forward - (figures["forward_attention_flops"] or 0)
        return (forward + backward) * self._passes

    @property
    def _passes(self) -> int:
        return self.setting.batch // self.setting.micro_batch

    @property
    def attention_flops(self) -> int:
        """The FLOPs of attention in the forward passes of a step, as if nothing were masked."""
        return (self.whole.figures["forward_attention_flops"] or 0) * self._passes

    def _with_half_attention(self, flops: int, passes: int) -> float:
        """Return FLOPs with half of the attention, of so many passes of it, in a causal model."""
        if not self.found.has("step"):
            return flops
        return flops - self.attention_flops * passes / 2

    @cached_property
    def bound(self) -> Bound:
        """The least seconds of a step."""
        plan, device = self.setting.plan, self.devices.device
        _, peak = peak_of(device, self._step.precision.compute)
        is_repeated = self.setting.checkpointing != "none"
        least = self._with_half_attention(self.step_flops, _PASSES_OF_ATTENTION + is_repeated)
        compute = least / (plan.world * peak) * bubble(plan, self._step.micro_batches)
        return Bound(compute, links=self._link_seconds)

    def collectives(self, stage: int = 0) -> list[Collective]:
        """Return the collectives that the first rank of a stage takes part in during a step.

        None are known for an adapter on a frozen model.
        """
        if self.setting.lora is not None:
            return []
        return collectives(self.trainer.division, self.setting.plan, self._pass, stage)

    @cached_property
    def _pass(self) -> Pass:
        """What of a step decides its collectives."""
        setting = self.setting
        return Pass(
            setting.micro_batch * ceil(setting.sequence / setting.plan.context),
            setting.micro_batches,
            self._step.precision,
            setting.checkpointing == "full",
        )

    @property
    def _link_seconds(self) -> float:
        """Return the least seconds that a rank sends; a link that is not known takes none."""
        if self.setting.lora is not None:  # an adapter's gradients are small
            return 0.0
        known, key = self.trainer.link_seconds, (self.setting.plan, self._pass)
        if key not in known:
            known[key] = max(max(self._stage_links(stage)) for stage in self._outer_stages)
        return known[key]

    @cached_property
    def links(self) -> LinkSeconds:
        """The least seconds that the first rank sends in a step."""
        return self._stage_links(0)

    def _stage_links(self, stage: int) -> LinkSeconds:
        plan, device = self.setting.plan, self.devices.device
        inside, outside = device.link or 0, device.network or 0
        # Copies in one node divide what they send to other nodes.
        together = max(1, min(plan.copies, device.node // plan.tensor))
        of_tensor = in_node = between = 0.0
        for one in self.collectives(stage):
            if one.over == TENSOR:
                of_tensor += one.least_sent(one.ranks)
            elif one.over == COPIES:
                near = min(one.ranks, together)  # wherever the ranks stand, no more are in a node
                in_node += one.least_sent(near)
                between += one.least_sent(ceil(one.ranks / near)) / near
        is_near = plan.tensor <= device.node
        return LinkSeconds(
            _over(of_tensor, inside if is_near else outside),
            _over(in_node, inside),
            _over(between, outside),
        )

    @property
    def tokens_per_second(self) -> float:
        """The most tokens that a second can take."""
        return self.setting.batch * self.setting.sequence / self.bound.seconds

    @property
    def model_flops_utilisation(self) -> float:
        """The share of the peak that the model itself would use at the bound.

        Half of the attention of a causal model counts, and nothing that is computed again.
        """
        _, peak = peak_of(self.devices.device, self._step.precision.compute)
        needed = self._with_half_attention(self.model_flops, _PASSES_OF_ATTENTION)
        return needed / (self.bound.seconds * self.setting.plan.world * peak)

    @property
    def hours(self) -> float | None:
        """The least hours of the whole training; None if its tokens are not given."""
        return (
            None
            if self.budget.tokens is None
            else self.budget.tokens / self.tokens_per_second / 3600
        )

    @property
    def money(self) -> float | None:
        """The least price of the whole training; None without tokens or a price."""
        if self.hours is None or self.budget.price is None:
            return None
        return self.hours * self.budget.price * self.setting.plan.world

    @cached_property
    def estimate(self) -> TrainingEstimate:
        """The calibrated estimate of time, or why there is none."""
        from weighbridge.answers import estimating_training  # noqa: PLC0415  # searches do without

        return estimating_training.training_estimate(self)

    @cached_property
    def changes(self) -> list[Change]:
        """What to change so that it fits, each change alone, or with full checkpointing."""
        if self.fits:
            return []
        return that_fit(self._tried(), self.usable_bytes - self.budget.allowance)

    def _tried(self) -> Iterator[Change]:
        for options, tried in self._alternatives():
            yield Change(options, self.peak_with(tried))

    def _alternatives(self) -> Iterator[tuple[str, TrainingSetting]]:
        """Yield other settings: one thing changed, then two, then three."""
        ways: list[tuple[str, dict[str, Any]]] = []
        setting, plan = self.setting, self.setting.plan
        if setting.micro_batch > 1:
            ways.append(("--micro-batch 1", {"micro_batch": 1}))
        if plan.copies > 1 and plan.zero < EVERYTHING:
            ways.append(("--zero 3", {"plan": plan._replace(zero=EVERYTHING)}))
        if setting.checkpointing != "full" and self.found.has("checkpointed"):
            ways.append(("--checkpointing full", {"checkpointing": "full"}))
        if setting.optimizer != "adamw-8bit":
            ways.append(("--optimizer adamw-8bit", {"optimizer": "adamw-8bit"}))
        for number in range(1, len(ways) + 1):
            for chosen in combinations(ways, number):
                changed = {name: value for _, one in chosen for name, value in one.items()}
                yield " ".join(options for options, _ in chosen), setting._replace(**changed)

    def peak_with(self, setting: TrainingSetting) -> int:
        """Return the most that any rank would hold in another setting."""
        step = self.trainer.step(setting)
        return max(
            rank_memory(self.trainer.division, step, rank).peak.bytes
            for rank, _ in ranks_of(setting.plan)
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything, ready for JSON."""
        setting, bound = self.setting, self.bound
        return {
            "model": self.found.weighing.model.where,
            "family": self.found.known.family,
            "class": self.found.class_name,
            "on": {"devices": self.devices.number, "device": self.devices.device.name},
            "setting": {
                **setting._asdict(),
                "plan": {**setting.plan._asdict(), "world": setting.plan.world},
                "micro_batches": setting.micro_batches,
                "profile": self.whole.run.profile,
            },
            "fits": self.fits,
            "peak_bytes": self.peak_bytes,
            "allowance_bytes": self.budget.allowance,
            "usable_bytes": self.usable_bytes,
            "left_bytes": self.left_bytes,
            "worst": {"rank": self.worst.number, "moment": self.worst.peak.name},
            "ranks": [_rank_dict(memory) for memory in self.ranks],
            "step_flops": self.step_flops,
            "model_flops": self.model_flops,
            "collectives": [
                {**one._asdict(), "total_bytes": one.total_bytes}
                for one in self.collectives(self.worst.rank.stage)
            ],
            "bound_seconds": bound.seconds,
            "bound": {**bound._asdict(), "limit": bound.limit},
            "tokens_per_second": self.tokens_per_second,
            "model_flops_utilisation": self.model_flops_utilisation,
            "hours": self.hours,
            "money": self.money,
            "estimate": self.estimate.to_dict(),
            "changes": [change._asdict() for change in self.changes],
            "notes": self.notes,
            "evidence": self.found.evidence,
        }

    def document(self, lang: str = "en") -> Document:
        """Return the memory by moment, the verdict, what to change, and the bound on time."""
        from weighbridge.answers import train_table  # noqa: PLC0415  # JSON does without

        return train_table.train_document(self, lang)

    def svg(self, lang: str | None = None, picture: str = "memory") -> str:
        """Return a picture, an SVG file.

        Args:
            lang: the language of its texts.
            picture: ``"memory"``, what the worst rank holds at each moment; ``"schedule"``, what
                each stage of a pipeline does when; or ``"roofline"`` of a pass forward.

        Raises:
            UsageError: there is no such picture, or no pipeline.

        Example:
            >>> train("gpt2", on="L4", batch=8, sequence=1024).svg()[:4]
            '<svg'
        """
        from weighbridge.answers import train_table  # noqa: PLC0415  # text does without

        return drawn_as(picture, train_table.PICTURES)(self, lang or self.lang)

    def save(
        self, file: str | os.PathLike[str], lang: str | None = None, picture: str = "memory"
    ) -> Path:
        """Write a picture to a file, and return the path.

        Raises:
            UsageError: the file does not end in .svg, or cannot be written.
        """
        return save_svg(file, self.svg(lang, picture))

    def _data_table(self, by: str) -> DataTable:
        from weighbridge.answers.data_table import (  # noqa: PLC0415  # a terminal does without
            INTEGER,
            TEXT,
            Column,
            DataTable,
        )

        if by == "moment":
            columns = (
                Column("moment", TEXT),
                *(Column(f"{kind}_bytes", INTEGER) for kind in KINDS),
            )
            rows = [
                (moment.name, *(moment.held[kind] for kind in KINDS))
                for moment in self.worst.moments
            ]
            return DataTable(columns, rows)
        # Tables of other answers have lists of ranks.
        ranks = [
            {"number" if name == "rank" else name: value for name, value in rank.items()}
            for rank in map(_rank_dict, self.ranks)
        ]
        types = {name: TEXT if name == "moment" else INTEGER for name in ranks[0]}
        columns = tuple(Column(name, kind) for name, kind in types.items())
        return DataTable(columns, [tuple(rank.values()) for rank in ranks])


_PASSES_OF_ATTENTION = 3  # forward, and one for each of the two factors in the backward pass


def _over(sent: float, bandwidth: int) -> float:
    """Return the seconds that bytes take; none over a link that is not known."""
    return sent / bandwidth if bandwidth else 0.0


def _rank_dict(memory: RankMemory) -> dict[str, Any]:
    peak, states = memory.peak, memory.states
    loss = memory.moments[0].held
    return {
        "rank": memory.number,
        "stage": memory.rank.stage,
        "ranks": memory.ranks,
        "peak_bytes": peak.bytes,
        "moment": peak.name,
        "parameter_bytes": states["parameters"],
        "gradient_bytes": states["gradients"],
        "optimizer_bytes": states["optimizer"],
        "activation_bytes": loss["activations"],
        "gathered_bytes": loss["gathered"],
    }
