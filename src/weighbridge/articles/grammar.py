"""The arithmetic in an article's sentences: which tokens make an expression, and what is said to equal what.

A sentence is cut at what separates (commas, stops, the cells of a table) and at the signs and words
that say equal. Between two of those stands a side. The first side of a statement is the longest
expression that ends there, the last one the longest that begins there; the words around them are
its label. What looks like arithmetic, and is not read, is yielded too, with the reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from weighbridge.articles import terms
from weighbridge.articles.exact import Number, UnreadableError
from weighbridge.articles.tokens import Token

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

    from weighbridge.algebra.expr import Tree

UNKNOWN = "\N{REPLACEMENT CHARACTER}"
"""Stands for LaTeX that has no plain signs."""
APPROXIMATE = ("≈", "about")
WEAK = ("is", "about")
"""Words that say equal, and other things too: a chain of them is held to be one where it can be."""
DEEPEST = 40  # brackets and powers inside one another
MOST_TOKENS = 2000  # of one statement
_LONGEST_LETTER = (
    3  # characters of what a number stands before with a space, and multiplies: 4 H, 2 d_k
)
_LONG_NUMBER = 5  # characters; a longer one before a space and a bracket is a result, and no factor
_MOST_WORDS = 4  # that name a number in a calculation: 12 encoder layers × …
PHRASE = " "  # is in the name of what is called by words


class Side(NamedTuple):
    """One side of a statement: its tree, the line that it ends on, and how it is written; no tree where it is words.

    ``before`` are numbers among the words before it, and ``words_behind`` says whether words stand
    behind it.
    """

    tree: Tree | None
    line: int
    text: str
    before: tuple[Number, ...] = ()
    words_behind: bool = False


class Statement(NamedTuple):
    """What is said to equal what: sides, the relations between them, and the words before it on its line.

    A relation is ``=`` or ``≈``, or in words that may say something else ``is`` or ``about``.
    """

    sides: tuple[Side, ...]
    relations: tuple[str, ...]
    label: str

    @property
    def line(self) -> int:
        """The line that it ends on."""
        return self.sides[-1].line


class Unread(NamedTuple):
    """What looks like arithmetic and is not read: its line, what it is, why (a key of the words), and about what."""

    line: int
    text: str
    why: str
    about: str = ""


def statements(tokens: Iterable[Token]) -> Iterator[Statement | Unread]:
    """Yield what the tokens of a text state, in its order, and what of it is not read."""
    label = ""
    for segment, separator in _segments(_with_relations(tokens)):
        if len(segment) > MOST_TOKENS:
            yield Unread(segment[0].line, _text(segment[:20]), "too_long")
            continue
        found = list(_of_segment(_without_remarks(segment), label))
        yield from found
        if any(token.text == UNKNOWN for token in segment) and not any(
            isinstance(item, Unread) for item in found
        ):
            yield Unread(segment[0].line, _text(segment), "latex")
        words = _words(segment)
        label = "" if separator in ("\n", "。") else f"{label} {words}".strip()[-200:]


def _with_relations(tokens: Iterable[Token]) -> Iterator[Token]:
    """Yield the tokens, each word that says equal as the sign that it stands for, and no filler after it."""
    known, fillers = terms.relations(), terms.facts()["fillers"]["words"]
    waiting: list[Token] = []
    after = False

    def flush(*, all_of_them: bool) -> Iterator[Token]:
        nonlocal after
        while waiting and (all_of_them or len(waiting) > _MOST_WORDS):
            for length in range(min(len(waiting), _MOST_WORDS), 0, -1):
                said = " ".join(token.text for token in waiting[:length]).lower()
                if said in known:
                    yield Token("relation", known[said], waiting[0].line, tight=True)
                    after = True
                    break
                if after and said in fillers:
                    break
            else:
                length, after = 1, False
                yield waiting[0]
            del waiting[:length]

    for token in tokens:
        if token.kind == "word" or (token.kind == "name" and token.text.lower() in ("i", "e")):
            waiting.append(token)
            yield from flush(all_of_them=False)
            continue
        yield from flush(all_of_them=True)
        after = token.kind == "relation" or (after and token.kind == "open")
        yield token
    yield from flush(all_of_them=True)


def _segments(tokens: Iterable[Token]) -> Iterator[tuple[list[Token], str]]:
    """Yield what stands between separators, and the separator behind it.

    A comma or the end of a line before a sign that says equal separates nothing.
    """
    segment: list[Token] = []
    separator: Token | None = None
    for token in tokens:
        if token.kind == "separator":
            separator = max(separator or token, token, key=_cuts)
            continue
        if separator is not None:
            joins = _joins(segment, separator, token)
            if joins is None and segment:
                yield segment, separator.text
                segment = []
            elif joins and segment:
                segment.append(Token("relation", joins, separator.line))
            separator = None
        segment.append(token)
    if segment:
        yield segment, "\n"


def _cuts(separator: Token) -> int:
    """Return how deep a separator cuts, where several stand together."""
    return {"\n": 2, "|": 1}.get(separator.text, 0)


def _joins(segment: Sequence[Token], separator: Token, token: Token) -> str | None:
    """Return the relation that a separator stands for, or "" where it stands for nothing; None where it separates."""
    if token.kind == "relation" and separator.text in (",", "，", "\n", "\f", ";", "；", ":", "："):
        return (
            ""
            if any(before.kind != "word" for before in segment) or separator.text in (":", "：")
            else None
        )
    has_relation = any(before.kind == "relation" for before in segment)
    if separator.text == "\f" and token.kind == "op":
        return ""
    if separator.text == "\n" and token.kind == "op" and token.text == "+" and not has_relation:
        return ""
    if (
        separator.text in (":", "：")
        and len(segment) == 1
        and segment[0].kind == "name"
        and token.kind == "number"
    ):
        return "="
    has_op = any(before.kind == "op" for before in segment)
    if separator.text == "|" and token.kind == "number" and has_op and not has_relation:
        return "="
    return None


def _without_remarks(segment: list[Token]) -> list[Token]:
    """Return a segment without brackets that hold words and no calculation: 768*3072 (the 4H of the paper) + 3072."""
    kept: list[Token] = []
    opened: list[int] = []
    for token in segment:
        kept.append(token)
        if token.kind == "open":
            opened.append(len(kept) - 1)
        elif token.kind == "close" and opened:
            at = opened.pop()
            inside = {each.kind for each in kept[at + 1 : -1]}
            if "word" in inside and inside <= {"word", "name", "number"}:
                del kept[at:]
    return kept


def _of_segment(segment: list[Token], label: str) -> Iterator[Statement | Unread]:
    parts, signs = _parts(segment)
    if not signs:
        yield from _loose(segment, label)
        return
    chain = _Chain()
    yield from chain.begin(parts[0], label)
    for position, (sign, part) in enumerate(zip(signs, parts[1:], strict=True), start=1):
        follows = signs[position] if position < len(signs) else ""
        side, rest = (
            _beginning(part)
            if not (follows and _is_next(part))
            else (_beginning(part[:1])[0], part[1:])
        )
        if sign == "is":  # after a statement that is whole, another: with H = 768 it is 4H² = …
            yield from chain.end_if_whole()
        yield from chain.add(sign, side)
        if follows in APPROXIMATE and all(token.kind == "word" for token in rest):
            continue  # 84,971,520 parameters, about 85M
        if rest and isinstance(side, Side):
            rest = yield from chain.add_remark(rest)
            yield from chain.end()
            if follows:
                yield from chain.begin(rest, "")
            else:
                yield from _loose(rest, chain.label)
    yield from chain.end()


def _is_next(part: Sequence[Token]) -> bool:
    """Whether a side is a number and then the letter of the next statement: A = 12 L = 24."""
    return [token.kind for token in part] == ["number", "name"] and not part[1].tight


def _parts(segment: Iterable[Token]) -> tuple[list[list[Token]], list[str]]:
    """Cut a segment at its relations; of two side by side, as in "is about", the looser counts."""
    parts: list[list[Token]] = [[]]
    signs: list[str] = []
    for token in segment:
        if token.kind != "relation":
            parts[-1].append(token)
        elif not parts[-1] and signs:
            signs[-1] = _together(signs[-1], token.text)
        else:
            if parts[-1] and parts[-1][-1].kind == "open":  # (≈ 110M)
                parts[-1].pop()
            signs.append(token.text)
            parts.append([])
    return parts, signs


def _together(one: str, other: str) -> str:
    """Return what two signs side by side say, as in "is about": nearly if either does, and surely if either does."""
    weak = one in WEAK and other in WEAK
    if one in APPROXIMATE or other in APPROXIMATE:
        return "about" if weak else "≈"
    return "is" if weak else "="


class _Chain:
    """Sides that are said to equal one another, as they are read."""

    def __init__(self) -> None:
        self.label = ""
        self._sides: list[Side] = []
        self._signs: list[str] = []

    def begin(self, part: list[Token], label: str) -> Iterator[Unread]:
        """Take the first side, with the words before it."""
        side, before = _ending(part)
        self.label = f"{label} {_words(before)}".strip()
        if isinstance(side, Unread):
            yield side
        elif side:
            self._sides.append(side)

    def add(self, sign: str, side: Side | Unread | None) -> Iterator[Statement | Unread]:
        """Take a further side; what is none ends the chain."""
        if isinstance(side, Side):
            self._signs += [sign] if self._sides else []
            self._sides.append(side)
            return
        yield from self.end()
        if side:
            yield side

    def add_remark(self, rest: list[Token]) -> Generator[Statement | Unread, None, list[Token]]:
        """Take a rounded number in brackets, which says the same again; return what stands behind it."""
        number = (
            rest[1].number
            if [token.kind for token in rest[:3]] == ["open", "number", "close"]
            else None
        )
        if number is None or not number.rounded or number.text.endswith("%"):
            return rest
        yield from self.add("≈", Side(("value", number), rest[1].line, number.text))
        return rest[3:]

    def end_if_whole(self) -> Iterator[Statement]:
        """Yield what was said, if something was said to equal something."""
        if len(self._sides) > 1:
            yield from self.end()

    def end(self) -> Iterator[Statement]:
        """Yield what was said, if anything was."""
        if len(self._sides) > 1 or any(
            side.tree and side.tree[0] not in _LEAVES for side in self._sides
        ):
            yield Statement(tuple(self._sides), tuple(self._signs), self.label)
        self._sides, self._signs = [], []


_LEAVES = ("name", "value")


def _ending(part: list[Token]) -> tuple[Side | Unread | None, list[Token]]:
    """Return the longest expression that a part ends with, and what stands before it."""
    if not any(token.kind in ("number", "name", "op", "other") for token in part):
        return (Side(None, part[-1].line, _text(part)) if part else None), part
    start, stuck = 0, UnreadableError("not_read", "")
    while start < len(part):
        parser = _Parser(part, start)
        try:
            if part[start].kind in ("number", "name", "open", "op", "word"):
                tree = parser.whole()
                if all(
                    token.kind == "word" for token in part[parser.at :]
                ):  # none, or what it is a number of
                    if start and _goes_on(part[:start], part[start]):
                        break
                    numbers = tuple(token.number for token in part[:start] if token.number)
                    return Side(
                        tree,
                        part[-1].line,
                        _text(part[start : parser.at]),
                        numbers,
                        parser.at < len(part),
                    ), part[:start]
            start = max(start + 1, parser.at)
        except UnreadableError as error:
            stuck, start = (error if stuck.why == "not_read" else stuck), start + 1
    if not _is_arithmetic(part):
        return Side(None, part[-1].line, _text(part)), part
    return Unread(part[-1].line, _text(part), *_why(part, stuck)), part


def _goes_on(before: Sequence[Token], first: Token) -> bool:
    """Whether an expression that seems to begin here goes on from before: what is before could not be read."""
    last, opened = before[-1], before[-1].kind == "open"
    is_function = (
        last.kind == "word" and last.text.isascii() and first.kind == "open" and first.tight
    )
    is_numbered = last.kind == "number" and first.kind == "name"  # a line of code with its number
    is_inside = opened and len(before) > 1 and before[-2].kind in ("op", "other")
    return (
        (last.kind in ("op", "other", "close", "number") and not is_numbered)
        or is_function
        or is_inside
    )


def _beginning(part: list[Token]) -> tuple[Side | Unread | None, list[Token]]:
    """Return the longest expression that a part begins with, and what stands behind it."""
    parser = _Parser(part, 0)
    try:
        if part and part[0].kind in ("number", "name", "open", "op"):
            tree = parser.whole()
            rest = part[parser.at :]
            while rest and rest[0].kind == "close":
                rest = rest[1:]
            if (
                not rest
                or rest[0].kind in ("word", "open")
                or (rest[0].kind == "name" and not rest[0].tight)
            ):
                return Side(tree, part[0].line, _text(part[: parser.at])), rest
        stuck = UnreadableError("not_read")
    except UnreadableError as error:
        stuck = error
    if not _is_arithmetic(part):
        return None, part
    return Unread(part[0].line, _text(part), *_why(part, stuck)), part


def _loose(part: list[Token], label: str) -> Iterator[Statement | Unread]:
    """Yield the expressions among words that nothing is said to equal, and the numbers that stand alone."""
    at = 0
    while at < len(part):
        if part[at].kind not in ("number", "name", "open"):
            at += 1
            continue
        parser = _Parser(part, at)
        try:
            tree = parser.whole()
            if parser.at < len(part) and part[parser.at].kind in ("op", "other"):
                raise UnreadableError("not_read")
        except UnreadableError as error:
            end = next((i for i in range(at, len(part)) if part[i].kind == "word"), len(part))
            if _is_arithmetic(part[at:end]):
                yield Unread(part[at].line, _text(part[at:end]), *_why(part[at:end], error))
            at = max(end, at + 1)
            continue
        if tree[0] != "name":
            words = _words(part[:at])
            side = Side(tree, part[at].line, _text(part[at : parser.at]))
            yield Statement((side,), (), f"{label} {words}".strip())
        at = max(parser.at, at + 1)


def _is_arithmetic(part: Sequence[Token]) -> bool:
    """Whether tokens look as if something were calculated: a sign between numbers or names, or a number not read."""
    if any(token.why for token in part):
        return True
    values = sum(token.kind in ("number", "name") for token in part)
    return values > 0 and any(token.kind in ("op", "other") for token in part)


def _why(part: Sequence[Token], stuck: UnreadableError) -> tuple[str, str]:
    strange = next((token for token in part if token.kind == "other"), None)
    if strange is None:
        return stuck.why, stuck.about
    if strange.text == UNKNOWN:
        return "latex", ""
    return (strange.why, "") if strange.why else ("sign", strange.text)


class _Parser:
    """Reads an expression by precedence, as far as it goes; ``at`` is where it stopped."""

    def __init__(self, tokens: Sequence[Token], at: int) -> None:
        self.tokens, self.start, self.at, self.depth = tokens, at, at, 0

    def whole(self) -> Tree:
        """Return the longest expression from here."""
        return self._sum()

    def _kind(self, ahead: int = 0) -> str:
        at = self.at + ahead
        return self.tokens[at].kind if at < len(self.tokens) else ""

    def _op(self, signs: str) -> str:
        """Return the operator that stands here, past words that name what is before it; "" where there is none."""
        ahead = 0
        while self._kind(ahead) == "word" and ahead < _MOST_WORDS:
            ahead += 1
        if self._kind(ahead) != "op" or self.tokens[self.at + ahead].text not in signs:
            return ""
        before = self.at
        self.at += ahead
        if not self._is_operand(1):
            self.at = before
            return ""
        self.at += 1
        return self.tokens[self.at - 1].text

    def _is_operand(self, ahead: int) -> bool:
        words = 0
        while self._kind(ahead + words) == "word" and words < _MOST_WORDS:
            words += 1
        found = self._kind(ahead + words)
        if words and found in ("op", "close", ""):
            return True
        sign = found == "op" and self.tokens[self.at + ahead + words].text in "+-" and not words
        return found in ("number", "name", "open") or sign

    def _sum(self) -> Tree:
        tree = self._product()
        while sign := self._op("+-"):
            tree = (sign, tree, self._product())
        return tree

    def _product(self) -> Tree:
        tree = self._signed()
        divided = False
        while True:
            if sign := self._op("*/"):
                tree = (sign, tree, self._signed())
                divided = sign == "/"
                continue
            beside = self._beside(tree)
            if beside is None:
                return tree
            if divided:
                raise UnreadableError("two_ways")
            tree = ("*", tree, beside)

    def _beside(self, tree: Tree) -> Tree | None:
        """Return the factor that stands here without a sign, as in 4H or 2(H + 1)."""
        kind, before = self._kind(), self.at
        if kind == "name":
            letter = (
                self.tokens[self.at - 1].kind == "number"
                and len(self.tokens[self.at].text) <= _LONGEST_LETTER
            )
            if not (self.tokens[self.at].tight or letter):
                return None
            return self._power()
        if kind != "open" or self._is_long():
            return None
        inside = self._power()
        if (
            inside[0] in ("value", "name")
            and tree[0] != "name"
            and self.tokens[self.at - 1].kind == "close"
        ):
            self.at = before  # a remark: 109,396,992 (110M)
            return None
        if inside[0] in ("value", "name"):
            raise UnreadableError("not_read")  # a function: f(x)
        return inside

    def _is_long(self) -> bool:
        """Whether a long number stands before a space and a bracket, which it is not multiplied by."""
        before = self.tokens[self.at - 1]
        return (
            before.kind == "number"
            and len(before.text) >= _LONG_NUMBER
            and not self.tokens[self.at].tight
        )

    def _signed(self) -> Tree:
        if self._kind() == "op" and self.tokens[self.at].text in "+-":
            sign = self.tokens[self.at].text
            self.at += 1
            inside = self._deeper(self._signed)
            return inside if sign == "+" else ("neg", inside)
        return self._power()

    def _power(self) -> Tree:
        tree = self._operand()
        if self._kind() == "op" and self.tokens[self.at].text == "^":
            self.at += 1
            return ("**", tree, self._deeper(self._signed))
        return tree

    def _operand(self) -> Tree:
        words = 0
        while self._kind(words) == "word" and words < _MOST_WORDS:
            words += 1
        if words and self._kind(words) not in ("number", "name", "open"):
            name = PHRASE + " ".join(token.text for token in self.tokens[self.at : self.at + words])
            self.at += words
            return ("name", name.lower())
        if words and self.at == self.start:
            raise UnreadableError("not_read")
        self.at += words
        kind = self._kind()
        if kind not in ("number", "name", "open"):
            raise UnreadableError("not_read")
        token = self.tokens[self.at]
        self.at += 1
        if kind == "number":
            return ("value", token.number)
        if kind == "name":
            return ("name", token.text)
        inside = self._deeper(self._sum)
        if self._kind() != "close":
            raise UnreadableError("bracket")
        self.at += 1
        return inside

    def _deeper(self, read: Callable[[], Tree]) -> Tree:
        self.depth += 1
        if self.depth > DEEPEST:
            raise UnreadableError("too_deep")
        tree = read()
        self.depth -= 1
        return tree


def _words(tokens: Iterable[Token]) -> str:
    return _text(token for token in tokens if token.kind in ("word", "name"))


def _text(tokens: Iterable[Token]) -> str:
    text = ""
    for token in tokens:
        text += token.text if token.tight or not text else f" {token.text}"
    return text
