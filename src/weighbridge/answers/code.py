"""Formulas as code that runs without weighbridge: Python functions, an SQL query.

Both refuse sizes outside the region of the formulas: Python raises ValueError, SQL gives NULL.
"""

from __future__ import annotations

import keyword
import re
import textwrap
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge.algebra.codegen import SQL_WORDS, code, identifiers, is_portable, python_literal
from weighbridge.algebra.expr import SOURCE, evaluate, is_number, names_in, source
from weighbridge.ledger.region import frozen_rules, lists_anew
from weighbridge.render.table import CODE, COLUMNS, lines_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from weighbridge.algebra.expr import Tree
    from weighbridge.algebra.polynomial import Polynomial
    from weighbridge.ledger.lettering import Lettering

    Formulas = Mapping[str, Polynomial]

_INDENT = " " * 4
_MOST_TEXT = 60  # characters of a rule on a line, beside its indent and quotes


# Python

_CHECK, NEED = "_check", "_need"
NEED_SOURCE = '''\
def _need(holds, rule):
    """Refuse sizes at which the formula does not hold; of arrays, all elements must."""
    if not getattr(holds, "all", lambda: holds)():
        raise ValueError(f"the formula holds only where {rule}")'''


def python(
    written: Lettering,
    formulas: Formulas,
    groups: Formulas,
    by: str,
    computed: Mapping[str, Tree] | None = None,
) -> str:
    """Write a function for each formula, and one that returns a dict of the groups, if any.

    The arguments are the numbers of the config, with their values as defaults; other values are
    constants. The functions raise ValueError for sizes at which the formulas do not hold.

    Args:
        written: the letters and loops of the formulas.
        formulas: the formulas of the totals, by name.
        groups: the formulas of the groups.
        by: the name of the function for the groups.
        computed: the expressions of fields that the config leaves to be computed. Such a number is
            computed from the other arguments if it is left out, and a list always.

    Example:
        >>> from weighbridge.ledger.lettering import Lettering
        >>> from weighbridge.answers.weigh import weigh
        >>> ledger, found = weigh("bert-base-chinese").ledger, {}
        >>> exec(python(Lettering(ledger), {"parameters": ledger.formula()}, {}, "total"), found)
        >>> found["parameters"](), found["parameters"](vocab_size=30522)
        (102267648, 109482240)
        >>> found["parameters"](hidden_size=770)
        Traceback (most recent call last):
        ValueError: the formula holds only where hidden_size % num_attention_heads == 0
    """
    named = {name: written.named(formula) for name, formula in formulas.items()}
    named_groups = {name: written.named(formula) for name, formula in groups.items()}
    every = [*formulas.values(), *groups.values()]
    writer = _Python(written, every, computed or {}, {*formulas, by})
    functions = [writer.function(name, {name: formula}) for name, formula in named.items()]
    if groups:
        functions.insert(0, writer.function(by, named_groups))
    functions = [*writer.checks(), *functions]
    head = writer.constants()
    if any("math." in function for function in functions):
        head = ["import math", *head]
    parts = functions
    if head:
        parts = ["\n".join(head), *functions]
    return "\n\n\n".join(parts)


