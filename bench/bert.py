"""Compares our BERT with transformers', alternately: forward and training steps.

The sentences of a batch have mixed lengths, or equal ones.

Run it as ``python bench/bert.py`` with the Python in which weighbridge[torch] and transformers are
installed. Both models have the same random weights, and the script prints the difference of their
outputs. Dropout is off, since masks drawn for padding would differ. The matmul peak is the best of
several square matrices in the same run.
"""

from __future__ import annotations

import random
from functools import partial
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from _pairs import Pair, machine, medians, ratios
from torch.utils.flop_counter import FlopCounterMode
from transformers import BertConfig as ReferenceConfig
from transformers import BertForSequenceClassification as Reference

from weighbridge.torch.bert import BertConfig, BertForSequenceClassification

if TYPE_CHECKING:
    from collections.abc import Callable

LEAST, MOST = 8, 40  # pairs; within these limits, as many as half a minute allows
HALF_A_MINUTE = 30
SENTENCES = 16
SHORTEST, LONGEST = 8, 128
SIZES = {
    "all-MiniLM-L6": {
        "hidden_size": 384,
        "num_hidden_layers": 6,
        "intermediate_size": 1536,
        "num_attention_heads": 12,
    },
    "BERT-base": {
        "hidden_size": 768,
        "num_hidden_layers": 12,
        "intermediate_size": 3072,
        "num_attention_heads": 12,
    },
}


class Batch(NamedTuple):
    """Sentences as inputs of both models, and their classes."""

    input_ids: torch.Tensor
    attention_mask: torch.Tensor
    labels: torch.Tensor

    @property
    def real(self) -> float:
        """The share of positions that hold a token."""
        return self.attention_mask.float().mean().item()


def batch(lengths: list[int]) -> Batch:
    """Return sentences of these lengths, padded to the longest."""
    longest = max(lengths)
    mask = (torch.arange(longest) < torch.tensor(lengths)[:, None]).long()
    ids = torch.randint(5, 30_000, mask.shape) * mask
    return Batch(ids, mask, torch.randint(0, 2, (len(lengths),)))


def both(sizes: dict[str, int], attention: str = "sdpa") -> tuple[Any, Any]:
    """Return transformers' classifier and ours, with the same random weights, without dropout."""
    fields: dict[str, Any] = {
        **sizes,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    }
    config = ReferenceConfig(**fields)
    config._attn_implementation = attention
    theirs = Reference(config)
    ours = BertForSequenceClassification(BertConfig(**fields, attention=attention))
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


def forward(model: Any, given: Batch) -> None:
    """Encode a batch, without gradients."""
    with torch.inference_mode():
        (model.bert if hasattr(model, "bert") else model)(
            given.input_ids, attention_mask=given.attention_mask
        )


def step(model: Any, optimizer: torch.optim.Optimizer, given: Batch) -> None:
    """Take one step of training."""
    optimizer.zero_grad()
    model(given.input_ids, attention_mask=given.attention_mask, labels=given.labels).loss.backward()
    optimizer.step()


def seconds(call: Callable[[], object]) -> Callable[[], float]:
    """Return a function that measures the seconds of one call."""

    def measure() -> float:
        start = perf_counter()
        call()
        return perf_counter() - start

    return measure


def turns(theirs: Callable[[], float], ours: Callable[[], float]) -> list[Pair]:
    """Measure both alternately; they also alternate in coming first.

    The allocator favours a model that always comes second.
    """
    theirs(), ours()
    began, pairs = perf_counter(), list[Pair]()
    while len(pairs) < LEAST or (len(pairs) < MOST and perf_counter() - began < HALF_A_MINUTE):
        if len(pairs) % 2:
            second, first = ours(), theirs()
        else:
            first, second = theirs(), ours()
        pairs.append(Pair(first, second))
    return pairs


def peak() -> float:
    """Return the FLOP/s of a large matmul: the median of the best size."""
    rates = []
    for size in (512, 1024, 2048):
        matrix = torch.randn(size, size)
        times = [seconds(partial(torch.mm, matrix, matrix))() for _ in range(12)]
        rates.append(2 * size**3 / median(times[2:]))
    return max(rates)


def matmul_flops(model: Any, given: Batch) -> int:
    """Return the matmul FLOPs of our forward pass.

    Attention is eager, so the counter sees its products.
    """
    model.config.attention = "eager"
    with FlopCounterMode(display=False) as counter:
        forward(model, given)
    model.config.attention = "sdpa"
    return counter.get_total_flops()


def main() -> None:
    """Print every comparison."""
    torch.manual_seed(0)
    draw = random.Random(0)  # noqa: S311  # lengths are not secret
    mixed = [draw.randint(SHORTEST, LONGEST) for _ in range(SENTENCES)]
    mixed[0] = LONGEST
    batches = {"mixed": batch(mixed), "equal": batch([LONGEST] * SENTENCES)}
    print(
        f"transformers / ours, alternately, each first every second time; {machine()}\n"
        f"ratios of {LEAST} to {MOST} pairs, measured for half a minute: median (min–max)"
    )
    for name, sizes in SIZES.items():
        theirs, ours = both(sizes)
        for kind, given in batches.items():
            theirs.eval(), ours.eval()
            with torch.no_grad():
                expected = theirs.bert(
                    given.input_ids, attention_mask=given.attention_mask
                ).last_hidden_state
                found = ours.bert(given.input_ids, given.attention_mask).last_hidden_state
            places = given.attention_mask.bool()
            apart = (expected[places] - found[places]).abs().max().item()
            print(
                f"{name}, {SENTENCES} sentences of {kind} lengths, "
                f"{given.real:.0%} of the positions hold a token; "
                f"outputs differ by {apart:.1e}"
            )
            pairs = turns(
                seconds(partial(forward, theirs, given)), seconds(partial(forward, ours, given))
            )
            print(f"  forward        × {ratios(pairs)}: {medians(pairs, 1e-3, 'ms')}")
            rate = matmul_flops(ours, given) / median(pair.b for pair in pairs)
            highest = peak()
            print(
                f"  ours reaches   {rate / highest:.0%} of this machine's matmul peak, "
                f"{highest / 1e9:,.0f} GFLOP/s"
            )
            theirs.train(), ours.train()
            of_theirs, of_ours = (
                torch.optim.AdamW(model.parameters(), lr=1e-5) for model in (theirs, ours)
            )
            pairs = turns(
                seconds(partial(step, theirs, of_theirs, given)),
                seconds(partial(step, ours, of_ours, given)),
            )
            print(f"  training step  × {ratios(pairs)}: {medians(pairs, 1e-3, 'ms')}")


if __name__ == "__main__":
    main()
