"""Derives a count in an article: its sentences are data, its numbers come from the ledger."""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge import data
from weighbridge.algebra.expr import parse, source
from weighbridge.answers.answer import Answer
from weighbridge.answers.sentences import Narrator, marked_shape, picked
from weighbridge.answers.weigh import Weighing, weigh
from weighbridge.blueprint.roles import component_of
from weighbridge.errors import ModelError
from weighbridge.ledger.ledger import bind
from weighbridge.ledger.places import ONE
from weighbridge.ledger.rows import RowGroup
from weighbridge.ledger.symbols import meaning_of
from weighbridge.render.document import (
    Aside,
    Block,
    Bullets,
    Chain,
    Code,
    Document,
    Grid,
    Heading,
    Paragraph,
    plain,
)
from weighbridge.render.table import Table
from weighbridge.render.words import label, words
from weighbridge.units import count

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping

    from weighbridge.algebra.expr import Tree
    from weighbridge.ledger.rows import Entry
    from weighbridge.models.find import Described


def explain(
    model: Described,
    class_name: str | None = None,
    *,
    lang: str | None = None,
    fields: Mapping[str, Any] | None = None,
    strict: bool = False,
    blueprint: str | os.PathLike[str] | None = None,
) -> Article:
    """Derive a model's parameter count step by step, as an article.

    Args:
        model: as for `weigh`.
        class_name: as for `weigh`.
        lang: the language of the article: ``"en"``, the default, or ``"zh"``.
        fields: as for `weigh`.
        strict: as for `weigh`.
        blueprint: as for `weigh`.

    Raises:
        ModelError, ConfigError, BlueprintError: as for `weigh`.
        UsageError: there is no such language.

    Example:
        >>> article = explain("bert-base-chinese", lang="zh")
        >>> print(article.text().splitlines()[0])
        google-bert/bert-base-chinese 的 102,267,648 个参数是怎么算出来的
    """
    weighing = weigh(model, class_name, fields=fields, strict=strict, blueprint=blueprint)
    if weighing.model.origin == "module":
        what = "no blueprint counts this module, so there is no derivation to explain"
        hint = "`weighbridge derive package.module:Class` derives a blueprint from its code"
        raise ModelError(what, where=weighing.model.where, hint=hint)
    return Article(weighing, lang)


