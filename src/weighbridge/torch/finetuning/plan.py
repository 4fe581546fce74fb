"""The plan of a run: a function of the seed and the step alone, with nothing to remember."""

from __future__ import annotations

import hashlib
import random
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from weighbridge.torch.finetuning.settings import Settings


class Plan(NamedTuple):
    """The steps of a run: so many texts, in batches, each cut into ``pieces`` of equal size.

    The last batch of an epoch may be short: its first pieces are filled, and the others have fewer
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
        """How many batches the texts fill, the last one perhaps in part."""
        return -(-self.texts // self.batch)

    def epoch(self, step: int) -> int:
        """Return which epoch a step is in."""
        return step // self.steps_of_epoch

    def rows(self, step: int) -> list[int]:
        """Return which texts make the batch of a step."""
        first = step % self.steps_of_epoch * self.batch
        return _order(self.seed, self.epoch(step), self.texts)[first : first + self.batch]

    def piece(self, step: int, piece: int) -> list[int]:
        """Return which texts make one piece of it."""
        size = self.batch // self.pieces
        return self.rows(step)[piece * size : (piece + 1) * size]

    def dropout_seed(self, step: int, piece: int) -> int:
        """Return what a piece's dropout is drawn from."""
        digest = hashlib.sha256(f"dropout {self.seed} {step} {piece}".encode()).digest()
        return int.from_bytes(digest[:8], "big") >> 1

    def rate(self, step: int) -> float:
        """Return the share of the learning rate that a step has: it rises and falls linearly."""
        rising = -int(-self.warmup * self.steps // 1)
        if step < rising:
            return (step + 1) / rising
        return (self.steps - step) / (self.steps - rising)

    def is_evaluated(self, step: int) -> bool:
        """Whether the model is evaluated after a step: an epoch's last, or the last."""
        return (step + 1) % self.steps_of_epoch == 0 or step + 1 == self.steps


def plan_of(settings: Settings, texts: int, processes: int) -> Plan:
    """Return the plan of a run on so many texts by so many processes."""
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
    """Return the order of an epoch's texts.

    Python says that a seed gives one order in all its versions.
    """
    order = list(range(count))
    random.Random(f"order {seed} {epoch}").shuffle(order)  # noqa: S311  # no secret
    return order
