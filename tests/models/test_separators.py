"""A list of texts that a config gives as one text: DeBERTa's `"c2p|p2c"`."""

from __future__ import annotations

from typing import Any

import pytest

from weighbridge.blueprint import law
from weighbridge.blueprint.schema import Blueprint
from weighbridge.errors import BlueprintError, ConfigError
from weighbridge.models.fields import bind_fields

RAW: dict[str, Any] = {
    "format": 2,
    "family": "terms",
    "source": "a test",
    "class": "TermsModel",
    "proof": {"by": "a test", "against": "a test", "configs": 1},
    "nullable": ["kinds"],
    "values": {"kinds": ["c2p", "p2c"]},
    "separators": {"kinds": "|"},
    "defaults": {"size": 8},
    "computed": {"kinds": "null"},
    "tensors": {"weight": "size", "key": "size"},
    "when": {"key": "kinds != null and 'c2p' in kinds"},
}


@pytest.mark.parametrize(
    ("given", "items"),
    [
        ("c2p|p2c", ("c2p", "p2c")),
        ("p2c", ("p2c",)),
        (["c2p", "p2c"], ("c2p", "p2c")),
        (None, None),
    ],
)
def test_a_list_may_be_one_text(given: object, items: object) -> None:
    fields = bind_fields({"kinds": given}, Blueprint(RAW), "config.json", frozenset())
    assert fields["kinds"] == items


@pytest.mark.parametrize("given", ["c2p,p2c", "c2p | p2c", "c2p|", ""])
def test_other_texts_are_refused(given: str) -> None:
    with pytest.raises(ConfigError, match="covers kinds only as 'c2p' or 'p2c'"):
        bind_fields({"kinds": given}, Blueprint(RAW), "config.json", frozenset())


def test_a_separator_belongs_to_a_field() -> None:
    law.check(RAW)
    with pytest.raises(BlueprintError, match="separators: sorts is not a field"):
        law.check({**RAW, "separators": {"sorts": "|"}})
