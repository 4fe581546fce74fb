"""A vision encoder with nested pydantic models as config; it reads the items of a linspace."""

from __future__ import annotations

import torch
from pydantic import BaseModel, Field, model_validator
from torch import nn


class PatchConfig(BaseModel):
    size: int = Field(default=8, ge=1)
    channels: int = 3
    norm: bool = False


class VisionConfig(BaseModel, frozen=True):
    image: int = 32
    width: int = 40
    depth: int = 4
    heads: int = 4
    ratio: float = 4.0
    registers: int = 0
    drop_path: float = 0.1
    patch: PatchConfig = Field(default_factory=PatchConfig)

    @model_validator(mode="after")
    def _divides(self) -> VisionConfig:
        if self.image % self.patch.size:
            raise ValueError("patches must tile the image")
        return self


class Mlp(nn.Module):
    def __init__(self, width: int, hidden: int, drop: float) -> None:
        super().__init__()
        self.fc1 = nn.Linear(width, hidden)
        self.fc2 = nn.Linear(hidden, width)
        self.drop = drop


class EncoderBlock(nn.Module):
    def __init__(self, config: VisionConfig, drop: float) -> None:
        super().__init__()
        self.attn = nn.MultiheadAttention(config.width, config.heads, batch_first=True)
        self.norm = nn.LayerNorm(config.width)
        self.mlp = Mlp(config.width, int(config.width * config.ratio), drop)


class Vision(nn.Module):
    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        size = config.patch.size
        self.patch = nn.Conv2d(config.patch.channels, config.width, kernel_size=size, stride=size)
        self.patch_norm = nn.LayerNorm(config.width) if config.patch.norm else nn.Identity()
        self.cls = nn.Parameter(torch.zeros(1, 1, config.width))
        if config.registers > 0:
            self.registers = nn.Parameter(torch.zeros(1, config.registers, config.width))
        self.position = nn.Parameter(torch.zeros(1, (config.image // size) ** 2 + 1, config.width))
        drops = [drop.item() for drop in torch.linspace(0, config.drop_path, config.depth)]
        self.blocks = nn.ModuleList([EncoderBlock(config, drop) for drop in drops])
