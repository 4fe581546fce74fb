"""Arithmetic over names: parsed once, evaluated under any meaning. Knows nothing about models.

A tree is a nested tuple whose first item is its kind: ``("name", "hidden_size")``,
``("value", 2)``, an operator followed by its operands, or a loop, ``("for", index, range, body)``.
A *meaning* maps each operator to a function, and the names are bound to whatever those functions
take. The same tree therefore gives a number, a NumPy sweep, a polynomial, or its own text in LaTeX:
a new meaning is a new table or a new kind of number, never a branch in `evaluate`.
"""

from __future__ import annotations

import math
import operator
from functools import cache, reduce

from weighbridge.errors import ExpressionError, LongLoopError
from weighbridge.lean_typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from re import Pattern
    from typing import Any, Self

    Meaning = Mapping[str, Callable[..., Any]]
    Tree = tuple[Any, ...]

LONGEST = 2000  # characters in one expression, without spaces
DEEPEST = 40  # nested operators
MOST_BITS = 4096  # of an integer product or power, to keep values from exploding
MOST_ROUNDS = 10_000  # of a loop, multiplied by those of the loops inside it

_TOKEN = (
    r"\s*(?:(?P<number>\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)"
    r"|(?P<name>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)"
    r"|(?P<text>\"[^\"\\]*\"|'[^'\\]*')"
    r"|(?P<operator>\*\*|//|==|!=|<=|>=|[-+*/%<>()\[\],:]))"
)
_CONSTANTS = {"true": True, "false": False, "null": None}
_UNARY = ("abs", "ceil", "floor", "int", "len", "log2", "round", "sqrt", "sum")
_FUNCTIONS = {**dict.fromkeys(_UNARY, 1), "max": DEEPEST, "min": DEEPEST}  # most operands of each
_LOOPS = ("for", "count")

# Operator precedence, loosest first. Comparisons do not chain, and neither do powers.
PRECEDENCE = {"if": 1, "or": 2, "and": 3, "not": 4}
PRECEDENCE |= dict.fromkeys(("==", "!=", "<", "<=", ">", ">=", "in", "not in"), 5)
PRECEDENCE |= {"+": 6, "-": 6, "*": 7, "/": 7, "//": 7, "%": 7, "neg": 8, "**": 9, "[]": 10}
_ATOM = 11
_UNCHAINED = {PRECEDENCE["=="]: "comparisons", PRECEDENCE["**"]: "powers"}
_BINARY = {
    kind: strength
    for kind, strength in PRECEDENCE.items()
    if kind not in ("if", "not", "neg", "[]")
}
_RESERVED = {*_BINARY, "not", "if", "else", "for"}
_NO_NAMES = {*_RESERVED, *_CONSTANTS, *_FUNCTIONS, *_LOOPS}

_NO_NUMBERS = (str, list, tuple, dict)
_TOO_LARGE = f"an integer has at most {MOST_BITS} bits"
_TOO_LONG = "a loop has at most {most:,} rounds, including those of nested loops"


class _LoopOverflowError(OverflowError):
    """A loop has more rounds than are allowed."""


def _arithmetic(operate: Callable[..., Any]) -> Callable[..., Any]:
    """Return an operator that rejects texts and lists.

    Python would repeat, join or format them.
    """

    def of_numbers(left: Any, *right: Any) -> Any:
        if isinstance(left, _NO_NUMBERS) or (right and isinstance(right[0], _NO_NUMBERS)):
            raise TypeError("arithmetic takes numbers, not texts or lists")
        return operate(left, *right)

    return of_numbers


def _times(left: Any, right: Any) -> Any:
    if (
        isinstance(left, int)
        and isinstance(right, int)
        and left.bit_length() + right.bit_length() > MOST_BITS
    ):
        raise OverflowError(_TOO_LARGE)
    return left * right


def _power(base: Any, exponent: Any) -> Any:
    if (
        isinstance(base, int)
        and isinstance(exponent, int)
        and base.bit_length() * exponent > MOST_BITS
    ):
        raise OverflowError(_TOO_LARGE)
    power = base**exponent
    if isinstance(power, complex):
        raise ValueError("a negative number has no such power")
    return power


def _truth(value: Any) -> Any:
    """Return a truth value or an array of truth values, and refuse anything else.

    On integers, ``&`` and ``|`` would combine the bits.
    """
    if type(value) is bool or getattr(getattr(value, "dtype", None), "kind", "") == "b":
        return value
    raise TypeError(
        "and, or, not and if take true or false: write a comparison, such as n > 0 and …"
    )


