"""`articles.text.markup`: HTML, Markdown and LaTeX as the plain lines that a reader sees."""

import pytest

from weighbridge.articles import examine
from weighbridge.articles.text import markup
from weighbridge.articles.text.source import Source

PLAIN = {
    "**bold** and *slanted*": "bold and slanted",
    "- an item": "an item",
    "## 2.1 A heading": "A heading",
    "[a link](https://example.org)": "a link",
    "`2*3 = 6`": "2*3 = 6",
    "768<sup>2</sup>": "768^(2)",
    "<!-- a remark -->6": "6",
    r"$d_k = \frac{H}{A}$": "d_k = ((H)/(A))",
    r"$2^{10}$": "2^(10)",
    r"$\unheardof{5}$": "unheardof 5",
    "costs $5 or $6": "costs $5 or $6",
}


@pytest.mark.parametrize("text", PLAIN)
def test_markdown_and_latex_become_plain_signs(text: str) -> None:
    assert markup.plain_text(text) == PLAIN[text]


def test_a_formula_over_several_lines_keeps_their_number() -> None:
    text = "$$\nX &= 4 \\\\\n &= 5\n$$"
    assert markup.plain_text(text).count(markup.SOFT) == text.count("\n")


def test_invalid_or_too_long_latex_is_unknown() -> None:
    for latex in (r"\frac{1}{", "1" * (markup.LONGEST_FORMULA + 1)):
        assert markup.UNKNOWN in markup.plain_formula(latex)


def test_a_table_in_html_has_a_line_for_each_row() -> None:
    html = "<table><tr><td>FFN</td><td>5</td></tr><tr><th>sum</th></tr></table>"
    assert [line for _, line in markup.lines_of_html(html)] == ["|FFN |5 |", "|sum |"]


def test_hidden_text_is_not_read_and_a_formula_is_read_once() -> None:
    page = """<!DOCTYPE html><html><head><style>a{b:1*2=3}</style></head><body><nav>1</nav>
<p>Here <span class="katex"><span><math><mi>H</mi><mo>=</mo><annotation
encoding="application/x-tex">768/12 = 46</annotation></math></span><span \
class="katex-html">768/12=46</span></span>.</p>
<script>1 * 1 = 3</script>
<table><tr><td>FFN</td><td>2*768*3072</td><td>4,718,592</td></tr></table>
<img alt="2 \\times 3 = 7" eeimg="1"><pre>
2*4 = 8
2*5 = 11
</pre>"""
    audited = examine(Source("a.html", page, "utf-8", html=True)).findings
    assert [(slip.line, slip.stated) for slip in audited.slips] == [(2, "46"), (6, "7"), (8, "11")]
    assert audited.checked == 5


def mathml(inside: str) -> list[str]:
    page = f"<p>So <math><semantics><mrow>{inside}</mrow></semantics></math>.</p>"
    return [markup.plain_text(line) for _, line in markup.lines_of_html(page)]


@pytest.mark.parametrize(
    ("inside", "plain"),
    [
        (
            "<mn>4</mn><mo>×</mo><msup><mn>768</mn><mn>2</mn></msup><mo>=</mo><mn>2,359,296</mn>",
            "4×768^(2)=2,359,296",
        ),
        ("<mfrac><mi>H</mi><mi>A</mi></mfrac><mo>=</mo><mn>64</mn>", "((H)/(A))=64"),
        ("<mn>2</mn><mo>\u2062</mo><msub><mi>d</mi><mi>ff</mi></msub>", "2×d_ff"),
        ("<mroot><mn>8</mn><mn>3</mn></mroot>", markup.UNKNOWN),
        ("<mn>1</mn><mo>$</mo><mn>2</mn>", f"1{markup.UNKNOWN}2"),
        ("<msup><mn>2</mn></msup>", markup.UNKNOWN),
        ("<mrow>" * 200 + "<mn>5</mn>" + "</mrow>" * 200 + "<mn>7</mn>", f"{markup.UNKNOWN}7"),
        ("<mn>1</mn>" * 20_001, markup.UNKNOWN),
    ],
)
def test_a_formula_in_mathml_alone_is_read(inside: str, plain: str) -> None:
    assert mathml(inside) == [f"So {plain} ."]


@pytest.mark.parametrize("rule", ["===", "=== ===", "---", "| - | - |", "=" * 60])
def test_a_rule_is_no_text_and_a_torn_one_takes_no_longer(rule: str) -> None:
    assert markup.plain_text(f"1538\n{rule}\n2") == "1538\n\n2"
    torn = "=" * 200 + "tiple 1538"  # one pattern needed more time for each further sign
    assert markup.plain_text(torn) == torn
