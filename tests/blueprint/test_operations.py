"""Files of operations: an error for each rule, their totals, and a fresh recording."""

from __future__ import annotations

import copy
import tomllib
import zlib
from pathlib import Path
from typing import Any

import pytest
import torch

from weighbridge import data
from weighbridge.blueprint import operations
from weighbridge.blueprint import schema as blueprint
from weighbridge.cli import main
from weighbridge.costs import costs
from weighbridge.derive.operations.holding import held_out
from weighbridge.derive.operations.recording import Recorder, record
from weighbridge.derive.operations.region import Region
from weighbridge.derive.probing.own import OwnSubject
from weighbridge.errors import BlueprintError, ExpressionError, ModelError
from weighbridge.torch.measure import OURS

torch.set_num_threads(1)

BERT = operations.load_operations("bert")
NO_DROPOUT = {"hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0}


# Bound to numbers


@pytest.mark.parametrize(
    ("attention", "fields", "training", "expected"),
    [
        ("eager", {}, True, 457_823_232),
        ("eager", NO_DROPOUT, True, 343_004_160),
        ("eager", {}, False, 343_004_160),
        ("sdpa", NO_DROPOUT, True, 305_550_336),
    ],
)
def test_bytes_saved_of_bert_are_those_that_are_known(
    attention: str, fields: dict[str, Any], training: bool, expected: int
) -> None:
    names = BERT.names(fields, batch=4, sequence=128, attention=attention, training=training)
    assert costs.saved_for_backward_bytes(BERT.bind("BertModel", "saved", names), "F32") == expected


def test_flops_of_bert_are_those_that_are_known() -> None:
    names = BERT.names({}, batch=1, sequence=512)
    forward, backward = (
        costs.matmul_flops(BERT.bind("BertModel", kind, names)) for kind in ("forward", "backward")
    )
    assert (forward, backward) == (96_637_943_808, 2 * 96_637_943_808)


def test_a_path_of_a_class_overrides_its_base() -> None:
    paths = [entry.path for entry in BERT.entries("BertForMaskedLM", "forward")]
    assert "bert.encoder.layer.{i}.output.dense" in paths
    assert "cls.predictions.decoder" in paths
    assert not [path for path in paths if "pooler" in path]


def test_a_dropout_of_the_head_falls_back_on_another_field() -> None:
    def saved(**fields: Any) -> int:
        names = BERT.names({**NO_DROPOUT, **fields}, batch=2, sequence=8)
        return costs.saved_for_backward_bytes(
            BERT.bind("BertForSequenceClassification", "saved", names), "F32"
        )

    assert saved(classifier_dropout=0.5) > saved() == saved(classifier_dropout=0)
    assert (
        saved(hidden_dropout_prob=0.1)
        > saved(hidden_dropout_prob=0.1, classifier_dropout=0)
        > saved()
    )


def test_fields_at_other_values_than_were_recorded_are_named() -> None:
    assert BERT.unheld({"hidden_act": "relu", "hidden_size": 32}) == {"hidden_act": "relu"}
    assert BERT.unheld({"hidden_act": "gelu"}) == {}


def test_a_held_list_is_compared_with_tuples_and_a_field_may_be_left_out() -> None:
    deberta = operations.load_operations("deberta-v2")
    stated = {"relative_attention": True, "share_att_key": True, "norm_rel_ebd": "layer_norm"}
    given = {**stated, "pos_att_type": ("p2c", "c2p"), "conv_kernel_size": None}
    assert deberta.unheld(given) == {}
    other = {"pos_att_type": ("c2p",), "conv_kernel_size": 3}
    assert deberta.unheld({**given, **other}) == {"pos_att_type": "c2p", "conv_kernel_size": 3}


def test_a_held_field_that_is_left_out_has_the_value_that_the_class_gives_it() -> None:
    qwen = operations.load_operations("qwen3_moe")
    assert qwen.unheld({}) == {"norm_topk_prob": False}
    assert qwen.unheld({"norm_topk_prob": True}) == {}


def test_a_value_that_is_not_a_size_is_refused() -> None:
    with pytest.raises(ExpressionError, match="not an integer from 1"):
        BERT.bind("BertModel", "forward", BERT.names({"hidden_size": 0}, sequence=8))


def test_an_unknown_class_or_family_is_refused() -> None:
    with pytest.raises(ModelError, match="there are no operations for the class BertModle"):
        list(BERT.entries("BertModle", "saved"))
    with pytest.raises(ModelError, match="there are no operations for the family brt"):
        operations.load_operations("brt")


# The law


@pytest.mark.parametrize("name", operations.available())
def test_what_is_shipped_keeps_the_law_and_was_proved(name: str) -> None:
    raw = data.read_toml(f"operations/{name}.toml")
    operations.check_operations(raw)
    assert raw["proof"]["runs"] >= 8
    assert raw["format"] == 2 or raw["proof"]["holes"] == []


def broken(change: Any) -> str:
    raw = copy.deepcopy(data.read_toml("operations/bert.toml"))
    change(raw)
    with pytest.raises(BlueprintError) as error:
        operations.check_operations(raw, "bert.toml")
    return error.value.what


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda raw: raw.pop("held"), "keys: held is missing"),
        (lambda raw: raw.update(more={}), "keys: more is unknown"),
        (
            lambda raw: raw["classes"]["BertForMaskedLM"].update(base=1),
            "keys: classes.BertForMaskedLM.base is unknown",
        ),
        (lambda raw: raw["proof"].pop("by"), "keys: proof must have against, by, runs"),
        (lambda raw: raw.update(format=3), "format: this version reads format 1 or 2, not 3"),
        (lambda raw: raw.update(source=1), "types: source must be text"),
        (lambda raw: raw.update(fields=[]), "types: fields must be a table"),
        (
            lambda raw: raw["saved"].update({"a": "I64 batch"}),
            "types: saved.a must be a list of texts",
        ),
        (
            lambda raw: raw["saved"].update({"a b": ["I64 batch"]}),
            "paths: saved.a b is not a dotted path",
        ),
        (
            lambda raw: raw["saved"].update({"a.{j}": ["I64 batch"]}),
            "paths: saved.a.{j}: {j} is not in repeat",
        ),
        (
            lambda raw: raw["forward"].update({"a": ["1 batch"]}),
            "shapes: forward.a: 1 batch must be batch, rows",
        ),
        (
            lambda raw: raw["saved"].update({"a": ["F33 batch"]}),
            "shapes: saved.a: there is no dtype F33",
        ),
        (lambda raw: raw["saved"].update({"a": ["I64 (batch"]}), "shapes: (batch: expected )"),
        (lambda raw: raw["fields"].update(batch=1), "names: fields.batch is a name of the run"),
        (
            lambda raw: raw["held"].update(hidden_size=1),
            "names: hidden_size is in both held and fields",
        ),
        (lambda raw: raw["repeat"].update(i="depth"), "names: repeat.i: depth has no default"),
        (
            lambda raw: raw["saved"].update({"a": ["I64 width"]}),
            "names: saved.a: width has no default",
        ),
        (
            lambda raw: raw["saved"].update({"a": ["I64 batch if i == 0"]}),
            "names: saved.a: i has no default",
        ),
        (
            lambda raw: raw["fields"].update(width=1),
            "names: fields.width is not used in any expression",
        ),
    ],
)
def test_a_file_that_breaks_a_rule_is_refused(change: Any, said: str) -> None:
    assert broken(change).startswith(said)


