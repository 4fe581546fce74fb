"""The desk answers the page's requests as the command line does, and refuses what needs a disk."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from hostile import HOSTILE

from weighbridge.cli import main
from weighbridge.desk import ELSEWHERE, NEED_TORCH, answer, kind_of_drop

if TYPE_CHECKING:
    from pathlib import Path


def asked(**request: Any) -> dict[str, Any]:
    given: dict[str, Any] = json.loads(answer(json.dumps(request)))
    return given


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize(
    "line",
    [
        "weigh bert-base-chinese",
        "inspect sound.safetensors",
        "inspect nesting.safetensors",
        "verify bert sound.safetensors",
        "weigh nosuchmodel",
        "weigh --wrong",
        "guess sound.safetensors --json",
    ],
)
def test_a_command_says_what_the_command_line_says(
    line: str, lang: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = asked(do="command", line=line.split(), lang=lang, folder=str(HOSTILE))
    monkeypatch.chdir(HOSTILE)
    status = main([*line.split(), "--lang", lang])
    out, err = capsys.readouterr()
    assert (given["status"], given["out"], given["err"]) == (status, out, err)
    assert bool(given["html"]) == (status < 2 and "--json" not in line)


def test_an_answer_is_html_without_styles_and_marks_the_article(tmp_path: Path) -> None:
    article = "BERT with $H = 768$: attention has $4H^2 = 2,359,297$ weights. <script>1</script>"
    (tmp_path / "article.txt").write_text(article)
    given = asked(do="command", line=["audit", "article.txt"], folder=str(tmp_path))
    assert given["status"] == 1
    assert '<mark class="slip"' in given["html"]
    assert "<script>" not in given["html"]
    assert "style" not in given["html"].split("</head>")[1]


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize(
    "line", [*([name] for name in (*NEED_TORCH, *ELSEWHERE)), ["weigh", "bert", "--via=x"]], ids=str
)
def test_what_cannot_run_in_a_browser_says_so(line: list[str], lang: str) -> None:
    given = asked(do="command", line=line, lang=lang)
    assert given["status"] == 2
    assert "pip install" in given["err"]
    assert given["err"].count("\n") == 1


def test_an_unforeseen_error_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> int:
        raise ZeroDivisionError("of a test")

    monkeypatch.setattr("weighbridge.desk.main", broken)
    assert asked(do="command", line=["weigh", "bert"])["failed"] == "ZeroDivisionError: of a test"


def test_the_search_knows_all_models_and_families() -> None:
    names = asked(do="names")
    assert "google-bert/bert-base-chinese" in names["models"]
    assert "llama" in names["families"]


@pytest.mark.parametrize(
    ("names", "kind", "target"),
    [
        (["model.safetensors"], "checkpoint", "model.safetensors"),
        (["config.json", "m.gguf"], "checkpoint", "m.gguf"),
        (["a-00001-of-00002.bin", "a-00002-of-00002.bin"], "checkpoint", "."),
        (["a-00001-of-00002.bin", "a.bin.index.json"], "checkpoint", "a.bin.index.json"),
        (["a.bin", "b.bin"], "checkpoint", "a.bin"),
        (["tokenizer.json", "config.json"], "config", "config.json"),
        (["notes.md", "page.html"], "article", "notes.md"),
        (["thing"], "checkpoint", "thing"),
    ],
)
def test_what_a_drop_is(names: list[str], kind: str, target: str) -> None:
    found = kind_of_drop(names)
    assert (found["kind"], found["targets"][0]) == (kind, target)


def test_the_archive_of_the_browser_answers_alone(tmp_path: Path) -> None:
    from weighbridge.site.archive import NOT_IN_BROWSERS, package_zip

    archive = tmp_path / "weighbridge.zip"
    archive.write_bytes(package_zip(NOT_IN_BROWSERS, for_site=True))
    code = (
        f"import sys; sys.path.insert(0, {str(archive)!r})\n"
        "from weighbridge.desk import answer\n"
        "for line in sys.argv[1:]:\n"
        "    print(answer(line))\n"
    )
    lines = [
        {"do": "command", "line": ["weigh", "bert-base-chinese"]},
        {"do": "command", "line": ["explain", "llama"], "lang": "zh"},
        {"do": "command", "line": ["guess", str(HOSTILE / "sound.safetensors")]},
        {"do": "command", "line": ["cost", "bert-base-chinese"]},
        {"do": "command", "line": ["models", "chinese"]},
        {"do": "command", "line": ["tree", "bert-base-chinese", "--flow"], "lang": "zh"},
        {"do": "command", "line": ["serve", "llama", "--on", "2xH100", "--context", "8192"]},
    ]
    command = [sys.executable, "-I", "-c", code, *map(json.dumps, lines)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    for line, given in zip(lines, map(json.loads, ran.stdout.splitlines()), strict=True):
        assert given == asked(**line)
        assert "failed" not in given
