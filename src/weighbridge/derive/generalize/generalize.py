"""From probes to a draft: repeated names, an expression for each dim, conditions for existence.

Dims are not guessed: the probes have them as expressions. Conditions are chosen from the questions
that the reference code asked while it ran. If an expression was lost on the way, one is found by
value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from weighbridge.algebra.rewrite import NULL, simplified
from weighbridge.derive.generalize.beside import tensors_by_template, with_ties_beside
from weighbridge.derive.generalize.draft import Draft, Drafted, DraftedRank
from weighbridge.derive.generalize.evidence import Evidence
from weighbridge.derive.generalize.existence import conditions, templates
from weighbridge.derive.generalize.expressions import expression_of
from weighbridge.derive.generalize.ordinals import DraftedTie, tie_to_earlier
from weighbridge.derive.generalize.places import Observation, Observed, counted_stems
from weighbridge.derive.generalize.repeats import find_repeats

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from weighbridge.algebra.expr import Tree
    from weighbridge.derive.generalize.existence import Templated
    from weighbridge.derive.generalize.places import Place
    from weighbridge.derive.generalize.truths import Truths
    from weighbridge.derive.probing.probe import Probe, ProbedTensor


class InCommon(NamedTuple):
    """The common form of observations: lists, names, their values, and conditions for existence."""

    repeats: dict[str, Tree | None]
    named: list[Templated]
    expressions: dict[str, tuple[Tree, ...] | None]
    conditions: dict[str, Tree | None]

    @property
    def is_complete(self) -> bool:
        """Whether every expression was found."""
        parts = (self.repeats, self.expressions, self.conditions)
        return not any(None in part.values() for part in parts)


def generalize(
    probes: Sequence[Probe], *, guess: bool = True, truths: Truths | None = None
) -> Draft:
    """Return the draft that predicts each of these probes.

    If the expression of a number was lost, ``guess`` allows sums and products of fields for it.
    ``truths`` keeps answers for a draft of the same probes and more.
    """
    evidence = Evidence([_observation(probe) for probe in probes], guess=guess, truths=truths)
    find_repeats(evidence)
    tensors_of = [probe.tensors for probe in probes]
    buffers_of = [probe.buffers for probe in probes]
    tensors, buffers = templates(evidence, tensors_of), templates(evidence, buffers_of)
    drafts = {named.template: _drafted(evidence, named, tensors_of) for named in tensors}
    return Draft(
        _with_stages_written(evidence, evidence.repeats),
        with_ties_beside(evidence, drafts, tensors_by_template(tensors, tensors_of)),
        {named.template: _drafted(evidence, named, buffers_of) for named in buffers},
        _with_stages_written(evidence, conditions(evidence, [*tensors, *buffers])),
    )


def leaves_unknown(probes: Sequence[Probe]) -> bool:
    """Whether the draft of these probes leaves a part unknown; the first such part ends this."""
    evidence = Evidence([_observation(probe) for probe in probes], guess=True)
    find_repeats(evidence, until_unknown=True)
    if None in evidence.repeats.values():
        return True
    tensors_of = [probe.tensors for probe in probes]
    tensors = templates(evidence, tensors_of)
    buffers = templates(evidence, [probe.buffers for probe in probes])
    return None in conditions(evidence, [*tensors, *buffers]).values() or any(
        _drafted(evidence, named, tensors_of).dims is None for named in tensors
    )


def _with_stages_written(
    evidence: Evidence, trees: Mapping[str, Tree | None]
) -> dict[str, Tree | None]:
    return {path: tree and evidence.written(tree) for path, tree in trees.items()}


def in_common(observations: Sequence[Observation]) -> InCommon:
    """Return the common form of observations of any values, without guesses."""
    evidence = Evidence(observations, guess=False)
    find_repeats(evidence)
    named = templates(evidence, [observation.values for observation in observations])
    expressions = {name.template: _expressions(evidence, name) for name in named}
    return InCommon(evidence.repeats, named, expressions, conditions(evidence, named))


def _observation(probe: Probe) -> Observation:
    values: dict[str, Sequence[Observed]] = {}
    for name, tensor in (*probe.tensors.items(), *probe.buffers.items()):
        values[name] = list(map(Observed, tensor.shape, tensor.dims))
    stems = counted_stems(probe.tensors)
    return Observation(probe.fields, values, probe.lengths, probe.trace, stems)


def _drafted(
    evidence: Evidence, named: Templated, tensors_of: Sequence[dict[str, ProbedTensor]]
) -> Drafted:
    tensors = {place: tensors_of[place[0]][name] for place, name in named.names.items()}
    dtype = next(iter(tensors.values())).dtype
    ties = _ties(evidence, named, tensors)
    *others, most = _by_rank(evidence, named)
    dims = _expressions(evidence, most)
    ranks = _ranks(evidence, others, most)
    if ranks is None:
        return Drafted(named.template, None, ties, dtype)
    return Drafted(named.template, dims, ties, dtype, ranks)


def _by_rank(evidence: Evidence, named: Templated) -> list[Templated]:
    """Return a name at the places of each number of dims, that with the most places last."""
    of_rank: dict[int, dict[Place, str]] = {}
    for place, name in named.names.items():
        rank = len(evidence.observations[place[0]].values[name])
        of_rank.setdefault(rank, {})[place] = name
    ordered = sorted(of_rank.items(), key=lambda item: (len(item[1]), -item[0]))
    return [named._replace(names=names) for _, names in ordered]


def _ranks(
    evidence: Evidence, others: Sequence[Templated], most: Templated
) -> tuple[DraftedRank, ...] | None:
    """Return the dims of each number of dims but the usual one; None if one has no expression."""
    ranks: list[DraftedRank] = []
    for at, named in enumerate(others):
        later = [place for other in (*others[at + 1 :], most) for place in other.names]
        condition = evidence.condition_between(named.level, named.names, later)
        dims = _expressions(evidence, named)
        if condition is None or dims is None:
            return None
        ranks.append(DraftedRank(dims, evidence.written(condition)))
    return tuple(ranks)


def _expressions(evidence: Evidence, named: Templated) -> tuple[Tree, ...] | None:
    """Return the expression of each value under a name; None if their number varies."""
    values = {
        place: evidence.observations[place[0]].values[name] for place, name in named.names.items()
    }
    ranks = {len(observed) for observed in values.values()}
    if len(ranks) > 1:
        return None
    expressions: list[Tree] = []
    for axis in range(ranks.pop()):
        seen = {place: observed[axis] for place, observed in values.items()}
        expression = expression_of(evidence, named.level, seen)
        if expression is None:
            return None
        expressions.append(evidence.written(simplified(expression, evidence.float_fields)))
    return tuple(expressions)


def _ties(
    evidence: Evidence, named: Templated, tensors: dict[Place, ProbedTensor]
) -> tuple[DraftedTie, ...]:
    """Return the ties of a tensor, the most common first."""
    places_of = _places_by_target(evidence, tensors)
    earlier = _earlier_layers(evidence, named, tensors)
    if len(places_of) > 1 and len(earlier) == sum(map(len, places_of.values())):
        tie = tie_to_earlier(evidence, named, tensors, earlier)
        if tie is not None:
            return (tie,)
    level = named.level
    untied = level.flags(tensors)
    ties: list[DraftedTie] = []
    for target, places in sorted(places_of.items(), key=lambda item: -len(item[1])):
        tied = level.flags(places)
        condition = evidence.condition(level, tied, untied) or NULL
        ties.append(DraftedTie(target, evidence.written(condition)))
        untied = untied & ~tied
    return tuple(ties)


def _places_by_target(
    evidence: Evidence, tensors: dict[Place, ProbedTensor]
) -> dict[str, list[Place]]:
    """Return the places of a tensor at which it is tied, by the name of the other tensor."""
    places_of: dict[str, list[Place]] = {}
    for place, tensor in tensors.items():
        if tensor.tied_to is None:
            continue
        target, indices = evidence.template(tensor.tied_to)
        if indices != place[1][: len(indices)]:  # always the same module of the list
            target = tensor.tied_to
        places_of.setdefault(target, []).append(place)
    return places_of


def _earlier_layers(
    evidence: Evidence, named: Templated, tensors: dict[Place, ProbedTensor]
) -> dict[Place, int]:
    """Return the layer whose tensor of the same name is the same, for places that have one."""
    layers: dict[Place, int] = {}
    for place, tensor in tensors.items():
        if tensor.tied_to is None:
            continue
        target, indices = evidence.template(tensor.tied_to)
        if target == named.template and indices[1:] == place[1][1:]:
            layers[place] = indices[0]
    return layers
