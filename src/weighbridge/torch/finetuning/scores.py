"""The quality of a classifier on held-out texts, with the metrics of scikit-learn."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import torch
from sklearn.metrics import accuracy_score, confusion_matrix, precision_recall_fscore_support
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor


def scores(logits: Tensor, truth: Sequence[int], labels: Sequence[str]) -> dict[str, Any]:
    """Compare the scores of texts (texts, classes) with their true classes.

    A metric without a value, such as the precision of a class that was never predicted, is 0. The
    mean precision, recall and F1 are over the classes that have texts here: without any, a class
    cannot be found. ``majority`` is the most frequent class and its share of the texts, which is
    the accuracy of always predicting it.

    Example:
        >>> logits = torch.tensor([[2.0, 0.0], [2.0, 0.0], [0.0, 2.0]])
        >>> result = scores(logits, [0, 1, 1], ("no", "yes"))
        >>> round(result["accuracy"], 3), result["confusion"], result["classes"]["yes"]["precision"]
        (0.667, [[1, 0], [1, 1]], 1.0)
    """
    predicted = logits.argmax(1).tolist()
    numbers = list(range(len(labels)))
    by_class = precision_recall_fscore_support(truth, predicted, labels=numbers, zero_division=0)
    present = sorted(set(truth))
    mean = precision_recall_fscore_support(
        truth, predicted, labels=present, average="macro", zero_division=0
    )
    most_frequent, count = Counter(truth).most_common(1)[0]
    classes = {}
    for number, label in enumerate(labels):
        classes[label] = {
            "precision": float(by_class[0][number]),
            "recall": float(by_class[1][number]),
            "f1": float(by_class[2][number]),
            "texts": int(by_class[3][number]),
        }
    return {
        "texts": len(truth),
        "loss": float(functional.cross_entropy(logits.double(), torch.tensor(truth))),
        "accuracy": float(accuracy_score(truth, predicted)),
        "majority": {"label": labels[most_frequent], "share": count / len(truth)},
        "precision": float(mean[0]),
        "recall": float(mean[1]),
        "f1": float(mean[2]),
        "classes": classes,
        "confusion": confusion_matrix(truth, predicted, labels=numbers).tolist(),
    }
