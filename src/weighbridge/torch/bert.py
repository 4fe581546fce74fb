"""BERT in PyTorch, to be read from top to bottom: embeddings, encoder, pooler, and every head.

The model is from Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers for Language
Understanding", arXiv:1810.04805. Its encoder is from Vaswani et al., "Attention Is All You Need",
arXiv:1706.03762. The references are Google's ``modeling.py`` (github.com/google-research/bert) and
transformers' ``modeling_bert.py``. Modules have the same names as there, so parameters have the
same names as in checkpoints.

A comment gives the shape wherever it changes, in these letters:

    B  sentences in a batch       H  hidden size                     V  vocabulary size
    T  tokens of the longest      A  attention heads                 F  feed-forward size
    N  tokens in all              D  size of a head, H / A

Everything except attention works on each token alone. So the tokens of all sentences are the rows
of one matrix, (N, H), and only attention needs to know which rows form a sentence: a `Layout` says
so. With padding, N is B·T. A packed batch has no padding, and N is the number of real tokens:
nothing is computed for the padding, and its outputs are zeros.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Callable

IGNORED = -100  # the label of a token that no loss counts

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": functional.gelu,  # x·Φ(x), the original BERT's
    "gelu_new": partial(functional.gelu, approximate="tanh"),
    "gelu_pytorch_tanh": partial(functional.gelu, approximate="tanh"),
    "relu": functional.relu,
    "silu": functional.silu,
    "swish": functional.silu,
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
# Which rows belong to which sentence


class Layout(NamedTuple):
    """How the tokens of a batch (B, T) map to rows (N, …).

    ``groups`` lists runs of sentences of equal length, as (sentences, tokens), in the order of the
    rows; attention processes each run at once. ``mask`` is True where a token may be attended to,
    or None if all may; it is (B, 1, 1, T), or (B, 1, T, T) in a decoder. In a packed batch,
    ``kept`` (N,) has the place of each row in the batch, b·T + t, and ``first`` (B,) the first row
    of each sentence.
    """

    shape: tuple[int, int]
    groups: list[tuple[int, int]]
    causal: bool = False
    mask: Tensor | None = None
    kept: Tensor | None = None
    first: Tensor | None = None

    def rows(self, batch: Tensor) -> Tensor:
        """Turn a batch into rows: (B, T, …) -> (N, …)."""
        rows = batch.flatten(0, 1)  # (B, T, …) -> (B·T, …)
        return rows if self.kept is None else rows[self.kept]

    def batch(self, rows: Tensor) -> Tensor:
        """Put rows back in the batch, with zeros for the padding: (N, …) -> (B, T, …)."""
        if self.kept is not None:
            places = rows.new_zeros(self.shape[0] * self.shape[1], *rows.shape[1:])
            rows = places.index_copy(0, self.kept, rows)  # (N, …) -> (B·T, …)
        return rows.view(*self.shape, *rows.shape[1:])  # (B·T, …) -> (B, T, …)

    def firsts(self, rows: Tensor) -> Tensor:
        """Take the first token of each sentence: (N, …) -> (B, …)."""
        return (
            rows.view(*self.shape, *rows.shape[1:])[:, 0]
            if self.first is None
            else rows[self.first]
        )


def lay_out(tokens: Tensor, attention_mask: Tensor | None, *, causal: bool, pack: bool) -> Layout:
    """Return the layout of a batch: with padding, or packed if that removes something.

    A batch is not packed if the first token of a sentence is masked (padding on the left), because
    the pooler reads that place.
    """
    size, length = tokens.shape
    whole = Layout((size, length), [(size, length)], causal=causal)
    if attention_mask is None:
        return whole
    seen = attention_mask.bool()  # (B, T)
    if bool(seen.all()):
        return whole
    if pack and bool(seen[:, 0].all()):
        return _packed(seen, whole)
    mask = seen[:, None, None, :]  # (B, 1, 1, T): no token attends to padding
    if causal:
        mask = (
            mask & torch.ones(length, length, dtype=torch.bool, device=seen.device).tril()
        )  # (B, 1, T, T)
    return whole._replace(mask=mask, causal=False)


def _packed(seen: Tensor, whole: Layout) -> Layout:
    """Return a layout of the real tokens (B, T) only, sentences of equal length side by side."""
    lengths = seen.sum(1)  # (B,)
    lengths, order = lengths.sort(stable=True)
    sentence, place = seen[order].nonzero(as_tuple=True)  # (N,), (N,)
    kept = order[sentence] * whole.shape[1] + place  # (N,)
    first = torch.empty_like(order)
    first[order] = (
        lengths.cumsum(0) - lengths
    )  # (B,): a sentence begins where the one before it ends
    counted = torch.unique_consecutive(lengths, return_counts=True)
    groups = [
        (number, length) for length, number in zip(*(of.tolist() for of in counted), strict=True)
    ]
    return whole._replace(groups=groups, kept=kept, first=first)


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
        self.sum = nn.Identity()  # computes nothing: a place to observe
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
        size, length = input_ids.shape
        positions = (
            self.position_ids[:, :length] if position_ids is None else position_ids
        )  # (1 or B, T)
        types = (
            self.token_type_ids[:, :length] if token_type_ids is None else token_type_ids
        )  # (1 or B, T)
        words = self.word_embeddings(layout.rows(input_ids))  # (B, T) -> (N,) -> (N, H)
        types = self.token_type_embeddings(layout.rows(types.expand(size, length)))  # (N, H)
        places = self.position_embeddings(layout.rows(positions.expand(size, length)))  # (N, H)
        summed = self.sum(words + types + places)
        embedded: Tensor = self.dropout(self.LayerNorm(summed))
        return embedded


# --------------------------------------------------------------------------------------------------
# The encoder: L times attention and feed-forward, each with a residual and a norm


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
        self.scores, self.probabilities, self.context = (
            nn.Identity(),
            nn.Identity(),
            nn.Identity(),
        )  # to observe

    def forward(self, rows: Tensor, layout: Layout) -> Tensor:
        """Attend within each sentence: (N, H) -> (N, H)."""
        query, key, value = self.query(rows), self.key(rows), self.value(rows)  # (N, H) each
        if len(layout.groups) == 1:
            of_all = layout.groups[0][0]
            return self.attend(query, key, value, (of_all, of_all), layout)
        lengths = [number * length for number, length in layout.groups]
        groups = zip(*(of.split(lengths) for of in (query, key, value)), layout.groups, strict=True)
        return torch.cat(
            [self.attend(q, k, v, (number, number), layout) for q, k, v, (number, _) in groups]
        )

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, sentences: tuple[int, int], layout: Layout
    ) -> Tensor:
        """Attend from g sentences (T, H) of one length to g sentences (S, H) of one length."""
        asking, asked = sentences
        query = query.view(asking, -1, self.heads, self.head_size).transpose(
            1, 2
        )  # (g·T, H) -> (g, A, T, D)
        key = key.view(asked, -1, self.heads, self.head_size).transpose(
            1, 2
        )  # (g·S, H) -> (g, A, S, D)
        value = value.view(asked, -1, self.heads, self.head_size).transpose(
            1, 2
        )  # (g·S, H) -> (g, A, S, D)
        mixed = self.mix(query, key, value, layout)  # (g, A, T, D)
        joined = mixed.transpose(1, 2).reshape(
            -1, self.heads * self.head_size
        )  # (g, A, T, D) -> (g·T, H)
        context: Tensor = self.context(joined)
        return context

    def mix(self, query: Tensor, key: Tensor, value: Tensor, layout: Layout) -> Tensor:
        """softmax(Q·Kᵀ/√D)·V, of each head: (g, A, T, D) and twice (g, A, S, D) -> (g, A, T, D)."""
        if self.config.attention == "sdpa":
            dropout = self.dropout.p if self.training else 0.0
            return functional.scaled_dot_product_attention(
                query, key, value, attn_mask=layout.mask, dropout_p=dropout, is_causal=layout.causal
            )
        scores = query @ key.transpose(2, 3) * self.head_size**-0.5  # (g, A, T, S)
        mask = layout.mask
        if layout.causal:
            mask = torch.ones(
                scores.shape[-2:], dtype=torch.bool, device=scores.device
            ).tril()  # (T, S)
        if mask is not None:
            scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        probabilities = self.probabilities(
            self.scores(scores).softmax(-1)
        )  # each row of T sums to 1
        mixed: Tensor = (
            self.dropout(probabilities) @ value
        )  # (g, A, T, S)·(g, A, S, D) -> (g, A, T, D)
        return mixed


class BertCrossAttention(BertSelfAttention):
    """Attention from a decoder's tokens to an encoder's, whose rows are ``memory`` (B·S, H)."""

    def forward(self, rows: Tensor, layout: Layout, memory: Tensor | None = None) -> Tensor:
        """Attend to the memory, whose sentences are in ``layout``: (N, H) -> (N, H)."""
        query, key, value = self.query(rows), self.key(memory), self.value(memory)
        return self.attend(query, key, value, (layout.shape[0], layout.shape[0]), layout)


class AddAndNorm(nn.Module):
    """The end of attention or feed-forward: a matrix to the hidden size, residual and norm."""

    def __init__(self, config: BertConfig, width: int) -> None:
        super().__init__()
        self.dense = nn.Linear(width, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.residual = nn.Identity()

    def forward(self, made: Tensor, rows: Tensor) -> Tensor:
        """(N, width) and the input of the block (N, H) -> (N, H)."""
        added = self.residual(self.dropout(self.dense(made)) + rows)
        normed: Tensor = self.LayerNorm(added)
        return normed


class BertSelfOutput(AddAndNorm):
    """W_O, which joins the heads; then the residual and the norm."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config, config.hidden_size)


