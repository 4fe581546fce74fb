"""Selects the sentences that are true of some tensors, and fills in shapes and figures.

The sentences are data, in `words/explain.*.toml`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge import data
from weighbridge.algebra.expr import evaluate, names_in, parse, source, substitute
from weighbridge.blueprint.roles import component_of
from weighbridge.ledger.symbols import letters_of, size_symbols

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from weighbridge.algebra.expr import Tree
    from weighbridge.ledger.ledger import Ledger
    from weighbridge.ledger.rows import Entry

    Sentence = Mapping[str, Any]


class Narrator:
    """Fills in the sentences about a model: letters, their values, shapes of tensors."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger, self.blueprint = ledger, ledger.blueprint
        self.letters = letters_of(self.blueprint)
        sizes = {
            name: value for name, value in ledger.fields.items() if type(value) in (int, float)
        }
        self.values: dict[str, Any] = {
            **sizes,
            **{letter: sizes[name] for name, letter in self.letters.items() if name in sizes},
        }

    def narrate(
        self,
        sentences: Iterable[Sentence],
        own: Sequence[Entry],
        around: Sequence[Entry],
        **figures: str,
    ) -> Iterator[str]:
        """Yield the sentences that are true of the tensors ``own``, filled in.

        The tensors ``around`` are those of the same part of the model.

        A sentence may have conditions:

        - ``has``, ``lacks``: tensors that must exist, or must not, in the notation of `picked`;
        - ``same``: roles with one shape; ``is``: the shape of a role, in letters;
        - ``kernels``: roles whose weights are the kernels of convolutions;
        - ``where``: an inequality of letters;
        - ``tied``: some tensors are tied, or ``"all"``; ``active``: some experts are not active;
        - ``else``: none of the sentences just before was true; ``unless``: the sentence with this
          ``name`` was not true.

        A sentence with a size, or with the single shape of a role, that the model lacks is left
        out.
        """
        is_written, names = False, set[str]()
        for sentence in sentences:
            is_written = is_written and bool(sentence.get("else"))
            if is_written or sentence.get("unless") in names:
                continue
            text = self.filled(sentence, own, around, figures)
            if text is not None:
                is_written = True
                names.add(sentence.get("name", ""))
                yield text

    def filled(
        self,
        sentence: Sentence,
        own: Sequence[Entry],
        around: Sequence[Entry],
        figures: Mapping[str, str],
    ) -> str | None:
        """Return a sentence with values in its braces; None if it is not true here."""
        if not self.is_true(sentence, own, around):
            return None
        try:
            text: str = sentence["text"].format(shape=_Shapes(self, own), **figures)
        except KeyError:
            return None
        if not self.can_fill(text):
            return None
        return text

    def is_true(self, sentence: Sentence, own: Sequence[Entry], around: Sequence[Entry]) -> bool:
        """Whether the conditions of a sentence hold."""
        about = _About(self, own, around)
        return all(
            _CONDITIONS[key](about, value) for key, value in sentence.items() if key in _CONDITIONS
        )

    def alike(self, roles: Iterable[str], entries: Sequence[Entry]) -> bool:
        """Whether all these roles exist, with one shape."""
        shapes = {self.shape_of(role, entries) for role in roles}
        return len(shapes) == 1 and None not in shapes

    def some_are_active(self, entries: Iterable[Entry]) -> bool:
        """Whether there are experts that a token does not pass through."""
        return (
            any(entry.template.active for entry in entries)
            and self.ledger.active < self.ledger.parameters
        )

    def holds(self, condition: str) -> bool:
        """Whether an inequality of letters holds; false if the model lacks one of them."""
        tree = parse(condition)
        return all(name in self.values for name in names_in(tree)) and bool(
            evaluate(tree, self.values)
        )

    def can_fill(self, text: str) -> bool:
        """Whether the model has every letter and every size in a text."""
        letters = {symbol.letter for symbol in size_symbols().values()}
        for marked in re.findall(r"\$([^${]+)\$", text):
            needed = set(names_in(parse(marked.lstrip("=#"))))
            if marked[0] not in "=#":
                needed &= letters
            if not needed <= self.values.keys():
                return False
        return True

    def shape_of(self, role: str, entries: Iterable[Entry]) -> str | None:
        """Return the shape of a role's weights, in letters; None unless there is exactly one."""
        of_role = [entry for entry in entries if picked(entry, role)]
        weights = [entry for entry in of_role if not entry.template.name.endswith("bias")]
        shapes = {" ".join(map(_in_brackets, self.dims(entry))) for entry in weights or of_role}
        if len(shapes) != 1:
            return None
        return shapes.pop()

    def dims(self, entry: Entry) -> list[str]:
        """Return a tensor's dims as simplified mathematics in letters.

        Sizes that depend on the layer are numbers.
        """
        bound, dims = entry.bound(entry.indices[0]), []
        for dim in entry.template.dims:
            polynomial = self.ledger.letters.of(self.blueprint.dims[dim], bound)
            dims.append(source(self.renamed(polynomial.tree((), tuple(self.letters)))))
        return dims

    def renamed(self, tree: Tree) -> Tree:
        """Return a tree with letters instead of fields."""
        return substitute(tree, lambda field: ("name", self.letters.get(field, field)))


