"""The reports of an audit: the marked article, the list of what was not read, the JSON."""

import re
from pathlib import Path
from typing import Any

import pytest
from notebooks import Sanitised

from weighbridge.answers.audit import Audit, audit
from weighbridge.answers.audit_report import MOST_UNREAD
from weighbridge.articles.text.places import place_of_passage
from weighbridge.cli import main

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "commands.md"
ARTICLE = """\
BERT base: hidden size 768, 12 layers, 12 heads, intermediate size 3072, vocabulary 30522.

- Tokens: $30522 \\times 768 = 23{,}449{,}856$
1. Tokens and 1,000 more: 23,449,856 + 1,000 = 23,450,856, as 4*q*q = 7 says.
The pooler has no parameters. A model of about 110M.
d_ff, usually called hidden size, is 3072. Published on 2023-05-06.
"""
FORMULAS = "The parameters of FFN: 2 * (4H * H + H)"
LOST = "词表vocabsize30522,hiddensize768,maxpositionembeddings512,tokentypeembeddings2\n\
BERT的embedding参数(305225122)768"


@pytest.fixture(scope="module")
def report() -> Audit:
    return audit(text=ARTICLE)


def marks(page: str) -> list[tuple[str, str]]:
    """Return the kind and the text of each mark of the article on a page."""
    article = page.partition('<div class="marked">')[2].partition("</div>\n<h2>")[0]
    found = re.findall(r'<mark class="([^"]*)" title="[^"]*">([^<]*)</mark>', article)
    assert len(found) == article.count("<mark")
    return found


def test_each_number_of_an_article_is_marked_at_its_place(report: Audit) -> None:
    found = marks(report.page())
    numbers = [(kind, text) for kind, text in found if "passage" not in kind]
    assert len(numbers) == len(report.numbers)
    assert [kind for kind, _ in numbers] == [number.verdict for number in report.numbers]
    assert ("slip", "23{,}449{,}856") in numbers
    assert ("known", "110M") in numbers


def test_what_is_right_stands_beside_a_slip_and_what_follows(report: Audit) -> None:
    page = report.page()
    slip = page[page.index('<mark class="slip" title') :]
    slip = slip[slip.index("23{,}449{,}856") :]
    shown = '</mark><span class="beside slip"><span aria-hidden="true"> → 23,440,896</span>'
    assert slip.partition("23{,}449{,}856")[2].startswith(shown)
    assert '<span class="unseen"> (slip: correct is 23,440,896)</span>' in page
    assert "→ 23,441,896" in page


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_statements_in_words_are_marked_and_have_a_note(report: Audit, lang: str) -> None:
    page = report.page(lang)
    assert ("slip passage", "pooler has no parameters") in marks(page)
    after = page.partition('<p id="line-5">')[2].partition('<p id="line-6">')[0]
    assert after.count('<div class="note slip" role="note">') == 1
    remark = page.partition('<p id="line-6">')[2]
    assert remark.count('<div class="note remark" role="note">') == len(report.remarks) == 1
    assert ("remark passage", "d_ff, usually called hidden size") in marks(page)


def test_a_wrong_formula_is_marked_as_a_whole() -> None:
    page = audit(text=FORMULAS).page()
    assert '<mark class="slip passage"' in page
    assert page.partition('class="slip passage"')[2].count("</mark>") == 3  # and its two numbers
    assert "Slip: It states 8H² + 2H for feed-forward; correct is 8H² + 5H" in page


def test_a_wrong_passage_is_marked_once() -> None:
    text = (
        "H = 4: the attention has num_heads*3*(H/num_heads)*H, this simplifies to 3*H^2/num_heads"
    )
    page = audit(text=text).page()
    assert 'class="slip passage"' in page
    assert '<mark class="slip" title' not in page


def test_restored_operators_are_seen_at_their_place() -> None:
    page = audit(text=LOST).page()
    assert 'class="right passage"' in page
    note = page.partition('<p id="line-2">')[2]
    assert '<div class="note right" role="note">read as (30522+512+2)*768 = 23,835,648' in note


