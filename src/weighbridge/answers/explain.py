"""Derives a count in an article: its sentences are data, its numbers come from the ledger."""

from __future__ import annotations

import re
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge import data
from weighbridge.algebra.expr import parse, source
from weighbridge.answers.answer import Answer
from weighbridge.answers.diagrams import Diagrams
from weighbridge.answers.layer_maps import layer_map
from weighbridge.answers.notation import Notation, names_shown
from weighbridge.answers.sentences import Narrator, marked_shape, picked
from weighbridge.answers.weigh import Weighing, weigh
from weighbridge.blueprint.roles import component_of
from weighbridge.errors import ModelError, UsageError
from weighbridge.ledger.ledger import bind
from weighbridge.ledger.places import ONE
from weighbridge.ledger.rows import RowGroup
from weighbridge.ledger.symbols import meaning_of
from weighbridge.models.find import is_generative
from weighbridge.render.document import (
    Aside,
    Block,
    Bullets,
    Chain,
    Code,
    Diagram,
    Document,
    Grid,
    Heading,
    Paragraph,
    plain,
    write,
)
from weighbridge.render.saved import save
from weighbridge.render.table import Table
from weighbridge.render.words import label, words
from weighbridge.units import count

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from weighbridge.algebra.expr import Tree
    from weighbridge.algebra.polynomial import Polynomial
    from weighbridge.ledger.rows import Entry
    from weighbridge.models.find import Described, Model


def explain(  # noqa: PLR0913  # each is a word of its own for the user
    model: Described,
    class_name: str | None = None,
    *,
    lang: str | None = None,
    title: str | None = None,
    letters: Mapping[str, str] | None = None,
    assume: Sequence[str] = (),
    fields: Mapping[str, Any] | None = None,
    strict: bool = False,
    blueprint: str | os.PathLike[str] | None = None,
    costs: bool = False,
    batch: int = 1,
    sequence: int | None = None,
    dtype: str | None = None,
) -> Article:
    """Derive a model's parameter count step by step, as an article; or the costs of a run.

    Args:
        model: as for `weigh`.
        class_name: as for `weigh`.
        lang: the language of the article: ``"en"``, the default, or ``"zh"``.
        title: the title of the article; by default it names the model and its count.
        letters: other letters for sizes, by ours or by config fields: ``{"H": "h", "P": "N"}``.
        assume: equations that simplify the formulas, such as ``"F = 4H"``; the config must agree.
        fields: as for `weigh`.
        strict: as for `weigh`.
        blueprint: as for `weigh`.
        costs: derive the FLOPs of a run and the bytes of its cache instead; see `cost`.
        batch: for costs, the sequences in a batch.
        sequence: for costs, the tokens in each sequence; 128 by default.
        dtype: for costs, the dtype of the run; by default as for `weigh`.

    Raises:
        ModelError, ConfigError, BlueprintError: as for `weigh`; or no operations are recorded.
        UsageError: there is no such language or letter, two sizes have one letter, or the config
            contradicts an assumption.

    Example:
        >>> article = explain("bert-base-chinese", lang="zh")
        >>> print(article.text().splitlines()[0])
        google-bert/bert-base-chinese 的 102,267,648 个参数是怎么算出来的
        >>> article = explain("bert-base-chinese", letters={"H": "h"}, assume=["F = 4H"])
        >>> print(article.text().splitlines()[3])
        BertModel has V·h + P·h + T·h + 3h + L·(12h² + 13h) + h² parameters, which for
    """
    if costs:
        from weighbridge.answers.explain_costs import explain_costs  # noqa: PLC0415  # few ask

        if letters or assume or blueprint is not None:
            raise UsageError(
                "the costs of a run are derived in our letters, for the blueprints of this package",
                hint="drop --letters, --assume, --blueprint and --via",
            )
        return explain_costs(
            model,
            class_name,
            lang=lang,
            title=title,
            batch=batch,
            sequence=sequence,
            dtype=dtype,
            fields=fields,
            strict=strict,
        )
    if batch != 1 or sequence is not None:
        raise UsageError("the parameters do not depend on a run", hint="add --costs")
    weighing = weigh(model, class_name, fields=fields, strict=strict, blueprint=blueprint)
    if weighing.model.origin == "module":
        what = "no blueprint counts this module, so there is no derivation to explain"
        hint = "`weighbridge derive package.module:Class` derives a blueprint from its code"
        raise ModelError(what, where=weighing.model.where, hint=hint)
    return Article(weighing, lang, ArticleStyle(title, letters, assume))


