"""The page of a token has the numbers that the weights in the checkpoint give, with NumPy."""

import json
import math
import re
from html import unescape

import berts
import browsers
import numpy as np
import pytest
from images import rgba
from safetensors.numpy import load_file, save_file

from weighbridge import data
from weighbridge.cli import main
from weighbridge.data import LANGUAGES
from weighbridge.errors import UsageError
from weighbridge.render import strip
from weighbridge.render.token_page import token_page
from weighbridge.torch.token_path import trace_token

WORDS = [*berts.LOVE, "<", "b", ">"]


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return berts.save(tmp_path_factory.mktemp("small"), words=WORDS, hidden_act="relu")


class Reference:
    """BERT in NumPy and float64, written for this test from the paper alone."""

    def __init__(self, folder, *, causal=False):
        self.weights = {
            name.removeprefix("bert."): values.astype(np.float64)
            for name, values in load_file(folder / "model.safetensors").items()
        }
        self.heads = json.loads((folder / "config.json").read_text())["num_attention_heads"]
        self.causal = causal

    def linear(self, name, rows):
        return rows @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def norm(self, name, rows):
        moved = rows - rows.mean(-1, keepdims=True)
        scaled = moved / np.sqrt((moved**2).mean(-1, keepdims=True) + 1e-12)
        return scaled * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def embed(self, ids, segments):
        table = {kind: self.weights[f"embeddings.{kind}_embeddings.weight"] for kind in KINDS}
        rows = table["word"][ids] + table["token_type"][segments]
        return self.norm("embeddings.LayerNorm", rows + table["position"][: len(ids)])

    def layer(self, number, rows):
        """Return everything that one layer computes, by the name on the page."""
        at, n = f"encoder.layer.{number}.", len(rows)
        q, k, v = (
            self.linear(f"{at}attention.self.{name}", rows)
            .reshape(n, self.heads, -1)
            .swapaxes(0, 1)
            for name in ("query", "key", "value")
        )
        products = q @ k.swapaxes(1, 2)
        scores = products / math.sqrt(q.shape[-1])
        if self.causal:
            scores = np.where(np.tri(n, dtype=bool), scores, -np.inf)
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        p = powers / powers.sum(-1, keepdims=True)
        z = p @ v
        joined = z.swapaxes(0, 1).reshape(n, -1)
        o = self.linear(f"{at}attention.output.dense", joined)
        y = self.norm(f"{at}attention.output.LayerNorm", o + rows)
        u = self.linear(f"{at}intermediate.dense", y)
        a = np.maximum(u, 0)
        d = self.linear(f"{at}output.dense", a)
        left = self.norm(f"{at}output.LayerNorm", d + y)
        return {
            "x": rows, "q": q, "k": k, "v": v, "products": products, "scores": scores, "p": p,
            "z": z, "joined": joined, "o": o, "r": o + rows, "y": y, "u": u, "a": a, "d": d,
            "s": d + y, "left": left,
        }  # fmt: skip


KINDS = ("word", "token_type", "position")


def run(folder, path, segments, **kind):
    reference = Reference(folder, **kind)
    rows = reference.embed([id_ for _, id_ in path.tokens], segments)
    for number in range(path.layer):
        rows = reference.layer(number, rows)["left"]
    return reference.layer(path.layer, rows)


CASES = [
    ("BertModel", {}, 0, 1),
    ("BertForSequenceClassification", {}, 2, 4),
    ("BertForMultipleChoice", {}, 1, 0),
    ("BertLMHeadModel", {"is_decoder": True, "add_cross_attention": True}, 1, 2),
]


