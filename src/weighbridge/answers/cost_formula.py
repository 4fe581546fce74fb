"""The figures of a run as formulas: in the letters of a model, and b, s and p for the run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weighbridge.algebra.expr import names_in, parse, source, substitute
from weighbridge.algebra.polynomial import Polynomial
from weighbridge.algebra.settle import settled
from weighbridge.answers.conditions import PlaceCounter, with_minima
from weighbridge.answers.recorded import learned_positions
from weighbridge.answers.run_totals import RunTotals
from weighbridge.blueprint.operations import OF_BACKWARD, RUN_NAMES
from weighbridge.errors import WeighbridgeError
from weighbridge.ledger.lettering import Lettering
from weighbridge.ledger.letters import Letters
from weighbridge.units import number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any

    from weighbridge.algebra.expr import Tree
    from weighbridge.answers.cost import RunCost
    from weighbridge.answers.recorded import RecordedModel
    from weighbridge.blueprint.operations import OperationTemplate

RUN_LETTERS = {
    "batch": "b",
    "sequence": "s",
    "target": "t",
    "past": "p",
    "context": "c",
    "images": "n",
    "patches": "g",
}
CONTEXT = {"past": parse("context - 1")}
"""A cache is written by the tokens in it: those before a step, and its own."""
_LONGEST: dict[str, Tree] = {
    "sequence": ("name", "sequence"),
    "past": ("+", ("name", "past"), ("value", 1)),
    "context": ("name", "context"),
}
"""The positions that each size of a run takes."""


class RunLettering(Lettering):
    """The letters of a model, and those for the sizes of a run (b, s, t, p, c), with their values.

    Its formulas hold where those of the parameters do, for as many positions as the model has, and
    for no more layers than its lists have items.
    """

    def __init__(self, found: RecordedModel, values: Mapping[str, Any]) -> None:
        super().__init__(found.weighing.ledger)
        self.values = {**self.ledger.fields, **_frozen(values)}
        letters = self.letters
        free = {name: of for name, of in RUN_LETTERS.items() if of not in letters.values()}
        self.letters = {**free, **letters}
        self.assumed: dict[Tree, None] = dict.fromkeys(found.known.whole)
        """The rules on sizes that the formulas written so far need."""
        self.deciding: set[str] = set()
        """The fields in the operations of the formulas written so far."""
        self.sizes_of_run: set[str] = set()
        """The names in the dims of these operations, which are positive."""
        self._positions = list(learned_positions(found))
        self._known, self._class_name = found.known, found.class_name

    def rules(self, computed: Mapping[str, Tree] | None = None) -> tuple[Tree, ...]:
        """Return the rules of the region in which the formulas hold."""
        own = [settled(rule, {}) for rule in self.assumed]
        for size in sorted(self.sizes_of_run & _LONGEST.keys()):
            own += [("<=", _LONGEST[size], ("name", name)) for name in self._positions]
        rules = dict.fromkeys([*super().rules(computed), *own])
        return tuple(rule for rule in rules if not self._is_sure(rule))

    def _is_sure(self, rule: Tree) -> bool:
        """Whether a rule always holds, as that a size is more than zero."""
        if rule[:2] == ("<", ("value", 0)) and rule[2][0] == "name":
            return self.least_of(rule[2][1]) == 1
        return rule == ("value", True)

    def note_saved(self, kind: str, entry: OperationTemplate) -> None:
        """Note the rule that `Operations.check_sizes` refuses configs by, where a size shows it."""
        if kind not in OF_BACKWARD:
            return
        named = {name for dim in entry.dims for name in names_in(dim)}
        for field in self._known.never_one:
            if field in named:
                self.assumed["<", ("value", 1), ("name", field)] = None
        attention = str(self.values["attention"])
        rules = self._known.rules_of_training(self._class_name, attention)
        self.assumed |= dict.fromkeys(rules)

    @property
    def fixed_names(self) -> tuple[str, ...]:
        """No fields: those that matter to a run decide its operations."""
        return ()

    def least_of(self, name: str) -> int | None:
        """Return the least value of a size of the model or of the run."""
        if name in self.sizes_of_run:
            return int(name not in ("images", "patches"))
        return super().least_of(name)

    def decided(self) -> dict[str, Any]:
        """Return the fields that decided which operations there are."""
        names = sorted(self.deciding & self.values.keys() - set(RUN_NAMES))
        return {name: self.values[name] for name in names}


class FormulaWriter(RunTotals):
    """Writes the operations of a class in letters.

    Conditions have the values of one run, unless they are ``free``: then they are part of the
    formulas, which hold for runs of any size. ``instead`` has expressions for names of the run.

    Example:
        >>> from weighbridge.answers.recorded import recorded
        >>> llama = recorded("meta-llama/Llama-3.1-8B")
        >>> writer = FormulaWriter(llama, llama.names(batch=1, past=4096), "BF16")
        >>> writer.lettering.text(writer.bytes_of("prefilled"))
        '4b·p·L·A_kv·D'
    """

    one = Polynomial({(): 1})

    def __init__(
        self,
        found: RecordedModel,
        names: Mapping[str, Any],
        dtype: str,
        *,
        free: bool = False,
        instead: Mapping[str, Tree] | None = None,
    ) -> None:
        super().__init__(found, names, dtype)
        self._instead = instead or {}
        self.lettering = RunLettering(found, names)
        values = self.lettering.values
        self._letters = Letters(found.weighing.model.blueprint, values)
        decided: Mapping[str, Any] = values
        if free:
            decided = {name: value for name, value in values.items() if type(value) is not int}
        self._counter = PlaceCounter(
            self._letters, found.known.repeat, decided, found.computed if free else {}
        )

    def _total(self, kind: str, size: Any, only: Callable[[str], bool] | None = None) -> Any:
        return with_minima(super()._total(kind, size, only), self._letters)

    def written(
        self, kind: str, only: Callable[[str], bool] | None = None
    ) -> Iterator[tuple[OperationTemplate, Polynomial, list[Polynomial]]]:
        """Yield each operation that exists in such runs, how often it is done, and its dims.

        ``only`` chooses the paths of modules.
        """
        for template in self._found.entries(kind):
            if only is not None and not only(template.path):
                continue
            entry = self._in_run(template)
            places = self._counter.places(entry)
            if places.terms:
                self._note(entry)
                self.lettering.note_saved(kind, entry)
                dims = [self._letters.of(dim) for dim in entry.dims]
                yield entry, places * self._letters.of(entry.times), dims

    def _in_run(self, template: OperationTemplate) -> OperationTemplate:
        """Return an operation with expressions instead of some names of the run."""
        if not self._instead:
            return template

        def changed(tree: Tree) -> Tree:
            return substitute(tree, lambda name: self._instead.get(name, ("name", name)))

        return template._replace(
            dims=tuple(map(changed, template.dims)),
            when=template.when and changed(template.when),
            times=changed(template.times),
        )

    def _note(self, entry: OperationTemplate) -> None:
        """Note what the formula of an operation depends on, and where it holds."""
        sizes = {name for dim in (*entry.dims, entry.times) for name in names_in(dim)}
        deciding = set(names_in(entry.when)) if entry.when else set()
        lettering, values = self.lettering, self.lettering.values
        lettering.sizes_of_run |= {name for name in sizes if type(values.get(name)) is int}
        lettering.deciding |= {
            name for name in sizes | deciding if type(values.get(name, 0)) is not int
        }
        lettering.assumed |= self._letters.assumed
        for name, rounds in self._counter.lists.items():
            if name not in self._found.computed:
                lettering.assumed[("<=", rounds, ("value", len(values[name])))] = None

    def value(self, formula: Polynomial) -> int:
        """Return the value of a formula in this run."""
        value: int = formula(**self.lettering.values)
        return value

    def legend(self, formulas: Iterable[Polynomial], lang: str) -> Iterator[tuple[str, str, str]]:
        """Yield each letter in some formulas, its value, and its field or the meaning of it."""
        lettering, formulas = self.lettering, list(formulas)
        used = {name for formula in formulas for name in lettering.named(formula).fields()}
        for size in lettering.sizes(formulas):
            yield size.letter, number(size.value), size.meaning(lang) or size.field
        for name in lettering.parts:
            if name in used:
                yield name, number(lettering.value(name)), lettering.part_meaning(name, lang)


def _frozen(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values with tuples in place of lists, as in a ledger."""
    return {
        name: tuple(value) if isinstance(value, list) else value for name, value in values.items()
    }


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
        lettering = self.writer.lettering
        return {name: lettering.text(formula) for name, formula in self.polynomials.items()}

    def to_dict(self) -> dict[str, dict[str, str]]:
        """Return each formula in letters and in the names of fields."""
        lettering = self.writer.lettering
        return {
            name: {"letters": lettering.text(formula), "fields": lettering.fields(formula)}
            for name, formula in self.polynomials.items()
        }

    def legend(self, lang: str) -> list[tuple[str, str, str]]:
        """Return each letter, its value, and the meaning of it."""
        return list(self.writer.legend(self.polynomials.values(), lang))
