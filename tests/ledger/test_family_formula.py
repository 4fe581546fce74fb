"""The formula of a family gives the total of every config, whatever decides its tensors."""

from __future__ import annotations

import random
from fractions import Fraction
from math import prod

import pytest

import weighbridge as wb
from weighbridge.algebra.expr import evaluate, is_number, source
from weighbridge.blueprint.schema import families, load
from weighbridge.ledger.family_formula import family_formula
from weighbridge.ledger.whole import terms_by_component

SAMPLE = 60
TOO_LONG = {
    "align": "at most 2000 characters",
    "efficientnet": "at most 2000 characters",
    "zamba2": "at most 10,000 rounds",
}
"""The families of which an expression has too many characters, or a loop too many rounds."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "family" in metafunc.fixturenames:
        drawn = random.Random(f"{metafunc.config.option.seed} formula")  # noqa: S311
        sampled = drawn.sample(families(), SAMPLE)
        metafunc.parametrize("family", sorted({*sampled, "bert", "deepseek_v3", "kimi_linear"}))


def value(cases: object, fields: object) -> int:
    """Evaluate the cases whose conditions hold."""
    total = 0
    for conditions, count in cases.items():  # type: ignore[attr-defined]
        if all(evaluate(condition, fields) for condition in conditions):
            total += count(**fields)
    return total


@pytest.mark.sampled("src/weighbridge/ledger", "src/weighbridge/algebra")
@pytest.mark.parametrize("decided", [True, False], ids=["flags decided", "all letters"])
def test_it_is_the_total_of_the_defaults(family: str, decided: bool) -> None:
    blueprint = load(family)
    for class_name in blueprint.class_names[:2]:
        ledger = wb.weigh(family, class_name).ledger
        constants = {}
        if decided:
            constants = {name: v for name, v in ledger.fields.items() if not is_number(v)}
        if family in TOO_LONG:
            with pytest.raises(wb.WeighbridgeError, match=TOO_LONG[family]):
                value(family_formula(blueprint, class_name).cases, ledger.fields)
            continue
        found = family_formula(blueprint, class_name, constants)
        active = family_formula(blueprint, class_name, constants, active=True)
        assert value(found.cases, ledger.fields) == ledger.parameters
        assert value(active.cases, ledger.fields) == ledger.active
        assert all(evaluate(rule, ledger.fields) for rule in found.rules)


@pytest.mark.parametrize("first", [0, 1, 3, 9, 70])
def test_it_counts_the_first_layers_at_any_number(first: int) -> None:
    found = family_formula(load("deepseek_v3"), "DeepseekV3Model")
    for layers in (1, 4, 9):
        fields = {"first_k_dense_replace": first, "num_hidden_layers": layers}
        weighed = wb.weigh("deepseek_v3", "DeepseekV3Model", fields=fields)
        assert value(found.cases, weighed.ledger.fields) == weighed.parameters


@pytest.mark.parametrize("first", [0, 3, 70])
def test_the_terms_of_components_come_from_the_same_writer(first: int) -> None:
    """Other numbers of layers need no other terms, and no term has a loop."""
    blueprint = load("deepseek_v3")
    known = wb.weigh("deepseek_v3", "DeepseekV3Model").ledger
    terms = terms_by_component(blueprint, "DeepseekV3Model", known.fields)
    trees = [tree for of_one in terms.values() for term in of_one for tree, _ in term.factors]
    assert not any("for i in" in source(tree) for tree in trees)
    fields = {"first_k_dense_replace": first, "num_hidden_layers": 9}
    weighed = wb.weigh("deepseek_v3", "DeepseekV3Model", fields=fields).ledger
    total = Fraction(0)
    for term in (term for of_one in terms.values() for term in of_one):
        if all(evaluate(condition, weighed.fields) for condition in term.conditions):
            factors = [Fraction(evaluate(tree, weighed.fields)) ** n for tree, n in term.factors]
            total += term.coefficient * prod(factors)
    assert total == weighed.parameters
