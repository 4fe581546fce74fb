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


@pytest.mark.parametrize("family", MODELS)
def test_a_browser_drives_the_page_of_a_model(family: str, tmp_path: Path) -> None:
    hold(str(CHROMIUM), wb.explore(family, class_name=MODELS[family]).save(tmp_path / "page.html"))


def test_a_browser_drives_the_page_of_two_models(tmp_path: Path) -> None:
    both = wb.explore("deepseek-ai/DeepSeek-V3", "meta-llama/Llama-3.1-8B")
    hold(str(CHROMIUM), both.save(tmp_path / "both.html"))


@pytest.mark.skipif(FIREFOX is None, reason="needs Firefox")
@pytest.mark.parametrize("families", [("bert", "roberta"), ("deepseek_v3",), ("llava",)])
def test_firefox_drives_a_page(families: tuple[str, ...], tmp_path: Path) -> None:
    class_name = MODELS[families[0]] if len(families) == 1 else None
    hold(str(FIREFOX), wb.explore(*families, class_name=class_name).save(tmp_path / "page.html"))


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_no_cell_moves_far_for_a_step_of_a_dial(family: str, tmp_path: Path) -> None:
    page = wb.explore(family).save(tmp_path / "page.html")
    command = ["node", str(WEB / "tests" / "dials.mjs"), str(CHROMIUM), str(page)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    steps = [(row["dial"], row["moved"]) for row in json.loads(done.stdout)]
    assert len(steps) > 40
    assert [step for step in steps if step[1] > FARTHEST] == []


def hold(browser: str, page: Path) -> None:
    """Drive a page in a browser; fail with what is wrong with it."""
    command = ["node", str(WEB / "tests" / "explore.mjs"), browser, str(page)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)
    assert found["problems"] == [], done.stdout + done.stderr
    config = json.loads(found["config"])
    assert f"{wb.weigh(config, config['architectures'][0]).parameters:,}" == found["total"]
    assert done.returncode == 0, done.stderr
