"""A model with counts that may be zero: no experts, and no memory."""

import torch
from torch import nn


class PartsConfig:
    width = 32
    num_experts = 4
    num_heads = 2


class Parts(nn.Module):
    def __init__(self, config: PartsConfig) -> None:
        super().__init__()
        self.experts = nn.Parameter(torch.empty(config.num_experts, config.width))
        self.heads = nn.Parameter(torch.empty(config.num_heads, config.width))
