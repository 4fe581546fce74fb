"""`weighbridge measure`: predictions equal measurements exactly, and bad requests are refused."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from weighbridge import data
from weighbridge.answers.measure import Measuring
from weighbridge.blueprint import operations
from weighbridge.blueprint.schema import load
from weighbridge.cli import main
from weighbridge.costs import costs
from weighbridge.derive.operations.recording import Recorder, loss_of
from weighbridge.derive.operations.workload import Workload, built, inputs
from weighbridge.derive.running.runs import reference
from weighbridge.errors import ConfigError, ModelError, UsageError
from weighbridge.torch import measure as measuring
from weighbridge.torch.measure import EXACT, MeasureRequest, measure

if TYPE_CHECKING:
    from pathlib import Path

    from weighbridge.costs.costs import Measurement, Quantity

torch.set_num_threads(1)

NAMES = (*EXACT, "peak_bytes", "step_seconds")
TINY = {
    "hidden_size": 24,
    "num_attention_heads": 3,
    "num_hidden_layers": 2,
    "intermediate_size": 40,
    "vocab_size": 60,
    "max_position_embeddings": 32,
}
NO_DROPOUT = {"hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0}
WORDS = [f"--set={name}={value}" for name, value in TINY.items()]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure the machine's rate on small matrices."""
    monkeypatch.setitem(measuring._RATE_SIZE, "cpu", 64)


def by_name(found: Measurement) -> dict[str, Quantity]:
    return {quantity.name: quantity for quantity in found.quantities}


@pytest.mark.parametrize("dtype", ["F32", "BF16"])
@pytest.mark.parametrize("fields", [{}, NO_DROPOUT], ids=["dropout", "none"])
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("ours", [False, True], ids=["transformers", "ours"])
def test_predictions_agree_with_measurements(
    attention: str, fields: dict[str, Any], dtype: str, *, ours: bool
) -> None:
    question = MeasureRequest(
        "bert", None, {**TINY, **fields}, None, 3, 17, train=True, attention=attention, dtype=dtype
    )
    found = by_name(measure(question._replace(ours=ours)))
    assert list(found) == list(NAMES)
    assert [found[name].ratio for name in EXACT] == [1] * 5
    assert found["peak_bytes"].ratio == 1
    assert found["step_seconds"].measured > 0


@pytest.mark.parametrize("class_name", [*operations.load_operations("bert").class_names[1:]])
@pytest.mark.parametrize("ours", [False, True], ids=["transformers", "ours"])
def test_a_head_is_predicted_too(class_name: str, *, ours: bool) -> None:
    found = measure(
        MeasureRequest("bert", class_name, TINY, batch=2, sequence=9, train=True, ours=ours)
    )
    assert not found.differing
    assert all(by_name(found)[name].predicted for name in EXACT)


def test_forward_alone_saves_without_dropout_and_goes_nowhere_backward() -> None:
    question = MeasureRequest("bert", fields=TINY, batch=2, sequence=9)
    forward, backward = (
        by_name(measure(question._replace(train=train))) for train in (False, True)
    )
    assert forward["backward_matmul_flops"][1:] == (None, None)
    without = by_name(measure(question._replace(train=True, fields={**TINY, **NO_DROPOUT})))
    assert forward["saved_for_backward_bytes"] == without["saved_for_backward_bytes"]
    assert (
        forward["saved_for_backward_bytes"].measured < backward["saved_for_backward_bytes"].measured
    )


def test_bert_at_its_true_size() -> None:
    subject, run = reference().FamilySubject("bert"), Workload("BertModel", {}, 4, 128)
    module, fields = built(subject, run), {"vocab_size": 30522}
    recorder = Recorder(module)
    with recorder.running():
        loss_of(module(**inputs(run, fields)))
    assert recorder.recording.saved_bytes == 457_823_232
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        module(**inputs(run._replace(batch=1, sequence=512), fields))
    assert counter.get_total_flops() == 96_637_943_808


def test_a_family_without_operations_is_not_predicted() -> None:
    tiny = {"n_embd": 8, "n_head": 2, "n_layer": 1, "vocab_size": 20}
    found = measure(MeasureRequest("openai-gpt", fields=tiny, sequence=5))
    quantities = by_name(found)
    assert quantities["parameters"].ratio == 1
    assert [quantities[name].predicted for name in EXACT[2:]] == [None] * 3
    assert quantities["saved_for_backward_bytes"].measured > 0
    assert quantities["peak_bytes"].ratio == 1
    assert [note.key for note in found.notes] == [
        "assumed_dtype",
        "no_operations",
        "rehearsal",
        "rate",
    ]


def test_a_fixed_field_is_not_predicted_at_another_value() -> None:
    found = measure(MeasureRequest("bert", fields={**TINY, "hidden_act": "relu"}, sequence=5))
    assert by_name(found)["saved_for_backward_bytes"].predicted is None
    assert found.notes[1].values["fields"] == "hidden_act = 'relu'"


