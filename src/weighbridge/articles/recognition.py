"""Recognises numbers that the model of an article has: sizes, parts, totals and published ones.

A number in prose, such as "the embeddings have 23,837,184 parameters", is not a calculation, but
the model says what it is.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from weighbridge import units
from weighbridge.articles.arithmetic.byte_counts import may_be_bytes
from weighbridge.articles.verdicts import Known
from weighbridge.counting.parts import PartName
from weighbridge.counting.published import known_claims
from weighbridge.counting.reconciliation import read_number, reconcile_simply
from weighbridge.errors import WeighbridgeError
from weighbridge.models.find import find

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from weighbridge.articles.text.exact import Number
    from weighbridge.counting.parts import PartIndex
    from weighbridge.counting.reconciliation import PublishedNumber
    from weighbridge.ledger.ledger import Ledger
    from weighbridge.models.find import Model

LEAST_PART = 1000
"""Smaller numbers, such as 12 or 768, are sizes or counts, not numbers of parameters."""
_LEAST_FIELD = 16  # a size of the model; smaller numbers have too many meanings
_LEAST_TOTAL = 10**6  # a number of parameters that may be a whole model's
_MOST_SEARCHED = 40  # different numbers that are searched for; each takes milliseconds


class Recognition:
    """Looks numbers up among the sizes and the parts of an article's model, and of others."""

    def __init__(
        self,
        fields: Mapping[str, int],
        models: Sequence[Model],
        parts: Sequence[PartIndex],
        results: Mapping[Fraction, int],
        ledgers: Sequence[Ledger] = (),
    ) -> None:
        """Take the sizes, the models with the parts of each, and the line of each result.

        The article's own model comes first; ``ledgers`` are those of its classes.
        """
        self._ledgers = ledgers
        self._field_of: dict[Fraction, str] = {}
        for field, value in fields.items():
            self._field_of.setdefault(Fraction(value), field)
        self._model_field_of: dict[Fraction, str] = {}
        for model in models:
            for field, value in model.values.items():
                if isinstance(value, int) and value >= _LEAST_FIELD:
                    self._model_field_of.setdefault(Fraction(value), field)
        heads, hidden = fields.get("num_attention_heads"), fields.get("hidden_size")
        if heads and hidden:
            self._field_of.setdefault(Fraction(hidden, heads), "head_dim")
        self._models, self._parts, self._results = models, parts, results
        self._searched: dict[PublishedNumber, Known | None] = {}

    def __call__(self, number: Number) -> Known | None:
        """Return how a number is known; None if it is not."""
        if number.byte_scales:
            return self._bytes(number)
        if number.text.endswith("%"):
            return None
        field = self._field_of.get(number.value)
        if field:
            return Known("size_again", {"field": field})
        field = self._model_field_of.get(number.value)
        if field:
            return Known("model_size", {"field": field})
        part = self.part_with(number.value)
        if part:
            return Known("part", {"part": part})
        line = self._results.get(number.value)
        if line:
            return Known("earlier", {"line": str(line)})
        return self._total(number)

    def part_with(self, value: Fraction) -> PartName | None:
        """Return the likeliest part with this number of parameters."""
        if value < LEAST_PART or value.denominator > 1:
            return None
        for parts in self._parts:
            names = parts.named(int(value))
            if names:
                return names[0]
        for ledger in self._ledgers:
            if ledger.has_experts and ledger.active == value:
                return PartName("model", int(value), 0, only="active")
        return None

    def _bytes(self, number: Number) -> Known | None:
        """Return the whole model whose parameters take so many bytes."""
        for ledger in self._ledgers:
            if may_be_bytes(Fraction(ledger.parameters), number):
                return Known("table_bytes", {"part": units.count(ledger.parameters)})
        return None

    def _total(self, number: Number) -> Known | None:
        """Return the count of a whole model that a number states or rounds to."""
        if number.value < _LEAST_TOTAL:
            return None
        try:
            wanted = read_number(number.text)
        except WeighbridgeError:
            return None
        if wanted not in self._searched and len(self._searched) < _MOST_SEARCHED:
            self._searched[wanted] = self._search(wanted)
        return self._searched.get(wanted)

    def _search(self, wanted: PublishedNumber) -> Known | None:
        families = {model.blueprint.family for model in self._models}
        for claim in known_claims(wanted):
            if find(claim.model).blueprint.family in families:
                return Known("published", {"claim": claim})
        for model in self._models:
            for way in reconcile_simply(model, wanted):
                return Known("total", {"way": way})
        return None
