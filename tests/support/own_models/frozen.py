"""A model with a frozen dataclass, one more inside it, and a size without default; a task class."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import nn


@dataclass(frozen=True)
class Experts:
    number: int = 4
    hidden: int = 20
    every: tuple[int, ...] = (1, 3)


@dataclass(frozen=True)
class SparseConfig:
    vocab_size: int
    width: int = 16
    layers: int = 4
    experts: Experts = field(default_factory=lambda: Experts(hidden=24))
    classes: int = 3


class SparseLayer(nn.Module):
    def __init__(self, config: SparseConfig, index: int) -> None:
        super().__init__()
        self.mix = nn.Linear(config.width, config.width)
        if index in config.experts.every:
            self.experts = nn.ModuleList(
                nn.Linear(config.width, config.experts.hidden) for _ in range(config.experts.number)
            )
        else:
            self.one = nn.Linear(config.width, config.experts.hidden, bias=False)


class Sparse(nn.Module):
    def __init__(self, config: SparseConfig) -> None:
        super().__init__()
        self.embed = nn.Embedding(config.vocab_size, config.width)
        self.layers = nn.ModuleList(SparseLayer(config, index) for index in range(config.layers))


class SparseClassifier(nn.Module):
    def __init__(self, config: SparseConfig) -> None:
        super().__init__()
        self.body = Sparse(config)
        self.head = nn.Linear(config.width, config.classes)
