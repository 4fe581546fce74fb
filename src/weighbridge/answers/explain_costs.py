"""Derives the FLOPs of a run and the bytes of its cache, as an article.

Its sentences are data, in `words/costs.*.toml`; its numbers come from the recorded operations.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from weighbridge import data, units
from weighbridge.algebra.expr import source
from weighbridge.answers.cost import cost
from weighbridge.answers.cost_formula import CONTEXT, RUN_LETTERS, FormulaWriter
from weighbridge.answers.explain import Article, ArticleStyle, derived, title_name
from weighbridge.costs import costs
from weighbridge.render.document import (
    Aside,
    Bullets,
    Chain,
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
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from weighbridge.algebra.expr import Tree
    from weighbridge.algebra.polynomial import Polynomial
    from weighbridge.answers.cost import RunCost
    from weighbridge.models.find import Described
    from weighbridge.render.document import Block

_NO_IMAGES: dict[str, Tree] = {"images": ("value", 0), "patches": ("value", 0)}
"""An article is about sequences of text."""


def explain_costs(  # noqa: PLR0913  # each is a word of its own for the user
    model: Described,
    class_name: str | None = None,
    *,
    lang: str | None = None,
    title: str | None = None,
    batch: int = 1,
    sequence: int | None = None,
    dtype: str | None = None,
    fields: Mapping[str, Any] | None = None,
    strict: bool = False,
) -> CostArticle:
    """Derive the FLOPs of a run and the bytes of its cache, as an article.

    Args:
        model: as for `weigh`.
        class_name: as for `weigh`; its operations must be recorded.
        lang: the language of the article: ``"en"``, the default, or ``"zh"``.
        title: the title of the article.
        batch: the sequences in a batch.
        sequence: the tokens in each sequence; 128 by default.
        dtype: the dtype of the cache; by default as for `weigh`.
        fields: config fields to replace.
        strict: as for `weigh`.

    Raises:
        ModelError, ConfigError, UsageError: as for `cost`.

    Example:
        >>> article = explain_costs("meta-llama/Llama-3.1-8B", sequence=2048)
        >>> print(article.text().splitlines()[0])
        How meta-llama/Llama-3.1-8B comes to 32,938,104,193,024 FLOPs
    """
    found = cost(
        model,
        class_name,
        batch=batch,
        sequence=sequence,
        train=True,
        dtype=dtype,
        fields=fields,
        strict=strict,
    )
    return CostArticle(found, lang, ArticleStyle(title))


class CostArticle(Article):
    """What `explain` returns for the costs of a run."""

    def __init__(
        self, found: RunCost, lang: str | None = None, style: ArticleStyle | None = None
    ) -> None:
        super().__init__(found.found.weighing, lang, style)
        self._cost = found

    @property
    def notes(self) -> list[str]:
        """Notes on how the config was read; the kernels change nothing here."""
        return list(self._cost.found.notes)

    def to_dict(self) -> dict[str, Any]:
        """Return the facts of the article, ready for JSON."""
        return self._cost.to_dict(formula=True)

    def document(self, lang: str = "en", **_: bool) -> Document:
        """Return the article."""
        words(lang)
        return _CostWriter(self._cost, lang, self.style).document()


class _CostWriter:
    """Writes an article on the costs of a run: its formulas and tables, and its sentences."""

    def __init__(self, found: RunCost, lang: str, style: ArticleStyle) -> None:
        self.cost, self.lang, self.style = found, lang, style
        self.recorded, self.run = found.found, found.run
        self.texts = data.read_toml(f"words/costs.{lang}.toml")
        self.general = words(lang)
        self.context = self.run.sequence or 1
        names = {**found.names, "past": self.context - 1, "context": self.context}
        self.writer, self.cached = (
            FormulaWriter(
                self.recorded,
                {**names, "training": training},
                found.run.dtype,
                free=True,
                instead={**CONTEXT, **_NO_IMAGES},
            )
            for training in (True, False)
        )
        self.lettering = self.cached.lettering = self.writer.lettering
        self.weighing = self.recorded.weighing
        self.forward = found.figures["forward_matmul_flops"] or 0
        self.backward = found.figures["backward_matmul_flops"] or 0
        self.tokens = self.run.batch * (self.run.sequence or 1)

    def document(self) -> Document:
        body = [
            *self.components(),
            *self.total(),
            *self.of_parameters(),
            *self.of_training(),
            *self.cache(),
        ]
        title = self.fill("title")
        if self.style.title is not None:
            title = plain(self.style.title)
        blocks: list[Block] = [
            Heading(1, title),
            Paragraph(self.fill("opening")),
            *self.sizes(),
            *body,
            Heading(2, self.texts["known"]),
            Paragraph(Aside(plain(self.fill("evidence", **self.recorded.evidence)))),
        ]
        return Document(tuple(blocks), self.lang, self.values)

    @cached_property
    def values(self) -> dict[str, Any]:
        """The value of each letter, and of each field without a letter."""
        lettering = self.lettering
        values = {lettering.letters.get(name, name): of for name, of in lettering.values.items()}
        return values | {name: lettering.value(name) for name in lettering.parts}

    def fill(self, key: str, **more: Any) -> str:
        """Return a sentence with the figures of the run, and others, in its braces."""
        text: str = self.texts[key]
        return text.format(
            model=plain(title_name(self.weighing.model)),
            class_name=f"`{self.weighing.class_name}`",
            batch=count(self.run.batch),
            sequence=count(self.run.sequence or 1),
            tokens=count(self.tokens),
            forward=count(self.forward),
            backward=count(self.backward),
            parameters=count(self.weighing.parameters),
            **more,
        )

    def sizes(self) -> Iterator[Block]:
        """Yield the table of letters, with the numbers of layers that have a name."""
        formulas = [self.writer.flops_of("forward"), self.cached.bytes_of("stepped")]
        letters: dict[str, str] = data.read_toml(f"words/cost.{self.lang}.toml")
        rows = []
        dims = [dim for _, _, dims in self.writer.written("forward") for dim in dims]
        for size in self.lettering.sizes([*formulas, *dims]):
            meaning = size.meaning(self.lang)
            if size.field in RUN_LETTERS:
                meaning = letters[f"letter_{size.field}"]
            rows.append((f"${size.letter}$", f"`{size.field}`", meaning, f"$={size.letter}$"))
        shown = {name for formula in formulas for name in self.lettering.named(formula).fields()}
        for name in filter(shown.__contains__, self.lettering.parts):
            meaning = self.lettering.part_meaning(name, self.lang)
            rows.append((f"${name}$", "", plain(meaning), f"$={name}$"))
        yield Heading(2, self.texts["sizes"])
        yield Paragraph(self.texts["sizes_intro"])
        yield Grid(Table(tuple(self.texts["size_header"]), tuple(rows), "<<<>"))

    # Components

    def components(self) -> Iterator[Block]:
        """Yield a section for each component that multiplies matrices, and name the others."""
        without = []
        multiplied = {
            self.attribution.component(product.path) for product in self.cost.operations["forward"]
        }
        lines = [line.name for line in self.weighing.ledger.by("component")]
        for name in dict.fromkeys([*lines, *sorted(multiplied)]):
            if name not in multiplied:
                without.append(label(name, self.lang))
                continue
            yield Heading(2, label(name, self.lang))
            yield from self.component(name)
        if without:
            yield Heading(2, self.texts["without"])
            yield Paragraph(self.fill("without_products", names=self.general["and"].join(without)))

    @property
    def attribution(self) -> Any:
        return self.cost.attribution

    def component(self, name: str) -> Iterator[Block]:
        """Yield the products of a component, and the sum of their FLOPs."""
        sentence = self.texts["component"].get(name)
        if sentence:
            yield Paragraph(sentence)

        def is_here(path: str) -> bool:
            return bool(self.attribution.component(path) == name)

        yield self.products(is_here)
        formula = self.writer.flops_of("forward", is_here)
        yield self.derivation(formula)
        here = [each for each in self.cost.operations["forward"] if is_here(each.path)]
        bare = [each for each in here if not self.attribution.has_matrix(each.path)]
        if bare and len(bare) < len(here):
            flops = costs.matmul_flops(bare)
            share = units.share(flops, costs.matmul_flops(here))
            yield Paragraph(self.fill("bare", flops=count(flops), share=share))

    def products(self, only: Callable[[str], bool]) -> Grid:
        """Return a table of products: the module, and the sizes in letters."""
        rows = []
        for entry, _, dims in self.writer.written("forward", only):
            sizes = [f"${source(self.lettering.tree(dim))}$" for dim in dims]
            rows.append((f"`{entry.path}`", *sizes))
        return Grid(Table(tuple(self.texts["product_header"]), tuple(rows), "<<<<<"))

    def derivation(self, formula: Polynomial) -> Chain:
        """Return the chain: letters, numbers, value."""
        return Chain(derived(source(self.lettering.tree(formula)), self.writer.value(formula)))

    def total(self) -> Iterator[Block]:
        """Yield the FLOPs of the whole forward pass, and for one token."""
        yield Heading(2, self.texts["total"])
        yield Paragraph(self.fill("total_intro"))
        yield self.derivation(self.writer.flops_of("forward"))
        per_token = count(round(self.forward / self.tokens))
        yield Paragraph(self.fill("per_token", flops=per_token))

    # The rules 2·N and 6·N·D

    def of_parameters(self) -> Iterator[Block]:
        """Yield where 2·N comes from, and how much it differs from this run."""
        yield Heading(2, self.texts["two_n"])
        yield Paragraph(self.texts["two_n_why"])
        items = [self.off("two_n_all", 2 * self.weighing.parameters * self.tokens, self.forward)]
        if self.weighing.active is not None:
            active = self.weighing.active
            flops = 2 * active * self.tokens
            items.append(self.off("two_n_active", flops, self.forward, active=count(active)))
        of_attention = self.cost.figures["forward_attention_flops"] or 0
        with_weights = self.forward - of_attention
        multiplied = count(round(with_weights / 2 / self.tokens))
        items.append(self.fill("two_n_multiplied", flops=count(with_weights), weights=multiplied))
        share = units.share(of_attention, self.forward)
        items.append(self.fill("two_n_attention", flops=count(of_attention), share=share))
        yield Bullets(tuple(items))

    def of_training(self) -> Iterator[Block]:
        """Yield where 6·N·D comes from, and how much it differs from this run."""
        yield Heading(2, self.texts["six_nd"])
        ratio = units.fixed(self.backward / self.forward, 3)
        yield Paragraph(self.fill("six_nd_why", ratio=ratio))
        exact = self.forward + self.backward
        yield Chain((f"{self.forward} + {self.backward}", f"={exact}"))
        items = [self.off("six_nd_all", 6 * self.weighing.parameters * self.tokens, exact)]
        if self.weighing.active is not None:
            active = self.weighing.active
            flops = 6 * active * self.tokens
            items.append(self.off("six_nd_active", flops, exact, active=count(active)))
        yield Bullets(tuple(items))

    def off(self, key: str, estimate: int, exact: int, **more: str) -> str:
        """Say what a rule gives, and by how much it is off."""
        relation = "equal"
        if estimate != exact:
            relation = "above" if estimate > exact else "below"
        far = units.percent(abs(estimate - exact) / exact)
        verdict = self.texts[relation].format(far=far)
        return self.fill(key, estimate=count(estimate), exact=count(exact), verdict=verdict, **more)

    def cache(self) -> Iterator[Block]:
        """Yield the bytes of the cache after the sequence, if the class has one."""
        if not self.recorded.has("stepped"):
            return
        yield Heading(2, self.texts["cache"])
        size = units.stored_bytes(1, self.run.dtype)
        yield Paragraph(self.fill("cache_why", dtype=self.run.dtype, bytes=count(size)))
        formula = self.cached.bytes_of("stepped")
        yield self.derivation(formula)
        each = count(round(self.writer.value(formula) / self.tokens))
        yield Paragraph(self.fill("cache_each", bytes=each))
