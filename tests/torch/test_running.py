"""`weighbridge run`, class by class, compared with transformers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import berts
import pytest
import torch
import wheels
from server import SHA, serving
from transformers import BertTokenizerFast

from weighbridge import data
from weighbridge.answers.run import Running
from weighbridge.cli import main
from weighbridge.data import LANGUAGES
from weighbridge.errors import UsageError
from weighbridge.render.table import width
from weighbridge.torch.running import run_texts

if TYPE_CHECKING:
    from pathlib import Path

NEAR = {"abs": 1e-5}
PAIR = ("The cat sats on [MASK].", "It raining!")


def theirs(folder: Path, model: Any, *texts: Any) -> Any:
    """Return the output of transformers' model for texts or a pair."""
    encoded = BertTokenizerFast(str(folder / "vocab.txt"))(*texts, return_tensors="pt")
    with torch.no_grad():
        return model(**encoded)


def answer(folder: Path, first: str, second: str | None = None, **given: Any) -> dict[str, Any]:
    (found,) = run_texts(folder, [(first, second)], **given).answers
    return found.results


def test_a_mask_is_filled(tmp_path: Path) -> None:
    model = berts.write(tmp_path, "BertForMaskedLM")
    (mask,) = answer(tmp_path, PAIR[0], top=3)["masks"]
    scores = theirs(tmp_path, model, PAIR[0]).logits[0, mask["place"]].softmax(-1)
    assert mask["place"] == 6
    assert [of["id"] for of in mask["candidates"]] == scores.topk(3).indices.tolist()
    assert [of["token"] for of in mask["candidates"]] == [
        berts.WORDS[of["id"]] for of in mask["candidates"]
    ]
    assert [of["probability"] for of in mask["candidates"]] == pytest.approx(
        scores.topk(3).values.tolist(), **NEAR
    )


def test_without_a_mask_the_embedding_is_left(tmp_path: Path) -> None:
    model = berts.write(tmp_path, "BertForMaskedLM")
    found = run_texts(tmp_path, [("The cat", None)])
    hidden = theirs(tmp_path, model.bert, "The cat").last_hidden_state[0].mean(0)
    assert found.pool == "mean"
    assert found.answers[0].results["embedding"] == pytest.approx(hidden.tolist(), **NEAR)


def test_pre_training_fills_masks_and_predicts_the_next_sentence(tmp_path: Path) -> None:
    model = berts.write(tmp_path, "BertForPreTraining")
    found, expected = answer(tmp_path, *PAIR), theirs(tmp_path, model, *PAIR)
    assert found["follows"] == pytest.approx(
        expected.seq_relationship_logits.softmax(-1)[0, 0].item(), **NEAR
    )
    assert found["masks"][0]["candidates"][0]["id"] == expected.prediction_logits[0, 6].argmax()


def test_next_sentence(tmp_path: Path) -> None:
    model = berts.write(tmp_path, "BertForNextSentencePrediction")
    expected = theirs(tmp_path, model, *PAIR).logits.softmax(-1)[0, 0].item()
    assert answer(tmp_path, *PAIR) == {"follows": pytest.approx(expected, **NEAR)}
    with pytest.raises(UsageError, match="this class takes two texts"):
        answer(tmp_path, "The cat")


def test_classes_have_their_names(tmp_path: Path) -> None:
    labels = {0: "bad", 1: "so so", 2: "good"}
    model = berts.write(tmp_path, "BertForSequenceClassification", id2label=labels)
    shares = theirs(tmp_path, model, *PAIR).logits.softmax(-1)[0]
    expected = sorted(zip(labels.values(), shares.tolist(), strict=True), key=lambda pair: -pair[1])
    found = answer(tmp_path, *PAIR)["classes"]
    assert [of["label"] for of in found] == [label for label, _ in expected]
    assert [of["probability"] for of in found] == pytest.approx(
        [share for _, share in expected], **NEAR
    )
    berts.change(tmp_path, problem_type="multi_label_classification")
    several = {of["label"]: of["probability"] for of in answer(tmp_path, *PAIR)["classes"]}
    assert several["bad"] == pytest.approx(
        theirs(tmp_path, model, *PAIR).logits.sigmoid()[0, 0].item(), **NEAR
    )


