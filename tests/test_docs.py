"""The pages: no section repeats itself, links lead somewhere, translations show the same."""

from __future__ import annotations

import re
import runpy
import tomllib
from collections import Counter
from itertools import zip_longest
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("bench/*.md")])
TRANSLATED = sorted(ROOT.glob("docs/how-to/*[!N].md"))
LINK = re.compile(r"\]\(([^)\s]+)\)")
SHOWN = re.compile(r"^\$ weighbridge (.*?)(?: --lang zh)?$", re.MULTILINE)
SITE = tomllib.loads((ROOT / "docs" / "site.toml").read_text(encoding="utf-8"))
EXPLORED = {f"explore/{name}.html" for name in SITE["explore"]}  # pages of the site alone
PAIRS = [
    (page, page.with_suffix(".zh-CN.md"))
    for section in SITE["section"]
    for page in (ROOT / "docs" / f"{name}.md" for name in section.get("pages", ()))
    if page.exists()
]
GENERATED = re.compile(r"<!-- \[\[\[cog\n(.*?)\]\]\] -->\n(.*?)<!-- \[\[\[end\]\]\] -->", re.DOTALL)
FIGURE = re.compile(r"(?<![A-Za-z0-9_.-])\d(?:[\d,.]*\d)?")  # not those in a name, such as H100
WORDS_IN_COMMON = 8  # a run of this many words that a section repeats is a mistake of a merge


def paragraphs(page: str) -> list[str]:
    """Return the prose of a section: no tables, and nothing that is indented."""
    lines = [line for line in page.splitlines() if not line.startswith(("|", "    "))]
    return [block for block in re.split(r"\n\s*\n", "\n".join(lines)) if block.strip()]


def repeated(section: str) -> set[str]:
    """Return the runs of words that occur more than once in a section's prose."""
    seen, twice = set[str](), set[str]()
    for paragraph in paragraphs(section):
        words = re.findall(r"[\w`'-]+", paragraph)
        for start in range(len(words) - WORDS_IN_COMMON + 1):
            run = " ".join(words[start : start + WORDS_IN_COMMON])
            (twice if run in seen else seen).add(run)
    return twice


def sections(page: str) -> list[str]:
    """Return the sections of a page, without code and comments."""
    prose = re.sub(r"```.*?```|<!--.*?-->", "\n\n", page, flags=re.DOTALL)
    return re.split(r"^#+ ", prose, flags=re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_section_says_the_same_words_twice(page: Path) -> None:
    for section in sections(page.read_text(encoding="utf-8")):
        assert not repeated(section), section.partition("\n")[0]


def test_a_merge_that_leaves_both_versions_is_seen() -> None:
    slip = (
        "The exit status is 0 when done, 1 when the answer is no (`verify` found a\n"
        "difference, `audit` a slip), 2 when it could not be answered.\n"
        "difference, `audit` a slip), 2 when it could not be answered at all.\n"
    )
    assert repeated(slip)


def test_the_table_of_rooms_has_the_order_that_is_checked() -> None:
    rooms = runpy.run_path(str(ROOT / "tools" / "rooms.py"))
    page = (ROOT / "docs" / "all-of-weighbridge.md").read_text(encoding="utf-8")
    assert rooms["table"]() in page
    folders = {path.name for path in (ROOT / "src/weighbridge").iterdir() if path.is_dir()}
    listed = {room for layer in rooms["layers"]() for room in layer}
    assert folders - {"__pycache__"} <= listed


def leads_nowhere(page: Path) -> list[str]:
    """Return the relative links of a page that lead to no file."""
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    paths = [link.partition("#")[0] for link in LINK.findall(prose) if "://" not in link]
    written = [path for path in paths if path and path not in EXPLORED]
    return [path for path in written if not (page.parent / path).exists()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page: Path) -> None:
    assert not leads_nowhere(page)


def test_a_link_to_nothing_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("[a page](nothing.md#here), [itself](page.md), [code](`x`), `[x](y)`\n")
    assert leads_nowhere(page) == ["nothing.md"]


@pytest.mark.parametrize("page", TRANSLATED, ids=lambda page: page.stem)
def test_a_how_to_page_and_its_translation_show_the_same_commands(page: Path) -> None:
    translation = page.with_suffix(".zh-CN.md").read_text(encoding="utf-8")
    shown = SHOWN.findall(page.read_text(encoding="utf-8"))
    assert shown
    assert SHOWN.findall(translation) == shown


def untranslated_figures(page: str, translation: str) -> list[tuple[str, set[str]]]:
    """Return the headings of sections that have other figures in their translations."""
    both = (sections(GENERATED.sub("", text)) for text in (page, translation))
    found = []
    for section, translated in zip_longest(*both, fillvalue=""):
        of_one = set(FIGURE.findall(section)) ^ set(FIGURE.findall(translated))
        if of_one:
            found.append((section.partition("\n")[0], of_one))
    return found


def generated(page: str) -> list[Counter[str]]:
    """Return the figures of each table that a page gets from a tool of ours."""
    return [
        Counter(FIGURE.findall(text))
        for code, text in GENERATED.findall(page)
        if "shown(" not in code  # the output of a command, which may be cut
    ]


every_pair = pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair[0].stem)


@every_pair
def test_a_translation_has_the_same_figures(pair: tuple[Path, Path]) -> None:
    page, translation = (path.read_text(encoding="utf-8") for path in pair)
    assert not untranslated_figures(page, translation)
    assert generated(page) == generated(translation)


def test_a_figure_that_differs_in_a_translation_is_seen() -> None:
    page, translation = "# One\n\n2 of 1,024 on H100\n", "# 一\n\nH100 上 1,024 个中的 3 个\n"
    assert untranslated_figures(page, translation) == [("One", {"2", "3"})]
    block = "<!-- [[[cog\ntable()\n]]] -->\n| 1.5 | {} |\n<!-- [[[end]]] -->\n"
    assert generated(block.format(2)) != generated(block.format(3))
    assert not untranslated_figures(block.format(2), block.format(3))


def english_links(page: Path) -> list[str]:
    """Return the links of a Chinese page to English pages that have a translation."""
    text = page.read_text(encoding="utf-8").replace("[English](", "", 1)
    paths = {link.partition("#")[0] for link in LINK.findall(text) if "://" not in link}
    english = {path for path, _ in PAIRS}
    return sorted(path for path in paths if (page.parent / path).resolve() in english)


@pytest.mark.parametrize("page", [ROOT / "README.zh-CN.md", *(chinese for _, chinese in PAIRS)])
def test_a_chinese_page_leads_to_chinese_pages(page: Path) -> None:
    assert not english_links(page)


def test_a_link_of_a_chinese_page_to_an_english_one_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.zh-CN.md"
    english = PAIRS[0][0]
    page.write_text(f"[English](page.md) [x]({english}#y) [z]({PAIRS[0][1]})\n", encoding="utf-8")
    assert english_links(page) == [str(english)]
