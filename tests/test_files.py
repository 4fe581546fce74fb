"""Files are written completely or not at all: a failed write leaves the old file."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest

from weighbridge.errors import UsageError
from weighbridge.files import write_durably, write_whole

if TYPE_CHECKING:
    from pathlib import Path


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("content", ["größer\n", b"\xff\x00"])
def test_a_file_is_replaced_and_nothing_is_left_beside_it(
    content: str | bytes, tmp_path: Path
) -> None:
    path = tmp_path / "a.toml"
    path.write_text("before")
    write_whole(path, content)
    assert path.read_bytes() == (content.encode() if isinstance(content, str) else content)
    assert names(tmp_path) == ["a.toml"]


def test_a_file_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "a.toml"
    with pytest.raises(UsageError) as caught:
        write_whole(path, "text")
    assert str(caught.value) == (
        f"{path}: cannot be written: No such file or directory. "
        "Name a file that can be written with --output."
    )


def test_a_folder_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "a.toml").mkdir()
    with pytest.raises(UsageError, match="cannot be written: Is a directory"):
        write_whole(tmp_path / "a.toml", "text")
    assert names(tmp_path) == ["a.toml"]


def test_a_write_that_fails_halfway_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"before")

    def fail(part: str) -> None:
        with open(part, "wb") as file:
            file.write(b"half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        write_durably(path, fail)
    assert path.read_bytes() == b"before"
    assert names(tmp_path) == ["a.bin"]


def test_the_part_of_a_killed_process_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / ".a.bin.part").write_bytes(b"half of a file that is long")

    def write(part: str) -> None:
        with open(part, "wb") as file:
            file.write(b"whole")

    write_durably(tmp_path / "a.bin", write)
    assert (tmp_path / "a.bin").read_bytes() == b"whole"
    assert names(tmp_path) == ["a.bin"]


def test_others_may_read_a_file_that_a_library_writes_for_its_owner_alone(tmp_path: Path) -> None:
    def write(part: str) -> None:
        os.close(os.open(part, os.O_CREAT | os.O_WRONLY, 0o600))

    before = os.umask(0o027)
    try:
        write_durably(tmp_path / "a.bin", write)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a.bin").stat().st_mode) == 0o640