class BertAttention(nn.Module):
    """The complete attention block: the heads, W_O, the residual and the norm."""

    def __init__(self, config: BertConfig, *, is_cross_attention: bool = False) -> None:
        super().__init__()
        self.self = BertCrossAttention(config) if is_cross_attention else BertSelfAttention(config)
        self.output = BertSelfOutput(config)

    def forward(self, rows: Tensor, layout: Layout, *memory: Tensor) -> Tensor:
        """(N, H) -> (N, H)."""
        attended: Tensor = self.output(self.self(rows, layout, *memory), rows)
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

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config, config.intermediate_size)


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
        self.output = BertOutput(config)

    def forward(
        self, rows: Tensor, layout: Layout, memory: Tensor | None, memory_layout: Layout | None
    ) -> Tensor:
        """(N, H) -> (N, H)."""
        rows = self.attention(rows, layout)
        if memory is not None:
            rows = self.crossattention(rows, memory_layout, memory)
        mixed: Tensor = self.output(self.intermediate(rows), rows)
        return mixed


class BertEncoder(nn.Module):
    """The layers, one after another."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.layer = nn.ModuleList([BertLayer(config) for _ in range(config.num_hidden_layers)])

    def forward(
        self, rows: Tensor, layout: Layout, memory: Tensor | None, memory_layout: Layout | None
    ) -> Tensor:
        """(N, H) -> (N, H)."""
        for layer in self.layer:
            rows = layer(rows, layout, memory, memory_layout)
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

    Example:
        >>> sizes = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 16}
        >>> model = BertModel(BertConfig(vocab_size=10, **sizes))
        >>> out = model(torch.tensor([[1, 2, 3], [4, 5, 0]]), torch.tensor([[1, 1, 1], [1, 1, 0]]))
        >>> tuple(tuple(x.shape) for x in (out.rows, out.last_hidden_state, out.pooler_output))
        ((5, 8), (2, 3, 8), (2, 8))
    """

    def __init__(self, config: BertConfig, *, add_pooling_layer: bool = True) -> None:
        super().__init__()
        self.config = config
        self.embeddings = BertEmbeddings(config)
        self.encoder = BertEncoder(config)
        self.pooler = BertPooler(config) if add_pooling_layer else None
        self.apply(partial(_initialise, std=config.initializer_range))

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
        config, memory, memory_layout = self.config, None, None
        pack = pack and config.pack and encoder_hidden_states is None
        layout = lay_out(input_ids, attention_mask, causal=config.is_decoder, pack=pack)
        if encoder_hidden_states is not None:
            memory = encoder_hidden_states.flatten(0, 1)  # (B, S, H) -> (B·S, H)
            memory_layout = lay_out(
                encoder_hidden_states[..., 0], encoder_attention_mask, causal=False, pack=False
            )
        rows = self.embeddings(input_ids, token_type_ids, position_ids, layout)
        rows = self.encoder(rows, layout, memory, memory_layout)
        return Encoded(
            rows, layout, None if self.pooler is None else self.pooler(layout.firsts(rows))
        )


