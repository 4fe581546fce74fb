"""Every shipped blueprint against transformers: on random configs and on real ones.

`--seed` draws other random configs and other families to derive anew.
"""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers.models.auto import modeling_auto

from weighbridge.answers.explain import explain
from weighbridge.blueprint import law
from weighbridge.blueprint import schema as blueprint
from weighbridge.data import read_text, read_toml
from weighbridge.derive.derivation import derive
from weighbridge.derive.probing.probe import quick_building
from weighbridge.derive.probing.reference import FamilySubject
from weighbridge.derive.prove import draws, prove_class
from weighbridge.errors import WeighbridgeError
from weighbridge.ledger import ledger
from weighbridge.models import find as models

DATA = Path(__file__).parents[1] / "data"
FAMILIES = blueprint.families()
HELD = 2  # configs per class: the default and a random one; `derive` held 24 and more
DERIVED_ANEW = 3  # families per run
QUICK = 60_000  # characters of a blueprint that is derived in seconds
BASE_TYPES = 573  # at least this many model types of transformers have a blueprint
TASKS = (  # transformers' tables of task classes; nearly all are in the blueprints
    "CAUSAL_LM",
    "IMAGE_TEXT_TO_TEXT",
    "MASKED_LM",
    "MULTIMODAL_LM",
    "QUESTION_ANSWERING",
    "SEQ_TO_SEQ_CAUSAL_LM",
    "SEQUENCE_CLASSIFICATION",
    "SPEECH_SEQ_2_SEQ",
    "TOKEN_CLASSIFICATION",
)

with (DATA / "real.tsv").open(encoding="utf-8", newline="") as file:
    ROWS = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
TRUTH = [row for row in ROWS if row["base_parameters"] or row["arch_parameters"]]


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_blueprint_obeys_the_law(family: str) -> None:
    law.check(read_toml(f"blueprints/{family}.toml"), family)


def test_most_model_types_have_a_blueprint() -> None:
    assert len(modeling_auto.MODEL_MAPPING_NAMES.keys() & set(FAMILIES)) >= BASE_TYPES


@pytest.mark.parametrize("task", TASKS)
def test_nearly_every_task_class_has_a_blueprint_where_its_base_has(task: str) -> None:
    named: dict[str, Any] = getattr(modeling_auto, f"MODEL_FOR_{task}_MAPPING_NAMES")
    classes = [
        (name in blueprint.load(family).class_names, f"{family}: {name}")
        for family, names in named.items()
        if family in FAMILIES
        for name in ([names] if isinstance(names, str) else names)
    ]
    lacking = [name for has, name in classes if not has]
    assert len(lacking) <= 0.05 * len(classes), lacking


@pytest.mark.sampled(
    "src/weighbridge/ledger", "src/weighbridge/blueprint", "src/weighbridge/algebra"
)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_blueprint_gives_what_the_reference_builds(family: str, seed: str) -> None:
    ours = blueprint.load(family)
    subject = _subject(family)
    subject.task_classes()
    configs = [
        dict(subject.start),
        *({**subject.start, **changes} for changes in draws(ours, seed, 12)),
    ]
    with quick_building():  # once for all classes, since it takes time to begin and to end
        for class_name in ours.class_names:
            found = prove_class(ours, subject, class_name, configs, most=HELD)
            assert not found.mismatches, f"{class_name}: {found.mismatches[0].text}"
            built = found.configs or class_name != ours.base_class
            assert built, f"no config of {family} was built"


def _subject(family: str) -> FamilySubject:
    """Return a family's subject; skip the test if the family needs a missing package."""
    subject = FamilySubject(family)
    try:
        with quick_building(), torch.device("meta"):
            subject.build(subject.base_class, subject.config(subject.start))
    except ImportError as error:
        pytest.skip(str(error).strip().partition("\n")[0])
    except NameError as error:
        if error.name != "timm":
            raise
        pytest.skip(str(error))
    return subject


def _some_families(seed: str) -> list[str]:
    """Return some families that are derived quickly and need no missing package."""
    quick = [name for name in FAMILIES if len(read_text(f"blueprints/{name}.toml")) < QUICK]
    quick = [name for name in quick if "timm" not in read_text(f"blueprints/{name}.toml")]
    return random.Random(seed).sample(quick, min(DERIVED_ANEW, len(quick)))  # noqa: S311


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "drawn_family" in metafunc.fixturenames:
        metafunc.parametrize("drawn_family", _some_families(metafunc.config.option.seed))


@pytest.mark.sampled(
    "src/weighbridge/derive", "src/weighbridge/blueprint", "src/weighbridge/algebra"
)
def test_a_blueprint_is_derived_again_byte_for_byte(drawn_family: str) -> None:
    derived = derive(_subject(drawn_family))
    assert derived.text == read_text(f"blueprints/{drawn_family}.toml")


def _read(row: dict[str, str]) -> dict[str, Any]:
    config: dict[str, Any] = json.loads((DATA / "real" / row["file"]).read_text(encoding="utf-8"))
    return config


@pytest.mark.parametrize("row", TRUTH, ids=lambda row: row["model_id"])
def test_a_real_config_weighs_what_transformers_counts(row: dict[str, str]) -> None:
    config = {
        **_read(row),
        "model_type": row["model_type"],
    }  # one of them, Kimi-K2, was counted as another type in the truth table
    try:
        found = models.find(config)
    except WeighbridgeError as error:
        pytest.fail(str(error))
    expected = {
        row["base_class"]: row["base_parameters"],
        row["arch_class"]: row["arch_parameters"],
    }
    for class_name, parameters in expected.items():
        if parameters and class_name in found.blueprint.class_names:
            assert ledger.bind(found.blueprint, class_name, found.fields).parameters == int(
                parameters
            ), class_name


@pytest.mark.sampled(
    "src/weighbridge/ledger", "src/weighbridge/blueprint", "src/weighbridge/algebra"
)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_class_is_weighed_at_its_defaults_as_its_formula_says(family: str) -> None:
    found = models.find(family)
    for class_name in found.blueprint.class_names:
        weighed = ledger.bind(found.blueprint, class_name, found.fields)
        assert weighed.formula()(**found.fields) == weighed.parameters, class_name
        assert weighed.stored.parameters == weighed.parameters, class_name
        assert all(row.parameters == 0 for row in weighed.buffers()), class_name


@pytest.mark.sampled("src/weighbridge/answers/explain")
@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_is_explained(family: str) -> None:
    assert f"{models.find(family).blueprint.base_class}" in explain(family).text()
