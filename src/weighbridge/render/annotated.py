"""Somebody's text with marks, in HTML: on a page of its own, or in a notebook.

Each kind of mark differs by its line or sign, not by its colour alone. What is right stands beside
a slip, and a sentence about a line below it. Every reason is shown on hover, and in the list after
the text, which is what paper, a phone and a screen reader have.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from weighbridge.render.document import Annotated, AnnotatedLine, LineNote, Piece

STYLE = r"""
:root { --right: #1b7a36; --slip: #c62828; --follows: #a85b00; --known: #1f5fbf;
  --unread: #7b2fa0; --faint: #6b6b6b; }
@media (prefers-color-scheme: dark) {
  :root { --right: #6fd08c; --slip: #ff8a80; --follows: #ffb74d; --known: #8ab4f8;
    --unread: #d0a2ee; --faint: #a0a0a0; }
}
body { overflow-wrap: break-word; }
.legend { list-style: none; padding: .5rem 0; display: flex; flex-wrap: wrap; gap: .3rem 1.2rem;
  font: .85em/1.6 system-ui, "Noto Sans CJK SC", sans-serif; }
.marked { overflow-wrap: anywhere; }
.marked p { position: relative; margin: 0; padding-left: 3rem; min-height: 1.65em;
  white-space: pre-wrap; }
.marked .line { position: absolute; left: 0; width: 2.3rem; text-align: right; user-select: none;
  color: var(--faint); text-decoration: none; font: .75em/2.2 ui-monospace, monospace; }
.marked p:target { background: color-mix(in srgb, var(--known) 16%, transparent); }
.marked .note { margin: .1rem 0 .4rem 3rem; padding: .1rem .7rem; font-size: .88em;
  border-left: 3px solid var(--mark); }
mark { color: inherit; background: none; text-decoration: underline 2px var(--mark);
  text-underline-offset: .22em; text-decoration-skip-ink: none; --mark: var(--faint); }
.right { --mark: var(--right); }
.size { --mark: var(--right); }
.known { --mark: var(--known); }
.slip { --mark: var(--slip); }
.follows { --mark: var(--follows); }
.unread { --mark: var(--unread); }
.remark { --mark: var(--follows); }
mark.size { text-decoration-style: double; text-decoration-thickness: 1px; }
mark.known { text-decoration-style: dashed; text-decoration-thickness: 1px; }
mark.slip { text-decoration-style: wavy; text-decoration-thickness: 1.5px; }
mark.unread { text-decoration-style: dotted; }
mark.remark { text-decoration-style: wavy; text-decoration-thickness: 1px; }
mark.boilerplate { text-decoration: none; color: var(--faint); }
mark.slip:not(.passage) { font-weight: bold; white-space: nowrap;
  background: color-mix(in srgb, var(--slip) 14%, transparent); }
mark.follows { background: color-mix(in srgb, var(--follows) 12%, transparent); }
mark.slip:not(.passage)::before { content: "✗\a0"; content: "✗\a0" / ""; color: var(--slip); }
mark.follows::before { content: "↳\a0"; content: "↳\a0" / ""; color: var(--follows); }
mark.unread::after { content: "?"; content: "?" / ""; color: var(--unread); font-size: .8em; }
.beside { color: var(--mark); font-weight: bold; white-space: nowrap; }
.unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
.reasons { font: .8em/1.5 system-ui, "Noto Sans CJK SC", sans-serif; columns: 19rem;
  column-gap: 2rem; list-style: none; padding: 0; }
.reasons > li { padding-left: 2.5rem; break-inside: avoid; overflow-wrap: anywhere; }
.reasons a { float: left; margin-left: -2.5rem; width: 2rem; text-align: right;
  color: var(--faint); text-decoration: none; }
@media (max-width: 40rem) {
  .marked p { padding-left: 2rem; }
  .marked .line { width: 1.5rem; }
  .marked .note { margin-left: 2rem; }
}
@media print {
  body { max-width: none; margin: 0; }
  .marked { font-size: .9em; }
  .reasons { font-size: .7em; columns: 2; }
  mark { -webkit-print-color-adjust: exact; print-color-adjust: exact; }
}
"""


def on_page(block: Annotated) -> str:
    """Write a text with marks for a page that has `STYLE`; each line has an address, #line-33."""
    legend = "".join(
        f'<li><mark class="{mark}">{escape(name)}</mark></li>'
        for mark, name in block.legend.items()
    )
    numbers: set[int] = set()
    rows = []
    for line in block.lines:
        # Several lines of a page may stand on one line of its source; the first has the address.
        address = ""
        if line.number not in numbers:
            address = f' id="line-{line.number}"'
            numbers.add(line.number)
        rows.append(f"<p{address}>{_line_link(line)}{_written(line.pieces)}</p>")
        rows += map(_note, line.notes)
    return "\n".join(
        [
            f"<h2>{escape(block.title)}</h2>",
            f'<ul class="legend">{legend}</ul>',
            '<div class="marked">',
            *rows,
            "</div>",
            *_reasons(block),
        ]
    )


def _line_link(line: AnnotatedLine) -> str:
    return f'<a class="line" href="#line-{line.number}">{line.number}</a>'


def _note(note: LineNote) -> str:
    return f'<div class="note {note.mark}" role="note">{escape(note.text)}</div>'


def _written(pieces: Iterable[Piece]) -> str:
    return "".join(map(_piece, pieces))


def _piece(piece: Piece) -> str:
    content = _written(piece.inner) or escape(piece.text)
    if not piece.mark:
        return content
    name = piece.mark
    if piece.inner:
        name += " passage"
    reason = escape(piece.reason, quote=True)
    written = f'<mark class="{name}" title="{reason}">{content}</mark>'
    if piece.beside:
        unseen = f'<span class="unseen"> ({reason})</span>'
        arrow = f'<span aria-hidden="true"> → {escape(piece.beside)}</span>'
        written += f'<span class="beside {piece.mark}">{arrow}{unseen}</span>'
    return written


def _reasons(block: Annotated) -> Iterator[str]:
    """Yield the list of the reasons of all numbers, by line."""
    yield f'<h2>{escape(block.reasons)}</h2>\n<ul class="reasons">'
    for line in block.lines:
        if line.reasons:
            link = f'<a href="#line-{line.number}">{line.number}</a>'
            written = [f"<b>{escape(text)}</b> {escape(reason)}" for text, reason in line.reasons]
            yield f"<li>{link}{'<br>'.join(written)}</li>"
    yield "</ul>"


# Notebooks, which remove styles and titles, and whose other cells have ids of their own

_BEFORE = {"slip": "✗ ", "follows": "↳ "}
_AFTER = {"right": " ✓", "size": " ✓", "unread": " ?"}


def in_notebook(block: Annotated) -> str:
    """Write a text with a sign at each mark, without styles and ids."""
    legend = []
    for mark, name in block.legend.items():
        legend.append(f"{_BEFORE.get(mark, '')}{escape(name)}{_AFTER.get(mark, '')}")
    rows = []
    for line in block.lines:
        rows.append(f"{line.number}&ensp;{_with_signs(line.pieces)}")
        rows += [f"&emsp;&emsp;<i>{escape(note.text)}</i>" for note in line.notes]
    summary = f"<summary>{escape(block.title)}</summary>"
    text = "<br>\n".join(rows)
    return f"<details>{summary}\n<p>{' · '.join(legend)}</p>\n<p>{text}</p></details>"


def _with_signs(pieces: Iterable[Piece]) -> str:
    written = []
    for piece in pieces:
        content = _with_signs(piece.inner) or escape(piece.text)
        if piece.mark and not piece.minor:
            content = f"{_BEFORE.get(piece.mark, '')}<b>{content}</b>{_AFTER.get(piece.mark, '')}"
        if piece.beside:
            content += f" → <b>{escape(piece.beside)}</b>"
        written.append(content)
    return "".join(written)
