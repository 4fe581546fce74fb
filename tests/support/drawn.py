"""Ledgers of the made-up models, drawn by hypothesis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from made_up import ALL

from weighbridge.algebra.expr import evaluate
from weighbridge.blueprint.schema import Blueprint
from weighbridge.ledger.ledger import Ledger, bind

if TYPE_CHECKING:
    from collections.abc import Mapping

BLUEPRINTS = {family: Blueprint(raw) for family, (raw, _) in ALL.items()}


def bound(family: str, fields: Mapping[str, Any], class_name: str = "Base") -> Ledger:
    """Return the ledger of a made-up model whose computed fields follow from the others."""
    found = {**ALL[family][0]["defaults"], **fields}
    for name, tree in BLUEPRINTS[family].computed.items():
        found[name] = evaluate(tree, found)
    return bind(BLUEPRINTS[family], class_name, found)


sizes = st.integers(1, 4)
stages = st.fixed_dictionaries(
    {
        "width": sizes,
        "depths": st.lists(st.integers(1, 3), min_size=1, max_size=4),
        "ratio": st.sampled_from([1.1, 2.5, 4.0, 1.7, 3]),
        "relative": st.booleans(),
        "window": sizes,
        "shift": st.integers(0, 2),
    }
)
experts = st.fixed_dictionaries(
    {
        **dict.fromkeys(("width", "layers", "experts", "experts_per_token", "hidden"), sizes),
        "first_dense": st.integers(-1, 6),
        "shared": st.integers(0, 2),
        "low_rank": st.none() | sizes,
    }
)
shared = st.fixed_dictionaries(
    {"width": sizes, "layers": sizes, "groups": sizes, "share": st.booleans()}
)
ledgers = (
    st.builds(lambda fields: bound("stages", fields), stages)
    | st.builds(
        lambda fields, name: bound("experts", fields, name),
        experts,
        st.sampled_from(["Base", "Head", "Alone"]),
    )
    | st.builds(lambda fields: bound("shared", fields), shared)
)
bases = ledgers.filter(lambda ledger: ledger.class_name == "Base")
