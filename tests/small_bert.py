"""Small BERTs with random numbers, saved as checkpoints are."""

import json
from pathlib import Path

import torch
import wheels
from safetensors.torch import save_file

from weighbridge.torch.bert import CLASSES, BertConfig

SIZES = {
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 40,
    "max_position_embeddings": 48,
}


def save(folder: Path, class_name: str = "BertModel", words: list[str] | None = None, **fields: object) -> Path:
    """Write a checkpoint of a class, whose words are those of bert-base-chinese if none are given."""
    folder.mkdir(parents=True, exist_ok=True)
    text = "\n".join(words) if words else (wheels.model(wheels.CHINESE_WORDS) / "vocab.txt").read_text("utf-8")
    (folder / "vocab.txt").write_text(text, "utf-8")
    sizes = {**SIZES, "vocab_size": len(text.splitlines()), **fields}
    said = {"model_type": "bert", "architectures": [class_name], **sizes}
    labels = said.pop("num_labels", None)
    if labels:
        said["id2label"] = {str(at): f"LABEL_{at}" for at in range(int(str(labels)))}
    (folder / "config.json").write_text(json.dumps(said), "utf-8")
    torch.manual_seed(0)
    model = CLASSES[class_name](BertConfig(**sizes, initializer_range=0.3))
    save_file(dict(model.named_parameters()), folder / "model.safetensors")
    return folder
