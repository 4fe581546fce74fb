"""Dotted paths of modules and tensors, with ``{i}`` in place of a layer's index."""

from __future__ import annotations

from functools import cache

from weighbridge.lean_typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def joined_path(*paths: str) -> str:
    """Return paths joined into one; empty paths are skipped.

    Example:
        >>> joined_path("model", "", "layers.0")
        'model.layers.0'
    """
    return ".".join(filter(None, paths))


def above(name: str) -> Iterator[str]:
    """Yield the paths above a tensor, and finally its own name."""
    at = name.find(".")
    while at >= 0:
        yield name[:at]
        at = name.find(".", at + 1)
    yield name


@cache
def indices_in(name: str) -> tuple[str, ...]:
    """Return the indices in a name, outermost first.

    Example:
        >>> indices_in("stages.{i}.blocks.{j}.weight")
        ('i', 'j')
    """
    return tuple(piece.partition("}")[0] for piece in name.split("{")[1:])


def is_under(name: str, path: str) -> bool:
    """Whether a tensor is this one, or in the module of this path.

    Example:
        >>> is_under("pooler.dense.weight", "pooler"), is_under("pooler.dense.weight", "pool")
        (True, False)
    """
    return f"{name}.".startswith(f"{path}.")


def is_index(piece: str) -> bool:
    """Whether a piece of a path stands for an index: ``{i}``."""
    return piece.startswith("{") and piece.endswith("}")
