"""Pages in a real browser, Chromium without a window; tests skip where there is none."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import escape, unescape
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_SECONDS = 240  # a browser may start slowly on a busy machine

# Runs in the page, before its own scripts: keeps errors, and offers what a test does there.
_BEFORE = """<script>
const seen = { errors: [], results: [] };
const result = (value) => seen.results.push(value);
const click = (selector) => document.querySelector(selector).click();
addEventListener("error", (event) => seen.errors.push(String(event.message)));
addEventListener("unhandledrejection", (event) => seen.errors.push(String(event.reason)));
addEventListener("load", () => setTimeout(async () => {
  try { await (async () => { %s })(); } catch (error) { seen.errors.push(String(error)); }
  seen.wide = document.documentElement.scrollWidth;
  parent.postMessage(JSON.stringify(seen), "*");
}, 100));
</script>"""
# A window of Chromium has a least width, so that a phone is a frame in it.
_AROUND = """<!DOCTYPE html><meta charset="utf-8"><pre id="seen"></pre>
<script>
onmessage = (event) => { document.getElementById("seen").textContent = event.data; };
</script>
<iframe style="width:%dpx;height:800px;border:0" srcdoc="%s"></iframe>"""


def look(page: str, width: int, folder: Path, script: str = "") -> dict[str, Any]:
    """Open a page at a width in pixels, run a script there, and return what was seen.

    That is ``errors``, the messages of script errors; ``wide``, the width that the page takes; and
    ``results``, what the script gave to ``result``.
    """
    browser = next(filter(None, map(shutil.which, _NAMES)), None)
    if browser is None:
        pytest.skip("there is no browser")
    around = folder / "around.html"
    head, body = page.split("<head>", 1)
    inside = f"{head}<head>{_BEFORE % script}{body}"
    around.write_text(_AROUND % (width, escape(inside)), "utf-8")
    command = [
        *(browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/user"),
        *("--virtual-time-budget=10000", "--window-size=1600,1000", "--dump-dom"),
    ]
    ran = subprocess.run(
        [*command, around.as_uri()], capture_output=True, timeout=_SECONDS, check=True
    )
    found = re.search(r'<pre id="seen">(.*?)</pre>', ran.stdout.decode(), re.DOTALL)
    assert found, ran.stdout.decode()[:2000]
    assert found[1], "the page did not finish"
    seen: dict[str, Any] = json.loads(unescape(found[1]))
    return seen
