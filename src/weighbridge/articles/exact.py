"""Exact arithmetic with bounds: fractions, and sums of powers of letters, that cannot be made to grow without end."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge.algebra.expr import MOST_BITS, fold
from weighbridge.algebra.polynomial import MOST_EXPANDED, Polynomial

if TYPE_CHECKING:
    from collections.abc import Callable

    from weighbridge.algebra.expr import Meaning, Tree

MOST_POWER = 1000  # of an exponent
MOST_PRODUCTS = 400  # of terms, where two sums with letters are multiplied


class UnreadableError(Exception):
    """What cannot be read or has no value: the reason is a key of the words of an audit, and what it is about."""

    def __init__(self, why: str, about: str = "") -> None:
        self.why, self.about = why, about
        super().__init__(why, about)


class Number(NamedTuple):
    """A number as it is written: its value, and the place of its last digit, 0 where every digit is meant.

    ``place`` is what one more in the last digit other than 0 would add. ``rounded`` is a number
    with a unit: 110M.
    """

    value: Fraction
    text: str
    place: Fraction
    rounded: bool = False

    def fits(
        self, exact: Fraction, *, rounded: bool = False, slack: Fraction = Fraction(0)
    ) -> bool:
        """Whether an exact value is written so: to the digit, or where it is rounded to its place or cut off there.

        Example:
            >>> number = Number(Fraction(110_000_000), "110M", Fraction(10_000_000), True)
            >>> number.fits(Fraction(108_808_704)), number.fits(Fraction(98_000_000))
            (True, False)
        """
        place = self.place if rounded or self.rounded or self.place < 1 else Fraction(0)
        off = abs(exact) - abs(self.value)
        return exact * self.value >= 0 and (abs(off) <= place / 2 + slack or 0 <= off < place)


def constant(value: Fraction | int) -> Polynomial:
    """Return a number as a polynomial without letters."""
    return Polynomial({(): Fraction(value)})  # type: ignore[dict-item]  # fractions add and multiply as integers do


def number_of(value: Polynomial) -> Fraction | None:
    """Return the number that a polynomial without letters is; nothing where it has letters.

    Example:
        >>> number_of(constant(3)), number_of(Polynomial.of("H"))
        (Fraction(3, 1), None)
    """
    if not value.terms.keys() <= {()}:
        return None
    return Fraction(value.terms.get((), 0))


def evaluate(
    tree: Tree, name: Callable[[str], Polynomial], value: Callable[[Number], Polynomial]
) -> Polynomial:
    """Return what a tree comes to, exactly; ``name`` and ``value`` read its leaves.

    Raises:
        UnreadableError: it has no value, or one beyond all bounds.
    """
    try:
        found: Polynomial = fold(tree, name, value, _EXACT)
    except (OverflowError, RecursionError):
        raise UnreadableError("too_large") from None
    return found


def _bounded(operate: Callable[..., Any]) -> Callable[..., Any]:
    def operated(*operands: Any) -> Any:
        found = operate(*operands)
        for coefficient in found.terms.values():
            exact = Fraction(coefficient)
            if max(exact.numerator.bit_length(), exact.denominator.bit_length()) > MOST_BITS:
                raise UnreadableError("too_large")
        return found

    return operated


def _times(left: Polynomial, right: Polynomial) -> Polynomial:
    if len(left.terms) * len(right.terms) > MOST_PRODUCTS:
        raise UnreadableError("too_large")
    return left * right


def _power(base: Polynomial, exponent: Polynomial) -> Polynomial:
    times = number_of(exponent)
    if times is None or times.denominator != 1:
        raise UnreadableError("power")
    most = max((bits for number in base.terms.values() for bits in _bits(number)), default=1)
    if (
        abs(times) > MOST_POWER
        or most * abs(times) > MOST_BITS
        or (len(base.terms) > 1 and times > MOST_EXPANDED)
    ):
        raise UnreadableError("too_large")
    if times < 0:
        return _divide(constant(1), _power(base, -exponent))
    if len(base.terms) == 1:
        ((monomial, coefficient),) = base.terms.items()
        powers = tuple((factor, power * int(times)) for factor, power in monomial if times)
        return Polynomial({powers: Fraction(coefficient) ** int(times)})  # type: ignore[dict-item]
    return base ** int(times)


def _bits(number: Any) -> tuple[int, int]:
    exact = Fraction(number)
    return abs(exact.numerator).bit_length(), exact.denominator.bit_length()


def _divide(left: Polynomial, right: Polynomial) -> Polynomial:
    if not right.terms:
        raise UnreadableError("by_zero")
    if len(right.terms) > 1:
        if left == right:
            return constant(1)
        raise UnreadableError("by_a_sum")
    ((monomial, coefficient),) = right.terms.items()
    inverse = {tuple((factor, -power) for factor, power in monomial): 1 / Fraction(coefficient)}
    return left * Polynomial(inverse)  # type: ignore[arg-type]


_EXACT: Meaning = {
    "+": _bounded(lambda left, right: left + right),
    "-": _bounded(lambda left, right: left - right),
    "*": _bounded(_times),
    "/": _bounded(_divide),
    "**": _bounded(_power),
    "neg": lambda operand: -operand,
}
