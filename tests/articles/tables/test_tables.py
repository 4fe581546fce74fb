"""`articles.tables`: a right table has no slip, and a changed digit is never called right."""

import pytest

from weighbridge.articles.tables import cells, sums
from weighbridge.articles.tables.tables import TableFindings, check_tables
from weighbridge.articles.text.lines import (
    BOILERPLATE,
    FOLLOWS,
    KNOWN,
    RIGHT,
    UNREAD,
    ArticleLine,
    Stretch,
)
from weighbridge.data import read_toml

BASE = {
    "vocab_size": 30522,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "intermediate_size": 3072,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
}


def lines_of(text: str) -> list[ArticleLine]:
    return [ArticleLine(number, line) for number, line in enumerate(text.split("\n"), start=1)]


def checked(text: str, known: tuple[int, ...] = ()) -> TableFindings:
    return check_tables(lines_of(text.strip("\n")), BASE, known)


def found(text: str, known: tuple[int, ...] = ()) -> list[tuple[str, str]]:
    """Return the slips of a table: stated, correct."""
    return [(slip.stated, slip.correct) for slip in checked(text, known).slips]


def verdicts(text: str, known: tuple[int, ...] = ()) -> dict[str, str]:
    """Return the verdict of each number, by its text."""
    return {verdict.text: verdict.verdict for verdict in checked(text, known).verdicts}


# Right tables

