"""Models with constructor arguments, torch's own layers, or a config that changes its arguments."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import nn


class TorchEncoder(nn.Module):
    """Has no config but arguments, one without a default; its layers are torch's own, copied."""

    def __init__(
        self,
        n_tokens: int,
        d_model: int = 32,
        n_head: int = 4,
        i: int = 2,
        ff: int = 64,
        norm_first: bool = False,
    ) -> None:
        super().__init__()
        self.embed = nn.Embedding(n_tokens, d_model)
        layer = nn.TransformerEncoderLayer(
            d_model, n_head, ff, batch_first=True, norm_first=norm_first
        )
        self.encoder = nn.TransformerEncoder(layer, i, enable_nested_tensor=False)


class Sizes:
    """Keeps its arguments under other names, one of them rounded up, and computes a list."""

    def __init__(
        self,
        d: int = 16,
        layers: int = 4,
        vocab: int = 50,
        pad_to: int = 8,
        kinds: list[str] | None = None,
        **more: Any,
    ) -> None:
        self.width = d
        self._depth = layers
        self.vocab = (vocab + pad_to - 1) // pad_to * pad_to
        self.wide = 4 * self.width
        self.kinds = kinds or ["full" if (i + 1) % 2 == 0 else "slide" for i in range(layers)]
        self.more = more

    @property
    def depth(self) -> int:
        return self._depth


class Part(nn.Module):
    def __init__(self, sizes: Sizes, kind: str) -> None:
        super().__init__()
        self.mix = nn.Linear(sizes.width, sizes.wide)
        if kind == "full":
            self.gate = nn.Linear(sizes.width, 1)


class Kept(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.embed = nn.Embedding(sizes.vocab, sizes.width)
        self.parts = nn.ModuleList([Part(sizes, sizes.kinds[i]) for i in range(sizes.depth)])


class Shape(NamedTuple):
    width: int = 12
    bias: bool = True


class Exact(nn.Module):
    """Compares with True by identity: values that remember pass, and build something else."""

    def __init__(self, width: int = 6, wide: bool = True) -> None:
        super().__init__()
        self.one = nn.Linear(width, 3 * width if wide is True else width)


class Picky(nn.Module):
    """Checks types by name and compares with True by identity: values that remember fail both."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        if type(shape.width) is not int:
            raise TypeError("width must be an int")
        self.one = nn.Linear(shape.width, 2 * shape.width, bias=shape.bias is True)