@pytest.mark.parametrize(("class_name", "fields", "layer", "token"), CASES)
def test_every_vector_is_what_the_weights_give(class_name, fields, layer, token, tmp_path):
    folder = berts.save(tmp_path, class_name, WORDS, hidden_act="relu", **fields)
    path = trace_token(folder, "i love it", "so do you", class_name, layer=layer, token=token)
    want = run(folder, path, [0] * 5 + [1] * 4, causal="is_decoder" in fields)

    def same(ours, theirs):
        assert np.allclose(ours, theirs, rtol=1e-4, atol=1e-4)

    same(path.entered, want["x"][token])
    for at, head in enumerate(path.heads):
        same(head.query.result, want["q"][at, token])
        same(head.key.result, want["k"][at, token])
        same(head.keys, want["k"][at])
        same(head.values, want["v"][at])
        same(head.products, want["products"][at, token])
        same(head.scores, want["scores"][at, token])
        same(head.probabilities, want["p"][at, token])
        same(head.mixed, want["z"][at, token])
    own = {
        "joined": path.joined, "o": path.output.result, "r": path.attended.given,
        "y": path.attended.result, "u": path.up.result, "a": path.activated, "d": path.down.result,
        "s": path.left.given, "left": path.left.result,
    }  # fmt: skip
    for name, vector in own.items():
        same(vector, want[name][token])


def numbers(text):
    return [
        float(found) for found in re.findall(r"-?\d+\.?\d*(?:e[+-]?\d+)?", text.replace("−", "-"))
    ]


def cells(page, title):
    """Return the numbers in each row of a table below a title, of each head."""
    panels = []
    for panel in page.split(f"<h3>{title}")[1:]:
        table = panel.partition("<tbody>")[2].partition("</tbody>")[0]
        rows = [
            [
                numbers(re.sub(r"<[^>]+>", "", cell))[-1]
                for cell in re.findall(r"<td>([^<]*|.*?)</td>", row)
                if re.search(r"\d", re.sub(r"<[^>]+>", "", cell))
            ]
            for row in table.split("</tr>")[:-1]
        ]
        panels.append(rows)
    return panels


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_numbers_on_the_page_are_those_of_the_weights(small, lang):
    path = trace_token(small, "i love it", "so do you", layer=1, token=2)
    want = run(small, path, [0] * 5 + [1] * 4)
    page = token_page(path, lang)
    tables = cells(page, "q·k → ÷ √D → softmax")
    assert len(tables) == len(path.heads)
    for at, rows in enumerate(tables):
        expected = np.stack(
            [want["products"][at, 2], want["scores"][at, 2], 100 * want["p"][at, 2]]
        )
        assert np.allclose(rows, expected.T, atol=0.051)
    lists = [numbers(found) for found in re.findall(r'<p class="numbers">(.*?)</p>', page)]
    rows = {
        name: want[name][2] for name in ("x", "joined", "o", "r", "y", "u", "a", "d", "s", "left")
    }
    for name, row in rows.items():
        assert any(
            len(found) == len(row) and np.allclose(found, row, rtol=0.006, atol=1e-5)
            for found in lists
        ), name
    for at in range(len(path.heads)):
        row = want["z"][at, 2]
        assert any(
            len(found) == len(row) and np.allclose(found, row, rtol=0.006, atol=1e-5)
            for found in lists
        )


