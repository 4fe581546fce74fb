"""Scores say what they are over, and what always predicting one class would score."""

from __future__ import annotations

import pytest
import torch

from weighbridge.torch.finetuning.scores import scores

LABELS = ("bad", "so so", "good")


def of(truth: list[int], predicted: list[int]):
    return scores(torch.nn.functional.one_hot(torch.tensor(predicted), 3).float(), truth, LABELS)


def test_the_mean_f1_is_over_the_classes_with_texts() -> None:
    found = of([0, 0, 2, 2], [0, 0, 2, 2])
    assert found["f1"] == found["precision"] == found["recall"] == 1
    assert found["classes"]["so so"] == {"precision": 0, "recall": 0, "f1": 0, "texts": 0}
    missed = of([0, 0, 2, 2], [0, 1, 2, 2])
    assert missed["f1"] == pytest.approx((2 / 3 + 1) / 2)


def test_the_majority_is_that_of_the_held_out_texts() -> None:
    found = of([2, 2, 0, 2], [2, 2, 2, 2])
    assert found["majority"] == {"label": "good", "share": 0.75}
    assert found["accuracy"] == found["majority"]["share"]
    assert found["f1"] == pytest.approx((6 / 7 + 0) / 2)
