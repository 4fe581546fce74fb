"""An object under an alias of a sub-config replaces the sub-config: CLIP's `text_config_dict`."""

from __future__ import annotations

from typing import Any

import pytest

from weighbridge.blueprint import law
from weighbridge.blueprint.schema import Blueprint
from weighbridge.errors import ConfigError
from weighbridge.models.fields import bind_fields, flattened, is_accounted

RAW: dict[str, Any] = {
    "format": 2,
    "family": "pair",
    "source": "a test",
    "class": "PairModel",
    "proof": {"by": "a test", "against": "a test", "configs": 1},
    "defaults": {"text.size": 8, "text.depth": 2},
    "configs": {"text": ""},
    "aliases": {"text_dict": "text"},
    "repeat": {"i": "text.depth"},
    "tensors": {"text.{i}.weight": "text.size"},
    "modules": {"text.{i}": "Norm"},
}
PAIR = Blueprint(RAW)


@pytest.mark.parametrize(
    ("config", "values"),
    [
        ({}, (8, 2)),
        ({"text": {"size": 4}}, (4, 2)),
        ({"text_dict": {"size": 4}}, (4, 2)),
        ({"text_dict": {"size": 4}, "text": {"depth": 3}}, (4, 2)),
        ({"text": {"depth": 3}, "text_dict": {}}, (8, 2)),
        ({"text": {"depth": 3}, "text_dict": None}, (8, 3)),
        ({"text": None, "text_dict": {"depth": 3}}, (8, 3)),
    ],
)
def test_an_object_replaces_the_sub_config(config: dict[str, Any], values: tuple[int, int]) -> None:
    given = dict(flattened(config, PAIR, "config.json"))
    fields = bind_fields(given, PAIR, "config.json", frozenset())
    assert (fields["text.size"], fields["text.depth"]) == values
    assert all(is_accounted(name, value, PAIR) for name, value in given.items())


def test_what_replaces_a_sub_config_must_be_an_object() -> None:
    with pytest.raises(ConfigError, match="text must be an object"):
        dict(flattened({"text_dict": 3}, PAIR, "config.json"))


def test_an_alias_may_name_a_sub_config() -> None:
    law.check(RAW)