def test_each_number_that_is_written_out_is_what_the_line_says(small):
    path = trace_token(small, "i love it", "so do you", layer=1, token=2, head=3)
    want = run(small, path, [0] * 5 + [1] * 4)
    page = token_page(path).replace("−", "-")
    lines = [
        unescape(re.sub(r"<[^>]+>", "", found)).replace("(", "").replace(")", "")
        for found in re.findall(r'<p class="example">(.*?)</p>', page)
    ]
    number = r"(-?[\d.e+-]+)"
    norms, sums = [], []
    for line in lines:
        norms += re.findall(
            rf"= {number} - {number} / {number} · {number} \+ {number} = {number}$", line
        )
        sums += re.findall(rf"= {number} \+ {number} = {number}$", line)
    assert (len(norms), len(sums)) == (2, 2)
    for given, mean, deviation, scale, shift, made in (map(float, found) for found in norms):
        expected = (given - mean) / deviation * scale + shift
        assert made == pytest.approx(expected, abs=0.02 * (1 + abs(given / deviation)))
    for one, other, made in (map(float, found) for found in sums):
        assert made == pytest.approx(one + other, abs=0.02)
    firsts = {"o[0]": "o", "u[0]": "u", "a[0]": "a", "d[0]": "d"}
    for start, name in firsts.items():
        (line,) = [line for line in lines if line.startswith(f"For example: {start}")]
        assert float(line.split(" = ")[-1]) == pytest.approx(want[name][2, 0], rel=0.006)
    queries = [line for line in lines if line.startswith("For example: q[0]")]
    mixed = [line for line in lines if line.startswith("For example: z[0]")]
    shares = [line for line in lines if line.startswith("For example: q·k")]
    for at in range(4):
        assert numbers(queries[at])[-1] == pytest.approx(want["q"][at, 2, 0], rel=0.006)
        assert numbers(mixed[at])[-1] == pytest.approx(want["z"][at, 2, 0], rel=0.006)
        best = want["p"][at, 2].argmax()
        assert numbers(shares[at])[-1] == pytest.approx(100 * want["p"][at, 2, best], abs=0.06)
        product, score = (want[name][at, 2, best] for name in ("products", "scores"))
        _, middle, _ = shares[at].split("; ")
        written = numbers(middle)
        assert (written[0], written[-1]) == pytest.approx((product, score), rel=0.006)


def test_the_shapes_of_weights_and_of_a_heads_slice_are_on_the_page(minilm):
    page = unescape(re.sub(r"<[^>]+>", "", token_page(trace_token(minilm, "A truck."))))
    for text in (
        "encoder.layer.0.attention.self.query.weight [384, 384], .bias [384]",
        "encoder.layer.0.intermediate.dense.weight [1536, 384], .bias [1536]",
        "each [384, 384], this head owns the rows 352 to 383: three slices [32, 384]",
    ):
        assert text in page


def test_a_decoder_shows_later_tokens_as_not_seen(tmp_path):
    folder = berts.save(tmp_path, "BertLMHeadModel", WORDS, is_decoder=True)
    page = trace_token(folder, "i love it", token=1).page()
    assert page.count("<td>not seen</td>") == 3 * 4
    assert "inf" not in re.sub(r'"data:[^"]*"', "", page)


def test_a_long_text_keeps_the_strongest_tokens_and_the_sum_of_the_others(small):
    path = trace_token(small, "it " * 40)
    page = path.page()
    rows = page.partition("<tbody>")[2].partition("</tbody>")[0].count("<tr")
    assert rows == 24 + 1
    assert "the other 18 tokens" in page
    first = cells(page, "q·k → ÷ √D → softmax")[0]
    assert sum(row[-1] for row in first) == pytest.approx(100, abs=0.05 * 25)


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_page_stands_alone_and_escapes_what_it_is_given(small, lang):
    path = trace_token(small, "<em> & </style><script>", "\x1b[31m", layer=2, head=3)
    page = token_page(path, lang)
    assert not re.search(r"<em>|<script|@import|url\(|https?://|\x1b", page)
    assert f'<html lang="{"zh-CN" if lang == "zh" else "en"}">' in page
    assert "prefers-color-scheme: dark" in page
    assert page.count("<style>") == page.count("</style>") == 1
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(ids)
    assert set(re.findall(r'<label for="([^"]+)"', page)) == {f"h{at}" for at in range(4)}
    assert re.findall(r'id="(h\d)" checked', page) == ["h3"]
    assert all(re.findall(r'<img [^>]*alt="([^"]*)"', page))
    assert "{" not in re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)


@pytest.mark.sampled("src/weighbridge/render")
@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("width", [390, 1280])
def test_in_a_browser_nothing_is_wider_than_the_screen(small, lang, width, tmp_path):
    path = trace_token(small, "i love it " * 9, layer=1)
    seen = browsers.look(token_page(path, lang), width, tmp_path, "click('label[for=h2]')")
    assert seen["errors"] == []
    assert seen["wide"] <= width
    assert browsers.look(
        token_page(path, lang), width, tmp_path,
        "click('label[for=h2]'); result(getComputedStyle(document.querySelector('#p2')).display)",
    )["results"] == ["block"]  # fmt: skip


