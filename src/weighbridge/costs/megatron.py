"""What Megatron-LM holds on a device: what stays between steps, and activations in closed form.

Activations are those of Korthikanti et al., 2022 (https://arxiv.org/abs/2205.05198, section 4),
term by term, so that a gated feed-forward and grouped heads have theirs. What else stays on a
device is in `facts/megatron.toml`, each fact with its source.
"""

from __future__ import annotations

from math import ceil

from weighbridge import data
from weighbridge.costs.parallel import in_flight, stage_layers
from weighbridge.lean_typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import Any

    from weighbridge.costs.parallel import ParallelPlan

_HALF, _SINGLE, _MASK = 2, 4, 1  # bytes of an element: of activations, in F32, and of a mask


class MegatronShape(NamedTuple):
    """The sizes of a GPT in Megatron-LM, and of one of its micro-batches.

    ``vocabulary`` is padded. ``dropout`` says whether masks are saved, ``fused`` whether attention
    writes no scores.
    """

    layers: int
    hidden: int
    heads: int
    grouped_heads: int
    feed_forward: int
    vocabulary: int
    sequence: int
    micro_batch: int
    gated: bool = False
    dropout: bool = True
    fused: bool = True


def padded_vocabulary(words: int, tensor: int, multiple: int = 128) -> int:
    """Return the rows of the embedding, of which each tensor-parallel rank has equally many.

    Source: megatron/training/tokenizer, make-vocab-size-divisible-by.

    Example:
        >>> padded_vocabulary(50257, 1), padded_vocabulary(50257, 2), padded_vocabulary(50257, 4)
        (50304, 50432, 50688)
    """
    return ceil(words / (multiple * tensor)) * multiple * tensor


def layer_activations(shape: MegatronShape, plan: ParallelPlan) -> int:
    """Return the bytes that a layer saves of a micro-batch on a rank, without checkpointing.

    With 4 h in the feed-forward, and scores, it is s b h (10 + 24/t + 5 a s / (h t)) without
    sequence parallelism, and s b h (34 + 5 a s / h) / t with it (equations 2 and 4).

    Example:
        >>> from weighbridge.costs.parallel import ParallelPlan
        >>> sizes = MegatronShape(96, 12288, 96, 96, 4 * 12288, 51200, 2048, 1, fused=False)
        >>> one = layer_activations(sizes, ParallelPlan(tensor=8))
        >>> one == 2048 * 12288 * (10 + 3) + 5 * 96 * 2048**2 // 8
        True
    """
    tokens = shape.micro_batch * ceil(shape.sequence / plan.context)
    mask = _MASK if shape.dropout else 0
    # The inputs of two norms and of the matrices behind them, and two masks of dropout.
    whole = (4 * _HALF + 2 * mask) * shape.hidden
    # Queries, keys, values, and what attention gives; both sides of the activation function.
    attention = 2 * _HALF * shape.hidden * (1 + shape.grouped_heads / shape.heads)
    feed_forward = (3 if shape.gated else 2) * _HALF * shape.feed_forward
    scores = 0 if shape.fused else (2 * _HALF + mask) * shape.heads * shape.sequence
    divided = (attention + feed_forward + scores) / plan.tensor
    return ceil(tokens * (whole / (plan.tensor if plan.sequence_parallel else 1) + divided))


def boundary_bytes(shape: MegatronShape, plan: ParallelPlan) -> int:
    """Return the bytes that a stage sends to the next for a micro-batch.

    Example:
        >>> from weighbridge.costs.parallel import ParallelPlan
        >>> sizes = MegatronShape(12, 512, 8, 8, 2048, 50304, 1024, 4)
        >>> boundary_bytes(sizes, ParallelPlan(pipeline=4))
        4194304
    """
    tokens = shape.micro_batch * ceil(shape.sequence / plan.context)
    return ceil(_HALF * tokens * shape.hidden / (plan.tensor if plan.sequence_parallel else 1))


