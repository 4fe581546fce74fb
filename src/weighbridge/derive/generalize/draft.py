"""Drafts: the common form of a class in some configs: tensors, dims, conditions for existence."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge.algebra.rewrite import TRUE, ZERO
from weighbridge.blueprint.bind import each_place
from weighbridge.derive.generalize.places import list_above, paths_below, templated, value_at

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from weighbridge.algebra.expr import Tree
    from weighbridge.derive.generalize.ordinals import DraftedTie
    from weighbridge.derive.generalize.places import Environment
    from weighbridge.derive.probing.probe import Probe


class DraftedRank(NamedTuple):
    """The dims of a tensor where it has another number of them, and the condition for that."""

    dims: tuple[Tree, ...]
    condition: Tree

    @property
    def trees(self) -> list[Tree]:
        """The expressions of the dims, and the condition."""
        return [*self.dims, self.condition]


class Drafted(NamedTuple):
    """A tensor of a draft: its name with ``{0}``, ``{1}`` for indices, its dims, its ties.

    The first of ``ranks`` whose condition holds gives the dims.
    """

    name: str
    dims: tuple[Tree, ...] | None
    ties: tuple[DraftedTie, ...] = ()
    dtype: str = ""
    ranks: tuple[DraftedRank, ...] = ()


@dataclass
class Draft:
    """The common form of some probes."""

    repeats: dict[str, Tree | None] = field(default_factory=dict)
    """The number of modules in each list, by its path with indices."""
    tensors: dict[str, Drafted] = field(default_factory=dict)
    buffers: dict[str, Drafted] = field(default_factory=dict)
    conditions: dict[str, Tree | None] = field(default_factory=dict)
    """The condition of a path, beyond its parent's; None if none was found."""

    def template(self, path: str) -> str:
        """Return a path with ``{0}``, ``{1}`` for its indices into repeated lists."""
        return templated(path, self.repeats.__contains__)[0]

    def gives(self, probe: Probe) -> bool:
        """Whether the draft predicts a probe's names, shapes and ties from its fields."""
        tensors = probe.tensors.items()
        shapes = {name: tensor.shape for name, tensor in tensors}
        ties = {name: tensor.tied_to for name, tensor in tensors if tensor.tied_to}
        return predicted(self, probe.fields) == (shapes, ties)

    @property
    def unknown(self) -> list[str]:
        """The parts without an expression."""
        counts = [path for path, count in self.repeats.items() if count is None]
        paths = [path for path, condition in self.conditions.items() if condition is None]
        tensors = [name for name, tensor in self.tensors.items() if tensor.dims is None]
        return [
            *(f"the number of modules in {path}" for path in counts),
            *(f"the condition for {path}" for path in paths),
            *(f"the shape of {name}" for name in tensors),
        ]


def predicted(draft: Draft, fields: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the shape of every tensor for these fields, and the target of each tied one."""
    shapes: dict[str, Any] = {}
    ties: dict[str, str] = {}
    places: dict[str, list[Environment]] = {}
    for template, tensor in draft.tensors.items():
        list_path = list_above(template)
        if list_path not in places:
            places[list_path] = _list_places(draft, list_path, fields)
        for environment in places[list_path]:
            if not _exists(draft, template, list_path, environment):
                continue
            indices = [environment[f"@{depth}"] for depth in range(template.count("{"))]
            name = template.format(*indices)
            shapes[name] = _predicted_shape(tensor, environment)
            target = tied_to(tensor, environment, indices)
            if target is not None:
                ties[name] = target
    return shapes, ties


def _list_places(draft: Draft, list_path: str, fields: Mapping[str, Any]) -> list[Environment]:
    """Return the environment of each item of a list, or of the root for an empty path."""
    path_of: dict[str, str] = {}  # the path of the list for each index
    while list_path:
        path_of[f"@{list_path.count('{')}"] = list_path
        list_path = list_above(list_path)

    def count(index: str, environment: Mapping[str, Any]) -> int:
        path = path_of[index]
        if not _exists(draft, path, list_above(path), environment):
            return 0
        return value_at(draft.repeats[path] or ZERO, environment) or 0

    return list(each_place(sorted(path_of), fields, count))


def _predicted_shape(tensor: Drafted, environment: Environment) -> tuple[Any, ...] | None:
    for rank in tensor.ranks:
        if value_at(rank.condition, environment):
            return tuple(value_at(dim, environment) for dim in rank.dims)
    if tensor.dims is None:
        return None
    return tuple(value_at(dim, environment) for dim in tensor.dims)


def tied_to(tensor: Drafted, environment: Environment, indices: Sequence[int]) -> str | None:
    """Return the name of the tensor that a tensor is tied to in an environment, if any."""
    for tie in tensor.ties:
        if value_at(tie.condition, environment):
            first = indices[:1] if tie.at is None else [value_at(tie.at, environment)]
            return tie.target.format(*first, *indices[1:])
    return None


def _exists(draft: Draft, path: str, list_path: str, environment: Mapping[str, Any]) -> bool:
    """Whether the conditions of all paths from a list down to this path hold."""
    for part in paths_below(list_path, path):
        if part != path and (part in draft.tensors or part in draft.buffers):
            continue  # a tensor in other configs
        condition = draft.conditions.get(part, TRUE)
        if condition is None or not value_at(condition, environment):
            return False
    return True
