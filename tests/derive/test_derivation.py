"""What becomes of a blueprint whose proof showed a part of it to be wrong."""

from __future__ import annotations

from typing import Any

from weighbridge.derive.derivation import _forget_buffers, _forget_unused


def raw() -> dict[str, Any]:
    return {
        "defaults": {"on": True, "width": 4, "kind": "rotary"},
        "inert": ["act"],
        "aliases": {"switch": "on"},
        "tensors": {"w": "width", "layers.{i}.w": "width"},
        "when": {
            "table": 'kind == "rotary"',
            "layers.{i}": "on",
            "layers.{i}.ids": 'kind == "rotary"',
        },
        "buffers": {"table.freq": "F32 width", "layers.{i}.ids": "I64 width", "other": "F32 2"},
        "stored": {"table.freq": ["freq"]},
        "classes": {"Head": {"tensors": {"head": "width"}, "buffers": {"seen": "I64 1"}}},
    }


def test_a_buffer_that_is_wrong_is_forgotten_with_the_condition_of_what_is_empty_then() -> None:
    found = raw()
    _forget_buffers(found, ["model.layers.11.ids", "table.freq"])
    assert found["buffers"] == {"other": "F32 2"}
    assert found["when"] == {"layers.{i}": "on"}
    assert found["stored"] == {}
    assert found["classes"] == raw()["classes"]


def test_of_a_class_its_own_buffers_are_forgotten() -> None:
    found = raw()
    _forget_buffers(found, ["seen"])
    assert found["classes"]["Head"]["buffers"] == {}
    assert found["buffers"] == raw()["buffers"]


def test_a_field_that_nothing_names_any_more_is_inert_and_keeps_its_other_names() -> None:
    found = raw()
    _forget_buffers(found, ["layers.0.ids", "table.freq"])
    del found["when"]["layers.{i}"]
    _forget_unused(found)
    assert found["defaults"] == {"width": 4}
    assert found["inert"] == ["act", "kind", "on"]
    assert found["aliases"] == {"switch": "on"}
