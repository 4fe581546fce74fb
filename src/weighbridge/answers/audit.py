"""An audit: what is wrong in an article that derives a count, and the ways to show it."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from weighbridge import data, units
from weighbridge.answers.reconcile import Reconciled, reconcile, verdict
from weighbridge.articles import examine
from weighbridge.articles.source import Source, decoded, read
from weighbridge.blueprint.schema import load
from weighbridge.errors import ArticleError, UsageError, WeighbridgeError, printable, shorten
from weighbridge.render.table import wrap
from weighbridge.render.words import label, words

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator
    from fractions import Fraction

    from weighbridge.articles.checks import Findings
    from weighbridge.articles.figures import Slip
    from weighbridge.articles.grammar import Unread

MOST_LINES = 40  # slips, figures that follow, or pieces not read, that a text lists
_LONGEST = 300  # characters of an article's line that a text shows


def audit(article: str | os.PathLike[str] | None = None, *, text: str | None = None) -> Audit:
    """Check the arithmetic of an article that derives a count of parameters, in English or Chinese.

    It finds what is said to equal what, among words, in LaTeX and in tables; takes letters for what
    the article says that they are; checks each step exactly; and follows every slip to the figures
    that rest on it. Nothing in an article is run.

    Args:
        article: the path of a text, Markdown or HTML file, the address of a page, or ``"-"`` for
            standard input.
        text: the article itself, in place of a path.

    Raises:
        ArticleError: it is no text, is too long, or has no arithmetic.
        CheckpointError: there is no such file, or it cannot be had.
        UsageError: neither or both of the two are given.

    Example:
        >>> found = audit(text="H = 768. The layer has 4H² = 2,359,296. Tokens: 30522×768 = 23,449,856.")
        >>> [(slip.stated, slip.correct) for slip in found.slips]
        [('23,449,856', '23,440,896')]
    """
    if (article is None) == (text is None):
        raise UsageError("an audit is of one article", hint="give a path or an address, or text=")
    if text is not None and not isinstance(text, str):
        raise UsageError(
            "text= takes the article itself", values={"found": text}, hint="give a str"
        )
    if text is not None:
        source = decoded(text.encode(errors="replace"), "the text")
        return Audit(source, examine(source))
    source = read(article)  # type: ignore[arg-type]
    return Audit(source, examine(source))


class Audit:
    """What `audit` returns.

    ``slips`` are the steps that are wrong, each with its line, what is stated and what is right;
    ``unread`` what looks like arithmetic and could not be checked, ``checked`` how many steps were.
    """

    def __init__(self, source: Source, found: Findings) -> None:
        self.source, self.found = source, found
        self.slips, self.unread, self.checked, self.total = found
        if not (self.checked or self.unread or self.slips):
            raise ArticleError(
                "there is no arithmetic in it to check",
                where=printable(source.where),
                hint="give an article that says what something comes to, such as 30522×768 = 23,440,896",
            )

    def __repr__(self) -> str:
        return self.text()

    @property
    def status(self) -> int:
        """0 if no slip was found, 1 if there is one, 2 if nothing could be checked: the exit status of the command."""
        return 1 if self.slips else 0 if self.checked else 2

    @cached_property
    def counts(self) -> Reconciled | None:
        """What the total, its slips mended, counts of a BERT of the sizes that the article gives; None without such."""
        total = self.total
        if total is None or total.mended.denominator > 1 or total.mended < 1:
            return None
        fields = {name: size for name, size in total.sizes.items() if name in load("bert").fields}
        if not fields:
            return None
        try:
            return reconcile("bert", int(total.mended), fields=fields)
        except WeighbridgeError:  # sizes that make no model, or a number that is none
            return None

    def to_dict(self) -> dict[str, Any]:
        """Return everything, ready for JSON."""
        total = self.total
        return {
            "article": self.source.where,
            "encoding": self.source.encoding,
            "status": self.status,
            "checked": self.checked,
            "slips": [
                {
                    "line": slip.line,
                    "text": slip.text,
                    "kind": slip.kind,
                    "about": slip.about,
                    "stated": slip.stated,
                    "correct": slip.correct,
                    "mended": slip.mended,
                    "shift": _plain(slip.shift),
                    "follows": [
                        {**follow._asdict(), "shift": _plain(follow.shift)}
                        for follow in slip.follows
                    ],
                }
                for slip in self.slips
            ],
            "unread": [item._asdict() for item in self.unread],
            "counts": self.counts.to_dict() if self.counts else None,
            "total": total
            and {**total._asdict(), "stated": _plain(total.stated), "mended": _plain(total.mended)},
        }

    def text(self, lang: str = "en") -> str:
        """Write the audit for a terminal: the article's lines with what is wrong, what was not read, the total."""
        said = _Words(lang)
        blocks = [
            "\n".join(map(wrap, self._heading(said))),
            *("\n".join(_slip(slip, said)) for slip in self.slips[:MOST_LINES]),
            said.more(len(self.slips)),
            "\n".join(self._unread(said)),
            "\n".join(map(wrap, self._total(said))),
        ]
        return "\n\n".join(block for block in blocks if block)

    def _heading(self, said: _Words) -> Iterator[str]:
        known = {"where": printable(self.source.where), "encoding": self.source.encoding}
        yield said("heading" if self.source.encoding == "utf-8" else "read_as", **known)
        checked = said.count("step", self.checked)
        if self.slips:
            yield said("some", slips=said.count("slip", len(self.slips)), checked=checked)
        else:
            yield said("none", checked=checked) if self.checked else said("nothing")

    def _unread(self, said: _Words) -> Iterator[str]:
        if not self.unread:
            return
        yield wrap(said("unread"))
        yield from (_indented(_not_read(item, said)) for item in self.unread[:MOST_LINES])
        if more := said.more(len(self.unread)):
            yield f"  {more}"

    def _total(self, said: _Words) -> Iterator[str]:
        total = self.total
        if total is None:
            return
        yield said(
            "total" if total.called else "largest", stated=_number(total.stated), line=total.line
        )
        if total.stated == total.mended:
            yield said("total_right")
        else:
            yield said(
                "total_mended",
                mended=_number(total.mended),
                shift=_signed(total.stated - total.mended),
            )
        if total.sizes:
            sizes = (
                said("size", field=field, value=units.count(value))
                for field, value in total.sizes.items()
            )
            yield said("sizes", sizes=said("and").join(sizes))
        if self.counts:
            yield said(
                "counts" if self.counts.matches else "counts_nothing",
                verdict=verdict(self.counts, said.lang),
            )