RIGHT_TABLES = {
    "with formulas, a sum and shares, in Chinese": """
| 组件 | 计算 | 参数量 | 占比 |
|---|---|---:|---:|
| 词嵌入 | 30522×768 | 23,440,896 | 21.4% |
| 位置嵌入 | 512×768 | 393,216 | 0.4% |
| 类型嵌入 | 2×768 | 1,536 | 0.0% |
| LayerNorm | 2H | 1,536 | 0.0% |
| 编码器 | 12 × 7,087,872 | 85,054,464 | 77.7% |
| 池化层 | 768×768+768 | 590,592 | 0.5% |
| **合计** | | **109,482,240** | 100% |
""",
    "a rule that is gone": """
| Component | Parameters | % of total |

| Embeddings | 23,837,184 | 21.77% |
| Encoder | 85,054,464 | 77.69% |
| Pooler | 590,592 | 0.54% |
| Total | 109,482,240 | 100.00% |
""",
    "no rules and no outer bars": """
Component | Parameters
Embeddings | 23837184
Encoder | 85054464
Pooler | 590592
Sum | 109482240
""",
    "tabs": (
        "部分\t参数量\n嵌入层\t16,622,592\n编码器\t85,054,464\n池化层\t590,592\n总计\t102,267,648\n"
    ),
    "columns apart by blanks": """
Part              per layer    layers       total
-------------------------------------------------
Attention         2,363,904        12  28,366,848
FFN               4,722,432        12  56,669,184
LayerNorm             1,536        12      18,432
Total             7,087,872            85,054,464
""",
    "each, how many, all": """
| 模块 | 单层参数 | 层数 | 合计 |
|---|---|---|---|
| 自注意力 | 2,362,368 | 12 | 28,348,416 |
| 前馈网络 | 4,722,432 | 12 | 56,669,184 |
| LayerNorm | 3,072 | 12 | 36,864 |
| 总计 | 7,087,872 | 12 | 85,054,464 |
""",
    "sums across": """
| Model | Embeddings | Encoder | Pooler | Total |
|---|---|---|---|---|
| BERT-base | 23,837,184 | 85,054,464 | 590,592 | 109,482,240 |
| BERT-large | 31,782,912 | 302,309,376 | 1,049,600 | 335,141,888 |
""",
    "several models": """
| Component | BERT-base | BERT-large |
|---|---|---|
| Embeddings | 23,837,184 | 31,782,912 |
| Encoder | 85,054,464 | 302,309,376 |
| Pooler | 590,592 | 1,049,600 |
| Total | 109,482,240 | 335,141,888 |
""",
    "subtotals, one of them of a layer": """
| 组件 | 参数量 |
|---|---|
| 词嵌入 | 23,440,896 |
| 位置嵌入 | 393,216 |
| 类型嵌入 | 1,536 |
| LayerNorm | 1,536 |
| 小计 | 23,837,184 |
| 注意力（每层） | 2,363,904 |
| 前馈（每层） | 4,723,968 |
| 单层小计 | 7,087,872 |
| 12 层合计 | 85,054,464 |
| 池化层 | 590,592 |
| 总计 | 109,482,240 |
""",
    "a layer and then twelve, not called sums": """
| Component | Parameters |
|---|---|
| Embeddings | 23,837,184 |
| One encoder layer | 7,087,872 |
| Encoder (12 layers) | 85,054,464 |
| Pooler | 590,592 |
| Total | 109,482,240 |
""",
    "parts below their whole": """
| Component | Parameters |
|---|---|
| Embeddings | 23,837,184 |
| - words | 23,440,896 |
| - positions | 393,216 |
| - segments | 1,536 |
| - LayerNorm | 1,536 |
| Encoder | 85,054,464 |
| Pooler | 590,592 |
| Total | 109,482,240 |
""",
    "the total first": """
| Component | Parameters |
|---|---|
| Total | 109,482,240 |
| Embeddings | 23,837,184 |
| Encoder | 85,054,464 |
| Pooler | 590,592 |
""",
    "without the tied head": """
| Component | Parameters |
|---|---|
| wte | 38,597,376 |
| wpe | 786,432 |
| 12 blocks | 85,054,464 |
| ln_f | 1,536 |
| lm_head (tied) | 38,597,376 |
| Total | 124,439,808 |
""",
    "rows that count once for each layer": """
| Component | Parameters |
|---|---|
| Embeddings | 23,837,184 |
| Attention (per layer) | 2,363,904 |
| FFN (per layer) | 4,723,968 |
| Pooler | 590,592 |
| Total | 109,482,240 |
""",
    "in millions": """
| Component | Params (M) |
|---|---|
| Embeddings | 23.8 |
| Encoder | 85.1 |
| Pooler | 0.6 |
| Total | 109.5 |
""",
    "万": """
| 组件 | 参数量（万） |
|---|---|
| 嵌入 | 2383.7184 |
| 编码器 | 8505.4464 |
| 池化 | 59.0592 |
| 合计 | 10948.224 |
""",
    "亿 in the cells": """
| 组件 | 参数量 |
|---|---|
| 嵌入 | 0.24亿 |
| 编码器 | 0.85亿 |
| 合计 | 1.09亿 |
""",
    "bytes": """
| Component | Parameters | Size (MB) | MiB |
|---|---|---|---|
| Embeddings | 23,837,184 | 95.35 | 90.93 |
| Encoder | 85,054,464 | 340.22 | 324.46 |
| Pooler | 590,592 | 2.36 | 2.25 |
| Total | 109,482,240 | 437.93 | 417.64 |
""",
    "MB for MiB": """
| Component | Parameters | Size (MB) |
|---|---|---|
| Embeddings | 23,837,184 | 90.9 |
| Encoder | 85,054,464 | 324.5 |
| Total | 108,891,648 | 415.4 |
""",
    "counts with shares in brackets, merged cells": """
| Component | Formula | Parameters |
| Embeddings | (30522+512+2)×768 + 2×768 | 23,837,184 (21.8%) |
| Encoder | 12×7,087,872 | 85,054,464 (77.7%) |
| Pooler | 768×768 + 768 | 590,592 (0.5%) |
| Total | 109,482,240 (100%) |
""",
    "equations in cells": """
| Part | Count |
|---|---|
| Words | 30522 × 768 = 23,440,896 |
| Positions | 512 × 768 = 393,216 |
| Types | 2 × 768 = 1,536 |
| Total | 23,835,648 |
""",
    "shapes": """
| Tensor | Shape | Parameters |
|---|---|---|
| word embeddings | [30522, 768] | 23,440,896 |
| positions | [512, 768] | 393,216 |
| LayerNorm weight | [768] | 768 |
| LayerNorm bias | [768] | 768 |
| Q, K, V weights | [768, 768] | 1,769,472 |
| Total | | 25,605,120 |
""",
    "shares only": """
| Part | Share |
|---|---|
| Embeddings | 21.8% |
| Encoder | 77.7% |
| Pooler | 0.5% |
| Total | 100.0% |
""",
    "full width": """
｜组件｜参数量｜
| 组件 | 参数量 |
| 嵌入 | ２３，８３７，１８４ |
| 编码器 | ８５，０５４，４６４ |
| 合计 | １０８，８９１，６４８ |
""",
}

