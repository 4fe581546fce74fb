"""A trace: the way of a text through a model, step by step, as an article tells it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from weighbridge import data, units
from weighbridge.errors import printable
from weighbridge.ledger.symbols import meaning_of, size_symbols
from weighbridge.render.table import COLUMNS, Table, text, width, wrap
from weighbridge.render.words import words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


class Values(NamedTuple):
    """The range of the values that a step gives."""

    minimum: float
    maximum: float
    mean: float

    @property
    def shown(self) -> dict[str, str]:
        """The three as text."""
        largest = max(abs(self.minimum), abs(self.maximum))
        return {name: units.measured(value, largest) for name, value in self._asdict().items()}


class Parameter(NamedTuple):
    """A tensor of parameters that a step uses: ``elements`` are 0 where it is tied, and so counted at ``tied_to``."""

    name: str
    shape: tuple[int, ...]
    elements: int
    tied_to: str | None


class Step(NamedTuple):
    """What happens to the text at one place of the model.

    Args:
        name: which step it is; `words/trace.*.toml` has its sentences.
        layer: the layer it is in, where it is in one.
        dims: the sizes of its values, by the fields that give them; ``tokens`` is the text's, a
            number is itself.
        shape: the same in numbers, as they were seen.
        parameters: those it uses.
        module: the module whose parameters they are.
        flops: of its products of matrices, 2·m·k·n each.
        values: the range of what it gives.
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
        """How many parameters it uses that no step before it does."""
        return sum(parameter.elements for parameter in self.parameters)

    @property
    def letters(self) -> tuple[str, ...]:
        """The dims in letters."""
        return tuple(map(letter, self.dims))


class Head(NamedTuple):
    """The scores and the probabilities of one head: the token of a row looks at that of a column."""

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
    known = size_symbols().get(field)
    return known.letter if known else field


