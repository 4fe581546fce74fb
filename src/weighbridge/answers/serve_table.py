"""Serving on devices as tables: what each holds, the verdict, and the bounds on time."""

from __future__ import annotations

from weighbridge import data, units
from weighbridge.answers.roofline import device_roofline, roofline_points
from weighbridge.lean_typing import TYPE_CHECKING
from weighbridge.render.document import Aside, Document, Notes, Title, Together
from weighbridge.render.table import Table
from weighbridge.render.words import words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from weighbridge.answers.estimating import Estimates
    from weighbridge.answers.serve import Serving
    from weighbridge.answers.serve_plan import ServiceSearch

_MOST_CHANGES = 4


def serve_document(serving: Serving, lang: str) -> Document:
    """Return what a device holds, the verdict, what to change, and the bounds on time."""
    texts = {**words(lang), **data.read_toml(f"words/fitting.{lang}.toml")}
    title = Title(_serve_heading(serving, texts, lang), wraps=True)
    evidence = Aside(texts["evidence"].format(**serving.found.evidence))
    notes = (texts["counted"], *_about_estimate(serving, texts), evidence)
    return Document(
        (
            Together((title, _held(serving, texts))),
            Notes(tuple(_verdict(serving, texts))),
            _time(serving, texts),
            Notes(notes),
        ),
        lang,
    )


def _serve_heading(serving: Serving, texts: Mapping[str, str], lang: str) -> str:
    service, plan = serving.service, serving.service.plan
    ways = {"tp": plan.tensor, "pp": plan.pipeline, "ep": plan.expert, "dp": plan.data}
    parts = [
        texts["on"].format(number=serving.devices.number, device=serving.devices.device.name),
        texts["context"].format(size=units.count(service.context)),
        texts["batch"].format(size=units.count(service.batch)),
        f"{texts['weights']} {serving.server.label(service.weights, lang)}",
        f"{texts['cache']} {service.cache}",
        *(f"{name}{size}" for name, size in ways.items() if size > 1),
    ]
    if service.engine.name != "plain":
        parts.append(service.engine.name)
    return texts["heading"].format(
        model=serving.found.weighing.model.where,
        class_name=serving.found.class_name,
        setting=texts["comma"].join(parts),
    )


def _held(serving: Serving, texts: Mapping[str, str]) -> Table:
    held = dict(serving.memory._asdict())
    held["allowance"] = serving.allowance
    if serving.kept_free:
        held["kept_free"] = serving.kept_free
    held["left" if serving.fits else "missing"] = abs(serving.left_bytes)
    rows = tuple((texts[name], units.count(size), units.size(size)) for name, size in held.items())
    shares = tuple(units.fraction(size, serving.usable_bytes) for size in held.values())
    header = (texts["card_holds"], texts["bytes"], texts["short"])
    return Table(header, rows, "<>>", 0, shares, len(header) - 1)


