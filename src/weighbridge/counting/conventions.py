"""The rules by which people count parameters.

Each is one function over rows; their words are `facts/conventions.toml`.

A row stands here for all layers in which it is alike, so that a count costs the same for 12 layers
and for 120.
"""

from __future__ import annotations

import re
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge import data
from weighbridge.algebra.expr import evaluate, parse
from weighbridge.blueprint.roles import role_of
from weighbridge.errors import ExpressionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from weighbridge.ledger.ledger import Ledger
    from weighbridge.ledger.rows import Row as StoredRow
    from weighbridge.readers import Found


class Row(NamedTuple):
    """A tensor in all places where it is alike; ``active`` are its elements that one token meets.

    A tensor of several shapes has a row for each, so that ``at``, and not its name, tells rows
    apart. ``words`` are the elements that a file stores of a packed tensor, where these are others
    than it stands for.
    """

    name: str
    role: str
    shape: tuple[int, ...]
    dims: tuple[str, ...]
    places: int
    active: int
    tied: bool = False
    buffer: bool = False
    at: int = 0
    words: int = 0

    @property
    def elements(self) -> int:
        """Its elements, of all places."""
        return prod(self.shape) * self.places


Rows = tuple[Row, ...]


def rows_of(ledger: Ledger) -> Rows:
    """Return the rows of a class, its tied tensors and its buffers among them.

    Example:
        >>> from weighbridge.blueprint.schema import load
        >>> from weighbridge.ledger.ledger import bind
        >>> bert = load("bert")
        >>> rows = rows_of(bind(bert, "BertModel", {**bert.defaults, "num_labels": 2}))
        >>> rows[0].name, rows[0].elements, count(rows)
        ('embeddings.word_embeddings.weight', 23440896, 109482240)
    """
    parameters = (
        Row(
            name=entry.template.name,
            role=entry.template.role,
            shape=entry.shape,
            dims=entry.template.dims,
            places=len(entry.indices),
            active=ledger.active_of(entry),
            tied=entry.tied,
        )
        for entry in ledger.entries
    )
    buffers = (Row(row.name, "", row.shape, (), 1, 0, buffer=True) for row in ledger.buffers())
    return tuple(row._replace(at=at) for at, row in enumerate((*parameters, *buffers)))


def rows_of_checkpoint(found: Found) -> Rows:
    """Return the rows of what files hold: packed weights as what they stand for, and scales and constants as buffers.

    A header does not tell which tensors are another one.
    """
    alike: dict[tuple[object, ...], list[StoredRow]] = {}
    for row in found.rows:
        if not row.tied_to:
            alike.setdefault(
                (_INDEX.sub("*", row.name), row.shape, row.dtype, row.parameters), []
            ).append(row)
    return tuple(_stored(rows, found, at) for at, rows in enumerate(alike.values()))


_INDEX = re.compile(r"(?<=\.)\d+(?=\.)")
_NO_WEIGHTS = ("I64", "I32", "BOOL")


def _stored(rows: Sequence[StoredRow], found: Found, at: int) -> Row:
    row = rows[0]
    packed, name = found.packed.get(row.name), _INDEX.sub("*", found.called.get(row.name, row.name))
    shape = packed.shape or (row.parameters,) if packed else row.shape
    is_buffer = bool(row.role) or (packed is None and row.dtype in _NO_WEIGHTS)
    role = row.role or ("" if is_buffer else role_of(name))
    return Row(
        name=name,
        role=role,
        shape=shape,
        dims=(),
        places=len(rows),
        active=0 if is_buffer else row.parameters * len(rows),
        buffer=is_buffer,
        at=at,
        words=row.count * len(rows) if packed else 0,
    )


def count(rows: Rows) -> int:
    """Return the unique parameters: no tied tensor a second time, and no buffer."""
    return sum(row.elements for row in rows if not row.tied and not row.buffer)


# What is left out


def pooler(rows: Rows) -> Iterator[Row]:
    """Yield the tensors of the pooler."""
    return _of_roles(rows, "pooler")


def linear_biases(rows: Rows) -> Iterator[Row]:
    """Yield the biases of linear layers: of those that have a matrix too."""
    matrices = {
        row.name.rpartition(".")[0]
        for row in rows
        if len(row.shape) > 1 and row.name.endswith(".weight")
    }
    return (
        row
        for row in rows
        if row.name.endswith(".bias") and row.name.rpartition(".")[0] in matrices
    )


def norms(rows: Rows) -> Iterator[Row]:
    """Yield the scales and shifts of all norms."""
    return (row for row in rows if any(piece.endswith("norm") for piece in row.role.split(".")))


def embedding_norm(rows: Rows) -> Iterator[Row]:
    """Yield the norm that follows the embeddings."""
    return _of_roles(rows, "embedding.norm")


def embeddings(rows: Rows) -> Iterator[Row]:
    """Yield all embeddings and their norm."""
    return _of_roles(rows, "embedding")


