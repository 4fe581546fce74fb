"""BERT in PyTorch, to be read from top to bottom: embeddings, encoder, pooler.

The model is from Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers for Language
Understanding", arXiv:1810.04805. Its encoder is from Vaswani et al., "Attention Is All You Need",
arXiv:1706.03762. The references are Google's ``modeling.py`` (github.com/google-research/bert) and
transformers' ``modeling_bert.py``. Modules have the same names as there, so parameters have the
same names as in checkpoints.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from weighbridge.torch.bert.layout import Layout, Sentences, lay_out, triangle

if TYPE_CHECKING:
    from collections.abc import Callable


def quick_gelu(x: Tensor) -> Tensor:
    """x·σ(1.702·x), an approximation of GELU."""
    return x * torch.sigmoid(1.702 * x)


_TANH_GELUS = "gelu_new gelu_fast gelu_accurate gelu_python_tanh gelu_pytorch_tanh"

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": functional.gelu,  # x·Φ(x), the original BERT's
    "gelu_python": functional.gelu,
    **dict.fromkeys(_TANH_GELUS.split(), partial(functional.gelu, approximate="tanh")),
    "quick_gelu": quick_gelu,
    "relu": functional.relu,
    "relu6": functional.relu6,
    "leaky_relu": functional.leaky_relu,
    "silu": functional.silu,
    "swish": functional.silu,
    "mish": functional.mish,
    "tanh": torch.tanh,
}


@dataclass
class BertConfig:
    """The sizes of a BERT, named as in ``config.json``, with the defaults of transformers.

    Two fields are not part of the model but choose how it is computed. ``attention`` is ``"sdpa"``,
    PyTorch's fused kernel, or ``"eager"``, the same computation in separate steps. ``pack`` removes
    the padding from a batch.
    """

    vocab_size: int = 30522
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-12
    pad_token_id: int | None = 0
    classifier_dropout: float | None = None
    is_decoder: bool = False
    add_cross_attention: bool = False
    tie_word_embeddings: bool = True
    num_labels: int = 2
    problem_type: str | None = None
    attention: str = "sdpa"
    pack: bool = True


# --------------------------------------------------------------------------------------------------
# The embeddings


class BertEmbeddings(nn.Module):
    """For each token, sum the vectors of its word, segment and position, and norm the sum."""

    position_ids: Tensor
    token_type_ids: Tensor

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(
            config.vocab_size, config.hidden_size, padding_idx=config.pad_token_id
        )
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        # The defaults: positions 0, 1, 2, …, and every token in the first sentence.
        positions = torch.arange(config.max_position_embeddings).expand((1, -1))  # (1, P)
        self.register_buffer("position_ids", positions, persistent=False)
        self.register_buffer("token_type_ids", torch.zeros_like(positions), persistent=False)

    def forward(
        self,
        input_ids: Tensor,
        token_type_ids: Tensor | None,
        position_ids: Tensor | None,
        layout: Layout,
    ) -> Tensor:
        """Embed a batch (B, T) of ids as rows (N, H)."""
        length = input_ids.shape[1]
        if token_type_ids is None:
            token_type_ids = self.token_type_ids[:, :length]  # (1, T)
        if position_ids is None:
            position_ids = self.position_ids[:, :length]  # (1, T)
        words = self.word_embeddings(layout.pick(input_ids))  # (N, H) if packed, or (B, T, H)
        types = self.token_type_embeddings(layout.pick(token_type_ids))  # or (1, T, H)
        positions = self.position_embeddings(layout.pick(position_ids))  # or (1, T, H)
        embedded: Tensor = self.dropout(self.LayerNorm(words + types + positions))
        return embedded.view(-1, embedded.shape[-1])  # (N, H)


# --------------------------------------------------------------------------------------------------
# The encoder: L times attention and feed-forward, each with a residual and a norm


def fused_attention(
    query: Tensor, key: Tensor, value: Tensor, layout: Layout, dropout: nn.Dropout
) -> Tensor:
    """softmax(Q·Kᵀ/√D)·V of each head, in PyTorch's kernel."""
    share = dropout.p if dropout.training else 0.0
    return functional.scaled_dot_product_attention(
        query, key, value, attn_mask=layout.mask, dropout_p=share, is_causal=layout.causal
    )


def eager_attention(
    query: Tensor, key: Tensor, value: Tensor, layout: Layout, dropout: nn.Dropout
) -> Tensor:
    """softmax(Q·Kᵀ/√D)·V of each head, step by step."""
    scores = query @ key.transpose(2, 3) * query.shape[-1] ** -0.5  # (g, A, T, S)
    mask = triangle(scores.shape[-1], scores.device) if layout.causal else layout.mask
    if mask is not None:
        scores = scores + torch.where(mask, 0.0, torch.finfo(scores.dtype).min).to(scores.dtype)
    probabilities: Tensor = dropout(scores.softmax(-1))  # each row of T sums to 1
    return probabilities @ value  # (g, A, T, S)·(g, A, S, D) -> (g, A, T, D)


