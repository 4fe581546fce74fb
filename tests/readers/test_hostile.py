"""Each hostile file is refused with the name of the rule that it breaks, at little cost."""

import subprocess
import sys
import zlib
from pathlib import Path

import hostile
import pytest
from hostile import FILES, HOSTILE
from safetensors import SafetensorError, safe_open

from weighbridge import readers
from weighbridge.errors import CheckpointError
from weighbridge.readers import (
    archive,
    distributed,
    flax,
    formats,
    gguf,
    index,
    npz,
    onnx,
    paths,
    pickled,
    pytorch,
    read,
    rules,
    safetensors,
    tensorflow,
)

BROKEN = [name for name in FILES if name != "sound.safetensors" and ".data-" not in name]

# Files that the reference library reads: this reader is stricter.
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
# Rules that no file here can break, or only a large one. Other tests break them: "items" below, the
# others in test_index.py and in the tests of the formats.
NOT_KEPT = {
    "missing",
    "unreadable",
    "regular-file",
    "index-limit",
    "format",
    "no-checkpoint",
    "which-index",
    "several-checkpoints",
    "no-match",
    "mixed-formats",
    "items",
    "changed",
    "config-limit",
    "gguf-limit",
    "onnx-limit",
    "tf-limit",
    "flax-names",
    "gguf-most",
    "npz-most",
    "pickle-texts",
    "tensors",
    "wide",
    "pickle-steps",
}


def rule_of(name: str) -> str:
    return name.partition(".")[0].partition("~")[0]


def test_the_files_equal_the_output_of_their_script() -> None:
    kept = {path.name: path.read_bytes() for path in HOSTILE.iterdir()}
    assert kept == FILES


def test_every_rule_has_a_file_that_breaks_it() -> None:
    modules = (
        readers,
        rules,
        formats,
        paths,
        index,
        safetensors,
        gguf,
        archive,
        pickled,
        pytorch,
        npz,
        onnx,
        tensorflow,
        flax,
        distributed,
    )
    names = {
        value.name
        for module in modules
        for value in vars(module).values()
        if isinstance(value, rules.Rule)
    }
    assert {rule_of(name) for name in BROKEN} | NOT_KEPT == names


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


# No length in a file makes a reader allocate memory: all files are refused within 64 MiB of address
# space beyond Python's own.
UNDER_LIMITS = """
import os, resource, sys
from weighbridge.errors import CheckpointError
from weighbridge.readers import read
with open("/proc/self/statm") as file:
    now = int(file.read().split()[0]) * resource.getpagesize()
more = int(sys.argv[1]) * 2**20
resource.setrlimit(resource.RLIMIT_AS, (now + more, now + more))
resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
for path in sys.argv[2:]:
    try:
        read(path)
    except CheckpointError as error:
        print(error.what.partition(":")[0])
"""
linux = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="reads the process's size from /proc"
)


def rules_within(mebibytes: int, paths: list[Path]) -> list[str]:
    """Return the rules that files break, read in one process that may grow by so many MiB."""
    command = [sys.executable, "-c", UNDER_LIMITS, str(mebibytes), *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.stderr == ""
    return done.stdout.split()


def write(path: Path, text: bytes) -> Path:
    """Write JSON as an index or as a safetensors header, as the file's name says."""
    path.write_bytes(
        text if path.name.endswith(".json") else len(text).to_bytes(8, "little") + text
    )
    return path


@linux
def test_all_are_refused_within_small_limits() -> None:
    assert rules_within(64, [HOSTILE / name for name in BROKEN]) == [
        rule_of(name) for name in BROKEN
    ]


# Small values take about forty times their bytes in the file. These files are too large to keep.
@linux
@pytest.mark.parametrize("name", ["a.safetensors", "a.safetensors.index.json"])
@pytest.mark.parametrize(
    "text",
    [
        b'{"a":[' + b"[]," * 5_000_000 + b"[]]}",
        b'{"a":[' + b"{}," * 5_000_000 + b"{}]}",
        b'{"a":[' + b"0," * 8_000_000 + b"0]}",
        b'{"a":' + b'{"":[' * 3_000_000,
        b"{" + b'"0":0,' * 3_000_000 + b'"0":0}',
    ],
    ids=["lists", "objects", "numbers", "nested", "pairs"],
)
def test_many_small_values_are_refused_before_they_are_built(
    tmp_path: Path, name: str, text: bytes
) -> None:
    assert rules_within(64, [write(tmp_path / name, text)]) == ["items"]


# When deflated, any number of instructions takes little space, and each may create an object.
@linux
def test_a_small_file_of_endless_instructions_is_refused(tmp_path: Path) -> None:
    instructions = b"\x80\x02" + b"]" * (2 * pickled.MOST_STEPS) + b"."
    member = hostile.member(
        "a/data.pkl", zlib.compress(instructions)[2:-4], method=8, size=len(instructions)
    )
    (tmp_path / "a.pt").write_bytes(hostile.packed(member))
    assert (tmp_path / "a.pt").stat().st_size < 20_000
    assert rules_within(150, [tmp_path / "a.pt"]) == ["pickle-steps"]


@linux
def test_the_most_values_allowed_fit_into_memory(tmp_path: Path) -> None:
    pairs = b"{" + b",".join(b'"%d":"%d"' % (i, i) for i in range(rules.MOST_ITEMS // 2)) + b"}"
    numbers = b'{"a":[' + b",".join([b"9" * 18] * (rules.MOST_ITEMS - 2)) + b"]}"
    paths = [write(tmp_path / f"{i}.safetensors", text) for i, text in enumerate((pairs, numbers))]
    assert [rules_within(224, [path]) for path in paths] == [["entry"], ["entry"]]


def test_one_value_too_many_is_refused_with_the_count(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError) as caught:
        read(write(tmp_path / "a.safetensors", b'{"a":[' + b"0," * (rules.MOST_ITEMS - 2) + b"0]}"))
    assert f"items: the JSON may have at most {rules.MOST_ITEMS:,} " in str(caught.value)
    assert caught.value.values == {"items": rules.MOST_ITEMS + 1}


def test_a_hundred_thousand_tensors_and_an_index_of_twice_as_many_are_read(tmp_path: Path) -> None:
    tensor = b'"model.layers.%d.weight":{"dtype":"F32","shape":[0,4096],"data_offsets":[0,0]}'
    tensors = b",".join(tensor % i for i in range(100_000))
    write(tmp_path / "a.safetensors", b'{"__metadata__":{"format":"pt"},' + tensors + b"}")
    names = b",".join(b'"model.layers.%d.weight":"a.safetensors"' % i for i in range(200_000))
    write(tmp_path / "model.safetensors.index.json", b'{"weight_map":{' + names + b"}}")
    found = read(tmp_path)
    assert (len(found.rows), len(found.absent)) == (100_000, 100_000)
