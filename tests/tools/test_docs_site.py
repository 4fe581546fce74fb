"""The documentation's site: each page is in it, in both languages, and no link leads nowhere."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import docs_site
import pytest

ROOT = Path(__file__).parents[2]
DESCRIBED = """
name = "example"
[explore]
bert = ["bert"]
[[section]]
title = { en = "Start", zh-CN = "入门" }
pages = ["/README", "one"]
english = ["more/*"]
"""
PAGES = {
    "README.md": "# Home\n\n[中文](README.zh-CN.md) · [one](docs/one.md) [code](code.py)\n",
    "README.zh-CN.md": "# 首页\n\n[一](docs/one.zh-CN.md)\n",
    "docs/one.md": "# One\n\n`[not](a-link)` [map](explore/bert.html) [a list](more/)\n",
    "docs/one.zh-CN.md": "# 一\n\n[深入](more/deep.md#deeper)\n",
    "docs/more/README.md": "# More\n\n[deep](deep.md)\n",
    "docs/more/deep.md": "# Deep\n\n## Deeper\n\n[up](../../README.md)\n",
    "code.py": "",
    "docs/site.toml": DESCRIBED,
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project with a few pages."""
    for name, text in PAGES.items():
        file = tmp_path / "project" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    shutil.copy(ROOT / "pyproject.toml", tmp_path / "project")
    return tmp_path / "project"


def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def test_the_site_is_built_in_both_languages(root: Path, tmp_path: Path) -> None:
    built = tmp_path / "site"
    docs_site.build(root, built)
    home, translated = text(built / "index.html"), text(built / "zh-CN" / "index.html")
    assert 'lang="en"' in home
    assert 'lang="zh"' in translated
    assert "首页" in translated
    assert "入门" in translated
    assert 'href="one/"' in home
    assert "/blob/main/code.py" in home  # no page: it is in the repository
    assert "README.zh-CN" not in home  # the page's own switch of languages does this
    assert "Deep" in text(built / "zh-CN" / "more" / "deep" / "index.html")  # not translated
    assert "[not](a-link)" in text(built / "one" / "index.html")
    assert "<svg" in text(built / "explore" / "bert.html")


def test_pages_ask_nothing_of_other_sites(root: Path, tmp_path: Path) -> None:
    docs_site.build(root, tmp_path / "site")
    for page in (tmp_path / "site").rglob("*.html"):
        assert not re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="(?:https?:)?//', text(page))


@pytest.mark.parametrize(
    ("file", "was", "becomes", "says"),
    [
        ("docs/one.zh-CN.md", "deep.md#", "gone.md#", "there is no more/gone.md"),
        ("docs/site.toml", '"one"', '"two"', "two has no translation"),
        ("docs/site.toml", 'english = ["more/*"]', "", "in no section"),
        ("docs/site.toml", '["more/*"]', '["more/*", "one"]', "one has a translation"),
        (
            "docs/one.zh-CN.md",
            "#deeper",
            "#deepest",
            "anchor does not exist",
        ),  # Zensical's own check
    ],
)
def test_what_is_missing_fails(
    root: Path, tmp_path: Path, file: str, was: str, becomes: str, says: str
) -> None:
    (root / file).write_text(text(root / file).replace(was, becomes), encoding="utf-8")
    with pytest.raises(docs_site.BrokenSiteError, match=says):
        docs_site.build(root, tmp_path / "site")


def test_every_page_of_the_project_is_in_its_site(tmp_path: Path) -> None:
    site = docs_site.Site(ROOT)
    for language in docs_site.LANGUAGES:
        site.write(language, tmp_path / language, "https://example.org")
    assert (tmp_path / "zh-CN" / "docs" / "how-it-knows.md").exists()
