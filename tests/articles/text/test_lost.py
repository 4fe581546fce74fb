"""`articles.text.lost`: operators are put back as they were, or not at all."""

import random
import re
from pathlib import Path

import pytest

from weighbridge.articles.text.allowance import Allowance
from weighbridge.articles.text.lost import Restored, restore

PUBLISHED = Path(__file__).parents[4] / "shared" / "articles"

# A BERT, and what it has

SIZES = [30522, 768, 512, 2, 12, 64, 3072]
KNOWN = {
    768 * 768 // 12 * 3: "one head",
    768 * 768 * 3: "queries, keys and values",
    768 * 768: "output",
    768 * 768 * 4: "attention",
    768 * 3072 * 2: "feed-forward",
    768 * 2 + 768 * 2 * 2 * 12: "norms",
    (30522 + 512 + 2) * 768: "embeddings",
    768 // 12: "size of a head",
    768 * 2: "norm",
}
LONG = "(305225122)768768212(768768123127687687683072276822)"
LONG_TEXT = "(30522+512+2)*768 + 768*2 + 12*(768*768/12*3*12 + 768*768 + 768*3072*2 + 768*2*2)"
TOTAL = 108_808_704


def restored_in(line: str) -> list[Restored]:
    return restore(line, SIZES, 12, KNOWN)


def test_a_total_is_put_back() -> None:
    line = f"词向量参数){LONG}{TOTAL}。0110M"
    start, end = 6, 6 + len(LONG)
    assert restored_in(line) == [
        Restored(start, end, LONG_TEXT, TOTAL, "", (end, end + len(str(TOTAL))))
    ]


KNOWN_VALUES = {
    "嵌入层(305225122)768(2)第二": ("(30522+512+2)*768", "embeddings"),
    "单个head的参数768768123": ("768*768/12*3", "one head"),
    "多头的参数76876812312": ("768*768/12*3*12", "queries, keys and values"),
    "最后的参数76876812312768768(3)全连接层": ("768*768/12*3*12 + 768*768", "attention"),
    "大小为768768": ("768*768", "output"),
    "2个为27683072。": ("2*768*3072", "feed-forward"),
    "总参数为76827682212(层数)": ("768*2 + 768*2*2*12", "norms"),
}


@pytest.mark.parametrize("line", KNOWN_VALUES)
def test_a_calculation_that_comes_to_a_value_of_the_model(line: str) -> None:
    (restored,) = restored_in(line)
    text, name = KNOWN_VALUES[line]
    assert (restored.text, restored.name, restored.stated) == (text, name, None)
    assert KNOWN[restored.value] == name
    written = line[restored.start : restored.end]
    assert re.sub("[^0-9()]", "", restored.text) == written


def test_a_calculation_with_its_value() -> None:
    assert restored_in("所以dq7681264") == [Restored(4, 9, "768/12", 64, "", (9, 11))]
    assert restored_in("每层27683072，为4718592个") == [
        Restored(2, 10, "2*768*3072", 4_718_592, "", (12, 19))
    ]
    assert restored_in("每层（768768）4，共2,359,296") == [
        Restored(2, 11, "(768*768)*4", 2_359_296, "", (13, 22))
    ]


def test_a_list_with_a_rounded_sum() -> None:
    line = "任务的参数(7682,2768768,总共约1。18M)"
    assert restored_in(line) == [Restored(6, 18, "768*2 + 2*768*768", 1_181_184, "", (22, 27))]
    assert restored_in(line.replace("18M", "28M")) == []


@pytest.mark.parametrize(
    "line",
    [
        "768 和 3072，词表 30522",
        "共 110106428 个参数，110M",
        "2,359,296 与 23,440,896",
        "2412年，7682个",
        "768768 = 589824",  # the line has its operators
        "768*768为589824，768768",
        "123456789123456789",
        "))((()",
        "(768(768)2)3",
        "7687681",
        "共12224个",  # 12*2 = 24 by chance
    ],
)
def test_what_is_not_put_back(line: str) -> None:
    assert restored_in(line) == []


def test_without_sizes_or_heads() -> None:
    assert restore("768768123", [], None, KNOWN) == []
    assert restore("768768", [768], None, KNOWN)[0].text == "768*768"
    assert restore("768768123", SIZES, None, KNOWN) == []
    assert restore("11111111", [1, 0, -1], 1, {8: "eight"}) == []
    assert restore("76807680", [768, 0], 0, KNOWN) == []


