"""Finds the tables of an article, and reads the numbers and formulas in their cells.

A table is written with bars, with tabs, or in columns apart by two blanks or more. The core of an
audit writes the rows of an HTML table with bars.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from weighbridge.algebra.expr import parse
from weighbridge.articles.text import terms
from weighbridge.articles.text.exact import (
    Number,
    UnreadableError,
    constant,
    evaluate_exactly,
    number_of,
)
from weighbridge.articles.text.lines import Stretch
from weighbridge.articles.text.tokens import LONGEST_LINE, MOST_DIGITS, tokens
from weighbridge.errors import WeighbridgeError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from weighbridge.algebra.polynomial import Polynomial
    from weighbridge.articles.text.lines import ArticleLine

MOST_ROWS = 1_000  # of a table; a longer one is data
MOST_CELLS_READ = 30_000  # in all tables; bounds the time
MOST_CELLS = 40  # in a row; a longer one is data, not a table of components
LONGEST_FORMULA_CELL = 200  # characters; a longer cell is prose

COUNT, SHARE, BYTES, OPERATIONS = "count", "share", "bytes", "operations"
"""What a number in a cell counts."""

_HALF_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
_HALF_WIDTH |= {0x3000: 0x20, 0xA0: 0x20, ord("−"): ord("-"), ord("∗"): ord("*"), ord("`"): 0x20}
"""Signs of full width as plain ones; the length of a text stays the same."""

_BYTES = {
    f"{prefix}{middle}b": Fraction(base**power)
    for middle, base in (("", 1000), ("i", 1024))
    for power, prefix in enumerate("kmgt", start=1)
}
_OPERATIONS = {
    f"{prefix}{name}": Fraction(1000**power)
    for name in ("flops", "flop", "macs", "mac")
    for power, prefix in enumerate(("", "k", "m", "g", "t", "p"))
}
_WIDE_UNITS = "百万|千万|十亿|亿|万|千"
_UNITS = (
    f"{_WIDE_UNITS}|[kmgtKMGT]i?[bB](?![a-z])|[KMGTPkmgtp]?(?:FLOPs?|FLOPS|MACs?)"
    "|thousand|million|billion|mn|bn|[kKmMbB]|[%‰]"
)
_DIGITS = r"\d{1,3}(?:[,\u2009\u202f_']\d{3})+(?!\d)|\d+"
_EXPONENT = r"[eE][+-]?\d{1,2}(?!\w)"
_NUMBER = re.compile(
    rf"(?P<digits>{_DIGITS})(?P<decimals>\.\d+)?(?P<power>{_EXPONENT})?"
    rf"(?:[ ]?(?P<unit>{_UNITS})(?![A-Za-z0-9]))?"
)
_ONE_NUMBER = rf"(?:{_DIGITS})(?:\.\d+)?(?:{_EXPONENT})?(?:[ ]?(?:{_UNITS})(?![A-Za-z0-9]))?"
_SPACED_GROUPS = re.compile(r"\d{1,3}(?: \d{3})+")
_MARKS = " *_$"
_NOTHING = frozenset(
    ("", "-", "--", "---", "—", "–", "——", "/", "n/a", "none", "无", "…", "...", "\\")
)
_ABOUT = r"(?P<about>[~≈∼<＜>约]|about|approx\.?|大约|约为|近)?"
_NAMED = (
    r"(?:params?|parameters?|weights?|elements|layers?|blocks?|heads?|tensors?|matrices|times"
    r"|个参数|参数|个|层|次|头|份|块|组)?"
)
_TIMES = r"[×xX*·]"
_COUNT_CELL = re.compile(
    rf"\s*{_ABOUT}\s*(?:{_TIMES}\s*)?(?P<number>{_ONE_NUMBER})\s*"
    rf"(?:{_TIMES}\s*(?=$|[A-Za-z{terms.WIDE}]))?{_NAMED}\s*(?P<remark>[(\[].*[)\]])?\s*",
    re.IGNORECASE,
)
_SHAPE = re.compile(r"(?:torch\.)?(?:Size)?\s*[(\[]+\s*(\d+\s*(?:[,×x*]\s*\d+\s*)*),?\s*[)\]]+")
_SCALE = re.compile(
    rf"(?:^|[(\[/])\s*(?:in\s+|单位[:：]?\s*)?(?P<unit>{_UNITS})\s*(?:[)\]]|$)", re.IGNORECASE
)
_RULE = re.compile(r"^[\s|:+=_*─━═┼┿╪│┃├┤┝┥╞╡┌┐└┘┬┴┏┓┗┛┳┻╇╈╋-]{2,}$")
_BETWEEN = {"|": re.compile(r"[|│┃]"), "\t": re.compile(r"\t+"), " ": re.compile(r" {2,}|\u3000+")}


class CellNumber(NamedTuple):
    """A number in a cell: where it stands, its value, and the value of one unit of its last digit.

    ``kind`` says what it counts. ``sign`` is a word or sign before it, such as ``≈``.
    """

    at: Stretch
    number: Number
    kind: str
    sign: str = ""

    @property
    def value(self) -> Fraction:
        """The value as written."""
        return self.number.value


class TableCell(NamedTuple):
    """A cell: its text and what was read in it.

    ``main`` is its number, and ``others`` the numbers in brackets behind it. ``formula`` is the
    text of a calculation, and ``is_shape`` tells whether this may be the shape of a tensor.
    """

    at: Stretch
    text: str
    main: CellNumber | None = None
    others: tuple[CellNumber, ...] = ()
    formula: str = ""
    is_shape: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether the cell holds nothing."""
        return self.text.lower() in _NOTHING

    @property
    def is_text(self) -> bool:
        """Whether the cell holds words only."""
        return not (self.is_empty or self.main or self.formula)


