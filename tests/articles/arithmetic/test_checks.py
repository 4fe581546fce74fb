"""`articles.arithmetic.checks`: only wrong arithmetic is a slip, in any notation."""

import pytest
from articles import NOTATIONS
from hypothesis import given
from hypothesis import strategies as st

from weighbridge.articles import examine
from weighbridge.articles.arithmetic.checks import Findings
from weighbridge.articles.text.source import Source


def examined(text: str) -> Findings:
    return examine(Source("the text", text, "utf-8", html=False)).findings


def found(text: str) -> list[tuple[int, str, str]]:
    """Return the slips of an article: line, stated, correct."""
    return [(slip.line, slip.stated, slip.correct) for slip in examined(text).slips]


# Correct arithmetic in many notations

RIGHT = {
    "powers": "4 * 768**2 = 2,359,296",
    "a raised two": "4·768² ＝ 2 359 296".replace(" 3", "\u20093").replace(" 2", "\u20092"),
    "full width": "３０５２２×７６８＝２３，４４０，８９６",
    "an x": "30522x768 = 23440896 and 30522 x 768 = 23440896",
    "underscores": "30522*768 = 23_440_896",
    "a chain": "H = 768, and 4H² = 4 * 768 * 768 = 4 * 589,824 = 2,359,296",
    "letters side by side": "V = 30522, H = 768: VH = 23,440,896 and 2VH = 46,881,792",
    "given later": "4H^2 = 2,359,296, where H = 768.",
    "two in a sentence": "With H = 768 it is 4H² = 2,359,296, and with H = 8 it is 256.",
    "numbers in passing": (
        "It has 12 layers, about 110M parameters, and a shape of (768, 64) or [512, 768]. 2*3 = 6"
    ),
    "numbers in passing, in Chinese": (
        "12层，12个head，共110M。768维向量有2×768=1,536个参数，12个head就是12×64=768"
    ),
    "a remark inside": "第一层：768*3072(原文中4H长度) + 3072 = 2,362,368",
    "two lines and their sum": "768*3072+3072 = 2,362,368\n3072*768+768 = 2,360,064\n= 4,722,432",
    "spelled out": "- (30522 + 512 + 2) × 768 = 23 , 835 , 648",
    "no letters between": "L = 12 , H = 768 , A = 12 L = 12, H = 768, 2*A*L = 288",
    "names of fields": "hidden_size = 768\nvocab_size = 30522\nvocab_size * hidden_size = 23440896",
    "names of several": "d_k = d_v = d_q = 768/12 = 64 and 3 * d_k = 192",
    "four times": "H = 768 and F = 4H. Then 2*H*F = 8H^2 = 4,718,592",
    "words between": "12 layers × 7,080,960 parameters = 84,971,520 parameters",
    "words for numbers": (
        "Tokens: 3*768 = 2,304\nPositions: 512*768 = 393,216\ntokens + positions = 395,520"
    ),
    "how many of them": "Three, so 3 matrices of 768×64 = 147,456",
    "rounded": "2*768*768 + 768*2 is about 1.18M, or 1,181,184 (1.2M)",
    "cut off": "108,808,704 ≈ 108.8M and 108,891,648 ≈ 1.08亿",
    "ten thousands": "30522×768 = 2344.0896万",
    "in words": "30522×768 等于 23,440,896，约为 2344 万。",
    "per cent": "16,622,592 / 102,267,648 = 16.3%",
    "sums of rounded ones": "23.8M + 85M + 0.6M = 109.4M",
    "aligned": (
        "$$\n\\begin{aligned}\nX &= 4 \\times 768^2 \\\\\n  &= 2{,}359{,}296\n\\end{aligned}\n$$"
    ),
    "a fraction": r"$\frac{768}{12} = 64$ and \(12 \cdot 64 = 768\)",
    "over lines": "12 * 7,080,960\n= 84,971,520",
    "a sum over lines": "2,359,296\n+ 4,718,592\n+ 3,072 = 7,080,960",
    "a table": (
        "| part | formula | count |\n|---|---|--:|\n"
        "| FFN | 2*768*3072 | 4,718,592 |\n| norms | 4*768 | 3,072 |"
    ),
    "a table's sum": "| a | 2*5 | 10 |\n| b | 3*5 | 15 |\n| sum | | 25 |",
    "emphasis": "So **30522×768** = **23,440,896**, *exactly* `30522*768 = 23440896`.",
    "bullets": "- 4*5 = 20\n* 4*6 = 24\n1. 4*7 = 28\n## 2.1 4*8 = 32",
    "a shape before": "W is (768, 64) and 768*64 = 49,152",
    "a minus": "109,482,240 − 590,592 = 108,891,648",
    "another size": "H = 768: 4H^2 = 2,359,296. H = 1024: 4H^2 = 4,194,304",
    "LayerNorm with its biases": "LayerNorm after the attention: 4H^2 + 4H + 2H = 4H^2 + 6H",
    "bytes": "102,267,648 × 4 = 409,070,592, so 102,267,648 × 4 = 409.1 MB = 390.1 MiB",
    "megabytes that are mebibytes": "102,267,648 参数 × 4 字节 = 390.1 MB",
    "words for signs": "12层乘以每层7,087,872等于85,054,464。768 times 64 gives 49,152.",
    "two units": "16,622,592 + 85,645,056 = 1亿226万",
    "by halves": "H = 3: H/2 * 4 = 6 and 1/3 + 1/6 = 1/2",
}


