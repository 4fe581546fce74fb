"""The article of an audit with each number marked, and a note at each slip in words."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from weighbridge.articles.text.lines import FOLLOWS, RIGHT, SLIP
from weighbridge.articles.text.places import place_of_passage, placed_numbers
from weighbridge.render.document import Annotated, AnnotatedLine, LineNote, Piece

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from weighbridge.answers.audit import Audit
    from weighbridge.answers.audit_words import AuditWords
    from weighbridge.articles.text.lines import NumberVerdict
    from weighbridge.articles.text.places import PlacedNumber

REMARK = "remark"
_NOTED = ("words", "letters", "formula", "missing")
"""Kinds of slips that are marked as a passage, with a note below the line."""
_RESTORED = ("restored", "restored_part")
_MINOR = ("calculation", "step", "formula_of", "small", "table_operand", "table_factor")
"""Reasons of numbers that are part of something else, which has its own mark."""
_BESIDE = {SLIP: "correct", FOLLOWS: "mended"}
"""The value of a verdict that is shown beside its number."""


class _Passage(NamedTuple):
    """A passage of a line with a note: its columns, the last excluded; 0 if it is not found."""

    start: int
    end: int
    mark: str
    note: str


def marked_article(audit: Audit, texts: AuditWords) -> Annotated:
    """Return the article of an audit with its numbers and wrong passages marked."""
    plain = audit.examination.plain
    placed = placed_numbers(plain, audit.numbers)
    by_line: dict[int, list[NumberVerdict]] = {}
    for number in audit.numbers:
        by_line.setdefault(number.at.line, []).append(number)
    passages = _passages(audit, texts)
    lines = []
    for line, original in enumerate(plain.originals, start=1):
        of_line = passages.get(line, [])
        pieces = _pieces(original, placed.get(line, ()), of_line, texts)
        notes = tuple(LineNote(passage.mark, passage.note) for passage in of_line)
        reasons = tuple(_reasons(by_line.get(line, ()), texts))
        lines.append(AnnotatedLine(plain.source_line(line), tuple(pieces), notes, reasons))
    legend = texts.legend(audit.numbers)
    if audit.remarks:
        legend[REMARK] = texts("remark_mark")
    return Annotated(texts("marked"), tuple(lines), legend, texts("all_reasons"))


def _reasons(numbers: Iterable[NumberVerdict], texts: AuditWords) -> Iterator[tuple[str, str]]:
    """Yield the reasons of a line's numbers, with the numbers that have each."""
    for reason, with_reason in groupby(numbers, texts.judgement):
        yield ", ".join(number.text for number in with_reason), reason


# Passages


def _passages(audit: Audit, texts: AuditWords) -> dict[int, list[_Passage]]:
    """Return the passages of each line that have a note."""
    plain = audit.examination.plain
    passages: dict[int, list[_Passage]] = {}

    def add(line: int, text: str, mark: str, note: str) -> None:
        start, end = place_of_passage(plain.original(line), text) or (0, 0)
        passages.setdefault(line, []).append(_Passage(start, end, mark, note))

    for slip in audit.slips:
        if slip.kind in _NOTED:
            line = _line_with(audit, slip.line, slip.written)
            add(line, slip.written, SLIP, texts("slip_note", text=texts.mistake(slip)))
    for remark in audit.remarks:
        note = texts("remark_note", text=texts.claim(remark.kind))
        add(remark.at.line, plain.stretch(remark.at), REMARK, note)
    for calculation in audit.restored:
        written = _written(audit, calculation.line, calculation.text)
        add(calculation.line, written, RIGHT, texts("note", text=texts.read_as(calculation)))
    return passages


def _line_with(audit: Audit, source_line: int, passage: str) -> int:
    """Return the number of the line with a passage, of those that stand on a line of the source."""
    plain = audit.examination.plain
    if not plain.source_lines:
        return source_line
    numbers = [number for number, line in plain.source_lines.items() if line == source_line]
    with_passage = (line for line in numbers if place_of_passage(plain.original(line), passage))
    return next(with_passage, numbers[0])


def _written(audit: Audit, line: int, calculation: str) -> str:
    """Return how the article writes a calculation whose operators were put back."""
    for number in audit.numbers:
        is_it = number.reason in _RESTORED and number.values["calculation"] == calculation
        if is_it and number.at.line == line:
            return number.text
    return ""


# Pieces


def _pieces(
    original: str,
    numbers: Sequence[PlacedNumber],
    passages: Iterable[_Passage],
    texts: AuditWords,
) -> Iterator[Piece]:
    """Yield the pieces of a line; the numbers in a passage are inner pieces of it.

    Of passages that overlap, only the first is marked. All have their notes.
    """
    position = 0
    for passage in sorted(passages):
        start, end = _around_numbers(passage, numbers)
        if start < position or start == end:
            continue
        yield from _numbers(original, position, start, numbers, texts)
        inner = tuple(_inner(_numbers(original, start, end, numbers, texts)))
        yield Piece(original[start:end], passage.mark, passage.note, inner=inner)
        position = end
    yield from _numbers(original, position, len(original), numbers, texts)


def _around_numbers(passage: _Passage, numbers: Iterable[PlacedNumber]) -> tuple[int, int]:
    """Return the columns of a passage, with the whole of each number on its edges."""
    start, end, _, _ = passage
    for number in numbers:
        if number.start < end and start < number.end:
            start, end = min(start, number.start), max(end, number.end)
    return start, end


def _inner(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Yield the pieces in a passage; what is wrong is the passage, not a number in it."""
    for piece in pieces:
        if piece.mark == SLIP:
            yield Piece(piece.text)
        else:
            yield piece


def _numbers(
    original: str, start: int, end: int, numbers: Iterable[PlacedNumber], texts: AuditWords
) -> Iterator[Piece]:
    """Yield the numbers between two columns with their marks, and what is between them."""
    for number in numbers:
        if start <= number.start and number.end <= end:
            verdict = number.verdict
            if original[start : number.start]:
                yield Piece(original[start : number.start])
            beside = str(verdict.values.get(_BESIDE.get(verdict.verdict, ""), ""))
            text, reason = original[number.start : number.end], texts.judgement(verdict)
            minor = verdict.reason in _MINOR
            yield Piece(text, verdict.verdict, reason, beside, minor=minor)
            start = number.end
    if original[start:end]:
        yield Piece(original[start:end])
