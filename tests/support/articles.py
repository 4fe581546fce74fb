"""Articles that derive BERT's size, written for the tests.

They are in two languages and three notations, with mistakes and without.

The figures come from published derivations; the sentences are ours. Text in [[ ]] is a formula, and
{ } holds the name of a figure that is wrong in one version and right in the other.
"""

import re
from typing import NamedTuple

LANGUAGES = ("en", "zh")


class Mistake(NamedTuple):
    """A mistake in an article: what it states, and what is right."""

    stated: str
    correct: str


class Article(NamedTuple):
    """An article in both languages, and its mistakes by the name in { }."""

    texts: dict[str, str]
    mistakes: dict[str, Mistake]

    def written(self, lang: str, notation: str, *, mended: bool = False) -> str:
        """Return the article, its formulas in a notation."""
        figures = {
            name: each.correct if mended else each.stated for name, each in self.mistakes.items()
        }
        text = self.texts[lang].strip()
        for name, figure in figures.items():
            text = text.replace("{" + name + "}", figure)
        return re.sub(r"\[\[(.+?)\]\]", lambda found: NOTATIONS[notation](found[1]), text)


def _ascii(formula: str) -> str:
    return formula


def _unicode(formula: str) -> str:
    """Write × · ² and, on the right of the last =, full-width digits."""
    raised = re.sub(r"\^(\d)", lambda found: "⁰¹²³⁴⁵⁶⁷⁸⁹"[int(found[1])], formula)
    left, equals, right = raised.rpartition(" = ")
    wide = right.translate(
        {**{ord(str(digit)): 0xFF10 + digit for digit in range(10)}, ord(","): "，"}
    )
    signs = re.sub(r"(?<=\d)\*(?=\d)", "×", left if equals else raised).replace("*", "·")
    return (
        f"{signs} ＝ {wide}"
        if equals and re.fullmatch(r"[\d,]+", right)
        else raised.replace("*", "×")
    )


def _latex(formula: str) -> str:
    r"""Write \times, \frac, braces for exponents and around the commas of numbers."""
    text = re.sub(r"\(H/A\)", r"\\frac{H}{A}", formula)
    text = re.sub(r"\^(\d)", r"^{\1}", text)
    text = re.sub(r"(?<=\d),(?=\d{3})", "{,}", text)
    text = re.sub(r"(?<=\d)\*(?=\d)", r" \\times ", text).replace("*", r" \cdot ")
    return f"${text}$"


NOTATIONS = {"ascii": _ascii, "unicode": _unicode, "latex": _latex}

A = Article(
    {
        "en": """
# Counting BERT-base, Chinese

The model has [[L = 12]] layers, [[A = 12]] heads, a hidden size of [[H = 768]], \
a vocabulary of [[V = 21128]]
and 512 positions.

- Embeddings, with their LayerNorm: [[V*H + 2*H + 512*H + 2*H = {embeddings}]].
- The projections of queries, keys and values, with biases: [[3*H*H + 3*H = 1,771,776]].
- The output projection: [[H*H + H = 590,592]].
- The two halves of the feed-forward network: up [[H*4H + 4H = 2,362,368]], \
down [[4H*H + H = 2,360,064]].
- Two LayerNorms in each layer: [[2*2*H = 3,072]].

The whole model comes to
[[V*H+2*H+512*H+2*H + (4*H*H+4*H + H*4*H+4*H + 4*H*H+H + 2*2*H)*12 + H*H+H = {total}]] \
parameters, about 102M.
""",
        "zh": """
# 中文 BERT-base 有多少参数

层数 [[L = 12]]，注意力头 [[A = 12]]，隐藏层大小 [[H = 768]]，词表大小 [[V = 21128]]，
位置最多 512 个。

- 嵌入层（含层归一化）：[[V*H + 2*H + 512*H + 2*H = {embeddings}]]。
- 查询、键、值三个矩阵（含偏置）：[[3*H*H + 3*H = 1,771,776]]。
- 输出投影：[[H*H + H = 590,592]]。
- 前馈网络：升维 [[H*4H + 4H = 2,362,368]]，降维 [[4H*H + H = 2,360,064]]。
- 每层两个层归一化：[[2*2*H = 3,072]]。

整个模型的参数量为
[[V*H+2*H+512*H+2*H + (4*H*H+4*H + H*4*H+4*H + 4*H*H+H + 2*2*H)*12 + H*H+H = {total}]]，约 1.02亿。
""",
    },
    {
        "embeddings": Mistake("16,622,952", "16,622,592"),
        "total": Mistake("102,276,648", "102,267,648"),
    },
)

