"""Polynomials in config fields: the number type that turns a count into its formula.

Bind every size of a model to a variable instead of an integer, evaluate the same expressions, and
the total is the formula. Exact divisions stay exact: where a model requires
``hidden_size % num_attention_heads == 0``, ``hidden_size // num_attention_heads`` is the fraction
H/A, and A·(H/A) is H. An expression that is not a polynomial, such as
``int(hidden_size * mlp_ratio)``, is kept whole, as a single factor.
"""

from __future__ import annotations

from operator import index

from weighbridge.algebra.codegen import TEXT
from weighbridge.algebra.expr import (
    NUMBERS,
    SOURCE,
    Shown,
    evaluate,
    names_in,
    parse,
    show,
    source,
    substitute,
)
from weighbridge.errors import ExpressionError
from weighbridge.lean_typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping, Sequence
    from typing import Any

    from weighbridge.algebra.expr import Meaning, Tree

Monomial = tuple[tuple[str, int], ...]
"""Pairs of factor and power, sorted; a factor is a field or an opaque expression."""
MOST_TERMS = 10_000  # of a product, before like terms are added, to keep formulas from exploding
MOST_EXPANDED = 8  # powers above this are kept whole


class Polynomial:
    """A sum of integer coefficients times powers of fields.

    Powers may be negative where a division is exact.

    Example:
        >>> V, H = Polynomial.of("vocab_size"), Polynomial.of("hidden_size")
        >>> H * (V + 2) + H * H - 2 * H
        Polynomial('hidden_size * vocab_size + hidden_size ** 2')
        >>> (V + H) * (V - H) == V * V - H * H
        True
    """

    __slots__ = ("terms",)

    def __init__(self, terms: Mapping[Monomial, int]) -> None:
        self.terms = {
            monomial: coefficient for monomial, coefficient in terms.items() if coefficient
        }

    @classmethod
    def of(cls, factor: str) -> Polynomial:
        """Return the polynomial of a single factor: a field, or an expression kept whole."""
        return cls({((factor, 1),): 1})

    @classmethod
    def whole(cls, tree: Tree) -> Polynomial:
        """Return the polynomial of a single factor: an expression kept whole.

        Raises:
            ExpressionError: its text would be too long or too deeply nested to be parsed.
        """
        text = source(tree)
        parse(text)
        return cls.of(text)

    def __add__(self, other: Polynomial | int) -> Polynomial:
        terms = dict(self.terms)
        for monomial, coefficient in _polynomial(other).terms.items():
            terms[monomial] = terms.get(monomial, 0) + coefficient
        return Polynomial(terms)

    def __mul__(self, other: Polynomial | int) -> Polynomial:
        others, terms = _polynomial(other).terms, dict[Monomial, int]()
        if len(self.terms) * len(others) > MOST_TERMS:
            raise OverflowError(f"a product has at most {MOST_TERMS:,} terms")
        for left, a in self.terms.items():
            for right, b in others.items():
                product = _merged(left, right)
                terms[product] = terms.get(product, 0) + NUMBERS["*"](a, b)
        return Polynomial(terms)

    def __neg__(self) -> Polynomial:
        return self * -1

    def __sub__(self, other: Polynomial | int) -> Polynomial:
        return self + -_polynomial(other)

    def __rsub__(self, other: int) -> Polynomial:
        return other + -self

    __radd__ = __add__
    __rmul__ = __mul__

    def __pow__(self, exponent: int) -> Polynomial:
        power = _polynomial(1)
        for _ in range(exponent):
            power *= self
        return power

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Polynomial | int) and self.terms == _polynomial(other).terms

    def __hash__(self) -> int:
        constant = self.terms.keys() <= {()}  # it equals an integer, so it needs the same hash
        return hash(self.terms.get((), 0) if constant else frozenset(self.terms.items()))

    def __repr__(self) -> str:
        return f"Polynomial({source(self.tree())!r})"

    def __call__(self, **fields: Any) -> Any:
        """Return the value for these values of the fields: integers or arrays."""
        terms = (_term(monomial, coefficient, {}) for monomial, coefficient in self.terms.items())
        return sum(sign * evaluate(tree, fields) for sign, tree in terms)

    def __str__(self) -> str:
        return self.text()

    def fields(self) -> set[str]:
        """Return the names of the fields that the polynomial depends on."""
        return {
            name
            for monomial in self.terms
            for factor, _ in monomial
            for name in names_in(parse(factor))
        }

    def rewritten(self, factor: Callable[[Tree], str | int]) -> Polynomial:
        """Return the polynomial with each factor replaced by another text, or a number.

        Example:
            >>> area = 3 * Polynomial.of("width") * Polynomial.of("sum(depths)")
            >>> area.rewritten(lambda factor: {"name": "w", "sum": 7}[factor[0]])
            Polynomial('21 * w')
        """
        total = Polynomial({})
        for monomial, coefficient in self.terms.items():
            term = Polynomial({(): coefficient})
            for name, power in monomial:
                replacement = factor(parse(name))
                if isinstance(replacement, int) and power > 0:
                    term *= replacement**power
                else:
                    term *= Polynomial({((str(replacement), power),): 1})
            total += term
        return total

    def text(self, letters: Mapping[str, str] | None = None, outside: Sequence[str] = ()) -> str:
        """Return the formula in letters; the fields of ``outside`` are factored out.

        A division that may leave a remainder is written in ⌊⌋.

        Example:
            >>> layers, width = Polynomial.of("layers"), Polynomial.of("width")
            >>> formula = layers * (4 * width * width + 4 * width)
            >>> formula.text({"layers": "L", "width": "H"}, ["layers"])
            'L·(4H² + 4H)'
        """
        named = letters or {}
        exact = self.rewritten(lambda tree: source(floored(tree)))
        return show(exact.tree(outside, tuple(named)), lambda field: named.get(field, field), TEXT)

    def tree(self, outside: Sequence[str] = (), order: Sequence[str] = ()) -> Tree:
        """Return the expression: ordered terms, with the fields of ``outside`` factored out.

        ``order`` is the order of the factors in a term; the others follow in alphabetical order.
        """
        groups: dict[Monomial, tuple[Monomial, list[tuple[Monomial, int]]]] = {}
        for monomial, coefficient in self.terms.items():
            outer = tuple(factor for factor in monomial if factor[0] in outside)[:1]
            rest = tuple(factor for factor in monomial if factor not in outer)
            groups.setdefault(outer or monomial, (outer, []))[1].append((rest, coefficient))
        rank = {factor: position for position, factor in enumerate(order)}
        return _sum(_group(outer, terms, rank) for outer, terms in groups.values())


