"""The five published articles, as they are: exactly the verdicts that they must get.

The articles are not part of the project. The tests read them beside it, and are skipped where they
are missing. What each must get is in the README beside them.
"""

import html
from pathlib import Path
from typing import Any

import pytest

from weighbridge.answers.audit import Audit, audit

ARTICLES = Path(__file__).parents[3] / "shared" / "articles"
pytestmark = pytest.mark.skipif(not ARTICLES.is_dir(), reason="the articles are not here")

BASE = {"vocab_size": 30522, "hidden_size": 768, "num_attention_heads": 12}
EXPECTED: dict[str, dict[str, Any]] = {
    "000": {
        "sizes": {
            "vocab_size": 21128,
            "hidden_size": 768,
            "max_position_embeddings": 512,
            "num_hidden_layers": 12,
            "num_attention_heads": 12,
        },
        "slips": [(110, "words", "pooler_no_parameters")],
        "remarks": [(78, "inner_size_name")],
        "total": (102_267_648, 102_267_648),
        "counts": ("BertModel", []),
        "release": "google-bert/bert-base-chinese",
    },
    "001": {
        "sizes": BASE
        | {
            "max_position_embeddings": 512,
            "type_vocab_size": 2,
            "num_hidden_layers": 12,
            "intermediate_size": 3072,
        },
        "slips": [],
        "remarks": [],
        "total": (108_808_704, 108_808_704),
        "counts": ("BertModel", ["linear_biases", "pooler"]),
        "release": "google-bert/bert-base-uncased",
        "recognised": {"110M": "published", "340M": "published"},
        "restored": {
            7: ["(30522+512+2)*768"],
            12: ["768/12"],
            14: ["768*768/12*3"],
            16: ["768*768/12*3*12"],
            17: ["768*768"],
            19: ["768*3072", "2*768*3072"],
            24: ["768*2 + 768*2*2*12"],
            26: [
                "(30522+512+2)*768 + 768*2 + 12*(768*768/12*3*12 + 768*768 + 768*3072*2 + 768*2*2)"
            ],
            27: ["768*2 + 2*768*768"],
        },
    },
    "002": {
        "sizes": {},
        "slips": [
            (17, "words", "qkv_same"),
            (18, "letters", "3H²"),
            (18, "missing", "4H² + 4H"),
            (22, "formula", "8H² + 5H"),
            (25, "words", "norm_statistics"),
        ],
        "remarks": [],
        "total": None,
        "counts": None,
        "release": "google-bert/bert-base-uncased",
    },
    "003": {
        "sizes": BASE
        | {"max_position_embeddings": 512, "num_hidden_layers": 12, "intermediate_size": 3072},
        "slips": [
            (33, "arithmetic", "7,080,960"),
            (39, "arithmetic", "23,440,896"),
            (63, "arithmetic", "109,417,952"),
        ],
        "remarks": [(61, "pooler_is_classifier")],
        "total": (109_418_952, 109_396_992),
        "counts": ("BertModel", ["linear_biases", "embedding_norm"]),
        "release": "google-bert/bert-base-uncased",
        "follows": {"84,983,520": "84,971,520", "23,844,608": "23,835,648"},
    },
    "004": {
        "sizes": {
            "vocab_size": 21128,
            "hidden_size": 768,
            "max_position_embeddings": 512,
            "type_vocab_size": 2,
            "num_attention_heads": 12,
            "head_dim": 64,
            "num_labels": 14,
        },
        "slips": [(53, "words", "weights_for_vectors")],
        "remarks": [(13, "no_pooler_part")],
        "total": None,
        "counts": None,
        "release": "google-bert/bert-base-chinese",
        "parameters": 102_278_414,
    },
}
"""For each article: its sizes, slips (line, kind, and what is right or which statement is wrong),
misleading statements, its total as stated and as corrected, and the way of counting it."""

FORMS = ("txt", "md", "html")


@pytest.fixture(params=EXPECTED)
def number(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=FORMS)
def audited(number: str, request: pytest.FixtureRequest, tmp_path: Path) -> Audit:
    (path,) = ARTICLES.glob(f"{number}_*.txt")
    text = path.read_text(encoding="utf-8")
    if request.param == "html":
        body = "\n".join(f"<p>{html.escape(line)}</p>" for line in text.splitlines())
        text = f"<!doctype html><body>\n{body}\n</body>"
    copy = tmp_path / f"{number}.{request.param}"
    copy.write_text(text, encoding="utf-8")
    return audit(copy)


def line_in_text(audited: Audit, line: int) -> int:
    """Return the line of the article: the page has one line before it."""
    return line - audited.source.html


def test_the_slips_are_the_ones_that_are_there(number: str, audited: Audit) -> None:
    slips = []
    for slip in audited.slips:
        right = slip.about if slip.kind == "words" else slip.correct
        slips.append((line_in_text(audited, slip.line), slip.kind, right))
    assert slips == EXPECTED[number]["slips"]
    found = audited.to_dict()["remarks"]
    remarks = [(line_in_text(audited, remark["line"]), remark["kind"]) for remark in found]
    assert remarks == EXPECTED[number]["remarks"]
    assert audited.status == (1 if slips else 0)


def test_the_sizes_and_the_model_are_the_articles_own(number: str, audited: Audit) -> None:
    expected = EXPECTED[number]
    found = audited.to_dict()["model"]
    assert found["sizes"] == expected["sizes"]
    assert found["release"] == expected["release"]
    if "parameters" in expected:
        assert found["parameters"] == expected["parameters"]


def test_the_total_is_reconciled(number: str, audited: Audit) -> None:
    expected = EXPECTED[number]
    if expected["counts"] is None:
        assert audited.counts is None
        return
    assert audited.total
    assert audited.counts
    assert (audited.total.stated, audited.total.mended) == expected["total"]
    way = audited.counts.matches[0]
    steps = [step.convention for step in way.steps]
    assert (way.class_name, steps) == expected["counts"]


def test_what_follows_and_what_is_recognised(number: str, audited: Audit) -> None:
    expected = EXPECTED[number]
    follows = {follow.stated: follow.mended for slip in audited.slips for follow in slip.follows}
    for stated, mended in expected.get("follows", {}).items():
        assert follows[stated] == mended
    reasons = {item["text"]: item["reason"] for item in audited.to_dict()["recognised"]}
    for text, reason in expected.get("recognised", {}).items():
        assert reasons[text] == reason


def test_the_operators_that_the_page_lost_are_put_back(number: str, audited: Audit) -> None:
    restored: dict[int, list[str]] = {}
    for calculation in audited.to_dict()["restored"]:
        line = line_in_text(audited, calculation["line"])
        restored.setdefault(line, []).append(calculation["calculation"])
    assert restored == EXPECTED[number].get("restored", {})


def test_at_least_95_percent_of_the_numbers_are_read_or_recognised() -> None:
    numbers = unread = 0
    for path in ARTICLES.glob("0*.txt"):
        audited = audit(path)
        counts = audited.to_dict()["verdicts"]
        assert sum(counts.values()) == len(audited.numbers)
        numbers += len(audited.numbers)
        unread += counts["unread"]
    assert unread <= numbers / 20


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_reports_say_the_same_in_both_languages(audited: Audit, lang: str) -> None:
    text = audited.text(lang)
    for slip in audited.slips:
        if slip.kind != "words":
            assert slip.correct in text
    marked = audited.page(lang).partition('<div class="marked">')[2]
    assert marked.count('<mark class="slip"') <= len(audited.slips)
    assert audited.markdown(lang)
