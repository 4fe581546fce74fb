"""A ledger's formulas for people to read: a letter for each size, a name for each loop."""

from __future__ import annotations

from itertools import chain, product

from weighbridge import data
from weighbridge.algebra.codegen import TEXT
from weighbridge.algebra.expr import evaluate, is_number, names_in, parse, show, source, substitute
from weighbridge.algebra.polynomial import Polynomial, floored
from weighbridge.lean_typing import TYPE_CHECKING, NamedTuple
from weighbridge.ledger.region import least_of, region_of
from weighbridge.ledger.symbols import letters_of, meaning_of, size_symbols

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from weighbridge.algebra.expr import Tree
    from weighbridge.algebra.polynomial import Monomial
    from weighbridge.ledger.ledger import Ledger


class Size(NamedTuple):
    """A number of the config: its letter, or its field's name if it has none, and its value."""

    letter: str
    field: str
    value: int | float

    def meaning(self, lang: str) -> str:
        """Return a description of the size, if one is known."""
        has_symbol = self.field.rpartition(".")[2] in size_symbols()
        return meaning_of(self.field, lang) if has_symbol else ""


class Lettering:
    """How the formulas of one ledger are written, all with the same letters.

    A loop over the layers is long, and appears in many terms. It gets a name, such as ``n_1``, and
    is written once, in `parts`.

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
        self.values: Mapping[str, Any] = ledger.fields
        """The values of the names in the formulas."""
        self.parts: dict[str, Tree] = {}
        """The expressions behind the names in the formulas written so far."""

    def text(self, formula: Polynomial) -> str:
        """Write a formula in letters."""
        return show(self.tree(formula), str, TEXT)

    def fields(self, formula: Polynomial) -> str:
        """Write a formula with field names, as Python except for the names of `parts`."""
        return source(self.ordered(self.named(formula)))

    def tree(self, formula: Polynomial, *, letters: bool = True) -> Tree:
        """Return a formula as people write it, in letters or fields, with ``floor`` for ``//``."""
        exact = self.ordered(self.named(formula).rewritten(lambda tree: source(floored(tree))))
        if letters:
            return self.in_letters(exact)
        return exact

    def in_letters(self, tree: Tree) -> Tree:
        """Return a tree with letters in place of fields."""
        return substitute(tree, lambda field: ("name", self.letters.get(field, field)))

    def named(self, formula: Polynomial) -> Polynomial:
        """Return a formula with names for its loops, and ``(L - L_f)`` for the layers after L_f."""

        def name(tree: Tree) -> str:
            return self._name(tree) if _loops(tree) or is_indicator(tree) else source(tree)

        return _with_differences(formula.rewritten(name), self.ledger.blueprint.repeats)

    def ordered(self, formula: Polynomial) -> Tree:
        """Return a formula in fields: a layer's terms in brackets, each term's factors in order."""
        factors = {factor for factor, _ in chain.from_iterable(formula.terms)}
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
        """Write the expression behind a name, in letters."""
        return show(self.in_letters(floored(self.parts[name])), str, TEXT)

    def part_meaning(self, name: str, lang: str) -> str:
        """Say what a name counts: in words if it counts layers, else as its expression.

        Example:
            >>> from weighbridge.answers.weigh import weigh
            >>> written = Lettering(weigh("qwen3_next").ledger)
            >>> formula = written.text(written.ledger.formula())
            >>> written.part_meaning("n_1", "en")
            'linear-attention layers'
        """
        match self.parts[name]:
            case ("count", index, ("name", field), condition):
                pass
            case _:
                return self.part(name)
        things = Size("", field, 0).meaning(lang)
        if not things:
            return self.part(name)
        match condition:
            case ("==" | "!=" as relation, ("[]", ("name", _), ("name", _)), ("value", str(kind))):
                key, values = _COUNTED[relation], {"kind": kind.replace("_", "-")}
            case _:
                shown = show(self.in_letters(floored(condition)), str, TEXT)
                key, values = "count_where", {"index": index, "condition": shown}
        words: str = data.read_toml(f"words/{lang}.toml")[key]
        return words.format(things=things, **values)

    def value(self, name: str) -> int:
        """Return the value of a name under the ledger's config."""
        value: int = evaluate(self.parts[name], self.values)
        return value

    def sizes(self, formulas: Iterable[Polynomial]) -> list[Size]:
        """Return the numbers that formulas depend on, in the order of a term's factors."""
        named = set[str]().union(*[formula.fields() for formula in formulas])
        used = {name for name in named if is_number(self.values[name])}
        names = [
            *(name for name in self.letters if name in used),
            *sorted(used - self.letters.keys()),
        ]
        return [Size(self.letters.get(name, name), name, self.values[name]) for name in names]

    def rules(self, computed: Mapping[str, Tree] | None = None) -> tuple[Tree, ...]:
        """Return the rules of the region in which the formulas hold; see `region_of`."""
        return region_of(self.ledger, computed).rules

    @property
    def fixed_names(self) -> tuple[str, ...]:
        """The fields that have a fixed value in this region."""
        return region_of(self.ledger).fixed

    def least_of(self, name: str) -> int | None:
        """Return the least value of a size; None for a number that is no size."""
        return least_of(self.ledger, name)

    def decided(self) -> dict[str, Any]:
        """Return the fields that decided which tensors exist, and lists and flags in shapes."""
        blueprint, fields = self.ledger.blueprint, self.ledger.fields
        deciding, measuring = set[str](), set[str]()
        for template in blueprint.templates(self.ledger.class_name):
            for condition in template.conditions:
                deciding.update(names_in(condition))
            for dim in template.dims:
                measuring.update(names_in(blueprint.dims[dim]))
            for index in template.repeat:
                measuring.update(names_in(blueprint.repeat[index]))
        deciding.update(name for name in measuring if not is_number(fields.get(name)))
        return {name: fields[name] for name in sorted(deciding & fields.keys())}


