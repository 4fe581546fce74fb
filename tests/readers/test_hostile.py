"""Each hostile file is refused by the name of the rule that it breaks, at no cost."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors import SafetensorError, safe_open

from weighbridge import readers
from weighbridge.errors import CheckpointError
from weighbridge.readers import header, index, read, safetensors

HOSTILE = Path(__file__).parents[1] / "hostile"
FILES: dict[str, bytes] = runpy.run_path(str(HOSTILE / "make.py"))["FILES"]
BROKEN = [name for name in FILES if name != "sound.safetensors"]

# Where this reader is stricter than the reference library, which reads these.
STRICTER = {
    "duplicate~metadata",
    "duplicate~tensor",
    "elements~after-zero",
    "elements~before-zero",
    "entry",
    "extra-key",
    "header-start~space",
    "metadata~null",
}
# Rules that no kept file can break: tests/readers/test_index.py breaks them.
NOT_KEPT = {"missing", "unreadable", "regular-file", "index-limit", "format", "no-checkpoint", "which-index"}


def rule_of(name: str) -> str:
    return name.partition(".")[0].partition("~")[0]


def test_the_files_are_what_their_script_writes() -> None:
    kept = {path.name: path.read_bytes() for path in HOSTILE.iterdir() if path.is_file() and path.name != "make.py"}
    assert kept == FILES


def test_every_rule_has_a_file_that_breaks_it() -> None:
    modules = (readers, header, index, safetensors)
    rules = {found.name for module in modules for found in vars(module).values() if isinstance(found, header.Rule)}
    assert {rule_of(name) for name in BROKEN} | NOT_KEPT == rules


def test_the_sound_file_is_read() -> None:
    assert [row.name for row in read(HOSTILE / "sound.safetensors").rows] == ["b", "a"]


@pytest.mark.parametrize("name", BROKEN)
def test_a_hostile_file_is_refused_by_name_of_its_rule(name: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        read(HOSTILE / name)
    message = str(caught.value)
    assert message.startswith(f"{HOSTILE / name}: {rule_of(name)}: ")
    assert len(message) < 700
    assert message.isprintable()
    assert caught.value.hint


@pytest.mark.parametrize("name", [name for name in BROKEN if name.endswith(".safetensors")])
def test_the_reference_refuses_it_too_or_is_known_to_be_laxer(name: str) -> None:
    try:
        with safe_open(HOSTILE / name, framework="np"):
            refused = False
    except SafetensorError:
        refused = True
    assert refused is (name.removesuffix(".safetensors") not in STRICTER)


# Nothing is allocated by a length found in a file: all are refused within 64 MiB of address space beyond Python's own.
UNDER_LIMITS = """
import os, resource, sys
from weighbridge.errors import CheckpointError
from weighbridge.readers import read
with open("/proc/self/statm") as file:
    now = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (now + 64 * 2**20, now + 64 * 2**20))
resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
refused = 0
for name in sys.argv[2:]:
    try:
        read(os.path.join(sys.argv[1], name))
    except CheckpointError:
        refused += 1
print(refused)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the process's size from /proc")
def test_all_are_refused_within_small_limits() -> None:
    command = [sys.executable, "-c", UNDER_LIMITS, str(HOSTILE), *BROKEN]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout, done.stderr) == (f"{len(BROKEN)}\n", "")
