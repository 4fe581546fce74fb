"""`derive.zero_proof`: a count may be zero where the reference builds such a model as predicted."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any

import pytest

from weighbridge.derive.derivation import derive
from weighbridge.derive.learning import learn_class
from weighbridge.derive.passes import CandidateBlueprint
from weighbridge.derive.probing.own import OwnSubject
from weighbridge.derive.zero_proof import allow_zeros

if TYPE_CHECKING:
    from collections.abc import Mapping

    from weighbridge.derive.probing.probe import Probe

ADDRESS = "own_models.empty_parts"


class Replacing(OwnSubject):
    """Code that has two experts in place of none."""

    def probe(self, class_name: str, changes: Mapping[str, Any], *, labels: bool = True) -> Probe:
        built = super().probe(
            class_name,
            {**changes, "num_experts": changes.get("num_experts", 4) or 2},
            labels=labels,
        )
        return built._replace(changes=changes)


class Refusing(OwnSubject):
    """Code that refuses to have no experts."""

    def probe(self, class_name: str, changes: Mapping[str, Any], *, labels: bool = True) -> Probe:
        if changes.get("num_experts") == 0:
            raise ValueError("no experts")
        return super().probe(class_name, changes, labels=labels)


def subject(kind: type[OwnSubject]) -> OwnSubject:
    return kind(f"{ADDRESS}:Parts", f"{ADDRESS}:PartsConfig")


def test_no_experts_are_derived_and_no_heads_are_not() -> None:
    assert tomllib.loads(derive(subject(OwnSubject)).text)["zero"] == ["num_experts"]


@pytest.mark.parametrize(
    ("kind", "zero"), [(OwnSubject, ["num_experts"]), (Replacing, []), (Refusing, [])]
)
def test_zero_is_accepted_where_the_reference_builds_what_is_predicted(
    kind: type[OwnSubject], zero: list[str]
) -> None:
    plain = subject(OwnSubject)
    raw = tomllib.loads(derive(plain).text) | {"zero": []}
    learned = learn_class(plain, plain.base_class)
    assert allow_zeros(CandidateBlueprint(raw), subject(kind), [learned]).raw["zero"] == zero
