"""BERT in PyTorch, to be read from top to bottom: embeddings, encoder, pooler, and every head.

The model is from Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers for Language
Understanding", arXiv:1810.04805. Its encoder is from Vaswani et al., "Attention Is All You Need",
arXiv:1706.03762. The references are Google's ``modeling.py`` (github.com/google-research/bert) and
transformers' ``modeling_bert.py``. Modules have the same names as there, so parameters have the
same names as in checkpoints.

A comment gives the shape wherever it changes, in these letters:

    B  sentences in a batch       H  hidden size                     V  vocabulary size
    T  tokens of the longest      A  attention heads                 F  feed-forward size
    N  tokens in all              D  size of a head, H / A           C  classes

Everything except attention works on each token alone. So the tokens of all sentences are the rows
of one matrix, (N, H), and only attention needs to know which rows form a sentence: a `Layout` says
so. With padding, N is B·T. A packed batch has no padding, and N is the number of real tokens:
nothing is computed for the padding, and its outputs are zeros.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Callable

IGNORED = -100  # the label of a token that no loss counts


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

    def pick(self, batch: Tensor) -> Tensor:
        """Leave out the padding of a packed batch: (1 or B, T) -> (N,), else the same."""
        if self.kept is None:
            return batch
        return batch.expand(self.shape).flatten()[self.kept]

    def batch(self, rows: Tensor) -> Tensor:
        """Put rows back in the batch, with zeros for the padding: (N, …) -> (B, T, …)."""
        if self.kept is not None:
            places = rows.new_zeros(self.shape[0] * self.shape[1], *rows.shape[1:])
            rows = places.index_copy(0, self.kept, rows)  # (N, …) -> (B·T, …)
        return rows.view(*self.shape, *rows.shape[1:])  # (B·T, …) -> (B, T, …)

    def firsts(self, rows: Tensor) -> Tensor:
        """Take the first token of each sentence: (N, H) -> (B, H)."""
        if self.first is not None:
            return rows[self.first]
        return rows.view(*self.shape, -1)[:, 0]


def lay_out(tokens: Tensor, attention_mask: Tensor | None, *, causal: bool, pack: bool) -> Layout:
    """Return the layout of a batch: with padding, or packed if that removes something.

    A batch is not packed if the first token of a sentence is masked (padding on the left), because
    the pooler reads that place. Nor is it inside `torch.compile`, where no shape may depend on
    values.
    """
    size, length = tokens.shape
    whole = Layout((size, length), [(size, length)], causal=causal)
    if attention_mask is None:
        return whole
    seen = attention_mask.bool()  # (B, T)
    if not torch.compiler.is_compiling():
        if bool(seen.all()):
            return whole
        if pack and bool(seen[:, 0].all()):
            return _packed(seen, whole)
    mask = seen[:, None, None, :]  # (B, 1, 1, T): no token attends to padding
    if causal:
        mask = mask & _triangle(length, seen.device)  # (B, 1, T, T)
    return whole._replace(mask=mask, causal=False)


def _packed(seen: Tensor, whole: Layout) -> Layout:
    """Return a layout of the real tokens (B, T) only, sentences of equal length side by side."""
    lengths, order = seen.sum(1).sort(stable=True)  # (B,), (B,)
    sentence, place = seen[order].nonzero(as_tuple=True)  # (N,), (N,)
    kept = order[sentence] * whole.shape[1] + place  # (N,)
    first = torch.empty_like(order)
    first[order] = lengths.cumsum(0) - lengths  # (B,): each begins where the one before ends
    tokens, sentences = torch.unique_consecutive(lengths, return_counts=True)
    groups = list(zip(sentences.tolist(), tokens.tolist(), strict=True))
    return whole._replace(groups=groups, kept=kept, first=first)


def _triangle(length: int, device: torch.device) -> Tensor:
    """Return (T, T), True where a token of a decoder may look: at itself and backwards."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()


class Sentences(NamedTuple):
    """The rows (N, H) of sentences, with their layout: what attention looks at."""

    rows: Tensor
    layout: Layout


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
    mask = _triangle(scores.shape[-1], scores.device) if layout.causal else layout.mask
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
        _initialise(self, config)

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


