"""Fields that decide only together with others are found."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pytest

from weighbridge.derive.derivation import derive
from weighbridge.derive.probing.own import OwnSubject
from weighbridge.derive.probing.questions import answer_to, flipping
from weighbridge.derive.probing.reference import FamilySubject

if TYPE_CHECKING:
    from weighbridge.algebra.expr import Tree


@cache
def shortcut_text() -> str:
    address = "own_models.shortcut_heads:"
    return derive(OwnSubject(f"{address}Shortcut", f"{address}ShortcutConfig")).text


def test_a_branch_that_two_fields_reach_together_is_derived() -> None:
    """One head as wide as the model needs no projection."""
    [condition] = [
        line for line in shortcut_text().splitlines() if line.startswith('"to_out" = "dim_head')
    ]
    assert "heads" in condition
    assert "dim_head" in condition


@pytest.mark.sampled("src/weighbridge/derive")
def test_a_flag_that_the_class_turns_decides_if_it_is_stated() -> None:
    """ShieldGemma 2's class turns its own tie on where the text model has one."""
    derived = derive(FamilySubject("shieldgemma2"), classes=())
    assert derived.exact
    assert 'if text_config.tie_word_embeddings or tie_word_embeddings"' in derived.text


@pytest.mark.parametrize(
    ("tree", "fields", "flips"),
    [
        (("<", ("name", "labels"), ("value", 10)), {"labels": 2}, ("labels", 10)),
        (("==", ("name", "a"), ("name", "b")), {"a": 64, "b": 16}, ("a", 16)),
        (
            ("==", ("name", "size"), ("[]", ("name", "sizes"), ("value", 0))),
            {"size": 64, "sizes": [256, 512]},
            ("sizes", [64, 512]),
        ),
        (("in", ("value", "p2c"), ("name", "kinds")), {"kinds": []}, ("kinds", ["p2c"])),
        (("name", "tied"), {"tied": True}, ("tied", False)),
    ],
)
def test_an_answer_is_flipped(
    tree: Tree, fields: dict[str, object], flips: tuple[str, object]
) -> None:
    changes = list(flipping(tree, fields, fields))
    assert flips in changes
    for path, value in changes:
        assert answer_to(tree, {**fields, path: value}) is not answer_to(tree, fields)
