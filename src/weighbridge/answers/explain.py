"""The derivation of a count, as a good article would print it: the sentences are data, the numbers the ledger's."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge import data
from weighbridge.algebra.expr import parse, source
from weighbridge.answers.answer import Shown
from weighbridge.answers.sentences import Teller, picked, shown
from weighbridge.answers.weigh import Weighing, weigh
from weighbridge.blueprint.roles import component_of
from weighbridge.errors import UsageError
from weighbridge.ledger.ledger import bind
from weighbridge.ledger.places import ONE
from weighbridge.ledger.rows import RowGroup
from weighbridge.ledger.symbols import meaning_of
from weighbridge.render.document import (
    FORMATS,
    Block,
    Bullets,
    Chain,
    Code,
    Document,
    Grid,
    Heading,
    Paragraph,
    plain,
    write,
)
from weighbridge.render.table import Table
from weighbridge.render.words import label, words
from weighbridge.units import count

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping

    from weighbridge.algebra.expr import Tree
    from weighbridge.ledger.rows import Entry


def explain(  # noqa: PLR0913  # each is a word of its own for the user
    model: str | os.PathLike[str] | Mapping[str, Any],
    class_name: str | None = None,
    *,
    lang: str = "en",
    form: str = "text",
    fields: Mapping[str, Any] | None = None,
    strict: bool = False,
    blueprint: str | os.PathLike[str] | None = None,
) -> str:
    """Derive a model's parameter count step by step, as an article.

    Args:
        model: as for `weigh`.
        class_name: as for `weigh`.
        lang: ``"en"`` or ``"zh"``.
        form: ``"text"``, ``"markdown"`` (with the mathematics that Git forges render), ``"latex"``
            (a document that compiles) or ``"html"`` (a page that stands alone).
        fields: as for `weigh`.
        strict: as for `weigh`.
        blueprint: as for `weigh`.

    Raises:
        ModelError, ConfigError: as for `weigh`.
        UsageError: no such language or format.

    Example:
        >>> print(explain("bert-base-chinese", lang="zh").splitlines()[0])
        google-bert/bert-base-chinese 的 102,267,648 个参数是怎么算出来的
    """
    if form not in FORMATS:
        raise UsageError(
            "no such format", values={"format": form}, hint=f"use one of {', '.join(FORMATS)}"
        )
    return article(
        weigh(model, class_name, fields=fields, strict=strict, blueprint=blueprint), lang, form
    )


def article(weighing: Weighing, lang: str = "en", form: str = "text") -> str:
    """Derive the count of a weighing; see `explain`."""
    return write(Article(weighing).document(lang), form)


class Article(Shown):
    """The derivation of a weighing's count, in any language and format."""

    def __init__(self, weighing: Weighing) -> None:
        self.weighing = weighing

    @property
    def notes(self) -> list[str]:
        """What the user should know of how the config was read."""
        return self.weighing.notes

    def to_dict(self) -> dict[str, Any]:
        """Return what the article is about, ready for JSON."""
        return self.weighing.to_dict()

    def document(self, lang: str = "en") -> Document:
        """Return the article."""
        words(lang)  # refuses a language that is not spoken
        return _Writer(self.weighing, lang).document()


