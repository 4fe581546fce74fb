"""Formulas as code that runs without weighbridge: Python functions, an SQL query."""

from __future__ import annotations

import keyword
import re
from typing import TYPE_CHECKING, Any

from weighbridge.algebra.codegen import SQL_WORDS, code, identifiers, is_portable, python_literal
from weighbridge.algebra.expr import SOURCE, evaluate, is_number, source
from weighbridge.render.table import CODE, COLUMNS, lines_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from weighbridge.algebra.expr import Tree
    from weighbridge.algebra.polynomial import Polynomial
    from weighbridge.ledger.lettering import Lettering

    Formulas = Mapping[str, Polynomial]


def _fields(formulas: Formulas) -> list[str]:
    return sorted({name for formula in formulas.values() for name in formula.fields()})


# Python


def python(written: Lettering, formulas: Formulas, groups: Formulas, by: str) -> str:
    """Write a function for each formula, and one that returns a dict of the groups, if any.

    The arguments are the numbers of the config, with their values as defaults; other values are
    constants.

    Example:
        >>> from weighbridge.ledger.lettering import Lettering
        >>> from weighbridge.answers.weigh import weigh
        >>> ledger, found = weigh("bert-base-chinese").ledger, {}
        >>> exec(python(Lettering(ledger), {"parameters": ledger.formula()}, {}, "total"), found)
        >>> found["parameters"](), found["parameters"](vocab_size=30522)
        (102267648, 109482240)
    """
    fields, every = (
        written.ledger.fields,
        {**formulas, **{f"{by} {name}": of for name, of in groups.items()}},
    )
    named = {name: written.named(formula) for name, formula in every.items()}
    inside = {
        index
        for tree in written.parts.values()
        for index in re.findall(r" for (\w+) in ", source(tree))
    }
    own = identifiers(
        _fields(every),
        {*keyword.kwlist, *SOURCE, *inside, *written.parts, *formulas, by, "range", "math"},
    )
    writer = _Python(written, own)
    made = [writer.function(name, {name: named[name]}, formulas) for name in formulas]
    if groups:
        made.insert(
            0, writer.function(by, {name: named[f"{by} {name}"] for name in groups}, groups)
        )
    constants = [
        f"{own[name]} = {_listed(fields[name])}" for name in own if not is_number(fields[name])
    ]
    head = ["import math"] * any("math." in function for function in made) + constants
    return "\n\n\n".join(["\n".join(head)] * bool(head) + made)


class _Python:
    """Writes Python functions from lettered formulas, with an identifier for each config field."""

    def __init__(self, written: Lettering, own: Mapping[str, str]) -> None:
        self.written, self.own = written, own

    def function(self, name: str, named: Formulas, formulas: Formulas) -> str:
        used = {field for formula in named.values() for field in formula.fields()}
        sizes = [
            f"    {self.own[size.field]}={size.value!r},"
            for size in self.written.sizes(formulas.values())
        ]
        head = "\n".join([f"def {name}(", *sizes, "):"]) if sizes else f"def {name}():"
        parts = [
            f"    {part} = {self.shown(tree)}"
            for part, tree in self.written.parts.items()
            if part in used
        ]
        if [*named] == [name]:
            returned = _bracketed(self.expression(named[name]), 4)
        else:
            lines = [
                f"        {key!r}: {_bracketed(self.expression(of), 8)},"
                for key, of in named.items()
            ]
            returned = "\n".join(["{", *lines, "    }"])
        return "\n".join([head, *parts, f"    return {returned}"])

    def expression(self, named: Polynomial) -> str:
        return self.shown(self.written.ordered(named))

    def shown(self, tree: Tree) -> str:
        return code(tree, "python", lambda name: self.own.get(name, name))


def _listed(value: Any) -> str:
    """Write a value; a list that is too long for a line takes several."""
    if not isinstance(value, tuple) or len(python_literal(value)) < COLUMNS // 2:
        return python_literal(value)
    return "[\n" + "".join(f"    {python_literal(item)},\n" for item in value) + "]"


def _bracketed(expression: str, indent: int) -> str:
    """Return an expression as lines that break before additions, in brackets if several."""
    lines = lines_of(expression, COLUMNS - indent - 4, CODE)
    if len(lines) == 1:
        return expression
    return "\n".join(["(", *(" " * (indent + 4) + line for line in lines), " " * indent + ")"])


# SQL


def sql(written: Lettering, formulas: Formulas) -> tuple[str, dict[str, int]]:
    """Write a query with a column for each formula, and return the numbers that it fixes.

    These numbers replace the parts of the formulas that SQL cannot compute; the config decides
    them. The query uses only SQL that DuckDB, PostgreSQL and SQLite have in common.

    Example:
        >>> import sqlite3
        >>> from weighbridge.ledger.lettering import Lettering
        >>> from weighbridge.answers.weigh import weigh
        >>> ledger = weigh("bert-base-chinese").ledger
        >>> query, _ = sql(Lettering(ledger), {"parameters": ledger.formula()})
        >>> sqlite3.connect(":memory:").execute(query).fetchone()
        (102267648,)
    """
    fields, numbers = written.ledger.fields, dict[str, int]()

    def column(tree: Tree) -> str | int:
        text = source(tree)
        if not is_portable(tree, fields):
            numbers[text] = evaluate(tree, fields)
        return numbers.get(text, text)

    decided = {name: formula.rewritten(column) for name, formula in formulas.items()}
    sizes = written.sizes(decided.values())
    own = identifiers([size.field for size in sizes], SQL_WORDS)
    shown = {
        name: code(written.ordered(of), "sql", own.__getitem__) for name, of in decided.items()
    }
    names = identifiers(shown, SQL_WORDS)
    results = [
        "\n    ".join([*lines_of(shown[of], COLUMNS - 4, CODE), f"AS {names[of]}"]) for of in shown
    ]
    select = "SELECT\n  " + ",\n  ".join(results)
    if not sizes:
        return f"{select};", numbers
    columns = [
        f"    CAST({size.value!r} AS {_SQL_TYPES[type(size.value)]}) AS {own[size.field]}"
        for size in sizes
    ]
    return "WITH config AS (\n  SELECT\n" + ",\n".join(
        columns
    ) + f"\n)\n{select}\nFROM config;", numbers


_SQL_TYPES: dict[type, str] = {int: "BIGINT", float: "DOUBLE PRECISION"}
