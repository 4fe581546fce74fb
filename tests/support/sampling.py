"""A whole run takes a sample of the cases of some tests; a run that names tests takes each case.

The mark ``sampled`` stands on tests whose cases are alike, such as one for each family, and on long
tests of one part of the code, which it names: ``sampled("web")``. ``pytest`` without paths or
``-k`` takes one case in ``SHARE`` of them, the same ones each time, and besides those that the last
commits may have broken:

- the cases that are named after a file of data that these commits touched;
- all cases of a test whose file they touched, or whose part of the code.

``--cases=all`` takes every case, as a run at night and one before a release do. The head of the
report says which.
"""

from __future__ import annotations

import re
import subprocess
import zlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DATA = "src/weighbridge/data/"
COMMITS = 20  # so many are the last ones
SHARE = 6  # one case in so many
NAMES = re.compile(r"\w+")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--cases",
        choices=("all", "some"),
        help="all cases of each test, or a sample (default: some, but all where tests are named)",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Choose once, before the processes of pytest-xdist get the options."""
    if config.option.cases is None:
        named = config.args_source is not pytest.Config.ArgsSource.TESTPATHS
        config.option.cases = "all" if named or config.option.keyword else "some"


def pytest_report_header(config: pytest.Config) -> str:
    return f"cases: {config.option.cases}"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the cases of sampled tests that this run does not take."""
    if config.option.cases == "all":
        return
    files = touched()
    left_out = {item for item in items if not is_taken(item, files)}
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]


def is_taken(item: pytest.Item, files: list[str]) -> bool:
    """Whether a run takes a case, after commits that touched these files."""
    mark = item.get_closest_marker("sampled")
    return mark is None or is_drawn(item.nodeid) or is_near(item.nodeid, mark.args, files)


def is_drawn(case: str) -> bool:
    """Whether a case belongs to the sample."""
    return zlib.crc32(case.encode()) % SHARE == 0


def is_near(case: str, parts: tuple[str, ...], files: list[str]) -> bool:
    """Whether a case is of one of these files: its test, its part of the code, or its data."""
    test, _, named = case.partition("[")
    own = (test.partition("::")[0], *parts)
    names = {Path(file).name.partition(".")[0] for file in files if file.startswith(DATA)}
    return any(file.startswith(own) for file in files) or not names.isdisjoint(NAMES.findall(named))


def touched() -> list[str]:
    """Return the files that the last commits touched; none if this is no clone."""
    log = ["git", "log", f"-{COMMITS}", "--name-only", "--format="]
    try:
        found = subprocess.run(log, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return []
    return sorted({*found.stdout.split("\n")} - {""})
