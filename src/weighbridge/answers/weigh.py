"""A weighing: a model's ledger with its totals, its evidence, and the ways to show it."""

from __future__ import annotations

import os
from functools import cached_property

from weighbridge import units
from weighbridge.answers.answer import TabularAnswer
from weighbridge.answers.stored import StoredFiles, dtype_beside_packed
from weighbridge.errors import ConfigError
from weighbridge.lean_typing import TYPE_CHECKING
from weighbridge.ledger.ledger import GROUPINGS, Ledger, bind
from weighbridge.ledger.lettering import Lettering
from weighbridge.ledger.symbols import letters_of
from weighbridge.models import catalogue
from weighbridge.models.coverage import held_fields
from weighbridge.models.find import Model, find, is_generative, thawed
from weighbridge.render.document import Aside, Document, Notes, Title, Together
from weighbridge.render.table import Table
from weighbridge.render.words import label, words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from weighbridge.algebra.polynomial import Polynomial
    from weighbridge.answers.data_table import DataTable
    from weighbridge.ledger.rows import Row, RowGroup
    from weighbridge.models.find import Described, Reading
    from weighbridge.render.document import Block

_ORIGINS_OF_ENTRIES = {"default": "class_defaults", "reconstructed": "reconstructed"}
"""The words for entries of the catalogue whose config.json was not copied."""


def weigh(
    model: Described,
    class_name: str | None = None,
    *,
    fields: Mapping[str, Any] | None = None,
    dtype: str | None = None,
    strict: bool = False,
    blueprint: str | os.PathLike[str] | Reading | None = None,
) -> Weighing:
    """Weigh a class of a model: every tensor, its shape, its role and its parameters.

    Args:
        model: a name in the catalogue, a path to a ``config.json`` or to a folder with one,
            ``"-"`` for a config on standard input, a family, a blueprint's ``.toml`` file, a config
            as a mapping or as a config object of transformers, or a module of PyTorch. A module
            without a matching blueprint is weighed by its own tensors.
        class_name: the class of the family to weigh; by default the class that the config names if
            it is generative (``LlamaForCausalLM``), otherwise the base class.
        fields: config fields to replace.
        dtype: the type of a stored element, such as ``"bf16"``; by default the config's dtype, or
            float32 if the config has none.
        strict: refuse a config with an unknown field.
        blueprint: a blueprint file to read the config with; `weighbridge derive` writes one for a
            class of yours. Or a function that makes a blueprint from the config and its path, such
            as `weighbridge.derive.running.via_transformers.blueprint_as_built`, which builds the
            model with transformers.

    Raises:
        ModelError: there is no such model, family, file or class, or the path is a folder of
            several models.
        ConfigError: the config cannot be read, or describes no buildable model.
        BlueprintError: the blueprint cannot be read, or breaks the law of its format.

    Example:
        >>> weigh("bert-base-chinese").parameters
        102267648
        >>> weigh("bert-base-chinese", "BertForMaskedLM", fields={"vocab_size": 30522}).parameters
        109514298
    """
    if class_name is None and blueprint is None:
        class_name = _class_in_folder(model)
    found = find(model, fields, strict=strict, blueprint=blueprint, class_name=class_name)
    chosen = found.class_called(class_name or found.default_class)
    return weighed(found, chosen, dtype=dtype, strict=strict)


def _class_in_folder(model: Described) -> str | None:
    """Return the class that the library of a folder builds, where that is no default of its own."""
    if not isinstance(model, str | os.PathLike):
        return None
    folder = os.fspath(model)
    if not os.path.isfile(os.path.join(folder, "modules.json")):
        return None
    from weighbridge.answers.sentence_encoder import class_in  # noqa: PLC0415  # for few folders

    return class_in(folder)


