"""Writes docs/questions.md: questions that people asked, what they were told, and our answer.

The page calls `table()` in a block of cog, so that its figures are those of the commands.
"""

from __future__ import annotations

import contextlib
import io
import json
import tomllib
from pathlib import Path
from typing import Any

from weighbridge import units
from weighbridge.cli import main

QUESTIONS = Path(__file__).resolve().parent.parent / "docs" / "questions.toml"
_ANSWERED = (0, 1)  # yes or no


def questions() -> list[dict[str, Any]]:
    """Return the questions, in the order of the page."""
    return list(tomllib.loads(QUESTIONS.read_text(encoding="utf-8"))["question"])


def answer(command: str) -> dict[str, Any]:
    """Return the JSON of a command, and the bytes of its states if it trains."""
    written = io.StringIO()
    with contextlib.redirect_stdout(written), contextlib.redirect_stderr(io.StringIO()):
        status = main([*command.split(), "--json", "--lang", "en"])
    if status not in _ANSWERED:
        raise SystemExit(f"{command}: exit {status}")
    found: dict[str, Any] = json.loads(written.getvalue())
    if "ranks" in found:
        states = ("parameter_bytes", "gradient_bytes", "optimizer_bytes")
        found["model_state_bytes"] = sum(rank[name] for rank in found["ranks"] for name in states)
    return found


def shown(name: str, value: Any) -> str:
    """Return a figure as the page prints it.

    Example:
        >>> shown("fits", False), shown("cache_bytes", 2147483648), shown("cache_tokens", 42656)
        ('it does not fit', 'cache 2,147,483,648 B (2.00 GiB)', 'cache tokens 42,656')
    """
    if name == "fits":
        return "it fits" if value else "it does not fit"
    words = name.removesuffix("_bytes").replace("_", " ")
    if name.endswith("_bytes"):
        return f"{words} {units.count(value)} B ({units.size(value)})"
    return f"{words} {units.count(value)}"


def table() -> str:
    """Return all questions as Markdown, each with its link, command and figures."""
    pieces = []
    for number, question in enumerate(questions(), 1):
        found = answer(question["command"])
        figures = "; ".join(shown(name, found[name]) for name in question["show"])
        pieces.append(
            f"{number}. [{question['asked']}]({question['link']})\n"
            f"   - There: {question['theirs']}.\n"
            f"   - Here: {figures}. `weighbridge {question['command']}`\n"
            f"   - {question['why']}\n"
        )
    return "\n".join(pieces)
