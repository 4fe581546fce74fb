"""Remote checkpoints: on a test server, on a server that imitates the Hub, and in memory."""

import json
import os
import pty
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import fsspec
import pytest
from checkpoints import write
from server import SHA, Server, serving

import weighbridge as wb
from weighbridge.cli import main
from weighbridge.errors import CheckpointError
from weighbridge.readers import read
from weighbridge.readers.stores import web
from weighbridge.readers.stores.remote import Remote
from weighbridge.units import stored_bytes

LAYERS, SHARDS = 40, 20
LARGE = {f"model.layers.{at}.mlp.up_proj.weight": ("BF16", (32768, 40960)) for at in range(LAYERS)}


def save_shards(folder: Path) -> int:
    """Write a sharded checkpoint of 100 GB, all holes, and return its bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    names, each = list(LARGE), LAYERS // SHARDS
    weight_map = {
        name: f"model-{1 + at // each:05}-of-{SHARDS:05}.safetensors"
        for at, name in enumerate(names)
    }
    for shard in sorted(set(weight_map.values())):
        write(folder / shard, {name: LARGE[name] for name in names if weight_map[name] == shard})
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    return sum(path.stat().st_size for path in folder.iterdir())


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Serve a folder with one small file, and wait only briefly between tries."""
    monkeypatch.setattr(web, "FIRST_WAIT_SECONDS", 0.01)
    write(tmp_path / "a.safetensors", {"a": ("F32", (2, 3)), "b": ("F32", (4,))})
    with serving(tmp_path) as started:
        yield started


def shapes_in(path: str) -> list[tuple[str, tuple[int, ...]]]:
    return [(row.name, row.shape) for row in read(path).rows]


SMALL = [("a", (2, 3)), ("b", (4,))]


def test_a_file_is_read_by_one_range(server: Server) -> None:
    found = read(f"{server.url}/a.safetensors")
    assert [(row.name, row.shape) for row in found.rows] == SMALL
    assert found.files == (f"{server.url}/a.safetensors",)
    assert len(server.ranges) == 1


def test_100_gb_cost_their_headers_only(server: Server, tmp_path: Path) -> None:
    size = save_shards(tmp_path / "large")
    assert size > 100_000_000_000
    done: list[tuple[int, int]] = []
    found = read(
        f"{server.url}/large/model.safetensors.index.json",
        watch=lambda at, of: done.append((at, of)),
    )
    assert sum(row.bytes for row in found.rows) == sum(
        stored_bytes(32768 * 40960, "BF16") for _ in LARGE
    )
    assert len(server.ranges) == SHARDS + 1
    assert server.sent < 65536 * (SHARDS + 1) + 10_000, "a piece of each file"
    assert done == [(at, SHARDS) for at in range(1, SHARDS + 1)]


def test_shards_are_read_at_once(server: Server, tmp_path: Path) -> None:
    save_shards(tmp_path / "large")
    read(f"{server.url}/pausing/large/model.safetensors.index.json")
    assert 4 <= server.most_at_once <= 8


def test_a_long_header_is_fetched_in_a_second_range_and_no_further(
    server: Server, tmp_path: Path
) -> None:
    write(
        tmp_path / "long.safetensors",
        {f"tensor.{at:06}": ("F32", (1024, 1024)) for at in range(5000)},
    )
    found = read(f"{server.url}/long.safetensors")
    assert len(found.rows) == 5000
    first, second = server.ranges
    assert first[1:] == (0, 65536)
    assert second[1] == 65536
    assert found.header_bytes <= second[2] <= found.header_bytes + 131072


def test_files_without_a_known_suffix_are_recognised_by_their_first_bytes(
    server: Server, tmp_path: Path
) -> None:
    (tmp_path / "a.safetensors").rename(tmp_path / "blob")
    assert shapes_in(f"{server.url}/blob?download=true") == SMALL


def test_secrets_in_an_address_are_not_shown(server: Server) -> None:
    url = server.url.replace("//", "//me:word@")
    found = read(f"{url}/a.safetensors?signature=abc")
    assert found.path == found.files[0] == f"{server.url}/a.safetensors"
    with pytest.raises(CheckpointError) as caught:
        read(f"{url}/none.safetensors?signature=abc")
    assert "word" not in str(caught.value)
    assert "abc" not in str(caught.value)


