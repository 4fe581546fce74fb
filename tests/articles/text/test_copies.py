"""`articles.text.copies`: each formula of a copied page is found once, and nothing else is.

`katex.json` has formulas as articles write them, with the three texts that KaTeX 0.16.47 makes of
each: the MathML, the HTML in a line, and the HTML of a displayed formula. A browser copies the
MathML, then the source, then the HTML.
"""

import json
import re
from pathlib import Path
from typing import NamedTuple

import pytest
from articles import ARTICLES, LANGUAGES, NOTATIONS
from hypothesis import given
from hypothesis import strategies as st

from weighbridge.articles.text.allowance import Allowance
from weighbridge.articles.text.copies import Copy, find_copies, is_copied_page

ROOT = Path(__file__).parents[3]
PUBLISHED = ROOT.parent / "shared" / "articles"
KATEX: list[list[str]] = json.loads(
    Path(__file__).with_name("katex.json").read_text(encoding="utf-8")
)
AROUND = [("参数量 = ", "（每层）"), ("The size is ", " and 3 of them."), ("", ""), ("每个", "个")]


def whole_copies(line: str, *, page: bool) -> list[tuple[str, str]]:
    """Return the stretch of each copy, and its source."""
    return [(line[copy.start : copy.end], copy.plain) for copy in find_copies(line, page)]


# All three texts


@pytest.mark.parametrize("row", KATEX, ids=lambda row: row[0])
def test_a_formula_as_katex_shows_it_is_found(row: list[str]) -> None:
    source, hidden, inline, displayed = row
    for visible in (inline, displayed):
        copied = hidden + source + visible
        for before, behind in AROUND:
            line = before + copied + behind
            assert whole_copies(line, page=True) == [(copied, source)]


def test_a_command_of_latex_needs_no_other_copies() -> None:
    with_command = [row for row in KATEX if re.search(r"\\[a-zA-Z]", row[0])]
    assert len(with_command) > 130
    for source, hidden, inline, _ in with_command:
        copied = hidden + source + inline
        assert whole_copies(copied, page=False) == [(copied, source)]
        assert is_copied_page(f"一\n{copied}\n二")


def test_several_on_a_line() -> None:
    line, expected = "", []
    for source, hidden, inline, _ in KATEX:
        if re.search(r"\\[a-zA-Z]", source):
            expected.append((hidden + source + inline, source))
            line += f"，{hidden}{source}{inline}"
    assert whole_copies(line, page=False) == expected


def test_the_source_is_told_by_its_columns() -> None:
    line = "有 4×H24 \\times H^2 4×H2"
    (copy,) = find_copies(line, page=False)
    assert line[copy.source_start : copy.source_end] == copy.plain == "4 \\times H^2"


def test_invisible_signs_and_lookalikes() -> None:
    line = "ｄk\u200b = 64∗−1d_k = 64 * -1\u200bdk = 64*−1\u200b\u200b，"
    assert whole_copies(line, page=True) == [(line[:-1], "d_k = 64 * -1")]


# Two texts


def test_mathjax_leaves_the_text_and_the_source() -> None:
    source, shown = r"4 \times 768^2 = 2,359,296", "4×7682=2,359,296"
    expected = [(shown + source, source)]
    assert whole_copies(f"每层 {shown}{source}。", page=False) == expected
    expected = [(shown * 2 + source, source)]
    assert whole_copies(f"每层 {shown}{shown}{source}。", page=False) == expected


def test_an_equation_that_is_there_twice() -> None:
    line = "即 2×768=15362×768=1536，占50%=1/250%=1/2"
    assert whole_copies(line, page=False) == [
        ("2×768=15362×768=1536", "2×768=1536"),
        ("50%=1/250%=1/2", r"50\%=1/2"),
    ]


def test_on_a_copied_page_three_times_the_same_is_a_formula() -> None:
    line = "共 23,844,60823,844,60823,844,608 个，HHH为768768768，121212层"
    assert [source for _, source in whole_copies(line, page=True)] == [
        "23,844,608", "H", "768", "12",
    ]  # fmt: skip
    assert find_copies(line, page=False) == []


