"""`derive.generalize.truths`: what one draft found out about conditions serves the next."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from weighbridge.algebra.expr import names_in, parse
from weighbridge.algebra.rewrite import replaced
from weighbridge.derive.generalize.places import Level, Observation
from weighbridge.derive.generalize.truths import Truths
from weighbridge.derive.probing.symbolic import SymbolicTrace

if TYPE_CHECKING:
    from weighbridge.algebra.expr import Tree

QUESTIONS = [
    *("gated", "size > 4", "size == null", "kinds == null"),
    *("size // heads > 1", "size % heads == 0", "size // heads > 1 and gated", "kind == 'wide'"),
    *("kinds[1] == 'wide'", "kinds[1.0] == 'wide'", "size == 1", "size == true"),
    *("i > 1", "i < size", "kinds[i] == 'wide'", "kinds[size] == 'wide'", "i % heads == 0"),
]


def observation(rng: random.Random) -> Observation:
    fields: dict[str, Any] = {
        "gated": rng.choice([True, False, None]),
        "size": rng.choice([None, 1, 2, 6]),
        "heads": rng.choice([0, 1, 2, 3]),
        "kind": rng.choice(["wide", "thin", None]),
        "kinds": rng.choice([None, ["wide"] * 4, ["thin", "wide", "thin", "wide"], ["thin"]]),
    }
    return Observation(fields, {}, {"layers": rng.choice([1, 3])}, SymbolicTrace())


def levels(observations: list[Observation]) -> list[Level]:
    roots = [(row, ()) for row in range(len(observations))]
    items = [
        (row, (index,))
        for row, seen in enumerate(observations)
        for index in range(seen.lengths["layers"])
    ]
    return [Level("", roots, observations, {}, {}), Level("layers", items, observations, {}, {})]


def as_index(leaf: Tree) -> Tree:
    return ("index", 0) if leaf == ("name", "i") else leaf


def answer(truths: Truths, level: Level, question: str) -> Any:
    found = truths.of(level, replaced(parse(question), as_index))
    return found and (repr(found[0]), found[1].tolist())  # a tree with true equals one with 1


@pytest.mark.parametrize("seed", range(20))
def test_a_later_draft_finds_what_a_first_one_would(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311
    observations = [observation(rng) for _ in range(2)]
    kept, answers = Truths(), []
    for _ in range(12):
        observations = [*observations, observation(rng)]
        kept.begin(observations)
        for level in levels(observations):
            for question in QUESTIONS:
                if level.path or "i" not in names_in(parse(question)):
                    fresh = Truths()
                    fresh.begin(observations)
                    expected = answer(fresh, level, question)
                    assert answer(kept, level, question) == expected
                    answers.append(expected)
    assert any(answers)
    assert None in answers


def test_other_observations_are_answered_anew() -> None:
    rng, truths = random.Random(1), Truths()  # noqa: S311
    for count in (6, 8, 3):
        observations = [observation(rng) for _ in range(count)]
        truths.begin(observations)
        (root, _) = levels(observations)
        fresh = Truths()
        fresh.begin(observations)
        assert answer(truths, root, "gated") == answer(fresh, root, "gated")
