"""The tensors of quantised files: which weights are packed, and what they are packed into.

`facts/quantizations.toml` has the rules, and `models.quantization` reads a config with them.
"""

from __future__ import annotations

from collections import Counter
from math import ceil, prod

from weighbridge.algebra.expr import evaluate
from weighbridge.blueprint.paths import above
from weighbridge.costs.weight_classes import class_with_weight
from weighbridge.errors import ExpressionError
from weighbridge.lean_typing import TYPE_CHECKING, NamedTuple
from weighbridge.units import stored_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from re import Pattern
    from typing import Any

    from weighbridge.algebra.expr import Tree
    from weighbridge.ledger.ledger import Ledger
    from weighbridge.ledger.rows import Entry

EXPERT = "expert"
"""The kind of an expert's weight, which transformers holds in one tensor with those of others."""

REST = "rest"
"""Stands for the dtype of the tensors that are not packed."""

_MATRIX = 2  # dims
_HEAD = "head.lm"


class FileWeight(NamedTuple):
    """Tensors of one shape that a file would hold if it were not quantised.

    ``paths`` are the names of the module in files and in memory, ``module`` is its class, or
    `EXPERT`; it is empty for a tensor that is never packed, such as a bias. ``number`` counts the
    tensors.
    """

    paths: tuple[str, ...]
    shape: tuple[int, ...]
    module: str = ""
    is_head: bool = False
    is_in_layer: bool = False
    number: int = 1

    @property
    def elements(self) -> int:
        """The elements of all of the tensors."""
        return prod(self.shape) * self.number


class ModuleNames(NamedTuple):
    """A list of modules, by their whole paths, parts of paths, or patterns.

    Example:
        >>> names = ModuleNames(ends=frozenset({"gate"}), starts=frozenset({"visual"}))
        >>> names.match("model.layers.0.mlp.gate"), names.match("visual.blocks.0.attn.qkv")
        (True, True)
        >>> names.match("model.layers.0.mlp.gate_proj"), names.match("visuals")
        (False, False)
    """

    exact: frozenset[str] = frozenset()
    starts: frozenset[str] = frozenset()
    """The beginnings of paths, up to a dot."""
    ends: frozenset[str] = frozenset()
    """The ends of paths, which may be a part of a piece."""
    patterns: tuple[Pattern[str], ...] = ()
    numbered: tuple[str, ...] = ()
    """Those with a number, in which a layer or an expert may stand."""

    def match(self, path: str) -> bool:
        """Return whether a module is listed."""
        return (
            path in self.exact
            or (bool(self.starts) and not self.starts.isdisjoint(above(path)))
            or (bool(self.ends) and any(path[at:] in self.ends for at in range(len(path))))
            or any(pattern.match(path) for pattern in self.patterns)
        )

    def depends_on(self, paths: Sequence[str]) -> int:
        """Return how many indices, from the outermost, decide if a module is listed.

        ``paths`` are its names with ``{i}`` for the indices.

        Example:
            >>> names = ModuleNames(numbered=("model.layers.0.mlp",))
            >>> names.depends_on(["model.layers.{i}.mlp.experts.{j}.up_proj"])
            1
            >>> names.depends_on(["lm_head"])
            0
        """
        if not self.numbered:
            return 0
        indices = max(path.count("{") for path in paths)
        for path in paths:
            before, _, _ = path.partition("{")
            if all(_has_only_number_after(before, name) for name in self.numbered):
                return min(indices, 1)
        return indices


def _has_only_number_after(before: str, name: str) -> bool:
    """Whether the only number in a name follows the text before a path's first index."""
    below = name.removeprefix(before)
    return below != name and not any(map(str.isdigit, below.lstrip("0123456789")))


class PackedTensor(NamedTuple):
    """One of the tensors that a weight is packed into; it exists if ``when`` is true."""

    ending: str
    dtype: str
    dims: tuple[Tree, ...]
    when: Tree | None