B = Article(
    {
        "en": """
# How large is BERT?

Take [[V = 30522]], [[H = 768]], 512 positions and two segments. \
Each head has matrices of width [[768/12 = {head}]].
No bias of a linear layer is counted, LayerNorms are:

[[(30522+512+2)*768 + 768*2 + 12*(768*768/12*3*12 + 768*768 + 768*3072*2 + 768*2*2) = {total}]]

which is about 110M. The heads for pre-training add [[768*2 + 2*768*768 = {heads}]], about 1.18M.
""",
        "zh": """
# BERT 有多大

取 [[V = 30522]]，[[H = 768]]，512 个位置，两种句子。每个头的矩阵宽度为 [[768/12 = {head}]]。
线性层的偏置不计，层归一化计入：

[[(30522+512+2)*768 + 768*2 + 12*(768*768/12*3*12 + 768*768 + 768*3072*2 + 768*2*2) = {total}]]

约为 110M。预训练的两个头另有 [[768*2 + 2*768*768 = {heads}]]，约 1.18M。
""",
    },
    {
        "head": Mistake("46", "64"),
        "total": Mistake("108,880,704", "108,808,704"),
        "heads": Mistake("1,118,184", "1,181,184"),
    },
)

C = Article(
    {
        "en": """
# A general formula

Write V for the vocabulary, N for the positions and H for the hidden size. \
The tables have [[V*H]], [[N*H]] and [[2*H]].

All heads of the attention together have [[A * 3 * (H/A) * H]], \
which simplifies to [[{heads}]].{output}

The feed-forward network has two linear layers, H to 4H and 4H to H, each with its bias:
[[{halves}]] = [[{ffn}]]
""",
        "zh": """
# 一般公式

记词表大小 V，位置数 N，隐藏层大小 H。三张表有 [[V*H]]、[[N*H]]、[[2*H]]。

注意力的所有头一共有 [[A * 3 * (H/A) * H]]，化简为 [[{heads}]]。{output}

前馈网络是两个线性层，H 到 4H 和 4H 到 H，都带偏置：
[[{halves}]] = [[{ffn}]]
""",
    },
    {
        "heads": Mistake("3*H^2/A", "3*H^2"),
        "output": Mistake("", " W_O: [[H^2]]."),
        "halves": Mistake("2*(4H*H + H)", "4H*H + 4H + 4H*H + H"),
        "ffn": Mistake("8H^2 + 2H", "8H^2 + 5H"),
    },
)

D = Article(
    {
        "en": """
# A worked table

BERT-base: [[H = 768]], [[L = 12]], [[F = 3072]], [[V = 30522]], [[S = 512]]. No biases are counted.

Attention: [[4*768^2 = 2,359,296]]
Feed-forward: [[2*768*3072 = 4,718,592]]
Two LayerNorms: [[2*2*768 = 3,072]]
Their sum is {layer}.

All layers: [[12 * {layer} = {layers}]]

Tokens: [[30522*768 = {tokens}]]
Positions: [[512*768 = 393,216]]
Segments: [[2*768 = 1,536]]
Their sum is {tables}.

Pooler: [[768*768 = 589,824]]

In total [[{layers} + {tables} + 589,824 = {total}]]. The large one has about 340M.
""",
        "zh": """
# 一张算好的表

BERT-base：[[H = 768]]，[[L = 12]]，[[F = 3072]]，[[V = 30522]]，[[S = 512]]。偏置一律不计。

注意力：[[4*768^2 = 2,359,296]]
前馈：[[2*768*3072 = 4,718,592]]
两个层归一化：[[2*2*768 = 3,072]]
三项之和为 {layer}。

全部层：[[12 * {layer} = {layers}]]

词嵌入：[[30522*768 = {tokens}]]
位置嵌入：[[512*768 = 393,216]]
片段嵌入：[[2*768 = 1,536]]
三项之和为 {tables}。

池化层：[[768*768 = 589,824]]

总计 [[{layers} + {tables} + 589,824 = {total}]]。Large 约 340M。
""",
    },
    {
        "layer": Mistake("7,081,960", "7,080,960"),
        "layers": Mistake("84,983,520", "84,971,520"),
        "tokens": Mistake("23,449,856", "23,440,896"),
        "tables": Mistake("23,844,608", "23,835,648"),
        "total": Mistake("109,418,952", "109,396,992"),
    },
)

ARTICLES = {"A": A, "B": B, "C": C, "D": D}


def as_html(markdown: str) -> str:
    """Write an article as a page, with a paragraph for each line.

    The page has raised exponents, entities, and a script, which is not text.
    """
    plain = [
        re.sub(r"\^(\d)", r"<sup>\1</sup>", line.lstrip("#- ").replace("*", "&times;"))
        for line in markdown.splitlines()
    ]
    body = "\n".join(f"<p>{line}</p>" if line else "" for line in plain)
    return f"<!DOCTYPE html>\n<html><head><script>var a = 1 + 1 == 3;</script></head><body>\n{body}"
