"""The hostile files of ``tests/hostile``: one file, one broken rule.

Each is kept, so that anyone can hold another reader against it.
``python tests/support/hostile.py`` writes them again.
"""

from __future__ import annotations

import io
import json
import pickle
import struct
import zipfile
import zlib
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

HOSTILE = Path(__file__).parents[1] / "hostile"


def file(header: object, data: int = 8, length: int | None = None) -> bytes:
    """Return a safetensors file: a header, as bytes or for JSON, and this many zero bytes."""
    text = (
        header if isinstance(header, bytes) else json.dumps(header, separators=(",", ":")).encode()
    )
    return (len(text) if length is None else length).to_bytes(8, "little") + text + bytes(data)


def tensor(
    dtype: object = "F32", shape: object = (2,), begin: object = 0, end: object = 8
) -> dict[str, object]:
    """Return a header's entry of one tensor, a sound one of 8 bytes by default."""
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def one(**fields: object) -> bytes:
    """Return a file of 8 bytes of data whose one tensor has these fields."""
    return file({"a": {**tensor(), **fields}})


def index(*, weight_map: object, **other: object) -> bytes:
    """Return an index."""
    return json.dumps({**other, "weight_map": weight_map}).encode()


def without(key: str) -> bytes:
    """Return a file whose one tensor lacks a key."""
    return file({"a": {name: value for name, value in tensor().items() if name != key}})


SOUND = file(
    {"__metadata__": {"format": "pt"}, "b": tensor(begin=8, end=16), "a": tensor()}, data=16
)
SHARD = "sound.safetensors"

