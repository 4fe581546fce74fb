"""A module with a branch that only two fields together reach, as vision transformers have it."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn


@dataclass
class ShortcutConfig:
    dim: int = 48
    depth: int = 2
    heads: int = 4
    dim_head: int = 16


class Shortcut(nn.Module):
    """Projects the heads back, unless there is one head as wide as the model."""

    def __init__(self, config: ShortcutConfig) -> None:
        super().__init__()
        inner = config.heads * config.dim_head
        project_out = not (config.heads == 1 and config.dim_head == config.dim)
        self.to_qkv = nn.ModuleList(
            nn.Linear(config.dim, 3 * inner, bias=False) for _ in range(config.depth)
        )
        self.to_out = nn.Linear(inner, config.dim) if project_out else nn.Identity()