class ArticleStyle(NamedTuple):
    """An author's choices for an article: its title, letters for sizes, and assumptions."""

    title: str | None = None
    letters: Mapping[str, str] | None = None
    assume: Sequence[str] = ()


class Article(Answer):
    """What `explain` returns: the derivation of a weighing's count."""

    def __init__(
        self, weighing: Weighing, lang: str | None = None, style: ArticleStyle | None = None
    ) -> None:
        self.weighing, self.style = weighing, style or ArticleStyle()
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

    def markdown(self, lang: str | None = None, *, site: str = "github", **choices: Any) -> str:
        """Write it in Markdown, with mathematics as a site renders it.

        Args:
            lang: as for `text`.
            site: ``"github"`` for Git forges, or ``"zhihu"`` for Zhihu, CSDN and Typora.
            choices: as for `text`.

        Raises:
            UsageError: the language or the site is unknown.
        """
        if site not in _FORMATS_BY_SITE:
            hint = f"use one of {', '.join(_FORMATS_BY_SITE)}"
            raise UsageError("unknown site", values={"site": site}, hint=hint)
        return write(self._in_language(lang, choices), _FORMATS_BY_SITE[site])

    def document(self, lang: str = "en", *, evidence: bool = False) -> Document:
        """Return the article; ``evidence`` adds all sources of the numbers."""
        words(lang)
        return _Writer(self.weighing, lang, self.style).document(evidence=evidence)

    def paragraphs(self, lang: str | None = None) -> dict[str, list[str]]:
        """Return the sentences on each component, as the article has them: prose with marks.

        A component that is in several parts of the model has a paragraph for each. The marks are
        those of `render.document`, and `values` has what the letters in them stand for.

        Raises:
            UsageError: the language is unknown.

        Example:
            >>> explain("bert-base-chinese").paragraphs()["ffn.norm"]
            ['Another residual addition and a second LayerNorm complete the layer.']
        """
        lang = self.lang if lang is None else lang
        words(lang)
        return _Writer(self.weighing, lang, self.style).paragraphs()

    @property
    def values(self) -> dict[str, Any]:
        """The value of each letter, and of each field without a letter."""
        return _Writer(self.weighing, self.lang, self.style).notation.values

    @property
    def has_diagrams(self) -> bool:
        """Whether it has diagrams, which a terminal and Markdown on stdout leave out."""
        return any(isinstance(block, Diagram) for block in self.document(self.lang).blocks)

    def save(
        self, path: str | os.PathLike[str], form: str = "", lang: str | None = None, **choices: Any
    ) -> list[Path]:
        """Write it to a file, and return the paths of this file and of its diagrams.

        In Markdown, the diagrams are SVG files beside it; in HTML and LaTeX they are part of it.

        Args:
            path: the file; an existing one is replaced.
            form: ``"text"``, ``"markdown"``, ``"latex"`` or ``"html"``; by default the ending of
                the file decides.
            lang: as for `text`.
            choices: as for `text`.

        Raises:
            UsageError: the language is unknown, or a file cannot be written.
        """
        return save(self._in_language(lang, choices), Path(path), form)


_FORMATS_BY_SITE = {"github": "markdown", "zhihu": "zhihu"}


