"""A terminal of a chosen width, and what a program writes to it."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import NamedTuple

import pytest

pty = pytest.importorskip("pty", reason="there are no pseudo-terminals here")
fcntl = pytest.importorskip("fcntl")
termios = pytest.importorskip("termios")


class Shown(NamedTuple):
    """What a terminal shows of a program, with its two streams apart."""

    status: int
    out: str
    err: str


def on_terminal(*arguments: str, columns: int = 80, **environment: str) -> Shown:
    """Run a command line whose stdout and stderr are terminals with this many columns."""
    own = {name: text for name, text in os.environ.items() if name not in ("COLUMNS", "NO_COLOR")}
    own |= {"TERM": "xterm", "PYTHONUTF8": "1", **environment}
    command = (sys.executable, "-m", "weighbridge", *arguments)
    (out, stdout), (err, stderr) = pty.openpty(), pty.openpty()
    for terminal in (stdout, stderr):
        size = columns.to_bytes(2, sys.byteorder)
        rows = (24).to_bytes(2, sys.byteorder)
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, rows + size + bytes(4))
    process = subprocess.Popen(
        command, env=own, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr
    )
    os.close(stdout)
    os.close(stderr)
    written = _all_of(out), _all_of(err)
    return Shown(process.wait(), *written)


def _all_of(terminal: int) -> str:
    """Return everything that is written to a terminal until its other end is closed."""
    pieces = []
    while True:
        try:
            piece = os.read(terminal, 2**16)
        except OSError:  # on Linux, reading fails when the other end is closed
            piece = b""
        if not piece:
            break
        pieces.append(piece)
    os.close(terminal)
    return b"".join(pieces).decode(errors="replace").replace("\r\n", "\n")
