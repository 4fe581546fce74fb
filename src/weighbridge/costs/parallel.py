"""Plans: how the tensors of a model are divided over devices, and what each of them holds.

A plan has a size for each way of dividing. Tensor parallelism divides matrices, expert parallelism
divides the experts, pipeline parallelism divides the layers, context parallelism divides the tokens
of a sequence, and data parallelism copies the model, whose states ZeRO divides again.
`facts/parallel.toml` says which role is divided how.

Ranks are numbered as Megatron-LM does: tensor first, then context, data, and pipeline last.
"""

from __future__ import annotations

from functools import cache
from math import ceil, prod

from weighbridge import data
from weighbridge.errors import UsageError
from weighbridge.lean_typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from weighbridge.ledger.ledger import Ledger
    from weighbridge.ledger.rows import Entry

SCHEDULES = ("1f1b", "gpipe", "interleaved")
MOST_RANKS = 1_000_000
_EXPERTS = "expert."
_MATRIX = 2  # dims
EVERYTHING = 3
"""The stage of ZeRO that divides the parameters too."""


class ParallelPlan(NamedTuple):
    """How a model is divided: a size for each way of dividing it.

    ``zero`` is the stage of ZeRO: 0 copies everything, 1 divides the states of the optimizer over
    the data-parallel ranks, 2 the gradients too, 3 the parameters too. ``chunks`` is the number of
    pieces of layers on each stage of an interleaved pipeline.

    Example:
        >>> ParallelPlan(tensor=8, pipeline=16, data=128).world
        16384
    """

    tensor: int = 1
    pipeline: int = 1
    context: int = 1
    expert: int = 1
    data: int = 1
    zero: int = 0
    schedule: str = "1f1b"
    chunks: int = 1
    sequence_parallel: bool = False

    @property
    def world(self) -> int:
        """The number of devices."""
        return self.tensor * self.pipeline * self.context * self.data

    @property
    def copies(self) -> int:
        """The ranks that hold the same part of a dense weight, over which ZeRO divides it."""
        return self.data * self.context

    @property
    def expert_copies(self) -> int:
        """The ranks that hold the same part of an expert."""
        return self.copies // self.expert

    @property
    def ways(self) -> ParallelPlan:
        """The plan without what does not change which parts of tensors a rank has."""
        return _ways_of(self)

    def copy_of(self, part: TensorPart, rank: Rank) -> int:
        """Return the number of a rank among those that hold the same part.

        Ranks that hold other experts stand between two that hold the same.
        """
        return rank.copy // (self.copies // part.copies)


@cache
def _ways_of(plan: ParallelPlan) -> ParallelPlan:
    return plan._replace(zero=0, schedule="", sequence_parallel=False)


class Rank(NamedTuple):
    """The place of a device in a plan: its number along each way of dividing.

    ``copy`` counts the data-parallel ranks and, inside each, those of context parallelism.
    """

    tensor: int = 0
    copy: int = 0
    stage: int = 0

    def number(self, plan: ParallelPlan) -> int:
        """Return its number among all devices.

        Example:
            >>> Rank(tensor=1, copy=2, stage=1).number(ParallelPlan(tensor=2, data=4, pipeline=2))
            13
        """
        return self.tensor + plan.tensor * (self.copy + plan.copies * self.stage)


def piece(size: int, parts: int, at: int) -> int:
    """Return how much of a size one of some parts gets, the first ones more, as torch.chunk does.

    Example:
        >>> [piece(10, 4, at) for at in range(4)]
        [3, 3, 3, 1]
        >>> [piece(5, 4, at) for at in range(4)]
        [2, 2, 1, 0]
    """
    largest = ceil(size / parts)
    return max(0, min(size, (at + 1) * largest) - at * largest)


