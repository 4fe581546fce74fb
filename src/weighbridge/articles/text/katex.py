r"""Tells what a page made with KaTeX shows for LaTeX, as the text that a browser copies.

``d_k^2 \times \text{heads}`` is shown as ``dk2×heads``. Texts are compared without blanks and
invisible signs, and with one sign for all that look alike (`compared_sign`).
`facts/katex.toml` has the text of each command.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge import data

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST_FORMULA_COPIED = 400
"""The longest source, and the longest text that shows it, in characters. Known articles have up
to 110."""
_LONGEST_COMMAND = 20  # letters
_MOST_DEPTH = 20  # groups inside groups

_ALIKE = {
    "⋅": "·", "∙": "·", "•": "·", "−": "-", "–": "-", "∗": "*", "′": "'", "’": "'", "∣": "|",
    "⋯": "...", "≠": "=",
}  # fmt: skip
_UNSEEN = frozenset("√⏟⏞‾~∼&")  # drawn in one of the copies and missing in another
_UNSEEN_KINDS = ("Zs", "Cc", "Cf", "Co", "Mn")  # blanks, controls, private signs, accents


@cache
def compared_sign(character: str) -> str:
    """Return the sign as which a character is compared; "" for one that is left out.

    Example:
        >>> compared_sign("−"), compared_sign("Ｈ"), compared_sign(" ")
        ('-', 'H', '')
    """
    signs = unicodedata.normalize("NFKC", _ALIKE.get(character, character))
    kept = ""
    for sign in signs:
        if sign not in _UNSEEN and unicodedata.category(sign) not in _UNSEEN_KINDS:
            kept += _ALIKE.get(sign, sign)
    return kept


class ShownText(NamedTuple):
    """The text that KaTeX shows for some LaTeX: hidden, in a line, and in a displayed formula.

    Where signs stand above each other, the orders differ: in the hidden MathML the upper part of a
    fraction comes first and in the visible HTML the lower part, for that is drawn first.
    """

    hidden: str
    inline: str
    displayed: str

    def then(self, after: ShownText) -> ShownText:
        """Return the text of two pieces, one after the other."""
        return ShownText(
            self.hidden + after.hidden,
            self.inline + after.inline,
            self.displayed + after.displayed,
        )


_NOTHING = ShownText("", "", "")


def _same(text: str) -> ShownText:
    compared = "".join(map(compared_sign, text))
    return ShownText(compared, compared, compared)


class _Unreadable(Exception):  # noqa: N818  # it is caught here, and never an error of the user
    """What follows is not LaTeX, or the search is at its bound."""


_COMMAND_NAME = re.compile(r"\\([A-Za-z]+|.)")


class LatexText:
    """LaTeX inside a line, read from any column on, for a number of steps in all."""

    def __init__(self, text: str, steps: int) -> None:
        self.text = text
        self.steps_left = steps

    def formulas(self, start: int) -> Iterator[tuple[int, ShownText]]:
        """Yield each column where a formula from `start` on may end, and what it shows."""
        column, shown = start, _NOTHING
        try:
            while column < min(start + LONGEST_FORMULA_COPIED, len(self.text)):
                is_blank = self.text[column].isspace()
                column, piece = self._piece(column, depth=0)
                shown = shown.then(piece)
                if shown != _NOTHING and not is_blank:
                    yield column, shown
        except _Unreadable:
            return

    def _piece(self, column: int, depth: int) -> tuple[int, ShownText]:
        """Read one sign, group, command or pair of scripts; return the column behind it."""
        self.steps_left -= 1
        if self.steps_left < 0 or depth > _MOST_DEPTH or column >= len(self.text):
            raise _Unreadable
        character = self.text[column]
        if character in "}$":
            raise _Unreadable
        if character == "\\":
            return self._command(column, depth)
        if character == "{":
            return self._group(column, depth)
        if character in "'^_":
            column, below, above = self._scripts(column, depth)
            return column, below.then(above)
        return column + 1, _same(character)

    def _group(self, column: int, depth: int) -> tuple[int, ShownText]:
        """Read a group in braces."""
        column, shown = column + 1, _NOTHING
        while self.text[column : column + 1] != "}":
            column, piece = self._piece(column, depth + 1)
            shown = shown.then(piece)
        return column + 1, shown

    def _argument(self, column: int, depth: int) -> tuple[int, ShownText]:
        """Read a group, a command, or the next sign."""
        while self.text[column : column + 1].isspace():
            column += 1
        return self._piece(column, depth + 1)

    def _scripts(self, column: int, depth: int) -> tuple[int, ShownText, ShownText]:
        """Read indices, exponents and primes in any order; return what is below and above."""
        below, above, primes = _NOTHING, _NOTHING, _NOTHING
        while (mark := self.text[column : column + 1]) and mark in "'^_":
            if mark == "'":
                column, primes = column + 1, primes.then(_same(mark))
            elif mark == "_":
                column, below = self._argument(column + 1, depth)
            else:
                column, above = self._argument(column + 1, depth)
        return column, below, primes.then(above)

    def _command(self, column: int, depth: int) -> tuple[int, ShownText]:
        """Read a command with its arguments."""
        matched = _COMMAND_NAME.match(self.text, column)
        if not matched:
            raise _Unreadable
        name = _known_command(matched[1])
        column = matched.start(1) + len(name)
        while self.text[column : column + 1].isspace():
            column += 1
        table = _katex()
        if name in table["signs"]:
            return column, _same(table["signs"][name])
        if name in table["limits"]:
            return self._with_limits(column, _same(table["limits"][name]), depth)
        if name in table["pairs"]:
            return self._pair(column, table["pairs"][name], depth)
        if name in table["accents"]:
            column, shown = self._argument(column, depth)
            return column, shown.then(_same(table["accents"][name]))
        return self._layout(name, column, depth)

    def _layout(self, name: str, column: int, depth: int) -> tuple[int, ShownText]:
        """Read the argument of a command that has no text of its own."""
        commands = _katex()["commands"]
        if name in commands["braces"]:
            column, shown = self._argument(column, depth)
            column, (hidden, _, displayed) = self._with_limits(column, shown, depth)
            return column, ShownText(hidden, displayed, displayed)
        if name in commands["hidden"]:
            column, _ = self._argument(column, depth)
            return column, _NOTHING
        if name not in commands["silent"]:
            raise _Unreadable
        if self.text[column : column + 1] == "{":
            return self._group(column, depth)
        is_absent_bracket = name in {"left", "right"} and self.text[column : column + 1] == "."
        return column + is_absent_bracket, _NOTHING

    def _with_limits(self, column: int, base: ShownText, depth: int) -> tuple[int, ShownText]:
        column, below, above = self._scripts(column, depth)
        hidden, inline, _ = base.then(below).then(above)
        _, _, displayed = below.then(base).then(above)
        return column, ShownText(hidden, inline, displayed)

    def _pair(self, column: int, brackets: list[str], depth: int) -> tuple[int, ShownText]:
        """Read a fraction, which is set as in a line even in a displayed formula."""
        column, upper = self._argument(column, depth)
        column, lower = self._argument(column, depth)
        before, behind = brackets
        hidden = f"{before}{upper.hidden}{lower.hidden}{behind}"
        visible = f"{before}{lower.inline}{upper.inline}{behind}"
        return column, ShownText(hidden, visible, visible)


def _katex() -> dict[str, Any]:
    return data.read_toml("facts/katex.toml")


@cache
def _commands() -> frozenset[str]:
    """Return the names of all commands whose text is known."""
    table = _katex()
    names = {*table["signs"], *table["limits"], *table["pairs"], *table["accents"]}
    return frozenset(names.union(*table["commands"].values()))


def _known_command(letters: str) -> str:
    r"""Return the longest command that letters begin with: ``\beta`` of ``\betay``.

    The text behind a source touches its last command.
    """
    for length in range(min(len(letters), _LONGEST_COMMAND), 0, -1):
        if letters[:length] in _commands():
            return letters[:length]
    raise _Unreadable
