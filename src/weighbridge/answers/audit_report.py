"""The report of an audit: slips first, then what was not read, the model and the total, counts."""

from __future__ import annotations

import re
from itertools import groupby
from typing import TYPE_CHECKING

from weighbridge import units
from weighbridge.answers.audit_marks import marked_article
from weighbridge.answers.reconcile import verdict
from weighbridge.articles.sizes.subject import NAMED
from weighbridge.articles.text.exact import number_text
from weighbridge.articles.text.lines import UNREAD
from weighbridge.articles.text.places import place_of_passage
from weighbridge.errors import printable, shorten
from weighbridge.render.document import NOTHING, Document, Notes, Title, Together

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Sequence
    from fractions import Fraction

    from weighbridge.answers.audit import Audit
    from weighbridge.answers.audit_words import AuditWords
    from weighbridge.articles.arithmetic.figures import Follow, Slip
    from weighbridge.render.document import Block

MOST_LISTED = 40  # slips, consequences or remarks that a text lists
MOST_UNREAD = 8  # pieces that were not read; most readers skip a longer list
_LONGEST = 120  # characters of a line of the article that a text shows
_AROUND = 40  # characters that a text shows before and after a slip in a longer line


def audit_document(audit: Audit, texts: AuditWords) -> Document:
    """Return the report in a language, with the marked article at the end."""
    slips = []
    for _, slips_of_line in groupby(audit.slips[:MOST_LISTED], lambda slip: slip.line):
        slips.append(_slip_block(list(slips_of_line), texts))
    report: list[Block] = [
        _heading(audit, texts),
        *slips,
        Notes(_more(len(audit.slips), texts)),
        *_remarks(audit, texts),
        *_restored(audit, texts),
        *_unread(audit, texts),
        Notes((*_about_model(audit, texts), *_about_total(audit, texts))),
        Notes((texts.counts(audit.numbers),)),
    ]
    return Document((*report, marked_article(audit, texts)), texts.lang)


def _heading(audit: Audit, texts: AuditWords) -> Together:
    key = "heading"
    if audit.source.encoding != "utf-8":
        key = "read_as"
    title = texts(key, where=printable(audit.source.where), encoding=audit.source.encoding)
    checked = texts.count("step", audit.checked)
    if audit.slips:
        in_words = sum(slip.kind == "words" for slip in audit.slips)
        key = "some"
        if in_words == len(audit.slips):
            key = "some_all_in_words"
        elif in_words:
            key = "some_in_words"
        slips = texts.count("slip", len(audit.slips))
        summary = texts(key, slips=slips, words=units.count(in_words), checked=checked)
    elif audit.checked:
        summary = texts("none", checked=checked)
    else:
        summary = texts("nothing")
    return Together((Title(title, wraps=False), Notes((summary,))))


# Slips


def _slip_block(slips: Sequence[Slip], texts: AuditWords) -> Together:
    """Return the slips of one line: the line, the mistakes, and the figures that depend on them."""
    blocks: list[Block] = [Notes((texts("line", line=slips[0].line, text=_excerpt(slips)),))]
    for slip in slips:
        facts = [texts.mistake(slip)]
        if slip.shift is not None:
            facts.append(texts("shift", shift=_with_sign(slip.shift)))
        if slip.kind == "arithmetic" and slip.mended not in (slip.correct, ""):
            facts.append(texts("mended", mended=slip.mended))
        follows = NOTHING
        if slip.follows:
            facts.append(texts("follows"))
            lines = [_follow(follow, texts) for follow in slip.follows[:MOST_LISTED]]
            follows = Notes((*lines, *_more(len(slip.follows), texts)), level=2)
        blocks += [Notes(tuple(facts), level=1), follows]
    return Together(tuple(blocks))


def _excerpt(slips: Iterable[Slip]) -> str:
    """Return a line, or if it is long, what is around its slips."""
    text, start, end = "", 0, 0
    for slip in slips:
        place = place_of_passage(slip.text, slip.written)
        if place and not text:
            start, end = place
        elif place:
            start, end = min(start, place[0]), max(end, place[1])
        text = slip.text
    if len(text) <= _LONGEST or not end:
        return _in_one_line(text, _LONGEST)
    start, end = max(0, start - _AROUND), end + _AROUND
    shown = text[start:end].strip()
    if start:
        shown = f"… {shown}"
    if end < len(text):
        shown = f"{shown} …"
    return _in_one_line(shown, _LONGEST + 2 * _AROUND)


def _in_one_line(text: str, longest: int) -> str:
    """Return the start of a text; a space of any kind is a space, as on a page."""
    return shorten(" ".join(text.split()), str, longest)


def _follow(follow: Follow, texts: AuditWords) -> str:
    share = ""
    if follow.shift is not None:
        share = _with_sign(follow.shift)
    values = {"stated": follow.stated, "share": share, "mended": follow.mended}
    return texts("follow", line=follow.line, **values)


# Lists


def _remarks(audit: Audit, texts: AuditWords) -> tuple[Together, ...]:
    """Return statements that are misleading, but not wrong."""
    plain, lines = audit.examination.plain, []
    for remark in audit.remarks:
        line, passage = plain.source_line(remark.at.line), plain.stretch(remark.at)
        lines.append(texts("remark", line=line, text=passage, says=texts.claim(remark.kind)))
    return _under(texts("remarks"), lines, texts)


