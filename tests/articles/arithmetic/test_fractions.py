"""A whole number may be written for a fraction between whole numbers; fractions are readable."""

import pytest

from weighbridge.answers.audit import Audit, audit


def of_llama(text: str) -> Audit:
    return audit(text=f"Llama 2 7B, hidden size 4096. {text}")


RIGHT = {
    "rounded": r"$\frac{8}{3} \times 4096 = 10923$",
    "cut off": "int(8/3 × 4096) is 8/3 × 4096 = 10,922",
    "with decimals": "8/3 × 4096 = 10922.67",
    "the last step": "1000/3 = 334 steps",
    "used again": "d = 8/3 × 4096 = 10923, and 3 × 4096 × d = 134,221,824",
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_whole_number_beside_a_fraction_is_right(name: str) -> None:
    audited = of_llama(RIGHT[name])
    assert (audited.slips, audited.status) == ((), 0)
    assert not audited.total or audited.total.stated == audited.total.mended


def test_a_wrong_one_is_a_slip_with_a_readable_value() -> None:
    audited = of_llama("8/3 × 4096 = 10933")
    (slip,) = audited.slips
    assert (slip.stated, slip.correct) == ("10933", "10,922.67")
    assert "Off by +10.33." in str(audited)