class ArticleRow(NamedTuple):
    """A row: its line, and its cells."""

    line: int
    cells: tuple[TableCell, ...]

    @property
    def label(self) -> str:
        """The words of the row."""
        return " ".join(cell.text for cell in self.cells if cell.is_text)


class ArticleTable(NamedTuple):
    """A table: the titles of its columns, if it has any, and its rows.

    ``columns`` are the places of the columns, if the cells stand apart by blanks. ``line`` is the
    first line.
    """

    titles: tuple[str, ...]
    rows: tuple[ArticleRow, ...]
    columns: tuple[Stretch, ...] = ()
    line: int = 0

    def title(self, column: int) -> str:
        """Return the title of a column, in lower case; "" if it has none."""
        if column < len(self.titles):
            return self.titles[column].lower()
        return ""


# Tables


def find_tables(lines: Sequence[ArticleLine]) -> Iterator[ArticleTable]:
    """Yield the tables of an article; one that is too long to check has no rows.

    Example:
        >>> from weighbridge.articles.text.lines import ArticleLine
        >>> text = "| part | parameters |;|---|---|;| pooler | 590,592 |;| sum | 590,592 |"
        >>> lines = [ArticleLine(n, line) for n, line in enumerate(text.split(";"), 1)]
        >>> table = next(find_tables(lines))
        >>> table.titles, [row.cells[1].main.value for row in table.rows]
        (('part', 'parameters'), [Fraction(590592, 1), Fraction(590592, 1)])
    """
    most = MOST_CELLS_READ
    for block in _blocks(lines):
        most -= sum(len(_BETWEEN[separator].findall(line.text)) + 1 for line, separator in block)
        if len(block) > MOST_ROWS or most < 0:
            yield ArticleTable((), (), line=block[0][0].number)
            continue
        rows = []
        for line, separator in block:
            first, *others = _row_cells(line, separator)
            rows.append(ArticleRow(line.number, (_as_label(first), *others)))
        table = _with_titles(rows)
        if table and block[0][1] == " ":
            widest = max(rows, key=lambda row: len(row.cells))
            table = table._replace(columns=tuple(cell.at for cell in widest.cells))
        if table:
            yield table


