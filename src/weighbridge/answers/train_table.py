"""Training on devices as tables: the worst rank at each moment, the stages, and the bound."""

from __future__ import annotations

from weighbridge import data, units
from weighbridge.answers.roofline import device_roofline, roofline_points
from weighbridge.costs.bounds import peak_of
from weighbridge.costs.optimizers import precision_called
from weighbridge.costs.parallel import bubble
from weighbridge.costs.schedule import BACKWARD_TICKS, timeline
from weighbridge.costs.training import KINDS
from weighbridge.errors import UsageError
from weighbridge.lean_typing import TYPE_CHECKING
from weighbridge.render.document import Aside, Document, Notes, Title, Together
from weighbridge.render.table import Table
from weighbridge.render.words import words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from weighbridge.answers.estimating_training import TrainingEstimate
    from weighbridge.answers.train import TrainingFit
    from weighbridge.costs.schedule import StagePass
    from weighbridge.costs.training import RankMemory
    from weighbridge.render.document import Block

_MOST_CHANGES = 3


def train_document(training: TrainingFit, lang: str) -> Document:
    """Return the memory of the worst rank, the verdict, what to change, and the bound on time."""
    texts = {**words(lang), **data.read_toml(f"words/fitting.{lang}.toml")}
    blocks: list[Block] = [
        Together((Title(_train_heading(training, texts), wraps=True), _moments(training, texts)))
    ]
    blocks.append(Notes(tuple(_verdict(training, texts))))
    if training.setting.plan.pipeline > 1:
        blocks.append(_stages(training, texts))
    blocks.append(_time(training, texts))
    notes = [
        texts["counted"],
        _about_estimate(training, texts),
        Aside(texts["evidence"].format(**training.found.evidence)),
    ]
    blocks.append(Notes(tuple(notes)))
    return Document(tuple(blocks), lang)


def _train_heading(training: TrainingFit, texts: Mapping[str, str]) -> str:
    setting, plan = training.setting, training.setting.plan
    ways = {"tp": plan.tensor, "pp": plan.pipeline, "cp": plan.context, "ep": plan.expert}
    parts = [
        texts["on"].format(number=training.devices.number, device=training.devices.device.name),
        texts["batch"].format(size=units.count(setting.batch)),
        texts["micro_batch"].format(size=units.count(setting.micro_batch)),
        texts["sequence"].format(size=units.count(setting.sequence)),
        f"{setting.optimizer}/{setting.precision}",
        training.whole.run.profile,
        *(f"{name}{size}" for name, size in {**ways, "dp": plan.data}.items() if size > 1),
    ]
    if plan.zero:
        parts.append(f"ZeRO-{plan.zero}")
    if setting.lora is not None:
        parts.append(f"{'QLoRA' if setting.is_quantised else 'LoRA'} {setting.lora}")
    if setting.checkpointing != "none":
        parts.append(texts[f"checkpointing_{setting.checkpointing}"])
    return texts["heading"].format(
        model=training.found.weighing.model.where,
        class_name=training.found.class_name,
        setting=texts["comma"].join(parts),
    )


def _moments(training: TrainingFit, texts: Mapping[str, str]) -> Table:
    """Return the bytes of the worst rank at each moment, by kind."""
    moments = training.worst.moments
    rows = []
    for kind in KINDS:
        sizes = [moment.held[kind] for moment in moments]
        if any(sizes):
            rows.append((texts[kind], *(units.size(size) if size else "-" for size in sizes)))
    rows.append((texts["total"], *(units.size(moment.bytes) for moment in moments)))
    header = texts["rank_holds"].format(rank=training.worst.number)
    return Table((header, *(texts[moment.name] for moment in moments)), tuple(rows), "<>>>", 1)