@cache
def stage_layers(layers: int, stages: int, chunks: int = 1) -> tuple[tuple[int, ...], ...]:
    """Return the layers on each stage of a pipeline.

    Layers that are left over go to the pieces in the middle, since the first holds the embedding
    and the last the head. With several chunks a stage holds every so many-th piece.

    Example:
        >>> [len(stage) for stage in stage_layers(126, 16)]
        [7, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 7]
        >>> stage_layers(8, 2, chunks=2)
        ((0, 1, 4, 5), (2, 3, 6, 7))
    """
    pieces = stages * chunks
    least, more = divmod(layers, pieces)
    first_larger = (pieces - more + 1) // 2
    of_stage: list[list[int]] = [[] for _ in range(stages)]
    start = 0
    for at in range(pieces):
        size = least + (first_larger <= at < first_larger + more)
        of_stage[at % stages].extend(range(start, start + size))
        start += size
    return tuple(map(tuple, of_stage))


def in_flight(plan: ParallelPlan, stage: int, micro_batches: int) -> float:
    """Return the micro-batches whose tensors a stage holds at most, all its layers being one.

    1F1B (PipeDream-Flush, https://arxiv.org/abs/2006.09503) holds one for each stage from this one
    on, GPipe (https://arxiv.org/abs/1811.06965) holds all. An interleaved schedule
    (https://arxiv.org/abs/2104.04473, section 2.2) holds more pieces, each a part of the layers.

    Example:
        >>> [in_flight(ParallelPlan(pipeline=4), stage, 8) for stage in range(4)]
        [4, 3, 2, 1]
        >>> in_flight(ParallelPlan(pipeline=4, schedule="gpipe"), 0, 8)
        8
        >>> in_flight(ParallelPlan(pipeline=4, schedule="interleaved", chunks=2), 0, 8)
        5.5
    """
    if plan.schedule == "gpipe":
        return micro_batches
    after = plan.pipeline - stage
    if plan.schedule == "1f1b" or plan.chunks == 1:
        return min(after, micro_batches)
    pieces = 2 * (after - 1) + (plan.chunks - 1) * plan.pipeline + 1
    return min(pieces, micro_batches * plan.chunks) / plan.chunks


def bubble(plan: ParallelPlan, micro_batches: int) -> float:
    """Return how much longer a step takes because stages wait: 1 without a pipeline.

    Example:
        >>> bubble(ParallelPlan(pipeline=4), 8), bubble(ParallelPlan(), 8)
        (1.375, 1.0)
    """
    return 1 + (plan.pipeline - 1) / (micro_batches * plan.chunks)


class TensorPart(NamedTuple):
    """The part of a tensor that a rank holds, in each of the layers where there is one.

    ``shape`` is that after tensor and expert parallelism, ``copies`` the number of ranks that hold
    the same. ``layers`` are those on the stage of the rank, none for a tensor outside the layers;
    in each, or outside, there are ``number`` such tensors.
    """

    name: str
    shape: tuple[int, ...]
    copies: int
    number: int
    layers: tuple[int, ...] = ()

    @property
    def times(self) -> int:
        """How many such tensors the rank holds."""
        return self.number * (len(self.layers) or 1)

    @property
    def elements(self) -> int:
        """The elements of all of them."""
        return prod(self.shape) * self.times

    def shard(self, copy: int) -> int:
        """Return how many of them remain on a rank if its copies divide each.

        The first dim is divided, as FSDP2 does; a rank may get nothing.
        """
        return piece(self.shape[0], self.copies, copy) * prod(self.shape[1:]) * self.times

    @property
    def padded(self) -> int:
        """The elements of one such tensor as its copies gather it: in equal pieces, padded."""
        return ceil(self.shape[0] / self.copies) * self.copies * prod(self.shape[1:])


