"""`articles.printouts`: real printouts are right, and a changed number is never called right."""

from pathlib import Path

import pytest

from weighbridge import data
from weighbridge.articles.printouts.printouts import check_printouts, read_printouts
from weighbridge.articles.tables.book import TableFindings
from weighbridge.articles.text.lines import BOILERPLATE, KNOWN, RIGHT, SIZE, UNREAD, ArticleLine
from weighbridge.blueprint.schema import load
from weighbridge.ledger.ledger import Ledger, bind

FOLDER = Path(__file__).parent
NAMES = sorted(path.stem for path in FOLDER.glob("*.txt"))
TINY = {
    "hidden_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 512,
}


def lines_of(text: str) -> list[ArticleLine]:
    return [ArticleLine(number, line) for number, line in enumerate(text.split("\n"), start=1)]


def printed(name: str) -> str:
    return (FOLDER / f"{name}.txt").read_text(encoding="utf-8")


def checked(text: str, ledger: Ledger | None = None) -> TableFindings:
    return check_printouts(lines_of(text), ledger)


def found(text: str, ledger: Ledger | None = None) -> list[tuple[str, str]]:
    return [(slip.stated, slip.correct) for slip in checked(text, ledger).slips]


def ledger_of(family: str, class_name: str, **fields: int) -> Ledger:
    blueprint = load(family)
    optional = {"num_labels": 2, "n_inner": 3072, "head_dim": 128, "num_key_value_heads": 32}
    return bind(blueprint, class_name, {**optional, **blueprint.defaults, **fields})


def model_of(name: str) -> Ledger | None:
    """Return the ledger of the model that a file shows."""
    if name == "print_bert_chinese_14_labels":
        return ledger_of("bert", "BertForSequenceClassification", vocab_size=21128, num_labels=14)
    if "bert_tiny" in name:
        return ledger_of("bert", "BertModel", **TINY)
    if "bert_base" in name:
        return ledger_of("bert", "BertModel")
    if "gpt2" in name:
        layers = {"n_layer": 2} if "two_layers" in name else {}
        return ledger_of("gpt2", "GPT2LMHeadModel", **layers)
    if name == "print_llama_2_7b":
        return ledger_of("llama", "LlamaForCausalLM")
    return None


# Real printouts


@pytest.mark.parametrize("name", NAMES)
def test_a_real_printout_is_read_whole_and_has_no_slip(name: str) -> None:
    text = printed(name)
    (printout,) = read_printouts(lines_of(text))
    findings = checked(text)
    assert not findings.slips
    unread = [
        verdict
        for verdict in findings.verdicts
        if verdict.verdict == UNREAD and verdict.reason != "printout_operations"
    ]
    assert [verdict.text for verdict in unread] == UNREAD_NUMBERS.get(name, [])
    if printout.totals:
        assert printout.lines.stop - printout.lines.start >= text.count("\n") - 4


UNREAD_NUMBERS = {"torchinfo_bert_tiny_inputs": ["4.39"]}
"""Numbers of these printouts that nothing else in them confirms."""


@pytest.mark.parametrize("name", [name for name in NAMES if model_of(name)])
def test_a_printout_of_the_model_has_the_shapes_and_counts_of_the_model(name: str) -> None:
    findings = checked(printed(name), model_of(name))
    assert not findings.slips
    verdicts = {verdict.verdict for verdict in findings.verdicts}
    assert verdicts <= {RIGHT, KNOWN, SIZE, BOILERPLATE, UNREAD}
    if name.startswith(("print_", "shapes_", "state_dict_")):
        assert verdicts == {RIGHT, BOILERPLATE}


@pytest.mark.parametrize(
    ("name", "class_name", "sizes"),
    [
        ("print_bert_base", "BertModel", (30522, 768, 12, 3072, 512)),
        ("print_bert_chinese_14_labels", "BertForSequenceClassification", (21128, 768, 12, 3072)),
        ("print_gpt2", "GPT2LMHeadModel", (50257, 768, 12, 3072, 1024)),
        ("print_llama_2_7b", "LlamaForCausalLM", (32000, 4096, 32, 11008)),
        ("print_mistral_gqa", "LlamaForCausalLM", (128256, 4096, 32, 14336)),
        ("print_t5_small", "T5ForConditionalGeneration", (32128, 512, 6, 2048)),
        ("shapes_bert_tiny", "", (30522, 128, 2, 512, 512)),
        ("shapes_gpt2_two_layers", "", (50257, 768, 2, 3072, 1024)),
        ("torchinfo_bert_base", "BertModel", (30522, 768, 12)),
        ("torchinfo_bert_tiny_columns", "BertModel", (30522, 128, 2)),
        ("torchinfo_mlp", "Sequential", ()),
        ("keras_functional", "bert_tiny", ()),
    ],
)
def test_the_class_and_the_sizes_of_a_printout(
    name: str, class_name: str, sizes: tuple[int, ...]
) -> None:
    (printout,) = read_printouts(lines_of(printed(name)))
    fields = ("vocab_size", "hidden_size", "num_hidden_layers", "intermediate_size")
    fields = (*fields, "max_position_embeddings")
    assert printout.class_name == class_name
    stated = {field: printout.sizes[field] for field in fields if field in printout.sizes}
    assert list(stated.values())[: len(sizes)] == list(sizes)


