"""A decoder with a dataclass as config: grouped heads, tied weights, computed sizes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class GPTConfig:
    vocab_size: int = 96
    block_size: int = 32
    n_layer: int = 3
    n_embd: int = 48
    n_head: int = 6
    n_kv_head: int | None = None
    hidden_dim: int | None = None
    multiple_of: int = 16
    bias: bool = False
    tie: bool = True
    dropout: float = 0.1

    def __post_init__(self) -> None:
        assert self.n_embd % self.n_head == 0
        if self.n_kv_head is None:
            self.n_kv_head = self.n_head
        if self.hidden_dim is None:
            hidden = int(2 * 4 * self.n_embd / 3)
            self.hidden_dim = self.multiple_of * (
                (hidden + self.multiple_of - 1) // self.multiple_of
            )

    @property
    def head_dim(self) -> int:
        return self.n_embd // self.n_head


class RMSNorm(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))


class Attention(nn.Module):
    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        assert config.n_head % config.n_kv_head == 0
        self.q = nn.Linear(config.n_embd, config.n_head * config.head_dim, bias=config.bias)
        self.kv = nn.Linear(config.n_embd, 2 * config.n_kv_head * config.head_dim, bias=config.bias)
        self.o = nn.Linear(config.n_head * config.head_dim, config.n_embd, bias=config.bias)
        self.register_buffer(
            "mask", torch.tril(torch.ones(config.block_size, config.block_size)), persistent=False
        )


class Block(nn.Module):
    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.ln_1 = RMSNorm(config.n_embd)
        self.attn = Attention(config)
        self.ln_2 = RMSNorm(config.n_embd)
        self.mlp = nn.Sequential(
            nn.Linear(config.n_embd, config.hidden_dim, bias=config.bias),
            nn.GELU(),
            nn.Linear(config.hidden_dim, config.n_embd, bias=config.bias),
            nn.Dropout(config.dropout),
        )


class GPT(nn.Module):
    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(config.vocab_size, config.n_embd),
                "wpe": nn.Embedding(config.block_size, config.n_embd),
                "h": nn.ModuleList([Block(config) for _ in range(config.n_layer)]),
                "ln_f": RMSNorm(config.n_embd),
            }
        )
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        if config.tie:
            self.lm_head.weight = self.transformer["wte"].weight
        print("number of parameters:", sum(p.numel() for p in self.parameters()))
