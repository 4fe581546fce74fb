"""Pictures of attention show the numbers of transformers; each file is self-contained."""

import base64
import json
import os
import re
import struct
import sys
import zlib
from html import unescape
from html.parser import HTMLParser
from math import sqrt
from xml.etree import ElementTree as ET

import berts
import browsers
import pytest
import torch
from images import rgba

from weighbridge import data
from weighbridge.cli import main
from weighbridge.data import LANGUAGES
from weighbridge.errors import UsageError
from weighbridge.render import raster, svg
from weighbridge.render.attention import MOST_DRAWN, Attention
from weighbridge.render.drawing import FORMS, draw
from weighbridge.torch.tracing import attention

CHINESE = "我爱自然语言处理"
WORDS = [*berts.LOVE, "<b>", "&", "<", "b", ">"]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return berts.save(tmp_path_factory.mktemp("small"), words=WORDS, max_position_embeddings=100)


@pytest.fixture(scope="module")
def chinese(tmp_path_factory):
    return attention(berts.save(tmp_path_factory.mktemp("chinese")), CHINESE)


@pytest.mark.parametrize("name", ["minilm", "bert_tiny"])
def test_the_probabilities_are_those_of_transformers(name, request):
    import transformers

    folder = request.getfixturevalue(name)
    found = attention(folder, "The truck is heavy.", "How heavy is the truck?")
    tokens = transformers.AutoTokenizer.from_pretrained(folder)(
        "The truck is heavy.", "How heavy is the truck?", return_tensors="pt"
    )
    theirs = transformers.BertModel.from_pretrained(folder, attn_implementation="eager")
    with torch.no_grad():
        expected = theirs(**tokens, output_attentions=True).attentions
    assert len(found.probabilities) == len(expected) * expected[0].shape[1]
    for (layer, head), rows in found.probabilities.items():
        assert torch.allclose(torch.tensor(rows), expected[layer][0, head], atol=1e-5)


def pixels(picture):
    """Return the opacity of an embedded image's pixels."""
    return [[alpha / 255 for *_, alpha in row] for row in rgba(picture)]


def test_every_map_has_the_numbers_in_its_pixels(chinese):
    drawn, notes = draw(chinese, "svg")
    root = ET.fromstring(drawn)  # noqa: S314  # of our own making
    images = [element.get("href") for element in root.iter(f"{SVG}image")]
    assert (notes, len(images)) == ([], 3 * 4 + 1)  # and the scale
    for image, rows in zip(images, chinese.probabilities.values(), strict=False):
        for opacities, values in zip(pixels(image), rows, strict=True):
            assert opacities == pytest.approx([sqrt(value) for value in values], abs=0.002)
    assert [sqrt(0.5 / 40)] != pixels(images[-1])[0] == sorted(pixels(images[-1])[0])


def test_one_head_is_large_with_tokens_and_percent(chinese):
    one = chinese._replace(probabilities={(1, 2): chinese.probabilities[1, 2]})
    root = ET.fromstring(draw(one, "svg", "zh")[0])  # noqa: S314
    texts = [element.text for element in root.iter(f"{SVG}text") if element.text]
    for token in ("[CLS]", "[SEP]", *CHINESE):
        assert texts.count(token) == 2
    assert "第 1 层第 2 个头" in texts
    numbers = [int(element.text) for element in root.iter(f"{SVG}tspan")]
    expected = [
        round(100 * value) for row in one.probabilities[1, 2] for value in row if value >= 0.005
    ]
    assert numbers == pytest.approx(expected, abs=1)


class Checker(HTMLParser):
    void = frozenset({"meta", "rect", "image", "path", "use", "input"})

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.links, self.outside = [], [], [], []

    def handle_starttag(self, tag, attrs):
        named = dict(attrs)
        self.ids += [named["id"]] if "id" in named else []
        self.links += [named["href"][1:]] if (named.get("href") or "").startswith("#") else []
        self.outside += [
            v for k, v in attrs if k in ("src", "href", "data", "action") and v[:1] != "#"
        ]
        if tag not in self.void:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in self.void:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_page_is_balanced_stands_alone_and_links_to_every_head(chinese, lang):
    page = draw(chinese, "html", lang)[0].decode()
    checker = Checker()
    checker.feed(page)
    assert checker.open == []
    assert len(checker.ids) == len(set(checker.ids))
    assert set(checker.links) <= set(checker.ids)
    assert {f"l{layer}h{head}" for layer in range(3) for head in range(4)} < set(checker.links)
    assert all(address.startswith("data:image/png") for address in checker.outside)
    assert not re.search(r"@import|url\(|https?://(?!www\.w3\.org/2000/svg)", page)
    assert f'<html lang="{"zh-CN" if lang == "zh" else "en"}">' in page
    assert "prefers-color-scheme: dark" in page
    assert page.count("<details>") == 12


