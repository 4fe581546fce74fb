"""Modules with code that derivation reaches for none of its configs."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

LARGE = 7321  # derivation aims at bounds, but takes no square roots


@dataclass
class ThresholdConfig:
    width: int = 16
    labels: int = 3
    depth: int = 2


class Threshold(nn.Module):
    """Has another head from some number of labels on."""

    def __init__(self, config: ThresholdConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Linear(config.width, config.width) for _ in range(config.depth)
        )
        if config.labels * config.labels < LARGE * LARGE:
            self.head = nn.Linear(config.width, config.labels)
        else:
            self.head = nn.Sequential(
                nn.Linear(config.width, config.width), nn.Linear(config.width, config.labels)
            )


@dataclass
class ChoiceConfig:
    width: int = 16
    labels: int = 3


class Choice(nn.Module):
    """Chooses its head in an expression, by a variable."""

    def __init__(self, config: ChoiceConfig) -> None:
        super().__init__()
        is_large = not (config.labels * config.labels < LARGE * LARGE)
        self.inside = nn.Linear(config.width, config.labels)
        self.after = nn.Linear(config.labels, 2) if is_large else nn.Identity()


@dataclass
class ReturnConfig:
    width: int = 16
    labels: int = 3


class Return(nn.Module):
    """Returns from a method that builds a part."""

    def __init__(self, config: ReturnConfig) -> None:
        super().__init__()
        self.inside = nn.Linear(config.width, config.labels)
        self.build_more(config)

    def build_more(self, config: ReturnConfig) -> None:
        if config.labels * config.labels > LARGE * LARGE:
            return
        self.after = nn.Linear(config.labels, 2)


@dataclass
class LayersConfig:
    width: int = 16
    depth: int = 3


class Layer(nn.Module):
    def __init__(self, config: LayersConfig, at: int) -> None:
        super().__init__()
        self.inside = nn.Linear(config.width, config.width)
        if at * config.width > LARGE * LARGE:
            self.more = nn.Linear(config.width, 1)


class Layers(nn.Module):
    """Asks each layer whether it is late and wide."""

    def __init__(self, config: LayersConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(config, at) for at in range(config.depth))


@dataclass
class HarmlessConfig:
    width: int = 16
    labels: int = 3


class Harmless(nn.Module):
    """Has branches that no probe reaches and that decide no tensor."""

    def __init__(self, config: HarmlessConfig) -> None:
        super().__init__()
        self.head = nn.Linear(config.width, config.labels)
        if config.labels * config.labels * 3 > 3 * LARGE:
            self.note = str(config.labels)
        if config.labels * 5 > 5 * LARGE:
            raise ValueError("too many labels")
        self.dropout = nn.Dropout(0.5 if config.labels * 7 > 7 * LARGE else 0.1)


@dataclass
class HelperConfig:
    width: int = 16
    fused: bool = False
    split: bool = False


def _are_both(*flags: bool) -> bool:
    return len([flag for flag in flags if flag]) > 1


class Helper(nn.Module):
    """Asks a function about two flags that cannot be set together."""

    def __init__(self, config: HelperConfig) -> None:
        super().__init__()
        if config.fused and config.split and config.width != LARGE:
            raise ValueError("not both")
        self.head = nn.Linear(config.width, 3 if config.fused else 4, bias=config.split)
        if _are_both(config.fused, config.split):
            self.more = nn.Linear(config.width, config.width)


@dataclass
class NamedConfig:
    width: int = 16
    kind: str | None = None


def _is_special(kind: str | None, width: int) -> bool:
    return str(kind).startswith("x-") and width > 1


class Named(nn.Module):
    """Asks a function about a name, of which no value is known, and about a size."""

    def __init__(self, config: NamedConfig) -> None:
        super().__init__()
        self.head = nn.Linear(config.width, 3)
        if _is_special(config.kind, config.width):
            self.more = nn.Linear(config.width, config.width)


@dataclass
class ComputedConfig:
    width: int = 16
    inner: int | None = None

    def __post_init__(self) -> None:
        if self.inner is None and self.width * self.width > LARGE * LARGE:
            self.inner = 1
        if self.inner is None:
            self.inner = 4 * self.width


class Computed(nn.Module):
    """Has a config that computes a field after it was asked for."""

    def __init__(self, config: ComputedConfig) -> None:
        super().__init__()
        assert config.inner is not None
        self.head = nn.Linear(config.width, config.inner)


@dataclass
class ForbiddenConfig:
    width: int = 16
    inner: int = 8

    def __post_init__(self) -> None:
        if not isinstance(self.inner, int):
            raise TypeError("inner must be an integer")


class Forbidden(nn.Module):
    """Asks for a null that its config refuses."""

    def __init__(self, config: ForbiddenConfig) -> None:
        super().__init__()
        self.head = nn.Linear(config.width, config.inner)
        if config.inner is None:
            self.more = nn.Linear(config.width, config.width)


CONFIGS = {
    "Forbidden": ForbiddenConfig,
    "Computed": ComputedConfig,
    "Named": NamedConfig,
    "Helper": HelperConfig,
    "Threshold": ThresholdConfig,
    "Choice": ChoiceConfig,
    "Return": ReturnConfig,
    "Layers": LayersConfig,
    "Harmless": HarmlessConfig,
}
