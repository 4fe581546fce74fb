"""How good a classifier is on texts that it was not trained on, as scikit-learn counts it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from sklearn.metrics import accuracy_score, confusion_matrix, precision_recall_fscore_support
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor


def scores(logits: Tensor, truth: Sequence[int], labels: Sequence[str]) -> dict[str, Any]:
    """Hold the scores of texts (texts, classes) against what they are.

    What has no value, as the precision of a class that was never said, is 0.

    Example:
        >>> found = scores(torch.tensor([[2.0, 0.0], [2.0, 0.0], [0.0, 2.0]]), [0, 1, 1], ("no", "yes"))
        >>> round(found["accuracy"], 3), found["confusion"], found["classes"]["yes"]["precision"]
        (0.667, [[1, 0], [1, 1]], 1.0)
    """
    said = logits.argmax(1).tolist()
    places = list(range(len(labels)))
    by_class = precision_recall_fscore_support(truth, said, labels=places, zero_division=0)
    mean = precision_recall_fscore_support(
        truth, said, labels=places, average="macro", zero_division=0
    )
    names = ("precision", "recall", "f1")
    classes = {
        name: {
            **{of: float(by_class[at][place]) for at, of in enumerate(names)},
            "texts": int(by_class[3][place]),
        }
        for place, name in enumerate(labels)
    }
    return {
        "texts": len(truth),
        "loss": float(functional.cross_entropy(logits.double(), torch.tensor(truth))),
        "accuracy": float(accuracy_score(truth, said)),
        **{of: float(mean[at]) for at, of in enumerate(names)},
        "classes": classes,
        "confusion": confusion_matrix(truth, said, labels=places).tolist(),
    }
