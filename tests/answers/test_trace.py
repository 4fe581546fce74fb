"""A trace agrees with PyTorch's count of FLOPs, the model's parameters and transformers' output."""

import json
import re

import berts
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from weighbridge import data
from weighbridge.answers.trace import letter
from weighbridge.cli import main
from weighbridge.data import LANGUAGES
from weighbridge.errors import UsageError
from weighbridge.render.table import width
from weighbridge.torch.bert import CLASSES
from weighbridge.torch.loading import load_checkpoint
from weighbridge.torch.tracing import follow, trace

CHINESE = "我爱自然语言处理"
WORDS = [*berts.LOVE, "un", "##believ", "##able"]
DECODER = {"is_decoder": True, "add_cross_attention": True}
UNTIED = {"tie_word_embeddings": False}
CASES = [
    *((name, {}) for name in CLASSES),
    ("BertLMHeadModel", DECODER),
    ("BertForMaskedLM", UNTIED),
    ("BertForTokenClassification", {"num_labels": 5}),
]


@pytest.fixture(scope="module")
def chinese(tmp_path_factory):
    return berts.save(tmp_path_factory.mktemp("chinese"))


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return berts.save(tmp_path_factory.mktemp("small"), words=WORDS)


def tensors(output):
    if hasattr(output, "prediction_logits"):
        return [output.prediction_logits, output.seq_relationship_logits]
    found = (
        [tensor for tensor in output if isinstance(tensor, torch.Tensor)]
        if isinstance(output, tuple)
        else [output]
    )
    assert found
    return found


@pytest.mark.parametrize(("class_name", "fields"), CASES)
def test_every_parameter_and_every_flop_is_in_one_step_and_the_output_is_the_models_own(
    class_name, fields, tmp_path
):
    folder = berts.save(tmp_path, class_name, WORDS, **fields)
    loaded = load_checkpoint(folder, class_name, attention="eager")
    text = loaded.tokens.read("i love it", "so do you")
    batch = loaded.tokens.batch([text])
    ids, segments = batch.input_ids, batch.token_type_ids
    if class_name == "BertForMultipleChoice":
        ids, segments = ids[None], segments[None]
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        expected = loaded.model(ids, torch.ones_like(ids), segments)
    walk = follow(loaded, text)
    for ours, own in zip(tensors(walk.output), tensors(expected), strict=True):
        assert torch.equal(ours, own)
    found = trace(folder, "i love it", "so do you", class_name)
    assert found.flops == counter.get_total_flops() > 0
    unused = sum(parameter.elements for parameter in found.unused)
    assert found.parameters + unused == sum(
        parameter.numel() for parameter in loaded.model.parameters()
    )
    assert (unused > 0) == (fields in (DECODER, UNTIED))
    assert [step.name for step in found.steps if step.layer == 1] == [
        step.name for step in found.steps if step.layer == 0
    ]
    for step in found.steps:
        sizes = tuple(int(dim) if dim.isdigit() else found.sizes[dim] for dim in step.dims)
        assert step.shape == sizes, step.name
        assert step.values.minimum <= step.values.mean <= step.values.maximum
    assert all(
        parameter.shape == tuple(loaded.model.get_parameter(parameter.name).shape)
        for step in found.steps
        for parameter in step.parameters
    )
    for lang in LANGUAGES:
        assert [line for line in found.text(lang).splitlines() if width(line) > 80] == []
    english, chinese = (numbers(found.text(lang)) for lang in LANGUAGES)
    assert english == chinese


def numbers(text):
    return sorted(re.findall(r"\d[\d,.e+-]*\d|\d", text))


def test_tied_parameters_count_once_and_say_where(tmp_path):
    found = trace(berts.save(tmp_path, "BertForMaskedLM", WORDS), "i love it")
    (words,) = [step for step in found.steps if step.name == "words"]
    assert [(parameter.elements, parameter.tied_to) for parameter in words.parameters] == [
        (0, "bert.embeddings.word_embeddings.weight"),
        (len(WORDS), None),
    ]
    assert "tied, counted at" in " ".join(found.text().split())


