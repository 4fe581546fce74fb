"""A pointer of Git LFS, or a page of HTML, in the place of a file: the message says what it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import fsspec
import pytest

from weighbridge.cli import main
from weighbridge.errors import CheckpointError
from weighbridge.readers import FORMATS, read
from weighbridge.readers.stores import open_file, store_of
from weighbridge.readers.stores.remote import Remote

if TYPE_CHECKING:
    from pathlib import Path

POINTER = (
    b"version https://git-lfs.github.com/spec/v1\n"
    b"oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\n"
    b"size 440473133\n"
)
PAGE = b"\n<!doctype HTML>\n<html><head><title>Sign in</title>"
TEXTS = {"lfs-pointer": (POINTER, "git lfs pull"), "html-page": (PAGE, "Download the file itself")}
NAMES = [f"model{suffix}" for suffix in FORMATS if suffix.count(".") == 1]
INDEXES = ["model.safetensors.index.json", "pytorch_model.bin.index.json"]


@pytest.mark.parametrize("rule", TEXTS)
@pytest.mark.parametrize("name", [*NAMES, *INDEXES, "model", "model.json"])
def test_inspect_says_what_it_is(
    name: str, rule: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, hint = TEXTS[rule]
    (tmp_path / name).write_bytes(text)
    assert main(["inspect", str(tmp_path / name)]) == 2
    out, err = capsys.readouterr()
    assert (out, len(err.splitlines())) == ("", 1)
    assert f"{name}: {rule}: " in err
    assert hint in err


def test_the_size_of_the_file_is_that_in_the_pointer(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(POINTER)
    with pytest.raises(CheckpointError, match=r"\(points_to_bytes = 440473133\)"):
        read(tmp_path / "a.bin")
    (tmp_path / "a.bin").write_bytes(POINTER.replace(b"size", b"long"))
    with pytest.raises(CheckpointError, match=r"in place of the file\. Run"):
        read(tmp_path / "a.bin")


@pytest.mark.parametrize("rule", TEXTS)
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_config_too(
    rule: str, lang: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, _ = TEXTS[rule]
    (tmp_path / "config.json").write_bytes(text)
    assert main(["weigh", str(tmp_path / "config.json"), "--lang", lang]) == 2
    err = capsys.readouterr().err
    assert {"en": "in place of the file", "zh": "而不是文件本身"}[lang] in err
    assert "JSON" not in err


def test_what_only_begins_alike_is_another_matter(tmp_path: Path) -> None:
    for text in (b"version 2 of a model", b"<net name='a'>", b"<htmlx>", b"<header>", b"<"):
        (tmp_path / "a.safetensors").write_bytes(text)
        with pytest.raises(CheckpointError) as caught:
            read(tmp_path / "a.safetensors")
        assert caught.value.rule not in TEXTS


def test_nothing_more_is_fetched_of_a_remote_file(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def fetch(begin: int, end: int) -> tuple[bytes, int]:
        asked.append((begin, end))
        return POINTER[begin:end], len(POINTER)

    store = store_of("memory://a")
    opening = store._replace(open=lambda path: Remote(path, fetch))
    monkeypatch.setattr("weighbridge.readers.stores.store_of", lambda _: opening)
    with pytest.raises(CheckpointError, match="lfs-pointer"):
        open_file("memory://a")
    assert len(asked) == 1


@pytest.mark.parametrize("rule", TEXTS)
def test_the_description_of_a_pipeline_too(rule: str, tmp_path: Path) -> None:
    (tmp_path / "model_index.json").write_bytes(TEXTS[rule][0])
    with pytest.raises(CheckpointError, match=f"model_index.json: {rule}: "):
        read(tmp_path)


def test_in_a_store_and_in_a_scan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fsspec.filesystem("memory").pipe("/wrong/model.safetensors", PAGE)
    with pytest.raises(CheckpointError, match="html-page"):
        read("memory://wrong/model.safetensors")
    (tmp_path / "model.safetensors").write_bytes(POINTER)
    assert main(["scan", "--check", str(tmp_path)]) == 1
    assert "cannot be read: lfs-pointer: this is a pointer of Git LFS" in capsys.readouterr().out
