"""The pytest plugin for tools/mutants.py: quick properties, and docstrings as tests.

mutmut copies each function once per fault, with its docstring, and wraps it so that doctest no
longer finds it. The examples are therefore read from the sources in the repository.
"""

from __future__ import annotations

import ast
import doctest
import importlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest
from mutmut.state import state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parent.parent

hypothesis.settings.register_profile(
    "mutants",
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=50,
    phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
    suppress_health_check=list(hypothesis.HealthCheck),
)
hypothesis.settings.load_profile("mutants")


# Caches that live as long as the process, besides functions with `cache_clear`.
_MEMORIES = {"weighbridge.algebra.expr": ("PARSED", "_TREES")}


def pytest_sessionstart() -> None:
    """Clear the caches of the mutated modules: mutmut forks after a run without faults."""
    mutated = os.environ.get("MUTATED_MODULES", "").split()
    for name in mutated:
        members = vars(importlib.import_module(name))
        for member in members.values():
            if hasattr(member, "cache_clear"):
                member.cache_clear()
        for memory in _MEMORIES.get(name, ()):
            members[memory].clear()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the quick tests first: the first failure ends the run."""
    items.sort(key=lambda item: state().duration_by_test.get(item.nodeid, 0))


def examples(files: list[str]) -> Callable[[doctest.DocTest], None]:
    """Return a test for each docstring with examples in these files, relative to the root."""
    docstrings = [docstring for file in files for docstring in _docstrings(Path(file))]

    @pytest.mark.parametrize("docstring", docstrings, ids=lambda docstring: docstring.name)
    def test_example(docstring: doctest.DocTest) -> None:
        docstring.globs = vars(importlib.import_module(docstring.globs["__name__"])).copy()
        flags = doctest.NORMALIZE_WHITESPACE
        doctest.DebugRunner(optionflags=flags).run(docstring, clear_globs=False)

    return test_example


def _docstrings(file: Path) -> Iterator[doctest.DocTest]:
    parser = doctest.DocTestParser()
    module = ".".join(file.relative_to("src").with_suffix("").parts).removesuffix(".__init__")
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            text = ast.get_docstring(node) or ""
            name = f"{module}.{getattr(node, 'name', '')}"
            docstring = parser.get_doctest(text, {"__name__": module}, name, str(file), 0)
            if docstring.examples:
                yield docstring
