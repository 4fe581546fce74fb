"""What happens to a blueprint when its proof shows that a part is wrong."""

from __future__ import annotations

import copy
from typing import Any

from weighbridge.derive.passes import (
    TO_BE_PROVED,
    CandidateBlueprint,
    run_passes,
    without_buffers,
    without_unused_fields,
)
from weighbridge.derive.prove import Mismatch


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


def test_a_wrong_buffer_is_dropped_with_the_conditions_that_only_it_needs() -> None:
    remaining = without_buffers(raw(), ["model.layers.11.ids", "table.freq"])
    assert remaining["buffers"] == {"other": "F32 2"}
    assert remaining["when"] == {"layers.{i}": "on"}
    assert remaining["stored"] == {}
    assert remaining["classes"] == raw()["classes"]


def test_a_class_loses_its_own_buffers() -> None:
    remaining = without_buffers(raw(), ["seen"])
    assert remaining["classes"]["Head"]["buffers"] == {}
    assert remaining["buffers"] == raw()["buffers"]


def test_a_field_that_no_expression_names_is_inert_and_keeps_its_other_names() -> None:
    remaining = without_buffers(raw(), ["layers.0.ids", "table.freq"])
    del remaining["when"]["layers.{i}"]
    remaining = without_unused_fields(remaining)
    assert remaining["defaults"] == {"width": 4}
    assert remaining["inert"] == ["act", "kind", "on"]
    assert remaining["aliases"] == {"switch": "on"}


# The passes after the proof


def proved(*mismatches: Mismatch, class_name: str = "Base") -> CandidateBlueprint:
    """Return the blueprint after the passes, given these mismatches of one class."""
    candidate = CandidateBlueprint(raw(), ("before",), {class_name: mismatches})
    before = copy.deepcopy(candidate)
    passed = run_passes(candidate, TO_BE_PROVED)
    assert candidate == before, "a pass changes nothing in place"
    return passed


def test_without_mismatches_the_blueprint_is_unchanged() -> None:
    assert run_passes(CandidateBlueprint(raw()), TO_BE_PROVED) == CandidateBlueprint(raw())


def test_a_mismatch_in_files_drops_the_tables_on_files() -> None:
    passed = proved(Mismatch({}, "w in files is (1,), not (4,)", "files"))
    expected = raw()
    del expected["stored"]
    assert passed.raw == expected
    hole = (
        "the contents of files were not derived: "
        "w in files is (1,), not (4,), with the default config"
    )
    assert passed.holes == ("before", hole)


def test_mismatched_buffers_are_dropped_with_the_fields_that_only_they_use() -> None:
    names = ("table.freq", "layers.3.ids")
    passed = proved(Mismatch({"width": 8}, "the buffer table.freq is (4,)", "buffers", names))
    assert passed.raw["buffers"] == {"other": "F32 2"}
    assert passed.raw["inert"] == ["act", "kind"], "kind was named by their conditions alone"
    assert passed.holes == ("before", "the buffer table.freq is (4,), with width = 8")


def test_a_task_class_with_a_wrong_tensor_is_dropped() -> None:
    passed = proved(Mismatch({"on": False}, "head is (2,)"), class_name="Head")
    assert passed.raw == {**raw(), "classes": {}}
    assert passed.holes == ("before", "Head was left out: head is (2,), with on = False")


def test_the_base_class_is_never_dropped() -> None:
    passed = proved(Mismatch({}, "w is (2,)"))
    assert (passed.raw, passed.holes) == (raw(), ("before",))
