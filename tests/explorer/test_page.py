"""The page that `explore` writes: what is in it without its script, and what it may do."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from typing import TYPE_CHECKING

import mathfont
import pytest

import weighbridge as wb
from weighbridge.blueprint.schema import families, load
from weighbridge.ledger.symbols import letters_of

if TYPE_CHECKING:
    from pathlib import Path

LARGEST = 100_000  # bytes of a page


@pytest.fixture(scope="module")
def page() -> str:
    return wb.explore("bert-base-chinese").html_page()


def test_the_page_may_run_its_own_script_and_ask_for_nothing(page: str) -> None:
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]+)"', page)
    unpack = page.rpartition("<script>")[2].partition("</script>")[0]
    (packed,) = re.findall(r'id="packed">([^<]+)<', page)
    allowed = re.findall(r"sha256-([^&]+)&", policy)
    scripts = (unpack, zlib.decompress(base64.b64decode(packed)).decode())
    assert allowed == [
        base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts
    ]
    assert "explorer" in scripts[1]
    assert "default-src &#x27;none&#x27;" in policy
    assert "eval" not in policy
    assert not re.search(r'(src|href)="?(https?:)?//', page)


def test_the_page_is_complete_without_its_script(page: str) -> None:
    shown = page.partition("<script")[0]
    assert "102,267,648" in shown
    assert "<svg" in shown
    assert "V·H + P·H + T·H + 3H" in shown


def test_names_from_a_file_are_text(tmp_path: Path) -> None:
    path = tmp_path / '"><img src=x onerror=alert(1)>.json'
    path.write_text(json.dumps({"model_type": "bert"}))
    page = wb.explore(path).html_page()
    assert "<img" not in page


@pytest.mark.parametrize("family", ["bert", "llama", "deepseek_v3", "qwen3_next", "t5", "llava"])
def test_a_page_is_small(family: str) -> None:
    assert len(wb.explore(family).html_page().encode()) < LARGEST


def test_what_a_page_holds_is_the_contract(page: str) -> None:
    (packed,) = re.findall(r'id="contract">([^<]+)<', page)
    held = json.loads(zlib.decompress(base64.b64decode(packed)))
    assert held["contracts"] == wb.explore("bert-base-chinese").to_dict()["contracts"]
    assert held["lang"] == "en"


def test_two_models_and_a_language(tmp_path: Path) -> None:
    made = wb.explore("bert", "roberta")
    path = made.save(tmp_path / "both.html", "zh")
    text = path.read_text(encoding="utf-8")
    assert 'lang="zh' in text
    assert len(made.to_dict()["contracts"]) == 2


def test_a_page_is_html(tmp_path: Path) -> None:
    with pytest.raises(wb.WeighbridgeError, match=r"ends in \.html"):
        wb.explore("bert").save(tmp_path / "bert.pdf")


def test_the_math_font_has_every_letter_of_a_size() -> None:
    letters = {letter for family in families() for letter in letters_of(load(family)).values()}
    had = mathfont.characters()
    for letter in letters:
        base, *indices = letter.split("_")
        italic = (
            ord(base) - ord("A") + 0x1D434 if base.isupper() else ord(base) - ord("a") + 0x1D44E
        )
        assert italic in had, letter
        assert {ord(character) for index in indices for character in index} <= had, letter
