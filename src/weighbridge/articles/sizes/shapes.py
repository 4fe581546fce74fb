"""Reads sizes from the shapes of modules: printed by PyTorch, in code, or in Chinese prose."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING

from weighbridge.articles.sizes.words import SizeCandidate, WholeNumber, is_plausible
from weighbridge.articles.text import terms

if TYPE_CHECKING:
    from collections.abc import Iterator

_WEIGHT = 3  # less than a name's: the shape of a module may be that of a head
_PRINTED = re.compile(
    r"(?P<module>embedding|linear|conv1d)\(\s*"
    r"(?:num_embeddings\s*=|in_features\s*=|nf\s*=)?\s*(?P<rows>\d+)\s*,\s*"
    r"(?:embedding_dim\s*=|out_features\s*=|nx\s*=)?\s*(?P<columns>\d+)"
)
_IN_BRACKETS = re.compile(
    r"(?:torch\.size|(?:形状|大小|维度)\w{0,3}|(?:shape|size)s?(?: of| is)?)\s?[:=]?\s?"
    r"[\[(（]{1,2}\s*(?P<rows>\d+)\s*[,，×x*]\s*(?P<columns>\d+)\s*[\])）]"
)
_IN_WORDS = re.compile(
    r"输入(?:的)?(?:向量)?(?:维度?)?(?:是|为|[:：])?\s*(?P<rows>\d+)\s*(?:维度?)?"
    r"(?:\s*[,，、;；]?\s*输出(?:的)?(?:向量)?(?:维度?)?(?:是|为|[:：])?\s*(?P<columns>\d+))?"
)
_REPEATED = re.compile(r"\(0-(\d+)\): (\d+) x \w*(?:layer|block)\b")
_LINEAR_FIELDS = {
    Fraction(1): ("hidden_size", "hidden_size"),
    Fraction(4): ("hidden_size", "intermediate_size"),
    Fraction(1, 4): ("intermediate_size", "hidden_size"),
}
"""The fields of a linear layer without a name, by the ratio of its sizes."""
_FEW_TYPES, _MANY_WORDS = 4, 5000  # rows of an embedding without a name: token types, vocabulary
_LONGEST_PATH = 80  # characters between a module's name and its shape


def sizes_in_shapes(lower: str) -> Iterator[SizeCandidate]:
    """Yield the sizes in the shapes of modules, printed, in code or in words."""
    for match in _REPEATED.finditer(lower):
        if int(match[1]) + 1 == int(match[2]):
            yield _candidate_at("num_hidden_layers", match, 2)
    for match in _matches(lower):
        rows, columns = _shape_fields(lower, match)
        if rows:
            yield _candidate_at(rows, match, "rows")
        if columns and match["columns"]:
            yield _candidate_at(columns, match, "columns")


def _matches(lower: str) -> Iterator[re.Match[str]]:
    for pattern in (_PRINTED, _IN_BRACKETS, _IN_WORDS):
        yield from pattern.finditer(lower)


def _candidate_at(field: str, match: re.Match[str], group: int | str) -> SizeCandidate:
    start, end = match.span(group)
    return SizeCandidate(field, WholeNumber(int(match[group]), start, end), _WEIGHT)


def _shape_fields(lower: str, match: re.Match[str]) -> tuple[str, str]:
    """Return the fields of the two dimensions of a module; "" for those that are not known."""
    before = lower[max(0, match.start() - _LONGEST_PATH) : match.start()]
    named = [*_modules_pattern().finditer(before)]
    rows, columns = int(match["rows"]), int(match["columns"] or 0)
    if named:
        fields = _fields_of(_module_kinds()[named[-1][0]], rows, columns)
        if (
            all(fields)
            and is_plausible(fields[0], rows)
            and (not columns or is_plausible(fields[1], columns))
        ):
            return fields
        return "", ""
    module = match.groupdict().get("module")
    if module == "embedding":
        return _field_of_rows(rows), "hidden_size"
    if module == "linear":
        return _LINEAR_FIELDS.get(Fraction(columns, rows or 1), ("", ""))
    return "", ""


def _fields_of(kind: str, rows: int, columns: int) -> tuple[str, str]:
    """Return the fields of a kind of module; a weight may be transposed, an embedding may not."""
    shapes = terms.facts()["shapes"]
    if kind in shapes["embeddings"]:
        first, second = shapes["embeddings"][kind]
        return first, second
    smaller, larger = shapes["weights"][kind]
    if smaller == larger and columns not in (0, rows):
        return "", ""
    if columns and rows > columns:
        return larger, smaller
    return smaller, larger


def _field_of_rows(rows: int) -> str:
    """Return the likely field of the rows of an embedding without a name."""
    if rows <= _FEW_TYPES:
        return "type_vocab_size"
    if rows >= _MANY_WORDS:
        return "vocab_size"
    return "max_position_embeddings"


@cache
def _module_kinds() -> dict[str, str]:
    kinds = {}
    for kind, words in terms.facts()["shapes"]["words"].items():
        kinds.update(dict.fromkeys(words, kind))
    return kinds


@cache
def _modules_pattern() -> re.Pattern[str]:
    words = sorted(_module_kinds(), key=len, reverse=True)
    return re.compile(rf"(?<![a-z])(?:{'|'.join(map(re.escape, words))})(?![a-z])")
