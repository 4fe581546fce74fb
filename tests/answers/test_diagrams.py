"""The diagrams of an article: each shape is the ledger's, and nothing unknown is claimed."""

from __future__ import annotations

import re
import subprocess
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from chinese import english_in
from markdown_it import MarkdownIt

from weighbridge import data
from weighbridge.algebra.expr import evaluate, parse
from weighbridge.answers.audit import audit
from weighbridge.answers.explain import explain
from weighbridge.answers.weigh import weigh
from weighbridge.blueprint.schema import load
from weighbridge.cli.program import main
from weighbridge.errors import UsageError
from weighbridge.render.diagram import (
    WIDTH,
    Apart,
    Box,
    Frame,
    Residual,
    Strip,
    Strips,
    labels,
    layout,
)
from weighbridge.render.diagram_svg import svg_file
from weighbridge.render.document import Diagram

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weighbridge.ledger.rows import Entry

MODELS = (
    "bert-base-chinese",
    "gpt2",
    "meta-llama/Meta-Llama-3-8B",
    "mistralai/Mixtral-8x7B-v0.1",
    "deepseek-ai/DeepSeek-V3",
    "google-t5/t5-small",
    "google/vit-base-patch16-224",
    "albert",
    "gemma2",
    "qwen3",
    "qwen2_moe",
    "bart",
    "clip",
    "opt",
)
LANGUAGES = ("en", "zh")
NAMES = {"softmax"}


def drawn(model: str, lang: str = "en", **more: Any) -> tuple[list[Diagram], Any]:
    """Return the diagrams of an article, and the values of its letters."""
    document = explain(model, lang=lang, **more).document(lang)
    return [block for block in document.blocks if isinstance(block, Diagram)], document.values


def of_kind(model: str, name: str, **more: Any) -> Diagram:
    """Return the first diagram with a name."""
    return next(diagram for diagram in drawn(model, **more)[0] if diagram.name == name)


def parts_in(value: Any, kind: type) -> Iterator[Any]:
    """Yield the parts of a kind, however deep."""
    if isinstance(value, kind):
        yield value
    if isinstance(value, tuple) and not isinstance(value, Strip):
        for item in value:
            yield from parts_in(item, kind)


def tensor_boxes(diagram: Diagram) -> list[Box]:
    return [box for box in parts_in(diagram.parts, Box) if box.kind == "tensor"]


