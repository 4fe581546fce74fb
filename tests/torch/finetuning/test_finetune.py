"""Complete fine-tuning runs: they learn, load elsewhere, and interruptions change no bit."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import torch
from safetensors.torch import load_file

from weighbridge import data, units
from weighbridge.answers.finetune import Finetuned
from weighbridge.answers.model_card import model_card
from weighbridge.cli import main
from weighbridge.cli.output import SCHEMA_VERSION
from weighbridge.render.table import width
from weighbridge.torch.finetuning import checkpoint as checkpoints
from weighbridge.torch.finetuning import progress
from weighbridge.torch.finetuning.prediction import Costs, measure_piece
from weighbridge.torch.finetuning.training import Training
from weighbridge.torch.loading import load_checkpoint

if TYPE_CHECKING:
    from pathlib import Path

STEPS = 21  # 54 texts in batches of 8, three times
OPTIONS = (
    "--batch",
    "8",
    "--learning-rate",
    "1e-3",
    "--checkpoint-every",
    "4",
    "--patience",
    "3",
    "--watch",
    "loss",
)
NOUNS = ("film", "book", "song", "play", "meal", "room")
WORDS = {
    "good": ("wonderful", "great", "lovely", "fine", "superb"),
    "bad": ("awful", "dull", "poor", "sad", "boring"),
}


WRITTEN = ["README.md", "config.json", "model.safetensors", "tokenizer.json", "training.json"]


class Run(NamedTuple):
    status: int
    out: str
    err: str


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Any:
    """Compute with one thread, here and in started processes, so that sums have a fixed order."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file of 60 texts of different lengths; one word in each decides its class."""
    path = tmp_path_factory.mktemp("texts") / "texts.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("sentence", "sentiment"))
        for label, words in WORDS.items():
            for place, (noun, word) in enumerate((noun, word) for noun in NOUNS for word in words):
                writer.writerow((f"the {noun} was{' really' * (place % 4)} {word}", label))
    return path


