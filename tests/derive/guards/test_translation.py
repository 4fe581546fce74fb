"""Tests of reference code as expressions over config fields."""

from __future__ import annotations

import ast
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from weighbridge.derive.guards.translation import Translator, UntranslatableError
from weighbridge.derive.probing.symbolic import lift
from weighbridge.derive.write import expression

FIELDS = {"width": 8, "flag": False, "kind": "plain", "sizes": [1, 2], "ratio": 0.5}


def translated(test: str, **plain: Any) -> str:
    """Return a test as an expression; ``plain`` are fields that remember nothing."""
    config = SimpleNamespace(_weighbridge_path="inner.", **plain)
    for name, value in FIELDS.items():
        setattr(config, name, lift(value, ("name", f"inner.{name}")))
    constant = 3
    chosen = config.width > constant and config.flag
    assert not chosen
    function = ast.parse("chosen = config.width > constant and config.flag").body[0]
    node = ast.parse(f"\n\n{test}", mode="eval").body
    known = {f"inner.{name}" for name in (*FIELDS, *plain)}
    frame = sys._getframe()
    translator = Translator(frame, function, lambda _: (), known.__contains__)
    return expression(translator.condition(node))


@pytest.mark.parametrize(
    ("test", "rule"),
    [
        ("config.width > constant", "inner.width > 3"),
        ("not config.flag", "not inner.flag"),
        ("config.kind == 'plain' or config.flag", 'inner.kind == "plain" or inner.flag'),
        ("config.kind in ('a', 'b')", 'inner.kind in ["a", "b"]'),
        ("config.sizes", "len(inner.sizes) != 0"),
        ("len(config.sizes) > 1", "len(inner.sizes) > 1"),
        ("config.width", "inner.width != 0"),
        ("config.adapter is not None", "inner.adapter != null"),
        ("getattr(config, 'adapter', None) is None", "inner.adapter == null"),
        ("config.asm is False", "inner.asm == false"),
        ("hasattr(config, 'projection')", "inner.projection != null"),
        (
            "hasattr(config, 'projection') and config.projection",
            'inner.projection not in [null, false, ""]',
        ),
        ("'c2p' in (config.adapter if config.adapter is not None else [])", None),
        ("chosen", "inner.width > 3 and inner.flag"),
        ("constant > 2", "true"),
        ("(given := config.width) > constant", "inner.width > 3"),
    ],
)
def test_a_test_is_an_expression_over_fields(test: str, rule: str | None) -> None:
    if rule is None:
        rule = '"c2p" in (inner.adapter if inner.adapter != null else [])'
    assert translated(test, adapter=None, asm=False) == rule


@pytest.mark.parametrize("test", ["config.kind.upper() == 'A'", "print(config.width)", "unknown"])
def test_a_test_of_something_else_is_not(test: str) -> None:
    with pytest.raises(UntranslatableError):
        translated(test)
