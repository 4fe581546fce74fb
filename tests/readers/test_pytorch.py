"""PyTorch checkpoints that `torch.save` writes, read without PyTorch."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections import OrderedDict
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import BertConfig, BertForMaskedLM

import weighbridge as wb
from weighbridge.errors import CheckpointError
from weighbridge.readers import read
from weighbridge.units import NAMES, stored_bytes

if TYPE_CHECKING:
    from pathlib import Path

DTYPES = [getattr(torch, name) for name in NAMES]
WAYS = {"new": {}, "old": {"_use_new_zipfile_serialization": False}}
ways = pytest.mark.parametrize("way", WAYS)


def save(what: Any, path: Path, way: str = "new") -> Path:
    torch.save(what, path, **WAYS[way])
    return path


def expected(tensors: dict[str, torch.Tensor]) -> list[tuple[Any, ...]]:
    return [
        (
            name,
            tuple(tensor.shape),
            NAMES[str(tensor.dtype).removeprefix("torch.")],
            tensor.numel(),
            tensor.nbytes,
        )
        for name, tensor in tensors.items()
    ]


def rows(path: Path) -> list[tuple[Any, ...]]:
    return [
        (row.name, row.shape, row.dtype, row.count, stored_bytes(row.count, row.dtype))
        for row in read(path).rows
    ]


@ways
def test_every_dtype_of_torch_is_read(tmp_path: Path, way: str) -> None:
    tensors = {str(dtype): torch.zeros(3, 4, dtype=dtype) for dtype in DTYPES}
    assert rows(save(tensors, tmp_path / "a.pt", way)) == expected(tensors)


@ways
def test_views_scalars_parameters_and_empty_tensors_are_read(tmp_path: Path, way: str) -> None:
    base = torch.zeros(6, 8)
    tensors = OrderedDict(
        base=base,
        part=base[2:, ::2],
        turned=base.t(),
        spread=torch.zeros(1).expand(5),
        scalar=torch.tensor(3.0),
        empty=torch.zeros(0, 5),
        parameter=torch.nn.Parameter(torch.zeros(2, 2)),
    )
    assert rows(save(tensors, tmp_path / "a.bin", way)) == expected(tensors)


@ways
def test_shared_tensors_in_a_module_s_state_are_tied(tmp_path: Path, way: str) -> None:
    module = torch.nn.ModuleDict({"embed": torch.nn.Embedding(7, 4), "head": torch.nn.Linear(4, 7)})
    module["head"].weight = module["embed"].weight
    found = read(save(module.state_dict(), tmp_path / "pytorch_model.bin", way)).rows
    assert [(row.name, row.parameters, row.tied_to) for row in found] == [
        ("embed.weight", 28, None),
        ("head.weight", 0, "embed.weight"),
        ("head.bias", 7, None),
    ]


@ways
def test_a_checkpoint_is_compared_with_its_model(tmp_path: Path, way: str) -> None:
    config = BertConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        vocab_size=99,
    )
    config.architectures = ["BertForMaskedLM"]
    config.save_pretrained(tmp_path)
    state = BertForMaskedLM(config).state_dict()
    save(state, tmp_path / "pytorch_model.bin", way)
    found = wb.verify(tmp_path, tmp_path)
    assert (found.status, found.differences) == (0, ())
    del state["bert.embeddings.LayerNorm.bias"]
    save(state, tmp_path / "pytorch_model.bin", way)
    found = wb.verify(tmp_path, tmp_path)
    assert (found.status, [each.name for each in found.differences]) == (
        1,
        ["bert.embeddings.LayerNorm.bias"],
    )


@ways
def test_other_objects_of_a_trainer_are_skipped(tmp_path: Path, way: str) -> None:
    optimizer = torch.optim.AdamW([torch.nn.Parameter(torch.ones(3))])
    optimizer.param_groups[0]["params"][0].grad = torch.ones(3)
    optimizer.step()
    kept = {
        "model": {"w": torch.zeros(2)},
        "optimizer": optimizer.state_dict(),
        "args": argparse.Namespace(lr=0.1, name="x"),
        "epoch": 3,
        "done": [True, None, 2.5, "text", b"raw", (1, -2, 2**40), {1, 2}],
        "size": torch.Size([1, 2]),
        "rng": [torch.zeros(4, dtype=torch.uint8)],
    }
    names = [
        "model.w",
        "optimizer.state.0.step",
        "optimizer.state.0.exp_avg",
        "optimizer.state.0.exp_avg_sq",
        "rng.0",
    ]
    assert [row[0] for row in rows(save(kept, tmp_path / "last.ckpt", way))] == names


def test_torch_is_not_imported(tmp_path: Path) -> None:
    path = save({"a": torch.zeros(2)}, tmp_path / "a.pt")
    code = (
        "import sys; from weighbridge.readers import read; "
        "print(len(read(sys.argv[1]).rows), 'torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, path], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["1", "False"]


def test_nothing_in_a_file_is_run(tmp_path: Path) -> None:
    class Touch:
        def __reduce__(self) -> Any:
            return open, (str(tmp_path / "touched"), "w")

    for way in WAYS:
        with pytest.raises(CheckpointError, match=r"pickle-global: .*dangerous = '_?io.open'"):
            read(save({"a": torch.zeros(2), "b": Touch()}, tmp_path / "a.pt", way))
    assert not (tmp_path / "touched").exists()


@ways
def test_a_file_that_is_cut_off_anywhere_is_refused(tmp_path: Path, way: str) -> None:
    whole = save({"a": torch.zeros(2), "b": torch.ones(3)}, tmp_path / "a.pt", way).read_bytes()
    for length in range(len(whole)):
        (tmp_path / "a.pt").write_bytes(whole[:length])
        with pytest.raises(CheckpointError):
            read(tmp_path / "a.pt")


@given(at=st.integers(0, 3000), bit=st.integers(0, 7), way=st.sampled_from(sorted(WAYS)))
def test_a_flipped_bit_is_refused_or_read(
    tmp_path_factory: pytest.TempPathFactory, at: int, bit: int, way: str
) -> None:
    path = tmp_path_factory.getbasetemp() / f"turned-{way}.pt"
    whole = save({"a": torch.zeros(2), "b": torch.ones(3)}, path, way).read_bytes()
    at %= len(whole)
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :])
    with suppress(CheckpointError):  # and no other
        assert all(row.count >= 0 for row in read(path).rows)
