"""`articles.tables`: a right table has no slip, and a changed digit is never called right."""

import pytest

from weighbridge.articles.lines import KNOWN, RIGHT, ArticleLine, Stretch
from weighbridge.articles.tables import TableFindings, check_tables

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
