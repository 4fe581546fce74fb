"""Finds expressions among tokens, by the grammar of arithmetic in articles.

::

    sum      = product { ("+" | "-") product }
    product  = signed { ("*" | "/") signed | beside }
    signed   = ("+" | "-") signed | power
    power    = operand [ "^" signed ]
    operand  = phrase | [words] ( number | name | "(" sum ")" )
    beside   = a factor without a sign before it: 4H, 2(H + 1)

Words may occur in three places. A ``phrase`` consists of words that stand for a number: embeddings
+ layers. ``words`` before an operand describe it: 12 * hidden size 768. Words before a sign
describe what the number before them counts: 12 encoder layers * 7,080,960.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from weighbridge.articles.text.exact import UnreadableError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from weighbridge.algebra.expr import Tree
    from weighbridge.articles.text.token import Token

DEEPEST = 40  # nested brackets and powers: more than in any article, less than Python's stack holds
PHRASE = " "
"""The beginning of the name of a phrase; the names of letters have no space."""
LEAVES = ("name", "value")
"""The kinds of trees without a calculation."""
OPERANDS = ("number", "name", "open")
"""The kinds of tokens that an operand begins with, if it is not a phrase."""

_MOST_WORDS = 4  # in a row: 12 fully connected output layers * ...; more words are a sentence
_LONGEST_LETTER = 3  # characters: "4 H" and "2 d_k" are products, "12 layers" is not
_LONG_NUMBER = 5  # characters: "2,304 (" begins a remark about a result, "12 (" a product


class Expression(NamedTuple):
    """An expression: its tree, and the position of the first token after it."""

    tree: Tree
    end: int


def longest_expression(tokens: Sequence[Token], start: int) -> Expression:
    """Return the longest expression that begins at a position.

    Raises:
        UnreadableError: no expression begins there, or it is ambiguous or malformed.

    Example:
        >>> from weighbridge.articles.text.tokens import tokens
        >>> expression = longest_expression(list(tokens("4H + V parameters", 1)), 0)
        >>> expression.tree[0], expression.end
        ('+', 4)
    """
    parser = _ExpressionParser(tokens, start)
    return Expression(parser.sum(), parser.position)


class _ExpressionParser:
    """A parser with a method for each rule of the grammar; the next token is at ``position``."""

    def __init__(self, tokens: Sequence[Token], start: int) -> None:
        self.position = start
        self._tokens = tokens
        self._start = start
        self._depth = 0

    def sum(self) -> Tree:
        tree = self._product()
        while sign := self._take_sign("+-"):
            tree = (sign, tree, self._product())
        return tree

    def _product(self) -> Tree:
        tree = self._signed()
        last_sign = ""
        while True:
            if sign := self._take_sign("*/"):
                tree = (sign, tree, self._signed())
                last_sign = sign
                continue
            factor = self._beside(tree)
            if factor is None:
                return tree
            if last_sign == "/":  # H/2H: is it divided by 2 or by 2H?
                raise UnreadableError("two_ways")
            tree = ("*", tree, factor)

    def _signed(self) -> Tree:
        if not self._is_sign(self.position, "+-"):
            return self._power()
        sign = self._tokens[self.position].text
        self.position += 1
        operand = self._deeper(self._signed)
        return operand if sign == "+" else ("neg", operand)

    def _power(self) -> Tree:
        base = self._operand()
        if not self._is_sign(self.position, "^"):
            return base
        self.position += 1
        return ("**", base, self._deeper(self._signed))

    def _operand(self) -> Tree:
        words = self._count_words(self.position)
        if words and self._kind(self.position + words) not in OPERANDS:
            return self._phrase(words)
        if words and self.position == self._start:  # these words are before the expression
            raise UnreadableError("not_read")
        self.position += words
        if self._kind(self.position) not in OPERANDS:
            raise UnreadableError("not_read")
        token = self._tokens[self.position]
        self.position += 1
        if token.kind == "number":
            return ("value", token.number)
        if token.kind == "name":
            return ("name", token.text)
        return self._rest_of_bracket()

    def _phrase(self, words: int) -> Tree:
        first = self.position
        self.position += words
        phrase = " ".join(token.text for token in self._tokens[first : self.position])
        return ("name", PHRASE + phrase.lower())

    def _rest_of_bracket(self) -> Tree:
        inside = self._deeper(self.sum)
        if self._kind(self.position) != "close":
            raise UnreadableError("bracket")
        self.position += 1
        return inside

    def _beside(self, product: Tree) -> Tree | None:
        kind = self._kind(self.position)
        if kind == "name" and self._multiplies_name():
            return self._power()
        if kind == "open" and not self._opens_remark():
            return self._bracket_beside(product)
        return None

    def _multiplies_name(self) -> bool:
        name, before = self._tokens[self.position], self._tokens[self.position - 1]
        return name.tight or (before.kind == "number" and len(name.text) <= _LONGEST_LETTER)

    def _opens_remark(self) -> bool:
        bracket, before = self._tokens[self.position], self._tokens[self.position - 1]
        is_long = before.kind == "number" and len(before.text) >= _LONG_NUMBER
        return is_long and not bracket.tight

    def _bracket_beside(self, product: Tree) -> Tree | None:
        opened = self.position
        factor = self._power()
        if factor[0] not in LEAVES:
            return factor
        if product[0] == "name":  # a function: f(x)
            raise UnreadableError("not_read")
        self.position = opened  # a remark: 2H (768)
        return None

    def _take_sign(self, signs: str) -> str:
        """Move past a sign between two operands and return it; "" if there is none."""
        position = self.position + self._count_words(self.position)
        if not self._is_sign(position, signs) or not self._is_operand(position + 1):
            return ""
        self.position = position + 1
        return self._tokens[position].text

    def _is_operand(self, position: int) -> bool:
        words = self._count_words(position)
        kind = self._kind(position + words)
        if kind in OPERANDS:
            return True
        if words:  # a phrase
            return kind in ("op", "close", "")
        return self._is_sign(position, "+-")

    def _is_sign(self, position: int, signs: str) -> bool:
        return self._kind(position) == "op" and self._tokens[position].text in signs

    def _count_words(self, position: int) -> int:
        words = 0
        while words < _MOST_WORDS and self._kind(position + words) == "word":
            words += 1
        return words

    def _kind(self, position: int) -> str:
        """Return the kind of a token; "" after the last one."""
        if position < len(self._tokens):
            return self._tokens[position].kind
        return ""

    def _deeper(self, rule: Callable[[], Tree]) -> Tree:
        self._depth += 1
        if self._depth > DEEPEST:
            raise UnreadableError("too_deep")
        tree = rule()
        self._depth -= 1
        return tree