@pytest.mark.parametrize("form", ["html", "svg"])
def test_text_from_outside_is_escaped(small, form):
    for places in ({}, {"layer": 0, "head": 1}):
        drawn = draw(attention(small, "<b> & </script>", "\x1b[31m", **places), form)[0].decode()
        assert "<b>" not in drawn
        assert drawn.count("</script>") == (2 if form == "html" else 0)
        assert "\x1b" not in drawn


def check_fonts():
    """Skip the test on a machine without fonts, where no PNG can be drawn."""
    try:
        raster.without_font("<text>a</text>")
    except UsageError as error:
        pytest.skip(str(error))


@pytest.fixture(params=FORMS)
def form(request):
    if request.param == "png":
        check_fonts()
    return request.param


def test_a_picture_is_rendered_and_marked(chinese):
    check_fonts()
    drawn, _ = draw(chinese, "png", "zh")
    width, height = struct.unpack(">II", drawn[16:24])
    whole = re.search(r'width="(\d+)" height="(\d+)"', draw(chinese, "svg", "zh")[0].decode())
    assert (width, height) == (2 * int(whole[1]), 2 * int(whole[2]))
    assert svg.MARK.encode() in drawn[:200]
    assert len(zlib.compress(drawn)) > 10_000


def test_characters_without_a_font_are_named(monkeypatch):
    """Fonts differ by machine, so one letter stands for a known one and one for a missing one."""
    drawn = {"a": b"a", "b": b"b"}

    def render(svg_string, **_):
        return drawn.get(re.search(r">([^<]+)</text>", svg_string)[1], b"a box")

    monkeypatch.setattr(raster, "_renderer", lambda: render)
    assert raster.without_font("<text>ab</text>") == []
    assert raster.without_font("<text>ab 我&amp;</text>") == [
        "no font here has 我 (U+6211) & (U+0026)"
    ]
    with pytest.raises(UsageError, match="no font here"):
        raster.without_font("<text>我</text>")


def test_no_renderer_is_one_message(monkeypatch, chinese):
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    with pytest.raises(
        UsageError, match=r"a PNG needs a package that is not installed \(missing = 'resvg_py'\)"
    ):
        draw(chinese, "png")


def test_a_long_text_is_cut_and_reported(small, form, tmp_path, capsys):
    path = tmp_path / f"it.{form}"
    assert (
        main(["attention", str(small), "it " * 80, "-o", str(path), "--layer", "1", "--head", "0"])
        == 0
    )
    output = capsys.readouterr()
    note = (
        f"weighbridge: note: only tokens 0 to {MOST_DRAWN - 1} of {MOST_DRAWN + 18} are drawn;"
        " --window FIRST-LAST draws others\n"
    )
    assert output.err == ("" if form == "html" else note)
    assert "tokens: 64" in output.out


def test_labels_do_not_overlap():
    tokens = ("[CLS]", "antidisestablishment", "##arianism", *["word"] * 61)
    rows = [[1 / 64] * 64 for _ in tokens]
    for number in (2, 7, 30, 64):
        some = Attention(
            "m",
            "BertModel",
            ("t",),
            tokens[:number],
            {(0, 0): [row[:number] for row in rows[:number]]},
            (),
        )
        root = ET.fromstring(draw(some, "svg")[0])  # noqa: S314
        width = float(root.get("width"))
        for element in root.iter(f"{SVG}text"):
            size = float(element.get("font-size", 0))
            if turned := re.match(r"translate\((\S+) (\S+)\) rotate", element.get("transform", "")):
                assert float(turned[2]) > 0.8 * svg.pixels(element.text, size) + size / 2
                assert (
                    float(turned[1]) + 0.5 * svg.pixels(element.text, size) < width - 2 * svg.MARGIN
                )
            if element.get("text-anchor") == "end":
                assert float(element.get("x")) >= svg.pixels(element.text, size) - 1
            elif element.get("x") and element.text and not element.get("text-anchor"):
                assert float(element.get("x")) + 0.9 * svg.pixels(element.text, size) <= width