def _initialise(part: nn.Module, config: BertConfig) -> None:
    """Initialize modules: small random matrices, zero biases, norms that change nothing."""
    for module in part.modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=config.initializer_range)
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
        _initialise(self, config)
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


class BertOnlyNSPHead(nn.Module):
    """The head that predicts whether the second sentence follows the first."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.seq_relationship = nn.Linear(config.hidden_size, 2)
        _initialise(self, config)


class BertPreTrainingHeads(nn.Module):
    """The two heads that BERT was pre-trained with."""

    def __init__(self, config: BertConfig, words: nn.Embedding) -> None:
        super().__init__()
        self.predictions = BertLMPredictionHead(config, words)
        self.seq_relationship = nn.Linear(config.hidden_size, 2)
        _initialise(self.seq_relationship, config)


# --------------------------------------------------------------------------------------------------
# What the heads return


class Scores(NamedTuple):
    """The output of a head: ``logits``, and the loss if there were labels."""

    logits: Tensor
    loss: Tensor | None = None


class WordScores:
    """The output of a head that scores words, for labels: the loss, and ``logits`` (B, T, V).

    The loss needs the scores of labelled tokens only. Those of all tokens are computed when
    ``logits`` is first read, which must be before the weights change.
    """

    def __init__(self, head: BertLMPredictionHead, encoded: Encoded, loss: Tensor) -> None:
        self.loss = loss
        self._head, self._encoded, self._versions = head, encoded, _versions(head)

    @cached_property
    def logits(self) -> Tensor:
        """The scores of every word at every place, (B, T, V).

        Raises:
            RuntimeError: the weights changed since the forward pass.
        """
        if _versions(self._head) != self._versions:
            raise RuntimeError("the weights changed since the forward pass: read logits before")
        rows = self._encoded.rows
        with torch.set_grad_enabled(rows.requires_grad):
            return self._encoded.layout.batch(self._head(rows))


def _versions(head: nn.Module) -> list[int]:
    """Return the number of changes in place of each parameter."""
    return [parameter._version for parameter in head.parameters()]


class PreTrainingScores(NamedTuple):
    """What `BertForPreTraining` returns: scores of words (B, T, V) and of the pair (B, 2)."""

    words: Scores | WordScores
    seq_relationship_logits: Tensor
    loss: Tensor | None = None

    @property
    def prediction_logits(self) -> Tensor:
        """The scores of every word at every place, (B, T, V)."""
        return self.words.logits


class Span(NamedTuple):
    """What `BertForQuestionAnswering` returns: scores of the start and the end, (B, T) each."""

    start_logits: Tensor
    end_logits: Tensor
    loss: Tensor | None = None


# --------------------------------------------------------------------------------------------------
# The classes: BERT with a head


class BertWithHead(nn.Module):
    """What the classes below share: an encoder, and inputs as those of `BertModel` with labels.

    A subclass adds its head, and scores what was encoded.
    """

    has_pooler = True
    scores_tokens = False  # labels (B, T) are those of tokens

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config = config
        self.bert = BertModel(config, add_pooling_layer=self.has_pooler)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        encoder_hidden_states: Tensor | None = None,
        encoder_attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
    ) -> Any:
        """Encode a batch, as `BertModel` does, and score it; ``labels`` give a loss too."""
        labels = self.targets(labels)
        pack = not (self.scores_tokens and _is_masked_token_labelled(labels, attention_mask))
        memory = (encoder_hidden_states, encoder_attention_mask)
        encoded = self.bert(
            input_ids, attention_mask, token_type_ids, position_ids, *memory, pack=pack
        )
        return self.score(encoded, labels)

    def targets(self, labels: Tensor | None) -> Tensor | None:
        """Return what the scores should say, of the given labels."""
        return labels

    def score(self, encoded: Encoded, labels: Tensor | None) -> Any:
        """Score what was encoded, and compute the loss if there are labels."""
        raise NotImplementedError


def _is_masked_token_labelled(labels: Tensor | None, attention_mask: Tensor | None) -> bool:
    """Whether the loss counts a token that a packed batch would leave out."""
    if labels is None or attention_mask is None or torch.compiler.is_compiling():
        return False
    return bool(((labels != IGNORED) & (attention_mask == 0)).any())


def _linear(config: BertConfig, scores: int) -> nn.Linear:
    """Return the matrix of a head, (H) -> (scores), initialized."""
    linear = nn.Linear(config.hidden_size, scores)
    _initialise(linear, config)
    return linear


def _head_dropout(config: BertConfig) -> nn.Dropout:
    share = config.classifier_dropout
    return nn.Dropout(config.hidden_dropout_prob if share is None else share)


def _score_words(
    head: BertLMPredictionHead,
    encoded: Encoded,
    labels: Tensor | None,
    dtype: torch.dtype | None = None,
) -> Scores | WordScores:
    """Score words; with labels (B, T), return the mean cross-entropy, computed in ``dtype``."""
    rows, layout = encoded.rows, encoded.layout
    if labels is None:
        return Scores(layout.batch(head(rows)))  # (N, H) -> (N, V) -> (B, T, V)
    labels = layout.pick(labels).flatten()  # (N,)
    if torch.compiler.is_compiling():  # no shape may depend on values
        scores = head(rows)
        loss = functional.cross_entropy(scores.to(dtype), labels, ignore_index=IGNORED)
        return Scores(layout.batch(scores), loss)
    labelled = (labels != IGNORED).nonzero().flatten()  # (M,)
    scores = head(rows[labelled])  # (N, H) -> (M, H) -> (M, V)
    return WordScores(head, encoded, functional.cross_entropy(scores.to(dtype), labels[labelled]))


class BertForPreTraining(BertWithHead):
    """BERT as it was pre-trained: masked words, and whether the second sentence follows.

    The loss is the sum of both. ``next_sentence_label`` (B,) is 0 if the second sentence follows.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.cls = BertPreTrainingHeads(config, self.bert.embeddings.word_embeddings)

    def forward(  # type: ignore[override]  # with two kinds of labels
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        labels: Tensor | None = None,
        next_sentence_label: Tensor | None = None,
    ) -> PreTrainingScores:
        """Score words and the second sentence."""
        pack = not _is_masked_token_labelled(labels, attention_mask)
        encoded = self.bert(input_ids, attention_mask, token_type_ids, position_ids, pack=pack)
        follows = self.cls.seq_relationship(encoded.pooled)  # (B, H) -> (B, 2)
        is_trained = next_sentence_label is not None
        words = _score_words(self.cls.predictions, encoded, labels if is_trained else None)
        if words.loss is None or next_sentence_label is None:
            return PreTrainingScores(words, follows)
        loss = words.loss + functional.cross_entropy(follows, next_sentence_label.view(-1))
        return PreTrainingScores(words, follows, loss)