@pytest.fixture(scope="module")
def undisturbed(texts: Path, bert_tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of an undisturbed run, in one process, with each batch in two pieces."""
    out = tmp_path_factory.mktemp("undisturbed") / "out"
    assert main(arguments(texts, bert_tiny, out, "--accumulate", "2")) == 0
    return out


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]):
    def ran(*words: str) -> Run:
        status = main(words)
        return Run(status, *capsys.readouterr())

    return ran


def arguments(texts: Path, start: Path, out: Path, *more: str) -> list[str]:
    return ["finetune", str(texts), "--from", str(start), "--out", str(out), *OPTIONS, *more]


def result(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "training.json").read_text())


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def assert_same(one: Path, other: Path) -> None:
    """Check that two runs gave the same weights, bit for bit, and the same measurements."""
    assert (one / "model.safetensors").read_bytes() == (other / "model.safetensors").read_bytes()
    for name in ("losses", "history", "scores", "kept_step"):
        assert result(one)[name] == result(other)[name]


# Results


def test_it_learns_what_can_be_learnt(undisturbed: Path) -> None:
    found = result(undisturbed)
    assert found["scores"]["accuracy"] == 1
    assert len(found["losses"]) == STEPS
    assert sum(found["losses"][-5:]) < 0.5 * sum(found["losses"][:5])
    assert [entry["step"] for entry in found["history"]] == [7, 14, 21]
    assert found["scores"]["confusion"] == [[3, 0], [0, 3]]


def test_transformers_loads_it_and_scores_the_same(undisturbed: Path) -> None:
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(undisturbed).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(undisturbed)
    ours = load_checkpoint(undisturbed)
    said = ["the film was superb", "the meal was really awful", "boring"]
    batch = tokenizer(said, padding=True, return_tensors="pt")
    with torch.no_grad():
        expected = theirs(**batch).logits
        found = ours.model(
            *ours.tokens.batch(ours.tokens.read_all([(text, None) for text in said]))
        ).logits
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    assert theirs.config.id2label == {0: "bad", 1: "good"} == dict(enumerate(ours.labels))
    assert expected.argmax(1).tolist() == [1, 0, 0]


def test_predictions_come_true(undisturbed: Path) -> None:
    found = result(undisturbed)
    predicted, held = found["predicted"], found["measured"]
    model = load_file(undisturbed / "model.safetensors")
    assert predicted["parameters"] == held["parameters"] == sum(of.numel() for of in model.values())
    assert (
        predicted["weight_bytes"] == held["weight_bytes"] == sum(of.nbytes for of in model.values())
    )
    assert predicted["piece_flops"] == held["piece_flops"] > 0
    assert held["memory_bytes"] == pytest.approx(predicted["memory_bytes"], rel=0.05)
    assert predicted["memory_bytes"] > 4 * predicted["weight_bytes"]


@pytest.mark.parametrize("lengths", [[3, 17, 64, 64, 130], [40] * 6, [5]])
def test_a_piece_takes_the_predicted_memory(bert_tiny: Path, lengths: list[int]) -> None:
    loaded = load_checkpoint(bert_tiny, "BertForSequenceClassification", labels=("a", "b"))
    before = [parameter.clone() for parameter in loaded.model.parameters()]
    costs = Costs(loaded.of, "BertForSequenceClassification")
    found = measure_piece(loaded.model, lengths, [], None)
    assert sum(map(costs.flops, lengths)) == found["piece_flops"]
    assert costs.peak_bytes(lengths) == pytest.approx(found["memory_bytes"], rel=0.05)
    assert all(torch.equal(*pair) for pair in zip(before, loaded.model.parameters(), strict=True))
    assert loaded.model.config.attention == "sdpa"


def test_unrecorded_operations_are_not_predicted(
    run, texts: Path, bert_tiny: Path, tmp_path: Path
) -> None:
    start = tmp_path / "relu"
    shutil.copytree(bert_tiny, start)
    config = json.loads((start / "config.json").read_text())
    (start / "config.json").write_text(json.dumps({**config, "hidden_act": "relu"}))
    said = run(*arguments(texts, start, tmp_path / "out"), "--steps", "1")
    assert said.status == 0
    assert (
        "FLOPs and memory are not predicted: no operations were recorded for hidden_act = relu"
        in said.err
    )
    predicted = result(tmp_path / "out")["predicted"]
    assert [predicted[name] for name in ("memory_bytes", "piece_flops", "run_flops")] == [None] * 3


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_report_keeps_to_80_columns(undisturbed: Path, lang: str) -> None:
    finished = result(undisturbed)
    finished["run"]["out"] = "out"
    assert [line for line in Finetuned(finished).text(lang).splitlines() if width(line) > 80] == []
    names = [
        f"{'一个相当长的类别名称' if number % 2 else 'a rather long name of'}{number}" * 4
        for number in range(8)
    ]
    of_one, scores = finished["scores"]["classes"]["good"], finished["scores"]
    finished["run"]["labels"] = names
    finished["scores"] = {
        **scores,
        "classes": dict.fromkeys(names, of_one),
        "confusion": [[12345] * 8] * 8,
    }
    assert [line for line in Finetuned(finished).text(lang).splitlines() if width(line) > 80] == []


def test_the_languages_say_the_same_things_with_the_same_figures() -> None:
    english, chinese = (data.read_toml(f"words/finetune.{lang}.toml") for lang in ("en", "zh"))
    assert english.keys() == chinese.keys()
    for name, sentence in english.items():
        marks = [sorted(re.findall(r"{\w+}", said)) for said in (sentence, chinese[name])]
        assert marks[0] == marks[1], name


def test_lack_of_memory_is_reported(
    run, texts: Path, bert_tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacking(self: Training, *given: Any, **options: Any) -> bool:
        return bool(torch.empty(2**60))

    monkeypatch.setattr(Training, "step", lacking)
    said = run(*arguments(texts, bert_tiny, tmp_path / "out"))
    assert (said.status, said.out) == (2, "")
    assert (
        "there is not enough memory for a step (batch = 8, pieces = 1)" in said.err.splitlines()[-1]
    )


def test_other_texts_and_half_the_bits(run, texts: Path, bert_tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "test.tsv").write_text(
        "类别\t文本\ngood\ta superb film\nbad\tthe film was awful\n", encoding="utf-8"
    )
    words = arguments(texts, bert_tiny, tmp_path / "out", "--test", str(tmp_path / "test.tsv"))
    said = run(*words, "--precision", "bfloat16", "--steps", "2")
    assert said.status == 0, said.err
    assert "texts from column '文本', labels from '类别'" in said.err
    assert "1 texts are also in " in said.err
    found = result(tmp_path / "out")
    assert (
        found["run"]["training_texts"],
        found["scores"]["texts"],
        found["measured"]["steps"],
    ) == (59, 2, 2)
    assert (
        load_file(tmp_path / "out" / "model.safetensors")["classifier.bias"].dtype == torch.float32
    )


def test_a_head_of_other_classes_starts_anew(run, undisturbed: Path, tmp_path: Path) -> None:
    path = tmp_path / "three.jsonl"
    rows = [
        {"text": f"{number} and {label}", "label": label}
        for number in range(6)
        for label in ("a", "b", "c")
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    said = run(*arguments(path, undisturbed, tmp_path / "out", "--steps", "1"))
    assert said.status == 0, said.err
    assert "initialized at random: classifier\n" in said.err
    assert load_file(tmp_path / "out" / "model.safetensors")["classifier.weight"].shape == (3, 128)
    assert json.loads((tmp_path / "out" / "config.json").read_text())["id2label"] == {
        "0": "a",
        "1": "b",
        "2": "c",
    }


# Interruptions and failures


def process(*words: str, **environment: str) -> subprocess.Popen[str]:
    """Start Python as a process of one thread."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"} | environment
    return subprocess.Popen(
        [sys.executable, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def ended(process: subprocess.Popen[str]) -> Run:
    """Wait for a process to end."""
    with process:
        out, err = process.communicate(timeout=300)
    return Run(process.returncode, out, err)


KILLED = """
import os, signal, torch
step, taken = torch.optim.AdamW.step, []
def kill(self, *given):
    taken.append(1)
    if len(taken) == 11:
        os.kill(os.getpid(), signal.SIGKILL)
    return step(self, *given)
torch.optim.AdamW.step = kill

import sys
from weighbridge.cli import main
sys.exit(main(sys.argv[1:]))
"""


def test_killed_and_resumed_a_run_ends_bit_for_bit_the_same(
    run, undisturbed: Path, texts: Path, bert_tiny: Path, tmp_path: Path
) -> None:
    words = arguments(texts, bert_tiny, tmp_path / "out", "--accumulate", "2")
    assert ended(process("-c", KILLED, *words)).status == -signal.SIGKILL
    assert checkpoints.read_checkpoint(tmp_path / "out").state["step"] == 8
    said = run(*words)
    assert said.status == 0
    assert "resuming after step 8 of 21" in said.err
    assert_same(tmp_path / "out", undisturbed)
    assert names_in(tmp_path / "out") == WRITTEN


SAVING = """
import os, resource, signal, sys
from weighbridge.cli import main
from weighbridge.torch.finetuning import checkpoint

moment, *words = sys.argv[1:]
saved = []

def kill(path, write, write_file=checkpoint.write_file):
    saved.append(path.name)
    if moment == f"{path.name} {saved.count(path.name)}":
        # the kernel kills a process that writes more than this, in the middle of writing
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))
    write_file(path, write)
    if moment == f"after {path.name}":
        os.kill(os.getpid(), signal.SIGKILL)

checkpoint.write_file = kill
sys.exit(main(words))
"""


@pytest.mark.sampled("src/weighbridge/torch")
@pytest.mark.parametrize(
    "moment", ["checkpoint.safetensors 3", "model.safetensors 1", "after training.json"]
)
def test_a_run_killed_as_it_saves_leaves_nothing_behind(
    run, undisturbed: Path, texts: Path, bert_tiny: Path, tmp_path: Path, moment: str
) -> None:
    words = arguments(texts, bert_tiny, tmp_path / "out", "--accumulate", "2")
    killed = ended(process("-c", SAVING, moment, *words))
    assert killed.status in {-signal.SIGKILL, -signal.SIGXFSZ}, killed.err
    assert names_in(tmp_path / "out") != WRITTEN, "the kill came in time"
    said = run(*words)
    assert said.status == 0, said.err
    assert names_in(tmp_path / "out") == WRITTEN
    assert_same(tmp_path / "out", undisturbed)


@pytest.mark.sampled("src/weighbridge/torch")
def test_two_processes_give_what_one_gives_in_two_pieces(
    undisturbed: Path, texts: Path, bert_tiny: Path, tmp_path: Path
) -> None:
    torchrun = (
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
        "-m",
        "weighbridge",
    )
    done = ended(process(*torchrun, *arguments(texts, bert_tiny, tmp_path / "out")))
    assert done.status == 0, done.err
    assert done.out.count("held-out texts\n") == 1
    assert_same(tmp_path / "out", undisturbed)


def test_a_process_that_dies_does_not_leave_the_other_waiting(
    texts: Path, bert_tiny: Path, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
    among = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    words = ("-c", KILLED, *arguments(texts, bert_tiny, tmp_path / "out"))
    first = process("-m", "weighbridge", *words[2:], RANK="0", LOCAL_RANK="0", **among)
    second = process(*words, RANK="1", LOCAL_RANK="1", **among)
    assert ended(second) == (-signal.SIGKILL, "", "")
    said = ended(first)
    assert (said.status, said.out) == (2, "")
    # The last words are ours, but for what torch 2.15 says as it ends.
    *_, ours = said.err.partition("\nnanobind: ")[0].splitlines()
    assert ours.startswith("weighbridge: another process of this run has ended")
    assert checkpoints.read_checkpoint(tmp_path / "out").state["step"] == 8


def test_a_run_stopped_by_the_user_is_resumed(
    run,
    undisturbed: Path,
    texts: Path,
    bert_tiny: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = arguments(texts, bert_tiny, tmp_path / "out", "--accumulate", "2")
    evaluate = Training.evaluate

    def interrupted(self: Training, *given: Any) -> None:
        evaluate(self, *given)
        if self.state["step"] == 7:
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patched:
        patched.setattr(Training, "evaluate", interrupted)
        said = run(*words)
    assert (said.status, said.out) == (130, "")
    message = f"{tmp_path / 'out'}: stopped after step 8 of 21; the same command resumes there\n"
    assert said.err.endswith(message)
    assert run(*words).status == 0
    assert_same(tmp_path / "out", undisturbed)


def test_early_stopping_keeps_the_best_and_survives_a_stop(
    run, texts: Path, bert_tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No evaluation beats the first: the second ends the run, the first weights stay."""
    words = [tmp_path / name for name in ("whole", "stopped")]
    words = [
        arguments(texts, bert_tiny, out, "--patience", "2", "--watch", "loss", "--epochs", "9")
        for out in words
    ]
    logits = Training.logits
    monkeypatch.setattr(
        Training, "logits", lambda self, part: logits(self, part) * -self.state["step"]
    )
    whole = run(*words[0])
    assert "Stopped early." in whole.out
    found = result(tmp_path / "whole")
    assert (found["kept_step"], found["measured"]["steps"]) == (7, 21)
    step = Training.step

    def interrupted(self: Training, *given: Any, **options: Any) -> bool:
        return step(self, *given, is_stopping=self.state["step"] == 16)

    with monkeypatch.context() as patched:
        patched.setattr(Training, "step", interrupted)
        assert run(*words[1]).status == 130
    assert run(*words[1]).status == 0
    assert_same(tmp_path / "whole", tmp_path / "stopped")


def test_a_disk_that_is_full_is_one_message_and_the_checkpoint_before_stays(
    run, texts: Path, bert_tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = arguments(texts, bert_tiny, tmp_path / "out")
    evaluate = Training.evaluate

    def filled(self: Training, *given: Any) -> None:
        evaluate(self, *given)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, hard))

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    monkeypatch.setattr(Training, "evaluate", filled)
    try:
        said = run(*words)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (said.status, said.out) == (2, "")
    assert "checkpoint.safetensors: cannot be written: " in said.err.splitlines()[-1]
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["checkpoint.safetensors"]
    assert checkpoints.read_checkpoint(tmp_path / "out").state["step"] == 4


def test_a_loss_that_is_not_a_number_is_reported(
    run, texts: Path, bert_tiny: Path, tmp_path: Path
) -> None:
    said = run(*arguments(texts, bert_tiny, tmp_path / "out", "--learning-rate", "1e30"))
    assert (said.status, said.out) == (2, "")
    assert "the loss is no longer a number (step = " in said.err.splitlines()[-1]


# An existing folder


def test_the_result_of_a_finished_run_is_shown_again(
    run, undisturbed: Path, texts: Path, bert_tiny: Path
) -> None:
    before = {path: path.stat().st_mtime_ns for path in undisturbed.iterdir()}
    said = run(*arguments(texts, bert_tiny, undisturbed, "--accumulate", "2", "--json"))
    assert said.status == 0
    assert json.loads(said.out) == {"schema_version": SCHEMA_VERSION, **result(undisturbed)}
    assert "this run is finished" in said.err
    assert before == {path: path.stat().st_mtime_ns for path in undisturbed.iterdir()}


def test_another_run_is_refused_with_what_differs(
    run, undisturbed: Path, texts: Path, bert_tiny: Path
) -> None:
    said = run(*arguments(texts, bert_tiny, undisturbed, "--accumulate", "2", "--epochs", "4"))
    assert (said.status, said.out) == (2, "")
    assert f"{undisturbed}: contains another run (epochs = '3, now 4')." in said.err


def test_a_model_is_not_written_over_unless_it_is_asked_for(
    run, undisturbed: Path, texts: Path, bert_tiny: Path, tmp_path: Path
) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"mine")
    words = arguments(texts, bert_tiny, tmp_path, "--accumulate", "2")
    said = run(*words)
    assert (said.status, said.out) == (2, "")
    assert "already contains a model (found = 'model.safetensors')" in said.err
    assert (tmp_path / "model.safetensors").read_bytes() == b"mine"
    assert run(*words, "--overwrite").status == 0
    assert_same(tmp_path, undisturbed)


def test_a_damaged_checkpoint_is_reported(
    run, texts: Path, bert_tiny: Path, tmp_path: Path
) -> None:
    (tmp_path / "checkpoint.safetensors").write_bytes(b"\x08\0\0\0\0\0\0\0{}")
    said = run(*arguments(texts, bert_tiny, tmp_path))
    assert (said.status, said.out) == (2, "")
    assert "is not the checkpoint of a run" in said.err


# Unequal classes


@pytest.fixture(scope="module")
def unequal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file with 40 good texts and 8 bad ones."""
    path = tmp_path_factory.mktemp("unequal") / "unequal.csv"
    rows = [
        f"the {noun} was {word} {at},good"
        for at in range(2)
        for noun in NOUNS[:4]
        for word in WORDS["good"]
    ]
    rows += [f"the {noun} was {word},bad" for noun in NOUNS[:2] for word in WORDS["bad"][:4]]
    path.write_text("\n".join(("text,label", *rows)))
    return path


def test_balanced_weights_give_each_class_the_same_say(
    run, unequal: Path, bert_tiny: Path, tmp_path: Path
) -> None:
    words = ("--steps", "2", "--held-out", "0.25")
    plain = run(*arguments(unequal, bert_tiny, tmp_path / "plain", *words))
    balanced = ("--class-weights", "balanced")
    weighted = run(*arguments(unequal, bert_tiny, tmp_path / "weighted", *words, *balanced))
    assert (plain.status, weighted.status) == (0, 0), weighted.err
    note = "the classes are unequal: 30 training texts of 'good', 6 of 'bad'; --class-weights"
    assert note in plain.err
    assert "the classes are unequal" not in weighted.err
    split = result(tmp_path / "weighted")["split"]
    weights, counts = split["class_weights"], split["training"]
    assert counts == {"bad": 6, "good": 30}
    assert weights["bad"] * 6 == pytest.approx(weights["good"] * 30) == pytest.approx(18)
    losses = [result(tmp_path / name)["losses"] for name in ("plain", "weighted")]
    assert losses[0] != losses[1]
    other = run(*arguments(unequal, bert_tiny, tmp_path / "plain", *words, *balanced))
    assert "contains another run (class_weights = 'none, now balanced')" in other.err


def test_the_majority_stands_beside_the_accuracy(
    run, unequal: Path, bert_tiny: Path, tmp_path: Path
) -> None:
    said = run(
        *arguments(unequal, bert_tiny, tmp_path / "out", "--steps", "1", "--held-out", "0.25")
    )
    first, second, *_ = said.out.splitlines()
    assert re.fullmatch(r"accuracy 0\.\d{3} on 12 held-out texts", first)
    assert second == "Always predicting good, the most frequent class, would give 0.833."
    assert result(tmp_path / "out")["scores"]["majority"]["share"] == 10 / 12


# Progress and the model card


def test_without_a_terminal_a_line_comes_from_time_to_time(
    run, texts: Path, bert_tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weighbridge.torch.finetuning.progress.EVERY_SECONDS", 0.02)
    said = run(*arguments(texts, bert_tiny, tmp_path / "out", "--steps", "4"))
    assert said.status == 0, said.err
    assert re.search(r"\d of 4 steps done, training loss (-|\d\.\d{3}), after \d+ s\n", said.err)


def test_the_bar_shows_the_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = io.StringIO()
    monkeypatch.setattr("sys.stderr", drawn)
    reported = []
    with progress.as_bar(3, 1, lambda step, found: reported.append((step, found))) as watch:
        watch(2, 0.5, None)
        watch(3, 0.25, {"loss": 1})
    assert "loss 0.375" in drawn.getvalue()
    assert "3/3" in drawn.getvalue()
    assert reported == [(3, {"loss": 1})]


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_folder_has_a_model_card(undisturbed: Path, lang: str) -> None:
    found = result(undisturbed)
    card = model_card(found, lang)
    if lang == "en":
        assert card == (undisturbed / "README.md").read_text("utf-8")
    front, body = card.removeprefix("---\n").split("---\n", 1)
    assert 'pipeline_tag: "text-classification"\n' in front
    data = found["data"][0]
    shown = [
        units.count(found["measured"]["parameters"]),
        units.size(found["measured"]["memory_bytes"]),
        units.short(found["predicted"]["run_flops"]),
        data["sha256"],
        "| texts.csv |",
        found["fingerprint"]["versions"]["torch"],
        "--learning-rate | 0.001",
        "| good | 27 | 3 | 1.000 |",
    ]
    assert os.path.dirname(data["path"]) not in card
    missing = [text for text in shown if text not in body]
    assert missing == []
    assert len(data["sha256"]) == 64
    assert data["text_column"] == "sentence"