def shown_shapes(box: Box) -> tuple[int, ...]:
    """Return the numbers of a box: a shape, and a bias; or the size of a norm."""
    return tuple(int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*", box.lines[-1]))


def tensors_by_module(entries: Iterator[Entry]) -> dict[str, list[Entry]]:
    modules: dict[str, list[Entry]] = {}
    for entry in entries:
        modules.setdefault(re.sub(r"[._](weight|bias)$", "", entry.template.name), []).append(entry)
    return modules


def shape_of(tensors: list[Entry]) -> tuple[int, ...]:
    """Return what a diagram shows of a module: its matrix and its bias, or the size of a norm."""
    shapes = [entry.shape for entry in tensors]
    if all(len(shape) == 1 for shape in shapes):
        return shapes[0]
    return tuple(size for shape in shapes for size in shape)


@pytest.mark.parametrize("model", MODELS)
def test_every_tensor_of_a_layer_is_drawn_with_its_shape(model: str) -> None:
    entries = weigh(model).ledger.entries
    layers = [diagram for diagram in drawn(model)[0] if diagram.name == "layer"]
    prefixes = dict.fromkeys(
        entry.template.name.partition("{")[0]
        for entry in entries
        if entry.template.role == "attention.output"
    )
    assert len(layers) == len(prefixes)
    for diagram, prefix in zip(layers, prefixes, strict=True):
        inside = [entry for entry in entries if entry.template.name.startswith(f"{prefix}{{")]
        last = max(index for entry in inside for index in entry.indices.outermost)
        here = [entry for entry in inside if last in entry.indices.outermost]
        expected = Counter(map(shape_of, tensors_by_module(here).values()))
        shown = Counter()
        for box in tensor_boxes(diagram):
            shown[shown_shapes(box)] += 2 if "each" in box.lines[0] else 1
        assert shown == expected


@pytest.mark.parametrize("model", MODELS)
def test_every_embedding_is_drawn_with_its_shape(model: str) -> None:
    entries = [e for e in weigh(model).ledger.entries if e.template.role.startswith("embedding.")]
    expected = Counter(map(shape_of, tensors_by_module(e for e in entries if not e.tied).values()))
    shown = Counter(
        shown_shapes(box)
        for diagram in drawn(model)[0]
        if diagram.name == "embeddings"
        for box in tensor_boxes(diagram)
    )
    assert set(shown) == set(expected)


@pytest.mark.parametrize("model", MODELS)
def test_the_letters_of_a_box_have_the_numbers_below_as_values(model: str) -> None:
    diagrams, values = drawn(model)
    compared = 0
    for diagram in diagrams:
        for box in tensor_boxes(diagram):
            letters = [line for line in box.lines if "$" in line and "$W_" not in line][:1]
            for line in letters:
                marked = re.findall(
                    r"\$([^$]+)\$", line.replace("$gamma$", "").replace("$beta$", "")
                )
                worth = [evaluate(parse(piece), values) for piece in marked]
                assert worth == list(shown_shapes(box))[: len(worth)]
                assert len(worth) == len(shown_shapes(box))
                compared += 1
    assert compared > 5


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("lang", LANGUAGES)
def test_heads_times_their_size_is_the_width_of_the_matrices(model: str, lang: str) -> None:
    for diagram in drawn(model, lang)[0]:
        if diagram.name == "heads":
            (queries, keys, values, *_), (results,) = (
                strips.strips for strips in parts_in(diagram.parts, Strips)
            )
            output = shown_shapes(tensor_boxes(diagram)[-1])
            heads, size = sizes_in(results)
            assert heads * size in output
            assert heads == sizes_in(queries)[0] == int(results.cells[-1][0])
            assert sizes_in(keys)[0] == sizes_in(values)[0] == int(keys.cells[-1][0])
            columns = {sum(span for _, span in strip.cells) for strip in (queries, keys, results)}
            assert len(columns) == 1


def sizes_in(strip: Strip) -> tuple[int, int]:
    """Return the number of heads of a row, and their size."""
    plain = re.sub(r"\$[^$]*\$", "", strip.label)
    heads, size = re.findall(r"\d[\d,]*", plain)
    return int(heads.replace(",", "")), int(size.replace(",", ""))


def test_grouped_heads_share_a_key_value_head() -> None:
    diagram = of_kind("meta-llama/Meta-Llama-3-8B", "heads")
    assert "serves 4 query heads" in diagram.caption
    (queries, keys, *_) = next(parts_in(diagram.parts, Strips)).strips
    assert queries.label == "query: $A$ = 32 heads of $D$ = 128"
    assert keys.label == "key: $A_kv$ = 8 heads of $D$ = 128"
    assert keys.cells == (("1", 4), ("2", 4), ("…", 1), ("8", 4))
    assert "serves" not in of_kind("bert-base-chinese", "heads").caption


# The order of steps


def steps_of(diagram: Diagram) -> list[str]:
    """Return the order of a layer's norms, blocks and additions."""
    steps = []
    for part in diagram.parts:
        inside = part.parts if isinstance(part, Residual) else (part,)
        for step in inside:
            if isinstance(step, Box) and step.kind == "tensor":
                steps.append("norm")
            elif not isinstance(step, Box):
                steps.append("block")
        if isinstance(part, Residual):
            steps.append("add")
    return steps


def test_norms_are_before_or_after_their_block() -> None:
    before, after = ["norm", "block", "add"], ["block", "add", "norm"]
    assert steps_of(of_kind("gpt2", "layer")) == before * 2
    assert steps_of(of_kind("bert-base-chinese", "layer")) == after * 2
    assert steps_of(of_kind("bart", "layer")) == after * 2
    assert steps_of(of_kind("gemma2", "layer")) == ["norm", "block", "norm", "add"] * 2
    assert steps_of(of_kind("olmo2", "layer")) == ["block", "norm", "add"] * 2


def test_a_model_inside_another_has_the_order_of_its_own_family() -> None:
    for diagram in drawn("llava")[0]:
        if diagram.name == "layer":
            assert steps_of(diagram) == ["norm", "block", "add"] * 2
    assert {diagram.name for diagram in drawn("llava")[0]} == {"embeddings", "layer", "heads"}


@pytest.mark.parametrize(
    ("model", "fields"),
    [
        ("gptj", {}),  # attention and feed-forward read the same input
        ("opt", {"do_layer_norm_before": False}),
        ("stablelm", {"use_parallel_residual": True}),
    ],
)
def test_an_order_that_is_not_known_is_left_open(model: str, fields: dict[str, Any]) -> None:
    diagram = of_kind(model, "layer", fields=fields)
    assert "leaves open" in diagram.caption
    assert isinstance(diagram.parts[0], Apart)
    assert not list(parts_in(diagram.parts, Residual))


def test_every_order_is_of_a_list_of_layers_that_its_family_has() -> None:
    orders = data.read_toml("facts/orders.toml")
    for kind in ("layers", "embeddings"):
        places = [place for text in orders[kind].values() for place in text.split()]
        assert len(places) == len(set(places))
        for place in places:
            family, _, prefix = place.partition(":")
            blueprint = load(family)
            names = [template.name for template in blueprint.templates(blueprint.base_class)]
            assert any(name.startswith(f"{prefix}{{") for name in names), place
    assert orders["settings"].keys() <= {
        place.partition(":")[0] for text in orders["layers"].values() for place in text.split()
    }


@pytest.mark.torch
@pytest.mark.parametrize(
    ("family", "prefix"),
    [
        ("bert", "encoder.layer."),
        ("albert", "encoder.albert_layer_groups."),
        ("gpt2", "h."),
        ("llama", "layers."),
        ("gemma2", "layers."),
        ("olmo2", "layers."),
        ("mixtral", "layers."),
        ("deepseek_v3", "layers."),
        ("t5", "encoder.block."),
        ("t5", "decoder.block."),
        ("bart", "decoder.layers."),
        ("vit", "layers."),
    ],
)
def test_the_order_is_that_of_the_reference(family: str, prefix: str) -> None:
    from layer_orders import Run  # needs torch

    run, orders = Run(family), data.read_toml("facts/orders.toml")
    known = [
        {order for order, places in orders[kind].items() if f"{family}:{prefix}" in places.split()}
        for kind in ("layers", "embeddings")
    ]
    assert known[0] == {run.order(prefix, 0)}
    if family != "vit":
        assert known[1] <= {run.input_order(prefix)}


# What is not drawn


@pytest.mark.parametrize("family", ["resnet", "convnext", "bit", "rwkv", "encodec"])
def test_families_without_attention_over_tokens_have_no_diagram_of_it(family: str) -> None:
    assert {diagram.name for diagram in drawn(family)[0]} <= {"embeddings"}


def test_a_state_space_model_has_its_table_alone() -> None:
    assert [diagram.name for diagram in drawn("mamba")[0]] == ["embeddings"]


def test_a_layer_with_a_tensor_that_no_diagram_shows_is_not_drawn() -> None:
    roles = {entry.template.role for entry in weigh("gpt_oss").ledger.entries}
    assert "attention.sinks" in roles
    assert {diagram.name for diagram in drawn("gpt_oss")[0]} == {"embeddings"}


def test_a_special_token_is_drawn_only_where_it_is_the_only_one() -> None:
    assert "embeddings" in {diagram.name for diagram in drawn("vit")[0]}
    assert "embeddings" not in {diagram.name for diagram in drawn("dinov2")[0]}  # a mask token


# Words


@pytest.mark.parametrize("model", MODELS)
def test_chinese_has_no_english_but_names(model: str) -> None:
    for diagram in drawn(model, "zh")[0]:
        for label in (*labels(diagram.parts), diagram.title, diagram.caption):
            plain = re.sub(r"\$[^$]*\$", " ", label)
            assert english_in(plain) == []
            assert set(re.findall(r"[A-Za-z]{2,}", plain)) <= NAMES, label


def test_the_languages_have_the_same_words() -> None:
    english, chinese = (data.read_toml(f"words/diagrams.{lang}.toml") for lang in LANGUAGES)
    assert {name: set(words) for name, words in english.items()} == {
        name: set(words) for name, words in chinese.items()
    }
    for name, words in english.items():
        for key, text in words.items():
            braces = [sorted(re.findall(r"\{\w+\}", t)) for t in (text, chinese[name][key])]
            assert braces[0] == braces[1], (name, key)


def test_an_authors_letters_are_in_diagrams() -> None:
    diagram = of_kind("bert", "layer", letters={"H": "h"}, assume=["F = 4H"])
    up = next(box for box in tensor_boxes(diagram) if box.lines[0] == "up")
    assert up.lines[1].replace("\n", " ") == "$4 * h$ × $h$ + $4 * h$"


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_diagram_fits_a_phone(model: str, lang: str) -> None:
    diagrams, values = drawn(model, lang)
    assert diagrams
    for diagram in diagrams:
        assert layout(diagram.parts, values).width <= WIDTH * 1.05


# Formats


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_page_holds_its_diagrams(lang: str) -> None:
    page = explain("bert-base-chinese", lang=lang).page()
    drawings = re.findall(r"<svg .*?</svg>", page, re.DOTALL)
    assert len(drawings) == 4  # with the map of layers
    for drawing in drawings:
        root = ET.fromstring(drawing)  # noqa: S314  # ours
        assert [child.tag for child in root][:2] == ["title", "desc"]
        assert root.get("role") == "img"


def test_markdown_shows_files_beside_it(tmp_path: Path) -> None:
    article = explain("bert-base-chinese", lang="zh")
    assert "![" not in article.markdown()
    written = article.save(tmp_path / "my article.md")
    assert sorted(tmp_path.iterdir()) == sorted(written)
    text = written[0].read_text(encoding="utf-8")
    images = []
    for token in MarkdownIt("commonmark").parse(text):
        images += [child for child in token.children or () if child.type == "image"]
    assert [image.attrs["src"] for image in images] == [
        path.name.replace(" ", "%20") for path in written[1:]
    ]
    assert images[0].content == "从词元到向量: 词嵌入; 位置嵌入; 片段嵌入 → + → 归一化"
    assert not any(re.search(r"\d", image.content) for image in images)
    for path in written[1:]:
        root = ET.fromstring(path.read_text(encoding="utf-8"))  # noqa: S314  # ours
        assert root.tag == "{http://www.w3.org/2000/svg}svg"


@pytest.mark.parametrize(
    ("name", "beginning"),
    [("a.html", "<!DOCTYPE"), ("a.tex", "% Compile"), ("a.txt", "How the"), ("a.MD", "# How")],
)
def test_the_ending_of_a_file_decides_its_format(
    name: str, beginning: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    assert main(["explain", "bert", "-o", str(path), "--lang", "en"]) == 0
    assert path.read_text(encoding="utf-8").startswith(beginning)
    assert capsys.readouterr().out.splitlines()[0] == str(path)


def test_an_ending_without_a_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="names no format"):
        explain("bert").save(tmp_path / "article.pdf")
    assert not list(tmp_path.iterdir())


def test_a_format_may_be_given_for_any_ending(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    assert main(["explain", "bert", "-o", str(path), "--format", "zhihu", "--lang", "en"]) == 0
    assert path.read_text(encoding="utf-8").startswith("# How")
    assert len(list(tmp_path.iterdir())) == 4


def test_markdown_on_stdout_says_where_the_diagrams_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for family, said in (("bert", True), ("resnet", False)):
        assert main(["explain", family, "--format", "markdown", "--lang", "en"]) == 0
        assert ("diagrams are left out" in capsys.readouterr().err) is said


@pytest.mark.parametrize("model", ["deepseek-ai/DeepSeek-V3", "google-t5/t5-small"])
def test_the_latex_compiles(model: str, tmp_path: Path) -> None:
    import shutil

    if not shutil.which("xelatex"):
        pytest.skip("xelatex is not installed")
    explain(model, lang="zh").save(tmp_path / "article.tex")
    done = subprocess.run(
        ["xelatex", "-interaction=nonstopmode", "-halt-on-error", "article.tex"],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Missing character" not in done.stdout
    assert "Overfull \\vbox" not in done.stdout


def test_a_drawing_in_latex_is_not_part_of_an_audited_text() -> None:
    drawing = "\\begin{tikzpicture}\n\\draw (1,2) -- (3,4);\n 2 × 3 = 7\n\\end{tikzpicture}\n"
    slips = audit(text=f"{drawing}H = 768\n\n2 × 768 = 1537\n").to_dict()["slips"]
    assert [slip["line"] for slip in slips] == [7]


def test_no_frame_is_without_a_title() -> None:
    for model in MODELS:
        for diagram in drawn(model)[0]:
            for frame in parts_in(diagram.parts, Frame):
                assert all(frame.title)


def test_another_config_gives_other_numbers() -> None:
    diagram = of_kind("bert", "layer", fields={"hidden_size": 96, "intermediate_size": 40})
    assert {shown_shapes(box) for box in tensor_boxes(diagram)} == {
        (96, 96, 96),
        (40, 96, 40),
        (96, 40, 96),
        (96,),
    }


def test_the_diagram_of_the_docs_is_up_to_date() -> None:
    diagram, values = of_kind("bert-base-chinese", "layer"), drawn("bert-base-chinese")[1]
    docs = Path(__file__).parents[2] / "docs"
    svg = (docs / "bert-base-chinese-layer.svg").read_text(encoding="utf-8")
    assert svg == svg_file(diagram, values, "en")


@pytest.mark.parametrize("name", ["a.md", "a.tex", "a.html"])
def test_an_audit_of_an_article_with_diagrams_finds_no_slip(name: str, tmp_path: Path) -> None:
    article = explain("meta-llama/Meta-Llama-3-8B")
    article.save(tmp_path / name)
    assert audit(tmp_path / name).to_dict()["slips"] == []