class _Python:
    """Writes Python functions from lettered formulas, with an identifier for each config field."""

    def __init__(
        self,
        written: Lettering,
        formulas: Iterable[Polynomial],
        computed: Mapping[str, Tree],
        reserved: set[str],
    ) -> None:
        self.written, self.fields = written, written.values
        self.rules = written.rules(computed)
        anew = lists_anew(written.values, computed)
        for name, tree in computed.items():
            if is_number(self.fields.get(name)):
                anew[name] = tree
        needed = _names_of(self.rules)
        for formula in formulas:
            needed |= formula.fields()
        self.computed = computed_for(
            needed, {name: computed[name] for name in computed if name in anew}
        )
        for tree in self.computed.values():
            needed.update(names_in(tree))
        needed &= self.fields.keys()
        loops = [*written.parts.values(), *self.rules, *self.computed.values()]
        indices = {name for tree in loops for name in re.findall(r" for (\w+) in ", source(tree))}
        taken = {*keyword.kwlist, *SOURCE, *indices, *written.parts, *reserved}
        taken |= {"range", "math", "getattr", _CHECK, NEED}
        self.own = identifiers(sorted(needed), taken)
        letters = [name for name in written.letters if name in needed]
        ordered = dict.fromkeys([*letters, *sorted(needed)])
        self.sizes = [name for name in ordered if is_number(self.fields[name])]

    def constants(self) -> list[str]:
        """Return a line for each value that is neither a size nor computed."""
        lines = []
        for name, identifier in self.own.items():
            if name not in self.computed and name not in self.sizes:
                lines.append(f"{identifier} = {_listed(self.fields[name])}")
        return lines

    def checks(self) -> list[str]:
        """Return the functions that refuse sizes outside the region."""
        lines = list(self._checked_sizes())
        for rule in self.rules:
            lines += self._need(self.shown(rule), source(rule))
        if not lines:
            return []
        head = f"def {_CHECK}({', '.join(self._checked())}):"
        if len(head) > COLUMNS:
            arguments = [f"{_INDENT}{name}," for name in self._checked()]
            head = "\n".join([f"def {_CHECK}(", *arguments, "):"])
        return [NEED_SOURCE, "\n".join([head, *lines])]

    def _checked(self) -> list[str]:
        """Return the identifiers of the fields that the region is about."""
        names = _names_of(self.rules)
        known = [*self.sizes, *[name for name in self.computed if name not in self.sizes]]
        is_checked = [name in names or self.written.least_of(name) is not None for name in known]
        return [self.own[name] for name, checked in zip(known, is_checked, strict=True) if checked]

    def _checked_sizes(self) -> Iterator[str]:
        for name in self.sizes:
            least = self.written.least_of(name)
            if least is not None:
                rule = f"{self.own[name]} >= {least}"
                yield from self._need(rule, rule)

    def _need(self, shown: str, rule: str) -> list[str]:
        line = f"{_INDENT}{NEED}({shown}, {python_literal(rule)})"
        if len(line) <= COLUMNS:
            return [line]
        pieces = textwrap.wrap(rule, _MOST_TEXT, drop_whitespace=False, break_on_hyphens=False)
        texts = [f"{_INDENT * 2}{python_literal(piece)}" for piece in pieces]
        holds = f"{_INDENT * 2}{in_brackets(shown, len(_INDENT) * 2)},"
        return [f"{_INDENT}{NEED}(", holds, *texts, f"{_INDENT})"]

    def function(self, name: str, named: Formulas) -> str:
        """Write a function of the sizes that returns a formula, or a dict of several."""
        used = {field for formula in named.values() for field in formula.fields()}
        parts = []
        for part, tree in self.written.parts.items():
            if part in used:
                parts.append(f"{_INDENT}{part} = {in_brackets(self.shown(tree), len(_INDENT))}")
        if [*named] == [name]:
            returned = in_brackets(self.expression(named[name]), len(_INDENT))
        else:
            lines = [
                f"{_INDENT * 2}{key!r}: {in_brackets(self.expression(formula), len(_INDENT) * 2)},"
                for key, formula in named.items()
            ]
            returned = "\n".join(["{", *lines, f"{_INDENT}}}"])
        body = [*self._preface(), *parts, f"{_INDENT}return {returned}"]
        return "\n".join([self._head(name), *body])

    def _head(self, name: str) -> str:
        if not self.sizes:
            return f"def {name}():"
        arguments = []
        for size in self.sizes:
            default = repr(self.fields[size])
            if size in self.computed:
                default = "None"
            arguments.append(f"{_INDENT}{self.own[size]}={default},")
        return "\n".join([f"def {name}(", *arguments, "):"])

    def _preface(self) -> Iterator[str]:
        """Yield the lines that compute fields and check the region."""
        for name, tree in self.computed.items():
            for divisor in sorted(_divisors(tree)):
                if divisor in self.sizes and divisor not in self.computed:
                    rule = f"{self.own[divisor]} >= 1"
                    yield from self._need(rule, rule)
            indent = _INDENT
            if name in self.sizes:
                yield f"{_INDENT}if {self.own[name]} is None:"
                indent = _INDENT * 2
            yield f"{indent}{self.own[name]} = {in_brackets(self.shown(tree), len(indent))}"
        checked = self._checked()
        if checked:
            call = f"{_CHECK}({', '.join(checked)})"
            if len(call) > COLUMNS - len(_INDENT):
                arguments = textwrap.wrap(", ".join(checked), COLUMNS - len(_INDENT) * 2)
                inside = [f"{_INDENT * 2}{line}" for line in arguments]
                call = "\n".join([f"{_CHECK}(", *inside, f"{_INDENT})"])
            yield f"{_INDENT}{call}"

    def expression(self, named: Polynomial) -> str:
        return self.shown(self.written.ordered(named))

    def shown(self, tree: Tree) -> str:
        return code(tree, "python", lambda name: self.own.get(name, name))


