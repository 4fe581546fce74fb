"""The derivation's paragraphs for a page: each a list of pieces that need no markup.

A piece is a text, or a list: ``["code", text]``, ``["strong", text]``, or ``["math", number]`` with
the number of an expression. Letters become the fields they stand for, which the page shows by their
letters and lights up; a value becomes its digits.
"""

from __future__ import annotations

from weighbridge.algebra.expr import evaluate, parse, substitute
from weighbridge.answers.explain import Article
from weighbridge.data import LANGUAGES
from weighbridge.lean_typing import TYPE_CHECKING
from weighbridge.render.prose import MARKS
from weighbridge.units import count

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator, Mapping
    from typing import Any

    from weighbridge.answers.weigh import Weighing
    from weighbridge.explorer.trees import TreeTable


def derivation(
    weighing: Weighing, letters: Mapping[str, str], table: TreeTable
) -> dict[str, dict[str, list[list[Any]]]]:
    """Return the paragraphs of each component in each language, as pieces.

    Args:
        weighing: the model.
        letters: the letters of fields; a letter that has no field stays as it is.
        table: the expressions of the page.

    Example:
        >>> from weighbridge.answers.weigh import weigh
        >>> from weighbridge.explorer.trees import TreeTable
        >>> derivation(weigh("bert"), {}, TreeTable())["en"]["ffn.norm"]
        [['Another residual addition and a second LayerNorm complete the layer.']]
    """
    article = Article(weighing)
    writer = _Pieces(article.values, {letter: name for name, letter in letters.items()}, table)
    return {
        lang: {
            component: [list(writer.pieces(text)) for text in texts]
            for component, texts in article.paragraphs(lang).items()
        }
        for lang in LANGUAGES
    }


class _Pieces:
    def __init__(
        self, values: Mapping[str, Any], fields: Mapping[str, str], table: TreeTable
    ) -> None:
        self.values, self.fields, self.table = values, fields, table

    def pieces(self, marked: str) -> Iterator[Any]:
        """Yield the pieces of prose with marks; texts that meet are one."""
        text, start = "", 0
        for mark in MARKS.finditer(marked):
            text += marked[start : mark.start()]
            start = mark.end()
            piece = self._piece(mark)
            if isinstance(piece, str):
                text += piece
                continue
            if text:
                yield text
            yield piece
            text = ""
        if text := text + marked[start:]:
            yield text

    def _piece(self, mark: re.Match[str]) -> Any:
        if mark["plain"]:
            return mark["plain"]
        if mark["strong"] or mark["code"]:
            return ["strong", mark["strong"]] if mark["strong"] else ["code", mark["code"]]
        written = mark["math"]
        if written.startswith("="):
            value = evaluate(parse(written[1:]), self.values)
            return count(value) if isinstance(value, int) else str(value)
        tree = substitute(parse(written.lstrip("#")), self._in_fields)
        return ["math", self.table.number(tree)]

    def _in_fields(self, name: str) -> tuple[str, str]:
        return ("name", self.fields.get(name, name))