class BertForMaskedLM(BertWithHead):
    """BERT that fills in masked words; ``labels`` (B, T) are the words, or -100."""

    has_pooler = False
    scores_tokens = True

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.cls = BertOnlyMLMHead(config, self.bert.embeddings.word_embeddings)

    def score(self, encoded: Encoded, labels: Tensor | None) -> Scores | WordScores:
        """Score every word of the vocabulary at each token."""
        return _score_words(self.cls.predictions, encoded, labels)


class BertLMHeadModel(BertForMaskedLM):
    """BERT that predicts the next word: a decoder if ``is_decoder`` is true."""

    def targets(self, labels: Tensor | None) -> Tensor | None:
        """Return the next word of each token, of labels (B, T); the last token has none."""
        if labels is None:
            return None
        return functional.pad(labels, (0, 1), value=IGNORED)[:, 1:]

    def score(self, encoded: Encoded, labels: Tensor | None) -> Scores | WordScores:
        """Score every word as the next one; the loss is computed in float32."""
        return _score_words(self.cls.predictions, encoded, labels, torch.float32)


class BertForNextSentencePrediction(BertWithHead):
    """BERT that predicts whether the second sentence follows; ``labels`` (B,) are 0 and 1."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.cls = BertOnlyNSPHead(config)

    def score(self, encoded: Encoded, labels: Tensor | None) -> Scores:
        """Score "follows" and "is random", (B, 2)."""
        scores = self.cls.seq_relationship(encoded.pooled)  # (B, H) -> (B, 2)
        if labels is None:
            return Scores(scores)
        return Scores(scores, functional.cross_entropy(scores, labels.view(-1)))


class BertForSequenceClassification(BertWithHead):
    """BERT that classifies a text or a pair of texts.

    ``labels`` are (B,) classes, (B,) numbers where C is 1, or (B, C) of 0 and 1.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.dropout = _head_dropout(config)
        self.classifier = _linear(config, config.num_labels)

    def score(self, encoded: Encoded, labels: Tensor | None) -> Scores:
        """Score the classes, (B, C)."""
        scores = self.classifier(self.dropout(encoded.pooled))  # (B, H) -> (B, C)
        return Scores(scores, None if labels is None else self.loss(scores, labels))

    def loss(self, scores: Tensor, labels: Tensor) -> Tensor:
        """Return the loss for the problem type in the config, or for one that suits the labels."""
        problem = self.config.problem_type
        if problem is None and scores.shape[1] == 1:
            problem = "regression"
        if problem is None and labels.is_floating_point():
            problem = "multi_label_classification"
        if problem == "regression":
            return functional.mse_loss(scores.squeeze(), labels.squeeze())
        if problem == "multi_label_classification":
            return functional.binary_cross_entropy_with_logits(scores, labels)
        return functional.cross_entropy(scores, labels.view(-1))