def _blocks(lines: Sequence[ArticleLine]) -> Iterator[list[tuple[ArticleLine, str]]]:
    """Yield the lines that may be a table, each with the sign between its cells."""
    block: list[tuple[ArticleLine, str]] = []
    blanks = 0
    for line in lines:
        if _RULE.match(line.text) or not line.text.strip():
            blanks += not line.text.strip()
            continue
        separator = _separator(line.text)
        if block and not _goes_on(block, separator, line.text, blanks):
            yield from _long_enough(block)
            block = []
        if separator:
            block.append((line, separator))
        blanks = 0
    yield from _long_enough(block)


def _long_enough(
    block: list[tuple[ArticleLine, str]],
) -> Iterator[list[tuple[ArticleLine, str]]]:
    if len(block) > 1:
        yield block


def _goes_on(block: list[tuple[ArticleLine, str]], separator: str, text: str, blanks: int) -> bool:
    """Return whether a line belongs to the table above it.

    A blank line may stand for the rule below the titles, whose signs are markup.
    """
    if separator != block[0][1] or blanks > 1:
        return False
    if not blanks or len(block) == 1:
        return True
    widths = [len(_BETWEEN[separator].split(row.strip(" |"))) for row in (block[-1][0].text, text)]
    return separator != "|" and widths[0] == widths[1]


def _separator(text: str) -> str:
    """Return the sign between the cells of a line; "" if it is no row of a table."""
    if len(text) > LONGEST_LINE:
        return ""
    stripped = text.strip()
    for separator, between in _BETWEEN.items():
        inside = stripped
        if separator == "|":
            inside = stripped.strip("|│┃ ")
            if inside != stripped and not between.search(inside) and stripped.count("|") == 2:
                return separator  # a row with one cell
        if between.search(inside) and len(between.split(inside)) <= MOST_CELLS:
            return separator
    return ""


def _row_cells(line: ArticleLine, separator: str) -> tuple[TableCell, ...]:
    """Return the cells of a row."""
    text, start, end = line.text, 0, len(line.text)
    if separator == "|":
        start = len(text) - len(text.lstrip())
        end = len(text.rstrip())
        start += text[start : start + 1] in ("|", "│", "┃")
        end -= text[end - 1 : end] in ("|", "│", "┃")
    elif separator == " ":
        start = len(text) - len(text.lstrip())
        end = len(text.rstrip())
    cells = []
    for match in _BETWEEN[separator].finditer(text, start, end):
        cells.append(read_cell(text, Stretch(line.number, start, match.start())))
        start = match.end()
    cells.append(read_cell(text, Stretch(line.number, start, end)))
    return tuple(cells)


def _as_label(cell: TableCell) -> TableCell:
    """Return the first cell of a row as words, if it has any: "12 blocks" is a name there."""
    if cell.main and not cell.formula and cell.main.number.text != cell.text:
        return TableCell(cell.at, cell.text)
    return cell


def _with_titles(rows: list[ArticleRow]) -> ArticleTable | None:
    """Return a table of rows, of which the first may hold titles; None if it has no numbers."""
    if not any(cell.main for row in rows for cell in row.cells):
        return None
    titles: tuple[str, ...] = ()
    first = rows[0]
    if not any(cell.main or cell.formula for cell in first.cells) or _are_titles(first):
        titles, rows = tuple(cell.text for cell in first.cells), rows[1:]
    if not rows:
        return None
    return ArticleTable(titles, _in_units(titles, rows), line=first.line)


def _are_titles(row: ArticleRow) -> bool:
    """Return whether a row with numbers holds titles: "per layer", "× 12 layers", "total"."""
    texts = [cell.text for cell in row.cells if cell.is_text]
    numbers = [cell for cell in row.cells if cell.main and cell.main.number.text == cell.text]
    return (
        not numbers
        and len(texts) > 1
        and any(names_one(texts[-1], kind) for kind in ("counts", "shares", "numbers"))
    )