# Averages and windows


def test_averages_are_those_of_torch(small):
    whole = attention(small, "i love it")
    maps = torch.tensor(list(whole.probabilities.values())).view(3, 4, 5, 5)
    heads = attention(small, "i love it", average="heads")
    assert list(heads.probabilities) == [(0, "mean"), (1, "mean"), (2, "mean")]
    for (layer, _), rows in heads.probabilities.items():
        assert torch.allclose(torch.tensor(rows), maps[layer].mean(0))
    layers = attention(small, "i love it", average="layers")
    assert list(layers.probabilities) == [("mean", head) for head in range(4)]
    for (_, head), rows in layers.probabilities.items():
        assert torch.allclose(torch.tensor(rows), maps[:, head].mean(0))
    (rows,) = attention(small, "i love it", average="all").probabilities.values()
    assert torch.allclose(torch.tensor(rows), maps.mean((0, 1)))
    (rows,) = attention(small, "i love it", layer=1, average="heads").probabilities.values()
    assert torch.allclose(torch.tensor(rows), maps[1].mean(0))


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_mean_is_named_in_every_picture(small, lang):
    for average, words in (
        ("heads", ("Layer 2, mean of 4 heads", "第 2 层 4 个头的平均")),
        ("layers", ("Head 2, mean of 3 layers", "第 2 个头在 3 层上的平均")),
        ("all", ("Mean of 3 layers and 4 heads", "3 层、每层 4 个头的平均")),
    ):
        some = attention(small, "i love it", average=average)
        for form in ("svg", "html"):
            assert words[LANGUAGES.index(lang)] in draw(some, form, lang)[0].decode()


def test_a_window_draws_the_tokens_asked_for(small):
    text = " ".join(["i love it so do you"] * 12)
    whole = attention(small, text)
    some = attention(small, text, layer=2, head=1, window=(60, 69))
    assert (some.first, some.last, some.drawn) == (60, 69, 10)
    assert some.labels == list(whole.tokens[60:70])
    assert some.map(2, 1) == [row[60:70] for row in whole.probabilities[2, 1][60:70]]
    drawn, notes = draw(some, "svg")
    root = ET.fromstring(drawn)  # noqa: S314
    opacities = pixels(next(root.iter(f"{SVG}image")).get("href"))
    expected = [[sqrt(value) for value in row[60:70]] for row in whole.probabilities[2, 1][60:70]]
    for ours, theirs in zip(opacities, expected, strict=True):
        assert ours == pytest.approx(theirs, abs=0.003)
    assert notes == ["only tokens 60 to 69 of 74 are drawn; --window FIRST-LAST draws others"]
    assert draw(some, "html")[1] == []


def test_a_page_too_large_holds_its_window_and_says_so(small, monkeypatch):
    monkeypatch.setattr("weighbridge.render.page._MOST_VALUES", 4000)
    some = attention(small, "i love it " * 12, window=(30, 35))
    drawn, notes = draw(some, "html")
    assert notes == ["only tokens 30 to 35 of 38 are drawn; --window FIRST-LAST draws others"]
    assert "This page holds tokens 30 to 35 of 38" in drawn.decode()
    held = json.loads(re.search(r'id="page">(.*?)</script>', drawn.decode())[1])
    assert (held["start"], held["tokens"]) == (30, list(some.tokens[30:36]))
    assert len(base64.b64decode(held["values"])) == 2 * 12 * 6 * 6


# In a browser


@pytest.mark.sampled("src/weighbridge/render")
@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("width", [390, 1280])
def test_in_a_browser_nothing_fails_or_is_wider_than_the_screen(small, lang, width, tmp_path):
    some = attention(small, "i love it <b> & </script> " * 8, "so do you")
    page = draw(some, "html", lang)[0].decode()
    for script in (
        "",
        "click('#as-map')",
        "location.hash = '#l1h2'; click('#as-map'); get('layer').value = 'mean'; draw();",
    ):
        seen = browsers.look(page, width, tmp_path, script)
        assert seen["errors"] == []
        assert seen["wide"] <= width


def lines(head):
    return f"""
      {head} draw();
      result([...document.querySelectorAll('#lines line')].map((line) =>
        [line.dataset.from, line.dataset.to, line.getAttribute('stroke-opacity')].map(Number)));
      result(document.getElementById('name').textContent);
    """