# The name of a file is the rule that it breaks, and after "~" which of the ways to break it.
SAFETENSORS = {
    "too-short~empty": b"",
    "too-short~seven-bytes": file({"a": tensor()})[:7],
    "header-limit~2^60": file({"a": tensor()}, length=2**60),
    "header-limit~2^64-1": file({"a": tensor()}, length=2**64 - 1),
    "header-limit~25000001": file({"a": tensor()}, length=25_000_001),
    "header-cut~by-one": file({}, data=0, length=3),
    "header-cut~25000000": file({"a": tensor()}, length=25_000_000),
    "header-start~no-header": file(b""),
    "header-start~array": file([]),
    "header-start~space": file(b' {"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'),
    "header-start~byte-order-mark": file(b"\xef\xbb\xbf{}", data=0),
    "utf-8": file(b'{"\xff":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'),
    "json~words": file(b"{not JSON}"),
    "json~cut": file(b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}'),
    "json~two": file(b"{}{}", data=0),
    "json~nan": one(shape=[float("nan")]),
    "json~infinity": one(shape=[float("inf")]),
    "json~control-character": file(b'{"a\n":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'),
    "nesting": file(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    "nesting~65": file(b'{"]":' + b"[" * 64 + b"]" * 64 + b"}"),
    "duplicate~tensor": file(
        json.dumps({"a": tensor(), "b": tensor()}).replace('"b"', '"a"').encode()
    ),
    "duplicate~key": file(b'{"a":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}}'),
    "duplicate~metadata": file(b'{"__metadata__":{"k":"v","k":"v"}}', data=0),
    "digits~shape": file(json.dumps({"a": tensor(shape=[7])}).replace("7", "7" * 5000).encode()),
    "digits~offset": file(json.dumps({"a": tensor(end=7)}).replace("7", "1" + "0" * 20).encode()),
    "surrogate~name": file({"\ud800": tensor()}),
    "surrogate~metadata": file({"__metadata__": {"k": "\udfff"}}, data=0),
    "metadata~array": file({"__metadata__": [["k", "v"]]}, data=0),
    "metadata~null": file({"__metadata__": None}, data=0),
    "metadata~number": file({"__metadata__": {"k": 1}}, data=0),
    "entry": file({"a": ["F32", [2], [0, 8]]}),
    "missing-key~dtype": without("dtype"),
    "missing-key~shape": without("shape"),
    "missing-key~data_offsets": without("data_offsets"),
    "extra-key": one(strides=[1]),
    "dtype~unknown": one(dtype="F33"),
    "dtype~lower-case": one(dtype="f32"),
    "dtype~array": one(dtype=["F32"]),
    "shape~number": one(shape=2),
    "shape~negative": one(shape=[-2]),
    "shape~two-negatives": one(shape=[-1, -2]),
    "shape~minus-zero": file(b'{"a":{"dtype":"F32","shape":[-0],"data_offsets":[0,0]}}', data=0),
    "shape~float": one(shape=[2.0]),
    "shape~exponent": file(b'{"a":{"dtype":"F32","shape":[2e0],"data_offsets":[0,8]}}'),
    "shape~bool": one(shape=[True, 2]),
    "shape~text": one(shape=["2"]),
    "elements~product": one(shape=[2**32, 2**31]),
    "elements~wraps-to-2": one(shape=[2**63 + 1, 2]),
    "elements~before-zero": file({"a": tensor(shape=[2**63 - 1, 2, 0], end=0)}, data=0),
    "elements~after-zero": file({"a": tensor(shape=[0, 2**63], end=0)}, data=0),
    "whole-bytes": one(dtype="F4", shape=[3]),
    "offsets~object": one(data_offsets={"begin": 0, "end": 8}),
    "offsets~three": one(data_offsets=[0, 4, 8]),
    "offsets~negative": one(data_offsets=[-8, 0]),
    "offsets~float": one(data_offsets=[0, 8.0]),
    "offsets~bool": one(data_offsets=[False, 8]),
    "backwards": one(data_offsets=[8, 0]),
    "size~too-few": one(shape=[3]),
    "size~too-many": one(shape=[1]),
    "size~2^64": one(shape=[], data_offsets=[0, 2**64 - 1]),
    "overlap~same-bytes": file({"a": tensor(), "b": tensor()}),
    "overlap~by-one": file({"a": tensor(), "b": tensor(begin=7, end=15)}, data=15),
    "hole~before-the-first": file({"a": tensor(begin=8, end=16)}, data=16),
    "hole~between": file({"a": tensor(), "b": tensor(begin=9, end=17)}, data=17),
    "truncated~by-one": file({"a": tensor()}, data=7),
    "truncated~past-the-end": file({"a": tensor(shape=[2**40], end=2**42)}),
    "trailing~by-one": file({"a": tensor()}, data=9),
    "trailing~no-tensors": file({}, data=1),
}

INDEXES = {
    "utf-8": b'{"weight_map": {"\xff": "sound.safetensors"}}',
    "json": b"not JSON",
    "nesting": b"[" * 100_000,
    "duplicate": b'{"weight_map": {"a": "sound.safetensors", "a": "sound.safetensors"}}',
    "digits": index(weight_map={"a": SHARD}, metadata={"total_size": 10**20}),
    "object": b"[]",
    "surrogate": index(weight_map={"\ud800": SHARD}),
    "weight-map~missing": b'{"metadata": {"total_size": 16}}',
    "weight-map~array": index(weight_map=[SHARD]),
    "weight-map~empty": index(weight_map={}),
    "weight-map~number": index(weight_map={"a": 1}),
    "total-size~negative": index(weight_map={"a": SHARD}, metadata={"total_size": -1}),
    "total-size~half": index(weight_map={"a": SHARD}, metadata={"total_size": 16.5}),
    "total-size~too-large": (
        b'{"metadata": {"total_size": 1e999}, "weight_map": {"a": "sound.safetensors"}}'
    ),
    "total-size~text": index(weight_map={"a": SHARD}, metadata={"total_size": "16"}),
    "shard-path~up": index(weight_map={"a": "../../etc/passwd"}),
    "shard-path~down-and-up": index(weight_map={"a": "x/../../hostile/sound.safetensors"}),
    "shard-path~absolute": index(weight_map={"a": "/etc/passwd"}),
    "shard-path~backslash": index(weight_map={"a": "..\\sound.safetensors"}),
    "shard-path~drive": index(weight_map={"a": "C:sound.safetensors"}),
    "shard-path~nul": index(weight_map={"a": "sound.safetensors\0"}),
    "shard-path~empty": index(weight_map={"a": ""}),
    "shard-path~folder": index(weight_map={"a": "."}),
    "shard-path~other-spelling": index(weight_map={"a": "./sound.safetensors"}),
    "shard-missing": index(weight_map={"a": "model-00001-of-00002.safetensors"}),
}


# GGUF


def text(of: str | bytes, length: int | None = None) -> bytes:
    """Return a text behind its length."""
    raw = of.encode() if isinstance(of, str) else of
    return struct.pack("<Q", len(raw) if length is None else length) + raw


def key(name: str | bytes, kind: int, value: bytes) -> bytes:
    """Return a key with its value."""
    return text(name) + struct.pack("<I", kind) + value


def array(kind: int, length: int, items: bytes = b"") -> bytes:
    """Return an array of so many items of a type, whatever stands in it."""
    return struct.pack("<IQ", kind, length) + items


def block(
    name: str | bytes = "a",
    sizes: Sequence[int] = (2,),
    kind: int = 0,
    offset: int = 0,
    rank: int | None = None,
) -> bytes:
    """Return what a header says of one tensor: 2 elements of F32 by default."""
    sizes_ = struct.pack(f"<{len(sizes)}Q", *sizes)
    return (
        text(name)
        + struct.pack("<I", len(sizes) if rank is None else rank)
        + sizes_
        + struct.pack("<IQ", kind, offset)
    )


def gguf(*parts: bytes, tensors: int = 0, keys: int = 0, version: int = 3, data: int = 8) -> bytes:
    """Return a GGUF file: its head, keys and tensors, padding, and this many zero bytes."""
    header = b"GGUF" + struct.pack("<IQQ", version, tensors, keys) + b"".join(parts)
    return header + bytes(-len(header) % 32) + bytes(data)


GGUF = {
    "gguf-magic~other": b"GGML" + gguf()[4:],
    "gguf-magic~cut": b"GGUF\x03",
    "gguf-version~1": gguf(version=1),
    "gguf-version~99": gguf(version=99),
    "gguf-version~99-turned-round": b"GGUF\x00\x00\x00\x63" + bytes(64),
    "gguf-cut~head": gguf()[:20],
    "gguf-cut~name": gguf(text("abc", 100), bytes(30), tensors=1)[:60],
    "gguf-count~tensors-2^60": gguf(tensors=2**60),
    "gguf-count~keys-2^60": gguf(keys=2**60),
    "gguf-count~numbers-2^40": gguf(key("a", 9, array(4, 2**40)), keys=1),
    "gguf-count~texts-2^40": gguf(key("a", 9, array(8, 2**40)), keys=1),
    "gguf-count~arrays-2^40": gguf(key("a", 9, array(9, 2**40)), keys=1),
    "gguf-cut~text-2^60": gguf(key("a", 8, text("b", 2**60)), keys=1),
    "gguf-cut~text-2^64-1": gguf(key("a", 8, text("b", 2**64 - 1)), keys=1),
    "gguf-cut~text-in-array": gguf(key("a", 9, array(8, 2, text("b") + text("c", 2**63))), keys=1),
    "gguf-text~name-2^60": gguf(text("a", 2**60) + bytes(40), tensors=1),
    "gguf-text~key-2^60": gguf(text("a", 2**60) + bytes(40), keys=1),
    "gguf-text~no-utf-8": gguf(block(b"\xff"), tensors=1),
    "gguf-value~13": gguf(key("a", 13, bytes(8)), keys=1),
    "gguf-value~2^32-1": gguf(key("a", 2**32 - 1, bytes(8)), keys=1),
    "gguf-value~array-of-13": gguf(key("a", 9, array(13, 1, bytes(8))), keys=1),
    "gguf-value~nesting": gguf(key("a", 9, array(9, 1) * 1000), keys=1),
    "gguf-twice~key": gguf(key("a", 4, bytes(4)), key("a", 4, bytes(4)), keys=2),
    "gguf-twice~tensor": gguf(block(), block(offset=32), tensors=2, data=40),
    "gguf-alignment~0": gguf(
        key("general.alignment", 4, struct.pack("<I", 0)), block(), keys=1, tensors=1
    ),
    "gguf-alignment~24": gguf(
        key("general.alignment", 4, struct.pack("<I", 24)), block(), keys=1, tensors=1
    ),
    "gguf-alignment~text": gguf(
        key("general.alignment", 8, text("32")), block(), keys=1, tensors=1
    ),
    "gguf-dims~5": gguf(block(sizes=(1, 1, 1, 1, 2)), tensors=1),
    "gguf-dims~2^32-1": gguf(block(rank=2**32 - 1), tensors=1),
    "gguf-dims~negative": gguf(block(sizes=(2**64 - 2,)), tensors=1),
    "gguf-dims~product": gguf(block(sizes=(2**32, 2**31)), tensors=1),
    "gguf-dims~after-zero": gguf(block(sizes=(0, 2**63)), tensors=1),
    "gguf-type~removed": gguf(block(kind=4), tensors=1),
    "gguf-type~unknown": gguf(block(kind=200), tensors=1),
    "gguf-blocks": gguf(block(sizes=(33,), kind=2), tensors=1, data=36),
    "gguf-offset~backwards": gguf(block(), block("b", offset=0), tensors=2, data=40),
    "gguf-offset~overlap": gguf(block(sizes=(16,)), block("b", offset=32), tensors=2, data=128),
    "gguf-offset~hole": gguf(block(), block("b", offset=64), tensors=2, data=128),
    "gguf-offset~not-aligned": gguf(block(), block("b", offset=8), tensors=2, data=40),
    "gguf-offset~2^64-1": gguf(block(offset=2**64 - 1), tensors=1),
    "gguf-short~by-one": gguf(block(), tensors=1, data=7),
    "gguf-short~past-the-end": gguf(block(sizes=(2**40,)), tensors=1),
    "gguf-split~missing-00001-of-00002": gguf(
        key("split.count", 2, struct.pack("<H", 2)), block(), keys=1, tensors=1
    ),
    "gguf-split~text-00001-of-00002": gguf(key("split.count", 8, text("two")), keys=1),
    "gguf-split~array-00001-of-00002": gguf(key("split.count", 9, array(4, 1, bytes(4))), keys=1),
    "gguf-split~digits-00001-of-00002": gguf(key("split.count", 8, text("9" * 5000)), keys=1),
    "gguf-split~other-count-00001-of-00003": gguf(
        key("split.count", 2, struct.pack("<H", 2)), keys=1
    ),
}

# PyTorch


def saved(pickled: bytes, storages: Mapping[str, bytes] | None = None, **other: bytes) -> bytes:
    """Return an archive as torch.save writes it: a pickle, and storages."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, content in {
            "data.pkl": pickled,
            **{f"data/{name}": raw for name, raw in (storages or {}).items()},
            **other,
        }.items():
            archive.writestr(zipfile.ZipInfo(f"archive/{name}"), content)
    return made.getvalue()


def member(  # noqa: PLR0913  # each is a field that a file can lie about
    name: str | bytes,
    data: bytes = b"\x80\x02}.",
    *,
    local: str | bytes | None = None,
    method: int = 0,
    flags: int = 0,
    size: int | None = None,
    packed_bytes: int | None = None,
    offset: int | None = None,
) -> tuple[bytes, bytes, int | None]:
    """Return a member as stored in an archive, its directory entry, and the offset in the entry."""
    raw, said = (
        each.encode() if isinstance(each, str) else each
        for each in (name, name if local is None else local)
    )
    sizes = (
        len(data) if packed_bytes is None else packed_bytes,
        len(data) if size is None else size,
    )
    start = struct.pack(
        "<4s5H3L2H", b"PK\x03\x04", 20, flags, method, 0, 0, 0, *sizes, len(said), 0
    )
    entry = struct.pack(
        "<4s6H3L5H1L",
        b"PK\x01\x02",
        20,
        20,
        flags,
        method,
        0,
        0,
        0,
        *sizes,
        len(raw),
        0,
        0,
        0,
        0,
        0,
    )
    return start + said + data, entry + b"%s" + raw, offset


def packed(
    *members: tuple[bytes, bytes, int | None],
    count: int | None = None,
    directory_bytes: int | None = None,
    start: int | None = None,
    large: tuple[int, int, int] | None = None,
) -> bytes:
    """Return an archive of these; by default its end describes its directory correctly."""
    body, directory = b"", b""
    for content, entry, offset in members:
        directory += entry.replace(
            b"%s", struct.pack("<L", len(body) if offset is None else offset), 1
        )
        body += content
    body = body or b"PK\x03\x04"
    ends = b""
    if large:
        ends = struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, large[0], *large)
        ends += struct.pack("<4sLQL", b"PK\x06\x07", 0, len(body) + len(directory), 1)
    counts = (
        0xFFFF if large else len(members) if count is None else count,
        len(directory) if directory_bytes is None else directory_bytes,
        len(body) if start is None else start,
    )
    return (
        body
        + directory
        + ends
        + struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, counts[0], *counts, 0)
    )


def short(of: str) -> bytes:
    """Return the instruction that pushes a text."""
    return b"X" + struct.pack("<I", len(of)) + of.encode()


def whole(number: int) -> bytes:
    """Return the instruction that pushes an integer."""
    raw = number.to_bytes(number.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8a" + bytes([len(raw)]) + raw


def rebuilt(
    *,
    kind: str = "FloatStorage",
    storage: str = "0",
    elements: int = 2,
    offset: int = 0,
    shape: Sequence[int] = (2,),
    strides: Sequence[int] = (1,),
) -> bytes:
    """Return a pickle of a dict with one tensor, of 2 elements of F32 by default."""
    sizes = b"(" + b"".join(map(whole, shape)) + b"t(" + b"".join(map(whole, strides)) + b"t"
    held = (
        b"("
        + short("storage")
        + b"ctorch\n"
        + kind.encode()
        + b"\n"
        + short(storage)
        + short("cpu")
        + whole(elements)
        + b"tQ"
    )
    return (
        b"\x80\x02}"
        + short("a")
        + b"ctorch._utils\n_rebuild_tensor_v2\n("
        + held
        + whole(offset)
        + sizes
        + b"\x89}tRs."
    )


def named(module: str, name: str) -> bytes:
    """Return a pickle that would call something."""
    return b"\x80\x02c" + module.encode() + b"\n" + name.encode() + b"\n(" + short("true") + b"tR."


def old(system: bytes) -> bytes:
    """Return a file as torch.save wrote it before archives, with this third pickle."""
    first = pickle.dumps(0x1950A86A20F9469CFC6C, 2) + pickle.dumps(1001, 2)
    return first + system + pickle.dumps({}, 2) + pickle.dumps([], 2)


EIGHT = {"0": bytes(8)}
DEEP = b"\x80\x02" + b"}" + (b"q\x00" + short("k") + b"}") * 40 + b"s" * 40 + b"."
TIMES = b"]q\x00" + b"".join(
    b"](" + (b"h" + bytes([at])) * 100 + b"eq" + bytes([at + 1]) for at in range(6)
)
NESTED = b"".join(b"M" + struct.pack("<H", at) + b"]" for at in range(600))
NAMES = b"\x80\x02}" + short("k" * 60_000) + b"}(" + NESTED + b"us."  # 600 lists under a long name
COPIES = (
    b"\x80\x02]("
    + b"NN\x86" * 1000
    + b"eq\x00ccollections\nOrderedDict\nq\x01"
    + b"h\x01h\x00\x85R" * 100
    + b"."
)
MULTIPLIED = b"\x80\x02" + TIMES + b"."  # lists of one list a hundred times, six deep

PYTORCH = {
    "pickle-global~os.system": saved(named("posix", "system")),
    "pickle-global~eval": saved(named("builtins", "eval")),
    "pickle-global~unknown": saved(named("my.own", "Class")),
    "pickle-global~stack": saved(b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R."),
    "pickle-step~unknown": saved(b"\x80\x02\xff."),
    "pickle-global~instance": saved(b"\x80\x02(ios\nsystem\n."),
    "pickle-global~object": saved(b"\x80\x02(cos\nsystem\n" + short("true") + b"o."),
    "pickle-global~extension": saved(b"\x80\x02\x82\x01."),
    "pickle-global~cut": saved(named("posix", "system")[:-1]),
    "pickle-global~system-information": old(named("posix", "system")),
    "pickle-step~long-name": saved(b"\x80\x02cos\n" + b"a" * 1001 + b"\n."),
    "pickle-step~memo-2^32-1": saved(b"\x80\x02Nr\xff\xff\xff\xff."),
    "pickle-step~float": saved(b"\x80\x02F" + b"9" * 65 + b"\n."),
    "pickle-key~long": saved(b"\x80\x02}" + short("a" * 65_537) + b"Ns."),
    "pickle-step~empty-stack": saved(b"\x80\x02."),
    "pickle-step~no-mark": saved(b"\x80\x02Nt."),
    "pickle-step~no-memo": saved(b"\x80\x02j\xff\xff\xff\xff."),
    "pickle-step~digits": saved(b"\x80\x02I" + b"9" * 5000 + b"\n."),
    "pickle-step~name": saved(b"\x80\x02" + TIMES + b"h\x00\x93."),
    "pickle-step~copies": saved(COPIES),
    "pickle-step~long": saved(b"\x80\x02}\x8b" + struct.pack("<I", 2000) + b"\x7f" * 2000 + b"}s."),
    "pickle-cut~no-stop": saved(b"\x80\x02}"),
    "pickle-cut~bytes-2^60": saved(b"\x80\x05\x96" + struct.pack("<Q", 2**60) + b"."),
    "pickle-cut~text-2^60": saved(b"\x80\x05\x8d" + struct.pack("<Q", 2**60) + b"."),
    "pickle-key": saved(b"\x80\x02}(Nt" + b"Ns."),
    "torch-deep": saved(DEEP),
    "torch-deep~multiplied": saved(MULTIPLIED),
    "torch-deep~names": packed(
        member("a/data.pkl", zlib.compress(NAMES)[2:-4], method=8, size=len(NAMES))
    ),
    "torch-pickle": saved(b"", **{"other.pkl": b""})[:-22] + b"PK\x05\x06" + bytes(18),
    "torch-storage~missing": saved(rebuilt()),
    "torch-storage~other-size": saved(rebuilt(), {"0": bytes(7)}),
    "torch-storage~other-kind": saved(rebuilt(kind="Tensor"), EIGHT),
    "pickle-global~storage": saved(rebuilt(kind="OtherStorage"), EIGHT),
    "torch-tensor~no-sizes": saved(
        rebuilt().replace(b"(\x8a\x01\x02t(", b"\x8a\x01\x02(", 1), EIGHT
    ),
    "torch-tensor~negative": saved(rebuilt(shape=(-2,)), EIGHT),
    "torch-tensor~negative-offset": saved(rebuilt(offset=-1), EIGHT),
    "torch-tensor~dims": saved(rebuilt(shape=(1,) * 65, strides=(1,) * 65), EIGHT),
    "torch-tensor~ranks": saved(rebuilt(shape=(1, 2)), EIGHT),
    "surrogate~tensor": saved(
        rebuilt().replace(short("a"), b"X\x03\x00\x00\x00\xed\xa0\x80", 1), EIGHT
    ),
    "torch-tensor~offset-2^63": saved(rebuilt(elements=0, offset=2**63, shape=(0,)), {"0": b""}),
    "torch-twice": saved(
        b"\x80\x02}(" + short("1") + rebuilt()[9:-2] + b"K\x01" + rebuilt()[9:-2] + b"u.",
        EIGHT,
    ),
    "torch-elements": saved(rebuilt(shape=(2**62, 2), strides=(0, 0)), EIGHT),
    "torch-beyond~shape": saved(rebuilt(shape=(3,)), EIGHT),
    "torch-beyond~offset": saved(rebuilt(offset=1), EIGHT),
    "torch-beyond~stride": saved(rebuilt(strides=(2**60,)), EIGHT),
    "zip-end~cut": saved(rebuilt(), EIGHT)[:-1],
    "torch-pickle~two": packed(member("a/data.pkl"), member("b/data.pkl")),
    "torch-limit~bomb": packed(
        member("a/data.pkl", zlib.compress(bytes(1000))[2:-4], method=8, size=2**31 - 1)
    ),
    "torch-file~words": b"no checkpoint",
    "torch-file~empty": b"",
    "torch-file": pickle.dumps(1, 2) * 5,
    "zip-limit": packed(directory_bytes=2**31),
    "zip-limit~2^63": packed(large=(1, 2**63, 0)),
    "zip-directory~begins-past-the-end": packed(member("a/data.pkl"), start=2**31),
    "zip-directory~more-members": packed(member("a/data.pkl"), count=2),
    "zip-directory~2^60-members": packed(member("a/data.pkl"), large=(2**60, 50, 0)),
    "zip-directory~member-past-the-end": packed(member("a/data.pkl", packed_bytes=2**30)),
    "zip-name~up": packed(member("../../etc/passwd")),
    "zip-name~absolute": packed(member("/etc/passwd")),
    "zip-name~backslash": packed(member("a\\data.pkl")),
    "zip-name~empty": packed(member("")),
    "zip-name~no-utf-8": packed(member(b"\xff")),
    "zip-twice": packed(member("a/data.pkl"), member("a/data.pkl")),
    "zip-member~other-name": packed(member("a/data.pkl", local="b/data.pkl")),
    "zip-member~elsewhere": packed(member("a/data.pkl", offset=5)),
    "zip-method~bzip2": packed(member("a/data.pkl", method=12)),
    "zip-method~encrypted": packed(member("a/data.pkl", flags=1)),
    "zip-deflate~no-deflate": packed(member("a/data.pkl", b"\xff" * 40, method=8)),
    "zip-deflate~too-short": packed(
        member("a/data.pkl", zlib.compress(b"abc")[2:-4], method=8, size=50)
    ),
    "zip-deflate~longer": packed(
        member("a/data.pkl", zlib.compress(bytes(100_000))[2:-4], method=8, size=0)
    ),
    "zip-end~comment": b"PK\x03\x04" + bytes(100),
}


# ONNX


def varint(number: int) -> bytes:
    """Return an integer of 7 bits a byte."""
    raw = b""
    while number > 0x7F:
        raw, number = raw + bytes([number & 0x7F | 0x80]), number >> 7
    return raw + bytes([number])


def field(number: int, value: int | bytes, length: int | None = None) -> bytes:
    """Return a field of a message: an integer, or bytes behind their length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value) if length is None else length) + value


