"""Writes the folder of the static site: the page, the package, and Pyodide's own files."""

from __future__ import annotations

import json
import lzma
import os
import re
import shlex
import shutil
import subprocess
import zipfile
from io import BytesIO
from typing import TYPE_CHECKING

from weighbridge import __version__, data
from weighbridge.answers.answer import Answer
from weighbridge.errors import UsageError, WeighbridgeError
from weighbridge.render.document import Document, Lines, Title
from weighbridge.render.table import Table
from weighbridge.site.archive import NOT_IN_BROWSERS, PACKING, package_zip

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

PYODIDE = "314.0"
"""The releases of Pyodide that the tests run the site with."""
PYODIDE_FILES = (
    "pyodide.mjs",
    "pyodide.asm.mjs",
    "pyodide.asm.wasm",
    "pyodide-lock.json",
    "python_stdlib.zip",
)
_LIBRARY = "python_stdlib.zip"
_IN_PYODIDE = """
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
const folder = process.argv[1];
const { loadPyodide } = await import(pathToFileURL(`${folder}/pyodide.mjs`).href);
const pyodide = await loadPyodide({ indexURL: folder });
pyodide.runPython(readFileSync(0, "utf8"));
process.stdout.write(pyodide.globals.get("PACKED").toJs());
"""
"""Runs a script of Python from stdin in Pyodide, in node, and writes the bytes that it packed."""
_LONGEST_SECONDS = 300
POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self' 'wasm-unsafe-eval'",
        "worker-src 'self'",
        "connect-src 'self'",
        "style-src 'self'",
        "font-src 'self'",
        "img-src 'self'",
        "frame-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
    ]
)
"""What the page may load: its own files. A meta element cannot say `frame-ancestors`."""
FRAME_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src data: blob:; font-src data:; base-uri 'none'; form-action 'none'"
)
"""What the explorer in its frame may load; its areas and colours are inline styles."""
_STRICT = "".join(
    f"{path}\n  Content-Security-Policy: {POLICY}; frame-ancestors 'none'\n"
    for path in ("/", "/index.html", "/worker.js")
)
_HEADERS = f"""{_STRICT}/explore.html
  Content-Security-Policy: {FRAME_POLICY}; frame-ancestors 'self'
/*
  X-Content-Type-Options: nosniff
  Referrer-Policy: no-referrer
"""
_OUR_FILES = ("page.js", "worker.js", "frame.js", "icon.svg")
_LICENSES = f"""weighbridge {__version__}: Apache License 2.0.
pylatexenc: MIT License, Copyright (c) 2021 Philippe Faist.
Pyodide {{pyodide}}: Mozilla Public License 2.0. Its source: https://github.com/pyodide/pyodide.
CPython, which Pyodide contains: PSF License Version 2. Its library here is packed anew: some files
are compiled, and what a page does not need is left out.
Weighbridge Math, in explore.css, a subset of Latin Modern Math: GUST Font License.
"""


class BuiltSite(Answer):
    """A site that was written: its folder, and its files with their bytes."""

    def __init__(self, folder: str, files: dict[str, int]) -> None:
        self.folder, self.files = folder, files

    def to_dict(self) -> dict[str, Any]:
        """Return the folder and its files with their bytes, ready for JSON."""
        return {"folder": self.folder, "files": self.files}

    def document(self, lang: str = "en") -> Document:
        """Return a table of the files, and how to open the site."""
        texts = data.read_toml(f"words/site_built.{lang}.toml")
        rows = [(name, f"{size:,}") for name, size in self.files.items()]
        rows.append((texts["total"], f"{sum(self.files.values()):,}"))
        table = Table((texts["file"], texts["bytes"]), tuple(rows), "<>", totals=1)
        folder = self.folder
        if not _PLAIN.fullmatch(folder):
            folder = shlex.quote(folder)
        serve = f"python -m http.server --bind 127.0.0.1 --directory {folder} 8000"
        lines = (texts["serve"], f"  {serve}", texts["open"])
        return Document((Title(self.folder), table, Lines("\n".join(lines))), lang)


_PLAIN = re.compile(r"[\w./-]+")


