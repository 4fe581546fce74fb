"""How the names of tensors in files follow those of the module's tensors."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weighbridge.derive.generalize.places import Place

    Templates = tuple[str, ...]  # the module's tensors that a tensor in a file is made of

_NUMBERED = re.compile(r"(.*\D)?(\d+)")


class UnclearError(Exception):
    """The contents of files follow no pattern that a blueprint can express."""


class FileTensor(NamedTuple):
    """A tensor in a file: the place of the first tensor that it is made of, its name and shape."""

    place: Place
    name: str
    shape: tuple[int, ...]
    is_unchanged: bool
    """Whether it is a single tensor of the module, with the same shape."""


class NamedPart(NamedTuple):
    """Tensors in files with one name pattern, made of the same tensors of the module."""

    templates: Templates
    tensors: list[FileTensor]
    numbers: list[int] | None
    """The number of each tensor in a list that exists only in files; None without such a list."""


def named_parts(templates: Templates, tensors: Sequence[FileTensor]) -> dict[str, NamedPart]:
    """Return tensors made of the same sources by name, with ``{0}``, ``{1}`` for indices.

    A piece that ends in a number is first kept whole (``w1``), and then split into a stem and a
    number.
    """
    places = {tensor.place for tensor in tensors}
    for with_stems in (False, True):
        groups: dict[str, list[tuple[FileTensor, list[int]]]] = {}
        for tensor in tensors:
            pattern, numbers = _split(tensor.name, with_stems=with_stems)
            groups.setdefault(pattern, []).append((tensor, numbers))
        if all(_places_of(group) == places for group in groups.values()):
            return dict(_named_part(templates, *item) for item in groups.items())
    raise UnclearError(f"the names of {templates[0]} follow no pattern")


def _places_of(group: Sequence[tuple[FileTensor, list[int]]]) -> set[Place]:
    return {tensor.place for tensor, _ in group}


def _split(name: str, *, with_stems: bool) -> tuple[str, list[int]]:
    """Return a name with ``{}`` in place of each number, and the numbers.

    Example:
        >>> _split("layers.3.w1.weight", with_stems=False)
        ('layers.{}.w1.weight', [3])
        >>> _split("layers.3.w1.weight", with_stems=True)
        ('layers.{}.w{}.weight', [3, 1])
    """
    pieces: list[str] = []
    numbers: list[int] = []
    for piece in name.split("."):
        numbered = _NUMBERED.fullmatch(piece)
        if numbered and (with_stems or not numbered[1]):
            numbers.append(int(numbered[2]))
            pieces.append(f"{numbered[1] or ''}{{}}")
        else:
            pieces.append(piece)
    return ".".join(pieces), numbers


def _named_part(
    templates: Templates, pattern: str, group: Sequence[tuple[FileTensor, list[int]]]
) -> tuple[str, NamedPart]:
    """Return a name pattern: each number is an index of the module, a constant, or file-only."""
    tensors = [tensor for tensor, _ in group]
    depth = len(tensors[0].place[1])
    own_numbers: list[int] | None = None
    slots: list[str] = []
    for numbers in zip(*[numbers for _, numbers in group], strict=True):
        index = _index_followed(tensors, numbers)
        if index is not None and f"{{{index}}}" not in slots:
            slots.append(f"{{{index}}}")
        elif len(set(numbers)) == 1:
            slots.append(str(numbers[0]))
        elif own_numbers is None:
            slots.append(f"{{{depth}}}")
            own_numbers = [*numbers]
        else:
            raise UnclearError(f"{pattern} has two numbers that are not indices of a module")
    return pattern.format(*slots), NamedPart(templates, tensors, own_numbers)


def _index_followed(tensors: Sequence[FileTensor], numbers: Sequence[int]) -> int | None:
    """Return the depth of the index that always equals these numbers."""
    for depth in range(len(tensors[0].place[1])):
        if [tensor.place[1][depth] for tensor in tensors] == list(numbers):
            return depth
    return None
