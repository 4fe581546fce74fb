"""Finds the statements of an article: the expressions that its sentences call equal.

A text is read in four steps, in the order of this module:

1. Words that mean "equal" become relations: ``is about`` becomes ``about``.
2. The text is cut into segments at commas, full stops, the ends of lines and the cells of a table.
3. A segment is cut into parts at its relations.
4. Each part gives one side of a statement. The first side is the longest expression at the end of
   its part, and the words before it are the label. Each later side is the longest expression at the
   beginning of its part.

`expressions` defines what an expression is. Arithmetic that cannot be read becomes `Unread`.
"""

from __future__ import annotations

from itertools import groupby, takewhile
from typing import TYPE_CHECKING, NamedTuple

from weighbridge.articles.arithmetic.expressions import (
    LEAVES,
    OPERANDS,
    Expression,
    longest_expression,
)
from weighbridge.articles.arithmetic.sets import without_sets
from weighbridge.articles.text import terms
from weighbridge.articles.text.exact import Number, UnreadableError
from weighbridge.articles.text.token import Token
from weighbridge.articles.text.tokens import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from weighbridge.algebra.expr import Tree

AFTER_COMMA = (", is", ", about")
"""Words for "equal" that may begin a clause about something else: patches of 16×16, 共 14×14."""
APPROXIMATE = ("≈", "about", ", about")
WEAK = ("is", "about", *AFTER_COMMA)
"""Words that mean "equal" among other things; `checks` decides what they mean."""
_ENDING = ("is", ", is")
"""With H = 768 it is 4H²: the statement before such a word is complete, if it has two sides."""
MOST_TOKENS = 2000  # of a segment; published ones have less than 100, and 2,000 take up to a second
_LONGEST_RELATION = 4  # words: "which is equal to"
_LONGEST_LABEL = 200  # characters, the last ones: the name of a number is close to it
_SHOWN_TOKENS = 20  # of a segment that is too long

_VALUES = ("number", "name")
_SIGNS = ("op", "other")
"""The kinds of tokens for operations; ``other`` is an unknown sign."""

_COLONS = (":", "：")
_JOINED_BY_RELATION = (*_COLONS, ",", "，", ";", "；", "\n", "\f")
"""Separators that have no effect before a relation."""
_SEPARATOR_RANKS = {"|": 1, "\n": 2}
"""Of consecutive separators, the one with the highest rank counts; all others have rank 0."""


class Side(NamedTuple):
    """One side of a statement: its tree, the line on which it ends, and its text.

    A side of words has no tree. ``before`` are the numbers among the words before it, and
    ``words_after`` is true if words follow it. The tree is read from the tokens of ``part`` between
    ``first`` and ``last``; the others are what stands beside it between two relations.
    """

    tree: Tree | None
    line: int
    text: str
    before: tuple[Number, ...] = ()
    words_after: bool = False
    part: tuple[Token, ...] = ()
    first: int = 0
    last: int = 0


class Statement(NamedTuple):
    """Sides that are called equal, the relations between them, and the words before them.

    A relation is ``=`` or ``≈``, or for words that may mean something else, ``is`` or ``about``,
    with a comma if one stands before them.
    """

    sides: tuple[Side, ...]
    relations: tuple[str, ...]
    label: str

    @property
    def line(self) -> int:
        """The line on which the statement ends."""
        return self.sides[-1].line


class Unread(NamedTuple):
    """A text that looks like arithmetic but cannot be read.

    ``why`` is a key in the words of an audit, and ``about`` is the subject of the reason.
    """

    line: int
    text: str
    why: str
    about: str = ""


def statements(tokens: Iterable[Token]) -> Iterator[Statement | Unread]:
    """Yield the statements of a text in order, and the arithmetic that cannot be read.

    Example:
        >>> from weighbridge.articles.text.tokens import tokens
        >>> (statement,) = statements(tokens("A matrix has 768*768 = 589,824 weights.", 1))
        >>> statement.label, [side.text for side in statement.sides], statement.relations
        ('A matrix has', ['768*768', '589,824'], ('=',))
    """
    label = ""
    for segment, separator in _segments(_with_relations(without_sets([*tokens]))):
        if len(segment) > MOST_TOKENS:
            shown = _as_written(segment[:_SHOWN_TOKENS])
            yield Unread(segment[0].line, shown, "too_long")
            continue
        yield from _read_segment(segment, label)
        if separator in ("\n", "。"):
            label = ""
        else:
            label = f"{label} {_words_of(segment)}".strip()[-_LONGEST_LABEL:]


