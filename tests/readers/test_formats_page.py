"""Each format that the docs say is read or named has a test, which exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "formats.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if line.startswith("| ") and "::" in line
]


def test_every_line_of_the_table_is_checked() -> None:
    lines = [line for line in PAGE.splitlines() if line.startswith("| ")]
    assert len(ROWS) == len(lines) - 2 > 10  # the header, and the line below it


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_what_the_page_says_is_read_has_a_test(row: list[str]) -> None:
    assert row[1].partition(" ")[0] in ("yes", "named")
    path, _, name = row[-1].partition("::")
    assert re.search(rf"^def {name}\(", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE)