# Changed numbers


@pytest.mark.parametrize("name", NAMES)
def test_a_changed_digit_is_never_called_right(name: str) -> None:
    text = printed(name)
    lines = text.split("\n")
    changes = found_changes = 0
    verdicts = [verdict for verdict in checked(text).verdicts if verdict.verdict == RIGHT]
    for verdict in verdicts[:: max(1, len(verdicts) // 25)]:
        line = lines[verdict.at.line - 1]
        for column in range(verdict.at.start, verdict.at.end):
            if not line[column].isdigit():
                continue
            digit = (int(line[column]) + 4) % 10
            lines[verdict.at.line - 1] = f"{line[:column]}{digit}{line[column + 1 :]}"
            findings = checked("\n".join(lines))
            lines[verdict.at.line - 1] = line
            changes += 1
            found_changes += bool(findings.slips)
            assert not [
                other
                for other in findings.verdicts
                if other.at.line == verdict.at.line
                and other.at.start <= column < other.at.end
                and other.verdict in (RIGHT, KNOWN)
            ]
    if not name.startswith(("print_", "shapes_bert", "state_dict")):
        assert found_changes >= 0.9 * changes


@pytest.mark.parametrize(
    ("name", "right", "wrong", "slip"),
    [
        (
            "torchinfo_bert_base",
            "Total params: 109,482,240",
            "Total params: 109,482,420",
            ("109,482,420", "109,482,240"),
        ),
        (
            "torchinfo_bert_base",
            "3-4                         7,087,872",
            "3-4                         7,087,827",
            ("7,087,827", "7,087,872"),
        ),
        (
            "torchinfo_bert_base",
            "Trainable params: 109,482,240",
            "Trainable params: 109,482,204",
            ("109,482,204", "109,482,240"),
        ),
        ("keras_sequential", "3,598", "3,599", ("3,599", "3,598")),
        ("keras_sequential", "(10.58 MB)", "(10.85 MB)", ("10.85 MB", "10.58 MB")),
        ("keras_functional", "256 │ word_emb", "266 │ word_emb", ("266", "256")),
        ("torchsummary_mlp", "131,328", "131,382", ("131,382", "131,328")),
        ("torchsummary_mlp", "Params size (MB): 2.05", "Params size (MB): 2.06", ("2.06", "2.05")),
        ("torchinfo_bert_tiny_columns", "89.08%", "89.80%", ("89.80%", "89.08%")),
        ("print_bert_base", "12 x", "13 x", ("13", "12")),
        ("shapes_gpt2_two_layers", "786,432", "786,423", ("786,423", "786,432")),
    ],
)
def test_planted_slips(name: str, right: str, wrong: str, slip: tuple[str, str]) -> None:
    text = printed(name)
    assert right in text
    assert found(text.replace(right, wrong, 1)) == [slip]


def test_a_shape_that_contradicts_the_model_and_the_rest_of_the_printout_is_a_slip() -> None:
    text = printed("print_bert_base")
    wrong = text.replace("(key): Linear(in_features=768", "(key): Linear(in_features=769")
    ledger = ledger_of("bert", "BertModel")
    assert found(wrong, ledger) == [("769", "768")]
    assert not found(wrong)  # without the model, it is only not confirmed
    unread = [verdict.text for verdict in checked(wrong).verdicts if verdict.verdict == UNREAD]
    assert unread == ["769"]


@pytest.mark.parametrize(
    ("right", "other"),
    [("30522", "30524"), ("BertModel(", "BertAdapterModel("), ("(512, 768)", "(1024, 768)")],
)
def test_a_printout_of_another_model_is_no_slip(right: str, other: str) -> None:
    text = printed("print_bert_base").replace(right, other)
    assert not found(text, ledger_of("bert", "BertModel"))
    assert not found(text, ledger_of("bert", "BertModel", hidden_size=1024))
    assert not found(text, ledger_of("gpt2", "GPT2LMHeadModel"))


def test_the_sizes_of_another_model_are_those_of_the_printout() -> None:
    findings = checked(printed("shapes_bert_tiny"), ledger_of("bert", "BertModel"))
    assert {verdict.verdict for verdict in findings.verdicts} == {SIZE, BOILERPLATE}


def test_a_printout_that_is_cut_is_no_slip() -> None:
    text = printed("torchinfo_bert_base")
    lines = [line for line in text.split("\n") if "BertLayer: 3-5" not in line]
    assert not found("\n".join(lines))
    verdict = checked("\n".join(lines)).verdicts
    assert not [item for item in verdict if item.text == "7,087,872" and item.verdict == RIGHT]


def test_rows_of_keras_that_go_on_below_are_read() -> None:
    text = """
 Layer (type)                   Output Shape         Param #     Connected to
==================================================================================
 words (InputLayer)             [(None, 55)]         0           []

 keras_layer (KerasLayer)       [(None, 768),        109482241   ['words[0][0]',
                                 (None, 55, 768)]                 'mask[0][0]',
                                                                  'segments[0][0]']

 output (Dense)                 {'sequence_output':  769         ['keras_layer[0][0]']

==================================================================================
Total params: 109,483,010
Trainable params: 109,483,009
Non-trainable params: 1
"""
    findings = checked(text)
    counts = [verdict for verdict in findings.verdicts if verdict.verdict == RIGHT]
    assert [verdict.text for verdict in counts] == [
        "0",
        "109482241",
        "769",
        "109,483,010",
        "109,483,009",
        "1",
    ]


# Calls


@pytest.mark.parametrize(
    "text",
    [
        ">>> model.num_parameters()\n109482240",
        "sum(p.numel() for p in model.parameters())  # 109,482,240",
        "In [3]: model.num_parameters()\nOut[3]: 109482240",
    ],
)
def test_the_result_of_a_call_is_compared_with_the_model(text: str) -> None:
    ledger = ledger_of("bert", "BertModel")
    assert [verdict.verdict for verdict in checked(text, ledger).verdicts] == [RIGHT]
    assert [verdict.verdict for verdict in checked(text).verdicts] == [UNREAD]
    other = text.replace("482", "483")
    assert [verdict.verdict for verdict in checked(other, ledger).verdicts] == [UNREAD]


def test_tied_parameters_that_are_counted_twice_are_recognised() -> None:
    ledger = ledger_of("gpt2", "GPT2LMHeadModel")
    text = "model.num_parameters()\n163037184"
    assert [verdict.verdict for verdict in checked(text, ledger).verdicts] == [KNOWN]


# Around printouts


def test_a_printout_stands_between_prose() -> None:
    text = f"Here is BERT:\n\n{printed('print_bert_base')}\nIt has 12 layers (see above).\n"
    (printout,) = read_printouts(lines_of(text))
    assert printout.lines == range(3, 44)


def test_prose_is_no_printout() -> None:
    text = "Layer (the first) has 768 units.\nBert(\nso it is\nnum_parameters() counts them.\n12"
    assert not read_printouts(lines_of(text))
    assert not checked(text).verdicts


@pytest.mark.parametrize("lang", data.LANGUAGES)
def test_every_reason_and_kind_has_its_words(lang: str) -> None:
    words = data.read_toml(f"words/audit.{lang}.toml")
    for name in NAMES:
        for text in (printed(name), printed(name).replace("768", "769", 1).replace("12 x", "13 x")):
            for model in (model_of(name), ledger_of("bert", "BertModel")):
                findings = checked(text, model)
                for verdict in findings.verdicts:
                    assert words["reasons"][verdict.reason].format(**verdict.values)
                for slip in findings.slips:
                    assert slip.kind in words["kinds"]


HOSTILE = {
    "rows": "Layer (type)  Param #\n" + "├─Linear: 1-1   1,234\n" * 100_000 + "Total params: 5\n",
    "titles": "Layer (type)  Output Shape  Param #\n" * 50_000,
    "brackets": "A(\n" + "(a): B(\n" * 100_000,
    "closing": "A(\n  (a): B()\n" * 10_000 + ")\n" * 30_000,
    "shapes": "a.weight (1, 1, 1)\n" * 20_000,
    "long shapes": ("a.weight (" + "1, " * 4_000 + "1) 5\n") * 50,
    "blank columns": ("Layer (type)  Param #\n" + "a" + " " * 5_000 + "\n") * 200,
    "calls": "model.num_parameters()\n" * 50_000,
    "names": ("a." * 5_000 + "weight (1, 2)\n") * 50,
}


@pytest.mark.sampled("src/weighbridge/articles")
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_printouts_take_bounded_time(name: str) -> None:
    checked(HOSTILE[name], ledger_of("bert", "BertModel", **TINY))
