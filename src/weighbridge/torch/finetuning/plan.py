"""The plan of a run: a function of the seed and the step alone, without state."""

from __future__ import annotations

import hashlib
import random
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from weighbridge.torch.finetuning.settings import Settings


class Plan(NamedTuple):
    """The steps of a run: batches of texts, each cut into ``pieces`` of equal size.

    The last batch of an epoch may be short: its first pieces are full, and the others have fewer
    texts or none. Steps are counted from 0.

    Example:
        >>> plan = Plan(texts=10, batch=4, pieces=2, steps=6, warmup=0.5, seed=0)
        >>> [plan.epoch(step) for step in range(6)], [len(plan.rows(step)) for step in range(3)]
        ([0, 0, 0, 1, 1, 1], [4, 4, 2])
        >>> [len(plan.piece(2, piece)) for piece in range(2)]
        [2, 0]
        >>> [round(plan.rate(step), 2) for step in range(6)]
        [0.33, 0.67, 1.0, 1.0, 0.67, 0.33]
    """

    texts: int
    batch: int
    pieces: int
    steps: int
    warmup: float
    seed: int

    @property
    def steps_of_epoch(self) -> int:
        """The number of batches in an epoch; the last one may be short."""
        return -(-self.texts // self.batch)

    def epoch(self, step: int) -> int:
        """Return the epoch of a step."""
        return step // self.steps_of_epoch

    def rows(self, step: int) -> list[int]:
        """Return the texts in the batch of a step."""
        first = step % self.steps_of_epoch * self.batch
        return _order(self.seed, self.epoch(step), self.texts)[first : first + self.batch]

    def piece(self, step: int, piece: int) -> list[int]:
        """Return the texts in one piece of the batch."""
        size = self.batch // self.pieces
        return self.rows(step)[piece * size : (piece + 1) * size]

    def dropout_seed(self, step: int, piece: int) -> int:
        """Return the seed of the dropout of a piece."""
        digest = hashlib.sha256(f"dropout {self.seed} {step} {piece}".encode()).digest()
        return int.from_bytes(digest[:8], "big") >> 1

    def rate(self, step: int) -> float:
        """Return the factor of the learning rate in a step: it rises and falls linearly."""
        rising = -int(-self.warmup * self.steps // 1)
        if step < rising:
            return (step + 1) / rising
        return (self.steps - step) / (self.steps - rising)

    def is_evaluated(self, step: int) -> bool:
        """Whether the model is evaluated after a step: the last one of an epoch or of the run."""
        return (step + 1) % self.steps_of_epoch == 0 or step + 1 == self.steps


def plan_of(settings: Settings, texts: int, processes: int) -> Plan:
    """Return the plan of a run, given the numbers of texts and of processes."""
    steps = settings.epochs * -(-texts // settings.batch)
    return Plan(
        texts,
        settings.batch,
        settings.accumulate * processes,
        min(steps, settings.steps or steps),
        settings.warmup,
        settings.seed,
    )


@lru_cache(maxsize=1)
def _order(seed: int, epoch: int, count: int) -> list[int]:
    """Return the order of the texts in an epoch.

    Python guarantees the same order for a seed in all its versions.
    """
    order = list(range(count))
    random.Random(f"order {seed} {epoch}").shuffle(order)  # noqa: S311  # no secret
    return order
