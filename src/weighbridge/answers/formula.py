"""A model's count in closed form: as text with its legend, as LaTeX, as Python or SQL that runs by itself, as JSON."""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge import data
from weighbridge.algebra.expr import names_in, source
from weighbridge.algebra.polynomial import floored
from weighbridge.answers import code
from weighbridge.errors import UsageError, WeighbridgeError
from weighbridge.ledger.lettering import Lettering
from weighbridge.ledger.rows import RowGroup
from weighbridge.render import math
from weighbridge.render.table import COLUMNS, LATEX, Table, lines_of, text, wrap
from weighbridge.render.words import label, words
from weighbridge.units import count, number, share

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from weighbridge.algebra.polynomial import Polynomial
    from weighbridge.answers.weigh import Weighing
    from weighbridge.ledger.lettering import Size

GROUPINGS = ("total", "component", "role")
NAMES = ("letters", "fields")


def closed_form(
    weighing: Weighing,
    form: str = "text",
    *,
    by: str = "total",
    names: str | None = None,
    lang: str = "en",
) -> str:
    r"""Write how a weighing's count follows from the numbers of the config.

    Args:
        weighing: what `weigh` returned.
        form: one of ``FORMS``.
        by: one of ``GROUPINGS``: the total alone, or each component or role before it.
        names: one of ``NAMES``; as it suits the form, if left out. Code has the names of fields.
        lang: ``"en"`` or ``"zh"``.

    Raises:
        UsageError: there is no such form, grouping, kind of names or language, or code is asked for
            in letters.

    Example:
        >>> from weighbridge.answers.weigh import weigh
        >>> print(closed_form(weigh("bert-base-chinese"), "latex", names="letters"))  # doctest: +ELLIPSIS
        % google-bert/bert-base-chinese · BertModel
        ...
        \begin{align*}
        \text{parameters} &= V\,H + P\,H + T\,H + 3H + L\,(4H^{2} + 2H\,F + 9H + F) + H^{2} \\
          &= 102{,}267{,}648
        \end{align*}
    """
    for asked, known, what in (
        (form, tuple(FORMS), "format"),
        (by, GROUPINGS, "grouping"),
        (names, (None, *NAMES), "names"),
    ):
        if asked not in known:
            raise UsageError(
                f"no such {what}",
                values={what: asked},
                hint=f"use one of {', '.join(filter(None, known))}",
            )
    if form in _CODE and names == "letters":
        raise UsageError(
            f"{form} has the names of fields", values={"names": names}, hint="write text or latex"
        )
    words(lang)
    return FORMS[form](_Closed(weighing, by, "fields" if form in _CODE else names, lang))


_CODE = ("python", "sql")


class _Formula(NamedTuple):
    """A formula under its name, which code calls it, with its title and what it comes to."""

    name: str
    title: str
    formula: Polynomial
    value: int