@pytest.mark.parametrize("name", ["minilm", "bert_tiny"])
def test_the_values_are_those_of_transformers(name, request):
    import transformers

    folder, text = request.getfixturevalue(name), "A weighbridge weighs a truck."
    found = trace(folder, text, layer=1, head=1)
    theirs = transformers.BertModel.from_pretrained(folder, attn_implementation="eager")
    ids = torch.tensor([[id_ for _, id_, _ in found.tokens]])
    with torch.no_grad():
        output = theirs(ids, output_hidden_states=True, output_attentions=True)
    seen = [step for step in found.steps if step.name in ("embedded", "ffn_norm")]
    for step, hidden in zip(seen, output.hidden_states, strict=True):
        assert step.shape == tuple(hidden[0].shape)
        expected = (float(hidden.min()), float(hidden.max()), float(hidden.mean()))
        assert tuple(step.values) == pytest.approx(expected, abs=1e-4)
    probabilities = torch.tensor(found.head.probabilities)
    assert torch.allclose(probabilities, output.attentions[1][0, 1], atol=1e-5)
    assert torch.allclose(torch.tensor(found.head.scores).softmax(-1), probabilities, atol=1e-5)


def test_the_trace_of_a_chinese_text_fits_80_columns(chinese, capsys):
    for arguments in (
        [],
        ["--lang", "zh"],
        ["--layer", "2", "--head", "3"],
        ["--layer", "2", "--lang", "zh"],
    ):
        assert main(["trace", str(chinese), CHINESE, *arguments]) == 0
        printed = capsys.readouterr()
        assert printed.err == ""
        assert all(character in printed.out for character in CHINESE)
        assert [line for line in printed.out.splitlines() if width(line) > 80] == []
    assert main(["trace", str(chinese), CHINESE, "--layer", "2", "--lang", "zh"]) == 0
    out = capsys.readouterr().out
    assert "第 2 层（" in out
    assert "encoder.layer.2.attention.self.query" in out
    assert "encoder.layer.0." not in out


def test_one_head_is_a_table_whose_rows_add_up(chinese):
    found = trace(chinese, CHINESE, layer=1, head=2)
    after = found.text().partition("Probabilities")[2]
    rows = [
        [float(cell) for cell in line.split()[1:]]
        for line in after.splitlines()
        if re.search(r"\d", line)
    ]
    table = [sum(row) for row in rows]
    n = len(found.tokens)
    whole = [sum(table[at::n]) for at in range(n)]
    assert whole == pytest.approx([100] * n, abs=0.6)


def test_a_wide_table_is_cut_into_several(small):
    text = trace(small, "it " * 40, layer=0, head=0).text()
    assert [line for line in text.splitlines() if width(line) > 80] == []
    heads = [line for line in text.splitlines() if " it  " in line and not re.search(r"\d", line)]
    assert sum(line.split().count("it") for line in heads) == 2 * 40


def test_a_decoder_does_not_show_masked_tokens(tmp_path):
    found = trace(
        berts.save(tmp_path, "BertLMHeadModel", WORDS, **DECODER), "i love it", layer=0, head=0
    )
    assert all(abs(step.values.minimum) < 1e6 for step in found.steps)
    scores = found.text().partition("Probabilities")[0]
    assert scores.count(" -\n") == 4
    assert "e+" not in scores