class Trace(NamedTuple):
    """What `weighbridge.torch.tracing.trace` returns.

    ``tokens`` are each a token, its id and its segment. ``opened`` is the layer to tell in full,
    ``unused`` are the parameters that no step used.
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
    notes: tuple[str, ...]

    @property
    def parameters(self) -> int:
        """How many parameters the steps use, those that are tied counted once."""
        return sum(step.own_parameters for step in self.steps)

    @property
    def flops(self) -> int:
        """The FLOPs of all products of matrices."""
        return sum(step.flops for step in self.steps)

    def text(self, lang: str = "en") -> str:
        """Write the trace for a terminal; of one head, its scores and probabilities alone."""
        return "\n".join(_Writer(self, lang).lines())

    def to_dict(self) -> dict[str, Any]:
        """Return everything, ready for JSON; a value that is no number is None."""
        return {
            "model": self.where,
            "class": self.class_name,
            "texts": list(self.texts),
            "tokens": [
                dict(zip(("token", "id", "segment"), token, strict=True)) for token in self.tokens
            ],
            "sizes": {
                letter(field): {"field": field, "value": value}
                for field, value in self.sizes.items()
            },
            "steps": [_to_dict(step) for step in self.steps],
            "parameters": self.parameters,
            "unused": [parameter._asdict() for parameter in self.unused],
            "flops": self.flops,
            "head": self.head
            and {name: _finite(value) for name, value in self.head._asdict().items()},
            "notes": list(self.notes),
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
    """Return a value, or a list of them, with None for what is no number: JSON has no word for that."""
    if isinstance(value, list):
        return [_finite(one) for one in value]
    return value if math.isfinite(value) else None


_MOST_IN_ROWS = 24  # tokens; more of them are told as a paragraph
_LONGEST_TOKEN = 12  # terminal columns, at the head of a table


class _Writer:
    """A trace in the words of a language."""

    def __init__(self, trace: Trace, lang: str) -> None:
        self.trace, self.lang = trace, lang
        words(lang)
        self.said = data.read_toml(f"words/trace.{lang}.toml")
        self.figures = {letter(field): units.count(value) for field, value in trace.sizes.items()}
        self.figures["activation"] = trace.activation
        self.number = 0

    def lines(self) -> Iterator[str]:
        yield wrap(f"{printable(self.trace.where)} · {self.trace.class_name}")
        yield from (wrap(f"“{printable(of)}”") for of in self.trace.texts)
        if self.trace.head:
            yield from self.head(self.trace.head)
            return
        yield from self.tokens()
        steps = self.trace.steps
        inside = [at for at, step in enumerate(steps) if step.layer is not None]
        yield from self.part("embeddings", steps[: inside[0]])
        yield from self.layers([steps[at] for at in inside])
        after = steps[inside[-1] + 1 :]
        is_pooler = [step.name in _POOLER for step in after]
        yield from self.part(
            "pooler", [step for step, of in zip(after, is_pooler, strict=True) if of]
        )
        yield from self.part(
            "head", [step for step, of in zip(after, is_pooler, strict=True) if not of]
        )
        yield from self.together()

    def heading(self, title: str) -> Iterator[str]:
        yield from ("", title, "-" * width(title))

    def tokens(self) -> Iterator[str]:
        yield from self.heading(self.said["tokens"])
        key = "tokens_text_pair" if len(self.trace.texts) > 1 else "tokens_text"
        yield from (wrap(self.said[key].format(**self.figures), indent=""), "")
        tokens = [
            (printable(token), str(id_), str(segment)) for token, id_, segment in self.trace.tokens
        ]
        if len(tokens) > _MOST_IN_ROWS:
            yield wrap(" · ".join(f"{token} {id_}" for token, id_, _ in tokens), indent="")
            return
        rows = tuple((str(place), *token) for place, token in enumerate(tokens))
        yield text(Table(tuple(self.said["token_header"]), rows, "><>>"))

    def part(self, title: str, steps: Sequence[Step], **more: str) -> Iterator[str]:
        if steps:
            yield from self.heading(self.said[title].format(**more))
        for step in steps:
            yield from self.step(step)

    def step(self, step: Step) -> Iterator[str]:
        self.number += 1
        said, number = self.said["step"][step.name], f"{self.number}. "
        indent = " " * len(number)
        yield ""
        yield wrap(
            f"{number}{said['title']}  {said['formula'].format(**self.figures)}", indent=indent
        )
        facts = [said["text"].format(**self.figures), self.values(step), *self.used(step)]
        yield from (_indented(fact, indent) for fact in facts)

    def values(self, step: Step) -> str:
        shape = _shape(step.shape)
        in_letters = f"({', '.join(step.letters)})"
        both = shape if in_letters == shape else f"{in_letters} = {shape}"
        return str(self.said["values"].format(shape=both, **step.values.shown))

    def used(self, step: Step) -> Iterator[str]:
        """Yield which parameters a step uses, and its FLOPs, on one line."""
        facts = []
        if step.own_parameters:
            facts.append(
                self.said["parameters"].format(
                    parameters=units.count(step.own_parameters), at=step.module
                )
            )
        tied = [parameter for parameter in step.parameters if parameter.tied_to]
        facts += [
            self.said["tied"].format(at=parameter.name, to=parameter.tied_to) for parameter in tied
        ]
        if step.flops:
            facts.append(self.said["flops"].format(flops=units.count(step.flops)))
        if facts:
            yield self.said["and"].join(facts)

    def layers(self, steps: Sequence[Step]) -> Iterator[str]:
        """Tell one layer in full, and the others in a row each."""
        of_layer: dict[int, list[Step]] = {}
        for step in steps:
            of_layer.setdefault(step.layer or 0, []).append(step)
        first, last = min(of_layer), max(of_layer)
        opened = {"layer": str(self.trace.opened), "first": str(first), "last": str(last)}
        yield from self.part(
            "layer" if last > first else "layer_alone", of_layer[self.trace.opened], **opened
        )
        if last > first:
            yield from self.heading(self.said["layers"])
            yield from (wrap(self.said["layers_text"], indent=""), "")
            rows = tuple(
                self.row(layer, found)
                for layer, found in of_layer.items()
                if layer != self.trace.opened
            )
            yield text(Table(tuple(self.said["layer_header"]), rows, "><>>>>>"))

    def row(self, layer: int, steps: Sequence[Step]) -> tuple[str, ...]:
        counts = (sum(step.own_parameters for step in steps), sum(step.flops for step in steps))
        given = steps[-1]
        return (
            str(layer),
            _shape(given.shape),
            *map(units.count, counts),
            *given.values.shown.values(),
        )

    def together(self) -> Iterator[str]:
        trace = self.trace
        counts = {"parameters": units.count(trace.parameters), "flops": units.count(trace.flops)}
        yield from self.heading(self.said["total"])
        yield wrap(self.said["total_text"].format(**counts), indent="")
        if trace.unused:
            number = units.count(sum(parameter.elements for parameter in trace.unused))
            names = self.said["and"].join(
                sorted({parameter.name.rpartition(".")[0] for parameter in trace.unused})
            )
            unused = {"parameters": number, "class": trace.class_name, "names": names}
            yield wrap(self.said["unused_text"].format(**unused), indent="")
        used = {dim for step in trace.steps for dim in step.dims}
        told = [
            f"{letter(field)} = {units.count(value)} {meaning_of(field, self.lang)}"
            for field, value in trace.sizes.items()
            if field in used
        ]
        yield wrap(self.said["letters"].format(letters=self.said["and"].join(told)), indent="")

    # One head

    def head(self, head: Head) -> Iterator[str]:
        figures = {**self.figures, "layer": str(head.layer), "head": str(head.head)}
        yield from self.heading(self.said["chosen"].format(**figures))
        yield from self.grid("scores", head.scores, 1, 2)
        yield from self.grid("probabilities", head.probabilities, 100, 1)

    def grid(
        self, title: str, numbers: list[list[float]], times: int, decimals: int
    ) -> Iterator[str]:
        """Tabulate a token-by-token matrix, as many columns at a time as fit."""
        tokens = [_cut(printable(token)) for token, _, _ in self.trace.tokens]
        cells = [[_cell(value * times, decimals) for value in row] for row in numbers]
        yield from (
            "",
            wrap(f"{self.said[title]}  {self.said['step'][title]['formula']}", indent=""),
            "",
        )
        widths = [
            2 + max(width(token), *(len(row[column]) for row in cells))
            for column, token in enumerate(tokens)
        ]
        room = COLUMNS - max(map(width, tokens))
        for number, block in enumerate(_blocks(widths, room)):
            rows = tuple(
                (token, *(row[at] for at in block))
                for token, row in zip(tokens, cells, strict=True)
            )
            yield from [""] if number else []
            yield text(Table(("", *(tokens[at] for at in block)), rows, "<" + ">" * len(block)))


_POOLER = ("first", "pooler", "pooled")


def _shape(shape: Iterable[int]) -> str:
    return f"({', '.join(map(str, shape))})"


def _indented(paragraph: str, indent: str) -> str:
    return "\n".join(
        indent + line for line in wrap(paragraph, COLUMNS - len(indent), indent="").split("\n")
    )


def _cell(value: float, decimals: int) -> str:
    """Write a score; one that is no number, or of a token that must not be looked at, is a dash."""
    shown = math.isfinite(value) and abs(value) < _MASKED
    return units.fixed(round(value, decimals) + 0.0, decimals) if shown else "-"  # no -0.00


_MASKED = 1e30


def _cut(token: str) -> str:
    while width(token) > _LONGEST_TOKEN:
        token = f"{token.removesuffix('…')[:-1]}…"
    return token


def _blocks(widths: Sequence[int], room: int) -> Iterator[range]:
    """Yield the columns of each table: as many as there is room for, at least one."""
    start, used = 0, 0
    for at, wide in enumerate(widths):
        if at > start and used + wide > room:
            yield range(start, at)
            start, used = at, 0
        used += wide
    yield range(start, len(widths))
