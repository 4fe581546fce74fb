"""A whole run takes a sample of the cases of some tests; a run that names tests takes each case.

The mark ``sampled`` stands on tests whose cases are alike, such as one for each family, and on long
tests of one part of the code. It names the parts: ``sampled("web", "src/weighbridge/ledger")``.
``pytest`` without paths or ``-k`` takes one case in ``SHARE`` of them, the same ones each time, and
besides those that the last commits, or what is not committed yet, may have broken:

- the cases that are named after a file of data that was touched;
- all cases of a test whose file was touched, or one of whose parts.

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
    named = names_of(files)
    left_out = {item for item in items if not is_taken(item, files, named)}
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]


def is_taken(item: pytest.Item, files: list[str], named: re.Pattern[str]) -> bool:
    """Whether a run takes a case, where these files were touched."""
    mark = item.get_closest_marker("sampled")
    if mark is None or is_drawn(item.nodeid):
        return True
    test, _, case = item.nodeid.partition("[")
    near = (test.partition("::")[0], *mark.args)
    return any(file.startswith(near) for file in files) or named.search(case) is not None


def is_drawn(case: str) -> bool:
    """Whether a case belongs to the sample."""
    return zlib.crc32(case.encode()) % SHARE == 0


def names_of(files: list[str]) -> re.Pattern[str]:
    """Return a pattern of the names of files of data, such as families, as whole words.

    Example:
        >>> named = names_of(["src/weighbridge/data/blueprints/wav2vec2-bert.toml", "README.md"])
        >>> bool(named.search("wav2vec2-bert-base]")), bool(named.search("bert]"))
        (True, False)
    """
    names = [re.escape(Path(file).stem) for file in files if file.startswith(DATA)]
    return re.compile(rf"(?<!\w)(?:{'|'.join(names)})(?!\w)" if names else r"(?!)")


def touched() -> list[str]:
    """Return the files that the last commits touched, or that are not committed; none elsewhere.

    A clone with fewer commits than these has a first commit that touches every file.
    """
    commands = (
        ["git", "log", f"-{COMMITS}", "--name-only", "--format="],
        ["git", "diff", "--name-only", "HEAD"],
        ["git", "ls-files", "--others", "--exclude-standard"],
    )
    files = set[str]()
    for command in commands:
        try:
            found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            return []  # not a clone, or git is not installed
        files |= {*found.stdout.splitlines()}
    return sorted(files - {""})
