"""Find the columns of texts and labels: by a usual name, otherwise by what stands in them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from weighbridge.torch.tables.table import IsHeader, TableFile

_TEXT_NAMES = (
    "text",
    "sentence",
    "review",
    "content",
    "comment",
    "document",
    "tweet",
    "文本",
    "句子",
    "评论",
    "内容",
)
_LABEL_NAMES = (
    "label",
    "labels",
    "class",
    "category",
    "sentiment",
    "target",
    "标签",
    "类别",
    "分类",
    "情感",
)
"""The usual names; the first one that a file has is used."""
_PARTS = {
    "text": (*_TEXT_NAMES, "message", "body", "正文", "评价", "留言", "微博", "文章"),
    "label": (*_LABEL_NAMES, "polarity", "rating", "tag", "倾向", "极性", "情绪", "评级"),
}
"""Words in the names of columns that decide between columns of similar content."""
_NAMES = {"text": _TEXT_NAMES, "label": _LABEL_NAMES}

_SAMPLE = 1000  # records that show what a column holds
_MOST_LABELS = 200  # classes; more different values are names or numbers of something
_MOST_NUMBERS = 20  # different numbers of a rating; more are counts
_LONGEST_LABEL = 30  # letters
_LEAST_WORDS = 1.5  # the mean of a column of texts
_CLEARLY_LONGER = 1.5  # times as many words as any other column
_ADDRESS = re.compile(r"\S+://\S+|www\.\S+|\S+@\S+")
_DATE = re.compile(r"\d{1,4}[-/.年]\d{1,2}[-/.月]\d{1,4}|\d{1,2}:\d{2}")
_WORD = re.compile(r"[\u3400-\u9fff\u3040-\u30ff\uac00-\ud7af]|[^\W\d_]+")
"""A Chinese or Japanese character or a Korean syllable, which are about a word, or a word."""


class Found(NamedTuple):
    """The column of a role, and whether its content showed it."""

    name: str
    by_content: bool = False


# The header


def header_test(*named: str | None, header: bool = True) -> IsHeader:
    """Return a function that decides whether the first record is a header.

    Args:
        named: the columns that the user named.
        header: whether there may be one.

    Example:
        >>> test = header_test()
        >>> test(["评论内容", "情感倾向"], [["很好", "正面"], ["差", "负面"], ["不错", "正面"]])
        True
        >>> test(["还行", "正面"], [["很好", "正面"], ["差", "负面"], ["不错", "正面"]])
        False
    """

    def is_header(first: Sequence[str], others: Sequence[Sequence[str]]) -> bool:
        if not header:
            return False
        if any(name in first for name in named if name):
            return True
        return _looks_like_header(first, others)

    return is_header


def _looks_like_header(first: Sequence[str], others: Sequence[Sequence[str]]) -> bool:
    """Whether a record has usual names, or cells that are no values of their columns."""
    if {name.lower() for name in first} & {*_TEXT_NAMES, *_LABEL_NAMES}:
        return True
    columns = list(zip(*_equally_wide(first, others), strict=True))
    if not columns:  # with nothing to compare, it is a header, as most tables have one
        return True
    if any(cell and cell in values for cell, values in zip(first, columns, strict=True)):
        return False
    return any(map(_heads, first, columns))


def _equally_wide(first: Sequence[str], others: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    return [row for row in others if len(row) == len(first)]


def _heads(cell: str, values: Sequence[str]) -> bool:
    """Whether a cell is no value of its column, which it does not contain.

    The column has few different values, or numbers only, or texts that are all longer.
    """
    values = [value for value in values if value.strip()]
    if not cell or not values:
        return False
    if _holds_labels(values):
        return True
    if all(map(_is_number, values)):
        return not _is_number(cell)
    return _words_of(cell) * 2 <= min(map(_words_of, values))


# Columns


def find_columns(table: TableFile, roles: dict[str, str | None]) -> dict[str, Found]:
    """Return the column of each role: ``"text"``, ``"label"`` or both.

    A column that the user named comes first, then one with a usual name, then one that holds what
    texts or labels look like.

    Args:
        table: the table.
        roles: the name that the user gave for each role, or None.

    Raises:
        UsageError: there is no such column, or no column or several may be meant.
    """
    found: dict[str, Found] = {}
    for role, name in roles.items():
        if name:
            found[role] = Found(_checked_column(table, role, name))
    for role in roles:
        if role not in found and (name := _with_usual_name(table, role)):
            found[role] = Found(name)
    for role in roles:
        if role not in found:
            taken = {of.name for of in found.values()}
            found[role] = Found(_by_content(table, role, taken), by_content=True)
    if len({of.name for of in found.values()}) < len(found):
        raise UsageError(
            "text and label are the same column",
            where=table.path,
            values={"column": found["text"].name},
            hint="choose two columns with --text and --label",
        )
    return found


def _checked_column(table: TableFile, role: str, name: str) -> str:
    if name not in table.columns:
        values = {"columns": ", ".join(table.columns), role: name}
        hint = f"name it with --{role}"
        raise UsageError("there is no such column", where=table.path, values=values, hint=hint)
    return name


def _with_usual_name(table: TableFile, role: str) -> str | None:
    if not table.has_header:
        return None
    lower = {name.strip().lower(): name for name in table.columns}
    return next((lower[name] for name in _NAMES[role] if name in lower), None)


def _by_content(table: TableFile, role: str, taken: set[str]) -> str:
    """Return the one column that holds what a role looks like."""
    values = _sample(table)
    free = [name for name in table.columns if name not in taken]
    candidates = _CANDIDATES[role]({name: values[name] for name in free})
    parts = _PARTS[role]
    if len(candidates) != 1 and table.has_header:
        hinted = [
            name for name in candidates or free if any(part in name.lower() for part in parts)
        ]
        candidates = hinted or candidates
    if len(candidates) == 1:
        return candidates[0]
    shown = {"columns": ", ".join(candidates or table.columns)}
    raise UsageError(
        f"it is unclear which column holds the {role}",
        where=table.path,
        values=shown,
        hint=f"name it with --{role}",
    )


def _sample(table: TableFile) -> dict[str, list[str]]:
    """Return values of each column, without empty ones."""
    columns: dict[str, list[str]] = {name: [] for name in table.columns}
    for record in table.records[:_SAMPLE]:
        if isinstance(record.fields, dict):
            for name, values in columns.items():
                value = _as_text(record.fields.get(name))
                if value:
                    values.append(value)
    return columns


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, bool | int):
        return str(value)
    return ""


def _text_columns(columns: dict[str, list[str]]) -> list[str]:
    """Return the column whose values have clearly the most words, or those that may be meant."""
    words = {}
    for name, values in columns.items():
        is_varied = 2 * len(set(values)) >= len(values) > 0
        words[name] = _mean(map(_words_of, values)) if is_varied else 0
    most = max(words.values(), default=0)
    if most < _LEAST_WORDS:
        return []
    return [name for name, mean in words.items() if mean * _CLEARLY_LONGER > most]


def _label_columns(columns: dict[str, list[str]]) -> list[str]:
    return [name for name, values in columns.items() if _holds_labels(values)]


_CANDIDATES: dict[str, Callable[[dict[str, list[str]]], list[str]]] = {
    "text": _text_columns,
    "label": _label_columns,
}


def _holds_labels(values: Sequence[str]) -> bool:
    """Whether values are few, short and recur, and are neither dates nor counts."""
    different = set(values)
    most = min(_MOST_LABELS, max(2, len(values) // 2))
    if not 2 <= len(different) <= most or len(different) == len(values):
        return False
    if max(map(len, different)) > _LONGEST_LABEL or any(map(_DATE.search, different)):
        return False
    numbers = sum(map(_is_number, different))
    are_whole = all(value.lstrip("+-").isdigit() for value in different if _is_number(value))
    return numbers == 0 or (are_whole and numbers <= _MOST_NUMBERS)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _words_of(text: str) -> int:
    return len(_WORD.findall(_ADDRESS.sub("", text)))


def _mean(numbers: Iterable[int]) -> float:
    values = list(numbers)
    return sum(values) / len(values)
