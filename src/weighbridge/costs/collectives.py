"""The collectives of a training step: how often a rank takes part in each, and with how many bytes.

ZeRO's third stage is what FSDP2 does with each layer as a group of its own and all else as another:
a group is gathered before its forward pass and, except for what is outside the layers, again before
its backward pass; its gradients are summed and divided. Tensor and expert parallelism are what
transformers' own plans do: sums after matrices whose inputs are divided, sums of the gradients of
the inputs of each other matrix, and experts that are sent their tokens.
`tests/costs/test_collectives.py` counts the same in torch. The earlier stages of ZeRO have no such
oracle: they are one sum, or one for each micro-batch, of all gradients; frameworks cut it into
buckets.
"""

from __future__ import annotations

from collections import Counter
from math import ceil

from weighbridge import data
from weighbridge.costs.bounds import ring_bytes
from weighbridge.costs.parallel import EVERYTHING, ParallelPlan, Rank, stage_layers
from weighbridge.lean_typing import TYPE_CHECKING, NamedTuple
from weighbridge.units import stored_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any

    from weighbridge.costs.optimizers import Precision
    from weighbridge.costs.parallel import ParallelDivision
    from weighbridge.ledger.rows import Entry

KINDS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
TENSOR, COPIES, EXPERTS = "tensor", "copies", "experts"
"""The ranks among which a collective is: those of a tensor, of copies, or of different experts."""
_GRADIENTS = 2  # the stage of ZeRO that divides them
FORWARD, BACKWARD = "forward", "backward"
LAYERS, OUTSIDE, ALL = "layers", "outside", "all"
"""What copies gather and sum: a layer, what is outside the layers, or everything at once."""
INPUTS, OUTPUTS = "inputs", "outputs"
"""What tensor-parallel ranks sum: the gradients of a matrix's inputs, or its outputs."""
SUM = "all_reduce"
_OUTSIDE = -1  # in place of a layer's number
_END_OF_EXPERTS = "expert.down"
_COUNT_BYTES = 8  # of the number of tokens for an expert: an I64


class Collective(NamedTuple):
    """Equal collectives of a step, of one rank.

    ``bytes`` are those of the whole tensor: what an all-gather returns, and what the others are
    given. ``of`` says what it is. ``least`` is how many bytes of ``bytes`` × ``count`` no
    implementation of the same plan can do without: one that is not transformers' sums the gradients
    of an input once, and gathers for all micro-batches at once.
    """

    kind: str
    over: str
    ranks: int
    of: str
    direction: str
    # Users know the word "count", and nothing needs a tuple's own count().
    count: int  # type: ignore[assignment]
    bytes: int
    least: int

    @property
    def total_bytes(self) -> int:
        """The bytes of all calls."""
        return self.count * self.bytes

    def least_sent(self, ranks: int) -> float:
        """Return the bytes that a rank sends at least, among so many of its ranks."""
        return ring_bytes(self.least, ranks, reduce=self.kind == "all_reduce")


class Pass(NamedTuple):
    """What of a step decides its collectives: one micro-batch, their number, and the dtypes.

    ``tokens`` are those of a micro-batch on one rank.
    """

    tokens: int
    micro_batches: int
    precision: Precision
    recomputes: bool = False