UNREAD_NUMBERS: dict[str, list[str]] = {}
"""Numbers of these tables that nothing in them checks."""
LEAST_FOUND = {
    "parts below their whole": 0.5,
    "without the tied head": 0.5,
    "rows that count once for each layer": 0.5,
    "shapes": 0.5,
    "in millions": 0.8,
    "shares only": 0.8,
}
"""The share of changed digits for which a slip is found, where it is low."""


@pytest.mark.parametrize("name", RIGHT_TABLES)
def test_a_right_table_has_no_slip_and_all_its_counts_are_right(name: str) -> None:
    findings = checked(RIGHT_TABLES[name])
    assert not findings.slips
    assert findings.verdicts
    unread = [verdict for verdict in findings.verdicts if verdict.verdict != RIGHT]
    assert [verdict.text for verdict in unread] == UNREAD_NUMBERS.get(name, []), unread


@pytest.mark.sampled("src/weighbridge/articles")
@pytest.mark.parametrize("name", RIGHT_TABLES)
def test_a_changed_digit_is_a_slip_or_unread_and_never_right(name: str) -> None:
    text = RIGHT_TABLES[name].strip("\n")
    lines = text.split("\n")
    changes = found_changes = 0
    for verdict in checked(text).verdicts:
        line = lines[verdict.at.line - 1]
        for column in range(verdict.at.start, verdict.at.end):
            for changed_line in changed(line, column, verdict.at.start):
                lines[verdict.at.line - 1] = changed_line
                findings = checked("\n".join(lines))
                lines[verdict.at.line - 1] = line
                changes += 1
                found_changes += bool(findings.slips)
                assert not called_right(findings, verdict.at, column), changed_line
    assert found_changes >= LEAST_FOUND.get(name, 0.85) * changes, found_changes / changes


def changed(line: str, column: int, start: int) -> list[str]:
    """Return a line with another digit in a column."""
    if not line[column].isdigit():
        return []
    texts = []
    for step in (1, 4):
        digit = (int(line[column]) + step) % 10
        if digit or column > start:
            texts.append(f"{line[:column]}{digit}{line[column + 1 :]}")
    return texts


def called_right(findings: TableFindings, at: Stretch, column: int) -> bool:
    for verdict in findings.verdicts:
        is_same = verdict.at.line == at.line and verdict.at.start <= column < verdict.at.end
        if is_same and verdict.verdict in (RIGHT, KNOWN):
            return True
    return False


# Wrong tables

COMPONENTS = """
| Component | Parameters | Share |
| Embeddings | 23,837,184 | 21.8% |
| Encoder | 85,054,464 | 77.7% |
| Pooler | 590,592 | 0.5% |
| Total | 109,482,240 | 100% |
"""


@pytest.mark.parametrize(
    ("right", "wrong", "correct"),
    [
        ("109,482,240", "109,482,204", "109,482,240"),
        ("109,482,240", "108,482,240", "109,482,240"),
        ("109,482,240", "99,482,240", "109,482,240"),
        ("77.7%", "77.9%", "77.7%"),
        ("21.8%", "28.1%", "21.8%"),
        ("23,837,184", "28,337,184", "23,837,184"),
        ("85,054,464", "84,054,464", "85,054,464"),
    ],
)
def test_a_planted_slip_is_found_where_it_is(right: str, wrong: str, correct: str) -> None:
    assert found(COMPONENTS.replace(right, wrong)) == [(wrong, correct)]


