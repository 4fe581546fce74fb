"""Damaged files: whatever is changed, a reader returns sound rows or refuses in one line."""

from __future__ import annotations

import runpy
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weighbridge.errors import CheckpointError
from weighbridge.readers import FORMATS, read
from weighbridge.readers.formats import format_of

if TYPE_CHECKING:
    from collections.abc import Iterator

FUZZ = runpy.run_path(str(Path(__file__).parents[2] / "tools" / "fuzz.py"))
CORPUS, NAMES, hold = FUZZ["CORPUS"], FUZZ["NAMES"], FUZZ["check"]
KEPT = sorted(path for path in CORPUS.glob("*/*") if path.is_file())
VALID = [path for path in KEPT if path.name.startswith("valid")]

# Damage writes random bytes or these numbers, at which lengths and signs overflow.
EXTREME = [
    number.to_bytes(length, order)
    for length in (1, 2, 4, 8)
    for number in (0, 1, 2 ** (8 * length - 1) - 1, 2 ** (8 * length - 1), 2 ** (8 * length) - 1)
    for order in ("little", "big")
]
SOME = st.binary(min_size=1, max_size=8) | st.sampled_from(EXTREME)
DAMAGE = st.tuples(
    st.sampled_from(["turn", "cut out", "cut off", "put in", "write over"]), st.floats(0, 1), SOME
)


def damaged(content: bytes, how: str, where: float, some: bytes) -> bytes:
    at = int(where * (len(content) - 1)) if content else 0
    if how == "turn":
        return (
            content[:at]
            + bytes(byte ^ 1 << some[0] % 8 for byte in content[at : at + 1])
            + content[at + 1 :]
        )
    if how == "cut off":
        return content[:at]
    until = at if how == "put in" else at + len(some)
    return content[:at] + (b"" if how == "cut out" else some) + content[until:]


@pytest.fixture(scope="module", autouse=True)
def _without_checksums() -> Iterator[None]:
    """Ignore the checksum of a TensorFlow index: random damage would never get past it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("weighbridge.readers.tensorflow.has_checksum", lambda _raw, _stated: True)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("damaged")
    shutil.copy(FUZZ["BESIDE"], made)
    return made


def test_every_format_is_in_the_corpus() -> None:
    same_reader = {".bin", ".pth", ".ckpt"}
    by_library = {".h5", ".hdf5", ".keras"}  # the HDF5 library parses these: test_keras.py
    fuzzed = {f".{name.partition('.')[2]}" for name in NAMES.values()}
    assert fuzzed >= set(FORMATS) - same_reader - by_library
    assert {path.parent.name for path in VALID} == {path.parent.name for path in KEPT} == set(NAMES)


@pytest.mark.parametrize("kept", VALID, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_an_undamaged_file_is_read(folder: Path, kept: Path) -> None:
    path = folder / NAMES[kept.parent.name].replace("-00001-of-00002", "")
    shutil.copy(kept, path)
    assert len(read(path).rows) >= 2
    assert hold(str(path))


@pytest.mark.parametrize("fault", ["count", "parameters", "name", "metadata", "message", "hint"])
def test_unsound_results_are_detected(
    folder: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    path = folder / "sound.safetensors"
    found = read(path)
    changed = {"count": {"count": 3}, "parameters": {"parameters": 3}, "name": {"name": "\ud800"}}
    row = found.rows[0]._replace(**changed.get(fault, {}))
    metadata = {"a": "\ud800"} if fault == "metadata" else found.metadata

    def faulty(_path: str) -> Any:
        if fault in ("message", "hint"):
            raise CheckpointError(
                "a\nb" if fault == "message" else "a", hint="b" if fault == "message" else ""
            )
        return found._replace(rows=(row,), metadata=metadata)

    assert hold(str(path))
    monkeypatch.setattr("weighbridge.readers.read", faulty)
    with pytest.raises((FUZZ["NotSoundError"], UnicodeEncodeError)):
        hold(str(path))


@pytest.mark.parametrize("reader", NAMES)
def test_kept_files_are_read_soundly_or_refused(folder: Path, reader: str) -> None:
    for kept in (CORPUS / reader).iterdir():
        path = folder / NAMES[reader]
        shutil.copy(kept, path)
        hold(str(path))


@pytest.mark.sampled("src/weighbridge/readers")
@pytest.mark.slow
@pytest.mark.parametrize("kept", VALID, ids=lambda path: f"{path.parent.name}-{path.name}")
@settings(max_examples=100, deadline=None)
@given(damages=st.lists(DAMAGE, min_size=1, max_size=4))
def test_a_damaged_file_is_read_soundly_or_refused(
    folder: Path, kept: Path, damages: list[Any]
) -> None:
    content = kept.read_bytes()
    for damage in damages:
        content = damaged(content, *damage)
    path = folder / NAMES[kept.parent.name]
    path.write_bytes(content)
    hold(str(path))


class _CutFile:
    """A file that is cut after it was opened: it still states its old length."""

    def __init__(self, content: bytes, cut: int) -> None:
        self.size, self._content, self._at = len(content), content[:cut], 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def seek(self, at: int, _whence: int = 0) -> int:
        self._at = at
        return at

    def read(self, length: int = -1) -> bytes:
        raw = self._content[self._at :] if length < 0 else self._content[self._at :][:length]
        self._at += len(raw)
        return raw


@pytest.mark.parametrize("path", VALID, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_file_that_is_cut_while_it_is_read_is_refused(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if path.parent.name == "index":
        pytest.skip("an index is read at once")
    content, name = path.read_bytes(), str(tmp_path / NAMES[path.parent.name])
    file_format = format_of(name)
    module = sys.modules[file_format.read.__module__]
    cuts = sorted({*range(0, min(len(content), 400), 3), len(content) // 2})
    refused = 0
    for cut in cuts:
        cut_file = _CutFile(content, cut)
        monkeypatch.setattr(module, "open_file", lambda _, opened=cut_file: opened)
        try:
            file_format.read(name)
        except CheckpointError:
            refused += 1
    assert refused > 0
