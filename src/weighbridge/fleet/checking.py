"""A check of a repository: is each checkpoint what the config.json beside it says?

It reads as a scan does, and writes no table; a badge with the answer can be written.
"""

from __future__ import annotations

import os
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge import units
from weighbridge.answers.answer import Answer
from weighbridge.errors import UsageError, printable
from weighbridge.fleet.comparing import Comparisons
from weighbridge.fleet.listing import listed_in
from weighbridge.fleet.reasons import ReasonError, reason_in_brief
from weighbridge.fleet.rows import CONFIG_REASON, REASON, row_dicts
from weighbridge.fleet.scan import scan_words
from weighbridge.render.document import Document, Lines, Notes
from weighbridge.render.safe import json_text

if TYPE_CHECKING:
    from collections.abc import Sequence

AGREES, DIFFERS, BROKEN, OPEN = "agrees", "differs", "broken", "open"
_LABEL = "weights"
_GOOD, _BAD = ("#2e7d32", "brightgreen"), ("#c62828", "red")  # for an SVG, and for shields.io
_LETTER = 6.5  # pixels of an average letter at 11 pixels
_GAP = 10


class CheckedCheckpoint(NamedTuple):
    """One checkpoint and what became of it; ``reason`` is why it was not read or compared.

    ``message`` has the reason in parts, if it is the message of an error.
    """

    path: str
    result: str
    parameters: int | None = None
    config_parameters: int | None = None
    reason: str | None = None
    message: ReasonError | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the result, ready for JSON."""
        values = self._asdict()
        del values["message"]
        return values


def check_checkpoints(paths: Sequence[str]) -> Checked:
    """Compare every checkpoint below some paths with the config.json beside it.

    Raises:
        UsageError: a path does not exist, or nothing there can be compared.
    """
    comparisons, found = Comparisons(), []
    for one in listed_in(paths):
        for row in row_dicts([one]):
            comparisons.complete(row, one)
            found.append(_result_of(row))
    checked = Checked(found)
    if not checked.count(AGREES) and not checked.status:
        raise UsageError(
            "no checkpoint there can be compared with a config",
            values={"paths": ", ".join(paths), "checkpoints": len(found)},
            hint="a checkpoint needs a config.json with a known model_type in its folder",
        )
    return checked


def _result_of(row: dict[str, Any]) -> CheckedCheckpoint:
    sizes = row.get("parameters"), row.get("config_parameters")
    if row["status"] in {"refused", "crashed"}:
        return CheckedCheckpoint(row["path"], BROKEN, *sizes, row["message"], row.get(REASON))
    agrees = row.get("agrees")
    if agrees is None:
        why = _why_open(row)
        message = row.get(CONFIG_REASON) if why == row.get("config_message") else None
        return CheckedCheckpoint(row["path"], OPEN, *sizes, why, message)
    return CheckedCheckpoint(row["path"], AGREES if agrees else DIFFERS, *sizes)


def _why_open(row: dict[str, Any]) -> str:
    """Return the word for why a checkpoint was not compared, or what is wrong with its config."""
    if row["status"] == "unread":
        return "unread"
    if row["kind"] in {"state", "adapter", "parallel"}:
        return f"kind_{row['kind']}"
    if row["packing"]:
        return "is_packed"
    return row.get("config_message") or "has_no_config"


class Checked(Answer):
    """What a check found, a line for each checkpoint; the status is 1 if one is wrong."""

    def __init__(self, checkpoints: list[CheckedCheckpoint]) -> None:
        self.checkpoints = checkpoints

    def count(self, result: str) -> int:
        """Return how many checkpoints have a result."""
        return sum(one.result == result for one in self.checkpoints)

    @property
    def status(self) -> int:
        """1 if a checkpoint differs from its config or cannot be read, else 0."""
        return int(any(one.result in {DIFFERS, BROKEN} for one in self.checkpoints))

    def to_dict(self) -> dict[str, Any]:
        """Return the results, ready for JSON."""
        counts = {result: self.count(result) for result in (AGREES, DIFFERS, BROKEN, OPEN)}
        return {**counts, "checkpoints": [one.to_dict() for one in self.checkpoints]}

    def document(self, lang: str = "en") -> Document:
        """Return a line for each checkpoint, and the counts."""
        texts = scan_words(lang)
        lines = [_line_of(one, texts, lang) for one in self.checkpoints]
        counts = self.to_dict()
        del counts["checkpoints"]
        shown = {name: units.count(count) for name, count in counts.items()}
        blocks = (Lines("\n".join(lines)), Notes((texts["check_total"].format(**shown),)))
        return Document(blocks, lang)

    def badge_text(self) -> str:
        """Return what the badge says: the most parameters, or how many are wrong."""
        wrong = self.count(DIFFERS) + self.count(BROKEN)
        if wrong:
            return f"{wrong} of {len(self.checkpoints)} not as stated"
        sizes = [one.parameters or 0 for one in self.checkpoints if one.result == AGREES]
        return f"{units.count(max(sizes))} parameters"

    def write_badge(self, path: str) -> None:
        """Write the badge: as SVG, or as JSON in the format of a shields.io endpoint.

        Raises:
            UsageError: the name has another ending, or the file cannot be written.
        """
        _, ending = os.path.splitext(path)
        if ending not in {".svg", ".json"}:
            hint = "end its name with .svg, or .json for a shields.io endpoint"
            raise UsageError("a badge is SVG or JSON", values={"badge": path}, hint=hint)
        colors = _BAD if self.status else _GOOD
        text = _svg(_LABEL, self.badge_text(), colors[0])
        if ending == ".json":
            fields = {"schemaVersion": 1, "label": _LABEL, "message": self.badge_text()}
            text = json_text({**fields, "color": colors[1]})
        try:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text.rstrip("\n") + "\n")
        except OSError as error:
            raise UsageError(
                f"cannot be written: {error.strerror}", where=path, hint="give another file"
            ) from None


def _line_of(one: CheckedCheckpoint, texts: dict[str, str], lang: str) -> str:
    path = printable(os.path.relpath(one.path) if os.path.isabs(one.path) else one.path)
    said = texts[f"check_{one.result}"]
    if one.result == AGREES:
        said = said.format(parameters=units.count(one.parameters or 0))
    elif one.result == DIFFERS:
        sizes = [units.count(size or 0) for size in (one.parameters, one.config_parameters)]
        said = said.format(parameters=sizes[0], config=sizes[1])
    elif one.message:
        said = said.format(reason=reason_in_brief(one.message, one.path, lang))
    else:
        reason = one.reason or ""
        said = said.format(reason=texts.get(reason, reason))
    return f"{path}: {said}"


def _svg(label: str, message: str, color: str) -> str:
    """Return a badge: the label on grey, and the message on a color."""
    left, right = (round(len(text) * _LETTER) + _GAP for text in (label, message))
    title = escape(f"{label}: {message}")
    font = 'fill="#fff" text-anchor="middle" font-family="Verdana,sans-serif" font-size="11"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img" '
        f'aria-label="{title}"><title>{title}</title>'
        f'<rect width="{left}" height="20" fill="#555"/>'
        f'<rect x="{left}" width="{right}" height="20" fill="{color}"/>'
        f'<g {font}><text x="{left / 2}" y="14">{escape(label)}</text>'
        f'<text x="{left + right / 2}" y="14">{escape(message)}</text></g></svg>'
    )
