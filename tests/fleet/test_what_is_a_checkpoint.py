"""What one checkpoint is: a table of folders, and what `scan` and `inspect` make of each."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, NamedTuple

import gguf
import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from torch.distributed import checkpoint as distributed

from weighbridge.cli import main
from weighbridge.fleet.scan import scan

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MODEL = {"embed.weight": (8, 4), "norm.weight": (4,)}  # 36 parameters


def safetensors(path: Path, sizes: dict[str, tuple[int, ...]] = MODEL, dtype: str = "f4") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file({name: np.zeros(shape, dtype) for name, shape in sizes.items()}, path)


def saved(path: Path, sizes: dict[str, tuple[int, ...]] = MODEL) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save({name: torch.zeros(shape) for name, shape in sizes.items()}, path)


def unrelated(folder: Path) -> None:
    safetensors(folder / "A.safetensors")
    safetensors(folder / "B.safetensors", {"conv.weight": (5,)})


def quantisations(folder: Path) -> None:
    for kind in (gguf.GGMLQuantizationType.Q4_0, gguf.GGMLQuantizationType.Q8_0):
        writer = gguf.GGUFWriter(folder / f"m.{kind.name}.gguf", "llama")
        data = gguf.quantize(np.zeros((4, 64), np.float32), kind)
        writer.add_tensor("token_embd.weight", data, raw_dtype=kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()


def three_formats(folder: Path) -> None:
    safetensors(folder / "model.safetensors")
    safetensors(folder / "model.fp16.safetensors", dtype="f2")
    saved(folder / "pytorch_model.bin")


def slices_of_llama(folder: Path) -> None:
    for rank in range(2):
        saved(
            folder / f"consolidated.0{rank}.pth",
            {"tok_embeddings.weight": (8, 2), "norm.weight": (4,)},
        )
    (folder / "params.json").write_text('{"dim": 4, "n_layers": 0}')


def slices_of_deepspeed(folder: Path) -> None:
    for rank in range(2):
        saved(folder / f"mp_rank_0{rank}_model_states.pt", {"up.weight": (4, 4)})
        saved(folder / f"zero_pp_rank_0_mp_rank_0{rank}_optim_states.pt", {"flat": (16,)})


def torch_distributed(folder: Path) -> None:
    with pytest.warns(UserWarning, match="single process"):
        distributed.save({"embed.weight": torch.zeros(8, 4)}, checkpoint_id=folder)


def shards_without_an_index(folder: Path) -> None:
    safetensors(folder / "model-00001-of-00002.safetensors", {"embed.weight": (8, 4)})
    safetensors(folder / "model-00002-of-00002.safetensors", {"norm.weight": (4,)})


def an_index(folder: Path) -> None:
    shards_without_an_index(folder)
    files = [f"model-0000{number}-of-00002.safetensors" for number in (1, 2)]
    weight_map = dict(zip(MODEL, files, strict=True))
    index = {"metadata": {"total_size": 144}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    safetensors(folder / "consolidated.safetensors")


def a_missing_shard(folder: Path) -> None:
    an_index(folder)
    (folder / "consolidated.safetensors").unlink()
    (folder / "model-00002-of-00002.safetensors").unlink()


def shards_of_which_one_is_missing(folder: Path) -> None:
    shards_without_an_index(folder)
    (folder / "model-00002-of-00002.safetensors").unlink()
    (folder / "config.json").write_text("{}")


def a_shard_that_an_index_leaves_out(folder: Path) -> None:
    an_index(folder)
    (folder / "consolidated.safetensors").unlink()
    index = {"weight_map": {"norm.weight": "model-00002-of-00002.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def training_state(folder: Path) -> None:
    safetensors(folder / "model.safetensors")
    saved(folder / "optimizer.pt")
    saved(folder / "rng_state_0.pth", {"cpu": (3,)})
    saved(folder / "rng_state_1.pth", {"cpu": (3,)})


def snapshots_of_the_hub(folder: Path) -> None:
    repository = folder / "models--org--name"
    safetensors(repository / "blobs" / "0123abcd")
    for commit in ("aa", "bb"):
        link = repository / "snapshots" / commit / "model.safetensors"
        link.parent.mkdir(parents=True)
        link.symlink_to("../../blobs/0123abcd")


def hard_links(folder: Path) -> None:
    safetensors(folder / "step-1" / "model.safetensors")
    (folder / "step-2").mkdir()
    os.link(folder / "step-1" / "model.safetensors", folder / "step-2" / "model.safetensors")


def an_adapter(folder: Path) -> None:
    names = {"A": (2, 8), "B": (8, 2)}
    sizes = {f"base_model.model.up.lora_{name}.weight": shape for name, shape in names.items()}
    safetensors(folder / "adapter_model.safetensors", sizes)
    (folder / "adapter_config.json").write_text(
        '{"peft_type": "LORA", "base_model_name_or_path": "org/base"}'
    )
    (folder / "config.json").write_text('{"model_type": "bert"}')


def epochs(folder: Path) -> None:
    for number in (1, 2):
        safetensors(folder / f"epoch_{number}.safetensors", {"w": (number,)})


def epochs_of_which_one_is_broken(folder: Path) -> None:
    epochs(folder)
    (folder / "epoch_2.safetensors").write_bytes(b"{")


def formats_without_a_reader(folder: Path) -> None:
    safetensors(folder / "model.safetensors")
    (folder / "model.tflite").write_bytes(bytes(4) + b"TFL3" + bytes(300))


def the_hubs_own_files(folder: Path) -> None:
    safetensors(folder / "model.safetensors")
    cache = folder / ".cache" / "huggingface" / "download"
    cache.mkdir(parents=True)
    (cache / "model.safetensors.metadata").write_text("0123\n")


class Case(NamedTuple):
    make: Callable[[Path], None]
    scanned: list[tuple[str, str, int | None]]  # the name, the kind and the parameters of each
    inspected: dict[str, int | str]  # each file that inspect reads, with the parameters; or a rule
    beside: tuple[str, ...] = ()  # what inspect says that it did not read


CASES = [
    Case(
        unrelated,
        [("A.safetensors", "file", 36), ("B.safetensors", "file", 5)],
        {"A.safetensors": 36, "B.safetensors": 5},
    ),
    Case(
        quantisations,
        [("m.Q4_0.gguf", "file", 256), ("m.Q8_0.gguf", "file", 256)],
        {"m.Q4_0.gguf": 256, "m.Q8_0.gguf": 256},
    ),
    Case(
        three_formats,
        [
            ("model.fp16.safetensors", "file", 36),
            ("model.safetensors", "file", 36),
            ("pytorch_model.bin", "file", 36),
        ],
        {"model.safetensors": 36},
        ("model.fp16.safetensors", "pytorch_model.bin"),
    ),
    Case(
        slices_of_llama,
        [("consolidated.*.pth", "parallel", 36)],
        {"consolidated.00.pth": 20, "consolidated.01.pth": 20},
    ),
    Case(
        slices_of_deepspeed,
        [
            ("mp_rank_*_model_states.pt", "parallel", None),
            ("zero_pp_rank_0_mp_rank_00_optim_states.pt", "state", None),
            ("zero_pp_rank_0_mp_rank_01_optim_states.pt", "state", None),
        ],
        {"mp_rank_00_model_states.pt": 16, "mp_rank_01_model_states.pt": 16},
    ),
    Case(torch_distributed, [(".metadata", "parallel", 32)], {".metadata": 32}),
    Case(
        shards_without_an_index,
        [("model-*-of-00002.safetensors", "split", 36)],
        {"model-*-of-00002.safetensors": 36},
    ),
    Case(
        an_index,
        [
            ("consolidated.safetensors", "file", 36),
            ("model.safetensors.index.json", "index", 36),
        ],
        {"model.safetensors.index.json": 36},
        ("consolidated.safetensors",),
    ),
    Case(
        a_missing_shard,
        [("model.safetensors.index.json", "index", None)],
        {"model.safetensors.index.json": "shard-missing"},
    ),
    Case(
        shards_of_which_one_is_missing,
        [("model-*-of-00002.safetensors", "partial", None)],
        {"model-*-of-00002.safetensors": "shard-missing"},
    ),
    Case(
        a_shard_that_an_index_leaves_out,
        [
            ("model-00001-of-00002.safetensors", "split", 32),
            ("model.safetensors.index.json", "index", 4),
        ],
        {"model.safetensors.index.json": 4},
        ("model-00001-of-00002.safetensors",),
    ),
    Case(
        training_state,
        [
            ("model.safetensors", "file", 36),
            ("optimizer.pt", "state", None),
            ("rng_state_0.pth", "state", None),
            ("rng_state_1.pth", "state", None),
        ],
        {"model.safetensors": 36},
    ),
    Case(
        snapshots_of_the_hub,
        [("aa/model.safetensors", "file", 36), ("bb/model.safetensors", "file", 36)],
        {"snapshots": "no-checkpoint"},
    ),
    Case(
        hard_links,
        [("step-1/model.safetensors", "file", 36), ("step-2/model.safetensors", "file", 36)],
        {"folder": "no-checkpoint"},
    ),
    Case(
        an_adapter,
        [("adapter_model.safetensors", "adapter", 32)],
        {"adapter_model.safetensors": 32},
    ),
    Case(
        epochs,
        [("epoch_1.safetensors", "file", 1), ("epoch_2.safetensors", "file", 2)],
        {"epoch_1.safetensors": 1, "epoch_2.safetensors": 2},
    ),
    Case(
        epochs_of_which_one_is_broken,
        [("epoch_1.safetensors", "file", 1), ("epoch_2.safetensors", "file", None)],
        {"epoch_2.safetensors": "too-short"},
    ),
    Case(
        formats_without_a_reader,
        [("model.safetensors", "file", 36), ("model.tflite", "file", None)],
        {"model.safetensors": 36},
        ("model.tflite",),
    ),
    Case(the_hubs_own_files, [("model.safetensors", "file", 36)], {"model.safetensors": 36}),
]


def made(case: Case, tmp_path: Path) -> Path:
    folder = tmp_path / "folder"
    folder.mkdir()
    case.make(folder)
    return folder


def rows_of(folder: Path, output: Path) -> list[dict[str, Any]]:
    connection = scan([str(folder)], output).table.connection()
    table: Any = connection.sql("SELECT * FROM checkpoints ORDER BY path").to_arrow_table()
    rows: list[dict[str, Any]] = table.to_pylist(maps_as_pydicts="strict")
    return rows


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.make.__name__)
def test_scan_has_a_row_for_each_checkpoint(case: Case, tmp_path: Path) -> None:
    folder = made(case, tmp_path)
    rows = rows_of(folder, tmp_path / "fleet.parquet")
    found = [(row["path"], row["kind"], row["parameters"]) for row in rows]
    assert len(found) == len(case.scanned)
    for (path, *numbers), (name, *expected) in zip(found, case.scanned, strict=True):
        assert path.endswith(f"/{name}")
        assert numbers == expected
    disk = {place: size for row in rows for place, size in row["inode"].items()}
    inodes = {file.stat().st_ino for file in folder.rglob("*") if _is_listed(file)}
    assert {int(place.partition(":")[2]) for place in disk} == inodes


def _is_listed(file: Path) -> bool:
    """Whether a file is a checkpoint's; configs, blobs and the notes of the Hub are not."""
    if not file.is_file() or "blobs" in file.parts or ".cache" in file.parts:
        return False
    return file.suffix != ".json" or file.name.endswith(".index.json")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.make.__name__)
