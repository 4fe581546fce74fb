"""Right texts in ways of writing that nobody tuned to, and hostile ones."""

import pytest

from weighbridge.articles import examine
from weighbridge.articles.arithmetic.checks import Findings
from weighbridge.articles.text import plain
from weighbridge.articles.text.source import Source


def examined(text: str) -> Findings:
    return examine(Source("a.md", text, "utf-8", False)).findings


def test_a_sum_of_the_right_rows_is_right_although_one_of_them_is_misprinted() -> None:
    text = (
        "H = 4096, F = 11008\n每层注意力：4*H*H = 67,108,864\n每层MLP：3*H*F = 135,266,403\n"
        "每层合计 202,375,168，12层：12*202,375,168 = 2,428,502,016"
    )
    (slip,) = examined(text).slips
    assert (slip.line, slip.correct, slip.follows) == (3, "135,266,304", [])


def test_a_total_that_is_said_again_in_round_numbers_is_the_exact_one() -> None:
    total = examined("BERT：H=768\n总计：768*1024 + 6 = 786,438，约78万。").total
    assert total
    assert (total.stated, total.mended) == (786_438, 786_438)


RIGHT = {
    "lost brackets": "Q, K and V of BERT: 3 × 768 × 768 + 768 = 1,771,776 parameters",
    "an exclusive or": "In Python, 5 ^ 3 = 6.",
    "an option of a command": "weigh gpt.toml --set n_layer=12 --set n_embd=768",
    "a number with an exponent": "3.15e23 / (1024 * 312e12 * 0.45) = 2.19e+06 s",
    "words before the left number": "We know that 5 mod 3 = 2.",
    "a share before a number": "150% of 80,000 = 1.5*80000 = 120,000",
    "a quoted slip": "Wrong: 7,080,960 x 12 = 84,971,521 (off by one).",
    "a quoted slip in Chinese": "有人写成 768*768=589842，这是错的。",
    "nearly equal": "709×12=8508≈8505，四舍五入。",
    "a program": "x = 3\nx += 1; y = x * 2 == 8",
    "groups with dots": "768 · 30.522 = 23.440.896 und 12 · 7.087.872 = 85.054.464",
    "one group with dots": "I have 50.000 merges + 256 bytes + 1 end = 50.257 entries.",
    "the number of the next step": "1、词嵌入：50257*768=385973762、位置嵌入：1024*768=786432",
    "blanks after commas": "That is 12 * 7, 087, 872 = 85, 054, 464 and 12 * 3, 840 = 46, 080.",
    "a lost stop": "For 7.5B it is 7.5B × 16 = 120 GB With ZeRO-1 on 64 GPUs it is 31.4 GB",
    "a unit per something": "权重与优化器状态 2+2+12=16字节/参数7B模型就需要7×16=112GB",
    "a run-on calculation": "41,943,040 + 176,160,768 = 218,103,808 ×32 = 6,979,321,856",
    "a product of letters that is no word": "Show that (A+B)² = A² + 2AB + B².",
    "a line that begins with a sign": "66,362,880 = 23,835,648 + 6\n× 7,087,872",
    "lines that go on with a plus": "12·96·12288²\n+ 50257·12288 = 173,946,175,488\n"
    "+ 617,558,016 = 174,563,733,504",
    "a lost power of ten": "6×1750亿×3000亿=3.15×1023 次浮点运算。",
    "a lost power of no known size": "12·7682 ≈ 7.1M per layer",
    "fixed blanks": "It is 437,928,960 bytes = 417.6 MiB ≈ 438 MB".replace(" ", "\u00a0"),
    "rates": "The link has 100 Gbit/s = 12.5 GB/s.",
    "a range": "lr 1e-4~3e-4, 100~105 epochs, 3e-4 ~ 1e-4",
    "rounded up and down": r"$\lceil 50257/128\rceil\times128=50304$, $\lfloor 7/2\rfloor=3$",
    "markup that is left over": "Pooler: 768*768 + 768 = 590,592\n\n"
    "**Total = 85,054,464 + 590,592 = 85,645,056 (~**86M)",
    "a lost power that stands twice": "3 * (7682 + 768) + (7682 + 768) = 2,362,368",
    "a blank before the last digits": "A batch is 32, 768 = 2^15; 49152 + 256 = 49, 408.",
    "a formula that is not the one": "`2(4H² + H) = 8H² + 2H` is not a feed-forward network.",
    "small units": "it is 437,928,960 bytes = 417.6 mib ≈ 438 mb",
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_text_has_no_slip(name: str) -> None:
    slips = examined(RIGHT[name]).slips
    assert [(slip.stated, slip.correct) for slip in slips] == []


WRONG = {
    "an exponent": "3.15e23 / 3.15e3 = 1.02e+20",
    "after a list of sizes": "With H = 768, 12 heads: 768*768 = 589,842, 3072*768 = 2,359,296.",
    "groups with dots": "768 · 30.522 = 23.440.869 und 12 · 7.087.872 = 85.054.464",
    "a mistake in another sentence": "768*768 = 589,842. The 117M is a mistake.",
    "fixed blanks": "768\u00a0×\u00a0768\u00a0=\u00a0589,842",
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_text_has_one_slip(name: str) -> None:
    assert len(examined(WRONG[name]).slips) == 1


def test_a_number_that_is_called_wrong_is_not_right() -> None:
    text = "One wrongly adds 38,597,376 + 786,432 = 39,384,809, about 39.4M."
    article = examine(Source("a.md", text, "utf-8", False))
    assert [verdict.verdict for verdict in article.numbers if verdict.text == "39,384,809"] == [
        "unread"
    ]


def test_a_long_article_is_read_up_to_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain, "MOST_READ", 60)
    findings = examined("768*768 = 589,842 in each layer\n" * 3)
    assert [slip.line for slip in findings.slips] == [1]
    assert [(item.line, item.why) for item in findings.unread] == [(2, "cut")]
