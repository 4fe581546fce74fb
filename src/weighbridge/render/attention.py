"""Who looks at whom: the attention probabilities of a text, for the pictures of them."""

from __future__ import annotations

import re
from typing import NamedTuple

from weighbridge.errors import printable, shorten

MOST_DRAWN = 64  # tokens; the labels of more cannot be read
_LONGEST_NAME = 36


class Attention(NamedTuple):
    """The attention of layers and heads to a text.

    ``probabilities[layer, head][row][column]`` is how much the token of the row looks at that of
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
        """What the model is called: the last piece of its path, or its address on the hub."""
        name = self.where.removeprefix("hf://")
        if name == self.where:
            for piece in re.split(r"[\\/]", self.where):
                if piece.strip("."):
                    name = piece
        return shorten(name, str, _LONGEST_NAME)

    @property
    def layers(self) -> list[int]:
        """The layers that there are maps of."""
        return sorted({layer for layer, _ in self.probabilities})

    @property
    def heads(self) -> list[int]:
        """The heads that there are maps of, in each layer."""
        return sorted({head for _, head in self.probabilities})

    @property
    def drawn(self) -> int:
        """How many tokens are drawn."""
        return min(len(self.tokens), MOST_DRAWN)

    @property
    def labels(self) -> list[str]:
        """The tokens that are drawn, printable."""
        return [printable(token) for token in self.tokens[: self.drawn]]

    def map(self, layer: int, head: int) -> list[list[float]]:
        """Return what is drawn of a head."""
        return [row[: self.drawn] for row in self.probabilities[layer, head][: self.drawn]]