REFUSED = {
    "none.safetensors": "404-not-found: there is nothing at this address (status = 404)",
    "status/401/a.safetensors": "401-unauthorized: ",
    "status/403/a.safetensors": "403-forbidden: ",
    "status/410/a.safetensors": "404-not-found: ",
    "status/416/a.safetensors": "416-range: ",
    "status/418/a.safetensors": "status: the server returned an error (status = 418)",
    "status/503/a.safetensors": "status: the server returned an error (status = 503)",
    "later/a.safetensors": (
        "429-busy: the server has received too many requests "
        "(status = 429, retry_after_seconds = '3600')"
    ),
    "status/429/a.safetensors": "429-busy: ",
    "whole/large.safetensors": "no-ranges: ",
    "other/a.safetensors": "no-ranges: ",
    "cut/a.safetensors": "cut: the connection broke off on every try",
    "endless/a.safetensors": "cut: the connection broke off on every try (reason = 'bad Content-",
    "digits/a.safetensors": "no-ranges: ",
    "long_size/a.safetensors": "no-ranges: ",
    "round/a.safetensors": "redirects: the server redirects more than 20 times",
    "growing/large.safetensors": "changed: ",
    "empty.safetensors": "too-short: ",
}
TRIED = {
    "status/503/a.safetensors": 4,
    "status/429/a.safetensors": 4,
    "cut/a.safetensors": 4,
    "endless/a.safetensors": 4,
}


