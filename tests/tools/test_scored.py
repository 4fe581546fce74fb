"""The scoreboard: its file has every answer, weighbridge's are those of today, its parts work."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import scored

import weighbridge as wb

BENCH = Path(__file__).parents[2] / "bench"
MODELS = scored.figures()["models"]
COUNTED = scored.counters()

every_counter = pytest.mark.parametrize("name", COUNTED)
forks = pytest.mark.skipif(sys.platform == "win32", reason="each model is counted in a fork")


@pytest.fixture
def basket(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(BENCH)
    import _basket

    return _basket


def test_the_basket_is_the_one_that_is_listed(basket: Any) -> None:
    models = basket.basket(scored.basket_listed())
    assert [model.name for model in models] == [model["model"] for model in MODELS]
    assert [model.source for model in models] == [model["source"] for model in MODELS]
    assert len(models) >= 40


def test_weighbridge_answers_the_same_today(basket: Any, tmp_path: Path) -> None:
    models = basket.basket(scored.basket_listed())
    answers = scored.figures()["counters"]["weighbridge weigh"]["answers"]
    for model, folder in zip(models, basket.written(models, tmp_path), strict=True):
        weighing = wb.weigh(str(folder / "config.json"), model.config["architectures"][0])
        assert weighing.parameters == answers[model.name]["counted"], model.name


@every_counter
def test_every_model_has_one_answer(name: str) -> None:
    answers = scored.figures()["counters"][name]["answers"]
    assert sorted(answers) == sorted(model["model"] for model in MODELS)
    assert all(("counted" in answer) != ("refused" in answer) for answer in answers.values())


@every_counter
def test_the_version_is_the_one_that_is_installed(name: str) -> None:
    about = scored.listed()[name]
    version = scored.figures()["counters"][name]["version"]
    pinned = [*about.get("install", ()), *about.get("install_alone", ())]
    if about["package"] == "weighbridge":
        assert version == wb.__version__
    elif pinned:
        written = version.replace("-", ".post")  # two ways to write the same version
        assert {f"{about['package']}=={text}" for text in (version, written)} & set(pinned)


@pytest.mark.parametrize(("lang", "name"), [("en", "scoreboard.md"), ("zh", "scoreboard.zh-CN.md")])
@pytest.mark.parametrize("part", ["size", "parameters", "claims", "flops", "refusals"])
def test_the_page_says_what_the_file_has(part: str, lang: str, name: str) -> None:
    page = (Path(__file__).parents[2] / "docs" / name).read_text(encoding="utf-8")
    assert getattr(scored, part)(lang) in page
    assert scored.models(COUNTED, lang) in page


def test_there_are_twenty_runs() -> None:
    assert len(scored.runs()) >= 20


def score(counted: float | None, refused: str = "") -> scored.Score:
    truth = {"parameters": 100, "by every name": 130, "trained": 90, "saved": 101, "base": 80}
    return scored.Score({"truth": truth}, counted, 100, 1.0, 1.0, refused)


def test_right_is_right_to_the_last_digit() -> None:
    assert score(100).right
    assert not score(101).right
    assert not score(None, "KeyError: 'bert'").right
    assert score(130).off == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("counted", "reason"),
    [
        (130, "tied weights by each of their names"),
        (90, "trained alone"),
        (101, "with buffers"),
        (80, "the base class"),
        (99, "something else"),
    ],
)
def test_a_wrong_answer_is_named_by_the_truth_that_it_is(counted: int, reason: str) -> None:
    assert score(counted).reason == reason


def test_a_model_without_a_config_is_refused(basket: Any) -> None:
    with pytest.raises(SystemExit, match="lists no/such, which has no config"):
        basket.basket({"encoder": ["no/such"]})
    with pytest.raises(SystemExit, match="lists openai-community/gpt2 twice"):
        basket.basket({"one": ["openai-community/gpt2"], "other": ["openai-community/gpt2"]})


# Counters that are asked for a number that a file has, and behave in each of four ways.
MADE_UP = """
import os, sys, time, _counters

def count(folder):
    text = (folder / "config.json").read_text()
    if text == "wait":
        time.sleep(60)
    if text == "end":
        os._exit(1)
    return int(text)

_counters.COUNTERS["made up"] = _counters.Counter(count, ("json",))
_counters.main(["made up", "2", *sys.argv[1:]])
"""


@forks
def test_each_model_is_counted_in_a_process_of_its_own(tmp_path: Path) -> None:
    folders = []
    for text in ("102", "wait", "end", "no number", "7"):
        folder = tmp_path / text
        folder.mkdir()
        (folder / "config.json").write_text(text, encoding="utf-8")
        folders.append(str(folder))
    lines = run_in_bench("-c", MADE_UP, *folders)
    first, *answers = map(json.loads, lines)
    assert first["import_seconds"] >= 0
    assert [answer["folder"] for answer in answers] == folders
    assert answers[0]["counted"] == 102
    assert 0 <= answers[0]["seconds"] < 2
    assert answers[0]["mib"] > 1
    assert answers[1] == {"folder": folders[1], "refused": "no answer in 2 seconds"}
    assert answers[2] == {"folder": folders[2], "refused": "its process ended"}
    assert answers[3]["refused"].startswith("ValueError: invalid literal for int()")
    assert answers[4]["counted"] == 7


TINY = """
limit_seconds = 20
[models]
encoder = ["google-bert/bert-base-uncased"]
decoder = ["openai-community/gpt2"]
[counters."weighbridge weigh"]
package = "weighbridge"
"""


@forks
def test_a_tiny_basket_goes_through_the_whole_script(tmp_path: Path) -> None:
    tiny, file = tmp_path / "tiny.toml", tmp_path / "answers.json"
    tiny.write_text(TINY, encoding="utf-8")
    words = ("--list", str(tiny), str(tmp_path), str(file), "weighbridge weigh")
    run_in_bench("scoreboard.py", *words)
    counted = json.loads(file.read_text(encoding="utf-8"))["counters"]["weighbridge weigh"]
    assert counted["version"] == wb.__version__
    assert {model: answer["counted"] for model, answer in counted["answers"].items()} == {
        "google-bert/bert-base-uncased": 109_514_298,
        "openai-community/gpt2": 124_439_808,
    }


@forks
def test_a_counter_that_is_not_listed_is_refused(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "scoreboard.py", str(tmp_path), "file.json", "abacus"],
        cwd=BENCH,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "no counter is called 'abacus'; there are truth, weighbridge weigh" in done.stderr


def run_in_bench(*words: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, *words], cwd=BENCH, capture_output=True, text=True, check=True, timeout=30
    )
    return done.stdout.splitlines()