def _restored(audit: Audit, texts: AuditWords) -> tuple[Together, ...]:
    """Return the calculations whose operators were put back."""
    lines = []
    for calculation in audit.restored:
        line = audit.examination.plain.source_line(calculation.line)
        lines.append(texts("on_line", line=line, text=texts.read_as(calculation)))
    return _under(texts("restored"), lines, texts)


def _unread(audit: Audit, texts: AuditWords) -> tuple[Together, ...]:
    """Return what was not read: first what has a result or a count, and how much else there is."""
    lines, others, code = [], 0, _code_lines(audit)
    for item in audit.unread:
        if item.line not in code and _RESULT.search(item.text):
            why = texts.why(item.why, shorten(item.about, str))
            text = _in_one_line(item.text, _LONGEST)
            lines.append(texts("unread_line", line=item.line, text=text, why=why))
        else:
            others += 1
    for line, is_large in _unread_numbers(audit, code, texts):
        if is_large:
            lines.append(line)
        else:
            others += 1
    others += len(lines[MOST_UNREAD:])
    lines = lines[:MOST_UNREAD]
    if others:
        key, noun = "more_unread", "other_piece"
        if not lines:
            key, noun = "only_unread", "piece"
        lines.append(texts(key, count=texts.count(noun, others)))
    return _under(texts("unread"), lines, texts)


def _unread_numbers(
    audit: Audit, code: Container[int], texts: AuditWords
) -> Iterator[tuple[str, bool]]:
    """Yield the unread numbers that are not in an unread calculation, those of a line together.

    With each line comes whether it is worth a reader's time: small numbers and code are not.
    """
    plain = audit.examination.plain
    listed = {item.line for item in audit.unread}
    unread = []
    for number in audit.numbers:
        line = plain.source_line(number.at.line)
        if number.verdict == UNREAD and line not in listed:
            unread.append((line, texts.reason(number), number.text))
    for (line, why), numbers in groupby(unread, lambda item: item[:2]):
        text = ", ".join(shorten(number, str) for *_, number in numbers)
        shown = texts("unread_line", line=line, text=text, why=why)
        yield shown, line not in code and _LARGE.search(text) is not None


def _code_lines(audit: Audit) -> set[int]:
    """Return the lines of the source that are code."""
    plain = audit.examination.plain
    code, prose = set(), set()
    for number, original in enumerate(plain.originals, start=1):
        if _CODE.search(original):
            code.add(plain.source_line(number))
        else:
            prose.add(plain.source_line(number))
    return code - prose


_CODE = re.compile(
    r"^\s*(?:def|class|for|if|while|with|else)\b.*:|^\s*(?:return|import|from)\b"
    r"|\w\.\w+\(|\bprint\(|==|;\s*$"
)
_LARGE = re.compile(r"\d{4}|\d,\d{3}|\d ?[%MBGK万亿]")
_RESULT = re.compile(r"[=≈]|\d{4}|\d,\d{3}")


def _under(heading: str, lines: Sequence[str], texts: AuditWords) -> tuple[Together, ...]:
    """Return lines under a heading, and how many more there are; nothing without lines."""
    if not lines:
        return ()
    items = (*lines[:MOST_LISTED], *_more(len(lines), texts))
    return (Together((Notes((heading,)), Notes(items, level=1))),)


def _more(number: int, texts: AuditWords) -> tuple[str, ...]:
    """Return the number of items that a list leaves out, if any, in words."""
    if number <= MOST_LISTED:
        return ()
    return (texts("more", count=units.count(number - MOST_LISTED)),)


# The model and the total


def _about_model(audit: Audit, texts: AuditWords) -> Iterator[str]:
    """Yield the sizes that the article states, and its model."""
    fields = audit.examination.sizes.fields
    if fields:
        sizes = []
        for field, value in fields.items():
            sizes.append(texts("size", field=field, value=units.count(value)))
        yield texts("sizes", sizes=texts("and").join(sizes))
    if audit.model and audit.parameters:
        key = "about_guessed"
        if audit.model.how == NAMED and fields:
            key = "about"
        elif audit.model.how == NAMED:
            key = "about_without_sizes"
        name = audit.model.release or audit.model.family
        names = {"class": audit.model.class_name, "name": name}
        yield texts(key, parameters=units.count(audit.parameters), **names)


def _about_total(audit: Audit, texts: AuditWords) -> Iterator[str]:
    total = audit.model_total
    if total is None:
        return
    key = "largest"
    if total.called:
        key = "total"
    stated = number_text(total.stated)
    if total.stated == total.mended:
        verdict_on_it = "right" if total.checked else "unchecked"
        yield texts(f"{key}_{verdict_on_it}", stated=stated, line=total.line)
    else:
        shift, mended = _with_sign(total.stated - total.mended), number_text(total.mended)
        yield texts(f"{key}_mended", stated=stated, line=total.line, mended=mended, shift=shift)
    if audit.counts and audit.counts.matches:
        yield texts("counts", verdict=verdict(audit.counts, texts.lang))
    elif audit.counts and total.called:
        yield texts("counts_nothing")


def _with_sign(value: Fraction) -> str:
    sign = "-"
    if value > 0:
        sign = "+"
    return f"{sign}{number_text(abs(value))}"
