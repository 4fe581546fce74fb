"""A scan: rows that equal what `inspect` says, and a table that can be resumed and tidied."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hostile import HOSTILE
from lakes import make_lake, rows_in
from permissions import forbid
from pyarrow import dataset
from safetensors.numpy import save_file

import weighbridge as wb
from weighbridge.cli import main
from weighbridge.errors import UsageError
from weighbridge.fleet import comparing
from weighbridge.fleet.columns import CHECKPOINTS, LAYOUTS
from weighbridge.fleet.scan import ScanSettings, scan
from weighbridge.fleet.store import FleetTable
from weighbridge.fleet.summary import summarize

if TYPE_CHECKING:
    from pathlib import Path

COUNT, LAYERS = 20, 1


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lake") / "lake"
    make_lake(folder, COUNT, layers=LAYERS)
    return folder


@pytest.fixture(scope="module")
def fleet(lake: Path) -> Path:
    output = lake.parent / "fleet.parquet"
    scan([str(lake)], output)
    return output


def test_each_row_says_what_inspect_says(fleet: Path) -> None:
    rows = rows_in(fleet)
    read = [row for row in rows if row["status"] == "ok" and row["kind"] in {"file", "index"}]
    assert len(read) > COUNT / 2
    for row in read:
        inspection = wb.inspect(row["path"])
        assert (row["parameters"], row["bytes"]) == (inspection.parameters, inspection.bytes)
        assert row["tensors"] == inspection.total.tensors
        assert row["elements"] == inspection.total.elements
        dtypes = {name: list(of.values()) for name, of in row["dtypes"].items()}
        expected = inspection.by("dtype").items()
        assert dtypes == {name: [of.tensors, of.parameters, of.bytes] for name, of in expected}


def test_checkpoints_are_compared_with_their_config_as_verify_does(fleet: Path) -> None:
    answers = set()
    for row in rows_in(fleet):
        if row["agrees"] is None:
            continue
        verification = wb.verify(f"{row['folder']}/config.json", row["path"])
        assert row["agrees"] == (verification.status == 0)
        answers.add(row["agrees"])
    assert answers == {True, False}


def test_layouts_are_guessed_as_guess_does(fleet: Path) -> None:
    layouts = FleetTable(fleet).connection().sql("SELECT * FROM layouts").to_arrow_table()
    by_layout = {row["layout"]: row for row in layouts.to_pylist()}
    for row in rows_in(fleet):
        if row["status"] != "ok" or row["kind"] in {"state", "adapter", "parallel"}:
            continue
        layout = by_layout.pop(row["layout"], None)
        if layout:
            best = wb.guess(row["path"]).best
            assert (layout["family"], layout["class"]) == (best.family, best.class_name)
    assert not by_layout, "there is no layout without a checkpoint"


def test_a_layout_is_guessed_and_compared_once(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guessed, compared = [], []
    monkeypatch.setattr(comparing, "guess", lambda path: guessed.append(path) or wb.guess(path))
    choose = comparing.choose
    monkeypatch.setattr(
        comparing, "choose", lambda *given: compared.append(given) or choose(*given)
    )
    answer = scan([str(lake)], tmp_path / "fleet.parquet")
    rows = rows_in(tmp_path / "fleet.parquet")
    models = [row for row in rows if row["status"] == "ok" and row["kind"] in {"file", "index"}]
    assert answer.layouts == len(guessed) == len({row["layout"] for row in models})
    pairs = {(row["layout"], row["config_sha"]) for row in rows if row["agrees"] is not None}
    assert answer.compared == len(compared) == len(pairs) < len(models)


def test_what_is_known_is_not_read_again_and_what_has_changed_is(tmp_path: Path) -> None:
    copy, output = tmp_path / "lake", tmp_path / "fleet.parquet"
    make_lake(copy, COUNT // 2, layers=LAYERS)
    count = scan([str(copy)], output).new
    again = scan([str(copy)], output)
    assert (again.new, again.layouts) == (0, 0)
    weights = next(copy.rglob("model.safetensors"))
    os.utime(weights, (1e9, 1e9))
    config = next(path for path in copy.rglob("config.json") if path.parent != weights.parent)
    config.write_text(config.read_text() + " ")
    assert scan([str(copy)], output).new == 2
    shutil.rmtree(weights.parent)
    pruned = scan([str(copy)], output, ScanSettings(prune=True, compact=True))
    assert pruned.dropped == 3, "two old rows, and one of a file that is gone"
    assert sum(pruned.by_status.values()) == count - 1
    assert len(list(output.glob("*.parquet"))) == 1
    fresh = tmp_path / "fresh.parquet"
    scan([str(copy)], fresh)
    assert rows_in(output, compared=True) == rows_in(fresh, compared=True)
    assert scan([str(copy)], output).new == 0


def test_any_reader_of_parquet_opens_the_folder(fleet: Path) -> None:
    found = dataset.dataset(fleet, format="parquet")
    assert found.schema.names == list(CHECKPOINTS)
    assert found.count_rows() == len(rows_in(fleet))
    layouts = dataset.dataset(fleet / "_layouts", format="parquet")
    assert layouts.schema.names == list(LAYOUTS)


def test_workers_write_the_same_rows(lake: Path, fleet: Path, tmp_path: Path) -> None:
    output = tmp_path / "fleet.parquet"
    scan([str(lake)], output, ScanSettings(workers=2))
    assert rows_in(output, compared=True) == rows_in(fleet, compared=True)


def test_a_list_of_paths_and_a_pattern(lake: Path, tmp_path: Path) -> None:
    single = next(lake.rglob("model.safetensors"))
    paths = tmp_path / "paths.txt"
    paths.write_text(f"{single}\n\n{single.parent}\n")
    output = str(tmp_path / "fleet.parquet")
    pattern = str(lake / "org*" / "*" / "adapter_model.safetensors")
    assert main(["scan", pattern, "--list", str(paths), "-o", output]) == 0
    rows = rows_in(tmp_path / "fleet.parquet")
    assert {row["path"] for row in rows} == {
        str(single),
        *map(str, lake.rglob("adapter_model.safetensors")),
    }


def test_an_address_of_fsspec(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    store = fsspec.filesystem("memory")
    folders = [tmp_path / name for name in ("bert", "other")]
    config = {"model_type": "bert", "num_hidden_layers": 1, "hidden_size": 4, "vocab_size": 9}
    config |= {"num_attention_heads": 1, "intermediate_size": 8, "max_position_embeddings": 3}
    for number, folder in enumerate(folders):
        folder.mkdir()
        rows = wb.weigh({**config, "num_hidden_layers": 1 + number}).stored_rows
        save_file(
            {row.name: np.zeros(row.shape, "f4") for row in rows}, folder / "model.safetensors"
        )
        (folder / "config.json").write_text(json.dumps(config))
        store.put(str(folder), f"/bucket/runs/{number}", recursive=True)
    output = tmp_path / "fleet.parquet"
    assert scan(["memory://bucket"], output).new == 2
    rows = rows_in(output)
    expected = {folder.name: rows_in_of(folder, tmp_path) for folder in folders}
    for row, (name, there) in zip(rows, expected.items(), strict=True):
        assert row["path"].endswith("/model.safetensors"), name
        for column in ("parameters", "bytes", "layout", "signature", "agrees", "config_parameters"):
            assert row[column] == there[column], column
    assert scan(["memory://bucket"], output).new == 0
    store.pipe("/bucket/runs/0/model.safetensors", b"{")
    assert scan(["memory://bucket"], output).new == 1
    assert [row["rule"] for row in rows_in(output)] == ["too-short", None]


def rows_in_of(folder: Path, tmp_path: Path) -> dict[str, Any]:
    output = tmp_path / f"{folder.name}.parquet"
    scan([str(folder)], output)
    (row,) = rows_in(output)
    return row


def test_the_summary_adds_up(fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = rows_in(fleet)
    models = [
        row for row in rows if row["status"] == "ok" and row["kind"] not in {"state", "adapter"}
    ]
    assert main(["scan", "--summary", str(fleet), "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["checkpoints"] == len(rows)
    assert summary["parameters"] == sum(row["parameters"] for row in models)
    for grouping in ("family", "size", "packing", "age"):
        groups = summary["by"][grouping]
        assert sum(group["count"] for group in groups) == len(models), grouping
        assert sum(group["bytes"] for group in groups) == sum(row["bytes"] for row in models)
    broken = [row for row in rows if row["status"] != "ok"]
    assert sum(rule["count"] for rule in summary["broken"]) == len(broken) > 0
    assert {row["path"] for row in rows if row["agrees"] is False} == {
        row["path"] for row in summary["disagreeing"]
    }
    disk = {place: size for row in rows for place, size in row["inode"].items()}
    assert summary["disk_bytes"] == sum(disk.values())
    largest = max(rows, key=lambda row: row["file_bytes"])
    assert summary["largest"][0]["file_bytes"] == largest["file_bytes"]


def test_hard_links_are_no_copies(tmp_path: Path) -> None:
    make_lake(tmp_path / "lake", 1, layers=LAYERS)
    single = next((tmp_path / "lake").rglob("model.safetensors"))
    (tmp_path / "lake" / "linked").mkdir()
    os.link(single, tmp_path / "lake" / "linked" / "model.safetensors")
    scan([str(tmp_path / "lake")], tmp_path / "fleet.parquet")
    assert summarize(tmp_path / "fleet.parquet").copies == []
    make_lake(tmp_path / "lake" / "copied", 1, layers=LAYERS)
    scan([str(tmp_path / "lake")], tmp_path / "fleet.parquet")
    (copies,) = summarize(tmp_path / "fleet.parquet").copies
    assert copies[1] == 2


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_summary_fits_the_screen(
    fleet: Path, lang: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from weighbridge.render.table import width

    assert main(["scan", "--summary", str(fleet), "--lang", lang]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert all(width(line) <= 80 for line in out.splitlines())


WRONG = {
    "scan": "there is nothing to scan",
    "scan {lake}": "scan writes a folder of Parquet files, and needs its name. Give -o FOLDER",
    "scan no/such/folder -o {tmp}/out": "there is nothing to scan (path = 'no/such/folder')",
    "scan {lake} -o {lake}/TRUTH.jsonl": "the result of a scan is a folder",
    "scan --summary {tmp}": "this is not the result of a scan",
    "scan {lake} --summary {tmp}": "--summary reads a result",
    "scan {lake} -o {tmp}/out --workers 0": "there must be at least one worker (workers = 0)",
    "scan --list no.txt -o {tmp}/out": "no.txt: cannot be read",
    "scan nothing://bucket -o {tmp}/out": "scheme: ",
}


@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_question_gets_one_message(
    line: str, lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [word.format(lake=lake, tmp=tmp_path) for word in line.split()]
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert WRONG[line] in err


def test_no_hostile_file_ends_a_scan(tmp_path: Path) -> None:
    """Each is refused by a rule, and one that is sound is read; none is an error of the program."""
    files = [str(file) for file in HOSTILE.iterdir()]
    scan([str(HOSTILE), *files], tmp_path / "fleet.parquet")
    rows = {row["path"]: row for row in rows_in(tmp_path / "fleet.parquet")}
    unread = [file for file in files if file not in rows and ".data-" not in file]
    assert not unread, "each has a row; .data files are parts of the TensorFlow index beside them"
    statuses = {row["status"] for row in rows.values()}
    assert statuses <= {"ok", "refused", "unread"}
    assert all(row["rule"] for row in rows.values() if row["status"] != "ok")
    assert rows[str(HOSTILE / "sound.safetensors")]["status"] == "ok"
    assert sum(row["status"] == "refused" for row in rows.values()) > len(files) / 2


@pytest.mark.parametrize("name", ["round", "round.safetensors"])
def test_a_circular_link_does_not_end_a_scan(tmp_path: Path, name: str) -> None:
    """What is no checkpoint by its name is passed over, and what is one has a row that says why."""
    lake, fleet = tmp_path / "lake", tmp_path / "fleet.parquet"
    lake.mkdir()
    (lake / name).symlink_to(name)
    save_file({"a": np.zeros(2, "f4")}, lake / "sound.safetensors")
    scan([str(lake)], fleet)
    rules = {os.path.basename(row["path"]): row["rule"] for row in rows_in(fleet)}
    expected = {"round.safetensors": "unreadable"} if "." in name else {}
    assert rules == {"sound.safetensors": None, **expected}


def test_a_link_into_a_folder_that_may_not_be_read_does_not_end_a_scan(tmp_path: Path) -> None:
    lake, closed = tmp_path / "lake", tmp_path / "closed"
    lake.mkdir()
    closed.mkdir()
    (lake / "a.safetensors").symlink_to(closed / "a.safetensors")
    forbid(closed)
    try:
        scan([str(lake)], tmp_path / "fleet.parquet")
    finally:
        closed.chmod(0o700)
    (row,) = rows_in(tmp_path / "fleet.parquet")
    assert row["rule"] == "unreadable"


def test_a_file_in_a_folder_that_may_not_be_listed_is_scanned(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    lake.mkdir()
    save_file({"a": np.zeros(2, "f4")}, lake / "a.safetensors")
    lake.chmod(0o300)
    try:
        if os.access(lake, os.R_OK):
            pytest.skip("this user may list every folder")
        scan([str(lake / "a.safetensors")], tmp_path / "fleet.parquet")
    finally:
        lake.chmod(0o700)
    (row,) = rows_in(tmp_path / "fleet.parquet")
    assert (row["status"], row["parameters"]) == ("ok", 2)


def test_two_scans_do_not_write_to_one_folder(lake: Path, tmp_path: Path) -> None:
    table = FleetTable(tmp_path / "fleet.parquet")
    with table.writing(), pytest.raises(UsageError, match="another scan is writing there"):
        scan([str(lake)], table.folder)
