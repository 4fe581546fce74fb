"""Formulas as code that runs without weighbridge: Python functions, an SQL query."""

from __future__ import annotations

import keyword
import re
from functools import reduce
from typing import TYPE_CHECKING, Any

from weighbridge.algebra.expr import SOURCE, Shown, evaluate, infix, names_in, show, source
from weighbridge.ledger.lettering import is_number
from weighbridge.render.table import CODE, COLUMNS, lines_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from weighbridge.algebra.expr import Meaning, Tree
    from weighbridge.algebra.polynomial import Polynomial
    from weighbridge.ledger.lettering import Lettering

    Formulas = Mapping[str, Polynomial]


def identifiers(fields: Iterable[str], reserved: Iterable[str]) -> dict[str, str]:
    """Return an identifier for each field, no two alike in any case.

    Example:
        >>> identifiers(["text_config.hidden_size", "lambda", "LAMBDA_"], ["lambda"])
        {'text_config.hidden_size': 'text_config_hidden_size', 'lambda': 'lambda_', 'LAMBDA_': 'LAMBDA__'}
    """
    found, taken = dict[str, str](), {name.lower() for name in reserved}
    for field in fields:
        found[field] = field.replace(".", "_")
        while found[field].lower() in taken:
            found[field] += "_"
        taken.add(found[field].lower())
    return found


def _fields(formulas: Formulas) -> list[str]:
    return sorted({name for formula in formulas.values() for name in formula.fields()})


# Python


def python(written: Lettering, formulas: Formulas, groups: Formulas, by: str) -> str:
    """Write a function for each formula, and one that returns a dict of the groups where there are any.

    Its arguments are the numbers of the config, which are their defaults too; what is no number is
    a constant.

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
    code = _Python(written, own)
    made = [code.function(name, {name: named[name]}, formulas) for name in formulas]
    if groups:
        made.insert(0, code.function(by, {name: named[f"{by} {name}"] for name in groups}, groups))
    constants = [
        f"{own[name]} = {_listed(fields[name])}" for name in own if not is_number(fields[name])
    ]
    head = ["import math"] * any("math." in function for function in made) + constants
    return "\n\n\n".join(["\n".join(head)] * bool(head) + made)


class _Python:
    """What a Python function is written with: the formulas' names for loops, and an identifier for each field."""

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
        return show(tree, lambda name: self.own.get(name, name), _PYTHON, _literal)


def _loop(index: str, rounds: Shown, holds: Callable[[Shown], Shown]) -> Shown:
    return Shown(f"sum({holds(Shown(index))} for {index} in range({rounds}))")


def _of_math(name: str) -> Callable[[Shown], Shown]:
    return lambda operand: Shown(f"math.{name}({operand})")


_PYTHON: Meaning = {
    **SOURCE,
    "count": _loop,
    **{name: _of_math(name) for name in ("ceil", "floor", "log2", "sqrt")},
}


def _literal(value: Any) -> str:
    """Write a value as Python does, the tuples of a ledger as the lists of a config."""
    if hasattr(value, "keys"):
        return f"{{{', '.join(f'{key!r}: {_literal(value[key])}' for key in value)}}}"
    return f"[{', '.join(map(_literal, value))}]" if isinstance(value, tuple) else repr(value)


def _listed(value: Any) -> str:
    """Write a value, and a list that is too long for a line on several."""
    if not isinstance(value, tuple) or len(_literal(value)) < COLUMNS // 2:
        return _literal(value)
    return "[\n" + "".join(f"    {_literal(item)},\n" for item in value) + "]"


def _bracketed(expression: str, indent: int) -> str:
    """Return an expression in lines that end before an addition, in brackets where they are several."""
    lines = lines_of(expression, COLUMNS - indent - 4, CODE)
    if len(lines) == 1:
        return expression
    return "\n".join(["(", *(" " * (indent + 4) + line for line in lines), " " * indent + ")"])


# SQL


