"""Files that are one checkpoint by their numbering: all of them must be there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import fsspec
import numpy as np
import pytest
from checkpoints import write
from safetensors.numpy import save, save_file

from weighbridge.cli import main
from weighbridge.errors import CheckpointError
from weighbridge.readers import read, read_all

if TYPE_CHECKING:
    from pathlib import Path


def names(numbers: str, count: str, pattern: str = "model-{}-of-{}.safetensors") -> list[str]:
    return [pattern.format(number, count) for number in numbers.split()]


def save_each(folder: Path, files: list[str], *, same: bool = False) -> None:
    for number, file in enumerate(files):
        save_file({"a" if same else f"a{number}": np.zeros(2, "f4")}, folder / file)


# The numbers of the files that are there, the number of all, and the number of a missing one.
INCOMPLETE = {
    "the second": ("00001", "00002", "00002"),
    "the first": ("00002 00003", "00003", "00001"),
    "one in between": ("00001 00003", "00003", "00002"),
    "counted from 0": ("00000 00002", "00003", "00001"),
    "without zeros": ("9 10", "11", "1"),
    "a longer count": ("00001", "000163", "00002"),
    "a number too large": ("1", "9" * 40, "2"),
}


@pytest.mark.parametrize("case", INCOMPLETE)
@pytest.mark.parametrize("given", ["", "*.safetensors"])
def test_a_folder_or_a_pattern_that_lacks_one_is_refused(
    case: str, given: str, tmp_path: Path
) -> None:
    numbers, count, missing = INCOMPLETE[case]
    save_each(tmp_path, names(numbers, count))
    (name,) = names(missing, count)
    with pytest.raises(CheckpointError, match=f": shard-missing: .*missing = '{name[:50]}"):
        read(tmp_path / given)


COMPLETE = {
    "all": ("00001 00002", "00002"),
    "counted from 0": ("00000 00001", "00002"),
    "counted from 0 to the last": ("0 1 2", "2"),
    "one of one": ("00001", "000001"),
    "a number that is larger": ("00003", "00002"),
    "of none": ("0", "0"),
}


@pytest.mark.parametrize("case", COMPLETE)
def test_a_folder_that_lacks_none_is_read(case: str, tmp_path: Path) -> None:
    files = names(*COMPLETE[case])
    save_each(tmp_path, files)
    assert len(read(tmp_path).files) == len(files)


def test_a_pattern_may_leave_files_out(tmp_path: Path) -> None:
    save_each(tmp_path, names("00001 00002 00003", "00003"))
    assert len(read(tmp_path / "model-0000[12]-of-*.safetensors").rows) == 2
    (tmp_path / "model-00002-of-00003.safetensors").unlink()
    with pytest.raises(CheckpointError, match="shard-missing"):
        read(tmp_path / "model-0000[12]-of-*.safetensors")
    assert len(read(tmp_path / "model-0000[13]-of-*.safetensors").rows) == 2


@pytest.mark.parametrize("word", ["epoch", "step", "Fold", "rank"])
def test_what_counts_other_things_is_complete(word: str, tmp_path: Path) -> None:
    files = names("1 3", "10", f"model-{word}-{{}}-of-{{}}.safetensors")
    save_each(tmp_path, files, same=True)
    assert [len(found.files) for found in read_all(tmp_path)] == [1, 1]


def test_a_file_that_is_given_by_its_own_path_is_read_with_a_note(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (file,) = names("00001", "00002")
    write(tmp_path / file, {"bert.pooler.dense.bias": ("F32", (4,))})
    for command in ("inspect", "guess"):
        main([command, str(tmp_path / file)])
        out, err = capsys.readouterr()
        assert out
        assert err.startswith("weighbridge: note: by its name, this is file 1 of 2 of a checkpoint")
    for command in ("inspect", "guess", "verify bert"):
        assert main([*command.split(), str(tmp_path)]) == 2
        out, err = capsys.readouterr()
        assert (out, len(err.splitlines())) == ("", 1)
        assert ": shard-missing: " in err


def test_in_a_store_too() -> None:
    store = fsspec.filesystem("memory")
    (file,) = names("00001", "00002")
    store.pipe(f"/numbered/{file}", save({"a": np.zeros(2, "f4")}))
    assert len(read(f"memory://numbered/{file}").rows) == 1
    with pytest.raises(CheckpointError, match="shard-missing"):
        read("memory://numbered")
