"""What files hold in place of each tensor of a module: names, dims and counts."""

from __future__ import annotations

import re
from collections import Counter
from functools import reduce
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from weighbridge.algebra.rewrite import simplified
from weighbridge.derive.generalize.lost_values import LostValues
from weighbridge.derive.generalize.places import environment, templated, value_at
from weighbridge.derive.saved.name_patterns import FileTensor, UnclearError, named_parts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from weighbridge.algebra.expr import Tree
    from weighbridge.derive.generalize.draft import Draft
    from weighbridge.derive.generalize.places import Place
    from weighbridge.derive.probing.probe import Probe
    from weighbridge.derive.probing.reversal import Files
    from weighbridge.derive.saved.name_patterns import NamedPart, Templates

_PATH = re.compile(r"[\w-]+(\.[\w-]+)*")  # transformers saves one name that contains a `*`
_FRACTIONS = (2, 3, 4)  # parts of a fused dim: gate and up; query, key and value; LSTM gates


class SavedTensor(NamedTuple):
    """A tensor in files: its name with ``{0}``, ``{1}`` for indices, and its dims.

    The dims are None if they are those of the module's tensor.
    """

    name: str
    dims: tuple[Tree, ...] | None
    number: Tree | None = None
    """The number of values of its last index, if the module's tensor lacks this index."""


def saved_tensors(
    draft: Draft, probes: Sequence[Probe], files: Sequence[Files]
) -> dict[str, list[SavedTensor]]:
    """Return the tensors that files hold in place of each tensor of the module, by its template.

    Raises:
        UnclearError: the contents of files follow no pattern.
    """
    sizes = _Sizes(draft, probes)
    parts_by_name: dict[str, list[NamedPart]] = {}
    for templates, tensors in _by_source(draft, probes, files).items():
        for name, part in named_parts(templates, tensors).items():
            parts_by_name.setdefault(name, []).append(part)
    saved: dict[str, list[SavedTensor]] = {}
    for name, parts in parts_by_name.items():
        tensor = _saved_tensor(sizes, name, parts)
        for template in dict.fromkeys(_templates(parts)):
            saved.setdefault(template, []).append(tensor)
    return saved


def _templates(parts: Sequence[NamedPart]) -> Iterator[str]:
    return chain.from_iterable(part.templates for part in parts)


def _by_source(
    draft: Draft, probes: Sequence[Probe], files: Sequence[Files]
) -> dict[Templates, list[FileTensor]]:
    """Return the tensors in files by the module's tensors that they are made of."""
    by_source: dict[Templates, list[FileTensor]] = {}
    for number, (probe, in_files) in enumerate(zip(probes, files, strict=True)):
        for templates, tensor in _file_tensors(draft, number, probe, in_files):
            by_source.setdefault(templates, []).append(tensor)
    for template, times in Counter(chain.from_iterable(by_source)).items():
        if times > 1:
            problem = f"{template} is stored with different tensors in different configs"
            raise UnclearError(problem)
    return by_source


def _file_tensors(
    draft: Draft, number: int, probe: Probe, files: Files
) -> Iterator[tuple[Templates, FileTensor]]:
    """Yield the tensors in one probe's files, each with the templates that it is made of."""
    known = draft.tensors.keys() | draft.buffers.keys()
    shapes = {name: tensor.shape for name, tensor in probe.buffers.items()}
    shapes |= {name: tensor.shape for name, tensor in probe.tensors.items()}
    for name, tensor in files.tensors.items():
        sources = [templated(source, draft.repeats.__contains__) for source in tensor.of]
        templates = tuple(dict.fromkeys(template for template, _ in sources))
        if known.issuperset(templates) and _PATH.fullmatch(name):
            is_unchanged = len(tensor.of) == 1 and shapes[tensor.of[0]] == tensor.shape
            place = (number, sources[0][1])
            yield templates, FileTensor(place, name, tensor.shape, is_unchanged)


def _saved_tensor(sizes: _Sizes, name: str, parts: Sequence[NamedPart]) -> SavedTensor:
    """Return the tensor with this name, made of these parts."""
    if len(parts) == 1 and parts[0].numbers is None:
        if all(tensor.is_unchanged for tensor in parts[0].tensors):
            return SavedTensor(name, None)
        return SavedTensor(name, sizes.dims_of(parts[0]))
    numbers_at: dict[Place, set[int]] = {}
    for part in parts:
        for tensor, number in _numbered_tensors(name, part):
            numbers_at.setdefault(tensor.place, set()).add(number)
    if any(numbers != set(range(len(numbers))) for numbers in numbers_at.values()):
        raise _not_from_0(name)
    counts = {place: len(numbers) for place, numbers in numbers_at.items()}
    first_dims = [sizes.dims[part.templates[0]][0] for part in parts]
    every_dim = chain.from_iterable(sizes.dims[template] for template in _templates(parts))
    count = sizes.expression(counts, [_sum(first_dims), *every_dim])
    return SavedTensor(name, _dims_of_all(sizes, name, parts), count)


def _numbered_tensors(name: str, part: NamedPart) -> Iterator[tuple[FileTensor, int]]:
    if part.numbers is None:
        raise _not_from_0(name)
    return zip(part.tensors, part.numbers, strict=True)


