"""Drop every hostile file on the site in a browser, and compare with the command's own answer.

    python tools/dropped.py [PART OF A NAME …]

The site is built, and Chromium opens each file of ``tests/hostile`` in one page, one after the
other. What the page shows (exit status, text and messages) must be what the same command prints
in a folder with that file alone, and the page's worker must never have been started again. Exit
status 1 if a file differs. It needs Chromium, node, and ``npm ci`` in web/.
"""

from __future__ import annotations

import contextlib
import io
import shlex
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))
from sites import built, drive, needs_browser  # noqa: E402

from weighbridge.cli import main as command  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

HOSTILE = ROOT / "tests" / "hostile"
START = {"goto": "{site}/#model=bert-base-chinese&lang=en"}


def files_named(parts: Sequence[str]) -> list[Path]:
    """Return the hostile files whose names have one of the parts; all, if there is none."""
    every = sorted(HOSTILE.iterdir())
    return [path for path in every if not parts or any(part in path.name for part in parts)]


def answer_alone(path: Path, line: str) -> tuple[str, str, str]:
    """Return the status, text and messages of a command line, in a folder with this file alone."""
    out, err = io.StringIO(), io.StringIO()
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        shutil.copyfile(path, Path(folder) / path.name)
        with contextlib.chdir(folder):
            status = command([*shlex.split(line)[1:], "--lang", "en"])
    return str(status), out.getvalue(), err.getvalue().rstrip("\n")


def differences(files: Sequence[Path], seen: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield what the page shows otherwise than the command."""
    for path, shown in zip(files, seen, strict=True):
        if shown["restarts"]:
            yield f"{path.name}: the worker died"
            return
        if path.name not in shown["line"]:
            yield f"{path.name}: the page ran {shown['line']}"
            continue
        there = (shown["status"], shown["out"], shown["messages"])
        for kind, one, other in zip(
            ("status", "text", "messages"), there, answer_alone(path, shown["line"]), strict=True
        ):
            if one != other:
                yield f"{path.name}: {kind}: {one[:300]!r} on the page, {other[:300]!r} here"


def main() -> int:
    """Drop the files, and print what differs."""
    files = files_named(sys.argv[1:])
    browser = needs_browser()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="weighbridge-dropped-") as scratch:
        site = built(Path(scratch) / "site")
        steps = [START, *({"files": [str(path)]} for path in files)]
        seen, errors, _ = drive(site, steps, Path(scratch) / "profile", browser)
    found = list(differences(files[: len(seen) - 1], seen[1:]))
    found += errors
    print(*found, sep="\n")
    seconds = time.monotonic() - began
    print(f"{len(seen) - 1} of {len(files)} files dropped in {seconds:.0f} s, {len(found)} differ")
    return 1 if found or len(seen) - 1 < len(files) else 0


if __name__ == "__main__":
    sys.exit(main())
