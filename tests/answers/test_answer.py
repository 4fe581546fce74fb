"""Every answer has one mechanism for its output in Python, notebooks and terminals."""

from __future__ import annotations

import csv
import importlib
import io
import json
import pkgutil
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from notebooks import HOSTILE, Sanitised

import weighbridge as wb
from weighbridge import answers, explorer, fleet, site
from weighbridge.answers import data_table
from weighbridge.answers.answer import Answer, Message, TabularAnswer
from weighbridge.answers.devices import devices
from weighbridge.answers.families import Families
from weighbridge.answers.inspect import inspect_all
from weighbridge.answers.models import ReleasedModels
from weighbridge.answers.pipeline import weigh_pipeline
from weighbridge.cli import main, output
from weighbridge.cli.commands import COMMANDS
from weighbridge.data import LANGUAGES
from weighbridge.errors import UsageError
from weighbridge.render.document import (
    Aligned,
    Code,
    Comment,
    Document,
    Grid,
    Lines,
    Outline,
    WideTable,
    flat,
)
from weighbridge.render.messages import in_language
from weighbridge.render.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

TINY = "--set=hidden_size=24 --set=num_attention_heads=3 --set=num_hidden_layers=1 "
# A command line for each class of answers. Braces hold the names of files that a fixture makes.
COMMAND_LINES = {
    "Weighing": "weigh {config}",
    "Weighing by tensor": "weigh bert-base-chinese --class BertForMaskedLM --by tensor",
    "Article": "explain bert-base-chinese --class BertForMaskedLM",
    "WholeFormula": "formula deepseek_v3 --whole",
    "ClosedForm": "formula bert-base-chinese --by component",
    "ClosedForm in LaTeX": "formula bert-base-chinese --format latex --names letters",
    "ClosedForm in Python": "formula bert-base-chinese --format python",
    "ClosedForm in SQL": "formula bert-base-chinese --format sql",
    "RunClosedForm": "formula llama --of flops",
    "CostArticle": "explain llama --costs",
    "RunCost": "cost llama --seq 64 --train",
    "Cache": "cache gpt_oss --context 4096",
    "Serving": "serve llama --on 2xH100 --context 8192",
    "ServiceSearch": "plan gpt2 --on 4xL4 --batch 8 --serve --context 512",
    "PlanSearch": "plan gpt2 --on 4xL4 --batch 8 --seq 1024",
    "TrainingFit": "train llama --on 8xH100 --batch 8 --seq 4096 --zero 3",
    "Lora": "lora mixtral -r 4 --targets q,gate,up,down --by module",
    "Lora by tensor": "lora gpt2 --targets q,v --method dora --by tensor",
    "QuantizedGguf": "quantize gemma-2-2b --to q4_k_m",
    "QuantizedFiles": "quantize llama --to nf4 --by component",
    "FlowTree": "tree bert-base-uncased --flow",
    "Tree": "tree bert-base-chinese --class BertForMaskedLM --depth 2",
    "Inspection": "inspect {hostile} --by tensor",
    "Inspections": "inspect {several}",
    "Verification": "verify bert-base-chinese {hostile}",
    "Fitting": "verify bert-base-chinese {adapter}",
    "Changes": "verify {hostile} {second}",
    "PipelineWeighing": "weigh {pipeline}",
    "PipelineVerification": "verify {pipeline} {pipeline}",
    "Reconciled": "reconcile bert-base-uncased 109418952",
    "Reconciled with ways": "reconcile bert-base-uncased 108808704",
    "TableReconciled": "reconcile --table {table}",
    "Conventions": "conventions",
    "SideBySide": "compare bert-base-uncased bert-large-uncased",
    "SideBySide of a change": "what-if bert-base-uncased --set num_hidden_layers=-2",
    "DesignSearch": "design --like llama --parameters 1.3B --depth 16..20 --top 3",
    "Sweep": "sweep bert --grid num_hidden_layers=1..3 --order parameters:desc",
    "Checked": "scan --check {repository}",
    "Scanned": "scan {several} --output {folder}/{lang}.parquet",
    "Summary": "scan --summary {scanned}",
    "ExplorerPage": "explore bert-base-uncased --output {folder}/{lang}.html --no-open",
    "Guessed": "guess {hostile}",
    "Data": "guess {hostile} --config",
    "Audit": "audit {article}",
    "ReleasedModels": "models bert",
    "Families": "families bert",
    "Families of one": "families albert",
    "DeviceList": "devices",
    "DeviceList of some": "devices H100 ascend910b",
    "Running": "run {bert} <b>it</b>",
    "Labelled": "run {classifier} --csv {texts} --output {folder}/{lang}.csv",
    "Trace": "trace {bert} <b>it</b>",
    "Trace of a head": "trace {bert} it --layer 0 --head 0",
    "Message": "attention {bert} it --output {folder}/attention.html",
    "Measuring": f"measure bert --ours --seq 8 {TINY} --set=intermediate_size=40",
    "Finetuned": "finetune {texts} --from {start} --out {folder}/{lang} --steps 2 --batch 4",
}
# Deriving a blueprint takes minutes. These two answer with a `Message`, as `attention` does.
NOT_RUN = {"completion", "derive", "site"}
NEED_DUCKDB = {"scan", "sweep"}
NEED_TORCH = {"run", "trace", "attention", "measure", "finetune"}
WITHOUT_JSON = {"Article", "CostArticle", "Data", "Message"}