BASE_CLASSES = {
    "deit": {"image_size": 32, "num_channels": 3},
    "dinov2": {"image_size": 28, "num_channels": 3},
    "electra": {"embedding_size": 16},
    "ernie": {"hidden_act": "relu"},
    "vit": {"image_size": 32, "num_channels": 3},
    "xlm-roberta": {"pad_token_id": 1},
}


@pytest.mark.parametrize("family", BASE_CLASSES)
def test_base_classes_are_predicted(family: str) -> None:
    blueprint = load(family)
    tiny = {name: value for name, value in TINY.items() if name in blueprint.fields}
    question = MeasureRequest(family, blueprint.base_class, {**tiny, **BASE_CLASSES[family]})
    for train in (False, True):
        found = by_name(measure(question._replace(batch=2, sequence=9, train=train)))
        counts = [name for name in EXACT if train or not name.startswith("backward")]
        assert {found[name].ratio for name in counts} == {1}


@pytest.mark.parametrize("family", ["t5", "bart"])
def test_a_base_class_with_a_decoder_is_given_its_tokens(family: str) -> None:
    tiny = {"d_model": 16, "vocab_size": 60, "num_layers": 1, "encoder_layers": 1}
    fields = {name: value for name, value in tiny.items() if name in load(family).fields}
    found = by_name(measure(MeasureRequest(family, load(family).base_class, fields, sequence=5)))
    assert found["parameters"].ratio == 1
    assert found["forward_matmul_flops"].measured > 0


GENERATIVE = {
    "hidden_size": 32,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "num_hidden_layers": 2,
    "intermediate_size": 48,
    "vocab_size": 60,
    "sliding_window": 7,
    "attention_dropout": 0.1,
    "pad_token_id": 0,
    "num_local_experts": 4,
}
ONLY_EAGER = ("gemma2", "gpt_oss")


@pytest.mark.parametrize("family", ["llama", "mistral", "gemma2", "gpt_oss", "granite"])
def test_generative_families_are_predicted(family: str) -> None:
    blueprint = load(family)
    known = {*blueprint.fields, *operations.load_operations(family).fields}
    fields = {name: value for name, value in GENERATIVE.items() if name in known}
    question = MeasureRequest(family, None, fields, None, 2, 19)
    for train, attention, dtype in (
        (False, "eager", "F32"),
        (True, "sdpa", "F32"),
        (True, "eager", "BF16"),
        (False, "sdpa", "F16"),
    ):
        if attention == "sdpa" and family in ONLY_EAGER:
            continue
        found = measure(question._replace(train=train, attention=attention, dtype=dtype))
        ratios = {name: quantity.ratio for name, quantity in by_name(found).items()}
        counts = [ratios[name] for name in EXACT if train or not name.startswith("backward")]
        assert set(counts) == {1}
        assert ratios["peak_bytes"] == pytest.approx(1, abs=0.03)


def test_products_that_torch_does_not_count_are_counted() -> None:
    tiny = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1, "head_dim": 8}
    question = MeasureRequest("mixtral", fields={**tiny, "num_key_value_heads": 1}, sequence=4)
    few, many = (
        measure(question._replace(fields={**question.fields, "intermediate_size": size}))
        for size in (8, 16)
    )
    flops = [by_name(found)["forward_matmul_flops"].measured for found in (few, many)]
    assert flops[1] - flops[0] == 2 * 3 * 4 * 2 * 16 * 8  # 3 matrices, 4 tokens, 2 experts each


