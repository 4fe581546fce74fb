"""Folders of sentence-transformers: the modules of modules.json, weighed and verified together."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import weighbridge as wb
from weighbridge.answers.inspect import Inspections, inspect_all
from weighbridge.answers.pipeline import verify_pipeline, weigh_pipeline
from weighbridge.cli import main
from weighbridge.errors import ModelError

# Saved by sentence-transformers 6.2.0, which counts 932 parameters: a Transformer, Pooling, Dense,
# LayerNorm and Normalize.
SAVED = Path(__file__).parents[1] / "data" / "sentence"
COUNTS = {"0_Transformer": 888, "2_Dense": 36, "3_LayerNorm": 8}
OLD_TYPES = "sentence_transformers.models."


@pytest.fixture(params=["newer", "older"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a folder as newer versions save it, or as older ones did."""
    place = tmp_path / "model"
    shutil.copytree(SAVED, place)
    if request.param == "older":
        (place / "0_Transformer").mkdir()
        for name in ("config.json", "model.safetensors", "sentence_bert_config.json"):
            (place / name).rename(place / "0_Transformer" / name)
        modules = json.loads((place / "modules.json").read_text())
        for module in modules:
            module["path"] = module["path"] or "0_Transformer"
            module["type"] = OLD_TYPES + module["type"].rpartition(".")[2]
        (place / "modules.json").write_text(json.dumps(modules))
    return place


def test_all_modules_are_weighed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["weigh", str(folder), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["components"] == COUNTS
    assert answer["parameters"] == sum(COUNTS.values()) == 932
    assert main(["weigh", str(folder), "--class", "BertModel"]) == 0


def test_all_checkpoints_are_inspected_and_verified(folder: Path) -> None:
    inspections = inspect_all(folder)
    assert isinstance(inspections, Inspections)
    assert [one.parameters for one in inspections.inspections] == [*COUNTS.values()]
    assert verify_pipeline(folder, folder).status == 0
    (folder / "2_Dense" / "config.json").write_text('{"in_features": 8, "out_features": 5}')
    assert main(["verify", str(folder), str(folder)]) == 1


def test_a_transformer_alone_is_weighed_as_the_class_that_the_library_builds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = {"model_type": "t5", "vocab_size": 7, "d_model": 8, "d_ff": 16, "num_layers": 1}
    config |= {"num_heads": 2, "d_kv": 4, "architectures": ["T5ForConditionalGeneration"]}
    (tmp_path / "config.json").write_text(json.dumps(config))
    kinds = ("Transformer", "Pooling", "Normalize")
    paths = ("", "1_Pooling", "2_Normalize")
    modules = [
        {"type": OLD_TYPES + kind, "path": path} for kind, path in zip(kinds, paths, strict=True)
    ]
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    assert main(["weigh", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["class"] == "T5EncoderModel"
    assert wb.weigh(tmp_path).class_name == "T5EncoderModel"
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "pegasus"}))
    assert main(["weigh", str(tmp_path)]) == 2
    assert "does not know the class" in capsys.readouterr().err


def test_several_modules_are_not_weighed_as_one(folder: Path) -> None:
    hint = rf"`weighbridge weigh {folder}` counts them together"
    with pytest.raises(ModelError, match=f"is several models .*{hint}"):
        wb.weigh(folder)
    assert main(["weigh", str(folder), "--set", "num_hidden_layers=3"]) == 2
    place = folder if (folder / "config.json").exists() else folder / "0_Transformer"
    assert wb.weigh(place, "BertModel").parameters == COUNTS["0_Transformer"]


def changed(folder: Path, index: int, **fields: object) -> None:
    path = folder / "modules.json"
    modules = json.loads(path.read_text())
    modules[index] |= fields
    path.write_text(json.dumps(modules))


def test_a_module_without_a_blueprint_is_named_and_not_in_the_total(folder: Path) -> None:
    changed(folder, 2, type=OLD_TYPES + "CNN")
    weighing = weigh_pipeline(folder)
    assert weighing.status == 1
    assert weighing.parameters == 888 + 8
    assert "CNN is in no library" in weighing.unweighed["2_CNN"]
    with pytest.raises(ModelError, match="is in no library"):
        weigh_pipeline(folder, strict=True)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"path": "../2_Dense"}, "as its path the name of a folder"),
        ({"path": None}, "as its path the name of a folder"),
        ({"type": 3}, "a module has a type"),
        ({"path": "5_Dense"}, "names a module without a config.json"),
    ],
)
def test_broken_modules_are_told_in_one_message(
    folder: Path, fields: dict[str, object], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    changed(folder, 2, **fields)
    for command in (["weigh"], ["verify", str(folder)], ["inspect"]):
        assert main([*command, str(folder)]) == 2
        message = capsys.readouterr().err
        assert said in message
        assert message.count("\n") == 1
    (folder / "modules.json").write_text("[")
    assert main(["weigh", str(folder)]) == 2
    assert "the text must be valid JSON" in capsys.readouterr().err


def test_the_sources_of_each_module_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["weigh", str(SAVED), "--evidence"]) == 0
    out = capsys.readouterr().out
    for name in ("0_Transformer", "2_Dense", "3_LayerNorm"):
        assert f"\n{name}\nHow we know: the blueprint " in out


def test_the_folder_itself_has_a_name_in_a_list_of_checkpoints(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["inspect", str(SAVED)]) == 0
    assert "\n.                 23 " in capsys.readouterr().out