def _in_units(titles: Sequence[str], rows: Sequence[ArticleRow]) -> tuple[ArticleRow, ...]:
    """Return rows with their numbers in the units of their columns' titles."""
    scaled_rows = list(rows)
    for column, title in enumerate(titles):
        unit = _SCALE.search(title.translate(_HALF_WIDTH))
        is_share = names_one(title, "shares")
        if not unit and not is_share:
            continue
        scale, kind = scale_of(unit["unit"]) if unit else (Fraction(1, 100), SHARE)
        if kind == SHARE and not is_share and "%" not in title:
            continue
        for position, row in enumerate(scaled_rows):
            if column < len(row.cells):
                scaled = _scaled(row.cells[column], scale, kind)
                cells = (*row.cells[:column], scaled, *row.cells[column + 1 :])
                scaled_rows[position] = row._replace(cells=cells)
    return tuple(scaled_rows)


def _scaled(cell: TableCell, scale: Fraction, kind: str) -> TableCell:
    """Return a cell with its number in a unit, unless it names one itself or is a fraction of 1."""
    main = cell.main
    if main is None or main.number.rounded:
        return cell
    if kind == SHARE and main.value <= 1 and main.number.place < Fraction(1, 100):
        return cell._replace(main=main._replace(kind=SHARE))
    number = main.number
    number = Number(number.value * scale, number.text, number.place * scale, rounded=True)
    return cell._replace(main=main._replace(number=number, kind=kind))


def aligned(table: ArticleTable, width: int) -> list[tuple[TableCell, ...]]:
    """Return the cells of each row under the columns of a table, with empty ones added.

    Cells are missing where some were merged, or where there are blanks for an empty one.
    """
    rows = []
    for row in table.rows:
        missing = width - len(row.cells)
        if not missing:
            rows.append(row.cells)
            continue
        empty = TableCell(Stretch(row.line, 0, 0), "")
        if not table.columns:
            rows.append((row.cells[0], *[empty] * missing, *row.cells[1:]))
            continue
        placed = [empty] * width
        for cell in row.cells:
            placed[_column_at(cell.at, table.columns)] = cell
        rows.append(tuple(placed))
    return rows


def _column_at(at: Stretch, columns: Sequence[Stretch]) -> int:
    """Return the column whose left or right edge is nearest to that of a cell."""
    apart = [min(abs(at.start - place.start), abs(at.end - place.end)) for place in columns]
    return apart.index(min(apart))


# Cells


def table_words() -> dict[str, dict[str, list[str]]]:
    """Return the words of tables."""
    from weighbridge import data  # noqa: PLC0415

    return data.read_toml("facts/table_terms.toml")


@lru_cache(maxsize=4096)
def names_one(text: str, kind: str) -> bool:
    """Return whether a text has one of the words of a kind.

    Example:
        >>> names_one("Total parameters", "sums"), names_one("其中：词嵌入", "parts")
        (True, True)
    """
    return bool(text) and terms.mentions(text, table_words()[kind]["words"])


def scale_of(unit: str) -> tuple[Fraction, str]:
    """Return the value of a unit, and what it counts.

    Example:
        >>> scale_of("万"), scale_of("MiB")
        ((Fraction(10000, 1), 'count'), (Fraction(1048576, 1), 'bytes'))
    """
    name = unit.lower()
    if name == "%":
        return Fraction(1, 100), SHARE
    if name in _BYTES:
        return _BYTES[name], BYTES
    if name in _OPERATIONS:
        return _OPERATIONS[name], OPERATIONS
    return Fraction(terms.facts()["units"].get(name, 1)), COUNT


def read_cell(line: str, at: Stretch) -> TableCell:
    """Return what a cell holds, which stands at a stretch of a line.

    Example:
        >>> cell = read_cell("23,440,896 (21.4%)", Stretch(1, 0, 18))
        >>> cell.main.value, [other.number.text for other in cell.others]
        (Fraction(23440896, 1), ['21.4%'])
        >>> read_cell("30522 × 768", Stretch(1, 0, 11)).formula
        '30522 × 768'
    """
    raw = line[at.start : at.end].translate(_HALF_WIDTH)
    blank = len(raw) - len(raw.lstrip(_MARKS))
    text = raw.strip(_MARKS)
    start = at.start + blank
    inner = Stretch(at.line, start, start + len(text))
    cell = TableCell(inner, text)
    if cell.is_empty or len(text) > LONGEST_FORMULA_CELL or not any(map(str.isdigit, text)):
        if _is_formula(text):
            return cell._replace(formula=text)
        return cell
    if _SPACED_GROUPS.fullmatch(text):
        return cell._replace(main=plain_number(text.replace(" ", ""), inner, text))
    shape = _SHAPE.fullmatch(text)
    if shape:
        return cell._replace(formula=text, is_shape=True)
    counted = _COUNT_CELL.fullmatch(text)
    if counted:
        return _counted(cell, counted)
    return _calculated(cell)


