"""What is known about a class: kept probes, counted configs, pinned fields."""

from __future__ import annotations

from hard_to_explore import explored, explored_once

from weighbridge.derive.probing.chance import unseen
from weighbridge.derive.probing.probe import quick_building


def test_kept_probes_are_distinguished_by_their_tensors() -> None:
    exploration = explored_once("Choices")
    outlines = [repr(probe.outline) for probe in exploration.probes]
    assert len(outlines) > len(set(outlines)) > 10
    assert not any(map(exploration.is_new, exploration.probes))
    with quick_building():
        seen, new = (exploration.subject.probe("Choices", {"width": width}) for width in (64, 4096))
    assert not exploration.is_new(seen._replace(tensors=exploration.probes[0].tensors))
    assert exploration.is_new(new)


def test_a_config_that_is_refused_is_counted_with_its_reason() -> None:
    exploration = explored("Choices")
    tried, refused = exploration.budget.tried, exploration.budget.refused
    assert exploration.try_out({"version": "v2"}) is None
    assert exploration.error == "ValueError: no such version"
    assert (exploration.budget.tried, exploration.budget.refused) == (tried + 1, refused + 1)
    exploration.budget.most_tried = 2 * exploration.budget.tried
    assert exploration.budget.share_left == 0.5


def test_a_pinned_field_keeps_its_default() -> None:
    exploration = explored("Choices")
    with quick_building():
        exploration.pin("width")
        assert {probe.fields["width"] for probe in exploration.probes} == {32}
        assert "width" not in exploration.findings.active | exploration.findings.turns.keys()
        assert {changes.get("width", 32) for changes in unseen(exploration, 10)} == {32}
        assert exploration.try_out({"width": 64}) is None
        assert exploration.try_out({"width": 32, "heads": 2}) is not None
    assert exploration.fixed == {"version": "v1", "rounds": 2, "width": 32}


def test_changes_that_contain_a_pinned_field_are_forgotten() -> None:
    choices, lists = explored("Choices"), explored("Lists")
    choices.pin("wide")
    lists.pin("kinds")
    assert (choices.findings.together, lists.findings.groups, lists.findings.alphabets) == (
        [],
        [],
        {},
    )


def test_some_more_configs_are_tried_after_a_field_is_pinned() -> None:
    exploration = explored("Lists")
    exploration.budget.most_tried = exploration.budget.tried
    assert exploration.budget.share_left <= 0
    exploration.pin("kinds")
    assert exploration.budget.share_left > 0


def test_bounds_of_loops_are_pinned_before_fields_in_questions() -> None:
    with quick_building():
        primes, choices = explored("Primes"), explored("Choices")
    assert primes.pinnable == ["buckets", "depth", "bias"]
    assert "layers" not in choices.pinnable, "it was reduced, so it is not at its default"
    assert {"width", "heads"} <= set(choices.pinnable)
    assert {probe.fields["buckets"] for probe in primes.without("buckets")} == {20}
    assert 0 < len(primes.without("buckets")) < len(primes.probes)


def test_a_field_is_pinned_though_some_configs_have_no_such_field() -> None:
    exploration = explored("Choices")
    *others, last = exploration.probes
    without_field = {path: value for path, value in last.fields.items() if path != "width"}
    exploration.probes = [*others, last._replace(fields=without_field)]
    exploration.pin("width")
    assert exploration.probes[-1].fields == without_field
