"""Answers the requests of the site's page, inside the browser: one JSON text in, one out.

The page calls `answer` in a worker, where Pyodide runs this package. A request names what it wants
under ``do``; nothing here knows of JavaScript, so that all of it can be tested without a browser.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sys
from typing import TYPE_CHECKING, Any

from weighbridge.cli import main
from weighbridge.cli.output import write_answer
from weighbridge.errors import WeighbridgeError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Sequence

    from weighbridge.answers.answer import Answer

    Request = dict[str, Any]

NEED_TORCH = ("run", "trace", "attention", "measure", "finetune", "derive")
"""Commands that run a model."""
ELSEWHERE = ("explore", "site", "completion")
"""Commands that write files or scripts for a computer; the page itself is the explorer."""
_NOT_HERE = {
    "en": "{what} does not run in a browser: it needs {need}. Run it on your computer: {how}",
    "zh": "{what} 无法在浏览器中运行：它需要 {need}。请在自己的电脑上运行：{how}",
}
_INSTALL = "pip install 'weighbridge[torch]'"
_ARTICLES = (".md", ".markdown", ".txt", ".text", ".html", ".htm", ".tex")
_INDEX = ".index.json"
_SHARD = re.compile(r"-\d{5}-of-\d{5}(?=\.)")
_STYLE = re.compile(r'<style>.*?</style>| style="[^"<>]*"', re.DOTALL)
"""What the page's policy forbids; it has a style sheet of its own."""
_LONGEST_DISPLAY = 2_000_000  # characters of HTML; more would freeze the page


def answer(request: str) -> str:
    """Return the answer to one request of the page.

    A ``command`` gives ``status``, ``out`` and ``err``, as a program has them, and ``html``, the
    answer laid out for a page. A request that fails in an unforeseen way gives ``failed``.

    Example:
        >>> request = {"do": "command", "line": ["weigh", "bert-base-chinese", "--json"]}
        >>> json.loads(json.loads(answer(json.dumps(request)))["out"])["parameters"]
        102267648
    """
    wanted = json.loads(request)
    try:
        given = _ANSWERS[wanted["do"]](wanted)
    except WeighbridgeError as error:
        given = {"status": 2, "out": "", "err": f"weighbridge: {error}\n", "html": ""}
    except Exception as error:  # the page says so, and goes on
        given = {"failed": f"{type(error).__name__}: {error}"[:_LONGEST_REASON]}
    return json.dumps(given, ensure_ascii=False)


_LONGEST_REASON = 500


# Commands


def _command(wanted: Request) -> dict[str, Any]:
    """Run a command line in the folder of the dropped files."""
    line = [str(word) for word in wanted["line"]]
    lang = wanted.get("lang", "en")
    refused = _refusal(line, lang)
    if refused:
        return {"status": 2, "out": "", "err": f"weighbridge: {refused}\n", "html": ""}
    if lang != "en" and "--lang" not in line:
        line += ["--lang", lang]
    with _inside(wanted.get("folder", "")):
        return _ran(line, wanted.get("text"))


def _refusal(line: Sequence[str], lang: str) -> str:
    """Return why a command cannot run in a browser; "" if it can."""
    name = line[0] if line else ""
    is_via = any(word == "--via" or word.startswith("--via=") for word in line)
    if name in NEED_TORCH or is_via:
        what = "--via" if is_via else name
        return _NOT_HERE[lang].format(what=f"`{what}`", need="PyTorch", how=_INSTALL)
    if name in ELSEWHERE:
        need = {"en": "a disk", "zh": "磁盘"}[lang]
        return _NOT_HERE[lang].format(what=f"`{name}`", need=need, how="pip install weighbridge")
    return ""


def _ran(line: list[str], stdin: str | None) -> dict[str, Any]:
    out, err, html = io.StringIO(), io.StringIO(), ""

    def write(given: Answer, options: argparse.Namespace) -> int:
        nonlocal html
        status = write_answer(given, options)
        html = _laid_out(given, options)
        return status

    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), _stdin(stdin):
        try:
            status = main(line, write)
        except SystemExit as stopped:  # --help
            status = int(stopped.code or 0)
    return {"status": status, "out": out.getvalue(), "err": err.getvalue(), "html": html}