def _counted(cell: TableCell, counted: re.Match[str]) -> TableCell:
    """Return a cell with one number, and perhaps others in brackets behind it."""
    main = _number_at(cell, counted.start("number"), (counted["about"] or "").strip())
    others: list[CellNumber] = []
    if counted["remark"]:
        for match in _NUMBER.finditer(cell.text, counted.start("remark")):
            other = _number_at(cell, match.start())
            if other:
                others.append(other)
    return cell._replace(main=main, others=tuple(others))


def _calculated(cell: TableCell) -> TableCell:
    """Return a cell with a calculation: "a × b", or "a × b = c"."""
    before, equal, after = cell.text.rpartition("=")
    main = None
    if equal:
        result = _COUNT_CELL.fullmatch(after)
        if result is None:
            return cell
        offset = len(before) + 1
        main = _number_at(cell, offset + result.start("number"), result["about"] or "")
        before = before.rpartition("=")[2]
    formula = before
    if not equal:
        formula = cell.text
    if not _is_formula(formula):
        return cell
    factors = re.sub(r"[\d,\s]", "", formula)
    return cell._replace(formula=formula.strip(), main=main, is_shape=factors in ("×", "x", "*"))


def _number_at(cell: TableCell, position: int, sign: str = "") -> CellNumber | None:
    """Return the number that begins at a position of a cell's text."""
    match = _NUMBER.match(cell.text, position)
    if match is None or sum(map(str.isdigit, match[0])) > MOST_DIGITS:
        return None
    scale, kind = scale_of(match["unit"] or "")
    digits = re.sub(r"\D", "", match["digits"])
    decimals = match["decimals"] or ""
    scale *= Fraction(10) ** int((match["power"] or "e0")[1:])
    zeros = 0
    if not decimals:
        zeros = len(digits) - len(digits.rstrip("0")) if digits.strip("0") else 0
    place = scale * Fraction(10) ** (zeros - max(0, len(decimals) - 1))
    is_rounded = bool(match["unit"] or match["power"] or sign)
    number = Number(Fraction(digits + decimals) * scale, match[0].strip(), place, is_rounded)
    start = cell.at.start + position
    at = Stretch(cell.at.line, start, start + len(match[0].rstrip()))
    return CellNumber(at, number, kind, sign)


def plain_number(digits: str, at: Stretch, text: str = "") -> CellNumber:
    """Return a count of digits only."""
    return CellNumber(at, Number(Fraction(digits), text or digits, Fraction(1)), COUNT)


# Formulas

_FORMULA = re.compile(r"[A-Za-z0-9_\s.,()+*/×·⋅^²³=-]+")
_OPERATOR = re.compile(r"[+*/×·⋅^²³xX]|[A-Za-z0-9]\s*\(|\d[A-Za-z]")
_LONGEST_LETTER = 2  # characters of a name in a formula, unless it is a known one: H, d_ff, hidden


def _is_formula(text: str) -> bool:
    """Return whether a text is a calculation of numbers and letters of sizes."""
    if not (_FORMULA.fullmatch(text) and _OPERATOR.search(text)):
        return False
    names = re.findall(r"[A-Za-z_][A-Za-z0-9_]*", text)
    for name in names:
        if len(name) > _LONGEST_LETTER and "_" not in name and not terms.config_field_of(name):
            return False
    return bool(names) or bool(re.search(r"\d", text))


