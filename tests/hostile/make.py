"""Writes the hostile files of this folder: one file, one broken rule.

Each is kept, so that anyone can hold another reader against it. ``python tests/hostile/make.py`` writes them again.
"""

from __future__ import annotations

import json
import os

HERE = os.path.dirname(os.path.abspath(__file__))


def file(header: object, data: int = 8, length: int | None = None) -> bytes:
    """Return a safetensors file: a header, as bytes or to be spelt as JSON, and so many zero bytes of data."""
    text = header if isinstance(header, bytes) else json.dumps(header, separators=(",", ":")).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + bytes(data)


def tensor(dtype: object = "F32", shape: object = (2,), begin: object = 0, end: object = 8) -> dict[str, object]:
    """Return a header's entry of one tensor, a sound one of 8 bytes unless told."""
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


SOUND = file({"__metadata__": {"format": "pt"}, "b": tensor(begin=8, end=16), "a": tensor()}, data=16)
SHARD = "sound.safetensors"

# The name of a file is the rule that it breaks, and after "~" which of the ways to break it.
SAFETENSORS = {
    "too-short~empty": b"",
    "too-short~seven-bytes": file({"a": tensor()})[:7],
    "header-limit~2^60": file({"a": tensor()}, length=2**60),
    "header-limit~2^64-1": file({"a": tensor()}, length=2**64 - 1),
    "header-limit~100000001": file({"a": tensor()}, length=100_000_001),
    "header-cut~by-one": file({}, data=0, length=3),
    "header-cut~100000000": file({"a": tensor()}, length=100_000_000),
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
    "duplicate~tensor": file(json.dumps({"a": tensor(), "b": tensor()}).replace('"b"', '"a"').encode()),
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
    "total-size~too-large": b'{"metadata": {"total_size": 1e999}, "weight_map": {"a": "sound.safetensors"}}',
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

FILES = {
    SHARD: SOUND,
    **{f"{name}.safetensors": content for name, content in SAFETENSORS.items()},
    **{f"{name}.safetensors.index.json": content for name, content in INDEXES.items()},
}


def main() -> None:
    """Write every file."""
    for name, content in FILES.items():
        with open(os.path.join(HERE, name), "wb") as out:
            out.write(content)


if __name__ == "__main__":
    main()
