"""An encoder configured by nested dicts, as in notebooks; and one with torch's own layers."""

from __future__ import annotations

from typing import Any

from torch import nn

CONFIG = {
    "vocab_size": 60,
    "emb_dim": 24,
    "n_layers": 3,
    "ffn": {"hidden": 48, "gated": False, "act": "gelu"},
    "qkv_bias": False,
    "context-length": 16,
}


class FFN(nn.Module):
    def __init__(self, dim: int, ffn: dict[str, Any]) -> None:
        super().__init__()
        self.w1 = nn.Linear(dim, ffn["hidden"])
        if ffn["gated"]:
            self.gate = nn.Linear(dim, ffn["hidden"], bias=False)
        self.w2 = nn.Linear(ffn["hidden"], dim)


class Encoder(nn.Module):
    def __init__(self, cfg: dict[str, Any]) -> None:
        super().__init__()
        dim = cfg["emb_dim"]
        self.emb = nn.Embedding(cfg["vocab_size"], dim)
        self.pos = nn.Embedding(cfg["context-length"], dim)
        self.blocks = nn.Sequential(
            *[
                nn.ModuleDict(
                    {
                        "qkv": nn.Linear(dim, dim * 3, bias=cfg["qkv_bias"]),
                        "ffn": FFN(dim, cfg["ffn"]),
                    }
                )
                for _ in range(cfg["n_layers"])
            ]
        )