def test_a_calculation_does_not_come_to_a_size() -> None:
    """Of 768/12*4*12 = 3072 nobody writes the left side; it is reached by chance."""
    assert restore("76812412", SIZES, 12, {3072: "size"}) == []
    assert restore("76812412", [768, 12], 12, {3072: "size"}) != []


def test_two_polynomials_are_not_put_back() -> None:
    """With 3072 = 4*768, both layers of 4H² + 8H² may be the larger one."""
    assert restored_in("每层4768768276830727077888") == []


# The calculations of right articles: sizes, heads and formulas

MODELS = {
    "BERT": (
        [30522, 768, 512, 2, 12, 64, 3072],
        12,
        """
        30522*768  512*768  (30522+512+2)*768  768*768  768*768+768  3*(768*768+768)
        4*(768*768+768)  768*768*4  768*64*3*12  768*768/12*3  768*768/12*3*12+768*768
        768*3072+3072  3072*768+768  768*3072*2  768*3072*2+3072+768  768*2*2  768*2+768*2*2*12
        30522*768+512*768+2*768  (30522+512+2+2)*768  768*768*4+768*4  4*768*768+2*768*3072
        12*(4*768*768+2*768*3072)  12*(768*768*4+768*4+768*3072*2+3072+768+768*4)
        (768*64+64)*3*12  (768*64*3+64*3)*12+768*768+768
        (30522+512+2)*768+768*2+12*(768*768/12*3*12+768*768+768*3072*2+768*2*2)
        """,
    ),
    "Chinese BERT": (
        [21128, 768, 512, 2, 12, 64, 3072],
        12,
        """
        21128*768  (21128+512+2)*768  21128*768+512*768+2*768+2*768  (21128+512+2)*768+768*2
        """,
    ),
    "large": (
        [30522, 1024, 512, 2, 16, 24, 64, 4096],
        16,
        """
        30522*1024  4*(1024*1024+1024)  24*(4*1024*1024+2*1024*4096)  1024*4096+4096
        (30522+512+2)*1024  1024*64*3*16  1024*1024/16*3
        """,
    ),
    "GPT-2": (
        [50257, 768, 1024, 12, 64, 3072],
        12,
        """
        50257*768  1024*768  50257*768+1024*768  3*768*768+3*768  768*3072+3072+3072*768+768
        12*(12*768*768)
        """,
    ),
    "Llama": (
        [32000, 4096, 11008, 32, 128],
        32,
        """
        32000*4096  4*4096*4096  3*4096*11008  4*4096*4096+3*4096*11008  32000*4096*2
        32*(4*4096*4096+3*4096*11008+2*4096)  4096*4096*4+11008*4096*3
        """,
    ),
    "Llama 3": (
        [128256, 4096, 14336, 32, 8, 128],
        32,
        "128256*4096  4096*8*128*2  4096*4096*2+4096*8*128*2  3*4096*14336",
    ),
    "T5": (
        [32128, 512, 2048, 6, 8, 64],
        8,
        "32128*512  4*512*512  512*2048*2  6*(4*512*512+2*512*2048)",
    ),
    "ViT": (
        [768, 3072, 12, 197, 16, 3, 1000, 64],
        12,
        "16*16*3*768+768  197*768  768*1000+1000  12*(4*768*768+2*768*3072)",
    ),
    "ALBERT": (
        [30000, 128, 768, 3072, 12, 64, 512, 2],
        12,
        "30000*128  128*768+768  (30000+512+2)*128  30000*128+128*768",
    ),
}


def calculations() -> list[tuple[str, str, int]]:
    """Return the model, the formula and the value of each calculation."""
    rows = []
    for model, (_, _, formulas) in MODELS.items():
        values = {formula: eval(formula.replace("/", "//")) for formula in formulas.split()}  # noqa: S307
        rows += [(model, formula, value) for formula, value in values.items()]
    return rows


def digits_of(formula: str) -> str:
    return re.sub("[*+/]", "", formula)


def put_back(model: str, line: str, known: dict[int, str]) -> str:
    """Return the only calculation restored in a line, without blanks; "" if there is none."""
    sizes, heads, _ = MODELS[model]
    texts = [restored.text.replace(" ", "") for restored in restore(line, sizes, heads, known)]
    assert len(texts) < 2
    return "".join(texts)


