"""The evidence for an answer: one line, or in full on request."""

from __future__ import annotations

import json
import re
from itertools import product
from typing import TYPE_CHECKING

import pytest

from weighbridge.answers.explain import Article
from weighbridge.answers.formula import ClosedForm
from weighbridge.answers.guess import guess
from weighbridge.answers.tree import Tree
from weighbridge.answers.verify import verify
from weighbridge.answers.weigh import weigh
from weighbridge.blueprint.schema import Blueprint
from weighbridge.cli import main
from weighbridge.models.find import ORIGINS
from weighbridge.render.document import Aside, Document, Notes, Outline, Paragraph, flat
from weighbridge.render.messages import in_language
from weighbridge.render.table import width

if TYPE_CHECKING:
    from pathlib import Path

LANGS = ("en", "zh")
MORE = {"en": "More: --evidence", "zh": "详情：--evidence"}
IN_FULL = {"en": "tensor by tensor", "zh": "逐张量"}
ANSWERS = {
    "weigh": weigh,
    "explain": lambda model: Article(weigh(model)),
    "formula": lambda model: ClosedForm(weigh(model)),
    "tree": lambda model: Tree(weigh(model)),
}


def asides(document: Document) -> list[str]:
    sentences: list[str] = []
    for block in flat(document.blocks):
        if isinstance(block, Notes):
            sentences += block.items
        elif isinstance(block, Outline):
            sentences += block.notes
        elif isinstance(block, Paragraph):
            sentences.append(block.prose)
    return [sentence for sentence in sentences if isinstance(sentence, Aside)]


@pytest.mark.parametrize("lang", LANGS)
@pytest.mark.parametrize("question", ANSWERS)
def test_an_answer_says_in_one_line_how_it_is_known(question: str, lang: str) -> None:
    text = ANSWERS[question]("bert-base-chinese").text(lang)
    (line,) = [line for line in text.splitlines() if "--evidence" in line]
    assert line.endswith(MORE[lang])
    assert width(line) <= 80
    for fact in ("transformers 5.23.0", "24"):
        assert fact in text
    assert IN_FULL[lang] not in text
    assert "pypi:paddlenlp" not in text


@pytest.mark.parametrize("lang", LANGS)
@pytest.mark.parametrize("question", ANSWERS)
def test_all_the_evidence_is_there_if_asked_for(question: str, lang: str) -> None:
    answer = ANSWERS[question]("bert-base-chinese")
    stated = weigh("bert-base-chinese").evidence
    document = answer.document(lang, evidence=True)
    evidence = " ".join(asides(document)).replace("\\", "")
    proof = stated["proof"]
    for fact in (stated["blueprint"], stated["source"], stated["config"]["source"], proof["by"]):
        assert fact in evidence
    assert IN_FULL[lang] in evidence
    assert "--evidence" not in answer.text(lang, evidence=True)


@pytest.mark.parametrize("lang", LANGS)
@pytest.mark.parametrize("fields", [{}, {"num_labels": 3}])
def test_the_line_about_any_config_fits(fields: dict[str, int], lang: str) -> None:
    entries = [None, {"how": "default"}, {"how": "reconstructed"}]
    of_configs = [origin for origin in ORIGINS if origin != "module"]
    for origin, entry in product(of_configs, entries):
        weighing = weigh("bert", fields=fields)
        weighing.model = weighing.model._replace(origin=origin, entry=entry)
        assert max(map(width, weighing.known(lang))) <= 80
        assert weighing.about_config(lang)


@pytest.mark.parametrize(
    ("lang", "in_brief", "in_full"),
    [("en", "with --set", "set by hand"), ("zh", "含 --set", "手工设置")],
)
def test_only_fields_set_by_hand_are_named_as_such(lang: str, in_brief: str, in_full: str) -> None:
    for model in ("bert", "bert-base-chinese", {"model_type": "bert"}):
        untouched = weigh(model)
        assert in_brief not in untouched.text(lang)
        assert in_full not in untouched.text(lang, evidence=True)
        changed = weigh(model, fields={"vocab_size": 100, "num_labels": 3})
        assert in_brief in changed.text(lang)
        evidence = changed.about_config(lang)
        assert in_full in evidence
        assert "num_labels" in evidence
        assert "vocab_size" in evidence


