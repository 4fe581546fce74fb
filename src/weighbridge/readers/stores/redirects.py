"""Follows the redirects of a server, but never from a public address into a private network.

A server that a user does not control could otherwise make weighbridge ask for what only this
machine can reach: the metadata service of a cloud at 169.254.169.254, or a router.
"""

from __future__ import annotations

import ipaddress
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from weighbridge.readers.rules import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MOST_REDIRECTS = 20

REDIRECT = Rule(
    "redirect",
    "the server of a public address redirects to a private one, which is not followed",
    "do not trust this address; if you trust it, give the private address itself",
)
MANY_REDIRECTS = Rule(
    "redirects",
    f"the server redirects more than {MOST_REDIRECTS} times",
    "check the spelling of the address",
)


@contextmanager
def streamed(
    client: Any, url: str, path: str, headers: Mapping[str, str], timeout: float
) -> Iterator[Any]:
    """Ask for an address, follow its redirects, and yield the answer, whose body is not read yet.

    ``path`` is the address that a message shows.

    Raises:
        CheckpointError: a public address redirects to a private one, or there are too many
            redirects.
    """
    request = client.build_request("GET", url, headers=headers, timeout=timeout)
    first_host = request.url.host
    for _ in range(MOST_REDIRECTS + 1):
        answer = client.send(request, stream=True, follow_redirects=False)
        try:
            if answer.next_request is None:
                yield answer
                return
        finally:
            answer.close()
        request = answer.next_request
        host = request.url.host
        if is_private(host) and not is_private(first_host):
            raise REDIRECT.broken(path, host=host)
    raise MANY_REDIRECTS.broken(path, host=request.url.host)


def is_private(host: str) -> bool:
    """Return whether a host is this machine, or one that only its network can reach.

    The host of a proxy's user may have no address here; it then counts as public, because the
    proxy decides what it reaches.

    Example:
        >>> is_private("169.254.169.254"), is_private("127.1"), is_private("::ffff:10.0.0.1")
        (True, True, True)
        >>> is_private("8.8.8.8"), is_private("2001:4860:4860::8888")
        (False, False)
    """
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return False
    return any(_is_private_address(str(address[0])) for *_, address in found)


def _is_private_address(text: str) -> bool:
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        address = address.ipv4_mapped or address.sixtofour or address
    return not address.is_global
