"""The class of a module that a blueprint gives several classes, by the weight that it holds."""

from __future__ import annotations

_DIMS = {"Linear": 2, "Conv1D": 2, "Embedding": 2, "Conv1d": 3, "Conv2d": 4, "Conv3d": 5}
"""The dims of the weight of a class, by the end of its name."""


def class_with_weight(classes: str, dims: int) -> str:
    """Return the class of a module whose weight has this many dims.

    ``classes`` are those that the module may have, as a blueprint lists them. If none of several
    is known to hold such a weight, all are returned.

    Example:
        >>> class_with_weight("Linear | Conv2d", 2), class_with_weight("Linear | Conv2d", 4)
        ('Linear', 'Conv2d')
        >>> class_with_weight("Linear | ClassificationHead", 3)
        'Linear | ClassificationHead'
    """
    for name in classes.split(" | "):
        if any(name.endswith(ending) and _DIMS[ending] == dims for ending in _DIMS):
            return name
    return classes