@pytest.mark.parametrize("path", REFUSED)
def test_a_failure_of_a_server_is_one_message(
    path: str, server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty.safetensors").touch()
    names = {f"tensor.{at:06}": ("F32", (0,)) for at in range(5000)}
    write(tmp_path / "large.safetensors", names)
    assert main(["inspect", f"{server.url}/{path}"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"weighbridge: {server.url}/{path}: {REFUSED[path]}")
    assert len(captured.err.splitlines()) == 1
    if path in TRIED:
        assert len(server.requests) == TRIED[path]
    elif path.startswith(("status", "later", "other")):
        assert len(server.requests) == 1, "a permanent failure is not retried"


@pytest.mark.parametrize("how", ["again", "once_cut", "moved", "gzip", "whole"])
def test_temporary_failures_are_retried_and_unusual_answers_are_read(
    how: str, server: Server
) -> None:
    assert shapes_in(f"{server.url}/{how}/a.safetensors") == SMALL


def test_no_more_than_the_requested_bytes_is_received(server: Server) -> None:
    assert shapes_in(f"{server.url}/more/a.safetensors") == SMALL
    assert server.sent < 100 * 2**20


def test_a_server_that_does_not_answer_is_abandoned(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web, "TIMEOUT_SECONDS", 0.1)
    with pytest.raises(CheckpointError, match=r"timeout: .* \(seconds = 0.1, tries = 4\)"):
        read(f"{server.url}/slow/a.safetensors")
    assert len(server.requests) == 4


def test_a_server_that_is_too_slow_is_abandoned(
    server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(web, "SLOWEST_SECONDS", 0.3)
    write(tmp_path / "large.safetensors", {f"tensor.{at:06}": ("F32", (0,)) for at in range(5000)})
    with pytest.raises(CheckpointError, match=r"timeout: .*bytes = \d+, requested_bytes = 65536"):
        read(f"{server.url}/dripping/large.safetensors")


def test_a_server_that_does_not_exist(server: Server) -> None:
    server.shutdown()
    server.server_close()
    with pytest.raises(CheckpointError, match="unreachable: the server cannot be reached"):
        read(f"{server.url}/a.safetensors")


@pytest.mark.parametrize(
    ("path", "rule"),
    [
        ("http://", "address"),
        ("qq://bucket/a.safetensors", "scheme"),
        ("hf://", "hub-id"),
        ("hf://a/../b", "hub-id"),
        ("hf://../b", "hub-id"),
        ("hf://a b/c", "hub-id"),
        ("memory://nothing/here.safetensors", "missing"),
        ("memory://nothing/*.safetensors", "no-match"),
    ],
)
def test_an_invalid_address_is_refused(path: str, rule: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        read(path)
    assert caught.value.rule == rule


def test_a_progress_bar_is_drawn_on_a_terminal(server: Server, tmp_path: Path) -> None:
    save_shards(tmp_path / "large")
    command = [
        sys.executable,
        "-m",
        "weighbridge",
        "inspect",
        f"{server.url}/large/model.safetensors.index.json",
    ]
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs) as process:
        os.close(theirs)
        drawn = b"".join(iter(partial(drained, ours), b"")).decode()
        assert process.stdout
        out = process.stdout.read().decode()
    assert "headers:" in drawn
    assert "/20 [" in drawn
    assert "53,687,091,200" in out, "parameters"


def drained(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other side is closed
        return b""


def test_an_error_in_one_shard_is_the_answer(server: Server, tmp_path: Path) -> None:
    save_shards(tmp_path / "large")
    next((tmp_path / "large").glob("model-00007*")).unlink()
    with pytest.raises(CheckpointError, match=r"model-00007-of-00020\.safetensors: 404-not-found"):
        read(f"{server.url}/large/model.safetensors.index.json")


def test_a_remote_index_cannot_lead_elsewhere(server: Server, tmp_path: Path) -> None:
    for shard in ("../secret", "http://127.0.0.1/a", "/etc/passwd"):
        (tmp_path / "model.safetensors.index.json").write_text(
            json.dumps({"weight_map": {"a": shard}})
        )
        with pytest.raises(CheckpointError, match="shard-path: "):
            read(f"{server.url}/model.safetensors.index.json")


def test_only_the_bytes_that_are_read_are_fetched() -> None:
    asked: list[tuple[int, int]] = []

    def fetch(begin: int, end: int) -> tuple[bytes, int]:
        asked.append((begin, end))
        return bytes(end - begin), 10**12

    file = Remote("memory://a", fetch)
    file.seek(10**12 - 100)
    assert len(file.read(22)) == 22
    assert len(file.read(1000)) == 78
    file.seek(0)
    assert len(file.read(8)) == 8
    assert asked == [(0, 65536), (10**12 - 100, 10**12)]
    file.seek(200_000)
    for _ in range(100):
        file.read(100_000)
    assert len(asked) < 12, "sequential reads fetch longer pieces"
    assert max(end - begin for begin, end in asked) <= 5 * 2**20


def test_a_remote_config_is_weighed_and_verified(server: Server, tmp_path: Path) -> None:
    config = {
        "model_type": "bert",
        "hidden_size": 24,
        "num_attention_heads": 2,
        "num_hidden_layers": 2,
    }
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    weighing = wb.weigh(f"{server.url}/model")
    assert weighing.parameters == wb.weigh(config).parameters
    assert weighing.model.where == f"{server.url}/model/config.json"
    assert (
        wb.weigh(f"{server.url}/model/config.json?token=abc").model.where
        == f"{server.url}/model/config.json"
    )
    write(folder / "model.safetensors", {row.name: ("F32", row.shape) for row in weighing.rows})
    assert wb.verify(f"{server.url}/model", f"{server.url}/model/model.safetensors").status == 0
    (folder / "config.json").unlink()
    with pytest.raises(CheckpointError, match="404-not-found"):
        wb.weigh(f"{server.url}/model")


# fsspec


@pytest.fixture
def in_memory(tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """Return a function that puts a small file at a path in memory."""
    store = fsspec.filesystem("memory")
    content = write(
        tmp_path / "a.safetensors", {"a": ("F32", (2, 3)), "b": ("F32", (4,))}
    ).read_bytes()

    def put(path: str) -> str:
        store.pipe(path, content)
        return f"memory://{path}"

    yield put
    for path in store.find("/"):
        store.rm(path)


def test_a_file_a_folder_and_a_pattern_of_a_store_are_read(in_memory: Callable[[str], str]) -> None:
    path = in_memory("/models/one/model.safetensors")
    in_memory("/models/one/config.json")
    assert (
        shapes_in(path)
        == shapes_in("memory://models/one")
        == shapes_in("memory://models/*/*.safetensors")
        == SMALL
    )
    assert read("memory://models/one").files == ("memory://models/one/model.safetensors",)


def test_a_missing_package_of_a_store_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(CheckpointError, match=r"driver: .*s3fs"):
        read("s3://bucket/a.safetensors")


def test_a_failure_of_a_store_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("no credentials")

    monkeypatch.setattr(fsspec, "url_to_fs", fail)
    with pytest.raises(CheckpointError, match=r"store: .*RuntimeError: no credentials"):
        read("memory://a.safetensors")


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, path in (
        ("httpx2", "https://host/a"),
        ("huggingface_hub", "hf://a/b"),
        ("fsspec", "memory://a"),
    ):
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(
            CheckpointError, match=r"not-installed: .*pip install 'weighbridge\[remote\]'"
        ):
            read(path)


# Patterns


def test_a_pattern_means_all_files_that_match(tmp_path: Path) -> None:
    for name in ("b", "a"):
        write(tmp_path / f"{name}.safetensors", {name: ("F32", (2,))})
    found = read(tmp_path / "*.safetensors")
    assert [row.name for row in found.rows] == ["a", "b"]
    with pytest.raises(CheckpointError, match="no-match: "):
        read(tmp_path / "*.gguf")
    (tmp_path / "c.npz").touch()
    with pytest.raises(CheckpointError, match=r"mixed-formats: .*c\.npz"):
        read(tmp_path / "*")
    write(tmp_path / "[x].safetensors", {"x": ("F32", (2,))})
    assert shapes_in(str(tmp_path / "[x].safetensors")) == [("x", (2,))], (
        "the name of an existing file is not a pattern"
    )


# The Hub, in a process of its own: its library reads its settings only once


@pytest.fixture
def hub(server: Server, tmp_path: Path) -> Callable[..., tuple[int, str, str]]:
    """Return a function that inspects an address: its status, stdout and stderr."""
    folder = tmp_path / "org" / "name"
    (folder / "onnx").mkdir(parents=True)
    write(folder / "model.safetensors", {"a": ("F32", (2, 3)), "b": ("F32", (4,))})
    write(folder / "onnx" / "other.safetensors", {"c": ("F32", (2, 3))})

    def inspect(address: str, **settings: str) -> tuple[int, str, str]:
        settings = {
            "HF_ENDPOINT": server.url,
            "HF_HOME": str(tmp_path / "cache"),
            "HF_HUB_OFFLINE": "0",
            **settings,
        }
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("HF_")
        }
        command = [
            sys.executable,
            "-m",
            "weighbridge",
            "inspect",
            address,
            "--by",
            "tensor",
            "--csv",
        ]
        environment |= settings
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=60
        )
        return done.returncode, done.stdout, done.stderr

    return inspect


def names(out: str) -> list[str]:
    return [line.partition(",")[0] for line in out.splitlines()[1:]]


@pytest.mark.parametrize(
    ("address", "held"),
    [
        ("hf://org/name", ["a", "b"]),
        ("hf://org/name@main", ["a", "b"]),
        ("hf://org/name@main/model.safetensors", ["a", "b"]),
        ("hf://org/name/onnx", ["c"]),
    ],
)
def test_a_repository_is_read_by_ranges(
    address: str, held: list[str], hub: Callable[..., tuple[int, str, str]], server: Server
) -> None:
    server.revisions[SHA] = SHA
    known = {"HF_TOKEN": "hf_secret"}
    status, out, err = hub(address, **known)
    assert (status, err) == (0, "")
    assert names(out) == held
    assert all(begin == 0 and end <= 65536 for _, begin, end in server.ranges)
    asked = {path.split("/")[1]: headers.get("authorization") for path, headers in lowered(server)}
    assert asked["api"] == "Bearer hf_secret"


def lowered(server: Server) -> list[tuple[str, dict[str, str]]]:
    return [
        (path, {name.lower(): value for name, value in headers.items()})
        for path, headers in server.requests
    ]


@pytest.mark.parametrize(
    ("address", "message"),
    [
        (
            "hf://org/none",
            "404-not-found: there is no such repository, or it is private (repository = 'org/none'",
        ),
        ("hf://org/gated", "403-forbidden: "),
        ("hf://org/broken", "status: the server returned an error (status = 500)"),
        (
            "hf://org/name@none",
            "404-not-found: there is nothing at this address (revision = 'none')",
        ),
        (
            "hf://org/name/none.pt",
            "404-not-found: there is nothing at this address (file = 'none.pt')",
        ),
    ],
)
def test_refusals_of_the_hub_are_reported(
    address: str, message: str, hub: Callable[..., tuple[int, str, str]]
) -> None:
    status, out, err = hub(address)
    assert (status, out) == (2, "")
    assert err.startswith(f"weighbridge: {address}: {message}")
    assert len(err.splitlines()) == 1


def cache(tmp_path: Path) -> None:
    """Put a repository into the hub's cache, as its library does."""
    repository = tmp_path / "cache" / "hub" / "models--org--name"
    snapshot = repository / "snapshots" / SHA
    snapshot.mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(SHA)
    (repository / "blobs").mkdir()
    write(repository / "blobs" / "0", {"cached": ("F32", (2,))})
    (snapshot / "model.safetensors").symlink_to("../../blobs/0")


def test_cached_files_are_not_fetched(
    hub: Callable[..., tuple[int, str, str]], server: Server, tmp_path: Path
) -> None:
    cache(tmp_path)
    status, out, err = hub("hf://org/name")
    assert (status, err) == (0, "")
    assert names(out) == ["cached"]
    assert server.ranges == []


@pytest.mark.parametrize(
    ("settings", "rule"),
    [({"HF_HUB_OFFLINE": "1"}, "offline"), ({"HF_ENDPOINT": "http://127.0.0.1:9"}, "unreachable")],
)
def test_the_cache_is_enough_without_a_hub(
    settings: dict[str, str],
    rule: str,
    hub: Callable[..., tuple[int, str, str]],
    server: Server,
    tmp_path: Path,
) -> None:
    status, out, err = hub("hf://org/name", **settings)
    assert (status, out) == (2, "")
    assert err.startswith(f"weighbridge: hf://org/name: {rule}: ")
    cache(tmp_path)
    status, out, err = hub("hf://org/name", **settings)
    assert (status, err) == (0, "")
    assert names(out) == ["cached"]
    assert server.requests == []
