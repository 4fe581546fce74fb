"""The pages: no section repeats itself, links lead somewhere, translations show the same."""

from __future__ import annotations

import re
import runpy
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("bench/*.md")])
TRANSLATED = sorted(ROOT.glob("docs/how-to/*[!N].md"))
LINK = re.compile(r"\]\(([^)\s]+)\)")
SHOWN = re.compile(r"^\$ weighbridge (.*?)(?: --lang zh)?$", re.MULTILINE)
SITE = tomllib.loads((ROOT / "docs" / "site.toml").read_text(encoding="utf-8"))
EXPLORED = {f"explore/{name}.html" for name in SITE["explore"]}  # pages of the site alone
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
