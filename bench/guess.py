"""Measures how good guesses are, on the files of released models, made from their configs.

``python bench/guess.py`` prints for how many models the guess is exact, for how many their own
family is among the exact ones, and first, for how many all fields on heads agree with the config,
and how long a guess takes.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING

from weighbridge.errors import WeighbridgeError
from weighbridge.guessing import guess as guessing
from weighbridge.ledger import ledger
from weighbridge.models import find as models
from weighbridge.readers import StoredCheckpoint

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weighbridge.models.find import Model

DATA = Path(__file__).parent.parent / "tests" / "data"
MOST_TENSORS = 9_000


def released() -> Iterator[tuple[Model, StoredCheckpoint]]:
    """Yield each released model that can be weighed, with the file that its class would have."""
    for path in sorted([*DATA.glob("real/*.json"), *DATA.glob("configs/*.json")]):
        try:
            model = models.find(path)
        except WeighbridgeError:
            continue
        stored = ledger.bind(model.blueprint, model.named_class, model.fields).stored
        if stored.tensors <= MOST_TENSORS:
            rows = tuple(row for row in stored.rows if not row.tied_to)
            yield (
                model,
                StoredCheckpoint(str(path), "safetensors", rows, {}, (), 0, {}, {}, (), None),
            )


def main() -> None:
    """Guess each model, and count the hits."""
    exact = own = first = heads = 0
    seconds = []
    for model, found in released():
        start = time.perf_counter()
        fitting = guessing.guess_model(found).exact
        seconds.append(time.perf_counter() - start)
        same = [candidate for candidate in fitting if candidate.family == model.blueprint.family]
        exact += bool(fitting)
        own += bool(same)
        first += fitting[:1] == tuple(same[:1]) != ()
        heads += any(
            all(candidate.model.fields[name] == model.fields[name] for name in of_heads(model))
            for candidate in same[:1]
        )
    print(
        f"{len(seconds)} released models: {exact} guessed exactly, "
        f"{own} with their own family among those that fit,"
    )
    print(f"{first} with it first, {heads} with all fields on heads as in the config;")
    print(f"median {statistics.median(seconds):.2f} s, longest {max(seconds):.2f} s")


def of_heads(model: Model) -> list[str]:
    """Return the fields for the number or size of heads."""
    return [name for name in model.blueprint.fields if "head" in name]


if __name__ == "__main__":
    main()