def _choose(truth: Any, then: Any, otherwise: Any) -> Any:
    """Choose between two values, element by element, by an array of truth values.

    `fold` has already decided a single truth value.
    """
    return _truth(truth).astype("int64").choose([otherwise, then])


def _equal(left: Any, right: Any) -> Any:
    """Return whether two values are equal; a list and a tuple of equal items are equal."""
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return list(left) == list(right)
    return left == right


def _unequal(left: Any, right: Any) -> Any:
    if isinstance(left, list | tuple):
        return not _equal(left, right)
    return left != right


def _item(container: Any, index: Any) -> Any:
    try:
        return container[index]
    except KeyError:
        raise IndexError(f"there is no {index!r}") from None


def _extreme(of_all: Callable[..., Any], beats: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Return ``max`` or ``min`` for several values or one list; arrays are compared by element."""

    def better(left: Any, right: Any) -> Any:
        return left + (right - left) * beats(right, left)

    def choose(*operands: Any) -> Any:
        if len(operands) > 1 and any(hasattr(operand, "dtype") for operand in operands):
            return reduce(better, operands)
        return of_all(*operands)

    return choose


def _whole(of_number: Callable[[Any], Any], of_array: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function that turns a number into an integer, or an array into integers."""

    def of_either(value: Any) -> Any:
        if hasattr(value, "dtype"):
            return of_array(value).astype("int64")
        return of_number(value)

    return _arithmetic(of_either)


def _real(of_number: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def of_one(value: Any) -> Any:
        if getattr(value, "ndim", 0):
            raise TypeError("this takes one number, not an array")
        return of_number(value)

    return of_one


def _square_root(value: Any) -> Any:
    if getattr(value, "ndim", 0):
        return value**0.5
    return math.sqrt(value)


def _items(_: str, rounds: Any, body: Callable[[Any], Any]) -> list[Any]:
    return [body(index) for index in _rounds(rounds)]


def _rounds(rounds: Any) -> range:
    if type(rounds) is not int:
        raise TypeError("range takes one integer")
    return range(rounds)


NUMBERS: Meaning = {
    "if": _choose,
    "or": lambda left, right: _truth(left) | _truth(right),
    "and": lambda left, right: _truth(left) & _truth(right),
    "not": lambda truth: _truth(truth) ^ True,
    "==": _equal,
    "!=": _unequal,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": lambda item, container: item in container,
    "not in": lambda item, container: item not in container,
    "+": _arithmetic(operator.add),
    "-": operator.sub,
    "*": _arithmetic(_times),
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": _arithmetic(operator.mod),
    "**": _power,
    "neg": operator.neg,
    "[]": _item,
    "[:]": lambda container, start, stop: container[slice(start, stop)],
    "list": lambda *items: list(items),
    "for": _items,
    "count": lambda _, rounds, holds: sum([_truth(holds(index)) for index in _rounds(rounds)]),
    "len": len,
    "sum": lambda items: reduce(NUMBERS["+"], items, 0),
    "max": _extreme(max, operator.gt),
    "min": _extreme(min, operator.lt),
    "abs": abs,
    "int": _whole(int, lambda array: array),
    "round": _whole(round, lambda array: array.round()),
    "floor": _whole(math.floor, lambda array: array // 1),
    "ceil": _whole(math.ceil, lambda array: -(-array // 1)),
    "sqrt": _square_root,
    "log2": _real(math.log2),
}
"""Python's own arithmetic, with bounded integers, and truth values that are not numbers.

``in``, ``len``, ``[]`` and loops take lists and texts, and ``log2`` takes one number; every other
operator also takes arrays and works element by element.
"""


def evaluate(
    tree: Tree, names: Mapping[str, Any], meaning: Meaning = NUMBERS, most: int = MOST_ROUNDS
) -> Any:
    """Return the value of a tree, given the values of its names and the meaning of its operators.

    ``or``, ``and`` and ``if`` short-circuit when the operand that decides is a Python ``True`` or
    ``False``: the operand that does not matter is not evaluated. Loops have at most ``most``
    rounds.

    Raises:
        LongLoopError: loops have more rounds.
        ExpressionError: a name is not bound, or an operation has no value (division by zero, index
            out of range).

    Example:
        >>> tree = parse("num_attention_heads * (hidden_size // num_attention_heads)")
        >>> evaluate(tree, {"hidden_size": 768, "num_attention_heads": 12})
        768
        >>> import numpy
        >>> evaluate(tree, {"hidden_size": numpy.array([128, 130]), "num_attention_heads": 4})
        array([128, 128])
    """
    try:
        return fold(tree, names.__getitem__, itself, meaning, most)
    except KeyError as error:
        raise ExpressionError(f"no field named {error.args[0]}", where=source(tree)) from None
    except _LoopOverflowError:
        what = f"has no value: {_TOO_LONG.format(most=most)}"
        raise LongLoopError(what, where=source(tree)) from None
    except (ArithmeticError, IndexError, RecursionError, TypeError, ValueError) as error:
        bound = {name: names[name] for name in names_in(tree) if name in names}
        raise ExpressionError(f"has no value: {error}", where=source(tree), values=bound) from None


def fold(
    tree: Tree,
    name: Callable[[str], Any],
    value: Callable[[Any], Any],
    meaning: Meaning,
    most: int = MOST_ROUNDS,
) -> Any:
    """Return the result of a tree: ``name`` and ``value`` read the leaves, ``meaning`` joins them.

    The meaning of a loop gets the name of its index, the value of its range, and a function that
    returns the value of the loop's body for a value of the index. It may call that function any
    number of times; an integer range is at most ``most``.
    """
    kind = tree[0]
    if kind == "name":  # as most operands are
        return name(tree[1])
    if kind == "value":
        return value(tree[1])
    pending = []
    while kind not in _STARTS:
        pending.append(tree)
        tree = tree[1]
        kind = tree[0]
    result = _start(tree, name, value, meaning, most)
    for node in reversed(pending):
        kind = node[0]
        if type(result) is bool and kind in _LAZY:
            if kind == "if":
                result = fold(node[3 - result], name, value, meaning, most)
                continue
            if result is (kind == "or"):
                continue
        result = _operated(node, result, name, value, meaning, most)
    return result


# `fold` does not begin with their first operand.
_STARTS = frozenset(("name", "value", "list", *_LOOPS))
_LAZY = ("or", "and", "if")


def _operated(
    tree: Tree,
    first: Any,
    name: Callable[[str], Any],
    value: Callable[[Any], Any],
    meaning: Meaning,
    most: int,
) -> Any:
    """Return the result of an operator whose first operand is known."""
    if len(tree) == 3:
        return meaning[tree[0]](first, fold(tree[2], name, value, meaning, most))
    others = [fold(operand, name, value, meaning, most) for operand in tree[2:]]
    return meaning[tree[0]](first, *others)


def _start(
    tree: Tree, name: Callable[[str], Any], value: Callable[[Any], Any], meaning: Meaning, most: int
) -> Any:
    kind = tree[0]
    if kind == "name":
        return name(tree[1])
    if kind == "value":
        return value(tree[1])
    if kind == "list":
        return meaning[kind](*[fold(operand, name, value, meaning, most) for operand in tree[1:]])
    _, index, range_tree, body = tree
    rounds = fold(range_tree, name, value, meaning, most)
    most_inside = most
    if type(rounds) is int:
        if rounds > most:
            raise _LoopOverflowError(_TOO_LONG.format(most=MOST_ROUNDS))
        most_inside = most // max(rounds, 1)

    def body_at(index_value: Any) -> Any:
        def name_inside(leaf: str) -> Any:
            if leaf == index:
                return index_value
            return name(leaf)

        return fold(body, name_inside, value, meaning, most_inside)

    return meaning[kind](index, rounds, body_at)


def itself(value: Any) -> Any:
    """Return the value unchanged: how `fold` reads a literal that stands for itself."""
    return value


def is_number(value: object) -> bool:
    """Whether a value is a number; true and false are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def names_in(tree: Tree, looking: Mapping[str, slice] | None = None) -> Iterator[str]:
    """Yield the names in a tree, repeats included, without the indices of its loops.

    ``looking`` limits the operands that are searched, by operator.

    Example:
        >>> list(names_in(parse("2 * hidden_size + layer_types[i]")))
        ['hidden_size', 'layer_types', 'i']
        >>> list(names_in(parse("[depths[i] for i in range(stages)]")))
        ['stages', 'depths']
        >>> list(names_in(parse("sizes[i] + width"), {"[]": slice(1)}))
        ['sizes', 'width']
    """
    ahead: list[tuple[Tree, frozenset[str]]] = [(tree, frozenset())]
    while ahead:
        (kind, *operands), indices = ahead.pop()
        if kind == "name":
            if operands[0] not in indices:
                yield operands[0]
        elif kind in _LOOPS:
            index, rounds, body = operands
            ahead += [(body, indices | {index}), (rounds, indices)]
        elif kind != "value":
            if looking and kind in looking:
                operands = operands[looking[kind]]
            ahead += [(operand, indices) for operand in reversed(operands)]


def substitute(tree: Tree, name: Callable[[str], Tree]) -> Tree:
    """Return a tree in which each name is replaced by a tree.

    Example:
        >>> source(substitute(parse("width * 2"), lambda name: parse("a + b")))
        '(a + b) * 2'
    """
    substituted: Tree = fold(tree, name, lambda value: ("value", value), _TREES)
    return substituted


class _Trees(dict[str, "Callable[..., Tree]"]):
    """The meaning under which every operator rebuilds its own tree."""

    def __missing__(self, kind: str) -> Callable[..., Tree]:
        def join(*operands: Any) -> Tree:
            return (kind, *operands)

        def loop(index: str, rounds: Tree, body: Callable[[Tree], Tree]) -> Tree:
            return (kind, index, rounds, body(("name", index)))

        self[kind] = operator = loop if kind in _LOOPS else join
        return operator


_TREES: Meaning = _Trees()


def parse(text: str) -> Tree:
    """Return the tree of an expression.

    The language is a subset of Python. Names are config fields, dotted into sub-configs; literals
    are numbers, ``"strings"``, ``[lists]``, ``true``, ``false`` and ``null``; operators are
    Python's ``a if b else c``, ``or and not == != < <= > >= in + - * / // % **``, ``list[index]``
    and ``list[start:stop]``; functions are ``len``, ``sum``, ``max``, ``min``, ``abs``, ``int``,
    ``round``, ``floor``, ``ceil``, ``sqrt`` and ``log2``; loops are ``[each for i in range(n)]``
    and ``count(condition for i in range(n))``, which counts how often it is true.

    Raises:
        ExpressionError: the text is not an expression, or is too long or too deeply nested.

    Example:
        >>> parse("3 * hidden_size")
        ('*', ('value', 3), ('name', 'hidden_size'))
        >>> parse("9 ** 9 ** 9")
        Traceback (most recent call last):
        weighbridge.errors.ExpressionError: 9 ** 9 ** 9: powers do not chain.
    """
    tree = PARSED.get(text)
    if tree is None:
        tree = PARSED[text] = _parsed(text)
    return tree


def parse_all(texts: Mapping[str, str]) -> dict[str, Tree]:
    """Return the tree of each expression in a table.

    Raises:
        ExpressionError: as `parse` raises it.

    Example:
        >>> parse_all({"i": "num_hidden_layers"})
        {'i': ('name', 'num_hidden_layers')}
    """
    return {name: parse(text) for name, text in texts.items()}


def parse_at(place: str, text: str) -> Tree:
    """Return the tree of an expression that stands at a place in a file, which an error names.

    Raises:
        ExpressionError: as `parse` raises it; its ``where`` begins with the place.

    Example:
        >>> parse_at("tensors.weight", "9 ** 9 ** 9")
        Traceback (most recent call last):
        weighbridge.errors.ExpressionError: tensors.weight: 9 ** 9 ** 9: powers do not chain.
    """
    try:
        return parse(text)
    except ExpressionError as error:
        where = ": ".join(filter(None, (place, error.where)))
        raise ExpressionError(error.what, where=where, values=error.values) from None


PARSED: dict[str, Tree] = {}
"""The trees of the texts parsed so far, and those that a wheel ships with its blueprints."""


def _parsed(text: str) -> Tree:
    if (characters := len(text) - text.count(" ")) > LONGEST:
        raise ExpressionError(
            f"an expression has at most {LONGEST} characters", values={"characters": characters}
        )
    if text.isascii() and text.isidentifier() and text not in _NO_NAMES:
        return ("name", text)
    parser = _Parser(text)
    tree = parser.expression(0)
    if parser.peek():
        raise parser.error(f"did not expect {parser.peek()!r}")
    return tree


class _Parser:
    """A precedence-climbing parser for one text."""

    def __init__(self, text: str) -> None:
        self.text, self.tokens, self.depth = text, list(_tokens(text)), 0

    def peek(self) -> str:
        return next(iter(self.tokens), "")

    def take(self, wanted: str = "") -> str:
        if not self.tokens or (wanted and self.tokens[0] != wanted):
            raise self.error(
                f"expected {wanted or 'a name or a number'}, found {self.peek() or 'the end'}"
            )
        return self.tokens.pop(0)

    def error(self, what: str) -> ExpressionError:
        return ExpressionError(what, where=self.text)

    def expression(self, loosest: int) -> Tree:
        self.depth += 1
        if self.depth > DEEPEST:
            raise self.error(f"an expression has at most {DEEPEST} nested operators")
        left = self.operand(loosest)
        while (strength := self.strength()) > loosest:
            kind = self.operator()
            left = (kind, left, self.expression(strength))
            if strength in _UNCHAINED and self.strength() == strength:
                raise self.error(f"{_UNCHAINED[strength]} do not chain")
        if self.peek() == "if" and loosest < PRECEDENCE["if"]:
            left = self.choice(left)
        self.depth -= 1
        return left

    def strength(self) -> int:
        """Return the precedence of the next operator, or 0 if there is none."""
        if self.tokens[:2] == ["not", "in"]:
            return _BINARY["not in"]
        return _BINARY.get(self.peek(), 0)

    def operator(self) -> str:
        kind = self.take()
        if kind == "not":
            kind += f" {self.take()}"
        return kind

    def choice(self, then: Tree) -> Tree:
        self.take("if")
        condition = self.expression(PRECEDENCE["if"])
        self.take("else")
        return ("if", condition, then, self.expression(0))

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
        if token == "[":
            return self.items()
        if token[0] in "\"'":
            return ("value", token[1:-1])
        if token[0].isdigit():
            return ("value", self.number(token))
        if token == "count" and self.peek() == "(":
            self.take("(")
            return self.loop(token, self.expression(0), ")")
        if token in _FUNCTIONS and self.peek() == "(":
            return (token, *self.arguments(token))
        if token in _CONSTANTS:
            return ("value", _CONSTANTS[token])
        if token in _RESERVED or not (token[0].isalpha() or token[0] == "_"):
            raise self.error(f"did not expect {token!r}")
        return ("name", token)

    def number(self, token: str) -> int | float:
        if token.isdigit():
            return int(token)
        if math.isinf(float(token)):
            raise self.error("a number must be finite")
        return float(token)

    def items(self) -> Tree:
        if self.peek() == "]":
            self.take("]")
            return ("list",)
        first = self.expression(0)
        if self.peek() == "for":
            return self.loop("for", first, "]")
        return ("list", first, *self.more("]"))

    def loop(self, kind: str, body: Tree, end: str) -> Tree:
        self.take("for")
        index = self.take()
        if not index.isidentifier() or index in _RESERVED or index in _CONSTANTS:
            raise self.error(f"did not expect {index!r}")
        for word in ("in", "range", "("):
            self.take(word)
        rounds = self.expression(0)
        self.take(")")
        self.take(end)
        return (kind, index, rounds, body)

    def subscripts(self, tree: Tree) -> Tree:
        while self.peek() == "[":
            self.take("[")
            start = self.limit(":")
            if self.peek() == ":":
                self.take(":")
                tree = ("[:]", tree, start, self.limit("]"))
            else:
                tree = ("[]", tree, start)
            self.take("]")
        return tree

    def limit(self, end: str) -> Tree:
        """Read the start or the stop of a slice; it is null if ``end`` follows at once."""
        if self.peek() == end:
            return ("value", None)
        return self.expression(0)

    def arguments(self, function: str) -> list[Tree]:
        self.take("(")
        arguments = [self.expression(0), *self.more(")")]
        most = _FUNCTIONS[function]
        if len(arguments) > most:
            raise self.error(f"{function} takes at most {most} argument(s), found {len(arguments)}")
        return arguments

    def more(self, end: str) -> Iterator[Tree]:
        while self.peek() == ",":
            self.take(",")
            yield self.expression(0)
        self.take(end)


@cache
def _token_pattern() -> Pattern[str]:
    import re  # noqa: PLC0415  # a wheel ships its expressions already parsed

    return re.compile(_TOKEN)


def _tokens(text: str) -> Iterator[str]:
    at = 0
    text = text.rstrip()
    while at < len(text):
        token = _token_pattern().match(text, at)
        if not token:
            raise ExpressionError(f"cannot be read, starting at {text[at : at + 10]!r}", where=text)
        yield token[0].strip()
        at = token.end()


def source(tree: Tree) -> str:
    """Return the text of a tree, with only the parentheses that it needs.

    Example:
        >>> source(parse("((hidden_size)) * (2 + len(depths))"))
        'hidden_size * (2 + len(depths))'
    """
    return str(show(tree, str, SOURCE))


class Shown(str):
    """A piece of text with the precedence of its operator, so that callers can bracket it."""

    strength: int
    __slots__ = ("strength",)

    def __new__(cls, text: str, strength: int = _ATOM) -> Self:
        """Return the text with a precedence; by default that of an atom."""
        shown = super().__new__(cls, text)
        shown.strength = strength
        return shown


def show(
    tree: Tree,
    name: Callable[[str], str],
    meaning: Meaning,
    value: Callable[[Any], str] | None = None,
) -> Shown:
    """Return a tree as text: ``meaning`` joins `Shown` operands, the other two write the leaves."""
    write = value or _literal
    shown: Shown = fold(
        tree, lambda leaf: Shown(name(leaf)), lambda leaf: Shown(write(leaf)), meaning
    )
    return shown


def infix(kind: str, pattern: str, brackets: str = "({})") -> Callable[[Shown, Shown], Shown]:
    """Return a function that writes an operator between its operands, in brackets if looser."""
    strength = PRECEDENCE[kind]
    loosest = strength + (strength in _UNCHAINED)

    def write(left: Shown, right: Shown) -> Shown:
        first = bracketed(left, loosest, brackets)
        last = bracketed(right, strength + 1, brackets)
        return Shown(pattern.format(first, last), strength)

    return write


def prefix(kind: str, pattern: str, brackets: str = "({})") -> Callable[[Shown], Shown]:
    """Return a function that writes an operator before its single operand."""
    strength = PRECEDENCE[kind]
    return lambda operand: Shown(pattern.format(bracketed(operand, strength, brackets)), strength)


def bracketed(shown: Shown, loosest: int, brackets: str = "({})") -> str:
    """Return a text, in brackets if it binds more loosely than ``loosest``.

    Example:
        >>> bracketed(Shown("a + b", PRECEDENCE["+"]), PRECEDENCE["*"])
        '(a + b)'
    """
    if shown.strength < loosest:
        return brackets.format(shown)
    return shown


def _literal(value: Any) -> str:
    for text, constant in _CONSTANTS.items():
        if value is constant:
            return text
    if not isinstance(value, str):
        return str(value)
    quote = "'" if '"' in value else '"'
    return f"{quote}{value}{quote}"


def _choice(condition: Shown, then: Shown, otherwise: Shown) -> Shown:
    strength = PRECEDENCE["if"]
    first, test = (bracketed(part, strength + 1) for part in (then, condition))
    return Shown(f"{first} if {test} else {otherwise}", strength)


def _exponent(base: Shown, exponent: Shown) -> Shown:
    """Write a power: a minus binds looser, but as an exponent it needs no brackets."""
    clear = Shown(exponent) if exponent.strength == PRECEDENCE["neg"] else exponent
    return infix("**", "{} ** {}")(base, clear)


def _subscript(container: Shown, inside: str) -> Shown:
    return Shown(f"{bracketed(container, PRECEDENCE['[]'])}[{inside}]")


def _part(container: Shown, start: Shown, stop: Shown) -> Shown:
    first, last = ("" if limit == "null" else limit for limit in (start, stop))
    return _subscript(container, f"{first}:{last}")


def written_as_call(pattern: str) -> Callable[..., Shown]:
    """Return a function that writes an operator whose pattern brackets its operands.

    Example:
        >>> written_as_call("math.sqrt({})")(Shown("a + b"))
        'math.sqrt(a + b)'
    """
    return lambda *operands: Shown(pattern.format(", ".join(operands)))


def written_as_loop(pattern: str) -> Callable[..., Shown]:
    """Return a function that writes a loop as a Python comprehension, inside a pattern."""

    def write(index: str, rounds: Shown, body: Callable[[Shown], Shown]) -> Shown:
        return Shown(pattern.format(f"{body(Shown(index))} for {index} in range({rounds})"))

    return write


SOURCE: Meaning = {
    **{kind: infix(kind, f"{{}} {kind} {{}}") for kind in _BINARY},
    "**": _exponent,
    "not": prefix("not", "not {}"),
    "neg": prefix("neg", "-{}"),
    "if": _choice,
    "[]": _subscript,
    "[:]": _part,
    "list": written_as_call("[{}]"),
    "for": written_as_loop("[{}]"),
    "count": written_as_loop("count({})"),
    **{name: written_as_call(f"{name}({{}})") for name in _FUNCTIONS},
}
"""The text that `parse` reads."""
