"""Ordinals: how many layers of the same kind come before a layer, from a list of kinds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge.algebra.rewrite import ONE, ZERO, leaves

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from weighbridge.algebra.expr import Tree
    from weighbridge.derive.generalize.evidence import Evidence
    from weighbridge.derive.generalize.existence import Templated
    from weighbridge.derive.generalize.places import Place

LEAST_NUMBERS = 3  # numbers in questions of one form; fewer are constants of the code
_COUNTED, _BEFORE = "layer", "before"  # the names of counters in loops


class DraftedTie(NamedTuple):
    """The name of another tensor, and the condition under which both are the same.

    ``at`` gives the first index in that name, if it is not that of the tied tensor itself.
    """

    target: str
    condition: Tree
    at: Tree | None = None

    @property
    def trees(self) -> list[Tree]:
        """The expressions of the tie."""
        return [self.condition] if self.at is None else [self.at, self.condition]


class NumberedKind(NamedTuple):
    """A text, and the list of texts that has it as an item: the kind of some layers."""

    field: str
    text: str

    def places(self, fields: Mapping[str, Any]) -> list[int]:
        """Return the indices of the layers of this kind."""
        return [index for index, text in enumerate(fields[self.field]) if text == self.text]

    def number_below(self, bound: Tree, counter: str = _COUNTED) -> Tree:
        """Return the number of layers of this kind below a bound."""
        item: Tree = ("[]", ("name", self.field), ("name", counter))
        return ("count", counter, bound, ("==", item, ("value", self.text)))

    @property
    def number(self) -> Tree:
        """The number of layers of this kind."""
        return self.number_below(("len", ("name", self.field)))

    def place(self, ordinal: Tree, bound: Tree) -> Tree:
        """Return the index of the layer that this many of its kind precede, below a bound."""
        up_to_here = self.number_below(("+", ("name", _BEFORE), ONE))
        return ("count", _BEFORE, bound, ("<=", up_to_here, ordinal))


def kinds(all_fields: Sequence[Mapping[str, Any]]) -> list[NumberedKind]:
    """Return the kinds in lists of texts that every config has."""
    texts: dict[str, set[str]] = {}
    for fields in all_fields:
        for name, value in fields.items():
            is_of_texts = isinstance(value, list) and value and isinstance(value[0], str)
            if is_of_texts and all(isinstance(text, str) for text in value):
                texts.setdefault(name, set()).update(value)
    return [
        NumberedKind(name, text)
        for name in sorted(texts)
        if all(isinstance(fields.get(name), list) for fields in all_fields)
        for text in sorted(texts[name])
    ]


def tie_to_earlier(
    evidence: Evidence, named: Templated, places: Iterable[Place], earlier: Mapping[Place, int]
) -> DraftedTie | None:
    """Return the tie of a tensor to the same tensor in an earlier layer of its kind.

    The first layers of a kind have tensors of their own, as many as a field says, or one. The
    later ones share them in turn.
    """
    all_fields = [observation.fields for observation in evidence.observations]
    known = list(places)
    for kind, count, targets in _shared_in_turn(all_fields, known):
        if earlier.items() <= targets.items():
            untied = targets.keys() - earlier.keys()
            condition = evidence.condition_between(named.level, earlier, untied)
            if condition is not None:
                return _tie(kind, count, evidence.written(condition), named.template)
    return None


def _shared_in_turn(
    all_fields: Sequence[Mapping[str, Any]], places: Sequence[Place]
) -> Iterator[tuple[NumberedKind, Tree, dict[Place, int]]]:
    """Yield each kind that all these layers have, with each number of first layers.

    With both comes the first layer whose tensor each later layer shares.
    """
    counts = [ONE, *_integer_fields(all_fields)]
    for kind in kinds(all_fields):
        places_of_kind = [kind.places(fields) for fields in all_fields]
        for count in counts:
            targets = _in_turn(all_fields, places_of_kind, count, places)
            if targets is not None:
                yield kind, count, targets


def _integer_fields(all_fields: Sequence[Mapping[str, Any]]) -> Iterator[Tree]:
    """Yield the fields that are integers in every config."""
    shared = set.intersection(*[set(fields) for fields in all_fields])
    for name in sorted(shared):
        if all(type(fields[name]) is int for fields in all_fields):
            yield ("name", name)


def _in_turn(
    all_fields: Sequence[Mapping[str, Any]],
    places_of_kind: Sequence[Sequence[int]],
    count: Tree,
    places: Iterable[Place],
) -> dict[Place, int] | None:
    """Return the layers whose tensors the later ones share, if the first ``count`` are shared.

    None if one of the places is not in a layer of the kind.
    """
    targets: dict[Place, int] = {}
    for place in places:
        row, indices = place
        number = count[1] if count[0] == "value" else all_fields[row][count[1]]
        of_kind = places_of_kind[row]
        if number < 1 or indices[0] not in of_kind:
            return None
        ordinal = of_kind.index(indices[0])
        if ordinal >= number:
            targets[place] = of_kind[ordinal % number]
    return targets


def _tie(kind: NumberedKind, count: Tree, condition: Tree, template: str) -> DraftedTie:
    index: Tree = ("index", 0)
    ordinal = kind.number_below(index)
    target = ZERO if count == ONE else ("%", ordinal, count)
    is_later: Tree = (">", ordinal, ZERO) if count == ONE else (">=", ordinal, count)
    if condition != ("value", True):
        is_later = ("and", condition, is_later)
    return DraftedTie(template, is_later, kind.place(target, index))


def with_ordinals(
    questions: Iterable[Tree], all_fields: Sequence[Mapping[str, Any]], depth: int
) -> Iterator[Tree]:
    """Yield the questions of one form that differ in one number, with ordinals in its place.

    Code counts the layers of a kind with a plain number, which does not remember.
    """
    possible = kinds(all_fields)
    if not possible or not depth:
        return
    numbers_by_form: dict[tuple[Tree, ...], set[int]] = {}
    for question in questions:
        for form, number in _forms(question):
            numbers_by_form.setdefault(form, set()).add(number)
    for form, numbers in numbers_by_form.items():
        if len(numbers) >= LEAST_NUMBERS:
            for kind in possible:
                for outer in range(depth):
                    yield _filled(form[0], kind.number_below(("index", outer)))


_HOLE: Tree = ("value", "a number")


def _forms(question: Tree) -> Iterator[tuple[tuple[Tree, ...], int]]:
    """Yield a question with a hole for each of its numbers in turn, and that number."""
    if not any(leaf[0] == "loop" for leaf in leaves(question)):
        return
    for path, number in _numbers_in(question):
        yield (_with_hole(question, path),), number


def _numbers_in(tree: Tree, path: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], int]]:
    if tree[0] == "value" and type(tree[1]) is int:
        yield path, tree[1]
    elif tree[0] not in ("value", "name", "loop", "index"):
        for position, operand in enumerate(tree[1:], 1):
            if isinstance(operand, tuple):
                yield from _numbers_in(operand, (*path, position))


def _with_hole(tree: Tree, path: Sequence[int]) -> Tree:
    if not path:
        return _HOLE
    first, *rest = path
    return (*tree[:first], _with_hole(tree[first], rest), *tree[first + 1 :])


def _filled(form: Tree, ordinal: Tree) -> Tree:
    if form == _HOLE:
        return ordinal
    if form[0] in ("value", "name", "loop", "index"):
        return form
    operands = [
        _filled(operand, ordinal) if isinstance(operand, tuple) else operand for operand in form[1:]
    ]
    return (form[0], *operands)
