"""Who looks at whom: the attention probabilities of a text, for the pictures of them."""

from __future__ import annotations

from typing import NamedTuple


class Attention(NamedTuple):
    """The attention of every layer and head to a text.

    ``probabilities[layer][head][row][column]`` is how much the token of the row looks at that of the column; a row adds
    up to 1.
    """

    where: str
    class_name: str
    texts: tuple[str, ...]
    tokens: tuple[str, ...]
    probabilities: tuple[tuple[list[list[float]], ...], ...]
    notes: tuple[str, ...]
