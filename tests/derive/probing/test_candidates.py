"""`derive.probing.candidates`: the values that are tried in place of a field's own."""

from typing import Any, Literal

import pytest

from weighbridge.derive.probing.candidates import values_for_none
from weighbridge.derive.probing.subject import Knob


@pytest.mark.parametrize(
    ("kind", "value", "tried"),
    [
        (int, 8, [0]),
        (int | None, 8, [None, 0]),
        (str | None, "relative", [None]),
        (Literal["relative", "rotary"], "relative", []),
        (Literal["relative", "rotary"] | None, "relative", [None]),  # printed as Optional[Literal…]
        (int | None, None, []),
    ],
    ids=str,
)
def test_null_is_tried_where_the_annotation_accepts_it(
    kind: Any, value: Any, tried: list[Any]
) -> None:
    annotation = kind.__name__ if isinstance(kind, type) else str(kind)
    assert list(values_for_none(Knob("kind", value, annotation), value)) == tried
