"""Guards of a blueprint: configs that would run code which no probe reached are refused."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

from weighbridge import data
from weighbridge.blueprint import law
from weighbridge.blueprint.guards import check_guards
from weighbridge.blueprint.schema import Blueprint
from weighbridge.errors import BlueprintError, ConfigError
from weighbridge.ledger.ledger import bind
from weighbridge.models.find import bound

LINE = "modeling_bert.py: Head.__init__: `self.more = nn.Linear(2, 2)`"
HEAD = "BertForTokenClassification"


def guarded(rule: str, class_name: str = "") -> dict[str, Any]:
    """Return BERT's blueprint with a guard, of a class or of the family."""
    raw: dict[str, Any] = copy.deepcopy(dict(data.read_toml("blueprints/bert.toml")))
    section = raw["classes"][class_name] if class_name else raw
    section["guards"] = {rule: LINE}
    law.check(raw)
    return raw


def test_a_guard_of_the_family_refuses_every_class() -> None:
    blueprint = Blueprint(guarded("hidden_size < 1000"))
    assert bound({"hidden_size": 996}, blueprint, "a config").fields["hidden_size"] == 996
    with pytest.raises(ConfigError) as caught:
        bound({"hidden_size": 1200}, blueprint, "a config")
    assert str(caught.value) == (
        "a config: the blueprint of bert covers only configs with hidden_size < 1000, because no "
        f"probe reached {LINE} (hidden_size = 1200). Count it with --via transformers, if "
        "transformers is installed."
    )


def test_a_guard_of_a_class_refuses_only_that_class() -> None:
    blueprint = Blueprint(guarded("num_labels < 10", HEAD))
    fields = bound({"num_labels": 13}, blueprint, "a config").fields
    assert bind(blueprint, "BertForSequenceClassification", fields).parameters > 0
    with pytest.raises(ConfigError, match=f"the blueprint of {HEAD} covers only configs with num"):
        bind(blueprint, HEAD, fields)


def test_a_guard_without_a_value_refuses() -> None:
    with pytest.raises(ConfigError, match="width < 4"):
        check_guards({"width < 4": LINE}, {"width": None}, "own")


def test_a_guard_holds_for_every_element_of_an_array() -> None:
    check_guards({"width < 4": LINE}, {"width": np.array([1, 2, 3])}, "own")
    with pytest.raises(ConfigError, match="width < 4"):
        check_guards({"width < 4": LINE}, {"width": np.array([1, 2, 4])}, "own")


@pytest.mark.parametrize(
    ("rule", "breach"),
    [
        ("hidden_size <", "expressions: guards"),
        ("unheard_of == 1", "names: guards: unheard_of has no default"),
        ("hidden_size > 10000", "defaults hold: hidden_size > 10000 is false for the defaults"),
    ],
)
def test_a_guard_obeys_the_law(rule: str, breach: str) -> None:
    with pytest.raises(BlueprintError, match=breach):
        guarded(rule)