def collectives(
    division: ParallelDivision, plan: ParallelPlan, step: Pass, stage: int = 0
) -> list[Collective]:
    """Return the collectives of a step that the first rank of a stage takes part in.

    Sequence parallelism replaces a sum by a reduce-scatter and an all-gather, with the same bytes
    over the links; it is listed as the sum. Sending between stages, and the attention of context
    parallelism, are not collectives in this sense and not listed.

    Example:
        >>> from weighbridge.answers.weigh import weigh
        >>> from weighbridge.costs.optimizers import precision_called
        >>> from weighbridge.costs.parallel import ParallelDivision, ParallelPlan
        >>> llama = ParallelDivision(weigh("meta-llama/Llama-3.1-8B").ledger)
        >>> step = Pass(4096, 1, precision_called("master"))
        >>> for one in collectives(llama, ParallelPlan(data=8, zero=3), step):
        ...     print(one.kind, one.of, one.direction, one.count, one.bytes)
        all_gather layers forward 32 436224000
        all_gather outside forward 1 2101354496
        all_gather layers backward 32 436224000
        reduce_scatter layers backward 32 436224000
        reduce_scatter outside backward 1 2101354496
    """
    found: list[Collective] = []
    if plan.tensor > 1:
        # Of the experts it only matters here whether they are divided.
        ways = ParallelPlan(
            plan.tensor, plan.pipeline, expert=min(plan.expert, 2), chunks=plan.chunks
        )
        found += _remembered(_of_tensor, division, ways, step, stage)
    if plan.expert > 1:
        ways = ParallelPlan(pipeline=plan.pipeline, expert=plan.expert, chunks=plan.chunks)
        found += _remembered(_of_experts, division, ways, step, stage)
    if plan.copies > 1:
        of_copies = Pass(0, step.micro_batches, step.precision)  # weights, whatever the tokens are
        found += _remembered(_of_copies, division, plan, of_copies, stage)
    return found


def _remembered(
    of: Callable[[ParallelDivision, ParallelPlan, Pass, int], Iterable[Collective]],
    division: ParallelDivision,
    ways: ParallelPlan,
    step: Pass,
    stage: int,
) -> list[Collective]:
    """Return the collectives of one kind; plans of a search share most of them."""
    known: dict[Any, list[Collective]] = division.remembered.setdefault(of.__name__, {})
    key = (ways, step, stage)
    if key not in known:
        known[key] = list(of(division, ways, step, stage))
    return known[key]


# --- copies of the model ----------------------------------------------------------------------


def _of_copies(
    division: ParallelDivision, plan: ParallelPlan, step: Pass, stage: int
) -> Iterator[Collective]:
    for copies, groups in _groups(division, plan, stage).items():
        if copies > 1 and plan.zero == EVERYTHING:
            yield from _of_groups(step, copies, groups)
        elif copies > 1:
            yield from _of_whole_copies(plan, step, copies, sum(groups.elements()))


class _Groups(NamedTuple):
    """The elements of the groups that FSDP2 gathers: of each layer, and of all else.

    The padding is that of equal pieces.
    """

    outside: int
    layers: tuple[int, ...]

    def elements(self) -> Iterator[int]:
        yield self.outside
        yield from self.layers


def _groups(division: ParallelDivision, plan: ParallelPlan, stage: int) -> dict[int, _Groups]:
    """Return the groups by the number of ranks that hold the same part."""
    known: dict[Any, dict[int, _Groups]] = division.remembered.setdefault("groups", {})
    key = (plan.ways, stage)
    if key not in known:
        known[key] = _groups_of(division, plan, stage)
    return known[key]


def _groups_of(division: ParallelDivision, plan: ParallelPlan, stage: int) -> dict[int, _Groups]:
    layers = stage_layers(division.layers, plan.pipeline, plan.chunks)[stage]
    found: dict[int, Counter[int]] = {}
    for part in division.parts(plan, Rank(stage=stage)):
        sizes = found.setdefault(part.copies, Counter())
        size = part.padded * part.number
        for layer in part.layers or (_OUTSIDE,):
            sizes[layer] += size
    return {
        copies: _Groups(sizes[_OUTSIDE], tuple(sizes[layer] for layer in layers if sizes[layer]))
        for copies, sizes in found.items()
    }


