"""The heads of BERT, and the classes that put one on a `BertModel`."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from weighbridge.torch.bert.model import ACTIVATIONS, BertConfig, BertModel, Encoded, initialise

IGNORED = -100  # the label of a token that no loss counts


# --------------------------------------------------------------------------------------------------
# Their parts


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
        initialise(self, config)
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
        initialise(self, config)


class BertPreTrainingHeads(nn.Module):
    """The two heads that BERT was pre-trained with."""

    def __init__(self, config: BertConfig, words: nn.Embedding) -> None:
        super().__init__()
        self.predictions = BertLMPredictionHead(config, words)
        self.seq_relationship = nn.Linear(config.hidden_size, 2)
        initialise(self.seq_relationship, config)


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
    initialise(linear, config)
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
