"""Small BERTs with random weights, saved as checkpoints by transformers or by our own classes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import torch
import wheels
from safetensors.torch import save_file
from transformers import BertConfig
from transformers.models.bert import modeling_bert as reference

from weighbridge.torch import bert as ours

if TYPE_CHECKING:
    from pathlib import Path

_SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
_PIECES = [
    "a",
    "b",
    "c",
    "the",
    "cat",
    "dog",
    "sat",
    "##s",
    "on",
    "mat",
    "it",
    "rain",
    "##ing",
    "pour",
    "##ed",
    "is",
]
LOVE = [*_SPECIAL, "i", "love", "it", "so", "do", "you"]
WORDS = [*_SPECIAL, *_PIECES, *".,!?", *"我爱自然语言处理好坏。"]
SIZES = {
    "vocab_size": len(WORDS),
    "hidden_size": 24,
    "num_attention_heads": 3,
    "num_hidden_layers": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 16,
}


def write_vocabulary(folder: Path, words: list[str] = WORDS) -> None:
    (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in words), encoding="utf-8")


def model(class_name: str, seed: int = 0, **fields: Any) -> Any:
    """Return a transformers model with random weights, large enough that all answers differ."""
    torch.manual_seed(seed)
    made = getattr(reference, class_name)(BertConfig(**{**SIZES, **fields})).eval()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return made


def write(folder: Path, class_name: str = "BertModel", **fields: Any) -> Any:
    """Write a checkpoint with its vocabulary, and return its model."""
    made = model(class_name, **fields)
    made.save_pretrained(folder)
    write_vocabulary(folder)
    return made


def change(folder: Path, **fields: Any) -> None:
    """Change fields of a checkpoint's config."""
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


# With our own classes

SMALL = {
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 40,
    "max_position_embeddings": 48,
}


def save(
    folder: Path, class_name: str = "BertModel", words: list[str] | None = None, **fields: object
) -> Path:
    """Write a checkpoint of a class; the vocabulary of bert-base-chinese is the default."""
    folder.mkdir(parents=True, exist_ok=True)
    text = (
        "\n".join(words)
        if words
        else (wheels.model(wheels.CHINESE_WORDS) / "vocab.txt").read_text("utf-8")
    )
    (folder / "vocab.txt").write_text(text, "utf-8")
    sizes = {**SMALL, "vocab_size": len(text.splitlines()), **fields}
    config = {"model_type": "bert", "architectures": [class_name], **sizes}
    labels = config.pop("num_labels", None)
    if labels:
        config["id2label"] = {str(at): f"LABEL_{at}" for at in range(int(str(labels)))}
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    torch.manual_seed(0)
    model = ours.CLASSES[class_name](ours.BertConfig(**sizes, initializer_range=0.3))
    save_file(dict(model.named_parameters()), folder / "model.safetensors")
    return folder
