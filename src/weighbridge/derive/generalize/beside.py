"""Ties of tensors that few probes hold, taken from the tensors beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weighbridge.derive.generalize.draft import tied_to

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from weighbridge.derive.generalize.draft import Drafted
    from weighbridge.derive.generalize.evidence import Evidence
    from weighbridge.derive.generalize.existence import Templated
    from weighbridge.derive.generalize.places import Place
    from weighbridge.derive.probing.probe import ProbedTensor

    Tensors = Mapping[Place, ProbedTensor]


def with_ties_beside(
    evidence: Evidence, drafts: Mapping[str, Drafted], probed: Mapping[str, Tensors]
) -> dict[str, Drafted]:
    """Return drafts in which the tensors of a module that is shared are tied by one rule.

    A module that later layers share is shared whole. A tensor that few probes hold, such as a
    bias, shows too little of the rule; the tensors beside it show more.

    Args:
        evidence: the observations.
        drafts: the drafts of tensors, by template.
        probed: the tensors at each place, by template.
    """
    ruled = {name: draft for name, draft in drafts.items() if _is_ruled(draft)}
    return {
        name: drafted if name in ruled else _ruled(evidence, drafted, probed, ruled)
        for name, drafted in drafts.items()
    }


def _is_ruled(drafted: Drafted) -> bool:
    return any(tie.at is not None for tie in drafted.ties)


def _ruled(
    evidence: Evidence,
    drafted: Drafted,
    probed: Mapping[str, Tensors],
    ruled: Mapping[str, Drafted],
) -> Drafted:
    """Return a draft with the rule of a tensor beside it, if that rule gives all its ties."""
    tensors = probed[drafted.name]
    for other in _beside(drafted, ruled):
        if len(probed[other.name]) <= len(tensors):
            continue  # it shows no more than the tensor itself
        ties = [tie._replace(target=drafted.name) for tie in other.ties]
        candidate = drafted._replace(ties=tuple(ties))
        if _ties_agree(evidence, candidate, tensors):
            return candidate
    return drafted


def _beside(drafted: Drafted, ruled: Mapping[str, Drafted]) -> Iterator[Drafted]:
    """Yield the tensors with a rule in the same module of the same list, the nearest first."""
    pieces = drafted.name.split(".")
    for depth in range(len(pieces) - 1, 1, -1):
        for name, other in ruled.items():
            is_beside = name.split(".")[:depth] == pieces[:depth]
            if is_beside and name.count("{") == drafted.name.count("{"):
                yield other


def _ties_agree(evidence: Evidence, drafted: Drafted, tensors: Tensors) -> bool:
    for place, tensor in tensors.items():
        if tied_to(drafted, evidence.environment(place), place[1]) != tensor.tied_to:
            return False
    return True


def tensors_by_template(
    named: Sequence[Templated], tensors_of: Sequence[Mapping[str, ProbedTensor]]
) -> dict[str, Tensors]:
    """Return the tensors of each name at each place, by template."""
    return {
        name.template: {place: tensors_of[place[0]][path] for place, path in name.names.items()}
        for name in named
    }
