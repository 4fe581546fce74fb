"""`weighbridge inspect`: the content of a checkpoint, in every format of the report."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING

import pytest
import torch
from safetensors.torch import save_file

import weighbridge as wb
from weighbridge.answers.inspect import GROUPINGS
from weighbridge.cli import main
from weighbridge.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., tuple[int, str, str]]

TENSORS = {
    "embeddings.word_embeddings.weight": torch.zeros(10, 4),
    **{
        f"encoder.layer.{at}.{name}": torch.zeros(4, 4, dtype=torch.bfloat16)
        for at in (0, 1, 10)
        for name in ("attention.self.query.weight", "output.dense.weight")
    },
    "pooler.dense.bias": torch.zeros(4),
    "strange": torch.zeros(3, dtype=torch.int64),
}


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs a command line here: its status, stdout and stderr."""

    def ran(*arguments: str) -> tuple[int, str, str]:
        status = main(arguments)
        return (status, *capsys.readouterr())

    return ran


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    path = tmp_path / "model.safetensors"
    save_file(TENSORS, path, metadata={"format": "pt", "long": "x" * 500})
    return path


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_tensor_of_an_index_that_no_file_holds_is_named(
    checkpoint: Path, lang: str, run: Run
) -> None:
    """It may be shared, so this is no error; one that is in another file is a matter of verify."""
    save_file({"elsewhere": torch.zeros(2)}, checkpoint.parent / "b.safetensors")
    weight_map = dict.fromkeys([*TENSORS, "elsewhere", "lm_head.weight"], checkpoint.name)
    weight_map["strange"] = "b.safetensors"
    index = checkpoint.parent / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": weight_map}))
    status, out, err = run("inspect", str(index), "--lang", lang)
    said = {
        "en": "in the index, but in none of the files, and so not counted (1): lm_head.weight.",
        "zh": "索引所列的张量中有 1 个不在任何文件里，因此不计：lm_head.weight。",
    }
    assert (status, err) == (0, "")
    assert said[lang] in " ".join(line.strip() for line in out.splitlines())
    assert "elsewhere" not in out
    del weight_map["lm_head.weight"]
    index.write_text(json.dumps({"weight_map": weight_map}))
    _, out, _ = run("inspect", str(index), "--lang", lang)
    assert said[lang][:10] not in out


@pytest.mark.parametrize("content", [{}, {"epoch": 3}, [1, 2, 3]])
def test_a_file_without_tensors_says_so(content: object, tmp_path: Path, run: Run) -> None:
    torch.save(content, tmp_path / "a.pt")
    status, out, _ = run("inspect", str(tmp_path / "a.pt"))
    assert status == 0
    assert "It holds no tensors; whatever else it holds is not counted.\n" in out
    assert "Stored as" not in out
    _, out, _ = run("inspect", str(tmp_path / "a.pt"), "--lang", "zh")
    assert "其中没有张量；别的内容不计。" in out


def test_the_totals_are_those_of_the_tensors(checkpoint: Path) -> None:
    found = wb.inspect(checkpoint)
    assert found.parameters == sum(tensor.numel() for tensor in TENSORS.values()) == 143
    assert found.bytes == sum(tensor.nbytes for tensor in TENSORS.values())
    assert found.total.tensors == len(TENSORS)


def test_tensors_are_grouped_by_each_of_the_ways(checkpoint: Path) -> None:
    found = wb.inspect(checkpoint)
    assert found.by("dtype") == {
        "F32": (2, 44, 44, 176),
        "BF16": (6, 96, 96, 192),
        "I64": (1, 3, 3, 24),
    }
    components = {"embedding.token": 40, "attention": 48, "ffn": 48, "pooler": 4, "other": 3}
    assert {name: weight.parameters for name, weight in found.by("component").items()} == components
    assert sorted(found.by("layer")) == [
        "embeddings.word_embeddings",
        "encoder.layer.0",
        "encoder.layer.1",
        "encoder.layer.10",
        "pooler.dense",
        "strange",
    ]
    for grouping in GROUPINGS:
        groups = found.by(grouping).values()
        assert [sum(column) for column in zip(*groups, strict=True)] == list(found.total), grouping
    with pytest.raises(UsageError, match="Group by component, role, layer, dtype or tensor"):
        found.by("size")


def test_a_tensor_that_is_shared_is_counted_once(tmp_path: Path) -> None:
    shared = torch.zeros(5, 2)
    torch.save({"a": shared, "b": shared, "c": torch.zeros(3)}, tmp_path / "a.pt")
    found = wb.inspect(tmp_path / "a.pt")
    assert (found.parameters, found.bytes) == (13, 52)
    assert found.by("tensor")["b"] == (1, 0, 0, 0)
    assert "b is a" in found.text()


def test_json_has_everything(checkpoint: Path, run: Run) -> None:
    status, out, err = run("inspect", str(checkpoint), "--json")
    found = json.loads(out)
    assert (status, err) == (0, "")
    assert (found["format"], found["tensors"], found["parameters"]) == ("safetensors", 9, 143)
    assert found["dtypes"]["BF16"] == {"tensors": 6, "parameters": 96, "elements": 96, "bytes": 192}
    assert {row["name"]: row["bytes"] for row in found["rows"]} == {
        name: tensor.nbytes for name, tensor in TENSORS.items()
    }
    assert found["metadata"] == {"format": "pt", "long": "x" * 500}
    assert found["evidence"]["data"] == "not read"


def test_csv_adds_up(checkpoint: Path, run: Run) -> None:
    for grouping in GROUPINGS:
        _, out, _ = run("inspect", str(checkpoint), "--csv", "--by", grouping)
        lines = list(csv.DictReader(io.StringIO(out)))
        assert sum(int(line["parameters"]) for line in lines) == 143
        assert sum(int(line["bytes"]) for line in lines) == 176 + 192 + 24


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("form", [(), ("--markdown",)])
@pytest.mark.parametrize("grouping", GROUPINGS)
def test_a_text_says_the_total_in_80_columns(
    checkpoint: Path, run: Run, lang: str, form: tuple[str, ...], grouping: str
) -> None:
    status, out, _ = run("inspect", str(checkpoint), "--lang", lang, "--by", grouping, *form)
    assert status == 0
    assert "143" in out
    assert "BF16" in out
    assert {"en": "total", "zh": "合计"}[lang] in out
    if not form:
        assert max(len(line) for line in out.splitlines() if str(checkpoint)[:40] not in line) <= 80


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("none.gguf", "missing: there is no such file"),
        (".", "no-checkpoint: the folder contains no"),
    ],
)
def test_a_missing_checkpoint_is_one_message(
    tmp_path: Path, run: Run, path: str, message: str
) -> None:
    status, out, err = run("inspect", str(tmp_path / path))
    assert (status, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1