def _laid_out(given: Answer, options: argparse.Namespace) -> str:
    """Return an answer in HTML, if it was asked for as text."""
    if options.form != "text" or getattr(options, "code", "text") != "text":
        return ""
    from weighbridge.render.html import as_page  # noqa: PLC0415  # not for JSON

    choices = {name: getattr(options, name) for name in options.command.choices}
    if getattr(options, "evidence", False):
        choices["evidence"] = True
    page = as_page(given.document(options.lang, **choices))
    html = _STYLE.sub("", page.replace(' style="text-align:right"', ' class="number"'))
    return html if len(html) <= _LONGEST_DISPLAY else ""


@contextlib.contextmanager
def _inside(folder: str) -> Any:
    """Work in a folder, so that messages name files as the user dropped them."""
    before = os.getcwd()
    os.chdir(folder or before)
    try:
        yield
    finally:
        os.chdir(before)


@contextlib.contextmanager
def _stdin(text: str | None) -> Any:
    before = sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO((text or "").encode()), encoding="utf-8")
    try:
        yield
    finally:
        sys.stdin = before


# What the page asks besides


def _searched_names(_: Request) -> dict[str, Any]:
    """Return what the search box looks through: released models, then families."""
    from weighbridge.blueprint.schema import families  # noqa: PLC0415
    from weighbridge.models.catalogue import full_names  # noqa: PLC0415

    return {"models": list(full_names()), "families": families()}


def _explore(wanted: Request) -> dict[str, Any]:
    """Return what the explorer's page holds for a model, as JSON in JSON."""
    from weighbridge.answers.weigh import weigh  # noqa: PLC0415
    from weighbridge.explorer.contract import contract  # noqa: PLC0415
    from weighbridge.explorer.page import contract_json, page_words  # noqa: PLC0415

    with _inside(wanted.get("folder", "")):
        held = [contract(weigh(str(wanted["model"])))]
    page = {"contracts": held, "words": page_words(), "lang": wanted.get("lang", "en")}
    return {"status": 0, "page": contract_json(page)}


def _drop(wanted: Request) -> dict[str, Any]:
    """Return what a drop of files is: a checkpoint, a config or an article, and its main file."""
    return kind_of_drop(wanted["names"])


def kind_of_drop(names: Sequence[str]) -> dict[str, Any]:
    """Return what files are together, by their names.

    ``targets`` are the files that a command can be given, the likeliest first; "." means all.

    Example:
        >>> kind_of_drop(["config.json", "model.safetensors"])
        {'kind': 'checkpoint', 'targets': ['model.safetensors'], 'config': 'config.json'}
        >>> kind_of_drop(["page.html"])
        {'kind': 'article', 'targets': ['page.html'], 'config': ''}
    """
    articles = [name for name in names if name.lower().endswith(_ARTICLES)]
    indexes = [name for name in names if name.endswith(_INDEX)]
    configs = [name for name in names if name.endswith(".json") and name not in indexes]
    beside = {*articles, *configs, *indexes}
    weights = [name for name in names if name not in beside]
    config = next((name for name in configs if os.path.basename(name) == "config.json"), "")
    if indexes or weights:
        targets = [*indexes, *_together(weights), *weights]
        return {"kind": "checkpoint", "targets": _unique(targets), "config": config}
    if configs:
        first = config or configs[0]
        return {"kind": "config", "targets": _unique([first, *configs]), "config": first}
    return {"kind": "article", "targets": articles, "config": ""}


def _together(weights: Sequence[str]) -> list[str]:
    """Return "." for several files that may be one checkpoint."""
    if len(weights) < 2:
        return []
    return ["."] if len({_SHARD.sub("", name) for name in weights}) == 1 else []


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _what_text(wanted: Request) -> dict[str, Any]:
    """Return whether a pasted text is a config, which is a JSON object, or an article."""
    text = wanted["text"].strip()
    return {"kind": "config" if text.startswith("{") else "article"}


_ANSWERS: dict[str, Callable[[Request], dict[str, Any]]] = {
    "command": _command,
    "names": _searched_names,
    "explore": _explore,
    "drop": _drop,
    "what": _what_text,
}
