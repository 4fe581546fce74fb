"""Pickles read as data: numbers, strings and containers are the same as Python's own."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weighbridge.errors import CheckpointError
from weighbridge.readers import pickled

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)
keys = st.none() | st.text(max_size=9) | st.integers(-(2**63), 2**63)
values = st.recursive(
    keys
    | st.booleans()
    | st.floats(allow_nan=False)
    | st.integers(0, 2**17)
    | st.text(min_size=250, max_size=300),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner, max_size=6).map(tuple)
        | st.dictionaries(keys, inner)
        | st.tuples(inner, inner)
    ),
    max_leaves=40,
)
# With more than 256 objects, later ones have longer numbers in the memo.
MANY = {
    f"layer.{number}": (number, (number, (), None), [f"{number}", f"layer.{number}"])
    for number in range(300)
}


@settings(deadline=None)
@given(values, st.sampled_from(PROTOCOLS))
def test_values_that_python_pickles_are_read_back(value: Any, protocol: int) -> None:
    raw = pickle.dumps([value, value], protocol)
    assert pickled.unpickled(b"before" + raw + b"after", "a", 6) == ([value, value], 6 + len(raw))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_objects_in_the_memo_are_read_from_it(protocol: int) -> None:
    raw = pickle.dumps([MANY, list(MANY), list(MANY.values())], protocol)
    assert pickled.unpickled(raw, "a")[0] == [MANY, list(MANY), list(MANY.values())]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_pickle_that_is_cut_off_anywhere_is_refused_as_such(protocol: int) -> None:
    raw = pickle.dumps(
        [dict(list(MANY.items())[:2]), 2.5, -1, 2**60, "x" * 300, (1, 2, 3, 4)] * 2, protocol
    )
    for length in range(len(raw)):
        with pytest.raises(CheckpointError, match="a: pickle-cut: "):
            pickled.unpickled(raw[:length], "a")


@pytest.mark.parametrize(
    "raw", [b".", b"t.", b"\x86.", b"K\1\x86.", b"h\0.", b"r\0\0\0\0.", b"(K\1t\xff."]
)
def test_an_instruction_without_its_operands_is_refused(raw: bytes) -> None:
    with pytest.raises(CheckpointError, match="a: pickle-step: "):
        pickled.unpickled(raw, "a")
