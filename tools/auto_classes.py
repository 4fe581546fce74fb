"""Writes `facts/auto_classes.toml`: the classes of transformers' auto classes, by model type.

    python tools/auto_classes.py > src/weighbridge/data/facts/auto_classes.toml

Only the auto classes that a blueprint's `[parts]` name are listed; `AutoModel` gives a family's
base class. The defaults are those of fields that models read from a sub-config of any type.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import TYPE_CHECKING

import transformers
from transformers.models.auto import configuration_auto, modeling_auto

from weighbridge import data
from weighbridge.algebra.expr import evaluate, parse
from weighbridge.blueprint.composition import AUTO_MODEL, listed_parts
from weighbridge.blueprint.schema import families, sections

if TYPE_CHECKING:
    from collections.abc import Iterator

STAGED_SIZE = "embed_dim * 2 ** (len(depths) - 1)"
FIELDS = ("tie_word_embeddings",)


def main() -> None:
    """Print the file."""
    print(f"# The auto classes of transformers {transformers.__version__}, and defaults of fields.")
    print("# `python tools/auto_classes.py` writes this file; do not edit it.")
    known = set(families())
    for auto_class in sorted(asked_auto_classes()):
        table = getattr(transformers, auto_class, None) or getattr(modeling_auto, auto_class)
        print(f"\n[classes.{auto_class}]")
        for family, names in sorted(table._model_mapping._model_mapping.items()):
            if family in known:
                name = names if isinstance(names, str) else names[0]
                print(f'"{family}" = "{name}"')
    for field in FIELDS:
        defaults = dict(defaults_of(field, known))
        usual = Counter(map(repr, defaults.values())).most_common(1)[0][0]
        print(f"\n[defaults.{field}]\nany = {usual.lower()}")
        for family, value in sorted(defaults.items()):
            if repr(value) != usual:
                print(f'"{family}" = {repr(value).lower()}')
    print("\n[computed.hidden_size]")
    for family in sorted(known):
        if _is_staged(family):
            print(f'"{family}" = "{STAGED_SIZE}"')


def _is_staged(family: str) -> bool:
    """Whether a config class computes its hidden size from the size of its first stage."""
    computed = set()
    for changes in ({}, {"embed_dim": 40}, {"embed_dim": 24, "depths": [1, 2, 1]}):
        try:
            config = configuration_auto.CONFIG_MAPPING[family](**changes)
            expected = evaluate(parse(STAGED_SIZE), vars(config))
        except Exception:
            return False
        computed.add(getattr(config, "hidden_size", None) == expected)
    return computed == {True}


def asked_auto_classes() -> set[str]:
    """Return the auto classes that blueprints name, without `AutoModel`."""
    asked = set()
    for family in families():
        for section in sections(data.read_toml(f"blueprints/{family}.toml")).values():
            for part in listed_parts(section):
                asked.update(part.auto_classes)
    return asked - {AUTO_MODEL}


def defaults_of(field: str, known: set[str]) -> Iterator[tuple[str, bool]]:
    """Yield the default of a field for each family whose config can be made."""
    for family in sorted(known):
        with contextlib.suppress(Exception):
            # Some classes need arguments.
            config = configuration_auto.CONFIG_MAPPING[family]()
            yield family, bool(getattr(config, field, False))


if __name__ == "__main__":
    main()
