"""A model's count in closed form: as text, LaTeX, JSON, or Python and SQL code that runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
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
from weighbridge.ledger.region import lists_anew
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
    from weighbridge.answers.whole_formula import WholeFormula
    from weighbridge.ledger.lettering import Size
    from weighbridge.models.find import Described
    from weighbridge.render.document import Block

QUANTITIES = ("parameters", "flops", "saved", "cache")
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
    of: str = "parameters",
    profile: str | None = None,
    train: bool = False,
    whole: bool = False,
) -> ClosedForm | WholeFormula:
    r"""Return a model's parameter count in closed form, as a function of the config.

    It may also be what a run takes, as a function of the config and of the sizes of the run.

    Args:
        model: as for `weigh`.
        class_name: as for `weigh`.
        lang: the language of the answer: ``"en"``, the default, or ``"zh"``.
        fields: as for `weigh`.
        dtype: as for `weigh`.
        strict: as for `weigh`.
        blueprint: as for `weigh`.
        of: what is counted: ``"parameters"``, the default, ``"flops"`` of matrix products,
            ``"saved"`` bytes for a backward pass, or ``"cache"`` bytes; see `cost` and `cache`.
        profile: the kernels of a run, as for `cost`.
        train: the FLOPs are those of training, with the backward pass.
        whole: the formula holds for every config of the family, not for this one only: with cases
            for flags and layers. As text, Python or JSON.

    Raises:
        ModelError, ConfigError, BlueprintError: as for `weigh`; or no operations are recorded.
        UsageError: there is no such language, quantity or profile, or they do not go together.

    Example:
        >>> formula("meta-llama/Llama-3.1-8B", of="cache").to_dict()["cache_bytes"]["letters"]
        '4b·c·L·A_kv·D'
        >>> closed_form = formula("bert-base-chinese")
        >>> print(closed_form.text(code="latex", names="letters"))  # doctest: +ELLIPSIS
        % google-bert/bert-base-chinese · BertModel
        ...
        \begin{align*}
        \text{parameters} &= V\,H + P\,H + T\,H + 3H + L\,(4H^{2} + 2H\,F + 9H + F) + H^{2} \\
          &= 102{,}267{,}648
        \end{align*}
    """
    _check_choice("quantity", of, QUANTITIES)
    if whole and of != "parameters":
        raise UsageError(
            "the formula of a whole family counts parameters",
            values={"of": of},
            hint="drop --whole or --of",
        )
    if of != "parameters":
        from weighbridge.answers.run_formula import run_formula  # noqa: PLC0415  # few ask for it

        asked = RunAsked(of, profile, train)
        return run_formula(
            model,
            class_name,
            asked,
            lang=lang,
            fields=fields,
            dtype=dtype,
            strict=strict,
            blueprint=blueprint,
        )
    if profile is not None or train:
        raise UsageError(
            "the parameters do not depend on a run",
            values={"of": of},
            hint="add --of flops or --of saved, or drop --profile and --train",
        )
    weighing = weigh(
        model, class_name, fields=fields, dtype=dtype, strict=strict, blueprint=blueprint
    )
    if whole:
        from weighbridge.answers.whole_formula import WholeFormula  # noqa: PLC0415  # few ask

        return WholeFormula(weighing, lang)
    return ClosedForm(weighing, lang)


class RunAsked(NamedTuple):
    """What is counted of a run, with which kernels, and whether it is training."""

    of: str
    profile: str | None = None
    train: bool = False


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
        return self._formulas(self.lang, by, names, code).to_dict()

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
    ) -> Formulas:
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
        return self._written(by, names, lang, evidence=evidence)

    def _written(self, by: str, names: str | None, lang: str, *, evidence: bool) -> Formulas:
        return _CountFormulas(self.weighing, by, names, lang, evidence=evidence)


def _check_choice(what: str, chosen: str, known: Sequence[str]) -> None:
    if chosen not in known:
        raise UsageError(
            f"unknown {what}", values={what: chosen}, hint=f"use one of {', '.join(known)}"
        )


_CODE = ("python", "sql")


class NamedFormula(NamedTuple):
    """A formula with its title, its value, and its name in code."""

    name: str
    title: str
    polynomial: Polynomial
    value: int


class Formulas(ABC):
    """The facts from which every form is written; a kind of formulas says what they count."""

    counted: str
    """What the formulas add up."""

    def __init__(
        self, weighing: Weighing, lettering: Lettering, by: str, names: str | None, lang: str
    ) -> None:
        self.general = words(lang)
        self.weighing, self.by, self.names, self.lang = weighing, by, names, lang
        self.ledger, self.lettering = weighing.ledger, lettering
        self.computed: Mapping[str, Tree] = weighing.model.computed
        self.texts = data.read_toml(f"words/formula.{lang}.toml")
        self.totals: list[NamedFormula] = []
        self.groups: list[NamedFormula] = []

    def check(self) -> None:
        """Compare each formula with the sum that it stands for.

        Raises:
            WeighbridgeError: they differ.
        """
        for formula in self.every:
            if formula.polynomial(**self.lettering.values) != formula.value:
                raise WeighbridgeError(
                    f"its formula and the sum of its {self.counted} differ",
                    where=formula.name,
                    hint="please report it, with the config",
                )

    @property
    def every(self) -> list[NamedFormula]:
        """The groups and the totals."""
        return [*self.groups, *self.totals]

    @property
    def heading(self) -> str:
        """The model and its class."""
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
        """The numbers of the config and of the run that occur in a formula."""
        return list(self.lettering.sizes(formula.polynomial for formula in self.every))

    def meaning(self, size: Size) -> str:
        """Return the meaning of a size in words, if one is known."""
        return size.meaning(self.lang)

    @property
    def parts(self) -> list[tuple[str, str, dict[str, str]]]:
        """Each name of a loop, with its value and its meaning in letters and in fields."""
        lettering, parts = self.lettering, []
        for name, tree in lettering.parts.items():
            shown = {"letters": lettering.part(name), "fields": source(tree)}
            parts.append((name, count(lettering.value(name)), shown))
        return parts

    @cached_property
    def rules(self) -> tuple[Tree, ...]:
        """The rules of the region in which the formulas hold."""
        return self.lettering.rules()

    def where_it_holds(self, rules: Iterable[Tree], beyond: str) -> Iterator[str]:
        """Yield the rules of a region, if it is more than that sizes are positive.

        ``beyond`` is the key of a sentence about other sizes, or empty.
        """
        shown = list(dict.fromkeys(map(source, rules)))
        if shown:
            yield self.texts["region"].format(rules=self.general["and"].join(shown))
        if beyond:
            yield self.texts[f"{beyond}_{self.counted}"]

    def sentences(self, rules: Iterable[Tree] | None = None, beyond: str = "") -> Iterator[str]:
        """Return notes: the value, when the formula holds, what it leaves out, and the evidence."""
        fixed = self.fixed
        if rules is None:
            rules = self.rules
        if beyond == "raises":
            anew = lists_anew(self.lettering.values, self.computed)
            fixed = {name: fixed[name] for name in fixed if name not in anew}
        texts = self.texts
        yield from self.agreement()
        if self.names != "fields" and any("⌊" in shown["letters"] for shown in self.shown.values()):
            yield texts["rest"]
        if self.needed:
            yield texts["exact"].format(rules=self.general["and"].join(self.needed))
        yield from self.remarks()
        yield from self.where_it_holds(rules, beyond)
        if fixed:
            fields = self.general["comma"].join(map(_decided, fixed.items()))
            yield texts[f"decided_{self.counted}"].format(fields=fields)
        yield from self.known()

    @abstractmethod
    def agreement(self) -> Iterator[str]:
        """Yield what the formulas give, and what that agrees with."""

    @abstractmethod
    def remarks(self) -> Iterator[str]:
        """Yield what is not in the formulas."""

    @abstractmethod
    def known(self) -> Iterator[str]:
        """Yield how the numbers are known."""

    @property
    def fixed(self) -> dict[str, Any]:
        """The fields that are not numbers, and on which the formula depends."""
        decided = {**self.lettering.decided()}
        decided |= {name: self.lettering.values[name] for name in self.lettering.fixed_names}
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

    def to_dict(self) -> dict[str, Any]:
        """Return everything, ready for JSON."""
        weighing, lettering = self.weighing, self.lettering
        by_name = {}
        for name, _, _, value in self.every:
            by_name[name] = {**self.shown[name], "value": value}
        groups = {}
        if self.groups:
            named = {formula.name: by_name[formula.name] for formula in self.groups}
            groups = {f"{self.by}s": named}
        sizes = [{**size._asdict(), "meaning": self.meaning(size)} for size in self.sizes]
        loops = {}
        for name, _, shown in self.parts:
            loops[name] = {**shown, "value": lettering.value(name)}
        decided = dict(lettering.decided())
        for name, value in decided.items():
            if isinstance(value, tuple):
                decided[name] = list(value)
        return {
            "model": weighing.model.where,
            "family": weighing.model.blueprint.family,
            "class": weighing.class_name,
            **{formula.name: by_name[formula.name] for formula in self.totals},
            **groups,
            "sizes": sizes,
            "loops": loops,
            "decided": decided,
            "region": [source(rule) for rule in self.rules],
            "needed": self.needed,
        }


class _CountFormulas(Formulas):
    """The formulas of parameters: all of them, and those that are active."""

    counted = "tensors"

    def __init__(
        self, weighing: Weighing, by: str, names: str | None, lang: str, *, evidence: bool
    ) -> None:
        super().__init__(weighing, Lettering(weighing.ledger), by, names, lang)
        self._evidence, ledger, texts = evidence, self.ledger, self.texts
        self.totals = [
            NamedFormula("parameters", texts["parameters"], ledger.formula(), ledger.parameters)
        ]
        if ledger.has_experts:
            active = NamedFormula("active", texts["active"], ledger.active_formula(), ledger.active)
            self.totals.append(active)
        if by != "total":
            for line in ledger.by(by):
                title, polynomial = label(line.name, lang), ledger.formula_of([line])
                self.groups.append(NamedFormula(line.name, title, polynomial, line.parameters))
        self.check()

    def agreement(self) -> Iterator[str]:
        """Yield the sum over the tensors, and the parameters that are active."""
        tensors = sum(len(entry.indices) for entry in self.ledger.entries)
        parameters = count(self.ledger.parameters)
        yield self.texts["agrees"].format(count=parameters, tensors=count(tensors))
        yield from self.weighing.within(self.lang)

    def remarks(self) -> Iterator[str]:
        """Yield what tied tensors would add."""
        for tie in self.ties():
            formula = tie[self.names or "letters"]
            names = {"tensor": tie["tensor"], "to": tie["to"]}
            yield self.texts["tied"].format(**names, formula=formula, count=count(tie["value"]))

    def known(self) -> Iterator[str]:
        """Yield the evidence for the blueprint."""
        yield from self.weighing.known(self.lang, evidence=self._evidence)

    def ties(self) -> Iterator[dict[str, Any]]:
        """Yield each tied tensor, its target, and the formula and number that it would add."""
        for entry in self.ledger.entries:
            if entry.tied and entry.template.tie:
                alone = entry._replace(tied=False)
                shown = self.in_names(self.ledger.formula_of([RowGroup("", (alone,))]))
                names = {"tensor": entry.template.name, "to": entry.template.tie.to}
                yield {**names, **shown, "value": alone.parameters}

    def to_dict(self) -> dict[str, Any]:
        """Return everything, ready for JSON."""
        ties = {"tied": list(self.ties())}
        evidence = {"notes": self.weighing.notes, "evidence": self.weighing.evidence}
        return {**super().to_dict(), **ties, **evidence}


def _decided(field: tuple[str, Any]) -> str:
    """Write a field that decides which tensors exist, with its value unless it is a collection."""
    name, value = field
    if isinstance(value, tuple) or hasattr(value, "keys"):
        return name
    return f"{name} = {source(('value', value))}"


def _report(formulas: Formulas) -> tuple[Block, ...]:
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
        rows.append((letter, size.field, formulas.meaning(size), number(size.value)))
    if rows:
        blocks.append(Table(tuple(formulas.texts["header"]), tuple(rows), "<<<>"))
    definitions = [
        f"{name} = {value} = {shown['letters']}" for name, value, shown in formulas.parts
    ]
    if definitions:
        blocks.append(Definitions(tuple(definitions)))
    return (*blocks, Notes(tuple(formulas.sentences())))


def _latex(formulas: Formulas) -> tuple[Block, ...]:
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


def _python(formulas: Formulas) -> tuple[Block, ...]:
    totals, groups = _polynomials(formulas.totals), _polynomials(formulas.groups)
    source_code = code.python(
        formulas.lettering, totals, groups, f"{formulas.by}s", formulas.computed
    )
    comment = Comment((formulas.heading, *formulas.sentences((), "raises")), "# ")
    return (comment, Lines(f"\n{source_code}"))  # two empty lines precede a function


def _sql(formulas: Formulas) -> tuple[Block, ...]:
    texts = formulas.texts
    query = code.sql(formulas.lettering, _polynomials(formulas.every))
    comments = [formulas.heading, *formulas.sentences(query.rules, "gives_null")]
    for expression, value in query.numbers.items():
        comments.append(texts["number"].format(count=value, expression=expression))
    if "CAST((" in query.text:
        comments.append(texts["division"])
    return (Together((Comment(tuple(comments), "-- "), Lines(query.text))),)


def _polynomials(formulas: Iterable[NamedFormula]) -> dict[str, Polynomial]:
    return {formula.name: formula.polynomial for formula in formulas}


_BLOCKS: Mapping[str, Callable[[Formulas], tuple[Block, ...]]] = {
    "text": _report,
    "latex": _latex,
    "python": _python,
    "sql": _sql,
}
FORMS = (*_BLOCKS, "json")
"""The forms of a formula."""
