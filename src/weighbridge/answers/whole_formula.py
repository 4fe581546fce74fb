"""The formula of a whole family: as cases for people, and as Python that runs alone."""

from __future__ import annotations

import keyword
from typing import TYPE_CHECKING, Any

from weighbridge import data
from weighbridge.algebra.codegen import code as written_in
from weighbridge.algebra.codegen import identifiers, python_literal
from weighbridge.algebra.expr import SOURCE, names_in, source
from weighbridge.answers.answer import Answer
from weighbridge.answers.code import NEED, NEED_SOURCE, computed_for, in_brackets
from weighbridge.errors import ExpressionError, ModelError, UsageError
from weighbridge.ledger.family_formula import FamilyFormula, family_formula
from weighbridge.render.document import Comment, Document, Equalities, Lines, Notes, Title
from weighbridge.render.words import words
from weighbridge.units import count

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from weighbridge.algebra.expr import Tree
    from weighbridge.answers.weigh import Weighing
    from weighbridge.render.document import Block

FORMS = ("text", "python", "json")
"""The forms of a family's formula. SQL has no lists: `weighbridge sweep --sql` writes a grid."""
_INDENT = " " * 4
_TOTAL = "total"


class WholeFormula(Answer):
    """The parameters of a class as a formula that holds for every config of its family.

    `formula` returns it with ``whole=True``. It has cases: each is added where its conditions hold.

    Example:
        >>> from weighbridge.answers.formula import formula
        >>> found: dict[str, object] = {}
        >>> exec(formula("deepseek_v3", whole=True).text(code="python"), found)
        >>> found["parameters"](num_hidden_layers=4, first_k_dense_replace=9)
        3260619776
    """

    def __init__(self, weighing: Weighing, lang: str | None = None) -> None:
        self.weighing = weighing
        if lang is not None:
            words(lang)  # refuses an unknown language
            self.lang = lang
        blueprint, class_name = weighing.model.blueprint, weighing.class_name
        self.totals = {"parameters": self._formula(active=False)}
        if any(template.active for template in blueprint.templates(class_name)):
            self.totals["active"] = self._formula(active=True)

    def _formula(self, *, active: bool) -> FamilyFormula:
        try:
            return family_formula(
                self.weighing.model.blueprint, self.weighing.class_name, active=active
            )
        except ExpressionError as error:
            raise ModelError(
                f"the formula of all configs of {self.weighing.class_name} is too long to write",
                values=error.values,
                hint="drop --whole for the formula of this config, or lay a grid with "
                "`weighbridge sweep`",
            ) from error

    @property
    def notes(self) -> list[str]:
        """Notes on how the config was read."""
        return self.weighing.notes

    @property
    def rules(self) -> list[str]:
        """The rules of the family, and that each tensor has a size."""
        return [source(rule) for rule in self.totals["parameters"].rules]

    def to_dict(
        self, by: str = "total", names: str | None = None, code: str = "json"
    ) -> dict[str, Any]:
        """Return the cases, the rules, and the model's values, ready for JSON."""
        _check(by, names, code)
        totals = {}
        for name, formula in self.totals.items():
            totals[name] = [
                {"where": list(map(source, case)), "formula": source(polynomial.tree())}
                for case, polynomial in formula.cases.items()
            ]
        return {
            "model": self.weighing.model.where,
            "family": self.weighing.model.blueprint.family,
            "class": self.weighing.class_name,
            **totals,
            "rules": self.rules,
            "values": self.weighing.model.values,
        }

    def document(
        self,
        lang: str = "en",
        by: str = "total",
        names: str | None = None,
        code: str = "text",
        *,
        evidence: bool = False,
    ) -> Document:
        """Return the cases and the rules as text, or the code.

        Raises:
            UsageError: the form is not one of `FORMS`, or another choice does not apply.
        """
        _check(by, names, code)
        texts = {**words(lang), **data.read_toml(f"words/formula.{lang}.toml")}
        heading = f"{self.weighing.model.where} · {self.weighing.class_name}"
        known = tuple(self.weighing.known(lang, evidence=evidence))
        value = count(self.weighing.parameters)
        agrees = texts["whole_agrees"].format(count=value)
        if code == "python":
            comment = Comment((heading, texts["whole_python"], agrees, *known), "# ")
            return Document((comment, Lines(f"\n{self._python()}")), lang)
        blocks: list[Block] = [Title(heading, wraps=False)]
        for name, formula in self.totals.items():
            for case, polynomial in formula.cases.items():
                title = texts[name]
                if case:
                    where = texts["and"].join(map(source, case))
                    title = texts["whole_where"].format(name=title, where=where)
                blocks.append(Equalities(title, (source(polynomial.tree()),)))
        needs = texts["whole_needs"].format(rules=texts["comma"].join(self.rules))
        notes = (texts["whole_added"], agrees, *([needs] if self.rules else []), *known)
        return Document((*blocks, Notes(notes)), lang)

    def _python(self) -> str:
        functions = [NEED_SOURCE]
        for name, formula in self.totals.items():
            functions.append(_Function(name, formula, self.weighing).text())
        module = "\n\n\n".join(functions)
        if "math." in module:
            return f"import math\n\n\n{module}"
        return module


