"""A decoder as its authors published it: rounded sizes, and a factor that is null by default."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from torch import nn


@dataclass
class ModelArgs:
    dim: int = 64
    n_layers: int = 3
    n_heads: int = 4
    n_kv_heads: Optional[int] = None  # noqa: UP045  # as it was written
    vocab_size: int = 50
    multiple_of: int = 8
    ffn_dim_multiplier: Optional[float] = None  # noqa: UP045
    norm_eps: float = 1e-5


class FeedForward(nn.Module):
    def __init__(
        self,
        dim: int,
        hidden_dim: int,
        multiple_of: int,
        ffn_dim_multiplier: Optional[float],  # noqa: UP045
    ) -> None:
        super().__init__()
        hidden_dim = int(2 * hidden_dim / 3)
        if ffn_dim_multiplier is not None:
            hidden_dim = int(ffn_dim_multiplier * hidden_dim)
        hidden_dim = multiple_of * ((hidden_dim + multiple_of - 1) // multiple_of)
        self.w1 = nn.Linear(dim, hidden_dim, bias=False)
        self.w2 = nn.Linear(hidden_dim, dim, bias=False)
        self.w3 = nn.Linear(dim, hidden_dim, bias=False)


class TransformerBlock(nn.Module):
    def __init__(self, layer_id: int, args: ModelArgs) -> None:
        super().__init__()
        self.layer_id = layer_id
        n_kv_heads = args.n_heads if args.n_kv_heads is None else args.n_kv_heads
        head_dim = args.dim // args.n_heads
        assert args.n_heads % n_kv_heads == 0
        self.wq = nn.Linear(args.dim, args.n_heads * head_dim, bias=False)
        self.wk = nn.Linear(args.dim, n_kv_heads * head_dim, bias=False)
        self.wv = nn.Linear(args.dim, n_kv_heads * head_dim, bias=False)
        self.wo = nn.Linear(args.n_heads * head_dim, args.dim, bias=False)
        self.feed_forward = FeedForward(
            args.dim, 4 * args.dim, args.multiple_of, args.ffn_dim_multiplier
        )
        self.norm = nn.LayerNorm(args.dim, eps=args.norm_eps, bias=False)


class Transformer(nn.Module):
    def __init__(self, params: ModelArgs) -> None:
        super().__init__()
        self.tok_embeddings = nn.Embedding(params.vocab_size, params.dim)
        self.layers = nn.ModuleList()
        for layer_id in range(params.n_layers):
            self.layers.append(TransformerBlock(layer_id, params))
        self.output = nn.Linear(params.dim, params.vocab_size, bias=False)
