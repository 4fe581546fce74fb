"""Conditions that no single question gives: which combination is believed."""

from __future__ import annotations

import itertools

import numpy as np

from weighbridge.algebra.expr import parse, source
from weighbridge.algebra.rewrite import compiled
from weighbridge.derive.generalize.choosing import condition_of

# Layers of models with few layers, as probes have them; `first` is null or a number.
PLACES = [
    {"i": i, "n": n, "first": first, "size": n + 2, "flag": n % 2 == 0}
    for n, first in itertools.product((2, 4, 5), (None, 1, 2, 4))
    for i in range(n)
]
QUESTIONS = {
    "first == null": 1.2,
    "flag": 2.5,
    "i == 0": 5,
    "i < 2": 6,
    "i < 3": 7,
    "n == 5": 3,
    "i % 2 == 0": 6,
    "first != null and i < first": 6.3,
    "i < size": 6,
}


def test_a_test_that_decides_between_two_conditions_is_found() -> None:
    trees = [parse(text) for text in QUESTIONS]
    table = np.array([[bool(compiled(tree)(place)) for place in PLACES] for tree in trees])
    wanted = np.array(
        [place["i"] < (3 if place["first"] is None else place["first"]) for place in PLACES]
    )
    found = condition_of(trees, list(QUESTIONS.values()), table, wanted)
    assert found is not None
    assert source(found) == "first == null and i < 3 or first != null and i < first"