def _not_from_0(name: str) -> UnclearError:
    return UnclearError(f"the numbers in {name} do not count up from 0")


def _dims_of_all(sizes: _Sizes, name: str, parts: Sequence[NamedPart]) -> tuple[Tree, ...]:
    """Return the dims of tensors numbered through all parts: each part has its range of numbers."""
    first, *others = sorted(parts, key=lambda part: min(part.numbers or ()))
    dims = sizes.dims_of(first)
    if not others:
        return dims
    ends: dict[Place, int] = {}
    for tensor, number in _numbered_tensors(name, first):
        ends[tensor.place] = max(number + 1, ends.get(tensor.place, 0))
    likely = chain.from_iterable(sizes.dims[template] for template in first.templates)
    end = sizes.expression(ends, [*likely])
    is_first: Tree = ("<", ("index", name.count("{") - 1), end)
    joint: list[Tree] = []
    for dim, other in zip(dims, _dims_of_all(sizes, name, others), strict=True):
        joint.append(dim if dim == other else ("if", is_first, dim, other))
    return tuple(joint)


class _Sizes:
    """Finds expressions for the sizes of tensors in files, likely ones first."""

    def __init__(self, draft: Draft, probes: Sequence[Probe]) -> None:
        self._probes = probes
        self._lost_values = LostValues([probe.trace for probe in probes], guess=False)
        self.dims = {
            name: tensor.dims or ()
            for name, tensor in (*draft.buffers.items(), *draft.tensors.items())
        }

    def dims_of(self, part: NamedPart) -> tuple[Tree, ...]:
        """Return the dims of the tensors of one part."""
        shapes: dict[Place, tuple[int, ...]] = {}
        for tensor in part.tensors:
            if shapes.setdefault(tensor.place, tensor.shape) != tensor.shape:
                raise _not_the_same_dims(part)
        if len({len(shape) for shape in shapes.values()}) > 1:
            raise _not_the_same_dims(part)
        rank = len(part.tensors[0].shape)
        dims: list[Tree] = []
        for axis in range(rank):
            wanted = {place: shape[axis] for place, shape in shapes.items()}
            dims.append(self.expression(wanted, [*self._likely(part.templates, axis - rank)]))
        return tuple(dims)

    def _likely(self, templates: Templates, axis: int) -> Iterator[Tree]:
        """Yield likely expressions for a dim: the sum of the tensors' dims, one of them, a part."""
        dims_of = [self.dims[template] for template in templates]
        same_axis = [dims[axis] for dims in dims_of if len(dims) >= -axis]
        if len(same_axis) > 1:
            yield _sum(same_axis)
        for trees in (same_axis, [*chain.from_iterable(dims_of)]):
            yield from trees
            for divisor in _FRACTIONS:
                yield from (_fraction(tree, divisor) for tree in trees)

    def expression(self, wanted: Mapping[Place, int], likely: Sequence[Tree]) -> Tree:
        """Return an expression for these numbers, one of the likely ones if it fits.

        Raises:
            UnclearError: there is no such expression.
        """
        environments = [environment(self._probes, place) for place in wanted]
        exact = [tree for tree in likely if tree[0] != "//" or _is_exact(tree, environments)]
        tree = self._lost_values.expression(list(wanted.values()), environments, exact)
        if tree is None:
            raise UnclearError(f"no expression gives {sorted(set(wanted.values()))[:3]}")
        return simplified(tree)


def _not_the_same_dims(part: NamedPart) -> UnclearError:
    return UnclearError(f"{part.tensors[0].name} does not always have the same dims")


def _is_exact(quotient: Tree, environments: Iterable[Mapping[str, object]]) -> bool:
    """Whether a division leaves no remainder anywhere."""
    remainder = ("%", *quotient[1:])
    return all(value_at(remainder, environment) == 0 for environment in environments)


def _sum(trees: Sequence[Tree]) -> Tree:
    """Return a sum, with equal terms as a product.

    Example:
        >>> _sum([("name", "width"), ("name", "width")])
        ('*', ('value', 2), ('name', 'width'))
    """
    terms: list[Tree] = []
    for tree, times in Counter(trees).items():
        terms.append(tree if times == 1 else _multiple(times, tree))
    return reduce(lambda total, term: ("+", total, term), terms)


def _multiple(number: int, tree: Tree) -> Tree:
    if tree[0] == "*":
        return ("*", _multiple(number, tree[1]), tree[2])
    return simplified(("*", ("value", number), tree))


def _fraction(tree: Tree, divisor: int) -> Tree:
    """Return a tree divided by a number, which cancels a factor if it divides one.

    Example:
        >>> _fraction(("*", ("value", 2), ("name", "width")), 2)
        ('name', 'width')
    """
    if tree[0] == "*":
        for position, factor in enumerate(tree):
            if factor[0] == "value" and factor[1] % divisor == 0:
                cancelled = ("value", factor[1] // divisor)
                return simplified((*tree[:position], cancelled, *tree[position + 1 :]))
    return ("//", tree, ("value", divisor))
