"""Activations of a training step, by layer, as tensor and sequence parallelism divide them.

What an operation saves belongs to its module. A module whose matrix has divided inputs, and one
between two such matrices, such as attention itself, saves divided tensors. The input of a matrix
with divided outputs is whole on every rank, as are norms and residuals; sequence parallelism
(Korthikanti et al., 2022, https://arxiv.org/abs/2205.05198, section 4.2.2) divides these too.
"""

from __future__ import annotations

from math import ceil, prod

from weighbridge import data
from weighbridge.blueprint.operations import COMPUTE
from weighbridge.blueprint.paths import is_under
from weighbridge.costs.attribution import general_path
from weighbridge.lean_typing import TYPE_CHECKING, NamedTuple
from weighbridge.units import stored_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from weighbridge.blueprint.operations import Operation
    from weighbridge.costs.parallel import ParallelPlan
    from weighbridge.ledger.ledger import Ledger

DIVIDED, WHOLE = "divided", "whole"


class Held(NamedTuple):
    """The bytes that a micro-batch leaves on the ranks of its stages: by layer, and outside them.

    ``first`` is what stands before the layers, ``last`` what comes after.
    """

    by_layer: dict[int, int]
    first: int
    last: int

    @property
    def bytes(self) -> int:
        """The bytes of all stages."""
        return sum(self.by_layer.values()) + self.first + self.last

    def with_more(self, added: Mapping[str, int]) -> Held:
        """Return these bytes and others, which are given by the path of the module."""
        by_layer, last = dict(self.by_layer), self.last
        for path, size in added.items():
            layer = layer_of(path)
            if layer is None:
                last += size
            else:
                by_layer[layer] = by_layer.get(layer, 0) + size
        return Held(by_layer, self.first, last)


def layer_of(path: str) -> int | None:
    """Return the number of the layer that a module is in; None outside the layers.

    Example:
        >>> layer_of("model.layers.12.self_attn.q_proj"), layer_of("lm_head")
        (12, None)
    """
    return next((int(piece) for piece in path.split(".") if piece.isdigit()), None)


