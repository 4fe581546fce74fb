"""`audit` finds exactly the slips in published derivations, in each language and notation."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from articles import ARTICLES, LANGUAGES, NOTATIONS, as_html
from hypothesis import given
from hypothesis import strategies as st

import weighbridge
from weighbridge import data
from weighbridge.answers.audit import Audit, audit
from weighbridge.articles.arithmetic.figures import Slip
from weighbridge.articles.text.exact import MOST_POWER
from weighbridge.articles.text.tokens import LONGEST_LINE
from weighbridge.cli import main
from weighbridge.errors import ArticleError, CheckpointError, UsageError

# The slips in each article: the line, the stated number, the correct number. In D, the products and
# sums that depend on a slip are correct arithmetic; they are listed below the slip, as effects.
FOUND = {
    "A": [(6, "16,622,952", "16,622,592"), (13, "102,276,648", "102,267,648")],
    "B": [(3, "46", "64"), (6, "108,880,704", "108,808,704"), (8, "1,118,184", "1,181,184")],
    "C": [(5, "3H²/A", "3H²"), (5, "3H²", "4H² + 4H"), (8, "8H² + 2H", "8H² + 5H")],
    "D": [
        (8, "7,081,960", "7,080,960"),
        (12, "23,449,856", "23,440,896"),
        (19, "109,418,952", "109,417,952"),
    ],
}
WRITTEN = [*itertools.product(ARTICLES, LANGUAGES, NOTATIONS)]


def found(text: str) -> list[tuple[int, str, str]]:
    """Return the slips in an article: line, stated, correct."""
    return [(slip.line, slip.stated, slip.correct) for slip in audit(text=text).slips]


@pytest.mark.parametrize(("name", "lang", "notation"), WRITTEN, ids=str)
def test_every_slip_of_an_article_is_found(name: str, lang: str, notation: str) -> None:
    text = ARTICLES[name].written(lang, notation)
    audited = audit(text=text)
    assert [(slip.line, slip.stated, slip.correct) for slip in audited.slips] == FOUND[name]
    assert all(slip.text == text.splitlines()[slip.line - 1].strip() for slip in audited.slips)
    assert (audited.unread, audited.status) == ((), 1)


@pytest.mark.parametrize(("name", "lang", "notation"), WRITTEN, ids=str)
def test_the_corrected_article_has_none(name: str, lang: str, notation: str) -> None:
    audited = audit(text=ARTICLES[name].written(lang, notation, mended=True))
    assert (audited.slips, audited.unread, audited.status) == ((), (), 0)
    assert audited.checked >= len(FOUND[name]) - 1  # an ellipsis is not a step


@pytest.mark.parametrize(("name", "lang"), [*itertools.product(ARTICLES, LANGUAGES)], ids=str)
def test_a_page_is_read_as_its_text_is(name: str, lang: str) -> None:
    audited = audit(text=as_html(ARTICLES[name].written(lang, "ascii")))
    assert [(slip.line - 2, slip.stated, slip.correct) for slip in audited.slips] == FOUND[name]
    mended = audit(text=as_html(ARTICLES[name].written(lang, "ascii", mended=True)))
    assert (mended.slips, mended.unread) == ((), ())


def follows_of(slip: Slip) -> list[tuple[int, str, str, Any]]:
    """Return the figures that depend on a slip: line, stated, corrected, shift."""
    return [(figure.line, figure.stated, figure.mended, figure.shift) for figure in slip.follows]


@pytest.mark.parametrize(("lang", "notation"), [*itertools.product(LANGUAGES, NOTATIONS)], ids=str)
def test_the_consequences_of_a_slip_have_their_share(lang: str, notation: str) -> None:
    layer, tokens, total = audit(text=ARTICLES["D"].written(lang, notation)).slips
    assert follows_of(layer) == [
        (10, "84,983,520", "84,971,520", 12_000),
        (19, "109,418,952", "109,396,992", 12_000),
    ]
    assert follows_of(tokens) == [
        (15, "23,844,608", "23,835,648", 8_960),
        (19, "109,418,952", "109,396,992", 8_960),
    ]
    assert (layer.shift, tokens.shift, total.shift, total.mended) == (
        1_000,
        8_960,
        1_000,
        "109,396,992",
    )


def test_the_total_has_all_slips_corrected_and_its_sizes() -> None:
    total = audit(text=ARTICLES["D"].written("en", "ascii")).total
    assert total
    assert (total.line, total.stated, total.mended) == (19, 109_418_952, 109_396_992)
    assert total.sizes == {
        "vocab_size": 30522,
        "hidden_size": 768,
        "num_hidden_layers": 12,
        "max_position_embeddings": 512,
        "intermediate_size": 3072,
    }


def test_the_total_of_a_layer_is_not_the_total_of_the_article() -> None:
    total = audit(text="Per layer the total is 4*5 = 20,000\nAll: 12 * 20,000 = 240,000").total
    assert total
    assert (total.line, total.stated) == (2, 240_000)


# Unread parts

UNREAD = {
    "a function": ("softmax(Q*K/8) = 5", "not_read"),
    "a root": (r"$\sqrt{768} = 27.7$", "sign"),
    "a letter of nothing": ("4*q*q = 2,359,296", "unknown"),
    "words of nothing": ("2*3 = 6. embeddings + layers = 108,891,648", "unknown"),
    "a number too long": ("7" * 400 + " * 2 = 5", "digits"),
    "powers of powers": ("9**9**9 = 5", "too_large"),
    "a power too large": ("10^(10^10) = 5", "too_large"),
    "a long power": ("H^" + str(MOST_POWER + 1) + " = 5", "too_large"),
    "a power of a sum": ("(V+H+A+B)^99 = 5", "too_large"),
    "deep brackets": ("(" * 500 + "1+1" + ")" * 500 + " = 2", "too_deep"),
    "a bracket left open": ("5*(2*3 = 6", "bracket"),
    "operations": ("102,267,648 * 2 = 204 MFLOPs", "operations"),
    "groups of four": ("2*3 = 1,0226,7648", "grouping"),
    "two readings": ("H = 8: H/2H = 4", "two_ways"),
    "division by nothing": ("5/(3-3) = 5", "by_zero"),
    "division by a sum": ("V/(V+H) = 5", "by_a_sum"),
    "half a power": ("H = 4: H^(1/2) = 2", "power"),
    "nearly": ("30522*768 ≈ 23,000*1,000", "nearly"),
    "words far from equal": ("4*768*768 is 12 blocks", "unclear"),
    "far from equal": ("124M*4B = 469MB", "far_apart"),
    "an exclusive or": ("5 ^ 3 = 6", "exclusive_or"),
    "a sum of what": ("2*3 = 6 and 2*4 = 8. The sum is 500", "sum_of_what"),
    "two numbers": ("2*3 = 6. In all 23,440,896 = 23,440,897", "two_numbers"),
    "rounded roughly": ("30522*768 ≈ 23.5M", "loose"),
    "a long line": ("2*3 = 6\n" + "x " * LONGEST_LINE + "= 5", "long_line"),
    "a long statement": ("1+" * 2500 + "1 = 2501", "too_long"),
    "LaTeX that is none": (r"$\frac{1}{ = 5 * 2$", "latex"),
}


ELSEWHERE = {
    "cut",
    "begins_where",
    "joined_digits",
    "lost",
    "no_reading",
    "quoted",
    "table",
    "too_many",
    "too_many_readings",
}
"""Reasons of which other tests have a case, or that only hostile texts give."""


@pytest.mark.parametrize("name", UNREAD)
def test_unread_parts_are_reported(name: str) -> None:
    text, why = UNREAD[name]
    audited = audit(text=text)
    assert [item.why for item in audited.unread] == [why]
    assert audited.slips == ()
    assert audited.status == (0 if audited.checked else 2)


def test_every_reason_has_words_and_a_case() -> None:
    english, chinese = (data.read_toml(f"words/audit.{lang}.toml") for lang in LANGUAGES)
    cases = {why for _, why in UNREAD.values()} | ELSEWHERE
    assert cases == english["why"].keys()
    assert english.keys() == chinese.keys()
    for section in ("kinds", "one", "many", "why"):
        assert english[section].keys() == chinese[section].keys()


# Any text


@given(
    st.text(
        st.sampled_from("0123456789.,()[]^*+-/=≈×·HVLA $\\{}_|&<>%亿为约共\n\"'fracMx²"),
        max_size=60,
    )
)
def test_any_text_has_an_answer(text: str) -> None:
    try:
        audited = audit(text=text)
    except ArticleError:
        return
    assert audited.text("zh")
    json.dumps(audited.to_dict())


# Bad input: one message for each, without a long wait


def refused(article: Path | str) -> str:
    with pytest.raises((ArticleError, CheckpointError)) as error:
        audit(article)
    return str(error.value)


BAD = {
    "empty": (b"", "the article is empty"),
    "only spaces": (b" \n\t\n", "the article is empty"),
    "binary": (b"\x89PNG\r\n\x00\x00\x00", "this is not text: it contains a zero byte (byte = 6)"),
    "no encoding": (b"\xff\xff\xff=\xff", "the text is neither UTF-8 nor GB 18030"),
    "no arithmetic": (
        b"BERT was trained on books. It has 12 layers.",
        "contains no arithmetic to check",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_anything_but_an_article_is_refused_with_one_message(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    raw, message = BAD[name]
    path = tmp_path / "article.md"
    path.write_bytes(raw)
    assert refused(path).startswith(f"{path}: {message}")
    assert main(["audit", str(path)]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)


def test_a_hundred_megabytes_are_refused_before_they_are_read(tmp_path: Path) -> None:
    path = tmp_path / "long.md"
    with path.open("wb") as file:
        file.truncate(100 * 10**6)
    assert "an article may have at most 2,097,152 bytes" in refused(path)
    assert "no such file" in refused(tmp_path / "none.md")
    assert "only a regular file can be read" in refused(tmp_path)


@pytest.mark.sampled("src/weighbridge/articles", "src/weighbridge/answers/audit")
@pytest.mark.slow
def test_an_article_with_unchecked_steps_is_reported() -> None:
    audited = audit(text="1+1 = 2\n" * 10_001)
    assert (audited.checked, audited.slips) == (10_000, ())
    assert [(item.line, item.why) for item in audited.unread] == [(10_001, "too_many")]


def test_older_chinese_pages_are_read(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    head = '<head><meta charset="gb2312"></head>'
    page = f"<html>{head}<body><p>词嵌入：30522×768＝23,449,856</p></body></html>"
    path.write_bytes(page.encode("gb18030"))
    audited = audit(path)
    assert [(slip.line, slip.correct) for slip in audited.slips] == [(1, "23,440,896")]
    assert audited.source.encoding == "gb18030"
    assert "gb18030" in audited.text()


# The reports, and the command


@pytest.mark.parametrize(("name", "lang"), [*itertools.product(ARTICLES, LANGUAGES)], ids=str)
def test_a_report_has_every_slip_in_eighty_columns(name: str, lang: str) -> None:
    from weighbridge.render.table import width

    audited = audit(text=ARTICLES[name].written(lang, "ascii"))
    text = audited.text(lang)
    for slip in audited.slips:
        assert slip.stated in text
        assert slip.correct in text
        assert slip.mended in text
    assert all(width(line) <= 80 for line in text.splitlines())
    assert repr(audited) == audited.text()


def test_a_component_is_called_by_its_name_in_each_language() -> None:
    audited = audit(text="FFN: 2*(4H*H + H)")
    assert [slip.about for slip in audited.slips] == ["ffn"]
    assert "8H² + 2H for feed-forward;" in audited.text("en")
    assert "文中前馈网络写作 8H² + 2H；" in audited.text("zh")


def test_the_exit_status_depends_on_the_slips(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "d.md"
    for mended, status in ((False, 1), (True, 0)):
        path.write_text(ARTICLES["D"].written("zh", "latex", mended=mended), encoding="utf-8")
        assert main(["audit", str(path), "--lang", "zh"]) == status
        assert ("发现 3 处错误" in capsys.readouterr().out) is (not mended)
        assert main(["audit", str(path), "--json"]) == status
        report = json.loads(capsys.readouterr().out)
        assert (report["status"], report["unread"]) == (status, [])
        assert len(report["slips"]) == (0 if mended else 3)
    path.write_text("4*q*q = 2,359,296")
    assert main(["audit", str(path)]) == 2
    assert "the article does not say what q is" in capsys.readouterr().out


def test_the_json_has_what_is_documented(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "d.md"
    path.write_text(ARTICLES["D"].written("en", "ascii"), encoding="utf-8")
    main(["audit", str(path), "--json"])
    report = json.loads(capsys.readouterr().out)
    assert report["slips"][2] == {
        "line": 19,
        "text": (
            "In total 84,983,520 + 23,844,608 + 589,824 = 109,418,952. "
            "The large one has about 340M."
        ),
        "kind": "arithmetic",
        "about": "",
        "stated": "109,418,952",
        "correct": "109,417,952",
        "mended": "109,396,992",
        "shift": 1000,
        "follows": [],
    }
    assert report["slips"][0]["follows"][0]["shift"] == 12000
    assert (report["total"]["stated"], report["total"]["mended"]) == (109_418_952, 109_396_992)


def test_standard_input_is_an_article(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import io
    import sys

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"2*3 = 7")))
    assert main(["audit", "-"]) == 1
    assert "standard input" in capsys.readouterr().out


def test_the_question_is_about_one_article() -> None:
    for arguments in ({}, {"article": "a.md", "text": "2*3 = 7"}):
        with pytest.raises(UsageError, match="audit takes one article"):
            audit(**arguments)
    with pytest.raises(UsageError, match="must be the article itself"):
        weighbridge.audit(text=3)
    with pytest.raises(UsageError, match="no such language"):
        audit(text="2*3 = 7").text("fr")


def test_a_page_elsewhere_is_fetched_up_to_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("httpx2")
    from server import serving

    from weighbridge.articles.text import source

    (tmp_path / "a.html").write_text("<html><body><p>2*3 = 7</p></body></html>")
    with serving(tmp_path) as server:
        assert [slip.stated for slip in audit(f"{server.url}/whole/a.html").slips] == ["7"]
        assert "404-not-found" in refused(f"{server.url}/status/404/a.html")
        monkeypatch.setattr(source, "LONGEST_PAGE_BYTES", 10)
        assert "an article may have at most 10 bytes" in refused(f"{server.url}/whole/a.html")
    assert "unreachable" in refused(f"{server.url}/whole/a.html")


def test_the_package_returns_an_audit() -> None:
    assert isinstance(weighbridge.audit(text="2*3 = 7"), Audit)


# What the total counts


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_total_of_an_article_is_reconciled(lang: str) -> None:
    text = (
        "BERT: H = 768, L = 12, F = 3072, V = 30522, P = 512, T = 2.\n"
        "Layers: 12*(4*768^2 + 2*768*3072 + 2*2*768) = 84,971,520.\n"
        "Embeddings: 30522*768 + 512*768 + 2*768 = 23,835,648.\n"
        "Pooler: 768*768 = 589,824.\n"
        "Total: 84,971,520 + 23,835,648 + 589,824 = {total}."
    )
    right = audit(text=text.format(total="109,396,992"))
    assert right.status == 0
    assert right.counts
    first = right.counts.matches[0]
    assert [step.convention for step in first.steps] == ["linear_biases", "embedding_norm"]
    assert "BertModel" in right.text(lang)
    wrong = audit(text=text.format(total="109,418,952"))
    assert wrong.status == 1
    assert wrong.counts
    assert wrong.counts.matches[0].parameters == 109_396_992, "its slips corrected"
    assert wrong.to_dict()["counts"]["matches"]


def test_a_total_that_nothing_gives_is_reported_as_such() -> None:
    found = audit(text="BERT: H = 768, V = 30522. Total: 30522*768 + 1 = 23,440,897.")
    assert found.counts
    assert not found.counts.matches
    assert "No known way of counting" in found.text()


def test_the_largest_figure_is_not_called_a_total() -> None:
    largest = audit(text="H = 768, V = 30522. The words: 30522*768 = 23,440,896.")
    assert largest.total
    assert not largest.total.called
    assert "Its largest figure, 23,440,896" in " ".join(largest.text().split())
    called = audit(text="H = 768, V = 30522. Total: 30522*768 = 23,440,896.")
    assert called.total
    assert called.total.called


TABLE = """\
| Component | Formula | Parameters |
|---|---|---|
| Token embeddings | 30522 × 768 | 23,440,896 |
| Attention | 12 × 4 × (768² + 768) | 28,348,416 |
| FFN | 12 × (2 × 768 × 3072 + 3072 + 768) | 56,669,184 |
| Total | | {total} |
"""


def test_what_a_table_has_found_wrong_is_not_unread_too() -> None:
    report = audit(text=TABLE.format(total="").replace("56,669,184", "56,669,148"))
    assert [slip.stated for slip in report.slips] == ["56,669,148"]
    assert report.unread == ()


ALONE = "Hidden size 768, vocabulary 30522: 30522 × 768 = 23,440,896.\nTotal: 109,482,240\n"


@pytest.mark.parametrize(
    ("article", "is_checked"),
    [
        (TABLE.format(total="108,458,496"), True),
        (TABLE.format(total="108M"), True),
        (TABLE.format(total="112M"), False),  # the rows may leave something out
        (ALONE, False),
        (f"{ALONE}In total 85,451,520 + 23,440,896 + 589,824 = 109,482,240.", True),
    ],
)
def test_a_total_is_right_only_if_something_gives_it(article: str, is_checked: bool) -> None:
    report = audit(text=article)
    assert not report.slips
    assert report.total
    assert report.total.checked is is_checked
    text, chinese = str(report.document("en")), str(report.document("zh"))
    assert ("is right by its own terms" in text) is is_checked
    assert ("nothing that was read there adds up to it" in text) is not is_checked
    assert ("没有核对" in chinese) is not is_checked


def test_a_total_without_sizes_is_not_checked() -> None:
    assert audit(text="Total: 3*4 = 12.").counts is None