def _read_segment(segment: list[Token], label: str) -> Iterator[Statement | Unread]:
    items = list(_statements_of(_without_remarks(segment), label))
    yield from items
    has_unknown = any(token.text == UNKNOWN for token in segment)
    if has_unknown and not any(isinstance(item, Unread) for item in items):
        yield Unread(segment[0].line, _as_written(segment), "latex")


# 1. Words that mean "equal"


def _with_relations(tokens: Iterable[Token]) -> Iterator[Token]:
    """Yield the tokens, with relations in place of words that mean "equal".

    Fillers after a relation are left out: "is exactly 12" is read as "is 12".
    """
    after_relation = False
    for are_words, run in groupby(tokens, key=lambda token: token.kind == "word"):
        if are_words:
            words, after_relation = _words_as_relations(list(run), after_relation=after_relation)
            yield from words
            continue
        for token in run:
            yield token
            opens = after_relation and token.kind == "open"
            after_relation = token.kind == "relation" or opens


def _words_as_relations(
    words: Sequence[Token], *, after_relation: bool
) -> tuple[list[Token], bool]:
    """Return the words and relations, and whether the last one is a relation."""
    relations = terms.relations()
    relations_and_fillers = {*relations, *terms.facts()["fillers"]["words"]}
    kept: list[Token] = []
    position = 0
    while position < len(words):
        known = relations_and_fillers if after_relation else relations.keys()
        phrase, length = _longest_phrase(words, position, known)
        if phrase in relations:
            kept.append(Token("relation", relations[phrase], words[position].line, tight=True))
            after_relation = True
        elif not phrase:
            kept.append(words[position])
            after_relation = False
        position += length
    return kept, after_relation


def _longest_phrase(
    words: Sequence[Token], position: int, known: AbstractSet[str]
) -> tuple[str, int]:
    """Return the longest known phrase at a position, and its length; "" and 1 if there is none."""
    for length in range(_LONGEST_RELATION, 0, -1):
        phrase = " ".join(word.text for word in words[position : position + length]).lower()
        if phrase in known:
            return phrase, min(length, len(words) - position)
    return "", 1


# 2. Segments


def _segments(tokens: Iterable[Token]) -> Iterator[tuple[list[Token], str]]:
    """Yield the tokens between separators, with the separator after them."""
    segment: list[Token] = []
    kinds: set[str] = set()  # of the segment's tokens
    separator: Token | None = None
    for token in tokens:
        if token.kind == "separator":
            separator = max(separator or token, token, key=_separator_rank)
            continue
        if (
            separator is not None
            and segment
            and not _goes_on_over(separator, token, kinds, segment[-1])
        ):
            if _stands_for_equal(separator, token, kinds, len(segment)):
                segment.append(Token("relation", "=", separator.line))
                kinds.add("relation")
            else:
                yield segment, separator.text
                segment, kinds = [], set()
        segment.append(_after(separator, token))
        separator = None
        kinds.add(token.kind)
    if segment:
        yield segment, "\n"


def _after(separator: Token | None, token: Token) -> Token:
    """Return a token as it is read after a separator: one for "is" or "about" keeps the comma."""
    is_clause = separator is not None and separator.text not in _COLONS
    if is_clause and token.kind == "relation" and token.text in WEAK:
        return token._replace(text=f", {token.text}")
    return token


def _separator_rank(separator: Token) -> int:
    return _SEPARATOR_RANKS.get(separator.text, 0)


