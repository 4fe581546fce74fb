"""Writes what people asked, what they were told, and our answer, for docs/questions.md.

The page and its translation call `table(lang)` in a block of cog, so that their figures are those
of the commands.
"""

from __future__ import annotations

import contextlib
import io
import json
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from page_words import words_of

from weighbridge import units
from weighbridge.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable

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


def shown(name: str, value: Any, say: Callable[[str], str] = str) -> str:
    """Return a figure as the page prints it.

    Example:
        >>> shown("fits", False), shown("cache_bytes", 2147483648), shown("cache_tokens", 42656)
        ('it does not fit', 'cache 2,147,483,648 B (2.00 GiB)', 'cache tokens 42,656')
    """
    if name == "fits":
        return say("it fits") if value else say("it does not fit")
    what = say(name.removesuffix("_bytes").replace("_", " "))
    count = units.count(value)
    if name.endswith("_bytes"):
        return say("{what} {count} B ({size})").format(
            what=what, count=count, size=units.size(value)
        )
    return f"{what} {count}"


def table(lang: str) -> str:
    """Return all questions as Markdown, each with its link, command and figures."""
    say = words_of("questions", lang)
    pieces = []
    for number, question in enumerate(questions(), 1):
        found = answer(question["command"])
        figures = say("; ").join(shown(name, found[name], say) for name in question["show"])
        theirs = say("There: {theirs}.").format(theirs=question["theirs"][lang])
        here = say("Here: {figures}. `weighbridge {command}`").format(
            figures=figures, command=question["command"]
        )
        lines = (theirs, here, question["why"][lang])
        pieces.append(
            f"{number}. [{question['asked'][lang]}]({question['link']})\n"
            + "".join(f"   - {line}\n" for line in lines)
        )
    return "\n".join(pieces)
