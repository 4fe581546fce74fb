"""What `serve`, `train` and `plan` share: sizes as text, allowances, and what would fit."""

from __future__ import annotations

import re
from pathlib import Path

from weighbridge import data
from weighbridge.errors import UsageError, either
from weighbridge.files import write_whole
from weighbridge.lean_typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from weighbridge.costs.devices import Device

_UNITS = {"": 1, "B": 1}
_UNITS |= {f"{letter}B": 1000**power for power, letter in enumerate("KMGT", 1)}
_UNITS |= {f"{letter}IB": 1024**power for power, letter in enumerate("KMGT", 1)}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)")
_NUMBERS = {"": 1, "K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}


class Change(NamedTuple):
    """Something to change, as options of the command, and what a device would hold then."""

    options: str
    bytes: int


def bytes_of(text: str, option: str) -> int:
    """Return the bytes of a size written as text: ``"8.11GiB"``, ``"24GB"`` or plain bytes.

    Raises:
        UsageError: it has another form.

    Example:
        >>> bytes_of("1.5GiB", "reserve"), bytes_of("24GB", "reserve")
        (1610612736, 24000000000)
    """
    found = _SIZE.fullmatch(text.strip())
    factor = _UNITS.get(found[2].upper()) if found else None
    if found is None or factor is None:
        raise UsageError(
            f"--{option} is not a size", values={option: text}, hint="write it as 1GiB or 1GB"
        )
    return round(float(found[1]) * factor)


def large_number(text: str, option: str) -> int:
    """Return a large number written as text: ``"15T"``, ``"300B"`` or all digits.

    Raises:
        UsageError: it has another form.

    Example:
        >>> large_number("15T", "tokens"), large_number("1.5B", "tokens")
        (15000000000000, 1500000000)
    """
    found = _SIZE.fullmatch(text.strip().replace(",", ""))
    factor = _NUMBERS.get(found[2].upper()) if found else None
    if found is None or factor is None or float(found[1]) <= 0:
        raise UsageError(
            f"--{option} is not a number", values={option: text}, hint="write it as 15T or 300B"
        )
    return round(float(found[1]) * factor)


def context_allowance(reserve: str | None) -> int:
    """Return the bytes kept free for what is not predicted: those asked for, or the usual ones."""
    if reserve is not None:
        return bytes_of(reserve, "reserve")
    return int(data.read_toml("facts/allowances.toml")["context_bytes"])


def usable_bytes(device: Device) -> int:
    """Return the memory of a device, as its driver reports it if that is known."""
    return device.usable_bytes or device.memory_bytes


def save_svg(file: str | os.PathLike[str], drawn: str) -> Path:
    """Write a picture to a file, and return the path.

    Raises:
        UsageError: the file does not end in .svg, or cannot be written.
    """
    path = Path(file)
    if path.suffix.lower() != ".svg":
        raise UsageError(
            "a picture is an SVG file",
            where=str(path),
            values={"ending": path.suffix},
            hint="give a name that ends in .svg",
        )
    write_whole(path, drawn)
    return path


def drawn_as(
    picture: str, known: Mapping[str, Callable[[Any, str], str]]
) -> Callable[[Any, str], str]:
    """Return what draws a picture, a function of the answer and the language.

    Raises:
        UsageError: the answer has no such picture.
    """
    if picture not in known:
        raise UsageError(
            "there is no such picture",
            values={"picture": picture},
            hint=f"use --picture with {either(known)}",
        )
    return known[picture]


def that_fit(changes: Iterable[Change], most: int) -> list[Change]:
    """Return the changes after which a device holds at most so many bytes, in their order."""
    return [change for change in changes if change.bytes <= most]
