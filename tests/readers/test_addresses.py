"""What an address may lead to, and what no message about it shows."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from checkpoints import write
from server import Server, serving

from weighbridge.articles.text import source
from weighbridge.cli import main
from weighbridge.errors import CheckpointError
from weighbridge.readers import read
from weighbridge.readers.rules import without_secrets
from weighbridge.readers.stores import redirects

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """Serve a folder with a small checkpoint and a page, if the extra `remote` is installed."""
    pytest.importorskip("fsspec")
    pytest.importorskip("httpx2")
    write(tmp_path / "a.safetensors", {"a": ("F32", (2, 3))})
    (tmp_path / "page.html").write_text("<p>BERT has 12 layers.</p>")
    with serving(tmp_path) as started:
        yield started


@pytest.fixture
def _localhost_is_public(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the check believe that the name localhost has a public address."""

    def addresses(host: str, *_: Any, **__: Any) -> list[tuple[Any, ...]]:
        address = "93.184.216.34" if host == "localhost" else host
        return [(0, 0, 0, "", (address, 0))]

    stub = SimpleNamespace(getaddrinfo=addresses, SOCK_STREAM=1)
    monkeypatch.setattr(redirects, "socket", stub)


@pytest.mark.usefixtures("_localhost_is_public")
@pytest.mark.parametrize("target", ["127.0.0.1", "169.254.169.254", "10.0.0.1", "[::1]"])
def test_a_public_address_cannot_lead_to_a_private_one(server: Server, target: str) -> None:
    monkey_host = target.strip("[]")
    with pytest.raises(CheckpointError, match="redirect: ") as caught:
        read(f"{server.elsewhere}/toward/{target}/a.safetensors")
    assert caught.value.values["host"] == monkey_host
    assert [path for path, _ in server.requests] == [f"/toward/{target}/a.safetensors"]


@pytest.mark.usefixtures("_localhost_is_public")
def test_no_page_of_an_article_leads_to_a_private_address(server: Server) -> None:
    with pytest.raises(CheckpointError, match="redirect: "):
        source.read_article(f"{server.elsewhere}/toward/127.0.0.1/page.html")
    assert len(server.requests) == 1


@pytest.mark.usefixtures("_localhost_is_public")
def test_redirects_that_stay_public_or_begin_in_private_are_followed(server: Server) -> None:
    for first, target in (("elsewhere", "localhost"), ("url", "127.0.0.1"), ("url", "localhost")):
        found = read(f"{getattr(server, first)}/toward/{target}/a.safetensors")
        assert [row.name for row in found.rows] == ["a"]


@pytest.mark.parametrize(
    ("host", "private"),
    [
        ("127.0.0.1", True),
        ("2130706433", True),
        ("0x7f.1", True),
        ("0.0.0.0", True),  # noqa: S104
        ("100.64.0.1", True),
        ("192.168.1.1", True),
        ("172.31.255.255", True),
        ("fd00::1", True),
        ("fe80::1", True),
        ("::ffff:169.254.169.254", True),
        ("2002:7f00:1::", True),
        ("8.8.8.8", False),
        ("172.32.0.1", False),
        ("::ffff:8.8.8.8", False),
    ],
)
def test_private_addresses(host: str, private: bool) -> None:
    assert redirects.is_private(host) is private


WITH_SECRETS = [
    "ftp://me:hunter2@127.0.0.1:1/a.safetensors",
    "ftp://me:hunter2@127.0.0.1:1/*.safetensors",
    "ftp://me:hun/ter2@127.0.0.1/a.safetensors",
    "ftp://127.0.0.1:1/a.safetensors?sig=hunter2",
    "s3://me:hunter2@bucket/a.pt",
    "qq://me:hunter2@bucket/a.json",
    "hf://me:hunter2@org/name",
    "hf://me:hun/ter2@org/name",
    "simplecache::ftp://me:hunter2@127.0.0.1:1/a.safetensors",
    "https://me:hunter2@127.0.0.1:1/a.safetensors?sig=hunter2",
]


@pytest.mark.parametrize("address", WITH_SECRETS)
@pytest.mark.parametrize("command", [["inspect"], ["weigh"], ["audit"], ["verify", "bert"]])
def test_no_message_shows_a_password(
    command: list[str],
    address: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("weighbridge.readers.stores.web.FIRST_WAIT_SECONDS", 0.01)
    assert main([*command, address]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "hun" not in captured.err
    assert "ter2" not in captured.err
    assert len(captured.err.splitlines()) == 1


@pytest.mark.parametrize(
    "address",
    [
        "s3://bucket/name@v1:2/a.pt",
        "http://host:8080/a@b.pt",
        "hf://gpt2@main/a.pt",
        "hf://org/name@v1:2/a.pt",
        "s3://bucket/mo?el-*.pt",
        "/home/me:word@host/a.pt",
    ],
)
def test_addresses_without_secrets_are_shown_whole(address: str) -> None:
    assert without_secrets(address) == address


def gguf_part(number: int) -> bytes:
    """Return a part of a split GGUF model with one tensor, by its specification."""
    key = struct.pack("<Q11sIH", 11, b"split.count", 2, 2)
    tensor = struct.pack("<Q2sIQIQ", 2, b"t%d" % number, 1, 8, 0, 0)
    header = b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + key + tensor
    return header.ljust(-(-len(header) // 32) * 32, b"\0") + bytes(32)


@pytest.mark.parametrize("query", ["", "?download=true"])
def test_a_split_gguf_on_a_server_is_read_whole(tmp_path: Path, server: Server, query: str) -> None:
    for number in (1, 2):
        (tmp_path / f"m-0000{number}-of-00002.gguf").write_bytes(gguf_part(number))
    found = read(f"{server.url}/m-00002-of-00002.gguf{query}")
    assert [row.name for row in found.rows] == ["t1", "t2"]
    (tmp_path / "m-00001-of-00002.gguf").unlink()
    with pytest.raises(CheckpointError, match=r"m-00001-of-00002\.gguf: 404-not-found: "):
        read(f"{server.url}/m-00002-of-00002.gguf{query}")


@pytest.mark.parametrize(
    "line",
    [
        "inspect https://example.org/a.safetensors",
        "verify hf://org/name bert",
        "guess s3://bucket/a.safetensors",
        "weigh https://example.org/config.json",
        "audit https://example.org/page.html",
    ],
)
def test_under_pyodide_an_address_is_refused_with_a_word(
    line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.platform", "emscripten")
    assert main(line.split()) == 2
    message = capsys.readouterr().err
    assert "browser: a page in a browser does not read addresses. Download" in message
    assert message.count("\n") == 1


def test_under_pyodide_the_page_of_a_released_model_still_is_its_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.platform", "emscripten")
    assert main(["weigh", "https://huggingface.co/google-bert/bert-base-chinese"]) == 0
    assert "102,267,648" in capsys.readouterr().out
