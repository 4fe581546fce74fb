"""Places of values: an observation, and an index for each list that contains the value."""

from __future__ import annotations

import re
from functools import cache, cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from weighbridge.algebra.rewrite import compiled

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from weighbridge.algebra.expr import Tree
    from weighbridge.derive.generalize.stages import Stages
    from weighbridge.derive.probing.symbolic import SymbolicTrace

    Flags = NDArray[np.bool_]

Place = tuple[int, tuple[int, ...]]  # an observation, and the indices of a module or value in it
Environment = dict[str, Any]  # the values of fields by name, and of indices as "@0", "@1"

_NUMBERED = re.compile(r"(.*\D)?(\d+)|(.*\D)(\d+)(_[a-z]+)")


class _Numbered(NamedTuple):
    """The number in a piece of a name: ("expert_", 7, ""), ("bias_l", 0, "_reverse")."""

    stem: str
    number: int
    ending: str


class Observed(NamedTuple):
    """A value from one config, and the expression with which the code computed it."""

    value: Any
    tree: Tree


class Observation(NamedTuple):
    """The result of one config: the values under each name, and the trace of the code.

    A tensor's name has a value for each dim, a field's name has one value. ``lengths`` has the
    lengths of lists, by path.
    """

    fields: Mapping[str, Any]
    values: Mapping[str, Sequence[Observed]]
    lengths: Mapping[str, int]
    trace: SymbolicTrace
    stems: Mapping[str, int] = {}
    """How many numbers follow a stem, from 0 up: expert_0, expert_1."""


class Level:
    """The root, or one list of modules, with the places of all its items."""

    def __init__(
        self,
        path: str,
        places: list[Place],
        observations: Sequence[Observation],
        lengths: Mapping[Place, int],
        stages: Mapping[str, Stages],
    ) -> None:
        self.path, self.places, self.lengths = path, places, lengths
        self._stages = stages
        self.position = {place: position for position, place in enumerate(places)}
        self.observation_of = np.array([observation for observation, _ in places], dtype=int)
        self._observations = observations

    @cached_property
    def environments(self) -> list[Environment]:
        """The values of fields and indices at each place."""
        return [environment(self._observations, place, self._stages) for place in self.places]

    @property
    def stages(self) -> list[Stages]:
        """The stages of each flat list around the items."""
        return [
            stages
            for path, stages in self._stages.items()
            if self.path == path or self.path.startswith(f"{path}.")
        ]

    @property
    def depth(self) -> int:
        """The number of indices of a place."""
        return len(self.places[0][1]) if self.places else 0

    def flags(self, places: Iterable[Place]) -> Flags:
        """Return a flag for each place of the level: whether it is one of these places."""
        flags = np.zeros(len(self.places), dtype=bool)
        flags[[self.position[place] for place in places]] = True
        return flags


def environment(
    observations: Sequence[Any], place: Place, stages: Mapping[str, Stages] = MappingProxyType({})
) -> Environment:
    """Return the values that an expression can name at a place of observations or probes."""
    observation, indices = place
    fields: Environment = observations[observation].fields
    if not indices:
        return fields
    values = {**fields, **{f"@{depth}": index for depth, index in enumerate(indices)}}
    for flat_list in stages.values():
        values |= flat_list.values(place)
    return values


def depth_of(environment: Collection[str]) -> int:
    """Return the number of indices in an environment."""
    depth = 0
    while f"@{depth}" in environment:
        depth += 1
    return depth


def value_at(tree: Tree, environment: Mapping[str, Any]) -> Any:
    """Return the value of an expression in an environment; None if it has no value."""
    return values_at(tree, [environment])[0]


def values_at(tree: Tree, environments: Iterable[Mapping[str, Any]]) -> list[Any]:
    """Return the values of an expression in several environments; None where it has no value."""
    function = compiled(tree)
    values: list[Any] = []
    for environment in environments:
        try:
            values.append(function(environment))
        except (ArithmeticError, IndexError, KeyError, TypeError, ValueError):
            values.append(None)
    return values


