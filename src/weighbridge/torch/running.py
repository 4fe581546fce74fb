"""Run a checkpoint on texts: words for [MASK], classes, answers, embeddings and more."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from weighbridge.answers.run import TextAnswer, TextAnswers
from weighbridge.errors import UsageError, shorten
from weighbridge.torch.loading import load_checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from torch import Tensor

    from weighbridge.torch.bert import Encoded
    from weighbridge.torch.loading import Loaded
    from weighbridge.torch.tokens import Batch, Text

    Asked = tuple[str, str | None]
    Watch = Callable[[int, int], None]

POOLS = ("cls", "pooler", "mean")
"""Ways to turn the tokens of a text into one vector: first token, pooled first token, mean."""
TOP = 5  # candidates for a [MASK]
MOST_ALIKE = 8  # embeddings in the table of similarities; with more it would be too wide
_AT_ONCE = 32  # texts in a batch; few enough for the memory of any machine
_POOLING = os.path.join("1_Pooling", "config.json")  # of sentence-transformers


def run_texts(
    checkpoint: str | os.PathLike[str],
    texts: Iterable[Asked],
    *,
    class_name: str | None = None,
    pool: str | None = None,
    top: int = TOP,
    watch: Watch | None = None,
) -> TextAnswers:
    """Run a checkpoint on texts, and return the outputs of its class.

    Args:
        checkpoint: as for `loading.load_checkpoint`.
        texts: pairs of a text and a second text or None. For `BertForQuestionAnswering` the second
            text contains the answer; for `BertForMultipleChoice` the pairs share the first text,
            and the second texts are its choices.
        class_name: the class to load; by default the one that the config names or that fits.
        pool: one of `POOLS` for an embedding; by default the setting in the folder of the
            checkpoint, or else the mean.
        top: the number of candidates for a [MASK].
        watch: called with the number of texts that are done, and the number of all texts.

    Raises:
        WeighbridgeError: the checkpoint cannot be loaded, or a text cannot be read.
    """
    asked = list(texts)
    if pool is not None and pool not in POOLS:
        raise UsageError(
            "there is no such pooling", values={"pool": pool}, hint=f"use one of {', '.join(POOLS)}"
        )
    if top < 1:
        raise UsageError(
            "--top must be 1 or more", values={"top": top}, hint="give a larger number"
        )
    loaded = load_checkpoint(checkpoint, class_name)
    how = pool or _pooling(loaded.where) or "mean"
    if how == "pooler" and not _has_pooler(loaded):
        hint = "use cls or mean"
        raise UsageError("this class has no pooler", values={"class": loaded.class_name}, hint=hint)
    texts_read = loaded.tokens.read_all(asked)
    answers = _answered(_Asking(loaded, how, top), asked, texts_read, watch)
    embeddings = [
        answer.results["embedding"] for answer in answers if "embedding" in answer.results
    ]
    return TextAnswers(
        loaded.where,
        loaded.class_name,
        sum(parameter.numel() for parameter in loaded.model.parameters()),
        how if embeddings else None,
        answers,
        _alike(embeddings),
        loaded.notes,
    )


class Classified(NamedTuple):
    """The label and probability of each text, and how many texts are cut off."""

    labels: list[str]
    scores: list[float]
    cut: int


def classify(loaded: Loaded, texts: Sequence[str], watch: Watch | None = None) -> Classified:
    """Give each text its most likely label.

    Raises:
        UsageError: the model does not give one of several labels.
    """
    check_classifier(loaded)
    asked: list[Asked] = [(text, None) for text in texts]
    texts_read = loaded.tokens.read_all(asked)
    answers = _answered(_Asking(loaded, POOLS[-1], TOP), asked, texts_read, watch)
    best = [answer.results["classes"][0] for answer in answers]
    return Classified(
        [entry["label"] for entry in best],
        [entry["probability"] for entry in best],
        sum(text.left_out > 0 for text in texts_read),
    )


def check_classifier(loaded: Loaded) -> None:
    """Refuse a model that does not give one of several labels.

    Raises:
        UsageError: it is of another class, or for another kind of problem.
    """
    problem = loaded.config.problem_type
    is_single = problem in (None, "single_label_classification")
    if loaded.class_name == _CLASSIFIER and len(loaded.labels) > 1 and is_single:
        return
    values = {"class": loaded.class_name, "labels": len(loaded.labels), "problem_type": problem}
    if loaded.class_name != _CLASSIFIER:
        values = {"class": loaded.class_name}
    raise UsageError(
        "only a classifier with one label for each text can label a table",
        where=loaded.where,
        values=values,
        hint="train one with weighbridge finetune",
    )


_CLASSIFIER = "BertForSequenceClassification"


def _answered(
    asking: _Asking, asked: Sequence[Asked], texts: Sequence[Text], watch: Watch | None
) -> tuple[TextAnswer, ...]:
    """Run a model on all texts, in batches."""
    answers: list[TextAnswer] = []
    class_name = _class_that_answers(asking.loaded, asked, texts)
    at_once = len(asked) if class_name == "BertForMultipleChoice" else _AT_ONCE
    with torch.inference_mode():
        for start in range(0, len(asked), at_once):
            batch = _Batch(asking, texts[start : start + at_once], asked[start : start + at_once])
            outputs = _GIVES[class_name](batch)
            for pair, text, output in zip(batch.asked, batch.texts, outputs, strict=True):
                answers.append(TextAnswer(*pair, len(text.ids), output, tuple(text.notes)))
            if watch:
                watch(len(answers), len(asked))
    return tuple(answers)


def _class_that_answers(loaded: Loaded, asked: Sequence[Asked], texts: Sequence[Text]) -> str:
    """Return the class to run: without any [MASK] or pair, the one that gives embeddings."""
    if loaded.class_name not in _FILLS:
        return loaded.class_name
    has_mask = any(loaded.tokens.mask in text.ids for text in texts)
    has_pair = any(second for _, second in asked)
    if has_mask or has_pair:
        return loaded.class_name
    return "BertModel"


def _alike(embeddings: Sequence[Sequence[float]]) -> tuple[tuple[float, ...], ...]:
    """Return the cosine of every two embeddings, if there are only a few."""
    if not 1 < len(embeddings) <= MOST_ALIKE:
        return ()
    vectors = torch.nn.functional.normalize(torch.tensor(embeddings), dim=1)
    return tuple(tuple(row) for row in (vectors @ vectors.T).tolist())


def asked(
    texts: Sequence[str], file: str | None, *, each: bool = False, class_name: str | None = None
) -> list[Asked]:
    """Return the texts of a request: a text, a pair, several texts, choices, or a file.

    The file ``"-"`` is standard input.

    Raises:
        UsageError: there are no texts, or too many; or the file is empty or cannot be read.

    Example:
        >>> asked(["It rains.", "It pours."], None)
        [('It rains.', 'It pours.')]
        >>> asked(["It rains.", "It pours."], None, each=True)
        [('It rains.', None), ('It pours.', None)]
    """
    if (file is None) == (not texts):
        found = {"texts": len(texts), "--file": file}
        raise UsageError(
            "run takes either texts or a file of texts",
            values=found,
            hint="give one of the two",
        )
    if file is not None:
        return _of_file(file)
    if each:
        return [(text, None) for text in texts]
    if class_name == "BertForMultipleChoice":
        return [(texts[0], choice) for choice in texts[1:]] or [(texts[0], None)]
    if len(texts) > 2:
        raise UsageError(
            "run takes one text or a pair of texts", values={"texts": len(texts)}, hint=_SEVERAL
        )
    first, *rest = texts
    return [(first, rest[0] if rest else None)]


_SEVERAL = (
    "add --each to run each text on its own, or --class BertForMultipleChoice for a text and its "
    "choices"
)


def _of_file(path: str) -> list[Asked]:
    try:
        if path == "-":
            return read_texts("stdin", sys.stdin.buffer)
        with open(path, "rb") as file:
            return read_texts(path, file)
    except OSError as error:
        raise UsageError(
            f"cannot be read: {error.strerror}", where=path, hint="give a text file"
        ) from None


def read_texts(path: str, lines: Iterable[bytes]) -> list[Asked]:
    r"""Return the texts of a file, one per line; a tab separates the two texts of a pair.

    Raises:
        UsageError: a line is empty, not UTF-8, or has more than two texts; or there is no line.

    Example:
        >>> read_texts("texts.txt", [b"It rains.\tIt pours.\n", "我爱自然语言处理\n".encode()])
        [('It rains.', 'It pours.'), ('我爱自然语言处理', None)]
    """
    texts = [_line(line, f"{path}:{number}") for number, line in enumerate(lines, 1)]
    if not texts:
        raise UsageError("contains no text", where=path, hint="write one text per line")
    return texts


def _line(raw: bytes, where: str) -> Asked:
    try:
        line = raw.decode("utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError as error:
        values = {"byte": error.start + 1, "found": raw[error.start : error.start + 8]}
        raise UsageError(
            "the line is not UTF-8", where=where, values=values, hint="save the file as UTF-8"
        ) from None
    first, *rest = line.split("\t")
    if len(rest) > 1:
        hint = "write one text per line, or two separated by a tab"
        raise UsageError(
            "the line has more than two texts",
            where=where,
            values={"texts": len(rest) + 1},
            hint=hint,
        )
    if not first.strip() or (rest and not rest[0].strip()):
        raise UsageError(
            "the text is empty",
            where=where,
            values={"line": line},
            hint="write a text on the line, or remove the line",
        )
    return first, rest[0] if rest else None


def _has_pooler(loaded: Loaded) -> bool:
    return getattr(getattr(loaded.model, "bert", loaded.model), "pooler", None) is not None


def _pooling(folder: str) -> str | None:
    """Return the pooling that sentence-transformers has set for a folder, if it is known."""
    try:
        with open(os.path.join(folder, _POOLING), encoding="utf-8") as file:
            settings = json.load(file)
    except (OSError, ValueError):
        return None
    for name, is_on in settings.items():
        if name.startswith("pooling_mode_") and is_on is True:
            return _POOL_OF_MODE.get(name)
    return None


_POOL_OF_MODE = {"pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean"}


# The outputs of each class


class _Asking(NamedTuple):
    """The model to run, and the output wanted from it."""

    loaded: Loaded
    pool: str
    top: int


class _Batch:
    """Texts that a model processes together."""

    def __init__(self, asking: _Asking, texts: Sequence[Text], asked: Sequence[Asked]) -> None:
        self.loaded, self.pool, self.top = asking
        self.texts, self.asked = texts, asked
        self.batch: Batch = self.loaded.tokens.batch(texts)

    def encoded(self) -> Encoded:
        """Return the tokens after the encoder, before any head."""
        bert = getattr(self.loaded.model, "bert", self.loaded.model)
        encoded: Encoded = bert(*self.batch)
        return encoded

    def scores(self) -> Any:
        """Return the output of the class."""
        return self.loaded.model(*self.batch)


def _embeddings(batch: _Batch) -> list[dict[str, Any]]:
    encoded = batch.encoded()
    tokens = encoded.last_hidden_state  # (B, T, H)
    mask = batch.batch.attention_mask.unsqueeze(-1)  # (B, T, 1)
    if batch.pool == "pooler":
        vectors = encoded.pooled
    elif batch.pool == "cls":
        vectors = tokens[:, 0]  # (B, H)
    else:
        vectors = (tokens * mask).sum(1) / mask.sum(1)  # (B, H)
    return [{"embedding": vector.tolist()} for vector in vectors]


def _masked_words(batch: _Batch) -> list[dict[str, Any]]:
    return [
        {"masks": _filled_masks(batch, text, scores)}
        for text, scores in zip(batch.texts, batch.scores().logits, strict=True)
    ]


def _filled_masks(batch: _Batch, text: Text, scores: Tensor) -> list[dict[str, Any]]:
    """Return the candidates for each [MASK] of a text, by the scores of its words (T, V)."""
    mask = batch.loaded.tokens.mask
    return [
        _candidates(batch, scores[place], place)
        for place, id_ in enumerate(text.ids)
        if id_ == mask
    ]


def _candidates(batch: _Batch, scores: Tensor, place: int) -> dict[str, Any]:
    """Return the candidates for one [MASK], by its scores (V,)."""
    shares, ids = scores.softmax(-1).topk(min(batch.top, len(scores)))
    pairs = zip(ids.tolist(), shares.tolist(), strict=True)
    words = [
        {"token": batch.loaded.tokens.word(id_), "id": id_, "probability": share}
        for id_, share in pairs
    ]
    return {"place": place, "candidates": words}


def _next_words(batch: _Batch) -> list[dict[str, Any]]:
    """Return the candidates for the next word, after the last word of a text, before [SEP]."""
    last = [len(text.ids) - 2 for text in batch.texts]
    return [
        {"masks": [_candidates(batch, scores[place], place + 1)]}
        for place, scores in zip(last, batch.scores().logits, strict=True)
    ]


def _follows(scores: Tensor) -> dict[str, Any]:
    return {"follows": scores.softmax(-1)[0].item()}


def _next_sentences(batch: _Batch) -> list[dict[str, Any]]:
    _check_pairs(batch, "the sentence that may follow it")
    return [_follows(scores) for scores in batch.scores().logits]


def _pre_training(batch: _Batch) -> list[dict[str, Any]]:
    scores = batch.scores()
    outputs = []
    for text, (_, second), words, follows in zip(
        batch.texts,
        batch.asked,
        scores.prediction_logits,
        scores.seq_relationship_logits,
        strict=True,
    ):
        output: dict[str, Any] = {"masks": _filled_masks(batch, text, words)}
        if second is not None:
            output |= _follows(follows)
        outputs.append(output)
    return outputs


def _classes(batch: _Batch) -> list[dict[str, Any]]:
    scores, problem = batch.scores().logits, batch.loaded.config.problem_type  # (B, C)
    if scores.shape[1] == 1 or problem == "regression":
        is_one = scores.shape[1] == 1
        return [{"value": row[0].item() if is_one else row.tolist()} for row in scores]
    shares = scores.sigmoid() if problem == "multi_label_classification" else scores.softmax(-1)
    return [{"classes": _with_labels(row, batch.loaded.labels)} for row in shares]


def _with_labels(shares: Tensor, labels: Sequence[str]) -> list[dict[str, Any]]:
    """Return each class with its probability, the most likely first."""
    pairs = zip(labels, shares.tolist(), strict=True)
    return [
        {"label": label, "probability": share}
        for label, share in sorted(pairs, key=lambda pair: -pair[1])
    ]


def _token_classes(batch: _Batch) -> list[dict[str, Any]]:
    shares, best = batch.scores().logits.softmax(-1).max(-1)  # (B, T)
    labels = batch.loaded.labels
    outputs = []
    for row, text in enumerate(batch.texts):
        tokens = [
            {"token": token, "label": labels[int(label)], "probability": float(share)}
            for token, label, share in zip(text.tokens, best[row], shares[row], strict=False)
            if token not in ("[CLS]", "[SEP]")
        ]
        outputs.append({"tokens": tokens})
    return outputs


def _answers(batch: _Batch) -> list[dict[str, Any]]:
    """Find the most likely span in the second text that does not end before it starts."""
    _check_pairs(batch, "the text that contains the answer")
    scores = batch.scores()
    found = []
    for text, start, end in zip(batch.texts, scores.start_logits, scores.end_logits, strict=True):
        allowed = torch.tensor([segment == 1 for segment in text.segments])
        allowed[-1] = False  # the last [SEP]
        length = len(text.ids)
        starts = start[:length].masked_fill(~allowed, -torch.inf).softmax(0)  # (T,)
        ends = end[:length].masked_fill(~allowed, -torch.inf).softmax(0)  # (T,)
        likely = (starts[:, None] * ends[None, :]).triu()  # (T, T)
        first, last = divmod(int(likely.argmax()), length)
        answer = batch.loaded.tokens.text(text.ids[first : last + 1])
        span = {
            "answer": answer,
            "start": first,
            "end": last,
            "probability": likely[first, last].item(),
        }
        found.append({"span": span})
    return found


def _choices(batch: _Batch) -> list[dict[str, Any]]:
    _check_pairs(batch, "a choice")
    if len({first for first, _ in batch.asked}) > 1:
        raise UsageError(
            "all choices must belong to one text", hint="give one text, followed by its choices"
        )
    one_text = [tensor.unsqueeze(0) for tensor in batch.batch]  # (1, C, T)
    scores = batch.loaded.model(*one_text).logits[0]  # (C,)
    return [{"choice": share} for share in scores.softmax(-1).tolist()]


def _check_pairs(batch: _Batch, what: str) -> None:
    alone = next((first for first, second in batch.asked if second is None), None)
    if alone is not None:
        values = {"class": batch.loaded.class_name, "text": shorten(alone, str)}
        raise UsageError(
            "this class takes two texts", values=values, hint=f"give {what} as the second text"
        )


_GIVES: dict[str, Callable[[_Batch], list[dict[str, Any]]]] = {
    "BertModel": _embeddings,
    "BertForPreTraining": _pre_training,
    "BertForMaskedLM": _masked_words,
    "BertLMHeadModel": _next_words,
    "BertForNextSentencePrediction": _next_sentences,
    "BertForSequenceClassification": _classes,
    "BertForMultipleChoice": _choices,
    "BertForTokenClassification": _token_classes,
    "BertForQuestionAnswering": _answers,
}
"""The output of each class."""
_FILLS = ("BertForMaskedLM", "BertForPreTraining")
"""The classes that fill a [MASK]. A text without a [MASK] or a second text gets an embedding."""
