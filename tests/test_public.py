"""The public surface, and what importing it costs."""

from __future__ import annotations

import doctest
import importlib
import inspect
import json
import pkgutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import weighbridge

if TYPE_CHECKING:
    from collections.abc import Callable

SURFACE = {
    "Row",
    "WeighbridgeError",
    "Weighing",
    "__version__",
    "audit",
    "cache",
    "compare",
    "cost",
    "design",
    "explain",
    "explore",
    "families",
    "formula",
    "guess",
    "inspect",
    "lora",
    "plan",
    "quantize",
    "reconcile",
    "released",
    "serve",
    "sweep",
    "train",
    "tree",
    "verify",
    "weigh",
}
HEAVY = {"numpy", "torch", "click", "rich", "duckdb", "sympy", "dataclasses"}


def test_the_surface_is_these_names_and_small() -> None:
    assert set(weighbridge.__all__) == SURFACE
    assert len(weighbridge.__all__) == len(SURFACE) <= 26
    assert dir(weighbridge) == sorted(weighbridge.__all__)


@pytest.mark.parametrize("name", sorted(SURFACE))
def test_every_name_is_there_and_is_the_one_of_its_home(name: str) -> None:
    found = getattr(weighbridge, name)
    assert found is not None
    if name != "__version__":
        assert found.__name__ == name
        assert found.__doc__
        assert getattr(importlib.import_module(found.__module__), name) is found


FUNCTIONS = sorted(name for name in SURFACE if name.islower() and not name.startswith("_"))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_docstring_has_every_argument_the_errors_and_an_example(name: str) -> None:
    function = getattr(weighbridge, name)
    parameters = inspect.signature(function).parameters
    for parameter in parameters:
        assert f"\n        {parameter}: " in function.__doc__
    assert ("Raises:" in function.__doc__) == bool(parameters)
    (test,) = doctest.DocTestFinder(recurse=False).find(function, name)
    assert test.examples


@pytest.mark.parametrize(
    "question",
    [
        lambda: weighbridge.guess(None),
        lambda: weighbridge.verify("bert", None),
        lambda: weighbridge.weigh("bert", 3),
        lambda: weighbridge.weigh("bert", dtype=3),
        lambda: weighbridge.weigh("bert", fields=3),
        lambda: weighbridge.explain("bert", lang="tlh"),
        lambda: weighbridge.formula("bert", lang="tlh"),
        lambda: weighbridge.tree("bert").text(depth="x"),
    ],
)
def test_an_argument_of_the_wrong_kind_is_our_own_error(question: Callable[[], object]) -> None:
    with pytest.raises(weighbridge.WeighbridgeError):
        question()


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'weighbridge' has no attribute 'wiegh'"):
        _ = weighbridge.wiegh


def loaded_after(question: str) -> set[str]:
    """Return the modules that a fresh interpreter has loaded after it answers."""
    listing = "import json, sys; print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", f"{question}\n{listing}"], capture_output=True, text=True, check=True
    )
    return set(json.loads(done.stderr))


QUESTIONS = {
    "import": "import weighbridge",
    "all names": "from weighbridge import *",
    "weigh": "from weighbridge.cli import main; main(['weigh', 'bert-base-chinese'])",
    "weigh in Python": (
        "import weighbridge;"
        " print(weighbridge.weigh('bert-base-chinese').formula(vocab_size=30522))"
    ),
    "json": "from weighbridge.cli import main; main(['bert-base-chinese', '--json'])",
    "cost": (
        "from weighbridge.cli import main;"
        " main(['cost', 'meta-llama/Llama-3.1-8B', '--train', '--json'])"
    ),
    "cache": (
        "import weighbridge; print(weighbridge.cache('meta-llama/Llama-3.1-8B', context=4096))"
    ),
    "lora": "from weighbridge.cli import main; main(['lora', 'meta-llama/Llama-3.1-8B'])",
    "quantize": (
        "from weighbridge.cli import main;"
        " main(['quantize', 'meta-llama/Llama-3.1-8B', '--to', 'q4_k_m', '--json'])"
    ),
    "models": "from weighbridge.cli import main; main(['models'])",
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_loads_nothing_heavy(question: str) -> None:
    assert {name.partition(".")[0] for name in loaded_after(QUESTIONS[question])} & HEAVY == set()


def test_the_package_alone_loads_nothing_of_itself() -> None:
    loaded = loaded_after("import weighbridge")
    assert {name for name in loaded if name.startswith("weighbridge")} == {"weighbridge"}


def test_a_name_from_the_catalogue_is_weighed_without_readers_or_json() -> None:
    loaded = loaded_after(QUESTIONS["weigh"].replace("json", ""))
    assert "weighbridge.ledger.ledger" in loaded
    assert not any(name.startswith("weighbridge.readers") for name in loaded)


def test_no_module_takes_the_place_of_a_public_name() -> None:
    modules = {module.name for module in pkgutil.iter_modules(weighbridge.__path__)}
    assert "ledger" in modules
    assert modules & SURFACE == set()
