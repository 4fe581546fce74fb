"""BERT in PyTorch: `layout` places tokens, `model` encodes them, `heads` score what was encoded.

Everything except attention works on each token alone. So the tokens of all sentences are the rows
of one matrix, (N, H), and only attention needs to know which rows form a sentence: a `Layout` says
so. With padding, N is B·T. A packed batch has no padding, and N is the number of real tokens:
nothing is computed for the padding, and its outputs are zeros.

A comment gives the shape wherever it changes, in these letters:

    B  sentences in a batch       H  hidden size                     V  vocabulary size
    T  tokens of the longest      A  attention heads                 F  feed-forward size
    N  tokens in all              D  size of a head, H / A           C  classes
"""

from __future__ import annotations

from weighbridge.torch.bert.heads import (
    CLASSES,
    IGNORED,
    BertForMaskedLM,
    BertForMultipleChoice,
    BertForNextSentencePrediction,
    BertForPreTraining,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertLMHeadModel,
)
from weighbridge.torch.bert.layout import Layout, lay_out
from weighbridge.torch.bert.model import ACTIVATIONS, ATTENTIONS, BertConfig, BertModel, Encoded

__all__ = [
    "ACTIVATIONS",
    "ATTENTIONS",
    "CLASSES",
    "IGNORED",
    "BertConfig",
    "BertForMaskedLM",
    "BertForMultipleChoice",
    "BertForNextSentencePrediction",
    "BertForPreTraining",
    "BertForQuestionAnswering",
    "BertForSequenceClassification",
    "BertForTokenClassification",
    "BertLMHeadModel",
    "BertModel",
    "Encoded",
    "Layout",
    "lay_out",
]
