"""The progress bar on stderr, for slow commands.

It is not in `output`, which every command imports, because contextlib is slow to import.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager

from weighbridge.cli.output import is_watched
from weighbridge.data import LANGUAGES
from weighbridge.lean_typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from weighbridge.readers import Watch


@contextmanager
def watching(
    what: str = "headers", unit: str = "file", lang: str = LANGUAGES[0]
) -> Iterator[Watch | None]:
    """Provide a function that draws a progress bar on a terminal, and erase the bar at the end."""
    if not is_watched():
        yield None
        return
    bars: list[Any] = []

    def watch(done: int, files: int) -> None:
        if not bars:
            from tqdm import tqdm

            from weighbridge.render.messages import in_language

            desc, each = in_language(what, lang), in_language(unit, lang)
            bars.append(tqdm(total=files, desc=desc, unit=each, file=sys.stderr, leave=False))
        bars[0].update(done - bars[0].n)

    try:
        yield watch
    finally:
        for bar in bars:
            bar.close()
