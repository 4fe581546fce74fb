"""What is no arithmetic although it has signs: units per something, and sets of shapes."""

import pytest

from weighbridge.answers.audit import audit

UNREAD_STEP = "256 sequences × 512 tokens = 128,000 tokens/batch for 1,000,000 steps"


def test_a_unit_per_something_is_no_division() -> None:
    audited = audit(text=f"{UNREAD_STEP}, which is approximately 40 epochs")
    assert audited.slips == ()
    assert [(item.text, item.why) for item in audited.unread] == [
        ("256 sequences * 512 = 128,000", "loose")  # thousands of 1,024
    ]


RIGHT = {
    "a rate": "256 sequences × 512 tokens = 131,072 tokens/batch for 1,000,000 steps",
    "bytes": "7B parameters × 16 bytes/parameter = 112 GB",
    "a division": "768 hidden/12 heads = 64",
    "a matrix": r"$W_q \in \mathbb{R}^{4096 \times 4096}$ has 4096 × 4096 = 16,777,216 weights",
    "a plain set": "W ∈ ℝ^{768×3072} has 768*3072 = 2,359,296 weights",
    "a plain shape": "W ∈ R^768×3072 has 768*3072 = 2,359,296 weights",
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_stands_beside_it_is_read(name: str) -> None:
    audited = audit(text=RIGHT[name])
    assert (audited.slips, audited.unread) == ((), ())
    assert audited.checked == 1


def test_a_slip_beside_it_is_found() -> None:
    (slip,) = audit(text="256 × 512 = 131,027 tokens/batch for 1,000,000 steps").slips
    assert (slip.stated, slip.correct) == ("131,027", "131,072")


def test_a_set_alone_is_no_arithmetic() -> None:
    audited = audit(text=r"$W_q \in \mathbb{R}^{4096 \times 4096}$, $b \in \mathbb R^{4096}$")
    assert (audited.slips, audited.unread, audited.checked) == ((), (), 0)


def test_latex_that_is_not_known_is_printed_as_an_ellipsis() -> None:
    audited = audit(text=r"$\frac{1}{ = 5 * 2$ and 2*3 = 6")
    assert audited.unread
    assert not any("\N{REPLACEMENT CHARACTER}" in item.text for item in audited.unread)
    assert "…" in audited.unread[0].text
