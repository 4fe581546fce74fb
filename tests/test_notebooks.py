"""The notebooks: each contains the output of its cells, and both editions have the same code."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
TOOL = ROOT / "tools" / "notebook.py"
ENGLISH, CHINESE = ROOT / "docs" / "tutorial.ipynb", ROOT / "docs" / "tutorial.zh-CN.ipynb"
NOTEBOOKS = (ENGLISH, CHINESE)
LANGUAGE = 'Answer.lang = "{}"'
"""The only line of code that differs between the editions."""


def cells(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))["cells"]
    return found


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the tool if the packages that it needs are installed."""
    for package in ("IPython", "numpy", "pandas"):
        pytest.importorskip(package)
    words = [sys.executable, str(TOOL), *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.slow
def test_each_cell_gives_the_output_in_the_notebook() -> None:
    done = run("--check", *NOTEBOOKS)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_both_editions_have_the_same_code() -> None:
    english, chinese = cells(ENGLISH), cells(CHINESE)
    assert [cell["cell_type"] for cell in english] == [cell["cell_type"] for cell in chinese]
    for here, there in zip(english, chinese, strict=True):
        source, other = "".join(here["source"]), "".join(there["source"])
        if here["cell_type"] == "code":
            assert source.replace(LANGUAGE.format("en"), LANGUAGE.format("zh")) == other
        else:
            assert source != other
    assert LANGUAGE.format("zh") in "".join(chinese[1]["source"])


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_every_question_of_the_public_names_is_shown(path: Path) -> None:
    code = "".join("".join(cell["source"]) for cell in cells(path) if cell["cell_type"] == "code")
    for name in ("weigh", "formula", "explain", "verify", "reconcile", "audit"):
        assert f"wb.{name}(" in code
    for cell in cells(path):
        assert all(output["output_type"] != "error" for output in cell.get("outputs", ()))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_weighing_is_shown_with_its_map(path: Path) -> None:
    (shown,) = [
        "".join(output["data"]["text/html"])
        for cell in cells(path)
        if "".join(cell["source"]).endswith("\nbert")
        for output in cell["outputs"]
    ]
    (content,) = re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', shown)
    assert "<title>BertModel: 102,267,648</title>" in b64decode(content).decode()


@pytest.mark.parametrize(
    ("page", "link"),
    [
        ("README.md", "docs/tutorial.ipynb"),
        ("README.zh-CN.md", "docs/tutorial.zh-CN.ipynb"),
        ("docs/all-of-weighbridge.md", "tutorial.ipynb"),
    ],
)
def test_the_pages_link_to_the_notebooks(page: str, link: str) -> None:
    assert f"]({link})" in (ROOT / page).read_text("utf-8")


def test_a_notebook_that_holds_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.ipynb"

    def write(source: str) -> None:
        cell = {"cell_type": "code", "metadata": {}, "source": [source], "outputs": []}
        path.write_text(json.dumps({"cells": [{**cell, "execution_count": None}]}))

    write("print(6)\n6 * 7")
    assert run("--check", path).returncode == 1
    assert run(path).returncode == 0
    stream, result = cells(path)[0]["outputs"]
    assert (stream["text"], result["data"]) == (["6\n"], {"text/plain": ["42"]})
    assert run("--check", path).returncode == 0
    path.write_text(path.read_text().replace("42", "41"))
    assert run("--check", path).returncode == 1
    write("1 / 0")
    done = run(path)
    assert done.returncode != 0
    assert "ZeroDivisionError" in done.stderr
    assert cells(path)[0]["outputs"] == []
