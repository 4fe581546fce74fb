"""`lean_typing.NamedTuple` does what `typing.NamedTuple` does."""

from __future__ import annotations

import copy
import pickle
import typing

import pytest

from weighbridge import lean_typing


class Ours(lean_typing.NamedTuple):
    name: str
    size: int = 1
    parts: tuple[str, ...] = ()

    @property
    def whole(self) -> str:
        return f"{self.name} {self.size}"


class Theirs(typing.NamedTuple):
    name: str
    size: int = 1
    parts: tuple[str, ...] = ()

    @property
    def whole(self) -> str:
        return f"{self.name} {self.size}"


CALLS = {
    "in order": (("a", 2, ("b",)), {}),
    "by name": ((), {"size": 3, "name": "a", "parts": ("c",)}),
    "defaults": (("a",), {}),
    "a default": (("a", 2), {}),
    "some by name": (("a",), {"parts": ("d",)}),
    "nothing": ((), {}),
    "too many": (("a", 1, (), 4), {}),
    "twice": (("a",), {"name": "b"}),
    "unknown": (("a",), {"sizes": 1}),
    "without the first": ((), {"size": 1}),
}


@pytest.mark.parametrize("call", CALLS)
def test_it_is_made_like_the_one_of_typing(call: str) -> None:
    values, named = CALLS[call]
    try:
        theirs = Theirs(*values, **named)
    except TypeError:
        with pytest.raises(TypeError, match="Ours"):
            Ours(*values, **named)
        return
    ours = Ours(*values, **named)
    assert tuple(ours) == tuple(theirs)
    assert repr(ours) == repr(theirs).replace("Theirs", "Ours")
    assert ours._asdict() == theirs._asdict()
    assert ours.whole == theirs.whole
    assert (ours.name, ours.size, ours.parts) == (theirs.name, theirs.size, theirs.parts)


def test_it_behaves_like_a_tuple() -> None:
    ours = Ours("a", 2)
    assert ours == ("a", 2, ()) == Theirs("a", 2)
    assert hash(ours) == hash(("a", 2, ()))
    assert ours < Ours("b")
    assert Ours._make(["a", 2, ()]) == ours
    assert Ours._fields == Theirs._fields == Ours.__match_args__
    assert Ours._field_defaults == Theirs._field_defaults
    with pytest.raises(TypeError):
        Ours._make(["a", 2, (), 4])


def test_it_is_replaced_copied_and_pickled() -> None:
    ours = Ours("a", 2)
    assert ours._replace(size=5) == ("a", 5, ())
    assert type(ours._replace(size=5)) is Ours
    with pytest.raises(TypeError):
        ours._replace(sizes=5)
    pickled = pickle.loads(pickle.dumps(ours))  # noqa: S301  # made a moment ago
    for twin in (copy.copy(ours), copy.deepcopy(ours), pickled):
        assert twin == ours
        assert type(twin) is Ours


def test_it_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Ours("a").size = 3  # type: ignore[misc]
    with pytest.raises(AttributeError):
        Ours("a").other = 3


def test_it_matches_by_place_and_by_name() -> None:
    match Ours("a", 2, ("b",)):
        case Ours(name, size=2, parts=(part,)):
            assert (name, part) == ("a", "b")
        case _:
            pytest.fail("no match")


def test_a_class_of_it_can_be_subclassed() -> None:
    class Further(Ours):
        @property
        def twice(self) -> int:
            return self.size * 2

    assert Further("a", 3).twice == 6
    assert repr(Further("a", 3)) == "Further(name='a', size=3, parts=())"


def test_a_field_without_a_default_after_one_with_it_is_refused() -> None:
    with pytest.raises(TypeError, match="default"):

        class _Theirs(typing.NamedTuple):
            size: int = 1
            name: str  # type: ignore[misc]

    with pytest.raises(TypeError, match="default"):

        class _Ours(lean_typing.NamedTuple):
            size: int = 1
            name: str  # type: ignore[misc]
