"""The address of a model's page, pasted from a browser, means that model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from checkpoints import write
from server import SHA, Server, serving

import weighbridge as wb
from weighbridge import data
from weighbridge.errors import CheckpointError
from weighbridge.models.find import find
from weighbridge.readers.stores.pages import checkpoint_at, page_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

HUB = "https://huggingface.co"


@pytest.mark.parametrize(
    ("page", "config", "checkpoint"),
    [
        (f"{HUB}/org/name", "hf://org/name/config.json", "hf://org/name"),
        (f"{HUB}/org/name/", "hf://org/name/config.json", "hf://org/name"),
        ("huggingface.co/org/name", "hf://org/name/config.json", "hf://org/name"),
        ("http://www.hf.co/org/name?a=b#c", "hf://org/name/config.json", "hf://org/name"),
        ("https://hf-mirror.com/org/name", "hf://org/name/config.json", "hf://org/name"),
        (f"{HUB}/gpt2", "hf://gpt2/config.json", "hf://gpt2"),
        (f"{HUB}/org/name/tree/main", "hf://org/name/config.json", "hf://org/name"),
        (f"{HUB}/org/name/discussions/3", "hf://org/name/config.json", "hf://org/name"),
        (f"{HUB}/org/name/blob/main/config.json", "hf://org/name/config.json", "hf://org/name"),
        (f"{HUB}/org/name/blob/main/README.md", "hf://org/name/config.json", "hf://org/name"),
        (
            f"{HUB}/org/name/blob/main/model.safetensors",
            "hf://org/name/config.json",
            "hf://org/name/model.safetensors",
        ),
        (
            f"{HUB}/org/name/tree/v1/onnx",
            "hf://org/name@v1/onnx/config.json",
            "hf://org/name@v1/onnx",
        ),
        (
            f"{HUB}/org/name/tree/refs%2Fpr%2F3",
            "hf://org/name@refs%2Fpr%2F3/config.json",
            "hf://org/name@refs%2Fpr%2F3",
        ),
    ],
)
def test_a_page_of_the_hub_is_read_from_its_repository(
    page: str, config: str, checkpoint: str
) -> None:
    about = page_at(page)
    assert about is not None
    assert (about.config_address, checkpoint_at(page)) == (config, checkpoint)


MODELSCOPE = "https://www.modelscope.cn/models"


@pytest.mark.parametrize(
    "page",
    [
        f"{MODELSCOPE}/org/name",
        f"{MODELSCOPE}/org/name/summary",
        f"{MODELSCOPE}/org/name/files",
        f"{MODELSCOPE}/org/name/file/view/master/config.json?status=1",
        "modelscope.cn/models/org/name",
    ],
)
def test_a_page_of_modelscope_means_its_config_file(page: str) -> None:
    about = page_at(page)
    assert about is not None
    assert about.config_address == f"{MODELSCOPE}/org/name/resolve/master/config.json"
    with pytest.raises(CheckpointError, match="page-of-a-folder: this website does not list"):
        checkpoint_at(page)


def test_a_page_of_a_file_of_modelscope_means_that_file() -> None:
    page = f"{MODELSCOPE}/org/name/file/view/v1/model.safetensors"
    assert checkpoint_at(page) == f"{MODELSCOPE}/org/name/resolve/v1/model.safetensors"


@pytest.mark.parametrize(
    "path",
    [
        "model.safetensors",
        "folder/model.safetensors",
        "hf://org/name",
        "https://example.org/org/name",
        f"{HUB}/org/name/resolve/main/model.safetensors",
        f"{MODELSCOPE}/org/name/resolve/master/model.safetensors",
        "https://[huggingface.co/org",
        "./huggingface.co",
    ],
)
def test_anything_but_a_page_stays_unchanged(path: str) -> None:
    assert checkpoint_at(path) == path


@pytest.mark.parametrize(
    "page", [HUB, f"{HUB}/datasets/org/name", f"{HUB}/docs", f"{HUB}/org/..", MODELSCOPE]
)
def test_a_page_without_a_model_is_named_as_such(page: str) -> None:
    with pytest.raises(CheckpointError, match="page: this is not the page of a model"):
        find(page)


def test_a_page_of_a_known_model_needs_no_network() -> None:
    for page in (
        f"{HUB}/google-bert/bert-base-chinese",
        f"{HUB}/google-bert/bert-base-chinese/blob/main/config.json",
        f"{HUB}/bert-base-chinese",
        "huggingface.co/google-bert/BERT-base-chinese?library=transformers",
        f"{MODELSCOPE}/google-bert/bert-base-chinese",
    ):
        found = find(page)
        assert (found.where, found.origin) == ("google-bert/bert-base-chinese", "catalogue")


# On a server of the test


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    folder = tmp_path / "org" / "name"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"model_type": "bert", "vocab_size": 99}))
    write(folder / "model.safetensors", {"a": ("F32", (2, 3))})
    with serving(tmp_path) as started:
        started.revisions[SHA] = SHA
        yield started


@pytest.fixture
def run(server: Server, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return a function that runs a command, with the test's server for the hub."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    environment |= {"HF_ENDPOINT": server.url, "HF_HOME": str(tmp_path / "cache")}

    def run_command(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "weighbridge", *words]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=60
        )

    return run_command


@pytest.mark.parametrize("page", [f"{HUB}/org/name", f"{HUB}/org/name/blob/main/config.json"])
def test_a_page_is_weighed_and_inspected_through_the_hub(
    page: str, run: Callable[..., Any]
) -> None:
    pytest.importorskip("huggingface_hub")
    pytest.importorskip("httpx2")
    weighed = json.loads(run("weigh", page, "--json").stdout)
    assert weighed["parameters"] == wb.weigh("bert", fields={"vocab_size": 99}).parameters
    assert weighed["model"] == "hf://org/name/config.json"
    inspected = run("inspect", page)
    assert (inspected.returncode, inspected.stderr) == (0, "")
    assert "hf://org/name" in inspected.stdout


def test_a_page_of_modelscope_is_read_by_plain_https(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("httpx2")
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": "bert", "vocab_size": 77}))
    site = data.read_toml("facts/pages.toml")["modelscope"]
    monkeypatch.setitem(site, "files", f"{server.url}/files/{{file}}")
    assert wb.weigh(f"{MODELSCOPE}/org/name").model.fields["vocab_size"] == 77
