"""Documents for a terminal: a table of more columns than a line has room for."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weighbridge.render.document import Document, WideTable, write
from weighbridge.render.table import COLUMNS, Table, width

NAMES = st.text("abc词", min_size=1, max_size=20)


def square(names: list[str]) -> Table:
    """Return a table whose cell in row ``i`` and column ``j`` is ``i.j``."""
    rows = []
    for row, name in enumerate(names):
        cells = (f"{row}.{column}" for column in range(len(names)))
        rows.append((name, *cells))
    return Table(("", *names), tuple(rows), "<" + ">" * len(names))


def text_of(names: list[str]) -> str:
    return write(Document((WideTable(square(names)),)), "text")


@given(st.lists(NAMES, min_size=1, max_size=40))
def test_a_wide_table_has_every_cell_once_in_lines_that_fit(names: list[str]) -> None:
    text = text_of(names)
    cells = sorted(re.findall(r"\d+\.\d+", text))
    places = range(len(names))
    assert cells == sorted(f"{row}.{column}" for row in places for column in places)
    assert max(map(width, text.splitlines())) <= COLUMNS


def test_its_slices_each_have_the_first_column() -> None:
    names = [f"name{number}" for number in range(30)]
    slices = text_of(names).split("\n\n")
    assert len(slices) == 4
    for part in slices:
        assert [line.split()[0] for line in part.splitlines()[1:]] == names


@pytest.mark.parametrize(
    ("name", "shown"), [("twelve_chars", "twelve_chars"), ("thirteen_char", "thirteen_ch…")]
)
def test_a_long_name_is_cut(name: str, shown: str) -> None:
    header, row = text_of([name]).splitlines()
    assert header.split() == [shown]
    assert row.split() == [shown, "0.0"]
