"""The letters: legal in every format, explained in both languages, and different in a model."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up import blueprint

from weighbridge import data
from weighbridge.blueprint.schema import Blueprint, families, load
from weighbridge.data import LANGUAGES
from weighbridge.ledger.symbols import letters, letters_of, meaning_of, size_symbols

FIELDS = sorted(size_symbols())
CONFIGS = ["", "text_config.", "vision_config.", "audio_config.", "text_config.decoder."]


def test_every_field_stands_once_under_a_letter_that_all_formats_can_write() -> None:
    lines = data.read_toml("facts/symbols.toml")["symbols"].splitlines()
    cells = [[cell.strip() for cell in line.split("|")] for line in lines]
    assert {len(of_line) for of_line in cells} == {2 + len(LANGUAGES)}
    fields = [field for *_, of_letter in cells for field in of_letter.split()]
    assert len(fields) == len(set(fields))
    for column in range(1 + len(LANGUAGES)):
        texts = [of_line[column] for of_line in cells]
        assert all(texts)
        assert len(texts) == len(set(texts)), "two of one letter, or of one meaning"
    assert all(re.fullmatch(r"[A-Za-z](_[a-z]+)?", letter) for letter, *_ in cells)


@given(st.sets(st.builds(str.__add__, st.sampled_from(CONFIGS), st.sampled_from(FIELDS))))
def test_no_two_fields_of_a_model_have_one_letter(fields: set[str]) -> None:
    found = letters(fields)
    assert len(set(found.values())) == len(found)
    for field, letter in found.items():
        assert re.fullmatch(r"[A-Za-z](_[a-z]+)?", letter)
        assert letter[0] == size_symbols()[field.rpartition(".")[2]].letter[0]
    if len({size_symbols()[field.rpartition(".")[2]].letter for field in fields}) == len(fields):
        assert found.keys() == fields, "where none clashes, each has its own"


def test_a_field_of_the_whole_config_keeps_the_letter_that_a_sub_config_shares() -> None:
    assert letters(["hidden_size", "vision_config.hidden_size"]) == {
        "hidden_size": "H",
        "vision_config.hidden_size": "H_v",
    }
    assert letters(["hidden_size", "embed_dim"]) == {"embed_dim": "H"}
    assert letters(["video_config.hidden_size", "vision_config.hidden_size"]) == {
        "video_config.hidden_size": "H_v",
        "vision_config.hidden_size": "H_vi",
    }
    assert letters(["a_b_config.d_e.hidden_size"], taken=["H", "H_a", "H_ab", "H_abd"]) == {
        "a_b_config.d_e.hidden_size": "H_abde"
    }
    assert letters(["a_config.hidden_size"], taken=["H", "H_a"]) == {}
    assert meaning_of("vision_config.hidden_size", "zh") == "隐藏维度 (vision_config)"


def test_an_index_of_a_loop_is_not_the_letter_of_a_field() -> None:
    first, second = "sum([H for H in range(2)])", "sum([V for V in range(2)])"
    raw = blueprint(
        "loops",
        defaults={"hidden_size": 4, "vocab_size": 5, "num_hidden_layers": 2},
        repeat={"T": "num_hidden_layers"},
        tensors={"w.{T}": f"({first} + {second} + (1 if hidden_size in [4] else 0))"},
    )
    assert letters_of(Blueprint(raw)) == {"num_hidden_layers": "L"}


@pytest.mark.sampled("src/weighbridge/ledger")
@pytest.mark.parametrize("family", families())
def test_the_sizes_of_a_family_have_letters_that_differ(family: str) -> None:
    found = letters(load(family).sizes)
    assert len(set(found.values())) == len(found)


def test_a_reason_why_a_field_changes_no_shape_is_a_phrase() -> None:
    facts = data.read_toml("facts/fields.toml")
    for part in ("any", "reasons"):
        for field, reason in facts[part].items():
            assert re.fullmatch(r"\w+", field)
            assert reason
            assert reason[-1] not in ".,;:"
