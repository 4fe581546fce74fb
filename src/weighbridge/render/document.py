"""A document as a list of blocks, and the ways to write it: text, Markdown, LaTeX and HTML.

It knows nothing of models.

Prose holds three kinds of marks, in every language the same: ``**strong**``, `` `code` `` and
mathematics between dollar signs, which is an expression in letters. ``$V*H$`` is shown as a
formula, ``$#V*H$`` with numbers put in, ``$=V*H$`` as its value. A character after a backslash is
that character and marks nothing; `plain` writes it so.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge.algebra import expr
from weighbridge.render import math
from weighbridge.render.table import (
    COLUMNS,
    LATEX,
    Table,
    html,
    lines_of,
    markdown,
    text,
    width,
    wrap,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Heading(NamedTuple):
    """A heading; the document's title is of level 1."""

    level: int
    prose: str


class Paragraph(NamedTuple):
    """Running prose."""

    prose: str


class Bullets(NamedTuple):
    """Points, each a piece of prose."""

    items: tuple[str, ...]


class Equation(NamedTuple):
    """A chain of equalities, each part in the marks of mathematics without their dollar signs."""

    parts: tuple[str, ...]


class Code(NamedTuple):
    """Lines to type."""

    source: str


class Grid(NamedTuple):
    """A table whose cells are prose."""

    table: Table


Block = Heading | Paragraph | Bullets | Equation | Code | Grid


class Document(NamedTuple):
    """Blocks in order, the language they are in, and the value of each letter."""

    blocks: tuple[Block, ...]
    lang: str
    values: Mapping[str, Any]


_MARKS = re.compile(
    r"\\(?P<plain>.)|\*\*(?P<strong>(?:\\.|[^\\])+?)\*\*|`(?P<code>[^`]+)`|\$(?P<math>[^$]+)\$",
    re.DOTALL,
)


def plain(outside: str) -> str:
    r"""Return prose that says just this: for what comes from outside, where any character may be a mark.

    Example:
        >>> plain("a$V"), write(Document((Paragraph(plain("a$V + $b")),), "en", {}), "text")
        ('a\\$V', 'a$V + $b')
    """
    return re.sub(r"[\\*`$]", r"\\\g<0>", outside)


class Format(NamedTuple):
    """How one format writes each kind of mark, each kind of block, and the whole."""

    style: math.Style
    escape: Callable[[str], str]
    strong: str
    code: Callable[[str], str]
    math: str
    blocks: Mapping[type, Callable[[Any, Callable[[str], str]], str]]
    whole: Callable[[str, Document], str]


def write(document: Document, format_name: str) -> str:
    """Write a document in one of ``FORMATS``.

    Example:
        >>> document = Document((Paragraph("In all **$=V*H$**, from `embeddings`."),), "en", {"V": 3, "H": 1000})
        >>> print(write(document, "text"))
        In all 3,000, from embeddings.
        >>> print(write(document, "markdown"))
        In all **3,000**, from `embeddings`.
    """
    form = FORMATS[format_name]

    def prose(marked: str) -> str:
        return _prose(marked, form, document.values)

    def equation(part: str) -> str:
        return mathematics(part, form.style, document.values)

    written = [
        form.blocks[type(block)](block, equation if isinstance(block, Equation) else prose)
        for block in document.blocks
    ]
    return form.whole("\n\n".join(written), document)


def mathematics(marked: str, style: math.Style, values: Mapping[str, Any]) -> str:
    """Write what stood between dollar signs: ``V*H`` as a formula, ``#V*H`` in numbers, ``=V*H`` as its value."""
    if marked.startswith("="):
        return math.formula(("value", expr.evaluate(expr.parse(marked[1:]), values)), style)
    if marked.startswith("#"):
        return math.numbers(expr.parse(marked[1:]), style, values)
    return math.formula(expr.parse(marked), style)


def _prose(marked: str, form: Format, values: Mapping[str, Any]) -> str:
    """Write prose: escape what is plain, translate what is marked."""
    pieces, at = [], 0
    for found in _MARKS.finditer(marked):
        pieces.append(form.escape(marked[at : found.start()]))
        at = found.end()
        if found["plain"]:
            pieces.append(form.escape(found["plain"]))
        elif found["strong"]:
            pieces.append(form.strong.format(_prose(found["strong"], form, values)))
        elif found["code"]:
            pieces.append(form.code(found["code"]))
        else:
            pieces.append(_inline(found["math"], form, values))
    return "".join([*pieces, form.escape(marked[at:])])


def _inline(marked: str, form: Format, values: Mapping[str, Any]) -> str:
    """Write mathematics inside prose, where a value is just a number."""
    if marked.startswith("="):
        return mathematics(marked, math.UNICODE, values)
    return form.math.format(mathematics(marked, form.style, values))