def test_json_has_the_evidence_whatever_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    written = []
    for asked in ((), ("--evidence",)):
        assert main(["weigh", "bert-tiny", "--json", *asked]) == 0
        written.append(json.loads(capsys.readouterr().out))
    assert written[0] == written[1]
    assert written[0]["evidence"]["proof"]["configs"] == 24


@pytest.mark.parametrize("command", ["weigh", "explain", "formula", "tree"])
def test_the_command_line_asks_for_it(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "bert-tiny", "--evidence", "--lang", "en"]) == 0
    assert "tensor by tensor" in " ".join(capsys.readouterr().out.split())


def test_code_says_how_it_is_known_too() -> None:
    formula = ClosedForm(weigh("bert-tiny"))
    assert "# Matches transformers" in formula.text(code="python")
    assert "# How we know:" in formula.text(code="python", evidence=True)


@pytest.mark.parametrize("lang", LANGS)
def test_the_evidence_of_a_checkpoint_compared_with_a_model(minilm: Path, lang: str) -> None:
    for answer in (verify(str(minilm), minilm), guess(minilm / "model.safetensors")):
        in_brief, in_full = answer.text(lang), answer.text(lang, evidence=True)
        assert len([line for line in in_brief.splitlines() if MORE[lang] in line]) == 1
        assert IN_FULL[lang] not in in_brief
        assert IN_FULL[lang] in " ".join(in_full.split())


@pytest.mark.parametrize("lang", LANGS)
def test_the_adversarial_configs_and_the_fields_that_are_held_are_stated(lang: str) -> None:
    weighing = weigh("encodec")
    blueprint = weighing.model.blueprint
    proof = {**blueprint.proof, "adversarial": 31}
    weighing.model = weighing.model._replace(
        blueprint=Blueprint({**blueprint._raw, "proof": proof})
    )
    agrees, held, more = weighing.known(lang)
    assert re.findall(r"\d+", agrees.replace("5.23.0", "")) == ["24", "31"]
    assert [name for name in weighing.held if name in held] == [*weighing.held]
    assert more.endswith(MORE[lang])
    assert "31" in " ".join(weighing.known(lang, evidence=True))
    assert weighing.to_dict()["evidence"]["held"]["num_residual_layers"] == 1
    assert weighing.to_dict()["evidence"]["proof"]["adversarial"] == 31
    for line in weighing.text(lang).splitlines():
        assert width(line) <= 80


def test_many_fields_that_are_held_are_named_in_full_only_if_asked_for() -> None:
    weighing = weigh("encodec")
    weighing.held = dict.fromkeys(["width", "depth", "length", "height", "rate"], 8)
    assert "width, depth, length and 2 more" in weighing.text()
    assert "height = 8, rate = 8" in " ".join(weighing.text(evidence=True).split())


@pytest.mark.parametrize("lang", LANGS)
@pytest.mark.parametrize("question", ANSWERS)
def test_python_gets_every_note_that_the_command_writes(
    question: str, lang: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config.json"
    stated = {"hidden_sizes": 8, "mystery": True, "dtype": "int3", "architectures": ["BertFor"]}
    path.write_text(json.dumps({"model_type": "bert", **stated}))
    answer = ANSWERS[question](str(path))
    assert main([question, str(path), "--lang", lang]) == 0
    written = capsys.readouterr().err.splitlines()
    assert len(answer.notes) == 4
    notes = [in_language(f"note: {note}", lang) for note in answer.notes]
    assert written == [f"weighbridge: {note}" for note in notes]
    if question != "tree":  # its JSON is the tree itself
        assert answer.to_dict()["notes"] == answer.notes