def test_a_notebook_shows_the_page_in_a_frame_of_its_own(small):
    shown = trace_token(small, "i love it")._repr_html_()
    assert shown.startswith('<div class="weighbridge"><iframe ')
    assert 'sandbox="allow-scripts"' in shown
    assert "<script" not in shown
    inside = unescape(re.search(r'srcdoc="([^"]*)"', shown)[1])
    assert inside.startswith("<!DOCTYPE html>")


def test_a_strip_is_blue_above_zero_and_orange_below():
    image = re.search(r'src="([^"]+)"', strip.strip([0.5, -1.0, math.nan], 1.0, "x"))[1]
    (pixels,) = rgba(image)
    assert pixels == [(31, 111, 235, 128), (*strip.BELOW, 255), (*strip.BELOW, 0)]


def test_nan_in_a_checkpoint_is_shown_as_it_is(small, tmp_path):
    folder = berts.save(tmp_path, words=WORDS)
    broken = {
        name: values.copy() for name, values in load_file(folder / "model.safetensors").items()
    }
    broken["embeddings.LayerNorm.weight"][0] = np.nan
    save_file(broken, folder / "model.safetensors")
    assert "nan" in trace_token(folder, "i love it").page()


# The command


def test_the_command_writes_the_page(small, tmp_path, capsys):
    ask = ["trace", str(small), "i love it", "--token", "2", "--lang", "zh"]
    assert main([*ask, "--format", "html"]) == 0
    page = capsys.readouterr().out
    assert page.startswith("<!DOCTYPE html>")
    file = tmp_path / "it.html"
    assert main([*ask, "-o", str(file)]) == 0
    assert capsys.readouterr().out == f"{file}：{small.name} 第 0 层中的词元 love（位置 2）\n"
    assert file.read_text("utf-8") == page
    assert main([*ask, "-o", str(file)]) == 0
    file.write_text("my own work")
    assert main([*ask, "-o", str(file)]) == 2
    assert file.read_text() == "my own work"


BAD = [
    (["--format", "html", "--token", "5"], "(token = 5, tokens = 5). Give --token as 0 to 4."),
    (["--format", "html", "--token", "-1"], "there is no such token"),
    (["--format", "html", "--layer", "3"], "there is no such layer"),
    (["--token", "1"], "--token needs --format html (token = 1). Add --format html, or drop"),
    (["--json", "-o", "a.html"], "--output needs --format html"),
    (["--json", "--format", "html"], "not allowed with"),
    (["--format", "pdf"], "invalid choice"),
    (["-o", "a.pdf"], "use a file name that ends in .html".capitalize()),
    (["-o", "none/a.html"], "there is no such folder"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "message"), BAD)
def test_a_bad_question_is_one_message(small, arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["trace", str(small), "i love it", *arguments]) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert (printed.out, printed.err.count("\n"), list(tmp_path.iterdir())) == ("", 1, [])


def test_an_unknown_language_is_refused(small):
    with pytest.raises(UsageError, match="language"):
        token_page(trace_token(small, "i"), "tlh")


def test_the_languages_say_the_same_things():
    def leaves(found, path=()):
        for key, value in found.items():
            if isinstance(value, dict):
                yield from leaves(value, (*path, key))
            else:
                yield (*path, key), value

    english, chinese = (
        dict(leaves(data.read_toml(f"words/token.{lang}.toml"))) for lang in LANGUAGES
    )
    assert english.keys() == chinese.keys()
    for key, sentence in english.items():
        found = [sorted(set(re.findall(r"\{(\w+)\}", text))) for text in (sentence, chinese[key])]
        assert found[0] == found[1], key
