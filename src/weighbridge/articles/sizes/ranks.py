"""The ranks of LoRA that an article states."""

from __future__ import annotations

import re

from weighbridge.articles.text import terms


def stated_ranks(text: str) -> frozenset[int]:
    """Return the ranks of LoRA in a text; none if it does not mention LoRA.

    Example:
        >>> sorted(stated_ranks("LoRA with r = 8, and QLoRA of rank 16 (lora_r=64)"))
        [8, 16, 64]
        >>> stated_ranks("a matrix of rank 8")
        frozenset()
    """
    facts = terms.facts()["lora"]
    if facts["method"] not in text.lower():
        return frozenset()
    words = "|".join(sorted(map(re.escape, facts["ranks"]), key=len, reverse=True))
    found = re.findall(rf"(?<![A-Za-z_])(?:{words})[ =:：]{{0,3}}(\d{{1,4}})(?![\d.,]\d)", text)
    return frozenset(map(int, found))
