"""What a reader returns: the header of one file."""

from __future__ import annotations

import gc
from functools import wraps
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, ParamSpec, TypeVar

from weighbridge.ledger.rows import Row

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Header(NamedTuple):
    """The header of one file: its rows in their order, its free text, and the bytes that were read.

    Most headers record neither ties nor buffers nor the purpose of a tensor. Each row's
    ``parameters`` is then its ``count``, a buffer's too, and ``role``, ``dims`` and ``tied_to`` are
    empty. ``called`` has the weight's name for each tensor whose own name does not show it, where
    something else in the header does.
    """

    rows: tuple[Row, ...]
    metadata: dict[str, str]
    header_bytes: int
    called: Mapping[str, str] = MappingProxyType({})


def found_row(name: str, shape: tuple[int, ...], dtype: str, count: int) -> Row:
    """Return the row of a tensor in a header, in half of the time that `Row` takes.

    Example:
        >>> row = Row("pooler.bias", (2,), "F32", "", (), 2, 2)
        >>> found_row("pooler.bias", (2,), "F32", 2) == row
        True
    """
    return tuple.__new__(Row, (name, shape, dtype, "", (), count, count, None))


def collecting_later(read: Callable[_P, _T]) -> Callable[_P, _T]:
    """Return the same function, with Python's garbage collection put off until it returns.

    Each collection goes through all objects, and a reader makes many, none of them garbage.
    """

    @wraps(read)
    def later(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        collects = gc.isenabled()
        gc.disable()
        try:
            return read(*args, **kwargs)
        finally:
            if collects:
                gc.enable()

    return later
