"""What a notebook keeps of a page's HTML, and what it refuses."""

from html.parser import HTMLParser

HOSTILE = "<script>alert(1)</script>&amp;$x$"

ALLOWED = {
    *(("div", "class", name) for name in ("weighbridge tex2jax_ignore mathjax_ignore", "table")),
    ("div", "lang", "en"),
    ("div", "lang", "zh-CN"),
    ("div", "style", "font-family:monospace"),
    ("div", "style", "margin-left:1.5em"),
    ("details", "style", "margin-left:1.5em"),
    ("details", "open", ""),
    ("span", "style", "float:right"),
    ("p", "class", "equation"),
    *((cell, "style", f"text-align:{side}") for cell in ("td", "th") for side in ("left", "right")),
}
"""Each attribute that a notebook's HTML may have, with its tag and its value."""
ELEMENTS = {
    *("div", "p", "b", "strong", "code", "pre", "ul", "li", "table", "thead", "tbody", "tfoot"),
    *("tr", "th", "td", "h1", "h2", "h3", "details", "summary", "span", "sup", "sub", "i", "em"),
}
WITHOUT_END = {"br", "img", "wbr"}
PICTURE = "data:image/svg+xml;base64,"


class Sanitised(HTMLParser):
    """Reads HTML as a notebook does, and refuses what a notebook would remove."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[str] = []
        self.texts: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ELEMENTS | WITHOUT_END
        if tag == "img":  # its picture is in its address, and has a description
            assert [name for name, _ in attrs] == ["src", "alt"]
            assert str(attrs[0][1]).startswith(PICTURE)
        else:
            assert {(tag, *attribute) for attribute in attrs} <= ALLOWED
        self.elements.append(tag)
        if tag not in WITHOUT_END:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def unknown_decl(self, data: str) -> None:
        raise AssertionError(data)

    handle_comment = handle_decl = handle_pi = unknown_decl
