"""The attention probabilities of a text, for pictures of them."""

from __future__ import annotations

import re
from typing import NamedTuple

from weighbridge.errors import printable, shorten

MOST_DRAWN = 64  # tokens; with more, the labels would be unreadable
_LONGEST_NAME = 36


class Attention(NamedTuple):
    """The attention of layers and heads for a text.

    ``probabilities[layer, head][row][column]`` is how much the token of the row attends to that of
    the column; a row adds up to 1.

    Example:
        >>> maps = {(0, 1): [[0.5, 0.5], [1, 0]]}
        >>> attention = Attention("models/tiny/", "BertModel", ("no",), ("[CLS]", "no"), maps, ())
        >>> attention.name, attention.layers, attention.heads, attention.drawn
        ('tiny', [0], [1], 2)
    """

    where: str
    class_name: str
    texts: tuple[str, ...]
    tokens: tuple[str, ...]
    probabilities: dict[tuple[int, int], list[list[float]]]
    notes: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name of the model: the last piece of its path, or its address on the hub."""
        name = self.where.removeprefix("hf://")
        if name == self.where:
            for piece in re.split(r"[\\/]", self.where):
                if piece.strip("."):
                    name = piece
        return shorten(name, str, _LONGEST_NAME)

    @property
    def layers(self) -> list[int]:
        """The layers with maps."""
        return sorted({layer for layer, _ in self.probabilities})

    @property
    def heads(self) -> list[int]:
        """The heads with maps, in each layer."""
        return sorted({head for _, head in self.probabilities})

    @property
    def drawn(self) -> int:
        """The number of tokens that are drawn."""
        return min(len(self.tokens), MOST_DRAWN)

    @property
    def labels(self) -> list[str]:
        """The drawn tokens, as printable text."""
        return [printable(token) for token in self.tokens[: self.drawn]]

    def map(self, layer: int, head: int) -> list[list[float]]:
        """Return the drawn part of a head's map."""
        return [row[: self.drawn] for row in self.probabilities[layer, head][: self.drawn]]
