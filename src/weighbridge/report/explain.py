"""The derivation of a count, as a good article would print it: the sentences are data, the numbers the ledger's."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from weighbridge import data
from weighbridge.blueprint import component_of
from weighbridge.errors import UsageError
from weighbridge.expr import evaluate, fold, names_in, parse, source
from weighbridge.ledger import Line, bind
from weighbridge.polynomial import Polynomial
from weighbridge.report.document import (
    FORMATS,
    Block,
    Bullets,
    Code,
    Document,
    Equation,
    Grid,
    Heading,
    Paragraph,
    plain,
    write,
)
from weighbridge.report.table import Table
from weighbridge.report.weighing import Weighing, weigh
from weighbridge.report.words import label, letters, meaning_of, words
from weighbridge.units import count

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping

    from weighbridge.expr import Tree
    from weighbridge.ledger import Entry


def explain(
    model: str | os.PathLike[str] | Mapping[str, Any],
    class_name: str | None = None,
    *,
    lang: str = "en",
    form: str = "text",
    fields: Mapping[str, Any] | None = None,
    strict: bool = False,
) -> str:
    """Derive a model's parameter count step by step, as an article.

    Args:
        model: as for `weigh`.
        class_name: as for `weigh`.
        lang: ``"en"`` or ``"zh"``.
        form: ``"text"``, ``"markdown"`` (with the mathematics that Git forges render), ``"latex"`` (a document that
            compiles) or ``"html"`` (a page that stands alone).
        fields: as for `weigh`.
        strict: as for `weigh`.

    Raises:
        ModelError, ConfigError: as for `weigh`.
        UsageError: no such language or format.

    Example:
        >>> print(explain("bert-base-chinese", lang="zh").splitlines()[0])
        google-bert/bert-base-chinese 的 102,267,648 个参数是怎么算出来的
    """
    if form not in FORMATS:
        raise UsageError("no such format", values={"format": form}, hint=f"use one of {', '.join(FORMATS)}")
    return article(weigh(model, class_name, fields=fields, strict=strict), lang, form)


def article(weighing: Weighing, lang: str = "en", form: str = "text") -> str:
    """Derive the count of a weighing; see `explain`."""
    words(lang)
    return write(_Article(weighing, lang).document(), form)


class _Article:
    """The pieces that the sentences are about, and the sentences put around them."""

    def __init__(self, weighing: Weighing, lang: str) -> None:
        self.weighing, self.lang = weighing, lang
        self.ledger, self.model = weighing.ledger, weighing.model
        self.said = data.read_toml(f"report/words/explain.{lang}.toml")
        self.lines = {line.name: line for line in self.ledger.by("component")}
        self.letters = letters()
        sizes = {name: value for name, value in self.model.fields.items() if type(value) is int}
        self.values = {**sizes, **{self.letters[name]: value for name, value in sizes.items() if name in self.letters}}

    def document(self) -> Document:
        sections = list(self.sections())
        blocks: list[Block] = [
            Heading(1, self.fill("title")),
            Paragraph(self.fill("opening")),
            *self.sizes(),
            *(block for title, text, lines in sections for block in self.section(title, text, lines)),
            *self.total([lines for _, _, lines in sections]),
            *self.pitfalls(),
            *self.left_out(),
            *self.known(),
        ]
        return Document(tuple(blocks), self.lang, self.values)

    def fill(self, key: str, **more: Any) -> str:
        """Return a sentence with the whole class's figures, and more, put into its braces."""
        return self.put(self.said[key], self.lines.values(), **more)

    def put(self, sentence: str, lines: Iterable[Line], **more: Any) -> str:
        lines = list(lines)
        figures = {
            "formula": f"${self.formula(lines)}$",
            "count": f"$={sum(line.parameters for line in lines)}$",
            "total": self.weighing.parameters,
            "model": plain(self.model.where),
            "class": f"`{self.weighing.class_name}`",
        }
        return sentence.format(**figures, **more)

    def can_say(self, sentence: str) -> bool:
        """Whether the model has every size that a sentence tells the value of."""
        told = re.findall(r"\$[=#]([^${]+)\$", sentence)
        return all(name in self.values for text in told for name in names_in(parse(text)))

    def base_entries(self) -> tuple[Entry, ...]:
        """Return the base class's entries: what this class may lack."""
        blueprint = self.model.blueprint
        return bind(blueprint, blueprint.base_class, self.model.fields).entries

    # Sections

    def sections(self) -> Iterator[tuple[str, str, list[Line]]]:
        """Yield the title, the introduction and the components of each section that has any."""
        left = dict(self.lines)
        for section in self.said["section"]:
            lines = [left.pop(name) for name in section["components"] if name in left]
            if lines:
                yield section["title"], section["text"], lines
        for name, line in left.items():
            yield label(name, self.lang), "", [line]

    def section(self, title: str, text: str, lines: list[Line]) -> Iterator[Block]:
        yield Heading(2, title)
        if text:
            yield Paragraph(text)
        entries = [entry for line in lines for entry in line.entries]
        alike = not any(entry.template.varies for entry in entries)
        if any(entry.template.repeat for entry in entries) and alike and self.can_say(self.said["layers_alike"]):
            yield Paragraph(self.said["layers_alike"])
        for line in lines:
            if len(lines) > 1:
                yield Heading(3, label(line.name, self.lang))
            yield from self.component(line)
        if len(lines) > 1:
            yield Paragraph(self.said["subtotal"])
            yield self.derivation(lines)

    def component(self, line: Line) -> Iterator[Block]:
        sentences = self.said["component"].get(line.name, {})
        if "text" in sentences and self.can_say(sentences["text"]):
            tied = sentences.get("tied", "") if line.tied else ""
            yield Paragraph(words(self.lang)["between_sentences"].join(filter(None, [sentences["text"], tied])))
        yield self.tensors(line)
        ties = [f"`{e.template.name}` = `{e.template.tie.to}`" for e in line.entries if e.tied and e.template.tie]
        if ties:
            yield Paragraph(self.said["tied_list"].format(names=self.listed(ties)))
        yield self.derivation([line])

    def tensors(self, line: Line) -> Grid:
        """Tabulate a component's tensors: name, shape in letters, elements of one layer's."""
        rows = []
        for entry in line.entries:
            sizes = [self.in_letters(dim, entry) for dim in entry.template.dims]
            shape = " × ".join(f"(${size}$)" if len(sizes) > 1 and _is_sum(size) else f"${size}$" for size in sizes)
            elements = self.said["tied_cell"] if entry.tied else count(_one(entry))
            rows.append((f"`{_name(entry)}`", shape, elements))
        return Grid(Table(tuple(self.said["tensor_header"]), tuple(rows), "<<>"))

    def derivation(self, lines: list[Line]) -> Equation:
        """Return the chain: in letters, in numbers, layers times one layer, the value."""
        formula, value = self.formula(lines), sum(line.parameters for line in lines)
        parts = [formula, f"#{formula}"]
        indices = {entry.indices for line in lines for entry in line.entries}
        if len(indices) == 1 and len(layers := indices.pop()) > 1 and not formula.replace(" * ", "").isidentifier():
            parts.append(f"{len(layers)}*{value // len(layers)}")
        return Equation(tuple(dict.fromkeys([*parts, f"={value}"])))

    # The rest

    def sizes(self) -> Iterator[Block]:
        used = self.ledger.formula().fields() | self.model.blueprint.sizes & set(self.model.config)
        told = [
            name for name in (*self.letters, *sorted(used - self.letters.keys())) if name in used & self.values.keys()
        ]
        rows = []
        for name in told:
            letter = self.letters.get(name, name)
            rows.append((f"${letter}$", f"`{name}`", meaning_of(name, self.lang), f"$={letter}$"))
        yield Heading(2, self.said["sizes"])
        yield Paragraph(self.said["sizes_intro"])
        yield Grid(Table(tuple(self.said["size_header"]), tuple(rows), "<<<>"))

    def total(self, sections: list[list[Line]]) -> Iterator[Block]:
        everything = list(self.lines.values())
        parts = " + ".join(str(sum(line.parameters for line in lines)) for lines in sections)
        yield Heading(2, self.said["total"])
        yield Paragraph(self.said["total_intro"])
        yield Equation(tuple(dict.fromkeys((self.formula(everything), parts, f"={self.weighing.parameters}"))))

    def pitfalls(self) -> Iterator[Block]:
        items = []
        for pitfall in self.said["pitfall"]:
            entries = tuple(entry for entry in self.ledger.entries if _picked(entry, pitfall))
            if "absent" in pitfall:
                told = not entries and any(_picked(entry, pitfall) for entry in self.base_entries())
            else:
                told = bool(entries)
            if told and self.can_say(pitfall["text"]):
                items.append(self.put(pitfall["text"], [Line("", entries)]))
        yield Heading(2, self.said["wrong"])
        yield Bullets(tuple(items))

    def left_out(self) -> Iterator[Block]:
        buffers = [f"`{row.name}` ({' × '.join(map(count, row.shape))})" for row in self.ledger.buffers()]
        others = [f"`{name}`" for name in self.model.blueprint.class_names if name != self.weighing.class_name]
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
        defaults = self.model.blueprint.at_defaults
        given = {field: value for field, value in self.model.fields.items() if value != defaults[field]}
        set_by = "".join(
            f", {field}={value!r}" for field, value in given.items() if isinstance(value, bool | int | str)
        )
        return (
            "import torch\n"
            f"from transformers import AutoConfig, {name}\n\n"
            f'config = AutoConfig.for_model("{family}"{set_by})\n'
            'with torch.device("meta"):\n'
            f"    model = {name}(config)\n"
            f"print(sum(p.numel() for p in model.parameters()))  # {self.weighing.parameters}"
        )

    def listed(self, names: list[str]) -> str:
        return words(self.lang)["and"].join(names)

    # Formulas

    def formula(self, lines: Iterable[Line]) -> str:
        """Return the formula of some lines as mathematics, in letters."""
        tree = self.ledger.formula_of(lines).tree(sorted(self.model.blueprint.repeats), tuple(self.letters))
        return source(self._renamed(tree))

    def in_letters(self, dim: str, entry: Entry) -> str:
        """Return one dimension as mathematics, simplified, in letters; what the layer decides is a number."""
        here = {**self.ledger.variables(), entry.template.repeat: entry.indices[0]}
        value = evaluate(self.model.blueprint.dims[dim], here, self.ledger.meaning())
        return (
            source(self._renamed(value.tree((), tuple(self.letters)))) if isinstance(value, Polynomial) else str(value)
        )

    def _renamed(self, tree: Tree) -> Tree:
        def name(field: str) -> Tree:
            return ("name", self.letters.get(field, field))

        kinds = {kind: (lambda *operands, kind=kind: (kind, *operands)) for kind in _kinds(tree)}
        renamed: Tree = fold(tree, name, lambda value: ("value", value), kinds)
        return renamed


