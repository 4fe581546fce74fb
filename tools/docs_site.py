"""Builds the documentation's site, in English and Chinese, from docs/site.toml.

    python tools/docs_site.py -o FOLDER

Zensical writes the pages and checks their links; it takes one language for each site, so there are
two, and each page of the Chinese one that has no translation is the English page. The build fails
if a page is in no section, if a translation is missing, or if a link leads nowhere. Links to files
of the repository that are no pages lead to the repository. It needs the extra ``docs``.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbformat
from nbconvert import MarkdownExporter

import weighbridge as wb

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]
LANGUAGES = {"en": "English", "zh-CN": "中文"}
IN_ZENSICAL = {"en": "en", "zh-CN": "zh"}
SUFFIXES = (".md", ".ipynb")
HOME = "/README"
LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)\s#]+)(#[^)\s]*)?(?=\))")
CODE = re.compile(r"(```.*?```|`[^`\n]*`)", re.DOTALL)
COG = re.compile(r"<!-- \[\[\[(?:cog.*?\]\]\]|end\]\]\]) -->\n?", re.DOTALL)
COLOUR = re.compile(r"\x1b\[[\d;]*m")
OTHER_LANGUAGE = re.compile(r"\[(?:English|中文)\]\([^)]*\)(?: · )?")


@dataclass(frozen=True)
class Page:
    """A page: its source in English, its source in Chinese if it has one, its name in the site."""

    english: Path
    chinese: Path | None
    name: str

    def source(self, language: str) -> Path:
        """Return the file that a site in a language shows."""
        return self.chinese if language != "en" and self.chinese else self.english

    @property
    def file(self) -> str:
        """The Markdown file of the page in the site's sources."""
        return f"{self.name}.md"


class BrokenSiteError(Exception):
    """What keeps the site from being built."""