class Packing(NamedTuple):
    """The tensors of each packed weight, for modules of some classes.

    ``targets`` list the modules if they are not all of those classes.
    """

    label: str
    bits: int | None
    tensors: tuple[PackedTensor, ...]
    settings: Mapping[str, Any]
    modules: frozenset[str]
    targets: ModuleNames | None = None

    def packs(self, weight: FileWeight) -> bool:
        """Return whether the weight is of a module that this packs."""
        if weight.module not in self.modules:
            return False
        return self.targets is None or any(map(self.targets.match, weight.paths))

    def stored(self, weight: FileWeight) -> Iterator[tuple[str, str, tuple[int, ...]]]:
        """Yield the ending, the dtype and the shape of each tensor that holds a weight.

        Raises:
            ExpressionError: the rule does not cover a weight of this shape.
        """
        names = {**self.settings, **_rule_sizes(weight, self.settings.get("group_size"))}
        for tensor in self.tensors:
            if tensor.when is None or evaluate(tensor.when, names) is True:
                shape = tuple(_spread(evaluate(dim, names) for dim in tensor.dims))
                if not all(type(size) is int and size > 0 for size in shape):
                    raise ExpressionError("a size is not a positive integer", values=names)
                yield tensor.ending, tensor.dtype, shape


def _rule_sizes(weight: FileWeight, group_size: Any) -> dict[str, Any]:
    """Return the sizes of a weight, by their names in rules."""
    sizes: dict[str, Any] = {
        "weight": weight.shape,
        "elements": prod(weight.shape),
        "rows": weight.shape[-2],
        "columns": weight.shape[-1],
    }
    if len(weight.shape) == _MATRIX:
        outputs, inputs = weight.shape
        if weight.module == "Conv1D":
            inputs, outputs = weight.shape
        sizes |= {"outputs": outputs, "inputs": inputs, "groups": 1}
        if type(group_size) is int and group_size > 0:
            sizes["groups"] = ceil(inputs / group_size)
    return sizes


def _spread(values: Iterable[Any]) -> Iterator[int]:
    for value in values:
        if isinstance(value, tuple | list):
            yield from value
        else:
            yield value


class Quantization(NamedTuple):
    """How a checkpoint is quantised: which modules are packed, and how.

    ``head`` says when the output head is packed: ``"never"``, ``"as the others"``, or ``"in
    layers"`` if nothing outside the layers is. ``rest`` is the dtype of the other tensors if the
    config states none. Files may differ a little from the rule if ``is_exact`` is false.
    """

    method: str
    packings: tuple[Packing, ...]
    kept: ModuleNames
    head: str
    rest: str
    is_exact: bool

    def packing_of(self, weight: FileWeight) -> Packing | None:
        """Return how a weight is packed; None if it is kept as it is."""
        if not weight.module or not self._may_pack(weight):
            return None
        if any(map(self.kept.match, weight.paths)):
            return None
        return next((packing for packing in self.packings if packing.packs(weight)), None)

    def _may_pack(self, weight: FileWeight) -> bool:
        if self.head == "in layers":
            return weight.is_in_layer
        return not weight.is_head or self.head == "as the others"

    def lists_layers_of(self, names: Sequence[str]) -> bool:
        """Return whether one of the layers that are listed is in a model with these tensors."""
        starts = {_before_number(name) for name in self.kept.numbered}
        stacks = tuple(start for start in starts if start.endswith("."))
        return not stacks or any(name.startswith(stacks) for name in names)

    def depends_on(self, paths: Sequence[str]) -> int:
        """Return how many indices, from the outermost, decide if a module is packed."""
        targets = [packing.targets for packing in self.packings if packing.targets]
        return max(names.depends_on(paths) for names in (self.kept, *targets))


def _before_number(name: str) -> str:
    """Return the text before the first digit."""
    for at, character in enumerate(name):
        if character.isdigit():
            return name[:at]
    return name


class UncoveredError(Exception):
    """The rules do not say how the files hold a weight; the message says why."""