def _cells(table: Table, cell: Callable[[str], str]) -> Table:
    rows = tuple(tuple(map(cell, row)) for row in table.rows)
    return table._replace(header=tuple(map(cell, table.header)), rows=rows)


# Plain text


def _text_heading(block: Heading, prose: Callable[[str], str]) -> str:
    title = prose(block.prose)
    underline = (
        "\n" + _UNDERLINES[block.level] * min(width(title), COLUMNS)
        if block.level in _UNDERLINES
        else ""
    )
    return wrap(title, indent="") + underline


_UNDERLINES = {1: "=", 2: "-"}


def _text_equation(block: Equation, mathematic: Callable[[str], str]) -> str:
    first, *rest = (lines_of(mathematic(part), COLUMNS - len("      = ")) for part in block.parts)
    further = "\n" + " " * len("      = ")
    return "\n".join(
        [f"    {further.join(first)}", *(f"      = {further.join(part)}" for part in rest)]
    )


_TEXT = Format(
    style=math.UNICODE,
    escape=str,
    strong="{}",
    code=str,
    math="{}",
    blocks={
        Heading: _text_heading,
        Paragraph: lambda block, prose: wrap(prose(block.prose), indent=""),
        Bullets: lambda block, prose: "\n".join(wrap("- " + prose(item)) for item in block.items),
        Equation: _text_equation,
        Code: lambda block, _: "\n".join(f"    {line}" for line in block.source.splitlines()),
        Grid: lambda block, prose: text(_cells(block.table, prose)),
    },
    whole=lambda body, _: body,
)

# Markdown, with the mathematics that GitHub, GitLab and Gitea render


def escape_markdown(plain: str) -> str:
    """Escape what Markdown would read as markup."""
    return re.sub(r"([\\`*_{}\[\]<>$|#&~])", r"\\\1", plain)


def _aligned(block: Equation, mathematic: Callable[[str], str]) -> str:
    lines = _latex_lines(block, mathematic)
    return "\\begin{gathered}\n" + " \\\\\n".join(lines) + "\n\\end{gathered}"


def _latex_lines(block: Equation, mathematic: Callable[[str], str]) -> list[str]:
    """Write a chain of equalities, and what is too long for a line on several."""
    first, *rest = (lines_of(mathematic(part), _LATEX_COLUMNS, LATEX) for part in block.parts)
    lines = [first[0], *(rf"\qquad {line}" for line in first[1:])]
    for part in rest:
        lines += [rf"\quad = {part[0]}", *(rf"\qquad {line}" for line in part[1:])]
    return lines


_LATEX_COLUMNS = 100  # of its source, which come to about a line of its page


_MARKDOWN = Format(
    style=math.LATEX,
    escape=escape_markdown,
    strong="**{}**",
    code="`{}`".format,
    math="$`{}`$",
    blocks={
        Heading: lambda block, prose: "#" * block.level + " " + prose(block.prose),
        Paragraph: lambda block, prose: prose(block.prose),
        Bullets: lambda block, prose: "\n".join(f"- {prose(item)}" for item in block.items),
        Equation: lambda block, mathematic: f"```math\n{_aligned(block, mathematic)}\n```",
        Code: lambda block, _: f"```python\n{block.source}\n```",
        Grid: lambda block, prose: markdown(_cells(block.table, prose)),
    },
    whole=lambda body, _: body,
)

# LaTeX


def _latex_code(plain: str) -> str:
    """Write code that may be broken after its dots and underscores."""
    escaped = math.escape_latex(plain)
    return (
        r"\texttt{"
        + escaped.replace(".", r".\allowbreak{}").replace(r"\_", r"\_\allowbreak{}")
        + "}"
    )


def _latex_heading(block: Heading, prose: Callable[[str], str]) -> str:
    kind = {1: "title", 2: "section*", 3: "subsection*"}[block.level]
    return f"\\{kind}{{{prose(block.prose)}}}" + ("\n\\maketitle" if block.level == 1 else "")


def _latex_bullets(block: Bullets, prose: Callable[[str], str]) -> str:
    items = "\n".join(rf"\item {prose(item)}" for item in block.items)
    return f"\\begin{{itemize}}\n{items}\n\\end{{itemize}}"


def _latex_equation(block: Equation, mathematic: Callable[[str], str]) -> str:
    lines = [f"& {line}" for line in _latex_lines(block, mathematic)]
    return "\\begin{align*}\n" + " \\\\\n".join(lines) + "\n\\end{align*}"