def pair(name: str, value: str) -> bytes:
    """Return what says where an initializer's data is."""
    return field(13, field(1, name.encode()) + field(2, value.encode()))


def initializer(
    *more: bytes,
    name: bytes = b"a",
    kind: int = 1,
    dims: Sequence[int] = (2,),
    data: bytes | None = bytes(8),
) -> bytes:
    """Return a tensor: 2 elements of F32 by default."""
    sizes = b"".join(field(1, size) for size in dims)
    return (
        sizes
        + field(2, kind)
        + field(8, name)
        + (b"" if data is None else field(9, data))
        + b"".join(more)
    )


def onnx(*tensors: bytes) -> bytes:
    """Return a model with these initializers."""
    return field(1, 7) + field(7, b"".join(field(5, tensor) for tensor in tensors))


def outside(location: str, offset: str = "0", length: str = "8") -> bytes:
    """Return a model whose one tensor has its data in another file."""
    external = pair("location", location) + pair("offset", offset) + pair("length", length)
    return onnx(initializer(external, field(14, 1), data=None))


ONNX = {
    "onnx-message~cut": onnx(initializer())[:-1],
    "onnx-message~length-2^60": field(1, 7) + field(7, b"", length=2**60),
    "onnx-message~longer-than-its-message": onnx(field(9, b"", length=100)),
    "onnx-message~kind": field(1, 7) + b"\x0b\x0c",
    "onnx-message~integer-without-end": field(1, 7) + b"\x38" + b"\xff" * 40,
    "onnx-graph~none": field(1, 7),
    "onnx-graph~empty": b"",
    "onnx-text": onnx(initializer(name=b"\xff")),
    "onnx-text~long": onnx(initializer(name=b"a" * 70_000)),
    "onnx-type~text": onnx(initializer(kind=8)),
    "onnx-type~99": onnx(initializer(kind=99)),
    "onnx-shape~negative": onnx(initializer(dims=(2**64 - 2,))),
    "onnx-shape~product": onnx(initializer(dims=(2**32, 2**31))),
    "onnx-shape~dims": onnx(initializer(dims=(1,) * 65)),
    "onnx-size~less": onnx(initializer(dims=(3,))),
    "onnx-size~more": onnx(initializer(dims=(1,))),
    "onnx-twice": onnx(initializer(), initializer()),
    "onnx-path~up": outside("../../etc/passwd"),
    "onnx-path~absolute": outside("/etc/passwd"),
    "onnx-path~none": outside(""),
    "onnx-missing": outside("weights.bin"),
    "onnx-beyond~offset": outside("sound.safetensors", offset=str(2**60)),
    "onnx-beyond~digits": outside("sound.safetensors", offset="9" * 5000),
    "onnx-beyond~negative": outside("sound.safetensors", offset="-8"),
    "onnx-beyond~length": outside("sound.safetensors", length="9"),
}

