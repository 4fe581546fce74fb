"""The summary of a scan: what a fleet consists of, and what in it needs a look."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge import data, units
from weighbridge.answers.answer import Answer
from weighbridge.errors import UsageError, printable
from weighbridge.fleet.store import FleetTable
from weighbridge.readers.paths import paths_in_brief
from weighbridge.render.document import Aside, Document, Notes, Title, Together
from weighbridge.render.table import Table
from weighbridge.render.words import words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from weighbridge.render.document import Block

MOST_SHOWN = 10
_MOST_IN_JSON = 1000
_LONGEST_PATH = 50  # columns

# Models: checkpoints whose parameters are a model's own.
_OF_MODELS = "status = 'ok' AND kind NOT IN ('state', 'adapter')"
_WEIGHT = "count(*)::BIGINT, sum(parameters)::BIGINT, sum(bytes)::BIGINT"
_GROUPED = (
    f"SELECT {{group}}, {_WEIGHT} FROM checkpoints LEFT JOIN layouts USING (layout) "
    f"WHERE {_OF_MODELS} GROUP BY 1 ORDER BY {{order}}"
)
_FAMILY = "coalesce(layouts.family, '')"
_SIZE = (
    "CASE WHEN parameters IS NULL THEN 7 WHEN parameters < 1e8 THEN 0 WHEN parameters < 1e9 THEN 1 "
    "WHEN parameters < 4e9 THEN 2 WHEN parameters < 1e10 THEN 3 WHEN parameters < 4e10 THEN 4 "
    "WHEN parameters < 1e11 THEN 5 ELSE 6 END"
)
_AGE = (
    "CASE WHEN mtime IS NULL THEN 4 ELSE (scanned_at - mtime >= INTERVAL 30 DAY)::INT + "
    "(scanned_at - mtime >= INTERVAL 90 DAY)::INT + "
    "(scanned_at - mtime >= INTERVAL 365 DAY)::INT END"
)
SIZES = ("<100M", "100M–1B", "1B–4B", "4B–10B", "10B–40B", "40B–100B", "≥100B", "unknown")
AGES = ("days_30", "days_90", "days_365", "older", "unknown")

_DTYPES = (
    "SELECT entry.key, sum(entry.value.tensors)::BIGINT, sum(entry.value.parameters)::BIGINT, "
    "sum(entry.value.bytes)::BIGINT FROM (SELECT unnest(map_entries(dtypes)) AS entry "
    f"FROM checkpoints WHERE {_OF_MODELS}) GROUP BY 1 ORDER BY 4 DESC, 1"
)
_TOTALS = (
    "SELECT count(*)::BIGINT, count(DISTINCT folder)::BIGINT, "
    "coalesce(sum(file_bytes), 0)::BIGINT, "
    f"coalesce(sum(parameters) FILTER ({_OF_MODELS}), 0)::BIGINT, "
    "count(DISTINCT layout)::BIGINT FROM checkpoints"
)
# Files with several names (hard links, the snapshots of the Hub's cache) take their space once.
_ON_DISK = (
    "SELECT sum(allocated)::BIGINT FROM (SELECT entry.key, max(entry.value) AS allocated FROM "
    "(SELECT unnest(map_entries(inode)) AS entry FROM checkpoints) GROUP BY entry.key)"
)
_LARGEST = (
    "SELECT path, coalesce(layouts.family, model_type, ''), parameters, file_bytes "
    "FROM checkpoints LEFT JOIN layouts USING (layout) ORDER BY file_bytes DESC, path"
)
# Equal names, shapes and dtypes in files that are not the same file. The values may still differ.
_COPIES = (
    "SELECT min(path), count(*)::BIGINT, max(bytes)::BIGINT, ((count(*) - 1) * max(bytes))::BIGINT "
    "FROM (SELECT DISTINCT ON (coalesce(map_keys(inode)::VARCHAR, path)) * FROM checkpoints "
    f"WHERE {_OF_MODELS} AND bytes > 0 ORDER BY path) GROUP BY signature HAVING count(*) > 1 "
    "ORDER BY 4 DESC, 1"
)
_BROKEN = (
    "SELECT coalesce(rule, ''), status, count(*)::BIGINT, min(path) FROM checkpoints "
    "WHERE status <> 'ok' GROUP BY 1, 2 ORDER BY 3 DESC, 1"
)
_DISAGREEING = (
    "SELECT path, coalesce(architectures[1], model_type, ''), parameters, config_parameters "
    "FROM checkpoints WHERE agrees = false ORDER BY abs(parameters - config_parameters) DESC, path"
)
_UNCHECKED = (
    "SELECT count(*) FILTER (agrees), count(*) FILTER (NOT agrees), "
    f"count(*) FILTER (agrees IS NULL) FROM checkpoints WHERE {_OF_MODELS}"
)


class Totals(NamedTuple):
    """The totals of a fleet; ``disk_bytes`` counts a file with several names once."""

    checkpoints: int
    folders: int
    file_bytes: int
    parameters: int
    layouts: int
    disk_bytes: int | None


def summarize(folder: str | os.PathLike[str]) -> Summary:
    """Return the summary of a scan's result.

    Raises:
        UsageError: there is no such result, or a package is missing.
    """
    table = FleetTable(folder)
    if not table.parts:
        hint = "give the folder that `weighbridge scan PATHS -o FOLDER` has written"
        raise UsageError("this is not the result of a scan", where=os.fspath(folder), hint=hint)
    return Summary(table)


class Summary(Answer):
    """What `summarize` returns."""

    def __init__(self, table: FleetTable) -> None:
        self.path = os.fspath(table.folder)
        connection = table.connection()

        def ask(query: str) -> list[tuple[Any, ...]]:
            rows: list[tuple[Any, ...]] = connection.execute(query).fetchall()
            return rows

        self.totals = Totals._make((*ask(_TOTALS)[0], *ask(_ON_DISK)[0]))
        by_bytes = "sum(bytes) DESC, 1"
        self.by = {
            "family": ask(_GROUPED.format(group=_FAMILY, order=by_bytes)),
            "size": _with_names(ask(_GROUPED.format(group=_SIZE, order="1")), SIZES),
            "dtype": ask(_DTYPES),
            "packing": ask(_GROUPED.format(group="coalesce(packing, '')", order=by_bytes)),
            "age": _with_names(ask(_GROUPED.format(group=_AGE, order="1")), AGES),
            "kind": ask(f"SELECT kind, {_WEIGHT} FROM checkpoints GROUP BY 1 ORDER BY 2 DESC, 1"),
        }
        self.largest = ask(f"{_LARGEST} LIMIT {_MOST_IN_JSON}")
        self.copies = ask(_COPIES)
        self.broken = ask(_BROKEN)
        self.disagreeing = ask(_DISAGREEING)
        self.agreeing, self.differing, self.not_compared = ask(_UNCHECKED)[0]

    def to_dict(self) -> dict[str, Any]:
        """Return everything, ready for JSON; of the largest, at most a thousand."""
        weights = ("count", "parameters", "bytes")
        return {
            "path": self.path,
            **self.totals._asdict(),
            "by": {name: _dicts((name, *weights), rows) for name, rows in self.by.items()},
            "largest": _dicts(("path", "family", "parameters", "file_bytes"), self.largest),
            "copies": _dicts(("path", "count", "bytes", "repeated_bytes"), self.copies),
            "broken": _dicts(("rule", "status", "count", "example"), self.broken),
            "agreement": {
                "agree": self.agreeing,
                "differ": self.differing,
                "not_compared": self.not_compared,
            },
            "disagreeing": _dicts(
                ("path", "class", "parameters", "config_parameters"), self.disagreeing
            ),
        }

    def document(self, lang: str = "en") -> Document:
        """Return the summary: a table for each grouping with shares, then what needs a look."""
        texts = summary_words(lang)
        totals = self.totals
        heading = texts["summary"].format(
            path=printable(self.path), count=units.count(totals.checkpoints)
        )
        notes = [texts["totals"].format(**_shown_totals(totals))]
        if totals.disk_bytes is not None:
            notes.append(texts["disk"].format(size=units.size(totals.disk_bytes)))
        blocks: list[Block] = [Together((Title(heading), Notes(tuple(notes))))]
        for name in ("family", "size", "dtype", "packing", "age", "kind"):
            blocks += [_group_table(name, self.by[name], texts)] if self.by[name] else []
        blocks += self._lists(texts)
        return Document(tuple(blocks), lang)

    def _lists(self, texts: Mapping[str, str]) -> Iterator[Block]:
        """Yield the lists of what needs a look, each with a heading and its first entries."""
        columns: tuple[str, ...] = ("path", "family", "parameters", "size")
        rows: list[tuple[str, ...]] = []
        for path, family, parameters, size in self.largest[:MOST_SHOWN]:
            rows.append((path, printable(family), _count_or_blank(parameters), units.size(size)))
        yield _list("largest", columns, rows, len(rows), texts)
        rows = []
        for path, count, _, repeated in self.copies[:MOST_SHOWN]:
            rows.append((path, units.count(count), units.size(repeated)))
        columns = ("first", "copies", "repeated")
        yield _list("copies_title", columns, rows, len(self.copies), texts)
        rows = []
        for rule, status, count, path in self.broken[:MOST_SHOWN]:
            rows.append((path, rule, texts[status], units.count(count)))
        columns = ("example", "rule", "status", "checkpoints")
        yield _list("broken", columns, rows, len(self.broken), texts)
        rows = []
        for path, name, found, expected in self.disagreeing[:MOST_SHOWN]:
            rows.append((path, printable(name), _count_or_blank(found), _count_or_blank(expected)))
        columns = ("path", "class", "parameters", "of_config")
        block = _list("disagreeing", columns, rows, len(self.disagreeing), texts)
        yield block
        numbers = {"agree": self.agreeing, "differ": self.differing, "open": self.not_compared}
        counts = {name: units.count(number) for name, number in numbers.items()}
        yield Notes((Aside(texts["agreement"].format(**counts)),))


def _with_names(rows: Sequence[tuple[Any, ...]], names: Sequence[str]) -> list[tuple[Any, ...]]:
    return [(names[place], *rest) for place, *rest in rows]


def _dicts(columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> list[dict[str, Any]]:
    return [dict(zip(columns, row, strict=True)) for row in rows]


def _count_or_blank(number: int | None) -> str:
    return "" if number is None else units.count(number)


def _shown_totals(totals: Totals) -> dict[str, str]:
    shown = {name: units.count(number or 0) for name, number in totals._asdict().items()}
    return {**shown, "size": units.size(totals.file_bytes)}


def _group_table(name: str, groups: Sequence[tuple[Any, ...]], texts: Mapping[str, str]) -> Table:
    """Return a table of groups with their shares of the bytes, which a terminal draws as bars."""
    whole = sum(size or 0 for *_, size in groups)
    rows, shares = [], []
    for key, count, parameters, size in _with_rest(groups, texts):
        shown = texts.get(f"{name}_{key}", printable(key) or texts.get(f"no_{name}", ""))
        numbers = (units.count(count), _count_or_blank(parameters), units.size(size or 0))
        rows.append((shown, *numbers, units.share(size or 0, whole)))
        shares.append(units.fraction(size or 0, whole))
    counted = "tensors" if name == "dtype" else "checkpoints"
    header = (f"by_{name}", counted, "parameters", "size", "share")
    return Table(
        tuple(texts[column] for column in header), tuple(rows), "<>>>>", 0, tuple(shares), 4
    )


def _with_rest(
    groups: Sequence[tuple[Any, ...]], texts: Mapping[str, str]
) -> list[tuple[Any, ...]]:
    """Return the first groups, and one for the others."""
    rest = groups[MOST_SHOWN:]
    if not rest:
        return list(groups)
    sums = [0, 0, 0]
    for _, *numbers in rest:
        sums = [sum_ + (number or 0) for sum_, number in zip(sums, numbers, strict=True)]
    return [*groups[:MOST_SHOWN], (texts["others"].format(count=units.count(len(rest))), *sums)]


def _list(
    name: str,
    columns: Sequence[str],
    rows: Sequence[tuple[str, ...]],
    count: int,
    texts: Mapping[str, str],
) -> Block:
    """Return a list with its heading; paths are cut at the left, where they are alike."""
    title = Title(texts[name].format(count=units.count(count), shown=units.count(len(rows))))
    if not rows:
        return Together((title, Notes((texts["none"],))))
    paths = paths_in_brief([path for path, *_ in rows])
    shown = []
    for path, (_, *rest) in zip(paths, rows, strict=True):
        shown.append((_cut(printable(path)), *rest))
    align = "<" + "".join("<" if column in _LEFT else ">" for column in columns[1:])
    return Together((title, Table(tuple(texts[column] for column in columns), tuple(shown), align)))


_LEFT = {"family", "rule", "status", "class"}


def _cut(path: str) -> str:
    return path if len(path) <= _LONGEST_PATH else "…" + path[1 - _LONGEST_PATH :]


def summary_words(lang: str) -> dict[str, str]:
    """Return the words of a summary in a language, including those of all tables."""
    return {**words(lang), **data.read_toml(f"words/scan.{lang}.toml")}