class _Closed:
    """What every form of it is written from."""

    def __init__(self, weighing: Weighing, by: str, names: str | None, lang: str) -> None:
        self.weighing, self.ledger, self.by, self.names, self.lang = (
            weighing,
            weighing.ledger,
            by,
            names,
            lang,
        )
        self.said = data.read_toml(f"words/formula.{lang}.toml")
        self.written = Lettering(self.ledger)
        ledger = self.ledger
        self.totals = [
            _Formula("parameters", self.said["parameters"], ledger.formula(), ledger.parameters)
        ]
        if ledger.has_experts:
            self.totals.append(
                _Formula("active", self.said["active"], ledger.active_formula(), ledger.active)
            )
        lines = [] if by == "total" else ledger.by(by)
        self.groups = [
            _Formula(line.name, label(line.name, lang), ledger.formula_of([line]), line.parameters)
            for line in lines
        ]
        for name, _, formula, value in self.every:
            if formula(**ledger.fields) != value:
                raise WeighbridgeError(
                    "its formula does not come to its tensors' sum",
                    where=name,
                    hint="report it, please, with the config",
                )

    @property
    def every(self) -> list[_Formula]:
        """The groups and the totals."""
        return [*self.groups, *self.totals]

    @property
    def heading(self) -> str:
        return f"{self.weighing.model.where} · {self.weighing.class_name}"

    @cached_property
    def shown(self) -> dict[str, dict[str, str]]:
        """Each formula in letters and in fields, by its name."""
        return {
            name: {"letters": self.written.text(formula), "fields": self.written.fields(formula)}
            for name, _, formula, _ in self.every
        }

    def notes(self) -> Iterator[str]:
        """Say what the formula is held against, where it holds, what it leaves out and how that is known."""
        said, ledger = self.said, self.ledger
        tensors = sum(len(entry.indices) for entry in ledger.entries)
        yield said["agrees"].format(count=count(ledger.parameters), tensors=count(tensors))
        if ledger.has_experts:
            yield said["active_means"].format(
                count=count(ledger.active), share=share(ledger.active, ledger.parameters)
            )
        if self.names != "fields" and any("⌊" in shown["letters"] for shown in self.shown.values()):
            yield said["rest"]
        if self.needed:
            yield said["exact"].format(rules=words(self.lang)["and"].join(self.needed))
        for tie in self.ties():
            formula = tie["fields" if self.names == "fields" else "letters"]
            yield said["tied"].format(
                tensor=tie["tensor"], to=tie["to"], formula=formula, count=count(tie["value"])
            )
        if decided := self.written.decided():
            fixed = (
                name if _is_many(of) else f"{name} = {source(('value', of))}"
                for name, of in decided.items()
            )
            yield said["decided"].format(fields=words(self.lang)["comma"].join(fixed))
        yield from self.weighing.known(self.lang)

    @property
    def needed(self) -> list[str]:
        """The family's rules on what a formula divides by."""
        divisors = {
            factor
            for formula in self.every
            for monomial in formula.formula.terms
            for factor, power in monomial
            if power < 0
        }
        rules = self.ledger.blueprint.require.items()
        rests = {rule: tree[1] for rule, tree in rules if tree[0] == "==" and tree[1][0] == "%"}
        return [
            rule
            for rule, (_, _, divisor) in rests.items()
            if divisors.intersection(names_in(divisor))
        ]

    def ties(self) -> Iterator[dict[str, Any]]:
        """Yield each tensor that is another one, that other, and what it would add."""
        for entry in self.ledger.entries:
            if entry.tied and entry.template.tie:
                alone = entry._replace(tied=False)
                formula = self.ledger.formula_of([RowGroup("", (alone,))])
                shown = {
                    "letters": self.written.text(formula),
                    "fields": self.written.fields(formula),
                }
                names = {"tensor": entry.template.name, "to": entry.template.tie.to}
                yield {**names, **shown, "value": alone.parameters}


def _is_many(value: object) -> bool:
    return isinstance(value, tuple) or hasattr(value, "keys")


def _text(closed: _Closed) -> str:
    blocks = [closed.heading]
    wanted = [names for names in NAMES if closed.names in (names, None)]
    for name, title, formula, value in closed.every:
        chain = [*(closed.shown[name][names] for names in wanted if formula.fields()), count(value)]
        parts = ["\n      ".join(lines_of(part, COLUMNS - 6)) for part in dict.fromkeys(chain)]
        blocks.append("\n".join([title, *(f"    = {part}" for part in parts)]))
    sizes = closed.written.sizes(formula.formula for formula in closed.every)
    rows = tuple(
        (_letter(size), size.field, size.meaning(closed.lang), number(size.value)) for size in sizes
    )
    blocks += [text(Table(tuple(closed.said["header"]), rows, "<<<>"))] if rows else []
    parts = [
        wrap(f"{name} = {value} = {shown['letters']}", indent="    ")
        for name, value, shown in _parts(closed)
    ]
    return "\n\n".join(
        [*blocks, *["\n".join(parts)] * bool(parts), "\n".join(map(wrap, closed.notes()))]
    )


def _letter(size: Size) -> str:
    return "" if size.letter == size.field else size.letter