class Modules:
    """How tensor parallelism divides what each module saves.

    Example:
        >>> from weighbridge.answers.weigh import weigh
        >>> llama = Modules(weigh("meta-llama/Llama-3.1-8B").ledger, "model.layers.")
        >>> [llama.way(f"model.layers.{{i}}.{name}") for name in ("self_attn", "mlp.down_proj")]
        ['divided', 'divided']
        >>> [llama.way(f"model.layers.{{i}}.{name}") for name in ("mlp.up_proj", "input_layernorm")]
        ['whole', 'whole']
    """

    def __init__(self, ledger: Ledger, stack: str) -> None:
        facts = data.read_toml("facts/parallel.toml")
        self.stack = stack
        self._first = tuple(facts["first_stage"])
        self._ways: dict[str, set[str]] = {}
        self._roles: dict[str, str] = {}
        of_role = {role: way for way in _WAYS for role in facts[way]}
        for entry in ledger.entries:
            path = general_path(entry.template.name).rpartition(".")[0]
            is_matrix = (
                len(entry.shape) > 1
            )  # sinks belong to attention itself, which has no matrix
            way = of_role.get(entry.template.role) if is_matrix else None
            if not is_matrix and way:
                continue
            self._roles[path] = entry.template.role
            self._ways.setdefault(path, set()).update([way] if way else [])
        self._known: dict[str, str] = {}

    def way(self, path: str) -> str:
        """Return whether what a module saves is divided, or whole on every rank."""
        if path not in self._known:
            self._known[path] = self._way(general_path(path))
        return self._known[path]

    def _way(self, path: str) -> str:
        if not path:
            return DIVIDED  # the logits and their loss
        if path in self._ways:
            ways = self._ways[path]
            return DIVIDED if "rows" in ways else WHOLE
        is_dropout = "drop" in path.rpartition(".")[2]
        while path and not path.endswith("}"):
            below = self._below(path)
            if below:
                # What stands after a matrix with divided inputs has the whole sum, as its dropout.
                is_after = is_dropout and "rows" in below
                return DIVIDED if "columns" in below and not is_after else WHOLE
            path = path.rpartition(".")[0]
        return WHOLE

    def _below(self, path: str) -> set[str]:
        """Return the ways of all modules under a path."""
        found = set[str]()
        for module, ways in self._ways.items():
            if is_under(module, path):
                found |= ways | {""}
        return found

    def has_matrix(self, path: str) -> bool:
        """Whether a module itself holds a matrix that is divided or looked up."""
        return bool(self._ways.get(general_path(path)))

    def is_core(self, path: str) -> bool:
        """Whether a module is attention itself: it holds no tensor, those below are its heads'."""
        path = general_path(path)
        if path in self._ways or not path or path.endswith("}"):
            return False
        roles = [role for module, role in self._roles.items() if is_under(module, path)]
        return any(role.startswith(_ATTENTION) for role in roles) and self.way(path) == DIVIDED

    def is_first(self, path: str) -> bool:
        """Whether a module outside the layers stands before them."""
        return self._roles.get(general_path(path), "").startswith(self._first)

    def divisor(self, path: str, plan: ParallelPlan) -> int:
        """Return the ranks over which what a module saves is divided."""
        if self.way(path) == DIVIDED or plan.sequence_parallel:
            return plan.tensor
        return 1

    def is_in_layers(self, path: str) -> bool:
        """Whether a module is in the list of layers that a pipeline divides."""
        return bool(self.stack) and path.startswith(f"{self.stack}{{")

    def held(
        self,
        saved: Iterable[Operation],
        plan: ParallelPlan,
        dtype: str,
        *,
        without_core: bool = False,
    ) -> Held:
        """Return what saved tensors take on a rank, for each layer.

        Args:
            saved: the tensors of a micro-batch.
            plan: how the model is divided.
            dtype: the dtype of the activations.
            without_core: whether attention itself is left out, since it is computed again.
        """
        by_layer: dict[int, int] = {}
        first = last = 0
        for tensor in saved:
            if without_core and self.is_core(tensor.path):
                continue
            size = ceil(_bytes(tensor, dtype) / self.divisor(tensor.path, plan))
            if self.is_in_layers(tensor.path):
                for place in tensor.places:
                    by_layer[place[0]] = by_layer.get(place[0], 0) + size
            elif self.is_first(tensor.path):
                first += size * len(tensor.places)
            else:
                last += size * len(tensor.places)
        return Held(by_layer, first, last)

    def of_loss(self, saved: Iterable[Operation], plan: ParallelPlan, dtype: str) -> int:
        """Return the largest tensor that the loss saves on a rank: logarithms of the softmax."""
        sizes = (_bytes(tensor, dtype) for tensor in saved if not tensor.path)
        return ceil(max(sizes, default=0) / plan.tensor)

    def largest_output(
        self, products: Iterable[Operation], plan: ParallelPlan, dtype: str, *, with_core: bool
    ) -> Held:
        """Return the largest output of a product, in any layer and outside them.

        Args:
            products: those of a forward pass.
            plan: how the model is divided.
            dtype: the dtype of the outputs.
            with_core: whether attention writes its scores, as kernels that do not fuse it do.
        """
        inside = first = last = 0
        for product in products:
            if not with_core and self.is_core(product.path):
                continue
            batch, rows, _, columns = product.shape
            size = stored_bytes(batch * rows * columns, dtype)
            if self.way(product.path) == WHOLE or self.is_core(product.path):
                size = ceil(size / plan.tensor)  # outputs are divided where inputs are whole
            if self.is_in_layers(product.path):
                inside = max(inside, size)
            elif self.is_first(product.path):
                first = max(first, size)
            else:
                last = max(last, size)
        return Held({0: inside}, first, last)


_WAYS = ("columns", "rows", "vocabulary")
_ATTENTION = ("attention.", "cross_attention.")


def _bytes(tensor: Operation, dtype: str) -> int:
    kept = dtype if tensor.dtype == COMPUTE else tensor.dtype
    return tensor.times * stored_bytes(prod(tensor.shape), kept)
