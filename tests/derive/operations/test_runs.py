"""What is recorded of a run does not depend on the values that the class computes."""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING

import pytest
import torch

from weighbridge.blueprint.schema import load
from weighbridge.derive.operations import recording
from weighbridge.derive.operations.costing import main_class
from weighbridge.derive.operations.drafting import Drafting
from weighbridge.derive.operations.draws import Draws
from weighbridge.derive.operations.reading import PROFILE_OF_PRODUCTS
from weighbridge.derive.operations.runs import (
    CACHE,
    CHECKPOINT,
    TRAIN,
    RunMode,
    RunNeeds,
    recorded_run,
)
from weighbridge.derive.probing.reference import FamilySubject

if TYPE_CHECKING:
    from weighbridge.derive.operations.runs import RecordedByKind


def _recorded(family: str, profile: str, needs: RunNeeds) -> list[RecordedByKind]:
    """Return what two draws of a family record, in BF16 and F32, in every mode."""
    subject = FamilySubject(family)
    class_name = main_class(load(family))
    subject.check_class(class_name)
    draws = Draws(subject, load(family)).unlike(random.Random(family), 3)  # noqa: S311
    recorded = []
    for draw in itertools.islice(draws, 2):
        for mode, dtype in itertools.product((TRAIN, CHECKPOINT, CACHE), ("BF16", "F32")):
            setting = RunMode(mode, profile, dtype, training=mode != CACHE)
            torch.manual_seed(0)
            recorded.append(recorded_run(subject, class_name, draw, setting, needs=needs))
    return recorded


@pytest.mark.parametrize(
    ("family", "profile"),
    [
        *itertools.product(("phi", "qwen3_moe", "bert", "lfm2"), ("cpu", "cpu-eager")),
        ("mamba2", "cpu-eager"),  # it has no attention
    ],
)
def test_a_run_without_values_records_what_a_run_with_torchs_own_products_does(
    family: str, profile: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = _recorded(family, profile, RunNeeds(values=False))
    rounded = _recorded(family, profile, RunNeeds())
    monkeypatch.setattr(recording, "_OF_MATRICES", frozenset())
    usual = _recorded(family, profile, RunNeeds())
    assert without == rounded == usual
    assert all(run for run in usual[:2])


@pytest.mark.parametrize(("family", "profile"), [("bert", "cpu-eager"), ("phi", "cuda-eager")])
def test_a_module_that_ran_before_records_what_a_new_one_does(family: str, profile: str) -> None:
    subject, class_name = FamilySubject(family), main_class(load(family))
    subject.check_class(class_name)
    draws = Draws(subject, load(family))
    drafting = Drafting(draws, class_name, random.Random(family))  # noqa: S311
    dropouts = [tuple(dict.fromkeys(drafting.dropouts, value).items()) for value in (0.0, 0.1)]
    needs = RunNeeds(values=False, products=profile == PROFILE_OF_PRODUCTS)
    edges = [(), (("batch", 1),), (("sequence", 5),), (("batch", 2),)]
    for edge, changes in itertools.product(edges, dropouts):
        setting = RunMode(TRAIN, profile, "BF16", changes=changes, edge=edge)
        draw = drafting.draws[0]
        new = recorded_run(subject, class_name, draw, setting, needs=needs)
        assert drafting._run(draw, setting) == new


def test_a_run_without_products_saves_the_same_without_going_back() -> None:
    whole = _recorded("bert", "cpu-eager", RunNeeds())
    short = _recorded("bert", "cpu-eager", RunNeeds(products=False))
    assert not any(run.keys() & {"forward", "backward", "recomputed"} for run in short)
    assert sum(bool(run.keys() & {"backward", "recomputed"}) for run in whole) == 8
    for usual, found in zip(whole, short, strict=True):
        assert all(usual[kind] == found[kind] for kind in found)


@pytest.mark.parametrize("name", ["mm", "bmm", "addmm", "baddbmm"])
@pytest.mark.parametrize("is_transposed", [False, True])
def test_a_product_in_bf16_is_torchs_own_but_for_rounding(
    name: str, *, is_transposed: bool
) -> None:
    torch.manual_seed(0)
    batch = (3,) if "b" in name else ()
    left, right = torch.randn(*batch, 5, 64).bfloat16(), torch.randn(*batch, 64, 7).bfloat16()
    if is_transposed:
        right = right.mT.contiguous().mT
    factors = (torch.randn(7).bfloat16(), left, right) if "add" in name else (left, right)
    usual = getattr(torch, name)(*factors)
    with recording.Recorder(torch.nn.Identity()).running():
        found = getattr(torch, name)(*factors)
    with recording.Recorder(torch.nn.Identity(), computes=False).running():
        zeros = getattr(torch, name)(*factors)
    for result in (found, zeros):
        assert (result.dtype, result.shape) == (usual.dtype, usual.shape)
        assert result.stride() == usual.stride()
    torch.testing.assert_close(found, usual)
    assert usual.any()
    assert not zeros.any()
