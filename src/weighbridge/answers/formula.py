"""A model's count in closed form: as text, LaTeX, JSON, or Python and SQL code that runs."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge import data
from weighbridge.algebra.expr import is_number, names_in, source
from weighbridge.algebra.polynomial import floored
from weighbridge.answers import code
from weighbridge.answers.answer import Answer
from weighbridge.answers.weigh import Weighing, weigh
from weighbridge.errors import UsageError, WeighbridgeError
from weighbridge.ledger.lettering import Lettering
from weighbridge.ledger.region import lists_anew, region_of
from weighbridge.ledger.rows import RowGroup
from weighbridge.render import math
from weighbridge.render.document import (
    Aligned,
    Comment,
    Definitions,
    Document,
    Equalities,
    Lines,
    Notes,
    Title,
    Together,
)
from weighbridge.render.table import Table
from weighbridge.render.words import label, words
from weighbridge.units import count, number

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from weighbridge.algebra.expr import Tree
    from weighbridge.algebra.polynomial import Polynomial
    from weighbridge.ledger.lettering import Size
    from weighbridge.ledger.region import FormulaRegion
    from weighbridge.models.find import Described
    from weighbridge.render.document import Block

GROUPINGS = ("total", "component", "role")
NAMES = ("letters", "fields")


def formula(  # noqa: PLR0913  # each is a word of its own for the user
    model: Described,
    class_name: str | None = None,
    *,
    lang: str | None = None,
    fields: Mapping[str, Any] | None = None,
    dtype: str | None = None,
    strict: bool = False,
    blueprint: str | os.PathLike[str] | None = None,
) -> ClosedForm:
    r"""Return a model's parameter count in closed form, as a function of the config.

    Args:
        model: as for `weigh`.
        class_name: as for `weigh`.
        lang: the language of the answer: ``"en"``, the default, or ``"zh"``.
        fields: as for `weigh`.
        dtype: as for `weigh`.
        strict: as for `weigh`.
        blueprint: as for `weigh`.

    Raises:
        ModelError, ConfigError, BlueprintError: as for `weigh`.
        UsageError: there is no such language.

    Example:
        >>> closed_form = formula("bert-base-chinese")
        >>> print(closed_form.text(code="latex", names="letters"))  # doctest: +ELLIPSIS
        % google-bert/bert-base-chinese · BertModel
        ...
        \begin{align*}
        \text{parameters} &= V\,H + P\,H + T\,H + 3H + L\,(4H^{2} + 2H\,F + 9H + F) + H^{2} \\
          &= 102{,}267{,}648
        \end{align*}
    """
    return ClosedForm(
        weigh(model, class_name, fields=fields, dtype=dtype, strict=strict, blueprint=blueprint),
        lang,
    )


class ClosedForm(Answer):
    """What `formula` returns.

    It has three choices. ``by`` is one of ``GROUPINGS``: the total only, or each component or role
    before it. ``names`` is one of ``NAMES``; both are shown by default. ``code`` is one of
    ``FORMS``; Python and SQL use field names.
    """

    def __init__(self, weighing: Weighing, lang: str | None = None) -> None:
        self.weighing = weighing
        if lang is not None:
            words(lang)  # refuses an unknown language
            self.lang = lang

    @property
    def notes(self) -> list[str]:
        """Notes on how the config was read."""
        return self.weighing.notes

    def to_dict(
        self, by: str = "total", names: str | None = None, code: str = "json"
    ) -> dict[str, Any]:
        """Return everything, ready for JSON."""
        return _to_dict(self._formulas(self.lang, by, names, code))

    def document(
        self,
        lang: str = "en",
        by: str = "total",
        names: str | None = None,
        code: str = "text",
        *,
        evidence: bool = False,
    ) -> Document:
        """Return the formulas as text, LaTeX or code.

        Raises:
            UsageError: the form, grouping, kind of names or language is unknown, or code is to be
                written in letters.
        """
        formulas = self._formulas(lang, by, names, code, evidence=evidence)
        blocks = _BLOCKS.get(code, _report)(formulas)  # JSON is data, and reads as text
        return Document(blocks, formulas.lang)

    def _formulas(
        self, lang: str, by: str, names: str | None, form: str, *, evidence: bool = False
    ) -> _Formulas:
        _check_choice("format", form, FORMS)
        _check_choice("grouping", by, GROUPINGS)
        if names is not None:
            _check_choice("names", names, NAMES)
        if form in _CODE:
            if names == "letters":
                raise UsageError(
                    f"{form} is written in field names",
                    values={"names": names},
                    hint="use text or latex",
                )
            names = "fields"
        return _Formulas(self.weighing, by, names, lang, evidence=evidence)


def _check_choice(what: str, chosen: str, known: Sequence[str]) -> None:
    if chosen not in known:
        raise UsageError(
            f"unknown {what}", values={what: chosen}, hint=f"use one of {', '.join(known)}"
        )


_CODE = ("python", "sql")


class _Formula(NamedTuple):
    """A formula with its title, its value, and its name in code."""

    name: str
    title: str
    polynomial: Polynomial
    value: int


class _Formulas:
    """The facts from which every form is written."""

    def __init__(
        self, weighing: Weighing, by: str, names: str | None, lang: str, *, evidence: bool
    ) -> None:
        self.general = words(lang)
        self.weighing, self.by, self.names, self.lang = weighing, by, names, lang
        self.known = weighing.known(lang, evidence=evidence)
        self.ledger = ledger = weighing.ledger
        self.computed = weighing.model.computed
        self.texts = data.read_toml(f"words/formula.{lang}.toml")
        self.lettering = Lettering(ledger)
        self.totals = [
            _Formula("parameters", self.texts["parameters"], ledger.formula(), ledger.parameters)
        ]
        if ledger.has_experts:
            self.totals.append(
                _Formula("active", self.texts["active"], ledger.active_formula(), ledger.active)
            )
        self.groups = []
        if by != "total":
            for line in ledger.by(by):
                title, polynomial = label(line.name, lang), ledger.formula_of([line])
                self.groups.append(_Formula(line.name, title, polynomial, line.parameters))
        for formula in self.every:
            if formula.polynomial(**ledger.fields) != formula.value:
                raise WeighbridgeError(
                    "its formula and the sum of its tensors differ",
                    where=formula.name,
                    hint="please report it, with the config",
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
        """Each formula in letters and in fields, by name."""
        return {formula.name: self.in_names(formula.polynomial) for formula in self.every}

    def in_names(self, polynomial: Polynomial) -> dict[str, str]:
        """Return a formula in letters and in fields."""
        return {
            "letters": self.lettering.text(polynomial),
            "fields": self.lettering.fields(polynomial),
        }

    @cached_property
    def sizes(self) -> list[Size]:
        """The numbers of the config that occur in a formula."""
        return list(self.lettering.sizes(formula.polynomial for formula in self.every))

    @property
    def parts(self) -> list[tuple[str, str, dict[str, str]]]:
        """Each name of a loop, with its value and its meaning in letters and in fields."""
        lettering, parts = self.lettering, []
        for name, tree in lettering.parts.items():
            shown = {"letters": lettering.part(name), "fields": source(tree)}
            parts.append((name, count(lettering.value(name)), shown))
        return parts

    @cached_property
    def region(self) -> FormulaRegion:
        """The region in which the formulas hold."""
        return region_of(self.ledger)

    def where_it_holds(self, rules: Iterable[Tree], beyond: str) -> Iterator[str]:
        """Yield the rules of a region, if it is more than that sizes are positive.

        ``beyond`` is the key of a sentence about other sizes, or empty.
        """
        shown = list(dict.fromkeys(map(source, rules)))
        if shown:
            yield self.texts["region"].format(rules=self.general["and"].join(shown))
        if beyond:
            yield self.texts[beyond]

    def sentences(self, rules: Iterable[Tree] | None = None, beyond: str = "") -> Iterator[str]:
        """Return notes: the value, when the formula holds, tied tensors, and the evidence."""
        fixed = self.fixed
        if rules is None:
            rules = self.region.rules
        if beyond == "raises":
            anew = lists_anew(self.lettering.values, self.computed)
            fixed = {name: fixed[name] for name in fixed if name not in anew}
        texts, ledger = self.texts, self.ledger
        tensors = sum(len(entry.indices) for entry in ledger.entries)
        yield texts["agrees"].format(count=count(ledger.parameters), tensors=count(tensors))
        yield from self.weighing.within(self.lang)
        if self.names != "fields" and any("⌊" in shown["letters"] for shown in self.shown.values()):
            yield texts["rest"]
        if self.needed:
            yield texts["exact"].format(rules=self.general["and"].join(self.needed))
        for tie in self.ties():
            formula = tie[self.names or "letters"]
            names = {"tensor": tie["tensor"], "to": tie["to"]}
            yield texts["tied"].format(**names, formula=formula, count=count(tie["value"]))
        yield from self.where_it_holds(rules, beyond)
        if fixed:
            fields = self.general["comma"].join(map(_decided, fixed.items()))
            yield texts["decided"].format(fields=fields)
        yield from self.known

    @property
    def fixed(self) -> dict[str, Any]:
        """The fields that are not numbers, and on which the tensors of the formula depend."""
        decided = {**self.lettering.decided()}
        decided |= {name: self.ledger.fields[name] for name in self.region.fixed}
        numbers = [name for name, value in decided.items() if is_number(value)]
        return {name: decided[name] for name in sorted(decided.keys() - set(numbers))}

    @property
    def needed(self) -> list[str]:
        """The rules of the family about the divisors in the formulas."""
        divisors = set[str]()
        for formula in self.every:
            for monomial in formula.polynomial.terms:
                divisors.update(factor for factor, power in monomial if power < 0)
        rules = []
        for rule, tree in self.ledger.blueprint.require.items():
            is_of_rest = tree[0] == "==" and tree[1][0] == "%"
            if is_of_rest and divisors.intersection(names_in(tree[1][2])):
                rules.append(rule)
        return rules

    def ties(self) -> Iterator[dict[str, Any]]:
        """Yield each tied tensor, its target, and the formula and number that it would add."""
        for entry in self.ledger.entries:
            if entry.tied and entry.template.tie:
                alone = entry._replace(tied=False)
                shown = self.in_names(self.ledger.formula_of([RowGroup("", (alone,))]))
                names = {"tensor": entry.template.name, "to": entry.template.tie.to}
                yield {**names, **shown, "value": alone.parameters}


def _decided(field: tuple[str, Any]) -> str:
    """Write a field that decides which tensors exist, with its value unless it is a collection."""
    name, value = field
    if isinstance(value, tuple) or hasattr(value, "keys"):
        return name
    return f"{name} = {source(('value', value))}"


def _report(formulas: _Formulas) -> tuple[Block, ...]:
    blocks: list[Block] = [Title(formulas.heading, wraps=False)]
    shown_names: tuple[str, ...] = NAMES
    if formulas.names:
        shown_names = (formulas.names,)
    for name, title, polynomial, value in formulas.every:
        parts = []
        if polynomial.fields():
            parts = [formulas.shown[name][names] for names in shown_names]
        blocks.append(Equalities(title, tuple(dict.fromkeys([*parts, count(value)]))))
    rows = []
    for size in formulas.sizes:
        letter = size.letter
        if letter == size.field:
            letter = ""
        rows.append((letter, size.field, size.meaning(formulas.lang), number(size.value)))
    if rows:
        blocks.append(Table(tuple(formulas.texts["header"]), tuple(rows), "<<<>"))
    definitions = [
        f"{name} = {value} = {shown['letters']}" for name, value, shown in formulas.parts
    ]
    if definitions:
        blocks.append(Definitions(tuple(definitions)))
    return (*blocks, Notes(tuple(formulas.sentences())))


def _latex(formulas: _Formulas) -> tuple[Block, ...]:
    lettering, in_letters = formulas.lettering, formulas.names != "fields"
    equations: list[tuple[str, tuple[str, ...]]] = []
    for _, title, polynomial, value in formulas.every:
        tree = lettering.tree(polynomial, letters=in_letters)
        name = rf"\text{{{math.escape_latex(title)}}}"
        equations.append((name, (_in_latex(tree), _in_latex(("value", value)))))
    for name, tree in lettering.parts.items():
        shown = floored(tree)
        if in_letters:
            shown = lettering.in_letters(shown)
        definition = f"{_in_latex(shown)} = {_in_latex(('value', lettering.value(name)))}"
        equations.append((_in_latex(("name", name)), (definition,)))
    legend = [
        f"{size.letter} = {size.field} = {number(size.value)}"
        for size in formulas.sizes
        if size.letter != size.field
    ]
    sentences = (formulas.heading, *legend, *formulas.sentences())
    return (Together((Comment(sentences, "% "), Aligned(tuple(equations)))),)


def _in_latex(tree: Tree) -> str:
    return math.with_names(tree, math.LATEX)


def _python(formulas: _Formulas) -> tuple[Block, ...]:
    totals, groups = _polynomials(formulas.totals), _polynomials(formulas.groups)
    source_code = code.python(
        formulas.lettering, totals, groups, f"{formulas.by}s", formulas.computed
    )
    comment = Comment((formulas.heading, *formulas.sentences((), "raises")), "# ")
    return (comment, Lines(f"\n{source_code}"))  # two empty lines precede a function


def _sql(formulas: _Formulas) -> tuple[Block, ...]:
    texts = formulas.texts
    query = code.sql(formulas.lettering, _polynomials(formulas.every))
    comments = [formulas.heading, *formulas.sentences(query.rules, "gives_null")]
    for expression, value in query.numbers.items():
        comments.append(texts["number"].format(count=value, expression=expression))
    if "CAST((" in query.text:
        comments.append(texts["division"])
    return (Together((Comment(tuple(comments), "-- "), Lines(query.text))),)


def _polynomials(formulas: Iterable[_Formula]) -> dict[str, Polynomial]:
    return {formula.name: formula.polynomial for formula in formulas}


def _to_dict(formulas: _Formulas) -> dict[str, Any]:
    weighing, lettering = formulas.weighing, formulas.lettering
    by_name = {}
    for name, _, _, value in formulas.every:
        by_name[name] = {**formulas.shown[name], "value": value}
    groups = {}
    if formulas.groups:
        named = {formula.name: by_name[formula.name] for formula in formulas.groups}
        groups = {f"{formulas.by}s": named}
    sizes = [{**size._asdict(), "meaning": size.meaning(formulas.lang)} for size in formulas.sizes]
    loops = {}
    for name, _, shown in formulas.parts:
        loops[name] = {**shown, "value": lettering.value(name)}
    decided = dict(lettering.decided())
    for name, value in decided.items():
        if isinstance(value, tuple):
            decided[name] = list(value)
    return {
        "model": weighing.model.where,
        "family": weighing.model.blueprint.family,
        "class": weighing.class_name,
        **{formula.name: by_name[formula.name] for formula in formulas.totals},
        **groups,
        "sizes": sizes,
        "loops": loops,
        "tied": list(formulas.ties()),
        "decided": decided,
        "region": [source(rule) for rule in formulas.region.rules],
        "needed": formulas.needed,
        "notes": weighing.notes,
        "evidence": weighing.evidence,
    }


_BLOCKS: Mapping[str, Callable[[_Formulas], tuple[Block, ...]]] = {
    "text": _report,
    "latex": _latex,
    "python": _python,
    "sql": _sql,
}
FORMS = (*_BLOCKS, "json")
"""The forms of a formula."""
