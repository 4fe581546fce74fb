"""The attention probabilities of a text, for pictures of them."""

from __future__ import annotations

import re
from typing import NamedTuple, TypeAlias

from weighbridge.errors import printable, shorten

MEAN = "mean"
Place: TypeAlias = int | str
"""A layer or a head by its number, or `MEAN`."""
MOST_DRAWN = 64  # tokens; with more, the labels would be unreadable
_ENDS = frozenset(".!?。！？…")
_AFTER_END = frozenset((*_ENDS, *"\"'”’」』)）", "[SEP]"))  # these belong to the sentence before
_LONGEST_NAME = 36


class Attention(NamedTuple):
    """The attention of layers and heads for a text.

    ``probabilities[layer, head][row][column]`` is how much the token of the row attends to that of
    the column; a row adds up to 1. In the mean of layers or heads, the layer or head is ``MEAN``,
    and ``averaged`` the numbers of layers and heads of the model. Of a long text, the tokens from
    position ``first`` on are drawn.

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
    probabilities: dict[tuple[Place, Place], list[list[float]]]
    notes: tuple[str, ...]
    first: int = 0
    most: int = MOST_DRAWN
    averaged: tuple[int, int] = (1, 1)

    @property
    def name(self) -> str:
        """The name of the model; see `name_of`."""
        return name_of(self.where)

    @property
    def layers(self) -> list[Place]:
        """The layers with maps."""
        return list(dict.fromkeys(layer for layer, _ in self.probabilities))

    @property
    def heads(self) -> list[Place]:
        """The heads with maps, in each layer."""
        return list(dict.fromkeys(head for _, head in self.probabilities))

    @property
    def drawn(self) -> int:
        """The number of tokens that are drawn."""
        return min(len(self.tokens) - self.first, self.most)

    @property
    def last(self) -> int:
        """The position of the last token that is drawn."""
        return self.first + self.drawn - 1

    @property
    def labels(self) -> list[str]:
        """The drawn tokens, as printable text."""
        return [printable(token) for token in self.tokens[self.first : self.last + 1]]

    def map(self, layer: Place, head: Place) -> list[list[float]]:
        """Return the drawn part of a head's map."""
        drawn = slice(self.first, self.last + 1)
        return [row[drawn] for row in self.probabilities[layer, head][drawn]]

    @property
    def sentences(self) -> list[int]:
        """The sentence of each token, numbered from 1; it ends at [SEP] or its last mark.

        Example:
            >>> tokens = ("[CLS]", "no", ".", "yes", "!", "[SEP]", "3", ".", "5", "[SEP]")
            >>> Attention("m", "BertModel", ("t",), tokens, {}, ()).sentences
            [1, 1, 1, 2, 2, 2, 3, 3, 3, 3]
        """
        numbers, number = [], 1
        for token, after in zip(self.tokens, (*self.tokens[1:], ""), strict=True):
            numbers.append(number)
            is_last = token in _ENDS and after not in _AFTER_END and not after.isdigit()
            number += token == "[SEP]" or is_last
        return numbers

    def html(self, lang: str = "en") -> str:
        """Write it as a self-contained HTML page.

        Raises:
            UsageError: the language is unknown.
        """
        from weighbridge.render.drawing import draw  # noqa: PLC0415  # it reads this

        return draw(self, "html", lang)[0].decode()

    def _repr_html_(self) -> str:
        """Return the page in a frame, for a notebook; below it, a picture for where none is run."""
        from weighbridge.render.drawing import draw  # noqa: PLC0415  # only a notebook asks for it
        from weighbridge.render.frame import framed, opening  # noqa: PLC0415

        picture = draw(self, "svg")[0]
        return framed(self.html(), self.name, opening("SVG", picture))


def name_of(where: str) -> str:
    """Return the name of a model: the last piece of its path, or its address on the hub.

    Example:
        >>> name_of("models/tiny/"), name_of("hf://org/tiny")
        ('tiny', 'org/tiny')
    """
    name = where.removeprefix("hf://")
    if name == where:
        for piece in re.split(r"[\\/]", where):
            if piece.strip("."):
                name = piece
    return shorten(name, str, _LONGEST_NAME)
