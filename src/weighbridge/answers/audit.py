"""An audit: the mistakes in an article that derives a count."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from weighbridge import data, units
from weighbridge.answers.answer import Answer
from weighbridge.answers.reconcile import Reconciled, ReconcileWords, reconcile, verdict
from weighbridge.articles import examine
from weighbridge.articles.lines import KNOWN, UNREAD, VERDICTS
from weighbridge.articles.places import placed_numbers
from weighbridge.articles.source import Source, decoded, read_article
from weighbridge.articles.subject import NAMED
from weighbridge.articles.verdicts import counts_of
from weighbridge.counting.parts import PartName
from weighbridge.counting.published import KnownClaim
from weighbridge.counting.reconciliation import Way
from weighbridge.errors import ArticleError, UsageError, WeighbridgeError, printable, shorten
from weighbridge.ledger.ledger import bind
from weighbridge.render.document import NOTHING, Annotated, Document, Notes, Piece, Together
from weighbridge.render.words import label, words

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence
    from fractions import Fraction

    from weighbridge.articles.claims import WordSlip
    from weighbridge.articles.examination import Examination
    from weighbridge.articles.figures import Follow, Slip
    from weighbridge.articles.lines import NumberVerdict
    from weighbridge.articles.places import PlacedNumber
    from weighbridge.articles.restoration import RestoredCalculation
    from weighbridge.articles.subject import ArticleModel
    from weighbridge.render.document import Block

LEAST_TOTAL = 10**6  # smaller numbers are not the total of a model
MOST_LINES = 40  # slips, consequences or unread pieces that a text lists
_LONGEST = 300  # characters of a line of the article that a text shows


def audit(article: str | os.PathLike[str] | None = None, *, text: str | None = None) -> Audit:
    """Check the arithmetic of an article that derives a count of parameters, in English or Chinese.

    It finds equalities in prose, LaTeX and tables, replaces letters by the values that the article
    states, checks each step exactly, and lists the figures that depend on each slip. It runs no
    code from the article.

    Args:
        article: the path of a text, Markdown or HTML file, the address of a page, or ``"-"`` for
            standard input.
        text: the article itself, instead of a path.

    Raises:
        ArticleError: the article is not text, is too long, or has no arithmetic.
        CheckpointError: there is no such file, or it cannot be read.
        UsageError: neither or both of ``article`` and ``text`` are given.

    Example:
        >>> article = "H = 768. The layer has 4H² = 2,359,296. Tokens: 30522×768 = 23,449,856."
        >>> [(slip.stated, slip.correct) for slip in audit(text=article).slips]
        [('23,449,856', '23,440,896')]
    """
    if (article is None) == (text is None):
        raise UsageError("audit takes one article", hint="give a path, an address or text=")
    if text is not None and not isinstance(text, str):
        raise UsageError(
            "text= must be the article itself", values={"found": text}, hint="give a str"
        )
    if text is not None:
        source = decoded(text.encode(errors="replace"), "the text")
        return Audit(source, examine(source))
    source = read_article(article)  # type: ignore[arg-type]
    return Audit(source, examine(source))


class Audit(Answer):
    """What `audit` returns.

    ``slips`` are the wrong steps, each with its line, the stated and the correct number. ``unread``
    lists text that looks like arithmetic but could not be checked; ``checked`` is the number of
    steps that were checked.
    """

    def __init__(self, source: Source, examination: Examination) -> None:
        self.source = source
        self.examination = examination
        findings = examination.findings
        self.slips, self.unread = findings.slips, findings.unread
        self.total, self.numbers = findings.total, examination.numbers
        self.checked = findings.checked
        self.remarks, self.restored = examination.remarks, examination.restored
        has_unread = any(number.verdict == UNREAD for number in self.numbers)
        if not (self.checked or self.unread or has_unread or self.slips or self.remarks):
            raise ArticleError(
                "contains no arithmetic to check",
                where=printable(source.where),
                hint="give an article with results of calculations, such as 30522×768 = 23,440,896",
            )

    @property
    def status(self) -> int:
        """0 if no slip was found, 1 if there is one, 2 if nothing could be checked."""
        if self.slips:
            return 1
        if self.checked or self.remarks:
            return 0
        return 2

    @property
    def model(self) -> ArticleModel | None:
        """The model that the article is about, with its sizes; None if it is not known."""
        return self.examination.model

    @cached_property
    def parameters(self) -> int | None:
        """The number of parameters of that model, of the class that the article is about."""
        if self.model is None:
            return None
        model = self.model.model
        return bind(model.blueprint, self.model.class_name, model.fields).parameters

    @cached_property
    def counts(self) -> Reconciled | None:
        """What the corrected total counts in that model; None without a model or a total."""
        total = self.total
        if total is None or self.model is None or total.mended.denominator > 1:
            return None
        if total.mended < LEAST_TOTAL:
            return None
        model = self.model.model
        try:
            return reconcile(model.config, int(total.mended))
        except WeighbridgeError:  # the total is out of range
            return None

    def to_dict(self) -> dict[str, Any]:
        """Return everything, ready for JSON."""
        total, counts = None, None
        if self.total:
            total = self.total._asdict()
            total["stated"] = _json_number(self.total.stated)
            total["mended"] = _json_number(self.total.mended)
        if self.counts:
            counts = self.counts.to_dict()
        return {
            "article": self.source.where,
            "encoding": self.source.encoding,
            "status": self.status,
            "checked": self.checked,
            "slips": list(map(_slip_to_dict, self.slips)),
            "unread": [item._asdict() for item in self.unread],
            "numbers": [self._number_to_dict(number) for number in self.numbers],
            "recognised": [
                self._number_to_dict(number) for number in self.numbers if number.verdict == KNOWN
            ],
            "verdicts": counts_of(self.numbers),
            "remarks": [self._remark_to_dict(remark) for remark in self.remarks],
            "restored": [self._restored_to_dict(calculation) for calculation in self.restored],
            "model": self._model_to_dict(),
            "counts": counts,
            "total": total,
        }

    def _remark_to_dict(self, remark: WordSlip) -> dict[str, Any]:
        return {
            "line": self.examination.plain.source_line(remark.at.line),
            "text": self.examination.plain.stretch(remark.at),
            "kind": remark.kind,
            "because": AuditWords("en").claim(remark.kind),
        }

    def _restored_to_dict(self, calculation: RestoredCalculation) -> dict[str, Any]:
        return {
            "line": self.examination.plain.source_line(calculation.line),
            "calculation": calculation.text,
            "value": calculation.value,
            "part": calculation.part.text() if calculation.part else None,
        }

    def _model_to_dict(self) -> dict[str, Any] | None:
        if self.model is None:
            return None
        return {
            "name": self.model.name,
            "how": self.model.how,
            "release": self.model.release or None,
            "model_type": self.model.family,
            "class": self.model.class_name,
            "parameters": self.parameters,
            "sizes": self.examination.sizes.fields,
        }

    def _number_to_dict(self, number: NumberVerdict) -> dict[str, Any]:
        line = self.examination.plain.source_line(number.at.line)
        return {
            "line": line,
            "text": number.text,
            "verdict": number.verdict,
            "reason": number.reason,
            "because": AuditWords("en").reason(number),
        }

    def document(self, lang: str = "en") -> Document:
        """Return the slips with their lines, the unread lines, the total, and a count of numbers.

        It ends with the article itself, with a mark for each number; a terminal leaves that out.
        """
        texts = AuditWords(lang)
        heading = Notes(tuple(self._heading(texts)))
        slips = [_slip_block(slip, texts) for slip in self.slips[:MOST_LINES]]
        more, unread = texts.more(len(self.slips)), self._unread(texts)
        total = Notes(tuple(self._total(texts)))
        counts = Notes((texts.counts(self.numbers),))
        others = (*self._remarks(texts), *self._restored(texts), *unread)
        report: list[Block] = [heading, *slips, Notes(more), *others, total, counts]
        return Document((*report, self._marked(texts)), lang)

    def _marked(self, texts: AuditWords) -> Annotated:
        """Return the article with its numbers marked."""
        plain = self.examination.plain
        placed = placed_numbers(plain, self.numbers)
        lines = []
        for number, original in enumerate(plain.originals, start=1):
            lines.append(tuple(_pieces(original, placed.get(number, ()), texts)))
        return Annotated(tuple(lines), texts.legend())

    def _heading(self, texts: AuditWords) -> Iterator[str]:
        key = "heading"
        if self.source.encoding != "utf-8":
            key = "read_as"
        yield texts(key, where=printable(self.source.where), encoding=self.source.encoding)
        checked = texts.count("step", self.checked)
        if self.slips:
            yield texts("some", slips=texts.count("slip", len(self.slips)), checked=checked)
        elif self.checked:
            yield texts("none", checked=checked)
        else:
            yield texts("nothing")

    def _remarks(self, texts: AuditWords) -> tuple[Together, ...]:
        """Return statements that are misleading, but not wrong."""
        lines = []
        for remark in self.remarks:
            line = self.examination.plain.source_line(remark.at.line)
            stated = self.examination.plain.stretch(remark.at)
            lines.append(texts("remark", line=line, text=stated, says=texts.claim(remark.kind)))
        return _under(texts("remarks"), lines, texts)

    def _restored(self, texts: AuditWords) -> tuple[Together, ...]:
        """Return the calculations whose operators were put back."""
        lines = []
        for calculation in self.restored:
            key, part = "read_calculation", ""
            if calculation.part:
                key, part = "read_part", calculation.part.text(texts.lang)
            line = self.examination.plain.source_line(calculation.line)
            value = units.count(calculation.value)
            lines.append(texts(key, line=line, text=calculation.text, value=value, part=part))
        return _under(texts("restored"), lines, texts)

    def _unread(self, texts: AuditWords) -> tuple[Together, ...]:
        lines = []
        for item in self.unread[:MOST_LINES]:
            why, text = texts.why(item.why, shorten(item.about, str)), _shortened(item.text)
            lines.append(texts("unread_line", line=item.line, text=text, why=why))
        return _under(texts("unread"), lines, texts, len(self.unread))

    def _about(self, texts: AuditWords) -> Iterator[str]:
        """Yield the model of the article, and the sizes that it states."""
        fields = self.examination.sizes.fields
        if fields:
            sizes = []
            for field, value in fields.items():
                sizes.append(texts("size", field=field, value=units.count(value)))
            yield texts("sizes", sizes=texts("and").join(sizes))
        if self.model and self.parameters:
            key = "about_guessed"
            if self.model.how == NAMED:
                key = "about"
            name = self.model.release or self.model.family
            names = {"class": self.model.class_name, "name": name}
            yield texts(key, parameters=units.count(self.parameters), **names)

    def _total(self, texts: AuditWords) -> Iterator[str]:
        yield from self._about(texts)
        total = self.total
        if total is None or total.mended < LEAST_TOTAL:
            return
        key = "largest"
        if total.called:
            key = "total"
        yield texts(key, stated=_exactly(total.stated), line=total.line)
        if total.stated == total.mended:
            yield texts("total_right")
        else:
            shift = _with_sign(total.stated - total.mended)
            yield texts("total_mended", mended=_exactly(total.mended), shift=shift)
        if self.counts:
            key = "counts_nothing"
            if self.counts.matches:
                key = "counts"
            yield texts(key, verdict=verdict(self.counts, texts.lang))


def _under(
    heading: str, lines: Sequence[str], texts: AuditWords, count: int = 0
) -> tuple[Together, ...]:
    """Return lines under a heading, and how many more there are; nothing without lines."""
    if not lines:
        return ()
    items = (*lines[:MOST_LINES], *texts.more(count or len(lines)))
    return (Together((Notes((heading,)), Notes(items, level=1))),)


def _pieces(original: str, numbers: Sequence[PlacedNumber], texts: AuditWords) -> Iterator[Piece]:
    """Yield the pieces of a line: its numbers with their marks, and what is between them."""
    position = 0
    for start, end, number in numbers:
        yield Piece(original[position:start])
        name = texts.verdict(number.verdict)
        yield Piece(original[start:end], number.verdict, f"{name}: {texts.reason(number)}")
        position = end
    yield Piece(original[position:])


def _slip_to_dict(slip: Slip) -> dict[str, Any]:
    follows = [{**follow._asdict(), "shift": _json_number(follow.shift)} for follow in slip.follows]
    return {
        "line": slip.line,
        "text": slip.text,
        "kind": slip.kind,
        "about": slip.about,
        "stated": slip.stated,
        "correct": slip.correct,
        "mended": slip.mended,
        "shift": _json_number(slip.shift),
        "follows": follows,
    }


def _slip_block(slip: Slip, texts: AuditWords) -> Together:
    """Return a slip: its line, the mistake, and the figures that depend on it."""
    line = Notes((texts("line", line=slip.line, text=_shortened(slip.text)),))
    values = {"stated": slip.stated, "correct": slip.correct, "mended": slip.mended}
    facts = (
        [texts.claim(slip.about)]
        if slip.kind == "words"
        else [texts.kind(slip.kind, about=label(slip.about, texts.lang), **values)]
    )
    if slip.shift is not None:
        facts.append(texts("shift", shift=_with_sign(slip.shift)))
    if slip.kind == "arithmetic" and slip.mended not in (slip.correct, ""):
        facts.append(texts("mended", mended=slip.mended))
    follows = NOTHING
    if slip.follows:
        facts.append(texts("follows"))
        lines = [_follow(follow, texts) for follow in slip.follows[:MOST_LINES]]
        follows = Notes((*lines, *texts.more(len(slip.follows))), level=2)
    return Together((line, Notes(tuple(facts), level=1), follows))


def _follow(follow: Follow, texts: AuditWords) -> str:
    share = ""
    if follow.shift is not None:
        share = _with_sign(follow.shift)
    values = {"stated": follow.stated, "share": share, "mended": follow.mended}
    return texts("follow", line=follow.line, **values)


def _shortened(text: str) -> str:
    return shorten(text, str, _LONGEST)


def _json_number(value: Fraction | None) -> int | float | None:
    """Return a fraction as a JSON number, an integer if it is whole."""
    if value is None:
        return None
    if value.denominator == 1:
        return int(value)
    return float(value)


def _exactly(value: Fraction) -> str:
    return units.number(_json_number(value) or 0)


def _with_sign(value: Fraction) -> str:
    sign = "-"
    if value > 0:
        sign = "+"
    return f"{sign}{_exactly(abs(value))}"


class AuditWords:
    """The words of an audit in one language."""

    def __init__(self, lang: str) -> None:
        self.lang = lang
        words(lang)  # refuses an unknown language
        self._texts: dict[str, Any] = data.read_toml(f"words/audit.{lang}.toml")

    def __call__(self, key: str, /, **values: object) -> str:
        """Return a text with values in its braces."""
        text: str = self._texts[key]
        return text.format(**values)

    def kind(self, kind: str, **values: str) -> str:
        """Describe the mistake."""
        text: str = self._texts["kinds"][kind]
        return text.format(**values)

    def reason(self, number: NumberVerdict) -> str:
        """Say why a number has its verdict."""
        values = {name: self._value(value) for name, value in number.values.items()}
        text: str = self._texts["reasons"].get(number.reason) or self._texts["why"][number.reason]
        return text.format(**values)

    def _value(self, value: object) -> str:
        """Write a value of a reason in words."""
        if isinstance(value, PartName):
            return value.text(self.lang)
        if isinstance(value, Way):
            return ReconcileWords(self.lang).way(value)
        if isinstance(value, KnownClaim):
            return value.says[self.lang]
        return shorten(value, str)

    def verdict(self, verdict: str) -> str:
        """Return the name of a verdict."""
        text: str = self._texts["one_verdict"][verdict]
        return text

    def legend(self) -> dict[str, str]:
        """Return the name of each verdict."""
        return {verdict: self.verdict(verdict) for verdict in VERDICTS}

    def counts(self, numbers: Sequence[NumberVerdict]) -> str:
        """Return how many numbers there are, and how many have each verdict."""
        counts = []
        for key, number in counts_of(numbers).items():
            if number:
                name = self._texts["verdicts"][key]
                counts.append(self("verdict_count", count=units.count(number), verdict=name))
        total = self.count("number", len(numbers))
        return self("numbers", numbers=total, counts=self("and").join(counts))

    def claim(self, kind: str) -> str:
        """Say what is right in place of a statement in words."""
        text: str = self._texts["claims"][kind]
        return text

    def why(self, why: str, about: str) -> str:
        """Return the reason why something was not read."""
        text: str = self._texts["why"][why]
        return text.format(about=about)

    def count(self, noun: str, number: int) -> str:
        """Return a number of things."""
        form = "many"
        if number == 1:
            form = "one"
        text: str = self._texts[form][noun]
        return text.format(count=units.count(number))

    def more(self, number: int) -> tuple[str, ...]:
        """Return the number of items that a list leaves out, if any, in words."""
        if number <= MOST_LINES:
            return ()
        return (self("more", count=units.count(number - MOST_LINES)),)