def templated(path: str, repeats: Callable[[str], bool]) -> tuple[str, tuple[int, ...]]:
    """Return a path with ``{0}``, ``{1}`` for its indices into repeated lists, and the indices.

    Example:
        >>> templated("stages.2.conv1.weight", lambda path: path == "stages")
        ('stages.{0}.conv1.weight', (2,))
        >>> templated("experts.expert_7.wi", lambda path: path == "experts.expert_")
        ('experts.expert_{0}.wi', (7,))
        >>> templated("bias_l7_reverse", lambda path: path == "bias_l")
        ('bias_l{0}_reverse', (7,))
    """
    pieces = _numbered_pieces(path)
    if pieces is None:
        return path, ()
    template, indices = "", list[int]()
    for piece, numbered in pieces:
        written = piece
        if numbered is not None:
            stem, number, ending = numbered
            if repeats(f"{template}.{stem}".strip(".")):
                written = f"{stem}{{{len(indices)}}}{ending}"
                indices.append(number)
        template = f"{template}.{written}" if template else written
    return template, tuple(indices)


@cache
def _numbered_pieces(path: str) -> list[tuple[str, _Numbered | None]] | None:
    """Return the pieces of a path, with stem and number of each; None if no piece has a number."""
    pieces = [(piece, _with_number(piece)) for piece in path.split(".")]
    return pieces if any(numbered for _, numbered in pieces) else None


@cache
def _with_number(piece: str) -> _Numbered | None:
    """Return what is around the number of a piece; None if it has none, or is a name with one."""
    match = _NUMBERED.fullmatch(piece)
    if match is None:
        return None
    at_end, number, before, number_inside, ending = match.groups()
    if number_inside is not None:
        return _Numbered(before, int(number_inside), ending)
    return _Numbered(at_end or "", int(number), "")


@cache
def list_above(template: str) -> str:
    """Return the path of the innermost repeated list around a name or another list.

    Example:
        >>> list_above("stages.{0}.blocks.{1}.weight")
        'stages.{0}.blocks'
        >>> list_above("experts.expert_{0}.wi"), list_above("norm")
        ('experts.expert_', '')
    """
    return template.rpartition("{")[0].removesuffix(".")


@cache
def paths_below(list_path: str, template: str) -> Sequence[str]:
    """Return the paths from below a list down to a name, the name itself last.

    Example:
        >>> paths_below("layers", "layers.{0}.mlp.up.weight")
        ('layers.{0}.mlp', 'layers.{0}.mlp.up', 'layers.{0}.mlp.up.weight')
    """
    start = template.index("}", len(list_path)) + len("}.") if list_path else 0
    ends = [end for end, letter in enumerate(template) if letter == "." and end >= start]
    return (*[template[:end] for end in ends], template)


def merged_order(orders: list[list[str]]) -> list[str]:
    """Return the names of several lists in one order that agrees with each list's.

    Example:
        >>> merged_order([["a", "c", "d"], ["a", "b", "c"]])
        ['a', 'b', 'c', 'd']
    """
    merged = list(dict.fromkeys(max(orders, key=lambda order: len(set(order)))))
    known = set(merged)
    for order in orders:
        before = ""
        for name in dict.fromkeys(order):
            if name not in known:
                merged.insert(merged.index(before) + 1 if before else 0, name)
                known.add(name)
            before = name
    return merged


def counted_stems(names: Iterable[str]) -> dict[str, int]:
    """Return the stems of pieces that are numbered from 0 without gaps, and the count of each.

    Example:
        >>> counted_stems(["experts.expert_0.wi", "experts.expert_1.wi", "head.layer_3"])
        {'experts.expert_': 2}
    """
    numbers: dict[str, set[int]] = {}
    for name in names:
        above = ""
        for piece in name.split("."):
            numbered = _with_number(piece)
            if numbered is not None and numbered.stem:
                stem = f"{above}.{numbered.stem}".strip(".")
                numbers.setdefault(stem, set()).add(numbered.number)
            above = f"{above}.{piece}"
    return {stem: len(seen) for stem, seen in numbers.items() if seen == set(range(len(seen)))}
