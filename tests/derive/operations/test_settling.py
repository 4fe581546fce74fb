"""Values of held fields in operations: what is written can be read and bound."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from weighbridge.blueprint import operations
from weighbridge.derive.operations.settling import settle_held
from weighbridge.derive.toml_text import operations_text
from weighbridge.errors import BlueprintError


def raw_file() -> dict[str, Any]:
    """Return operations that name held fields in rounds, dims, conditions and numbers of layers."""
    return {
        "format": 2,
        "family": "f",
        "source": "s",
        "kernels": "k",
        "class": "C",
        "proof": {"by": "b", "against": "a", "runs": 12},
        "fields": {"expand": 2, "groups": 3, "kind": "scan", "turn": 1.0, "width": 7},
        "held": {"expand": 2, "groups": 3, "kind": "scan", "turn": [0.5, 1.0]},
        "repeat": {"i": "2*groups"},
        "forward": {"layers.{i}.mixer": ["groups x batch width expand*width+(groups-1) 1"]},
        "backward": {},
        "saved": {
            "layers.{i}": ['F32 batch*expand if kind == "scan" and width > expand', "I64 batch"],
            "": ["compute width if turn == 0.5"],
        },
        "classes": {"D": {"saved": {"": ["F32 (expand if training else 1)*width"]}}},
    }


def test_held_fields_are_written_as_values() -> None:
    raw = raw_file()
    settle_held(raw)
    assert raw["fields"] == {"turn": 1.0, "width": 7}
    assert raw["repeat"] == {"i": "2 * 3"}
    assert raw["forward"] == {"layers.{i}.mixer": ["3 x batch width 2*width+(3-1) 1"]}
    assert raw["saved"][""] == ["compute width if turn == 0.5"]
    assert raw["classes"]["D"]["saved"][""] == ["F32 (2 if training else 1)*width"]


def test_what_is_written_has_the_numbers_of_what_was_found() -> None:
    raw, found = raw_file(), operations.Operations(raw_file())
    settle_held(raw)
    written = tomllib.loads(operations_text(raw))
    operations.check_operations(written)
    known = operations.Operations(written)
    run = {"batch": 5, "sequence": 2}
    for kind, class_name in (("forward", "C"), ("saved", "C"), ("saved", "D")):
        expected = found.bind(class_name, kind, found.names({}, **run))
        assert known.bind(class_name, kind, known.names({}, **run)) == expected
        assert expected


def test_a_file_that_names_a_held_field_breaks_the_law() -> None:
    with pytest.raises(BlueprintError, match=r"^names: .*held"):
        operations.check_operations(raw_file())