def test_the_json_has_every_step_with_its_values(small, capsys):
    assert main(["trace", str(small), "i love it", "--json", "--layer", "0", "--head", "1"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [step["layer"] for step in found["steps"] if step["step"] == "scores"] == [0, 1, 2]
    assert sum(step["parameters"] for step in found["steps"]) == found["parameters"]
    assert (
        sum(tensor["elements"] for step in found["steps"] for tensor in step["tensors"])
        == found["parameters"]
    )
    assert sum(step["flops"] for step in found["steps"]) == found["flops"]
    assert {step["values"]["mean"] for step in found["steps"]} != {None}
    assert found["sizes"]["n"] == {"field": "tokens", "value": 5}
    assert [len(row) for row in found["head"]["scores"]] == [5] * 5
    assert found["tokens"][0] == {"token": "[CLS]", "id": 2, "segment": 0}


def test_nan_and_infinity_are_null_in_json(tmp_path):
    from safetensors.torch import load_file, save_file

    folder = berts.save(tmp_path, words=WORDS)
    broken = load_file(folder / "model.safetensors")
    broken["embeddings.LayerNorm.weight"][0] = float("nan")
    save_file(broken, folder / "model.safetensors")
    found = trace(folder, "i love it", layer=0, head=0)
    json.dumps(found.to_dict(), allow_nan=False)
    assert "nan" in trace(folder, "i love it").text()
    assert " - " in found.text()


# Notes on stderr


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("it " * 60, "the text is longer than the 48 positions; tokens cut off: 14"),
        ("i love 😀", "tokens that are not in the vocabulary and become [UNK]: 1"),
    ],
)
def test_text_lost_in_reading_is_a_note(small, text, note, capsys):
    assert main(["trace", str(small), text]) == 0
    printed = capsys.readouterr()
    assert printed.err == f"weighbridge: note: {note}\n"
    assert [line for line in printed.out.splitlines() if width(line) > 80] == []


BAD = [
    (["/no/such/place", "i"], "there is no such checkpoint"),
    (["{}", " "], "the text is empty"),
    (["{}", "i", ""], "the text is empty"),
    (["{}", "\udcff"], "not UTF-8"),
    (["{}", "i", "--layer", "3"], "there is no such layer (layer = 3). Give --layer as 0 to 2."),
    (["{}", "i", "--layer", "-1"], "there is no such layer (layer = -1). Give --layer as 0 to 2."),
    (
        ["{}", "i", "--layer", "0", "--head", "4"],
        "there is no such head (head = 4). Give --head as 0 to 3.",
    ),
    (["{}", "i", "--head", "1"], "--head needs --layer (head = 1). Add --layer"),
    (["{}", "i", "--layer", "x"], "argument --layer: 'x' is not an integer"),
    (["{}", "i", "--class", "BertForNothing"], "BertForNothing"),
    (["{}"], "required: TEXT"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD)
def test_a_bad_question_is_one_message(small, arguments, message, capsys):
    assert main(["trace", *(word.replace("{}", str(small)) for word in arguments)]) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert (printed.out, printed.err.count("\n")) == ("", 1)


def test_another_family_is_refused(tmp_path, capsys):
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    assert main(["trace", str(tmp_path), "i"]) == 2
    assert "only BERT models can be run (model_type = 'gpt2')" in capsys.readouterr().err


# Words


def nested(found):
    return {
        key: nested(value) if isinstance(value, dict) else value for key, value in found.items()
    }


def leaves(found, path=()):
    for key, value in found.items():
        if isinstance(value, dict):
            yield from leaves(value, (*path, key))
        else:
            yield (*path, key), value


def test_the_languages_say_the_same_things():
    english, chinese = (
        dict(leaves(data.read_toml(f"words/trace.{lang}.toml"))) for lang in LANGUAGES
    )
    assert english.keys() == chinese.keys()
    for path, ours in english.items():
        theirs = chinese[path]
        if isinstance(ours, list):
            assert len(ours) == len(theirs)
            continue
        assert sorted(set(re.findall(r"\{(\w+)\}", ours))) == sorted(
            set(re.findall(r"\{(\w+)\}", theirs))
        ), path
        if path[-1] != "formula":
            assert not re.search(r"[1-9]", ours + theirs), path


def test_every_step_has_its_sentences():
    from weighbridge.torch import tracing

    tables = (tracing._EMBEDDINGS, tracing._LAYER, tracing._POOLER, *tracing._HEAD_OF.values())
    steps = {place.step for table in tables for place in table}
    assert set(data.read_toml("words/trace.en.toml")["step"]) == steps
    assert set(tracing._HEAD_OF) == set(CLASSES)
    assert (
        len({letter(dim) for table in tables for place in table for dim in place.dims.split()}) == 9
    )


def test_an_unknown_language_is_refused(small):
    with pytest.raises(UsageError, match="language"):
        trace(small, "i").text("tlh")
