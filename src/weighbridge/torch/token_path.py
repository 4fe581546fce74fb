"""Follow one token through one layer of a BERT, number by number.

The vectors that enter the layer are observed in a run of the model. Everything inside the layer is
computed again from its parameters, which are found by the names that they have in checkpoints.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

from weighbridge.errors import UsageError
from weighbridge.files import write_whole
from weighbridge.render.token_page import describe_file, token_page
from weighbridge.render.token_path import Embedded, HeadPath, Linear, Norm, TokenPath, Vector
from weighbridge.torch.bert import ACTIVATIONS
from weighbridge.torch.loading import load_checkpoint
from weighbridge.torch.tracing import check_places, model_inputs, picture_format

if TYPE_CHECKING:
    import os

    from weighbridge.torch.loading import Loaded
    from weighbridge.torch.tokens import Text


def trace_token(  # noqa: PLR0913  # each is a separate option for the user
    checkpoint: str | os.PathLike[str],
    text: str,
    second: str | None = None,
    class_name: str | None = None,
    *,
    layer: int | None = None,
    head: int | None = None,
    token: int | None = None,
) -> TokenPath:
    """Follow one token of a text through one layer.

    Args:
        checkpoint: as for `load_checkpoint`.
        text: the text to read.
        second: the second text of a pair.
        class_name: as for `load_checkpoint`.
        layer: the layer; by default the first.
        head: the head of that layer to show first; all are kept.
        token: the position of the token; by default 1, the first token after [CLS].

    Returns:
        The vectors of the token at every step, (H,) in the layer, (D,) in a head and (F,) in the
        feed-forward, and what they were computed from. In a notebook it is shown as a page.

    Raises:
        ModelError, ConfigError, CheckpointError: as for `load_checkpoint`.
        UsageError: the text is empty, or there is no such layer, head or token.
    """
    loaded = load_checkpoint(checkpoint, class_name, attention="eager")
    check_places(loaded, layer, head)
    read = loaded.tokens.read(text, second)
    place = 1 if token is None else token
    if not 0 <= place < len(read.tokens):
        raise UsageError(
            "there is no such token",
            where=loaded.where,
            values={"token": place, "tokens": len(read.tokens)},
            hint=f"give --token as 0 to {len(read.tokens) - 1}",
        )
    with torch.no_grad():
        return _path(
            loaded, read, (text,) if second is None else (text, second), place, layer, head
        )


def write_page(path: TokenPath, output: str | os.PathLike[str], lang: str = "en") -> str:
    """Write the page of a token into a file, and return a line that describes the file.

    An existing file is replaced only if it is a page or picture of ours.

    Raises:
        UsageError: the file has another suffix than .html, or cannot be written.
    """
    file = Path(output)
    picture_format(file, ("html",))
    write_whole(file, token_page(path, lang).encode())
    return describe_file(path, file, lang)


def _path(
    loaded: Loaded,
    read: Text,
    texts: tuple[str, ...],
    place: int,
    layer: int | None,
    head: int | None,
) -> TokenPath:
    layer = layer or 0
    bert = _Weights(loaded, "" if loaded.class_name == "BertModel" else "bert.")
    inside = bert.below(f"encoder.layer.{layer}.")
    rows = _entering(loaded, read, bert.prefix, layer)  # (n, H)
    row = rows[place]
    heads, joined = _heads(inside.below("attention.self."), rows, place)
    output = inside.linear("attention.output.dense", joined)
    attended = inside.norm("attention.output.LayerNorm", torch.tensor(output.result) + row)
    middle = torch.tensor(attended.result)
    up = inside.linear("intermediate.dense", middle)
    activated = ACTIVATIONS[loaded.config.hidden_act](torch.tensor(up.result))
    down = inside.linear("output.dense", activated)
    return TokenPath(
        where=loaded.where,
        class_name=loaded.class_name,
        texts=texts,
        tokens=tuple(zip(read.tokens, read.ids, strict=True)),
        place=place,
        layer=layer,
        layers=loaded.config.num_hidden_layers,
        head=head or 0,
        activation=loaded.config.hidden_act,
        embedded=_embedded(bert.below("embeddings."), read, place),
        entered=_vector(row),
        heads=heads,
        joined=_vector(joined),
        output=output,
        attended=attended,
        up=up,
        activated=_vector(activated),
        down=down,
        left=inside.norm("output.LayerNorm", torch.tensor(down.result) + middle),
        notes=(*loaded.notes, *read.notes),
    )


def _entering(loaded: Loaded, read: Text, prefix: str, layer: int) -> Tensor:
    """Run a text through a model, and return the rows (n, H) that enter a layer."""
    seen: list[Tensor] = []
    module = loaded.model.get_submodule(f"{prefix}encoder.layer.{layer}")
    handle = module.register_forward_pre_hook(lambda _, given: seen.append(given[0].clone()))
    ids, segments = model_inputs(loaded, read)
    loaded.model(ids, None, segments)
    handle.remove()
    return seen[0].reshape(len(read.ids), -1)


class _Weights:
    """The parameters below a prefix of their names, and the steps that they compute."""

    def __init__(self, loaded: Loaded, prefix: str) -> None:
        self.loaded, self.prefix = loaded, prefix

    def below(self, name: str) -> _Weights:
        return _Weights(self.loaded, self.prefix + name)

    def get(self, name: str) -> Tensor:
        return self.loaded.model.get_parameter(self.prefix + name).detach()

    def linear(self, name: str, given: Tensor, rows: slice | None = None) -> Linear:
        """Apply a matrix and its bias to one vector; of a slice of its rows, only these."""
        weight, bias = self.get(f"{name}.weight"), self.get(f"{name}.bias")
        rows = rows or slice(0, len(weight))
        result = functional.linear(given, weight[rows], bias[rows])
        return Linear(
            name=self.prefix + name,
            shape=(weight.shape[0], weight.shape[1]),
            result=_vector(result),
            at=rows.start,
            row=_vector(weight[rows.start]),
            bias=float(bias[rows.start]),
        )

    def norm(self, name: str, given: Tensor) -> Norm:
        weight, bias = self.get(f"{name}.weight"), self.get(f"{name}.bias")
        epsilon = self.loaded.config.layer_norm_eps
        return Norm(
            name=self.prefix + name,
            given=_vector(given),
            mean=float(given.mean()),
            deviation=math.sqrt(float(given.var(correction=0)) + epsilon),
            weight=_vector(weight),
            bias=_vector(bias),
            result=_vector(functional.layer_norm(given, given.shape, weight, bias, epsilon)),
        )


def _embedded(inside: _Weights, read: Text, place: int) -> Embedded:
    tables, rows = [], []
    wanted = (
        ("word_embeddings", read.ids[place]),
        ("token_type_embeddings", read.segments[place]),
        ("position_embeddings", place),
    )
    for name, row in wanted:
        table = inside.get(f"{name}.weight")
        tables.append((inside.prefix + name, (table.shape[0], table.shape[1]), row))
        rows.append(table[row])
    norm = inside.norm("LayerNorm", rows[0] + rows[1] + rows[2])
    return Embedded(tuple(tables), tuple(map(_vector, rows)), norm)


def _heads(inside: _Weights, rows: Tensor, place: int) -> tuple[tuple[HeadPath, ...], Tensor]:
    """Return each head of a token, and the results of all heads side by side (H,)."""
    config = inside.loaded.config
    size = config.hidden_size // config.num_attention_heads  # D
    seen = place + 1 if config.is_decoder else len(rows)  # a decoder sees no later token
    keys, values = (
        functional.linear(rows, inside.get(f"{name}.weight"), inside.get(f"{name}.bias"))
        for name in ("key", "value")
    )  # (n, H) each
    heads, mixed = [], []
    for head in range(config.num_attention_heads):
        part = slice(head * size, (head + 1) * size)
        query, key, value = (
            inside.linear(name, rows[place], part) for name in ("query", "key", "value")
        )
        products = keys[:, part] @ torch.tensor(query.result)  # (n, D)·(D,) -> (n,)
        scores = products / math.sqrt(size)
        scores[seen:] = -math.inf
        probabilities = scores.softmax(0)
        mixed.append(probabilities @ values[:, part])  # (n,)·(n, D) -> (D,)
        heads.append(
            HeadPath(
                query=query,
                key=key,
                value=value,
                keys=tuple(map(_vector, keys[:, part])),
                values=tuple(map(_vector, values[:, part])),
                products=_vector(products),
                scores=_vector(scores),
                probabilities=_vector(probabilities),
                mixed=_vector(mixed[-1]),
            )
        )
    return tuple(heads), torch.cat(mixed)


def _vector(values: Tensor) -> Vector:
    return tuple(values.tolist())
