"""Which rows of the model belong to which sentence: with padding, or packed without it."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Layout(NamedTuple):
    """How the tokens of a batch (B, T) map to rows (N, …).

    ``groups`` lists runs of sentences of equal length, as (sentences, tokens), in the order of the
    rows; attention processes each run at once. ``mask`` is True where a token may be attended to,
    or None if all may; it is (B, 1, 1, T), or (B, 1, T, T) in a decoder. In a packed batch,
    ``kept`` (N,) has the place of each row in the batch, b·T + t, and ``first`` (B,) the first row
    of each sentence.
    """

    shape: tuple[int, int]
    groups: list[tuple[int, int]]
    causal: bool = False
    mask: Tensor | None = None
    kept: Tensor | None = None
    first: Tensor | None = None

    def pick(self, batch: Tensor) -> Tensor:
        """Leave out the padding of a packed batch: (1 or B, T) -> (N,), else the same."""
        if self.kept is None:
            return batch
        return batch.expand(self.shape).flatten()[self.kept]

    def batch(self, rows: Tensor) -> Tensor:
        """Put rows back in the batch, with zeros for the padding: (N, …) -> (B, T, …)."""
        if self.kept is not None:
            places = rows.new_zeros(self.shape[0] * self.shape[1], *rows.shape[1:])
            rows = places.index_copy(0, self.kept, rows)  # (N, …) -> (B·T, …)
        return rows.view(*self.shape, *rows.shape[1:])  # (B·T, …) -> (B, T, …)

    def firsts(self, rows: Tensor) -> Tensor:
        """Take the first token of each sentence: (N, H) -> (B, H)."""
        if self.first is not None:
            return rows[self.first]
        return rows.view(*self.shape, -1)[:, 0]


def lay_out(tokens: Tensor, attention_mask: Tensor | None, *, causal: bool, pack: bool) -> Layout:
    """Return the layout of a batch: with padding, or packed if that removes something.

    A batch is not packed if the first token of a sentence is masked (padding on the left), because
    the pooler reads that place. Nor is it inside `torch.compile`, where no shape may depend on
    values.
    """
    size, length = tokens.shape
    whole = Layout((size, length), [(size, length)], causal=causal)
    if attention_mask is None:
        return whole
    seen = attention_mask.bool()  # (B, T)
    if not torch.compiler.is_compiling():
        if bool(seen.all()):
            return whole
        if pack and bool(seen[:, 0].all()):
            return _packed(seen, whole)
    mask = seen[:, None, None, :]  # (B, 1, 1, T): no token attends to padding
    if causal:
        mask = mask & triangle(length, seen.device)  # (B, 1, T, T)
    return whole._replace(mask=mask, causal=False)


def _packed(seen: Tensor, whole: Layout) -> Layout:
    """Return a layout of the real tokens (B, T) only, sentences of equal length side by side."""
    lengths, order = seen.sum(1).sort(stable=True)  # (B,), (B,)
    sentence, place = seen[order].nonzero(as_tuple=True)  # (N,), (N,)
    kept = order[sentence] * whole.shape[1] + place  # (N,)
    first = torch.empty_like(order)
    first[order] = lengths.cumsum(0) - lengths  # (B,): each begins where the one before ends
    tokens, sentences = torch.unique_consecutive(lengths, return_counts=True)
    groups = list(zip(sentences.tolist(), tokens.tolist(), strict=True))
    return whole._replace(groups=groups, kept=kept, first=first)


def triangle(length: int, device: torch.device) -> Tensor:
    """Return (T, T), True where a token of a decoder may look: at itself and backwards."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()


class Sentences(NamedTuple):
    """The rows (N, H) of sentences, with their layout: what attention looks at."""

    rows: Tensor
    layout: Layout
