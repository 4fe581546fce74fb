"""Training an adapter on a frozen model: what is held besides the model, and what is not saved.

The input of a matrix is saved for the gradient of the matrix, so a frozen one saves none, unless a
matrix beside it, which shares the input, is adapted. An adapter in F32 on a model in BF16 casts the
input of each matrix that it adapts, and saves the copy (peft 0.21.2, tuners/lora/layer.py,
`_cast_input_dtype`), and what its first matrix gives. DoRA also saves what the frozen matrix and
the adapter give, and three vectors of its magnitudes (tuners/lora/dora.py, `forward`).
"""

from __future__ import annotations

from math import ceil, prod

from weighbridge.costs.attribution import general_path
from weighbridge.lean_typing import TYPE_CHECKING, NamedTuple
from weighbridge.units import stored_bytes

if TYPE_CHECKING:
    from weighbridge.costs.activations import Modules
    from weighbridge.costs.lora import LoraAdapter

_A_ENDINGS = (".lora_A.weight",)
_MAGNITUDE_ENDINGS = (".lora_magnitude_vector", ".lora_magnitude_vector.weight")
_VECTORS = 3  # the norm, the magnitude over it, and that less 1


class Adapting(NamedTuple):
    """An adapter on a frozen model, as the memory of a training step needs it.

    ``shapes`` are those of the tensors that are trained, ``dtype`` is theirs. ``bits`` are those of
    a parameter of the frozen model. ``inputs`` are the width of what each adapted matrix reads, and
    the rank, by the path of its module; ``groups`` the groups of matrices that share an input.
    ``magnitudes`` are the widths of what matrices with magnitudes give, by path.
    """

    shapes: tuple[tuple[int, ...], ...]
    dtype: str
    bits: float
    inputs: tuple[tuple[str, int, int], ...]
    groups: frozenset[str]
    magnitudes: tuple[tuple[str, int], ...] = ()

    def elements(self, copies: int = 1) -> int:
        """Return the elements that are trained, or those of the fullest of some ranks."""
        return sum(ceil(shape[0] / copies) * prod(shape[1:]) for shape in self.shapes)

    def keeps(self, modules: Modules, path: str) -> bool:
        """Whether a module saves for the backward pass what it saves with trained weights."""
        return not modules.has_matrix(path) or _input_group(modules, path) in self.groups

    def added_bytes(self, tokens: int, compute_dtype: str) -> dict[str, int]:
        """Return what the adapter saves in each module for some tokens, by path."""
        added: dict[str, int] = {}
        for path, width, rank in self.inputs:
            size = stored_bytes(tokens * rank, self.dtype)
            if self.dtype != compute_dtype:
                size += stored_bytes(tokens * width, self.dtype)
            added[path] = added.get(path, 0) + size
        for path, width in self.magnitudes:
            size = stored_bytes(tokens * width, compute_dtype)
            size += stored_bytes((tokens + _VECTORS) * width, self.dtype)
            added[path] = added.get(path, 0) + size
        return added


def adapting(adapter: LoraAdapter, modules: Modules, bits: float) -> Adapting:
    """Return an adapter on a model that is frozen in so many bits."""
    trained = [tensor for tensor in adapter.tensors if tensor.row.parameters]
    inputs, groups, magnitudes = [], set(), []
    for tensor in trained:
        if tensor.row.name.endswith(_A_ENDINGS):
            rank, width = tensor.row.shape[0], prod(tensor.row.shape[1:])
            inputs.append((tensor.module, width, rank))
            groups.add(_input_group(modules, tensor.module))
        if tensor.row.name.endswith(_MAGNITUDE_ENDINGS):
            magnitudes.append((tensor.module, prod(tensor.row.shape)))
    shapes = tuple(tensor.row.shape for tensor in trained)
    inputs_of, magnitudes_of = tuple(inputs), tuple(magnitudes)
    return Adapting(shapes, adapter.dtype, bits, inputs_of, frozenset(groups), magnitudes_of)


def _input_group(modules: Modules, path: str) -> str:
    """Return the name of the matrices that read the same input as one: those beside it, alike."""
    general = general_path(path)
    parent = general.rpartition(".")[0]
    return f"{parent} {modules.way(path)}"
