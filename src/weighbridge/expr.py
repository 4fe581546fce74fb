"""Arithmetic over names: parsed once, evaluated under any meaning. It knows nothing of models.

A tree is a nested tuple, its first item the kind: ``("name", "hidden_size")``, ``("value", 2)``, or an operator
followed by its operands. A *meaning* is a table from operator to function, and the names are bound to whatever those
functions take. The same tree so gives a number, a NumPy sweep, a polynomial, or its own text in LaTeX: a new meaning is
a new table or a new kind of number, never a branch in `evaluate`.
"""

from __future__ import annotations

import operator
import re
from functools import cache
from typing import TYPE_CHECKING, Any, Self

from weighbridge.errors import ExpressionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Meaning = Mapping[str, Callable[..., Any]]

Tree = tuple[Any, ...]

LONGEST = 1000  # characters of one expression
DEEPEST = 40  # operators inside one another
HIGHEST_POWER = 8  # exponents are small literals
MOST_BITS = 4096  # of an integer that is a product or a power, so that no value can explode

_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+)"
    r"|(?P<name>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)"
    r"|(?P<text>\"[^\"\\]*\"|'[^'\\]*')"
    r"|(?P<operator>\*\*|//|==|!=|<=|>=|[-+*%<>()\[\],]))"
)
_CONSTANTS = {"true": True, "false": False, "null": None}
_FUNCTIONS = {"len": 1, "max": 2, "min": 2}

# How tightly each operator binds, loosest first. Comparisons do not chain, and neither do powers.
PRECEDENCE = {"or": 1, "and": 2, "not": 3}
PRECEDENCE |= dict.fromkeys(("==", "!=", "<", "<=", ">", ">=", "in"), 4)
PRECEDENCE |= {"+": 5, "-": 5, "*": 6, "//": 6, "%": 6, "neg": 7, "**": 8, "[]": 9}
_UNCHAINED = (PRECEDENCE["=="], PRECEDENCE["**"])
_BINARY = {kind: strength for kind, strength in PRECEDENCE.items() if kind not in ("not", "neg", "[]")}
_RESERVED = {*_BINARY, "not"}

_NO_NUMBERS = (str, list, tuple, dict)
_TOO_LARGE = f"an integer has at most {MOST_BITS} bits"


