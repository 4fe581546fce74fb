"""Attribution: the component and the layer that an operation belongs to.

An operation has the path of its module, and a ledger has the role of every tensor. A module without
tensors, such as one of attention, belongs to the component of the tensors below it.
"""

from __future__ import annotations

from functools import cache
from math import prod

from weighbridge.blueprint.paths import is_under
from weighbridge.blueprint.roles import component_of
from weighbridge.lean_typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weighbridge.blueprint.operations import Operation
    from weighbridge.ledger.ledger import Ledger

OUTPUTS = "outputs"
"""What belongs to the class as a whole: its outputs and its loss."""
LAYER_INPUTS = "layer_inputs"
"""What belongs to a layer as a whole: the input that checkpointing keeps."""
OTHER = "other"


class Attribution:
    """The components of the modules of a ledger.

    Example:
        >>> from weighbridge.answers.weigh import weigh
        >>> modules = Attribution(weigh("bert-base-chinese").ledger)
        >>> modules.component("encoder.layer.{i}.attention.self")
        'attention'
        >>> modules.component("encoder.layer.{i}.attention.self.query")
        'attention'
        >>> modules.has_matrix("encoder.layer.{i}.attention.self")
        False
    """

    def __init__(self, ledger: Ledger) -> None:
        self._prefix = ledger.blueprint.prefix(ledger.class_name)
        self._components: dict[str, str] = {}
        self._elements: dict[str, dict[str, int]] = {}
        """The elements of each component by the path of the module that holds the tensors."""
        self._matrices: set[str] = set()
        self._stacks: dict[str, dict[int, int]] = {}
        """The number of experts in a weight by the elements of one, for each module with some."""
        for entry in ledger.entries:
            path = general_path(entry.template.name).rpartition(".")[0]
            component = component_of(entry.template.role)
            elements = self._elements.setdefault(path, {})
            size = prod(entry.shape) * len(entry.indices)
            elements[component] = elements.get(component, 0) + size
            if len(entry.shape) > 1:
                self._matrices.add(path)
            experts = entry.template.active
            if experts and not experts.over:
                self._stacks.setdefault(path, {})[prod(entry.shape[1:])] = entry.shape[0]

    @property
    def has_stacks(self) -> bool:
        """Whether one weight holds several experts."""
        return bool(self._stacks)

    def elements_of_others(self, product: Operation) -> int:
        """Return the elements of all experts in a grouped product but one.

        Its shape has all tokens, and the weight of one expert. Each expert is read, or its gradient
        written, once, if there are tokens enough to use all.
        """
        batch, rows, inner, columns = product.shape
        stacks = self._stacks.get(general_path(product.path), {})
        if batch > 1 or product.times > 1:  # then each expert has a product of its own
            return 0
        for tokens, weight in ((rows, inner * columns), (inner, rows * columns)):
            if weight in stacks:
                return (min(stacks[weight], tokens) - 1) * weight * len(product.places)
        return 0

    def has_matrix(self, path: str) -> bool:
        """Whether a module itself holds a weight of two or more dims."""
        return general_path(path) in self._matrices

    def component(self, path: str) -> str:
        """Return the component of a module, by the tensors in it, below it, or beside it."""
        if path not in self._components:
            self._components[path] = self._component(general_path(path))
        return self._components[path]

    def _component(self, path: str) -> str:
        if not path:
            return OUTPUTS
        if path in self._elements:
            return _largest(self._elements[path])
        below = self._below(path)
        if len(below) > 1 and path.endswith("}"):
            return LAYER_INPUTS
        while not below and "." in path:
            path = path.rpartition(".")[0]
            below = self._below(path)
        is_in_layer = "}" in path and not path.endswith("}")
        if len(below) == 1 or (below and is_in_layer):
            return _largest(below)
        return OTHER

    def _below(self, path: str) -> dict[str, int]:
        """Return the elements of each component in and below a module."""
        below: dict[str, int] = {}
        for module, elements in self._elements.items():
            if is_under(module, path):
                for component, size in elements.items():
                    below[component] = below.get(component, 0) + size
        return below

    def layers(self, operation: Operation) -> Iterator[tuple[str, Operation]]:
        """Yield each layer of an operation, named as `Ledger.by` does, with its part of it."""
        stem, brace, _ = operation.path.partition("{")
        if not brace:
            below = operation.path.removeprefix(self._prefix)
            above = operation.path.removesuffix(below)
            yield (above + below.partition(".")[0]) or OUTPUTS, operation
            return
        places: dict[int, list[tuple[int, ...]]] = {}
        for place in operation.places:
            places.setdefault(place[0], []).append(place)
        for layer, inside in places.items():
            yield f"{stem}{layer}", operation._replace(places=tuple(inside))


@cache
def general_path(path: str) -> str:
    """Return a path with the same mark for every index.

    Example:
        >>> general_path("layers.{i}.experts.3.up")
        'layers.{}.experts.{}.up'
    """
    first, *others = path.split("{")
    unnamed = "{}".join((first, *[other.partition("}")[2] for other in others]))
    start, *pieces = unnamed.split(".")
    return ".".join((start, *["{}" if piece.isdigit() else piece for piece in pieces]))


def _largest(elements: dict[str, int]) -> str:
    return max(elements, key=elements.__getitem__)