def test_a_row_is_to_blame_if_the_model_has_the_value_that_mends_it() -> None:
    text = RIGHT_TABLES["no rules and no outer bars"].replace("590592", "596592")
    assert found(text) == [("109482240", "109,488,240")]
    assert found(text, known=(109_482_240, 590_592, 85_054_464)) == [("596592", "590,592")]
    assert verdicts(text, known=(109_482_240, 590_592))["109482240"] == RIGHT


def test_a_sum_follows_from_a_slip_in_a_row_or_is_right_without_it() -> None:
    text = """
| Part | Calculation | Parameters |
| Words | 30522 × 768 | 23,449,896 |
| Positions | 512 × 768 | 393,216 |
| Total | | 23,843,112 |
"""
    findings = checked(text)
    (slip,) = findings.slips
    assert (slip.stated, slip.correct, slip.shift) == ("23,449,896", "23,440,896", 9000)
    (follow,) = slip.follows
    assert (follow.line, follow.stated, follow.mended) == (4, "23,843,112", "23,834,112")
    assert verdicts(text)["23,843,112"] == FOLLOWS
    mended = text.replace("23,843,112", "23,834,112")
    assert found(mended) == [("23,449,896", "23,440,896")]
    assert verdicts(mended)["23,834,112"] == RIGHT


def test_a_slip_goes_on_through_subtotals() -> None:
    text = """
| 组件 | 参数量 |
| 注意力（每层） | 2,363,904 |
| 前馈（每层） | 4,723,968 |
| 单层小计 | 7,087,878 |
| 12 层合计 | 85,054,536 |
| 池化层 | 590,592 |
| 总计 | 85,645,128 |
"""
    (slip,) = checked(text).slips
    assert (slip.stated, slip.correct) == ("7,087,878", "7,087,872")
    mended = [(follow.stated, follow.mended) for follow in slip.follows]
    assert mended == [("85,054,536", "85,054,464"), ("85,645,128", "85,645,056")]


# Tables of which nothing is wrong, though a hasty reader may think so

CHARITABLE = {
    "a row is left out": """
| Component | Parameters |
| Embeddings | 23,837,184 |
| Encoder | 85,054,464 |
| Total | 109,482,240 |
""",
    "totals of several classes": """
| Component | Parameters |
| Embeddings | 23,837,184 |
| Encoder | 85,054,464 |
| Pooler | 590,592 |
| Total without pooler | 108,891,648 |
| Total with pooler | 109,482,240 |
| Total with the MLM head | 110,106,428 |
""",
    "sizes and a total": """
| 超参数 | 值 |
| 层数 | 12 |
| 隐藏维度 | 768 |
| 词表 | 30522 |
| 总参数量 | 110M |
""",
    "models and their totals": """
| Model | Layers | Hidden | Heads | Total params |
| BERT-base | 12 | 768 | 12 | 110M |
| BERT-large | 24 | 1024 | 16 | 340M |
""",
    "scores": """
| Task | MNLI | QQP | Overall |
| BERT-base | 84.6 | 71.2 | 79.6 |
| BERT-large | 86.7 | 72.1 | 82.1 |
| Overall | 85.1 | 71.9 | 80.1 |
""",
    "shapes of activations": """
Layer        Output shape        Params
embedding    (128, 768)          23,440,896
dense        (128, 3072)         2,362,368
dense_1      (128, 768)          2,360,064
Total                            28,163,328
""",
    "one shape, several matrices": """
| Part | Shape | Parameters |
| Q, K, V | 768 × 768 | 1,769,472 |
| one linear | 768 × 768 | 590,592 |
| FFN | 768 × 3072 | 4,718,592 |
""",
    "a row that is not read": """
| Part | Parameters |
| Words | 23,440,896 |
| Positions | see above |
| Total | 23,834,112 |
""",
    "adjusted shares": """
| Part | Parameters (M) | Share |
| Embeddings | 23.8 | 21.8% |
| Encoder | 85.1 | 77.7% |
| Pooler | 0.6 | 0.5% |
| Total | 109.5 | 100% |
""",
    "rounded rows and a rounded sum": """
| Part | Parameters |
| Embeddings | 23.8M |
| Encoder | 85.1M |
| Pooler | 0.6M |
| Head | 0.6M |
| Total | 110.0M |
""",
    "years and models": """
| Year | Model | Params |
| 2018 | BERT | 110M |
| 2019 | GPT-2 | 1.5B |
""",
    "two tables with sums": """
| A | n |

| x | 1,000 |
| y | 2,000 |
| sum | 3,000 |

| B | n |

| x | 5,000 |
| y | 6,000 |
| sum | 11,000 |
""",
}


