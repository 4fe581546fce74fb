"""The columns of a sweep that come from recorded operations: FLOPs of a run, bytes of a cache."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge import units
from weighbridge.algebra.expr import evaluate, names_in, source
from weighbridge.algebra.settle import settled
from weighbridge.answers.cache import cache
from weighbridge.answers.cost import cost
from weighbridge.answers.cost_formula import CONTEXT, FormulaWriter
from weighbridge.blueprint.operations import RUN_NAMES
from weighbridge.errors import UsageError, WeighbridgeError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from weighbridge.algebra.expr import Tree
    from weighbridge.algebra.polynomial import Polynomial
    from weighbridge.answers.recorded import RecordedModel

FLOPS, CACHE, MEMORY = "forward_matmul_flops", "cache_bytes", "memory_bytes"
RUN_COLUMNS = (FLOPS, CACHE, MEMORY)
"""The columns about a run. Memory is weights and cache."""


_NOT_FIELDS = frozenset((*RUN_NAMES, "context"))


class SweptRun(NamedTuple):
    """The run at every point: a batch of sequences, and the tokens in the cache."""

    batch: int = 1
    sequence: int = 128
    context: int = 128


class RunAtPoint(NamedTuple):
    """A run of a config: the names in its expressions, what follows, and the figures asked for."""

    found: RecordedModel
    names: dict[str, Any]
    dtype: str
    figures: dict[str, int]


def run_at(
    model: Any,
    class_name: str,
    fields: Mapping[str, Any],
    dtype: str | None,
    run: SweptRun,
    column: str,
) -> RunAtPoint:
    """Return what `cost` or `cache` gives for a config that `weigh` accepts.

    Raises:
        UsageError: it is refused there, with the reason.
    """
    try:
        if column == FLOPS:
            of_run = cost(
                model,
                class_name,
                fields=fields,
                dtype=dtype,
                batch=run.batch,
                sequence=run.sequence,
            )
            flops = of_run.figures[FLOPS]
            return RunAtPoint(of_run.found, of_run.names, of_run.run.dtype, {FLOPS: flops or 0})
        held = cache(model, class_name, fields=fields, context=run.context, batch=run.batch)
    except WeighbridgeError as error:
        raise UsageError(
            f"a run of this config is not known: {error.what}",
            where=error.where,
            values={**error.values, "column": column},
            hint="drop the column, or sweep other values",
        ) from error
    names = {**held.names(run.context, run.batch), "context": run.context}
    figures = {CACHE: held.cache_bytes}
    weights = held.found.weighing.parameters
    weight_dtype = units.dtype(dtype) if dtype else held.found.weighing.ledger.dtype
    figures[MEMORY] = units.stored_bytes(weights, weight_dtype) + held.cache_bytes
    return RunAtPoint(held.found, names, held.dtype, figures)


def formula_of_runs(points: Sequence[RunAtPoint], column: str) -> Polynomial:
    """Return the formula of a column, which must hold at all these points.

    Raises:
        UsageError: what it takes for granted does not hold at one of them.
    """
    first = points[0]
    formula: Polynomial
    if column == FLOPS:
        writer = FormulaWriter(first.found, first.names, first.dtype, free=True)
        formula = writer.flops_of("forward")
    else:
        writer = FormulaWriter(first.found, first.names, first.dtype, free=True, instead=CONTEXT)
        formula = writer.bytes_of("stepped")
    for point in points:
        for rule in writer.lettering.assumed:
            if not evaluate(rule, point.names):
                raise UsageError(
                    f"the formula of {column} holds only where {source(rule)}",
                    values={name: point.names[name] for name in names_in(rule)},
                    hint="sweep values for which this holds, or drop the column",
                )
    constants = _of_run_alone(points)

    def factor(tree: Tree) -> str | int:
        plain = settled(tree, constants)
        if plain[0] == "value" and type(plain[1]) is int:
            return plain[1]
        return source(plain)

    return formula.rewritten(factor)


def _of_run_alone(points: Sequence[RunAtPoint]) -> dict[str, Any]:
    """Return the values of the names that are no fields; they are the same at all points."""
    return {name: value for name, value in points[0].names.items() if name in _NOT_FIELDS}


def fields_of_run(point: RunAtPoint) -> dict[str, Any]:
    """Return the fields that the operations of a run depend on, with tuples for lists."""
    return {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in point.names.items()
        if name not in _NOT_FIELDS
    }


def computed_in_runs(points: Sequence[RunAtPoint]) -> dict[str, Tree]:
    """Return the expressions of the fields that all these runs leave to be computed."""
    common = dict(points[0].found.computed)
    for point in points[1:]:
        common = {name: tree for name, tree in common.items() if name in point.found.computed}
    return common
