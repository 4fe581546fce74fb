"""Words such as 共 may begin another clause: what stands before them is then not equal to it."""

import pytest

from weighbridge.articles import examine
from weighbridge.articles.arithmetic.checks import Findings
from weighbridge.articles.text.source import Source


def examined(text: str) -> Findings:
    return examine(Source("the text", text, "utf-8", html=False)).findings


APART = {
    "patches": "patch 大小 16×16，共 14×14 = 196 个 patch，12×7,087,872=85,054,464",
    "patches of an image": "图像 224×224，patch 16×16，共 (224/16)² = 196 个 patch",
    "without a comma": "patch 大小 16×16 共 14×14 = 196 个 patch",
    "scores": "序列长度 128，输入 128×768，共 12×128×128=196,608 个注意力分数。",
    "a number": "2×98 = 196。图像 224×224，patch 16×16，共 196 个 patch",
    "about a number": "2×98 = 196。patch 16×16，约 196 个",
    "in letters": "H = 768：Q、K、V 的矩阵都是 H×H，共 3H² = 1,769,472 个参数",
    "in English": "Matrices of 768×768, for a total of 3×768×768 = 1,769,472",
}


@pytest.mark.parametrize("name", APART)
def test_another_clause_is_about_something_else(name: str) -> None:
    audited = examined(APART[name])
    assert (audited.slips, audited.unread) == ((), ())
    assert audited.checked


JOINED = {
    "a number": ("矩阵 768×768，共 589,834 个参数。", "589,834", "589,824"),
    "what follows": ("patch 大小 16×16，共 14×14 = 169 个", "169", "196"),
    "a rounded one": ("768×768，约 62 万", "62 万", "589,824"),
    "two calculations": ("12×7,087,872 是 12×7,078,872", "12*7,078,872", "85,054,464"),
}


@pytest.mark.parametrize("name", JOINED)
def test_a_slip_behind_such_a_word_is_found(name: str) -> None:
    text, stated, correct = JOINED[name]
    assert [(slip.stated, slip.correct) for slip in examined(text).slips] == [(stated, correct)]
