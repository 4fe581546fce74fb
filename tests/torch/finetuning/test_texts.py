"""From files to labelled texts, and from a seed to a plan.

Nothing is lost, nothing appears twice, and errors name the problem.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from weighbridge.errors import UsageError
from weighbridge.render.messages import in_language
from weighbridge.torch.finetuning.plan import Plan
from weighbridge.torch.finetuning.settings import Settings, check_settings
from weighbridge.torch.finetuning.texts import (
    Choices,
    Example,
    Read,
    once,
    read_examples,
    split_examples,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    File = Callable[..., str]


@pytest.fixture
def file(tmp_path: Path) -> File:
    """Return a function that writes a file and returns its path."""

    def written(content: str | bytes, name: str = "texts.csv") -> str:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(path)

    return written


def pairs(found: Read) -> list[tuple[str, str]]:
    return [(example.text, example.label) for example in found.examples]


FORMS = [
    ("a.csv", 'label,text\n1,"one, two"\n0,"""no"", he said"\n'),
    ("a.tsv", 'label\ttext\r\n1\tone, two\r\n0\t"no", he said\r\n'),
    ("a.jsonl", '{"text": "one, two", "label": 1}\n\n{"label": 0, "text": "\\"no\\", he said"}\n'),
    (
        "a.JSON",
        '\ufeff{"text": "one, two", "label": "1"}\n{"label": "0", "text": "\\"no\\", he said"}',
    ),
]


@pytest.mark.parametrize(("name", "content"), FORMS, ids=[name for name, _ in FORMS])
def test_every_form_is_read(file: File, name: str, content: str) -> None:
    found = read_examples(file(content, name))
    assert pairs(found) == [("one, two", "1"), ('"no", he said', "0")]
    assert found.columns == ("text", "label")


def test_chinese_columns_are_found_and_others_named(file: File) -> None:
    assert read_examples(file("编号,文本,类别\n1,很好,正面\n")).columns == ("文本", "类别")
    path = file("id,said,kind\n1,well,good\n")
    assert pairs(read_examples(path, Choices("said", "kind"))) == [("well", "good")]
    with pytest.raises(
        UsageError,
        match=r"it is unclear which column holds the text \(columns = 'id, said, kind'\)",
    ):
        read_examples(path)
    with pytest.raises(UsageError, match=r"there is no such column .*text = 'Said'"):
        read_examples(path, Choices("Said", "kind"))