class Asked(NamedTuple):
    """An answer, the choices of the command, and the output of the command."""

    answer: Any
    choices: dict[str, Any]
    status: int
    out: str
    err: str


def safetensors(folder: Path, name: str) -> Path:
    tensors = {
        f"bert.encoder.layer.0.{HOSTILE}.weight": {
            "dtype": "F32",
            "shape": [2, 3],
            "data_offsets": [0, 24],
        },
        f"bert.pooler.dense.{name}": {"dtype": "F16", "shape": [2], "data_offsets": [24, 28]},
    }
    header = json.dumps({"__metadata__": {HOSTILE: HOSTILE}, **tensors}).encode()
    path = folder / f"{name}<i>.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(28))
    return path


def several(folder: Path) -> Path:
    """Write two checkpoints, with tensors of the same names, into a folder."""
    folder.mkdir()
    for name in ("a", "b"):
        safetensors(folder, "bias").rename(folder / f"{name}<i>.safetensors")
    return folder


def adapter(folder: Path) -> Path:
    """Write a LoRA adapter of one layer, and of a module that no base model has."""
    folder.mkdir()
    tensors, end = {}, 0
    for module in ("encoder.layer.0.attention.self.query", HOSTILE):
        for half, shape in (("lora_A", [2, 768]), ("lora_B", [768, 2])):
            offsets = [end, end := end + 6144]
            named = f"base_model.model.{module}.{half}.weight"
            tensors[named] = {"dtype": "F32", "shape": shape, "data_offsets": offsets}
    header = json.dumps(tensors).encode()
    path = folder / "adapter_model.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(end))
    config = {"peft_type": "LORA", "r": 2, "target_modules": ["query", HOSTILE]}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    return folder


def pipeline(folder: Path) -> Path:
    """Write a pipeline of diffusers with one model, and a checkpoint that does not fit it."""
    config = {"_class_name": "DiTTransformer2DModel", "_diffusers_version": "0.42.1"}
    (folder / "transformer").mkdir(parents=True, exist_ok=True)
    (folder / "transformer" / "config.json").write_text(json.dumps(config))
    safetensors(folder, "bias").replace(folder / "transformer" / "model.safetensors")
    index = {"_class_name": "DiTPipeline", "transformer": ["diffusers", config["_class_name"]]}
    (folder / "model_index.json").write_text(json.dumps(index))
    return folder


def line_of_texts(number: int) -> str:
    return f"film {number},{'<b>' if number % 2 else 'dull'}\n"