def build_site(folder: str, pyodide: str | None = None) -> BuiltSite:
    """Write the site into a folder, which is made if there is none.

    Args:
        folder: the site's folder; files of an older site in it are replaced.
        pyodide: the folder of the npm package ``pyodide``; if left out, `find_pyodide` looks.

    Raises:
        UsageError: Pyodide was not found, is another release, or lacks a file.
        WeighbridgeError: the folder cannot be written.
    """
    runtime = pyodide or find_pyodide()
    version = _checked(runtime)
    contents = dict(_own_files(version))
    try:
        os.makedirs(os.path.join(folder, "pyodide"), exist_ok=True)
        for name, content in contents.items():
            with open(os.path.join(folder, name), "wb") as file:
                file.write(content)
        for name in PYODIDE_FILES:
            shutil.copyfile(os.path.join(runtime, name), os.path.join(folder, "pyodide", name))
        library = _packed_library(runtime)
        if library:
            with open(os.path.join(folder, "pyodide", _LIBRARY), "wb") as file:
                file.write(library)
    except OSError as error:
        what = f"cannot be written: {error.strerror}"
        raise WeighbridgeError(what, where=folder, hint="give another folder") from None
    names = (*contents, *(f"pyodide/{name}" for name in PYODIDE_FILES))
    return BuiltSite(folder, {name: os.path.getsize(os.path.join(folder, name)) for name in names})


def _own_files(pyodide: str) -> Iterator[tuple[str, bytes]]:
    from weighbridge.explorer.page import page_style  # noqa: PLC0415
    from weighbridge.render.annotated import STYLE  # noqa: PLC0415

    texts = {lang: data.read_toml(f"words/site.{lang}.toml") for lang in data.LANGUAGES}
    in_page = json.dumps(texts, ensure_ascii=False).replace("<", "\\u003c")
    page = data.read_text("pages/site/index.html")
    yield "index.html", page.format(policy=POLICY, words=in_page).encode()
    style = data.read_text("pages/site/site.css") + _without_colours(STYLE)
    yield "site.css", style.encode()
    frame = data.read_text("pages/site/explore.html")
    yield "explore.html", frame.format(frame_policy=FRAME_POLICY).encode()
    yield "explore.js", data.read_text("pages/explore.js").encode()
    yield "explore.css", page_style().encode()
    package = package_zip(NOT_IN_BROWSERS, for_site=True)
    for name in _OUR_FILES:
        text = data.read_text(f"pages/site/{name}")
        yield name, text.replace("UNPACKED_BYTES", str(len(package))).encode()
    yield "weighbridge.zip.xz", lzma.compress(package, filters=[PACKING])
    yield "licenses.txt", _LICENSES.format(pyodide=pyodide).encode()
    yield "_headers", _HEADERS.encode()


def _packed_library(runtime: str) -> bytes:
    """Return Python's library for the browser; b"" without a node that runs Pyodide."""
    node = shutil.which("node")
    if node is None:
        return b""
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "library.py")
    command = [node, "--input-type=module", "-e", _IN_PYODIDE, os.path.abspath(runtime)]
    with open(script, "rb") as source:
        try:
            ran = subprocess.run(  # noqa: S603  # node, with what was checked
                command, stdin=source, capture_output=True, timeout=_LONGEST_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return b""
    is_packed = ran.returncode == 0 and zipfile.is_zipfile(BytesIO(ran.stdout))
    return ran.stdout if is_packed else b""


def _without_colours(style: str) -> str:
    """Return the style of marked articles without its colours; the site has them by theme."""
    return style[style.index("body {") :]


def find_pyodide() -> str:
    """Return the folder of the npm package ``pyodide``, where ``npm ci`` puts it.

    Raises:
        UsageError: there is none.
    """
    checkout = os.path.join(data.ROOT, *[os.pardir] * 3)
    places = [
        os.path.normpath(os.path.join(root, *inside, "node_modules", "pyodide"))
        for root in (os.getcwd(), checkout)
        for inside in (("web",), ())
    ]
    for place in places:
        if os.path.isdir(place):
            return place
    raise UsageError(
        "the site needs Pyodide, which is not installed",
        hint="run npm ci in web/ of a clone, or npm install pyodide@314.0.7 anywhere, and give "
        "--pyodide node_modules/pyodide",
    )


def _checked(folder: str) -> str:
    """Return the version of a folder of Pyodide."""
    hint = "run npm install pyodide@314.0.7, and give --pyodide node_modules/pyodide"
    missing = [
        name
        for name in (*PYODIDE_FILES, "package.json")
        if not os.path.isfile(os.path.join(folder, name))
    ]
    if missing:
        what = "this is not the npm package pyodide: files are missing"
        raise UsageError(what, where=folder, values={"missing": ", ".join(missing)}, hint=hint)
    try:
        with open(os.path.join(folder, "package.json"), encoding="utf-8") as file:
            version = str(json.load(file)["version"])
    except (OSError, ValueError, KeyError, TypeError):
        what = "its package.json does not say a version"
        raise UsageError(what, where=folder, hint=hint) from None
    if not version.startswith(f"{PYODIDE}."):
        what = f"the site runs with Pyodide {PYODIDE}"
        raise UsageError(what, where=folder, values={"version": version}, hint=hint)
    return version