def test_one_label_is_a_value(tmp_path: Path) -> None:
    model = berts.write(tmp_path, "BertForSequenceClassification", num_labels=1)
    assert answer(tmp_path, *PAIR) == {
        "value": pytest.approx(theirs(tmp_path, model, *PAIR).logits.item(), **NEAR)
    }


def test_tokens_have_classes(tmp_path: Path) -> None:
    model = berts.write(tmp_path, "BertForTokenClassification", id2label={0: "O", 1: "B"})
    shares, best = theirs(tmp_path, model, "我爱自然").logits[0].softmax(-1).max(-1)
    found = answer(tmp_path, "我爱自然")["tokens"]
    assert [of["token"] for of in found] == ["我", "爱", "自", "然"]
    assert [of["label"] for of in found] == ["OB"[which] for which in best[1:-1]]
    assert [of["probability"] for of in found] == pytest.approx(shares[1:-1].tolist(), **NEAR)


def test_an_answer_is_in_the_second_text_and_ends_no_earlier_than_it_starts(tmp_path: Path) -> None:
    model = berts.write(tmp_path, "BertForQuestionAnswering")
    expected = theirs(tmp_path, model, "it is", "the cat on mat")
    inside = range(4, 8)
    starts, ends = (of[0, 4:8].softmax(0) for of in (expected.start_logits, expected.end_logits))
    best = max((starts[i - 4] * ends[j - 4], i, j) for i in inside for j in inside if i <= j)
    span = answer(tmp_path, "it is", "the cat on mat")["span"]
    assert (span["start"], span["end"]) == best[1:]
    assert span["probability"] == pytest.approx(best[0].item(), **NEAR)
    assert span["answer"] == " ".join(
        ("the", "cat", "on", "mat")[span["start"] - 4 : span["end"] - 3]
    )


def test_one_of_several_choices(tmp_path: Path) -> None:
    model = berts.write(tmp_path, "BertForMultipleChoice")
    choices = ["a cat sat", "rain", "the mat."]
    encoded = BertTokenizerFast(str(tmp_path / "vocab.txt"))(
        ["it is"] * 3, choices, return_tensors="pt", padding=True
    )
    with torch.no_grad():
        expected = model(**{name: of[None] for name, of in encoded.items()}).logits[0].softmax(-1)
    found = run_texts(tmp_path, [("it is", choice) for choice in choices]).answers
    assert [of.results["choice"] for of in found] == pytest.approx(expected.tolist(), **NEAR)
    with pytest.raises(UsageError, match="all choices must belong to one text"):
        run_texts(tmp_path, [("it is", "a"), ("it", "b")])


def test_a_decoder_goes_on(tmp_path: Path) -> None:
    model = berts.write(tmp_path, "BertLMHeadModel", is_decoder=True)
    (mask,) = answer(tmp_path, "the cat")["masks"]
    assert mask["candidates"][0]["id"] == theirs(tmp_path, model, "the cat").logits[0, 2].argmax()


@pytest.mark.parametrize("pool", ["cls", "pooler", "mean", None])
def test_embeddings_are_pooled_as_asked(tmp_path: Path, pool: str | None) -> None:
    model = berts.write(tmp_path)
    expected = theirs(tmp_path, model, "the cat")
    tokens = expected.last_hidden_state[0]
    vectors = {"cls": tokens[0], "pooler": expected.pooler_output[0], "mean": tokens.mean(0)}
    texts = [("the cat", None), ("it is raining on the mat.", None)]
    found = run_texts(tmp_path, texts, pool=pool)
    assert found.pool == (pool or "mean")
    assert found.answers[0].results["embedding"] == pytest.approx(
        vectors[pool or "mean"].tolist(), **NEAR
    )
    one, other = (torch.tensor(of.results["embedding"]) for of in found.answers)
    assert found.alike[0][1] == pytest.approx(
        torch.cosine_similarity(one, other, dim=0).item(), **NEAR
    )


