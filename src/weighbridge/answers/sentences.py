"""Selects the sentences that are true of some tensors, and fills in shapes and figures.

The sentences are data, in `words/explain.*.toml`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge import data
from weighbridge.algebra.expr import evaluate, names_in, parse, source, substitute
from weighbridge.answers.notation import tidied
from weighbridge.blueprint.paths import above
from weighbridge.blueprint.roles import component_of
from weighbridge.ledger.symbols import letters_of, size_symbols

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from weighbridge.algebra.expr import Tree
    from weighbridge.blueprint.schema import Blueprint
    from weighbridge.ledger.ledger import Ledger
    from weighbridge.ledger.rows import Entry

    Sentence = Mapping[str, Any]


class Narrator:
    """Fills in the sentences about a model: letters, their values, shapes of tensors."""

    def __init__(self, ledger: Ledger, config: Mapping[str, Any] | None = None) -> None:
        self.ledger = ledger
        self.blueprint: Blueprint = ledger.blueprint
        self.config = config or {}
        self.modules = self.blueprint.modules(ledger.class_name)
        self.written = set[str]()
        """The sentences for the first place only that have been written."""
        self.letters = letters_of(self.blueprint)
        sizes = {
            name: value for name, value in ledger.fields.items() if type(value) in (int, float)
        }
        self.values: dict[str, Any] = {
            **sizes,
            **{letter: sizes[name] for name, letter in self.letters.items() if name in sizes},
        }
        known = self.letters.keys() | self.blueprint.sizes
        self.fields_by_letter = {
            self.letters.get(name, name): name for name in sizes if name in known
        }
        """The field of each letter, or of its own name if it has no letter."""
        self.outside = [self.letters.get(name, name) for name in sorted(self.blueprint.repeats)]
        """The letters that formulas are factored by: the numbers of layers."""
        self.taken = frozenset(self.blueprint.repeat)
        """The letters of indices."""

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
        - ``same``: roles with one shape; ``transposed``: two roles whose matrices are transposed;
          ``is``: the shape of a role in letters, or several possible shapes;
        - ``several``: roles, one of which has several weights; ``single``: roles with one weight;
        - ``kernels``: roles whose weights are the kernels of convolutions; ``kind``: a part of the
          class name of modules that hold a role's tensors;
        - ``knows``: config fields, one of which the family has; ``inert``: fields that change no
          shape; ``unset``: fields, or fields with a
          value, that the config does not state, or states as false;
        - ``where``: an inequality of letters;
        - ``tied``: some tensors are tied, or ``"all"``; ``active``: some experts are not active;
        - ``else``: none of the sentences just before was true; ``unless``: no sentence with one of
          these ``name``s was true;
        - ``once``: only the first place in the article has it.

        A sentence with a size, or with the single shape of a role, that the model lacks is left
        out.
        """
        is_written, names = False, set[str]()
        for sentence in sentences:
            is_written = is_written and bool(sentence.get("else"))
            is_repeated = "once" in sentence and sentence["text"] in self.written
            if is_written or is_repeated or not names.isdisjoint(sentence.get("unless", ())):
                continue
            text = None
            if self.is_true(sentence, own, around):
                text = self.filled(sentence, own, figures)
            if text is not None:
                is_written = True
                self.written.add(sentence["text"])
                names.add(sentence.get("name", ""))
                yield text

    def filled(
        self, sentence: Sentence, own: Sequence[Entry], figures: Mapping[str, str]
    ) -> str | None:
        """Return a sentence with values in its braces; None if the model lacks one of them."""
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

    def is_kind(self, role: str, kind: str, entries: Sequence[Entry]) -> bool:
        """Whether the tensors with a role are in modules whose class name contains a text."""
        of_role = [entry for entry in entries if picked(entry, role)]
        return bool(of_role) and all(
            any(kind in self.modules.get(path, "") for path in above(entry.template.name))
            for entry in of_role
        )

    def knows(self, field: str) -> bool:
        """Whether the family has a config field, at the top level or in a sub-config."""
        known = (*self.blueprint.inert, *self.blueprint.fields)
        return any(name.rpartition(".")[2] == field for name in known)

    def states(self, statement: str) -> bool:
        """Whether the config gives a field a value, as in ``field=value``, or one that is true."""
        field, equals, value = statement.partition("=")
        stated = [self.config[name] for name in self.config if name.rpartition(".")[2] == field]
        if equals:
            return value in stated
        return any(stated)

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
        dims = self.dims_of(role, entries)
        if dims is None:
            return None
        return " ".join(map(_in_brackets, dims))

    def dims_of(self, role: str, entries: Iterable[Entry]) -> tuple[str, ...] | None:
        """Return the dims of a role's weights, in letters; None unless they are all the same."""
        of_role = [entry for entry in entries if picked(entry, role)]
        weights = [entry for entry in of_role if not entry.template.name.endswith("bias")]
        shapes = {tuple(self.dims(entry)) for entry in weights or of_role}
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
        """Return a tree with letters instead of fields, in which exact divisions cancel."""
        renamed = substitute(tree, lambda field: ("name", self.letters.get(field, field)))
        if "//" in source(renamed):
            return self.tidied(renamed)
        return renamed

    def tidied(self, tree: Tree) -> Tree:
        """Return an expression in letters, simplified for the values of this config."""
        return tidied(tree, self.values, self.outside, tuple(self.letters.values()))


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

    def weights(self, role: str) -> int:
        """Return the number of weights with a role, each counted once for all layers."""
        names = {entry.template.name for entry in self.around if picked(entry, role)}
        return sum(not name.endswith("bias") for name in names)

    def are_transposed(self, role: str, other: str) -> bool:
        """Whether the matrices of two roles have the same dims in opposite order."""
        first, second = (self.narrator.dims_of(name, self.around) for name in (role, other))
        return first is not None and second is not None and first == second[::-1]

    def is_kernel(self, role: str) -> bool:
        return any(len(entry.shape) > _MATRIX for entry in self.own if picked(entry, role))


def _either(shapes: str | list[str]) -> list[str]:
    if isinstance(shapes, str):
        return [shapes]
    return shapes


_MATRIX = 2  # dims

_CONDITIONS: dict[str, Callable[[_About, Any], bool]] = {
    "has": lambda about, selectors: all(map(about.has, selectors)),
    "lacks": lambda about, selectors: not any(map(about.has, selectors)),
    "same": lambda about, roles: about.narrator.alike(roles, about.around),
    "is": lambda about, shapes: all(
        about.narrator.shape_of(role, about.around) in _either(shapes[role]) for role in shapes
    ),
    "transposed": lambda about, roles: about.are_transposed(*roles),
    "several": lambda about, roles: any(about.weights(role) > 1 for role in roles),
    "single": lambda about, roles: all(about.weights(role) == 1 for role in roles),
    "kernels": lambda about, roles: all(map(about.is_kernel, roles)),
    "kind": lambda about, kinds: all(
        about.narrator.is_kind(role, kind, about.around) for role, kind in kinds.items()
    ),
    "knows": lambda about, fields: any(map(about.narrator.knows, fields)),
    "inert": lambda about, fields: about.narrator.blueprint.inert.issuperset(fields),
    "unset": lambda about, statements: not any(map(about.narrator.states, statements)),
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
