"""The memory and the time of serving a model: weights, a cache and the activations of a pass."""

from __future__ import annotations

from math import ceil

from weighbridge import data
from weighbridge.costs.parallel import Rank
from weighbridge.errors import UsageError
from weighbridge.lean_typing import TYPE_CHECKING, NamedTuple
from weighbridge.units import stored_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from weighbridge.blueprint.operations import Operation
    from weighbridge.costs.activations import Modules
    from weighbridge.costs.parallel import ParallelDivision, ParallelPlan

_LOGITS = "F32"  # engines sample from logits in F32


class Engine(NamedTuple):
    """What an engine does with memory; see `facts/engines.toml`."""

    name: str
    utilisation: float
    block: int
    prefill: int


def engine_called(name: str) -> Engine:
    """Return the engine with a name.

    Raises:
        UsageError: there is none.

    Example:
        >>> engine_called("vllm").block
        16
    """
    rules = data.read_toml("facts/engines.toml")
    rule = rules.get(name.lower())
    if rule is None:
        raise UsageError(
            "there is no such engine",
            values={"engine": name},
            hint=f"use one of {', '.join(rules)}",
        )
    return Engine(name.lower(), float(rule["utilisation"]), rule["block"], rule["prefill"])


class ServingMemory(NamedTuple):
    """What the fullest device holds, in bytes."""

    weights: int
    cache: int
    activations: int

    @property
    def bytes(self) -> int:
        """The bytes of all three."""
        return self.weights + self.cache + self.activations


def most_elements(division: ParallelDivision, plan: ParallelPlan) -> int:
    """Return the parameters on the device that holds most: the first rank of some stage."""
    ranks = [Rank(stage=stage) for stage in range(plan.pipeline)]
    return max(division.elements(plan, rank) for rank in ranks)


def activation_bytes(
    modules: Modules,
    products: Iterable[Operation],
    plan: ParallelPlan,
    tokens: int,
    batch: int,
    dtype: str,
) -> int:
    """Return the bytes that a pass of some tokens needs at once, by its largest product.

    An engine holds the residual, and the input and the output of one product at a time; attention
    itself writes no scores. Of a prompt it computes the logits of the last token only.

    Args:
        modules: how tensor parallelism divides what modules hold.
        products: those of a pass of one token of one sequence.
        plan: how the model is divided.
        tokens: the tokens of a pass.
        batch: the sequences that get logits.
        dtype: the dtype of the activations.
    """
    most = width = vocabulary = 0
    for product in products:
        if modules.is_core(product.path):
            continue
        _, _, inner, columns = product.shape
        if not modules.is_in_layers(product.path):
            vocabulary = max(vocabulary, columns)
            continue
        is_divided = modules.way(product.path) == "divided"
        into = ceil(inner / plan.tensor) if is_divided else inner
        out = columns if is_divided else ceil(columns / plan.tensor)
        width = max(width, columns if is_divided else inner)
        # A gate is held beside what it multiplies.
        most = max(most, into + 2 * out)
    logits = stored_bytes(batch * ceil(vocabulary / plan.tensor), _LOGITS)
    return stored_bytes(tokens * (most + width), dtype) + logits