class Article(Answer):
    """What `explain` returns: the derivation of a weighing's count.

    ``markdown()`` writes mathematics that Git forges render.
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

    def to_dict(self) -> dict[str, Any]:
        """Return the facts of the article, ready for JSON."""
        return self.weighing.to_dict()

    def document(self, lang: str = "en", *, evidence: bool = False) -> Document:
        """Return the article; ``evidence`` adds all sources of the numbers."""
        words(lang)
        return _Writer(self.weighing, lang).document(evidence=evidence)


class _Writer:
    """Writes an article: its formulas and tables, and the sentences around them."""

    def __init__(self, weighing: Weighing, lang: str) -> None:
        self.weighing, self.lang = weighing, lang
        self.ledger, self.model = weighing.ledger, weighing.model
        self.texts = data.read_toml(f"words/explain.{lang}.toml")
        self.narrator = Narrator(self.ledger)
        self.letters, self.values = self.narrator.letters, self.narrator.values
        self.everything = [RowGroup("", self.ledger.entries)]

    def document(self, *, evidence: bool) -> Document:
        sections = list(self.sections())
        blocks: list[Block] = [
            Heading(1, self.fill("title")),
            self.opening(),
            *self.sizes(),
            *chain.from_iterable(map(self.section, sections)),
            *self.total([section.lines for section in sections]),
            *self.pitfalls(),
            *self.left_out(),
            *self.known(evidence=evidence),
        ]
        return Document(tuple(blocks), self.lang, self.values)

    def opening(self) -> Paragraph:
        sentences = [self.fill("opening_long")]
        if len(self.formula(self.everything)) <= _LONGEST_IN_TEXT:
            sentences = [self.fill("opening")]
        if self.ledger.active < self.ledger.parameters:
            sentences.append(self.fill("opening_active"))
        return Paragraph(self.joined(sentences))

    def fill(self, key: str, **more: Any) -> str:
        """Return a sentence with the figures of the whole class, and others, in its braces."""
        text: str = self.texts[key]
        return text.format(**self.figures(self.everything), **more)

    def figures(self, lines: list[RowGroup]) -> dict[str, Any]:
        """Return the values for braces, for some lines together."""
        formula, shown = self.formula(lines), {}
        if len(formula) <= _LONGEST_FORMULA:
            shown = {"formula": f"${formula}$"}
        return {
            **shown,
            "count": f"$={sum(line.parameters for line in lines)}$",
            "active": f"$={self.ledger.formula_of(lines, active=True)(**self.ledger.fields)}$",
            "tied": f"$={sum(line.tied for line in lines)}$",
            "total": self.weighing.parameters,
            "model": plain(self.model.where),
            "class": f"`{self.weighing.class_name}`",
        }

    def joined(self, sentences: Iterable[str]) -> str:
        return words(self.lang)["between_sentences"].join(filter(None, sentences))

    def base_entries(self) -> tuple[Entry, ...]:
        """Return the entries of the base class, some of which this class may lack."""
        blueprint = self.model.blueprint
        return bind(blueprint, blueprint.base_class, self.model.fields).entries

    # Sections

    def sections(self) -> Iterator[_Section]:
        """Yield each section with tensors: those shared by all parts, each part, the rest."""
        parts: dict[str, list[Entry]] = {"": []}
        for entry in self.ledger.entries:
            parts.setdefault(self.tower(entry), []).append(entry)
        if len(parts) <= 2:  # a single part is the whole model
            parts = {"": list(self.ledger.entries)}
        shared, *towers = [
            list(self.sections_of(tower, entries)) for tower, entries in parts.items()
        ]
        first = [section for section in shared if section.rank <= _LAYERS]
        yield from first
        yield from chain.from_iterable(towers)
        yield from shared[len(first) :]

    def tower(self, entry: Entry) -> str:
        """Return the part of the model that contains a tensor; empty for a head or no part."""
        if entry.template.role.startswith("head"):
            return ""
        for piece in entry.template.name.split("."):
            for tower in self.texts["tower"]:
                if piece in tower["pieces"]:
                    return str(tower["title"])
        return ""

    def sections_of(self, tower: str, entries: list[Entry]) -> Iterator[_Section]:
        """Yield the sections of one part of the model, each with its components."""
        components: dict[str, list[Entry]] = {}
        for entry in entries:
            components.setdefault(component_of(entry.template.role), []).append(entry)
        lines = {
            name: RowGroup(name, tuple(of_component)) for name, of_component in components.items()
        }
        for rank, section in enumerate(self.texts["section"]):
            here = [lines[name] for name in section["components"] if name in lines]
            if here:
                title = section["title"]
                if tower:
                    title = self.texts["in_tower"].format(tower=tower, within=section["within"])
                sentences = self.narrator.narrate(
                    section["say"], _entries(here), entries, **self.figures(here)
                )
                yield _Section(rank, title, self.joined(sentences), here, entries)

    def section(self, section: _Section) -> Iterator[Block]:
        yield Heading(2, section.title)
        if section.text:
            yield Paragraph(section.text)
        if layers := self.layers(_entries(section.lines)):
            yield Paragraph(layers)
        for line in section.lines:
            if len(section.lines) > 1:
                yield Heading(3, label(line.name, self.lang))
            yield from self.component(line, section.around)
        if len(section.lines) > 1:
            yield Paragraph(self.texts["subtotal"])
            yield self.derivation(section.lines)

    def layers(self, entries: list[Entry]) -> str:
        """Say whether layers are alike; return no text if there are none."""
        repeated = [entry for entry in entries if entry.template.repeat]
        outer = {entry.template.repeat[0] for entry in repeated}
        if not repeated:
            return ""
        index = min(outer)
        if len(outer) > 1 or any(entry.template.varies for entry in repeated):
            text: str = self.texts["layers_differ"]
            return text.format(index=index)
        number = self.in_letters(self.model.blueprint.repeat[index])
        text = self.texts["repeats_alike"]
        if number.startswith("L"):
            text = self.texts["layers_alike"]
        return text.format(index=index, layers=f"${number}$", last=f"$={number}-1$")

    def component(self, line: RowGroup, around: list[Entry]) -> Iterator[Block]:
        sentences = self.texts["component"].get(line.name, ())
        text = self.joined(
            self.narrator.narrate(sentences, line.entries, around, **self.figures([line]))
        )
        if text:
            yield Paragraph(text)
        yield self.tensors(line)
        ties = [
            f"`{entry.template.name}` = `{entry.template.tie.to}`"
            for entry in line.entries
            if entry.tied and entry.template.tie
        ]
        if ties:
            yield Paragraph(self.texts["tied_list"].format(names=self.listed(ties)))
        yield self.derivation([line])

    def tensors(self, line: RowGroup) -> Grid:
        """Return a table of a component's tensors: name, shape in letters, elements in a layer."""
        rows = []
        for entry in line.entries:
            elements = count(_one(entry))
            if entry.tied:
                elements = self.texts["tied_cell"]
            rows.append((f"`{_name(entry)}`", marked_shape(self.narrator.dims(entry)), elements))
        return Grid(Table(tuple(self.texts["tensor_header"]), tuple(rows), "<<>"))

    def derivation(self, lines: list[RowGroup]) -> Chain:
        """Return the chain: letters, numbers, layers times one layer, value."""
        formula, value = self.formula(lines), sum(line.parameters for line in lines)
        parts = []
        if len(formula) <= _LONGEST_FORMULA:
            parts = [formula]
        if parts and _is_arithmetic(tree := parse(formula)) and tree[0] != "name":
            parts.append(f"#{formula}")
        indices = {entry.indices for entry in _entries(lines)}
        if (
            len(indices) == 1
            and len(layers := indices.pop()) > 1
            and not formula.replace(" * ", "").isidentifier()
        ):
            parts.append(f"{len(layers)}*{value // len(layers)}")
        return Chain(tuple(dict.fromkeys([*parts, f"={value}"])))

    # The rest

    def sizes(self) -> Iterator[Block]:
        used = self.ledger.formula().fields() | self.model.blueprint.sizes & set(self.model.config)
        rows = []
        for name in (*self.letters, *sorted(used - self.letters.keys())):
            if name not in used & self.values.keys():
                continue
            letter, meaning = self.letters.get(name, name), ""
            if name in self.letters:
                meaning = meaning_of(name, self.lang)
            rows.append((f"${letter}$", f"`{name}`", meaning, f"$={letter}$"))
        yield Heading(2, self.texts["sizes"])
        yield Paragraph(self.texts["sizes_intro"])
        yield Grid(Table(tuple(self.texts["size_header"]), tuple(rows), "<<<>"))

    def total(self, sections: list[list[RowGroup]]) -> Iterator[Block]:
        sums = [sum(line.parameters for line in lines) for lines in sections]
        yield Heading(2, self.texts["total"])
        yield Paragraph(self.texts["total_intro"])
        formula = self.formula(self.everything)
        parts = [" + ".join(map(str, sums)), f"={self.weighing.parameters}"]
        if len(formula) <= _LONGEST_FORMULA:
            parts.insert(0, formula)
        yield Chain(tuple(dict.fromkeys(parts)))
        if within := self.weighing.within(self.lang):
            yield Paragraph(plain(self.joined(within)))

    def pitfalls(self) -> Iterator[Block]:
        items: list[str] = []
        for pitfall in self.texts["pitfall"]:
            entries = self.entries_of(pitfall)
            if entries:
                figures = self.figures([RowGroup("", tuple(entries))])
                items += self.narrator.narrate([pitfall], entries, self.ledger.entries, **figures)
        yield Heading(2, self.texts["wrong"])
        yield Bullets(tuple(items))

    def entries_of(self, pitfall: Mapping[str, Any]) -> list[Entry]:
        """Return the tensors that a pitfall is about, in this class or missing from it."""
        entries = [entry for entry in self.ledger.entries if _picked(entry, pitfall)]
        if "absent" not in pitfall:
            return entries
        if entries:
            return []
        return [entry for entry in self.base_entries() if _picked(entry, pitfall)]

    def left_out(self) -> Iterator[Block]:
        rows = set()
        for row in self.ledger.buffers():
            rows.add((re.sub(r"(?<=\.)\d+(?=\.)", "*", row.name), row.shape))
        buffers = []
        for name, shape in sorted(rows):
            sizes = " × ".join(map(count, shape))
            buffers.append(f"`{name}` ({sizes})")
        others = [
            f"`{name}`"
            for name in self.model.blueprint.class_names
            if name != self.weighing.class_name
        ]
        items = [self.texts["nothing"]]
        if buffers:
            items.append(self.texts["buffers"].format(names=self.listed(buffers)))
        if others:
            items.append(self.texts["classes"].format(names=self.listed(others)))
        yield Heading(2, self.texts["left_out"])
        yield Bullets(tuple(items))

    def known(self, *, evidence: bool) -> Iterator[Block]:
        yield Heading(2, self.texts["known"])
        known = self.weighing.known(self.lang, evidence=evidence)
        yield Paragraph(Aside(plain(words(self.lang)["between_sentences"].join(known))))
        yield Paragraph(self.texts["to_check"])
        yield Code(self.check())

    def check(self) -> str:
        """Return Python code that counts the real model on the meta device, without weights."""
        family, name = self.model.blueprint.family, self.weighing.class_name
        set_by = "".join(f", {field}={value!r}" for field, value in self.to_set().items())
        return (
            "import torch\n"
            f"from transformers import AutoConfig, {name}\n\n"
            f'config = AutoConfig.for_model("{family}"{set_by})\n'
            'with torch.device("meta"):\n'
            f"    model = {name}(config)\n"
            f"print(sum(p.numel() for p in model.parameters()))  # {self.weighing.parameters}"
        )

    def to_set(self) -> dict[str, Any]:
        """Return the fields that differ from the reference's defaults.

        The fields of a sub-config are in a nested dict.
        """
        blueprint, fields = self.model.blueprint, self.model.fields
        changed = [field for field in fields if fields[field] != blueprint.at_defaults[field]]
        configs = [path for path in blueprint.configs if _is_changed(path, changed)]
        values: dict[str, Any] = {}
        for path in sorted(configs):
            sub_config = {}
            if kind := blueprint.configs[path]:
                sub_config = {"model_type": kind}
            _put(values, path, sub_config)
        for field, value in fields.items():
            usual = blueprint.at_defaults[field]
            if field.rpartition(".")[0] in configs:
                usual = blueprint.given.get(field, usual)
            if value != usual and isinstance(value, bool | int | float | str | tuple | None):
                _put(values, field, _plain_value(value))
        return values

    def listed(self, names: list[str]) -> str:
        return words(self.lang)["and"].join(names)

    # Formulas

    def formula(self, lines: Iterable[RowGroup]) -> str:
        """Return the formula of some lines as mathematics, in letters."""
        tree = self.ledger.formula_of(lines).tree(
            sorted(self.model.blueprint.repeats), tuple(self.letters)
        )
        return source(self.narrator.renamed(tree))

    def in_letters(self, tree: Tree) -> str:
        """Return an expression as mathematics, simplified, in letters."""
        return source(
            self.narrator.renamed(self.ledger.letters.of(tree).tree((), tuple(self.letters)))
        )


