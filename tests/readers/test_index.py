"""``read`` of an index, a folder, a file in another format, or a path that is not a file."""

import gc
import json
import os
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
from permissions import forbid
from safetensors.numpy import save_file

from weighbridge import readers
from weighbridge.errors import CheckpointError
from weighbridge.ledger.rows import Row
from weighbridge.readers import read
from weighbridge.readers.header import Header

INDEX = "model.safetensors.index.json"
ONE, TWO = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"


def write_index(
    folder: Path, weight_map: dict[str, str], name: str = INDEX, **metadata: object
) -> Path:
    (folder / name).write_text(json.dumps({"metadata": metadata, "weight_map": weight_map}))
    return folder / name


@pytest.fixture
def sharded(tmp_path: Path) -> Path:
    """Return a folder with an index and its two shards: ``a`` and ``b`` of 8 bytes, ``c`` of 16."""
    save_file(
        {"a": np.zeros(2, "f4"), "b": np.zeros((1, 2), "f4")},
        tmp_path / ONE,
        {"format": "pt", "part": "1"},
    )
    save_file({"c": np.zeros((2, 2), "f4")}, tmp_path / TWO, {"format": "pt", "part": "2"})
    write_index(tmp_path, {"c": TWO, "a": ONE, "b": ONE}, total_size=32)
    return tmp_path


@pytest.mark.parametrize("collects", [True, False])
def test_garbage_is_collected_after_a_read_as_it_was_before(
    sharded: Path, *, collects: bool
) -> None:
    was = gc.isenabled()
    during = []
    form = readers.FORMATS[".safetensors"]._replace(
        read=lambda _: during.append(gc.isenabled()) or Header((), {}, 0)
    )
    try:
        (gc.enable if collects else gc.disable)()
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(readers.FORMATS, ".safetensors", form)
            read(sharded / ONE)
        assert (during, gc.isenabled()) == ([False], collects)
        with pytest.raises(CheckpointError):
            read(sharded / "absent.safetensors")
        assert gc.isenabled() is collects
    finally:
        (gc.enable if was else gc.disable)()


def refused(path: Path, rule: str) -> str:
    with pytest.raises(CheckpointError) as caught:
        read(path)
    message = str(caught.value)
    assert f": {rule}: " in message
    assert "\n" not in message
    return message


def test_an_index_gives_the_rows_of_its_shards_in_their_order(sharded: Path) -> None:
    found = read(sharded / INDEX)
    assert [(row.name, row.shape) for row in found.rows] == [
        ("a", (2,)),
        ("b", (1, 2)),
        ("c", (2, 2)),
    ]
    assert found.files == (str(sharded / ONE), str(sharded / TWO))
    assert found.metadata == {"format": "pt", "part": "1"}
    assert (found.duplicates, found.absent, found.unlisted, found.stated_bytes) == ({}, {}, (), 32)


def test_the_shards_go_by_name_not_by_the_order_of_the_index(tmp_path: Path) -> None:
    names = [f"model-{number:05}-of-00009.safetensors" for number in range(1, 10)]
    for name in names:
        save_file({name: np.zeros(1)}, tmp_path / name)
    write_index(tmp_path, {name: name for name in names[4:] + names[:4]})
    assert [row.name for row in read(tmp_path).rows] == names


def test_the_bytes_read_are_those_of_the_index_and_of_each_header(sharded: Path) -> None:
    headers = [
        8 + int.from_bytes((sharded / name).read_bytes()[:8], "little") for name in (ONE, TWO)
    ]
    assert read(sharded).header_bytes == (sharded / INDEX).stat().st_size + sum(headers)