def test_every_line_has_an_address_and_every_number_a_reason(report: Audit) -> None:
    page = report.page()
    for number in range(1, len(ARTICLE.splitlines()) + 1):
        assert page.count(f'id="line-{number}"') == 1
    listed = page.partition('<ul class="reasons">')[2]
    assert listed.count("<li>") == 5  # lines with numbers
    assert "<b>23,449,856</b> slip: correct is 23,440,896" in listed
    assert "boilerplate: a date or time" in listed


def test_lines_on_one_line_of_a_page_share_an_address() -> None:
    page = audit(text="<html><body><p>2*3 = 7</p><p>2*4 = 8</p></body></html>").page()
    assert page.count('id="line-1"') == 1
    assert page.count('href="#line-1">1</a>') == 4  # two lines, and their reasons


def test_the_legend_has_the_counts(report: Audit) -> None:
    legend = report.page().partition('<ul class="legend">')[2].partition("</ul>")[0]
    assert '<mark class="slip">1 slip</mark>' in legend
    assert "misleading words" in legend
    assert "with its numbers marked" not in report.text()  # a terminal leaves the article out


def test_a_notebook_shows_the_marks_without_a_style(report: Audit) -> None:
    shown = "".join(Sanitised(report._repr_html_()).texts)
    assert "✗ 23{,}449{,}856 → 23,440,896" in shown
    assert "Slip: It says “pooler has no parameters”" in shown


# Markdown


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_every_footnote_is_defined_once_and_used(report: Audit, lang: str) -> None:
    marked = report.markdown(lang).partition("\n## ")[2]
    defined = re.findall(r"^\[\^(\d+)\]: ", marked, re.MULTILINE)
    used = re.findall(r"\[\^(\d+)\](?!: )", marked)
    assert defined == [str(number) for number in range(1, len(defined) + 1)]
    assert set(used) == set(defined)


def test_the_markup_of_an_article_is_text_in_markdown(report: Audit) -> None:
    lines = report.markdown().partition("\n## ")[2].splitlines()
    assert any(line.startswith("\\- Tokens: \\$30522") for line in lines)
    assert any(line.startswith("1\\. Tokens and") for line in lines)


def test_numbers_with_one_reason_share_a_footnote() -> None:
    text = "H = 768. 768*2 = 1537\n\nThen 1537 + 1 = 1538.\n\nAgain 1537 + 2 = 1539."
    marked = audit(text=text).markdown()
    reused = re.findall(r"1537\*\*\[\^(\d+)\]", marked)
    assert len(reused) == 3
    assert reused[1] == reused[2]


# The text


def test_slips_of_one_line_share_its_text() -> None:
    text = audit(text="2*3 = 7 and 2*4 = 9").text()
    assert text.count("Line 1:") == 1
    assert text.count("It states") == 2


def test_a_long_line_is_cut_to_what_is_around_its_slip() -> None:
    text = " ".join(audit(text=f"{'word ' * 60}so 2*3 = 7, {'word ' * 60}").text().split())
    assert "… word word" in text
    assert "so 2*3 = 7, word" in text
    assert len(text) < 400


def test_the_order_of_a_report(report: Audit) -> None:
    text = report.text()
    in_order = [
        "2 slips found, 1 of them in words",
        "Line 3:",
        "Figures that depend on it:",
        "Line 5:",
        "Misleading, but not wrong:",
        "Not read, and therefore not checked:",
        "Sizes in the article:",
        "The article is about",
        "The article calls nothing a total.",
        " numbers: 5 sizes",
    ]
    places = [text.index(part) for part in in_order]
    assert places == sorted(places)
    assert "error" not in text


