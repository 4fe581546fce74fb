"""Derivation's messages in other languages: every hole of a shipped blueprint has a translation."""

from __future__ import annotations

import re

import pytest

from weighbridge.blueprint import schema as blueprint
from weighbridge.data import LANGUAGES, read_toml
from weighbridge.render.messages import translation

QUOTES_CODE = ": `"  # such a hole is a line of code, without words of its own
# Words of an exception that a hole quotes stay as they are.
QUOTED = re.compile(r"\w*Error: .*|shape '.*|(chunk expects|can only) .*|with \w+, .*")


@pytest.mark.parametrize("lang", LANGUAGES[1:])
def test_every_hole_of_a_shipped_blueprint_is_translated(lang: str) -> None:
    holes: set[str] = set()
    for family in blueprint.families():
        holes.update(read_toml(f"blueprints/{family}.toml")["proof"]["holes"])
    in_words = [hole for hole in holes if QUOTES_CODE not in hole]
    assert len(in_words) > 50
    for hole in in_words:
        translated = translation(hole, lang) or hole
        assert not re.search(r"[a-z]+ [a-z]+ ", QUOTED.sub("", translated)), hole