# Shipped files, recorded again


@pytest.mark.parametrize(
    ("name", "class_name"),
    [
        (name, of)
        for name in operations.available()
        if data.read_toml(f"operations/{name}.toml")["format"] == 1
        for of in operations.load_operations(name).class_names
    ],
)
def test_a_fresh_recording_is_as_the_file_says(name: str, class_name: str, seed: str) -> None:
    family = name.removesuffix(".ours")
    subject = OwnSubject(OURS[family], family=family)
    subject.task_classes()
    if class_name != subject.base_class:
        subject.check_class(class_name)
    region = Region(subject, blueprint.load(family), zlib.crc32(seed.encode()))
    runs, difference = held_out(region, operations.load_operations(name), class_name, 4)
    assert difference is None
    assert runs == 4


def test_a_fresh_recording_finds_a_file_that_is_wrong() -> None:
    raw = copy.deepcopy(data.read_toml("operations/bert.ours.toml"))
    raw["saved"]["pooler.activation"] = ["compute batch hidden_size if training"]
    region = Region(OwnSubject(OURS["bert"], family="bert"), blueprint.load("bert"), 0)
    _, difference = held_out(region, operations.Operations(raw), "BertModel", 36)
    assert difference is not None
    assert difference.startswith("saved pooler.activation")


