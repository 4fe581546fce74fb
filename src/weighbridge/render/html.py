"""Documents in HTML: a self-contained page, or a fragment."""

from __future__ import annotations

import re
from base64 import b64encode
from html import escape
from typing import TYPE_CHECKING, Any

from weighbridge.render import annotated, math, terminal
from weighbridge.render.diagram import description
from weighbridge.render.diagram_svg import inline_svg, svg_file
from weighbridge.render.document import (
    Annotated,
    Bullets,
    Chain,
    Code,
    Definitions,
    Diagram,
    Document,
    Equalities,
    Grid,
    Heading,
    LayerMap,
    Notes,
    NumberedStep,
    Outline,
    Paragraph,
    Parts,
    Title,
    WideTable,
    flat,
    shown_blocks,
)
from weighbridge.render.layer_map import map_description, map_file, map_svg
from weighbridge.render.prose import Marks, Prose
from weighbridge.render.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from weighbridge.render.document import Block, Branch

_PAGE = """<!DOCTYPE html>
<html lang="{lang}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 1rem/1.65 Georgia, "Noto Serif CJK SC", "Songti SC", serif;\
 max-width: 46rem; margin: 2rem auto;
  padding: 0 1rem; }}
h1, h2, h3 {{ line-height: 1.25;\
 font-family: system-ui, "Noto Sans CJK SC", "PingFang SC", sans-serif; }}
code, pre {{ font-family: ui-monospace, Menlo, Consolas, monospace; font-size: .85em; }}
pre, .equation, .table {{ overflow-x: auto; }}
pre, .equation {{ padding: .6rem 1rem;\
 background: color-mix(in srgb, currentColor 6%, transparent);
  border-radius: .3rem; }}
figure {{ margin: 1.5rem 0; text-align: center; break-inside: avoid; }}
figcaption {{ font-size: .92em; }}
table {{ border-collapse: collapse; font-size: .92em; }}
th, td {{ padding: .25rem .8rem .25rem 0; text-align: left;\
 border-bottom: 1px solid color-mix(in srgb,
  currentColor 18%, transparent); white-space: nowrap; }}
@media (max-width: 40rem) {{
  table {{ width: 100%; }}
  th, td {{ white-space: normal; overflow-wrap: anywhere; padding-right: .5rem; }}
  th {{ overflow-wrap: normal; }}
  th[style*="right"], td[style*="right"] {{ white-space: nowrap; overflow-wrap: normal;
    padding-right: 0; }}
}}
{style}</style>
</head>
<body>
{body}
</body>
</html>
"""
LANGUAGE_TAGS = {"en": "en", "zh": "zh-CN"}


def as_page(document: Document) -> str:
    """Write a document as a page."""
    document = document._replace(blocks=tuple(shown_blocks(document.blocks)))
    body = "\n\n".join(_html_blocks(document.blocks, Prose(_MARKS, document.values)))
    lang = LANGUAGE_TAGS.get(document.lang, document.lang)
    style = ""
    if any(isinstance(block, Annotated) for block in document.blocks):
        style = annotated.STYLE
    return _PAGE.format(lang=lang, title=_title(document), body=body, style=style)


def fragment(document: Document, notes: Sequence[str] = ()) -> str:
    """Write a document with notes below it, as a fragment for a page such as a notebook.

    It has no script, style sheet or id that could affect the rest of the page, and tells it not to
    typeset text between dollar signs, which is a path or a name here.
    """
    lang = LANGUAGE_TAGS.get(document.lang, document.lang)
    prose = Prose(_MARKS, document.values)
    pieces = []
    for block in shown_blocks((*document.blocks, Notes(tuple(notes)))):
        if isinstance(block, Diagram):
            names = description(block.parts, prose.values, only_names=True)
            drawn = svg_file(block, prose.values, lang)
            pieces.append(_picture(drawn, block.title, names, prose.write(block.caption)))
        elif isinstance(block, LayerMap):
            drawn = map_file(block)
            pieces.append(
                _picture(drawn, block.title, map_description(block), escape(block.caption))
            )
        elif isinstance(block, Annotated):
            pieces.append(annotated.in_notebook(block))
        else:
            pieces += _html_blocks([block], prose)
    opening = f'<div class="weighbridge tex2jax_ignore mathjax_ignore" lang="{lang}">'
    return "\n".join([opening, *pieces, "</div>"])


def _title(document: Document) -> str:
    for block in flat(document.blocks):
        if isinstance(block, Title):
            return escape(block.text)
        if isinstance(block, Heading) and block.level == 1:
            return escape(terminal.prose_of(document).write(block.prose))
    return ""


def _html_blocks(blocks: Iterable[Block], prose: Prose) -> Iterator[str]:
    for block in flat(blocks):
        kind: type = type(block)
        yield _BLOCKS.get(kind, _as_in_terminal)(block, prose)


def _breakable_code(plain: str) -> str:
    """Write code that a narrow page may break after dots and underscores."""
    pieces = re.split(r"(?<=[._])(?=\w{3})", plain)
    return f"<code>{'<wbr>'.join(map(escape, pieces))}</code>"


_MARKS = Marks(
    style=math.HTML,
    escape=escape,
    strong="<strong>{}</strong>",
    code=_breakable_code,
    math="{}",
)


