"""Small modules as people write them, to derive and then to hold against settings drawn elsewhere.

Each builds its layers from a list, from flags that depend on each other, or by comparing sizes.
"""

from __future__ import annotations

from itertools import pairwise

from torch import nn


class Perceptron(nn.Module):
    def __init__(
        self,
        input_dim: int = 48,
        hidden_dims: tuple[int, ...] = (64, 32, 16),
        output_dim: int = 10,
        norm: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for width in hidden_dims:
            layers += [nn.Linear(input_dim, width), nn.ReLU()]
            if norm:
                layers.insert(-1, nn.BatchNorm1d(width))
            if dropout > 0:
                layers.append(nn.Dropout(dropout))
            input_dim = width
        self.layers = nn.Sequential(*layers, nn.Linear(input_dim, output_dim))


class NullByDefault(nn.Module):
    def __init__(self, before: int = 48, widths: list[int] | None = None, out: int = 10) -> None:
        super().__init__()
        self.layers = nn.ModuleList()
        for width in widths or []:
            self.layers.append(nn.Linear(before, width))
            before = width
        self.out = nn.Linear(before, out)


class Pairs(nn.Module):
    def __init__(
        self,
        before: int = 16,
        blocks: tuple[tuple[int, int], ...] = ((8, 2), (12, 3)),
        out: int = 10,
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList()
        for width, times in blocks:
            self.layers.append(nn.Linear(before, width * times))
            before = width * times
        self.out = nn.Linear(before, out)


class FlagForEach(nn.Module):
    def __init__(self, width: int = 16, dense: tuple[bool, ...] = (True, False, True)) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Linear(width, width) if flag else nn.Conv1d(width, width, 3) for flag in dense
        )


class KindForEach(nn.Module):
    def __init__(self, width: int = 16, kinds: tuple[str, ...] = ("conv", "attn", "conv")) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Linear(width, width) if kind == "attn" else nn.Conv1d(width, width, 3)
            for kind in kinds
        )


class Convolutions(nn.Module):
    def __init__(
        self,
        channels: int = 3,
        widths: tuple[int, ...] = (16, 32),
        kernels: tuple[int, ...] = (3, 3),
        out: int = 10,
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for width, kernel in zip(widths, kernels, strict=True):
            layers += [nn.Conv2d(channels, width, kernel), nn.BatchNorm2d(width), nn.ReLU()]
            channels = width
        self.features = nn.Sequential(*layers)
        self.out = nn.Linear(channels, out)


class AutoEncoder(nn.Module):
    def __init__(self, size: int = 784, hidden: tuple[int, ...] = (128, 64, 12)) -> None:
        super().__init__()
        dims = [size, *hidden]
        self.encoder = nn.Sequential(*(nn.Linear(a, b) for a, b in pairwise(dims)))
        self.decoder = nn.Sequential(*(nn.Linear(a, b) for a, b in pairwise(dims[::-1])))


class Widening(nn.Module):
    """Has a projection only where a layer is wider or narrower than the one before."""

    def __init__(self, before: int = 16, widths: tuple[int, ...] = (32, 32, 64)) -> None:
        super().__init__()
        self.layers = nn.ModuleList()
        for width in widths:
            layer = nn.Module()
            layer.body = nn.Linear(before, width)
            layer.project = nn.Linear(before, width) if before != width else None
            self.layers.append(layer)
            before = width


class Upwards(nn.Module):
    """Walks its widths backwards, and has a projection only where the width changes."""

    def __init__(self, widths: tuple[int, ...] = (16, 32, 32, 64), repeats: int = 2) -> None:
        super().__init__()
        self.blocks = nn.ModuleList()
        backwards = list(reversed(widths))
        width = backwards[0]
        for stage in range(len(widths)):
            before, width = width, backwards[stage]
            block = nn.ModuleList()
            for repeat in range(repeats):
                layer = nn.Module()
                inner = before if repeat == 0 else width
                layer.body = nn.Linear(inner, width)
                layer.project = nn.Linear(inner, width) if inner != width else None
                block.append(layer)
            self.blocks.append(block)


class Projection(nn.Module):
    """Has many flags, of which two together leave a tensor out that each alone leaves in."""

    def __init__(  # noqa: PLR0913, PLR0917
        self,
        width: int = 64,
        out: int | None = 32,
        kind: str = "linear",
        bias: bool = False,
        norm: bool = True,
        scale: bool = False,
        tokens: bool = False,
        gate: bool = False,
        layers: int = 2,
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width, bias=gate) for _ in range(layers))
        if norm:
            self.norm = nn.LayerNorm(width)
        if scale:
            self.scale = nn.Linear(width, 1)
        if tokens:
            self.token = nn.Embedding(1, width)
        if kind == "none" or not out:
            self.projection = None
        elif bias:
            self.projection = nn.Linear(width, out)
        else:
            self.projection = nn.Linear(width, out, bias=False)


class Windows(nn.Module):
    """Has tables of windows that are no larger than the image is at each stage."""

    def __init__(
        self,
        image: int = 224,
        patch: int = 4,
        depths: tuple[int, ...] = (2, 2, 6, 2),
        width: int = 24,
        window: int = 7,
    ) -> None:
        super().__init__()
        self.stages = nn.ModuleList()
        side = image // patch
        for stage, depth in enumerate(depths):
            if stage > 0:
                side = (side + 1) // 2
            small = min(side, window)
            tables = [nn.Embedding((2 * small - 1) ** 2, width * 2**stage) for _ in range(depth)]
            self.stages.append(nn.ModuleList(tables))


class Scales(nn.Module):
    """Has tables of windows at a scale that doubles from the second stage on."""

    def __init__(
        self,
        image: int = 224,
        patch: int = 4,
        depths: tuple[int, ...] = (2, 2, 6, 2),
        width: int = 24,
        window: int = 7,
    ) -> None:
        super().__init__()
        self.stages = nn.ModuleList()
        scale = 1
        for stage, depth in enumerate(depths):
            side = (image // patch + scale - 1) // scale
            if stage > 0:
                side = (side + 1) // 2
                scale *= 2
            small = side if side <= window else window  # noqa: FURB136
            tables = [nn.Embedding((2 * small - 1) ** 2, width * 2**stage) for _ in range(depth)]
            self.stages.append(nn.ModuleList(tables))


class Mixture(nn.Module):
    """Is dense in its first layers, and shares experts if a number of these is given."""

    def __init__(
        self,
        width: int = 32,
        layers: int = 4,
        experts: int = 8,
        shared: int | None = None,
        inner: int = 48,
        first_dense: int = 1,
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList()
        for number in range(layers):
            layer = nn.Module()
            if number < first_dense:
                layer.dense = nn.Linear(width, 4 * width)
            else:
                layer.router = nn.Linear(width, experts, bias=False)
                layer.experts = nn.ModuleList(nn.Linear(width, inner) for _ in range(experts))
                if shared is not None:
                    layer.shared = nn.Linear(width, inner * shared)
            self.layers.append(layer)


class Branch(nn.Module):
    """Takes a branch below a width that its own code names."""

    def __init__(self, width: int = 512, heads: int = 8, layers: int = 2) -> None:
        super().__init__()
        self.small = nn.Linear(width, 1) if width < 40 else nn.Linear(width, 2)
        self.layers = nn.ModuleList(
            nn.MultiheadAttention(width, heads, batch_first=True) for _ in range(layers)
        )
