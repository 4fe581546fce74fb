"""Modules whose configs are hard to explore, each with its exploration."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from torch import nn

from weighbridge.derive.probing.explore import explore_configs
from weighbridge.derive.probing.own import OwnSubject
from weighbridge.derive.probing.probe import quick_building
from weighbridge.derive.probing.state import begin

if TYPE_CHECKING:
    from weighbridge.derive.probing.state import Exploration


@dataclass
class ChoicesConfig:
    width: int = 32
    heads: int = 4
    kv: int | None = 2
    layers: int = 6
    wide: bool = False
    gated: bool = False
    act: str = "plain"
    version: str = "v1"
    rounds: int = 2
    near: int = 3
    vocab: int = 1000
    dropout: float = 0.1
    verbose: bool = False


class Choices(nn.Module):
    """Accepts some fields only together with others, and some with one value only."""

    def __init__(self, config: ChoicesConfig) -> None:
        super().__init__()
        if config.width % config.heads:
            raise ValueError("heads must divide width")
        kv = config.heads if config.kv is None else config.kv
        if config.heads % kv != 0:
            raise ValueError("kv must divide heads")
        if config.gated and not config.wide:
            raise ValueError("gated requires wide")
        if config.version != "v1" or config.rounds != 2:
            raise ValueError("no such version")
        self.embed = nn.Embedding(config.vocab, config.width)
        if config.near > config.vocab or config.near > 9 * config.vocab:
            self.far_away = True
        if config.near > config.layers:
            self.far = nn.Linear(config.width, 1)
        self.layers = nn.ModuleList(
            nn.Linear(config.width, (config.heads + 2 * kv) * 4) for _ in range(config.layers)
        )
        if config.wide:
            self.wide = nn.Linear(config.width, 4 * config.width)
        if config.gated:
            self.gate = nn.Linear(config.width, config.width, bias=False)
        if config.act == "glu":
            self.up = nn.Linear(config.width, 2)


@dataclass
class ListsConfig:
    num_stages: int = 3
    widths: list[int] = field(default_factory=lambda: [8, 12, 16])
    kinds: list[str] = field(default_factory=lambda: ["full", "slide", "full"])


class Lists(nn.Module):
    """Accepts lists only if all have the length that another field gives."""

    def __init__(self, config: ListsConfig) -> None:
        super().__init__()
        if not config.num_stages == len(config.widths) == len(config.kinds):
            raise ValueError("each stage needs a width and a kind")
        self.stages = nn.ModuleList()
        for width, kind in zip(config.widths, config.kinds, strict=True):
            self.stages.append(nn.Linear(width, width, bias=kind == "full"))
            if kind == "conv":
                self.stages[-1].more = nn.Linear(width, 1)


@dataclass
class KindsConfig:
    layers: int = 12
    kinds: list[str] = field(default_factory=lambda: ["slide", "slide", "full"] * 4)
    shown: list[int] = field(default_factory=lambda: [11, 8])
    width: int = 16


class Kinds(nn.Module):
    """Accepts a number of layers only with a kind for each, and with layers that exist."""

    def __init__(self, config: KindsConfig) -> None:
        super().__init__()
        if config.layers != len(config.kinds) or max(config.shown) >= config.layers:
            raise ValueError("each layer needs one of kinds, and the layers of shown must exist")
        self.layers = nn.ModuleList(
            nn.Linear(config.width, 3, bias=config.kinds[layer] == "full")
            for layer in range(config.layers)
        )


class OnlyKinds(nn.Module):
    """Accepts any number of layers, in a list; no other field counts them."""

    def __init__(self, config: KindsConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Linear(config.width, 3, bias=kind == "full") for kind in config.kinds
        )


@dataclass
class NamedConfig:
    width: int = 16
    kind: str | None = None
    inner: int | None = None


class Named(nn.Module):
    """Refuses texts with the name of the field that has them."""

    def __init__(self, config: NamedConfig) -> None:
        super().__init__()
        if isinstance(config.kind, str) and config.kind != "timestep":
            raise ValueError(f"kind must not be {config.kind}")
        if config.kind == "timestep" and config.inner is None:
            raise ValueError("kind needs inner")
        self.embed = nn.Linear(config.width, config.inner or config.width)
        if config.kind == "timestep":
            self.more = nn.Linear(config.width, 2)


def next_prime(number: int) -> int:
    number += 1
    while any(number % divisor == 0 for divisor in range(2, number)):
        number += 1
    return number


def scattered(number: int) -> int:
    """Return a number that no simple expression gives; converting it to text loses its own."""
    total = 0
    for at in range(number):
        total += 1 + at * at % 7
    return int(str(total))


@dataclass
class PrimesConfig:
    buckets: int = 20
    width: int = 16
    depth: int = 2
    bias: bool = True


class Primes(nn.Module):
    """Has a table whose length is the next prime."""

    def __init__(self, config: PrimesConfig) -> None:
        super().__init__()
        self.table = nn.Embedding(next_prime(config.buckets), config.width)
        self.layers = nn.ModuleList(
            nn.Linear(config.width, 3, bias=config.bias) for _ in range(config.depth)
        )


class Scattered(nn.Module):
    """Has a table whose length no arithmetic gives from the field that bounds a loop."""

    def __init__(self, config: PrimesConfig) -> None:
        super().__init__()
        self.table = nn.Embedding(scattered(config.buckets), config.width)
        self.layers = nn.ModuleList(
            nn.Linear(config.width, 3, bias=config.bias) for _ in range(config.depth)
        )


class ManyPrimes(nn.Module):
    """Has as many parts as the next prime after a field that exploring would reduce."""

    def __init__(self, config: PrimesConfig) -> None:
        super().__init__()
        self.parts = nn.ModuleList(
            nn.Linear(config.width, 3, bias=config.bias) for _ in range(scattered(config.buckets))
        )
        self.layers = nn.ModuleList(nn.Linear(config.width, 2) for _ in range(config.depth))


CONFIGS = {
    "Choices": ChoicesConfig,
    "Lists": ListsConfig,
    "Kinds": KindsConfig,
    "OnlyKinds": KindsConfig,
    "Named": NamedConfig,
    "Primes": PrimesConfig,
    "Scattered": PrimesConfig,
    "ManyPrimes": PrimesConfig,
}


def subject(name: str) -> OwnSubject:
    return OwnSubject(f"{__name__}:{name}", f"{__name__}:{CONFIGS[name].__name__}")


def explored(name: str, seed: int = 0) -> Exploration:
    exploration = begin(subject(name), name, seed)
    with quick_building():
        explore_configs(exploration)
    return exploration


@cache
def explored_once(name: str) -> Exploration:
    """Return an exploration that no test changes."""
    return explored(name)
