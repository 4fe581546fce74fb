"""The progress of a run: a bar with the loss on a terminal, elsewhere a line from time to time."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from weighbridge import units

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from weighbridge.torch.finetuning.training import Watch

    Report = Callable[[int, dict[str, Any]], None]

EVERY_SECONDS = 25.0  # between lines, so that a wait stays below half a minute
_SMOOTHED = 20  # the last losses whose mean is shown


class _Losses:
    """The last losses of a run."""

    def __init__(self, done: int) -> None:
        self.step, self.last = done, list[float]()

    def add(self, step: int, loss: float) -> None:
        self.step = step
        self.last = [*self.last[1 - _SMOOTHED :], loss]

    @property
    def shown(self) -> str:
        """The mean of the last losses; a dash before the first one."""
        if not self.last:
            return "-"
        return units.fixed(sum(self.last) / len(self.last), 3)


@contextmanager
def as_bar(steps: int, done: int, report: Report) -> Iterator[Watch]:
    """Provide a function that draws a bar on a terminal, with the loss, and reports evaluations."""
    losses = _Losses(done)
    with tqdm(
        total=steps, initial=done, desc="steps", unit="step", file=sys.stderr, leave=False
    ) as bar:

        def watch(step: int, loss: float, found: dict[str, Any] | None) -> None:
            bar.update(step - losses.step)
            losses.add(step, loss)
            bar.set_postfix_str(f"loss {losses.shown}", refresh=False)
            if found:
                bar.clear()
                report(step, found)
                bar.refresh()

        yield watch


@contextmanager
def in_lines(steps: int, done: int, report: Report, say: Callable[[str], None]) -> Iterator[Watch]:
    """Provide a function that reports evaluations; meanwhile a thread reports where the run is.

    A thread does it because a step or an evaluation may take longer than the time between lines.
    """
    losses, ended, began = _Losses(done), threading.Event(), time.monotonic()

    def report_progress() -> None:
        while not ended.wait(EVERY_SECONDS):
            seconds = units.count(round(time.monotonic() - began))
            say(
                f"{units.count(losses.step)} of {units.count(steps)} steps done, "
                f"training loss {losses.shown}, after {seconds} s"
            )

    def watch(step: int, loss: float, found: dict[str, Any] | None) -> None:
        losses.add(step, loss)
        if found:
            report(step, found)

    thread = threading.Thread(target=report_progress, daemon=True)
    thread.start()
    try:
        yield watch
    finally:
        ended.set()
        thread.join()


@contextmanager
def silent() -> Iterator[Watch]:
    """Provide a function that reports nothing, for all processes but the first."""
    yield lambda *_: None