class ParallelDivision:
    """The division of a ledger's tensors: what each rank of a plan holds.

    Example:
        >>> from weighbridge.answers.weigh import weigh
        >>> llama = ParallelDivision(weigh("meta-llama/Llama-3.1-8B").ledger)
        >>> llama.elements(ParallelPlan(tensor=8), Rank())
        1004015616
        >>> llama.elements(ParallelPlan(pipeline=2), Rank(stage=1))
        4015132672
    """

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        facts = data.read_toml("facts/parallel.toml")
        self._how = {role: how for how in _WAYS for role in facts[how]}
        self._by_heads = frozenset(facts["heads"])
        self._by_grouped = frozenset(facts["grouped_heads"])
        family = ledger.blueprint.family
        self._is_transposed = [family in facts[name] for name in ("transposed", "swapped_experts")]
        self._first = tuple(facts["first_stage"])
        self.heads = _field(ledger.fields, facts["head_fields"])
        """The heads of attention; None if no field says."""
        self.grouped_heads = _field(ledger.fields, facts["grouped_head_fields"]) or self.heads
        """The heads of keys and values."""
        self.experts = max((_experts_of(entry) for entry in ledger.entries), default=0)
        """The number of experts in a layer; 0 if there are none."""
        self.stack, self.layers = self._main_stack()
        """The path of the list of layers that a pipeline divides, and their number."""
        self._parts = cache(self._parts_of)
        self.states: dict[Any, dict[str, int]] = {}
        """The bytes of states that were computed, by what they depend on."""
        self.remembered: dict[str, dict[Any, Any]] = {}
        """What else was computed, by what it is of and what it depends on."""
        # A search asks for the same parts of many plans.
        self.shard_elements = cache(self._shard_elements)
        self.whole_elements = cache(self._whole_elements)
        self.gathered_elements = cache(self._gathered_elements)
        self.heaviest_stage = cache(self._heaviest_stage)

    def check(self, plan: ParallelPlan) -> None:
        """Refuse a plan that the model cannot be divided by.

        Raises:
            UsageError: it does not divide the heads or the experts, or there are too few layers.
        """
        if self.heads and self.heads % plan.tensor:
            raise UsageError(
                "tensor parallelism does not divide the heads",
                values={"tp": plan.tensor, "heads": self.heads},
                hint=f"give --tp a divisor of {self.heads}",
            )
        if plan.pipeline * plan.chunks > max(self.layers, 1):
            raise UsageError(
                "there are more stages than layers",
                values={"pp": plan.pipeline, "layers": self.layers},
                hint=f"give --pp {max(self.layers, 1)} or less",
            )
        if plan.pipeline > 1 and self._other_stacks():
            raise UsageError(
                "a pipeline of a model with several stacks of layers is not known",
                values={"pp": plan.pipeline, "stacks": len(self._other_stacks()) + 1},
                hint="drop --pp",
            )
        if plan.expert > 1 and (not self.experts or self.experts % plan.expert):
            raise UsageError(
                "expert parallelism does not divide the experts",
                values={"ep": plan.expert, "experts": self.experts},
                hint="give --ep a divisor of the experts, or drop it",
            )
        if plan.copies % plan.expert:
            raise UsageError(
                "expert parallelism does not divide the ranks of data and context parallelism",
                values={"ep": plan.expert, "dp": plan.data, "cp": plan.context},
                hint="give --ep a divisor of their product",
            )

    def _main_stack(self) -> tuple[str, int]:
        """Return the list of layers with the most parameters, and how many layers it has."""
        sizes: dict[str, int] = {}
        layers: dict[str, int] = {}
        for entry in self.ledger.entries:
            if entry.template.repeat and len(entry.indices):
                path = entry.template.name.partition("{")[0]
                sizes[path] = sizes.get(path, 0) + entry.parameters
                layers[path] = max(layers.get(path, 0), 1 + max(entry.indices.outermost))
        if not sizes:
            return "", 0
        path = max(sizes, key=lambda name: sizes[name])
        return path, layers[path]

    def _other_stacks(self) -> list[str]:
        stacks = {
            entry.template.name.partition("{")[0]: entry.parameters
            for entry in self.ledger.entries
            if entry.template.repeat
        }
        return [path for path in stacks if path != self.stack]

    @property
    def has_other_stacks(self) -> bool:
        """Whether there are lists of layers that a pipeline does not divide."""
        return bool(self._other_stacks())

    def parts(self, plan: ParallelPlan, rank: Rank) -> tuple[TensorPart, ...]:
        """Return the parts of tensors on a rank, before ZeRO."""
        return self._parts(plan.ways, rank.tensor, rank.copy % plan.expert, rank.stage)

    def elements(self, plan: ParallelPlan, rank: Rank) -> int:
        """Return the parameters on a rank; ZeRO divides them in its third stage."""
        if plan.zero == EVERYTHING:
            return self.shard_elements(plan.ways, rank)
        return self.whole_elements(plan.ways, rank)

    def _whole_elements(self, plan: ParallelPlan, rank: Rank) -> int:
        return sum(part.elements for part in self.parts(plan, rank))

    def _shard_elements(self, plan: ParallelPlan, rank: Rank) -> int:
        """Return the parameters that a rank is left with if all its copies divide them."""
        return sum(part.shard(plan.copy_of(part, rank)) for part in self.parts(plan, rank))

    def _heaviest_stage(self, plan: ParallelPlan) -> int:
        """Return the stage with most parameters; of equal ones the first."""
        stages = range(plan.pipeline)
        return max(stages, key=lambda stage: self.whole_elements(plan, Rank(stage=stage)))

    def _gathered_elements(self, plan: ParallelPlan, rank: Rank) -> tuple[int, int]:
        """Return the parameters outside the layers, and those of the largest layer, gathered.

        FSDP2 gathers both, and frees a layer before it gathers the next but one.
        """
        outside, by_layer = 0, dict.fromkeys(self._layers_of(plan, rank.stage), 0)
        for part in self.parts(plan, rank):
            size = part.padded * part.number
            if not part.layers:
                outside += size
            for layer in part.layers:
                by_layer[layer] += size
        return outside, max(by_layer.values(), default=0)

    def _layers_of(self, plan: ParallelPlan, stage: int) -> tuple[int, ...]:
        return stage_layers(self.layers, plan.pipeline, plan.chunks)[stage]

    def _parts_of(
        self, plan: ParallelPlan, at: int, expert: int, stage: int
    ) -> tuple[TensorPart, ...]:
        layers = self._layers_of(plan, stage)
        parts = []
        for entry in self.ledger.entries:
            shape = self._shape(entry, plan, at, expert)
            is_expert = entry.template.role.startswith(_EXPERTS)
            copies = plan.expert_copies if is_expert else plan.copies
            for number, inside in self._on_stage(entry, plan, stage, layers):
                held = number
                if is_expert and not _is_stacked(entry):
                    held = piece(number, plan.expert, expert)
                if held:
                    parts.append(TensorPart(entry.template.name, shape, copies, held, inside))
        return tuple(parts)

    def _on_stage(
        self, entry: Entry, plan: ParallelPlan, stage: int, layers: tuple[int, ...]
    ) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Yield how many tensors of an entry a layer on a stage has, and the layers that do."""
        if not self.is_in_stack(entry):
            yield from self._outside_layers(entry, plan, stage)
            return
        if entry.tied:
            return
        for values, inside in entry.indices.blocks:
            here = tuple(layer for layer in layers if layer in values)
            if here:
                yield len(inside), here

    def _outside_layers(
        self, entry: Entry, plan: ParallelPlan, stage: int
    ) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Yield the number of tensors of an entry outside the layers, if they are on a stage."""
        last = plan.pipeline - 1
        is_first = entry.template.role.startswith(self._first)
        # A head that is tied to the embedding needs a copy of it where the two are apart.
        is_held = not entry.tied or (last > 0 and not is_first)
        if is_held and stage == (0 if is_first else last):
            yield len(entry.indices), ()

    def is_in_stack(self, entry: Entry) -> bool:
        """Whether an entry is in the list of layers that a pipeline divides."""
        return bool(self.stack) and entry.template.name.startswith(f"{self.stack}{{")

    def sides(self, entry: Entry) -> tuple[int, int]:
        """Return the outputs and the inputs of a matrix, of one expert; of a vector its size twice.

        The rows of an embedding are its outputs, as those of the head that is tied to it.
        """
        stacked = int(_is_stacked(entry))
        outputs, inputs = entry.shape[stacked], entry.shape[-1]
        is_turned = self._how.get(entry.template.role) != "vocabulary"
        if is_turned and self._is_transposed[stacked]:
            return inputs, outputs
        return outputs, inputs

    def _shape(self, entry: Entry, plan: ParallelPlan, at: int, expert: int) -> tuple[int, ...]:
        """Return the shape of an entry's tensors on a rank."""
        shape, role = list(entry.shape), entry.template.role
        if _is_stacked(entry):
            shape[0] = piece(shape[0], plan.expert, expert)
        axis = self._axis(entry)
        if plan.tensor > 1 and axis is not None:
            shape[axis] = self._divided(role, shape[axis], plan.tensor, at)
        return tuple(shape)

    def _axis(self, entry: Entry) -> int | None:
        """Return the dim that tensor parallelism divides; None if the tensor is copied."""
        how = self._how.get(entry.template.role)
        stacked = int(_is_stacked(entry))
        is_matrix = len(entry.shape) - stacked >= _MATRIX
        if how is None or (how == "rows" and not is_matrix):
            return None  # the bias of a matrix whose inputs are divided is added after the sum
        is_second = how == "rows"
        if is_matrix and how != "vocabulary" and self._is_transposed[stacked]:
            is_second = not is_second
        return stacked + is_second

    def _divided(self, role: str, size: int, parts: int, at: int) -> int:
        heads = None
        if role in self._by_grouped:
            heads = self.grouped_heads
        elif role in self._by_heads:
            heads = self.heads
        if not heads or size % heads:
            return piece(size, parts, at)
        width = size // heads
        if heads < parts:
            return width  # each has a copy of one head
        return piece(heads, parts, at) * width

    def cache_share(self, name: str, parts: int) -> float:
        """Return the part of a cache's tensor that each of the tensor-parallel ranks holds.

        Keys and values are divided by heads, of which each rank holds at least one; a latent
        (multi-head latent attention) is copied; the states of other layers are divided.

        Example:
            >>> from weighbridge.answers.weigh import weigh
            >>> llama = ParallelDivision(weigh("meta-llama/Llama-3.1-8B").ledger)
            >>> [llama.cache_share("cache.{i}.keys", parts) for parts in (1, 4, 8, 16)]
            [1.0, 0.25, 0.125, 0.125]
        """
        if not name.endswith(("keys", "values")):
            return 1 / parts
        if self.has_latent:
            return 1.0
        heads = self.grouped_heads or 1
        return ceil(heads / parts) / heads

    @property
    def has_latent(self) -> bool:
        """Whether attention keeps a latent in place of keys and values."""
        return any(entry.template.role == "attention.kv_down" for entry in self.ledger.entries)


