"""`weighbridge run --csv` labels a table, and changes nothing else in it."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, NamedTuple

import berts
import pytest

from weighbridge.cli import main
from weighbridge.torch.running import run_texts

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LABELS = {0: "差", 1: "好"}
ROWS = [
    ("编号", "评论内容", "店"),
    ("1", "我爱自然语言", "a"),
    ("2", "处理，好", "b"),
    ("3", "  ", "a"),
    ("4", "坏。我爱好，坏", "b"),
    ("5", '自然"好"处理', "a"),
]


class Ran(NamedTuple):
    status: int
    out: str
    err: str


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("classifier")
    berts.write(folder, "BertForSequenceClassification", id2label=LABELS)
    return folder


@pytest.fixture
def run(
    classifier: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Callable[..., Ran]:
    monkeypatch.chdir(tmp_path)

    def ran(*words: str) -> Ran:
        capsys.readouterr()
        return Ran(main(["run", str(classifier), *words]), *capsys.readouterr())

    return ran


def as_text(rows: object, delimiter: str = ",", newline: str = "\n") -> str:
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter, lineterminator=newline).writerows(rows)
    return out.getvalue()


@pytest.mark.parametrize(
    ("name", "delimiter", "newline", "encoding"),
    [
        ("a.csv", ",", "\r\n", "utf-8-sig"),
        ("a.csv", ";", "\r\n", "gb18030"),
        ("a.txt", "\t", "\n", "utf-16"),
    ],
)
def test_a_table_keeps_its_columns_and_its_form(  # noqa: PLR0913, PLR0917  # a sheet
    run, classifier: Path, tmp_path: Path, name: str, delimiter: str, newline: str, encoding: str
) -> None:
    raw = as_text(ROWS, delimiter, newline).encode(encoding)
    (tmp_path / name).write_bytes(raw)
    ran = run("--csv", name, "-o", f"out-{name}")
    assert ran.status == 0, ran.err
    written = (tmp_path / f"out-{name}").read_bytes()
    assert written[:2] == raw[:2], "the mark of the encoding is kept"
    text = written.decode(encoding)
    rows = [tuple(row) for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)]
    assert [row[:3] for row in rows] == ROWS
    assert rows[0][3:] == ("label", "score")
    assert (newline == "\r\n") == ("\r\n" in text)
    for row in rows[1:]:
        if row[1].strip():
            (answer,) = run_texts(classifier, [(row[1], None)]).answers
            best = answer.results["classes"][0]
            assert row[3] == best["label"]
            assert float(row[4]) == pytest.approx(best["probability"], abs=1e-5)
        else:
            assert row[3:] == ("", "")
    assert f"{name}: texts from column '评论内容'" in ran.err
    assert f"{name}: 1 rows have no text, and get no label" in ran.err
    assert "4 texts labelled" in ran.out


def test_a_file_without_a_header_gets_none(run, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("我爱自然语言,好\n处理处理处理,坏\n我爱我爱我爱,好\n", "utf-8")
    ran = run("--csv", "a.csv", "--output", "out.csv", "--json")
    assert ran.status == 0, ran.err
    assert "the first line is a record, not a header, and columns are numbered" in ran.err
    assert len((tmp_path / "out.csv").read_text("utf-8").splitlines()) == 3
    found = json.loads(ran.out)
    assert (found["rows"], found["texts"], sum(found["labels"].values())) == (3, 3, 3)
    assert found["column"] == "1"


def test_added_columns_do_not_hide_others_and_broken_rows_are_counted(run, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,label\n我爱,1\n好\n处理,0\n", "utf-8")
    ran = run("--csv", "a.csv", "-o", "out.csv")
    assert (ran.status, ran.out) == (2, "")
    assert "a.csv: line 3: too few columns (expected = 2, found = 1)" in ran.err
    assert not (tmp_path / "out.csv").exists()
    ran = run("--csv", "a.csv", "-o", "out.csv", "--skip-broken", "--lang", "zh")
    assert ran.status == 0, ran.err
    assert "a.csv：跳过了 1 条损坏的记录" in ran.err
    first, *rest = (tmp_path / "out.csv").read_text("utf-8").splitlines()
    assert first == "text,label,predicted_label,predicted_score"
    assert len(rest) == 2


def test_labels_of_a_checkpoint_are_no_formulas(run, tmp_path: Path) -> None:
    hostile = tmp_path / "hostile"
    berts.write(
        hostile, "BertForSequenceClassification", id2label={0: "=cmd|' /C calc'!A0", 1: "@a\tb\n"}
    )
    (tmp_path / "a.tsv").write_text("text\n我爱\n好\n处理\n坏\n", "utf-8")
    assert main(["run", str(hostile), "--csv", "a.tsv", "-o", "b.tsv"]) == 0
    lines = (tmp_path / "b.tsv").read_text("utf-8").splitlines()
    assert len(lines) == 5
    assert all(len(line.split("\t")) == 3 for line in lines)
    assert all(line.split("\t")[1].startswith("'") for line in lines[1:])


BAD = {
    "no output": (["--csv", "a.csv"], "--csv needs --output. Add --output with the file to write"),
    "over itself": (["--csv", "a.csv", "-o", "./a.csv"], "the table would be overwritten"),
    "other type": (
        ["--csv", "a.csv", "-o", "b.xlsx"],
        "b.xlsx: is named as another type than the table. Give a file that ends in .csv",
    ),
    "no folder": (["--csv", "a.csv", "-o", "no/b.csv"], "no/b.csv: cannot be written"),
    "json": (["--csv", "a.jsonl", "-o", "b.jsonl"], "a.jsonl: is not a table with columns"),
    "unknown type": (["--csv", "a.xlsx", "-o", "b.xlsx"], "a.xlsx: has an unknown file type"),
    "no file": (["--csv", "none.csv", "-o", "b.csv"], "none.csv: cannot be read: No such file"),
    "empty file": (["--csv", "empty.csv", "-o", "b.csv"], "empty.csv: contains no texts"),
    "header alone": (
        ["--csv", "header.csv", "-o", "b.csv"],
        "header.csv: contains no texts. Give a file with texts, or add --no-header",
    ),
    "empty texts": (["--csv", "blank.csv", "-o", "b.csv"], "blank.csv: contains no texts"),
    "no column": (
        ["--csv", "a.csv", "-o", "b.csv", "--text", "said"],
        "a.csv: there is no such column (columns = 'text, n', text = 'said'). Name it with --text",
    ),
    "unclear column": (
        ["--csv", "two.csv", "-o", "b.csv"],
        "two.csv: it is unclear which column holds the text (columns = 'a, b')",
    ),
    "no encoding": (
        ["--csv", "a.csv", "-o", "b.csv", "--encoding", "gb"],
        "there is no such encoding (encoding = 'gb')",
    ),
    "wrong encoding": (
        ["--csv", "a.csv", "-o", "b.csv", "--encoding", "utf-32"],
        "a.csv: the file is not in this encoding (encoding = 'utf-32'",
    ),
    "a label that it cannot hold": (
        ["--csv", "a.csv", "-o", "b.csv", "--encoding", "ascii"],
        "the encoding of the table has no such letters (encoding = 'ascii', label = '差')",
    ),
    "not UTF-8": (
        ["--csv", "latin.csv", "-o", "b.csv"],
        (
            "latin.csv: line 2: the text is not UTF-8 (found = \"'caf\\\\udce9 au lait'\"). "
            "Name the encoding of the file with --encoding, or skip such records with --skip-broken"
        ),
    ),
    "other class": (
        ["--csv", "a.csv", "-o", "b.csv", "--class", "BertModel"],
        "only a classifier with one label for each text can label a table (class = 'BertModel')",
    ),
    "a text too": (["x", "--csv", "a.csv", "-o", "b.csv"], "--csv and TEXT exclude each other"),
    "a file too": (
        ["--file", "x", "--csv", "a.csv", "-o", "b.csv"],
        "--csv and --file exclude each other. Drop one of the two",
    ),
    "each": (["--each", "--csv", "a.csv", "-o", "b.csv"], "--csv and --each exclude each other"),
    "pool": (["--pool", "cls", "--csv", "a.csv", "-o", "b.csv"], "--csv and --pool exclude"),
    "output alone": (["x", "-o", "b.csv"], "--output needs --csv. Add --csv with a table"),
    "text alone": (["x", "--text", "a"], "--text needs --csv"),
    "encoding alone": (["x", "--encoding", "gbk"], "--encoding needs --csv"),
    "no header alone": (["x", "--no-header"], "--no-header needs --csv"),
    "skip broken alone": (["x", "--skip-broken"], "--skip-broken needs --csv"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_request_is_one_message(run, tmp_path: Path, name: str) -> None:
    words, says = BAD[name]
    for file, content in {
        "a.csv": b"text,n\nit is,1\na cat,2\n",
        "a.jsonl": b'{"text": "a"}\n',
        "empty.csv": b"",
        "header.csv": b"text,n\n",
        "blank.csv": b"text,n\n ,1\n",
        "two.csv": b"a,b\nit is a cat,the cat is on\nit is a dog,a dog sat on\n",
        "latin.csv": b"text,n\ncaf\xe9 au lait,1\n",
    }.items():
        (tmp_path / file).write_bytes(content)
    ran = run(*words)
    assert (ran.status, ran.out) == (2, "")
    assert says in ran.err
    assert len(ran.err.splitlines()) == 1
    assert not (tmp_path / "b.csv").exists()
    assert (tmp_path / "a.csv").read_bytes() == b"text,n\nit is,1\na cat,2\n"
