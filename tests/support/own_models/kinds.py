"""Modules that do something else with an argument of another kind, such as a dict for a number."""

from __future__ import annotations

import contextlib
from typing import Any

from torch import nn


class Indexed(nn.Module):
    """Takes a dict or nothing; a number is an error."""

    def __init__(self, width: int = 8, extra: Any = None) -> None:
        super().__init__()
        self.first = nn.Linear(width, width)
        if extra:
            self.second = nn.Linear(width, extra["size"])


class Listed(nn.Module):
    """Takes a list or nothing; a number is an error."""

    def __init__(self, width=8, sizes=None) -> None:  # type: ignore[no-untyped-def]  # as it is
        super().__init__()
        self.first = nn.Linear(width, width)
        if sizes is not None:
            self.more = nn.ModuleList(nn.Linear(width, size) for size in sizes)


class Asking(nn.Module):
    """Does nothing with a number, and asks whether it got a dict or a list."""

    def __init__(self, width=8, extra=None) -> None:  # type: ignore[no-untyped-def]  # as it is
        super().__init__()
        self.first = nn.Linear(width, width)
        if isinstance(extra, dict):
            self.second = nn.Linear(width, extra["size"])
        elif isinstance(extra, list | tuple):
            self.second = nn.Linear(width, len(extra))


class Trying(nn.Module):
    """Tries whether it got a dict."""

    def __init__(self, width=8, extra=None) -> None:  # type: ignore[no-untyped-def]  # as it is
        super().__init__()
        self.first = nn.Linear(width, width)
        with contextlib.suppress(TypeError):
            self.second = nn.Linear(width, extra["size"])  # type: ignore[index]  # None has none


class Gathering(nn.Module):
    """Reads a dict from its keywords."""

    def __init__(self, width: int = 8, **kwargs: Any) -> None:
        super().__init__()
        options = kwargs.get("options", None)  # noqa: SIM910  # as people write it
        self.first = nn.Linear(width, width)
        if options is not None and hasattr(options, "keys"):
            self.second = nn.Linear(width, options["size"])


class Open(nn.Module):
    """Has an empty dict as a default."""

    def __init__(self, width: int = 8, options: Any = {}) -> None:  # noqa: B006  # as people write
        super().__init__()
        self.first = nn.Linear(width, options.get("out", width))
