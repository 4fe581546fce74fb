"""The seed of tests that draw at random: the same every time, unless ``--seed`` names another.

A change then fails for its own reasons alone. ``--seed=fresh`` draws a new seed for a nightly run;
the report begins with it, so that ``--seed=THAT`` repeats the run.
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
        help=f"of what tests draw at random: a text, or {FRESH} for a new one (default: {FIXED})",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Draw a fresh seed once; the processes of pytest-xdist get the options after this."""
    if config.option.seed == FRESH:
        config.option.seed = secrets.token_hex(4)


def pytest_report_header(config: pytest.Config) -> str:
    return f"seed: {config.option.seed}"


@pytest.fixture(scope="session")
def seed(pytestconfig: pytest.Config) -> str:
    """Return the seed of this run."""
    return str(pytestconfig.option.seed)