def test_sizes_of_1_are_learned_as_a_condition(
    tmp_path: Path, monkeypatch: Any, capfd: Any
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "support"))
    path = tmp_path / "sharing.toml"
    address = ["own_models.sharing:Model", "--config", "own_models.sharing:Config"]
    words = ["--operations", "--family", "sharing", "--output", str(path)]
    assert main(["derive", *address, *words]) == 0
    assert capfd.readouterr().out == f"{path}: exact\n"
    raw = tomllib.loads(path.read_text(encoding="utf-8"))
    assert raw["saved"]["places"] == ["I64 batch*sequence if batch > 1 and sequence > 1"]
    known = operations.Operations(raw)
    for batch, sequence, expected in ((1, 7, []), (3, 1, []), (3, 7, [(21,)])):
        bound = known.bind("Model", "saved", known.names({}, batch=batch, sequence=sequence))
        assert [tensor.shape for tensor in bound if tensor.path == "places"] == expected


# Recording


def test_a_storage_is_saved_once_and_weights_are_not() -> None:
    class Twice(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(4, 4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            hidden = (x @ self.weight).exp()  # saved by exp, and by the square
            return (hidden[:, :2] ** 2).sum() + (hidden**3).sum()

    recorder = Recorder(module := Twice())
    with recorder.running():
        module(torch.ones(3, 4))
    assert [tensor.dims for tensor in recorder.recording.saved] == [(3, 4), (3, 4)]
    assert recorder.recording.saved_bytes == 2 * 3 * 4 * 4


def test_products_of_the_backward_pass_are_of_the_module_that_asked_for_them() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Linear(5, 7))
    found = record(module, {"input": torch.ones(2, 3)})
    assert [(each.path, each[1:]) for each in found.backward] == [
        ("1", (1, 2, 7, 5)),
        ("1", (1, 7, 2, 5)),
        ("0", (1, 5, 2, 3)),
    ]


# The command


def test_operations_of_ones_own_class(tmp_path: Path, monkeypatch: Any, capfd: Any) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "support"))
    path = tmp_path / "attending.toml"
    address = ["own_models.attending:Model", "--config", "own_models.attending:Config"]
    assert (
        main(["derive", *address, "--operations", "--family", "attending", "--output", str(path)])
        == 0
    )
    assert capfd.readouterr().out == f"{path}: exact\n"
    raw = tomllib.loads(path.read_text(encoding="utf-8"))
    operations.check_operations(raw)
    assert raw["forward"]["layers.{i}"] == [
        "batch sequence width sequence",
        "batch sequence sequence width",
    ]
    assert raw["saved"]["layers.{i}.drop"] == [
        "compute batch sequence width if training and dropout > 0"
    ]
    assert raw["held"] == {}
    assert 'attention == "sdpa"' in str(raw["saved"]["layers.{i}"])


def test_operations_are_of_one_family(capsys: Any) -> None:
    assert main(["derive", "bert", "gpt2", "--operations"]) == 2
    assert "--operations works with one family only" in capsys.readouterr().err


def test_operations_are_not_written_over_a_blueprint(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "bert.toml"
    path.write_text('family = "bert"\n[tensors]\n', encoding="utf-8")
    assert main(["derive", "bert", "--operations", "--output", str(path)]) == 2
    assert "exists, and does not hold operations of bert" in capsys.readouterr().err