# NumPy


def npy(
    header: str = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }",
    data: int = 8,
    version: int = 1,
    length: int | None = None,
) -> bytes:
    """Return an array's file: 2 elements of F32 by default."""
    lengths = struct.pack("<H" if version == 1 else "<I", len(header) if length is None else length)
    return b"\x93NUMPY" + bytes([version, 0]) + lengths + header.encode() + bytes(data)


def npz(array: bytes, name: str = "a.npy") -> bytes:
    """Return an archive of one array."""
    return packed(member(name, array))


def shaped(shape: str, descr: str = "'<f4'") -> bytes:
    """Return an archive of an array of this shape and dtype."""
    return npz(npy(f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}"))


NPZ = {
    "npz-member~name": npz(npy(), "a.txt"),
    "npz-member~magic": npz(b"\x92" + npy()[1:]),
    "npz-member~empty": npz(b""),
    "npz-version": npz(npy(version=4)),
    "npz-limit~longer-than-the-member": npz(npy(length=60_000)),
    "npz-limit~2^32-1": npz(npy(version=2, length=2**32 - 1)),
    "npz-header~call": npz(npy("__import__('os').system('true')")),
    "npz-header~nested": npz(npy("[" * 5000)),
    "npz-header~nested-shape": npz(npy(f"{{'descr': '<f4', 'shape': {'(' * 64}{')' * 64}}}")),
    "npz-header~signs": npz(npy("-" * 5000 + "1")),
    "npz-header~negations": npz(npy("not " * 2000 + "1")),
    "npz-header~key": npz(npy("{[]: 1}")),
    "npz-header~keys": npz(npy("{'descr': '<f4'}")),
    "npz-dtype~object": shaped("(2,)", "'|O'"),
    "npz-dtype~escape": shaped("(2,)", r"'\d'"),
    "npz-dtype~text": shaped("(2,)", "'<U9'"),
    "npz-dtype~structure": shaped("(2,)", "[('a', '<f4')]"),
    "npz-shape~negative": shaped("(-2,)"),
    "npz-shape~number": shaped("2"),
    "npz-shape~float": shaped("(2.0,)"),
    "npz-shape~product": shaped("(4294967296, 2147483648)"),
    "npz-size~less": shaped("(3,)"),
    "npz-size~more": shaped("(1,)"),
}


# TensorFlow: the index of a checkpoint, by tensorflow/core/lib/io/table_builder.cc and
# tensor_bundle.proto


def crc32c(raw: bytes) -> int:
    """Return Castagnoli's check of bytes, by long division."""
    rest = 0xFFFFFFFF
    for byte in raw:
        rest ^= byte
        for _ in range(8):
            rest = rest >> 1 ^ 0x82F63B78 * (rest & 1)
    return rest ^ 0xFFFFFFFF


def table_block(pairs: Sequence[tuple[bytes, bytes]], restarts: int | None = None) -> bytes:
    """Return a block of a table.

    A key leaves out what it shares with the one before, but every 16th key is whole; the offsets
    of these follow.
    """
    block, whole_at, before = b"", [], b""
    for at, (name, value) in enumerate(pairs):
        if at % 16 == 0:
            whole_at.append(len(block))
            before = b""
        shared = next(
            (at for at, (a, b) in enumerate(zip(before, name, strict=False)) if a != b), len(before)
        )
        block += (
            varint(shared) + varint(len(name) - shared) + varint(len(value)) + name[shared:] + value
        )
        before = name
    whole_at = whole_at or [0]
    return block + struct.pack(
        f"<{len(whole_at) + 1}L", *whole_at, len(whole_at) if restarts is None else restarts
    )


def table(
    *blocks: bytes, compression: int = 0, checksum: int = 0, at: int | None = None, order: int = 1
) -> bytes:
    """Return a table: these blocks, an empty one, an index of where they are, and the footer."""
    made = b""

    def put(block: bytes) -> bytes:
        nonlocal made
        whole_block = block + bytes([compression])
        crc = crc32c(whole_block) ^ checksum
        begin = len(made)
        made += whole_block + struct.pack("<L", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
        return varint(begin if at is None else at) + varint(len(block))

    handles = [put(block) for block in blocks][::order]
    empty = put(table_block([]))
    footer = empty + put(
        table_block([(b"%c" % number, handle) for number, handle in enumerate(handles)])
    )
    return made + footer.ljust(40, b"\0") + struct.pack("<Q", 0xDB4775248B80FB57)


def saved_as(
    kind: int = 1,
    shape: Sequence[int] = (2,),
    offset: int = 0,
    size: int = 8,
    shard: int = 0,
    more: bytes = b"",
) -> bytes:
    """Return an index entry for a tensor: 2 elements of F32 by default."""
    sizes = b"".join(field(2, field(1, each) if each else b"") for each in shape)
    places = b"".join(
        field(number, value) for number, value in ((3, shard), (4, offset), (5, size)) if value
    )
    return (
        field(1, kind) + field(2, sizes) + places + b"\x35" + bytes(4) + more
    )  # the data's checksum, of 4 bytes


def tf(*pairs: tuple[bytes, bytes], files: int = 1, first: bytes = b"") -> bytes:
    """Return an index of one block: its header, and these."""
    return table(table_block([(first, field(1, files) + field(3, field(1, 1))), *pairs]))


def tf_one(**fields: int | bytes | Sequence[int]) -> bytes:
    """Return an index of one tensor."""
    return tf((b"a", saved_as(**fields)))  # type: ignore[arg-type]


TENSORFLOW = {
    "tf-footer~empty": b"",
    "tf-footer~short": tf_one()[-47:],
    "tf-footer~magic": tf_one()[:-1] + b"\0",
    "tf-block~past-the-end": table(table_block([(b"", field(1, 1))]), at=2**40),
    "tf-block~handle": bytes(60) + b"\xff" * 40 + struct.pack("<Q", 0xDB4775248B80FB57),
    "tf-block~restarts": table(table_block([(b"", field(1, 1))], restarts=2**32 - 1)),
    "tf-block~no-restarts": table(b""),
    "tf-block~backwards": table(
        table_block([(b"a", b"")]), table_block([(b"", field(1, 1))]), order=-1
    ),
    "tf-checksum": table(table_block([(b"", field(1, 1))]), checksum=1),
    "tf-compressed": table(table_block([(b"", field(1, 1))]), compression=1),
    "tf-key~twice": tf((b"a", saved_as()), (b"a", saved_as())),
    "tf-key~backwards": tf((b"b", saved_as()), (b"a", saved_as())),
    "tf-key~shares-too-much": table(b"\x05\x01\x00a" + struct.pack("<2L", 0, 1)),
    "tf-key~past-the-block": table(b"\x00\xff\x7f\x00a" + struct.pack("<2L", 0, 1)),
    "tf-key~cut": table(b"\x00\x01" + struct.pack("<2L", 0, 1)),
    "tf-key~no-utf-8": tf((b"\xff", saved_as())),
    "tf-message~cut": tf((b"a", saved_as()[:-1])),
    "tf-message~length-2^60": tf((b"a", field(2, b"", length=2**60))),
    "tf-message~kind": tf((b"a", b"\x0b\x0c")),
    "tf-header~none": table(table_block([(b"a", saved_as())])),
    "tf-header~no-block": table(),
    "tf-header~no-files": tf(files=0),
    "tf-header~negative": tf(files=2**64 - 1),
    "tf-type~none": tf((b"a", b"")),
    "tf-type~99": tf_one(kind=99),
    "tf-type~reference": tf_one(kind=101),
    "tf-shape~negative": tf_one(shape=(2**64 - 1,)),
    "tf-shape~product": tf_one(shape=(2**32, 2**31)),
    "tf-shape~unknown": tf((b"a", field(1, 1) + field(2, field(3, 1)))),
    "tf-size~less": tf_one(shape=(3,)),
    "tf-size~more": tf_one(shape=(1,)),
    "tf-size~2^64-1": tf_one(size=2**64 - 1),
    "tf-size~slice": tf((b"\0\1a", saved_as(shape=(3,)))),
    "tf-shard~1": tf_one(shard=1),
    "tf-shard~negative": tf_one(shard=2**64 - 1),
    "tf-beyond~offset": tf_one(offset=1),
    "tf-beyond~text": tf((b"a", saved_as(kind=7, size=9))),
}


# Flax: MessagePack, by its specification, with arrays by flax/serialization.py


def word(of: str) -> bytes:
    """Return a text of up to 31 bytes."""
    return bytes([0xA0 | len(of)]) + of.encode()


def items(*values: bytes) -> bytes:
    """Return a list of up to 15 values."""
    return bytes([0x90 | len(values)]) + b"".join(values)


def names_of(**values: bytes) -> bytes:
    """Return a map of up to 15 names to values."""
    return bytes([0x80 | len(values)]) + b"".join(
        word(name) + value for name, value in values.items()
    )


def extension(held: bytes, kind: int = 1, length: int | None = None) -> bytes:
    """Return a value of Flax's own."""
    return b"\xc8" + struct.pack(">Hb", len(held) if length is None else length, kind) + held


def ndarray(
    *sizes: int, dtype: str = "float32", data: int = 8, more: bytes = b"", kind: int = 1
) -> bytes:
    """Return an array with so many zero bytes of data."""
    shape = items(*(b"\xcf" + struct.pack(">Q", size) if size >= 0 else b"\xff" for size in sizes))
    return extension(
        items(shape, word(dtype), b"\xc5" + struct.pack(">H", data) + bytes(data)) + more, kind
    )


def chunked(shape: bytes, **chunks: bytes) -> bytes:
    """Return a map of one array in chunks."""
    parts = {"__msgpack_chunked_array__": b"\xc3", "shape": shape, "chunks": names_of(**chunks)}
    return names_of(a=names_of(**parts))


HALVES = {"0": ndarray(2), "1": ndarray(2)}
FOUR = names_of(**{"0": b"\x02", "1": b"\x02"})

FLAX = {
    "flax-map~empty-list": items(),
    "flax-map~array": ndarray(2),
    "flax-map~bytes-behind": names_of(a=ndarray(2)) + b"\xc0",
    "flax-map~number-for-a-name": b"\x81\x01" + ndarray(2),
    "flax-cut~empty": b"",
    "flax-cut~name": names_of(a=ndarray(2))[:2],
    "flax-cut~data": names_of(a=ndarray(2))[:-1],
    "flax-cut~map-2^32-1": b"\xdf\xff\xff\xff\xff",
    "flax-cut~list-2^32-1": b"\x81\xa1a\xdd\xff\xff\xff\xff",
    "flax-cut~bytes-2^32-1": b"\x81\xa1a\xc6\xff\xff\xff\xff",
    "flax-cut~extension": names_of(a=b"\xc9\xff\xff\xff\xff\x01\x93"),
    "flax-cut~longer-than-its-array": names_of(
        a=extension(items(items(), word("float32"), b"\xc4\x09"), length=13), b=bytes(1)
    ),
    "flax-kind~never-used": names_of(a=b"\xc1"),
    "flax-kind~timestamp": names_of(a=b"\xd6\xff" + bytes(4)),
    "flax-deep~maps": b"\x81\xa1a" * 1000 + b"\xc0",
    "flax-deep~arrays": names_of(
        a=reduce(lambda held, _: extension(items(held)), range(1000), b"\xc0")
    ),
    "flax-name~no-utf-8": b"\x81\xa1\xff\xc0",
    "flax-name~long": b"\x81\xdb\x00\x01\x00\x01" + b"a" * 65_537 + b"\xc0",
    "flax-twice": b"\x82" + names_of(a=ndarray(2))[1:] * 2,
    "flax-twice~dots": names_of(**{"a.b": ndarray(2), "a": names_of(b=ndarray(2))}),
    "flax-array~number": names_of(a=extension(b"\x01")),
    "flax-array~two": names_of(a=extension(items(items(), word("float32")))),
    "flax-array~longer": names_of(a=ndarray(2, more=b"\xc0")),
    "flax-array~shape": names_of(a=extension(items(b"\x02", word("float32"), b"\xc4\x00"))),
    "flax-array~data": names_of(a=extension(items(items(), word("float32"), word("1234")))),
    "flax-dtype~object": names_of(a=ndarray(2, dtype="object")),
    "flax-dtype~number": names_of(a=extension(items(items(), b"\x01", b"\xc4\x00"))),
    "flax-shape~negative": names_of(a=ndarray(-1)),
    "flax-shape~text": names_of(a=extension(items(items(word("2")), word("float32"), b"\xc4\x00"))),
    "flax-shape~true": names_of(a=extension(items(items(b"\xc3"), word("int8"), b"\xc4\x01\x00"))),
    "flax-shape~product": names_of(a=ndarray(2**32, 2**31)),
    "flax-shape~after-zero": names_of(a=ndarray(0, 2**63)),
    "flax-shape~dims": names_of(
        a=extension(b"\x93\xdc\x00\x41" + b"\x01" * 65 + word("int8") + b"\xc4\x01\x00")
    ),
    "flax-size~less": names_of(a=ndarray(3)),
    "flax-size~more": names_of(a=ndarray(1)),
    "flax-chunks~none": chunked(names_of()),
    "flax-chunks~too-few": chunked(FOUR, **{"0": ndarray(2)}),
    "flax-chunks~dtypes": chunked(FOUR, **{"0": ndarray(2), "1": ndarray(2, dtype="int32")}),
    "flax-chunks~names": chunked(FOUR, **{"1": ndarray(2), "0": ndarray(2)}),
    "flax-chunks~numbers": chunked(FOUR, **{"0": b"\x01", "1": b"\x02"}),
    "flax-shape~of-chunks": chunked(names_of(**{"0": b"\xff"}), **HALVES),
}


# torch.distributed.checkpoint: a pickle, by torch/distributed/checkpoint/metadata.py


def of_class(name: str, state: bytes) -> bytes:
    return f"ctorch.distributed.checkpoint.metadata\n{name}\n".encode() + b")\x81" + state + b"b"


def pairs(**values: bytes) -> bytes:
    return b"}" + b"".join(key(name) + value + b"s" for name, value in values.items())


def key(text: str) -> bytes:
    return b"X" + len(text).to_bytes(4, "little") + text.encode()


def stored(dtype: bytes = b"ctorch\nfloat32\n", size: bytes = b"K\x02") -> bytes:
    properties = of_class("TensorProperties", b"(" + dtype + b"t")
    shape = b"ctorch\nSize\n" + size + b"\x85\x85R"
    return of_class("TensorStorageMetadata", pairs(properties=properties, size=shape))


def listing(**tensors: bytes) -> bytes:
    listed = pairs(state_dict_metadata=pairs(**tensors))
    return b"\x80\x02" + of_class("Metadata", listed) + b"."


DISTRIBUTED = {
    "distcp-metadata~number": b"\x80\x02K\x01.",
    "distcp-metadata~no-list": b"\x80\x02" + of_class("Metadata", b"}") + b".",
    "distcp-metadata~no-dtype": listing(a=stored(dtype=b"K\x01")),
    "distcp-metadata~text-for-a-size": listing(a=stored(size=key("2"))),
    "distcp-metadata~negative": listing(a=stored(size=b"J\xff\xff\xff\xff")),
    "distcp-metadata~2^63": listing(a=stored(size=b"\x8a\x09" + bytes(7) + b"\x80\x00")),
    "pickle-global~in-metadata": b"\x80\x02cos\nsystem\n" + key("true") + b"\x85R.",
}


FILES = {
    **{f"{name}.metadata": content for name, content in DISTRIBUTED.items()},
    **{f"{name}.msgpack": content for name, content in FLAX.items()},
    **{f"{name}.index": content for name, content in TENSORFLOW.items()},
    **{
        f"{name}.data-00000-of-00001": bytes(8)
        for name in TENSORFLOW
        if name.startswith("tf-beyond")
    },
    SHARD: SOUND,
    **{f"{name}.onnx": content for name, content in ONNX.items()},
    **{f"{name}.npz": content for name, content in NPZ.items()},
    **{f"{name}.gguf": content for name, content in GGUF.items()},
    **{f"{name}.pt": content for name, content in PYTORCH.items()},
    **{f"{name}.safetensors": content for name, content in SAFETENSORS.items()},
    **{f"{name}.safetensors.index.json": content for name, content in INDEXES.items()},
}


def main() -> None:
    """Write every file."""
    for name, content in FILES.items():
        (HOSTILE / name).write_bytes(content)


if __name__ == "__main__":
    main()
