"""Pages of the explorer in a real browser: dials, links, saving, accessibility, no request."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

import weighbridge as wb

WEB = Path(__file__).parents[2] / "web"
MODELS = {
    "bert": None,
    "llama": "LlamaForCausalLM",
    "mixtral": "MixtralForCausalLM",
    "deepseek_v3": "DeepseekV3ForCausalLM",
    "qwen3_next": None,
    "t5": "T5ForConditionalGeneration",
    "vit": "ViTForImageClassification",
    "llava": "LlavaForConditionalGeneration",
}
"""Families with the class that runs: what has operations, and what has none."""
FARTHEST = 10  # px
FIREFOX = shutil.which("firefox-esr") or shutil.which("firefox")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        CHROMIUM is None
        or shutil.which("node") is None
        or not (WEB / "node_modules/playwright-core").is_dir(),
        reason="needs Chromium, node, and `npm ci` in web/",
    ),
]


def test_a_browser_drives_every_page(tmp_path: Path) -> None:
    pages = [
        wb.explore(family, class_name=class_name).save(tmp_path / f"{family}.html")
        for family, class_name in MODELS.items()
    ]
    both = wb.explore("deepseek-ai/DeepSeek-V3", "meta-llama/Llama-3.1-8B")
    pages.append(both.save(tmp_path / "both.html"))
    hold_all(str(CHROMIUM), pages)


@pytest.mark.skipif(FIREFOX is None, reason="needs Firefox")
def test_firefox_drives_pages(tmp_path: Path) -> None:
    pages = [wb.explore("bert", "roberta").save(tmp_path / "both.html")]
    pages += [
        wb.explore(family, class_name=MODELS[family]).save(tmp_path / f"{family}.html")
        for family in ("deepseek_v3", "llava")
    ]
    hold_all(str(FIREFOX), pages)


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_no_cell_moves_far_for_a_step_of_a_dial(family: str, tmp_path: Path) -> None:
    page = wb.explore(family).save(tmp_path / "page.html")
    command = ["node", str(WEB / "tests" / "dials.mjs"), str(CHROMIUM), str(page)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    steps = [(row["dial"], row["moved"]) for row in json.loads(done.stdout)]
    assert len(steps) > 40
    assert [step for step in steps if step[1] > FARTHEST] == []


def hold_all(browser: str, pages: list[Path]) -> None:
    """Drive pages in a browser; fail with what is wrong with them."""
    command = ["node", str(WEB / "tests" / "explore.mjs"), browser, *map(str, pages)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    for page in found:
        config = json.loads(page["config"])
        assert f"{wb.weigh(config, config['architectures'][0]).parameters:,}" == page["total"]
    assert [page["problems"] for page in found] == [[] for _ in pages], done.stdout + done.stderr
    assert done.returncode == 0, done.stderr