def _of_groups(step: Pass, copies: int, groups: _Groups) -> Iterator[Collective]:
    """Yield what FSDP2 does: all groups forward, the layers again backward, and all gradients."""
    precision, times = step.precision, step.micro_batches
    gathered = list(_group_sizes(groups, precision.gathered))
    for of, number, size in gathered:
        yield Collective(
            "all_gather", COPIES, copies, of, FORWARD, number * times, size, number * size
        )
    # What is outside the layers stays gathered, and an implementation may keep one layer so.
    kept = max((size for of, _, size in gathered if of == LAYERS), default=0)
    for of, number, size in gathered:
        if of == LAYERS:
            again = number - (size == kept)
            yield Collective(
                "all_gather", COPIES, copies, of, BACKWARD, number * times, size, again * size
            )
    reduced = _group_sizes(groups, precision.gradients)
    for (of, number, size), (_, _, narrow) in zip(reduced, gathered, strict=True):
        least = number * min(size, narrow)
        yield Collective(
            "reduce_scatter", COPIES, copies, of, BACKWARD, number * times, size, least
        )


def _group_sizes(groups: _Groups, dtype: str) -> Iterator[tuple[str, int, int]]:
    """Yield what groups hold, the number of groups of a size, and the size in bytes."""
    for size, number in Counter(groups.layers).items():
        yield LAYERS, number, stored_bytes(size, dtype)
    if groups.outside:
        yield OUTSIDE, 1, stored_bytes(groups.outside, dtype)


def _of_whole_copies(
    plan: ParallelPlan, step: Pass, copies: int, elements: int
) -> Iterator[Collective]:
    """Yield what keeps copies equal whose parameters are not divided."""
    precision = step.precision
    size = stored_bytes(elements, precision.gradients)
    least = min(size, stored_bytes(elements, precision.gathered))
    if not plan.zero:
        yield Collective(SUM, COPIES, copies, ALL, BACKWARD, 1, size, least)
        return
    # Divided gradients are summed after each micro-batch, whole ones after the last.
    times = step.micro_batches if plan.zero >= _GRADIENTS else 1
    yield Collective("reduce_scatter", COPIES, copies, ALL, BACKWARD, times, size, least)
    size = stored_bytes(elements, precision.gathered)
    yield Collective("all_gather", COPIES, copies, ALL, "step", 1, size, least)


# --- tensor parallelism ------------------------------------------------------------------------


def _of_tensor(
    division: ParallelDivision, plan: ParallelPlan, step: Pass, stage: int
) -> Iterator[Collective]:
    facts = dict(data.read_toml("facts/parallel.toml"))
    family = division.ledger.blueprint.family
    facts["router"] = "F32" if family in facts["f32_routers"] else step.precision.compute
    counts, needed = Counter[_Call](), Counter[int]()
    merged = family in facts["parallel_blocks"]
    for matrix in _matrices(division, plan, stage):
        for call in _calls(matrix, plan, step, facts):
            counts[call] += matrix.number
            # A sum after each block is needed, or one after blocks that are beside each other.
            if call.of == OUTPUTS and call.direction == FORWARD:
                is_sum = matrix.role in facts["last" if merged else "block_ends"]
                needed[call.bytes] += matrix.number * is_sum
    for call, number in counts.items():
        kind, of, direction, size = call
        least = 0
        # Backward the gradient of a block's input is summed; once is enough for all its matrices.
        if (of, direction) in {(OUTPUTS, FORWARD), (INPUTS, BACKWARD)}:
            least = min(number, needed[size]) * size
        times = step.micro_batches
        yield Collective(
            kind, TENSOR, plan.tensor, of, direction, number * times, size, least * times
        )


class _Call(NamedTuple):
    """A collective for one matrix and one micro-batch."""

    kind: str
    of: str
    direction: str
    bytes: int


class _Matrix(NamedTuple):
    """A tensor in so many layers of a stage.

    A token uses ``top_k`` experts, 0 if it is none of experts.
    """

    entry: Entry
    number: int
    inputs: int
    outputs: int
    top_k: int

    @property
    def role(self) -> str:
        return self.entry.template.role


def _matrices(division: ParallelDivision, plan: ParallelPlan, stage: int) -> list[_Matrix]:
    """Return the tensors of the layers that a pipeline divides, the embedding and the head."""
    known: dict[Any, list[_Matrix]] = division.remembered.setdefault("matrices", {})
    key = (plan.pipeline, plan.chunks, stage)
    if key not in known:
        known[key] = list(_matrices_of(division, plan, stage))
    return known[key]