class _Writer:
    """Writes an article: its formulas and tables, and the sentences around them."""

    def __init__(self, weighing: Weighing, lang: str, style: ArticleStyle) -> None:
        self.weighing, self.lang, self.style = weighing, lang, style
        self.ledger, self.model = weighing.ledger, weighing.model
        self.texts = data.read_toml(f"words/explain.{lang}.toml")
        self.narrator = Narrator(self.ledger, self.model.given)
        self.letters = self.narrator.letters
        self.notation = Notation(self.narrator, style.letters or {}, style.assume)
        self.everything = [RowGroup("", self.ledger.entries)]

    def document(self, *, evidence: bool) -> Document:
        sections = list(self.sections())
        derivation: list[Block] = [
            *chain.from_iterable(map(self.section, sections)),
            *self.total([section.lines for section in sections]),
            *self.pitfalls(),
        ]
        opening = list(self.notation.blocks([self.opening()]))
        derivation = list(self.notation.blocks(derivation))
        blocks: list[Block] = [
            Heading(1, self.title()),
            *opening,
            layer_map(self.ledger, self.lang),
            *self.sizes(names_shown([*opening, *derivation])),
            *derivation,
            *self.notation.blocks(self.left_out()),
            *self.known(evidence=evidence),
        ]
        return Document(tuple(blocks), self.lang, self.notation.values)

    def title(self) -> str:
        if self.style.title is not None:
            return plain(self.style.title)
        return self.fill("title")

    def opening(self) -> Paragraph:
        sentences = [self.fill("opening_long")]
        formula = self.formula(self.everything)
        if len(formula) <= _LONGEST_IN_TEXT and _is_arithmetic(parse(formula)):
            sentences = [self.fill("opening")]
        sentences += self.beside()
        if self.ledger.active < self.ledger.parameters:
            sentences.append(self.fill("opening_active"))
        return Paragraph(self.joined(sentences))

    def beside(self) -> Iterator[str]:
        """Yield the counts of other classes that people may mean."""
        base_class = self.model.blueprint.base_class
        for name, number in self.weighing.classes.items():
            if name != self.weighing.class_name:
                kind = "named"
                if name == base_class:
                    kind = "base"
                text = self.texts[f"beside_{kind}"]
                yield text.format(name=f"`{name}`", number=f"$={number}$")
        if list(self.weighing.classes) == [base_class]:
            others = [
                self.texts["class_count"].format(name=f"`{name}`", number=f"$={number}$")
                for name, number in self.generative_classes().items()
            ]
            if others:
                yield self.texts["beside_generative"].format(others=self.listed(others))

    def generative_classes(self) -> dict[str, int]:
        """Return the count of each class that generates text with the whole base model."""
        blueprint, counts = self.model.blueprint, dict[str, int]()
        for name in blueprint.class_names:
            if is_generative(name) and name != blueprint.base_class:
                ledger = bind(blueprint, name, self.model.fields)
                if ledger.contains(self.ledger):
                    counts[name] = ledger.parameters
        return counts

    def fill(self, key: str, **more: Any) -> str:
        """Return a sentence with the figures of the whole class, and others, in its braces."""
        text: str = self.texts[key]
        return text.format(**self.figures(self.everything), **more)

    def figures(self, lines: list[RowGroup]) -> dict[str, Any]:
        """Return the values for braces, for some lines together."""
        formula, shown = self.formula(lines), {}
        if len(formula) <= _LONGEST_FORMULA:
            shown = {"formula": f"${formula}$"}
        active = self.ledger.formula_of(lines, active=True)
        active_count = active(**self.ledger.fields)
        parameters = sum(line.parameters for line in lines)
        return {
            **shown,
            "count": f"$={parameters}$",
            "equation": _equation(formula, parameters),
            "active": f"$={active_count}$",
            "active_equation": _equation(self.as_text(active), active_count),
            "tied": f"$={sum(line.tied for line in lines)}$",
            "total": self.weighing.parameters,
            "model": plain(title_name(self.model)),
            "class": f"`{self.weighing.class_name}`",
            "base_class": f"`{self.model.blueprint.base_class}`",
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
        shared, *towers = [
            list(self.sections_of(tower, entries)) for tower, entries in self.parts().items()
        ]
        first = [section for section in shared if section.rank <= _LAYERS]
        yield from first
        yield from chain.from_iterable(towers)
        yield from shared[len(first) :]

    def parts(self) -> dict[str, list[Entry]]:
        """Return the tensors of each part of the model, and first those of no part."""
        parts: dict[str, list[Entry]] = {"": []}
        for entry in self.ledger.entries:
            parts.setdefault(self.tower(entry), []).append(entry)
        if len(parts) <= 2:  # a single part is the whole model
            return {"": list(self.ledger.entries)}
        return parts

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
        diagrams = self.diagrams(section.around)
        yield from diagrams.of_section([line.name for line in section.lines])
        for line in section.lines:
            if len(section.lines) > 1:
                yield Heading(3, label(line.name, self.lang))
            yield from self.component(line, section.around)
        if sum(bool(line.parameters) for line in section.lines) > 1:
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
        if all(len(entry.indices) == 1 for entry in repeated):
            indices = dict.fromkeys(chain.from_iterable(e.template.repeat for e in repeated))
            names = [f"`{{{index}}}`" for index in indices]
            text = self.texts["single_copy"]
            return text.format(indices=self.listed(names))
        number = self.in_letters(self.model.blueprint.repeat[index])
        text = self.texts["repeats_alike"]
        if number.startswith("L"):
            text = self.texts["layers_alike"]
        return text.format(index=index, layers=f"${number}$", last=f"$={number}-1$")

    def paragraphs(self) -> dict[str, list[str]]:
        """Return the sentences on each component, a paragraph for each part that has it."""
        found: dict[str, list[str]] = {}
        for section in self.sections():
            for line in section.lines:
                text = self.notation.prose(self.sentences(line, section.around))
                if text:
                    found.setdefault(line.name, []).append(text)
        return found

    def sentences(self, line: RowGroup, around: list[Entry]) -> str:
        """Return what is to say on a component, in one paragraph."""
        sentences = self.texts["component"].get(line.name, ())
        figures = self.figures([line])
        return self.joined(self.narrator.narrate(sentences, line.entries, around, **figures))

    def component(self, line: RowGroup, around: list[Entry]) -> Iterator[Block]:
        text = self.sentences(line, around)
        if text:
            yield Paragraph(text)
        yield from self.diagrams(around).of_component(line.name)
        yield self.tensors(line)
        ties = [
            f"`{entry.template.name}` = `{entry.template.tie.to}`"
            for entry in line.entries
            if entry.tied and entry.template.tie
        ]
        if ties:
            yield Paragraph(self.texts["tied_list"].format(names=self.listed(ties)))
        if line.parameters:
            yield self.derivation([line])

    def diagrams(self, entries: list[Entry]) -> Diagrams:
        """Return the diagrams of a part of the model."""
        class_name, config = self.weighing.class_name, self.model.config
        return Diagrams(self.narrator, entries, class_name, config, self.lang)

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
        *parts, result = derived(formula, value)
        indices = {entry.indices for entry in _entries(lines)}
        if (
            len(indices) == 1
            and len(layers := indices.pop()) > 1
            and not formula.replace(" * ", "").isidentifier()
        ):
            parts.append(f"{len(layers)}*{value // len(layers)}")
        return Chain(tuple(dict.fromkeys([*parts, result])))

    # The rest

    def sizes(self, names: set[str]) -> Iterator[Block]:
        """Yield the table of the sizes whose letters are shown, and the assumptions."""
        rows = []
        for letter, field in self.sizes_by_letter():
            shown, meaning = self.notation.names.get(letter, letter), ""
            if shown not in names:
                continue
            if field in self.letters:
                meaning = meaning_of(field, self.lang)
            rows.append((f"${shown}$", f"`{field}`", meaning, f"$={shown}$"))
        yield Heading(2, self.texts["sizes"])
        yield Paragraph(self.texts["sizes_intro"])
        yield Grid(Table(tuple(self.texts["size_header"]), tuple(rows), "<<<>"))
        assumptions = list(self.notation.assumptions())
        if assumptions:
            yield Paragraph(self.texts["assumed"].format(assumptions=self.listed(assumptions)))

    def sizes_by_letter(self) -> list[tuple[str, str]]:
        """Return our letter and the field of each size: those with a letter first, in order."""
        field_by_letter = self.narrator.fields_by_letter
        ranked = [letter for letter in self.letters.values() if letter in field_by_letter]
        rest = sorted(field_by_letter.keys() - set(ranked))
        return [(letter, field_by_letter[letter]) for letter in (*ranked, *rest)]

    def total(self, sections: list[list[RowGroup]]) -> Iterator[Block]:
        sums = filter(None, [sum(line.parameters for line in lines) for lines in sections])
        yield Heading(2, self.texts["total"])
        yield Paragraph(self.texts["total_intro"])
        formula = self.formula(self.everything)
        parts = [" + ".join(map(str, sums)), f"={self.weighing.parameters}"]
        if len(formula) <= _LONGEST_FORMULA:
            parts.insert(0, formula)
        yield Chain(tuple(dict.fromkeys(parts)))
        base, whole = self.weighing.base_parameters, self.weighing.parameters
        if base is not None and base < whole:
            yield Paragraph(self.fill("without_head"))
            yield Chain((f"{whole} - {whole - base}", f"={base}"))

    def pitfalls(self) -> Iterator[Block]:
        items: list[str] = []
        for pitfall in self.texts["pitfall"]:
            entries = self.entries_of(pitfall)
            if entries:
                figures = self.figures([RowGroup("", tuple(entries))])
                text = self.narrator.filled(pitfall, entries, figures)
                items += filter(None, [text])
        yield Heading(2, self.texts["wrong"])
        yield Bullets(tuple(items))

    def entries_of(self, pitfall: Mapping[str, Any]) -> list[Entry]:
        """Return the tensors that a pitfall is about, in this class or missing from it.

        They are those of the parts of the model for which it is true.
        """
        if "absent" in pitfall:
            if any(_picked(entry, pitfall) for entry in self.ledger.entries):
                return []
            return [entry for entry in self.base_entries() if _picked(entry, pitfall)]
        entries: list[Entry] = []
        for of_part in self.parts().values():
            chosen = [entry for entry in of_part if _picked(entry, pitfall)]
            if self.narrator.is_true(pitfall, chosen, of_part):
                entries += chosen
        return entries

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
        items += self.narrator.narrate(
            self.texts["uncounted"], self.ledger.entries, self.ledger.entries
        )
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
        return self.as_text(self.ledger.formula_of(lines))

    def as_text(self, formula: Polynomial) -> str:
        """Return a formula as mathematics, in letters."""
        tree = formula.tree(sorted(self.model.blueprint.repeats), tuple(self.letters))
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


def _equation(formula: str, value: int) -> str:
    """Return a formula with its value, or only the value if the formula explains nothing."""
    if len(formula) <= _LONGEST_IN_TEXT:
        tree = parse(formula)
        if tree[0] != "value" and _is_arithmetic(tree):
            return f"${formula}$ = $={value}$"
    return f"$={value}$"


def derived(formula: str, value: int) -> tuple[str, ...]:
    """Return the parts of a chain: a formula in letters, with numbers put in, and its value.

    A formula that is too long, or says nothing, is left out.

    Example:
        >>> derived("L * H", 768)
        ('L * H', '#L * H', '=768')
    """
    parts = []
    if len(formula) <= _LONGEST_FORMULA:
        tree = parse(formula)
        if tree[0] != "value":
            parts = [formula]
        if tree[0] not in ("name", "value") and _is_arithmetic(tree):
            parts.append(f"#{formula}")
    return (*parts, f"={value}")


def title_name(model: Model) -> str:
    """Return the name of a model for a title, which is never a path.

    For a config from a file or an object, it is the name that the config states, if that is not a
    path, and otherwise its family.
    """
    if model.origin in ("catalogue", "timm"):
        return model.where
    address = re.match(r"hf://([^/]+/[^/@]+)", model.where)
    if address:
        return address[1]
    stated = model.config.get("_name_or_path")
    if isinstance(stated, str) and re.fullmatch(r"\w[\w.-]*(/[\w.-]+)?", stated):
        return stated
    return model.blueprint.family


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


_OPERATIONS = ("+", "-", "*", "/", "//", "**", "neg", "floor")


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
