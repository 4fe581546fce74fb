"""A tensor may have several ties: the first whose condition holds counts."""

import pytest

from weighbridge.blueprint import law
from weighbridge.blueprint.schema import Blueprint, rewritten_ties
from weighbridge.errors import BlueprintError
from weighbridge.ledger.ledger import bind

TIES = "shared.weight if share; decoder.weight if tie"
RAW = {
    "format": 2,
    "family": "three",
    "source": "a test",
    "class": "ThreeModel",
    "proof": {"by": "a test", "against": "a test", "configs": 1},
    "defaults": {"size": 8, "share": True, "tie": True},
    "tensors": {"shared.weight": "size", "decoder.weight": "size", "lm_head.weight": "size"},
    "when": {"shared": "share"},
    "ties": {"decoder.weight": "shared.weight if share", "lm_head.weight": TIES},
    "modules": {"shared": "Norm", "decoder": "Norm", "lm_head": "Norm"},
}


@pytest.mark.parametrize(
    ("share", "tie", "target", "parameters"),
    [
        (True, True, "shared.weight", 8),
        (True, False, "shared.weight", 8),
        (False, True, "decoder.weight", 8),
        (False, False, None, 16),
    ],
)
def test_the_first_tie_that_holds_counts(
    *, share: bool, tie: bool, target: str | None, parameters: int
) -> None:
    law.check(RAW)
    ledger = bind(Blueprint(RAW), "ThreeModel", {"size": 8, "share": share, "tie": tie})
    assert [row.tied_to for row in ledger.rows if row.name == "lm_head.weight"] == [target]
    assert ledger.parameters == parameters


@pytest.mark.parametrize("ties", ["shared.weight if tie; decoder.weight if tie"])
def test_a_tie_to_a_tensor_that_may_be_tied_is_unlawful(ties: str) -> None:
    with pytest.raises(BlueprintError, match=r"decoder\.weight is itself tied"):
        law.check({**RAW, "ties": {**RAW["ties"], "lm_head.weight": ties}})


def test_names_and_expressions_of_ties_are_rewritten_apart() -> None:
    rewritten = rewritten_ties("a.w at i if b; c.w if d; e", "x.{}".format, str.upper)
    assert rewritten == "x.a.w at I if B; x.c.w if D; x.e"
