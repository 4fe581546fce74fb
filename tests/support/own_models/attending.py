"""A small language model with a head that can run; its config selects the attention."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional


@dataclass
class Config:
    vocab_size: int = 40
    width: int = 24
    depth: int = 2
    inner: int = 36
    dropout: float = 0.1
    attention: str = "eager"


class Layer(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.attention = config.attention
        self.mix = nn.Linear(config.width, 3 * config.width)
        self.up = nn.Linear(config.width, config.inner)
        self.down = nn.Linear(config.inner, config.width)
        self.drop = nn.Dropout(config.dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (B, S, W) -> (B, S, W)
        q, k, v = self.mix(x).chunk(3, dim=-1)
        if self.attention == "sdpa":
            mixed = functional.scaled_dot_product_attention(q, k, v)
        else:
            mixed = (q @ k.transpose(-1, -2)).softmax(-1) @ v
        return x + self.drop(self.down(torch.relu(self.up(x + mixed))))


class Model(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.embed = nn.Embedding(config.vocab_size, config.width)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.depth))

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(input_ids)
        for layer in self.layers:
            x = layer(x)
        return x