def _verdict(serving: Serving, texts: Mapping[str, str]) -> Iterator[str]:
    sizes = {
        "usable": units.size(serving.usable_bytes),
        "left": units.size(abs(serving.left_bytes)),
    }
    yield texts["serve_fits" if serving.fits else "serve_too_large"].format(**sizes)
    if serving.largest_batch:
        yield texts["largest_batch"].format(batch=units.count(serving.largest_batch))
    else:
        yield texts["no_batch"]
    if serving.largest_context:
        yield texts["largest_context"].format(context=units.count(serving.largest_context))
    for change in serving.changes[:_MOST_CHANGES]:
        size = units.size(change.bytes)
        yield texts["change"].format(options=change.options, peak=size)
    block = serving.service.engine.block
    if block > 1:
        yield texts["kv_tokens"].format(tokens=units.count(serving.cache_tokens))
        yield texts["kv_blocks"].format(
            blocks=units.count(serving.cache_tokens // block),
            size=block,
            bytes=units.size(serving.cache_room),
        )


def _time(serving: Serving, texts: Mapping[str, str]) -> Table:
    """Return the bounds on time, with the estimates beside them where there are any."""
    found = serving.estimates
    has_estimate = found.prefill_seconds is not None
    bounds = {"prefill": serving.prefill_bound, "step": serving.step_bound}
    at_least, rows = texts["at_least"], []
    for name, bound in bounds.items():
        label = texts[f"{name}_short" if has_estimate else f"{name}_seconds"]
        value = f"{at_least} {units.measured(bound.seconds)} s"
        rows.append((label, value, texts[f"limit_{bound.limit}"]))
    label = texts["tokens_short" if has_estimate else "decode_tokens"]
    tokens = units.count(round(serving.tokens_per_second))
    rows.append((label, f"{texts['at_most']} {tokens}", ""))
    header: tuple[str, ...] = (texts["bound"], texts["value"], texts["limit"])
    if not has_estimate:
        return Table(header, tuple(rows), "<><", 0)
    estimates = (_seconds(found.prefill_seconds), _seconds(found.step_seconds), _rate(found))
    wider = (
        (label, value, estimate, limit)
        for (label, value, limit), estimate in zip(rows, estimates, strict=True)
    )
    header = (texts["bound"], texts["value"], texts["estimate"], texts["limit"])
    return Table(header, tuple(wider), "<>><", 0)


def _seconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{units.measured(seconds)} s"


def _rate(found: Estimates) -> str:
    rate = found.tokens_per_second
    return "-" if rate is None else units.count(round(rate))


def _about_estimate(serving: Serving, texts: Mapping[str, str]) -> Iterator[str]:
    """Yield what the estimate is from and how far it is off, and why something has none."""
    found = serving.estimates
    rates = found.calibration
    if found.prefill_seconds is not None:
        of_model, of_generation = rates.left_out["model"], rates.left_out["generation"]
        yield texts["estimated"].format(
            date=rates.date,
            rows=rates.rows,
            source=rates.source,
            median=units.percent(of_model.median),
            p90=units.percent(of_model.p90),
            generation_median=units.percent(of_generation.median),
            generation_p90=units.percent(of_generation.p90),
        )
    if found.reason:
        yield texts[f"no_estimate_{found.reason}"].format(
            device=serving.devices.device.name,
            dtype=serving.peak_dtype,
            most_context=units.count(rates.most_context),
            least_batch=units.count(rates.least_batch),
            most_batch=units.count(rates.most_batch),
        )


def serve_picture(serving: Serving, lang: str) -> str:
    """Return what a device holds as a stacked bar."""
    from weighbridge.render.stacks import stacks_picture  # noqa: PLC0415  # text does without

    texts = {**words(lang), **data.read_toml(f"words/fitting.{lang}.toml")}
    held = dict(serving.memory._asdict())
    held |= {"allowance": serving.allowance, "kept_free": serving.kept_free}
    named = {texts[name]: size for name, size in held.items()}
    label = units.size(sum(held.values()))
    usable = serving.usable_bytes
    name = serving.devices.device.name
    limit = (usable, f"{name} {units.size(usable)}")
    caption = texts["picture_of_device"]
    heading = _serve_heading(serving, texts, lang)
    return stacks_picture(heading, caption, [(name, named, label)], limit)


def serve_roofline(serving: Serving, lang: str) -> str:
    """Return the products of a prompt and of a step, by component, under the roof of a device."""
    texts = {**words(lang), **data.read_toml(f"words/fitting.{lang}.toml")}
    points = []
    for kind, name in (("forward", "roofline_prompt"), ("step", "roofline_step")):
        cost = serving.run_cost(is_step=kind == "step")
        points += roofline_points(cost, kind, texts[name], lang)
    peak = (serving.server.compute_dtype, serving.peak)
    heading = _serve_heading(serving, texts, lang)
    caption = texts["roofline_of_service"]
    return device_roofline(heading, [caption], points, serving.devices.device, peak, lang)


PICTURES = {"memory": serve_picture, "roofline": serve_roofline}

_MOST_PLANS = 12


def service_plans_document(plans: ServiceSearch, lang: str) -> Document:
    """Return the plans for serving: those that fit, then what the nearest others lack."""
    texts = {**words(lang), **data.read_toml(f"words/fitting.{lang}.toml")}
    first = plans.first
    parts = (
        texts["on"].format(number=plans.devices.number, device=plans.devices.device.name),
        texts["context"].format(size=units.count(first.context)),
        texts["batch"].format(size=units.count(first.batch)),
        f"{texts['weights']} {plans.server.label(first.weights, lang)}",
        f"{texts['cache']} {first.cache}",
        texts["tried"].format(
            tried=units.count(len(plans.tried)), fitting=units.count(len(plans.fitting))
        ),
    )
    heading = texts["heading"].format(
        model=plans.found.weighing.model.where,
        class_name=plans.found.class_name,
        setting=texts["comma"].join(parts),
    )
    rows = []
    for tried in (*plans.fitting, *plans.nearest)[:_MOST_PLANS]:
        ways = tried.service.plan
        rows.append(
            (
                *map(str, (ways.tensor, ways.pipeline, ways.expert, ways.data)),
                f"{units.measured(tried.seconds)} s",
                units.count(round(tried.tokens_per_second)),
                units.size(tried.peak_bytes),
                "-" if tried.fits else units.size(tried.over_bytes),
            )
        )
    names = ("step_at_least", "tokens_at_most", "peak", "missing")
    header = ("tp", "pp", "ep", "dp", *(texts[name] for name in names))
    notes = (texts["counted"], Aside(texts["evidence"].format(**plans.found.evidence)))
    table = Table(header, tuple(rows), ">>>>>>>>", 0)
    return Document((Together((Title(heading, wraps=True), table)), Notes(notes)), lang)