def test_calculations_with_their_value_are_put_back_as_they_were() -> None:
    rows = calculations()
    texts = [
        put_back(model, f"参数量{digits_of(formula)}{value}", {}) for model, formula, value in rows
    ]
    formulas = [formula for _, formula, _ in rows]
    assert len(formulas) > 60
    pairs = list(zip(texts, formulas, strict=True))
    assert [pair for pair in pairs if pair[0] not in {"", pair[1]}] == []
    assert sum(map(bool, texts)) > 0.8 * len(texts)


def test_calculations_without_their_value_are_put_back_as_they_were() -> None:
    rows = calculations()
    right = 0
    for model, formula, _ in rows:
        known = {value: "a part" for other, _, value in rows if other == model}
        text = put_back(model, f"参数量{digits_of(formula)}", known)
        assert text in {"", formula}
        right += bool(text)
    assert right > 0.8 * len(rows)


# Chance


@pytest.mark.sampled("src/weighbridge/articles")
def test_wrong_totals_are_not_reached_by_chance() -> None:
    random.seed(16)
    near = [1, 768, 1000, 1536, 9_000, 9_216, 10_000, 12_000, 90_000, 100_000, 393_216]
    wrong = [TOTAL + sign * distance for distance in near for sign in (-1, 1)]
    wrong += random.sample(range(10**8, 12 * 10**7), 200 - len(wrong))
    lines = [f"{LONG}{total}。0110M" for total in wrong]
    assert [line for line in lines if restore(line, SIZES, 12, {})] == []


def test_wrong_values_of_short_calculations_are_seldom_reached() -> None:
    reached = tried = 0
    for model, formula, value in calculations():
        for distance in (1, 100, 768, 1000, 10_000, value // 7):
            tried += 1
            line = f"{digits_of(formula)}{value + distance}"
            restored = put_back(model, line, {})
            reached += bool(restored)
    assert tried > 300
    assert reached <= 0.01 * tried


# Bounds

HOSTILE = {
    "one run": "2" * 5_000,
    "a run of hundred": "2" * 100,
    "runs": ("2" * 100 + "x") * 200,
    "sizes": ("768" * 30 + "x") * 250,
    "brackets": ("(22222)" * 12 + "x") * 200,
    "open brackets": "(" * 5_000 + ")" * 5_000,
    "a list": "7682," * 4_000 + "约1.18M",
    "a long value": "7682768" + "1" * 4_990,
    "far number": "768768，" + "3" * 15_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_the_search_is_bounded(name: str) -> None:
    restored = restored_in(HOSTILE[name])
    for calculation in restored:
        assert calculation.cut == (calculation.text == "")


def test_a_search_that_is_cut_says_so() -> None:
    assert restored_in("2" * 5_000) == [Restored(0, 5_000, "", 0, "", None, cut=True)]
    assert [calculation.cut for calculation in restored_in("2" * 100)] == [True]


# The published article


@pytest.mark.skipif(not PUBLISHED.exists(), reason="the published articles are not there")
def test_the_published_article() -> None:
    (path,) = PUBLISHED.glob("001*.txt")
    restored = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        for calculation in restored_in(line):
            restored[number, line[calculation.start : calculation.end]] = calculation.text
    assert restored == {
        (7, "(305225122)768"): "(30522+512+2)*768",
        (12, "76812"): "768/12",
        (14, "768768123"): "768*768/12*3",
        (16, "76876812312"): "768*768/12*3*12",
        (17, "768768"): "768*768",
        (18, "76876812312768768"): "768*768/12*3*12 + 768*768",
        (19, "7683072"): "768*3072",
        (19, "27683072"): "2*768*3072",
        (24, "76827682212"): "768*2 + 768*2*2*12",
        (26, LONG): LONG_TEXT,
        (27, "7682,2768768"): "768*2 + 2*768*768",
    }


def test_all_lines_together_are_bounded() -> None:
    allowance = Allowance(10_000)
    assert not restore("768768", SIZES, 12, KNOWN, allowance)[0].cut
    assert [restore("2" * 100, SIZES, 12, KNOWN, allowance)[0].cut for _ in range(99)] == [
        True
    ] * 99
    assert restore("768768", SIZES, 12, KNOWN, allowance)[0].cut