@pytest.mark.parametrize("name", RIGHT)
def test_correct_arithmetic_is_not_a_slip(name: str) -> None:
    audited = examined(RIGHT[name])
    assert (audited.slips, audited.unread) == ((), ())
    assert audited.checked


WRONG = {
    "a chain": (
        "H = 768, and 4H² = 4 * 589,842 = 2,359,296",
        [(1, "4 * 589,842", "2,359,296"), (1, "2,359,296", "2,359,368")],
    ),
    "rounded": ("2*768*768 is about 1.28M", [(1, "1.28M", "1,179,648")]),
    "ten thousands": ("30522×768 约为 2434 万", [(1, "2434 万", "23,440,896")]),
    "a table": ("| FFN | 2*768*3072 | 4,718,952 |", [(1, "4,718,952", "4,718,592")]),
    "over lines": ("12 * 7,080,960\n= 84,917,520", [(2, "84,917,520", "84,971,520")]),
    "stated first": ("23,449,856 = 30522 * 768", [(1, "23,449,856", "23,440,896")]),
    "in brackets": ("109,482,240 (≈ 120M)", [(1, "120M", "109,482,240")]),
    "letters": ("(V+P)*H = VH + P", [(1, "V·H + P", "V·H + P·H")]),
    "given later": ("4H^2 = 2,359,269, where H = 768.", [(1, "2,359,269", "2,359,296")]),
    "attention": ("Attention: 4*H*H + 3*H", [(1, "4H² + 3H", "4H² + 4H")]),
    "the pooler": ("池化层：H*H + 2*H", [(1, "H² + 2H", "H² + H")]),
    "a fraction": (r"$\frac{768}{12} = 46$", [(1, "46", "64")]),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arithmetic_is_a_slip(name: str) -> None:
    text, slips = WRONG[name]
    assert found(text) == slips


# Any arithmetic, in any notation

# A size that ends with many zeros may be rounded and is read so: a slip needs exact ones.
_SIZES = st.integers(1, 10**6).filter(lambda size: size % 1000)


@st.composite
def statements(draw: st.DrawFn) -> tuple[str, int]:
    """Return an expression in ASCII and its value, a count."""
    terms = draw(
        st.lists(st.lists(_SIZES, min_size=1, max_size=3), min_size=1, max_size=4).filter(
            lambda t: len(t[0]) > 1
        )
    )
    value = 0
    for term in terms:
        product = 1
        for factor in term:
            product *= factor
        value += product
    text = " + ".join("*".join(map(str, term)) for term in terms)
    times = draw(st.integers(0, 24))
    return (f"{times}*({text})", value * times) if times else (text, value)


def _in(notation: str, formula: str) -> str:
    return NOTATIONS[notation](formula)


@given(statements(), st.sampled_from(sorted(NOTATIONS)))
def test_random_correct_arithmetic_is_not_a_slip(statement: tuple[str, int], notation: str) -> None:
    text, value = statement
    audited = examined(f"It has {_in(notation, f'{text} = {value:,}')} parameters.")
    assert (audited.slips, audited.unread, audited.checked) == ((), (), 1)


@given(statements(), st.sampled_from(sorted(NOTATIONS)), st.data())
def test_one_changed_digit_is_found(
    statement: tuple[str, int], notation: str, draw: st.DataObject
) -> None:
    text, value = statement
    digits = str(value)
    at = draw.draw(st.integers(0, len(digits) - 1))
    other = draw.draw(st.sampled_from([digit for digit in "123456789" if digit != digits[at]]))
    changed = int(digits[:at] + other + digits[at + 1 :])
    audited = examined(f"It has {_in(notation, f'{text} = {changed:,}')} parameters.")
    assert [(slip.stated, slip.correct) for slip in audited.slips] == [
        (f"{changed:,}", f"{value:,}")
    ]
    assert audited.slips[0].shift == changed - value


@pytest.mark.sampled("src/weighbridge/articles")
@pytest.mark.slow
def test_slips_that_depend_on_slips_take_bounded_time() -> None:
    lines = ["1000 + 1 = 2001"]
    lines += [f"{2001 + 1000 * at} + 1 = {3001 + 1000 * at}" for at in range(3000)]
    audited = examined("\n".join(lines))
    assert len(audited.slips) == 3001
    assert audited.slips[-1].mended == "4,001"