def _goes_on_over(separator: Token, token: Token, kinds: set[str], before: Token) -> bool:
    """Return whether a statement continues with this token after a separator.

    ``kinds`` are the kinds of the tokens before it, of which ``before`` is the last.
    """
    if separator.text == "\n" and before.kind == "op" and token.kind in OPERANDS:
        return True
    if token.kind == "relation":
        only_words = kinds == {"word"}
        return separator.text in _JOINED_BY_RELATION and (
            separator.text in _COLONS or not only_words
        )
    if token.kind == "op" and (separator.text == "\f" or (token.text in "*/" and not token.doubt)):
        return separator.text in ("\n", "\f")
    adds = token.kind == "op" and token.text in "+-"
    return adds and separator.text == "\n" and "relation" not in kinds


def _stands_for_equal(separator: Token, token: Token, kinds: set[str], length: int) -> bool:
    """Return whether a separator means "equal": H: 768, or table cells | 2*768 | 1,536 |.

    ``kinds`` and ``length`` are the kinds and the number of the tokens before it.
    """
    if token.kind != "number":
        return False
    if separator.text in _COLONS:
        return kinds == {"name"} and length == 1
    return separator.text == "|" and "op" in kinds and "relation" not in kinds


def _without_remarks(segment: list[Token]) -> list[Token]:
    """Return a segment without words in brackets: 768*3072 (the 4H of the paper) + 3072."""
    kept: list[Token] = []
    brackets: list[int] = []  # positions of open brackets
    for token in segment:
        kept.append(token)
        if token.kind == "open":
            brackets.append(len(kept) - 1)
        elif token.kind == "close" and brackets:
            bracket = brackets.pop()
            kinds = {inner.kind for inner in kept[bracket + 1 : -1]}
            if "word" in kinds and kinds <= {"word", "name", "number"}:
                del kept[bracket:]
    return kept


# 3. Parts


class _SegmentPart(NamedTuple):
    """The tokens between two relations, and the relation before them; "" for the first part."""

    relation: str
    tokens: list[Token]


def _parts(segment: Iterable[Token]) -> list[_SegmentPart]:
    """Cut a segment at its relations; adjacent ones, as in "is about", count as one."""
    parts = [_SegmentPart("", [])]
    for token in segment:
        relation, part = parts[-1]
        if token.kind != "relation":
            part.append(token)
        elif relation and not part:
            parts[-1] = _SegmentPart(_combined(relation, token.text), [])
        else:
            if part and part[-1].kind == "open":  # (≈ 110M)
                part.pop()
            parts.append(_SegmentPart(token.text, []))
    return parts


def _combined(first: str, second: str) -> str:
    """Return the meaning of adjacent relations: "is about" means ``about``, "is =" means ``=``."""
    is_weak = first in WEAK and second in WEAK
    is_approximate = first in APPROXIMATE or second in APPROXIMATE
    if is_weak:
        comma = ", " if first in AFTER_COMMA else ""
        return f"{comma}about" if is_approximate else f"{comma}is"
    return "≈" if is_approximate else "="


# 4. Statements


def _statements_of(segment: list[Token], label: str) -> Iterator[Statement | Unread]:
    first_part, *later_parts = _parts(segment)
    if not later_parts:
        yield from _expressions_alone(segment, label)
        return
    chain = _Chain()
    yield from chain.begin(first_part.tokens, label)
    next_relations = [part.relation for part in later_parts[1:]]
    for part, next_relation in zip(later_parts, [*next_relations, ""], strict=True):
        side, rest = _side_of(part.tokens, next_relation)
        if part.relation in _ENDING:
            yield from chain.end_if_complete()
        if not isinstance(side, Side):
            yield from chain.end()
            if side:
                yield side
            continue
        chain.add(part.relation, side)
        if _goes_on_after(rest, next_relation):
            continue
        yield from _statements_after(chain, rest, next_relation)
    yield from chain.end()


def _goes_on_after(rest: Sequence[Token], next_relation: str) -> bool:
    """Return whether a chain continues after the tokens behind a side.

    It does in "84,971,520 parameters, about 85M" and in "433,241,088 bytes = 413.2 MiB".
    """
    if next_relation in APPROXIMATE:
        return _only_words(rest)
    return not rest or (bool(next_relation) and is_byte_unit(rest))


