"""The command line: data on stdout, words on stderr, and the exit status."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import pytest
from markdown_it import MarkdownIt

import weighbridge
from weighbridge.blueprint import schema as blueprint
from weighbridge.cli import main
from weighbridge.cli.commands import COMMANDS
from weighbridge.ledger import ledger
from weighbridge.render import document
from weighbridge.render.table import width

if TYPE_CHECKING:
    from pathlib import Path

GROUPINGS = ("component", "role", "layer", "tensor")
CHINESE = 102_267_648


class Said(NamedTuple):
    status: int
    out: str
    err: str


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]):
    """Return a function that runs a command line here and returns its output."""

    def ran(*arguments: str) -> Said:
        status = main(arguments)
        return Said(status, *capsys.readouterr())

    return ran


# Published totals, each recorded independently of this project: the unique parameters of the class
# in transformers.
TRUTH = [
    ("bert-base-uncased", "BertModel", 109_482_240),
    ("bert-base-cased", "BertModel", 108_310_272),
    ("bert-base-chinese", "BertModel", 102_267_648),
    ("bert-large-uncased", "BertModel", 335_141_888),
    ("bert-base-multilingual-cased", "BertModel", 177_853_440),
    ("bert-base-uncased", "BertForMaskedLM", 109_514_298),  # no pooler, the decoder tied
    ("bert-base-uncased", "BertForPreTraining", 110_106_428),  # 110M in the paper
    ("bert-large-uncased", "BertForPreTraining", 336_226_108),  # 340M in the paper
]


@pytest.mark.parametrize(("model", "class_name", "parameters"), TRUTH)
def test_a_published_total_is_recognised(run, model: str, class_name: str, parameters: int) -> None:
    result = run("weigh", model, "--class", class_name)
    assert (result.status, result.err) == (0, "")
    (total,) = [line for line in result.out.splitlines() if line.startswith("total ")]
    assert f" {parameters:,} " in total
    assert json.loads(run(model, "--class", class_name, "--json").out)["parameters"] == parameters


def test_a_classifier_of_14_labels_on_the_chinese_vocabulary_has_its_published_total(run) -> None:
    result = run(
        "bert-base-chinese",
        "--class",
        "BertForSequenceClassification",
        "--set",
        "num_labels=14",
        "--json",
    )
    found = json.loads(result.out)
    assert found["parameters"] == 102_278_414
    assert found["classes"] == {
        "BertModel": 102_267_648,
        "BertForMaskedLM": 102_290_312,
        "BertForSequenceClassification": 102_278_414,
    }


def test_without_its_pooler_base_uncased_has_its_published_total() -> None:
    found = weighbridge.weigh("bert-base-uncased")
    assert found.parameters - found.by("component")["pooler"] == 108_891_648


def test_a_model_alone_is_weighed(run) -> None:
    assert run("bert-base-chinese") == run("weigh", "bert-base-chinese")


# Forms


def test_json_has_everything(run) -> None:
    result = run("weigh", "bert-base-chinese", "--json")
    found = json.loads(result.out)
    assert (result.status, result.err) == (0, "")
    assert (found["family"], found["class"], found["parameters"]) == ("bert", "BertModel", CHINESE)
    assert (found["dtype"], found["bytes"]) == ("F32", 4 * CHINESE)
    assert found["rows"][0] == {
        "name": "embeddings.word_embeddings.weight",
        "shape": [21128, 768],
        "dtype": "F32",
        "role": "embedding.token",
        "dims": ["vocab_size", "hidden_size"],
        "count": 16_226_304,
        "parameters": 16_226_304,
        "tied_to": None,
    }
    assert sum(row["parameters"] for row in found["rows"]) == CHINESE
    assert sum(found["components"].values()) == CHINESE
    assert found["config"]["vocab_size"] == 21128
    assert found["fields"]["vocab_size"] == "used"
    assert found["notes"] == []
    assert found["evidence"]["proof"]["configs"] == 24
    assert found["evidence"]["config"]["where"] == "google-bert/bert-base-chinese"


@pytest.mark.parametrize("by", GROUPINGS)
@pytest.mark.parametrize("class_name", ["BertModel", "BertForPreTraining"])
def test_csv_reads_back_and_adds_up(run, class_name: str, by: str) -> None:
    out = run("bert-base-chinese", "--class", class_name, "--csv", "--by", by).out
    rows = list(csv.DictReader(io.StringIO(out, newline="")))
    found = weighbridge.weigh("bert-base-chinese", class_name)
    assert {row[by]: int(row["parameters"]) for row in rows} == found.by(by)
    assert sum(int(row["parameters"]) for row in rows) == found.parameters


def table_of(markdown: str) -> list[list[str]]:
    """Return the cells of the only table on a page, as GitHub shows them."""
    tokens = MarkdownIt("commonmark").enable("table").parse(markdown)
    assert [token.type for token in tokens].count("table_open") == 1
    rows: list[list[str]] = []
    for before, token in pairwise(tokens):
        if before.type == "tr_open":
            rows.append([])
        if before.type in ("td_open", "th_open"):
            rows[-1].append(token.content)
    return rows


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("by", GROUPINGS)
def test_markdown_is_a_table_that_adds_up(run, by: str, lang: str) -> None:
    header, *rows, total = table_of(
        run("bert-base-chinese", "--markdown", "--by", by, "--lang", lang).out
    )
    assert {len(row) for row in (header, *rows, total)} == {3 if by == "tensor" else 4}
    assert total[2] == f"{CHINESE:,}"
    assert sum(int(row[2].replace(",", "")) for row in rows) == CHINESE


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("by", GROUPINGS)
@pytest.mark.parametrize("class_name", blueprint.load("bert").class_names)
def test_a_terminal_of_80_columns_shows_a_weighing(
    run, class_name: str, by: str, lang: str
) -> None:
    """Only rows of cross-attention may be wider: their names are the longest and are not cut."""
    crossed = (
        () if by == "tensor" else ("--set", "is_decoder=true", "--set", "add_cross_attention=true")
    )
    out = run("bert-base-uncased", "--class", class_name, "--by", by, "--lang", lang, *crossed).out
    assert [line for line in out.splitlines() if width(line) > 80] == []


def test_the_forms_exclude_each_other(run) -> None:
    result = run("bert", "--json", "--csv")
    assert (result.status, result.out) == (2, "")
    assert "not allowed with argument" in result.err


# Options


def test_fields_are_set_from_json_or_text(run) -> None:
    result = run(
        "bert",
        "--set",
        "num_hidden_layers=2",
        "--set",
        "hidden_act=relu",
        "--set",
        "pad_token_id=null",
        "--json",
    )
    found = json.loads(result.out)
    assert (found["config"]["num_hidden_layers"], found["config"]["pad_token_id"]) == (2, 0)
    assert found["fields"]["hidden_act"].startswith("changes no shape: ")


@pytest.mark.parametrize("value", ["hidden_size", "=5", ""])
def test_a_field_is_set_to_something(run, value: str) -> None:
    result = run("bert", "--set", value)
    assert (result.status, result.out) == (2, "")
    assert "--set takes FIELD=VALUE" in result.err


@pytest.mark.parametrize("value", ["8", "24.0", "true", "x"])
def test_a_field_set_twice_to_two_values_is_refused(run, value: str) -> None:
    result = run(
        "bert", "--set", "hidden_size=24", "--set", "num_labels=3", "--set", f"hidden_size={value}"
    )
    assert (result.status, result.out) == (2, "")
    assert result.err == (
        "weighbridge: --set gives hidden_size twice "
        f"(first = 'hidden_size=24', then = 'hidden_size={value}'). Keep one of the two.\n"
    )


def test_a_field_may_be_set_twice_to_one_value(run) -> None:
    once, twice = (run("bert", *(("--set", "hidden_size=24") * times)) for times in (1, 2))
    assert once.status == 0
    assert once == twice


def test_a_misspelled_field_is_refused(run) -> None:
    result = run("bert", "--set", "hiden_size=24")
    assert (result.status, result.out) == (2, "")
    assert result.err == "weighbridge: bert has no field hiden_size. Did you mean hidden_size?\n"


@pytest.mark.parametrize(
    ("dtype", "bits"),
    [("float32", 32), ("bf16", 16), ("torch.float16", 16), ("int8", 8), ("F4", 4)],
)
def test_bytes_are_counted_in_the_dtype_that_is_asked_for(run, dtype: str, bits: int) -> None:
    found = json.loads(run("bert-base-chinese", "--dtype", dtype, "--json").out)
    assert (found["parameters"], found["bytes"]) == (CHINESE, CHINESE * bits // 8)


def test_an_unknown_dtype_is_refused(run) -> None:
    result = run("bert", "--dtype", "float33")
    assert (result.status, result.out) == (2, "")
    assert result.err.startswith(
        "weighbridge: no such dtype (dtype = 'float33'). Use one of BF16, "
    )


def test_an_unknown_class_is_refused_with_the_nearest(run) -> None:
    result = run("bert", "--class", "BertForMaskdLM")
    assert (result.status, result.out) == (2, "")
    assert "Did you mean BertForMaskedLM?" in result.err


def test_an_unknown_field_is_a_note_or_strictly_refused(run, tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text('{"model_type": "bert", "hiden_size": 24}')
    result = run(str(config))
    assert result.status == 0
    assert f"{109_482_240:,}" in result.out
    assert result.err.startswith(
        f"weighbridge: note: {config}: unknown field hiden_size = 24; did you mean "
    )
    assert run(str(config), "--strict")[:2] == (2, "")


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--colour",),
        ("weigh",),
        ("bert", "--colour"),
        ("bert", "--by", "colour"),
        ("bert", "--lang", "tlh"),
        ("bert", "x"),
    ],
)
def test_a_wrong_command_line_exits_with_2(run, arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert (result.status, result.out) == (2, "")
    assert result.err.startswith("weighbridge: ")
    assert result.err.count("\n") == 1
    assert "--help`" in result.err


def test_the_choices_are_the_librarys(run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "GROUPINGS", (*ledger.GROUPINGS, "toy"))
    monkeypatch.setitem(document.FORMATS, "toy", document.FORMATS["text"])
    assert "'tensor', 'toy')" in run("bert", "--by", "colour").err
    assert "'html', 'toy')" in run("explain", "bert", "--format", "colour").err


# The catalogue


def test_models_are_listed_with_their_total_in_80_columns(run) -> None:
    result = run("models")
    lines = result.out.splitlines()
    assert (result.status, result.err) == (0, "")
    assert sum("/" in line for line in lines) == len(weighbridge.released())
    assert ["google-bert/bert-base-chinese", "102,267,648"] in [line.split() for line in lines]
    assert max(map(len, lines)) <= 80


def test_a_misspelt_command_is_not_taken_for_a_model(run) -> None:
    result = run("weihg", "bert")
    assert (result.status, result.out) == (2, "")
    assert "there is no command `weihg`. Did you mean `weigh`?" in result.err


def test_an_unknown_option_is_named(run) -> None:
    result = run("tree", "bert", "--jsn")
    assert (result.status, result.out) == (2, "")
    assert result.err == "weighbridge: there is no option --jsn. See `weighbridge tree --help`.\n"


def test_options_may_stand_before_the_model(run) -> None:
    assert run("--by", "role", "bert").out == run("bert", "--by", "role").out


def test_a_terminal_gets_no_control_character_from_a_path(run, tmp_path: Path) -> None:
    path = tmp_path / "\x1b[31m\nred.json"
    path.write_text('{"model_type": "bert", "x": 1}')
    for command in ("weigh", "tree", "explain"):
        result = run(command, str(path))
        assert result.status == 0
        assert "\x1b" not in result.out + result.err


def test_markdown_escapes_what_comes_from_outside(run, tmp_path: Path) -> None:
    path = tmp_path / "a|b<i>_*.json"
    path.write_text('{"model_type": "bert"}')
    assert "<i>" not in run("weigh", str(path), "--markdown").out


@pytest.mark.parametrize("arguments", [("--json",), ("--csv",), ("--markdown",)])
def test_data_is_utf_8_whatever_the_terminal_speaks(arguments: tuple[str, ...]) -> None:
    plain, ascii_only = (
        subprocess.run(
            [sys.executable, "-m", "weighbridge", "bert", *arguments],
            capture_output=True,
            check=True,
            env={**os.environ, "PYTHONIOENCODING": encoding},
        ).stdout
        for encoding in ("utf-8", "ascii")
    )
    assert plain == ascii_only
    assert "\\" not in plain.decode() or arguments == ("--markdown",)


def test_models_are_those_whose_name_holds_a_part(run) -> None:
    found = json.loads(run("models", "TinyBERT", "--json").out)
    assert found == {
        name: entry for name, entry in weighbridge.released().items() if "tinybert" in name.lower()
    }
    assert 0 < len(found) < len(weighbridge.released())


def test_a_part_that_matches_no_name_is_refused(run) -> None:
    result = run("models", "gpt9")
    assert (result.status, result.out) == (2, "")
    assert result.err == (
        "weighbridge: no model has this in its name (part = 'gpt9'). "
        "Leave it out to list all models.\n"
    )


# As a process


def process(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "weighbridge", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | environment
    )


def closing(stream: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command line of a shell, with a stream that is closed or full."""
    command = [
        "sh",
        "-c",
        f'exec "$@" {stream}',
        "sh",
        sys.executable,
        "-m",
        "weighbridge",
        *arguments,
    ]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "arguments", [(), *((name,) for name in COMMANDS)], ids=lambda words: " ".join(words) or "all"
)
def test_help_fits_80_columns(arguments: tuple[str, ...]) -> None:
    done = process(*arguments, "--help", COLUMNS="80", PYTHONUTF8="1")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"usage: weighbridge {' '.join(arguments)}".rstrip())
    assert [line for line in done.stdout.splitlines() if width(line) > 80] == []


