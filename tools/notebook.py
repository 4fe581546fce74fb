"""Runs notebooks, and writes into them what their cells give; or checks that they hold just that.

    python tools/notebook.py docs/tutorial.ipynb docs/tutorial.zh-CN.ipynb
    python tools/notebook.py --check docs/tutorial.ipynb

Cells run in IPython, as in Jupyter, in an empty folder. A cell that fails ends the program.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from IPython.core.displayhook import DisplayHook
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

SHOWN = ("text/html", "text/plain")
"""The forms of a result that a notebook keeps."""


class Kept(DisplayHook):
    """Keeps the result of a cell, where IPython would print it."""

    def __call__(self, result: object = None) -> None:
        """Take the value of a cell's last expression."""
        self.fill_exec_result(result)


class Shell(InteractiveShell):
    """An IPython that writes no files."""

    def __init__(self, folder: str) -> None:
        config = Config({"HistoryManager": {"enabled": False}})
        super().__init__(ipython_dir=folder, displayhook_class=Kept, config=config)


def outputs_of(source: str, number: int, shell: Shell) -> list[dict[str, Any]]:
    """Run a cell, and return what Jupyter would write below it."""
    with capture_output() as captured:
        done = shell.run_cell(source)
    done.raise_error()
    outputs: list[dict[str, Any]] = []
    if captured.stdout:
        outputs.append({"name": "stdout", "output_type": "stream", "text": lines(captured.stdout)})
    if done.result is not None:
        formats, _ = shell.display_formatter.format(done.result, include=SHOWN)
        outputs.append(
            {
                "data": {name: lines(formats[name]) for name in SHOWN if name in formats},
                "execution_count": number,
                "metadata": {},
                "output_type": "execute_result",
            }
        )
    return outputs


def lines(text: str) -> list[str]:
    """Return a text as a notebook has it: its lines, with their ends."""
    return text.splitlines(keepends=True)


def run(notebook: dict[str, Any], folder: str) -> dict[str, Any]:
    """Return a notebook with the outputs that its cells give in a folder."""
    shell = Shell(folder)
    number, cells = 0, []
    for cell in notebook["cells"]:
        executed = dict(cell)
        if cell["cell_type"] == "code":
            number += 1
            executed["execution_count"] = number
            executed["outputs"] = outputs_of("".join(cell["source"]), number, shell)
        cells.append(executed)
    return {**notebook, "cells": cells}


def written(notebook: dict[str, Any]) -> str:
    """Write a notebook as Jupyter does."""
    return json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def main() -> int:
    """Run the program; its exit status is 1 where a notebook does not hold what its cells give."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("notebooks", nargs="+", type=Path)
    parser.add_argument("--check", action="store_true", help="write nothing")
    options = parser.parse_args()
    status = 0
    for path in [notebook.resolve() for notebook in options.notebooks]:
        text = path.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            shown = written(run(json.loads(text), folder))
            os.chdir(path.parent)
        if not options.check:
            path.write_text(shown, encoding="utf-8")
        elif shown != text:
            print(f"{path} does not hold what its cells give: run tools/notebook.py {path.name}")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
