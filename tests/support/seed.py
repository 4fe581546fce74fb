"""The seed of random tests: the same every time, unless ``--seed`` gives another.

With a fixed seed, a change only fails for its own reasons. ``--seed=fresh`` draws a new seed for a
nightly run; the report begins with it, so ``--seed=THAT`` repeats the run.
"""

from __future__ import annotations

import secrets

import pytest

FIXED = "weighbridge"
FRESH = "fresh"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--seed",
        default=FIXED,
        help=f"seed of random tests: any text, or {FRESH} for a new seed (default: {FIXED})",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Draw a fresh seed once, before the processes of pytest-xdist get the options."""
    if config.option.seed == FRESH:
        config.option.seed = secrets.token_hex(4)


def pytest_report_header(config: pytest.Config) -> str:
    return f"seed: {config.option.seed}"


@pytest.fixture(scope="session")
def seed(pytestconfig: pytest.Config) -> str:
    """Return the seed of this run."""
    return str(pytestconfig.option.seed)
