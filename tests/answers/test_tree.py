"""The tree of modules, compared with PyTorch's modules and with the rows of the ledger."""

import gc
import json
import re
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from math import prod

import pytest

from weighbridge import data
from weighbridge.answers.tree import Node, Tree, tree
from weighbridge.answers.weigh import Weighing
from weighbridge.blueprint.schema import Blueprint, load
from weighbridge.data import LANGUAGES
from weighbridge.errors import ModelError, UsageError
from weighbridge.models.find import find
from weighbridge.render.table import width

CLASSES = load("bert").class_names
SMALL = {
    "vocab_size": 101,
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 3,
    "intermediate_size": 40,
    "max_position_embeddings": 17,
    "num_labels": 5,
}
CROSS = {"is_decoder": True, "add_cross_attention": True}
CASES = [(name, SMALL) for name in CLASSES] + [
    ("BertLMHeadModel", {**SMALL, **CROSS}),
    ("BertModel", {**SMALL, **CROSS}),
    ("BertModel", {**SMALL, "num_hidden_layers": 1}),
    ("BertForPreTraining", {**SMALL, "tie_word_embeddings": False}),
]
BASE_MODELS = ("bert-base-uncased", "bert-base-chinese")


def reference(class_name, fields):
    """Build a class of transformers on the meta device."""
    import torch
    import transformers

    with torch.device("meta"):
        return getattr(transformers, class_name)(transformers.BertConfig(**fields))


def below(path, tensors):
    return sum(
        count
        for name, count in tensors.items()
        if f".{name}".startswith(f".{path}." if path else ".")
    )


def spaced(line):
    return " ".join(line.split())


