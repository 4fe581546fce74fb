"""Circular links: one message with the name of the rule, and exit status 2, wherever they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hostile import FILES

from weighbridge.cli import main

if TYPE_CHECKING:
    from pathlib import Path

SOUND = FILES["sound.safetensors"]
ONNX = FILES["onnx-missing.onnx"]  # a model whose data is in weights.bin

# The given path, the other files in the folder, the link, and the rule.
CASES = {
    "a checkpoint": ("a.safetensors", {}, "a.safetensors", "unreadable"),
    "a checkpoint without suffix": ("a", {}, "a", "unreadable"),
    "an index": ("a.safetensors.index.json", {}, "a.safetensors.index.json", "unreadable"),
    "a shard": (
        "a.safetensors.index.json",
        {"a.safetensors.index.json": b'{"weight_map": {"a": "b.safetensors"}}'},
        "b.safetensors",
        "unreadable",
    ),
    "a folder of a shard": (
        "a.safetensors.index.json",
        {"a.safetensors.index.json": b'{"weight_map": {"a": "parts/b.safetensors"}}'},
        "parts",
        "shard-missing",
    ),
    "a model in a folder": (".", {"b.safetensors": SOUND}, "model.safetensors", "unreadable"),
    "an index in a folder": (
        ".",
        {"b.safetensors": SOUND},
        "model.safetensors.index.json",
        "unreadable",
    ),
    "one of several files in a folder": (
        ".",
        {"b.safetensors": SOUND},
        "a.safetensors",
        "unreadable",
    ),
    "data of an ONNX model": ("a.onnx", {"a.onnx": ONNX}, "weights.bin", "unreadable"),
    "a part of a GGUF model": (
        "a-00001-of-00002.gguf",
        {"a-00001-of-00002.gguf": FILES["gguf-split~missing-00001-of-00002.gguf"]},
        "a-00002-of-00002.gguf",
        "gguf-split",
    ),
    "a folder": ("model", {}, "model", "unreadable"),
}


@pytest.mark.parametrize("through", ["itself", "another"])
@pytest.mark.parametrize("case", CASES)
def test_a_circular_link_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str, through: str
) -> None:
    given, files, link, rule = CASES[case]
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / link).symlink_to(link if through == "itself" else "round")
    (tmp_path / "round").symlink_to(link)
    status = main(["inspect", str(tmp_path / given)])
    out, err = capsys.readouterr()
    assert (status, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert f": {rule}: " in err
    assert link in err
    assert rule != "unreadable" or "Too many levels of symbolic links" in err
