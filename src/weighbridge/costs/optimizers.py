"""Optimizers: the tensors that each keeps beside a parameter, from `facts/optimizers.toml`."""

from __future__ import annotations

from functools import cache
from math import ceil, prod

from weighbridge import data
from weighbridge.errors import UsageError
from weighbridge.lean_typing import TYPE_CHECKING, NamedTuple
from weighbridge.units import stored_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

_MATRIX = 2  # dims
_WEIGHT = "weight"
_ONE = "one"


class Optimizer(NamedTuple):
    """What an optimizer keeps: its states for each parameter, as in `facts/optimizers.toml`.

    ``temporaries`` is how many copies of all weights a step makes.
    """

    name: str
    rule: dict[str, Any]

    @property
    def temporaries(self) -> int:
        """The copies of all weights that a step makes."""
        return int(self.rule.get("temporaries", 0))

    def state_bytes(
        self, shape: tuple[int, ...], dtype: str, *, size: int | None = None, in_layer: bool = True
    ) -> int:
        """Return the bytes that it keeps for one parameter alone; `shared_bytes` are for all.

        Args:
            shape: the shape of the parameter.
            dtype: the dtype of what the optimizer updates.
            size: the elements that are left of it on a rank, if ZeRO divides it.
            in_layer: whether it is in a layer; Muon is for matrices of layers only.

        Example:
            >>> optimizer_called("adamw").state_bytes((4096, 4096), "F32")
            134217732
            >>> optimizer_called("adafactor").state_bytes((4096, 1024), "F32")
            20484
        """
        whole = prod(shape)
        elements = whole if size is None else size
        shape = (ceil(shape[0] * elements / whole), *shape[1:]) if shape else shape
        total = 0
        for state in self._states(shape, elements, in_layer=in_layer):
            kept, form = state.split()
            # torch counts the steps of a parameter even where a rank has nothing of it.
            if elements or form == _ONE:
                kept = dtype if kept == _WEIGHT else kept
                total += stored_bytes(self._elements(form, shape, elements), kept)
        return total

    def shared_bytes(self, sizes: Iterable[int]) -> int:
        """Return the bytes that parameters of some sizes, in elements, share.

        They are kept once, if any of the parameters is large enough to be kept in 8 bits.

        Example:
            >>> optimizer_called("adamw-8bit").shared_bytes([4096, 4096])
            2048
            >>> optimizer_called("adamw-8bit").shared_bytes([4095])
            0
        """
        shared = self.rule.get("shared", ())
        if not shared or all(not size or self._is_small(size) for size in sizes):
            return 0
        pairs = (state.split() for state in shared)
        return sum(stored_bytes(self._elements(form, (), 0), kept) for kept, form in pairs)

    def _is_small(self, elements: int) -> bool:
        return elements < int(self.rule.get("least", 0))

    def _states(self, shape: tuple[int, ...], elements: int, *, in_layer: bool) -> list[str]:
        rule = self.rule
        if self._is_small(elements):
            return list(rule["small"])
        if "states" in rule:
            return list(rule["states"])
        is_matrix = len(shape) >= _MATRIX and (in_layer or not rule.get("only_in_layers"))
        return list(rule["matrices" if is_matrix else "others"])

    def _elements(self, form: str, shape: tuple[int, ...], elements: int) -> int:
        block: int = self.rule.get("block", 1)
        sizes: dict[str, int] = {
            "same": elements,
            "blocks": ceil(elements / block),
            "map": self.rule.get("map", 0),
            _ONE: 1,
            "rows": prod(shape[:-1]),
            "columns": prod(shape[:-2]) * (shape[-1] if shape else 1),
        }
        return sizes[form]


@cache
def _rules() -> dict[str, dict[str, Any]]:
    return dict(data.read_toml("facts/optimizers.toml"))


def optimizer_called(name: str) -> Optimizer:
    """Return the optimizer with a name.

    Raises:
        UsageError: there is none.

    Example:
        >>> optimizer_called("adamw").temporaries
        1
    """
    rule = _rules().get(name.lower())
    if rule is None:
        raise UsageError(
            "there is no such optimizer",
            values={"optimizer": name},
            hint=f"use one of {', '.join(_rules())}",
        )
    return Optimizer(name.lower(), rule)


class Precision(NamedTuple):
    """The dtypes of a way of training; see `facts/precisions.toml`.

    ``master`` is the dtype of the copy that the optimizer updates, None if it updates the
    parameters. ``gathered`` is that in which ZeRO's third stage gathers parameters, and ``cast``
    that of copies that a step holds, None if it holds none. ``main_gradients`` is that of copies
    of the gradients that the optimizer keeps for the master weights, None if it keeps none.
    """

    name: str
    parameters: str
    gradients: str
    master: str | None
    gathered: str
    cast: str | None
    main_gradients: str | None = None

    @property
    def updated(self) -> str:
        """The dtype of what the optimizer updates."""
        return self.master or self.parameters

    @property
    def compute(self) -> str:
        """The dtype of the activations."""
        return self.cast or self.gathered


@cache
def precision_called(name: str) -> Precision:
    """Return the way of training with a name.

    Raises:
        UsageError: there is none.

    Example:
        >>> precision_called("master")[1:4]
        ('BF16', 'BF16', 'F32')
    """
    rules = data.read_toml("facts/precisions.toml")
    rule = rules.get(name.lower())
    if rule is None:
        raise UsageError(
            "there is no such precision",
            values={"precision": name},
            hint=f"use one of {', '.join(rules)}",
        )
    return Precision(
        name.lower(),
        rule["parameters"],
        rule["gradients"],
        rule.get("master"),
        rule.get("gathered", rule["parameters"]),
        rule.get("cast"),
        rule.get("main_gradients"),
    )
