"""The rules by which people count parameters.

Each convention is one function over rows. `facts/conventions.toml` describes them in words.

A row stands for a tensor in all layers that have it in the same shape: counting 120 layers costs no
more than counting 12.
"""

from __future__ import annotations

import re
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge import data
from weighbridge.algebra.expr import evaluate, parse
from weighbridge.blueprint.roles import role_of
from weighbridge.counting.beside import tensors_beside
from weighbridge.errors import ExpressionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from weighbridge.ledger.ledger import Ledger
    from weighbridge.ledger.rows import Row
    from weighbridge.readers import StoredCheckpoint


class CountedRow(NamedTuple):
    """A tensor in all ``places`` that have it in the same shape.

    A tensor with several shapes has a row for each, so rows are identified by ``at``, not by name.
    ``active`` is the number of elements that one token uses, and ``words`` the number of stored
    elements of a packed tensor. ``beside`` is the only convention that counts the row, if the class
    does not have the tensor.
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
    beside: str = ""

    @property
    def elements(self) -> int:
        """The elements in all places."""
        return prod(self.shape) * self.places


Rows = tuple[CountedRow, ...]


def rows_of(ledger: Ledger, given: Mapping[str, Any] | None = None) -> Rows:
    """Return the rows of a class, including tied tensors, buffers, and what people count besides.

    ``given`` is the config with fields that change no shape of the class.

    Example:
        >>> from weighbridge.blueprint.schema import load
        >>> from weighbridge.ledger.ledger import bind
        >>> bert = load("bert")
        >>> rows = rows_of(bind(bert, "BertModel", {**bert.defaults, "num_labels": 2}))
        >>> rows[0].name, rows[0].elements, unique_parameters(rows)
        ('embeddings.word_embeddings.weight', 23440896, 109482240)
    """
    parameters = (
        CountedRow(
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
    buffers = (
        CountedRow(row.name, "", row.shape, (), 1, 0, buffer=True) for row in ledger.buffers()
    )
    others = (
        CountedRow(
            name=tensor.convention,
            role=tensor.role,
            shape=(tensor.elements,),
            dims=(),
            places=tensor.places,
            active=0,
            buffer=True,
            beside=tensor.convention,
        )
        for tensor in tensors_beside(ledger, given or {})
    )
    return tuple(row._replace(at=at) for at, row in enumerate((*parameters, *buffers, *others)))


def rows_of_checkpoint(found: StoredCheckpoint) -> Rows:
    """Return the rows of a checkpoint: packed weights unpacked, scales and constants as buffers.

    No tensor is tied: a header does not state ties.
    """
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in found.rows:
        if not row.tied_to:
            key = (_INDEX.sub("*", row.name), row.shape, row.dtype, row.parameters)
            groups.setdefault(key, []).append(row)
    return tuple(_stored(rows, found, at) for at, rows in enumerate(groups.values()))


_INDEX = re.compile(r"(?<=\.)\d+(?=\.)")
_NO_WEIGHTS = ("I64", "I32", "BOOL")


def _stored(rows: Sequence[Row], found: StoredCheckpoint, at: int) -> CountedRow:
    """Return the row of stored tensors that are alike."""
    row, places = rows[0], len(rows)
    packed = found.packed.get(row.name)
    name = _INDEX.sub("*", found.called.get(row.name, row.name))
    counted = CountedRow(name, row.role, row.shape, (), places, active=0, at=at)
    if packed:
        shape = packed.shape or (row.parameters,)
        counted = counted._replace(shape=shape, words=row.count * places)
    if row.role or (packed is None and row.dtype in _NO_WEIGHTS):
        return counted._replace(buffer=True)
    return counted._replace(role=role_of(name), active=row.parameters * places)


def unique_parameters(rows: Rows) -> int:
    """Return the number of unique parameters: no tied tensor a second time, and no buffer."""
    return sum(row.elements for row in rows if not row.tied and not row.buffer)


# What is left out


def pooler(rows: Rows) -> Iterator[CountedRow]:
    """Yield the tensors of the pooler."""
    return _of_roles(rows, "pooler")


def linear_biases(rows: Rows) -> Iterator[CountedRow]:
    """Yield the biases of linear layers, which have a matrix too."""
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


def norms(rows: Rows) -> Iterator[CountedRow]:
    """Yield the scales and shifts of all norms."""
    for row in rows:
        if any(piece.endswith("norm") for piece in row.role.split(".")):
            yield row


def embedding_norm(rows: Rows) -> Iterator[CountedRow]:
    """Yield the norm that follows the embeddings."""
    return _of_roles(rows, "embedding.norm")


def embeddings(rows: Rows) -> Iterator[CountedRow]:
    """Yield all embeddings and their norm."""
    return _of_roles(rows, "embedding")


def token_embedding(rows: Rows) -> Iterator[CountedRow]:
    """Yield the token embedding."""
    return _of_roles(rows, "embedding.token")


def position_embedding(rows: Rows) -> Iterator[CountedRow]:
    """Yield the position embeddings."""
    return _of_roles(rows, "embedding.position")


def segment_embedding(rows: Rows) -> Iterator[CountedRow]:
    """Yield the segment embeddings."""
    return _of_roles(rows, "embedding.segment")


def heads(rows: Rows) -> Iterator[CountedRow]:
    """Yield the heads that task classes add."""
    return _of_roles(rows, "head")


def decoder_bias(rows: Rows) -> Iterator[CountedRow]:
    """Yield the bias of the decoder, one for each word of the vocabulary."""
    return (row for row in rows if row.role in _DECODERS and row.name.endswith("bias"))


_DECODERS = ("head.mlm.bias", "head.mlm.decoder", "head.lm")


def router(rows: Rows) -> Iterator[CountedRow]:
    """Yield the routers, which send tokens to experts."""
    return _of_roles(rows, "router")


def shared_experts(rows: Rows) -> Iterator[CountedRow]:
    """Yield the experts that every token uses."""
    return _of_roles(rows, "shared_expert")


def vision(rows: Rows) -> Iterator[CountedRow]:
    """Yield the vision tower and its projector."""
    names = frozenset(table()["vision"]["names"])
    return (row for row in rows if not names.isdisjoint(row.name.split(".")))


def _of_roles(rows: Rows, *roles: str) -> Iterator[CountedRow]:
    prefixes = tuple(f"{role}." for role in roles)
    return (row for row in rows if f"{row.role}.".startswith(prefixes))


WITHOUT: dict[str, Callable[[Rows], Iterable[CountedRow]]] = {
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
    "vision": vision,
}
"""The tensors that a convention may leave out."""


# What is counted in addition


def tied_twice(rows: Rows) -> Iterator[CountedRow]:
    """Yield the tensors that are tied to another one."""
    return (row for row in rows if row.tied)


def output_head(rows: Rows) -> Iterator[CountedRow]:
    """Yield the matrix of an output head that is tied to the token embedding."""
    return (row for row in rows if row.tied and row.role.startswith("head."))


def buffers(rows: Rows) -> Iterator[CountedRow]:
    """Yield the tensors that are saved but not trained."""
    for row in rows:
        if row.buffer and not row.beside and not row.role.startswith("quantization"):
            yield row


def _named_buffers(convention: str, rows: Rows) -> Iterator[CountedRow]:
    """Yield the buffers of one kind, in the part of the model that the convention names."""
    entry = table()[convention]
    for row in buffers(rows):
        pieces = row.name.split(".")
        if pieces[-1] in entry["names"] and entry.get("part", pieces[0]) in pieces:
            yield row


def _beside(convention: str, rows: Rows) -> Iterator[CountedRow]:
    """Yield the tensors of one convention that the class does not have."""
    return (row for row in rows if row.beside == convention)


def quantization(rows: Rows) -> Iterator[CountedRow]:
    """Yield the scales, zeros, indices and tables beside packed weights."""
    return _of_roles(rows, "quantization")


_BUFFER_KINDS = (
    "position_ids",
    "vision_position_ids",
    "token_type_ids",
    "running_statistics",
    "router_biases",
)
BESIDE = (
    "fewer_positions",
    "fewer_words",
    "causal_masks",
    "rotary_frequencies",
    "predicting_layers",
    "sharing_layers",
    "second_positions",
    "added_pooler",
    "int8_scales",
    "block_scales",
)
"""The conventions that count tensors which the class does not have."""

WITH: dict[str, Callable[[Rows], Iterable[CountedRow]]] = {
    "tied_twice": tied_twice,
    "output_head": output_head,
    **{name: partial(_named_buffers, name) for name in _BUFFER_KINDS},
    "buffers": buffers,
    **{name: partial(_beside, name) for name in BESIDE},
    "quantization": quantization,
}
"""The tensors that a convention may count in addition, or the rows of a table that it drops."""

BUFFERS = frozenset((*_BUFFER_KINDS, "buffers", "causal_masks", "rotary_frequencies"))
"""The conventions whose tensors need not have the dtype of the parameters."""


# What is counted instead


def padded(rows: Rows, multiple: int) -> dict[int, int]:
    """Return the additional elements of each row if the vocabulary is padded to a multiple.

    Example:
        >>> dims = ("vocab_size", "n_embd")
        >>> padded((CountedRow("w", "embedding.token", (50257, 768), dims, 1, 0),), 128)
        {0: 36096}
    """
    tables = [row for row in rows if row.role == "embedding.token" and row.dims]
    if not tables:
        return {}
    dim, size = tables[0].dims[0], tables[0].shape[0]
    more = -size % multiple
    return {row.at: row.elements // size * more for row in rows if more and dim in row.dims}


def formula_letters(rows: Rows) -> dict[str, int]:
    """Return the sizes that formulas denote by letters, from the shapes of the rows."""
    sizes: dict[str, int] = {}
    for letter, role, axis in _LETTERS:
        for row in rows:
            if row.role != role or len(row.shape) <= 1 or letter in sizes:
                continue
            if axis is None:
                sizes[letter] = row.places
            else:
                sizes[letter] = row.shape[axis]
    return sizes


_LETTERS: Sequence[tuple[str, str, int | None]] = (
    ("V", "embedding.token", 0),
    ("P", "embedding.position", 0),
    ("T", "embedding.segment", 0),
    ("H", "embedding.token", 1),
    ("L", "attention.output", None),
    ("A", "attention.output", 1),
    ("F", "ffn.down", 1),
)


def formula_value(rows: Rows, entry: Mapping[str, Any]) -> int | None:
    """Return the value of a formula over letters; None if the formula does not fit the model.

    It does not fit if the model lacks one of the sizes, or has tensors of a role for which the
    formula has no term.
    """
    if "without" in entry and any(_of_roles(rows, entry["without"])):
        return None
    try:
        return int(evaluate(parse(entry["formula"]), formula_letters(rows)))
    except ExpressionError:
        return None


def lora_parameters(rows: Rows, rank: int, roles: Sequence[str]) -> int:
    """Return the number of parameters that LoRA trains: two matrices of this rank for each role.

    Example:
        >>> query = CountedRow("q", "attention.query", (768, 768), (), 12, 0)
        >>> lora_parameters((query,), 8, ["attention.query"])
        147456
    """
    matrices = [
        row for row in _of_roles(rows, *roles) if len(row.shape) == _MATRIX and not row.tied
    ]
    return sum(rank * sum(row.shape) * row.places for row in matrices)


_MATRIX = 2  # dims


def table() -> Mapping[str, Any]:
    """Return the facts of each convention, the simplest first."""
    return data.read_toml("facts/conventions.toml")