def html_table(table: Table, write_cell: Callable[[str], str] = escape) -> str:
    """Write a table in HTML; ``write_cell`` writes and escapes the content of a cell."""
    sides = {"<": "left", ">": "right"}
    styles = [f' style="text-align:{sides[side]}"' for side in table.align]

    def line(cells: Sequence[str], tag: str) -> str:
        written = []
        for cell, style in zip(cells, styles, strict=True):
            written.append(f"<{tag}{style}>{write_cell(cell)}</{tag}>")
        return f"<tr>{''.join(written)}</tr>"

    last = len(table.rows) - table.totals
    lines = ["<table>", f"<thead>{line(table.header, 'th')}</thead>", "<tbody>"]
    lines += [line(row, "td") for row in table.rows[:last]]
    lines.append("</tbody>")
    if table.totals:
        lines += ["<tfoot>", *(line(row, "th") for row in table.rows[last:]), "</tfoot>"]
    return "\n".join([*lines, "</table>"])


def _as_in_terminal(block: Any, _: Prose) -> str:
    return f"<pre>{escape(terminal.as_text(Document((block,))))}</pre>"


def _bullets(block: Bullets, prose: Prose) -> str:
    items = "\n".join(f"<li>{prose.write(item)}</li>" for item in block.items)
    return f"<ul>\n{items}\n</ul>"


def _note_list(items: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(item)}</li>' for item in items)}</ul>"


def _notes(block: Notes, _: Prose) -> str:
    """Write one sentence as a paragraph, and several, or indented ones, as a list."""
    if len(block.items) == 1 and not block.level:
        return f"<p>{escape(block.items[0])}</p>"
    written = _note_list(block.items)
    if block.level > 1:
        return f'<div style="margin-left:1.5em">{written}</div>'
    return written


def _item_parts(block: Parts, _: Prose) -> str:
    return _note_list("  ".join(filter(None, parts)) for parts in block.items)


def _numbered_step(block: NumberedStep, _: Prose) -> str:
    return f"<p><b>{block.number}. {escape(block.title)}</b></p>\n{_note_list(block.facts)}"


_NEXT_PART = "<br>\n\u2002= "


def _equalities(block: Equalities, _: Prose) -> str:
    return f"<p>{_NEXT_PART.join(map(escape, (block.name, *block.parts)))}</p>"


def _chain_paragraph(block: Chain, prose: Prose) -> str:
    parts = _NEXT_PART.join(map(prose.mathematics, block.parts))
    return f'<p class="equation">{parts}</p>'


def _grid(block: Grid, prose: Prose) -> str:
    return _scrollable(html_table(block.table, prose.write))


def _figure(drawing: str, caption: str) -> str:
    return f"<figure>\n{drawing}\n<figcaption>{caption}</figcaption>\n</figure>"


def _picture(svg: str, title: str, content: str, caption: str) -> str:
    """Write a drawing as an image, since a notebook may remove the elements of SVG."""
    source = f"data:image/svg+xml;base64,{b64encode(svg.encode()).decode()}"
    image = f'<img src="{source}" alt="{escape(f"{title}: {content}")}">'
    return f"<p>{image}<br>\n{caption}</p>"


def _scrollable(table: str) -> str:
    return f'<div class="table">\n{table}\n</div>'


# Outlines, with branches that open and close


def _outline(block: Outline, _: Prose) -> str:
    heading = f'<div style="font-family:monospace"><b>{escape(block.title)}</b>'
    return "\n".join([heading, *_branch(block.root, 0), f"{_note_list(block.notes)}</div>"])


def _branch(branch: Branch, level: int) -> Iterator[str]:
    if not branch.branches:
        leaves = ", ".join(leaf.text for leaf in branch.leaves)
        yield _div(f"{branch.text} {leaves}", branch.figures)
        return
    opened = ""
    if level < _OPEN_LEVELS:
        opened = ' open=""'
    summary = _spread(branch.text, branch.figures)
    yield f"<details{_INDENT}{opened}><summary>{summary}</summary>"
    for leaf in branch.leaves:
        yield _div(leaf.text, leaf.figures)
    for below in branch.branches:
        yield from _branch(below, level + 1)
    yield "</details>"


_OPEN_LEVELS = 2
_INDENT = ' style="margin-left:1.5em"'


def _div(left: str, right: tuple[str, str]) -> str:
    return f"<div{_INDENT}>{_spread(left, right)}</div>"


def _spread(left: str, right: tuple[str, str]) -> str:
    figures = escape(terminal.figures(*right))
    return f'{escape(left)} <span style="float:right">{figures}</span>'


_BLOCKS: dict[type, Callable[[Any, Prose], str]] = {
    Title: lambda block, _: f"<p><b>{escape(block.text)}</b></p>",
    Notes: _notes,
    Parts: _item_parts,
    NumberedStep: _numbered_step,
    Equalities: _equalities,
    Definitions: lambda block, _: _note_list(block.items),
    Table: lambda block, _: html_table(block),
    WideTable: lambda block, _: _scrollable(html_table(block.table)),
    Outline: _outline,
    Annotated: lambda block, _: annotated.on_page(block),
    Heading: lambda block, prose: f"<h{block.level}>{prose.write(block.prose)}</h{block.level}>",
    Paragraph: lambda block, prose: f"<p>{prose.write(block.prose)}</p>",
    Bullets: _bullets,
    Chain: _chain_paragraph,
    Code: lambda block, _: f"<pre>{escape(block.source)}</pre>",
    Grid: _grid,
    Diagram: lambda block, prose: _figure(
        inline_svg(block, prose.values), prose.write(block.caption)
    ),
    LayerMap: lambda block, _: _figure(map_svg(block), escape(block.caption)),
}
