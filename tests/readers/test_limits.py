"""Files made to be expensive: each costs little, or is refused by a limit that it names.

The files are too large to keep. Each is made here, and read in a process of its own, which reports
the growth of its memory, and its CPU time in units of a piece of work that it does before and
after: a busy machine is slow at both. `bench/limits.py` prints the seconds.
"""

from __future__ import annotations

import json
import pickle
import struct
import subprocess
import sys
import zlib
from typing import TYPE_CHECKING, NamedTuple

import hostile
import pytest
from hostile import FILES, HOSTILE

from weighbridge.errors import CheckpointError
from weighbridge.readers import pickled, read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

MERSENNE = 2**61 - 1  # Python hashes an integer as its remainder by this number

MOST_WORK = 20  # sums of two million squares, 2 to 3 seconds; what is quadratic takes hundreds
MOST_MEBIBYTES = 150
ATTEMPTS = 3  # the cheapest counts


def zipped(pickle_bytes: bytes) -> bytes:
    """Return a PyTorch archive with this pickle, deflated."""
    packed = zlib.compress(pickle_bytes, 9)[2:-4]
    member = hostile.member("a/data.pkl", packed, method=8, size=len(pickle_bytes))
    archive: bytes = hostile.packed(member)
    return archive


def stored(pickle_bytes: bytes, storages: dict[str, bytes] | None = None) -> bytes:
    """Return a PyTorch archive with this pickle, not deflated."""
    archive: bytes = hostile.saved(pickle_bytes, storages)
    return archive


def long1(number: int) -> bytes:
    instruction: bytes = hostile.whole(number)
    return instruction


def colliding_keys() -> bytes:
    keys = b"".join(long1(MERSENNE * at) + b"N" for at in range(1, 60_001))
    return stored(b"\x80\x02}(" + keys + b"u.")


def colliding_floats() -> bytes:
    keys = (float(MERSENNE) * 2.0 ** (61 * (at % 15)) * (1 + at) for at in range(60_000))
    pairs = b"".join(b"G" + struct.pack(">d", key) + b"N" for key in keys)
    return stored(b"\x80\x02}(" + pairs + b"u.")


def chosen_memo() -> bytes:
    puts = b"".join(b"r" + struct.pack("<L", at << 15) for at in range(40))
    return stored(b"\x80\x02]" + puts * 30_000 + b".")


def many_memos() -> bytes:
    return zipped(b"\x80\x04]" + b"\x94" * 2_000_000 + b".")