def _statements_after(
    chain: _Chain, rest: list[Token], next_relation: str
) -> Iterator[Statement | Unread]:
    """End a chain, and read the tokens after its last side as the beginning of another."""
    remark = _rounded_remark(rest)
    if remark:
        chain.add("≈", remark)
        rest = rest[_REMARK_TOKENS:]
    yield from chain.end()
    if next_relation:
        yield from chain.begin(rest, "")
    else:
        yield from _expressions_alone(rest, chain.label)


class _Chain:
    """The sides that have been called equal so far."""

    def __init__(self) -> None:
        self.label = ""
        self._sides: list[Side] = []
        self._relations: list[str] = []

    def begin(self, part: list[Token], label: str) -> Iterator[Unread]:
        """Add the first side, and take the words before it as the label."""
        side, before = _ending(part)
        self.label = f"{label} {_words_of(before)}".strip()
        if isinstance(side, Unread):
            yield side
        elif side:
            self._sides.append(side)

    def add(self, relation: str, side: Side) -> None:
        """Add another side; if there is none yet, it becomes the first."""
        if self._sides:
            self._relations.append(relation)
        self._sides.append(side)

    def end_if_complete(self) -> Iterator[Statement]:
        """Yield the statement if it has two sides."""
        if len(self._sides) > 1:
            yield from self.end()

    def end(self) -> Iterator[Statement]:
        """Yield the statement if it has two sides or a calculation, and start again."""
        calculates = any(side.tree and side.tree[0] not in LEAVES for side in self._sides)
        if calculates or len(self._sides) > 1:
            yield Statement(tuple(self._sides), tuple(self._relations), self.label)
        self._sides, self._relations = [], []


_REMARK = ["open", "number", "close"]
_REMARK_TOKENS = len(_REMARK)


def _rounded_remark(tokens: Sequence[Token]) -> Side | None:
    """Return a rounded number in brackets, which repeats the number before it: (110M)."""
    if [token.kind for token in tokens[:_REMARK_TOKENS]] != _REMARK:
        return None
    number = tokens[1].number
    if number is None or not number.rounded or number.text.endswith("%"):
        return None
    return Side(("value", number), tokens[1].line, number.text)


def _ending(part: list[Token]) -> tuple[Side | Unread | None, list[Token]]:
    """Return the longest expression at the end of a part, and the tokens before it."""
    if not part:
        return None, part
    if {token.kind for token in part}.isdisjoint((*_VALUES, *_SIGNS)):
        return Side(None, part[-1].line, _as_written(part)), part
    reason = UnreadableError("not_read")
    start = 0
    while start < len(part):
        try:
            expression = longest_expression(part, start)
        except UnreadableError as error:
            if reason.why == "not_read":
                reason = error
            start += 1
            continue
        if _only_words(part[expression.end :]):
            if _is_cut_off(part, start):
                break
            return _last_side(part, start, expression), part[:start]
        start = expression.end
    if _is_arithmetic(part):
        return _unread(part, part[-1].line, reason), part
    return Side(None, part[-1].line, _as_written(part)), part


def _last_side(part: Sequence[Token], start: int, expression: Expression) -> Side:
    return Side(
        expression.tree,
        part[-1].line,
        _as_written(part[start : expression.end]),
        before=tuple(token.number for token in part[:start] if token.number),
        words_after=expression.end < len(part),
        part=tuple(part),
        first=start,
        last=expression.end,
    )


def _is_cut_off(part: Sequence[Token], start: int) -> bool:
    """Return whether an expression belongs to something before it that could not be read."""
    if part[start].kind == "op":  # it adds to something on the line before
        return True
    if start == 0:
        return False
    first, last_before = part[start], part[start - 1]
    if last_before.kind == "number":  # but a name may follow the number of a line of code
        return first.kind != "name"
    if last_before.kind == "word":  # softmax(...)
        return last_before.text.isascii() and first.kind == "open" and first.tight
    if last_before.kind == "open":  # 5*(2*3
        return start > 1 and part[start - 2].kind in _SIGNS
    return last_before.kind in (*_SIGNS, "close")


