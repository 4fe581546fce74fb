"""What the site takes: bytes to fetch, the first answers, memory, and bytes read of a large file.

Run it on a machine that does nothing else: python bench/site.py. It needs Chromium, node, and
`npm ci` in web/.
"""

from __future__ import annotations

import json
import os
import struct
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
from sites import built, bytes_to_fetch, drive, needs_browser, open_plainly

SPARSE_BYTES = 100_000_000_000
MEGABYTE = 1_000_000


def sparse_checkpoint(path: Path) -> Path:
    """Write a checkpoint of 100 GB of which only the header takes room on the disk."""
    tensors = {}
    each = SPARSE_BYTES // 400
    each -= each % 4
    for number in range(400):
        span = [number * each, (number + 1) * each]
        tensors[f"layers.{number}.weight"] = {
            "dtype": "F32",
            "shape": [each // 4],
            "data_offsets": span,
        }
    header = json.dumps(tensors).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + 400 * each)
    return path


class Memory:
    """The largest memory that a page's process had, in bytes, by Linux.

    ``resident`` includes the program and libraries of the browser, which all of its processes
    share; ``proportional`` divides what is shared by the number of processes that share it.
    Playwright has the browser record the network: the page's process then keeps each fetched file
    a second time, in base64, which no user's does.
    """

    def __init__(self) -> None:
        self.resident = self.proportional = 0
        self._is_done = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Memory:  # noqa: PYI034
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._is_done.wait(0.1):
            for process in Path("/proc").glob("[0-9]*"):
                try:
                    command = (process / "cmdline").read_text()
                    if "--type=renderer" not in command or "weighbridge-bench" not in command:
                        continue
                    rows = (process / "smaps_rollup").read_text().splitlines()[1:]
                except (OSError, UnicodeDecodeError):
                    continue  # it ended
                kilobytes = {row.partition(":")[0]: int(row.split()[1]) for row in rows}
                self.resident = max(self.resident, 1024 * kilobytes["Rss"])
                self.proportional = max(self.proportional, 1024 * kilobytes["Pss"])


def main() -> None:
    """Print the figures."""
    browser = needs_browser()
    with tempfile.TemporaryDirectory(prefix="weighbridge-bench-") as scratch:
        folder = Path(scratch)
        site = built(folder / "site")
        sizes = bytes_to_fetch(site)
        runtime = sum(size for name, size in sizes.items() if name.startswith("pyodide/"))
        print(f"to fetch, compressed: {sum(sizes.values()) / MEGABYTE:.2f} MB")
        print(f"of that, Pyodide's own files: {runtime / MEGABYTE:.2f} MB")
        large = sparse_checkpoint(folder / "large.safetensors")
        open_page = {"goto": "{site}/#model=bert-base-chinese"}
        steps = [open_page, open_page, {"files": [str(large)]}]
        began = time.monotonic()
        with Memory() as driven:
            seen, errors, _ = drive(site, steps, folder / "profile", browser)
        with Memory() as memory:
            open_plainly(site, steps, folder / "plain", browser)
        if errors:
            print(errors)
        cold, warm, dropped = seen
        print(f"first answer, cold: {cold['ms'] / 1000:.1f} s")
        print(f"first answer, warm: {warm['ms'] / 1000:.1f} s")
        print(f"largest resident memory of a page: {memory.resident / MEGABYTE:.0f} MB")
        print(f"its share of that: {memory.proportional / MEGABYTE:.0f} MB")
        print(
            f"resident with Playwright's record of the network: {driven.resident / MEGABYTE:.0f} MB"
        )
        size = large.stat().st_size
        print(f"of a file of {size:,} bytes: {dropped['bytes']:,} bytes read")
        print(f"in all: {time.monotonic() - began:.0f} s; load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
