"""A trace: the steps of a text through a model, with shapes, parameters, FLOPs and values."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge import data, units
from weighbridge.answers.answer import Answer
from weighbridge.errors import printable
from weighbridge.ledger.symbols import meaning_of, size_symbols
from weighbridge.render.document import (
    Document,
    Heading,
    Notes,
    NumberedStep,
    Paragraph,
    Title,
    Together,
    WideTable,
    plain,
)
from weighbridge.render.table import Table
from weighbridge.render.words import words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from weighbridge.render.document import Block


class Values(NamedTuple):
    """The range of the output values of a step."""

    minimum: float
    maximum: float
    mean: float

    @property
    def shown(self) -> dict[str, str]:
        """The three values as text."""
        largest = max(abs(self.minimum), abs(self.maximum))
        return {name: units.measured(value, largest) for name, value in self._asdict().items()}


class Parameter(NamedTuple):
    """A tensor that a step uses; ``elements`` is 0 if it is tied, and counted elsewhere."""

    name: str
    shape: tuple[int, ...]
    elements: int
    tied_to: str | None


class Step(NamedTuple):
    """One step of the computation, at one place of the model.

    Args:
        name: the kind of step; `words/trace.*.toml` has its sentences.
        layer: the layer it is in; None outside the layers.
        dims: the shape of its output, each size as the name of its field, ``tokens`` for the length
            of the text, or a number.
        shape: the shape of its output in numbers, as observed.
        parameters: the parameters it uses.
        module: the module that owns these parameters.
        flops: the FLOPs of its matrix products, 2·m·k·n each.
        values: the range of its output.
    """

    name: str
    layer: int | None
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    parameters: tuple[Parameter, ...]
    module: str
    flops: int
    values: Values

    @property
    def own_parameters(self) -> int:
        """The number of parameters that it uses and no earlier step does."""
        return sum(parameter.elements for parameter in self.parameters)

    @property
    def letters(self) -> tuple[str, ...]:
        """The dims in letters."""
        return tuple(map(letter, self.dims))


class Head(NamedTuple):
    """The scores and probabilities of one head: a row's token attends to a column's."""

    layer: int
    head: int
    scores: list[list[float]]
    probabilities: list[list[float]]


def letter(field: str) -> str:
    """Return the letter of a size.

    Example:
        >>> letter("hidden_size"), letter("tokens"), letter("2")
        ('H', 'n', '2')
    """
    if field in size_symbols():
        return size_symbols()[field].letter
    return field


class TracedText(NamedTuple):
    """A text on its way through a model.

    Each of ``tokens`` is a token, its id and its segment. ``opened`` is the layer that is shown in
    full. ``unused`` lists the parameters that no step used. ``remarks`` are notes on the reading.
    """

    where: str
    class_name: str
    texts: tuple[str, ...]
    tokens: tuple[tuple[str, int, int], ...]
    sizes: dict[str, int]
    activation: str
    steps: tuple[Step, ...]
    unused: tuple[Parameter, ...]
    opened: int
    head: Head | None
    remarks: tuple[str, ...]


class Trace(Answer, TracedText):
    """The result of `weighbridge.torch.tracing.trace`."""

    @property
    def notes(self) -> list[str]:
        """What the user should know of how the checkpoint and the text were read."""
        return list(self.remarks)

    @property
    def parameters(self) -> int:
        """The number of parameters that the steps use; tied ones count once."""
        return sum(step.own_parameters for step in self.steps)

    @property
    def flops(self) -> int:
        """The FLOPs of all matrix products."""
        return sum(step.flops for step in self.steps)

    def document(self, lang: str = "en") -> Document:
        """Return the trace as a document, or only the two matrices of a chosen head."""
        return Document(tuple(_Steps(self, lang).blocks()), lang)

    def to_dict(self) -> dict[str, Any]:
        """Return everything, ready for JSON; nan and infinity are None."""
        tokens, sizes, head = [], {}, None
        for token, id_, segment in self.tokens:
            tokens.append({"token": token, "id": id_, "segment": segment})
        for field, value in self.sizes.items():
            sizes[letter(field)] = {"field": field, "value": value}
        if self.head:
            head = {name: _finite(value) for name, value in self.head._asdict().items()}
        return {
            "model": self.where,
            "class": self.class_name,
            "texts": list(self.texts),
            "tokens": tokens,
            "sizes": sizes,
            "steps": [_to_dict(step) for step in self.steps],
            "parameters": self.parameters,
            "unused": [parameter._asdict() for parameter in self.unused],
            "flops": self.flops,
            "head": head,
            "notes": self.notes,
        }


def _to_dict(step: Step) -> dict[str, Any]:
    return {
        "step": step.name,
        "layer": step.layer,
        "letters": step.letters,
        "shape": step.shape,
        "parameters": step.own_parameters,
        "tensors": [parameter._asdict() for parameter in step.parameters],
        "flops": step.flops,
        "values": {name: _finite(value) for name, value in step.values._asdict().items()},
    }


def _finite(value: Any) -> Any:
    """Return a value, or a list of them, with None for nan and infinity, which JSON lacks."""
    if isinstance(value, list):
        return list(map(_finite, value))
    if math.isfinite(value):
        return value
    return None


_MOST_IN_ROWS = 24  # tokens in a table; more are listed in a paragraph


class _Steps:
    """Builds the blocks of a trace, in a language."""

    def __init__(self, trace: Trace, lang: str) -> None:
        self.trace, self.lang = trace, lang
        words(lang)
        self.texts = data.read_toml(f"words/trace.{lang}.toml")
        self.figures = {letter(field): units.count(value) for field, value in trace.sizes.items()}
        self.figures["activation"] = trace.activation
        self.number = 0

    def blocks(self) -> Iterator[Block]:
        trace = self.trace
        subject = Title(f"{printable(trace.where)} · {trace.class_name}")
        yield Together((subject, Notes(tuple(f"“{printable(text)}”" for text in trace.texts))))
        if trace.head:
            yield from self.head(trace.head)
            return
        yield from self.tokens()
        inside = [place for place, step in enumerate(trace.steps) if step.layer is not None]
        before, after = trace.steps[: inside[0]], trace.steps[inside[-1] + 1 :]
        yield from self.part("embeddings", before)
        yield from self.layers([trace.steps[place] for place in inside])
        yield from self.part("pooler", [step for step in after if step.name in _POOLER])
        yield from self.part("head", [step for step in after if step.name not in _POOLER])
        yield self.together()

    def tokens(self) -> Iterator[Block]:
        key = "tokens_text"
        if len(self.trace.texts) > 1:
            key = "tokens_text_pair"
        yield _section(self.texts["tokens"], self.texts[key].format(**self.figures))
        tokens = self.trace.tokens
        if len(tokens) > _MOST_IN_ROWS:
            listed = " · ".join(f"{printable(token)} {id_}" for token, id_, _ in tokens)
            yield Paragraph(plain(listed))
            return
        rows = []
        for place, (token, id_, segment) in enumerate(tokens):
            rows.append((str(place), printable(token), str(id_), str(segment)))
        yield Table(tuple(self.texts["token_header"]), tuple(rows), "><>>")

    def part(self, title: str, steps: Sequence[Step], **more: str) -> Iterator[Block]:
        if steps:
            yield _section(self.texts[title].format(**more))
        for step in steps:
            yield self.step(step)

    def step(self, step: Step) -> NumberedStep:
        self.number += 1
        texts = self.texts["step"][step.name]
        title = f"{texts['title']}  {texts['formula'].format(**self.figures)}"
        facts = (texts["text"].format(**self.figures), self.values(step), *self.used(step))
        return NumberedStep(self.number, title, facts)

    def values(self, step: Step) -> str:
        shape, in_letters = _shape(step.shape), _shape(step.letters)
        if in_letters != shape:
            shape = f"{in_letters} = {shape}"
        return str(self.texts["values"].format(shape=shape, **step.values.shown))

    def used(self, step: Step) -> Iterator[str]:
        """Yield one line with the parameters that a step uses and its FLOPs, if there are any."""
        texts, facts = self.texts, []
        if step.own_parameters:
            parameters = units.count(step.own_parameters)
            facts.append(texts["parameters"].format(parameters=parameters, at=step.module))
        tied = [parameter for parameter in step.parameters if parameter.tied_to]
        facts += [texts["tied"].format(at=leaf.name, to=leaf.tied_to) for leaf in tied]
        if step.flops:
            facts.append(texts["flops"].format(flops=units.count(step.flops)))
        if facts:
            yield texts["and"].join(facts)

    def layers(self, steps: Sequence[Step]) -> Iterator[Block]:
        """Show one layer in full, and the others in one row each."""
        of_layer: dict[int, list[Step]] = {}
        for step in steps:
            of_layer.setdefault(step.layer or 0, []).append(step)
        first, last, opened = min(of_layer), max(of_layer), self.trace.opened
        names = {"layer": str(opened), "first": str(first), "last": str(last)}
        if first == last:
            yield from self.part("layer_alone", of_layer[opened], **names)
            return
        yield from self.part("layer", of_layer[opened], **names)
        yield _section(self.texts["layers"], self.texts["layers_text"])
        rows = []
        for layer, in_layer in of_layer.items():
            if layer != opened:
                rows.append(_layer_row(layer, in_layer))
        yield Table(tuple(self.texts["layer_header"]), tuple(rows), "><>>>>>")

    def together(self) -> Block:
        trace, texts = self.trace, self.texts
        counts = {"parameters": units.count(trace.parameters), "flops": units.count(trace.flops)}
        sentences = [texts["total_text"].format(**counts)]
        if trace.unused:
            number = units.count(sum(parameter.elements for parameter in trace.unused))
            modules = {parameter.name.rpartition(".")[0] for parameter in trace.unused}
            names = {"class": trace.class_name, "names": texts["and"].join(sorted(modules))}
            sentences.append(texts["unused_text"].format(parameters=number, **names))
        used_dims = set[str]()
        for step in trace.steps:
            used_dims.update(step.dims)
        legend = []
        for field, value in trace.sizes.items():
            if field in used_dims:
                meaning = meaning_of(field, self.lang)
                legend.append(f"{letter(field)} = {units.count(value)} {meaning}")
        sentences.append(texts["letters"].format(letters=texts["and"].join(legend)))
        return _section(texts["total"], *sentences)

    # One head

    def head(self, head: Head) -> Iterator[Block]:
        figures = {**self.figures, "layer": str(head.layer), "head": str(head.head)}
        yield _section(self.texts["chosen"].format(**figures))
        yield from self.grid("scores", head.scores, 1, 2)
        yield from self.grid("probabilities", head.probabilities, 100, 1)

    def grid(
        self, title: str, numbers: list[list[float]], times: int, decimals: int
    ) -> Iterator[Block]:
        """Show a matrix as a table with a row and a column for each token."""
        formula = self.texts["step"][title]["formula"]
        yield Paragraph(plain(f"{self.texts[title]}  {formula}"))
        tokens = [printable(token) for token, _, _ in self.trace.tokens]
        rows = []
        for token, row in zip(tokens, numbers, strict=True):
            rows.append((token, *(_score(value * times, decimals) for value in row)))
        yield WideTable(Table(("", *tokens), tuple(rows), "<" + ">" * len(tokens)))


def _section(title: str, *paragraphs: str) -> Block:
    """Return a heading followed by paragraphs."""
    below = [Paragraph(plain(paragraph)) for paragraph in paragraphs]
    return Together((Heading(2, plain(title)), *below))


def _layer_row(layer: int, steps: Sequence[Step]) -> tuple[str, ...]:
    """Return a layer as one row: its shape, parameters, FLOPs and values."""
    parameters, flops = 0, 0
    for step in steps:
        parameters += step.own_parameters
        flops += step.flops
    last = steps[-1]
    counts = (units.count(parameters), units.count(flops))
    return (str(layer), _shape(last.shape), *counts, *last.values.shown.values())


_POOLER = ("first", "pooler", "pooled")


def _shape(shape: Iterable[object]) -> str:
    return f"({', '.join(map(str, shape))})"


def _score(value: float, decimals: int) -> str:
    """Write a score; a dash stands for nan, infinity and masked tokens."""
    if not math.isfinite(value) or abs(value) >= _MASKED:
        return "-"
    return units.fixed(round(value, decimals) + 0.0, decimals)  # no -0.00


_MASKED = 1e30  # a mask adds the lowest number of a dtype, which is below minus this one