ATTENTIONS = {"sdpa": fused_attention, "eager": eager_attention}


class BertSelfAttention(nn.Module):
    """Mix the values of a sentence's tokens, weighted by how well their keys match the query."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        if config.hidden_size % config.num_attention_heads:
            sizes = (
                f"hidden_size = {config.hidden_size}, "
                f"num_attention_heads = {config.num_attention_heads}"
            )
            raise ValueError(f"the heads must share the hidden size evenly ({sizes})")
        self.heads = config.num_attention_heads  # A
        self.head_size = config.hidden_size // config.num_attention_heads  # D
        self.query = nn.Linear(config.hidden_size, self.heads * self.head_size)
        self.key = nn.Linear(config.hidden_size, self.heads * self.head_size)
        self.value = nn.Linear(config.hidden_size, self.heads * self.head_size)
        self.dropout = nn.Dropout(config.attention_probs_dropout_prob)
        self.config = config

    def forward(self, rows: Tensor, seen: Sentences) -> Tensor:
        """Attend from the rows of each sentence to those of the same sentence in ``seen``."""
        query, key, value = self.query(rows), self.key(seen.rows), self.value(seen.rows)  # (N, H)
        groups = seen.layout.groups
        if len(groups) == 1:
            return self.attend(query, key, value, groups[0][0], seen.layout)
        sizes = [sentences * tokens for sentences, tokens in groups]
        parts = zip(query.split(sizes), key.split(sizes), value.split(sizes), groups, strict=True)
        return torch.cat([self.attend(q, k, v, group[0], seen.layout) for q, k, v, group in parts])

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, sentences: int, layout: Layout
    ) -> Tensor:
        """Attend in g sentences of one length: (g·T, H) and twice (g·S, H) -> (g·T, H)."""
        split = (sentences, -1, self.heads, self.head_size)
        query = query.view(split).transpose(1, 2)  # (g·T, H) -> (g, A, T, D)
        key = key.view(split).transpose(1, 2)  # (g·S, H) -> (g, A, S, D)
        value = value.view(split).transpose(1, 2)  # (g·S, H) -> (g, A, S, D)
        mixed = ATTENTIONS[self.config.attention](query, key, value, layout, self.dropout)
        rows: Tensor = mixed.transpose(1, 2).reshape(-1, self.heads * self.head_size)  # (g·T, H)
        return rows


class BertCrossAttention(BertSelfAttention):
    """The same from a decoder's tokens to an encoder's, which have a name of their own."""


class AddAndNorm(nn.Module):
    """The end of attention or feed-forward: a matrix to the hidden size, residual and norm."""

    def __init__(self, config: BertConfig, width: int) -> None:
        super().__init__()
        self.dense = nn.Linear(width, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, made: Tensor, rows: Tensor) -> Tensor:
        """(N, width) and the input of the block (N, H) -> (N, H)."""
        normed: Tensor = self.LayerNorm(self.dropout(self.dense(made)) + rows)
        return normed


class BertSelfOutput(AddAndNorm):
    """W_O, which joins the heads; then the residual and the norm."""


class BertAttention(nn.Module):
    """The complete attention block: the heads, W_O, the residual and the norm."""

    def __init__(self, config: BertConfig, *, is_cross_attention: bool = False) -> None:
        super().__init__()
        self.self = BertCrossAttention(config) if is_cross_attention else BertSelfAttention(config)
        self.output = BertSelfOutput(config, config.hidden_size)

    def forward(self, rows: Tensor, seen: Sentences) -> Tensor:
        """(N, H) -> (N, H)."""
        attended: Tensor = self.output(self.self(rows, seen), rows)
        return attended


class BertIntermediate(nn.Module):
    """The first half of the feed-forward: widen, then apply the activation."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.intermediate_size)
        self.activation = ACTIVATIONS[config.hidden_act]

    def forward(self, rows: Tensor) -> Tensor:
        """(N, H) -> (N, F)."""
        return self.activation(self.dense(rows))


class BertOutput(AddAndNorm):
    """The second half of the feed-forward: narrow again; then the residual and the norm."""


