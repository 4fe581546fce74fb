"""Pages in a frame, for notebooks: their style and script cannot affect the rest of a notebook."""

from __future__ import annotations

from base64 import b64encode
from html import escape


def framed(page: str, title: str, below: str = "") -> str:
    """Return a page as a fragment for a notebook, with further HTML below it.

    The frame may run the script of its page, but has no access to the notebook.

    Example:
        >>> framed("<p>", "a page").split(" style")[0]
        '<div class="weighbridge"><iframe title="a page" sandbox="allow-scripts" srcdoc="&lt;p&gt;"'
    """
    frame = (
        f'<iframe title="{escape(title)}" sandbox="allow-scripts" srcdoc="{escape(page)}" '
        f'style="{_STYLE}"></iframe>'
    )
    return f'<div class="weighbridge">{frame}{below}</div>'


_STYLE = "width:100%;height:42rem;border:1px solid #8886;border-radius:6px"


def opening(summary: str, picture: bytes) -> str:
    """Return an SVG picture as an image that opens, also where frames are removed."""
    content = b64encode(picture).decode()
    image = f'<img src="data:image/svg+xml;base64,{content}" alt="" style="max-width:100%">'
    return f"<details><summary>{escape(summary)}</summary>{image}</details>"
