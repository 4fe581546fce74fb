"""Exact arithmetic on fractions and on polynomials, with bounds on their size."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge import units
from weighbridge.algebra.expr import MOST_BITS, fold
from weighbridge.algebra.polynomial import MOST_EXPANDED, Polynomial

if TYPE_CHECKING:
    from collections.abc import Callable

    from weighbridge.algebra.expr import Meaning, Tree
    from weighbridge.articles.text.lines import Stretch

MOST_POWER = 1000  # an exponent, far larger than any in an article
MOST_PRODUCTS = 400  # of terms, where two sums with letters are multiplied; 20 by 20
_DECIMALS = 2
_LEAST_SHOWN = 10  # smaller numbers have more decimals, for four digits in all
_MOST_DECIMALS = 12
_WITHOUT_DECIMALS = 10**6


class UnreadableError(Exception):
    """Arithmetic that cannot be read or has no value.

    ``why`` is a key in the words of an audit, and ``about`` is the subject of the reason.
    """

    def __init__(self, why: str, about: str = "") -> None:
        self.why, self.about = why, about
        super().__init__(why, about)


class Number(NamedTuple):
    """A number as it is written.

    ``place`` is the value of one unit in the last digit other than 0, and ``shown_place`` that of
    the last digit. A number with a unit, such as 110M, is ``rounded``. A number of bytes may be
    larger by one of its ``byte_scales``, because MB is often written for MiB. A result that is
    written with a power of ten (``is_power``) shows only some digits, as 1.74 × 10¹¹ does; in a
    calculation, 2 × 10¹² is exact. ``at`` is where the number stands in the article, if it does.
    """

    value: Fraction
    text: str
    place: Fraction
    rounded: bool = False
    at: Stretch | None = None
    shown_place: Fraction = Fraction(1)
    byte_scales: tuple[Fraction, ...] = ()
    is_power: bool = False

    @property
    def is_rough(self) -> bool:
        """Whether the number shows only some of its digits: 110M, 1.74 × 10¹¹."""
        return self.rounded or self.is_power

    def is_whole_of(self, exact: Fraction) -> bool:
        """Return whether this is a whole number beside a fraction: 10,923 for 8/3 × 4,096."""
        is_whole = not self.is_rough and self.shown_place == 1 and self.value.denominator == 1
        return is_whole and exact.denominator > 1 and abs(exact - self.value) < 1

    def fits(
        self, exact: Fraction, *, rounded: bool = False, slack: Fraction = Fraction(0)
    ) -> bool:
        """Return whether an exact value may be written like this: exactly, rounded, or cut off.

        Example:
            >>> number = Number(Fraction(110_000_000), "110M", Fraction(10_000_000), True)
            >>> number.fits(Fraction(108_808_704)), number.fits(Fraction(98_000_000))
            (True, False)
        """
        if self.is_whole_of(exact):
            return True
        is_exact = not (rounded or self.is_rough or self.place < 1)
        place = Fraction(0) if is_exact else self.place
        off = abs(exact) - abs(self.value)
        return exact * self.value >= 0 and (abs(off) <= place / 2 + slack or 0 <= off < place)


def constant(value: Fraction | int) -> Polynomial:
    """Return a number as a polynomial without letters."""
    # Fractions add and multiply as integers do.
    return Polynomial({(): Fraction(value)})  # type: ignore[dict-item]


def number_of(value: Polynomial) -> Fraction | None:
    """Return the number that a polynomial equals; None if it has letters.

    Example:
        >>> number_of(constant(3)), number_of(Polynomial.of("H"))
        (Fraction(3, 1), None)
    """
    if not value.terms.keys() <= {()}:
        return None
    return Fraction(value.terms.get((), 0))


def number_text(value: Fraction | None) -> str:
    """Write a number: an integer with digits in groups of three, any other with some decimals.

    Example:
        >>> number_text(Fraction(2359296)), number_text(Fraction(32768, 3))
        ('2,359,296', '10,922.67')
        >>> [number_text(Fraction(top, 3000)) for top in (10500, -1000, 1)]
        ['3.5', '-0.3333', '0.0003333']
    """
    if value is None:
        return ""
    if value.denominator == 1:
        return units.count(value.numerator)
    decimals, size = _DECIMALS, abs(value)
    if size >= _WITHOUT_DECIMALS:
        return units.count(round(value))
    while size < _LEAST_SHOWN and decimals < _MOST_DECIMALS:
        decimals, size = decimals + 1, size * 10
    sign = "-" if value < 0 else ""
    whole, rest = divmod(round(abs(value) * 10**decimals), 10**decimals)
    return f"{sign}{units.count(whole)}.{rest:0{decimals}}".rstrip("0").rstrip(".")


def evaluate_exactly(
    tree: Tree, name: Callable[[str], Polynomial], value: Callable[[Number], Polynomial]
) -> Polynomial:
    """Return the exact value of a tree; ``name`` and ``value`` evaluate its leaves.

    Raises:
        UnreadableError: the tree has no value, or one that is too large.
    """
    try:
        result: Polynomial = fold(tree, name, value, _EXACT)
    except (OverflowError, RecursionError):
        raise UnreadableError("too_large") from None
    return result


def _bounded(operate: Callable[..., Any]) -> Callable[..., Any]:
    def bounded_operate(*operands: Any) -> Any:
        result = operate(*operands)
        if _longest_coefficient(result) > MOST_BITS:
            raise UnreadableError("too_large")
        return result

    return bounded_operate


def _longest_coefficient(value: Polynomial) -> int:
    """Return the bits of the longest numerator or denominator of a polynomial."""
    longest = 1
    for coefficient in value.terms.values():
        exact = Fraction(coefficient)
        longest = max(longest, exact.numerator.bit_length(), exact.denominator.bit_length())
    return longest


def _multiply(left: Polynomial, right: Polynomial) -> Polynomial:
    if len(left.terms) * len(right.terms) > MOST_PRODUCTS:
        raise UnreadableError("too_large")
    return left * right


def _power(base: Polynomial, exponent: Polynomial) -> Polynomial:
    times = number_of(exponent)
    if times is None or times.denominator != 1:
        raise UnreadableError("power")
    if (
        abs(times) > MOST_POWER
        or _longest_coefficient(base) * abs(times) > MOST_BITS
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
    "*": _bounded(_multiply),
    "/": _bounded(_divide),
    "**": _bounded(_power),
    "neg": lambda operand: -operand,
}
