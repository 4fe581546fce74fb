"""From a draft to the tables of a blueprint: what is written, and which fields it names."""

from __future__ import annotations

from weighbridge.derive.generalize.draft import Draft, Drafted
from weighbridge.derive.write import IndexLetters, fields_in, section

DRAFT = Draft(
    tensors={
        "a.w": Drafted("a.w", (("name", "n"),)),
        "c.w": Drafted("c.w", (("name", "n"), ("value", 2))),
    },
    buffers={
        "a.b": Drafted("a.b", (("name", "m"),), dtype="float32"),
        "a.unknown": Drafted("a.unknown", None, dtype="float32"),
        "a.complex": Drafted("a.complex", (("name", "z"),), dtype="complex128"),
    },
    conditions={
        "a": ("name", "there"),
        "a.b": ("name", "on"),
        "a.unknown": ("name", "odd"),
        "a.complex": ("name", "odd"),
        "c": ("name", "more"),
    },
)


def test_a_buffer_is_written_with_the_condition_that_applies_to_it_alone() -> None:
    assert section(DRAFT, IndexLetters()) == {
        "tensors": {"a.w": "n", "c.w": "n 2"},
        "when": {"a": "there", "a.b": "on", "c": "more"},
        "buffers": {"a.b": "F32 m"},
    }
    assert sorted(fields_in(DRAFT)) == ["m", "more", "n", "on", "there"]


def test_for_some_tensors_only_they_and_their_conditions_are_written() -> None:
    assert section(DRAFT, IndexLetters(), ["a.w"]) == {
        "tensors": {"a.w": "n"},
        "when": {"a": "there"},
    }
    assert fields_in(DRAFT, ["a.w"]) == ["n", "there"]


def test_the_condition_of_a_list_without_a_module_is_that_of_its_items() -> None:
    draft = Draft(
        tensors={"conv_{0}.w": Drafted("conv_{0}.w", (("name", "n"),))},
        buffers={},
        conditions={"conv_": ("name", "there"), "conv_{0}": ("name", "on")},
        repeats={"conv_": ("name", "count")},
    )
    tables = section(draft, IndexLetters())
    assert tables["when"] == {"conv_{i}": "there and on"}