BROKEN = {
    "few": (b"text,label\na,1\nb\n", "line 3: too few columns (expected = 2, found = 1)"),
    "many": (b"text,label\na,1,2\n", "line 2: too many columns (expected = 2, found = 3)"),
    "after lines in one text": (b'text,label\n"a\nb\nc",1\nd\n', "line 5: too few columns"),
    "utf8": (b"text,label\na,1\n\xff\xfe,1\n", "line 3: the text is not UTF-8"),
    "nul": (b"text,label\na\0b,1\n", "line 2: the text contains a NUL"),
    "empty": (b"text,label\na,1\n  ,1\n", "line 3: the text is empty"),
    "label": (b"text,label\na,\n", "line 2: the label is empty"),
    "quote": (b'text,label\na,1\n"b,1\nc,1\n', "line 3: is not CSV: unexpected end of data"),
    "after a quote": (b'text,label\n"a"b,1\n', "line 2: is not CSV: ',' expected after '\"'"),
    "nothing": (b"", "contains no texts (broken = 0)"),
    "no texts": (b"text,label\n", "contains no texts"),
    "twice": (b"text,label,text\na,1,b\n", "two columns have the same name (column = 'text')"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_one_message_with_its_line(file: File, name: str) -> None:
    content, said = BROKEN[name]
    path = file(content)
    with pytest.raises(UsageError) as raised:
        read_examples(path)
    assert str(raised.value).startswith(f"{path}: {said}")


BROKEN_JSON = {
    "no json": ('{"text": "a", "label": 1}\n{"text": ', "line 2: is not JSON"),
    "list": (
        '{"text": "a", "label": 1}\n[1]',
        "line 2: is not a JSON object (found = a list of 1)",
    ),
    "an array": ('[{"text": "a", "label": 1}]', "line 1: is not a JSON object"),
    "number": ('{"text": 5, "label": 1}', "line 1: the text is not text (found = 5)"),
    "null": ('{"text": "a", "label": null}', "line 1: the label is not text (found = null)"),
    "field": (
        '{"text": "a", "label": 1}\n{"text": "b"}',
        "line 2: a field is missing (field = 'label')",
    ),
    "half a pair": ('{"text": "\\ud83d", "label": 1}', "line 1: the text is not UTF-8"),
    "deep": ('{"text": "a", "label": 1}\n' + "[" * 100_000, "line 2: is nested too deeply"),
}


@pytest.mark.parametrize("name", BROKEN_JSON)
def test_a_broken_line_of_json_is_one_message(file: File, name: str) -> None:
    content, said = BROKEN_JSON[name]
    path = file(content, "texts.jsonl")
    with pytest.raises(UsageError) as raised:
        read_examples(path)
    assert str(raised.value).startswith(f"{path}: {said}")


def test_broken_records_can_be_left_out_and_are_counted(file: File) -> None:
    found = read_examples(file(b"text,label\na,1\nb\n\xff,1\n,1\nc,0\n"), Choices(skip_broken=True))
    assert (pairs(found), found.broken) == ([("a", "1"), ("c", "0")], 3)


def test_a_missing_file_and_an_unknown_type_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        read_examples(str(tmp_path / "none.csv"))
    with pytest.raises(UsageError, match="has an unknown file type"):
        read_examples(str(tmp_path / "none.xlsx"))


def made(rows: list[tuple[str, str]], path: str = "made.csv") -> Read:
    return Read(
        path, [Example(*row, line) for line, row in enumerate(rows, 2)], ("text", "label"), 0
    )


def of_classes(**sizes: int) -> Read:
    return made(
        [(f"{label} {number}", label) for label, size in sizes.items() for number in range(size)]
    )


def test_a_text_stands_once_and_under_one_label() -> None:
    found = once(
        made(
            [("a b", "1"), ("c", "0"), ("a  b", "1"), (" c", "1"), ("d", "1"), ("a b ", "1")]
        ).examples
    )
    assert [(example.text, example.line) for example in found.examples] == [("a b", 2), ("d", 6)]
    assert (found.doubles, found.torn) == (2, 1)


def test_a_split_is_stratified_seeded_and_loses_nothing() -> None:
    data = of_classes(a=90, b=30, c=10)
    parts = split_examples(data, None, 0.1, 0)
    assert Counter(example.label for example in parts.held_out) == {"a": 9, "b": 3, "c": 1}
    assert sorted(parts.training + parts.held_out) == sorted(data.examples)
    assert parts == split_examples(data, None, 0.1, 0)
    assert parts.held_out != split_examples(data, None, 0.1, 1).held_out


def test_labels_that_are_numbers_are_in_their_order() -> None:
    assert split_examples(of_classes(**{"10": 4, "9": 4, "-1": 4}), None, 0.3, 0).labels == (
        "-1",
        "9",
        "10",
    )


def test_a_test_file_is_taken_out_of_training() -> None:
    parts = split_examples(
        made([("a", "1"), ("b", "0"), ("c", "1")]),
        made([("d", "1"), (" c", "0")], "test.csv"),
        0.1,
        0,
    )
    assert [example.text for example in parts.training] == ["a", "b"]
    assert [example.text for example in parts.held_out] == ["d", " c"]
    assert "made.csv: 1 texts are also in test.csv, and were left out of training" in parts.notes


def test_a_label_of_the_test_alone_is_refused() -> None:
    with pytest.raises(
        UsageError, match=r"test.csv: line 3: no training text has this label \(label = '2'\)"
    ):
        split_examples(
            made([("a", "1"), ("b", "0")]), made([("d", "1"), ("e", "2")], "test.csv"), 0.1, 0
        )


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (of_classes(a=5), r"fewer than two classes \(texts = 5, label = 'a'\)"),
        (of_classes(a=5, b=1), r"a class is too small to be split \(label = 'b', texts = 1\)"),
        (
            made([("a", "1"), ("b", "1"), ("c", "0"), ("c ", "0")]),
            r"too small to be split \(label = '0', texts = 1\)",
        ),
    ],
)
def test_too_few_texts_are_refused(data: Read, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        split_examples(data, None, 0.1, 0)


def test_a_share_that_leaves_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="too few texts are left to train on"):
        split_examples(of_classes(a=3, b=3), None, 0.9, 0)


