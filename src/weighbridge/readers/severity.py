"""Judges the functions and classes that a pickle names, as scanners of pickles do.

The lists are in ``facts/pickle_names.toml``. They only choose the words of a message: a checkpoint
that names anything but what checkpoints need is refused, whatever it is.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from weighbridge import data

if TYPE_CHECKING:
    from collections.abc import Container

DANGEROUS, UNKNOWN, INNOCUOUS = "dangerous", "unknown", "innocuous"


def severity_of(name: str, known: Container[str] = ()) -> str:
    """Return how bad it is that a pickle names a function or class, given by its whole path.

    Dangerous ones run programs or code, open files or connections, or call whatever they are given.
    Innocuous are those in ``known``. All others are unknown.

    Example:
        >>> severity_of("posix.system"), severity_of("os.path.join"), severity_of("builtins.eval")
        ('dangerous', 'dangerous', 'dangerous')
        >>> severity_of("my_model.Config"), severity_of("torch.Size", {"torch.Size"})
        ('unknown', 'innocuous')
    """
    if name in known:
        return INNOCUOUS
    parts = name.split(".")
    beginnings = {".".join(parts[:length]) for length in range(1, len(parts) + 1)}
    return UNKNOWN if beginnings.isdisjoint(_dangerous()) else DANGEROUS


@cache
def _dangerous() -> frozenset[str]:
    lists = data.read_toml("facts/pickle_names.toml")["dangerous"]
    return frozenset([*lists["modules"], *lists["names"]])