def sql(written: Lettering, formulas: Formulas) -> tuple[str, dict[str, int]]:
    """Write a query with a column for each formula, and say what of them is a number, decided by the config.

    It keeps to what DuckDB, PostgreSQL and SQLite agree on. They do not on ``/``: of integers it is
    an integer in two of them and a fraction in DuckDB, and a cast rounds that. So the rest is taken
    off first: the cast finds an integer.

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
        if not _is_portable(tree, fields):
            numbers[text] = evaluate(tree, fields)
        return numbers.get(text, text)

    decided = {name: formula.rewritten(column) for name, formula in formulas.items()}
    sizes = written.sizes(decided.values())
    own = identifiers([size.field for size in sizes], _SQL_WORDS)
    shown = {
        name: show(written.ordered(of), own.__getitem__, _SQL, _sql_number)
        for name, of in decided.items()
    }
    names = identifiers(shown, _SQL_WORDS)
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


def _is_portable(tree: Tree, fields: Mapping[str, Any]) -> bool:
    """Whether an expression has a value in SQL: numbers alone, no loop, no list, and no rest of a fraction."""

    def is_whole(part: Tree) -> bool:
        kind, *operands = part
        if kind in ("name", "value"):
            return isinstance(fields[operands[0]] if kind == "name" else operands[0], int)
        return kind in ("int", "floor", "ceil") or (kind != "/" and all(map(is_whole, operands)))

    def divides(part: Tree) -> bool:
        """Whether what it takes the rest of is whole, all through."""
        inside = [operand for operand in part[1:] if isinstance(operand, tuple)]
        return all(map(divides, inside)) and (
            part[0] not in ("//", "%") or all(map(is_whole, inside))
        )

    try:
        show(tree, str, _SQL, _sql_number)
    except KeyError:
        return False
    return all(is_number(fields[name]) for name in names_in(tree)) and divides(tree)


def _sql_number(value: Any) -> str:
    if not is_number(value):
        raise KeyError(value)
    return repr(value)


def _divided(left: Shown, right: Shown) -> Shown:
    rest = SOURCE["%"](left, right)
    return Shown(f"CAST({SOURCE['/'](SOURCE['-'](left, rest), right)} AS BIGINT)")


def _multiplied(base: Shown, exponent: Shown) -> Shown:
    if not exponent.isdecimal() or not 0 < int(exponent) <= _MOST_FACTORS:
        raise KeyError("**")
    product: Shown = reduce(SOURCE["*"], [base] * int(exponent))
    return product


_MOST_FACTORS = 16


def _chosen(sign: str) -> Callable[..., Shown]:
    def choose(left: Shown, right: Shown) -> Shown:
        return Shown(f"CASE WHEN {SOURCE[sign](left, right)} THEN {left} ELSE {right} END")

    return lambda *operands: reduce(choose, operands)


def _made_integer(beyond: str, back: str) -> Callable[[Shown], Shown]:
    """Return how a fraction is made an integer where a cast may round it either way."""

    def make(operand: Shown) -> Shown:
        cast = Shown(f"CAST({operand} AS BIGINT)")
        return Shown(f"({cast} {back} CASE WHEN {SOURCE[beyond](cast, operand)} THEN 1 ELSE 0 END)")

    return make


_SQL: Meaning = {
    **{
        kind: SOURCE[kind]
        for kind in ("or", "and", "not", "<", "<=", ">", ">=", "+", "-", "*", "%", "neg")
    },
    "==": infix("==", "{} = {}"),
    "!=": infix("!=", "{} <> {}"),
    "/": lambda left, right: SOURCE["/"](Shown(f"CAST({left} AS DOUBLE PRECISION)"), right),
    "//": _divided,
    "**": _multiplied,
    "if": lambda truth, then, other: Shown(f"CASE WHEN {truth} THEN {then} ELSE {other} END"),
    "max": _chosen(">="),
    "min": _chosen("<="),
    "int": _made_integer(">", "-"),
    "floor": _made_integer(">", "-"),
    "ceil": _made_integer("<", "+"),
}
_SQL_TYPES: dict[type, str] = {int: "BIGINT", float: "DOUBLE PRECISION"}
_RESERVED = (
    "all analyse analyze and any array as asc between by case cast check column config create cross current default "
    "desc distinct do else end except exists false for from full glob group having in index into is join left like "
    "limit natural not null offset on or order outer primary references returning right row rows select set some table "
    "then to true union unique update user using values when where window with"
)
_SQL_WORDS = frozenset(_RESERVED.split())