def many_objects(instruction: bytes) -> Callable[[], bytes]:
    return lambda: zipped(b"\x80\x04" + instruction * (1_250_000 // len(instruction)) + b".")


def long_text() -> bytes:
    """Return a small archive whose pickle inflates to a text of 190 MB."""
    content = b"X" + struct.pack("<L", 190_000_000) + b"a" * 190_000_000
    return zipped(b"\x80\x02" + content + b".")


def long_texts() -> bytes:
    """Return texts of which each takes four times its bytes, because of one character."""
    content = "\U0001f600".encode() + b"a" * 60_000
    text = b"X" + struct.pack("<L", len(content)) + content
    return zipped(b"\x80\x02" + text * 400 + b".")


def stored_text() -> bytes:
    content = "\U0001f600".encode() + b"a" * 90_000_000
    return stored(b"\x80\x02X" + struct.pack("<L", len(content)) + content + b".")


def dicts_of_pairs() -> bytes:
    pairs = b"]q\x00(" + b"".join(b"J" + struct.pack("<l", at) + b"N\x86" for at in range(50_000))
    calls = b"ccollections\nOrderedDict\nq\x01" + b"h\x01h\x00\x85R" * 1000
    return stored(
        b"\x80\x02" + pairs + b"e" + calls + b"X\xff\xff\x00\x00" + b"a" * 65_535 * 9 + b"."
    )


def shared_tensors(count: int) -> Callable[[], bytes]:
    def made() -> bytes:
        one: bytes = hostile.rebuilt()
        call = one[9:-2]  # without the start, the key and the end
        items = b"h\x00" * count
        return stored(b"\x80\x02" + call + b"q\x000](" + items + b"e.", {"0": bytes(8)})

    return made


def colliding_tensors() -> bytes:
    """Return empty tensors whose strides have one hash, if integers of any size may be strides."""
    head = hostile.rebuilt(elements=0, shape=(0,), strides=(1,))[9:]
    before, after = head[: head.index(b"t(\x8a\x01\x01t") + 2], b"t\x89}tR"
    items = b"".join(before + long1(MERSENNE * at + 1) + after for at in range(1, 4))
    return stored(b"\x80\x02](" + items * 4000 + b"e.", {"0": b""})


def gguf_keys() -> bytes:
    keys = b"".join(struct.pack("<Q7sIB", 7, b"%07d" % at, 0, 0) for at in range(4_000_000))
    return b"GGUF" + struct.pack("<IQQ", 3, 0, 4_000_000) + keys


def gguf_tensors() -> bytes:
    tensors = b"".join(
        struct.pack("<Q7sIQIQ", 7, b"%07d" % at, 1, 0, 0, 0) for at in range(1_000_000)
    )
    return b"GGUF" + struct.pack("<IQQ", 3, 1_000_000, 0) + tensors + bytes(64)


def gguf_array(kind: int, item: bytes, count: int) -> Callable[[], bytes]:
    def made() -> bytes:
        start = b"GGUF" + struct.pack("<IQQQ1sIIQ", 3, 0, 1, 1, b"a", 9, kind, count)
        return start + item * count + bytes(64)

    return made


def gguf_texts() -> bytes:
    text = "\U0001f600".encode() + b"a" * 60_000
    keys = b"".join(
        struct.pack("<Q4sIQ", 4, b"%04d" % at, 8, len(text)) + text for at in range(1500)
    )
    return b"GGUF" + struct.pack("<IQQ", 3, 0, 1500) + keys + bytes(64)


def flax_values() -> bytes:
    return b"\x81\xa1a\xdd" + struct.pack(">L", 1_000_000) + b"\x01" * 1_000_000


def flax_names() -> bytes:
    text = "\U0001f600".encode() + b"a" * 60_000
    names = b"".join(
        b"\xdb" + struct.pack(">L", len(text) + 4) + b"%04d" % at + text + b"\x01"
        for at in range(1500)
    )
    return b"\xde" + struct.pack(">H", 1500) + names


def tf_index(entries: int, key_bytes: int) -> Callable[[], bytes]:
    def made() -> bytes:
        value: bytes = hostile.saved_as(shape=(0,), size=0)
        first = (b"", hostile.field(1, 1) + hostile.field(3, hostile.field(1, 1)))
        keys = ((b"%08d" % at).ljust(key_bytes, b"k") for at in range(entries))
        pairs = [first, *((key, value) for key in keys)]
        return one_block(pairs)

    return made


def one_block(pairs: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return a TensorFlow index of one block, with a checksum that is computed fast enough."""
    from weighbridge.readers.tensorflow import crc32c

    varint: Callable[[int], bytes] = hostile.varint
    entries = [b"\0" + varint(len(key)) + varint(len(value)) + key + value for key, value in pairs]
    made = b""
    handles = []
    for block in (b"".join(entries) + struct.pack("<LL", 0, 1), b"\0" * 4 + struct.pack("<L", 1)):
        whole = block + b"\0"
        crc = crc32c(whole)
        handles.append(varint(len(made)) + varint(len(block)))
        made += whole + struct.pack("<L", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
    index = hostile.table_block([(b"z", handles[0])])
    whole = index + b"\0"
    crc = crc32c(whole)
    footer = handles[1] + varint(len(made)) + varint(len(index))
    made += whole + struct.pack("<L", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
    return made + footer.ljust(40, b"\0") + struct.pack("<Q", 0xDB4775248B80FB57)


def onnx_fields() -> bytes:
    graph = b"\x08\x01" * 3_000_000
    made: bytes = hostile.field(1, 7) + hostile.field(7, graph)
    return made


def onnx_initializers() -> bytes:
    """Return nameless matrices, each of which takes its name from one operation."""
    field, graph = hostile.field, []
    for at in range(33_000):
        name = b"m%05d" % at
        tensor = field(1, 0) + field(1, 1) + field(2, 1) + field(8, name)
        node = (
            field(1, name) + field(2, b"o") + field(3, b"/l%05d/MatMul" % at) + field(4, b"MatMul")
        )
        graph += [field(5, tensor), field(1, node)]
    made: bytes = field(1, 7) + field(7, b"".join(graph))
    return made


def onnx_texts() -> bytes:
    text = "\U0001f600".encode() + b"a" * 60_000
    pairs = b"".join(
        hostile.field(14, hostile.field(1, b"%04d" % at) + hostile.field(2, text))
        for at in range(1500)
    )
    made: bytes = hostile.field(1, 7) + pairs
    return made


def npz_arrays(count: int) -> Callable[[], bytes]:
    def made() -> bytes:
        array = hostile.npy()
        members = [hostile.member(f"{at}.npy", array) for at in range(count)]
        archive: bytes = hostile.packed(*members)
        return archive

    return made


def zip_members() -> bytes:
    """Return a directory of a million members, which need not exist."""
    entry = b"PK\1\2" + bytes(24) + struct.pack("<3H8xL", 7, 0, 0, 0)
    directory = b"".join(entry[:28] + entry[28:] + b"%07d" % at for at in range(300_000))
    start = b"PK\3\4" + bytes(60)
    end = struct.pack(
        "<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, 300_000, 300_000, len(directory), 64
    )
    end += struct.pack("<4sLQL", b"PK\6\7", 0, 64 + len(directory), 1)
    end += struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, 0, 0, 0)
    return start + directory + end


def safetensors_of(header: bytes) -> bytes:
    return len(header).to_bytes(8, "little") + header


def long_header(character: str) -> Callable[[], bytes]:
    def made() -> bytes:
        text = character + "a" * 89_000_000
        return safetensors_of(
            json.dumps({"__metadata__": {"a": text}}, ensure_ascii=False).encode()
        )

    return made


def wide_header(escaped: bool) -> Callable[[], bytes]:
    def made() -> bytes:
        text = "\U0001f600" + "a" * 20_000_000
        return safetensors_of(
            json.dumps({"__metadata__": {"a": text}}, ensure_ascii=escaped).encode()
        )

    return made


def full_header(ordered: bool) -> Callable[[], bytes]:
    """Return as many tensors as the limits allow, with long names."""

    def made() -> bytes:
        end = ',"data_offsets":[0,0],"shape":[0,4096]}'
        if ordered:
            end = ',"shape":[0,4096],"data_offsets":[0,0]}'
        tensors = (f'"{at:0150}":{{"dtype":"F32"{end}' for at in range(104_000))
        return safetensors_of(("{" + ",".join(tensors) + "}").encode())

    return made


def index_of_links(folder: Path) -> None:
    """Write an index of 50 shards, all of them links to one file of 20,000 tensors."""
    tensors = (
        f'"model.layers.{at}.weight":{{"dtype":"F32","shape":[0,4096],"data_offsets":[0,0]}}'
        for at in range(20_000)
    )
    (folder / "one.safetensors").write_bytes(
        safetensors_of(("{" + ",".join(tensors) + "}").encode())
    )
    shards = [f"{at:02}.safetensors" for at in range(50)]
    for shard in shards:
        (folder / shard).symlink_to("one.safetensors")
    names = {str(at): shard for at, shard in enumerate(shards)}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))


# The name of a file, what makes it, and the rule that refuses it; None if it is read.
CASES: dict[str, tuple[str, Callable[[], bytes], str | None]] = {
    "colliding keys of a pickle": ("a.pt", colliding_keys, None),
    "colliding floats of a pickle": ("a.pt", colliding_floats, None),
    "chosen numbers of a memo": ("a.pt", chosen_memo, None),
    "many numbers of a memo": ("a.pt", many_memos, "pickle-steps"),
    "many dicts": ("a.pt", many_objects(b"}"), None),
    "many dicts with an item": ("a.pt", many_objects(b"}NNs"), None),
    "many lists with an item": ("a.pt", many_objects(b"]Na"), None),
    "many calls": ("a.pt", many_objects(b"N)R"), None),
    "a long text, deflated": ("a.pt", long_text, "torch-limit"),
    "long texts, deflated": ("a.pt", long_texts, "pickle-texts"),
    "a long text": ("a.pt", stored_text, None),
    "dicts of the same pairs": ("a.pt", dicts_of_pairs, "pickle-step"),
    "500,000 shared tensors": ("a.pt", shared_tensors(500_000), "torch-deep"),
    "140,000 shared tensors": ("a.pt", shared_tensors(140_000), None),
    "colliding tensors": ("a.pt", colliding_tensors, None),
    "4,000,000 GGUF keys": ("a.gguf", gguf_keys, "gguf-most"),
    "1,000,000 GGUF tensors": ("a.gguf", gguf_tensors, "gguf-most"),
    "20,000,000 texts in GGUF": ("a.gguf", gguf_array(8, bytes(8), 20_000_000), "gguf-most"),
    "5,000,000 texts in GGUF": ("a.gguf", gguf_array(8, bytes(8), 5_000_000), None),
    "nested arrays in GGUF": (
        "a.gguf",
        gguf_array(9, struct.pack("<IQ", 0, 0), 5_000_000),
        "gguf-most",
    ),
    "long texts in GGUF": ("a.gguf", gguf_texts, "gguf-most"),
    "1,000,000 Flax values": ("a.msgpack", flax_values, "flax-deep"),
    "long names in Flax": ("a.msgpack", flax_names, "flax-names"),
    "a TensorFlow index of 19 MB": ("a.index", lambda: bytes(19_000_000), "tf-limit"),
    "60,000 TensorFlow tensors": ("a.index", tf_index(60_000, 8), "tf-limit"),
    "40,000 TensorFlow tensors": ("a.index", tf_index(40_000, 80), None),
    "3,000,000 ONNX fields": ("a.onnx", onnx_fields, "onnx-limit"),
    "33,000 nameless matrices": ("a.onnx", onnx_initializers, None),
    "long texts in ONNX": ("a.onnx", onnx_texts, "onnx-limit"),
    "30,000 arrays": ("a.npz", npz_arrays(30_000), "npz-most"),
    "20,000 arrays": ("a.npz", npz_arrays(20_000), None),
    "300,000 members of a zip": ("a.npz", zip_members, "zip-limit"),
    "a header of 89 MB": ("a.safetensors", long_header("a"), "header-limit"),
    "a wide header": ("a.safetensors", wide_header(escaped=False), "wide"),
    "an escaped wide header": ("a.safetensors", wide_header(escaped=True), "wide"),
    "a full header": ("a.safetensors", full_header(ordered=True), None),
    "a full header in another order": ("a.safetensors", full_header(ordered=False), None),
}
MEASURED = """
import resource, sys
from weighbridge.errors import CheckpointError
from weighbridge.readers import read
from weighbridge.readers.rules import Rule
import weighbridge.readers.packing, weighbridge.readers.stores.web
def most_bytes():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))
def seconds():
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime
def work():
    began = seconds()
    sum(number * number for number in range(2_000_000))
    return seconds() - began
read(sys.argv[1])
work_before, before, began = work(), most_bytes(), seconds()
rule = "read"
try:
    read(sys.argv[2])
except CheckpointError as error:
    rule = error.rule
used, after = seconds() - began, most_bytes()
print(rule, used, 2 * used / (work_before + work()), (after - before) / 2**20)
"""
linux = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="reads the process's size from /proc"
)


class Cost(NamedTuple):
    """The rule that refuses a file, or ``read``, and what reading took."""

    rule: str
    seconds: float
    work: float
    mebibytes: float


def cost(path: Path) -> Cost:
    command = [sys.executable, "-c", MEASURED, str(HOSTILE / "sound.safetensors"), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.stderr == ""
    rule, *used = done.stdout.split()
    return Cost(rule, *map(float, used))


def assert_costs_little(path: Path, rule: str) -> None:
    found = cost(path)
    assert found.rule == rule
    assert found.mebibytes < MOST_MEBIBYTES
    work = [found.work]
    while min(work) >= MOST_WORK and len(work) < ATTEMPTS:
        work.append(cost(path).work)
    assert min(work) < MOST_WORK


@pytest.mark.sampled("src/weighbridge/readers")
@linux
@pytest.mark.parametrize("name", CASES)
def test_an_expensive_file_costs_little_or_names_its_limit(tmp_path: Path, name: str) -> None:
    file_name, make, rule = CASES[name]
    path = tmp_path / file_name
    path.write_bytes(make())
    assert_costs_little(path, rule or "read")
    path.unlink()


@linux
def test_many_shards_that_are_one_file(tmp_path: Path) -> None:
    index_of_links(tmp_path)
    assert_costs_little(tmp_path / "model.safetensors.index.json", "tensors")


def test_the_message_of_a_limit_has_the_limit_and_the_value(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(
        b"GGUF" + struct.pack("<IQQ", 3, 0, 200_000) + bytes(2_700_000)
    )
    with pytest.raises(CheckpointError, match=r"at most 150,000 tensors, 100,000 keys") as caught:
        read(tmp_path / "a.gguf")
    assert caught.value.values["keys"] == 200_000


def test_numbers_as_keys_keep_their_values() -> None:
    content = {1: "a", 2**70: "b", 0.5: "c", -7: "d", None: "e", "1": "f", False: "g"}
    content.update({at + 0.5: "h" for at in range(3000)})
    content.update(dict.fromkeys(range(2**61, 2**61 + 3000), "i"))
    found, _ = pickled.unpickled(pickle.dumps(content), "a.pkl")
    assert list(found) == list(content)
    assert list(map(str, found)) == list(map(str, content))
    assert list(found.values()) == list(content.values())


# The stack of a thread on macOS, of musl and of WebAssembly is smaller than Python believes.
IN_A_THREAD = """
import sys, threading
from weighbridge.errors import CheckpointError
from weighbridge.readers import read
threading.stack_size(256 * 1024)
sys.setrecursionlimit(1_000_000)
def read_all():
    for path in sys.argv[1:]:
        try:
            read(path)
        except CheckpointError as error:
            print(error.rule, flush=True)
thread = threading.Thread(target=read_all)
thread.start()
thread.join()
"""


def test_every_hostile_file_is_refused_in_a_thread_with_a_small_stack() -> None:
    names = [name for name in FILES if name != "sound.safetensors" and ".data-" not in name]
    command = [sys.executable, "-c", IN_A_THREAD, *(str(HOSTILE / name) for name in names)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == [name.partition(".")[0].partition("~")[0] for name in names]