@pytest.mark.parametrize("name", CHARITABLE)
def test_nothing_is_called_wrong_without_certainty(name: str) -> None:
    assert not found(CHARITABLE[name])


def test_a_known_total_is_no_slip_if_a_row_is_left_out() -> None:
    text = CHARITABLE["a row is left out"]
    assert verdicts(text)["109,482,240"] == UNREAD
    assert verdicts(text, known=(109_482_240,))["109,482,240"] == KNOWN


def test_a_formula_with_letters_of_unknown_size_is_left_to_others() -> None:
    text = "| Part | Formula | Count |\n| Words | Q*R | 23,440,896 |\n| Norm | 2R | 1,536 |"
    findings = check_tables(lines_of(text), {})
    assert not findings.slips
    assert not findings.taken


def test_a_column_of_positions_counts_nothing() -> None:
    text = "| # | Part | Count |\n| 1 | x | 5,000 |\n| 2 | y | 6,000 |\n| | sum | 11,000 |"
    assert verdicts(text) == {"1": BOILERPLATE, "2": BOILERPLATE} | dict.fromkeys(
        ("5,000", "6,000", "11,000"), RIGHT
    )


def test_letters_in_columns_of_shapes_have_the_sizes_of_the_article() -> None:
    text = "| Tensor | Shape | Elements |\n| w | `V` × `H` | 23,440,896 |\n| b | `H` | 768 |"
    assert verdicts(text) == {"23,440,896": RIGHT, "768": RIGHT}


def test_sums_of_decimals_are_written_as_decimals() -> None:
    text = "| stage | ms |\n| a | 2846.0 |\n| b | 3788.7 |\n| total | 6634.7 |"
    *_, total = checked(text).verdicts
    assert (total.verdict, total.values["sum"]) == (RIGHT, "6,634.7")


def test_prose_and_lists_are_no_tables() -> None:
    text = "The total is 5,000 | see below.\n\nHere H = 768.\n- one  two\n12 layers\n\n| a |"
    assert not checked(text).verdicts


# The parts


@pytest.mark.parametrize(
    ("text", "value", "kind"),
    [
        ("23,440,896", 23_440_896, cells.COUNT),
        ("**23,440,896**", 23_440_896, cells.COUNT),
        ("２３，４４０，８９６", 23_440_896, cells.COUNT),
        ("23 440 896", 23_440_896, cells.COUNT),
        ("约 2344 万", 23_440_000, cells.COUNT),
        ("1.1亿", 110_000_000, cells.COUNT),
        ("~110M params", 110_000_000, cells.COUNT),
        ("1.5e8", 150_000_000, cells.COUNT),
        ("× 12", 12, cells.COUNT),
        ("12 layers", 12, cells.COUNT),
        ("417.5 MiB", 417.5 * 2**20, cells.BYTES),
        ("438 MB", 438_000_000, cells.BYTES),
        ("22.5 GFLOPs", 22_500_000_000, cells.OPERATIONS),
        ("21.4%", 0.214, cells.SHARE),
    ],
)
def test_numbers_in_cells(text: str, value: float, kind: str) -> None:
    cell = cells.read_cell(text, Stretch(1, 0, len(text)))
    assert cell.main
    assert float(cell.main.value) == pytest.approx(value)
    assert cell.main.kind == kind
    start, end = cell.main.at.start, cell.main.at.end
    assert text[start:end].strip() == text[start:end]


