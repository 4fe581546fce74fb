"""Every option of `finetune` with a bad value is one message, before anything is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import sklearn  # noqa: F401  # as the command does
import tokenizers  # noqa: F401
import torch  # noqa: F401

from weighbridge.cli import main
from weighbridge.cli.finetuning import COMMANDS

if TYPE_CHECKING:
    from pathlib import Path

FILES = {
    "a.csv": b"text,label\n" + b"".join(b"text %d,%d\n" % (at, at % 2) for at in range(20)),
    "empty.csv": b"",
    "blank.csv": b"\r\n\r\n,,\r\n",
    "header.csv": b"text,label\n",
    "one.csv": b"text,label\na,1\nb,1\n",
    "small.csv": b"text,label\na,1\nb,1\nc,0\n",
    "latin.csv": b"text,label\ncaf\xe9 au lait,1\nb,0\n",
    "other.csv": b"text,label\na,1\nb,2\n",
    "same.csv": b"text,label\na,1\na,0\n",
}

BAD: dict[str, list[tuple[list[str], str]]] = {
    "data": [
        (["none.csv"], "none.csv: cannot be read: No such file or directory"),
        (["."], ".: has an unknown file type"),
        (["a.xlsx"], "a.xlsx: has an unknown file type. Give a file that ends in .csv, .txt"),
        (["empty.csv"], "empty.csv: contains no texts (broken = 0)"),
        (["blank.csv"], "blank.csv: contains no texts (broken = 0)"),
        (["header.csv"], "header.csv: contains no texts (broken = 0)"),
        (["one.csv"], "one.csv: there are fewer than two classes (texts = 2, label = '1')"),
        (["small.csv"], "small.csv: a class is too small to be split (label = '0', texts = 1)"),
        (["same.csv"], "same.csv: there are fewer than two classes (texts = 0, label = null)"),
        (["latin.csv"], "latin.csv: line 2: the text is not UTF-8"),
    ],
    "--from": [
        (["--from", "none"], "none: there is no such checkpoint"),
        (["--from", "a.csv"], "config.json"),
    ],
    "--out": [
        (["--out", "a.csv"], "a.csv: is not a writable folder: File exists"),
        (["--out", "{start}"], "the checkpoint would be overwritten"),
    ],
    "--text": [
        (["--text", "said"], "there is no such column (columns = 'text, label', text = 'said')"),
        (["--text", "label"], "text and label are the same column (column = 'label')"),
    ],
    "--label": [(["--label", "kind"], "there is no such column")],
    "--encoding": [
        (["--encoding", "gb"], "there is no such encoding (encoding = 'gb')"),
        (["--encoding", "utf-32"], "a.csv: the file is not in this encoding"),
    ],
    "--no-header": [
        (["--no-header", "--text", "text"], "there is no such column (columns = '1, 2'")
    ],
    "--test": [
        (["--test", "none.csv"], "none.csv: cannot be read"),
        (["--test", "empty.csv"], "empty.csv: contains no texts"),
        (["--test", "other.csv"], "other.csv: line 3: no training text has this label"),
        (["--test", "same.csv"], "same.csv: contains no text with a single label"),
    ],
    "--held-out": [
        (["--held-out", "0"], "--held-out must be a share between 0 and 1 (held_out = 0.0)"),
        (["--held-out", "1"], "--held-out must be a share between 0 and 1"),
        (["--held-out", "0.99"], "too few texts are left to train on"),
    ],
    "--epochs": [(["--epochs", "0"], "--epochs must be 1 or more (epochs = 0)")],
    "--steps": [(["--steps", "0"], "--steps must be 1 or more")],
    "--batch": [(["--batch", "-1"], "--batch must be 1 or more"), (["--batch", "x"], "--batch")],
    "--accumulate": [
        (["--accumulate", "0"], "--accumulate must be 1 or more"),
        (["--accumulate", "3"], "a batch cannot be cut into equal pieces (batch = 32"),
    ],
    "--learning-rate": [
        (["--learning-rate", "0"], "--learning-rate must be more than 0"),
        (["--learning-rate", "nan"], "--learning-rate must be more than 0 (learning_rate = nan)"),
        (["--learning-rate", "inf"], "--learning-rate must be more than 0"),
    ],
    "--warmup": [(["--warmup", "1.5"], "--warmup must be a share from 0 to 1")],
    "--weight-decay": [(["--weight-decay", "-1"], "--weight-decay must be 0 or more")],
    "--clip": [(["--clip", "0"], "--clip must be more than 0")],
    "--max-length": [(["--max-length", "2"], "--max-length must be 3 or more")],
    "--patience": [(["--patience", "0"], "--patience must be 1 or more")],
    "--seed": [(["--seed", "-1"], "--seed must be from 0 to 4294967295")],
    "--device": [(["--device", "abacus"], "there is no such device here (device = 'abacus'")],
    "--checkpoint-every": [(["--checkpoint-every", "0"], "--checkpoint-every must be 1 or more")],
    "--watch": [(["--watch", "accuracy"], "--watch")],
    "--class-weights": [(["--class-weights", "heavy"], "--class-weights")],
    "--lang": [(["--lang", "xx"], "--lang")],
    "--precision": [(["--precision", "float16"], "--precision")],
}
NO_BAD_VALUE = {"--skip-broken", "--overwrite", "--json"}
CASES = [(words, says) for cases in BAD.values() for words, says in cases]


def test_every_option_is_here() -> None:
    declared = {
        option.names[0] for given in COMMANDS["finetune"].every_option() for option in given.each()
    }
    assert declared == BAD.keys() | NO_BAD_VALUE


@pytest.mark.parametrize(("words", "says"), CASES, ids=[" ".join(words) for words, _ in CASES])
def test_a_bad_value_is_one_message(
    words: list[str],
    says: str,
    bert_tiny: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    start = str(bert_tiny)
    given = [word.replace("{start}", start) for word in words]
    data = [] if not given[0].startswith("--") else ["a.csv"]
    defaults = ["--from", start, "--out", "out"]
    status = main(["finetune", *data, *defaults, *given])
    said = capsys.readouterr()
    assert (status, said.out) == (2, "")
    assert says in said.err
    assert len(said.err.splitlines()) == 1, said.err
    assert "Traceback" not in said.err
    assert not any((tmp_path / "out").iterdir() if (tmp_path / "out").exists() else ())
