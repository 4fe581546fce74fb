"""`derive.lengths`: rules on lists whose items shape tensors one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

import pytest

from weighbridge.derive.lengths import length_rules

if TYPE_CHECKING:
    from weighbridge.derive.probing.probe import Probe


class Seen(NamedTuple):
    """All that the rules look at in a probe."""

    fields: dict[str, Any]


def rules(
    dims: str, *lists: list[int] | None, when: str = "width != 0", of_stranger: bool = False
) -> list[str]:
    raw = {"tensors": {"a.weight": dims, "b.weight": "width"}, "when": {"a": when}}
    probes = [Seen({"sizes": sizes, "width": 8}) for sizes in lists]
    return length_rules(raw, cast("list[Probe]", probes), of_stranger=of_stranger)


def test_the_length_that_every_probe_had_is_the_length_that_is_proved() -> None:
    assert rules("sizes[0] sizes[1]", [4, 8], [6, 9]) == ["len(sizes) == 2"]
    assert rules("sizes[0] sizes[-1]", [4, 8], [6, 9]) == ["len(sizes) == 2"]


@pytest.mark.parametrize(
    ("dims", "lists", "when"),
    [
        ("sizes[0] sizes[1]", ([4, 8], [4, 8, 12]), "width != 0"),  # another length was tried
        ("sizes[0] sizes[1]", ([4, 8, 12],), "width != 0"),  # the last item is not used
        ("sizes[0] sizes[1]", ([4, 8],), "len(sizes) == 2"),  # the length is asked
        ("sizes[0] sizes[1]", ([4, 8],), "width in sizes"),
        ("sizes[0] sizes[1]", (None,), "width != 0"),
    ],
)
def test_other_lists_have_no_rule(
    dims: str, lists: tuple[list[int] | None, ...], when: str
) -> None:
    assert rules(dims, *lists, when=when) == []


@pytest.mark.parametrize("when", ["width != 0", "len(sizes) == 2", "width in sizes"])
def test_a_stranger_s_list_has_the_lengths_that_were_tried(when: str) -> None:
    assert rules("sizes[0] 4", [4, 8], [6, 9], when=when, of_stranger=True) == ["len(sizes) == 2"]
    assert rules("sizes[0] 4", [4, 8], [4, 8, 9], when=when, of_stranger=True) == []
