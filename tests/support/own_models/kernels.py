"""A kernel with a size for each of its dims, and stages with a size each."""

import torch
from torch import nn


class KernelsConfig:
    width = 32
    kernel = (4, 4)
    stages = (16, 24)


class Kernels(nn.Module):
    def __init__(self, config: KernelsConfig) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(config.width, *config.kernel))
        self.stages = nn.ModuleList(nn.Linear(size, size) for size in config.stages)