def test_a_folder_says_how_its_embeddings_are_pooled(tmp_path: Path) -> None:
    berts.write(tmp_path)
    (tmp_path / "1_Pooling").mkdir()
    said = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps(said))
    assert run_texts(tmp_path, [("the cat", None)]).pool == "cls"


def test_many_texts_are_answered_in_their_order(tmp_path: Path) -> None:
    berts.write(tmp_path)
    texts = [("cat " * (1 + at % 7), None) for at in range(70)]
    seen: list[tuple[int, int]] = []
    found = run_texts(tmp_path, texts, watch=lambda done, of: seen.append((done, of)))
    assert seen == [(32, 70), (64, 70), (70, 70)]
    for at in (3, 40, 69):
        assert found.answers[at].text == texts[at][0]
        alone = answer(tmp_path, *texts[at])["embedding"]
        assert found.answers[at].results["embedding"] == pytest.approx(alone, **NEAR)


def test_real_sentences_that_are_alike_are_found_to_be() -> None:
    texts = [
        "A cat is sleeping on the sofa.",
        "A kitten naps on the couch.",
        "The stock market fell on Friday.",
    ]
    alike = run_texts(wheels.model(wheels.MINILM), [(text, None) for text in texts]).alike
    assert alike[0][1] > 0.5 > alike[0][2]


# The command


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize(
    "class_name",
    [
        "BertModel",
        "BertForPreTraining",
        "BertForSequenceClassification",
        "BertForTokenClassification",
        "BertForQuestionAnswering",
    ],
)
def test_a_report_keeps_to_80_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, class_name: str, lang: str
) -> None:
    berts.write(tmp_path, class_name)
    monkeypatch.chdir(tmp_path)
    texts = [
        ("我爱自然语言处理 [MASK] " * 2, "the cat"),
        ("on [MASK] it is " * 9, "on the mat. " * 3),
    ]
    shown = Running(run_texts(".", texts)).text(lang)
    assert max(map(width, shown.splitlines())) <= 80
    assert f"1. {texts[0][0][:9]}" in shown


def test_the_words_of_both_languages_are_the_same_ones() -> None:
    one, other = (data.read_toml(f"words/run.{lang}.toml") for lang in LANGUAGES)
    assert one.keys() == other.keys()
    for name in one:
        places = [
            sorted(piece.split("}")[0] for piece in of[name].split("{")[1:]) for of in (one, other)
        ]
        assert places[0] == places[1], name


def test_the_command_answers_and_notes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    berts.write(tmp_path)
    assert main(["run", str(tmp_path), "the cat 😀", "a " * 30, "--each", "--json"]) == 0
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert [len(of["embedding"]) for of in found["answers"]] == [24, 24]
    assert [of["tokens"] for of in found["answers"]] == [5, 16]
    assert "note: text 1: tokens that are not in the vocabulary and become [UNK]: 1" in said.err
    assert "note: text 2: the text is longer than the 16 positions; tokens cut off: 16" in said.err


