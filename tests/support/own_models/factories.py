"""Modules written as packages write them: factories, keywords, parts, enumerations."""

from __future__ import annotations

import copy
import enum
from typing import Any

import torch
from torch import nn


class Norm(enum.Enum):
    LAYER = "layer norm"
    RMS = "rms norm"
    NONE = "none"


class Block(nn.Module):
    def __init__(self, width: int, heads: int = 4, head_size: int = 8, norm: Norm = Norm.LAYER):
        super().__init__()
        inner = heads * head_size
        is_projected = not (heads == 1 and head_size == width)
        self.qkv = nn.Linear(width, 3 * inner, bias=False)
        self.out = nn.Linear(inner, width) if is_projected else nn.Identity()
        if norm is Norm.LAYER:
            self.norm = nn.LayerNorm(width)
        elif norm is Norm.RMS:
            self.norm = nn.RMSNorm(width)


class Tower(nn.Module):
    """Its depths must be a tuple, though nothing says so."""

    def __init__(self, *, depths, width=16, pool="cls", classes=10, **block: Any):
        super().__init__()
        if not isinstance(depths, tuple):
            raise TypeError("depths: a tuple is needed")
        if pool not in {"cls", "mean"}:
            raise ValueError("pool: cls or mean")
        hidden = block.pop("hidden", 24)
        self.stages = nn.ModuleList()
        for depth in depths:
            self.stages.append(nn.ModuleList([Block(width, **block) for _ in range(depth)]))
        self.cls = nn.Parameter(torch.randn(1, 1, width)) if pool == "cls" else None
        self.head = nn.Sequential(nn.Linear(width, hidden), nn.Linear(hidden, classes))


class WideTower(Tower):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(width=32, **kwargs)


def _tower(depths: tuple[int, ...], weights: Any, **kwargs: Any) -> Tower:
    if weights is not None:
        kwargs["classes"] = weights.classes
    return Tower(depths=depths, **kwargs)


def small_tower(*, weights: Any = None, **kwargs: Any) -> Tower:
    return _tower((1, 2), weights, **kwargs)


def no_tower(size: int = 3) -> list[int]:
    return [size]


class Stack(nn.Module):
    """Copies a block that it is given, as torch.nn.TransformerEncoder does."""

    def __init__(
        self, block: nn.Module, number: int = 2, norm_class: type[nn.Module] = nn.LayerNorm
    ):
        super().__init__()
        self.blocks = nn.ModuleList([copy.deepcopy(block) for _ in range(number)])
        self.norm = norm_class(block.qkv.in_features)


class Rotated(nn.Module):
    """Moves what it computes between devices, as code does that runs on a GPU."""

    def __init__(self, width: int = 8, features: int = 6) -> None:
        super().__init__()
        rows, _ = torch.linalg.qr(torch.randn(features, features).cpu())
        self.register_buffer("rows", rows.to("cpu", torch.float32))
        self.one = nn.Linear(width, features)