def _kinds(tree: Tree) -> Iterator[str]:
    if tree[0] not in ("name", "value"):
        yield tree[0]
        for operand in tree[1:]:
            yield from _kinds(operand)


def _name(entry: Entry) -> str:
    """Return a tensor's name with ``{i}`` for every layer, or with the layers that it is in: ``h.{0,2,4-5}.norm``."""
    if isinstance(entry.indices, range):
        return entry.template.name
    runs: list[list[int]] = []
    for index in entry.indices:
        if runs and index == runs[-1][-1] + 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    layers = ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
    return entry.template.name.replace(f"{{{entry.template.repeat}}}", f"{{{layers}}}")


def _is_sum(mathematics: str) -> bool:
    return parse(mathematics)[0] in ("+", "-")


def _one(entry: Entry) -> int:
    return entry._replace(indices=range(1), tied=False).parameters


def _picked(entry: Entry, pitfall: Mapping[str, Any]) -> bool:
    """Whether a pitfall is about this tensor."""
    role, name = entry.template.role, entry.template.name
    roles = (*pitfall.get("roles", ()), *pitfall.get("absent", ()))
    return (
        (not roles or role in roles or component_of(role) in roles)
        and name.endswith(pitfall.get("ends", ""))
        and pitfall.get("contains", "") in role
        and ("except" not in pitfall or pitfall["except"] not in role)
        and (pitfall.get("tied", False) is False or entry.tied)
    )
