"""A word in the place of a checkpoint that is the name of a model, or a config."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from checkpoints import write
from chinese import english_in

from weighbridge.cli import main

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = '{"model_type": "bert"}'
NAME = "is the name of a model, not a checkpoint. `weighbridge {0}` weighs the model of this name"
HUB = "; `hf://google-bert/bert-base-uncased` is its repository on the Hub"
CONFIGURED = "is a config, not a checkpoint. `weighbridge a.json` weighs its model"
SWAPPED = (
    "the model is the first word, and the checkpoint the second (model = '{0}', checkpoint = "
    "'{1}'). `weighbridge verify {1} {0}` compares them"
)
SAID = {
    "inspect bert-base-uncased": f"bert-base-uncased: {NAME.format('bert-base-uncased')}{HUB}.",
    "guess bert": f"bert: {NAME.format('bert')}.",
    "verify bert-base-chinese bert": f"bert: {NAME.format('bert')}.",
    "inspect a.json": f"a.json: {CONFIGURED}.",
    "guess a.json": f"a.json: {CONFIGURED}.",
    "verify a.safetensors a.json": SWAPPED.format("a.safetensors", "a.json") + ".",
    "verify a.safetensors bert": SWAPPED.format("a.safetensors", "bert") + ".",
    "inspect nobody-knows": "nobody-knows: missing: there is no such file.",
    "verify a.safetensors gone.safetensors": "gone.safetensors: missing: there is no such file.",
    "verify gone.safetensors a.json": "gone.safetensors: missing: there is no such file.",
    "inspect other.json": "other.json: format: only .safetensors, ",
    "inspect torn.json": "torn.json: format: only .safetensors, ",
}


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("line", SAID)
def test_what_the_word_is_and_what_was_meant(
    line: str,
    lang: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "a.safetensors", {"a": ("F32", (2,))})
    (tmp_path / "a.json").write_text(CONFIG)
    (tmp_path / "other.json").write_text('{"weights": []}')
    (tmp_path / "torn.json").write_text(CONFIG[:-1])
    assert main([*line.split(), "--lang", lang]) == 2
    out, err = capsys.readouterr()
    assert (out, len(err.splitlines())) == ("", 1)
    if lang == "en":
        assert err.startswith(f"weighbridge: {SAID[line]}")
    else:
        assert english_in(err) == []
