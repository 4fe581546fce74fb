"""An audit: the mistakes in an article that derives a count."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from weighbridge import data, units
from weighbridge.answers.answer import Answer
from weighbridge.answers.reconcile import Reconciled, reconcile, verdict
from weighbridge.articles import examine
from weighbridge.articles.source import Source, decoded, read_article
from weighbridge.blueprint.schema import load
from weighbridge.errors import ArticleError, UsageError, WeighbridgeError, printable, shorten
from weighbridge.render.document import NOTHING, Document, Notes, Together
from weighbridge.render.words import label, words

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator
    from fractions import Fraction

    from weighbridge.articles.checks import Findings
    from weighbridge.articles.figures import Follow, Slip

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

    def __init__(self, source: Source, findings: Findings) -> None:
        self.source = source
        self.slips, self.unread, self.checked, self.total = findings
        if not (self.checked or self.unread or self.slips):
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

    @cached_property
    def counts(self) -> Reconciled | None:
        """What the corrected total counts in a BERT of the article's sizes; None without sizes."""
        total = self.total
        if total is None or total.mended.denominator > 1 or total.mended < 1:
            return None
        fields = {name: size for name, size in total.sizes.items() if name in load("bert").fields}
        if not fields:
            return None
        try:
            return reconcile("bert", int(total.mended), fields=fields)
        except WeighbridgeError:  # the sizes fit no model, or the total is out of range
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
            "counts": counts,
            "total": total,
        }

    def document(self, lang: str = "en") -> Document:
        """Return the slips with their lines, the unread lines, and the total."""
        texts = AuditWords(lang)
        heading = Notes(tuple(self._heading(texts)))
        slips = [_slip_block(slip, texts) for slip in self.slips[:MOST_LINES]]
        more, unread = texts.more(len(self.slips)), self._unread(texts)
        total = Notes(tuple(self._total(texts)))
        return Document((heading, *slips, Notes(more), *unread, total), lang)

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

    def _unread(self, texts: AuditWords) -> tuple[Together, ...]:
        if not self.unread:
            return ()
        lines = []
        for item in self.unread[:MOST_LINES]:
            why, text = texts.why(item.why, shorten(item.about, str)), _shortened(item.text)
            lines.append(texts("unread_line", line=item.line, text=text, why=why))
        lines += texts.more(len(self.unread))
        return (Together((Notes((texts("unread"),)), Notes(tuple(lines), level=1))),)

    def _total(self, texts: AuditWords) -> Iterator[str]:
        total = self.total
        if total is None:
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
        if total.sizes:
            sizes = []
            for field, value in total.sizes.items():
                sizes.append(texts("size", field=field, value=units.count(value)))
            yield texts("sizes", sizes=texts("and").join(sizes))
        if self.counts:
            key = "counts_nothing"
            if self.counts.matches:
                key = "counts"
            yield texts(key, verdict=verdict(self.counts, texts.lang))


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
    facts = [texts.kind(slip.kind, about=label(slip.about, texts.lang), **values)]
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
