"""The page of the explorer: complete without its script, which takes over where there is one."""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from html import escape

from weighbridge import data
from weighbridge.answers.layer_maps import layer_map
from weighbridge.data import LANGUAGES
from weighbridge.lean_typing import TYPE_CHECKING
from weighbridge.ledger.lettering import Lettering
from weighbridge.render.html import LANGUAGE_TAGS
from weighbridge.render.layer_map import map_on_page, paint
from weighbridge.render.words import label
from weighbridge.units import count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from weighbridge.answers.weigh import Weighing


def page(weighings: Sequence[Weighing], contracts: Sequence[dict[str, Any]], lang: str) -> str:
    """Return a page for one weighing, or for two side by side, with their contracts."""
    script, unpack = data.read_text("pages/explore.js"), data.read_text("pages/unpack.js")
    policy = (
        f"default-src 'none'; script-src {_hashed(unpack)} {_hashed(script)}; "
        "style-src 'unsafe-inline'; img-src data: blob:; font-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    title = " · ".join(weighing.model.where for weighing in weighings)
    held = {"contracts": list(contracts), "words": page_words(), "lang": lang}
    body = "".join("".join(_without_script(weighing, lang)) for weighing in weighings)
    return (
        f'<!DOCTYPE html>\n<html lang="{LANGUAGE_TAGS.get(lang, lang)}">\n'
        '<head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">'
        f"<title>{escape(title)} · weighbridge explore</title>"
        f"<style>{page_style()}</style></head>\n"
        f'<body><main id="explorer">{body}</main>\n'
        f'<script type="application/octet-stream" id="contract">{packed(held)}</script>\n'
        f'<script type="application/octet-stream" id="packed">{_compressed(script)}</script>\n'
        f"<script>{unpack}</script></body></html>\n"
    )


def page_style() -> str:
    """Return the style of the page, with its math font, which NOTICE describes."""
    font = base64.b64encode(data.read_bytes("pages/math.woff2")).decode()
    address = f"data:font/woff2;base64,{font}"
    face = f'@font-face{{font-family:"Weighbridge Math";src:url({address}) format("woff2")}}\n'
    return face + data.read_text("pages/explore.css")


def page_words() -> dict[str, Any]:
    """Return the words of the page in every language."""
    return {lang: data.read_toml(f"words/explore.{lang}.toml") for lang in LANGUAGES}


def contract_json(held: Any) -> str:
    """Return what a page holds as JSON that cannot end the element that it stands in."""
    text = json.dumps(held, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", r"\u003c")


def packed(held: Any) -> str:
    """Return what a page holds as JSON that is compressed, and written in letters.

    The JSON of a family is three to four times as long; `contract_json` is for a page that is
    not a file of its own.

    Example:
        >>> zlib.decompress(base64.b64decode(packed({"lang": "en"})))
        b'{"lang":"en"}'
    """
    return _compressed(json.dumps(held, ensure_ascii=False, separators=(",", ":")))


def _compressed(text: str) -> str:
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def _hashed(script: str) -> str:
    """Return what a policy says of a script that may run, and of no other."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _without_script(weighing: Weighing, lang: str) -> Iterator[str]:
    """Yield what a browser shows without the script: title, total, map and table."""
    words, ledger = page_words()[lang], weighing.ledger
    lettering = Lettering(ledger)
    yield f"<h1>{escape(weighing.model.where)} <small>{escape(weighing.class_name)}</small></h1>"
    yield f'<div class="big">{count(weighing.parameters)}</div>'
    yield f'<p class="under">{escape(lettering.text(ledger.formula()))}</p>'
    yield f'<section class="card">{map_on_page(layer_map(ledger, lang))}</section>'
    yield '<section class="card"><div class="wide"><table class="still">'
    heads = (words["component"], words["formula"], words["parameters"])
    kinds = ("", "", ' class="n"')
    shown = [
        f'<th scope="col"{kind}>{escape(head)}</th>'
        for head, kind in zip(heads, kinds, strict=True)
    ]
    yield f"<thead><tr>{''.join(shown)}</tr></thead>"
    for group in ledger.by("component"):
        formula = lettering.text(ledger.formula_of([group]))
        swatch = f'<span class="swatch" style="{paint(group.name)}"></span>'
        yield (
            f'<tr><th scope="row"><div class="named">{swatch}'
            f"<span>{escape(label(group.name, lang))}</span></div></th>"
            f"<td>{escape(formula)}</td>"
            f'<td class="n">{count(group.parameters)}</td></tr>'
        )
    yield f"</table></div></section><footer>{escape(weighing.model.blueprint.source)}</footer>"
