"""Which sentences are true of some tensors, and the shapes put into them.

They are data, in `words/explain.*.toml`.
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


class Teller:
    """What fills a model's sentences: its letters, their values, the shapes of its tensors."""

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

    def tell(
        self,
        sentences: Iterable[Sentence],
        own: Sequence[Entry],
        around: Sequence[Entry],
        **figures: str,
    ) -> Iterator[str]:
        """Yield the sentences that are true of the tensors ``own``, filled in.

        These stand among the tensors ``around``.

        A sentence may ask for

        - tensors that are there (``has``), or are not (``lacks``), each as `picked` reads it;
        - roles of one shape (``same``), and what the shape of a role ``is``, in letters;
        - roles whose weights are the ``kernels`` of convolutions;
        - an inequality of letters that holds (``where``);
        - ``tied`` tensors, any or ``"all"``, or experts of which not all are ``active``;
        - that none of those just before it was true (``else``), or not the one of a ``name``
          (``unless``).

        One that names a size, or the one shape of a role, that the model does not have is left out.
        """
        is_said, names = False, set[str]()
        for sentence in sentences:
            is_said = is_said and bool(sentence.get("else"))
            if is_said or sentence.get("unless") in names:
                continue
            text = self.filled(sentence, own, around, figures)
            if text is not None:
                is_said = True
                names.add(sentence.get("name", ""))
                yield text

    def filled(
        self,
        sentence: Sentence,
        own: Sequence[Entry],
        around: Sequence[Entry],
        figures: Mapping[str, str],
    ) -> str | None:
        """Return a sentence with its braces filled in; None where it is not true here."""
        if not self.is_true(sentence, own, around):
            return None
        try:
            text: str = sentence["text"].format(shape=_Shapes(self, own), **figures)
        except KeyError:
            return None
        if not self.can_say(text):
            return None
        return text

    def is_true(self, sentence: Sentence, own: Sequence[Entry], around: Sequence[Entry]) -> bool:
        """Whether what a sentence asks for holds."""
        about = _About(self, own, around)
        return all(_ASKED[key](about, value) for key, value in sentence.items() if key in _ASKED)

    def alike(self, roles: Iterable[str], entries: Sequence[Entry]) -> bool:
        """Whether all of these roles are there, in one shape."""
        shapes = {self.shape_of(role, entries) for role in roles}
        return len(shapes) == 1 and None not in shapes

    def some_are_active(self, entries: Iterable[Entry]) -> bool:
        """Whether there are experts, of which one token does not meet all."""
        return (
            any(entry.template.active for entry in entries)
            and self.ledger.active < self.ledger.parameters
        )

    def holds(self, condition: str) -> bool:
        """Whether an inequality of letters holds; it does not where the model lacks one of them."""
        tree = parse(condition)
        return all(name in self.values for name in names_in(tree)) and bool(
            evaluate(tree, self.values)
        )

    def can_say(self, text: str) -> bool:
        """Whether the model has every letter of a text, and every size whose value it gives."""
        letters = {symbol.letter for symbol in size_symbols().values()}
        for marked in re.findall(r"\$([^${]+)\$", text):
            needed = set(names_in(parse(marked.lstrip("=#"))))
            if marked[0] not in "=#":
                needed &= letters
            if not needed <= self.values.keys():
                return False
        return True

    def shape_of(self, role: str, entries: Iterable[Entry]) -> str | None:
        """Return the one shape that a role's weights have, as dims in letters; else None."""
        of_role = [entry for entry in entries if picked(entry, role)]
        weights = [entry for entry in of_role if not entry.template.name.endswith("bias")]
        shapes = {" ".join(map(_in_brackets, self.dims(entry))) for entry in weights or of_role}
        if len(shapes) != 1:
            return None
        return shapes.pop()

    def dims(self, entry: Entry) -> list[str]:
        """Return a tensor's dims as mathematics, simplified, in letters.

        What its layer decides is a number.
        """
        bound, dims = entry.bound(entry.indices[0]), []
        for dim in entry.template.dims:
            polynomial = self.ledger.letters.of(self.blueprint.dims[dim], bound)
            dims.append(source(self.renamed(polynomial.tree((), tuple(self.letters)))))
        return dims

    def renamed(self, tree: Tree) -> Tree:
        """Return a tree with letters in place of fields."""
        return substitute(tree, lambda field: ("name", self.letters.get(field, field)))


def _in_brackets(dim: str) -> str:
    """Return a dim as one word among others."""
    if " " in dim:
        return f"({dim})"
    return dim


class _About(NamedTuple):
    """What a sentence is about: tensors of its own, and those that they stand among."""

    teller: Teller
    own: Sequence[Entry]
    around: Sequence[Entry]

    def has(self, asked: str) -> bool:
        return any(picked(entry, asked) for entry in self.around)

    def is_kernel(self, role: str) -> bool:
        return any(len(entry.shape) > _MATRIX for entry in self.own if picked(entry, role))


_MATRIX = 2  # dims

_ASKED: dict[str, Callable[[_About, Any], bool]] = {
    "has": lambda about, asked: all(map(about.has, asked)),
    "lacks": lambda about, asked: not any(map(about.has, asked)),
    "same": lambda about, roles: about.teller.alike(roles, about.around),
    "is": lambda about, shapes: all(
        about.teller.shape_of(role, about.around) == shapes[role] for role in shapes
    ),
    "kernels": lambda about, roles: all(map(about.is_kernel, roles)),
    "where": lambda about, condition: about.teller.holds(condition),
    "tied": lambda about, which: _TIED.get(which, any)(entry.tied for entry in about.own),
    "active": lambda about, asked: about.teller.some_are_active(about.own) == asked,
}
"""What a sentence may ask for; see `Teller.tell`."""
_TIED: dict[object, Callable[[Iterable[bool]], bool]] = {"all": all}
"""Which of some tensors must be tied: any, if not said otherwise."""


class _Shapes:
    """What ``{shape[attention.query]}`` is looked up in."""

    def __init__(self, teller: Teller, entries: Sequence[Entry]) -> None:
        self.teller, self.entries = teller, entries

    def __getitem__(self, role: str) -> str:
        of_role = [entry for entry in self.entries if picked(entry, role)]
        shape = self.teller.shape_of(role, of_role)
        if shape is None:
            raise KeyError(role)
        weight = of_role[0]
        for entry in reversed(of_role):
            if not entry.template.name.endswith("bias"):
                weight = entry
        return marked_shape(self.teller.dims(weight))


def marked_shape(dims: Sequence[str]) -> str:
    """Return a shape in the marks of a document: ``$H$ × $H$``.

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


def picked(entry: Entry, asked: str) -> bool:
    """Whether a tensor is what is asked for: of a component or of a role, with an ending.

    ``"attention"`` is the component, and so no norm; ``"attention.query"`` a role; ``" bias"`` any
    name that ends so.
    """
    wanted, _, ending = asked.partition(" ")
    role = entry.template.role
    if not entry.template.name.endswith(ending):
        return False
    if _is_component(wanted):
        return component_of(role) == wanted
    return not wanted or f"{role}.".startswith(f"{wanted}.")


def _is_component(name: str) -> bool:
    return name in data.read_toml("facts/roles.toml")["components"]
