"""An audit: the mistakes in an article that derives a count."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from weighbridge.answers.answer import Answer
from weighbridge.answers.audit_report import audit_document
from weighbridge.answers.audit_words import AuditWords
from weighbridge.answers.reconcile import Reconciled, reconcile
from weighbridge.articles import examine
from weighbridge.articles.sizes.ranks import stated_ranks
from weighbridge.articles.text.lines import KNOWN, UNREAD
from weighbridge.articles.text.source import Source, decoded, read_article
from weighbridge.articles.verdicts import counts_of
from weighbridge.errors import ArticleError, UsageError, WeighbridgeError, printable
from weighbridge.ledger.ledger import bind

if TYPE_CHECKING:
    import os
    from fractions import Fraction

    from weighbridge.articles.arithmetic.checks import Total
    from weighbridge.articles.arithmetic.figures import Slip
    from weighbridge.articles.claims import WordSlip
    from weighbridge.articles.examination import Examination
    from weighbridge.articles.sizes.subject import ArticleModel
    from weighbridge.articles.text.lines import NumberVerdict
    from weighbridge.articles.text.restoration import RestoredCalculation
    from weighbridge.render.document import Document

LEAST_TOTAL = 10**6  # smaller numbers are not the total of a model


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
        if self.checked:
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

    @property
    def model_total(self) -> Total | None:
        """The article's total, if it may be that of a model."""
        if self.total and self.total.mended >= LEAST_TOTAL:
            return self.total
        return None

    @cached_property
    def counts(self) -> Reconciled | None:
        """What the corrected total counts in that model; None without a model or a total."""
        total = self.model_total
        if total is None or self.model is None or total.mended.denominator > 1:
            return None
        model = self.model.model
        try:
            counts = reconcile(model.config, int(total.mended))
        except WeighbridgeError:  # the total is out of range
            return None
        ranks = stated_ranks("\n".join(line.text for line in self.examination.plain.lines))
        return counts.of_ranks(ranks) if ranks else counts

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
        """Return the slips, what was not read, the total, a count of numbers, and the article.

        A terminal leaves out the article, in which each number is marked.
        """
        return audit_document(self, AuditWords(lang))


def _slip_to_dict(slip: Slip) -> dict[str, Any]:
    follows = [{**follow._asdict(), "shift": _json_number(follow.shift)} for follow in slip.follows]
    correct = slip.correct
    if slip.kind == "words":
        correct = AuditWords("en").claim(slip.about)
    return {
        "line": slip.line,
        "text": slip.text,
        "kind": slip.kind,
        "about": slip.about,
        "stated": slip.stated,
        "correct": correct,
        "mended": slip.mended or correct,
        "shift": _json_number(slip.shift),
        "follows": follows,
    }


def _json_number(value: Fraction | None) -> int | float | None:
    """Return a fraction as a JSON number, an integer if it is whole."""
    if value is None:
        return None
    if value.denominator == 1:
        return int(value)
    return float(value)