def test_the_dtype_is_that_of_the_config(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "bert", **TINY, "torch_dtype": "bfloat16"}))
    assert main(["measure", str(path), "--seq", "8", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["run"]["dtype"], report["weight_bytes"]["measured"]) == ("BF16", 23_728)
    assert report["notes"][0] == "The config states the dtype BF16; --dtype replaces it."
    assert main(["measure", str(path), "--seq", "8", "--json", "--dtype", "float32"]) == 0
    assert json.loads(capsys.readouterr().out)["weight_bytes"]["measured"] == 47_456
    path.write_text(json.dumps({"model_type": "bert", **TINY, "dtype": "float64"}))
    assert main(["measure", str(path)]) == 2
    assert "a class cannot be run in this dtype (dtype = 'F64'). Add --dtype" in (
        capsys.readouterr().err
    )


def test_a_step_that_needs_values_has_no_predicted_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    def asks(*_: object, **__: object) -> int:
        raise ValueError("which value?")

    monkeypatch.setattr(measuring, "rehearsed_peak_bytes", asks)
    found = measure(MeasureRequest("bert", fields=TINY, sequence=8))
    assert by_name(found)["peak_bytes"].predicted is None
    note = costs.Note("no_rehearsal", {"reason": "ValueError: which value?"})
    assert note in found.notes


def test_json_has_each_of_the_seven(capsys: Any) -> None:
    assert main(["measure", "bert", *WORDS, "--batch", "2", "--seq", "8", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert {name: list(report[name]) for name in NAMES} == {
        key: ["predicted", "measured", "ratio"] for key in NAMES
    }
    assert report["backward_matmul_flops"] == {"predicted": None, "measured": None, "ratio": None}
    assert report["parameters"] == {"predicted": 11_864, "measured": 11_864, "ratio": 1.0}
    assert (report["run"]["batch"], report["run"]["sequence"]) == (2, 8)


def test_a_count_that_differs_is_status_1_and_named(
    monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(costs, "weight_bytes", lambda _: 4)
    assert main(["measure", "bert", *WORDS, "--seq", "8"]) == 1
    assert "Different from the prediction: weight_bytes." in capsys.readouterr().out


def test_both_languages_say_the_same() -> None:
    english, chinese = (data.read_toml(f"words/measure.{lang}.toml") for lang in ("en", "zh"))
    assert english.keys() == chinese.keys()
    found = measure(MeasureRequest("bert", fields=TINY, sequence=8))
    texts = [Measuring(found).text(lang) for lang in ("en", "zh")]
    assert ["11,864" in text for text in texts] == [True, True]
    assert "实测" in texts[1]


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (
            MeasureRequest("bert", batch=0),
            "--batch must be a positive integer (batch = 0). Give 1 to 1,048,576.",
        ),
        (
            MeasureRequest("bert", sequence=-3),
            "--seq must be a positive integer (seq = -3). Give 1 to 1,048,576.",
        ),
        (
            MeasureRequest("bert", sequence=513),
            "(seq = 513, max_position_embeddings = 512). Give --seq 512 or less.",
        ),
        (MeasureRequest("bert", device="tpu"), "no such device (device = 'tpu')"),
    ],
)
def test_an_impossible_run_is_refused(question: MeasureRequest, message: str) -> None:
    with pytest.raises(UsageError) as error:
        measure(question)
    assert message in str(error.value)


def test_unknown_models_are_refused() -> None:
    with pytest.raises(ModelError, match="no model, family or file has this name"):
        measure(MeasureRequest("brt"))
    with pytest.raises(ModelError, match="bert has no class 'BertForNothing'"):
        measure(MeasureRequest("bert", "BertForNothing"))
    with pytest.raises(ConfigError, match="num_attention_heads == 0"):
        measure(MeasureRequest("bert", fields={"hidden_size": 770}))
    with pytest.raises(ModelError, match="gpt2: this package has no class of its own"):
        measure(MeasureRequest("gpt2", sequence=8, ours=True))


def test_a_model_larger_than_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "_free_bytes", lambda _: 60_000)
    question = MeasureRequest("bert", fields=TINY, sequence=8)
    with pytest.raises(
        ModelError,
        match=r"does not fit into free memory \(needed = '.* KiB', free = '58.6 KiB'\)",
    ):
        measure(question)
    assert measure(question._replace(force=True)).quantities


def test_weights_that_do_not_fit_are_refused_before_anything_is_built(
    monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(measuring, "_free_bytes", lambda _: 50_000)
    monkeypatch.setattr(measuring, "_subject", None)
    assert main(["measure", "bert", *WORDS, "--seq", "8", "--train"]) == 2
    assert capsys.readouterr().err == (
        "weighbridge: BertModel: the weights and their gradients alone do not fit into free memory "
        "(weights = '46.3 KiB', gradients = '46.3 KiB', free = '48.8 KiB'). Use --dtype bfloat16, "
        "set fewer layers with --set, or run it anyway with --force.\n"
    )
    monkeypatch.setattr(measuring, "_free_bytes", lambda _: 20_000)
    words = ["--seq", "8", "--dtype", "bfloat16", "--lang", "zh"]
    assert main(["measure", "bert", *WORDS, *words]) == 2
    assert "仅权重就超出可用内存（权重 = '23.2 KiB'" in capsys.readouterr().err


def test_code_that_raises_is_one_message() -> None:
    fields = {"id2label": {str(number): "" for number in range(3)}}
    with pytest.raises(
        ModelError, match=r"BertForQuestionAnswering: running it raised ValueError: too many values"
    ):
        measure(MeasureRequest("bert", "BertForQuestionAnswering", {**TINY, **fields}, sequence=8))


def test_ctrl_c_ends_it(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(measuring, "run_step", interrupted)
    assert main(["measure", "bert", *WORDS, "--seq", "8"]) == 130
    assert capsys.readouterr().err == "weighbridge: stopped\n"


@pytest.mark.parametrize("missing", ["torch", "transformers"])
def test_a_missing_package_is_named(
    missing: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == missing else find(name)
    )
    assert main(["measure", "bert"]) == 2
    assert (
        f"missing packages: {missing}. Run `pip install torch==2.13.0`, then"
        in capsys.readouterr().err
    )


_WITHOUT_TRANSFORMERS = """
import sys
sys.modules["transformers"] = None
from weighbridge.cli import main
status = main(sys.argv[1:])
print(status, "torch" in sys.modules)
"""


@pytest.mark.parametrize(
    ("options", "expected"), [(["--ours", *WORDS], "0 True"), (WORDS, "2 False")]
)
def test_ours_needs_no_transformers_and_others_say_so_before_torch_is_loaded(
    options: list[str], expected: str
) -> None:
    command = [sys.executable, "-c", _WITHOUT_TRANSFORMERS, "measure", "bert", "--seq", "5"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == expected
    assert ("pip install 'weighbridge[derive]'" in done.stderr) == (expected[0] == "2")