def _side_of(part: list[Token], next_relation: str) -> tuple[Side | Unread | None, list[Token]]:
    """Return the longest expression at the beginning of a part, and the tokens after it.

    In A = 12 L = 24, the L belongs to the next statement.
    """
    kinds = [token.kind for token in part]
    if next_relation and kinds == ["number", "name"] and not part[1].tight:
        return _beginning(part[:1])[0], part[1:]
    return _beginning(part)


def _beginning(part: list[Token]) -> tuple[Side | Unread | None, list[Token]]:
    try:
        return _first_side(part)
    except UnreadableError as error:
        if _is_arithmetic(part):
            return _unread(part, part[0].line, error), part
        return None, part


def _first_side(part: list[Token]) -> tuple[Side, list[Token]]:
    if not part:
        raise UnreadableError("not_read")
    tree, end = longest_expression(part, 0)
    if part[0].kind == "word" and (tree[0] in LEAVES or end < len(part)):
        raise UnreadableError("not_read")
    after = end
    while after < len(part) and part[after].kind == "close":
        after += 1
    rest = part[after:]
    if rest and not _may_follow(rest[0]):
        raise UnreadableError("not_read")
    text = _as_written(part[:end])
    return Side(tree, part[0].line, text, part=tuple(part), first=0, last=end), rest


def _may_follow(token: Token) -> bool:
    """Return whether a token may follow a complete expression."""
    return token.kind in ("word", "open") or (token.kind == "name" and not token.tight)


def _expressions_alone(part: list[Token], label: str) -> Iterator[Statement | Unread]:
    """Yield the expressions and numbers among words that are not called equal to anything."""
    position = 0
    while position < len(part):
        if part[position].kind not in OPERANDS:
            position += 1
            continue
        try:
            tree, end = _expression_alone(part, position)
        except UnreadableError as error:
            unreadable = list(takewhile(lambda token: token.kind != "word", part[position:]))
            if _is_arithmetic(unreadable):
                yield _unread(unreadable, part[position].line, error)
            position += len(unreadable)
            continue
        if tree[0] != "name":
            text = _as_written(part[position:end])
            side = Side(tree, part[position].line, text, part=tuple(part), first=position, last=end)
            yield Statement((side,), (), f"{label} {_words_of(part[:position])}".strip())
        position = end


def _expression_alone(part: Sequence[Token], start: int) -> Expression:
    expression = longest_expression(part, start)
    if expression.end < len(part) and part[expression.end].kind in _SIGNS:
        raise UnreadableError("not_read")
    return expression


# What cannot be read


def _is_arithmetic(part: Sequence[Token]) -> bool:
    """Return whether tokens look like a calculation: a sign and an operand, or an unread number."""
    if any(token.why for token in part):
        return True
    kinds = {token.kind for token in part}
    return not (kinds.isdisjoint(_VALUES) or kinds.isdisjoint(_SIGNS))


def _unread(part: Sequence[Token], line: int, error: UnreadableError) -> Unread:
    """Return tokens as unread, because of the first unknown one or else because of the error."""
    text = _as_written(part)
    strange = next((token for token in part if token.kind == "other"), None)
    if strange is None:
        return Unread(line, text, error.why, error.about)
    if strange.text == UNKNOWN:
        return Unread(line, text, "latex")
    if strange.why:
        return Unread(line, text, strange.why)
    return Unread(line, text, "sign", strange.text)


# Tokens as text


def is_byte_unit(tokens: Sequence[Token]) -> bool:
    """Return whether tokens are only the word for bytes."""
    return [token.text.lower() for token in tokens] in (["bytes"], ["byte"], ["字节"])


def _only_words(tokens: Iterable[Token]) -> bool:
    return all(token.kind == "word" for token in tokens)


def _words_of(tokens: Iterable[Token]) -> str:
    return _as_written(token for token in tokens if token.kind in ("word", "name"))


def _as_written(tokens: Iterable[Token]) -> str:
    text = ""
    for token in tokens:
        if text and not token.tight:
            text += " "
        text += token.text.replace(UNKNOWN, "…")
    return text