# What is not a copy

NO_COPY = [
    "768768768",
    "| --- | --- | --- |",
    "| 768 | 768 | 768 |",
    "768 768 768 and 12, 12, 12",
    "2×32×3 = 36",
    "768×768 \\times 12",
    "4 \\times 768^2 = 2,359,296",
    "H^2 = H*H = H_1 H_2",
    "1,000,000,000,000 and 600_000_000 and 111111",
    "H×H $H \\times H$ H×H",
    "12层×12层×12层",
    "a, b, a, b, a, b",
    "`[0][0][0]` or `{}{}{}`",
    "www.example.org, #ffffff and 20:20:20",
    "==========",
    "x == 1 and y == 1",
    "\\frac{1}{2}\\frac{1}{2}\\frac{1}{2}",
    "2*2*2*2*2*2=64",
    "x, {}, {}, {}, {}",
    "`\\underbrace`, `\\sqrt` and a\\text a",
]
ONLY_ON_NO_PAGE = {"768768768"}


@pytest.mark.parametrize("line", NO_COPY)
def test_what_is_not_a_copy(line: str) -> None:
    assert find_copies(line, page=False) == []
    if line not in ONLY_ON_NO_PAGE:
        assert find_copies(line, page=True) == []


def right_texts() -> list[str]:
    texts = []
    for article in ARTICLES.values():
        for lang in LANGUAGES:
            texts += [article.written(lang, notation, mended=True) for notation in NOTATIONS]
    for pattern in ("README*.md", "docs/numbers*.md", "docs/decisions/*.md"):
        texts += [path.read_text(encoding="utf-8") for path in sorted(ROOT.glob(pattern))]
    return texts


def test_nothing_is_cut_in_right_texts() -> None:
    texts = right_texts()
    assert len(texts) > 40
    for text in texts:
        assert not is_copied_page(text)
        for line in text.splitlines():
            assert find_copies(line, page=False) == []
            assert find_copies(line, page=True) == []


@pytest.mark.skipif(not PUBLISHED.exists(), reason="the published articles are not there")
def test_published_articles() -> None:
    copies: dict[str, list[Copy]] = {}
    for path in sorted(PUBLISHED.glob("0*.txt")):
        text = path.read_text(encoding="utf-8")
        page = is_copied_page(text)
        copies[path.name[:3]] = [
            copy for line in text.splitlines() for copy in find_copies(line, page)
        ]
    assert {name: len(found) for name, found in copies.items()} == {
        "000": 0, "001": 0, "002": 0, "003": 22, "004": 0,
    }  # fmt: skip
    assert [copy.plain for copy in copies["003"]][-3:] == [
        "23,844,608",
        "H \\times H = 768 \\times 768 = 589,824",
        "84,983,520 + 23,844,608 + 589,824 = 109,418,952",
    ]


# Random formulas, with a renderer of our own


class Drawn(NamedTuple):
    """A formula in LaTeX, and its text in MathML and in HTML."""

    source: str
    hidden: str
    visible: str


LETTERS = st.sampled_from("HLAVPNdh").map(lambda letter: Drawn(letter, letter, letter))
NUMBERS = st.integers(2, 10**6).map(lambda number: Drawn(f"{number:,}", *[f"{number:,}"] * 2))
WORDS = st.sampled_from(["每层参数量", "FFN size", "heads", "参数"]).map(
    lambda word: Drawn(f"\\text{{{word}}}", *[word.replace(" ", "\u00a0")] * 2)
)
SIGNS = {"\\times": "×", "+": "+", "=": "=", "\\cdot": "⋅", "-": "−", "\\approx": "≈", "/": "/"}