class _Writer:
    """The pieces that the sentences are about, and the sentences put around them."""

    def __init__(self, weighing: Weighing, lang: str) -> None:
        self.weighing, self.lang = weighing, lang
        self.ledger, self.model = weighing.ledger, weighing.model
        self.said = data.read_toml(f"words/explain.{lang}.toml")
        self.teller = Teller(self.ledger)
        self.letters, self.values = self.teller.letters, self.teller.values
        self.everything = [RowGroup("", self.ledger.entries)]

    def document(self) -> Document:
        sections = list(self.sections())
        blocks: list[Block] = [
            Heading(1, self.fill("title")),
            self.opening(),
            *self.sizes(),
            *(block for section in sections for block in self.section(section)),
            *self.total([section.lines for section in sections]),
            *self.pitfalls(),
            *self.left_out(),
            *self.known(),
        ]
        return Document(tuple(blocks), self.lang, self.values)

    def opening(self) -> Paragraph:
        first = self.fill(
            "opening" if len(self.formula(self.everything)) <= _LONGEST_IN_TEXT else "opening_long"
        )
        active = self.fill("opening_active") if self.ledger.active < self.ledger.parameters else ""
        return Paragraph(self.joined([first, active]))

    def fill(self, key: str, **more: Any) -> str:
        """Return a sentence with the whole class's figures, and more, put into its braces."""
        text: str = self.said[key]
        return text.format(**self.figures(self.everything), **more)

    def figures(self, lines: list[RowGroup]) -> dict[str, Any]:
        """Return what braces are filled in with, of some lines together."""
        formula = self.formula(lines)
        return {
            **({"formula": f"${formula}$"} if len(formula) <= _LONGEST_FORMULA else {}),
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
        """Return the base class's entries: what this class may lack."""
        blueprint = self.model.blueprint
        return bind(blueprint, blueprint.base_class, self.model.fields).entries

    # Sections

    def sections(self) -> Iterator[_Section]:
        """Yield each section that has any tensors: of what all parts share, of each part, and of what follows them."""
        parts: dict[str, list[Entry]] = {"": []}
        for entry in self.ledger.entries:
            parts.setdefault(self.tower(entry), []).append(entry)
        if len(parts) <= 2:  # what is in no part, and one part, which is the model
            parts = {"": list(self.ledger.entries)}
        shared, *towers = [
            list(self.sections_of(tower, entries)) for tower, entries in parts.items()
        ]
        first = [section for section in shared if section.rank <= _LAYERS]
        yield from (
            *first,
            *(section for tower in towers for section in tower),
            *shared[len(first) :],
        )

    def tower(self, entry: Entry) -> str:
        """Return the part of the model that a tensor is in; none for a head's and for what several parts share."""
        if not entry.template.role.startswith("head"):
            for piece in entry.template.name.split("."):
                for tower in self.said["tower"]:
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
        for rank, section in enumerate(self.said["section"]):
            here = [lines[name] for name in section["components"] if name in lines]
            if here:
                title = section["title"]
                if tower:
                    title = self.said["in_tower"].format(tower=tower, within=section["within"])
                told = self.teller.tell(
                    section["say"], _entries(here), entries, **self.figures(here)
                )
                yield _Section(rank, title, self.joined(told), here, entries)

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
            yield Paragraph(self.said["subtotal"])
            yield self.derivation(section.lines)

    def layers(self, entries: list[Entry]) -> str:
        """Return what is to be said of layers that are alike, or are not; nothing where there are none."""
        repeated = [entry for entry in entries if entry.template.repeat]
        outer = {entry.template.repeat[0] for entry in repeated}
        if not repeated:
            return ""
        index = min(outer)
        if len(outer) > 1 or any(entry.template.varies for entry in repeated):
            text: str = self.said["layers_differ"]
            return text.format(index=index)
        number = self.in_letters(self.model.blueprint.repeat[index])
        text = self.said["layers_alike" if number.startswith("L") else "repeats_alike"]
        return text.format(index=index, layers=f"${number}$", last=f"$={number}-1$")

    def component(self, line: RowGroup, around: list[Entry]) -> Iterator[Block]:
        sentences = self.said["component"].get(line.name, ())
        told = self.joined(
            self.teller.tell(sentences, line.entries, around, **self.figures([line]))
        )
        if told:
            yield Paragraph(told)
        yield self.tensors(line)
        ties = [
            f"`{e.template.name}` = `{e.template.tie.to}`"
            for e in line.entries
            if e.tied and e.template.tie
        ]
        if ties:
            yield Paragraph(self.said["tied_list"].format(names=self.listed(ties)))
        yield self.derivation([line])

    def tensors(self, line: RowGroup) -> Grid:
        """Tabulate a component's tensors: name, shape in letters, elements of one layer's."""
        rows = []
        for entry in line.entries:
            elements = self.said["tied_cell"] if entry.tied else count(_one(entry))
            rows.append((f"`{_name(entry)}`", shown(self.teller.dims(entry)), elements))
        return Grid(Table(tuple(self.said["tensor_header"]), tuple(rows), "<<>"))

    def derivation(self, lines: list[RowGroup]) -> Chain:
        """Return the chain: in letters, in numbers, layers times one layer, the value."""
        formula, value = self.formula(lines), sum(line.parameters for line in lines)
        parts = [formula] if len(formula) <= _LONGEST_FORMULA else []
        if parts and _is_arithmetic(tree := parse(formula)) and tree[0] != "name":
            parts.append(f"#{formula}")
        indices = {entry.indices for line in lines for entry in line.entries}
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
        told = [
            name
            for name in (*self.letters, *sorted(used - self.letters.keys()))
            if name in used & self.values.keys()
        ]
        rows = []
        for name in told:
            letter = self.letters.get(name, name)
            meaning = meaning_of(name, self.lang) if name in self.letters else ""
            rows.append((f"${letter}$", f"`{name}`", meaning, f"$={letter}$"))
        yield Heading(2, self.said["sizes"])
        yield Paragraph(self.said["sizes_intro"])
        yield Grid(Table(tuple(self.said["size_header"]), tuple(rows), "<<<>"))

    def total(self, sections: list[list[RowGroup]]) -> Iterator[Block]:
        parts = " + ".join(str(sum(line.parameters for line in lines)) for lines in sections)
        yield Heading(2, self.said["total"])
        yield Paragraph(self.said["total_intro"])
        formula = self.formula(self.everything)
        chain = ([formula] if len(formula) <= _LONGEST_FORMULA else []) + [
            parts,
            f"={self.weighing.parameters}",
        ]
        yield Chain(tuple(dict.fromkeys(chain)))

    def pitfalls(self) -> Iterator[Block]:
        every = self.ledger.entries
        items: list[str] = []
        for pitfall in self.said["pitfall"]:
            entries = [entry for entry in every if _picked(entry, pitfall)]
            if "absent" in pitfall:
                entries = (
                    []
                    if entries
                    else [entry for entry in self.base_entries() if _picked(entry, pitfall)]
                )
            if entries:
                figures = self.figures([RowGroup("", tuple(entries))])
                items.extend(self.teller.tell([pitfall], entries, every, **figures))
        yield Heading(2, self.said["wrong"])
        yield Bullets(tuple(items))

    def left_out(self) -> Iterator[Block]:
        rows = {
            (re.sub(r"(?<=\.)\d+(?=\.)", "*", row.name), row.shape) for row in self.ledger.buffers()
        }
        buffers = [f"`{name}` ({' × '.join(map(count, shape))})" for name, shape in sorted(rows)]
        others = [
            f"`{name}`"
            for name in self.model.blueprint.class_names
            if name != self.weighing.class_name
        ]
        items = [self.said["nothing"]]
        if buffers:
            items.append(self.said["buffers"].format(names=self.listed(buffers)))
        if others:
            items.append(self.said["classes"].format(names=self.listed(others)))
        yield Heading(2, self.said["left_out"])
        yield Bullets(tuple(items))

    def known(self) -> Iterator[Block]:
        evidence = self.weighing.evidence
        known = {"family": evidence["blueprint"], "source": evidence["source"], **evidence["proof"]}
        outside = {name: plain(found) for name, found in evidence["config"].items()}
        config = words(self.lang)[f"from_{self.model.origin}"].format(**outside)
        yield Heading(2, self.said["known"])
        yield Paragraph(self.said["known_text"].format(config=config, **known))
        yield Code(self.check())

    def check(self) -> str:
        """Return Python that counts the real model, on the meta device, without its weights."""
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
        """Return the fields that are not as the reference has them by itself, those of a sub-config in its own dict."""
        blueprint, fields = self.model.blueprint, self.model.fields
        changed = {
            field for field, value in fields.items() if value != blueprint.at_defaults[field]
        }
        configs = {
            path
            for path in blueprint.configs
            if any(field.startswith(f"{path}.") for field in changed)
        }
        found: dict[str, Any] = {}
        for path in sorted(configs):
            kind = blueprint.configs[path]
            _put(found, path, {"model_type": kind} if kind else {})
        for field, value in fields.items():
            inside = field.rpartition(".")[0] in configs
            usual = (
                blueprint.given.get(field, blueprint.at_defaults[field])
                if inside
                else blueprint.at_defaults[field]
            )
            if value != usual and isinstance(value, bool | int | float | str | tuple | None):
                _put(found, field, list(value) if isinstance(value, tuple) else value)
        return found

    def listed(self, names: list[str]) -> str:
        return words(self.lang)["and"].join(names)

    # Formulas

    def formula(self, lines: Iterable[RowGroup]) -> str:
        """Return the formula of some lines as mathematics, in letters."""
        tree = self.ledger.formula_of(lines).tree(
            sorted(self.model.blueprint.repeats), tuple(self.letters)
        )
        return source(self.teller.renamed(tree))

    def in_letters(self, tree: Tree) -> str:
        """Return an expression as mathematics, simplified, in letters."""
        return source(
            self.teller.renamed(self.ledger.letters.of(tree).tree((), tuple(self.letters)))
        )


class _Section(NamedTuple):
    """A section of the article: its place, its title, what introduces it, its components, and the part they are in."""

    rank: int
    title: str
    text: str
    lines: list[RowGroup]
    around: list[Entry]


_LAYERS = 1  # the rank of the section of the layers: what comes after them comes after those of every part
_LONGEST_FORMULA = 1_000  # in characters of its source: one that is longer explains nothing
_LONGEST_IN_TEXT = 160


def _put(found: dict[str, Any], dotted: str, value: Any) -> None:
    """Set a field of nested configs by its dotted name."""
    *path, last = dotted.split(".")
    for piece in path:
        found = found.setdefault(piece, {})
    found[last] = value


def _entries(lines: Iterable[RowGroup]) -> list[Entry]:
    return [entry for line in lines for entry in line.entries]


def _is_arithmetic(tree: Tree) -> bool:
    """Whether a formula has numbers, letters and the four operations only, so that it can be shown in numbers."""
    return tree[0] in ("name", "value") or (
        tree[0] in _OPERATIONS and all(map(_is_arithmetic, tree[1:]))
    )


_OPERATIONS = ("+", "-", "*", "//", "**", "neg")


def _name(entry: Entry) -> str:
    """Return a tensor's name with ``{i}`` for every layer, or with the layers that it is in: ``h.{0,2,4-5}.norm``."""
    if all(isinstance(values, range) for values, _ in entry.indices.blocks):
        return entry.template.name
    runs: list[list[int]] = []
    for index in entry.indices.outermost:
        if runs and index == runs[-1][-1] + 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    layers = ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
    return entry.template.name.replace(f"{{{entry.template.repeat[0]}}}", f"{{{layers}}}")


def _one(entry: Entry) -> int:
    return entry._replace(indices=ONE, tied=False).parameters


def _picked(entry: Entry, pitfall: Mapping[str, Any]) -> bool:
    """Whether a pitfall is about this tensor."""
    asked = (*pitfall.get("of", ()), *pitfall.get("absent", ())) or ("",)
    is_norm = "norm" in entry.template.role
    return (
        any(picked(entry, of) for of in asked)
        and pitfall.get("norms", is_norm) == is_norm
        and (not pitfall.get("tied") or entry.tied)
    )