def test_the_lines_of_one_head_and_of_means_are_the_probabilities(small, tmp_path):
    some = attention(small, "i love it . do you", "so do you")
    n = len(some.tokens)
    maps = torch.tensor(list(some.probabilities.values())).view(3, 4, n, n)
    page = draw(some, "html")[0].decode()
    script = "".join(
        lines(f"get('layer').value = '{layer}'; get('head').value = '{head}';")
        for layer, head in (("1", "2"), ("0", "mean"), ("mean", "3"), ("mean", "mean"))
    )
    seen = browsers.look(page, 800, tmp_path, script)
    assert seen["errors"] == []
    expected = (maps[1, 2], maps[0].mean(0), maps[:, 3].mean(0), maps.mean((0, 1)))
    for drawn, rows in zip(seen["results"][::2], expected, strict=True):
        theirs = {
            (row, column): float(rows[row, column])
            for row in range(n)
            for column in range(n)
            if rows[row, column] >= 0.0051
        }
        ours = {(row, column): opacity**2 for row, column, opacity in drawn}
        assert theirs.keys() <= ours.keys()
        for place, value in theirs.items():
            assert ours[place] == pytest.approx(value, abs=0.002)
    assert seen["results"][1::2] == [
        "Layer 1, head 2",
        "Layer 0, mean of 4 heads",
        "Head 3, mean of 3 layers",
        "Mean of 3 layers and 4 heads",
    ]


def test_sentences_and_windows_choose_the_tokens_of_both_columns(small, tmp_path):
    some = attention(small, "i love it . do you " * 6, "so do you")
    columns = """
      draw();
      result([...document.querySelectorAll('.left span')].map((token) => token.textContent));
      result([...document.querySelectorAll('.right span')].map((token) => token.textContent));
    """
    seen = browsers.look(
        draw(some, "html")[0].decode(),
        800,
        tmp_path,
        f"get('first').value = 5; get('last').value = 9; {columns}"
        f"click('#later'); {columns}"
        f"get('first').value = 0; get('last').value = 99; get('from').value = '2'; {columns}",
    )
    results = seen["results"]
    assert seen["errors"] == []
    assert results[0] == results[1] == list(some.tokens[5:10])
    assert results[2] == results[3] == list(some.tokens[10:15])
    of_second = [place for place, number in enumerate(some.sentences) if number == 2]
    assert results[4] == [some.tokens[place] for place in of_second]
    assert results[5] == list(some.tokens)


def test_a_chosen_token_shows_its_lines_alone_with_percentages(small, tmp_path):
    some = attention(small, "i love it", layer=1, head=2)
    seen = browsers.look(
        draw(some, "html")[0].decode(),
        390,
        tmp_path,
        """
        click('.left li:nth-child(3) button');
        result([...document.querySelectorAll('#lines line')]
          .filter((line) => line.style.display !== 'none').map((line) => line.dataset.from));
        result([...document.querySelectorAll('.right small')].map((share) => share.textContent));
        result(document.querySelector('.left li:nth-child(3) button').getAttribute('aria-pressed'));
        """,
    )
    assert seen["errors"] == []
    drawn, shares, pressed = seen["results"]
    row = some.probabilities[1, 2][2]
    assert set(drawn) == {"2"}
    assert [float(share.rstrip("%") or 0) for share in shares] == pytest.approx(
        [100 * value if value >= 0.005 else 0 for value in row], abs=0.06
    )
    assert pressed == "true"


def test_a_notebook_shows_the_page_in_a_frame_and_a_picture_where_frames_are_removed(chinese):
    shown = chinese._repr_html_()
    inside, below = re.fullmatch(
        r'<div class="weighbridge"><iframe [^>]*srcdoc="([^"]*)"[^>]*></iframe>(.*)</div>', shown
    ).groups()
    assert unescape(inside) == chinese.html()
    picture = re.search(r"data:image/svg\+xml;base64,([^\"]+)", below)[1]
    assert base64.b64decode(picture) == draw(chinese, "svg")[0]
    assert "<script" not in shown


# Files


def ask(small, path, *more):
    return main(["attention", str(small), "i love it", "-o", str(path), *more])


