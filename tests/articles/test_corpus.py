"""The corpus: `audit` must give each text the verdicts that stand beside it, and no others."""

import html
import re
import tomllib
import unicodedata
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from weighbridge import audit
from weighbridge.answers.audit import Audit
from weighbridge.articles.text.lines import BOILERPLATE, KNOWN, RIGHT, SIZE, UNREAD

CORPUS = Path(__file__).parent / "corpus"
TEXTS = sorted(path.name.removesuffix(".toml") for path in CORPUS.glob("*.toml"))
LEAST_TEXTS = 40
LEAST_FOUND = 0.9  # of the planted slips
LEAST_READ, LEAST_READ_OF_ONE = 0.95, 0.85  # of the numbers that are not boilerplate

each_text = pytest.mark.parametrize("name", TEXTS)
Stated = tuple[int, str]


@cache
def expected(name: str) -> dict[str, Any]:
    return tomllib.loads((CORPUS / f"{name}.toml").read_text("utf-8"))


@cache
def audited(name: str) -> Audit:
    return audit(CORPUS / name)


@cache
def answer(name: str) -> dict[str, Any]:
    return audited(name).to_dict()


def bare(text: str) -> str:
    """Return a number or a formula without grouping and without a unit."""
    plain = text.replace("²", "^2").replace("\\", "").replace("{,}", "")
    plain = re.sub(r"[\s,]", "", unicodedata.normalize("NFKC", plain))
    return re.sub(r"(?<=\d)(?:[KMGT]i?B|[MB%万亿]|million)$", "", plain)


def planted(name: str) -> dict[Stated, str]:
    """Return the correct number of each planted slip; slips in words have neither."""
    slips = [slip for slip in expected(name).get("slips", []) if not slip.get("missed")]
    return {(slip["line"], bare(slip.get("stated", ""))): slip.get("correct", "") for slip in slips}


def found(name: str) -> dict[Stated, str]:
    """Return what `audit` says is correct of each slip that it finds."""
    return {
        (slip["line"], bare("" if slip["kind"] == "words" else slip["stated"])): slip["correct"]
        for slip in answer(name)["slips"]
    }


def test_the_corpus_is_large_and_varied() -> None:
    assert len(TEXTS) >= LEAST_TEXTS
    languages = [expected(name)["language"] for name in TEXTS]
    assert abs(languages.count("en") - languages.count("zh")) <= len(TEXTS) / 5
    assert {Path(name).suffix for name in TEXTS} == {".txt", ".md", ".html"}


@each_text
def test_slips(name: str) -> None:
    assert sorted(found(name)) == sorted(planted(name))


@each_text
def test_corrections_of_slips(name: str) -> None:
    said = {(slip["line"], slip["stated"]): slip["correct"] for slip in answer(name)["slips"]}
    for slip in expected(name).get("slips", []):
        stated = (slip["line"], slip.get("stated"))
        if stated in said:  # of a number with a unit, the exact value is said
            assert bare(said[stated]) == bare(slip["correct"])


@each_text
def test_numbers_that_follow_from_a_slip(name: str) -> None:
    following = {
        (number["line"], bare(number["text"]))
        for number in answer(name)["numbers"]
        if number["verdict"] == "follows"
    }
    wanted = {
        (item["line"], bare(item["stated"]))
        for item in expected(name).get("follows", [])
        if not item.get("missed")
    }
    assert wanted <= following


@each_text
def test_exit_status(name: str) -> None:
    assert audited(name).status == expected(name)["status"]


@each_text
def test_model_and_sizes(name: str) -> None:
    model = answer(name)["model"]
    assert (model["model_type"], model["class"]) == (
        expected(name)["family"],
        expected(name)["class"],
    )
    sizes = {field: model["sizes"].get(field) for field in expected(name)["sizes"]}
    assert sizes == expected(name)["sizes"]


@each_text
def test_what_the_total_counts(name: str) -> None:
    if "counts" not in expected(name):
        return
    exact = [match for match in answer(name)["counts"]["matches"] if not match["steps"]]
    assert expected(name)["counts"] in [match["class"] for match in exact]


@each_text
def test_numbers_that_are_recognised(name: str) -> None:
    good = {
        (number["line"], bare(number["text"]))
        for number in answer(name)["numbers"]
        if number["verdict"] in (RIGHT, KNOWN, SIZE)
    }
    wanted = [(item["line"], bare(item["number"])) for item in expected(name).get("recognised", [])]
    assert set(wanted) <= good


def shares(name: str) -> tuple[int, int]:
    """Return how many numbers of a text are unread, and how many it has, without boilerplate."""
    verdicts = answer(name)["verdicts"]
    return verdicts[UNREAD], sum(verdicts.values()) - verdicts[BOILERPLATE]


@each_text
def test_most_numbers_are_read(name: str) -> None:
    unread, numbers = shares(name)
    assert len(answer(name)["numbers"]) == sum(answer(name)["verdicts"].values())
    assert 1 - unread / numbers >= LEAST_READ_OF_ONE


@each_text
def test_the_corrected_text_has_no_slip(name: str, tmp_path: Path) -> None:
    lines = (CORPUS / name).read_text("utf-8").split("\n")
    for correction in expected(name).get("corrections", []):
        assert lines[correction["line"] - 1] == correction["old"]
        lines[correction["line"] - 1] = correction["new"]
    path = tmp_path / name
    path.write_text("\n".join(lines), "utf-8")
    assert [slip.text for slip in audit(path).slips] == []
    assert audit(path).status == 0


@each_text
@pytest.mark.parametrize("form", ["page", "markdown"])
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_reports_have_every_number(name: str, form: str, lang: str) -> None:
    report = bare(html.unescape(getattr(audited(name), form)(lang)))
    for number in audited(name).numbers:
        digits = re.findall(r"[\d.]*\d", bare(number.text))
        assert all(piece in report for piece in digits)


def test_sensitivity_over_the_corpus() -> None:
    slips = [slip for name in TEXTS for slip in expected(name).get("slips", [])]
    missed = [slip for slip in slips if slip.get("missed")]
    assert 1 - len(missed) / len(slips) >= LEAST_FOUND


def test_share_of_numbers_read_over_the_corpus() -> None:
    unread, numbers = zip(*map(shares, TEXTS), strict=True)
    assert 1 - sum(unread) / sum(numbers) >= LEAST_READ
