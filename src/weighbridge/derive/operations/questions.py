"""The questions that conditions of operations are made of, and the cheapest condition."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from weighbridge.algebra.expr import evaluate, names_in
from weighbridge.derive.generalize.choosing import condition_of
from weighbridge.derive.operations.draws import ROWS, asked_by
from weighbridge.derive.operations.reading import LENGTHS
from weighbridge.errors import WeighbridgeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from weighbridge.algebra.expr import Tree
    from weighbridge.derive.operations.draws import Draws

    Question = tuple[Tree, float]
    """A condition with its cost."""

CACHED = ("step", "prefilled", "stepped")
"""The kinds of operations whose length is that of the cache."""

# The cost of a question in a condition: the most natural condition is the cheapest.
COST_OF_SETTING = 1
_COST_OF_TRAINING = 2
_COST_OF_DROPOUT_OR_ANOTHER = 3
_COST_OF_KNOWN = 2  # of layers: the blueprint asks it
_COST_OF_LAYER = 4
_COST_OF_EDGE = 3
_COST_OF_ONE = 5


class RunQuestions:
    """The questions that may be asked of the runs of a family.

    ``dropouts`` are its usual dropouts by field; of the ``windows``, some are ``nullable``.
    """

    def __init__(
        self,
        draws: Draws,
        dropouts: Mapping[str, float | None],
        windows: Sequence[str],
        nullable: Sequence[str],
    ) -> None:
        self._draws, self._dropouts = draws, dropouts
        self._windows, self._nullable = windows, nullable

    def asked(self, kind: str, letters: Iterable[str], edges: Iterable[str]) -> Iterator[Question]:
        """Yield the questions for operations of a kind.

        ``letters`` are the indices in the path of their module, and ``edges`` the sizes of a run
        that were changed.
        """
        yield ("==", ("name", "dtype"), ("value", "F32")), COST_OF_SETTING
        yield ("name", "training"), _COST_OF_TRAINING
        with_value = [name for name, value in self._dropouts.items() if value is not None]
        for name in with_value:
            yield _dropped(("name", name)), COST_OF_SETTING
        for name in (name for name, value in self._dropouts.items() if value is None):
            for other in with_value:
                is_null = ("==", ("name", name), ("value", None))
                either = ("if", is_null, ("name", other), ("name", name))
                yield _dropped(either), _COST_OF_DROPOUT_OR_ANOTHER
        yield from self._of_layers(letters)
        changed = sorted(edges)
        yield from _of_edges(changed)
        length = "past" if kind in CACHED else "sequence"
        if length in changed:
            yield from self._of_windows(("name", length))
        for name in self._nullable:
            yield ("!=", ("name", name), ("value", None)), _COST_OF_EDGE
        for name, other in self._draws.equal.items():
            yield ("==", ("name", name), ("name", other)), _COST_OF_EDGE
        for name in self._draws.key_heads:
            yield ("==", ("name", name), ("value", 1)), _COST_OF_EDGE
        for name, share in self._draws.turned.items():
            yield ("==", ("name", name), ("value", share)), _COST_OF_EDGE
        for name in self._draws.nullable:
            yield ("!=", ("name", name), ("value", None)), _COST_OF_KNOWN

    def _of_windows(self, length: Tree) -> Iterator[Question]:
        for name in self._windows:
            for tree, cost in _at_window(length, ("name", name)):
                if name in self._nullable:
                    yield ("and", ("!=", ("name", name), ("value", None)), tree), cost
                else:
                    yield tree, cost
        for half in self._draws.halved:
            yield from _at_window(length, half)
        for chunk in self._draws.chunks:
            if chunk[0] == "value":
                yield from _at_window(length, chunk)
                yield ("==", length, chunk), _COST_OF_EDGE + 1

    def _of_layers(self, letters: Iterable[str]) -> Iterator[Question]:
        known = dict.fromkeys(letters)
        for name, types in self._draws.layer_types.items():
            for letter, kind in itertools.product(known, types):
                item = ("[]", ("name", name), ("name", letter))
                yield ("==", item, ("value", kind)), _COST_OF_KNOWN
            for letter in known:
                earlier_type = ("[]", ("name", name), ("name", "earlier"))
                earlier_types = ("for", "earlier", ("name", letter), earlier_type)
                item = ("[]", ("name", name), ("name", letter))
                yield ("not in", item, earlier_types), _COST_OF_LAYER  # the first of its type
        for name, letter in itertools.product(self._draws.index_lists, known):
            yield _first_of(name, letter), _COST_OF_LAYER
            taken = ("len", ("name", name))  # as many layers take what the listed ones put out
            yield ("<", ("name", letter), taken), _COST_OF_LAYER + 1
            before = ("-", ("name", letter), ("value", 1))  # its output is kept for those, too
            yield ("in", before, ("name", name)), _COST_OF_LAYER + 1
        for name, count in self._draws.listed.items():
            last = ("-", count, ("value", 1))
            yield ("in", last, ("name", name)), _COST_OF_LAYER + 1
        for part in self._asked_by_the_blueprint(set(known)):
            yield part, _COST_OF_KNOWN
            if part[0] in (">=", "<"):  # the first layer of these
                yield ("==", *part[1:]), _COST_OF_LAYER
        for letter in known:
            last = ("-", self._draws.blueprint.repeat[letter], ("value", 1))
            yield ("==", ("name", letter), ("value", 0)), _COST_OF_LAYER
            yield ("==", ("name", letter), ("value", 1)), _COST_OF_LAYER + 1
            yield ("==", ("name", letter), last), _COST_OF_LAYER

    def _asked_by_the_blueprint(self, letters: set[str]) -> Iterator[Tree]:
        """Yield the conditions on these indices under which tensors exist."""
        for part in asked_by(self._draws.blueprint):
            used = set(names_in(part)) & set(self._draws.blueprint.repeat)
            if used and used <= letters and not self._asks_a_lacking_list(part):
                yield part

    def _asks_a_lacking_list(self, part: Tree) -> bool:
        """Whether a condition cannot be asked where a list is null, which it does not check."""
        return part[0] in ("in", "not in") and part[2][1:] in [
            (name,) for name in self._draws.index_lists
        ]


def _of_edges(edges: Sequence[str]) -> Iterator[Question]:
    """Yield the questions whether a size is more than 1, and whether there are images."""
    for name in edges:
        yield (">", ("name", name), ("value", 1)), _COST_OF_ONE
    if "images" in edges:
        yield (">", ("name", "images"), ("value", 0)), COST_OF_SETTING


def of_padded_rows(text: str) -> Iterator[Question]:
    """Yield the questions whether a length is padded at all, for a text with padded lengths.

    Example:
        >>> [tree for tree, _ in of_padded_rows("F32 (8*ceil(sequence/8))*target")]
        [('>', ('%', ('name', 'sequence'), ('value', 8)), ('value', 0))]
    """
    for name in LENGTHS:
        if f"ceil({name}/{ROWS})" in text:
            rest: Tree = ("%", ("name", name), ("value", ROWS))
            yield (">", rest, ("value", 0)), _COST_OF_EDGE + 1


def cheapest(
    questions: Iterable[Question], environments: Sequence[Mapping[str, Any]], wanted: Any
) -> Tree | None:
    """Return the cheapest condition that holds in the wanted environments only."""
    trees, costs, answers = [], [], []
    for tree, cost in questions:
        try:
            row = [bool(evaluate(tree, environment)) for environment in environments]
        except WeighbridgeError:
            continue
        if any(row) and not all(row):
            trees.append(tree)
            costs.append(cost)
            answers.append(row)
    table = np.array(answers, dtype=bool).reshape(len(answers), len(environments))
    return condition_of(trees, costs, table, wanted)


def _first_of(name: str, letter: str) -> Tree:
    """Return the condition that no earlier layer is in a list of indices, which may be null."""
    is_listed: Tree = ("in", ("name", "earlier"), ("name", name))
    earlier: Tree = ("for", "earlier", ("name", letter), is_listed)
    is_given: Tree = ("!=", ("name", name), ("value", None))
    return ("and", is_given, ("not in", ("value", True), earlier))


def _at_window(length: Tree, window: Tree) -> Iterator[Question]:
    yield (">", length, window), _COST_OF_EDGE
    yield (">=", length, window), _COST_OF_EDGE
    for more in (1, 2):
        yield (">=", ("+", length, ("value", more)), window), _COST_OF_EDGE + 1
    yield (">", ("%", length, window), ("value", 0)), _COST_OF_EDGE + 1


def _dropped(probability: Tree) -> Tree:
    return ("and", ("name", "training"), (">", probability, ("value", 0)))
