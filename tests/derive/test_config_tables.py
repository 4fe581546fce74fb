"""`derive.config_tables`: what a blueprint says about the config of its family."""

from __future__ import annotations

import pytest

from weighbridge.derive.config_tables import item_separators
from weighbridge.derive.probing.reference import FamilySubject


@pytest.mark.parametrize(
    ("family", "texts", "separators"),
    [
        ("deberta", {"pos_att_type": ["c2p", "p2c"]}, {"pos_att_type": "|"}),
        ("deberta-v2", {"pos_att_type": ["c2p"]}, {"pos_att_type": "|"}),
        ("gemma2", {"layer_types": ["full_attention", "sliding_attention"]}, {}),
        ("bert", {"hidden_act": ["gelu", "relu"]}, {}),
    ],
)
def test_a_text_is_a_list_where_the_config_class_splits_it(
    family: str, texts: dict[str, list[str]], separators: dict[str, str]
) -> None:
    assert item_separators(FamilySubject(family), texts) == separators
