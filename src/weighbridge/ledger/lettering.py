"""A ledger's formulas as people read them: a letter for each size, a name for what is counted layer by layer."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge.algebra.expr import evaluate, names_in, parse, show, source, substitute
from weighbridge.algebra.polynomial import TEXT, Polynomial, floored
from weighbridge.ledger.symbols import letters_of, meaning_of, symbols

if TYPE_CHECKING:
    from collections.abc import Iterable

    from weighbridge.algebra.expr import Tree
    from weighbridge.ledger.ledger import Ledger


class Size(NamedTuple):
    """A number of the config: its letter, or its field's name where it has none, and its value."""

    letter: str
    field: str
    value: int | float

    def meaning(self, lang: str) -> str:
        """Say what it counts, where that is known."""
        return meaning_of(self.field, lang) if self.field.rpartition(".")[2] in symbols() else ""


class Lettering:
    """How the formulas of one ledger are written, all with the same letters.

    What loops over the layers is long, and stands in many terms. It gets a name, ``n_1``, and is
    told once, in `parts`.

    Example:
        >>> from weighbridge.answers.weigh import weigh
        >>> ledger = weigh("bert-base-chinese").ledger
        >>> written = Lettering(ledger)
        >>> written.text(ledger.formula())
        'V·H + P·H + T·H + 3H + L·(4H² + 2H·F + 9H + F) + H²'
        >>> written.sizes([ledger.formula()])[0]
        Size(letter='V', field='vocab_size', value=21128)
    """

    def __init__(self, ledger: Ledger) -> None:
        self.ledger, self.letters = ledger, letters_of(ledger.blueprint)
        self.parts: dict[str, Tree] = {}
        """What the names in the formulas written so far stand for."""

    def text(self, formula: Polynomial) -> str:
        """Write a formula in letters."""
        return show(self.tree(formula), str, TEXT)

    def fields(self, formula: Polynomial) -> str:
        """Write a formula in the names of fields, in Python but for `parts`."""
        return source(self.ordered(self.named(formula)))

    def tree(self, formula: Polynomial, *, letters: bool = True) -> Tree:
        """Return a formula as people write it, in letters or in fields; ``//`` in it leaves no rest."""
        exact = self.ordered(self.named(formula).rewritten(lambda tree: source(floored(tree))))
        return self.in_letters(exact) if letters else exact

    def in_letters(self, tree: Tree) -> Tree:
        """Return a tree with letters in place of fields."""
        return substitute(tree, lambda field: ("name", self.letters.get(field, field)))

    def named(self, formula: Polynomial) -> Polynomial:
        """Return a formula with names for its loops, and ``(L - L_f)`` for the layers that are not the first ones."""
        named = formula.rewritten(lambda tree: self._name(tree) if _loops(tree) else source(tree))
        return _with_differences(named, self.ledger.blueprint.repeats)

    def ordered(self, formula: Polynomial) -> Tree:
        """Return a formula in fields, with what stands once a layer in brackets, and a term's factors in order."""
        factors = {factor for monomial in formula.terms for factor, _ in monomial}
        differences = sorted(factor for factor in factors if parse(factor)[0] == "-")
        outside = [*sorted(self.ledger.blueprint.repeats), *self.parts, *differences]
        return formula.tree(outside, (*differences, *self.letters))

    def _name(self, tree: Tree) -> str:
        known = next((name for name, part in self.parts.items() if part == tree), "")
        if not known:
            known = f"n_{len(self.parts) + 1}"
            self.parts[known] = tree
        return known

    def part(self, name: str) -> str:
        """Write what a name stands for, in letters."""
        return show(self.in_letters(floored(self.parts[name])), str, TEXT)

    def value(self, name: str) -> int:
        """Return what a name comes to under the ledger's config."""
        value: int = evaluate(self.parts[name], self.ledger.fields)
        return value

    def sizes(self, formulas: Iterable[Polynomial]) -> list[Size]:
        """Return the numbers that formulas depend on, in the order of a term's factors."""
        used = {
            name
            for formula in formulas
            for name in formula.fields()
            if is_number(self.ledger.fields[name])
        }
        names = [
            *(name for name in self.letters if name in used),
            *sorted(used - self.letters.keys()),
        ]
        return [
            Size(self.letters.get(name, name), name, self.ledger.fields[name]) for name in names
        ]

    def decided(self) -> dict[str, Any]:
        """Return the fields that decided which tensors there are, and what else but numbers the shapes are made of."""
        blueprint, fields = self.ledger.blueprint, self.ledger.fields
        found = set[str]()
        for template in blueprint.templates(self.ledger.class_name):
            condition = [template.tie.when] if template.tie and template.tie.when else []
            found.update(name for tree in (*template.when, *condition) for name in names_in(tree))
            shapes = [
                *(blueprint.dims[dim] for dim in template.dims),
                *(blueprint.repeat[i] for i in template.repeat),
            ]
            found.update(
                name
                for tree in shapes
                for name in names_in(tree)
                if not is_number(fields.get(name))
            )
        return {name: fields[name] for name in sorted(found & fields.keys())}


def is_number(value: object) -> bool:
    """Whether a field's value is a number, which a formula has a letter for."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _with_differences(formula: Polynomial, wholes: Iterable[str]) -> Polynomial:
    """Return a formula with ``(whole - part)`` as a factor where a term with the part is taken from its like."""
    left, taken_off = (
        dict(formula.terms),
        [monomial for monomial, number in formula.terms.items() if number < 0],
    )
    for taken, whole in product(taken_off, sorted(wholes)):
        for part in [
            factor for factor, power in taken if power == 1 and parse(factor)[0] == "name"
        ]:
            rest = {factor: power for factor, power in taken if factor != part}
            given = tuple(sorted({**rest, whole: 1}.items()))
            if whole not in rest and taken in left and left.get(given) == -left[taken]:
                left[tuple(sorted({**rest, f"{whole} - {part}": 1}.items()))] = left.pop(given)
                del left[taken]
    return Polynomial(left)


def _loops(tree: Tree) -> bool:
    return tree[0] in ("for", "count") or any(
        isinstance(operand, tuple) and _loops(operand) for operand in tree[1:]
    )
