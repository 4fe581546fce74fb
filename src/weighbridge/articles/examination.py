"""Examines an article: reads its lines, finds its sizes and its model, and checks what it says.

This is the order of the room. The lines come first, without markup. Then the end of the article and
its sizes and model are found. Tables, printouts, steps of arithmetic and statements in words are
checked against these, and every number gets a verdict.
"""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from weighbridge.articles.arithmetic.checks import (
    LONGEST_SHOWN,
    Findings,
    KnownSizes,
    Total,
    check_statements,
)
from weighbridge.articles.arithmetic.figures import Slip
from weighbridge.articles.arithmetic.grammar import Unread, statements
from weighbridge.articles.claims import SLIP_IN_WORDS, WordSlip, find_claims
from weighbridge.articles.printouts.forms import read_printouts
from weighbridge.articles.printouts.lines import LISTING, SUMMARY, TREE
from weighbridge.articles.printouts.printouts import check_printouts
from weighbridge.articles.recognition import Recognition
from weighbridge.articles.sizes.letters import listed_letters
from weighbridge.articles.sizes.sizes import Sizes, stated_sizes
from weighbridge.articles.sizes.subject import ArticleModel, article_subject
from weighbridge.articles.tables.tables import check_tables
from weighbridge.articles.text import terms
from weighbridge.articles.text.furniture import end_of_article, furniture
from weighbridge.articles.text.lines import KNOWN, RIGHT, SIZE, ArticleLine, NumberVerdict, Stretch
from weighbridge.articles.text.plain import PlainArticle, plain_article, without_remarks
from weighbridge.articles.text.restoration import RestoredCalculation, restorations
from weighbridge.articles.text.token import Token
from weighbridge.articles.text.tokens import tokens
from weighbridge.articles.verdicts import verdicts_of
from weighbridge.counting.parts import PartIndex, parts_of
from weighbridge.ledger.ledger import Ledger, bind

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from weighbridge.articles.printouts.lines import Printout
    from weighbridge.articles.text.source import Source

_SHOWN = 60  # characters of a line that is too long to read; they fit on one line of a terminal


class Examination(NamedTuple):
    """Everything found in an article: its lines, its sizes and model, the checks, every number."""

    plain: PlainArticle
    sizes: Sizes
    model: ArticleModel | None
    findings: Findings
    numbers: tuple[NumberVerdict, ...]
    remarks: tuple[WordSlip, ...]
    restored: tuple[RestoredCalculation, ...]


def examine(article: Source) -> Examination:
    """Examine an article.

    Example:
        >>> from weighbridge.articles.text.source import Source
        >>> text = "With $H = 768$ it is $4H^2 = 2{,}359{,}269$."
        >>> findings = examine(Source("a.md", text, "utf-8", False)).findings
        >>> findings.slips[0].stated, findings.slips[0].correct
        ('2,359,269', '2,359,296')
    """
    plain = plain_article(article)
    printed = read_printouts(plain.lines)
    last_printed = max((printout.lines.stop - 1 for printout in printed), default=0)
    end = max(end_of_article(plain.lines) or len(plain.lines), last_printed)
    lines = [line for line in plain.lines if line.number <= end]
    sizes = _sizes(lines, printed)
    model = article_subject(sizes)
    ledgers = _ledgers(model)
    parts = [parts_of(ledger) for ledger in ledgers]
    printouts = check_printouts(lines, next(iter(ledgers), None))
    prose = _without(lines, printed, _BLOCKS)
    tables = check_tables(_table_lines(prose), sizes.fields, _numbers_of(parts))
    items = chain(statements(_tokens(prose)), _too_long(plain))
    restored = restorations(lines, sizes.fields, parts)
    settled = [*printouts.taken, *tables.taken, *(verdict.at for verdict in restored.verdicts)]
    totals = frozenset(ledger.parameters for ledger in ledgers)
    known = _known(sizes, listed_letters(line.text for line in lines), settled)
    known = known._replace(totals=totals)
    findings = check_statements(items, plain.originals, known)
    words = find_claims(lines, _roles_of_tensors(ledgers), model.family if model else "")
    slips = [*findings.slips, *printouts.slips, *tables.slips, *_slips_in_words(words, plain)]
    findings = findings._replace(
        slips=tuple(sorted(slips, key=lambda slip: slip.line)),
        unread=tuple(_without_slips(findings.unread, tables.slips)),
    )
    findings = findings._replace(
        total=_largest_total(findings.total, restored.calculations, plain, sizes)
    )
    models = [model.model] if model else []
    recognise = Recognition(sizes.fields, models, parts, findings.results, ledgers)
    given = chain(
        printouts.verdicts,
        tables.verdicts,
        restored.verdicts,
        findings.marks.values(),
        _sizes_as_verdicts(sizes),
        _formulas_as_verdicts(findings, recognise),
        furniture(plain.lines),
    )
    numbers = verdicts_of(plain.lines, given, recognise, end)
    total = _recognised_total(findings.total, numbers, plain, known)
    findings = findings._replace(total=_checked_total(total, numbers))
    in_tables = sum(
        verdict.verdict == RIGHT for verdict in chain(printouts.verdicts, tables.verdicts)
    )
    findings = findings._replace(checked=findings.checked + len(restored.calculations) + in_tables)
    remarks = tuple(word for word in words if word.rank != SLIP_IN_WORDS)
    findings = _at_source_lines(findings, plain)
    return Examination(plain, sizes, model, findings, numbers, remarks, restored.calculations)