def _latex_table(block: Grid, prose: Callable[[str], str]) -> str:
    columns = "".join("l" if side == "<" else "r" for side in block.table.align)
    header, *rows = [
        " & ".join(map(prose, row)) + r" \\" for row in (block.table.header, *block.table.rows)
    ]
    lines = [header, r"\midrule", *rows]
    if block.table.totals:
        lines.insert(len(lines) - block.table.totals, r"\midrule")
    body = "\n".join([r"\toprule", *lines, r"\bottomrule"])
    table = f"\\begin{{tabular}}{{@{{}}{columns}@{{}}}}\n{body}\n\\end{{tabular}}"
    return f"\\medskip\n{{\\footnotesize\\noindent\n{table}\\par}}"


_LATEX_WHOLE = r"""%% Compile with %s.
\documentclass[11pt,a4paper]{%s}
\usepackage[margin=2.2cm]{geometry}
\usepackage{amsmath,booktabs}
\setlength{\emergencystretch}{3em}
\date{}
\begin{document}

%s

\end{document}
"""


def _latex_whole(body: str, document: Document) -> str:
    engine, kind = {"zh": ("xelatex", "ctexart")}.get(
        document.lang, ("pdflatex, xelatex or lualatex", "article")
    )
    return _LATEX_WHOLE % (engine, kind, body)


_LATEX = Format(
    style=math.LATEX,
    escape=math.escape_latex,
    strong="\\textbf{{{}}}",
    code=_latex_code,
    math="${}$",
    blocks={
        Heading: _latex_heading,
        Paragraph: lambda block, prose: prose(block.prose),
        Bullets: _latex_bullets,
        Equation: _latex_equation,
        Code: lambda block, _: f"\\begin{{verbatim}}\n{block.source}\n\\end{{verbatim}}",
        Grid: _latex_table,
    },
    whole=_latex_whole,
)

# HTML that stands alone


def _html_escape(plain: str) -> str:
    from html import escape  # noqa: PLC0415

    return escape(plain)


def _html_bullets(block: Bullets, prose: Callable[[str], str]) -> str:
    return "<ul>\n" + "\n".join(f"<li>{prose(item)}</li>" for item in block.items) + "\n</ul>"


def _html_equation(block: Equation, mathematic: Callable[[str], str]) -> str:
    first, *rest = map(mathematic, block.parts)
    lines = [first, *(f"&ensp;= {part}" for part in rest)]
    return '<p class="equation">' + "<br>\n".join(lines) + "</p>"


def _html_table(block: Grid, prose: Callable[[str], str]) -> str:
    return f'<div class="table">\n{html(block.table, prose)}\n</div>'


_HTML_WHOLE = """<!DOCTYPE html>
<html lang="{lang}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 1rem/1.65 Georgia, "Noto Serif CJK SC", "Songti SC", serif; max-width: 46rem; margin: 2rem auto;
  padding: 0 1rem; }}
h1, h2, h3 {{ line-height: 1.25; font-family: system-ui, "Noto Sans CJK SC", "PingFang SC", sans-serif; }}
code, pre {{ font-family: ui-monospace, Menlo, Consolas, monospace; font-size: .85em; }}
pre, .equation, .table {{ overflow-x: auto; }}
pre, .equation {{ padding: .6rem 1rem; background: color-mix(in srgb, currentColor 6%, transparent);
  border-radius: .3rem; }}
table {{ border-collapse: collapse; font-size: .92em; }}
th, td {{ padding: .25rem .8rem .25rem 0; text-align: left; border-bottom: 1px solid color-mix(in srgb,
  currentColor 18%, transparent); white-space: nowrap; }}
</style>
</head>
<body>
{body}
</body>
</html>
"""


def _html_whole(body: str, document: Document) -> str:
    titles = [
        block.prose for block in document.blocks if isinstance(block, Heading) and block.level == 1
    ]
    title = _html_escape(_prose(titles[0], _TEXT, document.values)) if titles else ""
    return _HTML_WHOLE.format(
        lang={"zh": "zh-CN"}.get(document.lang, document.lang), title=title, body=body
    )


_HTML = Format(
    style=math.HTML,
    escape=_html_escape,
    strong="<strong>{}</strong>",
    code=lambda plain: f"<code>{_html_escape(plain)}</code>",
    math="{}",
    blocks={
        Heading: lambda block, prose: f"<h{block.level}>{prose(block.prose)}</h{block.level}>",
        Paragraph: lambda block, prose: f"<p>{prose(block.prose)}</p>",
        Bullets: _html_bullets,
        Equation: _html_equation,
        Code: lambda block, _: f"<pre>{_html_escape(block.source)}</pre>",
        Grid: _html_table,
    },
    whole=_html_whole,
)

FORMATS = {"text": _TEXT, "markdown": _MARKDOWN, "latex": _LATEX, "html": _HTML}
"""Every format that a document can be written in."""