@pytest.fixture
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], str]:
    """Return a function that makes the file with a name and returns its path."""

    def bert() -> Path:
        import berts

        berts.write(tmp_path, "BertForMaskedLM")
        return tmp_path

    def classifier() -> Path:
        import berts

        folder = tmp_path / "classifier"
        berts.write(folder, "BertForSequenceClassification", id2label={0: HOSTILE, 1: "good"})
        return folder

    def repository() -> Path:
        folder = several(tmp_path / "repository")
        (folder / "config.json").write_text('{"model_type": "bert"}')
        return folder

    def scanned() -> Path:
        from weighbridge.fleet.scan import scan

        result = tmp_path / "scanned.parquet"
        scan([str(several(tmp_path / "scanned"))], result)
        return result

    def written(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    makers: dict[str, Callable[[], Path]] = {
        "hostile": lambda: safetensors(tmp_path, "bias"),
        "second": lambda: safetensors(tmp_path, "weight"),
        "several": lambda: several(tmp_path / "several"),
        "scanned": scanned,
        "repository": repository,
        "pipeline": lambda: pipeline(tmp_path / "pipeline"),
        "adapter": lambda: adapter(tmp_path / "adapter"),
        "folder": lambda: tmp_path,
        "bert": bert,
        "classifier": classifier,
        "start": lambda: request.getfixturevalue("bert_tiny"),
        "table": lambda: written("t.csv", f"model,parameters\nbert-base-uncased,3\n{HOSTILE},7\n"),
        "article": lambda: written("a.txt", f"{HOSTILE} 30522*768 = 23,449,856 and <b>1+1 = 2"),
        "config": lambda: written("<b>.json", json.dumps({"model_type": "mixtral", HOSTILE: 7})),
        "texts": lambda: written(
            "texts.csv", "text,label\n" + "".join(map(line_of_texts, range(20)))
        ),
    }
    return lambda name: str(makers[name]())


@pytest.fixture
def ask(
    made: Callable[[str], str],
    capsys: pytest.CaptureFixture[str],
) -> Callable[..., Asked]:
    """Return a function that runs a command line and returns its answer and its output."""
    answered: list[Any] = []

    def write_answer(answer: Any, options: Any) -> int:
        names = options.command.choices
        answered[:] = [answer, {name: getattr(options, name) for name in names}]
        return output.write_answer(answer, options)

    paths: dict[str, str] = {}

    def asked(line: str, lang: str, *more: str) -> Asked:
        command = line.partition(" ")[0]
        if command in NEED_TORCH:
            pytest.importorskip("torch")
        if command in NEED_DUCKDB:
            pytest.importorskip("duckdb")
        paths["lang"] = lang
        for name in [piece.partition("}")[0] for piece in line.split("{")[1:]]:
            paths.setdefault(name, made(name) if name != "lang" else lang)
        words = [word.format_map(paths) for word in line.split()]
        status = main([*words, "--lang", lang, *more], write=write_answer)
        written = capsys.readouterr()
        assert answered, written.err
        return Asked(*answered, status, *written)

    return asked


def every_class(base: type) -> Iterator[type]:
    """Yield each class derived from a base: those with no subclasses, or with a command."""
    for room in (answers, explorer, fleet, site):
        for module in pkgutil.iter_modules(room.__path__, f"{room.__name__}."):
            importlib.import_module(module.name)
    for below in base.__subclasses__():
        yield from every_class(below)
        is_whole = not below.__subclasses__() or below.__name__ in COMMAND_LINES
        if is_whole and below.__module__.startswith("weighbridge."):
            yield below


def test_no_answer_is_forgotten() -> None:
    assert {found.__name__ for found in every_class(Answer)} == {
        name.partition(" ")[0] for name in COMMAND_LINES
    } | {"BuiltSite"}  # it needs Pyodide: tests/site builds one
    assert {line.partition(" ")[0] for line in COMMAND_LINES.values()} | NOT_RUN == {*COMMANDS}


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("name", COMMAND_LINES)
def test_an_answer_in_python_equals_the_output_of_the_command(
    name: str, lang: str, ask: Callable[..., Asked]
) -> None:
    asked = ask(COMMAND_LINES[name], lang)
    answer = asked.answer
    assert type(answer).__name__ == name.partition(" ")[0]
    assert asked.out == f"{answer.text(lang, **asked.choices)}\n"
    assert asked.status == answer.status
    assert type(answer.notes) is list
    assert answer.notes or name != "Weighing"
    for note in answer.notes:
        assert in_language(f"note: {note}", lang) in asked.err
    assert isinstance(answer.lang, str)
    answer.lang = lang
    notes = [f"note: {note}" for note in answer.notes]
    assert repr(answer) == "\n".join([*notes, answer.text()])
    json.dumps(answer.to_dict(**asked.choices))
    assert answer.page().count("</html>") == 1
    assert answer.markdown()
    assert answer.latex().count(r"\end{document}") == 1
    check_html(answer)


@pytest.mark.parametrize(
    "name", [name for name in COMMAND_LINES if name.isalpha() and name not in WITHOUT_JSON]
)
def test_the_json_of_a_command_is_the_dict(name: str, ask: Callable[..., Asked]) -> None:
    json_words = (
        ["--format", "json"] if name.endswith(("ClosedForm", "WholeFormula")) else ["--json"]
    )
    asked = ask(COMMAND_LINES[name], "en", *json_words)
    printed = json.loads(asked.out)
    if isinstance(printed, dict):
        assert printed.pop("schema_version", None) == (
            None if asked.answer.keys_are_data else output.SCHEMA_VERSION
        )
    assert printed == json.loads(json.dumps(asked.answer.to_dict(**asked.choices)))


# In a notebook

TABLES = (Table, Grid, WideTable)
AS_THEY_ARE = (Lines, Code, Comment, Aligned)


def check_html(answer: Any) -> None:
    """Check that a notebook shows tables as tables, code as code, and nothing else as code."""
    blocks = list(flat(answer.document(answer.lang).blocks))
    read = Sanitised(answer._repr_html_())
    assert read.elements.count("table") == sum(isinstance(block, TABLES) for block in blocks)
    assert read.elements.count("pre") == sum(isinstance(block, AS_THEY_ARE) for block in blocks)
    assert read.elements[0] == "div"
    assert read.elements.count("details") > 0 or not any(
        isinstance(block, Outline) and block.root.branches for block in blocks
    )
    for note in answer.notes:
        assert in_language(f"note: {note}", answer.lang) in "".join(read.texts)


@pytest.mark.parametrize("by", ["tensor", "component", "layer"])
def test_the_content_of_a_file_is_text_in_a_notebook(by: str, tmp_path: Path) -> None:
    inspection = wb.inspect(safetensors(tmp_path, "bias"))
    read = Sanitised(inspection.html(by=by))
    assert any(HOSTILE in text for text in read.texts)


# Tables

TABULAR: dict[str, Callable[[Path], Any]] = {
    "Weighing": lambda _: wb.weigh("mixtral"),
    "RunCost": lambda _: wb.cost("llama", sequence=64),
    "SideBySide": lambda _: wb.compare("bert-base-uncased", "bert-large-uncased"),
    "DesignSearch": lambda _: wb.design(like="llama", parameters="1.3B", depth="16..20"),
    "Sweep": lambda _: wb.sweep("bert", {"num_hidden_layers": range(1, 4)}),
    "Cache": lambda _: wb.cache("gpt_oss", context=4096),
    "Serving": lambda _: wb.serve("llama", on="2xH100", context=8192),
    "ServiceSearch": lambda _: wb.plan("gpt2", on="4xL4", batch=8, context=512, serve=True),
    "PlanSearch": lambda _: wb.plan("gpt2", on="4xL4", batch=8, sequence=1024),
    "TrainingFit": lambda _: wb.train("llama", on="8xH100", batch=8, sequence=4096, zero=3),
    "Lora": lambda _: wb.lora("gpt2", targets="q,o", bias="all"),
    "QuantizedGguf": lambda _: wb.quantize("gpt2", "q4_k_m"),
    "QuantizedFiles": lambda _: wb.quantize("llama", "nf4"),
    "Tree": lambda _: wb.tree("bert"),
    "Inspection": lambda folder: wb.inspect(safetensors(folder, "bias")),
    "Inspections": lambda folder: inspect_all(several(folder / "several")),
    "PipelineWeighing": lambda folder: weigh_pipeline(str(pipeline(folder / "pipeline"))),
    "Verification": lambda folder: wb.verify("bert", safetensors(folder, "bias")),
    "Fitting": lambda folder: wb.verify("bert-base-chinese", adapter(folder / "adapter")),
    "Changes": lambda folder: wb.verify(safetensors(folder, "a"), safetensors(folder, "b")),
    "ReleasedModels": lambda _: ReleasedModels("bert"),
    "Families": lambda _: Families("bert"),
    "DeviceList": lambda _: devices(),
}
OF_INTEGERS = {"parameters", "bytes", "tensors", "elements", "count", "configs"} | {
    *("flops", "layers", "context", "per_token", "products", "modules", "number", "ranks", "stage"),
    *("step_microseconds",),
    *("bandwidth", "node"),
}
INTEGERS_OF = {
    "SideBySide": {"A", "B", "difference", "share", "alone"},
    "DesignSearch": {"width", "heads", "kv_heads", "head_size", "size", "distance"}
    | {"alignment", "tokens", "kv_bytes_per_token"},
}
"""Further columns of integers of one answer."""
NOT_COLUMNS = {"plan", "cell", "design", "row"}
"""The groupings by plans, pairs or points: no one column names a row."""
OF_LISTS = {"shape", "expected_shape", "found_shape", "dims", "classes", "holes", "about"} | {
    *("rank", "types"),
}


def test_no_table_is_forgotten() -> None:
    assert {found.__name__ for found in every_class(TabularAnswer)} == {*TABULAR}


def each_table(name: str, folder: Path) -> Iterator[tuple[Any, str]]:
    if name == "Sweep":
        pytest.importorskip("duckdb")
    answer = TABULAR[name](folder)
    assert answer.groupings
    for by in answer.groupings:
        yield answer, by


@pytest.mark.parametrize("name", TABULAR)
def test_pandas_arrow_csv_and_records_hold_the_same(name: str, tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    for answer, by in each_table(name, tmp_path):
        records, frame, arrow = answer.records(by), answer.to_pandas(by), answer.to_arrow(by)
        assert records
        assert list(frame.columns) == arrow.column_names == list(records[0])
        assert arrow.to_pylist() == records
        for column in frame.columns:
            values = [record[column] for record in records]
            shown = frame[column].astype(object).where(frame[column].notna(), None)
            assert list(shown) == values
        rows = list(csv.reader(io.StringIO(answer.csv(by), newline="")))
        assert rows[0] == list(records[0])
        assert len(rows) == 1 + len(records)
        first = rows[0][1] if name == "Inspections" else rows[0][0]  # after the checkpoint's name
        assert by in (None, first) or by in records[0] or by in NOT_COLUMNS


@pytest.mark.parametrize("name", TABULAR)
def test_columns_are_typed(name: str, tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    for answer, by in each_table(name, tmp_path):
        schema, frame = answer.to_arrow(by).schema, answer.to_pandas(by)
        for field in schema:
            is_integer = field.name.endswith(tuple(OF_INTEGERS))
            is_integer |= field.name in INTEGERS_OF.get(name, ())
            assert (str(field.type) == "int64") == is_integer
            assert str(field.type).startswith("list<") == (field.name in OF_LISTS)
            assert (str(frame[field.name].dtype).lower() == "int64") == is_integer
        assert "shape" not in " ".join(schema.names) or "int64" in str(
            next(field.type for field in schema if "shape" in field.name)
        )


def test_a_column_adds_up() -> None:
    pytest.importorskip("pandas")
    mixtral = wb.weigh("mixtral")
    for by in mixtral.groupings:
        assert mixtral.to_pandas(by)["parameters"].sum() == mixtral.parameters
    assert list(mixtral.to_pandas().columns) == ["component", "formula", "parameters"]


def test_a_table_without_rows_keeps_its_types(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    path = safetensors(tmp_path, "bias")
    same = wb.verify(path, path)
    assert same.records() == []
    assert str(same.to_arrow().schema.field("expected_shape").type).startswith("list<")
    assert same.to_pandas()["matters"].dtype == "bool"


def test_an_unknown_grouping_is_refused() -> None:
    for question in (wb.weigh("bert").csv, wb.weigh("bert").to_pandas, wb.tree("bert").records):
        with pytest.raises(UsageError, match="there is no such grouping"):
            question("colour")


@pytest.mark.parametrize("package", ["pandas", "pyarrow"])
def test_a_package_that_is_missing_is_named(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(data_table, "import_module", absent)
    bert = wb.weigh("bert")
    question = {"pandas": bert.to_pandas, "pyarrow": bert.to_arrow}[package]
    with pytest.raises(UsageError) as error:
        question()
    assert f"pip install {package}" in str(error.value)


def test_only_models_with_experts_have_active_parameters() -> None:
    mixtral = wb.weigh("mixtral")
    assert mixtral.active == mixtral.to_dict()["active"]
    assert wb.weigh("bert").active is None


def test_the_language_of_an_answer_is_its_own() -> None:
    class Greeting(Message):
        def document(self, lang: str = "en") -> Document:
            return Document((Lines({"en": "hello", "zh": "你好"}[lang]),), lang)

    greeting = Greeting("")
    assert (repr(greeting), greeting.text("zh")) == ("hello", "你好")
    greeting.lang = "zh"
    assert (repr(greeting), greeting.text("en")) == ("你好", "hello")
    assert 'lang="zh-CN"' in greeting._repr_html_()