def _slip(slip: Slip, said: _Words) -> Iterator[str]:
    yield wrap(said("line", line=slip.line, text=shorten(slip.text, str, _LONGEST)))
    values = {"stated": slip.stated, "correct": slip.correct, "mended": slip.mended}
    yield _indented(said.kind(slip.kind, about=label(slip.about, said.lang), **values))
    if slip.shift is not None:
        yield _indented(said("shift", shift=_signed(slip.shift)))
    if slip.kind == "arithmetic" and slip.mended not in (slip.correct, ""):
        yield _indented(said("mended", mended=slip.mended))
    if slip.follows:
        yield _indented(said("follows"))
        for follow in slip.follows[:MOST_LINES]:
            share = _signed(follow.shift) if follow.shift is not None else ""
            told = said(
                "follow", line=follow.line, stated=follow.stated, share=share, mended=follow.mended
            )
            yield _indented(told, "    ")
        if more := said.more(len(slip.follows)):
            yield f"    {more}"


def _not_read(item: Unread, said: _Words) -> str:
    why = said.why(item.why, shorten(item.about, str))
    return said("unread_line", line=item.line, text=shorten(item.text, str, _LONGEST), why=why)


def _indented(line: str, indent: str = "  ") -> str:
    return wrap(f"{indent}{line}", indent=f"{indent}  ")


def _plain(value: Fraction | None) -> int | float | None:
    return None if value is None else int(value) if value.denominator == 1 else float(value)


def _number(value: Fraction) -> str:
    return units.number(_plain(value) or 0)


def _signed(value: Fraction) -> str:
    return f"{'+' if value > 0 else '-'}{_number(abs(value))}"


class _Words:
    """The words of an audit in one language."""

    def __init__(self, lang: str) -> None:
        self.lang = lang
        words(lang)  # refuses a language that is not spoken
        self._said: dict[str, Any] = data.read_toml(f"words/audit.{lang}.toml")

    def __call__(self, key: str, /, **values: object) -> str:
        """Return a text with its braces filled in."""
        found: str = self._said[key]
        return found.format(**values)

    def kind(self, kind: str, **values: str) -> str:
        """Say what is wrong."""
        found: str = self._said["kinds"][kind]
        return found.format(**values)

    def why(self, why: str, about: str) -> str:
        """Say why something was not read."""
        found: str = self._said["why"][why]
        return found.format(about=about)

    def count(self, noun: str, number: int) -> str:
        """Return a number of things."""
        found: str = self._said["one" if number == 1 else "many"][noun]
        return found.format(count=units.count(number))

    def more(self, number: int) -> str:
        """Say how many are left out of a list; nothing where none is."""
        return self("more", count=units.count(number - MOST_LINES)) if number > MOST_LINES else ""