def stored_elements(
    weights: Iterable[FileWeight], quantization: Quantization, dtype: str
) -> dict[str, int]:
    """Return the elements that files hold, by dtype.

    ``dtype`` is that of the tensors that are not packed. The words that hold packed elements count,
    and so do scales and zeros.

    Raises:
        UncoveredError: the rules do not cover the shape of a weight.
    """
    elements, packed = Counter[str](), dict[FileWeight, tuple[Packing, int]]()
    for weight in weights:
        packing = quantization.packing_of(weight)
        if packing is None:
            elements[dtype] += weight.elements
            continue
        alike = FileWeight((packing.label,), weight.shape, weight.module)
        _, number = packed.get(alike, (packing, 0))
        packed[alike] = (packing, number + weight.number)
    try:
        for weight, (packing, number) in packed.items():
            for _, stored_dtype, shape in packing.stored(weight):
                own_dtype = dtype if stored_dtype == REST else stored_dtype
                elements[own_dtype] += prod(shape) * number
    except ExpressionError:
        raise UncoveredError("the rule does not cover the shape of a weight") from None
    return dict(elements)


def elements_bytes(elements: Mapping[str, int]) -> int:
    """Return the bytes of elements of several dtypes.

    Example:
        >>> elements_bytes({"F8_E4M3": 1000, "F32": 10})
        1040
    """
    return sum(stored_bytes(number, dtype) for dtype, number in elements.items())


def weights_of(
    ledger: Ledger, quantization: Quantization, prefix: str = ""
) -> Iterator[FileWeight]:
    """Yield the tensors of a class's files before they are packed; a tied tensor is not stored.

    ``prefix`` goes before the paths, for a base class whose modules the config lists as those of
    another class.

    Raises:
        UncoveredError: the config lists layers, and none of them is under a path of the model.
    """
    entries = [entry for entry in ledger.stored.entries if not entry.tied]
    yield from weights_of_entries(entries, ledger, quantization, prefix)
    sources = ledger.blueprint.sources(ledger.class_name)
    names = [prefix + name for name in (*sources, *sources.values())]
    if not quantization.lists_layers_of(names):
        raise UncoveredError("the layers that it lists have other names than those of the model")


def weights_of_entries(
    entries: Iterable[Entry],
    ledger: Ledger,
    quantization: Quantization | None,
    prefix: str = "",
) -> Iterator[FileWeight]:
    """Yield the tensors of some entries of a ledger's files, as `weights_of` does for all."""
    sources = ledger.blueprint.sources(ledger.class_name)
    modules = ledger.blueprint.modules(ledger.class_name)
    last_path = _module_of(ledger.stored.entries[-1].template.name)
    for entry in entries:
        name = entry.template.name
        source = sources.get(name, name)
        module = _module_class(entry, modules.get(_module_of(source), ""))
        is_head = entry.template.role == _HEAD or _module_of(name) == last_path
        paths = tuple(dict.fromkeys((prefix + _module_of(name), prefix + _module_of(source))))
        weight = FileWeight(paths, entry.shape, module, is_head, bool(entry.template.repeat))
        depth = 0
        if module and quantization is not None:
            depth = quantization.depends_on(paths)
        yield from _in_places(weight, entry, depth)


def _module_of(name: str) -> str:
    """Return the path of the module of a weight; a name without ``.weight`` is its own path."""
    return name.removesuffix(".weight")


def _module_class(entry: Entry, module: str) -> str:
    """Return the class of the module that a weight belongs to; empty if it is never packed."""
    if len(entry.shape) < _MATRIX or entry.template.name.endswith("bias"):
        return ""
    if not module and entry.template.role.startswith(f"{EXPERT}."):
        return EXPERT
    return class_with_weight(module, len(entry.shape))


def _in_places(weight: FileWeight, entry: Entry, depth: int) -> Iterator[FileWeight]:
    """Yield a weight for each value of its outermost indices, with the number of its places."""
    places: Iterable[tuple[tuple[int, ...], int]]
    if depth == 0:
        places = [(entry.indices[0], len(entry.indices))]
    elif depth == 1:
        places = [((value, *inside[0]), len(inside)) for value, inside in entry.indices.items()]
    else:
        places = [(place, 1) for place in entry.indices]
    for place, number in places:
        paths = tuple(_with_indices(path, entry.template.repeat, place) for path in weight.paths)
        yield weight._replace(paths=paths, number=number)


def _with_indices(path: str, indices: Sequence[str], place: tuple[int, ...]) -> str:
    for index, value in zip(indices, place, strict=True):
        path = path.replace(f"{{{index}}}", str(value))
    return path
