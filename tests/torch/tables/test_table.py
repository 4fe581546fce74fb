"""Tables as spreadsheets, editors and programs write them are read alike."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weighbridge.errors import UsageError
from weighbridge.torch.tables.columns import find_columns, header_test
from weighbridge.torch.tables.table import BrokenError, TableFile, read_table

if TYPE_CHECKING:
    from pathlib import Path

ROWS = [
    ("编号", "评论内容", "情感倾向", "评论时间"),
    ("7001", "房间很干净，服务也好", "正面", "2021-03-01 10:00"),
    ("7002", "设施太旧；\n不会再来, 真的", "负面", "2021-03-01 11:30"),
    ("7003", '他说"很好"', "正面", "2021-03-02 09:15"),
    ("7004", "早餐不错，位置方便", "正面", "2021-03-02 09:20"),
    ("7005", "噪音太大，没有睡好", "负面", "2021-03-02 09:30"),
]


def written(folder: Path, rows: object, name: str = "a.csv", encoding: str = "utf-8") -> TableFile:
    """Write rows with their delimiter, or a text, and read the file with any header."""
    path = folder / name
    if isinstance(rows, str):
        path.write_bytes(rows.encode(encoding))
    return read_table(str(path), header_test())


def as_csv(rows: object, delimiter: str = ",", **settings: str) -> str:
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter, **settings).writerows(rows)
    return out.getvalue()


def both(table: TableFile, text: str | None = None, label: str | None = None) -> tuple[str, str]:
    found = find_columns(table, {"text": text, "label": label})
    return found["text"].name, found["label"].name


SHEETS = {
    "comma": ("a.csv", ",", "utf-8-sig"),
    "semicolon": ("a.csv", ";", "gb18030"),
    "tab": ("a.csv", "\t", "utf-8"),
    "Unicode text": ("a.txt", "\t", "utf-16"),
    "bar": ("a.csv", "|", "utf-8"),
}


@pytest.mark.parametrize("sheet", SHEETS)
def test_a_spreadsheet_is_read_whatever_it_is_written_with(sheet: str, tmp_path: Path) -> None:
    name, delimiter, encoding = SHEETS[sheet]
    table = written(tmp_path, as_csv(ROWS, delimiter), name, encoding)
    assert table.columns == ROWS[0]
    assert [tuple(record.fields.values()) for record in table.records] == ROWS[1:]
    assert table.form.delimiter == delimiter
    assert both(table) == ("评论内容", "情感倾向")


def test_a_line_for_excel_alone_names_the_delimiter(tmp_path: Path) -> None:
    table = written(tmp_path, 'sep=;\r\ntext;label\r\n"a;b, c";1\r\nd;0;\r\n,;x;y\r\n')
    assert table.columns == ("text", "label")
    assert table.records[0] == (3, {"text": "a;b, c", "label": "1"})
    assert table.records[1] == (4, {"text": "d", "label": "0"})
    assert isinstance(table.records[2].fields, BrokenError)


def test_empty_columns_and_rows_of_a_spreadsheet_are_left_out(tmp_path: Path) -> None:
    table = written(tmp_path, "text,label,,\na,1,,\n,,,\nb,0,,\n")
    assert table.columns == ("text", "label")
    assert [record.fields for record in table.records] == [
        {"text": "a", "label": "1"},
        {"text": "b", "label": "0"},
    ]


def test_marks_of_quotation_quote_only_if_all_of_them_do(tmp_path: Path) -> None:
    quoted = written(tmp_path, 'label\ttext\n1\t"a\tb"\n0\tc\n')
    assert quoted.records[0].fields == {"label": "1", "text": "a\tb"}
    plain = written(tmp_path, 'label\ttext\n1\t"no", he said\n0\t"well\n')
    assert [record.fields["text"] for record in plain.records] == ['"no", he said', '"well']


# Headers

BODY = [row[1:3] for row in ROWS[1:]]
HEADERS = {
    "usual names": (("text", "label"), True),
    "other names": (("said by guests", "what it is"), True),
    "Chinese": (("评论内容", "情感倾向"), True),
    "none": (("房间小", "负面"), False),
    "none, rare words": (("content", "正面"), True),
}


@pytest.mark.parametrize("name", HEADERS)
def test_a_header_is_told_from_a_record(name: str, tmp_path: Path) -> None:
    first, is_header = HEADERS[name]
    table = written(tmp_path, as_csv([first, *BODY]))
    assert table.has_header == is_header
    assert len(table.records) == len(BODY) + (not is_header)
    assert both(table) == (first if is_header else ("1", "2"))


def test_the_user_decides_on_the_header(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(as_csv([("text", "label"), *BODY]), "utf-8")
    table = read_table(str(path), header_test(header=False))
    assert (table.columns, len(table.records)) == (("1", "2"), 6)
    path.write_text(as_csv([("房间小", "负面"), *BODY]), "utf-8")
    assert read_table(str(path), header_test("房间小")).columns == ("房间小", "负面")


SINGLE = ["房间很干净服务也好", "设施太旧不会再来真的", "早餐不错位置方便", "噪音太大没有睡好觉"]


@pytest.mark.parametrize(
    ("first", "is_header"), [("反馈", True), ("评论", True), (SINGLE[0], False)]
)
def test_a_header_of_one_column_is_much_shorter_than_texts(
    first: str, is_header: bool, tmp_path: Path
) -> None:
    table = written(tmp_path, "\n".join([first, *SINGLE[1:]]))
    assert table.has_header == is_header


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.text('很好不错房间,;\t"\n', min_size=1), st.sampled_from(["正", "负"])),
        min_size=2,
    )
)
def test_a_file_of_records_loses_none(tmp_path_factory: pytest.TempPathFactory, rows) -> None:
    path = tmp_path_factory.mktemp("rows") / "a.csv"
    path.write_text(as_csv(rows), "utf-8", newline="")
    table = read_table(str(path), header_test(header=False))
    found = [tuple(record.fields.values()) for record in table.records]
    assert table.form.delimiter != "," or found == rows


# Columns


def columns_of(folder: Path, **columns: list[str]) -> tuple[str, str]:
    rows = [tuple(columns), *zip(*columns.values(), strict=True)]
    return both(written(folder, as_csv(rows)))


TEXTS = [
    "the room was clean and quiet",
    "too loud",
    "the staff was kind to us",
    "never again",
    "ok, fine",
]
KINDS = ["good", "bad", "good", "bad", "good"]


def test_columns_are_found_by_what_stands_in_them(tmp_path: Path) -> None:
    found = columns_of(
        tmp_path,
        link=[f"https://example.org/a-very-long-address/of-a-page/{at}" for at in range(5)],
        who=["Ann", "Bob", "Cid", "Dan", "Eve"],
        day=["2020-01-01", "2020-01-02"] * 2 + ["2020-01-02"],
        said=TEXTS,
        price=["10.5", "10.5", "11.5", "11.5", "10.5"],
        mood=KINDS,
    )
    assert found == ("said", "mood")


def test_names_decide_between_columns_of_like_content(tmp_path: Path) -> None:
    cities = ["Rome", "Oslo", "Rome", "Oslo", "Oslo"]
    found = columns_of(
        tmp_path, title=TEXTS, user_comment=TEXTS[::-1], city=cities, sentiment_of=KINDS
    )
    assert found == ("user_comment", "sentiment_of")
    with pytest.raises(
        UsageError, match=r"which column holds the label \(columns = 'city, mood'\)"
    ):
        columns_of(tmp_path, said=TEXTS, city=cities, mood=KINDS)
    with pytest.raises(
        UsageError, match=r"which column holds the text \(columns = 'said, meant'\)"
    ):
        columns_of(tmp_path, said=TEXTS, meant=TEXTS[::-1], mood=KINDS)


def test_a_column_without_labels_is_not_taken(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="it is unclear which column holds the label"):
        columns_of(tmp_path, said=TEXTS, number=["1", "2", "3", "4", "5"])


def test_a_broken_header_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="line 1: is not CSV"):
        written(tmp_path, '"a"b,c\n1,2\n')