def _arithmetic(operate: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return an operator that takes no text and no list, which Python would repeat, join or fill in."""

    def of_numbers(left: Any, right: Any) -> Any:
        if type(left) is int is type(right) or not (isinstance(left, _NO_NUMBERS) or isinstance(right, _NO_NUMBERS)):
            return operate(left, right)
        raise TypeError("arithmetic is of numbers, not of texts or lists")

    return of_numbers


def _times(left: Any, right: Any) -> Any:
    if isinstance(left, int) and isinstance(right, int) and left.bit_length() + right.bit_length() > MOST_BITS:
        raise OverflowError(_TOO_LARGE)
    return left * right


def _power(base: Any, exponent: int) -> Any:
    if isinstance(base, int) and base.bit_length() * exponent > MOST_BITS:
        raise OverflowError(_TOO_LARGE)
    return base**exponent


def _truth(value: Any) -> Any:
    """Return what is true or false, or an array of such; of integers, ``&`` and ``|`` would join the bits."""
    if type(value) is bool or getattr(getattr(value, "dtype", None), "kind", "") == "b":
        return value
    raise TypeError("and, or, not are of what is true or false: write a comparison, as in n > 0 and …")


def _extreme(of_two: Callable[[Any, Any], Any], beats: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return ``max`` or ``min``, which of arrays is taken element by element."""

    def choose(left: Any, right: Any) -> Any:
        if hasattr(left, "dtype") or hasattr(right, "dtype"):
            return left + (right - left) * beats(right, left)
        return of_two(left, right)

    return choose


NUMBERS: Meaning = {
    "or": lambda left, right: _truth(left) | _truth(right),
    "and": lambda left, right: _truth(left) & _truth(right),
    "not": lambda truth: _truth(truth) ^ True,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": lambda item, container: item in container,
    "+": _arithmetic(operator.add),
    "-": operator.sub,
    "*": _arithmetic(_times),
    "//": operator.floordiv,
    "%": _arithmetic(operator.mod),
    "**": _power,
    "neg": operator.neg,
    "[]": operator.getitem,
    "len": len,
    "max": _extreme(max, operator.gt),
    "min": _extreme(min, operator.lt),
}
"""Python's own arithmetic, with integers that stay small, and truths that are no numbers.

``in``, ``len`` and ``[]`` are of lists and texts; of arrays, every other operator is taken element by element.
"""


def evaluate(tree: Tree, names: Mapping[str, Any], meaning: Meaning = NUMBERS) -> Any:
    """Return the value of a tree where ``names`` are bound so and operators mean that.

    A Python ``True`` or ``False`` on the left settles an ``or`` or ``and`` without looking at the right.

    Raises:
        ExpressionError: a name is not bound, or an operation has no value (a division by zero, an index out of range).

    Example:
        >>> tree = parse("num_attention_heads * (hidden_size // num_attention_heads)")
        >>> evaluate(tree, {"hidden_size": 768, "num_attention_heads": 12})
        768
        >>> import numpy
        >>> evaluate(tree, {"hidden_size": numpy.array([128, 130]), "num_attention_heads": 4})
        array([128, 128])
    """
    try:
        return fold(tree, names.__getitem__, _itself, meaning)
    except KeyError as error:
        raise ExpressionError(f"no field named {error.args[0]}", where=source(tree)) from None
    except (ArithmeticError, IndexError, TypeError, ValueError) as error:
        bound = {name: names[name] for name in names_in(tree) if name in names}
        raise ExpressionError(f"has no value: {error}", where=source(tree), values=bound) from None


def fold(tree: Tree, name: Callable[[str], Any], value: Callable[[Any], Any], meaning: Meaning) -> Any:
    """Return what a tree comes to: ``name`` and ``value`` read its leaves and ``meaning`` joins them."""
    kind = tree[0]
    if kind == "name":
        return name(tree[1])
    if kind == "value":
        return value(tree[1])
    first = fold(tree[1], name, value, meaning)
    if (kind == "or" and first is True) or (kind == "and" and first is False):
        return first
    return meaning[kind](first, *[fold(operand, name, value, meaning) for operand in tree[2:]])


def _itself(value: Any) -> Any:
    return value


def names_in(tree: Tree) -> Iterator[str]:
    """Yield the names in a tree, left to right, as often as they stand there.

    Example:
        >>> list(names_in(parse("2 * hidden_size + layer_types[i]")))
        ['hidden_size', 'layer_types', 'i']
    """
    if tree[0] == "name":
        yield tree[1]
    elif tree[0] != "value":
        for operand in tree[1:]:
            yield from names_in(operand)


@cache
def parse(text: str) -> Tree:
    """Return the tree of an expression.

    Names are config fields, dotted into sub-configs; literals are integers, ``"strings"``, ``true``, ``false`` and
    ``null``; operators are Python's ``or and not == != < <= > >= in + - * // % **`` and ``list[index]``; functions are
    ``len``, ``max`` and ``min``.

    Raises:
        ExpressionError: the text is none, or is longer, deeper or of a higher power than any honest one.

    Example:
        >>> parse("3 * hidden_size")
        ('*', ('value', 3), ('name', 'hidden_size'))
        >>> parse("9 ** 9 ** 9")
        Traceback (most recent call last):
        weighbridge.errors.ExpressionError: 9 ** 9 ** 9: an exponent is an integer from 0 to 8.
    """
    if len(text) > LONGEST:
        raise ExpressionError(f"an expression has at most {LONGEST} characters", values={"characters": len(text)})
    parser = _Parser(text)
    tree = parser.expression(0)
    if parser.peek():
        raise parser.error(f"did not expect {parser.peek()!r}")
    return tree


class _Parser:
    """Precedence climbing over the tokens of one text."""

    def __init__(self, text: str) -> None:
        self.text, self.tokens, self.depth = text, list(_tokens(text)), 0

    def peek(self) -> str:
        return self.tokens[0] if self.tokens else ""

    def take(self, wanted: str = "") -> str:
        if not self.tokens or (wanted and self.tokens[0] != wanted):
            raise self.error(f"expected {wanted or 'a name or a number'}, found {self.peek() or 'its end'}")
        return self.tokens.pop(0)

    def error(self, what: str) -> ExpressionError:
        return ExpressionError(what, where=self.text)

    def expression(self, loosest: int) -> Tree:
        self.depth += 1
        if self.depth > DEEPEST:
            raise self.error(f"an expression is at most {DEEPEST} deep")
        left = self.operand(loosest)
        while (strength := _BINARY.get(self.peek(), 0)) > loosest:
            kind = self.take()
            right = self.expression(strength)
            if kind == "**" and not (right[0] == "value" and type(right[1]) is int and right[1] <= HIGHEST_POWER):
                raise self.error(f"an exponent is an integer from 0 to {HIGHEST_POWER}")
            left = (kind, left, right)
            if strength in _UNCHAINED and _BINARY.get(self.peek()) == strength:
                if kind == "**":
                    raise self.error(f"an exponent is an integer from 0 to {HIGHEST_POWER}")
                raise self.error("comparisons do not chain")
        self.depth -= 1
        return left

    def operand(self, loosest: int) -> Tree:
        token = self.take()
        if token == "not" and loosest <= PRECEDENCE["not"]:
            return ("not", self.expression(PRECEDENCE["not"]))
        if token == "-":
            return ("neg", self.expression(PRECEDENCE["neg"]))
        return self.subscripts(self.atom(token))

    def atom(self, token: str) -> Tree:
        if token == "(":
            inside = self.expression(0)
            self.take(")")
            return inside
        if token[0] in "\"'":
            return ("value", token[1:-1])
        if token.isdigit():
            return ("value", int(token))
        if token in _FUNCTIONS and self.peek() == "(":
            return (token, *self.arguments(_FUNCTIONS[token]))
        if token in _CONSTANTS:
            return ("value", _CONSTANTS[token])
        if token in _RESERVED or not (token[0].isalpha() or token[0] == "_"):
            raise self.error(f"did not expect {token!r}")
        return ("name", token)

    def subscripts(self, tree: Tree) -> Tree:
        while self.peek() == "[":
            self.take("[")
            tree = ("[]", tree, self.expression(0))
            self.take("]")
        return tree

    def arguments(self, wanted: int) -> list[Tree]:
        self.take("(")
        found = [self.expression(0)]
        while self.peek() == ",":
            self.take(",")
            found.append(self.expression(0))
        self.take(")")
        if len(found) != wanted:
            raise self.error(f"a function takes {wanted} argument(s), found {len(found)}")
        return found


def _tokens(text: str) -> Iterator[str]:
    at = 0
    text = text.rstrip()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if not found:
            raise ExpressionError(f"cannot be read from {text[at : at + 10]!r} on", where=text)
        yield found[0].strip()
        at = found.end()


def source(tree: Tree) -> str:
    """Return the text of a tree, with no more parentheses than it needs.

    Example:
        >>> source(parse("((hidden_size)) * (2 + len(depths))"))
        'hidden_size * (2 + len(depths))'
    """
    return str(show(tree, str, SOURCE))


class Shown(str):
    """A piece of text that knows how tightly it is bound, so that whoever puts it elsewhere can bracket it."""

    strength: int
    __slots__ = ("strength",)

    def __new__(cls, text: str, strength: int = 10) -> Self:
        """Return the text, bound so tightly; 10 is an atom."""
        shown = super().__new__(cls, text)
        shown.strength = strength
        return shown


def show(tree: Tree, name: Callable[[str], str], meaning: Meaning, value: Callable[[Any], str] | None = None) -> Shown:
    """Return a tree as text: ``meaning`` joins `Shown` operands, ``name`` and ``value`` write the leaves."""
    write = value or _literal
    shown: Shown = fold(tree, lambda leaf: Shown(name(leaf)), lambda leaf: Shown(write(leaf)), meaning)
    return shown


def infix(kind: str, pattern: str, brackets: str = "({})") -> Callable[[Shown, Shown], Shown]:
    """Return how an operator is written between its operands, each bracketed where its strength asks for it."""
    strength = PRECEDENCE[kind]
    loosest = strength + (strength in _UNCHAINED)

    def write(left: Shown, right: Shown) -> Shown:
        first = brackets.format(left) if left.strength < loosest else left
        last = brackets.format(right) if right.strength <= strength else right
        return Shown(pattern.format(first, last), strength)

    return write


def prefix(kind: str, pattern: str, brackets: str = "({})") -> Callable[[Shown], Shown]:
    """Return how an operator is written before its one operand."""
    strength = PRECEDENCE[kind]
    return lambda inside: Shown(
        pattern.format(brackets.format(inside) if inside.strength < strength else inside), strength
    )


def _literal(value: Any) -> str:
    constants = {id(constant): text for text, constant in _CONSTANTS.items()}
    quote = "'" if isinstance(value, str) and '"' in value else '"'
    return constants.get(id(value)) or (f"{quote}{value}{quote}" if isinstance(value, str) else str(value))


SOURCE: Meaning = {
    **{kind: infix(kind, f"{{}} {kind} {{}}") for kind in PRECEDENCE if kind not in ("not", "neg", "[]")},
    "not": prefix("not", "not {}"),
    "neg": prefix("neg", "-{}"),
    "[]": lambda container, index: Shown(f"{container if container.strength == 10 else f'({container})'}[{index}]"),
    **{name: lambda *operands, name=name: Shown(f"{name}({', '.join(operands)})") for name in _FUNCTIONS},
}
"""The text that `parse` reads."""
