"""What a blueprint covers, and the notes on configs that leave it."""

from __future__ import annotations

from typing import Any

import pytest
from made_up import blueprint

from weighbridge.answers.weigh import Weighing, weigh
from weighbridge.blueprint.schema import Blueprint
from weighbridge.errors import ConfigError
from weighbridge.models.coverage import held_fields
from weighbridge.models.find import bound, find

LINE = "modeling_made_up.py: Base.__init__: `self.proj = nn.Linear(config.width, config.odd)`"


def with_holes(*holes: str, **parts: Any) -> Blueprint:
    raw = blueprint(
        "leaky", defaults={"width": 4, "depth": 2}, tensors={"w": "width depth"}, **parts
    )
    return Blueprint({**raw, "proof": {**raw["proof"], "holes": list(holes)}})


def test_fields_that_are_held_are_those_of_one_value() -> None:
    held = with_holes("only one value of depth is covered", require=["width == 4"])
    assert held_fields(held) == {"width": 4, "depth": 2}
    assert held_fields(with_holes(require=["width % 2 == 0", "width == depth * 2"])) == {}


@pytest.mark.parametrize(
    ("hole", "config", "is_touched"),
    [
        (LINE, {"odd": 3}, True),
        (LINE, {"odd": False}, False),
        (LINE, {"width": 8}, False),
        (LINE, {"other": 8}, False),
        ("only one value of depth is covered", {"depth": 3}, True),
        ("only one value of depth is covered", {"depth": 2}, False),
        ("Other could not be built: config.odd is missing", {"odd": 3}, False),
    ],
)
def test_a_hole_is_noted_if_the_config_touches_it(
    hole: str, config: dict[str, int], is_touched: bool
) -> None:
    weighing = Weighing(bound(config, with_holes(hole), "leaky"), "Base")
    notes = [note for note in weighing.notes if "has a hole" in note]
    assert [hole in note for note in notes] == [True] * is_touched
    assert weighing.to_dict()["notes"] == weighing.notes


def test_a_backbone_with_other_stages_is_noted() -> None:
    config = {"model_type": "resnet", "out_features": ["stage2"]}
    assert weigh(config).notes == []
    (note,) = weigh(config, "ResNetBackbone").notes
    assert "only at its default stages" in note
    with pytest.raises(ConfigError, match="only at its default stages"):
        weigh(config, "ResNetBackbone", strict=True)


@pytest.mark.parametrize("stages", [{"out_features": ["stage2"]}, {"out_indices": [2]}], ids=str)
def test_stages_that_were_proved_to_change_nothing_are_not_noted(stages: dict[str, Any]) -> None:
    assert weigh({"model_type": "swinv2", **stages}, "Swinv2Backbone").notes == []


def test_a_strict_weighing_refuses_what_a_hole_may_concern() -> None:
    held = with_holes("only one value of depth is covered")
    assert find({"depth": 2}, strict=True, blueprint=lambda *_: held).fields["depth"] == 2
    assert find({"depth": 3}, blueprint=lambda *_: held).fields["depth"] == 3
    with pytest.raises(ConfigError, match="has a hole, and this config may concern it"):
        find({"depth": 3}, strict=True, blueprint=lambda *_: held)


def test_a_strict_weighing_refuses_texts_that_no_config_proved() -> None:
    texts = {"values": {"mode": ["plain"]}, "inert": ["mode"]}
    open_to = with_holes(**texts)
    assert find({"mode": "plain"}, strict=True, blueprint=lambda *_: open_to)
    with pytest.raises(ConfigError, match="ignored fields, with no known effect: mode"):
        find({"mode": "odd"}, strict=True, blueprint=lambda *_: open_to)


def test_a_line_behind_a_guard_is_no_hole() -> None:
    guarded = with_holes(LINE, guards={"width < 9": LINE})
    weighing = Weighing(bound({"odd": 3}, guarded, "leaky"), "Base")
    assert [note for note in weighing.notes if "has a hole" in note] == []


def test_what_saving_writes_is_no_news() -> None:
    config = {"model_type": "deepseek_v3", "qk_head_dim": 192, "id2label": {"0": "A", "1": "B"}}
    assert weigh(config).notes == []
    assert weigh(config, strict=True).notes == []
    (note,) = weigh({**config, "qk_head_dims": 192}).notes
    assert "qk_head_dims" in note