def is_indicator(tree: Tree) -> bool:
    """Whether an expression is 1 under a condition, and otherwise 0.

    Example:
        >>> is_indicator(parse("1 if batch > 1 else 0"))
        True
    """
    return tree[0] == "if" and tree[2:] == (("value", 1), ("value", 0))


_COUNTED = {"==": "count_of_kind", "!=": "count_of_others"}
"""The words for layers of one kind, and for all others."""


def _with_differences(formula: Polynomial, wholes: Iterable[str]) -> Polynomial:
    """Return a formula with a factor ``(whole - part)`` where two terms differ only in these."""
    terms = dict(formula.terms)
    subtracted = [monomial for monomial, number in formula.terms.items() if number < 0]
    for monomial, whole in product(subtracted, sorted(wholes)):
        for part in _names_to_the_first(monomial):
            _join_difference(terms, dict(monomial), whole, part)
    return Polynomial(terms)


def _names_to_the_first(monomial: Monomial) -> list[str]:
    """Return the factors of a term that are fields to the first power."""
    return [factor for factor, power in monomial if power == 1 and parse(factor)[0] == "name"]


def _join_difference(
    terms: dict[Monomial, int], factors: dict[str, int], whole: str, part: str
) -> None:
    """Replace ``rest·whole - rest·part`` by ``rest·(whole - part)`` if both terms exist."""
    rest = {factor: power for factor, power in factors.items() if factor != part}
    monomial, given = _monomial(factors), _monomial({**rest, whole: 1})
    if whole in rest or monomial not in terms or terms.get(given) != -terms[monomial]:
        return
    terms[_monomial({**rest, f"{whole} - {part}": 1})] = terms.pop(given)
    del terms[monomial]


def _monomial(factors: Mapping[str, int]) -> Monomial:
    return tuple(sorted(factors.items()))


def _loops(tree: Tree) -> bool:
    return tree[0] in ("for", "count") or any(
        isinstance(operand, tuple) and _loops(operand) for operand in tree[1:]
    )
