"""Checks the guards of a blueprint: conditions that keep a config on code that was proved."""

from __future__ import annotations

from weighbridge.algebra.expr import evaluate, names_in, parse
from weighbridge.errors import ConfigError, ExpressionError
from weighbridge.lean_typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

VIA_TRANSFORMERS = "count it with --via transformers, if transformers is installed"
COUNT_BUILT = "build the module and count it with weighbridge.weigh(module)"


def check_guards(
    guards: Mapping[str, str],
    fields: Mapping[str, Any],
    name: str,
    where: str = "",
    hint: str = VIA_TRANSFORMERS,
) -> None:
    """Refuse a config that would run reference code which no probe reached.

    Args:
        guards: conditions on the fields, each with the line of code that it excludes.
        fields: a value, or an array of values, for every field.
        name: the family or class that the guards belong to.
        where: the config.
        hint: what to do instead.

    Raises:
        ConfigError: a condition does not hold.

    Example:
        >>> check_guards({"labels < 10": "head.py: `self.mlp = …`"}, {"labels": 9}, "bert")
    """
    for rule, line in guards.items():
        tree = parse(rule)
        try:
            holds = evaluate(tree, fields)
        except ExpressionError:
            holds = False  # the code might take the branch
        if hasattr(holds, "all"):
            holds = bool(holds.all())
        if holds is not True:
            what = (
                f"the blueprint of {name} covers only configs with {rule}, "
                f"because no probe reached {line}"
            )
            values = {field: fields[field] for field in dict.fromkeys(names_in(tree))}
            raise ConfigError(what, where=where, values=values, hint=hint)