class Opaque:
    """A value in letters that is not a polynomial: a fraction, a truth value, an item of a list."""

    __slots__ = ("tree",)

    def __init__(self, tree: Tree) -> None:
        self.tree = tree

    def __bool__(self) -> bool:
        raise TypeError(f"{source(self.tree)} cannot be decided in letters")


def in_letters(
    tree: Tree, bound: Mapping[str, Any], meaning: Meaning, indices: Mapping[str, int]
) -> Polynomial:
    """Return a count in letters, under the meaning of `symbols`, or keep it whole if that fails.

    Example:
        >>> letters = {"width": Polynomial.of("width"), "ratio": Opaque(("name", "ratio"))}
        >>> tree = parse("int(width * ratio) * sizes[i]")
        >>> in_letters(tree, {**letters, "sizes": (3, 5)}, symbols(), {"i": 1})
        Polynomial('5 * int(width * ratio)')
    """

    def without_indices(name: str) -> Tree:
        if name in indices:
            return _tree(indices[name])
        return ("name", name)

    try:
        value = evaluate(tree, {**bound, **indices}, meaning)
        if not isinstance(value, Opaque):
            return _polynomial(value)
        whole = value.tree
    except (ExpressionError, TypeError):
        whole = substitute(tree, without_indices)
    return Polynomial.whole(whole)