def activations(  # noqa: PLR0913  # each is a setting of its own
    shape: MegatronShape,
    plan: ParallelPlan,
    stage: int,
    micro_batches: int,
    *,
    again: bool = False,
    group: int | None = None,
    deferred: int = 0,
) -> int:
    """Return the most bytes of activations on a stage, with the logits if it is the last.

    The loss saves logits in F32 (Korthikanti et al., section 4.3), and those in 16 bits are still
    there.

    Args:
        shape: the sizes.
        plan: how the model is divided.
        stage: the stage of the pipeline.
        micro_batches: those of a step on a copy of the model.
        again: full checkpointing: a layer keeps its input, and one is computed again.
        group: how many micro-batches a piece of layers gets before the next piece has its turn
            (microbatch-group-size-per-virtual-pipeline-stage); by default the stages.
        deferred: the micro-batches for which the gradient of the head's weight waits
            (wgrad-deferral-limit); it needs their inputs and the gradients of their logits.

    Example:
        >>> from weighbridge.costs.parallel import ParallelPlan
        >>> sizes = MegatronShape(12, 512, 8, 8, 2048, 50304, 1024, 4, fused=False)
        >>> activations(sizes, ParallelPlan(), 0, 1)
        4115660800
    """
    one, sent = layer_activations(shape, plan), boundary_bytes(shape, plan)
    layers = len(stage_layers(shape.layers, plan.pipeline, plan.chunks)[stage])
    flying = in_flight(plan, stage, micro_batches)
    if group:  # core/pipeline_parallel/schedules.py, get_pp_rank_microbatches
        flying += (plan.chunks - 1) * (group - plan.pipeline) / plan.chunks
    held = (sent if again else one) * layers * flying + (one if again else 0)
    if stage == 0 and shape.dropout:
        held += sent / _HALF * flying  # the mask of what is embedded
    if stage == plan.pipeline - 1:
        tokens = shape.micro_batch * ceil(shape.sequence / plan.context)
        held += 2 * sent  # the inputs of the last norm and of the head
        logits = tokens * shape.vocabulary / plan.tensor
        held += (_HALF + _SINGLE) * logits + deferred * (_HALF * logits + sent)
    return ceil(held)


def kept_bytes(  # noqa: PLR0913  # each is a setting of its own
    shape: MegatronShape,
    plan: ParallelPlan,
    stage: int,
    device: str,
    *,
    engine: bool = True,
    deterministic: bool = False,
    image: str = "",
) -> int:
    """Return what stays on a device between steps, besides the states.

    Args:
        shape: the sizes.
        plan: how the model is divided.
        stage: the stage of the pipeline.
        device: the device, such as ``"H100"``.
        engine: whether Transformer Engine computes the layers.
        deterministic: whether cuBLAS has the workspaces with which runs repeat.
        image: the version of NVIDIA's image of PyTorch, such as ``"26.04"``; by default an old one.

    Example:
        >>> from weighbridge.costs.parallel import ParallelPlan
        >>> sizes = MegatronShape(12, 512, 8, 8, 2048, 50304, 1024, 4)
        >>> kept_bytes(sizes, ParallelPlan(), 0, "A100", deterministic=True) / 2**20
        68.0
    """
    facts = data.read_toml("facts/megatron.toml")
    cublas = facts["cublas_workspace"]
    one = cublas["deterministic_bytes"] if deterministic else _workspace(cublas, device, image)
    kept: int = one * cublas["threads"]
    if engine:
        kept += _workspace(facts["engine_workspace"], device)
    else:
        rows = ceil(shape.sequence / plan.context)
        kept += _HALF * shape.micro_batch * shape.heads * rows * shape.sequence // plan.tensor
    pieces = plan.chunks - (stage == 0) if plan.pipeline > 1 else 0
    tensors: int = facts["kept_inputs"]["tensors"]
    return kept + pieces * tensors * boundary_bytes(shape, plan)


def _workspace(fact: dict[str, Any], device: str, image: str = "") -> int:
    since = fact.get("newer_since", {}).get(device)
    is_newer = device in fact["newer"] or (since is not None and image >= since)
    return int(fact["newer_bytes" if is_newer else "bytes"])