def test_a_relative_path_is_enough(sharded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(sharded)
    assert read(INDEX).files == (ONE, TWO)
    assert read(".")[1:3] == read(INDEX)[1:3]
    assert read(ONE).files == (ONE,)


def test_a_tensor_stored_twice_is_reported_and_counted_once(sharded: Path) -> None:
    save_file({"c": np.zeros((2, 2), "f4"), "a": np.zeros(9, "f2")}, sharded / TWO)
    found = read(sharded)
    assert found.duplicates == {"a": (str(sharded / ONE), str(sharded / TWO))}
    assert [(row.name, row.dtype) for row in found.rows] == [
        ("a", "F32"),
        ("b", "F32"),
        ("c", "F32"),
    ]
    assert (found.absent, found.unlisted) == ({}, ())


def test_contradictions_between_the_index_and_the_shards_are_reported(sharded: Path) -> None:
    write_index(sharded, {"a": TWO, "d": ONE, "c": TWO}, total_size=33)
    found = read(sharded)
    assert found.absent == {"a": str(sharded / TWO), "d": str(sharded / ONE)}
    assert found.unlisted == ("b",)
    assert [row.name for row in found.rows] == ["a", "b", "c"]
    assert found.stated_bytes == 33


@pytest.mark.parametrize(
    ("metadata", "stated"),
    [({}, None), ({"total_size": 32.0}, 32), ({"total_size": 0}, 0), ({"total_size": None}, None)],
)
def test_the_stated_bytes_may_be_absent_or_a_whole_float(
    sharded: Path, metadata: dict, stated: int | None
) -> None:
    write_index(sharded, {"a": ONE}, **metadata)
    assert read(sharded).stated_bytes == stated


def test_an_index_without_metadata_is_read(sharded: Path) -> None:
    (sharded / INDEX).write_text(json.dumps({"weight_map": {"a": ONE}}))
    assert read(sharded).stated_bytes is None


def test_shards_may_lie_in_a_folder_below(sharded: Path) -> None:
    (sharded / "parts").mkdir()
    shutil.move(sharded / TWO, sharded / "parts" / TWO)
    write_index(sharded, {"c": f"parts/{TWO}", "a": ONE, "b": ONE})
    assert len(read(sharded).rows) == 3


def test_a_broken_shard_is_named_in_the_error(sharded: Path) -> None:
    (sharded / TWO).write_bytes(b"")
    assert refused(sharded, "too-short").startswith(str(sharded / TWO))


def test_a_shard_that_is_a_folder_is_refused(sharded: Path) -> None:
    (sharded / TWO).unlink()
    (sharded / TWO).mkdir()
    refused(sharded, "regular-file")


def test_a_link_may_not_lead_a_shard_out_of_the_folder(
    sharded: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside") / TWO
    shutil.move(sharded / TWO, outside)
    (sharded / TWO).symlink_to(outside)
    assert str(outside)[:20] in refused(sharded, "shard-path")


def test_a_linked_folder_may_not_lead_a_shard_out(
    sharded: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    shutil.move(sharded / TWO, outside / TWO)
    (sharded / "parts").symlink_to(outside)
    write_index(sharded, {"c": f"parts/{TWO}", "a": ONE, "b": ONE})
    refused(sharded, "shard-path")


def test_a_folder_whose_name_begins_alike_is_outside(sharded: Path) -> None:
    outside = Path(f"{sharded}-other")
    outside.mkdir()
    shutil.move(sharded / TWO, outside / TWO)
    (sharded / TWO).symlink_to(outside / TWO)
    refused(sharded, "shard-path")


def test_links_within_the_folder_and_links_to_it_are_followed(
    sharded: Path, tmp_path: Path
) -> None:
    os.rename(sharded / TWO, sharded / "two")
    (sharded / TWO).symlink_to("two")
    (tmp_path / "link").symlink_to(sharded)
    assert len(read(tmp_path / "link").rows) == 3


def test_the_links_of_a_hub_cache_are_followed_into_its_blobs_only(
    sharded: Path, tmp_path: Path
) -> None:
    blobs, snapshot = (
        tmp_path / "models--a--b" / "blobs",
        tmp_path / "models--a--b" / "snapshots" / "0123" / "unet",
    )
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    for number, name in enumerate((INDEX, ONE, TWO)):
        shutil.copy(sharded / name, blobs / str(number))
        (snapshot / name).symlink_to(f"../../../blobs/{number}")
    assert len(read(snapshot).rows) == 3
    (snapshot / TWO).unlink()
    (snapshot / TWO).symlink_to(sharded / TWO)
    refused(snapshot, "shard-path")


def test_a_link_that_leads_to_itself_is_refused(sharded: Path) -> None:
    (sharded / TWO).unlink()
    (sharded / TWO).symlink_to(TWO)
    refused(sharded, "unreadable")
    refused(sharded / TWO, "unreadable")


def test_a_link_that_leads_nowhere_is_refused(sharded: Path) -> None:
    (sharded / TWO).unlink()
    (sharded / TWO).symlink_to("nowhere")
    refused(sharded, "missing")


def test_an_index_over_the_limit_is_not_read(sharded: Path) -> None:
    os.truncate(sharded / INDEX, 100_000_001)
    refused(sharded, "index-limit")


# Which files of a folder are read.


def test_a_folder_prefers_its_index_to_a_single_file(sharded: Path) -> None:
    save_file({"whole": np.zeros(2)}, sharded / "model.safetensors")
    write_index(sharded, {"c": TWO}, name="a.safetensors.index.json")
    assert [row.name for row in read(sharded).rows] == ["a", "b", "c"]


def test_a_folder_takes_the_only_index_whatever_its_name(sharded: Path) -> None:
    os.rename(sharded / INDEX, sharded / "diffusion.safetensors.index.json")
    save_file({"whole": np.zeros(2)}, sharded / "model.safetensors")
    assert [row.name for row in read(sharded).rows] == ["a", "b", "c"]


def test_a_folder_of_several_indexes_takes_the_usual_file_or_asks(sharded: Path) -> None:
    os.rename(sharded / INDEX, sharded / "model.fp16.safetensors.index.json")
    write_index(sharded, {"c": TWO}, name="model.bf16.safetensors.index.json")
    assert "model.bf16.safetensors.index.json" in refused(sharded, "which-index")
    save_file({"whole": np.zeros(2)}, sharded / "model.safetensors")
    assert [row.name for row in read(sharded).rows] == ["whole"]


def test_a_folder_without_index_takes_the_usual_file_or_all(sharded: Path) -> None:
    (sharded / INDEX).unlink()
    assert [row.name for row in read(sharded).rows] == ["a", "b", "c"]
    save_file({"whole": np.zeros(2)}, sharded / "model.safetensors")
    assert [row.name for row in read(sharded).rows] == ["whole"]


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    refused(tmp_path, "no-checkpoint")
    (tmp_path / "config.json").write_text("{}")
    refused(tmp_path, "no-checkpoint")


def test_a_format_with_no_reader_is_refused_with_those_that_have_one(tmp_path: Path) -> None:
    (tmp_path / "model.other").write_bytes(b"other")
    assert (
        "only .safetensors, .gguf, .bin, .pt, .pth, .ckpt, .onnx, .npz, .index, .msgpack, "
        ".metadata, .h5, .hdf5, .keras can be read so far"
        in refused(tmp_path / "model.other", "format")
    )


def test_a_file_without_suffix_is_recognised_by_its_first_bytes(sharded: Path) -> None:
    os.rename(sharded / ONE, sharded / "0123abcd")
    assert len(read(sharded / "0123abcd").rows) == 2
    (sharded / "0123abcd").write_bytes(b"not a model")
    refused(sharded / "0123abcd", "format")


def test_another_format_is_one_line_of_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy = Header((Row("a", (2,), "F32", "", (), 2, 2),), {}, 1)
    monkeypatch.setitem(
        readers.FORMATS,
        ".toy",
        readers.FileFormat("toy", lambda path: toy, lambda start: start == b"TOY"),
    )
    (tmp_path / "a.toy").write_bytes(b"by its suffix")
    (tmp_path / "b").write_bytes(b"TOY")
    write_index(tmp_path, {"a": "a.toy"}, name="model.toy.index.json")
    assert all(
        read(tmp_path / name).rows == toy.rows
        for name in ("", "a.toy", "b", "model.toy.index.json")
    )


# Paths that are not files.


@pytest.mark.parametrize(
    "name", ["gone", "gone.safetensors", f"gone/{INDEX}", f"{ONE}/inside.safetensors"]
)
def test_a_path_that_does_not_exist_is_refused(sharded: Path, name: str) -> None:
    refused(sharded / name, "missing")


@pytest.mark.parametrize("name", ["pipe", "pipe.safetensors", "pipe.safetensors.index.json"])
def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    # With a byte in the pipe, a reader that opens it fails instead of hanging.
    held = os.open(tmp_path / name, os.O_RDWR)
    os.write(held, b"x")
    refused(tmp_path / name, "regular-file")
    os.close(held)


def test_a_pipe_put_there_after_the_check_is_refused_and_not_waited_for(
    sharded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def waited(*_: object) -> None:
        raise AssertionError("the reader waits for the pipe")

    checked = os.stat(sharded / ONE)
    os.mkfifo(sharded / "pipe.safetensors")
    monkeypatch.setattr(os, "stat", lambda *_, **__: checked)
    before = signal.signal(signal.SIGALRM, waited)
    signal.setitimer(signal.ITIMER_REAL, 2)
    try:
        refused(sharded / "pipe.safetensors", "regular-file")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_device_is_refused() -> None:
    refused(Path("/dev/zero"), "regular-file")


@pytest.mark.parametrize("name", ["a\0b", "a\0.safetensors", "x" * 5000, "\ud800.safetensors"])
def test_a_path_that_no_file_can_have_is_refused(tmp_path: Path, name: str) -> None:
    refused(tmp_path / name, "unreadable")


def test_an_unreadable_file_is_refused(sharded: Path) -> None:
    forbid(sharded / ONE)
    assert "Permission denied" in refused(sharded / ONE, "unreadable")
    sharded.chmod(0o300)
    assert "Permission denied" in refused(sharded, "unreadable")
    sharded.chmod(0o700)


def test_the_reason_of_the_system_is_shown(sharded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "listdir", denied)
    monkeypatch.setattr("builtins.open", denied)
    assert "Permission denied" in refused(sharded, "unreadable")
    assert "Permission denied" in refused(sharded / ONE, "unreadable")
