"""Writes the published numbers in `facts/published.toml` and what they count, for the docs."""

from __future__ import annotations

import cog

from weighbridge import data
from weighbridge.answers.reconcile import reconcile, verdict
from weighbridge.models.find import find

_HEADINGS = {
    "en": ("number", "model", "source", "what it counts"),
    "zh": ("数字", "模型", "出处", "计数内容"),
}
_SOURCE = {"en": "{} ({})", "zh": "{}（{}）"}
_BREAK = {"en": ": ", "zh": "；"}


def claims(lang: str, *, about_bert: bool = True) -> None:
    """Write a row for each claim: number, model, source, verdict of `weighbridge reconcile`.

    The claims are those about BERT, or those about all other models.
    """
    rows = [_HEADINGS[lang], (":--",) * len(_HEADINGS[lang])]
    for claim in data.read_toml("facts/published.toml")["claim"]:
        if (find(claim["model"]).blueprint.family == "bert") != about_bert:
            continue
        counts = verdict(reconcile(claim["model"], claim["stated"]), lang)
        because = claim.get("because", {}).get(lang, "")
        if because:
            counts += f"{_BREAK[lang]}{because}"
        rows.append(
            (
                claim["stated"],
                f"`{claim['model']}`",
                _SOURCE[lang].format(claim["says"][lang], claim["source"][lang]),
                counts,
            )
        )
    for row in rows:
        cog.outl("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |")
