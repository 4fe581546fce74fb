"""Statements in words that are often wrong, whatever the numbers: `facts/claims.toml` lists them.

A claim is found where one of its patterns fits a sentence. It is not held against an article that
quotes it as wrong, asks it, or says it of another model.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge import data
from weighbridge.articles.text.lines import Stretch

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from weighbridge.articles.text.lines import ArticleLine

SLIP_IN_WORDS = "slip"
REMARK = "remark"

_CONDITIONS = ("about", "unless", "unless_near")
_PIECE = re.compile(r"\{([a-z]+)\}")
_FULL_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {0x2019: "'", 0x3000: " "}
_DROPPED = re.compile(
    r"\*\*|[`\u200b\u200c\u200d\ufeff]|(?<=[\u3400-\u9fff])\s+(?=[\u3400-\u9fff])|\s(?=\s)"
)
_SENTENCE = re.compile(r".+?(?:[。!?;\n]|\.(?=\s)|$)", re.DOTALL)
_QUESTION = re.compile(r"[?]\s*$|[吗呢][。?]?\s*$")
_NEW_PARAGRAPH = re.compile(r"\s*(?:$|[•·*\-–—#>|+]|[(\[]?\d{1,2}[.)、\]])")
_SHORTEST_WRAPPED = 60  # columns; a shorter line was not broken for its length
_LONGEST_LINE = 20_000  # characters that are read of a line
_LONGEST_HEADING = 40  # characters
_MISTAKES = (
    30  # lines below a heading "Common mistakes" in which nothing is held against an article
)
_AFTERWARDS = 40  # characters of the next sentence that may call a claim wrong


class WordSlip(NamedTuple):
    """A statement in words that is wrong: where it stands, its kind, and its rank.

    ``kind`` is a key of the table ``claims`` in the words of an audit. ``rank`` is ``slip``, or
    ``remark`` for words that are only misleading.
    """

    at: Stretch
    kind: str
    rank: str


class _Claim(NamedTuple):
    """A claim of `facts/claims.toml` with its patterns compiled."""

    kind: str
    rank: str
    roles: tuple[str, ...]
    families: tuple[str, ...]
    holds_for_all: bool
    is_named: bool
    says: tuple[re.Pattern[str], ...]
    about: re.Pattern[str] | None
    unless: re.Pattern[str] | None
    unless_near: re.Pattern[str] | None


class _Context(NamedTuple):
    """The patterns of `facts/claims.toml` that excuse a claim, and the names of models."""

    heading: re.Pattern[str]
    before: re.Pattern[str]
    after: re.Pattern[str]
    names: dict[str, re.Pattern[str]]


class _Sentence(NamedTuple):
    """A sentence without markup and torn words, and where each of its characters stands."""

    text: str
    places: Sequence[tuple[int, int]]


class _Neighbours(NamedTuple):
    """The two sentences before a sentence, and the one after it."""

    far: str
    before: str
    after: str


def find_claims(
    lines: Sequence[ArticleLine], roles: Collection[str], family: str
) -> list[WordSlip]:
    """Return the wrong statements of an article about a model, in the order of the text.

    Args:
        lines: the article.
        roles: the roles of the model's tensors. Without roles the model is unknown, and only what
            is wrong for any Transformer is returned.
        family: the ``model_type`` of the model; empty if it is unknown.
    """
    claims = [claim for claim in _claims() if _concerns(claim, roles, family)]
    sentences: list[_Sentence] = []
    for paragraph in _paragraphs(lines):
        sentences += _sentences(paragraph)
    texts = ["", "", *(sentence.text for sentence in sentences), ""]
    slips: list[WordSlip] = []
    for position, sentence in enumerate(sentences):
        near = _Neighbours(texts[position], texts[position + 1], texts[position + 3])
        slips += _claims_in(sentence, near, claims, family)
    return slips


def _concerns(claim: _Claim, roles: Collection[str], family: str) -> bool:
    """Whether a model has what a claim is about."""
    if not roles:
        return claim.holds_for_all
    if claim.families and family not in claim.families:
        return False
    return not claim.roles or any(f"{role}.".startswith(claim.roles) for role in roles)


def _claims_in(
    sentence: _Sentence, near: _Neighbours, claims: Iterable[_Claim], family: str
) -> Iterator[WordSlip]:
    """Yield the claims of a sentence, each kind once; of those that overlap, the first."""
    taken: list[tuple[int, int]] = []
    kinds = set()
    for claim in claims:
        match = _match(claim, sentence.text)
        if match is None or claim.kind in kinds:
            continue
        if any(match.start() < end and start < match.end() for start, end in taken):
            continue
        if _is_excused(claim, match, near, family):
            continue
        taken.append(match.span())
        kinds.add(claim.kind)
        yield WordSlip(
            _stretch(sentence.places[match.start() : match.end()]), claim.kind, claim.rank
        )


def _match(claim: _Claim, text: str) -> re.Match[str] | None:
    if claim.about and not claim.about.search(text):
        return None
    if claim.unless and claim.unless.search(text):
        return None
    return next(filter(None, (pattern.search(text) for pattern in claim.says)), None)


def _is_excused(claim: _Claim, match: re.Match[str], near: _Neighbours, family: str) -> bool:
    """Whether a sentence is a question, about another model, or quotes a claim as wrong."""
    context, text = _context(), match.string
    if _QUESTION.search(text):
        return True
    if context.before.search(near.before + text[: match.start()]):
        return True
    if context.after.search(text[match.end() :] + " " + near.after[:_AFTERWARDS]):
        return True
    own = context.names.get(family)
    if claim.is_named and not (own and own.search(text)):
        return True
    if claim.unless_near and claim.unless_near.search("\n".join(near)):
        return True
    others = (name for name in context.names.values() if name is not own)
    return not claim.holds_for_all and any(name.search(text) for name in others)


def _stretch(places: Sequence[tuple[int, int]]) -> Stretch:
    """Return the part of a match that stands on its first line."""
    line, start = places[0]
    return Stretch(line, start, max(column for number, column in places if number == line) + 1)


def _paragraphs(lines: Iterable[ArticleLine]) -> Iterator[_Sentence]:
    """Yield the paragraphs of an article: lines, those that were wrapped joined again."""
    text, places = "", list[tuple[int, int]]()
    previous = ""
    for line in _asserting(lines):
        if _is_wrapped(previous) and not _NEW_PARAGRAPH.match(line.text):
            text, places = text + " ", [*places, places[-1]]
        else:
            yield _Sentence(text, places)
            text, places = "", []
        previous = line.text[:_LONGEST_LINE]
        text += previous.translate(_FULL_WIDTH)
        places += [(line.number, column) for column in range(len(previous))]
    yield _Sentence(text, places)


def _asserting(lines: Iterable[ArticleLine]) -> Iterator[ArticleLine]:
    """Yield the lines that are not below a heading such as `Common mistakes`."""
    left_out = 0
    for line in lines:
        text = line.text.strip()
        if len(text) <= _LONGEST_HEADING and _context().heading.search(text):
            left_out = _MISTAKES
        elif text:
            left_out -= 1
        if left_out <= 0:
            yield line


def _is_wrapped(text: str) -> bool:
    """Whether a line seems to go on in the next one: it is long and does not end a sentence."""
    columns = sum(1 + (character > "\u2e80") for character in text)
    return columns >= _SHORTEST_WRAPPED and text.rstrip()[-1:] not in "。！？；.!?;:：|"


def _sentences(paragraph: _Sentence) -> Iterator[_Sentence]:
    """Yield the sentences of a paragraph, without markup and blanks inside Chinese words."""
    for match in _SENTENCE.finditer(paragraph.text):
        kept, start = list[int](), match.start()
        for dropped in _DROPPED.finditer(paragraph.text, match.start(), match.end()):
            kept += range(start, dropped.start())
            start = dropped.end()
        kept += range(start, match.end())
        text = "".join(paragraph.text[place] for place in kept)
        yield _Sentence(text, [paragraph.places[place] for place in kept])


@cache
def _claims() -> list[_Claim]:
    return [_claim(table) for table in data.read_toml("facts/claims.toml")["claim"]]


def _claim(table: Mapping[str, Any]) -> _Claim:
    return _Claim(
        table["kind"],
        table["rank"],
        tuple(table.get("roles", ())),
        tuple(table.get("families", ())),
        table.get("holds_for_all", False),
        table.get("named", False),
        tuple(map(_compiled, table["says"])),
        *(_compiled(table[key]) if key in table else None for key in _CONDITIONS),
    )


@cache
def _context() -> _Context:
    table = data.read_toml("facts/claims.toml")
    excused = table["excused"]
    return _Context(
        _compiled(excused["heading"]),
        _compiled(excused["before"]),
        _compiled(excused["after"]),
        {family: _compiled(name) for family, name in table["names"].items()},
    )


def _compiled(text: str) -> re.Pattern[str]:
    pieces = data.read_toml("facts/claims.toml")["pieces"]
    for _ in range(2):  # a piece may contain others
        text = _PIECE.sub(lambda match: pieces[match[1]], text)
    return re.compile(text, re.IGNORECASE)