def test_texts_come_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    berts.write(tmp_path)
    texts = tmp_path / "texts.txt"
    texts.write_bytes("\ufeff我爱\r\nthe cat\tit is\n".encode())
    assert main(["run", str(tmp_path), "--file", str(texts), "--json"]) == 0
    pairs = [(of["text"], of["second"]) for of in json.loads(capsys.readouterr().out)["answers"]]
    assert pairs == [("我爱", None), ("the cat", "it is")]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "run takes either texts or a file of texts"),
        (["a", "b", "c"], "run takes one text or a pair of texts (texts = 3). Add --each"),
        (["  "], "the text is empty"),
        (
            ["a", "--pool", "max"],
            "there is no such pooling (pool = 'max'). Use one of cls, pooler, mean",
        ),
        (["a", "--top", "0"], "--top must be 1 or more (top = 0)"),
        (["--file", "none.txt"], "none.txt: cannot be read: No such file or directory"),
        (["--file", "empty.txt"], "empty.txt: contains no text"),
        (["--file", "gap.txt"], "gap.txt:2: the text is empty"),
        (["--file", "three.txt"], "three.txt:1: the line has more than two texts (texts = 3)"),
        (
            ["--file", "latin.txt"],
            "latin.txt:1: the line is not UTF-8 (byte = 4, found = b'\\xe9')",
        ),
        (["a", "--class", "BertForMaskedLM"], "does not fit BertForMaskedLM"),
    ],
)
def test_an_impossible_request_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    says: str,
) -> None:
    berts.write(tmp_path)
    monkeypatch.chdir(tmp_path)
    for name, content in {
        "empty.txt": b"",
        "gap.txt": b"a\n\nb\n",
        "three.txt": b"a\tb\tc\n",
        "latin.txt": "caf\xe9".encode("latin-1"),
    }.items():
        (tmp_path / name).write_bytes(content)
    capsys.readouterr()
    assert main(["run", ".", *words]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert says in said.err
    assert len(said.err.splitlines()) == 1


def on_hub(tmp_path: Path, url: str, address: str, **settings: str) -> tuple[int, str, str]:
    """Run a checkpoint against a local server in place of the hub.

    It runs in a separate process, because the library reads its settings only once.
    """
    settings = {
        "HF_ENDPOINT": url,
        "HF_HOME": str(tmp_path / "cache"),
        "HF_HUB_OFFLINE": "0",
        **settings,
    }
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    command = [sys.executable, "-m", "weighbridge", "run", address, "the cat", "--json"]
    done = subprocess.run(
        command,
        env={**environment, **settings},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stdout, done.stderr


def test_a_checkpoint_on_the_hub_is_fetched_once(tmp_path: Path) -> None:
    folder = tmp_path / "org" / "name"
    berts.write(folder)
    (folder / "README.md").write_text("not needed")
    expected = run_texts(folder, [("the cat", None)]).answers[0].results["embedding"]
    with serving(tmp_path) as server:
        server.revisions |= {SHA: SHA, "v2": SHA}
        status, out, err = on_hub(tmp_path, server.url, "hf://org/name@v2")
        assert (status, err) == (0, "")
        assert json.loads(out)["answers"][0]["embedding"] == pytest.approx(expected, **NEAR)
        fetched = {
            path.rpartition("/")[2] for path, _ in server.requests if path.startswith("/cdn/")
        }
        assert fetched == {"config.json", "model.safetensors", "vocab.txt"}
        sent = server.sent
        assert on_hub(tmp_path, server.url, "hf://org/name@v2")[0] == 0
        assert server.sent - sent < 2000, "the cache has the files"
        status, _, err = on_hub(tmp_path, server.url, "hf://org/none")
        assert status == 2
        assert "404-not-found" in err
    for settings in ({"HF_HUB_OFFLINE": "1"}, {"HF_ENDPOINT": "http://127.0.0.1:9"}):
        assert on_hub(tmp_path, "http://127.0.0.1:9", "hf://org/name@v2", **settings)[0] == 0
        status, _, err = on_hub(tmp_path, "http://127.0.0.1:9", "hf://org/other", **settings)
        assert status == 2
        assert err.startswith("weighbridge: hf://org/other: ")
        assert len(err.splitlines()) == 1


def test_without_its_packages_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        "weighbridge.torch.find_spec", lambda name: None if name == "tokenizers" else name
    )
    assert main(["run", str(tmp_path), "a"]) == 2
    said = capsys.readouterr().err
    assert "missing = 'tokenizers'" in said
    assert "pip install 'weighbridge[torch]'" in said