def test_the_list_of_what_was_not_read_is_short() -> None:
    code = "".join(f"for i in range({n}): foo = '%d' % 99999; bar\n" for n in range(90))
    flooded = audit(text=f"2*3 = 6\n{code}\n30522 * q = 23,440,896\n").text()
    listed = flooded.partition("Not read")[2].partition("\n\n")[0].splitlines()[1:]
    assert any("30522 * q" in line for line in listed)
    assert not any("range(" in line for line in listed)
    assert not any("foo" in line for line in listed)
    many = audit(text="2*3 = 6\n" + "".join(f"q*{n} = 99999\n" for n in range(5, 40)))
    listed = many.text().partition("Not read")[2].partition("\n\n")[0].splitlines()[1:]
    assert len([line for line in listed if line.startswith("  line")]) == MOST_UNREAD
    rest = len(many.unread) - MOST_UNREAD
    assert f"… and {rest} more pieces" in listed[-1]


def test_no_slip_is_claimed_of_what_was_not_read() -> None:
    nothing = audit(text="30522 * q = 23,440,896. The d_ff, usually called hidden size, is 4.")
    assert (nothing.status, nothing.checked) == (2, 0)
    assert nothing.remarks
    assert "No slips" not in nothing.text()
    assert "Nothing was checked" in nothing.text()


# JSON


def test_a_slip_in_words_says_what_is_right(report: Audit) -> None:
    _, words = report.to_dict()["slips"]
    assert (words["kind"], words["stated"]) == ("words", "pooler has no parameters")
    assert words["correct"].startswith("The pooler is a dense layer")
    assert words["follows"] == []


def test_every_number_has_a_verdict_and_a_reason(report: Audit) -> None:
    content = report.to_dict()
    assert sum(content["verdicts"].values()) == len(content["numbers"])
    assert all(number["because"] for number in content["numbers"])
    known = [number for number in content["numbers"] if number["verdict"] == "known"]
    assert content["recognised"] == known
    assert "110M" in [number["text"] for number in known]


def test_the_fields_are_documented(report: Audit) -> None:
    section = REFERENCE.read_text("utf-8").partition("## What audit writes")[2]
    section = section.partition("\n## ")[0]
    documented = set(re.findall(r"`(\w+)`", section))
    content: dict[str, Any] = report.to_dict()
    for part in (content, content["slips"][0], content["slips"][0]["follows"][0]):
        assert part.keys() <= documented
    for name in ("numbers", "remarks", "unread"):
        assert content[name][0].keys() <= documented
    assert content["model"].keys() <= documented
    assert content["verdicts"].keys() <= documented


# The command


def test_a_format_that_does_not_exist_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.md"
    path.write_text("2*3 = 7")
    assert main(["audit", str(path), "--format", "pdf"]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert main(["audit", str(path), "--format", "html"]) == 1
    assert '<p id="line-1">' in capsys.readouterr().out


# Places


@pytest.mark.parametrize(
    ("original", "passage", "place"),
    [
        ("so **$3 \\times H^2$** is", "3*H^2", "3 \\times H^2"),
        ("每个矩阵 ３×Ｈ² 个", "3*H^2", "３×Ｈ²"),
        (
            "The Pooler has *no* parameters.",
            "pooler has no parameters",
            "Pooler has *no* parameters",
        ),
        ("so (2*(H + 3)) is", "2*(H+3)", "2*(H + 3)"),
        ("nothing of it", "3*H^2", None),
        ("nothing to look for", "()", None),
    ],
)
def test_a_passage_is_found_in_its_markup(original: str, passage: str, place: str | None) -> None:
    found = place_of_passage(original, passage)
    assert (found and original[slice(*found)]) == place


@pytest.mark.parametrize("space", ["\N{NO-BREAK SPACE}", "\N{IDEOGRAPHIC SPACE}", "\N{EN QUAD}"])
def test_a_space_of_any_kind_is_shown_as_one(space: str) -> None:
    """Pages have no-break spaces around code, and Chinese paragraphs begin with wide ones."""
    line = f"{space}A BERT, hidden size 768,{space}{space}with [CLS]: 768 * 768 = 589,825"
    text = audit(text=line).text()
    assert "\N{REPLACEMENT CHARACTER}" not in text
    assert "768, with [CLS]: 768" in text