def _names_of(trees: Iterable[Tree]) -> set[str]:
    return {name for tree in trees for name in names_in(tree)}


def _divisors(tree: Tree) -> set[str]:
    """Return the names in the divisors of an expression."""
    kind, *operands = tree
    if kind in ("name", "value"):
        return set()
    names = set(names_in(operands[1])) if kind in ("//", "%", "/") else set()
    return names.union(*[_divisors(operand) for operand in operands if isinstance(operand, tuple)])


def computed_for(names: Iterable[str], computed: Mapping[str, Tree]) -> dict[str, Tree]:
    """Return the computed fields that these names depend on, in their order."""
    needed, pending = set[str](), [*names]
    while pending:
        name = pending.pop()
        if name in computed and name not in needed:
            needed.add(name)
            pending += names_in(computed[name])
    return {name: tree for name, tree in computed.items() if name in needed}


def _listed(value: Any) -> str:
    """Write a value; a list that is too long for a line takes several."""
    if not isinstance(value, tuple) or len(python_literal(value)) < COLUMNS // 2:
        return python_literal(value)
    return "[\n" + "".join(f"{_INDENT}{python_literal(item)},\n" for item in value) + "]"


def in_brackets(expression: str, indent: int) -> str:
    """Return an expression as lines that break before additions, in brackets if several."""
    lines = lines_of(expression, COLUMNS - indent - 4, CODE)
    if len(lines) == 1:
        return expression
    return "\n".join(["(", *(" " * (indent + 4) + line for line in lines), " " * indent + ")"])


# SQL


class Query(NamedTuple):
    """A query, the numbers that it fixes, and the rules outside which it gives NULL."""

    text: str
    numbers: dict[str, int]
    rules: tuple[Tree, ...]


def sql(written: Lettering, formulas: Formulas) -> Query:
    """Write a query with a column for each formula, and return the numbers that it fixes.

    These numbers replace the parts of the formulas that SQL cannot compute; the config decides
    them, and the query gives NULL where a size that they depend on has another value, as it does
    outside the region of the formulas. The query uses only SQL that DuckDB, PostgreSQL and SQLite
    have in common.

    Example:
        >>> import sqlite3
        >>> from contextlib import closing
        >>> from weighbridge.ledger.lettering import Lettering
        >>> from weighbridge.answers.weigh import weigh
        >>> ledger = weigh("bert-base-chinese").ledger
        >>> query = sql(Lettering(ledger), {"parameters": ledger.formula()})
        >>> with closing(sqlite3.connect(":memory:")) as database:
        ...     database.execute(query.text).fetchone()
        (102267648,)
    """
    fields, numbers = written.values, dict[str, int]()
    frozen: dict[Tree, None] = {}

    def column(tree: Tree) -> str | int:
        text = source(tree)
        if not is_portable(tree, fields):
            numbers[text] = evaluate(tree, fields)
            frozen.update(dict.fromkeys(frozen_rules(tree, fields)))
        return numbers.get(text, text)

    decided = {name: formula.rewritten(column) for name, formula in formulas.items()}
    for rule in written.rules():
        if is_portable(rule, fields):
            frozen[rule] = None
        else:
            frozen.update(dict.fromkeys(frozen_rules(rule, fields)))
    return Query(_query(written, decided, [*frozen]), numbers, tuple(frozen))