class Site:
    """The sections and pages of docs/site.toml, checked against the files that are there."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.docs = root / "docs"
        described = (self.docs / "site.toml").read_text(encoding="utf-8")
        self.described: dict[str, Any] = tomllib.loads(described)
        self.sections = [
            (section["title"], list(self._pages(section))) for section in self.described["section"]
        ]
        self.pages = [page for _, pages in self.sections for page in pages]
        self.explored = [f"explore/{name}.html" for name in self.described["explore"]]
        self._names = {source: page for page in self.pages for source in _sources(page)}
        self._all_are_in_a_section()

    def _pages(self, section: dict[str, Any]) -> Iterator[Page]:
        for name in section.get("pages", ()):
            chinese = self._file(f"{name}.zh-CN")
            if chinese is None:
                raise BrokenSiteError(f"docs/site.toml: {name} has no translation beside it")
            yield self._page(name, chinese)
        for pattern in section.get("english", ()):
            for name in self._matching(pattern):
                if self._file(f"{name}.zh-CN"):
                    raise BrokenSiteError(
                        f"docs/site.toml: {name} has a translation: list it under pages"
                    )
                yield self._page(name, None)

    def _page(self, name: str, chinese: Path | None) -> Page:
        english = self._file(name)
        if english is None:
            raise BrokenSiteError(f"docs/site.toml: there is no page {name}")
        inner = "index" if name == HOME else name.removeprefix("/").lower().replace("_", "-")
        return Page(english, chinese, re.sub(r"/readme$", "/index", inner))

    def _matching(self, pattern: str) -> list[str]:
        if "*" not in pattern:
            return [pattern]
        files = sorted(self.docs.glob(f"{pattern}.md"), key=lambda path: path.name != "README.md")
        return [str(path.relative_to(self.docs).with_suffix("")) for path in files]

    def _file(self, name: str) -> Path | None:
        stem = self.root / name[1:] if name.startswith("/") else self.docs / name
        files = (stem.with_name(stem.name + suffix) for suffix in SUFFIXES)
        return next((file for file in files if file.exists()), None)

    def _all_are_in_a_section(self) -> None:
        for suffix in SUFFIXES:
            for path in self.docs.rglob(f"*{suffix}"):
                if path not in self._names:
                    raise BrokenSiteError(
                        f"docs/site.toml: {path.relative_to(self.docs)} is in no section"
                    )

    def write(self, language: str, folder: Path, repository: str) -> None:
        """Write the sources of the site in a language, and its configuration."""
        for page in self.pages:
            file = folder / "docs" / page.file
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(self._text(page, language, repository), encoding="utf-8")
        for path in (*self.docs.glob("*.svg"), *self.docs.glob("*.json")):
            shutil.copy(path, folder / "docs")
        configured = self._configuration(language, repository)
        (folder / "mkdocs.yml").write_text(json.dumps(configured), encoding="utf-8")  # JSON is YAML

    def _text(self, page: Page, language: str, repository: str) -> str:
        source = page.source(language)
        text = OTHER_LANGUAGE.sub("", COG.sub("", _markdown(source)), count=1)
        parts = CODE.split(text)
        for place in range(0, len(parts), 2):  # between code
            parts[place] = LINK.sub(
                lambda link: self._link(page, source, link[1], repository) + (link[2] or ""),
                parts[place],
            )
        return "".join(parts)

    def _link(self, page: Page, source: Path, link: str, repository: str) -> str:
        """Return where a link of a page's source leads in the site."""
        if link in self.explored:
            return link
        target = (source.parent / link).resolve()
        if (target / "README.md").is_file():
            target /= "README.md"
        up = "../" * page.name.count("/")
        if target in self._names:
            return up + self._names[target].file
        if target.suffix in (".svg", ".json") and target.parent == self.docs:
            return up + target.name
        if not target.exists():
            raise BrokenSiteError(f"{source.relative_to(self.root)}: there is no {link}")
        return f"{repository}/blob/main/{target.relative_to(self.root)}"

    def _configuration(self, language: str, repository: str) -> dict[str, Any]:
        titles = [(titles[language], pages) for titles, pages in self.sections]
        top = "./" if language == "en" else "../"
        links = {tag: top if tag == "en" else f"{top}{tag}/" for tag in LANGUAGES}
        return {
            "site_name": self.described["name"],
            "repo_url": repository,
            "nav": [{title: [page.file for page in pages]} for title, pages in titles],
            "theme": {
                "language": IN_ZENSICAL[language],
                "features": ["navigation.sections", "navigation.top", "content.code.copy"],
                "font": False,  # no request to others
                "palette": [
                    {"scheme": "default", "media": "(prefers-color-scheme: light)"},
                    {"scheme": "slate", "media": "(prefers-color-scheme: dark)"},
                ],
            },
            "extra": {
                "alternate": [
                    {"name": name, "link": links[tag], "lang": tag}
                    for tag, name in LANGUAGES.items()
                ]
            },
            "markdown_extensions": ["tables", "attr_list", "pymdownx.superfences"],
        }

    def explore(self, language: str, folder: Path) -> None:
        """Write the explorer's pages in a language."""
        for name, models in self.described["explore"].items():
            page = folder / f"{name}.html"
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text(wb.explore(*models).html_page(language), encoding="utf-8")


def _sources(page: Page) -> Iterator[Path]:
    yield page.english
    if page.chinese:
        yield page.chinese


def _markdown(source: Path) -> str:
    if source.suffix != ".ipynb":
        return source.read_text(encoding="utf-8")
    text, _ = MarkdownExporter().from_notebook_node(nbformat.read(source, as_version=4))
    return str(text)


def build(root: Path, output: Path) -> None:
    """Build the sites of all languages: English at the top, others below their tags."""
    site = Site(root)
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    with tempfile.TemporaryDirectory() as scratch:
        for language in LANGUAGES:
            folder = Path(scratch) / language
            site.write(language, folder, project["urls"]["Source"])
            site.explore(IN_ZENSICAL[language], folder / "docs" / "explore")
            command = [sys.executable, "-m", "zensical", "build", "--strict"]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
            if done.returncode:
                said = (done.stdout + done.stderr).partition("Traceback")[0]
                raise BrokenSiteError(COLOUR.sub("", said))
            place = output if language == "en" else output / language
            shutil.copytree(folder / "site", place, dirs_exist_ok=True)


def main() -> None:
    """Build the site."""
    shown = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=shown)
    parser.add_argument("-o", "--output", type=Path, required=True)
    arguments = parser.parse_args()
    try:
        build(ROOT, arguments.output)
    except BrokenSiteError as broken:
        sys.exit(str(broken))
    print(f"{arguments.output}: the documentation's site, in {len(LANGUAGES)} languages")


if __name__ == "__main__":
    main()