def _verdict(training: TrainingFit, texts: Mapping[str, str]) -> Iterator[str]:
    peak = training.worst.peak
    most = max(peak.held, key=lambda kind: peak.held[kind])
    values = {
        "rank": training.worst.number,
        "moment": texts[f"at_{peak.name}"],
        "peak": units.size(peak.bytes),
        "kind": texts[most],
        "share": units.share(peak.held[most], peak.bytes),
        "usable": units.size(training.usable_bytes),
        "allowance": units.size(training.budget.allowance),
        "left": units.size(abs(training.left_bytes)),
    }
    yield texts["winner"].format(**values)
    yield texts["fits" if training.fits else "too_large"].format(**values)
    if training.fits:
        return
    for change in training.changes[:_MOST_CHANGES]:
        size = units.size(change.bytes)
        yield texts["change"].format(options=change.options, peak=size)
    if not training.changes:
        yield texts["no_change"]


def _stages(training: TrainingFit, texts: Mapping[str, str]) -> Table:
    """Return what the worst rank of each stage holds."""
    worst: dict[int, RankMemory] = {}
    for memory in training.differing:
        stage = memory.rank.stage
        if stage not in worst or memory.peak.bytes > worst[stage].peak.bytes:
            worst[stage] = memory
    rows = tuple(
        (
            units.count(stage),
            units.count(memory.number),
            units.size(sum(memory.states.values())),
            units.size(memory.moments[0].held["activations"]),
            units.size(memory.peak.bytes),
            texts[memory.peak.name],
        )
        for stage, memory in worst.items()
    )
    header = ("stage", "rank", "states", "activations", "peak", "moment")
    return Table(tuple(texts[name] for name in header), rows, ">>>>><", 0)


def _time(training: TrainingFit, texts: Mapping[str, str]) -> Table:
    device = training.devices.device
    dtype, peak = peak_of(device, precision_called(training.setting.precision).compute)
    bound = training.bound
    at_least, found = texts["at_least"], training.estimate
    rows = [
        (texts["step_flops"], units.short(training.step_flops), ""),
        (texts["peak_flops"].format(dtype=dtype), f"{units.short(round(peak))}FLOP/s", ""),
        (texts["seconds"], f"{at_least} {units.measured(bound.seconds)} s", _seconds(found)),
        (texts["limit"], texts[f"limit_{bound.limit}"], ""),
        (
            texts["tokens_per_second"],
            f"{texts['at_most']} {units.count(round(training.tokens_per_second))}",
            _rounded(found.tokens_per_second),
        ),
        (texts["utilisation"], units.percent(training.model_flops_utilisation), _share(found)),
    ]
    for name in ("hours", "money"):
        least = getattr(training, name)
        if least is not None:
            value = f"{at_least} {units.count(round(least))}"
            rows.append((texts[name], value, _rounded(getattr(found, name))))
    header = (texts["bound"], texts["value"], texts["estimate"])
    if found.seconds is None:
        return Table(header[:-1], tuple(row[:-1] for row in rows), "<>", 0)
    return Table(header, tuple(rows), "<>>", 0)


def _seconds(found: TrainingEstimate) -> str:
    return "" if found.seconds is None else f"{units.measured(found.seconds)} s"


def _rounded(value: float | None) -> str:
    return "" if value is None else units.count(round(value))


def _share(found: TrainingEstimate) -> str:
    share = found.model_flops_utilisation
    return "" if share is None else units.percent(share)


def _about_estimate(training: TrainingFit, texts: Mapping[str, str]) -> str:
    """Return what the estimate is from and how far it is off, or why there is none."""
    found, setting = training.estimate, training.setting
    rates = found.calibration
    if found.reason:
        return texts[f"no_estimate_{found.reason}"].format(
            device=training.devices.device.name,
            dtype=precision_called(setting.precision).compute,
            least_devices=units.count(rates.least_devices),
            most_devices=units.count(rates.most_devices),
            least_tokens=units.count(rates.least_tokens),
            most_sequence=units.count(rates.most_sequence),
        )
    of_model, of_device = rates.left_out["model"], rates.left_out["device"]
    return texts["train_estimated"].format(
        date=rates.date,
        rows=rates.rows,
        median=units.percent(of_model.median),
        p90=units.percent(of_model.p90),
        device_median=units.percent(of_device.median),
        device_p90=units.percent(of_device.p90),
    )


