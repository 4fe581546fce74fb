"""The numbers of one token on its way through one layer, for a page that explains them."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from weighbridge.render.attention import name_of

Vector: TypeAlias = tuple[float, ...]


class Linear(NamedTuple):
    """A matrix product with a bias: ``result[i]`` is ``given · weight[i] + bias[i]``.

    Only one row of the weight is kept, as an example: ``row`` is ``weight[at]``, and ``bias`` the
    number added there. ``name`` is the module's, and ``shape`` that of its weight, [to, from].
    """

    name: str
    shape: tuple[int, int]
    result: Vector
    at: int
    row: Vector
    bias: float


class Norm(NamedTuple):
    """A LayerNorm: ``(given - mean) / deviation · weight + bias``.

    ``deviation`` is the square root of the variance plus ε.
    """

    name: str
    given: Vector
    mean: float
    deviation: float
    weight: Vector
    bias: Vector
    result: Vector


class HeadPath(NamedTuple):
    """One head: a query of D numbers, and a key and a value of D numbers for each token.

    ``products`` are the query times each key, ``scores`` these over √D, ``probabilities`` the
    softmax of the scores, and ``mixed`` the sum of the values, weighted by the probabilities. A
    token that a decoder must not see has the score -inf.
    """

    query: Linear
    key: Linear
    value: Linear
    keys: tuple[Vector, ...]
    values: tuple[Vector, ...]
    products: Vector
    scores: Vector
    probabilities: Vector
    mixed: Vector


class Embedded(NamedTuple):
    """The three embeddings of a token and the norm of their sum.

    ``tables`` has the name, the shape and the row that was taken from each.
    """

    tables: tuple[tuple[str, tuple[int, int], int], ...]
    rows: tuple[Vector, ...]
    norm: Norm


class TokenPath(NamedTuple):
    """One token on its way through one layer.

    Each of ``tokens`` is a token and its id; the token at ``place`` is followed. ``entered`` is its
    vector before the layer, and ``head`` the head to show first. ``joined`` are the results of all
    heads side by side; each residual is what enters the norm after it.
    """

    where: str
    class_name: str
    texts: tuple[str, ...]
    tokens: tuple[tuple[str, int], ...]
    place: int
    layer: int
    layers: int
    head: int
    activation: str
    embedded: Embedded
    entered: Vector
    heads: tuple[HeadPath, ...]
    joined: Vector
    output: Linear
    attended: Norm
    up: Linear
    activated: Vector
    down: Linear
    left: Norm
    notes: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name of the model; see `weighbridge.render.attention.name_of`."""
        return name_of(self.where)

    def page(self, lang: str = "en") -> str:
        """Write it as a self-contained HTML page.

        Raises:
            UsageError: the language is unknown.
        """
        from weighbridge.render.token_page import token_page  # noqa: PLC0415  # it reads this

        return token_page(self, lang)

    def _repr_html_(self) -> str:
        """Return the page in a frame, for a notebook."""
        from weighbridge.render.frame import framed  # noqa: PLC0415  # only a notebook asks for it

        return framed(self.page(), self.name)
