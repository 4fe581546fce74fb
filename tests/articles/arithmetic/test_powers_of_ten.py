"""A result that is written with a power of ten is rounded to the digits that it shows."""

import pytest

from weighbridge.answers.audit import audit
from weighbridge.articles import examine
from weighbridge.articles.arithmetic.checks import Findings
from weighbridge.articles.text.source import Source
from weighbridge.articles.text.tokens import tokens


def examined(text: str) -> Findings:
    return examine(Source("the text", text, "utf-8", html=False)).findings


RIGHT = {
    "raised digits": "12 × 96 × 12288² = 1.74 × 10¹¹",
    "a dot": "12 · 96 · 12288² = 1.74 · 10^11",
    "asterisks": "12 * 96 * 12288**2 = 1.74*10**11",
    "an x": "12 x 96 x 12288^2 = 1.74 x 10^11 parameters",
    "in a word": "12 × 96 × 12288² is 1.74 times 10^(11).",
    "LaTeX": r"$12 \times 96 \times 12288^2 = 1.74\cdot 10^{11}$",
    "a lost power": "12 × 96 × 12288² = 1.74 × 1011",
    "nearly": "12 × 96 × 12288² ≈ 1.74 × 10¹¹",
    "stated first": "1.74 × 10¹¹ = 12 × 96 × 12288²",
    "in brackets": "12 × 96 × 12288² = 173,946,175,488 (1.74 × 10¹¹)",
    "two numbers": "1.74 × 10¹¹ = 173,946,175,488",
    "one digit": "12 × 96 × 12288² = 2 × 10¹¹, and 6 * 70e9 * 1.4e12 = 6e23",
    "operands too": r"$6 \times 6.74\times10^9 \times 2\times10^{12} = 8.1\times10^{22}$",
    "operands without a point": "6 × 70×10^9 × 1.4×10^12 = 5.9×10^23",
    "another exponent": "6×174.6×10^9×300×10^9 = 3.14×10^23 = 314×10^21",
    "an operand first": "1.0227×10^8 × 2 = 2.05×10^8",
    "rounded operands": "6 × 175×10^9 × 300×10^9 = 3.14×10^23",
    "below one": "3 / 1000 = 3 × 10^-3 = 3 × 10^{-3}",
    "exact": "12 × 10^6 = 12,000,000",
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_rounded_result_is_right(name: str) -> None:
    audited = examined(RIGHT[name])
    assert (audited.slips, audited.unread) == ((), ())
    assert audited.checked


WRONG = {
    "raised digits": ("12 × 96 × 12288² = 1.84 × 10¹¹", "1.84 × 10^11", "173,946,175,488"),
    "nearly": ("12 × 96 × 12288² ≈ 1.84 × 10¹¹", "1.84 × 10^11", "173,946,175,488"),
    "stated first": ("1.84 · 10^11 = 12 × 96 × 12288²", "1.84 × 10^11", "173,946,175,488"),
    "an exact result": ("12 × 96 × 10^3 = 1,152,001", "1,152,001", "1,152,000"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_one_is_a_slip(name: str) -> None:
    text, stated, correct = WRONG[name]
    assert [(slip.stated, slip.correct) for slip in examined(text).slips] == [(stated, correct)]


UNREAD = {
    "a lost power": "12 × 96 × 12288² = 1.84 × 1011",
    "two numbers": "7 × 10^9 = 6,738,415,616",
}


@pytest.mark.parametrize("name", UNREAD)
def test_one_in_doubt_is_unread(name: str) -> None:
    audited = examined(UNREAD[name])
    assert (audited.slips, audited.checked, len(audited.unread)) == ((), 0, 1)


@pytest.mark.parametrize("text", ["10^2×10^3", "2^5×10^3", "2×10^3^2", "2×10^x", "2×10^(3", "8/10"])
def test_other_powers_are_left_as_they_are(text: str) -> None:
    assert not any(token.number and token.number.is_power for token in tokens(text, 1))


def test_a_total_with_rounded_operands_follows_from_no_slip() -> None:
    audited = audit(text="6 × 175×10^9 × 300×10^9 = 3.14×10^23")
    assert [verdict.verdict for verdict in audited.numbers] == ["right"] * 4
    assert audited.total
    assert audited.total.stated == audited.total.mended


def test_its_number_is_marked_in_the_article() -> None:
    marked = audit(text="12 × 96 × 12288² = 1.84 × 10¹¹").markdown()
    assert "= **1.84**[^" in marked