_WAYS = ("columns", "rows", "vocabulary")


def _field(fields: Mapping[str, Any], names: Iterable[str]) -> int | None:
    """Return the first of some fields that a config has, of the whole model or of its text part."""
    for name in names:
        for place in (name, f"text_config.{name}"):
            value = fields.get(place)
            if isinstance(value, int) and value > 0:
                return value
    return None


def _is_stacked(entry: Entry) -> bool:
    """Whether the first dim of a tensor counts experts."""
    active = entry.template.active
    return active is not None and not active.over and entry.template.role.startswith(_EXPERTS)


def _experts_of(entry: Entry) -> int:
    """Return the number of experts whose weights an entry has; 0 if it is not of experts."""
    if _is_stacked(entry):
        return entry.shape[0]
    if entry.template.role.startswith(_EXPERTS) and len(entry.indices):
        return len({place[-1] for place in entry.indices})
    return 0


def ranks_of(plan: ParallelPlan) -> Iterator[tuple[Rank, int]]:
    """Yield the ranks of a plan that may differ, each with how many ranks it stands for.

    Of the tensor-parallel ranks, and of the copies, it yields the first and the last, which
    hold the most and the least; those between hold no more than the first.
    """
    for stage in range(plan.pipeline):
        for tensor, tensors in _ends(plan.tensor):
            for copy, copies in _ends(plan.copies):
                yield Rank(tensor, copy, stage), tensors * copies


def _ends(number: int) -> list[tuple[int, int]]:
    if number == 1:
        return [(0, 1)]
    return [(0, number - 1), (number - 1, 1)]
