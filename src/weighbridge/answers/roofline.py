"""Rooflines: the products of each component under the roof of a device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weighbridge import data, units
from weighbridge.render.words import label, words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weighbridge.answers.cost import RunCost
    from weighbridge.costs.devices import Device

_FIGURES = {
    "forward": ("forward_matmul_flops", "moved_bytes"),
    "step": ("step_matmul_flops", "step_moved_bytes"),
}


def roofline_points(cost: RunCost, kind: str, of: str, lang: str) -> list[tuple[str, float]]:
    """Return the name of each component that multiplies, and its FLOPs for each byte moved.

    Args:
        cost: a run.
        kind: ``"forward"`` or ``"step"``.
        of: a word for the run, in front of each name; none if it is empty.
        lang: the language of the names.

    Example:
        >>> from weighbridge.answers.cost import cost
        >>> points = roofline_points(cost("gpt2", sequence=512), "forward", "", "en")
        >>> [name for name, _ in points]
        ['attention', 'feed-forward', 'LM head']
    """
    flops, moved = _FIGURES[kind]
    points = []
    for group in cost.groups("component"):
        if group.figures.get(moved):
            name = f"{of} {label(group.name, lang)}".strip()
            points.append((name, group.figures[flops] / group.figures[moved]))
    return points


def device_roofline(  # what a picture has
    heading: str,
    captions: Sequence[str],
    points: Sequence[tuple[str, float]],
    device: Device,
    peak: tuple[str, float],
    lang: str,
) -> str:
    """Return the roof of a device and the points under it, an SVG file."""
    from weighbridge.render.roofline import Roof, roofline_picture  # noqa: PLC0415  # as above

    texts = {**words(lang), **data.read_toml(f"words/fitting.{lang}.toml")}
    dtype, flops = peak
    roof = Roof(
        flops,
        device.bandwidth,
        f"{dtype} {units.short(round(flops))}FLOP/s",
        f"{units.short(round(device.bandwidth))}B/s",
    )
    named = []
    for name, intensity in points:
        fast = units.short(round(roof.at(intensity)))
        limit = texts["limit_memory" if intensity * roof.bandwidth < flops else "limit_compute"]
        text = texts["roofline_point"].format(
            name=name, intensity=units.fixed(intensity, 1), flops=fast, limit=limit
        )
        named.append((text, intensity))
    axes = (texts["roofline_across"], texts["roofline_up"])
    return roofline_picture(heading, [*captions, texts["roofline_counted"]], named, roof, axes)