class BertLayer(nn.Module):
    """One layer: attention, feed-forward, and in a decoder also cross-attention."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        if config.add_cross_attention and not config.is_decoder:
            raise ValueError(
                "add_cross_attention needs is_decoder: only a decoder attends to an encoder"
            )
        self.attention = BertAttention(config)
        if config.add_cross_attention:
            self.crossattention = BertAttention(config, is_cross_attention=True)
        self.intermediate = BertIntermediate(config)
        self.output = BertOutput(config, config.intermediate_size)

    def forward(self, rows: Tensor, layout: Layout, memory: Sentences | None) -> Tensor:
        """(N, H) -> (N, H); ``memory`` is what an encoder made of its sentences."""
        rows = self.attention(rows, Sentences(rows, layout))
        if memory is not None:
            rows = self.crossattention(rows, memory)
        mixed: Tensor = self.output(self.intermediate(rows), rows)
        return mixed


class BertEncoder(nn.Module):
    """The layers, one after another."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.layer = nn.ModuleList([BertLayer(config) for _ in range(config.num_hidden_layers)])

    def forward(self, rows: Tensor, layout: Layout, memory: Sentences | None) -> Tensor:
        """(N, H) -> (N, H)."""
        for layer in self.layer:
            rows = layer(rows, layout, memory)
        return rows


class BertPooler(nn.Module):
    """Pass the first token, [CLS], through a matrix, to stand for the sentence as a whole."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.activation = nn.Tanh()

    def forward(self, first: Tensor) -> Tensor:
        """(B, H) -> (B, H)."""
        pooled: Tensor = self.activation(self.dense(first))
        return pooled


# --------------------------------------------------------------------------------------------------
# The model


class Encoded(NamedTuple):
    """What `BertModel` returns: tokens as rows (N, H), their layout, pooled sentences (B, H)."""

    rows: Tensor
    layout: Layout
    pooler_output: Tensor | None

    @property
    def last_hidden_state(self) -> Tensor:
        """The tokens as a batch, (B, T, H)."""
        return self.layout.batch(self.rows)

    @property
    def pooled(self) -> Tensor:
        """The pooled sentences, (B, H); the model must have a pooler."""
        if self.pooler_output is None:
            raise ValueError("this model was built without a pooler")
        return self.pooler_output


class BertModel(nn.Module):
    """BERT without a head.

    Raises:
        ValueError: the config contradicts itself, or ``attention`` is not one of `ATTENTIONS`.

    Example:
        >>> sizes = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 16}
        >>> model = BertModel(BertConfig(vocab_size=10, **sizes))
        >>> out = model(torch.tensor([[1, 2, 3], [4, 5, 0]]), torch.tensor([[1, 1, 1], [1, 1, 0]]))
        >>> tuple(tuple(x.shape) for x in (out.rows, out.last_hidden_state, out.pooler_output))
        ((5, 8), (2, 3, 8), (2, 8))
    """

    def __init__(self, config: BertConfig, *, add_pooling_layer: bool = True) -> None:
        super().__init__()
        if config.attention not in ATTENTIONS:
            known = " or ".join(ATTENTIONS)
            raise ValueError(f"attention must be {known} (attention = {config.attention!r})")
        self.config = config
        self.embeddings = BertEmbeddings(config)
        self.encoder = BertEncoder(config)
        self.pooler = BertPooler(config) if add_pooling_layer else None
        initialise(self, config)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        encoder_hidden_states: Tensor | None = None,
        encoder_attention_mask: Tensor | None = None,
        *,
        pack: bool = True,
    ) -> Encoded:
        """Encode a batch.

        Args:
            input_ids: (B, T), the tokens.
            attention_mask: (B, T), 1 for a token and 0 for padding.
            token_type_ids: (B, T), 0 for the first sentence and 1 for the second.
            position_ids: (B, T) or (1, T), the positions of the tokens.
            encoder_hidden_states: (B, S, H), the encoder's tokens, for cross-attention.
            encoder_attention_mask: (B, S), 1 for a token and 0 for padding in them.
            pack: remove padding, if the config allows it too.
        """
        memory, pack = None, pack and self.config.pack
        if encoder_hidden_states is not None:
            layout = lay_out(
                encoder_hidden_states[..., 0], encoder_attention_mask, causal=False, pack=False
            )
            memory, pack = Sentences(encoder_hidden_states.flatten(0, 1), layout), False
        layout = lay_out(input_ids, attention_mask, causal=self.config.is_decoder, pack=pack)
        rows = self.embeddings(input_ids, token_type_ids, position_ids, layout)
        rows = self.encoder(rows, layout, memory)
        pooled = None if self.pooler is None else self.pooler(layout.firsts(rows))
        return Encoded(rows, layout, pooled)


def initialise(part: nn.Module, config: BertConfig) -> None:
    """Initialize modules: small random matrices, zero biases, norms that change nothing."""
    for module in part.modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=config.initializer_range)
        if isinstance(module, nn.Linear):
            nn.init.zeros_(module.bias)
        if isinstance(module, nn.Embedding) and module.padding_idx is not None:
            nn.init.zeros_(module.weight[module.padding_idx])
