"""Errors: for any value, the message is one short line, and formatting it never fails."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weighbridge.errors import UsageError, shorten


class Pair(NamedTuple):
    first: int
    then: int


class Silent:
    def __repr__(self) -> str:
        raise RuntimeError("no")


class Counted:
    asked = 0

    def __repr__(self) -> str:
        self.asked += 1
        return "x"


class SilentText(str):
    __slots__ = ()
    __repr__ = Silent.__repr__


class SilentInteger(int):
    __repr__ = Silent.__repr__


class Endless(list):
    def __len__(self) -> int:
        raise OverflowError


class Wordless:
    def __repr__(self) -> str:
        return None  # type: ignore[return-value]


def deep() -> list:
    found: list = []
    for _ in range(100_000):
        found = [found]
    return found


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (OrderedDict(a=1), "an object of 1"),
        (defaultdict(list), "an object of 0"),
        (Counter("ab"), "an object of 2"),
        (Pair(1, 2), "a tuple of 2"),
        (frozenset({1}), "a set of 1"),
        (deep(), "a list of 1"),
        (SilentText("a\n"), "'a\\n'"),
        (SilentInteger(7), "a SilentInteger that cannot be shown"),
        (Silent(), "a Silent that cannot be shown"),
        (Endless(), "a Endless that cannot be shown"),
        (Wordless(), "a Wordless that cannot be shown"),
        (float("nan"), "nan"),
        (True, "true"),
        (None, "null"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_any_value_is_shown(value: object, shown: str) -> None:
    assert shorten(value) == shown
    assert str(UsageError("no", values={"found": value})) == f"no (found = {shown})."


def test_the_repr_of_a_value_is_taken_once() -> None:
    value = Counted()
    assert shorten(value) == "x"
    assert value.asked == 1


odd = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.binary()
    | st.builds(SilentText, st.text()),
    lambda inner: (
        st.lists(inner)
        | st.builds(Pair, inner, inner)
        | st.dictionaries(st.text(), inner).map(OrderedDict)
    ),
)


@given(odd, st.sampled_from([None, str]), st.integers(30, 99))
def test_a_shown_value_is_one_short_printable_line(
    value: object, show: type[str] | None, longest: int
) -> None:
    shown = shorten(value, show, longest)
    assert shown.isprintable()
    assert len(shown) <= longest