def _initialise(module: nn.Module, std: float) -> None:
    """Initialize a module: small random matrices, zero biases, norms that change nothing."""
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=std)
    if isinstance(module, nn.Linear):
        nn.init.zeros_(module.bias)
    if isinstance(module, nn.Embedding) and module.padding_idx is not None:
        nn.init.zeros_(module.weight[module.padding_idx])


# --------------------------------------------------------------------------------------------------
# The heads' parts


class BertPredictionHeadTransform(nn.Module):
    """A last matrix, activation and norm, before words are scored."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.activation = ACTIVATIONS[config.hidden_act]
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(self, rows: Tensor) -> Tensor:
        """(N, H) -> (N, H)."""
        normed: Tensor = self.LayerNorm(self.activation(self.dense(rows)))
        return normed


class BertLMPredictionHead(nn.Module):
    """Score every word of the vocabulary; a tied matrix is the one of the word embeddings."""

    def __init__(self, config: BertConfig, words: nn.Embedding) -> None:
        super().__init__()
        self.transform = BertPredictionHeadTransform(config)
        self.decoder = nn.Linear(config.hidden_size, config.vocab_size)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))
        if config.tie_word_embeddings:
            self.decoder.weight, self.decoder.bias = words.weight, self.bias

    def forward(self, rows: Tensor) -> Tensor:
        """(N, H) -> (N, V)."""
        scores: Tensor = self.decoder(self.transform(rows))
        return scores


class BertOnlyMLMHead(nn.Module):
    """The head that fills in masked words."""

    def __init__(self, config: BertConfig, words: nn.Embedding) -> None:
        super().__init__()
        self.predictions = BertLMPredictionHead(config, words)

    def forward(self, rows: Tensor) -> Tensor:
        """(N, H) -> (N, V)."""
        scores: Tensor = self.predictions(rows)
        return scores


class BertOnlyNSPHead(nn.Module):
    """The head that predicts whether the second sentence follows the first."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.seq_relationship = nn.Linear(config.hidden_size, 2)

    def forward(self, pooled: Tensor) -> Tensor:
        """(B, H) -> (B, 2)."""
        scores: Tensor = self.seq_relationship(pooled)
        return scores


