"""Fuzzes the readers: creates files that reach ever more code, and checks how each is read.

``python tools/fuzz.py [READER ...] [--seconds 20] [--corpus tests/corpus] [--keep] [--crashes
build/fuzz]``

READER is the name of a folder in the corpus; by default all readers run one after the other, for
this many seconds each. Whatever a file contains, reading it must give sound rows or raise
`CheckpointError` with a one-line message. Anything else, or using more than 10 seconds or 1 GiB,
ends the run with exit status 1; the file is kept in the folder for crashes, and its name printed.

Fuzzing starts from the files in ``tests/corpus`` and ``tests/hostile``, and inserts the words of
``tests/corpus/READER.dict``. ``--keep`` adds new files to the corpus if they reach code that no
other file reaches: commit them, and the next run starts with them. The tool needs atheris, which
includes libFuzzer (https://llvm.org/docs/LibFuzzer.html); the output of libFuzzer is shown when it
fails.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from math import prod
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CORPUS, HOSTILE = ROOT / "tests" / "corpus", ROOT / "tests" / "hostile"
BESIDE = HOSTILE / "sound.safetensors"  # the shard or data file that files of the corpus refer to
MEMORY = "/dev/shm"  # noqa: S108  # a folder in memory, if the system has it
LONGEST_BYTES = 1 << 13
MOST_SECONDS = 10
MOST_MEBIBYTES = 1024
LONGEST_MESSAGE = 1000

# The file name for each reader: readers look for other files by this name.
NAMES = {
    "safetensors": "model.safetensors",
    "index": "model.safetensors.index.json",
    "gguf": "model-00001-of-00002.gguf",
    "pytorch": "model.pt",
    "onnx": "model.onnx",
    "npz": "model.npz",
    "tensorflow": "model.index",
    "flax": "model.msgpack",
    "distributed": ".metadata",
}


class NotSoundError(Exception):
    """Rows or a message that a reader must never return, since other code would fail on them."""


def check(path: str) -> bool:
    """Check that a file is read soundly or refused in one line; return whether it was read."""
    from weighbridge import errors, readers  # noqa: PLC0415  # `inside` instruments them first

    try:
        found = readers.read(path)
    except errors.CheckpointError as error:
        message = str(error)
        if not (message.isprintable() and len(message) < LONGEST_MESSAGE and error.hint):
            raise NotSoundError(message) from error
        return False
    for row in found.rows:
        if prod(row.shape) != row.count or not 0 <= row.parameters <= row.count:
            raise NotSoundError(row)
    texts = [*found.metadata, *found.metadata.values(), *(row.name for row in found.rows)]
    "".join(texts).encode()
    return True


def main() -> int:
    """Fuzz the requested readers, and return the exit status."""
    options = _options()
    status = 0
    for reader in options.readers or NAMES:
        with tempfile.TemporaryDirectory(dir=MEMORY if os.path.isdir(MEMORY) else None) as scratch:
            status |= _fuzz(reader, Path(scratch), options)
    return status


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("readers", nargs="*", metavar="READER", help=", ".join(NAMES))
    parser.add_argument("--seconds", type=int, default=20, help="for each reader (default: 20)")
    parser.add_argument("--corpus", type=Path, default=CORPUS, help="default: tests/corpus")
    parser.add_argument(
        "--crashes", type=Path, default=ROOT / "build" / "fuzz", help="default: build/fuzz"
    )
    parser.add_argument(
        "--keep", action="store_true", help="add files that reach more code to the corpus"
    )
    options = parser.parse_args()
    if unknown := [reader for reader in options.readers if reader not in NAMES]:
        parser.error(f"there is no reader {unknown[0]}; the readers are {', '.join(NAMES)}")
    if not find_spec("atheris"):
        parser.error("atheris is not installed; pyproject.toml lists the systems that it supports")
    return options


def _fuzz(reader: str, scratch: Path, options: argparse.Namespace) -> int:
    """Fuzz one reader in its own process, print the result, and return the exit status."""
    found = scratch / "found"
    found.mkdir()
    suffix = NAMES[reader].partition(".")[2]
    for seed in (*(options.corpus / reader).iterdir(), *HOSTILE.glob(f"*.{suffix}")):
        shutil.copy(seed, found / seed.name)
    seeds = sorted(path.name for path in found.iterdir())
    done = _process(
        reader,
        scratch,
        f"-max_total_time={options.seconds}",
        f"-max_len={LONGEST_BYTES}",
        f"-timeout={MOST_SECONDS}",
        f"-rss_limit_mb={MOST_MEBIBYTES}",
        f"-artifact_prefix={scratch / reader}-",
        "-print_final_stats=1",
        *(f"-dict={words}" for words in options.corpus.glob(f"{reader}.dict")),
        str(found),
    )
    if done.returncode:
        print(done.stderr[-10_000:], file=sys.stderr)
        options.crashes.mkdir(parents=True, exist_ok=True)
        kept = [shutil.copy(path, options.crashes) for path in scratch.glob(f"{reader}-*")]
        print(f"{reader}: failed: {' '.join(map(str, kept))}", file=sys.stderr)
        return 1
    stated = dict(re.findall(r"stat::(\w+):\s+(\d+)", done.stderr))
    runs, peak = int(stated["number_of_executed_units"]), stated["peak_rss_mb"]
    reached = re.findall(r"DONE +cov: (\d+)", done.stderr)[-1]
    print(
        f"{reader}: {runs:,} files from {len(seeds)} seeds, {reached} branches, peak {peak} MiB",
        flush=True,
    )
    if options.keep:
        _keep(reader, scratch, seeds, options.corpus / reader)
    return 0


def _process(reader: str, scratch: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, __file__, "-inside", reader, str(scratch), *flags]
    return subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)


def _keep(reader: str, scratch: Path, seeds: list[str], corpus: Path) -> None:
    """Add to the corpus the smallest files that together reach code which the seeds do not."""
    kept, found = scratch / "kept", scratch / "found"
    kept.mkdir()
    for name in seeds:
        (found / name).rename(kept / name)
    _process(reader, scratch, "-merge=1", f"-max_len={LONGEST_BYTES}", str(kept), str(found))
    more = [path for path in kept.iterdir() if path.name not in seeds]
    for path in more:
        shutil.copy(path, corpus / path.name)
    print(f"{reader}: {len(more)} more in the corpus")


def inside(reader: str, scratch: str, *flags: str) -> None:
    """Fuzz one reader in this process; does not return."""
    import atheris  # noqa: PLC0415

    with atheris.instrument_imports(include=["weighbridge"]):
        from weighbridge.readers import tensorflow  # noqa: PLC0415

    tensorflow.has_checksum = lambda _raw, _stated: True  # no fuzzed file has the right checksum
    folder = Path(scratch, "read")
    folder.mkdir(exist_ok=True)
    shutil.copy(BESIDE, folder)
    path = str(folder / NAMES[reader])

    def one(content: bytes) -> None:
        with open(path, "wb") as file:
            file.write(content)
        check(path)

    # -merge starts this program again through a shell
    itself = shlex.join([sys.executable, __file__, "-inside", reader, scratch])
    atheris.Setup([itself, *flags], one)
    atheris.Fuzz()


if __name__ == "__main__":
    if sys.argv[1:2] == ["-inside"]:
        inside(*sys.argv[2:])
    sys.exit(main())
