"""Writes the published numbers of `facts/published.toml`, and what each counts, for the docs."""

from __future__ import annotations

import cog

from weighbridge import data
from weighbridge.answers.reconcile import reconcile, verdict

_HEADINGS = {
    "en": ("number", "model", "who says it", "what it counts"),
    "zh": ("数字", "模型", "出处", "它数的是什么"),
}


def claims(lang: str) -> None:
    """Write a row for each claim: number, model, source, verdict of `weighbridge reconcile`."""
    rows = [_HEADINGS[lang], (":--",) * len(_HEADINGS[lang])]
    for claim in data.read_toml("facts/published.toml")["claim"]:
        found = verdict(reconcile(claim["model"], claim["stated"]), lang)
        because = claim.get("because", {}).get(lang, "")
        said = f"{found}{'；' if lang == 'zh' else ': '}{because}" if because else found
        rows.append(
            (
                claim["stated"],
                f"`{claim['model']}`",
                f"{claim['says'][lang]} ({claim['source']})",
                said,
            )
        )
    for row in rows:
        cog.outl("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |")
