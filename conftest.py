"""Marks the tests that need PyTorch, and leaves out those that need a missing package.

A test file needs PyTorch if it imports it, directly or indirectly; a single test does if it imports
it inside. Both get the mark ``torch``. Files that need a missing package are left out, and the
report's header names them; single tests are skipped. Without PyTorch the run should be quick: tests
with the mark ``slow`` are left out too, and properties are tried on fewer examples.
"""

from __future__ import annotations

import ast
import doctest
import importlib.util
import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

ROOT = Path(__file__).parent
SOURCES = (ROOT / "src", ROOT / "tests" / "support", ROOT / "tools")
HEAVY = {"sklearn", "tokenizers", "torch", "transformers"}
FEW_EXAMPLES = 20  # examples of each property in a quick run; hypothesis's default is 100

pytest_plugins = ["chinese", "sampling", "seed"]
os.environ["WEIGHBRIDGE_LANG"] = "en"  # whatever the machine's language is
settings.register_profile("quick", max_examples=FEW_EXAMPLES)


@cache
def packages(path: Path) -> frozenset[str]:
    """Return the packages that a file imports, directly or not, except this project's own."""
    needed, seen, waiting = set[str](), set[Path](), [path]
    while waiting:
        file = waiting.pop()
        if file in seen:
            continue
        seen.add(file)
        for module in imports(file)[0]:
            files = files_of(module)
            if files:
                waiting.extend(files)
            else:
                needed.add(module.partition(".")[0])
    return frozenset(needed)


def packages_inside(path: Path) -> dict[str, set[str]]:
    """Return the packages that each function of a file imports when it is called."""
    return imports(path)[1]


@cache
def imports(file: Path) -> tuple[tuple[str, ...], dict[str, set[str]]]:
    """Return the modules that a file imports, and the packages that each of its functions does."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    functions = [node for node in inside(tree) if isinstance(node, ast.FunctionDef)]
    return tuple(imported_modules(tree.body)), {
        node.name: {name.partition(".")[0] for name in imported_modules(import_statements(node))}
        for node in functions
    }


def import_statements(node: ast.AST) -> list[ast.stmt]:
    """Return the imports inside a node."""
    return [one for one in inside(node) if isinstance(one, ast.Import | ast.ImportFrom)]


def inside(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements inside a node, at any depth."""
    for part in ("body", "handlers", "orelse", "finalbody", "cases"):
        for statement in getattr(node, part, ()):
            yield statement
            yield from inside(statement)


def imported_modules(statements: list[ast.stmt]) -> Iterator[str]:
    """Yield the modules that statements import when they run, without imports for types."""
    waiting = list(statements)
    while waiting:
        statement = waiting.pop()
        if isinstance(statement, ast.Import):
            yield from (alias.name for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom) and statement.module:
            yield statement.module
            yield from (f"{statement.module}.{alias.name}" for alias in statement.names)
        elif isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING":
            waiting += statement.orelse
        elif isinstance(statement, ast.If | ast.Try | ast.With):
            waiting += [
                part for part in ast.iter_child_nodes(statement) if isinstance(part, ast.stmt)
            ]


@cache
def files_of(module: str) -> tuple[Path, ...]:
    """Return the files of this project that importing a module runs."""
    pieces = module.split(".")
    places = [
        root.joinpath(*pieces[:depth]) for depth in range(1, len(pieces) + 1) for root in SOURCES
    ]
    files = [file for place in places for file in (place / "__init__.py", place.with_suffix(".py"))]
    return tuple(file for file in files if file.is_file())


@cache
def is_installed(package: str) -> bool:
    """Whether a package can be imported here."""
    return importlib.util.find_spec(package) is not None


def absent(path: Path) -> list[str]:
    """Return the packages that a file needs and that are missing."""
    return sorted(package for package in packages(path) if not is_installed(package))


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out a file whose import would fail."""
    if collection_path.suffix == ".py" and absent(collection_path):
        return True
    return None


def pytest_configure(config: pytest.Config) -> None:
    """Try properties on few examples in a quick run."""
    if not is_installed("torch") and not config.getoption("--hypothesis-profile"):
        settings.load_profile("quick")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests that need PyTorch, and leave out slow tests in a quick run."""
    for item in items:
        if item.path.suffix == ".py":
            function = getattr(item, "originalname", item.name)
            if HEAVY & {*packages(item.path), *packages_inside(item.path).get(function, ())}:
                item.add_marker("torch")
    if not is_installed("torch"):
        slow = [item for item in items if item.get_closest_marker("slow")]
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if item not in slow]


def pytest_report_header() -> list[str]:
    """Report how many files are left out, and the packages that they need."""
    left_out = [path for path in sorted((ROOT / "tests").rglob("test_*.py")) if absent(path)]
    lacking = sorted({package for path in left_out for package in absent(path)})
    return [f"left out: {len(left_out)} files that need {', '.join(lacking)}"] if left_out else []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None, None, None]:
    """Skip a test whose fixtures import a package that is not installed."""
    yield from _skipping()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, None, None]:
    """Skip a test that imports a package that is not installed."""
    yield from _skipping()


def _skipping() -> Generator[None, None, None]:
    try:
        yield
    except (ModuleNotFoundError, doctest.UnexpectedException) as error:
        reason = error.exc_info[1] if isinstance(error, doctest.UnexpectedException) else error
        while reason.__cause__ is not None:
            reason = reason.__cause__
        package = _missing(reason)
        if not package or package == "weighbridge" or is_installed(package):
            raise
        pytest.skip(f"{package} is not installed")


def _missing(reason: BaseException | None) -> str:
    """Return the package that a failed import names; a NameError has a name too, and is no such."""
    name = reason.name if isinstance(reason, ModuleNotFoundError) else None
    return (name or "").partition(".")[0]
