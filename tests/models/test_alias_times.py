"""Other names of fields count when the reference reads them: at once, later, or not at all."""

import pytest

from weighbridge.blueprint import law
from weighbridge.blueprint.schema import Blueprint
from weighbridge.errors import BlueprintError
from weighbridge.models.fields import bind_fields

RAW = {
    "format": 2,
    "family": "two",
    "source": "a test",
    "class": "TwoModel",
    "proof": {"by": "a test", "against": "a test", "configs": 1},
    "late": ["layers"],
    "flat": ["width"],
    "defaults": {"depth": 6, "text.size": 8},
    "configs": {"text": ""},
    "aliases": {"layers": "depth", "n_layer": "depth", "width": "text.size"},
    "computed": {"decoder_depth": "depth"},
    "repeat": {"i": "depth", "j": "decoder_depth"},
    "tensors": {"encoder.{i}.weight": "text.size", "decoder.{j}.weight": "text.size"},
    "modules": {"encoder.{i}": "Norm", "decoder.{j}": "Norm"},
}


@pytest.mark.parametrize(
    ("config", "depths"),
    [
        ({}, (6, 6)),
        ({"depth": 3}, (3, 3)),
        ({"n_layer": 3}, (3, 3)),
        ({"layers": 3}, (3, 6)),
        ({"layers": 3, "decoder_depth": 2}, (3, 2)),
    ],
)
def test_a_late_alias_leaves_computed_fields_alone(
    config: dict[str, object], depths: tuple[int, int]
) -> None:
    fields = bind_fields(config, Blueprint(RAW), "config.json", frozenset())
    assert (fields["depth"], fields["decoder_depth"]) == depths


@pytest.mark.parametrize(
    ("config", "size"),
    [
        ({"width": 16}, 16),
        ({"width": 16, "text": {}}, 8),
        ({"width": 16, "text": {}, "text.size": 4}, 4),
        ({"width": 16, "text": None}, 16),
    ],
)
def test_a_flat_alias_counts_where_the_sub_config_is_absent(
    config: dict[str, object], size: int
) -> None:
    fields = bind_fields(config, Blueprint(RAW), "config.json", frozenset())
    assert fields["text.size"] == size


@pytest.mark.parametrize("part", ["late", "flat"])
def test_only_aliases_are_read_late_or_flat(part: str) -> None:
    with pytest.raises(BlueprintError, match=f"{part}: depth is not an alias"):
        law.check({**RAW, part: ["depth"]})