@pytest.mark.parametrize(
    ("texts", "batch", "pieces"), [(10, 4, 2), (8, 4, 4), (3, 8, 1), (9, 8, 8)]
)
def test_each_epoch_has_every_text_once_whatever_the_pieces(
    texts: int, batch: int, pieces: int
) -> None:
    plan = Plan(texts, batch, pieces, steps=2 * -(-texts // batch), warmup=0.1, seed=5)
    epochs: list[list[int]] = [[], []]
    for step in range(plan.steps):
        rows = [row for piece in range(pieces) for row in plan.piece(step, piece)]
        assert rows == plan.rows(step) == plan._replace(pieces=1).piece(step, 0)
        epochs[plan.epoch(step)] += rows
    assert [sorted(epoch) for epoch in epochs] == [list(range(texts))] * 2
    assert texts < 4 or epochs[0] != epochs[1]


def test_dropout_differs_from_piece_to_piece() -> None:
    plan = Plan(64, 8, 2, steps=16, warmup=0.1, seed=0)
    seeds = {
        at.dropout_seed(step, piece)
        for at in (plan, plan._replace(seed=1))
        for step in range(16)
        for piece in (0, 1)
    }
    assert len(seeds) == 64


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"epochs": 0}, r"--epochs must be 1 or more \(epochs = 0\)"),
        ({"learning_rate": float("nan")}, "--learning-rate must be more than 0"),
        ({"held_out": 1.0}, "--held-out must be a share between 0 and 1"),
        (
            {"batch": 8, "accumulate": 3},
            r"cannot be cut into equal pieces \(batch = 8, accumulate = 3, processes = 1\)",
        ),
        ({"out": "./bert/"}, "the checkpoint would be overwritten"),
    ],
)
def test_what_cannot_be_done_is_refused(options: dict[str, float], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        check_settings(Settings(**{"data": "a.csv", "start": "bert", "out": "out", **options}))


def test_what_was_found_out_is_said_in_both_languages(file: File) -> None:
    texts = ["很好 干净,正面", "太吵 很差,负面", "服务不错,正面", "不会再来,负面", "很好 干净,正面"]
    path = file("\n".join([*texts, "差"]).encode("gb18030"))
    data = read_examples(path, Choices(skip_broken=True))
    notes = split_examples(data, None, 0.5, 0).notes
    assert notes == (
        f"{path}: texts from column '1', labels from '2', found by their content",
        f"{path}: read as GB18030",
        f"{path}: the first line is a record, not a header, and columns are numbered",
        f"{path}: 1 broken records were skipped",
        f"{path}: 1 duplicate texts were left out",
    )
    chinese = [in_language(f"note: {note}", "zh") for note in notes]
    assert chinese == [
        f"注：{path}：文本取自 '1' 列，标签取自 '2' 列，按内容判断",
        f"注：{path}：按 GB18030 读取",
        f"注：{path}：第一行是记录，不是表头，各列用序号表示",
        f"注：{path}：跳过了 1 条损坏的记录",
        f"注：{path}：去掉了 1 条重复的文本",
    ]