def test_a_picture_is_replaced_and_anything_else_is_not(small, form, tmp_path, capsys):
    path = tmp_path / f"a.{form.upper()}"
    assert ask(small, path) == 0
    first = path.read_bytes()
    assert ask(small, path, "--layer", "1") == 0
    assert path.read_bytes() != first
    path.write_text("my own work")
    assert ask(small, path) == 2
    assert path.read_text() == "my own work"
    assert "already exists and was not written by trace or attention" in capsys.readouterr().err
    assert os.listdir(tmp_path) == [path.name]


BAD = [
    (
        "a.pdf",
        (
            "the suffix does not name a picture format (suffix = '.pdf')."
            " Use a file name that ends in .html, .svg or .png."
        ),
    ),
    ("a", "the suffix does not name a picture format"),
    ("none/a.svg", "there is no such folder"),
    (".", "the suffix does not name a picture format"),
    ("folder.svg", "already exists and was not written by"),
]


@pytest.mark.parametrize(("name", "message"), BAD)
def test_a_file_that_cannot_be_written_is_one_message(small, name, message, tmp_path, capsys):
    (tmp_path / "folder.svg").mkdir()
    assert ask(small, f"{tmp_path}/{name}") == 2
    output = capsys.readouterr()
    assert message in output.err
    assert (output.out, output.err.count("\n")) == ("", 1)
    assert os.listdir(tmp_path) == ["folder.svg"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["i", "-o", "a.svg", "--head", "1"], "--head needs --layer"),
        (
            ["i", "-o", "a.svg", "--layer", "9"],
            "there is no such layer (layer = 9). Give --layer as 0 to 2.",
        ),
        (["i"], "required: -o/--output"),
        ([" ", "-o", "a.svg"], "the text is empty"),
        (["i", "-o", "a.svg", "--average", "x"], "invalid choice"),
        (
            ["i", "-o", "a.svg", "--average", "heads", "--layer", "0", "--head", "0"],
            "an average needs several layers or heads (average = 'heads'). Drop --head.",
        ),
        (
            ["i", "-o", "a.svg", "--average", "all", "--layer", "0"],
            "Drop --layer, or use --average heads.",
        ),
        (["i", "-o", "a.svg", "--window", "1:2"], "--window takes FIRST-LAST (found = '1:2')."),
        (
            ["i", "-o", "a.svg", "--window", "1-3"],
            "no such window (first = 1, last = 3, tokens = 3). Give two positions from 0 to 2.",
        ),
        (
            ["i " * 80, "-o", "a.svg", "--window", "0-64"],
            "a window has at most 64 tokens (first = 0, last = 64). For example --window 0-63.",
        ),
    ],
)
def test_a_bad_question_is_one_message(small, arguments, message, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["attention", str(small), *arguments]) == 2
    output = capsys.readouterr()
    assert message in output.err
    assert (output.out, output.err.count("\n"), os.listdir(tmp_path)) == ("", 1, [])


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_a_full_disk_leaves_the_file_as_it_was(small, tmp_path, capsys, monkeypatch):
    path = tmp_path / "a.svg"
    assert ask(small, path) == 0
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_bytes", full)
    assert ask(small, path, "--layer", "1") == 2
    assert "cannot be written: No space left on device" in capsys.readouterr().err
    assert path.read_bytes() == before


def test_the_languages_say_the_same_things():
    english, chinese = (data.read_toml(f"words/attention.{lang}.toml") for lang in LANGUAGES)
    assert english.keys() == chinese.keys()
    for key, sentence in english.items():
        found = [sorted(set(re.findall(r"\{(\w+)\}", str(of)))) for of in (sentence, chinese[key])]
        assert found[0] == found[1], key


def test_colours_are_distinct_from_the_background():
    def light(colour):
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [
            part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
        ]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    def contrast(one, other):
        high, low = sorted((light(one), light(other)), reverse=True)
        return (high + 0.05) / (low + 0.05)

    def laid(value, ground):
        parts = [int(ground[at : at + 2], 16) for at in (1, 3, 5)]
        mixed = [
            round(c * sqrt(value) + g * (1 - sqrt(value)))
            for c, g in zip(svg.COLOUR, parts, strict=True)
        ]
        return "#" + "".join(f"{part:02x}" for part in mixed)

    for colours in (svg.LIGHT, svg.DARK):
        assert min(contrast(colours[kind], colours["ground"]) for kind in ("ink", "quiet")) > 4.5
        for value in (step / 200 for step in range(201)):
            ink = svg.ON if value >= svg.DARKEST else colours["number"]
            assert contrast(ink, laid(value, colours["cell"])) > 4.5, value
