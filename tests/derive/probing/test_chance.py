"""Random configs: the same for the same seed, and made of fields that can be turned."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from hard_to_explore import explored

from weighbridge.derive.probing import chance
from weighbridge.derive.probing.chance import draw_changes, sample, unseen
from weighbridge.derive.probing.lists import drawn_lists

if TYPE_CHECKING:
    import pytest


def test_the_same_seed_draws_the_same_configs() -> None:
    one, again, other = (explored("Choices", seed) for seed in (0, 0, 1))
    drawn = [
        [draw_changes(exploration, 0.5) for _ in range(20)] for exploration in (one, again, other)
    ]
    assert drawn[0] == drawn[1] != drawn[2]
    assert len(set(map(repr, drawn[0]))) > 15


def test_unseen_configs_are_drawn_from_the_fields_that_can_be_turned() -> None:
    exploration = explored("Choices")
    known = [dict(probe.changes) for probe in exploration.probes]
    configs = unseen(exploration, 20)
    assert len(configs) > 60
    assert not [changes for changes in configs if changes in known]
    assert {path for changes in configs for path in changes} == {
        *exploration.findings.turns,
        "gated",
    }
    assert all(changes.get("wide") for changes in configs if changes.get("gated"))
    probe = sample(exploration)
    assert probe is not None
    assert probe.fields["width"] % probe.fields["heads"] == 0


def test_lists_that_belong_together_are_drawn_item_by_item() -> None:
    exploration = explored("Lists")
    changed = [draw_changes(exploration, 0.5) for _ in range(4000)]
    lists = [
        (changes["widths"], changes["kinds"], changes.get("num_stages", 3))
        for changes in changed
        if "widths" in changes and "kinds" in changes
    ]
    fitting = [widths for widths, kinds, stages in lists if stages == len(widths) == len(kinds)]
    assert {2, 3, 4, 5} <= {len(widths) for widths in fitting}
    neighbours = [pair for widths in fitting for pair in pairwise(widths)]
    assert sum(one == other for one, other in neighbours) > len(neighbours) / 4
    assert any(widths != sorted(widths) for widths in fitting)
    assert any(len(set(widths)) == len(widths) == 5 for widths in fitting)
    assert all(type(width) is int and width > 0 for widths in fitting for width in widths)


def test_lists_are_drawn_with_any_smaller_number_of_items() -> None:
    exploration = explored("Lists")
    exploration.findings.base["widths"] = [8, 12, 16, 20, 24]
    drawn = [drawn_lists(exploration) for _ in range(400)]
    assert {len(lists["widths"]) for lists in drawn if "widths" in lists} == {
        1,
        2,
        3,
        4,
        5,
        6,
        7,
        8,
    }


def test_drawn_sizes_keep_the_divisor_that_all_of_a_list_have() -> None:
    exploration = explored("Lists")
    exploration.findings.base["widths"] = [64, 96, 160]
    drawn = [drawn_lists(exploration).get("widths", []) for _ in range(100)]
    assert {width % 32 for widths in drawn for width in widths} == {0}


def test_a_pinned_list_keeps_its_value() -> None:
    exploration = explored("Lists")
    exploration.pin("widths")
    assert not any("widths" in draw_changes(exploration, 0.5) for _ in range(100))


def test_sizes_far_from_the_default_are_drawn_too() -> None:
    exploration = explored("Choices")
    default = exploration.findings.turns["vocab"].value
    drawn = {draw_changes(exploration, 1.0).get("vocab", default) for _ in range(400)}
    assert min(drawn) < default // 3
    assert max(drawn) > 5 * default


def test_a_strangers_config_that_is_refused_is_tried_without_its_lists(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn, tried = {"layers": 3, "types": ["full"]}, list[Any]()

    def try_out(changes: dict[str, Any]) -> str | None:
        tried.append(changes)
        return None if "types" in changes else "a probe"

    def sampled(*, of_a_stranger: bool) -> Any:
        tried.clear()
        subject = SimpleNamespace(is_explored_for_equals=of_a_stranger)
        exploration: Any = SimpleNamespace(try_out=try_out, subject=subject)
        return chance.sample(exploration)

    monkeypatch.setattr(chance, "draw_changes", lambda *_: drawn)
    assert sampled(of_a_stranger=True) == "a probe"
    assert tried == [drawn, {"layers": 3}]
    assert sampled(of_a_stranger=False) is None
    assert tried == [drawn] * len(chance.CHANCES)