def symbols(required: Iterable[Tree] = ()) -> Meaning:
    """Return the meaning under which names are letters, and counts are polynomials in them.

    A division is exact if ``required`` rules out a remainder, or the divisor is a factor of the
    dividend. Any other division or remainder is kept whole, as a single factor. A value that is not
    a polynomial, such as a comparison with a letter, becomes `Opaque`; a value that cannot be
    written in letters is refused.

    Example:
        >>> tree = parse("num_attention_heads * (hidden_size // num_attention_heads)")
        >>> letters = {name: Polynomial.of(name) for name in names_in(tree)}
        >>> evaluate(tree, letters, symbols([parse("hidden_size % num_attention_heads == 0")]))
        Polynomial('hidden_size')
        >>> evaluate(tree, letters, symbols())
        Polynomial('hidden_size // num_attention_heads * num_attention_heads')
    """
    exact = {(rule[1][1], rule[1][2]) for rule in required if _is_divisibility(rule)}
    return {**_SYMBOLS, "//": _division(exact)}


def _division(exact: Container[tuple[Tree, Tree]]) -> Callable[[Any, Any], Any]:
    def divide(left: Any, right: Any) -> Any:
        if isinstance(right, Polynomial) and len(right.terms) == 1:
            ((divisor, coefficient),) = right.terms.items()
            if coefficient == 1 and (
                _has_factor(left, divisor) or (_tree(left), _tree(right)) in exact
            ):
                return left * Polynomial({tuple((factor, -power) for factor, power in divisor): 1})
        if isinstance(right, Polynomial) and left == right:
            return 1
        return _of_integers("//")(left, right)

    return divide


def _kept(kind: str) -> Callable[..., Any]:
    """Return an operator that is evaluated for numbers, and kept as written for letters."""

    def keep(*operands: Any) -> Any:
        if any(isinstance(operand, Polynomial | Opaque) for operand in operands):
            return Opaque((kind, *map(_tree, operands)))
        return NUMBERS[kind](*operands)

    return keep


def _compared(kind: str) -> Callable[[Any, Any], Any]:
    def compare(left: Any, right: Any) -> Any:
        if isinstance(left, Polynomial) and right is None:  # a letter stands for an integer
            return kind == "!="
        return _kept(kind)(left, right)

    return compare


def _in_ring(kind: str) -> Callable[..., Any]:
    def operate(*operands: Any) -> Any:
        expands = kind != "**" or (type(operands[1]) is int and 0 <= operands[1] <= MOST_EXPANDED)
        if expands and not any(map(_is_opaque, operands)):
            return NUMBERS[kind](*operands)
        return _kept(kind)(*operands)

    return operate


def _of_integers(kind: str) -> Callable[..., Any]:
    """Return an operator from integers to an integer; with letters in it, it is kept whole."""

    def keep(*operands: Any) -> Any:
        kept = _kept(kind)(*operands)
        if kind == "if":
            _, *operands = operands  # type: ignore[assignment]  # the condition is not an integer
        if isinstance(kept, Opaque) and all(
            isinstance(operand, int | Polynomial) for operand in operands
        ):
            return Polynomial.whole(kept.tree)
        return kept

    return keep


def _made_integer(kind: str) -> Callable[[Any], Any]:
    def make(operand: Any) -> Any:
        if isinstance(operand, Polynomial):
            return operand
        if isinstance(operand, Opaque):
            return Polynomial.whole((kind, operand.tree))
        return NUMBERS[kind](operand)

    return make


_SYMBOLS: Meaning = {
    **NUMBERS,
    **{kind: _kept(kind) for kind in ("or", "and", "not", "<", "<=", ">", ">=")},
    **{kind: _kept(kind) for kind in ("in", "not in", "[]", "[:]", "/", "sqrt", "log2")},
    **{kind: _compared(kind) for kind in ("==", "!=")},
    **{kind: _in_ring(kind) for kind in ("+", "-", "*", "**", "neg")},
    **{kind: _of_integers(kind) for kind in ("%", "max", "min", "abs", "if")},
    **{kind: _made_integer(kind) for kind in ("int", "round", "floor", "ceil")},
}


