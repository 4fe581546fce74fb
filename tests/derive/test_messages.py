"""Derivation's messages in other languages: every hole of a shipped blueprint has a translation."""

from __future__ import annotations

import pytest

from weighbridge.blueprint import schema as blueprint
from weighbridge.data import LANGUAGES, read_toml
from weighbridge.render.messages import translation

HOLES = {
    hole: family
    for family in blueprint.families()
    for hole in read_toml(f"blueprints/{family}.toml")["proof"]["holes"]
}
IS_CODE = "__init__: `"  # a hole that quotes a line of code has no words of its own


@pytest.mark.parametrize("lang", LANGUAGES[1:])
def test_every_hole_of_a_shipped_blueprint_is_translated(lang: str) -> None:
    in_words = [hole for hole in HOLES if IS_CODE not in hole]
    assert len(in_words) > 100
    assert [hole for hole in in_words if translation(hole, lang) is None] == []
