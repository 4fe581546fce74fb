"""`articles.arithmetic.grammar`: what the sentences of an article call equal."""

import pytest

from weighbridge.articles.arithmetic.grammar import MOST_TOKENS, Statement, Unread, statements
from weighbridge.articles.text.token import Token
from weighbridge.articles.text.tokens import tokens


def read(text: str) -> list[Statement | Unread]:
    line_tokens: list[Token] = []
    for number, line in enumerate(text.split("\n"), start=1):
        line_tokens += [*tokens(line, number), Token("separator", "\n", number)]
    return list(statements(line_tokens))


def written(text: str) -> list[str]:
    """Return each statement as a text: its label in brackets, its sides and its relations."""
    lines = []
    for item in read(text):
        assert isinstance(item, Statement)
        line = f"[{item.label}] {item.sides[0].text}"
        for relation, side in zip(item.relations, item.sides[1:], strict=True):
            line += f" {relation} {side.text}"
        lines.append(line)
    return lines


STATEMENTS = {
    "It has 2*3 = 6 weights.": ["[It has] 2*3 = 6"],
    "2*3 equals 6": ["[] 2*3 = 6"],
    "2*3, which is equal to 6": ["[] 2*3 = 6"],
    "2*3 is about 6": ["[] 2*3 about 6"],
    "2*3 is exactly 6": ["[] 2*3 is 6"],
    "2*3 is = 6": ["[] 2*3 = 6"],
    "2*3 is ≈ 6": ["[] 2*3 ≈ 6"],
    "2×3 等于 6": ["[] 2*3 = 6"],
    "4*5 = 2*10 = 20": ["[] 4*5 = 2*10 = 20"],
    "12*5\n= 60": ["[] 12*5 = 60"],
    "2\n+ 4 = 6": ["[] 2 + 4 = 6"],
    "H: 768": ["[] H = 768"],
    "| FFN | 2*5 | 10 |": ["[FFN] 2*5 = 10"],
    "A = 12 L = 24": ["[] A = 12", "[] L = 24"],
    "With H = 768 it is 4H = 3072": ["[With] H = 768", "[With] 4H = 3072"],
    "5*20 = 100 (0.1k)": ["[] 5*20 = 100 ≈ 0.1k"],
    "5*20 = 100 (≈ 0.1k)": ["[] 5*20 = 100 ≈ 0.1k"],
    "768*3072 (the 4H of the paper) + 3072 = 5": ["[] 768*3072 + 3072 = 5"],
    "about 5*7 words": ["[] 5*7"],
}


@pytest.mark.parametrize("text", STATEMENTS)
def test_a_statement_has_sides_relations_and_a_label(text: str) -> None:
    assert written(text) == STATEMENTS[text]


UNREAD = {
    "softmax(2*3) = 6": "not_read",
    "√4 = 2": "sign",
    "5 * (2 * 3 = 30": "bracket",
    "2*3 = 1,0226,7648": "grouping",
    "2 * 3 GFLOPs = 6": "operations",
    "\ufffd = 5": "latex",
}


@pytest.mark.parametrize("text", UNREAD)
def test_arithmetic_that_cannot_be_read_has_a_reason(text: str) -> None:
    reasons = [item.why for item in read(text) if isinstance(item, Unread)]
    assert reasons == [UNREAD[text]]


def test_prose_states_nothing() -> None:
    assert read("BERT is a model of 12 layers, as the paper says.")[1:] == []
    assert read("It reads (and writes) books; it is good.") == []


def test_a_segment_that_is_too_long_is_not_read() -> None:
    (item,) = read("1+" * MOST_TOKENS + "1 = 2")
    assert isinstance(item, Unread)
    assert item.why == "too_long"


def test_a_separator_before_a_relation_has_no_effect() -> None:
    for separator in (",", "，", ";", ":", "\n"):
        assert written(f"2*3{separator} = 6") == ["[] 2*3 = 6"]
    assert written("2*3. It is 6")[0] == "[] 2*3"