def _has_factor(value: Any, divisor: Monomial) -> bool:
    """Whether every term of a polynomial has this factor, so that the division is exact."""
    return isinstance(value, Polynomial) and all(
        all(dict(monomial).get(factor, 0) >= power for factor, power in divisor)
        for monomial in value.terms
    )


def _is_opaque(value: Any) -> bool:
    """Whether arithmetic with a value leaves the polynomials: it is opaque, or a fraction."""
    return isinstance(value, Opaque | float)


def _is_divisibility(rule: Tree) -> bool:
    return rule[0] == "==" and rule[1][0] == "%" and bool(rule[2] == ("value", 0))


def _tree(value: Any) -> Tree:
    if isinstance(value, Polynomial):
        return value.tree()
    if isinstance(value, Opaque):
        return value.tree
    if not isinstance(value, int | float | str | None):
        raise TypeError(f"a {type(value).__name__} cannot be written in letters")
    if isinstance(value, int | float) and value < 0:
        return ("neg", ("value", -value))
    return ("value", value)


def floored(tree: Tree) -> Tree:
    """Return a tree with ``floor(a / b)`` in place of each ``a // b``, as people write it.

    Example:
        >>> source(floored(parse("(image_size // patch_size) ** 2")))
        'floor(image_size / patch_size) ** 2'
    """
    try:
        return parse(show(tree, str, _FLOORED))
    except ExpressionError:  # written that way, it is too long
        return tree


_FLOORED: Meaning = {
    **SOURCE,
    "//": lambda left, right: Shown(f"floor({SOURCE['/'](left, right)})"),
}


def _polynomial(value: Polynomial | int) -> Polynomial:
    if isinstance(value, Polynomial):
        return value
    return Polynomial({(): index(value)})


def _merged(left: Monomial, right: Monomial) -> Monomial:
    powers = dict(left)
    for factor, power in right:
        powers[factor] = powers.get(factor, 0) + power
    return tuple(sorted((factor, power) for factor, power in powers.items() if power))


def _group(
    outer: Monomial, terms: list[tuple[Monomial, int]], rank: Mapping[str, int]
) -> tuple[int, Tree]:
    """Return the sign and the tree of one term, or of several that share a factor: L·(4H² + 4H)."""
    if len(terms) == 1:
        ((monomial, coefficient),) = terms
        return _term(outer + monomial, coefficient, rank)
    terms.sort(key=lambda term: -sum(power for _, power in term[0]))
    return 1, ("*", _power(outer[0]), _sum(_term(*term, rank) for term in terms))


def _term(monomial: Monomial, coefficient: int, rank: Mapping[str, int]) -> tuple[int, Tree]:
    factors = sorted(monomial, key=lambda factor: (rank.get(factor[0], len(rank)), factor[0]))
    numerator = [_power(factor) for factor in factors if factor[1] > 0]
    if abs(coefficient) != 1 or not numerator:
        numerator.insert(0, ("value", abs(coefficient)))
    tree = numerator[0]
    for factor in numerator[1:]:
        tree = ("*", tree, factor)
    for name, power in factors:
        if power < 0:
            tree = ("//", tree, _power((name, -power)))
    if coefficient < 0:
        return -1, tree
    return 1, tree


def _power(factor: tuple[str, int]) -> Tree:
    name, power = factor
    base = parse(name)
    if power == 1:
        return base
    return ("**", base, ("value", power))


def _sum(signed: Iterable[tuple[int, Tree]]) -> Tree:
    total: Tree | None = None
    for sign, tree in signed:
        if total is not None:
            total = (_SIGNS[sign], total, tree)
        elif sign > 0:
            total = tree
        else:
            total = ("neg", tree)
    return total or ("value", 0)


_SIGNS = {1: "+", -1: "-"}
