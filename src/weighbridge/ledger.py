"""The waist: every model and every checkpoint becomes rows of this one kind, and every answer is a fold over them."""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """One tensor, expected or found.

    ``count`` is the number of its elements; ``parameters`` is what it adds to the unique parameters of its class: the
    same, or 0 for a tied tensor (``tied_to`` names the row that holds the weight) and for a buffer.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    role: str
    dims: tuple[str, ...]
    count: int
    parameters: int
    tied_to: str | None = None