def _in_brackets(dim: str) -> str:
    """Return a dim as one word, in brackets if necessary."""
    if " " in dim:
        return f"({dim})"
    return dim


class _About(NamedTuple):
    """The subject of a sentence: its own tensors, and those of the same part."""

    narrator: Narrator
    own: Sequence[Entry]
    around: Sequence[Entry]

    def has(self, selector: str) -> bool:
        return any(picked(entry, selector) for entry in self.around)

    def is_kernel(self, role: str) -> bool:
        return any(len(entry.shape) > _MATRIX for entry in self.own if picked(entry, role))


_MATRIX = 2  # dims

_CONDITIONS: dict[str, Callable[[_About, Any], bool]] = {
    "has": lambda about, selectors: all(map(about.has, selectors)),
    "lacks": lambda about, selectors: not any(map(about.has, selectors)),
    "same": lambda about, roles: about.narrator.alike(roles, about.around),
    "is": lambda about, shapes: all(
        about.narrator.shape_of(role, about.around) == shapes[role] for role in shapes
    ),
    "kernels": lambda about, roles: all(map(about.is_kernel, roles)),
    "where": lambda about, condition: about.narrator.holds(condition),
    "tied": lambda about, which: _TIED.get(which, any)(entry.tied for entry in about.own),
    "active": lambda about, wanted: about.narrator.some_are_active(about.own) == wanted,
}
"""The conditions of a sentence; see `Narrator.narrate`."""
_TIED: dict[object, Callable[[Iterable[bool]], bool]] = {"all": all}
"""The number of tensors that must be tied: any by default."""


class _Shapes:
    """Looks up ``{shape[attention.query]}``."""

    def __init__(self, narrator: Narrator, entries: Sequence[Entry]) -> None:
        self.narrator, self.entries = narrator, entries

    def __getitem__(self, role: str) -> str:
        of_role = [entry for entry in self.entries if picked(entry, role)]
        shape = self.narrator.shape_of(role, of_role)
        if shape is None:
            raise KeyError(role)
        weight = of_role[0]
        for entry in reversed(of_role):
            if not entry.template.name.endswith("bias"):
                weight = entry
        return marked_shape(self.narrator.dims(weight))


def marked_shape(dims: Sequence[str]) -> str:
    """Return a shape with the marks of a document: ``$H$ × $H$``.

    Example:
        >>> marked_shape(["2*F + 1", "H"])
        '($2*F + 1$) × $H$'
    """
    marked = []
    for dim in dims:
        if len(dims) > 1 and _is_sum(dim):
            marked.append(f"(${dim}$)")
        else:
            marked.append(f"${dim}$")
    return " × ".join(marked) or "$1$"


def _is_sum(mathematics: str) -> bool:
    return parse(mathematics)[0] in ("+", "-")


def picked(entry: Entry, selector: str) -> bool:
    """Whether a tensor has a component or a role, and a name with an ending.

    ``"attention"`` is the component, without its norm; ``"attention.query"`` is a role; ``" bias"``
    is any name with this ending.
    """
    wanted, _, ending = selector.partition(" ")
    role = entry.template.role
    if not entry.template.name.endswith(ending):
        return False
    if _is_component(wanted):
        return component_of(role) == wanted
    return not wanted or f"{role}.".startswith(f"{wanted}.")


def _is_component(name: str) -> bool:
    return name in data.read_toml("facts/roles.toml")["components"]
