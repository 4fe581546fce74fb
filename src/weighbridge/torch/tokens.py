"""From texts to batches: WordPiece of the `tokenizers` library, and notes on lost tokens."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from tokenizers import Tokenizer
from tokenizers.implementations.bert_wordpiece import BertWordPieceTokenizer

from weighbridge.errors import CheckpointError, UsageError, shorten

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tokenizers import Encoding
    from torch import Tensor

FILES = ("tokenizer.json", "vocab.txt", "tokenizer_config.json")
"""The files of a tokenizer, stored next to a checkpoint."""
_SPECIAL = ("[CLS]", "[SEP]", "[PAD]", "[UNK]")
_FIT = "use the tokenizer.json or vocab.txt that the checkpoint was trained with"


class Text(NamedTuple):
    """A text as a model sees it: tokens, ids and segments, and the number of tokens cut off."""

    tokens: tuple[str, ...]
    ids: tuple[int, ...]
    segments: tuple[int, ...]
    left_out: int
    unknown: int

    @property
    def notes(self) -> list[str]:
        """Notes for the user on lost or unknown tokens."""
        notes = []
        if self.left_out:
            notes.append(
                f"the text is longer than the {len(self.ids)} positions; "
                f"tokens cut off: {self.left_out}"
            )
        if self.unknown:
            notes.append(f"tokens that are not in the vocabulary and become [UNK]: {self.unknown}")
        return notes


class Batch(NamedTuple):
    """Texts of different lengths as one batch, each (B, T), padded to the longest."""

    input_ids: Tensor
    attention_mask: Tensor
    token_type_ids: Tensor

    def to(self, device: str | torch.device) -> Batch:
        """Return the batch on a device."""
        return Batch(*(of.to(device) for of in self))


class Tokens:
    """The tokenizer of a checkpoint.

    Args:
        folder: the folder with ``tokenizer.json`` or ``vocab.txt``.
        vocab_size: the number of words that the model has embeddings for.
        positions: the number of tokens that the model has positions for.

    Raises:
        CheckpointError: there is no tokenizer, it cannot be read, or it does not fit the model.
    """

    def __init__(self, folder: str, vocab_size: int, positions: int) -> None:
        self.folder, self.positions = folder, positions
        self._tokenizer = _read(folder)
        self._tokenizer.no_padding()
        self._check(vocab_size)
        self.pad, self.mask = self.id("[PAD]"), self._tokenizer.token_to_id("[MASK]")

    def _check(self, vocab_size: int) -> None:
        lacking = [word for word in _SPECIAL if self._tokenizer.token_to_id(word) is None]
        if lacking:
            raise CheckpointError(
                f"the vocabulary has no {', '.join(lacking)}", where=self.folder, hint=_FIT
            )
        highest = max(self._tokenizer.get_vocab().values())
        if highest >= vocab_size:
            values = {"vocab_size": vocab_size, "highest id": highest}
            raise CheckpointError(
                "the vocabulary does not fit the model", where=self.folder, values=values, hint=_FIT
            )

    def id(self, word: str) -> int:
        """Return the id of a word that every vocabulary contains."""
        return int(self._tokenizer.token_to_id(word) or 0)

    def word(self, id_: int) -> str:
        """Return the word with an id; an empty text if there is none."""
        return self._tokenizer.id_to_token(id_) or ""

    def text(self, ids: Sequence[int]) -> str:
        """Return the text of a sequence of ids."""
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=True))

    def read(self, text: str, second: str | None = None, *, longest: int | None = None) -> Text:
        """Return a text, or a pair of texts, as tokens, cut to the positions of the model.

        Raises:
            UsageError: a text is empty or not UTF-8.
        """
        return next(iter(self.read_all([(text, second)], longest=longest)))

    def read_all(
        self, texts: Iterable[tuple[str, str | None]], *, longest: int | None = None
    ) -> list[Text]:
        """Return texts as tokens, cut to ``longest`` or to the positions of the model."""
        asked = [
            text if second is None else (text, second) for text, second in map(_checked, texts)
        ]
        most = min(longest or self.positions, self.positions)
        self._tokenizer.no_truncation()
        whole = self._tokenizer.encode_batch(asked)
        self._tokenizer.enable_truncation(most)
        texts_read = []
        for text, encoding in zip(asked, whole, strict=True):
            length = len(encoding)
            if length > most:
                encoding = self._tokenizer.encode_batch([text])[0]  # noqa: PLW2901  # cut
            texts_read.append(self._text(encoding, length))
        return texts_read

    def _text(self, encoding: Encoding, length: int) -> Text:
        left_out, unknown = length - len(encoding), encoding.ids.count(self.id("[UNK]"))
        return Text(
            tuple(encoding.tokens), tuple(encoding.ids), tuple(encoding.type_ids), left_out, unknown
        )

    def batch(self, texts: Sequence[Text]) -> Batch:
        """Return texts as one batch, padded to the longest."""
        length = max(len(text.ids) for text in texts)

        def filled(rows: Iterable[Sequence[int]], value: int) -> Tensor:
            return torch.tensor([[*row, *[value] * (length - len(row))] for row in rows])

        ids, segments = (
            filled((text.ids for text in texts), self.pad),
            filled((text.segments for text in texts), 0),
        )
        return Batch(ids, filled(([1] * len(text.ids) for text in texts), 0), segments)


def _checked(texts: tuple[str, str | None]) -> tuple[str, str | None]:
    for text in texts:
        if text is not None and not text.strip():
            raise UsageError("the text is empty", values={"text": text}, hint="give a text")
        if text is not None and any("\ud800" <= letter <= "\udfff" for letter in text):
            raise UsageError(
                "the text is not UTF-8", values={"text": ascii(text)}, hint="encode it as UTF-8"
            )
    return texts


def _read(folder: str) -> Tokenizer:
    """Read ``tokenizer.json``, or ``vocab.txt`` with the settings in ``tokenizer_config.json``."""
    whole, words = os.path.join(folder, "tokenizer.json"), os.path.join(folder, "vocab.txt")
    try:
        if os.path.exists(whole):
            return Tokenizer.from_file(whole)
        if os.path.exists(words):
            return _of_words(words, _settings(os.path.join(folder, "tokenizer_config.json")))
    except Exception as error:  # tokenizers raises Exception itself
        values = {"reason": str(error)}
        raise CheckpointError(
            "the tokenizer cannot be read", where=folder, values=values, hint=_FIT
        ) from None
    hint = "put tokenizer.json or vocab.txt next to the checkpoint"
    raise CheckpointError("there is no tokenizer", where=folder, hint=hint)


def _of_words(path: str, settings: dict[str, Any]) -> Tokenizer:
    with open(path, encoding="utf-8") as file:
        lines = [line.rstrip("\r\n") for line in file]
    if not lines or len(set(lines)) != len(lines):
        twice = next((word for word in lines if lines.count(word) > 1), None)
        if twice:
            raise ValueError(f"vocab.txt lists {shorten(twice, str)} twice")
        raise ValueError("vocab.txt is empty")
    made = BertWordPieceTokenizer(
        {word: place for place, word in enumerate(lines)},
        lowercase=bool(settings.get("do_lower_case", True)),
        handle_chinese_chars=bool(settings.get("tokenize_chinese_chars", True)),
        strip_accents=settings.get("strip_accents"),
    )
    return made._tokenizer  # the only thing that this class of the library wraps


def _settings(path: str) -> dict[str, Any]:
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        settings = json.load(file)
    if not isinstance(settings, dict):
        raise TypeError("tokenizer_config.json is not a JSON object")
    return settings
