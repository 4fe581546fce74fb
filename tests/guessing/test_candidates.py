"""The names of a family find it, even renamed or incomplete; other names find nothing."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from weighbridge.blueprint import schema as blueprint
from weighbridge.errors import WeighbridgeError
from weighbridge.guessing.candidates import (
    MOST_CLASSES,
    MOST_PATTERNS,
    MOST_USED_CLASSES,
    Names,
    closest,
    patterned,
)
from weighbridge.ledger import ledger
from weighbridge.ledger.rows import Row
from weighbridge.readers import StoredCheckpoint

if TYPE_CHECKING:
    from collections.abc import Iterable

    from weighbridge.guessing.candidates import Fit

MOST_TENSORS = 1_500  # of a family at its defaults
FAMILIES = random.Random(0).sample(blueprint.families(), 40)  # noqa: S311


def found(names: Iterable[str]) -> StoredCheckpoint:
    rows = tuple(Row(name, (2, 2), "F32", "", (), 4, 4) for name in names)
    return StoredCheckpoint("a.safetensors", "safetensors", rows, {}, (), 0, {}, {}, (), None)


def first_batch(names: Iterable[str]) -> list[Fit]:
    return next(closest(found(names)), [])


def names_of(family: str, class_name: str, layers: int = 2) -> list[str]:
    of = blueprint.load(family)
    fields = {**of.at_defaults, "num_labels": 2, "num_hidden_layers": layers}
    stored = ledger.bind(of, class_name, fields).stored
    return [row.name for row in stored.rows if not row.tied_to]


BERT = names_of("bert", "BertModel")


# Names of known families


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_s_own_names_find_it(family: str) -> None:
    of = blueprint.load(family)
    try:
        stored = ledger.bind(of, of.base_class, {**of.at_defaults, "num_labels": 2}).stored
    except WeighbridgeError:
        pytest.skip("its defaults do not describe a model")
    if not 0 < stored.tensors <= MOST_TENSORS:
        pytest.skip("too many tensors, or none")
    fits = first_batch(row.name for row in stored.rows if not row.tied_to)
    assert {fit.unknown for fit in fits} == {0}
    assert {fit.lacking for fit in fits[:1]} == {0}
    same_file = {fit.blueprint.family for fit in fits if (fit.unknown, fit.lacking) == (0, 0)}
    assert family in same_file or len(fits) == MOST_CLASSES + MOST_USED_CLASSES


def test_the_class_of_the_names_comes_first() -> None:
    fits = first_batch(names_of("bert", "BertForMaskedLM"))
    assert (fits[0].blueprint.family, fits[0].class_name) == ("bert", "BertForMaskedLM")
    assert (fits[0].unknown, fits[0].lacking) == (0, 0)


def test_tensors_are_held_by_template_and_layer() -> None:
    fit = next(fit for fit in first_batch(BERT) if fit.class_name == "BertModel")
    held = {template.name: places for template, places in fit.held.items()}
    name = "encoder.layer.{i}.attention.self.query.weight"
    assert held[name] == [((0,), (2, 2)), ((1,), (2, 2))]
    assert sum(len(places) for places in fit.held.values()) == len(BERT)


@pytest.mark.parametrize(
    "names",
    [
        [name.replace("LayerNorm.weight", "LayerNorm.gamma") for name in BERT],
        [f"bert.{name}" for name in BERT],
        [name.removeprefix("bert.") for name in names_of("bert", "BertForMaskedLM")],
        BERT[: len(BERT) // 2],
        list(reversed(BERT)),
    ],
    ids=["old names", "prefix", "no prefix", "part", "reversed"],
)
def test_names_find_their_family_in_other_forms(names: list[str]) -> None:
    fits = first_batch(names)
    assert fits[0].unknown == 0
    assert "bert" in {fit.blueprint.family for fit in fits}


def test_a_missing_tensor_is_lacking() -> None:
    fits = first_batch(name for name in BERT if not name.startswith("pooler.dense."))
    fit = next(fit for fit in fits if fit.class_name == "BertModel")
    assert (fit.unknown, fit.lacking) == (0, 2)


def test_a_foreign_tensor_is_unknown() -> None:
    fits = first_batch([*BERT, "strange.thing", "strange.other"])
    assert fits[0].unknown == 2


def test_an_index_beyond_all_tensors_is_unknown() -> None:
    fits = first_batch([*BERT, "encoder.layer.9000.output.dense.bias"])
    assert fits[0].unknown == 1


def test_those_with_fewer_unknown_and_lacking_tensors_come_first() -> None:
    fits = first_batch(BERT)
    misfits = [(fit.unknown, fit.lacking, fit.spare) for fit in fits]
    late = max(0, len(fits) - MOST_CLASSES)
    assert misfits[late:] == sorted(misfits[late:])
    assert misfits[:late] <= [(0, 0, misfit[2]) for misfit in misfits[:late]]
    assert late <= MOST_USED_CLASSES


# Names of no family


@pytest.mark.parametrize(
    "names", [[], ["qqq"], ["zzz.0.qqq", "zzz.1.qqq"], [""], ["encoder_layer_0"], ["0.0.0"]]
)
def test_names_of_no_family_find_none(names: list[str]) -> None:
    assert all(fit.unknown == len(names) for fits in closest(found(names)) for fit in fits)


# Patterns of names


@pytest.mark.parametrize(
    ("name", "pattern", "numbers"),
    [
        ("weight", "weight", ()),
        ("layers.11.weight", "layers.*.weight", (11,)),
        ("layers.0.experts.12.w1", "layers.*.experts.*.w*", (0, 12, 1)),
        ("layers.007.weight", "layers.*.weight", (7,)),
        ("layers.999999.weight", "layers.*.weight", (999999,)),
        ("layers.1000000.weight", "layers.1000000.weight", ()),
    ],
)
def test_a_pattern_has_stars_for_numbers(name: str, pattern: str, numbers: tuple[int, ...]) -> None:
    assert patterned(name) == (pattern, numbers)


def test_tensors_are_grouped_by_pattern() -> None:
    names = Names(found(["a.0.x", "a.1.x", "b"]))
    assert names.patterns == {"a.*.x": [((0,), (2, 2)), ((1,), (2, 2))], "b": [((), (2, 2))]}
    assert names.first == {"a.*.x": "a.0.x", "b": "b"}
    assert (names.others, names.index_limit) == (0, 3)


def test_only_the_most_frequent_patterns_are_compared() -> None:
    letters = [chr(ord("a") + digit) for digit in range(10)]
    rare = ["".join(letters[int(digit)] for digit in str(at)) for at in range(MOST_PATTERNS)]
    names = Names(found([*rare, "layers.0.w", "layers.1.w"]))
    assert len(names.patterns) == MOST_PATTERNS
    assert len(names.patterns["layers.*.w"]) == 2
    assert names.others == 1
