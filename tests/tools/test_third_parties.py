"""The list of third-party modules, and how each is held; torch's own are derived and held here."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pytest
import third_parties
from third_parties import ThirdParty, built, first_difference, listed, outcome_of, shapes_of
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Callable

LISTED = {party.name: party for party in listed()}


def test_every_module_has_twenty_different_settings() -> None:
    for party in LISTED.values():
        assert len({repr(setting) for setting in party.settings}) == 20, party.name


def test_every_package_is_installed_from_the_list() -> None:
    packages = third_parties.tomllib.loads(third_parties.LISTED.read_text())["packages"]
    for party in LISTED.values():
        assert party.package in {*packages, "torch", "weighbridge"}, party.name


@pytest.mark.parametrize("name", ["torch MultiheadAttention"])
def test_a_module_of_torch_is_exact(name: str) -> None:
    outcome = outcome_of(LISTED[name], limit_seconds=200)
    assert (outcome.kind, outcome.settings, outcome.reason) == ("exact", 20, "")


def test_a_part_is_built_from_its_address_and_its_arguments() -> None:
    encoder = built(
        "torch.nn:TransformerEncoder",
        None,
        {
            "encoder_layer": "torch.nn:TransformerEncoderLayer",
            "encoder_layer.d_model": 8,
            "encoder_layer.nhead": 2,
            "num_layers": 3,
        },
    )
    assert shapes_of(encoder)["layers.2.linear2.bias"] == ((8,), None)


def test_ties_are_compared_too() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Linear(2, 2), nn.Linear(2, 2)
            self.two.weight = self.one.weight

    shapes = shapes_of(Tied())
    assert shapes["two.weight"] == ((2, 2), "one.weight")
    untied = {**shapes, "two.weight": ((2, 2), None)}
    assert first_difference(shapes, untied).startswith("two.weight is ((2, 2), 'one.weight')")
    assert first_difference(shapes, {}) == "one.weight is ((2, 2), None), weighed as None"


def a_module(settings: list[dict[str, Any]], **changed: Any) -> ThirdParty:
    given = {"in_features": 8, "out_features": 4}
    return ThirdParty("linear", "torch", "torch.nn:Linear", None, given, settings)._replace(
        **changed
    )


CASES: dict[str, tuple[ThirdParty, str, str]] = {
    "a wrong number": (a_module([{"bias": False}]), "wrong", "bias is None, weighed as ((5,)"),
    "a refused setting": (a_module([{"in_features": "x"}]), "refused", "setting 0"),
}


@pytest.mark.parametrize("case", CASES)
def test_what_a_setting_shows_is_the_outcome(
    case: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    party, kind, reason = CASES[case]
    path = tmp_path / "linear.toml"
    path.write_text("[defaults]\n")

    def weighed(*_: object) -> third_parties.Shapes:
        if kind == "refused":
            raise ValueError("in_features must be an integer")
        return {"weight": ((4, 8), None), "bias": ((5,), None)}

    monkeypatch.setattr(third_parties, "weighed_shapes", weighed)
    monkeypatch.setattr(third_parties, "built", lambda *_: nn.Linear(8, 4, bias=False))
    outcome = third_parties._held(party, path)
    assert outcome.kind == kind
    assert reason in outcome.reason


def test_a_module_that_cannot_be_derived_is_refused_with_the_reason() -> None:
    outcome = outcome_of(a_module([], address="torch.nn:Linearr"), limit_seconds=100)
    assert outcome.kind == "refused"
    assert "torch.nn has no attribute Linearr" in outcome.reason


def test_the_oracle_shares_no_code_with_derivation() -> None:
    oracle: tuple[Callable[..., Any], ...] = (built, shapes_of, third_parties._arguments)
    for function in oracle:
        assert "weighbridge" not in inspect.getsource(function)