def _ledgers(model: ArticleModel | None) -> list[Ledger]:
    """Return the ledgers of the class that an article is about, and of the base class."""
    if model is None:
        return []
    blueprint = model.model.blueprint
    names = dict.fromkeys((model.class_name, blueprint.base_class))
    return [bind(blueprint, name, model.model.fields) for name in names]


def _roles_of_tensors(ledgers: Iterable[Ledger]) -> set[str]:
    return {entry.template.role for ledger in ledgers for entry in ledger.entries}


def _numbers_of(parts: Iterable[PartIndex]) -> frozenset[int]:
    return frozenset(chain.from_iterable(index.numbers for index in parts))


def _too_long(plain: PlainArticle) -> Iterator[Unread]:
    for number in plain.too_long:
        yield Unread(number, plain.original(number)[:_SHOWN], "long_line")
    if plain.cut:
        yield Unread(plain.cut, plain.original(plain.cut)[:_SHOWN], "cut")


def _tokens(lines: Iterable[ArticleLine]) -> Iterator[Token]:
    """Yield the tokens of lines, with a separator where a line does not go on in the next."""
    before = 0
    for line in lines:
        if before and not line.continues:
            yield Token("separator", "\n", before)
        yield from tokens(without_remarks(line.text), line.number)
        before = line.number


def _without(
    lines: Sequence[ArticleLine], printed: Iterable[Printout], forms: Container[str]
) -> list[ArticleLine]:
    """Return lines in which printouts of some forms are empty."""
    ranges = [printout.lines for printout in printed if printout.form in forms]
    numbers = set(chain.from_iterable(ranges))
    return [line._replace(text="") if line.number in numbers else line for line in lines]


def _table_lines(lines: Iterable[ArticleLine]) -> list[ArticleLine]:
    """Return lines in which sentences with an equality are empty: they are not rows of a table."""
    kept = []
    for line in lines:
        is_sentence = _RELATION.search(line.text) and not _CELLS.search(line.text)
        kept.append(line._replace(text="") if is_sentence else line)
    return kept


_RELATION = re.compile("[=≈]")
_CELLS = re.compile(r"[|\t]")


def _largest_total(
    total: Total | None,
    restored: Iterable[RestoredCalculation],
    plain: PlainArticle,
    sizes: Sizes,
) -> Total | None:
    """Return the article's total: the largest calculation that was put back, if it is larger."""
    stated = [calculation for calculation in restored if calculation.is_stated]
    if not stated:
        return total
    largest = max(stated, key=lambda calculation: calculation.value)
    if total and total.stated >= largest.value:
        return total
    value, text = Fraction(largest.value), plain.original(largest.line).strip()
    return Total(largest.line, text, value, value, sizes.fields, called=True)


def _recognised_total(
    total: Total | None,
    numbers: Iterable[NumberVerdict],
    plain: PlainArticle,
    known: KnownSizes,
) -> Total | None:
    """Return the article's total: the last count of the whole model, if nothing is called a total.

    It may stand in a table, in the output of code or alone in a sentence. Without one, it is the
    largest sum of a table, if that is larger.
    """
    if total and (total.called or total.stated in known.totals):
        return total
    whole = None
    for verdict in numbers:
        if verdict.verdict not in (RIGHT, KNOWN):
            continue
        value = _value_of(verdict.text)
        is_whole = value in known.totals
        largest = total.stated if total else 0
        if is_whole or (verdict.reason == "table_sum" and value > largest):
            line = verdict.at.line
            text = plain.original(line).strip()[:LONGEST_SHOWN]
            is_right = verdict.verdict == RIGHT
            total = Total(line, text, value, value, known.fields, called=True, checked=is_right)
        if is_whole:
            whole = total
    return whole or total


