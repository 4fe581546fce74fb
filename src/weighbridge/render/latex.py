"""Documents in LaTeX, ready to compile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weighbridge.render import math, terminal
from weighbridge.render.diagram_tikz import tikz_picture
from weighbridge.render.document import (
    Bullets,
    Chain,
    Code,
    Diagram,
    Document,
    Grid,
    Heading,
    LayerMap,
    Notes,
    Paragraph,
    Title,
    flat,
    shown_blocks,
)
from weighbridge.render.prose import Marks, Prose
from weighbridge.render.table import LATEX, Table, lines_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from weighbridge.render.document import Block

_WHOLE = r"""%% Compile with %s.
\documentclass[11pt,a4paper]{%s}
\usepackage[margin=2.2cm]{geometry}
\usepackage{%s}
\setlength{\emergencystretch}{3em}
\date{}
\begin{document}

%s

\end{document}
"""
_CLASSES = {"zh": ("xelatex", "ctexart")}
_CLASS = ("pdflatex, xelatex or lualatex", "article")


def as_latex(document: Document) -> str:
    """Write a document in LaTeX."""
    prose = Prose(_MARKS, document.values)
    body = "\n\n".join(_latex_blocks(shown_blocks(document.blocks), prose))
    packages = "amsmath,booktabs"
    if any(isinstance(block, Diagram) for block in flat(document.blocks)):
        packages += ",tikz"
    program, class_name = _CLASSES.get(document.lang, _CLASS)
    return _WHOLE % (program, class_name, packages, body)


def _latex_blocks(blocks: Iterable[Block], prose: Prose) -> Iterator[str]:
    for block in flat(blocks):
        kind: type = type(block)
        if kind is not LayerMap:
            yield _BLOCKS.get(kind, _as_in_terminal)(block, prose)


def _inline_code(plain: str) -> str:
    """Write code that LaTeX may break after dots and underscores."""
    escaped = math.escape_latex(plain).replace(".", r".\allowbreak{}")
    return r"\texttt{" + escaped.replace(r"\_", r"\_\allowbreak{}") + "}"


_MARKS = Marks(
    style=math.LATEX,
    escape=math.escape_latex,
    strong="\\textbf{{{}}}",
    code=_inline_code,
    math="${}$",
)


def _heading(block: Heading, prose: Prose) -> str:
    return _HEADINGS[block.level] % prose.write(block.prose)


_HEADINGS = {1: "\\title{%s}\n\\maketitle", 2: "\\section*{%s}", 3: "\\subsection*{%s}"}


def _list(items: Iterable[str]) -> str:
    lines = "\n".join(rf"\item {item}" for item in items)
    return f"\\begin{{itemize}}\n{lines}\n\\end{{itemize}}"


def chain_lines(block: Chain, prose: Prose) -> list[str]:
    """Write a chain of equalities, with long parts on several lines."""
    lines: list[str] = []
    mark = ""
    for part in block.parts:
        first, *rest = lines_of(prose.mathematics(part), _SOURCE_COLUMNS, LATEX)
        lines += [mark + first, *(rf"\qquad {line}" for line in rest)]
        mark = r"\quad = "
    return lines


_SOURCE_COLUMNS = 100  # characters of LaTeX, about one line on its page


def _chain(block: Chain, prose: Prose) -> str:
    lines = [f"& {line}" for line in chain_lines(block, prose)]
    return "\\begin{align*}\n" + " \\\\\n".join(lines) + "\n\\end{align*}"


def _table(table: Table, write_cell: Callable[[str], str]) -> str:
    columns = table.align.replace("<", "l").replace(">", "r")
    lines = [" & ".join(map(write_cell, row)) + r" \\" for row in (table.header, *table.rows)]
    lines.insert(1, r"\midrule")
    if table.totals:
        lines.insert(len(lines) - table.totals, r"\midrule")
    body = "\n".join([r"\toprule", *lines, r"\bottomrule"])
    written = f"\\begin{{tabular}}{{@{{}}{columns}@{{}}}}\n{body}\n\\end{{tabular}}"
    return f"\\medskip\n{{\\footnotesize\\noindent\n{written}\\par}}"


def _figure(block: Diagram, prose: Prose) -> str:
    drawing, caption = tikz_picture(block, prose), prose.write(block.caption)
    return f"\\begin{{center}}\n{drawing}\\\\[1ex]\n\\small {caption}\n\\end{{center}}"


def _verbatim(text: str) -> str:
    text = text.replace(r"\end{verbatim}", r"\end {verbatim}")  # with a space, it is only text
    return f"\\begin{{verbatim}}\n{text}\n\\end{{verbatim}}"


def _as_in_terminal(block: Any, _: Prose) -> str:
    return _verbatim(terminal.as_text(Document((block,))))


_BLOCKS: dict[type, Callable[[Any, Prose], str]] = {
    Title: lambda block, _: rf"\textbf{{{math.escape_latex(block.text)}}}",
    Notes: lambda block, _: _list(map(math.escape_latex, block.items)),
    Table: lambda block, _: _table(block, math.escape_latex),
    Heading: _heading,
    Paragraph: lambda block, prose: prose.write(block.prose),
    Bullets: lambda block, prose: _list(map(prose.write, block.items)),
    Chain: _chain,
    Code: lambda block, _: _verbatim(block.source),
    Grid: lambda block, prose: _table(block.table, prose.write),
    Diagram: _figure,
}