def test_a_wrong_sum_has_a_reading_that_is_nearest() -> None:
    numbers = [cells.read_cell(text, Stretch(1, 0, 9)).main for text in ("1,000", "2,000", "3,001")]
    rows = [sums.Addend(number, "", number.value) for number in numbers[:2] if number]
    assert numbers[2]
    stated = sums.StatedSum.of(numbers[2], rows)
    nearest = stated.nearest()
    assert nearest
    assert nearest.mended == 3000
    assert stated.is_certain(nearest)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_every_reason_and_kind_has_its_words(lang: str) -> None:
    words = read_toml(f"words/audit.{lang}.toml")
    texts = [*RIGHT_TABLES.values(), *CHARITABLE.values(), COMPONENTS.replace("77.7%", "71.7%")]
    for text in texts:
        findings = checked(text)
        for verdict in findings.verdicts:
            assert words["reasons"][verdict.reason].format(**verdict.values)
        for slip in findings.slips:
            assert slip.kind in words["kinds"]


# Hostile tables

HOSTILE = {
    "rows": "| a | 1,234 |\n" * 100_000,
    "rows below the limit": "| a | 1,234 |\n" * 999 + "| total | 1,232,767 |",
    "sums": "| total | 1,234 | 12 | 3 |\n" * 999,
    "sums and rows": ("| a | 1,234 |\n" * 40 + "| total | 49,361 |\n") * 24,
    "tables": ("| a | 2 | 3 | 6 | 5,000 | 9 |\n| total | 2 | 3 | 6 | 5,000 | 9 |\n\n\n") * 8_000,
    "cells": "|" + "1,234|" * 39 + "\n" + ("|" + "1,234|" * 39 + "\n") * 990,
    "one long line": "|" + "1,234 |" * 100_000,
    "formulas": "| a | " + "2*" * 90 + "2 | 5,000 |\n" + ("| b | 9^9^9^9 | 5,000 |\n" * 2_000),
    "brackets": "| " + "(" * 199 + "1 | 5 |\n" + "| " + "1,1," * 49 + "1) | 5 |\n" * 3_000,
    "blanks": ("a" + " " * 9_000 + "1\n") * 200,
    "digits": "| a | " + "9" * 9_000 + " |\n| total | " + "9" * 100 + " |\n",
}


@pytest.mark.sampled("src/weighbridge/articles")
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_tables_take_bounded_time(name: str) -> None:
    checked(HOSTILE[name])


LAYERS = """
| Component | Formula | Parameters |
|---|---|--:|
| Token embeddings | 50257 × 768 | 38,597,376 |
| Position embeddings | 1024 × 768 | 786,432 |
| Attention | 4 × 768 × 768 + 4 × 768 | 2,362,368 |
| MLP | 8 × 768 × 768 + 5 × 768 | 4,722,432 |
| Layer norms | 4 × 768 | 3,072 |
| Per layer | | 7,087,872 |
| 12 layers | 12 × 7,087,872 | 85,054,464 |
| Final layer norm | 2 × 768 | 1,536 |
| Total | | 124,439,808 |
"""
PER_LAYER = "| Per layer | | 7,087,872 |\n"


@pytest.mark.parametrize("text", [LAYERS, LAYERS.replace(PER_LAYER, "")], ids=["with", "without"])
def test_a_total_contains_the_layers_and_not_the_rows_of_one(text: str) -> None:
    findings = checked(text)
    assert findings.slips == []
    (total,) = (verdict for verdict in findings.verdicts if verdict.text == "124,439,808")
    assert (total.verdict, total.reason) == (RIGHT, "table_sum")
    assert found(text.replace("124,439,808", "124,493,808")) == [("124,493,808", "124,439,808")]
