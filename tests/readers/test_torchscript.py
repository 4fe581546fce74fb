"""TorchScript archives, read without PyTorch and without their code."""

from __future__ import annotations

import io
import pickle
import warnings
import zipfile
from typing import TYPE_CHECKING, Any

import pytest

from weighbridge.errors import CheckpointError
from weighbridge.readers import read

if TYPE_CHECKING:
    from pathlib import Path


def _module() -> Any:
    import torch

    class Small(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up = torch.nn.Linear(3, 4)
            self.layers = torch.nn.ModuleList([torch.nn.Linear(2, 2, bias=False)])
            self.tied = self.layers[0].weight
            self.register_buffer("places", torch.arange(5))
            self.scale = torch.nn.Parameter(torch.zeros(2, dtype=torch.bfloat16))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.up(x) + torch.ones(4)

    return Small()


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return archives of one module: traced, and frozen, with its weights as constants."""
    import torch

    folder, module = tmp_path_factory.mktemp("script"), _module().eval()
    with warnings.catch_warnings(action="ignore"):  # PyTorch advises against TorchScript
        traced = torch.jit.trace(module, torch.ones(3))
        torch.jit.save(traced, folder / "traced.pt")
        torch.jit.save(torch.jit.freeze(traced), folder / "frozen.pt")
    return {"traced": folder / "traced.pt", "frozen": folder / "frozen.pt"}


def test_a_traced_module_has_the_tensors_of_its_state_dict(saved: dict[str, Path]) -> None:
    found = read(saved["traced"])
    rows = {row.name: row for row in found.rows}
    state = _module().state_dict()
    assert {name: row.shape for name, row in rows.items()} == {
        name: tuple(tensor.shape) for name, tensor in state.items()
    }
    assert {rows[name].dtype for name in ("scale", "places")} == {"BF16", "I64"}
    assert sum(row.parameters for row in found.rows) == 4 * 3 + 4 + 2 * 2 + 5 + 2
    assert found.metadata == {"archive": "TorchScript"}
    assert {name for name, row in rows.items() if row.tied_to} in ({"tied"}, {"layers.0.weight"})


def test_the_weights_of_a_frozen_module_are_its_constants(saved: dict[str, Path]) -> None:
    shapes = sorted(row.shape for row in read(saved["frozen"]).rows)
    assert {(4, 3), (4,)} <= set(shapes)
    assert all(row.name.startswith("constants.") for row in read(saved["frozen"]).rows)


def changed(source: Path, target: Path, **members: bytes) -> Path:
    """Write an archive again with other pickles."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for info in old.infolist():
            name = info.filename.partition("/")[2].replace(".", "_").replace("/", "_")
            new.writestr(info.filename, members.get(name, old.read(info)))
    return target


class _Runs:
    """What a pickle runs when Python loads it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (open, (str(self.path), "w"))


def test_nothing_that_a_pickle_would_run_is_run(saved: dict[str, Path], tmp_path: Path) -> None:
    bad = pickle.dumps({"a": _Runs(tmp_path / "made")}, protocol=2)
    for member in ("data_pkl", "constants_pkl"):
        path = changed(saved["traced"], tmp_path / f"{member}.pt", **{member: bad})
        with pytest.raises(CheckpointError, match="pickle-global") as caught:
            read(path)
        assert "\n" not in str(caught.value)
    assert not (tmp_path / "made").exists()


def _nested(depth: int) -> bytes:
    """Return the pickle of modules in modules."""
    out = io.BytesIO()
    out.write(b"\x80\x02")
    for _ in range(depth):
        out.write(b"c__torch__\nM\n)\x81}X\x01\x00\x00\x00a")
    out.write(b"]" + b"sb" * depth + b".")
    return out.getvalue()


def test_modules_in_modules_are_bounded(saved: dict[str, Path], tmp_path: Path) -> None:
    assert not read(changed(saved["traced"], tmp_path / "a.pt", data_pkl=_nested(10))).rows
    with pytest.raises(CheckpointError, match="torch-deep"):
        read(changed(saved["traced"], tmp_path / "b.pt", data_pkl=_nested(10_000)))


def test_a_storage_of_another_size_is_refused(saved: dict[str, Path], tmp_path: Path) -> None:
    for kind, member in (("traced", "data_0"), ("frozen", "constants_0")):
        path = changed(saved[kind], tmp_path / f"{kind}.pt", **{member: bytes(3)})
        with pytest.raises(CheckpointError, match="torch-storage"):
            read(path)


def test_an_archive_that_is_cut_off_is_refused(saved: dict[str, Path], tmp_path: Path) -> None:
    content = saved["traced"].read_bytes()
    for length in (4, len(content) // 2, len(content) - 1):
        (tmp_path / "a.pt").write_bytes(content[:length])
        with pytest.raises(CheckpointError):
            read(tmp_path / "a.pt")