def train_picture(training: TrainingFit, lang: str) -> str:
    """Return the memory of the worst rank as stacked bars, one for each moment."""
    from weighbridge.render.stacks import stacks_picture  # noqa: PLC0415  # text does without

    texts = {**words(lang), **data.read_toml(f"words/fitting.{lang}.toml")}
    allowance = training.budget.allowance
    stacks = []
    for moment in training.worst.moments:
        held = {texts[kind]: moment.held[kind] for kind in KINDS}
        held[texts["allowance"]] = allowance
        stacks.append((texts[moment.name], held, units.size(moment.bytes + allowance)))
    usable = training.usable_bytes
    limit = (usable, f"{training.devices.device.name} {units.size(usable)}")
    caption = texts["picture_of_rank"].format(rank=training.worst.number)
    return stacks_picture(_train_heading(training, texts), caption, stacks, limit)


_DRAWN = 16
"""Micro-batches of a schedule that are drawn if there are more; at least two for each stage."""


def schedule_picture(training: TrainingFit, lang: str) -> str:
    """Return what each stage of the pipeline does when, as rows of boxes.

    Raises:
        UsageError: there is no pipeline.
    """
    from weighbridge.render.timelines import timeline_picture  # noqa: PLC0415  # text does without

    setting, plan = training.setting, training.setting.plan
    if plan.pipeline == 1:
        raise UsageError("there is no pipeline to draw", hint="add --pp with 2 stages or more")
    texts = {**words(lang), **data.read_toml(f"words/fitting.{lang}.toml")}
    drawn = min(setting.micro_batches, max(_DRAWN // plan.pipeline, 2) * plan.pipeline)
    repeats = setting.checkpointing == "full"
    stages = timeline(plan, drawn, BACKWARD_TICKS + repeats)
    rows = []
    for number, passes in enumerate(stages):
        boxes = [(one.start, one.end, _kind_of(one.work), _box_text(one.work)) for one in passes]
        rows.append((texts["stage_number"].format(number=number), boxes))
    kinds = {
        name: (colour, texts[f"pass_{name}"])
        for name, colour in _PASS_COLOURS.items()
        if name != "forward_later" or plan.chunks > 1
    }
    busy = units.percent(1 / bubble(plan, setting.micro_batches))
    captions = [
        texts["picture_of_schedule"].format(
            schedule=plan.schedule,
            stages=units.count(plan.pipeline),
            number=units.count(drawn),
            all=units.count(setting.micro_batches),
        ),
        texts["schedule_again" if repeats else "schedule_ticks"].format(busy=busy),
    ]
    return timeline_picture(_train_heading(training, texts), captions, rows, kinds)


_PASS_COLOURS = {"forward": "#56b4e9", "forward_later": "#9ad0f0", "backward": "#e69f00"}


def _kind_of(work: StagePass) -> str:
    if work.is_backward:
        return "backward"
    return "forward_later" if work.chunk else "forward"


def _box_text(work: StagePass) -> str:
    return str(work.micro_batch)


def train_roofline(training: TrainingFit, lang: str) -> str:
    """Return the products of a pass forward of each component, under the roof of a device."""
    texts = {**words(lang), **data.read_toml(f"words/fitting.{lang}.toml")}
    dtype, peak = peak_of(
        training.devices.device, precision_called(training.setting.precision).compute
    )
    points = roofline_points(training.whole, "forward", "", lang)
    caption = texts["roofline_of_pass"].format(
        size=units.count(training.setting.micro_batch),
        sequence=units.count(training.setting.sequence),
    )
    heading = _train_heading(training, texts)
    return device_roofline(heading, [caption], points, training.devices.device, (dtype, peak), lang)


PICTURES = {"memory": train_picture, "schedule": schedule_picture, "roofline": train_roofline}