class BertPreTrainingHeads(nn.Module):
    """The two heads that BERT was pre-trained with."""

    def __init__(self, config: BertConfig, words: nn.Embedding) -> None:
        super().__init__()
        self.predictions = BertLMPredictionHead(config, words)
        self.seq_relationship = nn.Linear(config.hidden_size, 2)

    def forward(self, rows: Tensor, pooled: Tensor) -> tuple[Tensor, Tensor]:
        """(N, H) and (B, H) -> (N, V) and (B, 2)."""
        return self.predictions(rows), self.seq_relationship(pooled)


# --------------------------------------------------------------------------------------------------
# The classes: BERT with a head. Each takes the inputs of `BertModel` and labels. The labels of
# padding must be -100.


class Scores(NamedTuple):
    """The output of a head: ``logits``, and the loss if there were labels."""

    logits: Tensor
    loss: Tensor | None = None


class PreTrainingScores(NamedTuple):
    """What `BertForPreTraining` returns: scores of words (B, T, V) and of the pair (B, 2)."""

    prediction_logits: Tensor
    seq_relationship_logits: Tensor
    loss: Tensor | None = None


class Span(NamedTuple):
    """What `BertForQuestionAnswering` returns: scores of the start and the end, (B, T) each."""

    start_logits: Tensor
    end_logits: Tensor
    loss: Tensor | None = None


def _token_loss(scores: Tensor, labels: Tensor, layout: Layout) -> Tensor:
    """Return the mean cross-entropy of scores (N, C), without ignored labels (B, T)."""
    return functional.cross_entropy(scores, layout.rows(labels), ignore_index=IGNORED)


