"""The site, built and served on this machine, and a browser that is driven through it."""

from __future__ import annotations

import functools
import gzip
import http.server
import json
import os
import shutil
import subprocess
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from weighbridge.errors import UsageError
from weighbridge.site.build import build_site, find_pyodide

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

WEB = Path(__file__).parents[2] / "web"
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
_SECONDS = 600
_BROWSERS_OWN = ("googleapis.com", "google.com", "gstatic.com", "gvt1.com")
"""Hosts that Chromium itself asks, whatever page is open."""


def needs_browser() -> str:
    """Return the path of a browser; skip the test where something for it is missing."""
    browser = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if browser is None or shutil.which("node") is None:
        pytest.skip("there is no browser, or no node")
    if not (WEB / "node_modules" / "playwright-core").exists():
        pytest.skip("run npm ci in web/")
    try:
        find_pyodide()
    except UsageError:
        pytest.skip("Pyodide is not installed: run npm ci in web/")
    return browser


def needs_firefox() -> str:
    """Return the path of Firefox; skip the test where something for it is missing."""
    firefox = shutil.which("firefox-esr") or shutil.which("firefox")
    if firefox is None:
        pytest.skip("there is no Firefox")
    needs_browser()
    return firefox


class _Recording(http.server.SimpleHTTPRequestHandler):
    """Serves a folder, or as a proxy nothing, and keeps what is asked for."""

    extensions_map = {  # noqa: RUF012  # as its base has it
        **http.server.SimpleHTTPRequestHandler.extensions_map,
        ".mjs": "text/javascript",
        ".wasm": "application/wasm",
    }

    def __init__(self, *given: Any, asked: list[str], **named: Any) -> None:
        self.asked = asked
        super().__init__(*given, **named)

    def log_message(self, *_: Any) -> None:
        self.asked.append(f"{self.command} {self.path}")


@contextmanager
def serving(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Serve a folder; yield its address and the list of requests."""
    asked: list[str] = []
    handler = functools.partial(_Recording, directory=str(folder), asked=asked)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def drive(
    site: Path, steps: Sequence[dict[str, Any]], profile: Path, browser: str
) -> tuple[list[dict[str, Any]], list[str], list[str]]:
    """Do the steps in a browser; return what was seen, the errors, and requests for elsewhere.

    The browser's proxy answers nothing and keeps each request that is not for the site itself.
    ``{site}`` in a step stands for the site's address.
    """
    empty = profile / "nothing"
    empty.mkdir(parents=True)
    with serving(site) as (address, _), serving(empty) as (proxy, elsewhere):
        script = {"browser": browser, "proxy": proxy, "profile": str(profile), "steps": steps}
        found = _run_by_node("drive.mjs", script, address)
    foreign = [url for url in found["requests"] if not url.startswith((address, "about:"))]
    asked = [line for line in elsewhere if not any(host in line for host in _BROWSERS_OWN)]
    return found["seen"], found["errors"], foreign + asked


def open_plainly(
    site: Path, steps: Sequence[dict[str, Any]], profile: Path, browser: str
) -> list[dict[str, Any]]:
    """Open pages and drop files in Chromium without Playwright, which takes memory in the page."""
    with serving(site) as (address, _):
        script = {"browser": browser, "profile": str(profile), "steps": steps}
        found = _run_by_node("plain.mjs", script, address)
    seen: list[dict[str, Any]] = found["seen"]
    return seen


def built(folder: Path) -> Path:
    """Build the site into a folder."""
    build_site(str(folder))
    return folder


def bytes_to_fetch(site: Path) -> dict[str, int]:
    """Return the bytes of each file that a browser fetches, compressed where that helps."""
    files = [path for path in site.rglob("*") if path.is_file() and path.name[0] != "_"]
    return {
        path.relative_to(site).as_posix(): min(
            len(gzip.compress(path.read_bytes(), 9)), path.stat().st_size
        )
        for path in files
    }


def _run_by_node(name: str, script: dict[str, Any], address: str) -> dict[str, Any]:
    """Run a script of `web/site` on the site at an address, and return what it found."""
    ran = subprocess.run(
        ["node", str(WEB / "site" / name)],
        input=json.dumps(script).replace("{site}", address),
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=True,
        env={**os.environ, "NODE_OPTIONS": ""},
    )
    found: dict[str, Any] = json.loads(ran.stdout)
    return found
