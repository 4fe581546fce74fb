"""`derive.probing.alias_times`: when config classes of transformers read other names."""

import pytest

from weighbridge.derive.probing.alias_times import flat_aliases, late_aliases
from weighbridge.derive.probing.reference import FamilySubject


@pytest.mark.parametrize(
    ("family", "aliases", "late"),
    [
        (
            "t5",
            {"num_hidden_layers": "num_layers", "hidden_size": "d_model"},
            ["num_hidden_layers"],
        ),
        ("gpt2", {"num_hidden_layers": "n_layer", "hidden_size": "n_embd"}, []),
    ],
)
def test_an_alias_is_late_if_other_fields_keep_their_defaults(
    family: str, aliases: dict[str, str], late: list[str]
) -> None:
    assert late_aliases(FamilySubject(family), aliases) == late


def test_older_names_are_not_read_beside_a_sub_config() -> None:
    aliases = {"hidden_size": "text_config.hidden_size", "vision_token_id": "image_token_id"}
    assert flat_aliases(FamilySubject("qwen2_vl"), aliases, ["text_config"]) == ["hidden_size"]