class BertForPreTraining(nn.Module):
    """BERT as it was pre-trained: masked words, and whether the second sentence follows."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config = config
        self.bert = BertModel(config)
        self.cls = BertPreTrainingHeads(config, self.bert.embeddings.word_embeddings)
        self.cls.apply(partial(_initialise, std=config.initializer_range))

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        labels: Tensor | None = None,
        next_sentence_label: Tensor | None = None,
    ) -> PreTrainingScores:
        """Score words and the second sentence; the loss is the sum of both.

        ``next_sentence_label`` (B,) is 0 if the second sentence follows the first.
        """
        encoded = self.bert(input_ids, attention_mask, token_type_ids, position_ids)
        words, follows = self.cls(encoded.rows, encoded.pooled)  # (N, V), (B, 2)
        loss = None
        if labels is not None and next_sentence_label is not None:
            of_words = _token_loss(words, labels, encoded.layout)
            loss = of_words + functional.cross_entropy(follows, next_sentence_label.view(-1))
        return PreTrainingScores(encoded.layout.batch(words), follows, loss)


class BertForMaskedLM(nn.Module):
    """BERT that fills in masked words."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config = config
        self.bert = BertModel(config, add_pooling_layer=False)
        self.cls = BertOnlyMLMHead(config, self.bert.embeddings.word_embeddings)
        self.cls.apply(partial(_initialise, std=config.initializer_range))

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        encoder_hidden_states: Tensor | None = None,
        encoder_attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
    ) -> Scores:
        """Score every word at every place, (B, T, V); ``labels`` (B, T) are the masked words."""
        memory = (encoder_hidden_states, encoder_attention_mask)
        encoded = self.bert(input_ids, attention_mask, token_type_ids, position_ids, *memory)
        scores = self.cls(encoded.rows)  # (N, V)
        loss = None if labels is None else _token_loss(scores, labels, encoded.layout)
        return Scores(encoded.layout.batch(scores), loss)


class BertLMHeadModel(BertForMaskedLM):
    """BERT that predicts the next word: a decoder if ``is_decoder`` is true."""

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        encoder_hidden_states: Tensor | None = None,
        encoder_attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
    ) -> Scores:
        """Score every next word, (B, T, V); ``labels`` (B, T) are the words, shifted here."""
        if labels is not None:
            labels = functional.pad(labels, (0, 1), value=IGNORED)[
                :, 1:
            ]  # the last token has no next word
        memory = (encoder_hidden_states, encoder_attention_mask)
        return super().forward(
            input_ids, attention_mask, token_type_ids, position_ids, *memory, labels
        )


class BertForNextSentencePrediction(nn.Module):
    """BERT that predicts whether the second sentence follows the first."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config = config
        self.bert = BertModel(config)
        self.cls = BertOnlyNSPHead(config)
        self.cls.apply(partial(_initialise, std=config.initializer_range))

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        labels: Tensor | None = None,
    ) -> Scores:
        """Score "follows" and "is random", (B, 2); ``labels`` (B,) are 0 and 1."""
        scores = self.cls(self.bert(input_ids, attention_mask, token_type_ids, position_ids).pooled)
        return Scores(
            scores, None if labels is None else functional.cross_entropy(scores, labels.view(-1))
        )


class BertForSequenceClassification(nn.Module):
    """BERT that classifies a text or a pair of texts."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config = config
        self.bert = BertModel(config)
        self.dropout = nn.Dropout(_head_dropout(config))
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.classifier.apply(partial(_initialise, std=config.initializer_range))

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        labels: Tensor | None = None,
    ) -> Scores:
        """Score the classes, (B, C).

        ``labels`` are (B,) classes, (B,) numbers where C is 1, or (B, C) of 0 and 1.
        """
        encoded = self.bert(input_ids, attention_mask, token_type_ids, position_ids)
        scores = self.classifier(self.dropout(encoded.pooled))  # (B, C)
        return Scores(scores, None if labels is None else self.loss(scores, labels))

    def loss(self, scores: Tensor, labels: Tensor) -> Tensor:
        """Return the loss for the problem type in the config, or for one that suits the labels."""
        problem = self.config.problem_type
        if problem is None:
            several = (
                "multi_label_classification"
                if labels.is_floating_point()
                else "single_label_classification"
            )
            problem = "regression" if scores.shape[1] == 1 else several
        if problem == "regression":
            return functional.mse_loss(scores.squeeze(), labels.squeeze())
        if problem == "single_label_classification":
            return functional.cross_entropy(scores, labels.view(-1))
        return functional.binary_cross_entropy_with_logits(scores, labels)