def test_the_version_is_printed() -> None:
    done = process("--version")
    assert (done.returncode, done.stdout) == (0, f"weighbridge {weighbridge.__version__}\n")


@pytest.mark.parametrize("form", ["--csv", "--json", "--markdown", "--lang=en"])
def test_a_closed_pipe_is_not_an_error(form: str) -> None:
    """The output exceeds what a pipe holds, so the reader has left before it ends."""
    question = [
        "weigh",
        "bert-large-uncased",
        "--set",
        "num_hidden_layers=2000",
        "--by",
        "tensor",
        form,
    ]
    with subprocess.Popen(
        [sys.executable, "-m", "weighbridge", *question],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONUNBUFFERED": ""},
    ) as writer:
        assert writer.stdout.readline()
        writer.stdout.close()
        assert writer.stderr.read() == b""
        assert writer.wait() == 0


def test_a_closed_pipe_does_not_hide_differences(
    tmp_path: Path,
) -> None:
    header = json.dumps({"x": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    (tmp_path / "model.safetensors").write_bytes(
        len(header).to_bytes(8, "little") + header + bytes(4)
    )
    question = ["verify", "bert", str(tmp_path), "--set", "num_hidden_layers=2000", "--json"]
    with subprocess.Popen(
        [sys.executable, "-m", "weighbridge", *question],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as writer:
        assert writer.stdout.readline()
        writer.stdout.close()
        assert writer.stderr.read() == b""
        assert writer.wait() == 1


ANSWERS = [("models",), ("bert", "--csv", "--by", "tensor"), ("explain", "bert")]
UNWRITABLE = [(words, unbuffered) for words in ANSWERS for unbuffered in ("", "1")]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
@pytest.mark.parametrize(
    ("arguments", "unbuffered"), [*UNWRITABLE, (("--help",), ""), (("--version",), "")]
)
def test_an_answer_that_cannot_be_written_exits_with_2(
    arguments: tuple[str, ...], unbuffered: str
) -> None:
    environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "weighbridge", *arguments],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=environment,
        )  # fmt: skip
    result = (
        "weighbridge: stdout: cannot be written: No space left on device."
        " Send it where it can be written.\n"
    )
    assert (done.returncode, done.stderr) == (2, result)


@pytest.mark.parametrize("arguments", ANSWERS, ids=" ".join)
def test_a_stdout_that_is_closed_exits_with_2(arguments: tuple[str, ...]) -> None:
    done = closing(">&-", *arguments)
    result = (
        "weighbridge: stdout: cannot be written: Bad file descriptor."
        " Send it where it can be written.\n"
    )
    assert (done.returncode, done.stdout, done.stderr) == (2, "", result)


@pytest.mark.parametrize("stderr", ["2>&-", "2>/dev/full"])
def test_unreadable_words_change_no_answer(stderr: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "bert", "hiden_size": 24}')
    done, refused = closing(stderr, str(tmp_path)), closing(stderr, "bert", "--colour")
    assert (done.returncode, refused.returncode, refused.stdout) == (0, 2, "")
    assert f"{109_482_240:,}" in done.stdout
    assert "hiden_size" not in done.stdout


def test_weighing_loads_no_articles() -> None:
    code = (
        "import sys, weighbridge.cli as c; c.main(['bert']);"
        " print('weighbridge.render.prose' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("\nFalse\n")


def test_characters_that_a_terminal_cannot_show_are_escaped() -> None:
    done = process("bert-base-chinese", "--lang", "zh", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert "102,267,648" in done.stdout
    assert "\\u" in done.stdout


def test_explain_takes_letters_assumptions_and_a_title(run) -> None:
    options = ["--letters", "H = h, num_hidden_layers=n", "--assume", "F=4h", "--assume", "T = 2"]
    text = run("explain", "bert", *options, "--title", "Mine").out
    assert text.startswith("Mine\n====\n")
    assert "BertModel has V·h + P·h + 5h + n·(12h² + 13h) + h² parameters" in " ".join(text.split())
    assert "$V\\,h + P\\,h" in run("explain", "bert", "--letters", "H=h", "--format", "zhihu").out


@pytest.mark.parametrize("letters", ["H", "=h", "H=h,H=x"])
def test_letters_that_are_no_pairs_are_one_clear_error(run, letters: str) -> None:
    assert "--letters takes each size once" in run("explain", "bert", "--letters", letters).err


def test_no_words_are_answered_with_the_first_ones_to_type(capsys):
    assert main([]) == 2
    result = capsys.readouterr()
    assert result.out == ""
    assert result.err == (
        "weighbridge: give a model or a command. `weighbridge bert-base-chinese` weighs a model; "
        "`weighbridge --help` lists the commands.\n"
    )


@pytest.mark.parametrize(
    ("words", "same"), [(["help"], ["--help"]), (["help", "cost"], ["cost", "--help"])]
)
def test_help_is_a_word_too(words, same, capsys):
    printed = []
    for typed in (words, same):
        with pytest.raises(SystemExit) as stopped:
            main(typed)
        assert stopped.value.code == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]


@pytest.mark.parametrize(
    ("option", "value", "kind"),
    [("--seq", "8k", "an integer"), ("--images", "x", "an integer")],
)
def test_an_option_that_takes_a_number_says_so(option, value, kind, capsys):
    assert main(["cost", "llama", option, value]) == 2
    err = capsys.readouterr().err
    assert f"argument {option}: '{value}' is not {kind}" in err
