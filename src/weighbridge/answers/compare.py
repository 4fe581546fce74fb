"""Models and checkpoints side by side, and what each field that differs is worth."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, Any

from weighbridge.answers.answer import TabularAnswer
from weighbridge.answers.bridge import Bridge, bridge_between
from weighbridge.answers.compared import FIGURES, ComparedModel, compared_model
from weighbridge.answers.cost import SEQUENCE
from weighbridge.answers.data_table import INTEGER, Column, DataTable
from weighbridge.answers.recorded import check_size
from weighbridge.answers.weigh import Weighing, weigh
from weighbridge.errors import ExpressionError, UsageError, either, nearest
from weighbridge.ledger.field_shares import Ends, FieldShares
from weighbridge.models.find import thawed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from weighbridge.ledger.field_shares import Player
    from weighbridge.models.find import Described
    from weighbridge.render.document import Document

GROUPINGS = ("component", "field", "cell", "figure")
_FEWEST = 2
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_RELATIVE = re.compile(r"[+-]\d+")


def compare(
    *models: Described,
    class_name: str | None = None,
    sequence: int = SEQUENCE,
    dtype: str | None = None,
) -> SideBySide:
    """Compare models, configs and checkpoints: by component, in total, and field by field.

    Args:
        models: two or more, each as for `weigh`, or the path of a checkpoint's file as for
            `inspect`. The others are compared with the first.
        class_name: the class of every model; by default that of each, as for `weigh`.
        sequence: the tokens of the cache, and of the forward pass whose FLOPs are compared.
        dtype: the dtype of every model's bytes; by default each model's own.

    Raises:
        UsageError: there are fewer than two models, or a size makes no sense.
        ModelError: there is no such model, family, file or class.
        ConfigError: a config cannot be read, or describes no buildable model.
        CheckpointError: a checkpoint cannot be read.

    Example:
        >>> sizes = compare("bert-base-uncased", "bert-large-uncased")
        >>> sizes.status, sizes.differences["attention"]
        (1, 72413184)
        >>> sizes.shares[0].rounded_by_player[("num_hidden_layers",)]
        117056000
    """
    if len(models) < _FEWEST:
        raise UsageError("two models are compared, or more", hint="give another model")
    if len(models) > len(_LETTERS):
        raise UsageError(
            "too many models to compare",
            values={"models": len(models)},
            hint=f"give at most {len(_LETTERS)}",
        )
    check_size("seq", sequence)
    sides = [compared_model(model, class_name, sequence, dtype) for model in models]
    return SideBySide(sides, sequence)


def what_if(
    model: Described,
    fields: Mapping[str, Any],
    class_name: str | None = None,
    *,
    sequence: int = SEQUENCE,
    dtype: str | None = None,
) -> SideBySide:
    """Compare a model with itself after some fields of its config have changed.

    Args:
        model: as for `weigh`.
        fields: new values of fields; a number written as ``"+2"`` or ``"-2"``, or a negative
            integer, is added to the field's value.
        class_name: as for `weigh`.
        sequence: as for `compare`.
        dtype: as for `compare`.

    Raises:
        UsageError: no field changes, or an amount is given for a field that is no integer.
        ModelError: there is no such model, family, file or class.
        ConfigError: the config cannot be read, or describes no buildable model with the changes.

    Example:
        >>> smaller = what_if("bert-base-uncased", {"num_hidden_layers": "-2"})
        >>> smaller.sides[1].weighing.model.fields["num_hidden_layers"], smaller.difference
        (10, -14175744)
    """
    if not fields:
        raise UsageError(
            "no field is changed", hint="change one, for example --set num_hidden_layers=-2"
        )
    check_size("seq", sequence)
    before = weigh(model, class_name, dtype=dtype)
    changed = {name: _changed(before, name, value) for name, value in fields.items()}
    after = weigh(before.model.config, before.class_name, fields=changed, dtype=dtype)
    sides = [compared_model(weighing, None, sequence, dtype) for weighing in (before, after)]
    sides[1] = sides[1]._replace(name=sides[0].name)
    return SideBySide(sides, sequence, changed)


def _changed(weighing: Weighing, name: str, value: Any) -> Any:
    """Return the new value of a field, which may be given as an amount to add."""
    is_amount = isinstance(value, str) and _RELATIVE.fullmatch(value)
    if not is_amount and not (type(value) is int and value < 0):
        return value
    blueprint, known = weighing.model.blueprint, weighing.model.fields
    field = blueprint.aliases.get(name, name)
    if field not in known:
        near = nearest(sorted(known), field) or sorted(known)
        raise UsageError(
            f"{blueprint.family} has no field {name}", hint=f"did you mean {either(near)}?"
        )
    if type(known[field]) is not int:
        raise UsageError(
            "an amount can only be added to an integer",
            values={name: thawed(known[field])},
            hint="give the new value itself",
        )
    return known[field] + int(value)


class SideBySide(TabularAnswer):
    """What `compare` returns.

    ``sides`` are the models in their order. ``csv()``, ``records()`` and their kind take ``by``:
    ``"component"``, ``"field"``, ``"cell"`` (a component's share of a field) or ``"figure"``.

    Example:
        >>> sizes = compare("bert-base-uncased", "bert-large-uncased")
        >>> sizes.difference == sum(sizes.shares[0].rounded_by_player.values())
        True
        >>> sizes.records(by="component")[0]
        {'component': 'embedding.token', 'A': 23440896, 'B': 31254528, 'difference': 7813632}
    """

    groupings = GROUPINGS

    def __init__(
        self,
        sides: Sequence[ComparedModel],
        sequence: int,
        changed: Mapping[str, Any] | None = None,
    ) -> None:
        self.sides, self.sequence = list(sides), sequence
        self.changed = changed
        """The fields that a what-if has changed; None if the models were given."""

    @property
    def letters(self) -> str:
        """The letter of each model: A is the first."""
        return _LETTERS[: len(self.sides)]

    @property
    def status(self) -> int:
        """1 if a number differs, 0 if none does, or if it was asked what would differ."""
        return int(self.changed is None and self.differs)

    @property
    def differs(self) -> bool:
        """Whether a component or a figure differs that is known of both models."""
        first, *others = self.sides
        for other in others:
            if first.counted() != other.counted():
                return True
            for name in FIGURES:
                known = (first.figures[name], other.figures[name])
                if None not in known and known[0] != known[1]:
                    return True
        return False

    @property
    def notes(self) -> list[str]:
        """Notes on how the configs were read, each once."""
        found = [note for side in self.sides for note in side.notes]
        return list(dict.fromkeys(found))

    @property
    def components(self) -> list[str]:
        """The components of all models, in the order of the first that has them."""
        names = (name for side in self.sides for name in side.components)
        return list(dict.fromkeys(names))

    @property
    def differences(self) -> dict[str, int]:
        """The difference of each component between the first two models."""
        before, after = (side.components for side in self.sides[:_FEWEST])
        return {name: after.get(name, 0) - before.get(name, 0) for name in self.components}

    @property
    def difference(self) -> int:
        """The difference of the parameters of the first two models."""
        before, after = self.sides[:_FEWEST]
        return after.parameters - before.parameters

    @cached_property
    def shares(self) -> list[FieldShares | None]:
        """What each field is worth between the first model and each other one.

        None where the two are not configs of one class, or no closed form holds for both.
        """
        return [self._shares_with(other) for other in self.sides[1:]]

    def _shares_with(self, other: ComparedModel) -> FieldShares | None:
        before, after = self.sides[0].weighing, other.weighing
        if before is None or after is None or not _are_alike(before, after):
            return None
        ledger = before.ledger
        ends = Ends(ledger.blueprint, ledger.class_name, ledger.fields, after.ledger.fields)
        try:
            shares = FieldShares(ends)
        except ExpressionError:
            return None
        both = (_nonzero(shares.before), _nonzero(shares.after))
        if both != (self.sides[0].counted(), other.counted()):
            return None  # the closed form is not that of both ledgers
        return shares

    @cached_property
    def bridges(self) -> list[Bridge | None]:
        """The steps from the first model to each other one of another family or class.

        None where the two have shares, or no such steps.
        """
        found = []
        for other, shares in zip(self.sides[1:], self.shares, strict=True):
            before, after = self.sides[0].weighing, other.weighing
            is_wanted = shares is None and before is not None and after is not None
            bridge = None
            if is_wanted and not _are_alike(before, after):  # type: ignore[arg-type]
                bridge = bridge_between(before, after)  # type: ignore[arg-type]
            found.append(bridge)
        return found

    def other_fields(self, other: ComparedModel) -> dict[str, tuple[Any, Any]]:
        """Return what else differs between two configs: fields that are in no formula."""
        before, after = self.sides[0].weighing, other.weighing
        if before is None or after is None:
            return {}
        left, right, known = before.model.given, after.model.given, before.model.blueprint.fields
        aliases = before.model.blueprint.aliases
        found = {}
        for name in dict.fromkeys([*left, *right]):
            if left.get(name) != right.get(name) and aliases.get(name, name) not in known:
                found[name] = (left.get(name), right.get(name))
        return found

    def to_dict(
        self,
        by: str = "component",  # noqa: ARG002  # as for an inspection, it has all groupings
    ) -> dict[str, Any]:
        """Return everything, ready for JSON."""
        sides = zip(self.letters, self.sides, strict=True)
        return {
            "models": {letter: side.to_dict() for letter, side in sides},
            "sequence": self.sequence,
            "changed": self.changed and {name: thawed(v) for name, v in self.changed.items()},
            "differs": self.differs,
            "comparisons": [self._compared(at) for at in range(1, len(self.sides))],
            "notes": self.notes,
        }

    def _compared(self, at: int) -> dict[str, Any]:
        first, other = self.sides[0], self.sides[at]
        shares, bridge = self.shares[at - 1], self.bridges[at - 1]
        return {
            "from": self.letters[0],
            "to": self.letters[at],
            "difference": other.parameters - first.parameters,
            "components": {
                name: other.components.get(name, 0) - first.components.get(name, 0)
                for name in self.components
            },
            "shares": shares and shares_to_dict(shares),
            "bridge": bridge
            and {
                "family_step": bridge.step,
                "components": bridge.step_by_component,
                "shares": shares_to_dict(bridge.shares),
            },
        }

    def document(
        self,
        lang: str = "en",
        by: str = "component",  # noqa: ARG002  # the text has all groupings
    ) -> Document:
        """Return the components, the figures and the fields as tables."""
        from weighbridge.answers import compare_table  # noqa: PLC0415  # JSON does without

        return compare_table.comparison_document(self, lang)

    def _data_table(self, by: str) -> DataTable:
        if by == "component":
            return self._lines(by, self._component_rows())
        if by == "figure":
            return self._lines(by, self._figure_rows())
        texts = (Column("from"), Column("to"))
        if by == "cell":
            columns = (*texts, Column("component"), Column("field"), Column("share", INTEGER))
            return DataTable(columns, list(self._cells()))
        values = (Column("field"), Column("before"), Column("after"))
        numbers = (Column("share", INTEGER), Column("alone", INTEGER))
        return DataTable((*texts, *values, *numbers), list(self._field_rows()))

    def _lines(self, by: str, rows: Iterable[tuple[Any, ...]]) -> DataTable:
        """Return a table with a column for each model, and one for the difference of two."""
        columns = [Column(by), *(Column(letter, INTEGER) for letter in self.letters)]
        if len(self.sides) == _FEWEST:
            columns.append(Column("difference", INTEGER))
            rows = [(*row, _known_difference(*row[1:])) for row in rows]
        return DataTable(tuple(columns), list(rows))

    def _component_rows(self) -> Iterator[tuple[Any, ...]]:
        for name in self.components:
            yield (name, *(side.components.get(name, 0) for side in self.sides))

    def _figure_rows(self) -> Iterator[tuple[Any, ...]]:
        for name in FIGURES:
            yield (name, *(side.figures[name] for side in self.sides))

    def _shared(self) -> Iterator[tuple[str, FieldShares]]:
        """Yield each set of shares, with the letter of the model that they lead to."""
        for letter, shares, bridge in zip(self.letters[1:], self.shares, self.bridges, strict=True):
            if shares is not None:
                yield letter, shares
            elif bridge is not None:
                yield letter, bridge.shares

    def _cells(self) -> Iterator[tuple[Any, ...]]:
        for letter, shares in self._shared():
            for (component, player), share in shares.rounded_cells.items():
                yield self.letters[0], letter, component, player_name(player), share

    def _field_rows(self) -> Iterator[tuple[Any, ...]]:
        for letter, shares in self._shared():
            for player, share in shares.rounded_by_player.items():
                ends = [values_text(end, player) for end in (shares.ends.before, shares.ends.after)]
                alone = shares.alone[player]
                yield self.letters[0], letter, player_name(player), *ends, share, alone


def _are_alike(before: Weighing, after: Weighing) -> bool:
    """Whether two models are of one class of one family, with the same parts."""
    left, right = before.model.blueprint, after.model.blueprint
    return (
        left.family == right.family
        and left.composed == right.composed
        and before.class_name == after.class_name
    )


def _nonzero(counts: Mapping[str, int]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count}


def _known_difference(before: int | None, after: int | None) -> int | None:
    if before is None or after is None:
        return None
    return after - before


def player_name(player: Player) -> str:
    """Return the name of a player: its fields."""
    return " + ".join(player)


def values_text(fields: Mapping[str, Any], player: Player) -> str:
    """Return the values of a player's fields as text."""
    import json  # noqa: PLC0415  # not all answers show values

    return " + ".join(json.dumps(thawed(fields.get(name))) for name in player)


def shares_to_dict(shares: FieldShares) -> dict[str, Any]:
    """Return shares, ready for JSON; exact values are fractions as text."""
    before, after = shares.ends.before, shares.ends.after
    fields = []
    for player, share in shares.by_player.items():
        values = {name: [thawed(before[name]), thawed(after.get(name))] for name in player}
        fields.append(
            {
                "fields": values,
                "share": shares.rounded_by_player[player],
                "exact": str(share.value),
                "alone": shares.alone[player],
            }
        )
    cells: dict[str, dict[str, int]] = {}
    for (component, player), value in shares.rounded_cells.items():
        cells.setdefault(component, {})[player_name(player)] = value
    unchanged = {}
    for name in shares.without_effect:
        unchanged[name] = [thawed(before[name]), thawed(after[name])]
    return {
        "difference": shares.difference,
        "fields": fields,
        "together": shares.alone[None],
        "cells": cells,
        "without_effect": unchanged,
    }