def layers_of(text):
    """Return the lines of a printed tree of modules: depth, name, copies, class."""
    found = re.findall(r"^( +)\((\S+)\): (?:(\d+) [x×] )?(\w+)", text, re.MULTILINE)
    return [
        (len(indent) // 2, name, int(copies or 1), kind) for indent, name, copies, kind in found
    ]


def unfolded(lines, path=()):
    """Return the path and class of every module in such lines, with folded runs unfolded."""
    found = []
    for at, (level, name, copies, kind) in enumerate(lines):
        if level != len(path) + 1:
            if level <= len(path):
                break
            continue
        first = int(name.partition("-")[0]) if copies > 1 else 0
        for own in [str(first + copy) for copy in range(copies)] if copies > 1 else [name]:
            found.append((".".join([*path, own]), kind))
            found += unfolded(lines[at + 1 :], (*path, own))
    return found


@pytest.mark.parametrize(("class_name", "fields"), CASES)
def test_modules_are_those_of_pytorch_in_its_order(class_name, fields):
    model = reference(class_name, fields)
    counts = {
        name: tensor.numel() for name, tensor in model.named_parameters()
    }  # a shared tensor once
    expected = [
        (path, type(module).__name__, below(path, counts))
        for path, module in model.named_modules()
        if any(True for _ in module.parameters())
    ]
    assert list(tree("bert", class_name, fields=fields).named_modules()) == expected


@pytest.mark.parametrize(("class_name", "fields"), CASES)
def test_the_print_nests_and_folds_as_pytorch_does(class_name, fields):
    model = reference(class_name, fields)
    weightless = {
        type(module).__name__
        for module in model.modules()
        if not any(True for _ in module.parameters())
    }
    expected = [line for line in layers_of(repr(model)) if line[3] not in weightless]
    assert layers_of(tree("bert", class_name, fields=fields).text()) == expected


@pytest.mark.parametrize(("class_name", "fields"), CASES)
def test_every_tensor_hangs_on_its_module_with_its_shape(class_name, fields):
    def hanging(node: Node, path):
        for name in [node.name] if node.indices is None else map(str, node.indices):
            here = f"{path}{name}." if name else path
            for tensor in node.tensors:
                yield here + tensor.name, tensor.shape, tensor.parameters, tensor.tied_to
            for module in node.modules:
                yield from hanging(module, here)

    found = tree("bert", class_name, fields=fields)
    rows = {(row.name, row.shape, row.parameters, row.tied_to) for row in found.weighing.rows}
    assert Counter(hanging(found.root, "")) == Counter(rows)


@pytest.mark.parametrize(("class_name", "fields"), CASES)
def test_the_folded_print_unfolds_to_every_module(class_name, fields):
    found = tree("bert", class_name, fields=fields)
    every = [(path, kind) for path, kind, _ in found.named_modules() if path]
    assert unfolded(layers_of(found.text())) == every


@pytest.mark.parametrize("class_name", CLASSES)
def test_counts_are_those_of_the_rows_below(class_name):
    found = tree("bert-base-chinese", class_name)
    rows = {row.name: row.parameters for row in found.weighing.rows}
    assert all(count == below(path, rows) for path, _, count in found.named_modules())
    assert found.root.parameters == found.weighing.parameters


def test_a_fold_shows_the_sum_over_its_layers_and_one_of_them():
    text = tree("bert-base-chinese").text()
    (line,) = [line for line in text.splitlines() if "12 × BertLayer" in line]
    assert spaced(line) == "(0-11): 12 × BertLayer, 7,087,872 each 85,054,464 83.2%"
    (query,) = [line for line in text.splitlines() if "(query)" in line]
    assert spaced(query) == "(query): Linear weight [768, 768], bias [768] 590,592 × 12"
    assert "A line marked × N counts one of N" in text


def test_folds_are_mentioned_only_if_there_are_any():
    text = tree("bert", fields={"num_hidden_layers": 1}).text()
    assert "(0): BertLayer " in text
    assert "×" not in text


def test_a_tied_tensor_points_and_counts_nothing():
    lines = [
        spaced(line) for line in tree("bert-base-chinese", "BertForMaskedLM").text().splitlines()
    ]
    assert "weight [21128, 768] = bert.embeddings.word_embeddings.weight 0 0.0%" in lines
    assert "bias [21128] = cls.predictions.bias 0 0.0%" in lines
    assert "bias [21128] 21,128 <0.1%" in lines
    assert "(decoder): Linear 0 0.0%" in lines


def test_untied_tensors_count_where_they_hang():
    text = tree(
        "bert-base-chinese", "BertForMaskedLM", fields={"tie_word_embeddings": False}
    ).text()
    assert " = " not in text
    assert "(decoder): Linear weight [21128, 768], bias [21128]" in text


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("class_name", CLASSES)
@pytest.mark.parametrize("model", BASE_MODELS)
def test_no_line_is_wider_than_a_terminal(model, class_name, lang):
    assert all(width(line) <= 80 for line in tree(model, class_name).text(lang=lang).splitlines())


def test_figures_end_in_one_column():
    above, _, _ = tree("bert-large-uncased", "BertForPreTraining").text().partition("\n\n")
    assert {len(line) for line in above.splitlines()[1:]} == {80}


def test_a_long_tie_takes_a_second_line_and_a_long_name_overflows():
    found = variant(tensors={f"{'deep' * 30}.weight": "hidden_size", "head.weight": "hidden_size"})
    assert max(map(len, found.text().splitlines())) > 120
    raw = {"ties": {"head.weight": f"{'deep' * 30}.weight"}}
    lines = variant(
        tensors={f"{'deep' * 30}.weight": "hidden_size", "head.weight": "hidden_size"}, **raw
    ).text()
    assert f"\n      = {'deep' * 30}.weight\n" in lines


@pytest.mark.parametrize("lang", LANGUAGES)
def test_every_language_has_the_words(lang):
    english, found = (data.read_toml(f"words/tree.{name}.toml") for name in ("en", lang))
    assert list(found) == list(english)
    assert all(
        re.findall("{.*?}", found[key]) == re.findall("{.*?}", english[key]) for key in english
    )
    assert all(
        found[key].format(count="7") in tree("bert").html(lang=lang).replace("7,087,872", "7")
        for key in found
    )


# Depth


def test_depth_cuts_below_a_number_of_levels():
    found = tree("bert-base-chinese", "BertForMaskedLM")
    for depth in range(9):
        expected = [line for line in layers_of(found.text()) if line[0] <= depth]
        assert layers_of(found.text(depth=depth)) == expected
    assert found.text(depth=8) == found.text()


def test_depth_of_the_dict_counts_as_that_of_the_text():
    def levels(node):
        return 1 + max(map(levels, node.get("modules", ())), default=0)

    found = tree("bert-base-chinese", "BertForMaskedLM")
    assert [levels(found.to_dict(depth)["tree"]) - 1 for depth in range(9)] == [
        0,
        1,
        2,
        3,
        4,
        5,
        6,
        7,
        7,
    ]
    assert found.to_dict(8) == found.to_dict()
    assert "modules" not in found.to_dict(0)["tree"]


@pytest.mark.parametrize(
    "ask", [lambda found: found.text(depth=-1), lambda found: found.to_dict(-1)]
)
def test_a_negative_depth_is_refused(ask):
    with pytest.raises(UsageError, match="depth"):
        ask(tree("bert"))


def test_an_unknown_language_and_class_are_refused():
    with pytest.raises(UsageError, match="language"):
        tree("bert").text(lang="tlh")
    with pytest.raises(ModelError, match="BertForNothing"):
        tree("bert", "BertForNothing")


# Layers that differ


def variant(tensors, when=None, repeat=None, class_name="Toy", ties=None, **fields):
    """Return the tree of a blueprint of these tensors, four wide with six layers by default."""
    parents = {
        ".".join(path[:at])
        for path in (name.split(".") for name in tensors)
        for at in range(1, len(path))
    }
    raw = {
        "family": "toy",
        "source": "nowhere",
        "class": class_name,
        "proof": {"by": "nobody", "against": "nothing", "configs": 0},
        "defaults": {"hidden_size": 4, "layers": 6, "kinds": []},
        "repeat": repeat or {"i": "layers"},
        "tensors": tensors,
        "when": when or {},
        "ties": ties or {},
        "modules": {path: "ModuleList" if path.endswith("layers") else "Block" for path in parents},
    }
    blueprint = Blueprint(raw)
    model = find("bert")._replace(
        blueprint=blueprint, fields={**raw["defaults"], **fields}, named_class=class_name
    )
    return Tree(Weighing(model, class_name, "F32"))


def runs(found):
    (layers,) = found.root.modules
    return [
        (node.name, node.copies, [module.name for module in node.modules])
        for node in layers.modules
    ]


MIXED = {
    "layers.{i}.norm.weight": "hidden_size",
    "layers.{i}.expert.weight": "hidden_size hidden_size",
}


@pytest.mark.parametrize(
    ("when", "expected"),
    [
        ("i < 3", [("0-2", 3, ["norm", "expert"]), ("3-5", 3, ["norm"])]),
        ("i == 3", [("0-2", 3, ["norm"]), ("3", 1, ["norm", "expert"]), ("4-5", 2, ["norm"])]),
        (
            "i % 2 == 0",
            [(str(i), 1, ["norm", "expert"] if i % 2 == 0 else ["norm"]) for i in range(6)],
        ),
        ("i < 6", [("0-5", 6, ["norm", "expert"])]),
        ("i < 0", [("0-5", 6, ["norm"])]),
    ],
)
def test_layers_fold_only_where_they_are_alike(when, expected):
    found = variant(MIXED, when={"layers.{i}.expert": when})
    assert runs(found) == expected
    rows = {row.name: row.parameters for row in found.weighing.rows}
    modules = list(found.named_modules())
    assert all(count == below(path, rows) for path, _, count in modules)
    assert {path for path, _, _ in modules} == {
        ".".join(n.split(".")[:at]) for n in rows for at in range(3)
    } | {name.rpartition(".")[0] for name in rows}


def test_layers_of_different_shapes_do_not_fold_together():
    found = variant({"layers.{i}.norm.weight": "hidden_size*(1+i//4)"})
    assert runs(found) == [("0-3", 4, ["norm"]), ("4-5", 2, ["norm"])]
    assert [node.parameters for node in found.root.modules[0].modules] == [16, 16]
    assert found.text().count("norm") == 2


def test_lists_in_lists_fold_where_all_inside_is_alike():
    tensors = {
        "layers.{j}.parts.{k}.weight": "hidden_size",
        "layers.{j}.down.weight": "hidden_size",
    }
    when = {"layers.{j}.down": "j < len(kinds) - 1"}
    ties = {"layers.{j}.parts.{k}.weight": "layers.0.parts.{k}.weight if j > 0 and depths == 1"}
    repeat = {"j": "len(kinds)", "k": "kinds[j]"}
    found = variant(tensors, when, repeat, kinds=[2, 2, 3, 2], depths=2, ties=ties)
    (layers,) = found.root.modules
    folded = [
        (node.name, node.modules[0].modules[0].name, node.parameters, len(node.modules))
        for node in layers.modules
    ]
    assert folded == [("0-1", "0-1", 24, 2), ("2", "0-2", 16, 2), ("3", "0-1", 8, 1)]
    assert found.root.parameters == found.weighing.parameters == 48
    rows = {row.name: row.parameters for row in found.weighing.rows}
    assert all(count == below(path, rows) for path, _, count in found.named_modules())
    tied = variant(tensors, when, repeat, kinds=[1, 1], depths=1, ties=ties)
    parts = [node.modules[0].modules[0].tensors[0] for node in tied.root.modules[0].modules]
    assert [tensor.tied_to for tensor in parts] == [None, "layers.0.parts.0.weight"]


def test_a_run_without_tensors_is_not_a_layer():
    found = variant(
        {"layers.{i}.norm.weight": "hidden_size"}, when={"layers.{i}.norm": "i < 2 or i > 3"}
    )
    assert [name for name, _, _ in runs(found)] == ["0-1", "4-5"]


def test_a_list_without_layers_is_left_out():
    found = variant(
        {"norm.weight": "hidden_size", "layers.{i}.norm.weight": "hidden_size"},
        repeat={"i": "len(kinds)"},
    )
    assert [path for path, _, _ in found.named_modules()] == ["", "norm"]


def test_bare_tensors_in_a_list_are_each_shown():
    found = variant({"scales.{i}": "hidden_size"}, layers=2)
    (scales,) = found.root.modules
    assert [tensor.name for tensor in scales.tensors] == ["0", "1"]
    assert (scales.parameters, [tensor.parameters for tensor in scales.tensors]) == (8, [4, 4])


def test_a_scalar_and_a_tensor_of_the_model_itself_are_shown():
    found = variant({"scale": "", "norm.weight": "hidden_size"})
    assert "\n  scale [] " in found.text()
    assert found.root.parameters == 5


def calls_of(make):
    """Count the calls that a function makes, including those of built-in functions."""
    calls = Counter()
    gc.disable()  # the collector runs callbacks at any time
    sys.setprofile(lambda _frame, event, _argument: calls.update([event]))
    try:
        make()
    finally:
        sys.setprofile(None)
        gc.enable()
    return calls["call"] + calls["c_call"]


def test_ten_thousand_layers_cost_no_more_than_twelve():
    few, many = (tree("bert", fields={"num_hidden_layers": layers}) for layers in (12, 10_000))
    few.text(), many.text()  # so that cached data is loaded
    assert calls_of(lambda: Tree(many.weighing)) == calls_of(lambda: Tree(few.weighing))
    assert calls_of(many.to_dict) <= calls_of(few.to_dict)
    assert calls_of(many.text) <= 1.1 * calls_of(
        few.text
    )  # longer counts leave less room on a line


# Forms


def test_the_dict_is_json_and_adds_up():
    found = json.loads(json.dumps(tree("bert-base-chinese", "BertForMaskedLM").to_dict()))

    def check(node):
        inside = [check(module) for module in node["modules"]] + [
            tensor["parameters"] for tensor in node["tensors"]
        ]
        assert sum(inside) == node["parameters_each"]
        assert node["parameters"] == node["copies"] * node["parameters_each"]
        for tensor in node["tensors"]:
            assert tensor["parameters"] == (0 if tensor["tied_to"] else prod(tensor["shape"]))
        return node["parameters"]

    assert check(found["tree"]) == found["parameters"] == 102_290_312
    assert found["evidence"]["config"]["where"] == found["model"] == "google-bert/bert-base-chinese"


def test_the_html_is_well_formed_and_has_the_text():
    found = tree("bert-base-chinese", fields={"add_cross_attention": True, "is_decoder": True})
    element = ET.fromstring(found.html())  # noqa: S314  # of our own making
    shown = spaced("".join(element.itertext()))
    for line in found.text().partition("\n\n")[0].splitlines():
        assert spaced(line) in shown
    opening = [
        path
        for path, kind, _ in found.named_modules()
        if kind not in ("Linear", "LayerNorm", "Embedding")
    ]
    folded = [path for path in opening if not re.search(r"layer\.[1-9]", path)]
    assert len(element.findall(".//details")) == len(folded)


def test_the_html_points_from_ties_and_speaks_chinese():
    found = tree("bert-base-chinese", "BertForMaskedLM")
    assert "weight [21128, 768] = bert.embeddings.word_embeddings.weight" in found.html()
    assert "bias [21128] <span" in found.html()
    assert "每层" in found.html(lang="zh")
    assert found._repr_html_() == found.html()


def test_names_are_escaped_in_html():
    found = variant({"norm.weight": "hidden_size"}, class_name="<script>")
    assert "<script>" not in found.html()
    assert "&lt;script&gt;" in found.html()


def test_repr_is_the_text():
    assert repr(tree("bert")) == tree("bert").text()