def _without_slips(unread: Iterable[Unread], slips: Iterable[Slip]) -> Iterator[Unread]:
    """Yield what was not read, without calculations that a table has found wrong already."""
    stated = [(slip.line, slip.stated) for slip in slips]
    for item in unread:
        if item.why != "table" or not any(
            line == item.line and number in item.text for line, number in stated
        ):
            yield item


def _checked_total(total: Total | None, numbers: Iterable[NumberVerdict]) -> Total | None:
    """Return the total, as checked if the rows of a table or of a printout give it."""
    if total is None or total.checked:
        return total
    given = any(
        verdict.verdict == RIGHT
        and verdict.at.line == total.line
        and _value_of(verdict.text) == total.stated
        for verdict in numbers
    )
    return total._replace(checked=given)


def _value_of(text: str) -> Fraction:
    """Return the value of a number as it is written; 0 if it has none."""
    for token in tokens(text, 0):
        if token.number:
            return token.number.value
    return Fraction(0)


# Sizes

_BLOCKS = (SUMMARY, TREE, LISTING)
"""The forms of printouts that have lines of their own."""


def _sizes(lines: Sequence[ArticleLine], printed: Sequence[Printout]) -> Sizes:
    """Return the sizes that an article states, in words and in the shapes that it prints.

    The columns of a summary, such as the number of parameters, are not sizes.
    """
    sizes = stated_sizes(_without(lines, printed, (SUMMARY,)))
    for printout in printed:
        for field, size in printout.sizes.items():
            sizes.fields.setdefault(field, size)
    return sizes


def _known(sizes: Sizes, listed: Mapping[str, Fraction], settled: Iterable[Stretch]) -> KnownSizes:
    """Return the numbers of an article's letters, and what letters and words may stand for."""
    assumed: dict[str, list[Fraction]] = {}
    for field, names in terms.facts()["sizes"].items():
        values = _values_of(field, sizes)
        for name in (*names.get("letters", ()), *names.get("words", ())):
            if values and sizes.letters.get(name, field) == field:
                assumed.setdefault(name, []).extend(values)
    for letter, field in sizes.letters.items():
        assumed[letter] = _values_of(field, sizes)
    foreign = frozenset(size.at for size in sizes.found if not size.own)
    given = {**sizes.values, **listed}
    return KnownSizes(given, assumed, sizes.fields, foreign, frozenset(settled))


def _values_of(field: str, sizes: Sizes) -> list[Fraction]:
    """Return the values of a config field, of the article's own model first."""
    tables = [sizes.fields, *sizes.of_model.values()]
    values = [Fraction(table[field]) for table in tables if field in table]
    return list(dict.fromkeys(values))


def _sizes_as_verdicts(sizes: Sizes) -> Iterator[NumberVerdict]:
    for size in sizes.found:
        if size.own:
            yield NumberVerdict(size.at, str(size.value), SIZE, "size", {"field": size.field})
        else:
            values = {"field": size.field, "model": size.model}
            yield NumberVerdict(size.at, str(size.value), KNOWN, "other_size", values)


def _formulas_as_verdicts(findings: Findings, recognise: Recognition) -> Iterator[NumberVerdict]:
    """Yield the numbers in formulas that give what a part of the model has."""
    for formula in findings.formulas:
        part = recognise.part_with(formula.value)
        if part:
            for number in formula.numbers:
                if number.at:
                    values = {"part": part}
                    yield NumberVerdict(number.at, number.text, KNOWN, "formula_of", values)


# Slips


def _slips_in_words(words: Iterable[WordSlip], plain: PlainArticle) -> Iterator[Slip]:
    for word in words:
        if word.rank == SLIP_IN_WORDS:
            number, start, end = word.at
            text = plain.lines[number - 1].text[start:end]
            slip = Slip("words", number, plain.original(number).strip(), text.strip(), "")
            slip.about = word.kind
            yield slip


def _at_source_lines(findings: Findings, plain: PlainArticle) -> Findings:
    """Return findings with the lines of the source in place of the lines of a page."""
    if not plain.source_lines:
        return findings
    for slip in findings.slips:
        slip.line = plain.source_line(slip.line)
        slip.follows = [
            follow._replace(line=plain.source_line(follow.line)) for follow in slip.follows
        ]
    unread = [item._replace(line=plain.source_line(item.line)) for item in findings.unread]
    total = findings.total
    if total:
        total = total._replace(line=plain.source_line(total.line))
    return findings._replace(unread=tuple(unread), total=total)
