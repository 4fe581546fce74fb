"""Numbers of bytes: B after a long number, factors that are bytes, results in their unit."""

import pytest

from weighbridge.answers.audit import audit
from weighbridge.articles.text.tokens import tokens

RIGHT = {
    "plain bytes": "2 × 32 × 4096 × 2 B = 524,288 B",
    "plain and binary": "768 × 768 × 4 B = 2,359,296 B = 2.25 MiB",
    "divided": "109482240*4/1024/1024≈417.6MB",
    "divided by a power": "124,439,808 * 4 / 1024^2 = 474.7 MB",
    "bytes of a parameter": "124M*4B=496MB",
    "billions": "6.74 × 2 ≈ 13.5 GB",
    "billions with their unit": "7B × 2 = 14 GB, and 8B × 2 B = 16 GB",
}


@pytest.mark.parametrize("name", RIGHT)
def test_bytes_are_read(name: str) -> None:
    audited = audit(text=RIGHT[name])
    assert (audited.slips, audited.unread, audited.status) == ((), (), 0)
    assert {number.verdict for number in audited.numbers} == {"right"}


def test_a_wrong_number_of_bytes_is_a_slip() -> None:
    (slip,) = audit(text="2 × 32 × 4096 × 2 B = 524,388 B").slips
    assert (slip.stated, slip.correct) == ("524,388 B", "524,288")


UNREAD = {
    "109482240*4/1024/1024≈427.6MB": "far_apart",
    "124M*4B=469MB": "far_apart",
    "4*768*768 is 12 blocks": "unclear",
    "In Python, 5 ^ 3 = 6.": "exclusive_or",
}


@pytest.mark.parametrize("text", UNREAD)
def test_what_is_not_read_has_its_own_reason(text: str) -> None:
    audited = audit(text=text)
    assert [item.why for item in audited.unread] == [UNREAD[text]]


@pytest.mark.parametrize(
    ("text", "value", "is_bytes"),
    [
        ("524,288 B", 524_288, True),
        ("524288B", 524_288, True),
        ("175 B", 175 * 10**9, False),
        ("1,234.5 B", 1_234_500_000_000, False),
    ],
)
def test_a_long_number_before_b_counts_bytes(text: str, value: int, *, is_bytes: bool) -> None:
    (token,) = tokens(text, 1)
    assert token.number
    assert (token.number.value, bool(token.number.byte_scales)) == (value, is_bytes)