def test_inspect_reads_the_same_checkpoints_or_names_what_it_leaves_out(
    case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = made(case, tmp_path)
    status = main(["inspect", str(folder), "--json"])
    out, err = capsys.readouterr()
    if isinstance(next(iter(case.inspected.values())), str):
        assert status == 2
        assert all(f": {rule}: " in err for rule in case.inspected.values())
        return
    assert status == 0
    answer = json.loads(out)
    found = answer.get("checkpoints", [answer])
    assert [each["parameters"] for each in found] == list(case.inspected.values())
    if len(found) > 1:
        names = [os.path.basename(each["checkpoint"]) for each in found]
        assert names == list(case.inspected)
    for name in case.beside:
        assert name in err, "a note names what was not read"
    assert bool(case.beside) == ("note: " in err)


def test_slices_are_named_in_the_list(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    slices_of_llama(tmp_path)
    assert main(["inspect", str(tmp_path)]) == 0
    assert "slices of one model for 2 devices" in " ".join(capsys.readouterr().out.split())


def test_copies_of_one_model_share_a_layout(tmp_path: Path) -> None:
    folder = made(Case(three_formats, [], {}), tmp_path)
    rows = rows_of(folder, tmp_path / "fleet.parquet")
    assert len({row["layout"] for row in rows}) == len({row["folder"] for row in rows}) == 1
    assert len({row["signature"] for row in rows}) == 2, "one is stored in F16"


def test_an_adapter_names_its_base_and_is_not_compared_with_its_config(tmp_path: Path) -> None:
    folder = made(Case(an_adapter, [], {}), tmp_path)
    (row,) = rows_of(folder, tmp_path / "fleet.parquet")
    assert (row["base_model"], row["agrees"], row["model_type"]) == ("org/base", None, "bert")
