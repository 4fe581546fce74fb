"""Paired measurements: two things are timed alternately, A B A B, and each pair gives one ratio.

A slow phase of the machine slows both halves of a pair, so ratios are more reliable than times.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from statistics import median
from timeit import Timer
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# A process's ru_maxrss is never below that of its parent, so the launcher is small: Python without
# its site module. It times one command, discards its output, and prints seconds, peak KiB and exit
# status.
_LAUNCHER = """
import os, sys, time
quiet = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
start = time.perf_counter()
child = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=quiet)
_, status, usage = os.wait4(child, 0)
print(time.perf_counter() - start, usage.ru_maxrss, os.waitstatus_to_exitcode(status))
"""


# Bytecode is compiled once, by the warm-up run, as pip does when it installs.
_ENVIRONMENT = {
    name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
}


class Run(NamedTuple):
    """The time and memory that one whole process took."""

    seconds: float
    peak_kib: float


class Pair(NamedTuple):
    """One measurement of A and one of B, taken right after each other."""

    a: float
    b: float


def process(command: Sequence[str]) -> Run:
    """Run a command to its end; its first word is the path of the program."""
    launch = [sys.executable, "-I", "-S", "-c", _LAUNCHER, *command]
    done = subprocess.run(launch, capture_output=True, text=True, check=True, env=_ENVIRONMENT)
    seconds, peak_kib, status = done.stdout.split()
    if status != "0":
        raise SystemExit(f"{' '.join(command)} ended with {status}: {done.stderr}")
    return Run(float(seconds), float(peak_kib))


def processes(a: Sequence[str], b: Sequence[str], runs: int) -> tuple[list[Pair], list[Pair]]:
    """Return the pairs of seconds and of peak KiB of two commands that run alternately.

    A warm-up run of each comes first.
    """
    process(a), process(b)
    found = [(process(a), process(b)) for _ in range(runs)]
    times = [Pair(one.seconds, other.seconds) for one, other in found]
    return times, [Pair(one.peak_kib, other.peak_kib) for one, other in found]


def calls(a: Callable[[], float], b: Callable[[], float], runs: int) -> list[Pair]:
    """Take two measurements alternately, after a warm-up of each."""
    a(), b()
    return [Pair(a(), b()) for _ in range(runs)]


def seconds_each(
    call: Callable[[], object], before: str | Callable[[], object] = "pass"
) -> Callable[[], float]:
    """Return a function that measures the seconds of one call, as the mean over 0.2 seconds.

    Garbage collection is off meanwhile, unless the call before it enables it.
    """
    timer = Timer(call, before)

    def measure() -> float:
        times, seconds = timer.autorange()
        return seconds / times

    return measure


def ratios(pairs: Sequence[Pair]) -> str:
    """Format the ratio A / B: median, minimum and maximum over the pairs."""
    found = [pair.a / pair.b for pair in pairs]
    return f"{_short(median(found))} ({_short(min(found))}–{_short(max(found))})"


def medians(pairs: Sequence[Pair], unit: float, name: str) -> str:
    """Format the medians of A and of B, each divided by a unit."""
    a, b = median(pair.a for pair in pairs), median(pair.b for pair in pairs)
    return f"{_short(a / unit)} {name} against {_short(b / unit)} {name}"


def machine() -> str:
    """Describe the machine that takes the measurements."""
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    system = f"{platform.system()} {platform.machine()}"
    return (
        f"{os.cpu_count()} cores, {memory_gib:.0f} GiB, {system}, "
        f"Python {platform.python_version()}"
    )


def _short(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"
