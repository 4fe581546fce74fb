"""A weighing: a model's ledger with its totals, its evidence, and the ways to show it."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from weighbridge import units
from weighbridge.ledger.ledger import Ledger, bind
from weighbridge.ledger.lettering import Lettering
from weighbridge.ledger.symbols import letters_of
from weighbridge.models.find import Model, find
from weighbridge.render.table import Table, csv, html, markdown, text, wrap
from weighbridge.render.words import label, words

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from weighbridge.algebra.polynomial import Polynomial
    from weighbridge.ledger.rows import Row, RowGroup
    from weighbridge.models.find import Reading


def weigh(
    model: str | os.PathLike[str] | Mapping[str, Any],
    class_name: str | None = None,
    *,
    fields: Mapping[str, Any] | None = None,
    dtype: str | None = None,
    strict: bool = False,
    blueprint: str | os.PathLike[str] | Reading | None = None,
) -> Weighing:
    """Weigh a class of a model: every tensor, its shape, its role and its parameters.

    Args:
        model: a name in the catalogue, a path to a ``config.json`` or to a folder that holds one,
            ``"-"`` for a config on standard input, a family, a blueprint's ``.toml`` file, or a
            config as a mapping.
        class_name: which class of the family to weigh; the base class when left out.
        fields: config fields to replace.
        dtype: how an element is stored; the config's own when left out, and float32 where it says
            none.
        strict: refuse a config with a field that nobody knows.
        blueprint: the file of a blueprint to read the config by; `weighbridge derive` writes one
            for a class of yours. Or what makes one of the config and of where it is from:
            `weighbridge.derive.running.via_transformers.counted` has transformers build it.

    Raises:
        ModelError: there is no such model, family, file or class.
        ConfigError: the config cannot be read, or describes no buildable model.
        BlueprintError: the blueprint cannot be read, or breaks the law of its format.

    Example:
        >>> weigh("bert-base-chinese").parameters
        102267648
        >>> weigh("bert-base-chinese", "BertForSequenceClassification", fields={"num_labels": 14}).parameters
        102278414
    """
    found = find(model, fields, strict=strict, blueprint=blueprint)
    return Weighing(
        found,
        class_name or found.blueprint.base_class,
        None if dtype is None else units.dtype(dtype),
    )


_ASSUMED_DTYPE = "F32"  # what PyTorch makes where nobody says


class Weighing:
    """What `weigh` returns.

    Example:
        >>> weighing = weigh("bert-base-chinese")
        >>> weighing.classes
        {'BertModel': 102267648, 'BertForMaskedLM': 102290312}
        >>> str(weighing.formula())
        'V·H + P·H + T·H + 3H + L·(4H² + 2H·F + 9H + F) + H²'
        >>> print(weighing.text(by="component").splitlines()[2])
        token embedding      V·H                   16,226,304   15.9%
    """

    def __init__(self, model: Model, class_name: str, dtype: str | None = None) -> None:
        self.model = model
        self.class_name = class_name
        stated = None if dtype else model.stated_dtype
        self.dtype_is = "asked for" if dtype else "stated" if stated else "assumed"
        """How the dtype is known: asked for, stated by the config, or assumed, as the framework does."""
        self.ledger: Ledger = bind(
            model.blueprint, class_name, model.fields, dtype or stated or _ASSUMED_DTYPE
        )
        self.parameters: int = self.ledger.parameters
        """What ``sum(p.numel() for p in model.parameters())`` gives: unique parameters of the class."""

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return self.html()

    @property
    def rows(self) -> list[Row]:
        """Every tensor of the model in checkpoint order, as ``model.named_parameters()`` names it."""
        return self.ledger.rows

    @property
    def stored_rows(self) -> list[Row]:
        """Every tensor as files hold it, under the names that ``save_pretrained`` writes; mostly these are `rows`."""
        return self.ledger.stored_rows

    @property
    def bytes(self) -> int:
        """What the unique parameters take in this dtype."""
        return units.stored_bytes(self.parameters, self.ledger.dtype)

    @property
    def classes(self) -> dict[str, int]:
        """The unique parameters of the base class, of the class that the config names, and of the one weighed."""
        blueprint, named = self.model.blueprint, self.model.named_class
        wanted = dict.fromkeys((blueprint.base_class, named, self.class_name))
        return {name: bind(blueprint, name, self.model.fields).parameters for name in wanted}

    @property
    def evidence(self) -> dict[str, Any]:
        """How the numbers are known: which blueprint, from what, proved on what, and where the config came from."""
        blueprint = self.model.blueprint
        return {
            "blueprint": blueprint.where or blueprint.family,
            "source": blueprint.source,
            "proof": dict(blueprint.proof),
            "config": {
                "where": self.model.where,
                "origin": self.model.origin,
                "source": self.model.source,
            },
            "dtype": self.dtype_is,
        }

    def known(self, lang: str) -> list[str]:
        """Say the evidence: a sentence on the blueprint, and one on the config."""
        said, evidence = words(lang), self.evidence
        blueprint = {
            "family": evidence["blueprint"],
            "source": evidence["source"],
            **evidence["proof"],
        }
        from_ = said[f"from_{self.model.origin}"]
        return [said["blueprint"].format(**blueprint), from_.format(**evidence["config"])]

    def by(self, grouping: str) -> dict[str, int]:
        """Return the unique parameters by ``"component"``, ``"role"``, ``"layer"`` or ``"tensor"``.

        Example:
            >>> weigh("bert-base-chinese").by("role")["attention.query"]
            7087104
        """
        return {line.name: line.parameters for line in self._lines(grouping)}

    def _lines(self, grouping: str) -> list[RowGroup]:
        """Return the groups; a tensor is one of a file."""
        return (self.ledger.stored if grouping == "tensor" else self.ledger).by(grouping)

    def formula(self, **fields: Any) -> Any:
        """Return the total in letters; or, given config fields, its value at other sizes: integers or arrays.

        Example:
            >>> weigh("bert-base-chinese").formula(vocab_size=30522)
            109482240
        """
        return (
            self.ledger.formula(**fields) if fields else Formula(self.ledger.formula(), self.model)
        )

    def to_dict(self, by: str = "component") -> dict[str, Any]:
        """Return everything, ready for JSON; by tensor also what files hold, which may be very many rows."""
        formula = self.ledger.formula()
        return {
            "model": self.model.where,
            "family": self.model.blueprint.family,
            "class": self.class_name,
            "parameters": self.parameters,
            **({"active": self.ledger.active} if self.ledger.has_experts else {}),
            "dtype": self.ledger.dtype,
            "bytes": self.bytes,
            "classes": self.classes,
            "formula": {"letters": str(Formula(formula, self.model)), "fields": repr_of(formula)},
            "components": self.by("component"),
            "rows": [row._asdict() for row in self.rows],
            **(
                {"stored_rows": [row._asdict() for row in self.stored_rows]}
                if by == "tensor"
                else {}
            ),
            "config": self.model.values,
            "fields": self.model.accounts,
            "notes": self.model.notes,
            "evidence": self.evidence,
        }

    def text(self, by: str = "component", lang: str = "en") -> str:
        """Write the weighing for a terminal."""
        heading = f"{self.model.where} · {self.class_name}"
        return "\n".join(
            [heading, text(self.table(by, lang)), "", *map(wrap, self._notes(by, lang))]
        )

    def markdown(self, by: str = "component", lang: str = "en") -> str:
        """Write the weighing in Markdown."""
        from weighbridge.render.document import escape_markdown  # noqa: PLC0415

        notes = (f"- {escape_markdown(note)}" for note in self._notes(by, lang))
        heading = f"**{escape_markdown(self.model.where)} · {self.class_name}**"
        return "\n".join([heading, "", markdown(self.table(by, lang)), "", *notes])

    def html(self, by: str = "component", lang: str = "en") -> str:
        """Write the weighing as a piece of HTML."""
        from html import escape  # noqa: PLC0415

        notes = "".join(f"<li>{escape(note)}</li>" for note in self._notes(by, lang))
        heading = f"<p><b>{escape(self.model.where)} · {escape(self.class_name)}</b></p>"
        return f"{heading}\n{html(self.table(by, lang), escape)}\n<ul>{notes}</ul>"

    def csv(self, by: str = "component") -> str:
        """Write the groups as CSV: one line each, and no total, so that a column adds up."""
        if by == "tensor":
            shown = [
                (
                    row.name,
                    row.role,
                    " ".join(row.dims),
                    "x".join(map(str, row.shape)),
                    row.count,
                    row.parameters,
                )
                for row in self.stored_rows
            ]
            return csv([("tensor", "role", "dims", "shape", "count", "parameters"), *shown])
        lines = self._lines(by)
        shown_lines = [
            (line.name, repr_of(self.ledger.formula_of([line])), line.parameters) for line in lines
        ]
        return csv([(by, "formula", "parameters"), *shown_lines])

    def table(self, by: str = "component", lang: str = "en") -> Table:
        """Return the groups as a table: name, formula, unique parameters, share; and the total.

        Tensors have their shape in place of a formula, and no share: a whole name leaves no room
        for one.
        """
        said, whole, of_tensors = words(lang), self.parameters, by == "tensor"
        rows = [
            (
                label(line.name, lang),
                _shape(line.entries[0].shape)
                if of_tensors
                else self._lettering.text(self.ledger.formula_of([line])),
                units.count(line.parameters),
                units.share(line.parameters, whole),
            )
            for line in self._lines(by)
        ]
        totals = [(said["total"], "", units.count(whole), units.share(whole, whole))]
        if self.ledger.has_experts:
            active = self.ledger.active
            totals.append((said["active"], "", units.count(active), units.share(active, whole)))
        header = (
            said[by],
            said["shape" if of_tensors else "formula"],
            said["parameters"],
            said["share"],
        )
        columns = 3 if of_tensors else 4
        cut = tuple(row[:columns] for row in (header, *rows, *totals))
        return Table(cut[0], cut[1:], "<<>>"[:columns], totals=len(totals))

    @cached_property
    def _lettering(self) -> Lettering:
        return Lettering(self.ledger)

    def _notes(self, by: str, lang: str) -> list[str]:
        said = words(lang)
        tied = self.ledger.tied
        return [
            *([] if by == "tensor" else [f"{said['where']} {self._legend(by, lang)}"]),
            *([said["tied"].format(count=units.count(tied))] if tied else []),
            *(
                [self._in_files(lang)]
                if by == "tensor" and self.ledger.stored is not self.ledger
                else []
            ),
            *(self._class_line(name, total, lang) for name, total in self.classes.items()),
            *self.known(lang),
        ]

    def _in_files(self, lang: str) -> str:
        """Say that the tensors are those of files, and how many the class itself has."""
        stored, held = (units.count(each.tensors) for each in (self.ledger.stored, self.ledger))
        return words(lang)["in_files"].format(
            stored=stored, held=held, **{"class": self.class_name}
        )

    def _legend(self, by: str, lang: str) -> str:
        """Say what the letters of the total's formula are, what the names in this table's are, and their values."""
        said, written, formula = words(lang), self._lettering, self.ledger.formula()
        sizes = [size for size in written.sizes([formula]) if size.letter != size.field]
        shown = [(size.letter, size.value, size.meaning(lang)) for size in sizes]
        written.named(formula)
        for line in self.ledger.by(by) if written.parts else ():
            written.named(self.ledger.formula_of([line]))
        shown += [(name, written.value(name), written.part(name)) for name in written.parts]
        return said["comma"].join(
            said["legend"].format(letter=letter, value=units.number(value), meaning=meaning)
            for letter, value, meaning in shown
        )

    def _class_line(self, name: str, total: int, lang: str) -> str:
        said, blueprint = words(lang), self.model.blueprint
        marks = {
            "base_class": name == blueprint.base_class,
            "named_class": name == self.model.named_class
            and bool(self.model.config.get("architectures")),
            "weighed": name == self.class_name,
        }
        notes = [said[mark] for mark, holds in marks.items() if holds]
        dtype = self.ledger.dtype
        key = "stored_assumed" if self.dtype_is == "assumed" else "stored"
        stored = said[key].format(size=units.size(units.stored_bytes(total, dtype)), dtype=dtype)
        return said["class"].format(
            name=name, count=units.count(total), stored=stored, marks=said["and"].join(notes)
        )


def _shape(shape: tuple[int, ...]) -> str:
    """Write a shape, a scalar's as 1."""
    return "×".join(map(str, shape)) or "1"


class Formula:
    """A polynomial shown in the letters of a model: what `Weighing.formula` returns; call it with fields for its value.

    Example:
        >>> formula = weigh("bert-base-chinese").formula()
        >>> formula(**weigh("bert-base-uncased").model.fields)
        109482240
    """

    def __init__(self, polynomial: Polynomial, model: Model) -> None:
        self.polynomial = polynomial
        self._model = model

    def __call__(self, **fields: Any) -> Any:
        """Return the value where the fields have these values: integers or arrays."""
        return self.polynomial(**fields)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Formula) and self.polynomial == other.polynomial

    def __hash__(self) -> int:
        return hash(self.polynomial)

    def __str__(self) -> str:
        blueprint = self._model.blueprint
        return self.polynomial.text(letters_of(blueprint), sorted(blueprint.repeats))

    __repr__ = __str__


def repr_of(formula: Polynomial) -> str:
    """Write a formula in field names, in Python."""
    from weighbridge.algebra.expr import source  # noqa: PLC0415

    return source(formula.tree())
