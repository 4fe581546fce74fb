"""Classes with constructors of every kind: without arguments, with sizes, with a whole config."""

from __future__ import annotations

from typing import Any

from torch import nn

WIDTH = {"width": 8}


class NoArguments(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Linear(8, 4)
        self.norm = nn.BatchNorm1d(4)


class AnyKeywords(nn.Module):
    def __init__(self, **more: Any) -> None:
        super().__init__()
        self.one = nn.Linear(more.get("width", 3), 4)


class WithDefaults(nn.Module):
    def __init__(self, width: int = 8, depth: int = 2) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))


class WithSizes(nn.Module):
    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))


class WithDict(nn.Module):
    def __init__(self, config: dict[str, int]) -> None:
        super().__init__()
        self.one = nn.Linear(config["width"], 4)


class NoModule:
    pass
