"""Packs Python's library for the browser. Pyodide's own Python runs this file as a script.

Compiling what Python imports while it starts takes longer than the rest of the start, and more
memory. Only a Python of the same version writes bytecode that Pyodide reads.
"""

from __future__ import annotations

import importlib.util
import io
import marshal
import sys
import zipfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

LEFT_OUT = (
    *("_pyrepl/", "bdb.py", "cmd.py", "pdb.py", "pydoc.py", "optparse.py"),
    *("doctest.py", "unittest/", "timeit.py", "trace.py"),
    *("cProfile.py", "profile.py", "pstats.py", "pickletools.py"),
    *("modulefinder.py", "pyclbr.py", "tabnanny.py", "compileall.py", "zipapp.py"),
    *("ftplib.py", "imaplib.py", "mailbox.py", "poplib.py", "smtplib.py", "socketserver.py"),
    *("http/server.py", "wsgiref/", "xmlrpc/"),
)
"""A terminal, tests, profiles, tools for sources, and networks: not for this page."""
_EPOCH = (1980, 1, 1, 0, 0, 0)
_UNCHECKED = 1  # bytecode that is not compared with a source


def packed_library(library: bytes, compiled: Collection[str]) -> bytes:
    """Return a zip file of Python's library with some of its files compiled.

    Args:
        library: the zip file of the sources.
        compiled: names of its files to compile, without docstrings; the others stay sources.
    """
    content = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(library)) as sources,
        zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed,
    ):
        for name in sources.namelist():
            if name.startswith(LEFT_OUT):
                continue
            source = sources.read(name)
            if name in compiled:
                packed.writestr(zipfile.ZipInfo(f"{name}c", _EPOCH), bytecode(source, name), 8)
            else:
                packed.writestr(zipfile.ZipInfo(name, _EPOCH), source, 8)
    return content.getvalue()


def bytecode(source: bytes, name: str) -> bytes:
    """Return the content of a ``.pyc`` file for this Python's version."""
    code = compile(source, name, "exec", dont_inherit=True, optimize=2)
    flags = _UNCHECKED.to_bytes(4, "little")
    head = importlib.util.MAGIC_NUMBER + flags + importlib.util.source_hash(source)
    return head + marshal.dumps(code)


def imported_from(archive: str) -> set[str]:
    """Return the files of a zip file that this Python has imported."""
    inside = f"{archive}/"
    files = [str(getattr(module, "__file__", "")) for module in list(sys.modules.values())]
    return {file.removeprefix(inside) for file in files if file.startswith(inside)}


if sys.platform == "emscripten":
    _PLACE = next(place for place in sys.path if place.endswith(".zip"))
    with open(_PLACE, "rb") as _file:
        PACKED = packed_library(_file.read(), imported_from(_PLACE))