def _parts(closed: _Closed) -> list[tuple[str, str, dict[str, str]]]:
    """Return each name for a loop, what it comes to, and what it stands for, in letters and in fields."""
    written = closed.written
    return [
        (name, count(written.value(name)), {"letters": written.part(name), "fields": source(tree)})
        for name, tree in written.parts.items()
    ]


def _latex(closed: _Closed) -> str:
    written, lines = closed.written, list[str]()
    in_fields = closed.names == "fields"
    for _, title, formula, value in closed.every:
        tree = written.tree(formula, letters=not in_fields)
        first, *rest = lines_of(math.formula(tree, math.LATEX), COLUMNS, LATEX)
        lines += [
            rf"\text{{{math.escape_latex(title)}}} &= {first}",
            *(rf"  &\quad {line}" for line in rest),
        ]
        lines.append(f"  &= {math.formula(('value', value), math.LATEX)}")
    for name, tree in written.parts.items():
        shown = floored(tree) if in_fields else written.in_letters(floored(tree))
        comes_to = math.formula(("value", written.value(name)), math.LATEX)
        first, *rest = lines_of(f"{math.formula(shown, math.LATEX)} = {comes_to}", COLUMNS, LATEX)
        lines += [
            f"{math.formula(('name', name), math.LATEX)} &= {first}",
            *(rf"  &\quad {line}" for line in rest),
        ]
    body = " \\\\\n".join(lines)
    return f"{_comment(closed, '% ')}\n\\begin{{align*}}\n{body}\n\\end{{align*}}"


def _python(closed: _Closed) -> str:
    formulas = {of.name: of.formula for of in closed.totals}
    made = code.python(
        closed.written, formulas, {of.name: of.formula for of in closed.groups}, f"{closed.by}s"
    )
    return f"{_comment(closed, '# ', legend=False)}\n\n\n{made}"


def _sql(closed: _Closed) -> str:
    made, numbers = code.sql(closed.written, {of.name: of.formula for of in closed.every})
    said = [
        closed.said["number"].format(count=value, expression=text)
        for text, value in numbers.items()
    ]
    said += [closed.said["division"]] if " % " in made else []
    return f"{_comment(closed, '-- ', *said, legend=False)}\n{made}"


def _comment(closed: _Closed, mark: str, *more: str, legend: bool = True) -> str:
    """Return what is to be said of the formula, in lines of comment."""
    sizes = closed.written.sizes(of.formula for of in closed.every) if legend else []
    said = [
        f"{size.letter} = {size.field} = {number(size.value)}"
        for size in sizes
        if size.letter != size.field
    ]
    lines = [
        line
        for note in [closed.heading, *said, *closed.notes(), *more]
        for line in wrap(note, COLUMNS - 3).split("\n")
    ]
    return "\n".join(mark + line for line in lines)


def _json(closed: _Closed) -> str:
    weighing, written = closed.weighing, closed.written
    by_name = {name: {**closed.shown[name], "value": value} for name, _, _, value in closed.every}
    found = {
        "model": weighing.model.where,
        "family": weighing.model.blueprint.family,
        "class": weighing.class_name,
        **{name: by_name[name] for name, *_ in closed.totals},
        **(
            {f"{closed.by}s": {name: by_name[name] for name, *_ in closed.groups}}
            if closed.groups
            else {}
        ),
        "sizes": [
            {**size._asdict(), "meaning": size.meaning(closed.lang)}
            for size in written.sizes(of.formula for of in closed.every)
        ],
        "loops": {
            name: {**shown, "value": written.value(name)} for name, _, shown in _parts(closed)
        },
        "tied": list(closed.ties()),
        "decided": {
            name: list(of) if isinstance(of, tuple) else of
            for name, of in written.decided().items()
        },
        "needed": closed.needed,
        "evidence": weighing.evidence,
    }
    return json.dumps(found, indent=2, ensure_ascii=False)


FORMS: Mapping[str, Callable[[_Closed], str]] = {
    "text": _text,
    "latex": _latex,
    "python": _python,
    "sql": _sql,
    "json": _json,
}
"""Every form that a formula can be written in."""
