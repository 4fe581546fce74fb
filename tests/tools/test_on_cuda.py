"""What a CUDA device gave is kept, and what is predicted now is still that."""

from __future__ import annotations

import re
from typing import Any

import on_cuda
import pytest

import weighbridge as wb

FIGURES = on_cuda.figures()
WRONG = [case for of in FIGURES["attacks"].values() for case in of["wrong"]]


@pytest.mark.parametrize("row", FIGURES["measured"], ids=lambda row: row["command"])
def test_a_whole_model_costs_what_it_took_on_the_device(row: dict[str, Any]) -> None:
    now = on_cuda.predicted(row)
    assert {name: row["measured"][name] for name in now} == now


def test_every_run_of_the_list_was_measured() -> None:
    listed = on_cuda.tomllib.loads(on_cuda.RUNS_OF_MEASURE.read_text(encoding="utf-8"))["runs"]
    measured = [row["command"] for row in FIGURES["measured"]]
    assert len(measured) >= 16
    assert set(measured) <= {row["command"] for row in listed}


@pytest.mark.parametrize("case", WRONG, ids=lambda case: str(sorted(case["config"].items())))
def test_what_the_device_showed_to_be_wrong_is_mended(case: dict[str, Any]) -> None:
    sizes = re.fullmatch(
        r"saved_bytes of RunSizes\(batch=(\d+), sequence=(\d+), .*", case["reason"]
    )
    assert sizes
    batch, sequence = map(int, sizes.groups())
    found = wb.cost(
        case["config"],
        case["class_name"],
        batch=batch,
        sequence=sequence,
        train=True,
        profile="cuda-flash",
        dtype="bf16",
    )
    assert found.saved_for_backward_bytes == case["reference"] != case["ours"]


def test_nothing_else_differed() -> None:
    assert list(on_cuda.differing({**FIGURES, "attacks": {}})) == []
    assert all(of.get("cases") != 0 for of in FIGURES["kernels"].values())


def test_each_part_that_differs_is_said() -> None:
    proof = {"classes": 1, "agree": 0, "differ": {"BertModel": "saved of it"}}
    row = FIGURES["measured"][0]
    measured = {**row["measured"], "saved_for_backward_bytes": 7}
    parts: dict[str, Any] = {
        "kernels": {"cuda-math": {"cases": 1, "differ": {"a case": {}}}, "preferred": {"b": {}}},
        "proofs": {"cuda-eager": proof},
        "attacks": {"cuda-flash": {"wrong": [WRONG[0]]}},
        "measured": [{**row, "measured": measured}, {"command": "bert", "refused": "no memory"}],
    }
    said = list(on_cuda.differing(parts))
    assert [line.partition(":")[0] for line in said[:3]] == [
        "cuda-math",
        "cuda-eager",
        "cuda-flash",
    ]
    assert "'saved_for_backward_bytes': 7" in said[3]
    assert said[4] == "bert: no memory"
    assert len(said) == 5
