"""The figures of a run as formulas: in the letters of a model, and b, s and p for the run."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, NamedTuple

from weighbridge.algebra.expr import evaluate, is_number, names_in, source, substitute
from weighbridge.algebra.polynomial import Polynomial, in_letters, symbols
from weighbridge.blueprint.bind import bound_size, each_place
from weighbridge.blueprint.operations import COMPUTE
from weighbridge.blueprint.paths import indices_in
from weighbridge.blueprint.schema import MOST_LAYERS
from weighbridge.costs.figures import BYTES, FLOPS, MOVED
from weighbridge.errors import WeighbridgeError
from weighbridge.ledger.letters import variables
from weighbridge.ledger.symbols import letters_of, meaning_of, size_symbols
from weighbridge.units import number, stored_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from weighbridge.algebra.expr import Tree
    from weighbridge.answers.cost import RunCost
    from weighbridge.answers.recorded import RecordedModel
    from weighbridge.blueprint.operations import OperationTemplate

RUN_LETTERS = {"batch": "b", "sequence": "s", "past": "p"}


class LayerCount(NamedTuple):
    """The number of layers in which a condition holds, with a name for formulas."""

    name: str
    value: int
    condition: str


class FormulaWriter:
    """Writes the operations of a class in letters; conditions have the values of one run.

    Example:
        >>> from weighbridge.answers.recorded import recorded
        >>> llama = recorded("meta-llama/Llama-3.1-8B")
        >>> writer = FormulaWriter(llama, llama.names(batch=1, past=4096), "BF16")
        >>> writer.text(writer.bytes_of("prefilled"))
        '4b·p·L·A_kv·D'
    """

    def __init__(self, found: RecordedModel, names: Mapping[str, Any], dtype: str) -> None:
        self._found, self._names, self._dtype = found, dict(names), dtype
        blueprint = found.weighing.model.blueprint
        self._bound, self._meaning = variables(names), symbols(blueprint.require.values())
        letters = dict(letters_of(blueprint))
        free = {name: of for name, of in RUN_LETTERS.items() if of not in letters.values()}
        self.letters: dict[str, str] = {**free, **letters}
        self.counts: dict[tuple[str, str], LayerCount] = {}
        """The counts of layers in the formulas so far, by index and condition."""

    def flops_of(self, kind: str) -> Polynomial:
        """Return the FLOPs of a kind of products."""
        return self._total(kind, lambda dims, _: 2 * prod(dims, start=_ONE))

    def bytes_of(self, kind: str) -> Polynomial:
        """Return the bytes of a kind of tensors."""

        def size(dims: list[Polynomial], dtype: str) -> Polynomial:
            stored = stored_bytes(1, self._dtype if dtype == COMPUTE else dtype)
            return stored * prod(dims, start=_ONE)

        return self._total(kind, size)

    def moved_by(self, kind: str) -> Polynomial:
        """Return the bytes that a kind of products moves."""
        stored = stored_bytes(1, self._dtype)

        def moved(dims: list[Polynomial], _: str) -> Polynomial:
            batch, rows, inner, columns = dims
            return stored * batch * (rows * inner + inner * columns + rows * columns)

        return self._total(kind, moved)

    def _total(self, kind: str, size: Any) -> Polynomial:
        total = Polynomial({})
        for entry in self._found.known.entries(self._found.class_name, kind):
            number_of_places = self._places(entry)
            if number_of_places:
                dims = [self._in_letters(dim) for dim in entry.dims]
                times = self._in_letters(entry.times)
                total += number_of_places * times * size(dims, entry.dtype)
        return total

    def _in_letters(self, tree: Tree) -> Polynomial:
        return in_letters(tree, self._bound, self._meaning, {})

    def _places(self, entry: OperationTemplate) -> Polynomial | int:
        """Return the number of places of an operation, with a name if not in every layer."""
        repeat = self._found.known.repeat
        counts = {
            index: bound_size(repeat[index], self._names, 0, MOST_LAYERS)
            for index in indices_in(entry.path)
        }
        everywhere = each_place(tuple(counts), self._names, lambda index, _: counts[index])
        when = entry.when
        places = [place for place in everywhere if when is None or evaluate(when, place)]
        if len(places) == prod(counts.values()):
            return prod([self._in_letters(repeat[index]) for index in counts], start=_ONE)
        if len(places) < 2 or when is None:
            return len(places)
        indices = [index for index in counts if index in names_in(when)]
        key = (", ".join(indices), source(when))
        if key not in self.counts:
            self.counts[key] = LayerCount(f"n_{len(self.counts) + 1}", len(places), source(when))
        return Polynomial.of(self.counts[key].name)

    def text(self, formula: Polynomial) -> str:
        """Write a formula in letters."""
        return formula.text(self.letters, self._outside)

    def fields(self, formula: Polynomial) -> str:
        """Write a formula in the names of fields, as Python except for counts of layers."""
        return source(formula.tree(self._outside, tuple(self.letters)))

    @property
    def _outside(self) -> list[str]:
        repeats = sorted(self._found.weighing.model.blueprint.repeats)
        return [*repeats, *(count.name for count in self.counts.values())]

    def value(self, formula: Polynomial) -> int:
        """Return the value of a formula in this run."""
        counts = {count.name: count.value for count in self.counts.values()}
        value: int = formula(**self._names, **counts)
        return value

    def legend(self, formulas: Iterable[Polynomial], lang: str) -> Iterator[tuple[str, str, str]]:
        """Yield each letter in some formulas, its value, and its field or the meaning of it."""
        used = set[str]().union(*[formula.fields() for formula in formulas])
        known = [name for name in self.letters if name in used]
        for name in (*known, *sorted(used - set(known))):
            value: Any = self._names.get(name)
            if is_number(value):
                meaning = name
                if name.rpartition(".")[2] in size_symbols():
                    meaning = meaning_of(name, lang)
                yield self.letters.get(name, name), number(value), meaning
        for count in self.counts.values():
            if count.name in used:
                yield count.name, number(count.value), count.condition


_ONE = Polynomial({(): 1})


def _in_sequence(name: str) -> Tree:
    """Return the sequence in place of the tokens in the cache."""
    if name == "past":
        return ("name", "sequence")
    return ("name", name)


class CostFormulas:
    """The formulas of the figures of a run, each checked against its figure.

    Bytes moved have none if one weight holds several experts: the tokens decide which are used.

    Example:
        >>> from weighbridge.answers.cost import cost
        >>> formulas = CostFormulas(cost("bert-base-chinese", sequence=512))
        >>> formulas.texts["forward_matmul_flops"]
        'L·(8b·s·H² + 4b·s²·H + 4b·s·H·F) + 2b·H²'
    """

    def __init__(self, cost: RunCost) -> None:
        self.writer = FormulaWriter(cost.found, cost.names, cost.run.dtype)
        self.polynomials: dict[str, Polynomial] = {}
        for kind in cost.operations:
            if kind in BYTES:
                self.polynomials[BYTES[kind]] = self.writer.bytes_of(kind)
                continue
            self.polynomials[FLOPS[kind]] = self.writer.flops_of(kind)
            if kind in MOVED and not cost.attribution.has_stacks:
                self.polynomials[MOVED[kind]] = self.writer.moved_by(kind)
        if cost.cache_bytes is not None:
            self.polynomials["cache_bytes"] = self._of_cache(cost)
        for name, formula in self.polynomials.items():
            if self.writer.value(formula) != cost.figures[name]:
                raise WeighbridgeError(
                    "its formula and the sum of its operations differ",
                    where=name,
                    hint="please report it, with the config",
                )

    def _of_cache(self, cost: RunCost) -> Polynomial:
        """Return the bytes of the cache; without a step, the sequence is what is in it."""
        if cost.run.past is not None:
            return self.writer.bytes_of("stepped")

        of_prefill = self.writer.bytes_of("prefilled")
        return of_prefill.rewritten(lambda tree: source(substitute(tree, _in_sequence)))

    @property
    def texts(self) -> dict[str, str]:
        """Each formula in letters, by the name of its figure."""
        return {name: self.writer.text(formula) for name, formula in self.polynomials.items()}

    def to_dict(self) -> dict[str, dict[str, str]]:
        """Return each formula in letters and in the names of fields."""
        writer = self.writer
        return {
            name: {"letters": writer.text(formula), "fields": writer.fields(formula)}
            for name, formula in self.polynomials.items()
        }

    def legend(self, lang: str) -> list[tuple[str, str, str]]:
        """Return each letter, its value, and the meaning of it."""
        return list(self.writer.legend(self.polynomials.values(), lang))
