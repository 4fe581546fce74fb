"""Writes a BERT so small that the docs can run it.

It has nine words, and random weights that are the same each time.

python tools/small_bert.py FOLDER
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

from weighbridge.torch import bert

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "truck", "is", "weighed")
SIZES = {
    "vocab_size": len(WORDS),
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 16,
}


def write(folder: Path, class_name: str = "BertModel") -> None:
    """Write the checkpoint of a class: config.json, vocab.txt and model.safetensors."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {"model_type": "bert", **SIZES}
    if class_name != "BertModel":
        config["architectures"] = [class_name]
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    (folder / "vocab.txt").write_text("\n".join(WORDS), "utf-8")
    torch.manual_seed(0)
    model = getattr(bert, class_name)(bert.BertConfig(**SIZES, initializer_range=0.5))
    save_file(dict(model.named_parameters()), folder / "model.safetensors")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