def calculated_value(cell: TableCell, sizes: Mapping[str, int]) -> Fraction | None:
    """Return the value of the formula of a cell; None if a letter in it has none.

    Example:
        >>> cell = read_cell("V*H + 2H", Stretch(1, 0, 8))
        >>> calculated_value(cell, {"vocab_size": 100, "hidden_size": 3})
        Fraction(306, 1)
    """
    dims = shape_dims(cell)
    if dims:
        value = Fraction(1)
        for dim in dims:
            value *= dim
        return value

    def letter(name: str) -> Polynomial:
        size = sizes.get(terms.config_field_of(name) or "")
        if size is None:
            raise UnreadableError("unknown", name)
        return constant(size)

    try:
        tree = parse(_source(cell.formula))
        return number_of(evaluate_exactly(tree, letter, constant))  # type: ignore[arg-type]
    except (UnreadableError, WeighbridgeError):
        return None


def shape_dims(cell: TableCell) -> tuple[int, ...]:
    """Return the sizes of the shape in a cell; () if it is not written in brackets."""
    shape = _SHAPE.fullmatch(cell.formula)
    if shape is None:
        return ()
    return tuple(int(dim) for dim in re.findall(r"\d+", shape[1]))[:8]


def has_letters(cell: TableCell) -> bool:
    """Return whether the formula of a cell has letters, whose values others must know."""
    return bool(re.search(r"[^\W\dxX_]", re.sub(r"torch\.|Size", "", cell.formula)))


def numbers_within(line: str, at: Stretch) -> Iterator[CellNumber]:
    """Yield the numbers of a stretch of a line.

    Example:
        >>> text = "Total params: 2,774,542 (10.58 MB)"
        >>> [number.number.text for number in numbers_within(text, Stretch(1, 14, len(text)))]
        ['2,774,542', '10.58 MB']
    """
    cell = TableCell(at, line[at.start : at.end])
    for match in _NUMBER.finditer(cell.text):
        number = _number_at(cell, match.start())
        if number:
            yield number


_POWER = re.compile(r"\^\s*\(?\s*$")


def operands(cell: TableCell) -> Iterator[CellNumber]:
    """Yield the numbers in the formula of a cell, without exponents."""
    for match in _NUMBER.finditer(cell.text):
        number = _number_at(cell, match.start())
        if number and not _POWER.search(cell.text[: match.start()]):
            yield number


def _source(formula: str) -> str:
    """Return a formula as the source of an expression: a sign for each multiplication."""
    pieces: list[str] = []
    for token in tokens(formula, 0):
        if token.kind not in ("number", "name", "op", "open", "close") or (
            token.number and token.number.rounded
        ):
            raise UnreadableError("sign", token.text)
        is_start = token.kind in ("number", "name", "open")
        if is_start and pieces and (pieces[-1] == ")" or pieces[-1][-1].isalnum()):
            pieces.append("*")
        pieces.append(_piece(token.kind, token.text, token.number))
    return " ".join(pieces)


def _piece(kind: str, text: str, number: Number | None) -> str:
    if number is not None:
        if number.value.denominator != 1:
            raise UnreadableError("not_read")
        return str(number.value)
    if kind == "open":
        return "("
    if kind == "close":
        return ")"
    return "**" if text == "^" else text


_TIMES_IN_LABEL = re.compile(
    r"[×xX*]\s*(\d{1,3})(?![\d,.])|(?<![\d,.])(\d{1,3})\s*(?:[×xX*]|layers\b|blocks\b|层|个)"
)


def times_in(label: str) -> int:
    """Return how often a label says that its row counts; 0 if it does not say.

    Example:
        >>> times_in("Encoder layer × 12"), times_in("12 层"), times_in("Layer 1")
        (12, 12, 0)
    """
    match = _TIMES_IN_LABEL.search(label)
    if match is None:
        return 0
    return int(match[1] or match[2])


def split_factors(formula: str) -> list[str]:
    """Return the factors of a product: ``768 × 3,072`` has two."""
    return re.split(r"[×xX*·⋅]", formula)


def without_commas(text: str) -> str:
    """Return a number without the signs between its groups."""
    return text.replace(",", "").strip()
