"""Which classes of transformers' tables belong to a family."""

from __future__ import annotations

import pytest

from weighbridge.derive.probing.reference import FamilySubject


@pytest.mark.parametrize(
    ("family", "class_name", "is_other"),
    [
        ("llama4", "Llama4TextModel", True),  # takes the config of the text model
        ("bert", "BertForMaskedLM", False),
        ("qwen2", "JevForDecision", True),  # is listed for several model types
    ],
)
def test_a_class_may_take_another_config(family: str, class_name: str, *, is_other: bool) -> None:
    subject = FamilySubject(family)
    assert class_name in subject.task_classes()
    assert subject.takes_other_config(class_name) is is_other