class BertForMultipleChoice(BertWithHead):
    """BERT that picks one of several endings; each is scored as a separate text.

    The inputs are (B, C, T) for C choices; ``labels`` (B,) are the right ones.
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.dropout = _head_dropout(config)
        self.classifier = _linear(config, 1)

    def forward(  # type: ignore[override]  # no memory: each choice is a text of its own
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        labels: Tensor | None = None,
    ) -> Scores:
        """Score the choices, (B, C)."""
        given = (input_ids, attention_mask, token_type_ids, position_ids)
        flat = [None if ids is None else ids.flatten(0, 1) for ids in given]  # (B·C, T) each
        scores = self.classifier(self.dropout(self.bert(*flat).pooled))  # (B·C, H) -> (B·C, 1)
        scores = scores.view(-1, input_ids.shape[1])  # (B, C)
        return Scores(scores, None if labels is None else functional.cross_entropy(scores, labels))


class BertForTokenClassification(BertWithHead):
    """BERT that classifies each token; ``labels`` (B, T) are the classes, or -100."""

    has_pooler = False
    scores_tokens = True

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.dropout = _head_dropout(config)
        self.classifier = _linear(config, config.num_labels)

    def score(self, encoded: Encoded, labels: Tensor | None) -> Scores:
        """Score the classes of each token, (B, T, C)."""
        scores = self.classifier(self.dropout(encoded.rows))  # (N, H) -> (N, C)
        loss = None
        if labels is not None:
            labels = encoded.layout.pick(labels).flatten()  # (N,)
            loss = functional.cross_entropy(scores, labels, ignore_index=IGNORED)
        return Scores(encoded.layout.batch(scores), loss)


class BertForQuestionAnswering(BertWithHead):
    """BERT that finds an answer in a text: where it starts, and where it ends.

    ``start_positions`` and ``end_positions`` (B,) past T are ignored. The loss covers all places
    including padding, as in the reference, so it disables packing.
    """

    has_pooler = False

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.qa_outputs = _linear(config, config.num_labels)

    def forward(  # type: ignore[override]  # with two kinds of labels
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        start_positions: Tensor | None = None,
        end_positions: Tensor | None = None,
    ) -> Span:
        """Score each place as start and as end of the answer."""
        pack = start_positions is None or end_positions is None
        encoded = self.bert(input_ids, attention_mask, token_type_ids, position_ids, pack=pack)
        scores = encoded.layout.batch(self.qa_outputs(encoded.rows))  # (N, 2) -> (B, T, 2)
        start, end = scores.unbind(-1)  # (B, T) each
        loss = None
        if start_positions is not None and end_positions is not None:
            loss = (_place_loss(start, start_positions) + _place_loss(end, end_positions)) / 2
        return Span(start, end, loss)


def _place_loss(scores: Tensor, positions: Tensor) -> Tensor:
    """Return the mean cross-entropy of scores (B, T) at positions (B,), without those past T."""
    length = scores.shape[1]
    positions = positions.view(-1).clamp(0, length)
    return functional.cross_entropy(scores, positions, ignore_index=length)


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
