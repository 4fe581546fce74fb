"""The abilities of the terminal behind a stream: its width, styles and bars."""

from __future__ import annotations

import os

from weighbridge.lean_typing import TYPE_CHECKING
from weighbridge.render.table import COLUMNS, PLAIN, Screen

if TYPE_CHECKING:
    from typing import TextIO

_NARROWEST, _WIDEST = 40, 120  # columns: fewer leave no room for tables, more are tiring to read
_ENABLE_VIRTUAL_TERMINAL_PROCESSING = 4  # a mode of Windows consoles


def screen_of(stream: TextIO | None) -> Screen:
    """Return the screen of a stream; if it is not a terminal, that of a file.

    The width is the terminal's, from 40 to 120 columns; ``COLUMNS`` in the environment replaces it.
    There are styles and bars unless ``NO_COLOR`` is set or the terminal does not support escape
    sequences; there are no bars if its encoding lacks their characters.
    """
    if stream is None or not stream.isatty():
        return PLAIN
    columns = min(max(_columns(stream.fileno()), _NARROWEST), _WIDEST)
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not _has_escapes(stream):
        return Screen(columns)
    return Screen(columns, is_styled=True, has_bars=_can_encode_bars(stream.encoding))


def _columns(descriptor: int) -> int:
    """Return the width from the environment, otherwise from the terminal, otherwise 80."""
    stated = os.environ.get("COLUMNS", "")
    if stated.isdecimal() and int(stated):
        return int(stated)
    try:
        return os.get_terminal_size(descriptor).columns or COLUMNS
    except OSError:
        return COLUMNS


def _has_escapes(stream: TextIO) -> bool:
    """Whether a terminal reads escape sequences; a Windows console has to be set to do so."""
    if os.name != "nt":
        return True
    import ctypes
    import msvcrt

    mode = ctypes.c_ulong()
    handle = msvcrt.get_osfhandle(stream.fileno())  # type: ignore[attr-defined]
    kernel = ctypes.windll.kernel32  # type: ignore[attr-defined]
    is_console = kernel.GetConsoleMode(ctypes.c_void_p(handle), ctypes.byref(mode))
    return bool(is_console and mode.value & _ENABLE_VIRTUAL_TERMINAL_PROCESSING)


def _can_encode_bars(encoding: str) -> bool:
    from weighbridge.render.bars import BLOCKS

    try:
        BLOCKS.encode(encoding)
    except (UnicodeError, LookupError):
        return False
    return True
