"""The tensors that adapters have: the endings of their names, and their shapes for a weight.

`facts/adapters.toml` lists them. `readers.adapter` recognises stored adapters by them, and
`costs.lora` says which tensors an adapter would have.
"""

from __future__ import annotations

from functools import cache

from weighbridge import data
from weighbridge.algebra.expr import evaluate, parse
from weighbridge.errors import ExpressionError
from weighbridge.lean_typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from weighbridge.algebra.expr import Tree


class TensorForm(NamedTuple):
    """One kind of tensor of an adapter; an entry of `facts/adapters.toml`, which has the fields."""

    ending: str
    shapes: tuple[tuple[Tree, ...], ...]
    rank: int | None
    joined: str
    of_parameter: bool
    is_trained: bool
    is_mark: bool

    def shapes_for(self, sizes: Mapping[str, Any]) -> Iterator[tuple[int, ...]]:
        """Yield the shapes that it may have, given ``weight``, ``first``, ``last`` and ``joined``.

        Shapes that need more than is given, or a weight of more dims, are left out.
        """
        for trees in self.shapes:
            try:
                yield _flattened_sizes(evaluate(tree, sizes) for tree in trees)
            except ExpressionError:
                continue


def _flattened_sizes(sizes: Iterable[Any]) -> tuple[int, ...]:
    shape: list[int] = []
    for size in sizes:
        if isinstance(size, tuple):
            shape += size
        else:
            shape.append(size)
    return tuple(shape)


@cache
def forms() -> tuple[TensorForm, ...]:
    """Return all forms, in the order in which they are tried."""
    return tuple(
        TensorForm(
            entry["ending"],
            tuple(tuple(map(parse, shape.split())) for shape in entry["shapes"]),
            entry.get("rank"),
            entry.get("joined", ""),
            entry.get("parameter", False),
            entry.get("trained", True),
            entry.get("mark", True),
        )
        for entry in data.read_toml("facts/adapters.toml")["tensors"]
    )


def adapter_form(ending: str, *, of_parameter: bool = False) -> TensorForm:
    """Return the form with an ending, for a module or for a parameter of three dims.

    Example:
        >>> lora_a = adapter_form(".lora_A.weight")
        >>> list(lora_a.shapes_for({"weight": (16, 8), "first": 4}))
        [(4, 8)]
    """
    return next(
        form for form in forms() if form.ending == ending and form.of_parameter == of_parameter
    )


def parameter_form(form: TensorForm) -> TensorForm | None:
    """Return the form that tensors of this ending have for a parameter of three dims."""
    same = [other for other in forms() if other.of_parameter and other.ending == form.ending]
    return next(iter(same), None)


def wrapper() -> str:
    """Return what stands before the path of a module in the names of an adapter's tensors."""
    before: str = data.read_toml("facts/adapters.toml")["wrapper"]
    return before
