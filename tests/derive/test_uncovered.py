"""Every model type of transformers has a blueprint, or a reason why not."""

from __future__ import annotations

from itertools import chain

import pytest

from weighbridge import data
from weighbridge.answers.families import Families
from weighbridge.blueprint import schema
from weighbridge.derive.probing.reference import model_types
from weighbridge.errors import ModelError
from weighbridge.models import find

REASONS = data.read_toml("facts/uncovered.toml")


def test_a_model_type_without_a_blueprint_has_a_reason() -> None:
    reasoned = list(chain.from_iterable(REASONS.values()))
    assert len(reasoned) == len(set(reasoned))
    assert set(reasoned) == set(model_types()) - set(schema.families())


@pytest.mark.parametrize("reason", REASONS)
def test_the_reason_is_in_the_message_and_in_the_list(reason: str) -> None:
    family = REASONS[reason][0]
    with pytest.raises(ModelError) as caught:
        find.find({"model_type": family})
    assert caught.value.hint is not None
    assert caught.value.hint.startswith(f"{reason}; ")
    listed = " ".join(Families().text().split())
    assert f"No blueprint, because {reason}: {', '.join(REASONS[reason])}." in listed
