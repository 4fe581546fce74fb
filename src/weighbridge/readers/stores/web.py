"""Reads ranges of files over HTTP.

Requests that fail for a temporary reason are repeated, and no more than the requested bytes are
received.
"""

from __future__ import annotations

import atexit
import re
import time
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge.readers.rules import Rule
from weighbridge.readers.stores.redirects import streamed
from weighbridge.readers.stores.remote import Remote, Store, imported

if TYPE_CHECKING:
    from weighbridge.errors import CheckpointError

TRIES = 4
FIRST_WAIT_SECONDS = 0.5  # before the second try; each further wait is twice as long
LONGEST_WAIT_SECONDS = 30  # that a server may ask for
TIMEOUT_SECONDS = 10  # without a byte
SLOWEST_SECONDS = 60  # for one range, plus one second for each 64 KiB

ADDRESS = Rule("address", "the address cannot be read", "check its spelling")
UNAUTHORIZED = Rule(
    "401-unauthorized",
    "the server does not know you, and requires a login",
    "log in to the server, or check the address",
)
FORBIDDEN = Rule(
    "403-forbidden",
    "the server does not allow you to read this",
    "ask its owners for access, or log in",
)
NOT_FOUND = Rule(
    "404-not-found", "there is nothing at this address", "check its spelling and its revision"
)
OUTSIDE = Rule(
    "416-range",
    "the server says that the file ends before the requested bytes",
    "download the whole file, and give its path",
)
BUSY = Rule("429-busy", "the server has received too many requests", "try again later, or log in")
STATUS = Rule("status", "the server returned an error", "try again later")
NO_RANGES = Rule(
    "no-ranges",
    "the server sends whole files only, not parts of them",
    "download the file, and give its path",
)
CUT = Rule("cut", "the connection broke off on every try", "try again later")
TIMEOUT = Rule("timeout", "the server did not answer in time on any try", "try again later")
UNREACHABLE = Rule(
    "unreachable", "the server cannot be reached", "check the address, the network and the proxy"
)

_INTEGER = re.compile(r"[0-9]{1,20}")  # Python would take other digits, and any number of them

_BY_STATUS = {
    401: UNAUTHORIZED,
    403: FORBIDDEN,
    404: NOT_FOUND,
    410: NOT_FOUND,
    416: OUTSIDE,
    429: BUSY,
}
_MAY_PASS = (408, 425, 429, 500, 502, 503, 504)


@cache
def _client() -> Any:
    client = import_module("httpx2").Client()
    atexit.register(client.close)
    return client


class WebFile(NamedTuple):
    """A file on a server: the client that fetches it, its URL, the user's path, extra headers."""

    client: Any
    url: str
    path: str
    headers: dict[str, str]

    def fetch(self, begin: int, end: int) -> tuple[bytes, int]:
        """Fetch a range; repeat the request if the reason for a failure may be temporary."""
        web, wait = import_module("httpx2"), FIRST_WAIT_SECONDS
        headers = {
            "Range": f"bytes={begin}-{end - 1}",
            "Accept-Encoding": "identity",
            **self.headers,
        }
        for tried in range(1, TRIES + 1):
            try:
                with streamed(self.client, self.url, self.path, headers, TIMEOUT_SECONDS) as answer:
                    if tried == TRIES or answer.status_code not in _MAY_PASS:
                        return _body(answer, begin, end, self.path)
                    wait = _asked_wait(answer, wait, self.path)
            except (web.InvalidURL, web.UnsupportedProtocol) as error:
                raise ADDRESS.broken(self.path, reason=str(error)) from None
            except web.TransportError as error:
                if tried == TRIES:
                    raise lost(error, self.path) from None
            time.sleep(wait)
            wait *= 2
        raise AssertionError  # the last try returns or raises


def lost(error: Exception, path: str, tries: int = TRIES) -> CheckpointError:
    """Return the error for a connection that failed."""
    web = import_module("httpx2")
    if isinstance(error, web.TimeoutException):
        return TIMEOUT.broken(path, seconds=TIMEOUT_SECONDS, tries=tries)
    rule = UNREACHABLE if isinstance(error, web.ConnectError | web.ProxyError) else CUT
    return rule.broken(path, reason=str(error), tries=tries)


def _open_web(path: str) -> Remote:
    imported("httpx2", path)
    return Remote(path, WebFile(_client(), path, path, {}).fetch)


def _asked_wait(answer: Any, wait: float, path: str) -> float:
    """Return the seconds before the next try: those that the server asks for, within limits."""
    asked = answer.headers.get("Retry-After", "")
    if not _INTEGER.fullmatch(asked):
        return wait
    if float(asked) > LONGEST_WAIT_SECONDS:
        raise by_status(answer.status_code, path, retry_after_seconds=asked)
    return max(wait, float(asked))


def by_status(status: int, path: str, **values: Any) -> CheckpointError:
    """Return the error for the status of an answer."""
    return _BY_STATUS.get(status, STATUS).broken(path, status=status, **values)


def _body(answer: Any, begin: int, end: int, path: str) -> tuple[bytes, int]:
    """Return the requested bytes and no others, and the length of the file."""
    stated = answer.headers.get("Content-Length", "")
    content_range = re.fullmatch(
        r"bytes (?:([0-9]+)-([0-9]+)|\*)/([0-9]{1,20}|\*)", answer.headers.get("Content-Range", "")
    )
    if answer.status_code == 416 and begin == 0 and content_range and content_range[3] == "0":
        return b"", 0
    if (
        answer.status_code == 200
        and _INTEGER.fullmatch(stated)
        and begin == 0
        and int(stated) <= end
    ):
        size = int(stated)  # the whole file, as requested
    elif (
        answer.status_code == 206
        and content_range
        and content_range[3] != "*"
        and content_range[1] == str(begin)
    ):
        size = int(content_range[3])
    elif answer.status_code in (200, 206):
        raise NO_RANGES.broken(path, status=answer.status_code, asked=f"{begin}-{end - 1}")
    else:
        raise by_status(answer.status_code, path)
    return _taken(answer, max(0, min(end, size) - begin), path), size


def _taken(answer: Any, length: int, path: str) -> bytes:
    latest = time.monotonic() + SLOWEST_SECONDS + length / 65536
    taken = bytearray()
    for piece in answer.iter_raw():
        taken += piece[: length - len(taken)]
        if len(taken) == length:
            break
        if time.monotonic() > latest:
            raise TIMEOUT.broken(path, bytes=len(taken), requested_bytes=length)
    if len(taken) < length:
        raise import_module("httpx2").ReadError(f"received {len(taken)} of {length} bytes")
    return bytes(taken)


def _no_folder(path: str) -> None:  # noqa: ARG001  # a server does not list its files
    return None


def _address_alone(path: str) -> list[str]:
    return [path]


STORE = Store(_open_web, _no_folder, _address_alone)