def token_embedding(rows: Rows) -> Iterator[Row]:
    """Yield the token embedding."""
    return _of_roles(rows, "embedding.token")


def position_embedding(rows: Rows) -> Iterator[Row]:
    """Yield the position embeddings."""
    return _of_roles(rows, "embedding.position")


def segment_embedding(rows: Rows) -> Iterator[Row]:
    """Yield the segment embeddings."""
    return _of_roles(rows, "embedding.segment")


def heads(rows: Rows) -> Iterator[Row]:
    """Yield what task classes add: all heads."""
    return _of_roles(rows, "head")


def decoder_bias(rows: Rows) -> Iterator[Row]:
    """Yield the bias of the decoder, one for each word of the vocabulary."""
    return (row for row in rows if row.role in _DECODERS and row.name.endswith("bias"))


_DECODERS = ("head.mlm.bias", "head.mlm.decoder", "head.lm")


def router(rows: Rows) -> Iterator[Row]:
    """Yield what sends tokens to experts."""
    return _of_roles(rows, "router")


def shared_experts(rows: Rows) -> Iterator[Row]:
    """Yield the experts that every token meets."""
    return _of_roles(rows, "shared_expert")


def _of_roles(rows: Rows, *roles: str) -> Iterator[Row]:
    return (row for row in rows if any(f"{row.role}.".startswith(f"{role}.") for role in roles))


WITHOUT: dict[str, Callable[[Rows], Iterable[Row]]] = {
    "pooler": pooler,
    "linear_biases": linear_biases,
    "norms": norms,
    "embedding_norm": embedding_norm,
    "embeddings": embeddings,
    "token_embedding": token_embedding,
    "position_embedding": position_embedding,
    "segment_embedding": segment_embedding,
    "heads": heads,
    "decoder_bias": decoder_bias,
    "router": router,
    "shared_experts": shared_experts,
}
"""What may be left out, by name."""


# What is counted besides


def tied_twice(rows: Rows) -> Iterator[Row]:
    """Yield the tensors that are another one."""
    return (row for row in rows if row.tied)


def buffers(rows: Rows) -> Iterator[Row]:
    """Yield the tensors that are saved and not trained."""
    return (row for row in rows if row.buffer and not row.role.startswith("quantization"))


def quantization(rows: Rows) -> Iterator[Row]:
    """Yield the scales, zeros, indices and tables that stand beside packed weights."""
    return _of_roles(rows, "quantization")


WITH: dict[str, Callable[[Rows], Iterable[Row]]] = {
    "tied_twice": tied_twice,
    "buffers": buffers,
    "quantization": quantization,
}
"""What may be counted besides, by name."""


# What is counted in place of something


def padded(rows: Rows, multiple: int) -> dict[int, int]:
    """Return how many elements more each row has if the vocabulary is padded to a multiple.

    Example:
        >>> padded((Row("w", "embedding.token", (50257, 768), ("vocab_size", "n_embd"), 1, 0),), 128)
        {0: 36096}
    """
    tables = [row for row in rows if row.role == "embedding.token" and row.dims]
    if not tables:
        return {}
    dim, size = tables[0].dims[0], tables[0].shape[0]
    more = -size % multiple
    return {row.at: row.elements // size * more for row in rows if more and dim in row.dims}


def letters(rows: Rows) -> dict[str, int]:
    """Return the sizes that formulas speak of, as the rows' own shapes give them."""
    found: dict[str, int] = {}
    for letter, role, axis in _LETTERS:
        for row in rows:
            if row.role == role and len(row.shape) > 1 and letter not in found:
                found[letter] = row.places if axis is None else row.shape[axis]
    return found


_LETTERS: Sequence[tuple[str, str, int | None]] = (
    ("V", "embedding.token", 0),
    ("P", "embedding.position", 0),
    ("T", "embedding.segment", 0),
    ("H", "embedding.token", 1),
    ("L", "attention.output", None),
    ("A", "attention.output", 1),
    ("F", "ffn.down", 1),
)


def formula(rows: Rows, text: str) -> int | None:
    """Return what a formula over letters comes to; None where the model lacks one of them."""
    try:
        return int(evaluate(parse(text), letters(rows)))
    except ExpressionError:
        return None


def lora(rows: Rows, rank: int, roles: Sequence[str]) -> int:
    """Return what LoRA trains: for each matrix of these roles two of this rank.

    Example:
        >>> lora((Row("q", "attention.query", (768, 768), (), 12, 0),), 8, ["attention.query"])
        147456
    """
    matrices = [
        row for row in _of_roles(rows, *roles) if len(row.shape) == _MATRIX and not row.tied
    ]
    return sum(rank * sum(row.shape) * row.places for row in matrices)


_MATRIX = 2  # dims


def table() -> Mapping[str, Any]:
    """Return what is said of each convention, by name, in the order of simplicity."""
    return data.read_toml("facts/conventions.toml")
