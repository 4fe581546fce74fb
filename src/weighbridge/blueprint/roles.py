"""The role of a tensor, by its name and its neighbours: patterns of `facts/roles.toml`."""

from __future__ import annotations

from functools import cache
from itertools import product

from weighbridge import data
from weighbridge.blueprint.paths import is_under
from weighbridge.lean_typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    Patterns = dict[str, list[tuple[int, str, str, str]]]


def role_of(name: str, beside: Iterable[str] = ()) -> str:
    """Return the role of a tensor by its name, or ``"other"``; ``beside`` names its neighbours.

    Example:
        >>> role_of("encoder.layer.0.attention.self.query.weight")
        'attention.query'
    """
    patterns, pieces, before = _patterns(), ["^", *name.split(".")], ""
    highest, found = float("inf"), "other"
    for at, piece in enumerate(pieces):
        for rank, parents, rest, role in patterns.get(piece, ()):
            if rank >= highest:
                break
            if (not parents or before in parents) and (not rest or _fits(rest, pieces, at, beside)):
                highest, found = rank, role
                break
        before = f"|{piece}|"
    return found


@cache
def _patterns() -> Patterns:
    patterns: Patterns = data.read_prepared("roles") or patterns_by_piece()
    return patterns


def patterns_by_piece() -> Patterns:
    """Return the patterns of `facts/roles.toml` by their last piece, the highest rank first.

    A pattern is its rank; the pieces allowed before it, each between bars, or nothing if any are;
    further conditions for `_fits`; and its role.
    """
    lines = map(str.split, data.read_toml("facts/roles.toml")["names"].splitlines())
    written: list[tuple[str, str]] = []
    for role, *texts in filter(None, lines):
        if role != "#":
            written += [(role, text) for text in texts]
    found: Patterns = {}
    for rank, (role, text) in enumerate(written):
        path, slash, beside = text.partition("/")
        before, _, last = path.rpartition(".")
        parents = before.rpartition(".")[2]
        more = slash or parents != before or parents == "*"
        direct = f"|{parents}|" if parents.strip("*") else ""
        pattern = (rank, direct, f"{before}/{beside}" if more else "", role)
        for piece in last.split("|"):
            found.setdefault(piece, []).append(pattern)
    return found


def _fits(rest: str, pieces: list[str], at: int, beside: Iterable[str]) -> bool:
    """Whether a pattern fits the pieces before the one at ``at``, and the names beside it."""
    before, _, needed = rest.partition("/")
    wanted = before.split(".") if before else []
    run = pieces[max(at - len(wanted), 0) : at]
    if len(run) < len(wanted) or not all(
        w == "*" or p in w.split("|") for w, p in zip(wanted, run, strict=True)
    ):
        return False
    paths = [".".join([*pieces[1:at], piece]) for piece in needed.split("|")]
    return not needed or any(is_under(other, path) for other, path in product(beside, paths))


@cache
def component_of(role: str) -> str:
    """Return the component that a summary puts a role under.

    Example:
        >>> component_of("attention.query"), component_of("attention.norm")
        ('attention', 'attention.norm')
    """
    components = data.read_toml("facts/roles.toml")["components"]
    fitting = [name for name in components if f"{role}.".startswith(f"{name}.")]
    return max(fitting, key=len, default=role)