class _Section(NamedTuple):
    """A section: rank, title, introduction, components, and the tensors of its part."""

    rank: int
    title: str
    text: str
    lines: list[RowGroup]
    around: list[Entry]


_LAYERS = 1  # rank of the section of layers; later sections follow those of all parts
_LONGEST_FORMULA = 1_000  # characters of its source; a longer formula explains nothing
_LONGEST_IN_TEXT = 160


def _is_changed(path: str, fields: Iterable[str]) -> bool:
    """Whether any of these fields is in the sub-config at this path."""
    return any(field.startswith(f"{path}.") for field in fields)


def _plain_value(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    return value


def _put(values: dict[str, Any], dotted: str, value: Any) -> None:
    """Set a field of nested configs by its dotted name."""
    *path, last = dotted.split(".")
    for piece in path:
        values = values.setdefault(piece, {})
    values[last] = value


def _entries(lines: Iterable[RowGroup]) -> list[Entry]:
    return list(chain.from_iterable(line.entries for line in lines))


def _is_arithmetic(tree: Tree) -> bool:
    """Whether a formula has only numbers, letters and basic operations."""
    return tree[0] in ("name", "value") or (
        tree[0] in _OPERATIONS and all(map(_is_arithmetic, tree[1:]))
    )


_OPERATIONS = ("+", "-", "*", "//", "**", "neg")


def _name(entry: Entry) -> str:
    """Return a tensor's name with ``{i}`` for all layers, or a list: ``h.{0,2,4-5}.norm``."""
    if all(isinstance(values, range) for values, _ in entry.indices.blocks):
        return entry.template.name
    runs: list[list[int]] = []
    for index in entry.indices.outermost:
        if runs and index == runs[-1][-1] + 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    layers = ",".join(map(_run_of_layers, runs))
    return entry.template.name.replace(f"{{{entry.template.repeat[0]}}}", f"{{{layers}}}")


def _run_of_layers(run: list[int]) -> str:
    if len(run) == 1:
        return str(run[0])
    return f"{run[0]}-{run[-1]}"


def _one(entry: Entry) -> int:
    return entry._replace(indices=ONE, tied=False).parameters


def _picked(entry: Entry, pitfall: Mapping[str, Any]) -> bool:
    """Whether a pitfall is about this tensor."""
    selectors = (*pitfall.get("of", ()), *pitfall.get("absent", ())) or ("",)
    is_norm = "norm" in entry.template.role
    return (
        any(picked(entry, of) for of in selectors)
        and pitfall.get("norms", is_norm) == is_norm
        and (not pitfall.get("tied") or entry.tied)
    )
