"""`scan --check`: is each checkpoint of a repository what its config.json says?"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from chinese import english_in
from safetensors.numpy import save_file

import weighbridge as wb
from weighbridge.cli import main

ROOT = Path(__file__).parents[2]
CONFIG = {
    "model_type": "bert",
    "architectures": ["BertModel"],
    "num_hidden_layers": 1,
    "hidden_size": 4,
    "vocab_size": 9,
    "num_attention_heads": 1,
    "intermediate_size": 8,
    "max_position_embeddings": 3,
}


def save(folder: Path, layers: int = 1) -> int:
    """Write a checkpoint with some layers beside a config of one; return its parameters."""
    folder.mkdir()
    weighed = wb.weigh({**CONFIG, "num_hidden_layers": layers}, "BertModel")
    tensors = {row.name: np.zeros(row.shape, "f4") for row in weighed.stored_rows}
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(CONFIG))
    return sum(tensor.size for tensor in tensors.values())


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_checkpoint_that_agrees(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    count = save(here / "good")
    (here / "bare").mkdir()
    shutil.copy(here / "good" / "model.safetensors", here / "bare")
    assert main(["scan", "--check", ".", "--badge", "badge.svg"]) == 0
    out, err = capsys.readouterr()
    place = os.path.join("good", "model.safetensors")
    assert f"{place}: agrees with its config.json ({count} parameters)\n" in out
    assert "not compared: no config.json beside it" in out
    assert "1 agree, 0 differ, 0 cannot be read, 1 were not compared." in out
    assert err == ""
    badge = ET.fromstring((here / "badge.svg").read_text())  # noqa: S314  # our own file
    assert badge.get("aria-label") == f"weights: {count} parameters"


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"model_type": "nobody-knows"}, "nobody-knows"),
        ({**CONFIG, "num_attention_heads": 3}, "hidden_size % num_attention_heads"),
    ],
)
def test_a_config_that_cannot_be_weighed_is_not_compared(
    config: dict[str, object], why: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(here / "good")
    save(here / "odd")
    (here / "odd" / "config.json").write_text(json.dumps(config))
    assert main(["scan", "--check", "."]) == 0
    out, err = capsys.readouterr()
    (line,) = [line for line in out.splitlines() if line.startswith("odd")]
    assert "not compared: " in line
    assert why in " ".join(out.split())
    assert "1 agree, 0 differ, 0 cannot be read, 1 were not compared." in out
    assert err == ""


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_one_that_differs_and_one_that_is_cut_short(
    lang: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = {
        "good": save(here / "good"),
        "other": save(here / "other", 2),
        "cut": save(here / "cut"),
    }
    weights = here / "cut" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4])
    assert main(["scan", "--check", ".", "--badge", "badge.json", "--lang", lang]) == 1
    lines = capsys.readouterr().out.splitlines()
    (differs,) = [line for line in lines if line.startswith("other")]
    assert f"{sizes['other']:,}" in differs
    assert f"{sizes['good']:,}" in differs
    assert len([line for line in lines if "model.safetensors" in line]) == 3
    badge = json.loads((here / "badge.json").read_text())
    assert badge["schemaVersion"] == 1
    assert (badge["message"], badge["color"]) == ("2 of 3 not as stated", "red")
    assert main(["scan", "--check", ".", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    results = [Path(one["path"]).parent.name for one in found["checkpoints"]]
    assert dict(zip(results, [one["result"] for one in found["checkpoints"]], strict=True)) == {
        "good": "agrees",
        "other": "differs",
        "cut": "broken",
    }


def test_a_reason_is_in_chinese_and_does_not_repeat_the_path(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("good", "cut", "sharded", "unknown", "torn"):
        save(here / name)
    weights = here / "sharded" / "model.safetensors"
    for path in (weights, here / "cut" / "model.safetensors"):
        os.truncate(path, path.stat().st_size - 4)
    weights.rename(here / "sharded" / "a.safetensors")
    index = {"weight_map": {"a": "a.safetensors"}}
    (here / "sharded" / "model.safetensors.index.json").write_text(json.dumps(index))
    (here / "unknown" / "config.json").write_text('{"model_type": "nobody-knows"}')
    (here / "torn" / "config.json").write_text('{"model_type": ')
    assert main(["scan", "--check", ".", "--lang", "zh"]) == 1
    out = capsys.readouterr().out
    assert english_in(out.replace("Expecting value", "")) == []
    lines = {line.split(os.sep)[0]: line for line in out.splitlines()}
    assert lines["cut"].startswith("cut/model.safetensors: 无法读取：truncated：文件不能在最后一个")
    assert "无法读取：sharded/a.safetensors：truncated：文件不能" in lines["sharded"]
    assert "未比对：该配置：没有 model_type 'nobody-knows' 的蓝图" in lines["unknown"]
    assert "未比对：config.json：json：文本必须是有效的 JSON" in lines["torn"]
    assert str(here) not in out
    main(["scan", "--check", "cut", "--json", "--lang", "zh"])
    (found,) = json.loads(capsys.readouterr().out)["checkpoints"]
    assert found["reason"].startswith(f"{here}/cut/model.safetensors: truncated: the file must")
    assert found.keys() == {"path", "result", "parameters", "config_parameters", "reason"}


# https://shields.io/badges/endpoint-badge: the properties of the schema, and its named colors.
REQUIRED = {"schemaVersion": int, "label": str, "message": str}
OPTIONAL = {"color", "labelColor", "isError", "namedLogo", "logoSvg", "logoColor", "logoSize"}
COLORS = {"brightgreen", "green", "yellow", "yellowgreen", "orange", "red", "blue", "grey"}


@pytest.mark.parametrize("layers", [1, 2])
def test_a_badge_is_what_shields_reads(layers: int, here: Path) -> None:
    save(here / "model", layers)
    main(["scan", "--check", ".", "--badge", "badge.json"])
    badge = json.loads((here / "badge.json").read_text())
    assert {name: type(badge[name]) for name in REQUIRED} == REQUIRED
    assert badge["schemaVersion"] == 1
    assert badge["message"]
    assert badge.keys() - REQUIRED <= OPTIONAL
    assert badge["color"] in COLORS


WRONG = {
    "scan --check": "there is nothing to scan",
    "scan --check no/such": "there is nothing to scan (path = 'no/such')",
    "scan --check empty": "no checkpoint there can be compared with a config",
    "scan --check good -o out": "--check writes no table",
    "scan good --badge badge.svg": "--badge needs --check",
    "scan --check good --badge badge.png": "a badge is SVG or JSON",
    "scan --check good --badge no/such/badge.svg": "cannot be written",
}


@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_question_gets_one_message(
    line: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(here / "good")
    (here / "empty").mkdir()
    assert main(line.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert WRONG[line] in err


def commands_of_action() -> list[str]:
    lines = (ROOT / "action.yml").read_text().splitlines()
    return [line.strip()[5:] for line in lines if line.strip().startswith("run: ")]


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.parametrize(("layers", "status"), [(1, 0), (2, 1)])
def test_the_command_of_the_action(here: Path, layers: int, status: int) -> None:
    """The action's own line, run as its runner does; `weighbridge` is this checkout."""
    save(here / "a model", layers)
    program = here / "weighbridge"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m weighbridge "$@"\n')
    program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{here}:{os.environ['PATH']}"}
    environment |= {"CHECKED": "a model", "BADGE": "the badge.svg"}
    environment["PYTHONPATH"] = str(ROOT / "src")
    command = ["bash", "-eo", "pipefail", "-c", commands_of_action()[-1]]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == status, ran.stderr
    assert (here / "the badge.svg").exists()


def test_the_hook_has_a_command_that_exists() -> None:
    text = (ROOT / ".pre-commit-hooks.yaml").read_text()
    fields = dict(line.strip("- ").split(": ", 1) for line in text.splitlines())
    name, *words = fields["entry"].split()
    assert name == "weighbridge"
    with pytest.raises(SystemExit) as ended:
        main([*words, "--help"])
    assert ended.value.code == 0
    assert fields["pass_filenames"] == "false"
