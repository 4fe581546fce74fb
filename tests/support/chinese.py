"""While tests run, every error that the package raises must have a translation.

It looks at errors as they are made, whichever test makes them, so that no list of messages has to
be kept. A test that makes one without a translation fails.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import weighbridge
from weighbridge.data import LANGUAGES
from weighbridge.errors import WeighbridgeError
from weighbridge.render.messages import translation

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

PACKAGE = str(Path(weighbridge.__file__).parent)
MOST_CHECKED = 20  # texts of one line of code: a fuzzer makes thousands

checked: Counter[tuple[str, int]] = Counter()
untranslated: list[str] = []
make_error = WeighbridgeError.__init__


def make_and_check(error: WeighbridgeError, *arguments: Any, **named: Any) -> None:
    """Make an error, and note what it says that has no translation."""
    make_error(error, *arguments, **named)
    caller = sys._getframe(1)
    line = caller.f_code.co_filename, caller.f_lineno
    checked[line] += 1
    if line[0].startswith(PACKAGE) and checked[line] <= MOST_CHECKED:
        untranslated.extend(f"{Path(line[0]).name}:{line[1]}: {text}" for text in missing(error))


def missing(error: WeighbridgeError) -> Iterator[str]:
    """Yield the texts of an error that some language lacks."""
    names = (name for name in error.values if isinstance(name, str) and " " in name)
    for text in filter(None, (error.what, error.hint, *names)):
        for lang in LANGUAGES[1:]:
            if translation(text, lang) is None:
                yield f"no {lang}: {text}"


def pytest_configure() -> None:
    """Watch the making of errors."""
    WeighbridgeError.__init__ = make_and_check  # type: ignore[method-assign]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    """Fail a test that made an error without a translation."""
    untranslated.clear()
    result = yield
    if untranslated:
        listing = "\n".join(dict.fromkeys(untranslated))
        pytest.fail(f"add it to data/words/messages:\n{listing}", pytrace=False)
    return result
