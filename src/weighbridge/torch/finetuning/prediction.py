"""The costs of a run: predicted before it starts, and measured after it.

Parameters and bytes come from the ledger. The cost of a text follows from the recorded operations
of our BERT, which `weighbridge measure --ours` uses as well. A packed batch costs as much as its
texts.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.utils.flop_counter import FlopCounterMode

from weighbridge.blueprint import operations
from weighbridge.costs import costs
from weighbridge.ledger.ledger import bind
from weighbridge.torch.live import Live

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torch import Tensor, nn

    from weighbridge.blueprint.operations import Operation
    from weighbridge.models.find import Model
    from weighbridge.torch.finetuning.plan import Plan

_OURS = "bert.ours"  # the operations of the trained model
_DTYPE = "F32"
_MOMENTS = 2  # that AdamW keeps for each parameter


class Prediction(NamedTuple):
    """The predicted costs of a run. Memory is the tensors of one process, at its heaviest piece.

    A value that is unknown for a config or for mixed precision is None.
    """

    parameters: int
    weight_bytes: int
    memory_bytes: int | None
    piece_flops: int | None
    run_flops: int | None
    run_tokens: int


class Costs:
    """The costs of training a class on texts of given lengths.

    Example:
        >>> from weighbridge.models.find import find
        >>> costs = Costs(find("bert-base-chinese"), "BertForSequenceClassification")
        >>> costs.flops(128), costs.peak_bytes([128, 64])
        (67045303296, 822880272)
    """

    def __init__(self, model: Model, class_name: str) -> None:
        self._model, self._class_name = model, class_name
        self._operations = operations.load_operations(_OURS)
        self.unheld = self._operations.unheld(model.as_read)
        """The fields of the config whose values differ from the recorded ones."""
        ledger = bind(model.blueprint, class_name, model.fields, _DTYPE)
        self._rows = [*ledger.rows, *ledger.buffers()]
        self._bound: dict[int, dict[str, list[Operation]]] = {}
        self._flops: dict[int, int] = {}

    def flops(self, length: int) -> int:
        """Return the FLOPs of the matrix products of one text, forward and backward."""
        if length not in self._flops:
            bound = self._operations_of(length)
            self._flops[length] = costs.matmul_flops([*bound["forward"], *bound["backward"]])
        return self._flops[length]

    def peak_bytes(self, lengths: Iterable[int]) -> int:
        """Return the peak memory of weights, gradients and the saved tensors of texts."""
        operations_of_texts = [self._operations_of(length) for length in lengths]
        saved_of_texts = [bound["saved"] for bound in operations_of_texts]
        products_of_texts = [bound["forward"] for bound in operations_of_texts]
        saved = [_in_one_row(tensors) for tensors in zip(*saved_of_texts, strict=True)]
        products = [_in_one_column(steps) for steps in zip(*products_of_texts, strict=True)]
        return costs.peak_bytes(self._rows, saved, products, _DTYPE, training=True)

    def _operations_of(self, length: int) -> dict[str, list[Operation]]:
        if length not in self._bound:
            fields = {**self._model.given, **self._model.fields}
            run = {
                "batch": 1,
                "sequence": length,
                "attention": "sdpa",
                "dtype": _DTYPE,
                "training": True,
            }
            names = self._operations.names(fields, **run)
            self._bound[length] = {
                kind: self._operations.bind(self._class_name, kind, names)
                for kind in operations.KINDS
            }
        return self._bound[length]


def _in_one_row(tensors: Sequence[Operation]) -> Operation:
    """Return the saved tensors of all texts in one step, as one tensor."""
    return tensors[0]._replace(shape=(sum(prod(tensor.shape) for tensor in tensors),))


def _in_one_column(products: Sequence[Operation]) -> Operation:
    """Return the products of all texts in one step, as one whose result is a column."""
    rows = sum(prod(product.shape) // product.shape[2] for product in products)
    return products[0]._replace(shape=(1, rows, 1, 1))


def predict(
    model: Model,
    class_name: str,
    lengths: Sequence[int],
    plan: Plan,
    *,
    keeps_best: bool,
    is_mixed: bool,
) -> tuple[Prediction, list[int], list[str]]:
    """Predict a run on texts of given lengths.

    Returns:
        The prediction, the lengths of the heaviest piece, and notes on missing predictions.
    """
    ledger = bind(model.blueprint, class_name, model.fields, _DTYPE)
    pieces: list[list[int]] = []
    for step in range(plan.steps):
        rows_of_pieces = [plan.piece(step, piece) for piece in range(plan.pieces)]
        pieces += [[lengths[row] for row in rows] for rows in rows_of_pieces]
    heaviest = max(pieces, key=lambda piece: (sum(piece), max(piece, default=0)))
    weight_bytes, tokens = costs.weight_bytes(ledger.rows), sum(map(sum, pieces))
    known = Costs(model, class_name)
    if known.unheld:
        fields = ", ".join(f"{name} = {value}" for name, value in known.unheld.items())
        notes = [f"FLOPs and memory are not predicted: no operations were recorded for {fields}"]
        return (
            Prediction(ledger.parameters, weight_bytes, None, None, None, tokens),
            heaviest,
            notes,
        )
    flops = sum(known.flops(length) for piece in pieces for length in piece)
    of_piece = sum(map(known.flops, heaviest))
    memory: int | None = known.peak_bytes(heaviest) + (_MOMENTS + keeps_best) * weight_bytes
    notes = []
    if is_mixed:
        memory = None
        notes.append("memory is not predicted for bfloat16")
    predicted = Prediction(ledger.parameters, weight_bytes, memory, of_piece, flops, tokens)
    return predicted, heaviest, notes


# Measurement


def measure_piece(
    model: nn.Module, heaviest: Sequence[int], besides: Iterable[Tensor], peak_bytes: int | None
) -> dict[str, Any]:
    """Run the heaviest piece once more, and return the measurements to compare with.

    The weights do not change.

    FLOPs are counted with eager attention, because a fused kernel hides its own. Memory is what
    tensors take, including those in ``besides``, which exist all the time; or it is ``peak_bytes``
    if the device measured it during the run.
    """
    parameters = list(model.parameters())
    if peak_bytes is None:
        with Live([*parameters, *model.buffers(), *besides]) as live:
            _pass(model, heaviest)
        peak_bytes = live.peak_bytes
    config: Any = model.config
    config.attention = "eager"
    with FlopCounterMode(display=False) as counter:
        _pass(model, heaviest)
    config.attention = "sdpa"
    return {
        "parameters": sum(parameter.numel() for parameter in parameters),
        "weight_bytes": sum(
            parameter.numel() * parameter.element_size() for parameter in parameters
        ),
        "memory_bytes": peak_bytes,
        "piece_flops": int(counter.get_total_flops()),
    }


def _pass(model: nn.Module, lengths: Sequence[int]) -> None:
    """Run forward and backward on texts of given lengths, and leave no gradient."""
    device, longest = next(model.parameters()).device, max(lengths)
    ids = torch.zeros(len(lengths), longest, dtype=torch.long, device=device)
    mask = torch.tensor([[1] * length + [0] * (longest - length) for length in lengths])
    mask = mask.to(device)
    was_training = model.training
    with torch.random.fork_rng(devices=[]):
        model.train()(ids, mask, ids * 0, labels=ids[:, 0]).loss.backward()
    model.zero_grad(set_to_none=True)
    model.train(was_training)
