"""Random configs: the same for the same seed, and made of fields that can be turned."""

from __future__ import annotations

from hard_to_explore import explored

from weighbridge.derive.probing.chance import draw_changes, sample, unseen


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