class BertForMultipleChoice(nn.Module):
    """BERT that picks one of several endings; each is scored as a separate text."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config = config
        self.bert = BertModel(config)
        self.dropout = nn.Dropout(_head_dropout(config))
        self.classifier = nn.Linear(config.hidden_size, 1)
        self.classifier.apply(partial(_initialise, std=config.initializer_range))

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        labels: Tensor | None = None,
    ) -> Scores:
        """Score the choices, (B, C), of a batch (B, C, T); ``labels`` (B,) are the right ones."""
        given = (input_ids, attention_mask, token_type_ids, position_ids)
        encoded = self.bert(
            *(None if of is None else of.flatten(0, 1) for of in given)
        )  # (B, C, T) -> (B·C, T)
        scores = self.classifier(self.dropout(encoded.pooled)).view(
            -1, input_ids.shape[1]
        )  # (B·C, 1) -> (B, C)
        return Scores(scores, None if labels is None else functional.cross_entropy(scores, labels))


class BertForTokenClassification(nn.Module):
    """BERT that classifies each token."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config = config
        self.bert = BertModel(config, add_pooling_layer=False)
        self.dropout = nn.Dropout(_head_dropout(config))
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.classifier.apply(partial(_initialise, std=config.initializer_range))

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        labels: Tensor | None = None,
    ) -> Scores:
        """Score the classes of each token, (B, T, C); ``labels`` are (B, T)."""
        encoded = self.bert(input_ids, attention_mask, token_type_ids, position_ids)
        scores = self.classifier(self.dropout(encoded.rows))  # (N, C)
        loss = None if labels is None else _token_loss(scores, labels, encoded.layout)
        return Scores(encoded.layout.batch(scores), loss)


class BertForQuestionAnswering(nn.Module):
    """BERT that finds an answer in a text: where it starts, and where it ends."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config = config
        self.bert = BertModel(config, add_pooling_layer=False)
        self.qa_outputs = nn.Linear(config.hidden_size, config.num_labels)
        self.qa_outputs.apply(partial(_initialise, std=config.initializer_range))

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        start_positions: Tensor | None = None,
        end_positions: Tensor | None = None,
    ) -> Span:
        """Score each place as start and as end of the answer; positions (B,) past T are ignored.

        The loss covers all places including padding, as in the reference, so it disables packing.
        """
        pack = start_positions is None or end_positions is None
        encoded = self.bert(input_ids, attention_mask, token_type_ids, position_ids, pack=pack)
        start, end = encoded.layout.batch(self.qa_outputs(encoded.rows)).unbind(
            -1
        )  # (N, 2) -> (B, T, 2) -> (B, T) each
        loss = None
        if start_positions is not None and end_positions is not None:
            length = input_ids.shape[1]
            pairs = ((start, start_positions), (end, end_positions))
            losses = [
                functional.cross_entropy(of, at.view(-1).clamp(0, length), ignore_index=length)
                for of, at in pairs
            ]
            loss = (losses[0] + losses[1]) / 2
        return Span(start, end, loss)


def _head_dropout(config: BertConfig) -> float:
    return (
        config.hidden_dropout_prob
        if config.classifier_dropout is None
        else config.classifier_dropout
    )


CLASSES: dict[str, type[nn.Module]] = {
    kind.__name__: kind
    for kind in (
        BertModel,
        BertForPreTraining,
        BertForMaskedLM,
        BertLMHeadModel,
        BertForNextSentencePrediction,
        BertForSequenceClassification,
        BertForMultipleChoice,
        BertForTokenClassification,
        BertForQuestionAnswering,
    )
}
"""Every class of BERT, by its name."""
