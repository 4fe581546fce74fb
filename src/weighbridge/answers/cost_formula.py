"""The figures of a run as formulas: in the letters of a model, and b, s and p for the run."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, NamedTuple

from weighbridge.algebra.expr import evaluate, is_number, names_in, source, substitute
from weighbridge.algebra.polynomial import Polynomial, in_letters, symbols
from weighbridge.answers.run_totals import RunTotals
from weighbridge.errors import WeighbridgeError
from weighbridge.ledger.letters import variables
from weighbridge.ledger.symbols import letters_of, meaning_of, size_symbols
from weighbridge.units import number

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


class FormulaWriter(RunTotals):
    """Writes the operations of a class in letters; conditions have the values of one run.

    Example:
        >>> from weighbridge.answers.recorded import recorded
        >>> llama = recorded("meta-llama/Llama-3.1-8B")
        >>> writer = FormulaWriter(llama, llama.names(batch=1, past=4096), "BF16")
        >>> writer.text(writer.bytes_of("prefilled"))
        '4b·p·L·A_kv·D'
    """

    one = Polynomial({(): 1})

    def __init__(self, found: RecordedModel, names: Mapping[str, Any], dtype: str) -> None:
        super().__init__(found, names, dtype)
        blueprint = found.weighing.model.blueprint
        self._bound, self._meaning = variables(names), symbols(blueprint.require.values())
        letters = dict(letters_of(blueprint))
        free = {name: of for name, of in RUN_LETTERS.items() if of not in letters.values()}
        self.letters: dict[str, str] = {**free, **letters}
        self.counts: dict[tuple[str, str], LayerCount] = {}
        """The counts of layers in the formulas so far, by index and condition."""

    def _size(self, tree: Tree) -> Polynomial:
        return in_letters(tree, self._bound, self._meaning, {})

    def _places(self, entry: OperationTemplate) -> Polynomial | int:
        """Return the number of places of an operation, with a name if not in every layer."""
        counts, repeat = self._counts(entry), self._found.known.repeat
        when = entry.when
        places = [
            place for place in self._everywhere(counts) if when is None or evaluate(when, place)
        ]
        if len(places) == prod(counts.values()):
            return prod([self._size(repeat[index]) for index in counts], start=self.one)
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
        has_moved = not cost.attribution.has_stacks
        self.polynomials: dict[str, Polynomial] = self.writer.of_kinds(
            cost.operations, moved=has_moved
        )
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
        kind = "prefilled" if cost.run.past is None else "stepped"
        held: Polynomial = self.writer.bytes_of(kind)
        if cost.run.past is not None:
            return held
        return held.rewritten(lambda tree: source(substitute(tree, _in_sequence)))

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