def weighed(found: Model, class_name: str, *, dtype: str | None, strict: bool) -> Weighing:
    """Weigh one of the classes of a model that was found.

    Raises:
        ConfigError: it is strict, and the config decides something that is not covered.
    """
    weighing = Weighing(found, class_name, None if dtype is None else units.dtype(dtype))
    if strict and weighing.chosen_stages:
        hint = "remove them, or drop --strict"
        raise ConfigError(weighing.chosen_stages[0], where=found.where, hint=hint)
    return weighing


_ASSUMED_DTYPE = "F32"  # the default of PyTorch


class Weighing(TabularAnswer):
    """What `weigh` returns.

    ``parameters`` and `active` count elements, `bytes` is their size in the dtype of the weighing.
    ``text()``, ``markdown()``, ``latex()`` and ``html()`` take ``lang`` and ``by``, one of
    ``"component"``, ``"role"``, ``"layer"`` and ``"tensor"``; ``csv()``, ``records()``,
    ``to_pandas()`` and ``to_arrow()`` take ``by``. The methods that take ``by`` raise a
    ``UsageError`` for any other grouping, and for a language that is neither ``"en"`` nor ``"zh"``.

    Example:
        >>> weighing = weigh("bert-base-chinese")
        >>> weighing.classes
        {'BertModel': 102267648, 'BertForMaskedLM': 102290312}
        >>> str(weighing.formula())
        'V·H + P·H + T·H + 3H + L·(4H² + 2H·F + 9H + F) + H²'
        >>> print(weighing.text(by="component").splitlines()[2])
        token embedding      V·H                   16,226,304   15.9%
        >>> weighing.records(by="component")[1]["parameters"]
        393216
    """

    groupings = GROUPINGS

    def __init__(self, model: Model, class_name: str, dtype: str | None = None) -> None:
        self.model = model
        self.class_name = class_name
        self.dtype_is = "asked for"
        """The origin of the dtype: requested, stated by the config, or the default of PyTorch."""
        if not dtype:
            dtype = model.stated_dtype
            self.dtype_is = "stated"
        if not dtype:
            dtype = dtype_beside_packed(model) or _ASSUMED_DTYPE
            self.dtype_is = "assumed"
        self.ledger: Ledger = bind(model.blueprint, class_name, model.fields, dtype)
        self.parameters: int = self.ledger.parameters
        """The unique parameters: ``sum(p.numel() for p in model.parameters())``."""

    @property
    def base_parameters(self) -> int | None:
        """The parameters of the base class inside a generative class.

        None for other classes, and for a class that lacks a tensor of the base class.
        """
        base_class = self.model.blueprint.base_class
        if self.class_name == base_class or not is_generative(self.class_name):
            return None
        base = self._ledgers[base_class]
        if not self.ledger.contains(base):
            return None
        return base.parameters

    @property
    def notes(self) -> list[str]:
        """Notes on how the config was read, and on what it decides that was not covered."""
        stages = [f"{self.model.where}: {chosen}." for chosen in self.chosen_stages]
        return [*self.model.notes, *stages, *self.files.notes(self.ledger)]

    @property
    def chosen_stages(self) -> list[str]:
        """What the config says about the stages of a backbone, and the blueprint does not cover."""
        if not self.class_name.endswith("Backbone"):
            return []
        from weighbridge.models.coverage import stages_chosen  # noqa: PLC0415  # most are not

        return list(stages_chosen(self.model.given, self.model.blueprint, self.class_name))

    @property
    def active(self) -> int | None:
        """The parameters that a token passes through; None without experts.

        Raises:
            ConfigError: the config routes each token to more experts than there are.

        Example:
            >>> mixtral, bert = weigh("mixtral"), weigh("bert")
            >>> mixtral.active < mixtral.parameters, bert.active is None
            (True, True)
        """
        if not self.ledger.has_experts:
            return None
        active = self.ledger.active
        if active > self.parameters:
            values = self.ledger.routed_fields()
            what = "each token is routed to more experts than there are"
            hint = "correct it, or the number of experts"
            raise ConfigError(what, where=self.model.where, values=values, hint=hint)
        return active

    @property
    def rows(self) -> list[Row]:
        """Every tensor in checkpoint order, as ``model.named_parameters()`` names it."""
        return self.ledger.rows

    @property
    def stored_rows(self) -> list[Row]:
        """Every tensor as ``save_pretrained`` names it in a file; mostly these are `rows`."""
        return self.ledger.stored_rows

    @property
    def bytes(self) -> int | None:
        """The size of the unique parameters in this dtype, or packed as the config says.

        None if the config names a way of packing that is not known.

        Example:
            >>> fp8 = {"quant_method": "fp8", "weight_block_size": [128, 128]}
            >>> llama = {"model_type": "llama", "dtype": "bfloat16", "quantization_config": fp8}
            >>> weigh(llama).bytes, weigh(llama, dtype="bf16").bytes
            (6740262912, 13214687232)
        """
        return self.files.size(self.ledger)

    @cached_property
    def files(self) -> StoredFiles:
        """The files: how they are quantised, and what they hold that the class drops."""
        named = self._ledgers[self.model.named_class]
        return StoredFiles(self.model, named, self.ledger.dtype, self.dtype_is)

    @property
    def classes(self) -> dict[str, int]:
        """The parameters of the base class, the class in the config and the weighed class."""
        return {name: ledger.parameters for name, ledger in self._ledgers.items()}

    @property
    def active_by_class(self) -> dict[str, int]:
        """The active parameters of the `classes` with experts."""
        ledgers = self._ledgers
        return {name: ledgers[name].active for name in ledgers if ledgers[name].has_experts}

    @cached_property
    def _ledgers(self) -> dict[str, Ledger]:
        """The ledgers of `classes`."""
        blueprint, fields = self.model.blueprint, self.model.fields
        ledgers = {}
        for name in (blueprint.base_class, self.model.named_class, self.class_name):
            if name == self.class_name:
                ledgers[name] = self.ledger
            elif name not in ledgers:
                ledgers[name] = bind(blueprint, name, fields)
        return ledgers

    @property
    def evidence(self) -> dict[str, Any]:
        """The evidence for the numbers: the blueprint, its proof, and the source of the config."""
        blueprint = self.model.blueprint
        return {
            "blueprint": blueprint.where or blueprint.family,
            "source": blueprint.source,
            "proof": dict(blueprint.proof),
            "held": {name: thawed(value) for name, value in self.held.items()},
            "config": {
                "where": self.model.where,
                "origin": self.model.origin,
                "source": self.model.source,
            },
            "dtype": self.dtype_is,
        }

    def known(self, lang: str, *, evidence: bool = False) -> list[str]:
        """Return the evidence for the numbers: in one line, or in full."""
        texts, stated = words(lang), self.evidence
        if self.model.origin == "module":
            return [Aside(texts["from_module"])]
        blueprint = {"family": stated["blueprint"], "source": stated["source"], **stated["proof"]}
        built = ""
        if blueprint["configs"] == _CONFIGS_OF_A_BUILT_MODEL:
            built = "_built"
        if evidence:
            sentences = [texts[f"blueprint{built}"].format(**blueprint)]
            sentences += [*self._tried(lang, blueprint), self.about_config(lang)]
            return [Aside(sentence) for sentence in sentences]
        config = texts["config_set_by_hand"]
        if not self.model.set_by_hand:
            config = texts[f"config_{self._origin}"]
        if not built and (self.held or "adversarial" in blueprint):
            return self._tried_in_brief(lang, blueprint, config)
        if config:
            config = texts["config_clause"].format(config=config)
        return [Aside(texts[f"known{built}"].format(config=config, **blueprint))]

    def _tried_in_brief(self, lang: str, proof: Mapping[str, Any], config: str) -> list[str]:
        """Say on how many configs the blueprint agrees, and which fields have one value only."""
        texts = words(lang)
        agrees = texts["known_held"]
        if "adversarial" in proof:
            agrees = texts["known_tried"]
        sentences = [agrees.format(**proof)]
        if self.held:
            names = texts["and"].join([*self.held][:_MOST_HELD])
            more = len(self.held) - _MOST_HELD
            if more > 0:
                names = texts["names_and_more"].format(names=names, more=more)
            sentences.append(texts["held_briefly"].format(fields=names))
        last = texts["more"]
        if config:
            last = texts["between_sentences"].join([texts["config_is"].format(config=config), last])
        return [Aside(sentence) for sentence in (*sentences, last)]

    def _tried(self, lang: str, proof: Mapping[str, Any]) -> Iterator[str]:
        """Yield what was tried besides random configs, and the fields with one value only."""
        texts = words(lang)
        if "adversarial" in proof:
            yield texts["tried"].format(**proof)
        if self.held:
            from weighbridge.algebra.expr import source  # noqa: PLC0415  # most have none

            fields = [f"{name} = {source(('value', value))}" for name, value in self.held.items()]
            yield texts["held"].format(fields=texts["and"].join(fields))

    @cached_property
    def held(self) -> dict[str, Any]:
        """The fields of which the blueprint covers one value only, with that value.

        Example:
            >>> weigh("dbrx").held
            {'tie_word_embeddings': False}
        """
        return held_fields(self.model.blueprint)

    @property
    def _origin(self) -> str:
        """The source of the config, as a key of the words."""
        entry = self.model.entry or {}
        return _ORIGINS_OF_ENTRIES.get(entry.get("how", ""), self.model.origin)

    def about_config(self, lang: str) -> str:
        """Name the source of the config and the fields that were set by hand."""
        texts, model = words(lang), self.model
        sentences = [texts[f"from_{self._origin}"].format(**self.evidence["config"])]
        if model.set_by_hand:
            fields = texts["and"].join(model.set_by_hand)
            sentences.append(texts["set_by_hand"].format(fields=fields))
        return texts["between_sentences"].join(sentences)

    def within(self, lang: str) -> list[str]:
        """Return the parameters of the base model and the active parameters, in words."""
        texts, sentences = words(lang), list[str]()
        if self.base_parameters is not None:
            count, share = self._figures(self.base_parameters)
            name = self.model.blueprint.base_class
            sentences.append(texts["base_holds"].format(name=name, count=count, share=share))
        if self.active is not None:
            count, share = self._figures(self.active)
            sentences.append(texts["active_are"].format(count=count, share=share))
        return sentences

    def by(self, grouping: str) -> dict[str, int]:
        """Return the unique parameters by ``"component"``, ``"role"``, ``"layer"`` or ``"tensor"``.

        Example:
            >>> weigh("bert-base-chinese").by("role")["attention.query"]
            7087104
        """
        return {line.name: line.parameters for line in self._lines(grouping)}

    def _lines(self, grouping: str) -> list[RowGroup]:
        """Return the groups; by tensor, those of the files."""
        if grouping == "tensor":
            return self.ledger.stored.by(grouping)
        return self.ledger.by(grouping)

    def formula(self, **fields: Any) -> Any:
        """Return the total in letters, or its value for config fields.

        A field is an integer or an array.

        Example:
            >>> weigh("bert-base-chinese").formula(vocab_size=30522)
            109482240
        """
        if fields:
            return self.ledger.formula(**fields)
        return Formula(self.ledger.formula(), self.model)

    def to_dict(self, by: str = "component") -> dict[str, Any]:
        """Return everything, ready for JSON; by tensor also the rows of the files."""
        formula = self.ledger.formula()
        of_experts, stored = {}, {}
        if self.ledger.has_experts:
            of_experts = {"active": self.active, "active_by_class": self.active_by_class}
        if by == "tensor":  # there may be very many of these
            stored = {"stored_rows": [row._asdict() for row in self.stored_rows]}
        return {
            "model": self.model.where,
            "family": self.model.blueprint.family,
            "class": self.class_name,
            "parameters": self.parameters,
            **of_experts,
            "dtype": self.ledger.dtype,
            "bytes": self.bytes,
            **self.files.to_dict(self.ledger),
            "classes": self.classes,
            "formula": {"letters": str(Formula(formula, self.model)), "fields": repr_of(formula)},
            "components": self.by("component"),
            "rows": [row._asdict() for row in self.rows],
            **stored,
            "config": self.model.values,
            "fields": self.model.accounts,
            "notes": self.notes,
            "evidence": self.evidence,
        }

    def document(
        self, lang: str = "en", by: str = "component", *, evidence: bool = False
    ) -> Document:
        """Return the weighing as a document, its groups in a table.

        ``evidence`` adds all sources of the numbers.
        """
        title = Title(f"{self.model.where} · {self.class_name}", wraps=False)
        table = self.table(by, lang)  # before the legend, because it orders the names
        notes = Notes((*self._sentences(by, lang), *self.known(lang, evidence=evidence)))
        return Document((Together((title, table)), notes), lang)

    def pictures(self, lang: str) -> Sequence[Block]:
        """Return the map of the layers."""
        from weighbridge.answers.layer_maps import layer_map  # noqa: PLC0415  # HTML alone has it

        return (layer_map(self.ledger, lang),)

    def _data_table(self, by: str) -> DataTable:
        """Return a row for each group, with the shape of a tensor or a formula in field names."""
        from weighbridge.answers.data_table import (  # noqa: PLC0415  # a terminal does without
            INTEGER,
            Column,
            DataTable,
        )

        rows: list[tuple[Any, ...]] = []
        if by == "tensor":
            for row in self.stored_rows:
                sizes = (list(row.dims), list(row.shape), row.count, row.parameters)
                rows.append((row.name, row.role, *sizes))
            dims = Column("dims", joined_by=" ")
            shape = Column("shape", INTEGER, joined_by="x")
            numbers = (Column("count", INTEGER), Column("parameters", INTEGER))
            return DataTable((Column(by), Column("role"), dims, shape, *numbers), rows)
        for line in self._lines(by):
            formula = repr_of(self.ledger.formula_of([line]))
            rows.append((line.name, formula, line.parameters))
        return DataTable((Column(by), Column("formula"), Column("parameters", INTEGER)), rows)

    def table(self, by: str = "component", lang: str = "en") -> Table:
        """Return the groups as a table: name, formula, unique parameters, share; and the total.

        Tensors have a shape instead of a formula, and no share, because full names leave no room
        for it.
        """
        if by == "tensor":
            return self._table_of_tensors(lang)
        texts = words(lang)
        rows, shares = [], []
        for line in self._lines(by):
            formula = self._lettering.text(self.ledger.formula_of([line]))
            if line.tied and not line.parameters:
                formula = texts["all_tied"]
            rows.append((label(line.name, lang), formula, *self._figures(line.parameters)))
            shares.append(units.fraction(line.parameters, self.parameters))
        totals = self._totals(lang)
        header = (texts[by], texts["formula"], texts["parameters"], texts["share"])
        share_column = len(header) - 1
        return Table(header, (*rows, *totals), "<<>>", len(totals), tuple(shares), share_column)

    def _table_of_tensors(self, lang: str) -> Table:
        texts = words(lang)
        rows = []
        for line in self._lines("tensor"):
            shape = "×".join(map(str, line.entries[0].shape)) or "1"  # a scalar has an empty shape
            rows.append((label(line.name, lang), shape, units.count(line.parameters)))
        totals = [total[:3] for total in self._totals(lang)]
        header = (texts["tensor"], texts["shape"], texts["parameters"])
        return Table(header, (*rows, *totals), "<<>", len(totals))

    def _totals(self, lang: str) -> list[tuple[str, ...]]:
        texts = words(lang)
        totals: list[tuple[str, ...]] = []
        if self.base_parameters is not None:
            base = texts["base_model"].format(name=self.model.blueprint.base_class)
            totals.append((base, "", *self._figures(self.base_parameters)))
        totals.append((texts["total"], "", *self._figures(self.parameters)))
        if self.active is not None:
            totals.append((texts["active"], "", *self._figures(self.active)))
        return totals

    def _figures(self, parameters: int) -> tuple[str, str]:
        return units.count(parameters), units.share(parameters, self.parameters)

    @cached_property
    def _lettering(self) -> Lettering:
        return Lettering(self.ledger)

    def _sentences(self, by: str, lang: str) -> Iterator[str]:
        """Yield the notes below the table."""
        texts, is_by_tensor = words(lang), by == "tensor"
        if not is_by_tensor:
            yield Aside(f"{texts['where']} {self._legend(by, lang)}")
        if self.ledger.tied:
            yield texts["tied"].format(count=units.count(self.ledger.tied))
        if is_by_tensor and self.ledger.stored is not self.ledger:
            yield self._in_files(lang)
        for name, parameters in self.classes.items():
            yield self._class_line(name, parameters, lang)
        if self._is_mistakable:
            yield texts["defaults"].format(family=self.model.where)

    @property
    def _is_mistakable(self) -> bool:
        """Whether a family's default sizes may be taken for those of a released model."""
        model = self.model
        if model.origin != "defaults" or model.set_by_hand or model.where != model.blueprint.family:
            return False
        return any(model.where in name for name in catalogue.full_names())

    def _in_files(self, lang: str) -> str:
        """Say that these are the tensors of files, and how many the class itself has."""
        stored, held = units.count(self.ledger.stored.tensors), units.count(self.ledger.tensors)
        names = {"stored": stored, "held": held, "class": self.class_name}
        return words(lang)["in_files"].format(**names)

    def _legend(self, by: str, lang: str) -> str:
        """Explain the letters in the formula of the total and the names in this table."""
        texts, lettering, formula = words(lang), self._lettering, self.ledger.formula()
        legend = []

        def add(name: str, value: float, meaning: str) -> None:
            shown = units.number(value)
            legend.append(texts["legend"].format(letter=name, value=shown, meaning=meaning))

        for size in lettering.sizes([formula]):
            if size.letter != size.field:
                add(size.letter, size.value, size.meaning(lang))
        lettering.named(formula)
        if lettering.parts:
            for line in self.ledger.by(by):
                lettering.named(self.ledger.formula_of([line]))
        for name in lettering.parts:
            add(name, lettering.value(name), lettering.part_meaning(name, lang))
        return texts["comma"].join(legend)

    def _class_line(self, name: str, parameters: int, lang: str) -> str:
        """Describe a class: its parameters, their size, and why it is mentioned."""
        texts, model = words(lang), self.model
        marks = []
        if name == model.blueprint.base_class:
            marks.append(texts["base_class"])
        if name == model.named_class and model.config.get("architectures"):
            marks.append(texts["named_class"])
        if name == self.class_name:
            marks.append(texts["weighed"])
        stored = self.files.size_text(self._ledgers[name], lang)
        active = self.active_by_class.get(name)
        if active is not None:
            stored = texts["class_active"].format(count=units.count(active), stored=stored)
        return texts["class"].format(
            name=name,
            count=units.count(parameters),
            stored=stored,
            marks=texts["and"].join(marks),
        )


_MOST_HELD = 3  # fields that the short report names
_CONFIGS_OF_A_BUILT_MODEL = 1  # in a proof: the config from which transformers built the model


class Formula:
    """A polynomial in the letters of a model; call it with fields for its value.

    Example:
        >>> formula = weigh("bert-base-chinese").formula()
        >>> formula(**weigh("bert-base-uncased").model.fields)
        109482240
    """

    def __init__(self, polynomial: Polynomial, model: Model) -> None:
        self.polynomial = polynomial
        self._model = model

    def __call__(self, **fields: Any) -> Any:
        """Return the value for these fields, which are integers or arrays."""
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
