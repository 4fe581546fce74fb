"""`derive.alias_proof`: an alias under which a blueprint is wrong is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from weighbridge.blueprint.schema import load
from weighbridge.derive.alias_proof import refuse_wrong_aliases
from weighbridge.derive.passes import CandidateBlueprint
from weighbridge.derive.probing.reference import FamilySubject

if TYPE_CHECKING:
    from collections.abc import Mapping

CLIP = load("clip").raw
ALIASES = {**CLIP.get("aliases", {}), "text_config_dict": "text_config"}


class _Updating(FamilySubject):
    """A CLIP whose `text_config_dict` changes only the fields that it holds."""

    def bare_config(self, values: Mapping[str, Any]) -> Any:
        values = dict(values)
        beside = values.pop("text_config_dict", {})
        values["text_config"] = {**values.get("text_config", {}), **beside}
        return super().bare_config(values)


@pytest.mark.parametrize(
    ("subject", "is_refused"), [(FamilySubject("clip"), False), (_Updating("clip"), True)]
)
def test_an_object_that_replaces_only_some_fields_is_refused(
    subject: FamilySubject, *, is_refused: bool
) -> None:
    raw = refuse_wrong_aliases(CandidateBlueprint({**CLIP, "aliases": ALIASES}), subject).raw
    assert ("text_config_dict" in raw.get("beyond", ())) is is_refused
    assert ("text_config_dict" in raw["aliases"]) is not is_refused