def _matrices_of(division: ParallelDivision, plan: ParallelPlan, stage: int) -> Iterator[_Matrix]:
    layers = frozenset(stage_layers(division.layers, plan.pipeline, plan.chunks)[stage])
    for entry in division.ledger.entries:
        if division.is_in_stack(entry):
            number = sum(len(layers & set(values)) for values, _ in entry.indices.blocks)
        else:
            at = {"embedding.token": 0, "head.lm": plan.pipeline - 1}.get(entry.template.role)
            number = int(at == stage)
        if number:
            outputs, inputs = division.sides(entry)
            top_k = _top_k(division, entry)
            yield _Matrix(entry, number, inputs, outputs, top_k)


def _top_k(division: ParallelDivision, entry: Entry) -> int:
    """Return how many experts a token uses, of the tensors of experts; 0 of others."""
    if entry.template.active is None or not entry.template.role.startswith("expert."):
        return 0
    return division.experts * division.ledger.active_of(entry) // entry.parameters


def _calls(
    matrix: _Matrix, plan: ParallelPlan, step: Pass, facts: Mapping[str, Any]
) -> Iterator[_Call]:
    """Yield the collectives of a matrix in a micro-batch, by transformers' plans."""
    role, compute = matrix.role, step.precision.compute
    inputs = stored_bytes(step.tokens * matrix.inputs, compute)
    outputs = stored_bytes(step.tokens * matrix.outputs, compute)
    if matrix.top_k:
        if plan.expert == 1 and role == _END_OF_EXPERTS:
            yield _Call(SUM, OUTPUTS, FORWARD, outputs)
            yield _Call(SUM, INPUTS, BACKWARD, outputs)
            weights = stored_bytes(step.tokens * matrix.top_k, facts["router"])
            yield _Call(SUM, "weights of experts", BACKWARD, weights)
    elif role in facts["head_norms"]:
        size = stored_bytes(matrix.outputs, step.precision.gradients)
        yield _Call(SUM, "norms of heads", BACKWARD, size)
    elif len(matrix.entry.shape) == 1:
        return  # a bias is added to what is divided, or after the sum
    elif role == "embedding.token":
        yield _Call(SUM, "embedding", FORWARD, inputs)
    elif role == "head.lm":
        padded = ceil(matrix.outputs / plan.tensor) * plan.tensor
        logits = stored_bytes(step.tokens * padded, compute)
        yield _Call("all_gather", "logits", FORWARD, logits)
        yield _Call(SUM, INPUTS, BACKWARD, inputs)
    elif role in facts["rows"]:
        yield _Call(SUM, OUTPUTS, FORWARD, outputs)
        if step.recomputes and role not in facts["last"]:  # torch stops before a layer's last sum
            yield _Call(SUM, OUTPUTS, BACKWARD, outputs)
    elif role in facts["columns"]:
        yield _Call(SUM, INPUTS, BACKWARD, inputs)


# --- expert parallelism ------------------------------------------------------------------------


def _of_experts(
    division: ParallelDivision, plan: ParallelPlan, step: Pass, stage: int
) -> Iterator[Collective]:
    """Yield the exchanges of tokens, if a rank is sent as many as it sends.

    None is needed: the router may choose experts that the rank itself holds.
    """
    for matrix in _matrices(division, plan, stage):
        if not matrix.top_k or matrix.role != _END_OF_EXPERTS:
            continue
        size = stored_bytes(step.tokens * matrix.top_k * matrix.outputs, step.precision.compute)
        numbers = division.experts * _COUNT_BYTES
        again = int(step.recomputes)
        for of, direction, calls, sent in (
            ("numbers of tokens", FORWARD, 1, numbers),
            ("tokens", FORWARD, 2, size),
            ("numbers of tokens", BACKWARD, again, numbers),
            ("tokens", BACKWARD, 2 + 2 * again, size),
        ):
            count = calls * matrix.number * step.micro_batches
            if count:
                yield Collective("all_to_all", EXPERTS, plan.expert, of, direction, count, sent, 0)