def joined(parts: list[Drawn], signs: list[str]) -> Drawn:
    """Put signs between formulas; HTML and MathML show them alike."""
    formula = parts[0]
    for sign, part in zip(signs, parts[1:], strict=False):
        formula = Drawn(
            f"{formula.source} {sign} {part.source}",
            formula.hidden + SIGNS[sign] + part.hidden,
            formula.visible + SIGNS[sign] + part.visible,
        )
    return formula


def fraction(upper: Drawn, lower: Drawn) -> Drawn:
    """MathML has the upper part first; HTML the lower one, and a sign without width behind."""
    return Drawn(
        f"\\frac{{{upper.source}}}{{{lower.source}}}",
        upper.hidden + lower.hidden,
        f"{lower.visible}{upper.visible}\u200b",
    )


def with_scripts(base: Drawn, below: str, above: str) -> Drawn:
    """Both show the lower script first, whichever is written first."""
    return Drawn(f"{base.source}^{{{above}}}_{below}", *[f"{base.hidden}{below}{above}"] * 2)


def in_brackets(inner: Drawn) -> Drawn:
    return Drawn(f"\\left({inner.source}\\right)", f"({inner.hidden})", f"({inner.visible})")


def compound(inner: st.SearchStrategy[Drawn]) -> st.SearchStrategy[Drawn]:
    return st.one_of(
        st.builds(fraction, inner, inner),
        st.builds(in_brackets, inner),
        st.builds(
            joined,
            st.lists(inner, min_size=2, max_size=4),
            st.lists(st.sampled_from(sorted(SIGNS)), min_size=3, max_size=3),
        ),
    )


ATOMS = st.one_of(
    LETTERS,
    NUMBERS,
    WORDS,
    st.builds(with_scripts, LETTERS, st.sampled_from("ijk"), st.sampled_from(["2", "12", "T"])),
)
FORMULAS = st.recursive(ATOMS, compound, max_leaves=8).filter(
    lambda formula: re.search(r"\\[a-z]", formula.source) and len(formula.source) < 300
)


@given(FORMULAS, st.sampled_from(AROUND))
def test_random_formulas_are_found(formula: Drawn, around: tuple[str, str]) -> None:
    before, behind = around
    copied = formula.hidden + formula.source + formula.visible
    line = before + copied + behind
    assert whole_copies(line, page=False) == [(copied, formula.source)]


@given(st.text("H2×^_{}\\times,.$=| 长", max_size=200), st.booleans())
def test_copies_are_stretches_in_order(line: str, page: bool) -> None:
    column = 0
    for copy in find_copies(line, page):
        assert column <= copy.start <= copy.source_start < copy.source_end <= copy.end <= len(line)
        column = copy.end


# Long lines

LONG = {
    "the same letter": "a" * 20_000,
    "equations": "a=b " * 5_000,
    "exponents": "^" * 20_000,
    "braces": "{" * 20_000,
    "commands": "H\\times " * 2_500,
    "fractions": "\\frac{1}{" * 2_200,
    "powers of powers": "2^2" * 7_000,
    "copies": "4×H24 \\times H^2 4×H2，" * 900,
    "primes": "'" * 20_000,
    "texts": "\\text{" * 3_000,
    "products": "H×H" * 7_000,
    "words": "中文" * 10_000,
}


@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize("page", [False, True])
def test_a_long_line_takes_bounded_time(name: str, page: bool) -> None:
    copies = find_copies(LONG[name], page)
    if name == "copies":
        assert len(copies) == 900


@pytest.mark.parametrize("hostile", ["\\text{" * 60, "a=" * 200])
def test_all_lines_together_are_bounded(hostile: str) -> None:
    allowance, copied = Allowance(1_000), "4×H24 \\times H^2 4×H2"
    assert len(find_copies(copied, True, allowance)) == 1
    assert [find_copies(hostile, True, allowance) for _ in range(99)] == [[]] * 99
    assert find_copies(copied, True, allowance) == []


def test_a_line_that_is_too_long_is_not_searched() -> None:
    line = "4×H24 \\times H^2 4×H2" + " " * 20_000
    assert find_copies(line, page=True) == []
    assert not is_copied_page(line)
