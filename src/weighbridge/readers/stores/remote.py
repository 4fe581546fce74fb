"""Remote files, of which only ranges are fetched: the code that all remote stores share."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from weighbridge.readers.rules import CHANGED, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Fetch = Callable[[int, int], tuple[bytes, int]]
"""Returns the existing bytes in a range, and the size of the whole file."""
Watch = Callable[[int, int], None]
"""Receives the number of files read so far, and the total."""
_Of = TypeVar("_Of")

AT_ONCE = 8  # files
_LEAST_BYTES = 64 * 1024  # of a range; most headers at the start of a file fit into it
_MOST_AHEAD_BYTES = 4 * 2**20

EXTRA = Rule(
    "not-installed",
    "reading from this address needs an optional package",
    "run pip install 'weighbridge[remote]'",
)
BROWSER = Rule(
    "browser",
    "a page in a browser does not read addresses",
    "download the file and drop it on the page, or run weighbridge on your computer",
)


class Remote(io.RawIOBase):
    r"""A remote file, of which only the requested ranges are fetched, and some bytes after them.

    Example:
        >>> asked = []
        >>> def fetch(begin, end):
        ...     asked.append((begin, end))
        ...     return bytes(range(10))[begin:end], 10
        >>> file = Remote("memory://a", fetch)
        >>> file.seek(8), file.read(4), file.size, asked
        (8, b'\x08\t', 10, [(0, 65536)])
    """

    def __init__(self, path: str, fetch: Fetch) -> None:
        self._path, self._fetch = path, fetch
        self._first, self.size = fetch(0, _LEAST_BYTES)
        self._piece, self._before = self._first, 0
        self._at, self._ahead = 0, _LEAST_BYTES

    def seekable(self) -> bool:
        """Return True: the file can be read in any order."""
        return True

    def readable(self) -> bool:
        """Return True: the file is for reading."""
        return True

    def tell(self) -> int:
        """Return the current offset."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to an offset; nothing is fetched until it is read."""
        self._at = max(
            0, offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.size}[whence]
        )
        return self._at

    def read(self, length: int = -1) -> bytes:
        """Return ``length`` bytes, or fewer if the file ends."""
        end = self.size if length < 0 else min(self._at + length, self.size)
        content = b"".join(self._pieces(self._at, end))
        self._at += len(content)
        return content

    def _pieces(self, at: int, end: int) -> Iterator[bytes]:
        while at < end:
            for piece, before in ((self._first, 0), (self._piece, self._before)):
                if before <= at < before + len(piece):
                    break
            else:
                piece, before = self._next(at, end), at
            yield piece[at - before : end - before]
            at = min(end, before + len(piece))

    def _next(self, at: int, end: int) -> bytes:
        """Fetch a piece; each one that directly follows another is twice as long."""
        follows = at == self._before + len(self._piece)
        self._ahead = min(2 * self._ahead, _MOST_AHEAD_BYTES) if follows else _LEAST_BYTES
        piece, size = self._fetch(at, min(max(end, at + self._ahead), self.size))
        if size != self.size or not piece:
            raise CHANGED.broken(self._path, bytes_before=self.size, bytes_now=size)
        self._piece, self._before = piece, at
        return piece


class RemoteFolder(NamedTuple):
    """A remote folder: its address, fixed to a commit if there is one, and its file names."""

    path: str
    names: list[str]


class Store(NamedTuple):
    """The functions that read files at addresses of one kind.

    ``folder`` returns the content of a folder, None if the address is that of a file, or another
    path to read instead. ``matching`` returns the addresses that match a pattern.
    """

    open: Callable[[str], Any]
    folder: Callable[[str], RemoteFolder | str | None]
    matching: Callable[[str], list[str]]


def read_at_once(
    files: Sequence[str], read: Callable[[str], _Of], watch: Watch | None = None
) -> list[_Of]:
    """Read several files at once, and return the results in the order of the files.

    After each file, ``watch`` is called with the number of files read so far and the total. After
    the first error, no further file is read.
    """
    with ThreadPoolExecutor(AT_ONCE) as pool:
        waiting = [pool.submit(read, file) for file in files]
        try:
            for done, future in enumerate(as_completed(waiting), start=1):
                future.result()
                if watch:
                    watch(done, len(files))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        return [future.result() for future in waiting]


def refuse_in_browser(path: str) -> None:
    """Refuse an address under Pyodide, which has neither threads nor sockets.

    Raises:
        CheckpointError: this Python runs in a browser.
    """
    if sys.platform == "emscripten":
        raise BROWSER.broken(path)


def imported(module: str, path: str) -> Any:
    """Import a module of a package that only the extra ``remote`` installs."""
    refuse_in_browser(path)
    try:
        return import_module(module)
    except ImportError as error:
        raise EXTRA.broken(path, package=error.name or module) from None