def _check(by: str, names: str | None, code: str) -> None:
    """Refuse the choices that a family's formula does not have."""
    if code not in FORMS:
        raise UsageError(
            "the formula of a whole family has no such form",
            values={"format": code},
            hint=f"use {', '.join(FORMS)}; `weighbridge sweep --sql` writes SQL for a grid",
        )
    if by != "total" or names not in (None, "fields"):
        raise UsageError(
            "the formula of a whole family is a total in the names of fields",
            values={"by": by, "names": names},
            hint="drop --by and --names, or --whole",
        )


class _Function:
    """Writes a function of all fields on which a formula and its rules depend."""

    def __init__(self, name: str, formula: FamilyFormula, weighing: Weighing) -> None:
        self.name, self.rules = name, formula.rules
        self.cases = {case: polynomial.tree() for case, polynomial in formula.cases.items()}
        self.blueprint, self.fields = weighing.model.blueprint, weighing.ledger.fields
        trees = [*formula.rules, *self.cases.values()]
        trees += [condition for case in self.cases for condition in case]
        used = {field for tree in trees for field in names_in(tree)}
        self.computed = computed_for(used, weighing.model.computed)
        for tree in self.computed.values():
            used.update(names_in(tree))
        used &= self.fields.keys()
        taken = {*keyword.kwlist, *SOURCE, "range", "math", "getattr", NEED, _TOTAL, name}
        self.own: Mapping[str, str] = identifiers(
            sorted(used), taken | self.blueprint.repeat.keys()
        )

    def text(self) -> str:
        """Return the source of the function."""
        arguments = [f"{_INDENT}{own}={self._default(name)}," for name, own in self.own.items()]
        inside = [*self._preface(), *self._checks(), *self._sum()]
        lines = "\n".join(inside).split("\n")
        body = [f"{_INDENT}{line}" for line in lines]
        message = python_literal("a list has fewer items than there are layers")
        end = [
            f"{_INDENT}except IndexError:",
            f"{_INDENT * 2}raise ValueError({message}) from None",
        ]
        return "\n".join([f"def {self.name}(", *arguments, "):", f"{_INDENT}try:", *body, *end])

    def _default(self, name: str) -> str:
        return "None" if name in self.computed else python_literal(self.fields[name])

    def _preface(self) -> Iterator[str]:
        """Yield the lines that compute the fields which are left out."""
        for name, tree in self.computed.items():
            if name in self.own:
                yield f"{_INDENT}if {self.own[name]} is None:"
                value = in_brackets(self._shown(tree), 2 * len(_INDENT))
                yield f"{_INDENT * 2}{self.own[name]} = {value}"

    def _checks(self) -> Iterator[str]:
        """Yield a line for each size and each rule, which refuses what breaks it."""
        for name, own in self.own.items():
            if name in self.blueprint.sizes:
                holds = size = f"{own} >= {int(name not in self.blueprint.zero)}"
                if self.fields[name] is None or name in self.blueprint.nullable:
                    holds = f"{own} is None or {size}"
                yield f"{_INDENT}{NEED}({holds}, {python_literal(size)})"
        for rule in self.rules:
            holds = in_brackets(self._shown(rule), 2 * len(_INDENT))
            yield f"{_INDENT}{NEED}("
            yield f"{_INDENT * 2}{holds},"
            yield f"{_INDENT * 2}{python_literal(source(rule))},"
            yield f"{_INDENT})"

    def _sum(self) -> Iterator[str]:
        """Yield the cases, each evaluated only where its conditions hold."""
        yield f"{_INDENT}{_TOTAL} = 0"
        for case, tree in self.cases.items():
            indent = _INDENT
            if case:
                conditions = " and ".join(f"({self._shown(condition)})" for condition in case)
                yield f"{indent}if {conditions}:"
                indent += _INDENT
            yield f"{indent}{_TOTAL} += {in_brackets(self._shown(tree), len(indent))}"
        yield f"{_INDENT}return {_TOTAL}"

    def _shown(self, tree: Tree) -> str:
        return written_in(tree, "python", lambda name: self.own.get(name, name))
