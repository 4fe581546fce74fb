"""A vector as a strip of colour: one pixel for each number, blue above zero and orange below."""

from __future__ import annotations

import math
from base64 import b64encode
from typing import TYPE_CHECKING

from weighbridge.render.svg import COLOUR, rgba_png

if TYPE_CHECKING:
    from collections.abc import Sequence

BELOW = (207, 87, 0)
"""The colour of negative numbers."""


def strip(values: Sequence[float], largest: float, description: str) -> str:
    """Return a strip as an HTML image; ``description``, escaped, is for those who cannot see it.

    The opacity of a number is its size relative to ``largest``; nan and infinity are transparent.
    """
    pixels = [(*_colour(value), _opacity(value / largest)) for value in values]
    content = b64encode(rgba_png([pixels])).decode()
    return f'<img class="strip" src="data:image/png;base64,{content}" alt="{description}">'


def _colour(value: float) -> tuple[int, int, int]:
    return COLOUR if value > 0 else BELOW


def _opacity(part: float) -> int:
    return round(255 * min(1.0, abs(part))) if math.isfinite(part) else 0
