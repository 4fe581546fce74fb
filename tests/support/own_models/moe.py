"""A mixture of experts with a plain class as config; some layers have experts."""

from __future__ import annotations

import torch
from torch import nn


class MoEConfig:
    vocab = 80
    dim = 32
    n_layers = 6
    heads = 4
    ffn = 64
    first_dense = 1
    moe_every = 2
    experts = 4
    expert_ffn = 24
    shared_experts = 1
    top_k = 2
    qk_norm = False


class Feed(nn.Module):
    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.up = nn.Linear(dim, hidden, bias=False)
        self.down = nn.Linear(hidden, dim, bias=False)


class Experts(nn.Module):
    def __init__(self, cfg: MoEConfig) -> None:
        super().__init__()
        self.router = nn.Parameter(torch.empty(cfg.experts, cfg.dim))
        self.experts = nn.ModuleList(Feed(cfg.dim, cfg.expert_ffn) for _ in range(cfg.experts))
        if cfg.shared_experts > 0:
            self.shared = Feed(cfg.dim, cfg.expert_ffn * cfg.shared_experts)


class Layer(nn.Module):
    def __init__(self, cfg: MoEConfig, index: int) -> None:
        super().__init__()
        if cfg.dim % cfg.heads:
            raise ValueError("heads must divide dim")
        self.norm = nn.LayerNorm(cfg.dim)
        self.qkv = nn.Linear(cfg.dim, 3 * cfg.dim)
        self.out = nn.Linear(cfg.dim, cfg.dim)
        if cfg.qk_norm:
            self.q_norm = nn.LayerNorm(cfg.dim // cfg.heads)
            self.k_norm = nn.LayerNorm(cfg.dim // cfg.heads)
        if index >= cfg.first_dense and index % cfg.moe_every == 0:
            self.mlp = Experts(cfg)
        else:
            self.mlp = Feed(cfg.dim, cfg.ffn)


class MoE(nn.Module):
    def __init__(self, cfg: MoEConfig) -> None:
        super().__init__()
        self.embed = nn.Embedding(cfg.vocab, cfg.dim)
        self.layers = nn.ModuleList([Layer(cfg, index) for index in range(cfg.n_layers)])
        self.norm = nn.LayerNorm(cfg.dim)
        self.head = nn.Linear(cfg.dim, cfg.vocab, bias=False)