def _query(written: Lettering, formulas: Formulas, rules: list[Tree]) -> str:
    """Write a query of formulas that SQL can express, with NULL where a rule does not hold."""
    fields = written.values
    needed = _names_of(rules)
    for formula in formulas.values():
        needed |= formula.fields()
    letters = [name for name in written.letters if name in needed]
    sizes = [*dict.fromkeys([*letters, *sorted(needed)])]
    own = identifiers(sizes, SQL_WORDS)
    shown = {}
    for name, formula in formulas.items():
        shown[name] = code(written.ordered(formula), "sql", own.__getitem__)
    names = identifiers(shown, SQL_WORDS)
    if not sizes:
        return f"{_select(shown, names)};"
    columns = []
    for name in sizes:
        value = fields[name]
        columns.append(f"CAST({value!r} AS {_SQL_TYPES[type(value)]}) AS {own[name]}")
    config = f"{_WITH_CONFIG}\n    " + ",\n    ".join(columns)
    least = {name: written.least_of(name) for name in sizes}
    conditions = [f"{own[name]} >= {least[name]}" for name in sizes if least[name] is not None]
    holds = _case(conditions, _ONE)
    if rules:
        inner = _case([_sql_condition(rule, own.__getitem__) for rule in rules], _ONE)
        holds = _case(conditions, inner)
    if not conditions and not rules:
        return f"{config}\n)\n{_select(shown, names)}\nFROM config;"
    checked = "\n".join([_AS_CHECKED, f"{_indented(holds, 4)} AS holds", _FROM_CONFIG])
    inside = {}
    for name, expression in shown.items():
        lines = "\n".join(lines_of(expression, COLUMNS - 6, CODE))
        inside[name] = f"CASE WHEN holds = 1 THEN\n{_indented(lines, 2)}\nEND"
    return f"{config}\n{checked}\n)\n{_select(inside, names)}\nFROM checked;"


_WITH_CONFIG = "WITH config AS (\n  SELECT"
_AS_CHECKED, _FROM_CONFIG = "), checked AS (\n  SELECT config.*,", "  FROM config"
_ONE = "1"


def _select(shown: Mapping[str, str], names: Mapping[str, str]) -> str:
    results = []
    for name, expression in shown.items():
        lines = [
            piece
            for line in expression.split("\n")
            for piece in (lines_of(line, COLUMNS - 4, CODE) if len(line) > COLUMNS - 4 else [line])
        ]
        results.append("\n    ".join([*lines, f"AS {names[name]}"]))
    return "SELECT\n  " + ",\n  ".join(results)


def _case(conditions: list[str], value: str) -> str:
    """Write a value under conditions; it is evaluated only where they hold."""
    if not conditions:
        return value
    both = "\n  AND ".join("\n    ".join(lines_of(text, COLUMNS - 14, CODE)) for text in conditions)
    return f"CASE WHEN\n  {both}\nTHEN\n{_indented(value, 2)}\nEND"


def _sql_condition(rule: Tree, name: Callable[[str], str]) -> str:
    shown = code(rule, "sql", name)
    if rule[0] in ("or", "not", "if"):
        return f"({shown})"
    return shown


def _indented(text: str, columns: int) -> str:
    return textwrap.indent(text, " " * columns)


_SQL_TYPES: dict[type, str] = {int: "BIGINT", float: "DOUBLE PRECISION"}
